//! The four services in every mode.

use crate::*;

#[test]
fn services_arrive_whole_in_every_mode() {
    let ways = [
        (Role::SuperNode, RequestMode::Forward),
        (Role::SuperNode, RequestMode::Relay),
        (Role::Server, RequestMode::Forward),
    ];
    for (role, mode) in ways {
        let (mut world, _, provider, requester) = single_hub_world(1, role);
        for service in Service::ALL {
            let area = Area::Exact(Cell::new(27, 92));
            let ticket = world.request_with(requester, service, area, |wanted| wanted.mode = mode);
            let summary = finished(&mut world, requester, ticket);
            assert!(summary.complete, "{service} {mode:?}: {summary:?}");
            assert_eq!(summary.digest_ok, Some(true), "{service} {mode:?}");
            assert_eq!(summary.relayed, mode == RequestMode::Relay || role == Role::Server);
            assert_eq!(summary.provider, node_id(provider.0));
            assert_eq!(summary.lost + summary.duplicates + summary.reordered, 0);
            let delivered = world.delivered(requester, ticket);
            assert_eq!(delivered.len() as u64, summary.bytes);
            assert!(service.is_stream() || delivered == object(delivered.len()));
        }
        world.run(10 * SECOND);
        assert!(world.status(provider).sessions.is_empty());
        assert_eq!(world.hosts[provider.0].opened.len(), 4);
    }
}

#[test]
fn stream_has_requested_rate_and_length() {
    let (mut world, _, _, requester) = single_hub_world(2, Role::SuperNode);
    let ticket = world.request_with(requester, Service::Video, ANYWHERE, |wanted| wanted.duration = Some(5 * SECOND));
    let summary = finished(&mut world, requester, ticket);
    assert!((690_000..=710_000).contains(&summary.bits_per_second), "{summary:?}");
    assert!(summary.elapsed > 5 * SECOND && summary.elapsed < 6 * SECOND, "{summary:?}");
    assert_eq!(summary.jitter, Duration::ZERO);
}

#[test]
fn warm_small_object_takes_three_messages() {
    let (mut world, _, provider, requester) = single_hub_world(3, Role::SuperNode);
    world.hosts[provider.0].object_bytes = Some(400);
    let cold = world.request(requester, Service::Sensor, ANYWHERE);
    finished(&mut world, requester, cold);
    world.run(SECOND);
    let before = world.messages;
    let warm = world.request(requester, Service::Sensor, ANYWHERE);
    let summary = finished(&mut world, requester, warm);
    world.run(3 * SECOND);
    assert_eq!(world.messages - before, 3);
    assert_eq!(summary.first_byte, 60 * MS, "one way each: to the hub, to the provider, back");
    assert_eq!(world.delivered(requester, warm), object(400));
}

#[test]
fn idle_node_sends_only_renewals() {
    let (mut world, _, _, _) = single_hub_world(4, Role::SuperNode);
    world.run(5 * SECOND);
    let before = world.messages;
    world.run(100 * SECOND);
    assert_eq!(world.messages - before, 2 * 5 * 2, "two nodes, five renewals each, with their answers");
}

#[test]
fn what_nobody_offers_is_not_found() {
    let (mut world, _, _, requester) = single_hub_world(5, Role::SuperNode);
    world.run(61 * SECOND);
    let ticket = world.request(requester, Service::Image, Area::Exact(Cell::new(1, 1)));
    assert_eq!(failed(&mut world, requester, ticket), Reason::NotFound);
}

#[test]
fn an_empty_object_is_an_object() {
    let (mut world, _, provider, requester) = single_hub_world(6, Role::SuperNode);
    world.hosts[provider.0].object_bytes = Some(0);
    let ticket = world.request(requester, Service::Image, ANYWHERE);
    let summary = finished(&mut world, requester, ticket);
    assert!(summary.complete && summary.bytes == 0, "{summary:?}");
}

#[test]
fn a_damaged_object_is_never_complete() {
    for role in [Role::SuperNode, Role::Server] {
        let (mut world, _, _, requester) = single_hub_world(8, role);
        world.damage_chunks = true;
        let ticket = world.request(requester, Service::Image, ANYWHERE);
        let summary = finished(&mut world, requester, ticket);
        assert_eq!((summary.complete, summary.digest_ok), (false, Some(false)));
        assert_eq!(summary.reason, Some(Reason::Protocol));
    }
}

#[test]
fn a_cancelled_request_stops_its_provider() {
    let (mut world, _, provider, requester) = single_hub_world(9, Role::SuperNode);
    for early in [10 * MS, 70 * MS, SECOND] {
        let ticket = world.request(requester, Service::Video, ANYWHERE);
        world.run(early);
        world.cancel(requester, ticket);
        assert_eq!(failed(&mut world, requester, ticket), Reason::Cancelled);
        world.run(SECOND);
        assert!(world.status(provider).sessions.is_empty(), "after {early:?}");
    }
}

#[test]
fn a_remote_answers_pings() {
    let (mut world, _, _, requester) = single_hub_world(10, Role::SuperNode);
    let ticket = world.ping(requester, None);
    let NodeEvent::Pong { rtt, .. } = world.outcome(requester, ticket) else { panic!() };
    assert_eq!(rtt, 40 * MS);
    let stranger = world.ping(requester, Some(node_id(200)));
    assert_eq!(failed(&mut world, requester, stranger), Reason::Unreachable);
}

#[test]
fn excess_requests_are_declined_at_once() {
    let (mut world, hub, _, requester) = single_hub_world(11, Role::SuperNode);
    world.freeze(hub);
    let tickets: Vec<_> = (0..300).map(|_| world.request(requester, Service::Sensor, ANYWHERE)).collect();
    assert_eq!(world.status(requester).requests.len(), MAX_REQUESTS);
    for ticket in tickets {
        failed(&mut world, requester, ticket);
        assert_eq!(world.hosts[requester.0].endings(ticket).count(), 1);
    }
}
