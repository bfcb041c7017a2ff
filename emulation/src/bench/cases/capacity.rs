//! How much goes through one link that sets no limit.

use std::fs;
use std::time::Duration;

use crate::bench::{Bench, BenchError, Case, Row, iperf, networks};
use crate::lab::{Lab, LabError};
use crate::scenario::topology::{HostIndex, Leg};

const LENGTH: Duration = Duration::from_secs(5);
/// Payload of UDP in a frame of 64 bytes.
const SMALLEST: &str = "22";
/// Packets a second.
const PACKETS: f64 = 200_000.0;
/// TCP payload, bits per second.
const TCP: f64 = 1.8e9;

/// Measures small packets, then TCP.
pub(in crate::bench) fn measure(bench: &mut Bench<'_>) -> Result<Vec<Row>, BenchError> {
    let lab = bench.lab(&networks::links([Leg::default()]))?;
    let mut rows = vec![packets(bench, &lab)?];
    drop(lab);
    if !bench.is_stopped() {
        let lab = bench.lab(&networks::links([Leg::default()]))?;
        rows.push(tcp(bench, &lab)?);
    }
    Ok(rows)
}

/// As many small packets as `iperf3` can send; those count that the receiving
/// host's interface got, as the kernel says.
fn packets(bench: &Bench<'_>, lab: &Lab) -> Result<Row, BenchError> {
    let (what, target) = ("UDP packets of 64 bytes through one link", format!("≥ {:.0} k/s", PACKETS / 1e3));
    let (_, to) = networks::ends(0);
    let before = arrived(lab, to)?;
    let length = bench.length(LENGTH);
    let sent = iperf::run(bench, lab, networks::ends(0), length, &["-u", "-b", "0", "-l", SMALLEST]);
    let received = match sent {
        Ok(received) => received,
        Err(failed) => return Ok(Row::unmeasured(Case::Capacity, what, target, failed.reason()?)),
    };
    let (packets, overruns) = (arrived(lab, to)? - before, lab.overruns()?);
    // iperf3 sends for whole seconds.
    let pace = packets as f64 / length.as_secs().max(1) as f64;
    let seen = format!("{:.0} k/s, overruns {overruns}", pace / 1e3);
    let row = Row::judged(Case::Capacity, what, target, seen, pace >= PACKETS);
    Ok(row.with("packets_per_s", pace).with("overruns", overruns as f64).with("sent", received.packets as f64))
}

fn tcp(bench: &Bench<'_>, lab: &Lab) -> Result<Row, BenchError> {
    let (what, target) = ("TCP through one link", format!("≥ {:.1} Gbit/s", TCP / 1e9));
    let received = match iperf::run(bench, lab, networks::ends(0), bench.length(LENGTH), &[]) {
        Ok(received) => received,
        Err(failed) => return Ok(Row::unmeasured(Case::Capacity, what, target, failed.reason()?)),
    };
    let overruns = lab.overruns()?;
    let rate = received.rate(1.0).or_else(|| received.rate(0.0)).unwrap_or(0.0);
    let seen = format!("{:.2} Gbit/s, overruns {overruns}", rate / 1e9);
    let row = Row::judged(Case::Capacity, what, target, seen, rate >= TCP);
    Ok(row.with("bits_per_s", rate).with("overruns", overruns as f64))
}

/// Packets that a host's first interface received, as the kernel counts them.
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
