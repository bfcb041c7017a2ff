//! The way out: nothing new, the nodes sent to their standbys, relayed flows
//! to their end.

use std::time::Duration;

/// How long relayed flows may go on after [`Command::Leave`](super::HubCommand::Leave).
pub const DRAIN: Duration = Duration::from_secs(10);

/// How long the nodes have to turn to their standbys: a few round trips of a
/// satellite path.
pub(super) const HAND_OVER: Duration = Duration::from_secs(5);

pub(super) const REASON: &str = "the hub is leaving";

#[cfg(test)]
mod tests {
    use super::super::HubCommand;
    use super::super::testing::{Bench, carried, forwarded, node, refused, request, version};
    use super::*;
    use crate::hub::HubEvent;
    use crate::machine::Input;
    use roost_wire::messages::Message;
    use roost_wire::messages::RegistrationMessage;
    use roost_wire::messages::{FlowMessage, HierarchyMessage, RequestMessage};
    use roost_wire::messages::{Reason, RequestMode};
    use roost_wire::service::Role;

    #[test]
    fn idle_hub_leaves_immediately() {
        let mut bench = Bench::new();
        let connection = bench.provider(1);
        bench.input(Input::Command(HubCommand::Leave));
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
            let (peer, connection) = (bench.up(100, Role::SuperNode), bench.provider(1));
            let sent = bench.input(Input::Command(HubCommand::Leave));
            assert_eq!(sent, [(connection, Message::Registration(RegistrationMessage::Handover))]);
            assert!(bench.closed.is_empty());
            if withdraws {
                bench.say(connection, RegistrationMessage::Withdraw(version(2)));
            } else {
                bench.wait(HAND_OVER);
            }
            let mut closed: Vec<_> = bench.closed.iter().map(|(connection, _)| *connection).collect();
            closed.sort();
            assert_eq!((closed, bench.events.last()), (vec![peer, connection], Some(&HubEvent::Left)));
        }
    }

    #[test]
    fn sibling_requests_reach_departed_nodes() {
        let mut bench = Bench::new();
        let (peer, connection) = (bench.up(100, Role::SuperNode), bench.provider(1));
        bench.input(Input::Command(HubCommand::Leave));
        bench.say(peer, HierarchyMessage::Claim { node: node(1), version: version(2) });
        assert_eq!(forwarded(&bench.say(peer, RequestMessage::Request(carried(5)))[1..]).0, connection);
    }

    #[test]
    fn drain_keeps_relayed_flow_until_deadline() {
        for ends in [true, false] {
            let mut bench = Bench::new();
            let (provider, requester, idle) = (bench.provider(1), bench.requester(2), bench.requester(3));
            let (_, forward) = forwarded(&bench.ask(requester, request(1, RequestMode::Relay)));
            bench.input(Input::Command(HubCommand::Leave));
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
