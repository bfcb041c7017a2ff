//! One stream that is watched: packets are opened, or wait for what opens them, and are put in order.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use roost_proto::Time;
use roost_proto::peer::Ticket;
use roost_proto::reflection::{Epoch, Secret, StreamId};
use roost_reflector::{OpenError, Sequence, Subscriber};

use super::beginning::Beginning;

/// How long what comes waits for what is missing before it: as long as super nodes keep packets to
/// repair others with.
const PATIENCE: Duration = Duration::from_millis(300);

/// How much of a stream waits for its key, bytes: half a second of 16 Mbit/s.
const MAX_SEALED_BYTES: usize = 1 << 20;

/// How long a stream's packets wait for their key before its provider is asked again: a word of it over
/// a path that loses some, three times.
const KEY_PATIENCE: Duration = Duration::from_secs(3);

/// One stream, of which several requests may be served.
pub(super) struct Watched {
    pub(super) subscriber: Subscriber,
    pub(super) sequence: Sequence,
    /// What came before the key that opens it.
    sealed: VecDeque<Bytes>,
    sealed_bytes: usize,
    /// Since when packets have waited, and none could be opened.
    keyless: Option<Time>,
    /// What who comes later begins with.
    pub(super) beginning: Beginning,
    /// Who watches, and what had been lost and had come twice before.
    pub(super) requests: BTreeMap<Ticket, Missed>,
}

/// What is not counted for a request, or is in addition: both wrap around.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Missed {
    pub(super) lost: u64,
    pub(super) duplicates: u64,
}

impl Watched {
    pub(super) fn new(stream: StreamId) -> Self {
        Self {
            subscriber: Subscriber::new(stream),
            sequence: Sequence::new(PATIENCE),
            sealed: VecDeque::new(),
            sealed_bytes: 0,
            keyless: None,
            beginning: Beginning::default(),
            requests: BTreeMap::new(),
        }
    }

    /// The same stream, of which nothing is opened yet; what waits for a key waits there, too.
    pub(super) fn unopened(&self) -> Self {
        let (sealed, sealed_bytes, keyless) = (self.sealed.clone(), self.sealed_bytes, self.keyless);
        Self { sealed, sealed_bytes, keyless, ..Self::new(self.subscriber.stream()) }
    }

    fn keep_sealed(&mut self, now: Time, packet: &[u8]) {
        self.keyless.get_or_insert(now);
        self.sealed_bytes += packet.len();
        self.sealed.push_back(Bytes::copy_from_slice(packet));
        while self.sealed_bytes > MAX_SEALED_BYTES {
            let Some(oldest) = self.sealed.pop_front() else { return };
            self.sealed_bytes -= oldest.len();
        }
    }

    /// Takes what opens an epoch, and opens what waited for it.
    pub(super) fn key(
        &mut self,
        now: Time,
        (epoch, secret): (Epoch, &Secret),
        is_confirmed: bool,
        scratch: &mut Vec<u8>,
    ) {
        if is_confirmed {
            if self.subscriber.add_epoch(epoch, secret) {
                // Old footage, perhaps: what lies between it and what is live is not lost.
                self.sequence.restart();
                self.beginning = Beginning::default();
            }
        } else {
            self.subscriber.foretell_epoch(epoch, secret);
        }
        (self.sealed_bytes, self.keyless) = (0, None);
        for packet in std::mem::take(&mut self.sealed) {
            self.open(now, &packet, scratch);
        }
    }

    /// Opens a packet, which comes in its turn.
    pub(super) fn open(&mut self, now: Time, packet: &[u8], scratch: &mut Vec<u8>) {
        scratch.clear();
        scratch.extend_from_slice(packet);
        match self.subscriber.open(scratch) {
            Ok(opened) => {
                let payload = Bytes::copy_from_slice(opened.payload);
                let header = opened.header;
                self.keyless = None;
                self.sequence.push(now, header.counter, opened.catch_up, header.flags, payload);
            }
            Err(OpenError::UnknownEpoch) => self.keep_sealed(now, packet),
            // What was foretold may be wrong.
            Err(OpenError::Forged) if !self.subscriber.is_confirmed() => self.keep_sealed(now, packet),
            // Counted by the subscriber.
            Err(_) => {}
        }
    }

    /// Whether what opens it must have been lost; once in a while.
    pub(super) fn has_lost_its_key(&mut self, now: Time) -> bool {
        let has = self.keyless.is_some_and(|since| now.since(since) >= KEY_PATIENCE);
        if has {
            self.keyless = Some(now);
        }
        has
    }
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use roost_reflector::{Flags, Limits, Publisher};

    use super::*;

    #[test]
    fn what_came_under_a_wrongly_foretold_key_is_opened_once_the_right_one_is_told() {
        let (now, stream, epoch) = (Time::ZERO, StreamId(9), Epoch(5));
        let [right, wrong] = [1, 2].map(|byte| Secret::from_bytes([byte; 32]));
        let mut publisher = Publisher::new(now, stream, epoch, &right, Limits::default()).unwrap();
        let mut packet = BytesMut::new();
        publisher.seal(now, 0, Flags::default(), b"live", &mut packet).unwrap();
        let (mut watched, mut scratch) = (Watched::new(stream), Vec::new());
        watched.key(now, (epoch, &wrong), false, &mut scratch);
        watched.open(now, &packet, &mut scratch);
        assert_eq!(watched.sequence.poll(now), None);
        watched.key(now, (epoch, &right), true, &mut scratch);
        assert_eq!(watched.sequence.poll(now).map(|(_, payload)| payload), Some(Bytes::from_static(b"live")));
        // Afterwards nobody's guess opens anything.
        watched.key(now, (Epoch(u32::MAX), &wrong), false, &mut scratch);
        publisher.seal(now, 0, Flags::default(), b"still", &mut packet).unwrap();
        let mut guessed = Publisher::new(now, stream, Epoch(u32::MAX), &wrong, Limits::default()).unwrap();
        let mut forged = BytesMut::new();
        guessed.seal(now, 0, Flags::default(), b"forged", &mut forged).unwrap();
        watched.open(now, &forged, &mut scratch);
        assert_eq!(watched.sequence.poll(now), None);
    }

    /// What lies between old footage and what is live is neither waited for nor lost, and what is
    /// live comes once.
    #[test]
    fn the_providers_word_begins_anew_after_old_footage() {
        let (now, stream) = (Time::ZERO, StreamId(9));
        let [old, live] = [(Epoch(5), Secret::from_bytes([1; 32])), (Epoch(6), Secret::from_bytes([2; 32]))];
        let mut publisher = Publisher::new(now, stream, old.0, &old.1, Limits::default()).unwrap();
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
        let (mut watched, mut scratch, mut came) = (Watched::new(stream), Vec::new(), Vec::new());
        let drain = |watched: &mut Watched, came: &mut Vec<u8>| {
            came.extend(std::iter::from_fn(|| watched.sequence.poll(now)).map(|(_, payload)| payload[0]));
        };
        watched.key(now, (old.0, &old.1), false, &mut scratch);
        // A hub shows what it has kept, then what comes, some of it twice, and what it has kept again.
        for number in [0, 1, 2, 30, 31, 31, 30, 3] {
            watched.open(now, &packets[number], &mut scratch);
            drain(&mut watched, &mut came);
        }
        watched.key(now, (live.0, &live.1), true, &mut scratch);
        for number in [4, 32, 33, 31, 34] {
            watched.open(now, &packets[number], &mut scratch);
            drain(&mut watched, &mut came);
        }
        assert_eq!((came, watched.sequence.skipped()), (vec![0, 1, 2, 3, 30, 31, 32, 33, 34], 0));
    }

    /// A key is missed that never comes, and not because of packets that are no use.
    #[test]
    fn a_key_is_missed_when_nothing_opens_for_a_while() {
        let (stream, epoch) = (StreamId(9), Epoch(5));
        let at = |seconds| Time::ZERO + Duration::from_secs(seconds);
        let secret = Secret::from_bytes([1; 32]);
        let mut publisher = Publisher::new(at(0), stream, epoch, &secret, Limits::default()).unwrap();
        let mut stranger = Publisher::new(at(0), stream, Epoch(8), &secret, Limits::default()).unwrap();
        let seal = |publisher: &mut Publisher| {
            let mut packet = BytesMut::new();
            publisher.seal(at(0), 0, Flags::default(), b"live", &mut packet).unwrap();
            packet
        };
        let (mut watched, mut scratch) = (Watched::new(stream), Vec::new());
        assert!(!watched.has_lost_its_key(at(9)), "nothing has come");
        watched.open(at(10), &seal(&mut publisher), &mut scratch);
        assert!(!watched.has_lost_its_key(at(12)));
        assert!(watched.has_lost_its_key(at(13)));
        assert!(!watched.has_lost_its_key(at(15)), "it has been asked for");
        assert!(watched.has_lost_its_key(at(16)));
        watched.key(at(17), (epoch, &secret), true, &mut scratch);
        assert!(!watched.has_lost_its_key(at(30)));
        watched.open(at(30), &seal(&mut stranger), &mut scratch);
        watched.open(at(32), &seal(&mut publisher), &mut scratch);
        assert!(!watched.has_lost_its_key(at(40)), "the stream itself opens");
    }
}
