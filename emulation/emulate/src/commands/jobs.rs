//! Runs in virtual time on several processors, with their progress.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::num::NonZeroUsize;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use roost_lab::Interrupt;
use roost_terminal::{Output, Steps};

use crate::failure::{CommandResult, Failure, FailureCode};

/// The interval at which an interrupt is checked.
const LOOK: Duration = Duration::from_millis(100);
/// The time between two lines of progress where there is no terminal.
const PACE: Duration = Duration::from_secs(10);
/// As much stack as the main thread has.
const STACK: usize = 8 << 20;
/// Memory that a run takes at least, and for each node.
const RUN_BYTES: u64 = 40 << 20;
const NODE_BYTES: u64 = 200 << 10;

#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct JobArgs {
    /// The most runs in virtual time at once [default: one on each processor, as memory allows]
    #[arg(short, long, value_name = "N")]
    jobs: Option<NonZeroUsize>,
}

impl JobArgs {
    /// The number of runs at once, of networks with at most this many nodes.
    pub(crate) fn count(self, nodes: usize) -> usize {
        let processors = || thread::available_parallelism().map_or(1, usize::from);
        self.jobs.map_or_else(|| processors().min(fitting(available_bytes(), nodes)).max(1), usize::from)
    }
}

/// The number of runs that fit into memory.
fn fitting(available: Option<u64>, nodes: usize) -> usize {
    let each = RUN_BYTES + NODE_BYTES * nodes as u64;
    available.map_or(usize::MAX, |bytes| (bytes / each) as usize)
}

fn available_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().trim_end_matches("kB").trim().parse::<u64>().ok().map(|kilobytes| kilobytes << 10)
}

/// Tasks that go on at once, and their progress.
pub(crate) struct Jobs<'a> {
    pub(crate) threads: usize,
    pub(crate) output: Output,
    pub(crate) interrupt: &'a Interrupt,
}

impl Jobs<'_> {
    /// Does all tasks. Calls `ended` for each result in the order of the tasks, and ends early if it fails. After an
    /// interrupt, tasks that have begun are left as they are.
    pub(crate) fn run<T: Send + 'static, R: Send + 'static>(
        &self,
        tasks: Vec<T>,
        work: impl Fn(T) -> R + Send + Sync + 'static,
        mut ended: impl FnMut(R) -> CommandResult,
    ) -> CommandResult {
        let count = tasks.len();
        let queue = Arc::new(Mutex::new(tasks.into_iter().enumerate().collect::<VecDeque<_>>()));
        let (sender, results) = channel();
        let work = Arc::new(work);
        for _ in 0..self.threads.min(count) {
            let (queue, sender, work) = (Arc::clone(&queue), sender.clone(), Arc::clone(&work));
            let next = move || queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            let work_all = move || {
                while let Some((place, task)) = next() {
                    if sender.send((place, work(task))).is_err() {
                        return;
                    }
                }
            };
            let spawned = thread::Builder::new().stack_size(STACK).spawn(work_all);
            spawned.map_err(|error| Failure::failed(format!("cannot start a thread: {error}")))?;
        }
        drop(sender);
        let mut progress = JobProgress::start(self.output, count);
        let (mut early, mut due) = (BTreeMap::new(), 0);
        let told = loop {
            if self.interrupt.is_set() {
                return Err(interrupted());
            }
            match results.recv_timeout(LOOK) {
                Ok((place, result)) => {
                    progress.advance();
                    early.insert(place, result);
                }
                Err(RecvTimeoutError::Timeout) => progress.look(),
                Err(RecvTimeoutError::Disconnected) => break Ok(()),
            }
            let mut ready = std::iter::from_fn(|| {
                let result = early.remove(&due)?;
                due += 1;
                Some(result)
            });
            let told = ready.try_for_each(&mut ended);
            if told.is_err() {
                break told;
            }
        };
        // A thread that panicked has left its task, and said so.
        let lost = count - due;
        told?;
        if lost > 0 {
            Err(Failure::failed(format!("{lost} of {count} runs ended the program's threads")))
        } else {
            Ok(())
        }
    }
}

pub(crate) fn interrupted() -> Failure {
    Failure::new(FailureCode::Interrupted, "interrupted; the same command goes on with the runs that are not complete")
}

/// Runs done of all, their rate and the time left: a line of a terminal, or else a line now and then.
struct JobProgress {
    output: Output,
    steps: Steps,
    done: usize,
    all: usize,
    began: Instant,
    next: Duration,
}

impl JobProgress {
    fn start(output: Output, all: usize) -> Self {
        let steps = Steps::start(output, "runs", all);
        Self { output, steps, done: 0, all, began: Instant::now(), next: PACE }
    }

    fn advance(&mut self) {
        self.done += 1;
        self.steps.say(self.text(self.began.elapsed()));
        self.steps.advance();
        self.look();
    }

    fn look(&mut self) {
        let passed = self.began.elapsed();
        if passed >= self.next && !self.output.shows_progress() {
            self.next = passed + PACE;
            self.output.say(self.text(passed));
        }
    }

    fn text(&self, passed: Duration) -> String {
        let Self { done, all, .. } = *self;
        let seconds = passed.as_secs_f64();
        if done == 0 {
            return format!("0 of {all} runs, {seconds:.0} s");
        }
        let rate = done as f64 / seconds.max(1e-3);
        let left = span((all - done) as f64 / rate);
        format!("{done} of {all} runs, {}, {left} left", pace(rate))
    }
}

fn pace(rate: f64) -> String {
    if rate >= 1.0 { format!("{rate:.1} a second") } else { format!("{:.1} a minute", rate * 60.0) }
}

/// A time of this many seconds for people.
pub(crate) fn span(seconds: f64) -> String {
    match seconds {
        _ if seconds < 90.0 => format!("{:.0} s", seconds.ceil()),
        _ if seconds < 5400.0 => format!("{:.0} min", seconds / 60.0),
        _ => format!("{:.1} h", seconds / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use roost_terminal::OutputArgs;

    use super::*;

    fn quiet() -> Output {
        OutputArgs { quiet: true, no_color: true, ..OutputArgs::default() }.output()
    }

    #[test]
    fn results_come_in_order() {
        let interrupt = Interrupt::listen().unwrap();
        for threads in [1, 4] {
            let jobs = Jobs { threads, output: quiet(), interrupt: &interrupt };
            let mut seen = Vec::new();
            let tasks: Vec<u64> = (0..40).collect();
            let ended = |square| {
                seen.push(square);
                Ok(())
            };
            jobs.run(tasks, |number| number * number, ended).unwrap();
            assert_eq!(seen, (0..40).map(|number| number * number).collect::<Vec<u64>>());
        }
    }

    #[test]
    fn progress_tells_rate_and_rest() {
        let mut progress = JobProgress::start(quiet(), 400);
        assert_eq!(progress.text(Duration::from_secs(3)), "0 of 400 runs, 3 s");
        progress.done = 100;
        assert_eq!(progress.text(Duration::from_secs(20)), "100 of 400 runs, 5.0 a second, 60 s left");
        assert_eq!(progress.text(Duration::from_secs(2000)), "100 of 400 runs, 3.0 a minute, 1.7 h left");
    }

    #[test]
    fn memory_limits_jobs() {
        assert_eq!(fitting(Some(1 << 30), 10), 24);
        assert_eq!(fitting(Some(1 << 30), 10_000), 0);
        assert_eq!(fitting(None, 10), usize::MAX);
        assert!(available_bytes().is_some_and(|bytes| bytes > 1 << 20));
    }
}
