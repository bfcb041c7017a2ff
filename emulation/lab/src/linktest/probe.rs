//! UDP probes between the hosts' namespaces.
//!
//! All namespaces share the machine's monotonic clock, so that one packet measures one direction: it carries
//! its time of sending, and its arrival is read on the same clock. One thread sends and receives for all hosts.
//!
//! A probe is 24 bytes and zeros that fill its frame: a number that is unique to the test (8), the flow (4),
//! its place in the flow (4), and the time it was sent, nanoseconds since the test began (8).

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::epoll;
use rustix::time::Timespec;

use super::flow::{LARGEST_FRAME, LinktestArrival, LinktestFlow, LinktestTrace, OVERHEAD};

/// Packets read from one socket before the next one's turn.
const READS_PER_TURN: usize = 64;
/// The longest sleep, after which a request to stop is noticed.
const NAP: Duration = Duration::from_millis(50);
/// The extra time for probes of other machines, which begin a little later.
const REMOTE_PATIENCE: Duration = Duration::from_millis(300);
/// The requested receive buffer; the system may grant less.
const BUFFER_BYTES: usize = 4 << 20;

/// Sockets of every host, and the clock.
pub(super) struct Prober {
    /// By host; none for those of other machines.
    sockets: Vec<Option<UdpSocket>>,
    ports: Vec<u16>,
    epoll: rustix::fd::OwnedFd,
    token: u64,
    began: Instant,
}

/// Opens a socket for probes; call it inside a host's namespace.
pub(super) fn open() -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    socket.set_nonblocking(true)?;
    // A smaller buffer works as well.
    let _ = rustix::net::sockopt::set_socket_recv_buffer_size(&socket, BUFFER_BYTES);
    Ok(socket)
}

impl Prober {
    /// A prober over sockets from [`open`], by host, whose times count from `began`.
    pub(super) fn new(sockets: Vec<Option<UdpSocket>>, began: Instant) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let mut ports = Vec::with_capacity(sockets.len());
        for (index, socket) in sockets.iter().enumerate() {
            let Some(socket) = socket else {
                ports.push(0);
                continue;
            };
            ports.push(socket.local_addr()?.port());
            epoll::add(&epoll, socket, epoll::EventData::new_u64(index as u64), epoll::EventFlags::IN)?;
        }
        // No secret: it only separates the packets of two tests.
        let token = std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_nanos() as u64);
        Ok(Self { sockets, ports, epoll, token, began })
    }

    /// Sends all flows and waits for their arrivals, until `stop` is set.
    pub(super) fn carry(&mut self, flows: &[LinktestFlow], stop: &AtomicBool) -> io::Result<Vec<LinktestTrace>> {
        let token = self.new_token();
        self.carry_as(token, flows, stop, Duration::ZERO)
    }

    /// A number for the next test. Packets of an earlier one must not count in it.
    pub(super) const fn new_token(&mut self) -> u64 {
        self.token = self.token.wrapping_add(1);
        self.token
    }

    pub(super) fn ports(&self) -> &[u16] {
        &self.ports
    }

    /// Sets the ports of all hosts, those of other machines included.
    pub(super) fn set_ports(&mut self, ports: Vec<u16>) {
        self.ports = ports;
    }

    /// Sends the flows of hosts that have sockets here, after `lead`, and awaits those to them.
    pub(super) fn carry_as(
        &mut self,
        token: u64,
        flows: &[LinktestFlow],
        stop: &AtomicBool,
        lead: Duration,
    ) -> io::Result<Vec<LinktestTrace>> {
        self.token = token;
        let mut run = LinktestRun::new(flows, self.now() + nanos(lead), &self.sockets);
        while !stop.load(Ordering::Relaxed) {
            let next = run.send_due(self)?;
            let now = self.now();
            let until = match next {
                Some(due) => due,
                None if run.is_complete() || now >= run.deadline => break,
                None => run.deadline,
            };
            self.wait(Duration::from_nanos(until.saturating_sub(now)).min(NAP), &mut run)?;
        }
        Ok(run.traces)
    }

    fn now(&self) -> u64 {
        // Fits u64 for 584 years.
        self.began.elapsed().as_nanos() as u64
    }

    fn wait(&self, time: Duration, run: &mut LinktestRun<'_>) -> io::Result<()> {
        let timeout = Timespec { tv_sec: time.as_secs().cast_signed(), tv_nsec: time.subsec_nanos().into() };
        let mut events = Vec::with_capacity(256);
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), Some(&timeout)) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        for event in &events {
            // The token is the index given when the socket was added.
            self.read(event.data.u64() as usize, run)?;
        }
        Ok(())
    }

    fn read(&self, host: usize, run: &mut LinktestRun<'_>) -> io::Result<()> {
        let mut buffer = [0; LARGEST_FRAME as usize];
        for _ in 0..READS_PER_TURN {
            let Some(socket) = &self.sockets[host] else { return Ok(()) };
            match socket.recv(&mut buffer) {
                Ok(length) => {
                    let received = self.now();
                    if let Some(probe) = Probe::read(&buffer[..length]).filter(|probe| probe.token == self.token) {
                        run.arrived(host, probe, received);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Probe {
    token: u64,
    flow: u32,
    place: u32,
    sent: u64,
}

impl Probe {
    fn write(self, buffer: &mut [u8; LARGEST_FRAME as usize]) {
        buffer[..8].copy_from_slice(&self.token.to_be_bytes());
        buffer[8..12].copy_from_slice(&self.flow.to_be_bytes());
        buffer[12..16].copy_from_slice(&self.place.to_be_bytes());
        buffer[16..24].copy_from_slice(&self.sent.to_be_bytes());
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let (token, rest) = bytes.split_first_chunk()?;
        let (flow, rest) = rest.split_first_chunk()?;
        let (place, rest) = rest.split_first_chunk()?;
        let (sent, _) = rest.split_first_chunk()?;
        Some(Self {
            token: u64::from_be_bytes(*token),
            flow: u32::from_be_bytes(*flow),
            place: u32::from_be_bytes(*place),
            sent: u64::from_be_bytes(*sent),
        })
    }
}

struct LinktestRun<'a> {
    flows: &'a [LinktestFlow],
    /// The due time of each flow's next packet, soonest first.
    due: BinaryHeap<Reverse<(u64, usize)>>,
    traces: Vec<LinktestTrace>,
    /// By flow and place, true once it has arrived.
    seen: Vec<Vec<bool>>,
    /// The number of probes that may still arrive.
    expected: usize,
    /// The time at which waiting ends.
    deadline: u64,
}

impl<'a> LinktestRun<'a> {
    /// Flows from now on. Those of hosts without a socket are sent elsewhere, and awaited here.
    fn new(flows: &'a [LinktestFlow], now: u64, sockets: &[Option<UdpSocket>]) -> Self {
        let is_here = |host: usize| sockets.get(host).is_some_and(Option::is_some);
        let due = flows.iter().enumerate().filter(|(_, flow)| flow.count > 0 && is_here(flow.from));
        let arriving = flows.iter().filter(|flow| is_here(flow.to) && !is_here(flow.from));
        let ends =
            arriving.clone().map(|flow| now + nanos(flow.start + flow.length() + flow.patience + REMOTE_PATIENCE));
        Self {
            flows,
            due: due.map(|(index, flow)| Reverse((now + nanos(flow.start), index))).collect(),
            traces: vec![LinktestTrace::default(); flows.len()],
            seen: flows.iter().map(|flow| vec![false; flow.count as usize]).collect(),
            expected: arriving.map(|flow| flow.count as usize).sum(),
            deadline: ends.max().unwrap_or(now),
        }
    }

    /// Sends due probes; returns the time of the next.
    fn send_due(&mut self, prober: &Prober) -> io::Result<Option<u64>> {
        while let Some(&Reverse((due, index))) = self.due.peek() {
            let now = prober.now();
            if due > now {
                return Ok(Some(due));
            }
            self.due.pop();
            let flow = &self.flows[index];
            let next = if self.send(prober, index, now)? {
                // If it is late by more than a burst, later probes move with it.
                let behind = nanos(flow.interval) * u64::from(flow.burst.saturating_sub(1));
                due.max(now.saturating_sub(behind)) + nanos(flow.interval)
            } else {
                now + nanos(flow.interval).max(100_000)
            };
            self.deadline = self.deadline.max(now + nanos(flow.patience));
            if self.traces[index].sent < flow.count {
                self.due.push(Reverse((next, index)));
            }
        }
        Ok(None)
    }

    fn send(&mut self, prober: &Prober, index: usize, now: u64) -> io::Result<bool> {
        let (flow, trace) = (&self.flows[index], &mut self.traces[index]);
        let mut buffer = [0; LARGEST_FRAME as usize];
        // Limits keep both far below u32.
        Probe { token: prober.token, flow: index as u32, place: trace.sent, sent: now }.write(&mut buffer);
        let to = SocketAddr::V4(SocketAddrV4::new(flow.address, prober.ports[flow.to]));
        let payload = &buffer[..(flow.frame - OVERHEAD) as usize];
        let Some(socket) = &prober.sockets[flow.from] else { return Ok(true) };
        match socket.send_to(payload, to) {
            Ok(_) => self.expected += usize::from(prober.sockets[flow.to].is_some()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            // Without a route it counts as lost, and the test reports it.
            Err(error) if is_unreachable(&error) => {}
            Err(error) => return Err(error),
        }
        trace.sent += 1;
        Ok(true)
    }

    fn arrived(&mut self, host: usize, probe: Probe, received: u64) {
        if self.flows.get(probe.flow as usize).is_none_or(|flow| flow.to != host) {
            return;
        }
        let Some(seen) = self.seen[probe.flow as usize].get_mut(probe.place as usize) else { return };
        if !std::mem::replace(seen, true) {
            self.expected = self.expected.saturating_sub(1);
            self.traces[probe.flow as usize].arrivals.push(LinktestArrival { sent: probe.sent, received });
        }
    }

    fn is_complete(&self) -> bool {
        self.expected == 0
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX / 4)
}

fn is_unreachable(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, HostUnreachable, NetworkDown, NetworkUnreachable};
    matches!(error.kind(), NetworkUnreachable | HostUnreachable | NetworkDown | ConnectionRefused)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(from: usize, to: usize, count: u32) -> LinktestFlow {
        LinktestFlow {
            from,
            to,
            address: Ipv4Addr::LOCALHOST,
            way: None,
            frame: 100,
            count,
            interval: Duration::from_micros(50),
            burst: 1,
            start: Duration::ZERO,
            patience: Duration::from_secs(5),
        }
    }

    #[test]
    fn probes_return_as_sent() {
        let mut prober = Prober::new(vec![open().ok(), open().ok()], Instant::now()).unwrap();
        for _ in 0..2 {
            let traces =
                prober.carry(&[flow(0, 1, 50), flow(1, 0, 20), flow(0, 1, 0)], &AtomicBool::new(false)).unwrap();
            assert_eq!(
                traces.iter().map(|trace| (trace.sent, trace.lost())).collect::<Vec<_>>(),
                [(50, 0), (20, 0), (0, 0)]
            );
            assert!(traces[0].arrivals.is_sorted_by_key(|arrival| arrival.received));
            assert!(traces[0].arrivals.iter().all(|arrival| arrival.sent <= arrival.received));
        }
    }

    #[test]
    fn unanswered_flow_times_out_as_lost() {
        let mut prober = Prober::new(vec![open().ok(), open().ok()], Instant::now()).unwrap();
        // The port of a closed socket.
        prober.ports[1] = open().unwrap().local_addr().unwrap().port();
        let lost = LinktestFlow { patience: Duration::from_millis(1), ..flow(0, 1, 3) };
        let traces = prober.carry(&[lost], &AtomicBool::new(false)).unwrap();
        assert_eq!((traces[0].sent, traces[0].lost()), (3, 3));
    }

    #[test]
    fn strangers_are_not_counted() {
        let flows = [flow(0, 1, 2)];
        let mut run = LinktestRun::new(&flows, 0, &[open().ok(), open().ok()]);
        let probe = Probe { token: 0, flow: 0, place: 1, sent: 5 };
        for (host, probe) in [(0, probe), (1, Probe { flow: 9, ..probe }), (1, Probe { place: 2, ..probe })] {
            run.arrived(host, probe, 10);
        }
        assert!(run.traces[0].arrivals.is_empty());
        run.arrived(1, probe, 10);
        run.arrived(1, probe, 11);
        assert_eq!(run.traces[0].arrivals, [LinktestArrival { sent: 5, received: 10 }]);
        assert_eq!(Probe::read(&[0; 23]), None);
    }
}
