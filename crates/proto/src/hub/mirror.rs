//! What this hub tells the stand-bys of its nodes, so that those lose nothing
//! with it: [`standby`](super::standby) is the other end.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;

use super::neighbours::PUBLICATION;
use super::{Hub, Sender};
use crate::address::{Address, SchemeSet};
use crate::ids::{LinkId, NodeId};
use crate::machine::{Channel, Traffic};
use crate::record::Record;
use crate::time::Time;
use crate::wire::{self, HEARD_BYTES, MAX_MIRRORED, Message};

/// How long changes are gathered before the stand-bys hear of them.
const GATHER: Duration = Duration::from_millis(100);

/// How often in a lease the stand-bys hear which nodes live.
const SIGNS_PER_LEASE: u32 = 6;

/// The most nodes in one sign of life.
const MAX_HEARD: usize = 8 * 1024;

/// The most nodes in one message that says who is gone.
const MAX_GONE: usize = 1024;

/// What the stand-bys of this hub's nodes are told.
#[derive(Debug, Default)]
pub(super) struct Mirror {
    /// This hub's nodes and the hub that stands by for each. Bounded by the directory.
    named: BTreeMap<NodeId, NodeId>,
    /// Of whom a stand-by is to hear.
    news: BTreeMap<NodeId, BTreeSet<NodeId>>,
    flush: Option<Time>,
    next_sign: Option<Time>,
    last_sign: Time,
}

impl Mirror {
    /// Whether a hub stands by for any node of this one.
    pub(super) fn names(&self, hub: NodeId) -> bool {
        self.named.values().any(|named| *named == hub)
    }

    pub(super) fn next_due(&self) -> Option<Time> {
        self.flush.into_iter().chain(self.next_sign).min()
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
            self.mirror.news.entry(before).or_default().insert(node);
        }
        self.mirror_change(now, node);
        let sign_at = now + self.config.lease / SIGNS_PER_LEASE;
        self.mirror.next_sign.get_or_insert(sign_at);
    }

    /// The record of one of this hub's nodes has changed or gone.
    pub(super) fn mirror_change(&mut self, now: Time, node: NodeId) {
        let Some(hub) = self.mirror.named.get(&node).copied() else { return };
        self.mirror.news.entry(hub).or_default().insert(node);
        self.mirror.flush.get_or_insert(now + GATHER);
        if self.directory.get(node).is_none() {
            self.mirror.named.remove(&node);
        }
    }

    /// A hub has come up: it hears of all for whom it stands by.
    pub(super) fn mirror_to(&mut self, now: Time, hub: NodeId) {
        let nodes = self.mirror.named.iter().filter(|(_, named)| **named == hub).map(|(node, _)| *node);
        let nodes: BTreeSet<NodeId> = nodes.collect();
        if !nodes.is_empty() {
            self.mirror.news.insert(hub, nodes);
            self.mirror.flush.get_or_insert(now + GATHER);
        }
    }

    pub(super) fn tend_mirror(&mut self, now: Time) {
        if self.mirror.flush.is_some_and(|at| at <= now) {
            self.flush_mirror();
        }
        if self.mirror.next_sign.is_some_and(|at| at <= now) {
            self.sign_mirror(now);
        }
    }

    /// Tells the stand-bys what has changed. Who is not connected hears of it
    /// when it is.
    pub(super) fn flush_mirror(&mut self) {
        self.mirror.flush = None;
        for (hub, nodes) in std::mem::take(&mut self.mirror.news) {
            let Some(link) = self.neighbours.best_link(hub, SchemeSet::ALL) else { continue };
            let is_here = |node: &NodeId| self.mirror.named.get(node) == Some(&hub) && !self.copies.holds(*node);
            let (here, gone): (Vec<NodeId>, Vec<NodeId>) = nodes.into_iter().partition(is_here);
            for part in here.chunks(MAX_MIRRORED) {
                let records = part.iter().filter_map(|node| self.mirrored_record(link, *node)).collect();
                self.send_mirror(link, wire::Mirror { records, gone: Vec::new(), heard: None });
            }
            for part in gone.chunks(MAX_GONE) {
                self.send_mirror(link, wire::Mirror { records: Vec::new(), gone: part.to_vec(), heard: None });
            }
        }
    }

    fn mirrored_record(&self, link: LinkId, node: NodeId) -> Option<Record> {
        let record = self.directory.get(node)?.record();
        Some(Record { addresses: self.shareable(link, record.addresses), ..record })
    }

    fn send_mirror(&mut self, link: LinkId, copy: wire::Mirror) {
        self.counters.mirrors_sent += 1;
        self.send(link, Channel::Reliable { flow: 0 }, Traffic::Summary, &Message::Mirror(copy));
    }

    /// Tells the stand-bys which nodes were heard since the last time.
    fn sign_mirror(&mut self, now: Time) {
        let since = std::mem::replace(&mut self.mirror.last_sign, now);
        self.mirror.next_sign = (!self.mirror.named.is_empty()).then_some(now + self.config.lease / SIGNS_PER_LEASE);
        let mut heard: BTreeMap<NodeId, Vec<u8>> = BTreeMap::new();
        for (node, hub) in &self.mirror.named {
            let lives = |entry: &crate::directory::Entry<'_>| entry.heard() > since && !entry.is_suspended();
            if self.directory.get(*node).as_ref().is_some_and(lives) {
                heard.entry(*hub).or_default().extend(&node.as_bytes()[..HEARD_BYTES]);
            }
        }
        for (hub, tags) in heard {
            let Some(link) = self.neighbours.best_link(hub, SchemeSet::ALL) else { continue };
            for part in tags.chunks(MAX_HEARD * HEARD_BYTES) {
                let heard = Some(Bytes::copy_from_slice(part));
                self.send_mirror(link, wire::Mirror { records: Vec::new(), gone: Vec::new(), heard });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Bench, address, node, record, version};
    use super::super::{Config, Kind};
    use super::*;
    use crate::record::Capacity;
    use crate::service::Role;
    use crate::wire::Renew;

    const LEFT: Capacity = Capacity { streams: 2, uplink_kbps: 500 };

    fn mirrored(sent: &[(LinkId, Message)]) -> Vec<(LinkId, wire::Mirror)> {
        let copies = sent.iter().filter_map(|(link, message)| match message {
            Message::Mirror(copy) => Some((*link, copy.clone())),
            _ => None,
        });
        copies.collect()
    }

    #[test]
    fn a_home_tells_the_stand_by_of_changes_and_of_the_end() {
        let mut bench = Bench::new();
        let (standby, link) = (bench.up(100, Role::SuperNode), bench.provider(1));
        bench.say(link, &Message::StandBy { hub: node(100), addresses: None });
        let told = mirrored(&bench.wait(GATHER));
        assert_eq!(told, [(standby, wire::Mirror { records: vec![record(1)], gone: vec![], heard: None })]);
        let renew = Message::Renew(Renew { version: version(1), capacity: Some(LEFT) });
        bench.say(link, &renew);
        assert_eq!(mirrored(&bench.wait(GATHER))[0].1.records[0].capacity, LEFT);
        bench.say(link, &Message::Publish(Record { version: version(2), ..record(1) }));
        assert_eq!(mirrored(&bench.wait(GATHER))[0].1.records[0].version, version(2));
        bench.say(link, &Message::Withdraw(version(2)));
        let told = mirrored(&bench.wait(GATHER));
        assert_eq!(told, [(standby, wire::Mirror { records: vec![], gone: vec![node(1)], heard: None })]);
    }

    #[test]
    fn the_stand_by_hears_who_was_heard_and_nothing_of_who_was_not() {
        let mut bench = Bench::new();
        let standby = bench.up(100, Role::SuperNode);
        let (first, second) = (bench.provider(1), bench.provider(2));
        bench.say(first, &Message::StandBy { hub: node(100), addresses: None });
        bench.say(second, &Message::StandBy { hub: node(100), addresses: None });
        bench.wait(Duration::from_secs(11));
        bench.say(first, &Message::Ping(1));
        bench.say(standby, &Message::Pong(0));
        let told = mirrored(&bench.wait(Duration::from_secs(10)));
        assert_eq!(told[0].1.heard, Some(Bytes::from_static(&[1; HEARD_BYTES])));
    }

    #[test]
    fn another_stand_by_takes_the_place_of_the_first() {
        let mut bench = Bench::new();
        let (old, new) = (bench.up(100, Role::SuperNode), bench.up(101, Role::SuperNode));
        let link = bench.provider(1);
        bench.say(link, &Message::StandBy { hub: node(100), addresses: None });
        bench.wait(GATHER);
        bench.say(link, &Message::StandBy { hub: node(101), addresses: None });
        let told = mirrored(&bench.wait(GATHER));
        assert_eq!(told[0], (old, wire::Mirror { records: vec![], gone: vec![node(1)], heard: None }));
        assert_eq!(told[1].0, new);
    }

    #[test]
    fn a_stand_by_that_comes_up_hears_of_all() {
        let mut bench = Bench::new();
        let link = bench.provider(1);
        bench.say(link, &Message::StandBy { hub: node(100), addresses: None });
        assert!(bench.wait(GATHER).is_empty());
        let standby = bench.up(100, Role::SuperNode);
        assert_eq!(mirrored(&bench.wait(GATHER))[0].0, standby);
    }

    #[test]
    fn a_record_with_loopback_addresses_is_mirrored_without_them() {
        let config = Config::new(node(200), Kind::SuperNode, 1);
        let mut bench = Bench::with(config);
        bench.up(100, Role::SuperNode);
        let loopback = Address::single(crate::address::Scheme::Udp, ([127, 0, 0, 1], 9).into());
        let link = bench.up(1, Role::Node);
        bench.say(link, &Message::Publish(Record { addresses: vec![loopback, address(1)], ..record(1) }));
        bench.say(link, &Message::StandBy { hub: node(100), addresses: None });
        assert_eq!(mirrored(&bench.wait(GATHER))[0].1.records[0].addresses, [address(1)]);
    }
}
