//! The carrier's thread: it reads frames, passes them to the network, and writes those that are due.

use std::any::Any;
use std::os::fd::{AsFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{self, Receiver};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use roost_netcore::wiring::Wiring;
use roost_netcore::{Delivery, Destination, Network, Port, Watching};
use roost_wire::Time;
use rustix::event::epoll::{self, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::io::{Errno, read, write};

use super::CarrierShared;
use super::error::{CarrierError, system};
use super::frame::{CarrierFrame, FramePool};
use super::switch::{FrameRefusal, Switch, SwitchDecision};
use super::trunk_wire::TrunkWire;
use super::unread::UnreadSince;
use crate::capture::CaptureSender;
use crate::kernel;

/// Frames read from one wire before the other wires and due frames get their turn.
const FRAMES_PER_VISIT: usize = 16;
/// Frames written before wires are read again.
pub(super) const DELIVERIES_PER_PASS: usize = 64;
/// The longest sleep, for the limits of the kernel's arithmetic.
const LONGEST_SLEEP: Duration = Duration::from_secs(1 << 30);
/// The lowest real-time priority: it precedes only threads that are not real-time.
const PRIORITY: u8 = 1;
/// The event descriptor's token, in place of a wire's index.
const WAKE: u64 = u64::MAX;
const TRUNK: u64 = u64::MAX - 1;

/// Work for the carrier's thread, which passes the time.
type Call = Box<dyn FnOnce(&mut Core, Time) + Send>;

pub(super) enum CarrierCommand {
    Call(Call),
    /// Stop after this time at the latest; until then deliver frames inside.
    Stop(Duration),
}

/// The network and the map of its ports.
pub(super) struct Core {
    pub(super) network: Network<CarrierFrame>,
    pub(super) wiring: Arc<Wiring>,
    pub(super) has_begun: bool,
    pub(super) capture: Option<CaptureSender>,
    /// The way to other machines, if they share the network.
    pub(super) trunk: Option<TrunkWire>,
}

impl Core {
    pub(super) fn begin(&mut self, now: Time) -> Result<Time, CarrierError> {
        if self.has_begun {
            return Err(CarrierError::Begun);
        }
        self.wiring.begin(&mut self.network, now)?;
        self.has_begun = true;
        Ok(now)
    }

    /// Captures these links from now on instead of those before; without any, none.
    pub(super) fn capture(&mut self, capture: Option<CaptureSender>) {
        self.hand_on_sightings();
        let before = std::mem::replace(&mut self.capture, capture);
        for (pipe, count) in self.network.drain_missed_sightings() {
            before.iter().for_each(|capture| capture.miss(pipe, count));
        }
        let set = |network: &mut Network<CarrierFrame>, capture: &CaptureSender, watching| {
            capture.pipes().for_each(|pipe| network.set_watched(pipe, watching));
        };
        before.iter().for_each(|capture| set(&mut self.network, capture, Watching::Off));
        self.capture.iter().for_each(|capture| set(&mut self.network, capture, Watching::On));
    }

    fn hand_on_sightings(&mut self) {
        while let Some(sighting) = self.network.poll_sighting() {
            if let Some(capture) = &self.capture {
                capture.send(sighting);
            }
        }
    }
}

pub(super) struct CarrierWorker {
    pub(super) core: Core,
    pub(super) switch: Switch,
    pub(super) shared: Arc<CarrierShared>,
    /// The port of each wire, and the wire of each port.
    ports: Vec<Port>,
    wires: Vec<Option<usize>>,
    commands: Receiver<CarrierCommand>,
    poll: Poll,
    pub(super) pool: FramePool,
    unread: UnreadSince,
    /// The time before a due time at which the thread stops sleeping and polls.
    spin: Duration,
    ending: Option<Time>,
}

/// Each poll must report every wire that has frames: [`UnreadSince`] takes a wire that is not reported for
/// empty.
fn room_for_events(wires: usize) -> Vec<Event> {
    Vec::with_capacity(wires + 2)
}

impl CarrierWorker {
    pub(super) fn new(
        core: Core,
        switch: Switch,
        ports: Vec<Port>,
        shared: Arc<CarrierShared>,
        commands: Receiver<CarrierCommand>,
        spin: Duration,
    ) -> Result<Self, CarrierError> {
        let poll = Poll::new(&shared, core.trunk.as_ref())?;
        let mut wires = vec![None; ports.iter().map(|port| port.index() + 1).max().unwrap_or(0)];
        for (wire, port) in ports.iter().enumerate() {
            wires[port.index()] = Some(wire);
        }
        let (pool, unread) = (FramePool::new(), UnreadSince::new(ports.len()));
        Ok(Self { core, switch, shared, ports, wires, commands, poll, pool, unread, spin, ending: None })
    }

    /// Carries frames until it is told to stop.
    pub(super) fn run(&mut self) -> Result<(), CarrierError> {
        let mut events = room_for_events(self.ports.len());
        loop {
            let written = self.run_trunk() + self.deliver();
            self.core.hand_on_sightings();
            if self.has_ended(written) {
                return Ok(());
            }
            // The worker sleeps only after a poll that found nothing: later frames wake it, and no earlier ones wait.
            let is_idle = written == 0 && events.is_empty();
            let timeout = if is_idle { self.until_next() } else { Some(Duration::ZERO) };
            self.poll.wait(&mut events, timeout)?;
            self.unread.look(self.shared.now(), is_idle);
            for &Event { data, flags } in &events {
                match data.u64() {
                    WAKE => self.run_commands(),
                    TRUNK => self.visit_trunk(),
                    wire => self.visit(wire as usize, flags),
                }
                self.deliver();
            }
        }
    }

    /// Writes due frames, up to the limit of a pass; returns their number.
    fn deliver(&mut self) -> usize {
        for written in 0..DELIVERIES_PER_PASS {
            let now = self.shared.now();
            let Some(delivery) = self.core.network.poll_delivery(now) else { return written };
            self.hand_over(delivery, now);
        }
        DELIVERIES_PER_PASS
    }

    fn hand_over(&mut self, delivery: Delivery<CarrierFrame>, now: Time) {
        let Some(&Some(wire)) = self.wires.get(delivery.port.index()) else { return self.hand_to_trunk(delivery) };
        if self.write(wire, delivery.packet.bytes()) {
            self.shared.lateness.record(now.since(delivery.due));
            self.shared.tallies[wire].written.count();
        }
        self.pool.give_back(delivery.packet);
    }

    /// Sends a delivery to the machine of its host, which writes it when the hold has passed.
    fn hand_to_trunk(&mut self, delivery: Delivery<CarrierFrame>) {
        if let Some(trunk) = &mut self.core.trunk
            && let Some(machine) = trunk.other_host(delivery.port)
        {
            trunk.send(machine, delivery.port, delivery.due, delivery.packet.bytes());
        }
        self.pool.give_back(delivery.packet);
    }

    /// Writes a frame, or counts the failure; true if it was written.
    pub(super) fn write(&self, wire: usize, frame: &[u8]) -> bool {
        let tally = &self.shared.tallies[wire];
        match write(&self.shared.wires[wire], frame) {
            Ok(_) => return true,
            Err(Errno::AGAIN | Errno::NOBUFS) => tally.refused.count(),
            Err(_) => tally.undeliverable.count(),
        }
        false
    }

    /// Reads some frames of a wire. If there are more, the next poll returns at once.
    fn visit(&mut self, wire: usize, flags: EventFlags) {
        let since = self.unread.since(wire);
        for frames in 0..FRAMES_PER_VISIT {
            match read(&self.shared.wires[wire], self.pool.space()) {
                // The sender is gone.
                Ok(0) => return self.give_up(wire),
                Ok(bytes) => self.accept(wire, bytes, since),
                // The poll reported an error that reading does not clear.
                Err(Errno::AGAIN) if frames == 0 && flags.intersects(EventFlags::ERR | EventFlags::HUP) => {
                    return self.give_up(wire);
                }
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR) => {}
                // The interface is down, and may come up again.
                Err(Errno::NETDOWN) => return,
                Err(_) => return self.give_up(wire),
            }
        }
        self.unread.leave(wire);
    }

    /// Decides about the frame just read. It counts as arriving now, though it may have waited since `since`.
    fn accept(&mut self, wire: usize, bytes: usize, since: Time) {
        let now = self.shared.now();
        self.shared.unread.record(now.since(since));
        let tally = &self.shared.tallies[wire];
        tally.read.count();
        match self.switch.decide(wire, &self.pool.space()[..bytes]) {
            SwitchDecision::Forward(to) => self.carry(now, wire, to, bytes),
            SwitchDecision::Answer(answer) => {
                if self.write(wire, &answer) {
                    tally.answered.count();
                }
            }
            SwitchDecision::Refuse(FrameRefusal::Ipv6 | FrameRefusal::Announcement) => tally.ignored.count(),
            SwitchDecision::Refuse(FrameRefusal::Unknown) => tally.unknown.count(),
            SwitchDecision::Refuse(FrameRefusal::Malformed) => tally.malformed.count(),
        }
    }

    fn carry(&mut self, now: Time, wire: usize, to: Destination, bytes: usize) {
        let port = self.ports[wire];
        if let Some(trunk) = &mut self.core.trunk
            && let Some(machine) = trunk.other_carrier(port)
        {
            return trunk.send(machine, port, now, &self.pool.space()[..bytes]);
        }
        let frame = self.pool.take_frame(bytes);
        // The network counts its drops itself.
        let _fate = self.core.network.send(now, port, to, bytes as u32, frame);
    }

    /// Stops reading a wire whose host is gone; the others go on.
    fn give_up(&mut self, wire: usize) {
        self.shared.tallies[wire].broken.count();
        self.poll.forget(&self.shared.wires[wire]);
    }

    /// Runs other threads' commands. Each thread waits for its answer, so there are never more commands than
    /// threads.
    fn run_commands(&mut self) {
        // The counter only wakes the thread; its value is unused.
        let _ = read(&self.shared.wake, &mut [0; 8]);
        while let Ok(command) = self.commands.try_recv() {
            let now = self.shared.now();
            match command {
                CarrierCommand::Call(call) => call(&mut self.core, now),
                CarrierCommand::Stop(within) => {
                    self.ending = Some(now + within);
                    self.shared.wires.iter().for_each(|wire| self.poll.forget(wire));
                }
            }
        }
    }

    /// True if the time to stop has passed, or everything was delivered before.
    fn has_ended(&self, written: usize) -> bool {
        let held = self.core.trunk.as_ref().map_or(0, |wire| wire.trunk.held());
        let is_empty = written == 0 && self.core.network.held() + held == 0;
        self.ending.is_some_and(|at| is_empty || self.shared.now() >= at)
    }

    /// The time until the next event; `None` if nothing is inside.
    fn until_next(&self) -> Option<Duration> {
        let trunk = self.core.trunk.as_ref().map(|wire| wire.trunk.poll_deadline());
        let next = [self.core.network.poll_deadline(), trunk, self.ending].into_iter().flatten().min()?;
        Some(next.since(self.shared.now()).saturating_sub(self.spin))
    }
}

/// A poll of the wires with a timeout in nanoseconds.
struct Poll {
    epoll: OwnedFd,
}

impl Poll {
    fn new(shared: &CarrierShared, trunk: Option<&TrunkWire>) -> Result<Self, CarrierError> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(system("wait for packets"))?;
        let add = |fd: &OwnedFd, number| epoll::add(&epoll, fd, EventData::new_u64(number), EventFlags::IN);
        add(&shared.wake, WAKE).map_err(system("wait for commands"))?;
        for (number, wire) in shared.wires.iter().enumerate() {
            rustix::io::ioctl_fionbio(wire, true).map_err(system("read an interface without waiting for it"))?;
            add(wire, number as u64).map_err(system("wait for an interface's packets"))?;
        }
        if let Some(trunk) = trunk {
            epoll::add(&epoll, &trunk.socket, EventData::new_u64(TRUNK), EventFlags::IN)
                .map_err(system("wait for other machines"))?;
        }
        let poll = Self { epoll };
        // This detects a kernel that cannot wait to the nanosecond.
        poll.wait(&mut Vec::with_capacity(1), Some(Duration::ZERO))?;
        Ok(poll)
    }

    /// Fills `events`, after `timeout` at the latest; without one, once there are any.
    fn wait(&self, events: &mut Vec<Event>, timeout: Option<Duration>) -> Result<(), CarrierError> {
        let timeout = timeout.map(|timeout| timeout.min(LONGEST_SLEEP));
        let timeout =
            timeout.map(|time| Timespec { tv_sec: time.as_secs() as i64, tv_nsec: i64::from(time.subsec_nanos()) });
        events.clear();
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(events), timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(system("wait to the nanosecond, which needs Linux 5.11")(error)),
        }
    }

    fn forget(&self, wire: impl AsFd) {
        // The wire was added before; if this fails, it is reported once more.
        let _ = epoll::delete(&self.epoll, wire);
    }
}

/// The descriptor that wakes the thread for a command.
pub(super) fn wake_event() -> Result<OwnedFd, CarrierError> {
    eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(system("be given commands"))
}

/// Sets the calling thread up for exact wake-ups, and describes its priority.
fn prepare_thread(shared: &CarrierShared, realtime: bool) -> String {
    // Without this, sleeps may be 50 us too long.
    let exact = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1)).is_ok();
    shared.exact_timers.store(exact, Relaxed);
    if !realtime {
        return "not asked for".to_owned();
    }
    match kernel::become_realtime(PRIORITY) {
        Ok(()) => "yes".to_owned(),
        Err(error) => format!("refused by this system ({error}): run as root, or allow it with ulimit -r 1"),
    }
}

/// Starts the carrier's thread, and describes its priority.
pub(super) fn spawn(
    mut worker: CarrierWorker,
    shared: Arc<CarrierShared>,
    realtime: bool,
) -> Result<(JoinHandle<Result<(), CarrierError>>, String), CarrierError> {
    let (sender, receiver) = mpsc::sync_channel(1);
    let body = move || {
        // The starter waits for it.
        let _ = sender.send(prepare_thread(&shared, realtime));
        let result = catch_unwind(AssertUnwindSafe(|| worker.run()));
        let cause = match &result {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(panic) => Some(text_of(panic.as_ref())),
        };
        // Set only once: there is one such thread.
        cause.into_iter().for_each(|cause| drop(shared.failure.set(cause)));
        // Only now: threads that wait for an answer must find the cause.
        drop(worker);
        result.unwrap_or_else(|_| Err(shared.ended()))
    };
    let thread = thread::Builder::new().name("carrier".to_owned()).spawn(body).map_err(system("start its thread"))?;
    let realtime = receiver.recv().map_err(|_| CarrierError::Ended { cause: None })?;
    Ok((thread, realtime))
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("it panicked").to_owned()
}
