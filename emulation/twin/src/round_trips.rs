//! Round trips, jitter and losses between each two hosts that had a connection.

use std::collections::BTreeMap;

use roost_recording::{ConnectionLine, RecordingLine};
use roost_statistics::quantile;

use crate::align::Aligned;
use crate::counters::{Counted, Counters};
use crate::hosts::Hosts;
use crate::source::Certainty;

/// The least measurements of a round trip that tells the delay surely.
const SURE: usize = 3;
/// The least packets, and lost ones, that tell a loss.
const LOSS_PACKETS: u64 = 200;
const LOST_PACKETS: u64 = 3;
const JITTER_TRIPS: usize = 20;
/// Jitter below this, or below this part of the round trip, may be that of the hosts.
const LEAST_JITTER_MS: f64 = 3.0;
const LEAST_JITTER_PART: f64 = 0.05;
/// The lowest quarter of round trips with even jitter on both ways lies within this part of one way's jitter.
const QUARTER_OF_JITTER: f64 = 0.707;

/// What is known of the path between two hosts.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct PathSamples {
    /// Measured by pings, milliseconds, with their times.
    pub(crate) pings: Vec<(f64, f64)>,
    pub(crate) silent: usize,
    /// The least round trip that a transport has told, milliseconds.
    pub(crate) transport_ms: Option<f64>,
    /// Packets, and those of them that were lost, both ways.
    pub(crate) packets: u64,
    pub(crate) lost: u64,
}

/// By the two hosts, the lower index first.
pub(crate) type Paths = BTreeMap<(usize, usize), PathSamples>;

pub(crate) fn find(aligned: &Aligned<'_>, hosts: &Hosts) -> Paths {
    let mut paths = Paths::new();
    let mut counters = Counters::default();
    for (recording, t, line) in aligned.lines() {
        let (daemon, node) = match &line.line {
            RecordingLine::Ping { daemon, node, .. } => (*daemon, *node),
            RecordingLine::Connection(row) => (row.daemon, row.node),
            _ => continue,
        };
        let (Some(own), Some(other)) = (hosts.of_daemon(recording, daemon), hosts.host_of(node)) else { continue };
        if own == other {
            continue;
        }
        let path = paths.entry((own.min(other), own.max(other))).or_default();
        match &line.line {
            RecordingLine::Ping { rtt_ms: Some(rtt), .. } if rtt.is_finite() && *rtt >= 0.0 => {
                path.pings.push((t, *rtt))
            }
            RecordingLine::Ping { .. } => path.silent += 1,
            RecordingLine::Connection(row) => {
                path.add(row, counters.count(aligned, recording, t, row).unwrap_or_default());
            }
            _ => {}
        }
    }
    paths
}

impl PathSamples {
    fn add(&mut self, row: &ConnectionLine, counted: Counted) {
        if row.rtt_ms > 0.0 && row.rtt_ms.is_finite() {
            self.transport_ms = Some(self.transport_ms.map_or(row.rtt_ms, |least| least.min(row.rtt_ms)));
        }
        self.packets += counted.packets;
        self.lost += counted.lost;
    }

    pub(crate) fn least_ms(&self) -> Option<f64> {
        let pinged = self.pings.iter().map(|(_, rtt)| *rtt).reduce(f64::min);
        // A handshake's round trip has the work of both ends in it.
        pinged.or(self.transport_ms)
    }

    pub(crate) fn certainty(&self) -> Certainty {
        if self.pings.len() >= SURE { Certainty::Measured } else { Certainty::Estimated }
    }

    pub(crate) fn source(&self) -> String {
        match self.pings.len() {
            0 => "least round trip of the transport, halved".to_owned(),
            1 => "one ping, halved".to_owned(),
            count => format!("least of {count} pings, halved"),
        }
    }

    /// Jitter one way, milliseconds: what the spread of the lowest quarter of pings tells.
    pub(crate) fn jitter_ms(&self) -> Option<f64> {
        if self.pings.len() < JITTER_TRIPS {
            return None;
        }
        let mut trips: Vec<f64> = self.pings.iter().map(|(_, rtt)| *rtt).collect();
        trips.sort_by(f64::total_cmp);
        let (least, quarter) = (trips[0], quantile(&trips, 0.25)?);
        let jitter = (quarter - least) / QUARTER_OF_JITTER;
        (jitter > LEAST_JITTER_MS.max(LEAST_JITTER_PART * least)).then_some(jitter)
    }

    /// The part of packets that is lost, if enough were lost to tell.
    pub(crate) fn loss(&self) -> Option<f64> {
        let is_known = self.packets >= LOSS_PACKETS && self.lost >= LOST_PACKETS;
        is_known.then(|| (self.lost as f64 / self.packets as f64).min(0.9))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_is_no_jitter() {
        let path = |spread: f64| PathSamples {
            pings: (0..100).map(|number| (0.0, 100.0 + spread * f64::from(number) / 100.0)).collect(),
            ..PathSamples::default()
        };
        assert_eq!(path(4.0).jitter_ms(), None);
        let jitter = path(60.0).jitter_ms().unwrap();
        assert!((20.0..23.0).contains(&jitter), "{jitter}");
    }

    #[test]
    fn few_losses_tell_nothing() {
        let path = |packets, lost| PathSamples { packets, lost, ..PathSamples::default() };
        assert_eq!(path(100, 50).loss(), None);
        assert_eq!(path(1000, 2).loss(), None);
        assert_eq!(path(1000, 20).loss(), Some(0.02));
    }
}
