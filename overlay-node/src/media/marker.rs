//! Readers of the formats whose frames subscribers need to know.

use roost_reflection::packet::MAX_PAYLOAD_BYTES;
use roost_reflection::publication::{self, FrameMarker, OpaqueMarker};
use roost_services::format;
use roost_services::video::keyframes::{FrameMarks, RtpH264, TransportStream};
use roost_services::video::ts;

pub(crate) fn marker_of(format: &str) -> Box<dyn FrameMarker> {
    match format {
        format::MPEG_TS => Box::new(TransportStreamMarker(TransportStream::default())),
        format::RTP_H264 => Box::new(RtpMarker(RtpH264::default())),
        _ => Box::new(OpaqueMarker::default()),
    }
}

/// The sentence about a datagram that is too long: only RTP, which in two pieces would be none.
pub(super) fn too_long(bytes: usize) -> String {
    format!(
        "an RTP packet of {bytes} bytes is longer than the {MAX_PAYLOAD_BYTES} that a reflected stream carries, and is \
         not sent: have its sender make smaller ones, ffmpeg by ?pkt_size=1160, GStreamer by mtu=1200 of its payloader"
    )
}

struct TransportStreamMarker(TransportStream);

impl FrameMarker for TransportStreamMarker {
    fn mark(&mut self, datagram: &[u8]) -> publication::FrameMarks {
        frame_marks(self.0.mark(datagram))
    }

    fn bytes_before_key_frame(&self, datagram: &[u8]) -> usize {
        self.0.before_key_frame(datagram)
    }

    /// Whole transport packets.
    fn part_bytes(&self) -> Option<usize> {
        Some(MAX_PAYLOAD_BYTES / ts::PACKET_BYTES * ts::PACKET_BYTES)
    }
}

/// RTP with H.264: a packet holds a frame or a part of one.
struct RtpMarker(RtpH264);

impl FrameMarker for RtpMarker {
    fn mark(&mut self, datagram: &[u8]) -> publication::FrameMarks {
        frame_marks(self.0.mark(datagram))
    }

    fn bytes_before_key_frame(&self, _: &[u8]) -> usize {
        0
    }

    fn part_bytes(&self) -> Option<usize> {
        None
    }
}

fn frame_marks(marks: FrameMarks) -> publication::FrameMarks {
    let FrameMarks { key_frame, parameters, frame_end, frame } = marks;
    publication::FrameMarks { key_frame, parameters, frame_end, frame }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_cut_where_possible() {
        let part = |format| marker_of(format).part_bytes();
        assert_eq!(part(format::MPEG_TS), Some(7 * 188));
        assert_eq!(part(format::JSON_LINES), Some(MAX_PAYLOAD_BYTES));
        assert_eq!(part(format::RTP_H264), None);
        let sentence = too_long(1472);
        assert!(sentence.contains("pkt_size=1160") && sentence.contains("mtu=1200"), "{sentence}");
    }
}
