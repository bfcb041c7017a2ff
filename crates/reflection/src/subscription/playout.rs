//! A subscribed stream: packets are opened, or wait for the key that opens them, and are put in order.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use roost_core::node::Ticket;
use roost_wire::{Epoch, StreamId, Time};

use super::gop_cache::GopCache;
use super::reorder::ReorderBuffer;
use super::subscriber::{OpenError, Subscriber};
use crate::keys::AnnouncedKey;
use crate::packet::Header;

/// The time for which packets wait for a missing one before them: as long as super nodes keep packets to
/// repair others with.
const PATIENCE: Duration = Duration::from_millis(300);

/// The most of a stream that waits for its key, bytes: half a second of 16 Mbit/s.
const MAX_SEALED_BYTES: usize = 1 << 20;

/// The time for which a stream's packets come in vain before its provider is asked again: its answer over a
/// path that loses some, three times.
const VAIN_PATIENCE: Duration = Duration::from_secs(3);

/// The authority that says that a key is a stream's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyAuthority {
    /// A hub, of the provider: it may be wrong or old.
    Hub,
    Provider,
}

/// A stream by the keys of one provider, for any number of requests.
pub(crate) struct Playout {
    subscriber: Subscriber,
    sequence: ReorderBuffer,
    /// Packets that came before the key of their epoch.
    sealed: VecDeque<(Epoch, Bytes)>,
    sealed_bytes: usize,
    /// The time since which packets have come, and none was of use.
    in_vain: Option<Time>,
    /// The beginning for a request that comes later.
    beginning: GopCache,
    /// An index: the requests whose subscription has this stream.
    pub(crate) tickets: BTreeSet<Ticket>,
}

/// Packets that a stream lacks here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PlayoutLoss {
    pub(crate) lost: u64,
    pub(crate) duplicates: u64,
}

impl Playout {
    pub(crate) fn new(stream: StreamId) -> Self {
        Self {
            subscriber: Subscriber::new(stream),
            sequence: ReorderBuffer::new(PATIENCE),
            sealed: VecDeque::new(),
            sealed_bytes: 0,
            in_vain: None,
            beginning: GopCache::default(),
            tickets: BTreeSet::new(),
        }
    }

    /// A copy with nothing opened yet; packets that wait for a key wait there, too.
    pub(crate) fn unopened(&self) -> Self {
        let (sealed, sealed_bytes, in_vain) = (self.sealed.clone(), self.sealed_bytes, self.in_vain);
        Self { sealed, sealed_bytes, in_vain, ..Self::new(self.subscriber.stream()) }
    }

    fn keep_sealed(&mut self, packet: &[u8]) {
        let Ok((_, Header { epoch, .. })) = Header::decode(packet) else { return };
        self.sealed_bytes += packet.len();
        self.sealed.push_back((epoch, Bytes::copy_from_slice(packet)));
        while self.sealed_bytes > MAX_SEALED_BYTES {
            let Some((_, oldest)) = self.sealed.pop_front() else { return };
            self.sealed_bytes -= oldest.len();
        }
    }

    /// Takes the key of an epoch, and opens the packets that waited for it. Those of others go on waiting.
    pub(crate) fn add_key(&mut self, now: Time, key: &AnnouncedKey, authority: KeyAuthority, scratch: &mut Vec<u8>) {
        match authority {
            KeyAuthority::Provider => {
                if self.subscriber.add_epoch(key.epoch, &key.secret) {
                    // Old footage, perhaps: what lies between it and what is live is not lost.
                    self.sequence.restart();
                    self.beginning = GopCache::default();
                }
            }
            KeyAuthority::Hub => self.subscriber.add_provisional_epoch(key.epoch, &key.secret),
        }
        let (opens, waits): (VecDeque<_>, _) = self.sealed.drain(..).partition(|(sealed, _)| *sealed == key.epoch);
        self.sealed = waits;
        self.sealed_bytes -= opens.iter().map(|(_, packet)| packet.len()).sum::<usize>();
        for (_, packet) in opens {
            self.open(now, &packet, scratch);
        }
    }

    /// Opens a packet, which comes in its turn.
    pub(crate) fn open(&mut self, now: Time, packet: &[u8], scratch: &mut Vec<u8>) {
        scratch.clear();
        scratch.extend_from_slice(packet);
        match self.subscriber.open(scratch) {
            Ok(opened) => {
                let payload = Bytes::copy_from_slice(opened.payload);
                self.sequence.push(now, &opened.header, opened.catch_up, payload);
            }
            Err(OpenError::UnknownEpoch) => self.keep_sealed(packet),
            Err(OpenError::Forged) if !self.subscriber.is_confirmed() => {
                // The hub's key may be wrong.
                self.keep_sealed(packet);
            }
            Err(OpenError::Forged | OpenError::Behind) => {}
            // Counted by the subscriber; no reason to expect anything.
            Err(_) => return,
        }
        // A packet of a cache may be of long ago, and need not open.
        if Header::decode(packet).is_ok_and(|(hop, _)| !hop.catch_up) {
            self.in_vain.get_or_insert(now);
        }
    }

    /// The next payload, if it is there or was waited for long enough.
    pub(crate) fn poll(&mut self, now: Time) -> Option<Bytes> {
        let (flags, payload) = self.sequence.poll(now)?;
        self.in_vain = None;
        self.beginning.record_packet(flags, &payload);
        Some(payload)
    }

    /// The time at which a packet waits no longer.
    pub(crate) fn poll_deadline(&self) -> Option<Time> {
        self.sequence.poll_deadline()
    }

    /// Packets so far that were given up, or came twice.
    pub(crate) fn loss(&self) -> PlayoutLoss {
        PlayoutLoss { lost: self.sequence.skipped(), duplicates: self.subscriber.counts().duplicate }
    }

    /// The beginning for a request that comes now.
    pub(crate) fn beginning(&self) -> &[Bytes] {
        self.beginning.payloads()
    }

    /// True if packets have come for a while of which none is of use: their key was lost or is wrong, or
    /// others came before them that were not their publisher's. Then it is asked for anew.
    pub(crate) fn is_undecodable(&mut self, now: Time) -> bool {
        self.in_vain.take_if(|since| now.since(*since) >= VAIN_PATIENCE).is_some()
    }
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use roost_wire::reflection::EpochSecret;

    use super::*;
    use crate::packet::{Flags, Hop};
    use crate::publication::{EpochLimits, Publisher};

    fn key(epoch: Epoch, secret: &EpochSecret) -> AnnouncedKey {
        AnnouncedKey { epoch, secret: secret.clone() }
    }

    #[test]
    fn confirmed_key_opens_buffered_packets() {
        let (now, stream, epoch) = (Time::ZERO, StreamId(9), Epoch(5));
        let [right, wrong] = [1, 2].map(|byte| EpochSecret::from_bytes([byte; 32]));
        let mut publisher = Publisher::new(now, stream, epoch, &right, EpochLimits::default()).unwrap();
        let mut packet = BytesMut::new();
        publisher.seal(now, 0, Flags::default(), b"live", &mut packet).unwrap();
        let (mut watched, mut scratch) = (Playout::new(stream), Vec::new());
        watched.add_key(now, &key(epoch, &wrong), KeyAuthority::Hub, &mut scratch);
        watched.open(now, &packet, &mut scratch);
        assert_eq!(watched.poll(now), None);
        watched.add_key(now, &key(epoch, &right), KeyAuthority::Provider, &mut scratch);
        assert_eq!(watched.poll(now), Some(Bytes::from_static(b"live")));
        // Afterwards nobody's guess opens anything.
        watched.add_key(now, &key(Epoch(u32::MAX), &wrong), KeyAuthority::Hub, &mut scratch);
        publisher.seal(now, 0, Flags::default(), b"still", &mut packet).unwrap();
        let mut guessed = Publisher::new(now, stream, Epoch(u32::MAX), &wrong, EpochLimits::default()).unwrap();
        let mut forged = BytesMut::new();
        guessed.seal(now, 0, Flags::default(), b"forged", &mut forged).unwrap();
        watched.open(now, &forged, &mut scratch);
        assert_eq!(watched.poll(now), None);
    }

    /// The gap between old footage and live packets is neither waited for nor lost, and live packets come once.
    #[test]
    fn confirmed_key_skips_old_packets() {
        let (now, stream) = (Time::ZERO, StreamId(9));
        let [old, live] = [(Epoch(5), EpochSecret::from_bytes([1; 32])), (Epoch(6), EpochSecret::from_bytes([2; 32]))];
        let mut publisher = Publisher::new(now, stream, old.0, &old.1, EpochLimits::default()).unwrap();
        let mut packets = Vec::new();
        for number in 0..40_u8 {
            if number == 19 {
                publisher.announce(now, &live.1).unwrap();
            }
            let mut packet = BytesMut::new();
            let sealed = now + Duration::from_secs(if number < 20 { 0 } else { 600 });
            publisher.seal(sealed, 0, Flags::default(), &[number], &mut packet).unwrap();
            packets.push(packet);
        }
        let (mut watched, mut scratch, mut came) = (Playout::new(stream), Vec::new(), Vec::new());
        let drain = |watched: &mut Playout, came: &mut Vec<u8>| {
            came.extend(std::iter::from_fn(|| watched.poll(now)).map(|payload| payload[0]));
        };
        watched.add_key(now, &key(old.0, &old.1), KeyAuthority::Hub, &mut scratch);
        // A hub shows what it has kept, then what comes, some of it twice, and what it has kept again.
        for number in [0, 1, 2, 30, 31, 31, 30, 3] {
            watched.open(now, &packets[number], &mut scratch);
            drain(&mut watched, &mut came);
        }
        watched.add_key(now, &key(live.0, &live.1), KeyAuthority::Provider, &mut scratch);
        for number in [4, 32, 33, 31, 34] {
            watched.open(now, &packets[number], &mut scratch);
            drain(&mut watched, &mut came);
        }
        assert_eq!((came, watched.loss().lost), (vec![0, 1, 2, 3, 30, 31, 32, 33, 34], 0));
    }

    const STREAM: StreamId = StreamId(9);

    fn at(seconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(seconds)
    }

    fn secret(byte: u8) -> EpochSecret {
        EpochSecret::from_bytes([byte; 32])
    }

    /// Seals with this epoch's key.
    fn publisher(epoch: u32, byte: u8) -> Publisher {
        Publisher::new(at(0), STREAM, Epoch(epoch), &secret(byte), EpochLimits::default()).unwrap()
    }

    fn seal(publisher: &mut Publisher, hop: Hop) -> BytesMut {
        let mut packet = BytesMut::new();
        publisher.seal(at(0), 0, Flags::default(), b"live", &mut packet).unwrap();
        packet[0] = hop.byte();
        packet
    }

    /// Takes a packet, and hands over what may be; answers how much.
    fn open_and_poll(watched: &mut Playout, now: Time, packet: &[u8]) -> usize {
        watched.open(now, packet, &mut Vec::new());
        std::iter::from_fn(|| watched.poll(now)).count()
    }

    #[test]
    fn stream_undecodable_when_nothing_opens() {
        let (mut right, mut stranger) = (publisher(5, 1), publisher(8, 1));
        let mut watched = Playout::new(STREAM);
        assert!(!watched.is_undecodable(at(9)), "nothing has come");
        assert_eq!(open_and_poll(&mut watched, at(10), &seal(&mut right, Hop::default())), 0);
        assert!(!watched.is_undecodable(at(12)));
        assert!(watched.is_undecodable(at(13)));
        assert!(!watched.is_undecodable(at(20)), "it has been asked for, and nothing has come since");
        assert_eq!(open_and_poll(&mut watched, at(20), &seal(&mut right, Hop::default())), 0);
        assert!(watched.is_undecodable(at(23)));
        watched.add_key(at(24), &key(Epoch(5), &secret(1)), KeyAuthority::Provider, &mut Vec::new());
        assert_eq!(std::iter::from_fn(|| watched.poll(at(24))).count(), 2);
        assert!(!watched.is_undecodable(at(30)));
        assert_eq!(open_and_poll(&mut watched, at(30), &seal(&mut stranger, Hop::default())), 0);
        assert_eq!(open_and_poll(&mut watched, at(32), &seal(&mut right, Hop::default())), 1);
        assert!(!watched.is_undecodable(at(40)), "the stream itself opens");
    }

    #[test]
    fn duplicates_and_forgeries_count_as_undecodable() {
        let mut watched = Playout::new(STREAM);
        watched.add_key(at(0), &key(Epoch(5), &secret(1)), KeyAuthority::Provider, &mut Vec::new());
        let [mut right, mut wrong] = [1, 2].map(|byte| publisher(5, byte));
        let live = seal(&mut right, Hop::default());
        assert_eq!(open_and_poll(&mut watched, at(0), &live), 1);
        let cached = Hop { catch_up: true, ..Hop::default() };
        assert_eq!(open_and_poll(&mut watched, at(1), &live), 0);
        assert_eq!(open_and_poll(&mut watched, at(1), &seal(&mut wrong, cached)), 0);
        assert!(!watched.is_undecodable(at(9)), "what comes twice or from a cache is nothing new");
        assert_eq!(open_and_poll(&mut watched, at(10), &seal(&mut wrong, Hop::default())), 0);
        assert!(watched.is_undecodable(at(13)));
        // A packet of somebody with the key jumps ahead.
        let mut ahead = publisher(5, 1);
        let far = (0..5000).map(|_| seal(&mut ahead, Hop::default())).last().unwrap();
        assert_eq!(open_and_poll(&mut watched, at(20), &far), 0);
        assert_eq!(open_and_poll(&mut watched, at(21), &seal(&mut right, Hop::default())), 1);
        assert_eq!(open_and_poll(&mut watched, at(22), &seal(&mut right, Hop::default())), 0);
        assert!(watched.is_undecodable(at(25)));
    }

    /// However many keys are told: a packet is tried with what may open it, and is not kept beyond that.
    #[test]
    fn buffered_packet_tries_only_its_key() {
        let mut watched = Playout::new(STREAM);
        let sealed: Vec<_> = [6, 7, 8].map(|epoch| seal(&mut publisher(epoch, 1), Hop::default())).into();
        sealed.iter().for_each(|packet| assert_eq!(open_and_poll(&mut watched, at(0), packet), 0));
        for epoch in [3, 4, 5, 6, 8] {
            watched.add_key(at(0), &key(Epoch(epoch), &secret(2)), KeyAuthority::Provider, &mut Vec::new());
        }
        let counts = watched.subscriber.counts();
        assert_eq!((counts.unknown_epoch, counts.forged), (3, 2));
        assert_eq!((watched.sealed.len(), watched.sealed_bytes), (1, sealed[1].len()));
    }
}
