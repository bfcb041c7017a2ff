//! Connections of a hub that come and go, and the ends of its dials.

use std::time::Duration;

use roost_wire::{Address, ConnectionId, DialId, NodeId, RemoteIdentity, Role};

use super::mesh::DialPurpose;
use super::remotes::LostConnection;
use super::{Hub, HubEvent};
use crate::machine::Transmit;

impl Hub {
    pub(super) fn connection_up(
        &mut self,
        connection: ConnectionId,
        dial: Option<DialId>,
        remote: RemoteIdentity,
        address: Address,
        rtt: Duration,
    ) {
        let now = self.core.now;
        if let Some(reason) = self.core.refusal_of(&remote, dial.is_some()) {
            self.core.out.push_back(Transmit::Close { connection, reason: reason.to_owned() });
            if remote.node == self.core.config.node {
                self.core.mesh.on_self_dialed(dial);
                self.core.events.push_back(HubEvent::SameIdentity { address });
            }
            return self.dial_ended(dial, Err(reason));
        }
        let (node, role) = (remote.node, remote.role);
        let is_relabelled = self.core.remotes.has_other_labels(&remote);
        let first = self.core.remotes.add_connection(now, connection, remote.clone(), address.clone(), rtt);
        self.registry.mark_heard(now, node);
        match is_relabelled {
            true => self.judge_again(),
            false => self.judge_record(node),
        }
        self.core.greet(connection, node);
        if let Some(spare) = self.core.remotes.excess_connection(node, connection) {
            self.close(spare, "one connection too many");
        }
        match (role.is_hub(), first) {
            (true, true) => self.core.events.push_back(HubEvent::HubUp { remote, address }),
            (false, true) => self.core.events.push_back(HubEvent::Attached { remote, address }),
            (_, false) => {}
        }
        self.dial_ended(dial, Ok(node));
        if role.is_hub() && first {
            self.summaries.reset_summary_outboxes(&mut self.core);
            self.watches.forward_watches(&mut self.core, self.summaries.blocks());
            self.register_all();
            self.members.on_hub_connected(&mut self.core, node);
            self.progress.on_hub_connected(&self.core, node);
        }
        if role.is_hub() {
            self.replication.resync_if_stale(&mut self.core, node);
        }
    }

    pub(super) fn connection_down(&mut self, connection: ConnectionId, reason: &str) {
        let now = self.core.now;
        let Some(LostConnection { node, role, last }) = self.core.remotes.down(connection) else { return };
        self.registry.close_receiver(node, connection, last);
        self.with_requests(|requests, turn| requests.lose_connection(turn, node, connection));
        if !last {
            self.watches.move_watches(&mut self.core, node, connection);
            if role == Role::SuperNode {
                self.resend_state(node);
            }
            return;
        }
        let Some(remote) = self.core.remotes.forget(now, node) else { return };
        self.core.documents.disconnected(now, node);
        for key in remote.requests {
            self.requests.drop_request_of(node, key);
        }
        self.watches.drop_watches_of(&mut self.core, node);
        if role.is_hub() {
            self.registry.apply_contested_claims(&mut self.core, node);
            self.tell_record_changes();
            self.core.events.push_back(HubEvent::HubDown { node, reason: reason.to_owned() });
            self.on_hub_lost(node, now.since(remote.since), reason);
            self.registry.suspend_registered(&mut self.core, node);
        } else {
            self.registry.suspend(node);
            self.settle_claim(node);
            self.rooms.room_member_lost(&mut self.core, node);
            self.core.events.push_back(HubEvent::Detached { node, reason: reason.to_owned() });
        }
    }

    /// One side does not admit the other any more: the node is not named to anybody for the rest of its lease.
    pub(super) fn forget_refused(&mut self, node: NodeId) {
        let records = self.registry.records();
        let is_own = !self.core.remotes.is_up(node) && records.home_of(node).is_none();
        let version = records.get(node).filter(|_| is_own).map(|record| record.version());
        if let Some(place) = version.and_then(|version| self.registry.take_out(node, version)) {
            self.on_record_removed(place, "refused");
        }
    }

    /// Both ends say again what the other is to know: a connection with this remote is gone, and with it perhaps
    /// some of what was said reliably.
    fn resend_state(&mut self, node: NodeId) {
        self.watches.forget_changes_of(&mut self.core, self.summaries.blocks(), node);
        self.replication.resync_if_stale(&mut self.core, node);
        self.summaries.resend_summary(&mut self.core, node);
    }

    /// The last connection with a hub is gone; it was there for as long as it `stayed`.
    fn on_hub_lost(&mut self, node: NodeId, stayed: Duration, reason: &str) {
        self.core.lose_hub(node, stayed, reason);
        self.summaries.summaries_lost_hub(&mut self.core, node);
        self.summaries.reset_summary_outboxes(&mut self.core);
        self.with_requests(|requests, turn| requests.requests_lost_hub(turn, node));
        self.members.on_hub_disconnected(&mut self.core, node);
        self.replication.standby_dial_failed(&mut self.core, node);
        self.hub_lookups.drop_silent_hub(&mut self.core, node);
        self.answer_waiters();
        self.watches.forget_changes_of(&mut self.core, self.summaries.blocks(), node);
    }

    /// A dial has led to a remote, or to nothing.
    pub(super) fn dial_ended(&mut self, dial: Option<DialId>, outcome: Result<NodeId, &str>) {
        let reached = outcome.ok();
        match self.core.end_dial(dial, outcome) {
            Some(DialPurpose::Member(member, cost)) => match reached {
                Some(node) => {
                    self.core.advice.refund(cost);
                    self.members.member_reached(&mut self.core, node);
                }
                None => self.members.member_unreachable(&mut self.core, member),
            },
            Some(DialPurpose::Standby(hub)) => match reached {
                Some(_) => self.replication.standby_reached(&mut self.core, hub),
                None => self.replication.standby_dial_failed(&mut self.core, hub),
            },
            Some(DialPurpose::Provider { node, waiting, .. }) => {
                for key in waiting {
                    let is_reached = reached.is_some();
                    self.with_requests(|requests, turn| requests.dialled_for(turn, key, node, is_reached));
                }
            }
            Some(DialPurpose::Hub(_)) | None => {}
        }
        if let Some(node) = reached {
            self.core.start_pinging(node);
        }
    }
}
