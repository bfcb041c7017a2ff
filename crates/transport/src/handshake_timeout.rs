//! The time for which one end of a handshake waits for the other's next message.
//!
//! The round trip to a stranger is unknown. While no host was measured, its first answer may take as long as
//! [`Limits::longest_round_trip`] requires. After that, a stranger is expected to be as far away as the farthest known
//! host; if it does not answer in time, the next attempt waits for the longest time. An address whose round trip is
//! known, and an end that has answered once, have a few probe timeouts of their own (RFC 9002, section 6.2). Every wait
//! lasts at least [`Limits::handshake_timeout`].

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use roost_wire::NodeId;

use crate::config::Limits;

/// The most hosts and nodes whose round trips are remembered.
const MAX_KNOWN: usize = 4096;

/// Round trips that an end which has answered once has for its next message: a probe timeout after a single
/// measurement, smoothed + 4 × half of it.
const NEXT_TRIPS: u32 = 3;

/// Round trips that an address whose round trip is known has for its first answer: two of these probe timeouts.
const KNOWN_TRIPS: u32 = 2 * NEXT_TRIPS;

impl Limits {
    /// Longest wait for the first answer of an address. `known` is its round trip, if it is known.
    pub(crate) fn first_answer(&self, known: Option<Duration>) -> Duration {
        let unknown = self.handshake_timeout.max(self.longest_round_trip * 3 / 2);
        known.map_or(unknown, |rtt| (rtt.min(unknown) * KNOWN_TRIPS).clamp(self.handshake_timeout, unknown))
    }

    /// Longest wait for the next message of an end that has answered after `rtt`.
    pub(crate) fn next_answer(&self, rtt: Duration) -> Duration {
        self.handshake_timeout.max(rtt.min(self.longest_round_trip) * NEXT_TRIPS)
    }

    /// Longest handshake of a stranger that dials us. It has two messages to send, and its distance is unknown.
    pub(crate) fn incoming_handshake_timeout(&self) -> Duration {
        self.next_answer(self.longest_round_trip)
    }
}

/// The round trips of hosts and nodes to which there was a connection.
#[derive(Debug, Default)]
pub(crate) struct RoundTrips(Mutex<RoundTripTable>);

#[derive(Debug, Default)]
struct RoundTripTable {
    hosts: HashMap<IpAddr, Duration>,
    nodes: HashMap<NodeId, Duration>,
    /// Hosts that have not answered in time.
    silent: HashSet<IpAddr>,
}

impl RoundTrips {
    /// Stores the round trip that a handshake measured.
    pub(crate) fn record_rtt(&self, host: Option<IpAddr>, node: NodeId, rtt: Duration) {
        let mut table = self.lock();
        table.make_room();
        if let Some(host) = host {
            table.silent.remove(&host.to_canonical());
            table.hosts.insert(host.to_canonical(), rtt);
        }
        table.nodes.insert(node, rtt);
    }

    /// The round trip of a host, or of the node that is expected there, or else of the farthest host.
    pub(crate) fn expected_rtt(&self, host: IpAddr, node: Option<NodeId>) -> Option<Duration> {
        let (table, host) = (self.lock(), host.to_canonical());
        let own = table.hosts.get(&host).or_else(|| table.nodes.get(&node?));
        let farthest = || table.hosts.values().max().filter(|_| !table.silent.contains(&host));
        own.or_else(farthest).copied()
    }

    /// Forgets the round trip of a host that has not answered in time, since it may be farther away than it was.
    pub(crate) fn mark_unresponsive(&self, host: IpAddr, node: Option<NodeId>) {
        let mut table = self.lock();
        table.make_room();
        table.hosts.remove(&host.to_canonical());
        table.silent.insert(host.to_canonical());
        if let Some(node) = node {
            table.nodes.remove(&node);
        }
    }

    fn lock(&self) -> MutexGuard<'_, RoundTripTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RoundTripTable {
    /// Forgets everything when the table is full. That makes only the next waits longer, and live hosts are soon
    /// measured again.
    fn make_room(&mut self) {
        if self.hosts.len().max(self.nodes.len()).max(self.silent.len()) >= MAX_KNOWN {
            *self = Self::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const HOST: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
    const OTHER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));

    fn node(number: u16) -> NodeId {
        let mut bytes = [0; 16];
        bytes[..2].copy_from_slice(&number.to_be_bytes());
        NodeId::from_bytes(bytes)
    }

    #[test]
    fn timeout_exceeds_every_round_trip() {
        let limits = Limits::default();
        for tenths in 0..=100 {
            let rtt = SECOND * tenths / 10;
            for patience in [limits.first_answer(None), limits.first_answer(Some(rtt)), limits.next_answer(rtt)] {
                assert!(patience >= rtt * 3 / 2 && patience >= 5 * SECOND, "{rtt:?}: {patience:?}");
                assert!(patience <= 30 * SECOND, "{rtt:?}: {patience:?}");
            }
        }
    }

    #[test]
    fn known_address_times_out_early() {
        let limits = Limits::default();
        assert_eq!(limits.first_answer(None), 15 * SECOND);
        assert_eq!(limits.first_answer(Some(SECOND / 50)), 5 * SECOND);
        assert_eq!(limits.first_answer(Some(SECOND * 3 / 2)), 9 * SECOND);
        assert_eq!(limits.first_answer(Some(Duration::MAX)), 15 * SECOND);
    }

    #[test]
    fn who_was_silent_is_unknown_again() {
        let trips = RoundTrips::default();
        trips.record_rtt(Some(HOST), node(1), SECOND);
        assert_eq!(
            (trips.expected_rtt(HOST, None), trips.expected_rtt(OTHER, Some(node(1)))),
            (Some(SECOND), Some(SECOND))
        );
        trips.mark_unresponsive(HOST, Some(node(1)));
        assert_eq!((trips.expected_rtt(HOST, None), trips.expected_rtt(OTHER, Some(node(1)))), (None, None));
    }

    #[test]
    fn unknown_host_assumes_farthest_rtt() {
        let trips = RoundTrips::default();
        assert_eq!(trips.expected_rtt(OTHER, None), None);
        for (host, rtt) in [(1, SECOND / 50), (2, SECOND / 2), (3, SECOND / 10)] {
            trips.record_rtt(Some(IpAddr::from([10, 1, 0, host])), node(host.into()), rtt);
        }
        assert_eq!(trips.expected_rtt(OTHER, Some(node(9))), Some(SECOND / 2));
        trips.mark_unresponsive(OTHER, None);
        assert_eq!((trips.expected_rtt(OTHER, None), trips.expected_rtt(HOST, None)), (None, Some(SECOND / 2)));
        trips.record_rtt(Some(OTHER), node(9), 3 * SECOND);
        assert_eq!(
            (trips.expected_rtt(OTHER, None), trips.expected_rtt(HOST, None)),
            (Some(3 * SECOND), Some(3 * SECOND))
        );
    }

    #[test]
    fn no_more_are_remembered_than_stated() {
        let trips = RoundTrips::default();
        for number in 0..2 * MAX_KNOWN as u32 {
            trips.record_rtt(Some(IpAddr::from(number.to_be_bytes())), node(number as u16), SECOND);
            trips.mark_unresponsive(IpAddr::from(number.to_le_bytes()), None);
            let table = trips.lock();
            assert!(table.hosts.len().max(table.silent.len()) <= MAX_KNOWN);
        }
    }
}
