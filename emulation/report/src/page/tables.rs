//! The tables of a run's page.

use maud::{Markup, html};
use roost_results::Results;
use roost_results::metrics::{Metrics, NodeUse, RequestCounts, Service};

use super::{FEW, rooms, row, table};
use crate::figure::{daemon_name, direction, part_name};
use crate::text_format::{bytes, count, counted, milliseconds, or_dash, percent, quantile, rate, seconds};

/// A longer table is folded.
const OPEN: usize = 15;
/// The most rows of a table; the CSV has all of them.
pub(super) const MOST: usize = 200;

pub(super) fn all(results: &Results, metrics: &Metrics) -> Markup {
    html! {
        @if metrics.requests.asked > 0 { (services(metrics)) }
        @if !metrics.rooms.is_empty() { (rooms::all(results, metrics)) }
        (traffic(metrics))
        (hubs(results, metrics))
        h2 { "Nodes and links" }
        @if !metrics.nodes.is_empty() { (nodes(results, metrics)) }
        (links(metrics))
    }
}

fn services(metrics: &Metrics) -> Markup {
    let headings = [
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
    let total = tally_cells(&metrics.requests).into_iter().chain([""; 5].map(str::to_owned));
    let has_guess = |one: &Service| one.latency.count > 0 && !one.latency.is_quantile_reliable(990);
    let classes: Vec<&Service> = metrics.classes.iter().filter(|row| row.class.as_deref() != Some("")).collect();
    let class_name = |of: &Service| format!("{}, asked by {}", of.service, of.class.as_deref().unwrap_or_default());
    html! {
        h2 { "Services" }
        (table(&headings, &html! {
            @for service in &metrics.services { (service_row(&service.service, service)) }
            (row("all", "all", total))
        }))
        @if metrics.services.iter().any(has_guess) { p.lead { (FEW) } }
        (contacts(&metrics.services))
        @if classes.iter().any(|row| row.class != classes[0].class) {
            (folded("By the requester's class", classes.len(), &table(&headings, &html! {
                @for of in &classes { (service_row(&class_name(of), of)) }
            })))
        }
    }
}

/// The cost of a handshake: latencies with and without one.
fn contacts(services: &[Service]) -> Markup {
    if services.iter().all(|one| one.first_contacts.count == 0) {
        return Markup::default();
    }
    let headings = ["service", "first contacts", "mean", "median", "p95", "warm", "mean", "median", "p95"];
    let cells = |one: &Service| {
        [&one.first_contacts, &one.warm].map(|latency| {
            let [p50, p95] = [500, 950].map(|thousandths| quantile(latency, thousandths));
            [count(latency.count), or_dash(latency.mean, milliseconds), p50, p95]
        })
    };
    let rows = html! { @for one in services { (row("", &one.service, cells(one).as_flattened())) } };
    folded("Latency of first contacts, and of warm ones", services.len(), &table(&headings, &rows))
}

fn service_row(name: &str, service: &Service) -> Markup {
    let latency = &service.latency;
    let quantiles = [500, 950, 990].map(|thousandths| quantile(latency, thousandths));
    let cells = tally_cells(&service.requests).into_iter().chain([or_dash(latency.mean, milliseconds)]);
    row("", name, cells.chain(quantiles).chain([or_dash(latency.max, milliseconds)]))
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

fn traffic(metrics: &Metrics) -> Markup {
    let (traffic, drops) = (&metrics.traffic, &metrics.traffic.drops);
    let offered = traffic.offered_bytes.filter(|offered| *offered > 0);
    let share = |part: Option<u64>| or_dash(part.zip(offered).map(|(part, all)| part as f64 / all as f64), percent);
    let has_each = traffic.offered_per_service.or(traffic.port_per_service).is_some();
    let columns = if has_each { 4 } else { 3 };
    let row = |class: &str, name: &str, all: Option<u64>, each: Option<f64>, share: String| {
        let cells = [or_dash(all.map(|all| all as f64), bytes), share, or_dash(each, bytes)];
        row(class, name, cells.into_iter().take(columns - 1))
    };
    let over = traffic.overhead_bytes.filter(|_| metrics.requests.asked > 0);
    let rows = html! {
        (row("all", "offered by hosts", traffic.offered_bytes, traffic.offered_per_service, share(traffic.offered_bytes)))
        @for part in &traffic.parts {
            (row("", part_name(&part.part), Some(part.bytes), part.per_service, share(Some(part.bytes))))
        }
        @if over.is_some() {
            (row("all", "overhead: all but payload", over, traffic.overhead_per_service, share(over)))
        }
        (row("all", "over all ports", traffic.port_bytes, traffic.port_per_service, "–".to_owned()))
        (row("", "multicast, as offered", traffic.multicast_bytes, None, share(traffic.multicast_bytes)))
    };
    html! {
        h2 { "Traffic" }
        (table(&["bytes", "in all", "of those offered", "per completed service"][..columns], &rows))
        p.lead {
            "Packets dropped: " (count(drops.queue)) " by full queues, " (count(drops.loss)) " by loss on links, "
            (count(drops.down)) " on links that were down."
            @if metrics.requests.completed > 0 && traffic.offered_bytes.is_some() && !has_each {
                " Bytes per completed service are not given: programs of the run's own made some of the traffic."
            }
        }
    }
}

/// A table that is folded if it is long.
pub(super) fn folded(title: &str, length: usize, table: &Markup) -> Markup {
    html! { details open[length <= OPEN] { summary { (title) } (table) } }
}

/// True if processor or memory of a daemon was measured: nothing in a simulation has them.
fn has_use(metrics: &Metrics) -> bool {
    metrics.nodes.iter().any(|node| node.cpu_share.is_some() || node.memory_bytes.is_some())
}

fn hubs(results: &Results, metrics: &Metrics) -> Markup {
    let hubs: Vec<&NodeUse> = metrics.nodes.iter().filter(|node| node.is_hub()).collect();
    if hubs.is_empty() {
        return Markup::default();
    }
    let headings = ["hub", "<role", "sent", "received", "rate sent", "processor", "processor time", "waited", "memory"];
    let has_use = has_use(metrics);
    let lasted = results.run.ran_s + results.run.drain_s;
    let mean = |hub: &NodeUse| (lasted > 0.0).then(|| hub.sent_bytes as f64 * 8e-6 / lasted);
    let rows = html! {
        @for hub in hubs {
            tr {
                th scope="row" { (daemon_name(hub, results)) }
                td.words { (hub.role) }
                td { (bytes(hub.sent_bytes as f64)) }
                td { (bytes(hub.received_bytes as f64)) }
                td { (or_dash(mean(hub), rate)) }
                @if has_use {
                    td { (or_dash(hub.cpu_share, percent)) }
                    td { (or_dash(hub.cpu_s, seconds)) }
                    td { (or_dash(hub.waited_share, percent)) }
                    td { (or_dash(hub.memory_bytes.map(|memory| memory as f64), bytes)) }
                }
            }
        }
    };
    let columns = if has_use { headings.len() } else { headings.len() - 4 };
    html! { h2 { "Load of the hubs" } (table(&headings[..columns], &rows)) }
}

fn nodes(results: &Results, metrics: &Metrics) -> Markup {
    let headings = [
        "node",
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
    let headings = if has_use(metrics) { &headings[..] } else { &headings[..headings.len() - 3] };
    let length = metrics.nodes.len();
    let hubs = metrics.nodes.iter().filter(|node| node.is_hub()).count();
    let counts = [(length - hubs, "node"), (hubs, "hub")].into_iter().filter(|(number, _)| *number > 0);
    let counts: Vec<String> = counts.map(|(number, name)| counted(number as u64, name)).collect();
    folded(&titled(&counts.join(" and "), length), length, &table(headings, &node_rows(results, metrics)))
}

fn node_rows(results: &Results, metrics: &Metrics) -> Markup {
    let has_use = has_use(metrics);
    html! {
        @for node in metrics.nodes.iter().take(MOST) {
            tr class=(if node.is_hub() { "hub" } else { "" }) {
                th scope="row" { (daemon_name(node, results)) }
                td.words { (if node.class.is_empty() || node.is_hub() { &node.role } else { &node.class }) }
                td { (count(node.requests.asked)) }
                td { (count(node.requests.completed)) }
                td { (or_dash(node.requests.success_ratio(), percent)) }
                td { (count(node.provided)) }
                td { (bytes(node.sent_bytes as f64)) }
                td { (bytes(node.received_bytes as f64)) }
                @if has_use {
                    td { (or_dash(node.cpu_share, percent)) }
                    td { (or_dash(node.waited_share, percent)) }
                    td { (or_dash(node.memory_bytes.map(|memory| memory as f64), bytes)) }
                }
            }
        }
    }
}

fn links(metrics: &Metrics) -> Markup {
    let rows = html! {
        @for one in metrics.links.iter().take(MOST) {
            tr {
                th scope="row" { (direction(one)) }
                td { (count(one.link.packets_in)) }
                td { (bytes(one.link.bytes_in as f64)) }
                td { (or_dash(one.mbit_s, rate)) }
                td { (or_dash(one.utilization, percent)) }
                td { (count(one.link.dropped_queue)) }
                td { (count(one.link.dropped_loss)) }
                td { (count(one.link.dropped_down)) }
            }
        }
    };
    let headings = ["direction", "packets", "bytes", "mean rate", "of its rate", "queue full", "lost", "down"];
    let length = metrics.links.len();
    folded(
        &titled(&format!("{} of links", counted(length as u64, "direction")), length),
        length,
        &table(&headings, &rows),
    )
}

fn titled(counted: &str, length: usize) -> String {
    match length {
        _ if length > MOST => format!("{counted}: the first {MOST}, the rest is in the CSV file"),
        _ => counted.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use roost_results::testing;

    use super::*;

    #[test]
    fn columns_without_values_left_out() {
        let results = testing::small().results;
        let mut metrics = Metrics::from_results(&results);
        let shown = all(&results, &metrics).0.matches(">memory</th>").count();
        for node in &mut metrics.nodes {
            (node.cpu_share, node.cpu_s, node.memory_bytes, node.waited_share) = (None, None, None, None);
        }
        assert_eq!((shown, all(&results, &metrics).0.matches(">memory</th>").count()), (2, 0));
    }

    #[test]
    fn traffic_of_programs_tells_why() {
        let mut results = testing::by_hand();
        let column = ">per completed service</th>";
        assert!(traffic(&Metrics::from_results(&results)).0.contains(column));
        results.programs = vec![testing::program("b")];
        let text = traffic(&Metrics::from_results(&results)).0;
        assert!(!text.contains(column) && text.contains("made some of the traffic"), "{text}");
    }
}
