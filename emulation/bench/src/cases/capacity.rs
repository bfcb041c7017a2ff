//! Throughput of one unlimited link.

use std::fs;
use std::time::Duration;

use roost_lab::{Lab, LabError};
use roost_topology::model::{HostIndex, Leg};

use crate::probe::{self, HEADERS, ProbeFlow};
use crate::{BenchContext, BenchError, BenchRow, flood, iperf, networks, system};

const LENGTH: Duration = Duration::from_secs(5);
const SMALLEST: u32 = 64;
/// Packets per second.
const PACKETS: f64 = 200_000.0;
/// TCP payload, bits per second.
const TCP: f64 = 1.8e9;
const TCP_AIM: f64 = 1.9e9;

/// Measures small packets, then TCP. Sender, core and receiver share this machine's processors.
pub(crate) fn measure(bench: &mut BenchContext<'_>) -> Result<Vec<BenchRow>, BenchError> {
    let mut rows = Vec::new();
    for measure in [packets, packets_of_iperf, tcp] {
        if bench.is_stopped() {
            break;
        }
        // A lab for each, so that overruns are its own.
        let lab = bench.lab(&networks::links([Leg::default()]))?;
        rows.push(measure(bench, &lab)?);
    }
    Ok(rows)
}

/// As many small packets as a thread can send.
fn packets(bench: &BenchContext<'_>, lab: &Lab) -> Result<BenchRow, BenchError> {
    let (from, to) = networks::ends(0);
    let flow = ProbeFlow { from, to, bytes: SMALLEST, count: 0, interval: Duration::ZERO, uneven: false };
    let (sender, receiver) = probe::open(lab, &flow)?;
    let before = arrived(lab, to)?;
    let payload = (SMALLEST - HEADERS) as usize;
    let flood = flood::run((&sender, &receiver), payload, bench.length(LENGTH), bench.stop);
    let flood = flood.map_err(system("send packets"))?;
    let pace = |packets: u64| packets as f64 / flood.time.as_secs_f64().max(f64::EPSILON);
    let (through, received, overruns) = (pace(arrived(lab, to)? - before), pace(flood.received), lab.overruns()?);
    let target = format!("≥ {:.0} k/s", PACKETS / 1e3);
    let seen = format!("{:.0} k/s ({:.0} k/s read), overruns {overruns}", through / 1e3, received / 1e3);
    Ok(BenchRow::judged("UDP packets of 64 bytes through one link", target, seen, through >= PACKETS)
        .with("packets_per_s", through)
        .with("sent_per_s", pace(flood.sent))
        .with("received_per_s", received)
        .with("overruns", overruns as f64))
}

/// Small packets sent by the independent program `iperf3`, which takes longer to send a packet than the core to
/// carry it.
fn packets_of_iperf(bench: &BenchContext<'_>, lab: &Lab) -> Result<BenchRow, BenchError> {
    let what = "the same, as many as iperf3 sends";
    let (_, to) = networks::ends(0);
    let (before, length) = (arrived(lab, to)?, bench.length(LENGTH));
    let payload = (SMALLEST - HEADERS).to_string();
    let sent = iperf::run(bench, lab, networks::ends(0), length, &["-u", "-b", "0", "-l", &payload]);
    if let Err(failed) = sent {
        return Ok(BenchRow::unmeasured(what, "", failed.reason()?));
    }
    let (packets, overruns) = (arrived(lab, to)? - before, lab.overruns()?);
    // `iperf3` sends for whole seconds.
    let pace = packets as f64 / length.as_secs().max(1) as f64;
    let row = BenchRow::shown(what, format!("{:.0} k/s, overruns {overruns}", pace / 1e3));
    Ok(row.with("packets_per_s", pace).with("overruns", overruns as f64))
}

fn tcp(bench: &BenchContext<'_>, lab: &Lab) -> Result<BenchRow, BenchError> {
    let (what, target) = ("TCP through one link", format!("≥ {:.1} Gbit/s", TCP / 1e9));
    let received = match iperf::run(bench, lab, networks::ends(0), bench.length(LENGTH), &[]) {
        Ok(received) => received,
        Err(failed) => return Ok(BenchRow::unmeasured(what, target, failed.reason()?)),
    };
    let overruns = lab.overruns()?;
    let rate = received.rate(1.0).or_else(|| received.rate(0.0)).unwrap_or(0.0);
    let seen = format!("{:.2} Gbit/s, overruns {overruns}", rate / 1e9);
    let row = BenchRow::judged(what, target, seen, rate >= TCP)
        .with_stretch_target(format!("≥ {:.1} Gbit/s", TCP_AIM / 1e9), rate >= TCP_AIM);
    Ok(row.with("bits_per_s", rate).with("overruns", overruns as f64))
}

/// Packets that a host's first interface received, by the kernel's counter.
fn arrived(lab: &Lab, host: HostIndex) -> Result<u64, LabError> {
    let text = lab.run_in(host, || fs::read_to_string("/proc/thread-self/net/dev"))?;
    let text = text.map_err(|error| LabError::kernel("read /proc/net/dev", error))?;
    packets_of(&text).ok_or_else(|| LabError::NoSuch("a host has no interface eth0".to_owned()))
}

/// The second number of the interface's line: received packets.
fn packets_of(list: &str) -> Option<u64> {
    let line = list.lines().find_map(|line| line.trim_start().strip_prefix("eth0:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_read_from_the_interface() {
        let list = "Inter-|\n face |bytes\n    lo: 1 2 3\n  eth0: 100 7 0 0 0 0 0 0 5 6 0 0 0 0 0 0\n";
        assert_eq!(packets_of(list), Some(7));
        assert_eq!(packets_of("lo: 1 2"), None);
    }
}
