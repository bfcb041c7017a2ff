//! The loop: datagrams, orders and time in, datagrams out.

use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use roost_proto::Time;
use roost_reflection::{Relay, Socket};
use tokio::io::Interest;
use tokio::net::UdpSocket;

use super::metrics::Passed;
use super::{RelayHandler, RelayMessage};
use crate::command_queue::Receiver;

/// The most letters of one wake.
const BATCH: usize = 64;
/// The most messages of one wake, about 10 µs each: then what has come in has its turn. Beside that a wake takes
/// some ten datagrams and as many timers as [`Relay::handle_timeout`] says.
const MAX_MESSAGES: usize = 256;

/// A socket that fails this often, one time right after the other, has failed for good: the system
/// may be out of memory or a network down for a moment.
const MAX_FAILURES: u32 = 50;
/// The pause after each.
const PAUSE: Duration = Duration::from_millis(100);

/// What runs on the thread.
pub(super) struct RelayDriver<E: RelayHandler> {
    socket: Socket,
    relay: Relay,
    ends: E,
    letters: Receiver<RelayMessage<E>>,
    passed: Arc<Passed>,
    started: Instant,
    /// Whether the system had no room for what is next.
    is_full: bool,
    /// Whether there is more to send than one wake takes.
    has_more: bool,
    /// How often receiving has failed, one time right after the other.
    failures: u32,
}

impl<E: RelayHandler> RelayDriver<E> {
    pub(super) fn new(
        socket: Socket,
        relay: Relay,
        ends: E,
        letters: Receiver<RelayMessage<E>>,
        passed: Arc<Passed>,
    ) -> Self {
        Self {
            socket,
            relay,
            ends,
            letters,
            passed,
            started: Instant::now(),
            is_full: false,
            has_more: false,
            failures: 0,
        }
    }

    /// Runs until nobody can give orders any more.
    pub(super) async fn run(mut self) -> io::Result<()> {
        // A second handle on the socket, which knows when it is ready.
        let ready = UdpSocket::from_std(self.socket.as_fd().try_clone_to_owned()?.into())?;
        let mut letters = Vec::with_capacity(BATCH);
        let timer = tokio::time::sleep(Duration::ZERO);
        tokio::pin!(timer);
        loop {
            let due = self.due();
            if let Some(due) = due {
                timer.as_mut().reset((self.started + due.since(Time::ZERO)).into());
            }
            tokio::select! {
                readable = ready.readable() => {
                    readable?;
                    // An order that was given before a datagram left may be what that is about.
                    self.letters.try_recv_many(&mut letters, BATCH);
                    self.read(&mut letters);
                    self.receive(&ready).await?;
                }
                writable = ready.writable(), if self.is_full => writable?,
                count = self.letters.recv_many(&mut letters, BATCH) => {
                    if count == 0 {
                        return Ok(());
                    }
                    self.read(&mut letters);
                }
                () = timer.as_mut(), if due.is_some() => {}
                () = std::future::ready(()), if self.has_more => {}
            }
            self.step(&ready)?;
            // Yields now and then, so that a flood of packets does not keep orders waiting.
            tokio::task::coop::consume_budget().await;
        }
    }

    /// The next deadline.
    fn due(&self) -> Option<Time> {
        [self.relay.poll_deadline(), self.ends.poll_deadline()].into_iter().flatten().min()
    }

    /// Takes a batch of datagrams.
    async fn receive(&mut self, ready: &UdpSocket) -> io::Result<()> {
        let now = self.now();
        let Self { socket, relay, ends, .. } = self;
        let received = ready.try_io(Interest::READABLE, || {
            socket.receive(|from, datagram| {
                relay.handle_datagram(now, from, datagram, |stream, packet| ends.deliver(now, stream, packet));
            })
        });
        match received {
            Ok(count) => {
                self.failures = 0;
                self.passed.receive(count);
                Ok(())
            }
            // An earlier datagram came to nobody: no fault of this socket.
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::ConnectionRefused) => Ok(()),
            Err(error) if self.failures >= MAX_FAILURES => Err(error),
            Err(_) => {
                self.failures += 1;
                tokio::time::sleep(PAUSE).await;
                Ok(())
            }
        }
    }

    fn read(&mut self, letters: &mut Vec<RelayMessage<E>>) {
        let now = self.now();
        for letter in letters.drain(..) {
            match letter {
                RelayMessage::Order(order) => self.ends.handle_command(now, &mut self.relay, order),
                RelayMessage::Look(look) => look(&self.relay, &self.ends, now),
            }
        }
    }

    /// Does what is due, sends what there is, and tells what has happened.
    fn step(&mut self, ready: &UdpSocket) -> io::Result<()> {
        let now = self.now();
        if self.relay.poll_deadline().is_some_and(|due| due <= now) {
            self.relay.handle_timeout(now);
        }
        if self.ends.poll_deadline().is_some_and(|due| due <= now) {
            self.ends.handle_timeout(now, &mut self.relay);
        }
        self.relay.end_batch(now);
        match ready.try_io(Interest::WRITABLE, || self.send(now)) {
            Ok(()) => self.is_full = false,
            Err(error) if error.kind() == ErrorKind::WouldBlock => self.is_full = true,
            Err(error) => return Err(error),
        }
        while let Some(event) = self.relay.poll_event() {
            self.ends.event(now, &mut self.relay, event);
        }
        Ok(())
    }

    /// Sends until nothing is left, the system has no more room, or the wake has had its part.
    fn send(&mut self, now: Time) -> io::Result<()> {
        self.has_more = false;
        for _ in 0..MAX_MESSAGES {
            let Some(transmit) = self.relay.poll_transmit(now) else { return Ok(()) };
            let outcome = self.socket.send(&transmit);
            self.relay.record_outcome(now, &transmit, outcome);
            self.passed.send(outcome.sent);
            if outcome.is_full {
                return Err(ErrorKind::WouldBlock.into());
            }
        }
        self.has_more = true;
        Ok(())
    }

    fn now(&self) -> Time {
        let nanos = self.started.elapsed().as_nanos();
        Time::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}
