//! Tests whether the network matches its description: delay, rate and loss of every link and LAN, in each
//! direction, and reachability between hosts.
//!
//! Every direction is measured with time-stamped packets, and judged by Emulab's criteria ([`criteria`]). On a
//! LAN delay is measured between all pairs of members, or round the ring of them if they are many; loss round
//! the ring; rate on paths on which each leg is the slowest of its path. A measurement that fails is repeated
//! twice, with less traffic beside it, and fails only if it does so each time: 1 % of correct links fail once,
//! and a machine that is busy for a moment is not the link's fault.
//!
//! Nothing else should use the network meanwhile.

pub mod criteria;
mod expect;
mod flow;
mod paths;
mod plan;
mod probe;
mod reach;
mod remote;
mod report;
mod wire;

use std::time::Duration;

use criteria::CriterionResult;
pub(crate) use flow::{LinktestFlow, LinktestTrace};
use plan::PathTest;
pub(crate) use remote::RemoteProbes;
pub use report::{LinktestKind, LinktestMeasurement, LinktestOutcome, LinktestReport, LinktestSummary, Reachability};
pub(crate) use wire::ProbePriority;
pub use wire::run;

use roost_topology::model::{Net, NetIndex, Topology};

/// Measurements of a path before it has failed.
pub const ATTEMPTS: i32 = 3;
/// Packets per second of all probes together, by test: delays must not queue in the core, and the core must not
/// be the bottleneck of a rate.
const PACE: [f64; 3] = [5_000.0, 10_000.0, 25_000.0];
/// Time for one test with its repeats; measurements that do not fit are not repeated.
const TIME: Duration = Duration::from_secs(15);
const QUICK_TIME: Duration = Duration::from_secs(4);
/// The most ordered pairs of members, of all LANs together, up to which delay is measured between all.
const ALL_PAIRS: usize = 3_000;

#[derive(Clone, Debug)]
pub struct LinktestOptions {
    /// A few seconds instead of a minute: fewer probes, and delays only round the ring.
    pub quick: bool,
    pub tests: Vec<LinktestKind>,
    /// True to test reachability between hosts where packets are routed.
    pub reach: bool,
    /// Only these links and LANs; empty means all.
    pub nets: Vec<NetIndex>,
}

impl Default for LinktestOptions {
    fn default() -> Self {
        Self { quick: false, tests: LinktestKind::ALL.to_vec(), reach: true, nets: Vec::new() }
    }
}

/// The transport of probes: the lab, or in tests the model itself.
trait ProbeCarrier {
    type Error;
    /// Sends all flows, and waits for their arrivals.
    fn send_flows(&mut self, flows: &[LinktestFlow]) -> Result<Vec<LinktestTrace>, Self::Error>;
    fn stopped(&self) -> bool;
}

/// Measures over a carrier of probes; `watch` gets the name of each step.
fn measure<W: ProbeCarrier>(
    topology: &Topology,
    options: &LinktestOptions,
    wire: &mut W,
    watch: &mut dyn FnMut(&'static str),
) -> Result<LinktestReport, W::Error> {
    let mut report = LinktestReport { quick: options.quick, ..LinktestReport::default() };
    if options.reach {
        watch("routes");
        report.reach = try_reach(topology, options, wire)?;
    }
    let mut found: Vec<(NetIndex, LinktestMeasurement)> = Vec::new();
    for (test, pace) in LinktestKind::ALL.into_iter().zip(PACE) {
        if options.tests.contains(&test) && !wire.stopped() {
            watch(test.name());
            found.extend(try_paths(topology, options, wire, test, pace)?);
        }
    }
    found.sort_by_key(|(net, _)| *net);
    report.measurements = found.into_iter().map(|(_, measurement)| measurement).collect();
    report.interrupted = wire.stopped();
    Ok(report)
}

fn try_reach<W: ProbeCarrier>(
    topology: &Topology,
    options: &LinktestOptions,
    wire: &mut W,
) -> Result<Option<Reachability>, W::Error> {
    let (pairs, chosen) = reach::chosen(topology, options);
    if pairs == 0 {
        return Ok(None);
    }
    let (mut flows, mut open) = reach::flows(topology, &chosen);
    let tried = flows.len();
    for _ in 0..reach::ATTEMPTS {
        if open.is_empty() || wire.stopped() {
            break;
        }
        open = reach::unanswered(&open, &wire.send_flows(&flows)?);
        (flows, open) = reach::flows(topology, &open);
    }
    Ok(Some(reach::report(topology, pairs, tried, &open)))
}

fn try_paths<W: ProbeCarrier>(
    topology: &Topology,
    options: &LinktestOptions,
    wire: &mut W,
    test: LinktestKind,
    pace: f64,
) -> Result<Vec<(NetIndex, LinktestMeasurement)>, W::Error> {
    let jobs = jobs(topology, options, test);
    let mut done: Vec<LinktestMeasurement> = jobs.iter().map(|job| unmeasured(topology, job)).collect();
    let mut open: Vec<usize> = (0..jobs.len()).filter(|index| jobs[*index].flow.is_ok()).collect();
    let rest = jobs.iter().map(|job| job.drain).max().unwrap_or_default();
    let mut time = if options.quick { QUICK_TIME } else { TIME };
    for attempt in 1..=ATTEMPTS {
        if open.is_empty() || wire.stopped() {
            break;
        }
        let mut flows: Vec<LinktestFlow> = open.iter().filter_map(|index| jobs[*index].flow.clone().ok()).collect();
        // Repeats with less traffic beside it, if there is time.
        let gentle = flow::schedule(&mut flows, pace / 4.0_f64.powi(attempt - 1), rest);
        let length = if gentle <= time { gentle } else { flow::schedule(&mut flows, pace, rest) };
        if attempt > 1 && length > time {
            break;
        }
        time = time.saturating_sub(length);
        let traces = wire.send_flows(&flows)?;
        if wire.stopped() {
            break;
        }
        for (index, trace) in open.iter().zip(&traces) {
            judge(&mut done[*index], &jobs[*index], trace, attempt.unsigned_abs());
        }
        open.retain(|index| done[*index].outcome == LinktestOutcome::Failed);
    }
    Ok(jobs.iter().map(|job| job.way.0).zip(done).collect())
}

/// The paths to measure in one test.
fn jobs(topology: &Topology, options: &LinktestOptions, test: LinktestKind) -> Vec<PathTest> {
    let chosen = |net: &NetIndex| options.nets.is_empty() || options.nets.contains(net);
    let nets: Vec<NetIndex> = (0..topology.nets.len()).filter(chosen).collect();
    let pairs: usize = nets.iter().map(|net| topology.nets[*net].members.len().pow(2)).sum();
    let thorough = !options.quick && pairs <= ALL_PAIRS;
    let pairs = |net: &Net| match test {
        LinktestKind::Delay if thorough => paths::all(net.members.len()),
        LinktestKind::Delay => paths::ring(net.members.len()),
        LinktestKind::Loss => paths::circle(net.members.len()),
        LinktestKind::Rate => paths::rates(net),
    };
    let of_net = |net: NetIndex| {
        // A radio is not measured, and one entry says so.
        let pairs = if topology.radio(net).is_some() { vec![(0, 1)] } else { pairs(&topology.nets[net]) };
        pairs.into_iter().filter_map(move |(from, to)| plan::job(topology, test, net, from, to, options))
    };
    nets.into_iter().flat_map(of_net).collect()
}

/// A path's entry before it is measured.
fn unmeasured(topology: &Topology, job: &PathTest) -> LinktestMeasurement {
    let name = |host: usize| topology.hosts.get(host).map(|host| host.name.clone()).unwrap_or_default();
    let (net, from, to) = job.way;
    let net = &topology.nets[net];
    LinktestMeasurement {
        test: job.test,
        net: net.name.clone(),
        from: name(net.members[from].host),
        to: name(net.members[to].host),
        expected: job.expected(),
        measured: None,
        error: None,
        statistic: None,
        sent: 0,
        received: 0,
        attempts: 0,
        outcome: LinktestOutcome::Skipped,
        why: job.flow.as_ref().err().map(|why| (*why).to_owned()).or_else(|| Some("it was stopped before".to_owned())),
    }
}

fn judge(done: &mut LinktestMeasurement, job: &PathTest, trace: &LinktestTrace, attempt: u32) {
    let judged = job.judge(trace);
    done.sent = trace.sent;
    done.received = trace.sent - trace.lost();
    done.attempts = attempt;
    done.why = None;
    done.measured = judged.map(|judged| judged.measured);
    done.error = judged.map(|judged| judged.error);
    done.statistic = judged.and_then(|judged| judged.statistic);
    done.outcome = if judged.is_some_and(|CriterionResult { passed, .. }| passed) {
        LinktestOutcome::Passed
    } else {
        LinktestOutcome::Failed
    };
}

#[cfg(test)]
mod tests;
