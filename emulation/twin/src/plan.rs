//! The plan of a twin: the same hubs and requests, and the absences of daemons.

use std::collections::BTreeMap;

use roost_topology::file::quote;
use roost_wire::{Role, Scheme};

use crate::observe::{Observed, WarmConnection};
use crate::requests::{ObservedRequest, RequestRow};
use crate::source::{Certainty, SourcedValue};

/// The time-out of a request and the length of a stream, where none was recorded: those of plans, seconds.
const TIMEOUT_S: f64 = 30.0;
const STREAM_S: f64 = 10.0;
/// A daemon that is gone so long before the end has not just ended with the recording.
const ABSENCE_S: f64 = 5.0;
/// Status comes once a second, so that an absence began half a second before it was seen.
const SEEN_S: f64 = 0.5;
/// The pause between two requests of the warm-up, and the time that the last of them has.
const WARM_PAUSE_S: f64 = 0.5;
const WARM_REST_S: f64 = 15.0;
/// The most requests of a node in the warm-up.
const MAX_WARM: usize = 200;

pub(crate) struct TwinPlan {
    pub(crate) text: String,
    pub(crate) rows: Vec<RequestRow>,
    pub(crate) values: Vec<SourcedValue>,
}

impl Observed {
    pub(crate) fn has_server(&self) -> bool {
        let mut hubs = self.hosts.hosts.iter().filter_map(|host| self.hosts.members.get(&host.hub?));
        hubs.any(|hub| hub.role == Role::Server)
    }

    fn name(&self, host: usize) -> String {
        self.hosts.hosts[host].name.clone()
    }
}

impl TwinPlan {
    pub(crate) fn new(observed: &Observed) -> Self {
        let (transport, stream) = (transport(observed), usual_stream(observed));
        let timeout = timeout(observed);
        let mut rows = rows(observed, transport, stream, timeout);
        let warm = warm_rows(observed);
        let warm_up = warm.iter().map(|row| -row.time_s).fold(0.0, f64::max).ceil();
        let mut keys = vec![
            "# Made of recordings by `emulate twin`; values.csv has the source of each value.".to_owned(),
            "name = \"twin\"".to_owned(),
            "topology = \"topology.toml\"".to_owned(),
        ];
        keys.extend(hubs(observed));
        let last = rows.iter().map(|row| row.time_s).fold(0.0, f64::max);
        let duration = observed.length.max(last + 1.0).ceil();
        keys.push(format!("transport = \"{transport}\"\nreplay = \"requests.csv\""));
        keys.push(format!("duration = \"{duration}s\"\ntimeout = \"{timeout}s\"\nstream = \"{stream}s\""));
        keys.push(format!("drain = \"{}s\"", (timeout + stream).ceil() + 5.0));
        if warm_up > 0.0 {
            keys.push(format!("warm_up = \"{warm_up}s\""));
        }
        let faults = faults(observed, duration);
        keys.extend(homes(observed));
        keys.extend(faults.iter().map(|(text, _)| text.clone()));
        let mut values: Vec<SourcedValue> = faults.into_iter().map(|(_, value)| value).collect();
        values.extend(request_values(observed, &rows));
        values.extend(settings(observed, transport, timeout, stream));
        values.extend(left_out_of_warm_up(observed, warm.len()));
        rows.splice(0..0, warm);
        Self { text: keys.join("\n") + "\n", rows, values }
    }
}

/// The architecture and the hosts of hubs.
fn hubs(observed: &Observed) -> Vec<String> {
    let hubs = observed.hosts.hosts.iter().filter_map(|host| Some((host, observed.hosts.members.get(&host.hub?)?)));
    let mut tiers: BTreeMap<u8, Vec<String>> = BTreeMap::new();
    hubs.for_each(|(host, hub)| tiers.entry(hub.tier).or_default().push(quote(&host.name)));
    let tiers: Vec<String> = tiers.into_values().map(|hosts| format!("[{}]", hosts.join(", "))).collect();
    if observed.has_server() {
        let server = tiers.first().map_or("", |hosts| hosts.trim_matches(['[', ']'])).split(", ").next();
        return vec!["architecture = \"client-server\"".to_owned(), format!("server = {}", server.unwrap_or_default())];
    }
    let places = match &tiers[..] {
        [only] => format!("super_nodes = {only}"),
        several => format!("tiers = [{}]", several.join(", ")),
    };
    vec!["architecture = \"super-node\"".to_owned(), places]
}

/// The homes of nodes, where there are several hubs to choose from.
fn homes(observed: &Observed) -> Option<String> {
    let hubs = observed.hosts.hosts.iter().filter(|host| host.hub.is_some()).count();
    let home = |host: &crate::hosts::ObservedHost| {
        let member = observed.hosts.members.get(&host.node?)?;
        let hub = member.home.filter(|hub| observed.hosts.members.get(hub).is_some_and(|hub| hub.tier == 0))?;
        Some(format!("\n{} = {}", quote(&host.name), quote(&observed.name(observed.hosts.host_of(hub)?))))
    };
    let lines: String = observed.hosts.hosts.iter().filter_map(home).collect();
    (hubs > 1 && !observed.has_server() && !lines.is_empty()).then(|| format!("\n[homes]{lines}"))
}

/// The transport of the plan: that of the published experiments, if it is that of most requests, or else the usual one.
fn transport(observed: &Observed) -> &'static str {
    let mut counts: BTreeMap<&'static str, usize> = BTreeMap::new();
    for request in &observed.requests {
        let Some(scheme) = request.only_transport() else { continue };
        let is_paper = (scheme == Scheme::Udp) == request.began.service.is_stream() && scheme != Scheme::Quic;
        *counts.entry("paper").or_default() += usize::from(is_paper);
        *counts.entry(scheme.name()).or_default() += 1;
    }
    // Among equal ones the first: with streams alone `udp` is the same as `paper`.
    counts.into_iter().fold(("paper", 0), |best, next| if next.1 > best.1 { next } else { best }).0
}

fn of_transport(transport: &str, is_stream: bool) -> &str {
    match (transport, is_stream) {
        ("paper", true) => "udp",
        ("paper", false) => "tcp",
        (other, _) => other,
    }
}

/// The most usual length of a stream, seconds.
fn usual_stream(observed: &Observed) -> f64 {
    let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
    let lengths = observed.requests.iter().filter(|request| request.began.service.is_stream());
    lengths.filter_map(|request| request.began.duration_ms).for_each(|length| *counts.entry(length).or_default() += 1);
    counts.into_iter().max_by_key(|(_, count)| *count).map_or(STREAM_S, |(length, _)| length as f64 / 1e3)
}

/// The longest time that a request had, beyond the length of its stream.
fn timeout(observed: &Observed) -> f64 {
    let times = observed.requests.iter().filter_map(ObservedRequest::timeout_s);
    times.reduce(f64::max).map_or(TIMEOUT_S, |longest| longest.ceil().max(1.0))
}

fn rows(observed: &Observed, transport: &str, stream: f64, timeout: f64) -> Vec<RequestRow> {
    let row = |request: &ObservedRequest| {
        let is_stream = request.began.service.is_stream();
        let scheme = request.only_transport().map(Scheme::name);
        let bytes = request.ended.as_ref().and_then(|ended| ended.summary.as_ref()).map(|summary| summary.bytes);
        Some(RequestRow {
            time_s: (request.t * 1e6).round() / 1e6,
            node: observed.name(request.host),
            service: request.began.service.name().to_owned(),
            target: observed.name(request.target?),
            stream_s: request.stream_s().filter(|length| (length - stream).abs() > 1e-6),
            transport: scheme.filter(|scheme| *scheme != of_transport(transport, is_stream)).map(str::to_owned),
            timeout_s: request.timeout_s().filter(|own| (own - timeout).abs() > 1e-6),
            recorded: request.outcome().map(str::to_owned),
            latency_ms: request.latency_ms(),
            bytes,
        })
    };
    observed.requests.iter().filter_map(row).collect()
}

/// Requests of a warm-up that make the connections that were there at the beginning.
fn warm_rows(observed: &Observed) -> Vec<RequestRow> {
    let mut by_node: BTreeMap<usize, Vec<WarmConnection>> = BTreeMap::new();
    observed.warm.iter().for_each(|warm| by_node.entry(warm.from).or_default().push(*warm));
    let most = by_node.values().map(Vec::len).max().unwrap_or(0).min(MAX_WARM);
    let begin = WARM_REST_S + WARM_PAUSE_S * most as f64;
    let row = |(place, warm): (usize, &WarmConnection)| RequestRow {
        time_s: -(begin - WARM_PAUSE_S * place as f64),
        node: observed.name(warm.from),
        service: if warm.is_tcp { "sensor" } else { "track" }.to_owned(),
        target: observed.name(warm.to),
        stream_s: (!warm.is_tcp).then_some(1.0),
        transport: warm.is_tcp.then(|| "tcp".to_owned()),
        timeout_s: None,
        recorded: None,
        latency_ms: None,
        bytes: None,
    };
    by_node.values().flat_map(|warm| warm.iter().take(MAX_WARM).enumerate().map(row)).collect()
}

fn left_out_of_warm_up(observed: &Observed, made: usize) -> Option<SourcedValue> {
    let left_out = observed.warm.len().saturating_sub(made);
    (left_out > 0).then(|| SourcedValue {
        object: "warm-up".to_owned(),
        what: "left out",
        value: left_out.to_string(),
        source: format!("connections of the beginning beyond the {MAX_WARM} of a node"),
        certainty: Certainty::Assumed,
    })
}

/// What holds for the whole plan, and where the hubs are.
fn settings(observed: &Observed, transport: &str, timeout: f64, stream: f64) -> Vec<SourcedValue> {
    let value = |object: &str, what, value: String, source: &str, certainty| SourcedValue {
        object: object.to_owned(),
        what,
        value,
        source: source.to_owned(),
        certainty,
    };
    let told = |is_told: bool| if is_told { Certainty::Measured } else { Certainty::Assumed };
    let requests = &observed.requests;
    let has_timeout = requests.iter().any(|request| request.began.timeout_ms.is_some());
    let has_length = requests.iter().any(|request| request.began.duration_ms.is_some());
    let longest = if has_timeout { "the longest of all requests" } else { "the usual one of plans" };
    let usual = if has_length { "the most usual length that was requested" } else { "the usual one of plans" };
    let mut values = vec![
        value("plan", "transport", transport.to_owned(), "that of most requests", told(!requests.is_empty())),
        value("plan", "timeout", format!("{timeout}s"), longest, told(has_timeout)),
        value("plan", "stream", format!("{stream}s"), usual, told(has_length)),
    ];
    for host in &observed.hosts.hosts {
        let member = |id: Option<roost_wire::NodeId>| observed.hosts.members.get(&id?);
        if let Some(hub) = member(host.hub) {
            let source = if hub.has_recorded { "its status" } else { "it did not record, and may be of another tier" };
            values.push(value(&host.name, "tier", hub.tier.to_string(), source, told(hub.has_recorded)));
        }
        if let Some(home) = member(host.node).and_then(|node| observed.hosts.host_of(node.home?)) {
            values.push(value(
                &host.name,
                "home",
                observed.name(home),
                "the last one that its node had",
                Certainty::Measured,
            ));
        }
    }
    values
}

/// Daemons that were gone for a while.
fn faults(observed: &Observed, duration: f64) -> Vec<(String, SourcedValue)> {
    let mut faults = Vec::new();
    for host in &observed.hosts.hosts {
        for (daemon, is_hub) in [(host.node, false), (host.hub, true)] {
            let absences =
                daemon.and_then(|id| observed.hosts.members.get(&id)).map_or(&[][..], |member| &member.absences);
            for (gone, back) in absences {
                if back.is_none() && *gone > observed.length - ABSENCE_S {
                    continue;
                }
                let gone = (gone - SEEN_S).max(0.0);
                let times = [Some(("kill", gone)), back.map(|back| ("start", back))];
                let of_hub = if is_hub { "\nhub = true" } else { "" };
                for (verb, at) in times.into_iter().flatten().filter(|(_, at)| *at < duration) {
                    let text = format!("\n[[faults]]\nat = \"{at:.3}s\"\n{verb} = {}{of_hub}", quote(&host.name));
                    let source = "its daemon did not answer, which may have been killed or stopped".to_owned();
                    let (object, certainty) = (host.name.clone(), Certainty::Estimated);
                    faults.push((
                        text,
                        SourcedValue { object, what: verb, value: format!("{at:.1}s"), source, certainty },
                    ));
                }
            }
        }
    }
    faults
}

fn request_values(observed: &Observed, rows: &[RequestRow]) -> Vec<SourcedValue> {
    let left_out = observed.left_out;
    let value = |what, count: u64, source: &str, certainty| SourcedValue {
        object: "requests".to_owned(),
        what,
        value: count.to_string(),
        source: source.to_owned(),
        certainty,
    };
    let mut values =
        vec![value("replayed", rows.len() as u64, "the feeds of nodes, at their times", Certainty::Measured)];
    let unknown = rows.iter().filter(|row| row.recorded.is_none()).count() as u64;
    let reasons = [
        ("without an end", unknown, "the recording ended, or the caller went away: the comparison leaves them out"),
        ("left out", left_out.earlier as u64, "they began before the recording"),
        ("left out", left_out.services as u64, "services of people's own, which no plan has"),
        ("left out", left_out.targets as u64, "no node that was seen served them or stood at their cell"),
        ("missed", left_out.missed, "the recorder was too slow for its daemon"),
    ];
    let told = reasons.into_iter().filter(|(_, count, _)| *count > 0);
    values.extend(told.map(|(what, count, source)| value(what, count, source, Certainty::Assumed)));
    values
}
