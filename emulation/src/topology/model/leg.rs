//! What a direction of an interface does to packets.

use std::time::Duration;

use crate::units::Rate;

/// One direction of an interface.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Leg {
    /// The rate; [`Rate::UNLIMITED`] takes no time to send.
    pub rate: Rate,
    /// Propagation delay, one way.
    pub delay: Duration,
    /// Random loss of single packets, 0 to 1.
    pub loss: f64,
    /// Loss in bursts, in addition.
    pub burst: Option<Burst>,
    /// Extra delay, drawn evenly from zero to this for each packet; order is kept.
    pub jitter: Duration,
    /// What waits for the rate.
    pub queue: Queue,
}

impl Leg {
    /// Splits a direction, end to end, into the leg from its sender into the
    /// net and the leg from the net to its receiver, as Emulab does: half the
    /// delay each, and a loss of 1 − √(1 − p) each. Jitter and bursts do not
    /// split, so they stay with the sender; the queue is the sender's too.
    pub fn halves(&self) -> (Self, Self) {
        let loss = 1.0 - (1.0 - self.loss).sqrt();
        let half = self.delay / 2;
        let to_net = Self { delay: self.delay - half, loss, ..self.clone() };
        let from_net = Self { rate: self.rate, delay: half, loss, ..Self::default() };
        (to_net, from_net)
    }

    /// What a packet meets that crosses this leg into the net and `from_net`
    /// out of it: the inverse of [`Leg::halves`] but for rounding.
    pub fn joined(&self, from_net: &Self) -> Self {
        Self {
            rate: self.rate.slower(from_net.rate),
            delay: self.delay + from_net.delay,
            loss: 1.0 - (1.0 - self.loss) * (1.0 - from_net.loss),
            burst: self.burst.or(from_net.burst),
            jitter: self.jitter + from_net.jitter,
            queue: self.queue,
        }
    }
}

/// The Gilbert–Elliott model: a good and a bad state, moved between packet by
/// packet (Gilbert 1960, Elliott 1963).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Burst {
    /// Probability to turn bad, at each packet.
    pub enter: f64,
    /// Probability to turn good again, at each packet: bursts last `1 / leave` packets.
    pub leave: f64,
    /// Loss in the bad state.
    pub loss: f64,
}

/// A queue before a rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Queue {
    /// How many packets (or bytes) it holds, the one being sent included.
    pub limit: u32,
    /// Whether `limit` and the thresholds are in bytes.
    pub in_bytes: bool,
    /// Which packet is dropped.
    pub discipline: Discipline,
}

impl Queue {
    /// Emulab's default: the packet that finds 50 before it is dropped.
    pub const DEFAULT: Self = Self { limit: 50, in_bytes: false, discipline: Discipline::DropTail };
}

impl Default for Queue {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Which packet a full or filling queue drops.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Discipline {
    /// The one that finds it full.
    DropTail,
    /// Random early detection (Floyd and Jacobson 1993), gentle if so set.
    Red(Red),
}

/// The parameters of random early detection, as NS names them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Red {
    /// Average queue at which dropping begins: `thresh_`.
    pub min_threshold: u32,
    /// Average queue from which on all are dropped: `maxthresh_`.
    pub max_threshold: u32,
    /// One over the drop probability just below `max_threshold`: `linterm_`.
    pub linterm: u32,
    /// Weight of the newest sample in the average: `q_weight_`.
    pub weight: f64,
    /// Whether the probability climbs on to 1 at twice `max_threshold`: `gentle_`.
    pub gentle: bool,
}

impl Red {
    /// NS's defaults.
    pub const DEFAULT: Self = Self { min_threshold: 5, max_threshold: 15, linterm: 10, weight: 0.002, gentle: false };
}
