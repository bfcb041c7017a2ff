//! Requests as they were recorded, and the rows of a replay that they become.

use std::collections::BTreeMap;

use roost_api::RequestLine;
use roost_api::types::{RequestBegan, RequestEnded, RequestResult};
use roost_recording::RecordingLine;
use roost_wire::{Area, Cell, NodeId, Scheme, Service};
use serde::{Deserialize, Serialize};

use crate::align::Aligned;
use crate::counters::ConnectionKey;
use crate::hosts::Hosts;

const LEAST_STREAM_S: f64 = 0.001;
const LONGEST_STREAM_S: f64 = 86_400.0;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ObservedRequest {
    pub(crate) t: f64,
    pub(crate) host: usize,
    pub(crate) began: RequestBegan,
    pub(crate) ended: Option<RequestEnded>,
    pub(crate) provider: Option<NodeId>,
    /// The host of the provider, or of the node that stood at the requested cell.
    pub(crate) target: Option<usize>,
    /// True if requester and provider had a connection before.
    pub(crate) is_warm: bool,
    /// The end of the recording, which cuts what goes on.
    pub(crate) cut: f64,
}

/// What was left out of the requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LeftOut {
    pub(crate) earlier: usize,
    pub(crate) services: usize,
    pub(crate) targets: usize,
    pub(crate) missed: u64,
}

/// A row of the replay. The run takes no notice of the last three columns, which hold what was recorded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RequestRow {
    pub time_s: f64,
    pub node: String,
    pub service: String,
    pub target: String,
    pub stream_s: Option<f64>,
    pub transport: Option<String>,
    pub timeout_s: Option<f64>,
    /// `completed`, `failed`, `timed-out`, or empty if it is not known.
    pub recorded: Option<String>,
    pub latency_ms: Option<f64>,
    pub bytes: Option<u64>,
}

/// Reads the rows of a replay.
///
/// # Errors
/// The first mistake, with its line.
pub fn read_rows(text: &str) -> Result<Vec<RequestRow>, String> {
    csv::Reader::from_reader(text.as_bytes()).deserialize().collect::<Result<_, _>>().map_err(|error| error.to_string())
}

impl ObservedRequest {
    pub(crate) fn is_completed(&self) -> bool {
        self.ended.as_ref().is_some_and(|ended| ended.outcome == RequestResult::Completed)
    }

    pub(crate) fn first_byte_ms(&self) -> Option<f64> {
        self.ended.as_ref()?.summary.as_ref()?.first_byte_ms
    }

    /// As in results: to the first byte of a stream, to the end of an object.
    pub(crate) fn latency_ms(&self) -> Option<f64> {
        let ended = self.ended.as_ref().filter(|_| self.is_completed())?;
        if self.began.service.is_stream() { self.first_byte_ms() } else { Some(ended.elapsed_ms) }
    }

    /// The length of a stream, seconds: that which was requested, or else the time from its first byte until its viewer
    /// or the recording ended.
    pub(crate) fn stream_s(&self) -> Option<f64> {
        let asked = self.began.duration_ms.map(|length| length as f64 / 1e3);
        let lasted = || match &self.ended {
            Some(ended) if ended.summary.is_some() || ended.outcome == RequestResult::Cancelled => {
                Some((ended.elapsed_ms - self.first_byte_ms().unwrap_or(0.0)) / 1e3)
            }
            Some(_) => None,
            None => Some(self.cut - self.t),
        };
        let length = asked.or_else(lasted)?.clamp(LEAST_STREAM_S, LONGEST_STREAM_S);
        self.began.service.is_stream().then(|| (length * 1e3).round() / 1e3)
    }

    /// The time-out beyond the length of a stream, seconds.
    pub(crate) fn timeout_s(&self) -> Option<f64> {
        let stream = if self.began.service.is_stream() { self.began.duration_ms.unwrap_or(0) } else { 0 };
        Some((self.began.timeout_ms?.saturating_sub(stream) as f64 / 1e3).clamp(LEAST_STREAM_S, LONGEST_STREAM_S))
    }

    pub(crate) fn outcome(&self) -> Option<&'static str> {
        use roost_api::Code;
        let ended = self.ended.as_ref()?;
        match (ended.outcome, ended.error) {
            (RequestResult::Completed, _) => Some("completed"),
            (RequestResult::Failed, Some(Code::TimedOut | Code::UnreachableAbove)) => Some("timed-out"),
            (RequestResult::Failed, _) => Some("failed"),
            // A caller that goes away says nothing about the network.
            _ => None,
        }
    }

    /// The transport that the request allows, if it is one.
    pub(crate) fn only_transport(&self) -> Option<Scheme> {
        match self.began.transports[..] {
            [only] => Some(only),
            _ => self.ended.as_ref()?.summary.as_ref().map(|summary| summary.transport),
        }
    }
}

#[derive(Debug)]
pub(crate) struct FoundRequests {
    pub(crate) requests: Vec<ObservedRequest>,
    pub(crate) left_out: LeftOut,
    /// The cells of providers, as their requesters learned them.
    pub(crate) cells: BTreeMap<NodeId, Cell>,
}

/// Finds all requests. Their ends are found by daemon and number.
pub(crate) fn find(aligned: &Aligned<'_>, hosts: &Hosts) -> FoundRequests {
    let mut under_way: BTreeMap<(usize, u64), ObservedRequest> = BTreeMap::new();
    let (mut all, mut left_out) = (Vec::new(), LeftOut::default());
    let mut up_since: BTreeMap<ConnectionKey<'_>, f64> = BTreeMap::new();
    let mut cells: BTreeMap<NodeId, Cell> = BTreeMap::new();
    for (recording, t, line) in aligned.lines() {
        let (daemon, request) = match &line.line {
            RecordingLine::Connection(row) => {
                up_since.insert((recording, row.daemon, row.node, row.transport, &row.address), t - row.since_s);
                continue;
            }
            RecordingLine::Request { daemon, request } => (*daemon, request),
            _ => continue,
        };
        match request {
            RequestLine::Began(began) => {
                let Some(host) = hosts.of_daemon(recording, daemon) else { continue };
                let age = (line.unix_ms as f64 - began.began_unix_ms as f64).max(0.0) / 1e3;
                let cut = aligned.end_of(recording);
                let began_unix_ms = began.began_unix_ms;
                let (began, ended, provider, target) = (began.clone(), None, None, None);
                let request = ObservedRequest { t: t - age, host, began, ended, provider, target, is_warm: false, cut };
                // A request under way is told again at the beginning of each recording; a restart counts them anew.
                let before = under_way.insert((host, request.began.request), request);
                all.extend(before.filter(|before| before.began.began_unix_ms != began_unix_ms));
            }
            RequestLine::Ended(ended) => {
                let request = hosts.of_daemon(recording, daemon).map(|host| (host, ended.request));
                let Some(mut request) = request.and_then(|key| under_way.remove(&key)) else { continue };
                if let Some(summary) = &ended.summary {
                    request.provider = Some(summary.provider);
                    cells.insert(summary.provider, summary.cell);
                    let first = (recording, daemon, summary.provider, summary.transport, "");
                    let is_this =
                        |key: &ConnectionKey<'_>| (key.0, key.1, key.2, key.3) == (first.0, first.1, first.2, first.3);
                    let mut connections = up_since.range(first..).take_while(|(key, _)| is_this(key));
                    request.is_warm = connections.any(|(_, since)| *since < request.t);
                }
                request.ended = Some(ended.clone());
                all.push(request);
            }
            RequestLine::Missed { count } => left_out.missed += count,
            _ => {}
        }
    }
    all.extend(under_way.into_values());
    all.sort_by(|a, b| a.t.total_cmp(&b.t).then(a.host.cmp(&b.host)).then(a.began.request.cmp(&b.began.request)));
    let before = all.len();
    all.retain(|request| request.t >= 0.0);
    left_out.earlier = before - all.len();
    all.iter_mut().for_each(|request| request.target = target(request, hosts, &cells));
    all.retain(|request| is_usable(request, &mut left_out));
    FoundRequests { requests: all, left_out, cells }
}

fn is_usable(request: &ObservedRequest, left_out: &mut LeftOut) -> bool {
    let is_known = Service::ALL.contains(&request.began.service);
    left_out.services += usize::from(!is_known);
    let has_target = request.target.is_some_and(|target| target != request.host);
    left_out.targets += usize::from(is_known && !has_target);
    is_known && has_target
}

/// The host that served it, or else whose node stood at the cell of the request.
fn target(request: &ObservedRequest, hosts: &Hosts, cells: &BTreeMap<NodeId, Cell>) -> Option<usize> {
    if let Some(provider) = request.provider {
        return hosts.host_of(provider);
    }
    let Area::Exact(cell) = request.began.area else { return None };
    let stood = |(node, member): (&NodeId, &crate::hosts::Member)| {
        let recorded = member.cells.iter().rev().find(|(since, _)| *since <= request.t).or(member.cells.first());
        let at = recorded.map(|(_, cell)| *cell).or_else(|| cells.get(node).copied());
        (at == Some(cell)).then(|| hosts.host_of(*node)).flatten()
    };
    hosts.members.iter().find_map(stood)
}
