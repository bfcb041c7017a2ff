//! Requests that a hub holds which has just started: whoever could serve them may not have come
//! back yet. Nodes that live say so within a third of a lease, and sooner if they notice. Who is
//! refused asks again soon, perhaps in another area, and is held again.

use std::collections::BTreeMap;
use std::time::Duration;

use super::routed_request::{RequestStage, RoutedRequest};
use super::table::RequestKey;
use crate::directory::DirectoryQuery;
use crate::hub::{Hub, MAX_PER_WAKE};
use crate::ids::NodeId;
use crate::machine::{Channel, Traffic};
use crate::scope::Scope;
use crate::time::Time;
use crate::wire::{Message, Reason, RequestMessage};

/// Longest time that a request is held after it came.
const GRACE: Duration = Duration::from_secs(2);

/// Least part of the requester's time that is left for the answer's way back.
const MARGIN: Duration = Duration::from_millis(500);

/// The queries of requests that may be held. No more than there are requests.
pub(super) type HoldableQueries = BTreeMap<RequestKey, (DirectoryQuery, Scope)>;

impl Hub {
    /// Holds a request of a node that nobody known serves, if that may change in time. Returns
    /// whether it does.
    pub(super) fn hold(&mut self, now: Time, key: RequestKey) -> bool {
        let Some(asked) = self.requests.get(key).filter(|asked| !asked.is_from_hub()) else { return false };
        if !self.requests.early.contains_key(&key) {
            return false;
        }
        let back = self.started.map_or(now, |started| started + self.config.lease / 3);
        let trip =
            self.remotes.connections.get(&asked.connection).map_or(Duration::ZERO, |connection| connection.rtt.pto());
        let margin = MARGIN.max(trip * 2);
        let until = back.min(asked.came + GRACE).min(Time::ZERO + asked.until.since(Time::ZERO + margin));
        if until <= now {
            return false;
        }
        self.requests.set_stage(key, RequestStage::Held { until });
        self.send_pending(key);
        true
    }

    /// Tells the requester that its request is taken care of.
    pub(super) fn send_pending(&mut self, key: RequestKey) {
        let Some(connection) = self.requests.get(key).map(|asked| asked.connection) else { return };
        self.send(
            connection,
            Channel::Datagram,
            Traffic::Lookup,
            &Message::Request(RequestMessage::Pending { id: key.id, requester: None, provider: None }),
        );
    }

    /// A node has come that may be what held requests wait for.
    pub(in crate::hub) fn serve_held(&mut self, now: Time, node: NodeId) {
        let Some(entry) = self.directory.get(node) else { return };
        let (services, cell) = (entry.services(), entry.cell());
        let fits = |query: &DirectoryQuery| {
            services.contains(query.service) && query.area.contains(cell) && query.except != Some(node)
        };
        let is_for = |key: &RequestKey| self.requests.early.get(key).is_some_and(|(query, _)| fits(query));
        for key in self.requests.held.iter().copied().filter(is_for).take(MAX_PER_WAKE).collect::<Vec<_>>() {
            self.retry_held(now, key);
        }
    }

    /// Looks once more for somebody who serves a held request.
    pub(super) fn retry_held(&mut self, now: Time, key: RequestKey) {
        let Some((query, scope)) = self.requests.early.get(&key).copied() else { return };
        self.requests.set_stage(key, RequestStage::LookingUp);
        let Some(asked) = self.requests.table.get_mut(&key) else { return };
        (asked.reason, asked.climbed) = (Reason::NotFound, false);
        match asked.named_provider() {
            Some(provider) => self.choose_named(now, key, provider),
            None => self.choose_or_lookup(now, key, (query.area, scope), query),
        }
    }
}

impl RequestStage {
    /// Time at which the hub looks after it, if nothing comes before.
    pub(super) fn due(&self) -> Option<Time> {
        match self {
            Self::Handed { hop_due, .. } => *hop_due,
            Self::Held { until } => Some(*until),
            Self::LookingUp | Self::Dialling(_) | Self::Declined { .. } => None,
        }
    }
}

impl RoutedRequest {
    /// True while it waits for a provider to come.
    pub(super) fn is_held(&self) -> bool {
        matches!(self.stage, RequestStage::Held { .. })
    }
}
