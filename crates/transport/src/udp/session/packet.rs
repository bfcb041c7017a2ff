//! The packets inside DTLS, and their encoding.
//!
//! | number | packet | body |
//! |---|---|---|
//! | 0 | ready | empty: the sender accepts the remote |
//! | 1 | datagram | a whole message |
//! | 2 | fragment | id (2), index (1), count (1), part of a message |
//! | 3 | reliable | packet number (4), message number (4), distance to the message it follows (2; 0 = none), index (1), count (1), part of a message |
//! | 4 | acknowledgement | largest packet number (4), delay in units of 8 µs (2), length of the first range (2), then gap (2) and length (2) of each further one |
//! | 5 | close | code (1), reason in UTF-8 |
//! | 6 | moved | the cookie (16) of the address that the sender has now |
//! | 7 | reset token | the listener's id of the session (8), and the token that it sends once it has forgotten the session (16) |
//!
//! Numbers are big-endian. Packet and message numbers start at 0 and never wrap: a connection that has used them up is
//! closed.

use std::time::Duration;

use crate::stateless_reset::RESET_TOKEN_BYTES;
use crate::transport::{MAX_REASON, cut};

pub(super) const MAX_RANGES: usize = 32;
/// The most parts of a message: 64 KiB in the smallest packets, and a few more.
pub(super) const MAX_PARTS: usize = 64;
/// Bytes before a part of a reliable message.
pub(crate) const RELIABLE_HEADER: usize = 13;
/// Bytes before a part of a datagram message.
pub(super) const FRAGMENT_HEADER: usize = 5;

const READY: u8 = 0;
const DATAGRAM: u8 = 1;
const FRAGMENT: u8 = 2;
const RELIABLE: u8 = 3;
const ACK: u8 = 4;
const CLOSE: u8 = 5;
const MOVED: u8 = 6;
const RESET_TOKEN: u8 = 7;

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Packet<'a> {
    Ready,
    Datagram(&'a [u8]),
    Fragment(MessagePart<'a>),
    Reliable { number: u32, follows: u16, part: MessagePart<'a> },
    Ack(Ack),
    Close { code: u8, reason: &'a str },
    Moved { cookie: [u8; 16] },
    ResetToken { id: [u8; 8], token: [u8; RESET_TOKEN_BYTES] },
}

/// The remote has sent a packet that no version of ours sends.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PacketViolation(pub(crate) &'static str);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MessagePart<'a> {
    /// The message's number, or its fragment id.
    pub(super) message: u32,
    pub(super) index: u8,
    /// The number of parts, 1 to [`MAX_PARTS`].
    pub(super) count: u8,
    pub(super) bytes: &'a [u8],
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ack {
    /// The time for which the acknowledgement of the largest number was delayed.
    pub(super) delay: Duration,
    /// First and last number of each range, largest first; 1 to [`MAX_RANGES`].
    pub(super) ranges: Vec<(u32, u32)>,
}

impl<'a> Packet<'a> {
    /// Parses a packet; `None` if it is malformed.
    pub(crate) fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (kind, body) = bytes.split_first()?;
        match *kind {
            READY => body.is_empty().then_some(Self::Ready),
            DATAGRAM => Some(Self::Datagram(body)),
            FRAGMENT => {
                let (message, rest) = take_u16(body)?;
                Some(Self::Fragment(parse_part(u32::from(message), rest)?))
            }
            RELIABLE => {
                let (number, rest) = take_u32(body)?;
                let (message, rest) = take_u32(rest)?;
                let (follows, rest) = take_u16(rest)?;
                Some(Self::Reliable { number, follows, part: parse_part(message, rest)? })
            }
            ACK => Ack::parse(body).map(Self::Ack),
            CLOSE => {
                let (code, reason) = body.split_first()?;
                let reason = std::str::from_utf8(reason).ok()?;
                (reason.len() <= MAX_REASON).then_some(Self::Close { code: *code, reason })
            }
            MOVED => Some(Self::Moved { cookie: body.try_into().ok()? }),
            RESET_TOKEN => {
                let (id, token) = body.split_first_chunk()?;
                Some(Self::ResetToken { id: *id, token: token.try_into().ok()? })
            }
            _ => None,
        }
    }
}

fn parse_part(message: u32, bytes: &[u8]) -> Option<MessagePart<'_>> {
    let [index, count, bytes @ ..] = bytes else { return None };
    let sound = index < count && usize::from(*count) <= MAX_PARTS;
    sound.then_some(MessagePart { message, index: *index, count: *count, bytes })
}

impl Ack {
    fn parse(body: &[u8]) -> Option<Self> {
        let (largest, rest) = take_u32(body)?;
        let (delay, rest) = take_u16(rest)?;
        let (length, mut rest) = take_u16(rest)?;
        let mut first = largest.checked_sub(u32::from(length))?;
        let mut ranges = vec![(first, largest)];
        while !rest.is_empty() {
            let (gap, after) = take_u16(rest)?;
            let (length, after) = take_u16(after)?;
            let last = first.checked_sub(u32::from(gap) + 2)?;
            first = last.checked_sub(u32::from(length))?;
            ranges.push((first, last));
            rest = after;
            if ranges.len() > MAX_RANGES {
                return None;
            }
        }
        Some(Self { delay: Duration::from_micros(u64::from(delay) * 8), ranges })
    }

    /// Writes the acknowledgement. A gap or range of more than 65535 packets does not fit the format. It is left out
    /// with all older ranges, and the remote sends those packets again.
    pub(super) fn write(&self, into: &mut Vec<u8>) {
        let Some(((first, largest), older)) = self.ranges.split_first() else { return };
        let delay = u16::try_from(self.delay.as_micros() / 8).unwrap_or(u16::MAX);
        let length = u16::try_from(largest - first).unwrap_or(u16::MAX);
        into.reserve(9 + 4 * older.len());
        into.push(ACK);
        into.extend_from_slice(&largest.to_be_bytes());
        into.extend_from_slice(&delay.to_be_bytes());
        into.extend_from_slice(&length.to_be_bytes());
        let mut before = largest - u32::from(length);
        for (first, last) in older.iter().take(MAX_RANGES - 1) {
            let (Ok(gap), Ok(length)) = (u16::try_from(before - last - 2), u16::try_from(last - first)) else { return };
            into.extend_from_slice(&gap.to_be_bytes());
            into.extend_from_slice(&length.to_be_bytes());
            before = *first;
        }
    }
}

pub(crate) fn write_ready(into: &mut Vec<u8>) {
    into.push(READY);
}

pub(crate) fn write_datagram(into: &mut Vec<u8>, message: &[u8]) {
    into.reserve(1 + message.len());
    into.push(DATAGRAM);
    into.extend_from_slice(message);
}

pub(super) fn write_fragment(into: &mut Vec<u8>, id: u16, part: &MessagePart<'_>) {
    into.reserve(FRAGMENT_HEADER + part.bytes.len());
    into.push(FRAGMENT);
    into.extend_from_slice(&id.to_be_bytes());
    into.extend_from_slice(&[part.index, part.count]);
    into.extend_from_slice(part.bytes);
}

pub(super) fn write_reliable(into: &mut Vec<u8>, number: u32, follows: u16, part: &MessagePart<'_>) {
    into.reserve(RELIABLE_HEADER + part.bytes.len());
    into.push(RELIABLE);
    into.extend_from_slice(&number.to_be_bytes());
    into.extend_from_slice(&part.message.to_be_bytes());
    into.extend_from_slice(&follows.to_be_bytes());
    into.extend_from_slice(&[part.index, part.count]);
    into.extend_from_slice(part.bytes);
}

pub(crate) fn write_close(into: &mut Vec<u8>, code: u8, reason: &str) {
    into.extend_from_slice(&[CLOSE, code]);
    into.extend_from_slice(cut(reason).as_bytes());
}

pub(crate) fn write_moved(into: &mut Vec<u8>, cookie: &[u8; 16]) {
    into.push(MOVED);
    into.extend_from_slice(cookie);
}

pub(crate) fn write_reset_token(into: &mut Vec<u8>, id: &[u8; 8], token: &[u8; RESET_TOKEN_BYTES]) {
    into.push(RESET_TOKEN);
    into.extend_from_slice(id);
    into.extend_from_slice(token);
}

fn take_u16(bytes: &[u8]) -> Option<(u16, &[u8])> {
    let (head, rest) = bytes.split_first_chunk()?;
    Some((u16::from_be_bytes(*head), rest))
}

fn take_u32(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (head, rest) = bytes.split_first_chunk()?;
    Some((u32::from_be_bytes(*head), rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_reason_is_cut_between_characters() {
        let mut bytes = Vec::new();
        write_close(&mut bytes, 3, &"é".repeat(200));
        let expected = "é".repeat(128);
        assert_eq!(Packet::parse(&bytes), Some(Packet::Close { code: 3, reason: &expected }));
    }

    proptest! {
        #[test]
        fn whatever_arrives_is_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Packet::parse(&bytes);
        }

        #[test]
        fn a_reliable_packet_reads_back(number: u32, message: u32, follows: u16, index in 0..64u8, bytes: Vec<u8>) {
            let part = MessagePart { message, index, count: 64, bytes: &bytes };
            let mut written = Vec::new();
            write_reliable(&mut written, number, follows, &part);
            prop_assert_eq!(Packet::parse(&written), Some(Packet::Reliable { number, follows, part }));
        }

        #[test]
        fn an_acknowledgement_reads_back(steps in prop::collection::vec((0..1000u32, 0..1000u32), 1..=MAX_RANGES)) {
            let mut ranges = Vec::new();
            let mut next = 5;
            for (gap, length) in steps {
                ranges.insert(0, (next, next + length));
                next += length + gap + 2;
            }
            let ack = Ack { delay: Duration::from_micros(800), ranges };
            let mut written = Vec::new();
            ack.write(&mut written);
            prop_assert_eq!(Packet::parse(&written), Some(Packet::Ack(ack)));
        }
    }
}
