//! Probes, and the schedule of their flows.

use std::collections::{BTreeMap, VecDeque};
use std::net::Ipv4Addr;
use std::time::Duration;

use roost_topology::model::{HostIndex, NetIndex};
use serde::{Deserialize, Serialize};

/// Bytes that Ethernet, IPv4 and UDP add to a payload.
pub(super) const OVERHEAD: u32 = 14 + 20 + 8;
/// The smallest frame of a probe, whose content [`super::probe`] describes.
pub(super) const SMALLEST_FRAME: u32 = OVERHEAD + 24;
pub(super) const LARGEST_FRAME: u32 = 1514;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct LinktestFlow {
    pub(super) from: HostIndex,
    pub(super) to: HostIndex,
    /// The receiver's address on the link or LAN that is measured.
    pub(super) address: Ipv4Addr,
    /// The link or LAN, and the indices of the two members; `None` for a flow over any path.
    pub(super) way: Option<(NetIndex, usize, usize)>,
    /// Bytes of a frame on the wire, from [`SMALLEST_FRAME`] to [`LARGEST_FRAME`].
    pub(super) frame: u32,
    pub(super) count: u32,
    pub(super) interval: Duration,
    /// Probes that may be sent at once to catch up after a delay; the rest is sent later.
    pub(super) burst: u32,
    pub(super) start: Duration,
    /// The time for which the last probe's arrival is awaited.
    pub(super) patience: Duration,
}

impl LinktestFlow {
    /// Packets per second.
    fn pace(&self) -> f64 {
        if self.count < 2 { 0.0 } else { 1.0 / self.interval.as_secs_f64().max(1e-9) }
    }

    /// From the first probe to one interval after the last.
    pub(super) fn length(&self) -> Duration {
        self.interval * self.count
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct LinktestTrace {
    pub(super) sent: u32,
    /// The probes that arrived, each once, in the order of arrival.
    pub(super) arrivals: Vec<LinktestArrival>,
}

/// A probe that arrived; times in nanoseconds of one clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LinktestArrival {
    pub(super) sent: u64,
    pub(super) received: u64,
}

impl LinktestTrace {
    /// In milliseconds.
    pub(super) fn delays(&self) -> Vec<f64> {
        self.arrivals.iter().map(|arrival| arrival.received.saturating_sub(arrival.sent) as f64 / 1e6).collect()
    }

    /// Probes that were sent and did not arrive.
    pub(super) fn lost(&self) -> u32 {
        self.sent.saturating_sub(u32::try_from(self.arrivals.len()).unwrap_or(u32::MAX))
    }
}

/// Flows that are examined to find one that can begin.
const LOOKAHEAD: usize = 512;

/// Sets every flow's start so that no two share a leg at a time, and all together send at most `pace` packets
/// per second (a single flow may send more). A leg rests for `rest` after its flow, so that queues empty. Flows
/// without a fixed path keep their start. Returns the end of the last flow.
pub(super) fn schedule(flows: &mut [LinktestFlow], pace: f64, rest: Duration) -> Duration {
    let mut waiting: VecDeque<usize> = (0..flows.len()).filter(|index| flows[*index].way.is_some()).collect();
    let mut busy: BTreeMap<LinktestLeg, Duration> = BTreeMap::new();
    // Running flows: their end and their pace.
    let mut running: Vec<(Duration, f64)> = Vec::new();
    let mut now = Duration::ZERO;
    while !waiting.is_empty() {
        running.retain(|(end, _)| *end > now);
        let mut load: f64 = running.iter().map(|(_, pace)| pace).sum();
        let mut place = 0;
        while place < waiting.len().min(LOOKAHEAD) {
            let flow = &mut flows[waiting[place]];
            let legs = legs(flow);
            let free = legs.iter().all(|leg| busy.get(leg).is_none_or(|until| *until <= now));
            if free && (load == 0.0 || load + flow.pace() <= pace) {
                flow.start = now;
                load += flow.pace();
                running.push((now + flow.length(), flow.pace()));
                busy.extend(legs.map(|leg| (leg, now + flow.length() + rest)));
                waiting.remove(place);
            } else {
                place += 1;
            }
        }
        let ends = running.iter().map(|(end, _)| *end).chain(busy.values().copied());
        now = ends.filter(|end| *end > now).min().unwrap_or(now + Duration::from_millis(1));
    }
    flows.iter().map(|flow| flow.start + flow.length()).max().unwrap_or_default()
}

/// A member's direction: the net, its index, and true for the direction towards the net.
type LinktestLeg = (NetIndex, usize, bool);

fn legs(flow: &LinktestFlow) -> [LinktestLeg; 2] {
    let (net, from, to) = flow.way.unwrap_or_default();
    [(net, from, true), (net, to, false)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(from: usize, to: usize) -> LinktestFlow {
        LinktestFlow {
            from,
            to,
            address: Ipv4Addr::LOCALHOST,
            way: Some((0, from, to)),
            frame: 100,
            count: 10,
            interval: Duration::from_millis(1),
            burst: 1,
            start: Duration::ZERO,
            patience: Duration::ZERO,
        }
    }

    fn starts(mut flows: Vec<LinktestFlow>, pace: f64, rest_ms: u64) -> Vec<u128> {
        schedule(&mut flows, pace, Duration::from_millis(rest_ms));
        flows.iter().map(|flow| flow.start.as_millis()).collect()
    }

    #[test]
    fn flows_sharing_leg_are_serialized() {
        assert_eq!(starts(vec![flow(0, 1), flow(1, 0), flow(0, 2), flow(2, 1)], 1e6, 5), [0, 0, 15, 15]);
    }

    #[test]
    fn total_pace_is_kept() {
        // Each sends 1000 per second.
        assert_eq!(starts(vec![flow(0, 1), flow(2, 3), flow(4, 5)], 2000.0, 0), [0, 0, 10]);
        assert_eq!(starts(vec![flow(0, 1), flow(2, 3)], 10.0, 0), [0, 10], "one alone may exceed it");
    }

    #[test]
    fn unpinned_flow_keeps_its_start() {
        let free = LinktestFlow { way: None, start: Duration::from_millis(77), ..flow(0, 1) };
        assert_eq!(starts(vec![free, flow(0, 1)], 1e6, 0), [77, 0]);
    }

    #[test]
    fn a_lan_of_many_is_dense() {
        let mut flows: Vec<LinktestFlow> = super::super::paths::all(30).into_iter().map(|(a, b)| flow(a, b)).collect();
        let end = schedule(&mut flows, 1e9, Duration::ZERO);
        // 29 rounds of 10 ms, and not much more.
        assert!((Duration::from_millis(290)..=Duration::from_millis(320)).contains(&end), "{end:?}");
    }
}
