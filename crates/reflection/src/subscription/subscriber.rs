//! The subscriber's side: opens packets, each once, also while one epoch gives
//! way to the next.

use roost_wire::EpochSecret;

use crate::keys::EpochKey;
use crate::packet::{Epoch, Header, Malformed, StreamId};
use crate::replay::{CounterState, OPENED, ReplayWindow};

/// The most epochs whose keys are kept: the one before, of which packets may be on their way, the present one, and
/// the one that is announced.
const EPOCHS: usize = 3;

/// A packet's payload, and what came with it.
#[derive(Debug, PartialEq, Eq)]
pub struct OpenedPacket<'a> {
    pub header: Header,
    /// True if it came from a cache.
    pub catch_up: bool,
    pub payload: &'a [u8],
}

/// Why a datagram is not taken. Each is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    #[error(transparent)]
    Malformed(#[from] Malformed),
    #[error("a packet of another stream")]
    OtherStream,
    /// No key of its epoch has come yet.
    #[error("a packet of an epoch without a key")]
    UnknownEpoch,
    /// The packet has come before: a network's copy, a second way, or somebody who replays it.
    #[error("a packet that was taken already")]
    Duplicate,
    /// The packet is too late to tell if it has come, or of an epoch whose key is kept no more.
    #[error("a packet far behind")]
    Behind,
    /// The packet was not sealed with the stream's key, or was changed on its way.
    #[error("a packet that does not open")]
    Forged,
}

/// Counts of datagrams by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenCounts {
    pub opened: u64,
    /// Datagrams that are no packets of the stream.
    pub foreign: u64,
    /// Packets of an epoch without a key.
    pub unknown_epoch: u64,
    pub duplicate: u64,
    /// Behind the window of 1024 packets, or the epochs that are kept.
    pub behind: u64,
    /// Not sealed with the key, or changed.
    pub forged: u64,
}

/// An epoch that can be opened. Each has a window of its own: an epoch's first
/// packets must not push the last of the one before out of it.
struct Opener {
    epoch: Epoch,
    key: EpochKey,
    /// The secret, until the stream's publisher has confirmed it.
    unconfirmed: Option<EpochSecret>,
    window: ReplayWindow<OPENED>,
}

pub struct Subscriber {
    stream: StreamId,
    /// At most [`EPOCHS`], in the order of their epochs.
    openers: Vec<Opener>,
    counts: OpenCounts,
}

impl Subscriber {
    /// Subscribes to a stream; it opens nothing before its first epoch.
    pub fn new(stream: StreamId) -> Self {
        Self { stream, openers: Vec::with_capacity(EPOCHS + 1), counts: OpenCounts::default() }
    }

    pub fn stream(&self) -> StreamId {
        self.stream
    }

    /// The counts of all datagrams so far.
    pub fn counts(&self) -> OpenCounts {
        self.counts
    }

    /// Takes an epoch's secret, which the publisher has told. The three latest epochs are kept: an earlier one
    /// changes nothing, and one that is known keeps its key, so that its packets are still taken only
    /// once. What else was foretold is forgotten; answers whether something was.
    pub fn add_epoch(&mut self, epoch: Epoch, secret: &EpochSecret) -> bool {
        let before = self.openers.len();
        self.openers.retain(|opener| match &opener.unconfirmed {
            Some(foretold) => opener.epoch == epoch && foretold == secret,
            None => true,
        });
        let is_forgotten = self.openers.len() < before;
        self.openers.iter_mut().for_each(|opener| opener.unconfirmed = None);
        self.insert(epoch, secret, None);
        is_forgotten
    }

    /// True if the publisher has told an epoch's secret.
    pub fn is_confirmed(&self) -> bool {
        self.openers.iter().any(|opener| opener.unconfirmed.is_none())
    }

    /// Takes what is said to be an epoch's secret, before the publisher has told any; afterwards it
    /// changes nothing.
    pub fn add_provisional_epoch(&mut self, epoch: Epoch, secret: &EpochSecret) {
        if !self.is_confirmed() {
            self.insert(epoch, secret, Some(secret.clone()));
        }
    }

    fn insert(&mut self, epoch: Epoch, secret: &EpochSecret, unconfirmed: Option<EpochSecret>) {
        let place = self.openers.partition_point(|opener| opener.epoch < epoch);
        if self.openers.get(place).is_some_and(|opener| opener.epoch == epoch) {
            return;
        }
        let Some(key) = EpochKey::derive(secret, self.stream, epoch) else { return };
        self.openers.insert(place, Opener { epoch, key, unconfirmed, window: ReplayWindow::default() });
        if self.openers.len() > EPOCHS {
            self.openers.remove(0);
        }
    }

    /// Opens a datagram in its place.
    ///
    /// # Errors
    /// See [`OpenError`]; the datagram's bytes are of no use then.
    pub fn open<'a>(&mut self, datagram: &'a mut [u8]) -> Result<OpenedPacket<'a>, OpenError> {
        let opened = self.try_open(datagram);
        *match &opened {
            Ok(_) => &mut self.counts.opened,
            Err(OpenError::Malformed(_) | OpenError::OtherStream) => &mut self.counts.foreign,
            Err(OpenError::UnknownEpoch) => &mut self.counts.unknown_epoch,
            Err(OpenError::Duplicate) => &mut self.counts.duplicate,
            Err(OpenError::Behind) => &mut self.counts.behind,
            Err(OpenError::Forged) => &mut self.counts.forged,
        } += 1;
        opened
    }

    fn try_open<'a>(&mut self, datagram: &'a mut [u8]) -> Result<OpenedPacket<'a>, OpenError> {
        let (hop, header) = Header::decode(datagram)?;
        if header.stream != self.stream {
            return Err(OpenError::OtherStream);
        }
        let is_past = self.openers.len() == EPOCHS && header.epoch < self.openers[0].epoch;
        let opener = self.openers.iter_mut().find(|opener| opener.epoch == header.epoch);
        let opener = opener.ok_or(if is_past { OpenError::Behind } else { OpenError::UnknownEpoch })?;
        match opener.window.look(header.counter) {
            CounterState::New => {}
            CounterState::Taken => return Err(OpenError::Duplicate),
            CounterState::Behind => return Err(OpenError::Behind),
        }
        let payload = opener.key.open(header.counter, datagram).ok_or(OpenError::Forged)?;
        // Only now: a forged packet must not push genuine ones out of the window.
        opener.window.record_counter(header.counter);
        Ok(OpenedPacket { header, catch_up: hop.catch_up, payload })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{Flags, Hop};
    use crate::{EpochLimits, Publisher};
    use bytes::BytesMut;
    use proptest::prelude::*;
    use roost_wire::Time;
    use std::time::Duration;

    const STREAM: StreamId = StreamId(9);
    const FIRST: Epoch = Epoch(50);

    fn secret(epoch: u32) -> EpochSecret {
        EpochSecret::from_bytes([epoch as u8; 32])
    }

    /// A second apart; a new epoch is announced with every `per_epoch`th packet and begins with the next.
    fn packets(count: usize, per_epoch: usize) -> Vec<Vec<u8>> {
        let mut now = Time::ZERO;
        let mut publisher = Publisher::new(now, STREAM, FIRST, &secret(FIRST.0), EpochLimits::default()).unwrap();
        let mut packets = Vec::new();
        for number in 0..count {
            if number % per_epoch == per_epoch - 1 {
                publisher.announce(now, &secret(publisher.epoch().0 + 1)).unwrap();
            }
            let mut out = BytesMut::new();
            publisher.seal(now, number as u16, Flags::default(), &number.to_be_bytes(), &mut out).unwrap();
            packets.push(out.to_vec());
            now = now + Duration::from_secs(1);
        }
        packets
    }

    fn subscriber(epochs: std::ops::RangeInclusive<u32>) -> Subscriber {
        let mut subscriber = Subscriber::new(STREAM);
        for epoch in epochs {
            subscriber.add_epoch(Epoch(epoch), &secret(epoch));
        }
        subscriber
    }

    #[test]
    fn changed_hop_byte_still_opens() {
        let mut subscriber = subscriber(50..=50);
        let mut packet = packets(1, 100).remove(0);
        packet[0] = Hop { hops: 2, catch_up: true }.byte();
        let opened = subscriber.open(&mut packet).unwrap();
        assert_eq!((opened.payload, opened.catch_up), (&0_usize.to_be_bytes()[..], true));
    }

    #[test]
    fn only_known_stream_and_epochs_open() {
        let packet = packets(1, 100).remove(0);
        assert_eq!(subscriber(51..=51).open(&mut packet.clone()), Err(OpenError::UnknownEpoch));
        assert_eq!(subscriber(51..=53).open(&mut packet.clone()), Err(OpenError::Behind));
        let mut other = Subscriber::new(StreamId(10));
        other.add_epoch(FIRST, &secret(FIRST.0));
        assert_eq!(other.open(&mut packet.clone()), Err(OpenError::OtherStream));
        let mut wrong = Subscriber::new(STREAM);
        wrong.add_epoch(FIRST, &secret(1));
        assert_eq!(wrong.open(&mut packet.clone()), Err(OpenError::Forged));
        assert_eq!((wrong.counts().forged, wrong.counts().opened), (1, 0));
    }

    #[test]
    fn repeated_epoch_keeps_replay_window() {
        let mut subscriber = subscriber(50..=50);
        let packet = packets(1, 100).remove(0);
        subscriber.open(&mut packet.clone()).unwrap();
        subscriber.add_epoch(FIRST, &secret(FIRST.0));
        assert_eq!(subscriber.open(&mut packet.clone()), Err(OpenError::Duplicate));
    }

    #[test]
    fn wrong_provisional_key_is_replaced() {
        let packet = packets(1, 100).remove(0);
        let mut subscriber = Subscriber::new(STREAM);
        for epoch in [FIRST, Epoch(u32::MAX), Epoch(u32::MAX - 1)] {
            subscriber.add_provisional_epoch(epoch, &secret(1));
        }
        subscriber.add_epoch(FIRST, &secret(FIRST.0));
        assert!(subscriber.open(&mut packet.clone()).is_ok());
        assert_eq!(subscriber.openers.len(), 1, "nothing else takes up room");
        let mut other = Subscriber::new(STREAM);
        other.add_provisional_epoch(FIRST, &secret(1));
        assert_eq!(other.open(&mut packet.clone()), Err(OpenError::Forged));
        other.add_epoch(FIRST, &secret(FIRST.0));
        assert!(other.open(&mut packet.clone()).is_ok());
    }

    #[test]
    fn confirmed_provisional_key_keeps_window() {
        let packet = packets(1, 100).remove(0);
        let mut subscriber = Subscriber::new(STREAM);
        subscriber.add_provisional_epoch(FIRST, &secret(FIRST.0));
        assert!(subscriber.open(&mut packet.clone()).is_ok());
        subscriber.add_epoch(FIRST, &secret(FIRST.0));
        assert_eq!(subscriber.open(&mut packet.clone()), Err(OpenError::Duplicate));
    }

    #[test]
    fn confirmed_stream_ignores_provisional_keys() {
        let mut subscriber = subscriber(50..=50);
        subscriber.add_provisional_epoch(Epoch(u32::MAX), &secret(1));
        subscriber.add_provisional_epoch(FIRST, &secret(1));
        assert_eq!(subscriber.openers.len(), 1);
        assert!(subscriber.open(&mut packets(1, 100).remove(0)).is_ok());
    }

    #[test]
    fn forged_packet_leaves_window_alone() {
        let mut subscriber = subscriber(50..=50);
        let packet = packets(1, 100).remove(0);
        let mut forged = packet.clone();
        forged[16..24].copy_from_slice(&u64::MAX.to_be_bytes());
        assert_eq!(subscriber.open(&mut forged), Err(OpenError::Forged));
        assert!(subscriber.open(&mut packet.clone()).is_ok());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Packets come in any order and several times, while epochs change.
        #[test]
        fn each_packet_is_opened_once(
            order in proptest::collection::vec(0..200_usize, 0..600),
            per_epoch in 20..200_usize,
        ) {
            let packets = packets(200, per_epoch);
            let mut subscriber = subscriber(50..=50);
            let mut opened = std::collections::BTreeSet::new();
            for number in order {
                // Announced before its first packet, as the publisher does.
                let epoch = Header::decode(&packets[number]).unwrap().1.epoch.0;
                subscriber.add_epoch(Epoch(epoch), &secret(epoch));
                let mut datagram = packets[number].clone();
                match subscriber.open(&mut datagram) {
                    Ok(one) => {
                        prop_assert_eq!(one.payload, &number.to_be_bytes()[..]);
                        prop_assert!(opened.insert(number), "{} was opened twice", number);
                    }
                    Err(OpenError::Duplicate) => prop_assert!(opened.contains(&number)),
                    // Two epochs later.
                    Err(error) => prop_assert_eq!(error, OpenError::Behind),
                }
            }
            prop_assert_eq!(subscriber.counts().opened, opened.len() as u64);
        }

        /// Reordering by less than an epoch loses nothing.
        #[test]
        fn epoch_change_loses_nothing(seed in any::<[u8; 120]>()) {
            let packets = packets(120, 30);
            let mut order: Vec<usize> = (0..120).collect();
            order.sort_by_key(|number| number + usize::from(seed[*number]) % 25);
            let mut subscriber = subscriber(50..=50);
            for number in order {
                let epoch = Header::decode(&packets[number]).unwrap().1.epoch.0;
                subscriber.add_epoch(Epoch(epoch), &secret(epoch));
                prop_assert!(subscriber.open(&mut packets[number].clone()).is_ok());
            }
        }

        #[test]
        fn a_changed_bit_is_noticed(bit in 8..(48 * 8_usize)) {
            let mut packet = packets(1, 100).remove(0);
            prop_assert_eq!(packet.len(), 48);
            packet[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(subscriber(50..=50).open(&mut packet).is_err());
        }
    }
}
