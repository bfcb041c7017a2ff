//! Presentation of results: tables, figures and pages.
//!
//! Everything is made from the files of a run ([`roost_results`]), and can be written again at any time.

mod comparability;
mod compare;
mod csv;
pub mod figure;
mod measure;
pub(crate) mod page;
mod sweep;
pub mod text_format;
mod write;

pub use compare::{Comparison, ComparisonFinding, ComparisonRow, ComparisonSide, Difference, compare};
pub use measure::{Measure, MeasureDirection, MeasureKind, MeasureUnit, measures};
pub use sweep::{combine, runs};
pub use write::{WriteError, WrittenReport, write};
