//! Taking a stream that super nodes reflect. It is asked for as any other, with
//! where it is wanted; what its provider says directly is what opens it. Its
//! packets come another way, of which the owner knows how it does: when that
//! way breaks or the home is another one, the same is asked for again while
//! the old way goes on, and whichever is accepted takes its place.

use std::time::Duration;

use roost_wire::messages::{CopyTarget, Reason, ReflectionPolicy, Rekey, RequestMode, ServiceRequest, StreamKeys};
use roost_wire::{ConnectionId, Epoch, EpochSecret, NodeId, RequestId, Role, Scope, StreamTag};

use super::OutgoingRequests;
use super::incoming_flow::IncomingFlow;
use super::outgoing_request::{OutgoingRequest, RequestPhase};
use super::search_methods::SearchMethods;
use super::subscription::SubscriptionState;
use crate::node::api::{Discovery, NodeEvent, Provider, Ticket};
use crate::node::core::Core;
use crate::node::home::HomeRegistration;
use crate::node::timers::Timer;

/// Between two reports to the provider of a reflected stream, which only say
/// that it is still wanted.
pub(super) const REPORT_PAUSE: Duration = Duration::from_secs(10);

/// The longest wait for the acceptance of another way.
const PATIENCE: Duration = Duration::from_secs(10);

/// Time for which a stream of which nothing comes is asked for again.
const LOST_PATIENCE: Duration = Duration::from_secs(30);

/// The searches in vain for another way while the old one goes on.
const TRIES: u32 = 5;

/// The pause after the first time in vain; doubled each time.
const FIRST_PAUSE: Duration = Duration::from_millis(500);

/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(8);

/// The time of the provider to come back over another connection.
const RETURN: Duration = Duration::from_secs(5);

impl IncomingFlow {
    /// Takes what opens the next epoch; returns it if it is news.
    pub(super) fn rekey(&mut self, rekey: &Rekey) -> Option<(Epoch, EpochSecret)> {
        let Rekey { stream, epoch, secret, .. } = rekey;
        self.subscription()?.advance(*stream, *epoch).then(|| (*epoch, secret.clone()))
    }

    /// Takes what an acceptance says once more; returns what is news.
    pub(super) fn keys(&mut self, reflected: &StreamKeys) -> Vec<(Epoch, EpochSecret)> {
        let StreamKeys { stream, epoch, secret, next } = reflected.clone();
        let Some(subscription) = self.subscription() else { return Vec::new() };
        let keys = [Some((epoch, secret)), next].into_iter().flatten();
        keys.filter(|(epoch, _)| subscription.advance(stream, *epoch)).collect()
    }
}

impl OutgoingRequest {
    /// The destination of a copy of the reflected stream, if one is wanted.
    pub(super) fn copy_target(&self) -> Option<CopyTarget> {
        let (to, tag) = self.subscription.copy_target?;
        let named = self.provider.as_ref().map(|provider| provider.node);
        let provider = self.subscription.aim.map(|(node, _)| node).or(named);
        Some(CopyTarget { to, tag, hops: 0, provider, is_resuming: self.subscription.resumes.then_some(true) })
    }
}

impl OutgoingRequests {
    /// Why a request for a reflected stream cannot be made; `None` if it can,
    /// or is none.
    pub(super) fn not_reflected(
        &self,
        core: &Core,
        request: &ServiceRequest,
        provider: Option<&Provider>,
    ) -> Option<&'static str> {
        if request.reflect != ReflectionPolicy::Always || self.can_take(core, request, provider) {
            return None;
        }
        Some(match () {
            () if !request.service.is_stream() => "only streams are reflected",
            () if core.hub_role == Role::Server => "a server reflects no streams: request it instead",
            () if self.media.is_none() => "this node takes no reflected streams",
            () => "super nodes reflect a stream: it is neither relayed nor limited to the subnet",
        })
    }

    /// True if a request may be answered by a reflected stream.
    pub(super) fn can_take(&self, core: &Core, request: &ServiceRequest, provider: Option<&Provider>) -> bool {
        let is_direct = provider.is_some() && request.reflect != ReflectionPolicy::Always;
        request.reflect != ReflectionPolicy::Never
            && request.params.is_empty()
            && self.media.is_some()
            && core.hub_role == Role::SuperNode
            && request.mode == RequestMode::Forward
            && request.service.is_stream()
            && request.scope != Scope::Subnet
            && !(self.multicast && self.discovery == Discovery::Multicast)
            && !is_direct
    }

    /// Draws a tag for a request that has a new number, and tells the owner.
    pub(super) fn draw_copy_target(&mut self, core: &mut Core, asked: &mut OutgoingRequest) {
        asked.subscription.copy_target = None;
        if let Some(to) = self.media.filter(|_| asked.subscription.is_requested) {
            let tag = StreamTag(self.tags.next_u64());
            asked.subscription.copy_target = Some((to, tag));
            core.emit(NodeEvent::ExpectTag { ticket: asked.ticket, tag, door: core.media_of_home() });
        }
    }

    /// Every provider is busy: asks for what one of them sends already, if that
    /// may be. Returns whether it does.
    pub(super) fn ask_for_reflected(&mut self, core: &mut Core, attach: &HomeRegistration, id: RequestId) -> bool {
        let Some(asked) =
            self.asked.get_mut(&id).filter(|asked| asked.subscription.able && !asked.subscription.is_requested)
        else {
            return false;
        };
        asked.subscription.is_requested = true;
        let id = self.renumber(core, id);
        if let Some(asked) = self.asked.get_mut(&id) {
            asked.ways = SearchMethods::default();
        }
        self.begin_search(core, attach, id);
        true
    }

    /// A reflected stream is accepted: its packets come under the tag that was
    /// drawn for this number.
    pub(super) fn tell_reflected(&self, core: &mut Core, id: RequestId, reflected: &StreamKeys) {
        let Some(OutgoingRequest { ticket, subscription, phase: RequestPhase::Receiving(receiving), .. }) =
            self.asked.get(&id)
        else {
            return;
        };
        let (ticket, Some((_, tag)), provider) = (*ticket, subscription.copy_target, receiving.provider) else {
            return;
        };
        let StreamKeys { stream, epoch, secret, next } = reflected.clone();
        core.emit(NodeEvent::Reflected { ticket, stream, provider, epoch, secret, tag, is_confirmed: true });
        if let Some((epoch, secret)) = next {
            core.emit(NodeEvent::Key { ticket, epoch, secret });
        }
    }

    /// The owner wants another way for a reflected stream.
    pub(crate) fn resubscribe(&mut self, core: &mut Core, attach: &HomeRegistration, ticket: Ticket, lost: bool) {
        let Some(id) = self.tickets.get(&ticket).copied() else { return };
        let Some(asked) = self.asked.get_mut(&id).filter(|asked| asked.is_subscribed()) else { return };
        if lost {
            asked.subscription.lost.get_or_insert(core.now);
        }
        asked.subscription.tries = 0;
        self.find_another_way(core, attach, id);
    }

    /// The provider sends this node no stream of its own any more, but one that
    /// is reflected. Returns whether this node can take that.
    pub(super) fn turn_to_reflected(&mut self, core: &mut Core, attach: &HomeRegistration, id: RequestId) -> bool {
        let Some(asked) = self.asked.get_mut(&id).filter(|asked| asked.subscription.able) else { return false };
        asked.subscription.lost.get_or_insert(core.now);
        core.timers.clear(Timer::Receive(id));
        core.timers.clear(Timer::Report(id));
        self.find_another_way(core, attach, id);
        true
    }

    /// Asks for the stream of a request again, under a number and a ticket of
    /// its own, unless that is under way. Its provider is named; if it was not
    /// found that way, it may be another one. However many requests there are:
    /// each has one of these at most.
    pub(super) fn find_another_way(&mut self, core: &mut Core, attach: &HomeRegistration, id: RequestId) {
        core.timers.clear(Timer::Resubscribe(id));
        if self.replacement(id).is_some() {
            return;
        }
        let Some(OutgoingRequest {
            ticket,
            request,
            provider,
            commanded,
            phase: RequestPhase::Receiving(receiving),
            subscription,
            ..
        }) = self.asked.get(&id)
        else {
            return;
        };
        let aim = Some((receiving.provider, receiving.cell())).filter(|_| subscription.tries.is_multiple_of(2));
        let (ends, resumes) = (subscription.ends, subscription.lost.is_none());
        let subscription = SubscriptionState {
            is_requested: true,
            able: true,
            aim,
            replaces: Some(id),
            resumes,
            ends,
            ..SubscriptionState::default()
        };
        let request = ServiceRequest { trace: false, ..request.clone() };
        let again = OutgoingRequest {
            commanded: *commanded,
            subscription,
            ..OutgoingRequest::new(*ticket, request, provider.clone(), core.now, PATIENCE)
        };
        core.counters.resubscribed += 1;
        let again = self.number(core, again);
        self.begin_search(core, attach, again);
    }

    /// The request that asks for another way of the stream of request `id`.
    pub(super) fn replacement(&self, id: RequestId) -> Option<RequestId> {
        self.asked.iter().find(|(_, asked)| asked.subscription.replaces == Some(id)).map(|(id, _)| *id)
    }

    /// Another way was sought in vain.
    pub(super) fn found_no_other_way(
        &mut self,
        core: &mut Core,
        id: RequestId,
        reason: Reason,
        after: Option<Duration>,
    ) {
        let Some(asked) = self.asked.get_mut(&id) else { return };
        if !asked.is_subscribed() && asked.subscription.lost.is_none() {
            return self.nobody_goes_on(core, id, reason, after);
        }
        let subscription = &mut asked.subscription;
        subscription.tries += 1;
        let is_over = subscription.lost.is_some_and(|since| core.now.since(since) >= LOST_PATIENCE);
        if is_over || subscription.lost.is_some() && matches!(reason, Reason::NotAllowed | Reason::Forbidden) {
            return self.finish(core, id, Some(reason));
        }
        if subscription.lost.is_some() || subscription.tries < TRIES {
            let pause = (FIRST_PAUSE * (1 << subscription.tries.min(6))).min(LONGEST_PAUSE);
            core.set(Timer::Resubscribe(id), pause.max(after.unwrap_or_default().min(LONGEST_PAUSE)));
        }
    }

    /// The stream of request `id` has another way, and that of the request
    /// before is not wanted any more. Returns that, if there was one.
    pub(super) fn replace(&mut self, core: &mut Core, id: RequestId) -> Option<Box<IncomingFlow>> {
        let asked = self.asked.get_mut(&id)?;
        let (ticket, old) = (asked.ticket, asked.subscription.replaces.take()?);
        self.stop_provider(core, old, Reason::Cancelled);
        let before = self.remove(core, old);
        self.tickets.insert(ticket, id);
        match before?.phase {
            RequestPhase::Receiving(receiving) => Some(receiving),
            RequestPhase::NoHub | RequestPhase::Reaching | RequestPhase::Waiting | RequestPhase::Pending => None,
        }
    }

    /// A request has ended: nor is another way for it wanted.
    pub(super) fn drop_replacement(&mut self, core: &mut Core, id: RequestId) {
        if let Some(again) = self.replacement(id) {
            self.remove(core, again);
        }
    }

    pub(crate) fn on_resubscribe_timer(&mut self, core: &mut Core, attach: &HomeRegistration, id: RequestId) {
        let Some(OutgoingRequest { phase: RequestPhase::Receiving(receiving), subscription, .. }) = self.asked.get(&id)
        else {
            return;
        };
        if receiving.may_be_resumed() && subscription.lost.is_none() {
            return self.on_pause_over(core, attach, id);
        }
        if receiving.is_broken() || subscription.lost.is_some() || subscription.tries > 0 {
            self.find_another_way(core, attach, id);
        }
    }

    /// There is another home: what is reflected comes through it from now on.
    pub(super) fn resubscribe_all(&mut self, core: &mut Core, attach: &HomeRegistration, home: ConnectionId) {
        let Some(hub) = core.connections.get(home).map(|connection| connection.node) else { return };
        let away =
            |asked: &OutgoingRequest| asked.is_subscribed() && asked.subscription.hub.is_some_and(|asked| asked != hub);
        for id in self.asked.iter().filter(|(_, asked)| away(asked)).map(|(id, _)| *id).collect::<Vec<_>>() {
            self.find_another_way(core, attach, id);
        }
    }

    /// The connection with the provider of a reflected stream has gone; the
    /// provider comes back, or is asked to.
    pub(super) fn await_return(&self, core: &mut Core, id: RequestId) {
        if self.asked.get(&id).is_some_and(OutgoingRequest::is_subscribed) {
            core.set(Timer::Resubscribe(id), RETURN);
        }
    }

    /// The time of a reflected stream is over, or its owner has enough. Its provider does not know it. One of
    /// which nothing comes at that time has broken off.
    pub(super) fn end_subscription(&mut self, core: &mut Core, id: RequestId) {
        self.stop_provider(core, id, Reason::Cancelled);
        let Some(asked) = self.asked.get_mut(&id) else { return };
        if asked.subscription.lost.is_some() {
            return self.finish(core, id, Some(Reason::Unreachable));
        }
        if let RequestPhase::Receiving(receiving) = &mut asked.phase
            && let Some(subscription) = receiving.subscription()
        {
            subscription.ended = true;
        }
        self.finish(core, id, None);
    }
}

impl OutgoingRequest {
    /// True if it has a reflected stream.
    pub(super) fn is_subscribed(&self) -> bool {
        matches!(&self.phase, RequestPhase::Receiving(receiving) if receiving.is_reflected())
    }

    /// True if `provider` is one that it means.
    pub(super) fn may_be_of(&self, provider: NodeId) -> bool {
        let named = self.provider.as_ref().map(|Provider { node, .. }| *node);
        named.is_none_or(|named| named == provider)
    }
}
