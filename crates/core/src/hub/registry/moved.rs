//! New homes of nodes that have moved, and how their old home, which may be anywhere in the tree, hears of it.
//!
//! The node tells its new home where it was. From there the word goes to the
//! old home as a lookup of the old place would: up, across, and down to those
//! that have something there. For a lease requests by name that still come to
//! the old home follow the node, or are told to look again.

use std::collections::BTreeMap;

use roost_wire::{NodeId, Time};

use crate::hub::core::HubCore;

/// Number of moved nodes that are remembered; further ones have to be sought.
const MAX_MOVED: usize = 16 * 1024;

/// The nodes that have moved, where, and until when that is of interest.
#[derive(Debug, Default)]
pub(crate) struct MovedNodes {
    nodes: BTreeMap<NodeId, (NodeId, Time)>,
}

impl MovedNodes {
    /// Another hub has a node that was here.
    pub(super) fn record(&mut self, core: &mut HubCore, node: NodeId, to: NodeId) {
        let now = core.now;
        let nodes = &mut self.nodes;
        if nodes.len() >= MAX_MOVED {
            nodes.retain(|_, (_, until)| *until > now);
        }
        if nodes.len() < MAX_MOVED {
            nodes.insert(node, (to, now + core.config.lease));
        }
    }

    /// The hub to which a node went, if that hub can be asked.
    pub(super) fn moved_to(&self, core: &HubCore, node: NodeId) -> Option<NodeId> {
        let (to, until) = self.nodes.get(&node)?;
        (*until > core.now && core.remotes.is_up(*to)).then_some(*to)
    }

    /// True if a node was here a moment ago and has another home now.
    pub(super) fn has_moved(&self, core: &HubCore, node: NodeId) -> bool {
        self.nodes.get(&node).is_some_and(|(_, until)| *until > core.now)
    }
}

#[cfg(test)]
mod tests {
    use roost_wire::block::BlockService;

    use crate::hub::testing::*;

    #[test]
    fn request_follows_moved_node_for_lease() {
        let mut bench = Bench::new();
        let (requester, new) = (bench.up(100, Role::SuperNode), bench.up(101, Role::SuperNode));
        let connection = bench.provider(1);
        bench.say(new, HierarchyMessage::Claim { node: node(1), version: version(2) });
        bench.down(connection);
        let sent = bench.ask(requester, carried(1));
        let followed = |sent: &[(_, Message)]| {
            sent.iter().any(|(connection, message)| {
                *connection == new && matches!(message, Message::Request(RequestMessage::Request(on)) if on.hop().unwrap().hops_left == 2)
            })
        };
        assert!(followed(&sent), "{sent:?}");
        for _ in 0..7 {
            bench.say(requester, ProbeMessage::Ping(0));
            bench.say(new, ProbeMessage::Ping(0));
            bench.wait(Duration::from_secs(10));
        }
        let sent = bench.ask(requester, carried(2));
        assert!(!followed(&sent) && sent.len() == 2, "{sent:?}");
    }

    #[test]
    fn request_for_departed_node_is_declined() {
        let mut bench = Bench::new();
        let (requester, connection) = (bench.up(100, Role::SuperNode), bench.provider(1));
        bench.say(requester, RegistrationMessage::HomeChanged(word(200, 101)));
        bench.down(connection);
        let sent = bench.ask(requester, carried(1));
        assert!(
            matches!(&sent[..], [_, (_, Message::Request(RequestMessage::Decline(decline)))] if decline.reason == Reason::Leaving),
            "{sent:?}"
        );
    }

    fn word(old: u8, new: u8) -> HomeChanged {
        HomeChanged {
            node: node(1),
            version: version(2),
            old_home: node(old),
            new: node(new),
            service: Service::Track,
            cell: HERE,
            direction: RouteDirection::Up,
            hops_left: 3,
        }
    }

    #[test]
    fn move_notice_reaches_old_home() {
        let mut bench = Bench::new();
        let (child, other) = (bench.up(100, Role::SuperNode), bench.up(101, Role::SuperNode));
        bench.hub.core.config.tier = 1;
        bench.say(child, HierarchyMessage::RegisterChild { tier: 0 });
        bench.say(other, HierarchyMessage::RegisterChild { tier: 0 });
        let summary =
            |blocks| HierarchyMessage::Summary(Summary { run: 1, version: 1, block_services: blocks, since: None });
        bench.say(other, summary([(BlockService::from_cell(Service::Track.code(), HERE), 1)].into()));
        let on = |old| {
            Message::Registration(RegistrationMessage::HomeChanged(HomeChanged {
                direction: RouteDirection::Down,
                hops_left: 2,
                ..word(old, 50)
            }))
        };
        assert_eq!(
            bench.say(child, RegistrationMessage::HomeChanged(word(77, 50))),
            [(other, on(77))],
            "something is there"
        );
        assert_eq!(
            bench.say(other, RegistrationMessage::HomeChanged(word(100, 50))),
            [(child, on(100))],
            "it is that one"
        );
        assert!(
            bench.say(child, RegistrationMessage::HomeChanged(HomeChanged { hops_left: 0, ..word(77, 50) })).is_empty()
        );
        // A node tells of itself only, and of what is here.
        let connection = bench.up(1, Role::Node);
        assert!(bench.say(connection, RegistrationMessage::HomeChanged(word(77, 50))).is_empty());
    }

    /// Each goes to every hub on the way, reliably.
    #[test]
    fn moves_are_told_slowly() {
        let mut bench = Bench::new();
        for hub in 100..108 {
            bench.up(hub, Role::SuperNode);
        }
        let connection = bench.provider(1);
        let said = (0..200).map(|old| {
            let sent = bench.say(
                connection,
                RegistrationMessage::HomeChanged(HomeChanged {
                    direction: RouteDirection::Up,
                    hops_left: 0,
                    ..word(old, 1)
                }),
            );
            usize::from(!sent.is_empty())
        });
        let said = said.sum::<usize>();
        assert!((1..=12).contains(&said), "{said} of 200");
    }
}
