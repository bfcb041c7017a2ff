//! Results of a run: the records that a run writes, their reader, and the figures that follow from them.
//!
//! A run writes two files, `events.jsonl` and `run.json` ([`record`]). [`read()`] reads them, and [`metrics`]
//! computes the figures, at any time after the run. Records are read and never changed; an older version refuses a
//! newer schema.
#![allow(missing_docs, reason = "only crates of `emulation` import this one")]

mod load;
mod measurement;
pub mod metrics;
mod read;
pub mod record;
mod run_record;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

pub use load::LoadMeter;
pub use read::{
    EVENTS_FILE, Incident, NodeSpan, PLAN_FILE, RUN_FILE, ReadError, Results, TOPOLOGY_FILE, TraceLoad, read, read_run,
};
