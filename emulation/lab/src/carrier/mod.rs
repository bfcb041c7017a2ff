//! The carrier: one thread that passes every host's Ethernet frames through the [`Network`], by the wall clock.
//!
//! ```text
//! host's interface ── wire ──┐                       ┌── wire ── host's interface
//!                            ├─ read → Network → write ┤
//! host's interface ── wire ──┘      (exact times)    └── wire ── host's interface
//! ```
//!
//! A frame arrives when it is read. From then on the network computes with exact times, and the frame is
//! written as soon as it is due. Its lateness is counted ([`Lateness`]) and not carried over: the next stage
//! starts from the exact time.
//!
//! # Frames that are carried
//! - On a LAN a frame goes to the member whose IPv4 address is in its receiver's [`Mac`]; frames to groups and
//!   broadcasts go to all other members. On a link everything goes to the other end.
//! - ARP is answered here at once: it takes no time and no rate, and does not count as traffic. IPv6 is not
//!   carried.
//! - Frames for an address that is not on the net are dropped and counted.
//!
//! # Slow machines
//! The carrier never slows its clock down, and drops nothing on its own. Instead:
//!
//! - **Frames are written late.** [`Lateness`] holds each of them. It does not delay later frames: due frames
//!   are written as fast as possible, in order.
//! - **Frames are read late.** They wait in the host's interface, and the wait adds to their delay. Writing
//!   comes before reading, so overload shows here first: [`Carrier::unread`] bounds it.
//! - **Frames are lost**, when that interface's queue or the receiving host's queue is full. The kernel drops
//!   them, and they are [overruns](WireCounts::overruns), per wire. A run with any does not show the behaviour
//!   of the described network.
//! - **One host floods.** Every wire gets the same number of reads in turn, and due frames are written in
//!   between.
//! - **More frames are inside than the network's limits allow.** They are dropped and counted as
//!   [overflows](Carrier::overflows).

mod awake;
mod counts;
mod error;
mod frame;
mod lateness;
mod switch;
mod trunk_wire;
mod unread;
mod worker;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{self, Sender, SyncSender};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use roost_netcore::wiring::{NamedPipe, Wiring, WiringError};
use roost_netcore::{HEADER_BYTES, Network, PipeId, Port};
use roost_results::record;
use roost_topology::model::{HostIndex, NetIndex, TopologyChange};
use roost_wire::Time;

use self::awake::Awake;
use self::counts::{AtomicWireCounts, KernelLosses};
pub use self::counts::{DeviceStatistics, WireCounts};
pub use self::error::CarrierError;
use self::error::system;
pub use self::frame::{CarrierFrame, MAX_FRAME_BYTES, Mac};
use self::lateness::Histogram;
pub(crate) use self::lateness::Histogram as LatenessHistogram;
pub use self::lateness::Lateness;
use self::switch::{Switch, SwitchPort};
use self::trunk_wire::TrunkWire;
pub(crate) use self::trunk_wire::{CarrierShare, PortShare, RemotePort};
use self::worker::{CarrierCommand, CarrierWorker, Core};
use crate::capture::CaptureSender;
use crate::trunk::LineCounts;

/// The time before a due time at which the thread stops sleeping and polls: about the time that waking up
/// takes from a sleeping processor. Measured with 93 hosts and 90 streams on two processors, half the frames were
/// 19 us late without polling and 0.2 us with it, for 15 % more of the thread's time; the 99th percentile became no
/// worse, even beside other programs. From 50 us on the time doubles for no gain.
const SPIN: Duration = Duration::from_micros(20);

/// A host's interface: one read or write moves one Ethernet frame.
#[derive(Debug)]
pub struct HostWire {
    /// A TAP device, or a raw packet socket bound to the outer end of a veth pair. The carrier makes it
    /// non-blocking.
    pub fd: OwnedFd,
    pub port: Port,
    pub net: NetIndex,
    /// The host's address there: its frames have the sender [`Mac::from_ipv4`] of it.
    pub address: Ipv4Addr,
    /// The statistics of the host's interface, opened before any frame went to it. They reveal frames lost
    /// there; without them such losses are [not counted](WireCounts::uncounted).
    pub statistics: Option<DeviceStatistics>,
}

/// The beginning of a schedule, with the counters at that time.
#[derive(Clone, Debug)]
pub struct ScheduleStart {
    /// Time 0 of the schedule, in the network's time.
    pub time: Time,
    /// Time 0 by this process's clock.
    pub at: Instant,
    /// The counters of every direction of every link and LAN.
    pub links: Vec<record::LinkRecord>,
}

/// State that the thread and its starter share.
#[derive(Debug)]
struct CarrierShared {
    origin: Instant,
    wake: OwnedFd,
    wires: Vec<OwnedFd>,
    tallies: Vec<AtomicWireCounts>,
    lateness: Histogram,
    unread: Histogram,
    exact_timers: AtomicBool,
    /// The cause of the thread's end, unless it was told to stop.
    failure: OnceLock<String>,
}

impl CarrierShared {
    fn ended(&self) -> CarrierError {
        CarrierError::Ended { cause: self.failure.get().cloned() }
    }

    fn now(&self) -> Time {
        Time::ZERO + self.origin.elapsed()
    }
}

/// The running carrier. Dropping it stops it at once.
#[derive(Debug)]
pub struct Carrier {
    shared: Arc<CarrierShared>,
    losses: Mutex<Vec<KernelLosses>>,
    wiring: Arc<Wiring>,
    commands: Sender<CarrierCommand>,
    thread: Option<JoinHandle<Result<(), CarrierError>>>,
    realtime: String,
    awake: Awake,
}

impl Carrier {
    /// Starts to carry the frames of `wires`; nothing is scheduled before [`begin`](Self::begin). With
    /// `realtime` the thread requests a real-time priority and processors that stay awake, and runs without them if
    /// they are refused: [`facts`](Self::facts) tells.
    ///
    /// # Errors
    /// Fails when the system refuses a required step, or two wires of one net have the same address. All wires are
    /// closed then.
    pub fn start(
        network: Network<CarrierFrame>,
        wiring: Wiring,
        wires: Vec<HostWire>,
        realtime: bool,
    ) -> Result<Self, CarrierError> {
        Self::start_share(network, wiring, wires, realtime, None)
    }

    /// As [`start`](Self::start), of a network whose other hosts are on other machines.
    pub(crate) fn start_share(
        network: Network<CarrierFrame>,
        wiring: Wiring,
        wires: Vec<HostWire>,
        realtime: bool,
        share: Option<CarrierShare>,
    ) -> Result<Self, CarrierError> {
        let ports: Vec<Port> = wires.iter().map(|wire| wire.port).collect();
        let here = wires.iter().map(|wire| RemotePort { port: wire.port, net: wire.net, address: wire.address });
        let remote = share.iter().flat_map(|share| share.remote.iter().copied());
        let members: Vec<RemotePort> = here.chain(remote).collect();
        let places = places(&network, &members);
        let members: Vec<Port> = members.iter().map(|member| member.port).collect();
        let trunk =
            share.map(|share| TrunkWire::open(share, &members)).transpose().map_err(system("open its trunk"))?;
        let switch = Switch::new(places).map_err(|second| CarrierError::SameAddress { address: second.address })?;
        let losses = |wire: HostWire| (KernelLosses::before(&wire.fd, wire.statistics), wire.fd);
        let (losses, fds) = wires.into_iter().map(losses).unzip();
        let shared = Arc::new(CarrierShared::new(fds)?);
        let (commands, receiver) = mpsc::channel();
        let wiring = Arc::new(wiring);
        let core = Core { network, wiring: Arc::clone(&wiring), has_begun: false, capture: None, trunk };
        let worker = CarrierWorker::new(core, switch, ports, Arc::clone(&shared), receiver, SPIN)?;
        let awake = Awake::ask(realtime);
        let (thread, realtime) = worker::spawn(worker, Arc::clone(&shared), realtime)?;
        Ok(Self { shared, losses: Mutex::new(losses), wiring, commands, thread: Some(thread), realtime, awake })
    }

    /// The time since the carrier started, which is the network's time.
    pub fn now(&self) -> Time {
        self.shared.now()
    }

    /// Schedules all the topology's changes of its nets from now on, each at its exact time. Returns the time 0
    /// of the schedule and the counters at it.
    ///
    /// # Errors
    /// Fails when it has begun before, an event has an unknown object, there are too many, or the carrier has ended;
    /// nothing is scheduled then.
    pub fn begin(&self) -> Result<ScheduleStart, CarrierError> {
        let (time, counted) =
            self.call(|core, now| Ok::<_, CarrierError>((core.begin(now)?, core.wiring.count(&core.network))))??;
        let at = self.shared.origin + Duration::from_nanos(time.as_nanos());
        Ok(ScheduleStart { time, at, links: self.wiring.name(counted) })
    }

    /// Changes a link or LAN now, or one host's legs of it.
    ///
    /// # Errors
    /// Fails when there is no such net, or the host is not on it, or the carrier has ended.
    pub fn apply(&self, net: NetIndex, from: Option<HostIndex>, change: TopologyChange) -> Result<(), CarrierError> {
        let result = self.call(move |core, now| {
            let changes = core.wiring.changes(net, from, change)?;
            changes.into_iter().for_each(|change| core.network.apply(now, change));
            Ok::<(), WiringError>(())
        })?;
        result.map_err(Into::into)
    }

    /// The counters of every direction of every link and LAN until now.
    ///
    /// # Errors
    /// Fails when the carrier has ended.
    pub fn counters(&self) -> Result<Vec<record::LinkRecord>, CarrierError> {
        // Frames wait during the call, so it only copies numbers.
        let counted = self.call(|core, _now| core.wiring.count(&core.network))?;
        Ok(self.wiring.name(counted))
    }

    /// Packets that were dropped because of the network's [limits](roost_netcore::NetworkLimits).
    ///
    /// # Errors
    /// Fails when the carrier has ended.
    pub fn overflows(&self) -> Result<u64, CarrierError> {
        self.call(|core, _now| core.network.overflows())
    }

    /// Captures links from now on, or none any more.
    ///
    /// # Errors
    /// Fails when the carrier has ended.
    pub(crate) fn capture(&self, capture: Option<CaptureSender>) -> Result<(), CarrierError> {
        self.call(|core, _now| core.capture(capture))
    }

    pub(crate) fn pipes(&self, net: NetIndex) -> Vec<NamedPipe> {
        self.wiring.pipes(net)
    }

    /// Time 0 of the carrier by the wall clock.
    pub(crate) fn wall_origin(&self) -> SystemTime {
        SystemTime::now() - self.shared.origin.elapsed()
    }

    /// The lateness of deliveries since the start. For an interval, keep one and call [`Lateness::since`] on
    /// the next.
    pub fn lateness(&self) -> Lateness {
        self.shared.lateness.snapshot()
    }

    /// The time that frames may have waited in hosts' interfaces before they were read, since the start: for
    /// each frame the time for which its interface's queue had been non-empty. This is an upper bound; in a
    /// queue that stands for a second, each frame waited less. It does not include the wake-up of the thread,
    /// which shows in [`lateness`](Self::lateness).
    pub fn unread(&self) -> Lateness {
        self.shared.unread.snapshot()
    }

    /// The frame counters of each wire, in the order of the wires. Queries the kernel about each wire, on the
    /// calling thread: for 100 wires this takes about a millisecond.
    pub fn wires(&self) -> Vec<WireCounts> {
        let mut losses = self.losses.lock().unwrap_or_else(PoisonError::into_inner);
        let both = self.shared.tallies.iter().zip(&self.shared.wires).zip(losses.iter_mut());
        both.map(|((tally, fd), losses)| losses.counts(tally, fd)).collect()
    }

    /// Packets that the emulation lost because this machine is too slow; see [`WireCounts::overruns`]. Like
    /// [`wires`](Self::wires), it queries the kernel.
    pub fn overruns(&self) -> u64 {
        self.wires().iter().map(WireCounts::overruns).sum()
    }

    /// The counters of the trunk's lines, by machine; none without a trunk.
    ///
    /// # Errors
    /// Fails when the carrier has ended.
    pub(crate) fn lines(&self) -> Result<Vec<LineCounts>, CarrierError> {
        self.call(|core, _now| core.trunk.as_ref().map(|wire| wire.trunk.counts()).unwrap_or_default())
    }

    /// Time 0 of the carrier by this process's clock.
    pub(crate) fn origin(&self) -> Instant {
        self.shared.origin
    }

    /// Facts about the carrying of frames, for the record of a run.
    pub fn facts(&self) -> BTreeMap<String, String> {
        let exact = self.shared.exact_timers.load(Relaxed);
        BTreeMap::from([
            ("realtime".to_owned(), self.realtime.clone()),
            ("processors_awake".to_owned(), self.awake.fact()),
            ("exact_timers".to_owned(), if exact { "yes" } else { "no, up to 50 us late" }.to_owned()),
            ("spin".to_owned(), roost_topology::units::format_duration(SPIN)),
            ("frame_overhead".to_owned(), format!("{HEADER_BYTES} bytes: IP packets are counted as Ethernet frames")),
        ])
    }

    /// Stops reading, delivers frames inside for at most `drain` (zero: they are lost), and closes the wires.
    ///
    /// # Errors
    /// The cause, if the thread ended before.
    pub fn stop(mut self, drain: Duration) -> Result<(), CarrierError> {
        self.end(drain)
    }

    /// Runs `call` on the carrier's thread, between two frames.
    fn call<T: Send + 'static>(
        &self,
        call: impl FnOnce(&mut Core, Time) -> T + Send + 'static,
    ) -> Result<T, CarrierError> {
        let (sender, receiver): (SyncSender<T>, _) = mpsc::sync_channel(1);
        let command = CarrierCommand::Call(Box::new(move |core, now| {
            // Fails only if the calling thread is gone.
            let _ = sender.send(call(core, now));
        }));
        self.command(command)?;
        receiver.recv().map_err(|_| self.shared.ended())
    }

    fn command(&self, command: CarrierCommand) -> Result<(), CarrierError> {
        self.commands.send(command).map_err(|_| self.shared.ended())?;
        rustix::io::write(&self.shared.wake, &1_u64.to_ne_bytes()).map_err(system("be woken"))?;
        Ok(())
    }

    fn end(&mut self, drain: Duration) -> Result<(), CarrierError> {
        let Some(thread) = self.thread.take() else { return Ok(()) };
        // If it has ended already, joining returns the cause.
        let _ = self.command(CarrierCommand::Stop(drain));
        thread.join().unwrap_or_else(|_| Err(self.shared.ended()))
    }
}

impl Drop for Carrier {
    fn drop(&mut self) {
        // A caller that needs the result calls `stop`.
        let _ = self.end(Duration::ZERO);
    }
}

impl CarrierShared {
    fn new(wires: Vec<OwnedFd>) -> Result<Self, CarrierError> {
        Ok(Self {
            origin: Instant::now(),
            wake: worker::wake_event()?,
            tallies: wires.iter().map(|_| AtomicWireCounts::default()).collect(),
            wires,
            lateness: Histogram::new(),
            unread: Histogram::new(),
            exact_timers: AtomicBool::new(false),
            failure: OnceLock::new(),
        })
    }
}

/// The ports of the members. On a link, the pipe for one end's frames is the pipe towards the other end.
fn places(network: &Network<CarrierFrame>, members: &[RemotePort]) -> Vec<SwitchPort> {
    let exits = members.iter().filter_map(|member| Some((network.from_net(member.port)?, member.port)));
    let exits: BTreeMap<PipeId, Port> = exits.collect();
    let other_end = |member: &RemotePort| exits.get(&network.to_net(member.port)?).copied();
    let place = |member: &RemotePort| SwitchPort {
        net: member.net,
        port: member.port,
        address: member.address,
        other_end: other_end(member),
    };
    members.iter().map(place).collect()
}

#[cfg(test)]
pub(crate) fn testing_frame(bytes: &[u8]) -> CarrierFrame {
    let mut pool = frame::FramePool::new();
    pool.space()[..bytes.len()].copy_from_slice(bytes);
    pool.take_frame(bytes.len())
}
