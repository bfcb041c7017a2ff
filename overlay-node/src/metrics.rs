use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use prometheus::{
    Error, Gauge, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts,
};
use roost_api::OutboxTotals;
use roost_core::node::{NodeStatus, RequestSummary};
use roost_runtime::metrics::{CounterRow, CounterSet, Metrics, follow};
use roost_wire::Service;
use roost_wire::messages::{Reason, RequestMode};

/// Edges of the first-byte histogram, seconds: from a warm loopback to a geostationary hop with retries.
const FIRST_BYTE_BUCKETS: [f64; 12] = [0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0];

#[derive(Clone)]
pub(crate) struct NodeMetrics {
    requests: IntCounterVec,
    received: IntCounterVec,
    lost: IntCounterVec,
    late: IntCounterVec,
    /// Datagrams of sources that were too long to be reflected.
    pub(crate) too_long: IntCounter,
    first_byte: HistogramVec,
    sessions: IntCounterVec,
    provided: IntCounterVec,
    active: IntGaugeVec,
    attached: IntGauge,
    hub_rtt: Gauge,
    standby: IntGauge,
    outbox_files: IntGauge,
    outbox_bytes: IntGauge,
    outbox_oldest: IntGauge,
    outbox_delivered: IntCounter,
    outbox_expired: IntCounter,
    machine: CounterSet<NodeStatus>,
    served: Arc<Mutex<BTreeMap<Service, u64>>>,
}

/// The most services whose requests are counted one by one: programs may offer ever new ones.
const MAX_SERVED: usize = 256;

const MACHINE: [CounterRow<NodeStatus>; 19] = [
    CounterRow("roost_node_redirects_total", "Times that the hub sent the node to another one.", |s| {
        s.counters.redirects
    }),
    CounterRow("roost_node_failbacks_total", "Times that it went back to a hub that it had lost.", |s| {
        s.counters.returns
    }),
    CounterRow("roost_node_failovers_total", "Times that the hub was lost.", |s| s.counters.failovers),
    CounterRow("roost_node_reverse_dials_total", "Providers dialled that did not reach the node.", |s| {
        s.counters.provider_dials
    }),
    CounterRow("roost_node_hedges_total", "Requests also sent to the standby because the hub was silent.", |s| {
        s.counters.hedges
    }),
    CounterRow("roost_node_retries_total", "Requests sent again because nothing was heard.", |s| s.counters.retries),
    CounterRow("roost_node_declined_busy_total", "Requests turned away because of a limit.", |s| {
        s.counters.declined_busy
    }),
    CounterRow(
        "roost_node_forbidden_total",
        "Requests, files and data turned away because the group's policy does not allow them.",
        |s| s.counters.forbidden,
    ),
    CounterRow("roost_node_displaced_total", "Requests ended in favour of requesters served less.", |s| {
        s.counters.displaced
    }),
    CounterRow("roost_node_malformed_total", "Messages that could not be read.", |s| s.counters.malformed),
    CounterRow("roost_node_unknown_messages_total", "Messages of later versions, which were skipped.", |s| {
        s.counters.later
    }),
    CounterRow("roost_node_refused_total", "Messages from one who may not send them.", |s| s.counters.refused),
    CounterRow("roost_node_stale_total", "Messages of requests that are over.", |s| s.counters.stale),
    CounterRow("roost_node_multicast_requests_total", "Requests sent by multicast, repetitions included.", |s| {
        s.counters.multicast_requests
    }),
    CounterRow("roost_node_multicast_found_total", "Requests served by who was found by multicast.", |s| {
        s.counters.found_by_multicast
    }),
    CounterRow("roost_node_multicast_missed_total", "Requests that nobody answered by multicast.", |s| {
        s.counters.missed_by_multicast
    }),
    CounterRow("roost_node_multicast_replies_total", "Requests of others answered by multicast.", |s| {
        s.counters.multicast_replies
    }),
    CounterRow("roost_node_multicast_suppressed_total", "Requests of others left to another provider.", |s| {
        s.counters.suppressed
    }),
    CounterRow("roost_node_multicast_requests_ignored_total", "Requests by multicast beyond the limit.", |s| {
        s.counters.multicast_requests_ignored
    }),
];

impl NodeMetrics {
    pub(crate) fn register(metrics: &Metrics) -> Result<Self, Error> {
        let counter = |name: &str, help: &str, labels: &[&str]| {
            metrics.register(IntCounterVec::new(Opts::new(name, help), labels)?)
        };
        let gauge = |name: &str, help: &str| metrics.register(IntGauge::new(name, help)?);
        let total = |name: &str, help: &str| metrics.register(IntCounter::new(name, help)?);
        let first_byte = HistogramOpts::new("roost_request_first_byte_seconds", "From a request to its first byte.")
            .buckets(FIRST_BYTE_BUCKETS.to_vec());
        let active = Opts::new("roost_sessions_active", "Requesters served at the moment.");
        Ok(Self {
            requests: counter("roost_requests_total", "Requests that have ended.", &["service", "mode", "outcome"])?,
            received: counter("roost_received_payload_bytes_total", "Payload received.", &["service"])?,
            lost: counter("roost_received_lost_total", "Datagrams of streams that never came.", &["service"])?,
            late: counter("roost_received_late_total", "Datagrams of streams not there in time.", &["service"])?,
            too_long: metrics.register(IntCounter::new(
                "roost_media_too_long_total",
                "RTP packets of sources that were too long to be reflected.",
            )?)?,
            first_byte: metrics.register(HistogramVec::new(first_byte, &["service"])?)?,
            sessions: counter("roost_sessions_total", "Requests that were served.", &["service", "outcome"])?,
            provided: counter("roost_provided_payload_bytes_total", "Payload provided.", &["service"])?,
            active: metrics.register(IntGaugeVec::new(active, &["service"])?)?,
            attached: metrics.register(IntGauge::new("roost_node_attached", "1 while a hub holds the record.")?)?,
            hub_rtt: metrics.register(Gauge::new("roost_node_hub_rtt_seconds", "Smoothed round trip to the hub.")?)?,
            standby: metrics.register(IntGauge::new("roost_node_standby", "1 while the node has a standby.")?)?,
            outbox_files: gauge("roost_outbox_files", "Files in the outbox.")?,
            outbox_bytes: gauge("roost_outbox_bytes", "Bytes of the files in the outbox.")?,
            outbox_oldest: gauge("roost_outbox_oldest_seconds", "The age of the oldest file in the outbox.")?,
            outbox_delivered: total("roost_outbox_delivered_total", "Files of the outbox that were delivered.")?,
            outbox_expired: total("roost_outbox_expired_total", "Files of the outbox whose time was over before.")?,
            machine: CounterSet::register(metrics, &MACHINE)?,
            served: Arc::default(),
        })
    }

    /// Counts a request that ended with a transfer.
    pub(crate) fn finished(&self, service: Service, mode: RequestMode, summary: &RequestSummary) {
        let outcome = match summary {
            RequestSummary { digest_ok: Some(false), .. } => "damaged",
            RequestSummary { complete: false, .. } => "incomplete",
            _ => "ok",
        };
        let service = service.metric_name();
        self.requests.with_label_values(&[service, mode_name(mode), outcome]).inc();
        self.received.with_label_values(&[service]).inc_by(summary.bytes);
        self.lost.with_label_values(&[service]).inc_by(summary.lost);
        self.late.with_label_values(&[service]).inc_by(summary.late);
        let histogram: Histogram = self.first_byte.with_label_values(&[service]);
        histogram.observe(summary.first_byte.as_secs_f64());
    }

    /// Counts a request that failed.
    pub(crate) fn failed(&self, service: Service, mode: RequestMode, reason: Reason) {
        self.requests.with_label_values(&[service.metric_name(), mode_name(mode), reason_name(reason)]).inc();
    }

    pub(crate) fn served(&self, service: Service, bytes: u64, reason: Option<Reason>) {
        let outcome = reason.map_or("ok", reason_name);
        self.sessions.with_label_values(&[service.metric_name(), outcome]).inc();
        self.provided.with_label_values(&[service.metric_name()]).inc_by(bytes);
        let mut served = self.served.lock().unwrap_or_else(PoisonError::into_inner);
        if reason.is_none() && (served.len() < MAX_SERVED || served.contains_key(&service)) {
            *served.entry(service).or_default() += 1;
        }
    }

    /// Requests of a service that were served to the end.
    pub(crate) fn served_total(&self, service: Service) -> u64 {
        self.served.lock().unwrap_or_else(PoisonError::into_inner).get(&service).copied().unwrap_or(0)
    }

    pub(crate) fn update(&self, status: &NodeStatus, outbox: Option<OutboxTotals>) {
        self.machine.update(status);
        let OutboxTotals { files, bytes, oldest_s, delivered, expired } = outbox.unwrap_or_default();
        for (gauge, value) in
            [(&self.outbox_files, files), (&self.outbox_bytes, bytes), (&self.outbox_oldest, oldest_s)]
        {
            gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
        }
        follow(&self.outbox_delivered, delivered);
        follow(&self.outbox_expired, expired);
        for service in Service::ALL {
            let active = status.sessions.iter().filter(|session| session.service == service).count();
            self.active.with_label_values(&[service.metric_name()]).set(active as i64);
        }
        self.attached.set(i64::from(status.home.is_some()));
        self.standby.set(i64::from(status.standby.is_some()));
        self.hub_rtt.set(status.home.as_ref().map_or(0.0, |home| home.rtt.as_secs_f64()));
    }
}

const fn mode_name(mode: RequestMode) -> &'static str {
    match mode {
        RequestMode::Forward => "forward",
        RequestMode::Relay => "relay",
        RequestMode::Lookup => "lookup",
    }
}

pub(crate) const fn reason_name(reason: Reason) -> &'static str {
    match reason {
        Reason::NotFound => "not_found",
        Reason::NotYetKnown => "not_yet_known",
        Reason::Busy => "busy",
        Reason::NoTransport => "no_transport",
        Reason::Unreachable => "unreachable",
        Reason::UnreachableAbove => "unreachable_above",
        Reason::SourceFailed => "source_failed",
        Reason::TimedOut => "timed_out",
        Reason::Leaving => "leaving",
        Reason::TooMany => "too_many",
        Reason::NotAllowed => "not_allowed",
        Reason::Cancelled => "cancelled",
        Reason::Saturated => "saturated",
        Reason::Reflected => "reflected",
        Reason::Unspecified => "unspecified",
        Reason::UnsupportedVersion => "too_old",
        Reason::TooSlow => "too_slow",
        Reason::Forbidden => "forbidden",
        Reason::WrongBody => "wrong_body",
        // A reason of a later version of the protocol counts as a broken one.
        _ => "protocol",
    }
}
