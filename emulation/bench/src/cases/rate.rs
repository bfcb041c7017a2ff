//! Errors of rates under an excessive load, and the throughput of TCP.
//!
//! A rate counts Ethernet frames: IP packets and 14 bytes.

use std::time::{Duration, Instant};

use roost_lab::Lab;
use roost_topology::units::Rate;

use crate::capture::{self, Capture};
use crate::iperf::{self, IperfResult};
use crate::probe::{self, HEADERS, Priority, ProbeFlow};
use crate::program::ToolError;
use crate::{BenchContext, BenchError, BenchRow, analysis, networks};

/// In each direction; the round trip is 10 ms.
const DELAY: Duration = Duration::from_millis(5);
/// The load, relative to the rate.
const OFFERED: f64 = 1.2;
/// The payload of a full TCP segment with time stamps: 1448 bytes of 1500 bytes of IP.
const TCP_PART: f64 = 1448.0 / 1514.0;
/// Fraction of the possible rate.
const TCP_TARGET: f64 = 0.98;
const TCP_AIM: f64 = 0.995;
const LENGTH: Duration = Duration::from_secs(5);
/// The wait beyond the queueing delay.
const PATIENCE: Duration = Duration::from_millis(300);
/// The time until the queue never empties.
const BEGINNING: Duration = Duration::from_millis(200);
/// The least offered load, relative to the rate, at which the rate is the limit.
const ENOUGH: f64 = 1.02;
/// The beginning of TCP, which is not measured: slow start, and the filling of the queue.
const TCP_BEGINNING: Duration = Duration::from_secs(2);

struct RateStep {
    rate: Rate,
    /// In packets.
    queue: u32,
    /// UDP payload of a packet.
    payload: u32,
    /// The tolerance of UDP's rate, as a fraction; the aim is a quarter of it.
    tolerance: f64,
    /// True to take the time of each frame from `tcpdump`. It is too slow for the highest rates; there `iperf3`
    /// counts each second.
    by_frames: bool,
    tcp: TcpJudgement,
}

/// The role of TCP at a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TcpJudgement {
    /// Not measured: at the lowest rates TCP takes minutes to settle.
    No,
    /// Judged by a fraction of the possible rate.
    Judged,
    /// Shown only, with an aim: it shares the processors with the emulator.
    Shown,
}

struct RateObservation {
    /// Bits per second, as the emulator counts them.
    bits: f64,
    by: &'static str,
    /// The reason for another observer.
    note: Option<String>,
}

const STEPS: [RateStep; 5] = [
    RateStep { queue: 10, payload: 500, tcp: TcpJudgement::No, ..RateStep::at_bps(56_000) },
    RateStep { queue: 50, ..RateStep::at_bps(1_000_000) },
    RateStep { queue: 50, ..RateStep::at_bps(10_000_000) },
    RateStep { queue: 100, ..RateStep::at_bps(100_000_000) },
    RateStep {
        queue: 1000,
        tolerance: 0.02,
        by_frames: false,
        tcp: TcpJudgement::Shown,
        ..RateStep::at_bps(1_000_000_000)
    },
];

impl RateStep {
    const fn at_bps(bps: u64) -> Self {
        let (rate, tcp) = (Rate::from_bps(bps), TcpJudgement::Judged);
        Self { rate, queue: 0, payload: 1472, tolerance: 0.002, by_frames: true, tcp }
    }

    const fn frame_bytes(&self) -> u32 {
        self.payload + HEADERS
    }

    fn payload_part(&self) -> f64 {
        f64::from(self.payload) / f64::from(self.frame_bytes())
    }

    fn udp_row(&self, seen: Result<RateObservation, String>) -> BenchRow {
        let what = format!("UDP at {}/s, 120 % offered, error", self.rate);
        let target = format!("within ±{} %", self.tolerance * 100.0);
        let RateObservation { bits, by, note } = match seen {
            Ok(seen) => seen,
            Err(why) => return BenchRow::unmeasured(what, target, why),
        };
        let error = bits / self.rate.bps() as f64 - 1.0;
        let seen = format!("{:+.3} % by {by}", error * 100.0);
        let aim = self.tolerance / 4.0;
        let row = BenchRow::judged(what, target, seen, error.abs() <= self.tolerance)
            .with_stretch_target(format!("±{} %", aim * 100.0), error.abs() <= aim);
        BenchRow { note, ..row }.with("error_percent", error * 100.0)
    }

    fn tcp_row(&self, seen: Result<f64, String>) -> BenchRow {
        let what = format!("TCP at {}/s, 10 ms round trip, of the possible", self.rate);
        let target =
            if self.tcp == TcpJudgement::Shown { String::new() } else { format!("≥ {} %", TCP_TARGET * 100.0) };
        let part = match seen {
            Ok(bits) => bits / (self.rate.bps() as f64 * TCP_PART),
            Err(why) => return BenchRow::unmeasured(what, target, why),
        };
        let seen = format!("{:.2} %", part * 100.0);
        let (row, aim) = match self.tcp {
            TcpJudgement::Shown => (BenchRow::shown(what, seen), TCP_TARGET),
            _ => (BenchRow::judged(what, target, seen, part >= TCP_TARGET), TCP_AIM),
        };
        row.with_stretch_target(format!("≥ {} %", aim * 100.0), part >= aim).with("part_percent", part * 100.0)
    }
}

/// Measures all rates, one after the other.
pub(crate) fn measure(bench: &mut BenchContext<'_>) -> Result<Vec<BenchRow>, BenchError> {
    let (mut udp, mut tcp) = (Vec::new(), Vec::new());
    for step in &STEPS {
        if bench.is_stopped() {
            break;
        }
        let lab = bench.lab(&networks::links([networks::direction(step.rate, DELAY, step.queue)]))?;
        let overruns = lab.overruns()?;
        let row = step.udp_row(seen(measure_udp(bench, &lab, step))?);
        udp.push(noting_overruns(row, lab.overruns()? - overruns));
        if step.tcp != TcpJudgement::No && !bench.is_stopped() {
            tcp.push(step.tcp_row(seen(measure_tcp(bench, &lab, step))?));
        }
    }
    udp.append(&mut tcp);
    Ok(udp)
}

fn noting_overruns(row: BenchRow, overruns: u64) -> BenchRow {
    if overruns == 0 { row } else { row.noting(format!("{overruns} packets were too many for this machine")) }
}

fn seen<T>(measured: Result<T, ToolError>) -> Result<Result<T, String>, BenchError> {
    match measured {
        Ok(value) => Ok(Ok(value)),
        Err(failed) => Ok(Err(failed.reason()?)),
    }
}

/// Measures UDP at 120 % of the rate.
fn measure_udp(bench: &BenchContext<'_>, lab: &Lab, step: &RateStep) -> Result<RateObservation, ToolError> {
    if !step.by_frames {
        return by_seconds(bench, lab, step);
    }
    let (_, to) = networks::ends(0);
    let frames = Capture::start(lab, to, "ip").and_then(|capture| {
        // The server's result is not needed, and at 56 kbit/s its answer may not get through.
        let sent = offer(bench, lab, step);
        let frames = capture.finish(bench)?;
        if frames.is_empty() { sent.map(|_| frames) } else { Ok(frames) }
    });
    match frames {
        Ok(frames) => {
            let bits = between_data(&frames, step.frame_bytes()).and_then(analysis::rate).ok_or_else(too_short)?;
            Ok(RateObservation { bits, by: "tcpdump", note: None })
        }
        // Without rights tcpdump does not run; this is the case of an unprivileged user.
        Err(ToolError::NotMeasured(why)) => Ok(RateObservation { note: Some(why), ..by_probes(bench, lab, step)? }),
        Err(broken) => Err(broken),
    }
}

/// The result of `iperf3`, if its offered load exceeded the rate.
fn by_seconds(bench: &BenchContext<'_>, lab: &Lab, step: &RateStep) -> Result<RateObservation, ToolError> {
    let (length, received) = (bench.length(LENGTH), offer(bench, lab, step)?);
    let bits = received.packets as f64 * f64::from(step.frame_bytes()) * 8.0;
    // `iperf3` sends for whole seconds.
    let offered = bits / length.as_secs().max(1) as f64;
    if offered < step.rate.bps() as f64 * ENOUGH {
        let offered = Rate::from_bps((offered / 1e6) as u64 * 1_000_000);
        return Err(ToolError::NotMeasured(format!("iperf3 could not offer more than {offered}/s on this machine")));
    }
    let payload = received.rate(skip(length, Duration::from_secs(1))).ok_or_else(too_short)?;
    Ok(RateObservation { bits: payload / step.payload_part(), by: "iperf3", note: None })
}

fn offer(bench: &BenchContext<'_>, lab: &Lab, step: &RateStep) -> Result<IperfResult, ToolError> {
    let offered = format!("{:.0}", step.rate.bps() as f64 * OFFERED * step.payload_part());
    let arguments = ["-u", "-b", &offered, "-l", &step.payload.to_string()];
    iperf::run(bench, lab, networks::ends(0), bench.length(LENGTH), &arguments)
}

/// Offers the load with our own probes, and measures it with them.
fn by_probes(bench: &BenchContext<'_>, lab: &Lab, step: &RateStep) -> Result<RateObservation, ToolError> {
    let (from, to) = networks::ends(0);
    let transmission = step.rate.time_for(step.frame_bytes().into());
    let interval = transmission.div_f64(OFFERED);
    // Fits u32: some seconds of packets that take at least 0.1 ms.
    let count = (bench.length(LENGTH).as_nanos() / interval.as_nanos().max(1)) as u32;
    let flow = ProbeFlow { from, to, bytes: step.frame_bytes(), count, interval, uneven: false };
    let patience = transmission * step.queue + PATIENCE;
    let traces = probe::send_probes(bench, lab, &[flow], Instant::now(), patience, Priority::Usual)?.traces;
    let arrivals = traces.iter().flat_map(|trace| trace.received.iter().flatten());
    let frames: Vec<capture::CapturedFrame> = arrivals.map(|arrival| (*arrival, step.frame_bytes())).collect();
    let bits = analysis::rate(&frames).ok_or_else(too_short)?;
    Ok(RateObservation { bits, by: "probes", note: None })
}

/// All frames from a data frame, soon after the first one, to the last data frame. Other frames in between, of
/// iperf3's control connection, use a part of the rate. The first ones come before the load exceeds the rate,
/// since iperf3 sends one packet and starts a moment later.
fn between_data(frames: &[capture::CapturedFrame], data_bytes: u32) -> Option<&[capture::CapturedFrame]> {
    let is_data = |frame: &&capture::CapturedFrame| frame.1 == data_bytes;
    let begin = frames.iter().find(is_data)?.0 + BEGINNING.as_nanos() as u64;
    let first = frames.iter().position(|frame| is_data(&frame) && frame.0 >= begin)?;
    let last = frames.iter().rposition(|frame| is_data(&frame))?;
    frames.get(first..=last)
}

/// Bits of payload per second that TCP delivered.
fn measure_tcp(bench: &BenchContext<'_>, lab: &Lab, step: &RateStep) -> Result<f64, ToolError> {
    let length = bench.length(LENGTH) + TCP_BEGINNING;
    // Small reads, so that bytes count in the right interval.
    let block = (step.rate.bps() / 8 / 1000).clamp(1448, 16 << 10).to_string();
    let received: IperfResult = iperf::run(bench, lab, networks::ends(0), length, &["-l", &block])?;
    received.rate(skip(length, TCP_BEGINNING)).ok_or_else(too_short)
}

/// The initial seconds to leave out, unless nothing would remain.
fn skip(length: Duration, beginning: Duration) -> f64 {
    if length > beginning { beginning.as_secs_f64() } else { 0.0 }
}

fn too_short() -> ToolError {
    ToolError::NotMeasured("too little arrived to tell a rate: measure longer with --for".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BenchVerdict;

    #[test]
    fn rate_judged_by_its_tolerance() {
        let judge = |step: &RateStep, error: f64| {
            let bits = step.rate.bps() as f64 * (1.0 + error);
            step.udp_row(Ok(RateObservation { bits, by: "tcpdump", note: None })).verdict
        };
        assert_eq!(judge(&STEPS[0], 0.0019), BenchVerdict::Met);
        assert_eq!(judge(&STEPS[0], -0.0021), BenchVerdict::Missed);
        assert_eq!(judge(&STEPS[4], -0.019), BenchVerdict::Met);
        assert_eq!(STEPS[1].udp_row(Err("no iperf3".to_owned())).verdict, BenchVerdict::NotMeasured);
    }

    #[test]
    fn tcp_judged_by_payload_rate() {
        let row = STEPS[2].tcp_row(Ok(9_500_000.0));
        assert!((row.values["part_percent"] - 99.33).abs() < 0.01, "{row:?}");
        assert_eq!(row.verdict, BenchVerdict::Met);
        assert_eq!(row.aim.map(|aim| aim.met), Some(false));
        assert_eq!(STEPS[2].tcp_row(Ok(9_000_000.0)).verdict, BenchVerdict::Missed);
        assert_eq!(STEPS[4].tcp_row(Ok(900_000_000.0)).verdict, BenchVerdict::Shown);
    }

    #[test]
    fn control_frames_count_between_data() {
        let ms = |time: u64| time * 1_000_000;
        let frames =
            [(0, 74), (ms(10), 542), (ms(211), 66), (ms(215), 542), (ms(220), 66), (ms(230), 542), (ms(240), 66)];
        assert_eq!(between_data(&frames, 542), Some(&frames[3..6]));
        assert_eq!(between_data(&frames, 1514), None);
    }
}
