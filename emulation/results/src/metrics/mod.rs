//! The figures of a run: pure arithmetic over its records.

mod latency;
mod measurements;
mod origins;
mod parts;
mod rooms;
mod tally;
mod timeline;
mod traffic;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde::Serialize;

pub use latency::{Distribution, has_enough_values};
pub use measurements::{MeasuredPoint, MeasuredUnit, MeasurementPart, MeasurementSummary, MeasurementValues};
pub use parts::TrafficPart;
pub use parts::host_of;
pub use rooms::{RoomUse, room_uses};
pub use tally::RequestCounts;
pub use timeline::Second;
pub use traffic::{Drops, LinkUse, NodeUse, TrafficMetrics};

use super::read::Results;
use super::record::{RequestOutcome, RequestRecord};

/// The services of the published workload, in the order of its tables; others follow by name.
const ORDER: [&str; 4] = ["video", "track", "image", "sensor"];

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Metrics {
    pub requests: RequestCounts,
    /// Figures by service; only services that were requested.
    pub services: Vec<Service>,
    /// Figures by service for each class of requesters.
    pub classes: Vec<Service>,
    /// The reasons of failures, most frequent first.
    pub failures: Vec<(String, u64)>,
    pub traffic: TrafficMetrics,
    pub nodes: Vec<NodeUse>,
    /// The use of each direction of each link, most bytes first.
    pub links: Vec<LinkUse>,
    pub timeline: Vec<Second>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rooms: Vec<RoomUse>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub measurements: Vec<MeasurementSummary>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Service {
    pub service: String,
    /// The class of the requesters' hosts; `None` for all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    pub requests: RequestCounts,
    /// The latency of completed requests: to the first byte of a stream, to the end of an object.
    pub latency: Distribution,
    /// The latency of those that began with a handshake, because requester and provider had no connection
    /// before.
    pub first_contacts: Distribution,
    /// The latency of those over an existing connection.
    pub warm: Distribution,
    pub payload_bytes: u64,
    pub packets: u64,
    pub lost: u64,
    /// Completed requests whose data a hub relayed.
    pub relayed: u64,
}

impl Metrics {
    pub fn from_results(results: &Results) -> Self {
        let requests = RequestCounts::from_requests(&results.requests);
        Self {
            requests,
            services: services(&results.requests),
            classes: classes(&results.requests),
            failures: failures(&results.requests),
            traffic: traffic::traffic(results, requests.completed),
            nodes: traffic::nodes(results),
            links: traffic::links(results),
            timeline: timeline::timeline(&results.samples),
            rooms: room_uses(&results.room_streams),
            measurements: measurements::summaries(&results.measurements),
        }
    }

    /// The figures of this service, if it was requested.
    pub fn service(&self, name: &str) -> Option<&Service> {
        self.services.iter().find(|service| service.service == name)
    }
}

/// `bytes` for each of `services`; `None` if that is 0.
pub fn per_service(bytes: u64, services: u64) -> Option<f64> {
    (services > 0).then(|| bytes as f64 / services as f64)
}

/// The position of a service among the others.
pub(crate) fn place(service: &str) -> (usize, &str) {
    (ORDER.iter().position(|known| *known == service).unwrap_or(ORDER.len()), service)
}

fn services(requests: &[RequestRecord]) -> Vec<Service> {
    let mut groups: BTreeMap<(usize, &str), Vec<&RequestRecord>> = BTreeMap::new();
    for request in requests {
        groups.entry(place(&request.service)).or_default().push(request);
    }
    groups.into_iter().map(|((_, name), requests)| service(name, None, &requests)).collect()
}

fn classes(requests: &[RequestRecord]) -> Vec<Service> {
    let mut groups: BTreeMap<((usize, &str), &str), Vec<&RequestRecord>> = BTreeMap::new();
    for request in requests {
        groups.entry((place(&request.service), &request.class)).or_default().push(request);
    }
    groups.into_iter().map(|(((_, name), class), requests)| service(name, Some(class), &requests)).collect()
}

fn service(name: &str, class: Option<&str>, requests: &[&RequestRecord]) -> Service {
    let completed = |request: &&&RequestRecord| request.outcome == RequestOutcome::Completed;
    let contacts = |first: bool| {
        let of = requests.iter().filter(|request| request.first_contact == Some(first));
        Distribution::from_values(of.filter_map(|request| request.latency_ms()).collect())
    };
    Service {
        service: name.to_owned(),
        class: class.map(ToOwned::to_owned),
        requests: RequestCounts::from_requests(requests.iter().copied()),
        latency: Distribution::from_values(requests.iter().filter_map(|request| request.latency_ms()).collect()),
        first_contacts: contacts(true),
        warm: contacts(false),
        payload_bytes: requests.iter().map(|request| request.bytes).sum(),
        packets: requests.iter().map(|request| request.packets).sum(),
        lost: requests.iter().map(|request| request.lost).sum(),
        relayed: requests.iter().filter(completed).filter(|request| request.relayed).count() as u64,
    }
}

fn failures(requests: &[RequestRecord]) -> Vec<(String, u64)> {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for request in requests {
        let reason = match request.outcome {
            RequestOutcome::Completed => continue,
            RequestOutcome::Failed => request.error.as_deref().unwrap_or("no reason given"),
            RequestOutcome::TimedOut => "timed out",
            RequestOutcome::Cut => "cut by the end",
        };
        *counts.entry(reason).or_default() += 1;
    }
    let mut counts: Vec<(String, u64)> = counts.into_iter().map(|(reason, count)| (reason.to_owned(), count)).collect();
    counts.sort_by_key(|(_, count)| Reverse(*count));
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn a_run_counted_by_hand() {
        let metrics = Metrics::from_results(&testing::by_hand());
        let expected =
            RequestCounts { asked: 6, completed: 3, failed: 1, timed_out: 1, cut: 1, drained: 1, dropped_by_reader: 0 };
        assert_eq!(metrics.requests, expected);
        // Of the five that could end, three were completed.
        assert_eq!(metrics.requests.success_ratio(), Some(0.6));
        let names: Vec<&str> = metrics.services.iter().map(|service| service.service.as_str()).collect();
        assert_eq!(names, ["video", "image", "sensor", "weather"]);
        let video = metrics.service("video").unwrap();
        assert_eq!((video.requests.asked, video.requests.completed, video.relayed), (2, 2, 1));
        // First bytes after 100 and 300 ms.
        assert_eq!((video.latency.p50, video.latency.mean), (Some(200.0), Some(200.0)));
        assert_eq!(video.latency.p95.map(f64::round), Some(290.0));
        // An object counts to its end: 500 ms, not 80.
        assert_eq!(metrics.service("image").unwrap().latency.p50, Some(500.0));
        assert_eq!(metrics.service("sensor").unwrap().latency.p50, None);
        let reasons: Vec<(&str, u64)> = metrics.failures.iter().map(|(name, count)| (name.as_str(), *count)).collect();
        assert_eq!(reasons, [("cut by the end", 1), ("not-found", 1), ("timed out", 1)]);
    }

    #[test]
    fn first_contacts_separate_from_warm() {
        let mut results = testing::by_hand();
        (results.requests[0].first_contact, results.requests[1].first_contact) = (Some(true), Some(false));
        let metrics = Metrics::from_results(&results);
        let video = metrics.service("video").unwrap();
        assert_eq!((video.first_contacts.p50, video.warm.p50), (Some(100.0), Some(300.0)));
        // For the image it is unknown.
        let image = metrics.service("image").unwrap();
        assert_eq!((image.latency.count, image.first_contacts.count, image.warm.count), (1, 0, 0));
    }

    #[test]
    fn classes_are_counted_apart() {
        let metrics = Metrics::from_results(&testing::by_hand());
        let low =
            metrics.classes.iter().find(|row| row.class.as_deref() == Some("low") && row.service == "video").unwrap();
        assert_eq!((low.requests.asked, low.requests.completed), (1, 1));
    }

    #[test]
    fn empty_run_has_no_figures() {
        let mut results = testing::by_hand();
        results.requests.clear();
        results.samples.clear();
        results.links.clear();
        results.nodes.clear();
        let metrics = Metrics::from_results(&results);
        assert_eq!(metrics.requests.success_ratio(), None);
        assert_eq!(metrics.traffic.offered_bytes, None);
        assert!(metrics.services.is_empty() && metrics.timeline.is_empty());
    }
}
