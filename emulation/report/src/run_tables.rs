//! The figures of a run as tables.

use roost_results::Results;
use roost_results::metrics::{Metrics, NodeUse, Second};
use roost_results::record::{
    LinkStateRecord, MotionRecord, PositionRecord, ProgramRecord, RequestRecord, RoomStreamRecord, RunRecord,
    TrafficRecord,
};

use super::csv::{flag, lines, maybe, number, whole};
use super::measurements;
use super::summary_table::summary;

pub(super) type CsvFile = (&'static str, String);

/// All files; those about programs, traffic agents, positions and rooms only if there are any.
pub(super) fn files(results: &Results, metrics: &Metrics) -> Vec<CsvFile> {
    let run = &results.run;
    let mut files = vec![
        ("summary.csv", summary(run, metrics)),
        ("requests.csv", requests(&results.requests)),
        ("services.csv", services(metrics)),
        ("latency.csv", latency(metrics)),
        ("nodes.csv", nodes(metrics)),
        ("links.csv", links(metrics)),
        ("timeline.csv", timeline(run, metrics)),
    ];
    if !results.programs.is_empty() {
        files.push(("programs.csv", programs(&results.programs)));
    }
    if !results.traffic.is_empty() {
        files.push(("agents.csv", agents(&results.traffic)));
    }
    if !results.positions.is_empty() {
        files.push(("positions.csv", positions(&results.positions)));
    }
    if !results.motions.is_empty() {
        files.push(("motion.csv", motions(&results.motions)));
    }
    if !results.link_states.is_empty() {
        files.push(("link-states.csv", link_states(&results.link_states)));
    }
    if !results.room_streams.is_empty() {
        files.push(("rooms.csv", rooms(&results.room_streams)));
    }
    if !results.measurements.is_empty() {
        files.push(("measurements.csv", measurements::csv(&results.measurements)));
    }
    files
}

fn services(metrics: &Metrics) -> String {
    lines(
        metrics.services.iter().chain(&metrics.classes),
        &[
            ("service", |one| one.service.clone()),
            ("class", |one| one.class.clone().unwrap_or_else(|| "all".to_owned())),
            ("asked", |one| one.requests.asked.to_string()),
            ("completed", |one| one.requests.completed.to_string()),
            ("failed", |one| one.requests.failed.to_string()),
            ("timed_out", |one| one.requests.timed_out.to_string()),
            ("cut", |one| one.requests.cut.to_string()),
            ("drained", |one| one.requests.drained.to_string()),
            ("success_ratio", |one| maybe(one.requests.success_ratio())),
            ("latency_mean_ms", |one| maybe(one.latency.mean)),
            ("latency_p50_ms", |one| maybe(one.latency.p50)),
            ("latency_p95_ms", |one| maybe(one.latency.p95)),
            ("latency_p99_ms", |one| maybe(one.latency.p99)),
            ("latency_max_ms", |one| maybe(one.latency.max)),
            ("payload_bytes", |one| one.payload_bytes.to_string()),
            ("packets", |one| one.packets.to_string()),
            ("lost", |one| one.lost.to_string()),
            ("relayed", |one| one.relayed.to_string()),
            ("first_contacts", |one| one.first_contacts.count.to_string()),
            ("first_contact_p50_ms", |one| maybe(one.first_contacts.p50)),
            ("warm", |one| one.warm.count.to_string()),
            ("warm_p50_ms", |one| maybe(one.warm.p50)),
        ],
    )
}

/// A request for each row, in the order in which they ended.
fn requests(requests: &[RequestRecord]) -> String {
    lines(
        requests,
        &[
            ("t_s", |one| number(one.t)),
            ("node", |one| one.node.clone()),
            ("class", |one| one.class.clone()),
            ("service", |one| one.service.clone()),
            ("target", |one| one.target.clone()),
            ("provider", |one| one.provider.clone().unwrap_or_default()),
            ("outcome", |one| one.outcome.name().to_owned()),
            ("error", |one| one.error.clone().unwrap_or_default()),
            ("first_contact", |one| one.first_contact.map_or_else(String::new, flag)),
            ("latency_ms", |one| maybe(one.latency_ms())),
            ("first_byte_ms", |one| maybe(one.first_byte_ms)),
            ("elapsed_ms", |one| number(one.elapsed_ms)),
            ("bytes", |one| one.bytes.to_string()),
            ("packets", |one| one.packets.to_string()),
            ("lost", |one| one.lost.to_string()),
            ("dropped_by_reader", |one| one.dropped_by_reader.to_string()),
            ("transport", |one| one.transport.clone().unwrap_or_default()),
            ("relayed", |one| flag(one.relayed)),
            ("drained", |one| flag(one.drained)),
            ("detail", |one| one.detail.clone().unwrap_or_default()),
        ],
    )
}

/// The histograms: a bucket holds values above the bound before it, up to its own.
fn latency(metrics: &Metrics) -> String {
    let buckets = metrics.services.iter().flat_map(|one| one.latency.histogram.iter().map(move |bucket| (one, bucket)));
    lines(
        buckets,
        &[
            ("service", |(one, _)| one.service.clone()),
            ("up_to_ms", |(_, (upper, _))| number(*upper)),
            ("completed", |(_, (_, count))| count.to_string()),
        ],
    )
}

fn nodes(metrics: &Metrics) -> String {
    fn traffic(node: &NodeUse, class: &str) -> String {
        node.traffic_bytes.get(class).copied().unwrap_or(0).to_string()
    }
    lines(
        &metrics.nodes,
        &[
            ("node", |one| one.node.clone()),
            ("class", |one| one.class.clone()),
            ("role", |one| one.role.clone()),
            ("asked", |one| one.requests.asked.to_string()),
            ("completed", |one| one.requests.completed.to_string()),
            ("failed", |one| one.requests.failed.to_string()),
            ("timed_out", |one| one.requests.timed_out.to_string()),
            ("cut", |one| one.requests.cut.to_string()),
            ("provided", |one| one.provided.to_string()),
            ("sent_bytes", |one| one.sent_bytes.to_string()),
            ("received_bytes", |one| one.received_bytes.to_string()),
            ("offered_bytes", |one| one.offered_bytes.to_string()),
            ("join_bytes", |one| traffic(one, "join")),
            ("renew_bytes", |one| traffic(one, "renew")),
            ("lookup_bytes", |one| traffic(one, "lookup")),
            ("mesh_bytes", |one| traffic(one, "mesh")),
            ("summary_bytes", |one| traffic(one, "summary")),
            ("gossip_bytes", |one| traffic(one, "gossip")),
            ("payload_bytes", |one| traffic(one, "payload")),
            ("cpu_s", |one| maybe(one.cpu_s)),
            ("cpu_share", |one| maybe(one.cpu_share)),
            ("waited_share", |one| maybe(one.waited_share)),
            ("memory_bytes", |one| whole(one.memory_bytes)),
        ],
    )
}

fn links(metrics: &Metrics) -> String {
    lines(
        &metrics.links,
        &[
            ("link", |one| one.link.link.clone()),
            ("host", |one| one.link.host.clone()),
            ("direction", |one| one.link.direction.clone()),
            ("rate_bps", |one| one.link.rate_bps.to_string()),
            ("packets_in", |one| one.link.packets_in.to_string()),
            ("bytes_in", |one| one.link.bytes_in.to_string()),
            ("packets_out", |one| one.link.packets_out.to_string()),
            ("bytes_out", |one| one.link.bytes_out.to_string()),
            ("multicast_bytes_in", |one| one.link.multicast_bytes_in.to_string()),
            ("dropped_queue", |one| one.link.dropped_queue.to_string()),
            ("dropped_loss", |one| one.link.dropped_loss.to_string()),
            ("dropped_down", |one| one.link.dropped_down.to_string()),
            ("in_flight", |one| one.link.in_flight.to_string()),
            ("mbit_s", |one| maybe(one.mbit_s)),
            ("utilization", |one| maybe(one.utilization)),
            ("capacity_bytes", |one| one.link.capacity_bytes.map_or_else(String::new, |bytes| bytes.to_string())),
        ],
    )
}

fn timeline(run: &RunRecord, metrics: &Metrics) -> String {
    // Virtual time has no lateness.
    let lateness: fn(&&Second) -> String =
        if run.is_simulated() { |_| String::new() } else { |one| maybe(Some(one.lateness_p99_ms)) };
    lines(
        &metrics.timeline,
        &[
            ("t_s", |one| number(one.t)),
            ("offered_mbit_s", |one| number(one.offered_mbit_s)),
            ("delivered_mbit_s", |one| number(one.delivered_mbit_s)),
            ("active", |one| one.active.to_string()),
            ("completed", |one| one.completed.to_string()),
            ("failed", |one| one.failed.to_string()),
            ("lateness_p99_ms", lateness),
        ],
    )
}

fn programs(programs: &[ProgramRecord]) -> String {
    lines(
        programs,
        &[
            ("program", |one| one.program.clone()),
            ("host", |one| one.host.clone()),
            ("command", |one| one.command.clone()),
            ("started_s", |one| number(one.t)),
            ("ran_s", |one| number(one.elapsed_s)),
            ("end", |one| one.end.name().to_owned()),
            ("code", |one| whole(one.code)),
            ("as_expected", |one| flag(one.as_expected)),
            ("error", |one| one.error.clone().unwrap_or_default()),
            ("cpu_s", |one| maybe(one.cpu_s)),
            ("memory_bytes", |one| whole(one.memory_bytes)),
        ],
    )
}

fn positions(positions: &[PositionRecord]) -> String {
    lines(
        positions,
        &[
            ("t_s", |one| number(one.t)),
            ("node", |one| one.node.clone()),
            ("x", |one| one.x.to_string()),
            ("y", |one| one.y.to_string()),
        ],
    )
}

fn motions(motions: &[MotionRecord]) -> String {
    lines(
        motions,
        &[
            ("t_s", |one| number(one.t)),
            ("host", |one| one.host.clone()),
            ("x_m", |one| maybe(one.x_m)),
            ("y_m", |one| maybe(one.y_m)),
            ("z_m", |one| maybe(one.z_m)),
            ("lat", |one| degrees(one.lat)),
            ("lon", |one| degrees(one.lon)),
            ("alt_m", |one| maybe(one.alt_m)),
        ],
    )
}

/// Six decimals of a degree are a decimeter, which is not enough.
fn degrees(value: Option<f64>) -> String {
    whole(value)
}

fn link_states(states: &[LinkStateRecord]) -> String {
    lines(
        states,
        &[
            ("t_s", |one| number(one.t)),
            ("link", |one| one.link.clone()),
            ("from", |one| one.from.clone()),
            ("to", |one| one.to.clone()),
            ("up", |one| flag(one.up)),
            ("rate_bps", |one| whole(one.rate_bps)),
            ("delay_ms", |one| maybe(one.delay_ms)),
            ("loss", |one| maybe(one.loss)),
            ("distance_m", |one| maybe(one.distance_m)),
            ("snr_db", |one| maybe(one.snr_db)),
        ],
    )
}

fn rooms(streams: &[RoomStreamRecord]) -> String {
    lines(
        streams,
        &[
            ("room", |one| one.room.clone()),
            ("node", |one| one.node.clone()),
            ("provider", |one| one.provider.clone()),
            ("service", |one| one.service.clone()),
            ("entered_s", |one| number(one.t)),
            ("until_s", |one| number(one.until)),
            ("first_packet_ms", |one| maybe(one.first_packet_ms)),
            ("packets", |one| one.packets.to_string()),
            ("missing", |one| one.missing.to_string()),
            ("dropped_by_reader", |one| one.dropped_by_reader.to_string()),
            ("longest_gap_ms", |one| maybe(one.longest_gap_ms)),
            ("requests", |one| one.requests.to_string()),
        ],
    )
}

fn agents(agents: &[TrafficRecord]) -> String {
    lines(
        agents,
        &[
            ("agent", |one| one.agent.clone()),
            ("host", |one| one.host.clone()),
            ("role", |one| one.role.clone()),
            ("protocol", |one| one.protocol.clone()),
            ("packets", |one| one.packets.to_string()),
            ("bytes", |one| one.bytes.to_string()),
            ("skipped", |one| one.skipped.to_string()),
            ("failed", |one| one.failed.to_string()),
            ("error", |one| one.error.clone().unwrap_or_default()),
        ],
    )
}

#[cfg(test)]
mod tests {
    use roost_results::testing;

    use super::*;

    fn hand() -> (RunRecord, Metrics) {
        let results = testing::by_hand();
        let metrics = Metrics::from_results(&results);
        (results.run, metrics)
    }

    #[test]
    fn summary_has_one_figure_per_row() {
        let (run, metrics) = hand();
        let expected = include_str!("golden/summary.csv");
        assert_eq!(summary(&run, &metrics), expected);
    }

    #[test]
    fn services_nodes_links_match_golden() {
        let (_, metrics) = hand();
        assert_eq!(services(&metrics), include_str!("golden/services.csv"));
        assert_eq!(nodes(&metrics), include_str!("golden/nodes.csv"));
        assert_eq!(links(&metrics), include_str!("golden/links.csv"));
    }

    #[test]
    fn rows_match_heading_width() {
        let results = testing::small().results;
        for (name, text) in files(&results, &Metrics::from_results(&results)) {
            let counts: Vec<usize> = text.lines().map(|line| line.split(',').count()).collect();
            assert!(counts.len() > 1 && counts.iter().all(|count| *count == counts[0]), "{name}: {counts:?}");
        }
    }

    #[test]
    fn simulated_run_leaves_cells_empty() {
        let mut results = testing::small().results;
        results.run.lab.insert("backend".into(), roost_results::record::SIMULATION.into());
        let files = files(&results, &Metrics::from_results(&results));
        let text = |name: &str| &files.iter().find(|(file, _)| *file == name).unwrap().1;
        let column = |name: &str, column: &str| {
            let mut lines = text(name).lines().map(|line| line.split(',').collect::<Vec<_>>());
            let place = lines.next().unwrap().iter().position(|one| *one == column).unwrap();
            lines.map(|cells| cells[place].to_owned()).collect::<Vec<_>>()
        };
        for name in ["cpu_s", "cpu_share", "waited_share", "memory_bytes"] {
            assert!(column("nodes.csv", name).iter().all(String::is_empty), "{name}");
        }
        assert!(column("timeline.csv", "lateness_p99_ms").iter().all(String::is_empty));
        assert!(text("summary.csv").contains("lateness-p99,core,,us"), "{}", text("summary.csv"));
    }
}
