//! Ways through hubs to nodes that cannot be reached, for files: who has one for such a node calls
//! it by a request. It dials who calls, is dialled by it, or, if neither leads to anything, hubs
//! pass on what the two say, and that stands in for a connection.

use std::collections::BTreeMap;
use std::time::Duration;

use roost_wire::RemoteIdentity as Remote;
use roost_wire::messages::{
    Accept, Decline, FlowDescription, FlowMessage, Message, ProbeMessage, ProviderAddress, Reason, Request,
    RequestMessage, Route, ServiceRequest,
};
use roost_wire::random::SecretRng;
use roost_wire::{Area, Cell, ConnectionId, Labels, NodeId, Nonce, RequestId, Role, SchemeSet, Service};

use super::api::NodeConfig;
use super::connections::{DialTarget, HubTunnel, NodeConnection};
use super::core::{Core, ToldNode};
use super::sessions::unreachable::UnreachableNodes;
use super::timers::Timer;
use crate::connections::Rtt;

/// Time that hubs try for a call.
const DEADLINE: Duration = Duration::from_secs(10);

/// Longest dial to a caller before the hub is told to pass messages on.
const REACH_TIME: Duration = Duration::from_secs(2);

/// The most nodes that call at once and are being dialled.
const MAX_CALLED: usize = 16;

/// The most ways through hubs at once.
const MAX_TUNNELS: usize = 64;

/// Both sides.
#[derive(Debug)]
pub(super) struct ConnectRequests {
    /// As many as objects are offered.
    outgoing: BTreeMap<RequestId, OutgoingConnect>,
    incoming: BTreeMap<NodeId, IncomingConnect>,
    nonces: SecretRng,
}

/// A call of this node's.
#[derive(Debug)]
struct OutgoingConnect {
    node: NodeId,
    service: Service,
    cell: Cell,
    nonce: Nonce,
    /// True once the node was dialled at the addresses that the hub told.
    dialled: bool,
}

/// A call of somebody who is being dialled.
#[derive(Debug)]
struct IncomingConnect {
    /// The hub's connection.
    by: ConnectionId,
    id: RequestId,
    requester: NodeId,
    /// True if the hub passes on what the two say.
    is_relayed: bool,
}

impl IncomingConnect {
    fn decline(&self, core: &mut Core, reason: Reason) {
        let requester = Some(self.requester).filter(|_| !self.is_relayed);
        core.send(self.by, RequestMessage::Decline(Decline { requester, ..Decline::new(self.id, reason) }));
    }
}

impl ConnectRequests {
    pub(super) fn new(config: &NodeConfig) -> Self {
        Self { outgoing: BTreeMap::new(), incoming: BTreeMap::new(), nonces: SecretRng::new(config.secret, "call") }
    }

    /// Calls a node, or says so again.
    pub(super) fn request_connect(
        &mut self,
        core: &mut Core,
        home: Option<ConnectionId>,
        node: NodeId,
        service: Service,
        cell: Cell,
    ) {
        let Some(home) = home else { return };
        let known = self.outgoing.iter().find(|(_, call)| call.node == node).map(|(id, _)| *id);
        let id = known.unwrap_or_else(|| {
            let (id, nonce) = (core.next_request(), Nonce::from_u64(self.nonces.next_u64()));
            self.outgoing.insert(id, OutgoingConnect { node, service, cell, nonce, dialled: false });
            id
        });
        let Some(OutgoingConnect { service, cell, nonce, .. }) = self.outgoing.get(&id) else { return };
        core.send(
            home,
            RequestMessage::Request(Request {
                id,
                nonce: *nonce,
                spec: ServiceRequest { count: 1, ..ServiceRequest::new(*service, Area::Exact(*cell)) }.into(),
                deadline_ms: DEADLINE.as_millis() as u32,
                route: None,
                copy_target: None,
                connect_to: Some(node),
            }),
        );
    }

    /// Nothing is wanted of a node any more.
    pub(super) fn end(&mut self, core: &mut Core, node: NodeId) {
        self.outgoing.retain(|_, call| call.node != node);
        if let Some(way) = core.connections.way_to(node) {
            core.close(way, "no longer needed");
        }
    }

    /// A node is there: who was called, or who called.
    pub(super) fn on_node_up(&mut self, core: &mut Core, node: NodeId) {
        self.outgoing.retain(|_, call| call.node != node);
        if self.incoming.remove(&node).is_some() {
            core.timers.clear(Timer::IncomingConnect(node));
        }
    }

    /// The caller could not be dialled.
    pub(super) fn on_unreachable(&mut self, core: &mut Core, way: DialTarget) {
        self.on_timer(core, way.node);
    }

    /// The caller was not reached in time: the hub is to pass messages on.
    pub(super) fn on_timer(&mut self, core: &mut Core, node: NodeId) {
        core.timers.clear(Timer::IncomingConnect(node));
        if let Some(call) = self.incoming.remove(&node) {
            call.decline(core, Reason::Unreachable);
        }
    }

    /// A node calls this one.
    pub(super) fn on_call(
        &mut self,
        core: &mut Core,
        unreached: &mut UnreachableNodes,
        connection: ConnectionId,
        request: &Request,
        route: Route,
    ) {
        let node = route.requester;
        if !core.is_hub(connection) || node == core.node || request.connect_to != Some(core.node) {
            core.counters.refused += 1;
            return;
        }
        let call =
            IncomingConnect { by: connection, id: request.id, requester: node, is_relayed: route.reply_to.is_empty() };
        if call.is_relayed {
            return open(core, &call, request.nonce);
        }
        let addresses = core.told(connection, route.reply_to);
        if addresses.is_empty() || unreached.holds(core.now, node, &addresses) {
            return call.decline(core, Reason::Unreachable);
        }
        if self.incoming.len() >= MAX_CALLED && !self.incoming.contains_key(&node) {
            return call.decline(core, Reason::Busy);
        }
        if !self.incoming.contains_key(&node) {
            if !core.dial_as_told(ToldNode::Provider, DialTarget { node, schemes: SchemeSet::ALL }, addresses) {
                return call.decline(core, Reason::Unreachable);
            }
            core.set(Timer::IncomingConnect(node), REACH_TIME);
        }
        core.send(connection, RequestMessage::Pending { id: request.id, requester: Some(node), provider: None });
        self.incoming.insert(node, call);
    }

    /// Takes a hub's answer to a call and returns the node called, once there is a way to it.
    /// `None` if the message is about something else.
    pub(super) fn answer(
        &mut self,
        core: &mut Core,
        connection: ConnectionId,
        message: &RequestMessage,
    ) -> Option<Option<NodeId>> {
        let (RequestMessage::Accept(Accept { id, .. })
        | RequestMessage::Decline(Decline { id, .. })
        | RequestMessage::Pending { id, .. }) = message
        else {
            return None;
        };
        let call = self.outgoing.get_mut(id)?;
        if !core.is_hub(connection) {
            // Only a hub was asked: a node that answers is to stop.
            core.send_reliably(connection, *id, FlowMessage::Stop { id: *id, reason: Reason::Cancelled });
            return Some(None);
        }
        match message {
            RequestMessage::Accept(accept) if accept.provider == Some(call.node) && accept.nonce == call.nonce => {
                let node = call.node;
                self.outgoing.remove(id);
                return Some((core.may_relay_files(connection) && enter(core, connection, node, *id)).then_some(node));
            }
            RequestMessage::Accept(_) => core.counters.refused += 1,
            RequestMessage::Pending { provider: Some(ProviderAddress { node, addresses }), .. }
                if *node == call.node && !call.dialled =>
            {
                let addresses = core.told(connection, addresses.clone());
                let way = DialTarget { node: *node, schemes: SchemeSet::ALL };
                call.dialled = core.dial_as_told(ToldNode::Provider, way, addresses);
            }
            RequestMessage::Decline(_) => drop(self.outgoing.remove(id)),
            _ => {}
        }
        Some(None)
    }
}

/// Accepts that what a node says comes through a hub.
fn open(core: &mut Core, call: &IncomingConnect, nonce: Nonce) {
    let IncomingConnect { by: connection, id, requester, .. } = *call;
    if !core.may_relay_files(connection) {
        return call.decline(core, Reason::Forbidden);
    }
    let is_known = core.connections.get(connection).is_some_and(|entry| {
        let hub = entry.node;
        !core.connections.ways(|way| (way.hub, way.id) == (hub, id)).is_empty()
    });
    if !is_known && !enter(core, connection, requester, id) {
        return call.decline(core, Reason::Busy);
    }
    let nothing =
        FlowDescription::Object { bytes: 0, digest: [0; 32], format: String::new(), inline: None, offset: None };
    let (flow, cell, provider) = (nothing, Cell::new(0, 0), Some(core.node));
    core.send(connection, RequestMessage::Accept(Accept { id, nonce, flow, cell, provider, stream_keys: None }));
}

/// Takes a way through a hub for a connection with a node; false if there are too many.
fn enter(core: &mut Core, connection: ConnectionId, node: NodeId, id: RequestId) -> bool {
    let Some(entry) = core.connections.get(connection) else { return false };
    if core.connections.ways(|_| true).len() >= MAX_TUNNELS {
        return false;
    }
    let tunnel = Some(HubTunnel { connection, hub: entry.node, id });
    let (address, rtt, now) = (entry.address.clone(), Rtt::new(entry.rtt.smoothed() * 2), core.now);
    let remote = Remote { node, role: Role::Node, name: String::new(), labels: Labels::default() };
    let way = core.connections.number_way();
    let entry = NodeConnection::up(now, &remote, address, rtt, tunnel);
    core.connections.insert(way, entry);
    true
}

/// True if two nodes may send it to one another through hubs: transfers of files need it.
pub(super) fn is_push_message(message: &Message) -> bool {
    match message {
        Message::Request(RequestMessage::Request(request)) => request.spec.pushed,
        Message::Request(message) => matches!(
            message,
            RequestMessage::Push(_)
                | RequestMessage::PushStatus { .. }
                | RequestMessage::Accept(_)
                | RequestMessage::Decline(_)
        ),
        Message::Flow(message) => {
            matches!(message, FlowMessage::Chunk(_) | FlowMessage::Report(_) | FlowMessage::Stop { .. })
        }
        Message::Probe(message) => matches!(message, ProbeMessage::Ping(_) | ProbeMessage::Pong(_)),
        _ => false,
    }
}
