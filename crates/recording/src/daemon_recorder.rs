//! A daemon's part of a recording, without a clock: answers of its local API in, lines out.

use std::collections::BTreeMap;
use std::time::Duration;

use roost_api::{ConnectionRow, Connections, Status};
use roost_wire::{NodeId, Scheme};

use crate::line::{ConnectionLine, DaemonLine, RecordingLine, ServiceName, TrafficLine};
use crate::redaction::Redaction;

/// A line is made only of what has changed.
#[derive(Debug)]
pub struct DaemonRecorder {
    daemon: u32,
    redaction: Redaction,
    last: Option<DaemonLine>,
    traffic: Option<TrafficLine>,
    connections: BTreeMap<(NodeId, Scheme, String), ConnectionLine>,
    is_gone: bool,
}

impl DaemonRecorder {
    pub const fn new(daemon: u32, redaction: Redaction) -> Self {
        Self { daemon, redaction, last: None, traffic: None, connections: BTreeMap::new(), is_gone: false }
    }

    pub const fn daemon(&self) -> u32 {
        self.daemon
    }

    pub const fn redaction(&self) -> &Redaction {
        &self.redaction
    }

    pub fn record_status(&mut self, status: &Status) -> Vec<RecordingLine> {
        let mut lines = Vec::new();
        let row = self.daemon_line(status);
        if std::mem::take(&mut self.is_gone) || self.last.as_ref() != Some(&row) {
            self.last = Some(row.clone());
            lines.push(RecordingLine::Daemon(row));
        }
        let traffic = self.traffic_line(status);
        if self.traffic != Some(traffic) {
            self.traffic = Some(traffic);
            lines.push(RecordingLine::Traffic(traffic));
        }
        lines
    }

    pub fn record_connections(&mut self, connections: &Connections) -> Vec<RecordingLine> {
        let rows = connections.connections.iter().map(|row| self.connection_line(row));
        let rows: BTreeMap<_, _> = rows.map(|row| ((row.node, row.transport, row.address.clone()), row)).collect();
        let counts = |row: &ConnectionLine| (row.sent_bytes, row.received_bytes, row.lost_packets);
        let is_new = |key, row: &ConnectionLine| self.connections.get(key).map(counts) != Some(counts(row));
        let lines: Vec<_> = rows
            .iter()
            .filter(|(key, row)| is_new(key, row))
            .map(|(_, row)| RecordingLine::Connection(row.clone()))
            .collect();
        self.connections = rows;
        lines
    }

    /// The nodes with which there are connections, each once.
    pub fn remotes(&self) -> Vec<NodeId> {
        let mut nodes: Vec<NodeId> = self.connections.keys().map(|(node, _, _)| *node).collect();
        nodes.dedup();
        nodes
    }

    /// The daemon does not answer; only the first time makes a line.
    pub fn record_silence(&mut self, silent: Duration) -> Option<RecordingLine> {
        let was_there = self.last.is_some() && !self.is_gone;
        self.is_gone |= was_there;
        self.connections.clear();
        was_there.then_some(RecordingLine::Gone { daemon: self.daemon, silent_s: silent.as_secs_f64() })
    }

    fn daemon_line(&self, status: &Status) -> DaemonLine {
        DaemonLine {
            daemon: self.daemon,
            node: status.node,
            name: self.redaction.name(&status.name),
            role: status.role,
            cell: status.cell,
            services: status.services.iter().copied().map(ServiceName).collect(),
            hub: status.hub.as_ref().map(|hub| hub.node),
            tier: status.index.map_or(0, |index| index.tier),
            listen: status.listen.iter().map(|endpoint| self.redaction.address(endpoint)).collect(),
            started_unix_s: Some(status.started_unix_s),
        }
    }

    fn traffic_line(&self, status: &Status) -> TrafficLine {
        let totals = &status.transport;
        let tcp = totals.schemes.get(Scheme::Tcp.name()).copied().unwrap_or_default();
        TrafficLine {
            daemon: self.daemon,
            sent_bytes: totals.sent_bytes,
            received_bytes: totals.received_bytes,
            sent_datagrams: totals.sent_datagrams,
            received_datagrams: totals.received_datagrams,
            tcp_sent_bytes: tcp.sent_bytes,
            tcp_received_bytes: tcp.received_bytes,
        }
    }

    fn connection_line(&self, row: &ConnectionRow) -> ConnectionLine {
        let rates = row.paths.iter().filter_map(|path| path.rate_bps);
        ConnectionLine {
            daemon: self.daemon,
            node: row.node,
            name: self.redaction.name(&row.name),
            role: row.role,
            transport: row.transport,
            address: self.redaction.address(&row.address),
            since_s: row.since_s,
            rtt_ms: row.rtt_ms,
            sent_bytes: row.sent_bytes,
            received_bytes: row.received_bytes,
            sent_packets: row.sent_packets,
            lost_packets: row.retransmissions,
            rate_bps: rates.reduce(u64::saturating_add),
            clock_ahead_s: row.clock_ahead_s,
        }
    }
}

#[cfg(test)]
mod tests {
    use roost_api::RequestLine;
    use serde_json::json;

    use super::*;

    fn status(cell: &str, sent: u64) -> Status {
        serde_json::from_value(json!({
            "schema": 2, "role": "node", "name": "uav1", "group": "g", "node": "a".repeat(32), "version": "1",
            "state": "attached", "started_unix_s": 1, "uptime_s": 2.0, "certificate_not_after_unix_s": 3,
            "listen": ["udp://10.0.0.1:7700"], "cell": cell, "services": ["video"],
            "transport": { "sent_bytes": sent, "received_bytes": 0, "sent_datagrams": 0, "received_datagrams": 0,
                           "schemes": {} },
            "traffic_sent_bytes": {}
        }))
        .unwrap()
    }

    fn connections(sent: u64) -> Connections {
        serde_json::from_value(json!({ "schema": 2, "connections": [{
            "node": "b".repeat(32), "name": "uav2", "role": "node", "transport": "udp", "address": "10.0.0.2:7700",
            "dialed": true, "rtt_ms": 10.0, "sent_bytes": sent, "received_bytes": 0, "sent_messages": 1,
            "received_messages": 1, "retransmissions": 0, "since_s": 4.0
        }] }))
        .unwrap()
    }

    /// A request of a provider that people named so, and its end.
    fn requests(provider: &str) -> [RequestLine; 2] {
        let began = json!({ "event": "began", "schema": 2, "request": 1, "began_unix_ms": 1, "service": "video",
            "area": { "at": "3,4" }, "provider": provider, "transports": ["udp"], "reflect": "never" });
        let ended = json!({ "event": "ended", "schema": 2, "request": 1, "outcome": "completed", "elapsed_ms": 9.0,
            "summary": { "provider": "c".repeat(32), "provider_name": "uav7", "cell": "3,4", "transport": "udp",
            "relayed": false, "bytes": 1, "packets": 1, "lost": 0, "reordered": 0, "duplicates": 0, "unread": 0,
            "jitter_ms": 0.0, "first_byte_ms": 4.0, "elapsed_ms": 9.0, "digest_ok": null, "complete": true } });
        [began, ended].map(|line| serde_json::from_value(line).unwrap())
    }

    #[test]
    fn only_changes_make_lines() {
        let mut recorder = DaemonRecorder::new(0, Redaction::none());
        assert_eq!(recorder.record_status(&status("1,2", 5)).len(), 2);
        assert_eq!(recorder.record_status(&status("1,2", 5)).len(), 0);
        assert!(matches!(recorder.record_status(&status("1,2", 6))[..], [RecordingLine::Traffic(_)]));
        assert!(matches!(recorder.record_status(&status("1,3", 6))[..], [RecordingLine::Daemon(_)]));
        assert_eq!(recorder.record_connections(&connections(1)).len(), 1);
        assert_eq!(recorder.record_connections(&connections(1)).len(), 0);
        assert_eq!(recorder.record_connections(&connections(2)).len(), 1);
        assert_eq!(recorder.remotes().len(), 1);
    }

    #[test]
    fn return_after_silence_is_told() {
        let mut recorder = DaemonRecorder::new(3, Redaction::none());
        let silent = Duration::from_secs(10);
        assert_eq!(recorder.record_silence(silent), None, "it was never there");
        recorder.record_status(&status("1,2", 5));
        let gone = RecordingLine::Gone { daemon: 3, silent_s: 10.0 };
        assert_eq!(recorder.record_silence(silent), Some(gone));
        assert_eq!(recorder.record_silence(silent), None);
        assert!(matches!(recorder.record_status(&status("1,2", 5))[..], [RecordingLine::Daemon(_)]));
        let restarted = Status { started_unix_s: 9, ..status("1,2", 5) };
        assert!(matches!(recorder.record_status(&restarted)[..], [RecordingLine::Daemon(_)]), "it was quick");
    }

    #[test]
    fn redacted_lines_have_no_names() {
        let mut recorder = DaemonRecorder::new(0, Redaction::with_word("x".to_owned()));
        let mut lines = recorder.record_status(&status("1,2", 5));
        lines.extend(recorder.record_connections(&connections(1)));
        for request in requests("uav7") {
            lines.push(RecordingLine::Request { daemon: 0, request: recorder.redaction().request(request) });
        }
        let text = serde_json::to_string(&lines).unwrap();
        assert!(text.contains("\"provider\":\"n-") && text.contains("\"provider_name\":\"n-"), "{text}");
        assert!(!text.contains("uav") && !text.contains("10.0.0"), "{text}");
    }

    #[test]
    fn whole_id_stays_in_request() {
        let redaction = Redaction::with_word("x".to_owned());
        let [began, _] = requests(&"c".repeat(32));
        assert_eq!(redaction.request(began.clone()), began);
        let [begin_of_id, _] = requests("cccc");
        assert_ne!(redaction.request(begin_of_id.clone()), begin_of_id);
        assert_eq!(Redaction::none().request(begin_of_id.clone()), begin_of_id);
    }
}
