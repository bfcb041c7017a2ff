//! Where nodes went that have moved to another home, and how their old home,
//! which may be anywhere in the tree, hears of it.
//!
//! The node tells its new home where it was. From there the word goes to the
//! old home as a lookup of the old place would: up, across, and down to those
//! that have something there. For a lease requests by name that still come to
//! the old home follow the node, or are told to look again.

use std::collections::BTreeMap;

use roost_wire::messages::HomeChanged;
use roost_wire::{NodeId, Time};

use super::HubLimit;
use super::core::HubCore;
use super::registry::Registry;
use super::relation::Relation;
use super::remotes::MOVE;
use super::route::HOPS;
use super::sender::Sender;

/// How many moved nodes are remembered; further ones have to be sought.
const MAX_MOVED: usize = 16 * 1024;

/// The nodes that have moved, where, and until when that is of interest.
#[derive(Debug, Default)]
pub(super) struct MovedNodes {
    pub(super) nodes: BTreeMap<NodeId, (NodeId, Time)>,
}

impl Registry {
    /// A node of this hub says where it was before. Gives what hubs that are not siblings are to hear;
    /// siblings have heard of it already (`HierarchyMessage::Claim`).
    pub(super) fn accept_move(&mut self, core: &mut HubCore, from: Sender, moved: HomeChanged) -> Option<HomeChanged> {
        let held = self.directory.get(from.node).filter(|_| !self.replicas.holds(from.node));
        let Some(version) = held.map(|entry| entry.version()).filter(|_| moved.node == from.node) else {
            core.counters.stray += 1;
            return None;
        };
        // A node says it once. The old home that does not hear of it keeps its copy for a lease.
        let now = core.now;
        if !core.remotes.get_mut(from.node).is_some_and(|node| node.try_charge(now, MOVE)) {
            core.over_limit(from.node, HubLimit::WorkRate);
            return None;
        }
        let own = core.config.node;
        let is_news = core.relation(moved.old_home) != Some(Relation::Sibling) && moved.old_home != own;
        is_news.then_some(HomeChanged { version, new: own, hops_left: HOPS, ..moved })
    }

    /// Another hub has a node that was here.
    pub(super) fn note_moved(&mut self, core: &mut HubCore, node: NodeId, to: NodeId) {
        let now = core.now;
        let nodes = &mut self.moved.nodes;
        if nodes.len() >= MAX_MOVED {
            nodes.retain(|_, (_, until)| *until > now);
        }
        if nodes.len() < MAX_MOVED {
            nodes.insert(node, (to, now + core.config.lease));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::testing::{Bench, HERE, carried, node, version};
    use roost_wire::block::BlockService;
    use roost_wire::messages::{
        HierarchyMessage, HomeChanged, Message, ProbeMessage, Reason, RegistrationMessage, RequestMessage,
        RouteDirection, Summary,
    };
    use roost_wire::service::{Role, Service};

    #[test]
    fn request_follows_moved_node_for_lease() {
        let mut bench = Bench::new();
        let (requester, new) = (bench.up(100, Role::SuperNode), bench.up(101, Role::SuperNode));
        let connection = bench.provider(1);
        bench.say(new, &Message::Hierarchy(HierarchyMessage::Claim { node: node(1), version: version(2) }));
        bench.down(connection);
        let sent = bench.say(requester, &Message::Request(RequestMessage::Request(carried(1))));
        let followed = |sent: &[(_, Message)]| {
            sent.iter().any(|(connection, message)| {
                *connection == new && matches!(message, Message::Request(RequestMessage::Request(on)) if on.hop().unwrap().hops_left == 2)
            })
        };
        assert!(followed(&sent), "{sent:?}");
        for _ in 0..7 {
            bench.say(requester, &Message::Probe(ProbeMessage::Ping(0)));
            bench.say(new, &Message::Probe(ProbeMessage::Ping(0)));
            bench.wait(Duration::from_secs(10));
        }
        let sent = bench.say(requester, &Message::Request(RequestMessage::Request(carried(2))));
        assert!(!followed(&sent) && sent.len() == 2, "{sent:?}");
    }

    #[test]
    fn request_for_departed_node_is_declined() {
        let mut bench = Bench::new();
        let (requester, connection) = (bench.up(100, Role::SuperNode), bench.provider(1));
        bench.say(requester, &Message::Registration(RegistrationMessage::HomeChanged(word(200, 101))));
        bench.down(connection);
        let sent = bench.say(requester, &Message::Request(RequestMessage::Request(carried(1))));
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
        bench.say(child, &Message::Hierarchy(HierarchyMessage::RegisterChild { tier: 0 }));
        bench.say(other, &Message::Hierarchy(HierarchyMessage::RegisterChild { tier: 0 }));
        let summary = |patches| {
            Message::Hierarchy(HierarchyMessage::Summary(Summary {
                run: 1,
                version: 1,
                block_services: patches,
                since: None,
            }))
        };
        bench.say(other, &summary(vec![(BlockService::from_cell(Service::Track, HERE), 1)]));
        let on = |old| {
            Message::Registration(RegistrationMessage::HomeChanged(HomeChanged {
                direction: RouteDirection::Down,
                hops_left: 2,
                ..word(old, 50)
            }))
        };
        assert_eq!(
            bench.say(child, &Message::Registration(RegistrationMessage::HomeChanged(word(77, 50)))),
            [(other, on(77))],
            "something is there"
        );
        assert_eq!(
            bench.say(other, &Message::Registration(RegistrationMessage::HomeChanged(word(100, 50)))),
            [(child, on(100))],
            "it is that one"
        );
        assert!(
            bench
                .say(
                    child,
                    &Message::Registration(RegistrationMessage::HomeChanged(HomeChanged {
                        hops_left: 0,
                        ..word(77, 50)
                    }))
                )
                .is_empty()
        );
        // A node tells of itself only, and of what is here.
        let connection = bench.up(1, Role::Node);
        assert!(
            bench.say(connection, &Message::Registration(RegistrationMessage::HomeChanged(word(77, 50)))).is_empty()
        );
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
                &Message::Registration(RegistrationMessage::HomeChanged(HomeChanged {
                    direction: RouteDirection::Up,
                    hops_left: 0,
                    ..word(old, 1)
                })),
            );
            usize::from(!sent.is_empty())
        });
        let said = said.sum::<usize>();
        assert!((1..=12).contains(&said), "{said} of 200");
    }
}
