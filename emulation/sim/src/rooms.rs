//! The members of a plan's rooms: each enters, and requests the stream of every other member of its machine.

use std::collections::BTreeMap;

use bytes::Bytes;
use roost_core::node::{NodeCommand, NodeEvent, Provider, Ticket};
use roost_experiment::{Prepared, REENTRY_PAUSE, RoomRecorder, RoomRequestId, RoomStay, RoomStays, RoomStep, StayEnd};
use roost_results::record::RoomStreamRecord;
use roost_wire::{NodeId, RoomId, Time};

use super::connections::MachineId;
use super::world::{MachineRole, SimWorld};

/// The first ticket of rooms, beyond those of any requester.
const FIRST_TICKET: u64 = 1 << 32;

/// The members of all rooms in a part of a run. Times are those of the run, whose time 0 is `begin` in the world.
pub(super) struct SimRooms {
    members: Vec<SimRoomMember>,
    ids: Vec<NodeId>,
    tickets: u64,
    /// Of the tickets that are under way, by machine.
    purposes: BTreeMap<(MachineId, Ticket), RoomPurpose>,
}

struct SimRoomMember {
    machine: MachineId,
    stays: RoomStays,
}

/// The index of a ticket's member, and the purpose of the ticket there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RoomPurpose {
    Room(usize),
    Stream(usize, RoomRequestId),
}

impl RoomPurpose {
    const fn index(self) -> usize {
        match self {
            Self::Room(index) | Self::Stream(index, _) => index,
        }
    }
}

/// The consequence of an event or of a time for one member.
#[derive(Debug, Default)]
pub(super) struct RoomProgress {
    /// The index of the member, and the time of its next act.
    pub(super) deadline: Option<(usize, Time)>,
    /// The records of a stay that is over.
    pub(super) records: Vec<RoomStreamRecord>,
    /// The node, and the incident.
    pub(super) incident: Option<(usize, String)>,
}

impl SimRooms {
    pub(super) fn new(prepared: &Prepared, world: &SimWorld<'_>) -> Self {
        let machine = |node| world.machine_of(MachineRole::Node(node));
        let member = |stay: RoomStay| SimRoomMember { machine: machine(stay.node), stays: RoomStays::new(stay) };
        let ids = (0..prepared.placement.nodes.len()).map(|node| world.participants()[machine(node)].id);
        Self {
            members: prepared.room_stays().into_iter().map(member).filter(|member| world.has(member.machine)).collect(),
            ids: ids.collect(),
            tickets: FIRST_TICKET,
            purposes: BTreeMap::new(),
        }
    }

    /// The times of all entries, with the indices of the members.
    pub(super) fn entries(&self) -> impl Iterator<Item = (usize, Time)> {
        self.members.iter().enumerate().map(|(index, member)| (index, member.stays.planned().from))
    }

    pub(super) fn of_machine(&self, machine: MachineId) -> Vec<usize> {
        (0..self.members.len()).filter(|index| self.members[*index].machine == machine).collect()
    }

    /// Enters, leaves, or requests streams again, whichever is due.
    pub(super) fn poll_stay(&mut self, now: Time, world: &mut SimWorld<'_>, index: usize) -> RoomProgress {
        let SimRoomMember { machine, stays } = &mut self.members[index];
        let (from, until) = (stays.planned().from, stays.planned().until);
        if now >= until {
            return self.leave(now, world, index, None);
        }
        if stays.recorder().is_none() && now >= from && world.runs(*machine) {
            stays.enter(now, &self.ids);
            let (machine, room) = (*machine, RoomId::named(&stays.planned().room));
            let ticket = self.open_ticket(machine, RoomPurpose::Room(index));
            world.command(machine, NodeCommand::JoinRoom { ticket, room });
        }
        self.request_streams(now, world, index)
    }

    fn open_ticket(&mut self, machine: MachineId, purpose: RoomPurpose) -> Ticket {
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        self.purposes.insert((machine, ticket), purpose);
        ticket
    }

    fn request_streams(&mut self, now: Time, world: &mut SimWorld<'_>, index: usize) -> RoomProgress {
        let SimRoomMember { machine, stays } = &self.members[index];
        let (machine, until) = (*machine, stays.planned().until);
        while let Some(step) = self.recorder(index).and_then(|recorder| recorder.poll(now)) {
            match step {
                RoomStep::Request(id, request) => {
                    let ticket = self.open_ticket(machine, RoomPurpose::Stream(index, id));
                    let provider = Some(Provider { node: id.stream.0, addresses: Vec::new() });
                    world.command(
                        machine,
                        NodeCommand::Request { ticket, request: *request, provider, body: Bytes::new() },
                    );
                }
                RoomStep::Cancel(id) => {
                    self.cancel(world, machine, |purpose| purpose == RoomPurpose::Stream(index, id));
                }
            }
        }
        let deadline = self.recorder(index).map(|recorder| recorder.deadline().unwrap_or(until).min(until));
        RoomProgress { deadline: deadline.map(|at| (index, at)), ..RoomProgress::default() }
    }

    fn recorder(&mut self, index: usize) -> Option<&mut RoomRecorder> {
        self.members[index].stays.recorder()
    }

    fn cancel(&mut self, world: &mut SimWorld<'_>, machine: MachineId, is_meant: impl Fn(RoomPurpose) -> bool) {
        let mine = (machine, Ticket(0))..=(machine, Ticket(u64::MAX));
        let meant = self.purposes.range(mine).filter(|(_, purpose)| is_meant(**purpose));
        for (_, ticket) in meant.map(|(key, _)| *key).collect::<Vec<_>>() {
            self.purposes.remove(&(machine, ticket));
            world.cancel(machine, ticket);
        }
    }

    /// Ends a stay in progress: at the end of its time, or because the room is lost.
    fn leave(&mut self, now: Time, world: &mut SimWorld<'_>, index: usize, lost: Option<&str>) -> RoomProgress {
        let machine = self.members[index].machine;
        self.cancel(world, machine, |purpose| purpose.index() == index);
        let stays = &mut self.members[index].stays;
        let StayEnd { records, incident } = stays.leave(now, lost, &world.prepared.placement.nodes);
        let incident = incident.map(|what| (stays.planned().node, what));
        RoomProgress { records, incident, deadline: None }
    }

    /// Handles an event of a node; `None` if it is of no room.
    pub(super) fn handle_event(
        &mut self,
        now: Time,
        world: &mut SimWorld<'_>,
        machine: MachineId,
        event: &NodeEvent,
    ) -> Option<RoomProgress> {
        let (NodeEvent::Roster { ticket, .. }
        | NodeEvent::Accepted { ticket, .. }
        | NodeEvent::Data { ticket, .. }
        | NodeEvent::Finished { ticket, .. }
        | NodeEvent::Failed { ticket, .. }) = event
        else {
            return None;
        };
        let purpose = *self.purposes.get(&(machine, *ticket))?;
        match (purpose, event) {
            (RoomPurpose::Room(index), NodeEvent::Roster { members, .. }) => {
                let members = members.iter().map(|member| (member.node, member.cell, member.services.iter().collect()));
                self.recorder(index)?.set_members(now, members);
            }
            (RoomPurpose::Room(index), NodeEvent::Failed { detail, .. }) => {
                self.purposes.remove(&(machine, *ticket));
                let again = Some((index, now + REENTRY_PAUSE));
                return Some(RoomProgress { deadline: again, ..self.leave(now, world, index, Some(detail)) });
            }
            (RoomPurpose::Stream(index, id), NodeEvent::Data { .. }) => {
                let missing = world.missing_packets(machine, *ticket);
                self.recorder(index)?.count_packet(now, id, missing);
                return Some(RoomProgress::default());
            }
            (RoomPurpose::Stream(index, id), NodeEvent::Finished { .. } | NodeEvent::Failed { .. }) => {
                self.purposes.remove(&(machine, *ticket));
                let recorder = self.recorder(index)?;
                if let NodeEvent::Finished { summary, .. } = event {
                    recorder.set_missing(id, Some(summary.lost));
                }
                recorder.handle_break(now, id);
            }
            _ => return Some(RoomProgress::default()),
        }
        Some(self.request_streams(now, world, purpose.index()))
    }

    /// Forgets the tickets of a machine that is gone, and ends its stays.
    pub(super) fn machine_gone(
        &mut self,
        now: Time,
        world: &mut SimWorld<'_>,
        machine: MachineId,
    ) -> Vec<RoomProgress> {
        self.purposes.retain(|(of, _), _| *of != machine);
        let lost = Some("its daemon is gone");
        self.of_machine(machine).into_iter().map(|index| self.leave(now, world, index, lost)).collect()
    }

    pub(super) fn end(&mut self, now: Time, world: &mut SimWorld<'_>) -> Vec<RoomProgress> {
        (0..self.members.len()).map(|index| self.leave(now, world, index, None)).collect()
    }
}

#[cfg(test)]
mod tests;
