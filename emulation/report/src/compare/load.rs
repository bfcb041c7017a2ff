//! Reading of the sides of a comparison.

use std::path::{Path, PathBuf};

use roost_results::metrics::Metrics;
use roost_results::record::RunRecord;
use roost_results::{Results, read};

use super::ComparisonSide;
use super::differences::RunFacts;
use crate::comparability;
use crate::measure::{Measure, measures};
use crate::sweep::runs;
use crate::write::WriteError;

/// The most runs of a side whose records are kept.
const KEPT: usize = 50;

pub(super) struct LoadedRun {
    pub(super) folder: PathBuf,
    pub(super) run: RunRecord,
    pub(super) plan: Option<String>,
    pub(super) topology: Option<String>,
    pub(super) measures: Vec<(Measure, f64)>,
    /// The facts that it shares with its repetitions.
    pub(super) kind: comparability::FactMap,
    /// The records, for the first runs of a side.
    pub(super) records: Option<(Results, Metrics)>,
}

pub(super) struct LoadedSide {
    pub(super) folder: PathBuf,
    pub(super) runs: Vec<LoadedRun>,
}

/// Reads the run, or the runs, in a folder.
pub(super) fn load(folder: &Path) -> Result<LoadedSide, WriteError> {
    let mut loading = LoadedSide { folder: folder.to_owned(), runs: Vec::new() };
    for folder in runs(folder)? {
        loading.add(read(&folder)?);
    }
    Ok(loading)
}

impl LoadedRun {
    pub(super) fn facts(&self) -> RunFacts<'_> {
        RunFacts { run: &self.run, plan: self.plan.as_deref(), topology: self.topology.as_deref() }
    }

    /// The reasons to keep it out of a comparison, with its folder.
    pub(super) fn unusable(&self) -> Vec<String> {
        let folder = self.folder.display();
        comparability::unusable(&self.run).iter().map(|reason| format!("{folder}: {reason}")).collect()
    }

    pub(super) fn value(&self, measure: &Measure) -> Option<&(Measure, f64)> {
        self.measures.iter().find(|(one, _)| one.kind == measure.kind)
    }
}

impl LoadedSide {
    pub(super) fn add(&mut self, results: Results) {
        let metrics = Metrics::from_results(&results);
        self.runs.push(LoadedRun {
            folder: results.folder.clone(),
            run: results.run.clone(),
            plan: results.plan.clone(),
            topology: results.topology.clone(),
            measures: measures(&metrics),
            kind: comparability::kind(&results.run, results.plan.as_deref(), results.topology.as_deref()),
            records: (self.runs.len() < KEPT).then_some((results, metrics)),
        });
    }

    /// The runs to compare, and the reasons why others are left out. If all have such reasons, all are
    /// compared, and the reasons become warnings.
    pub(super) fn usable(&self) -> (Vec<&LoadedRun>, Vec<String>) {
        let usable: Vec<&LoadedRun> = self.runs.iter().filter(|one| one.unusable().is_empty()).collect();
        let reasons = self.runs.iter().flat_map(LoadedRun::unusable).collect();
        (if usable.is_empty() { self.runs.iter().collect() } else { usable }, reasons)
    }

    pub(super) fn side(&self) -> ComparisonSide {
        ComparisonSide { folder: self.folder.clone(), name: String::new(), seeds: Vec::new() }
    }
}
