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
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use roost_lab::Lab;
use roost_topology::model::HostIndex;
use roost_wire::Congestion;

use self::arrivals::ByteArrivals;
pub use self::route::PathProfile;
pub use self::row::BulkRow;
use self::row::{BulkRun, pooled};
use self::udt4::Udt4;
use super::measured::{BenchStart, Measured};
use super::probe::{self, Priority};
use super::transport::Members;
use super::{BenchContext, BenchError, BenchOptions, system};

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
    /// The kernel's TCP with BBR.
    TcpBbr,
    /// The kernel's TCP with cubic and a window of about 32 KB, as it was without tuning.
    Tcp32k,
    /// UDT4 as Debian has it, unencrypted.
    Udt4,
    /// `quic://` with this congestion control.
    Quic(Congestion),
}

impl BulkSender {
    pub const ALL: [Self; 8] = [
        Self::TcpCubic,
        Self::TcpBbr,
        Self::Tcp32k,
        Self::Udt4,
        Self::Quic(Congestion::Cubic),
        Self::Quic(Congestion::Rate),
        Self::Quic(Congestion::Udt),
        Self::Quic(Congestion::Bbr),
    ];

    /// The name on command lines, in tables and in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::TcpCubic => "tcp-cubic",
            Self::TcpBbr => "tcp-bbr",
            Self::Tcp32k => "tcp-32k",
            Self::Udt4 => "udt4",
            Self::Quic(Congestion::Cubic) => "cubic",
            Self::Quic(Congestion::Rate) => "rate",
            Self::Quic(Congestion::Udt) => "udt",
            Self::Quic(Congestion::Bbr) => "bbr",
        }
    }

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

impl fmt::Display for BulkSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for BulkSender {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|sender| sender.name() == text)
            .ok_or_else(|| format!("`{text}` is no sender: write {}", Self::ALL.map(Self::name).join(", ")))
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

pub type BulkReport = Measured<BulkRow>;

/// Measures each of `cells`, in their order and each with `seeds` seeds, for `seconds` or for the default of
/// its path, [inside a sandbox](roost_lab::sandbox::enter).
///
/// `watch` is called with each run that begins. When `stop` is set it ends within a second or so, with the
/// complete rows.
///
/// # Errors
/// When a lab cannot be made, or breaks. A sender that fails or is missing is no error: a note reports it.
pub fn run(
    cells: &[BulkCase],
    seconds: Option<u32>,
    seeds: u64,
    options: &BenchOptions,
    stop: &AtomicBool,
    watch: &mut dyn FnMut(&BulkCase),
) -> Result<BulkReport, BenchError> {
    let begun = BenchStart::now();
    let mut bench = BenchContext { options, stop, facts: roost_experiment::host_facts::facts() };
    let members = Members::new().map_err(system("make the certificates of a group"))?;
    let needs_udt4 = cells.iter().any(|cell| cell.senders().any(|sender| sender == BulkSender::Udt4));
    let tools = Tools { members, udt4: needs_udt4.then(Udt4::compile) };
    let mut report = BulkReport::default();
    for cell in cells {
        let (mut runs, mut aborted) = (Vec::new(), 0);
        let time = Duration::from_secs(seconds.unwrap_or(cell.route.seconds).into());
        for seed in 0..seeds {
            watch(cell);
            match one_run(&mut bench, &tools, cell, time, options.seed + seed)? {
                Ok(run) => runs.push(run),
                Err(error) => {
                    aborted += 1;
                    report.notes.push(format!("{}, {}: {error}", cell.route.name, cell.name()));
                }
            }
            if bench.is_stopped() {
                break;
            }
        }
        if bench.is_stopped() {
            break;
        }
        match runs.is_empty() {
            true => report.unmeasured += 1,
            false => report.rows.push(pooled(cell, &runs, aborted)),
        }
        report.notes.dedup();
    }
    report.end(&begun, bench.facts);
    Ok(report)
}

struct Tools {
    members: Members,
    udt4: Option<Result<Udt4, String>>,
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

    fn udt4(&self) -> io::Result<&Udt4> {
        let compiled = self.tools.udt4.as_ref().ok_or(io::ErrorKind::NotFound)?;
        compiled.as_ref().map_err(|why| io::Error::other(why.clone()))
    }

    fn send(&self, from: Ipv4Addr, to: Ipv4Addr) -> io::Result<()> {
        match self.sender {
            BulkSender::TcpCubic | BulkSender::Tcp32k => tcp::send(self, to, "cubic"),
            BulkSender::TcpBbr => tcp::send(self, to, "bbr"),
            BulkSender::Udt4 => self.udt4()?.send(self, to),
            BulkSender::Quic(congestion) => ours::send(self, &self.tools.members.sender, (from, to), congestion),
        }
    }

    fn receive(&self, at: Ipv4Addr, arrivals: &ByteArrivals) -> io::Result<()> {
        match self.sender {
            BulkSender::TcpCubic | BulkSender::TcpBbr => tcp::receive(self, None, arrivals),
            BulkSender::Tcp32k => tcp::receive(self, Some(tcp::ROOM_32K), arrivals),
            BulkSender::Udt4 => self.udt4()?.receive(self, arrivals),
            BulkSender::Quic(congestion) => ours::receive(self, &self.tools.members.receiver, at, congestion, arrivals),
        }
    }
}

/// Runs the flows of a cell over a new path. The inner error is that of a flow.
fn one_run(
    bench: &mut BenchContext<'_>,
    tools: &Tools,
    cell: &BulkCase,
    time: Duration,
    seed: u64,
) -> Result<io::Result<BulkRun>, BenchError> {
    let lab = bench.lab_with_seed(&cell.route.topology(), seed)?;
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
    if let Err(error) = ended {
        return Ok(Err(error));
    }
    let overruns = lab.overruns()?;
    if overruns > 0 {
        return Ok(Err(io::Error::other(format!("{overruns} packets were lost because this machine was too slow"))));
    }
    let counts = lab.counters()?.into_iter().find(|link| link.host == "from" && link.direction == "to-net");
    let packets = counts.map_or(0, |link| link.packets_in).saturating_sub(probes.traces[0].sent.len() as u64);
    let arrivals: Vec<&ByteArrivals> = flows.iter().map(|(_, arrivals)| arrivals).collect();
    Ok(Ok(BulkRun::from_arrivals(cell, &arrivals, time, packets, &probes.traces[0])))
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
        let ended = ends.into_iter().map(|end| end.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
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
    let in_host = |host, call: &(dyn Fn() -> io::Result<()> + Sync)| {
        let prepared = || {
            tcp::prepare();
            call()
        };
        lab.run_in(host, prepared).map_err(io::Error::other)?
    };
    thread::scope(|scope| {
        let receiver = scope.spawn(|| in_host(RECEIVING, &|| flow.receive(to, arrivals)));
        thread::sleep(arrivals.began().saturating_duration_since(Instant::now()));
        let sent = in_host(SENDING, &|| flow.send(from, to));
        let received = receiver.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        sent.and(received)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sender_names_round_trip() {
        assert!(BulkSender::ALL.iter().all(|one| one.to_string().parse() == Ok(*one)));
        assert!("sctp".parse::<BulkSender>().unwrap_err().starts_with("`sctp` is no sender: write tcp-cubic, tcp-bbr"));
    }

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
