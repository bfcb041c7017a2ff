//! End-to-end tests of Roost that run the real binaries.
