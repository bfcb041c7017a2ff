//! Frames of a source: a payload's format is known outside, only its marks are known here.

use crate::packet::MAX_PAYLOAD_BYTES;

/// Properties of a source's datagram that subscribers need who join.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameMarks {
    /// A key frame begins here.
    pub key_frame: bool,
    /// Decoders need its tables or parameter sets before the next key frame.
    pub parameters: bool,
    /// The last datagram of its frame.
    pub frame_end: bool,
    /// The number of the frame, or of the last that begins here; wraps around.
    pub frame: u16,
}

/// Reads a format: sees every datagram of a source in order.
pub trait FrameMarker: Send {
    /// Reads the next datagram, or the next part of one.
    fn mark(&mut self, datagram: &[u8]) -> FrameMarks;

    /// Bytes of a datagram before its key frame, which are of no use to a subscriber that joins there.
    fn bytes_before_key_frame(&self, datagram: &[u8]) -> usize;

    /// The most bytes of one part of a datagram that is too long for a packet; `None` if it would be
    /// of no use in parts.
    fn part_bytes(&self) -> Option<usize>;
}

/// Marks a format of which nothing is known: every datagram is a frame.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpaqueMarker {
    frame: u16,
}

impl FrameMarker for OpaqueMarker {
    fn mark(&mut self, _: &[u8]) -> FrameMarks {
        self.frame = self.frame.wrapping_add(1);
        FrameMarks { frame: self.frame, frame_end: true, ..FrameMarks::default() }
    }

    fn bytes_before_key_frame(&self, _: &[u8]) -> usize {
        0
    }

    fn part_bytes(&self) -> Option<usize> {
        Some(MAX_PAYLOAD_BYTES)
    }
}
