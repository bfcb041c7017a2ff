//! Reads the sides of a comparison.

use std::path::{Path, PathBuf};

use super::Side;
use super::differences::Facts;
use crate::report::measure::{Measure, measures};
use crate::report::metrics::Metrics;
use crate::report::read::{Results, read};
use crate::report::record::Run;
use crate::report::sweep::runs;
use crate::report::write::{WriteError, distrust};

/// A run of a side, without its records.
pub(super) struct Loaded {
    pub(super) folder: PathBuf,
    pub(super) run: Run,
    pub(super) plan: Option<String>,
    pub(super) topology: Option<String>,
    pub(super) measures: Vec<(Measure, f64)>,
}

/// What was read of a side; the records only of a run by itself.
pub(super) struct Loading {
    pub(super) folder: PathBuf,
    pub(super) runs: Vec<Loaded>,
    pub(super) single: Option<(Results, Metrics)>,
}

/// Reads the run, or the runs, in a folder.
pub(super) fn load(folder: &Path) -> Result<Loading, WriteError> {
    let folders = runs(folder)?;
    let is_one = folders.len() == 1;
    let mut loading = Loading { folder: folder.to_owned(), runs: Vec::new(), single: None };
    for folder in folders {
        loading.add(read(&folder)?, is_one);
    }
    Ok(loading)
}

impl Loaded {
    pub(super) fn facts(&self) -> Facts<'_> {
        Facts { run: &self.run, plan: self.plan.as_deref(), topology: self.topology.as_deref() }
    }
}

impl Loading {
    pub(super) fn add(&mut self, results: Results, keep: bool) {
        let metrics = Metrics::of(&results);
        self.runs.push(Loaded {
            folder: results.folder.clone(),
            run: results.run.clone(),
            plan: results.plan.clone(),
            topology: results.topology.clone(),
            measures: measures(&metrics),
        });
        self.single = keep.then_some((results, metrics));
    }

    pub(super) fn side(&self) -> Side {
        Side {
            folder: self.folder.clone(),
            name: String::new(),
            seeds: self.runs.iter().map(|one| one.run.seed).collect(),
        }
    }

    /// The values of a measure with the seeds of their runs, by seed.
    pub(super) fn values(&self, measure: &Measure) -> Vec<(u64, f64)> {
        let of = |one: &Loaded| Some((one.run.seed, one.measures.iter().find(|(m, _)| m.kind == measure.kind)?.1));
        let mut values: Vec<(u64, f64)> = self.runs.iter().filter_map(of).collect();
        values.sort_by_key(|(seed, _)| *seed);
        values
    }

    /// Why its runs cannot be trusted.
    pub(super) fn distrust(&self) -> Vec<String> {
        let mut reasons = Vec::new();
        for one in &self.runs {
            let folder = one.folder.display();
            reasons.extend(distrust(&one.run).iter().map(|reason| format!("{folder}: {reason}")));
        }
        reasons
    }
}
