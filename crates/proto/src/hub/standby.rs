//! Standing by: the records that other hubs keep here, so that their nodes
//! lose nothing with them.
//!
//! Such a record lies in the directory like any other and answers requests,
//! but nobody hears of it: no claim, no word to watchers. It counts as the
//! hub's own only when its node says so ([`Message::Adopt`]).

use std::collections::BTreeMap;
use std::time::Duration;

use super::ledger::{Book, Line};
use super::{Event, Hub, Kind, Sender};
use crate::address::SchemeSet;
use crate::directory::{Hit, Place, Published, Query};
use crate::grid::Cell;
use crate::ids::{LinkId, NodeId};
use crate::machine::{Channel, Traffic};
use crate::record::Record;
use crate::scope::Scope;
use crate::time::Time;
use crate::wire::{self, Adopt, MAX_CANDIDATES, MAX_CHANGES, Message, Numbered, Retell, Shift};

/// For so long after its last word a hub counts as alive: it is asked for one
/// every five seconds.
const LIVELY: Duration = Duration::from_secs(8);

/// The nodes whose records are here for other hubs, and the home of each.
/// Bounded by the directory.
#[derive(Debug, Default)]
pub(super) struct Copies {
    homes: BTreeMap<NodeId, NodeId>,
    /// What was told over each association.
    books: BTreeMap<LinkId, Book>,
}

impl Copies {
    /// Whether the node's record is here for another hub.
    pub(super) fn holds(&self, node: NodeId) -> bool {
        self.homes.contains_key(&node)
    }

    /// The home of a node whose record is here for it.
    pub(super) fn home_of(&self, node: NodeId) -> Option<NodeId> {
        self.homes.get(&node).copied()
    }

    /// The nodes whose records are here for `home`.
    pub(super) fn of(&self, home: NodeId) -> impl Iterator<Item = NodeId> {
        self.homes.iter().filter(move |(_, of)| **of == home).map(|(node, _)| *node)
    }

    /// How many records are here for other hubs.
    pub(super) fn len(&self) -> usize {
        self.homes.len()
    }

    /// An association is gone, and with it what was agreed on over it.
    pub(super) fn close_book(&mut self, link: LinkId) {
        self.books.remove(&link);
    }

    /// The record is this hub's own now, or gone. True if it was another hub's.
    pub(super) fn release(&mut self, node: NodeId) -> bool {
        self.homes.remove(&node).is_some()
    }
}

impl Hub {
    /// Searches the directory for a request that goes so far: one that is to
    /// stay with the home's nodes does not get those of another home, as long
    /// as that lives.
    pub(super) fn search_within(&mut self, now: Time, scope: Scope, query: &Query) -> Vec<Hit> {
        if scope.admits_any_home() {
            return self.search(query);
        }
        let mut hits = self.search(&Query { count: MAX_CANDIDATES, ..*query });
        hits.retain(|hit| self.copies.home_of(hit.rank.node()).is_none_or(|home| !self.is_lively(now, home)));
        hits.truncate(query.count);
        hits
    }

    /// Whether a hub was heard of late.
    fn is_lively(&self, now: Time, hub: NodeId) -> bool {
        let link = self.neighbours.best_link(hub, SchemeSet::ALL);
        let heard = link.and_then(|link| self.neighbours.links.get(&link)).map(|link| link.heard);
        heard.is_some_and(|heard| now.since(heard) < LIVELY)
    }

    /// A home tells of nodes for which this hub stands by. What does not follow
    /// on what is known, it is asked to tell again.
    pub(super) fn mirrored(&mut self, now: Time, from: Sender, copy: wire::Mirror) {
        let mut book = self.copies.books.remove(&from.link).unwrap_or_default();
        let (number, follows) = (copy.number, book.follows(&copy));
        let mut wanted = Vec::new();
        if follows {
            wanted = self.take_in(now, from.node, &mut book, copy);
        }
        self.copies.books.insert(from.link, book);
        if !follows || !wanted.is_empty() {
            let wish = Message::Retell(Retell { number, nodes: wanted });
            self.send(from.link, Channel::Reliable { flow: 0 }, Traffic::Summary, &wish);
        }
    }

    /// Does what a home says, and gives back the numbers of those whose records
    /// would be needed for it.
    fn take_in(&mut self, now: Time, home: NodeId, book: &mut Book, copy: wire::Mirror) -> Vec<u32> {
        let mut wanted = Vec::new();
        for node in copy.gone.iter().filter_map(|number| book.strike(*number)) {
            self.drop_copy(home, node);
        }
        for Numbered { node, record } in &copy.records {
            let line = Line { node: record.node, version: record.version };
            if book.enter(*node, line, self.config.limits.nodes as usize) {
                self.mirror_record(now, home, record);
            } else {
                self.counters.over_limit += 1;
            }
        }
        for shift in copy.shifts {
            if !self.shift_copy(now, home, book, shift) {
                wanted.push(shift.node);
            }
        }
        for left in copy.left {
            let line = book.line(left.node);
            if let Some(line) = line.filter(|line| self.has_copy(home, *line)) {
                self.directory.renew(now, line.node, line.version, Some(left.capacity));
            } else if line.is_none_or(|line| self.lacks(line)) {
                wanted.push(left.node);
            }
        }
        for number in copy.heard.iter().flat_map(|signs| numbers(signs)) {
            if let Some(line) = book.line(number).filter(|line| self.has_copy(home, *line)) {
                self.directory.heard(now, line.node);
            }
        }
        if copy.last == Some(true) {
            let named = book.nodes();
            for node in self.copies.of(home).filter(|node| !named.contains(node)).collect::<Vec<_>>() {
                self.drop_copy(home, node);
            }
        }
        wanted.truncate(MAX_CHANGES);
        wanted
    }

    /// A home has a node no more.
    fn drop_copy(&mut self, home: NodeId, node: NodeId) {
        if self.copies.home_of(node) == Some(home) {
            self.copies.release(node);
            let place = self.directory.remove(node);
            self.registered(node, place);
        }
    }

    /// Whether the copy of a record is here just as its home has told it.
    fn has_copy(&self, home: NodeId, line: Line) -> bool {
        let held = self.directory.get(line.node).map(|entry| entry.version());
        held == Some(line.version) && self.copies.home_of(line.node) == Some(home)
    }

    /// Whether nothing as new is here, and there is room for it.
    fn lacks(&self, line: Line) -> bool {
        self.directory.get(line.node).map_or(!self.directory.is_full(), |entry| entry.version() < line.version)
    }

    /// A node of `home` has moved; false if its record is needed to know where.
    fn shift_copy(&mut self, now: Time, home: NodeId, book: &mut Book, shift: Shift) -> bool {
        let Some((line, version)) = book.turn(shift.node, shift.versions) else { return false };
        let copy = self.directory.get(line.node).filter(|_| self.has_copy(home, line));
        let Some(before) = copy.map(|entry| entry.record()) else {
            self.object(home, line.node, version);
            return !self.lacks(Line { version, ..line });
        };
        let cell = Cell::new(before.cell.x.saturating_add(shift.x), before.cell.y.saturating_add(shift.y));
        if cell.is_on_grid() {
            self.mirror_record(now, home, &Record { version, cell, ..before });
        }
        cell.is_on_grid()
    }

    /// Takes the copy of a record in, unless the node has been heard of since.
    fn mirror_record(&mut self, now: Time, home: NodeId, record: &Record) {
        let node = record.node;
        let own = self.directory.get(node).filter(|_| !self.copies.holds(node)).map(|entry| entry.version());
        if own.is_some_and(|own| own >= record.version) {
            return self.object(home, node, record.version);
        }
        if own.is_some() {
            // What the home holds is newer: the node has moved there.
            self.claimed(now, home, node, record.version);
        }
        match self.directory.publish(now, record) {
            Published::Full => self.counters.full += 1,
            Published::Stale => {}
            Published::Same => {
                self.copies.homes.insert(node, home);
                self.directory.renew(now, node, record.version, Some(record.capacity));
            }
            Published::New => {
                self.copies.homes.insert(node, home);
                self.registered(node, None);
            }
            Published::Replaced(place) => {
                self.copies.homes.insert(node, home);
                self.registered(node, Some(place));
            }
        }
    }

    /// What another hub says of its node has come, changed or gone. To a server
    /// it is the node's own word, so watchers hear of it.
    pub(super) fn registered(&mut self, node: NodeId, before: Option<Place>) {
        if self.config.kind == Kind::Server {
            self.tell_watchers(node, before);
        }
    }

    /// A node whose record is mirrored here makes this hub its home.
    pub(super) fn adopt(&mut self, now: Time, from: Sender, adopt: Adopt) {
        let Adopt { held, version, capacity } = adopt;
        if self.leaving.is_some() {
            return self.send(from.link, Channel::Reliable { flow: 0 }, Traffic::Join, &Message::HandOver);
        }
        let mirrored = self.copies.holds(from.node);
        if !mirrored && self.directory.renew(now, from.node, version, Some(capacity)) {
            // The answer was lost.
            return self.grant(from, Traffic::Join, version, true);
        }
        if !mirrored || version <= held || !self.directory.adopt(now, from.node, held, version, capacity) {
            self.counters.unknown_renews += 1;
            return self.send(from.link, Channel::Datagram, Traffic::Join, &Message::Anew);
        }
        self.counters.adoptions += 1;
        self.copies.release(from.node);
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

/// The numbers of which signs of life tell.
fn numbers(signs: &[u8]) -> impl Iterator<Item = u32> {
    let bits = |byte: u8| (0..8).filter(move |bit| byte & (1 << bit) != 0);
    signs.iter().zip(0u32..).flat_map(move |(byte, place)| bits(*byte).map(move |bit| place * 8 + bit))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::super::testing::{Bench, copies, forwarded, node, record, refused, request, version};
    use super::*;
    use crate::ids::LinkId;
    use crate::record::Capacity;
    use crate::service::Role;
    use crate::wire::{Left, Mirror, Mode, Reason, Renew, Request};

    const LEFT: Capacity = Capacity { streams: 2, uplink_kbps: 500 };

    fn copy(records: Vec<Record>) -> Message {
        Message::Mirror(copies(records))
    }

    /// What a home says next, after [`copy`] or `number - 1`.
    fn next(number: u32, change: Mirror) -> Message {
        Message::Mirror(Mirror { number, ..change })
    }

    fn gone(number: u32) -> Message {
        next(number, Mirror { gone: vec![0], ..Mirror::default() })
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
        bench.say(home, &copy(vec![record(1)]));
        bench.say(home, &gone(2));
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
        for number in 2..7 {
            bench.wait(Duration::from_secs(15));
            let heard = Some(Bytes::from_static(&[1]));
            bench.say(home, &next(number, Mirror { heard, ..Mirror::default() }));
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
        bench.say(other, &copy(vec![record(1)]));
        bench.say(home, &copy(vec![Record { version: version(2), ..record(1) }]));
        bench.say(other, &gone(2));
        assert_eq!(bench.hub.status(bench.now).mirrored, 1);
        bench.say(home, &gone(2));
        assert_eq!(bench.hub.status(bench.now).mirrored, 0);
    }

    fn shift(number: u32, versions: u32, x: i32) -> Message {
        next(number, Mirror { shifts: vec![Shift { node: 0, versions, x, y: -1 }], ..Mirror::default() })
    }

    fn retell(number: u32, nodes: Vec<u32>) -> Message {
        Message::Retell(Retell { number, nodes })
    }

    #[test]
    fn a_copy_moves_with_its_node() {
        let (mut bench, home, _) = standing_by();
        assert!(bench.say(home, &shift(2, 3, 2)).is_empty());
        let left = vec![Left { node: 0, capacity: LEFT }];
        assert!(bench.say(home, &next(3, Mirror { left, ..Mirror::default() })).is_empty());
        let held = bench.hub.directory.get(node(1)).unwrap().record();
        let cell = Cell::new(record(1).cell.x + 2, record(1).cell.y - 1);
        assert_eq!(held, Record { version: version(4), cell, capacity: LEFT, ..record(1) });
    }

    #[test]
    fn who_has_missed_something_asks_for_everything_and_believes_nothing_until_then() {
        let (mut bench, home, _) = standing_by();
        assert_eq!(bench.say(home, &shift(3, 1, 1)), [(home, retell(3, vec![]))]);
        assert_eq!(bench.say(home, &shift(4, 1, 1)), [(home, retell(4, vec![]))]);
        assert_eq!(bench.hub.directory.get(node(1)).unwrap().record(), record(1));
        let again = Record { version: version(4), ..record(1) };
        bench.say(home, &Message::Mirror(Mirror { number: 5, ..copies(vec![again.clone()]) }));
        assert_eq!(bench.hub.directory.get(node(1)).unwrap().record(), again);
        // Over another association nothing is known.
        let other = bench.up(100, Role::SuperNode);
        assert_eq!(bench.say(other, &shift(6, 1, 1)), [(other, retell(6, vec![]))]);
    }

    #[test]
    fn what_is_not_here_any_more_is_asked_for_when_it_moves() {
        let (mut bench, home, _) = standing_by();
        let peer = bench.up(101, Role::SuperNode);
        bench.say(peer, &Message::Claim { node: node(1), version: version(2) });
        assert_eq!(bench.hub.status(bench.now).mirrored, 0);
        assert_eq!(bench.say(home, &shift(2, 2, 1)), [(home, retell(2, vec![0]))]);
    }

    #[test]
    fn a_copy_of_which_the_home_says_nothing_when_it_tells_everything_is_gone() {
        let (mut bench, home, _) = standing_by();
        bench.say(home, &copy(vec![record(2)]));
        let held: Vec<NodeId> = bench.hub.copies.of(node(100)).collect();
        assert_eq!(held, [node(2)]);
    }
}
