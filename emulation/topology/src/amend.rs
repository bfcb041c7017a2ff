//! Updates of a topology as the network changes.

use std::time::Duration;

use super::model::{HostIndex, Leg, NetIndex, NetKind, PacketOrder, Queue, Topology, TopologyChange};
use crate::units::Rate;

/// Applies a change of a link or LAN, or of one host's legs of it, to the topology, so that it describes the
/// changed network. Up and down are no part of a topology. An unknown net, or a host that is not on it, changes
/// nothing.
pub fn amend(topology: &mut Topology, net: NetIndex, from: Option<HostIndex>, change: TopologyChange) {
    let Some(net) = topology.nets.get_mut(net) else { return };
    let concerned = |host: HostIndex| from.is_none_or(|from| from == host);
    let [to_net, from_net] = if from.is_none() { change.halves() } else { [change, change] };
    for place in 0..net.members.len() {
        if !concerned(net.members[place].host) {
            continue;
        }
        match net.kind {
            NetKind::Lan => {
                set(&mut net.members[place].to_net, to_net);
                set(&mut net.members[place].from_net, from_net);
            }
            // A direction is one pipe, and one leg holds its whole value.
            NetKind::Link => {
                set(&mut net.members[place].to_net, change);
                let others = net.members.iter_mut().enumerate().filter(|(other, _)| *other != place);
                others.for_each(|(_, other)| set(&mut other.from_net, nothing(change)));
            }
        }
    }
}

fn set(leg: &mut Leg, change: TopologyChange) {
    match change {
        TopologyChange::Up | TopologyChange::Down => {}
        TopologyChange::Rate(rate) => leg.rate = rate,
        TopologyChange::Delay(delay) => leg.delay = delay,
        TopologyChange::Loss(loss) => leg.loss = loss,
        TopologyChange::Burst(burst) => leg.burst = burst,
        TopologyChange::Jitter(jitter) => leg.jitter = jitter,
        TopologyChange::Order(order) => leg.order = order,
        TopologyChange::Queue(queue) => leg.queue = queue,
    }
}

/// The neutral value for the other leg.
const fn nothing(change: TopologyChange) -> TopologyChange {
    match change {
        TopologyChange::Up | TopologyChange::Down => change,
        TopologyChange::Rate(_) => TopologyChange::Rate(Rate::UNLIMITED),
        TopologyChange::Delay(_) => TopologyChange::Delay(Duration::ZERO),
        TopologyChange::Loss(_) => TopologyChange::Loss(0.0),
        TopologyChange::Burst(_) => TopologyChange::Burst(None),
        TopologyChange::Jitter(_) => TopologyChange::Jitter(Duration::ZERO),
        TopologyChange::Order(_) => TopologyChange::Order(PacketOrder::Kept),
        TopologyChange::Queue(_) => TopologyChange::Queue(Queue::DEFAULT),
    }
}
