//! Who is in which room. Words of members go up and across to the owners of the
//! room; lists go back from neighbour to neighbour, as the words came.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::tree::Relation;
use super::{Hub, Sender, route};
use crate::ids::NodeId;
use crate::machine::{Channel, Traffic};
use crate::room::{MAX_MEMBERS, Member, Room};
use crate::service::Role;
use crate::time::Time;
use crate::wire::{Join, Message, Quit, Roster, Way};

/// How long a member counts as in without a word: three of its words.
const LEASE: Duration = Duration::from_secs(60);

/// The most rooms. Whoever wants into a further one hears nothing.
const MAX_ROOMS: usize = 1_024;

/// The rooms of which this hub has heard.
#[derive(Debug, Default)]
pub(super) struct Rooms {
    rooms: BTreeMap<Room, BTreeMap<NodeId, Entry>>,
    timers: BTreeSet<(Time, Room, NodeId)>,
}

/// One who is in.
#[derive(Debug)]
struct Entry {
    member: Member,
    /// The neighbour that said so: the node, or the hub on the way to it.
    via: NodeId,
    /// Whether this hub lists it: nobody nearer to the room's owners was there
    /// when it was heard last, or this is an owner.
    owned: bool,
    until: Time,
}

impl Rooms {
    pub(super) fn next_due(&self) -> Option<Time> {
        self.timers.first().map(|(at, ..)| *at)
    }

    /// Whether there is room for one more.
    fn takes(&self, room: Room, node: NodeId) -> bool {
        match self.rooms.get(&room) {
            Some(members) => members.len() < MAX_MEMBERS || members.contains_key(&node),
            None => self.rooms.len() < MAX_ROOMS,
        }
    }

    /// Notes a member; returns whether that is news.
    fn note(&mut self, room: Room, entry: Entry) -> bool {
        let (node, until) = (entry.member.node, entry.until);
        let (member, owned) = (entry.member, entry.owned);
        let before = self.rooms.entry(room).or_default().insert(node, entry);
        if let Some(before) = &before {
            self.timers.remove(&(before.until, room, node));
        }
        self.timers.insert((until, room, node));
        before.is_none_or(|before| (before.member, before.owned) != (member, owned))
    }

    fn remove(&mut self, room: Room, node: NodeId) -> Option<Entry> {
        let members = self.rooms.get_mut(&room)?;
        let entry = members.remove(&node)?;
        if members.is_empty() {
            self.rooms.remove(&room);
        }
        self.timers.remove(&(entry.until, room, node));
        Some(entry)
    }

    /// Who is in, as far as this hub is the one to say so.
    fn list(&self, room: Room) -> Vec<Member> {
        let members = self.rooms.get(&room).into_iter().flat_map(BTreeMap::values);
        members.filter(|entry| entry.owned).map(|entry| entry.member).collect()
    }

    /// The neighbours from whom members were heard.
    fn vias(&self, room: Room) -> BTreeSet<NodeId> {
        self.rooms.get(&room).into_iter().flat_map(BTreeMap::values).map(|entry| entry.via).collect()
    }
}

impl Hub {
    /// Somebody is in a room.
    pub(super) fn room_joined(&mut self, now: Time, from: Sender, join: Join) {
        let Join { room, member, way } = join;
        if from.role == Role::Node && member.node != from.node {
            return self.refused(from.node, "it speaks for another node");
        }
        if !self.rooms.takes(room, member.node) {
            self.counters.over_limit += 1;
            return;
        }
        let way = if from.role == Role::Node { Way::Up } else { way.unwrap_or(Way::Up) };
        let (ahead, owned) = self.ahead(room, way, from.node);
        for (hub, way) in ahead {
            self.tell_room(hub, Traffic::Join, &Message::Join(Join { way: Some(way), ..join }));
        }
        let entry = Entry { member, via: from.node, owned, until: now + LEASE };
        let is_news = self.rooms.note(room, entry);
        if owned {
            self.tell_roster(room, (!is_news).then_some(member.node));
        }
    }

    /// Somebody has left a room.
    pub(super) fn room_left(&mut self, from: Sender, quit: Quit) {
        let Quit { room, node, way } = quit;
        if from.role == Role::Node && node != from.node {
            return self.refused(from.node, "it speaks for another node");
        }
        let way = if from.role == Role::Node { Way::Up } else { way.unwrap_or(Way::Up) };
        let (ahead, _) = self.ahead(room, way, from.node);
        // It may have come back another way meanwhile.
        let is_held = |entry: &Entry| entry.via == from.node;
        if !self.rooms.rooms.get(&room).and_then(|members| members.get(&node)).is_some_and(is_held) {
            return;
        }
        for (hub, way) in ahead {
            self.tell_room(hub, Traffic::Join, &Message::Quit(Quit { way: Some(way), ..quit }));
        }
        if self.rooms.remove(room, node).is_some_and(|entry| entry.owned) {
            self.tell_roster(room, None);
        }
    }

    /// Another hub lists who is in: goes on to the nodes and hubs below that want to know.
    pub(super) fn hear_roster(&mut self, from: Sender, roster: Roster) {
        let Some(members) = self.rooms.rooms.get(&roster.room) else { return };
        let vias = match roster.to.map(|to| members.get(&to).map(|entry| entry.via)) {
            Some(via) => via.into_iter().collect(),
            None => self.rooms.vias(roster.room),
        };
        let below = |via: &NodeId| *via != from.node && self.relation(*via) != Some(Relation::Peer);
        let vias: Vec<NodeId> = vias.into_iter().filter(below).collect();
        let message = Message::Roster(roster);
        vias.into_iter().for_each(|via| self.tell_room(via, Traffic::Join, &message));
    }

    pub(super) fn expire_rooms(&mut self, now: Time) {
        let mut changed = BTreeSet::new();
        for _ in 0..super::MAX_PER_WAKE {
            let Some((_, room, node)) = self.rooms.timers.first().copied().filter(|(at, ..)| *at <= now) else { break };
            if self.rooms.remove(room, node).is_some_and(|entry| entry.owned) {
                changed.insert(room);
            }
        }
        changed.into_iter().for_each(|room| self.tell_roster(room, None));
    }

    /// The hubs that are nearer to a room's owners, and whether this one lists
    /// who is in: as an owner, or because there is nobody above.
    fn ahead(&self, room: Room, way: Way, from: NodeId) -> (Vec<(NodeId, Way)>, bool) {
        let beside = |hub: &NodeId| *hub != from && *hub != self.config.node && self.neighbours.is_up(*hub);
        match way {
            Way::Up if !self.is_top() => {
                let parent = self.parents().into_iter().find(beside).map(|parent| (parent, Way::Up));
                (parent.into_iter().collect(), parent.is_none())
            }
            Way::Up => {
                let owners = route::greatest(&self.tops(), room.0);
                let owned = owners.contains(&self.config.node);
                (owners.into_iter().filter(beside).map(|owner| (owner, Way::Across)).collect(), owned)
            }
            Way::Across | Way::Down | Way::Back => (Vec::new(), true),
        }
    }

    /// Lists who is in: to one member, or to all.
    fn tell_roster(&mut self, room: Room, to: Option<NodeId>) {
        let members = self.rooms.list(room);
        let vias = match to {
            Some(to) => {
                let entry = self.rooms.rooms.get(&room).and_then(|members| members.get(&to));
                entry.map(|entry| entry.via).into_iter().collect()
            }
            None => self.rooms.vias(room),
        };
        let message = Message::Roster(Roster { room, owner: self.config.node, members, to });
        vias.into_iter().for_each(|via| self.tell_room(via, Traffic::Join, &message));
    }

    fn tell_room(&mut self, neighbour: NodeId, traffic: Traffic, message: &Message) {
        if let Some(link) = self.link_to(neighbour) {
            self.send(link, Channel::Datagram, traffic, message);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Bench, HERE, node};
    use super::*;
    use crate::ids::LinkId;
    use crate::service::ServiceSet;

    const ROOM: Room = Room(7);

    fn member(number: u8) -> Member {
        Member { node: node(number), cell: HERE, services: ServiceSet::ALL }
    }

    fn join(number: u8, way: Option<Way>) -> Message {
        Message::Join(Join { room: ROOM, member: member(number), way })
    }

    fn rosters(sent: &[(LinkId, Message)]) -> Vec<(LinkId, Vec<NodeId>)> {
        let roster = |(link, message): &(LinkId, Message)| match message {
            Message::Roster(roster) => Some((*link, roster.members.iter().map(|member| member.node).collect())),
            _ => None,
        };
        sent.iter().filter_map(roster).collect()
    }

    #[test]
    fn a_single_hub_lists_who_is_in_to_all_when_that_changes_and_to_one_otherwise() {
        let mut bench = Bench::new();
        let (a, b) = (bench.up(1, Role::Node), bench.up(2, Role::Node));
        assert_eq!(rosters(&bench.say(a, &join(1, None))), [(a, vec![node(1)])]);
        let both = vec![node(1), node(2)];
        assert_eq!(rosters(&bench.say(b, &join(2, None))), [(a, both.clone()), (b, both.clone())]);
        assert_eq!(rosters(&bench.say(a, &join(1, None))), [(a, both)]);
        let quit = Message::Quit(Quit { room: ROOM, node: node(2), way: None });
        assert_eq!(rosters(&bench.say(b, &quit)), [(a, vec![node(1)])]);
        assert!(bench.say(a, &join(2, None)).is_empty(), "a node speaks for itself");
    }

    #[test]
    fn who_is_not_heard_is_out() {
        let mut bench = Bench::new();
        let (a, b) = (bench.up(1, Role::Node), bench.up(2, Role::Node));
        bench.say(a, &join(1, None));
        bench.say(a, &join(1, None));
        bench.wait(LEASE / 2);
        bench.say(b, &join(2, None));
        assert_eq!(rosters(&bench.wait(LEASE / 2)), [(b, vec![node(2)])]);
        bench.wait(LEASE);
        assert!(bench.hub.rooms.rooms.is_empty() && bench.hub.rooms.timers.is_empty());
    }

    #[test]
    fn below_the_top_a_word_goes_up_and_the_list_comes_down() {
        let mut bench = Bench::new();
        let (peer, a, b) = (bench.up(100, Role::SuperNode), bench.up(1, Role::Node), bench.up(2, Role::Node));
        // Both tops own every room: each lists, and tells the other.
        let sent = bench.say(a, &join(1, None));
        assert!(sent.contains(&(peer, join(1, Some(Way::Across)))), "{sent:?}");
        assert_eq!(rosters(&sent), [(a, vec![node(1)])]);
        let sent = bench.say(peer, &join(50, Some(Way::Across)));
        assert_eq!(rosters(&sent), [(a, vec![node(1), node(50)]), (peer, vec![node(1), node(50)])]);
        bench.say(b, &join(2, None));
        let list = |to| Message::Roster(Roster { room: ROOM, owner: node(100), members: vec![member(50)], to });
        assert_eq!(rosters(&bench.say(peer, &list(None))), [(a, vec![node(50)]), (b, vec![node(50)])]);
        assert_eq!(rosters(&bench.say(peer, &list(Some(node(2))))), [(b, vec![node(50)])]);
    }

    #[test]
    fn rooms_and_members_are_bounded() {
        let mut bench = Bench::new();
        let peer = bench.up(100, Role::SuperNode);
        for number in 0..=u8::MAX {
            bench.say(peer, &join(number, Some(Way::Across)));
        }
        assert_eq!(bench.hub.rooms.rooms[&ROOM].len(), MAX_MEMBERS);
        for room in 0..2 * MAX_ROOMS as u64 {
            bench.say(peer, &Message::Join(Join { room: Room(room), member: member(1), way: Some(Way::Across) }));
        }
        assert_eq!(bench.hub.rooms.rooms.len(), MAX_ROOMS);
    }
}
