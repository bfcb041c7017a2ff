//! Connections in virtual time: what happens at one end of a connection, without sockets,
//! tasks, clocks or secrets. Messages, packets and the time come in; packets,
//! messages and a deadline come out.
//!
//! What carries messages is the code of the product: acknowledgements,
//! retransmission, congestion control and the order of messages. What a
//! stranger could not tell from real packets is left out: nothing is encrypted,
//! and handshakes are packets of the real number and sizes. So a connection does the
//! same in every run.
//!
//! | [`Detail`] | `udp://` | `tcp://` | `quic://` |
//! |---|---|---|---|
//! | `Packet` | its session | its queue, frames and records, in full segments by the session of `udp://` | a QUIC connection for each path |
//! | `Message` | its session | the same | by the session of `udp://` |
//!
//! A connection that is carried by another transport's session still has packets of
//! its own sizes, and a handshake of its own length.

mod session;
mod stream;
mod wire_sizes;

use std::fmt;
use std::str::FromStr;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use bytes::Bytes;
use roost_proto::{Channel, Congestion, Delivery, Scheme, Time};

use crate::multicast::{MAX_MULTICAST_BYTES, OVERHEAD};
use crate::quic::simulated::{self as quic, QuicEnd};
use session::SessionEnd;
pub(crate) use wire_sizes::UDP_BYTES;
use wire_sizes::WireSizes;

/// What virtual time is counted from: only differences matter to anybody.
static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

fn instant(time: Time) -> Instant {
    *ORIGIN + Duration::from_nanos(time.as_nanos())
}

fn time(instant: Instant) -> Time {
    Time::ZERO + instant.saturating_duration_since(*ORIGIN)
}

/// In how much detail connections are simulated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detail {
    /// As real as there is: QUIC connections are QUIC connections.
    #[default]
    Packet,
    /// Every connection by the session of `udp://`, which is cheap enough for tens of
    /// thousands of nodes.
    Message,
}

impl Detail {
    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Packet => "packet",
            Self::Message => "message",
        }
    }
}

impl fmt::Display for Detail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Detail {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let all = [Self::Packet, Self::Message];
        all.into_iter()
            .find(|level| level.name() == text)
            .ok_or_else(|| format!("there is no level `{text}`: choose packet or message"))
    }
}

/// What each kind of end does; see [`ConnectionEnd`].
pub(crate) trait SimulatedEnd {
    fn send(&mut self, now: Instant, channel: Channel, delivery: &Delivery, message: Bytes);
    fn close(&mut self, now: Instant, reason: &str);
    fn abort(&mut self, now: Instant, reason: &str);
    fn handle_packet(&mut self, now: Instant, path: u8, content: &[u8]);
    fn handle_timeout(&mut self, now: Instant);
    fn poll_packet(&mut self, now: Instant) -> Option<SimPacket>;
    fn poll_event(&mut self) -> Option<EndEvent>;
    fn deadline(&mut self) -> Option<Instant>;
    fn is_over(&self) -> bool;
}

/// One end of a connection.
pub struct ConnectionEnd(Box<dyn SimulatedEnd>);

/// What an end tells its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EndEvent {
    /// The handshake is over.
    Up {
        /// Round trip that it measured.
        rtt: Duration,
    },
    /// A message from the other end.
    Message(Bytes),
    /// The connection is over; nothing follows.
    Down {
        /// Why, in a sentence.
        reason: String,
    },
}

/// How long the packet of a multicast message would be, headers of IP and above
/// included; `None` if the message is longer than one may be.
pub fn multicast_bytes(message: usize) -> Option<u32> {
    (message <= MAX_MULTICAST_BYTES).then_some((message + OVERHEAD) as u32 + UDP_BYTES)
}

/// A packet for the other end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimPacket {
    /// Over which path, from 0 on.
    pub path: u8,
    /// What the other end needs of it.
    pub content: Bytes,
    /// How long it would be, headers of IP and above included.
    pub bytes: u32,
}

impl ConnectionEnd {
    /// The end that dials: it has its first packets to send at once.
    pub fn dial(scheme: Scheme, detail: Detail, now: Time) -> Self {
        Self::dial_over(1, scheme, detail, now)
    }

    /// The same over so many paths, at most 8, if it is one of QUIC's in full
    /// detail; others have one. The first packets are of path 0, and others follow
    /// when the connection is up.
    pub fn dial_over(paths: u8, scheme: Scheme, detail: Detail, now: Time) -> Self {
        let now = instant(now);
        Self(match (scheme, detail) {
            (Scheme::Quic, Detail::Packet) => Box::new(QuicEnd::dial(now, Congestion::default(), paths)),
            _ => Box::new(SessionEnd::dial(WireSizes::for_scheme(scheme), now)),
        })
    }

    /// The end that is dialled, before its first packet.
    pub fn accept(scheme: Scheme, detail: Detail, now: Time) -> Self {
        Self::accept_over(1, scheme, detail, now)
    }

    /// The same by who has addresses for so many paths.
    pub fn accept_over(paths: u8, scheme: Scheme, detail: Detail, now: Time) -> Self {
        let now = instant(now);
        Self(match (scheme, detail) {
            (Scheme::Quic, Detail::Packet) => Box::new(QuicEnd::accept(now, Congestion::default(), paths > 1)),
            _ => Box::new(SessionEnd::accept(WireSizes::for_scheme(scheme), now)),
        })
    }

    /// Whether a packet begins a connection, if it comes where none is.
    pub fn is_first_packet(content: &[u8]) -> bool {
        content.first().is_some_and(|first| session::is_first_packet(*first) || quic::is_first_packet(*first))
    }

    /// Whether a packet is one of a handshake: those of QUIC have long headers,
    /// and the others here the same mark.
    pub fn is_of_handshake(content: &[u8]) -> bool {
        content.first().is_some_and(|first| first & 0x80 != 0)
    }

    /// Takes a message; what does not fit the queue any more is lost, as it is
    /// in the product.
    pub fn send(&mut self, now: Time, channel: Channel, message: Bytes) {
        self.send_as(now, channel, &Delivery::default(), message);
    }

    /// The same, with a say in how.
    pub fn send_as(&mut self, now: Time, channel: Channel, delivery: &Delivery, message: Bytes) {
        self.0.send(instant(now), channel, delivery, message);
    }

    /// Ends the connection after what was sent has left. No [`EndEvent::Down`] follows.
    pub fn close(&mut self, now: Time, reason: &str) {
        self.0.close(instant(now), reason);
    }

    /// Ends the connection at once, whatever was sent, and says so.
    pub fn abort(&mut self, now: Time, reason: &str) {
        self.0.abort(instant(now), reason);
    }

    /// Takes a packet of the other end that came over a path.
    pub fn handle_packet(&mut self, now: Time, path: u8, content: &[u8]) {
        self.0.handle_packet(instant(now), path, content);
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Time) {
        self.0.handle_timeout(instant(now));
    }

    /// The next packet that leaves now.
    pub fn poll_packet(&mut self, now: Time) -> Option<SimPacket> {
        self.0.poll_packet(instant(now))
    }

    /// The next thing to tell.
    pub fn poll_event(&mut self) -> Option<EndEvent> {
        self.0.poll_event()
    }

    /// When to call [`Self::handle_timeout`] and [`Self::poll_packet`].
    pub fn deadline(&mut self) -> Option<Time> {
        self.0.deadline().map(time)
    }

    /// Whether it has nothing more to do for anybody.
    pub fn is_over(&self) -> bool {
        self.0.is_over()
    }
}

#[cfg(test)]
mod objects;
#[cfg(test)]
mod tests;
