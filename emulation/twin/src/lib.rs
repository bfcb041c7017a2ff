//! A twin of a running overlay: a network and a plan that follow from recordings of its hosts.
//!
//! - [`observe`] merges recordings: hosts, round trips, traffic, requests.
//! - [`Twin::new`] infers a network and a plan from them, each value with its source.
//! - [`compare`] holds a run of the plan against what was recorded.
//!
//! Nothing here has a clock or a file.
#![allow(missing_docs, reason = "only crates of `emulation` import this one")]

mod align;
mod compare;
mod counters;
mod delivered;
mod first_bytes;
mod hosts;
mod leg_rate;
mod legs;
mod network;
mod observe;
mod plan;
mod rates;
mod requests;
mod round_trips;
mod source;
mod twin;

#[cfg(test)]
mod tests;

pub use compare::{Agreement, Comparison, ComparisonRow, RowVerdict, compare};
pub use observe::{Observed, TwinError, observe};
pub use requests::{RequestRow, read_rows};
pub use source::{Certainty, SourcedValue};
pub use twin::{PLAN_FILE, REQUESTS_FILE, TOPOLOGY_FILE, Twin, VALUES_FILE};
