//! Flows outlive outages.
//!
//! While nothing comes, the node repeats the request under another number and with the same secret. A provider that has
//! kept its end of the flow knows the secret and continues. Another provider that accepts takes its place. The
//! repetition ends with the patience of the request.

use std::time::Duration;

use roost_wire::messages::{FlowDescription, ProbeMessage, Reason, ServiceRequest};
use roost_wire::{NodeId, RequestId, Time};

use super::OutgoingRequests;
use super::incoming_flow::{IncomingFlow, ProviderProbe};
use super::outgoing_request::{OutgoingRequest, RequestPhase, WithdrawnRequest};
use super::pace::Pace;
use super::subscription::SubscriptionState;
use crate::node::core::Core;
use crate::node::home::HomeRegistration;
use crate::node::timers::Timer;

/// The pause before the second attempt; doubled each time.
const FIRST_PAUSE: Duration = Duration::from_millis(250);

/// The longest pause, so that what can go on does so soon after.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The shortest rest of a stream that is worth asking for: a request has whole milliseconds.
const SHORTEST_REST: Duration = Duration::from_millis(1);

/// Between two looks at a flow that is silent.
pub(super) const LOOK: Duration = Duration::from_secs(1);

/// The shortest silence after which a provider is asked for a sign of life.
const HUSH: Duration = Duration::from_secs(1);

/// A stream that comes seldom is silent once so many of its usual pauses have gone by.
const USUAL_PAUSES: u32 = 3;

/// Unanswered questions after which a provider counts as gone: one, two and four probe time-outs
/// apart, as those to a home.
const QUESTIONS: u32 = 3;

impl OutgoingRequests {
    /// The flow of a request may have fallen silent: it is asked for again, or ends.
    pub(super) fn check_flow(&mut self, core: &mut Core, attach: &HomeRegistration, id: RequestId) {
        let Some(OutgoingRequest { phase: RequestPhase::Receiving(receiving), .. }) = self.asked.get_mut(&id) else {
            return;
        };
        let due = receiving.gives_up_at();
        if core.now >= due {
            let reason = receiving.why_it_ends();
            self.stop_provider(core, id, reason);
            return self.finish(core, id, Some(reason));
        }
        let next = receiving.probe_provider(core);
        let doubted_at = receiving.is_doubted_at();
        self.forget_overtaking(core.now, id);
        if core.now < doubted_at {
            return core.timers.set(Timer::Receive(id), next.into_iter().fold(doubted_at.min(due), Time::min));
        }
        core.timers.set(Timer::Receive(id), due.min(core.now + LOOK));
        self.ask_again(core, attach, id);
    }

    /// Puts a request again whose flow does not come, unless that is under way or is to wait.
    /// However many requests there are: each has one of these at most.
    pub(super) fn ask_again(&mut self, core: &mut Core, attach: &HomeRegistration, id: RequestId) {
        if core.timers.is_set(Timer::Resubscribe(id)) || self.replacement(id).is_some() {
            return;
        }
        let Some(OutgoingRequest {
            ticket,
            request,
            provider,
            nonce,
            commanded,
            phase: RequestPhase::Receiving(receiving),
            subscription,
            ..
        }) = self.asked.get(&id)
        else {
            return;
        };
        let left = subscription.ends.map(|ends| ends.since(core.now));
        if left.is_some_and(|left| left.is_zero()) {
            let reason = receiving.why_it_ends();
            self.stop_provider(core, id, reason);
            return self.finish(core, id, Some(reason));
        }
        // Whoever is next may have the same, and its provider may be elsewhere now.
        let aim = Some((receiving.provider, receiving.cell())).filter(|_| subscription.tries.is_multiple_of(2));
        let subscription =
            SubscriptionState { aim, replaces: Some(id), ends: subscription.ends, ..SubscriptionState::default() };
        let duration =
            left.map(|left| left.max(SHORTEST_REST)).filter(|_| request.service.is_stream()).or(request.duration);
        let request = ServiceRequest { trace: false, duration, resume: receiving.has(), ..request.clone() };
        let patience = receiving.gives_up_at().since(core.now);
        let (provider, nonce, commanded) = (provider.clone(), *nonce, *commanded);
        let again = OutgoingRequest {
            commanded,
            subscription,
            flow_nonce: Some(nonce),
            ..OutgoingRequest::new(*ticket, request, provider, core.now, patience)
        };
        self.forget_withdrawn(id);
        let again = self.number(core, again);
        self.begin_search(core, attach, again);
    }

    /// The connection over which a flow came has gone: its provider has a moment to come back.
    pub(super) fn look_soon(&self, core: &mut Core, id: RequestId) {
        if let Some(OutgoingRequest { phase: RequestPhase::Receiving(receiving), .. }) = self.asked.get(&id)
            && receiving.may_be_resumed()
            && receiving.has_begun()
        {
            core.timers.set(Timer::Receive(id), receiving.is_doubted_at().min(receiving.gives_up_at()));
        }
    }

    /// Nobody goes on with the flow of a request at present.
    pub(super) fn nobody_goes_on(&mut self, core: &mut Core, id: RequestId, reason: Reason, after: Option<Duration>) {
        let Some(asked) = self.asked.get_mut(&id) else { return };
        if reason == Reason::NotAllowed {
            return self.finish(core, id, Some(reason));
        }
        asked.subscription.tries += 1;
        let pause = (FIRST_PAUSE * (1 << asked.subscription.tries.min(4))).min(LONGEST_PAUSE);
        core.set(Timer::Resubscribe(id), pause.max(after.unwrap_or_default().min(LONGEST_PAUSE)));
    }

    /// The pause is over: a flow that does not come is asked for again.
    pub(super) fn on_pause_over(&mut self, core: &mut Core, attach: &HomeRegistration, id: RequestId) {
        if let Some(OutgoingRequest { phase: RequestPhase::Receiving(receiving), .. }) = self.asked.get(&id)
            && core.now >= receiving.is_doubted_at()
        {
            self.ask_again(core, attach, id);
        }
    }

    /// Something has come of a flow: nobody else need go on with it. The request for the rest is withdrawn.
    pub(super) fn on_flow_resumed(&mut self, core: &mut Core, id: RequestId) {
        core.timers.clear(Timer::Resubscribe(id));
        self.forget_withdrawn(id);
        let number = self.replacement(id);
        let again = number.and_then(|number| Some((number, self.remove(core, number)?)));
        if let Some((number, request)) = again {
            self.withdrawn.insert(id, WithdrawnRequest { number, request });
        }
        if let Some(OutgoingRequest { subscription, phase: RequestPhase::Receiving(receiving), .. }) =
            self.asked.get_mut(&id)
        {
            subscription.tries = 0;
            core.timers.set(Timer::Receive(id), receiving.gives_up_at().min(core.now + LOOK));
        }
    }

    /// The flow has no way any more, of which nobody is to blame: it is asked for at once.
    pub(super) fn lost(&mut self, core: &mut Core, attach: &HomeRegistration, id: RequestId) {
        if let Some(OutgoingRequest { phase: RequestPhase::Receiving(receiving), .. }) = self.asked.get_mut(&id) {
            receiving.mark_lost();
            self.check_flow(core, attach, id);
        }
    }

    /// True if what is offered goes on with what request `id` is to replace. Another object does not.
    pub(super) fn fits_what_it_replaces(&self, id: RequestId, flow: &FlowDescription) -> bool {
        let old =
            self.asked.get(&id).and_then(|asked| asked.subscription.replaces).and_then(|old| self.asked.get(&old));
        match old.map(|old| &old.phase) {
            Some(RequestPhase::Receiving(receiving)) => receiving.may_go_on_with(flow),
            _ => true,
        }
    }

    /// A provider would begin anew with another object: what has come is of no use with that, and
    /// if it came from the same provider nobody will go on with it.
    pub(super) fn on_object_changed(&mut self, core: &mut Core, id: RequestId, provider: NodeId) {
        let Some(old) = self.asked.get(&id).and_then(|asked| asked.subscription.replaces) else { return };
        match self.asked.get(&old).map(|old| &old.phase) {
            Some(RequestPhase::Receiving(receiving)) if receiving.provider == provider => {
                self.finish(core, old, Some(Reason::SourceFailed));
            }
            _ => self.fail(core, id, Reason::NotFound),
        }
    }
}

impl IncomingFlow {
    /// Asks a provider that has fallen silent for a sign of life, and says when to look again. One
    /// that has started again knows nothing of the flow, and nobody else tells of that.
    fn probe_provider(&mut self, core: &mut Core) -> Option<Time> {
        if self.relayed || self.is_broken() || self.lost.is_some() {
            return None;
        }
        if !self.has_begun() || self.waits_for_reader() {
            return Some(core.now + LOOK);
        }
        let asks_at = self.heard + self.hush();
        if core.now < asks_at {
            return Some(asks_at);
        }
        let first = ProviderProbe { since: core.now, next: core.now, tries: 0 };
        let ProviderProbe { since, next, tries } = self.question.unwrap_or(first);
        if core.connections.get(self.connection).is_none_or(|connection| connection.heard > since) {
            // The provider is there, and has nothing to send.
            return None;
        }
        if core.now < next {
            return Some(next);
        }
        if tries == QUESTIONS {
            self.mark_lost();
            return None;
        }
        let token = core.random.next_u64() as u32;
        core.send(self.connection, ProbeMessage::Ping(token));
        let next = core.now + core.pto(self.connection) * (1 << tries);
        self.question = Some(ProviderProbe { since, next, tries: tries + 1 });
        Some(next)
    }

    /// The silence after which its provider is asked: a stream's usual pauses are none.
    fn hush(&self) -> Duration {
        let pause = self.measured_pace().map_or(Duration::ZERO, Pace::pause);
        HUSH.max(pause * USUAL_PAUSES)
    }

    /// True if its outage may be outlived: nothing that is reflected, of which the owner knows.
    pub(super) fn may_be_resumed(&self) -> bool {
        !self.is_reflected() && !self.has_ended()
    }
}
