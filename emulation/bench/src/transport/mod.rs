//! Measures transports over two links of 100 Mbit/s between two hosts: ours, and the kernel's TCP and MPTCP
//! beside them.
//!
//! The workloads and conditions are those of *Using SCTP to Improve QoS and Network Fault-Tolerance of DRE
//! Systems* (2004). Frames carry their number, their due time, and a checksum; all belong to one flow, so that
//! each transport has to keep their order.
//!
//! - **paced** frames are due at a steady rate; one that cannot be begun in time is begun as soon as possible,
//!   and keeps its due time. A frame is late if it comes more than 10 ms after it was due, which is the period
//!   at 100 Hz.
//! - **throughput** is as many frames as there is room for.
//! - **ping-pong** is a frame, its answer, the next.
//!
//! Both ends, and the carrier of the lab, share the processors.

mod end;
pub mod figures;
mod frame;
mod kernel;
mod network;
mod ours;
mod reference;
mod row;
mod tally;

use std::fmt;
use std::io;
use std::net::Ipv4Addr;
use std::str::FromStr;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use roost_lab::{Lab, LabError};

use self::end::{FrameExchange, PATIENCE};
use self::kernel::KernelStream;
use self::network::{RECEIVER, SENDER};
pub(super) use self::ours::Members;
use self::ours::OverlayEndpoint;
pub use self::reference::{ReferenceFigure, references};
pub use self::row::TransportRow;
use self::tally::TransportRun;
use super::measured::{BenchStart, Measured};
use super::{BenchContext, BenchError, BenchOptions, stalls, system};

const PORT: u16 = 7000;
/// The time for which the network goes on changing after the last frame was begun.
const AFTER: Duration = Duration::from_secs(30);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Condition {
    /// Nothing.
    BothUp,
    /// The first link loses 1 % of its packets, each way.
    Loss,
    /// Each link is up for 4 s and down for 2 s, in turn; one is always up. Packets on a link that is down
    /// vanish silently.
    Failures,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BenchTransport {
    /// `quic://` over both links, each chunk on the path that delivers it first.
    QuicStripe,
    /// `quic://` over both links, each chunk on both.
    QuicDuplicate,
    /// `udp://` over the first link.
    Udp,
    /// `tcp://` over the first link.
    Tcp,
    /// TCP of the kernel, unencrypted, over the first link.
    KernelTcp,
    /// MPTCP of the kernel, unencrypted, over both links.
    KernelMptcp,
}

/// The sending of frames; see the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FrameWorkload {
    /// At a steady rate.
    Paced,
    /// As many as there is room for.
    Throughput,
    /// Each after the answer to the previous one.
    PingPong,
}

macro_rules! named {
    ($type:ident, $what:literal, $($variant:ident => $name:literal),+ $(,)?) => {
        impl $type {
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The name on command lines, in tables and in JSON.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name),+
                }
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }

        impl FromStr for $type {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                let found = Self::ALL.iter().find(|one| one.name() == text);
                found.copied().ok_or_else(|| {
                    format!("`{text}` is no {}: write {}", $what, [$($name),+].join(", "))
                })
            }
        }
    };
}

named!(Condition, "condition", BothUp => "both-up", Loss => "loss", Failures => "failures");
named!(
    BenchTransport,
    "transport",
    QuicStripe => "quic-stripe",
    QuicDuplicate => "quic-duplicate",
    Udp => "udp",
    Tcp => "tcp",
    KernelTcp => "kernel-tcp",
    KernelMptcp => "kernel-mptcp",
);
named!(FrameWorkload, "workload", Paced => "paced", Throughput => "throughput", PingPong => "ping-pong");

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransportCase {
    pub condition: Condition,
    pub transport: BenchTransport,
    pub workload: FrameWorkload,
    /// Their length: from 32 bytes to 64 KiB.
    pub frame_bytes: u32,
    /// The rate of paced frames, per second.
    pub hz: u32,
}

impl fmt::Display for TransportCase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { condition, transport, workload, frame_bytes, hz } = self;
        write!(f, "{condition}, {transport}, {workload} of {frame_bytes} bytes")?;
        if *workload == FrameWorkload::Paced { write!(f, " at {hz} Hz") } else { Ok(()) }
    }
}

pub type TransportReport = Measured<TransportRow>;

/// Measures each of `cells`, in their order and each in `runs` runs of `time`, [inside a
/// sandbox](roost_lab::sandbox::enter).
///
/// `watch` is called with each run that begins. When `stop` is set it ends within a second or so, with the
/// complete rows.
///
/// # Errors
/// When a lab cannot be made, or breaks. A transport that fails or is missing is no error: a note reports it.
pub fn run(
    cells: &[TransportCase],
    time: Duration,
    runs: u32,
    options: &BenchOptions,
    stop: &AtomicBool,
    watch: &mut dyn FnMut(&TransportCase),
) -> Result<TransportReport, BenchError> {
    let begun = BenchStart::now();
    let mut bench = BenchContext { options, stop, facts: roost_experiment::host_facts::facts() };
    let mut report = TransportReport::default();
    let without_mptcp = kernel::mptcp_is_missing();
    report.notes.extend(without_mptcp.clone().filter(|_| cells.iter().any(TransportCase::is_mptcp)));
    let members = Members::new().map_err(system("make the certificates of a group"))?;
    for cell in cells {
        if cell.is_mptcp() && without_mptcp.is_some() {
            report.unmeasured += 1;
            continue;
        }
        match all_runs(&mut bench, &members, cell, time, runs, &mut report.notes, watch)? {
            Some(runs) => report.rows.push(TransportRow::from_runs(cell, &runs)),
            None if bench.is_stopped() => break,
            None => report.unmeasured += 1,
        }
    }
    // This replaces the hosts' own setting, which has no effect here.
    bench.facts.extend(kernel::congestion().map(|name| ("tcp".to_owned(), name)));
    report.end(&begun, bench.facts);
    Ok(report)
}

impl TransportCase {
    fn is_mptcp(&self) -> bool {
        self.transport == BenchTransport::KernelMptcp
    }
}

/// All runs of a combination; `None` if one of them failed or was stopped.
fn all_runs(
    bench: &mut BenchContext<'_>,
    members: &Members,
    cell: &TransportCase,
    time: Duration,
    runs: u32,
    notes: &mut Vec<String>,
    watch: &mut dyn FnMut(&TransportCase),
) -> Result<Option<Vec<TransportRun>>, BenchError> {
    let mut seen = Vec::new();
    for _ in 0..runs {
        watch(cell);
        let lab = bench.lab(&network::for_condition(cell.condition, time + AFTER))?;
        let run = one_run(bench, &lab, members, cell, time);
        if bench.is_stopped() {
            return Ok(None);
        }
        let overruns = lab.overruns()?;
        if overruns > 0 {
            notes.push(format!("{cell}: {overruns} packets were lost because this machine was too slow"));
        }
        match run {
            Ok(run) => seen.push(run),
            Err(error) => {
                notes.push(format!("{cell}: not measured: {error}"));
                return Ok(None);
            }
        }
    }
    Ok(Some(seen))
}

/// Sends and receives, in a thread of each host.
fn one_run(
    bench: &BenchContext<'_>,
    lab: &Lab,
    members: &Members,
    cell: &TransportCase,
    time: Duration,
) -> io::Result<TransportRun> {
    if cell.is_mptcp() {
        kernel::prepare_mptcp(lab)?;
    }
    let setting = FrameExchange {
        origin: Instant::now(),
        workload: cell.workload,
        frame_bytes: cell.frame_bytes as usize,
        period: Duration::from_secs(1) / cell.hz.max(1),
        time,
        stop: bench.stop,
    };
    let origin = setting.origin;
    let ends = &Ends { lab, members, cell, setting };
    let ((run, tally), stalls) = stalls::watch(|| ends.carry());
    let run = run.map_err(io::Error::other)??;
    // The figures of ping-pong are those of the requesting end.
    let tally =
        if cell.workload == FrameWorkload::PingPong { run.tally } else { tally.map_err(io::Error::other)?? };
    let stalled = stalls.map(|stalls| {
        let excused = tally.late_by_stalls(|due, came| stalls.within(origin + due, origin + came));
        (excused, stalls.longest())
    });
    Ok(TransportRun { tally, stalled, ..run })
}

/// The result of an end in a host.
type Carried<T> = Result<io::Result<T>, LabError>;

struct Ends<'a> {
    lab: &'a Lab,
    members: &'a Members,
    cell: &'a TransportCase,
    setting: FrameExchange<'a>,
}

impl Ends<'_> {
    /// Sends in a thread of one host and receives in a thread of the other.
    fn carry(&self) -> (Carried<TransportRun>, Carried<tally::FrameCounts>) {
        let (is_ready, ready) = sync_channel(1);
        thread::scope(|scope| {
            // If the receiver fails before it is ready, the sender notices.
            let receive = move || self.lab.run_in(RECEIVER, || self.receive(|| is_ready.send(()).unwrap_or(())));
            let receiver = scope.spawn(receive);
            let run = self.lab.run_in(SENDER, move || self.send(&ready));
            let tally = receiver.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            (run, tally)
        })
    }

    fn receive(&self, ready: impl FnOnce()) -> io::Result<tally::FrameCounts> {
        let transport = self.cell.transport;
        match transport {
            BenchTransport::KernelTcp | BenchTransport::KernelMptcp => {
                self.setting.receive_workload(&mut KernelStream::accept(transport, ready)?)
            }
            _ => {
                let hosts = self.addresses(RECEIVER)?;
                let mut end = OverlayEndpoint::accept(transport, &self.members.receiver, &hosts, ready)?;
                let tally = self.setting.receive_workload(&mut end)?;
                end.finish();
                Ok(tally)
            }
        }
    }

    fn send(&self, ready: &Receiver<()>) -> io::Result<TransportRun> {
        let receiver = self.addresses(RECEIVER)?;
        if ready.recv_timeout(PATIENCE).is_err() {
            return Err(io::Error::other("the receiver does not listen"));
        }
        let transport = self.cell.transport;
        match transport {
            BenchTransport::KernelTcp | BenchTransport::KernelMptcp => {
                let mut end = KernelStream::connect(transport, kernel::address(self.lab, 0, RECEIVER)?)?;
                let run = self.begin(&mut end)?;
                end.finish()?;
                Ok(run)
            }
            _ => {
                let mut end =
                    OverlayEndpoint::dial(transport, &self.members.sender, &self.addresses(SENDER)?, &receiver)?;
                let run = self.begin(&mut end)?;
                end.finish();
                Ok(run)
            }
        }
    }

    /// Starts the schedule of the links, and sends.
    fn begin(&self, end: &mut impl end::FrameEndpoint) -> io::Result<TransportRun> {
        self.lab.begin().map_err(io::Error::other)?;
        self.setting.send_workload(end)
    }

    /// The addresses of a host on the links that the transport uses.
    fn addresses(&self, host: usize) -> io::Result<Vec<Ipv4Addr>> {
        let links = if matches!(self.cell.transport, BenchTransport::Udp | BenchTransport::Tcp) { 1 } else { 2 };
        (0..links).map(|link| kernel::address(self.lab, link, host)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_read_by_its_name() {
        assert!(Condition::ALL.iter().all(|one| one.to_string().parse() == Ok(*one)));
        assert!(BenchTransport::ALL.iter().all(|one| one.to_string().parse() == Ok(*one)));
        assert!(FrameWorkload::ALL.iter().all(|one| one.to_string().parse() == Ok(*one)));
        let refused = "sctp".parse::<BenchTransport>().unwrap_err();
        assert!(refused.starts_with("`sctp` is no transport: write quic-stripe, quic-duplicate, udp"), "{refused}");
    }
}
