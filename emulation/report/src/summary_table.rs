//! The main figures of a run as a table.

use roost_results::metrics::Metrics;
use roost_results::record::RunRecord;

use super::csv::{flag, lines, maybe, number, whole};
use super::measurements;

/// A figure for each row: its name, its object, its value and unit.
pub(super) fn summary(run: &RunRecord, metrics: &Metrics) -> String {
    let mut rows: Vec<[String; 4]> = Vec::new();
    let mut row = |metric: &str, of: &str, value: String, unit: &str| {
        rows.push([metric.to_owned(), of.to_owned(), value, unit.to_owned()]);
    };
    row("valid", "run", flag(run.verdict.valid), "0 or 1");
    row("seed", "run", run.seed.to_string(), "");
    row("nodes", "run", run.nodes.to_string(), "nodes");
    row("duration", "run", number(run.ran_s), "s");
    let total = &metrics.requests;
    let counts = [("asked", total.asked), ("completed", total.completed), ("failed", total.failed)];
    for (name, count) in counts.into_iter().chain([("timed-out", total.timed_out), ("cut", total.cut)]) {
        row(name, "total", count.to_string(), "requests");
    }
    row("success-ratio", "total", maybe(total.success_ratio()), "");
    for service in &metrics.services {
        row("completed", &service.service, service.requests.completed.to_string(), "requests");
    }
    for service in &metrics.services {
        let latency = &service.latency;
        let figures = [("mean", latency.mean), ("p50", latency.p50), ("p95", latency.p95), ("p99", latency.p99)];
        for (name, value) in figures {
            row(&format!("latency-{name}"), &service.service, maybe(value), "ms");
        }
    }
    for summary in &metrics.measurements {
        for (name, value) in measurements::summary_rows(summary) {
            let unit = if name == "measured-count" { "measurements" } else { summary.unit.name() };
            row(&name, &summary.name, number(value), unit);
        }
    }
    for (reason, count) in &metrics.failures {
        row("failures", reason, count.to_string(), "requests");
    }
    traffic(metrics, &mut row);
    // Virtual time has no lateness and no reader.
    let is_real = !run.is_simulated();
    row("lateness-p99", "core", maybe(is_real.then_some(run.verdict.lateness_p99_us)), "us");
    row("read-wait-p99", "core", maybe(run.verdict.read_wait_p99_us), "us");
    row("overruns", "core", run.verdict.overruns.to_string(), "packets");
    row("dropped-by-reader", "core", whole(is_real.then_some(run.verdict.dropped_by_reader)), "packets");
    row("start-gap", "core", maybe(run.verdict.start_gap_ms), "ms");
    row("schedule-late", "core", maybe(run.verdict.schedule_late_ms), "ms");
    lines(
        rows,
        &[
            ("metric", |row| row[0].clone()),
            ("of", |row| row[1].clone()),
            ("value", |row| row[2].clone()),
            ("unit", |row| row[3].clone()),
        ],
    )
}

fn traffic(metrics: &Metrics, row: &mut impl FnMut(&str, &str, String, &str)) {
    let traffic = &metrics.traffic;
    row("traffic", "offered by hosts", whole(traffic.offered_bytes), "bytes");
    row("traffic", "summed over ports", whole(traffic.port_bytes), "bytes");
    row("traffic", "multicast", whole(traffic.multicast_bytes), "bytes");
    row("traffic-per-service", "offered by hosts", maybe(traffic.offered_per_service), "bytes");
    row("traffic-per-service", "summed over ports", maybe(traffic.port_per_service), "bytes");
    row("overhead-per-service", "total", maybe(traffic.overhead_per_service), "bytes");
    for part in &traffic.parts {
        row("traffic-per-service", &part.part, maybe(part.per_service), "bytes");
    }
    row("dropped", "queue", traffic.drops.queue.to_string(), "packets");
    row("dropped", "loss", traffic.drops.loss.to_string(), "packets");
    row("dropped", "down", traffic.drops.down.to_string(), "packets");
}
