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
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use roost_lab::Lab;

use self::end::{FrameExchange, PATIENCE};
use self::kernel::KernelStream;
use self::network::{RECEIVER, SENDER};
pub(super) use self::ours::{Members, OverlayEndpoint};
pub use self::reference::{ReferenceFigure, references};
pub use self::row::TransportRow;
pub use self::tally::TransportRun;
use super::frame::{Bench, BenchContext, CaseError, named};
use super::{BenchError, in_host, join, stalls, system};

const PORT: u16 = 7000;
/// The time for which the network goes on changing after the last frame was begun.
const AFTER: Duration = Duration::from_secs(30);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Condition {
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
    Paced,
    /// As many as there is room for.
    Throughput,
    /// Each after the answer to the previous one.
    PingPong,
}

named!(Condition, "no condition", Self::BothUp => "both-up", Self::Loss => "loss", Self::Failures => "failures");
named!(
    BenchTransport,
    "no transport",
    Self::QuicStripe => "quic-stripe",
    Self::QuicDuplicate => "quic-duplicate",
    Self::Udp => "udp",
    Self::Tcp => "tcp",
    Self::KernelTcp => "kernel-tcp",
    Self::KernelMptcp => "kernel-mptcp",
);
named!(
    FrameWorkload,
    "no workload",
    Self::Paced => "paced",
    Self::Throughput => "throughput",
    Self::PingPong => "ping-pong",
);

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

pub struct TransportBench {
    members: Members,
    /// The reason if there is no MPTCP.
    without_mptcp: Option<String>,
    time: Duration,
    runs: u32,
}

impl TransportBench {
    /// Measures each case in `runs` runs of `time`.
    ///
    /// # Errors
    /// Fails when the certificates cannot be made.
    pub fn new(time: Duration, runs: u32) -> Result<Self, BenchError> {
        let members = Members::new().map_err(system("make the certificates of a group"))?;
        Ok(Self { members, without_mptcp: kernel::mptcp_is_missing(), time, runs })
    }
}

impl Bench for TransportBench {
    type Case = TransportCase;
    type Run = TransportRun;
    type Row = TransportRow;

    const NAME: &'static str = "bench transport";

    fn runs(&self) -> u32 {
        self.runs
    }

    fn run(&mut self, context: &mut BenchContext<'_>, case: &TransportCase) -> Result<TransportRun, CaseError> {
        if let Some(why) = self.without_mptcp.as_ref().filter(|_| case.is_mptcp()) {
            return Err(CaseError::Missing(why.clone()));
        }
        let lab = context.lab(&network::for_condition(case.condition, self.time + AFTER))?;
        // This replaces the hosts' own setting, which has no effect here.
        context.facts.extend(kernel::congestion().map(|name| ("tcp".to_owned(), name)));
        let run = one_run(context, &lab, &self.members, case, self.time);
        let overruns = lab.overruns()?;
        if overruns > 0 {
            context.notes.push(format!("{case}: {overruns} packets were lost because this machine was too slow"));
        }
        Ok(run.map_err(|error| error.to_string())?)
    }

    fn rows(case: &TransportCase, runs: Vec<TransportRun>, _failed: usize) -> Vec<TransportRow> {
        vec![TransportRow::from_runs(case, &runs)]
    }
}

impl TransportCase {
    fn is_mptcp(&self) -> bool {
        self.transport == BenchTransport::KernelMptcp
    }
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
        hz: cell.hz.max(1).into(),
        time,
        stop: bench.stop,
    };
    let origin = setting.origin;
    let ends = &Ends { lab, members, cell, setting };
    let ((run, tally), stalls) = stalls::watch(|| ends.carry());
    let run = run?;
    // The figures of ping-pong are those of the requesting end.
    let tally = if cell.workload == FrameWorkload::PingPong { run.tally } else { tally? };
    let stalled = stalls.map(|stalls| {
        let excused = tally.late_by_stalls(|due, came| stalls.within(origin + due, origin + came));
        (excused, stalls.longest())
    });
    Ok(TransportRun { tally, stalled, ..run })
}

struct Ends<'a> {
    lab: &'a Lab,
    members: &'a Members,
    cell: &'a TransportCase,
    setting: FrameExchange<'a>,
}

impl Ends<'_> {
    /// Sends in a thread of one host and receives in a thread of the other.
    fn carry(&self) -> (io::Result<TransportRun>, io::Result<tally::FrameCounts>) {
        let (is_ready, ready) = sync_channel(1);
        thread::scope(|scope| {
            // If the receiver fails before it is ready, the sender notices.
            let receive = || self.receive(move || is_ready.send(()).unwrap_or(()));
            let receiver = scope.spawn(|| in_host(self.lab, RECEIVER, receive));
            let run = in_host(self.lab, SENDER, move || self.send(&ready));
            (run, join(receiver))
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
