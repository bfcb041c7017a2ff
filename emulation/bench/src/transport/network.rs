//! Two hosts and two links between them, with the links' conditions.

use std::time::Duration;

use roost_topology::Topology;
use roost_topology::model::{Action, Event, HostIndex, Leg, Queue, TopologyChange};
use roost_topology::units::Rate;

use super::Condition;
use crate::networks;

pub(super) const SENDER: HostIndex = 0;
pub(super) const RECEIVER: HostIndex = 1;

/// The rate of each link, both ways, of whole Ethernet frames.
const RATE: Rate = Rate::from_bps(100_000_000);
/// The largest queue of a link: 12 ms.
const QUEUE_BYTES: u32 = 150 << 10;
/// The loss of the first link, both ways, in [`Condition::Loss`].
const LOSS: f64 = 0.01;
const CYCLE: Duration = Duration::from_secs(6);
/// The times in a cycle at which each link goes down, and for how long: the other is up then.
const DOWN_AT: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(4)];
const DOWN_FOR: Duration = Duration::from_secs(2);

/// The network of a condition that holds for `time` after [the beginning](roost_lab::Lab::begin).
pub(super) fn for_condition(condition: Condition, time: Duration) -> Topology {
    let queue = Queue { limit: QUEUE_BYTES, in_bytes: true, ..Queue::DEFAULT };
    let link = |loss| Leg { rate: RATE, loss, queue, ..Leg::default() };
    let loss = if condition == Condition::Loss { LOSS } else { 0.0 };
    let mut topology = networks::between_two([link(loss), link(0.0)]);
    if condition == Condition::Failures {
        let cycles = time.as_secs().div_ceil(CYCLE.as_secs()) as u32;
        topology.events = (0..cycles).flat_map(|cycle| failures(CYCLE * cycle)).collect();
    }
    topology
}

/// Each link fails silently once: its ends do not lose their carrier.
fn failures(begin: Duration) -> impl Iterator<Item = Event> {
    let event = |net, at, change| Event {
        at,
        after: None,
        object: format!("link{net}"),
        line: 0,
        action: Action::Net { net, from: None, change },
    };
    DOWN_AT.into_iter().enumerate().flat_map(move |(net, at)| {
        let down = begin + at;
        [event(net, down, TopologyChange::Down), event(net, down + DOWN_FOR, TopologyChange::Up)]
    })
}

/// The rates of both links while they are up, Mbit/s of whole frames.
pub(super) fn capacity_mbps(condition: Condition) -> f64 {
    let part = match condition {
        Condition::BothUp | Condition::Loss => 1.0,
        Condition::Failures => 1.0 - DOWN_FOR.as_secs_f64() / CYCLE.as_secs_f64(),
    };
    2.0 * part * RATE.bps() as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_link_is_always_up() {
        let topology = for_condition(Condition::Failures, Duration::from_secs(20));
        assert_eq!(topology.events.len(), 4 * 4);
        let mut is_up = [true; 2];
        for event in &topology.events {
            let Action::Net { net, change, .. } = &event.action else { panic!("{event:?}") };
            is_up[*net] = *change == TopologyChange::Up;
            assert!(is_up[0] || is_up[1], "{event:?}");
        }
        assert!(topology.events.is_sorted_by_key(|event| event.at) && is_up == [true; 2]);
        assert!((capacity_mbps(Condition::Failures) - 133.3).abs() < 0.1);
    }

    #[test]
    fn only_first_link_loses_packets() {
        let topology = for_condition(Condition::Loss, Duration::ZERO);
        let loss = |net: usize, from: usize, to: usize| {
            let members = &topology.nets[net].members;
            members[from].to_net.joined(&members[to].from_net).loss
        };
        for (from, to) in [(0, 1), (1, 0)] {
            assert!((loss(0, from, to) - LOSS).abs() < 1e-12 && loss(1, from, to) == 0.0);
        }
        assert!(topology.events.is_empty());
    }
}
