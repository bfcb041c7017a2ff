//! Packet and byte counters of a pipe.

use std::ops::{Add, AddAssign, SubAssign};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PacketCount {
    pub packets: u64,
    /// Sizes as given to [`Network::send`](super::Network::send).
    pub bytes: u64,
}

impl PacketCount {
    pub(super) const fn one(bytes: u32) -> Self {
        Self { packets: 1, bytes: bytes as u64 }
    }
}

impl Add for PacketCount {
    type Output = Self;

    fn add(self, rhs: Self) -> Self {
        Self { packets: self.packets + rhs.packets, bytes: self.bytes + rhs.bytes }
    }
}

impl AddAssign for PacketCount {
    fn add_assign(&mut self, rhs: Self) {
        *self = *self + rhs;
    }
}

impl SubAssign for PacketCount {
    fn sub_assign(&mut self, rhs: Self) {
        self.packets -= rhs.packets;
        self.bytes -= rhs.bytes;
    }
}

/// Counters of one kind of packets. Every packet that arrived was delivered, was dropped, or is inside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FlowCounters {
    pub arrived: PacketCount,
    pub delivered: PacketCount,
    /// Dropped by the queue: it was full, or RED chose them.
    pub dropped_queue: PacketCount,
    pub dropped_loss: PacketCount,
    /// Arrived while the pipe was down.
    pub dropped_down: PacketCount,
    /// Beyond the [`Limits`](super::NetworkLimits).
    pub dropped_limit: PacketCount,
    /// Waiting, in transmission or in flight.
    pub in_flight: PacketCount,
}

impl FlowCounters {
    pub fn dropped(&self) -> PacketCount {
        self.dropped_queue + self.dropped_loss + self.dropped_down + self.dropped_limit
    }

    /// True if every packet and byte is accounted for.
    pub fn conserves(&self) -> bool {
        self.arrived == self.delivered + self.dropped() + self.in_flight
    }
}

impl FlowCounters {
    fn before(self, next: &Self) -> Self {
        let sum = self + *next;
        Self { arrived: self.arrived, delivered: next.delivered, ..sum }
    }
}

impl Add for FlowCounters {
    type Output = Self;

    fn add(self, rhs: Self) -> Self {
        Self {
            arrived: self.arrived + rhs.arrived,
            delivered: self.delivered + rhs.delivered,
            dropped_queue: self.dropped_queue + rhs.dropped_queue,
            dropped_loss: self.dropped_loss + rhs.dropped_loss,
            dropped_down: self.dropped_down + rhs.dropped_down,
            dropped_limit: self.dropped_limit + rhs.dropped_limit,
            in_flight: self.in_flight + rhs.in_flight,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PipeCounters {
    pub unicast: FlowCounters,
    /// Packets to all others: multicast and broadcast.
    pub multicast: FlowCounters,
}

impl PipeCounters {
    pub fn total(&self) -> FlowCounters {
        self.unicast + self.multicast
    }

    pub(super) fn joined(self, other: Self) -> Self {
        Self { unicast: self.unicast + other.unicast, multicast: self.multicast + other.multicast }
    }

    /// The counters of a way that goes on elsewhere: what was delivered here arrived there.
    pub(super) fn before(self, next: &Self) -> Self {
        Self { unicast: self.unicast.before(&next.unicast), multicast: self.multicast.before(&next.multicast) }
    }
}
