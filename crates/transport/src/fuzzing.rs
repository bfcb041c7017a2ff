//! Entry points for the fuzz targets: the parsers of all that a stranger or a member can send. Not for applications.

use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::FutureExt;
use roost_wire::Delivery;
use roost_wire::messages::MAX_MESSAGE_BYTES;

use roost_identity::GroupKey;

use crate::multicast::{MAX_MULTICAST_BYTES, ends};
use crate::multipath::{MAX_HELD_BYTES, MultipathConnection};
use crate::quic;
use crate::tcp::frame::{self, Frame};
use crate::udp::is_classified;
use crate::udp::session::{Packet, Session};

/// The most memory for messages that are not delivered yet, bytes: the limits on reliable messages and on fragments,
/// and two messages more.
const MAX_HELD: usize = (1 << 20) + (256 << 10) + 2 * MAX_MESSAGE_BYTES;
/// More packets than a session may send at once: its window, in the smallest packets.
const MAX_BURST: usize = 10_000;

/// Feeds packets to a session that waits for acknowledgements. Each packet in `bytes` has two bytes of length, one of
/// milliseconds that pass before it, and its content.
pub fn udp_session(bytes: &[u8]) {
    let mut session = Session::new(1200, 1 << 20, Duration::from_millis(1));
    let (mut now, mut written, mut rest) = (Instant::now(), Vec::new(), bytes);
    for flow in 0..4 {
        // The queue is far from full, so the result does not matter.
        let message = Bytes::from(vec![7; 3000 * flow as usize]);
        let _ = session.send_reliable(now, flow, &Delivery::default(), message);
    }
    while let [high, low, pause, tail @ ..] = rest {
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        let (content, after) = tail.split_at(length.min(tail.len()));
        rest = after;
        now += Duration::from_millis(u64::from(*pause));
        let receive = |message: Bytes| assert!(message.len() <= MAX_MESSAGE_BYTES);
        let sound = Packet::parse(content).is_none_or(|packet| session.handle_packet(now, packet, receive).is_ok());
        if !sound || session.handle_timeout(now).is_err() {
            return;
        }
        let said = (0..MAX_BURST).take_while(|_| session.poll_packet(now, &mut written)).count();
        assert!(said < MAX_BURST);
        assert!(session.held() <= MAX_HELD);
        assert!(session.deadline().is_none_or(|deadline| deadline > now));
    }
}

/// Classifies a datagram of a stranger, which no key protects.
pub fn udp_datagram(bytes: &[u8]) {
    assert!(is_classified(bytes));
}

/// Feeds streams to a QUIC connection, one after the other. Each has two bytes of length and its content.
pub fn multipath_chunks(bytes: &[u8]) {
    let (mut connection, mut rest) = (MultipathConnection::new(1 << 20), bytes);
    while let [high, low, tail @ ..] = rest {
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        let (content, after) = tail.split_at(length.min(tail.len()));
        rest = after;
        if connection.handle_chunk(&Bytes::copy_from_slice(content)).is_err() {
            return;
        }
        assert!(connection.held() <= MAX_HELD_BYTES);
        while let Some(message) = connection.poll_message() {
            assert!(message.len() <= MAX_MESSAGE_BYTES);
        }
    }
}

/// Parses the greetings of either side of a QUIC connection, and its messages about addresses.
pub fn quic_messages(bytes: &[u8]) {
    assert!(quic::messages_round_trip(bytes));
}

/// Parses the content of a TLS stream.
pub fn tcp_frames(bytes: &[u8]) {
    let mut stream = bytes;
    // A slice never makes the reader wait.
    while let Some(Ok(Some(frame))) = frame::read(&mut stream).now_or_never() {
        if let Frame::Message(message) = frame {
            assert!(message.len() <= MAX_MESSAGE_BYTES);
        }
    }
}

/// Opens packets of a group whose key is known. Each has two bytes of length, one of seconds that pass before it, and
/// its content. No packet may be accepted twice.
pub fn multicast_packets(bytes: &[u8]) {
    let Some((_, mut opener)) = ends(&GroupKey::from_bytes([7; 32])) else { return };
    let (mut now, mut rest) = (1_800_000_000_000, bytes);
    while let [high, low, pause, tail @ ..] = rest {
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        let (content, after) = tail.split_at(length.min(tail.len()));
        rest = after;
        now += 1000 * u64::from(*pause);
        let taken = opener.open(now, &mut content.to_vec()).map(<[u8]>::len);
        assert!(taken.is_err() || opener.open(now, &mut content.to_vec()).is_err());
        assert!(taken.is_ok_and(|length| length <= MAX_MULTICAST_BYTES) || taken.is_err());
    }
}
