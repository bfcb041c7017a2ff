//! The report of a comparison of implementations.

use std::collections::BTreeMap;
use std::time::Instant;

use serde::Serialize;

use super::machine::ProcessorSnapshot;

/// Rows, and notes on their measurement.
#[derive(Clone, Debug, Serialize)]
pub struct Measured<Row> {
    /// A row for each combination, in order.
    pub rows: Vec<Row>,
    /// Missing measurements with the reasons, and other notes: a sentence each.
    pub notes: Vec<String>,
    /// Combinations that could not be measured.
    #[serde(skip)]
    pub unmeasured: usize,
    pub machine: BTreeMap<String, String>,
    /// The fraction of the machine that other programs used meanwhile.
    pub beside: Option<f64>,
    pub seconds: f64,
}

impl<Row> Default for Measured<Row> {
    fn default() -> Self {
        let (rows, notes, machine) = Default::default();
        Self { rows, notes, unmeasured: 0, machine, beside: None, seconds: 0.0 }
    }
}

pub(super) struct BenchStart(Instant, Option<ProcessorSnapshot>);

impl BenchStart {
    pub(super) fn now() -> Self {
        Self(Instant::now(), ProcessorSnapshot::read_now())
    }
}

impl<Row> Measured<Row> {
    pub(super) fn end(&mut self, begun: &BenchStart, machine: BTreeMap<String, String>) {
        self.beside = begun.1.and_then(|before| Some(ProcessorSnapshot::read_now()?.other_load_since(&before)));
        self.seconds = begun.0.elapsed().as_secs_f64();
        self.machine = machine;
    }
}
