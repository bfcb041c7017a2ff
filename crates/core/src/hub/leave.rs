//! The way out: nothing new, the nodes sent to their standbys, relayed flows
//! to their end.

use std::time::Duration;

use roost_wire::messages::RegistrationMessage;
use roost_wire::{Channel, ConnectionId, Role, Time};

use super::sender::Sender;
use super::{Hub, HubEvent};
use crate::machine::Traffic;

/// Time for which relayed flows may go on after [`HubCommand::Leave`](super::HubCommand::Leave).
pub const DRAIN: Duration = Duration::from_secs(10);

/// Time that the nodes have to turn to their standbys: a few round trips of a
/// satellite path.
const HAND_OVER: Duration = Duration::from_secs(5);

const REASON: &str = "the hub is leaving";

impl Hub {
    /// Sends the nodes to their standbys, which have their records, and stays
    /// for what is under way. Without another hub in sight it closes every
    /// connection that carries no relayed flow.
    pub(super) fn leave(&mut self) {
        let now = self.core.now;
        if self.core.leaving.is_some() {
            return;
        }
        self.core.leaving = Some(now);
        self.core.mesh.stop();
        self.replication.flush_replicas(&mut self.core, self.registry.records());
        self.note_own_load();
        self.members.leave_group(&mut self.core);
        let alone = self.core.remotes.hub_count() == 0;
        let connections = self.core.remotes.connections.iter();
        let nodes: Vec<ConnectionId> =
            connections.filter(|(_, at)| at.role == Role::Node).map(|(connection, _)| *connection).collect();
        let busy = self.requests.relaying_connections();
        for connection in nodes {
            if !alone {
                self.core.send(connection, Channel::Reliable { flow: 0 }, Traffic::Join, RegistrationMessage::Handover);
            } else if !busy.contains(&connection) {
                self.close(connection, REASON);
            }
        }
    }

    /// A node has turned to another hub, or leaves.
    pub(super) fn close_departed_node(&mut self, from: Sender) {
        if self.core.leaving.is_some() && !self.requests.relaying_connections().contains(&from.connection) {
            self.close(from.connection, REASON);
        }
    }

    /// Time at which the drain ends at the latest; `None` unless it is under way.
    pub(super) fn drain_due(&self) -> Option<Time> {
        let since = self.core.leaving.filter(|_| !self.left)?;
        Some(since + if self.requests.has_traffic() { DRAIN } else { HAND_OVER })
    }

    /// Says goodbye when every node has gone and nothing is relayed any more,
    /// or the time is up.
    pub(super) fn end_drain(&mut self) {
        let now = self.core.now;
        let Some(due) = self.drain_due() else { return };
        let nodes_may_go = self.core.remotes.hub_count() > 0 && self.core.remotes.has_nodes();
        let waits = self.requests.has_traffic() || nodes_may_go;
        if waits && now < due {
            return;
        }
        self.left = true;
        let rest: Vec<ConnectionId> = self.core.remotes.connections.keys().copied().collect();
        for connection in rest {
            self.close(connection, REASON);
        }
        self.core.events.push_back(HubEvent::Left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hub::testing::*;

    #[test]
    fn idle_hub_leaves_immediately() {
        let mut bench = Bench::new();
        let connection = bench.provider(1);
        bench.command(HubCommand::Leave);
        assert_eq!(bench.closed, [(connection, REASON.to_owned())]);
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
            let (sibling, connection) = (bench.up(100, Role::SuperNode), bench.provider(1));
            let sent = bench.command(HubCommand::Leave);
            assert_eq!(sent, [(connection, Message::Registration(RegistrationMessage::Handover))]);
            assert!(bench.closed.is_empty());
            if withdraws {
                bench.say(connection, RegistrationMessage::Withdraw(version(2)));
            } else {
                bench.wait(HAND_OVER);
            }
            let mut closed: Vec<_> = bench.closed.iter().map(|(connection, _)| *connection).collect();
            closed.sort();
            assert_eq!((closed, bench.events.last()), (vec![sibling, connection], Some(&HubEvent::Left)));
        }
    }

    #[test]
    fn sibling_requests_reach_departed_nodes() {
        let mut bench = Bench::new();
        let (sibling, connection) = (bench.up(100, Role::SuperNode), bench.provider(1));
        bench.command(HubCommand::Leave);
        bench.say(sibling, HierarchyMessage::Claim { node: node(1), version: version(2) });
        assert_eq!(forwarded(&bench.ask(sibling, carried(5))[1..]).0, connection);
    }

    #[test]
    fn drain_keeps_relayed_flow_until_deadline() {
        for ends in [true, false] {
            let mut bench = Bench::new();
            let (provider, requester, idle) = (bench.provider(1), bench.requester(2), bench.requester(3));
            let (_, forward) = forwarded(&bench.ask(requester, request(1, RequestMode::Relay)));
            bench.command(HubCommand::Leave);
            assert_eq!(bench.closed.iter().map(|(connection, _)| *connection).collect::<Vec<_>>(), [idle]);
            assert_eq!(refused(&bench.ask(requester, request(2, RequestMode::Relay))), (requester, Reason::Leaving));
            assert!(!bench.events.contains(&HubEvent::Left));
            if ends {
                bench.say(provider, FlowMessage::Stop { id: forward.id, reason: Reason::SourceFailed });
            } else {
                bench.wait(DRAIN);
            }
            assert_eq!(bench.events.last(), Some(&HubEvent::Left));
            assert_eq!(bench.closed.len(), 3);
        }
    }
}
