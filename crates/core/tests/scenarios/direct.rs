//! Requests to a provider that the requester knows, without a hub.

use crate::*;

fn provider(host: HostId) -> Option<Provider> {
    Some(Provider { node: node_id(host.0), addresses: addresses(host.0) })
}

fn ask(world: &mut World, requester: HostId, host: HostId, service: Service) -> Ticket {
    world.request_with(requester, service, ANYWHERE, |wanted| wanted.provider = provider(host))
}

#[test]
fn known_provider_needs_no_hub() {
    let (mut world, hub, host, requester) = single_hub_world(1, Role::SuperNode);
    world.freeze(hub);
    for (service, scheme) in Service::ALL.into_iter().zip([Scheme::Udp, Scheme::Tcp, Scheme::Quic, Scheme::Udp]) {
        let ticket = world.request_with(requester, service, ANYWHERE, |wanted| {
            (wanted.provider, wanted.transports) = (provider(host), SchemeSet::only(scheme));
        });
        let summary = finished(&mut world, requester, ticket);
        assert!(summary.complete && !summary.relayed && summary.scheme == scheme, "{summary:?}");
        assert_eq!(summary.provider, node_id(host.0));
    }
}

#[test]
fn open_connection_needs_two_messages() {
    let (mut world, _, host, requester) = single_hub_world(2, Role::SuperNode);
    world.hosts[host.0].object_bytes = Some(400);
    let first = ask(&mut world, requester, host, Service::Sensor);
    finished(&mut world, requester, first);
    world.run(SECOND);
    world.corpus = Some(Vec::new());
    // A connection is all that a requester needs who has no address.
    let ticket = world.request_with(requester, Service::Sensor, ANYWHERE, |wanted| {
        wanted.provider = Some(Provider { node: node_id(host.0), addresses: Vec::new() });
    });
    assert!(finished(&mut world, requester, ticket).complete);
    let said: Vec<_> = world.corpus.take().unwrap().iter().map(|message| Message::decode(message).unwrap()).collect();
    assert!(
        matches!(said[..], [Message::Request(RequestMessage::Request(_)), Message::Request(RequestMessage::Accept(_))]),
        "{said:?}"
    );
}

#[test]
fn lost_or_repeated_request_served_once() {
    for seed in 0..20 {
        let (mut world, _, host, requester) = single_hub_world(seed, Role::SuperNode);
        (world.path.loss, world.path.duplication, world.path.spread) = (200, 200, 20 * MS);
        let ticket = ask(&mut world, requester, host, Service::Image);
        assert!(finished(&mut world, requester, ticket).complete, "{seed}");
        assert_eq!(world.hosts[host.0].opened.len(), 1, "{seed}");
    }
}

#[test]
fn requester_redials_and_flow_continues() {
    let (mut world, _, host, requester) = single_hub_world(3, Role::SuperNode);
    world.hosts[host.0].object_bytes = Some(1_000_000);
    let stream = ask(&mut world, requester, host, Service::Track);
    let object_ticket = ask(&mut world, requester, host, Service::Image);
    world.run(300 * MS);
    world.break_connections(host, requester);
    assert!(finished(&mut world, requester, object_ticket).complete);
    assert!(world.delivered(requester, object_ticket) == object(1_000_000));
    let summary = finished(&mut world, requester, stream);
    assert!(summary.complete && summary.lost > 0 && summary.lost < 10, "{summary:?}");
    assert_eq!(world.hosts[host.0].opened.len(), 2, "nothing was asked for again");
}

#[test]
fn the_providers_own_word_is_final() {
    let mut world = World::new(4);
    let hub = world.hub(Role::SuperNode);
    let host = world.node_with(&[hub], |config| {
        config.services = [Service::Video].into_iter().collect();
        config.max_streams = 0;
    });
    let requester = world.node((0, 0), &[], &[hub]);
    world.run_until_attached();
    for (service, reason) in [(Service::Video, Reason::Busy), (Service::Image, Reason::NotFound)] {
        let ticket = ask(&mut world, requester, host, service);
        assert_eq!(failed(&mut world, requester, ticket), reason);
    }
    world.freeze(host);
    let ticket = ask(&mut world, requester, host, Service::Video);
    let reason = failed(&mut world, requester, ticket);
    assert!(matches!(reason, Reason::TimedOut | Reason::Unreachable), "{reason:?}");
    assert_eq!(world.home(requester), Some(hub), "the hub has nothing to do with it");
}

#[test]
fn direct_mode_refuses_relay_and_self() {
    let (mut world, _, host, requester) = single_hub_world(5, Role::Server);
    let ticket = ask(&mut world, requester, host, Service::Image);
    assert_eq!(failed(&mut world, requester, ticket), Reason::NotAllowed);
    let (mut world, _, host, requester) = single_hub_world(6, Role::SuperNode);
    let ticket = ask(&mut world, host, host, Service::Image);
    assert_eq!(failed(&mut world, host, ticket), Reason::NotAllowed);
    let ticket = world.request_with(requester, Service::Image, ANYWHERE, |wanted| {
        (wanted.provider, wanted.mode) = (provider(host), RequestMode::Relay);
    });
    match world.outcome(requester, ticket) {
        NodeEvent::Failed { reason: Reason::NotAllowed, detail, .. } => assert!(detail.contains("through a hub")),
        other => panic!("{other:?}"),
    }
}

#[test]
fn simultaneous_requests_share_one_connection() {
    let (mut world, _, host, requester) = single_hub_world(7, Role::SuperNode);
    let tickets: Vec<_> = (0..20).map(|_| ask(&mut world, requester, host, Service::Sensor)).collect();
    for ticket in tickets {
        assert!(finished(&mut world, requester, ticket).complete);
    }
    assert_eq!(world.status(requester).connections, 2, "the hub and the provider");
}
