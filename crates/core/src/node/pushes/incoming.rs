//! Objects that nodes offer here, until the owner has taken them or has not.
//!
//! An offer costs its sender nothing, so it gives no right to a place: one that is not sent gives
//! way to that of a node which has fewer under way. One of which something has come gives way to a
//! node that has fewer even then: a byte costs next to nothing, and what has come is kept.

use std::collections::BTreeMap;

use roost_policy::Action;
use roost_wire::messages::{Push, PushState, RequestMessage};
use roost_wire::{Cell, ConnectionId, DeliveryId, NodeId, RequestId, Role, SchemeSet, Time};

use crate::node::api::NodeEvent;
use crate::node::core::Core;

/// The most objects that are taken at once from all nodes.
pub const MAX_RECEPTIONS: usize = 16;

/// The most that are taken at once from one node.
pub const MAX_RECEPTIONS_FROM_ONE: usize = 4;

/// The most numbers that one object under way has.
const MAX_NUMBERS: usize = 8;

/// The most offers whose end is remembered, so that it can be said again.
const MAX_ENDED: usize = 256;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct IncomingPushes {
    offers: BTreeMap<(NodeId, RequestId), IncomingPush>,
}

#[derive(Debug)]
struct IncomingPush {
    /// The number under which the owner knows it. A sender that has started again offers the same
    /// object under another one, while what it has begun goes on.
    owned_as: RequestId,
    name: String,
    digest: [u8; 32],
    delivery: Option<DeliveryId>,
    state: PushState,
    /// Time of the last change of `reception`.
    at: Time,
    /// True once something of it has come.
    has_begun: bool,
}

impl IncomingPush {
    fn is_under_way(&self) -> bool {
        self.state == PushState::InProgress
    }

    /// True if it is the same object. Two deliveries of the same file are two.
    fn is_of(&self, push: &Push) -> bool {
        let delivery = push.delivery.map(|delivery| delivery.id);
        (&self.name, self.digest, self.delivery) == (&push.name, push.digest, delivery)
    }
}

impl IncomingPushes {
    /// A node offers an object.
    pub(crate) fn on_push(&mut self, core: &mut Core, here: Cell, connection: ConnectionId, mut push: Push) {
        let Some(entry) = core.connections.get(connection).filter(|connection| connection.role == Role::Node) else {
            core.counters.refused += 1;
            return;
        };
        let from = entry.node;
        // Another host than that where it is seen is of no use: the connection shows that this one is.
        push.addresses = entry.there(std::mem::take(&mut push.addresses));
        let (key, id) = ((from, push.id), push.id);
        if !core.permits(connection, Action::Send, None, Some(here)) {
            core.counters.forbidden += 1;
            core.tell_denial(connection, Action::Send, None, Some(here));
            return core.send(connection, RequestMessage::PushStatus { id, state: PushState::Forbidden });
        }
        // A sender that has started again may count as before.
        if let Some(offered) = self.offers.get(&key).filter(|offered| offered.is_of(&push)) {
            return core.send(connection, RequestMessage::PushStatus { id, state: offered.state });
        }
        let known = self.under_way(from, &push);
        let has_place = match &known {
            Some((_, numbers)) => *numbers < MAX_NUMBERS,
            None => self.make_room(core, from),
        };
        if !has_place {
            return core.send(connection, RequestMessage::PushStatus { id, state: PushState::Busy });
        }
        let offered = IncomingPush {
            owned_as: known.map_or(id, |(owned_as, _)| owned_as),
            name: push.name.clone(),
            digest: push.digest,
            delivery: push.delivery.map(|delivery| delivery.id),
            state: PushState::InProgress,
            at: core.now,
            has_begun: false,
        };
        self.offers.insert(key, offered);
        core.send(connection, RequestMessage::PushStatus { id, state: PushState::InProgress });
        if known.is_none() {
            core.emit(NodeEvent::PushOffered { from, push });
        }
    }

    /// There is another policy: what is under way ends if its sender may not send files here.
    pub(crate) fn on_policy(&mut self, core: &mut Core, here: Cell) {
        let receptions: Vec<(NodeId, RequestId)> = self.receptions().map(|(key, _)| *key).collect();
        for (from, id) in receptions {
            let way = way_to(core, from);
            if way.is_some_and(|way| !core.permits(way, Action::Send, None, Some(here))) {
                core.counters.forbidden += 1;
                self.received(core, from, id, PushState::Forbidden);
                core.emit(NodeEvent::PushRevoked { from, id });
            }
        }
    }

    /// The number under which the owner knows an object that is under way already, and how many numbers
    /// it has.
    fn under_way(&self, from: NodeId, push: &Push) -> Option<(RequestId, usize)> {
        let is_it = |offered: &&IncomingPush| offered.is_under_way() && offered.is_of(push);
        let owned_as = self.offers_from(from).map(|(_, offered)| offered).find(is_it)?.owned_as;
        Some((owned_as, self.offers_from(from).filter(|(_, offered)| offered.owned_as == owned_as).count()))
    }

    /// The offers of a node, by their numbers.
    fn offers_from(&self, from: NodeId) -> impl Iterator<Item = (RequestId, &IncomingPush)> {
        let all = (from, RequestId(0))..=(from, RequestId(u32::MAX));
        self.offers.range(all).map(|((_, id), offered)| (*id, offered))
    }

    /// All numbers of the object that the owner knows as `id`.
    fn numbers(&self, from: NodeId, id: RequestId) -> Vec<RequestId> {
        self.offers_from(from).filter(|(_, offered)| offered.owned_as == id).map(|(number, _)| number).collect()
    }

    /// True if one more of this node may be under way, for which another one may have to give way.
    fn make_room(&mut self, core: &mut Core, from: NodeId) -> bool {
        let held = self.held();
        let own = held.get(&from).copied().unwrap_or(0);
        if own >= MAX_RECEPTIONS_FROM_ONE {
            return false;
        }
        if held.values().sum::<usize>() < MAX_RECEPTIONS {
            return true;
        }
        let holds = |node| held.get(&node).copied().unwrap_or(0);
        let under_way = self.receptions();
        let greedy = under_way.filter(|((node, _), offered)| holds(*node) > own + usize::from(offered.has_begun));
        let loser =
            greedy.max_by_key(|((node, _), offered)| (!offered.has_begun, holds(*node), std::cmp::Reverse(offered.at)));
        let Some(key) = loser.map(|(key, _)| *key) else { return false };
        let (node, id) = key;
        for number in self.numbers(node, id) {
            self.offers.remove(&(node, number));
            send_push_status(core, node, number, PushState::Busy);
        }
        core.emit(NodeEvent::PushRevoked { from: node, id });
        true
    }

    /// The objects under way, each once.
    fn receptions(&self) -> impl Iterator<Item = (&(NodeId, RequestId), &IncomingPush)> {
        self.offers.iter().filter(|((_, id), offered)| offered.is_under_way() && offered.owned_as == *id)
    }

    /// Counts the objects that each node has under way.
    fn held(&self) -> BTreeMap<NodeId, usize> {
        let mut held = BTreeMap::new();
        for ((node, _), _) in self.receptions() {
            *held.entry(*node).or_default() += 1;
        }
        held
    }

    /// Something of an object has come.
    pub(crate) fn begun(&mut self, from: NodeId, id: RequestId) {
        if let Some(offered) = self.offers.get_mut(&(from, id)) {
            offered.has_begun = true;
        }
    }

    /// The owner has taken an object that was offered, or will not.
    pub(crate) fn received(&mut self, core: &mut Core, from: NodeId, id: RequestId, reception: PushState) {
        for number in self.numbers(from, id) {
            let Some(offered) = self.offers.get_mut(&(from, number)) else { continue };
            (offered.state, offered.at) = (reception, core.now);
            if reception == PushState::Busy {
                // The sender may offer it again under its number.
                self.offers.remove(&(from, number));
            }
            send_push_status(core, from, number, reception);
        }
        self.forget();
    }

    /// Forgets the oldest ends of the nodes that have most of them, if there are too many.
    fn forget(&mut self) {
        // An object may have ended under several numbers.
        loop {
            let ended = || self.offers.iter().filter(|(_, offered)| !offered.is_under_way());
            if ended().count() <= MAX_ENDED {
                return;
            }
            let mut counts = BTreeMap::<NodeId, usize>::new();
            ended().for_each(|((node, _), _)| *counts.entry(*node).or_default() += 1);
            let count = |node: &NodeId| counts.get(node).copied().unwrap_or(0);
            let loser = ended().max_by_key(|((node, _), offered)| (count(node), std::cmp::Reverse(offered.at)));
            let Some(key) = loser.map(|(key, _)| *key) else { return };
            self.offers.remove(&key);
        }
    }
}

fn way_to(core: &Core, node: NodeId) -> Option<ConnectionId> {
    core.connections.between(core.now, node, SchemeSet::ALL, &[]).or_else(|| core.connections.way_to(node))
}

/// Tells a node what has become of what it offered, if there is a way to it.
fn send_push_status(core: &mut Core, to: NodeId, id: RequestId, reception: PushState) {
    if let Some(connection) = way_to(core, to) {
        core.send(connection, RequestMessage::PushStatus { id, state: reception });
    }
}
