//! Errors of the times of scheduled changes: a link goes down, comes up and changes its delay, repeatedly.

use std::time::{Duration, Instant};

use roost_lab::Lab;
use roost_topology::Topology;
use roost_topology::model::{Action, Event, Leg, TopologyChange};

use crate::analysis::StateChange;
use crate::capture::{self, Capture};
use crate::probe::{self, HEADERS, PacketTimes, Priority, ProbeFlow};
use crate::{BenchContext, BenchError, BenchRow, networks};

/// The events of each round, after its beginning.
const ROUND: Duration = Duration::from_secs(1);
const DOWN_AT: Duration = Duration::from_millis(200);
const UP_AT: Duration = Duration::from_millis(400);
const SLOWER_AT: Duration = Duration::from_millis(600);
const FASTER_AT: Duration = Duration::from_millis(800);
/// The time before the first round, for sockets to open and probes to flow.
const LEAD: Duration = Duration::from_millis(500);
const LENGTH: Duration = Duration::from_secs(5);

const SHORT: Duration = Duration::from_millis(10);
const LONG: Duration = Duration::from_millis(30);
const BYTES: u32 = HEADERS + 58;
const INTERVAL: Duration = Duration::from_micros(200);
const PATIENCE: Duration = Duration::from_millis(300);

const TARGET_MS: f64 = 1.0;
/// The range of probes around a change: no other change is as near.
const REACH: Duration = Duration::from_millis(100);

/// The times of one round, nanoseconds since the origin of probes.
#[derive(Clone, Copy, Debug)]
struct Round {
    down: u64,
    up: u64,
    slower: u64,
}

pub(crate) fn measure(bench: &mut BenchContext<'_>) -> Result<Vec<BenchRow>, BenchError> {
    let rounds = (bench.length(LENGTH).as_secs() as usize).max(1);
    let lab = bench.lab(&topology(rounds))?;
    let (from, to) = networks::ends(0);
    let capture = Capture::start(&lab, to, "udp");
    let origin = Instant::now();
    lab.begin()?;
    let rounds = times(begin_of(&lab, origin), rounds);
    let length = LEAD + ROUND * rounds.len() as u32;
    // Fits u32: some seconds in steps of 0.2 ms.
    let count = (length.as_nanos() / INTERVAL.as_nanos()) as u32;
    let flow = ProbeFlow { from, to, bytes: BYTES, count, interval: INTERVAL, uneven: false };
    let traces = probe::send_probes(bench, &lab, &[flow], origin, PATIENCE, Priority::Usual)?.traces;
    let trace = traces.into_iter().next().unwrap_or_default();
    let mut rows = rows(&trace, &rounds);
    let frames = capture.and_then(|capture| capture.finish(bench));
    rows.push(match frames {
        Ok(frames) => witness_row(&frames, capture::since_1970(origin)?, &rounds),
        Err(failed) => BenchRow::unmeasured(WITNESS, target(), failed.reason()?),
    });
    Ok(rows)
}

fn topology(rounds: usize) -> Topology {
    let mut topology = networks::links([Leg { delay: SHORT, ..Leg::default() }]);
    for round in 0..rounds {
        let begin = LEAD + ROUND * round as u32;
        let changes = [
            (DOWN_AT, TopologyChange::Down),
            (UP_AT, TopologyChange::Up),
            (SLOWER_AT, TopologyChange::Delay(LONG)),
            (FASTER_AT, TopologyChange::Delay(SHORT)),
        ];
        topology.events.extend(changes.map(|(at, change)| Event {
            at: begin + at,
            after: None,
            object: "link0".to_owned(),
            line: 0,
            action: Action::Net { net: 0, from: None, change },
        }));
    }
    topology
}

/// The start of the lab's schedule, nanoseconds since `origin`.
pub(super) fn begin_of(lab: &Lab, origin: Instant) -> u64 {
    /// Of several readings of both clocks the shortest is the most exact.
    const LOOKS: usize = 20;
    let look = |_| {
        let before = origin.elapsed();
        let since_begin = lab.now().as_nanos();
        let after = origin.elapsed();
        let middle = ((before + after) / 2).as_nanos() as u64;
        (after - before, middle.saturating_sub(since_begin))
    };
    (0..LOOKS).map(look).min().map_or(0, |(_, begin)| begin)
}

fn times(begin: u64, rounds: usize) -> Vec<Round> {
    let at = |round: usize, offset: Duration| begin + (LEAD + ROUND * round as u32 + offset).as_nanos() as u64;
    let round = |round| Round { down: at(round, DOWN_AT), up: at(round, UP_AT), slower: at(round, SLOWER_AT) };
    (0..rounds).map(round).collect()
}

fn rows(trace: &PacketTimes, rounds: &[Round]) -> Vec<BenchRow> {
    let both = || trace.sent.iter().copied().zip(trace.received.iter().copied());
    let lost: Vec<(u64, bool)> = both().map(|(sent, received)| (sent, received.is_none())).collect();
    let arrived: Vec<(u64, bool)> = lost.iter().map(|(sent, lost)| (*sent, !lost)).collect();
    let middle = (SHORT + (LONG - SHORT) / 2).as_nanos() as u64;
    let slow = both().filter_map(|(sent, received)| Some((sent, received?.saturating_sub(sent) > middle)));
    let slow: Vec<(u64, bool)> = slow.collect();
    let mut rows = vec![
        change_row("link down", &lost, rounds, |round| round.down),
        change_row("link up", &arrived, rounds, |round| round.up),
        change_row("another delay", &slow, rounds, |round| round.slower),
    ];
    rows.push(down_row(&arrived, rounds));
    rows
}

fn target() -> String {
    format!("≤ {TARGET_MS} ms")
}

fn change_row(what: &str, probes: &[(u64, bool)], rounds: &[Round], at: impl Fn(&Round) -> u64) -> BenchRow {
    let what = format!("{what}, against its time, worst of {}", rounds.len());
    let turn = |round: &Round| Some(StateChange::find(probes, at(round), REACH.as_nanos() as u64)?.error(at(round)));
    let Some(errors) = rounds.iter().map(turn).collect::<Option<Vec<u64>>>() else {
        let why = "not every change was seen by probes on both sides of it";
        return BenchRow::unmeasured(what, target(), why);
    };
    error_row(what, &errors)
}

fn error_row(what: String, errors: &[u64]) -> BenchRow {
    let worst = errors.iter().max().map_or(f64::INFINITY, |worst| *worst as f64 / 1e6);
    let seen = format!("{worst:.3} ms");
    BenchRow::judged(what, target(), seen, worst <= TARGET_MS).with("error_ms", worst)
}

/// No packet may be accepted while the link is down, except within the target at both ends.
fn down_row(arrived: &[(u64, bool)], rounds: &[Round]) -> BenchRow {
    let margin = (TARGET_MS * 1e6) as u64;
    let down = |sent: u64| rounds.iter().any(|round| (round.down + margin..round.up - margin).contains(&sent));
    let sent: Vec<bool> = arrived.iter().filter(|(sent, _)| down(*sent)).map(|(_, arrived)| *arrived).collect();
    let accepted = sent.iter().filter(|arrived| **arrived).count();
    let seen = format!("{accepted} of {}", sent.len());
    BenchRow::judged("accepted while down", "none", seen, accepted == 0 && !sent.is_empty())
        .with("accepted", accepted as f64)
        .with("packets", sent.len() as f64)
}

const WITNESS: &str = "link down and up, by tcpdump at the receiver";

/// Arrivals must stop one delay after the link went down, and start again one delay after it came up.
fn witness_row(frames: &[capture::CapturedFrame], origin: u64, rounds: &[Round]) -> BenchRow {
    let arrivals: Vec<u64> = frames.iter().map(|(time, _)| time.saturating_sub(origin)).collect();
    let delay = SHORT.as_nanos() as u64;
    let errors = rounds.iter().map(|round| {
        let (stop, start) = (round.down + delay, round.up + delay);
        let middle = stop + (start - stop) / 2;
        let next = arrivals.partition_point(|arrival| *arrival < middle);
        let (last, first) = (*arrivals.get(next.checked_sub(1)?)?, *arrivals.get(next)?);
        Some(last.abs_diff(stop).max(first.abs_diff(start)))
    });
    match errors.collect::<Option<Vec<u64>>>() {
        Some(errors) => error_row(format!("{WITNESS}, worst of {}", rounds.len()), &errors),
        None => BenchRow::unmeasured(WITNESS, target(), "it saw nothing before or after a change"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BenchVerdict;

    /// The trace of an exact emulator that is `late` nanoseconds at each change.
    fn trace(rounds: &[Round], late: u64) -> PacketTimes {
        let sent: Vec<u64> = (0..12_500).map(|number| number * INTERVAL.as_nanos() as u64).collect();
        let received = sent.iter().map(|sent| {
            let within = |from: u64, to: u64| (from + late..to + late).contains(sent);
            if rounds.iter().any(|round| within(round.down, round.up)) {
                return None;
            }
            let slow = rounds.iter().any(|round| within(round.slower, round.slower + 200_000_000));
            Some(sent + if slow { LONG } else { SHORT }.as_nanos() as u64)
        });
        PacketTimes { received: received.collect(), sent }
    }

    #[test]
    fn exact_schedule_met_late_missed() {
        let rounds = times(0, 2);
        for (late, verdict) in [(0, BenchVerdict::Met), (500_000, BenchVerdict::Met), (2_000_000, BenchVerdict::Missed)]
        {
            let rows = rows(&trace(&rounds, late), &rounds);
            assert_eq!(rows.len(), 4);
            for row in &rows {
                assert_eq!(row.verdict, verdict, "{late}: {row:?}");
            }
        }
    }

    #[test]
    fn packet_while_down_is_reported() {
        let rounds = times(0, 2);
        let mut trace = trace(&rounds, 0);
        let middle = trace.sent.iter().position(|sent| *sent > rounds[1].down + 100_000_000).unwrap();
        trace.received[middle] = Some(trace.sent[middle] + 10_000_000);
        let row = rows(&trace, &rounds).pop().unwrap();
        assert_eq!((row.verdict, row.values["accepted"] as u64), (BenchVerdict::Missed, 1));
    }

    #[test]
    fn capture_sees_gap_after_delay() {
        let rounds = times(0, 2);
        let origin = 1_000_000_000_000;
        let arrivals = |late: u64| -> Vec<capture::CapturedFrame> {
            let trace = trace(&rounds, late);
            trace.received.iter().flatten().map(|time| (origin + time, 100)).collect()
        };
        assert_eq!(witness_row(&arrivals(0), origin, &rounds).verdict, BenchVerdict::Met);
        assert_eq!(witness_row(&arrivals(1_500_000), origin, &rounds).verdict, BenchVerdict::Missed);
        assert_eq!(witness_row(&[], origin, &rounds).verdict, BenchVerdict::NotMeasured);
    }
}
