//! A hub on the bench: what its tests share.

use std::net::SocketAddr;
pub(super) use std::time::Duration;

pub(super) use bytes::Bytes;
pub(super) use roost_wire::messages::*;
pub(super) use roost_wire::*;

use super::Hub;
pub(super) use super::{HubCommand, HubConfig, HubEvent, HubKind};
use crate::machine::Transmit;
pub(super) use crate::machine::{Input, Machine};

/// The place where test nodes are unless they say otherwise.
pub(super) const HERE: Cell = Cell::new(27, 92);

/// A hub, the time, and what it has said so far besides messages.
pub(super) struct Bench {
    pub(super) hub: Hub,
    pub(super) now: Time,
    pub(super) closed: Vec<(ConnectionId, String)>,
    pub(super) dialled: Vec<(DialId, Vec<Address>)>,
    pub(super) events: Vec<HubEvent>,
    /// The round trip of connections that come up.
    pub(super) rtt: Duration,
    connections: u64,
}

pub(super) fn node(number: u8) -> NodeId {
    NodeId::from_bytes([number; 16])
}

pub(super) fn address(number: u8) -> Address {
    Address::single(Scheme::Udp, SocketAddr::from(([10, 0, 0, number], 7_700)))
}

pub(super) fn version(sequence: u32) -> Version {
    Version { epoch: 1, sequence }
}

pub(super) fn record(number: u8) -> Record {
    Record {
        node: node(number),
        version: version(1),
        cell: HERE,
        services: ServiceSet::ALL,
        capacity: Capacity { streams: 4, uplink_kbps: 10_000 },
        addresses: vec![address(number)],
        position: None,
        orbit: None,
    }
}

pub(super) fn request(id: u32, mode: RequestMode) -> Request {
    let spec = ServiceRequest { mode, ..ServiceRequest::new(Service::Track, Area::Exact(HERE)) };
    Request::new(RequestId(id), Nonce::from_u64(u64::from(id)), spec, 5_000)
}

/// A request of node 50 for node 1, which another hub passes to this one.
pub(super) fn carried(id: u32) -> Request {
    let hop = HubHop { cell: HERE, direction: RouteDirection::Down, hops_left: 3, provider: Some(node(1)) };
    let route = Route { requester: node(50), reply_to: vec![address(50)], hop: Some(hop) };
    Request { route: Some(route), ..request(id, RequestMode::Forward) }
}

/// Changes to a request, and the parts of its route.
pub(super) trait EditRequest {
    fn with(self, change: impl FnOnce(&mut ServiceRequest)) -> Self;
    fn with_hop(self, change: impl FnOnce(&mut HubHop)) -> Self;
    fn with_reply_to(self, addresses: Vec<Address>) -> Self;
    fn requester(&self) -> NodeId;
}

impl EditRequest for Request {
    fn with(self, change: impl FnOnce(&mut ServiceRequest)) -> Self {
        let mut spec = ServiceRequest::clone(&self.spec);
        change(&mut spec);
        Self { spec: spec.into(), ..self }
    }

    fn with_hop(mut self, change: impl FnOnce(&mut HubHop)) -> Self {
        change(self.route.as_mut().and_then(|route| route.hop.as_mut()).unwrap());
        self
    }

    fn with_reply_to(mut self, addresses: Vec<Address>) -> Self {
        self.route.as_mut().unwrap().reply_to = addresses;
        self
    }

    fn requester(&self) -> NodeId {
        self.route.as_ref().unwrap().requester
    }
}

/// The first words of a home: these records, numbered from 0.
pub(super) fn copies(records: Vec<Record>) -> ReplicaUpdate {
    let numbered = records.into_iter().zip(0..).map(|(record, node)| ReplicaRecord { node, record, silent_s: None });
    ReplicaUpdate {
        sequence: 1,
        records: numbered.collect(),
        starts_resync: Some(true),
        ends_resync: Some(true),
        ..ReplicaUpdate::default()
    }
}

/// The word of a provider to its hub about a request that it was to answer directly.
pub(super) fn decline(forward: &Request, reason: Reason) -> Message {
    let requester = (!forward.reply_to().is_empty()).then_some(forward.requester());
    Message::Request(RequestMessage::Decline(Decline { requester, ..Decline::new(forward.id, reason) }))
}

/// The only message, which is a `Forward`, and over which connection it went.
pub(super) fn forwarded(sent: &[(ConnectionId, Message)]) -> (ConnectionId, Request) {
    match sent {
        [(connection, Message::Request(RequestMessage::Request(forward)))] if forward.hop().is_none() => {
            (*connection, forward.clone())
        }
        other => panic!("expected one forward, not {other:?}"),
    }
}

/// The only message, which is a `Decline`: to whom and why.
pub(super) fn refused(sent: &[(ConnectionId, Message)]) -> (ConnectionId, Reason) {
    match sent {
        [(connection, Message::Request(RequestMessage::Decline(decline)))] => (*connection, decline.reason),
        other => panic!("expected one decline, not {other:?}"),
    }
}

pub(super) fn is_declined(sent: &[(ConnectionId, Message)], because: Reason) -> bool {
    sent.iter().any(|(_, message)| {
        matches!(message, Message::Request(RequestMessage::Decline(decline)) if decline.reason == because)
    })
}

/// The only message, which answers a lookup, and over which connection it went.
pub(super) fn looked_up(sent: &[(ConnectionId, Message)]) -> (ConnectionId, LookupResult) {
    match sent {
        [(connection, Message::Directory(DirectoryMessage::LookupResult(found)))] => (*connection, found.clone()),
        other => panic!("expected one result, not {other:?}"),
    }
}

/// True for a request that its provider is handed.
pub(super) fn is_forward(message: &Message) -> bool {
    matches!(message, Message::Request(RequestMessage::Request(request)) if request.route.is_some() && request.hop().is_none())
}

/// True for a request that another hub is to pass on.
pub(super) fn is_carry(message: &Message) -> bool {
    matches!(message, Message::Request(RequestMessage::Request(request)) if request.hop().is_some())
}

impl Bench {
    /// A super node that has been up for longer than a lease.
    pub(super) fn new() -> Self {
        Self::configured(|_| {})
    }

    pub(super) fn configured(change: impl FnOnce(&mut HubConfig)) -> Self {
        Self::with_kind(HubKind::SuperNode, change)
    }

    pub(super) fn server(change: impl FnOnce(&mut HubConfig)) -> Self {
        Self::with_kind(HubKind::Server, change)
    }

    fn with_kind(kind: HubKind, change: impl FnOnce(&mut HubConfig)) -> Self {
        let mut config = HubConfig::new(node(200), kind, 1);
        change(&mut config);
        Self::with(config)
    }

    /// A hub of this tier, and its connections to its parents.
    pub(super) fn below<const N: usize>(tier: u8, parents: [u8; N]) -> (Self, [ConnectionId; N]) {
        let at = parents.map(|parent| vec![address(parent)]).to_vec();
        let mut bench = Self::configured(|config| (config.tier, config.parents) = (tier, at));
        let mut dials = std::mem::take(&mut bench.dialled).into_iter();
        let connections = parents.map(|parent| {
            let dial = dials.next().map(|(dial, _)| dial);
            bench.up_over(parent, Role::SuperNode, address(parent), dial)
        });
        (bench, connections)
    }

    pub(super) fn child(&mut self, number: u8) -> ConnectionId {
        let child = self.up(number, Role::SuperNode);
        self.say(child, HierarchyMessage::RegisterChild { tier: 0 });
        child
    }

    pub(super) fn command(&mut self, command: HubCommand) -> Vec<(ConnectionId, Message)> {
        self.input(Input::Command(command))
    }

    pub(super) fn with(config: HubConfig) -> Self {
        let mut bench = Self::young(config);
        bench.wait(Duration::from_secs(61));
        bench
    }

    pub(super) fn young(config: HubConfig) -> Self {
        let hub = Hub::new(config);
        let (closed, dialled, events) = (Vec::new(), Vec::new(), Vec::new());
        let mut bench = Self {
            hub,
            now: Time::from_nanos(1),
            closed,
            dialled,
            events,
            rtt: Duration::from_millis(20),
            connections: 0,
        };
        bench.input(Input::Timeout);
        bench
    }

    /// Hands in one input and gives back the messages that follow.
    pub(super) fn input(&mut self, input: Input<HubCommand>) -> Vec<(ConnectionId, Message)> {
        self.channels(input).into_iter().map(|(connection, _, message)| (connection, message)).collect()
    }

    /// Messages that an input makes the hub send, with their channels. What every connection begins with is left
    /// out.
    pub(super) fn channels(&mut self, input: Input<HubCommand>) -> Vec<(ConnectionId, Channel, Message)> {
        self.hub.handle(self.now, input);
        let mut sent = Vec::new();
        while let Some(transmit) = self.hub.poll_transmit() {
            match transmit {
                Transmit::Message { connection, channel, message, .. } => {
                    let message = Message::decode(&message).unwrap();
                    if !matches!(message, Message::Probe(ProbeMessage::Hello(_))) {
                        sent.push((connection, channel, message));
                    }
                }
                Transmit::Dial { dial, addresses, .. } => self.dialled.push((dial, addresses)),
                Transmit::Multicast { .. } => panic!("a hub does not multicast"),
                Transmit::Close { connection, reason } => self.closed.push((connection, reason)),
            }
        }
        while let Some(event) = self.hub.poll_event() {
            self.events.push(event);
        }
        sent
    }

    pub(super) fn say(
        &mut self,
        connection: ConnectionId,
        message: impl Into<Message>,
    ) -> Vec<(ConnectionId, Message)> {
        self.input(Input::Message { connection, message: message.into().encode() })
    }

    pub(super) fn ask(&mut self, connection: ConnectionId, request: Request) -> Vec<(ConnectionId, Message)> {
        self.say(connection, RequestMessage::Request(request))
    }

    pub(super) fn up(&mut self, number: u8, role: Role) -> ConnectionId {
        self.up_over(number, role, address(number), None)
    }

    pub(super) fn up_over(&mut self, number: u8, role: Role, address: Address, dial: Option<DialId>) -> ConnectionId {
        self.connections += 1;
        let connection = ConnectionId(self.connections);
        let remote = RemoteIdentity { node: node(number), role, name: format!("n{number}"), labels: Labels::default() };
        self.input(Input::ConnectionUp { connection, dial, remote, address, rtt: self.rtt });
        connection
    }

    pub(super) fn down(&mut self, connection: ConnectionId) -> Vec<(ConnectionId, Message)> {
        self.input(Input::ConnectionDown { connection, reason: "gone".to_owned(), refused: false })
    }

    /// Attaches a node that offers everything at [`HERE`].
    pub(super) fn provider(&mut self, number: u8) -> ConnectionId {
        let connection = self.up(number, Role::Node);
        self.say(connection, RegistrationMessage::Publish(record(number)));
        connection
    }

    /// Attaches a node that offers nothing.
    pub(super) fn requester(&mut self, number: u8) -> ConnectionId {
        let connection = self.up(number, Role::Node);
        self.say(connection, RegistrationMessage::Publish(Record { services: ServiceSet::EMPTY, ..record(number) }));
        connection
    }

    /// Lets time pass and serves every deadline on the way.
    pub(super) fn wait(&mut self, span: Duration) -> Vec<(ConnectionId, Message)> {
        let until = self.now + span;
        let mut sent = Vec::new();
        while let Some(deadline) = self.hub.poll_deadline().filter(|deadline| deadline.at <= until) {
            self.now = self.now.max(deadline.at);
            sent.extend(self.input(Input::Timeout));
        }
        self.now = until;
        sent
    }
}
