//! The framed answer to `POST /v1/request`: `[u8 kind][u32 length, big endian][payload]`.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::types::RequestEvent;

/// The longest payload of one frame, bytes. The server cuts longer data.
pub const MAX_FRAME_BYTES: usize = 1 << 20;

const HEADER_BYTES: usize = 5;
const KIND_EVENT: u8 = 0;
const KIND_DATA: u8 = 1;

#[derive(Clone, Debug, PartialEq)]
pub enum Frame {
    /// Kind 0: a [`RequestEvent`] as JSON.
    Event(RequestEvent),
    /// Kind 1: payload. A datagram of a stream is one frame.
    Data(Bytes),
}

/// The error of bytes that are no frame. The server is at fault.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    #[error("a frame's event is malformed: {0}")]
    Event(#[from] serde_json::Error),
    #[error("a frame is longer than it may be")]
    TooLong,
    #[error("the answer ended within a frame")]
    Truncated,
}

impl Frame {
    /// Encodes the frame. Data longer than [`MAX_FRAME_BYTES`] becomes several frames.
    pub fn encode(&self) -> Bytes {
        match self {
            Self::Event(event) => {
                // Events hold numbers and texts only, which always have a JSON form.
                let json = serde_json::to_vec(event).unwrap_or_default();
                encode(KIND_EVENT, &json)
            }
            Self::Data(data) => encode(KIND_DATA, data),
        }
    }
}

fn encode(kind: u8, payload: &[u8]) -> Bytes {
    let mut buffer = BytesMut::with_capacity(HEADER_BYTES + payload.len());
    for piece in payload.chunks(MAX_FRAME_BYTES) {
        buffer.put_u8(kind);
        // A piece is at most `MAX_FRAME_BYTES` long.
        buffer.put_u32(piece.len() as u32);
        buffer.put_slice(piece);
    }
    buffer.freeze()
}

/// Puts frames together from pieces of any size. Holds at most one frame and the piece that was last pushed.
#[derive(Debug, Default)]
pub struct Frames {
    buffer: BytesMut,
}

impl Frames {
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns the next whole frame, if there is one. Frames of unknown kinds are skipped.
    ///
    /// # Errors
    /// Fails if the bytes are no frame. Nothing more can be read then.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, FrameError> {
        while let Some(header) = self.buffer.first_chunk::<HEADER_BYTES>() {
            let [kind, length @ ..] = *header;
            let length = u32::from_be_bytes(length) as usize;
            if length > MAX_FRAME_BYTES {
                return Err(FrameError::TooLong);
            }
            if self.buffer.len() < HEADER_BYTES + length {
                return Ok(None);
            }
            self.buffer.advance(HEADER_BYTES);
            let payload = self.buffer.split_to(length).freeze();
            match kind {
                KIND_EVENT => return Ok(Some(Frame::Event(serde_json::from_slice(&payload)?))),
                KIND_DATA => return Ok(Some(Frame::Data(payload))),
                _ => {}
            }
        }
        Ok(None)
    }

    /// Checks that the answer did not end within a frame.
    pub fn finish(&self) -> Result<(), FrameError> {
        if self.buffer.is_empty() { Ok(()) } else { Err(FrameError::Truncated) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Progress;

    #[test]
    fn frames_survive_any_cut() {
        let sent = [
            Frame::Event(RequestEvent::Progress(Progress { bytes: 7, elapsed_ms: 1.5, lost: Some(2) })),
            Frame::Data(Bytes::from_static(b"payload")),
            Frame::Data(Bytes::from(vec![9; 3000])),
        ];
        let bytes: Vec<u8> = sent.iter().flat_map(|frame| frame.encode().to_vec()).collect();
        for size in [1, 2, 5, 6, 100, bytes.len()] {
            let mut frames = Frames::default();
            let mut received = Vec::new();
            for piece in bytes.chunks(size) {
                frames.push(piece);
                while let Some(frame) = frames.next_frame().unwrap() {
                    received.push(frame);
                }
            }
            frames.finish().unwrap();
            assert_eq!(received, sent, "cut at {size}");
        }
    }

    #[test]
    fn unknown_frames_skipped_long_frames_rejected() {
        let mut frames = Frames::default();
        frames.push(&[77, 0, 0, 0, 2, 1, 2]);
        frames.push(&Frame::Data(Bytes::from_static(b"x")).encode());
        assert_eq!(frames.next_frame().unwrap(), Some(Frame::Data(Bytes::from_static(b"x"))));
        frames.push(&[1, 255, 255, 255, 255]);
        assert!(matches!(frames.next_frame(), Err(FrameError::TooLong)));
    }

    #[test]
    fn truncated_frame_is_error() {
        let mut frames = Frames::default();
        frames.push(&[1, 0, 0, 0, 9, 1]);
        assert!(frames.next_frame().unwrap().is_none());
        assert!(matches!(frames.finish(), Err(FrameError::Truncated)));
    }

    #[test]
    fn long_data_splits_into_frames() {
        let mut frames = Frames::default();
        frames.push(&Frame::Data(Bytes::from(vec![1; MAX_FRAME_BYTES + 1])).encode());
        assert!(matches!(frames.next_frame().unwrap(), Some(Frame::Data(data)) if data.len() == MAX_FRAME_BYTES));
        assert!(matches!(frames.next_frame().unwrap(), Some(Frame::Data(data)) if data.len() == 1));
    }
}
