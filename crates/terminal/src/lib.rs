//! The output of Roost's commands: data on stdout, messages on stderr, JSON for scripts, one sentence for every
//! error.
//!
//! `roost` and `emulate` share this, so that a user of one knows the other. Each has its own exit codes.
//!
//! - [`Output`] writes data and messages; [`OutputArgs`] are the flags for it.
//! - [`Table`] shows lists, [`Finding`] the results of a `doctor`.
//! - [`Steps`] shows progress.
//! - [`usage`] explains a wrong command line; [`generate`] makes help, completions and manual pages from its
//!   definition.

#![allow(missing_docs, reason = "only this workspace imports it")]

mod finding;
pub mod generate;
mod output;
mod steps;
mod table;
pub mod usage;

pub use finding::{Finding, Verdict, show};
pub use output::{ErrorReport, Output, OutputArgs, OutputError, SCHEMA};
pub use steps::{Steps, TICK};
pub use table::{Alignment, Table};
