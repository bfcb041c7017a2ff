//! The core that all parts of the machine share: time, connections, timers, chance, and what waits to leave.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use roost_geo::Datum;
use roost_wire::messages::{
    FlowMessage, Hello, MediaAddress, Message, MulticastMessage, ProbeMessage, Reason, RegistrationMessage,
    RequestMessage, RoomMessage, StatedDatum,
};
use roost_wire::random::SplitMix64;
use roost_wire::{
    Address, Channel, ConnectionId, Delivery, LONGEST_ROUND_TRIP, NodeId, RemoteIdentity, RequestId, Role, Service,
    Time,
};

use super::api::{NodeConfig, NodeCounters, NodeEvent};
use super::connections::{Connections, DialTarget, HubTunnel, NodeConnection, NodeDialPurpose};
use super::multicast_load::MulticastLoad;
use super::timers::Timer;
use super::timers::Timers;
use crate::address_filter::{self, HubDialBudget};
use crate::allowance::Allowance;
use crate::connections::{Dials, PACE_TRIPS};
use crate::documents::Documents;
use crate::flow::usual_kbps;
use crate::machine::{Traffic, Transmit};
use crate::wall::WallClock;

/// Between two renewals whose purpose is to say that a stream can be had again.
const CAPACITY_PAUSE: Duration = Duration::from_secs(1);

/// Wait before a standby is told of a document that it has from its siblings: sooner than a hub, as the answer of one
/// node costs less than the word of a hub to all.
const LATE_DOCUMENT: Duration = Duration::from_millis(200);

/// The most that a stream takes: a home to which less is known to be left may hold this node back. Video is
/// the widest.
const MOST_KBPS: u32 = usual_kbps(Service::Video.flow_kind());

/// Shared by the parts; each gets it by reference when it is called.
pub(super) struct Core {
    pub(super) now: Time,
    pub(super) node: NodeId,
    /// This node as its certificate names it.
    pub(super) identity: RemoteIdentity,
    /// The actions that the policy allows this node.
    pub(super) own: Allowance,
    pub(super) hub_role: Role,
    /// The group's datum, as it is told to others.
    pub(super) datum: Option<StatedDatum>,
    pub(super) connections: Connections,
    pub(super) dials: Dials<NodeDialPurpose>,
    pub(super) timers: Timers,
    pub(super) random: SplitMix64,
    pub(super) counters: NodeCounters,
    /// The streams that the home may take this node to have left: what it was
    /// told, less what this node was asked for since.
    pub(super) reckoned_streams: u16,
    /// The uplink that the home may take this node to have left, kbit/s.
    pub(super) reckoned_kbps: u32,
    /// Source address of reflected streams from the hub that told it last, over this connection.
    media_of_home: Option<HomeMedia>,
    pub(super) multicast_load: MulticastLoad,
    /// Dials to providers and callers at addresses of which only hubs have told.
    advice: HubDialBudget,
    requester_dials: HubDialBudget,
    /// Such dials under way.
    advised: Vec<AdvisedDial>,
    /// Time at which the home was last told what is left.
    pub(super) told_capacity: Time,
    /// Until then other nodes may still be on their way to a new home.
    pub(super) unsettled_until: Time,
    /// Requests that wait for an answer or for data.
    pub(super) under_way: usize,
    /// True if answers of providers come late enough to wait for them longer,
    /// as the last request that was repeated has shown.
    pub(super) is_patient: bool,
    /// The host's, if the driver has told it.
    pub(super) wall_clock: Option<WallClock>,
    /// The datum as a grid for positions.
    pub(super) grid: Option<Datum>,
    pub(super) documents: Documents,
    transmits: VecDeque<Transmit>,
    events: VecDeque<NodeEvent>,
    next_request: u32,
}

/// A dial at addresses of which only a hub has told, and the bytes that it takes.
struct AdvisedDial {
    way: DialTarget,
    target: ToldNode,
    bytes: u64,
}

/// The node that is dialed at addresses of which only a hub tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ToldNode {
    /// A provider for this node, or a node that calls this one.
    Provider,
    /// A node that wants to be served by this one.
    Requester,
}

/// So many requesters are dialed at once at addresses of which only hubs tell: hubs can make requests up.
const MOST_REQUESTER_DIALS: u64 = 32;

/// The source address of the reflected streams of the hub at a connection.
#[derive(Clone, Copy)]
struct HomeMedia {
    connection: ConnectionId,
    media: SocketAddr,
}

impl Core {
    pub(super) fn new(config: &NodeConfig) -> Self {
        let NodeConfig { node, hub_role, .. } = *config;
        let (name, labels) = (config.name.clone(), config.labels.clone());
        let mut random = SplitMix64::new(config.seed);
        // A node that restarts must not repeat the numbers of its last run.
        let next_request = random.next_u64() as u32;
        Self {
            now: Time::ZERO,
            node,
            identity: RemoteIdentity { node, role: Role::Node, name, labels },
            own: Allowance::default(),
            hub_role,
            datum: config.datum.map(StatedDatum::from),
            connections: Connections::default(),
            dials: Dials::default(),
            timers: Timers::default(),
            random,
            counters: NodeCounters::default(),
            reckoned_streams: 0,
            reckoned_kbps: 0,
            media_of_home: None,
            multicast_load: MulticastLoad::default(),
            advice: HubDialBudget::default(),
            requester_dials: HubDialBudget::for_dials(MOST_REQUESTER_DIALS),
            advised: Vec::new(),
            told_capacity: Time::ZERO,
            unsettled_until: Time::ZERO,
            under_way: 0,
            is_patient: false,
            wall_clock: None,
            grid: config.datum,
            documents: Documents::new(LATE_DOCUMENT),
            transmits: VecDeque::new(),
            events: VecDeque::new(),
            next_request,
        }
    }

    /// Sends a message as a datagram.
    pub(super) fn send(&mut self, connection: ConnectionId, message: impl Into<Message>) {
        self.transmit(connection, Channel::Datagram, Delivery::CONTROL, message.into());
    }

    /// Sends a message of a flow, exactly once and in order.
    pub(super) fn send_reliably(&mut self, connection: ConnectionId, flow: RequestId, message: impl Into<Message>) {
        self.transmit(connection, Channel::Reliable { flow: flow.0 }, Delivery::CONTROL, message.into());
    }

    /// Tells the other end which version this one speaks, before anything else. A hub hears it at once.
    /// A node hears it with the first message that there is for it, as surely as that. One that is lost
    /// leaves the versions of two nodes unchecked, which each has checked with its hub.
    pub(super) fn greet(&mut self, connection: ConnectionId, channel: Channel) {
        let clock_s = self.wall_clock.map(|clock| clock.unix_s(self.now));
        let Some(entry) = self.connections.get_mut(connection).filter(|entry| entry.own.tunnel.is_none()) else {
            return;
        };
        entry.own.has_greeted = true;
        let holdings = self.documents.greeting(entry.node);
        let hello = ProbeMessage::Hello(Hello { clock_s, holdings, datum: self.datum, ..Hello::OWN });
        match channel {
            Channel::Datagram => self.send(connection, hello),
            Channel::Reliable { .. } => self.send_reliably(connection, RequestId(0), hello),
        }
    }

    pub(super) fn transmit(
        &mut self,
        connection: ConnectionId,
        channel: Channel,
        delivery: Delivery,
        message: Message,
    ) {
        if self.connections.get(connection).is_some_and(|entry| !entry.own.has_greeted) {
            self.greet(connection, channel);
        }
        let now = self.now;
        let Some(entry) = self.connections.get_mut(connection) else { return };
        entry.own.used = now;
        let (traffic, encoded) = (traffic_of(&message), message.encode());
        let (connection, channel, message) = match entry.own.tunnel {
            // All in order: what is said there has no datagrams.
            Some(HubTunnel { connection, id, .. }) => (
                connection,
                Channel::Reliable { flow: id.0 },
                Message::from(RequestMessage::Tunneled { id, message: encoded }).encode(),
            ),
            None => (connection, channel, encoded),
        };
        let delivery = delivery.on_channel(channel);
        self.transmits.push_back(Transmit::Message { connection, channel, delivery, traffic, message });
    }

    /// Says something to all on the link.
    pub(super) fn multicast(&mut self, message: MulticastMessage) {
        let message = Message::from(message);
        let traffic = traffic_of(&message);
        self.transmits.push_back(Transmit::Multicast { traffic, message: message.encode() });
    }

    /// Reaches for somebody.
    pub(super) fn dial(&mut self, purpose: NodeDialPurpose, addresses: Vec<Address>, role: Role, node: Option<NodeId>) {
        let transmit = self.dials.begin(purpose, addresses, role, node);
        self.transmits.push_back(transmit);
    }

    pub(super) fn is_dialling(&self, purpose: NodeDialPurpose) -> bool {
        self.dials.iter().any(|other| *other == purpose)
    }

    /// Forgets the purpose of a dial: its connection will not be wanted for it.
    pub(super) fn forget_dial(&mut self, purpose: NodeDialPurpose) {
        self.dials.forget(|other| *other == purpose);
    }

    /// Reaches for a node, unless that is under way.
    pub(super) fn dial_node(&mut self, way: DialTarget, addresses: Vec<Address>) {
        if !self.is_dialling(NodeDialPurpose::Node(way)) {
            self.dial(NodeDialPurpose::Node(way), addresses, Role::Node, Some(way.node));
        }
    }

    /// Reaches for a node at addresses of which only a hub tells, unless that is under way. False if too many
    /// such dials were in vain, or there is no address.
    pub(super) fn dial_as_told(&mut self, target: ToldNode, way: DialTarget, addresses: Vec<Address>) -> bool {
        if self.is_dialling(NodeDialPurpose::Node(way)) {
            return true;
        }
        let addresses = address_filter::few(addresses);
        let now = self.now;
        let Some(bytes) = self.budget(target).charge_dial(now, &addresses).filter(|_| !addresses.is_empty()) else {
            return false;
        };
        self.advised.push(AdvisedDial { way, target, bytes });
        self.dial_node(way, addresses);
        true
    }

    /// A dial has led somewhere: one that was made as a hub has told is not counted.
    pub(super) fn on_dial_reached(&mut self, way: DialTarget) {
        if let Some(AdvisedDial { target, bytes, .. }) = self.take_advised(way) {
            self.budget(target).refund(bytes);
        }
    }

    /// A dial has led nowhere: it stays charged.
    pub(super) fn on_dial_failed(&mut self, way: DialTarget) {
        self.take_advised(way);
    }

    fn take_advised(&mut self, way: DialTarget) -> Option<AdvisedDial> {
        let ended = self.advised.iter().position(|advised| advised.way == way)?;
        Some(self.advised.swap_remove(ended))
    }

    fn budget(&mut self, target: ToldNode) -> &mut HubDialBudget {
        match target {
            ToldNode::Provider => &mut self.advice,
            ToldNode::Requester => &mut self.requester_dials,
        }
    }

    /// Reaches for the home hub over other transports, unless that is under way.
    pub(super) fn dial_hub(&mut self, way: DialTarget, addresses: Vec<Address>) {
        if !self.is_dialling(NodeDialPurpose::Hub(way)) {
            self.dial(NodeDialPurpose::Hub(way), addresses, self.hub_role, Some(way.node));
        }
    }

    /// A connection with a node may be dead without a word. Its remote is asked for a sign of life, and until one comes
    /// it is not used.
    pub(super) fn doubt(&mut self, connection: ConnectionId) {
        let now = self.now;
        let Some(entry) = self.connections.get_mut(connection) else { return };
        if entry.doubt(now) {
            let token = self.random.next_u64() as u32;
            entry.probe.begin(now, token);
            self.send_reliably(connection, RequestId(0), ProbeMessage::Ping(token));
        }
    }

    /// Ends a connection.
    pub(super) fn close(&mut self, connection: ConnectionId, reason: &str) {
        let gone = self.connections.remove(connection);
        self.timers.clear(Timer::Idle(connection));
        if let Some(HubTunnel { connection, id, .. }) = gone.and_then(|gone| gone.own.tunnel) {
            return self.send_reliably(connection, id, FlowMessage::Stop { id, reason: Reason::Cancelled });
        }
        self.request_close(connection, reason);
    }

    /// Has the driver end a connection, and leaves it to the caller to take it out.
    pub(super) fn request_close(&mut self, connection: ConnectionId, reason: &str) {
        self.transmits.push_back(Transmit::Close { connection, reason: reason.to_owned() });
    }

    pub(super) fn emit(&mut self, event: NodeEvent) {
        self.events.push_back(event);
    }

    pub(super) fn set(&mut self, timer: Timer, after: Duration) {
        self.timers.set(timer, self.now + after);
    }

    /// A stream has ended: a home that may take this node to be full, and
    /// hold it back, hears at once that it is not.
    pub(super) fn stream_freed(&mut self) {
        if self.reckoned_streams == 0 || self.reckoned_kbps < MOST_KBPS {
            self.timers.set(Timer::Renew, self.now.max(self.told_capacity + CAPACITY_PAUSE));
        }
    }

    /// A number for a request or a watch, not used by this node before.
    pub(super) fn next_request(&mut self) -> RequestId {
        self.next_request = self.next_request.wrapping_add(1) % RequestId::FIRST_OF_HUB;
        RequestId(self.next_request)
    }

    /// A home has said where it sends reflected streams from.
    pub(super) fn record_media_address(&mut self, connection: ConnectionId, media: Option<MediaAddress>) {
        let seen = self.connections.get(connection).and_then(|entry| entry.address.primary());
        if let (Some(MediaAddress(mut media)), Some(seen)) = (media, seen) {
            if media.ip().is_unspecified() {
                media.set_ip(seen.ip());
            }
            self.media_of_home = Some(HomeMedia { connection, media });
        }
    }

    /// The address from which the hub there sends reflected streams, if it is the one that told it last.
    pub(super) fn media_of(&self, connection: ConnectionId) -> Option<SocketAddr> {
        self.media_of_home.filter(|home| home.connection == connection).map(|home| home.media)
    }

    /// The address from which the home sends reflected streams, if it has told it.
    pub(super) fn media_of_home(&self) -> Option<SocketAddr> {
        self.media_of_home.filter(|home| self.connections.get(home.connection).is_some()).map(|home| home.media)
    }

    /// The longest wait for an answer over `connection`.
    pub(super) fn pto(&self, connection: ConnectionId) -> Duration {
        self.connections.get(connection).map_or(Duration::from_secs(1), |connection| connection.rtt.pto())
    }

    /// Longest time over `connection` for what takes `usual` on a short path.
    pub(super) fn scaled_timeout(&self, connection: ConnectionId, usual: Duration) -> Duration {
        let trip = self.connections.get(connection).map_or(Duration::ZERO, |connection| connection.rtt.smoothed());
        usual.max(trip.min(LONGEST_ROUND_TRIP) * PACE_TRIPS)
    }

    /// True if the remote at `connection` is certified as a hub of the kind that
    /// this node uses.
    pub(super) fn is_hub(&self, connection: ConnectionId) -> bool {
        self.connections.get(connection).is_some_and(|connection| connection.role == self.hub_role)
    }

    /// Keeps the addresses of others, of which the remote at `connection` tells, that somebody can be at.
    pub(super) fn told(&self, connection: ConnectionId, addresses: Vec<Address>) -> Vec<Address> {
        self.connections.get(connection).map_or(Vec::new(), |connection| connection.told(addresses))
    }

    /// True if the same remote is at both ends.
    pub(super) fn are_same(&self, a: ConnectionId, b: ConnectionId) -> bool {
        let at = |connection| self.connections.get(connection).map(|connection| connection.node);
        a == b || (at(a).is_some() && at(a) == at(b))
    }

    /// Watches over a direct connection that this node dialled.
    pub(super) fn mind_idleness(&mut self, connection: ConnectionId) {
        if let Some(limit) = self.connections.get(connection).map(NodeConnection::idle_limit) {
            self.set(Timer::Idle(connection), limit);
        }
    }

    /// Sends what is to be said about documents, and tells the owner of those that have come.
    pub(super) fn drain_documents(&mut self) {
        for node in self.connections.take_departed() {
            self.documents.disconnected(self.now, node);
        }
        while let Some((node, message)) = self.documents.poll_send() {
            if let Some(connection) = self.connections.youngest_with(node) {
                self.send_reliably(connection, RequestId(0), message);
            }
        }
        while let Some(document) = self.documents.poll_event() {
            self.emit(NodeEvent::Document(document));
        }
        match self.documents.next_due() {
            Some(at) => self.timers.set(Timer::Documents, at),
            None => self.timers.clear(Timer::Documents),
        }
    }

    pub(super) fn poll_transmit(&mut self) -> Option<Transmit> {
        self.transmits.pop_front()
    }

    pub(super) fn poll_event(&mut self) -> Option<NodeEvent> {
        self.events.pop_front()
    }
}

/// The class in which a message's bytes are counted.
fn traffic_of(message: &Message) -> Traffic {
    use RegistrationMessage as Registration;
    match message {
        Message::Registration(Registration::Renew(_))
        | Message::Probe(ProbeMessage::Ping(_) | ProbeMessage::Pong(_)) => Traffic::Renew,
        Message::Registration(Registration::RetryAfter(_) | Registration::Handover) => Traffic::Lookup,
        Message::Registration(_)
        | Message::Room(RoomMessage::JoinRoom(_) | RoomMessage::LeaveRoom(_))
        | Message::Probe(ProbeMessage::Hello(_)) => Traffic::Join,
        Message::Flow(FlowMessage::SealedKeys(_)) => Traffic::Lookup,
        Message::Flow(_) | Message::Request(RequestMessage::Tunneled { .. }) => Traffic::Payload,
        Message::Document(_) => Traffic::Documents,
        _ => Traffic::Lookup,
    }
}
