//! A request of the demo: the data that arrived, checked, and its cost.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use roost_api::{Client, Frame, RequestEvent, TransferSummary};
use roost_wire::messages::ServiceRequest;
use roost_wire::{Area, Cell, FlowKind, Scheme, SchemeSet, Service};

use super::echo;
use super::world::Architecture;
use crate::failure::{Code, Failure, Outcome};

/// The least part of the nominal bytes of a stream that must have come: a stream's last packet may fall just beyond its
/// end.
const STREAM_PART: f64 = 0.95;

/// A row of the table.
#[derive(Clone, Debug)]
pub(super) struct DemoRow {
    pub(super) mode: Architecture,
    pub(super) service: Service,
    pub(super) transport: Scheme,
    pub(super) ok: bool,
    pub(super) first_byte_ms: Option<f64>,
    pub(super) total_ms: Option<f64>,
    pub(super) payload_bytes: u64,
    pub(super) overhead_bytes: u64,
    pub(super) lost: u64,
    pub(super) digest_ok: Option<bool>,
    pub(super) problem: Option<String>,
    /// The exit code of `problem`.
    pub(super) code: Option<Code>,
}

pub(super) struct Received {
    bytes: u64,
    expected: u64,
    /// True if a call was answered with its body.
    echo: Option<bool>,
    summary: Option<TransferSummary>,
    failure: Option<Failure>,
}

/// Requests a service and receives all of it.
///
/// # Errors
/// Fails if the daemon cannot be reached. A request that fails is no error but a row that says so.
pub(super) async fn receive(
    client: &Client,
    service: Service,
    place: Cell,
    transport: Scheme,
    duration: Duration,
) -> Outcome<Received> {
    let request = ServiceRequest {
        transports: SchemeSet::only(transport),
        duration: service.is_stream().then_some(duration),
        ..ServiceRequest::new(service, Area::Exact(place))
    };
    let mut received =
        Received { bytes: 0, expected: expected(service, duration), echo: None, summary: None, failure: None };
    let body = if service.is_call() { echo::body() } else { Bytes::new() };
    let asked =
        if service.is_call() { client.call(&request, body.clone()).await } else { client.request(&request).await };
    let mut stream = match asked {
        Ok(stream) => stream,
        Err(error) => return Ok(Received { failure: Some(error.into()), ..received }),
    };
    let mut answer = BytesMut::new();
    loop {
        match stream.next().await {
            Ok(Some(Frame::Data(data))) => {
                received.bytes += data.len() as u64;
                if service.is_call() {
                    answer.extend_from_slice(&data);
                }
            }
            Ok(Some(Frame::Event(RequestEvent::Finished(summary)))) => {
                let echo = service.is_call().then_some(answer == body);
                return Ok(Received { summary: Some(summary), echo, ..received });
            }
            Ok(Some(Frame::Event(RequestEvent::Failed { error, summary }))) => {
                return Ok(Received { summary, failure: Some(Failure::api(&error)), ..received });
            }
            Ok(Some(Frame::Event(_))) => {}
            Ok(None) => {
                let failure = Failure::new(Code::Damaged, "the answer broke off");
                return Ok(Received { failure: Some(failure), ..received });
            }
            Err(error) => return Ok(Received { failure: Some(error.into()), ..received }),
        }
    }
}

/// The bytes that the synthetic source sends.
fn expected(service: Service, duration: Duration) -> u64 {
    match service.flow_kind() {
        FlowKind::Stream { bits_per_second, .. } => (f64::from(bits_per_second) / 8.0 * duration.as_secs_f64()) as u64,
        FlowKind::Object { .. } if service.is_call() => echo::body().len() as u64,
        FlowKind::Object { bytes } => u64::from(bytes),
    }
}

impl DemoRow {
    /// The row of a request for which all processes together sent `sent` bytes.
    pub(super) fn new(mode: Architecture, service: Service, transport: Scheme, received: Received, sent: u64) -> Self {
        let problem = problem(mode, service, transport, &received);
        let summary = received.summary.as_ref();
        Self {
            mode,
            service,
            transport,
            ok: problem.is_none(),
            first_byte_ms: summary.and_then(|summary| summary.first_byte_ms),
            total_ms: summary.map(|summary| summary.elapsed_ms),
            payload_bytes: received.bytes,
            overhead_bytes: sent.saturating_sub(received.bytes),
            lost: summary.map_or(0, |summary| summary.lost),
            digest_ok: summary.and_then(|summary| summary.digest_ok),
            code: problem.as_ref().map(|(code, _)| *code),
            problem: problem.map(|(_, why)| why),
        }
    }
}

/// The fault of the data that arrived, if there is one.
fn problem(mode: Architecture, service: Service, transport: Scheme, received: &Received) -> Option<(Code, String)> {
    if let Some(Failure::Reported { code, message, .. }) = &received.failure {
        return Some((*code, message.clone()));
    }
    let damaged = |why: String| Some((Code::Damaged, why));
    let Some(summary) = &received.summary else { return damaged("nothing came".to_owned()) };
    let least = if service.is_stream() { (received.expected as f64 * STREAM_PART) as u64 } else { received.expected };
    let lost_some = service.is_stream() && summary.lost > 0;
    if summary.digest_ok == Some(false) {
        damaged("its SHA-256 differs".to_owned())
    } else if received.echo == Some(false) {
        damaged("the answer is not the body of the call".to_owned())
    } else if received.bytes < least && !lost_some {
        damaged(format!("{} bytes came of {}", received.bytes, received.expected))
    } else if summary.transport != transport {
        Some((Code::Failed, format!("it came over {}", summary.transport)))
    } else if summary.relayed != (mode == Architecture::ClientServer) {
        Some((Code::Failed, "it came the wrong way".to_owned()))
    } else {
        None
    }
}
