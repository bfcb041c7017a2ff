//! The figures of a run: each has a title with its finding, and a caption that explains it.

mod bars;
mod canvas;
mod columns;
mod course;
mod forest;
mod ink;
mod key;
mod latency;
mod lines;
mod measured;
mod multiples;
mod network;
mod nodes;
mod plot_area;
mod radio_courses;
mod radios;
mod rates;
mod scale;
mod time;
mod trace;

use std::collections::{BTreeMap, BTreeSet};

use roost_results::Results;
use roost_results::metrics::{LinkUse, Metrics, NodeUse, Service, TrafficPart, host_of};
use roost_results::record::PositionRecord;
use roost_topology::Topology;
use roost_topology::file::parse_in;
use roost_topology::model::NetKind;

pub use self::bars::{FigureBar, bars};
pub use self::canvas::Sheet;
pub(super) use self::forest::forest;
pub use self::ink::{Ink, dark_rules};
pub use self::lines::{LineAxes, PlotLine, lines};
pub(crate) use self::multiples::{FigurePanel, MAX_PANELS, Multiples};
pub use self::network::{NetworkMarks, network};
use self::time::PanelSubject;
pub use self::trace::trace;
use super::incidents::incidents;
use super::text_format::{bytes, capital, count, counted, milliseconds, percent, quantile, rate};

/// The most links, and the most daemons, that are shown.
const LINKS: usize = 12;
/// The most reasons of failures that are shown.
const REASONS: usize = 8;
/// The parts of the traffic, as people call them.
const PARTS: [(&str, &str); 12] = [
    ("data", "data beyond delivery"),
    ("join", "join"),
    ("renew", "renew"),
    ("lookup", "lookup"),
    ("mesh", "hub to hub"),
    ("summary", "summaries"),
    ("gossip", "membership"),
    ("forwarded", "forwarded by routers"),
    ("programs", "own programs, and forwarded by routers"),
    ("rest", "headers, acks and own programs"),
    ("headers", "headers and acks"),
    ("payload", "payload"),
];

#[derive(Clone, Debug)]
pub struct Figure {
    /// The name of its file, without extension.
    pub name: String,
    /// The finding, as a sentence.
    pub title: String,
    /// The explanation, as a sentence.
    pub caption: String,
    pub sheet: Sheet,
}

/// The figures of a run for which its records suffice.
pub(super) fn of_run(results: &Results, metrics: &Metrics) -> Vec<Figure> {
    let topology = topology(results);
    [
        outcomes(metrics),
        latencies(metrics),
        timeline(results, metrics),
        overhead(metrics),
        links(results, metrics),
        rates::rates(&results.trace_loads, &metrics.links),
        radios::radios(results, topology.as_ref()),
        measured::measured(results, metrics),
        load(results, metrics),
        nodes::nodes(metrics, topology.as_ref()),
        failures(metrics),
        lateness(results),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The most hosts of a network that is drawn on the page of its run.
const MAX_DRAWN: usize = 1000;

/// The drawing of a run's network, and of the paths of its nodes.
pub(super) fn of_network(results: &Results) -> Vec<Figure> {
    let Some(topology) = topology(results).filter(|topology| (1..=MAX_DRAWN).contains(&topology.hosts.len())) else {
        return Vec::new();
    };
    let marks = NetworkMarks { hubs: &results.run.hubs };
    let network = Figure {
        name: "network".into(),
        title: format!("{}: {}", results.run.topology, parts_of(&topology)),
        caption: "The network before any fault. Names and values show in full in figures/network.svg.".into(),
        sheet: network(&topology, marks),
    };
    let paths = network::paths(&topology, &with_hubs(results, &topology), marks).map(|sheet| Figure {
        name: "paths".into(),
        title: format!("{} moved over the grid", capital(&counted(moved(results), "node"))),
        caption: "The cells of each node, from the start of the workload to its end: an open dot is where it began, \
                  a filled one where it ended. North is up."
            .into(),
        sheet,
    });
    std::iter::once(network).chain(paths).collect()
}

/// The cells of all nodes, and of the hubs without a node, where they stood first.
fn with_hubs(results: &Results, topology: &Topology) -> Vec<PositionRecord> {
    let mut all = results.positions.clone();
    let Some(side) = topology.motion.cell_m.filter(|side| *side > 0.0) else { return all };
    for hub in results.run.hubs.iter().filter(|hub| results.positions.iter().all(|one| one.node != **hub)) {
        let first = results.motions.iter().find(|motion| motion.host == *hub);
        if let Some((east, north)) = first.and_then(|motion| motion.x_m.zip(motion.y_m)) {
            let [x, y] = [east, north].map(|meters| (meters / side).floor() as i32);
            all.push(PositionRecord { t: 0.0, node: hub.clone(), x, y });
        }
    }
    all
}

fn topology(results: &Results) -> Option<Topology> {
    parse_in(&results.folder, "network", results.topology.as_deref()?).ok()
}

fn parts_of(topology: &Topology) -> String {
    let radios = topology.radios.len();
    let links = topology.nets.iter().filter(|net| net.kind == NetKind::Link).count();
    let lans = topology.nets.len() - links - radios;
    let counts = [(topology.hosts.len(), "host"), (links, "link"), (lans, "LAN"), (radios, "radio")];
    let present = counts.into_iter().filter(|(number, _)| *number > 0);
    present.map(|(number, name)| counted(number as u64, name)).collect::<Vec<_>>().join(", ")
}

/// The number of nodes that were in more than one cell.
fn moved(results: &Results) -> u64 {
    let mut first = BTreeMap::new();
    let away = results.positions.iter().filter(|position| {
        let cell = (position.x, position.y);
        *first.entry(&position.node).or_insert(cell) != cell
    });
    away.map(|position| &position.node).collect::<BTreeSet<_>>().len() as u64
}

fn outcomes(metrics: &Metrics) -> Option<Figure> {
    let total = &metrics.requests;
    let bar = |one: &Service| FigureBar {
        name: one.service.clone(),
        parts: vec![
            (one.requests.completed as f64, Ink::Blue),
            (one.requests.failed as f64, Ink::Vermilion),
            (one.requests.timed_out as f64, Ink::Amber),
            (one.requests.cut as f64, Ink::Gray),
        ],
        value: format!("{} of {}", count(one.requests.completed), count(one.requests.asked)),
    };
    let all = [
        ("completed", total.completed, Ink::Blue),
        ("failed", total.failed, Ink::Vermilion),
        ("timed out", total.timed_out, Ink::Amber),
        ("cut by the end", total.cut, Ink::Gray),
    ];
    let key: Vec<(String, Ink)> = all
        .into_iter()
        .filter(|(_, number, _)| *number > 0)
        .map(|(name, number, ink)| (format!("{} {name}", count(number)), ink))
        .collect();
    let bars_of: Vec<FigureBar> = metrics.services.iter().map(bar).collect();
    (total.asked > 0).then(|| Figure {
        name: "services".into(),
        title: format!("{} of {} were completed", count(total.completed), counted(total.asked, "request")),
        caption: "Requests by service, and how they ended. The numbers are those completed, of those made.".into(),
        sheet: bars(&bars_of, &key),
    })
}

fn latencies(metrics: &Metrics) -> Option<Figure> {
    let services: Vec<&Service> = metrics.services.iter().filter(|one| one.latency.count > 0).collect();
    let mut medians: Vec<(f64, &Service)> = services.iter().filter_map(|one| Some((one.latency.p50?, *one))).collect();
    medians.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (fastest, slowest) = (medians.first()?.1, medians.last()?.1);
    let median = |one: &Service| quantile(&one.latency, 500);
    let title = if medians.len() == 1 {
        format!("Half of the {} requests took less than {}", fastest.service, median(fastest))
    } else {
        let [from, to] = [fastest, slowest].map(|one| format!("{} of {}", median(one), one.service));
        format!("Median latency from {from} to {to}")
    };
    let few = medians.iter().filter(|(_, one)| !one.latency.is_quantile_reliable(500)).count();
    let brackets = match few {
        0 => "",
        all if all == medians.len() => "; all are in brackets, of fewer than 20 requests each",
        _ => "; one in brackets is of fewer than 20 requests",
    };
    Some(Figure {
        name: "latency".into(),
        title,
        caption: format!(
            "The part of the completed services that had begun (streams: video, track) or come whole (objects) \
             within that time. Dots and numbers are medians{brackets}."
        ),
        sheet: latency::curves(&services),
    })
}

fn timeline(results: &Results, metrics: &Metrics) -> Option<Figure> {
    let peak = metrics.timeline.iter().map(|second| second.offered_mbit_s).fold(0.0, f64::max);
    let lasted: f64 = metrics.timeline.iter().map(|second| second.length).sum();
    let mean = metrics.timeline.iter().map(|second| second.offered_mbit_s * second.length).sum::<f64>() / lasted;
    let incidents = incidents(results);
    let marks = if incidents.is_empty() { "" } else { " Numbered lines are incidents, listed below." };
    let subjects = [
        (PanelSubject::Network, true),
        (PanelSubject::Requests, metrics.requests.asked > 0),
        (PanelSubject::Emulator, !results.run.is_simulated()),
    ];
    let subjects: Vec<PanelSubject> =
        subjects.into_iter().filter_map(|(one, is_there)| is_there.then_some(one)).collect();
    (!metrics.timeline.is_empty()).then(|| Figure {
        name: "timeline".into(),
        title: format!("Hosts offered {} on average, {} at most", rate(mean), rate(peak)),
        caption: format!("The run second by second.{marks}"),
        sheet: time::panels(&metrics.timeline, &incidents, &subjects),
    })
}

/// The name of a part of the traffic for people.
pub(super) fn part_name(part: &str) -> &str {
    PARTS.iter().find(|(known, _)| *known == part).map_or(part, |(_, name)| name)
}

fn overhead(metrics: &Metrics) -> Option<Figure> {
    let total = metrics.traffic.overhead_per_service?;
    let parts: Vec<(&TrafficPart, f64)> = (metrics.traffic.parts.iter())
        .filter(|part| part.part != "payload")
        .filter_map(|part| Some((part, part.per_service?)))
        .collect();
    let most = parts.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let bar = |(part, each): &(&TrafficPart, f64)| FigureBar {
        name: part_name(&part.part).to_owned(),
        parts: vec![(*each, if part.part == most.0.part { Ink::Vermilion } else { Ink::Blue })],
        value: bytes(*each),
    };
    let bars_of: Vec<FigureBar> = parts.iter().map(bar).collect();
    Some(Figure {
        name: "overhead".into(),
        title: format!("Each service cost {} beyond its data", bytes(total)),
        caption:
            "Bytes that hosts offered for each completed service, without the payload delivered, by what they were for."
                .into(),
        sheet: bars(&bars_of, &[]),
    })
}

/// A direction of a link for people, `hub → lan0`, without a line break.
pub(super) fn direction(one: &LinkUse) -> String {
    direction_name(&one.link.link, &one.link.host, &one.link.direction)
}

fn direction_name(link: &str, host: &str, side: &str) -> String {
    let (from, to) = if side == "to-net" { (host, link) } else { (link, host) };
    format!("{from}\u{a0}→\u{a0}{to}")
}

fn links(results: &Results, metrics: &Metrics) -> Option<Figure> {
    let mut links: Vec<&LinkUse> = metrics.links.iter().filter(|one| one.link.bytes_in > 0).collect();
    // If all have a rate, the fullest is the bottleneck.
    let by_rate = links.iter().all(|one| one.utilization.is_some());
    let length = |one: &LinkUse| one.utilization.filter(|_| by_rate).unwrap_or(one.link.bytes_in as f64);
    links.sort_by(|a, b| length(b).total_cmp(&length(a)));
    let first = *links.first()?;
    let bar = |one: &&LinkUse| {
        let is_hub = results.run.hubs.contains(&one.link.host);
        let used = one.utilization.map_or_else(String::new, |part| format!(" ({})", percent(part)));
        FigureBar {
            name: direction(one),
            parts: vec![(length(one), if is_hub { Ink::Vermilion } else { Ink::Blue })],
            value: one.mbit_s.map_or_else(|| bytes(one.link.bytes_in as f64), |mean| format!("{}{used}", rate(mean))),
        }
    };
    let shown: Vec<FigureBar> = links.iter().take(LINKS).map(bar).collect();
    let title = match (first.utilization.filter(|_| by_rate), first.mbit_s) {
        (Some(part), _) => format!("The fullest direction, {}, used {} of its rate", direction(first), percent(part)),
        (None, Some(mean)) => format!("The busiest direction, {}, took {}", direction(first), rate(mean)),
        (None, None) => format!("The busiest direction was {}", direction(first)),
    };
    let which = if by_rate { "fullest" } else { "busiest" };
    let of = if links.len() > LINKS {
        format!("The {LINKS} {which} of {} directions", links.len())
    } else {
        "All directions".into()
    };
    let key = [("host of a hub".to_owned(), Ink::Vermilion), ("others".to_owned(), Ink::Blue)];
    let has_hub = links.iter().take(LINKS).any(|one| results.run.hubs.contains(&one.link.host));
    let key = if has_hub { &key[..] } else { &[] };
    Some(Figure {
        name: "links".into(),
        title,
        caption: format!("{of}: the mean rate into it, and the part of its rate that was used."),
        sheet: bars(&shown, key),
    })
}

/// A daemon for people: its host, and for a hub its kind.
pub(super) fn daemon_name(node: &NodeUse, results: &Results) -> String {
    let host = host_of(&node.node, results);
    if node.is_hub() { format!("{host} ({})", node.role) } else { node.node.clone() }
}

fn load(results: &Results, metrics: &Metrics) -> Option<Figure> {
    let mut daemons: Vec<(&NodeUse, f64)> =
        metrics.nodes.iter().filter_map(|node| Some((node, node.cpu_share?))).collect();
    daemons.sort_by(|a, b| b.1.total_cmp(&a.1));
    let (first, most) = *daemons.first()?;
    let bar = |(node, share): &(&NodeUse, f64)| FigureBar {
        name: daemon_name(node, results),
        parts: vec![(*share, if node.is_hub() { Ink::Vermilion } else { Ink::Blue })],
        value: percent(*share),
    };
    let key = [("hub".to_owned(), Ink::Vermilion), ("node".to_owned(), Ink::Blue)];
    let has_hub = metrics.nodes.iter().any(NodeUse::is_hub);
    let of = if daemons.len() > LINKS {
        format!("The {LINKS} busiest of {} daemons", daemons.len())
    } else {
        "All daemons".into()
    };
    Some(Figure {
        name: "load".into(),
        title: format!("The busiest daemon, {}, used {} of a processor", daemon_name(first, results), percent(most)),
        caption: format!("{of}: processor time while the workload ran and drained, as a part of one processor."),
        sheet: bars(&daemons.iter().take(LINKS).map(bar).collect::<Vec<_>>(), if has_hub { &key } else { &[] }),
    })
}

fn failures(metrics: &Metrics) -> Option<Figure> {
    let (most, number) = metrics.failures.first()?;
    let total: u64 = metrics.failures.iter().map(|(_, number)| number).sum();
    let bar = |(reason, number): &(String, u64)| FigureBar {
        name: reason.clone(),
        parts: vec![(*number as f64, Ink::Vermilion)],
        value: count(*number),
    };
    let shown: Vec<FigureBar> = metrics.failures.iter().take(REASONS).map(bar).collect();
    Some(Figure {
        name: "failures".into(),
        title: format!("{}: {} of {} not completed", capital(most), count(*number), counted(total, "request")),
        caption: "Why requests were not completed, as the overlay names it.".into(),
        sheet: bars(&shown, &[]),
    })
}

fn lateness(results: &Results) -> Option<Figure> {
    let verdict = &results.run.verdict;
    (!verdict.lateness_us.is_empty()).then(|| Figure {
        name: "lateness".into(),
        title: format!(
            "99 % of packets were delivered within {} of their time",
            milliseconds(verdict.lateness_p99_us / 1e3)
        ),
        caption: "How late the emulator delivered packets against the link model: its own error, not the network's. \
                  Share of packets."
            .into(),
        sheet: columns::lateness(verdict),
    })
}
