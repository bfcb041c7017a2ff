//! The destinations of a room's streams: a file or a port for each.

use std::collections::BTreeMap;
use std::path::PathBuf;

use roost_services::{SinkSpec, TrackFormat};
use roost_wire::{NodeId, Service};

use crate::args::{OutputFormat, RoomArgs};
use crate::failure::{Failure, Outcome};

pub(super) type MemberStream = (NodeId, Service);

/// Gives each stream its destination.
pub(super) struct StreamOutputs {
    to: OutputTarget,
    format: TrackFormat,
    /// The number of each stream, from 0, and how often it had a destination.
    given: BTreeMap<MemberStream, (u16, u32)>,
}

enum OutputTarget {
    Nowhere,
    Folder(PathBuf),
    /// The kind of sink, the host and the first port.
    Players(fn(String) -> SinkSpec, String, u16),
}

impl StreamOutputs {
    /// The destinations that the command line names; a missing folder is made.
    pub(super) fn from_args(args: &RoomArgs) -> Outcome<Self> {
        let to = match (&args.output_dir, &args.output) {
            (Some(folder), _) => {
                std::fs::create_dir_all(folder).map_err(|error| Failure::file("create", folder, &error))?;
                OutputTarget::Folder(folder.clone())
            }
            (None, Some(output)) => players(output)?,
            (None, None) => OutputTarget::Nowhere,
        };
        let format = match args.format {
            OutputFormat::Json => TrackFormat::JsonLines,
            OutputFormat::Full => TrackFormat::Full,
            OutputFormat::Raw => TrackFormat::Raw,
        };
        Ok(Self { to, format, given: BTreeMap::new() })
    }

    pub(super) fn format(&self) -> TrackFormat {
        self.format
    }

    /// The destination of a stream that begins, perhaps again: its port as before, or a new file each time.
    ///
    /// # Errors
    /// Fails if no port is left.
    pub(super) fn of_stream(&mut self, key: MemberStream) -> Outcome<Option<SinkSpec>> {
        let next = u16::try_from(self.given.len()).unwrap_or(u16::MAX);
        let (number, times) = self.given.entry(key).or_insert((next, 0));
        *times += 1;
        let (node, service) = key;
        Ok(match &self.to {
            OutputTarget::Nowhere => None,
            OutputTarget::Folder(folder) => {
                let again = if *times > 1 { format!("-{times}") } else { String::new() };
                let name = format!("{node}{again}.{}", ending(service, self.format));
                Some(SinkSpec::File(folder.join(name)))
            }
            OutputTarget::Players(how, host, first) => {
                let port = number.checked_mul(2).and_then(|offset| first.checked_add(offset));
                let port = port.ok_or_else(|| Failure::failed(format!("no port is left from {first} on")))?;
                Some(how(format!("{host}:{port}")))
            }
        })
    }
}

fn players(output: &SinkSpec) -> Outcome<OutputTarget> {
    let wrong = || {
        Failure::usage(
            "name the first of the players' ports: -o udp://HOST:PORT or rtp://HOST:PORT; or a folder: --output-dir DIR",
        )
    };
    let (how, address): (fn(String) -> SinkSpec, _) = match output {
        SinkSpec::Udp(address) => (SinkSpec::Udp, address),
        SinkSpec::Rtp(address) => (SinkSpec::Rtp, address),
        _ => return Err(wrong()),
    };
    let (host, port) = address.rsplit_once(':').ok_or_else(wrong)?;
    Ok(OutputTarget::Players(how, host.to_owned(), port.parse().map_err(|_| wrong())?))
}

fn ending(service: Service, format: TrackFormat) -> &'static str {
    match (service.base(), format) {
        (Service::Video, _) => "ts",
        (Service::Track, TrackFormat::JsonLines | TrackFormat::Full) => "jsonl",
        (Service::Track, TrackFormat::Raw) => "txt",
        (Service::Image, _) => "jpg",
        (Service::Sensor, _) => "json",
        (Service::Named(_), _) => "data",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(to: OutputTarget) -> impl FnMut(u8, Service) -> Option<String> {
        let mut places = StreamOutputs { to, format: TrackFormat::JsonLines, given: BTreeMap::new() };
        move |number, service| {
            let place = places.of_stream((NodeId::from_bytes([number; 16]), service)).ok()?;
            place.map(|spec| spec.to_string())
        }
    }

    #[test]
    fn each_stream_keeps_its_port() {
        let mut place = places(OutputTarget::Players(SinkSpec::Udp, "[::1]".to_owned(), 65_531));
        assert_eq!(place(1, Service::Video).as_deref(), Some("udp://[::1]:65531"));
        assert_eq!(place(2, Service::Video).as_deref(), Some("udp://[::1]:65533"));
        assert_eq!(place(1, Service::Video).as_deref(), Some("udp://[::1]:65531"));
        assert_eq!(place(1, Service::Track).as_deref(), Some("udp://[::1]:65535"));
        assert_eq!(place(3, Service::Video), None);
    }

    #[test]
    fn returning_stream_gets_new_file() {
        let mut place = places(OutputTarget::Folder("x".into()));
        let node = "01".repeat(16);
        for (service, name) in [
            (Service::Video, format!("x/{node}.ts")),
            (Service::Track, format!("x/{node}.jsonl")),
            (Service::Video, format!("x/{node}-2.ts")),
        ] {
            assert_eq!(place(1, service), Some(name));
        }
    }

    #[test]
    fn player_output_requires_host_and_port() {
        for text in ["-", "clip.ts"] {
            assert!(players(&text.parse().unwrap()).is_err(), "{text}");
        }
        for text in ["udp://127.0.0.1:5004", "rtp://127.0.0.1:5004"] {
            let mut place = places(players(&text.parse().unwrap()).ok().unwrap());
            assert_eq!(place(1, Service::Video).as_deref(), Some(text));
        }
    }
}
