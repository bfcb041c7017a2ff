//! The counters of connections, as the differences of their lines.

use std::collections::BTreeMap;

use roost_recording::ConnectionLine;
use roost_wire::{NodeId, Scheme};

use crate::align::Aligned;

/// The age of a connection and the time of its line may be told this much apart, seconds.
const LATE_S: f64 = 1.0;

/// The recording, the daemon, and the remote's id, transport and address.
pub(crate) type ConnectionKey<'a> = (usize, u32, NodeId, Scheme, &'a str);

/// What a connection counted between two of its lines, or since it came up.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Counted {
    pub(crate) since: f64,
    pub(crate) received_bytes: u64,
    pub(crate) packets: u64,
    pub(crate) lost: u64,
}

/// The last lines of all connections of all recordings.
#[derive(Debug, Default)]
pub(crate) struct Counters<'a> {
    last: BTreeMap<ConnectionKey<'a>, (f64, &'a ConnectionLine)>,
}

impl<'a> Counters<'a> {
    /// `None` for the first line of a connection that is older than its recording: nobody knows the times of its counts.
    pub(crate) fn count(
        &mut self,
        aligned: &Aligned<'_>,
        recording: usize,
        t: f64,
        row: &'a ConnectionLine,
    ) -> Option<Counted> {
        let key = (recording, row.daemon, row.node, row.transport, row.address.as_str());
        let born = t - row.since_s;
        let before = self.last.insert(key, (t, row)).filter(|(t, before)| {
            let is_same = born <= *t || (born - (t - before.since_s)).abs() <= LATE_S;
            is_same && before.received_bytes <= row.received_bytes && before.lost_packets <= row.lost_packets
        });
        let packets = |row: &ConnectionLine| row.sent_packets.unwrap_or(0);
        match before {
            Some((since, before)) => Some(Counted {
                since,
                received_bytes: row.received_bytes - before.received_bytes,
                packets: packets(row).saturating_sub(packets(before)),
                lost: row.lost_packets - before.lost_packets,
            }),
            None if born >= aligned.begin_of(recording) => Some(Counted {
                since: born,
                received_bytes: row.received_bytes,
                packets: packets(row),
                lost: row.lost_packets,
            }),
            None => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use roost_recording::Recording;
    use serde_json::json;

    use super::*;

    fn line(address: &str, since_s: f64, sent: u64) -> ConnectionLine {
        serde_json::from_value(json!({ "daemon": 0, "node": "b".repeat(32), "name": "n", "role": "node",
            "transport": "udp", "address": address, "since_s": since_s, "rtt_ms": 1.0, "sent_bytes": 0,
            "received_bytes": 10 * sent, "sent_packets": sent, "lost_packets": sent / 10 }))
        .unwrap()
    }

    fn packets(lines: &[(f64, ConnectionLine)]) -> Vec<Option<u64>> {
        let recordings = [Recording::default()];
        let aligned = Aligned::new(&recordings);
        let mut counters = Counters::default();
        lines.iter().map(|(t, line)| Some(counters.count(&aligned, 0, *t, line)?.packets)).collect()
    }

    #[test]
    fn connections_are_counted_apart() {
        let lines = [(1.0, line("a:1", 60.0, 100)), (1.0, line("b:1", 60.0, 900)), (2.0, line("a:1", 61.0, 130))];
        assert_eq!(packets(&lines), [None, None, Some(30)]);
    }

    #[test]
    fn new_connections_count_from_zero() {
        // The second one is up for longer than the first one was.
        let lines = [(1.0, line("a:1", 0.5, 50)), (9.0, line("a:1", 7.0, 80)), (10.0, line("a:1", 8.0, 90))];
        assert_eq!(packets(&lines), [Some(50), Some(80), Some(10)]);
    }
}
