//! The tables of a run's page.

use roost_results::Results;
use roost_results::metrics::{Metrics, NodeUse, RequestCounts, Service};

use super::{FEW, Page, Rows, rooms};
use crate::figure::{daemon_name, direction, part_name};
use crate::text_format::{bytes, count, milliseconds, or_dash, percent, quantile, rate, seconds};

/// A longer table is folded.
const OPEN: usize = 15;
/// The most rows of a table; the CSV has all of them.
pub(super) const MOST: usize = 200;

pub(super) fn all(page: &mut Page, results: &Results, metrics: &Metrics) {
    if metrics.requests.asked > 0 {
        services(page, metrics);
    }
    rooms::all(page, results, metrics);
    traffic(page, metrics);
    hubs(page, results, metrics);
    nodes(page, results, metrics);
    links(page, metrics);
}

fn services(page: &mut Page, metrics: &Metrics) {
    page.element("h2", "", "Services");
    let heading = [
        "service",
        "asked",
        "completed",
        "failed",
        "timed out",
        "cut",
        "success",
        "mean",
        "median",
        "p95",
        "p99",
        "max",
    ];
    let mut rows = Rows::new(&heading);
    for service in &metrics.services {
        service_row(&mut rows, "", &service.service, service);
    }
    let total = tally_cells(&metrics.requests);
    rows.row("all", "all", total.iter().map(String::as_str).chain([""; 5]));
    page.markup(rows.end());
    let has_guess = |one: &Service| one.latency.count > 0 && !one.latency.is_quantile_reliable(990);
    if metrics.services.iter().any(has_guess) {
        page.element("p", "lead", FEW);
    }
    contacts(page, &metrics.services);
    let classes: Vec<&Service> = metrics.classes.iter().filter(|row| row.class.as_deref() != Some("")).collect();
    if classes.iter().any(|row| row.class != classes[0].class) {
        let mut rows = Rows::new(&heading);
        for row in &classes {
            let name = format!("{}, asked by {}", row.service, row.class.as_deref().unwrap_or_default());
            service_row(&mut rows, "", &name, row);
        }
        folded(page, "By the requester's class", classes.len(), &rows.end());
    }
}

/// The cost of a handshake: latencies with and without one.
fn contacts(page: &mut Page, services: &[Service]) {
    if services.iter().all(|one| one.first_contacts.count == 0) {
        return;
    }
    let heading = ["service", "first contacts", "mean", "median", "p95", "warm", "mean", "median", "p95"];
    let mut rows = Rows::new(&heading);
    for one in services {
        let cells = [&one.first_contacts, &one.warm].map(|latency| {
            let [p50, p95] = [500, 950].map(|thousandths| quantile(latency, thousandths));
            [count(latency.count), or_dash(latency.mean, milliseconds), p50, p95]
        });
        rows.row("", &one.service, cells.iter().flatten().map(String::as_str));
    }
    folded(page, "Latency of first contacts, and of warm ones", services.len(), &rows.end());
}

fn service_row(rows: &mut Rows, class: &str, name: &str, service: &Service) {
    let latency = &service.latency;
    let mut cells = tally_cells(&service.requests).to_vec();
    cells.push(or_dash(latency.mean, milliseconds));
    cells.extend([500, 950, 990].map(|thousandths| quantile(latency, thousandths)));
    cells.push(or_dash(latency.max, milliseconds));
    rows.row(class, name, cells.iter().map(String::as_str));
}

fn tally_cells(tally: &RequestCounts) -> [String; 6] {
    [
        count(tally.asked),
        count(tally.completed),
        count(tally.failed),
        count(tally.timed_out),
        count(tally.cut),
        or_dash(tally.success_ratio(), percent),
    ]
}

fn traffic(page: &mut Page, metrics: &Metrics) {
    let traffic = &metrics.traffic;
    page.element("h2", "", "Traffic");
    let offered = traffic.offered_bytes.filter(|offered| *offered > 0);
    let share = |part: Option<u64>| or_dash(part.zip(offered).map(|(part, all)| part as f64 / all as f64), percent);
    let has_services = metrics.requests.asked > 0;
    let mut headings = vec!["bytes", "in all", "of those offered"];
    headings.extend(has_services.then_some("per completed service"));
    let mut rows = Rows::new(&headings);
    let mut row = |class: &str, name: &str, all: Option<u64>, each: Option<f64>, share: String| {
        let cells = [or_dash(all.map(|all| all as f64), bytes), share, or_dash(each, bytes)];
        rows.row(class, name, cells.iter().map(String::as_str).take(if has_services { 3 } else { 2 }));
    };
    row("all", "offered by hosts", traffic.offered_bytes, traffic.offered_per_service, share(traffic.offered_bytes));
    for part in &traffic.parts {
        row("", part_name(&part.part), Some(part.bytes), part.per_service, share(Some(part.bytes)));
    }
    if let Some(over) = traffic.overhead_bytes.filter(|_| has_services) {
        row("all", "overhead: all but payload", Some(over), traffic.overhead_per_service, share(Some(over)));
    }
    row("all", "over all ports", traffic.port_bytes, traffic.port_per_service, "–".to_owned());
    row("", "multicast, as offered", traffic.multicast_bytes, None, share(traffic.multicast_bytes));
    page.markup(rows.end());
    let drops = &traffic.drops;
    let said = format!(
        "Packets dropped: {} by full queues, {} by loss on links, {} on links that were down.",
        count(drops.queue),
        count(drops.loss),
        count(drops.down)
    );
    page.element("p", "lead", &said);
}

/// A table that is folded if it is long.
pub(super) fn folded(page: &mut Page, title: &str, length: usize, table: &str) {
    page.markup(format_args!("<details{}>", if length <= OPEN { " open" } else { "" }));
    page.element("summary", "", title);
    page.markup(table);
    page.markup("</details>");
}

const NODE: [&str; 11] = [
    "host",
    "<class",
    "asked",
    "completed",
    "success",
    "provided",
    "sent",
    "received",
    "processor",
    "waited",
    "memory",
];

fn hubs(page: &mut Page, results: &Results, metrics: &Metrics) {
    let hubs: Vec<&NodeUse> = metrics.nodes.iter().filter(|node| node.is_hub()).collect();
    if hubs.is_empty() {
        return;
    }
    page.element("h2", "", "Load of the hubs");
    let mut rows = Rows::new(&[
        "hub",
        "<role",
        "sent",
        "received",
        "rate sent",
        "processor",
        "processor time",
        "waited",
        "memory",
    ]);
    let lasted = results.run.ran_s + results.run.drain_s;
    for hub in hubs {
        let mean = (lasted > 0.0).then(|| hub.sent_bytes as f64 * 8e-6 / lasted);
        let cells = [
            format!("<{}", hub.role),
            bytes(hub.sent_bytes as f64),
            bytes(hub.received_bytes as f64),
            or_dash(mean, rate),
            or_dash(hub.cpu_share, percent),
            or_dash(hub.cpu_s, seconds),
            or_dash(hub.waited_share, percent),
            or_dash(hub.memory_bytes.map(|memory| memory as f64), bytes),
        ];
        rows.row("", &daemon_name(hub, results), cells.iter().map(String::as_str));
    }
    page.markup(rows.end());
}

fn nodes(page: &mut Page, results: &Results, metrics: &Metrics) {
    page.element("h2", "", "Hosts and links");
    if metrics.nodes.is_empty() {
        return;
    }
    let mut rows = Rows::new(&NODE);
    for node in metrics.nodes.iter().take(MOST) {
        let cells = [
            format!("<{}", if node.class.is_empty() || node.is_hub() { &node.role } else { &node.class }),
            count(node.requests.asked),
            count(node.requests.completed),
            or_dash(node.requests.success_ratio(), percent),
            count(node.provided),
            bytes(node.sent_bytes as f64),
            bytes(node.received_bytes as f64),
            or_dash(node.cpu_share, percent),
            or_dash(node.waited_share, percent),
            or_dash(node.memory_bytes.map(|memory| memory as f64), bytes),
        ];
        rows.row(if node.is_hub() { "hub" } else { "" }, &daemon_name(node, results), cells.iter().map(String::as_str));
    }
    folded(page, &titled("host", metrics.nodes.len()), metrics.nodes.len(), &rows.end());
}

fn links(page: &mut Page, metrics: &Metrics) {
    let mut rows =
        Rows::new(&["direction", "packets", "bytes", "mean rate", "of its rate", "queue full", "lost", "down"]);
    for one in metrics.links.iter().take(MOST) {
        let link = &one.link;
        let cells = [
            count(link.packets_in),
            bytes(link.bytes_in as f64),
            or_dash(one.mbit_s, rate),
            or_dash(one.utilization, percent),
            count(link.dropped_queue),
            count(link.dropped_loss),
            count(link.dropped_down),
        ];
        rows.row("", &direction(one), cells.iter().map(String::as_str));
    }
    folded(page, &titled("direction of links", metrics.links.len()), metrics.links.len(), &rows.end());
}

fn titled(what: &str, length: usize) -> String {
    let what = if what == "host" { "hosts" } else { "directions of links" };
    match length {
        _ if length > MOST => format!("{length} {what}: the first {MOST}, the rest is in the CSV file"),
        _ => format!("{length} {what}"),
    }
}
