//! Presentation of results: tables, figures and pages.
//!
//! Everything is made from the files of a run ([`roost_results`]), and can be written again at any time.
//!
//! [`write()`] makes the page of a run, [`combine`] that of many, [`compare()`] holds runs against one another. Figures are
//! SVG ([`figure`]), and pages need no other file. A page says what its numbers cannot show: a run that is not valid, or
//! groups that are too few.
#![allow(missing_docs, reason = "only crates of `emulation` import this one")]

mod comparability;
mod compare;
mod csv;
pub mod figure;
mod incidents;
mod measure;
pub mod measurements;
mod natural_order;
pub mod page;
mod run_tables;
mod seed_values;
mod summary_table;
mod sweep;
pub mod text_format;
mod write;

pub use compare::{Comparison, ComparisonFinding, ComparisonRow, ComparisonSide, Difference, compare};
pub use measure::{Measure, MeasureDirection, MeasureKind, MeasureUnit, MeasuredFigure, measures};
pub use sweep::{combine, runs};
pub use write::{WriteError, WrittenReport, write};
