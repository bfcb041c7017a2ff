//! Streams with more subscribers than one super node has room for.

use crate::*;

const THERE: Area = Area::Exact(Cell::new(27, 92));

/// Copies that the uplink of each hub can take.
const COPIES: usize = 4;

/// Three hubs that know one another, with a provider at the first.
struct OverflowScene {
    world: World,
    hubs: Vec<HostId>,
    provider: HostId,
}

impl OverflowScene {
    fn new(seed: u64) -> Self {
        let mut world = World::new(seed);
        world.copies = Some(COPIES as u32);
        let hubs = world.mesh(3);
        world.run(2 * SECOND);
        let provider = world.node((27, 92), &[Service::Video], &[hubs[0]]);
        world.run_until_attached();
        // Past the time in which hubs are young and even out their nodes.
        world.run_relays(70 * SECOND);
        Self { world, hubs, provider }
    }

    fn watchers(&mut self, homes: impl Iterator<Item = usize>) -> Vec<HostId> {
        let watchers = homes.map(|home| self.world.node((0, 0), &[], &[self.hubs[home]])).collect();
        self.world.run_relays(3 * SECOND);
        watchers
    }

    /// Subscribes, and waits until that is decided and everybody has heard of it.
    fn subscribe(&mut self, watcher: HostId) -> Ticket {
        let ticket = self.world.subscribe(watcher, Service::Video, THERE);
        self.world.run_relays(4 * SECOND);
        ticket
    }

    fn is_watching(&self, watcher: HostId, ticket: Ticket) -> bool {
        self.world.receives_stream(watcher, ticket, self.provider)
    }

    /// Copies that each hub sends; none sends more than its uplink takes.
    fn sent(&self) -> Vec<usize> {
        let copies = self.world.copies();
        let sent: Vec<usize> = self.hubs.iter().map(|hub| copies.get(hub).map_or(0, |sent| sent.len())).collect();
        assert!(sent.iter().all(|sent| *sent <= COPIES), "{sent:?}");
        sent
    }

    /// True if any hub has room and the stream.
    fn has_room(&self) -> bool {
        let (copies, sent) = (self.world.copies(), self.sent());
        let feeds = |hub: &HostId| {
            let from_home = copies.get(&self.hubs[0]).into_iter().flatten();
            *hub == self.hubs[0] || from_home.map(|(_, to)| to).any(|to| to == hub)
        };
        self.hubs.iter().zip(sent).any(|(hub, sent)| sent < COPIES && feeds(hub))
    }

    /// So many subscribe one after the other; how many are served before the first is refused.
    fn served(&mut self, watchers: &[HostId]) -> usize {
        let mut served = Vec::new();
        for watcher in watchers {
            let ticket = self.subscribe(*watcher);
            if !self.is_watching(*watcher, ticket) {
                assert_eq!(failed(&mut self.world, *watcher, ticket), Reason::Saturated);
                assert!(!self.has_room(), "refused while {:?} are sent", self.sent());
                break;
            }
            served.push((*watcher, ticket));
        }
        for (watcher, ticket) in &served {
            assert!(self.is_watching(*watcher, *ticket));
            assert!(self.world.stream_route(*watcher, *ticket).is_some_and(|way| way.len() <= 2));
        }
        assert_eq!(self.world.hosts[self.provider.0].opened.len(), 1);
        served.len()
    }
}

#[test]
fn overflow_fills_all_hubs() {
    for_seeds(4, |seed| {
        let mut three = OverflowScene::new(seed);
        let watchers = three.watchers((0..12).map(|_| 1));
        // Two copies of the first hub's are for the others.
        assert_eq!(three.served(&watchers), 3 * COPIES - 2, "seed {seed}");
        assert_eq!(three.sent(), [COPIES; 3]);
    });
}

#[test]
fn full_provider_home_overflows() {
    for_seeds(4, |seed| {
        let mut three = OverflowScene::new(seed);
        let watchers = three.watchers((0..12).map(|_| 0));
        // As many as if the others had asked for it themselves.
        assert_eq!(three.served(&watchers), 3 * COPIES - 2, "seed {seed}");
    });
}

#[test]
fn churn_respects_uplinks_without_false_refusals() {
    for_seeds(8, |seed| {
        let mut three = OverflowScene::new(seed);
        let mut random = SplitMix64::new(seed);
        let homes: Vec<usize> = (0..30).map(|_| (random.next_u64() % 3) as usize).collect();
        let mut watching: Vec<(HostId, Ticket)> = Vec::new();
        for watcher in three.watchers(homes.into_iter()) {
            while watching.len() > 6 && random.next_u64().is_multiple_of(2) {
                let (gone, ticket) = watching.swap_remove((random.next_u64() % watching.len() as u64) as usize);
                three.world.cancel(gone, ticket);
                three.world.run_relays(4 * SECOND);
            }
            let had_room = three.has_room() || watching.is_empty();
            let ticket = three.subscribe(watcher);
            three.sent();
            match three.is_watching(watcher, ticket) {
                true => watching.push((watcher, ticket)),
                false => {
                    let ending = three.world.hosts[watcher.0].ending(ticket);
                    let saturated = matches!(ending, Some(NodeEvent::Failed { reason: Reason::Saturated, .. }));
                    assert!(saturated && !had_room, "seed {seed}: {ending:?} while {:?} are sent", three.sent());
                }
            }
            for (watcher, ticket) in &watching {
                assert!(three.is_watching(*watcher, *ticket), "seed {seed}: {watcher:?} lost it");
            }
        }
    });
}
