//! Messages: each goes to its part, whoever sent it and however it came.

use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use roost_wire::messages::{
    Decline, DirectoryMessage, FlowMessage, MailboxMessage, Message, MulticastMessage, MulticastRequest, Party,
    ProbeMessage, RegistrationMessage, Request, RequestMessage, RoomMessage, WireError,
};
use roost_wire::{ConnectionId, NodeId, RequestId};

use super::api::NodeEvent;
use super::connections::{ConnectionLoss, NodeConnection};
use super::core::Core;
use super::home::liveness;
use super::multicast::ResponderParts;
use super::{Node, multicast, tunnels};

/// The reason for which a connection ends whose node tries to answer the requests of others.
const GUESSES: &str = "it accepts requests without their secrets";

impl Core {
    /// Skips a message of a later version, and tells of the first one.
    fn on_later_version(&mut self, connection: ConnectionId, message: u64) {
        self.counters.later += 1;
        let Some(entry) = self.connections.get_mut(connection) else { return };
        entry.record_heard(self.now);
        let node = entry.node;
        if let Some(protocol) = entry.record_later_version() {
            self.emit(NodeEvent::LaterVersion { node, protocol, message });
        }
    }
}

impl Node {
    pub(super) fn on_message(&mut self, connection: ConnectionId, bytes: &Bytes) {
        let now = self.core.now;
        let Some(entry) = self.core.connections.get_mut(connection) else { return };
        let message = match Message::decode(bytes) {
            Ok(message) => message,
            Err(WireError::LaterVersion(message)) => return self.core.on_later_version(connection, message),
            Err(error) => return self.core.counters.unread(&error),
        };
        let (ends_doubt, node) = (entry.record_heard(now), entry.node);
        if let Message::Probe(ProbeMessage::Pong(token)) = message {
            entry.record_pong(now, token);
            self.attach.on_pong(&mut self.core, connection, token);
            self.pings.on_pong(&mut self.core, connection, token);
        }
        if liveness::is_answer(&message) {
            if let Some(entry) = self.core.connections.get_mut(connection) {
                entry.own.answered = now;
            }
            self.attach.on_answered(&mut self.core, connection);
        }
        if ends_doubt {
            self.provide.on_node_up(&mut self.core, node, connection);
        }
        self.dispatch(connection, message);
        if self.core.connections.get(connection).is_some_and(NodeConnection::has_guessed) {
            self.core.request_close(connection, GUESSES);
            self.on_connection_down(connection, ConnectionLoss { reason: GUESSES, refused: true });
        }
    }

    fn dispatch(&mut self, connection: ConnectionId, message: Message) {
        if let Message::Probe(ProbeMessage::Hello(hello)) = message {
            return self.on_hello(connection, hello);
        }
        if self.on_tunnel_message(connection, &message) {
            return;
        }
        let sender = if self.core.is_hub(connection) { Party::Hub } else { Party::Node };
        if !message.is_allowed(sender, Party::Node) {
            self.core.counters.refused += 1;
            return;
        }
        let Self { core, attach, requests, rooms, .. } = self;
        match message {
            Message::Registration(message) => self.on_registration(connection, message),
            Message::Request(message) => self.on_request_message(connection, message),
            Message::Flow(message) => self.on_flow_message(connection, message),
            Message::Directory(DirectoryMessage::LookupResult(found)) => {
                requests.on_lookup_result(core, connection, found);
            }
            Message::Directory(DirectoryMessage::WatchChange(change)) => {
                self.watches.on_watch_change(core, attach.home(), connection, change);
            }
            Message::Document(message) => {
                if let Some(node) = core.connections.get(connection).map(|entry| entry.node) {
                    core.documents.on_message(core.now, node, message);
                }
            }
            Message::Mailbox(MailboxMessage::SealedFile(file)) => core.on_sealed_file(connection, file),
            Message::Mailbox(MailboxMessage::MailboxStatus(status)) => {
                self.mailbox.on_status(core, connection, status);
            }
            Message::Room(RoomMessage::Roster(roster)) => rooms.on_roster(core, attach, connection, roster),
            Message::Probe(ProbeMessage::Ping(token)) => {
                core.send(connection, ProbeMessage::Pong(token));
            }
            // `on_message` and the first line have taken the others.
            Message::Probe(_) => {}
            Message::Directory(_)
            | Message::Room(_)
            | Message::Mailbox(_)
            | Message::Hierarchy(_)
            | Message::Replication(_)
            | Message::Multicast(_) => core.counters.refused += 1,
        }
    }

    fn on_registration(&mut self, connection: ConnectionId, message: RegistrationMessage) {
        let Self { core, attach, .. } = self;
        match message {
            RegistrationMessage::Lease { version, lease_ms, siblings, addresses, media } => {
                let lease = Duration::from_millis(lease_ms.into());
                let siblings = core.told(connection, siblings.unwrap_or_default());
                attach.on_lease(core, connection, version, lease, siblings);
                attach.on_home_addresses(core, connection, addresses.unwrap_or_default());
                core.record_media_address(connection, media);
            }
            RegistrationMessage::UnknownVersion => attach.on_unknown_version(core, connection),
            RegistrationMessage::RetryAfter(after_ms) => {
                attach.on_retry_after(core, connection, Duration::from_millis(after_ms.into()));
            }
            RegistrationMessage::Redirect(addresses) => {
                let addresses = core.told(connection, addresses);
                attach.on_redirect(core, connection, addresses);
            }
            RegistrationMessage::Handover => attach.on_handover(core, connection),
            RegistrationMessage::Publish(_)
            | RegistrationMessage::Renew(_)
            | RegistrationMessage::Withdraw(_)
            | RegistrationMessage::SetStandby { .. }
            | RegistrationMessage::Adopt(_)
            | RegistrationMessage::HomeChanged(_) => core.counters.refused += 1,
        }
    }

    fn on_request_message(&mut self, connection: ConnectionId, message: RequestMessage) {
        let Self { core, attach, requests, pushes, receptions, .. } = self;
        match message {
            RequestMessage::Request(request) => self.on_request(connection, request),
            RequestMessage::Accept(accept) => requests.on_accept(core, attach, connection, accept),
            RequestMessage::Decline(decline) => self.on_decline(connection, decline),
            RequestMessage::Pending { id, provider, .. } => requests.on_pending(core, connection, id, provider),
            RequestMessage::BodyRequest(wanted) => {
                requests.on_body_request(core, attach.record().cell, connection, wanted);
            }
            RequestMessage::HopReport(traced) => requests.traces.on_hop_report(core, connection, traced),
            RequestMessage::Push(push) => receptions.on_push(core, attach.record().cell, connection, push),
            RequestMessage::PushStatus { id, state } => pushes.on_push_status(core, connection, id, state),
            // The tunnel is gone.
            RequestMessage::Tunneled { .. } => core.counters.stale += 1,
            RequestMessage::RequestAck { .. } => core.counters.refused += 1,
        }
    }

    fn on_flow_message(&mut self, connection: ConnectionId, message: FlowMessage) {
        let Self { core, attach, requests, provide, .. } = self;
        let id = match &message {
            FlowMessage::SealedKeys(_) | FlowMessage::Report(_) | FlowMessage::Body(_) => None,
            FlowMessage::Stop { id, reason } => Some(*id).filter(|_| !provide.on_stop(core, connection, *id, *reason)),
            FlowMessage::End { id, .. } => Some(*id),
            FlowMessage::Datagram(packet) => Some(packet.id),
            FlowMessage::Chunk(chunk) => Some(chunk.id),
            FlowMessage::Rekey(rekey) => Some(rekey.id),
        };
        match message {
            FlowMessage::SealedKeys(keys) => requests.on_sealed_keys(core, connection, keys),
            FlowMessage::Report(report) => provide.on_report(core, connection, report),
            FlowMessage::Body(chunk) => provide.on_body(core, connection, chunk),
            message => {
                if let Some(id) = id {
                    requests.on_data(core, attach, connection, id, message);
                }
            }
        }
    }

    /// Somebody has said something to all on the link.
    pub(super) fn on_multicast(&mut self, from: IpAddr, bytes: &Bytes) {
        let Self { core, attach, requests, provide, multicast, .. } = self;
        if self.left || !requests.multicast {
            return;
        }
        let message = match Message::decode(bytes) {
            Ok(Message::Multicast(message)) => message,
            Ok(_) => {
                core.counters.refused += 1;
                return;
            }
            Err(error) => return core.counters.unread(&error),
        };
        let said_by = match &message {
            MulticastMessage::MulticastRequest(MulticastRequest { request, .. }) => match &request.route {
                Some(route) => route.requester,
                None => {
                    core.counters.refused += 1;
                    return;
                }
            },
            MulticastMessage::MulticastSuppression(taken) => taken.sender,
            MulticastMessage::MulticastCandidate(present) => present.candidate.node,
        };
        if said_by == core.node {
            return;
        }
        core.multicast_load.record_message(core.now, said_by);
        match message {
            MulticastMessage::MulticastRequest(request) => {
                multicast.on_multicast_request(ResponderParts { core, attach, provide }, from, request)
            }
            MulticastMessage::MulticastSuppression(taken) => {
                multicast.on_multicast_suppression(core, taken);
                requests.on_multicast_suppression(core, taken);
            }
            MulticastMessage::MulticastCandidate(mut present) => {
                multicast::reachable(&mut present.candidate.addresses, from);
                multicast.on_multicast_candidate(core, &present);
                requests.on_multicast_candidate(core, present);
            }
        }
    }

    /// A hub hands a request over, or a node asks without a hub.
    fn on_request(&mut self, connection: ConnectionId, mut request: Request) {
        let Self { core, provide, pushes, .. } = self;
        match request.route.take() {
            Some(route) if request.connect_to.is_some() => {
                pushes.calls.on_call(core, &mut provide.unreached, connection, &request, route);
            }
            Some(route) => provide.on_routed_request(core, connection, request, route),
            None => {
                let pushed = pushes.offered(core, connection, &request);
                provide.on_direct_request(core, connection, request, pushed);
            }
        }
    }

    fn on_decline(&mut self, connection: ConnectionId, decline: Decline) {
        let Self { core, attach, requests, watches, .. } = self;
        let of_watch = watches.on_decline(core, attach.home(), connection, &decline);
        if !of_watch && requests.on_decline(core, attach, connection, decline) {
            attach.depart(core, connection);
        }
    }
}

impl Node {
    /// True if a message is about a way through hubs, or may not be sent over one.
    fn on_tunnel_message(&mut self, connection: ConnectionId, message: &Message) -> bool {
        let Some(entry) = self.core.connections.get(connection) else { return true };
        if entry.own.tunnel.is_some() {
            let refused = !tunnels::is_push_message(message);
            self.core.counters.refused += u64::from(refused);
            return refused;
        }
        if let Message::Request(message) = message
            && let Some(reached) = self.pushes.calls.answer(&mut self.core, connection, message)
        {
            reached.into_iter().for_each(|node| self.pushes.on_node_up(&mut self.core, node));
            return true;
        }
        let hub = hub_at(&self.core, connection);
        let way_of = |core: &Core, id: RequestId| {
            core.connections.ways(|way| Some((way.hub, way.id)) == hub.map(|hub| (hub, id)))
        };
        match message {
            Message::Request(RequestMessage::Tunneled { id, message }) => {
                let ways = way_of(&self.core, *id);
                ways.iter().for_each(|way| self.on_message(*way, message));
                !ways.is_empty()
            }
            Message::Flow(FlowMessage::Stop { id, .. }) => {
                let ways = way_of(&self.core, *id);
                ways.iter().for_each(|way| {
                    self.on_tunnel_gone(*way, ConnectionLoss::new("the hub passes nothing on any more"))
                });
                !ways.is_empty()
            }
            _ => false,
        }
    }
}

/// The hub at the other end of a connection.
fn hub_at(core: &Core, connection: ConnectionId) -> Option<NodeId> {
    core.connections.get(connection).filter(|_| core.is_hub(connection)).map(|entry| entry.node)
}
