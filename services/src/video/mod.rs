//! Video: MPEG transport streams, or RTP.
//!
//! | source | what it does |
//! |---|---|
//! | `file:CLIP.ts` | sends the file by its own clock (PCR), 6 × 188 bytes a datagram, over and over; `?loop=no` sends it once; a file without a clock goes at 700 kbit/s |
//! | `udp://HOST:PORT` | listens there (a local address or a multicast group) for MPEG-TS, as `ffmpeg -f mpegts udp://…` sends it; datagrams pass through unchanged |
//! | `rtp://HOST:PORT` | the same for RTP of static payload type 33 (MP2T, RFC 2250): the RTP header is removed, and MPEG-TS is sent |
//! | `rtp://HOST:PORT?encoding=h264` | RTP packets of a dynamic type (H.264, RFC 6184) pass through whole, as [`crate::format::RTP_H264`]; only `rtp://` and `udp://` sinks take them |
//!
//! A source of `rtp://` takes RTCP at the port after its own, and asks a sender that is heard there for a key
//! frame when a receiver of a reflected stream needs one (PLI, RFC 4585).
//!
//! `?rate=2Mbit/s` announces another rate than 700 kbit/s, by which hubs plan a node's uplink;
//! `?interface=ADDRESS` is the network on which to join a multicast group. A live source starts with the next
//! datagram, and fails after 4 s of silence.

pub mod keyframes;
pub mod pictures;
pub mod rtcp;
pub mod rtp;
pub mod ts;

mod file;
mod live;
mod pacing;

use std::path::PathBuf;
use std::time::Duration;

use roost_wire::Service;

use crate::net::{Port, check_address};
use crate::options::Options;
use crate::shared_reader::ReaderSlot;
use crate::{Feed, OpenedSource, SourceError, format};

pub(crate) const SYNTAX: &str =
    "synthetic, file:CLIP.ts, udp://HOST:PORT or rtp://HOST:PORT, with ?rate=2Mbit/s or the like if need be";

/// A live source fails after this much silence. It is shorter than the requester's own timeout, so that the
/// requester learns the reason.
const SILENCE: Duration = Duration::from_secs(4);

#[derive(Clone, Debug)]
pub(crate) struct VideoSource {
    bits_per_second: u32,
    kind: VideoInput,
}

#[derive(Clone, Debug)]
enum VideoInput {
    File { path: PathBuf, looped: bool },
    Live { port: Port, packing: Packing, shared: ReaderSlot },
}

/// The packing of a live stream in its datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Packing {
    MpegTs,
    RtpMpegTs,
    RtpH264,
}

impl VideoSource {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut options = Options::split(text);
        let bits_per_second = options.rate(Service::Video)?;
        if let Some(path) = options.body.strip_prefix("file:") {
            let looped = match options.take_value("loop") {
                None | Some("yes") => true,
                Some("no") => false,
                Some(_) => return Err("its option loop is neither yes nor no".to_owned()),
            };
            options.finish()?;
            if path.is_empty() {
                return Err("it names no file".to_owned());
            }
            return Ok(Self { bits_per_second, kind: VideoInput::File { path: PathBuf::from(path), looped } });
        }
        let interface = options.interface()?;
        let packing = match options.body.split_once("://") {
            Some(("udp", _)) => Packing::MpegTs,
            Some(("rtp", _)) => match options.take_value("encoding").map(str::to_ascii_lowercase).as_deref() {
                None | Some("mp2t") => Packing::RtpMpegTs,
                Some("h264") => Packing::RtpH264,
                Some(_) => return Err("its encoding is neither mp2t nor h264".to_owned()),
            },
            _ => return Err("it is unknown".to_owned()),
        };
        let address = options.finish()?["udp://".len()..].to_owned();
        check_address(&address)?;
        let shared = ReaderSlot::default();
        Ok(Self { bits_per_second, kind: VideoInput::Live { port: Port { address, interface }, packing, shared } })
    }

    pub(crate) async fn open(&self, duration: Duration) -> Result<OpenedSource, SourceError> {
        let (feed, format) = match &self.kind {
            VideoInput::File { path, looped } => (file::open(path, *looped, duration).await?, format::MPEG_TS),
            VideoInput::Live { port, packing, shared } => {
                let live = shared.join(&port.address, Some(SILENCE), live::start(port, *packing)).await?;
                let format = if *packing == Packing::RtpH264 { format::RTP_H264 } else { format::MPEG_TS };
                (Feed::live(live, duration), format)
            }
        };
        Ok(OpenedSource::Stream { bits_per_second: self.bits_per_second, format: format.to_owned(), feed })
    }

    pub(crate) async fn check(&self) -> Result<(), SourceError> {
        match &self.kind {
            VideoInput::File { path, .. } => file::check(path).await,
            VideoInput::Live { shared, .. } if shared.is_running().await => Ok(()),
            VideoInput::Live { port, .. } => port.listen().await.map(drop),
        }
    }
}

#[cfg(test)]
mod tests;
