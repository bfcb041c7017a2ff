//! Members of rooms. Words of members go up and across to the owners of the room; lists go back from remote to
//! remote, as the words came.

mod table;
#[cfg(test)]
mod tests;

use roost_policy::Action;
use roost_wire::messages::{JoinRoom, LeaveRoom, Message, Reason, RoomMessage, Roster, RouteDirection};
use roost_wire::{Channel, NodeId, Role, RoomId};

use super::core::HubCore;
use super::relation::Relation;
use super::remotes::ROOM_UPDATE_COST;
use super::sender::Sender;
use super::timers::MAX_PER_WAKE;
use super::{HubLimit, route};
use crate::directory::Judged;
use crate::machine::Traffic;
pub(super) use table::RoomDirectory;
use table::{GRACE, JoinRefusal, LEASE, MembershipState, RoomEntry, SETTLE};

impl RoomDirectory {
    pub(super) fn room_joined(&mut self, core: &mut HubCore, from: Sender, join: JoinRoom) {
        let now = core.now;
        let JoinRoom { room, member, direction: way } = join;
        let node = member.node;
        let Some(way) = self.member_message_route(core, from, member.node, way) else { return };
        let remote = core.remotes.get_mut(from.node);
        if !remote.is_some_and(|remote| remote.try_charge(now, ROOM_UPDATE_COST)) {
            core.over_limit(from.node, HubLimit::WorkRate);
            return;
        }
        let has_left = |entry: &RoomEntry| !entry.is_in() && entry.via == from.node;
        if self.get(room, member.node).is_some_and(has_left) {
            return;
        }
        if from.role == Role::Node && !core.permits(from.node, Action::Room, None, None) {
            core.tell_denial(Judged { node: from.node, action: Action::Room }, None, None);
            return core.refuse_room(from.node, room);
        }
        if let Err(full) = self.takes(room, member.node) {
            return self.refuse_member(core, from, room, member.node, full);
        }
        let mut told = self.get(room, member.node).map(|entry| entry.told).unwrap_or_default();
        let (ahead, owned) = self.ahead(core, room, way, from.node);
        for (hub, way) in ahead {
            core.forward_to_hub(
                hub,
                &Message::Room(RoomMessage::JoinRoom(JoinRoom { room, member: member.clone(), direction: Some(way) })),
            );
            told.record_hub(hub);
        }
        let entry = RoomEntry { member, via: from.node, owned, told, state: MembershipState::In, until: now + LEASE };
        let is_news = self.record_member(room, entry);
        let all_told = owned && is_news && self.tell_everybody(core, room);
        if owned && !all_told {
            self.tell_member(core, room, node);
        }
    }

    pub(super) fn room_left(&mut self, core: &mut HubCore, from: Sender, quit: LeaveRoom) {
        let LeaveRoom { room, node, direction: way } = quit;
        let Some(way) = self.member_message_route(core, from, node, way) else { return };
        // The member may have come back another way meanwhile.
        let is_held = |entry: &&RoomEntry| entry.is_in() && entry.via == from.node;
        let Some(entry) = self.get(room, node).filter(is_held).cloned() else { return };
        self.remove_member(core, room, entry, way);
    }

    fn remove_member(&mut self, core: &mut HubCore, room: RoomId, entry: RoomEntry, way: RouteDirection) {
        self.pass_quit(core, room, &entry, way);
        self.record_member(room, RoomEntry { state: MembershipState::Left, until: core.now + SETTLE, ..entry });
        if entry.owned {
            self.tell_everybody(core, room);
        }
    }

    /// There is another policy: nodes of this hub leave that it lets into no room.
    pub(super) fn on_policy(&mut self, core: &mut HubCore) {
        let is_node = |node: &NodeId| core.remotes.get(*node).is_some_and(|remote| remote.role == Role::Node);
        let is_out = |node: &NodeId| is_node(node) && !core.permits(*node, Action::Room, None, None);
        let out = self.of.iter().filter(|(node, _)| is_out(node));
        let out: Vec<_> = out.flat_map(|(node, rooms)| rooms.iter().map(|room| (*room, *node))).collect();
        for (room, node) in out {
            let is_here = |entry: &&RoomEntry| entry.is_in() && entry.via == node;
            if let Some(entry) = self.get(room, node).filter(is_here).cloned() {
                core.refuse_room(node, room);
                self.remove_member(core, room, entry, RouteDirection::Up);
            }
        }
    }

    /// The connection with a node of this hub has gone. Its rooms need not wait until
    /// it has been silent for long.
    pub(super) fn room_member_lost(&mut self, core: &mut HubCore, node: NodeId) {
        let now = core.now;
        let rooms: Vec<RoomId> = self.of.get(&node).into_iter().flatten().copied().collect();
        for room in rooms {
            let is_here = |entry: &&RoomEntry| entry.state == MembershipState::In && entry.via == node;
            if let Some(entry) = self.get(room, node).filter(is_here).cloned() {
                let until = entry.until.min(now + GRACE);
                self.record_member(room, RoomEntry { state: MembershipState::Lost, until, ..entry });
            }
        }
    }

    /// Another hub lists who is in, or refuses somebody: goes on to the nodes and hubs below
    /// that want to know.
    pub(super) fn handle_roster(&mut self, core: &mut HubCore, from: Sender, roster: Roster) {
        if !matches!(core.relation(from.node), Some(Relation::Parent | Relation::Sibling)) {
            return core.refused(from.node, "lists of rooms come from above and beside only");
        }
        let Roster { room, to, refused, .. } = roster;
        // A hub that refuses somebody was told that it is in.
        let may_say = |entry: &&RoomEntry| refused.is_none() || entry.told.has(from.node);
        let vias = match to {
            Some(to) => self.get(room, to).filter(may_say).map(|entry| entry.via).into_iter().collect(),
            None if refused.is_some() => return,
            None => self.member_remotes(room),
        };
        let below = |via: &NodeId| *via != from.node && core.relation(*via) != Some(Relation::Sibling);
        let vias: Vec<NodeId> = vias.into_iter().filter(below).collect();
        let message = Message::Room(RoomMessage::Roster(roster));
        vias.into_iter().for_each(|via| core.tell_room(via, &message));
    }

    /// Forgets who is silent, and sends the lists that had to wait.
    pub(super) fn poll_rooms(&mut self, core: &mut HubCore) {
        let now = core.now;
        for _ in 0..MAX_PER_WAKE {
            let Some((room, entry)) = self.expired(now) else { break };
            if entry.state == MembershipState::Lost {
                self.pass_quit(core, room, &entry, RouteDirection::Up);
            }
            if entry.owned && entry.is_in() {
                self.tell_everybody(core, room);
            }
        }
        for _ in 0..MAX_PER_WAKE {
            let Some(room) = self.due(now) else { break };
            self.tell_everybody(core, room);
        }
    }

    /// The way that a word of a member takes, if its sender may say it: a node
    /// for itself, a hub below this one, or, to an owner, another root.
    fn member_message_route(
        &mut self,
        core: &mut HubCore,
        from: Sender,
        member: NodeId,
        way: Option<RouteDirection>,
    ) -> Option<RouteDirection> {
        let objection = match (way.unwrap_or(RouteDirection::Up), core.relation(from.node)) {
            _ if from.role == Role::Node && member == from.node => return Some(RouteDirection::Up),
            _ if from.role == Role::Node => "it speaks for another node",
            (RouteDirection::Up, Some(Relation::Child(_))) => return Some(RouteDirection::Up),
            (RouteDirection::Across, Some(Relation::Sibling | Relation::StandbyOnly)) if core.is_root() => {
                return Some(RouteDirection::Across);
            }
            // The hub has not enrolled, or its message has not arrived yet.
            _ => "it speaks of a room's member and is neither below nor beside this hub",
        };
        core.refused(from.node, objection);
        None
    }

    /// The hubs that are nearer to a room's owners, and whether this one lists
    /// who is in: as an owner, or because there is nobody above.
    fn ahead(
        &self,
        core: &HubCore,
        room: RoomId,
        way: RouteDirection,
        from: NodeId,
    ) -> (Vec<(NodeId, RouteDirection)>, bool) {
        let beside = |hub: &NodeId| *hub != from && *hub != core.config.node && core.remotes.is_up(*hub);
        match way {
            RouteDirection::Up if !core.is_root() => {
                let parent = core.parents().into_iter().find(beside).map(|parent| (parent, RouteDirection::Up));
                (parent.into_iter().collect(), parent.is_none())
            }
            RouteDirection::Up => {
                let owners = route::greatest(&core.roots(), room.0);
                let owned = owners.contains(&core.config.node);
                (owners.into_iter().filter(beside).map(|owner| (owner, RouteDirection::Across)).collect(), owned)
            }
            RouteDirection::Across | RouteDirection::Down | RouteDirection::Overflow => (Vec::new(), true),
        }
    }

    /// Passes on that somebody has left, to whoever was told that it is in. Where it was not told, the hubs
    /// beyond may know from another one that is gone: there it comes and leaves at once.
    fn pass_quit(&mut self, core: &mut HubCore, room: RoomId, entry: &RoomEntry, way: RouteDirection) {
        let RoomEntry { ref member, via, told, .. } = *entry;
        let onward = Some(if core.is_root() { RouteDirection::Across } else { RouteDirection::Up });
        let ahead = self.ahead(core, room, way, via).0.into_iter().map(|(hub, _)| hub);
        let untold: Vec<NodeId> = ahead.filter(|hub| !told.has(*hub)).collect();
        let join = Message::Room(RoomMessage::JoinRoom(JoinRoom { room, member: member.clone(), direction: onward }));
        untold.iter().for_each(|hub| core.forward_to_hub(*hub, &join));
        let quit = Message::Room(RoomMessage::LeaveRoom(LeaveRoom { room, node: member.node, direction: onward }));
        told.iter().chain(untold).for_each(|hub| core.forward_to_hub(hub, &quit));
    }

    /// Says why somebody is not let in, to whoever said that it is. It then leaves everywhere.
    fn refuse_member(&mut self, core: &mut HubCore, from: Sender, room: RoomId, node: NodeId, full: JoinRefusal) {
        let (limit, reason) = match full {
            JoinRefusal::Room => (HubLimit::RoomMembers, Some(Reason::TooMany)),
            JoinRefusal::Rooms => (HubLimit::Rooms, Some(Reason::Saturated)),
            // Nodes that keep to the limit are below it in a moment, and say it again.
            JoinRefusal::Node => (HubLimit::RoomsPerNode, None),
        };
        core.over_limit(from.node, limit);
        let Some(reason) = reason else { return };
        let (owner, members) = (core.config.node, Vec::new());
        let roster = Roster { room, owner, members, to: Some(node), refused: Some(reason) };
        core.tell_room(from.node, &Message::Room(RoomMessage::Roster(roster)));
    }

    /// Lists who is in to one member.
    fn tell_member(&mut self, core: &mut HubCore, room: RoomId, node: NodeId) {
        let Some(via) = self.get(room, node).map(|entry| entry.via) else { return };
        let (owner, members) = (core.config.node, self.list(room));
        core.tell_room(
            via,
            &Message::Room(RoomMessage::Roster(Roster { room, owner, members, to: Some(node), refused: None })),
        );
    }

    /// Lists who is in to all; soon, if they were told just now. Returns whether it did.
    fn tell_everybody(&mut self, core: &mut HubCore, room: RoomId) -> bool {
        let now = core.now;
        if !self.may_tell(now, room) {
            return false;
        }
        let (owner, members) = (core.config.node, self.list(room));
        let message = Message::Room(RoomMessage::Roster(Roster { room, owner, members, to: None, refused: None }));
        self.member_remotes(room).into_iter().for_each(|via| core.tell_room(via, &message));
        true
    }
}

impl HubCore {
    /// Tells a node that the group's policy does not let it into a room.
    fn refuse_room(&mut self, node: NodeId, room: RoomId) {
        self.counters.forbidden += 1;
        let (owner, refused) = (self.config.node, Some(Reason::Forbidden));
        let roster = Roster { room, owner, members: Vec::new(), to: Some(node), refused };
        self.tell_room(node, &Message::Room(RoomMessage::Roster(roster)));
    }

    /// Says something of a member to a hub nearer to the owners. Nobody may say it again, and who has come
    /// and left must not seem to have left and come: so all of it is reliable, and in order.
    fn forward_to_hub(&mut self, hub: NodeId, message: &Message) {
        if let Some(connection) = self.connection_to(hub) {
            self.send(connection, Channel::Reliable { flow: 0 }, Traffic::Join, message.clone());
        }
    }

    fn tell_room(&mut self, remote: NodeId, message: &Message) {
        if let Some(connection) = self.connection_to(remote) {
            self.send(connection, Channel::Datagram, Traffic::Join, message.clone());
        }
    }
}
