//! What this hub tells the stand-bys of its nodes, so that those lose nothing
//! with it: [`standby`](super::standby) is the other end, and
//! [`ledger`](super::ledger) what both know already.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::ledger::{Changes, Ledger};
use super::neighbours::PUBLICATION;
use super::{Hub, Sender};
use crate::address::Address;
use crate::ids::{LinkId, NodeId};
use crate::machine::{Channel, Traffic};
use crate::record::Record;
use crate::time::Time;
use crate::wire::{self, Message, Retell};

/// How long changes are gathered before the stand-bys hear of them.
const GATHER: Duration = Duration::from_millis(100);

/// The same for moves, and for what nodes have left. A lookup that a stand-by
/// answers is to see a move within 500 ms and the way.
const GATHER_MOVES: Duration = Duration::from_millis(400);

/// How often in a lease the stand-bys hear at least which nodes live, with
/// other news or, half as late again, without.
const SIGNS_PER_LEASE: u32 = 6;

/// What the stand-bys of this hub's nodes are told.
#[derive(Debug, Default)]
pub(super) struct Mirror {
    /// This hub's nodes and the hub that stands by for each. Bounded by the directory.
    named: BTreeMap<NodeId, NodeId>,
    /// What each of these hubs was told, and is to be told.
    ledgers: BTreeMap<NodeId, Ledger>,
    flush: Option<Time>,
    /// When to look next who has not heard for long which nodes live.
    next_sign: Option<Time>,
}

impl Mirror {
    /// Whether a hub stands by for any node of this one.
    pub(super) fn names(&self, hub: NodeId) -> bool {
        self.named.values().any(|named| *named == hub)
    }

    pub(super) fn next_due(&self) -> Option<Time> {
        self.flush.into_iter().chain(self.next_sign).min()
    }

    fn flush_by(&mut self, due: Time) {
        self.flush = Some(self.flush.map_or(due, |flush| flush.min(due)));
    }

    pub(super) fn nodes_of(&self, hub: NodeId) -> BTreeSet<NodeId> {
        self.named.iter().filter(|(_, named)| **named == hub).map(|(node, _)| *node).collect()
    }
}

impl Hub {
    /// A node of this hub says which hub stands by for it.
    pub(super) fn stand_by(&mut self, now: Time, from: Sender, hub: NodeId, addresses: Vec<Address>) {
        if hub == self.config.node || self.copies.holds(from.node) || self.directory.get(from.node).is_none() {
            self.counters.stray += 1;
            return;
        }
        if !self.neighbours.get_mut(from.node).is_some_and(|node| node.may_trouble(now, PUBLICATION)) {
            self.counters.over_limit += 1;
            return;
        }
        self.mirror_at(now, from.node, hub);
        self.want_aside(now, hub, addresses);
    }

    /// The record of a node of this hub is held at `hub` as well from now on.
    pub(super) fn mirror_at(&mut self, now: Time, node: NodeId, hub: NodeId) {
        let before = self.mirror.named.insert(node, hub);
        if let Some(before) = before.filter(|before| *before != hub) {
            self.mirror.ledgers.entry(before).or_default().news.insert(node);
        }
        self.mirror_change(now, node);
        let sign_at = now + self.sign_pause() / 2;
        self.mirror.next_sign.get_or_insert(sign_at);
    }

    /// The record of one of this hub's nodes has changed or gone.
    pub(super) fn mirror_change(&mut self, now: Time, node: NodeId) {
        let Some(hub) = self.mirror.named.get(&node).copied() else { return };
        let (entry, is_cache) = (self.directory.get(node), self.is_cache());
        let ledger = self.mirror.ledgers.entry(hub).or_default();
        ledger.news.insert(node);
        // A server knows of a cache's nodes what the cache tells, and nothing else.
        let waits = !is_cache && entry.as_ref().is_some_and(|entry| ledger.knows_but_place(node, entry));
        if entry.is_none() {
            self.mirror.named.remove(&node);
        }
        self.mirror.flush_by(now + if waits { GATHER_MOVES } else { GATHER });
    }

    /// A hub has come up, or lost an association: it hears of all for whom it
    /// stands by, unless what it was told holds.
    pub(super) fn mirror_to(&mut self, now: Time, hub: NodeId) {
        if !self.is_told(hub) && self.mirror.names(hub) {
            self.mirror.ledgers.entry(hub).or_default().link = None;
            self.mirror.flush_by(now + GATHER);
        }
    }

    /// Whether the association is up over which a stand-by was told what it knows.
    fn is_told(&self, hub: NodeId) -> bool {
        let link = self.mirror.ledgers.get(&hub).and_then(|ledger| ledger.link);
        link.is_some_and(|link| self.neighbours.links.contains_key(&link))
    }

    pub(super) fn tend_mirror(&mut self, now: Time) {
        if self.mirror.flush.is_some_and(|at| at <= now) {
            self.flush_mirror(now);
        }
        if self.mirror.next_sign.is_some_and(|at| at <= now) {
            let pause = self.sign_pause();
            let due = |ledger: &Ledger| ledger.signed + pause <= now;
            let due = self.mirror.ledgers.iter().filter(|(_, ledger)| due(ledger)).map(|(hub, _)| *hub);
            for hub in due.collect::<Vec<_>>() {
                self.tell_stand_by(now, hub);
            }
            self.mirror.next_sign = (!self.mirror.named.is_empty()).then_some(now + pause / 2);
        }
    }

    fn sign_pause(&self) -> Duration {
        self.config.lease / SIGNS_PER_LEASE
    }

    /// Tells the stand-bys what has changed.
    pub(super) fn flush_mirror(&mut self, now: Time) {
        self.mirror.flush = None;
        let due = self.mirror.ledgers.iter().filter(|(_, ledger)| ledger.has_news()).map(|(hub, _)| *hub);
        for hub in due.collect::<Vec<_>>() {
            self.tell_stand_by(now, hub);
        }
    }

    /// Tells one stand-by what has changed, and who lives if that is due.
    /// Whoever is not connected hears of everything when it is.
    fn tell_stand_by(&mut self, now: Time, hub: NodeId) {
        let is_told = self.is_told(hub);
        let Some(mut ledger) = self.mirror.ledgers.remove(&hub) else { return };
        let Some(link) = ledger.link.filter(|_| is_told).or_else(|| self.link_to(hub)) else { return };
        if !is_told {
            ledger = ledger.afresh(now, link, self.mirror.nodes_of(hub));
        }
        let mut changes = Changes::default();
        for node in std::mem::take(&mut ledger.news) {
            let is_here = self.mirror.named.get(&node) == Some(&hub) && !self.copies.holds(node);
            let entry = self.directory.get(node).filter(|_| is_here);
            let whole = |record: Record| Record { addresses: self.shareable(link, record.addresses), ..record };
            if !ledger.note(node, entry.as_ref(), &mut changes, whole) {
                self.counters.over_limit += 1;
            }
        }
        if ledger.signed + self.sign_pause() <= now {
            ledger.sign(now, &self.directory, &mut changes);
        }
        for message in ledger.messages(changes) {
            self.send_mirror(link, message);
        }
        if !ledger.is_empty() {
            self.mirror.ledgers.insert(hub, ledger);
        }
    }

    fn send_mirror(&mut self, link: LinkId, copy: wire::Mirror) {
        self.counters.mirrors_sent += 1;
        self.send(link, Channel::Reliable { flow: 0 }, Traffic::Summary, &Message::Mirror(copy));
    }

    /// A stand-by could not follow what it was told.
    pub(super) fn retell(&mut self, now: Time, from: Sender, wish: &Retell) {
        let ledger = self.mirror.ledgers.get_mut(&from.node).filter(|ledger| ledger.link == Some(from.link));
        let Some(ledger) = ledger else {
            self.counters.stray += 1;
            return;
        };
        ledger.want(wish.number, &wish.nodes);
        self.mirror.flush_by(now + GATHER);
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::super::testing::{Bench, address, copies, node, record, version};
    use super::super::{Config, Kind};
    use super::*;
    use crate::grid::Cell;
    use crate::record::Capacity;
    use crate::service::{Role, ServiceSet};
    use crate::wire::{Left, Renew, Shift};

    const LEFT: Capacity = Capacity { streams: 2, uplink_kbps: 500 };

    fn mirrored(sent: &[(LinkId, Message)]) -> Vec<(LinkId, wire::Mirror)> {
        let copies = sent.iter().filter_map(|(link, message)| match message {
            Message::Mirror(copy) => Some((*link, copy.clone())),
            _ => None,
        });
        copies.collect()
    }

    fn name(bench: &mut Bench, link: LinkId, hub: u8) {
        bench.say(link, &Message::StandBy { hub: node(hub), addresses: None });
    }

    /// Node 1 at `link`, for which hub 100 at `standby` stands by and has its record.
    fn told() -> (Bench, LinkId, LinkId) {
        let mut bench = Bench::new();
        let (standby, link) = (bench.up(100, Role::SuperNode), bench.provider(1));
        name(&mut bench, link, 100);
        assert_eq!(mirrored(&bench.wait(GATHER)), [(standby, copies(vec![record(1)]))]);
        (bench, standby, link)
    }

    /// What the stand-by hears within `span`, which is one message.
    fn heard(bench: &mut Bench, span: Duration) -> wire::Mirror {
        let mut told = mirrored(&bench.wait(span));
        assert_eq!(told.len(), 1, "{told:?}");
        told.remove(0).1
    }

    #[test]
    fn a_home_tells_the_stand_by_what_has_changed_and_of_the_end() {
        let (mut bench, _, link) = told();
        bench.say(link, &Message::Renew(Renew { version: version(1), capacity: Some(LEFT) }));
        let left = vec![Left { node: 0, capacity: LEFT }];
        assert_eq!(heard(&mut bench, GATHER_MOVES), wire::Mirror { number: 2, left, ..Default::default() });
        let there = Record { version: version(3), cell: Cell::new(28, 90), capacity: LEFT, ..record(1) };
        bench.say(link, &Message::Publish(there.clone()));
        assert!(bench.wait(GATHER).is_empty(), "moves are gathered for longer");
        let shifts = vec![Shift { node: 0, versions: 2, x: 1, y: -2 }];
        assert_eq!(heard(&mut bench, GATHER_MOVES), wire::Mirror { number: 3, shifts, ..Default::default() });
        let other = Record { version: version(4), services: ServiceSet::EMPTY, ..there };
        bench.say(link, &Message::Publish(other.clone()));
        let whole = wire::Mirror { number: 4, first: None, last: None, ..copies(vec![other]) };
        assert_eq!(heard(&mut bench, GATHER), whole);
        bench.say(link, &Message::Withdraw(version(4)));
        assert_eq!(heard(&mut bench, GATHER), wire::Mirror { number: 5, gone: vec![0], ..Default::default() });
    }

    #[test]
    fn many_moves_are_one_message_and_go_along_with_what_is_urgent() {
        let mut bench = Bench::new();
        bench.up(100, Role::SuperNode);
        let links: Vec<LinkId> = (1..=20).map(|number| bench.provider(number)).collect();
        links.iter().for_each(|link| name(&mut bench, *link, 100));
        bench.wait(GATHER);
        for (link, number) in links.iter().zip(1..).take(19) {
            let there = Record { version: version(2), cell: Cell::new(28, 92), ..record(number) };
            bench.say(*link, &Message::Publish(there));
        }
        bench.say(links[19], &Message::Withdraw(version(1)));
        let told = heard(&mut bench, GATHER);
        assert_eq!((told.shifts.len(), told.gone.len(), told.records.len()), (19, 1, 0));
        assert!(Message::Mirror(told).encode().len() < 19 * 6 + 20);
    }

    #[test]
    fn the_stand_by_hears_who_was_heard_and_nothing_of_who_was_not() {
        let mut bench = Bench::new();
        let standby = bench.up(100, Role::SuperNode);
        let (first, second) = (bench.provider(1), bench.provider(2));
        for link in [first, second] {
            name(&mut bench, link, 100);
        }
        bench.wait(Duration::from_secs(8));
        // With other news who lives goes along when it is due, not before.
        for (sequence, signs) in [(2, None), (3, Some(Bytes::from_static(&[0b01])))] {
            bench.say(first, &Message::Publish(Record { version: version(sequence), ..record(1) }));
            assert_eq!(heard(&mut bench, GATHER_MOVES).heard, signs, "{sequence}");
            bench.wait(Duration::from_secs(2));
        }
        bench.say(second, &Message::Ping(1));
        bench.say(standby, &Message::Pong(0));
        assert_eq!(heard(&mut bench, Duration::from_secs(15)).heard, Some(Bytes::from_static(&[0b10])));
    }

    #[test]
    fn another_stand_by_takes_the_place_of_the_first() {
        let (mut bench, old, link) = told();
        let new = bench.up(101, Role::SuperNode);
        name(&mut bench, link, 101);
        let told = mirrored(&bench.wait(GATHER));
        assert_eq!(told[0], (old, wire::Mirror { number: 2, gone: vec![0], ..Default::default() }));
        assert_eq!(told[1], (new, copies(vec![record(1)])));
    }

    #[test]
    fn a_stand_by_that_comes_up_hears_of_all() {
        let mut bench = Bench::new();
        let link = bench.provider(1);
        name(&mut bench, link, 100);
        assert!(bench.wait(GATHER).is_empty());
        let standby = bench.up(100, Role::SuperNode);
        assert_eq!(mirrored(&bench.wait(GATHER)), [(standby, copies(vec![record(1)]))]);
    }

    #[test]
    fn over_another_association_everything_is_told_again() {
        let (mut bench, standby, link) = told();
        let second = bench.up(100, Role::SuperNode);
        assert!(mirrored(&bench.wait(GATHER)).is_empty(), "what was told holds");
        bench.say(second, &Message::Pong(0));
        bench.say(link, &Message::Publish(Record { version: version(2), ..record(1) }));
        assert_eq!(mirrored(&bench.wait(GATHER_MOVES))[0].0, standby, "in the order in which it was said");
        bench.down(standby);
        let again = wire::Mirror { number: 3, ..copies(vec![Record { version: version(2), ..record(1) }]) };
        assert_eq!(mirrored(&bench.wait(GATHER)), [(second, again)]);
    }

    #[test]
    fn who_cannot_follow_is_told_whole_records_again() {
        let (mut bench, standby, link) = told();
        let retell = |number, nodes| Message::Retell(Retell { number, nodes });
        bench.say(standby, &retell(1, vec![0, 7]));
        let whole = wire::Mirror { number: 2, first: None, last: None, ..copies(vec![record(1)]) };
        assert_eq!(heard(&mut bench, GATHER), whole);
        bench.say(standby, &retell(2, vec![]));
        assert_eq!(heard(&mut bench, GATHER), wire::Mirror { number: 3, ..copies(vec![record(1)]) });
        // It was said before that came.
        bench.say(standby, &retell(2, vec![]));
        assert!(bench.wait(GATHER).is_empty());
        bench.say(link, &retell(2, vec![]));
        assert_eq!(bench.hub.counters().refused_by_role, 1);
    }

    #[test]
    fn a_record_with_loopback_addresses_is_mirrored_without_them() {
        let config = Config::new(node(200), Kind::SuperNode, 1);
        let mut bench = Bench::with(config);
        bench.up(100, Role::SuperNode);
        let loopback = Address::single(crate::address::Scheme::Udp, ([127, 0, 0, 1], 9).into());
        let link = bench.up(1, Role::Node);
        bench.say(link, &Message::Publish(Record { addresses: vec![loopback, address(1)], ..record(1) }));
        name(&mut bench, link, 100);
        assert_eq!(heard(&mut bench, GATHER).records[0].record.addresses, [address(1)]);
    }
}
