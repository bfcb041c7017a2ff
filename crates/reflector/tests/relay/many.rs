//! As many downstreams as there may be.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::BytesMut;
use roost_proto::Time;
use roost_proto::reflection::Tag;
use roost_reflector::relay::{Config, Relay};
use roost_reflector::words::{Reported, Said};
use roost_reflector::{Epoch, Flags, Limits, MAX_TARGETS, Outcome, Publisher, Secret};

use crate::world::STREAM;

fn address(number: usize) -> SocketAddr {
    SocketAddr::from(([10, 1, (number / 256) as u8, (number % 256) as u8], 7700))
}

/// What is sent to each, in order: packets, and words.
fn drain(relay: &mut Relay, now: Time) -> BTreeMap<SocketAddr, Vec<Option<Said>>> {
    let mut sent: BTreeMap<SocketAddr, Vec<Option<Said>>> = BTreeMap::new();
    relay.end_batch(now);
    while let Some(transmit) = relay.poll_transmit(now) {
        let datagrams = transmit.contents.chunks(transmit.segment);
        let said = datagrams.map(|datagram| Said::decode(datagram).ok().map(|(.., said)| said));
        sent.entry(transmit.to).or_default().extend(said.collect::<Vec<_>>());
        let packets = transmit.contents.len().div_ceil(transmit.segment) as u32;
        relay.settle(now, &transmit, Outcome { sent: packets, ..Outcome::default() });
    }
    sent
}

#[test]
fn parity_reaches_all_who_need_it_after_its_packets() {
    let (mut relay, mut now) = (Relay::new(Config::default(), [1; 32]), Time::from_nanos(1_000_000_000));
    relay.publish(now, STREAM).unwrap();
    let mut words = BTreeMap::new();
    for number in 0..MAX_TARGETS {
        relay.offer(now, STREAM, address(number), Tag(number as u64)).unwrap();
    }
    relay.end_batch(now);
    while let Some(transmit) = relay.poll_transmit(now) {
        let (_, word, said) = Said::decode(&transmit.contents).unwrap();
        let Said::Offer(tag) = said else { panic!("{said:?}") };
        words.insert(transmit.to, (word, tag));
    }
    for (to, (word, tag)) in &words {
        let answer = Said::Answer { tag: *tag, next: 0 }.encode(STREAM, *word);
        relay.handle_datagram(now, *to, &answer, |_, _| {});
    }
    // All lose a third, which is not repaired.
    let mut reported = Reported::default();
    for _ in 0..10 {
        now = now + Duration::from_secs(1);
        reported.received += 1000;
        (reported.lost, reported.missed) = (reported.lost + 500, reported.missed + 500);
        for (to, (word, _)) in &words {
            relay.handle_datagram(now, *to, &Said::Report(reported).encode(STREAM, *word), |_, _| {});
        }
    }
    drain(&mut relay, now);
    let secret = Secret::from_bytes([1; 32]);
    let mut publisher = Publisher::new(now, STREAM, Epoch(1), &secret, Limits::default()).unwrap();
    for number in 0..32 {
        let mut packet = BytesMut::new();
        publisher.seal(now, number, Flags::default(), &[7; 1000], &mut packet).unwrap();
        relay.push(now, STREAM, &packet);
    }
    let sent = drain(&mut relay, now);
    assert_eq!(sent.len(), MAX_TARGETS);
    for (to, got) in sent {
        let is_packet: Vec<bool> = got.iter().map(Option::is_none).collect();
        // Two blocks of 16, with 8 of parity each.
        assert_eq!(is_packet, [[true; 32].as_slice(), &[false; 16]].concat(), "{to}: {got:?}");
    }
}
