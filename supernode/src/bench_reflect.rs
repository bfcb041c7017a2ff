//! `supernode bench-reflect`: the reflector's data path by itself, for any harness to drive.
//!
//! Sends each datagram that arrives at one address to ports of another, until a signal, and then prints one line of
//! JSON. There is no identity and no lease: it is for measurements between trusted hosts.

use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use clap::Parser;
use roost_reflection::{
    Fanout, FanoutConfig, Header, LagLimits, RetentionLimits, StartPoint, StreamId, StreamReflector, TargetOptions,
};
use roost_runtime::media::Socket;
use roost_wire::Time;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::time::{ClockId, clock_gettime};
use signal_hook::consts::{SIGINT, SIGTERM};

/// The word that the command line begins with.
pub(crate) const NAME: &str = "bench-reflect";

/// The longest wait for a datagram before a look at the stop flag.
const LOOK: Duration = Duration::from_millis(100);
/// The longest wait for room, before a look for datagrams.
const NO_ROOM: Duration = Duration::from_millis(1);

/// Send each datagram to many, as a super node reflects streams, and count
///
/// Ends on SIGTERM or SIGINT and prints one line of JSON: datagrams in, out and refused by the
/// system, processor time and time since the first, in seconds.
#[derive(Debug, Parser)]
#[command(name = "supernode bench-reflect", bin_name = "supernode bench-reflect", max_term_width = 100)]
struct Args {
    /// The address that receives datagrams
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: SocketAddr,
    /// The target address; datagrams go to this port and to those that follow it
    #[arg(long, value_name = "ADDRESS:PORT")]
    to: SocketAddr,
    /// The number of ports
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    count: u16,
    /// Take sealed packets of one stream, as from a publisher, instead of any datagrams
    #[arg(long)]
    sealed: bool,
    /// Send each packet by itself, without segmentation offload
    #[arg(long)]
    no_offload: bool,
}

pub(crate) fn main() -> ExitCode {
    let args = match Args::try_parse_from(std::env::args_os().skip(1)) {
        Ok(args) => args,
        Err(error) => {
            let code = if error.use_stderr() { roost_runtime::Failure::USAGE } else { 0 };
            // Nobody is left to be told that the output is closed.
            let _ = error.print();
            return ExitCode::from(code);
        }
    };
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // As above.
            let _ = writeln!(io::stderr(), "supernode: cannot reflect from {} to {}: {error}", args.listen, args.to);
            ExitCode::from(roost_runtime::Failure::FAILED)
        }
    }
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

fn run(args: &Args) -> io::Result<()> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let last = args.to.port().checked_add(args.count - 1);
    let last = last.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "there are not so many ports"))?;
    let targets = (args.to.port()..=last).map(|port| SocketAddr::new(args.to.ip(), port)).collect();
    let socket = Socket::bind(args.listen)?;
    let mut socket = if args.no_offload { socket.without_offload() } else { socket };
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

fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or_default())
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
