//! Outputs of a transfer.
//!
//! A stream is written as it comes, and gets its final name only when it is complete. An object appears only
//! when it is complete and verified.

mod file;
mod output;
mod part;
mod records;

use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use roost_wire::Service;

use crate::video::rtcp::is_control;
use crate::video::rtp::{self, Packer};
use crate::{MAX_HELD_BYTES, SinkError, SpecError, format};
use file::Draft;
use output::{Output, blocking};
pub use part::{MIN_PART_BYTES, ObjectIdentity, PartialFile};

const SYNTAX: &str = "- for standard output, a file's name, udp://HOST:PORT or rtp://HOST:PORT";

/// The target of a transfer: `-` (standard output), a file's name, or `udp://HOST:PORT` or `rtp://HOST:PORT`
/// for a player on this machine or a multicast group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SinkSpec {
    Stdout,
    File(PathBuf),
    /// Datagrams to `HOST:PORT`, in the sizes in which they arrive.
    Udp(String),
    /// Video as RTP to `HOST:PORT`: MPEG-TS is packed, RTP passes unchanged.
    Rtp(String),
}

impl FromStr for SinkSpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = |reason: &str| SpecError {
            text: text.to_owned(),
            what: "sink".to_owned(),
            reason: reason.to_owned(),
            expected: SYNTAX,
        };
        if text == "-" {
            return Ok(Self::Stdout);
        }
        for (scheme, sink) in [("udp://", Self::Udp as fn(String) -> Self), ("rtp://", Self::Rtp)] {
            if let Some(address) = text.strip_prefix(scheme) {
                crate::net::check_address(address).map_err(wrong)?;
                return Ok(sink(address.to_owned()));
            }
        }
        let path = match text.strip_prefix("file:") {
            None if text.contains("://") => return Err(wrong("its scheme is unknown")),
            path => path.unwrap_or(text),
        };
        if path.is_empty() || path.ends_with('/') {
            return Err(wrong("it names no file"));
        }
        Ok(Self::File(PathBuf::from(path)))
    }
}

impl fmt::Display for SinkSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdout => f.write_str("standard output"),
            Self::File(path) => path.display().fmt(f),
            Self::Udp(address) => write!(f, "udp://{address}"),
            Self::Rtp(address) => write!(f, "rtp://{address}"),
        }
    }
}

/// The form in which track records are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TrackFormat {
    /// A JSON record per line, in the same form for every kind of source.
    #[default]
    JsonLines,
    /// JSON lines, with the original data of the provider's source under `raw`.
    Full,
    /// The original data of the provider's source: gpsd JSON, CoT XML, NMEA sentences.
    Raw,
}

impl FromStr for TrackFormat {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "json" => Ok(Self::JsonLines),
            "full" => Ok(Self::Full),
            "raw" => Ok(Self::Raw),
            _ => Err(SpecError {
                text: text.to_owned(),
                what: "form of track records".to_owned(),
                reason: "it is unknown".to_owned(),
                expected: "json, full or raw",
            }),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SinkState {
    Open,
    /// The reader has closed the pipe. The transfer stops with success.
    Closed,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finished {
    /// The output is complete and at its target.
    Written {
        /// Bytes written of the stream or object, without reports beside a stream.
        bytes: u64,
        path: Option<PathBuf>,
    },
    /// The reader closed the pipe before the end.
    ReaderGone,
    /// The stream broke off; the data so far is kept under another name.
    KeptPart {
        path: PathBuf,
        bytes: u64,
    },
    Discarded,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TransferEnd {
    Complete,
    BrokenOff,
}

#[derive(Debug)]
pub struct Sink {
    encoding: SinkEncoding,
    output: Output,
    bytes: u64,
    skipped_lines: u64,
    reader_gone: bool,
}

#[derive(Debug)]
enum SinkEncoding {
    Stream,
    Packets,
    /// MPEG-TS that is packed into RTP: the packer, the start, and a buffer for one packet.
    Rtp(Packer, Instant, Vec<u8>),
    Records(TrackFormat),
    /// An object held in memory until it is complete; `None` if a draft file holds it.
    Object(Option<BytesMut>),
}

impl Sink {
    /// Opens the output for a transfer of `service` whose offer names `format`.
    /// `form` matters for track only.
    ///
    /// # Errors
    /// The output cannot be created, or cannot take this service.
    pub async fn open(
        service: Service,
        format: &str,
        spec: &SinkSpec,
        track_format: TrackFormat,
    ) -> Result<Self, SinkError> {
        let to_rtp = matches!(spec, SinkSpec::Rtp(_));
        let to_udp = to_rtp || matches!(spec, SinkSpec::Udp(_));
        if !service.is_stream() && to_udp {
            let instead = "write it to a file or to standard output";
            return Err(SinkError::Unsuitable { what: format!("the {service} object"), to: spec.to_string(), instead });
        }
        if format == format::RTP_H264 && !to_udp {
            let instead = "send it to a player with rtp://HOST:PORT";
            return Err(SinkError::Unsuitable { what: "an RTP stream".to_owned(), to: spec.to_string(), instead });
        }
        if to_rtp && service.base() != Service::Video {
            let instead = "send it with udp://HOST:PORT";
            return Err(SinkError::Unsuitable { what: format!("a {service} stream"), to: spec.to_string(), instead });
        }
        let output = Output::open(spec, service.is_stream()).await?;
        let track_format = match service.base() {
            Service::Video if to_rtp && format != format::RTP_H264 => {
                SinkEncoding::Rtp(Packer::new(seed()), Instant::now(), Vec::new())
            }
            Service::Video if format == format::RTP_H264 => SinkEncoding::Packets,
            Service::Video => SinkEncoding::Stream,
            Service::Track => SinkEncoding::Records(track_format),
            Service::Named(_) if service.is_stream() => SinkEncoding::Stream,
            Service::Image | Service::Sensor | Service::Named(_) => {
                SinkEncoding::Object((!output.is_draft()).then(BytesMut::new))
            }
        };
        Ok(Self { encoding: track_format, output, bytes: 0, skipped_lines: 0, reader_gone: false })
    }

    /// Opens the output for a large object. It continues `part`, which an earlier transfer may have left; with
    /// `anew` the first data replaces the part instead.
    ///
    /// # Errors
    /// The part cannot be written, or another transfer writes it.
    pub async fn resume(
        path: PathBuf,
        part: Option<PartialFile>,
        of: ObjectIdentity,
        anew: bool,
    ) -> Result<Self, SinkError> {
        let part = blocking(move || match part {
            Some(mut part) => {
                let is_other = anew || part.object() != of;
                part.replace(is_other.then_some(of));
                Ok(part)
            }
            None => PartialFile::create(&path, of),
        });
        let part = part.await?;
        let bytes = if anew { 0 } else { part.bytes() };
        let output = Output::Part(Some(part));
        Ok(Self { encoding: SinkEncoding::Object(None), output, bytes, skipped_lines: 0, reader_gone: false })
    }

    /// Gives back the part with which the sink was opened.
    pub fn into_part(self) -> Option<PartialFile> {
        match self.output {
            Output::Part(part) => part,
            _ => None,
        }
    }

    /// Tells the sink that the caller has verified the object's digest, so that a part is not hashed again.
    pub const fn mark_verified(&mut self) {
        if let Output::Part(Some(part)) = &mut self.output {
            part.mark_verified();
        }
    }

    /// Takes the payload of one datagram, or one chunk of an object.
    ///
    /// # Errors
    /// It cannot be written; call [`Sink::break_off`] then.
    pub async fn write(&mut self, payload: &Bytes) -> Result<SinkState, SinkError> {
        let flow = self.write_payload(payload).await?;
        self.reader_gone |= flow == SinkState::Closed;
        Ok(flow)
    }

    async fn write_payload(&mut self, payload: &Bytes) -> Result<SinkState, SinkError> {
        if payload.is_empty() {
            return Ok(SinkState::Open);
        }
        match &mut self.encoding {
            SinkEncoding::Stream => {
                self.bytes += payload.len() as u64;
                self.output.put(payload).await
            }
            SinkEncoding::Packets if is_control(payload) => self.output.send_rtcp(payload).await,
            SinkEncoding::Packets => {
                self.bytes += payload.len() as u64;
                self.output.put(payload).await
            }
            SinkEncoding::Rtp(packer, start, packet) => {
                self.bytes += payload.len() as u64;
                packer.pack(start.elapsed(), payload, packet);
                self.output.put(packet).await
            }
            SinkEncoding::Records(track_format) => {
                for line in payload.split_inclusive(|byte| *byte == b'\n') {
                    let Some(line) = records::convert(line, *track_format) else {
                        self.skipped_lines += u64::from(!line.trim_ascii().is_empty());
                        continue;
                    };
                    self.bytes += line.len() as u64;
                    if self.output.put(&line).await? == SinkState::Closed {
                        return Ok(SinkState::Closed);
                    }
                }
                Ok(SinkState::Open)
            }
            SinkEncoding::Object(held) => {
                self.bytes += payload.len() as u64;
                let Some(held) = held else { return self.output.put(payload).await };
                if self.bytes > MAX_HELD_BYTES as u64 {
                    return Err(SinkError::TooLarge { limit_bytes: MAX_HELD_BYTES });
                }
                held.extend_from_slice(payload);
                Ok(SinkState::Open)
            }
        }
    }

    /// Writes gathered data; call it once a second while no data comes.
    ///
    /// # Errors
    /// As for [`Sink::write`].
    pub async fn flush_if_due(&mut self) -> Result<(), SinkError> {
        self.output.flush_if_due().await
    }

    /// Makes a session description for the player from the stream's first datagram; `None` if the output is not
    /// RTP.
    pub fn describe(&self, format: &str, first: &[u8]) -> Option<String> {
        let is_rtp = matches!(self.encoding, SinkEncoding::Rtp(..) | SinkEncoding::Packets);
        match &self.output {
            Output::Udp(to, ..) if is_rtp => rtp::describe(format, *to, first),
            _ => None,
        }
    }

    /// Lines of a track that were no records and were left out.
    pub const fn skipped_lines(&self) -> u64 {
        self.skipped_lines
    }

    /// Ends a transfer of which everything that was promised has come and, for an object, the digest matches. Only
    /// then does a file get its final name. A part ([`Sink::resume`]) decides by its own length and digest;
    /// [`Sink::mark_verified`] spares it the digest.
    ///
    /// # Errors
    /// The last bytes cannot be written, or the file cannot be renamed.
    pub async fn finish(mut self) -> Result<Finished, SinkError> {
        if let SinkEncoding::Object(Some(held)) = &mut self.encoding {
            let held = std::mem::take(held);
            self.reader_gone = self.output.put(&held).await? == SinkState::Closed;
        }
        self.end(TransferEnd::Complete).await
    }

    /// Ends a transfer that is incomplete or damaged. Dropping the sink has the same effect.
    ///
    /// # Errors
    /// The last bytes of a part cannot be written.
    pub async fn break_off(self) -> Result<Finished, SinkError> {
        if matches!(self.encoding, SinkEncoding::Object(Some(_))) {
            return Ok(Finished::Discarded);
        }
        self.end(TransferEnd::BrokenOff).await
    }

    async fn end(self, end: TransferEnd) -> Result<Finished, SinkError> {
        if self.reader_gone {
            return Ok(Finished::ReaderGone);
        }
        self.output.finish(end, self.bytes).await
    }
}

/// Random enough to tell streams apart: the standard library seeds its hash tables at random.
fn seed() -> [u8; 10] {
    let keys = RandomState::new();
    let mut seed = [0; 10];
    seed[..8].copy_from_slice(&keys.hash_one(0).to_be_bytes());
    seed[8..].copy_from_slice(&keys.hash_one(1).to_be_bytes()[..2]);
    seed
}

#[cfg(test)]
mod tests;
