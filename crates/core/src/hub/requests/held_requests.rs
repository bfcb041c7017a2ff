//! Requests that a hub holds which has just started: whoever could serve them may not have come
//! back yet. Nodes that live say so within a third of a lease, and sooner if they notice. Who is
//! refused asks again soon, perhaps in another area, and is held again.

use std::time::Duration;

use roost_wire::messages::{Reason, RequestMessage};
use roost_wire::{NodeId, Time};

use super::routed_request::RequestStage;
use crate::directory::DirectoryQuery;
use crate::hub::core::HubCore;
use crate::hub::registry::Records;
use crate::hub::requests::{RequestTurn, Requests};
use crate::hub::timers::MAX_PER_WAKE;
use crate::request_key::RequestKey;

/// Longest time that a request is held after it came.
const GRACE: Duration = Duration::from_secs(2);

/// Least part of the requester's time that is left for the answer's way back.
const MARGIN: Duration = Duration::from_millis(500);

impl Requests {
    /// Holds a request of a node that nobody known serves, if that may change in time. Returns
    /// whether it does.
    pub(crate) fn hold(&mut self, core: &mut HubCore, key: RequestKey) -> bool {
        let now = core.now;
        let Some(asked) = self.table.get(key).filter(|asked| !asked.is_from_hub()) else { return false };
        if !self.table.early.contains_key(&key) {
            return false;
        }
        let back = core.started.map_or(now, |started| started + core.config.lease / 3);
        let trip =
            core.remotes.connections.get(&asked.connection).map_or(Duration::ZERO, |connection| connection.rtt.pto());
        let margin = MARGIN.max(trip * 2);
        let until = back.min(asked.came + GRACE).min(Time::ZERO + asked.until.since(Time::ZERO + margin));
        if until <= now {
            return false;
        }
        self.table.set_stage(key, RequestStage::Held { until });
        self.send_pending(core, key);
        true
    }

    /// Tells the requester that its request is taken care of.
    pub(super) fn send_pending(&mut self, core: &mut HubCore, key: RequestKey) {
        let Some(connection) = self.table.get(key).map(|asked| asked.connection) else { return };
        core.send_answer(connection, RequestMessage::Pending { id: key.id, requester: None, provider: None });
    }

    /// The held requests that a node which has come may serve.
    pub(crate) fn held_for(&self, records: Records<'_>, node: NodeId) -> Vec<RequestKey> {
        if self.table.held.is_empty() {
            return Vec::new();
        }
        let Some(entry) = records.get(node) else { return Vec::new() };
        let (services, cell) = (entry.services(), entry.cell());
        let fits =
            |query: &DirectoryQuery| query.means(services) && query.area.contains(cell) && query.except != Some(node);
        let is_for = |key: &RequestKey| self.table.early.get(key).is_some_and(|(query, _)| fits(query));
        self.table.held.iter().copied().filter(is_for).take(MAX_PER_WAKE).collect()
    }

    /// Looks once more for somebody who serves a held request.
    pub(crate) fn retry_held(&mut self, turn: &mut RequestTurn<'_>, key: RequestKey) {
        let Some((query, scope)) = self.table.early.get(&key).cloned() else { return };
        self.table.set_stage(key, RequestStage::LookingUp);
        let Some(asked) = self.table.get_mut(key) else { return };
        (asked.reason, asked.climbed) = (Reason::NotFound, false);
        match asked.named_provider() {
            Some(provider) => self.choose_named(turn, key, provider),
            None => self.choose_or_lookup(turn, key, query.area, scope, query),
        }
    }
}
