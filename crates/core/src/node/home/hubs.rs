//! The hubs that a node knows, and the order in which it turns to them.

use std::time::Duration;

use roost_wire::random::SplitMix64;
use roost_wire::record::MAX_ADDRESSES;
use roost_wire::{Address, Time};

use crate::connections::Backoff;

/// The most hubs that a node knows, configured and learnt.
pub const MAX_HUBS: usize = 16;

/// The pause after every hub has failed once; doubled each round.
const FIRST_PAUSE: Duration = Duration::from_millis(250);

/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(15);

/// A ring of hubs: who fails is followed by the next one.
#[derive(Clone, Debug)]
pub(super) struct Hubs {
    list: Vec<Vec<Address>>,
    current: usize,
    /// Failures in a row since the last success or pause.
    failures: usize,
    backoff: Backoff,
}

impl Hubs {
    pub(super) fn new(configured: Vec<Vec<Address>>) -> Self {
        let list = configured.into_iter().filter(|hub| !hub.is_empty()).take(MAX_HUBS).collect();
        Self { list, current: 0, failures: 0, backoff: Backoff::new(FIRST_PAUSE, LONGEST_PAUSE) }
    }

    /// All of them, configured first.
    pub(super) fn list(&self) -> &[Vec<Address>] {
        &self.list
    }

    /// The addresses of the one whose turn it is; `None` if none is known.
    pub(super) fn current(&self) -> Option<&[Address]> {
        self.list.get(self.current).map(Vec::as_slice)
    }

    /// Another hub than the current one: the next in the list, or after `skip` others.
    pub(super) fn standby_candidate(&self, skip: usize) -> Option<(usize, &[Address])> {
        let others = self.list.len().checked_sub(1).filter(|others| *others > 0)?;
        let index = (self.current + 1 + skip % others) % self.list.len();
        Some((index, &self.list[index]))
    }

    pub(super) fn current_index(&self) -> usize {
        self.current
    }

    /// The place in the list of a hub with these addresses; it is added if it is not known. `None` if there
    /// is no room.
    pub(super) fn index_of(&mut self, addresses: &[Address]) -> Option<usize> {
        let known = self.list.iter().position(|hub| hub.iter().any(|address| addresses.contains(address)));
        if known.is_none() && self.list.len() < MAX_HUBS && !addresses.is_empty() {
            self.list.push(addresses.to_vec());
            return Some(self.list.len() - 1);
        }
        known
    }

    /// Makes a hub of the list the current one.
    pub(super) fn turn_to(&mut self, index: usize) {
        self.current = index;
        self.succeeded();
    }

    /// Takes up hubs that the current one names, as long as there is room. One
    /// that shares an address with a known hub is that hub, but never the current one: a name may stand for several.
    pub(super) fn learn(&mut self, siblings: Vec<Address>) {
        for address in siblings {
            let mut others = self.list.iter().enumerate().filter(|(index, _)| *index != self.current);
            let known = others.any(|(_, hub)| hub.contains(&address));
            if !known && self.list.len() < MAX_HUBS {
                self.list.push(vec![address]);
            }
        }
    }

    /// Adds to the current hub's addresses those of transports by which it was
    /// not known yet: what is configured counts more than what a hub says.
    pub(super) fn complete(&mut self, addresses: impl Iterator<Item = Address>) {
        let Some(known) = self.list.get_mut(self.current) else { return };
        for address in addresses {
            if known.len() < MAX_ADDRESSES && known.iter().all(|old| old.scheme != address.scheme) {
                known.push(address);
            }
        }
    }

    /// The current hub has become the home.
    pub(super) fn succeeded(&mut self) {
        self.failures = 0;
        self.backoff.reset();
    }

    /// True if another hub has not failed yet since the last success or pause.
    pub(super) fn has_untried(&self) -> bool {
        self.failures + 1 < self.list.len()
    }

    /// Goes on to the next hub, though the current one may still answer.
    pub(super) fn pass_over(&mut self) {
        self.lost_turn();
        self.failures += 1;
    }

    /// The hub at this address was reached: it is the current one, if it is of the list.
    pub(super) fn found_at(&mut self, at: &Address) {
        let is_it = |known: &Address| {
            (known.scheme, known.port) == (at.scheme, at.port) && at.hosts.iter().all(|host| known.hosts.contains(host))
        };
        if let Some(index) = self.list.iter().position(|hub| hub.iter().any(is_it)) {
            self.current = index;
        }
    }

    /// Goes on to the next hub. Returns how long to wait before turning to it.
    pub(super) fn failed(&mut self, now: Time, random: &mut SplitMix64) -> Duration {
        self.lost_turn();
        self.failures += 1;
        if self.failures < self.list.len() {
            return Duration::ZERO;
        }
        self.failures = 0;
        self.backoff.record_failure(now, random)
    }

    /// Goes on to the next hub at once: the current one had been a good home.
    pub(super) fn lost(&mut self) {
        self.lost_turn();
        self.failures = 0;
    }

    fn lost_turn(&mut self) {
        self.current = (self.current + 1) % self.list.len().max(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use roost_wire::address::Scheme;

    fn address(port: u16) -> Address {
        Address::single(Scheme::Udp, ([127, 0, 0, 1], port).into())
    }

    #[test]
    fn each_hub_tried_before_backoff() {
        let mut random = SplitMix64::new(1);
        let mut hubs = Hubs::new(vec![vec![address(1)], vec![address(2)]]);
        assert_eq!(hubs.failed(Time::ZERO, &mut random), Duration::ZERO);
        assert_eq!(hubs.current(), Some(&[address(2)][..]));
        let first = hubs.failed(Time::ZERO, &mut random);
        assert!(first >= FIRST_PAUSE * 3 / 4 && first <= FIRST_PAUSE * 5 / 4);
        for _ in 0..40 {
            assert!(hubs.failed(Time::ZERO, &mut random) <= LONGEST_PAUSE * 5 / 4);
        }
    }

    #[test]
    fn other_hubs_exclude_current_one() {
        let mut hubs = Hubs::new((1..=3).map(|port| vec![address(port)]).collect());
        let others = |hubs: &Hubs| (0..4).map(|skip| hubs.standby_candidate(skip).unwrap().0).collect::<Vec<_>>();
        assert_eq!(others(&hubs), [1, 2, 1, 2]);
        hubs.turn_to(1);
        assert_eq!(others(&hubs), [2, 0, 2, 0]);
        assert_eq!(Hubs::new(vec![vec![address(1)]]).standby_candidate(0), None);
    }

    #[test]
    fn reported_transports_do_not_replace_configured() {
        let tcp = |port| Address { scheme: Scheme::Tcp, ..address(port) };
        let mut hubs = Hubs::new(vec![vec![address(1)], vec![address(9)]]);
        hubs.complete([address(5), tcp(6), tcp(7)].into_iter());
        assert_eq!(hubs.list(), [vec![address(1), tcp(6)], vec![address(9)]]);
    }

    #[test]
    fn learned_hubs_are_bounded_and_unique() {
        let mut hubs = Hubs::new(vec![vec![address(1), address(2)], vec![address(3), address(4)]]);
        hubs.learn(vec![address(4)]);
        assert_eq!(hubs.list().len(), 2);
        hubs.learn((5..100).map(address).collect());
        assert_eq!(hubs.list().len(), MAX_HUBS);
    }

    #[test]
    fn sibling_of_same_name_is_another_hub() {
        let mut hubs = Hubs::new(vec![vec![address(1), address(2)]]);
        hubs.learn(vec![address(2)]);
        hubs.learn(vec![address(2)]);
        assert_eq!(hubs.list(), [vec![address(1), address(2)], vec![address(2)]]);
    }
}
