//! Hosts that stand still for a while.

use crate::*;

const HOUR: Duration = Duration::from_secs(3600);

fn found(world: &mut World, node: HostId) -> LookupResult {
    let ticket = world.lookup(node, Service::Video, ANYWHERE);
    match world.outcome(node, ticket) {
        NodeEvent::LookupResult { found, .. } => found,
        other => panic!("{other:?}"),
    }
}

#[test]
fn hub_that_stood_still_doubts_leases() {
    let mut world = World::new(1);
    let hub = world.hub(Role::SuperNode);
    let [lives, gone] = [(1, 0), (2, 0)].map(|cell| world.node(cell, &[Service::Video], &[hub]));
    let requester = world.node((0, 0), &[], &[hub]);
    world.run_until_attached();
    world.run(90 * SECOND);
    let listed = |found: &LookupResult| found.candidates.iter().map(|candidate| candidate.node).collect::<Vec<_>>();
    let before = found(&mut world, requester);
    assert_eq!((listed(&before).len(), before.coverage), (2, Coverage::Complete));
    world.freeze(gone);
    world.suspend(hub, HOUR);
    let after = found(&mut world, requester);
    assert_eq!(after.coverage, Coverage::HubStarting);
    assert!(!listed(&after).contains(&node_id(gone.0)), "its lease ended long ago");
    world.run(61 * SECOND);
    let later = found(&mut world, requester);
    assert_eq!((listed(&later), later.coverage), (vec![node_id(lives.0)], Coverage::Complete));
}

#[test]
fn short_sleep_ends_no_lease() {
    let mut world = World::new(2);
    let hub = world.hub(Role::SuperNode);
    let node = world.node((1, 0), &[Service::Video], &[hub]);
    let requester = world.node((0, 0), &[], &[hub]);
    world.run_until_attached();
    world.run(90 * SECOND);
    world.suspend(hub, 5 * SECOND);
    let after = found(&mut world, requester);
    assert_eq!(after.candidates.iter().map(|candidate| candidate.node).collect::<Vec<_>>(), [node_id(node.0)]);
    assert_eq!(after.coverage, Coverage::HubStarting);
}

#[test]
fn node_renews_at_once_after_suspend() {
    let mut world = World::new(3);
    let hub = world.hub(Role::SuperNode);
    let node = world.node((1, 0), &[Service::Video], &[hub]);
    world.run_until_attached();
    world.run(10 * SECOND);
    let renewed = |world: &mut World| {
        world.corpus = Some(Vec::new());
        world.run(SECOND);
        let said = world.corpus.take().unwrap_or_default();
        said.iter()
            .any(|message| matches!(Message::decode(message), Ok(Message::Registration(RegistrationMessage::Renew(_)))))
    };
    assert!(!renewed(&mut world));
    world.suspend(node, HOUR);
    assert!(renewed(&mut world));
}

const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);

#[test]
fn all_come_back_after_suspend() {
    for slept in [HOUR, WEEK] {
        for who in [[true, false], [false, true], [true, true]] {
            let mut world = World::new(4);
            let hubs = world.mesh(2);
            let node = world.node((1, 0), &[Service::Video], &hubs);
            let requester = world.node((0, 0), &[], &hubs);
            world.run_until_attached();
            world.run(90 * SECOND);
            let home = world.home(node).unwrap();
            let hosts = [node, home].into_iter().zip(who).filter(|(_, is_suspended)| *is_suspended);
            hosts.for_each(|(host, _)| world.suspend(host, slept));
            world.run(10 * SECOND);
            assert!(world.is_attached(node) && world.is_attached(requester), "{slept:?} {who:?}");
            let found = found(&mut world, requester);
            let nodes: Vec<_> = found.candidates.iter().map(|candidate| candidate.node).collect();
            assert_eq!(nodes, [node_id(node.0)], "{slept:?} {who:?}");
        }
    }
}

#[test]
fn resumed_hub_keeps_living_connections() {
    let mut world = World::new(5);
    let hubs = world.mesh(2);
    world.run_until_attached();
    world.run(30 * SECOND);
    world.suspend(hubs[0], HOUR);
    world.run(30 * SECOND);
    let status = world.hub_at(hubs[0]).status(world.now + HOUR);
    assert!(status.hubs[0].up.is_some_and(|up| up > HOUR), "{:?}", status.hubs);
}

#[test]
fn resumed_hub_notices_dead_sibling() {
    let mut world = World::new(6);
    let hubs = world.mesh(2);
    world.run_until_attached();
    world.run(30 * SECOND);
    world.freeze(hubs[1]);
    world.suspend(hubs[0], HOUR);
    world.run(30 * SECOND);
    assert_eq!(world.hub_at(hubs[0]).status(world.now + HOUR).hubs[0].up, None);
}

#[test]
fn resumed_node_asks_everyone() {
    let (mut world, hub, provider, requester) = single_hub_world(7, Role::SuperNode);
    let ticket = world.request(requester, Service::Image, ANYWHERE);
    assert!(finished(&mut world, requester, ticket).complete);
    world.corpus = Some(Vec::new());
    world.suspend(requester, 10 * SECOND);
    world.run(SECOND / 10);
    let said = world.corpus.take().unwrap_or_default();
    let pings =
        said.iter().filter(|message| matches!(Message::decode(message), Ok(Message::Probe(ProbeMessage::Ping(_)))));
    assert_eq!(pings.count(), 1, "to {provider:?} as {hub:?} gets a renewal");
}
