//! The requests of one node: the workload of the experiments, sent to a machine instead of a daemon.

use std::collections::HashMap;
use std::time::Duration;

use roost_api::error::Code;
use roost_core::node::{NodeEvent, RequestSummary, Ticket};
use roost_experiment::mobility::Mobility;
use roost_experiment::plan::TransportChoice;
use roost_experiment::requester::{name_of, outcome_of};
use roost_experiment::workload::{RequestEnding, Workload, WorkloadRequest, WorkloadStep};
use roost_experiment::{PlacedNode, Placement};
use roost_results::record::{RequestOutcome, RequestRecord};
use roost_wire::messages::{ReflectionPolicy, ServiceRequest};
use roost_wire::{Area, NodeId, Scheme, SchemeSet, Time};

pub(super) struct SimRequestContext<'a> {
    pub(super) placement: &'a Placement,
    pub(super) transport: TransportChoice,
    pub(super) stream: Duration,
    /// The policy of requests for streams.
    pub(super) reflect: ReflectionPolicy,
    /// The index of each node in the placement.
    pub(super) places: &'a HashMap<NodeId, usize>,
    pub(super) walk: Mobility,
}

#[derive(Debug)]
pub(super) enum RequesterAction {
    /// Send this to its machine, and check this ticket again at this time.
    Ask(Ticket, Box<ServiceRequest>, Time),
    Wait(Time),
    /// A request is in progress: wait for its end.
    Busy,
    Done,
}

/// The requester of one node. Times are those of the run: 0 is the start of the workload.
pub(super) struct SimRequester {
    node: usize,
    workload: Option<Workload>,
    tickets: u64,
    under_way: Option<ActiveRequest>,
}

struct ActiveRequest {
    ticket: Ticket,
    request: WorkloadRequest,
    began: Time,
    provider: Option<NodeId>,
    scheme: Option<Scheme>,
    relayed: bool,
    bytes: u64,
    first_byte: Option<Duration>,
    first_contact: Option<bool>,
    summary: Option<RequestSummary>,
}

impl SimRequester {
    pub(super) const fn new(node: usize) -> Self {
        Self { node, workload: None, tickets: 0, under_way: None }
    }

    /// Starts a workload. No request may be in progress.
    pub(super) fn start_workload(&mut self, workload: Workload) {
        self.workload = Some(workload);
    }

    pub(super) fn poll(&mut self, now: Time, stage: &SimRequestContext<'_>) -> RequesterAction {
        let Some(workload) = &mut self.workload else { return RequesterAction::Done };
        match workload.poll(now) {
            WorkloadStep::Done => RequesterAction::Done,
            WorkloadStep::Busy => RequesterAction::Busy,
            WorkloadStep::Wait(until) => RequesterAction::Wait(until),
            WorkloadStep::Request(wanted) => self.ask(now, wanted, stage),
        }
    }

    fn ask(&mut self, now: Time, wanted: WorkloadRequest, stage: &SimRequestContext<'_>) -> RequesterAction {
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        self.under_way = Some(ActiveRequest {
            ticket,
            request: wanted,
            began: now,
            provider: None,
            scheme: None,
            relayed: false,
            bytes: 0,
            first_byte: None,
            first_contact: None,
            summary: None,
        });
        let is_stream = wanted.service.is_stream();
        let request = ServiceRequest {
            duration: is_stream.then_some(stage.stream),
            transports: SchemeSet::only(stage.transport.for_service(is_stream)),
            timeout: Some(wanted.deadline - now),
            reflect: if is_stream { stage.reflect } else { ReflectionPolicy::default() },
            ..ServiceRequest::new(wanted.service, Area::Exact(stage.walk.cell(wanted.target)))
        };
        RequesterAction::Ask(ticket, Box::new(request), wanted.deadline)
    }

    pub(super) fn ticket(&self) -> Option<Ticket> {
        self.under_way.as_ref().map(|under_way| under_way.ticket)
    }

    pub(super) fn began(&self) -> Option<Time> {
        self.under_way.as_ref().map(|under_way| under_way.began)
    }

    /// Records if requester and provider had no connection before.
    pub(super) fn record_contact(&mut self, first: Option<bool>) {
        if let Some(under_way) = &mut self.under_way {
            under_way.first_contact = first;
        }
    }

    /// Handles an event of the current request; returns its record if it has ended.
    pub(super) fn handle_event(
        &mut self,
        now: Time,
        event: NodeEvent,
        stage: &SimRequestContext<'_>,
    ) -> Option<RequestRecord> {
        let under_way = self.under_way.as_mut()?;
        match event {
            NodeEvent::Accepted { provider, scheme, relayed, .. } => {
                (under_way.provider, under_way.scheme, under_way.relayed) = (Some(provider), Some(scheme), relayed);
                None
            }
            NodeEvent::Data { payload, .. } => {
                under_way.first_byte.get_or_insert(now - under_way.began);
                under_way.bytes += payload.len() as u64;
                None
            }
            NodeEvent::Finished { summary, .. } => {
                let outcome = if summary.complete { RequestOutcome::Completed } else { RequestOutcome::Failed };
                under_way.provider = Some(summary.provider);
                under_way.summary = Some(summary);
                self.end(now, outcome, (outcome == RequestOutcome::Failed).then_some("incomplete"), stage)
            }
            NodeEvent::Failed { reason, .. } => {
                let code = Code::from(reason);
                self.end(now, outcome_of(code), name_of(code).as_deref(), stage)
            }
            _ => None,
        }
    }

    /// Gives up the ticket, because its time is up or the run is over.
    pub(super) fn give_up(
        &mut self,
        now: Time,
        outcome: RequestOutcome,
        stage: &SimRequestContext<'_>,
    ) -> Option<RequestRecord> {
        self.end(now, outcome, None, stage)
    }

    fn end(
        &mut self,
        now: Time,
        outcome: RequestOutcome,
        error: Option<&str>,
        stage: &SimRequestContext<'_>,
    ) -> Option<RequestRecord> {
        let under_way = self.under_way.take()?;
        let ended = if outcome == RequestOutcome::Failed { RequestEnding::Declined } else { RequestEnding::Finished };
        if let Some(workload) = &mut self.workload {
            workload.ended(now, ended);
        }
        Some(under_way.record(self.node, now, outcome, error, stage))
    }

    pub(super) fn stop(&mut self, now: Time) {
        if let Some(workload) = &mut self.workload {
            workload.stop(now);
        }
    }
}

impl ActiveRequest {
    fn record(
        self,
        node: usize,
        now: Time,
        outcome: RequestOutcome,
        error: Option<&str>,
        stage: &SimRequestContext<'_>,
    ) -> RequestRecord {
        let nodes: &[PlacedNode] = &stage.placement.nodes;
        let provider = self.provider.and_then(|id| stage.places.get(&id).copied());
        let ms = |duration: Duration| duration.as_secs_f64() * 1e3;
        let summary = self.summary.as_ref();
        RequestRecord {
            t: self.began.as_nanos() as f64 / 1e9,
            node: nodes[node].name.clone(),
            class: nodes[node].class.clone(),
            service: self.request.service.name().to_owned(),
            target: nodes[self.request.target].name.clone(),
            provider: provider.map(|place| nodes[place].name.clone()),
            outcome,
            error: error.map(str::to_owned),
            detail: None,
            first_byte_ms: summary.map(|summary| summary.first_byte).or(self.first_byte).map(ms),
            elapsed_ms: ms(now - self.began),
            bytes: summary.map_or(self.bytes, |summary| summary.bytes),
            packets: summary.map_or(0, |summary| summary.packets),
            lost: summary.map_or(0, |summary| summary.lost),
            dropped_by_reader: 0,
            first_contact: self.first_contact,
            transport: self.scheme.map(|scheme| scheme.name().to_owned()),
            relayed: self.relayed,
            drained: false,
        }
    }
}
