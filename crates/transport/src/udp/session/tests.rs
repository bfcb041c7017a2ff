//! Two sessions over a link that loses, duplicates, delays and reorders packets.

mod silence;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bytes::Bytes;
use proptest::prelude::*;

use super::*;

const PACKET: usize = 1200;
const QUEUE: usize = 8 << 20;
const DELAY: Duration = Duration::from_millis(10);

/// A small generator, so that a run can be repeated exactly.
struct Chance(u64);

impl Chance {
    fn draw(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below
    }
}

/// The properties of a link: probabilities in percent, and its bytes per second and queue in bytes, if it has a limit.
#[derive(Clone, Copy, Debug, Default)]
struct WireProfile {
    loss: u64,
    duplicates: u64,
    reordering: u64,
    thin: Option<(u64, u64)>,
}

struct SessionPair {
    now: Instant,
    sides: [Session; 2],
    inbox: [Vec<Bytes>; 2],
    /// Packets under way by arrival time, with a number that keeps them apart.
    wire: BTreeMap<(Instant, u64), (usize, Vec<u8>)>,
    sent: u64,
    dropped: u64,
    /// The time until which the link is busy, in each direction.
    busy: [Instant; 2],
    connection: WireProfile,
    /// The time of a packet from one side to the other.
    delay: Duration,
    chance: Chance,
    most_held: usize,
}

impl SessionPair {
    fn new(connection: WireProfile, seed: u64) -> Self {
        let session = || Session::new(PACKET, QUEUE, 2 * DELAY);
        let now = Instant::now();
        Self {
            now,
            sides: [session(), session()],
            inbox: Default::default(),
            wire: BTreeMap::new(),
            sent: 0,
            dropped: 0,
            busy: [now; 2],
            connection,
            delay: DELAY,
            chance: Chance(seed | 1),
            most_held: 0,
        }
    }

    fn transmit(&mut self) {
        let mut packet = Vec::new();
        for side in 0..2 {
            while self.sides[side].poll_packet(self.now, &mut packet) {
                assert!(packet.len() <= PACKET);
                self.post(1 - side, &packet);
            }
        }
    }

    fn post(&mut self, to: usize, packet: &[u8]) {
        let copies = 1 + u64::from(self.chance.draw(100) < self.connection.duplicates);
        for _ in 0..copies {
            if self.chance.draw(100) < self.connection.loss {
                continue;
            }
            let Some(queued) = self.enqueue(to, packet.len()) else { continue };
            let late = self.chance.draw(100) < self.connection.reordering;
            let extra = if late { Duration::from_millis(self.chance.draw(30)) } else { Duration::ZERO };
            self.sent += 1;
            self.wire.insert((self.now + queued + self.delay + extra, self.sent), (to, packet.to_vec()));
        }
    }

    /// The time that a packet waits and takes to pass, unless the queue is full.
    fn enqueue(&mut self, to: usize, len: usize) -> Option<Duration> {
        let Some((rate, queue)) = self.connection.thin else { return Some(Duration::ZERO) };
        let begins = self.busy[to].max(self.now);
        if (begins - self.now).as_secs_f64() * rate as f64 > queue as f64 {
            self.dropped += 1;
            return None;
        }
        // The headers of IP, UDP and DTLS.
        self.busy[to] = begins + Duration::from_secs_f64((len + 50) as f64 / rate as f64);
        Some(self.busy[to] - self.now)
    }

    fn send(&mut self, flow: u32, priority: u8, message: Bytes) -> Result<(), QueueFull> {
        let delivery = Delivery { priority, ..Delivery::default() };
        self.sides[0].send_reliable(self.now, flow, &delivery, message)
    }

    /// Advances to the next arrival or deadline; `false` if there is none.
    fn step(&mut self) -> Result<bool, RemoteSilent> {
        self.transmit();
        let arrival = self.wire.keys().next().map(|key| key.0);
        let deadlines = self.sides.iter().filter_map(Session::deadline);
        let Some(next) = arrival.into_iter().chain(deadlines).min() else { return Ok(false) };
        self.now = self.now.max(next);
        while let Some(entry) = self.wire.first_entry().filter(|entry| entry.key().0 <= self.now) {
            let (to, packet) = entry.remove();
            let inbox = &mut self.inbox[to];
            let packet = Packet::parse(&packet).expect("our own packet");
            self.sides[to].handle_packet(self.now, packet, |message| inbox.push(message)).expect("our own sender");
            let held = self.sides[to].receiver.as_ref().map_or(0, |receiver| receiver.held());
            self.most_held = self.most_held.max(held);
        }
        for side in &mut self.sides {
            side.handle_timeout(self.now)?;
        }
        Ok(true)
    }

    fn run(&mut self) {
        let end = self.now + Duration::from_secs(600);
        while self.step().expect("the remote is there") {
            assert!(self.now < end, "the link never comes to rest");
        }
    }
}

/// A message that contains its flow and its index within the flow.
fn message(flow: u32, index: u32, len: usize) -> Bytes {
    let mut bytes = vec![flow as u8; len.max(8)];
    bytes[..4].copy_from_slice(&flow.to_be_bytes());
    bytes[4..8].copy_from_slice(&index.to_be_bytes());
    bytes.into()
}

fn header(message: &Bytes) -> (u32, u32) {
    let word = |at: usize| u32::from_be_bytes(message[at..at + 4].try_into().expect("four bytes"));
    (word(0), word(4))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn messages_arrive_once_in_order(
        seed: u64,
        loss in 0..30u64,
        duplicates in 0..20u64,
        reordering in 0..50u64,
        lens in prop::collection::vec((0..5u32, prop_oneof![8..300usize, 1000..1400usize, 8..65536usize]), 1..60),
    ) {
        let mut pair = SessionPair::new(WireProfile { loss, duplicates, reordering, thin: None }, seed);
        let mut counts = BTreeMap::<u32, u32>::new();
        for (flow, len) in &lens {
            let index = counts.entry(*flow).or_default();
            // Each flow has a priority of its own.
            pair.send(*flow, *flow as u8, message(*flow, *index, *len)).unwrap();
            *index += 1;
        }
        pair.run();
        let mut seen = BTreeMap::<u32, u32>::new();
        for received in &pair.inbox[1] {
            let (flow, index) = header(received);
            prop_assert_eq!(index, *seen.entry(flow).or_default());
            seen.insert(flow, index + 1);
        }
        prop_assert_eq!(seen, counts);
        prop_assert!(pair.sides[0].is_flushed());
        prop_assert!(pair.most_held <= (1 << 20) + 2 * 65536);
    }
}

#[test]
fn clean_transfer_retransmits_nothing() {
    let mut pair = SessionPair::new(WireProfile::default(), 1);
    for index in 0..100 {
        pair.send(0, 3, message(0, index, 16 * 1024)).unwrap();
    }
    let start = pair.now;
    pair.run();
    assert_eq!(pair.inbox[1].len(), 100);
    assert_eq!(pair.sides[0].retransmissions(), 0);
    assert!(pair.now - start < Duration::from_secs(1), "{:?}", pair.now - start);
}

#[test]
fn a_lone_message_costs_two_packets() {
    let mut pair = SessionPair::new(WireProfile::default(), 1);
    pair.send(9, 3, message(9, 0, 30)).unwrap();
    pair.run();
    assert_eq!(pair.sent, 2);
    assert!(pair.sides[0].deadline().is_none() && pair.sides[1].deadline().is_none());
}

#[test]
fn the_queue_is_bounded() {
    let mut pair = SessionPair::new(WireProfile::default(), 1);
    pair.sides[0] = Session::new(PACKET, 100_000, DELAY);
    assert_eq!(pair.send(0, 3, message(0, 0, 60_000)), Ok(()));
    pair.transmit();
    assert_eq!(pair.send(0, 3, message(0, 1, 60_000)), Err(QueueFull));
    assert_eq!(pair.send(0, 3, message(0, 1, 33_000)), Ok(()));
}

#[test]
fn backlog_does_not_block_urgent() {
    let mut pair = SessionPair::new(THIN, 1);
    while pair.send(2, 2, message(2, 0, 60_000)).is_ok() {}
    // A message counts if it is under way or not.
    pair.transmit();
    assert_eq!(pair.send(2, 2, message(2, 0, 60_000)), Err(QueueFull));
    assert_eq!(pair.send(0, 0, message(0, 0, 60_000)), Ok(()));
}

/// A megabit per second, with half a second of queue.
const THIN: WireProfile = WireProfile { loss: 0, duplicates: 0, reordering: 0, thin: Some((125_000, 64_000)) };

#[test]
fn large_object_fills_thin_path() {
    const OBJECT: usize = 64 << 20;
    const PIECE: usize = 60_000;
    let mut pair = SessionPair::new(THIN, 1);
    let (start, mut next) = (pair.now, 0);
    while pair.inbox[1].len() * PIECE < OBJECT {
        while pair.send(5, 5, message(5, next, PIECE)).is_ok() {
            next += 1;
        }
        assert!(pair.step().expect("the remote is there"));
    }
    let rate = OBJECT as f64 / (pair.now - start).as_secs_f64();
    let waste = pair.dropped as f64 / pair.sent as f64;
    assert!(rate > 0.9 * 125_000.0, "{rate:.0} bytes per second");
    assert!(waste < 0.02, "{waste}");
}

/// The mean time of objects of 50 kB, one after the other, over a satellite that loses a packet in a hundred.
fn mean_over_satellite(seed: u64) -> f64 {
    const OBJECTS: u32 = 10;
    let mut pair = SessionPair::new(WireProfile { loss: 1, ..THIN }, seed);
    pair.delay = Duration::from_millis(600);
    let start = pair.now;
    for index in 0..OBJECTS {
        pair.send(index, 5, message(index, 0, 50_000)).unwrap();
        pair.run();
    }
    (pair.now - start).as_secs_f64() / f64::from(OBJECTS)
}

#[test]
fn noise_keeps_satellite_path_filled() {
    let times: Vec<f64> = (0..20).map(|seed| mean_over_satellite(7 * seed + 3)).collect();
    let mean = times.iter().sum::<f64>() / times.len() as f64;
    // Two round trips and half a second are the least. With a window that each loss halves it is 4.4 s.
    assert!(mean < 3.5, "{mean:.2} s: {times:.2?}");
}

#[test]
fn urgent_message_leaves_at_once() {
    let mut pair = SessionPair::new(THIN, 1);
    for index in 0..60 {
        pair.send(5, 5, message(5, index, 65_536)).unwrap();
    }
    let start = pair.now;
    while pair.now - start < Duration::from_secs(5) {
        pair.step().expect("the remote is there");
    }
    pair.transmit();
    assert!(pair.sides[0].sender.as_ref().is_some_and(|sender| !sender.is_idle()));
    let (mut packet, ping) = (Vec::new(), message(0, 0, 40));
    pair.send(0, 0, ping.clone()).unwrap();
    assert!(pair.sides[0].poll_packet(pair.now, &mut packet));
    assert!(matches!(Packet::parse(&packet), Some(Packet::Reliable { part, .. }) if part.bytes == &ping[..]));
    // The ping need not keep its own order from the message it came into.
    pair.post(1, &packet);
    while !pair.inbox[1].contains(&ping) {
        pair.step().expect("the remote is there");
    }
    assert!(pair.inbox[1].len() < 60);
}

#[test]
fn urgent_overtakes_queued_and_lost() {
    for seed in 1..30 {
        let mut pair = SessionPair::new(WireProfile { loss: 20, ..THIN }, seed);
        for index in 0..10 {
            pair.send(5, 5, message(5, index, 65_536)).unwrap();
            pair.send(2, 2, message(2, index, 3000)).unwrap();
        }
        pair.run();
        let last_track = pair.inbox[1].iter().rposition(|message| header(message).0 == 2).unwrap();
        assert!(last_track < 13, "seed {seed}: {last_track}");
    }
}

#[test]
fn path_change_retransmits_in_flight() {
    for change in [PathChange::Port, PathChange::Host] {
        let mut pair = SessionPair::new(WireProfile::default(), 1);
        for index in 0..8 {
            pair.send(1, 3, message(1, index, 1000)).unwrap();
        }
        pair.transmit();
        pair.wire.clear();
        pair.sides[0].change_path(pair.now, change);
        let start = pair.now;
        while pair.inbox[1].len() < 8 {
            pair.step().expect("the remote is there");
        }
        let numbers: Vec<_> = pair.inbox[1].iter().map(|message| header(message).1).collect();
        assert_eq!(numbers, (0..8).collect::<Vec<_>>());
        assert!(pair.now - start < 2 * DELAY, "{:?}", pair.now - start);
    }
}

#[test]
fn datagrams_of_every_size_come_whole() {
    let (mut from, mut to) = (Session::new(PACKET, QUEUE, DELAY), Session::new(PACKET, QUEUE, DELAY));
    let (now, mut scratch) = (Instant::now(), Vec::new());
    for len in [0, 1, PACKET - 1, PACKET, PACKET + 1, 10_000, 65_536] {
        let sent = vec![7; len];
        let (mut packets, mut inbox) = (Vec::new(), Vec::new());
        let mut parts = from.datagram_packets(len);
        while parts.write_next(&sent, &mut scratch) {
            packets.push(scratch.clone());
        }
        for packet in &packets {
            assert!(packet.len() <= PACKET);
            let parsed = Packet::parse(packet).expect("our own packet");
            to.handle_packet(now, parsed, |message| inbox.push(message)).unwrap();
        }
        assert_eq!(inbox, [sent]);
        assert!(to.deadline().is_none());
    }
}

#[test]
fn video_datagram_fits_one_packet() {
    use roost_wire::messages::{Datagram, FlowMessage, Message};
    use roost_wire::service::{FlowKind, Service};
    let FlowKind::Stream { packet_bytes, .. } = Service::Video.flow_kind() else { panic!("video is a stream") };
    let payload = Bytes::from(vec![0x47; packet_bytes as usize]);
    let (id, sequence, sent_us) = (roost_wire::RequestId(u32::MAX), u64::from(u32::MAX), u64::MAX);
    let datagram = FlowMessage::Datagram(Datagram { id, sequence, sent_us, payload });
    let message = Message::Flow(datagram).encode();
    let (mut from, mut packets, mut scratch) = (Session::new(PACKET, QUEUE, DELAY), 0, Vec::new());
    let mut parts = from.datagram_packets(message.len());
    while parts.write_next(&message, &mut scratch) {
        packets += 1;
    }
    assert_eq!(packets, 1, "{} bytes", message.len());
}
