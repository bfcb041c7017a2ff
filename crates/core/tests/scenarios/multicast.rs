//! Discovery on the link: alone, beside a hub, and whichever seems better.

use crate::*;

/// Makes a node one that takes part in multicast.
fn with_multicast(discovery: Discovery) -> impl Fn(&mut NodeConfig) {
    move |config| (config.multicast, config.discovery) = (true, discovery)
}

/// `count` nodes at (0, 0), (1, 0)… without a hub, all on one connection; all but
/// the first offer everything.
fn multicast_nodes(seed: u64, count: usize) -> (World, Vec<HostId>) {
    let mut world = World::new(seed);
    let nodes: Vec<HostId> = (0..count)
        .map(|number| {
            world.node_with(&[], |config| {
                with_multicast(Discovery::Multicast)(config);
                config.cell = Cell::new(number as i32, 0);
                if number > 0 {
                    config.services = Service::ALL.into_iter().collect();
                }
            })
        })
        .collect();
    world.lans.push(nodes.clone());
    (world, nodes)
}

/// A hub with a provider of everything at (40, 0) away from the connection, and on
/// the connection a requester at (0, 0) and a provider of video and track at (1, 0).
fn mixed(seed: u64, discovery: Discovery) -> (World, HostId, [HostId; 3]) {
    let mut world = World::new(seed);
    let hub = world.hub(Role::SuperNode);
    let away = world.node((40, 0), &Service::ALL, &[hub]);
    let near = world.node_with(&[hub], |config| {
        with_multicast(discovery)(config);
        (config.cell, config.services) = (Cell::new(1, 0), [Service::Video, Service::Track].into_iter().collect());
    });
    let requester = world.node_with(&[hub], with_multicast(discovery));
    world.lans.push(vec![near, requester]);
    world.run_until_attached();
    (world, hub, [requester, near, away])
}

/// Sessions that were opened at all these hosts.
fn opened(world: &World, hosts: &[HostId]) -> usize {
    hosts.iter().map(|host| world.hosts[host.0].opened.len()).sum()
}

fn ended(world: &World, host: HostId, ticket: Ticket) -> usize {
    world.hosts[host.0].endings(ticket).count()
}

fn served(world: &mut World, host: HostId, service: Service, area: Area) -> RequestSummary {
    let ticket = world.request(host, service, area);
    let summary = finished(world, host, ticket);
    assert!(summary.complete, "{summary:?}");
    summary
}

#[test]
fn a_connection_needs_no_hub() {
    let (mut world, nodes) = multicast_nodes(1, 2);
    for service in Service::ALL {
        for area in [ANYWHERE, NEAREST, Area::Exact(Cell::new(1, 0))] {
            let summary = served(&mut world, nodes[0], service, area);
            assert_eq!((summary.provider, summary.relayed), (node_id(nodes[1].0), false), "{service} {area}");
        }
    }
    assert_eq!(world.status(nodes[0]).counters.found_by_multicast, 12);
    // A request takes one way, a first handshake four; then there is a connection.
    let warm = served(&mut world, nodes[0], Service::Sensor, Area::Exact(Cell::new(1, 0)));
    assert!(warm.first_byte <= 2 * world.path.delay, "{warm:?}");
}

#[test]
fn many_providers_few_answer_one_serves() {
    let (mut world, nodes) = multicast_nodes(2, 41);
    world.path.delay = MS;
    // All nodes get to know of the first one.
    for node in &nodes[1..] {
        served(&mut world, *node, Service::Sensor, ANYWHERE);
    }
    let (before, multicasts) = (opened(&world, &nodes), world.multicasts);
    let volunteered: u64 = nodes.iter().map(|node| world.status(*node).counters.multicast_replies).sum();
    for _ in 0..20 {
        served(&mut world, nodes[0], Service::Sensor, ANYWHERE);
    }
    let (sessions, said) = (opened(&world, &nodes) - before, world.multicasts - multicasts);
    let answers = nodes.iter().map(|node| world.status(*node).counters.multicast_replies).sum::<u64>() - volunteered;
    assert!((20..=40).contains(&answers), "{answers} of 40 providers answered 20 requests");
    assert!(sessions as u64 <= answers);
    // Each request is one inquiry, one word of each who answers, and one that ends it: nothing is sent on.
    assert!(said <= 20 * 2 + answers, "{said} messages for 20 requests and {answers} answers");
    let suppressed: u64 = nodes.iter().map(|node| world.status(*node).counters.suppressed).sum();
    assert!(suppressed > 20 * 30, "{suppressed}");
}

#[test]
fn multicast_loss_and_duplication_are_harmless() {
    for_seeds(20, |seed| {
        let (mut world, nodes) = multicast_nodes(100 + seed, 6);
        (world.path.loss, world.path.duplication, world.path.spread) = (200, 300, 10 * MS);
        for _ in 0..5 {
            let ticket = world.request(nodes[0], Service::Image, ANYWHERE);
            let summary = finished(&mut world, nodes[0], ticket);
            assert!(summary.complete, "seed {seed}: {summary:?}");
            world.run(SECOND);
            assert_eq!(ended(&world, nodes[0], ticket), 1, "seed {seed}");
        }
    });
}

#[test]
fn dead_multicast_provider_is_replaced() {
    let (mut world, nodes) = multicast_nodes(3, 5);
    let ticket = world.request(nodes[0], Service::Track, ANYWHERE);
    let all = nodes.clone();
    assert!(world.run_while(SECOND, |world| all.iter().any(|node| world.status(*node).counters.multicast_replies > 0)));
    let taken = *nodes.iter().find(|node| world.status(**node).counters.multicast_replies > 0).unwrap();
    world.freeze(taken);
    let summary = finished(&mut world, nodes[0], ticket);
    assert!(summary.complete && summary.provider != node_id(taken.0), "{summary:?}");
    assert!(summary.first_byte < 4 * SECOND, "{:?}", summary.first_byte);
}

#[test]
fn busy_provider_leaves_multicast_to_another() {
    let (mut world, nodes) = multicast_nodes(4, 2);
    let small = world.node_with(&[], |config| {
        with_multicast(Discovery::Multicast)(config);
        (config.cell, config.max_streams) = (Cell::new(9, 9), 0);
        config.services = Service::ALL.into_iter().collect();
    });
    world.lans[0].push(small);
    for _ in 0..8 {
        assert_eq!(served(&mut world, nodes[0], Service::Track, ANYWHERE).provider, node_id(nodes[1].0));
    }
    let ticket = world.request(nodes[0], Service::Track, Area::Exact(Cell::new(9, 9)));
    assert_eq!(failed(&mut world, nodes[0], ticket), Reason::NotFound);
}

#[test]
fn missing_provider_is_reported_soon() {
    let (mut world, nodes) = multicast_nodes(5, 3);
    let asked = world.now;
    let ticket = world.request(nodes[0], Service::Video, Area::Exact(Cell::new(77, 77)));
    let NodeEvent::Failed { reason, detail, .. } = world.outcome(nodes[0], ticket) else { panic!() };
    assert_eq!(reason, Reason::NotFound);
    assert!(detail.contains("nobody in this subnet"), "{detail}");
    assert!(world.now.since(asked) < 2 * SECOND, "{:?}", world.now.since(asked));
    assert_eq!(world.status(nodes[0]).counters.multicast_requests, 3);
}

#[test]
fn lookup_lists_multicast_providers() {
    let (mut world, nodes) = multicast_nodes(6, 12);
    let found = |world: &mut World, count| {
        let ticket = world.ticket(nodes[0]);
        let (service, area) = (Service::Track, ANYWHERE);
        world.command(
            nodes[0],
            NodeCommand::Lookup { ticket, service, area, count, names: None, filter: Metadata::EMPTY },
        );
        let NodeEvent::LookupResult { found, .. } = world.outcome(nodes[0], ticket) else { panic!() };
        found.candidates.iter().map(|candidate| candidate.node).collect::<Vec<_>>()
    };
    let everybody: Vec<_> = nodes[1..].iter().map(|node| node_id(node.0)).collect();
    assert_eq!(found(&mut world, 0), everybody, "the nearest first");
    world.path.delay = MS;
    let multicasts = world.multicasts;
    assert_eq!(found(&mut world, 3).len(), 3);
    assert!(world.multicasts - multicasts < 9, "{} messages to list three", world.multicasts - multicasts);
}

#[test]
fn both_ways_at_once_serve_once() {
    for_seeds(20, |seed| {
        let (mut world, _, [requester, near, away]) = mixed(200 + seed, Discovery::Both);
        world.path.spread = 15 * MS;
        for service in [Service::Track, Service::Sensor] {
            let ticket = world.request(requester, service, ANYWHERE);
            let summary = finished(&mut world, requester, ticket);
            assert!(summary.complete, "seed {seed} {service}: {summary:?}");
            if service == Service::Sensor {
                assert_eq!(summary.provider, node_id(away.0), "seed {seed}: only the hub knows it");
            }
            // The loser's session has been stopped.
            world.run(3 * SECOND);
            assert_eq!(ended(&world, requester, ticket), 1);
            assert!(world.status(near).sessions.is_empty() && world.status(away).sessions.is_empty(), "seed {seed}");
        }
    });
}

#[test]
fn multicast_serves_while_hub_is_dead() {
    for discovery in [Discovery::Both, Discovery::Auto] {
        let (mut world, hub, [requester, near, _]) = mixed(7, discovery);
        world.kill(hub);
        world.run(SECOND);
        let summary = served(&mut world, requester, Service::Track, Area::Exact(Cell::new(1, 0)));
        assert_eq!(summary.provider, node_id(near.0));
        assert!(summary.first_byte < SECOND, "{discovery}: {summary:?}");
    }
}

#[test]
fn auto_uses_multicast_near_hub_far() {
    let (mut world, _, [requester, near, away]) = mixed(8, Discovery::Auto);
    world.path.delay = 5 * MS;
    let counters = |world: &World| world.status(requester).counters;
    assert_eq!(served(&mut world, requester, Service::Track, Area::Exact(Cell::new(1, 0))).provider, node_id(near.0));
    assert_eq!((counters(&world).multicast_requests, counters(&world).found_by_multicast), (1, 1));
    assert_eq!(served(&mut world, requester, Service::Track, Area::Exact(Cell::new(40, 0))).provider, node_id(away.0));
    assert_eq!(counters(&world).multicast_requests, 1, "what is far is nothing for the link");
    // Nobody on the link has a sensor: the hub is asked as well, and from then on first.
    assert_eq!(served(&mut world, requester, Service::Sensor, ANYWHERE).provider, node_id(away.0));
    assert_eq!((counters(&world).multicast_requests, counters(&world).found_by_multicast), (3, 1));
}

#[test]
fn auto_abandons_slower_discovery() {
    let (mut world, _, [requester, ..]) = mixed(9, Discovery::Auto);
    let mut inquiries = Vec::new();
    for _ in 0..40 {
        let before = world.status(requester).counters.multicast_requests;
        served(&mut world, requester, Service::Sensor, ANYWHERE);
        world.run(2 * SECOND / 10);
        inquiries.push(world.status(requester).counters.multicast_requests - before);
    }
    let vain = inquiries[20..].iter().filter(|count| **count > 0).count();
    assert!(vain <= 4, "the link is still asked in vain: {inquiries:?}");
}

#[test]
fn request_scope_is_respected() {
    let (mut world, _, [requester, near, away]) = mixed(10, Discovery::SuperNode);
    let scoped = |world: &mut World, service, area, scope| {
        world.request_with(requester, service, area, |wanted| wanted.scope = scope)
    };
    let ticket = scoped(&mut world, Service::Track, ANYWHERE, Scope::Subnet);
    assert_eq!(finished(&mut world, requester, ticket).provider, node_id(near.0));
    let ticket = scoped(&mut world, Service::Sensor, ANYWHERE, Scope::Subnet);
    assert_eq!(failed(&mut world, requester, ticket), Reason::NotFound, "away is not on the link");
    let ticket = scoped(&mut world, Service::Track, Area::Nearest(Cell::new(40, 0)), Scope::Cell);
    assert_eq!(finished(&mut world, requester, ticket).provider, node_id(away.0));
    world.run(61 * SECOND);
    let ticket = scoped(&mut world, Service::Track, ANYWHERE, Scope::Cell);
    assert_eq!(failed(&mut world, requester, ticket), Reason::NotFound, "nobody is in its own cell");
    let ticket = scoped(&mut world, Service::Sensor, ANYWHERE, Scope::Home);
    assert_eq!(finished(&mut world, requester, ticket).provider, node_id(away.0));
}

#[test]
fn impossible_scope_is_refused() {
    let mut world = World::new(11);
    let hub = world.hub(Role::SuperNode);
    let deaf = world.node((0, 0), &[], &[hub]);
    let alone = world.node_with(&[], with_multicast(Discovery::Multicast));
    let cases = [
        (deaf, Scope::Subnet, ANYWHERE, RequestMode::Forward),
        (deaf, Scope::Cell, Area::rectangle(Cell::new(0, 0), Cell::new(1, 1)), RequestMode::Forward),
        (alone, Scope::Home, ANYWHERE, RequestMode::Forward),
        (alone, Scope::Anywhere, ANYWHERE, RequestMode::Relay),
        (alone, Scope::Subnet, ANYWHERE, RequestMode::Relay),
    ];
    for (host, scope, area, mode) in cases {
        let ticket = world.request_with(host, Service::Track, area, |wanted| {
            (wanted.scope, wanted.mode) = (scope, mode);
        });
        assert_eq!(failed(&mut world, host, ticket), Reason::NotAllowed, "{scope} {area} {mode:?}");
    }
}

/// Members of the group know the key, so they can say what they like: it
/// leads to a dial that fails, and to silence for a while, never to data.
#[test]
fn forged_inquiry_is_not_served() {
    let (mut world, nodes) = multicast_nodes(12, 3);
    let forged = |id, requester: HostId, reply_to: HostId| {
        let route = Route { requester: node_id(requester.0), reply_to: addresses(reply_to.0), hop: None };
        let spec = ServiceRequest::new(Service::Track, ANYWHERE);
        let request = Request::new(RequestId(id), Nonce::from_u64(9), spec, 5_000);
        let request = Request { route: Some(route), ..request };
        Message::Multicast(MulticastMessage::MulticastRequest(MulticastRequest { request, attempt: 0 })).encode()
    };
    // In the name of the first, to be answered at the third: a dial finds another one there.
    world.inject_multicast(nodes[0], nodes[1], forged(1, nodes[0], nodes[2]));
    world.run(20 * SECOND);
    assert_eq!(opened(&world, &nodes), 0);
    // In the name of the first, from elsewhere: nobody dials a host that others name.
    world.inject_multicast(nodes[2], nodes[1], forged(2, nodes[0], nodes[0]));
    world.run(20 * SECOND);
    assert_eq!(opened(&world, &nodes), 0);
    // As if from the first, who has asked nothing: it stops what comes.
    world.inject_multicast(nodes[0], nodes[1], forged(3, nodes[0], nodes[0]));
    world.run(20 * SECOND);
    assert_eq!(opened(&world, &nodes), 1);
    assert!(nodes.iter().all(|node| world.status(*node).sessions.is_empty()));
    let is_about_request =
        |(_, event): &&(Time, NodeEvent)| !matches!(event, NodeEvent::Outbox(OutboxEvent::Met { .. }));
    let told = world.events(nodes[0]).iter().find(is_about_request);
    assert!(told.is_none(), "{told:?}");
}

#[test]
fn inquiry_flood_is_limited() {
    let (mut world, nodes) = multicast_nodes(13, 2);
    for id in 0..5_000 {
        let route = Route { requester: node_id(200), reply_to: Vec::new(), hop: None };
        let spec = ServiceRequest { mode: RequestMode::Lookup, ..ServiceRequest::new(Service::Track, ANYWHERE) };
        let request = Request::new(RequestId(id), Nonce::from_u64(1), spec, u32::MAX);
        let request = Request { route: Some(route), ..request };
        let inquiry = Message::Multicast(MulticastMessage::MulticastRequest(MulticastRequest { request, attempt: 0 }));
        world.inject_multicast(nodes[0], nodes[1], inquiry.encode());
    }
    assert_eq!(world.status(nodes[1]).counters.multicast_requests_ignored, 5_000 - 256);
    world.run(61 * SECOND);
    let summary = served(&mut world, nodes[0], Service::Track, ANYWHERE);
    assert_eq!(summary.provider, node_id(nodes[1].0), "they are forgotten in time");
}

#[test]
fn rogue_taken_messages_only_delay() {
    let (mut world, nodes) = multicast_nodes(14, 2);
    world.corpus = Some(Vec::new());
    let ticket = world.request(nodes[0], Service::Track, ANYWHERE);
    world.run(world.path.delay);
    let heard = world.corpus.take().unwrap();
    let Some(Ok(Message::Multicast(MulticastMessage::MulticastRequest(inquiry)))) =
        heard.last().map(|message| Message::decode(message))
    else {
        panic!()
    };
    let (requester, id, node) = (node_id(nodes[0].0), inquiry.request.id, node_id(99));
    let taken = Message::Multicast(MulticastMessage::MulticastSuppression(MulticastSuppression {
        requester,
        id,
        attempt: 0,
        sender: node,
    }))
    .encode();
    world.inject_multicast(nodes[0], nodes[1], taken.clone());
    world.inject_multicast(nodes[1], nodes[0], taken);
    assert_eq!(world.status(nodes[1]).counters.suppressed, 1);
    let summary = finished(&mut world, nodes[0], ticket);
    assert!(summary.complete && summary.provider == node_id(nodes[1].0), "{summary:?}");
}

#[test]
fn every_request_ends_once_under_faults() {
    for_seeds(20, |seed| {
        let mut world = World::new(300 + seed);
        let mut random = SplitMix64::new(seed);
        let mut checker = InvariantChecker::new(seed);
        (world.path.loss, world.path.duplication, world.path.spread) = (50, 50, 5 * MS);
        let hub = world.hub(Role::SuperNode);
        let nodes: Vec<HostId> = (0..8)
            .map(|number| {
                let discovery = Discovery::ALL[number % 4];
                let hubs = if discovery == Discovery::Multicast { &[][..] } else { &[hub] };
                world.node_with(hubs, |config| {
                    with_multicast(discovery)(config);
                    (config.cell, config.services) =
                        (Cell::new(4 * number as i32, 0), Service::ALL.into_iter().collect());
                })
            })
            .collect();
        world.lans.push(nodes.clone());
        world.run(2 * SECOND);
        let mut asked = Vec::new();
        for step in 0..60 {
            let requester = nodes[random.below(8) as usize];
            let target = Cell::new(4 * random.below(9) as i32, 0);
            let area = [Area::Exact(target), Area::Nearest(target), ANYWHERE][random.below(3) as usize];
            let scope = Scope::ALL[random.below(5) as usize];
            let service = Service::ALL[random.below(4) as usize];
            if world.hosts[requester.0].alive {
                asked.push((requester, world.request_with(requester, service, area, |wanted| wanted.scope = scope)));
            }
            match step {
                10 | 35 => world.freeze(hub),
                25 | 50 => {
                    world.revive_hub(hub);
                    checker.forget(hub);
                }
                _ => {}
            }
            run_checked(&mut world, &mut checker, 700 * MS);
        }
        run_checked(&mut world, &mut checker, 120 * SECOND);
        checker.check_ended(&world, &asked);
        assert!(nodes.iter().all(|node| world.status(*node).sessions.is_empty()), "seed {seed}");
    });
}

#[test]
fn words_outlast_the_multicast_search() {
    let (mut world, _, [requester, _, away]) = mixed(31, Discovery::Both);
    world.hosts[away.0].declining = Some("no map of there".parse().unwrap());
    let ticket = world.request(requester, Service::Image, ANYWHERE);
    match world.outcome(requester, ticket) {
        NodeEvent::Failed { reason: Reason::SourceFailed, sentence: Some(words), .. } => {
            assert_eq!(words.as_str(), "no map of there");
        }
        other => panic!("{other:?}"),
    }
}
