//! The settings of a pipe, and their changes.

use std::sync::Arc;
use std::time::Duration;

use roost_topology::model::{Burst, Leg, PacketOrder, Queue, TopologyChange};
use roost_topology::trace::Playback;
use roost_topology::units::Rate;

use super::PipeId;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct PipeConfig {
    /// The rate; [`Rate::UNLIMITED`] transmits at once and keeps no queue.
    pub rate: Rate,
    /// Propagation delay after the last bit was sent.
    pub delay: Duration,
    /// Extra delay, drawn evenly from zero to this for each packet.
    pub jitter: Duration,
    pub order: PacketOrder,
    /// Random loss of single packets, 0 to 1.
    pub loss: f64,
    /// Loss in bursts, in addition: up to two models in a row, one for each of the two legs of a link's
    /// direction.
    pub burst: [Option<Burst>; 2],
    pub queue: Queue,
    /// Values over time, in place of the others.
    pub trace: Option<Arc<Playback>>,
}

impl PipeConfig {
    /// Applies a change. The pipe handles `Up` and `Down` itself.
    pub(super) fn change(&mut self, change: TopologyChange) {
        match change {
            TopologyChange::Up | TopologyChange::Down => {}
            TopologyChange::Rate(rate) => self.rate = rate,
            TopologyChange::Delay(delay) => self.delay = delay,
            TopologyChange::Loss(loss) => self.loss = loss,
            TopologyChange::Burst(burst) => self.burst = [burst, None],
            TopologyChange::Jitter(jitter) => self.jitter = jitter,
            TopologyChange::Order(order) => self.order = order,
            TopologyChange::Queue(queue) => self.queue = queue,
        }
    }
}

impl From<&Leg> for PipeConfig {
    fn from(leg: &Leg) -> Self {
        let &Leg { rate, delay, loss, burst, jitter, order, queue, ref trace } = leg;
        Self { rate, delay, jitter, order, loss, burst: [burst, None], queue, trace: trace.clone() }
    }
}

/// A change of one pipe. Its values are the pipe's own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PipeChange {
    pub pipe: PipeId,
    pub change: TopologyChange,
}

/// The limits of a network. Packets beyond them are dropped and counted as `dropped_limit`; such a run does not
/// match its description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetworkLimits {
    /// Packets inside one pipe, waiting or in flight.
    pub pipe_packets: usize,
    /// Packets inside all pipes, and delivered packets that are not fetched yet.
    pub network_packets: usize,
    /// Scheduled changes that are still to come.
    pub changes: usize,
}

impl Default for NetworkLimits {
    /// 262 144 packets in a pipe (1 Gbit/s of 1500 bytes for 3 s), 1 048 576 in
    /// all, and as many changes.
    fn default() -> Self {
        Self { pipe_packets: 1 << 18, network_packets: 1 << 20, changes: 1 << 20 }
    }
}
