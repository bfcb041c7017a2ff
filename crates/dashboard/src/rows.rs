//! The rows of a picture, made of a daemon's answers.
//!
//! Counters become rates, and figures that always tremble keep two digits: a row that says nothing new stays the same.

use std::collections::BTreeMap;
use std::time::Duration;

use roost_api::{
    Candidate, ConnectionRow, Connections, HubConnection, ServiceRow, Services, Status, StreamRow, Streams, Transfer,
};
use serde_json::{Value, json};

use crate::loss::{Losses, PacketCounts};
use crate::picture::Rows;

/// Counters of a connection or a transfer when they were last read.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    sent: u64,
    received: u64,
    /// The seconds since the counters were nought.
    age_s: f64,
}

/// Makes rates of counters: it remembers what they were.
#[derive(Debug, Default)]
pub(crate) struct Rates {
    before: BTreeMap<String, Counted>,
    losses: Losses,
}

/// A number with its first two digits.
fn rounded(number: f64) -> f64 {
    if number == 0.0 || !number.is_finite() {
        return 0.0;
    }
    let unit = 10_f64.powf(number.abs().log10().floor() - 1.0);
    let digits = (number / unit).round();
    // A unit below one has no exact binary form; its inverse has.
    if unit < 1.0 { digits / (1.0 / unit).round() } else { digits * unit }
}

/// The answer without fields that change at each look and tell nothing of the network.
fn without(value: Value, fields: &[&str]) -> Value {
    let Value::Object(mut row) = value else { return value };
    for field in fields {
        row.remove(*field);
    }
    Value::Object(row)
}

fn row_of(answer: &impl serde::Serialize) -> Value {
    // The types of the local API always have a JSON form.
    serde_json::to_value(answer).unwrap_or_default()
}

/// Fields of a daemon's status that change at each look, or stand in rows of their own.
const DAEMON: [&str; 9] = [
    "schema",
    "uptime_s",
    "transport",
    "traffic_sent_bytes",
    "providing",
    "receiving",
    "hubs",
    "last_error_s",
    "outbox",
];

/// Fields of the remotes of a stream that change at each look.
const STREAM_REMOTE: [&str; 9] =
    ["packets", "repaired", "repairs", "jitter_ms", "rtt_ms", "received", "nacks", "nacked", "lost"];

pub(crate) fn daemon(status: &Status) -> Rows {
    let mut row = without(row_of(status), &DAEMON);
    if let Some(following) = row.get_mut("following") {
        *following = without(following.take(), &["since_s"]);
    }
    // The round trip of a home trembles.
    for hub in ["hub", "standby"] {
        if let Some(Value::Object(hub)) = row.get_mut(hub)
            && let Some(rtt) = hub.get("rtt_ms").and_then(Value::as_f64)
        {
            hub.insert("rtt_ms".to_owned(), json!(rounded(rtt)));
            hub.remove("since_s");
            hub.remove("clock_ahead_s");
        }
    }
    Rows::from([("daemon/self".to_owned(), row)])
}

pub(crate) fn hubs(status: &Status) -> Rows {
    let row = |hub: &HubConnection| {
        let id = hub.node.map_or_else(|| hub.endpoints.join(","), |node| node.to_string());
        let mut row = without(row_of(hub), &["up_s", "down_s", "clock_ahead_s"]);
        row["up"] = json!(hub.up_s.is_some());
        if let Some(rtt) = hub.rtt_ms {
            row["rtt_ms"] = json!(rounded(rtt));
        }
        let relation = row["relation"].as_str().unwrap_or_default();
        (format!("hub/{relation}/{id}"), row)
    };
    status.hubs.iter().map(row).collect()
}

pub(crate) fn services(services: &Services) -> Rows {
    // Services of one name may have several forms.
    let row = |listed: &ServiceRow| {
        let (service, mut row) = (listed.service.full_text(), row_of(listed));
        row["service"] = json!(service);
        (format!("service/{service}"), row)
    };
    services.services.iter().map(row).collect()
}

pub(crate) fn node(candidate: &Candidate) -> (String, Value) {
    // Distance and bearing are those from the daemon, which a map shows by itself.
    let mut row = without(row_of(candidate), &["expires_in_s", "addresses"]);
    if let Some(Value::Object(place)) = row.get_mut("place") {
        place.remove("distance_m");
        place.remove("bearing_deg");
    }
    (format!("node/{}", candidate.node), row)
}

fn stream(stream: &StreamRow) -> Value {
    let mut row = without(row_of(stream), &["packets", "duplicates", "lost"]);
    row["bits_per_second"] = json!(rounded(stream.bits_per_second as f64));
    for side in ["upstreams", "downstreams"] {
        for remote in row.get_mut(side).and_then(Value::as_array_mut).into_iter().flatten() {
            let rate = remote.get("bits_per_second").and_then(Value::as_f64).map(rounded);
            *remote = without(remote.take(), &STREAM_REMOTE);
            if let Some(rate) = rate {
                remote["bits_per_second"] = json!(rate);
            }
        }
    }
    row
}

impl Rates {
    /// The connections, with the rates since the last look, which was so long ago.
    pub(crate) fn connections(&mut self, connections: &Connections, since: Duration) -> Rows {
        let rows = connections.connections.iter().map(|row| {
            let key = format!("connection/{}/{}/{}", row.node, row.transport, row.address);
            let counted = Counted { sent: row.sent_bytes, received: row.received_bytes, age_s: row.since_s };
            let (sent_bps, received_bps) = self.rates(&key, counted, since);
            let mut value = connection(row, sent_bps, received_bps);
            if let Some(packets) = row.sent_packets {
                let counts = PacketCounts { packets, lost: row.retransmissions, age_s: row.since_s };
                add_loss(&mut value, self.losses.percent(&key, counts, since));
            }
            (key, value)
        });
        let rows: Rows = rows.collect();
        self.losses.retain(|key| !key.starts_with("connection/") || rows.contains_key(key));
        self.before.retain(|key, _| !key.starts_with("connection/") || rows.contains_key(key));
        rows
    }

    /// The streams, with the packets that were lost on the way here and not repaired.
    pub(crate) fn streams(&mut self, streams: &Streams, since: Duration) -> Rows {
        let rows = streams.streams.iter().map(|row| {
            let key = format!("stream/{}", row.stream);
            // A stream that has come back counts fewer packets.
            let packets = row.packets + row.lost;
            let counts = PacketCounts { packets, lost: row.lost, age_s: packets as f64 };
            let mut value = stream(row);
            add_loss(&mut value, self.losses.percent(&key, counts, since));
            (key, value)
        });
        let rows: Rows = rows.collect();
        self.losses.retain(|key| !key.starts_with("stream/") || rows.contains_key(key));
        rows
    }

    /// The transfers of the node itself, with their rates.
    pub(crate) fn transfers(&mut self, status: &Status, since: Duration) -> Rows {
        let mut rows = Rows::new();
        for (way, transfers) in [("providing", &status.providing), ("receiving", &status.receiving)] {
            for transfer in transfers {
                let Transfer { remote, remote_name, bytes, elapsed_s, .. } = transfer;
                let service = transfer.service.full_text();
                let remote_id = remote.map(|node| node.to_string()).unwrap_or_default();
                // Several may be alike.
                let keys = (0_u32..).map(|number| format!("transfer/{way}/{service}/{remote_id}/{number}"));
                let Some(key) = keys.into_iter().find(|key| !rows.contains_key(key)) else { continue };
                let (bits, _) = self.rates(&key, Counted { sent: *bytes, received: 0, age_s: *elapsed_s }, since);
                let row = json!({
                    "way": way, "service": service, "remote": remote, "remote_name": remote_name, "bits_per_second": bits
                });
                rows.insert(key, row);
            }
        }
        self.before.retain(|key, _| !key.starts_with("transfer/") || rows.contains_key(key));
        rows
    }

    /// Bits per second that were sent and received; 0 at the first look at these counters.
    fn rates(&mut self, key: &str, now: Counted, since: Duration) -> (f64, f64) {
        let before = self.before.insert(key.to_owned(), now).filter(|before| before.age_s <= now.age_s).unwrap_or(now);
        let rate =
            |now: u64, before: u64| rounded(now.saturating_sub(before) as f64 * 8.0 / since.as_secs_f64().max(0.001));
        (rate(now.sent, before.sent), rate(now.received, before.received))
    }
}

fn add_loss(row: &mut Value, percent: Option<f64>) {
    if let Some(percent) = percent {
        row["loss_percent"] = json!(rounded(percent));
    }
}

fn connection(row: &ConnectionRow, sent_bps: f64, received_bps: f64) -> Value {
    let fields = [
        "sent_bytes",
        "received_bytes",
        "sent_messages",
        "received_messages",
        "since_s",
        "paths",
        "labels",
        "sent_packets",
        "retransmissions",
        "certificate_not_after_unix_s",
    ];
    let mut value = without(row_of(row), &fields);
    value["rtt_ms"] = json!(rounded(row.rtt_ms));
    value["sent_bps"] = json!(sent_bps);
    value["received_bps"] = json!(received_bps);
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trembling_figures_keep_two_digits() {
        for (number, expected) in
            [(0.0, 0.0), (12_345.0, 12_000.0), (0.031_415, 0.031), (99.6, 100.0), (7.0, 7.0), (f64::NAN, 0.0)]
        {
            assert_eq!(rounded(number).to_string(), f64::to_string(&expected), "{number}");
        }
    }

    #[test]
    fn rates_come_of_counters() {
        let mut rates = Rates::default();
        let second = Duration::from_secs(1);
        let counted = |sent, received, age_s| Counted { sent, received, age_s };
        assert_eq!(rates.rates("a", counted(1000, 0, 1.0), second), (0.0, 0.0));
        assert_eq!(rates.rates("a", counted(2000, 50, 2.0), second), (8000.0, 400.0));
        // Another transfer has the place of one that has ended.
        assert_eq!(rates.rates("a", counted(90_000, 0, 0.5), second), (0.0, 0.0));
        assert_eq!(rates.rates("a", counted(10, 0, 1.5), second), (0.0, 0.0));
    }
}
