//! A stream that begins here: what its source gives is marked, sealed and sent.

use std::fmt;
use std::time::Duration;

use bytes::BytesMut;
use roost_proto::Time;
use roost_proto::node::{NodeCommand, SessionId};
use roost_proto::reflection::{Epoch, EpochSecret, SECRET_BYTES, StreamId};
use roost_reflection::packet::MAX_PAYLOAD_BYTES;
use roost_reflection::{EpochLimits, Flags, Publisher, SealError};
use roost_services::video::keyframes::{Marks, RtpH264, TransportStream};
use roost_services::video::ts;
use roost_services::{KeyFrameRequester, format};

/// After how long a source is asked again for its first key frame.
const ASKED_AGAIN: Duration = Duration::from_secs(1);

/// After how long the next epoch is tried again when it could not be prepared.
const PREPARED_AGAIN: Duration = Duration::from_secs(1);

/// One published stream.
pub(super) struct Published {
    session: SessionId,
    publisher: Publisher,
    marker: Marker,
    sealed: BytesMut,
    key_frames: Option<KeyFrameRequester>,
    /// When a key frame is asked for because there has been none yet; `None` once there was one.
    asks: Option<Time>,
    has_warned: bool,
    /// When the next epoch is tried again that could not be prepared.
    prepares: Option<Time>,
}

/// A packet of RTP that is too long for a reflected stream; in two pieces it would be none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooLong(usize);

impl fmt::Display for TooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "an RTP packet of {} bytes is longer than the {MAX_PAYLOAD_BYTES} that a reflected stream carries, and is \
             not sent: have its sender make smaller ones, ffmpeg by ?pkt_size=1160, GStreamer by mtu=1200 of its payloader",
            self.0
        )
    }
}

/// Tells where key frames begin.
enum Marker {
    TransportStream(TransportStream),
    RtpH264(RtpH264),
    /// Of this form nothing is known: every datagram is a frame.
    Opaque(u16),
}

impl Marker {
    fn from_format(format: &str) -> Self {
        match format {
            format::MPEG_TS => Self::TransportStream(TransportStream::default()),
            format::RTP_H264 => Self::RtpH264(RtpH264::default()),
            _ => Self::Opaque(0),
        }
    }

    /// How much of a datagram that is too long goes into one packet.
    fn cut(&self, datagram: &[u8]) -> Result<usize, TooLong> {
        match self {
            // Whole transport packets.
            Self::TransportStream(_) => Ok(MAX_PAYLOAD_BYTES / ts::PACKET_BYTES * ts::PACKET_BYTES),
            Self::RtpH264(_) => Err(TooLong(datagram.len())),
            Self::Opaque(_) => Ok(MAX_PAYLOAD_BYTES),
        }
    }

    /// Bytes of a datagram that are of no use to a subscriber that joins at its key frame.
    fn before_key_frame(&self, datagram: &[u8]) -> usize {
        match self {
            Self::TransportStream(reader) => reader.before_key_frame(datagram),
            // Packets of RTP have one frame each, and opaque ones nothing that is known.
            Self::RtpH264(_) | Self::Opaque(_) => 0,
        }
    }

    fn mark(&mut self, datagram: &[u8]) -> Marks {
        match self {
            Self::TransportStream(reader) => reader.mark(datagram),
            Self::RtpH264(reader) => reader.mark(datagram),
            Self::Opaque(frame) => {
                *frame = frame.wrapping_add(1);
                Marks { frame: *frame, frame_end: true, ..Marks::default() }
            }
        }
    }
}

impl Published {
    /// A stream from its first epoch on.
    ///
    /// # Errors
    /// If the cryptography fails.
    pub(super) fn new(
        now: Time,
        session: SessionId,
        (stream, epoch): (StreamId, Epoch),
        secret: &EpochSecret,
        format: &str,
    ) -> Result<Self, SealError> {
        let publisher = Publisher::new(now, stream, epoch, secret, EpochLimits::default())?;
        Ok(Self {
            session,
            publisher,
            marker: Marker::from_format(format),
            sealed: BytesMut::new(),
            key_frames: None,
            asks: Some(now),
            has_warned: false,
            prepares: None,
        })
    }

    /// The same, of a source that can be asked for key frames.
    pub(super) fn asking(self, key_frames: Option<KeyFrameRequester>) -> Self {
        Self { key_frames, ..self }
    }

    /// Somebody waits for a key frame.
    pub(super) fn ask_key_frame(&self) {
        if let Some(key_frames) = &self.key_frames {
            key_frames.request_key_frame();
        }
    }

    /// The session of its source.
    pub(super) fn session(&self) -> SessionId {
        self.session
    }

    /// Seals a datagram of the source and hands over its packets: one, unless it is longer than a
    /// packet takes and can be cut, or a key frame begins in its midst, with which a packet begins.
    ///
    /// # Errors
    /// [`TooLong`].
    pub(super) fn seal(&mut self, now: Time, payload: &[u8], mut take: impl FnMut(&[u8])) -> Result<(), TooLong> {
        let (before, rest) = payload.split_at(self.marker.before_key_frame(payload));
        if !before.is_empty() {
            self.seal_part(now, before, &mut take)?;
        }
        self.seal_part(now, rest, &mut take)
    }

    fn seal_part(&mut self, now: Time, payload: &[u8], take: &mut impl FnMut(&[u8])) -> Result<(), TooLong> {
        let most = if payload.len() <= MAX_PAYLOAD_BYTES { MAX_PAYLOAD_BYTES } else { self.marker.cut(payload)? };
        let marks = self.marker.mark(payload);
        self.mind_first_key_frame(now, &marks);
        let pieces = payload.len().div_ceil(most);
        for (number, piece) in payload.chunks(most).enumerate() {
            let flags = flags(&marks, number == 0, number + 1 == pieces);
            self.sealed.clear();
            match self.publisher.seal(now, marks.frame, flags, piece, &mut self.sealed) {
                Ok(()) => take(&self.sealed),
                Err(error) => tracing::debug!(%error, "a datagram is not sent"),
            }
        }
        Ok(())
    }

    /// A source that is joined in its midst is asked for a key frame until one comes: before the
    /// first nobody on the way knows that there are any.
    fn mind_first_key_frame(&mut self, now: Time, marks: &Marks) {
        let Some(due) = self.asks else { return };
        if marks.key_frame {
            self.asks = None;
        } else if now >= due {
            self.asks = Some(now + ASKED_AGAIN);
            self.ask_key_frame();
        }
    }

    /// Whether this is the first time that something is too long; the next time it is not.
    pub(super) fn is_new_to_it(&mut self) -> bool {
        !std::mem::replace(&mut self.has_warned, true)
    }

    /// Somebody may read no further.
    pub(super) fn member_left(&mut self) {
        self.publisher.record_departure();
    }

    /// Prepares the next epoch if it is due: what its members are to be told.
    pub(super) fn rekey(&mut self, now: Time) -> Option<NodeCommand> {
        self.rekey_with(now, |bytes| roost_daemon::random_bytes(bytes).is_ok())
    }

    /// The same with what `draw` makes of a secret's bytes, unless it fails.
    fn rekey_with(&mut self, now: Time, draw: impl FnOnce(&mut [u8]) -> bool) -> Option<NodeCommand> {
        self.publisher.handle_timeout(now);
        if self.prepares.is_some_and(|due| due > now) {
            return None;
        }
        self.prepares = None;
        self.publisher.rekey_reason(now)?;
        let mut bytes = [0; SECRET_BYTES];
        let is_drawn = draw(&mut bytes);
        let secret = EpochSecret::from_bytes(bytes);
        let epoch = is_drawn.then(|| self.publisher.announce(now, &secret).ok()).flatten();
        self.prepares = epoch.is_none().then_some(now + PREPARED_AGAIN);
        if epoch.is_none() {
            let why = if is_drawn { "its key cannot be made" } else { "the system gives no randomness" };
            tracing::error!("the next epoch of a stream cannot be prepared, and is tried again: {why}");
        }
        Some(NodeCommand::Rekey { session: self.session, epoch: epoch?, secret })
    }

    /// When an epoch is due.
    pub(super) fn poll_deadline(&self) -> Time {
        self.prepares.unwrap_or_else(|| self.publisher.poll_deadline().0)
    }
}

fn flags(marks: &Marks, is_first: bool, is_last: bool) -> Flags {
    let set = [
        (marks.key_frame && is_first, Flags::KEY_FRAME),
        (marks.parameters && is_first, Flags::PARAMETERS),
        (marks.frame_end && is_last, Flags::FRAME_END),
    ];
    set.into_iter().filter(|(is_set, _)| *is_set).fold(Flags::default(), |flags, (_, flag)| flags.with(flag))
}

#[cfg(test)]
mod tests {
    use super::*;
    use roost_reflection::packet::OVERHEAD_BYTES;

    fn published(form: &str) -> Published {
        let (stream, epoch, secret) = (StreamId(1), Epoch(1), EpochSecret::from_bytes([1; SECRET_BYTES]));
        Published::new(Time::ZERO, SessionId(1), (stream, epoch), &secret, form).unwrap()
    }

    /// The sizes of the packets that a datagram of a form becomes.
    fn sizes(form: &str, datagram: &[u8]) -> Result<Vec<usize>, TooLong> {
        let mut published = published(form);
        let mut sizes = Vec::new();
        published.seal(Time::ZERO, datagram, |packet| sizes.push(packet.len() - OVERHEAD_BYTES)).map(|()| sizes)
    }

    #[test]
    fn long_datagrams_are_split_if_possible() {
        assert_eq!(sizes(format::MPEG_TS, &[0x47; 7 * 188]), Ok(vec![7 * 188]));
        assert_eq!(sizes(format::MPEG_TS, &[0x47; 16 * 188]), Ok(vec![7 * 188, 7 * 188, 2 * 188]));
        assert_eq!(sizes(format::JSON_LINES, &[b' '; MAX_PAYLOAD_BYTES + 1]), Ok(vec![MAX_PAYLOAD_BYTES, 1]));
        let packet = |length| [&[0x80, 96][..], &vec![0; length - 2]].concat();
        assert_eq!(sizes(format::RTP_H264, &packet(MAX_PAYLOAD_BYTES)), Ok(vec![MAX_PAYLOAD_BYTES]));
        let refused = sizes(format::RTP_H264, &packet(1472)).unwrap_err();
        assert!(refused.to_string().contains("pkt_size=1160") && refused.to_string().contains("mtu=1200"), "{refused}");
    }

    #[test]
    fn epoch_retries_each_second_without_randomness() {
        let mut published = published(format::JSON_LINES);
        let mut now = published.poll_deadline();
        let (begin, mut tries) = (now, 0);
        while now < begin + Duration::from_secs(10) {
            let rekey = published.rekey_with(now, |_| {
                tries += 1;
                false
            });
            assert!(rekey.is_none() && tries <= 10, "{tries} tries at {now:?}");
            now = published.poll_deadline();
        }
        assert_eq!(tries, 10);
        assert!(published.rekey_with(now, |_| true).is_some(), "there is some again");
        assert!(published.poll_deadline() > now);
        // As if nothing had been.
        published.member_left();
        assert!(published.rekey_with(now + Duration::from_secs(1), |_| true).is_some());
    }
}
