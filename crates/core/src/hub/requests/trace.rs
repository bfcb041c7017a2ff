//! Telling who traces a request what becomes of it here, and passing on what
//! becomes of it further on.

use roost_wire::messages::{
    Hop, HopAction, HopReport, MAX_NAME_BYTES, MAX_TRACED_HOPS, Reason, Request, RequestMessage,
};
use roost_wire::{Channel, ConnectionId, NodeId, Role};

use super::routed_request::{RequestStage, RequestTarget, RoutedRequest};
use crate::hub::core::HubCore;
use crate::hub::requests::Requests;
use crate::hub::sender::Sender;
use crate::machine::Traffic;
use crate::request_key::RequestKey;

/// The most reports on one request that a hub makes or passes on.
const MAX_REPORTS: u8 = 32;

impl RoutedRequest {
    /// True if one more report on it goes out, which then counts.
    fn may_report(&mut self) -> bool {
        let may = self.spec.trace && self.reports < MAX_REPORTS;
        self.reports += u8::from(may);
        may
    }
}

impl Requests {
    /// Reports what has been done with a request, if it is traced.
    pub(crate) fn report(
        &mut self,
        core: &mut HubCore,
        key: RequestKey,
        step: HopAction,
        other: impl Into<Option<NodeId>>,
        reason: Option<Reason>,
    ) {
        let now = core.now;
        let Some(asked) = self.table.get_mut(key) else { return };
        if !asked.may_report() {
            return;
        }
        let (held, other) = (now.since(asked.came), other.into());
        let name = other.and_then(|other| core.remotes.get(other)).map(|remote| remote.name.clone());
        let hop = Hop {
            elapsed_us: u32::try_from(held.as_micros()).unwrap_or(u32::MAX),
            other,
            name: name.filter(|name| name.len() <= MAX_NAME_BYTES),
            ..core.own_hop(step, reason)
        };
        self.send_report(core, key, hop);
    }

    /// Reports to whom a request was handed.
    pub(crate) fn report_handed(&mut self, core: &mut HubCore, key: RequestKey, to: RequestTarget) {
        let is_relayed = self.table.get(key).is_some_and(|asked| asked.relay().is_some());
        let step = match to {
            RequestTarget::Hub { .. } => HopAction::PassedToHub,
            RequestTarget::Node(_) if is_relayed => HopAction::Relayed,
            RequestTarget::Node(_) => HopAction::HandedToProvider,
        };
        self.report(core, key, step, to.remote(), None);
    }

    /// Somebody further on tells what has become of a request: goes back the
    /// way that the request came.
    pub(crate) fn handle_trace(&mut self, core: &mut HubCore, from: Sender, traced: HopReport) {
        let now = core.now;
        let HopReport { id, requester, mut hop } = traced;
        // A provider speaks for itself; what hubs did is for hubs to say.
        if from.role == Role::Node && (hop.index != 1 || !hop.step.is_of_provider()) {
            core.counters.stray += 1;
            return;
        }
        let Some((key, _)) = self.handed_to(from, id, requester) else {
            core.counters.stray += 1;
            return;
        };
        let Some(asked) = self.table.get_mut(key) else { return };
        if hop.index >= MAX_TRACED_HOPS || !asked.may_report() {
            return;
        }
        if hop.index == 1 {
            // The certificate says who it is.
            hop.node = from.node;
            hop.round_trip_us = match asked.stage {
                RequestStage::Handed { sent, repeats: 0, .. } => {
                    let after = u32::try_from(now.since(sent).as_micros()).unwrap_or(u32::MAX);
                    Some(after.saturating_sub(hop.elapsed_us))
                }
                _ => None,
            };
        }
        hop.index += 1;
        self.send_report(core, key, hop);
    }

    fn send_report(&mut self, core: &mut HubCore, key: RequestKey, hop: Hop) {
        let Some(asked) = self.table.get(key) else { return };
        let (connection, traffic) = (asked.connection, Traffic::Lookup);
        let traced = HopReport { id: key.id, requester: asked.named_requester(), hop };
        core.send(connection, Channel::Datagram, traffic, RequestMessage::HopReport(traced));
    }
}

impl HubCore {
    /// Reports that a request is declined at once, without being remembered, if it is traced.
    pub(crate) fn report_declined(&mut self, connection: ConnectionId, request: &Request, reason: Reason) {
        if request.spec.trace {
            let hop = self.own_hop(HopAction::Exhausted, Some(reason));
            let traced = HopReport { id: request.id, requester: None, hop };
            self.send_answer(connection, RequestMessage::HopReport(traced));
        }
    }

    /// A step of this hub, which took no time and names nobody else.
    fn own_hop(&self, step: HopAction, reason: Option<Reason>) -> Hop {
        Hop {
            node: self.config.node,
            index: 1,
            tier: Some(self.config.tier),
            step,
            reason,
            elapsed_us: 0,
            other: None,
            name: None,
            round_trip_us: None,
            connected_us: None,
        }
    }
}
