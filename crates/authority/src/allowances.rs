//! Rates of what strangers and members may do, for each of them, in a table of limited size.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

/// Allows each key `burst` actions at once, and one more for each `interval`.
#[derive(Debug)]
pub(crate) struct Allowances<K> {
    burst: u32,
    interval: Duration,
    limit: usize,
    /// The time at which the key has its whole allowance again.
    whole_at: BTreeMap<K, Instant>,
}

impl<K: Ord + Clone> Allowances<K> {
    pub(crate) const fn new(burst: u32, interval: Duration, limit: usize) -> Self {
        Self { burst, interval, limit, whole_at: BTreeMap::new() }
    }

    /// True if nothing of the key's allowance is used.
    pub(crate) fn is_whole(&self, key: &K, now: Instant) -> bool {
        self.whole_at.get(key).is_none_or(|at| *at <= now)
    }

    /// True if the key may act once more.
    pub(crate) fn is_left(&self, key: &K, now: Instant) -> bool {
        let used = self.whole_at.get(key).map_or(Duration::ZERO, |at| at.saturating_duration_since(now));
        used + self.interval <= self.interval * self.burst
    }

    /// Counts an action of the key. False if none is left to it.
    pub(crate) fn charge_if_left(&mut self, key: &K, now: Instant) -> bool {
        let is_left = self.is_left(key, now);
        if is_left {
            self.charge(key, now);
        }
        is_left
    }

    /// Counts an action of the key. A full table forgets who has used the least.
    pub(crate) fn charge(&mut self, key: &K, now: Instant) {
        if self.whole_at.len() >= self.limit && !self.whole_at.contains_key(key) {
            self.whole_at.retain(|_, at| *at > now);
            let least = self.whole_at.iter().min_by_key(|(_, at)| **at).map(|(key, _)| key.clone());
            if let Some(least) = least.filter(|_| self.whole_at.len() >= self.limit) {
                self.whole_at.remove(&least);
            }
        }
        let at = self.whole_at.entry(key.clone()).or_insert(now);
        *at = (*at).max(now) + self.interval;
    }
}

/// The network that counts as one sender: an IPv4 address, or 64 bits of an IPv6 address, of which a host has many.
pub(crate) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into(),
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allowance_ends_and_comes_back() {
        let (now, second) = (Instant::now(), Duration::from_secs(1));
        let mut allowances = Allowances::new(3, second, 2);
        for _ in 0..3 {
            assert!(allowances.is_left(&1, now));
            allowances.charge(&1, now);
        }
        assert!(!allowances.is_left(&1, now) && allowances.is_left(&2, now) && allowances.is_whole(&2, now));
        assert!(allowances.is_left(&1, now + second));
        allowances.charge(&2, now);
        allowances.charge(&3, now);
        assert!(!allowances.is_left(&1, now), "the greediest is remembered");
        assert_eq!(allowances.whole_at.len(), 2);
    }

    #[test]
    fn addresses_of_one_host_count_together() {
        let parse = |text: &str| text.parse::<IpAddr>().unwrap();
        assert_eq!(network(parse("fd00::1")), network(parse("fd00::ffff:0:0:2")));
        assert_ne!(network(parse("fd00::1")), network(parse("fd00:0:0:1::1")));
        assert_eq!(network(parse("::ffff:10.0.0.1")), parse("10.0.0.1"));
    }
}
