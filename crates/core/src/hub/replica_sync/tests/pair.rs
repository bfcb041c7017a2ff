//! A home and its standby on the bench, their nodes, and the connections
//! between the two, to which anything happens, from a seed.

use std::collections::BTreeMap;
use std::collections::VecDeque;

use roost_wire::random::SplitMix64;

use crate::hub::testing::*;

pub(super) const HOME: u8 = 200;
pub(super) const STANDBY: u8 = 201;
/// Another super node, which nodes name at times.
const OTHER: u8 = 202;
const NODES: u8 = 6;
/// All copies end with it, if nobody speaks meanwhile.
pub(super) const JUMP: Duration = Duration::from_secs(300);

/// A connection: its connections, and what is on the way to either end.
pub(super) struct PairConnection {
    home: ConnectionId,
    standby: ConnectionId,
    to_home: VecDeque<Message>,
    pub(super) to_standby: VecDeque<Message>,
    /// True if nothing arrives for now, which neither end knows.
    pub(super) stuck: bool,
}

pub(super) struct Pair {
    pub(super) home: Bench,
    pub(super) standby: Bench,
    /// The oldest first; at most two.
    pub(super) ways: Vec<PairConnection>,
    random: SplitMix64,
    /// The nodes' connections to their home, and what each said last.
    pub(super) nodes: BTreeMap<u8, (ConnectionId, Record)>,
    /// All that was ever said.
    said: BTreeMap<(NodeId, Version), Record>,
    /// The greatest version that the standby has had of each since the node
    /// came to this home and the standby to life.
    had: BTreeMap<NodeId, Version>,
    sequence: u32,
}

/// A position near the one before, in whole steps of a move; now and then too far for one, or none.
fn moved(from: Option<ExactPosition>, x: i32, y: i32) -> Option<ExactPosition> {
    let (lat, lon) = from.map_or((47.0, 179.999_9), |from| (from.at.lat(), from.at.lon()));
    let step = if x == y { 0.2 } else { 0.000_1 };
    let lon = (lon + step * f64::from(x) + 180.0).rem_euclid(360.0) - 180.0;
    let at = LatLon::new((lat + step * f64::from(y)).clamp(-80.0, 80.0), lon).ok()?;
    (x != 2).then(|| ExactPosition { accuracy_m: Some(5.0), ..ExactPosition::new(at) }.rounded())
}

fn config(number: u8) -> HubConfig {
    HubConfig::new(node(number), HubKind::SuperNode, u64::from(number))
}

impl Pair {
    /// Two hubs that have been up for long, and a connection.
    pub(super) fn new(seed: u64) -> Self {
        let (home, standby) = (Bench::with(config(HOME)), Bench::with(config(STANDBY)));
        let (nodes, said, had) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let random = SplitMix64::new(seed);
        let mut pair = Self { home, standby, ways: Vec::new(), random, nodes, said, had, sequence: 0 };
        pair.connect();
        pair
    }

    /// A pair and nodes from 1 on that have named the standby.
    pub(super) fn with_nodes(count: u8) -> Self {
        let mut pair = Self::new(1);
        for number in 1..=count {
            pair.publish(number, |last| last);
            pair.name(number, STANDBY);
        }
        pair.wait(Duration::from_secs(1), true);
        assert_eq!(pair.copies().len(), usize::from(count));
        pair
    }

    pub(super) fn below(&mut self, limit: u64) -> u64 {
        self.random.below(limit)
    }

    pub(super) fn connect(&mut self) {
        let (home, standby) = (self.home.up(STANDBY, Role::SuperNode), self.standby.up(HOME, Role::SuperNode));
        let (to_home, to_standby) = (VecDeque::new(), VecDeque::new());
        self.ways.push(PairConnection { home, standby, to_home, to_standby, stuck: false });
    }

    /// All on the way is lost with the connection.
    pub(super) fn disconnect(&mut self, index: usize) {
        if index < self.ways.len() {
            let way = self.ways.remove(index);
            let sent = self.home.down(way.home);
            self.send(sent, false);
            let sent = self.standby.down(way.standby);
            self.send(sent, true);
        }
    }

    /// The home starts again, and knows nobody until they come.
    pub(super) fn restart_home(&mut self) {
        self.ways.clear();
        self.home = Bench::young(config(HOME));
        self.nodes.clear();
        self.hang_up_on(HOME);
        self.connect();
    }

    fn restart_standby(&mut self) {
        self.ways.clear();
        self.standby = Bench::young(config(STANDBY));
        self.had.clear();
        self.hang_up_on(STANDBY);
        self.connect();
    }

    /// Whoever is left notices that the other has gone.
    fn hang_up_on(&mut self, number: u8) {
        let bench = if number == HOME { &mut self.standby } else { &mut self.home };
        for connection in bench.hub.core.remotes.connections_of(node(number)).to_vec() {
            bench.down(connection);
        }
    }

    /// The standby's clock is ahead all of a sudden, when it hears the home.
    pub(super) fn jump(&mut self) {
        self.standby.now = self.standby.now + JUMP;
        for connection in self.ways.iter().filter(|way| !way.stuck).map(|way| way.standby).collect::<Vec<_>>() {
            let sent = self.standby.say(connection, ProbeMessage::Pong(0));
            self.send(sent, true);
        }
    }

    fn say(&mut self, connection: ConnectionId, message: impl Into<Message>) {
        let sent = self.home.say(connection, message);
        self.send(sent, false);
    }

    /// The words of one hub go to the other, over the connection it took.
    fn send(&mut self, sent: Vec<(ConnectionId, Message)>, to_home: bool) {
        for (connection, message) in sent {
            let own = |way: &&mut PairConnection| connection == if to_home { way.standby } else { way.home };
            if let Some(way) = self.ways.iter_mut().find(own) {
                let queue = if to_home { &mut way.to_home } else { &mut way.to_standby };
                queue.push_back(message);
            }
        }
    }

    fn deliver(&mut self, to_home: bool) -> bool {
        let coming = self.ways.iter_mut().filter(|way| !way.stuck).find_map(|way| match to_home {
            true => Some((way.home, way.to_home.pop_front()?)),
            false => Some((way.standby, way.to_standby.pop_front()?)),
        });
        let Some((connection, message)) = coming else { return false };
        let bench = if to_home { &mut self.home } else { &mut self.standby };
        let sent = bench.say(connection, message);
        self.send(sent, !to_home);
        true
    }

    /// Lets time pass; what is on the way arrives if `all` does.
    pub(super) fn wait(&mut self, span: Duration, all: bool) {
        let sent = self.home.wait(span);
        self.send(sent, false);
        let sent = self.standby.wait(span);
        self.send(sent, true);
        while all && (self.deliver(false) || self.deliver(true)) {}
        self.notice_ends();
    }

    /// A connection that one end has closed ends at the other one, too.
    fn notice_ends(&mut self) {
        let (home, standby) = (std::mem::take(&mut self.home.closed), std::mem::take(&mut self.standby.closed));
        let closed =
            |closed: &[(ConnectionId, String)], connection| closed.iter().any(|(other, _)| *other == connection);
        while let Some(index) =
            self.ways.iter().position(|way| closed(&home, way.home) || closed(&standby, way.standby))
        {
            self.disconnect(index);
        }
    }

    /// A node says something of itself, from afar if it is not here yet.
    pub(super) fn publish(&mut self, number: u8, change: impl FnOnce(Record) -> Record) {
        self.sequence += 1;
        let version = Version { epoch: 1, sequence: self.sequence };
        let (connection, last) = match self.nodes.get(&number) {
            Some((connection, last)) => (*connection, last.clone()),
            None => (self.home.up(number, Role::Node), record(number)),
        };
        let new = Record { version, ..change(last) };
        self.said.insert((new.node, version), new.clone());
        self.nodes.insert(number, (connection, new.clone()));
        self.say(connection, RegistrationMessage::Publish(new));
    }

    pub(super) fn withdraw(&mut self, number: u8) {
        if let Some((connection, last)) = self.nodes.remove(&number) {
            self.had.remove(&last.node);
            self.say(connection, RegistrationMessage::Withdraw(last.version));
            self.home.down(connection);
        }
    }

    pub(super) fn name(&mut self, number: u8, hub: u8) {
        if let Some((connection, _)) = self.nodes.get(&number) {
            self.say(*connection, RegistrationMessage::SetStandby { hub: node(hub), addresses: None });
        }
    }

    /// A node does something at random.
    pub(super) fn node_acts(&mut self) {
        let number = 1 + self.below(u64::from(NODES)) as u8;
        let (x, y) = (self.below(5) as i32 - 2, self.below(5) as i32 - 2);
        match self.below(10) {
            0 => self.publish(number, |last| Record { addresses: vec![address(x.unsigned_abs() as u8)], ..last }),
            1 => {
                let services = if x > 0 { ServiceSet::ALL } else { [Service::Track].into_iter().collect() };
                self.publish(number, |last| Record { services, ..last });
            }
            2 | 3 => {
                let Some((connection, last)) = self.nodes.get(&number).cloned() else { return };
                let capacity = Some(Capacity { streams: x.unsigned_abs() as u16, uplink_kbps: 9 });
                self.say(connection, RegistrationMessage::Renew(Renew { version: last.version, capacity }));
            }
            4 => self.withdraw(number),
            5 | 6 => self.name(number, if x == 2 { OTHER } else { STANDBY }),
            7 => self.publish(number, |last| Record { position: moved(last.position, x, y), ..last }),
            _ => self.publish(number, |last| Record {
                cell: Cell::new(last.cell.x + x, last.cell.y + y),
                position: last.position.and_then(|from| moved(Some(from), x, y)),
                ..last
            }),
        }
    }

    /// Something happens to the messages of the two, or to one of the two.
    pub(super) fn fate(&mut self) {
        let which = self.below(2) as usize;
        match self.below(14) {
            0 => {
                self.disconnect(0);
                self.connect();
            }
            1 => self.disconnect(which),
            2 if self.ways.len() < 2 => self.connect(),
            3 => self.restart_standby(),
            // The nodes come back by themselves.
            4 => self.restart_home(),
            5 | 6 => drop(self.ways.get_mut(which).and_then(|way| way.to_standby.pop_front())),
            7 => drop(self.ways.get_mut(which).and_then(|way| way.to_home.pop_front())),
            8 => self.claim_in_vain(),
            9 => self.jump(),
            10 | 11 => self.ways.iter_mut().take(1).for_each(|way| way.stuck = true),
            12 => self.unstick(),
            _ => {}
        }
    }

    pub(super) fn unstick(&mut self) {
        self.ways.iter_mut().for_each(|way| way.stuck = false);
    }

    /// Somebody tells the standby that a node is there, and is not believed for long.
    fn claim_in_vain(&mut self) {
        let number = 1 + self.below(u64::from(NODES)) as u8;
        let version = Version { epoch: 1, sequence: self.sequence + 1 };
        let other = self.standby.up(OTHER, Role::SuperNode);
        self.standby.say(other, HierarchyMessage::Claim { node: node(number), version });
        self.standby.down(other);
        self.had.remove(&node(number));
    }

    /// Replicas that the standby has of the home.
    pub(super) fn copies(&self) -> Vec<Record> {
        let records = self.standby.hub.registry.records();
        let held = records.directory().entries_after(None);
        held.filter(|entry| records.home_of(entry.node()) == Some(node(HOME))).map(|entry| entry.record()).collect()
    }

    /// Records that the home holds and that are to be there.
    pub(super) fn originals(&self) -> Vec<Record> {
        let hub = &self.home.hub;
        let named = hub.replication.nodes_of(node(STANDBY));
        named.into_iter().filter_map(|node| Some(hub.registry.records().get(node)?.record())).collect()
    }

    /// Nobody is told of what was never so, and nothing goes back.
    pub(super) fn check(&mut self) {
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
    pub(super) fn live(&mut self) {
        for (connection, last) in self.nodes.values().cloned().collect::<Vec<_>>() {
            self.say(connection, RegistrationMessage::Renew(Renew { version: last.version, capacity: None }));
        }
    }
}
