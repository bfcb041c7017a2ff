//! Hosts that mean harm get nothing, send nobody anything, and fill no memory.

use crate::*;

const SECOND: Duration = Duration::from_secs(1);
const P: u8 = 1;
const HP: u8 = 2;
const S: u8 = 10;
const EVIL: u8 = 66;
const VICTIM: u8 = 77;

fn watched() -> RelayWorld {
    let mut world = RelayWorld::new(1);
    world.publish(P);
    world.subscribe(&[P, HP, S]);
    world.passes(2 * SECOND);
    world.forget_traffic();
    world
}

fn everything(stream: StreamId, word: PathToken, tag: StreamTag) -> Vec<Vec<u8>> {
    let nack = Nack::from_counters(&(0..40).map(|counter| (1_u64 << 32) + counter).collect()).unwrap();
    let reported = ReceiverReport { highest: 1 << 33, ..ReceiverReport::default() };
    let said = [
        ControlPacket::Offer(tag),
        ControlPacket::Heartbeat { depth: 0, next: 1 << 33 },
        ControlPacket::Leaving,
        ControlPacket::Bye,
        ControlPacket::Answer { tag, next: 0 },
        ControlPacket::Report(reported),
        ControlPacket::Nack(nack),
        ControlPacket::KeyFrameRequest,
    ];
    said.map(|said| said.encode(stream, word).to_vec()).to_vec()
}

#[test]
fn who_was_told_nothing_gets_nothing() {
    let mut world = watched();
    // From an address of one's own, and from those of others: tags, words and streams are guessed.
    for number in 0..3000 {
        let stream = if number % 2 == 0 { STREAM } else { StreamId(number) };
        for from in [EVIL, P, S] {
            let said = everything(stream, PathToken(number), StreamTag(1000 + number));
            let which = world.below(said.len() as u64) as usize;
            world.sends(from, HP, said[which].clone());
        }
        world.passes(SECOND / 1000);
    }
    world.passes(2 * SECOND);
    assert_eq!(world.carried(HP, EVIL), 0);
    assert!(world.status(HP).unwrap().downstreams.len() == 1);
    assert_eq!(world.hosts[&HP].streams(world.now).count(), 1);
    world.assert_whole(S);
    // The answer is no longer than the question.
    let back = world.said.get(&(HP, EVIL)).map_or(0, Vec::len);
    assert!(back <= 3000, "{back}");
    assert!(world.said.get(&(HP, EVIL)).into_iter().flatten().all(|said| *said == ControlPacket::Bye));
    let told = world.events_of(S);
    assert!(
        !told.contains(&RelayEvent::Lost { stream: STREAM })
            && !told.contains(&RelayEvent::UpstreamLeaving { stream: STREAM })
    );
}

/// A member of a room is asked for its own stream by all others, and so knows a tag of their hub.
#[test]
fn subscriber_cannot_offer_others_stream() {
    let mut world = watched();
    let (now, tag) = (world.now, StreamTag(930));
    let grant = world.grant_of(tag, S + 1, StreamTag(931), DownstreamKind::Subscriber);
    let provider = Some(NodeId::from_bytes([9; 16]));
    world.relay(HP).grant(now, ReflectionGrant { provider, ..grant }).unwrap();
    for _ in 0..5 {
        for said in [ControlPacket::Offer(tag), ControlPacket::Heartbeat { depth: 0, next: 1 << 33 }] {
            world.sends(EVIL, HP, said.encode(STREAM, PathToken(1)));
        }
        world.passes(SECOND);
    }
    assert!(world.said[&(HP, EVIL)].iter().all(|said| *said == ControlPacket::Bye));
    world.assert_whole(S);
}

/// A packet that nobody can open, in the place of this packet.
fn forged(counter: u64) -> Vec<u8> {
    let header = Header { flags: Flags::default(), frame: 0, stream: STREAM, epoch: Epoch(9), counter };
    [&header.encode(Hop::default())[..], &[0; 40]].concat()
}

#[test]
fn only_upstream_packets_are_accepted() {
    let mut world = watched();
    world.sends(EVIL, HP, forged(1 << 33));
    world.passes(SECOND);
    assert_eq!(world.carried(HP, S), world.carried(P, HP));
    assert_eq!(world.hosts[&HP].rejected().foreign, 1);
    world.assert_whole(S);
}

#[test]
fn spoofed_upstream_shuts_out_nothing() {
    for ahead in [70, 60_000, 1 << 40] {
        let mut world = watched();
        world.connection(P, HP, Connection { loss: 20, ..Connection::default() });
        for number in 0..300 {
            let counter = (1 << 32) + world.published() + ahead * (1 + number);
            world.sends(P, HP, forged(counter));
            world.passes(SECOND / 100);
        }
        assert!(world.carried(HP, S) > 400, "they are sent on like any");
        let got = world.once_each(S);
        let expected = got.last().unwrap() - got.first().unwrap() + 1;
        assert_eq!(got.len() as u64, expected, "what is lost is repaired still");
        assert!(got.last().unwrap() + 10 >= world.published());
    }
}

#[test]
fn genuine_packets_resume_after_forgeries() {
    let mut world = watched();
    let from = (1 << 32) + world.published() + 5000;
    (0..500).for_each(|number| world.sends(P, HP, forged(from + number)));
    world.passes(5 * SECOND);
    world.assert_whole(S);
    let highest = world.status(HP).unwrap().upstreams[0].reported.highest;
    assert!(((1 << 32) + world.published()).abs_diff(highest) <= 2 * PACKETS, "{highest}");
}

#[test]
fn victim_address_gets_no_packets() {
    let mut world = watched();
    let now = world.now;
    // A member asks, again and again, that the stream is sent to a victim.
    for number in 0..1000 {
        let grant =
            world.grant_of(StreamTag(10_000 + number), VICTIM, StreamTag(20_000 + number), DownstreamKind::Subscriber);
        let granted = world.relay(HP).grant(now, grant);
        if granted.is_ok() {
            let _ = world.relay(P).offer(now, STREAM, at(HP), grant.tag);
        }
    }
    world.passes(20 * SECOND);
    assert_eq!(world.carried(HP, VICTIM), 0);
    let offers = world.said[&(HP, VICTIM)].len();
    assert!(offers <= 8 * 5, "{offers}");
    assert_eq!(world.status(HP).unwrap().downstreams.len(), 1);
}

#[test]
fn validated_victim_stops_unwanted_stream() {
    let mut world = watched();
    world.subscribe(&[P, HP, VICTIM]);
    world.passes(SECOND);
    let now = world.now;
    world.relay(VICTIM).release_stream(now, STREAM);
    world.passes(SECOND);
    world.forget_traffic();
    let (now, grant) =
        (world.now, world.grant_of(StreamTag(7000), VICTIM, StreamTag(7001), DownstreamKind::Subscriber));
    world.relay(HP).grant(now, grant).unwrap();
    world.relay(P).offer(now, STREAM, at(HP), grant.tag).unwrap();
    world.passes(5 * SECOND);
    // The packets that leave within a round trip.
    assert!(world.carried(HP, VICTIM) <= 50, "{}", world.carried(HP, VICTIM));
    assert_eq!(world.status(HP).unwrap().downstreams.len(), 1);
    // And it is trusted no more.
    world.forget_traffic();
    let (now, grant) =
        (world.now, world.grant_of(StreamTag(7002), VICTIM, StreamTag(7003), DownstreamKind::Subscriber));
    world.relay(HP).grant(now, grant).unwrap();
    world.relay(P).offer(now, STREAM, at(HP), grant.tag).unwrap();
    world.passes(5 * SECOND);
    assert_eq!(world.carried(HP, VICTIM), 0);
}

#[test]
fn foreign_offer_leaves_subscription_alone() {
    let mut world = watched();
    let (now, grant) = (world.now, world.grant_of(StreamTag(7000), S, StreamTag(7001), DownstreamKind::Subscriber));
    world.relay(HP).grant(now, grant).unwrap();
    world.relay(P).offer(now, STREAM, at(HP), grant.tag).unwrap();
    world.passes(10 * SECOND);
    world.assert_whole(S);
}

#[test]
fn excess_grants_are_refused_and_expire() {
    let mut world = watched();
    let now = world.now;
    let mut granted = 0;
    for number in 0..10_000 {
        let grant = world.grant_of(StreamTag(10_000 + number), EVIL, StreamTag(number), DownstreamKind::Subscriber);
        granted += u64::from(world.relay(HP).grant(now, grant).is_ok());
    }
    assert!((4000..=4096).contains(&granted), "{granted}");
    world.passes(11 * SECOND);
    let (now, grant) = (world.now, world.grant_of(StreamTag(1), EVIL, StreamTag(2), DownstreamKind::Subscriber));
    assert!(world.relay(HP).grant(now, grant).is_ok());
}

#[test]
fn replayed_control_packets_gain_nothing() {
    let mut world = watched();
    world.passes(2 * SECOND);
    let (word, tag) = (PathToken(0), StreamTag(1));
    let heard: Vec<ControlPacket> = world.said.values().flatten().cloned().collect();
    assert!(!heard.is_empty());
    // The words themselves go to the subscriber only; from another address they would not count either.
    for said in heard.iter().chain([&ControlPacket::Answer { tag, next: 0 }]) {
        world.sends(EVIL, HP, said.encode(STREAM, word));
    }
    world.passes(3 * SECOND);
    assert_eq!(world.carried(HP, EVIL), 0);
    world.assert_whole(S);
}

/// Publishers and one subscriber ask for as many streams as they can.
fn fill(world: &mut RelayWorld, publishers: u8) {
    for number in 0..600_u32 {
        let publisher = 100 + (number % u32::from(publishers)) as u8;
        let (tag, owner) = (StreamTag(5_000 + u64::from(number)), NodeId::from_bytes([publisher; 16]));
        let grant = world.grant_of(tag, EVIL, StreamTag(9_000 + u64::from(number)), DownstreamKind::Subscriber);
        let now = world.now;
        // A host that does not answer is offered no more than a few; the tag holds all the same.
        let _ = world.relay(HP).grant(now, ReflectionGrant { provider: Some(owner), cell: None, ..grant });
        let stream = StreamId::from_publisher(owner, number);
        for said in [ControlPacket::Offer(tag), ControlPacket::Heartbeat { depth: 0, next: 1 }] {
            world.sends(publisher, HP, said.encode(stream, PathToken(u64::from(number))));
        }
        if number % 20 == 0 {
            world.passes(SECOND / 100);
        }
    }
}

#[test]
fn colluding_members_fill_no_table() {
    for (publishers, most) in [(1, 16), (2, 32), (40, 256)] {
        let mut world = RelayWorld::new(1);
        fill(&mut world, publishers);
        let held = world.hosts[&HP].streams(world.now).count();
        assert!(held <= most, "{publishers}: {held}");
        // A publisher that is refused hears of it.
        let refused = (100..100 + publishers).flat_map(|to| world.said.get(&(HP, to)).into_iter().flatten());
        assert!(refused.filter(|said| **said == ControlPacket::Bye).count() > 100, "{publishers}");
        // A stream of somebody else finds a place.
        world.publish(P);
        world.subscribe(&[P, HP, S]);
        world.passes(3 * SECOND);
        world.assert_whole(S);
        assert!(world.status(HP).is_some());
    }
}

/// The hub takes a stream that it has granted by the provider's name from that provider.
fn takes_the_providers_own(world: &mut RelayWorld, grant: ReflectionGrant) {
    let (now, owner) = (world.now, NodeId::from_bytes([P; 16]));
    world.relay(HP).grant(now, ReflectionGrant { provider: Some(owner), ..grant }).unwrap();
    world.sends(P, HP, ControlPacket::Offer(grant.tag).encode(StreamId::from_publisher(owner, 1), PathToken(1)));
    world.passes(SECOND / 10);
    let heard = world.said.get(&(HP, P)).cloned().unwrap_or_default();
    assert!(
        heard.iter().any(|said| matches!(said, ControlPacket::Answer { tag, .. } if *tag == grant.tag)),
        "{heard:?}"
    );
}

/// While nobody knows the provider of what is asked for by place, whoever offers it writes whose it is.
#[test]
fn forged_streams_spare_publishers_quota() {
    let mut world = RelayWorld::new(1);
    let (now, owner) = (world.now, NodeId::from_bytes([P; 16]));
    for number in 0..64_u32 {
        let tag = StreamTag(5_000 + u64::from(number));
        let grant = world.grant_of(tag, EVIL, StreamTag(9_000 + u64::from(number)), DownstreamKind::Subscriber);
        let _ = world.relay(HP).grant(now, grant);
        let word = PathToken(u64::from(number));
        for said in [ControlPacket::Offer(tag), ControlPacket::Heartbeat { depth: 0, next: 1 }] {
            world.sends(EVIL, HP, said.encode(StreamId::from_publisher(owner, 1000 + number), word));
        }
    }
    world.passes(SECOND / 10);
    assert!(world.hosts[&HP].streams(world.now).count() > 16);
    let grant = world.grant_of(StreamTag(900), S, StreamTag(901), DownstreamKind::Subscriber);
    takes_the_providers_own(&mut world, grant);
}

/// A member that offers a stream before the provider is known is not taken for that provider after, and its
/// copy is withdrawn.
#[test]
fn foreign_stream_gets_no_provider() {
    let mut world = RelayWorld::new(1);
    let (now, evil) = (world.now, StreamId::from_publisher(NodeId::from_bytes([EVIL; 16]), 1));
    let grant = world.grant_of(StreamTag(900), S, StreamTag(901), DownstreamKind::Subscriber);
    world.relay(HP).grant(now, grant).unwrap();
    world.sends(EVIL, HP, ControlPacket::Offer(grant.tag).encode(evil, PathToken(1)));
    world.passes(SECOND / 10);
    let copies = |world: &RelayWorld| {
        let streams = world.hosts[&HP].streams(world.now).filter(|status| status.stream == evil);
        streams.map(|status| status.downstreams.len()).sum::<usize>()
    };
    assert_eq!(copies(&world), 1);
    takes_the_providers_own(&mut world, grant);
    assert_eq!(copies(&world), 0);
}
