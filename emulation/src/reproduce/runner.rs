//! Makes the runs that are not there yet.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::measures;
use super::store::{Kept, Store, StoreError, made_of};
use super::study::{Make, Study};
use super::{Made, Progress};
use crate::experiment::{Prepared, RunError, with_values};
use crate::report;
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
    prepared: Arc<Prepared>,
    made_of: String,
    /// Where its records go, if they are to be kept.
    records: Option<PathBuf>,
}

impl Task {
    /// How long it takes, in no unit.
    fn cost(&self) -> f64 {
        let plan = &self.prepared.plan;
        let lasts = (plan.warm_up + plan.duration).as_secs_f64();
        self.prepared.placement.nodes.len() as f64 * lasts
    }
}

/// Finds or makes all runs of these studies; tells `progress` of each.
///
/// Runs in virtual time are made side by side, one on each processor.
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
    let (mut made, mut open) = (Vec::new(), Vec::new());
    for (study, one) in studies.iter().enumerate() {
        for task in tasks(study, one, store, keep_records)? {
            let point = &one.points[task.point];
            let is_there = task.records.as_ref().is_none_or(|folder| folder.is_dir());
            match store.find(one.id, &point.folder(), task.seed, &task.made_of).filter(|_| is_there) {
                Some(kept) => made.push(Made { study, point: task.point, seed: task.seed, kept }),
                None => open.push(task),
            }
        }
    }
    // The longest first, so that none is left alone at the end.
    open.sort_by(|a, b| b.cost().total_cmp(&a.cost()));
    let all: f64 = open.iter().map(Task::cost).sum();
    let (count, found, began) = (open.len(), made.len(), Instant::now());
    let mut done = 0.0;
    progress(Progress { found, made: 0, of: count, left: None, last: "" });
    let results = start(open);
    for number in 1..=count {
        let (task, result) = loop {
            if interrupt.load(Ordering::Relaxed) {
                return Err(RunnerError::Interrupted);
            }
            match results.recv_timeout(LOOK) {
                Ok(result) => break result,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    let (name, error) = ("a run".to_owned(), "its thread has ended".to_owned());
                    return Err(RunnerError::Run { name, error });
                }
            }
        };
        let (study, folder) = (&studies[task.study], studies[task.study].points[task.point].folder());
        let name = format!("{}/{folder}, seed {}", study.id, task.seed);
        let kept = result.map_err(|error| RunnerError::Run { name: name.clone(), error })?;
        let kept = store.keep(study.id, &folder, task.seed, kept)?;
        done += task.cost();
        let left = Duration::from_secs_f64(began.elapsed().as_secs_f64() * (all - done).max(0.0) / done.max(1e-9));
        progress(Progress { found, made: number, of: count, left: Some(left), last: &name });
        made.push(Made { study: task.study, point: task.point, seed: task.seed, kept });
    }
    made.sort_by_key(|run| (run.study, run.point, run.seed));
    Ok(made)
}

/// The runs of a study, whose plans are left beside where they are kept.
fn tasks(study: usize, one: &Study, store: &Store, keep_records: bool) -> Result<Vec<Task>, RunnerError> {
    let mut tasks = Vec::new();
    for (at, point) in one.points.iter().enumerate() {
        let Make::Virtual { plan } = &point.make;
        let folder = point.folder();
        let wrong = |error: RunError| RunnerError::Plan { name: format!("{}/{folder}", one.id), error };
        let file = Store::point(one.id, &folder).join("plan.toml");
        store.put_plan(one.id, &folder, plan)?;
        for seed in 1..=point.seeds {
            let seeded = with_seed(plan, &file, seed).map_err(wrong)?;
            let prepared = Prepared::from_text(&seeded, &file).map_err(wrong)?;
            let made_of = made_of(&[&prepared.effective(), &prepared.network_file()]);
            let records =
                keep_records.then(|| store.folder().join(Store::point(one.id, &folder)).join(format!("seed-{seed}")));
            tasks.push(Task { study, point: at, seed, prepared: Arc::new(prepared), made_of, records });
        }
    }
    Ok(tasks)
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
    let Task { prepared, records, .. } = task;
    let (outcome, results) = match records {
        None => sim::simulate_and_keep(prepared, Detail::default())?,
        Some(folder) => {
            // What is there broke off, or is of something else.
            let removed = std::fs::remove_dir_all(folder);
            drop(removed);
            let outcome = sim::simulate_into(prepared, Detail::default(), folder)?;
            let results = report::read(folder).map_err(|error| RunError::Failed(error.to_string()))?;
            (outcome, results)
        }
    };
    let Outcome { shares, trace_hash, .. } = outcome;
    let measures = measures::of(prepared, &results, Some(shares));
    let verdict = results.run.verdict;
    let trace_hash = Some(format!("{trace_hash:016x}"));
    let (valid, reasons) = (verdict.valid, verdict.reasons);
    Ok(Kept { valid, reasons, trace_hash, ..Kept::new(task.made_of.clone(), measures) })
}
