//! Datagrams on their way to the system, and what it did with them.

use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;

use crate::packet::StreamId;
use crate::ring::Run;

/// A target of one [`Fanout`](crate::Fanout); the number may be used again after its removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TargetId(pub(crate) usize);

/// Datagrams to hand to the system, as one message where it takes them so.
#[derive(Debug)]
pub struct Transmit {
    pub to: SocketAddr,
    /// The address of this host that they leave from, if it matters.
    pub from: Option<IpAddr>,
    /// Datagrams one after the other.
    pub contents: Bytes,
    /// The size of each but the last.
    pub segment: usize,
    /// True if the system has taken several at once for this target so far.
    pub offload: bool,
    pub(crate) stream: StreamId,
    pub(crate) target: TargetId,
    pub(crate) item: Item,
}

impl Transmit {
    /// A datagram that is said beside a stream; what becomes of it changes nothing.
    pub fn control_packet(to: SocketAddr, stream: StreamId, contents: Bytes) -> Self {
        let segment = contents.len();
        Self { to, from: None, contents, segment, offload: false, stream, target: TargetId(0), item: Item::Control }
    }

    /// Adds the address of this host that the datagram leaves from.
    #[must_use]
    pub fn leaving(self, from: Option<IpAddr>) -> Self {
        Self { from, ..self }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendOutcome {
    /// Packets that it took, the first ones.
    pub sent: u32,
    /// Packets that it refused, and would again.
    pub failed: u32,
    /// The system takes one packet at a time only for this target.
    pub refuses_offload: bool,
    /// The system has no room for the rest now.
    pub is_full: bool,
}

/// The next thing for a target.
#[derive(Debug)]
pub(crate) enum Item {
    /// A datagram that is not of a stream's packets.
    Control,
    /// A single packet, ahead of the others.
    Front(Bytes),
    Run {
        run: Run,
        is_cached: bool,
    },
}

impl Item {
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Self::Control => 0,
            Self::Front(packet) => packet.len() as u64,
            Self::Run { run, .. } => run.bytes.len() as u64,
        }
    }
}
