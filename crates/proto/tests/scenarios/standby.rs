//! The home fails, in every way that it can, and the stand-by takes over.
//!
//! `ROOST_SEEDS=1000` runs each scenario for so many seeds.

use std::time::Duration;

use roost_proto::peer::{Command, Event, Ticket};
use roost_proto::wire::Mode;
use roost_proto::{Area, Cell, Service};

use crate::world::check::{for_few_seeds, for_seeds, run_and_look};
use crate::world::{Checker, HostId, MS, SECOND, World, node_id};
use crate::{ANYWHERE, NEAREST, finished};

/// Long enough for round trips to be known as well as they can be.
const WARM: Duration = Duration::from_secs(300);

/// Three hubs, two providers of everything and two requesters, all of whom
/// have the first hub for their home and the second one for their stand-by.
struct Scene {
    world: World,
    checker: Checker,
    hubs: Vec<HostId>,
    providers: [HostId; 2],
    requesters: [HostId; 2],
    asked: Vec<(HostId, Ticket)>,
}

impl Scene {
    fn new(seed: u64) -> Self {
        // Never so near that the hubs share their nodes.
        let delay = MS * (6 + seed as u32 * 7 % 60);
        Self::with(seed, delay, 0)
    }

    fn with(seed: u64, delay: Duration, loss: u32) -> Self {
        let mut world = World::new(seed);
        world.path.delay = delay;
        world.path.spread = delay / 10;
        world.path.loss = loss;
        let hubs = world.mesh(3);
        world.run(5 * SECOND);
        let providers = [(1, 0), (9, 0)].map(|cell| world.node(cell, &Service::ALL, &hubs));
        let requesters = [(0, 0), (2, 2)].map(|cell| world.node(cell, &[], &hubs));
        world.settle();
        let mut scene = Self { world, checker: Checker::new(seed), hubs, providers, requesters, asked: Vec::new() };
        scene.run(30 * SECOND);
        scene
    }

    fn nodes(&self) -> [HostId; 4] {
        let ([a, b], [c, d]) = (self.providers, self.requesters);
        [a, b, c, d]
    }

    fn run(&mut self, span: Duration) {
        run_and_look(&mut self.world, &mut self.checker, span);
    }

    /// Goes on for `span`, with a request of each kind in turn every `pause`.
    fn ask_for(&mut self, span: Duration, pause: Duration) {
        let end = self.world.now + span;
        while self.world.now < end {
            self.ask();
            let step = pause.min(end.since(self.world.now));
            self.world.run(step);
            self.checker.look(&self.world);
        }
    }

    fn ask(&mut self) {
        let count = self.asked.len();
        let requester = self.requesters[count % 2];
        let at = Area::At(Cell::new(1, 0));
        let area = [ANYWHERE, NEAREST, at][count / 2 % 3];
        let ticket = match count % 5 {
            0 => self.world.lookup(requester, Service::Video, at),
            kind => self.world.request_with(requester, Service::Sensor, area, |wanted| {
                wanted.deadline = 30 * SECOND;
                wanted.mode = if kind == 4 { Mode::Relay } else { Mode::Forward };
            }),
        };
        self.asked.push((requester, ticket));
    }

    /// Lets everything end: all of it well.
    fn end(mut self) {
        self.run(40 * SECOND);
        self.checker.all_served(&self.world, &self.asked);
    }

    fn homes(&self) -> [Option<HostId>; 4] {
        self.nodes().map(|node| self.world.home(node))
    }

    /// The latest that a home may be given up after a question: seven probe time-outs.
    fn seven_pto(&self) -> Duration {
        let rtt = self.world.path.delay * 2 + self.world.path.spread * 2;
        (rtt + rtt / 5 + 35 * MS) * 7
    }
}

#[test]
fn every_node_has_a_stand_by_which_has_its_record() {
    let scene = Scene::new(1);
    assert_eq!(scene.homes(), [Some(scene.hubs[0]); 4]);
    assert_eq!(scene.nodes().map(|node| scene.world.standby(node)), [Some(scene.hubs[1]); 4]);
    let mirrored = |hub: HostId| scene.world.hub_at(hub).status(scene.world.now).mirrored;
    assert_eq!(scene.hubs.iter().map(|hub| mirrored(*hub)).collect::<Vec<_>>(), [0, 4, 0]);
}

/// A renewal every twenty seconds and a ping every minute; what carries a
/// datagram, IP, UDP and DTLS, is reckoned as 64 bytes.
#[test]
fn an_idle_node_costs_little() {
    const NODES: usize = 100;
    let mut world = World::new(1);
    let hubs = world.mesh(2);
    world.run(2 * SECOND);
    for n in 0..NODES {
        world.node((n as i32, 0), &Service::ALL, &hubs);
    }
    world.settle();
    world.run(60 * SECOND);
    let before = (world.messages, world.bytes);
    world.run(600 * SECOND);
    let (messages, bytes) = (world.messages - before.0, world.bytes - before.1);
    let rate = (bytes + messages * 64) as f64 / 600.0 / NODES as f64;
    assert!(rate < 12.0, "{rate} B/s for each node, what hubs say to one another included");
}

#[test]
fn home_killed() {
    for_seeds(4, |seed| {
        let mut scene = Scene::new(seed);
        scene.ask_for(3 * SECOND, 150 * MS);
        let publishes = scene.world.hub_at(scene.hubs[1]).counters().unknown_renews;
        scene.world.kill(scene.hubs[0]);
        scene.ask_for(3 * SECOND, 150 * MS);
        assert_eq!(scene.homes(), [Some(scene.hubs[1]); 4], "seed {seed}");
        let counters = scene.world.hub_at(scene.hubs[1]).counters();
        assert_eq!((counters.adoptions, counters.unknown_renews), (4, publishes), "seed {seed}: one packet each");
        scene.end();
    });
}

#[test]
fn home_frozen() {
    for_seeds(4, |seed| {
        let mut scene = Scene::new(seed);
        scene.run(WARM);
        scene.world.freeze(scene.hubs[0]);
        scene.ask_for(10 * SECOND, 200 * MS);
        assert_eq!(scene.requesters.map(|node| scene.world.home(node)), [Some(scene.hubs[1]); 2], "seed {seed}");
        scene.ask_for(25 * SECOND, SECOND);
        assert_eq!(scene.homes(), [Some(scene.hubs[1]); 4], "seed {seed}");
        scene.end();
    });
}

/// What the design promises, at the round trips for which it does.
#[test]
fn a_lookup_in_flight_when_the_home_freezes() {
    for_seeds(3, |seed| {
        for (rtt, limit) in [(80 * MS, 300 * MS), (1_200 * MS, 3_300 * MS)] {
            let mut scene = Scene::with(seed, rtt / 2, 0);
            scene.world.path.spread = Duration::ZERO;
            scene.run(2 * WARM);
            let requester = scene.requesters[0];
            scene.world.freeze(scene.hubs[0]);
            let asked_at = scene.world.now;
            let ticket = scene.world.lookup(requester, Service::Track, Area::At(Cell::new(1, 0)));
            let answered = |world: &World| world.hosts[requester.0].ending(ticket).is_some();
            assert!(scene.world.run_while(limit, answered), "seed {seed}: not answered within {limit:?}");
            scene.asked.push((requester, ticket));
            let standby = scene.hubs[1];
            let switched = |world: &World| world.home(requester) == Some(standby);
            let left = scene.seven_pto() - scene.world.now.since(asked_at);
            assert!(scene.world.run_while(left, switched), "seed {seed}: no new home within seven time-outs");
            scene.end();
        }
    });
}

#[test]
fn the_home_is_not_heard_or_does_not_hear() {
    for_seeds(4, |seed| {
        for home_is_deaf in [false, true] {
            let mut scene = Scene::new(seed);
            scene.ask_for(2 * SECOND, 200 * MS);
            for node in scene.nodes() {
                let (from, to) = if home_is_deaf { (node, scene.hubs[0]) } else { (scene.hubs[0], node) };
                scene.world.mute(from, to);
            }
            scene.ask_for(30 * SECOND, 500 * MS);
            assert_eq!(scene.homes(), [Some(scene.hubs[1]); 4], "seed {seed}, deaf: {home_is_deaf}");
            let old = scene.world.hub_at(scene.hubs[0]).status(scene.world.now);
            assert_eq!(old.nodes, 0, "seed {seed}: the old home has given way");
            scene.end();
        }
    });
}

/// Only one of them loses the home, and only in one direction.
#[test]
fn one_provider_is_not_heard_by_its_home() {
    for_seeds(4, |seed| {
        let mut scene = Scene::new(seed);
        scene.world.mute(scene.providers[0], scene.hubs[0]);
        scene.ask_for(30 * SECOND, 300 * MS);
        assert_eq!(scene.world.home(scene.providers[0]), Some(scene.hubs[1]), "seed {seed}");
        scene.end();
    });
}

#[test]
fn the_stand_by_is_dead_too() {
    for_seeds(4, |seed| {
        for frozen in [false, true] {
            let mut scene = Scene::new(seed);
            for hub in [scene.hubs[0], scene.hubs[1]] {
                if frozen { scene.world.freeze(hub) } else { scene.world.kill(hub) }
            }
            scene.ask_for(20 * SECOND, 500 * MS);
            scene.run(40 * SECOND);
            assert_eq!(scene.homes(), [Some(scene.hubs[2]); 4], "seed {seed}, frozen: {frozen}");
            scene.checker.end(&scene.world, &scene.asked);
            scene.asked.clear();
            scene.ask_for(3 * SECOND, 100 * MS);
            scene.end();
        }
    });
}

#[test]
fn planned_hand_over_loses_no_request() {
    for_seeds(4, |seed| {
        let mut scene = Scene::new(seed);
        scene.ask_for(2 * SECOND, 30 * MS);
        scene.world.leave_hub(scene.hubs[0]);
        scene.ask_for(3 * SECOND, 30 * MS);
        assert_eq!(scene.homes(), [Some(scene.hubs[1]); 4], "seed {seed}");
        let adoptions = scene.world.hub_at(scene.hubs[1]).counters().adoptions;
        assert_eq!(adoptions, 4, "seed {seed}: one packet each");
        let slow = scene.asked.iter().filter_map(|(host, ticket)| match scene.world.hosts[host.0].ending(*ticket) {
            Some(Event::Finished { summary, .. }) => Some(summary.first_byte),
            _ => None,
        });
        let slowest = slow.max().unwrap();
        assert!(slowest < scene.seven_pto(), "seed {seed}: a request waited for {slowest:?}");
        scene.end();
    });
}

#[test]
fn restart_with_an_old_epoch_while_the_home_is_dead() {
    for_seeds(4, |seed| {
        let mut scene = Scene::new(seed);
        let (provider, hubs) = (scene.providers[0], scene.hubs.clone());
        let before = scene.world.status(provider).version;
        scene.world.kill(hubs[0]);
        scene.world.restart_node(provider, &hubs, 1);
        scene.world.command(provider, Command::Move { cell: Cell::new(1, 0) });
        let services = Service::ALL.into_iter().collect();
        let offer = Command::Reconfigure { services, max_streams: 8, uplink_kbps: u32::MAX };
        scene.world.command(provider, offer);
        scene.run(10 * SECOND);
        let after = scene.world.status(provider).version;
        assert!(after > before, "seed {seed}: {after:?} after {before:?}");
        scene.ask_for(2 * SECOND, 100 * MS);
        scene.end();
    });
}

#[test]
fn a_hubs_clock_jumps() {
    for_seeds(4, |seed| {
        let mut scene = Scene::new(seed);
        scene.ask_for(SECOND, 100 * MS);
        scene.world.jump(scene.hubs[0], 300 * SECOND);
        scene.ask_for(5 * SECOND, 100 * MS);
        assert!(scene.homes().iter().all(Option::is_some), "seed {seed}");
        scene.end();
    });
}

#[test]
fn a_home_that_was_frozen_comes_back_with_old_records() {
    for_seeds(4, |seed| {
        for span in [10, 200] {
            let mut scene = Scene::new(seed);
            scene.world.freeze(scene.hubs[0]);
            scene.ask_for(span * SECOND, 500 * MS);
            scene.world.thaw(scene.hubs[0]);
            scene.ask_for(30 * SECOND, 300 * MS);
            scene.end();
        }
    });
}

#[test]
fn a_node_that_flaps() {
    for_seeds(4, |seed| {
        let mut scene = Scene::new(seed);
        let provider = scene.providers[0];
        for round in 0..20 {
            let hub = scene.world.home(provider).unwrap_or(scene.hubs[0]);
            scene.world.break_links(provider, hub);
            if round % 3 == 0 {
                scene.world.command(provider, Command::Move { cell: Cell::new(1, round % 2) });
            }
            scene.ask_for(MS * (100 + round as u32 * 90), 100 * MS);
        }
        scene.run(5 * SECOND);
        let holders = scene.hubs.iter().filter(|hub| {
            let index = scene.world.hub_at(**hub).index(scene.world.now, None, 100);
            index.iter().any(|entry| entry.node == node_id(provider.0) && entry.home.is_none())
        });
        assert_eq!(holders.count(), 1, "seed {seed}: one hub has it");
        scene.checker.end(&scene.world, &scene.asked);
    });
}

#[test]
fn a_provider_goes_without_leave() {
    for_seeds(4, |seed| {
        let mut scene = Scene::new(seed);
        scene.run(WARM);
        scene.world.freeze(scene.providers[0]);
        let requester = scene.requesters[0];
        let mut waits = Vec::new();
        for _ in 0..5 {
            let ticket = scene.world.request(requester, Service::Sensor, NEAREST);
            let summary = finished(&mut scene.world, requester, ticket);
            assert!(summary.complete && summary.provider == node_id(scene.providers[1].0), "seed {seed}: {summary:?}");
            waits.push(summary.first_byte);
            scene.run(SECOND);
        }
        let quick = scene.world.path.delay * 5 + scene.world.path.spread * 5 + 200 * MS;
        let slow = waits.iter().filter(|wait| **wait > quick).count();
        assert!(slow <= 1, "seed {seed}: only the first finds out: {waits:?}");
        scene.run(80 * SECOND);
    });
}

#[test]
fn five_percent_are_lost_everywhere() {
    for_seeds(4, |seed| {
        let mut scene = Scene::with(seed, MS * (5 + seed as u32 * 7 % 60), 50);
        scene.ask_for(60 * SECOND, SECOND);
        scene.world.kill(scene.hubs[0]);
        scene.ask_for(30 * SECOND, 500 * MS);
        assert!(scene.homes().iter().all(|home| home.is_some_and(|home| home != scene.hubs[0])), "seed {seed}");
        scene.end();
    });
}

#[test]
fn links_of_six_hundred_milliseconds() {
    for_seeds(3, |seed| {
        let mut scene = Scene::with(seed, 600 * MS, 0);
        scene.run(WARM);
        scene.ask_for(5 * SECOND, 500 * MS);
        scene.world.freeze(scene.hubs[0]);
        scene.ask_for(40 * SECOND, SECOND);
        assert_eq!(scene.homes(), [Some(scene.hubs[1]); 4], "seed {seed}");
        scene.end();
    });
}

/// Ten nodes that ask without pause, and ten thousand that come at once.
struct Crowd {
    world: World,
    hubs: Vec<HostId>,
    askers: Vec<HostId>,
    crowd: Vec<HostId>,
    asked: Vec<(HostId, Ticket)>,
}

impl Crowd {
    const SIZE: usize = 10_000;

    fn new(seed: u64, hubs: usize) -> Self {
        let mut world = World::new(seed);
        let hubs = world.mesh(hubs);
        world.run(2 * SECOND);
        let askers = (0..10).map(|x| world.node((x, 0), &[Service::Sensor], &hubs)).collect();
        world.settle();
        Self { world, hubs, askers, crowd: Vec::new(), asked: Vec::new() }
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
            for asker in self.askers.clone() {
                let ticket = self.world.request(asker, Service::Sensor, NEAREST);
                self.asked.push((asker, ticket));
            }
            self.world.run(250 * MS);
        }
    }

    fn end(mut self, seed: u64) {
        self.world.run(15 * SECOND);
        Checker::new(seed).all_served(&self.world, &self.asked);
    }
}

#[test]
fn ten_thousand_nodes_come_at_once_while_others_ask() {
    for_few_seeds(|seed| {
        let mut crowd = Crowd::new(seed, 1);
        crowd.come();
        crowd.until_attached(10 * SECOND);
        let counters = crowd.world.hub_at(crowd.hubs[0]).counters();
        assert!(counters.postponed > 0, "seed {seed}: nobody had to wait");
        assert!(counters.postponed < 2 * Crowd::SIZE as u64, "seed {seed}: {} were put off", counters.postponed);
        crowd.end(seed);
    });
}

#[test]
fn ten_thousand_nodes_come_back_to_a_hub_that_starts_again() {
    for_few_seeds(|seed| {
        let mut crowd = Crowd::new(seed, 1);
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
fn ten_thousand_nodes_turn_to_their_stand_by() {
    for_few_seeds(|seed| {
        let mut crowd = Crowd::new(seed, 2);
        crowd.come();
        crowd.until_attached(10 * SECOND);
        crowd.world.run(5 * SECOND);
        crowd.world.kill(crowd.hubs[0]);
        crowd.world.run(100 * MS);
        let counters = crowd.world.hub_at(crowd.hubs[1]).counters().clone();
        assert_eq!((counters.adoptions, counters.unknown_renews), (Crowd::SIZE as u64 + 10, 0), "seed {seed}");
        crowd.until_attached(SECOND);
        crowd.end(seed);
    });
}
