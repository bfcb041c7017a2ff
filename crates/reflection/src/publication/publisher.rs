//! The publisher's side: numbers packets, seals each once, and says when the
//! next epoch is due.
//!
//! A new epoch begins at every start, when somebody who had the key has left,
//! after a time, and before a key has sealed too much. Its secret is
//! [announced](Publisher::announce) some time ahead, so that subscribers have
//! it when the first packet comes; until then the epoch before it goes on.
//!
//! Counters go on across epochs. A publisher that starts again has a later
//! first epoch, which is the upper half of its first counter: so counters grow
//! across restarts as well, and a greater one always is a later packet.

use std::time::Duration;

use bytes::{BufMut, BytesMut};
use roost_wire::{EpochSecret, Time};

use crate::keys::EpochKey;
use crate::packet::{Epoch, Flags, HEADER_BYTES, Header, Hop, MAX_PAYLOAD_BYTES, OVERHEAD_BYTES, StreamId, TAG_BYTES};

#[derive(Clone, Copy, Debug)]
pub struct EpochLimits {
    /// The time that an epoch is used; by default 10 minutes. A shorter time makes the leak of a key matter
    /// less, and costs each subscriber a message per epoch.
    pub age: Duration,
    /// The time from the announcement of an epoch to its first packet; by default a second, which is more than
    /// a message takes over a satellite, twice. Epochs are as far apart at least.
    pub lead: Duration,
    /// The most packets that are sealed with one key; by default 2^28, where RFC 9001 (appendix
    /// B.1) has the confidentiality of AES-GCM end for packets of up to 2 KiB.
    pub packets: u64,
}

impl Default for EpochLimits {
    fn default() -> Self {
        Self { age: Duration::from_secs(600), lead: Duration::from_secs(1), packets: 1 << 28 }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RekeyReason {
    /// Somebody who has the present key, or the one announced, may no longer read.
    Left,
    /// The present epoch has reached [`EpochLimits::age`], less the lead.
    Age,
    /// The present key has sealed almost as much as it may.
    Spent,
}

/// Why a packet was not sealed. Nothing has changed then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SealError {
    /// The payload is longer than any packet takes.
    #[error("a payload of {0} bytes is too long: a packet takes {MAX_PAYLOAD_BYTES}; send smaller ones")]
    TooLong(usize),
    /// The key has sealed all that it may, and there is no next one.
    #[error("the epoch's key has sealed all that it may: announce the next epoch")]
    Spent,
    /// The library refused the key or the packet.
    #[error("the system's cryptography failed")]
    Refused,
}

/// An epoch that has been announced.
struct Next {
    epoch: Epoch,
    key: EpochKey,
    begins: Time,
}

/// Numbers and seals the packets of one stream.
pub struct Publisher {
    stream: StreamId,
    limits: EpochLimits,
    epoch: Epoch,
    key: EpochKey,
    began: Time,
    sealed: u64,
    counter: u64,
    next: Option<Next>,
    left: bool,
}

impl Publisher {
    /// Begins a stream with an epoch that is greater than all that this stream has had: seconds
    /// since 1970 serve, as epochs are at least [`EpochLimits::lead`] apart.
    ///
    /// # Errors
    /// [`SealError::Refused`].
    pub fn new(
        now: Time,
        stream: StreamId,
        first: Epoch,
        secret: &EpochSecret,
        limits: EpochLimits,
    ) -> Result<Self, SealError> {
        let key = EpochKey::derive(secret, stream, first).ok_or(SealError::Refused)?;
        let counter = u64::from(first.0) << 32;
        Ok(Self { stream, limits, epoch: first, key, began: now, sealed: 0, counter, next: None, left: false })
    }

    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    pub fn counter(&self) -> u64 {
        self.counter
    }

    /// Notes that somebody who had the key may read no further.
    pub fn record_departure(&mut self) {
        self.left = true;
    }

    /// Why the next epoch is to be [announced](Self::announce) now, if it is.
    pub fn rekey_reason(&self, now: Time) -> Option<RekeyReason> {
        match () {
            () if self.next.is_some() => None,
            () if self.left => Some(RekeyReason::Left),
            // So that there is time for the announcement.
            () if self.sealed >= self.limits.packets - self.limits.packets / 8 => Some(RekeyReason::Spent),
            () => (now >= self.began + self.age_until_announced()).then_some(RekeyReason::Age),
        }
    }

    /// The time of the next epoch or of its announcement, unless somebody leaves earlier.
    pub fn poll_deadline(&self) -> (Time, &'static str) {
        match &self.next {
            Some(next) => (next.begins, "the next epoch begins"),
            None => (self.began + self.age_until_announced(), "the epoch is old"),
        }
    }

    /// The time of [`poll_deadline`](Self::poll_deadline) has come, whether or not there is anything
    /// to seal.
    pub fn handle_timeout(&mut self, now: Time) {
        self.change_epoch(now);
    }

    fn age_until_announced(&self) -> Duration {
        self.limits.age.saturating_sub(self.limits.lead)
    }

    /// Prepares the next epoch, whose secret goes to everybody admitted, now; it begins
    /// [`EpochLimits::lead`] later. One that was announced and has not begun stays.
    ///
    /// # Errors
    /// [`SealError::Refused`].
    pub fn announce(&mut self, now: Time, secret: &EpochSecret) -> Result<Epoch, SealError> {
        if let Some(next) = &self.next {
            return Ok(next.epoch);
        }
        let epoch = Epoch(self.epoch.0.saturating_add(1));
        let key = EpochKey::derive(secret, self.stream, epoch).ok_or(SealError::Refused)?;
        self.next = Some(Next { epoch, key, begins: now + self.limits.lead });
        self.left = false;
        Ok(epoch)
    }

    /// Appends the packet of this payload to `out`.
    ///
    /// # Errors
    /// See [`SealError`]; nothing is appended then.
    pub fn seal(
        &mut self,
        now: Time,
        frame: u16,
        flags: Flags,
        payload: &[u8],
        out: &mut BytesMut,
    ) -> Result<(), SealError> {
        if payload.len() > MAX_PAYLOAD_BYTES {
            return Err(SealError::TooLong(payload.len()));
        }
        self.change_epoch(now);
        if self.sealed >= self.limits.packets {
            return Err(SealError::Spent);
        }
        let header = Header { flags, frame, stream: self.stream, epoch: self.epoch, counter: self.counter };
        let start = out.len();
        out.reserve(payload.len() + OVERHEAD_BYTES);
        out.put_slice(&header.encode(Hop::default()));
        out.put_slice(payload);
        out.put_bytes(0, TAG_BYTES);
        debug_assert_eq!(out.len() - start, HEADER_BYTES + payload.len() + TAG_BYTES);
        if self.key.seal(self.counter, &mut out[start..]).is_none() {
            out.truncate(start);
            return Err(SealError::Refused);
        }
        self.sealed += 1;
        self.counter += 1;
        Ok(())
    }

    /// Goes over to the epoch that was announced, once it is time, or the present one is spent.
    fn change_epoch(&mut self, now: Time) {
        let spent = self.sealed >= self.limits.packets;
        if let Some(next) = self.next.take_if(|next| spent || now >= next.begins) {
            (self.epoch, self.key) = (next.epoch, next.key);
            (self.began, self.sealed) = (now, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn publisher(limits: EpochLimits) -> Publisher {
        Publisher::new(Time::ZERO, StreamId(7), Epoch(100), &EpochSecret::from_bytes([1; 32]), limits).unwrap()
    }

    fn seal(publisher: &mut Publisher, now: Time) -> Result<Header, SealError> {
        let mut out = BytesMut::new();
        publisher.seal(now, 1, Flags::default(), b"payload", &mut out)?;
        Ok(Header::decode(&out).unwrap().1)
    }

    #[test]
    fn epoch_begins_after_lead_time() {
        let mut publisher = publisher(EpochLimits::default());
        let (start, late) = (Time::ZERO, Time::ZERO + Duration::from_secs(599));
        assert_eq!(publisher.rekey_reason(start), None);
        assert_eq!(publisher.poll_deadline().0, late);
        assert_eq!(publisher.rekey_reason(late), Some(RekeyReason::Age));
        assert_eq!(publisher.announce(late, &EpochSecret::from_bytes([2; 32])), Ok(Epoch(101)));
        assert_eq!(publisher.rekey_reason(late), None);
        assert_eq!(publisher.poll_deadline().0, late + SECOND);
        let before = seal(&mut publisher, late + SECOND / 2).unwrap();
        let after = seal(&mut publisher, late + SECOND).unwrap();
        assert_eq!((before.epoch, after.epoch), (Epoch(100), Epoch(101)));
        assert_eq!(after.counter, before.counter + 1);
        assert_eq!(publisher.poll_deadline().0, late + SECOND + Duration::from_secs(599));
    }

    #[test]
    fn epoch_begins_without_sealed_packets() {
        let mut publisher = publisher(EpochLimits::default());
        publisher.record_departure();
        publisher.announce(Time::ZERO, &EpochSecret::from_bytes([2; 32])).unwrap();
        let due = publisher.poll_deadline().0;
        publisher.handle_timeout(due);
        assert_eq!(publisher.epoch(), Epoch(101));
        assert!(publisher.poll_deadline().0 > due, "else whoever waits for it never sleeps");
    }

    #[test]
    fn leave_during_announcement_forces_another_epoch() {
        let mut publisher = publisher(EpochLimits::default());
        publisher.record_departure();
        assert_eq!(publisher.rekey_reason(Time::ZERO), Some(RekeyReason::Left));
        publisher.announce(Time::ZERO, &EpochSecret::from_bytes([2; 32])).unwrap();
        publisher.record_departure();
        assert_eq!(publisher.rekey_reason(Time::ZERO), None, "one at a time");
        seal(&mut publisher, Time::ZERO + SECOND).unwrap();
        assert_eq!(publisher.rekey_reason(Time::ZERO + SECOND), Some(RekeyReason::Left));
    }

    #[test]
    fn a_spent_key_seals_no_more() {
        let mut publisher = publisher(EpochLimits { packets: 16, ..EpochLimits::default() });
        for count in 0..16 {
            assert_eq!(publisher.rekey_reason(Time::ZERO).is_some(), count >= 14, "{count}");
            seal(&mut publisher, Time::ZERO).unwrap();
        }
        assert_eq!(publisher.rekey_reason(Time::ZERO), Some(RekeyReason::Spent));
        assert_eq!(seal(&mut publisher, Time::ZERO), Err(SealError::Spent));
        publisher.announce(Time::ZERO, &EpochSecret::from_bytes([2; 32])).unwrap();
        let next = seal(&mut publisher, Time::ZERO).unwrap();
        assert_eq!((next.epoch, next.counter), (Epoch(101), (100 << 32) + 16), "at once, and no counter twice");
    }

    #[test]
    fn what_is_refused_leaves_no_trace() {
        let mut publisher = publisher(EpochLimits::default());
        let mut out = BytesMut::new();
        let long = vec![0; MAX_PAYLOAD_BYTES + 1];
        let refused = publisher.seal(Time::ZERO, 1, Flags::default(), &long, &mut out);
        assert_eq!(refused, Err(SealError::TooLong(long.len())));
        assert_eq!((out.len(), publisher.counter()), (0, 100 << 32));
        publisher.seal(Time::ZERO, 1, Flags::default(), &long[1..], &mut out).unwrap();
        assert_eq!(out.len(), crate::packet::MAX_PACKET_BYTES);
    }

    #[test]
    fn a_restart_counts_from_above() {
        let mut first = publisher(EpochLimits::default());
        let last = (0..1000).map(|_| seal(&mut first, Time::ZERO).unwrap().counter).last();
        let again = Publisher::new(
            Time::ZERO,
            StreamId(7),
            Epoch(101),
            &EpochSecret::from_bytes([3; 32]),
            EpochLimits::default(),
        );
        assert!(Some(again.unwrap().counter()) > last);
    }
}
