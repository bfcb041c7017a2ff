//! The content of one stream: a chunk of frames, or a heartbeat.
//!
//! A frame is a slice of a message. It gives the number of its message and the distance to the message of the same flow
//! that must be delivered before (0 for none), so that the receiver can restore the order. It is CBOR: `number,
//! distance, total, offset, bytes`. The frame of a message that was given up has `null` after the distance.

use bytes::Bytes;
use minicbor::data::Type;
use minicbor::decode::Error;
use minicbor::{Decoder, Encoder};
use roost_wire::messages::MAX_MESSAGE_BYTES;

/// The most bytes of messages in one chunk. It is small enough that a late chunk costs little to repeat, and large
/// enough that a stream for each chunk is cheap.
pub(super) const CHUNK_BYTES: usize = 8 << 10;
/// The most bytes that a frame takes besides its slice of the message.
pub(super) const HEAD_BYTES: usize = 9 + 9 + 5 + 5 + 3;
/// The longest chunk that is read. A remote that sends a longer one breaks the protocol.
pub(crate) const MAX_CHUNK_BYTES: usize = 2 * CHUNK_BYTES;

/// The first byte of a chunk that has frames.
pub(super) const PIECES: u8 = 1;
pub(super) const HEARTBEAT: u8 = 2;

/// The place of a message in the order of all messages of its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MessageOrder {
    /// Counted from 0, over the messages of all flows.
    pub(super) number: u64,
    /// The distance to the number of the message that must be delivered before; 0 for none.
    pub(super) distance: u64,
}

impl MessageOrder {
    /// The number of the message that must be delivered before.
    pub(super) fn before(self) -> Option<u64> {
        self.number.checked_sub(self.distance).filter(|_| self.distance > 0)
    }
}

/// A slice of a message. `part` is `None` if the message was given up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ChunkFrame {
    pub(super) order: MessageOrder,
    pub(super) part: Option<MessageSlice>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MessageSlice {
    pub(super) total: usize,
    pub(super) offset: usize,
    pub(super) body: Bytes,
}

/// Writes the head of a frame whose slice of `length` bytes follows.
pub(super) fn write_head(into: &mut Vec<u8>, place: MessageOrder, total: usize, offset: usize, length: usize) {
    let mut encoder = Encoder::new(into);
    let written = encoder
        .u64(place.number)
        .and_then(|it| it.u64(place.distance))
        .and_then(|it| it.u64(total as u64))
        .and_then(|it| it.u64(offset as u64))
        .and_then(|it| it.bytes_len(length as u64));
    debug_assert!(written.is_ok(), "writing to memory does not fail");
}

/// Writes the frame of a message that was given up.
pub(super) fn write_given_up(into: &mut Vec<u8>, place: MessageOrder) {
    let mut encoder = Encoder::new(into);
    let written = encoder.u64(place.number).and_then(|it| it.u64(place.distance)).and_then(Encoder::null);
    debug_assert!(written.is_ok(), "writing to memory does not fail");
}

/// Reads the frames of a chunk; a heartbeat has none. `None` if the chunk is malformed.
pub(super) fn read(chunk: &Bytes) -> Option<Vec<ChunkFrame>> {
    match *chunk.first()? {
        PIECES => {}
        HEARTBEAT => return (chunk.len() == 1).then(Vec::new),
        _ => return None,
    }
    let mut decoder = Decoder::new(&chunk[1..]);
    let mut pieces = Vec::new();
    while decoder.position() < chunk.len() - 1 {
        pieces.push(read_piece(chunk, &mut decoder).ok()?);
    }
    Some(pieces)
}

fn read_piece(chunk: &Bytes, decoder: &mut Decoder<'_>) -> Result<ChunkFrame, Error> {
    let place = MessageOrder { number: decoder.u64()?, distance: decoder.u64()? };
    // No sender reaches larger numbers, and the receiver can add to these without overflow.
    let is_sound = place.number < u64::MAX / 2 && place.distance <= place.number;
    if !is_sound {
        return Err(Error::message("a place that no message has"));
    }
    if decoder.datatype()? == Type::Null {
        decoder.null()?;
        return Ok(ChunkFrame { order: place, part: None });
    }
    let (total, offset) = (decoder.u32()? as usize, decoder.u32()? as usize);
    let body = chunk.slice_ref(decoder.bytes()?);
    let fits = total <= MAX_MESSAGE_BYTES && offset + body.len() <= total && (total == 0) == body.is_empty();
    fits.then_some(ChunkFrame { order: place, part: Some(MessageSlice { total, offset, body }) })
        .ok_or_else(|| Error::message("a part outside its message"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn written(pieces: &[ChunkFrame]) -> Bytes {
        let mut chunk = vec![PIECES];
        for piece in pieces {
            match &piece.part {
                Some(MessageSlice { total, offset, body }) => {
                    write_head(&mut chunk, piece.order, *total, *offset, body.len());
                    chunk.extend_from_slice(body);
                }
                None => write_given_up(&mut chunk, piece.order),
            }
        }
        chunk.into()
    }

    prop_compose! {
        fn piece()(
            number in 0..u64::MAX / 2,
            back in any::<prop::sample::Index>(),
            body in prop::collection::vec(any::<u8>(), 0..300),
            around in prop::option::of((0..9000usize, 0..9000usize)),
        ) -> ChunkFrame {
            let distance = back.index(usize::MAX) as u64 % (number + 1);
            let part = around.map(|(offset, behind)| {
                let (offset, behind) = if body.is_empty() { (0, 0) } else { (offset, behind) };
                MessageSlice { total: offset + body.len() + behind, offset, body: body.clone().into() }
            });
            ChunkFrame { order: MessageOrder { number, distance }, part }
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(pieces in prop::collection::vec(piece(), 0..20)) {
            prop_assert_eq!(read(&written(&pieces)), Some(pieces));
        }

        #[test]
        fn frame_header_fits_stated_size(piece in piece()) {
            let body = piece.part.as_ref().map_or(0, |part| part.body.len());
            prop_assert!(written(&[piece]).len() - 1 - body <= HEAD_BYTES);
        }

        #[test]
        fn nonsense_does_no_harm(mut chunk in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = read(&chunk.clone().into());
            if let Some(first) = chunk.first_mut() {
                *first = PIECES;
            }
            let _ = read(&chunk.into());
        }
    }

    #[test]
    fn parts_outside_their_message_are_refused() {
        let place = MessageOrder { number: 3, distance: 1 };
        let part = |total, offset, length| {
            let body = Bytes::from(vec![0; length]);
            read(&written(&[ChunkFrame { order: place, part: Some(MessageSlice { total, offset, body }) }])).is_some()
        };
        assert!(part(10, 3, 7) && part(0, 0, 0));
        assert!(!part(10, 4, 7) && !part(10, 3, 0) && !part(MAX_MESSAGE_BYTES + 1, 0, 1));
        let far = ChunkFrame { order: MessageOrder { number: 3, distance: 4 }, part: None };
        assert_eq!(read(&written(&[far])), None);
        assert_eq!(read(&Bytes::from_static(&[HEARTBEAT])), Some(Vec::new()));
        assert_eq!(read(&Bytes::from_static(&[HEARTBEAT, 0])), None);
    }
}
