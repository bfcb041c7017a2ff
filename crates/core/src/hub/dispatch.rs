//! Messages on their way to the part of the hub that they are for.

use bytes::Bytes;
use roost_wire::messages::{
    Adopt, Decline, DocumentMessage, Hello, HierarchyMessage, HomeChanged, MailboxMessage, MediaAddress, Message,
    Party, ProbeMessage, Reason, RegistrationMessage, Renew, ReplicationMessage, RequestMessage, RoomMessage,
    RouteDirection, WireError,
};
use roost_wire::record::MAX_ADDRESSES;
use roost_wire::{Channel, ConnectionId, NodeId, Record, Role, Version};

use super::core::HubCore;
use super::registry::Claim;
use super::registry::{AdoptOutcome, RecordChange};
use super::relation::Relation;
use super::route::RoutePlan;
use super::sender::Sender;
use super::standby_connections::NamedStandby;
use super::{Hub, HubEvent};
use crate::directory::{PreviousEntry, PublishOutcome};
use crate::machine::Traffic;

/// Reasons to refuse a message, by its sender.
const BY_NODE: &str = "a node may not say that to a hub";
const BY_HUB: &str = "a hub may not say that to a hub";

/// A full lease names siblings and the hub's own addresses, a short one neither.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum LeaseContent {
    Full,
    Short,
}

impl Hub {
    pub(super) fn handle_message(&mut self, connection: ConnectionId, bytes: &Bytes) {
        let now = self.core.now;
        // A connection that the hub itself has closed may still deliver.
        let Some(at) = self.core.remotes.connections.get_mut(&connection) else { return };
        at.heard = now;
        let from = Sender { connection, node: at.node, role: at.role };
        if from.role == Role::Node {
            self.registry.mark_heard(now, from.node);
        }
        self.core.remotes.record_heard(from.node, bytes.len());
        if self.with_requests(|requests, turn| requests.pass_data(turn, from, bytes)) {
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
            Err(error) => {
                self.core.counters.malformed += 1;
                if matches!(error, WireError::OutOfBounds(_)) {
                    self.decline_unread(from, bytes, Reason::Protocol);
                }
            }
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

    /// The remote says which version it speaks.
    fn on_hello(&mut self, from: Sender, hello: Hello) {
        let now = self.core.now;
        self.core.documents.greeted(now, from.node, from.role.is_hub(), &hello);
        let datum = self.core.stated_datum();
        let connection = self.core.remotes.connections.get_mut(&from.connection);
        if let Some(why) = connection.and_then(|connection| connection.record_hello(now, hello, datum)) {
            self.core.events.push_back(HubEvent::Refused { node: from.node, what: why.clone().into() });
            return self.close(from.connection, &why);
        }
        self.mailbox.on_greeted(&mut self.core, from);
    }

    /// Declines a node's request that cannot be read, so that its requester does not wait in vain.
    fn decline_unread(&mut self, from: Sender, bytes: &Bytes, reason: Reason) {
        let Some(id) = Message::unsupported_request_id(bytes).filter(|_| from.role == Role::Node) else { return };
        let decline = RequestMessage::Decline(Decline::new(id, reason));
        self.core.send_answer(from.connection, decline);
    }

    /// Skips a message of a later version, and tells of the first one. A request is
    /// declined, so that its requester does not wait in vain.
    fn skip_unknown(&mut self, from: Sender, message: u64, bytes: &Bytes) {
        self.core.counters.newer_version += 1;
        self.decline_unread(from, bytes, Reason::UnsupportedVersion);
        let Some(connection) = self.core.remotes.connections.get_mut(&from.connection) else { return };
        if let Some(protocol) = connection.record_later_version() {
            let node = from.node;
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
            Message::Document(DocumentMessage::Progress(rows)) => self.progress.on_rows(&self.core, from.node, rows),
            Message::Document(message) => {
                self.core.documents.on_message(self.core.now, from.node, message);
                self.progress.count_soon(&self.core);
            }
            Message::Replication(ReplicationMessage::ReplicaUpdate(update)) => {
                self.registry.handle_replica_update(&mut self.core, from, update);
                self.tell_record_changes();
            }
            Message::Replication(ReplicationMessage::ResyncRequest(resync)) => {
                self.replication.handle_resync_request(&mut self.core, from, &resync);
            }
            Message::Room(RoomMessage::JoinRoom(join)) => self.rooms.room_joined(&mut self.core, from, join),
            Message::Room(RoomMessage::LeaveRoom(quit)) => self.rooms.room_left(&mut self.core, from, quit),
            Message::Room(RoomMessage::Roster(roster)) => self.rooms.handle_roster(&mut self.core, from, roster),
            Message::Mailbox(message) => self.on_mailbox_message(from, message),
            Message::Probe(ProbeMessage::Ping(token)) => {
                let pong = ProbeMessage::Pong(token);
                self.core.send(from.connection, Channel::Datagram, Traffic::Renew, pong);
            }
            Message::Probe(ProbeMessage::Pong(token)) => {
                if self.core.remotes.record_pong(self.core.now, from.connection, token) {
                    self.members.measure_group(&mut self.core);
                }
            }
            Message::Probe(ProbeMessage::Hello(hello)) => self.on_hello(from, hello),
            Message::Multicast(_) => self.core.counters.stray += 1,
        }
    }

    fn on_mailbox_message(&mut self, from: Sender, message: MailboxMessage) {
        match message {
            MailboxMessage::SealedFile(file) => self.mailbox.on_file(&mut self.core, from, file),
            MailboxMessage::MailboxStatus(status) => self.mailbox.on_status(&mut self.core, from, status),
            MailboxMessage::NodeIsHere(node) => self.mailbox.on_home(&mut self.core, node, from.node),
            MailboxMessage::FilesWait(node) => {
                let records = self.registry.records();
                if records.get(node).is_some() && records.home_of(node).is_none() {
                    self.core.send_to_hub(from.node, MailboxMessage::NodeIsHere(node));
                }
            }
        }
    }

    fn on_registration(&mut self, from: Sender, message: RegistrationMessage) {
        match message {
            RegistrationMessage::Publish(record) => self.publish(from, record),
            RegistrationMessage::Renew(renew) => self.renew(from, renew),
            RegistrationMessage::Withdraw(version) => self.withdraw(from, version),
            RegistrationMessage::SetStandby { hub, addresses } => {
                let known = self.members.view().addresses_of(hub).to_vec();
                let standby = NamedStandby { hub, addresses: addresses.unwrap_or_default(), known };
                self.replication.handle_set_standby(&mut self.core, self.registry.records(), from, standby);
            }
            RegistrationMessage::HomeChanged(moved) => self.on_home_changed(from, moved),
            RegistrationMessage::Adopt(adopt) => self.adopt(from, adopt),
            RegistrationMessage::Lease { .. }
            | RegistrationMessage::UnknownVersion
            | RegistrationMessage::RetryAfter(_)
            | RegistrationMessage::Handover
            | RegistrationMessage::Redirect(_) => self.core.counters.stray += 1,
        }
    }

    fn on_hierarchy_message(&mut self, from: Sender, message: HierarchyMessage) {
        match message {
            HierarchyMessage::Claim { node, version } => {
                self.members.count_arrival(from.node, node);
                self.on_claim(node, Claim { home: from.node, version, record: None });
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
                self.members.handle_load(&mut self.core, from, leases, residual_kbps);
            }
        }
    }

    /// A node publishes its own record.
    fn publish(&mut self, from: Sender, mut record: Record) {
        if !self.registry.may_publish(&mut self.core, from, &record) || self.redirect(from) {
            return;
        }
        let cell = self.registry.cell_of(self.core.now, &record);
        self.core.cut_record(from, &mut record, cell);
        let Record { node, version, ref services, .. } = record;
        let services = services.clone();
        match self.registry.take_record(&mut self.core, from, record) {
            PublishOutcome::New => {
                self.core.claim(node, version);
                self.on_record_published(node, None);
            }
            PublishOutcome::Replaced(place) => {
                self.on_record_published(node, Some(place));
                self.registry.confirm_home(&mut self.core, node, version);
            }
            PublishOutcome::Same => {}
            // The node learns from the lease which version it has to exceed.
            PublishOutcome::Stale => {
                let held = self.registry.records().get(node).map_or(version, |entry| entry.version());
                return self.grant_lease(from, Traffic::Join, held, LeaseContent::Short);
            }
            PublishOutcome::Full => return self.close(from.connection, "the hub's directory is full"),
        }
        self.core.events.push_back(HubEvent::Published { node, cell, services });
        self.grant_lease(from, Traffic::Join, version, LeaseContent::Full);
    }

    /// Sends a node elsewhere, if it is new here and another hub has fewer. In a crowd everybody stays
    /// where it is: a redirection costs one more handshake.
    fn redirect(&mut self, from: Sender) -> bool {
        let is_known = self.registry.records().get(from.node).is_some();
        let may_stay = is_known || self.registry.is_crowded(self.core.now);
        self.members.redirect(&mut self.core, from, may_stay)
    }

    pub(super) fn on_record_published(&mut self, node: NodeId, before: Option<PreviousEntry>) {
        self.core.counters.publishes += 1;
        self.register_at_server(node);
        self.replication.record_change(&mut self.core, self.registry.records(), node);
        self.summaries.summarize(&mut self.core, self.registry.records(), node, before.as_ref());
        self.watches.tell_watchers(&mut self.core, self.registry.records(), node, before.as_ref());
        self.serve_held(node);
    }

    /// A node's record has come or changed: the server is to hold it, too.
    pub(super) fn register_at_server(&mut self, node: NodeId) {
        self.registry.forget_cached(node);
        if let Some(server) = self.core.central() {
            self.replication.set_standby(&mut self.core, self.registry.records(), node, server);
        }
    }

    /// The server is there: every node is registered.
    pub(super) fn register_all(&mut self) {
        let Some(server) = self.core.central() else { return };
        let nodes: Vec<NodeId> =
            self.registry.records().directory().entries_after(None).map(|entry| entry.node()).collect();
        for node in nodes {
            self.replication.set_standby(&mut self.core, self.registry.records(), node, server);
        }
    }

    pub(super) fn grant_lease(&mut self, from: Sender, traffic: Traffic, version: Version, content: LeaseContent) {
        let is_full = content == LeaseContent::Full;
        let lease_ms = u32::try_from(self.core.config.lease.as_millis()).unwrap_or(u32::MAX);
        let mut siblings =
            if is_full { self.members.standby_candidates(&self.core, from.connection, from.node) } else { Vec::new() };
        siblings.truncate(MAX_ADDRESSES);
        let siblings = (!siblings.is_empty()).then_some(siblings);
        let own = if is_full { self.core.own_addresses(from.connection) } else { Vec::new() };
        let addresses = (!own.is_empty()).then_some(own);
        let media = self.core.config.reflection.filter(|_| is_full).map(|reflection| MediaAddress(reflection.media));
        let lease = RegistrationMessage::Lease { version, lease_ms, siblings, addresses, media };
        self.core.send(from.connection, Channel::Datagram, traffic, lease);
    }

    fn renew(&mut self, from: Sender, renew: Renew) {
        if self.core.leaving.is_some() {
            return;
        }
        if !self.registry.prolong_lease(&mut self.core, from, &renew) {
            return self.ask_for_record(from, Traffic::Renew);
        }
        if renew.capacity.is_some() {
            self.replication.record_change(&mut self.core, self.registry.records(), from.node);
        }
        // Another hub may have come since it joined.
        let has_standby = self.replication.standby_of(from.node).is_some_and(|hub| self.core.remotes.is_up(hub));
        let lacks_standby = !has_standby && self.members.len() > 0;
        let content = if lacks_standby { LeaseContent::Full } else { LeaseContent::Short };
        self.grant_lease(from, Traffic::Renew, renew.version, content);
    }

    fn ask_for_record(&mut self, from: Sender, traffic: Traffic) {
        let unknown = RegistrationMessage::UnknownVersion;
        self.core.send(from.connection, Channel::Datagram, traffic, unknown);
    }

    fn withdraw(&mut self, from: Sender, version: Version) {
        if let Some(place) = self.registry.take_out(from.node, version) {
            self.core.counters.withdrawals += 1;
            self.on_record_removed(place, "withdrawn");
        }
        self.settle_claim(from.node);
        self.close_departed_node(from);
    }

    pub(super) fn on_record_removed(&mut self, place: PreviousEntry, cause: &'static str) {
        self.replication.record_change(&mut self.core, self.registry.records(), place.node);
        self.core.events.push_back(HubEvent::Gone { node: place.node, cause });
        self.summaries.summarize(&mut self.core, self.registry.records(), place.node, Some(&place));
        self.watches.tell_watchers(&mut self.core, self.registry.records(), place.node, Some(&place));
    }

    /// Other parts hear of the records that other hubs have changed.
    pub(super) fn tell_record_changes(&mut self) {
        while let Some(change) = self.registry.next_change() {
            match change {
                RecordChange::Claimed(place) => self.on_record_removed(place, "claimed"),
                RecordChange::Replicated { home, record } => self.registry.store_replica(&mut self.core, home, record),
                RecordChange::Registered(node, before) => {
                    self.watches.tell_watchers(&mut self.core, self.registry.records(), node, before.as_ref());
                }
            }
        }
    }

    fn on_claim(&mut self, node: NodeId, claim: Claim) {
        let home = claim.home;
        self.registry.handle_claim(&mut self.core, node, claim);
        self.mailbox.on_home(&mut self.core, node, home);
        self.tell_record_changes();
    }

    /// A node has gone: where it went counts that another hub has said.
    pub(super) fn settle_claim(&mut self, node: NodeId) {
        self.registry.apply_pending_claim(&mut self.core, node);
        self.tell_record_changes();
    }

    /// A node whose replica is here makes this hub its home.
    fn adopt(&mut self, from: Sender, adopt: Adopt) {
        if self.core.leaving.is_some() {
            let handover = RegistrationMessage::Handover;
            return self.core.send(from.connection, Channel::Reliable { flow: 0 }, Traffic::Join, handover);
        }
        let version = adopt.version;
        let home = match self.registry.adopt_node(&mut self.core, from, &adopt) {
            AdoptOutcome::Renewed => return self.grant_lease(from, Traffic::Join, version, LeaseContent::Full),
            AdoptOutcome::Unknown => return self.ask_for_record(from, Traffic::Join),
            AdoptOutcome::Adopted(_) if self.drops_forbidden_replica(from.node) => {
                return self.ask_for_record(from, Traffic::Join);
            }
            AdoptOutcome::Adopted(home) => home,
        };
        self.core.claim(from.node, version);
        self.on_record_published(from.node, None);
        if let Some(entry) = self.registry.records().get(from.node) {
            let (cell, services) = (entry.cell(), entry.services().clone());
            self.core.events.push_back(HubEvent::Published { node: from.node, cell, services });
        }
        self.grant_lease(from, Traffic::Join, version, LeaseContent::Full);
        if let Some(home) = home.filter(|_| adopt.is_failback == Some(true)) {
            self.note_own_load();
            self.members.rebalance_returned(&mut self.core, home);
        }
    }

    /// A node of this hub says where it was before, or another hub passes that on.
    fn on_home_changed(&mut self, from: Sender, moved: HomeChanged) {
        if !from.role.is_hub() {
            if let Some(moved) = self.registry.accept_move(&mut self.core, from, moved) {
                self.summaries.pass_on(&mut self.core, moved, RoutePlan::BEGIN);
            }
            return;
        }
        if moved.old_home == self.core.config.node {
            let claim = Claim { home: moved.new, version: moved.version, record: None };
            return self.on_claim(moved.node, claim);
        }
        let is_child = matches!(self.core.relation(from.node), Some(Relation::Child(_)));
        let way =
            if moved.direction == RouteDirection::Up && !is_child { RouteDirection::Down } else { moved.direction };
        self.summaries.pass_on(&mut self.core, moved, RoutePlan::from(way, from.node));
    }

    /// A hub takes a place below this one.
    pub(super) fn register_child(&mut self, from: Sender, tier: u8) {
        let is_parent = self.core.relation(from.node) == Some(Relation::Parent);
        if tier >= self.core.config.tier || is_parent {
            self.core.refused(from.node, "it enrolled as a child, but its tier is not below this one");
            return self.close(from.connection, "a child's tier must be below its parent's");
        }
        if self.core.relation(from.node) != Some(Relation::Child(tier)) {
            self.core.remotes.relate(from.node, Relation::Child(tier));
            self.summaries.reset_summary_outboxes(&mut self.core);
            self.watches.forward_watches(&mut self.core, self.summaries.blocks());
        }
    }
}
