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
mod reference;
mod row;

use std::fmt;
use std::process::Command;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use roost_lab::sandbox;

use self::load::{FIRST_SINK, Load, PORT, TrialResult};
pub use self::ours::{ReflectorSettings, reflect};
use self::pair::{FAR, NEAR, VethPair};
use self::reference::ReferenceProgram;
pub use self::row::{ReflectRow, Video};
use super::BenchError;
use super::measured::{BenchStart, Measured};

/// The fraction of losses that is tolerated.
const LOST: f64 = 0.001;
/// The most trials to find a rate, and the resolution of rates.
const TRIALS: u32 = 6;
const SAME: f64 = 0.04;
/// The fraction of the highest rate at which delays and losses are measured.
const CALM: f64 = 0.7;
/// The rate of a video, bits per second, whose delays are those of real use.
const VIDEO_BITS: f64 = 30e6;

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

impl Implementation {
    pub const ALL: [Self; 6] = [Self::Gso, Self::Ours, Self::Sealed, Self::Single, Self::Sendmmsg, Self::Naive];

    /// The name on command lines, in tables and in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Sealed => "ours-sealed",
            Self::Single => "ours-single",
            Self::Naive => "c-naive",
            Self::Sendmmsg => "c-sendmmsg",
            Self::Gso => "c-gso",
        }
    }
}

impl fmt::Display for Implementation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Implementation {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|one| one.name() == text).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("`{text}` is nothing that reflects: write {names}")
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReflectCase {
    pub implementation: Implementation,
    pub targets: u16,
    /// Bytes of a datagram.
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

pub type ReflectReport = Measured<ReflectRow>;

/// Measures each of `cells` in their order, each in up to nine trials of `time`, [inside a
/// sandbox](roost_lab::sandbox::enter).
///
/// `watch` is called with each cell that begins. When `stop` is set it ends after the trial.
///
/// # Errors
/// When the two hosts cannot be made. A reflector that fails or is missing is no error: a note reports it.
pub fn run(
    cells: &[ReflectCase],
    time: Duration,
    stop: &AtomicBool,
    watch: &mut dyn FnMut(&ReflectCase),
) -> Result<ReflectReport, BenchError> {
    let begun = BenchStart::now();
    sandbox::expect_inside()?;
    let pair = VethPair::make().map_err(super::system("make two hosts with a veth pair"))?;
    let mut bench = ReflectBench { pair, reference: None, time, stop };
    let mut report = ReflectReport::default();
    for cell in cells {
        if stop.load(Relaxed) {
            break;
        }
        watch(cell);
        match bench.measure(cell) {
            Ok(row) => report.rows.push(row),
            Err(why) => {
                report.unmeasured += 1;
                if !report.notes.contains(&why) {
                    report.notes.push(why);
                }
            }
        }
    }
    let mut facts = roost_experiment::host_facts::facts();
    facts.insert("backend".to_owned(), "a veth pair alone".to_owned());
    facts.insert("realtime".to_owned(), "not asked for".to_owned());
    report.end(&begun, facts);
    Ok(report)
}

struct ReflectBench<'a> {
    pair: VethPair,
    /// Compiled at the first use.
    reference: Option<Result<ReferenceProgram, String>>,
    time: Duration,
    stop: &'a AtomicBool,
}

impl ReflectBench<'_> {
    fn measure(&mut self, cell: &ReflectCase) -> Result<ReflectRow, String> {
        self.pair.set_offload(cell.offload).map_err(|error| format!("{cell}: not measured: {error}"))?;
        let flood = self.trial(cell, None)?;
        let best = self.highest(cell, &flood)?;
        let rate = best.sent as f64 / best.seconds;
        let calm = self.trial(cell, Some(rate * CALM))?;
        let video = VIDEO_BITS / 8.0 / cell.bytes as f64;
        let video = (video <= rate * CALM).then(|| self.trial(cell, Some(video))).transpose()?;
        Ok(ReflectRow::from_trials(cell, &best, &calm, video.as_ref()))
    }

    /// The trial with the highest rate at which hardly anything is lost, by bisection.
    fn highest(&mut self, cell: &ReflectCase, flood: &TrialResult) -> Result<TrialResult, String> {
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
            if best.is_some() && (high - low) / high < SAME || self.stop.load(Relaxed) {
                break;
            }
        }
        best.ok_or_else(|| format!("{cell}: it loses more than one in a thousand at any rate that was tried"))
    }

    fn trial(&mut self, cell: &ReflectCase, rate: Option<f64>) -> Result<TrialResult, String> {
        let sealed = cell.implementation == Implementation::Sealed;
        let load = Load { targets: cell.targets, bytes: cell.bytes, sealed, rate, time: self.time };
        let command = self.command(cell)?;
        load::run(&self.pair, command, &load).map_err(|error| format!("{cell}: not measured: {error}"))
    }

    fn command(&mut self, cell: &ReflectCase) -> Result<Command, String> {
        let way = match cell.implementation {
            Implementation::Naive => "naive",
            Implementation::Sendmmsg => "sendmmsg",
            Implementation::Gso => "gso",
            Implementation::Ours | Implementation::Sealed | Implementation::Single => return ours(cell),
        };
        let reference = self.reference.get_or_insert_with(ReferenceProgram::compile);
        let path = reference.as_ref().map_err(Clone::clone)?.path();
        let mut command = Command::new(path);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn implementation_names_round_trip() {
        for one in Implementation::ALL {
            assert_eq!(one.to_string().parse(), Ok(one));
        }
        assert!("tee".parse::<Implementation>().unwrap_err().contains("c-gso, ours,"));
    }
}
