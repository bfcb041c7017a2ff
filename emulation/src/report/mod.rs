//! Results of a run: its records, its figures and its page.
//!
//! Everything is made from two files, `events.jsonl` and `run.json` ([`record`]): [`read`] reads them,
//! [`metrics`] computes the figures, and the pages are written from those. They can be written again at any
//! time.

mod comparability;
mod compare;
mod csv;
pub(crate) mod figure;
mod growth;
mod measure;
pub mod metrics;
pub(crate) mod page;
mod read;
pub mod record;
mod sweep;
#[cfg(test)]
pub(crate) mod synthetic;
pub(crate) mod text_format;
mod transport;
mod write;

pub use compare::{Comparison, ComparisonFinding, ComparisonRow, ComparisonSide, Difference, compare};
pub use growth::growth;
pub use measure::{Measure, MeasureDirection, MeasureKind, MeasureUnit, measures};
pub use read::{EVENTS_FILE, Incident, NodeSpan, PLAN_FILE, RUN_FILE, ReadError, Results, TOPOLOGY_FILE, read};
pub use sweep::{combine, runs};
pub use transport::transport;
pub use write::{WriteError, WrittenReport, write};
