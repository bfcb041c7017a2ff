//! Subscribed streams, each by the keys of one provider.
//!
//! Whoever subscribes to a stream can name it as its own. Two providers that name the same have it apart, so
//! that nobody's word opens, or closes, the stream of another.

use std::collections::BTreeMap;

use roost_wire::{NodeId, StreamId};

use super::playout::Playout;

/// A stream as a provider names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamSource {
    pub stream: StreamId,
    /// The node that publishes it, or says so.
    pub provider: NodeId,
}

/// A stream by the word of a provider; of none while nobody has said whose it is.
pub(crate) type PlayoutId = (StreamId, Option<NodeId>);

/// The playouts of all streams, by stream and provider.
#[derive(Default)]
pub(crate) struct Playouts(BTreeMap<StreamId, BTreeMap<Option<NodeId>, Playout>>);

impl Playouts {
    /// Keeps the packets of a stream until somebody says whose it is.
    pub(crate) fn collect(&mut self, stream: StreamId) {
        self.0.entry(stream).or_default().entry(None).or_insert_with(|| Playout::new(stream));
    }

    /// A stream by the word of a provider, whose keys may open the packets that came before.
    pub(crate) fn get_or_begin(&mut self, source: StreamSource) -> &mut Playout {
        let StreamSource { stream, provider } = source;
        let copies = self.0.entry(stream).or_default();
        let begun = copies.get(&None).map(Playout::unopened);
        copies.entry(Some(provider)).or_insert_with(|| begun.unwrap_or_else(|| Playout::new(stream)))
    }

    pub(crate) fn get_mut(&mut self, source: StreamSource) -> Option<&mut Playout> {
        self.0.get_mut(&source.stream)?.get_mut(&Some(source.provider))
    }

    /// The playouts of a stream, by the word of any provider or of none.
    pub(crate) fn playouts_of(&mut self, stream: StreamId) -> impl Iterator<Item = &mut Playout> {
        self.0.get_mut(&stream).into_iter().flat_map(BTreeMap::values_mut)
    }

    /// Forgets by whose word a stream is not wanted; returns true if by somebody's it is.
    pub(crate) fn keep(&mut self, stream: StreamId, is_wanted: impl Fn(PlayoutId) -> bool) -> bool {
        let Some(copies) = self.0.get_mut(&stream) else { return false };
        copies.retain(|provider, _| is_wanted((stream, *provider)));
        let is_kept = !copies.is_empty();
        if !is_kept {
            self.0.remove(&stream);
        }
        is_kept
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = (StreamId, &Playout)> {
        self.0.iter().flat_map(|(stream, copies)| copies.values().map(|playout| (*stream, playout)))
    }

    pub(crate) fn all_mut(&mut self) -> impl Iterator<Item = &mut Playout> {
        self.0.values_mut().flat_map(BTreeMap::values_mut)
    }
}

#[cfg(test)]
mod tests {
    use bytes::{Bytes, BytesMut};
    use roost_wire::Time;
    use roost_wire::reflection::{Epoch, EpochSecret};

    use super::super::playout::KeyAuthority;
    use super::*;
    use crate::keys::AnnouncedKey;
    use crate::packet::Flags;
    use crate::publication::{EpochLimits, Publisher};

    const STREAM: StreamId = StreamId(9);
    const FIRST: Epoch = Epoch(5);

    fn node(number: u8) -> NodeId {
        NodeId::from_bytes([number; 16])
    }

    /// The stream by the word of a provider.
    fn source(provider: u8) -> StreamSource {
        StreamSource { stream: STREAM, provider: node(provider) }
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
            let key = AnnouncedKey { epoch, secret: secret(2) };
            copies.get_or_begin(source(2)).add_key(now, &key, KeyAuthority::Provider, &mut scratch);
        }
        let key = AnnouncedKey { epoch: FIRST, secret: secret(1) };
        copies.get_or_begin(source(1)).add_key(now, &key, KeyAuthority::Provider, &mut scratch);
        let packet = packet();
        copies.playouts_of(STREAM).for_each(|copy| copy.open(now, &packet, &mut scratch));
        for _ in 0..2 {
            assert_eq!(copies.get_mut(source(1)).unwrap().poll(now), Some(Bytes::from_static(b"live")));
        }
        assert!(copies.playouts_of(STREAM).all(|copy| copy.poll(now).is_none()), "the liar's word opens nothing");
    }

    #[test]
    fn unwanted_stream_is_forgotten() {
        let mut copies = Playouts::default();
        copies.collect(STREAM);
        copies.get_or_begin(source(1));
        assert!(copies.keep(STREAM, |(_, provider)| provider.is_some()));
        assert_eq!(copies.all().count(), 1);
        assert!(!copies.keep(STREAM, |_| false) && copies.is_empty());
    }
}
