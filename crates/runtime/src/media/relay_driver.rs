//! The loop: datagrams, commands and time in, datagrams out.

use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use roost_reflection::ReflectionMachine as _;
use roost_wire::Time;
use tokio::io::Interest;
use tokio::net::UdpSocket;
use tokio::time::Instant;

use super::metrics::Passed;
use super::socket::Socket;
use super::{RelayHandler, RelayMessage};
use crate::clock::{Clock as _, SystemClock};
use crate::command_queue::CommandReceiver;

/// The most mailbox messages of a wake.
const BATCH: usize = 64;
/// The most transmits of a wake, about 10 µs each. A wake also takes some ten datagrams and the timers that are due.
const MAX_MESSAGES: usize = 256;

/// After this many failures in a row the socket has failed for good. Fewer may come from a lack of memory or a network
/// that is down for a moment.
const MAX_FAILURES: u32 = 50;
/// The pause after a failure.
const PAUSE: Duration = Duration::from_millis(100);

/// The clock of a relay's machine: it begins with the thread.
#[derive(Clone, Copy)]
pub(super) struct RelayClock(Duration);

impl RelayClock {
    pub(super) fn start() -> Self {
        Self(SystemClock.passed())
    }

    pub(super) fn now(self) -> Time {
        Time::ZERO + SystemClock.passed().saturating_sub(self.0)
    }
}

/// A machine and the way to the rest of its daemon.
pub(super) struct RelayEnds<H: RelayHandler> {
    pub(super) machine: H::Machine,
    pub(super) handler: H,
}

impl<H: RelayHandler> RelayEnds<H> {
    fn drain_outputs(&mut self, now: Time) {
        while let Some(output) = self.machine.poll_output(now) {
            self.handler.handle_output(output);
        }
    }
}

pub(super) struct RelayDriver<H: RelayHandler> {
    socket: Socket,
    ends: RelayEnds<H>,
    commands: CommandReceiver<RelayMessage<H>>,
    passed: Arc<Passed>,
    clock: RelayClock,
    /// True while the system has no room for the next datagram.
    is_full: bool,
    /// True if there is more to send than one wake takes.
    has_more: bool,
    /// Failures to receive, one right after the other.
    failures: u32,
}

impl<H: RelayHandler> RelayDriver<H> {
    pub(super) fn new(
        socket: Socket,
        ends: RelayEnds<H>,
        commands: CommandReceiver<RelayMessage<H>>,
        passed: Arc<Passed>,
        clock: RelayClock,
    ) -> Self {
        Self { socket, ends, commands, passed, clock, is_full: false, has_more: false, failures: 0 }
    }

    /// Runs until all senders of commands are gone.
    pub(super) async fn run(mut self) -> io::Result<()> {
        // A second handle on the socket, for readiness.
        let ready = UdpSocket::from_std(self.socket.as_fd().try_clone_to_owned()?.into())?;
        let mut messages = Vec::with_capacity(BATCH);
        let timer = tokio::time::sleep(Duration::ZERO);
        tokio::pin!(timer);
        loop {
            let due = self.ends.machine.poll_deadline();
            if let Some(due) = due {
                timer.as_mut().reset(Instant::now() + due.since(self.clock.now()));
            }
            tokio::select! {
                readable = ready.readable() => {
                    readable?;
                    // A datagram may be the consequence of a command that was given before.
                    self.commands.try_recv_many(&mut messages, BATCH);
                    self.read(&mut messages);
                    self.receive(&ready).await?;
                }
                writable = ready.writable(), if self.is_full => writable?,
                count = self.commands.recv_many(&mut messages, BATCH) => {
                    if count == 0 {
                        return Ok(());
                    }
                    self.read(&mut messages);
                }
                () = timer.as_mut(), if due.is_some() => {}
                () = std::future::ready(()), if self.has_more => {}
            }
            self.step(&ready)?;
            // Yields now and then, so that a flood of packets does not keep commands waiting.
            tokio::task::coop::consume_budget().await;
        }
    }

    async fn receive(&mut self, ready: &UdpSocket) -> io::Result<()> {
        let now = self.clock.now();
        let Self { socket, ends, .. } = self;
        let received = ready.try_io(Interest::READABLE, || {
            socket.receive(|from, datagram| {
                ends.machine.handle_datagram(now, from, datagram);
                ends.drain_outputs(now);
            })
        });
        match received {
            Ok(count) => {
                self.failures = 0;
                self.passed.receive(count);
                Ok(())
            }
            // An earlier datagram reached no socket, which is no fault of this one.
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::ConnectionRefused) => Ok(()),
            Err(error) if self.failures >= MAX_FAILURES => Err(error),
            Err(_) => {
                self.failures += 1;
                tokio::time::sleep(PAUSE).await;
                Ok(())
            }
        }
    }

    fn read(&mut self, messages: &mut Vec<RelayMessage<H>>) {
        let now = self.clock.now();
        let RelayEnds { machine, handler } = &mut self.ends;
        for message in messages.drain(..) {
            match message {
                RelayMessage::Command(command) => machine.handle_input(now, handler.translate(command)),
                RelayMessage::Inspect(look) => look(machine, now),
            }
        }
    }

    /// Runs the timers that are due, sends, and hands over the outputs.
    fn step(&mut self, ready: &UdpSocket) -> io::Result<()> {
        let now = self.clock.now();
        self.ends.machine.handle_timeout(now);
        self.ends.machine.end_batch(now);
        self.ends.drain_outputs(now);
        match ready.try_io(Interest::WRITABLE, || self.send(now)) {
            Ok(()) => self.is_full = false,
            Err(error) if error.kind() == ErrorKind::WouldBlock => self.is_full = true,
            Err(error) => return Err(error),
        }
        self.ends.drain_outputs(now);
        Ok(())
    }

    /// Sends until nothing is left, the system has no room, or [`MAX_MESSAGES`] are sent.
    fn send(&mut self, now: Time) -> io::Result<()> {
        self.has_more = false;
        for _ in 0..MAX_MESSAGES {
            let Some(transmit) = self.ends.machine.poll_transmit(now) else { return Ok(()) };
            let outcome = self.socket.send(&transmit);
            self.ends.machine.record_outcome(now, &transmit, outcome);
            self.passed.send(outcome.sent);
            if outcome.is_full {
                return Err(ErrorKind::WouldBlock.into());
            }
        }
        self.has_more = true;
        Ok(())
    }
}
