//! A stream that begins here: what its source gives is marked, sealed and sent.

use bytes::BytesMut;
use roost_proto::Time;
use roost_proto::peer::{Command, SessionId};
use roost_proto::reflection::{Epoch, SECRET_BYTES, Secret, StreamId};
use roost_reflector::packet::MAX_PAYLOAD_BYTES;
use roost_reflector::{Flags, Limits, Publisher};
use roost_services::video::keyframes::{Marks, RtpH264, TransportStream};
use roost_services::{KeyFrames, format};

/// One published stream.
pub(super) struct Published {
    session: SessionId,
    publisher: Publisher,
    marker: Marker,
    sealed: BytesMut,
    key_frames: Option<KeyFrames>,
}

/// Tells where key frames begin.
enum Marker {
    TransportStream(TransportStream),
    RtpH264(RtpH264),
    /// Of this form nothing is known: every datagram is a frame.
    Opaque(u16),
}

impl Marker {
    fn of(format: &str) -> Self {
        match format {
            format::MPEG_TS => Self::TransportStream(TransportStream::default()),
            format::RTP_H264 => Self::RtpH264(RtpH264::default()),
            _ => Self::Opaque(0),
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
    /// A stream from its first epoch on; `None` if the cryptography fails.
    pub(super) fn new(
        now: Time,
        session: SessionId,
        (stream, epoch): (StreamId, Epoch),
        secret: &Secret,
        format: &str,
    ) -> Option<Self> {
        let publisher = Publisher::new(now, stream, epoch, secret, Limits::default()).ok()?;
        Some(Self { session, publisher, marker: Marker::of(format), sealed: BytesMut::new(), key_frames: None })
    }

    /// The same, of a source that can be asked for key frames.
    pub(super) fn asking(self, key_frames: Option<KeyFrames>) -> Self {
        Self { key_frames, ..self }
    }

    /// Somebody waits for a key frame.
    pub(super) fn ask_key_frame(&self) {
        if let Some(key_frames) = &self.key_frames {
            key_frames.ask();
        }
    }

    /// The session of its source.
    pub(super) fn session(&self) -> SessionId {
        self.session
    }

    /// Seals a datagram of the source and hands over its packets: one, unless it is longer than a
    /// packet takes.
    pub(super) fn seal(&mut self, now: Time, payload: &[u8], mut take: impl FnMut(&[u8])) {
        let marks = self.marker.mark(payload);
        let pieces = payload.len().div_ceil(MAX_PAYLOAD_BYTES);
        for (number, piece) in payload.chunks(MAX_PAYLOAD_BYTES).enumerate() {
            let flags = flags(&marks, number == 0, number + 1 == pieces);
            self.sealed.clear();
            match self.publisher.seal(now, marks.frame, flags, piece, &mut self.sealed) {
                Ok(()) => take(&self.sealed),
                Err(error) => tracing::debug!(%error, "a datagram is not sent"),
            }
        }
    }

    /// Somebody may read no further.
    pub(super) fn member_left(&mut self) {
        self.publisher.member_left();
    }

    /// Prepares the next epoch if it is due: what its members are to be told.
    pub(super) fn rekey(&mut self, now: Time) -> Option<Command> {
        self.publisher.handle_timeout(now);
        self.publisher.wants_epoch(now)?;
        let mut bytes = [0; SECRET_BYTES];
        let random = roost_daemon::random_bytes(&mut bytes);
        let secret = Secret::from_bytes(bytes);
        let epoch = random.ok().and_then(|()| self.publisher.announce(now, &secret).ok());
        if epoch.is_none() {
            tracing::error!("the next epoch of a stream cannot be prepared: the system gives no randomness");
        }
        Some(Command::Rekey { session: self.session, epoch: epoch?, secret })
    }

    /// When an epoch is due.
    pub(super) fn poll_deadline(&self) -> Time {
        self.publisher.poll_deadline().0
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
