//! The members of a plan's rooms: each enters, and requests the stream of every other member of its machine.

use std::collections::BTreeMap;

use roost_core::node::{NodeCommand, NodeEvent, Provider, Ticket};
use roost_experiment::{Prepared, RoomRecorder, RoomStay, RoomStep, RoomStreamKey};
use roost_results::record::RoomStreamRecord;
use roost_wire::{NodeId, RoomId, Time};

use super::connections::MachineId;
use super::world::{MachineRole, SimWorld};

/// The first ticket of rooms, beyond those of any requester.
const FIRST_TICKET: u64 = 1 << 32;

/// All stays of a run. Times are those of the run, whose time 0 is `begin` in the world.
pub(super) struct SimRooms {
    members: Vec<SimRoomMember>,
    ids: Vec<NodeId>,
    tickets: u64,
    /// Of the tickets that are under way, by machine.
    purposes: BTreeMap<(MachineId, Ticket), RoomPurpose>,
}

struct SimRoomMember {
    stay: RoomStay,
    machine: MachineId,
    /// While the node is in the room.
    recorder: Option<RoomRecorder>,
}

/// A ticket's place among the stays, and its purpose there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RoomPurpose {
    Room(usize),
    Stream(usize, RoomStreamKey),
}

impl RoomPurpose {
    const fn place(self) -> usize {
        match self {
            Self::Room(place) | Self::Stream(place, _) => place,
        }
    }
}

/// The consequence of an event or of a time for one stay.
#[derive(Debug, Default)]
pub(super) struct RoomProgress {
    /// The time at which the stay wants to act.
    pub(super) deadline: Option<(usize, Time)>,
    /// The records of a stay that is over.
    pub(super) records: Vec<RoomStreamRecord>,
    /// The end of a stay before its time: the node, and the reason.
    pub(super) incident: Option<(usize, String)>,
}

impl SimRooms {
    pub(super) fn new(prepared: &Prepared, world: &SimWorld<'_>) -> Self {
        let machine = |node| world.machine_of(MachineRole::Node(node));
        let member = |stay: RoomStay| SimRoomMember { machine: machine(stay.node), stay, recorder: None };
        let ids = (0..prepared.placement.nodes.len()).map(|node| world.participants()[machine(node)].id);
        Self {
            members: prepared.room_stays().into_iter().map(member).collect(),
            ids: ids.collect(),
            tickets: FIRST_TICKET,
            purposes: BTreeMap::new(),
        }
    }

    /// The times of all entries, with the places of the stays.
    pub(super) fn entries(&self) -> impl Iterator<Item = (usize, Time)> {
        self.members.iter().enumerate().map(|(place, member)| (place, member.stay.from))
    }

    pub(super) fn of_machine(&self, machine: MachineId) -> Vec<usize> {
        (0..self.members.len()).filter(|place| self.members[*place].machine == machine).collect()
    }

    /// Enters, leaves, or requests streams again, whichever is due.
    pub(super) fn act(&mut self, now: Time, world: &mut SimWorld<'_>, place: usize) -> RoomProgress {
        let SimRoomMember { stay, machine, recorder } = &mut self.members[place];
        if now >= stay.until {
            return self.leave(now, world, place);
        }
        if recorder.is_none() && now >= stay.from && world.runs(*machine) {
            *recorder = Some(RoomRecorder::new(now, stay, &self.ids));
            let (machine, room) = (*machine, RoomId::named(&stay.room));
            let ticket = self.open_ticket(machine, RoomPurpose::Room(place));
            world.command(machine, NodeCommand::JoinRoom { ticket, room });
        }
        self.request_streams(now, world, place)
    }

    fn open_ticket(&mut self, machine: MachineId, purpose: RoomPurpose) -> Ticket {
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        self.purposes.insert((machine, ticket), purpose);
        ticket
    }

    fn request_streams(&mut self, now: Time, world: &mut SimWorld<'_>, place: usize) -> RoomProgress {
        let SimRoomMember { stay, machine, .. } = &self.members[place];
        let (machine, until) = (*machine, stay.until);
        while let Some(step) = self.recorder(place).and_then(|recorder| recorder.poll(now)) {
            match step {
                RoomStep::Request(key, request) => {
                    let ticket = self.open_ticket(machine, RoomPurpose::Stream(place, key));
                    let provider = Some(Provider { node: key.0, addresses: Vec::new() });
                    world.command(machine, NodeCommand::Request { ticket, request: *request, provider });
                }
                RoomStep::Cancel(key) => {
                    self.cancel(world, machine, |purpose| purpose == RoomPurpose::Stream(place, key));
                }
            }
        }
        let deadline = self.recorder(place).map(|recorder| recorder.deadline().unwrap_or(until).min(until));
        RoomProgress { deadline: deadline.map(|at| (place, at)), ..RoomProgress::default() }
    }

    fn recorder(&mut self, place: usize) -> Option<&mut RoomRecorder> {
        self.members[place].recorder.as_mut()
    }

    fn cancel(&mut self, world: &mut SimWorld<'_>, machine: MachineId, is_meant: impl Fn(RoomPurpose) -> bool) {
        let mine = (machine, Ticket(0))..=(machine, Ticket(u64::MAX));
        let meant = self.purposes.range(mine).filter(|(_, purpose)| is_meant(**purpose));
        for (_, ticket) in meant.map(|(key, _)| *key).collect::<Vec<_>>() {
            self.purposes.remove(&(machine, ticket));
            world.cancel(machine, ticket);
        }
    }

    /// Ends a stay, if the node is in the room: at the end of its time, or because its machine is gone.
    pub(super) fn leave(&mut self, now: Time, world: &mut SimWorld<'_>, place: usize) -> RoomProgress {
        let SimRoomMember { stay, machine, recorder } = &mut self.members[place];
        let Some(recorder) = recorder.take() else { return RoomProgress::default() };
        let (machine, end) = (*machine, now.min(stay.until));
        self.cancel(world, machine, |purpose| purpose.place() == place);
        let records = recorder.leave(end, &world.prepared.placement.nodes);
        RoomProgress { records, ..RoomProgress::default() }
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
            (RoomPurpose::Room(place), NodeEvent::Roster { members, .. }) => {
                let members = members.iter().map(|member| (member.node, member.cell, member.services.iter().collect()));
                self.recorder(place)?.set_members(now, members);
            }
            (RoomPurpose::Room(place), NodeEvent::Failed { detail, .. }) => {
                self.purposes.remove(&(machine, *ticket));
                let incident = Some((self.members[place].stay.node, detail.clone()));
                return Some(RoomProgress { incident, ..self.leave(now, world, place) });
            }
            (RoomPurpose::Stream(place, key), NodeEvent::Data { .. }) => {
                let missing = world.missing_packets(machine, *ticket);
                self.recorder(place)?.count_packet(now, key, missing);
                return Some(RoomProgress::default());
            }
            (RoomPurpose::Stream(place, key), NodeEvent::Finished { .. } | NodeEvent::Failed { .. }) => {
                self.purposes.remove(&(machine, *ticket));
                let recorder = self.recorder(place)?;
                if let NodeEvent::Finished { summary, .. } = event {
                    recorder.set_missing(key, Some(summary.lost));
                }
                recorder.handle_break(now, key);
            }
            _ => return Some(RoomProgress::default()),
        }
        Some(self.request_streams(now, world, purpose.place()))
    }

    /// Forgets the tickets of a machine that is gone, and ends its stays.
    pub(super) fn machine_gone(
        &mut self,
        now: Time,
        world: &mut SimWorld<'_>,
        machine: MachineId,
    ) -> Vec<RoomProgress> {
        self.purposes.retain(|(of, _), _| *of != machine);
        self.of_machine(machine).into_iter().map(|place| self.leave(now, world, place)).collect()
    }

    pub(super) fn end(&mut self, now: Time, world: &mut SimWorld<'_>) -> Vec<RoomProgress> {
        (0..self.members.len()).map(|place| self.leave(now, world, place)).collect()
    }
}

#[cfg(test)]
mod tests;
