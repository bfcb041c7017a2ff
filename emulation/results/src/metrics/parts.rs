//! The parts of the offered bytes.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::per_service;
use super::traffic::sent;
use crate::record::ProgramEnd;
use crate::{NodeSpan, Results};

/// The daemons' class of traffic for the services' data.
const PAYLOAD: &str = "payload";
/// The classes of control traffic, in the order of a request's life.
const CLASSES: [&str; 6] = ["join", "renew", "lookup", "mesh", "summary", "gossip"];

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TrafficPart {
    /// `payload` (delivered), `data` (payload sent beyond that: relayed again, retransmitted, lost, the
    /// messages' own headers), `join`, `renew`, `lookup`, `mesh`, `summary`, `gossip`, `forwarded` (sent on by
    /// hosts on several nets, which count the same packet again), `programs` (instead of that, with the traffic of the
    /// plan's own programs), `headers` (the rest: sealing, framing, acknowledgements), or `rest` (all of these, if no
    /// host without a program tells what headers take).
    pub part: String,
    pub bytes: u64,
    /// Bytes for each completed service; `None` if programs ran.
    pub per_service: Option<f64>,
}

/// The parts of the offered bytes, which add up to them; empty if the daemons left no counters at the end.
pub(super) fn parts(results: &Results, offered: Option<u64>, payload: u64, completed: u64) -> Vec<TrafficPart> {
    let is_counted = results.nodes.values().any(|span| span.first != span.last);
    let Some(offered) = offered.filter(|_| is_counted) else { return Vec::new() };
    let mut classes: BTreeMap<String, u64> = BTreeMap::new();
    for span in results.nodes.values() {
        for (class, bytes) in counted(span) {
            *classes.entry(class).or_default() += bytes;
        }
    }
    let data = classes.remove(PAYLOAD).unwrap_or(0).saturating_sub(payload);
    let mut parts = vec![("payload".to_owned(), payload), ("data".to_owned(), data)];
    for class in CLASSES {
        parts.push((class.to_owned(), classes.remove(class).unwrap_or(0)));
    }
    parts.extend(classes);
    let named: u64 = parts.iter().map(|(_, bytes)| bytes).sum();
    let rest = offered.saturating_sub(named);
    let only_services = has_only_services(results);
    let others = of_others(results).map(|bytes| bytes.min(rest));
    let (other_part, last_part) = match others {
        _ if only_services => ("forwarded", "headers"),
        Some(_) => ("programs", "headers"),
        None => ("", "rest"),
    };
    parts.extend(others.map(|bytes| (other_part.to_owned(), bytes)));
    parts.push((last_part.to_owned(), rest - others.unwrap_or(0)));
    let each = |bytes| per_service(bytes, completed).filter(|_| only_services);
    let part = |(part, bytes)| TrafficPart { part, bytes, per_service: each(bytes) };
    parts.into_iter().map(part).collect()
}

/// True if nothing but services sent anything: no program of the plan, and no traffic agent.
pub(super) fn has_only_services(results: &Results) -> bool {
    with_others(results).is_empty()
}

/// The hosts of programs that ran, and of traffic agents.
fn with_others(results: &Results) -> BTreeSet<&str> {
    let programs = results.programs.iter().filter(|program| program.end != ProgramEnd::NotStarted);
    let agents = results.traffic.iter().map(|agent| agent.host.as_str());
    programs.map(|program| program.host.as_str()).chain(agents).collect()
}

/// Bytes of others than the daemons: those that hosts on several nets forwarded, and those of programs and traffic
/// agents. They are what such hosts offered beyond their daemons' sockets, assuming the headers for each byte of all other
/// hosts. `None` if there is no such host, or if programs ran on all hosts.
fn of_others(results: &Results) -> Option<u64> {
    let with_others = with_others(results);
    let mut offered: BTreeMap<&str, (u64, usize)> = BTreeMap::new();
    for link in sent(&results.links) {
        let (bytes, nets) = offered.entry(&link.host).or_default();
        *bytes += link.bytes_in;
        *nets += 1;
    }
    let mut own: BTreeMap<&str, u64> = BTreeMap::new();
    for (name, span) in &results.nodes {
        *own.entry(host_of(name, results)).or_default() += since(span.first.sent_bytes, span.last.sent_bytes);
    }
    let (mut ends, mut shared) = ((0, 0), None);
    for (host, (bytes, nets)) in offered {
        let is_shared = nets > 1 || with_others.contains(host);
        let sums = if is_shared { shared.get_or_insert((0, 0)) } else { &mut ends };
        *sums = (sums.0 + bytes, sums.1 + own.get(host).copied().unwrap_or(0));
    }
    let (offered, own) = shared.filter(|_| ends.1 > 0 || with_others.is_empty())?;
    let headers = if ends.1 > 0 { ends.0 as f64 / ends.1 as f64 } else { 1.0 };
    // Not negative, and at most the offered bytes.
    Some((offered as f64 - own as f64 * headers.max(1.0)).max(0.0) as u64)
}

/// The host of a daemon: the one of its name; for a hub's daemon the hub's host, whose name is a prefix of its
/// own.
pub fn host_of<'a>(daemon: &'a str, results: &'a Results) -> &'a str {
    let is_of = |host: &&String| daemon.strip_prefix(host.as_str()).is_some_and(|rest| rest.starts_with("-hub"));
    results.run.hubs.iter().find(is_of).map_or(daemon, String::as_str)
}

/// Bytes that the daemon sent between its two records, by class.
pub(super) fn counted(span: &NodeSpan) -> BTreeMap<String, u64> {
    let first = |class: &str| span.first.traffic_sent_bytes.get(class).copied().unwrap_or(0);
    let between = |(class, last): (&String, &u64)| (class.clone(), since(first(class), *last));
    span.last.traffic_sent_bytes.iter().map(between).collect()
}

/// The growth of a counter; a counter that fell was restarted, and counts as a whole.
pub(super) fn since(first: u64, last: u64) -> u64 {
    last.checked_sub(first).unwrap_or(last)
}

#[cfg(test)]
mod tests {
    use super::super::{Metrics, TrafficMetrics};
    use super::*;
    use crate::testing;

    #[test]
    fn parts_sum_to_offered_bytes() {
        let traffic = Metrics::from_results(&testing::by_hand()).traffic;
        let parts: Vec<(&str, u64)> = traffic.parts.iter().map(|part| (part.part.as_str(), part.bytes)).collect();
        let expected = [
            ("payload", 4100),
            ("data", 400),
            ("join", 0),
            ("renew", 30),
            ("lookup", 200),
            ("mesh", 0),
            ("summary", 0),
            ("gossip", 0),
            ("headers", 4270),
        ];
        assert_eq!(parts, expected);
        assert_eq!(traffic.overhead_bytes, Some(9000 - 4100));
        assert_eq!(traffic.offered_per_service, Some(3000.0));
    }

    #[test]
    fn forwarded_bytes_are_separate_part() {
        let mut results = testing::by_hand();
        // The hub is on the link; on the LAN as well, it forwards: 5000 + 700 offered, of which its sockets
        // sent 600. On one net are a and b, which offered 4000 bytes and sent 2900 + 250.
        let mut link = results.links[0].clone();
        link.host = "hub".into();
        link.bytes_in = 700;
        link.bytes_out = 700;
        results.links.push(link);
        let traffic = Metrics::from_results(&results).traffic;
        let bytes = |name: &str| traffic.parts.iter().find(|part| part.part == name).unwrap().bytes;
        assert_eq!(bytes("forwarded"), (5700.0 - 600.0 * 4000.0 / 3150.0_f64) as u64);
        assert_eq!(traffic.parts.iter().map(|part| part.bytes).sum::<u64>(), 9700);
    }

    #[test]
    fn program_traffic_is_of_no_service() {
        let mut results = testing::by_hand();
        let before = Metrics::from_results(&results).traffic;
        results.programs = vec![testing::program("b")];
        let traffic = Metrics::from_results(&results).traffic;
        let bytes = |traffic: &TrafficMetrics, name: &str| {
            traffic.parts.iter().find(|part| part.part == name).map(|part| part.bytes)
        };
        // b offered 3000 bytes, and its daemon sent 250; a and the hub offered 6000, and sent 3500.
        let of_program = (3000.0 - 250.0 * 6000.0 / 3500.0_f64) as u64;
        assert_eq!((bytes(&traffic, "programs"), bytes(&traffic, "forwarded")), (Some(of_program), None));
        assert_eq!(traffic.parts.iter().map(|part| part.bytes).sum::<u64>(), 9000);
        results.programs = ["a", "b", "hub"].map(testing::program).into();
        let all = Metrics::from_results(&results).traffic;
        assert_eq!((bytes(&all, "programs"), bytes(&all, "headers"), bytes(&all, "rest")), (None, None, Some(4270)));
        results.programs.iter_mut().for_each(|program| program.end = ProgramEnd::NotStarted);
        assert_eq!(Metrics::from_results(&results).traffic, before);
        assert_eq!((traffic.offered_bytes, traffic.offered_per_service), (before.offered_bytes, None));
        assert_eq!((traffic.port_per_service, traffic.overhead_per_service), (None, None));
        assert!(traffic.parts.iter().all(|part| part.per_service.is_none()));
    }

    #[test]
    fn hub_daemon_belongs_to_host() {
        let mut results = testing::by_hand();
        results.run.hubs = vec!["a".into(), "x45-1".into()];
        let hosts = ["a", "a-hub", "x45-1-hubx", "x45-10-hub", "b"].map(|name| host_of(name, &results).to_owned());
        assert_eq!(hosts, ["a", "a", "x45-1", "x45-10-hub", "b"]);
    }

    #[test]
    fn aborted_run_has_no_parts() {
        let mut results = testing::by_hand();
        results.nodes.values_mut().for_each(|span| span.last = span.first.clone());
        let metrics = Metrics::from_results(&results);
        assert!(metrics.traffic.parts.is_empty() && metrics.traffic.overhead_bytes.is_some());
        assert!(metrics.nodes.iter().all(|node| node.cpu_share.is_none()));
        results.links.clear();
        assert_eq!(
            Metrics::from_results(&results).traffic.overhead_bytes,
            None,
            "what was under way was not written down"
        );
    }
}
