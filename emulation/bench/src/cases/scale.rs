//! Lateness of deliveries in a large network with many streams.

use std::time::{Duration, Instant};

use roost_lab::LabError;
use roost_lab::carrier::Lateness;
use roost_topology::Topology;
use roost_topology::generate::{Tree, TreeShape};
use roost_topology::model::HostIndex;
use roost_wire::random::SplitMix64;

use crate::probe::{self, PacketTimes, Priority, ProbeFlow};
use crate::{BenchContext, BenchError, BenchRow, machine};

/// Nodes of the hierarchy; with its server it has 93 hosts.
const NODES: usize = 92;
const LENGTH: Duration = Duration::from_secs(12);
/// The longest path through it takes some 1.4 s.
const PATIENCE: Duration = Duration::from_secs(3);
/// Streams of tracks and sensors: 25 packets of 200 bytes a second are 40 kbit/s.
const SMALL: (usize, u32, Duration) = (80, 200, Duration::from_millis(40));
/// Streams of video: 1 packet of 1200 bytes in 13.7 ms is 700 kbit/s.
const LARGE: (usize, u32, Duration) = (10, 1200, Duration::from_micros(13_714));
const P99_MS: f64 = 0.2;
const P99_AIM_MS: f64 = 0.1;

pub(crate) fn measure(bench: &mut BenchContext<'_>) -> Result<Vec<BenchRow>, BenchError> {
    let topology = Tree::published(TreeShape::inferred(NODES)).topology();
    let topology = topology.map_err(|error| LabError::Topology(error.to_string()))?;
    let lab = bench.lab(&topology)?;
    let length = bench.length(LENGTH);
    let flows = flows(&topology, length, bench.options.seed);
    let (before, began) = (machine::processor_time(), Instant::now());
    let outcome = probe::send_probes(bench, &lab, &flows, began, PATIENCE, Priority::Usual)?;
    let core = machine::processor_time().saturating_sub(before).saturating_sub(outcome.cost);
    Ok(rows(&lab.lateness(), lab.overruns()?, &outcome.traces, core.as_secs_f64() / length.as_secs_f64()))
}

/// Small streams between low-flying nodes, large ones between tactical UAVs. All are below every leg's rate, so
/// that none is lost.
fn flows(topology: &Topology, length: Duration, seed: u64) -> Vec<ProbeFlow> {
    let of_class = |class: &str| -> Vec<HostIndex> {
        let hosts = topology.hosts.iter().enumerate();
        hosts.filter(|(_, host)| host.class.as_deref() == Some(class)).map(|(index, _)| index).collect()
    };
    let mut random = SplitMix64::new(seed);
    let mut flows = Vec::new();
    for (class, (streams, bytes, interval)) in [("low", SMALL), ("tactical", LARGE)] {
        let hosts = of_class(class);
        let count = (length.as_nanos() / interval.as_nanos()).max(1) as u32;
        for stream in 0..streams {
            // Any host but the sender: both classes have more than one.
            let (from, step) = (stream % hosts.len(), 1 + random.below(hosts.len() as u64 - 1) as usize);
            let (from, to) = (hosts[from], hosts[(from + step) % hosts.len()]);
            flows.push(ProbeFlow { from, to, bytes, count, interval, uneven: true });
        }
    }
    flows
}

fn rows(lateness: &Lateness, overruns: u64, traces: &[PacketTimes], core: f64) -> Vec<BenchRow> {
    let (sent, lost): (usize, usize) =
        traces.iter().fold((0, 0), |sum, trace| (sum.0 + trace.sent.len(), sum.1 + trace.lost()));
    let [p50, p99, p999] = [0.5, 0.99, 0.999].map(|part| lateness.quantile(part).as_secs_f64() * 1e3);
    let what = format!("lateness in the core, {} hosts, {} streams", NODES + 1, SMALL.0 + LARGE.0);
    let seen = format!("p50 {p50:.3}, p99 {p99:.3}, p99.9 {p999:.3} ms of {} deliveries", lateness.packets());
    let late = BenchRow::judged(what, format!("p99 ≤ {P99_MS} ms"), seen, p99 <= P99_MS && lateness.packets() > 0)
        .with_stretch_target(format!("p99 ≤ {P99_AIM_MS} ms"), p99 <= P99_AIM_MS && lateness.packets() > 0)
        .with("p50_ms", p50)
        .with("p99_ms", p99)
        .with("p999_ms", p999)
        .with("max_ms", lateness.max().as_secs_f64() * 1e3)
        .with("packets", lateness.packets() as f64);
    let arrived = format!("{lost} of {sent}, overruns {overruns}");
    let arrived =
        BenchRow::judged("the same, packets that did not arrive", "none", arrived, lost == 0 && overruns == 0)
            .with("lost", lost as f64)
            .with("packets", sent as f64)
            .with("overruns", overruns as f64);
    let cost = BenchRow::shown("the same, the core's processor time", format!("{:.1} % of one", core * 100.0))
        .with("cpu_percent", core * 100.0);
    vec![late, arrived, cost]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BenchVerdict;

    #[test]
    fn flows_match_count_and_rate() {
        let topology = Tree::published(TreeShape::inferred(NODES)).topology().unwrap();
        assert_eq!(topology.hosts.len(), NODES + 1);
        let flows = flows(&topology, Duration::from_secs(12), 1);
        assert_eq!(flows.len(), 90);
        assert!(flows.iter().all(|flow| flow.from != flow.to));
        for (flow, kbit) in [(flows[0], 40.0), (flows[89], 700.0)] {
            let rate = f64::from(flow.bytes) * 8.0 / flow.interval.as_secs_f64() / 1e3;
            assert!((rate - kbit).abs() < 0.1, "{rate}");
        }
    }

    #[test]
    fn nothing_delivered_is_not_met() {
        let rows = rows(&Lateness::default(), 0, &[], 0.1);
        assert_eq!(rows[0].verdict, BenchVerdict::Missed);
        assert_eq!(rows[2].verdict, BenchVerdict::Shown);
    }
}
