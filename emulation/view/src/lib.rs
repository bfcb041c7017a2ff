//! The live page over a run, emulated or simulated: its network, and each moment of it.
//!
//! - [`Description`] is what the folder of a run says before its first record.
//! - `wires` keeps the links as faults and traces change them, and `radio_links` those of radios.
//! - [`RunRows`] makes rows of the page out of records.
//! - [`RunFollower`] reads the records as they are written, and [`serve()`] shows them.
#![allow(missing_docs, reason = "only crates of `emulation` import this one")]

mod description;
mod follow;
mod radio_links;
mod requests;
mod run_rows;
mod schedule;
mod serve;
mod tail;
#[cfg(test)]
mod testing;
mod wires;

pub use description::{Description, ViewError};
pub use follow::{FollowState, RunFollower};
pub use run_rows::RunRows;
pub use serve::serve;
