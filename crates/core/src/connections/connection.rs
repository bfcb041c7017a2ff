//! A connection as both machines keep it.

use std::time::Duration;

use roost_wire::messages::{Hello, ProtocolVersion, StatedDatum};
use roost_wire::{Address, ConnectionId, NodeId, RemoteIdentity, Role, Time};

use super::Probe;
use crate::address_filter;
use crate::connections::Rtt;
use crate::wall::WallClock;

/// The most connections with one remote. The one that was silent for longest makes room for one more, as it
/// may be dead.
const MAX_CONNECTIONS_EACH: usize = 8;

/// A connection that is up: the facts that both machines need, and those of one machine.
#[derive(Debug)]
pub(crate) struct Connection<Own> {
    pub(crate) node: NodeId,
    pub(crate) role: Role,
    pub(crate) address: Address,
    pub(crate) rtt: Rtt,
    pub(crate) probe: Probe,
    /// Time at which something last came.
    pub(crate) heard: Time,
    /// The version and capabilities of the remote.
    pub(crate) hello: Hello,
    /// The remote's wall clock, if it has told it.
    pub(crate) clock: Option<WallClock>,
    /// True once it has said something of a later version, which is reported only once.
    said_later: bool,
    pub(crate) own: Own,
}

impl<Own> Connection<Own> {
    pub(crate) fn new(now: Time, remote: &RemoteIdentity, address: Address, rtt: Rtt, own: Own) -> Self {
        let (node, role) = (remote.node, remote.role);
        let (probe, hello) = (Probe::default(), Hello::ASSUMED);
        Self { node, role, address, rtt, probe, heard: now, hello, clock: None, said_later: false, own }
    }

    /// The remote says its version and its datum. Returns why the two ends cannot work together, if they cannot.
    pub(crate) fn record_hello(&mut self, now: Time, hello: Hello, own: Option<StatedDatum>) -> Option<String> {
        self.clock = hello.clock_s.map(|unix_s| WallClock::new(now, Duration::from_secs(unix_s)));
        // Holdings change and are kept elsewhere.
        self.hello = Hello { holdings: None, ..hello };
        self.hello.refusal(own)
    }

    /// The remote has said something of a later version. Returns its version the first time.
    pub(crate) fn record_later_version(&mut self) -> Option<ProtocolVersion> {
        (!std::mem::replace(&mut self.said_later, true)).then_some(self.hello.protocol)
    }

    /// A pong has come. False if it measures nothing.
    pub(crate) fn record_pong(&mut self, now: Time, token: u32) -> bool {
        let trip = self.probe.answer(now, token);
        trip.into_iter().for_each(|trip| self.rtt.sample(trip));
        trip.is_some()
    }

    /// Keeps the addresses of the remote that are where it is seen.
    pub(crate) fn there(&self, addresses: Vec<Address>) -> Vec<Address> {
        self.address.primary().map_or(Vec::new(), |seen| address_filter::filter_observed(addresses, seen.ip()))
    }

    /// Keeps the addresses of others, of which the remote tells, that somebody can be at.
    pub(crate) fn told(&self, addresses: Vec<Address>) -> Vec<Address> {
        self.address.primary().map_or(Vec::new(), |seen| address_filter::filter_reported(addresses, seen.ip()))
    }
}

/// The connection that is one too many of one remote's, now that `new` is up.
pub(crate) fn excess<'a, Own: 'a>(
    connections: impl Iterator<Item = (ConnectionId, &'a Connection<Own>)>,
    new: ConnectionId,
) -> Option<ConnectionId> {
    let all: Vec<(Time, ConnectionId)> = connections.map(|(id, connection)| (connection.heard, id)).collect();
    let oldest = all.iter().filter(|(_, id)| *id != new).min().map(|(_, id)| *id);
    oldest.filter(|_| all.len() > MAX_CONNECTIONS_EACH)
}

#[cfg(test)]
mod tests {
    use roost_wire::{Labels, Scheme};
    use std::net::SocketAddr;

    use super::*;

    fn connection(heard: u64) -> Connection<()> {
        let address = Address::single(Scheme::Udp, SocketAddr::from(([10, 0, 0, 1], 7700)));
        let remote = RemoteIdentity {
            node: NodeId::from_bytes([1; 16]),
            role: Role::Node,
            name: String::new(),
            labels: Labels::default(),
        };
        Connection::new(Time::ZERO + Duration::from_secs(heard), &remote, address, Rtt::new(Duration::ZERO), ())
    }

    #[test]
    fn longest_silent_connection_is_excess() {
        let all: Vec<_> = (0..=MAX_CONNECTIONS_EACH as u64).map(|id| (ConnectionId(id), connection(20 - id))).collect();
        let excess = |count, new| excess(all.iter().take(count).map(|(id, of)| (*id, of)), ConnectionId(new));
        assert_eq!(excess(MAX_CONNECTIONS_EACH, 0), None);
        assert_eq!(excess(MAX_CONNECTIONS_EACH + 1, 0), Some(ConnectionId(8)));
        assert_eq!(excess(MAX_CONNECTIONS_EACH + 1, 8), Some(ConnectionId(7)), "the new one stays");
    }

    #[test]
    fn later_version_is_reported_once() {
        let mut connection = connection(0);
        assert_eq!(connection.record_later_version(), Some(Hello::ASSUMED.protocol));
        assert_eq!(connection.record_later_version(), None);
    }

    #[test]
    fn other_major_version_is_refused() {
        let mut connection = connection(0);
        let other = ProtocolVersion { major: Hello::OWN.protocol.major + 1, ..Hello::OWN.protocol };
        assert_eq!(connection.record_hello(Time::ZERO, Hello::OWN, None), None);
        assert!(connection.record_hello(Time::ZERO, Hello { protocol: other, ..Hello::OWN }, None).is_some());
        assert_eq!(connection.hello.protocol, other);
    }

    #[test]
    fn other_datum_is_refused() {
        let datum = |cell_m| Some(StatedDatum { origin: "47.37,8.54".parse().unwrap(), cell_m });
        let refusal = |own, other| connection(0).record_hello(Time::ZERO, Hello { datum: other, ..Hello::OWN }, own);
        for same in [None, datum(1000)] {
            assert_eq!(refusal(same, same), None);
        }
        for (own, other) in [(None, datum(1000)), (datum(1000), None), (datum(1000), datum(100))] {
            assert!(refusal(own, other).is_some_and(|why| why.contains("47.37,8.54") && why.contains("join again")));
        }
    }
}
