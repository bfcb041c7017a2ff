//! Subscribers that come and go: one copy for each hop, and none where nobody watches.

use crate::*;

const SECOND: Duration = Duration::from_secs(1);
const P: u8 = 1;
const HP: u8 = 2;
const HS: u8 = 3;
const S: u8 = 10;

#[test]
fn one_copy_per_hop() {
    let mut world = RelayWorld::new(1);
    world.publish(P);
    for number in 0..20 {
        world.subscribe(&[P, HP, HS, S + number]);
        world.passes(SECOND / 20);
    }
    world.passes(3 * SECOND);
    world.forget_traffic();
    let before = world.published();
    world.passes(2 * SECOND);
    let published = world.published() - before;
    assert_eq!((world.carried(P, HP), world.carried(HP, HS)), (published, published));
    for number in 0..20 {
        assert_eq!(world.carried(HS, S + number), published);
        world.assert_whole(S + number);
    }
}

/// Offers and answers take as long as a busy host lets them wait, up to the half second for which packets are kept;
/// meanwhile the stream has begun.
#[test]
fn late_answer_costs_no_first_packet() {
    for (slow, delay, has_keys) in [(P, HP), (HP, HS), (HS, S)]
        .into_iter()
        .flat_map(|leg| [1, 20, 60, 120, 180, 240].into_iter().flat_map(move |ms| [(leg, ms, false), (leg, ms, true)]))
    {
        let mut world = RelayWorld::new(6);
        world.has_keys = has_keys;
        let connection = Connection { delay: Duration::from_millis(delay), ..Connection::default() };
        world.connection(slow.0, slow.1, connection);
        world.publish(P);
        world.subscribe(&[P, HP, HS, S]);
        world.passes(2 * SECOND);
        let case = format!("{slow:?} {delay} ms, keys {has_keys}");
        let (counters, all) = (world.once_each(S), world.published());
        let first = if has_keys { counters[0] / (GROUP * PACKETS) * GROUP * PACKETS } else { 0 };
        let last = first + counters.len() as u64;
        assert!(counters.iter().copied().eq(first..last) && last > all / 2, "{case}: {counters:?} of {all}");
        let asked = world.said.values().flatten().find(|said| matches!(said, ControlPacket::Nack(_)));
        assert!(asked.is_none(), "{case}: {asked:?}");
    }
}

#[test]
fn layered_hubs_allow_three_hops() {
    let config = RelayConfig { fanout: FanoutConfig { max_hops: 3, ..Default::default() }, ..RelayConfig::default() };
    let mut world = RelayWorld::with(1, config);
    world.publish(P);
    world.subscribe(&[P, HP, 4, HS, S]);
    world.passes(5 * SECOND);
    world.assert_whole(S);
    assert_eq!(world.events_of(S).len(), 1);
}

#[test]
fn join_takes_bounded_round_trips() {
    let mut world = RelayWorld::new(2);
    world.publish(P);
    world.subscribe(&[P, HP, HS, S]);
    world.passes(2 * SECOND);
    let joined = world.now;
    let tag = world.subscribe(&[P, HP, HS, S + 1]);
    world.passes(SECOND);
    // Offers go along the way that carries the stream: P → HP → HS → S; then an answer, and packets.
    let first = world.got[&(S + 1)][0].at;
    assert_eq!(first.since(joined), Duration::from_millis(50));
    assert!(world.events_of(S + 1).contains(&RelayEvent::Began { tag, stream: STREAM }));
}

#[test]
fn named_stream_is_offered_at_once() {
    let mut world = RelayWorld::new(3);
    world.publish(P);
    world.subscribe(&[P, HP, S]);
    world.passes(2 * SECOND);
    let (joined, named) = (world.now, Some(roost_wire::Cell::new(3, 4)));
    let mut grant = world.grant_of(StreamTag(900), S, StreamTag(901), DownstreamKind::Subscriber);
    // The first names it, the second is served from what is there, and no offer came from upstream.
    for (number, host) in [(910, S + 1), (920, S + 2)] {
        (grant.tag, grant.to, grant.their_tag, grant.cell) =
            (StreamTag(number), at(host), StreamTag(number + 1), named);
        world.relay(host).expect_offer(joined, StreamTag(number + 1)).unwrap();
        world.relay(HP).grant(joined, grant).unwrap();
        if number == 910 {
            world.relay(P).offer(joined, STREAM, at(HP), StreamTag(910)).unwrap();
            world.passes(SECOND);
        }
    }
    let asked = world.now;
    world.passes(SECOND);
    assert_eq!(world.got[&(S + 2)][0].at.since(asked), Duration::from_millis(30));
    assert_eq!(world.status(HP).unwrap().names[1].service, Service::Video);
    world.assert_whole(S + 2);
}

/// The hub crosses once, where a host that is not known needs three crossings to show that it wants the stream.
#[test]
fn proven_host_gets_immediate_data() {
    for (begin, crossings) in
        [(StartCondition::Answered, 3), (StartCondition::Offered, 1), (StartCondition::Resumed, 3)]
    {
        let mut world = RelayWorld::new(3);
        world.publish(P);
        world.subscribe(&[P, HP, S]);
        world.passes(2 * SECOND);
        let now = world.now;
        let provider = Some(owner());
        let named = |grant| ReflectionGrant { provider, begin, ..grant };
        let first = named(world.grant_of(StreamTag(910), S, StreamTag(1), DownstreamKind::Subscriber));
        world.relay(HP).grant(now, first).unwrap();
        world.relay(P).offer(now, STREAM, at(HP), StreamTag(910)).unwrap();
        world.passes(SECOND);
        let asked = world.now;
        let next = named(world.grant_of(StreamTag(920), S + 1, StreamTag(921), DownstreamKind::Subscriber));
        world.relay(S + 1).expect_offer(asked, StreamTag(921)).unwrap();
        world.relay(HP).grant(asked, next).unwrap();
        world.passes(SECOND);
        assert_eq!(world.got[&(S + 1)][0].at.since(asked), Duration::from_millis(10) * crossings);
        world.assert_whole(S + 1);
    }
}

#[test]
fn repeated_grant_adds_provider_name() {
    let mut world = RelayWorld::new(3);
    world.publish(P);
    world.subscribe(&[P, HP, S]);
    world.passes(2 * SECOND);
    let now = world.now;
    let mut grant = world.grant_of(StreamTag(900), S, StreamTag(901), DownstreamKind::Subscriber);
    (grant.tag, grant.cell, grant.provider) = (StreamTag(910), None, None);
    (grant.to, grant.their_tag) = (at(S + 1), StreamTag(911));
    world.relay(S + 1).expect_offer(now, StreamTag(911)).unwrap();
    world.relay(HP).grant(now, grant).unwrap();
    world.relay(P).offer(now, STREAM, at(HP), StreamTag(910)).unwrap();
    world.passes(SECOND);
    let provider = Some(owner());
    let now = world.now;
    world.relay(HP).grant(now, ReflectionGrant { provider, ..grant }).unwrap();
    assert!(world.status(HP).unwrap().names.iter().any(|name| name.provider == provider));
    world.relay(S + 2).expect_offer(now, StreamTag(921)).unwrap();
    let next = ReflectionGrant { tag: StreamTag(920), to: at(S + 2), their_tag: StreamTag(921), provider, ..grant };
    world.relay(HP).grant(now, next).unwrap();
    world.passes(SECOND);
    world.assert_whole(S + 2);
}

#[test]
fn recent_answer_allows_immediate_data() {
    let mut world = RelayWorld::new(4);
    world.publish(P);
    world.subscribe(&[P, HP, S]);
    world.passes(2 * SECOND);
    let now = world.now;
    world.relay(S).release_stream(now, STREAM);
    world.passes(SECOND);
    world.got.clear();
    let joined = world.now;
    world.subscribe(&[P, HP, S]);
    world.passes(SECOND);
    assert_eq!(world.got[&S][0].at.since(joined), Duration::from_millis(20), "two hops, and no round trip");
    world.assert_whole(S);
}

#[test]
fn nothing_flows_where_nobody_watches() {
    let mut world = RelayWorld::new(5);
    world.publish(P);
    world.subscribe(&[P, HP, HS, S]);
    world.subscribe(&[P, HP, HS, S + 1]);
    world.passes(2 * SECOND);
    let now = world.now;
    world.relay(S).release_stream(now, STREAM);
    world.passes(6 * SECOND);
    assert!(world.carried(HP, HS) > 0 && world.status(HS).unwrap().downstreams.len() == 1);
    let now = world.now;
    world.relay(S + 1).release_stream(now, STREAM);
    world.passes(SECOND);
    world.forget_traffic();
    world.passes(3 * SECOND);
    assert!(world.carried(HP, HS) > 0, "it lingers");
    assert_eq!(world.carried(HS, S + 1), 0);
    world.passes(3 * SECOND);
    world.forget_traffic();
    world.passes(5 * SECOND);
    assert_eq!(world.carried(HP, HS), 0);
    world.passes(5 * SECOND);
    assert!(world.events_of(P).contains(&RelayEvent::Idle { stream: STREAM }));
    world.forget_traffic();
    world.passes(20 * SECOND);
    assert!(world.carried.is_empty() && world.said.is_empty(), "all is quiet: {:?}", world.said);
    assert!(world.status(HP).is_none() && world.status(HS).is_none() && world.status(S).is_none());
    // And again.
    world.subscribe(&[P, HP, HS, S]);
    world.passes(SECOND);
    assert_eq!(world.events_of(P).last(), Some(&RelayEvent::Subscribed { stream: STREAM }));
    world.assert_whole(S);
}

#[test]
fn dead_subscriber_lease_expires() {
    let mut world = RelayWorld::new(6);
    world.publish(P);
    world.subscribe(&[P, HP, HS, S]);
    world.passes(2 * SECOND);
    world.dies(S);
    world.passes(6 * SECOND);
    assert!(world.status(HS).unwrap().downstreams.is_empty());
    world.passes(10 * SECOND);
    assert!(world.status(HS).is_none() && world.status(HP).is_none());
}

#[test]
fn joiner_gets_paced_cached_key_frame() {
    let mut world = RelayWorld::new(7);
    world.publish(P);
    world.subscribe(&[P, HP, S]);
    // In the midst of a group of pictures.
    world.passes(FRAME * 25 + FRAME / 2);
    world.subscribe(&[P, HP, S + 1]);
    world.passes(SECOND * 2);
    let got = &world.got[&(S + 1)];
    assert!(got[0].flags.has(Flags::KEY_FRAME) && got[0].catch_up);
    assert_eq!(got[0].counter % (GROUP * PACKETS), 0);
    let cached = got.iter().filter(|got| got.catch_up).count() as u64;
    assert!((5 * PACKETS..7 * PACKETS).contains(&cached), "{cached}");
    // At 100 Mbit/s the first of 20 packets of 1040 bytes are spread over more than a millisecond.
    assert!(got[cached as usize - 1].at.since(got[0].at) > Duration::from_millis(1));
    world.assert_whole(S + 1);
}

#[test]
fn key_frame_requests_are_rate_limited() {
    let mut world = RelayWorld::new(8);
    world.publish(P);
    for number in 0..10 {
        world.subscribe(&[P, HP, HS, S + number]);
    }
    world.passes(2 * SECOND);
    world.forget_traffic();
    for _ in 0..30 {
        for number in 0..10 {
            let now = world.now;
            world.relay(S + number).request_key_frame(now, STREAM);
        }
        world.passes(SECOND / 10);
    }
    let asked = |world: &RelayWorld, from, to| {
        let said = world.said.get(&(from, to)).into_iter().flatten();
        said.filter(|said| **said == ControlPacket::KeyFrameRequest).count()
    };
    assert_eq!((asked(&world, S, HS), asked(&world, HS, HP), asked(&world, HP, P)), (3, 3, 3));
    let told = world
        .events_of(P)
        .into_iter()
        .filter(|event| *event == RelayEvent::KeyFrameRequested { stream: STREAM })
        .count();
    assert_eq!(told, 3);
}

#[test]
fn repeated_offers_pass_tag_limit() {
    let mut world = RelayWorld::new(12);
    world.publish(P);
    world.subscribe(&[P, S]);
    // More than are waited for at once, while the stream goes on.
    for round in 0..550 {
        let now = world.now;
        for number in 0..8 {
            let tag = StreamTag(10_000 + round * 8 + number);
            world.relay(S).expect_offer(now, tag).unwrap();
            world.relay(P).offer(now, STREAM, at(S), tag).unwrap();
        }
        world.passes(SECOND / 20);
    }
    assert_eq!(world.events_of(S).len(), 1 + 550 * 8, "each has begun");
    world.assert_whole(S);
}

/// Before the first packet has come nobody knows how much a stream takes.
#[test]
fn unmeasured_stream_reserves_usual_rate() {
    let roost_wire::FlowKind::Stream { bits_per_second, .. } = Service::Video.flow_kind() else {
        panic!("video is a stream")
    };
    let config = RelayConfig { uplink: Some(u64::from(bits_per_second) * 5 / 2), ..RelayConfig::default() };
    let mut world = RelayWorld::with(13, config);
    world.publish(P);
    world.publishes.clear();
    for number in 0..4 {
        world.subscribe(&[P, HP, S + number]);
    }
    world.passes(SECOND);
    assert_eq!(world.status(HP).unwrap().downstreams.len(), 2);
}

#[test]
fn what_nobody_offers_is_told() {
    let mut world = RelayWorld::new(9);
    let now = world.now;
    world.relay(S).expect_offer(now, StreamTag(5)).unwrap();
    world.passes(6 * SECOND);
    assert_eq!(world.events_of(S), [RelayEvent::OfferTimedOut { tag: StreamTag(5) }]);
}

#[test]
fn expecting_again_keeps_running_stream() {
    let mut world = RelayWorld::new(10);
    world.publish(P);
    let tag = world.subscribe(&[P, HP, S]);
    world.passes(SECOND);
    let now = world.now;
    world.relay(S).expect_offer(now, tag).unwrap();
    world.passes(10 * SECOND);
    assert_eq!(world.events_of(S), [RelayEvent::Began { tag, stream: STREAM }]);
}

#[test]
fn later_stream_replaces_first() {
    let mut world = RelayWorld::new(11);
    world.publish(P);
    let tag = world.subscribe(&[P, S]);
    world.passes(SECOND);
    let (now, other) = (world.now, StreamId(78));
    world.relay(P).publish(now, other).unwrap();
    world.relay(P).offer(now, other, at(S), tag).unwrap();
    world.passes(SECOND);
    let began = [STREAM, other].map(|stream| RelayEvent::Began { tag, stream });
    assert_eq!(world.events_of(S), began);
    assert!(world.status(S).is_none() && world.status(P).unwrap().downstreams.is_empty());
}

/// Any subscriber begins to watch over any hub, stops, or dies.
fn come_or_go(world: &mut RelayWorld, watching: &mut BTreeSet<u8>, hubs: [u8; 3]) {
    let subscriber = S + world.below(8) as u8;
    let hub = hubs[world.below(3) as usize];
    match world.below(5) {
        0 if watching.remove(&subscriber) => {
            let now = world.now;
            world.relay(subscriber).release_stream(now, STREAM);
        }
        1 if watching.remove(&subscriber) => world.dies(subscriber),
        _ if watching.insert(subscriber) => {
            let way = [P, HP, hub, subscriber];
            let straight = [P, HP, subscriber];
            world.subscribe(if hub == HP { &straight } else { &way });
        }
        _ => {}
    }
}

/// Whoever comes, goes and dies, on connections that do their worst: in the end, who watches has it, and nothing else flows.
#[test]
fn joins_leaves_and_deaths_converge() {
    for_seeds(4, |seed| {
        let mut world = RelayWorld::new(seed);
        let bad = Connection { delay: 5 * SECOND / 1000, jitter: SECOND / 100, loss: 20, repeats: 20 };
        world.all_connections(bad);
        world.publish(P);
        let mut watching = BTreeSet::new();
        let hubs = [HP, HS, 4];
        for _ in 0..40 {
            come_or_go(&mut world, &mut watching, hubs);
            let wait = world.below(2000);
            world.passes(Duration::from_millis(wait));
        }
        // Offers that were lost too often are made again, as the owner would after `Unoffered`.
        for subscriber in watching.clone() {
            if world.status(subscriber).is_none() {
                world.subscribe(&[P, HP, HS, subscriber]);
            }
        }
        world.all_connections(Connection::default());
        world.passes(20 * SECOND);
        world.forget_traffic();
        let before = world.published();
        world.passes(2 * SECOND);
        let published = world.published() - before;
        let expected = if watching.is_empty() { 0 } else { published };
        assert_eq!(world.carried(P, HP), expected, "{watching:?}");
        for subscriber in S..S + 8 {
            let into: u64 = hubs.iter().map(|hub| world.carried(*hub, subscriber)).sum();
            assert_eq!(
                into,
                if watching.contains(&subscriber) { published } else { 0 },
                "{subscriber} of {watching:?}"
            );
        }
    });
}
