//! Measures how an endless object fills long, slow and lossy paths: over `quic://` with each of its congestion
//! controls, and for comparison over the kernel's TCP and UDT4.
//!
//! Each sends for the same time, which begins before it connects: the handshake and the search for the rate are
//! part of its goodput. Probes of 64 bytes, a hundred a second, measure the queueing delay; the emulator's
//! counters at the bottleneck show how many packets there were beyond those that the bytes need.
//!
//! Both ends, and the carrier of the lab, share the processors.

mod arrivals;
mod ours;
mod route;
mod row;
mod tcp;
mod udt4;

use std::fmt;
use std::io;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use roost_lab::Lab;
use roost_topology::model::HostIndex;
use roost_wire::Congestion;

use self::arrivals::ByteArrivals;
pub use self::route::PathProfile;
pub use self::row::BulkRow;
use super::frame::{Bench, BenchContext, CaseError, named};
use super::probe::{self, Priority};
use super::program::CompiledProgram;
use super::transport::Members;
use super::{BenchError, in_host, join, system};

const SENDING: HostIndex = 0;
const RECEIVING: HostIndex = 1;
/// The port of the first flow; the second has the next.
const PORT: u16 = 7100;
/// The interval at which an end checks for the end of the run.
const LOOK: Duration = Duration::from_millis(100);
/// The head start of the first of two flows.
const LATER: Duration = Duration::from_secs(5);
/// The time from which on the sharing of two flows is measured.
const SETTLED: Duration = Duration::from_secs(12);
/// The least time of a run with two flows.
const LEAST_SHARED: Duration = Duration::from_secs(20);
/// The interval of probes, and the bytes of their frames.
const PROBE_INTERVAL: Duration = Duration::from_millis(10);
const PROBE_BYTES: u32 = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BulkSender {
    /// TCP of the kernel, unencrypted, with cubic.
    TcpCubic,
    TcpBbr,
    /// The kernel's TCP with cubic and a window of about 32 KB, as it was without tuning.
    Tcp32k,
    /// UDT4 as Debian has it, unencrypted.
    Udt4,
    Quic(Congestion),
}

named!(
    BulkSender,
    "no sender",
    Self::TcpCubic => "tcp-cubic",
    Self::TcpBbr => "tcp-bbr",
    Self::Tcp32k => "tcp-32k",
    Self::Udt4 => "udt4",
    Self::Quic(Congestion::Cubic) => "cubic",
    Self::Quic(Congestion::Rate) => "rate",
    Self::Quic(Congestion::Udt) => "udt",
    Self::Quic(Congestion::Bbr) => "bbr",
);

impl BulkSender {
    /// The largest payload of a packet, bytes.
    const fn payload(self) -> f64 {
        match self {
            Self::TcpCubic | Self::TcpBbr | Self::Tcp32k => 1448.0,
            Self::Udt4 => 1456.0,
            // Without the headers, the tag, and the heads of the frame and the chunk.
            Self::Quic(_) => 1410.0,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BulkCase {
    pub route: PathProfile,
    pub sender: BulkSender,
    /// The sender of a second flow, which starts 5 s later.
    pub competitor: Option<BulkSender>,
}

impl BulkCase {
    fn senders(&self) -> impl Iterator<Item = BulkSender> {
        [Some(self.sender), self.competitor].into_iter().flatten()
    }

    pub fn name(&self) -> String {
        self.senders().map(BulkSender::name).collect::<Vec<_>>().join("+")
    }
}

impl fmt::Display for BulkCase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.route.name, self.name())
    }
}

pub struct BulkBench {
    tools: Tools,
    /// The length of a run, instead of the default of its path.
    seconds: Option<u32>,
    runs: u32,
}

impl BulkBench {
    /// # Errors
    /// Fails when the certificates cannot be made.
    pub fn new(seconds: Option<u32>, runs: u32) -> Result<Self, BenchError> {
        let members = Members::new().map_err(system("make the certificates of a group"))?;
        Ok(Self { tools: Tools { members, udt4: None }, seconds, runs })
    }
}

impl Bench for BulkBench {
    type Case = BulkCase;
    type Run = BulkRow;
    type Row = BulkRow;

    const NAME: &'static str = "bench bulk";
    const MAY_LACK_RUNS: bool = true;

    fn runs(&self) -> u32 {
        self.runs
    }

    fn run(&mut self, context: &mut BenchContext<'_>, case: &BulkCase) -> Result<BulkRow, CaseError> {
        if case.senders().any(|sender| sender == BulkSender::Udt4) {
            let compiled = self.tools.udt4.get_or_insert_with(|| udt4::SOURCE.compile());
            compiled.as_ref().map_err(|why| CaseError::Missing(why.clone()))?;
        }
        let time = Duration::from_secs(self.seconds.unwrap_or(case.route.seconds).into());
        one_run(context, &self.tools, case, time)
    }

    fn rows(_case: &BulkCase, runs: Vec<BulkRow>, failed: usize) -> Vec<BulkRow> {
        vec![BulkRow::pooled(&runs, failed)]
    }
}

struct Tools {
    members: Members,
    udt4: Option<Result<CompiledProgram, String>>,
}

struct BulkFlow<'a> {
    sender: BulkSender,
    port: u16,
    over: &'a AtomicBool,
    tools: &'a Tools,
}

impl BulkFlow<'_> {
    fn is_over(&self) -> bool {
        self.over.load(Relaxed)
    }

    fn udt4(&self) -> io::Result<&CompiledProgram> {
        self.tools.udt4.as_ref().and_then(|compiled| compiled.as_ref().ok()).ok_or(io::ErrorKind::NotFound.into())
    }

    fn send(&self, from: Ipv4Addr, to: Ipv4Addr) -> io::Result<()> {
        match self.sender {
            BulkSender::TcpCubic | BulkSender::Tcp32k => tcp::send(self, to, "cubic"),
            BulkSender::TcpBbr => tcp::send(self, to, "bbr"),
            BulkSender::Udt4 => udt4::send(self.udt4()?, self, to),
            BulkSender::Quic(congestion) => ours::send(self, &self.tools.members.sender, (from, to), congestion),
        }
    }

    fn receive(&self, at: Ipv4Addr, arrivals: &ByteArrivals) -> io::Result<()> {
        match self.sender {
            BulkSender::TcpCubic | BulkSender::TcpBbr => tcp::receive(self, None, arrivals),
            BulkSender::Tcp32k => tcp::receive(self, Some(tcp::ROOM_32K), arrivals),
            BulkSender::Udt4 => udt4::receive(self.udt4()?, self, arrivals),
            BulkSender::Quic(congestion) => ours::receive(self, &self.tools.members.receiver, at, congestion, arrivals),
        }
    }
}

/// Runs the flows of a cell over a new path.
fn one_run(bench: &mut BenchContext<'_>, tools: &Tools, cell: &BulkCase, time: Duration) -> Result<BulkRow, CaseError> {
    let lab = bench.lab(&cell.route.topology())?;
    let time = if cell.competitor.is_some() { time.max(LEAST_SHARED) } else { time };
    let over = &AtomicBool::new(false);
    let flows: Vec<(BulkFlow<'_>, ByteArrivals)> = (0..)
        .zip(cell.senders())
        .map(|(number, sender)| {
            let begins = Instant::now() + LATER * u32::from(number);
            (BulkFlow { sender, port: PORT + number, over, tools }, ByteArrivals::since(begins))
        })
        .collect();
    let (ended, probes) = carry_all(bench, &lab, &flows, over, time);
    let probes = probes?;
    ended.map_err(|error| error.to_string())?;
    match lab.overruns()? {
        0 => {}
        overruns => Err(format!("{overruns} packets were lost because this machine was too slow"))?,
    }
    let counts = lab.counters()?.into_iter().find(|link| link.host == "from" && link.direction == "to-net");
    let packets = counts.map_or(0, |link| link.packets_in).saturating_sub(probes.traces[0].sent.len() as u64);
    let arrivals: Vec<&ByteArrivals> = flows.iter().map(|(_, arrivals)| arrivals).collect();
    Ok(BulkRow::from_arrivals(cell, &arrivals, time, packets, &probes.traces[0]))
}

/// Runs the flows, and probes beside them, until the probes' time is `over`; returns the ends of the flows and
/// the results of the probes.
fn carry_all(
    bench: &mut BenchContext<'_>,
    lab: &Lab,
    flows: &[(BulkFlow<'_>, ByteArrivals)],
    over: &AtomicBool,
    time: Duration,
) -> (io::Result<()>, Result<probe::ProbeResult, BenchError>) {
    thread::scope(|scope| {
        let ends: Vec<_> =
            flows.iter().map(|(flow, arrivals)| scope.spawn(move || carry(lab, flow, arrivals))).collect();
        let probes = probe::send_probes(bench, lab, &[probes(time)], Instant::now(), Duration::ZERO, Priority::Usual);
        over.store(true, Relaxed);
        let ended = ends.into_iter().map(join);
        // Collecting waits for all of them.
        let ended: Vec<_> = ended.collect();
        (ended.into_iter().collect(), probes)
    })
}

fn probes(time: Duration) -> probe::ProbeFlow {
    // Fits u32 for ten hours.
    let count = (time.as_nanos() / PROBE_INTERVAL.as_nanos()) as u32;
    probe::ProbeFlow { from: SENDING, to: RECEIVING, bytes: PROBE_BYTES, count, interval: PROBE_INTERVAL, uneven: true }
}

/// Runs both ends of a flow, each in its host.
fn carry(lab: &Lab, flow: &BulkFlow<'_>, arrivals: &ByteArrivals) -> io::Result<()> {
    let address = |host| lab.address(host).ok_or_else(|| io::Error::other("a host has no address"));
    let (from, to) = (address(SENDING)?, address(RECEIVING)?);
    thread::scope(|scope| {
        let receiver = scope.spawn(|| in_host(lab, RECEIVING, prepared(|| flow.receive(to, arrivals))));
        thread::sleep(arrivals.began().saturating_duration_since(Instant::now()));
        let sent = in_host(lab, SENDING, prepared(|| flow.send(from, to)));
        let received = join(receiver);
        sent.and(received)
    })
}

fn prepared<T>(call: impl FnOnce() -> T) -> impl FnOnce() -> T {
    move || {
        tcp::prepare();
        call()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loss_comes_after_bottleneck() {
        let topology = PathProfile::ALL[0].topology();
        let member = &topology.nets[0].members[0];
        assert!(member.to_net.loss == 0.0 && member.from_net.loss == 0.005);
        let queue = member.to_net.queue;
        // 10 Mbit/s for 150 ms.
        assert!(queue.in_bytes && queue.limit == 187_500);
    }
}
