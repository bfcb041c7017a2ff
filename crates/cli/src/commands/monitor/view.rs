//! The figures of `roost top`, made from two samples of a daemon.

use std::time::Instant;

use roost_api::{ConnectionRow, Status, StreamRow};
use roost_terminal::SCHEMA;
use roost_wire::format_node;
use serde::Serialize;

pub(super) struct Sample {
    pub(super) at: Instant,
    pub(super) status: Status,
    pub(super) connections: Vec<ConnectionRow>,
    pub(super) streams: Vec<StreamRow>,
}

/// All that a frame shows. Rates are zero for a remote without an earlier sample.
#[derive(Debug, Default, PartialEq, Serialize)]
pub(super) struct View {
    pub(super) schema: u32,
    pub(super) who: String,
    /// Nodes whose home a hub is; absent at a node.
    pub(super) nodes: Option<u64>,
    /// At a hub the requests that wait for a provider, at a node those that it receives or serves.
    pub(super) requests: u64,
    pub(super) relays: u64,
    pub(super) sent_per_second: f64,
    pub(super) received_per_second: f64,
    pub(super) remotes: Vec<RemoteRow>,
    pub(super) streams: Vec<FlowRow>,
}

#[derive(Debug, PartialEq, Serialize)]
pub(super) struct RemoteRow {
    pub(super) name: String,
    pub(super) role: String,
    pub(super) transport: String,
    pub(super) rtt_ms: f64,
    pub(super) sent_per_second: f64,
    pub(super) received_per_second: f64,
    pub(super) messages_per_second: f64,
    pub(super) up_s: f64,
}

/// A reflected stream, or a flow of this node's own.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct FlowRow {
    pub(super) service: String,
    /// The provider of a stream, or the other end of a flow.
    pub(super) remote: String,
    pub(super) kind: &'static str,
    pub(super) receivers: usize,
    pub(super) bytes_per_second: f64,
    pub(super) lost: u64,
}

impl View {
    pub(super) fn new(before: Option<&Sample>, now: &Sample) -> Self {
        let status = &now.status;
        let seconds = before.map_or(0.0, |before| (now.at - before.at).as_secs_f64());
        let rate = |now: u64, before: Option<u64>| per_second(now, before, seconds);
        let totals = before.map(|before| &before.status.transport);
        Self {
            schema: SCHEMA,
            who: format!("{} ({}) of group {}", status.name, status.role, status.group),
            nodes: status.index.map(|index| index.nodes),
            requests: status.index.map_or(0, |index| index.pending_requests)
                + (status.receiving.len() + status.providing.len()) as u64,
            relays: status.index.map_or(0, |index| index.relays),
            sent_per_second: rate(status.transport.sent_bytes, totals.map(|totals| totals.sent_bytes)),
            received_per_second: rate(status.transport.received_bytes, totals.map(|totals| totals.received_bytes)),
            remotes: now.connections.iter().map(|row| remote(row, before, seconds)).collect(),
            streams: now.streams.iter().map(reflected).chain(transfers(before, now, seconds)).collect(),
        }
    }
}

/// The rate of a counter; zero without an earlier value, or if the daemon has started again since.
fn per_second(now: u64, before: Option<u64>, seconds: f64) -> f64 {
    match before.and_then(|before| now.checked_sub(before)) {
        Some(more) if seconds > 0.0 => more as f64 / seconds,
        _ => 0.0,
    }
}

fn remote(row: &ConnectionRow, before: Option<&Sample>, seconds: f64) -> RemoteRow {
    let is_same = |old: &&ConnectionRow| {
        old.node == row.node
            && old.transport == row.transport
            && old.address == row.address
            && old.since_s <= row.since_s
    };
    let old = before.and_then(|before| before.connections.iter().find(is_same));
    let rate = |read: fn(&ConnectionRow) -> u64| per_second(read(row), old.map(read), seconds);
    RemoteRow {
        name: row.name.clone(),
        role: row.role.to_string(),
        transport: row.transport.to_string(),
        rtt_ms: row.rtt_ms,
        sent_per_second: rate(|row| row.sent_bytes),
        received_per_second: rate(|row| row.received_bytes),
        messages_per_second: rate(|row| row.sent_messages + row.received_messages),
        up_s: row.since_s,
    }
}

fn reflected(row: &StreamRow) -> FlowRow {
    let kind = match (row.published, row.watched) {
        (true, _) => "published",
        (false, true) => "subscribed",
        (false, false) => "reflected",
    };
    FlowRow {
        service: row.service.map_or_else(|| "-".to_owned(), |service| service.to_string()),
        remote: row.provider.map_or_else(|| "-".to_owned(), |node| format_node(node, row.provider_name.as_deref())),
        kind,
        receivers: row.downstreams.len(),
        bytes_per_second: row.bits_per_second as f64 / 8.0,
        lost: row.lost,
    }
}

fn transfers(before: Option<&Sample>, now: &Sample, seconds: f64) -> impl Iterator<Item = FlowRow> {
    let flows = |status: &Status| {
        let provided = status.providing.iter().cloned().map(|flow| ("provided", flow));
        provided.chain(status.receiving.iter().cloned().map(|flow| ("received", flow))).collect::<Vec<_>>()
    };
    let earlier = before.map(|before| flows(&before.status)).unwrap_or_default();
    flows(&now.status).into_iter().map(move |(kind, flow)| {
        let is_same = |(way, old): &&(&str, roost_api::Transfer)| {
            *way == kind && old.service == flow.service && old.remote == flow.remote && old.elapsed_s <= flow.elapsed_s
        };
        let old = earlier.iter().find(is_same).map(|(_, old)| old.bytes);
        FlowRow {
            service: flow.service.to_string(),
            remote: flow.remote.map_or_else(|| "-".to_owned(), |node| format_node(node, flow.remote_name.as_deref())),
            kind,
            receivers: 1,
            bytes_per_second: per_second(flow.bytes, old, seconds),
            lost: 0,
        }
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    /// A sample of a hub with one connection.
    fn sample(at: Instant, sent: u64, since_s: f64) -> Sample {
        let node = "6f0c2f1a9be04d7bb21f0e6f2d1c8a55";
        let transport = json!({"sent_bytes": sent, "received_bytes": 2 * sent, "sent_datagrams": 0,
            "received_datagrams": 0, "schemes": {}});
        let index = json!({"nodes": 3, "entries": 4, "pending_requests": 2, "relays": 1, "watches": 0, "hubs": 0,
            "warming_up": false});
        let status = json!({"schema": 1, "role": "supernode", "name": "sn1", "group": "grove", "node": node,
            "version": "1", "state": "listening", "started_unix_s": 1, "uptime_s": 1.0,
            "certificate_not_after_unix_s": 1, "listen": [], "index": index, "transport": transport,
            "traffic_sent_bytes": {}});
        let connection = json!({"node": node, "name": "uav7", "role": "node", "transport": "udp",
            "address": "127.0.0.1:1", "dialed": false, "rtt_ms": 1.5, "sent_bytes": sent, "received_bytes": 10,
            "sent_messages": 4, "received_messages": 6, "retransmissions": 0, "since_s": since_s});
        Sample {
            at,
            status: serde_json::from_value(status).unwrap(),
            connections: vec![serde_json::from_value(connection).unwrap()],
            streams: Vec::new(),
        }
    }

    #[test]
    fn rates_follow_from_two_samples() {
        let begun = Instant::now();
        let (before, now) = (sample(begun, 1000, 5.0), sample(begun + Duration::from_secs(2), 5000, 7.0));
        let view = View::new(Some(&before), &now);
        assert_eq!((view.nodes, view.requests, view.relays), (Some(3), 2, 1));
        assert_eq!((view.sent_per_second, view.received_per_second), (2000.0, 4000.0));
        assert_eq!(view.remotes[0].sent_per_second, 2000.0);
        assert_eq!(view.remotes[0].messages_per_second, 0.0);
    }

    #[test]
    fn new_connection_has_no_rate() {
        let begun = Instant::now();
        let (before, now) = (sample(begun, 1000, 5.0), sample(begun + Duration::from_secs(2), 500, 1.0));
        for view in [View::new(None, &now), View::new(Some(&before), &now)] {
            assert_eq!((view.sent_per_second, view.remotes[0].sent_per_second), (0.0, 0.0));
        }
    }
}
