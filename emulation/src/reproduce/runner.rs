//! Makes the runs that are not there yet.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::bench::{self, Bench};
use super::store::{Kept, Store, StoreError, made_of};
use super::study::{Make, Study};
use super::{Made, Progress};
use super::{emulated, measures};
use crate::experiment::{self, Architecture, Prepared, RunError, with_values};
use crate::report;
use crate::sim::growth;
use crate::sim::{self, Detail, Outcome, SimulateError};

/// How often it is looked whether somebody wants to interrupt.
const LOOK: Duration = Duration::from_millis(100);

/// Why runs were not all made. Those that were are kept.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunnerError {
    /// Ctrl-C.
    #[error("interrupted; the same command goes on with the runs that are missing")]
    Interrupted,
    /// A file cannot be written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A plan of the catalogue does not fit its network, which is a fault of this program.
    #[error("the plan of {name} is wrong: {error}")]
    Plan {
        /// Whose.
        name: String,
        /// What is wrong.
        error: RunError,
    },
    /// A run came to nothing.
    #[error("{name}: {error}")]
    Run {
        /// Which.
        name: String,
        /// Why.
        error: String,
    },
}

/// A run that is to be made.
#[derive(Clone)]
struct Task {
    study: usize,
    point: usize,
    seed: u64,
    work: Work,
    made_of: String,
}

#[derive(Clone)]
enum Work {
    Simulate {
        prepared: Arc<Prepared>,
        /// Where its records go, if they are to be kept.
        records: Option<PathBuf>,
    },
    Emulate {
        prepared: Arc<Prepared>,
        plan: PathBuf,
        /// Where its records go, and whether they stay there.
        records: PathBuf,
        keeps: bool,
    },
    Growth {
        nodes: u32,
        settings: growth::Settings,
    },
    Bench {
        args: Vec<String>,
        by: &'static [&'static str],
    },
}

/// What the result of a run depends on, beside the programs: what it is made of, and its seed.
type Identity = (String, u64);

impl Task {
    /// Runs of several studies that agree in it are one.
    fn identity(&self) -> Identity {
        (self.made_of.clone(), self.seed)
    }

    /// Whether it leaves records, of which each run has its own.
    const fn has_records(&self) -> bool {
        matches!(self.work, Work::Simulate { records: Some(_), .. })
    }

    /// How long it takes, in no unit; what takes real time comes last and is not estimated.
    fn cost(&self) -> f64 {
        match &self.work {
            Work::Simulate { prepared, .. } => {
                let lasts = (prepared.plan.warm_up + prepared.plan.duration).as_secs_f64();
                prepared.placement.nodes.len() as f64 * lasts
            }
            // Where nodes seldom ask, a second is so much less than where they always do.
            Work::Growth { nodes, settings } => f64::from(*nodes) * settings.quiet.as_secs_f64() / 5.0,
            Work::Emulate { .. } | Work::Bench { .. } => 0.0,
        }
    }

    /// Whether what was kept of such a run counts as it.
    fn is_done_by(&self, kept: &Kept) -> bool {
        let has = |folder: &Path| kept.has_records && folder.is_dir();
        match &self.work {
            // Made again it would be the same, valid or not.
            Work::Simulate { records, .. } => records.as_ref().is_none_or(|folder| has(folder)),
            // It leaves none.
            Work::Growth { .. } => true,
            Work::Emulate { records, keeps, .. } => kept.is_whole() && (!keeps || has(records)),
            Work::Bench { .. } => kept.is_whole(),
        }
    }
}

/// Finds or makes all runs of these studies; tells `progress` of each.
///
/// Runs in virtual time are made side by side, one on each processor; those in
/// real time after them, one at a time.
///
/// # Errors
/// When one cannot be made or kept, or `interrupt` was set.
pub fn run(
    studies: &[Study],
    store: &Store,
    keep_records: bool,
    interrupt: &AtomicBool,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<Vec<Made>, RunnerError> {
    let (mut made, mut open, mut again) = (Vec::new(), Vec::new(), 0);
    for (study, one) in studies.iter().enumerate() {
        for task in tasks(study, one, store, keep_records)? {
            let point = &one.points[task.point];
            match store.find(one.id, &point.folder(), task.seed, &task.made_of) {
                Some(kept) if task.is_done_by(&kept) => {
                    made.push(Made { study, point: task.point, seed: task.seed, kept });
                }
                kept => {
                    again += usize::from(kept.is_some_and(|kept| !kept.is_whole()));
                    open.push(task);
                }
            }
        }
    }
    let mut session =
        Session { studies, store, progress, began: Instant::now(), found: made.len(), again, of: open.len(), made };
    session.tell(0.0, 0, "");
    let (virtual_ones, real): (Vec<Task>, Vec<Task>) =
        open.into_iter().partition(|task| matches!(task.work, Work::Simulate { .. } | Work::Growth { .. }));
    session.simulate_all(virtual_ones, interrupt)?;
    session.measure_all(&real, interrupt)?;
    session.made.sort_by_key(|run| (run.study, run.point, run.seed));
    Ok(session.made)
}

/// Runs being made.
struct Session<'a, 'p> {
    studies: &'a [Study],
    store: &'a Store,
    progress: &'p mut dyn FnMut(Progress<'_>),
    began: Instant,
    /// Runs that were there, and how many are to be made.
    found: usize,
    again: usize,
    of: usize,
    /// All that there are by now.
    made: Vec<Made>,
}

impl Session<'_, '_> {
    /// Those in virtual time, side by side; what several studies have in common once.
    fn simulate_all(&mut self, tasks: Vec<Task>, interrupt: &AtomicBool) -> Result<(), RunnerError> {
        let (mut first, mut twins) = distinct(tasks);
        // The longest first, so that none is left alone at the end.
        first.sort_by(|a, b| b.cost().total_cmp(&a.cost()));
        let (count, all) = (first.len(), first.iter().map(Task::cost).sum::<f64>());
        let (results, mut done) = (start(first), 0.0);
        for _ in 0..count {
            let (task, result) = next(&results, interrupt)?;
            done += task.cost();
            for twin in twins.remove(&task.identity()).unwrap_or_default() {
                self.keep(&twin, result.clone(), done / all.max(1e-9))?;
            }
            self.keep(&task, result, done / all.max(1e-9))?;
        }
        Ok(())
    }

    /// Those in real time, one at a time.
    fn measure_all(&mut self, tasks: &[Task], interrupt: &AtomicBool) -> Result<(), RunnerError> {
        self.began = Instant::now();
        for (number, task) in (1..).zip(tasks) {
            match measure(task, interrupt) {
                Ok(None) => return Err(RunnerError::Interrupted),
                Ok(Some(kept)) => self.keep(task, Ok(kept), f64::from(number) / tasks.len() as f64)?,
                Err(error) => {
                    // This machine may lack what it needs: the rest is worth a page, and the
                    // same command tries it again.
                    let kept = Kept::new(task.made_of.clone(), measures::Measures::new()).doubted(vec![error]);
                    self.made.push(Made { study: task.study, point: task.point, seed: task.seed, kept });
                }
            }
        }
        Ok(())
    }

    /// A run has been made, which is so much of its kind.
    fn keep(&mut self, task: &Task, result: Result<Kept, String>, part: f64) -> Result<(), RunnerError> {
        let study = &self.studies[task.study];
        let folder = study.points[task.point].folder();
        let name = format!("{}/{folder}, seed {}", study.id, task.seed);
        let kept = result.map_err(|error| RunnerError::Run { name: name.clone(), error })?;
        let kept = self.store.keep(study.id, &folder, task.seed, kept)?;
        self.made.push(Made { study: task.study, point: task.point, seed: task.seed, kept });
        self.tell(part, self.made.len() - self.found, &name);
        Ok(())
    }

    fn tell(&mut self, part: f64, made: usize, last: &str) {
        let took = self.began.elapsed().as_secs_f64();
        let left = (part > 0.0).then(|| Duration::from_secs_f64(took * (1.0 - part).max(0.0) / part));
        (self.progress)(Progress { found: self.found, again: self.again, made, of: self.of, left, last });
    }
}

/// The first of the tasks that come to the same, and the others by what they come of. What leaves records is
/// made by itself.
fn distinct(tasks: Vec<Task>) -> (Vec<Task>, BTreeMap<Identity, Vec<Task>>) {
    let (mut first, mut twins) = (Vec::new(), BTreeMap::<_, Vec<Task>>::new());
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

/// The next result, unless somebody interrupts.
fn next(
    results: &mpsc::Receiver<(Task, Result<Kept, String>)>,
    interrupt: &AtomicBool,
) -> Result<(Task, Result<Kept, String>), RunnerError> {
    loop {
        if interrupt.load(Ordering::Relaxed) {
            return Err(RunnerError::Interrupted);
        }
        match results.recv_timeout(LOOK) {
            Ok(result) => return Ok(result),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                let (name, error) = ("a run".to_owned(), "its thread has ended".to_owned());
                return Err(RunnerError::Run { name, error });
            }
        }
    }
}

/// The runs of a study, whose plans are left beside where they are kept.
fn tasks(study: usize, one: &Study, store: &Store, keep_records: bool) -> Result<Vec<Task>, RunnerError> {
    let mut tasks = Vec::new();
    for (at, point) in one.points.iter().enumerate() {
        let task = |seed, work, made_of| Task { study, point: at, seed, work, made_of };
        let (plan, network) = match &point.make {
            Make::Virtual { plan, network } => (plan, network.as_ref()),
            Make::Emulated { plan } => (plan, None),
            Make::Growth { nodes, moving_s, lookups } => {
                let made_of = made_of(&["growth", &format!("{nodes} {moving_s} {lookups}")]);
                let (quiet, lookups) = (Duration::from_secs((*moving_s).into()), (*lookups).into());
                let work = |seed| Work::Growth { nodes: *nodes, settings: growth::Settings { seed, quiet, lookups } };
                tasks.extend((1..=point.seeds).map(|seed| task(seed, work(seed), made_of.clone())));
                continue;
            }
            Make::Bench { args, by } => {
                let daemons = if bench::runs_daemons(args) { daemons(Architecture::SuperNode) } else { String::new() };
                let made_of = made_of(&[&args.join(" "), &daemons]);
                let work = || Work::Bench { args: args.clone(), by };
                tasks.extend((1..=point.seeds).map(|seed| task(seed, work(), made_of.clone())));
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
            let (work, made_of) = if point.make.is_real_time() {
                let daemons = daemons(prepared.plan.architecture);
                let plan = file.clone();
                (
                    Work::Emulate { prepared, plan, records, keeps: keep_records },
                    made_of(&[&effective, &network, &daemons]),
                )
            } else {
                let records = keep_records.then_some(records);
                (Work::Simulate { prepared, records }, made_of(&[&effective, &network]))
            };
            tasks.push(task(seed, work, made_of));
        }
    }
    Ok(tasks)
}

/// What the daemons of a run are; nothing where they are missing, which the run will say.
fn daemons(architecture: Architecture) -> String {
    let hashes = experiment::hashes(architecture).unwrap_or_default();
    hashes.into_values().collect::<Vec<_>>().join(" ")
}

/// The same by whatever name, which says nothing of what comes of it.
fn nameless(prepared: &Prepared) -> Prepared {
    let mut same = prepared.clone();
    same.plan.name.clear();
    same
}

fn with_seed(plan: &str, file: &Path, seed: u64) -> Result<String, RunError> {
    let seed = toml::Value::Integer(i64::try_from(seed).unwrap_or(i64::MAX));
    Ok(with_values(plan, file, &[("seed".to_owned(), seed)])?)
}

/// Starts threads that make these runs. They end when nobody hears them any more.
fn start(tasks: Vec<Task>) -> mpsc::Receiver<(Task, Result<Kept, String>)> {
    let (sender, receiver) = mpsc::channel();
    let threads = thread::available_parallelism().map_or(1, usize::from).min(tasks.len());
    let queue = Arc::new(Mutex::new(VecDeque::from(tasks)));
    for _ in 0..threads {
        let (queue, sender) = (Arc::clone(&queue), sender.clone());
        thread::spawn(move || work(&queue, &sender));
    }
    receiver
}

fn work(queue: &Mutex<VecDeque<Task>>, sender: &Sender<(Task, Result<Kept, String>)>) {
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    while let Some(task) = next() {
        let result = simulate(&task).map_err(|error| error.to_string());
        if sender.send((task, result)).is_err() {
            return;
        }
    }
}

fn simulate(task: &Task) -> Result<Kept, SimulateError> {
    if let Work::Growth { nodes, settings } = &task.work {
        let size = growth::measure(*nodes as usize, settings)?;
        let reasons = super::growth::doubts(&size);
        return Ok(Kept::new(task.made_of.clone(), super::growth::measures(&size)).doubted(reasons));
    }
    let Work::Simulate { prepared, records } = &task.work else {
        return Err(RunError::Failed("it is not in virtual time".to_owned()).into());
    };
    let (outcome, results) = match records {
        None => sim::simulate_and_keep(prepared, Detail::default())?,
        Some(folder) => recorded(folder, |part| {
            let outcome = sim::simulate_into(prepared, Detail::default(), part)?;
            let results = report::read(part).map_err(|error| RunError::Failed(error.to_string()))?;
            Ok::<_, SimulateError>((outcome, results))
        })?,
    };
    let Outcome { shares, trace_hash, .. } = outcome;
    let measures = measures::of(prepared, &results, Some(shares));
    let verdict = results.run.verdict;
    let trace_hash = Some(format!("{trace_hash:016x}"));
    let kept = Kept::new(task.made_of.clone(), measures).doubted(verdict.reasons);
    Ok(Kept { trace_hash, has_records: records.is_some(), ..kept })
}

/// A run in real time; `None` if somebody interrupted.
fn measure(task: &Task, interrupt: &AtomicBool) -> Result<Option<Kept>, String> {
    let kept = |measures, reasons| Kept::new(task.made_of.clone(), measures).doubted(reasons);
    match &task.work {
        Work::Simulate { .. } | Work::Growth { .. } => Err("it is not in real time".to_owned()),
        Work::Bench { args, by } => {
            let bench = bench::run(args, by, task.seed, interrupt)?;
            Ok(bench.map(|Bench { measures, reasons, lacks }| Kept { lacks, ..kept(measures, reasons) }))
        }
        Work::Emulate { prepared, plan, records, keeps } => {
            let run = recorded(records, |part| emulated::run(prepared, plan, task.seed, part, interrupt))?;
            if !keeps {
                let removed = std::fs::remove_dir_all(records);
                drop(removed);
            }
            Ok(run.map(|(measures, verdict)| Kept { has_records: *keeps, ..kept(measures, verdict.reasons) }))
        }
    }
}

/// Has records written beside where they are to be, and moved there when they are whole.
fn recorded<T, E>(folder: &Path, write: impl FnOnce(&Path) -> Result<T, E>) -> Result<T, E> {
    let part = folder.with_extension("part");
    // What is there broke off, or is of something else.
    let removed = std::fs::remove_dir_all(&part);
    drop(removed);
    let written = write(&part)?;
    let removed = std::fs::remove_dir_all(folder);
    drop(removed);
    // Where they cannot be moved they are not there, and the run is made again.
    let moved = std::fs::rename(&part, folder);
    drop(moved);
    Ok(written)
}

#[cfg(test)]
mod tests {
    use super::super::{Scale, chosen};
    use super::*;

    #[test]
    fn what_was_measured_in_part_or_cannot_be_trusted_is_made_again() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(folder.path(), "a", false);
        let studies = chosen(&["wars-window".to_owned()], Scale::new(true, None)).unwrap();
        let point = &studies[0].points[0];
        let task = tasks(0, &studies[0], &store, false).unwrap().remove(0);
        let whole = Kept::new(task.made_of.clone(), measures::Measures::new());
        let doubted = whole.clone().doubted(vec!["doubted".to_owned()]);
        let partial = Kept { lacks: vec!["udt4".to_owned()], ..whole.clone() };
        for (kept, expected) in [(whole, (1, 0, 0)), (doubted, (0, 1, 1)), (partial, (0, 1, 1))] {
            store.keep(studies[0].id, &point.folder(), 1, kept.clone()).unwrap();
            let mut told = Vec::new();
            // Interrupted before anything is measured, so that only what is found is told.
            let interrupt = AtomicBool::new(true);
            let ended = run(&studies, &store, false, &interrupt, &mut |at| told.push((at.found, at.again, at.of)));
            assert_eq!((told[0], ended.is_err()), (expected, expected.2 > 0), "{kept:?}");
        }
    }

    #[test]
    fn what_studies_have_in_common_is_run_once() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(folder.path(), "a", false);
        let studies =
            chosen(&["sproull-tree".to_owned(), "beyond-loss".to_owned()], Scale::new(true, Some(2))).unwrap();
        let all = |records: bool| -> Vec<Task> {
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

    #[test]
    fn records_that_broke_off_are_not_there() {
        let folder = tempfile::tempdir().unwrap();
        let records = folder.path().join("seed-1");
        let broken = recorded(&records, |part| {
            std::fs::create_dir(part).unwrap();
            Err::<(), _>("interrupted")
        });
        assert!(broken.is_err() && !records.exists());
        let whole: Result<(), ()> = recorded(&records, |part| {
            assert!(!part.exists());
            std::fs::create_dir(part).unwrap();
            Ok(())
        });
        assert!(whole.is_ok() && records.is_dir());
    }
}
