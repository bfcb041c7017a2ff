//! What a pipe is set to, and what may become of it.

use std::time::Duration;

use super::PipeId;
use crate::topology::model::{Burst, Leg, Queue, TopologyChange};
use crate::units::Rate;

/// How one direction treats packets.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PipeConfig {
    /// The rate; [`Rate::UNLIMITED`] takes no time to send, and has no queue.
    pub rate: Rate,
    /// Propagation delay, after the last bit was sent.
    pub delay: Duration,
    /// Extra delay, drawn evenly from zero to this for each packet; order is kept.
    pub jitter: Duration,
    /// Random loss of single packets, 0 to 1.
    pub loss: f64,
    /// Loss in bursts, in addition: up to two models in a row, for the two legs
    /// of a link's direction.
    pub burst: [Option<Burst>; 2],
    /// What waits for the rate.
    pub queue: Queue,
}

impl PipeConfig {
    /// Takes over a change; going up and down is not its business.
    pub(super) fn change(&mut self, change: TopologyChange) {
        match change {
            TopologyChange::Up | TopologyChange::Down => {}
            TopologyChange::Rate(rate) => self.rate = rate,
            TopologyChange::Delay(delay) => self.delay = delay,
            TopologyChange::Loss(loss) => self.loss = loss,
            TopologyChange::Burst(burst) => self.burst = [burst, None],
            TopologyChange::Jitter(jitter) => self.jitter = jitter,
            TopologyChange::Queue(queue) => self.queue = queue,
        }
    }
}

impl From<&Leg> for PipeConfig {
    fn from(leg: &Leg) -> Self {
        let &Leg { rate, delay, loss, burst, jitter, queue } = leg;
        Self { rate, delay, jitter, loss, burst: [burst, None], queue }
    }
}

/// A change of one pipe, with values as they are to be in that pipe.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PipeChange {
    /// Which.
    pub pipe: PipeId,
    /// What becomes of it.
    pub change: TopologyChange,
}

/// How much a network may hold. What goes beyond is dropped and counted as
/// `dropped_limit`: then the network was not what the description says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetworkLimits {
    /// Packets inside one pipe, waiting or on their way.
    pub pipe_packets: usize,
    /// Packets inside all pipes, and delivered but not yet fetched.
    pub network_packets: usize,
    /// Changes that are scheduled and have not happened yet.
    pub changes: usize,
}

impl Default for NetworkLimits {
    /// 262 144 packets in a pipe (1 Gbit/s of 1500 bytes for 3 s), 1 048 576 in
    /// all, and as many changes.
    fn default() -> Self {
        Self { pipe_packets: 1 << 18, network_packets: 1 << 20, changes: 1 << 20 }
    }
}
