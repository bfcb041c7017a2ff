//! A request or lookup: its state, its messages, its repetition.

use std::time::Duration;

use roost_wire::messages::{
    ProviderAddress, Reason, ReflectionPolicy, Request, RequestMessage, RequestMode, RequestSpec, Sentence,
    ServiceRequest,
};
use roost_wire::{Area, ConnectionId, NodeId, Nonce, RequestId, Time};

use super::incoming_flow::IncomingFlow;
use super::outgoing_body::OutgoingBody;
use super::search_methods::SearchMethods;
use super::subscription::SubscriptionState;
use super::trace::Traces;
use crate::node::api::{Provider, Ticket};
use crate::node::core::Core;
use crate::node::timers::Timer;

/// The pause after a refusal that may turn out otherwise.
pub(super) const SHORT_PAUSE: Duration = Duration::from_millis(250);

/// The wait of a request for a hub that has just started to hear of everyone.
const YOUNG_HUB_PATIENCE: Duration = Duration::from_secs(3);

/// The limit of requests that meet with silence: on a path that loses, silence is not death.
const UNREACHABLE_ASKS: u32 = 5;

/// The limit for a stream under way, whose provider may be on its way to another home: it is asked for in
/// short turns, for as long in all.
const LOST_STREAM_ASKS: u32 = 15;

/// The limit for a way upward that is cut: the super nodes have tried it twice.
const CUT_OFF_ASKS: u32 = 1;

/// The longest pause between two repetitions of a request, unless the first one is longer.
const LONGEST_PAUSE: Duration = Duration::from_secs(4);

#[derive(Debug)]
pub(super) struct OutgoingRequest {
    pub(super) ticket: Ticket,
    pub(super) request: ServiceRequest,
    /// The provider that it names.
    pub(super) provider: Option<Provider>,
    pub(super) nonce: Nonce,
    /// The secret of a flow that it is to continue: its provider knows the flow by it, under whatever number.
    pub(super) flow_nonce: Option<Nonce>,
    pub(super) commanded: Time,
    /// Until when an acceptance is of use.
    pub(super) deadline: Time,
    pub(super) phase: RequestPhase,
    pub(super) ways: SearchMethods,
    pub(super) via: Option<ConnectionId>,
    /// The connection with the standby, if that was asked as well.
    pub(super) hedge: Option<ConnectionId>,
    /// The times at which it was sent first and last.
    pub(super) first_sent: Time,
    pub(super) sent: Time,
    pub(super) tries: u32,
    /// The count of its numbers so far.
    pub(super) numbers: u32,
    /// The reason of the failure if nothing better turns up.
    pub(super) last: Option<Reason>,
    /// The words that came with the last refusal.
    pub(super) sentence: Option<Sentence>,
    /// The pause that came with the last refusal.
    pub(super) retry_after: Option<Duration>,
    pub(super) subscription: SubscriptionState,
    pub(super) body: OutgoingBody,
    /// The provider that has it, if it may be dialled.
    pub(super) meeting: ProviderDial,
}

/// A request for the rest of a flow, which came again before any answer.
#[derive(Debug)]
pub(super) struct WithdrawnRequest {
    pub(super) number: RequestId,
    pub(super) request: OutgoingRequest,
}

/// The provider that has a request.
#[derive(Debug, Default)]
pub(super) struct ProviderDial {
    pub(super) at: Option<ProviderAddress>,
    /// The one that was dialled last, and how many were.
    pub(super) met: Option<NodeId>,
    pub(super) count: u8,
}

#[derive(Debug)]
pub(super) enum RequestPhase {
    /// There is no home to ask.
    NoHub,
    /// The home is being dialled over another transport, or the provider that
    /// the request names.
    Reaching,
    /// Nothing heard yet.
    Waiting,
    /// A provider reaches for this node.
    Pending,
    /// Accepted.
    Receiving(Box<IncomingFlow>),
}

impl OutgoingRequest {
    /// A request that nobody was asked yet.
    pub(super) fn new(
        ticket: Ticket,
        request: ServiceRequest,
        provider: Option<Provider>,
        now: Time,
        deadline: Duration,
    ) -> Self {
        Self {
            ticket,
            request,
            provider,
            nonce: Nonce::from_u64(0),
            flow_nonce: None,
            commanded: now,
            deadline: now + deadline,
            phase: RequestPhase::NoHub,
            ways: SearchMethods::default(),
            via: None,
            hedge: None,
            first_sent: now,
            sent: now,
            tries: 0,
            numbers: 0,
            last: None,
            sentence: None,
            retry_after: None,
            subscription: SubscriptionState::default(),
            body: OutgoingBody::default(),
            meeting: ProviderDial::default(),
        }
    }

    /// True if it goes to a known provider, without a hub.
    pub(super) fn is_direct(&self) -> bool {
        self.provider.is_some() && !self.subscription.is_requested
    }

    /// True if nothing at all has come from the hub since the request was made.
    pub(super) fn is_hub_silent(&self, core: &Core) -> bool {
        let heard = self.via.and_then(|connection| core.connections.get(connection)).map(|connection| connection.heard);
        heard.is_none_or(|heard| heard <= self.commanded)
    }

    /// True if it waits for a home, and not for the moment to ask that one again.
    pub(super) fn waits_for_home(&self) -> bool {
        matches!(self.phase, RequestPhase::NoHub) && self.last.is_none()
    }

    /// True if a refusal may turn out otherwise in a moment: because the hub is
    /// young, because a provider's silence was but loss, or because the home has
    /// changed and the providers, who had the same home, are on their way to
    /// another one, too.
    pub(super) fn may_be_premature(&self, core: &Core, reason: Reason) -> bool {
        let most = if self.is_for_lost_stream() { LOST_STREAM_ASKS } else { UNREACHABLE_ASKS };
        match reason {
            // A provider may have run a call, and would run it again.
            _ if self.is_direct() || self.body.was_given() => false,
            Reason::Unreachable if self.numbers <= most => true,
            Reason::UnreachableAbove if self.numbers <= CUT_OFF_ASKS => true,
            Reason::NotYetKnown if core.now.since(self.commanded) < YOUNG_HUB_PATIENCE => true,
            Reason::NotYetKnown | Reason::NotFound | Reason::Unreachable => core.now < core.unsettled_until,
            _ => false,
        }
    }

    /// Pause before a refusal that may turn out otherwise is asked about again.
    pub(super) fn pause_after_refusal(&self) -> Duration {
        let doublings = if self.is_for_lost_stream() { 1 } else { self.numbers.clamp(1, 3) };
        SHORT_PAUSE * (1 << doublings) / 2
    }

    /// True if it asks for another way of a stream under way, of which nothing comes meanwhile.
    fn is_for_lost_stream(&self) -> bool {
        self.subscription.replaces.is_some()
    }

    /// The specification that is sent now: without what stays at this node, aimed where the provider is.
    fn spec(&self) -> RequestSpec {
        let is_lookup = self.request.mode == RequestMode::Lookup;
        let is_reflectable = self.subscription.able && !self.subscription.is_requested;
        let mut request = self.request.clone();
        request.area = self.subscription.aim.map_or(request.area, |(_, cell)| Area::Exact(cell));
        request.provider = request.provider.filter(|_| is_lookup);
        request.reflect = match request.reflect {
            ReflectionPolicy::IfBusy if !is_reflectable && !is_lookup => ReflectionPolicy::Never,
            reflect => reflect,
        };
        request.into()
    }

    /// True if the hub could not relay for want of an allowed transport to this
    /// node only: asked over one it can.
    pub(super) fn may_be_relayed(&self, core: &Core) -> bool {
        let asked_over = self
            .via
            .and_then(|connection| core.connections.get(connection))
            .map(|connection| connection.address.scheme);
        let unfit = asked_over.is_some_and(|scheme| !self.request.transports.contains(scheme));
        !self.is_direct() && self.request.mode == RequestMode::Forward && unfit
    }

    /// Sends the request over `connection` and waits.
    pub(super) fn send(&mut self, core: &mut Core, traces: &mut Traces, id: RequestId, connection: ConnectionId) {
        let request = self.wire_request(core, id);
        core.send(connection, RequestMessage::Request(request));
        traces.record_sent(core, self.ticket, id, connection);
        core.set(Timer::Ask(id), pause(self.first_pause(core, connection), self.tries, self.due().since(core.now)));
        self.phase = RequestPhase::Waiting;
        self.via = Some(connection);
        self.subscription.hub = core.connections.get(connection).map(|connection| connection.node);
        self.sent = core.now;
        if self.tries == 0 {
            self.first_sent = core.now;
        }
        self.tries += 1;
    }

    /// The pause before its first repetition: one and a half probe time-outs, or two if providers were found
    /// to answer between the two.
    fn first_pause(&self, core: &Core, connection: ConnectionId) -> Duration {
        let pto = core.pto(connection);
        if core.is_patient && self.is_for_providers() { pto * 2 } else { pto * 3 / 2 }
    }

    /// True if somebody behind the hub is to answer, who may be as far from it as this node.
    fn is_for_providers(&self) -> bool {
        self.request.mode != RequestMode::Lookup && !self.is_direct()
    }

    /// The first answer has come: if it was on its way when the request was
    /// repeated, the next ones wait longer.
    pub(super) fn answered(&self, core: &mut Core) {
        let Some(connection) = self.via.filter(|_| self.tries == 2 && self.is_for_providers()) else { return };
        core.is_patient |= core.now.since(self.commanded) < core.pto(connection) * 2;
    }

    /// The request as it is put now.
    pub(super) fn wire_request(&self, core: &Core, id: RequestId) -> Request {
        let deadline = self.due().since(core.now);
        Request {
            id,
            nonce: self.nonce,
            spec: self.spec(),
            deadline_ms: u32::try_from(deadline.as_millis()).unwrap_or(u32::MAX),
            route: None,
            copy_target: self.copy_target(),
            connect_to: None,
        }
    }

    /// True if it was put over `connection` and an answer may come over it.
    pub(super) fn is_asked_over(&self, connection: ConnectionId) -> bool {
        self.via == Some(connection) || self.hedge == Some(connection)
    }

    /// True if an answer may come over `connection`, should the hub relay it.
    pub(super) fn may_go_over(&self, core: &Core, connection: ConnectionId) -> bool {
        let relayed = self.request.mode == RequestMode::Relay;
        core.connections
            .get(connection)
            .is_some_and(|connection| !relayed || self.request.transports.contains(connection.address.scheme))
    }
}

/// The pause before a request is repeated: the first pause, doubled each time, but at most half of the time
/// that is left, so that an answer that was lost is said again while it is of use.
fn pause(first: Duration, tries: u32, left: Duration) -> Duration {
    (first * (1 << tries.min(6))).min(LONGEST_PAUSE.max(first)).min((left / 2).max(first))
}

#[cfg(test)]
mod tests {
    use super::*;
    use roost_wire::service::Service;

    #[test]
    fn lost_stream_retries_in_short_turns() {
        let now = Time::ZERO;
        let wanted = ServiceRequest::new(Service::Video, Area::Anywhere);
        let asked = |numbers, replaces| {
            let taking = SubscriptionState { replaces, ..SubscriptionState::default() };
            OutgoingRequest {
                numbers,
                subscription: taking,
                ..OutgoingRequest::new(Ticket(1), wanted.clone(), None, now, Duration::from_secs(10))
            }
        };
        let pauses = |replaces, most| (1..=most).map(move |numbers| asked(numbers, replaces).pause_after_refusal());
        let (usual, lost) = (pauses(None, UNREACHABLE_ASKS), pauses(Some(RequestId(1)), LOST_STREAM_ASKS));
        assert!(lost.clone().all(|pause| pause == SHORT_PAUSE));
        assert_eq!(usual.sum::<Duration>(), lost.sum::<Duration>());
    }

    #[test]
    fn request_retries_back_off_until_deadline() {
        for (first, deadline) in [(75, 2_000), (75, 10_000), (75, 60_000), (600, 10_000), (4_500, 30_000)] {
            let [first, deadline] = [first, deadline].map(Duration::from_millis);
            let (mut left, mut tries) = (deadline, 0);
            while left > first {
                let pause = pause(first, tries, left);
                assert!(pause * 2 <= left || pause <= first, "{pause:?} of the {left:?} of {deadline:?}");
                (left, tries) = (left.saturating_sub(pause), tries + 1);
            }
            assert!(tries <= 30, "{tries} in {deadline:?}");
        }
    }
}
