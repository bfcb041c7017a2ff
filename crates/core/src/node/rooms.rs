//! Being in rooms: telling the home so again and again, and who else is in.
//! Their streams are for the owner to subscribe to.

use std::collections::BTreeMap;
use std::time::Duration;

use roost_policy::Action;
use roost_wire::messages::{JoinRoom, LeaveRoom, Reason, RoomMessage, Roster};
use roost_wire::room::{MAX_MEMBERS, RoomMember};
use roost_wire::{ConnectionId, NodeId, RequestId, Role, RoomId, Service, Time};

use super::api::{NodeEvent, Ticket};
use super::core::Core;
use super::home::HomeRegistration;
use super::timers::Timer;

/// The most rooms at once.
pub const MAX_ROOMS: usize = 16;

/// The pause after which a member says again that it is in.
const RENEWAL: Duration = Duration::from_secs(20);

/// Time for which the list of an owner counts without a further word from it.
const MEMORY: Duration = Duration::from_secs(65);

/// The most hubs whose lists are kept: the two owners, and those before them.
const MAX_OWNERS: usize = 8;

/// The rooms that this node is in.
#[derive(Debug, Default)]
pub(super) struct JoinedRooms(BTreeMap<Ticket, RoomMembership>);

#[derive(Debug)]
struct RoomMembership {
    room: RoomId,
    /// The last word that this node is in, the member that it named, and the words since a list has had it
    /// so.
    said: Time,
    told_as: Option<RoomMember>,
    tries: u32,
    /// The list of each owner, and its time.
    lists: BTreeMap<NodeId, (Vec<RoomMember>, Time)>,
    /// The members that the owner of this machine knows; `None` before the first list.
    told: Option<Vec<RoomMember>>,
}

impl JoinedRooms {
    pub(super) fn enter(&mut self, core: &mut Core, attach: &HomeRegistration, ticket: Ticket, room: RoomId) {
        let objection = if core.hub_role == Role::Server {
            Some((Reason::NotAllowed, "a server has no rooms"))
        } else if self.0.values().any(|inside| inside.room == room) {
            Some((Reason::NotAllowed, "this node is in that room already"))
        } else if self.0.len() >= MAX_ROOMS {
            Some((Reason::TooMany, "this node is in too many rooms already"))
        } else {
            None
        };
        if let Some((reason, detail)) = objection {
            return core.emit(NodeEvent::failed(ticket, reason, detail));
        }
        self.0.insert(
            ticket,
            RoomMembership { room, said: core.now, told_as: None, tries: 0, lists: BTreeMap::new(), told: None },
        );
        self.say(core, attach, ticket);
    }

    pub(super) fn listed(&self) -> Vec<(RoomId, Vec<RoomMember>)> {
        let row = |inside: &RoomMembership| (inside.room, inside.told.clone().unwrap_or_default());
        self.0.values().map(row).collect()
    }

    pub(super) fn on_timer(&mut self, core: &mut Core, attach: &HomeRegistration, ticket: Ticket) {
        self.say(core, attach, ticket);
        self.emit_roster(core, ticket);
    }

    /// Says that this node is in, and comes back: soon while nobody has listed it.
    fn say(&mut self, core: &mut Core, attach: &HomeRegistration, ticket: Ticket) {
        let (Some(inside), Some(home)) = (self.0.get_mut(&ticket), attach.home()) else { return };
        let record = attach.record();
        // Members may not be allowed to look up names and metadata.
        let services = Service::ALL.into_iter().filter(|service| record.services.contains(*service)).collect();
        let member = RoomMember { node: core.node, cell: record.cell, services };
        core.send(home, RoomMessage::JoinRoom(JoinRoom { room: inside.room, member: member.clone(), direction: None }));
        let retry = core.pto(home) * (2 << inside.tries.min(6));
        (inside.said, inside.told_as, inside.tries) = (core.now, Some(member), inside.tries + 1);
        core.set(Timer::Room(ticket), retry.min(RENEWAL));
    }

    /// There is another home, or this node is elsewhere, or offers something else.
    pub(super) fn say_all(&mut self, core: &mut Core, attach: &HomeRegistration) {
        for ticket in self.0.keys().copied().collect::<Vec<_>>() {
            if let Some(inside) = self.0.get_mut(&ticket) {
                inside.tries = 0;
            }
            self.say(core, attach, ticket);
        }
    }

    /// A hub lists who is in.
    pub(super) fn on_roster(
        &mut self,
        core: &mut Core,
        attach: &HomeRegistration,
        connection: ConnectionId,
        roster: Roster,
    ) {
        if !core.is_hub(connection) {
            core.counters.refused += 1;
            return;
        }
        let Some((ticket, inside)) = self.0.iter_mut().find(|(_, inside)| inside.room == roster.room) else {
            core.counters.stale += 1;
            return;
        };
        let ticket = *ticket;
        if let Some(reason) = roster.refused {
            // Of a former home it answers what does not count any more.
            let is_home = attach.home().is_some_and(|home| core.are_same(home, connection));
            if roster.to == Some(core.node) && is_home {
                self.refused(core, attach, ticket, reason);
            }
            return;
        }
        if inside.lists.len() >= MAX_OWNERS && !inside.lists.contains_key(&roster.owner) {
            return;
        }
        // A list from before it moved confirms nothing.
        if roster.members.iter().any(|member| inside.told_as.as_ref() == Some(member)) {
            inside.tries = 0;
            // However often others are the reason of a list.
            core.timers.set(Timer::Room(ticket), inside.said + RENEWAL);
        }
        inside.lists.insert(roster.owner, (roster.members, core.now));
        self.emit_roster(core, ticket);
    }

    /// A hub does not let this node in. What others have noted is void.
    fn refused(&mut self, core: &mut Core, attach: &HomeRegistration, ticket: Ticket, reason: Reason) {
        let detail = match reason {
            Reason::TooMany => format!(
                "the room is full, {MAX_MEMBERS} are in: enter another one, or this one again when somebody has left"
            ),
            Reason::Forbidden => {
                "the group's policy does not let this node enter the room: `roost policy explain` names the rule".into()
            }
            _ => "the super nodes have no room for one more room: enter one that there is, or try again later".into(),
        };
        self.end(core, attach, ticket, reason, detail);
    }

    /// Tells who else is in, if that is news.
    fn emit_roster(&mut self, core: &mut Core, ticket: Ticket) {
        let Some(inside) = self.0.get_mut(&ticket) else { return };
        inside.lists.retain(|_, (_, heard)| core.now.since(*heard) < MEMORY);
        if inside.lists.is_empty() {
            return;
        }
        let mut members = BTreeMap::new();
        let mut lists: Vec<_> = inside.lists.values().collect();
        // Of two words about one member the later counts.
        lists.sort_by_key(|(_, heard)| *heard);
        for member in lists.into_iter().flat_map(|(members, _)| members) {
            members.insert(member.node, member.clone());
        }
        members.remove(&core.node);
        let members: Vec<RoomMember> = members.into_values().collect();
        if inside.told.as_ref() != Some(&members) {
            inside.told = Some(members.clone());
            core.emit(NodeEvent::Roster { ticket, members });
        }
    }

    /// There is another policy, which may let this node into no room.
    pub(super) fn on_policy(&mut self, core: &mut Core, attach: &HomeRegistration) {
        let Some(refusal) = core.objection(Action::Room, None, None) else { return };
        for ticket in self.0.keys().copied().collect::<Vec<_>>() {
            core.counters.forbidden += 1;
            self.end(core, attach, ticket, Reason::Forbidden, refusal.clone());
        }
    }

    /// The owner of the machine no longer wants it. Returns false if the ticket is not here.
    pub(super) fn cancel(&mut self, core: &mut Core, attach: &HomeRegistration, ticket: Ticket) -> bool {
        self.end(core, attach, ticket, Reason::Cancelled, "this node has left the room".to_owned())
    }

    fn end(
        &mut self,
        core: &mut Core,
        attach: &HomeRegistration,
        ticket: Ticket,
        reason: Reason,
        detail: String,
    ) -> bool {
        let Some(inside) = self.0.remove(&ticket) else { return false };
        core.timers.clear(Timer::Room(ticket));
        Self::quit(core, attach, &inside);
        core.emit(NodeEvent::failed(ticket, reason, detail));
        true
    }

    /// Ends everything.
    pub(super) fn leave(&mut self, core: &mut Core, attach: &HomeRegistration) {
        for (ticket, inside) in std::mem::take(&mut self.0) {
            Self::quit(core, attach, &inside);
            let detail = "this node is leaving".to_owned();
            core.emit(NodeEvent::failed(ticket, Reason::Leaving, detail));
        }
    }

    /// Says that this node has left. A home that has not heard yet that it is in would not pass that on.
    fn quit(core: &mut Core, attach: &HomeRegistration, inside: &RoomMembership) {
        let Some(home) = attach.home() else { return };
        let (room, way) = (inside.room, None);
        if let Some(member) = inside.told_as.clone().filter(|_| inside.tries > 0) {
            core.send_reliably(home, RequestId(0), RoomMessage::JoinRoom(JoinRoom { room, member, direction: way }));
        }
        core.send_reliably(
            home,
            RequestId(0),
            RoomMessage::LeaveRoom(LeaveRoom { room, node: core.node, direction: way }),
        );
    }
}
