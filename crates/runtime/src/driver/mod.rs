//! The event loop: a machine, a network, a mailbox and a deadline.
//!
//! Each wake takes at most `BATCH` events and as many mailbox messages, gives them to the machine, and flushes the
//! network once. The rest waits for the next wake, so neither a flood from the network nor a flood from the control
//! socket keeps the other out, and other tasks of the runtime get their turn.

mod mailbox;
mod network;

use std::sync::Arc;
use std::time::Duration;

use roost_core::machine::{Deadline, Machine};
use roost_core::{Input, Traffic, Transmit};
use roost_transport::{Event, SendError};
use roost_wire::{Channel, ConnectionId, Delivery, Time};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub use mailbox::{DriverStopped, Mailbox};
use mailbox::{MachineMessage, MachineQueue};
pub use network::{Network, Sockets};

use crate::clock::{Clock, ClockWatch, LOOK, SystemClock};
use crate::log_limiter::LogLimiter;
use crate::traffic::TrafficBytes;

/// The most network events, and the most mailbox messages, of a wake.
const BATCH: usize = 64;

/// Acts on a machine's events. The loop calls it, so it must neither wait nor take long.
pub trait EventHandler<M: Machine> {
    fn handle_event(&mut self, event: M::Event) -> LoopControl;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoopControl {
    Continue,
    /// The machine has left; this was its last event.
    Stop,
}

/// Drives a machine; see the module's documentation.
pub struct Driver<M: Machine, O, N> {
    machine: M,
    event_handler: O,
    network: N,
    commands: MachineQueue<M>,
    traffic: Arc<TrafficBytes>,
    given_up: LogLimiter,
    clock: ClockWatch,
    /// The deadline for which the timer of the loop is set.
    armed: Option<Deadline>,
    /// The host's wall clock as last told to the machine, Unix seconds.
    wall_clock: u64,
}

/// Makes a driver and the mailbox of its machine. The event handler may need the mailbox too.
pub fn driver<M, O, N>(
    machine: M,
    event_handler: impl FnOnce(&Mailbox<M>) -> O,
    network: N,
    traffic: Arc<TrafficBytes>,
) -> (Driver<M, O, N>, Mailbox<M>)
where
    M: Machine,
    O: EventHandler<M>,
    N: Network,
{
    let (mailbox, commands) = mailbox::mailbox();
    let event_handler = event_handler(&mailbox);
    let (given_up, clock) = (LogLimiter::default(), ClockWatch::new(SystemClock));
    let driver =
        Driver { machine, event_handler, network, commands, traffic, given_up, clock, armed: None, wall_clock: 0 };
    (driver, mailbox)
}

impl<M: Machine, O, N> Driver<M, O, N> {
    #[must_use]
    pub fn with_clock(self, clock: impl Clock + 'static) -> Self {
        Self { clock: ClockWatch::new(clock), ..self }
    }
}

impl<M: Machine, O: EventHandler<M>, N: Network> Driver<M, O, N> {
    /// Runs until the machine has left. When `stop` is cancelled, the machine gets the command `leave`; its event
    /// handler then stops the loop.
    pub async fn run(mut self, stop: CancellationToken, leave: M::Command) {
        let mut leave = Some(leave);
        let mut events = Vec::with_capacity(BATCH);
        let mut commands = Vec::with_capacity(BATCH);
        let timer = tokio::time::sleep(Duration::ZERO);
        let stopped = stop.cancelled();
        tokio::pin!(timer, stopped);
        let mut looks = tokio::time::interval(LOOK);
        looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let deadline = self.machine.poll_deadline();
            if let Some(deadline) = deadline.filter(|deadline| self.armed != Some(*deadline)) {
                timer.as_mut().reset(Instant::now() + deadline.at.since(self.now()));
            }
            self.armed = deadline;
            tokio::select! {
                _ = self.network.recv_many(&mut events, BATCH) => {}
                _ = self.commands.recv_many(&mut commands, BATCH) => {}
                () = timer.as_mut(), if self.armed.is_some() => self.armed = None,
                _ = looks.tick() => {}
                () = stopped.as_mut(), if leave.is_some() => {
                    if let Some(leave) = leave.take() {
                        self.machine.handle(self.now(), Input::Command(leave));
                    }
                }
            }
            if self.wake(&mut events, &mut commands) == LoopControl::Stop {
                self.network.flush();
                return;
            }
            self.network.flush();
            // Yields now and then, so that a busy machine shares its thread.
            tokio::task::coop::consume_budget().await;
        }
    }

    /// Handles the inputs that have come, and the timers that are due.
    fn wake(&mut self, events: &mut Vec<Event>, commands: &mut Vec<MachineMessage<M>>) -> LoopControl {
        self.look_at_clock();
        if self.drain() == LoopControl::Stop {
            return LoopControl::Stop;
        }
        for event in events.drain(..) {
            self.machine.handle(self.now(), input(event));
            if self.drain() == LoopControl::Stop {
                return LoopControl::Stop;
            }
        }
        for machine_message in commands.drain(..) {
            match machine_message {
                MachineMessage::Command(command) => self.machine.handle(self.now(), Input::Command(command)),
                MachineMessage::Inspect(look) => look(&self.machine, self.now()),
            }
            if self.drain() == LoopControl::Stop {
                return LoopControl::Stop;
            }
        }
        let now = self.now();
        if self.machine.poll_deadline().is_some_and(|deadline| deadline.at <= now) {
            self.machine.handle(now, Input::Timeout);
            return self.drain();
        }
        LoopControl::Continue
    }

    /// Tells the machine that the host stood still, and the date, at most once a second.
    fn look_at_clock(&mut self) {
        if self.clock.look().standstill.is_some() {
            // The timer of the loop may have stood still as well.
            self.armed = None;
            self.machine.handle(self.now(), Input::HostSuspended);
        }
        if self.clock.unix_s() != self.wall_clock {
            self.wall_clock = self.clock.unix_s();
            self.machine.handle(self.now(), Input::WallClock(self.clock.unix()));
        }
    }

    /// Sends what the machine transmits and hands its events to the event handler.
    fn drain(&mut self) -> LoopControl {
        loop {
            while let Some(transmit) = self.machine.poll_transmit() {
                self.perform(transmit);
            }
            let Some(event) = self.machine.poll_event() else { return LoopControl::Continue };
            if self.event_handler.handle_event(event) == LoopControl::Stop {
                // The messages that the machine sent on leaving still go out.
                while let Some(transmit) = self.machine.poll_transmit() {
                    self.perform(transmit);
                }
                return LoopControl::Stop;
            }
        }
    }

    fn perform(&mut self, transmit: Transmit) {
        match transmit {
            Transmit::Message { connection, channel, delivery, traffic, message } => {
                self.traffic.add(traffic, message.len());
                match self.network.send(connection, channel, &delivery, message) {
                    Ok(()) | Err(SendError::NoConnection(_)) => {}
                    Err(SendError::Full(_)) if delivery != Delivery::CONTROL => self.break_flow(connection, channel),
                    Err(error) => self.fail(connection, traffic, &error),
                }
            }
            Transmit::Multicast { traffic, message } => {
                self.traffic.add(traffic, message.len());
                self.network.multicast(message);
            }
            Transmit::Dial { dial, addresses, expect, node } => self.network.dial(dial, addresses, expect, node),
            Transmit::Close { connection, reason } => self.network.close(connection, reason),
        }
    }

    /// Data that a connection has no room for ends its flow but not the connection, since a third host may be the
    /// sender. Some room is kept for control.
    fn break_flow(&mut self, connection: ConnectionId, channel: Channel) {
        if let Some(suppressed) = self.given_up.admit() {
            tracing::warn!(connection = connection.0, suppressed, "a flow ends: the connection's send queue is full");
        }
        if let Channel::Reliable { flow } = channel {
            self.machine.handle(self.now(), Input::FlowBroken { connection, flow });
        }
    }

    /// A remote that does not keep up with control counts as gone.
    fn fail(&mut self, connection: ConnectionId, traffic: Traffic, error: &SendError) {
        if let Some(suppressed) = self.given_up.admit() {
            tracing::warn!(connection = connection.0, class = traffic.name(), %error, suppressed, "the connection is given up");
        }
        let reason = error.to_string();
        self.network.close(connection, reason.clone());
        self.machine.handle(self.now(), Input::ConnectionDown { connection, reason, refused: false });
    }

    fn now(&self) -> Time {
        self.clock.now()
    }
}

fn input<C>(event: Event) -> Input<C> {
    match event {
        Event::Up { connection, dial, remote, address, rtt } => {
            Input::ConnectionUp { connection, dial, remote, address, rtt }
        }
        Event::Moved { connection, address } => Input::ConnectionMoved { connection, address },
        Event::Presence { scheme, at, is_there } => Input::LocalAddress { scheme, at, is_there },
        Event::Down { connection, reason, refused } => Input::ConnectionDown { connection, reason, refused },
        Event::DialFailed { dial, reason, refused } => Input::DialFailed { dial, reason, refused },
        Event::Message { connection, message } => Input::Message { connection, message },
        Event::Multicast { from, message } => Input::Multicast { from, message },
    }
}

#[cfg(test)]
mod tests;
