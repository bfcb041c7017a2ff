//! Providers that are busy, broken, silent or gone.

use roost_core::directory::LONGEST_HOLD;

use crate::*;

#[test]
fn the_nearest_provider_serves() {
    let (mut world, _, [near, _], requester) = two_provider_world(1);
    let ticket = world.request(requester, Service::Sensor, NEAREST);
    assert_eq!(finished(&mut world, requester, ticket).provider, node_id(near.0));
}

#[test]
fn busy_provider_falls_back_to_next() {
    let mut world = World::new(2);
    let hub = world.hub(Role::SuperNode);
    let near = world.node_with(&[hub], |config| {
        config.services = [Service::Video].into_iter().collect();
        config.max_streams = 1;
    });
    let far = world.node_with(&[hub], |config| {
        config.services = [Service::Video].into_iter().collect();
        config.cell = Cell::new(9, 0);
        config.uplink_kbps = Some(1_000);
    });
    let requester = world.node((0, 0), &[], &[hub]);
    world.run_until_attached();
    let tickets: Vec<_> = (0..3).map(|_| world.request(requester, Service::Video, NEAREST)).collect();
    assert_eq!(finished(&mut world, requester, tickets[0]).provider, node_id(near.0));
    assert_eq!(finished(&mut world, requester, tickets[1]).provider, node_id(far.0));
    assert_eq!(failed(&mut world, requester, tickets[2]), Reason::Busy);
    world.run(SECOND);
    let again = world.request(requester, Service::Video, NEAREST);
    assert_eq!(finished(&mut world, requester, again).provider, node_id(near.0), "it is free again");
}

#[test]
fn broken_source_falls_back_to_next() {
    let (mut world, _, [near, far], requester) = two_provider_world(3);
    world.hosts[near.0].broken_source = true;
    let ticket = world.request(requester, Service::Image, NEAREST);
    assert_eq!(finished(&mut world, requester, ticket).provider, node_id(far.0));
    let closed = world.events(near).iter().filter(|(_, event)| matches!(event, NodeEvent::CloseSource { .. })).count();
    assert_eq!(closed, 1);
}

#[test]
fn silent_provider_falls_back_to_next() {
    let (mut world, _, [near, far], requester) = two_provider_world(4);
    world.freeze(near);
    let ticket = world.request(requester, Service::Track, NEAREST);
    let summary = finished(&mut world, requester, ticket);
    assert_eq!(summary.provider, node_id(far.0));
    assert!(summary.first_byte < 2 * SECOND, "{summary:?}");
}

#[test]
fn dead_provider_costs_one_retry() {
    let (mut world, hub, [near, far], requester) = two_provider_world(61);
    world.freeze(near);
    let ticket = world.request(requester, Service::Image, NEAREST);
    let summary = finished(&mut world, requester, ticket);
    // The request waits for one and a half probe time-outs, then goes the two ways to the next provider.
    assert!(summary.first_byte < 400 * MS, "{summary:?}");
    assert_eq!(summary.provider, node_id(far.0));
    // A single silence may be loss: the provider is asked last for a while, and still listed.
    let counters = world.hub_at(hub).counters();
    assert_eq!((counters.failures, counters.suspensions), (1, 0));
}

#[test]
fn death_before_data_uses_next() {
    let (mut world, _, [near, far], requester) = two_provider_world(5);
    // Accepted, but the chunks are still under way when it dies.
    let ticket = world.request(requester, Service::Image, NEAREST);
    assert!(world.run_while(SECOND, |world| !world.hosts[near.0].opened.is_empty()));
    world.freeze(near);
    world.cut(near, requester);
    let summary = finished(&mut world, requester, ticket);
    assert!(summary.complete, "{summary:?}");
    assert!([near, far].map(|host| node_id(host.0)).contains(&summary.provider));
    assert_eq!(world.delivered(requester, ticket), object(100_000));
}

#[test]
fn death_mid_stream_leaves_it_incomplete() {
    for mode in [RequestMode::Forward, RequestMode::Relay] {
        let (mut world, _, provider, requester) = single_hub_world(6, Role::SuperNode);
        let ticket = world.request_with(requester, Service::Video, ANYWHERE, |wanted| wanted.mode = mode);
        world.run(SECOND);
        world.freeze(provider);
        let summary = finished(&mut world, requester, ticket);
        assert!(!summary.complete && summary.bytes > 0, "{summary:?}");
        assert!(summary.reason.is_some());
        assert!(summary.elapsed < 8 * SECOND, "{summary:?}");
    }
}

#[test]
fn provider_stops_when_requester_dies() {
    let (mut world, _, provider, requester) = single_hub_world(7, Role::SuperNode);
    world.request_with(requester, Service::Video, ANYWHERE, |wanted| wanted.duration = Some(60 * SECOND));
    world.run(SECOND);
    world.freeze(requester);
    world.run(4 * SECOND);
    assert_eq!(world.status(provider).sessions.len(), 1);
    world.run(40 * SECOND);
    assert!(world.status(provider).sessions.is_empty());
    let closed = world.events(provider).iter().filter_map(|(_, event)| match event {
        NodeEvent::CloseSource { reason, .. } => Some(*reason),
        _ => None,
    });
    assert_eq!(closed.collect::<Vec<_>>(), [Some(Reason::TimedOut)]);
}

#[test]
fn broken_connection_redialed_flow_continues() {
    let (mut world, _, provider, requester) = single_hub_world(8, Role::SuperNode);
    world.hosts[provider.0].object_bytes = Some(1_000_000);
    let stream = world.request(requester, Service::Track, ANYWHERE);
    let object_ticket = world.request(requester, Service::Image, ANYWHERE);
    world.run(300 * MS);
    world.break_connections(provider, requester);
    let summary = finished(&mut world, requester, object_ticket);
    assert!(summary.complete, "{summary:?}");
    assert!(world.delivered(requester, object_ticket) == object(1_000_000));
    let summary = finished(&mut world, requester, stream);
    assert!(summary.complete, "{summary:?}");
    assert!(summary.lost > 0 && summary.lost < 10, "{summary:?}");
    assert_eq!(world.hosts[provider.0].opened.len(), 2, "nothing was asked for again");
}

#[test]
fn unreachable_requester_is_relayed() {
    let (mut world, _, provider, requester) = single_hub_world(9, Role::SuperNode);
    world.cut(provider, requester);
    let ticket = world.request(requester, Service::Image, ANYWHERE);
    let summary = finished(&mut world, requester, ticket);
    assert!(summary.complete && summary.relayed, "{summary:?}");
}

#[test]
fn unreachable_requester_waits_once() {
    let (mut world, _, provider, requester) = single_hub_world(16, Role::SuperNode);
    world.dial_timeout = 9 * SECOND;
    world.cut(provider, requester);
    let ask = |world: &mut World| {
        let ticket = world.request(requester, Service::Image, ANYWHERE);
        let summary = finished(world, requester, ticket);
        assert!(summary.complete, "{summary:?}");
        (summary.relayed, summary.first_byte)
    };
    let (relayed, first_byte) = ask(&mut world);
    assert!(relayed && first_byte < 2500 * MS, "{first_byte:?}");
    let (relayed, first_byte) = ask(&mut world);
    assert!(relayed && first_byte < 200 * MS, "{first_byte:?}");
    // A minute later it is worth another try.
    world.heal();
    world.run(61 * SECOND);
    let (relayed, first_byte) = ask(&mut world);
    assert!(!relayed && first_byte < 500 * MS, "{first_byte:?}");
}

#[test]
fn reachable_again_requester_answered_directly() {
    let (mut world, _, provider, requester) = single_hub_world(17, Role::SuperNode);
    world.dial_timeout = 9 * SECOND;
    world.cut(provider, requester);
    let ticket = world.request(requester, Service::Sensor, ANYWHERE);
    assert!(finished(&mut world, requester, ticket).relayed);
    assert!(world.run_while(10 * SECOND, |world| !world.is_dialing(requester)), "it has dialled in vain as well");
    world.heal();
    // The requester asks the provider itself, by which there is a connection.
    let node = node_id(provider.0);
    let known = Provider { node, addresses: addresses(provider.0) };
    let ticket = world.request_with(requester, Service::Sensor, ANYWHERE, |wanted| wanted.provider = Some(known));
    assert!(finished(&mut world, requester, ticket).complete);
    let ticket = world.request(requester, Service::Sensor, ANYWHERE);
    assert!(!finished(&mut world, requester, ticket).relayed);
}

#[test]
fn slow_streams_are_passed_over() {
    let (mut world, _, providers, requester) = two_provider_world(19);
    // The hub knows everybody by now.
    world.run(70 * SECOND);
    // A synthetic video has 700 kbit/s.
    for (min_kbps, is_served) in [(700, true), (701, false)] {
        let opened = providers.map(|provider| world.hosts[provider.0].opened.len());
        let ticket = world.request_with(requester, Service::Video, NEAREST, |wanted| wanted.min_kbps = Some(min_kbps));
        if is_served {
            assert!(finished(&mut world, requester, ticket).complete);
            continue;
        }
        assert_eq!(failed(&mut world, requester, ticket), Reason::TooSlow);
        let asked = providers.map(|provider| world.hosts[provider.0].opened.len());
        assert_eq!(asked, opened.map(|before| before + 1), "the hub asks both");
    }
    let objects = world.request_with(requester, Service::Image, NEAREST, |wanted| wanted.min_kbps = Some(1));
    assert_eq!(failed(&mut world, requester, objects), Reason::NotAllowed);
}

#[test]
fn half_deadline_is_left_for_relaying() {
    let (mut world, _, provider, requester) = single_hub_world(18, Role::SuperNode);
    world.cut(provider, requester);
    let short = |wanted: &mut RequestCommand| wanted.timeout = Some(SECOND);
    let ticket = world.request_with(requester, Service::Sensor, ANYWHERE, short);
    let summary = finished(&mut world, requester, ticket);
    assert!(summary.complete && summary.relayed && summary.first_byte < 800 * MS, "{summary:?}");
}

#[test]
fn leaving_provider_tells_its_requesters() {
    let (mut world, _, [near, far], requester) = two_provider_world(10);
    let ticket = world.request(requester, Service::Video, NEAREST);
    world.run(SECOND);
    world.command(near, NodeCommand::Leave);
    let summary = finished(&mut world, requester, ticket);
    assert_eq!(summary.reason, Some(Reason::Leaving));
    assert!(matches!(world.events(near).last(), Some((_, NodeEvent::Left))));
    let ticket = world.request(requester, Service::Sensor, NEAREST);
    assert_eq!(finished(&mut world, requester, ticket).provider, node_id(far.0));
}

#[test]
fn silently_restarted_requester_is_redialed() {
    for bytes in [400, 50_000] {
        let (mut world, hub, provider, requester) = single_hub_world(11, Role::SuperNode);
        world.hosts[provider.0].object_bytes = Some(bytes);
        let ticket = world.request(requester, Service::Sensor, ANYWHERE);
        assert!(finished(&mut world, requester, ticket).complete);
        world.restart_silently(requester, &[hub], 2_000);
        world.run_until_attached();
        let ticket = world.request(requester, Service::Sensor, ANYWHERE);
        let summary = finished(&mut world, requester, ticket);
        assert!(summary.complete && !summary.relayed, "{bytes} bytes: {summary:?}");
        assert!(summary.first_byte < 3 * SECOND, "{summary:?}");
    }
}

#[test]
fn old_restart_redialed_after_one_timeout() {
    for bytes in [400, 50_000] {
        let (mut world, hub, provider, requester) = single_hub_world(16, Role::SuperNode);
        world.hosts[provider.0].object_bytes = Some(bytes);
        let ticket = world.request(requester, Service::Sensor, ANYWHERE);
        assert!(finished(&mut world, requester, ticket).complete);
        world.run(200 * SECOND);
        world.restart_silently(requester, &[hub], 2_000);
        world.run(200 * SECOND);
        let ticket = world.request(requester, Service::Sensor, ANYWHERE);
        let summary = finished(&mut world, requester, ticket);
        assert!(summary.complete && !summary.relayed, "{bytes} bytes: {summary:?}");
        assert!(summary.first_byte < SECOND / 2, "{bytes} bytes: {summary:?}");
    }
}

#[test]
fn needless_retry_lengthens_next_timeout() {
    let (mut world, hub, provider, requester) = single_hub_world(17, Role::SuperNode);
    world.path.spread = Duration::ZERO;
    for pair in [(hub, requester), (hub, provider)] {
        world.delays.insert(pair, 50 * MS);
    }
    // An answer takes 230 ms, and a probe time-out is 135 ms.
    world.delays.insert((provider, requester), 130 * MS);
    world.run(3000 * SECOND);
    let mut retries = Vec::new();
    for _ in 0..4 {
        let ticket = world.request(requester, Service::Sensor, ANYWHERE);
        assert!(finished(&mut world, requester, ticket).complete);
        retries.push(world.status(requester).counters.retries);
        world.run(10 * SECOND);
    }
    // The first one waits for a handshake, of which it is told; the second is too hasty.
    assert_eq!(retries, [0, 1, 1, 1]);
    // A provider that is gone is found out by as much later, and no more.
    world.freeze(provider);
    let (began, ticket) = (world.now, world.request(requester, Service::Sensor, ANYWHERE));
    world.run_while(SECOND, |world| world.status(requester).counters.retries > 1);
    let waited = world.now.since(began);
    assert!(waited > 265 * MS && waited < 275 * MS, "{waited:?}");
    world.outcome(requester, ticket);
}

#[test]
fn reconfigured_provider_is_not_asked() {
    let (mut world, _, [near, far], requester) = two_provider_world(12);
    let services = [Service::Track].into_iter().collect();
    world.command(near, NodeCommand::Reconfigure { services, max_streams: 8, uplink_kbps: None });
    world.run(SECOND);
    let ticket = world.request(requester, Service::Sensor, NEAREST);
    assert_eq!(finished(&mut world, requester, ticket).provider, node_id(far.0));
    let ticket = world.request(requester, Service::Track, NEAREST);
    assert_eq!(finished(&mut world, requester, ticket).provider, node_id(near.0));
}

#[test]
fn simultaneous_requests_share_one_connection() {
    let (mut world, _, provider, requester) = single_hub_world(13, Role::SuperNode);
    let tickets: Vec<_> = (0..20).map(|_| world.request(requester, Service::Sensor, ANYWHERE)).collect();
    for ticket in tickets {
        let summary = finished(&mut world, requester, ticket);
        assert!(summary.complete && !summary.relayed, "{summary:?}");
    }
    assert_eq!(world.status(requester).connections, 2, "the hub and the provider");
    assert_eq!(world.hosts[provider.0].opened.len(), 20, "each was served once");
}

#[test]
fn freed_provider_is_preferred_at_once() {
    let mut world = World::new(14);
    let hub = world.hub(Role::SuperNode);
    let one = |config: &mut NodeConfig| {
        config.services = [Service::Video].into_iter().collect();
        config.max_streams = 1;
    };
    let near = world.node_with(&[hub], one);
    let far = world.node_with(&[hub], |config| {
        one(config);
        config.cell = Cell::new(9, 0);
    });
    let requester = world.node((0, 0), &[], &[hub]);
    world.run_until_attached();
    world.run(3 * SECOND);
    for _ in 0..3 {
        let ticket = world.request(requester, Service::Video, NEAREST);
        assert_eq!(finished(&mut world, requester, ticket).provider, node_id(near.0));
        world.run(SECOND);
    }
    assert!(world.hosts[far.0].opened.is_empty());
}

#[test]
fn capacity_renewals_are_rate_limited() {
    let mut world = World::new(15);
    let hub = world.hub(Role::SuperNode);
    world.node_with(&[hub], |config| {
        config.services = [Service::Track].into_iter().collect();
        config.max_streams = 1;
        config.stream_duration = 100 * MS;
    });
    let requester = world.node((0, 0), &[], &[hub]);
    world.run_until_attached();
    let began = world.now;
    world.corpus = Some(Vec::new());
    for _ in 0..20 {
        let ticket = world.request(requester, Service::Track, NEAREST);
        assert!(finished(&mut world, requester, ticket).complete);
    }
    let told = world.corpus.take().unwrap();
    let renewals = told
        .iter()
        .filter(|message| matches!(Message::decode(message), Ok(Message::Registration(RegistrationMessage::Renew(_)))))
        .count();
    let took = world.now.since(began);
    assert!((1..=took.as_secs() + 1).contains(&(renewals as u64)), "{renewals} renewals in {took:?}");
}

#[test]
fn busy_decline_has_retry_after() {
    for count in [1, 2] {
        let mut world = World::new(16);
        let hubs = world.mesh(count);
        let busy = world.node_with(&hubs[count - 1..], |config| {
            config.services = [Service::Video].into_iter().collect();
            config.max_streams = 2;
        });
        let requester = world.node((0, 0), &[], &hubs[..1]);
        world.run_until_attached();
        world.run(3 * SECOND);
        for seconds in [10, 5] {
            world.request_with(requester, Service::Video, NEAREST, |wanted| wanted.duration = Some(seconds * SECOND));
        }
        world.run(2 * SECOND);
        let wait = |world: &mut World, provider: Option<Provider>| {
            let ticket = world.request_with(requester, Service::Video, NEAREST, |wanted| wanted.provider = provider);
            match world.outcome(requester, ticket) {
                NodeEvent::Failed { reason: Reason::Busy, retry_after, .. } => retry_after,
                other => panic!("{other:?}"),
            }
        };
        let known = Some(Provider { node: node_id(busy.0), addresses: addresses(busy.0) });
        for provider in [None, known] {
            let left = wait(&mut world, provider).unwrap();
            assert!(left > 2500 * MS && left <= 3 * SECOND, "{left:?}");
        }
    }
}

#[test]
fn rejected_provider_is_not_relayed_either() {
    let (mut world, _, [near, far], requester) = two_provider_world(17);
    world.bar(requester, near);
    let ticket = world.request(requester, Service::Image, NEAREST);
    let summary = finished(&mut world, requester, ticket);
    assert!(summary.provider == node_id(far.0) && !summary.relayed, "{summary:?}");
    world.bar(requester, far);
    let ticket = world.request(requester, Service::Image, NEAREST);
    assert_eq!(failed(&mut world, requester, ticket), Reason::Unreachable);
    assert!(world.hosts[near.0].opened.is_empty(), "its source was not even opened");
}

#[test]
fn barring_provider_ends_its_stream() {
    let (mut world, _, provider, requester) = single_hub_world(18, Role::SuperNode);
    let ticket = world.request_with(requester, Service::Video, ANYWHERE, |wanted| wanted.duration = Some(60 * SECOND));
    world.run(SECOND);
    world.bar(requester, provider);
    world.run(SECOND);
    assert!(world.status(provider).sessions.is_empty(), "the provider stops as well");
    let summary = finished(&mut world, requester, ticket);
    assert!(!summary.complete && summary.elapsed < 2 * SECOND, "{summary:?}");
    assert_eq!(summary.broken.as_deref(), Some("it was revoked"));
}

#[test]
fn lost_provider_is_reported_in_summary() {
    let (mut world, _, provider, requester) = single_hub_world(19, Role::SuperNode);
    let ticket = world.request(requester, Service::Video, ANYWHERE);
    world.run(SECOND);
    world.kill(provider);
    let summary = finished(&mut world, requester, ticket);
    assert_eq!(summary.broken.as_deref(), Some("the other end has gone"));
}

#[test]
fn failed_provider_is_temporarily_last() {
    let (mut world, _, [near, far], requester) = two_provider_world(20);
    world.hosts[near.0].broken_source = true;
    let provider = |world: &mut World| {
        let ticket = world.request(requester, Service::Sensor, NEAREST);
        finished(world, requester, ticket).provider
    };
    assert_eq!(provider(&mut world), node_id(far.0));
    assert_eq!(provider(&mut world), node_id(far.0));
    assert_eq!(world.hosts[near.0].opened.len(), 1, "it was not asked a second time");
    world.hosts[near.0].broken_source = false;
    world.run(LONGEST_HOLD);
    assert_eq!(provider(&mut world), node_id(near.0));
}

#[test]
fn full_uplink_avoided_until_free() {
    let mut world = World::new(21);
    let hub = world.hub(Role::SuperNode);
    let video = |x| {
        move |config: &mut NodeConfig| {
            config.services = [Service::Video].into_iter().collect();
            config.cell = Cell::new(x, 0);
            config.uplink_kbps = Some(1_000);
        }
    };
    let near = world.node_with(&[hub], video(0));
    let far = world.node_with(&[hub], video(9));
    let requester = world.node((0, 0), &[], &[hub]);
    world.run_until_attached();
    world.run(3 * SECOND);
    let both: Vec<_> = (0..2).map(|_| world.request(requester, Service::Video, NEAREST)).collect();
    for (ticket, provider) in both.into_iter().zip([near, far]) {
        assert_eq!(finished(&mut world, requester, ticket).provider, node_id(provider.0));
    }
    assert_eq!(world.status(near).counters.declined_busy, 0, "nobody asked it for more than it has");
    world.run(SECOND);
    let ticket = world.request(requester, Service::Video, NEAREST);
    assert_eq!(finished(&mut world, requester, ticket).provider, node_id(near.0));
}

/// The outcome of a traced request, and the way that it took.
fn traced(
    world: &mut World,
    host: HostId,
    service: Service,
    change: impl FnOnce(&mut RequestCommand),
) -> (NodeEvent, Trace) {
    let ticket = world.request_with(host, service, NEAREST, |wanted| {
        wanted.trace = true;
        change(wanted);
    });
    let outcome = world.outcome(host, ticket);
    let trace = world.events(host).iter().find_map(|(_, event)| match event {
        NodeEvent::Traced { ticket: other, trace } if *other == ticket => Some(trace.clone()),
        _ => None,
    });
    let Some(trace) = trace else { panic!("the way is told before the request is over: {outcome:?}") };
    (outcome, trace)
}

/// Actions of the hubs in the order of the way, then of the provider.
fn way(trace: &Trace) -> Vec<(NodeId, HopAction)> {
    let mut hops: Vec<_> = trace.hops.iter().collect();
    hops.sort_by_key(|hop| (hop.hop.step.is_of_provider(), hop.hop.index, hop.heard));
    hops.iter().map(|hop| (hop.hop.node, hop.hop.step)).collect()
}

#[test]
fn trace_shows_hubs_and_provider_answer() {
    for (mode, relayed) in [(RequestMode::Forward, false), (RequestMode::Relay, true)] {
        let mut world = World::new(22);
        let hubs = world.mesh(2);
        world.run(2 * SECOND);
        let provider = world.node((3, 0), &Service::ALL, &hubs[1..]);
        let requester = world.node((0, 0), &[], &hubs[..1]);
        world.run_until_attached();
        let (home, other) = (world.home(requester).unwrap(), world.home(provider).unwrap());
        for first in [true, false] {
            let (outcome, trace) = traced(&mut world, requester, Service::Sensor, |wanted| wanted.mode = mode);
            assert!(matches!(outcome, NodeEvent::Finished { .. }), "{outcome:?}");
            let ids = [home, other, provider].map(|host| node_id(host.0));
            let handed = if relayed { HopAction::Relayed } else { HopAction::HandedToProvider };
            let answered = if first && !relayed { HopAction::Dialed } else { HopAction::ReusedConnection };
            let expected =
                [(ids[0], HopAction::LookedUp), (ids[0], HopAction::PassedToHub), (ids[1], handed), (ids[2], answered)];
            assert_eq!(way(&trace), expected, "{mode:?}");
            // Each leg was measured by the one before it, and lasts about as long as connections take.
            let legs: Vec<_> = trace.hops.iter().filter(|hop| hop.hop.step != HopAction::LookedUp).collect();
            let rtts: Vec<_> = legs.iter().filter_map(|hop| hop.hop.round_trip_us).collect();
            assert_eq!(rtts.len(), if relayed { 3 } else { 2 }, "{trace:?}");
            assert!(rtts.iter().all(|rtt| (1_000..500_000).contains(rtt)), "{rtts:?}");
            assert!(trace.accepted.is_some() && trace.sent == 1, "{trace:?}");
        }
    }
}

#[test]
fn trace_ends_without_reports() {
    let (mut world, hub, [near, far], requester) = two_provider_world(23);
    // Nobody serves, and the hub says so.
    for host in [near, far] {
        world.hosts[host.0].broken_source = true;
    }
    let (outcome, trace) = traced(&mut world, requester, Service::Image, |_| {});
    assert!(matches!(outcome, NodeEvent::Failed { reason: Reason::SourceFailed, .. }), "{outcome:?}");
    let (hub_id, declined) = (node_id(hub.0), HopAction::Declined);
    let steps = [HopAction::HandedToProvider, declined, HopAction::HandedToProvider, declined, HopAction::Exhausted]
        .map(|step| (hub_id, step));
    assert_eq!(way(&trace), steps);
    // The hub is gone.
    world.kill(hub);
    let (outcome, trace) = traced(&mut world, requester, Service::Image, |wanted| wanted.timeout = Some(SECOND));
    assert!(matches!(outcome, NodeEvent::Failed { .. }) && trace.hops.is_empty(), "{outcome:?} {trace:?}");
    // A known provider is asked without a hub.
    world.hosts[near.0].broken_source = false;
    let known = Provider { node: node_id(near.0), addresses: addresses(near.0) };
    let (outcome, trace) = traced(&mut world, requester, Service::Image, |wanted| wanted.provider = Some(known));
    assert!(matches!(outcome, NodeEvent::Finished { .. }), "{outcome:?}");
    assert_eq!(way(&trace), [(node_id(near.0), HopAction::ReusedConnection)]);
}

#[test]
fn concurrent_traces_are_limited() {
    let (mut world, _, _, requester) = two_provider_world(24);
    let trace = |wanted: &mut RequestCommand| wanted.trace = true;
    let tickets: Vec<_> =
        (0..=MAX_TRACES).map(|_| world.request_with(requester, Service::Video, NEAREST, trace)).collect();
    assert_eq!(failed(&mut world, requester, tickets[MAX_TRACES]), Reason::TooMany);
    assert!(finished(&mut world, requester, tickets[0]).complete);
    world.run(10 * SECOND);
    let ticket = world.request_with(requester, Service::Sensor, NEAREST, trace);
    assert!(finished(&mut world, requester, ticket).complete);
}
