//! The reflector's data path by itself, as a process of its own: it sends each datagram that arrives at one address to
//! ports of another, until a signal, and then prints a line of JSON. It checks no identity and no lease, so that only
//! trusted hosts may drive it.

use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use roost_reflection::{
    Fanout, FanoutConfig, Header, LagLimits, RetentionLimits, StartPoint, StreamId, StreamReflector, TargetOptions,
};
use roost_runtime::media::Socket;
use roost_wire::Time;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::machine::processor_time;

/// The longest wait for a datagram before a look at the stop flag.
const LOOK: Duration = Duration::from_millis(100);
/// The longest wait for room, before a look for datagrams.
const NO_ROOM: Duration = Duration::from_millis(1);

#[derive(Clone, Copy, Debug)]
pub struct ReflectorSettings {
    pub listen: SocketAddr,
    /// The first target; the others have the ports that follow.
    pub to: SocketAddr,
    /// At least one.
    pub count: u16,
    /// True for sealed packets of one stream, as from a publisher.
    pub sealed: bool,
    /// False to send each packet by itself.
    pub offload: bool,
}

/// The object of the measurement: with a header to read, or without.
enum ForwardMode {
    Clear(Box<Fanout>),
    /// The first packet names the stream.
    Sealed {
        config: FanoutConfig,
        targets: Vec<SocketAddr>,
        reflector: Option<Box<StreamReflector>>,
    },
}

#[derive(Default)]
struct Tally {
    received: u64,
    sent: u64,
    failed: u64,
    /// The first datagram, and the processor time until then.
    first: Option<(Instant, Duration)>,
}

/// Reflects until SIGTERM or SIGINT.
///
/// # Errors
/// Fails when an address cannot be used, or the ports do not fit.
pub fn reflect(args: &ReflectorSettings) -> io::Result<()> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let last = args.to.port().checked_add(args.count - 1);
    let last = last.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "there are not so many ports"))?;
    let targets = (args.to.port()..=last).map(|port| SocketAddr::new(args.to.ip(), port)).collect();
    let socket = Socket::bind(args.listen)?;
    let mut socket = if args.offload { socket } else { socket.without_offload() };
    let mut path = ForwardMode::new(args.sealed, targets)?;
    let (began, mut tally) = (Instant::now(), Tally::default());
    while !stop.load(Relaxed) {
        let now = Time::ZERO + began.elapsed();
        match socket.receive(|from, datagram| path.forward_datagram(now, from.remote, datagram)) {
            Ok(received) => {
                tally.first.get_or_insert_with(|| (Instant::now(), processor_time()));
                tally.received += received as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => wait(&socket, PollFlags::IN, LOOK)?,
            Err(error) => return Err(error),
        }
        if path.send(now, &socket, &mut tally) {
            wait(&socket, PollFlags::OUT, NO_ROOM)?;
        }
    }
    tally.print()
}

impl ForwardMode {
    fn new(sealed: bool, targets: Vec<SocketAddr>) -> io::Result<Self> {
        // The measured quantity is throughput: no packet is dropped for being late.
        let patience = LagLimits { bytes: 4 << 20, age: Duration::from_secs(10), ..LagLimits::default() };
        let config = FanoutConfig { patience, ..FanoutConfig::default() };
        if sealed {
            return Ok(Self::Sealed { config, targets, reflector: None });
        }
        // Nor is there anybody to repair for.
        let keep = RetentionLimits { age: Duration::from_millis(20), ..config.keep };
        let mut fanout = Fanout::new(StreamId(0), FanoutConfig { keep, ..config });
        add_targets(&mut fanout, &targets)?;
        Ok(Self::Clear(Box::new(fanout)))
    }

    fn forward_datagram(&mut self, now: Time, from: SocketAddr, datagram: &[u8]) {
        match self {
            Self::Clear(fanout) => fanout.push_opaque(now, from, datagram),
            Self::Sealed { config, targets, reflector } => {
                if let (None, Ok((_, header))) = (&reflector, Header::decode(datagram)) {
                    let mut begun = Box::new(StreamReflector::new(header.stream, *config));
                    // There are no more targets than a stream may have.
                    let _ = add_targets(begun.fanout(), targets);
                    *reflector = Some(begun);
                }
                // A refused packet shows in the counts.
                let _ = reflector.as_mut().map(|reflector| reflector.receive_packet(now, from, datagram));
            }
        }
    }

    fn fanout(&mut self) -> Option<&mut Fanout> {
        match self {
            Self::Clear(fanout) => Some(fanout),
            Self::Sealed { reflector, .. } => reflector.as_mut().map(|reflector| reflector.fanout()),
        }
    }

    /// Sends until nothing is left. Returns true if the system has no room for the rest.
    fn send(&mut self, now: Time, socket: &Socket, tally: &mut Tally) -> bool {
        let Some(fanout) = self.fanout() else { return false };
        fanout.close(now);
        while let Some(transmit) = fanout.poll_transmit(now) {
            let outcome = socket.send(&transmit);
            fanout.record_outcome(now, &transmit, outcome);
            tally.sent += u64::from(outcome.sent);
            tally.failed += u64::from(outcome.failed);
            if outcome.is_full {
                return true;
            }
        }
        false
    }
}

fn add_targets(fanout: &mut Fanout, targets: &[SocketAddr]) -> io::Result<()> {
    for target in targets {
        fanout
            .add_target(Time::ZERO, *target, TargetOptions::SUBSCRIBER, StartPoint::KeyFrame)
            .map_err(io::Error::other)?;
    }
    Ok(())
}

fn wait(socket: &Socket, what: PollFlags, time: Duration) -> io::Result<()> {
    let time = Timespec { tv_sec: 0, tv_nsec: time.subsec_nanos().into() };
    match poll(&mut [PollFd::new(socket, what)], Some(&time)) {
        Err(error) if error != rustix::io::Errno::INTR => Err(error.into()),
        _ => Ok(()),
    }
}

impl Tally {
    fn print(&self) -> io::Result<()> {
        let (wall, cpu) = self.first.map_or_else(Default::default, |(began, before)| {
            (began.elapsed().as_secs_f64(), processor_time().saturating_sub(before).as_secs_f64())
        });
        let Self { received, sent, failed, .. } = self;
        writeln!(
            io::stdout(),
            "{{\"in\":{received},\"out\":{sent},\"err\":{failed},\"cpu\":{cpu:.4},\"wall\":{wall:.4}}}"
        )
    }
}
