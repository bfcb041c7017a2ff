//! The command, run like by a user, where the wall clock decides nothing: files, reports, virtual time.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop where it stands")]

mod command_line;
mod ns_files;
mod report;
mod reproduce;
mod simulate;
mod topologies;
