//! The provider's end of the body of a call.

use bytes::{Bytes, BytesMut};
use roost_wire::RequestId;
use roost_wire::messages::{CallBody, Chunk};

use super::ObjectReceiver;

/// Puts a body together. It never holds more than the request names.
#[derive(Debug)]
pub struct BodyReceiver {
    object: ObjectReceiver,
    bytes: BytesMut,
    is_empty: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BodyState {
    Partial,
    Whole(Bytes),
    /// Every byte has come, and it is not the body that the request names.
    Wrong,
}

impl BodyReceiver {
    /// Without a name the body is empty.
    pub fn new(id: RequestId, body: Option<CallBody>) -> Self {
        let is_empty = body.is_none_or(|body| body.length == 0);
        let CallBody { digest, length } = body.unwrap_or(CallBody { digest: [0; 32], length: 0 });
        let object = ObjectReceiver::new(id, length.into(), digest, 0);
        Self { object, bytes: BytesMut::new(), is_empty }
    }

    pub fn add(&mut self, chunk: Chunk) -> BodyState {
        if self.is_empty {
            return if chunk.payload.is_empty() { BodyState::Whole(Bytes::new()) } else { BodyState::Wrong };
        }
        if let Some(fresh) = self.object.chunk(chunk) {
            self.bytes.extend_from_slice(&fresh);
        }
        match self.object.digest_ok() {
            None => BodyState::Partial,
            Some(true) => BodyState::Whole(std::mem::take(&mut self.bytes).freeze()),
            Some(false) => BodyState::Wrong,
        }
    }

    /// The bytes that are here, from the beginning.
    pub fn received(&self) -> u64 {
        self.object.bytes()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use roost_wire::object::digest;

    use super::*;

    const ID: RequestId = RequestId(7);

    fn chunk(offset: u64, payload: &[u8]) -> Chunk {
        Chunk { id: ID, offset, payload: Bytes::copy_from_slice(payload) }
    }

    fn receiver(body: &Bytes) -> BodyReceiver {
        BodyReceiver::new(ID, Some(CallBody { digest: digest(body), length: body.len() as u32 }))
    }

    #[test]
    fn empty_body_is_one_empty_piece() {
        assert_eq!(BodyReceiver::new(ID, None).add(chunk(0, b"")), BodyState::Whole(Bytes::new()));
        assert_eq!(BodyReceiver::new(ID, None).add(chunk(0, b"x")), BodyState::Wrong);
        assert_eq!(receiver(&Bytes::new()).add(chunk(0, b"")), BodyState::Whole(Bytes::new()));
    }

    #[test]
    fn other_bytes_are_told_apart() {
        let body = Bytes::from_static(b"abcdef");
        assert_eq!(receiver(&body).add(chunk(0, b"abcdeg")), BodyState::Wrong);
        assert_eq!(receiver(&body).add(chunk(0, b"abcdefg")), BodyState::Partial, "more than was named is not taken");
        assert_eq!(receiver(&body).add(chunk(3, b"def")), BodyState::Partial, "a gap");
        assert_eq!(receiver(&body).add(chunk(0, b"")), BodyState::Partial);
    }

    proptest! {
        #[test]
        fn pieces_in_order_are_the_body(body in prop::collection::vec(any::<u8>(), 1..3_000), cuts in prop::collection::vec(0_usize..3_000, 0..8)) {
            let body = Bytes::from(body);
            let mut receiver = receiver(&body);
            let mut ends: Vec<usize> = cuts.into_iter().filter(|cut| *cut < body.len()).collect();
            ends.sort_unstable();
            let mut state = BodyState::Partial;
            let mut since = 0;
            // Each piece begins where the one before did, so that all but the first overlap.
            for end in ends.into_iter().chain([body.len()]) {
                state = receiver.add(chunk(since as u64, &body[since..end]));
                prop_assert!(receiver.received() <= body.len() as u64);
                since = since.min(end);
            }
            prop_assert_eq!(state, BodyState::Whole(body));
        }
    }
}
