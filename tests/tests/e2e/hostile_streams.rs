//! Strangers that send datagrams into reflected streams: nobody is delivered anything twice, and others lose
//! nothing.

use std::net::UdpSocket;
use std::time::Duration;

use roost_reflection::control::{ControlPacket, Nack, PathToken, ReceiverReport};
use roost_reflection::{Header, Hop, StreamId};
use roost_tests::hostile::{HostileSetup, await_reader, captured, media, packets_of, rejected, send_all, take_over};
use roost_tests::network::PATIENCE;
use roost_tests::process::wait_until;
use roost_tests::streams::{is_whole, sent_to, stream, streams};
use roost_wire::StreamTag;
use serde_json::Value;

#[test]
fn replayed_packets_are_dropped() {
    let mut scene = HostileSetup::new(&["a", "b"]);
    let (whole, dying) = (scene.watch(0), scene.watch(1));
    sent_to(&scene.hub, 2);
    let hub = media(&scene.hub);
    let subscriber = media(&scene.nodes[0]);
    let successor = take_over(&mut scene.nodes[1]);
    drop(dying);
    let everything = captured(&successor, Duration::from_secs(2));
    let packets = packets_of(&everything);
    assert!(packets.len() > 100, "{} of {}", packets.len(), everything.len());
    // From a downstream's address and from a stranger's, to the super node and to a subscriber.
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    let known = [&*scene.hub, &*scene.nodes[0]].map(|daemon| rejected(daemon, "foreign"));
    for from in [&successor, &stranger] {
        for to in [hub, subscriber] {
            send_all(from, &packets, to);
        }
    }
    for (daemon, known) in [&*scene.hub, &*scene.nodes[0]].into_iter().zip(known) {
        let all = || (rejected(daemon, "foreign") == known + 2.0 * packets.len() as f64).then_some(());
        assert!(
            wait_until(PATIENCE, all).is_some(),
            "{known} and {} twice: {}",
            packets.len(),
            rejected(daemon, "foreign")
        );
    }
    scene.stands();
    let (summary, written) = whole.finish();
    is_whole(&summary, &written);
}

#[test]
fn dead_upstreams_address_cannot_inject() {
    let mut scene = HostileSetup::new(&["a", "b"]);
    let (watcher, dying) = (scene.watch_for(0, "8s"), scene.watch(1));
    sent_to(&scene.hub, 2);
    let hub = media(&scene.hub);
    let packets = packets_of(&captured(&take_over(&mut scene.nodes[1]), Duration::from_secs(1)));
    drop(dying);
    let successor = take_over(&mut scene.provider);
    await_reader(hub);
    let known = stream(&scene.hub, "it is kept", |_| true);
    send_all(&successor, &packets, hub);
    let count = |stream: &Value, what: &str| stream[what].as_u64().unwrap();
    let twice = count(&known, "duplicates") + packets.len() as u64;
    let repeated = stream(&scene.hub, "all are known to be repetitions", |now| count(now, "duplicates") == twice);
    assert_eq!(count(&repeated, "packets"), count(&known, "packets"));
    let opened = count(&stream(&scene.nodes[0], "it watches", |_| true), "packets");
    // A super node cannot tell what is invented, and its subscribers open none of it.
    let (_, header) = Header::decode(&packets[0]).unwrap();
    let far = |number: u64| Header { counter: header.counter + (1 << 40) * (1 + number), ..header };
    let invented: Vec<Vec<u8>> =
        (0..200).map(|number| [&far(number).encode(Hop::default())[..], &[0; 1128]].concat()).collect();
    send_all(&successor, &invented, hub);
    stream(&scene.nodes[0], "they come", |now| count(now, "packets") == opened + invented.len() as u64);
    scene.stands();
    // Nobody went on with it, which is no success.
    let (code, said) = watcher.fails();
    assert!(code == Some(7) && said.contains("fell silent"), "{code:?}: {said}");
}

/// Packets that cannot be read, and packets that can and mean nothing here: cut off, guessed, and far ahead.
fn rubbish(packet: &[u8]) -> Vec<Vec<u8>> {
    let (_, header) = Header::decode(packet).unwrap();
    let stream = header.stream;
    let nack = Nack::from_counters(&(0..200).map(|number| header.counter + number).collect()).unwrap();
    let reported =
        ReceiverReport { received: u64::MAX, lost: u64::MAX, missed: u64::MAX, highest: u64::MAX, jitter_us: u32::MAX };
    let said = [
        ControlPacket::Offer(StreamTag(1)),
        ControlPacket::Heartbeat { depth: 0, next: u64::MAX },
        ControlPacket::Leaving,
        ControlPacket::Bye,
        ControlPacket::Answer { tag: StreamTag(1), next: u64::MAX },
        ControlPacket::Report(reported),
        ControlPacket::Nack(nack),
        ControlPacket::KeyFrameRequest,
    ];
    let words =
        said.iter().flat_map(|said| [stream, StreamId(1)].map(|stream| said.encode(stream, PathToken(7)).to_vec()));
    let whole: Vec<Vec<u8>> = words.chain([packet.to_vec()]).collect();
    let cut = whole.iter().flat_map(|datagram| {
        [0, 1, 8, 16, 17, 23, 24, 39].map(|length| datagram[..length.min(datagram.len())].to_vec())
    });
    let ahead = [1, 1 << 20, 1 << 40, u64::MAX - header.counter]
        .map(|ahead| Header { counter: header.counter + ahead, ..header });
    let ahead = ahead.map(|header| [&header.encode(Hop::default())[..], &packet[24..]].concat());
    let bytes = (0..=255_u8).map(|first| [&[first][..], &[0xa5; 60]].concat());
    cut.chain(whole.clone()).chain(ahead).chain(bytes).collect()
}

#[test]
fn foreign_packets_are_counted_and_dropped() {
    let mut scene = HostileSetup::new(&["a", "b"]);
    let (whole, dying) = (scene.watch(0), scene.watch(1));
    sent_to(&scene.hub, 2);
    let subscriber = media(&scene.nodes[0]);
    let packets = packets_of(&captured(&take_over(&mut scene.nodes[1]), Duration::from_millis(300)));
    drop(dying);
    let rubbish = rubbish(&packets[0]);
    let strangers = [0; 4].map(|_| UdpSocket::bind("127.0.0.1:0").unwrap());
    let targets =
        [(&*scene.hub, media(&scene.hub)), (&*scene.provider, media(&scene.provider)), (&*scene.nodes[0], subscriber)];
    let before = targets.map(|(daemon, _)| rejected(daemon, ""));
    for (_, to) in targets {
        strangers.iter().for_each(|from| send_all(from, &rubbish, to));
    }
    for ((daemon, _), before) in targets.into_iter().zip(before) {
        let all = before + (strangers.len() * rubbish.len()) as f64;
        let counted = || Some(rejected(daemon, "")).filter(|counted| *counted >= all);
        assert!(wait_until(PATIENCE, counted).is_some(), "{} of {all}", rejected(daemon, ""));
        for reason in ["malformed", "foreign", "unknown"] {
            assert!(rejected(daemon, reason) > 0.0, "{reason}");
        }
    }
    // Nobody was sent more than that there is nothing, once for each word at most.
    let words = rubbish.iter().filter(|datagram| ControlPacket::decode(datagram).is_ok()).count();
    for stranger in &strangers {
        let answers = captured(stranger, Duration::from_millis(20));
        assert!((1..=targets.len() * words).contains(&answers.len()), "{} answers to {words}", answers.len());
        assert!(answers.iter().all(|answer| matches!(ControlPacket::decode(answer), Ok((_, _, ControlPacket::Bye)))));
    }
    assert_eq!(streams(&scene.hub).len(), 1);
    scene.stands();
    let (summary, written) = whole.finish();
    is_whole(&summary, &written);
}
