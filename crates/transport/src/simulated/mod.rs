//! Connections in virtual time: one end of a connection, without sockets, tasks, clocks or secrets. Messages, packets
//! and the time go in; packets, messages and a deadline come out.
//!
//! The code of the product carries the messages: acknowledgements, retransmission, congestion control and the order of
//! messages. Nothing is encrypted, and handshakes are empty packets of the real number and sizes, which looks the same
//! from outside. So a connection behaves identically in every run.
//!
//! | [`Detail`] | `udp://` | `tcp://` | `quic://` |
//! |---|---|---|---|
//! | `Packet` | its session | its queue, frames and records, in full segments by the session of `udp://` | a QUIC connection for each path |
//! | `Message` | its session | the same | by the session of `udp://` |
//!
//! A connection that uses another transport's session still has packets of its own sizes, and a handshake of its own
//! length.

mod session;
mod stream;
mod wire_sizes;

use std::fmt;
use std::str::FromStr;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use bytes::Bytes;
use roost_wire::{Channel, Congestion, Delivery, Scheme, Time};

use crate::multicast::{MAX_MULTICAST_BYTES, OVERHEAD};
use crate::quic::simulated::{self as quic, QuicEnd};
use session::SessionEnd;
pub(crate) use wire_sizes::UDP_BYTES;
use wire_sizes::WireSizes;

/// The origin of virtual time. Its value does not matter, since only differences are used.
static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

fn instant(time: Time) -> Instant {
    *ORIGIN + Duration::from_nanos(time.as_nanos())
}

fn time(instant: Instant) -> Time {
    Time::ZERO + instant.saturating_duration_since(*ORIGIN)
}

/// The level of detail at which connections are simulated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detail {
    /// The most realistic level: `quic://` runs real QUIC connections.
    #[default]
    Packet,
    /// Every connection uses the session of `udp://`, which is cheap enough for tens of thousands of nodes.
    Message,
}

impl Detail {
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

/// The operations of each kind of end; see [`ConnectionEnd`].
pub(crate) trait SimulatedEnd: Send {
    fn send(&mut self, now: Instant, channel: Channel, delivery: &Delivery, message: Bytes);
    fn close(&mut self, now: Instant, reason: &str);
    fn abort(&mut self, now: Instant, reason: &str);
    fn handle_packet(&mut self, now: Instant, path: u8, content: &Bytes);
    fn handle_timeout(&mut self, now: Instant);
    fn poll_packet(&mut self, now: Instant) -> Option<SimPacket>;
    fn poll_event(&mut self) -> Option<EndEvent>;
    fn deadline(&mut self) -> Option<Instant>;
    fn is_over(&self) -> bool;
}

pub struct ConnectionEnd(Box<dyn SimulatedEnd>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EndEvent {
    Up {
        /// The round trip that the handshake measured.
        rtt: Duration,
    },
    Message(Bytes),
    /// The connection is over; nothing follows.
    Down {
        reason: String,
    },
}

/// The length of the packet of a multicast message, with headers of IP and above. `None` if the message is too long.
pub fn multicast_bytes(message: usize) -> Option<u32> {
    (message <= MAX_MULTICAST_BYTES).then_some((message + OVERHEAD) as u32 + UDP_BYTES)
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimPacket {
    /// The path on which it travels, counted from 0.
    pub path: u8,
    /// The content that the other end needs.
    pub content: Bytes,
    /// The length of the real packet, with headers of IP and above.
    pub bytes: u32,
}

impl ConnectionEnd {
    /// Makes the end that dials. It has its first packets to send at once.
    pub fn dial(scheme: Scheme, detail: Detail, now: Time) -> Self {
        Self::dial_over(1, scheme, detail, now)
    }

    /// Makes an end that dials over `paths` paths, at most 8. Only QUIC in full detail has several; others have one.
    /// The first packets use path 0, and the other paths follow when the connection is up.
    pub fn dial_over(paths: u8, scheme: Scheme, detail: Detail, now: Time) -> Self {
        let now = instant(now);
        Self(match (scheme, detail) {
            (Scheme::Quic, Detail::Packet) => Box::new(QuicEnd::dial(now, Congestion::default(), paths)),
            _ => Box::new(SessionEnd::dial(WireSizes::for_scheme(scheme), now)),
        })
    }

    /// Makes the end that is dialed, before its first packet.
    pub fn accept(scheme: Scheme, detail: Detail, now: Time) -> Self {
        Self::accept_over(1, scheme, detail, now)
    }

    /// Makes the end that is dialed, with addresses for `paths` paths.
    pub fn accept_over(paths: u8, scheme: Scheme, detail: Detail, now: Time) -> Self {
        let now = instant(now);
        Self(match (scheme, detail) {
            (Scheme::Quic, Detail::Packet) => Box::new(QuicEnd::accept(now, Congestion::default(), paths > 1)),
            _ => Box::new(SessionEnd::accept(WireSizes::for_scheme(scheme), now)),
        })
    }

    /// True if a packet begins a connection when it arrives where there is none.
    pub fn is_first_packet(content: &[u8]) -> bool {
        content.first().is_some_and(|first| session::is_first_packet(*first) || quic::is_first_packet(*first))
    }

    /// True if a packet belongs to a handshake. Those of QUIC have long headers, and the others here have the same
    /// mark.
    pub fn is_of_handshake(content: &[u8]) -> bool {
        content.first().is_some_and(|first| first & 0x80 != 0)
    }

    /// Queues a message. As in the product, a message that does not fit into the queue is lost.
    pub fn send(&mut self, now: Time, channel: Channel, message: Bytes) {
        self.send_as(now, channel, &Delivery::default(), message);
    }

    /// Like [`Self::send`], with the given [`Delivery`].
    pub fn send_as(&mut self, now: Time, channel: Channel, delivery: &Delivery, message: Bytes) {
        self.0.send(instant(now), channel, delivery, message);
    }

    /// Ends the connection after all queued messages have left. No [`EndEvent::Down`] follows.
    pub fn close(&mut self, now: Time, reason: &str) {
        self.0.close(instant(now), reason);
    }

    /// Ends the connection at once, even with unsent messages, and tells the other end.
    pub fn abort(&mut self, now: Time, reason: &str) {
        self.0.abort(instant(now), reason);
    }

    /// Handles a packet from the other end that arrived over a path.
    pub fn handle_packet(&mut self, now: Time, path: u8, content: &Bytes) {
        self.0.handle_packet(instant(now), path, content);
    }

    pub fn handle_timeout(&mut self, now: Time) {
        self.0.handle_timeout(instant(now));
    }

    pub fn poll_packet(&mut self, now: Time) -> Option<SimPacket> {
        self.0.poll_packet(instant(now))
    }

    pub fn poll_event(&mut self) -> Option<EndEvent> {
        self.0.poll_event()
    }

    /// The time at which [`Self::handle_timeout`] and [`Self::poll_packet`] must be called.
    pub fn deadline(&mut self) -> Option<Time> {
        self.0.deadline().map(time)
    }

    /// True if the end has nothing left to send or to report.
    pub fn is_over(&self) -> bool {
        self.0.is_over()
    }
}

#[cfg(test)]
mod objects;
#[cfg(test)]
mod tests;
