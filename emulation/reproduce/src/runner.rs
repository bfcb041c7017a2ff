//! Makes the runs that are missing.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use roost_experiment::RunError;

use super::measures::Measures;
use super::store::{Store, StoreError, StoredRun};
use super::study::Study;
use super::tasks::{StudyTask, distinct, tasks};
use super::workers::{self, LOOK, StudyTaskResult};
use super::{ReproductionProgress, StudyRun};

/// Some runs were not made. The others are kept.
#[derive(Debug, thiserror::Error)]
pub enum RunnerError {
    /// Ctrl-C.
    #[error("interrupted; the same command goes on with the runs that are missing")]
    Interrupted,
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A plan of the catalogue does not fit its network, which is a bug of this program.
    #[error("the plan of {name} is wrong: {error}")]
    Plan { name: String, error: RunError },
    #[error("{name}: {error}")]
    Run { name: String, error: String },
}

/// Finds or makes all runs of these studies; calls `progress` for each.
///
/// Runs in virtual time are made in parallel, one on each processor. Runs in real time are made one at a time:
/// after the others, or beside them if that is allowed, since the others only use processors that are idle.
///
/// # Errors
/// Fails when one cannot be made or kept, or `interrupt` was set.
pub fn run(
    studies: &[Study],
    store: &Store,
    keep_records: bool,
    interrupt: &AtomicBool,
    progress: &mut dyn FnMut(ReproductionProgress<'_>),
) -> Result<Vec<StudyRun>, RunnerError> {
    let (mut made, mut open, mut again) = (Vec::new(), Vec::new(), 0);
    for (study, one) in studies.iter().enumerate() {
        for task in tasks(study, one, store, keep_records)? {
            let point = &one.points[task.point];
            match store.find(one.id, &point.folder(), task.seed, (&task.made_of, &task.daemons)) {
                Some(kept) if task.is_done_by(&kept) => {
                    made.push(StudyRun { study, point: task.point, seed: task.seed, kept });
                }
                kept => {
                    again += usize::from(kept.is_some_and(|kept| !kept.is_whole()));
                    open.push(task);
                }
            }
        }
    }
    let (real, simulated): (Vec<StudyTask>, Vec<StudyTask>) = open.into_iter().partition(StudyTask::is_real_time);
    let mut session = StudyRunner::new(studies, store, progress, made, again, real.len() + simulated.len());
    session.make_all(simulated, real, interrupt)?;
    session.made.sort_by_key(|run| (run.study, run.point, run.seed));
    Ok(session.made)
}

struct StudyRunner<'a, 'p> {
    studies: &'a [Study],
    store: &'a Store,
    progress: &'p mut dyn FnMut(ReproductionProgress<'_>),
    began: Instant,
    /// The number of stored runs, and of those that will be repeated.
    found: usize,
    again: usize,
    of: usize,
    made: Vec<StudyRun>,
}

/// Progress and duration of one kind of runs.
#[derive(Default)]
struct Share {
    done: f64,
    all: f64,
    took: Duration,
}

impl Share {
    /// The remaining time; unknown before the first run.
    fn left(&self) -> Option<Duration> {
        (self.done > 0.0).then(|| self.took.mul_f64((self.all - self.done).max(0.0) / self.done))
    }
}

struct RemainingWork {
    simulated: Share,
    real: Share,
    /// Real-time runs that wait for the end of all simulated ones.
    alone: usize,
}

impl RemainingWork {
    fn from_tasks(simulated: &[StudyTask], real: &[StudyTask]) -> Self {
        let share = |all| Share { all, ..Share::default() };
        Self {
            simulated: share(simulated.iter().map(StudyTask::cost).sum()),
            real: share(real.len() as f64),
            alone: real.iter().filter(|task| task.is_alone()).count(),
        }
    }

    /// Counts a finished run, at the time `since` after the beginning, when the simulated ones began.
    fn count(&mut self, ended: &StudyTaskResult, since: Duration) {
        if ended.task.is_real_time() {
            self.real.done += 1.0;
            self.real.took += ended.took;
            self.alone -= usize::from(ended.task.is_alone());
        } else {
            self.simulated.done += ended.task.cost();
            self.simulated.took = since;
        }
    }

    /// The time until all runs are made, as far as it is known.
    fn time(&self) -> Option<Duration> {
        match (self.simulated.left(), self.real.left()) {
            (Some(first), Some(then)) if self.alone > 0 => Some(first + then),
            (one, other) => one.max(other),
        }
    }
}

impl<'a, 'p> StudyRunner<'a, 'p> {
    fn new(
        studies: &'a [Study],
        store: &'a Store,
        progress: &'p mut dyn FnMut(ReproductionProgress<'_>),
        made: Vec<StudyRun>,
        again: usize,
        of: usize,
    ) -> Self {
        let (began, found) = (Instant::now(), made.len());
        let mut session = Self { studies, store, progress, began, found, again, of, made };
        session.report_progress(None, "");
        session
    }

    /// Makes runs that several studies share only once.
    fn make_all(
        &mut self,
        simulated: Vec<StudyTask>,
        real: Vec<StudyTask>,
        interrupt: &AtomicBool,
    ) -> Result<(), RunnerError> {
        let (first, mut twins) = distinct(simulated);
        let (count, mut left) = (first.len() + real.len(), RemainingWork::from_tasks(&first, &real));
        let (sender, results) = mpsc::channel();
        thread::scope(|scope| {
            let others = workers::simulate_all(first, &sender);
            scope.spawn(move || workers::measure_all(real, &others, interrupt, &sender));
            let made = (0..count).try_for_each(|_| {
                let ended = next(&results, interrupt)?;
                left.count(&ended, self.began.elapsed());
                let StudyTaskResult { task, result, .. } = ended;
                for twin in twins.remove(&task.identity()).unwrap_or_default() {
                    self.keep(&twin, result.clone(), left.time())?;
                }
                self.keep(&task, result, left.time())
            });
            // After a failure a running measurement is useless.
            interrupt.fetch_or(made.is_err(), Ordering::Relaxed);
            made
        })
    }

    fn keep(
        &mut self,
        task: &StudyTask,
        result: Result<Option<StoredRun>, String>,
        left: Option<Duration>,
    ) -> Result<(), RunnerError> {
        let StudyTask { study, point, seed, .. } = *task;
        let (id, folder) = (self.studies[study].id, self.studies[study].points[point].folder());
        let name = format!("{id}/{folder}, seed {seed}");
        let kept = match result {
            Ok(Some(kept)) => {
                self.store.keep(id, &folder, seed, StoredRun { daemons: task.daemons.clone(), ..kept })?
            }
            Ok(None) => return Err(RunnerError::Interrupted),
            // This machine may lack something it needs: the page is written without it, and the same command
            // tries it again.
            Err(error) if task.is_real_time() => {
                StoredRun::new(task.made_of.clone(), Measures::new()).doubted(vec![error])
            }
            Err(error) => return Err(RunnerError::Run { name, error }),
        };
        self.made.push(StudyRun { study, point, seed, kept });
        self.report_progress(left, &name);
        Ok(())
    }

    fn report_progress(&mut self, left: Option<Duration>, last: &str) {
        let made = self.made.len() - self.found;
        (self.progress)(ReproductionProgress { found: self.found, again: self.again, made, of: self.of, left, last });
    }
}

/// The next result; after an interrupt only results that have already come.
fn next(results: &mpsc::Receiver<StudyTaskResult>, interrupt: &AtomicBool) -> Result<StudyTaskResult, RunnerError> {
    loop {
        let is_interrupted = interrupt.load(Ordering::Relaxed);
        let wait = if is_interrupted { Duration::ZERO } else { LOOK };
        match results.recv_timeout(wait) {
            Ok(result) => return Ok(result),
            Err(_) if is_interrupted => return Err(RunnerError::Interrupted),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                let (name, error) = ("a run".to_owned(), "its thread has ended".to_owned());
                return Err(RunnerError::Run { name, error });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{StudyScale, select_studies};
    use super::*;

    #[test]
    fn partial_or_invalid_runs_are_repeated() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(folder.path(), "a", false);
        let studies = select_studies(&["wars-window".to_owned()], StudyScale::new(true, None)).unwrap();
        let point = &studies[0].points[0];
        let task = tasks(0, &studies[0], &store, false).unwrap().remove(0);
        let whole = StoredRun::new(task.made_of.clone(), Measures::new());
        let doubted = whole.clone().doubted(vec!["doubted".to_owned()]);
        let partial = StoredRun { lacks: vec!["udt4".to_owned()], ..whole.clone() };
        for (kept, expected) in [(whole, (1, 0, 0)), (doubted, (0, 1, 1)), (partial, (0, 1, 1))] {
            store.keep(studies[0].id, &point.folder(), 1, kept.clone()).unwrap();
            let mut told = Vec::new();
            // Interrupted before any measurement, so that it only reports what is stored.
            let interrupt = AtomicBool::new(true);
            let ended = run(&studies, &store, false, &interrupt, &mut |at| told.push((at.found, at.again, at.of)));
            assert_eq!((told[0], ended.is_err()), (expected, expected.2 > 0), "{kept:?}");
        }
    }

    fn task_of(study: &str) -> StudyTask {
        let studies = select_studies(&[study.to_owned()], StudyScale::new(true, None)).unwrap();
        let folder = tempfile::tempdir().unwrap();
        tasks(0, &studies[0], &Store::new(folder.path(), "a", false), false).unwrap().remove(0)
    }

    #[test]
    fn finished_run_is_kept_on_interrupt() {
        let (sender, results) = mpsc::channel();
        let took = Duration::ZERO;
        for _ in 0..2 {
            sender.send(StudyTaskResult { task: task_of("wars-window"), took, result: Ok(None) }).unwrap();
        }
        let interrupt = AtomicBool::new(true);
        assert!(next(&results, &interrupt).is_ok() && next(&results, &interrupt).is_ok());
        assert!(matches!(next(&results, &interrupt), Err(RunnerError::Interrupted)));
    }

    #[test]
    fn wait_time_is_excluded_from_estimate() {
        let [simulated, real] = ["sproull-fig5", "erum-throughput"].map(task_of);
        assert!(real.is_alone() && !simulated.is_real_time());
        let mut left = RemainingWork::from_tasks(std::slice::from_ref(&simulated), &[real, task_of("erum-throughput")]);
        let end = |task, took| StudyTaskResult { task, took: Duration::from_secs(took), result: Ok(None) };
        assert_eq!(left.time(), None);
        left.count(&end(simulated, 100), Duration::from_secs(100));
        assert_eq!(left.time(), Some(Duration::ZERO));
        left.count(&end(task_of("erum-throughput"), 7), Duration::from_secs(107));
        assert_eq!(left.time(), Some(Duration::from_secs(7)));
    }
}
