//! Finding a home, losing it, moving, leaving.

use crate::*;

/// Two hubs that know one another, a provider and a requester who know both.
fn two_hubs(seed: u64) -> (World, [HostId; 2], HostId, HostId) {
    let mut world = World::new(seed);
    let hubs = world.mesh(2);
    let provider = world.node((5, 5), &Service::ALL, &[hubs[0], hubs[1]]);
    let requester = world.node((0, 0), &[], &[hubs[0], hubs[1]]);
    world.run_until_attached();
    (world, [hubs[0], hubs[1]], provider, requester)
}

fn found(world: &mut World, host: HostId, service: Service, area: Area) -> Vec<Cell> {
    let ticket = world.lookup(host, service, area);
    match world.outcome(host, ticket) {
        NodeEvent::LookupResult { found, .. } => found.candidates.iter().map(|candidate| candidate.cell).collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn requests_complete_after_home_dies() {
    let (mut world, hubs, _, requester) = two_hubs(1);
    let stream = world.request(requester, Service::Video, ANYWHERE);
    world.run(SECOND);
    world.kill(hubs[0]);
    let ticket = world.request(requester, Service::Image, ANYWHERE);
    assert!(finished(&mut world, requester, ticket).complete);
    let summary = finished(&mut world, requester, stream);
    assert!(summary.complete && summary.lost == 0, "a stream under way goes on: {summary:?}");
    assert_eq!(world.status(requester).counters.failovers, 1);
}

#[test]
fn request_detects_frozen_home() {
    let (mut world, hubs, _, requester) = two_hubs(2);
    world.run(SECOND);
    world.freeze(hubs[0]);
    let from = world.now;
    let ticket = world.request_with(requester, Service::Image, ANYWHERE, |wanted| wanted.timeout = Some(60 * SECOND));
    assert!(world.run_while(60 * SECOND, |world| world.home(requester) == Some(hubs[1])));
    assert!(world.now - from < 3 * SECOND, "noticed after {:?}", world.now - from);
    assert!(finished(&mut world, requester, ticket).complete);
}

#[test]
fn renewal_detects_frozen_home() {
    let (mut world, hubs, provider, _) = two_hubs(3);
    world.run(SECOND);
    world.freeze(hubs[0]);
    world.run(25 * SECOND);
    assert!(world.is_attached(provider));
    assert_eq!(world.home(provider), Some(hubs[1]));
}

#[test]
fn nodes_reattach_to_revived_hub() {
    let (mut world, hub, _, requester) = single_hub_world(4, Role::SuperNode);
    world.kill(hub);
    world.run(5 * SECOND);
    assert!(!world.is_attached(requester));
    world.revive_hub(hub);
    world.run_until_attached();
    let ticket = world.request(requester, Service::Sensor, ANYWHERE);
    assert!(finished(&mut world, requester, ticket).complete);
}

#[test]
fn request_waits_for_a_home() {
    let (mut world, hub, _, requester) = single_hub_world(5, Role::SuperNode);
    world.kill(hub);
    world.run(SECOND);
    let ticket = world.request_with(requester, Service::Sensor, ANYWHERE, |wanted| wanted.timeout = Some(60 * SECOND));
    world.run(5 * SECOND);
    world.revive_hub(hub);
    assert!(finished(&mut world, requester, ticket).complete);
}

#[test]
fn move_replaces_old_position_at_once() {
    let (mut world, _, provider, requester) = single_hub_world(6, Role::SuperNode);
    let to = Cell::new(30, 40);
    world.command(provider, NodeCommand::Move(to.into()));
    world.run(20 * MS + MS);
    assert_eq!(found(&mut world, requester, Service::Video, Area::Exact(to)), [to]);
    assert_eq!(found(&mut world, requester, Service::Video, Area::Exact(Cell::new(27, 92))), []);
    let ticket = world.request(requester, Service::Sensor, Area::Exact(to));
    assert_eq!(finished(&mut world, requester, ticket).cell, to);
}

#[test]
fn move_is_retransmitted_until_confirmed() {
    let (mut world, _, provider, requester) = single_hub_world(7, Role::SuperNode);
    world.path.loss = 600;
    let to = Cell::new(30, 40);
    world.command(provider, NodeCommand::Move(to.into()));
    world.run(20 * SECOND);
    world.path.loss = 0;
    world.run(20 * SECOND);
    assert_eq!(found(&mut world, requester, Service::Video, Area::Exact(to)), [to]);
}

#[test]
fn leaving_node_is_withdrawn_at_once() {
    let (mut world, _, provider, requester) = single_hub_world(8, Role::SuperNode);
    world.command(provider, NodeCommand::Leave);
    world.run(20 * MS + MS);
    assert_eq!(found(&mut world, requester, Service::Video, ANYWHERE), []);
    world.run(60 * SECOND);
    assert_eq!(world.status(provider).attachment, "left");
}

#[test]
fn node_fails_over_to_learned_hub() {
    let mut world = World::new(9);
    let hubs = world.mesh(2);
    world.run(2 * SECOND);
    let node = world.node((0, 0), &[], &[hubs[0]]);
    world.run_until_attached();
    world.kill(hubs[0]);
    world.run(30 * SECOND);
    assert_eq!(world.home(node), Some(hubs[1]));
}

#[test]
fn missing_hub_is_dialed_with_backoff() {
    let mut world = World::new(10);
    let hub = world.hub(Role::SuperNode);
    world.hosts[hub.0].alive = false;
    let node = world.node((0, 0), &[], &[hub]);
    world.run(300 * SECOND);
    let tries = world.events(node).iter().filter(|(_, event)| matches!(event, NodeEvent::Detached { .. })).count();
    assert!((15..30).contains(&tries), "{tries}");
}

#[test]
fn restart_overcomes_later_epoch() {
    let mut world = World::new(11);
    let hub = world.hub(Role::SuperNode);
    let node = world.node_with(&[hub], |config| config.epoch = 5_000);
    world.run_until_attached();
    world.restart_node(node, &[hub], 1);
    world.run_until_attached();
    let version = world.status(node).version;
    assert!(version.epoch == 5_000 && version.sequence > 1, "{version:?}");
}

#[test]
fn leaving_hub_redirects_and_drains_relays() {
    let (mut world, hubs, provider, requester) = two_hubs(12);
    let stream = world.request_with(requester, Service::Track, ANYWHERE, |wanted| wanted.mode = RequestMode::Relay);
    world.run(SECOND);
    world.leave_hub(hubs[0]);
    let ticket = world.request(requester, Service::Sensor, ANYWHERE);
    let summary = finished(&mut world, requester, ticket);
    // The provider is held by what it relays, for as long as the hub drains at most.
    assert!(summary.complete && summary.elapsed < DRAIN, "{summary:?}");
    let summary = finished(&mut world, requester, stream);
    assert!(summary.complete && summary.lost == 0, "{summary:?}");
    world.run(30 * SECOND);
    assert_eq!([provider, requester].map(|node| world.home(node)), [Some(hubs[1]); 2]);
}

#[test]
fn who_does_not_answer_is_named() {
    for (deadline, words) in
        [(200 * MS, "the hub has not answered within 200ms"), (8 * SECOND, "no hub could be reached")]
    {
        let (mut world, hub, _, requester) = single_hub_world(31, Role::SuperNode);
        world.freeze(hub);
        let ticket = world.request_with(requester, Service::Image, ANYWHERE, |wanted| {
            wanted.timeout = Some(deadline);
        });
        match world.outcome(requester, ticket) {
            NodeEvent::Failed { detail, .. } => assert!(detail.starts_with(words), "{detail}"),
            other => panic!("{other:?}"),
        }
    }
    let (mut world, _, provider, requester) = single_hub_world(32, Role::SuperNode);
    world.kill(provider);
    let ticket = world.request(requester, Service::Image, ANYWHERE);
    match world.outcome(requester, ticket) {
        NodeEvent::Failed { detail, .. } => {
            assert_eq!(detail, "no provider of image anywhere could be reached");
        }
        other => panic!("{other:?}"),
    }
}

/// The deadline may come while the request waits to be put to the hub again.
#[test]
fn answering_hub_not_reported_unreachable() {
    for tenths in 5..50 {
        let (mut world, _, provider, requester) = single_hub_world(33, Role::SuperNode);
        world.kill(provider);
        let ticket = world.request_with(requester, Service::Image, ANYWHERE, |wanted| {
            wanted.timeout = Some(100 * MS * tenths);
        });
        match world.outcome(requester, ticket) {
            NodeEvent::Failed { detail, .. } => assert!(!detail.starts_with("no hub"), "{tenths}: {detail}"),
            other => panic!("{other:?}"),
        }
    }
}
