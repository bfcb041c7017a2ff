//! Messages on their way to the part of the hub that they are for.

use bytes::Bytes;

use super::claims::Claim;
use super::requests::PassedRequest;
use super::{Hub, HubEvent, Sender};
use crate::ids::ConnectionId;
use crate::machine::{Channel, Traffic};
use crate::service::Role;
use crate::time::Time;
use crate::wall::WallClock;
use crate::wire::{
    Decline, DirectoryMessage, FlowMessage, Hello, HierarchyMessage, Message, Party, ProbeMessage, Reason,
    RegistrationMessage, ReplicationMessage, RequestMessage, RoomMessage, WireError,
};

/// Reasons to refuse a message, by its sender.
const BY_NODE: &str = "a node may not say that to a hub";
const BY_HUB: &str = "a hub may not say that to a hub";

impl Hub {
    pub(super) fn handle_message(&mut self, now: Time, connection: ConnectionId, bytes: &Bytes) {
        // A connection that the hub itself has closed may still deliver.
        let Some(at) = self.remotes.connections.get_mut(&connection) else { return };
        at.heard = now;
        let from = Sender { connection, node: at.node, role: at.role };
        if from.role == Role::Node {
            self.directory.mark_heard(now, from.node);
        }
        self.remotes.record_heard(from.node, bytes.len());
        if self.relay_data(now, from, bytes) {
            return;
        }
        let sender = if from.role.is_hub() { Party::Hub } else { Party::Node };
        match Message::decode(bytes) {
            Err(WireError::LaterVersion(message)) => self.skip_unknown(from, message, bytes),
            Ok(message) if !message.is_allowed(sender, Party::Hub) => {
                self.refused(from.node, if from.role.is_hub() { BY_HUB } else { BY_NODE });
            }
            Ok(message) if self.admit_message(now, from, &message) => self.dispatch_and_charge(now, from, message),
            Ok(_) => {}
            Err(error) => {
                self.counters.malformed += 1;
                if matches!(error, WireError::OutOfBounds(_)) {
                    self.decline_unread(from, bytes, Reason::Protocol);
                }
            }
        }
    }

    /// Hears a message, and charges for what was looked at for it.
    fn dispatch_and_charge(&mut self, now: Time, from: Sender, message: Message) {
        let price = Self::price(&message);
        self.dispatch(now, from, message);
        if let Some(price) = price {
            self.charge(now, from, price);
        }
    }

    /// The other end says which version it speaks.
    fn on_hello(&mut self, now: Time, from: Sender, hello: Hello) {
        if let Some(connection) = self.remotes.connections.get_mut(&from.connection) {
            connection.hello = hello;
            connection.clock = hello.clock_s.map(|unix_s| WallClock::new(now, unix_s));
        }
        if let Some(why) = hello.refusal() {
            self.close(now, from.connection, &why);
        }
    }

    /// Declines a node's request that cannot be read, so that its requester does not wait in vain.
    fn decline_unread(&mut self, from: Sender, bytes: &Bytes, reason: Reason) {
        let Some(id) = Message::unsupported_request_id(bytes).filter(|_| from.role == Role::Node) else { return };
        let decline = RequestMessage::Decline(Decline { id, reason, retry_after_ms: None, requester: None });
        self.send(from.connection, Channel::Datagram, Traffic::Lookup, &Message::Request(decline));
    }

    /// Skips a message of a later version, and tells of the first one. A request is
    /// declined, so that its requester does not wait in vain.
    fn skip_unknown(&mut self, from: Sender, message: u64, bytes: &Bytes) {
        self.counters.newer_version += 1;
        self.decline_unread(from, bytes, Reason::UnsupportedVersion);
        let Some(connection) = self.remotes.connections.get_mut(&from.connection) else { return };
        if !std::mem::replace(&mut connection.said_later, true) {
            let (node, protocol) = (from.node, connection.hello.protocol);
            self.events.push_back(HubEvent::NewerVersion { node, protocol, message });
        }
    }

    /// Tells the part of the hub that a message is for.
    fn dispatch(&mut self, now: Time, from: Sender, message: Message) {
        match message {
            Message::Registration(message) => self.on_registration(now, from, message),
            Message::Request(message) => self.on_request_message(now, from, message),
            Message::Flow(message) => self.on_flow_message(now, from, message),
            Message::Directory(message) => self.on_directory_message(now, from, message),
            Message::Hierarchy(message) => self.on_hierarchy_message(now, from, message),
            Message::Replication(ReplicationMessage::ReplicaUpdate(update)) => {
                self.handle_replica_update(now, from, update);
            }
            Message::Replication(ReplicationMessage::ResyncRequest(resync)) => {
                self.handle_resync_request(now, from, &resync);
            }
            Message::Room(RoomMessage::JoinRoom(join)) => self.room_joined(now, from, join),
            Message::Room(RoomMessage::LeaveRoom(quit)) => self.room_left(now, from, quit),
            Message::Room(RoomMessage::Roster(roster)) => self.handle_roster(from, roster),
            Message::Probe(ProbeMessage::Ping(token)) => {
                let pong = Message::Probe(ProbeMessage::Pong(token));
                self.send(from.connection, Channel::Datagram, Traffic::Renew, &pong);
            }
            Message::Probe(ProbeMessage::Pong(token)) => self.answered_ping(now, from, token),
            Message::Probe(ProbeMessage::Hello(hello)) => self.on_hello(now, from, hello),
            Message::Multicast(_) => self.counters.stray += 1,
        }
    }

    fn on_registration(&mut self, now: Time, from: Sender, message: RegistrationMessage) {
        match message {
            RegistrationMessage::Publish(record) => self.publish(now, from, record),
            RegistrationMessage::Renew(renew) => self.renew(now, from, renew),
            RegistrationMessage::Withdraw(version) => self.withdraw(now, from, version),
            RegistrationMessage::SetStandby { hub, addresses } => {
                self.handle_set_standby(now, from, hub, addresses.unwrap_or_default());
            }
            RegistrationMessage::HomeChanged(moved) if from.role.is_hub() => self.hub_moved(now, from, moved),
            RegistrationMessage::HomeChanged(moved) => self.node_moved(now, from, moved),
            RegistrationMessage::Adopt(adopt) => self.adopt(now, from, adopt),
            RegistrationMessage::Lease { .. }
            | RegistrationMessage::UnknownVersion
            | RegistrationMessage::RetryAfter(_)
            | RegistrationMessage::Handover
            | RegistrationMessage::Redirect(_) => self.counters.stray += 1,
        }
    }

    fn on_request_message(&mut self, now: Time, from: Sender, message: RequestMessage) {
        match message {
            RequestMessage::Request(request) => match PassedRequest::new(request) {
                Ok(passed) => self.handle_passed_request(now, from, passed),
                Err(request) => self.request(now, from, request),
            },
            RequestMessage::Accept(accept) => self.handle_accept(now, from, accept),
            RequestMessage::Decline(decline) => self.handle_decline(now, from, decline),
            RequestMessage::Pending { id, requester, provider } => {
                self.handle_pending(now, from, (id, requester), provider);
            }
            RequestMessage::RequestAck { id, requester, provider } => {
                self.handle_request_ack(now, from, (id, requester), provider);
            }
            RequestMessage::HopReport(traced) => self.handle_trace(now, from, traced),
            RequestMessage::Push(_) | RequestMessage::PushStatus { .. } | RequestMessage::Tunneled { .. } => {
                self.counters.stray += 1;
            }
        }
    }

    /// The relays have taken what belongs to a flow through this hub.
    fn on_flow_message(&mut self, now: Time, from: Sender, message: FlowMessage) {
        match message {
            FlowMessage::SealedKeys(keys) => self.handle_keys(now, from, keys),
            FlowMessage::Stop { id, .. } => self.handle_cancel(from, id),
            FlowMessage::Datagram(_)
            | FlowMessage::Chunk(_)
            | FlowMessage::End { .. }
            | FlowMessage::Report(_)
            | FlowMessage::Rekey(_) => self.counters.stray += 1,
        }
    }

    fn on_directory_message(&mut self, now: Time, from: Sender, message: DirectoryMessage) {
        match message {
            DirectoryMessage::Watch(watch) => self.watch(now, from, watch),
            DirectoryMessage::Unwatch(id) => self.unwatch(from.node, id),
            DirectoryMessage::WatchChange(change) => self.handle_change(from, change),
            DirectoryMessage::HubLookup(lookup) => self.handle_hub_lookup(now, from, lookup),
            DirectoryMessage::LookupResult(found) => self.handle_lookup_result(now, from, found),
        }
    }

    fn on_hierarchy_message(&mut self, now: Time, from: Sender, message: HierarchyMessage) {
        match message {
            HierarchyMessage::Claim { node, version } => {
                self.count_arrival(from.node, node);
                self.handle_claim(now, node, Claim { home: from.node, version, record: None });
            }
            HierarchyMessage::RegisterChild { tier } => self.register_child(now, from, tier),
            HierarchyMessage::Summary(summary) => self.summary(from, summary),
            HierarchyMessage::StandbyOnly(is_only) => self.set_standby_only(now, from.node, is_only),
            HierarchyMessage::Gossip(message) => self.handle_gossip(now, from, &message),
            HierarchyMessage::HubLoad { leases, residual_kbps } => {
                self.handle_load(now, from, (leases, residual_kbps));
            }
        }
    }
}
