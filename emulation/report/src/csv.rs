//! The figures of a run as CSV (RFC 4180, lines ended by LF), for spreadsheets and scripts.
//!
//! Columns are only ever added. An unknown value is an empty cell.

use roost_results::Results;
use roost_results::metrics::{LinkUse, Metrics, NodeUse, Service};
use roost_results::record::{PositionRecord, ProgramRecord, RequestRecord, RoomStreamRecord, RunRecord, TrafficRecord};

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
    if !results.room_streams.is_empty() {
        files.push(("rooms.csv", rooms(&results.room_streams)));
    }
    files
}

pub(super) struct Csv(pub(super) String);

impl Csv {
    pub(super) fn new(heading: &str) -> Self {
        Self(format!("{heading}\n"))
    }

    pub(super) fn row<const N: usize>(&mut self, cells: [String; N]) {
        let line: Vec<String> = cells.into_iter().map(quoted).collect();
        self.0.push_str(&line.join(","));
        self.0.push('\n');
    }
}

fn quoted(cell: String) -> String {
    if cell.contains([',', '"', '\r', '\n']) { format!("\"{}\"", cell.replace('"', "\"\"")) } else { cell }
}

/// At most six decimals, without trailing zeros.
pub(super) fn number(value: f64) -> String {
    let text = format!("{value:.6}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

fn maybe(value: Option<f64>) -> String {
    value.filter(|value| value.is_finite()).map_or_else(String::new, number)
}

fn whole(value: Option<u64>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

/// A figure for each row: its name, its object, its value and unit.
fn summary(run: &RunRecord, metrics: &Metrics) -> String {
    let mut csv = Csv::new("metric,of,value,unit");
    let mut row = |metric: &str, of: &str, value: String, unit: &str| {
        csv.row([metric.to_owned(), of.to_owned(), value, unit.to_owned()]);
    };
    row("valid", "run", u8::from(run.verdict.valid).to_string(), "0 or 1");
    row("seed", "run", run.seed.to_string(), "");
    row("nodes", "run", run.nodes.to_string(), "hosts");
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
    csv.0
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

fn services(metrics: &Metrics) -> String {
    let mut csv = Csv::new(
        "service,class,asked,completed,failed,timed_out,cut,drained,success_ratio,\
         latency_mean_ms,latency_p50_ms,latency_p95_ms,latency_p99_ms,latency_max_ms,\
         payload_bytes,packets,lost,relayed,first_contacts,first_contact_p50_ms,warm,warm_p50_ms",
    );
    for service in metrics.services.iter().chain(&metrics.classes) {
        csv.row(service_cells(service));
    }
    csv.0
}

fn service_cells(service: &Service) -> [String; 22] {
    let (requests, latency) = (&service.requests, &service.latency);
    [
        service.service.clone(),
        service.class.clone().unwrap_or_else(|| "all".to_owned()),
        requests.asked.to_string(),
        requests.completed.to_string(),
        requests.failed.to_string(),
        requests.timed_out.to_string(),
        requests.cut.to_string(),
        requests.drained.to_string(),
        maybe(requests.success_ratio()),
        maybe(latency.mean),
        maybe(latency.p50),
        maybe(latency.p95),
        maybe(latency.p99),
        maybe(latency.max),
        service.payload_bytes.to_string(),
        service.packets.to_string(),
        service.lost.to_string(),
        service.relayed.to_string(),
        service.first_contacts.count.to_string(),
        maybe(service.first_contacts.p50),
        service.warm.count.to_string(),
        maybe(service.warm.p50),
    ]
}

/// A request for each row, in the order in which they ended.
fn requests(requests: &[RequestRecord]) -> String {
    let mut csv = Csv::new(
        "t_s,node,class,service,target,provider,outcome,error,first_contact,latency_ms,first_byte_ms,elapsed_ms,\
         bytes,packets,lost,dropped_by_reader,transport,relayed,drained,detail",
    );
    for request in requests {
        csv.row(request_cells(request));
    }
    csv.0
}

fn request_cells(request: &RequestRecord) -> [String; 20] {
    let flag = |value: bool| u8::from(value).to_string();
    [
        number(request.t),
        request.node.clone(),
        request.class.clone(),
        request.service.clone(),
        request.target.clone(),
        request.provider.clone().unwrap_or_default(),
        request.outcome.name().to_owned(),
        request.error.clone().unwrap_or_default(),
        request.first_contact.map_or_else(String::new, flag),
        maybe(request.latency_ms()),
        maybe(request.first_byte_ms),
        number(request.elapsed_ms),
        request.bytes.to_string(),
        request.packets.to_string(),
        request.lost.to_string(),
        request.dropped_by_reader.to_string(),
        request.transport.clone().unwrap_or_default(),
        flag(request.relayed),
        flag(request.drained),
        request.detail.clone().unwrap_or_default(),
    ]
}

/// The histograms: a bucket holds values above the bound before it, up to its own.
fn latency(metrics: &Metrics) -> String {
    let mut csv = Csv::new("service,up_to_ms,completed");
    for service in &metrics.services {
        for (upper, count) in &service.latency.histogram {
            csv.row([service.service.clone(), number(*upper), count.to_string()]);
        }
    }
    csv.0
}

fn nodes(metrics: &Metrics) -> String {
    let mut csv = Csv::new(
        "node,class,role,asked,completed,failed,timed_out,cut,provided,sent_bytes,received_bytes,offered_bytes,\
         join_bytes,renew_bytes,lookup_bytes,mesh_bytes,summary_bytes,gossip_bytes,payload_bytes,cpu_s,cpu_share,waited_share,memory_bytes",
    );
    for node in &metrics.nodes {
        csv.row(node_cells(node));
    }
    csv.0
}

fn node_cells(node: &NodeUse) -> [String; 23] {
    let class = |name: &str| node.traffic_bytes.get(name).copied().unwrap_or(0).to_string();
    [
        node.node.clone(),
        node.class.clone(),
        node.role.clone(),
        node.requests.asked.to_string(),
        node.requests.completed.to_string(),
        node.requests.failed.to_string(),
        node.requests.timed_out.to_string(),
        node.requests.cut.to_string(),
        node.provided.to_string(),
        node.sent_bytes.to_string(),
        node.received_bytes.to_string(),
        node.offered_bytes.to_string(),
        class("join"),
        class("renew"),
        class("lookup"),
        class("mesh"),
        class("summary"),
        class("gossip"),
        class("payload"),
        maybe(node.cpu_s),
        maybe(node.cpu_share),
        maybe(node.waited_share),
        whole(node.memory_bytes),
    ]
}

fn links(metrics: &Metrics) -> String {
    let mut csv = Csv::new(
        "link,host,direction,rate_bps,packets_in,bytes_in,packets_out,bytes_out,multicast_bytes_in,\
         dropped_queue,dropped_loss,dropped_down,in_flight,mbit_s,utilization",
    );
    for link in &metrics.links {
        csv.row(link_cells(link));
    }
    csv.0
}

fn link_cells(one: &LinkUse) -> [String; 15] {
    let link = &one.link;
    [
        link.link.clone(),
        link.host.clone(),
        link.direction.clone(),
        link.rate_bps.to_string(),
        link.packets_in.to_string(),
        link.bytes_in.to_string(),
        link.packets_out.to_string(),
        link.bytes_out.to_string(),
        link.multicast_bytes_in.to_string(),
        link.dropped_queue.to_string(),
        link.dropped_loss.to_string(),
        link.dropped_down.to_string(),
        link.in_flight.to_string(),
        maybe(one.mbit_s),
        maybe(one.utilization),
    ]
}

fn timeline(run: &RunRecord, metrics: &Metrics) -> String {
    let mut csv = Csv::new("t_s,offered_mbit_s,delivered_mbit_s,active,completed,failed,lateness_p99_ms");
    for second in &metrics.timeline {
        csv.row([
            number(second.t),
            number(second.offered_mbit_s),
            number(second.delivered_mbit_s),
            second.active.to_string(),
            second.completed.to_string(),
            second.failed.to_string(),
            maybe((!run.is_simulated()).then_some(second.lateness_p99_ms)),
        ]);
    }
    csv.0
}

fn programs(programs: &[ProgramRecord]) -> String {
    let mut csv = Csv::new("program,host,command,started_s,ran_s,end,code,as_expected,error");
    for program in programs {
        csv.row([
            program.program.clone(),
            program.host.clone(),
            program.command.clone(),
            number(program.t),
            number(program.elapsed_s),
            program.end.name().to_owned(),
            program.code.map_or_else(String::new, |code| code.to_string()),
            u8::from(program.as_expected).to_string(),
            program.error.clone().unwrap_or_default(),
        ]);
    }
    csv.0
}

fn positions(positions: &[PositionRecord]) -> String {
    let mut csv = Csv::new("t_s,node,x,y");
    for PositionRecord { t, node, x, y } in positions {
        csv.row([number(*t), node.clone(), x.to_string(), y.to_string()]);
    }
    csv.0
}

fn rooms(streams: &[RoomStreamRecord]) -> String {
    let mut csv = Csv::new(
        "room,node,provider,service,entered_s,until_s,first_packet_ms,packets,missing,longest_gap_ms,requests",
    );
    for stream in streams {
        csv.row([
            stream.room.clone(),
            stream.node.clone(),
            stream.provider.clone(),
            stream.service.clone(),
            number(stream.t),
            number(stream.until),
            maybe(stream.first_packet_ms),
            stream.packets.to_string(),
            stream.missing.to_string(),
            maybe(stream.longest_gap_ms),
            stream.requests.to_string(),
        ]);
    }
    csv.0
}

fn agents(agents: &[TrafficRecord]) -> String {
    let mut csv = Csv::new("agent,host,role,protocol,packets,bytes,skipped,failed,error");
    for agent in agents {
        csv.row([
            agent.agent.clone(),
            agent.host.clone(),
            agent.role.clone(),
            agent.protocol.clone(),
            agent.packets.to_string(),
            agent.bytes.to_string(),
            agent.skipped.to_string(),
            agent.failed.to_string(),
            agent.error.clone().unwrap_or_default(),
        ]);
    }
    csv.0
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

    #[test]
    fn cells_quoted_where_needed() {
        assert_eq!(quoted("a,\"b\"".to_owned()), "\"a,\"\"b\"\"\"");
        assert_eq!(number(1.0), "1");
        assert_eq!(number(0.1 + 0.2), "0.3");
        assert_eq!(number(1_500_000.0), "1500000");
        assert_eq!(maybe(Some(f64::NAN)), "");
    }
}
