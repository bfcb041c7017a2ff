//! Client/server with caches: lookups are answered near, all else by the server.
//!
//! `ROOST_SEEDS=1000` runs the last one for so many seeds.

use std::collections::BTreeMap;

use crate::*;

/// Delays from a node to its cache, and from there, or from a node without a cache, to the server.
const ACCESS: Duration = Duration::from_millis(10);
const FAR: Duration = Duration::from_millis(300);

/// A server with a node of its own, and two caches with two nodes each. The
/// first of each offers everything.
struct CacheScene {
    world: World,
    server: HostId,
    caches: [HostId; 2],
    providers: [HostId; 3],
    requesters: [HostId; 2],
}

/// The last place is the server's.
fn place(provider: usize) -> Cell {
    Cell::new(100 * provider as i32, 5)
}

impl CacheScene {
    fn new(seed: u64) -> Self {
        let mut world = World::new(seed);
        world.path.delay = FAR;
        let server = world.hub(Role::Server);
        let caches = [world.cache(server), world.cache(server)];
        let mut node = |n: usize, services: &[Service]| {
            let hubs = if n < 2 { vec![caches[n], server] } else { vec![server] };
            let node = world.node((place(n).x, place(n).y), services, &hubs);
            world.delays.insert((node, hubs[0]), if n < 2 { ACCESS } else { FAR });
            node
        };
        let providers = [0, 1, 2].map(|n| node(n, &Service::ALL));
        let requesters = [0, 1].map(|n| node(n, &[]));
        world.run_until_attached();
        world.run(70 * SECOND);
        Self { world, server, caches, providers, requesters }
    }

    fn counters(&self, hub: HostId) -> &HubCounters {
        self.world.hub_at(hub).counters()
    }

    /// The answer to the first requester, how far it reaches, and how long it took.
    fn look_for(&mut self, area: Area) -> (Vec<NodeId>, Coverage, Duration) {
        let (requester, began) = (self.requesters[0], self.world.now);
        let ticket = self.world.lookup(requester, Service::Track, area);
        match self.world.outcome(requester, ticket) {
            NodeEvent::LookupResult { found, .. } => {
                let nodes = found.candidates.iter().map(|candidate| candidate.node).collect();
                (nodes, found.coverage, self.world.now - began)
            }
            other => panic!("{other:?}"),
        }
    }

    fn found(&mut self, area: Area) -> Vec<NodeId> {
        self.look_for(area).0
    }

    fn id(&self, provider: usize) -> NodeId {
        node_id(self.providers[provider].0)
    }

    /// True if the first requester gets a reading from this place.
    fn is_served(&mut self, at: Cell) -> Result<(), Reason> {
        let requester = self.requesters[0];
        let ticket = self.world.request(requester, Service::Sensor, Area::Exact(at));
        match self.world.outcome(requester, ticket) {
            NodeEvent::Finished { summary, .. } => {
                assert!(summary.complete && summary.relayed, "{summary:?}");
                Ok(())
            }
            NodeEvent::Failed { reason, .. } => Err(reason),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn cache_answers_hits_and_forwards_misses() {
    let mut net = CacheScene::new(1);
    let (own, other) = (net.id(0), net.id(1));
    assert_eq!(net.look_for(Area::Exact(place(0))), (vec![own], Coverage::FirstMatch, ACCESS * 2));
    assert_eq!(net.counters(net.server).hub_lookups_answered, 0, "the server was not asked");
    assert_eq!(net.look_for(Area::Exact(place(1))), (vec![other], Coverage::Complete, (ACCESS + FAR) * 2));
    assert_eq!(net.look_for(Area::Exact(place(1))), (vec![other], Coverage::FirstMatch, ACCESS * 2));
    let cache = net.counters(net.caches[0]);
    assert_eq!((cache.hub_lookups_sent, cache.cache_hits), (1, 1));
    assert_eq!(net.counters(net.server).hub_lookups_answered, 1);
    assert_eq!(net.world.hub_at(net.caches[0]).status(net.world.now).cached, 1);
}

#[test]
fn negative_answer_cached_for_one_second() {
    let mut net = CacheScene::new(2);
    let nowhere = Area::Exact(Cell::new(7, 7));
    let (requester, provider) = (net.requesters[0], net.providers[1]);
    let ticket = net.world.request(requester, Service::Sensor, nowhere);
    assert_eq!(failed(&mut net.world, requester, ticket), Reason::NotFound);
    assert!(net.found(nowhere).is_empty());
    net.world.command(provider, NodeCommand::Move(Cell::new(7, 7).into()));
    net.world.run(2 * SECOND);
    assert_eq!(net.found(nowhere), [net.id(1)]);
}

#[test]
fn server_registers_nodes_and_expires_dead() {
    let mut net = CacheScene::new(3);
    let status = |net: &CacheScene| net.world.hub_at(net.server).status(net.world.now);
    assert_eq!((status(&net).nodes, status(&net).replicas), (1, 4));
    let relations: Vec<_> = status(&net).hubs.iter().map(|hub| hub.relation).collect();
    assert_eq!(relations, [Relation::Child(0); 2]);
    net.world.run(200 * SECOND);
    assert_eq!(status(&net).replicas, 4, "caches tell who lives");
    net.world.kill(net.providers[0]);
    net.world.command(net.providers[1], NodeCommand::Leave);
    net.world.run(SECOND);
    assert_eq!(status(&net).replicas, 3, "who leaves is gone at once");
    net.world.run(80 * SECOND);
    assert_eq!(status(&net).replicas, 2);
}

#[test]
fn server_relays_data_between_all_nodes() {
    let mut net = CacheScene::new(4);
    let ways = [(0, (ACCESS + FAR) * 4), (1, (ACCESS + FAR) * 4), (2, (ACCESS + FAR) * 2 + FAR * 2)];
    for (to, triangle) in ways {
        let before = net.counters(net.server).relays;
        let requester = net.requesters[0];
        let ticket = net.world.request(requester, Service::Sensor, Area::Exact(place(to)));
        let summary = finished(&mut net.world, requester, ticket);
        assert_eq!((summary.provider, summary.relayed), (net.id(to), true));
        assert_eq!(summary.first_byte, triangle, "from {to}");
        assert_eq!(net.counters(net.server).relays, before + 1);
    }
    for service in Service::ALL {
        let ticket = net.world.request(net.requesters[1], service, Area::Exact(place(0)));
        assert!(finished(&mut net.world, net.requesters[1], ticket).complete, "{service}");
    }
}

#[test]
fn requests_respect_area_and_scope() {
    let mut net = CacheScene::new(5);
    let requester = net.requesters[0];
    let wide = Area::Rectangle { min: Cell::new(150, 0), max: Cell::new(250, 10) };
    for (area, scope, provider) in [
        (ANYWHERE, Scope::Anywhere, 0),
        (Area::Nearest(place(1)), Scope::Anywhere, 1),
        (wide, Scope::Anywhere, 2),
        (Area::Exact(place(0)), Scope::Home, 0),
        (ANYWHERE, Scope::Home, 0),
    ] {
        let before = net.counters(net.server).relays;
        let ticket = net.world.request_with(requester, Service::Image, area, |wanted| wanted.scope = scope);
        let summary = finished(&mut net.world, requester, ticket);
        assert_eq!((summary.provider, summary.complete), (net.id(provider), true), "{area:?} {scope:?}");
        assert_eq!(net.counters(net.server).relays, before + 1, "{area:?} {scope:?}");
    }
    let elsewhere = |wanted: &mut RequestCommand| wanted.scope = Scope::Home;
    let ticket = net.world.request_with(requester, Service::Image, Area::Exact(place(1)), elsewhere);
    assert_eq!(failed(&mut net.world, requester, ticket), Reason::NotFound);
}

#[test]
fn stale_cached_position_misleads_no_request() {
    let mut net = CacheScene::new(6);
    assert_eq!(net.found(Area::Exact(place(1))), [net.id(1)]);
    let new = Cell::new(100, 50);
    net.world.command(net.providers[1], NodeCommand::Move(new.into()));
    net.world.run(SECOND);
    assert_eq!(net.found(Area::Exact(place(1))), [net.id(1)], "nobody tells a cache");
    assert_eq!(net.is_served(place(1)), Err(Reason::NotFound));
    assert_eq!(net.is_served(new), Ok(()));
    assert_eq!(net.found(Area::Exact(new)), [net.id(1)]);
    assert!(net.found(Area::Exact(place(1))).is_empty(), "it holds the newer record now");
}

#[test]
fn a_copy_lasts_for_a_lease() {
    let mut net = CacheScene::new(7);
    assert_eq!(net.found(Area::Exact(place(1))), [net.id(1)]);
    net.world.kill(net.providers[1]);
    net.world.run(50 * SECOND);
    assert_eq!(net.found(Area::Exact(place(1))), [net.id(1)]);
    assert!(net.is_served(place(1)).is_err());
    net.world.run(25 * SECOND);
    assert!(net.found(Area::Exact(place(1))).is_empty());
    assert_eq!(net.world.hub_at(net.caches[0]).status(net.world.now).cached, 0);
}

#[test]
fn arriving_node_replaces_its_cached_copy() {
    let mut net = CacheScene::new(8);
    let (old, new) = (Cell::new(7, 7), Cell::new(3, 3));
    let [here, there] = net.caches;
    let mover = net.world.node((old.x, old.y), &Service::ALL, &[there, here]);
    net.world.run_until_attached();
    net.world.run(SECOND);
    assert_eq!(net.found(Area::Exact(old)), [node_id(mover.0)]);
    net.world.kill(there);
    assert!(net.world.run_while(10 * SECOND, |world| world.home(mover) == Some(here)));
    net.world.command(mover, NodeCommand::Move(new.into()));
    net.world.run(SECOND);
    assert_eq!(net.found(Area::Exact(new)), [node_id(mover.0)]);
    assert!(net.found(Area::Exact(old)).is_empty());
    assert_eq!(net.is_served(new), Ok(()));
}

#[test]
fn nodes_of_dead_cache_use_server() {
    let mut net = CacheScene::new(9);
    net.world.kill(net.caches[0]);
    net.world.run_until_attached();
    net.world.run(5 * SECOND);
    for node in [net.providers[0], net.requesters[0]] {
        assert_eq!(net.world.home(node), Some(net.server));
    }
    for provider in 0..3 {
        assert_eq!(net.is_served(place(provider)), Ok(()), "provider {provider}");
    }
    let status = net.world.hub_at(net.server).status(net.world.now);
    assert_eq!((status.nodes, status.replicas), (3, 2));
}

#[test]
fn isolated_cache_answers_from_copies() {
    let mut net = CacheScene::new(10);
    assert_eq!(net.found(Area::Exact(place(1))), [net.id(1)]);
    let (cache, server) = (net.caches[0], net.server);
    net.world.cut(cache, server);
    net.world.run(25 * SECOND);
    assert_eq!(net.look_for(Area::Exact(place(0))), (vec![net.id(0)], Coverage::FirstMatch, ACCESS * 2));
    assert_eq!(net.look_for(Area::Exact(place(1))), (vec![net.id(1)], Coverage::FirstMatch, ACCESS * 2));
    assert_eq!(net.look_for(Area::Exact(place(2))), (vec![], Coverage::UnreachableAbove, ACCESS * 2));
    assert_eq!(net.is_served(place(0)), Err(Reason::UnreachableAbove), "data goes through the server");
    net.world.heal();
    net.world.run(30 * SECOND);
    for provider in 0..3 {
        assert_eq!(net.is_served(place(provider)), Ok(()), "provider {provider}");
    }
}

#[test]
fn restarted_server_relearns_all_nodes() {
    let mut net = CacheScene::new(11);
    let server = net.server;
    net.world.kill(server);
    net.world.run(10 * SECOND);
    net.world.revive_hub(server);
    net.world.run_until_attached();
    net.world.run(20 * SECOND);
    for provider in 0..3 {
        assert_eq!(net.is_served(place(provider)), Ok(()), "provider {provider}");
    }
}

#[test]
fn watch_at_cache_sees_changes_once() {
    let mut net = CacheScene::new(12);
    let (requester, ticket) = (net.requesters[0], net.world.ticket(net.requesters[0]));
    let area = Area::Rectangle { min: Cell::new(-10, -10), max: Cell::new(300, 300) };
    net.world.command(requester, NodeCommand::Watch { ticket, services: ServiceSet::ALL, area, names: false });
    net.world.run(2 * SECOND);
    let picture = |net: &CacheScene| {
        let mut there: BTreeMap<NodeId, Cell> = BTreeMap::new();
        let mut told = 0;
        for (_, event) in net.world.events(requester) {
            let NodeEvent::Changed { change, .. } = event else { continue };
            told += change.updated.len() + change.removed.len();
            there.extend(change.updated.iter().map(|candidate| (candidate.node, candidate.cell)));
            there.retain(|node, _| !change.removed.contains(node));
        }
        (there, told)
    };
    let (there, told) = picture(&net);
    assert_eq!((there.len(), told), (3, 3), "{there:?}");
    for provider in 0..3 {
        let cell = Cell::new(9, provider);
        net.world.command(net.providers[provider as usize], NodeCommand::Move(cell.into()));
    }
    net.world.run(2 * SECOND);
    assert_eq!(picture(&net).1, 6);
    assert_eq!(picture(&net).0.into_values().collect::<Vec<_>>().len(), 3);
    net.world.command(net.providers[0], NodeCommand::Leave);
    net.world.command(net.providers[1], NodeCommand::Leave);
    net.world.run(2 * SECOND);
    assert_eq!((picture(&net).0.len(), picture(&net).1), (1, 8));
}

#[test]
fn cache_attaches_to_server_only() {
    let mut world = World::new(13);
    let first = world.hosts.len();
    // Each is to be the other's cache.
    let pair = [world.cache(HostId(first + 1)), world.cache(HostId(first))];
    let of_itself = world.cache(HostId(first + 2));
    let super_node = world.hub(Role::SuperNode);
    let of_super_node = world.cache(super_node);
    world.run(20 * SECOND);
    for cache in [pair[0], pair[1], of_itself, of_super_node] {
        let status = world.hub_at(cache).status(world.now);
        assert!(status.cut_off, "{cache:?}: {:?}", status.hubs);
    }
    assert!(world.hub_at(pair[0]).counters().refused_by_role > 0);
}

#[test]
fn every_request_ends_once_under_faults() {
    for_seeds(20, |seed| {
        let mut net = CacheScene::new(seed);
        let (mut random, mut checker) = (SplitMix64::new(seed), InvariantChecker::new(seed));
        net.world.path.loss = 20;
        net.world.path.duplication = 10;
        net.world.path.spread = 30 * MS;
        let mut asked = Vec::new();
        for round in 0..30 {
            let (from, to) = (net.requesters[random.below(2) as usize], random.below(3) as usize);
            let service = Service::ALL[random.below(4) as usize];
            asked.push((from, net.world.request(from, service, Area::Exact(place(to)))));
            asked.push((from, net.world.lookup(from, service, Area::Exact(place(to)))));
            match round {
                5 => net.world.kill(net.caches[random.below(2) as usize]),
                12 => net.world.break_connections(net.caches[0], net.server),
                18 => net.world.freeze(net.caches[0]),
                _ => {}
            }
            run_checked(&mut net.world, &mut checker, SECOND);
        }
        run_checked(&mut net.world, &mut checker, 120 * SECOND);
        checker.check_ended(&net.world, &asked);
    });
}
