//! Messages on their way to the part of the hub that they are for.

use bytes::Bytes;

use super::claims::Claim;
use super::core::HubCore;
use super::requests::PassedRequest;
use super::{Hub, HubEvent, Sender};
use crate::ids::ConnectionId;
use crate::machine::{Channel, Traffic};
use crate::service::Role;
use crate::wall::WallClock;
use crate::wire::{
    Decline, DirectoryMessage, FlowMessage, Hello, HierarchyMessage, Message, Party, ProbeMessage, Reason,
    RegistrationMessage, ReplicationMessage, RequestMessage, RoomMessage, WireError,
};

/// Reasons to refuse a message, by its sender.
const BY_NODE: &str = "a node may not say that to a hub";
const BY_HUB: &str = "a hub may not say that to a hub";

impl Hub {
    pub(super) fn handle_message(&mut self, connection: ConnectionId, bytes: &Bytes) {
        let now = self.core.now;
        // A connection that the hub itself has closed may still deliver.
        let Some(at) = self.core.remotes.connections.get_mut(&connection) else { return };
        at.heard = now;
        let from = Sender { connection, node: at.node, role: at.role };
        if from.role == Role::Node {
            self.registry.directory.mark_heard(now, from.node);
        }
        self.core.remotes.record_heard(from.node, bytes.len());
        if self.relay_data(from, bytes) {
            return;
        }
        let sender = if from.role.is_hub() { Party::Hub } else { Party::Node };
        match Message::decode(bytes) {
            Err(WireError::LaterVersion(message)) => self.skip_unknown(from, message, bytes),
            Ok(message) if !message.is_allowed(sender, Party::Hub) => {
                self.core.refused(from.node, if from.role.is_hub() { BY_HUB } else { BY_NODE });
            }
            Ok(message) if self.core.admit_message(from, &message) => self.dispatch_and_charge(from, message),
            Ok(_) => {}
            Err(_) => self.core.counters.malformed += 1,
        }
    }

    /// Hears a message, and charges for what was looked at for it.
    fn dispatch_and_charge(&mut self, from: Sender, message: Message) {
        let price = HubCore::price(&message);
        self.dispatch(from, message);
        if let Some(price) = price {
            self.core.charge(from, price);
        }
    }

    /// The other end says which version it speaks.
    fn on_hello(&mut self, from: Sender, hello: Hello) {
        let now = self.core.now;
        if let Some(connection) = self.core.remotes.connections.get_mut(&from.connection) {
            connection.hello = hello;
            connection.clock = hello.clock_s.map(|unix_s| WallClock::new(now, unix_s));
        }
        if let Some(why) = hello.refusal() {
            self.close(from.connection, &why);
        }
    }

    /// Skips a message of a later version, and tells of the first one. A request is
    /// declined, so that its requester does not wait in vain.
    fn skip_unknown(&mut self, from: Sender, message: u64, bytes: &Bytes) {
        self.core.counters.newer_version += 1;
        if let Some(id) = Message::unsupported_request_id(bytes).filter(|_| from.role == Role::Node) {
            let decline = Decline { id, reason: Reason::UnsupportedVersion, retry_after_ms: None, requester: None };
            self.core.send(
                from.connection,
                Channel::Datagram,
                Traffic::Lookup,
                &Message::Request(RequestMessage::Decline(decline)),
            );
        }
        let Some(connection) = self.core.remotes.connections.get_mut(&from.connection) else { return };
        if !std::mem::replace(&mut connection.said_later, true) {
            let (node, protocol) = (from.node, connection.hello.protocol);
            self.core.events.push_back(HubEvent::NewerVersion { node, protocol, message });
        }
    }

    /// Tells the part of the hub that a message is for.
    fn dispatch(&mut self, from: Sender, message: Message) {
        match message {
            Message::Registration(message) => self.on_registration(from, message),
            Message::Request(message) => self.on_request_message(from, message),
            Message::Flow(message) => self.on_flow_message(from, message),
            Message::Directory(message) => self.on_directory_message(from, message),
            Message::Hierarchy(message) => self.on_hierarchy_message(from, message),
            Message::Replication(ReplicationMessage::ReplicaUpdate(update)) => {
                self.handle_replica_update(from, update);
            }
            Message::Replication(ReplicationMessage::ResyncRequest(resync)) => {
                self.replication.handle_resync_request(&mut self.core, from, &resync);
            }
            Message::Room(RoomMessage::JoinRoom(join)) => self.rooms.room_joined(&mut self.core, from, join),
            Message::Room(RoomMessage::LeaveRoom(quit)) => self.rooms.room_left(&mut self.core, from, quit),
            Message::Room(RoomMessage::Roster(roster)) => self.rooms.handle_roster(&mut self.core, from, roster),
            Message::Probe(ProbeMessage::Ping(token)) => {
                let pong = Message::Probe(ProbeMessage::Pong(token));
                self.core.send(from.connection, Channel::Datagram, Traffic::Renew, &pong);
            }
            Message::Probe(ProbeMessage::Pong(token)) => self.answered_ping(from, token),
            Message::Probe(ProbeMessage::Hello(hello)) => self.on_hello(from, hello),
            Message::Multicast(_) => self.core.counters.stray += 1,
        }
    }

    fn on_registration(&mut self, from: Sender, message: RegistrationMessage) {
        match message {
            RegistrationMessage::Publish(record) => self.publish(from, record),
            RegistrationMessage::Renew(renew) => self.renew(from, renew),
            RegistrationMessage::Withdraw(version) => self.withdraw(from, version),
            RegistrationMessage::SetStandby { hub, addresses } => {
                let known = self.members.get(hub).map_or(Vec::new(), |member| member.addresses().to_vec());
                self.replication.handle_set_standby(
                    &mut self.core,
                    self.registry.records(),
                    from,
                    hub,
                    addresses.unwrap_or_default(),
                    known,
                );
            }
            RegistrationMessage::HomeChanged(moved) if from.role.is_hub() => self.hub_moved(from, moved),
            RegistrationMessage::HomeChanged(moved) => self.node_moved(from, moved),
            RegistrationMessage::Adopt(adopt) => self.adopt(from, adopt),
            RegistrationMessage::Lease { .. }
            | RegistrationMessage::UnknownVersion
            | RegistrationMessage::RetryAfter(_)
            | RegistrationMessage::Handover
            | RegistrationMessage::Redirect(_) => self.core.counters.stray += 1,
        }
    }

    fn on_request_message(&mut self, from: Sender, message: RequestMessage) {
        match message {
            RequestMessage::Request(request) => match PassedRequest::new(request) {
                Ok(passed) => self.handle_passed_request(from, passed),
                Err(request) => self.request(from, request),
            },
            RequestMessage::Accept(accept) => self.handle_accept(from, accept),
            RequestMessage::Decline(decline) => self.handle_decline(from, decline),
            RequestMessage::Pending { id, requester, provider } => {
                self.handle_pending(from, (id, requester), provider);
            }
            RequestMessage::RequestAck { id, requester, provider } => {
                self.handle_request_ack(from, (id, requester), provider);
            }
            RequestMessage::HopReport(traced) => self.handle_trace(from, traced),
            RequestMessage::Push(_) | RequestMessage::PushStatus { .. } | RequestMessage::Tunneled { .. } => {
                self.core.counters.stray += 1;
            }
        }
    }

    /// The relays have taken what belongs to a flow through this hub.
    fn on_flow_message(&mut self, from: Sender, message: FlowMessage) {
        match message {
            FlowMessage::SealedKeys(keys) => self.handle_keys(from, keys),
            FlowMessage::Stop { id, .. } => self.handle_cancel(from, id),
            FlowMessage::Datagram(_)
            | FlowMessage::Chunk(_)
            | FlowMessage::End { .. }
            | FlowMessage::Report(_)
            | FlowMessage::Rekey(_) => self.core.counters.stray += 1,
        }
    }

    fn on_directory_message(&mut self, from: Sender, message: DirectoryMessage) {
        match message {
            DirectoryMessage::Watch(watch) => {
                self.watches.watch(&mut self.core, self.registry.records(), self.summaries.children(), from, watch)
            }
            DirectoryMessage::Unwatch(id) => self.watches.unwatch(&mut self.core, from.node, id),
            DirectoryMessage::WatchChange(change) => {
                self.watches.handle_change(&mut self.core, self.summaries.children(), from, change)
            }
            DirectoryMessage::HubLookup(lookup) => self.handle_hub_lookup(from, lookup),
            DirectoryMessage::LookupResult(found) => self.handle_lookup_result(from, found),
        }
    }

    fn on_hierarchy_message(&mut self, from: Sender, message: HierarchyMessage) {
        match message {
            HierarchyMessage::Claim { node, version } => {
                self.members.count_arrival(from.node, node);
                self.handle_claim(node, Claim { home: from.node, version, record: None });
            }
            HierarchyMessage::RegisterChild { tier } => self.register_child(from, tier),
            HierarchyMessage::Summary(summary) => {
                for block_service in self.summaries.summary(&mut self.core, from, summary) {
                    self.watches.watched_block(&mut self.core, from.node, block_service);
                }
            }
            HierarchyMessage::StandbyOnly(is_only) => self.core.set_standby_only(from.node, is_only),
            HierarchyMessage::Gossip(message) => self.members.handle_gossip(&mut self.core, from, &message),
            HierarchyMessage::HubLoad { leases, residual_kbps } => {
                self.members.handle_load(&mut self.core, from, (leases, residual_kbps));
            }
        }
    }
}
