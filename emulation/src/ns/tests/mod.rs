//! Whole files, and what is made of them.
