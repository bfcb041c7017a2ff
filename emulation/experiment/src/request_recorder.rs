//! A request of a workload, without a clock: sent, followed by its events, and recorded at its end.

use std::time::Duration;

use roost_api::Code;
use roost_results::record::{RequestOutcome, RequestRecord};
use roost_wire::messages::{ReflectionPolicy, ServiceRequest};
use roost_wire::{Area, Cell, NodeId, Scheme, SchemeSet, Time};

use super::placement::PlacedNode;
use super::plan::{Plan, TransportChoice};
use super::workload::WorkloadRequest;

/// The settings of all requests of a plan.
#[derive(Clone, Copy, Debug, Default)]
pub struct RequestSettings {
    transport: TransportChoice,
    /// The policy of requests for streams.
    reflect: ReflectionPolicy,
}

impl RequestSettings {
    pub fn from_plan(plan: &Plan) -> Self {
        Self { transport: plan.transport, reflect: plan.reflection_policy() }
    }

    /// The request of a workload that begins at `now`, for the node that stands at `cell`.
    pub fn service_request(&self, request: WorkloadRequest, now: Time, cell: Cell) -> ServiceRequest {
        let is_stream = request.service.is_stream();
        ServiceRequest {
            reflect: if is_stream { self.reflect } else { ReflectionPolicy::default() },
            duration: is_stream.then_some(request.stream),
            transports: SchemeSet::only(request.transport.unwrap_or(self.transport.for_service(is_stream))),
            timeout: Some(request.deadline - now),
            ..ServiceRequest::new(request.service, Area::Exact(cell))
        }
    }
}

/// The figures of a whole transfer, as the requesting machine counts them.
#[derive(Clone, Copy, Debug, Default)]
pub struct TransferFigures {
    pub first_byte_ms: Option<f64>,
    /// `None` leaves it to the recorder, which may have read the end late.
    pub elapsed_ms: Option<f64>,
    pub bytes: u64,
    pub packets: u64,
    pub lost: u64,
    pub dropped_by_reader: u64,
}

/// The end of a request, with the reason of a failure.
#[derive(Clone, Debug)]
pub struct RequestEnd {
    pub outcome: RequestOutcome,
    /// As the daemon's API names it.
    pub error: Option<String>,
    /// In the daemon's words.
    pub detail: Option<String>,
}

impl RequestEnd {
    pub const fn new(outcome: RequestOutcome) -> Self {
        Self { outcome, error: None, detail: None }
    }

    pub fn failed(error: &str) -> Self {
        Self { error: Some(error.to_owned()), ..Self::new(RequestOutcome::Failed) }
    }

    /// The end of a request whose daemon broke off.
    pub fn daemon_gone() -> Self {
        Self::failed("daemon-gone")
    }

    /// The end of a request that fails with this code of the API. A time-out of the API is that of the request.
    pub fn from_code(code: Code, detail: Option<String>) -> Self {
        let is_silent = matches!(code, Code::TimedOut | Code::UnreachableAbove);
        let outcome = if is_silent { RequestOutcome::TimedOut } else { RequestOutcome::Failed };
        let error = serde_json::to_value(code).ok().and_then(|value| value.as_str().map(str::to_owned));
        Self { outcome, error, detail }
    }
}

#[derive(Debug)]
pub struct RequestRecorder {
    /// Index among the nodes.
    node: usize,
    request: WorkloadRequest,
    began: Time,
    pub provider: Option<NodeId>,
    pub scheme: Option<Scheme>,
    pub relayed: bool,
    /// True if requester and provider had no connection before.
    pub first_contact: Option<bool>,
    figures: TransferFigures,
}

impl RequestRecorder {
    pub fn new(node: usize, request: WorkloadRequest, began: Time) -> Self {
        let (provider, scheme, relayed, first_contact) = (None, None, false, None);
        let figures = TransferFigures::default();
        Self { node, request, began, provider, scheme, relayed, first_contact, figures }
    }

    pub const fn began(&self) -> Time {
        self.began
    }

    pub const fn record_acceptance(&mut self, provider: NodeId, scheme: Scheme, relayed: bool) {
        (self.provider, self.scheme, self.relayed) = (Some(provider), Some(scheme), relayed);
    }

    pub fn record_data(&mut self, now: Time, bytes: usize) {
        self.figures.first_byte_ms.get_or_insert(milliseconds(now - self.began));
        self.figures.bytes += bytes as u64;
    }

    pub fn record_figures(&mut self, figures: TransferFigures) {
        let first_byte_ms = figures.first_byte_ms.or(self.figures.first_byte_ms);
        self.figures = TransferFigures { first_byte_ms, ..figures };
    }

    /// The record at the end; `index_of` gives the index of a provider among the nodes.
    pub fn record(
        &self,
        now: Time,
        end: RequestEnd,
        nodes: &[PlacedNode],
        index_of: impl FnOnce(NodeId) -> Option<usize>,
    ) -> RequestRecord {
        let figures = self.figures;
        RequestRecord {
            t: self.began.as_nanos() as f64 / 1e9,
            node: nodes[self.node].name.clone(),
            class: nodes[self.node].class.clone(),
            service: self.request.service.name().to_owned(),
            target: nodes[self.request.target].name.clone(),
            provider: self.provider.and_then(index_of).map(|index| nodes[index].name.clone()),
            outcome: end.outcome,
            error: end.error,
            detail: end.detail,
            first_byte_ms: figures.first_byte_ms,
            elapsed_ms: figures.elapsed_ms.unwrap_or_else(|| milliseconds(now - self.began)),
            bytes: figures.bytes,
            packets: figures.packets,
            lost: figures.lost,
            dropped_by_reader: figures.dropped_by_reader,
            first_contact: self.first_contact,
            transport: self.scheme.map(|scheme| scheme.name().to_owned()),
            relayed: self.relayed,
            drained: false,
        }
    }
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}
