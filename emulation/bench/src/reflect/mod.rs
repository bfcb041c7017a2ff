//! Measures how one copy of a stream becomes many: by a super node's data path, and by C programs for
//! comparison, which are compiled before the measurement.
//!
//! A reflector sends each datagram of one generator to N sinks. It has a processor of its own; generator and
//! sinks share another, and a veth pair connects them: the receiving part of the network stack is charged to
//! the sender. A trial counts arrivals at the sinks. The rate of a row is the highest at which at most one
//! datagram in a thousand is lost; delays and losses are measured at 0.7 of that, and at 30 Mbit/s, from the
//! generator to the system's time stamp of the arrival.

mod load;
mod ours;
mod pair;
mod row;

use std::fmt;
use std::process::Command;
use std::time::Duration;

use self::load::{FIRST_SINK, PORT, TrialLoad, TrialResult};
pub use self::ours::{ReflectorSettings, reflect};
use self::pair::{FAR, NEAR, VethPair};
pub use self::row::{ReflectRow, Video};
use super::BenchError;
use super::frame::{Bench, BenchContext, CaseError, named};
use super::program::{CompiledProgram, SourceProgram};

/// The fraction of losses that is tolerated.
const LOST: f64 = 0.001;
/// The most trials to find a rate, and the resolution of rates.
const TRIALS: u32 = 6;
const SAME: f64 = 0.04;
/// The fraction of the highest rate at which delays and losses are measured.
const CALM: f64 = 0.7;
/// The rate of a video, bits per second, whose delays are those of real use.
const VIDEO_BITS: f64 = 30e6;

const REFERENCE: SourceProgram = SourceProgram {
    subject: "what is written in C",
    source: include_str!("reference.c"),
    file: "reference.c",
    compiler: "gcc",
    libraries: &[],
    packages: "gcc and libc6-dev",
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Implementation {
    /// A super node's data path, for any datagrams.
    Ours,
    /// A super node's data path for sealed packets: it reads their headers, and keeps them for late subscribers
    /// and repairs.
    Sealed,
    /// Ours with each packet by itself.
    Single,
    /// In C: one system call for each datagram.
    Naive,
    /// In C: many datagrams in a call.
    Sendmmsg,
    /// In C: many in a call, and packets of one size as one message.
    Gso,
}

named!(
    Implementation,
    "nothing that reflects",
    Self::Gso => "c-gso",
    Self::Ours => "ours",
    Self::Sealed => "ours-sealed",
    Self::Single => "ours-single",
    Self::Sendmmsg => "c-sendmmsg",
    Self::Naive => "c-naive",
);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReflectCase {
    pub implementation: Implementation,
    pub targets: u16,
    pub bytes: usize,
    /// True if the reflector's network card cuts messages into datagrams; otherwise its kernel does.
    pub offload: bool,
}

impl fmt::Display for ReflectCase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { implementation, targets, bytes, offload } = self;
        let without = if *offload { "" } else { " without offload" };
        write!(f, "{implementation}, {bytes} bytes to {targets}{without}")
    }
}

/// Measures each case in up to nine trials.
pub struct ReflectBench {
    pair: VethPair,
    /// Compiled at the first use.
    reference: Option<Result<CompiledProgram, String>>,
    time: Duration,
}

impl Bench for ReflectBench {
    type Case = ReflectCase;
    type Run = ReflectRow;
    type Row = ReflectRow;

    const NAME: &'static str = "bench reflect";

    fn run(&mut self, context: &mut BenchContext<'_>, case: &ReflectCase) -> Result<ReflectRow, CaseError> {
        context.facts.insert("backend".to_owned(), "a veth pair alone".to_owned());
        context.facts.insert("realtime".to_owned(), "not asked for".to_owned());
        self.pair.set_offload(case.offload).map_err(|error| error.to_string())?;
        let flood = self.trial(case, None)?;
        let best = self.highest(context, case, &flood)?;
        let rate = best.sent as f64 / best.seconds;
        let calm = self.trial(case, Some(rate * CALM))?;
        let video = VIDEO_BITS / 8.0 / case.bytes as f64;
        let video = (video <= rate * CALM).then(|| self.trial(case, Some(video))).transpose()?;
        Ok(ReflectRow::from_trials(case, &best, &calm, video.as_ref()))
    }

    fn rows(_case: &ReflectCase, runs: Vec<ReflectRow>, _failed: usize) -> Vec<ReflectRow> {
        runs
    }
}

impl ReflectBench {
    /// # Errors
    /// Fails when the two hosts cannot be made.
    pub fn new(time: Duration) -> Result<Self, BenchError> {
        let pair = VethPair::make().map_err(super::system("make two hosts with a veth pair"))?;
        Ok(Self { pair, reference: None, time })
    }

    /// The trial with the highest rate at which hardly anything is lost, by bisection.
    fn highest(
        &mut self,
        context: &BenchContext<'_>,
        cell: &ReflectCase,
        flood: &TrialResult,
    ) -> Result<TrialResult, CaseError> {
        let through = flood.received as f64 / f64::from(cell.targets) / flood.seconds;
        // A flood slows the receivers down: the highest rate may be a little greater.
        let (mut low, mut high) = (0.3 * through, (1.6 * through).min(flood.sent as f64 / flood.seconds));
        let mut best = None;
        for _ in 0..TRIALS {
            let rate = (low + high) / 2.0;
            let seen = self.trial(cell, Some(rate))?;
            let expected = seen.sent * u64::from(cell.targets);
            if seen.received as f64 >= (1.0 - LOST) * expected as f64 {
                low = rate;
                best = Some(seen);
            } else {
                high = rate;
            }
            if best.is_some() && (high - low) / high < SAME || context.is_stopped() {
                break;
            }
        }
        best.ok_or_else(|| "it loses more than one in a thousand at any rate that was tried".to_owned().into())
    }

    fn trial(&mut self, cell: &ReflectCase, rate: Option<f64>) -> Result<TrialResult, CaseError> {
        let sealed = cell.implementation == Implementation::Sealed;
        let load = TrialLoad { targets: cell.targets, bytes: cell.bytes, sealed, rate, time: self.time };
        let command = self.command(cell)?;
        Ok(load::run(&self.pair, command, &load).map_err(|error| error.to_string())?)
    }

    fn command(&mut self, cell: &ReflectCase) -> Result<Command, CaseError> {
        let way = match cell.implementation {
            Implementation::Naive => "naive",
            Implementation::Sendmmsg => "sendmmsg",
            Implementation::Gso => "gso",
            Implementation::Ours | Implementation::Sealed | Implementation::Single => return Ok(ours(cell)?),
        };
        let reference = self.reference.get_or_insert_with(|| REFERENCE.compile());
        let reference = reference.as_ref().map_err(|why| CaseError::Missing(why.clone()))?;
        let mut command = Command::new(reference.path());
        command.args([way, &PORT.to_string(), &NEAR.to_string(), &FIRST_SINK.to_string(), &cell.targets.to_string()]);
        Ok(command)
    }
}

/// This program itself, whose `bench reflector` calls [`reflect`].
fn ours(cell: &ReflectCase) -> Result<Command, String> {
    let path = std::env::current_exe().map_err(|error| format!("this program does not find itself: {error}"))?;
    let mut command = Command::new(path);
    let (listen, to) = (format!("{FAR}:{PORT}"), format!("{NEAR}:{FIRST_SINK}"));
    command.args(["bench", "reflector", "--listen", &listen, "--to", &to, "--count", &cell.targets.to_string()]);
    match cell.implementation {
        Implementation::Sealed => drop(command.arg("--sealed")),
        Implementation::Single => drop(command.arg("--no-offload")),
        _ => {}
    }
    Ok(command)
}
