//! Addresses that came over the network: which of them may be dialled, and how often.
//!
//! A member can write any host into a record, a request or an offer. Whoever dials it
//! sends that host more than the member has sent: a handshake that nobody answers takes
//! some kilobytes. So everybody who is told addresses takes the ones of [`filter_dialable`], dials
//! their owner where it is seen, and another host only as far as an [`DialAllowance`] goes.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use roost_wire::{Address, NodeId, Scheme, Time, is_destination};

/// Most bytes of payload that a dial sends to a host that never answers: repetitions of a first
/// flight, which over QUIC is the larger one of the hybrid key exchange. TCP sends it once, to a host that takes any caller.
const fn cost(scheme: Scheme) -> u64 {
    match scheme {
        Scheme::Tcp => 600,
        Scheme::Udp => 2_100,
        Scheme::Quic => 15_600,
    }
}

/// Fewest bytes that a member has sent once its connection is up: certificates and greetings. They are
/// good for one dial over TCP.
const HANDSHAKE_BYTES: u64 = 1_200;

/// For so many bytes that a member has sent, one may be sent to a host that it names.
const BYTES_FOR_ONE: u64 = 2;

/// The most bytes that may be sent once to a host that a member names, for each that it has sent.
const MOST_CREDIT: u64 = 2;

/// The most bytes to such hosts that a member can have saved up by what it sent.
const MOST_SAVED: u64 = 20_000;

/// The most bytes that a dial at addresses of which only a hub tells may send: to two hosts over every
/// transport.
const MOST_TOLD_BYTES: u64 = 2 * (cost(Scheme::Tcp) + cost(Scheme::Udp) + cost(Scheme::Quic));

/// Time over which dials to a host are counted.
const WINDOW: Duration = Duration::from_secs(60);

/// The most dials to one such host in a [`WINDOW`], whoever named it.
const MOST_TO_HOST: u32 = 8;

/// The most such hosts remembered: with more in one window, no other is dialled.
const MAX_HOSTS_REMEMBERED: usize = 1_024;

/// Keeps those of a remote's addresses that can be dialled: hosts that are [`is_destination`](roost_wire::is_destination). The
/// host at which the remote is seen stands in for one that it could not know.
pub(crate) fn filter_dialable(addresses: Vec<Address>, seen: IpAddr) -> Vec<Address> {
    let here = seen.to_canonical().is_loopback();
    let filled = addresses.into_iter().map(|address| address.with_observed_host(seen));
    retain_hosts(filled, |host| is_destination(host, here))
}

/// Keeps those addresses of others that can be dialled, as told by a remote at the host `teller`.
pub(crate) fn filter_reported(addresses: Vec<Address>, teller: IpAddr) -> Vec<Address> {
    let here = teller.to_canonical().is_loopback();
    retain_hosts(addresses.into_iter(), |host| is_destination(host, here))
}

/// Keeps those of a remote's addresses that can be dialled at the host where it is seen.
pub(crate) fn filter_observed(addresses: Vec<Address>, seen: IpAddr) -> Vec<Address> {
    split(&filter_dialable(addresses, seen), &[seen]).0
}

/// The addresses at one of the hosts `seen`, and those elsewhere.
pub(crate) fn split(addresses: &[Address], seen: &[IpAddr]) -> (Vec<Address>, Vec<Address>) {
    let is_seen = |host: IpAddr| seen.iter().any(|seen| seen.to_canonical() == host.to_canonical());
    let there = retain_hosts(addresses.iter().cloned(), is_seen);
    (there, retain_hosts(addresses.iter().cloned(), |host| !is_seen(host)))
}

/// The one host and transport of these addresses that takes the fewest bytes to try.
pub(crate) fn least(addresses: &[Address]) -> Option<Address> {
    let address = addresses.iter().min_by_key(|address| cost(address.scheme))?;
    Some(Address { hosts: address.hosts.first().copied().into_iter().collect(), ..address.clone() })
}

/// Keeps the addresses of a node that are dialled though only a hub tells of them. The first ones count most.
pub(crate) fn few(addresses: Vec<Address>) -> Vec<Address> {
    let mut left = MOST_TOLD_BYTES;
    let affordable = addresses.into_iter().filter_map(|mut address| {
        let cost = cost(address.scheme);
        address.hosts.truncate((left / cost) as usize);
        left -= cost * address.hosts.len() as u64;
        (!address.hosts.is_empty()).then_some(address)
    });
    affordable.collect()
}

fn retain_hosts(addresses: impl Iterator<Item = Address>, which: impl Fn(IpAddr) -> bool) -> Vec<Address> {
    let retained = addresses.filter_map(|mut address| {
        address.hosts.retain(|host| which(*host));
        (!address.hosts.is_empty()).then_some(address)
    });
    retained.collect()
}

/// The bytes that a member has sent, and those that others were told to send to hosts that it named.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DialAllowance {
    heard: u64,
    spent: u64,
}

impl Default for DialAllowance {
    fn default() -> Self {
        Self { heard: HANDSHAKE_BYTES, spent: 0 }
    }
}

impl DialAllowance {
    /// The member has sent so many bytes.
    pub(crate) fn record_received(&mut self, bytes: usize) {
        let most = (self.spent + MOST_SAVED) * BYTES_FOR_ONE;
        self.heard = (self.heard + bytes as u64).min(most.max(self.heard));
    }

    /// Bytes that others were told to send.
    pub(crate) fn spent(&self) -> u64 {
        self.spent
    }

    /// A dial over this transport that was taken out has led somewhere.
    pub(crate) fn refund(&mut self, scheme: Scheme) {
        self.spent = self.spent.saturating_sub(cost(scheme));
    }

    /// Takes one dial over this transport out. Who has spent nothing may owe for it, up to
    /// [`MOST_CREDIT`] for each byte that it has sent.
    fn charge_dial(&mut self, scheme: Scheme, on_credit: bool) -> bool {
        let spent = self.spent + cost(scheme);
        let credit = if on_credit && self.spent == 0 { MOST_CREDIT * self.heard } else { 0 };
        let allowed = spent <= credit.max(self.heard / BYTES_FOR_ONE);
        if allowed {
            self.spent = spent;
        }
        allowed
    }
}

/// Dials at which hubs have aimed this machine, and that nobody has answered.
#[derive(Debug)]
pub(crate) struct HubDialBudget {
    most: u64,
    /// Bytes, of which [`Self::BYTES_PER_SECOND`] are forgiven.
    spent: u64,
    since: Time,
}

impl Default for HubDialBudget {
    /// Two of the largest dials for each of as many requests.
    fn default() -> Self {
        Self::for_dials(8)
    }
}

impl HubDialBudget {
    /// A dial of the usual kind, to one host, every few seconds.
    const BYTES_PER_SECOND: u64 = 4_000;

    /// A budget of so many of the largest dials at once.
    pub(crate) fn for_dials(dials: u64) -> Self {
        Self { most: dials * MOST_TOLD_BYTES, spent: 0, since: Time::ZERO }
    }

    /// Takes out one dial at these addresses, if enough is left; gives what it costs.
    pub(crate) fn charge_dial(&mut self, now: Time, addresses: &[Address]) -> Option<u64> {
        let forgiven = now.since(self.since).as_millis() as u64 * Self::BYTES_PER_SECOND / 1_000;
        self.spent = self.spent.saturating_sub(forgiven);
        self.since = self.since.max(now);
        let bytes = addresses.iter().map(|address| cost(address.scheme) * address.hosts.len() as u64).sum();
        if self.spent + bytes > self.most {
            return None;
        }
        self.spent += bytes;
        Some(bytes)
    }

    /// A dial that was taken out has led to whom it was for.
    pub(crate) fn refund(&mut self, bytes: u64) {
        self.spent = self.spent.saturating_sub(bytes);
    }
}

/// The hosts to which members have had others dial, though they are not seen there.
#[derive(Debug, Default)]
pub(crate) struct DialedHosts {
    since: Time,
    /// The dials in this window, and the member that named the host last; at most [`MAX_HOSTS_REMEMBERED`].
    dialled: BTreeMap<IpAddr, (u32, NodeId)>,
}

/// A dial to a host that a member names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NamedDial {
    pub(crate) member: NodeId,
    pub(crate) scheme: Scheme,
    pub(crate) host: IpAddr,
    pub(crate) on_credit: bool,
}

impl DialedHosts {
    /// True if the dial may be made; then the member's allowance is charged for it, if need be on credit.
    pub(crate) fn admit(&mut self, now: Time, allowance: &mut DialAllowance, dial: NamedDial) -> bool {
        let NamedDial { member, scheme, host, on_credit } = dial;
        if now.since(self.since) >= WINDOW {
            self.since = now;
            self.dialled.clear();
        }
        let host = host.to_canonical();
        let dialled = self.dialled.get(&host).map_or(0, |(dialled, _)| *dialled);
        let has_room = dialled > 0 || self.dialled.len() < MAX_HOSTS_REMEMBERED;
        let admitted = has_room && dialled < MOST_TO_HOST && allowance.charge_dial(scheme, on_credit);
        if admitted {
            self.dialled.insert(host, (dialled + 1, member));
        }
        admitted
    }

    /// True if the last dial to `host` was admitted because `member` named it.
    pub(crate) fn has_admitted(&self, member: NodeId, host: IpAddr) -> bool {
        self.dialled.get(&host.to_canonical()).is_some_and(|(_, by)| *by == member)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MEMBER: NodeId = NodeId::from_bytes([1; 16]);

    fn address(scheme: Scheme, hosts: &[&str]) -> Address {
        Address { scheme, port: 7_700, hosts: hosts.iter().map(|host| host.parse().unwrap()).collect() }
    }

    #[test]
    fn unspecified_and_multicast_hosts_are_dropped() {
        let all = [
            "0.0.0.0",
            "0.1.2.3",
            "127.0.0.1",
            "::1",
            "::ffff:127.0.0.1",
            "224.0.0.1",
            "239.255.77.5",
            "255.255.255.255",
            "240.0.0.1",
            "ff02::1",
            "::ffff:239.1.1.1",
            "::ffff:0.0.0.0",
            "10.0.0.9",
            "fd00::9",
        ];
        let hosts = |seen: &str| {
            let sound = filter_dialable(vec![address(Scheme::Quic, &all)], seen.parse().unwrap());
            sound.into_iter().flat_map(|address| address.hosts).map(|host| host.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(hosts("10.0.0.1"), ["10.0.0.1", "10.0.0.9", "fd00::9"]);
        assert_eq!(hosts("127.0.0.1"), ["127.0.0.1", "127.0.0.1", "::1", "::ffff:127.0.0.1", "10.0.0.9", "fd00::9"]);
    }

    #[test]
    fn addresses_split_by_observed_host() {
        let of = [address(Scheme::Quic, &["10.0.0.1", "10.0.1.1"]), address(Scheme::Udp, &["10.0.1.1"])];
        let (there, elsewhere) = split(&of, &["::ffff:10.0.0.1".parse().unwrap()]);
        assert_eq!(there, [address(Scheme::Quic, &["10.0.0.1"])]);
        assert_eq!(elsewhere, [address(Scheme::Quic, &["10.0.1.1"]), address(Scheme::Udp, &["10.0.1.1"])]);
        assert_eq!(least(&elsewhere), Some(address(Scheme::Udp, &["10.0.1.1"])));
    }

    proptest! {
        /// Whatever a member sends and names, what goes out for it is bounded by what it sent.
        #[test]
        fn dial_bytes_bounded_by_received_bytes(
            sent in prop::collection::vec((0usize..4_000, any::<u8>(), 0usize..3), 1..400)
        ) {
            let (mut allowance, mut targets, mut now) = (DialAllowance::default(), DialedHosts::default(), Time::ZERO);
            let (mut heard, mut spent) = (HANDSHAKE_BYTES, 0);
            for (bytes, host, scheme) in sent {
                now = now + Duration::from_millis(300);
                allowance.record_received(bytes);
                heard += bytes as u64;
                let (scheme, host) = (Scheme::ALL[scheme], IpAddr::from([10, 0, 0, host]));
                let dial = NamedDial { member: MEMBER, scheme, host, on_credit: false };
                spent += if targets.admit(now, &mut allowance, dial) { cost(scheme) } else { 0 };
                prop_assert!(spent <= heard / BYTES_FOR_ONE);
            }
        }
    }

    #[test]
    fn few_addresses_cost_little() {
        let hosts = ["10.0.0.1", "10.0.0.2", "10.0.0.3"];
        let all: Vec<Address> = (0..8).map(|number| address(Scheme::ALL[number % 3], &hosts)).collect();
        let dialled = few(all);
        let bytes: u64 = dialled.iter().map(|address| cost(address.scheme) * address.hosts.len() as u64).sum();
        assert!((MOST_TOLD_BYTES - 2_100..=MOST_TOLD_BYTES).contains(&bytes), "{dialled:?}");
        let usual = Scheme::ALL.map(|scheme| address(scheme, &hosts[..2])).to_vec();
        assert_eq!(few(usual.clone()), usual);
    }

    #[test]
    fn unanswered_advice_is_followed_seldom() {
        let at = [address(Scheme::Quic, &["10.0.0.1"])];
        let (mut advice, mut now, mut taken) = (HubDialBudget::default(), Time::ZERO, 0);
        for _ in 0..60_000 {
            taken += advice.charge_dial(now, &at).unwrap_or(0);
            now = now + Duration::from_millis(1);
        }
        assert!(taken <= advice.most + 60 * HubDialBudget::BYTES_PER_SECOND, "{taken}");
        // Dials that lead somewhere are not counted.
        let mut advice = HubDialBudget::default();
        for _ in 0..1_000 {
            let bytes = advice.charge_dial(now, &at).unwrap();
            advice.refund(bytes);
        }
    }

    #[test]
    fn a_newcomer_gets_one_cheap_dial() {
        let dials = |on_credit| {
            [Scheme::Udp, Scheme::Quic, Scheme::Tcp].map(|scheme| {
                let mut allowance = DialAllowance::default();
                (0..10).filter(|_| allowance.charge_dial(scheme, on_credit)).count()
            })
        };
        assert_eq!(dials(false), [0, 0, 1]);
        assert_eq!(dials(true), [1, 0, 1]);
    }

    #[test]
    fn one_host_is_dialled_few_times() {
        let (mut targets, host) = (DialedHosts::default(), IpAddr::from([10, 0, 0, 9]));
        let ask = |targets: &mut DialedHosts, now| {
            let dial = NamedDial { member: MEMBER, scheme: Scheme::Tcp, host, on_credit: false };
            targets.admit(now, &mut DialAllowance::default(), dial)
        };
        let admitted = (0..100).filter(|_| ask(&mut targets, Time::ZERO)).count();
        assert_eq!(admitted, MOST_TO_HOST as usize);
        assert!(ask(&mut targets, Time::ZERO + WINDOW));
    }
}
