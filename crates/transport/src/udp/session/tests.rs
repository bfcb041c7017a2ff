//! Two sessions over a link that loses, duplicates, delays and reorders.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bytes::Bytes;
use proptest::prelude::*;

use super::*;

const PACKET: usize = 1200;
const QUEUE: usize = 8 << 20;
const DELAY: Duration = Duration::from_millis(10);

/// A small generator, so that a run repeats exactly.
struct Chance(u64);

impl Chance {
    fn draw(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below
    }
}

/// How a link treats packets, in parts of a hundred.
#[derive(Clone, Copy, Debug)]
struct Link {
    loss: u64,
    duplicates: u64,
    reordering: u64,
}

struct Pair {
    now: Instant,
    sides: [Session; 2],
    inbox: [Vec<Bytes>; 2],
    /// Packets under way, by arrival; the number keeps them apart.
    wire: BTreeMap<(Instant, u64), (usize, Vec<u8>)>,
    sent: u64,
    link: Link,
    chance: Chance,
    most_held: usize,
}

impl Pair {
    fn new(link: Link, seed: u64) -> Self {
        let session = || Session::new(PACKET, QUEUE, 2 * DELAY);
        Self {
            now: Instant::now(),
            sides: [session(), session()],
            inbox: Default::default(),
            wire: BTreeMap::new(),
            sent: 0,
            link,
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
        let copies = 1 + u64::from(self.chance.draw(100) < self.link.duplicates);
        for _ in 0..copies {
            if self.chance.draw(100) < self.link.loss {
                continue;
            }
            let late = self.chance.draw(100) < self.link.reordering;
            let extra = if late { Duration::from_millis(self.chance.draw(30)) } else { Duration::ZERO };
            self.sent += 1;
            self.wire.insert((self.now + DELAY + extra, self.sent), (to, packet.to_vec()));
        }
    }

    /// Goes on to the next arrival or deadline; `false` when there is none.
    fn step(&mut self) -> Result<bool, PeerSilent> {
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
        while self.step().expect("the peer is there") {
            assert!(self.now < end, "the link never comes to rest");
        }
    }
}

/// A message that says which flow it is of and which of the flow it is.
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
    fn each_message_arrives_once_and_in_order(
        seed: u64,
        loss in 0..30u64,
        duplicates in 0..20u64,
        reordering in 0..50u64,
        lens in prop::collection::vec((0..5u32, prop_oneof![8..300usize, 1000..1400usize, 8..65536usize]), 1..60),
    ) {
        let mut pair = Pair::new(Link { loss, duplicates, reordering }, seed);
        let mut counts = BTreeMap::<u32, u32>::new();
        for (flow, len) in &lens {
            let index = counts.entry(*flow).or_default();
            pair.sides[0].send_reliable(*flow, message(*flow, *index, *len)).unwrap();
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
fn a_long_transfer_over_a_clean_link_repeats_nothing() {
    let mut pair = Pair::new(Link { loss: 0, duplicates: 0, reordering: 0 }, 1);
    for index in 0..100 {
        pair.sides[0].send_reliable(0, message(0, index, 16 * 1024)).unwrap();
    }
    let start = pair.now;
    pair.run();
    assert_eq!(pair.inbox[1].len(), 100);
    assert_eq!(pair.sides[0].retransmissions(), 0);
    assert!(pair.now - start < Duration::from_secs(1), "{:?}", pair.now - start);
}

#[test]
fn a_lone_message_costs_two_packets() {
    let mut pair = Pair::new(Link { loss: 0, duplicates: 0, reordering: 0 }, 1);
    pair.sides[0].send_reliable(9, message(9, 0, 30)).unwrap();
    pair.run();
    assert_eq!(pair.sent, 2);
    assert!(pair.sides[0].deadline().is_none() && pair.sides[1].deadline().is_none());
}

#[test]
fn a_silent_peer_is_given_up() {
    let mut pair = Pair::new(Link { loss: 100, duplicates: 0, reordering: 0 }, 1);
    pair.sides[0].send_reliable(0, message(0, 0, 30)).unwrap();
    let start = pair.now;
    while let Ok(more) = pair.step() {
        assert!(more);
    }
    let waited = pair.now - start;
    assert!(waited > Duration::from_secs(9) && waited < Duration::from_secs(14), "{waited:?}");
}

#[test]
fn the_queue_is_bounded() {
    let mut session = Session::new(PACKET, 100_000, DELAY);
    assert_eq!(session.send_reliable(0, message(0, 0, 60_000)), Ok(()));
    assert_eq!(session.send_reliable(0, message(0, 1, 60_000)), Err(QueueFull));
    assert_eq!(session.send_reliable(0, message(0, 1, 40_000)), Ok(()));
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
fn a_video_datagram_crosses_in_one_packet() {
    use roost_proto::service::{Form, Service};
    let Form::Stream { packet_bytes, .. } = Service::Video.form() else { panic!("video is a stream") };
    let payload = Bytes::from(vec![0x47; packet_bytes as usize]);
    let (id, sequence, sent_us) = (roost_proto::RequestId(u32::MAX), u64::from(u32::MAX), u64::MAX);
    let message =
        roost_proto::wire::Message::Packet(roost_proto::wire::Packet { id, sequence, sent_us, payload }).encode();
    let (mut from, mut packets, mut scratch) = (Session::new(PACKET, QUEUE, DELAY), 0, Vec::new());
    let mut parts = from.datagram_packets(message.len());
    while parts.write_next(&message, &mut scratch) {
        packets += 1;
    }
    assert_eq!(packets, 1, "{} bytes", message.len());
}
