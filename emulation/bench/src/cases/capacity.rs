//! Throughput of one unlimited link.

use std::fs;
use std::io;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use roost_lab::{Lab, LabError};
use roost_topology::model::{HostIndex, Leg};

use crate::load::{Generated, Load, PacketSender};
use crate::probe::{self, HEADERS, ProbeFlow};
use crate::{BenchContext, BenchError, BenchRow, iperf, join, networks, system};

const LENGTH: Duration = Duration::from_secs(5);
const SMALLEST: u32 = 64;
/// Packets sent between two readings of the clock.
const BETWEEN_LOOKS: u64 = 256;
/// The time for which the receiver waits for one more packet after the last was sent.
const QUIET: Duration = Duration::from_millis(100);
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
    let flood = flood(&sender, &receiver, payload, bench).map_err(system("send packets"))?;
    let (sent, received) = flood;
    let pace = |packets: u64| packets as f64 / sent.time.as_secs_f64().max(f64::EPSILON);
    let (through, received, overruns) = (pace(arrived(lab, to)? - before), pace(received), lab.overruns()?);
    let target = format!("≥ {:.0} k/s", PACKETS / 1e3);
    let seen = format!("{:.0} k/s ({:.0} k/s read), overruns {overruns}", through / 1e3, received / 1e3);
    Ok(BenchRow::judged("UDP packets of 64 bytes through one link", target, seen, through >= PACKETS)
        .with("packets_per_s", through)
        .with("sent_per_s", pace(sent.sent))
        .with("received_per_s", received)
        .with("overruns", overruns as f64))
}

/// Sends as many packets of `bytes` payload as one thread can, and counts those that a program with the other socket
/// receives.
fn flood(from: &UdpSocket, to: &UdpSocket, bytes: usize, bench: &BenchContext<'_>) -> io::Result<(Generated, u64)> {
    to.set_read_timeout(Some(QUIET))?;
    let over = AtomicBool::new(false);
    let (begin, length) = (Instant::now(), bench.length(LENGTH));
    let load = Load { begin, length, rate: None, burst: BETWEEN_LOOKS, stop: bench.stop };
    thread::scope(|scope| {
        let receiver = scope.spawn(|| receive(to, &over));
        let sent = load.generate(&mut FloodSender { socket: from, payload: vec![0; bytes] });
        over.store(true, Relaxed);
        let received = join(receiver)?;
        sent.map(|sent| (sent, received))
    })
}

struct FloodSender<'a> {
    socket: &'a UdpSocket,
    payload: Vec<u8>,
}

impl PacketSender for FloodSender<'_> {
    fn send(&mut self, _number: u64, count: u64, _due: Instant) -> io::Result<u64> {
        let mut sent = 0;
        for _ in 0..count {
            match self.socket.send(&self.payload) {
                Ok(_) => sent += 1,
                // The interface's queue is full, as intended.
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(sent)
    }
}

fn receive(socket: &UdpSocket, over: &AtomicBool) -> io::Result<u64> {
    let (mut received, mut payload) = (0, [0; 2048]);
    loop {
        match socket.recv(&mut payload) {
            Ok(_) => received += 1,
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                if over.load(Relaxed) {
                    return Ok(received);
                }
            }
            Err(error) => return Err(error),
        }
    }
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
    use crate::BenchOptions;

    #[test]
    fn received_never_exceeds_sent() {
        let [from, to] = ["127.0.0.1:0"; 2].map(|address| UdpSocket::bind(address).unwrap());
        from.connect(to.local_addr().unwrap()).unwrap();
        let options = BenchOptions { length: Some(Duration::from_millis(5)), ..BenchOptions::default() };
        let stop = AtomicBool::new(false);
        let (sent, received) = flood(&from, &to, 22, &BenchContext::new(&options, &stop)).unwrap();
        assert!(sent.sent >= BETWEEN_LOOKS && sent.time >= Duration::from_millis(5));
        assert!(0 < received && received <= sent.sent);
    }

    #[test]
    fn packets_are_read_from_the_interface() {
        let list = "Inter-|\n face |bytes\n    lo: 1 2 3\n  eth0: 100 7 0 0 0 0 0 0 5 6 0 0 0 0 0 0\n";
        assert_eq!(packets_of(list), Some(7));
        assert_eq!(packets_of("lo: 1 2"), None);
    }
}
