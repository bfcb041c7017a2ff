//! The sources of a node: one for each service it offers.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, SystemTime};

use roost_wire::messages::ServiceRequest;
use roost_wire::{FlowKind, Service, ServiceSet};

use crate::{Feed, OpenedSource, SourceError, SpecError, image, sensor, synthetic, track, video};

/// The longest text of a spec, bytes.
const MAX_SPEC_BYTES: usize = 4096;

/// The length of a stream if the request does not give one.
const DEFAULT_DURATION: Duration = Duration::from_secs(10);

/// The sources of the services that a node offers.
#[derive(Clone, Debug, Default)]
pub struct Sources(BTreeMap<Service, SourceSpec>);

impl Sources {
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a source; it replaces the source that its service had.
    pub fn insert(&mut self, spec: SourceSpec) {
        self.0.insert(spec.service, spec);
    }

    /// Replaces all sources by `next`. A source that did not change keeps its state: its live socket and its
    /// position in a folder.
    pub fn replace(&mut self, next: Self) {
        let before = std::mem::replace(self, next);
        for (service, spec) in before.0 {
            if self.0.get(&service) == Some(&spec) {
                self.0.insert(service, spec);
            }
        }
    }

    pub fn get(&self, service: Service) -> Option<&SourceSpec> {
        self.0.get(&service)
    }

    pub fn services(&self) -> ServiceSet {
        self.0.keys().copied().collect()
    }

    pub fn iter(&self) -> impl Iterator<Item = &SourceSpec> {
        self.0.values()
    }

    /// Checks every source: see [`SourceSpec::check`].
    ///
    /// # Errors
    /// The first service whose source fails, and the failure.
    pub async fn check(&self) -> Result<(), (Service, SourceError)> {
        for (service, spec) in &self.0 {
            spec.check().await.map_err(|error| (*service, error))?;
        }
        Ok(())
    }
}

/// The description of a service's data source. Clones share the live socket, so that several requesters can
/// have the same live stream.
#[derive(Clone, Debug)]
pub struct SourceSpec {
    service: Service,
    text: String,
    kind: SourceKind,
}

#[derive(Clone, Debug)]
enum SourceKind {
    Synthetic,
    Video(video::VideoSource),
    Track(track::TrackSource),
    Image(image::ImageSource),
    Sensor(sensor::SensorSource),
}

impl SourceSpec {
    /// Parses `text`. The module of each service lists the accepted forms; every service accepts `synthetic`.
    ///
    /// # Errors
    /// The text is malformed; the message lists the accepted forms.
    pub fn parse(service: Service, text: &str) -> Result<Self, SpecError> {
        let text = text.trim();
        if text.len() > MAX_SPEC_BYTES {
            let start: String = text.chars().take(40).collect();
            return Err(SpecError::source(service, &start, "it is too long", "at most 4096 bytes"));
        }
        let kind = match service.base() {
            Service::Named(_) => Err("a program offers it".to_owned()),
            _ if text == "synthetic" => return Ok(Self::synthetic(service)),
            Service::Video => video::VideoSource::parse(text).map(SourceKind::Video),
            Service::Track => track::TrackSource::parse(text).map(SourceKind::Track),
            Service::Image => image::ImageSource::parse(text).map(SourceKind::Image),
            Service::Sensor => sensor::SensorSource::parse(text).map(SourceKind::Sensor),
        };
        let kind = kind.map_err(|reason| SpecError::source(service, text, reason, Self::syntax(service)))?;
        Ok(Self { service, text: text.to_owned(), kind })
    }

    const fn syntax(service: Service) -> &'static str {
        match service.base() {
            Service::Video => video::SYNTAX,
            Service::Track => track::SYNTAX,
            Service::Image => image::SYNTAX,
            Service::Sensor => sensor::SYNTAX,
            Service::Named(_) => "`roost offer NAME -- PROGRAM`",
        }
    }

    pub fn synthetic(service: Service) -> Self {
        Self { service, text: "synthetic".to_owned(), kind: SourceKind::Synthetic }
    }

    pub const fn service(&self) -> Service {
        self.service
    }

    /// Starts the source for a request: a stream of its duration (10 s if it has none), or the object.
    ///
    /// # Errors
    /// The source gives nothing.
    pub async fn open(&self, request: &ServiceRequest) -> Result<OpenedSource, SourceError> {
        let duration = request.duration.unwrap_or(DEFAULT_DURATION);
        match &self.kind {
            SourceKind::Synthetic => Ok(open_synthetic(self.service, duration)),
            SourceKind::Video(source) => source.open(duration).await,
            SourceKind::Track(source) => source.open(duration).await,
            SourceKind::Image(source) => source.open().await,
            SourceKind::Sensor(source) => source.open().await,
        }
    }

    /// Computes the digest of a large file ahead of time, so that the first requester does not wait for it.
    pub async fn prepare(&self) {
        if let SourceKind::Image(source) = &self.kind {
            source.prepare().await;
        }
    }

    /// Checks, without using the source up, that it can be opened: files exist and have the right format, ports
    /// are free. Commands are not run and servers not dialled: they may come up later than the node.
    ///
    /// # Errors
    /// The source cannot be opened.
    pub async fn check(&self) -> Result<(), SourceError> {
        match &self.kind {
            SourceKind::Synthetic => Ok(()),
            SourceKind::Video(source) => source.check().await,
            SourceKind::Track(source) => source.check().await,
            SourceKind::Image(source) => source.check().await,
            SourceKind::Sensor(source) => source.check().await,
        }
    }
}

fn open_synthetic(service: Service, duration: Duration) -> OpenedSource {
    let format = synthetic::format(service).to_owned();
    match service.flow_kind() {
        FlowKind::Stream { bits_per_second, .. } => {
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            let started_ms = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
            let feed = Feed::planned(synthetic::stream(service, duration, started_ms), duration);
            OpenedSource::Stream { bits_per_second, format, feed }
        }
        FlowKind::Object { .. } => OpenedSource::Object { bytes: synthetic::object(service), format },
    }
}

impl fmt::Display for SourceSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

impl PartialEq for SourceSpec {
    fn eq(&self, other: &Self) -> bool {
        (self.service, &self.text) == (other.service, &other.text)
    }
}

impl Eq for SourceSpec {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::any_request;

    fn parse<'a>(texts: impl IntoIterator<Item = (Service, &'a str)>) -> Result<Sources, SpecError> {
        let mut sources = Sources::new();
        for (service, text) in texts {
            sources.insert(SourceSpec::parse(service, text)?);
        }
        Ok(sources)
    }

    #[test]
    fn sources_are_parsed_by_service() {
        let texts = [(Service::Sensor, "command:true"), (Service::Video, " synthetic "), (Service::Video, "udp://h:1")];
        let sources = parse(texts).unwrap();
        assert_eq!(sources.services(), ServiceSet::EMPTY.with(Service::Video).with(Service::Sensor));
        assert_eq!(sources.get(Service::Video).unwrap().to_string(), "udp://h:1");
        assert!(sources.get(Service::Image).is_none());
        let error = parse([(Service::Track, "gps")]).unwrap_err().to_string();
        assert!(error.starts_with("\"gps\" is no track source: it is unknown; expected synthetic, gpsd://"), "{error}");
        assert!(SourceSpec::parse(Service::Image, &"x".repeat(5000)).unwrap_err().to_string().len() < 200);
    }

    #[tokio::test]
    async fn unchanged_source_keeps_socket() {
        let taken = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let text = format!("udp://{}", taken.local_addr().unwrap());
        drop(taken);
        let mut sources = parse([(Service::Video, text.as_str())]).unwrap();
        let under_way = sources.get(Service::Video).unwrap().open(&any_request(None)).await.unwrap();
        let next = [(Service::Video, text.as_str()), (Service::Image, "synthetic")];
        sources.replace(parse(next).unwrap());
        sources.check().await.unwrap();
        sources.get(Service::Video).unwrap().open(&any_request(None)).await.unwrap();
        assert!(sources.get(Service::Image).is_some());
        drop(under_way);
        sources.replace(Sources::new());
        assert!(sources.services().is_empty());
    }

    #[tokio::test]
    async fn unavailable_gpsd_passes_check() {
        let sources = parse([(Service::Track, "gpsd://127.0.0.1:1")]).unwrap();
        sources.check().await.unwrap();
    }

    #[tokio::test]
    async fn synthetic_sources_have_the_seeds_sizes() {
        for service in Service::ALL {
            let spec = SourceSpec::synthetic(service);
            spec.check().await.unwrap();
            match (spec.open(&any_request(None)).await.unwrap(), service.flow_kind()) {
                (OpenedSource::Object { bytes, .. }, FlowKind::Object { bytes: expected }) => {
                    assert_eq!(bytes.len(), expected as usize);
                }
                (OpenedSource::Stream { bits_per_second, .. }, FlowKind::Stream { bits_per_second: expected, .. }) => {
                    assert_eq!(bits_per_second, expected);
                }
                (opened, form) => panic!("{opened:?} for {form:?}"),
            }
        }
    }
}
