//! The frame of every benchmark: cases that are run several times, their rows, and the report.
//!
//! A benchmark says how to run a case, and what row the runs make. The frame has the order, the seeds, the progress,
//! the interrupt and the notes: a case that fails costs its own row only. A row defines its JSON by its fields, and its
//! table by its columns.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use roost_lab::{Lab, sandbox};
use roost_topology::Topology;
use serde::Serialize;

use super::machine::ProcessorSnapshot;
use super::{BenchError, BenchOptions};

pub trait Bench {
    type Case: fmt::Display;
    type Run;
    type Row: Row;

    const NAME: &'static str;
    /// True if a row may lack runs that failed.
    const MAY_LACK_RUNS: bool = false;

    /// The number of runs of each case, which have seeds of their own.
    fn runs(&self) -> u32 {
        1
    }

    /// # Errors
    /// Fails if the run does; the next cases are measured all the same.
    fn run(&mut self, context: &mut BenchContext<'_>, case: &Self::Case) -> Result<Self::Run, CaseError>;

    /// The rows of a case; `runs` is not empty.
    fn rows(case: &Self::Case, runs: Vec<Self::Run>, failed: usize) -> Vec<Self::Row>;
}

pub trait Row: Serialize + Sized + 'static {
    const COLUMNS: &'static [Column<Self>];

    /// The beginning of the line below the table.
    fn remark(_rows: &[Self]) -> String {
        String::new()
    }
}

/// A column of a table: its heading, which begins with `>` if it has numbers, and the cell of a row among all rows.
pub struct Column<Row>(pub &'static str, pub fn(&Row, &[Row]) -> String);

/// A cell with a number, or with a dash for `None`.
pub fn decimals(value: impl Into<Option<f64>>, decimals: usize) -> String {
    value.into().map_or_else(|| "-".to_owned(), |value| format!("{value:.decimals$}"))
}

pub fn whole<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

#[derive(Debug)]
pub enum CaseError {
    Failed(String),
    /// A sentence that other cases would repeat.
    Missing(String),
    Bench(BenchError),
}

impl From<String> for CaseError {
    fn from(why: String) -> Self {
        Self::Failed(why)
    }
}

impl<E: Into<BenchError>> From<E> for CaseError {
    fn from(error: E) -> Self {
        Self::Bench(error.into())
    }
}

#[derive(Clone, Debug, Serialize)]
pub struct Measured<Row> {
    pub rows: Vec<Row>,
    /// Missing measurements with the reasons, and other notes: a sentence each.
    pub notes: Vec<String>,
    #[serde(skip)]
    pub unmeasured: usize,
    /// Runs that failed in cases with a row.
    #[serde(skip)]
    pub aborted: usize,
    pub machine: BTreeMap<String, String>,
    /// The fraction of the machine that other programs used meanwhile.
    pub beside: Option<f64>,
    #[serde(skip)]
    pub beside_each: BTreeMap<String, f64>,
    pub seconds: f64,
    /// True if it was stopped before its end.
    #[serde(skip)]
    pub interrupted: bool,
}

impl<Row> Default for Measured<Row> {
    fn default() -> Self {
        let (rows, notes, machine, beside_each) = Default::default();
        let (unmeasured, aborted, beside, seconds, interrupted) = Default::default();
        Self { rows, notes, unmeasured, aborted, machine, beside, beside_each, seconds, interrupted }
    }
}

impl<Row> Measured<Row> {
    /// The case with the most other load, and that load.
    pub fn busiest(&self) -> Option<(&str, f64)> {
        self.beside_each.iter().map(|(case, part)| (case.as_str(), *part)).max_by(|a, b| a.1.total_cmp(&b.1))
    }

    fn add_note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }
}

/// Measures each of `cases`, in their order, [inside a sandbox](roost_lab::sandbox::enter).
///
/// `watch` is called with each run that begins. When `stop` is set it ends within about a second, with the complete
/// cases.
///
/// # Errors
/// Fails when this is no sandbox, or when the lab breaks before anything was measured.
pub fn measure<B: Bench>(
    bench: &mut B,
    cases: &[B::Case],
    options: &BenchOptions,
    stop: &AtomicBool,
    watch: &mut dyn FnMut(&B::Case),
) -> Result<Measured<B::Row>, BenchError> {
    sandbox::expect_inside()?;
    run_cases(bench, cases, options, stop, watch)
}

fn run_cases<B: Bench>(
    bench: &mut B,
    cases: &[B::Case],
    options: &BenchOptions,
    stop: &AtomicBool,
    watch: &mut dyn FnMut(&B::Case),
) -> Result<Measured<B::Row>, BenchError> {
    let (begun, load) = (Instant::now(), ProcessorSnapshot::read_now());
    let mut report = Measured::default();
    let mut context = BenchContext::new(options, stop);
    for case in cases {
        if context.is_stopped() {
            break;
        }
        let before = ProcessorSnapshot::read_now();
        let CaseRuns { runs, failed } = run_case(bench, case, &mut context, &report, watch)?;
        context.notes.drain(..).for_each(|note| report.add_note(note));
        if context.is_stopped() {
            break;
        }
        let has_row = !runs.is_empty() && (failed.is_empty() || B::MAY_LACK_RUNS);
        match has_row {
            true => report.aborted += failed.len(),
            false => report.unmeasured += 1,
        }
        let count = failed.len();
        failed.into_iter().for_each(|error| report.add_note(error.sentence(case, has_row)));
        if has_row {
            report.rows.extend(B::rows(case, runs, count));
        }
        report.beside_each.extend(other_load(before).map(|part| (case.to_string(), part)));
    }
    report.beside = other_load(load);
    report.seconds = begun.elapsed().as_secs_f64();
    report.machine = context.facts;
    report.interrupted = context.stop.load(Relaxed);
    Ok(report)
}

struct CaseRuns<R> {
    runs: Vec<R>,
    failed: Vec<CaseError>,
}

/// Fails if the lab breaks before `report` has anything.
fn run_case<B: Bench>(
    bench: &mut B,
    case: &B::Case,
    context: &mut BenchContext<'_>,
    report: &Measured<B::Row>,
    watch: &mut dyn FnMut(&B::Case),
) -> Result<CaseRuns<B::Run>, BenchError> {
    let mut done = CaseRuns { runs: Vec::new(), failed: Vec::new() };
    for run in 0..bench.runs() {
        watch(case);
        context.seed = context.options.seed.wrapping_add(run.into());
        match bench.run(context, case) {
            _ if context.is_stopped() => break,
            Ok(run) => done.runs.push(run),
            Err(CaseError::Bench(error)) if report.rows.is_empty() && done.runs.is_empty() => return Err(error),
            Err(error) => done.failed.push(error),
        }
        if !done.failed.is_empty() && !B::MAY_LACK_RUNS {
            break;
        }
    }
    Ok(done)
}

fn other_load(before: Option<ProcessorSnapshot>) -> Option<f64> {
    before.and_then(|before| Some(ProcessorSnapshot::read_now()?.other_load_since(&before)))
}

impl CaseError {
    fn sentence(self, case: &impl fmt::Display, has_row: bool) -> String {
        let why = match self {
            Self::Missing(why) => return why,
            Self::Failed(why) => why,
            Self::Bench(error) => error.to_string(),
        };
        if has_row { format!("{case}: {why}") } else { format!("{case}: not measured: {why}") }
    }
}

pub struct BenchContext<'a> {
    pub(crate) options: &'a BenchOptions,
    pub(crate) stop: &'a AtomicBool,
    /// Facts about this machine, and the carrying of packets on it.
    pub(crate) facts: BTreeMap<String, String>,
    pub(crate) notes: Vec<String>,
    pub(crate) seed: u64,
}

impl<'a> BenchContext<'a> {
    pub(crate) fn new(options: &'a BenchOptions, stop: &'a AtomicBool) -> Self {
        let facts = roost_experiment::host_facts::facts();
        Self { options, stop, facts, notes: Vec::new(), seed: options.seed }
    }

    pub(crate) fn lab(&mut self, topology: &Topology) -> Result<Lab, BenchError> {
        self.lab_with_seed(topology, self.seed)
    }

    pub(crate) fn lab_with_seed(&mut self, topology: &Topology, seed: u64) -> Result<Lab, BenchError> {
        let BenchOptions { backend, realtime, .. } = *self.options;
        let lab = Lab::start(topology, &roost_lab::LabOptions { seed, backend, realtime, ..Default::default() })?;
        // Facts that all labs of this bench share; the number of interfaces differs.
        for name in ["backend", "realtime", "processors_awake", "tcp", "exact_timers", "frame_overhead"] {
            if let Some(fact) = lab.facts().get(name) {
                self.facts.insert(name.to_owned(), fact.clone());
            }
        }
        Ok(lab)
    }

    /// The length of a measurement; `usual` is the default, which gives the figure its precision.
    pub(crate) fn length(&self, usual: Duration) -> Duration {
        self.options.length.unwrap_or(usual)
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Relaxed)
    }

    /// Waits until the time is up or the bench is stopped.
    pub(crate) fn sleep_unless_stopped(&self, time: Duration) {
        /// The delay until a request to stop is noticed; checking costs a little of the time that `idle`
        /// measures.
        const NAP: Duration = Duration::from_millis(500);
        let end = Instant::now() + time;
        while !self.is_stopped() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            std::thread::sleep(left.min(NAP));
        }
    }
}

/// Gives an enumeration its names on command lines, in tables and in JSON; `$kind` completes "is …".
macro_rules! named {
    ($type:ident, $kind:literal, $($value:expr => $name:literal),+ $(,)?) => {
        impl $type {
            pub const ALL: &'static [Self] = &[$($value),+];
            const NAMES: &'static [&'static str] = &[$($name),+];

            pub fn name(self) -> &'static str {
                Self::ALL.iter().position(|one| *one == self).map_or("", |place| Self::NAMES[place])
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }

        impl std::str::FromStr for $type {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                let found = Self::NAMES.iter().position(|name| *name == text);
                let found = found.map(|place| Self::ALL[place]);
                found.ok_or_else(|| format!("`{text}` is {}: write {}", $kind, Self::NAMES.join(", ")))
            }
        }

        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.name())
            }
        }
    };
}
pub(crate) use named;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BenchCase;
    use crate::bulk::BulkSender;
    use crate::capacity::CapacityMode;
    use crate::reflect::Implementation;
    use crate::subscription::SubscriptionCase;
    use crate::transport::{BenchTransport, Condition, FrameWorkload};

    fn round_trip<T: Copy + fmt::Display + std::str::FromStr<Err = String> + PartialEq>(all: &[T], sentence: &str) {
        assert!(all.iter().all(|one| one.to_string().parse().is_ok_and(|parsed: T| parsed == *one)));
        assert!("sctp".parse::<T>().is_err_and(|refused| refused.starts_with(&format!("`sctp` is {sentence}"))));
    }

    #[derive(Debug, PartialEq, Serialize)]
    struct SeedRow(Vec<u64>, usize);

    impl Row for SeedRow {
        const COLUMNS: &'static [Column<Self>] = &[];
    }

    /// Two runs of each case, of which some fail by these words.
    struct Failing<const MAY_LACK_RUNS: bool>(Vec<&'static str>);

    impl<const MAY_LACK_RUNS: bool> Bench for Failing<MAY_LACK_RUNS> {
        type Case = u64;
        type Run = u64;
        type Row = SeedRow;

        const NAME: &'static str = "bench";
        const MAY_LACK_RUNS: bool = MAY_LACK_RUNS;

        fn runs(&self) -> u32 {
            2
        }

        fn run(&mut self, context: &mut BenchContext<'_>, case: &u64) -> Result<u64, CaseError> {
            match self.0.pop() {
                Some("case") => Err(CaseError::Failed("it broke".to_owned())),
                Some("lab") => Err(crate::system("make it")(std::io::ErrorKind::NotFound.into()).into()),
                Some("tool") => Err(CaseError::Missing("no tool".to_owned())),
                Some("stop") => {
                    context.stop.store(true, Relaxed);
                    Ok(0)
                }
                _ => Ok(10 * case + context.seed),
            }
        }

        fn rows(_case: &u64, runs: Vec<u64>, failed: usize) -> Vec<SeedRow> {
            vec![SeedRow(runs, failed)]
        }
    }

    fn report<const LACKS: bool>(failures: &[&'static str]) -> Result<(Measured<SeedRow>, usize), BenchError> {
        let (stop, mut begun) = (AtomicBool::new(false), 0);
        let mut bench = Failing::<LACKS>(failures.iter().rev().copied().collect());
        let report = run_cases(&mut bench, &[1, 2, 3], &BenchOptions::default(), &stop, &mut |_| begun += 1)?;
        Ok((report, begun))
    }

    #[test]
    fn failed_case_costs_its_row_only() {
        let (report, begun) = report::<false>(&["", "", "case", "", ""]).unwrap();
        assert_eq!(report.rows, [SeedRow(vec![11, 12], 0), SeedRow(vec![31, 32], 0)]);
        assert_eq!((report.notes, report.unmeasured), (vec!["2: not measured: it broke".to_owned()], 1));
        assert_eq!((begun, report.beside_each.len()), (5, 3));
    }

    #[test]
    fn row_may_lack_failed_runs() {
        let (report, begun) = report::<true>(&["case", "", "case", "case"]).unwrap();
        assert_eq!(report.rows, [SeedRow(vec![12], 1), SeedRow(vec![31, 32], 0)]);
        assert_eq!(report.notes, ["1: it broke", "2: not measured: it broke"]);
        assert_eq!((report.aborted, report.unmeasured, begun), (1, 1, 6));
    }

    #[test]
    fn shared_reason_is_noted_once() {
        let (report, _) = report::<false>(&["tool", "tool", "tool"]).unwrap();
        assert_eq!((report.notes, report.unmeasured), (vec!["no tool".to_owned()], 3));
    }

    #[test]
    fn broken_lab_keeps_measured_rows() {
        assert!(report::<false>(&["lab"]).is_err());
        let (report, _) = report::<false>(&["", "", "lab"]).unwrap();
        assert_eq!((report.rows.len(), report.unmeasured), (2, 1));
    }

    #[test]
    fn interrupt_leaves_complete_cases() {
        let (report, begun) = report::<false>(&["", "", "", "stop"]).unwrap();
        assert_eq!((report.rows, begun, report.interrupted), (vec![SeedRow(vec![11, 12], 0)], 4, true));
    }

    #[test]
    fn names_round_trip() {
        round_trip(BenchCase::ALL, "nothing that can be measured: write delay, busy, rate");
        round_trip(BenchTransport::ALL, "no transport: write quic-stripe, quic-duplicate, udp");
        round_trip(BulkSender::ALL, "no sender: write tcp-cubic, tcp-bbr");
        round_trip(CapacityMode::ALL, "nothing that can be measured: write count, residual");
        round_trip(Condition::ALL, "no condition: write both-up");
        round_trip(FrameWorkload::ALL, "no workload: write paced");
        round_trip(Implementation::ALL, "nothing that reflects: write c-gso, ours,");
        round_trip(SubscriptionCase::ALL, "nothing that can be measured: write join-first, join-reflected");
    }
}
