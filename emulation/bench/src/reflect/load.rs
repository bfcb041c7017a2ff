//! A trial: a generator, a reflector, and sinks that count.

use std::io::{self, Read as _};
use std::net::{SocketAddr, UdpSocket};
use std::num::NonZeroU64;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use bytes::BytesMut;
use roost_lab::kernel;
use roost_reflection::packet::{OVERHEAD_BYTES, TAG_BYTES};
use roost_reflection::{Epoch, Flags, Header, Hop, StreamId};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{MMsgHdr, SendAncillaryBuffer, SendFlags, sendmmsg};
use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;

use super::pair::{FAR, NEAR, VethPair};
use crate::join;
use crate::load::{Load, PacketSender};
use crate::program::OwnedProcess;
use crate::tally::Delays;

/// The port of the reflector; those of the sinks begin here as well.
pub(super) const PORT: u16 = 7000;
pub(super) const FIRST_SINK: u16 = 20_000;
/// The longest time until a reflector listens, and until it has ended.
const PATIENCE: Duration = Duration::from_secs(10);
/// After this time without a datagram all have arrived.
const QUIET: Duration = Duration::from_millis(100);
const LOOK: Duration = Duration::from_millis(5);
/// Datagrams that are sent together: paced traffic comes in bursts like video.
const BURST: u64 = 8;
const UNPACED_BURST: u64 = 32;
/// The buffer of each sink: 0.1 s at the rates measured here.
const SINK_BYTES: u32 = 16 << 20;
/// The number of datagrams whose send time is kept.
const STAMPS: usize = 1 << 17;
const FIRST_EPOCH: Epoch = Epoch(1);

#[derive(Clone, Copy, Debug)]
pub(super) struct TrialLoad {
    pub(super) targets: u16,
    pub(super) bytes: usize,
    pub(super) sealed: bool,
    /// Incoming datagrams per second; `None` for as many as possible.
    pub(super) rate: Option<f64>,
    pub(super) time: Duration,
}

#[derive(Clone, Debug, Default)]
pub(super) struct TrialResult {
    pub(super) sent: u64,
    pub(super) received: u64,
    pub(super) reordered: u64,
    pub(super) seconds: f64,
    /// Processor time of the reflector, seconds.
    pub(super) cpu: f64,
    /// Delays from the generator to the arrival at the first and at the last target.
    pub(super) delays: [Delays; 2],
}

#[derive(Debug, Deserialize)]
struct ReflectorStats {
    cpu: f64,
}

struct TrialShared {
    over: AtomicBool,
    /// The time of sending of each datagram, nanoseconds of the system's clock, by its number.
    stamps: Vec<AtomicU64>,
}

/// Runs one trial with a reflector that `command` starts.
pub(super) fn run(pair: &VethPair, command: Command, load: &TrialLoad) -> io::Result<TrialResult> {
    let shared = TrialShared { over: AtomicBool::new(false), stamps: (0..STAMPS).map(|_| AtomicU64::new(0)).collect() };
    thread::scope(|scope| {
        let (ready, is_ready) = std::sync::mpsc::sync_channel(1);
        let shared = &shared;
        let sinks = scope.spawn(move || {
            let sinks = Sinks::open(pair, load, shared)?;
            // The waiting thread exists until it is notified.
            let _ = ready.send(());
            sinks.count()
        });
        // If the sinks fail, their error is returned below.
        let _ = is_ready.recv_timeout(PATIENCE);
        let driven = drive(pair, command, load, shared);
        shared.over.store(true, Relaxed);
        let mut seen = join(sinks)?;
        let (sent, seconds, cpu) = driven?;
        (seen.sent, seen.seconds, seen.cpu) = (sent, seconds, cpu);
        Ok(seen)
    })
}

fn drive(pair: &VethPair, command: Command, load: &TrialLoad, shared: &TrialShared) -> io::Result<(u64, f64, f64)> {
    let mut reflector = ReflectorProcess::start(pair, command)?;
    let generated = thread::scope(|scope| {
        let body = || generate(pair, load, shared);
        join(scope.spawn(body))
    });
    thread::sleep(QUIET);
    let (sent, seconds) = generated?;
    Ok((sent, seconds, reflector.stop()?.cpu))
}

struct ReflectorProcess(OwnedProcess);

impl ReflectorProcess {
    fn start(pair: &VethPair, mut command: Command) -> io::Result<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut running = OwnedProcess(pair.start_far(command)?);
        let table = format!("/proc/{}/net/udp", running.0.id());
        let (began, place) = (Instant::now(), format!(":{PORT:04X} "));
        while !std::fs::read_to_string(&table)?.contains(&place) {
            if began.elapsed() > PATIENCE || running.0.try_wait()?.is_some() {
                return Err(io::Error::other("the reflector does not start"));
            }
            thread::sleep(LOOK);
        }
        Ok(Self(running))
    }

    fn stop(&mut self) -> io::Result<ReflectorStats> {
        let Self(OwnedProcess(child)) = self;
        kill_process(Pid::from_child(child), Signal::TERM)?;
        let mut line = String::new();
        if let Some(output) = &mut child.stdout {
            output.read_to_string(&mut line)?;
        }
        serde_json::from_str(&line).map_err(|error| io::Error::other(format!("the reflector said `{line}`: {error}")))
    }
}

/// Sends for the time of a load; returns the number of datagrams, and the time.
fn generate(pair: &VethPair, load: &TrialLoad, shared: &TrialShared) -> io::Result<(u64, f64)> {
    pair.enter_near()?;
    // Best effort: without it waiting is less exact.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1000));
    let socket = UdpSocket::bind((NEAR, 0))?;
    socket.connect((FAR, PORT))?;
    let burst = if load.rate.is_some() { BURST } else { UNPACED_BURST };
    let mut sender = DatagramSender { socket, generator: DatagramGenerator::new(load), shared };
    let load = Load { begin: Instant::now(), length: load.time, rate: load.rate, burst, stop: &shared.over };
    let done = load.generate(&mut sender)?;
    Ok((done.sent, done.time.as_secs_f64()))
}

struct DatagramSender<'a> {
    socket: UdpSocket,
    generator: DatagramGenerator,
    shared: &'a TrialShared,
}

impl PacketSender for DatagramSender<'_> {
    fn send(&mut self, _number: u64, count: u64, _due: Instant) -> io::Result<u64> {
        let datagrams = self.generator.make(count, self.shared);
        let vectors: Vec<_> = datagrams.into_iter().map(|datagram| [io::IoSlice::new(datagram)]).collect();
        let mut controls: Vec<_> = vectors.iter().map(|_| SendAncillaryBuffer::default()).collect();
        let mut messages: Vec<_> =
            vectors.iter().zip(&mut controls).map(|(vector, control)| MMsgHdr::new(vector, control)).collect();
        // Datagrams for which the system has no room are lost before they are sent, so they do not count.
        Ok(sendmmsg(&self.socket, &mut messages, SendFlags::empty()).unwrap_or(0) as u64)
    }
}

/// A generator of numbered datagrams.
///
/// Its sealed packets have a packet's header and room for its tag, but are not sealed: reflectors cannot tell,
/// and sealing would use the processor of the targets.
struct DatagramGenerator {
    sealed: bool,
    payload: Vec<u8>,
    bytes: usize,
    buffer: BytesMut,
    next: u64,
}

impl DatagramGenerator {
    fn new(load: &TrialLoad) -> Self {
        let overhead = if load.sealed { OVERHEAD_BYTES } else { 0 };
        Self {
            sealed: load.sealed,
            payload: vec![0; load.bytes.saturating_sub(overhead)],
            bytes: load.bytes,
            buffer: BytesMut::new(),
            next: 0,
        }
    }

    fn make(&mut self, count: u64, shared: &TrialShared) -> Vec<&[u8]> {
        self.buffer.clear();
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
        for _ in 0..count {
            shared.stamps[self.next as usize % STAMPS].store(now, Relaxed);
            self.payload[..8].copy_from_slice(&self.next.to_be_bytes());
            if self.sealed {
                let (flags, epoch, counter) =
                    (Flags::default(), FIRST_EPOCH, u64::from(FIRST_EPOCH.0) << 32 | self.next);
                let header = Header { flags, frame: 0, stream: StreamId(1), epoch, counter };
                self.buffer.extend_from_slice(&header.encode(Hop::default()));
            }
            self.buffer.extend_from_slice(&self.payload);
            if self.sealed {
                self.buffer.extend_from_slice(&[0; TAG_BYTES]);
            }
            self.next += 1;
        }
        self.buffer.chunks(self.bytes).collect()
    }
}

struct Sinks<'a> {
    sockets: Vec<UdpSocket>,
    sealed: bool,
    shared: &'a TrialShared,
}

impl<'a> Sinks<'a> {
    fn open(pair: &VethPair, load: &TrialLoad, shared: &'a TrialShared) -> io::Result<Self> {
        pair.enter_near()?;
        let bind = |port| {
            let socket = UdpSocket::bind(SocketAddr::from((NEAR, port)))?;
            kernel::prepare_heads(&socket, SINK_BYTES)?;
            Ok(socket)
        };
        let sockets = (FIRST_SINK..FIRST_SINK + load.targets).map(bind).collect::<io::Result<_>>()?;
        Ok(Self { sockets, sealed: load.sealed, shared })
    }

    fn count(self) -> io::Result<TrialResult> {
        let mut seen = TrialResult::default();
        let mut latest = vec![0_u64; self.sockets.len()];
        let look = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
        let mut entries: Vec<PollFd<'_>> =
            self.sockets.iter().map(|socket| PollFd::new(socket, PollFlags::IN)).collect();
        while !self.shared.over.load(Relaxed) {
            poll(&mut entries, Some(&look))?;
            for (place, entry) in entries.iter().enumerate() {
                if entry.revents().contains(PollFlags::IN) {
                    self.receive_batch(place, &mut latest[place], &mut seen)?;
                }
            }
        }
        Ok(seen)
    }

    fn receive_batch(&self, place: usize, latest: &mut u64, seen: &mut TrialResult) -> io::Result<()> {
        // A single target counts as both the first and the last.
        let sides = [place == 0, place + 1 == self.sockets.len()];
        let received = kernel::receive_heads(&self.sockets[place], |arrival| {
            let number = self.number(&arrival.head);
            seen.received += arrival.datagrams;
            // Numbers are stored plus one, so that 0 means none yet.
            seen.reordered += u64::from(number <= *latest);
            *latest = number + arrival.datagrams - 1;
            let left = Duration::from_nanos(self.shared.stamps[(number - 1) as usize % STAMPS].load(Relaxed));
            let Some(delay) = arrival.at.map(|at| at.saturating_sub(left)) else { return };
            for (delays, is_side) in seen.delays.iter_mut().zip(sides) {
                if is_side {
                    delays.record(delay);
                }
            }
        });
        match received {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            _ => Ok(()),
        }
    }

    /// The number of a datagram plus one: its counter if it is sealed.
    fn number(&self, head: &[u8; kernel::HEAD_BYTES]) -> u64 {
        let at = if self.sealed { 16 } else { 0 };
        let number = head[at..at + 8].iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
        (number & u64::from(u32::MAX)) + 1
    }
}
