//! Who is in which room. Words of members go up and across to the owners of the
//! room; lists go back from remote to remote, as the words came.

mod table;
#[cfg(test)]
mod tests;

use super::remotes::ROOM_UPDATE_COST;
use super::tree::Relation;
use super::{Hub, HubLimit, Sender, route};
use crate::ids::NodeId;
use crate::machine::{Channel, Traffic};
use crate::room::RoomId;
use crate::service::Role;
use crate::time::Time;
use crate::wire::{JoinRoom, LeaveRoom, Message, Reason, RoomMessage, Roster, RouteDirection};
pub(super) use table::RoomDirectory;
use table::{GRACE, JoinRefusal, LEASE, MembershipState, RoomEntry, SETTLE};

impl Hub {
    /// Somebody is in a room.
    pub(super) fn room_joined(&mut self, now: Time, from: Sender, join: JoinRoom) {
        let JoinRoom { room, member, direction: way } = join;
        let Some(way) = self.member_message_route(from, member.node, way) else { return };
        let remote = self.remotes.get_mut(from.node);
        if !remote.is_some_and(|remote| remote.try_charge(now, ROOM_UPDATE_COST)) {
            self.over_limit(from.node, HubLimit::WorkRate);
            return;
        }
        let has_left = |entry: &RoomEntry| !entry.is_in() && entry.via == from.node;
        if self.rooms.get(room, member.node).is_some_and(has_left) {
            return;
        }
        if let Err(full) = self.rooms.takes(room, member.node) {
            return self.refuse_member(from, room, member.node, full);
        }
        let mut told = self.rooms.get(room, member.node).map(|entry| entry.told).unwrap_or_default();
        let (ahead, owned) = self.ahead(room, way, from.node);
        for (hub, way) in ahead {
            self.forward_to_hub(hub, &Message::Room(RoomMessage::JoinRoom(JoinRoom { direction: Some(way), ..join })));
            told.record_hub(hub);
        }
        let entry = RoomEntry { member, via: from.node, owned, told, state: MembershipState::In, until: now + LEASE };
        let is_news = self.rooms.record_member(room, entry);
        let all_told = owned && is_news && self.tell_everybody(now, room);
        if owned && !all_told {
            self.tell_member(room, member.node);
        }
    }

    /// Somebody has left a room.
    pub(super) fn room_left(&mut self, now: Time, from: Sender, quit: LeaveRoom) {
        let LeaveRoom { room, node, direction: way } = quit;
        let Some(way) = self.member_message_route(from, node, way) else { return };
        // It may have come back another way meanwhile.
        let is_held = |entry: &&RoomEntry| entry.is_in() && entry.via == from.node;
        let Some(entry) = self.rooms.get(room, node).filter(is_held).copied() else { return };
        self.pass_quit(room, &entry, way);
        self.rooms.record_member(room, RoomEntry { state: MembershipState::Left, until: now + SETTLE, ..entry });
        if entry.owned {
            self.tell_everybody(now, room);
        }
    }

    /// The connection with a node of this hub has gone. Its rooms need not wait until
    /// it has been silent for long.
    pub(super) fn room_member_lost(&mut self, now: Time, node: NodeId) {
        let rooms: Vec<RoomId> = self.rooms.of.get(&node).into_iter().flatten().copied().collect();
        for room in rooms {
            let is_here = |entry: &&RoomEntry| entry.state == MembershipState::In && entry.via == node;
            if let Some(entry) = self.rooms.get(room, node).filter(is_here).copied() {
                let until = entry.until.min(now + GRACE);
                self.rooms.record_member(room, RoomEntry { state: MembershipState::Lost, until, ..entry });
            }
        }
    }

    /// Another hub lists who is in, or refuses somebody: goes on to the nodes and hubs below
    /// that want to know.
    pub(super) fn handle_roster(&mut self, from: Sender, roster: Roster) {
        if !matches!(self.relation(from.node), Some(Relation::Parent | Relation::Sibling)) {
            return self.refused(from.node, "lists of rooms come from above and beside only");
        }
        let Roster { room, to, refused, .. } = roster;
        // Who refuses somebody was told that it is in.
        let may_say = |entry: &&RoomEntry| refused.is_none() || entry.told.has(from.node);
        let vias = match to {
            Some(to) => self.rooms.get(room, to).filter(may_say).map(|entry| entry.via).into_iter().collect(),
            None if refused.is_some() => return,
            None => self.rooms.member_remotes(room),
        };
        let below = |via: &NodeId| *via != from.node && self.relation(*via) != Some(Relation::Sibling);
        let vias: Vec<NodeId> = vias.into_iter().filter(below).collect();
        let message = Message::Room(RoomMessage::Roster(roster));
        vias.into_iter().for_each(|via| self.tell_room(via, &message));
    }

    /// Forgets who is silent, and sends the lists that had to wait.
    pub(super) fn poll_rooms(&mut self, now: Time) {
        for _ in 0..super::MAX_PER_WAKE {
            let Some((room, entry)) = self.rooms.expired(now) else { break };
            if entry.state == MembershipState::Lost {
                self.pass_quit(room, &entry, RouteDirection::Up);
            }
            if entry.owned && entry.is_in() {
                self.tell_everybody(now, room);
            }
        }
        for _ in 0..super::MAX_PER_WAKE {
            let Some(room) = self.rooms.due(now) else { break };
            self.tell_everybody(now, room);
        }
    }

    /// The way that a word of a member takes, if its sender may say it: a node
    /// for itself, a hub below this one, or, to an owner, another top.
    fn member_message_route(
        &mut self,
        from: Sender,
        member: NodeId,
        way: Option<RouteDirection>,
    ) -> Option<RouteDirection> {
        let objection = match (way.unwrap_or(RouteDirection::Up), self.relation(from.node)) {
            _ if from.role == Role::Node && member == from.node => return Some(RouteDirection::Up),
            _ if from.role == Role::Node => "it speaks for another node",
            (RouteDirection::Up, Some(Relation::Child(_))) => return Some(RouteDirection::Up),
            (RouteDirection::Across, Some(Relation::Sibling | Relation::StandbyOnly)) if self.is_root() => {
                return Some(RouteDirection::Across);
            }
            // It has not enrolled, or that has not arrived yet.
            _ => "it speaks of a room's member and is neither below nor beside this hub",
        };
        self.refused(from.node, objection);
        None
    }

    /// The hubs that are nearer to a room's owners, and whether this one lists
    /// who is in: as an owner, or because there is nobody above.
    fn ahead(&self, room: RoomId, way: RouteDirection, from: NodeId) -> (Vec<(NodeId, RouteDirection)>, bool) {
        let beside = |hub: &NodeId| *hub != from && *hub != self.config.node && self.remotes.is_up(*hub);
        match way {
            RouteDirection::Up if !self.is_root() => {
                let parent = self.parents().into_iter().find(beside).map(|parent| (parent, RouteDirection::Up));
                (parent.into_iter().collect(), parent.is_none())
            }
            RouteDirection::Up => {
                let owners = route::greatest(&self.roots(), room.0);
                let owned = owners.contains(&self.config.node);
                (owners.into_iter().filter(beside).map(|owner| (owner, RouteDirection::Across)).collect(), owned)
            }
            RouteDirection::Across | RouteDirection::Down | RouteDirection::Overflow => (Vec::new(), true),
        }
    }

    /// Passes on that somebody has left, to whoever was told that it is in. Where it was not told, the hubs
    /// beyond may know from another one that is gone: there it comes and leaves at once.
    fn pass_quit(&mut self, room: RoomId, entry: &RoomEntry, way: RouteDirection) {
        let RoomEntry { member, via, told, .. } = *entry;
        let onward = Some(if self.is_root() { RouteDirection::Across } else { RouteDirection::Up });
        let ahead = self.ahead(room, way, via).0.into_iter().map(|(hub, _)| hub);
        let untold: Vec<NodeId> = ahead.filter(|hub| !told.has(*hub)).collect();
        let join = Message::Room(RoomMessage::JoinRoom(JoinRoom { room, member, direction: onward }));
        untold.iter().for_each(|hub| self.forward_to_hub(*hub, &join));
        let quit = Message::Room(RoomMessage::LeaveRoom(LeaveRoom { room, node: member.node, direction: onward }));
        told.iter().chain(untold).for_each(|hub| self.forward_to_hub(hub, &quit));
    }

    /// Says why somebody is not let in, to whoever said that it is. It then leaves everywhere.
    fn refuse_member(&mut self, from: Sender, room: RoomId, node: NodeId, full: JoinRefusal) {
        let (limit, reason) = match full {
            JoinRefusal::Room => (HubLimit::RoomMembers, Some(Reason::TooMany)),
            JoinRefusal::Rooms => (HubLimit::Rooms, Some(Reason::Saturated)),
            // Those that keep to the limit are below it in a moment, and say it again.
            JoinRefusal::Node => (HubLimit::RoomsPerNode, None),
        };
        self.over_limit(from.node, limit);
        let Some(reason) = reason else { return };
        let (owner, members) = (self.config.node, Vec::new());
        let roster = Roster { room, owner, members, to: Some(node), refused: Some(reason) };
        self.tell_room(from.node, &Message::Room(RoomMessage::Roster(roster)));
    }

    /// Lists who is in to one member.
    fn tell_member(&mut self, room: RoomId, node: NodeId) {
        let Some(via) = self.rooms.get(room, node).map(|entry| entry.via) else { return };
        let (owner, members) = (self.config.node, self.rooms.list(room));
        self.tell_room(
            via,
            &Message::Room(RoomMessage::Roster(Roster { room, owner, members, to: Some(node), refused: None })),
        );
    }

    /// Lists who is in to all; soon, if they were told just now. Returns whether it did.
    fn tell_everybody(&mut self, now: Time, room: RoomId) -> bool {
        if !self.rooms.may_tell(now, room) {
            return false;
        }
        let (owner, members) = (self.config.node, self.rooms.list(room));
        let message = Message::Room(RoomMessage::Roster(Roster { room, owner, members, to: None, refused: None }));
        self.rooms.member_remotes(room).into_iter().for_each(|via| self.tell_room(via, &message));
        true
    }

    /// Says something of a member to a hub nearer to the owners. Nobody may say it again, and who has come
    /// and left must not seem to have left and come: so all of it is reliable, and in order.
    fn forward_to_hub(&mut self, hub: NodeId, message: &Message) {
        if let Some(connection) = self.connection_to(hub) {
            self.send(connection, Channel::Reliable { flow: 0 }, Traffic::Join, message);
        }
    }

    fn tell_room(&mut self, remote: NodeId, message: &Message) {
        if let Some(connection) = self.connection_to(remote) {
            self.send(connection, Channel::Datagram, Traffic::Join, message);
        }
    }
}
