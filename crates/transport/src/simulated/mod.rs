//! Links in virtual time: what happens at one end of a link, without sockets,
//! tasks, clocks or secrets. Messages, packets and the time come in; packets,
//! messages and a deadline come out.
//!
//! What carries messages is the code of the product: acknowledgements,
//! retransmission, congestion control and the order of messages are those of
//! `udp://`. What a stranger could not tell from real packets is left out:
//! nothing is encrypted, and a handshake is packets of the real number and
//! sizes. So a link is cheap, and does the same in every run.
//!
//! TCP and QUIC links are carried by the same session, in packets of their own
//! sizes and after handshakes of their own length.

mod attire;
mod session;

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use bytes::Bytes;
use roost_proto::{Channel, Scheme, Time};

use attire::Attire;
use session::SessionEnd;

/// What virtual time is counted from: only differences matter to anybody.
static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

fn instant(time: Time) -> Instant {
    *ORIGIN + Duration::from_nanos(time.as_nanos())
}

fn time(instant: Instant) -> Time {
    Time::ZERO + instant.saturating_duration_since(*ORIGIN)
}

/// One end of a link.
#[derive(Debug)]
pub struct LinkEnd(SessionEnd);

/// What an end tells its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Happening {
    /// The handshake is over.
    Up {
        /// Round trip that it measured.
        rtt: Duration,
    },
    /// A message from the other end.
    Message(Bytes),
    /// The link is over; nothing follows.
    Down {
        /// Why, in a sentence.
        reason: String,
    },
}

/// A packet for the other end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parcel {
    /// What the other end needs of it.
    pub content: Bytes,
    /// How long it would be, headers of IP and above included.
    pub bytes: u32,
}

impl LinkEnd {
    /// The end that dials: it has its first packets to send at once.
    pub fn dial(scheme: Scheme, now: Time) -> Self {
        Self(SessionEnd::dial(Attire::of(scheme), instant(now)))
    }

    /// The end that is dialled, before its first packet.
    pub fn accept(scheme: Scheme, now: Time) -> Self {
        Self(SessionEnd::accept(Attire::of(scheme), instant(now)))
    }

    /// Whether a packet begins a link, if it comes where none is.
    pub fn begins(content: &[u8]) -> bool {
        session::begins(content)
    }

    /// Takes a message; what does not fit the queue any more is lost, as it is
    /// in the product.
    pub fn send(&mut self, now: Time, channel: Channel, message: Bytes) {
        self.0.send(instant(now), channel, message);
    }

    /// Ends the link after what was sent has left. No [`Happening::Down`] follows.
    pub fn close(&mut self, now: Time, reason: &str) {
        self.0.close(instant(now), reason);
    }

    /// Ends the link at once, whatever was sent, and says so.
    pub fn abort(&mut self, now: Time, reason: &str) {
        self.0.abort(instant(now), reason);
    }

    /// Takes a packet of the other end.
    pub fn handle_packet(&mut self, now: Time, content: &[u8]) {
        self.0.handle_packet(instant(now), content);
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Time) {
        self.0.handle_timeout(instant(now));
    }

    /// The next packet that leaves now.
    pub fn poll_packet(&mut self, now: Time) -> Option<Parcel> {
        self.0.poll_packet(instant(now))
    }

    /// The next thing to tell.
    pub fn poll_happening(&mut self) -> Option<Happening> {
        self.0.poll_happening()
    }

    /// When to call [`Self::handle_timeout`] and [`Self::poll_packet`].
    pub fn deadline(&self) -> Option<Time> {
        self.0.deadline().map(time)
    }

    /// Whether it has nothing more to do for anybody.
    pub fn is_over(&self) -> bool {
        self.0.is_over()
    }
}

#[cfg(test)]
mod tests;
