//! Streams that come here, by whose word each is opened.
//!
//! Whoever watches a stream can name it as its own. Two providers that name the same have it apart, so
//! that nobody's word opens, or closes, what another one publishes.

use std::collections::BTreeMap;

use roost_proto::NodeId;
use roost_proto::reflection::StreamId;

use super::playout::Playout;

/// A stream by the word of a provider; of none while nobody has said whose it is.
pub(super) type PlayoutId = (StreamId, Option<NodeId>);

/// All of them.
#[derive(Default)]
pub(super) struct Playouts(BTreeMap<StreamId, BTreeMap<Option<NodeId>, Playout>>);

impl Playouts {
    /// Keeps what comes of a stream until somebody says whose it is.
    pub(super) fn collect(&mut self, stream: StreamId) {
        self.0.entry(stream).or_default().entry(None).or_insert_with(|| Playout::new(stream));
    }

    /// A stream by the word of a provider, which may open what has come before it.
    pub(super) fn of_word(&mut self, stream: StreamId, provider: NodeId) -> &mut Playout {
        let copies = self.0.entry(stream).or_default();
        let begun = copies.get(&None).map(Playout::unopened);
        copies.entry(Some(provider)).or_insert_with(|| begun.unwrap_or_else(|| Playout::new(stream)))
    }

    pub(super) fn get_mut(&mut self, (stream, provider): PlayoutId) -> Option<&mut Playout> {
        self.0.get_mut(&stream)?.get_mut(&provider)
    }

    /// A stream by everybody's word.
    pub(super) fn playouts_of(&mut self, stream: StreamId) -> impl Iterator<Item = &mut Playout> {
        self.0.get_mut(&stream).into_iter().flat_map(BTreeMap::values_mut)
    }

    /// Forgets by whose word a stream is not wanted; answers whether by somebody's it is.
    pub(super) fn keep(&mut self, stream: StreamId, is_wanted: impl Fn(PlayoutId) -> bool) -> bool {
        let Some(copies) = self.0.get_mut(&stream) else { return false };
        copies.retain(|provider, _| is_wanted((stream, *provider)));
        let is_kept = !copies.is_empty();
        if !is_kept {
            self.0.remove(&stream);
        }
        is_kept
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn all(&self) -> impl Iterator<Item = (StreamId, &Playout)> {
        self.0.iter().flat_map(|(stream, copies)| copies.values().map(|watched| (*stream, watched)))
    }

    pub(super) fn all_mut(&mut self) -> impl Iterator<Item = &mut Playout> {
        self.0.values_mut().flat_map(BTreeMap::values_mut)
    }
}

#[cfg(test)]
mod tests {
    use bytes::{Bytes, BytesMut};
    use roost_proto::Time;
    use roost_proto::reflection::{Epoch, EpochSecret};
    use roost_reflection::{EpochLimits, Flags, Publisher};

    use super::*;

    const STREAM: StreamId = StreamId(9);
    const FIRST: Epoch = Epoch(5);

    fn node(number: u8) -> NodeId {
        NodeId::from_bytes([number; 16])
    }

    fn secret(byte: u8) -> EpochSecret {
        EpochSecret::from_bytes([byte; 32])
    }

    #[test]
    fn foreign_claim_cannot_open_or_block() {
        let (now, mut scratch, mut copies) = (Time::ZERO, Vec::new(), Playouts::default());
        let mut publisher = Publisher::new(now, STREAM, FIRST, &secret(1), EpochLimits::default()).unwrap();
        let mut packet = || {
            let mut packet = BytesMut::new();
            publisher.seal(now, 0, Flags::default(), b"live", &mut packet).unwrap();
            packet
        };
        copies.collect(STREAM);
        copies.playouts_of(STREAM).for_each(|copy| copy.open(now, &packet(), &mut scratch));
        // The liar is the first to say a word, and says it again and again.
        for epoch in [FIRST, Epoch(u32::MAX - 1), Epoch(u32::MAX)] {
            copies.of_word(STREAM, node(2)).key(now, (epoch, &secret(2)), true, &mut scratch);
        }
        copies.of_word(STREAM, node(1)).key(now, (FIRST, &secret(1)), true, &mut scratch);
        let packet = packet();
        copies.playouts_of(STREAM).for_each(|copy| copy.open(now, &packet, &mut scratch));
        let mut got = |provider| copies.get_mut((STREAM, provider)).unwrap().poll(now);
        for _ in 0..2 {
            assert_eq!(got(Some(node(1))), Some(Bytes::from_static(b"live")));
        }
        assert_eq!((got(Some(node(2))), got(None)), (None, None));
    }

    #[test]
    fn unwanted_stream_is_forgotten() {
        let mut copies = Playouts::default();
        copies.collect(STREAM);
        copies.of_word(STREAM, node(1));
        assert!(copies.keep(STREAM, |(_, provider)| provider.is_some()));
        assert_eq!(copies.all().count(), 1);
        assert!(!copies.keep(STREAM, |_| false) && copies.is_empty());
    }
}
