//! A function for each parser of data from the network or from a stranger's file. `tests/fuzz` runs them under
//! libFuzzer; `tests/tests/e2e/corpus.rs` replays the committed corpus.

use std::time::{Duration, SystemTime};

use roost_api::Frames;
use roost_core::hub::{Hub, HubConfig, HubKind};
use roost_core::machine::{Input, Machine};
use roost_ns::NsLimits;
use roost_reflection::control::ControlPacket;
use roost_reflection::relay::RelayConfig;
use roost_reflection::{
    Epoch, EpochLimits as Epochs, EpochSecret, Flags, Header, Publisher, Relay, SendOutcome, StreamId, StreamTag,
    Subscriber,
};
use roost_services::{image, sensor, track, video};
use roost_topology::describe::describe;
use roost_wire::messages::Message;
use roost_wire::{Address, Cell, ConnectionId, Endpoint, Labels, NodeId, RemoteIdentity, Role, Scheme, Time};

use bytes::{Bytes, BytesMut};
pub use roost_tak::fuzzing::tak_events;
pub use roost_transport::fuzzing::{
    multicast_packets, multipath_chunks, quic_messages, tcp_frames, udp_datagram, udp_session,
};

/// A parser under test: must return, whatever the bytes.
pub type Target = fn(&[u8]);

/// Every target by the name of its corpus folder.
pub const TARGETS: [(&str, Target); 18] = [
    ("wire_message", wire_message),
    ("notation", notation),
    ("hub", hub),
    ("certificate", certificate),
    ("control_frames", control_frames),
    ("video", video),
    ("track", track),
    ("objects", objects),
    ("udp_datagram", udp_datagram),
    ("udp_session", udp_session),
    ("tcp_frames", tcp_frames),
    ("multipath_chunks", multipath_chunks),
    ("quic_messages", quic_messages),
    ("multicast_packets", multicast_packets),
    ("reflected_packets", reflected_packets),
    ("reflected_words", reflected_words),
    ("ns_file", ns_file),
    ("tak_events", tak_events),
];

/// The overlay's messages: a decoded message encodes to bytes that decode to the same.
pub fn wire_message(bytes: &[u8]) {
    if let Ok(message) = Message::decode(bytes) {
        assert_eq!(Message::decode(&message.encode()), Ok(message));
    }
}

/// Endpoints and cells as people write them: a parsed value prints to text that parses to the same.
pub fn notation(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(endpoint) = text.parse::<Endpoint>() {
        assert_eq!(endpoint.to_string().parse(), Ok(endpoint));
    }
    if let Ok(cell) = text.parse::<Cell>() {
        assert_eq!(cell.to_string().parse(), Ok(cell));
    }
}

/// A hub gets these bytes, in pieces of the length in each piece's first byte, from a node and from another hub in
/// turn.
pub fn hub(bytes: &[u8]) {
    let mut hub = Hub::new(HubConfig::new(NodeId::from_bytes([1; 16]), HubKind::SuperNode, 1));
    for (number, role) in [(1, Role::Node), (2, Role::SuperNode)] {
        let remote = RemoteIdentity {
            node: NodeId::from_bytes([number; 16]),
            role,
            name: "fuzz".to_owned(),
            labels: Labels::default(),
        };
        let address = Address::single(Scheme::Udp, ([127, 0, 0, 1], 7700).into());
        let (connection, rtt) = (ConnectionId(number.into()), Duration::from_millis(1));
        hub.handle(Time::ZERO, Input::ConnectionUp { connection, dial: None, remote, address, rtt });
    }
    let mut rest = bytes;
    let mut turn = 0;
    while let Some((&len, tail)) = rest.split_first() {
        let (message, after) = tail.split_at(tail.len().min(len.into()));
        rest = after;
        turn += 1;
        let now = Time::ZERO + Duration::from_millis(turn * 700);
        hub.handle(
            now,
            Input::Message { connection: ConnectionId(1 + turn % 2), message: Bytes::copy_from_slice(message) },
        );
        hub.handle(now, Input::Timeout);
        while let Some(transmit) = hub.poll_transmit() {
            drop(transmit);
        }
        while hub.poll_event().is_some() {}
    }
}

pub fn certificate(bytes: &[u8]) {
    let _ = roost_identity::read_unverified(bytes);
}

/// The framed answer of a daemon's local API.
pub fn control_frames(bytes: &[u8]) {
    let mut frames = Frames::default();
    for piece in bytes.chunks(7) {
        frames.push(piece);
        while let Ok(Some(frame)) = frames.next_frame() {
            drop(frame);
        }
    }
    let _ = frames.finish();
}

/// MPEG-TS and RTP from a local port.
pub fn video(bytes: &[u8]) {
    let _ = video::ts::header(bytes);
    let _ = video::ts::is_datagram(bytes);
    let _ = video::rtp::parse(bytes);
    let (mut stream, mut packets) =
        (video::keyframes::TransportStream::default(), video::keyframes::RtpH264::default());
    for datagram in bytes.chunks(2 * video::ts::PACKET_BYTES) {
        let _ = (stream.mark(datagram), packets.mark(datagram));
    }
}

/// Positions from gpsd, Cursor-on-Target and NMEA.
pub fn track(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let _ = track::gpsd::parse(&text);
    let mut nmea = track::nmea::Sentences::new("fuzz");
    for event in track::cot::split(&text) {
        let _ = track::cot::parse(event);
    }
    for line in text.lines() {
        nmea.push(line, SystemTime::UNIX_EPOCH);
    }
}

/// Pictures and readings from files and commands.
pub fn objects(bytes: &[u8]) {
    let _ = image::jpeg::is_complete(bytes);
    let _ = sensor::senml::check(bytes);
}

/// Packets of a reflected stream, in pieces of the length in each piece's first byte: a genuine packet, changed where
/// the piece says, is refused unless only the hop's byte was changed.
pub fn reflected_packets(bytes: &[u8]) {
    let (stream, epoch, secret) = (StreamId(1), Epoch(1), EpochSecret::from_bytes([1; 32]));
    let mut subscriber = Subscriber::new(stream);
    subscriber.add_epoch(epoch, &secret);
    let Ok(mut publisher) = Publisher::new(Time::ZERO, stream, epoch, &secret, Epochs::default()) else { return };
    let mut rest = bytes;
    while let Some((&len, tail)) = rest.split_first() {
        let (piece, after) = tail.split_at(tail.len().min(len.into()));
        rest = after;
        let _ = Header::decode(piece);
        assert!(subscriber.open(&mut piece.to_vec()).is_err());
        let mut genuine = BytesMut::new();
        if publisher.seal(Time::ZERO, 0, Flags::default(), piece, &mut genuine).is_err() {
            continue;
        }
        let changed = piece.iter().zip(&mut genuine[1..]).fold(false, |changed, (change, byte)| {
            *byte ^= change;
            changed || *change != 0
        });
        assert_eq!(subscriber.open(&mut genuine).is_err(), changed);
    }
}

/// Control packets between relays, in pieces of the length in each piece's first byte: a relay that gets them, from a
/// downstream and an upstream in turn, keeps within its limits.
pub fn reflected_words(bytes: &[u8]) {
    let (above, below) = (([10, 0, 0, 1], 1).into(), ([10, 0, 0, 2], 1).into());
    let (mut now, mut relay) = (Time::ZERO, Relay::new(RelayConfig::default(), [1; 32]));
    let stream = StreamId(1);
    let _ = relay.publish(now, stream).and_then(|()| relay.offer(now, stream, below, StreamTag(1)));
    let _ = relay.expect_offer(now, StreamTag(2));
    let mut rest = bytes;
    while let Some((&len, tail)) = rest.split_first() {
        let (piece, after) = tail.split_at(tail.len().min(len.into()));
        rest = after;
        if let Ok((stream, word, said)) = ControlPacket::decode(piece) {
            assert_eq!(ControlPacket::decode(&said.encode(stream, word)), Ok((stream, word, said)));
        }
        for from in [above, below] {
            relay.handle_datagram(now, from, piece, |_, _| {});
            relay.end_batch(now);
            while let Some(transmit) = relay.poll_transmit(now) {
                let packets = transmit.contents.len().div_ceil(transmit.segment) as u32;
                relay.record_outcome(now, &transmit, SendOutcome { sent: packets, ..SendOutcome::default() });
            }
        }
        while relay.poll_event().is_some() {}
        now = now + Duration::from_millis(100);
        relay.handle_timeout(now);
        assert!(relay.streams(now).count() <= 2, "what was published, and what was expected");
    }
}

/// The beginning that most of Emulab's topologies share.
const NS_BEGINNING: &str = "set ns [new Simulator]\nset a [$ns node]\nset b [$ns node]\n\
    set l [$ns duplex-link $a $b 10Mb 20ms RED]\nset m [$ns make-lan \"$a $b\" 10Mb 0ms]\n\
    set p [$a program-agent -command date]\n";

/// Emulab's topologies, which are programs: read with small limits, alone and after the beginning that most of them
/// share.
pub fn ns_file(bytes: &[u8]) {
    let limits = NsLimits { steps: 5000, value_bytes: 10_000, variables: 1000, ..NsLimits::default() };
    let text = String::from_utf8_lossy(bytes);
    for source in [text.to_string(), format!("{NS_BEGINNING}{text}\n$ns run\n")] {
        if let Ok(topology) = roost_ns::parse("fuzz.ns", &source, &limits) {
            let _ = describe(&topology, "fuzz.ns");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ns_beginning_is_a_topology() {
        let read = roost_ns::parse("beginning.ns", &format!("{NS_BEGINNING}$ns run\n"), &NsLimits::default());
        assert!(read.is_ok(), "{:?}", read.err());
    }
}
