//! A world in virtual time: any number of nodes and hubs, connections with seeded
//! delay, loss, duplication and reordering, and hosts that die, freeze or are
//! cut off. The same seed gives the same run.

#![allow(dead_code, unused_imports, unreachable_pub, reason = "a kit of which every test binary uses what it needs")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, reason = "tests only")]

pub mod check;
pub mod documents;
pub mod faults;
pub mod host;
pub mod network;
pub mod policies;
pub mod reflect;
pub mod seeds;

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hasher};
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use bytes::Bytes;
use roost_core::hub::{self, Hub, HubKind};
use roost_core::node::{Discovery, NodeCommand, NodeConfig, NodeEvent, NodeStatus, Provider, Ticket};
use roost_geo::Datum;
use roost_wire::RemoteIdentity as Remote;
use roost_wire::messages::{ReflectionPolicy, ServiceRequest};
use roost_wire::random::{RootSecret, SplitMix64};
use roost_wire::{
    Address, Area, Cell, Channel, ConnectionId, DeliveryClasses, DialId, Labels, Metadata, NodeId, Role, RoleSet,
    Scheme, Service, ServiceSet, Time,
};

pub use host::{Host, HostId, object};
pub use network::{ConnectionEnd, Nat, PathConditions};

use host::MachineInput;

pub const MS: Duration = Duration::from_millis(1);
pub const SECOND: Duration = Duration::from_secs(1);

pub struct World {
    pub now: Time,
    pub path: PathConditions,
    /// The one-way delay between two hosts, where it is not the path's.
    pub delays: BTreeMap<(HostId, HostId), Duration>,
    pub hosts: Vec<Host>,
    connections: BTreeMap<ConnectionId, ConnectionEnd>,
    queue: BTreeMap<(Time, u64), Action>,
    next: u64,
    random: SplitMix64,
    /// Hosts that hear one another's multicast.
    pub lans: Vec<Vec<HostId>>,
    /// Pairs of hosts that cannot reach one another.
    cut: Vec<(HostId, HostId)>,
    /// True if what is sent reliably between hosts that are cut off comes later, as from a transport that retransmits.
    pub retransmits: bool,
    /// Messages that wait for that.
    delayed: Vec<(ConnectionId, Channel, Bytes)>,
    /// Pairs of hosts of which the second does not hear the first.
    muted: Vec<(HostId, HostId)>,
    /// Pairs among these between which handshakes fail, too.
    deaf: Vec<(HostId, HostId)>,
    /// Hosts of the version before, which says no version and refuses what it does not know.
    pub older: Vec<HostId>,
    /// Hosts that keep documents of the group to themselves.
    pub withholding: Vec<HostId>,
    /// Bytes of messages about documents that each host has sent or that were sent to it.
    pub document_bytes: BTreeMap<HostId, u64>,
    /// Every end that a host ever had.
    ends: BTreeMap<HostId, Vec<ConnectionId>>,
    /// Pairs of hosts of which the first does not admit the second.
    barred: Vec<(HostId, HostId)>,
    pub nats: BTreeMap<HostId, Nat>,
    /// Time of the last dial from one host to another.
    calls: BTreeMap<(HostId, HostId), Time>,
    trace: DefaultHasher,
    /// Multicast messages handed to the network.
    pub multicasts: u64,
    /// Messages and bytes handed to the network.
    pub messages: u64,
    pub bytes: u64,
    pub log: bool,
    /// Bytes that each host sent in each class.
    pub classes: BTreeMap<(HostId, &'static str), usize>,
    /// Makes the secrets of its machines others, while all else follows from the seed.
    pub secrets: u64,
    /// Everything that was dialled, by whom and where.
    pub dialed: Vec<(HostId, Vec<Address>)>,
    /// Every message that was delivered, if one wants them.
    pub corpus: Option<Vec<Bytes>>,
    /// Every message that was delivered, with its sender and receiver, if one wants them.
    pub deliveries: Option<Vec<(HostId, HostId, Bytes)>>,
    /// Damages every chunk that passes, to see that it is noticed.
    pub damage_chunks: bool,
    /// Time of a dial in one-way delays of its path: four over UDP and QUIC, six over TCP.
    pub dial_ways: u32,
    /// A dial into the void fails after so long.
    pub dial_timeout: Duration,
    /// Most bytes that an end may send in its first round trip, if it begins slowly.
    pub first_window: Option<usize>,
    /// Greatest number of hubs that may reflect a stream between two homes, plus one.
    pub layers: u8,
    /// Copies of a stream that each hub's uplink can take.
    pub copies: Option<u32>,
    /// The group's datum, for all that are added from now on.
    pub datum: Option<Datum>,
}

enum Action {
    Deliver {
        connection: ConnectionId,
        message: Bytes,
    },
    Hear {
        host: HostId,
        from: HostId,
        message: Bytes,
    },
    Answer {
        host: HostId,
        dial: DialId,
        outcome: DialOutcome,
    },
    /// The handshake's first message is sent once more.
    Retry(PendingDial),
    Down {
        connection: ConnectionId,
    },
    Wake {
        host: HostId,
    },
    Tick {
        host: HostId,
        session: roost_core::node::SessionId,
    },
    Arrive {
        connection: ConnectionId,
    },
}

/// A dial that translators have not let through.
struct PendingDial {
    from: HostId,
    dial: DialId,
    addresses: Vec<Address>,
    expect: RoleSet,
    node: Option<NodeId>,
    until: Time,
}

enum DialOutcome {
    To { host: HostId, address: Address },
    Failed(&'static str),
    Refused,
}

/// A request and the provider that it names.
pub struct RequestCommand {
    pub request: ServiceRequest,
    pub provider: Option<Provider>,
    pub body: Bytes,
}

impl Deref for RequestCommand {
    type Target = ServiceRequest;

    fn deref(&self) -> &ServiceRequest {
        &self.request
    }
}

impl DerefMut for RequestCommand {
    fn deref_mut(&mut self) -> &mut ServiceRequest {
        &mut self.request
    }
}

impl World {
    pub fn new(seed: u64) -> Self {
        Self {
            now: Time::from_nanos(1_000_000_000),
            path: PathConditions::default(),
            delays: BTreeMap::new(),
            hosts: Vec::new(),
            connections: BTreeMap::new(),
            queue: BTreeMap::new(),
            next: 0,
            random: SplitMix64::new(seed),
            secrets: 0,
            lans: Vec::new(),
            cut: Vec::new(),
            retransmits: false,
            delayed: Vec::new(),
            muted: Vec::new(),
            deaf: Vec::new(),
            older: Vec::new(),
            barred: Vec::new(),
            withholding: Vec::new(),
            document_bytes: BTreeMap::new(),
            ends: BTreeMap::new(),
            nats: BTreeMap::new(),
            calls: BTreeMap::new(),
            trace: DefaultHasher::new(),
            multicasts: 0,
            messages: 0,
            bytes: 0,
            classes: BTreeMap::new(),
            dialed: Vec::new(),
            corpus: None,
            deliveries: None,
            log: seeds::setting("ROOST_WORLD_LOG").is_some_and(|on| on != 0),
            damage_chunks: false,
            dial_ways: 4,
            dial_timeout: 3 * SECOND,
            first_window: None,
            layers: 1,
            copies: None,
            datum: None,
        }
    }

    // ---- who is there ----

    pub fn add(&mut self, host: Host) -> HostId {
        let id = HostId(self.hosts.len());
        self.hosts.push(host);
        self.schedule(Duration::ZERO, Action::Wake { host: id });
        id
    }

    /// A node of the overlay at `cell` that offers `services`.
    pub fn node(&mut self, cell: (i32, i32), services: &[Service], hubs: &[HostId]) -> HostId {
        self.node_with(hubs, |config| {
            config.cell = Cell::new(cell.0, cell.1);
            config.services = services.iter().copied().collect();
        })
    }

    pub fn node_with(&mut self, hubs: &[HostId], change: impl FnOnce(&mut NodeConfig)) -> HostId {
        let id = self.hosts.len();
        let mut config = self.config(id, hubs);
        change(&mut config);
        self.add(Host::node(id, config))
    }

    fn config(&mut self, id: usize, hubs: &[HostId]) -> NodeConfig {
        let seed = self.random.next_u64();
        let hub_role = hubs.first().map_or(Role::SuperNode, |hub| self.hosts[hub.0].role);
        NodeConfig {
            node: node_id(id),
            name: format!("n{id}"),
            labels: Labels::default(),
            epoch: 1_000 + id as u32,
            cell: Cell::new(0, 0),
            position: None,
            datum: self.datum,
            services: ServiceSet::EMPTY,
            hubs: hubs.iter().map(|hub| addresses(hub.0)).collect(),
            hub_role,
            addresses: addresses(id),
            max_streams: 8,
            uplink_kbps: None,
            stream_duration: 2 * SECOND,
            media: Some(reflect::media(id)),
            classes: DeliveryClasses::default(),
            multicast: false,
            discovery: Discovery::SuperNode,
            seed,
            secret: RootSecret::of_seed(seed ^ self.secrets),
        }
    }

    pub fn hub(&mut self, role: Role) -> HostId {
        let number = self.hosts.len();
        self.hub_with_siblings(number, role, &[])
    }

    /// A super node of a tier below its parents, or a root beside its siblings.
    pub fn hub_below(&mut self, tier: u8, parents: &[HostId], siblings: &[HostId]) -> HostId {
        let number = self.hosts.len();
        let machine = self.hub_machine_with(number, Role::SuperNode, |config| {
            config.tier = tier;
            config.parents = parents.iter().map(|parent| addresses(parent.0)).collect();
            config.siblings = siblings.iter().map(|sibling| addresses(sibling.0)).collect();
        });
        self.add(Host::hub(number, Role::SuperNode, machine))
    }

    /// A cache of a server.
    pub fn cache(&mut self, server: HostId) -> HostId {
        let number = self.hosts.len();
        let machine = self.hub_machine_with(number, Role::Server, |config| config.parents = vec![addresses(server.0)]);
        self.add(Host::hub(number, Role::Server, machine))
    }

    fn hub_with_siblings(&mut self, number: usize, role: Role, siblings: &[usize]) -> HostId {
        let machine = self.hub_machine(number, role, siblings);
        self.add(Host::hub(number, role, machine))
    }

    fn hub_machine(&mut self, number: usize, role: Role, siblings: &[usize]) -> Hub {
        self.hub_machine_with(number, role, |config| {
            config.siblings = siblings.iter().map(|sibling| addresses(*sibling)).collect();
        })
    }

    pub fn hub_machine_with(&mut self, number: usize, role: Role, change: impl FnOnce(&mut hub::HubConfig)) -> Hub {
        let kind = if role == Role::Server { HubKind::Server } else { HubKind::SuperNode };
        let seed = self.random.next_u64();
        let mut config = hub::HubConfig::new(node_id(number), kind, seed);
        config.secret = RootSecret::of_seed(seed ^ self.secrets);
        config.addresses = addresses(number);
        config.datum = self.datum;
        let (media, layers, policy) = (reflect::media(number), self.layers, hub::OverflowPolicy::Residual);
        config.reflection = (kind == HubKind::SuperNode).then_some(hub::ReflectionConfig { media, layers, policy });
        config.epoch = self.now.as_nanos().div_euclid(1_000_000_000) as u32;
        change(&mut config);
        Hub::new(config)
    }

    /// A super node that is told of these others.
    pub fn hub_beside(&mut self, siblings: &[HostId]) -> HostId {
        let siblings: Vec<usize> = siblings.iter().map(|sibling| sibling.0).collect();
        self.hub_with_siblings(self.hosts.len(), Role::SuperNode, &siblings)
    }

    /// Hubs that know one another.
    pub fn mesh(&mut self, count: usize) -> Vec<HostId> {
        let first = self.hosts.len();
        let numbers: Vec<_> = (first..first + count).collect();
        numbers.iter().map(|number| self.hub_with_siblings(*number, Role::SuperNode, &numbers)).collect()
    }

    // ---- what its owner wants ----

    pub fn command(&mut self, host: HostId, command: NodeCommand) {
        if self.hosts[host.0].alive {
            let now = self.now;
            self.hosts[host.0].command(now, command);
            self.drain(host);
        }
    }

    pub fn command_hub(&mut self, hub: HostId, command: hub::HubCommand) {
        if self.hosts[hub.0].alive {
            let now = self.now;
            self.hosts[hub.0].command_hub(now, command);
            self.drain(hub);
        }
    }

    /// Requests a service and returns the ticket.
    pub fn request(&mut self, host: HostId, service: Service, area: Area) -> Ticket {
        self.request_with(host, service, area, |_| {})
    }

    pub fn request_with(
        &mut self,
        host: HostId,
        service: Service,
        area: Area,
        change: impl FnOnce(&mut RequestCommand),
    ) -> Ticket {
        let ticket = self.hosts[host.0].ticket();
        let mut command =
            RequestCommand { request: ServiceRequest::new(service, area), provider: None, body: Bytes::new() };
        command.reflect = ReflectionPolicy::Never;
        change(&mut command);
        let RequestCommand { request, provider, body } = command;
        self.command(host, NodeCommand::Request { ticket, request, provider, body });
        ticket
    }

    pub fn lookup(&mut self, host: HostId, service: Service, area: Area) -> Ticket {
        let ticket = self.hosts[host.0].ticket();
        self.command(
            host,
            NodeCommand::Lookup { ticket, service, area, count: 0, names: None, filter: Metadata::EMPTY },
        );
        ticket
    }

    pub fn ticket(&mut self, host: HostId) -> Ticket {
        self.hosts[host.0].ticket()
    }

    pub fn ping(&mut self, host: HostId, node: Option<NodeId>) -> Ticket {
        let ticket = self.hosts[host.0].ticket();
        self.command(host, NodeCommand::Ping { ticket, node });
        ticket
    }

    /// Takes so many bytes of an object that waits to be read.
    pub fn read(&mut self, host: HostId, ticket: Ticket, bytes: u64) {
        let now = self.now;
        self.hosts[host.0].read(now, ticket, bytes);
        self.drain(host);
    }

    pub fn cancel(&mut self, host: HostId, ticket: Ticket) {
        self.command(host, NodeCommand::Cancel { ticket });
    }

    fn reaches(&self, a: HostId, b: HostId) -> bool {
        !self.cut.iter().any(|pair| *pair == (a, b) || *pair == (b, a))
    }

    /// True if messages go both ways, as handshakes need.
    fn converses(&self, a: HostId, b: HostId) -> bool {
        self.reaches(a, b) && !self.deaf.iter().any(|pair| *pair == (a, b) || *pair == (b, a))
    }

    // ---- time ----

    pub fn run(&mut self, span: Duration) {
        let end = self.now + span;
        self.run_until(end, |_| false);
        self.now = end;
    }

    /// Runs until `done` or for `limit`; returns whether it is done.
    pub fn run_while(&mut self, limit: Duration, done: impl Fn(&Self) -> bool) -> bool {
        let end = self.now + limit;
        self.run_until(end, &done);
        done(self)
    }

    fn run_until(&mut self, end: Time, done: impl Fn(&Self) -> bool) {
        while !done(self) {
            let Some((&(at, number), _)) = self.queue.first_key_value() else { return };
            if at > end {
                return;
            }
            let action = self.queue.remove(&(at, number)).unwrap();
            self.now = at;
            self.act(action);
        }
    }

    fn schedule(&mut self, after: Duration, action: Action) {
        self.schedule_at(self.now + after, action);
    }

    fn schedule_at(&mut self, at: Time, action: Action) {
        self.next += 1;
        self.queue.insert((at, self.next), action);
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Wake { host } => self.wake(host),
            Action::Deliver { connection, message } => self.deliver(connection, message),
            Action::Hear { host, from, message } => self.deliver_multicast(host, from, message),
            Action::Down { connection } => self.take_down(connection),
            Action::Arrive { connection } => self.arrive(connection),
            Action::Answer { host, dial, outcome } => self.answer(host, dial, outcome),
            Action::Retry(pending) => self.try_dial(pending),
            Action::Tick { host, session } => {
                let now = self.now;
                if !self.hosts[host.0].alive {
                    return;
                }
                if let Some(pause) = self.hosts[host.0].tick(now, session) {
                    self.schedule(pause, Action::Tick { host, session });
                }
                self.drain(host);
            }
        }
    }

    fn wake(&mut self, host: HostId) {
        let Some(entry) = self.hosts.get_mut(host.0).filter(|host| host.alive) else { return };
        if entry.deadline().is_some_and(|at| at <= self.now) {
            entry.handle(self.now, MachineInput::Timeout);
        }
        entry.woken_for = None;
        self.drain(host);
    }

    fn feed(&mut self, host: HostId, input: MachineInput) {
        if self.hosts[host.0].alive {
            self.hosts[host.0].handle(self.now, input);
            self.drain(host);
        }
    }

    /// Carries out what a machine wants, as the contract says.
    fn drain(&mut self, host: HostId) {
        for _ in 0..100_000 {
            while let Some(transmit) = self.hosts[host.0].poll_transmit() {
                self.transmit(host, transmit);
            }
            let Some(started) = self.hosts[host.0].settle_events(self.now) else { break };
            for (session, pause) in started {
                self.schedule(pause, Action::Tick { host, session });
            }
        }
        self.shut_out(host);
        let entry = &mut self.hosts[host.0];
        if let Some(at) = entry.deadline().map(|at| at.max(self.now))
            && entry.woken_for.is_none_or(|earlier| at < earlier)
        {
            entry.woken_for = Some(at);
            self.schedule_at(at, Action::Wake { host });
        }
    }

    // ---- what has come of it ----

    pub fn events(&self, host: HostId) -> &[(Time, NodeEvent)] {
        &self.hosts[host.0].events
    }

    pub fn is_attached(&self, host: HostId) -> bool {
        self.home(host).is_some()
    }

    pub fn home(&self, host: HostId) -> Option<HostId> {
        let home = self.hosts[host.0].status(self.now)?.home?;
        Some(HostId(usize::from(home.address.port)))
    }

    pub fn standby(&self, host: HostId) -> Option<HostId> {
        let standby = self.hosts[host.0].status(self.now)?.standby?;
        Some(HostId(usize::from(standby.address.port)))
    }

    /// A hub's machine.
    pub fn hub_at(&self, hub: HostId) -> &Hub {
        self.hosts[hub.0].as_hub().expect("it is a hub")
    }

    pub fn status(&self, host: HostId) -> NodeStatus {
        self.hosts[host.0].status(self.now).expect("only nodes have this status")
    }

    /// The connections that a host has.
    pub fn connections_at(&self, host: HostId) -> Vec<ConnectionId> {
        self.connections
            .iter()
            .filter(|(_, connection)| connection.host == host && connection.up)
            .map(|(id, _)| *id)
            .collect()
    }

    /// Runs until every node has a home.
    pub fn run_until_attached(&mut self) {
        let all = |world: &Self| {
            (0..world.hosts.len()).map(HostId).all(|id| {
                let host = &world.hosts[id.0];
                host.role != Role::Node || !host.alive || world.is_attached(id)
            })
        };
        assert!(self.run_while(30 * SECOND, all), "not every node has found a home");
    }

    /// Runs until a ticket has ended, and returns its last event.
    pub fn outcome(&mut self, host: HostId, ticket: Ticket) -> NodeEvent {
        let ended = |world: &Self| world.hosts[host.0].ending(ticket).is_some();
        assert!(self.run_while(120 * SECOND, ended), "{ticket:?} of {host:?} has not ended");
        self.hosts[host.0].ending(ticket).unwrap().clone()
    }

    /// Bytes of messages that are on their way to a host.
    pub fn on_its_way(&self, to: HostId) -> u64 {
        let bytes = |action: &Action| match action {
            Action::Deliver { connection, message }
                if self.connections.get(connection).is_some_and(|connection| connection.host == to) =>
            {
                message.len()
            }
            _ => 0,
        };
        self.queue.values().map(bytes).sum::<usize>() as u64
    }

    pub fn delivered(&self, host: HostId, ticket: Ticket) -> Vec<u8> {
        self.hosts[host.0].delivered(ticket)
    }
}

/// The id of the host with this number.
pub fn node_id(host: usize) -> NodeId {
    let mut bytes = [0; 16];
    bytes[0] = (host % 255) as u8 + 1;
    bytes[1..3].copy_from_slice(&((host / 255) as u16).to_be_bytes());
    bytes[15] = 0xee;
    NodeId::from_bytes(bytes)
}

/// Host `n` listens at port `n` of a host of its own, whatever the transport.
pub fn address(host: usize, scheme: Scheme) -> Address {
    let ip = [10, 0, (host / 250) as u8, (host % 250) as u8 + 1];
    Address::single(scheme, (ip, host as u16).into())
}

pub fn addresses(host: usize) -> Vec<Address> {
    Scheme::ALL.into_iter().map(|scheme| address(host, scheme)).collect()
}

pub fn remote(host: usize, role: Role) -> Remote {
    Remote { node: node_id(host), role, name: format!("{role}-{host}"), labels: Labels::default() }
}
