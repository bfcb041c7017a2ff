//! The requests of one node: the workload of the experiments, sent to a machine instead of a daemon.

use std::collections::HashMap;

use roost_api::error::Code;
use roost_core::node::{NodeEvent, Ticket};
use roost_experiment::mobility::Mobility;
use roost_experiment::workload::{RequestEnding, Workload, WorkloadRequest, WorkloadStep};
use roost_experiment::{Placement, RequestEnd, RequestRecorder, RequestSettings, TransferFigures};
use roost_results::record::{RequestOutcome, RequestRecord};
use roost_wire::messages::ServiceRequest;
use roost_wire::{NodeId, Time};

pub(super) struct SimRequestContext<'a> {
    pub(super) placement: &'a Placement,
    pub(super) settings: RequestSettings,
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

/// A requester of a node: its only one, or one of several lanes of a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RequesterId {
    pub(super) node: usize,
    pub(super) lane: usize,
}

impl RequesterId {
    pub(super) const fn of_ticket(node: usize, ticket: Ticket) -> Self {
        Self { node, lane: (ticket.0 >> LANE_SHIFT) as usize }
    }
}

/// Tickets of a lane begin with its number. Those of rooms are beyond all lanes.
const LANE_SHIFT: u32 = 40;

/// A requester. Times are those of the run: 0 is the start of the workload.
pub(super) struct SimRequester {
    id: RequesterId,
    workload: Option<Workload>,
    tickets: u64,
    under_way: Option<(Ticket, RequestRecorder)>,
}

impl SimRequester {
    pub(super) const fn new(id: RequesterId) -> Self {
        Self { id, workload: None, tickets: 0, under_way: None }
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
        let ticket = Ticket(((self.id.lane as u64) << LANE_SHIFT) + self.tickets);
        self.under_way = Some((ticket, RequestRecorder::new(self.id.node, wanted, now)));
        let request = stage.settings.service_request(wanted, now, stage.walk.cell(wanted.target));
        RequesterAction::Ask(ticket, Box::new(request), wanted.deadline)
    }

    pub(super) fn ticket(&self) -> Option<Ticket> {
        self.under_way.as_ref().map(|(ticket, _)| *ticket)
    }

    pub(super) fn began(&self) -> Option<Time> {
        self.under_way.as_ref().map(|(_, recorder)| recorder.began())
    }

    /// Records if requester and provider had no connection before.
    pub(super) fn record_contact(&mut self, first: Option<bool>) {
        if let Some((_, recorder)) = &mut self.under_way {
            recorder.first_contact = first;
        }
    }

    /// Handles an event of the current request; returns its record if it has ended.
    pub(super) fn handle_event(
        &mut self,
        now: Time,
        event: NodeEvent,
        stage: &SimRequestContext<'_>,
    ) -> Option<RequestRecord> {
        let (_, recorder) = self.under_way.as_mut()?;
        match event {
            NodeEvent::Accepted { provider, scheme, relayed, .. } => {
                recorder.record_acceptance(provider, scheme, relayed);
                None
            }
            NodeEvent::Data { payload, .. } => {
                recorder.record_data(now, payload.len());
                None
            }
            NodeEvent::Finished { summary, .. } => {
                recorder.provider = Some(summary.provider);
                recorder.record_figures(TransferFigures {
                    first_byte_ms: Some(summary.first_byte.as_secs_f64() * 1e3),
                    bytes: summary.bytes,
                    packets: summary.packets,
                    lost: summary.lost,
                    ..TransferFigures::default()
                });
                let completed = RequestEnd::new(RequestOutcome::Completed);
                self.end(now, if summary.complete { completed } else { RequestEnd::failed("incomplete") }, stage)
            }
            NodeEvent::Failed { reason, .. } => self.end(now, RequestEnd::from_code(Code::from(reason), None), stage),
            _ => None,
        }
    }

    /// Ends the ticket: it is over, its time is up, or the run is over.
    pub(super) fn end(&mut self, now: Time, end: RequestEnd, stage: &SimRequestContext<'_>) -> Option<RequestRecord> {
        let (_, recorder) = self.under_way.take()?;
        let is_failed = end.outcome == RequestOutcome::Failed;
        if let Some(workload) = &mut self.workload {
            workload.ended(now, if is_failed { RequestEnding::Declined } else { RequestEnding::Finished });
        }
        Some(recorder.record(now, end, &stage.placement.nodes, |id| stage.places.get(&id).copied()))
    }

    pub(super) fn stop(&mut self, now: Time) {
        if let Some(workload) = &mut self.workload {
            workload.stop(now);
        }
    }
}
