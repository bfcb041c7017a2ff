//! How Roost's commands speak: data on stdout, talk on stderr, JSON for
//! scripts, one sentence for whatever goes wrong.
//!
//! `roost` and `emulate` share this, so that whoever knows one knows the other.
//! What a command does, and its exit codes, are its own.
//!
//! - [`Output`] is where a command speaks; [`OutputArgs`] are the flags for it.
//! - [`Table`] is what lists are shown in, [`Finding`] what a `doctor` says.
//! - [`Steps`] shows that something is under way.
//! - [`usage`] explains a wrong command line; [`generate`] makes help,
//!   completions and manual pages from its definition.

mod finding;
pub mod generate;
mod output;
mod output_args;
mod steps;
mod table;
pub mod usage;

pub use finding::{Finding, Verdict, show};
pub use output::{ErrorReport, Output, OutputError, SCHEMA};
pub use output_args::OutputArgs;
pub use steps::{Steps, TICK};
pub use table::{Alignment, Table};
