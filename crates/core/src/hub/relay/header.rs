//! The header of a data message, of which the hub changes the id.

use bytes::Bytes;
use minicbor::data::Type;
use minicbor::{Decoder, Encoder};
use roost_wire::RequestId;
use roost_wire::messages::MAX_MESSAGE_BYTES;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Requester,
    Provider,
}

/// The part of a data message before its payload.
pub(super) struct Header {
    pub(super) kind: u32,
    pub(super) id: RequestId,
    /// Place of the id in the message.
    pub(super) at: std::ops::Range<usize>,
}

/// The numbers of the messages that are relayed unread.
pub(super) mod kind {
    pub(crate) const PACKET: u32 = 11;
    pub(crate) const CHUNK: u32 = 12;
    pub(crate) const END: u32 = 13;
    pub(crate) const REPORT: u32 = 14;
    pub(crate) const STOP: u32 = 15;
    pub(crate) const THROUGH: u32 = 80;
    pub(crate) const BODY: u32 = 82;
}

impl Header {
    /// The header of a message that may be relayed unread.
    pub(super) fn read(message: &[u8]) -> Option<Self> {
        if message.len() > MAX_MESSAGE_BYTES {
            return None;
        }
        let mut d = Decoder::new(message);
        d.array().ok()?;
        let kind = d.u32().ok()?;
        if !(kind::PACKET..=kind::STOP).contains(&kind) && !matches!(kind, kind::THROUGH | kind::BODY) {
            return None;
        }
        if d.datatype().ok()? == Type::Array {
            d.array().ok()?;
        }
        let start = d.position();
        let id = RequestId(d.u32().ok()?);
        Some(Self { kind, id, at: start..d.position() })
    }

    /// True if a message of this kind is for that side to send.
    pub(super) fn may_come_from(&self, side: Side) -> bool {
        match self.kind {
            kind::PACKET | kind::CHUNK | kind::END => side == Side::Provider,
            kind::REPORT | kind::BODY => side == Side::Requester,
            _ => true,
        }
    }
}

/// True if the message is one CBOR value and nothing else.
pub(super) fn is_whole(message: &[u8]) -> bool {
    let mut d = Decoder::new(message);
    d.skip().is_ok() && d.position() == message.len()
}

pub(super) fn with_id(message: &[u8], header: &Header, id: RequestId) -> Bytes {
    /// The most that an id takes.
    const ID_BYTES: usize = 5;
    let mut buffer = Vec::with_capacity(message.len() + ID_BYTES);
    buffer.extend_from_slice(&message[..header.at.start]);
    match Encoder::new(&mut buffer).u32(id.0) {
        Ok(_) => {}
        // A `Vec` takes every write.
        Err(error) => unreachable!("encoding into memory cannot fail: {error}"),
    }
    buffer.extend_from_slice(&message[header.at.end..]);
    Bytes::from(buffer)
}
