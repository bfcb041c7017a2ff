//! Our own probes: UDP packets from host to host, timed on the machine's monotonic clock, which all hosts
//! share.
//!
//! One thread sends for all flows; each flow has a thread that waits for its packets like a program in the
//! host, so that measurements include the receiver's wake-up. A packet counts as sent at the start of its
//! sending system call, and as received at the end of its receiving one.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use roost_lab::{Lab, LabError, kernel};
use roost_topology::model::HostIndex;
use roost_wire::random::SplitMix64;
use rustix::net::sockopt;

use super::{BenchContext, BenchError, is_realtime, join, machine, system};

/// Bytes of a frame besides its payload: Ethernet, IP and UDP headers.
pub(super) const HEADERS: u32 = 14 + 20 + 8;
/// The number of a packet in its payload.
const NUMBER_BYTES: usize = 4;
/// The largest payload of a packet that is not fragmented.
const LARGEST: usize = 1472;
/// Packets due within this many nanoseconds are sent at once: sleeping takes as long.
const TOO_SHORT_TO_SLEEP: u64 = 20_000;
/// The interval at which a receiver checks for the end.
const LOOK: Duration = Duration::from_millis(50);
/// The requested receive buffers, so that a late receiver loses nothing.
const BUFFER_BYTES: usize = 8 << 20;

/// Packets of one size from one host to another.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProbeFlow {
    pub(super) from: HostIndex,
    pub(super) to: HostIndex,
    /// Bytes of the frame, as the emulator counts them.
    pub(super) bytes: u32,
    pub(super) count: u32,
    /// From one packet to the next.
    pub(super) interval: Duration,
    /// True to draw intervals from half to one and a half of it, so that packets of several flows do not keep
    /// colliding.
    pub(super) uneven: bool,
}

/// The times of a flow's packets, by their number; nanoseconds since the origin.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct PacketTimes {
    pub(super) sent: Vec<u64>,
    pub(super) received: Vec<Option<u64>>,
}

impl PacketTimes {
    pub(super) fn lost(&self) -> usize {
        self.received.iter().filter(|received| received.is_none()).count()
    }

    /// The delays of received packets, nanoseconds.
    pub(super) fn delays(&self) -> impl Iterator<Item = f64> + '_ {
        let both = self.sent.iter().zip(&self.received);
        both.filter_map(|(sent, received)| Some(received.as_ref()?.saturating_sub(*sent) as f64))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Priority {
    /// Probes are programs like any other.
    Usual,
    /// Probes have the core's priority: lateness is then not a program that waits for a processor.
    AsTheCore,
}

/// The results of probes, and their cost.
#[derive(Debug)]
pub(super) struct ProbeResult {
    pub(super) traces: Vec<PacketTimes>,
    /// The processor time of sending and receiving.
    pub(super) cost: Duration,
}

/// Sends all flows, and waits `patience` after the last packet for those in flight. Times count from `origin`.
/// Ends early when the bench is stopped.
pub(super) fn send_probes(
    bench: &BenchContext<'_>,
    lab: &Lab,
    flows: &[ProbeFlow],
    origin: Instant,
    patience: Duration,
    priority: Priority,
) -> Result<ProbeResult, BenchError> {
    let sockets = flows.iter().map(|flow| open(lab, flow)).collect::<Result<Vec<_>, _>>()?;
    let realtime = priority == Priority::AsTheCore && is_realtime(lab);
    let setting = ProbeContext { origin, realtime, stop: bench.stop, over: &AtomicBool::new(false) };
    let agenda = agenda(flows, bench.options.seed);
    thread::scope(|scope| {
        let receivers: Vec<_> = flows
            .iter()
            .zip(&sockets)
            .map(|(flow, (_, socket))| scope.spawn(move || setting.receive(socket, flow.count)))
            .collect();
        // A thread of its own, whose priority ends with it.
        let sender = scope.spawn(|| {
            let sent = setting.send(flows, &sockets, &agenda);
            setting.wait(patience);
            setting.over.store(true, Relaxed);
            sent
        });
        gather(sender, receivers).map_err(system("send and receive probes"))
    })
}

type Sent = io::Result<(Vec<Vec<u64>>, Duration)>;
type Got = io::Result<(Vec<Option<u64>>, Duration)>;

fn gather(sender: ScopedJoinHandle<'_, Sent>, receivers: Vec<ScopedJoinHandle<'_, Got>>) -> io::Result<ProbeResult> {
    let (sent, mut cost) = join(sender)?;
    let mut traces = Vec::with_capacity(sent.len());
    for (sent, receiver) in sent.into_iter().zip(receivers) {
        let (mut received, its_cost) = join(receiver)?;
        // Packets that were not sent before the stop are not lost.
        received.truncate(sent.len());
        cost += its_cost;
        traces.push(PacketTimes { sent, received });
    }
    Ok(ProbeResult { traces, cost })
}

/// The sockets of a flow: its sender's, and its receiver's.
pub(super) fn open(lab: &Lab, flow: &ProbeFlow) -> Result<(UdpSocket, UdpSocket), BenchError> {
    let address = lab.address(flow.to).ok_or_else(|| LabError::NoSuch("a host has no address".to_owned()))?;
    let receiver = lab.run_in(flow.to, || {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
        socket.set_read_timeout(Some(LOOK))?;
        if sockopt::set_socket_recv_buffer_size_force(&socket, BUFFER_BYTES).is_err() {
            sockopt::set_socket_recv_buffer_size(&socket, BUFFER_BYTES)?;
        }
        Ok(socket)
    })?;
    let receiver = receiver.map_err(system("open a socket in a host"))?;
    let port = receiver.local_addr().map_err(system("open a socket in a host"))?.port();
    let sender = lab.run_in(flow.from, || {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
        socket.connect(SocketAddrV4::new(address, port))?;
        Ok(socket)
    })?;
    Ok((sender.map_err(system("open a socket in a host"))?, receiver))
}

/// The schedule of all packets: the due time, nanoseconds since the first, and the flow.
fn agenda(flows: &[ProbeFlow], seed: u64) -> Vec<(u64, usize)> {
    let mut random = SplitMix64::new(seed);
    let mut agenda = Vec::new();
    for (index, flow) in flows.iter().enumerate() {
        // Fits u64: an interval is at most some seconds.
        let interval = flow.interval.as_nanos() as u64;
        let mut due = random.below(interval + 1);
        for _ in 0..flow.count {
            agenda.push((due, index));
            due += if flow.uneven { interval / 2 + random.below(interval + 1) } else { interval };
        }
    }
    agenda.sort_unstable();
    agenda
}

#[derive(Clone, Copy)]
struct ProbeContext<'a> {
    origin: Instant,
    realtime: bool,
    stop: &'a AtomicBool,
    over: &'a AtomicBool,
}

impl ProbeContext<'_> {
    fn now(&self) -> u64 {
        // Fits u64 for 584 years.
        self.origin.elapsed().as_nanos() as u64
    }

    /// Sends each packet when it is due, or as soon after as possible.
    fn send(self, flows: &[ProbeFlow], sockets: &[(UdpSocket, UdpSocket)], agenda: &[(u64, usize)]) -> Sent {
        self.prepare();
        let payload = [0; LARGEST];
        let mut sent: Vec<Vec<u64>> = flows.iter().map(|flow| Vec::with_capacity(flow.count as usize)).collect();
        let began = self.now();
        for &(due, index) in agenda {
            if self.stop.load(Relaxed) {
                break;
            }
            let left = (began + due).saturating_sub(self.now());
            if left > TOO_SHORT_TO_SLEEP {
                thread::sleep(Duration::from_nanos(left));
            }
            let mut payload = payload;
            let number = sent[index].len() as u32;
            payload[..NUMBER_BYTES].copy_from_slice(&number.to_be_bytes());
            let length = (flows[index].bytes.saturating_sub(HEADERS) as usize).clamp(NUMBER_BYTES, LARGEST);
            sent[index].push(self.now());
            sockets[index].0.send(&payload[..length])?;
        }
        Ok((sent, machine::thread_time()))
    }

    fn receive(self, socket: &UdpSocket, count: u32) -> Got {
        self.prepare();
        let mut received = vec![None; count as usize];
        let mut left = count;
        let mut payload = [0; LARGEST];
        while left > 0 && !self.over.load(Relaxed) {
            match socket.recv(&mut payload) {
                Ok(_) => {
                    let now = self.now();
                    let number = u32::from_be_bytes([payload[0], payload[1], payload[2], payload[3]]);
                    if let Some(place @ None) = received.get_mut(number as usize) {
                        *place = Some(now);
                        left -= 1;
                    }
                }
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
                Err(error) => return Err(error),
            }
        }
        Ok((received, machine::thread_time()))
    }

    /// Both are best effort: without them probes are sent and read a little late.
    fn prepare(self) {
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        if self.realtime {
            let _ = kernel::become_realtime(machine::PRIORITY);
        }
    }

    fn wait(self, time: Duration) {
        let end = Instant::now() + time;
        while Instant::now() < end && !self.stop.load(Relaxed) {
            thread::sleep(LOOK.min(end.saturating_duration_since(Instant::now())));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLOW: ProbeFlow =
        ProbeFlow { from: 0, to: 1, bytes: 100, count: 50, interval: Duration::from_millis(10), uneven: false };

    #[test]
    fn packets_due_in_order_and_pace() {
        let agenda = agenda(&[FLOW, ProbeFlow { uneven: true, count: 200, ..FLOW }], 1);
        assert!(agenda.is_sorted() && agenda.len() == 250);
        let times = |flow: usize| agenda.iter().filter(move |(_, index)| *index == flow).map(|(due, _)| *due);
        let gaps = |flow| times(flow).zip(times(flow).skip(1)).map(|(a, b)| b - a).collect::<Vec<u64>>();
        assert!(gaps(0).iter().all(|gap| *gap == 10_000_000));
        let uneven = gaps(1);
        assert!(uneven.iter().all(|gap| (5_000_000..=15_000_000).contains(gap)));
        let mean = uneven.iter().sum::<u64>() as f64 / uneven.len() as f64;
        assert!((mean - 1e7).abs() < 1e6, "{mean}");
    }

    #[test]
    fn delays_cover_received_packets() {
        let trace = PacketTimes { sent: vec![10, 20, 30], received: vec![Some(15), None, Some(31)] };
        assert_eq!((trace.lost(), trace.delays().collect::<Vec<_>>()), (1, vec![5.0, 1.0]));
    }
}
