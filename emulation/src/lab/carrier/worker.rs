//! The carrier's thread: reads frames, hands them to the network, writes what
//! is due.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use roost_proto::Time;
use rustix::event::epoll::{self, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::io::{Errno, read, write};

use super::CarrierShared;
use super::error::{CarrierError, system};
use super::frame::{CarrierFrame, FramePool};
use super::switch::{FrameRefusal, Switch, SwitchDecision};
use super::unread::UnreadSince;
use crate::lab::kernel;
use crate::netcore::{Delivery, Destination, Network, Port};
use crate::topology::wiring::Wiring;

/// How many frames are read from one wire before the others, and what is due,
/// have their turn.
const FRAMES_PER_VISIT: usize = 16;
/// How many frames are written before wires are read again.
const DELIVERIES_PER_PASS: usize = 64;
/// The longest sleep: a limit of the kernel's arithmetic, not of ours.
const LONGEST_SLEEP: Duration = Duration::from_secs(1 << 30);
/// Before all that are not real-time, after all that are.
const PRIORITY: u8 = 1;
/// Stands for the event descriptor where others have the number of a wire.
const WAKE: u64 = u64::MAX;

/// Work for the carrier's thread, which says what time it is.
type Call = Box<dyn FnOnce(&mut Core, Time) + Send>;

/// What another thread wants done here.
pub(super) enum CarrierCommand {
    /// Look at or change the network.
    Call(Call),
    /// End, at the latest so much later; until then deliver what is inside.
    Stop(Duration),
}

/// The network, and what its parts are called.
pub(super) struct Core {
    pub(super) network: Network<CarrierFrame>,
    pub(super) wiring: Arc<Wiring>,
    pub(super) has_begun: bool,
}

impl Core {
    /// Schedules what the topology does, once.
    pub(super) fn begin(&mut self, now: Time) -> Result<Time, CarrierError> {
        if self.has_begun {
            return Err(CarrierError::Begun);
        }
        self.wiring.begin(&mut self.network, now)?;
        self.has_begun = true;
        Ok(now)
    }
}

/// All that the thread owns.
pub(super) struct CarrierWorker {
    core: Core,
    switch: Switch,
    shared: Arc<CarrierShared>,
    /// By wire, its port; by port, its wire.
    ports: Vec<Port>,
    wires: Vec<Option<usize>>,
    commands: Receiver<CarrierCommand>,
    poll: Poll,
    pool: FramePool,
    unread: UnreadSince,
    /// How long before a due time to stop sleeping and only look.
    spin: Duration,
    ending: Option<Time>,
}

/// One look reports every wire that has frames: [`UnreadSince`] takes one that is
/// not reported for empty.
fn room_for_events(wires: usize) -> Vec<Event> {
    Vec::with_capacity(wires + 1)
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
        let poll = Poll::new(&shared)?;
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
            let written = self.deliver();
            if self.has_ended(written) {
                return Ok(());
            }
            // It sleeps only after a look that found nothing, so that what
            // comes while it sleeps wakes it, and nothing has waited before.
            let is_idle = written == 0 && events.is_empty();
            let timeout = if is_idle { self.until_next() } else { Some(Duration::ZERO) };
            self.poll.wait(&mut events, timeout)?;
            self.unread.look(self.shared.now(), is_idle);
            for &Event { data, flags } in &events {
                match data.u64() {
                    WAKE => self.run_commands(),
                    wire => self.visit(wire as usize, flags),
                }
                self.deliver();
            }
        }
    }

    /// Writes what is due, as far as one pass may. How many frames it was.
    fn deliver(&mut self) -> usize {
        for written in 0..DELIVERIES_PER_PASS {
            let now = self.shared.now();
            let Some(delivery) = self.core.network.poll_delivery(now) else { return written };
            self.hand_over(delivery, now);
        }
        DELIVERIES_PER_PASS
    }

    fn hand_over(&mut self, delivery: Delivery<CarrierFrame>, now: Time) {
        let Some(&Some(wire)) = self.wires.get(delivery.port.index()) else { return };
        if self.write(wire, delivery.packet.bytes()) {
            self.shared.lateness.record(now.since(delivery.due));
            self.shared.tallies[wire].written.count();
        }
        self.pool.give_back(delivery.packet);
    }

    /// Writes a frame, or counts why it cannot be. Whether it was written.
    fn write(&self, wire: usize, frame: &[u8]) -> bool {
        let tally = &self.shared.tallies[wire];
        match write(&self.shared.wires[wire], frame) {
            Ok(_) => return true,
            Err(Errno::AGAIN | Errno::NOBUFS) => tally.refused.count(),
            Err(_) => tally.undeliverable.count(),
        }
        false
    }

    /// Reads some frames of a wire. If there are more, the next wait says so at once.
    fn visit(&mut self, wire: usize, flags: EventFlags) {
        let since = self.unread.since(wire);
        for frames in 0..FRAMES_PER_VISIT {
            match read(&self.shared.wires[wire], self.pool.space()) {
                // The other end was closed.
                Ok(0) => return self.give_up(wire),
                Ok(bytes) => self.accept(wire, bytes, since),
                // The poll reported an error that reading does not clear.
                Err(Errno::AGAIN) if frames == 0 && flags.intersects(EventFlags::ERR | EventFlags::HUP) => {
                    return self.give_up(wire);
                }
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR) => {}
                // The interface was set down, and may come up again.
                Err(Errno::NETDOWN) => return,
                Err(_) => return self.give_up(wire),
            }
        }
        self.unread.leave(wire);
    }

    /// Decides about the frame that was just read: now is when it arrived,
    /// though it may have waited `since` earlier.
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
        let frame = self.pool.take_frame(bytes);
        // What the network drops it counts itself.
        let _fate = self.core.network.send(now, self.ports[wire], to, bytes as u32, frame);
    }

    /// Reads no more from a wire whose host is gone; the others go on.
    fn give_up(&mut self, wire: usize) {
        self.shared.tallies[wire].broken.count();
        self.poll.forget(&self.shared.wires[wire]);
    }

    /// Does what other threads asked for. Each of them waits for its answer, so
    /// that there are never more commands than threads.
    fn run_commands(&mut self) {
        // The count only wakes; it is not used.
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

    /// Whether the time to end has passed, or all is delivered before.
    fn has_ended(&self, written: usize) -> bool {
        let is_empty = written == 0 && self.core.network.held() == 0;
        self.ending.is_some_and(|at| is_empty || self.shared.now() >= at)
    }

    /// How long nothing is to be done; none if nothing is inside.
    fn until_next(&self) -> Option<Duration> {
        let next = [self.core.network.poll_deadline(), self.ending].into_iter().flatten().min()?;
        Some(next.since(self.shared.now()).saturating_sub(self.spin))
    }
}

/// Waiting for wires and for a time, to the nanosecond.
struct Poll {
    epoll: OwnedFd,
}

impl Poll {
    fn new(shared: &CarrierShared) -> Result<Self, CarrierError> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(system("wait for packets"))?;
        let add = |fd: &OwnedFd, number| epoll::add(&epoll, fd, EventData::new_u64(number), EventFlags::IN);
        add(&shared.wake, WAKE).map_err(system("wait for commands"))?;
        for (number, wire) in shared.wires.iter().enumerate() {
            rustix::io::ioctl_fionbio(wire, true).map_err(system("read an interface without waiting for it"))?;
            add(wire, number as u64).map_err(system("wait for an interface's packets"))?;
        }
        let poll = Self { epoll };
        // A kernel that cannot wait to the nanosecond is found out here.
        poll.wait(&mut Vec::with_capacity(1), Some(Duration::ZERO))?;
        Ok(poll)
    }

    /// Fills `events`, at the latest after `timeout`; without one, when there are any.
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
        // It was added; at worst it is reported once more.
        let _ = epoll::delete(&self.epoll, wire);
    }
}

/// What wakes the thread for a command.
pub(super) fn wake_event() -> Result<OwnedFd, CarrierError> {
    eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(system("be given commands"))
}

/// Sets the calling thread up to be woken at the time that it asked for, and
/// says with what priority it runs.
pub(super) fn prepare_thread(shared: &CarrierShared, realtime: bool) -> String {
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
