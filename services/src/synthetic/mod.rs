//! Synthetic data of exactly the rates and sizes of Sproull et al. 2007, in the real formats: a valid transport
//! stream, JSON lines, a JPEG, SenML.
//!
//! Nothing here does I/O or reads a clock; the same input gives the same bytes.

mod picture;
mod reading;
mod transport_stream;
mod walk;

use std::sync::LazyLock;
use std::time::Duration;

use bytes::Bytes;
use roost_wire::{FlowKind, Service};

use crate::pace::{Due, Schedule};

/// The datagrams of a stream service with their due times; empty for a service whose data is an object.
///
/// `started_ms` is the start of the stream in milliseconds of the Unix epoch: the time stamps of the track's
/// records count from there.
///
/// ```
/// use std::time::Duration;
/// use roost_wire::Service;
///
/// let bytes: usize =
///     roost_services::synthetic::stream(Service::Track, Duration::from_secs(10), 0).map(|due| due.payload.len()).sum();
/// assert_eq!(bytes, 50_000);
/// ```
pub fn stream(service: Service, duration: Duration, started_ms: u64) -> SyntheticStream {
    let schedule = match service.flow_kind() {
        FlowKind::Stream { bits_per_second, packet_bytes } => Schedule::new(bits_per_second, packet_bytes, duration),
        FlowKind::Object { .. } => Schedule::new(0, 0, duration),
    };
    SyntheticStream { service, schedule, started_ms }
}

/// The object of an object service; empty for a service whose data is a stream.
pub fn object(service: Service) -> Bytes {
    // Made once: every request gets a cheap clone.
    static PICTURE: LazyLock<Bytes> = LazyLock::new(picture::jpeg);
    static READING: LazyLock<Bytes> = LazyLock::new(reading::senml);
    match service.base() {
        Service::Image => PICTURE.clone(),
        Service::Sensor => READING.clone(),
        Service::Video | Service::Track | Service::Named(_) => Bytes::new(),
    }
}

/// The media type of the data of [`stream`] and [`object`].
pub const fn format(service: Service) -> &'static str {
    match service.base() {
        Service::Video => crate::format::MPEG_TS,
        Service::Track => crate::format::JSON_LINES,
        Service::Image => crate::format::JPEG,
        Service::Sensor => crate::format::SENML_JSON,
        Service::Named(_) => crate::format::BYTES,
    }
}

#[derive(Clone, Debug)]
pub struct SyntheticStream {
    service: Service,
    schedule: Schedule,
    started_ms: u64,
}

impl Iterator for SyntheticStream {
    type Item = Due;

    fn next(&mut self) -> Option<Due> {
        let slot = self.schedule.next()?;
        let payload = match self.service {
            Service::Track => walk::record(slot, self.started_ms),
            _ => transport_stream::datagram(slot),
        };
        Some(Due { at: slot.at, payload })
    }
}
