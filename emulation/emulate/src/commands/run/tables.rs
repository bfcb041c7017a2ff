//! The tables that a run prints at its end.

use roost_report::measurements;
use roost_results::metrics::{Distribution, MeasurementSummary, Metrics};
use roost_results::{Results, record};
use roost_terminal::Table;

use crate::commands::rooms;

/// The most names of measurements that are listed; the page has more.
const MAX_MEASURED: usize = 40;

pub(super) fn all(results: &Results, metrics: &Metrics) -> Vec<Table> {
    let tables = [
        (!metrics.services.is_empty()).then(|| services(metrics)),
        rooms::table(&metrics.rooms),
        (!results.programs.is_empty()).then(|| programs(&results.programs)),
        (!metrics.measurements.is_empty()).then(|| measured(&metrics.measurements)),
        (!results.traffic.is_empty()).then(|| traffic(&results.traffic)),
    ];
    tables.into_iter().flatten().collect()
}

/// The measurements of programs, as on the page of the run.
fn measured(summaries: &[MeasurementSummary]) -> Table {
    let mut table =
        Table::new(&["MEASUREMENT", ">COUNT", ">MEAN", ">LEAST", ">MEDIAN", ">p95", ">p99", ">MOST", ">IN ALL"]);
    for summary in summaries.iter().take(MAX_MEASURED) {
        table.row(std::iter::once(summary.name.clone()).chain(measurements::cells(summary, &summary.values)));
    }
    if summaries.len() > MAX_MEASURED {
        table.row([format!("and {} more", summaries.len() - MAX_MEASURED)]);
    }
    table
}

fn programs(programs: &[record::ProgramRecord]) -> Table {
    let mut table = Table::new(&["PROGRAM", "HOST", ">FROM s", ">FOR s", "END", ">CODE", "AS EXPECTED"]);
    for program in programs {
        table.row([
            program.program.clone(),
            program.host.clone(),
            format!("{:.1}", program.t),
            format!("{:.1}", program.elapsed_s),
            program.error.clone().unwrap_or_else(|| program.end.name().to_owned()),
            program.code.map(|code| code.to_string()).unwrap_or_default(),
            if program.as_expected { "yes" } else { "NO" }.to_owned(),
        ]);
    }
    table
}

fn traffic(agents: &[record::TrafficRecord]) -> Table {
    let mut table = Table::new(&["AGENT", "HOST", "ROLE", "OVER", ">PACKETS", ">BYTES"]);
    for agent in agents {
        let (packets, bytes) = (agent.packets.to_string(), agent.bytes.to_string());
        table.row([
            agent.agent.clone(),
            agent.host.clone(),
            agent.role.clone(),
            agent.protocol.clone(),
            packets,
            bytes,
        ]);
    }
    table
}

fn services(metrics: &Metrics) -> Table {
    let outcomes = [">ASKED", ">COMPLETED", ">FAILED", ">TIMED OUT", ">CUT"];
    let mut table = Table::new(&[&["SERVICE"], &outcomes[..], &[">p50 ms", ">p95 ms", ">p99 ms"]].concat());
    // In brackets, as in the report, if too few requests lie beyond it.
    let ms = |latency: &Distribution, thousandths| match latency.quantile(thousandths) {
        Some(value) if latency.is_quantile_reliable(thousandths) => format!("{value:.1}"),
        Some(value) => format!("({value:.1})"),
        None => String::new(),
    };
    for service in &metrics.services {
        table.row([
            service.service.clone(),
            service.requests.asked.to_string(),
            service.requests.completed.to_string(),
            service.requests.failed.to_string(),
            service.requests.timed_out.to_string(),
            service.requests.cut.to_string(),
            ms(&service.latency, 500),
            ms(&service.latency, 950),
            ms(&service.latency, 990),
        ]);
    }
    table
}
