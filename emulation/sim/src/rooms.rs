//! Rooms in virtual time: each node enters one, and subscribes to the stream of every other member.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use roost_core::node::{NodeCommand, NodeEvent, Provider, Ticket};
use roost_experiment::Prepared;
use roost_wire::messages::{ReflectionPolicy, ServiceRequest};
use roost_wire::room::RoomMember;
use roost_wire::{Area, NodeId, RoomId, Service, Time};

use super::Detail;
use super::connections::MachineId;
use super::world::{MachineRole, SimWorld};

const SECOND: Duration = Duration::from_secs(1);
/// The ticket of each node's room.
const ROOM: Ticket = Ticket(1);
/// The time within which all nodes have a home.
const ATTACHED: Duration = Duration::from_secs(10);

const PLAN: &str = "
topology = { star = { nodes = 7, delay = '10ms', server_delay = '20ms' } }
architecture = 'super-node'
super_nodes = 3
duration = '60s'
reflect = true
";

/// The stream of one member at another.
#[derive(Clone, Copy, Debug)]
struct MemberStream {
    packets: u64,
    last: Time,
}

/// A world whose nodes are all in one room.
struct SimRoom<'a> {
    world: SimWorld<'a>,
    tickets: u64,
    /// By node and ticket: the member whose stream it is.
    requests: BTreeMap<(MachineId, Ticket), NodeId>,
    streams: BTreeMap<(MachineId, NodeId), MemberStream>,
    rosters: BTreeMap<MachineId, Vec<RoomMember>>,
}

impl<'a> SimRoom<'a> {
    fn new(prepared: &'a Prepared) -> Self {
        let world = SimWorld::new(prepared, Detail::Packet).unwrap();
        let (requests, streams, rosters) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let mut room = Self { world, tickets: ROOM.0, requests, streams, rosters };
        room.run(ATTACHED);
        for machine in room.nodes() {
            room.world.command(machine, NodeCommand::JoinRoom { ticket: ROOM, room: RoomId::named("ops") });
        }
        room
    }

    fn nodes(&self) -> Vec<MachineId> {
        let all = self.world.participants().iter().enumerate();
        all.filter(|(_, cast)| cast.part.node().is_some()).map(|(machine, _)| machine).collect()
    }

    /// The bytes that each node has sent.
    fn sent(&self) -> Vec<u64> {
        self.nodes().into_iter().map(|node| self.world.connections.counted(node)[0]).collect()
    }

    fn hub(&self, place: usize) -> MachineId {
        self.world.machine_of(MachineRole::Hub(place))
    }

    fn id(&self, machine: MachineId) -> NodeId {
        self.world.participants()[machine].id
    }

    fn run(&mut self, time: Duration) {
        let end = self.world.now + time;
        while self.world.step(end) {
            self.handle_events();
        }
        self.world.now = end;
    }

    fn handle_events(&mut self) {
        while let Some((machine, event)) = self.world.poll() {
            match event {
                NodeEvent::Roster { members, .. } => {
                    for member in &members {
                        self.subscribe(machine, member);
                    }
                    self.rosters.insert(machine, members);
                }
                NodeEvent::Data { ticket, .. } => {
                    let Some(member) = self.requests.get(&(machine, ticket)) else { continue };
                    let last = self.world.now;
                    let stream = self.streams.entry((machine, *member)).or_insert(MemberStream { packets: 0, last });
                    (stream.packets, stream.last) = (stream.packets + 1, last);
                }
                NodeEvent::Failed { ticket, .. } | NodeEvent::Finished { ticket, .. } => {
                    self.requests.remove(&(machine, ticket));
                }
                _ => {}
            }
        }
    }

    /// Asks for a member's stream, unless that is under way.
    fn subscribe(&mut self, machine: MachineId, member: &RoomMember) {
        let mine = (machine, Ticket(0))..=(machine, Ticket(u64::MAX));
        let is_under_way = self.requests.range(mine).any(|(_, asked)| *asked == member.node);
        if member.node == self.id(machine) || is_under_way {
            return;
        }
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        self.requests.insert((machine, ticket), member.node);
        let request = ServiceRequest {
            reflect: ReflectionPolicy::Always,
            duration: Some(Duration::from_secs(3600)),
            ..ServiceRequest::new(Service::Video, Area::Exact(member.cell))
        };
        let provider = Some(Provider { node: member.node, addresses: Vec::new() });
        self.world.command(machine, NodeCommand::Request { ticket, request, provider });
    }

    /// Asserts that each of these nodes has the stream of each other one at this moment.
    fn assert_all_see_all(&self, nodes: &[MachineId]) {
        for machine in nodes {
            for other in nodes.iter().filter(|other| *other != machine) {
                let stream = self.streams.get(&(*machine, self.id(*other)));
                let is_live = stream.is_some_and(|stream| self.world.now.since(stream.last) < SECOND / 2);
                assert!(is_live, "{machine} does not see {other}: {stream:?} at {:?}", self.world.now);
            }
        }
        assert_eq!(self.world.checks.found(), &[]);
    }
}

fn prepared() -> Prepared {
    Prepared::from_text(PLAN, Path::new("p.toml")).unwrap()
}

#[test]
fn room_members_see_one_another() {
    let prepared = prepared();
    let mut room = SimRoom::new(&prepared);
    room.run(10 * SECOND);
    let nodes = room.nodes();
    assert_eq!(nodes.len(), 6);
    room.assert_all_see_all(&nodes);
}

#[test]
fn room_sends_one_copy_per_member() {
    let prepared = prepared();
    let mut room = SimRoom::new(&prepared);
    room.run(10 * SECOND);
    let before = room.sent();
    room.run(10 * SECOND);
    for (before, after) in before.into_iter().zip(room.sent()) {
        let bits_per_second = (after - before) * 8 / 10;
        // A single copy, and reports of five.
        assert!((700_000..900_000).contains(&bits_per_second), "{bits_per_second} bit/s");
    }
}

#[test]
fn room_outlives_a_hub() {
    let prepared = prepared();
    let mut room = SimRoom::new(&prepared);
    room.run(10 * SECOND);
    let (hub, nodes) = (room.hub(1), room.nodes());
    room.world.kill(hub);
    room.run(15 * SECOND);
    room.assert_all_see_all(&nodes);
}

#[test]
fn dead_member_leaves_the_room() {
    let prepared = prepared();
    let mut room = SimRoom::new(&prepared);
    room.run(10 * SECOND);
    let mut nodes = room.nodes();
    let dead = nodes.pop().unwrap();
    let id = room.id(dead);
    room.world.kill(dead);
    room.run(40 * SECOND);
    room.assert_all_see_all(&nodes);
    for machine in nodes {
        assert!(room.rosters[&machine].iter().all(|member| member.node != id), "{machine} has it still");
    }
}
