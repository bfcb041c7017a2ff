//! Answers of hubs to a request that nobody has accepted: nobody, not yet, or who there is.

use std::time::Duration;

use roost_wire::messages::{Decline, LookupResult, ProviderAddress, Reason, RequestMode};
use roost_wire::{ConnectionId, RequestId};

use super::OutgoingRequests;
use super::outgoing_request::{OutgoingRequest, RequestPhase, SHORT_PAUSE};
use crate::node::api::NodeEvent;
use crate::node::core::Core;
use crate::node::home::HomeRegistration;
use crate::node::timers::Timer;

/// Shortest wait before a request is put again once a provider was said to be on its way.
pub(super) const PENDING_PATIENCE: Duration = Duration::from_secs(2);

impl OutgoingRequest {
    /// The sound connection with a provider that has the call, although the hub takes it for silent.
    fn sound_run(&self, core: &Core) -> Option<ConnectionId> {
        // A provider that was asked directly knows best, and a tunnel is no sign of life.
        let is_own = |connection| core.connections.get(connection).is_some_and(|entry| entry.own.tunnel.is_none());
        let is_sound =
            |connection: &ConnectionId| core.connections.is_sound(core.now, *connection) && is_own(*connection);
        if self.is_direct() { None } else { self.body.direct_runs().find(is_sound) }
    }
}

impl OutgoingRequests {
    /// The last word of a hub. Returns whether it was that the hub is leaving.
    pub(crate) fn on_decline(
        &mut self,
        core: &mut Core,
        attach: &HomeRegistration,
        connection: ConnectionId,
        mut decline: Decline,
    ) -> bool {
        let id = decline.id;
        let waiting = |asked: &&mut OutgoingRequest| {
            asked.is_asked_over(connection) && !matches!(asked.phase, RequestPhase::Receiving(_))
        };
        let Some(asked) = self.asked.get_mut(&id).filter(waiting) else {
            core.counters.stale += 1;
            return false;
        };
        if asked.via != Some(connection) {
            // The last word is the home's, or the standby's when it is the home.
            return false;
        }
        if asked.last == Some(Reason::Forbidden) && decline.reason == Reason::Unreachable {
            // The hub takes the provider for silent that this node has refused.
            decline.reason = Reason::Forbidden;
        }
        if decline.reason == Reason::Unreachable
            && let Some(run) = asked.sound_run(core)
        {
            // Without a sign of life the hub is believed the next time. A provider that has one but lost the call is waited
            // for until the deadline.
            core.doubt(run);
            return false;
        }
        asked.sentence = decline.sentence.take().filter(|_| decline.reason == Reason::SourceFailed);
        asked.retry_after = decline.retry_after_ms.map(|millis| Duration::from_millis(millis.into()));
        if decline.reason == Reason::Leaving && !asked.is_direct() {
            // The request goes to the next home.
            return true;
        }
        if self.continue_by_multicast(core, attach, id, decline.reason) {
            return false;
        }
        if decline.reason == Reason::Busy && self.ask_for_reflected(core, attach, id) {
            return false;
        }
        let Some(asked) = self.asked.get_mut(&id) else { return false };
        match decline.reason {
            Reason::NoTransport if asked.may_be_relayed(core) => {
                asked.request.mode = RequestMode::Relay;
                self.ask_anew(core, attach, id);
            }
            reason if asked.may_be_premature(core, reason) => {
                asked.last = Some(reason);
                let pause = asked.retry_after.unwrap_or(asked.pause_after_refusal());
                let id = self.renumber(core, id);
                core.set(Timer::Ask(id), pause.clamp(SHORT_PAUSE, Duration::from_secs(1)));
            }
            reason => self.fail(core, id, reason),
        }
        false
    }

    /// A provider is on its way.
    pub(crate) fn on_pending(
        &mut self,
        core: &mut Core,
        connection: ConnectionId,
        id: RequestId,
        provider: Option<ProviderAddress>,
    ) {
        let Some(asked) = self.asked.get_mut(&id).filter(|asked| asked.is_asked_over(connection)) else { return };
        if matches!(asked.phase, RequestPhase::Waiting) {
            asked.answered(core);
            asked.phase = RequestPhase::Pending;
            let pto = core.pto(connection);
            core.set(Timer::Ask(id), PENDING_PATIENCE.max(pto * 2));
        }
        if let Some(ProviderAddress { node, addresses }) = provider {
            let addresses = core.told(connection, addresses);
            asked.await_provider(core, id, connection, ProviderAddress { node, addresses });
        }
    }

    pub(crate) fn on_lookup_result(&mut self, core: &mut Core, connection: ConnectionId, found: LookupResult) {
        let id = found.id;
        // A standby that knows of nobody gives no answer while the home may know more.
        let counts = |asked: &OutgoingRequest| asked.via == Some(connection) || !found.candidates.is_empty();
        let ours = |asked: &&OutgoingRequest| {
            asked.is_asked_over(connection) && asked.request.mode == RequestMode::Lookup && counts(asked)
        };
        let Some(ticket) = self.asked.get(&id).filter(ours).map(|asked| asked.ticket) else {
            core.counters.stale += 1;
            return;
        };
        self.remove(core, id);
        core.emit(NodeEvent::LookupResult { ticket, found });
    }
}
