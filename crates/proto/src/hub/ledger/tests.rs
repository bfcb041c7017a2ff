//! A home and its stand-by, whatever happens to nodes, words and associations:
//! the stand-by never believes what no node has said, and in the end has what
//! the home has.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use proptest::prelude::*;

use crate::grid::Cell;
use crate::hub::testing::{Bench, address, node, record};
use crate::hub::{Config, Kind};
use crate::ids::{LinkId, NodeId};
use crate::random::SplitMix64;
use crate::record::{Capacity, Record, Version};
use crate::service::{Role, Service, ServiceSet};
use crate::wire::{Message, Renew};

const HOME: u8 = 200;
const STANDBY: u8 = 201;
/// Another super node, which nodes name at times.
const OTHER: u8 = 202;
const NODES: u8 = 6;

/// One end of the association: a hub, its link, and what is on the way to it.
struct End {
    bench: Bench,
    link: LinkId,
    coming: VecDeque<Message>,
}

impl End {
    fn new(number: u8) -> Self {
        let config = Config::new(node(number), Kind::SuperNode, u64::from(number));
        Self { bench: Bench::with(config), link: LinkId(0), coming: VecDeque::new() }
    }
}

struct Pair {
    home: End,
    standby: End,
    is_up: bool,
    random: SplitMix64,
    /// The nodes' links to their home, and what each said last.
    nodes: BTreeMap<u8, (LinkId, Record)>,
    /// All that was ever said.
    said: BTreeMap<(NodeId, Version), Record>,
    /// The greatest version that the stand-by has had of each since the node
    /// came to this home and the stand-by to life.
    had: BTreeMap<NodeId, Version>,
    sequence: u32,
}

impl Pair {
    fn new(seed: u64) -> Self {
        let (home, standby) = (End::new(HOME), End::new(STANDBY));
        let (nodes, said, had) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let mut pair =
            Self { home, standby, is_up: false, random: SplitMix64::new(seed), nodes, said, had, sequence: 0 };
        pair.connect();
        pair
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.random.below(limit)
    }

    fn connect(&mut self) {
        self.disconnect();
        self.home.link = self.home.bench.up(STANDBY, Role::SuperNode);
        self.standby.link = self.standby.bench.up(HOME, Role::SuperNode);
        self.is_up = true;
    }

    /// What is on the way is lost with the association.
    fn disconnect(&mut self) {
        if std::mem::take(&mut self.is_up) {
            for end in [&mut self.home, &mut self.standby] {
                end.bench.down(end.link);
                end.coming.clear();
            }
        }
    }

    fn say(&mut self, link: LinkId, message: &Message) {
        let sent = self.home.bench.say(link, message);
        self.send(sent, false);
    }

    /// What one hub has said goes to the other.
    fn send(&mut self, sent: Vec<(LinkId, Message)>, to_home: bool) {
        let (from, to) = match to_home {
            true => (&self.standby, &mut self.home),
            false => (&self.home, &mut self.standby),
        };
        let over = sent.into_iter().filter(|(link, _)| self.is_up && *link == from.link);
        to.coming.extend(over.map(|(_, message)| message));
    }

    fn deliver(&mut self, to_home: bool) -> bool {
        let end = if to_home { &mut self.home } else { &mut self.standby };
        let Some(message) = end.coming.pop_front() else { return false };
        let sent = end.bench.say(end.link, &message);
        self.send(sent, !to_home);
        true
    }

    /// Lets time pass; what is on the way arrives if `all` does.
    fn wait(&mut self, span: Duration, all: bool) {
        let sent = self.home.bench.wait(span);
        self.send(sent, false);
        let sent = self.standby.bench.wait(span);
        self.send(sent, true);
        while all && (self.deliver(false) || self.deliver(true)) {}
    }

    /// A node says something of itself, from afar if it is not here yet.
    fn publish(&mut self, number: u8, change: impl FnOnce(Record) -> Record) {
        self.sequence += 1;
        let version = Version { epoch: 1, sequence: self.sequence };
        let (link, last) = match self.nodes.get(&number) {
            Some((link, last)) => (*link, last.clone()),
            None => (self.home.bench.up(number, Role::Node), record(number)),
        };
        let new = Record { version, ..change(last) };
        self.said.insert((new.node, version), new.clone());
        self.nodes.insert(number, (link, new.clone()));
        self.say(link, &Message::Publish(new));
    }

    /// One thing that happens to a node.
    fn node_acts(&mut self) {
        let number = 1 + self.below(u64::from(NODES)) as u8;
        let (x, y) = (self.below(5) as i32 - 2, self.below(5) as i32 - 2);
        match self.below(10) {
            0 => self.publish(number, |last| Record { addresses: vec![address(x.unsigned_abs() as u8)], ..last }),
            1 => {
                let services = if x > 0 { ServiceSet::ALL } else { [Service::Track].into_iter().collect() };
                self.publish(number, |last| Record { services, ..last });
            }
            2 | 3 => {
                let Some((link, last)) = self.nodes.get(&number).cloned() else { return };
                let capacity = Some(Capacity { streams: x.unsigned_abs() as u16, uplink_kbps: 9 });
                self.say(link, &Message::Renew(Renew { version: last.version, capacity }));
            }
            4 => {
                let Some((link, last)) = self.nodes.remove(&number) else { return };
                self.had.remove(&last.node);
                self.say(link, &Message::Withdraw(last.version));
                self.home.bench.down(link);
            }
            5 | 6 => {
                let Some((link, _)) = self.nodes.get(&number).cloned() else { return };
                let hub = node(if x == 2 { OTHER } else { STANDBY });
                self.say(link, &Message::StandBy { hub, addresses: None });
            }
            _ => self.publish(number, |last| Record { cell: Cell::new(last.cell.x + x, last.cell.y + y), ..last }),
        }
    }

    /// One thing that happens to what the two say, or to one of them.
    fn fate(&mut self) {
        match self.below(12) {
            0 => self.connect(),
            1 => self.disconnect(),
            2 => {
                self.disconnect();
                self.standby = End::new(STANDBY);
                self.had.clear();
            }
            3 => {
                self.disconnect();
                self.home = End::new(HOME);
                // The nodes come back by themselves.
                self.nodes.clear();
            }
            4 | 5 => drop(self.standby.coming.pop_front()),
            6 => drop(self.home.coming.pop_front()),
            7 => {
                // Somebody says that a node is there, and is not believed for long.
                let number = 1 + self.below(u64::from(NODES)) as u8;
                let version = Version { epoch: 1, sequence: self.sequence + 1 };
                let other = self.standby.bench.up(OTHER, Role::SuperNode);
                self.standby.bench.say(other, &Message::Claim { node: node(number), version });
                self.standby.bench.down(other);
                self.had.remove(&node(number));
            }
            _ => {}
        }
    }

    /// What the stand-by has of the home.
    fn copies(&self) -> Vec<Record> {
        let hub = &self.standby.bench.hub;
        hub.copies.of(node(HOME)).filter_map(|node| Some(hub.directory.get(node)?.record())).collect()
    }

    /// What of it the home holds and is to be there.
    fn originals(&self) -> Vec<Record> {
        let hub = &self.home.bench.hub;
        let named = hub.mirror.nodes_of(node(STANDBY));
        named.into_iter().filter_map(|node| Some(hub.directory.get(node)?.record())).collect()
    }

    /// Nobody is told of what was never so, and nothing goes back.
    fn check(&mut self) {
        for copy in self.copies() {
            let said = self.said.get(&(copy.node, copy.version));
            let same = said.map(|said| Record { capacity: copy.capacity, ..said.clone() });
            assert_eq!(same.as_ref(), Some(&copy));
            let had = self.had.entry(copy.node).or_insert(copy.version);
            assert!(*had <= copy.version, "{copy:?} after {had:?}");
            *had = copy.version;
        }
    }

    /// The nodes show that they live.
    fn live(&mut self) {
        for (link, last) in self.nodes.values().cloned().collect::<Vec<_>>() {
            self.say(link, &Message::Renew(Renew { version: last.version, capacity: None }));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn a_stand_by_ends_with_what_the_home_has(seed in any::<u64>()) {
        let mut pair = Pair::new(seed);
        for _ in 0..150 {
            pair.node_acts();
            if pair.below(8) == 0 {
                pair.fate();
            }
            let (pause, all) = (Duration::from_millis(pair.below(1_000)), pair.below(3) > 0);
            pair.wait(pause, all);
            pair.live();
            pair.check();
        }
        pair.fate();
        if !pair.is_up {
            pair.connect();
        }
        // Whoever was claimed by others in vain is heard of when it moves.
        for number in pair.nodes.keys().copied().collect::<Vec<_>>() {
            pair.publish(number, |last| last);
        }
        // A home that has come back says nothing of whom it does not know: a lease.
        for _ in 0..65 {
            pair.wait(Duration::from_secs(1), true);
            pair.live();
            pair.check();
        }
        prop_assert_eq!(pair.copies(), pair.originals());
    }
}
