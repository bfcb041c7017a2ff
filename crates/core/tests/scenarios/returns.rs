//! A hub that has died and starts again, before its nodes have noticed.

use crate::*;

/// A hub that has just started again, at which the requester is and the provider not yet.
fn alone(seed: u64, role: Role) -> (World, HostId, HostId) {
    let (mut world, hub, provider, requester) = single_hub_world(seed, role);
    world.dial_timeout = 300 * MS;
    world.run(30 * SECOND);
    world.cut(provider, hub);
    world.kill(hub);
    world.revive_hub(hub);
    world.hosts[hub.0].alive = true;
    assert!(world.run_while(5 * SECOND, |world| world.home(requester) == Some(hub) && world.is_attached(requester)));
    (world, provider, requester)
}

#[test]
fn a_hub_back_refuses_nobody_unknown() {
    let ways = [
        (Role::SuperNode, RequestMode::Forward),
        (Role::SuperNode, RequestMode::Relay),
        (Role::Server, RequestMode::Forward),
    ];
    for (role, mode) in ways {
        for (number, after) in [200 * MS, SECOND, 3 * SECOND, 6 * SECOND].into_iter().enumerate() {
            for area in [ANYWHERE, NEAREST] {
                let (mut world, provider, requester) = alone(number as u64, role);
                let ticket = world.request_with(requester, Service::Sensor, area, |wanted| wanted.mode = mode);
                world.run(after);
                world.heal();
                assert!(world.run_while(4 * SECOND, |world| world.is_attached(provider)), "{role:?} {after:?}");
                let back = world.now;
                let summary = finished(&mut world, requester, ticket);
                assert!(summary.complete, "{role:?} {mode:?} {after:?}: {summary:?}");
                // Half a round trip to the provider, a handshake of two, and back; or a pause between two holds.
                let took = world.now.since(back);
                assert!(took <= 600 * MS, "{role:?} {mode:?} {area}, {after:?}: {took:?}");
            }
        }
    }
}

#[test]
fn missing_service_is_reported_in_time() {
    let (mut world, _, requester) = alone(7, Role::SuperNode);
    let began = world.now;
    let ticket = world.request(requester, Service::Sensor, ANYWHERE);
    assert_eq!(failed(&mut world, requester, ticket), Reason::NotYetKnown);
    assert!(world.now.since(began) <= 10 * SECOND, "{:?}", world.now.since(began));
}
