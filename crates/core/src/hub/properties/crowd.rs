//! A crowd around one hub, which does and says anything, from a seed.

use bytes::Bytes;
use roost_wire::block::BlockService;
use roost_wire::messages::{
    Accept, Adopt, Candidate, Coverage, Datagram, Decline, DirectoryMessage, FlowDescription, FlowMessage,
    HierarchyMessage, Hop, HopAction, HopReport, HubHop, HubLookup, LookupResult, Message, ProbeMessage, Reason,
    RegistrationMessage, Renew, ReplicaCapacity, ReplicaMove, ReplicaRecord, ReplicaUpdate, ReplicationMessage, Report,
    Request, RequestMessage, RequestMode, ResyncRequest, Route, RouteDirection, ServiceRequest, Summary, Watch,
    WatchChange,
};
use roost_wire::random::SplitMix64;
use roost_wire::{
    Area, Cell, ConnectionId, Metadata, NodeId, Nonce, Record, RequestId, Role, Scheme, SchemeSet, Service, ServiceSet,
};

use crate::hub::testing::{Bench, address, node, record, version};
use crate::hub::{HubConfig, HubKind, Limits, OverflowPolicy, ReflectionConfig};
use crate::machine::Input;

/// Nodes 1 to 5, hubs 100 and 101.
const CROWD: [u8; 7] = [1, 2, 3, 4, 5, 100, 101];

/// A crowd around one hub.
pub(super) struct RandomRemotes {
    pub(super) bench: Bench,
    random: SplitMix64,
    /// Connections that are up, and whose they are.
    pub(super) connections: Vec<(ConnectionId, u8)>,
    /// Requests that the hub has handed out and lookups, for answers that fit.
    handed: Vec<(ConnectionId, RequestId, Option<NodeId>)>,
    seeks: Vec<(ConnectionId, HubLookup)>,
    /// Requests so far; one in three is sent again.
    pub(super) requests: Vec<(ConnectionId, Request)>,
    sequence: u32,
    /// The number of the last message to the hub as a standby.
    told: u32,
}

impl RandomRemotes {
    pub(super) fn new(seed: u64, limits: Limits) -> Self {
        let kind = if seed.is_multiple_of(4) { HubKind::Server } else { HubKind::SuperNode };
        let mut config = HubConfig::new(node(200), kind, seed);
        config.limits = limits;
        config.siblings = vec![vec![address(100)]];
        config.tier = 1;
        if seed.is_multiple_of(2) {
            let policy = if seed.is_multiple_of(5) { OverflowPolicy::Count(3) } else { OverflowPolicy::Residual };
            let (media, layers) = (([0, 0, 0, 0], 7_777).into(), 1 + (seed % 7 / 4) as u8);
            config.reflection = Some(ReflectionConfig { media, layers, policy });
        }
        if seed.is_multiple_of(3) {
            config.parents = vec![vec![address(101)]];
        }
        let (connections, handed, seeks, requests) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut crowd = Self {
            bench: Bench::young(config),
            random: SplitMix64::new(seed),
            connections,
            handed,
            seeks,
            requests,
            sequence: 0,
            told: 0,
        };
        for number in CROWD {
            crowd.connect(number);
        }
        crowd
    }

    pub(super) fn below(&mut self, limit: u64) -> u64 {
        self.random.below(limit)
    }

    fn connect(&mut self, number: u8) {
        let role = if number >= 100 { Role::SuperNode } else { Role::Node };
        let mut from = address(number);
        from.scheme = Scheme::ALL[self.below(3) as usize];
        let dial = self.bench.dialled.pop().map(|(dial, _)| dial);
        let connection = self.bench.up_over(number, role, from, dial);
        if !self.bench.closed.iter().any(|(closed, _)| *closed == connection) {
            self.connections.push((connection, number));
        }
    }

    fn anyone(&mut self) -> Option<(ConnectionId, u8)> {
        let closed = &self.bench.closed;
        self.connections.retain(|(connection, _)| !closed.iter().any(|(other, _)| other == connection));
        let count = self.connections.len() as u64;
        (count > 0).then(|| self.connections[self.random.below(count) as usize])
    }

    pub(super) fn who(&mut self) -> NodeId {
        let numbers = [1, 2, 3, 4, 5, 100, 101, 9];
        node(numbers[self.below(8) as usize])
    }

    fn id(&mut self) -> RequestId {
        let first = if self.below(2) == 0 { RequestId::FIRST_OF_HUB } else { 0 };
        RequestId(first + self.below(12) as u32)
    }

    pub(super) fn cell(&mut self) -> Cell {
        Cell::new(self.below(2) as i32, 0)
    }

    fn area(&mut self) -> Area {
        let cell = self.cell();
        match self.below(5) {
            0 => Area::Nearest(cell),
            1 => Area::Radius { center: cell, radius: self.below(4) as u32 },
            2 => Area::rectangle(cell, Cell::new(1, 1)),
            3 => Area::Anywhere,
            _ => Area::Exact(cell),
        }
    }

    fn reason(&mut self) -> Reason {
        let reasons = [Reason::Busy, Reason::Unreachable, Reason::NoTransport, Reason::SourceFailed, Reason::Leaving];
        reasons[self.below(5) as usize]
    }

    fn decline(&mut self, id: RequestId, requester: Option<NodeId>) -> Decline {
        let words = format!("word {}", self.below(9)).parse();
        let sentence = words.ok().filter(|_| self.below(2) == 0);
        Decline { requester, sentence, ..Decline::new(id, self.reason()) }
    }

    fn candidate(&mut self) -> Candidate {
        let Record { version, services, capacity, addresses, .. } = record(1);
        Candidate {
            node: self.who(),
            version,
            cell: self.cell(),
            services,
            capacity,
            addresses,
            name: None,
            position: None,
        }
    }

    /// The crowd does something at random; returns what the hub says to it.
    pub(super) fn step(&mut self) -> Vec<(ConnectionId, Message)> {
        let Some((connection, number)) = self.anyone() else {
            self.connect(1);
            return Vec::new();
        };
        match self.below(21) {
            0 => {
                self.connections.retain(|(other, _)| *other != connection);
                self.bench.down(connection)
            }
            1 => {
                let number = CROWD[self.below(7) as usize];
                self.connect(number);
                Vec::new()
            }
            2..=5 => self.publish(connection, number),
            6..=9 => self.ask(connection, number),
            10..=14 => self.answer(),
            15 => self.noise(connection),
            20 => self.relay(),
            _ => {
                let message = self.message();
                self.bench.say(connection, message)
            }
        }
    }

    /// Something about standbys.
    fn mirror(&mut self) -> Message {
        match self.below(4) {
            0 => Message::Registration(RegistrationMessage::SetStandby {
                hub: node(if self.below(2) == 0 { 100 } else { 101 }),
                addresses: None,
            }),
            1 => {
                let nodes = (0..self.below(2)).map(|_| self.below(4) as u32).collect();
                Message::Replication(ReplicationMessage::ResyncRequest(ResyncRequest {
                    number: self.below(8) as u32,
                    nodes,
                }))
            }
            2 => {
                let held = version(self.below(u64::from(self.sequence) + 1) as u32);
                self.sequence += 1;
                let (version, capacity) = (version(self.sequence), record(1).capacity);
                Message::Registration(RegistrationMessage::Adopt(Adopt {
                    held_version: held,
                    version,
                    capacity,
                    is_failback: None,
                }))
            }
            _ => {
                let own = Record { node: self.who(), version: version(self.sequence), ..record(1) };
                let first = (self.below(2) == 0).then_some(true);
                let gone = (0..self.below(2)).map(|_| self.below(4) as u32).collect();
                let shift = ReplicaMove {
                    node: self.below(4) as u32,
                    versions: 1,
                    x: self.below(3) as i32 - 1,
                    y: 0,
                    step: None,
                };
                let silent_s = (self.below(2) == 0).then(|| self.below(100) as u16);
                let left = ReplicaCapacity { node: self.below(4) as u32, capacity: record(2).capacity };
                self.told = if first.is_some() { 0 } else { self.told + 1 };
                Message::Replication(ReplicationMessage::ReplicaUpdate(ReplicaUpdate {
                    sequence: self.told,
                    records: vec![ReplicaRecord { node: self.below(4) as u32, record: own, silent_s }],
                    removed: gone,
                    moves: vec![shift],
                    capacities: vec![left],
                    alive: Some(Bytes::from_static(&[5])),
                    starts_resync: first,
                    ends_resync: first.filter(|_| self.below(2) == 0),
                    alive_within_s: silent_s,
                }))
            }
        }
    }

    fn publish(&mut self, connection: ConnectionId, number: u8) -> Vec<(ConnectionId, Message)> {
        self.sequence += 1;
        let services = Service::ALL.into_iter().take(2 + self.below(3) as usize).collect();
        let cell = self.cell();
        let own = Record { version: version(self.sequence), cell, services, ..record(number) };
        self.bench.say(connection, RegistrationMessage::Publish(own))
    }

    fn ask(&mut self, connection: ConnectionId, number: u8) -> Vec<(ConnectionId, Message)> {
        let known = self.requests.len() as u64;
        if known > 0 && self.below(3) == 0 {
            let index = self.below(known) as usize;
            let (connection, request) = self.requests[index].clone();
            return self.bench.ask(connection, request);
        }
        let modes = [RequestMode::Forward, RequestMode::Relay, RequestMode::Lookup];
        let service = Service::ALL[self.below(3) as usize];
        let mut spec = ServiceRequest::new(service, self.area());
        spec.mode = modes[self.below(3) as usize];
        spec.count = self.below(4) as u8;
        let mut copy_target = None;
        match self.below(6) {
            0 => spec.transports = SchemeSet::only(Scheme::Quic),
            1 => spec.trace = true,
            2 | 3 => copy_target = self.reflect(),
            _ => {}
        }
        let request = Request::new(RequestId(100 + known as u32), Nonce::from_u64(known), spec, 60_000);
        let asked = Request { copy_target, ..request };
        if number < 100 {
            self.requests.push((connection, asked.clone()));
        }
        self.bench.ask(connection, asked)
    }

    /// Somebody to whom the hub has handed something answers it.
    fn answer(&mut self) -> Vec<(ConnectionId, Message)> {
        if self.below(2) == 0
            && let Some((connection, seek)) = self.seeks.pop()
        {
            let candidates = (0..self.below(3)).map(|_| self.candidate()).collect();
            let has_omissions = (self.below(3) == 0).then_some(true);
            let found = LookupResult {
                id: seek.id,
                candidates,
                coverage: Coverage::Complete,
                has_omissions,
                has_losses: has_omissions,
            };
            return self.bench.say(connection, DirectoryMessage::LookupResult(found));
        }
        let count = self.handed.len() as u64;
        if count == 0 {
            return Vec::new();
        }
        let index = self.below(count) as usize;
        let (connection, id, requester) = self.handed[index];
        let message = match self.below(8) {
            5 => Message::Request(RequestMessage::RequestAck {
                id,
                requester,
                provider: (self.below(2) == 0).then(|| self.who()),
            }),
            6 => Message::Request(RequestMessage::HopReport(HopReport { id, requester, hop: self.hop() })),
            0 => Message::Request(RequestMessage::Pending { id, requester, provider: None }),
            1 => self.accept(id),
            2 => Message::Flow(FlowMessage::Datagram(Datagram {
                id,
                sequence: 1,
                sent_us: 2,
                payload: Bytes::from_static(&[1; 40]),
            })),
            3 => Message::Flow(FlowMessage::End { id, packets: 1, bytes: 40, digest: [0; 32] }),
            _ => Message::Request(RequestMessage::Decline(self.decline(id, requester))),
        };
        self.bench.say(connection, message)
    }

    fn accept(&mut self, id: RequestId) -> Message {
        let offer =
            FlowDescription::Object { bytes: 3, digest: [0; 32], format: String::new(), inline: None, offset: None };
        Message::Request(RequestMessage::Accept(Accept {
            id,
            nonce: Nonce::from_u64(1),
            flow: offer,
            cell: self.cell(),
            provider: None,
            stream_keys: None,
        }))
    }

    /// Bytes that are no message, or nearly one.
    fn noise(&mut self, connection: ConnectionId) -> Vec<(ConnectionId, Message)> {
        let mut bytes = self.message().encode().to_vec();
        match self.below(3) {
            0 => bytes.truncate(self.below(bytes.len() as u64) as usize),
            1 => bytes.push(0),
            _ => {
                let at = self.below(bytes.len() as u64) as usize;
                bytes[at] = self.below(256) as u8;
            }
        }
        self.bench.input(Input::Message { connection, message: Bytes::from(bytes) })
    }

    /// A well-formed message that nobody waits for.
    fn message(&mut self) -> Message {
        let (id, version) = (self.id(), version(self.sequence));
        let requester = (self.below(2) == 0).then(|| self.who());
        match self.below(25) {
            0 => {
                Message::Registration(RegistrationMessage::Renew(Renew { version, capacity: Some(record(1).capacity) }))
            }
            1 => Message::Registration(RegistrationMessage::Withdraw(version)),
            2 => Message::Hierarchy(HierarchyMessage::Claim { node: self.who(), version }),
            3..=5 => self.watching(id),
            6 => {
                let (area, way) = (self.area(), Some(self.way()));
                let search = (self.below(2) == 0).then(|| self.below(4));
                Message::Directory(DirectoryMessage::HubLookup(HubLookup {
                    id,
                    service: Service::Video,
                    area,
                    count: 3,
                    direction: way,
                    timeout_ms: Some(300),
                    selector: None,
                    filter: Metadata::EMPTY,
                    search,
                }))
            }
            7 => Message::Directory(DirectoryMessage::LookupResult(LookupResult {
                id,
                candidates: vec![self.candidate()],
                coverage: Coverage::HubStarting,
                has_omissions: None,
                has_losses: None,
            })),
            8 => Message::Flow(FlowMessage::Stop { id, reason: self.reason() }),
            9 => Message::Flow(FlowMessage::Report(Report { id, ..Report::default() })),
            10 => Message::Request(RequestMessage::Decline(self.decline(id, requester))),
            11 => Message::Request(RequestMessage::Pending { id, requester, provider: None }),
            12 => self.accept(id),
            13 => Message::Probe(ProbeMessage::Ping(7)),
            14..=16 => self.mirror(),
            17 => Message::Hierarchy(HierarchyMessage::RegisterChild { tier: self.below(3) as u8 }),
            18 => self.summary(),
            19 => Message::Request(RequestMessage::RequestAck { id, requester, provider: None }),
            20 => Message::Request(RequestMessage::HopReport(HopReport { id, requester, hop: self.hop() })),
            21 | 22 => self.room(),
            _ => self.carry(id),
        }
    }

    /// Something about watches.
    fn watching(&mut self, id: RequestId) -> Message {
        match self.below(3) {
            0 => {
                let (area, seen) = (self.area(), self.below(3));
                Message::Directory(DirectoryMessage::Watch(Watch {
                    id,
                    services: ServiceSet::ALL,
                    area,
                    last_seen: seen,
                    direction: None,
                    names: None,
                }))
            }
            1 => Message::Directory(DirectoryMessage::Unwatch(id)),
            _ => {
                let (present, gone) = (vec![self.candidate()], vec![self.who()]);
                Message::Directory(DirectoryMessage::WatchChange(WatchChange {
                    id,
                    sequence: 1,
                    updated: present,
                    removed: gone,
                    coverage: None,
                }))
            }
        }
    }

    fn carry(&mut self, id: RequestId) -> Message {
        let nonce = Nonce::from_u64(self.below(2));
        let service = Service::ALL[self.below(3) as usize];
        let (cell, requester) = (self.cell(), self.who());
        let reply_to = if self.below(2) == 0 { Vec::new() } else { vec![address(9)] };
        let (direction, hops_left) = (self.way(), self.below(3) as u8);
        let provider = (self.below(2) == 0).then(|| self.who());
        let copy_target = if self.below(2) == 0 { self.reflect() } else { None };
        let route = Route { requester, reply_to, hop: Some(HubHop { cell, direction, hops_left, provider }) };
        let request = Request::new(id, nonce, ServiceRequest::new(service, Area::Exact(cell)), 60_000);
        Message::Request(RequestMessage::Request(Request { route: Some(route), copy_target, ..request }))
    }

    fn hop(&mut self) -> Hop {
        Hop {
            node: self.who(),
            index: 1 + self.below(8) as u8,
            tier: None,
            step: HopAction::HandedToProvider,
            reason: None,
            elapsed_us: 5,
            other: None,
            name: None,
            round_trip_us: None,
            connected_us: None,
        }
    }

    pub(super) fn way(&mut self) -> RouteDirection {
        [RouteDirection::Up, RouteDirection::Across, RouteDirection::Down, RouteDirection::Overflow]
            [self.below(4) as usize]
    }

    fn summary(&mut self) -> Message {
        let block_services = (0..self.below(4))
            .map(|_| {
                let cell = Cell::new(8 * self.below(6) as i32, 0);
                (BlockService::from_cell(Service::ALL[self.below(4) as usize].code(), cell), self.below(3) as u32)
            })
            .collect();
        let version = self.below(100);
        let since = (self.below(3) == 0).then_some(version);
        Message::Hierarchy(HierarchyMessage::Summary(Summary {
            run: self.below(2) as u32,
            version,
            block_services,
            since,
        }))
    }

    pub(super) fn record_sent(&mut self, sent: &[(ConnectionId, Message)]) {
        for (connection, message) in sent {
            match message {
                Message::Request(RequestMessage::Request(Request {
                    id,
                    route: Some(Route { requester, reply_to, .. }),
                    ..
                })) => {
                    self.handed.push((*connection, *id, (!reply_to.is_empty()).then_some(*requester)));
                }
                Message::Directory(DirectoryMessage::HubLookup(seek)) => self.seeks.push((*connection, seek.clone())),
                _ => {}
            }
        }
    }
}
