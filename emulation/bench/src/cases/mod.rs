//! The cases of the emulator's bench, one module each, with their measurements and targets.

mod capacity;
mod delay;
mod idle;
mod loss;
mod rate;
mod scale;
mod schedule;
mod setup;
mod trace;

use super::BenchRow;
use super::frame::{Bench, BenchContext, CaseError, named};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BenchCase {
    Delay,
    /// Errors of delays beside programs that keep all processors busy.
    Busy,
    /// Errors of rates, and the throughput of TCP.
    Rate,
    Loss,
    /// Errors of the times of scheduled changes.
    Schedule,
    Trace,
    Capacity,
    Scale,
    /// Times to make and remove networks.
    Setup,
    Idle,
}

named!(
    BenchCase,
    "nothing that can be measured",
    Self::Delay => "delay",
    Self::Busy => "busy",
    Self::Rate => "rate",
    Self::Loss => "loss",
    Self::Schedule => "schedule",
    Self::Trace => "trace",
    Self::Capacity => "capacity",
    Self::Scale => "scale",
    Self::Setup => "setup",
    Self::Idle => "idle",
);

/// Measures the emulator. A missing program is no error: its rows are not measured and give the reason.
pub struct EmulatorBench;

impl Bench for EmulatorBench {
    type Case = BenchCase;
    type Run = Vec<BenchRow>;
    type Row = BenchRow;

    const NAME: &'static str = "bench";

    fn run(&mut self, context: &mut BenchContext<'_>, case: &BenchCase) -> Result<Vec<BenchRow>, CaseError> {
        let rows = match case {
            BenchCase::Delay => delay::quiet(context),
            BenchCase::Busy => delay::busy(context),
            BenchCase::Rate => rate::measure(context),
            BenchCase::Loss => loss::measure(context),
            BenchCase::Schedule => schedule::measure(context),
            BenchCase::Trace => trace::measure(context),
            BenchCase::Capacity => capacity::measure(context),
            BenchCase::Scale => scale::measure(context),
            BenchCase::Setup => setup::measure(context),
            BenchCase::Idle => idle::measure(context),
        };
        Ok(rows?)
    }

    fn rows(case: &BenchCase, runs: Vec<Vec<BenchRow>>, _failed: usize) -> Vec<BenchRow> {
        runs.into_iter().flatten().map(|row| BenchRow { case: Some(*case), ..row }).collect()
    }
}
