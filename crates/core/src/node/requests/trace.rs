//! The ways of requests that are traced, put together from what the hubs and
//! the provider report.

use std::collections::BTreeMap;
use std::time::Duration;

use roost_wire::messages::{Hop, HopAction, HopReport};
use roost_wire::{ConnectionId, NodeId, RequestId, Role, Time};

use crate::node::api::{NodeEvent, Ticket, Trace, TracedHop};
use crate::node::core::Core;
use crate::node::timers::Timer;

/// The most reports that are kept of one request: eight hubs with a few
/// providers each that do not take it.
pub const MAX_REPORTS: usize = 32;

/// The most requests that are traced at once.
pub const MAX_TRACES: usize = 16;

/// The most questions of one request that are kept to measure round trips by.
const MAX_QUESTIONS: usize = 16;

/// The bounds of how long reports are waited for after the acceptance. A report
/// comes back along the way of the request, so it takes no longer than the
/// acceptance took.
const SHORTEST_WAIT: Duration = Duration::from_millis(50);
/// See [`SHORTEST_WAIT`].
const LONGEST_WAIT: Duration = Duration::from_secs(2);

/// The requests that are traced.
#[derive(Debug, Default)]
pub(crate) struct Traces(BTreeMap<Ticket, Tracing>);

#[derive(Debug)]
struct Tracing {
    commanded: Time,
    questions: Vec<SentRequest>,
    trace: Trace,
    accepted: Option<(NodeId, Time)>,
    /// The request's last event, which waits for reports that are under way.
    last: Option<NodeEvent>,
}

/// A sending of the request.
#[derive(Debug)]
struct SentRequest {
    id: RequestId,
    to: NodeId,
    at: Time,
}

impl Tracing {
    /// The round trip to the remote that is asked, if it was asked once:
    /// otherwise it cannot be told which question it answers.
    fn round_trip(&self, id: RequestId, from: NodeId, now: Time, held_us: u32) -> Option<u32> {
        let mut asked = self.questions.iter().filter(|question| question.id == id && question.to == from);
        let at = asked.next()?.at;
        let held = Duration::from_micros(held_us.into());
        let rtt = now.since(at).saturating_sub(held).as_micros();
        u32::try_from(rtt).ok().filter(|_| asked.next().is_none())
    }

    fn is_asked(&self, id: RequestId, node: NodeId) -> bool {
        self.questions.iter().any(|question| question.id == id && question.to == node)
    }

    /// True if the way from the last hub to the provider, and what that did, is known.
    fn is_complete(&self) -> bool {
        let Some((provider, _)) = self.accepted else { return false };
        let any = |which: &dyn Fn(&Hop) -> bool| self.trace.hops.iter().any(|hop| which(&hop.hop));
        let direct = self.questions.iter().any(|question| question.to == provider);
        let handed = any(&|hop| {
            matches!(hop.step, HopAction::HandedToProvider | HopAction::Relayed) && hop.other == Some(provider)
        });
        any(&|hop| hop.step.is_of_provider() && hop.node == provider) && (direct || handed)
    }

    /// Until when reports are waited for.
    fn due(&self) -> Option<Time> {
        let (_, at) = self.accepted?;
        Some(at + at.since(self.commanded).clamp(SHORTEST_WAIT, LONGEST_WAIT))
    }
}

impl Traces {
    /// Begins to trace a request. False if too many are traced.
    pub(super) fn begin(&mut self, now: Time, ticket: Ticket) -> bool {
        if self.0.len() >= MAX_TRACES {
            return false;
        }
        let (questions, trace) = (Vec::new(), Trace::default());
        let tracing = Tracing { commanded: now, questions, trace, accepted: None, last: None };
        self.0.insert(ticket, tracing);
        true
    }

    /// A request was sent under this number.
    pub(super) fn record_sent(&mut self, core: &Core, ticket: Ticket, id: RequestId, connection: ConnectionId) {
        let to = core.connections.get(connection).map(|connection| connection.node);
        let (Some(tracing), Some(to)) = (self.0.get_mut(&ticket), to) else { return };
        tracing.trace.sent += 1;
        if tracing.questions.len() < MAX_QUESTIONS {
            tracing.questions.push(SentRequest { id, to, at: core.now });
        }
    }

    /// A provider has accepted a request.
    pub(super) fn record_accepted(&mut self, now: Time, ticket: Ticket, provider: NodeId) {
        let Some(tracing) = self.0.get_mut(&ticket) else { return };
        tracing.accepted = Some((provider, now));
        tracing.trace.accepted = Some(now.since(tracing.commanded));
    }

    /// A hub tells what has become of a request there or further on; or a
    /// provider, how it answers.
    pub(crate) fn on_hop_report(&mut self, core: &mut Core, connection: ConnectionId, traced: HopReport) {
        let Some(entry) = core.connections.get(connection) else { return };
        let (from, role, name) = (entry.node, entry.role, entry.own.name.clone());
        let HopReport { id, mut hop, .. } = traced;
        let meant = |tracing: &Tracing| tracing.questions.iter().any(|question| question.id == id);
        let Some((ticket, tracing)) = self.0.iter_mut().find(|(_, tracing)| meant(tracing)) else {
            core.counters.stale += 1;
            return;
        };
        let asked = tracing.is_asked(id, from);
        if !asked && (role != Role::Node || !hop.step.is_of_provider()) {
            core.counters.refused += 1;
            return;
        }
        if tracing.trace.hops.len() >= MAX_REPORTS {
            return;
        }
        let own = hop.index == 1;
        if own {
            // The certificate says who it is.
            hop.node = from;
            hop.round_trip_us = tracing.round_trip(id, from, core.now, hop.elapsed_us);
        }
        let (name, heard) = (own.then_some(name), core.now.since(tracing.commanded));
        tracing.trace.hops.push(TracedHop { hop, name, heard });
        if tracing.last.is_some() && tracing.is_complete() {
            let ticket = *ticket;
            self.emit_trace(core, ticket);
        }
    }

    /// A request is over. If it is traced, its way is told first, for which
    /// reports that are under way are waited for.
    pub(super) fn conclude(&mut self, core: &mut Core, ticket: Ticket, last: NodeEvent) {
        let Some(tracing) = self.0.get_mut(&ticket) else { return core.emit(last) };
        let finished = matches!(last, NodeEvent::Finished { .. });
        tracing.last = Some(last);
        let due = tracing.due().filter(|due| finished && *due > core.now && !tracing.is_complete());
        match due {
            Some(due) => core.timers.set(Timer::Trace(ticket), due),
            None => self.emit_trace(core, ticket),
        }
    }

    /// Tells the way of a request that is over.
    pub(crate) fn emit_trace(&mut self, core: &mut Core, ticket: Ticket) {
        core.timers.clear(Timer::Trace(ticket));
        let Some(Tracing { trace, last: Some(last), .. }) = self.0.remove(&ticket) else { return };
        core.emit(NodeEvent::Traced { ticket, trace });
        core.emit(last);
    }

    /// Tells the ways of all that are over.
    pub(crate) fn emit_all(&mut self, core: &mut Core) {
        for ticket in self.0.keys().copied().collect::<Vec<_>>() {
            self.emit_trace(core, ticket);
        }
    }
}
