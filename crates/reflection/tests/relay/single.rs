//! A relay by itself, and as many remotes as there may be that want something of it.

use std::net::SocketAddr;

use crate::*;

const START: Time = Time::from_nanos(1_000_000_000);
const SECOND: Duration = Duration::from_secs(1);

fn address(number: usize) -> SocketAddr {
    SocketAddr::from(([10, 1, (number / 256) as u8, (number % 256) as u8], 7700))
}

fn publisher(stream: StreamId) -> Publisher {
    Publisher::new(START, stream, Epoch(1), &EpochSecret::from_bytes([1; 32]), EpochLimits::default()).unwrap()
}

/// Publishes packets of 1040 bytes, the first with these flags.
fn push(relay: &mut Relay, now: Time, publisher: &mut Publisher, stream: StreamId, packets: u16, first: Flags) {
    for number in 0..packets {
        let (mut packet, flags) = (BytesMut::new(), if number == 0 { first } else { Flags::default() });
        publisher.seal(now, number, flags, &[7; 1000], &mut packet).unwrap();
        relay.push(now, stream, &packet);
    }
}

/// Takes what is offered, to whom and under which word; packets are dropped.
fn offers(relay: &mut Relay, now: Time) -> Vec<(SocketAddr, StreamId, PathToken, StreamTag)> {
    let mut offers = Vec::new();
    relay.end_batch(now);
    while let Some(transmit) = relay.poll_transmit(now) {
        if let Ok((stream, word, ControlPacket::Offer(tag))) = ControlPacket::decode(&transmit.contents) {
            offers.push((transmit.to, stream, word, tag));
        }
    }
    offers
}

fn answer(relay: &mut Relay, now: Time, offered: &[(SocketAddr, StreamId, PathToken, StreamTag)]) {
    for (to, stream, word, tag) in offered {
        let answer = ControlPacket::Answer { tag: *tag, next: 0 }.encode(*stream, *word);
        relay.handle_datagram(now, *to, &answer, |_, _| {});
    }
}

/// Thousands of downstreams whose time comes at once wait for each other, but not for ever.
#[test]
fn due_timers_run_in_batches() {
    let (mut relay, now) = (Relay::new(RelayConfig::default(), [1; 32]), START);
    let streams: Vec<StreamId> = (1..=3).map(StreamId).collect();
    for stream in &streams {
        relay.publish(now, *stream).unwrap();
        (0..500).for_each(|number| relay.offer(now, *stream, address(number), StreamTag(1)).unwrap());
    }
    assert_eq!(offers(&mut relay, now).len(), 1500);
    let later = now + SECOND / 2;
    let mut parts = Vec::new();
    while relay.poll_deadline().is_some_and(|due| due <= later) {
        relay.handle_timeout(later);
        parts.push(offers(&mut relay, later).len());
    }
    assert_eq!((parts.iter().sum::<usize>(), parts.iter().max()), (1500, Some(&256)));
}

/// The datagrams to each address, in order: `None` is a packet.
fn drain(relay: &mut Relay, now: Time) -> BTreeMap<SocketAddr, Vec<Option<ControlPacket>>> {
    let mut sent: BTreeMap<SocketAddr, Vec<Option<ControlPacket>>> = BTreeMap::new();
    relay.end_batch(now);
    while let Some(transmit) = relay.poll_transmit(now) {
        let datagrams = transmit.contents.chunks(transmit.segment);
        let said = datagrams.map(|datagram| ControlPacket::decode(datagram).ok().map(|(.., said)| said));
        sent.entry(transmit.to).or_default().extend(said.collect::<Vec<_>>());
        let packets = transmit.contents.len().div_ceil(transmit.segment) as u32;
        relay.record_outcome(now, &transmit, SendOutcome { sent: packets, ..SendOutcome::default() });
    }
    sent
}

#[test]
fn parity_follows_its_packets() {
    let (mut relay, mut now) = (Relay::new(RelayConfig::default(), [1; 32]), START);
    relay.publish(now, STREAM).unwrap();
    for number in 0..MAX_TARGETS {
        relay.offer(now, STREAM, address(number), StreamTag(number as u64)).unwrap();
    }
    assert_eq!(relay.offer(now, STREAM, address(MAX_TARGETS), StreamTag(0)), Err(AdmissionError::TooManyTargets));
    let offered = offers(&mut relay, now);
    answer(&mut relay, now, &offered);
    // All lose a third, which is not repaired.
    let mut reported = ReceiverReport::default();
    for _ in 0..10 {
        now = now + SECOND;
        reported.received += 1000;
        (reported.lost, reported.missed) = (reported.lost + 500, reported.missed + 500);
        for (to, _, word, _) in &offered {
            relay.handle_datagram(now, *to, &ControlPacket::Report(reported).encode(STREAM, *word), |_, _| {});
        }
    }
    drain(&mut relay, now);
    push(&mut relay, now, &mut publisher(STREAM), STREAM, 32, Flags::default());
    let sent = drain(&mut relay, now);
    assert_eq!(sent.len(), MAX_TARGETS);
    for (to, got) in sent {
        let is_packet: Vec<bool> = got.iter().map(Option::is_none).collect();
        // Two blocks of 16, with 8 of parity each.
        assert_eq!(is_packet, [[true; 32].as_slice(), &[false; 16]].concat(), "{to}: {got:?}");
    }
}

/// The host at `address(1)` answers an offer, and wants nothing more.
fn show_address(relay: &mut Relay, now: Time, stream: StreamId) {
    relay.offer(now, stream, address(1), StreamTag(1)).unwrap();
    let first = offers(relay, now);
    answer(relay, now, &first);
    let (_, stream, word, _) = first[0];
    relay.handle_datagram(now, address(1), &ControlPacket::Bye.encode(stream, word), |_, _| {});
    drain(relay, now);
}

#[test]
fn unanswered_host_gets_128_kib_once() {
    let (mut relay, mut now) = (Relay::new(RelayConfig::default(), [1; 32]), START);
    let streams: Vec<StreamId> = (1..=16).map(StreamId).collect();
    for stream in &streams {
        relay.publish(now, *stream).unwrap();
        push(&mut relay, now, &mut publisher(*stream), *stream, 300, Flags::KEY_FRAME);
        relay.end_batch(now);
    }
    show_address(&mut relay, now, streams[0]);
    now = now + SECOND;
    for stream in &streams {
        relay.offer(now, *stream, address(1), StreamTag(2)).unwrap();
    }
    // Offers are repeated later.
    let (mut sent, mut offered, until) = (0, Vec::new(), now + SECOND / 10);
    while now < until {
        relay.end_batch(now);
        while let Some(transmit) = relay.poll_transmit(now) {
            match ControlPacket::decode(&transmit.contents) {
                Ok((stream, word, ControlPacket::Offer(tag))) => offered.push((transmit.to, stream, word, tag)),
                _ => sent += transmit.contents.len(),
            }
            let packets = transmit.contents.len().div_ceil(transmit.segment) as u32;
            relay.record_outcome(now, &transmit, SendOutcome { sent: packets, ..SendOutcome::default() });
        }
        now = relay.poll_deadline().unwrap().min(until);
        relay.handle_timeout(now);
    }
    assert!((60_000..=128 << 10).contains(&sent), "{sent}");
    // A host that answers gets the rest.
    answer(&mut relay, now, &offered);
    let until = now + SECOND;
    while now < until {
        let got = drain(&mut relay, now);
        sent += 1040 * got.values().flatten().filter(|said| said.is_none()).count();
        now = relay.poll_deadline().unwrap().min(until);
        relay.handle_timeout(now);
    }
    assert_eq!(sent, 16 * 300 * 1040);
}
