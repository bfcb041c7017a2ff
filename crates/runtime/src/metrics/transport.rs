//! Metrics of the sockets and of the traffic classes.

use prometheus::{IntCounterVec, IntGaugeVec, Opts};
use roost_core::Traffic;
use roost_transport::{MulticastCounters, SchemeCounters, Transport};
use roost_wire::Scheme;

use super::{Metrics, Total, follow};
use crate::traffic::TrafficBytes;

#[derive(Clone, Debug)]
pub struct TransportMetrics {
    by_transport: Vec<(IntCounterVec, Total<SchemeCounters>)>,
    refused: IntCounterVec,
    connections: IntGaugeVec,
    paths: IntGaugeVec,
    multicast_packets: IntCounterVec,
    multicast_bytes: IntCounterVec,
    class_bytes: IntCounterVec,
    class_messages: IntCounterVec,
}

/// The name, the help and the total of a counter of each transport.
type TransportCounter = (&'static str, &'static str, Total<SchemeCounters>);

const BY_TRANSPORT: [TransportCounter; 11] = [
    ("roost_transport_sent_bytes_total", "Bytes handed to sockets: UDP payloads, TCP bytes with TLS.", |c| {
        c.bytes_sent
    }),
    ("roost_transport_received_bytes_total", "Bytes that came from sockets.", |c| c.bytes_received),
    ("roost_transport_sent_datagrams_total", "Datagrams handed to sockets; TLS writes for TCP.", |c| c.datagrams_sent),
    ("roost_transport_received_datagrams_total", "Datagrams that came; TLS reads for TCP.", |c| c.datagrams_received),
    (
        "roost_transport_dropped_total",
        "Messages and packets dropped because a send or receive queue was full, or because the system did not send them.",
        |c| c.dropped,
    ),
    ("roost_transport_malformed_total", "Input that was no packet of ours, or from nobody known.", |c| c.malformed),
    ("roost_transport_handshakes_total", "Handshakes that led to a connection.", |c| c.handshakes),
    ("roost_transport_failed_handshakes_total", "Handshakes of remotes that failed.", |c| c.failed_handshakes),
    ("roost_transport_turned_away_total", "Handshakes turned away because of a limit.", |c| c.turned_away),
    ("roost_transport_paths_lost_total", "Paths that stopped answering, of connections that have several.", |c| {
        c.paths_lost
    }),
    ("roost_transport_paths_recovered_total", "Paths among them that answered again.", |c| c.paths_restored),
];

impl TransportMetrics {
    /// # Errors
    /// Fails if a name is taken.
    pub fn register(metrics: &Metrics) -> Result<Self, prometheus::Error> {
        let counter = |name: &str, help: &str, label: &str| {
            metrics.register(IntCounterVec::new(Opts::new(name, help), &[label])?)
        };
        let by_transport = BY_TRANSPORT
            .into_iter()
            .map(|(name, help, total)| Ok((counter(name, help, "transport")?, total)))
            .collect::<Result<_, prometheus::Error>>()?;
        let connections = Opts::new("roost_transport_connections", "Connections that are up.");
        let paths = Opts::new("roost_transport_paths", "Paths of the connections over QUIC.");
        Ok(Self {
            by_transport,
            refused: counter("roost_transport_refused_total", "Remotes refused by the group's policy.", "reason")?,
            connections: metrics.register(IntGaugeVec::new(connections, &["transport"])?)?,
            paths: metrics.register(IntGaugeVec::new(paths, &["state"])?)?,
            multicast_packets: counter("roost_multicast_packets_total", "Multicast packets by outcome.", "outcome")?,
            multicast_bytes: counter("roost_multicast_bytes_total", "Bytes of multicast packets.", "direction")?,
            class_bytes: counter("roost_traffic_sent_bytes_total", "Bytes of messages sent, before sealing.", "class")?,
            class_messages: counter("roost_traffic_sent_messages_total", "Messages sent.", "class")?,
        })
    }

    pub fn update(&self, transport: &Transport, traffic: &TrafficBytes) {
        let counters = transport.counters();
        for scheme in Scheme::ALL {
            let totals = counters.for_scheme(scheme);
            for (counter, total) in &self.by_transport {
                follow(&counter.with_label_values(&[scheme.name()]), total(totals));
            }
        }
        for (reason, total) in refused(&counters) {
            follow(&self.refused.with_label_values(&[reason]), total);
        }
        if let Some(multicast) = transport.multicast_counters() {
            self.update_multicast(&multicast);
        }
        let connections = transport.connections();
        for scheme in Scheme::ALL {
            let up = connections.iter().filter(|connection| connection.scheme == scheme).count();
            self.connections.with_label_values(&[scheme.name()]).set(up as i64);
        }
        let paths: Vec<_> = connections.iter().flat_map(|connection| &connection.paths).collect();
        let answering = paths.iter().filter(|path| path.answers).count();
        for (state, count) in [("answers", answering), ("silent", paths.len() - answering)] {
            self.paths.with_label_values(&[state]).set(count as i64);
        }
        for class in Traffic::ALL {
            follow(&self.class_bytes.with_label_values(&[class.name()]), traffic.sent(class));
            follow(&self.class_messages.with_label_values(&[class.name()]), traffic.messages(class));
        }
    }

    fn update_multicast(&self, counters: &MulticastCounters) {
        let outcomes = [
            ("sent", counters.sent),
            ("received", counters.received),
            ("unsent", counters.unsent),
            ("forged", counters.forged),
            ("late", counters.late),
            ("replayed", counters.replayed),
            ("crowded", counters.over_sender_limit),
            ("strangers", counters.over_unknown_limit),
            ("dropped", counters.dropped),
        ];
        for (outcome, total) in outcomes {
            follow(&self.multicast_packets.with_label_values(&[outcome]), total);
        }
        for (direction, total) in [("sent", counters.sent_bytes), ("received", counters.received_bytes)] {
            follow(&self.multicast_bytes.with_label_values(&[direction]), total);
        }
    }
}

/// Remotes refused over all transports, by reason.
pub fn refused(counters: &roost_transport::Counters) -> std::collections::BTreeMap<&'static str, u64> {
    let mut totals = std::collections::BTreeMap::new();
    for (reason, count) in counters.schemes.iter().flat_map(|scheme| &scheme.refused) {
        *totals.entry(*reason).or_default() += count;
    }
    totals
}
