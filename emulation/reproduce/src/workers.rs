//! Threads that make runs: in virtual time in parallel, on processors that are otherwise idle; in real time one
//! after the other, the quick ones beside those in virtual time.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use roost_experiment::RunError;
use roost_lab::kernel;
use roost_sim::growth;
use roost_sim::{Detail, SimOutcome, SimulateError};

use super::bench::{self, StudyBenchResult};
use super::store::StoredRun;
use super::tasks::{StudyTask, Work};
use super::{emulated, measures};

/// The interval at which an interrupt, or the end of other runs, is checked.
pub(super) const LOOK: Duration = Duration::from_millis(100);

pub(super) struct StudyTaskResult {
    pub(super) task: StudyTask,
    pub(super) took: Duration,
    pub(super) result: Result<Option<StoredRun>, String>,
}

impl StudyTaskResult {
    fn by(task: StudyTask, make: impl FnOnce(&StudyTask) -> Result<Option<StoredRun>, String>) -> Self {
        let began = Instant::now();
        let result = make(&task);
        Self { task, took: began.elapsed(), result }
    }
}

/// Starts threads that make these runs in virtual time, the longest first, so that no single run is left at the
/// end. They end when the receiver is gone.
pub(super) fn simulate_all(mut tasks: Vec<StudyTask>, ended: &Sender<StudyTaskResult>) -> Vec<JoinHandle<()>> {
    tasks.sort_by(|a, b| b.cost().total_cmp(&a.cost()));
    let threads = thread::available_parallelism().map_or(1, usize::from).min(tasks.len());
    let queue = Arc::new(Mutex::new(VecDeque::from(tasks)));
    let start = |_| {
        let (queue, ended) = (Arc::clone(&queue), ended.clone());
        thread::spawn(move || {
            // Measurements in real time have priority. If the system refuses this, both share the processors.
            drop(kernel::become_idle());
            let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            while let Some(task) = next() {
                let run = StudyTaskResult::by(task, |task| simulate(task).map(Some).map_err(|error| error.to_string()));
                if ended.send(run).is_err() {
                    return;
                }
            }
        })
    };
    (0..threads).map(start).collect()
}

/// Makes these runs in real time, one after the other; those that must be alone wait for the `others` to end.
pub(super) fn measure_all(
    mut tasks: Vec<StudyTask>,
    others: &[JoinHandle<()>],
    interrupt: &AtomicBool,
    ended: &Sender<StudyTaskResult>,
) {
    tasks.sort_by_key(StudyTask::is_alone);
    for task in tasks {
        let is_interrupted = || interrupt.load(Ordering::Relaxed);
        while task.is_alone() && !others.iter().all(JoinHandle::is_finished) && !is_interrupted() {
            thread::sleep(LOOK);
        }
        let run = StudyTaskResult::by(task, |task| if is_interrupted() { Ok(None) } else { measure(task, interrupt) });
        if ended.send(run).is_err() {
            return;
        }
    }
}

/// The reasons to distrust a run of a model of its own.
fn doubts(violations: usize, overflows: u64) -> Vec<String> {
    let said = [
        (violations > 0).then(|| format!("{violations} rules were broken")),
        (overflows > 0).then(|| format!("the simulated network had no memory for {overflows} packets")),
    ];
    said.into_iter().flatten().collect()
}

fn simulate(task: &StudyTask) -> Result<StoredRun, SimulateError> {
    if let Work::Growth { nodes, settings } = &task.work {
        let size = growth::measure(*nodes as usize, settings)?;
        let reasons = doubts(size.violations, size.overflows);
        return Ok(StoredRun::new(task.made_of.clone(), super::growth::measures(&size)).doubted(reasons));
    }
    if let Work::Areas(settings) = &task.work {
        let figures = roost_sim::areas::measure(settings)?;
        let reasons = doubts(figures.violations, figures.overflows);
        return Ok(StoredRun::new(task.made_of.clone(), super::geodemlia::measures(&figures)).doubted(reasons));
    }
    let Work::Simulate { prepared, records } = &task.work else {
        return Err(RunError::Failed("it is not in virtual time".to_owned()).into());
    };
    let made = match records {
        None => roost_sim::simulate_with_results(prepared, Detail::default()),
        Some(folder) => recorded(folder, |part| {
            let outcome = roost_sim::simulate_into(prepared, Detail::default(), part)?;
            let results = roost_results::read(part).map_err(|error| RunError::Failed(error.to_string()))?;
            Ok::<_, SimulateError>((outcome, results))
        }),
    };
    let (outcome, results) = match made {
        // No node attaches at this distance: this is the expected result, and no fault of the run.
        Err(SimulateError::NotReady { .. }) => {
            return Ok(StoredRun::new(task.made_of.clone(), measures::empty_measures()));
        }
        made => made?,
    };
    let SimOutcome { shares, trace_hash, .. } = outcome;
    let measures = measures::compute_measures(prepared, &results, Some(shares));
    let verdict = results.run.verdict;
    let trace_hash = Some(format!("{trace_hash:016x}"));
    let kept = StoredRun::new(task.made_of.clone(), measures).doubted(verdict.reasons);
    Ok(StoredRun { trace_hash, has_records: records.is_some(), ..kept })
}

/// Makes a run in real time; `None` after an interrupt.
fn measure(task: &StudyTask, interrupt: &AtomicBool) -> Result<Option<StoredRun>, String> {
    let kept = |measures, reasons| StoredRun::new(task.made_of.clone(), measures).doubted(reasons);
    match &task.work {
        Work::Simulate { .. } | Work::Growth { .. } | Work::Areas(_) => Err("it is not in real time".to_owned()),
        Work::Bench { args, by, .. } => {
            let bench = bench::run(args, by, task.seed, interrupt)?;
            Ok(bench
                .map(|StudyBenchResult { measures, reasons, lacks }| StoredRun { lacks, ..kept(measures, reasons) }))
        }
        Work::Emulate { prepared, plan, records, keeps } => {
            // An interrupt must not lose the existing records.
            let run = |part: &Path| match emulated::run(prepared, plan, task.seed, part, interrupt) {
                Ok(run) => run.ok_or(None),
                Err(error) => Err(Some(error)),
            };
            let (measures, verdict) = match recorded(records, run) {
                Ok(run) => run,
                Err(None) => return Ok(None),
                Err(Some(error)) => return Err(error),
            };
            if !keeps {
                let removed = std::fs::remove_dir_all(records);
                drop(removed);
            }
            Ok(Some(StoredRun { has_records: *keeps, ..kept(measures, verdict.reasons) }))
        }
    }
}

/// Writes records beside their place, and moves them there when they are complete.
fn recorded<T, E>(folder: &Path, write: impl FnOnce(&Path) -> Result<T, E>) -> Result<T, E> {
    let part = folder.with_extension("part");
    // The remains of a broken run, or of another one.
    let removed = std::fs::remove_dir_all(&part);
    drop(removed);
    let written = write(&part)?;
    let removed = std::fs::remove_dir_all(folder);
    drop(removed);
    // If the move fails the records are missing, and the run is repeated.
    let moved = std::fs::rename(&part, folder);
    drop(moved);
    Ok(written)
}

#[cfg(test)]
mod tests {
    use roost_experiment::Prepared;

    use super::*;

    #[test]
    fn nodes_that_cannot_attach_complete_nothing() {
        let plan = "topology = { star = { nodes = 3, delay = '70s' } }\narchitecture = 'super-node'\nduration = '9s'\n";
        let prepared = Arc::new(Prepared::from_text(plan, Path::new("p.toml")).unwrap());
        let work = Work::Simulate { prepared, records: None };
        let (made_of, daemons) = (String::new(), String::new());
        let kept = simulate(&StudyTask { study: 0, point: 0, seed: 1, work, made_of, daemons }).unwrap();
        assert!(kept.valid && kept.measures["completed"] == 0.0 && kept.measures["success"] == 0.0, "{kept:?}");
    }

    #[test]
    fn broken_rules_are_doubts() {
        assert_eq!([doubts(0, 0).len(), doubts(1, 0).len(), doubts(2, 3).len()], [0, 1, 2]);
    }

    #[test]
    fn partial_records_are_removed() {
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
