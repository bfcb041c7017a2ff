//! The hierarchy: homes below areas below roots, with a delay for every connection.

use crate::*;

/// Delays from a node to its home, from a home to its area, from an area to its root, and between roots or
/// between nodes of different homes.
const ACCESS: Duration = Duration::from_millis(10);
const HOME: Duration = Duration::from_millis(40);
const AREA: Duration = Duration::from_millis(30);
const ROOTS: Duration = Duration::from_millis(20);
const NODES: Duration = Duration::from_millis(100);

/// Three roots; below each of the first two an area of two homes, each with one
/// provider of everything and one requester.
pub(crate) struct HubTree {
    pub(crate) world: World,
    roots: Vec<HostId>,
    pub(crate) areas: Vec<HostId>,
    pub(crate) homes: Vec<HostId>,
    pub(crate) providers: Vec<HostId>,
    pub(crate) requesters: Vec<HostId>,
}

/// The provider of home `n` is far from the others'.
pub(crate) fn place(home: usize) -> Cell {
    Cell::new(100 * home as i32, 5)
}

impl HubTree {
    pub(crate) fn new(seed: u64) -> Self {
        Self::with_layers(seed, 1)
    }

    /// A tree in which so many hubs, less one, may reflect between two homes.
    pub(crate) fn with_layers(seed: u64, layers: u8) -> Self {
        let mut world = World::new(seed);
        world.layers = layers;
        world.path.delay = NODES;
        let first = world.hosts.len();
        let numbers: Vec<HostId> = (first..first + 3).map(HostId).collect();
        let roots: Vec<HostId> = numbers.iter().map(|_| world.hub_below(2, &[], &numbers)).collect();
        for (n, a) in roots.iter().enumerate() {
            for b in &roots[n + 1..] {
                world.delays.insert((*a, *b), ROOTS);
            }
        }
        let areas: Vec<HostId> = (0..2).map(|n| world.hub_below(1, &[roots[n], roots[2]], &[])).collect();
        for (n, area) in areas.iter().enumerate() {
            world.delays.extend([((*area, roots[n]), AREA), ((*area, roots[2]), AREA)]);
        }
        let homes: Vec<HostId> = (0..4).map(|n| world.hub_below(0, &[areas[n / 2]], &[])).collect();
        for (n, home) in homes.iter().enumerate() {
            world.delays.insert((*home, areas[n / 2]), HOME);
        }
        let mut tree = Self { world, roots, areas, homes, providers: Vec::new(), requesters: Vec::new() };
        tree.people();
        tree
    }

    /// A tree with delays that vary, at another moment for every seed.
    fn shaken(seed: u64) -> Self {
        let mut tree = Self::new(seed);
        tree.world.path.spread = MS * (seed as u32 % 10);
        tree.world.run(MS * (seed * 7_919 % 30_000) as u32);
        tree
    }

    fn people(&mut self) {
        for (n, home) in self.homes.clone().into_iter().enumerate() {
            let place = place(n);
            let ends = [
                self.world.node((place.x, place.y), &Service::ALL, &[home]),
                self.world.node((place.x + 1, place.y + 1), &[], &[home]),
            ];
            self.world.delays.extend(ends.map(|end| ((end, home), ACCESS)));
            self.world.delays.insert((ends[0], ends[1]), ACCESS);
            self.providers.push(ends[0]);
            self.requesters.push(ends[1]);
        }
        self.world.run_until_attached();
        // Everybody is older than a lease, and every summary has been told.
        self.world.run(70 * SECOND);
    }

    /// Home `from` asks for what home `to` has.
    fn ask(&mut self, from: usize, to: usize) -> Ticket {
        self.world.request(self.requesters[from], Service::Sensor, Area::Exact(place(to)))
    }

    /// The time to the first byte, when provider and requester know one another already.
    fn warm(&mut self, from: usize, to: usize) -> Duration {
        let first = self.ask(from, to);
        finished(&mut self.world, self.requesters[from], first);
        let second = self.ask(from, to);
        let summary = finished(&mut self.world, self.requesters[from], second);
        assert_eq!(summary.provider, node_id(self.providers[to].0));
        assert!(!summary.relayed, "{summary:?}");
        summary.first_byte
    }

    fn counters(&self, hub: HostId) -> HubCounters {
        self.world.hub_at(hub).counters().clone()
    }

    fn found(&mut self, from: usize, area: Area) -> (Vec<HostId>, Coverage) {
        let requester = self.requesters[from];
        let ticket = self.world.lookup(requester, Service::Track, area);
        match self.world.outcome(requester, ticket) {
            NodeEvent::LookupResult { found, .. } => {
                let of = |node| self.providers.iter().copied().find(|host| node_id(host.0) == node);
                (found.candidates.iter().filter_map(|candidate| of(candidate.node)).collect(), found.coverage)
            }
            other => panic!("{other:?}"),
        }
    }

    /// Silence between the area of a home and all roots.
    fn cut_above(&mut self, home: usize) {
        let area = self.areas[home / 2];
        for root in self.roots.clone() {
            self.world.cut(area, root);
        }
    }
}

#[test]
fn each_tier_adds_one_hop() {
    let mut tree = HubTree::new(1);
    // To the home and on to the provider, who answers the requester directly.
    assert_eq!(tree.warm(0, 0), ACCESS * 3);
    // The request goes one tier up: to the area and down again, before the same direct answer.
    assert_eq!(tree.warm(0, 1), ACCESS * 2 + HOME * 2 + NODES);
    // Over the top: at most one owner in between.
    let over = tree.warm(0, 2);
    let least = ACCESS * 2 + (HOME + AREA) * 2 + NODES;
    assert!(over >= least && over <= least + ROOTS * 2, "{over:?}");
}

#[test]
fn cell_lookup_takes_minimal_hops() {
    let mut tree = HubTree::new(24);
    // Somebody else in the same block, far away: there may be more in the cell.
    let beside = Cell::new(place(1).x - 3, 5);
    tree.world.command(tree.providers[3], NodeCommand::Move(beside.into()));
    tree.world.run(2 * SECOND);
    let mut timed = |from: usize, area| {
        let began = tree.world.now;
        let (found, coverage) = tree.found(from, area);
        (found == [tree.providers[1]], coverage, tree.world.now.since(began))
    };
    let cell = Area::Exact(place(1));
    assert_eq!(timed(1, cell), (true, Coverage::FirstMatch, ACCESS * 2));
    assert_eq!(timed(0, cell), (true, Coverage::FirstMatch, (ACCESS + HOME * 2) * 2));
    let (found, _, took) = timed(2, cell);
    let least = (ACCESS + (HOME + AREA) * 2) * 2;
    assert!(found && took >= least && took <= least + ROOTS * 4, "{took:?}");
    // A lookup of everybody waits for the farthest.
    let (found, coverage, took) = timed(0, Area::Radius { center: place(1), radius: 0 });
    assert!(found && coverage == Coverage::Complete && took >= least, "{took:?}");
}

#[test]
fn all_home_pairs_connect_every_mode() {
    let mut tree = HubTree::new(2);
    for from in 0..4 {
        for to in 0..4 {
            for mode in [RequestMode::Forward, RequestMode::Relay] {
                let requester = tree.requesters[from];
                let area = Area::Exact(place(to));
                let ticket = tree.world.request_with(requester, Service::Image, area, |wanted| wanted.mode = mode);
                let summary = finished(&mut tree.world, requester, ticket);
                assert!(summary.complete && summary.relayed == (mode == RequestMode::Relay), "{from} {to} {summary:?}");
                assert_eq!(summary.provider, node_id(tree.providers[to].0), "{from} {to} {mode:?}");
            }
            assert_eq!(tree.found(from, Area::Exact(place(to))).0, [tree.providers[to]]);
        }
    }
    for provider in tree.providers.clone() {
        let times = tree.world.hosts[provider.0].opened.len();
        assert_eq!(times, 8, "each request was served once");
    }
}

#[test]
fn nearest_in_whole_tree_is_found() {
    let mut tree = HubTree::new(3);
    let all: Vec<HostId> = tree.providers.clone();
    assert_eq!(tree.found(3, Area::Nearest(Cell::new(0, 0))), (all, Coverage::Complete));
    let requester = tree.requesters[3];
    let ticket = tree.world.request(requester, Service::Image, Area::Nearest(Cell::new(0, 0)));
    assert_eq!(finished(&mut tree.world, requester, ticket).provider, node_id(tree.providers[0].0));
    let ticket = tree.world.request(requester, Service::Image, Area::Radius { center: Cell::new(100, 0), radius: 20 });
    assert_eq!(finished(&mut tree.world, requester, ticket).provider, node_id(tree.providers[1].0));
}

#[test]
fn missing_service_is_negatively_cached() {
    let mut tree = HubTree::new(4);
    let nowhere = Area::Exact(Cell::new(-500, -500));
    let requester = tree.requesters[0];
    let sent = |tree: &HubTree| tree.counters(tree.homes[0]).requests_routed;
    let before = sent(&tree);
    for _ in 0..3 {
        let ticket = tree.world.request(requester, Service::Video, nowhere);
        assert_eq!(failed(&mut tree.world, requester, ticket), Reason::NotFound);
    }
    assert_eq!(sent(&tree) - before, 1);
    assert_eq!(tree.found(1, nowhere), (vec![], Coverage::Complete));
    tree.world.run(2 * SECOND);
    let ticket = tree.world.request(requester, Service::Video, nowhere);
    assert_eq!(failed(&mut tree.world, requester, ticket), Reason::NotFound);
    assert_eq!(sent(&tree) - before, 2);
}

#[test]
fn repeated_misses_extend_no_caching() {
    let mut tree = HubTree::new(21);
    let (requester, cell) = (tree.requesters[0], Cell::new(-500, -500));
    let served = |tree: &mut HubTree| {
        let ticket = tree.world.request(requester, Service::Sensor, Area::Exact(cell));
        let outcome = tree.world.outcome(requester, ticket);
        tree.world.run(300 * MS);
        matches!(outcome, NodeEvent::Finished { .. })
    };
    assert!((0..5).all(|_| !served(&mut tree)));
    tree.world.command(tree.providers[3], NodeCommand::Move(cell.into()));
    let moved = tree.world.now;
    while !served(&mut tree) {
        // The second, three batches of summaries and the way.
        assert!(tree.world.now.since(moved) < 2 * SECOND, "still none");
    }
}

#[test]
fn cut_turns_not_found_into_unreachable() {
    let mut tree = HubTree::new(22);
    let (requester, cell) = (tree.requesters[0], Cell::new(-500, -500));
    let ask = |tree: &mut HubTree| {
        let ticket = tree.world.request(requester, Service::Sensor, Area::Exact(cell));
        failed(&mut tree.world, requester, ticket)
    };
    assert_eq!(ask(&mut tree), Reason::NotFound);
    tree.world.cut(tree.homes[0], tree.areas[0]);
    tree.world.break_connections(tree.homes[0], tree.areas[0]);
    tree.world.run(100 * MS);
    assert_eq!(ask(&mut tree), Reason::UnreachableAbove);
    assert_eq!(tree.found(0, Area::Exact(cell)), (vec![], Coverage::UnreachableAbove));
}

#[test]
fn slower_hub_path_gets_more_time() {
    let mut tree = HubTree::new(23);
    for home in 0..4 {
        tree.world.delays.insert((tree.homes[home], tree.areas[home / 2]), 600 * MS);
    }
    tree.world.run(20 * SECOND);
    let before = tree.counters(tree.homes[0]).hop_timeouts;
    let ticket = tree.ask(0, 2);
    assert!(finished(&mut tree.world, tree.requesters[0], ticket).complete);
    assert_eq!(tree.counters(tree.homes[0]).hop_timeouts, before, "nobody was silent");
}

#[test]
fn isolated_area_serves_itself() {
    for_seeds(2, |seed| {
        let silent = seed % 2 == 0;
        let mut tree = HubTree::shaken(seed);
        tree.cut_above(0);
        if !silent {
            for root in tree.roots.clone() {
                tree.world.break_connections(tree.areas[0], root);
            }
            tree.world.run(SECOND);
        }
        for _ in 0..20 {
            let tickets = [(0, 0), (0, 1), (1, 0), (1, 1)].map(|(from, to)| (from, tree.ask(from, to)));
            let away = tree.ask(0, 3);
            for (from, ticket) in tickets {
                let summary = finished(&mut tree.world, tree.requesters[from], ticket);
                assert!(summary.complete && summary.first_byte < SECOND, "{summary:?}");
            }
            assert_eq!(failed(&mut tree.world, tree.requesters[0], away), Reason::UnreachableAbove);
            tree.world.run(SECOND);
        }
        let (found, coverage) = tree.found(0, Area::Nearest(Cell::new(0, 0)));
        assert_eq!((found, coverage), (tree.providers[..2].to_vec(), Coverage::UnreachableAbove));
        tree.world.heal();
        tree.world.run(40 * SECOND);
        let ticket = tree.ask(0, 3);
        assert!(finished(&mut tree.world, tree.requesters[0], ticket).complete);
    });
}

#[test]
fn second_parent_bypasses_frozen_area() {
    let mut tree = HubTree::new(6);
    let second = tree.areas[1];
    let home = tree.world.hub_below(0, &[tree.areas[0], second], &[]);
    tree.world.delays.extend([((home, tree.areas[0]), HOME), ((home, second), HOME)]);
    let requester = tree.world.node((7, 7), &[], &[home]);
    tree.world.delays.insert((requester, home), ACCESS);
    tree.world.run_until_attached();
    tree.world.run(70 * SECOND);
    tree.world.freeze(tree.areas[0]);
    let ticket = tree.world.request(requester, Service::Sensor, Area::Exact(place(2)));
    let summary = finished(&mut tree.world, requester, ticket);
    // Two round trips to the first parent and a little, then the way by the
    // second one; the provider still has to dial.
    let limit = HOME * 4 + 50 * MS + ACCESS * 2 + HOME * 2 + NODES * 7;
    assert!(summary.first_byte < limit, "{:?}, not within {limit:?}", summary.first_byte);
    let opened = tree.world.hosts[tree.providers[2].0].opened.len();
    assert_eq!(opened, 1);
}

#[test]
fn requests_survive_dead_roots() {
    for_seeds(2, |seed| {
        let freeze = seed % 2 == 0;
        for dead in [vec![0], vec![1], vec![2], vec![0, 1]] {
            let mut tree = HubTree::shaken(seed);
            for root in &dead {
                let root = tree.roots[*root];
                if freeze { tree.world.freeze(root) } else { tree.world.kill(root) }
            }
            // Connections to the dead are given up, and their blocks have new owners.
            tree.world.run(40 * SECOND);
            for (from, to) in [(0, 1), (0, 2), (3, 1), (2, 3)] {
                let ticket = tree.ask(from, to);
                let summary = finished(&mut tree.world, tree.requesters[from], ticket);
                assert!(summary.complete, "{dead:?}: {from} {to} {summary:?}");
            }
        }
    });
}

#[test]
fn frozen_root_delays_request_little() {
    for_seeds(3, |seed| {
        let dead = seed as usize % 3;
        let mut tree = HubTree::shaken(seed);
        tree.world.freeze(tree.roots[dead]);
        for (from, to) in [(0, 2), (1, 3), (3, 0)] {
            let ticket = tree.ask(from, to);
            let summary = finished(&mut tree.world, tree.requesters[from], ticket);
            assert!(summary.complete && summary.first_byte < 1500 * MS, "{dead}: {from} {to} {summary:?}");
        }
    });
}

#[test]
fn requests_cross_lossy_tree() {
    for_seeds(3, |seed| {
        let mut tree = HubTree::shaken(seed);
        tree.world.path.loss = 50;
        tree.world.path.spread = 10 * MS;
        for _ in 0..3 {
            let pairs: Vec<(usize, usize)> = (0..16).map(|n| (n / 4, n % 4)).collect();
            let tickets: Vec<(usize, Ticket)> =
                pairs.into_iter().map(|(from, to)| (from, tree.ask(from, to))).collect();
            for (from, ticket) in tickets {
                let requester = tree.requesters[from];
                let summary = finished(&mut tree.world, requester, ticket);
                assert!(summary.complete, "seed {seed}: {summary:?}");
                assert_eq!(tree.world.hosts[requester.0].endings(ticket).count(), 1, "seed {seed}");
            }
        }
    });
}

#[test]
fn young_tree_answers_not_yet_known() {
    let mut tree = HubTree::new(10);
    let provider = tree.providers[3];
    tree.world.kill(provider);
    let root = tree.roots[0];
    tree.world.kill(root);
    tree.world.revive_hub(root);
    tree.world.run(40 * SECOND);
    let ticket = tree.ask(0, 3);
    let reason = failed(&mut tree.world, tree.requesters[0], ticket);
    assert!(matches!(reason, Reason::NotYetKnown | Reason::Unreachable), "{reason:?}");
}

#[test]
fn move_inside_block_sends_no_summary() {
    let mut tree = HubTree::new(11);
    let home = tree.homes[0];
    let before = tree.counters(home);
    for step in 0..30 {
        let cell = Cell::new(step % 4, 5 - step % 2);
        tree.world.command(tree.providers[0], NodeCommand::Move(cell.into()));
        tree.world.run(SECOND);
    }
    let after = tree.counters(home);
    assert_eq!(after.publishes - before.publishes, 30);
    // At most one round of the summaries falls into half a minute: once in a lease all is told anyway.
    assert!(after.summaries_sent - before.summaries_sent <= 1);
    assert_eq!(tree.found(3, Area::Exact(Cell::new(1, 4))).0, [tree.providers[0]]);
}

/// The last place of a node that a watcher was told, and when.
fn seen(tree: &HubTree, watcher: HostId, node: HostId) -> Option<(Time, Cell)> {
    let events = tree.world.events(watcher).iter().rev();
    events.clone().find_map(|(at, event)| match event {
        NodeEvent::Changed { change, .. } => {
            let of = |candidate: &&Candidate| candidate.node == node_id(node.0);
            change.updated.iter().find(of).map(|candidate| (*at, candidate.cell))
        }
        _ => None,
    })
}

#[test]
fn watch_sees_moves_across_tree() {
    let mut tree = HubTree::new(12);
    let watcher = tree.requesters[0];
    let ticket = tree.world.ticket(watcher);
    let area = Area::rectangle(Cell::new(-1_000, -1_000), Cell::new(1_000, 1_000));
    tree.world.command(watcher, NodeCommand::Watch { ticket, services: ServiceSet::ALL, area, names: false });
    tree.world.run(2 * SECOND);
    let path = [ACCESS * 2, ACCESS * 2 + HOME * 2, ACCESS * 2 + (HOME + AREA) * 2 + ROOTS * 2];
    for (home, path) in [(0, path[0]), (1, path[1]), (2, path[2]), (3, path[2])] {
        let node = tree.providers[home];
        assert!(seen(&tree, watcher, node).is_some(), "{home}");
        // The provider goes one step in its block, then far away, to where nobody was.
        for x in [1, 40, 44, 80] {
            let cell = Cell::new(place(home).x + x, 7);
            let began = tree.world.now;
            tree.world.command(node, NodeCommand::Move(cell.into()));
            let there = |world: &World| world.now.since(began) > 10 * SECOND;
            tree.world.run_while(SECOND, there);
            let (at, told) = seen(&tree, watcher, node).unwrap();
            assert_eq!(told, cell, "home {home}");
            let took = at.since(began);
            assert!(took <= path + 500 * MS, "home {home}: {took:?}, the path is {path:?}");
        }
    }
}

#[test]
fn watch_sees_arrival_in_empty_area() {
    let mut tree = HubTree::new(13);
    let watcher = tree.requesters[0];
    let ticket = tree.world.ticket(watcher);
    let area = Area::rectangle(Cell::new(3_000, 0), Cell::new(3_100, 100));
    tree.world.command(watcher, NodeCommand::Watch { ticket, services: ServiceSet::ALL, area, names: false });
    tree.world.run(2 * SECOND);
    let began = tree.world.now;
    let cell = Cell::new(3_050, 50);
    tree.world.command(tree.providers[3], NodeCommand::Move(cell.into()));
    tree.world.run(2 * SECOND);
    let (at, told) = seen(&tree, watcher, tree.providers[3]).unwrap();
    assert_eq!(told, cell);
    // The news goes up at once; the watch comes down to meet it, and the
    // answer goes the whole way.
    let path = ACCESS * 2 + (HOME + AREA) * 2 * 2 + ROOTS * 2;
    let took = at.since(began);
    assert!(took <= path + 500 * MS, "{took:?}, the path is {path:?}");
}

#[test]
fn hubs_know_their_relations() {
    let tree = HubTree::new(14);
    let relations = |hub: HostId| {
        let status = tree.world.hub_at(hub).status(tree.world.now);
        assert!(!status.cut_off);
        status.hubs.iter().map(|hub| (hub.node.unwrap(), hub.relation)).collect::<Vec<_>>()
    };
    assert_eq!(relations(tree.homes[0]), [(node_id(tree.areas[0].0), Relation::Parent)]);
    let area = relations(tree.areas[0]);
    assert_eq!(area.iter().filter(|(_, relation)| *relation == Relation::Child(0)).count(), 2);
    assert_eq!(area.iter().filter(|(_, relation)| *relation == Relation::Parent).count(), 2);
    assert_eq!(relations(tree.roots[2]).len(), 4);
}

/// True if a hub lists a node as its own or another hub's.
fn lists(tree: &HubTree, hub: HostId, node: HostId) -> bool {
    let index = tree.world.hub_at(hub).index(tree.world.now, None, 100);
    index.iter().any(|entry| entry.node == node_id(node.0))
}

#[test]
fn moved_node_leaves_no_stale_record() {
    let mut tree = HubTree::new(24);
    let (old, new) = (tree.homes[0], tree.homes[3]);
    // The two homes know one another by the tree only.
    tree.world.cut(old, new);
    let place = |y| Cell::new(5, y);
    let traveller = tree.world.node((5, 700), &[Service::Track], &[old, new]);
    tree.world.delays.extend([((traveller, old), ACCESS), ((traveller, new), ACCESS)]);
    tree.world.run_until_attached();
    let watcher = tree.requesters[2];
    let ticket = tree.world.ticket(watcher);
    let area = Area::Radius { center: place(700), radius: 3 };
    tree.world.command(watcher, NodeCommand::Watch { ticket, services: ServiceSet::ALL, area, names: false });
    tree.world.run(5 * SECOND);
    tree.world.cut(traveller, old);
    tree.world.break_connections(traveller, old);
    tree.world.command(traveller, NodeCommand::Move(place(900).into()));
    assert!(tree.world.run_while(10 * SECOND, |world| world.home(traveller) == Some(new)));
    tree.world.run(500 * MS + (ACCESS + HOME + AREA) * 2 + ROOTS * 2);
    assert!(!lists(&tree, old, traveller), "the old home has let go");
    let gone = tree.world.events(watcher).iter().any(
        |(_, event)| matches!(event, NodeEvent::Changed { change, .. } if change.removed.contains(&node_id(traveller.0))),
    );
    assert!(gone, "who watches the old place has been told");
    let found = |tree: &mut HubTree, y| {
        let ticket = tree.world.lookup(watcher, Service::Track, Area::Exact(place(y)));
        match tree.world.outcome(watcher, ticket) {
            NodeEvent::LookupResult { found, .. } => found.candidates.len(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!((found(&mut tree, 700), found(&mut tree, 900)), (0, 1));
}

#[test]
fn home_reaches_named_standby_anywhere() {
    for standby in [1, 3] {
        for freeze in [false, true] {
            let mut tree = HubTree::new(25);
            let (home, second) = (tree.homes[0], tree.homes[standby]);
            let node = tree.world.node((5, 700), &[Service::Sensor], &[home, second]);
            tree.world.delays.extend([((node, home), ACCESS), ((node, second), ACCESS)]);
            tree.world.run_until_attached();
            tree.world.run(10 * SECOND);
            assert_eq!(tree.world.hub_at(second).status(tree.world.now).replicas, 1);
            if freeze {
                tree.world.freeze(home)
            } else {
                tree.world.kill(home)
            }
            tree.world.run(60 * SECOND);
            let counters = tree.counters(second);
            assert_eq!((tree.world.home(node), counters.adoptions), (Some(second), 1), "{standby} {freeze}");
            let requester = tree.requesters[2];
            let ticket = tree.world.request(requester, Service::Sensor, Area::Exact(Cell::new(5, 700)));
            assert!(finished(&mut tree.world, requester, ticket).complete);
        }
    }
}
