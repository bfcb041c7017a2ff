//! The home fails, in every way that it can, and the standby takes over.

use std::net::SocketAddr;

use crate::scene::ThreeHubScene;
use crate::scene::WARM;
use crate::*;

#[test]
fn standby_has_every_nodes_record() {
    let scene = ThreeHubScene::new(1);
    assert_eq!(scene.homes(), [Some(scene.hubs[0]); 4]);
    assert_eq!(scene.nodes().map(|node| scene.world.standby(node)), [Some(scene.hubs[1]); 4]);
    let mirrored = |hub: HostId| scene.world.hub_at(hub).status(scene.world.now).replicas;
    assert_eq!(scene.hubs.iter().map(|hub| mirrored(*hub)).collect::<Vec<_>>(), [0, 4, 0]);
}

/// An entry has the addresses of two hubs, as a name of both does.
#[test]
fn hubs_of_one_name_are_home_and_standby() {
    let mut world = World::new(1);
    let hubs = world.mesh(2);
    world.run(2 * SECOND);
    let node = world.node_with(&hubs, |config| config.hubs = vec![config.hubs.concat()]);
    world.run_until_attached();
    world.run(10 * SECOND);
    assert_eq!((world.home(node), world.standby(node)), (Some(hubs[0]), Some(hubs[1])));
    world.kill(hubs[0]);
    world.run(10 * SECOND);
    assert_eq!(world.home(node), Some(hubs[1]));
}

/// The home takes no list of more addresses than a message holds.
#[test]
fn standby_of_many_addresses_is_named() {
    let mut world = World::new(1);
    let hubs = world.mesh(2);
    world.run(2 * SECOND);
    let node = world.node_with(&hubs, |config| {
        let many = (0..9).map(|host| Address::single(Scheme::Udp, SocketAddr::from(([10, 9, 9, host], 9_999))));
        config.hubs[1].extend(many);
    });
    world.run_until_attached();
    world.run(10 * SECOND);
    assert_eq!(world.standby(node), Some(hubs[1]));
    assert_eq!(world.hub_at(hubs[1]).status(world.now).replicas, 1);
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
    world.run_until_attached();
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
        let mut scene = ThreeHubScene::new(seed);
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
        let mut scene = ThreeHubScene::new(seed);
        scene.run(WARM);
        scene.world.freeze(scene.hubs[0]);
        scene.ask_for(10 * SECOND, 200 * MS);
        assert_eq!(scene.requesters.map(|node| scene.world.home(node)), [Some(scene.hubs[1]); 2], "seed {seed}");
        scene.ask_for(25 * SECOND, SECOND);
        assert_eq!(scene.homes(), [Some(scene.hubs[1]); 4], "seed {seed}");
        scene.end();
    });
}

/// The design promises these limits at these round trips.
#[test]
fn lookup_survives_freezing_home() {
    for_seeds(3, |seed| {
        for (rtt, limit) in [(80 * MS, 300 * MS), (1_200 * MS, 3_300 * MS)] {
            let mut scene = ThreeHubScene::with(seed, rtt / 2, 0);
            scene.world.path.spread = Duration::ZERO;
            scene.run(2 * WARM);
            let requester = scene.requesters[0];
            scene.world.freeze(scene.hubs[0]);
            let asked_at = scene.world.now;
            let ticket = scene.world.lookup(requester, Service::Track, Area::Exact(Cell::new(1, 0)));
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
fn home_silent_in_one_direction() {
    for_seeds(4, |seed| {
        for home_is_deaf in [false, true] {
            let mut scene = ThreeHubScene::new(seed);
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

#[test]
fn dead_distant_standby_is_given_up() {
    let mut scene = ThreeHubScene::new(1);
    let (requester, standby) = (scene.requesters[0], scene.hubs[1]);
    scene.world.delays.insert((requester, standby), 600 * MS);
    scene.run(WARM);
    scene.world.freeze(standby);
    let given_up = (0..60).any(|_| {
        scene.world.mute(requester, scene.hubs[0]);
        let ticket = scene.world.lookup(requester, Service::Track, NEAREST);
        scene.asked.push((requester, ticket));
        scene.run(scene.seven_pto() / 2);
        scene.world.heal();
        scene.run(300 * MS);
        scene.world.standby(requester) != Some(standby)
    });
    assert!(given_up);
    scene.end();
}

/// Only one of them loses the home, and only in one direction.
#[test]
fn home_misses_one_provider() {
    for_seeds(4, |seed| {
        let mut scene = ThreeHubScene::new(seed);
        scene.world.mute(scene.providers[0], scene.hubs[0]);
        scene.ask_for(30 * SECOND, 300 * MS);
        assert_eq!(scene.world.home(scene.providers[0]), Some(scene.hubs[1]), "seed {seed}");
        scene.end();
    });
}

#[test]
fn the_standby_is_dead_too() {
    for_seeds(4, |seed| {
        for frozen in [false, true] {
            let mut scene = ThreeHubScene::new(seed);
            for hub in [scene.hubs[0], scene.hubs[1]] {
                if frozen { scene.world.freeze(hub) } else { scene.world.kill(hub) }
            }
            scene.ask_for(20 * SECOND, 500 * MS);
            scene.run(40 * SECOND);
            assert_eq!(scene.homes(), [Some(scene.hubs[2]); 4], "seed {seed}, frozen: {frozen}");
            scene.checker.check_ended(&scene.world, &scene.asked);
            scene.asked.clear();
            scene.ask_for(3 * SECOND, 100 * MS);
            scene.end();
        }
    });
}

#[test]
fn planned_hand_over_loses_no_request() {
    for_seeds(4, |seed| {
        let mut scene = ThreeHubScene::new(seed);
        scene.ask_for(2 * SECOND, 30 * MS);
        scene.world.leave_hub(scene.hubs[0]);
        scene.ask_for(3 * SECOND, 30 * MS);
        assert_eq!(scene.homes(), [Some(scene.hubs[1]); 4], "seed {seed}");
        let adoptions = scene.world.hub_at(scene.hubs[1]).counters().adoptions;
        assert_eq!(adoptions, 4, "seed {seed}: one packet each");
        let slow = scene.asked.iter().filter_map(|(host, ticket)| match scene.world.hosts[host.0].ending(*ticket) {
            Some(NodeEvent::Finished { summary, .. }) => Some(summary.first_byte),
            _ => None,
        });
        let slowest = slow.max().unwrap();
        assert!(slowest < scene.seven_pto(), "seed {seed}: a request waited for {slowest:?}");
        scene.end();
    });
}

/// Nodes that want nothing leave it one after the other, before the hub is gone.
#[test]
fn leaving_hub_spreads_its_nodes() {
    const NODES: usize = 60;
    for_seeds(2, |seed| {
        let mut world = World::new(seed);
        let hubs = world.mesh(2);
        world.run(2 * SECOND);
        let nodes: Vec<HostId> = (0..NODES).map(|n| world.node((n as i32, 0), &[Service::Video], &hubs)).collect();
        world.run_until_attached();
        world.run(10 * SECOND);
        let leaving = world.home(nodes[0]).unwrap();
        let stays = hubs.iter().copied().find(|hub| *hub != leaving).unwrap();
        let moving: Vec<HostId> = nodes.iter().copied().filter(|node| world.home(*node) == Some(leaving)).collect();
        world.leave_hub(leaving);
        let (mut adopted, mut most) = (world.hub_at(stays).counters().adoptions, 0);
        let first = adopted;
        for _ in 0..12 {
            world.run(100 * MS);
            let now = world.hub_at(stays).counters().adoptions;
            (most, adopted) = (most.max(now - adopted), now);
        }
        assert_eq!(adopted - first, moving.len() as u64, "seed {seed}");
        assert!(moving.len() > 20 && most <= moving.len() as u64 / 3, "seed {seed}: {most} of {}", moving.len());
        assert!(moving.iter().all(|node| world.is_attached(*node)), "seed {seed}");
    });
}

#[test]
fn old_epoch_restart_without_home() {
    for_seeds(4, |seed| {
        let mut scene = ThreeHubScene::new(seed);
        let (provider, hubs) = (scene.providers[0], scene.hubs.clone());
        let before = scene.world.status(provider).version;
        scene.world.kill(hubs[0]);
        scene.world.restart_node(provider, &hubs, 1);
        scene.world.command(provider, NodeCommand::Move(Cell::new(1, 0).into()));
        let services = Service::ALL.into_iter().collect();
        let offer = NodeCommand::Reconfigure { services, max_streams: 8, uplink_kbps: None };
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
        let mut scene = ThreeHubScene::new(seed);
        scene.ask_for(SECOND, 100 * MS);
        scene.world.jump(scene.hubs[0], 300 * SECOND);
        scene.ask_for(5 * SECOND, 100 * MS);
        assert!(scene.homes().iter().all(Option::is_some), "seed {seed}");
        scene.end();
    });
}

#[test]
fn thawed_home_has_stale_records() {
    for_seeds(4, |seed| {
        for span in [10, 200] {
            let mut scene = ThreeHubScene::new(seed);
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
        let mut scene = ThreeHubScene::new(seed);
        let provider = scene.providers[0];
        for round in 0..20 {
            let hub = scene.world.home(provider).unwrap_or(scene.hubs[0]);
            scene.world.break_connections(provider, hub);
            if round % 3 == 0 {
                scene.world.command(provider, NodeCommand::Move(Cell::new(1, round % 2).into()));
            }
            scene.ask_for(MS * (100 + round as u32 * 90), 100 * MS);
        }
        scene.run(5 * SECOND);
        let holders = scene.hubs.iter().filter(|hub| {
            let index = scene.world.hub_at(**hub).index(scene.world.now, None, 100);
            index.iter().any(|entry| entry.node == node_id(provider.0) && entry.home.is_none())
        });
        assert_eq!(holders.count(), 1, "seed {seed}: one hub has it");
        scene.checker.check_ended(&scene.world, &scene.asked);
    });
}

#[test]
fn a_provider_goes_without_leave() {
    for_seeds(4, |seed| {
        let mut scene = ThreeHubScene::new(seed);
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
        let mut scene = ThreeHubScene::with(seed, MS * (5 + seed as u32 * 7 % 60), 50);
        scene.ask_for(60 * SECOND, SECOND);
        scene.world.kill(scene.hubs[0]);
        scene.ask_for(30 * SECOND, 500 * MS);
        assert!(scene.homes().iter().all(|home| home.is_some_and(|home| home != scene.hubs[0])), "seed {seed}");
        scene.end();
    });
}

#[test]
fn connections_of_six_hundred_milliseconds() {
    for_seeds(4, |seed| {
        let mut scene = ThreeHubScene::with(seed, 600 * MS, 0);
        scene.run(WARM);
        scene.ask_for(5 * SECOND, 500 * MS);
        scene.world.freeze(scene.hubs[0]);
        scene.ask_for(40 * SECOND, SECOND);
        assert_eq!(scene.homes(), [Some(scene.hubs[1]); 4], "seed {seed}");
        scene.end();
    });
}
