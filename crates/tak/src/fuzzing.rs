//! The parsers of what TAK sends, for fuzzing.

use crate::clock::Clock;
use crate::contacts::ConnectionId;
use crate::gateway::{Carriage, Gateway, Requested};
use crate::marks::MarkRules;

/// Pieces of a stream and datagrams, of the length in each piece's first byte; the records and answers that follow.
pub fn tak_events(bytes: &[u8]) {
    let clock = Clock::now();
    let mut gateway = Gateway::new(MarkRules::default(), 1e6, clock);
    let (stream, group) = (ConnectionId(1), ConnectionId(2));
    gateway.connect(stream, Carriage::Stream, clock);
    gateway.connect(group, Carriage::Datagrams, clock);
    gateway.offer_records(Requested::Yes, clock);
    gateway.receive(group, None, bytes, clock);
    let mut rest = bytes;
    while let Some((&length, tail)) = rest.split_first() {
        let (piece, after) = tail.split_at(tail.len().min(length.into()));
        gateway.receive(stream, None, piece, clock);
        rest = after;
    }
    while gateway.poll_transmit(stream, clock).is_some() || gateway.poll_record(clock).is_some() {}
}
