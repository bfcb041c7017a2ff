//! Two ends of a connection over a path with delay and loss.

use std::collections::VecDeque;

use roost_wire::random::SplitMix64;
use roost_wire::{DeliveryClass, DeliveryPreferences, Profile, Service};

use super::*;

const DELAY: Duration = Duration::from_millis(30);
/// The delay of one direction over a distant satellite, up and down.
const FAR: Duration = Duration::from_millis(620);
const MS: Duration = Duration::from_millis(1);

/// A transport, its detail, and the number of paths.
type EndKind = (Scheme, Detail, u8);

const UDP: EndKind = (Scheme::Udp, Detail::Packet, 1);
const TCP: EndKind = (Scheme::Tcp, Detail::Packet, 1);
const QUIC: EndKind = (Scheme::Quic, Detail::Packet, 1);
const COARSE_QUIC: EndKind = (Scheme::Quic, Detail::Message, 1);
const MULTIHOMED: EndKind = (Scheme::Quic, Detail::Packet, 2);
const ALL: [EndKind; 5] = [UDP, TCP, QUIC, COARSE_QUIC, MULTIHOMED];

/// Both ends, and the packets under way to each.
struct EndPair {
    now: Time,
    ends: [ConnectionEnd; 2],
    wire: [VecDeque<(Time, u8, Bytes)>; 2],
    seen: [Vec<(Time, EndEvent)>; 2],
    bytes: u64,
    random: SplitMix64,
    delay: Duration,
    loss: u64,
    /// The path that carries nothing.
    dead: Option<u8>,
    all_dead: bool,
    /// Bytes carried, for each path.
    carried: [u64; 8],
}

impl EndPair {
    fn new((scheme, detail, paths): EndKind, loss: u64, seed: u64) -> Self {
        let now = Time::from_nanos(1_000_000_000);
        Self {
            now,
            ends: [
                ConnectionEnd::dial_over(paths, scheme, detail, now),
                ConnectionEnd::accept_over(paths, scheme, detail, now),
            ],
            wire: Default::default(),
            seen: Default::default(),
            bytes: 0,
            random: SplitMix64::new(seed),
            delay: DELAY,
            loss,
            dead: None,
            all_dead: false,
            carried: [0; 8],
        }
    }

    /// Advances by a step of a millisecond.
    fn step(&mut self) {
        for side in 0..2 {
            if self.ends[side].deadline().is_some_and(|at| at <= self.now) {
                self.ends[side].handle_timeout(self.now);
            }
            while self.wire[side].front().is_some_and(|(at, ..)| *at <= self.now) {
                let (_, path, content) = self.wire[side].pop_front().unwrap();
                self.ends[side].handle_packet(self.now, path, &content);
            }
            while let Some(happening) = self.ends[side].poll_event() {
                self.seen[side].push((self.now, happening));
            }
            while let Some(parcel) = self.ends[side].poll_packet(self.now) {
                self.bytes += u64::from(parcel.bytes);
                self.carried[usize::from(parcel.path)] += u64::from(parcel.bytes);
                let is_dead = self.all_dead || self.dead == Some(parcel.path);
                if self.random.below(100) >= self.loss && !is_dead {
                    self.wire[1 - side].push_back((self.now + self.delay, parcel.path, parcel.content));
                }
            }
        }
        self.now = self.now + MS;
    }

    fn run(&mut self, time: Duration) {
        (0..time.as_millis()).for_each(|_| self.step());
    }

    fn messages(&self, side: usize) -> Vec<&Bytes> {
        let messages = self.seen[side].iter().filter_map(|(_, seen)| match seen {
            EndEvent::Message(message) => Some(message),
            _ => None,
        });
        messages.collect()
    }
}

#[test]
fn handshake_takes_expected_round_trips() {
    for (kind, round_trips) in ALL.into_iter().zip([2, 3, 2, 2, 2]) {
        let mut pair = EndPair::new(kind, 0, 1);
        let began = pair.now;
        pair.run(10 * DELAY);
        let [(up, EndEvent::Up { rtt })] = &pair.seen[0][..] else { panic!("{:?}", pair.seen[0]) };
        // Each end may add a step of a millisecond.
        let steps = (*up - began).as_millis() as i64 - (round_trips * 2 * DELAY).as_millis() as i64;
        assert!((0..=6).contains(&steps), "{kind:?}: {steps}");
        assert!(*rtt >= 2 * DELAY && *rtt <= 2 * DELAY + 10 * MS, "{kind:?}: {rtt:?}");
        assert!(matches!(pair.seen[1][..], [(_, EndEvent::Up { .. })]));
    }
}

#[test]
fn connection_comes_up_at_any_rtt() {
    for kind in ALL {
        for tenths in [1, 6, 12, 16, 20, 40, 70, 100] {
            let rtt = MS * 100 * tenths;
            let mut pair = EndPair { delay: rtt / 2, ..EndPair::new(kind, 0, u64::from(tenths)) };
            pair.run(rtt * 4);
            for side in 0..2 {
                assert!(matches!(pair.seen[side][..], [(_, EndEvent::Up { .. })]), "{kind:?}, {rtt:?}: side {side}");
            }
            for number in 0..20 {
                pair.ends[0].send(pair.now, Channel::Reliable { flow: 1 }, vec![number; 1000].into());
            }
            pair.run(rtt * 6);
            assert_eq!(pair.messages(1).len(), 20, "{kind:?}, {rtt:?}");
            assert!(pair.seen.iter().flatten().all(|(_, seen)| !matches!(seen, EndEvent::Down { .. })), "{rtt:?}");
        }
    }
}

#[test]
fn tcp_object_starts_in_first_flight() {
    let mut pair = EndPair::new(TCP, 0, 1);
    pair.run(Duration::from_secs(1));
    for length in [60, 1040, 16_400, 16_400, 16_400] {
        pair.ends[0].send(pair.now, Channel::Reliable { flow: 1 }, vec![1; length].into());
    }
    pair.run(DELAY + 10 * MS);
    assert_eq!(pair.messages(1).iter().map(|message| message.len()).collect::<Vec<_>>(), [60, 1040]);
}

#[test]
fn reliable_messages_survive_loss_in_order() {
    for (seed, kind) in (1..).zip(ALL) {
        let mut pair = EndPair::new(kind, 20, seed);
        pair.run(Duration::from_secs(4));
        for number in 0..50_u8 {
            let message = vec![number; 3_000].into();
            pair.ends[0].send(pair.now, Channel::Reliable { flow: 7 }, message);
        }
        pair.run(Duration::from_secs(20));
        let numbers: Vec<u8> = pair.messages(1).iter().map(|message| message[0]).collect();
        assert_eq!(numbers, (0..50).collect::<Vec<_>>(), "{kind:?}");
    }
}

#[test]
fn datagrams_are_lost_but_over_tcp() {
    let delivered = |kind| {
        let mut pair = EndPair::new(kind, 0, 3);
        pair.run(Duration::from_secs(1));
        pair.loss = 30;
        for _ in 0..10 {
            (0..10).for_each(|_| pair.ends[1].send(pair.now, Channel::Datagram, vec![1; 200].into()));
            pair.run(Duration::from_secs(2));
        }
        pair.messages(0).len()
    };
    // A packet of QUIC carries several of the datagrams.
    for kind in [UDP, QUIC, COARSE_QUIC] {
        assert!((30..95).contains(&delivered(kind)), "{kind:?}");
    }
    assert_eq!(delivered(TCP), 100);
}

#[test]
fn close_delivers_data_then_reason() {
    for kind in ALL {
        let mut pair = EndPair::new(kind, 10, 5);
        pair.run(Duration::from_secs(4));
        pair.ends[0].send(pair.now, Channel::Reliable { flow: 0 }, vec![9; 60_000].into());
        pair.ends[0].close(pair.now, "that is all");
        pair.run(Duration::from_secs(10));
        assert_eq!(pair.messages(1).len(), 1, "{kind:?}");
        let last = pair.seen[1].last().map(|(_, happening)| happening);
        assert_eq!(last, Some(&EndEvent::Down { reason: "that is all".to_owned() }), "{kind:?}");
        assert!(pair.ends.iter().all(ConnectionEnd::is_over), "{kind:?}");
    }
}

#[test]
fn silent_remote_is_given_up() {
    let mut pair = EndPair::new(UDP, 0, 1);
    pair.run(Duration::from_secs(1));
    pair.loss = 100;
    pair.ends[0].send(pair.now, Channel::Reliable { flow: 0 }, vec![9; 10].into());
    pair.run(Duration::from_secs(30));
    assert!(matches!(pair.seen[0].last(), Some((_, EndEvent::Down { .. }))));
    for kind in ALL {
        let mut nobody = EndPair::new(kind, 100, 1);
        nobody.run(Duration::from_secs(16));
        assert!(nobody.ends[0].is_over() && nobody.seen[0].is_empty(), "{kind:?}");
    }
}

#[test]
fn the_same_seed_does_the_same() {
    let run = |kind, seed| {
        let mut pair = EndPair::new(kind, 15, seed);
        pair.run(Duration::from_secs(3));
        pair.ends[0].send(pair.now, Channel::Reliable { flow: 0 }, vec![9; 50_000].into());
        pair.run(Duration::from_secs(5));
        (pair.seen, pair.bytes)
    };
    for kind in ALL {
        assert!(run(kind, 4) == run(kind, 4) && run(kind, 4).1 != run(kind, 5).1, "{kind:?}");
    }
}

/// TCP's window doubles in each round trip from ten segments, and does so again after a pause. So a hundred thousand
/// bytes take three round trips each time.
#[test]
fn tcp_image_takes_three_round_trips() {
    let mut pair = EndPair::new(TCP, 0, 1);
    pair.run(Duration::from_secs(1));
    for _ in 0..3 {
        let began = pair.now;
        (0..6).for_each(|_| pair.ends[0].send(pair.now, Channel::Reliable { flow: 1 }, vec![1; 16_700].into()));
        let before = pair.messages(1).len();
        pair.run(Duration::from_secs(2));
        assert_eq!(pair.messages(1).len(), before + 6);
        let (at, _) = pair.seen[1].last().unwrap();
        let took = *at - began;
        assert!((5 * DELAY..5 * DELAY + 20 * MS).contains(&took), "{took:?}");
    }
}

#[test]
fn long_handshake_measures_its_rtt() {
    for kind in ALL {
        let mut pair = EndPair::new(kind, 0, 1);
        pair.delay = FAR;
        pair.run(Duration::from_secs(8));
        for seen in &pair.seen {
            let [(_, EndEvent::Up { rtt })] = &seen[..] else { panic!("{kind:?}: {seen:?}") };
            assert!((2 * FAR..3 * FAR).contains(rtt), "{kind:?}: {rtt:?}");
        }
    }
}

/// While a long transfer is under way, other messages arrive in the order of their priority, whichever was sent first.
/// They wait only for bytes that are in the network already.
#[test]
fn urgent_messages_overtake_bulk() {
    for kind in [UDP, TCP, QUIC, MULTIHOMED] {
        let mut pair = EndPair::new(kind, 0, 1);
        // The long delay makes the path slow, so that every message waits for room.
        pair.delay = FAR;
        pair.run(Duration::from_secs(5));
        let of = |service| Delivery::for_service(service);
        let send = |pair: &mut EndPair, mark: u8, delivery: Delivery, bytes: usize| {
            let flow = Channel::Reliable { flow: mark.into() };
            pair.ends[0].send_as(pair.now, flow, &delivery, vec![mark; bytes].into());
        };
        (0..60).for_each(|_| send(&mut pair, 9, of(Service::Image), 16_000));
        pair.run(200 * MS);
        let urgent = [(4, of(Service::Video)), (2, of(Service::Track)), (0, Delivery::CONTROL)];
        // Urgent messages are as large as the others, since smaller ones might fit where those do not.
        urgent.into_iter().for_each(|(mark, delivery)| send(&mut pair, mark, delivery, 16_000));
        pair.run(Duration::from_secs(60));
        let order: Vec<u8> = pair.messages(1).iter().map(|message| message[0]).collect();
        assert_eq!(order.len(), 63, "{kind:?}");
        let at = |mark| order.iter().position(|other| *other == mark).unwrap();
        assert!(at(0) < at(2) && at(2) < at(4) && at(4) < 30, "{kind:?}: {order:?}");
    }
}

/// Datagrams may be lost, and are not sent again after their lifetime.
#[test]
fn steering_datagrams_are_timely_or_lost() {
    let delivery =
        Delivery::for_request(Service::Video, DeliveryPreferences { profile: Some(Profile::Piloting), class: None });
    let life = delivery.lifetime.unwrap();
    for kind in [UDP, QUIC, MULTIHOMED] {
        let mut pair = EndPair::new(kind, 0, 7);
        pair.run(Duration::from_secs(1));
        pair.loss = 5;
        let mut sent = Vec::new();
        for number in 0..400_u16 {
            sent.push(pair.now);
            let message = [&number.to_be_bytes()[..], &[0; 700]].concat();
            pair.ends[0].send_as(pair.now, Channel::Datagram, &delivery, message.into());
            pair.run(10 * MS);
        }
        pair.run(Duration::from_secs(5));
        let came = pair.seen[1].iter().filter_map(|(at, seen)| match seen {
            EndEvent::Message(message) => Some((*at, u16::from_be_bytes([message[0], message[1]]))),
            _ => None,
        });
        let mut seen = [false; 400];
        for (at, number) in came {
            let number = usize::from(number);
            assert!(!std::mem::replace(&mut seen[number], true), "{kind:?}: {number} came twice");
            // A message is given up after its lifetime and a round trip, and may still be under way then.
            let took = at.since(sent[number]);
            assert!(took <= life + 4 * DELAY, "{kind:?}: {number} took {took:?}");
        }
        let count = seen.iter().filter(|came| **came).count();
        // The second path has delivered what the first lost.
        let expected = if kind == MULTIHOMED { 395..=400 } else { 250..=399 };
        assert!(expected.contains(&count), "{kind:?}: {count}");
    }
}

/// Sends a numbered message of a flow.
fn say(pair: &mut EndPair, flow: u8, number: u16, class: DeliveryClass, bytes: usize) {
    let mut message = vec![0; bytes.max(3)];
    message[0] = flow;
    message[1..3].copy_from_slice(&number.to_be_bytes());
    let delivery = Delivery { class, ..Delivery::default() };
    pair.ends[0].send_as(pair.now, Channel::Reliable { flow: flow.into() }, &delivery, message.into());
}

fn numbers(pair: &EndPair, flow: u8) -> Vec<u16> {
    let of_flow = pair.messages(1).into_iter().filter(|message| message[0] == flow);
    of_flow.map(|message| u16::from_be_bytes([message[1], message[2]])).collect()
}

/// The order holds whatever is lost and whichever path dies, also if both die at once.
#[test]
fn messages_stay_ordered_while_paths_die() {
    for seed in 1..=20 {
        let mut pair = EndPair::new(MULTIHOMED, 0, seed);
        pair.run(Duration::from_secs(1));
        let mut random = SplitMix64::new(seed);
        pair.loss = random.below(4);
        let mut sent = [0; 3];
        for turn in 0..300 {
            if turn % 20 == 0 {
                // The second path works again at the end.
                pair.dead = [None, Some(0), Some(1)][random.below(3) as usize];
                pair.all_dead = random.below(8) == 0;
            }
            let (flow, class) = (random.below(3) as usize, DeliveryClass::ALL[random.below(3) as usize]);
            say(&mut pair, flow as u8, sent[flow], class, random.below(12_000) as usize);
            sent[flow] += 1;
            pair.run(Duration::from_millis(random.below(40)));
        }
        (pair.dead, pair.all_dead) = (Some(0), false);
        pair.run(Duration::from_secs(60));
        for (flow, sent) in (0..).zip(sent) {
            assert_eq!(numbers(&pair, flow), (0..sent).collect::<Vec<_>>(), "seed {seed}, flow {flow}");
        }
        let happened = |side: usize| pair.seen[side].iter().filter(|(_, it)| !matches!(it, EndEvent::Message(_)));
        assert!((0..2).all(|side| happened(side).count() == 1), "seed {seed}: more than that it came up");
    }
}

#[test]
fn backup_path_serves_only_while_needed() {
    let mut pair = EndPair::new(MULTIHOMED, 0, 1);
    pair.run(Duration::from_secs(1));
    let mut next = 0;
    let mut talk = |pair: &mut EndPair| {
        let before = pair.carried;
        for _ in 0..100 {
            say(pair, 0, next, DeliveryClass::Backup, 2_000);
            next += 1;
            pair.run(20 * MS);
        }
        [pair.carried[0] - before[0], pair.carried[1] - before[1]]
    };
    let [first, second] = talk(&mut pair);
    assert!(first > 200_000 && second < first / 10, "{first} and {second} bytes");
    pair.dead = Some(0);
    let [_, second] = talk(&mut pair);
    assert!(second > 190_000, "{second} bytes");
    pair.dead = None;
    pair.run(Duration::from_secs(5));
    let [first, second] = talk(&mut pair);
    assert!(first > 200_000 && second < first / 10, "{first} and {second} bytes");
    pair.run(Duration::from_secs(2));
    assert_eq!(numbers(&pair, 0), (0..300).collect::<Vec<_>>());
}

/// Messages of 10 kB, one in 20 ms: no message is much later than without the failure.
#[test]
fn dead_path_delays_few_round_trips() {
    let mut pair = EndPair::new(MULTIHOMED, 0, 1);
    pair.run(Duration::from_secs(1));
    let mut sent = Vec::new();
    for number in 0..400 {
        pair.dead = (100..250).contains(&number).then_some(0);
        sent.push(pair.now);
        say(&mut pair, 0, number, DeliveryClass::Stripe, 10_000);
        pair.run(20 * MS);
    }
    pair.run(Duration::from_secs(2));
    assert_eq!(numbers(&pair, 0), (0..400).collect::<Vec<_>>());
    let came = pair.seen[1].iter().filter(|(_, seen)| matches!(seen, EndEvent::Message(_)));
    let latest = came.zip(sent).map(|((at, _), sent)| at.since(sent)).max().unwrap();
    assert!(latest < 4 * 2 * DELAY, "{latest:?}");
}
