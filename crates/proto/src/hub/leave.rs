//! The way out: nothing new, the nodes sent to their stand-bys, relayed flows
//! to their end.

use std::time::Duration;

use super::{Hub, HubEvent, Sender};
use crate::ids::LinkId;
use crate::machine::{Channel, Traffic};
use crate::service::Role;
use crate::time::Time;
use crate::wire::Message;

/// How long relayed flows may go on after [`Command::Leave`](super::Command::Leave).
pub const DRAIN: Duration = Duration::from_secs(10);

/// How long the nodes have to turn to their stand-bys: a few round trips of a
/// satellite path.
const HAND_OVER: Duration = Duration::from_secs(5);

const REASON: &str = "the hub is leaving";

impl Hub {
    /// Sends the nodes to their stand-bys, which have their records, and stays
    /// for what is under way. Without another hub in sight it closes every
    /// link that carries no relayed flow.
    pub(super) fn leave(&mut self, now: Time) {
        if self.leaving.is_some() {
            return;
        }
        self.leaving = Some(now);
        self.mesh.stop();
        self.flush_mirror(now);
        self.leave_group(now);
        let alone = self.neighbours.hub_count() == 0;
        let links = self.neighbours.links.iter();
        let nodes: Vec<LinkId> = links.filter(|(_, at)| at.role == Role::Node).map(|(link, _)| *link).collect();
        let busy = self.relays.links();
        for link in nodes {
            if !alone {
                self.send(link, Channel::Reliable { flow: 0 }, Traffic::Join, &Message::Handover);
            } else if !busy.contains(&link) {
                self.close(now, link, REASON);
            }
        }
    }

    /// A node has turned to another hub, or leaves.
    pub(super) fn let_go(&mut self, now: Time, from: Sender) {
        if self.leaving.is_some() && !self.relays.links().contains(&from.link) {
            self.close(now, from.link, REASON);
        }
    }

    /// Whether something goes through this hub: relayed, or reflected, whose
    /// receivers find another way meanwhile.
    fn carries_on(&self) -> bool {
        self.relays.len() > 0 || self.reflection.is_busy()
    }

    /// When the drain ends at the latest; `None` unless it is under way.
    pub(super) fn drain_due(&self) -> Option<Time> {
        let since = self.leaving.filter(|_| !self.left)?;
        Some(since + if self.carries_on() { DRAIN } else { HAND_OVER })
    }

    /// Says goodbye when every node has gone and nothing is relayed any more,
    /// or the time is up.
    pub(super) fn end_drain(&mut self, now: Time) {
        let Some(due) = self.drain_due() else { return };
        let nodes_may_go = self.neighbours.hub_count() > 0 && self.neighbours.has_nodes();
        let waits = self.carries_on() || nodes_may_go;
        if waits && now < due {
            return;
        }
        self.left = true;
        let rest: Vec<LinkId> = self.neighbours.links.keys().copied().collect();
        for link in rest {
            self.close(now, link, REASON);
        }
        self.events.push_back(HubEvent::Left);
    }
}

#[cfg(test)]
mod tests {
    use super::super::HubCommand;
    use super::super::testing::{Bench, carried, forwarded, node, refused, request, version};
    use super::*;
    use crate::machine::Input;
    use crate::wire::{Reason, RequestMode};

    #[test]
    fn idle_hub_leaves_immediately() {
        let mut bench = Bench::new();
        let link = bench.provider(1);
        bench.input(Input::Command(HubCommand::Leave));
        assert_eq!(bench.closed, [(link, REASON.to_owned())]);
        assert_eq!(bench.events.last(), Some(&HubEvent::Left));
        let late = bench.up(2, Role::Node);
        assert_eq!(bench.closed[1].0, late);
        bench.wait(DRAIN * 2);
        assert_eq!(bench.events.iter().filter(|event| **event == HubEvent::Left).count(), 1);
    }

    #[test]
    fn drain_waits_for_node_handover() {
        for withdraws in [true, false] {
            let mut bench = Bench::new();
            let (peer, link) = (bench.up(100, Role::SuperNode), bench.provider(1));
            let sent = bench.input(Input::Command(HubCommand::Leave));
            assert_eq!(sent, [(link, Message::Handover)]);
            assert!(bench.closed.is_empty());
            if withdraws {
                bench.say(link, &Message::Withdraw(version(2)));
            } else {
                bench.wait(HAND_OVER);
            }
            let mut closed: Vec<_> = bench.closed.iter().map(|(link, _)| *link).collect();
            closed.sort();
            assert_eq!((closed, bench.events.last()), (vec![peer, link], Some(&HubEvent::Left)));
        }
    }

    #[test]
    fn sibling_requests_reach_departed_nodes() {
        let mut bench = Bench::new();
        let (peer, link) = (bench.up(100, Role::SuperNode), bench.provider(1));
        bench.input(Input::Command(HubCommand::Leave));
        bench.say(peer, &Message::Claim { node: node(1), version: version(2) });
        assert_eq!(forwarded(&bench.say(peer, &Message::RouteRequest(carried(5)))[1..]).0, link);
    }

    #[test]
    fn drain_keeps_relayed_flow_until_deadline() {
        for ends in [true, false] {
            let mut bench = Bench::new();
            let (provider, asker, idle) = (bench.provider(1), bench.requester(2), bench.requester(3));
            let (_, forward) = forwarded(&bench.ask(asker, request(1, RequestMode::Relay)));
            bench.input(Input::Command(HubCommand::Leave));
            assert_eq!(bench.closed.iter().map(|(link, _)| *link).collect::<Vec<_>>(), [idle]);
            assert_eq!(refused(&bench.ask(asker, request(2, RequestMode::Relay))), (asker, Reason::Leaving));
            assert!(!bench.events.contains(&HubEvent::Left));
            if ends {
                bench.say(provider, &Message::Stop { id: forward.id, reason: Reason::SourceFailed });
            } else {
                bench.wait(DRAIN);
            }
            assert_eq!(bench.events.last(), Some(&HubEvent::Left));
            assert_eq!(bench.closed.len(), 3);
        }
    }
}
