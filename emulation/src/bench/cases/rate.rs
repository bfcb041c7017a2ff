//! How exact rates are, with more offered than they allow; and what TCP makes
//! of them.
//!
//! What a rate counts is Ethernet frames: IP packets and 14 bytes.

use std::time::Duration;

use crate::bench::capture::{self, Capture};
use crate::bench::iperf::{self, Received};
use crate::bench::program::Failed;
use crate::bench::{Bench, BenchError, Case, Row, analysis, networks};
use crate::lab::Lab;
use crate::units::Rate;

/// One way: 10 ms for the round trip.
const DELAY: Duration = Duration::from_millis(5);
/// What is offered, of the rate.
const OFFERED: f64 = 1.2;
/// Ethernet, IP and UDP.
const UDP_HEADERS: u32 = 14 + 20 + 8;
/// Of a full TCP segment with time stamps: 1500 bytes of IP are 1448 of payload.
const TCP_PART: f64 = 1448.0 / 1514.0;
/// Part of the possible.
const TCP_TARGET: f64 = 0.98;
const LENGTH: Duration = Duration::from_secs(5);
/// TCP's beginning, which is not what is to be measured: slow start, and the
/// filling of the queue.
const TCP_BEGINNING: Duration = Duration::from_secs(2);

/// One rate to measure.
struct Step {
    rate: Rate,
    /// Packets in the queue.
    queue: u32,
    /// UDP payload of a packet.
    payload: u32,
    /// How far the rate of UDP may be off, as a part of it.
    tolerance: f64,
    /// Who is asked what came: `tcpdump`, which has the time of each frame, or
    /// above what it keeps up with, `iperf3`, second by second.
    by_frames: bool,
    tcp: bool,
}

const STEPS: [Step; 5] = [
    Step { rate: Rate::from_bps(56_000), queue: 10, payload: 500, tolerance: 0.002, by_frames: true, tcp: false },
    Step { rate: Rate::from_bps(1_000_000), queue: 50, payload: 1472, tolerance: 0.002, by_frames: true, tcp: true },
    Step { rate: Rate::from_bps(10_000_000), queue: 50, payload: 1472, tolerance: 0.002, by_frames: true, tcp: true },
    Step { rate: Rate::from_bps(100_000_000), queue: 100, payload: 1472, tolerance: 0.002, by_frames: true, tcp: true },
    Step {
        rate: Rate::from_bps(1_000_000_000),
        queue: 1000,
        payload: 1472,
        tolerance: 0.02,
        by_frames: false,
        tcp: false,
    },
];

impl Step {
    const fn frame_bytes(&self) -> u32 {
        self.payload + UDP_HEADERS
    }

    fn udp_row(&self, seen: Result<f64, String>) -> Row {
        let what = format!("UDP at {}/s, 120 % offered, error", self.rate);
        let target = format!("within ±{} %", self.tolerance * 100.0);
        let error = match seen {
            Ok(bits) => bits / self.rate.bps() as f64 - 1.0,
            Err(why) => return Row::unmeasured(Case::Rate, what, target, why),
        };
        let witness = if self.by_frames { "tcpdump" } else { "iperf3" };
        let seen = format!("{:+.3} % by {witness}", error * 100.0);
        Row::judged(Case::Rate, what, target, seen, error.abs() <= self.tolerance).with("error_percent", error * 100.0)
    }

    fn tcp_row(&self, seen: Result<f64, String>) -> Row {
        let what = format!("TCP at {}/s, 10 ms round trip, of the possible", self.rate);
        let target = format!("≥ {} %", TCP_TARGET * 100.0);
        let part = match seen {
            Ok(bits) => bits / (self.rate.bps() as f64 * TCP_PART),
            Err(why) => return Row::unmeasured(Case::Rate, what, target, why),
        };
        let seen = format!("{:.2} %", part * 100.0);
        Row::judged(Case::Rate, what, target, seen, part >= TCP_TARGET).with("part_percent", part * 100.0)
    }
}

/// Measures all rates, one after the other.
pub(in crate::bench) fn measure(bench: &mut Bench<'_>) -> Result<Vec<Row>, BenchError> {
    let (mut udp, mut tcp) = (Vec::new(), Vec::new());
    for step in &STEPS {
        if bench.is_stopped() {
            break;
        }
        let lab = bench.lab(&networks::links([networks::direction(step.rate, DELAY, step.queue)]))?;
        let overruns = lab.overruns()?;
        let row = step.udp_row(seen(measure_udp(bench, &lab, step))?);
        udp.push(noting_overruns(row, lab.overruns()? - overruns));
        if step.tcp && !bench.is_stopped() {
            tcp.push(step.tcp_row(seen(measure_tcp(bench, &lab, step))?));
        }
    }
    udp.append(&mut tcp);
    Ok(udp)
}

fn noting_overruns(row: Row, overruns: u64) -> Row {
    if overruns == 0 { row } else { row.noting(format!("{overruns} packets were too many for this machine")) }
}

fn seen(measured: Result<f64, Failed>) -> Result<Result<f64, String>, BenchError> {
    match measured {
        Ok(value) => Ok(Ok(value)),
        Err(failed) => Ok(Err(failed.reason()?)),
    }
}

/// Bits per second, as the emulator counts them, that came of 120 % offered.
fn measure_udp(bench: &Bench<'_>, lab: &Lab, step: &Step) -> Result<f64, Failed> {
    let payload_part = f64::from(step.payload) / f64::from(step.frame_bytes());
    let offered = format!("{:.0}", step.rate.bps() as f64 * OFFERED * payload_part);
    let arguments = ["-u", "-b", &offered, "-l", &step.payload.to_string()];
    let length = bench.length(LENGTH);
    let run = || iperf::run(bench, lab, networks::ends(0), length, &arguments);
    if !step.by_frames {
        let payload = run()?.rate(skip(length, Duration::from_secs(1)));
        return payload.map(|bits| bits / payload_part).ok_or_else(too_short);
    }
    let (_, to) = networks::ends(0);
    let capture = Capture::start(lab, to, "ip")?;
    // What the server saw is not needed, and at 56 kbit/s its answer may not get through.
    let sent = run();
    let frames = capture.finish(bench)?;
    match between_data(&frames, step.frame_bytes()).and_then(analysis::rate) {
        Some(rate) => Ok(rate),
        None => sent.and(Err(too_short())),
    }
}

/// All frames from the first to the last of data: others, of iperf3's own
/// connection, take their part of the rate.
fn between_data(frames: &[capture::Frame], data_bytes: u32) -> Option<&[capture::Frame]> {
    let is_data = |frame: &capture::Frame| frame.1 == data_bytes;
    let first = frames.iter().position(is_data)?;
    let last = frames.iter().rposition(is_data)?;
    frames.get(first..=last)
}

/// Bits of payload per second that TCP delivered.
fn measure_tcp(bench: &Bench<'_>, lab: &Lab, step: &Step) -> Result<f64, Failed> {
    let length = bench.length(LENGTH) + TCP_BEGINNING;
    // Small reads, so that an interval's bytes are not those of a block before or after it.
    let block = (step.rate.bps() / 8 / 1000).clamp(1448, 16 << 10).to_string();
    let received: Received = iperf::run(bench, lab, networks::ends(0), length, &["-l", &block])?;
    received.rate(skip(length, TCP_BEGINNING)).ok_or_else(too_short)
}

/// Seconds at the beginning that are left out, unless nothing would remain.
fn skip(length: Duration, beginning: Duration) -> f64 {
    if length > beginning { beginning.as_secs_f64() } else { 0.0 }
}

fn too_short() -> Failed {
    Failed::Said("too little arrived to tell a rate: measure longer with --for".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::Verdict;

    #[test]
    fn a_rate_is_judged_by_its_own_tolerance() {
        let judge = |step: &Step, error: f64| step.udp_row(Ok(step.rate.bps() as f64 * (1.0 + error))).verdict;
        assert_eq!(judge(&STEPS[0], 0.0019), Verdict::Met);
        assert_eq!(judge(&STEPS[0], -0.0021), Verdict::Missed);
        assert_eq!(judge(&STEPS[4], -0.019), Verdict::Met);
        assert_eq!(STEPS[1].udp_row(Err("no iperf3".to_owned())).verdict, Verdict::NotMeasured);
    }

    #[test]
    fn tcp_is_judged_by_the_payload_that_fits() {
        let row = STEPS[2].tcp_row(Ok(9_500_000.0));
        assert!((row.values["part_percent"] - 99.33).abs() < 0.01, "{row:?}");
        assert_eq!(row.verdict, Verdict::Met);
        assert_eq!(STEPS[2].tcp_row(Ok(9_000_000.0)).verdict, Verdict::Missed);
    }

    #[test]
    fn frames_of_control_count_only_between_those_of_data() {
        let frames = [(0, 74), (10, 542), (20, 66), (30, 542), (40, 66)];
        assert_eq!(between_data(&frames, 542), Some(&frames[1..4]));
        assert_eq!(between_data(&frames, 1514), None);
    }
}
