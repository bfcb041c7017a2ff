//! Streams that begin at this node: a source's datagrams are marked, sealed once and sent, and new epochs
//! prepared when they are due.

mod frame_marker;
mod publisher;
mod table;

use std::time::Duration;

use bytes::BytesMut;
use roost_core::node::SessionId;
use roost_wire::reflection::SECRET_BYTES;
use roost_wire::{EpochSecret, StreamId, Time};

use crate::admission::AdmissionError;
use crate::keys::{AnnouncedKey, SecretSource};
use crate::packet::{Flags, MAX_PAYLOAD_BYTES};
pub use frame_marker::{FrameMarker, FrameMarks, OpaqueMarker};
pub use publisher::{EpochLimits, Publisher, RekeyReason, SealError};
pub use table::NewPublication;
pub(crate) use table::Publications;

/// The time after which a source is asked again for its first key frame.
const KEY_FRAME_RETRY: Duration = Duration::from_secs(1);

/// The time after which the next epoch is tried again that could not be prepared.
const REKEY_RETRY: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PublishError {
    /// The key of the first epoch cannot be used.
    #[error(transparent)]
    Key(#[from] SealError),
    #[error(transparent)]
    Admission(#[from] AdmissionError),
}

/// Why the next epoch of a stream could not be prepared. It is tried again each second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RekeyError {
    /// There is nothing to draw a secret from.
    #[error("the system gives no randomness")]
    NoRandomness,
    /// The library refused the secret of the epoch.
    #[error("its key cannot be made")]
    Refused,
}

/// A datagram of a source that is not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PayloadError {
    /// The datagram is longer than a packet takes, and may not be cut.
    TooLong,
    /// The cryptography failed, or the key is spent.
    Unsealed(SealError),
}

/// The present of a key frame in a source's datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FirstKeyFrame {
    /// There has been none yet: the source is asked at this time.
    Awaited(Time),
    Seen,
}

pub(crate) struct Publication {
    session: SessionId,
    publisher: Publisher,
    marker: Box<dyn FrameMarker>,
    sealed: BytesMut,
    first_key_frame: FirstKeyFrame,
    has_rejected: bool,
    /// The time at which the next epoch is tried again.
    rekey_retry: Option<Time>,
}

impl Publication {
    /// A stream from its first epoch on.
    ///
    /// # Errors
    /// Fails if the cryptography fails.
    pub(crate) fn new(
        now: Time,
        session: SessionId,
        stream: StreamId,
        key: &AnnouncedKey,
        marker: Box<dyn FrameMarker>,
    ) -> Result<Self, SealError> {
        Ok(Self {
            session,
            publisher: Publisher::new(now, stream, key.epoch, &key.secret, EpochLimits::default())?,
            marker,
            sealed: BytesMut::new(),
            first_key_frame: FirstKeyFrame::Awaited(now),
            has_rejected: false,
            rekey_retry: None,
        })
    }

    pub(crate) const fn session(&self) -> SessionId {
        self.session
    }

    /// Seals a datagram of the source and hands its packets to `send`: one, unless it is longer than a
    /// packet takes and can be cut, or a key frame begins in its midst, with which a packet begins.
    ///
    /// # Errors
    /// The first of [`PayloadError`]; what comes before it is sent.
    pub(crate) fn seal(&mut self, now: Time, payload: &[u8], mut send: impl FnMut(&[u8])) -> Result<(), PayloadError> {
        let (before, rest) = payload.split_at(self.marker.bytes_before_key_frame(payload));
        if !before.is_empty() {
            self.seal_part(now, before, &mut send)?;
        }
        self.seal_part(now, rest, &mut send)
    }

    fn seal_part(&mut self, now: Time, payload: &[u8], send: &mut impl FnMut(&[u8])) -> Result<(), PayloadError> {
        let most = match payload.len() {
            ..=MAX_PAYLOAD_BYTES => MAX_PAYLOAD_BYTES,
            _ => self.marker.part_bytes().ok_or(PayloadError::TooLong)?,
        };
        let marks = self.marker.mark(payload);
        if marks.key_frame {
            self.first_key_frame = FirstKeyFrame::Seen;
        }
        let (pieces, mut failed) = (payload.len().div_ceil(most), None);
        for (number, piece) in payload.chunks(most).enumerate() {
            let flags = flags(&marks, number, pieces);
            self.sealed.clear();
            match self.publisher.seal(now, marks.frame, flags, piece, &mut self.sealed) {
                Ok(()) => send(&self.sealed),
                Err(error) => failed = Some(error),
            }
        }
        failed.map_or(Ok(()), |error| Err(PayloadError::Unsealed(error)))
    }

    /// True if the source is to be asked for a key frame now, which is then noted. One that is joined in its
    /// midst is asked until one comes: before the first nobody on the way knows that there are any.
    pub(crate) fn wants_first_key_frame(&mut self, now: Time) -> bool {
        let FirstKeyFrame::Awaited(due) = self.first_key_frame else { return false };
        let is_due = now >= due;
        if is_due {
            self.first_key_frame = FirstKeyFrame::Awaited(now + KEY_FRAME_RETRY);
        }
        is_due
    }

    /// True if this is the first datagram that is too long; the next is not.
    pub(crate) fn is_first_rejection(&mut self) -> bool {
        !std::mem::replace(&mut self.has_rejected, true)
    }

    /// A member that can read now may read no further: the next epoch is due.
    pub(crate) fn record_departure(&mut self) {
        self.publisher.record_departure();
    }

    /// Prepares the next epoch if it is due: the key for its members.
    ///
    /// # Errors
    /// See [`RekeyError`].
    pub(crate) fn rekey(
        &mut self,
        now: Time,
        secrets: &mut dyn SecretSource,
    ) -> Result<Option<AnnouncedKey>, RekeyError> {
        self.publisher.handle_timeout(now);
        if self.publisher.rekey_reason(now).is_none() {
            // A retry in the past would wake the machine at once, for ever.
            self.rekey_retry = None;
            return Ok(None);
        }
        if self.rekey_retry.is_some_and(|due| due > now) {
            return Ok(None);
        }
        let prepared = self.prepare_epoch(now, secrets);
        self.rekey_retry = prepared.is_err().then_some(now + REKEY_RETRY);
        prepared.map(Some)
    }

    fn prepare_epoch(&mut self, now: Time, secrets: &mut dyn SecretSource) -> Result<AnnouncedKey, RekeyError> {
        let mut bytes = [0; SECRET_BYTES];
        if !secrets.fill(&mut bytes) {
            return Err(RekeyError::NoRandomness);
        }
        let secret = EpochSecret::from_bytes(bytes);
        let epoch = self.publisher.announce(now, &secret).map_err(|_| RekeyError::Refused)?;
        Ok(AnnouncedKey { epoch, secret })
    }

    /// The time at which an epoch is due.
    pub(crate) fn poll_deadline(&self) -> Time {
        self.rekey_retry.unwrap_or_else(|| self.publisher.poll_deadline().0)
    }
}

/// The flags of one piece, counted from 0, of a payload.
fn flags(marks: &FrameMarks, piece: usize, pieces: usize) -> Flags {
    let (is_first, is_last) = (piece == 0, piece + 1 == pieces);
    let set = [
        (marks.key_frame && is_first, Flags::KEY_FRAME),
        (marks.parameters && is_first, Flags::PARAMETERS),
        (marks.frame_end && is_last, Flags::FRAME_END),
    ];
    set.into_iter().filter(|(is_set, _)| *is_set).fold(Flags::default(), |flags, (_, flag)| flags.with(flag))
}

#[cfg(test)]
mod tests {
    use roost_wire::reflection::Epoch;

    use super::*;
    use crate::packet::OVERHEAD_BYTES;

    /// Cuts at a number of bytes, or not at all; a key frame begins after so many bytes of each datagram.
    struct TestMarker {
        part_bytes: Option<usize>,
        before_key_frame: Option<usize>,
    }

    impl FrameMarker for TestMarker {
        fn mark(&mut self, datagram: &[u8]) -> FrameMarks {
            let key_frame = datagram.first() == Some(&b'K');
            FrameMarks { key_frame, frame_end: true, ..FrameMarks::default() }
        }

        fn bytes_before_key_frame(&self, datagram: &[u8]) -> usize {
            self.before_key_frame.unwrap_or(0).min(datagram.len())
        }

        fn part_bytes(&self) -> Option<usize> {
            self.part_bytes
        }
    }

    fn published(marker: impl FrameMarker + 'static) -> Publication {
        let key = AnnouncedKey { epoch: Epoch(1), secret: EpochSecret::from_bytes([1; SECRET_BYTES]) };
        Publication::new(Time::ZERO, SessionId(1), StreamId(1), &key, Box::new(marker)).unwrap()
    }

    /// The payload bytes of the packets that a datagram becomes.
    fn sizes(marker: impl FrameMarker + 'static, datagram: &[u8]) -> Result<Vec<usize>, PayloadError> {
        let mut sizes = Vec::new();
        let sealed = published(marker).seal(Time::ZERO, datagram, |packet| sizes.push(packet.len() - OVERHEAD_BYTES));
        sealed.map(|()| sizes)
    }

    #[test]
    fn long_datagrams_are_split_if_possible() {
        let in_parts_of = |part_bytes| TestMarker { part_bytes, before_key_frame: None };
        assert_eq!(sizes(in_parts_of(Some(1000)), &[0; 1000]), Ok(vec![1000]));
        assert_eq!(sizes(in_parts_of(Some(1000)), &[0; 2100]), Ok(vec![1000, 1000, 100]));
        assert_eq!(sizes(OpaqueMarker::default(), &[0; MAX_PAYLOAD_BYTES + 1]), Ok(vec![MAX_PAYLOAD_BYTES, 1]));
        assert_eq!(sizes(in_parts_of(None), &[0; MAX_PAYLOAD_BYTES]), Ok(vec![MAX_PAYLOAD_BYTES]));
        assert_eq!(sizes(in_parts_of(None), &[0; MAX_PAYLOAD_BYTES + 1]), Err(PayloadError::TooLong));
    }

    #[test]
    fn key_frame_begins_its_packet() {
        let marker = TestMarker { part_bytes: None, before_key_frame: Some(3) };
        assert_eq!(sizes(marker, b"...KEY"), Ok(vec![3, 3]));
    }

    #[test]
    fn source_asked_until_first_key_frame() {
        let at = |millis| Time::ZERO + Duration::from_millis(millis);
        let mut published = published(TestMarker { part_bytes: None, before_key_frame: None });
        let asks = [0, 500, 1000, 1999].map(|millis| {
            published.seal(at(millis), b"frame", |_| {}).unwrap();
            published.wants_first_key_frame(at(millis))
        });
        assert_eq!(asks, [true, false, true, false]);
        published.seal(at(2000), b"KEY", |_| {}).unwrap();
        assert!(!published.wants_first_key_frame(at(9000)));
    }

    #[test]
    fn epoch_retries_each_second_without_randomness() {
        let mut published = published(OpaqueMarker::default());
        let mut now = published.poll_deadline();
        let (begin, mut tries) = (now, 0);
        while now < begin + Duration::from_secs(10) {
            let rekey = published.rekey(now, &mut |_: &mut [u8]| {
                tries += 1;
                false
            });
            assert!(rekey == Err(RekeyError::NoRandomness) && tries <= 10, "{tries} tries at {now:?}");
            now = published.poll_deadline();
        }
        assert_eq!(tries, 10);
        assert!(published.rekey(now, &mut |_: &mut [u8]| true).unwrap().is_some(), "there is some again");
        assert!(published.poll_deadline() > now);
        // As if nothing had been.
        published.record_departure();
        assert!(published.rekey(now + Duration::from_secs(1), &mut |_: &mut [u8]| true).unwrap().is_some());
    }

    #[test]
    fn retry_without_reason_is_forgotten() {
        let mut published = published(OpaqueMarker::default());
        published.record_departure();
        assert_eq!(published.rekey(Time::ZERO, &mut |_: &mut [u8]| false), Err(RekeyError::NoRandomness));
        published.publisher.announce(Time::ZERO, &EpochSecret::from_bytes([2; SECRET_BYTES])).unwrap();
        let due = published.poll_deadline();
        assert_eq!(published.rekey(due, &mut |_: &mut [u8]| true), Ok(None));
        assert!(published.poll_deadline() > due);
    }
}
