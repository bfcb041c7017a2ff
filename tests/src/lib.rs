//! Helpers of the end-to-end tests: they start the real binaries as an operator would, and stop them.
#![allow(missing_docs, reason = "only the tests import it")]
#![allow(clippy::expect_used, reason = "this library only serves tests, which may stop with a message")]

pub mod adversary;
pub mod ffmpeg;
pub mod fuzz;
pub mod hostile;
pub mod hosts;
pub mod isolation;
pub mod lab;
pub mod later_version;
pub mod network;
pub mod pairwise;
pub mod process;
pub mod streams;
