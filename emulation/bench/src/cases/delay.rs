//! Errors of one-way delays: of links with very different delays, all at once, on an idle machine or beside a
//! load.

use std::time::{Duration, Instant};

use roost_lab::Lab;
use roost_topology::model::Queue;
use roost_topology::units::{Rate, format_duration};

use crate::analysis::{Spread, drift};
use crate::capture::{self, Capture};
use crate::probe::{self, HEADERS, PacketTimes, Priority, ProbeFlow};
use crate::program::{PING, SHELL, ToolError, ToolProcess};
use crate::{BenchContext, BenchError, BenchRow, is_realtime, machine, networks};

const DELAYS_MS: [u64; 5] = [1, 20, 50, 100, 600];
const RATE: Rate = Rate::from_bps(100_000_000);
const BYTES: u32 = HEADERS + 100;
/// The interval of probes on one link: 1000 of them in 10 s.
const INTERVAL: Duration = Duration::from_millis(10);
const LENGTH: Duration = Duration::from_secs(10);
/// The wait after the longest delay.
const PATIENCE: Duration = Duration::from_millis(900);

/// Targets in milliseconds.
const P50_MS: f64 = 0.1;
const P99_MS: f64 = 0.25;
/// Aims in milliseconds.
const P50_AIM_MS: f64 = 0.06;
const P99_AIM_MS: f64 = 0.2;
/// The largest growth of the median error from the shortest delay to the longest.
const DRIFT_MS: f64 = 0.05;
/// The largest error of ping's mean: twice that of one way.
const PING_MS: f64 = 0.2;

/// The frame of ping's echo request, and of its answer.
const PING_BYTES: u64 = 14 + 20 + 8 + 56;
const PINGS: u32 = 20;

/// A load on two processors like that of a compiler: processes start and end, allocate memory, compute and pass
/// data to each other.
const LOAD: &str = "for each in 1 2; do while :; do seq 1 200000 | sort -r | cksum; done & done; wait";
/// The time until the load is established.
const WARM_UP: Duration = Duration::from_millis(500);

pub(crate) fn quiet(bench: &mut BenchContext<'_>) -> Result<Vec<BenchRow>, BenchError> {
    let lab = start(bench)?;
    let captures = captures(&lab);
    let origin = Instant::now();
    let read = probes(bench, &lab, origin, Priority::Usual)?;
    let core = core_row(&lab);
    let arrived = captures.and_then(|captures| arrivals(bench, captures, origin, &read));
    // Without rights tcpdump does not run; this is the case of an unprivileged user.
    let (traces, note) = match arrived {
        Ok(arrived) => (arrived, None),
        Err(failed) => (read.clone(), Some(format!("with the reader's wake-up in it: {}", failed.reason()?))),
    };
    let errors = spreads(&traces);
    let mut rows: Vec<BenchRow> = DELAYS_MS
        .iter()
        .zip(&errors)
        .zip(&traces)
        .map(|((ms, error), trace)| {
            let target = format!("p50 ≤ {P50_MS}, p99 ≤ {P99_MS} ms");
            let what = format!("one-way delay of {ms} ms, error");
            let within = |error: Spread, p50: f64, p99: f64| error.p50 <= p50 && error.p99 <= p99;
            let row = row(what, target, (*error, trace), |error| within(error, P50_MS, P99_MS));
            match error {
                Some(error) => {
                    let aim = format!("p50 ≤ {P50_AIM_MS}, p99 ≤ {P99_AIM_MS} ms");
                    row.with_stretch_target(aim, within(*error, P50_AIM_MS, P99_AIM_MS) && trace.lost() == 0)
                }
                None => row,
            }
        })
        .map(|row| BenchRow { note: row.note.clone().or(note.clone()), ..row })
        .collect();
    rows.push(drift_row(&errors));
    rows.extend(read_row(&read));
    rows.push(ping_row(bench, &lab)?);
    rows.push(core);
    rows.extend(floor_row(bench, is_realtime(&lab)));
    Ok(rows)
}

pub(crate) fn busy(bench: &mut BenchContext<'_>) -> Result<Vec<BenchRow>, BenchError> {
    let lab = start(bench)?;
    let what = |ms: &u64| format!("one-way delay of {ms} ms beside a load, error");
    let target = format!("p99 ≤ {P99_MS} ms");
    let unmeasured = |why: &str| DELAYS_MS.iter().map(|ms| BenchRow::unmeasured(what(ms), &target, why)).collect();
    if !is_realtime(&lab) {
        return Ok(unmeasured("the target is for a real-time priority, which was not given: see `machine` in --json"));
    }
    let command = bench.options.load_command.as_deref().unwrap_or(LOAD);
    // Any host will do: the load only uses processors.
    let load = match ToolProcess::start(&lab, 0, SHELL, &["-c", command]) {
        Ok(load) => load,
        Err(failed) => return Ok(unmeasured(&failed.reason()?)),
    };
    bench.sleep_unless_stopped(WARM_UP);
    let traces = probes(bench, &lab, Instant::now(), Priority::AsTheCore)?;
    let beside = [Some(core_row(&lab)), floor_row(bench, true)];
    drop(load);
    let rows = DELAYS_MS.iter().zip(spreads(&traces)).zip(&traces);
    let judge = |error: Spread| error.p99 <= P99_MS;
    let rows = rows.map(|((ms, error), trace)| row(what(ms), target.clone(), (error, trace), judge));
    Ok(rows.chain(beside.into_iter().flatten()).collect())
}

fn start(bench: &mut BenchContext<'_>) -> Result<Lab, BenchError> {
    let links = DELAYS_MS.map(|ms| networks::direction(RATE, Duration::from_millis(ms), Queue::DEFAULT.limit));
    bench.lab(&networks::links(links))
}

fn probes(
    bench: &BenchContext<'_>,
    lab: &Lab,
    origin: Instant,
    priority: Priority,
) -> Result<Vec<PacketTimes>, BenchError> {
    // Fits u32: some hours in steps of 10 ms.
    let count = (bench.length(LENGTH).as_nanos() / INTERVAL.as_nanos()).max(1) as u32;
    let flow = |link| {
        let (from, to) = networks::ends(link);
        ProbeFlow { from, to, bytes: BYTES, count, interval: INTERVAL, uneven: true }
    };
    let flows: Vec<ProbeFlow> = (0..DELAYS_MS.len()).map(flow).collect();
    Ok(probe::send_probes(bench, lab, &flows, origin, PATIENCE, priority)?.traces)
}

/// Captures the arrivals at each receiver with `tcpdump`: the network ends at the host's interface, and the
/// wake-up of a program is not part of it.
fn captures(lab: &Lab) -> Result<Vec<Capture>, ToolError> {
    (0..DELAYS_MS.len()).map(|link| Capture::start(lab, networks::ends(link).1, "udp")).collect()
}

/// Arrivals of the probes at the interfaces.
fn arrivals(
    bench: &BenchContext<'_>,
    captures: Vec<Capture>,
    origin: Instant,
    read: &[PacketTimes],
) -> Result<Vec<PacketTimes>, ToolError> {
    let origin = capture::since_1970(origin)?;
    let stamped = |(capture, read): (Capture, &PacketTimes)| stamp(&capture.finish_probes(bench)?, origin, read);
    captures.into_iter().zip(read).map(stamped).collect()
}

/// Replaces the times of a trace by those of the interface. For a probe that was read and that `tcpdump` missed
/// (it may lose its last ones when it ends) the reader's time counts.
fn stamp(arrived: &[(u64, u32)], origin: u64, read: &PacketTimes) -> Result<PacketTimes, ToolError> {
    let mut stamped = read.clone();
    let mut seen = 0;
    for (at, number) in arrived {
        if let Some(received @ Some(_)) = stamped.received.get_mut(*number as usize) {
            *received = Some(at.saturating_sub(origin));
            seen += 1;
        }
    }
    let missed = (read.sent.len() - read.lost()).saturating_sub(seen);
    if missed > read.sent.len() / 100 + 1 {
        return Err(ToolError::NotMeasured(format!("tcpdump did not see {missed} of {} probes", read.sent.len())));
    }
    Ok(stamped)
}

/// The errors of each link's delays, milliseconds: the excess over propagation and transmission.
fn spreads(traces: &[PacketTimes]) -> Vec<Option<Spread>> {
    DELAYS_MS.iter().zip(traces).map(|(ms, trace)| Spread::from_values(errors(*ms, trace).collect())).collect()
}

fn errors(ms: u64, trace: &PacketTimes) -> impl Iterator<Item = f64> + '_ {
    let expected = (Duration::from_millis(ms) + RATE.time_for(BYTES.into())).as_nanos() as f64;
    trace.delays().map(move |delay| (delay - expected) / 1e6)
}

fn row(
    what: String,
    target: String,
    (error, trace): (Option<Spread>, &PacketTimes),
    judge: impl Fn(Spread) -> bool,
) -> BenchRow {
    let Some(error) = error else { return BenchRow::unmeasured(what, target, "no probe arrived") };
    let (sent, lost) = (trace.sent.len(), trace.lost());
    let row = error
        .add_to(BenchRow::judged(what, target, error.to_string(), judge(error) && lost == 0))
        .with("packets", sent as f64)
        .with("lost", lost as f64);
    if lost == 0 { row } else { row.noting(format!("{lost} of {sent} probes were lost, and none should be")) }
}

fn drift_row(errors: &[Option<Spread>]) -> BenchRow {
    let (what, target) = ("growth of the median error from 1 to 600 ms", format!("within ±{DRIFT_MS} ms"));
    let points = DELAYS_MS.iter().zip(errors).filter_map(|(ms, error)| Some((*ms as f64, (*error)?.p50)));
    match drift(&points.collect::<Vec<_>>()) {
        Some(drift) => {
            let met = drift.abs() <= DRIFT_MS;
            BenchRow::judged(what, target, format!("{drift:+.3} ms"), met).with("drift_ms", drift)
        }
        None => BenchRow::unmeasured(what, target, "too few links were measured"),
    }
}

/// The errors of all links, as seen by the programs that read the probes.
fn read_row(read: &[PacketTimes]) -> Option<BenchRow> {
    let spread = Spread::from_values(DELAYS_MS.iter().zip(read).flat_map(|(ms, trace)| errors(*ms, trace)).collect())?;
    Some(late_row("of all links, until a program of usual priority has read the probe, error", spread))
}

/// The core's part of the errors: the rest is wake-ups of the core and of the receiver.
fn core_row(lab: &Lab) -> BenchRow {
    let lateness = lab.lateness();
    let [p50, p99] = [0.5, 0.99].map(|part| lateness.quantile(part).as_secs_f64() * 1e3);
    let max = lateness.max().as_secs_f64() * 1e3;
    let late = Spread { p50, p99, max };
    late_row("of that, packets were written late by", late)
}

/// The limit of this machine: a thread that only sleeps, with the priority of the core.
fn floor_row(bench: &BenchContext<'_>, realtime: bool) -> Option<BenchRow> {
    let interval = INTERVAL / 5;
    let count = (bench.length(LENGTH).as_nanos() / INTERVAL.as_nanos()).max(1) as u32;
    let late = machine::wake_ups(count, interval, realtime, bench.stop);
    let late = Spread::from_values(late.into_iter().map(|late| late / 1e6).collect())?;
    Some(late_row("for comparison, a sleeping thread is woken late by", late))
}

fn late_row(what: &str, late: Spread) -> BenchRow {
    late.add_to(BenchRow::shown(what, late.to_string()))
}

/// All links, measured by the independent program `ping`.
fn ping_row(bench: &BenchContext<'_>, lab: &Lab) -> Result<BenchRow, BenchError> {
    let (what, target) = ("round trip by ping, mean error of the worst link", format!("within ±{PING_MS} ms"));
    let errors = match pings(bench, lab) {
        Ok(errors) => errors,
        Err(failed) => return Ok(BenchRow::unmeasured(what, target, failed.reason()?)),
    };
    let worst = errors.iter().copied().max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()));
    let Some((ms, error)) = worst else { return Ok(BenchRow::unmeasured(what, target, "no link")) };
    let delay = format_duration(Duration::from_millis(ms));
    let seen = format!("{error:+.3} ms of {} ms (link of {delay})", 2 * ms);
    Ok(BenchRow::judged(what, target, seen, error.abs() <= PING_MS).with("error_ms", error))
}

/// By link, its delay and the error of the mean round trip, milliseconds.
fn pings(bench: &BenchContext<'_>, lab: &Lab) -> Result<Vec<(u64, f64)>, ToolError> {
    let start = |link: usize| {
        let (from, to) = networks::ends(link);
        let address = lab.address(to).map(|address| address.to_string()).unwrap_or_default();
        ToolProcess::start(lab, from, PING, &["-n", "-q", "-c", &PINGS.to_string(), "-i", "0.2", &address])
    };
    let programs = (0..DELAYS_MS.len()).map(start).collect::<Result<Vec<_>, _>>()?;
    let mut errors = Vec::new();
    for (ms, program) in DELAYS_MS.iter().zip(programs) {
        let text = program.finish(Duration::from_secs(20), bench.stop)?.text(PING)?;
        let measured = mean_round_trip(&text).ok_or_else(|| ToolError::NotMeasured(format!("ping said: {text}")))?;
        let expected = 2.0 * (*ms as f64 + RATE.time_for(PING_BYTES).as_secs_f64() * 1e3);
        errors.push((*ms, measured - expected));
    }
    Ok(errors)
}

/// Milliseconds, from ping's last line, which has microseconds even if the lines before it have none.
fn mean_round_trip(text: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix("rtt min/avg/max/mdev = "))?;
    line.split('/').nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BenchVerdict;

    fn trace(error_us: &[u64], ms: u64) -> PacketTimes {
        let expected = ms * 1_000_000 + RATE.time_for(BYTES.into()).as_nanos() as u64;
        let received = error_us.iter().map(|error| Some(1_000 + expected + error * 1_000)).collect();
        PacketTimes { sent: vec![1_000; error_us.len()], received }
    }

    #[test]
    fn error_excludes_delay_and_transmission() {
        let traces: Vec<PacketTimes> = DELAYS_MS.iter().map(|ms| trace(&[40, 50, 60], *ms)).collect();
        for error in spreads(&traces) {
            let error = error.unwrap();
            assert!((error.p50 - 0.05).abs() < 1e-9 && (error.max - 0.06).abs() < 1e-9, "{error:?}");
        }
        assert_eq!(drift_row(&spreads(&traces)).verdict, BenchVerdict::Met);
    }

    #[test]
    fn captured_times_replace_read_times() {
        let read = PacketTimes { sent: vec![1_000; 4], received: vec![Some(9_000), Some(9_500), None, Some(9_900)] };
        let stamped = stamp(&[(1_008_500, 1), (1_008_000, 0), (1_008_700, 2)], 1_000_000, &read).unwrap();
        assert_eq!(stamped.received, [Some(8_000), Some(8_500), None, Some(9_900)]);
        assert!(stamp(&[(1_008_000, 0)], 1_000_000, &read).is_err(), "too few of them");
    }

    #[test]
    fn growing_delays_count_as_drift() {
        let traces: Vec<PacketTimes> = DELAYS_MS.iter().map(|ms| trace(&[*ms / 5], *ms)).collect();
        assert_eq!(drift_row(&spreads(&traces)).verdict, BenchVerdict::Missed);
    }

    #[test]
    fn a_lost_probe_misses_the_target() {
        let spread = Some(Spread { p50: 0.05, p99: 0.1, max: 0.2 });
        let judge = |trace: &PacketTimes| row(String::new(), String::new(), (spread, trace), |_| true);
        assert_eq!(judge(&trace(&[50], 1)).verdict, BenchVerdict::Met);
        assert_eq!(judge(&PacketTimes { sent: vec![1], received: vec![None] }).verdict, BenchVerdict::Missed);
    }

    #[test]
    fn ping_summary_line_is_parsed() {
        let text = "--- 10.1.1.3 ping statistics ---\n20 packets transmitted, 20 received, 0% packet loss, time 3800ms\n\
                    rtt min/avg/max/mdev = 1200.046/1200.113/1200.240/0.051 ms, pipe 7\n";
        assert_eq!(mean_round_trip(text), Some(1200.113));
        assert_eq!(mean_round_trip("20 packets transmitted, 0 received, 100% packet loss\n"), None);
    }
}
