//! Memory of rooms: who is in, from whom it heard that, and until when.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use roost_wire::room::{MAX_MEMBERS, RoomMember};
use roost_wire::{NodeId, RoomId, Time};

/// Time for which a member counts as in without a word: three of its words.
pub(super) const LEASE: Duration = Duration::from_secs(60);

/// Time for which a node whose connection has gone counts as in: by then one that
/// lives has come back, here or elsewhere.
pub(super) const GRACE: Duration = Duration::from_secs(5);

/// Time for which one that has left is remembered, so that a word of it that was
/// overtaken does not bring it back.
pub(super) const SETTLE: Duration = Duration::from_secs(1);

/// The least time between two lists to everybody in a room.
pub(super) const PACE: Duration = Duration::from_millis(100);

/// And for each who is listed, which is some 40 bytes: whoever changes without end has each member sent
/// 20 kbit/s by each owner at most.
pub(super) const PACE_EACH: Duration = Duration::from_millis(15);

pub(super) const MAX_ROOMS: usize = 1_024;

/// The most rooms of one node, those included that it has just left: twice as many as
/// it is in itself.
pub(super) const MAX_ROOMS_EACH: usize = 2 * crate::node::MAX_ROOMS;

/// The rooms of which this hub has heard.
#[derive(Debug, Default)]
pub(crate) struct RoomDirectory {
    pub(super) rooms: BTreeMap<RoomId, RoomState>,
    pub(super) of: BTreeMap<NodeId, BTreeSet<RoomId>>,
    pub(super) ends: BTreeSet<(Time, RoomId, NodeId)>,
    /// Time at which everybody in a room is to be told who is in.
    pub(super) lists: BTreeSet<(Time, RoomId)>,
}

#[derive(Debug, Default)]
pub(super) struct RoomState {
    /// Twice as many as may be in at most: some have just left.
    pub(super) members: BTreeMap<NodeId, RoomEntry>,
    /// Time at which everybody may be told next who is in.
    next_list: Time,
}

/// A member that is in, or has just left.
#[derive(Clone, Debug)]
pub(super) struct RoomEntry {
    pub(super) member: RoomMember,
    /// The remote that said so: the node, or the hub on the way to it.
    pub(super) via: NodeId,
    /// True if this hub lists it: nobody nearer to the room's owners was there
    /// when it was heard last, or this is an owner.
    pub(super) owned: bool,
    pub(super) told: NotifiedHubs,
    pub(super) state: MembershipState,
    pub(super) until: Time,
}

/// The hubs nearer to the owners that were told of a member, the latest first. Those that are asked no
/// more, as there is another parent or owner, are to hear when it leaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct NotifiedHubs([Option<NodeId>; 4]);

impl NotifiedHubs {
    pub(super) fn record_hub(&mut self, hub: NodeId) {
        let mut next = Some(hub);
        for held in &mut self.0 {
            next = std::mem::replace(held, next).filter(|before| *before != hub);
            if next.is_none() {
                break;
            }
        }
    }

    pub(super) fn has(&self, hub: NodeId) -> bool {
        self.0.contains(&Some(hub))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = NodeId> {
        self.0.into_iter().flatten()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MembershipState {
    In,
    /// The member's connection with this hub, its home, has gone.
    Lost,
    Left,
}

impl RoomEntry {
    pub(super) fn is_in(&self) -> bool {
        self.state != MembershipState::Left
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JoinRefusal {
    /// As many as may be are in the room.
    Room,
    /// There are as many rooms as may be.
    Rooms,
    /// The node is in as many rooms as it may be, or has left some of them just now.
    Node,
}

impl RoomDirectory {
    pub(crate) fn next_due(&self) -> Option<Time> {
        let (end, list) = (self.ends.first().map(|(at, ..)| *at), self.lists.first().map(|(at, _)| *at));
        [end, list].into_iter().flatten().min()
    }

    /// The rooms with somebody in them, in the order of their ids.
    pub(crate) fn listed(&self) -> impl Iterator<Item = (RoomId, Vec<RoomMember>)> {
        let inside = |room: RoomId| self.inside(room).map(|entry| entry.member.clone()).collect::<Vec<_>>();
        self.rooms.keys().map(move |room| (*room, inside(*room))).filter(|(_, members)| !members.is_empty())
    }

    pub(crate) fn rooms(&self) -> usize {
        self.rooms.len()
    }

    pub(crate) fn members(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn get(&self, room: RoomId, node: NodeId) -> Option<&RoomEntry> {
        self.rooms.get(&room)?.members.get(&node)
    }

    /// True if there is room for one more.
    pub(super) fn takes(&self, room: RoomId, node: NodeId) -> Result<(), JoinRefusal> {
        let entry = self.get(room, node);
        if entry.is_some_and(RoomEntry::is_in) {
            return Ok(());
        }
        match self.rooms.get(&room) {
            _ if self.of.get(&node).map_or(0, BTreeSet::len) >= MAX_ROOMS_EACH && entry.is_none() => {
                Err(JoinRefusal::Node)
            }
            Some(_) if self.inside(room).count() >= MAX_MEMBERS => Err(JoinRefusal::Room),
            Some(known) if known.members.len() >= 2 * MAX_MEMBERS && entry.is_none() => Err(JoinRefusal::Room),
            None if self.rooms.len() >= MAX_ROOMS => Err(JoinRefusal::Rooms),
            Some(_) | None => Ok(()),
        }
    }

    /// Notes a member; returns whether that is news.
    pub(super) fn record_member(&mut self, room: RoomId, entry: RoomEntry) -> bool {
        let node = entry.member.node;
        let (until, now) = (entry.until, (entry.member.clone(), entry.owned));
        let before = self.rooms.entry(room).or_default().members.insert(node, entry);
        if let Some(before) = &before {
            self.ends.remove(&(before.until, room, node));
        }
        self.of.entry(node).or_default().insert(room);
        self.ends.insert((until, room, node));
        let before = before.filter(RoomEntry::is_in);
        before.is_none_or(|before| (before.member, before.owned) != now)
    }

    pub(super) fn remove(&mut self, room: RoomId, node: NodeId) -> Option<RoomEntry> {
        let known = self.rooms.get_mut(&room)?;
        let entry = known.members.remove(&node)?;
        if known.members.is_empty() {
            self.rooms.remove(&room);
        }
        if let Some(of) = self.of.get_mut(&node) {
            of.remove(&room);
            if of.is_empty() {
                self.of.remove(&node);
            }
        }
        self.ends.remove(&(entry.until, room, node));
        Some(entry)
    }

    /// The next entry whose time is over, taken out.
    pub(super) fn expired(&mut self, now: Time) -> Option<(RoomId, RoomEntry)> {
        let (_, room, node) = self.ends.first().copied().filter(|(at, ..)| *at <= now)?;
        Some((room, self.remove(room, node)?))
    }

    /// True if everybody in a room may be told now who is in. If not, or not
    /// yet, it is put down for later.
    pub(super) fn may_tell(&mut self, now: Time, room: RoomId) -> bool {
        let inside = self.inside(room).count().min(MAX_MEMBERS) as u32;
        let Some(known) = self.rooms.get_mut(&room) else { return false };
        if known.next_list > now {
            self.lists.insert((known.next_list, room));
            return false;
        }
        known.next_list = now + PACE.max(PACE_EACH * inside);
        true
    }

    /// A room whose list is due, taken out.
    pub(super) fn due(&mut self, now: Time) -> Option<RoomId> {
        let next = self.lists.first().copied().filter(|(at, _)| *at <= now)?;
        self.lists.remove(&next);
        Some(next.1)
    }

    /// Members that this hub is to list.
    pub(super) fn list(&self, room: RoomId) -> Vec<RoomMember> {
        self.inside(room).filter(|entry| entry.owned).map(|entry| entry.member.clone()).collect()
    }

    /// The remotes from whom members were heard.
    pub(super) fn member_remotes(&self, room: RoomId) -> BTreeSet<NodeId> {
        self.inside(room).map(|entry| entry.via).collect()
    }

    fn inside(&self, room: RoomId) -> impl Iterator<Item = &RoomEntry> {
        let entries = self.rooms.get(&room).into_iter().flat_map(|known| known.members.values());
        entries.filter(|entry| entry.is_in())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notified_hubs_keep_the_latest() {
        let hub = |number: u8| NodeId::from_bytes([number; 16]);
        let mut told = NotifiedHubs::default();
        for number in [1, 2, 1, 2, 2] {
            told.record_hub(hub(number));
        }
        assert_eq!(told.iter().collect::<Vec<_>>(), [2, 1].map(hub));
        (3..9).for_each(|number| told.record_hub(hub(number)));
        assert_eq!(told.iter().collect::<Vec<_>>(), [8, 7, 6, 5].map(hub));
        assert!(told.has(hub(5)) && !told.has(hub(4)));
    }
}
