//! Updates of a topology as the network changes.

use std::time::Duration;

use super::model::{HostIndex, Leg, NetIndex, NetKind, Queue, Topology, TopologyChange};
use super::wiring::legs;
use crate::units::Rate;

/// Applies a change of a link or LAN, or of one host's legs of it, to the topology, so that it describes the
/// changed network. Up and down are no part of a topology. An unknown net, or a host that is not on it, changes
/// nothing.
pub fn amend(topology: &mut Topology, net: NetIndex, from: Option<HostIndex>, change: TopologyChange) {
    let Some(net) = topology.nets.get_mut(net) else { return };
    let concerned = |host: HostIndex| from.is_none_or(|from| from == host);
    let [to_net, from_net] = if from.is_none() { legs(change) } else { [change, change] };
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
        TopologyChange::Queue(_) => TopologyChange::Queue(Queue::DEFAULT),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::netcore::{Network, PipeConfig, Port};
    use crate::topology::model::Action;
    use crate::topology::wiring::{self, Wiring};
    use crate::topology::{addresses, testing};

    /// The settings of every pipe with rounded losses: the two ways add them up in different orders.
    fn pipes(network: &Network<()>, wiring: &Wiring, topology: &Topology) -> Vec<PipeConfig> {
        let places =
            topology.nets.iter().enumerate().flat_map(|(net, it)| (0..it.members.len()).map(move |at| (net, at)));
        let ports: Vec<Port> = places.filter_map(|(net, place)| wiring.port(net, place)).collect();
        let both = ports.iter().flat_map(|port| [network.to_net(*port), network.from_net(*port)]);
        let round = |config: &PipeConfig| PipeConfig { loss: (config.loss * 1e9).round(), ..config.clone() };
        both.flatten().filter_map(|pipe| network.config(pipe)).map(round).collect()
    }

    proptest! {
        #[test]
        fn amended_topology_matches_changed_network(topology in testing::any_topology()) {
            let topology = addresses::assign(&topology).unwrap();
            let (mut network, wiring) = wiring::build::<()>(&topology, 1);
            let mut amended = topology.clone();
            for event in &topology.events {
                let Action::Net { net, from, change } = event.action else { continue };
                amend(&mut amended, net, from, change);
                let now = network.now();
                wiring.changes(net, from, change).unwrap().into_iter().for_each(|change| network.apply(now, change));
            }
            let (again, wired) = wiring::build::<()>(&amended, 1);
            let (changed, described) = (pipes(&network, &wiring, &topology), pipes(&again, &wired, &amended));
            prop_assert_eq!(changed, described);
        }
    }
}
