//! The treatment of packets by one direction of an interface.

use std::sync::Arc;
use std::time::Duration;

use crate::trace::Playback;
use crate::units::Rate;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Leg {
    /// The rate; [`Rate::UNLIMITED`] transmits at once.
    pub rate: Rate,
    /// Propagation delay, one way.
    pub delay: Duration,
    /// Random loss of single packets, 0 to 1.
    pub loss: f64,
    pub burst: Option<Burst>,
    /// Extra delay, drawn evenly from zero to this for each packet.
    pub jitter: Duration,
    /// The order of packets with different jitter.
    pub order: PacketOrder,
    pub queue: Queue,
    /// Values over time; those that it gives replace the others.
    pub trace: Option<Arc<Playback>>,
}

impl Leg {
    /// Splits an end-to-end direction into the sender's leg and the receiver's, as Emulab does: half the delay
    /// each, and a loss of 1 − √(1 − p) each. Jitter, bursts, the queue and the trace do not split and stay with
    /// the sender.
    pub fn halves(&self) -> (Self, Self) {
        let loss = 1.0 - (1.0 - self.loss).sqrt();
        let half = self.delay / 2;
        let to_net = Self { delay: self.delay - half, loss, ..self.clone() };
        let from_net = Self { rate: self.rate, delay: half, loss, ..Self::default() };
        (to_net, from_net)
    }

    /// The end-to-end direction of this leg followed by `from_net`: the inverse of [`Leg::halves`], except for
    /// rounding.
    pub fn joined(&self, from_net: &Self) -> Self {
        Self {
            rate: self.rate.slower(from_net.rate),
            delay: self.delay + from_net.delay,
            loss: 1.0 - (1.0 - self.loss) * (1.0 - from_net.loss),
            burst: self.burst.or(from_net.burst),
            jitter: self.jitter + from_net.jitter,
            order: if self.order == PacketOrder::Free { self.order } else { from_net.order },
            queue: self.queue,
            trace: self.trace.clone().or_else(|| from_net.trace.clone()),
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PacketOrder {
    /// A packet waits for the one before it.
    #[default]
    Kept,
    /// A packet with less jitter, or after a change to a shorter delay, overtakes.
    Free,
}

/// The Gilbert–Elliott model: a good and a bad state, with a possible change at each packet (Gilbert 1960,
/// Elliott 1963).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Burst {
    /// Probability, for each packet, of turning bad.
    pub enter: f64,
    /// Probability, for each packet, of turning good again: bursts last `1
    /// leave` packets.
    pub leave: f64,
    pub loss: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Queue {
    /// The most packets or bytes inside, including the packet in transmission.
    pub limit: u32,
    /// True if `limit` and the thresholds are in bytes.
    pub in_bytes: bool,
    pub discipline: Discipline,
}

impl Queue {
    /// Emulab's default: a packet that finds 50 before it is dropped.
    pub const DEFAULT: Self = Self { limit: 50, in_bytes: false, discipline: Discipline::DropTail };
}

impl Default for Queue {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// The choice of the packet to drop.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Discipline {
    /// The packet that finds the queue full.
    DropTail,
    /// Random early detection (Floyd and Jacobson 1993), gentle if so set.
    Red(Red),
}

/// The parameters of random early detection, as NS names them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Red {
    /// Average queue at which dropping begins: `thresh_`.
    pub min_threshold: u32,
    /// Average queue from which on every packet is dropped: `maxthresh_`.
    pub max_threshold: u32,
    /// Reciprocal of the drop probability just below `max_threshold`: `linterm_`.
    pub linterm: u32,
    /// Weight of the newest sample in the average: `q_weight_`.
    pub weight: f64,
    /// True if the probability grows further, to 1 at twice `max_threshold`: `gentle_`.
    pub gentle: bool,
}

impl Red {
    pub const DEFAULT: Self = Self { min_threshold: 5, max_threshold: 15, linterm: 10, weight: 0.002, gentle: false };
}
