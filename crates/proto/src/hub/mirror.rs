//! Stand-by: what this hub tells others of its nodes so that those lose
//! nothing with it, and what others have told it for the same purpose.
//!
//! A mirrored record lies in the directory like any other and answers requests,
//! but nobody hears of it: no claim, no word to watchers. It counts as the
//! hub's own only when its node says so ([`Message::Adopt`]).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;

use super::neighbours::PUBLICATION;
use super::{Event, Hub, Sender};
use crate::address::SchemeSet;
use crate::directory::{Hit, Published, Query};
use crate::ids::{LinkId, NodeId};
use crate::machine::{Channel, Traffic};
use crate::record::Record;
use crate::scope::Scope;
use crate::time::Time;
use crate::wire::{self, Adopt, HEARD_BYTES, MAX_CANDIDATES, MAX_MIRRORED, Message};

/// How long changes are gathered before the stand-bys hear of them.
const GATHER: Duration = Duration::from_millis(100);

/// How often in a lease the stand-bys hear which nodes live.
const SIGNS_PER_LEASE: u32 = 6;

/// For so long after its last word a hub counts as alive: it is asked for one
/// every five seconds.
const LIVELY: Duration = Duration::from_secs(8);

/// The most nodes in one sign of life.
const MAX_HEARD: usize = 8 * 1024;

/// The most nodes in one message that says who is gone.
const MAX_GONE: usize = 1024;

/// What is mirrored, in both directions.
#[derive(Debug, Default)]
pub(super) struct Mirror {
    /// This hub's nodes and the hub that stands by for each. Bounded by the directory.
    named: BTreeMap<NodeId, NodeId>,
    /// Of whom a stand-by is to hear.
    news: BTreeMap<NodeId, BTreeSet<NodeId>>,
    flush: Option<Time>,
    next_sign: Option<Time>,
    last_sign: Time,
    /// Other hubs' nodes whose records are here, and the home of each. Bounded
    /// by the directory.
    held: BTreeMap<NodeId, NodeId>,
}

impl Mirror {
    /// Whether the node's record is here for another hub.
    pub(super) fn holds(&self, node: NodeId) -> bool {
        self.held.contains_key(&node)
    }

    /// The home of a node whose record is here for it.
    pub(super) fn home_of(&self, node: NodeId) -> Option<NodeId> {
        self.held.get(&node).copied()
    }

    /// How many records are here for other hubs.
    pub(super) fn len(&self) -> usize {
        self.held.len()
    }

    /// The record is this hub's own now, or gone. True if it was another hub's.
    pub(super) fn release(&mut self, node: NodeId) -> bool {
        self.held.remove(&node).is_some()
    }

    pub(super) fn next_due(&self) -> Option<Time> {
        self.flush.into_iter().chain(self.next_sign).min()
    }
}

impl Hub {
    /// A node of this hub says which hub stands by for it.
    pub(super) fn stand_by(&mut self, now: Time, from: Sender, hub: NodeId) {
        if hub == self.config.node || self.mirror.holds(from.node) || self.directory.get(from.node).is_none() {
            self.counters.stray += 1;
            return;
        }
        if !self.neighbours.get_mut(from.node).is_some_and(|node| node.may_trouble(now, PUBLICATION)) {
            self.counters.over_limit += 1;
            return;
        }
        let before = self.mirror.named.insert(from.node, hub);
        if let Some(before) = before.filter(|before| *before != hub) {
            self.mirror.news.entry(before).or_default().insert(from.node);
        }
        self.mirror_change(now, from.node);
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
            let is_here = |node: &NodeId| self.mirror.named.get(node) == Some(&hub) && !self.mirror.holds(*node);
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

    /// Searches the directory for a request that goes so far: one that is to
    /// stay with the home's nodes does not get those of another home, as long
    /// as that lives.
    pub(super) fn search_within(&mut self, now: Time, scope: Scope, query: &Query) -> Vec<Hit> {
        if scope.crosses_peers() {
            return self.search(query);
        }
        let mut hits = self.search(&Query { count: MAX_CANDIDATES, ..*query });
        hits.retain(|hit| self.mirror.home_of(hit.rank.node()).is_none_or(|home| !self.is_lively(now, home)));
        hits.truncate(query.count);
        hits
    }

    /// Whether a hub was heard of late.
    fn is_lively(&self, now: Time, hub: NodeId) -> bool {
        let link = self.neighbours.best_link(hub, SchemeSet::ALL);
        let heard = link.and_then(|link| self.neighbours.links.get(&link)).map(|link| link.heard);
        heard.is_some_and(|heard| now.since(heard) < LIVELY)
    }

    /// A home tells of nodes for which this hub stands by.
    pub(super) fn mirrored(&mut self, now: Time, from: Sender, copy: wire::Mirror) {
        for record in copy.records {
            self.mirror_record(now, from.node, &record);
        }
        for node in copy.gone {
            if self.mirror.home_of(node) == Some(from.node) {
                self.mirror.release(node);
                self.directory.remove(node);
            }
        }
        for tag in copy.heard.iter().flat_map(|tags| tags.chunks_exact(HEARD_BYTES)) {
            for node in self.held_like(tag, from.node) {
                self.directory.heard(now, node);
            }
        }
    }

    /// Takes the copy of a record in, unless the node has been heard of since.
    fn mirror_record(&mut self, now: Time, home: NodeId, record: &Record) {
        let node = record.node;
        let own = self.directory.get(node).filter(|_| !self.mirror.holds(node)).map(|entry| entry.version());
        if own.is_some_and(|own| own >= record.version) {
            return;
        }
        if own.is_some() {
            // What the home holds is newer: the node has moved there.
            self.claimed(now, home, node, record.version);
        }
        match self.directory.publish(now, record) {
            Published::Full => self.counters.full += 1,
            Published::Stale => {}
            Published::New | Published::Replaced(_) | Published::Same => {
                self.mirror.held.insert(node, home);
            }
        }
    }

    /// The nodes of `home` that are here and have ids that begin with `tag`.
    fn held_like(&self, tag: &[u8], home: NodeId) -> Vec<NodeId> {
        let bound = |fill: u8| {
            let mut id = [fill; 16];
            id[..HEARD_BYTES].copy_from_slice(tag);
            NodeId::from_bytes(id)
        };
        let range = self.mirror.held.range(bound(0)..=bound(u8::MAX));
        range.filter(|(_, of)| **of == home).map(|(node, _)| *node).collect()
    }

    /// A node whose record is mirrored here makes this hub its home.
    pub(super) fn adopt(&mut self, now: Time, from: Sender, adopt: Adopt) {
        let Adopt { held, version, capacity } = adopt;
        if self.leaving.is_some() {
            return self.send(from.link, Channel::Reliable { flow: 0 }, Traffic::Join, &Message::HandOver);
        }
        let mirrored = self.mirror.holds(from.node);
        if !mirrored && self.directory.renew(now, from.node, version, Some(capacity)) {
            // The answer was lost.
            return self.grant(from, Traffic::Join, version, true);
        }
        if !mirrored || version <= held || !self.directory.adopt(now, from.node, held, version, capacity) {
            self.counters.unknown_renews += 1;
            return self.send(from.link, Channel::Datagram, Traffic::Join, &Message::Anew);
        }
        self.counters.adoptions += 1;
        self.mirror.release(from.node);
        self.neighbours.published_over(from.node, from.link);
        self.claim(from.node, version);
        self.published(now, from.node, None);
        if let Some(entry) = self.directory.get(from.node) {
            let (cell, services) = (entry.cell(), entry.services());
            self.events.push_back(Event::Published { node: from.node, cell, services });
        }
        self.grant(from, Traffic::Join, version, true);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Bench, address, forwarded, node, record, refused, request, version};
    use super::super::{Config, Event, Kind};
    use super::*;
    use crate::record::{Capacity, Record};
    use crate::service::Role;
    use crate::wire::{Mode, Reason, Renew, Request};

    const LEFT: Capacity = Capacity { streams: 2, uplink_kbps: 500 };

    fn copy(records: Vec<Record>) -> Message {
        Message::Mirror(wire::Mirror { records, gone: Vec::new(), heard: None })
    }

    fn adopt(held: u32, new: u32) -> Message {
        Message::Adopt(Adopt { held: version(held), version: version(new), capacity: LEFT })
    }

    /// A hub that stands by for node 1, whose home is hub 100.
    fn standing_by() -> (Bench, LinkId, LinkId) {
        let mut bench = Bench::new();
        let (home, link) = (bench.up(100, Role::SuperNode), bench.up(1, Role::Node));
        assert!(bench.say(home, &copy(vec![record(1)])).is_empty(), "it is nobody else's to know");
        assert_eq!(bench.hub.status(bench.now).mirrored, 1);
        (bench, home, link)
    }

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
        bench.say(link, &Message::StandBy(node(100)));
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
        bench.say(first, &Message::StandBy(node(100)));
        bench.say(second, &Message::StandBy(node(100)));
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
        bench.say(link, &Message::StandBy(node(100)));
        bench.wait(GATHER);
        bench.say(link, &Message::StandBy(node(101)));
        let told = mirrored(&bench.wait(GATHER));
        assert_eq!(told[0], (old, wire::Mirror { records: vec![], gone: vec![node(1)], heard: None }));
        assert_eq!(told[1].0, new);
    }

    #[test]
    fn a_stand_by_that_comes_up_hears_of_all() {
        let mut bench = Bench::new();
        let link = bench.provider(1);
        bench.say(link, &Message::StandBy(node(100)));
        assert!(bench.wait(GATHER).is_empty());
        let standby = bench.up(100, Role::SuperNode);
        assert_eq!(mirrored(&bench.wait(GATHER))[0].0, standby);
    }

    #[test]
    fn a_mirrored_record_answers_requests_over_the_nodes_own_link() {
        let (mut bench, home, link) = standing_by();
        let asker = bench.requester(2);
        assert_eq!(forwarded(&bench.ask(asker, request(1, Mode::Forward))).0, link);
        // Without that link it goes through the home.
        bench.down(link);
        bench.say(home, &copy(vec![Record { version: version(2), ..record(1) }]));
        match &bench.ask(asker, request(2, Mode::Forward))[..] {
            [(to, Message::Carry(carry))] => assert_eq!((*to, carry.provider), (home, Some(node(1)))),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_request_that_stays_home_gets_mirrored_nodes_only_when_their_home_is_silent() {
        let (mut bench, home, link) = standing_by();
        let asker = bench.requester(2);
        let near = |id| Request { scope: Some(Scope::Home), ..request(id, Mode::Forward) };
        assert_eq!(refused(&bench.ask(asker, near(1))), (asker, Reason::NotFound));
        bench.wait(LIVELY);
        assert_eq!(forwarded(&bench.ask(asker, near(2))).0, link);
        bench.say(home, &Message::Pong(0));
        assert_eq!(refused(&bench.ask(asker, near(3))), (asker, Reason::NotFound));
    }

    #[test]
    fn one_message_makes_the_stand_by_the_home() {
        let (mut bench, home, link) = standing_by();
        let sent = bench.say(link, &adopt(1, 2));
        assert_eq!(sent[0], (home, Message::Claim { node: node(1), version: version(2) }));
        assert!(matches!(&sent[1], (to, Message::Lease { version: held, .. }) if *to == link && *held == version(2)));
        let status = bench.hub.status(bench.now);
        assert_eq!((status.nodes, status.mirrored, bench.hub.counters().adoptions), (1, 0, 1));
        assert_eq!(bench.hub.index(bench.now, None, 1)[0].capacity, LEFT);
        assert!(bench.events.iter().any(|event| matches!(event, Event::Published { .. })));
        // The answer may be lost, and the home may speak late.
        assert!(matches!(bench.say(link, &adopt(1, 2))[..], [(_, Message::Lease { .. })]));
        bench.say(home, &Message::Mirror(wire::Mirror { records: vec![record(1)], gone: vec![node(1)], heard: None }));
        assert_eq!(bench.hub.status(bench.now).nodes, 1);
    }

    #[test]
    fn what_is_not_held_is_asked_for_anew() {
        let (mut bench, home, link) = standing_by();
        for wrong in [adopt(2, 3), adopt(1, 1), Message::Renew(Renew { version: version(1), capacity: None })] {
            assert_eq!(bench.say(link, &wrong), [(link, Message::Anew)], "{wrong:?}");
        }
        let sent = bench.say(link, &Message::Publish(Record { version: version(2), ..record(1) }));
        assert_eq!(sent[0], (home, Message::Claim { node: node(1), version: version(2) }));
        assert_eq!(bench.hub.status(bench.now).mirrored, 0);
    }

    #[test]
    fn a_mirrored_record_lives_as_long_as_the_home_says_and_goes_quietly() {
        let (mut bench, home, link) = standing_by();
        let sign = Some(Bytes::from_static(&[1; HEARD_BYTES]));
        for _ in 0..5 {
            bench.wait(Duration::from_secs(15));
            bench.say(home, &Message::Mirror(wire::Mirror { records: vec![], gone: vec![], heard: sign.clone() }));
        }
        assert_eq!(bench.hub.status(bench.now).mirrored, 1);
        for _ in 0..5 {
            bench.wait(Duration::from_secs(15));
            bench.say(home, &Message::Pong(0));
        }
        assert_eq!((bench.hub.status(bench.now).mirrored, bench.hub.counters().expiries), (0, 0));
        assert!(!bench.closed.iter().any(|(closed, _)| *closed == link));
    }

    #[test]
    fn only_its_home_ends_a_mirrored_record() {
        let (mut bench, home, _) = standing_by();
        let other = bench.up(101, Role::SuperNode);
        let gone = Message::Mirror(wire::Mirror { records: vec![], gone: vec![node(1)], heard: None });
        bench.say(other, &gone);
        assert_eq!(bench.hub.status(bench.now).mirrored, 1);
        bench.say(home, &gone);
        assert_eq!(bench.hub.status(bench.now).mirrored, 0);
    }

    #[test]
    fn a_record_with_loopback_addresses_is_mirrored_without_them() {
        let config = Config::new(node(200), Kind::SuperNode, 1);
        let mut bench = Bench::with(config);
        bench.up(100, Role::SuperNode);
        let loopback = crate::address::Address::single(crate::address::Scheme::Udp, ([127, 0, 0, 1], 9).into());
        let link = bench.up(1, Role::Node);
        bench.say(link, &Message::Publish(Record { addresses: vec![loopback, address(1)], ..record(1) }));
        bench.say(link, &Message::StandBy(node(100)));
        assert_eq!(mirrored(&bench.wait(GATHER))[0].1.records[0].addresses, [address(1)]);
    }
}
