//! A node's own settings.

use std::ops::RangeInclusive;
use std::time::Duration;

use roost_daemon::config::{ConfigError, Kind, Setting, Settings};
use roost_proto::{Cell, Endpoint, Role, Service, ServiceSet};
use roost_services::{SourceSpec, Sources};

/// A node's own settings, read.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    /// Where it is.
    pub(crate) cell: Cell,
    /// The hubs it may turn to, each with its endpoints.
    pub(crate) hubs: Vec<Vec<Endpoint>>,
    /// As what the hubs must be certified.
    pub(crate) hub_role: Role,
    /// What it offers.
    pub(crate) offer: Offer,
    /// How long a stream lasts that was requested without a duration.
    pub(crate) stream_duration: Duration,
}

/// What a node offers: what a reload may change.
#[derive(Clone, Debug)]
pub(crate) struct Offer {
    /// The services and where their data comes from.
    pub(crate) sources: Sources,
    /// Streams provided at once.
    pub(crate) max_streams: u16,
    /// Uplink for streams together, kbit/s; `u32::MAX` sets no limit.
    pub(crate) uplink_kbps: u32,
}

/// The durations that streams may have; requests may ask for no longer ones.
const STREAM_DURATIONS: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(24 * 3600);

/// The rows that a node adds to the common settings.
pub(crate) fn settings() -> Vec<Setting> {
    let row = |key, kind, default: &str, doc, choose, reload| Setting {
        key,
        kind,
        default: default.to_owned(),
        doc,
        choose,
        reload,
    };
    let kind = |check| Kind::Other { name: "source", check, example: "synthetic" };
    let source = |key, check, doc, choose| row(key, kind(check), "", doc, choose, true);
    vec![
        row(
            "super",
            Kind::Hubs,
            "",
            "Super nodes to turn to, the preferred one first; endpoints of the same one stand in one entry, with commas.",
            "Two or three, so that requests still complete when one dies. Either this or `server`.",
            false,
        ),
        row(
            "server",
            Kind::Hubs,
            "",
            "The server of the client/server baseline, instead of super nodes: all data goes through it.",
            "For comparisons; the overlay needs no server. Either this or `super`.",
            false,
        ),
        row(
            "at",
            Kind::Cell,
            "",
            "Where the node is on the grid.",
            "In whole cells, such as 27,92; `roost move` changes it while the node runs.",
            false,
        ),
        row(
            "services",
            Kind::Services,
            "",
            "Services that the node offers: video, track, image, sensor; one with a source of its own is offered too.",
            "Any set of them; without any the node only asks.",
            true,
        ),
        row(
            "max_streams",
            Kind::Count(u16::MAX as u32),
            "8",
            "Streams (video, track) provided at once; further requests go to the next provider.",
            "As many as the uplink and the camera bear.",
            true,
        ),
        row(
            "uplink",
            Kind::Rate,
            "none",
            "Uplink that the node's streams may take together; further requests go to the next provider.",
            "What the link carries, less what others need; none sets no limit.",
            true,
        ),
        row(
            "stream_duration",
            Kind::Duration,
            "10s",
            "How long a stream lasts that was requested without a duration.",
            "Requesters may ask for more or less.",
            false,
        ),
        source(
            "sources.video",
            |text| check(Service::Video, text),
            "Where video comes from.",
            "synthetic (700 kbit/s), file:PATH (MPEG-TS), udp://IP:PORT or rtp://IP:PORT (live).",
        ),
        source(
            "sources.track",
            |text| check(Service::Track, text),
            "Where track comes from.",
            "synthetic (40 kbit/s), gpsd://HOST:PORT, cot+udp://IP:PORT, nmea+udp://IP:PORT or file:PATH.",
        ),
        source(
            "sources.image",
            |text| check(Service::Image, text),
            "Where images come from.",
            "synthetic (100 KB), dir:PATH (JPEGs) or command:PROGRAM.",
        ),
        source(
            "sources.sensor",
            |text| check(Service::Sensor, text),
            "Where sensor readings come from.",
            "synthetic (10 KB), file:PATH (SenML JSON) or command:PROGRAM.",
        ),
    ]
}

fn check(service: Service, text: &str) -> Result<(), String> {
    SourceSpec::parse(service, text).map(drop).map_err(|error| error.to_string())
}

/// The setting of a service's source.
const fn source_key(service: Service) -> &'static str {
    match service {
        Service::Video => "sources.video",
        Service::Track => "sources.track",
        Service::Image => "sources.image",
        Service::Sensor => "sources.sensor",
    }
}

impl Config {
    /// Reads a node's own settings.
    pub(crate) fn read(settings: &Settings) -> Result<Self, ConfigError> {
        let (supers, server) = (settings.hubs("super")?, settings.hubs("server")?);
        let (hubs, hub_role) = match (supers.is_empty(), server.is_empty()) {
            (false, true) => (supers, Role::SuperNode),
            (true, false) => (server, Role::Server),
            (false, false) => {
                let both = "settings super and server exclude each other: a node is in the overlay or in the baseline";
                return Err(ConfigError::Conflict(both.to_owned()));
            }
            (true, true) => {
                let none = "no hub is given: name a super node with --super URI, or a server with --server URI";
                return Err(ConfigError::Conflict(none.to_owned()));
            }
        };
        let cell = settings.optional("at")?.ok_or_else(|| ConfigError::Missing {
            key: "at".to_owned(),
            advice: "say where the node is, such as --at 27,92".to_owned(),
        })?;
        let stream_duration = settings.duration_within("stream_duration", STREAM_DURATIONS)?;
        Ok(Self { cell, hubs, hub_role, offer: Offer::read(settings)?, stream_duration })
    }
}

impl Offer {
    /// Reads what a reload may change.
    pub(crate) fn read(settings: &Settings) -> Result<Self, ConfigError> {
        let named: ServiceSet = settings.list::<Service>("services")?.into_iter().collect();
        let mut sources = Sources::new();
        for service in Service::ALL {
            let key = source_key(service);
            let text = settings.text(key).or_else(|| named.contains(service).then_some("synthetic"));
            let Some(text) = text else { continue };
            let spec = SourceSpec::parse(service, text).map_err(|error| ConfigError::Value {
                key: key.to_owned(),
                value: text.to_owned(),
                origin: settings.origin(key),
                reason: error.to_string(),
            })?;
            sources.insert(spec);
        }
        Ok(Self { sources, max_streams: settings.required("max_streams")?, uplink_kbps: settings.rate_kbps("uplink")? })
    }
}

#[cfg(test)]
mod tests {
    use roost_daemon::config::Layers;

    use super::*;

    fn read(flags: &[(&str, &str)]) -> Result<Config, String> {
        let flags = flags.iter().map(|(key, text)| ((*key).to_owned(), (*text).to_owned())).collect();
        let layers = Layers { flags, ..Layers::default() };
        let settings = layers.read(settings()).map_err(|errors| errors[0].to_string())?;
        Config::read(&settings).map_err(|error| error.to_string())
    }

    #[test]
    fn a_service_is_offered_when_named_or_when_it_has_a_source() {
        let hub = ("super", "udp://h:1,tcp://h:1");
        let config = read(&[hub, ("at", "1,2"), ("services", "sensor"), ("sources.video", "synthetic")]).unwrap();
        let offered: Vec<_> = config.offer.sources.services().iter().collect();
        assert_eq!(offered, [Service::Video, Service::Sensor]);
        assert_eq!((config.hubs.len(), config.hubs[0].len(), config.hub_role), (1, 2, Role::SuperNode));
    }

    #[test]
    fn what_does_not_make_sense_is_said_in_a_sentence() {
        let hub = ("super", "udp://h:1");
        for (flags, part) in [
            (vec![("at", "1,2")], "no hub is given"),
            (vec![hub, ("server", "udp://h:2"), ("at", "1,2")], "exclude each other"),
            (vec![hub], "setting at is missing"),
            (vec![hub, ("at", "here")], "not a location"),
            (vec![hub, ("at", "1,2"), ("stream_duration", "0s")], "between 100ms and 1day"),
            (vec![hub, ("at", "1,2"), ("services", "videos")], "unknown service"),
            (vec![hub, ("at", "1,2"), ("sources.video", "tape:1")], "is no video source"),
        ] {
            let error = read(&flags).unwrap_err();
            assert!(error.contains(part), "{flags:?}: {error}");
        }
    }
}
