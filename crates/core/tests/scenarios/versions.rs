//! Networks in which not all speak the same version of the protocol.

use crate::*;

/// Two hubs, a node at each, and a place for a third.
fn pair(seed: u64, older: impl Fn(usize) -> bool) -> (World, [HostId; 2], [HostId; 2]) {
    let mut world = World::new(seed);
    world.older = (0..4).filter(|host| older(*host)).map(HostId).collect();
    let first = world.hub(Role::SuperNode);
    let second = world.hub_beside(&[first]);
    let provider = world.node((27, 92), &Service::ALL, &[first]);
    let requester = world.node((20, 20), &[], &[second]);
    world.run_until_attached();
    (world, [first, second], [provider, requester])
}

fn hub_status(world: &World, hub: HostId) -> HubStatus {
    world.hub_at(hub).status(world.now)
}

/// Whichever of hubs and nodes are of the version before, everything is served.
#[test]
fn older_and_newer_work_together() {
    for_few_seeds(|seed| {
        for older in 0..16u32 {
            let (mut world, _, [_, requester]) = pair(seed, |host| older >> host & 1 != 0);
            for service in Service::ALL {
                let ticket = world.request(requester, service, ANYWHERE);
                let summary = finished(&mut world, requester, ticket);
                assert!(summary.complete, "{older:04b}: {summary:?}");
            }
            let ticket = world.lookup(requester, Service::Image, ANYWHERE);
            let found =
                |world: &World| matches!(world.hosts[requester.0].ending(ticket), Some(NodeEvent::LookupResult { .. }));
            assert!(world.run_while(10 * SECOND, |world| found(world)), "{older:04b}");
        }
    });
}

/// A side shows which version the other one speaks, said or not.
#[test]
fn versions_are_shown_on_both_sides() {
    for older in [false, true] {
        let (mut world, [first, _], [provider, _]) = pair(1, |host| older && host == 0);
        world.run(SECOND);
        let expected = if older { ProtocolVersion::LOWEST } else { ProtocolVersion::CURRENT };
        assert_eq!(world.status(provider).home.map(|home| home.protocol), Some(expected));
        let shown: Vec<_> = hub_status(&world, HostId(1)).hubs.iter().map(|hub| hub.protocol).collect();
        assert_eq!(shown, [Some(expected)]);
        let shown: Vec<_> = hub_status(&world, first).hubs.iter().map(|hub| hub.protocol).collect();
        assert_eq!(shown, [Some(expected)], "whoever is silent hears nothing either");
    }
}

/// Another major version ends the connection, with a sentence that says what to do.
#[test]
fn another_major_version_is_refused() {
    let hello = |major| {
        let protocol = ProtocolVersion { major, minor: 3 };
        Message::Probe(ProbeMessage::Hello(Hello {
            protocol,
            capabilities: Capabilities::NONE,
            clock_s: None,
            holdings: None,
            datum: None,
        }))
        .encode()
    };
    let (mut world, [first, second], [provider, _]) = pair(1, |_| false);
    assert!(world.inject(first, provider, hello(3)));
    world.run(100 * MS);
    let reasons = world.hosts[provider.0].events.iter().filter_map(|(_, event)| match event {
        NodeEvent::Detached { reason } => Some(reason.clone()),
        _ => None,
    });
    let reasons: Vec<String> = reasons.collect();
    assert!(reasons.len() == 1 && reasons[0].contains("version 2.0") && reasons[0].contains("3.3"), "{reasons:?}");
    assert!(reasons[0].contains("upgrade the one with 2.0"), "{reasons:?}");
    // A hub does the same, to hubs and to nodes.
    assert!(world.inject(second, first, hello(0)));
    world.run(100 * MS);
    assert!(hub_status(&world, first).hubs.iter().all(|hub| hub.up.is_none()));
}

/// A greeting with another datum ends the connection at a node and at a hub, which tells its owner. Without a datum
/// it is that of a plain grid.
#[test]
fn another_datum_is_refused() {
    let stated = StatedDatum { origin: "47.37,8.54".parse().unwrap(), cell_m: 1000 };
    let hello = Message::Probe(ProbeMessage::Hello(Hello { datum: Some(stated), ..Hello::OWN })).encode();
    let (mut world, [first, second], [provider, requester]) = pair(1, |_| false);
    assert!(world.inject(first, provider, hello.clone()));
    assert!(world.inject(requester, second, hello));
    world.run(100 * MS);
    let reasons = world.hosts[provider.0].events.iter().filter_map(|(_, event)| match event {
        NodeEvent::Detached { reason } => Some(reason.clone()),
        _ => None,
    });
    let reasons: Vec<String> = reasons.collect();
    let is_told = reasons.first().is_some_and(|why| why.contains("a plain grid") && why.contains("47.37,8.54"));
    assert!(is_told, "{reasons:?}");
    let refusals = &world.hosts[second.0].refusals;
    assert!(refusals.iter().any(|what| what.contains("cells of 1000 m")), "{refusals:?}");
}

/// A request for what only later versions know is declined at once.
#[test]
fn requests_of_later_versions_are_declined() {
    let (mut world, [first, _], [provider, _]) = pair(1, |_| false);
    let spec = std::collections::BTreeMap::from([(0u8, 99u8)]);
    let later = minicbor::to_vec((5u8, (7u32, minicbor::bytes::ByteArray::from([1u8; 8]), spec))).unwrap();
    world.corpus = Some(Vec::new());
    assert!(world.inject(provider, first, later.into()));
    world.run(SECOND);
    let expected = Decline::new(RequestId(7), Reason::UnsupportedVersion);
    let expected = Message::Request(RequestMessage::Decline(expected)).encode();
    assert!(world.corpus.take().unwrap().contains(&expected));
}

/// A message that cannot be known is counted, reported once, and harms nothing.
#[test]
fn messages_of_later_versions_are_skipped() {
    let (mut world, [first, second], [provider, requester]) = pair(1, |_| false);
    let later = Bytes::from(minicbor::to_vec((200u16, "later", [1u8; 3])).unwrap());
    for (from, to) in [(first, provider), (provider, first), (second, first), (first, second)] {
        for _ in 0..3 {
            assert!(world.inject(from, to, later.clone()));
        }
    }
    world.run(SECOND);
    assert_eq!(world.status(provider).counters.later, 3);
    let told =
        world.hosts[provider.0].events.iter().filter(|(_, event)| matches!(event, NodeEvent::LaterVersion { .. }));
    assert_eq!(told.count(), 1);
    assert_eq!(world.status(provider).counters.malformed, 0);
    let ticket = world.request(requester, Service::Image, ANYWHERE);
    assert!(finished(&mut world, requester, ticket).complete);
}
