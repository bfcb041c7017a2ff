//! Nodes in motion: vehicles on roads and satellites, found where they are without a word at each border.
//!
//! `cargo test -p roost-core --test motion -- --nocapture` prints the figures of `docs/benchmarks.md`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, reason = "tests, and figures for people")]

mod world;

use std::time::Duration;

use roost_core::node::{NodeCommand, NodeEvent, NodePlace};
use roost_geo::{Datum, GridPoint, Moment, Mover, Track, distance_m, predict};
use roost_wire::random::SplitMix64;
use roost_wire::{Area, Cell, ExactPosition, OrbitElements, Role, Service, ServiceSet, Time};

use world::*;

// 1 May 2026, noon.
const EPOCH_S: u64 = 1_777_636_800;

fn datum() -> Datum {
    Datum::new("47.37,8.54".parse().unwrap(), "1km".parse().unwrap()).unwrap()
}

/// A world in which all have the datum.
fn world(seed: u64) -> World {
    let mut world = World::new(seed);
    world.datum = Some(datum());
    world
}

fn hub(world: &mut World, siblings: &[HostId]) -> HostId {
    let number = world.hosts.len();
    let machine = world.hub_machine_with(number, Role::SuperNode, |config| {
        config.siblings = siblings.iter().map(|sibling| addresses(sibling.0)).collect();
    });
    let hub = world.add(Host::hub(number, Role::SuperNode, machine));
    let unix = unix(world);
    world.tell_wall_clock(hub, unix);
    hub
}

fn unix(world: &World) -> Duration {
    Duration::from_secs(EPOCH_S) + world.now.since(Time::ZERO)
}

fn tracked(world: &mut World, hubs: &[HostId], at: ExactPosition) -> HostId {
    world.node_with(hubs, |config| {
        config.cell = datum().cell(at.at).unwrap();
        config.position = Some(at);
        config.services = [Service::Track].into_iter().collect();
    })
}

/// True if a lookup in this cell names the provider.
fn is_found(world: &mut World, requester: HostId, provider: HostId, cell: Cell) -> bool {
    let ticket = world.lookup(requester, Service::Track, Area::Exact(cell));
    let NodeEvent::LookupResult { found, .. } = world.outcome(requester, ticket) else { return false };
    found.candidates.iter().any(|candidate| candidate.node == node_id(provider.0) && candidate.cell == cell)
}

/// A vehicle on a road with turns, and its receiver.
struct Vehicle {
    host: HostId,
    truth: ExactPosition,
    until_turn: u64,
    /// The error of the receiver, which wanders, in meters east and north.
    error: [f64; 2],
}

impl Vehicle {
    fn drive(&mut self, random: &mut SplitMix64) {
        self.truth = predict(&self.truth, SECOND);
        self.until_turn = self.until_turn.saturating_sub(1);
        let turn = noise(random) * 90.0;
        if self.until_turn == 0 {
            self.until_turn = 20 + random.below(120);
            self.truth.course_deg = self.truth.course_deg.map(|course| (course + turn).rem_euclid(360.0));
            self.truth.speed_mps = Some(10.0 + random.below(16) as f64);
        }
    }

    fn fix(&mut self, random: &mut SplitMix64) -> ExactPosition {
        self.error = self.error.map(|error| error * 0.95 + noise(random) * 1.2);
        let way = |meters: f64, course: f64| ExactPosition {
            course_deg: Some(course),
            speed_mps: Some(meters.abs().max(0.5)),
            ..self.truth
        };
        let east = predict(&way(self.error[0], if self.error[0] > 0.0 { 90.0 } else { 270.0 }), SECOND);
        let off = ExactPosition { at: east.at, ..way(self.error[1], if self.error[1] > 0.0 { 0.0 } else { 180.0 }) };
        ExactPosition {
            at: predict(&off, SECOND).at,
            accuracy_m: Some(6.0),
            course_deg: self.truth.course_deg.map(|course| (course + noise(random)).rem_euclid(360.0)),
            speed_mps: self.truth.speed_mps.map(|speed| speed + 0.2 * noise(random)),
            ..self.truth
        }
    }
}

fn noise(random: &mut SplitMix64) -> f64 {
    random.below(20_001) as f64 / 10_000.0 - 1.0
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Telling {
    Cells,
    /// The exact position without course and speed.
    Still,
    Predicted,
}

/// Updates of a vehicle in an hour, and the share of lookups that name the right cell.
fn roads(telling: Telling, vehicles: usize, seconds: u64) -> [f64; 2] {
    let (mut world, mut random) = (world(3), SplitMix64::new(5));
    world.path.delay = MS;
    let hub = hub(&mut world, &[]);
    let requester = world.node((0, 0), &[], &[hub]);
    let mut fleet: Vec<Vehicle> = Vec::new();
    for _ in 0..vehicles {
        let place = [0; 2].map(|_| random.below(20_000) as f64 / 1_000.0 - 10.0);
        let at = datum().lat_lon(GridPoint { x: place[0], y: place[1] }).unwrap();
        let course_deg = Some(random.below(360) as f64);
        let truth = ExactPosition { course_deg, speed_mps: Some(15.0), ..ExactPosition::new(at) };
        let host = tracked(&mut world, &[hub], ExactPosition::new(at));
        fleet.push(Vehicle { host, truth, until_turn: random.below(60) + 1, error: [0.0; 2] });
    }
    world.run_until_attached();
    let versions = |world: &World, fleet: &[Vehicle]| -> u32 {
        fleet.iter().map(|vehicle| world.status(vehicle.host).version.sequence).sum()
    };
    let (mut right, mut asked, mut before) = (0, 0, 0);
    for second in 0..seconds {
        if second == 5 {
            before = versions(&world, &fleet);
        }
        for vehicle in &mut fleet {
            vehicle.drive(&mut random);
            let fix = vehicle.fix(&mut random);
            let cell = datum().cell(fix.at).unwrap();
            match telling {
                Telling::Predicted => world.command(vehicle.host, NodeCommand::Fix(fix)),
                Telling::Still => {
                    let still = ExactPosition { course_deg: None, speed_mps: None, ..fix };
                    world.command(vehicle.host, NodeCommand::Fix(still));
                }
                Telling::Cells if world.status(vehicle.host).cell == cell => {}
                Telling::Cells => world.command(vehicle.host, NodeCommand::Move(cell.into())),
            }
        }
        // Somewhere between two fixes, so that nobody is asked for just when it has spoken.
        let wait = MS * (10 + random.below(950) as u32);
        let end = world.now + SECOND;
        world.run(wait);
        let vehicle = &fleet[random.below(fleet.len() as u64) as usize];
        let truth = predict(&vehicle.truth, wait + MS);
        right += u32::from(is_found(&mut world, requester, vehicle.host, datum().cell(truth.at).unwrap()));
        asked += 1;
        world.run(end.since(world.now));
    }
    let updates = versions(&world, &fleet) - before;
    let hours = (seconds - 5) as f64 / 3_600.0;
    [f64::from(updates) / fleet.len() as f64 / hours, f64::from(right) / f64::from(asked)]
}

#[test]
fn vehicles_are_found_with_few_updates() {
    let [cells, still, predicted] =
        [Telling::Cells, Telling::Still, Telling::Predicted].map(|telling| roads(telling, 100, 400));
    for (name, [updates, right]) in [("cells", cells), ("positions", still), ("predicted", predicted)] {
        println!("100 vehicles, {name}: {updates:.0} updates per hour and vehicle, {:.1} % right", right * 100.0);
    }
    assert!(predicted[1] >= 0.98, "{predicted:?}");
    assert!(predicted[0] * 8.0 < still[0], "{predicted:?} of {still:?}");
}

/// Satellites at 780 km in six planes.
fn constellation() -> impl Iterator<Item = OrbitElements> {
    (0..66_u32).map(|number| {
        let (plane, place) = (number / 11, number % 11);
        OrbitElements {
            epoch_e8: EPOCH_S * 100_000_000 / 86_400,
            mean_motion_e8: 1_434_220_000,
            eccentricity_e7: 2_000,
            inclination_e4: 864_000,
            right_ascension_e4: plane * 316_000,
            perigee_e4: 900_000,
            mean_anomaly_e4: (place * 3_600_000 / 11 + plane * 163_600) % 3_600_000,
            drag_e11: 0,
        }
    })
}

#[test]
fn satellites_are_found_without_updates() {
    const ORBIT: u64 = 6_025;
    let mut world = world(9);
    world.path.delay = MS;
    let hub = hub(&mut world, &[]);
    let requester = world.node((0, 0), &[], &[hub]);
    let fleet: Vec<(HostId, Track)> = constellation()
        .map(|orbit| {
            let host = tracked(&mut world, &[hub], ExactPosition::new("47.37,8.54".parse().unwrap()));
            let unix = unix(&world);
            world.tell_wall_clock(host, unix);
            (host, Track::orbit(orbit).unwrap())
        })
        .collect();
    world.run_until_attached();
    for ((host, _), orbit) in fleet.iter().zip(constellation()) {
        let place = NodePlace { cell: roost_core::directory::NOWHERE, position: None, orbit: Some(orbit) };
        world.command(*host, NodeCommand::Move(place));
    }
    world.run(SECOND);
    let before: u32 = fleet.iter().map(|(host, _)| world.status(*host).version.sequence).sum();
    let (mut right, mut asked, mut random) = (0, 0, SplitMix64::new(4));
    for _ in 0..ORBIT {
        let end = world.now + SECOND;
        world.run(MS * random.below(900) as u32);
        let at = Moment { elapsed: Duration::ZERO, unix: Some(unix(&world) + MS) };
        let cell = |track: &Track| datum().cell(track.position(at)?.at).ok();
        let within: Vec<(HostId, Cell)> =
            fleet.iter().filter_map(|(host, track)| Some((*host, cell(track)?))).collect();
        if let Some((host, cell)) = within.get(random.below(within.len().max(1) as u64) as usize) {
            right += u32::from(is_found(&mut world, requester, *host, *cell));
            asked += 1;
        }
        world.run(end.since(world.now));
    }
    let after: u32 = fleet.iter().map(|(host, _)| world.status(*host).version.sequence).sum();
    println!(
        "66 satellites: {} updates in an orbit, {:.1} % of {asked} lookups right",
        after - before,
        f64::from(right) / f64::from(asked) * 100.0
    );
    let [cells, records] = pass();
    println!("one pass: {cells} cells, {records} records by course and speed");
    assert!(asked > 1_000 && f64::from(right) >= 0.99 * f64::from(asked), "{right} of {asked}");
    assert_eq!(after, before);
    // Each knows where it is itself, though it has told nothing.
    for (host, track) in &fleet {
        let is = track.position(Moment { elapsed: Duration::ZERO, unix: Some(unix(&world)) }).unwrap();
        let status = world.status(*host);
        let known = status.position.expect("an orbit has a place");
        assert!(distance_m(known.at, is.at) < 10_000.0, "{known:?} {is:?}");
    }
    assert!(cells > 5 * records && records > 0, "{cells} {records}");
}

/// Cells and records by course and speed of the satellite that is in reach longest, in one orbit.
fn pass() -> [u32; 2] {
    constellation().map(|orbit| crossings(&Track::orbit(orbit).unwrap())).max().unwrap()
}

fn crossings(track: &Track) -> [u32; 2] {
    let (mut mover, mut last, mut cells, mut records) = (Mover::new(datum()), None, 0, 0);
    let mut elapsed = Duration::ZERO;
    while elapsed < 6_025 * SECOND {
        let unix = Some(Duration::from_secs(EPOCH_S) + elapsed);
        let position = track.position(Moment { elapsed, unix }).unwrap();
        if let Ok(cell) = datum().cell(position.at) {
            cells += u32::from(last.replace(cell) != Some(cell));
            let exact = ExactPosition { accuracy_m: Some(10.0), ..position };
            records += u32::from(mover.observe(Time::ZERO + elapsed, exact).unwrap().is_some());
            elapsed += MS * 50;
        } else {
            elapsed += SECOND;
        }
    }
    [cells, records]
}

#[test]
fn standby_goes_on_following_when_home_dies() {
    for seed in 0..4 {
        let mut world = world(seed);
        let first = hub(&mut world, &[]);
        let hubs = [first, hub(&mut world, &[first])];
        world.run(5 * SECOND);
        let start = ExactPosition {
            course_deg: Some(77.0),
            speed_mps: Some(200.0),
            accuracy_m: Some(10.0),
            ..ExactPosition::new("47.0,8.0".parse().unwrap())
        };
        let node = tracked(&mut world, &hubs, ExactPosition::new(start.at));
        let requester = world.node((0, 0), &[], &[hubs[1]]);
        world.run_until_attached();
        world.run(10 * SECOND);
        world.command(node, NodeCommand::Fix(start));
        let began = world.now;
        world.run(40 * SECOND);
        let version = world.status(node).version;
        world.kill(hubs[0]);
        for pause in [1, 5, 30, 60] {
            world.run(pause * SECOND + MS * 137);
            let truth = predict(&start.rounded(), world.now.since(began));
            let near = Area::Radius { center: datum().cell(truth.at).unwrap(), radius: 1 };
            let ticket = world.lookup(requester, Service::Track, near);
            let NodeEvent::LookupResult { found, .. } = world.outcome(requester, ticket) else { panic!("{seed}") };
            let [candidate] = &found.candidates[..] else { panic!("{seed}: {found:?} after {pause}") };
            let position = candidate.position.unwrap();
            let off_m = position.at.quick_distance_m(predict(&start.rounded(), world.now.since(began)).at);
            assert!(off_m < 60.0, "{seed}: {off_m} m after {pause}");
        }
        let updates = world.status(node).version.sequence - version.sequence;
        assert!(updates <= 2, "{updates}: only the change of homes is told");
    }
}

fn eastward(x: f64, y: f64) -> ExactPosition {
    let at = datum().lat_lon(GridPoint { x, y }).unwrap();
    ExactPosition { course_deg: Some(90.0), speed_mps: Some(100.0), accuracy_m: Some(10.0), ..ExactPosition::new(at) }
}

/// A hub by whose rules nodes offer in the cells from 0 to 9 only, a requester, and a provider at a place.
fn fenced(position: ExactPosition, cell: Cell) -> (World, HostId, HostId) {
    let mut world = world(6);
    let hub = hub(&mut world, &[]);
    let requester = world.node((0, 0), &[], &[hub]);
    let provider = tracked(&mut world, &[hub], position);
    world.set_policy(
        hub,
        "[[rule]]\nallow = [\"request\", \"lookup\"]\n[[rule]]\nallow = [\"offer\"]\n\
         area = { rect = { min = \"0,0\", max = \"9,9\" } }\n",
    );
    world.run_until_attached();
    world.command(provider, NodeCommand::Move(NodePlace { cell, position: Some(position), orbit: None }));
    world.run(SECOND);
    (world, requester, provider)
}

fn is_offered(world: &mut World, requester: HostId) -> bool {
    let ticket = world.lookup(requester, Service::Track, Area::Nearest(Cell::new(0, 0)));
    let NodeEvent::LookupResult { found, .. } = world.outcome(requester, ticket) else { panic!() };
    !found.candidates.is_empty()
}

#[test]
fn mover_offers_where_it_may() {
    // Out of the area after 20 seconds.
    let (mut world, requester, _) = fenced(eastward(8.0, 5.5), Cell::new(8, 5));
    assert!(is_offered(&mut world, requester));
    world.run(10 * SECOND);
    assert!(is_offered(&mut world, requester));
    world.run(15 * SECOND);
    assert!(!is_offered(&mut world, requester), "outside");
    // Into it after 20 seconds, and out again after 100 more.
    let (mut world, requester, provider) = fenced(eastward(-2.0, 5.5), Cell::new(-2, 5));
    assert!(!is_offered(&mut world, requester));
    let version = world.status(provider).version;
    world.run(25 * SECOND);
    assert!(is_offered(&mut world, requester), "inside");
    let updates = world.status(provider).version.sequence - version.sequence;
    assert!(updates <= 2, "{updates}: the hub asks at the border only");
    world.run(100 * SECOND);
    assert!(!is_offered(&mut world, requester));
    // The cell that it tells is not the one in which it is listed.
    let (mut world, requester, _) = fenced(eastward(50.5, 50.5), Cell::new(5, 5));
    assert!(!is_offered(&mut world, requester), "a lie");
}

#[test]
fn cache_names_movers_where_they_are() {
    let mut world = world(8);
    world.path.delay = MS;
    let server = world.hub(Role::Server);
    let cache = world.cache(server);
    let requester = world.node((0, 0), &[], &[cache, server]);
    let start = eastward(0.5, 0.5);
    let provider = tracked(&mut world, &[server], ExactPosition::new(start.at));
    world.run_until_attached();
    world.run(5 * SECOND);
    world.command(provider, NodeCommand::Fix(start));
    let began = world.now;
    for pause in [1, 20, 40] {
        world.run(pause * SECOND);
        for area in [Area::Anywhere, Area::Nearest(Cell::new(0, 0))] {
            let ticket = world.lookup(requester, Service::Track, area);
            let NodeEvent::LookupResult { found, .. } = world.outcome(requester, ticket) else { panic!() };
            let truth = predict(&start, world.now.since(began));
            let off_m = found.candidates[0].position.unwrap().at.quick_distance_m(truth.at);
            assert!(off_m < 60.0, "{off_m} m off after {pause} s in {area:?}");
        }
    }
    assert_eq!(world.hub_at(cache).status(world.now).cached, 0);
}

#[test]
fn standing_node_keeps_its_told_cell() {
    let mut world = world(7);
    let hub = hub(&mut world, &[]);
    let requester = world.node((0, 0), &[], &[hub]);
    let at = |x: f64| ExactPosition { accuracy_m: Some(5.0), speed_mps: Some(0.0), ..eastward(x, 0.5) };
    let node = tracked(&mut world, &[hub], at(0.5));
    world.run_until_attached();
    for x in [0.95, 1.05] {
        world.command(node, NodeCommand::Fix(at(x)));
        world.run(2 * SECOND);
    }
    // Over the border by less than the margin: nobody takes it to be in another cell.
    assert_eq!(world.status(node).cell, Cell::new(0, 0));
    assert!(is_found(&mut world, requester, node, Cell::new(0, 0)));
    world.command(node, NodeCommand::Fix(at(1.2)));
    world.run(2 * SECOND);
    assert_eq!(world.status(node).cell, Cell::new(1, 0));
}

#[test]
fn watcher_hears_of_nodes_that_drive_in_and_out() {
    let mut world = world(4);
    let hub = hub(&mut world, &[]);
    let at = datum().lat_lon(GridPoint { x: -0.5, y: 0.5 }).unwrap();
    let node = tracked(&mut world, &[hub], ExactPosition::new(at));
    let watcher = world.node((9, 9), &[], &[hub]);
    world.run_until_attached();
    let ticket = world.ticket(watcher);
    let area = Area::Rectangle { min: Cell::new(0, 0), max: Cell::new(1, 0) };
    world.command(watcher, NodeCommand::Watch { ticket, services: ServiceSet::ALL, area, names: false });
    world.run(SECOND);
    let eastward = ExactPosition { course_deg: Some(90.0), speed_mps: Some(100.0), ..ExactPosition::new(at) };
    world.command(node, NodeCommand::Fix(eastward));
    let version = world.status(node).version;
    world.run(40 * SECOND);
    let changes = world.events(watcher).iter().filter_map(|(time, event)| match event {
        NodeEvent::Changed { change, .. } => Some((*time, change.updated.len(), change.removed.len())),
        _ => None,
    });
    let told: Vec<(usize, usize)> =
        changes.map(|(_, come, gone)| (come, gone)).filter(|told| *told != (0, 0)).collect();
    assert_eq!((told, world.status(node).version), (vec![(1, 0), (0, 1)], version));
}

#[test]
fn parents_know_the_way_ahead() {
    let mut world = world(8);
    let parent = world.hub_below(1, &[], &[]);
    let children = [0, 1].map(|_| world.hub_below(0, &[parent], &[]));
    let start = ExactPosition::new(datum().origin());
    let node = tracked(&mut world, &children[..1], start);
    let requester = world.node((500, 500), &[], &children[1..]);
    world.run_until_attached();
    world.command(node, NodeCommand::Fix(ExactPosition { course_deg: Some(45.0), speed_mps: Some(250.0), ..start }));
    let began = world.now;
    world.run(20 * SECOND);
    let sent = world.hub_at(children[0]).counters().summaries_sent;
    let mut right = 0;
    for _ in 0..60 {
        world.run(10 * SECOND);
        let truth = predict(
            &ExactPosition { course_deg: Some(45.0), speed_mps: Some(250.0), ..start }.rounded(),
            world.now.since(began),
        );
        let near = Area::Radius { center: datum().cell(truth.at).unwrap(), radius: 2 };
        let ticket = world.lookup(requester, Service::Track, near);
        let NodeEvent::LookupResult { found, .. } = world.outcome(requester, ticket) else { panic!("no answer") };
        right += found.candidates.len();
    }
    let summaries = world.hub_at(children[0]).counters().summaries_sent - sent;
    println!("600 s at 250 m/s through the blocks of a child: {summaries} summaries, {right} of 60 lookups right");
    assert_eq!(right, 60);
    assert!(summaries <= 45, "{summaries}");
}
