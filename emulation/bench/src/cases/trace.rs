//! Errors of traces that links play, under a load that never lets their queues run empty.
//!
//! Each arrival is held against the link model with the same trace and the same load. In a window, the error of the rate is
//! the change of the lateness over the window, as a part of the window: a packet more or less at its ends does not count.

use std::sync::Arc;
use std::time::{Duration, Instant};

use roost_netcore::{Destination, Network, PipeConfig, wiring};
use roost_topology::Topology;
use roost_topology::model::{Leg, Queue};
use roost_topology::trace::make::TraceModel;
use roost_topology::trace::{Playback, Trace, TraceContent, read_trace};
use roost_topology::units::Rate;
use roost_wire::Time;

use super::schedule::begin_of;
use crate::analysis::Spread;
use crate::probe::{self, PacketTimes, Priority, ProbeFlow};
use crate::{BenchContext, BenchError, BenchRow, networks};

const LENGTH: Duration = Duration::from_secs(10);
const BYTES: u32 = 1514;
/// More than the traces ever let through.
const OFFERED: Rate = Rate::from_bps(14_000_000);
const QUEUE: u32 = 50;
const PATIENCE: Duration = Duration::from_secs(3);
const WINDOW: Duration = Duration::from_millis(100);
/// The 99th percentile of lateness, in microseconds.
const LATE_US: f64 = 150.0;
/// The error of a window's rate, and of all of it, in percent.
const WINDOW_PERCENT: f64 = 0.5;
const LONG_PERCENT: f64 = 0.01;
/// Mbit/s, for 100 ms each.
const STEPS: [u32; 8] = [10, 2, 5, 8, 1, 10, 3, 6];
/// The same from the slowest on. The link is busy from the first packet on, so that this packet's wait to be read delays
/// all others by a number of bits, which takes longer the slower the link is: here no other step multiplies it.
const SLOWEST_FIRST: [u32; 8] = [1, 10, 3, 6, 10, 2, 5, 8];

pub(crate) fn measure(bench: &mut BenchContext<'_>) -> Result<Vec<BenchRow>, BenchError> {
    let mut rows = Vec::new();
    let traces = [
        ("steps of 100 ms", steps(STEPS)),
        ("steps, slowest first", steps(SLOWEST_FIRST)),
        ("cellular", TraceModel::Cellular.make(1, LENGTH)),
    ];
    for (name, text) in traces {
        if bench.is_stopped() {
            break;
        }
        let Ok(content) = read_trace(&text) else { continue };
        rows.extend(measure_one(bench, name, content)?);
    }
    Ok(rows)
}

fn steps(mbit: [u32; 8]) -> String {
    let row = |(number, mbit): (usize, &u32)| format!("{},{mbit}\n", number * 100);
    let rows: String = mbit.iter().enumerate().map(row).collect();
    format!("time_ms,rate_mbps\n{rows}")
}

fn measure_one(bench: &mut BenchContext<'_>, name: &str, content: TraceContent) -> Result<Vec<BenchRow>, BenchError> {
    let topology = topology(content);
    let lab = bench.lab(&topology)?;
    let origin = Instant::now();
    lab.begin()?;
    let begin = begin_of(&lab, origin);
    let (from, to) = networks::ends(0);
    let interval = OFFERED.time_for(BYTES.into());
    // Fits u32: some seconds of packets that take a millisecond.
    let count = (bench.length(LENGTH).as_nanos() / interval.as_nanos()) as u32;
    let flow = ProbeFlow { from, to, bytes: BYTES, count, interval, uneven: false };
    let traces = probe::send_probes(bench, &lab, &[flow], origin, PATIENCE, Priority::AsTheCore)?.traces;
    let seen = traces.into_iter().next().unwrap_or_default();
    Ok(rows(name, &lateness(&topology, &seen, begin)))
}

fn topology(content: TraceContent) -> Topology {
    let trace = Arc::new(Trace { path: "bench".into(), sha256: String::new(), content });
    let playback = Playback { file: "bench".to_owned(), start: Duration::ZERO, once: false, trace };
    let queue = Queue { limit: QUEUE, ..Queue::DEFAULT };
    networks::links([Leg { queue, trace: Some(Arc::new(playback)), ..Leg::default() }])
}

/// An arrival in nanoseconds: its time by the model, and its lateness.
#[derive(Clone, Copy, Debug)]
struct LateArrival {
    due: u64,
    late: f64,
}

/// Holds each arrival against the link model with the same load.
fn lateness(topology: &Topology, seen: &PacketTimes, begin: u64) -> Vec<LateArrival> {
    let members = &topology.nets[0].members;
    let config: PipeConfig = wiring::direction(&members[0].to_net, &members[1].from_net);
    let mut network = Network::new(1);
    let [a, b] = network.add_link(config, PipeConfig::default());
    let mut model = Vec::new();
    for sent in &seen.sent {
        let now = Time::from_nanos(sent.saturating_sub(begin));
        while let Some(delivery) = network.poll_delivery(now) {
            model.push(delivery.due.as_nanos());
        }
        network.send(now, a, Destination::Port(b), BYTES, ());
    }
    let last = seen.received.iter().flatten().max().map_or(0, |last| last.saturating_sub(begin));
    while let Some(delivery) = network.poll_delivery(Time::from_nanos(last)) {
        model.push(delivery.due.as_nanos());
    }
    let mut arrivals: Vec<u64> = seen.received.iter().flatten().map(|at| at.saturating_sub(begin)).collect();
    arrivals.sort_unstable();
    model.into_iter().zip(arrivals).map(|(due, at)| LateArrival { due, late: at as f64 - due as f64 }).collect()
}

fn rows(name: &str, late: &[LateArrival]) -> Vec<BenchRow> {
    let what = |what: &str| format!("{name}: {what}");
    let (target, errors) = (format!("p99 ≤ {LATE_US} µs"), window_errors(late));
    let spread = Spread::from_values(late.iter().map(|one| one.late / 1e3).collect());
    let Some((spread, (first, last))) = spread.zip(late.first().zip(late.last())) else {
        return vec![BenchRow::unmeasured(what("lateness of arrivals"), target, "nothing arrived".to_owned())];
    };
    let Spread { p50, p99, max } = spread;
    let seen = format!("p50 {p50:.1}, p99 {p99:.1}, most {max:.1} µs");
    let lateness = spread.add_to(BenchRow::judged(what("lateness of arrivals"), target, seen, p99 <= LATE_US));
    let over = errors.iter().filter(|error| **error > WINDOW_PERCENT).count();
    let most = errors.iter().copied().fold(0.0, f64::max);
    let seen = format!("most {most:.3} %, {over} of {} beyond", errors.len());
    let windows = BenchRow::judged(what("rate in each 100 ms"), format!("within ±{WINDOW_PERCENT} %"), seen, over == 0)
        .with("most_percent", most);
    let long = (last.late - first.late) / (last.due.saturating_sub(first.due).max(1)) as f64 * 100.0;
    let seen = format!("{long:+.5} % of {} packets", late.len());
    let whole = BenchRow::judged(what("rate"), format!("within ±{LONG_PERCENT} %"), seen, long.abs() <= LONG_PERCENT)
        .with("error_percent", long);
    vec![lateness, windows, whole]
}

/// The error of the rate in each window, in percent.
fn window_errors(late: &[LateArrival]) -> Vec<f64> {
    let window = WINDOW.as_nanos() as u64;
    let ends: Vec<LateArrival> =
        late.chunk_by(|a, b| a.due / window == b.due / window).filter_map(|it| it.last().copied()).collect();
    let error = |pair: &[LateArrival]| {
        let length = pair[1].due.saturating_sub(pair[0].due).max(window) as f64;
        (pair[1].late - pair[0].late).abs() / length * 100.0
    };
    ends.windows(2).map(error).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BenchVerdict;

    /// The arrivals of a link that plays the steps exactly, but for an error at each packet.
    fn seen(error: impl Fn(u64) -> u64) -> (Topology, PacketTimes) {
        let topology = topology(read_trace(&steps(STEPS)).unwrap());
        let sent: Vec<u64> = (0..2000).map(|n| n * 865_143).collect();
        let exact =
            lateness(&topology, &PacketTimes { received: vec![Some(1_800_000_000); 2000], sent: sent.clone() }, 0);
        let mut received: Vec<Option<u64>> = exact.iter().zip(0..).map(|(one, n)| Some(one.due + error(n))).collect();
        received.resize(2000, None);
        (topology, PacketTimes { sent, received })
    }

    fn verdicts(error: impl Fn(u64) -> u64) -> Vec<BenchVerdict> {
        let (topology, seen) = seen(error);
        rows("x", &lateness(&topology, &seen, 0)).into_iter().map(|row| row.verdict).collect()
    }

    #[test]
    fn late_arrivals_miss_targets() {
        assert_eq!(verdicts(|_| 20_000), [BenchVerdict::Met; 3]);
        let all = verdicts(|n| n * 2_000);
        assert_eq!(all, [BenchVerdict::Missed, BenchVerdict::Met, BenchVerdict::Missed]);
        assert_eq!(verdicts(|n| if n == 300 { 2_000_000 } else { 0 })[0], BenchVerdict::Met);
    }
}
