//! Several hubs that know one another.

use crate::*;

/// Three hubs; a provider at the second, one at the third; a requester at the first.
fn mesh(seed: u64) -> (World, [HostId; 2], HostId) {
    let mut world = World::new(seed);
    let hubs = world.mesh(3);
    world.run(2 * SECOND);
    let near = world.node((3, 0), &Service::ALL, &[hubs[1]]);
    let far = world.node((8, 0), &Service::ALL, &[hubs[2]]);
    let requester = world.node((0, 0), &[], &[hubs[0]]);
    world.run_until_attached();
    (world, [near, far], requester)
}

#[test]
fn every_area_is_answered_across_hubs() {
    let (mut world, [near, far], requester) = mesh(1);
    let areas = [
        (NEAREST, near),
        (Area::Exact(Cell::new(8, 0)), far),
        (Area::Radius { center: Cell::new(0, 0), radius: 3 }, near),
        (Area::rectangle(Cell::new(5, -1), Cell::new(9, 1)), far),
    ];
    for mode in [RequestMode::Forward, RequestMode::Relay] {
        for (area, provider) in areas {
            let ticket = world.request_with(requester, Service::Image, area, |wanted| wanted.mode = mode);
            let summary = finished(&mut world, requester, ticket);
            assert!(summary.complete, "{area} {mode:?}: {summary:?}");
            assert_eq!(summary.provider, node_id(provider.0), "{area} {mode:?}");
        }
    }
    let ticket = world.request(requester, Service::Image, Area::Anywhere);
    assert!(finished(&mut world, requester, ticket).complete);
}

#[test]
fn home_scope_stays_at_home() {
    let (mut world, [near, _], requester) = mesh(1);
    // Young hubs do not yet say that nobody offers a thing.
    world.run(61 * SECOND);
    for scope in [Scope::Home, Scope::Area] {
        for area in [NEAREST, Area::Exact(Cell::new(3, 0)), Area::Anywhere] {
            let ticket = world.request_with(requester, Service::Image, area, |wanted| wanted.scope = scope);
            assert_eq!(failed(&mut world, requester, ticket), Reason::NotFound, "{scope} {area}");
        }
    }
    let remote = world.node((1, 1), &[Service::Image], &[world.home(requester).unwrap()]);
    world.run_until_attached();
    let ticket = world.request_with(requester, Service::Image, NEAREST, |wanted| wanted.scope = Scope::Home);
    assert_eq!(finished(&mut world, requester, ticket).provider, node_id(remote.0));
    let ticket = world.request(requester, Service::Track, NEAREST);
    assert_eq!(finished(&mut world, requester, ticket).provider, node_id(near.0));
}

#[test]
fn lookup_ranks_providers_across_hubs() {
    let (mut world, [near, far], requester) = mesh(2);
    let ticket = world.lookup(requester, Service::Track, NEAREST);
    let NodeEvent::LookupResult { found, .. } = world.outcome(requester, ticket) else { panic!() };
    let nodes: Vec<_> = found.candidates.iter().map(|candidate| candidate.node).collect();
    assert_eq!(nodes, [near, far].map(|host| node_id(host.0)));
}

#[test]
fn streams_cross_hubs_despite_loss() {
    let (mut world, _, requester) = mesh(3);
    world.path.loss = 300;
    for mode in [RequestMode::Forward, RequestMode::Relay] {
        let ticket = world.request_with(requester, Service::Track, NEAREST, |wanted| {
            wanted.mode = mode;
            wanted.timeout = Some(30 * SECOND);
        });
        let summary = finished(&mut world, requester, ticket);
        assert!(summary.complete, "{mode:?}: {summary:?}");
    }
}

#[test]
fn moved_node_is_found_once() {
    let mut world = World::new(4);
    let hubs = world.mesh(2);
    world.run(2 * SECOND);
    let provider = world.node((5, 5), &Service::ALL, &[hubs[0], hubs[1]]);
    let requester = world.node((0, 0), &[], &[hubs[1]]);
    world.run_until_attached();
    world.command(provider, NodeCommand::Move(Cell::new(6, 6).into()));
    // Only the node's own connection breaks: both hubs live.
    world.break_connections(provider, hubs[0]);
    world.run(SECOND);
    assert_eq!(world.home(provider), Some(hubs[1]));
    let ticket = world.lookup(requester, Service::Video, Area::Anywhere);
    let NodeEvent::LookupResult { found, .. } = world.outcome(requester, ticket) else { panic!() };
    let places: Vec<_> = found.candidates.iter().map(|candidate| (candidate.node, candidate.cell)).collect();
    assert_eq!(places, [(node_id(provider.0), Cell::new(6, 6))]);
    let ticket = world.request(requester, Service::Sensor, Area::Exact(Cell::new(6, 6)));
    assert!(finished(&mut world, requester, ticket).first_byte < 500 * MS);
}

#[test]
fn departed_root_is_not_missed() {
    let mut world = World::new(31);
    let hubs = world.mesh(3);
    let requester = world.node((0, 0), &[], &[hubs[0]]);
    world.run_until_attached();
    world.run(70 * SECOND);
    world.leave_hub(hubs[2]);
    world.run(20 * SECOND);
    let nowhere = Area::Exact(Cell::new(-500, -500));
    let ticket = world.request(requester, Service::Video, nowhere);
    assert_eq!(failed(&mut world, requester, ticket), Reason::NotFound);
    let ticket = world.lookup(requester, Service::Video, nowhere);
    match world.outcome(requester, ticket) {
        NodeEvent::LookupResult { found, .. } => assert_eq!(found.coverage, Coverage::Complete),
        other => panic!("{other:?}"),
    }
}
