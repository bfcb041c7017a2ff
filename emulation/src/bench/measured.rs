//! What a comparison of things that carry bytes has come to.

use std::collections::BTreeMap;
use std::time::Instant;

use serde::Serialize;

use super::machine::ProcessorSnapshot;

/// Rows, and what a reader should know of how they were made.
#[derive(Clone, Debug, Serialize)]
pub struct Measured<Row> {
    /// A row for each combination, in their order.
    pub rows: Vec<Row>,
    /// What could not be measured and why, and what else a reader should know: a sentence each.
    pub notes: Vec<String>,
    /// How many combinations could not be measured.
    #[serde(skip)]
    pub unmeasured: usize,
    /// What it was measured on.
    pub machine: BTreeMap<String, String>,
    /// The part of the machine that other programs used meanwhile.
    pub beside: Option<f64>,
    /// How long it took.
    pub seconds: f64,
}

impl<Row> Default for Measured<Row> {
    fn default() -> Self {
        let (rows, notes, machine) = Default::default();
        Self { rows, notes, unmeasured: 0, machine, beside: None, seconds: 0.0 }
    }
}

/// When a comparison began.
pub(super) struct BenchStart(Instant, Option<ProcessorSnapshot>);

impl BenchStart {
    pub(super) fn now() -> Self {
        Self(Instant::now(), ProcessorSnapshot::read_now())
    }
}

impl<Row> Measured<Row> {
    /// It ends now, on this machine.
    pub(super) fn end(&mut self, begun: &BenchStart, machine: BTreeMap<String, String>) {
        self.beside = begun.1.and_then(|before| Some(ProcessorSnapshot::read_now()?.other_load_since(&before)));
        self.seconds = begun.0.elapsed().as_secs_f64();
        self.machine = machine;
    }
}
