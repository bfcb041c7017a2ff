//! Who may say what to a hub, and which of its parts it is for.

use bytes::Bytes;

use super::claims::Claim;
use super::requests::PassedRequest;
use super::{Hub, HubEvent, Sender};
use crate::ids::ConnectionId;
use crate::machine::{Channel, Traffic};
use crate::service::Role;
use crate::time::Time;
use crate::wall::WallClock;
use crate::wire::{Decline, Hello, Message, Reason, WireError};

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
        match Message::decode(bytes) {
            Ok(Message::Hello(hello)) => self.on_hello(now, from, hello),
            Err(WireError::LaterVersion(message)) => self.skip_unknown(from, message, bytes),
            Ok(message) if self.admit_message(now, from, &message) => self.dispatch_and_charge(now, from, message),
            Ok(_) => {}
            Err(_) => self.counters.malformed += 1,
        }
    }

    /// Hears a message, and charges for what was looked at for it.
    fn dispatch_and_charge(&mut self, now: Time, from: Sender, message: Message) {
        let price = Self::price(&message);
        if from.role.is_hub() {
            self.dispatch_hub(now, from, message);
        } else {
            self.dispatch_node(now, from, message);
        }
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

    /// Skips a message of a later version, and tells of the first one. A request is
    /// declined, so that its requester does not wait in vain.
    fn skip_unknown(&mut self, from: Sender, message: u64, bytes: &Bytes) {
        self.counters.newer_version += 1;
        if let Some(id) = Message::unsupported_request_id(bytes).filter(|_| from.role == Role::Node) {
            let decline = Decline { id, reason: Reason::UnsupportedVersion, retry_after_ms: None, requester: None };
            self.send(from.connection, Channel::Datagram, Traffic::Lookup, &Message::Decline(decline));
        }
        let Some(connection) = self.remotes.connections.get_mut(&from.connection) else { return };
        if !std::mem::replace(&mut connection.said_later, true) {
            let (node, protocol) = (from.node, connection.hello.protocol);
            self.events.push_back(HubEvent::NewerVersion { node, protocol, message });
        }
    }

    fn dispatch_node(&mut self, now: Time, from: Sender, message: Message) {
        match message {
            Message::Publish(record) => self.publish(now, from, record),
            Message::Renew(renew) => self.renew(now, from, renew),
            Message::Withdraw(version) => self.withdraw(now, from, version),
            Message::SetStandby { hub, addresses } => {
                self.handle_set_standby(now, from, hub, addresses.unwrap_or_default())
            }
            Message::HomeChanged(moved) => self.node_moved(now, from, moved),
            Message::Adopt(adopt) => self.adopt(now, from, adopt),
            Message::Request(request) if request.route.is_none() => self.request(now, from, request),
            Message::Watch(watch) => self.watch(now, from, watch),
            Message::Unwatch(id) => self.unwatch(from.node, id),
            Message::JoinRoom(join) => self.room_joined(now, from, join),
            Message::LeaveRoom(quit) => self.room_left(now, from, quit),
            Message::SealedKeys(keys) => self.handle_keys(now, from, keys),
            Message::Claim { .. }
            | Message::StandbyOnly(_)
            | Message::HubLookup(_)
            | Message::LookupResult(_)
            | Message::WatchChange(_)
            | Message::ReplicaUpdate(_)
            | Message::ResyncRequest(_)
            | Message::RegisterChild { .. }
            | Message::Summary(_)
            | Message::Request(_)
            | Message::RequestAck { .. }
            | Message::Gossip(_)
            | Message::Roster(_)
            | Message::HubLoad { .. } => self.refused(from.node, "only a super node may say that"),
            Message::Lease { .. }
            | Message::UnknownVersion
            | Message::RetryAfter(_)
            | Message::Handover
            | Message::Redirect(_) => self.refused(from.node, "only a hub may say that"),
            message => self.dispatch_common(now, from, message),
        }
    }

    fn dispatch_hub(&mut self, now: Time, from: Sender, message: Message) {
        match message {
            Message::Claim { node, version } => {
                self.count_arrival(from.node, node);
                self.handle_claim(now, node, Claim { home: from.node, version, record: None });
            }
            Message::ReplicaUpdate(update) => self.handle_replica_update(now, from, update),
            Message::ResyncRequest(resync) => self.handle_resync_request(now, from, &resync),
            Message::HomeChanged(moved) => self.hub_moved(now, from, moved),
            Message::StandbyOnly(is_only) => self.set_standby_only(now, from.node, is_only),
            Message::Gossip(message) => self.handle_gossip(now, from, &message),
            Message::HubLoad { leases, residual_kbps } => self.handle_load(now, from, (leases, residual_kbps)),
            Message::HubLookup(seek) => self.handle_hub_lookup(now, from, seek),
            Message::LookupResult(found) => self.handle_lookup_result(now, from, found),
            Message::RegisterChild { tier } => self.register_child(now, from, tier),
            Message::Summary(summary) => self.summary(from, summary),
            Message::Request(request) => match PassedRequest::new(request) {
                Some(request) => self.handle_passed_request(now, from, request),
                None => self.refused(from.node, "only a node may say that"),
            },
            Message::RequestAck { id, requester, provider } => {
                self.handle_request_ack(now, from, (id, requester), provider)
            }
            Message::Watch(watch) => self.watch(now, from, watch),
            Message::Unwatch(id) => self.unwatch(from.node, id),
            Message::WatchChange(change) => self.handle_change(from, change),
            Message::JoinRoom(join) => self.room_joined(now, from, join),
            Message::LeaveRoom(quit) => self.room_left(now, from, quit),
            Message::Roster(roster) => self.handle_roster(from, roster),
            Message::SealedKeys(keys) => self.handle_keys(now, from, keys),
            Message::Publish(_)
            | Message::Renew(_)
            | Message::Withdraw(_)
            | Message::SetStandby { .. }
            | Message::Adopt(_) => self.refused(from.node, "only a node may say that"),
            Message::Lease { .. }
            | Message::UnknownVersion
            | Message::RetryAfter(_)
            | Message::Handover
            | Message::Redirect(_) => self.refused(from.node, "a hub publishes nothing at another hub"),
            message => self.dispatch_common(now, from, message),
        }
    }

    /// What nodes and hubs say alike.
    fn dispatch_common(&mut self, now: Time, from: Sender, message: Message) {
        match message {
            Message::Accept(accept) => self.handle_accept(now, from, accept),
            Message::Decline(decline) => self.handle_decline(now, from, decline),
            Message::Pending { id, requester, provider } => self.handle_pending(now, from, (id, requester), provider),
            Message::HopReport(traced) => self.handle_trace(now, from, traced),
            Message::Stop { id, .. } => self.handle_cancel(from, id),
            Message::Ping(token) => {
                self.send(from.connection, Channel::Datagram, Traffic::Renew, &Message::Pong(token));
            }
            Message::Pong(token) => self.answered_ping(now, from, token),
            _ => self.counters.stray += 1,
        }
    }
}
