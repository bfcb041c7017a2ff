//! The reflector in virtual time: who gets what, and who does not.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop where it stands")]

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use bytes::BytesMut;
use proptest::prelude::*;
use roost_reflection::control::Nack;
use roost_reflection::{
    DownstreamKind, Epoch, EpochLimits, EpochSecret, FanoutConfig, Flags, Header, Hop, Publisher, SendOutcome,
    StartPoint, StreamId, StreamReflector, TargetId, TargetOptions, TargetStats,
};
use roost_wire::Time;

const STREAM: StreamId = StreamId(77);
const FRAME: Duration = Duration::from_millis(40);
const PACKET_BYTES: usize = 1040;

fn address(number: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, number], 7700))
}

fn publisher_at() -> SocketAddr {
    address(1)
}

/// A reflector, the publisher of its stream, and what each target has got.
struct ReflectorWorld {
    now: Time,
    reflector: StreamReflector,
    targets: BTreeMap<SocketAddr, TargetId>,
    publisher: Publisher,
    got: BTreeMap<SocketAddr, Vec<(Time, Vec<u8>)>>,
    /// Targets whose way is full.
    stalled: BTreeSet<SocketAddr>,
    frame: u16,
}

impl ReflectorWorld {
    fn new() -> Self {
        let (now, secret) = (Time::ZERO, EpochSecret::from_bytes([1; 32]));
        let reflector = StreamReflector::new(STREAM, FanoutConfig::default());
        let publisher = Publisher::new(now, STREAM, Epoch(1), &secret, EpochLimits::default()).unwrap();
        let (targets, got, stalled) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
        Self { now, reflector, targets, publisher, got, stalled, frame: 0 }
    }

    fn join(&mut self, target: SocketAddr) {
        self.join_on(target, TargetOptions::SUBSCRIBER);
    }

    fn join_on(&mut self, target: SocketAddr, terms: TargetOptions) {
        if !self.targets.contains_key(&target) {
            let id = self.reflector.fanout().add_target(self.now, target, terms, StartPoint::KeyFrame).unwrap();
            self.targets.insert(target, id);
        }
    }

    fn leave(&mut self, target: SocketAddr) -> bool {
        let id = self.targets.remove(&target);
        id.and_then(|id| self.reflector.fanout().remove_target(id)).is_some()
    }

    fn nack(&mut self, target: SocketAddr, missing: &[u64]) {
        let nack = Nack::from_counters(&missing.iter().map(|counter| (1_u64 << 32) + counter).collect()).unwrap();
        self.reflector.fanout().repair(self.now, self.targets[&target], &nack);
        self.send();
    }

    fn packet(&mut self, flags: Flags) -> Vec<u8> {
        let mut out = BytesMut::new();
        self.publisher.seal(self.now, self.frame, flags, &[7; PACKET_BYTES - 40], &mut out).unwrap();
        out.to_vec()
    }

    fn hears(&mut self, from: SocketAddr, datagram: &[u8]) {
        // Refused packets are counted.
        let _ = self.reflector.receive_packet(self.now, from, datagram);
        self.reflector.fanout().close(self.now);
        self.send();
    }

    /// A frame of some packets, the first with these flags.
    fn frame(&mut self, packets: usize, flags: Flags) {
        for number in 0..packets {
            let packet = self.packet(if number == 0 { flags } else { Flags::default() });
            self.reflector.receive_packet(self.now, publisher_at(), &packet).unwrap();
        }
        self.frame += 1;
        self.reflector.fanout().close(self.now);
        self.send();
    }

    /// So many groups of 10 frames, each frame of 4 packets and 40 ms.
    fn groups(&mut self, groups: usize) {
        for number in 0..10 * groups {
            self.frame(4, if number % 10 == 0 { Flags::KEY_FRAME } else { Flags::default() });
            self.passes(FRAME);
        }
    }

    fn send(&mut self) {
        while let Some(transmit) = self.reflector.fanout().poll_transmit(self.now) {
            let is_full = self.stalled.contains(&transmit.to);
            let packets = transmit.contents.chunks(transmit.segment);
            let sent = if is_full { 0 } else { packets.len() as u32 };
            if !is_full {
                let got = self.got.entry(transmit.to).or_default();
                got.extend(packets.map(|packet| (self.now, packet.to_vec())));
            }
            let outcome = SendOutcome { sent, is_full, ..SendOutcome::default() };
            self.reflector.fanout().record_outcome(self.now, &transmit, outcome);
        }
    }

    /// Time passes, with everything that is due.
    fn passes(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(due) = self.reflector.targets().poll_deadline().filter(|due| *due <= end) {
            self.now = due.max(self.now + Duration::from_micros(1));
            self.reflector.fanout().handle_timeout(self.now);
            self.send();
        }
        self.now = end;
    }

    fn counters(&self, target: SocketAddr) -> Vec<u64> {
        let packets = self.got.get(&target).into_iter().flatten();
        packets.filter_map(|(_, packet)| Some(Header::decode(packet).ok()?.1.counter & 0xffff_ffff)).collect()
    }

    fn statistics(&self, target: SocketAddr) -> TargetStats {
        self.reflector.targets().statistics(self.targets[&target]).unwrap()
    }
}

#[test]
fn packets_are_not_sent_back() {
    let mut world = ReflectorWorld::new();
    world.join(address(2));
    world.join(publisher_at());
    let packet = world.packet(Flags::default());
    world.hears(publisher_at(), b"no packet");
    assert!(world.got.is_empty());
    world.hears(publisher_at(), &packet);
    assert_eq!((world.counters(address(2)), world.counters(publisher_at())), (vec![0], vec![]));
    assert_eq!((world.reflector.arrivals().foreign, world.reflector.arrivals().taken), (1, 1));
}

#[test]
fn packet_from_two_paths_sent_once() {
    let mut world = ReflectorWorld::new();
    world.join(address(2));
    for _ in 0..10 {
        let packet = world.packet(Flags::default());
        world.hears(publisher_at(), &packet);
        world.hears(address(9), &packet);
    }
    assert_eq!(world.counters(address(2)), (0..10).collect::<Vec<_>>());
    assert_eq!(world.reflector.arrivals().duplicate, 10);
}

#[test]
fn hop_limit_stops_forwarding() {
    let mut world = ReflectorWorld::new();
    world.join(address(2));
    world.join_on(address(3), TargetOptions { kind: DownstreamKind::Reflector, ..TargetOptions::SUBSCRIBER });
    for hops in 0..3 {
        let mut packet = world.packet(Flags::default());
        packet[0] = Hop { hops, catch_up: false }.byte();
        world.hears(publisher_at(), &packet);
    }
    let hops = |target| -> Vec<u8> {
        world.got[&target].iter().map(|(_, packet)| Header::decode(packet).unwrap().0.hops).collect()
    };
    assert_eq!(hops(address(2)), [1, 2]);
    assert_eq!(hops(address(3)), [1], "another super node would send it on once more");
    assert_eq!(world.reflector.arrivals().looping, 1);
}

#[test]
fn each_batch_begins_with_another_target() {
    let mut world = ReflectorWorld::new();
    (2..5).for_each(|number| world.join(address(number)));
    let mut firsts = BTreeSet::new();
    for _ in 0..3 {
        let packet = world.packet(Flags::default());
        world.reflector.receive_packet(world.now, publisher_at(), &packet).unwrap();
        world.reflector.fanout().close(world.now);
        let transmit = world.reflector.fanout().poll_transmit(world.now).unwrap();
        firsts.insert(transmit.to);
        let outcome = SendOutcome { sent: 1, ..SendOutcome::default() };
        world.reflector.fanout().record_outcome(world.now, &transmit, outcome);
        world.send();
    }
    assert_eq!(firsts.len(), 3);
}

#[test]
fn slow_target_skips_to_key_frame() {
    let mut world = ReflectorWorld::new();
    let (slow, quick) = (address(2), address(3));
    world.join(slow);
    world.join(quick);
    world.groups(2);
    world.stalled.insert(slow);
    world.groups(3);
    world.stalled.clear();
    world.groups(2);
    assert_eq!(world.counters(quick), (0..280).collect::<Vec<_>>());
    let got = world.counters(slow);
    assert!(got.windows(2).all(|pair| pair[0] < pair[1]), "{got:?}");
    let gap = got.windows(2).find(|pair| pair[1] != pair[0] + 1).unwrap();
    assert_eq!(gap[1] % 40, 0, "it goes on with a key frame: {gap:?}");
    assert_eq!(*got.last().unwrap(), 279);
    assert_eq!(world.statistics(slow).dropped, gap[1] - gap[0] - 1);
    assert_eq!(world.statistics(quick).dropped, 0);
}

#[test]
fn key_frame_wanted_until_one_comes() {
    let mut world = ReflectorWorld::new();
    world.groups(1);
    // So long a group that its beginning is no longer there.
    (0..40).for_each(|_| world.frame(1000, Flags::default()));
    world.join(address(2));
    assert!(world.reflector.fanout().take_wants_key());
    for _ in 0..3 {
        world.frame(4, Flags::default());
        assert!(world.reflector.fanout().take_wants_key(), "the request may have been lost");
    }
    world.groups(1);
    assert!(!world.got[&address(2)].is_empty());
    world.reflector.fanout().take_wants_key();
    world.frame(4, Flags::default());
    assert!(!world.reflector.fanout().take_wants_key());
}

#[test]
fn slow_target_resumes_at_live_edge() {
    let mut world = ReflectorWorld::new();
    world.join(address(2));
    world.stalled.insert(address(2));
    (0..20).for_each(|_| {
        world.frame(4, Flags::default());
        world.passes(FRAME);
    });
    world.stalled.clear();
    world.frame(4, Flags::default());
    let got = world.counters(address(2));
    // Packets no older than 300 ms.
    assert!(got.len() <= 8 * 4 && got.last() == Some(&83), "{got:?}");
}

#[test]
fn joiner_begins_with_cached_key_frame() {
    let mut world = ReflectorWorld::new();
    world.frame(1, Flags::PARAMETERS);
    world.groups(1);
    (0..5).for_each(|number| {
        world.frame(4, if number == 0 { Flags::KEY_FRAME } else { Flags::default() });
        world.passes(FRAME);
    });
    let joined = world.now;
    world.join(address(2));
    world.send();
    world.passes(Duration::from_millis(20));
    let early: Vec<_> = world.got[&address(2)].clone();
    let decoded: Vec<_> = early.iter().map(|(at, packet)| (*at, Header::decode(packet).unwrap())).collect();
    assert!(decoded[0].1.1.flags.has(Flags::PARAMETERS), "{:?}", decoded[0]);
    assert!(decoded[1].1.1.flags.has(Flags::KEY_FRAME) && decoded[1].0.since(joined) < Duration::from_millis(1));
    assert!(decoded.iter().all(|(_, (hop, _))| hop.catch_up && hop.hops == 1));
    assert_eq!(world.counters(address(2)), [vec![0], (41..61).collect()].concat());
    // Paced: 20 packets of 1040 bytes take 1.6 ms at 100 Mbit/s, the last of them excepted.
    let last = decoded.last().unwrap().0.since(joined);
    assert!(last >= Duration::from_micros(1200), "{last:?}");
    world.groups(1);
    assert_eq!(world.counters(address(2)), [vec![0], (41..101).collect()].concat());
    let live = world.got[&address(2)].last().unwrap();
    assert!(!Header::decode(&live.1).unwrap().0.catch_up);
}

#[test]
fn joiner_catches_up_without_gap() {
    let mut world = ReflectorWorld::new();
    // 62 Mbit/s; the joiner, at 100, is behind by more than others may be when it has what it found.
    for number in 0..75 {
        if number == 25 {
            world.join(address(2));
        }
        world.frame(300, if number % 50 == 0 { Flags::KEY_FRAME } else { Flags::default() });
        world.passes(FRAME);
    }
    assert_eq!(world.statistics(address(2)).dropped, 0);
    assert_eq!(world.counters(address(2)), (0..22_500).collect::<Vec<_>>());
}

#[test]
fn joiner_begins_live_or_at_beginning() {
    for (frames, first) in [(1, 0), (10, 0), (20, 80)] {
        let mut world = ReflectorWorld::new();
        for _ in 0..frames {
            world.frame(4, Flags::default());
            world.passes(FRAME);
        }
        world.join(address(2));
        world.frame(4, Flags::default());
        world.passes(FRAME);
        assert_eq!(world.counters(address(2)), (first..4 * frames + 4).collect::<Vec<_>>());
    }
}

#[test]
fn repeated_nacks_are_limited() {
    let mut world = ReflectorWorld::new();
    world.join(address(2));
    world.groups(1);
    let before = world.got[&address(2)].len();
    for _ in 0..100 {
        world.nack(address(2), &[36, 38, 5000]);
        world.passes(Duration::from_millis(2));
    }
    let repairs = world.counters(address(2)).split_off(before);
    assert_eq!(repairs, [36, 38, 36, 38, 36, 38], "three times each");
    assert_eq!(world.statistics(address(2)).repaired, 6);
    // After the deadline it is of no use.
    world.passes(Duration::from_secs(1));
    world.nack(address(2), &[37]);
    assert_eq!(world.counters(address(2)).len(), before + 6);
}

#[test]
fn resuming_target_continues_at_counter() {
    let mut world = ReflectorWorld::new();
    world.groups(1);
    let resume = |world: &mut ReflectorWorld, number: u8, counter: u64| {
        let start = StartPoint::At((1 << 32) + counter);
        world.reflector.fanout().add_target(world.now, address(number), TargetOptions::SUBSCRIBER, start).unwrap();
        world.passes(Duration::from_millis(5));
        world.send();
    };
    resume(&mut world, 2, 33);
    resume(&mut world, 3, 40);
    world.frame(4, Flags::default());
    assert_eq!(world.counters(address(2)), (33..44).collect::<Vec<_>>());
    assert_eq!(world.counters(address(3)), (40..44).collect::<Vec<_>>());
    // The packet that it asks for has gone: it begins as anybody.
    world.groups(3);
    resume(&mut world, 4, 33);
    assert_eq!(world.counters(address(4)).first(), Some(&124));
}

#[test]
fn target_is_paced_to_its_rate() {
    let mut world = ReflectorWorld::new();
    world.join_on(address(2), TargetOptions { bits_per_second: Some(2_000_000), ..TargetOptions::SUBSCRIBER });
    world.groups(10);
    let bytes = world.statistics(address(2)).bytes;
    // 4 s of 2 Mbit/s, and one frame ahead.
    assert!(
        (990_000..=1_005_000 + 4 * PACKET_BYTES as u64).contains(&bytes) || bytes == 400 * PACKET_BYTES as u64,
        "{bytes}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever comes and goes, stalls, repeats and overtakes: a target gets each packet once but
    /// for repairs, in the order in which they came, and everything is bounded.
    #[test]
    fn targets_get_packets_once_in_order(
        steps in proptest::collection::vec((0..10_u8, 2..8_u8, 1..6_usize), 1..150),
    ) {
        let mut world = ReflectorWorld::new();
        world.join(address(20));
        let mut kept = Vec::new();
        for (what, who, how_many) in steps {
            match what {
                0 => world.join(address(who)),
                1 => drop(world.stalled.insert(address(who))),
                2 => drop(world.stalled.remove(&address(who))),
                3 => if world.leave(address(who)) { drop(world.got.remove(&address(who))) },
                4 => world.passes(Duration::from_millis(how_many as u64 * 90)),
                5 => kept.push(world.packet(Flags::default())),
                6 => while let Some(packet) = kept.pop() {
                    world.hears(publisher_at(), &packet);
                    world.hears(publisher_at(), &packet);
                },
                7 => world.frame(how_many, Flags::KEY_FRAME),
                _ => world.frame(how_many, Flags::default()),
            }
        }
        // A target that was always there and never stalled has everything, in the order in which it came.
        let all = world.counters(address(20));
        prop_assert_eq!(all.len() as u64, world.reflector.arrivals().taken);
        let place: BTreeMap<u64, usize> = all.iter().enumerate().map(|(place, counter)| (*counter, place)).collect();
        for target in world.got.keys() {
            let places: Vec<usize> = world.counters(*target).iter().map(|counter| place[counter]).collect();
            prop_assert!(places.windows(2).all(|pair| pair[0] < pair[1]), "{} got {:?}", target, places);
        }
    }
}
