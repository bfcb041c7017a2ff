//! Track: positions of targets.
//!
//! | source | what it does |
//! |---|---|
//! | `gpsd://HOST:PORT` | asks a gpsd for its reports (JSON over TCP) and sends each position (TPV) |
//! | `cot+udp://HOST:PORT` | listens there for Cursor-on-Target XML; a multicast group (239.2.3.1:6969) is joined |
//! | `nmea+udp://HOST:PORT` | listens there for NMEA 0183 sentences; `?id=NAME` names the target |
//! | `file:TRACK` | replays JSON lines, gpsd JSON, NMEA or CoT by its time stamps (a record a second where there are none), over and over |
//!
//! `?interface=ADDRESS` is the network on which to join a multicast group; `?rate=64kbit/s` announces another
//! rate than 40 kbit/s.
//!
//! Whatever the source, each datagram is one line of JSON, see [`record`]; it is not padded. A source without
//! news for 2 s sends an empty datagram, so that the requester knows that it is alive.

pub mod cot;
pub mod gpsd;
pub mod nmea;
pub mod record;

mod file;
mod live;

use std::path::PathBuf;
use std::time::Duration;

use roost_wire::Service;

use crate::net::{Port, check_address};
use crate::options::Options;
use crate::shared_reader::ReaderSlot;
use crate::{Feed, OpenedSource, SourceError, format};

pub(crate) const SYNTAX: &str =
    "synthetic, gpsd://HOST:PORT, cot+udp://HOST:PORT, nmea+udp://HOST:PORT or file:TRACK.jsonl|.nmea|.xml";

/// Requesters give a stream up after 5 s of silence.
const KEEPALIVE: Duration = Duration::from_secs(2);

/// The longest name of a target, bytes.
const MAX_ID_BYTES: usize = 128;

#[derive(Clone, Debug)]
pub(crate) struct TrackSource {
    bits_per_second: u32,
    /// The target's name for data without one.
    id: String,
    kind: TrackInput,
}

#[derive(Clone, Debug)]
enum TrackInput {
    File(PathBuf),
    Gpsd { address: String, shared: ReaderSlot },
    Cot { port: Port, shared: ReaderSlot },
    Nmea { port: Port, shared: ReaderSlot },
}

impl TrackSource {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut options = Options::split(text);
        let bits_per_second = options.rate(Service::Track)?;
        let interface = options.interface()?;
        let id = options.take_value("id").unwrap_or("target").to_owned();
        if id.is_empty() || id.len() > MAX_ID_BYTES {
            return Err(format!("its id is not of 1 to {MAX_ID_BYTES} bytes"));
        }
        let body = options.finish()?;
        let kind = match (body.strip_prefix("file:"), body.split_once("://")) {
            (Some(""), _) => return Err("it names no file".to_owned()),
            (Some(path), _) => TrackInput::File(PathBuf::from(path)),
            (None, Some((scheme @ ("gpsd" | "cot+udp" | "nmea+udp"), address))) => {
                check_address(address)?;
                let (address, shared) = (address.to_owned(), ReaderSlot::default());
                match scheme {
                    "gpsd" => TrackInput::Gpsd { address, shared },
                    "cot+udp" => TrackInput::Cot { port: Port { address, interface }, shared },
                    _ => TrackInput::Nmea { port: Port { address, interface }, shared },
                }
            }
            _ => return Err("it is unknown".to_owned()),
        };
        Ok(Self { bits_per_second, id, kind })
    }

    pub(crate) async fn open(&self, duration: Duration) -> Result<OpenedSource, SourceError> {
        let feed = match &self.kind {
            TrackInput::File(path) => Feed::planned(file::open(path, &self.id).await?, duration),
            TrackInput::Gpsd { address, shared } => {
                Feed::live(shared.join(address, None, live::gpsd(address)).await?, duration)
            }
            TrackInput::Cot { port, shared } => {
                Feed::live(shared.join(&port.address, None, live::cot(port)).await?, duration)
            }
            TrackInput::Nmea { port, shared } => {
                Feed::live(shared.join(&port.address, None, live::nmea(port, &self.id)).await?, duration)
            }
        };
        let format = format::JSON_LINES.to_owned();
        Ok(OpenedSource::Stream { bits_per_second: self.bits_per_second, format, feed: feed.with_keepalive(KEEPALIVE) })
    }

    pub(crate) async fn check(&self) -> Result<(), SourceError> {
        match &self.kind {
            TrackInput::File(path) => file::open(path, &self.id).await.map(drop),
            TrackInput::Gpsd { .. } => Ok(()),
            TrackInput::Cot { shared, .. } | TrackInput::Nmea { shared, .. } if shared.is_running().await => Ok(()),
            TrackInput::Cot { port, .. } | TrackInput::Nmea { port, .. } => port.listen().await.map(drop),
        }
    }
}

#[cfg(test)]
mod tests;
