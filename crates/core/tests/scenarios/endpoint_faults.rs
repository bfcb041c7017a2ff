//! Faults at the ends of a request: providers that are full, whose uplink is full, whose certificate ends; nodes
//! that start again or whose clock jumps.

use roost_core::directory::LONGEST_HOLD;

use crate::scene::ThreeHubScene;
use crate::*;

/// A hub, a near and a far provider of video with room for so many streams and
/// so much uplink, and requesters.
fn filling(seed: u64, max_streams: u16, uplink_kbps: Option<u32>) -> (World, [HostId; 2], Vec<HostId>) {
    let mut world = World::new(seed);
    world.path.delay = MS * (2 + seed as u32 * 7 % 60);
    world.path.spread = world.path.delay / 4;
    world.path.loss = seed as u32 % 4 * 10;
    let hub = world.hub(Role::SuperNode);
    let providers = [1, 9].map(|x| {
        world.node_with(&[hub], |config| {
            config.services = [Service::Video].into_iter().collect();
            config.cell = Cell::new(x, 0);
            (config.max_streams, config.uplink_kbps) = (max_streams, uplink_kbps);
        })
    });
    let requesters = (0..4).map(|_| world.node((0, 0), &[], &[hub])).collect();
    world.run_until_attached();
    world.run(3 * SECOND);
    (world, providers, requesters)
}

/// Four ask for video again and again; no provider ever has more than `most`
/// streams, everybody is served or told that all are busy, and afterwards
/// there is room again.
fn is_never_overfilled(seed: u64, (mut world, providers, requesters): (World, [HostId; 2], Vec<HostId>), most: usize) {
    let (mut checker, mut asked): (_, Vec<(HostId, Ticket)>) = (InvariantChecker::new(seed), Vec::new());
    for round in 0..20u64 {
        let requester = requesters[(seed + round * 3) as usize % 4];
        asked.push((requester, world.request(requester, Service::Video, NEAREST)));
        run_checked(&mut world, &mut checker, MS * ((seed * 131 + round * 617) % 900) as u32);
        for provider in providers {
            let streams = world.status(provider).sessions.len();
            assert!(streams <= most, "seed {seed}: {streams} streams at {provider:?}");
        }
    }
    run_checked(&mut world, &mut checker, 20 * SECOND);
    checker.check_ended(&world, &asked);
    let (mut served, mut busy) = (0, 0);
    for (host, ticket) in &asked {
        match world.hosts[host.0].ending(*ticket) {
            Some(NodeEvent::Finished { summary, .. }) if summary.complete => served += 1,
            Some(NodeEvent::Failed { reason: Reason::Busy, .. }) => busy += 1,
            // A requester of two streams gives one to another that has none.
            Some(NodeEvent::Finished { summary, .. }) if summary.reason == Some(Reason::Busy) => busy += 1,
            other => panic!("seed {seed}: {other:?}"),
        }
    }
    assert!(served >= 2 && served + busy == asked.len(), "seed {seed}: {served} served, {busy} turned down");
    // A request of which a message is lost goes to the other one, rightly, and so
    // does one after a provider's failure: there is neither any more.
    world.path.loss = 0;
    world.run(LONGEST_HOLD);
    let ticket = world.request(requesters[0], Service::Video, NEAREST);
    assert_eq!(finished(&mut world, requesters[0], ticket).provider, node_id(providers[0].0), "seed {seed}");
}

#[test]
fn providers_that_are_busy() {
    for_seeds(4, |seed| is_never_overfilled(seed, filling(seed, 1, None), 1));
}

#[test]
fn uplinks_that_are_full() {
    // A video takes 700 kbit/s.
    for_seeds(4, |seed| is_never_overfilled(seed, filling(seed, 8, Some(1_500)), 2));
}

/// From then on nobody admits it: hub, requesters, other providers.
#[test]
fn revoked_provider_stops_serving() {
    for_seeds(4, |seed| {
        let mut scene = ThreeHubScene::new(seed);
        let ([first, second], requester) = (scene.providers, scene.requesters[0]);
        let near = Area::Exact(Cell::new(1, 0));
        let stream = scene.world.request_with(requester, Service::Video, near, |wanted| {
            wanted.duration = Some(60 * SECOND);
        });
        scene.run(SECOND + MS * (seed * 97 % 3_000) as u32);
        assert_eq!(scene.world.status(first).sessions.len(), 1, "seed {seed}");
        for other in 0..scene.world.hosts.len() {
            if HostId(other) != first {
                scene.world.bar(HostId(other), first);
            }
        }
        scene.run(2 * SECOND);
        let summary = finished(&mut scene.world, requester, stream);
        assert!(!summary.complete && summary.elapsed < 10 * SECOND, "seed {seed}: {summary:?}");
        assert_eq!(summary.broken.as_deref(), Some("it was revoked"), "seed {seed}");
        assert!(scene.world.status(first).sessions.is_empty(), "seed {seed}: it goes on");
        for _ in 0..3 {
            let ticket = scene.world.request(requester, Service::Sensor, NEAREST);
            let summary = finished(&mut scene.world, requester, ticket);
            assert!(summary.complete && summary.provider == node_id(second.0), "seed {seed}: {summary:?}");
        }
    });
}

#[test]
fn restart_with_old_epoch_gets_newer() {
    for_seeds(4, |seed| {
        let mut scene = ThreeHubScene::new(seed);
        let (provider, hubs) = (scene.providers[0], scene.hubs.clone());
        let before = scene.world.status(provider).version;
        let restart = if seed % 2 == 0 { World::restart_node } else { World::restart_silently };
        restart(&mut scene.world, provider, &hubs, 1);
        let services = Service::ALL.into_iter().collect();
        let offer = NodeCommand::Reconfigure { services, max_streams: 8, uplink_kbps: None };
        scene.world.command(provider, offer);
        let to = Cell::new(7, 7);
        scene.world.command(provider, NodeCommand::Move(to.into()));
        scene.run(15 * SECOND);
        let after = scene.world.status(provider).version;
        assert!(after > before, "seed {seed}: {after:?} after {before:?}");
        let requester = scene.requesters[1];
        let ticket = scene.world.request(requester, Service::Image, Area::Exact(to));
        let summary = finished(&mut scene.world, requester, ticket);
        assert!(summary.complete && summary.provider == node_id(provider.0), "seed {seed}: {summary:?}");
    });
}

#[test]
fn a_nodes_clock_jumps() {
    for_seeds(4, |seed| {
        let mut scene = ThreeHubScene::new(seed);
        let node = scene.nodes()[seed as usize % 4];
        scene.ask_for(SECOND, 100 * MS);
        scene.run(5 * SECOND);
        scene.world.jump(node, Duration::from_secs([5, 90, 4_000][seed as usize / 4 % 3]));
        scene.run(5 * SECOND);
        assert!(scene.homes().iter().all(Option::is_some), "seed {seed}");
        scene.ask_for(5 * SECOND, 100 * MS);
        let ticket = scene.world.request(scene.requesters[0], Service::Track, ANYWHERE);
        scene.asked.push((scene.requesters[0], ticket));
        scene.end();
    });
}
