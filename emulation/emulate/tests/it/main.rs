//! The command, run like by a user, where the wall clock decides nothing: files, reports, studies.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop where it stands")]

mod command_line;
mod motion;
mod ns_files;
mod report;
mod reproduce;
mod topologies;
mod traces;
