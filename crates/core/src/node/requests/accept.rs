//! The acceptance of a request: the first one, and those that follow.

use std::time::Duration;

use roost_wire::messages::{Accept, Chunk, FlowDescription, Reason, ReflectionPolicy, ResumePoint};
use roost_wire::{ConnectionId, RequestId, Role, Scheme, Time};

use super::OutgoingRequests;
use super::incoming_flow::{FlowOrigin, IncomingFlow};
use super::outgoing_request::{OutgoingRequest, RequestPhase};
use super::permission::Offering;
use super::receive::stop;
use super::resume::LOOK;
use super::subscribe::REPORT_PAUSE;
use crate::flow::{MAX_STREAM_DURATION, REPORT_INTERVAL};
use crate::node::api::NodeEvent;
use crate::node::core::Core;
use crate::node::home::HomeRegistration;
use crate::node::timers::Timer;

/// The time that a stream may go on beyond its length before it is ended here: sources start late and clocks
/// differ. A long path has more time.
const OVERRUN: Duration = Duration::from_secs(30);

impl OutgoingRequests {
    pub(crate) fn on_accept(
        &mut self,
        core: &mut Core,
        attach: &HomeRegistration,
        connection: ConnectionId,
        accept: Accept,
    ) {
        let (id, origin) = (accept.id, flow_origin(core, connection, &accept));
        origin.iter().for_each(|origin| self.restore_withdrawn(core, &accept, origin));
        let Some(asked) = self.asked.get(&id) else {
            core.counters.stale += 1;
            // An object that travelled inline has nothing left to stop.
            if !matches!(&accept.flow, FlowDescription::Object { inline: Some(_), .. }) {
                stop(core, connection, id, Reason::Cancelled);
            }
            return;
        };
        let Some(origin) = origin else {
            core.counters.refused += 1;
            return;
        };
        if asked.nonce != accept.nonce {
            core.counters.refused += 1;
            if let Some(entry) = core.connections.get_mut(connection) {
                entry.own.guesses = entry.own.guesses.saturating_add(1);
            }
            return;
        }
        let offering = Offering { id, cell: accept.cell };
        if self.refuses_provider(core, connection, offering, attach.record().cell) {
            return;
        }
        let is_accepted = self.asked.get(&id).is_some_and(|asked| matches!(asked.phase, RequestPhase::Receiving(_)));
        if is_accepted && !self.has_moved(core, connection, &accept, &origin) {
            return self.on_accept_repeated(core, connection, id, &origin);
        }
        if is_accepted {
            self.end_resumption(core, id);
        } else {
            if !self.takes_acceptance(core, connection, &accept, &origin) {
                return;
            }
            self.end_search(core, id, origin.provider, origin.relayed);
        }
        self.begin(core, connection, accept, origin);
        for (connection, message) in self.early.take_messages(id) {
            self.on_data(core, attach, connection, id, message);
        }
    }

    /// True if an acceptance fits a request that has none yet. The others are stopped.
    fn takes_acceptance(
        &mut self,
        core: &mut Core,
        connection: ConnectionId,
        accept: &Accept,
        origin: &FlowOrigin,
    ) -> bool {
        let (id, provider, fits) = (accept.id, origin.provider, self.fits_what_it_replaces(accept.id, &accept.flow));
        let Some(asked) = self.asked.get(&id) else { return false };
        let checked = check_flow_matches(asked, origin.scheme, &accept.flow);
        if checked.is_ok() && !fits {
            stop(core, connection, id, Reason::Cancelled);
            self.on_object_changed(core, id, provider);
            return false;
        }
        // A stream relayed for this node alone has an end; the reflected one still comes and has none.
        if asked.subscription.resumes && origin.reflected.is_none() {
            stop(core, connection, id, Reason::Cancelled);
            self.fail(core, id, Reason::Unreachable);
            return false;
        }
        // The keys are for nobody between the two.
        let is_wanted = origin.reflected.as_ref().is_none_or(|reflected| {
            let is_of_it = asked.may_be_of(provider) && reflected.stream.is_of(provider);
            asked.subscription.is_requested && !origin.relayed && is_of_it
        });
        if let Err(reason) = checked.and(if is_wanted { Ok(()) } else { Err(Reason::Protocol) }) {
            core.counters.refused += 1;
            stop(core, connection, id, reason);
            return false;
        }
        if matches!(asked.phase, RequestPhase::Waiting) {
            asked.answered(core);
        }
        true
    }

    /// A further acceptance of a request: the provider's that serves it, or one that comes too late.
    fn on_accept_repeated(&mut self, core: &mut Core, connection: ConnectionId, id: RequestId, origin: &FlowOrigin) {
        let Some(OutgoingRequest { ticket, phase: RequestPhase::Receiving(receiving), subscription, .. }) =
            self.asked.get_mut(&id)
        else {
            return;
        };
        let same = receiving.provider == origin.provider && receiving.relayed == origin.relayed;
        let same = same && (!origin.relayed || core.are_same(receiving.connection, connection));
        if !same {
            return stop(core, connection, id, Reason::Cancelled);
        }
        let was_doubted = subscription.lost.is_none() && receiving.is_doubted(core.now);
        receiving.on_accept_repeated(core, id, connection);
        let keys = origin.reflected.as_ref().map_or(Vec::new(), |reflected| receiving.keys(reflected));
        let ticket = *ticket;
        keys.into_iter().for_each(|(epoch, secret)| core.emit(NodeEvent::Key { ticket, epoch, secret }));
        if was_doubted {
            self.on_flow_resumed(core, id);
        }
    }

    /// The first acceptance, or the first over another way: what follows belongs to its provider.
    fn begin(&mut self, core: &mut Core, connection: ConnectionId, accept: Accept, origin: FlowOrigin) {
        let Accept { id, mut flow, cell, .. } = accept;
        let FlowOrigin { provider, relayed, scheme, reflected } = origin.clone();
        let before = self.replace(core, id).or_else(|| self.take_flow(id));
        let Some(asked) = self.asked.get_mut(&id) else { return };
        let goes_on = before.is_some() && reflected.is_none();
        let provided = before.as_ref().map(|before| before.provider).or(asked.subscription.foretold.provider);
        asked.confirm();
        asked.sentence = None;
        asked.stop_runs(core, id, Some(provider));
        let (whole, is_resumed) = match &mut flow {
            FlowDescription::Object { inline, offset, .. } => (inline.take(), offset.is_some()),
            FlowDescription::Stream { .. } => (None, false),
        };
        let ends = asked.subscription.ends.or(stream_duration(asked, &flow).map(|span| core.now + span));
        asked.subscription.ends = ends;
        let until = ends.map(|ends| ends + core.scaled_timeout(connection, OVERRUN)).filter(|_| reflected.is_none());
        let mut receiving = IncomingFlow::new(core.now, connection, id, origin, cell, &flow, &asked.request);
        receiving.until = until;
        receiving.measure(core);
        // The source of a reflected stream does not know when one subscriber has enough.
        let looked_at = if reflected.is_some() { ends } else { Some(core.now + LOOK) };
        await_flow(core, id, reflected.is_some(), looked_at);
        if let Some(before) = before.filter(|_| goes_on) {
            receiving.go_on_from(id, *before, ends);
        }
        let ticket = asked.ticket;
        self.traces.record_accepted(core.now, ticket, provider);
        let is_stream = matches!(flow, FlowDescription::Stream { .. });
        // A new way of the same stream is told by what follows.
        if !goes_on && (reflected.is_none() || provided != Some(provider)) {
            let reflected = reflected.is_some();
            core.emit(NodeEvent::Accepted { ticket, provider, cell, flow, scheme, relayed, reflected });
        }
        // The first report tells a stream's provider that its acceptance has come.
        if is_stream || goes_on {
            receiving.report(core, id);
        }
        if let Some(payload) = whole
            && let Some(payload) = receiving.chunk(core.now, Chunk { id, offset: 0, payload })
        {
            core.emit(NodeEvent::Data { ticket, payload });
        }
        let whole = receiving.is_whole();
        if whole && is_resumed {
            // The provider has nothing to send, and hears that nothing is missing.
            receiving.report(core, id);
        }
        asked.phase = RequestPhase::Receiving(Box::new(receiving));
        if let Some(reflected) = reflected {
            self.tell_reflected(core, id, &reflected);
        }
        if whole {
            self.finish(core, id, None);
        }
    }

    /// Takes what has come of a request so far.
    fn take_flow(&mut self, id: RequestId) -> Option<Box<IncomingFlow>> {
        let asked = self.asked.get_mut(&id)?;
        match std::mem::replace(&mut asked.phase, RequestPhase::Pending) {
            RequestPhase::Receiving(receiving) => Some(receiving),
            _ => None,
        }
    }
}

/// Sets the timers of a flow that is accepted now.
fn await_flow(core: &mut Core, id: RequestId, is_reflected: bool, looked_at: Option<Time>) {
    core.timers.clear(Timer::Ask(id));
    core.timers.clear(Timer::Deadline(id));
    core.set(Timer::Report(id), if is_reflected { REPORT_PAUSE } else { REPORT_INTERVAL });
    looked_at.into_iter().for_each(|at| core.timers.set(Timer::Receive(id), at));
}

/// The provider of an acceptance, and the way of that.
fn flow_origin(core: &Core, connection: ConnectionId, accept: &Accept) -> Option<FlowOrigin> {
    let entry = core.connections.get(connection)?;
    let (scheme, reflected) = (entry.address.scheme, accept.stream_keys.clone());
    if entry.role == core.hub_role {
        return accept.provider.map(|provider| FlowOrigin { provider, relayed: true, scheme, reflected });
    }
    (entry.role == Role::Node).then_some(FlowOrigin { provider: entry.node, relayed: false, scheme, reflected })
}

/// Refuses an offer that is not what was asked for.
pub(super) fn check_flow_matches(
    asked: &OutgoingRequest,
    scheme: Scheme,
    flow: &FlowDescription,
) -> Result<(), Reason> {
    if !asked.request.transports.contains(scheme) {
        return Err(Reason::NoTransport);
    }
    let fits = match flow {
        FlowDescription::Stream { .. } => asked.request.service.is_stream(),
        FlowDescription::Object { bytes, digest, offset, .. } => {
            let has =
                |ResumePoint { digest: of, offset: until }| of == *digest && offset == &Some(until) && until <= *bytes;
            !asked.request.service.is_stream() && (offset.is_none() || asked.request.resume.is_some_and(has))
        }
    };
    if fits { Ok(()) } else { Err(Reason::Protocol) }
}

/// The length of a stream: as the provider says, but no longer than it was asked to. `None` for an object,
/// and for a subscription without an end.
fn stream_duration(asked: &OutgoingRequest, flow: &FlowDescription) -> Option<Duration> {
    let FlowDescription::Stream { duration_ms, .. } = flow else { return None };
    if asked.request.duration.is_none() && asked.request.reflect == ReflectionPolicy::Always {
        return None;
    }
    let longest = asked.request.duration.unwrap_or(MAX_STREAM_DURATION);
    Some(Duration::from_millis((*duration_ms).into()).min(longest))
}
