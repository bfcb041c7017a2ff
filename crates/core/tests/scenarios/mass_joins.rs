//! Ten thousand nodes at once.

use crate::*;

/// Ten nodes that ask without pause, and ten thousand that come at once.
struct MassJoin {
    world: World,
    hubs: Vec<HostId>,
    requesters: Vec<HostId>,
    crowd: Vec<HostId>,
    asked: Vec<(HostId, Ticket)>,
}

impl MassJoin {
    const SIZE: usize = 10_000;

    fn new(seed: u64, hubs: usize) -> Self {
        let mut world = World::new(seed);
        let hubs = world.mesh(hubs);
        world.run(2 * SECOND);
        let requesters = (0..10).map(|x| world.node((x, 0), &[Service::Sensor], &hubs)).collect();
        world.run_until_attached();
        Self { world, hubs, requesters, crowd: Vec::new(), asked: Vec::new() }
    }

    fn come(&mut self) {
        let hubs = self.hubs.clone();
        self.crowd = (0..Self::SIZE).map(|n| self.world.node((n as i32 % 100, 50), &[Service::Track], &hubs)).collect();
    }

    fn attached(&self) -> usize {
        self.crowd.iter().filter(|node| self.world.is_attached(**node)).count()
    }

    /// Goes on until all of the crowd are attached.
    fn until_attached(&mut self, limit: Duration) {
        let from = self.world.now;
        while self.attached() < self.crowd.len() {
            assert!(self.world.now.since(from) < limit, "{} are attached", self.attached());
            for requester in self.requesters.clone() {
                let ticket = self.world.request(requester, Service::Sensor, NEAREST);
                self.asked.push((requester, ticket));
            }
            self.world.run(250 * MS);
        }
    }

    fn end(mut self, seed: u64) {
        self.world.run(15 * SECOND);
        InvariantChecker::new(seed).check_served(&self.world, &self.asked);
    }
}

#[test]
fn ten_thousand_joins_delay_no_request() {
    for_few_seeds(|seed| {
        let mut crowd = MassJoin::new(seed, 1);
        crowd.come();
        crowd.until_attached(10 * SECOND);
        let counters = crowd.world.hub_at(crowd.hubs[0]).counters();
        assert!(counters.postponed > 0, "seed {seed}: nobody had to wait");
        assert!(counters.postponed < 2 * MassJoin::SIZE as u64, "seed {seed}: {} were put off", counters.postponed);
        crowd.end(seed);
    });
}

#[test]
fn ten_thousand_nodes_rejoin_restarted_hub() {
    for_few_seeds(|seed| {
        let mut crowd = MassJoin::new(seed, 1);
        crowd.come();
        crowd.until_attached(10 * SECOND);
        crowd.world.kill(crowd.hubs[0]);
        crowd.world.run(2 * SECOND);
        crowd.world.revive_hub(crowd.hubs[0]);
        crowd.until_attached(10 * SECOND);
        crowd.end(seed);
    });
}

#[test]
fn ten_thousand_nodes_use_their_standby() {
    for_few_seeds(|seed| {
        let mut crowd = MassJoin::new(seed, 2);
        crowd.come();
        crowd.until_attached(10 * SECOND);
        crowd.world.run(5 * SECOND);
        crowd.world.kill(crowd.hubs[0]);
        crowd.world.run(100 * MS);
        let counters = crowd.world.hub_at(crowd.hubs[1]).counters().clone();
        assert_eq!((counters.adoptions, counters.unknown_renews), (MassJoin::SIZE as u64 + 10, 0), "seed {seed}");
        crowd.until_attached(SECOND);
        crowd.end(seed);
    });
}
