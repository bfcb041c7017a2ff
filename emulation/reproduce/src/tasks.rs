//! Runs to make: their inputs, and duplicates among them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use roost_experiment::{Architecture, Prepared, RunError, with_values};
use roost_sim::areas::AreaSettings;
use roost_sim::growth;

use super::bench;
use super::runner::RunnerError;
use super::store::{Store, StoredRun, made_of};
use super::study::{RunMethod, Study};

#[derive(Clone)]
pub(super) struct StudyTask {
    /// Index of its study among all, and of its point in the study.
    pub(super) study: usize,
    pub(super) point: usize,
    pub(super) seed: u64,
    pub(super) work: Work,
    pub(super) made_of: String,
    /// The SHA-256 of the daemons that it runs, if it does.
    pub(super) daemons: String,
}

#[derive(Clone)]
pub(super) enum Work {
    Simulate {
        prepared: Arc<Prepared>,
        /// The folder of its records, if they are kept.
        records: Option<PathBuf>,
    },
    Emulate {
        prepared: Arc<Prepared>,
        plan: PathBuf,
        /// The folder of its records, and true if they stay there.
        records: PathBuf,
        keeps: bool,
    },
    Growth {
        nodes: u32,
        settings: growth::GrowthSettings,
    },
    Areas(AreaSettings),
    Bench {
        args: Vec<String>,
        by: &'static [&'static str],
        is_alone: bool,
    },
}

/// The inputs that determine a run's result, besides the programs: a digest, and the seed.
pub(super) type RunDigest = (String, u64);

impl StudyTask {
    /// Runs of several studies with the same identity are one run.
    pub(super) fn identity(&self) -> RunDigest {
        (self.made_of.clone(), self.seed)
    }

    /// True if it leaves records; each run has its own.
    const fn has_records(&self) -> bool {
        matches!(self.work, Work::Simulate { records: Some(_), .. })
    }

    /// True if it runs in real time.
    pub(super) const fn is_real_time(&self) -> bool {
        matches!(self.work, Work::Emulate { .. } | Work::Bench { .. })
    }

    pub(super) const fn is_alone(&self) -> bool {
        matches!(self.work, Work::Emulate { .. } | Work::Bench { is_alone: true, .. })
    }

    /// A relative measure of its duration. Runs in real time come last and are not estimated.
    pub(super) fn cost(&self) -> f64 {
        match &self.work {
            Work::Simulate { prepared, .. } => {
                let lasts = (prepared.plan.warm_up + prepared.plan.duration).as_secs_f64();
                prepared.placement.nodes.len() as f64 * lasts
            }
            // With rare requests a second costs far less than with constant ones.
            Work::Growth { nodes, settings } => f64::from(*nodes) * settings.quiet.as_secs_f64() / 5.0,
            Work::Areas(settings) => settings.nodes as f64 * settings.length.as_secs_f64() / 5.0,
            Work::Emulate { .. } | Work::Bench { .. } => 0.0,
        }
    }

    /// True if a stored run counts as this one.
    pub(super) fn is_done_by(&self, kept: &StoredRun) -> bool {
        let has = |folder: &Path| kept.has_records && folder.is_dir();
        match &self.work {
            // A repetition would give the same, valid or not.
            Work::Simulate { records, .. } => records.as_ref().is_none_or(|folder| has(folder)),
            // This run leaves no records.
            Work::Growth { .. } | Work::Areas(_) => true,
            Work::Emulate { records, keeps, .. } => kept.is_whole() && (!keeps || has(records)),
            Work::Bench { .. } => kept.is_whole(),
        }
    }
}

/// The runs of a study; their plans are written beside the stored results.
pub(super) fn tasks(
    study: usize,
    one: &Study,
    store: &Store,
    keep_records: bool,
) -> Result<Vec<StudyTask>, RunnerError> {
    let mut tasks = Vec::new();
    for (at, point) in one.points.iter().enumerate() {
        let task = |seed, work, made_of| StudyTask { study, point: at, seed, work, made_of, daemons: String::new() };
        let (plan, network) = match &point.make {
            RunMethod::Virtual { plan, network } => (plan, network.as_ref()),
            RunMethod::Emulated { plan } => (plan, None),
            RunMethod::Growth { nodes, moving_s, lookups } => {
                let made_of = made_of(&["growth", &format!("{nodes} {moving_s} {lookups}")]);
                let (quiet, lookups) = (Duration::from_secs((*moving_s).into()), (*lookups).into());
                let work =
                    |seed| Work::Growth { nodes: *nodes, settings: growth::GrowthSettings { seed, quiet, lookups } };
                tasks.extend((1..=point.seeds).map(|seed| task(seed, work(seed), made_of.clone())));
                continue;
            }
            RunMethod::Areas(settings) => {
                let made_of = made_of(&["areas", &format!("{settings:?}")]);
                let work = |seed| Work::Areas(AreaSettings { seed, ..*settings });
                tasks.extend((1..=point.seeds).map(|seed| task(seed, work(seed), made_of.clone())));
                continue;
            }
            RunMethod::Bench { args, by, is_alone } => {
                let daemons = if bench::runs_daemons(args) { daemons(Architecture::SuperNode) } else { String::new() };
                let made_of = made_of(&[&args.join(" ")]);
                let work = || Work::Bench { args: args.clone(), by, is_alone: *is_alone };
                let bench = |seed| StudyTask { daemons: daemons.clone(), ..task(seed, work(), made_of.clone()) };
                tasks.extend((1..=point.seeds).map(bench));
                continue;
            }
        };
        let folder = point.folder();
        let wrong = |error: RunError| RunnerError::Plan { name: format!("{}/{folder}", one.id), error };
        let here = Store::point(one.id, &folder);
        store.put(&here.join("plan.toml").to_string_lossy(), plan)?;
        if let Some(network) = network {
            store.put(&here.join("network.toml").to_string_lossy(), network)?;
        }
        let file = store.folder().join(&here).join("plan.toml");
        for seed in 1..=point.seeds {
            let seeded = with_seed(plan, &file, seed).map_err(wrong)?;
            let prepared = Prepared::from_text(&seeded, &file).map_err(wrong)?;
            let prepared = Arc::new(prepared);
            let records = store.folder().join(&here).join(format!("seed-{seed}"));
            let (effective, network) = (nameless(&prepared).effective(), prepared.network_file());
            let (work, daemons) = if point.make.is_real_time() {
                let (daemons, plan) = (daemons(prepared.plan.architecture), file.clone());
                (Work::Emulate { prepared, plan, records, keeps: keep_records }, daemons)
            } else {
                let records = keep_records.then_some(records);
                (Work::Simulate { prepared, records }, String::new())
            };
            let made_of = made_of(&[&effective, &network]);
            tasks.push(StudyTask { daemons, ..task(seed, work, made_of) });
        }
    }
    Ok(tasks)
}

/// A digest of a run's daemons; empty if they are missing, which the run will report.
fn daemons(architecture: Architecture) -> String {
    let hashes = roost_experiment::hashes(architecture).unwrap_or_default();
    hashes.into_values().collect::<Vec<_>>().join(" ")
}

/// Removes the names, which do not affect the result.
fn nameless(prepared: &Prepared) -> Prepared {
    let mut same = prepared.clone();
    same.plan.name.clear();
    same
}

fn with_seed(plan: &str, file: &Path, seed: u64) -> Result<String, RunError> {
    let seed = toml::Value::Integer(i64::try_from(seed).unwrap_or(i64::MAX));
    Ok(with_values(plan, file, &[("seed".to_owned(), seed)])?)
}

/// The first of equal tasks, and the others by their digest. A task that leaves records is always separate.
pub(super) fn distinct(tasks: Vec<StudyTask>) -> (Vec<StudyTask>, BTreeMap<RunDigest, Vec<StudyTask>>) {
    let (mut first, mut twins) = (Vec::new(), BTreeMap::<_, Vec<StudyTask>>::new());
    for task in tasks {
        match twins.get_mut(&task.identity()).filter(|_| !task.has_records()) {
            Some(twins) => twins.push(task),
            None => {
                twins.entry(task.identity()).or_default();
                first.push(task);
            }
        }
    }
    (first, twins)
}

#[cfg(test)]
mod tests {
    use super::super::{StudyScale, select_studies};
    use super::*;

    #[test]
    fn shared_runs_are_made_once() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(folder.path(), "a", false);
        let studies =
            select_studies(&["sproull-tree".to_owned(), "beyond-loss".to_owned()], StudyScale::new(true, Some(2)))
                .unwrap();
        let all = |records: bool| -> Vec<StudyTask> {
            (0..).zip(&studies).flat_map(|(at, study)| tasks(at, study, &store, records).unwrap()).collect()
        };
        let (first, twins) = distinct(all(false));
        // The tree of 54 without loss, by the server and by one super node.
        assert_eq!((first.len() + 4, twins.len()), (all(false).len(), first.len()));
        let shared: Vec<(u64, &str)> = twins
            .values()
            .flatten()
            .map(|task| (task.seed, studies[task.study].points[task.point].series.as_str()))
            .collect();
        let has = |seed, series| shared.contains(&(seed, series));
        assert!((1..=2).all(|seed| has(seed, "client/server") && has(seed, "1 super node")), "{shared:?}");
        assert_eq!(distinct(all(true)).0.len(), all(true).len());
    }
}
