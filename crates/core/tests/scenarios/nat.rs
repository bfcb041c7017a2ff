//! Nodes behind translators of addresses: two that can meet directly do, however it is.

use crate::*;

/// A provider and a requester at hubs of their own, which know one another.
fn apart(seed: u64) -> (World, HostId, HostId) {
    over(SchemeSet::ALL, seed, 2)
}

/// A provider at the first and a requester at the last of so many hubs, all of which have these transports.
fn over(schemes: SchemeSet, seed: u64, hubs: usize) -> (World, HostId, HostId) {
    let mut world = World::new(seed);
    let hubs = world.mesh(hubs);
    let provider = world.node((1, 1), &Service::ALL, &hubs[..1]);
    let requester = world.node((0, 0), &[], &hubs[hubs.len() - 1..]);
    world.hosts.iter_mut().for_each(|host| host.schemes = schemes);
    world.run_until_attached();
    world.run(SECOND);
    (world, provider, requester)
}

fn near(seed: u64) -> (World, HostId, HostId) {
    let (world, _, provider, requester) = single_hub_world(seed, Role::SuperNode);
    (world, provider, requester)
}

/// An image for the requester over one of these transports.
fn image(mut world: World, requester: HostId, schemes: SchemeSet) -> RequestSummary {
    world.dial_timeout = 5 * SECOND;
    let ticket = world.request_with(requester, Service::Image, ANYWHERE, |wanted| wanted.transports = schemes);
    finished(&mut world, requester, ticket)
}

#[test]
fn a_closed_requester_dials_the_provider() {
    for_seeds(6, |seed| {
        for (mut world, provider, requester) in [near(seed), apart(seed)] {
            world.close(&[requester]);
            let scheme = Scheme::ALL[seed as usize % 3];
            let summary = image(world, requester, SchemeSet::only(scheme));
            assert!(summary.complete && !summary.relayed, "seed {seed}: {summary:?}");
            assert_eq!((summary.provider, summary.scheme), (node_id(provider.0), scheme));
            // The way of the request, as long as a dial of the provider's takes, a handshake; not the two seconds of
            // a dial in vain.
            assert!(summary.first_byte < Duration::from_millis(800), "seed {seed}: {:?}", summary.first_byte);
        }
    });
}

#[test]
fn two_that_are_closed_meet() {
    for (mut world, provider, requester) in [near(1), apart(1)] {
        world.close(&[provider, requester]);
        let summary = image(world, requester, SchemeSet::only(Scheme::Udp));
        assert!(summary.complete && !summary.relayed, "{summary:?}");
    }
}

/// All pairs meet but a symmetric translator and one that knows ports; over TCP only one end may have a translator.
#[test]
fn translators_that_allow_it_are_passed() {
    let kinds = || [None].into_iter().chain(Nat::ALL.map(Some));
    for (of_provider, of_requester) in kinds().flat_map(|one| kinds().map(move |other| (one, other))) {
        for scheme in Scheme::ALL {
            for hubs in [1, 2] {
                let (mut world, provider, requester) = over(SchemeSet::only(scheme), 1, hubs);
                let nats = [(provider, of_provider), (requester, of_requester)];
                world.nats = nats.into_iter().filter_map(|(host, nat)| Some((host, nat?))).collect();
                let summary = image(world, requester, SchemeSet::only(scheme));
                let is_strict = |nat| nat == Some(Nat::Symmetric) || nat == Some(Nat::PortFilter);
                let has_symmetric = [of_provider, of_requester].contains(&Some(Nat::Symmetric));
                let is_apart = match scheme {
                    Scheme::Tcp => of_provider.is_some() && of_requester.is_some(),
                    Scheme::Udp | Scheme::Quic => has_symmetric && is_strict(of_provider) && is_strict(of_requester),
                };
                let case = format!("{of_provider:?}, {of_requester:?}, {scheme}: {summary:?}");
                assert!(summary.complete && summary.relayed == is_apart, "{case}");
            }
        }
    }
}

#[test]
fn closed_tcp_hosts_are_relayed() {
    let mut world = World::new(1);
    let hub = world.hub(Role::SuperNode);
    let provider = world.node((1, 1), &Service::ALL, &[hub]);
    let requester = world.node((0, 0), &[], &[hub]);
    world.hosts.iter_mut().for_each(|host| host.schemes = SchemeSet::only(Scheme::Tcp));
    world.run_until_attached();
    world.close(&[provider, requester]);
    let summary = image(world, requester, SchemeSet::ALL);
    assert!(summary.complete && summary.relayed && summary.scheme == Scheme::Tcp, "{summary:?}");
}

#[test]
fn failed_dial_remembered_until_reattach() {
    let mut world = World::new(1);
    let hub = world.hub(Role::SuperNode);
    let provider = world.node((1, 1), &Service::ALL, &[hub]);
    let requester = world.node((0, 0), &[], &[hub]);
    world.hosts.iter_mut().for_each(|host| host.schemes = SchemeSet::only(Scheme::Tcp));
    world.dial_timeout = 5 * SECOND;
    world.run_until_attached();
    let is_relayed = |world: &mut World| {
        let ticket = world.request(requester, Service::Image, ANYWHERE);
        let summary = finished(world, requester, ticket);
        assert!(summary.complete, "{summary:?}");
        summary.relayed
    };
    world.close(&[provider, requester]);
    assert!(is_relayed(&mut world));
    world.nats.clear();
    assert!(is_relayed(&mut world), "it is not dialled for a minute");
    world.break_connections(hub, provider);
    world.run(5 * SECOND);
    assert!(!is_relayed(&mut world));
}

#[test]
fn who_can_be_dialled_dials_nobody() {
    for (mut world, provider, requester) in [near(1), apart(1)] {
        let ticket = world.request(requester, Service::Image, ANYWHERE);
        assert!(finished(&mut world, requester, ticket).complete);
        assert!(world.has_dialed(provider, requester) && !world.has_dialed(requester, provider));
        assert_eq!(world.status(requester).counters.provider_dials, 0);
    }
}

#[test]
fn closed_requester_resumes_after_break() {
    let (mut world, provider, requester) = near(1);
    world.close(&[requester]);
    let ticket = world.request_with(requester, Service::Video, ANYWHERE, |wanted| wanted.duration = Some(20 * SECOND));
    world.run(4 * SECOND);
    let before = world.hosts[requester.0].payloads(ticket).count();
    world.break_connections(provider, requester);
    world.run(5 * SECOND);
    assert!(before > 0 && world.hosts[requester.0].payloads(ticket).count() > before);
    let summary = finished(&mut world, requester, ticket);
    assert!(summary.complete && !summary.relayed, "{summary:?}");
}

#[test]
fn hubs_aim_a_requester_rarely() {
    let (mut world, hub, provider, requester) = single_hub_world(1, Role::SuperNode);
    world.freeze(provider);
    world.corpus = Some(Vec::new());
    world.request(requester, Service::Image, ANYWHERE);
    world.run(25 * MS);
    let said = world.corpus.take().unwrap_or_default();
    let asked = said.iter().find_map(|message| match Message::decode(message) {
        Ok(Message::Request(RequestMessage::Request(request))) => Some(request.id),
        _ => None,
    });
    let asked = asked.unwrap();
    for number in 0..100_usize {
        let victim = ProviderAddress { node: node_id(100 + number), addresses: addresses(200 + number % 8) };
        let pending = Message::Request(RequestMessage::Pending { id: asked, requester: None, provider: Some(victim) });
        world.inject(hub, requester, pending.encode());
        world.run(200 * MS);
    }
    let met = world.status(requester).counters.provider_dials;
    assert!(met <= 4, "{met}");
    assert!(!world.events(requester).iter().any(|(_, event)| matches!(event, NodeEvent::Accepted { .. })));
}
