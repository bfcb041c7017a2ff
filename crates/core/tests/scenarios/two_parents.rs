//! Searches in a hierarchy in which each hub below the roots has two parents, so that several ways lead to each home.

use crate::*;

const HOMES: usize = 6;

/// Three areas below two of three roots each, and homes below two areas each, with a provider and a requester. Further
/// roots have nothing below, and own blocks.
struct WovenTree {
    world: World,
    roots: Vec<HostId>,
    areas: Vec<HostId>,
    homes: Vec<HostId>,
    providers: Vec<HostId>,
    requesters: Vec<HostId>,
}

impl WovenTree {
    fn new(seed: u64) -> Self {
        let mut world = World::new(seed);
        world.path.delay = 20 * MS;
        world.path.spread = MS * (seed as u32 % 10);
        let roots: Vec<HostId> = (0..3 + seed as usize % 4).map(HostId).collect();
        for _ in &roots {
            world.hub_below(2, &[], &roots);
        }
        let areas: Vec<HostId> = (0..3).map(|n| world.hub_below(1, &[roots[n], roots[(n + 1) % 3]], &[])).collect();
        // The second way to a hub may be the faster one.
        let mut delays = SplitMix64::new(seed);
        for (area, root) in areas.iter().flat_map(|area| roots.iter().map(move |root| (*area, *root))) {
            world.delays.insert((area, root), MS * (5 + delays.below(60) as u32));
        }
        let homes: Vec<HostId> =
            (0..HOMES).map(|n| world.hub_below(0, &[areas[n % 3], areas[(n + 1) % 3]], &[])).collect();
        let mut end = |n: usize, home, services: &[Service]| world.node((3 * n as i32, 5), services, &[home]);
        let providers = homes.iter().enumerate().map(|(n, home)| end(n, *home, &[Service::Track])).collect();
        let requesters = homes.iter().enumerate().map(|(n, home)| end(n, *home, &[])).collect();
        world.run_until_attached();
        // Everybody is older than a lease, and every summary has been told.
        world.run(70 * SECOND + MS * (seed * 7_919 % 10_000) as u32);
        Self { world, roots, areas, homes, providers, requesters }
    }

    /// The requester of a home looks for all providers.
    fn search(&mut self, from: usize) -> Ticket {
        let area = Area::Rectangle { min: Cell::new(-1, 0), max: Cell::new(30, 9) };
        self.world.lookup(self.requesters[from], Service::Track, area)
    }

    /// The providers that were found, by their homes, and the coverage.
    fn found(&mut self, from: usize, ticket: Ticket) -> (Vec<usize>, Coverage) {
        let NodeEvent::LookupResult { found, .. } = self.world.outcome(self.requesters[from], ticket) else { panic!() };
        let nodes: Vec<NodeId> = found.candidates.iter().map(|candidate| candidate.node).collect();
        let is_found = |n: &usize| nodes.contains(&node_id(self.providers[*n].0));
        ((0..HOMES).filter(is_found).collect(), found.coverage)
    }

    /// Number of times that each hub has told another one what it has.
    fn told(&self) -> Vec<u64> {
        let hubs = self.roots.iter().chain(&self.areas).chain(&self.homes);
        let counters = hubs.map(|hub| self.world.hub_at(*hub).counters());
        counters.map(|counters| counters.hub_lookups_answered - counters.hub_lookups_omitted).collect()
    }
}

fn everybody() -> Vec<usize> {
    (0..HOMES).collect()
}

#[test]
fn each_hub_is_heard_once() {
    for_seeds(8, |seed| {
        let mut tree = WovenTree::new(seed);
        for from in 0..HOMES {
            let before = tree.told();
            let ticket = tree.search(from);
            assert_eq!(tree.found(from, ticket), (everybody(), Coverage::Complete), "{from}");
            // Answers that nobody waited for are on their way.
            tree.world.run(SECOND);
            let told: Vec<u64> = tree.told().into_iter().zip(before).map(|(after, before)| after - before).collect();
            let (above, homes) = told.split_at(tree.roots.len() + 3);
            // A root may be asked for what is below it first, and then for what is beside it.
            assert!(above.iter().all(|times| *times <= 2), "{from} {told:?}");
            assert!(homes.iter().enumerate().all(|(n, times)| *times == u64::from(n != from)), "{from} {told:?}");
        }
    });
}

#[test]
fn crowds_at_many_homes_share_searches() {
    for_seeds(4, |seed| {
        let mut tree = WovenTree::new(seed);
        let before: u64 = tree.told().iter().sum();
        let tickets: Vec<(usize, Ticket)> = (0..60).map(|n| (n % HOMES, tree.search(n % HOMES))).collect();
        for (from, ticket) in tickets {
            assert_eq!(tree.found(from, ticket), (everybody(), Coverage::Complete), "{from}");
        }
        // A search of each home at most: those of its nodes are one.
        let told = tree.told().iter().sum::<u64>() - before;
        assert!(told <= 6 * 12, "{told}");
    });
}

/// A failure above the homes while a search is under way.
#[derive(Clone, Copy, Debug)]
enum Failure {
    Killed,
    Frozen,
    /// The hub hears its parents, and they do not hear it.
    Mute,
    /// Neither the hub nor its parents hear the other.
    Cut,
}

/// All that has a home with a way to the requester's is found, whatever fails, and when.
#[test]
fn failures_above_hide_nothing() {
    for_seeds(12, |seed| {
        for failure in [Failure::Killed, Failure::Frozen, Failure::Mute, Failure::Cut] {
            for (tier, moment) in (0..2).flat_map(|tier| [0, 30, 70, 110, 150].map(|ms| (tier, ms))) {
                let mut tree = WovenTree::new(seed);
                let failing = if tier == 0 {
                    tree.areas[seed as usize % 3]
                } else {
                    tree.roots[(seed / 4) as usize % tree.roots.len()]
                };
                let above: Vec<HostId> = tree.roots.iter().copied().filter(|root| *root != failing).collect();
                let ticket = tree.search(0);
                tree.world.run(MS * moment);
                match failure {
                    Failure::Killed => tree.world.kill(failing),
                    Failure::Frozen => tree.world.freeze(failing),
                    Failure::Mute => above.iter().for_each(|root| tree.world.mute(failing, *root)),
                    Failure::Cut => above.iter().for_each(|root| tree.world.cut(failing, *root)),
                }
                let (found, coverage) = tree.found(0, ticket);
                assert_eq!(found, everybody(), "{failure:?} above tier {tier} after {moment} ms: {coverage:?}");
            }
        }
    });
}
