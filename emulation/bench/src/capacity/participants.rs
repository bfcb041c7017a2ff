//! The daemons of a measurement: super nodes whose uplinks carry a given number of streams, and nodes.
//!
//! A stream is the synthetic track: its packets are small, so that one machine can carry hundreds of streams.
//! Only the rate is scaled down; the number of streams of an uplink is the original's.

use std::ffi::OsString;
use std::time::Duration;

use roost_reflection::packet::OVERHEAD_BYTES;
use roost_topology::Topology;
use roost_topology::units::Rate;
use roost_wire::{Cell, FlowKind, Service};

use super::ServePolicy;
use crate::networks;
use crate::testbed::TestbedRole;

/// The delay between any two hosts: far-apart super nodes do not balance their nodes among them.
const ONE_WAY: Duration = Duration::from_millis(10);
/// The interval of records, each of which is a packet.
pub(super) const RECORD: Duration = Duration::from_millis(50);
/// Headers of UDP, IPv4 and Ethernet.
const HEADERS_BYTES: usize = 8 + 20 + 14;
/// The additional capacity for control, as a fraction of the streams'. Of a hundred streams it is less than
/// half a stream, which does not affect the model's whole numbers.
const CONTROL: f64 = 0.02;
/// Packets in an uplink's queue: enough if all streams send at once.
const QUEUE_PACKETS: u32 = 100;
const ALL_SUBSCRIBERS: &str = "100000";

/// Bits per second of a stream, as a super node counts it and on the wire.
fn stream_bps() -> [f64; 2] {
    let payload = match Service::Track.flow_kind() {
        FlowKind::Stream { packet_bytes, .. } => packet_bytes as usize,
        FlowKind::Object { .. } => 0,
    };
    let bps = |bytes: usize| 8.0 * bytes as f64 / RECORD.as_secs_f64();
    [bps(payload + OVERHEAD_BYTES), bps(payload + OVERHEAD_BYTES + HEADERS_BYTES)]
}

/// Converts bytes on the wire in this time to a number of streams.
pub(super) fn as_streams(bytes: u64, time: Duration) -> f64 {
    8.0 * bytes as f64 / time.as_secs_f64() / stream_bps()[1]
}

/// A LAN of super nodes, whose uplinks each carry `streams` streams, and of nodes.
pub(super) fn network(hubs: usize, nodes: usize, streams: f64) -> Topology {
    let mut topology = networks::lan(hubs + nodes, ONE_WAY);
    let members = topology.nets.iter_mut().flat_map(|net| &mut net.members);
    for member in members.filter(|member| member.host < hubs) {
        member.to_net.rate = Rate::from_bps((streams * (1.0 + CONTROL) * stream_bps()[1]) as u64);
        member.to_net.queue.limit = QUEUE_PACKETS;
    }
    topology
}

pub(super) fn hub(policy: ServePolicy, streams: f64) -> TestbedRole {
    let uplink = format!("{}bit/s", (streams * stream_bps()[0]) as u64);
    let settings = match policy {
        // No capacity is configured: the link sets it.
        ServePolicy::Count => ["--media-subscribers", ALL_SUBSCRIBERS],
        ServePolicy::Residual => ["--media-uplink", &uplink],
    };
    TestbedRole::Hub(settings.map(OsString::from).to_vec())
}

/// The cell of a node, which no other node shares.
pub(super) fn cell(number: usize) -> Cell {
    Cell::new(i32::try_from(number).unwrap_or(i32::MAX), 0)
}

/// A node with one home; with `sends` it publishes its track.
pub(super) fn node(number: usize, home: usize, sends: bool) -> TestbedRole {
    let settings = if sends { vec!["--services".into(), "track".into()] } else { Vec::new() };
    TestbedRole::Node { hubs: vec![home], cell: cell(number), settings }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uplink_fits_its_streams_only() {
        assert_eq!(stream_bps(), [46_400.0, 53_120.0]);
        let topology = network(2, 3, 30.0);
        let rates: Vec<u64> = topology.nets[0].members.iter().map(|member| member.to_net.rate.bps()).collect();
        assert_eq!(rates[..3], [1_625_472, 1_625_472, 100_000_000]);
        assert!((as_streams(6_640, Duration::from_secs(1)) - 1.0).abs() < 1e-9);
    }
}
