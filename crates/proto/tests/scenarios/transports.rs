//! Requests that are restricted to one transport.

use roost_proto::wire::{Mode, Reason};
use roost_proto::{Role, Scheme, SchemeSet, Service};

use crate::world::{SECOND, World, address};
use crate::{ANYWHERE, failed, finished, three};

#[test]
fn every_transport_serves_every_mode() {
    for scheme in Scheme::ALL {
        for (role, mode) in
            [(Role::SuperNode, Mode::Forward), (Role::SuperNode, Mode::Relay), (Role::Server, Mode::Relay)]
        {
            let (mut world, _, _, requester) = three(1, role);
            let ticket = world.request_with(requester, Service::Image, ANYWHERE, |wanted| {
                wanted.mode = mode;
                wanted.transports = SchemeSet::only(scheme);
            });
            let summary = finished(&mut world, requester, ticket);
            assert!(summary.complete, "{scheme} {mode:?}: {summary:?}");
            assert_eq!(summary.scheme, scheme, "{mode:?}");
        }
    }
}

#[test]
fn a_transport_that_the_requester_lacks_is_refused() {
    let mut world = World::new(2);
    let hub = world.hub(Role::SuperNode);
    world.node((1, 1), &Service::ALL, &[hub]);
    let requester = world.node_with(&[hub], |config| {
        config.addresses = vec![address(2, Scheme::Udp)];
        config.hubs = vec![vec![address(0, Scheme::Udp)]];
    });
    world.settle();
    let restrict = |wanted: &mut roost_proto::peer::Wanted| wanted.transports = SchemeSet::only(Scheme::Tcp);
    let ticket = world.request_with(requester, Service::Sensor, ANYWHERE, restrict);
    assert_eq!(failed(&mut world, requester, ticket), Reason::NoTransport);
    // The hub said where else it listens, so that a relay can do it.
    let ticket = world.request_with(requester, Service::Sensor, ANYWHERE, |wanted| {
        restrict(wanted);
        wanted.mode = Mode::Relay;
    });
    let summary = finished(&mut world, requester, ticket);
    assert_eq!((summary.scheme, summary.relayed), (Scheme::Tcp, true));
}

#[test]
fn an_association_that_is_up_is_used_again_and_closed_when_idle() {
    let (mut world, _, provider, requester) = three(3, Role::SuperNode);
    for _ in 0..3 {
        let ticket = world.request(requester, Service::Sensor, ANYWHERE);
        assert!(finished(&mut world, requester, ticket).complete);
        world.run(10 * SECOND);
        assert_eq!(world.status(provider).links, 2, "the hub and the requester");
    }
    world.run(150 * SECOND);
    assert_eq!(world.status(provider).links, 1);
    assert_eq!(world.status(requester).links, 1);
}

#[test]
fn requests_that_come_together_share_one_association_with_the_server() {
    let (mut world, _, _, requester) = three(9, Role::Server);
    let tickets: Vec<_> = (0..20)
        .map(|_| {
            world.request_with(requester, Service::Sensor, ANYWHERE, |wanted| {
                wanted.transports = SchemeSet::only(Scheme::Tcp);
            })
        })
        .collect();
    for ticket in tickets {
        let summary = finished(&mut world, requester, ticket);
        assert!(summary.complete && summary.scheme == Scheme::Tcp, "{summary:?}");
    }
    assert_eq!(world.status(requester).links, 2);
}
