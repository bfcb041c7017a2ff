//! The traffic agents of a topology: senders at a constant rate and as fast as
//! TCP goes, and sinks that count what comes.
//!
//! Each is a thread inside its host, so that its sockets are the host's. A
//! packet's bytes are those of its UDP payload, or of one write to TCP.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::error::RunError;
use crate::lab::{Lab, LabError};
use crate::report::record;
use crate::scenario::topology::{HostIndex, TrafficAction, TrafficAgent};
use crate::units::Rate;

/// How often a thread that waits looks whether it is to end.
const LOOK: Duration = Duration::from_millis(100);
/// How far a sender may fall behind before it lets the rest be.
const MAX_LAG: Duration = Duration::from_secs(1);
/// How long after a failed connection the next one is tried.
const RETRY: Duration = Duration::from_millis(500);
/// The most agents of a run: each is a thread.
const MAX_AGENTS: usize = 1024;
/// The largest UDP payload.
const MAX_PAYLOAD: usize = 65_507;

/// The agents of a topology.
#[derive(Debug)]
pub(super) struct Traffic {
    agents: Vec<Agent>,
}

#[derive(Debug)]
struct Agent {
    name: String,
    host: String,
    role: &'static str,
    is_tcp: bool,
    shared: Arc<Shared>,
    rate: Rate,
    interval: Option<f64>,
    thread: Option<JoinHandle<()>>,
}

/// What an agent's thread and its owner both see.
#[derive(Debug, Default)]
struct Shared {
    quits: AtomicBool,
    sends: AtomicBool,
    packet_bytes: AtomicU32,
    /// Time between packets; 0 is none.
    gap_nanos: AtomicU64,
    packets: AtomicU64,
    bytes: AtomicU64,
}

impl Traffic {
    /// Starts the agents of the lab's topology: sinks count from now on,
    /// sources wait for their event. Where a source has no sink, there is one.
    pub(super) fn of(lab: &Lab) -> Result<Self, RunError> {
        let topology = lab.topology();
        let mut sinks: Vec<(HostIndex, bool, u16, String)> = Vec::new();
        let own = topology.traffic.iter().filter(|agent| !agent.is_source);
        sinks.extend(own.map(|agent| (agent.host, agent.tcp, agent.port, agent.name.clone())));
        for agent in topology.traffic.iter().filter(|agent| agent.is_source) {
            let Some(target) = agent.target else { continue };
            if !sinks.iter().any(|(host, tcp, port, _)| (*host, *tcp, *port) == (target, agent.tcp, agent.port)) {
                sinks.push((target, agent.tcp, agent.port, format!("{}-sink", agent.name)));
            }
        }
        let sources = topology.traffic.iter().filter(|agent| agent.is_source).count();
        if sources + sinks.len() > MAX_AGENTS {
            return Err(RunError::Topology(format!("at most {MAX_AGENTS} traffic agents can be run")));
        }
        let mut agents = Vec::new();
        // In the topology's order first, so that an event's place is an agent's place.
        for agent in &topology.traffic {
            agents.push(if agent.is_source { Agent::source(lab, agent)? } else { Agent::plain(lab, agent) });
        }
        for (host, is_tcp, port, name) in sinks {
            let listening = listen(lab, host, is_tcp, port).map_err(|error| {
                RunError::Failed(format!(
                    "{name} cannot listen on port {port} of {}: {error}",
                    topology.hosts[host].name
                ))
            })?;
            let place = topology.traffic.iter().position(|agent| !agent.is_source && agent.name == name);
            let agent = Agent::sink(lab, host, is_tcp, name, listening)?;
            match place {
                Some(place) => agents[place] = agent,
                None => agents.push(agent),
            }
        }
        Ok(Self { agents })
    }

    /// Does what the schedule says.
    pub(super) fn perform(&mut self, agent: usize, what: TrafficAction) -> Result<(), String> {
        let Some(agent) = self.agents.get_mut(agent) else { return Ok(()) };
        match what {
            TrafficAction::Start => return agent.start(),
            TrafficAction::Stop => agent.shared.sends.store(false, Relaxed),
            TrafficAction::PacketBytes(bytes) => agent.shared.packet_bytes.store(bytes, Relaxed),
            TrafficAction::Rate(rate) => (agent.rate, agent.interval) = (rate, None),
            TrafficAction::Interval(seconds) => agent.interval = Some(seconds),
        }
        agent.pace();
        Ok(())
    }

    /// Whether any source sends.
    pub(super) fn is_any_sending(&self) -> bool {
        self.agents.iter().any(|agent| agent.shared.sends.load(Relaxed))
    }

    /// Ends all, and gives what they counted.
    pub(super) fn end(mut self) -> Vec<record::Traffic> {
        for agent in &self.agents {
            agent.shared.quits.store(true, Relaxed);
        }
        self.agents.iter_mut().for_each(Agent::join);
        self.agents.iter().map(Agent::record).collect()
    }
}

impl Drop for Agent {
    /// A run that broke off leaves none behind.
    fn drop(&mut self) {
        self.shared.quits.store(true, Relaxed);
        self.join();
    }
}

impl Agent {
    fn plain(lab: &Lab, agent: &TrafficAgent) -> Self {
        Self {
            name: agent.name.clone(),
            host: lab.topology().hosts[agent.host].name.clone(),
            role: if agent.is_source { "source" } else { "sink" },
            is_tcp: agent.tcp,
            shared: Arc::default(),
            rate: agent.rate,
            interval: agent.interval,
            thread: None,
        }
    }

    fn source(lab: &Lab, agent: &TrafficAgent) -> Result<Self, RunError> {
        let mut source = Self::plain(lab, agent);
        source.shared.packet_bytes.store(agent.packet_bytes, Relaxed);
        source.pace();
        let Some(address) = agent.target.and_then(|target| lab.address(target)) else { return Ok(source) };
        let to = SocketAddrV4::new(address, agent.port);
        let shared = Arc::clone(&source.shared);
        let body = if agent.tcp { send_tcp } else { send_udp };
        source.thread = Some(spawn(lab, agent.host, move || body(&shared, to))?);
        Ok(source)
    }

    fn sink(lab: &Lab, host: HostIndex, is_tcp: bool, name: String, listening: Listening) -> Result<Self, RunError> {
        let shared = Arc::<Shared>::default();
        let counting = Arc::clone(&shared);
        let thread = spawn(lab, host, move || match listening {
            Listening::Udp(socket) => count_udp(&counting, &socket),
            Listening::Tcp(listener) => count_tcp(&counting, &listener),
        })?;
        let host = lab.topology().hosts[host].name.clone();
        let (rate, interval, thread) = (Rate::UNLIMITED, None, Some(thread));
        Ok(Self { name, host, role: "sink", is_tcp, shared, rate, interval, thread })
    }

    fn join(&mut self) {
        if let Some(thread) = self.thread.take() {
            // Its counters stay whatever became of it.
            let _ = thread.join();
        }
    }

    fn start(&mut self) -> Result<(), String> {
        if self.role == "sink" {
            return Err(format!("{} is a sink: it does not send", self.name));
        }
        if self.thread.is_none() {
            return Err(format!("{} is connected to nobody", self.name));
        }
        if !self.is_tcp && self.shared.gap_nanos.load(Relaxed) == 0 {
            return Err(format!("{} has neither rate nor interval, and UDP has no end to how fast it goes", self.name));
        }
        self.shared.sends.store(true, Relaxed);
        Ok(())
    }

    /// Sets the time between packets from the rate, or the interval if that is given.
    fn pace(&mut self) {
        let bytes = u64::from(self.shared.packet_bytes.load(Relaxed));
        let gap = match self.interval {
            Some(seconds) => Duration::from_secs_f64(seconds),
            None => self.rate.time_for(bytes),
        };
        self.shared.gap_nanos.store(u64::try_from(gap.as_nanos()).unwrap_or(u64::MAX), Relaxed);
    }

    fn record(&self) -> record::Traffic {
        record::Traffic {
            agent: self.name.clone(),
            host: self.host.clone(),
            role: self.role.to_owned(),
            protocol: if self.is_tcp { "tcp" } else { "udp" }.to_owned(),
            packets: self.shared.packets.load(Relaxed),
            bytes: self.shared.bytes.load(Relaxed),
        }
    }
}

impl Shared {
    fn count(&self, bytes: usize) {
        self.packets.fetch_add(1, Relaxed);
        self.bytes.fetch_add(bytes as u64, Relaxed);
    }

    /// Sleeps until `time`, or until it is to stop; whether it may go on sending.
    fn sleep_until(&self, time: Instant) -> bool {
        loop {
            if self.quits.load(Relaxed) || !self.sends.load(Relaxed) {
                return false;
            }
            let left = time.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            thread::sleep(left.min(LOOK));
        }
    }

    /// Waits until it is to send; `false` if it is to end.
    fn wait(&self) -> bool {
        while !self.quits.load(Relaxed) {
            if self.sends.load(Relaxed) {
                return true;
            }
            thread::sleep(Duration::from_millis(1));
        }
        false
    }
}

/// A thread inside a host: it inherits where it was started.
fn spawn(lab: &Lab, host: HostIndex, body: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, LabError> {
    let start = || thread::Builder::new().name("traffic".to_owned()).spawn(body);
    lab.run_in(host, start)?.map_err(|error| LabError::Kernel { what: "start a thread".to_owned(), source: error })
}

enum Listening {
    Udp(UdpSocket),
    Tcp(TcpListener),
}

fn listen(lab: &Lab, host: HostIndex, is_tcp: bool, port: u16) -> Result<Listening, RunError> {
    let any = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, port);
    let bound = lab.run_in(host, || {
        Ok::<_, std::io::Error>(if is_tcp {
            let listener = TcpListener::bind(any)?;
            listener.set_nonblocking(true)?;
            Listening::Tcp(listener)
        } else {
            let socket = UdpSocket::bind(any)?;
            socket.set_read_timeout(Some(LOOK))?;
            Listening::Udp(socket)
        })
    })?;
    bound.map_err(|error| RunError::Failed(error.to_string()))
}

fn send_udp(shared: &Shared, to: SocketAddrV4) {
    let Ok(socket) = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)) else { return };
    send_paced(shared, |packet| {
        // A queue that is full loses a packet, as the network would.
        if socket.send_to(packet, to).is_ok() {
            shared.count(packet.len());
        }
        true
    });
}

fn send_tcp(shared: &Shared, to: SocketAddrV4) {
    while shared.wait() {
        let Ok(mut stream) = TcpStream::connect_timeout(&to.into(), Duration::from_secs(5)) else {
            thread::sleep(RETRY);
            continue;
        };
        // Else a link that is down would keep it from ending.
        let _ = stream.set_write_timeout(Some(LOOK));
        send_once(shared, |packet| write(shared, &mut stream, packet));
    }
}

/// Writes a packet; whether the connection lives.
fn write(shared: &Shared, stream: &mut TcpStream, packet: &[u8]) -> bool {
    let mut rest = packet;
    while !rest.is_empty() && !shared.quits.load(Relaxed) {
        match stream.write(rest) {
            Ok(0) => return false,
            Ok(sent) => rest = &rest[sent..],
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(_) => return false,
        }
    }
    shared.count(packet.len());
    true
}

fn send_paced(shared: &Shared, mut send: impl FnMut(&[u8]) -> bool) {
    while shared.wait() {
        send_once(shared, &mut send);
    }
}

/// Sends from one start to the next stop, or until `send` fails.
fn send_once(shared: &Shared, mut send: impl FnMut(&[u8]) -> bool) {
    let buffer = vec![0; MAX_PAYLOAD];
    let mut due = Instant::now();
    while shared.sleep_until(due) {
        let bytes = (shared.packet_bytes.load(Relaxed) as usize).clamp(1, MAX_PAYLOAD);
        if !send(&buffer[..bytes]) {
            return;
        }
        due += Duration::from_nanos(shared.gap_nanos.load(Relaxed));
        due = due.max(Instant::now().checked_sub(MAX_LAG).unwrap_or(due));
    }
}

fn count_udp(shared: &Shared, socket: &UdpSocket) {
    let mut buffer = vec![0; MAX_PAYLOAD];
    while !shared.quits.load(Relaxed) {
        if let Ok(bytes) = socket.recv(&mut buffer) {
            shared.count(bytes);
        }
    }
}

fn count_tcp(shared: &Arc<Shared>, listener: &TcpListener) {
    let mut readers = Vec::new();
    while !shared.quits.load(Relaxed) {
        match listener.accept() {
            Ok((stream, _)) => {
                let counting = Arc::clone(shared);
                readers.push(thread::spawn(move || count_stream(&counting, stream)));
            }
            Err(_) => thread::sleep(LOOK / 10),
        }
    }
    for reader in readers {
        // What it has counted stays.
        let _ = reader.join();
    }
}

fn count_stream(shared: &Shared, mut stream: TcpStream) {
    let timed = stream.set_nonblocking(false).and_then(|()| stream.set_read_timeout(Some(LOOK)));
    let mut buffer = vec![0; MAX_PAYLOAD];
    while timed.is_ok() && !shared.quits.load(Relaxed) {
        match stream.read(&mut buffer) {
            Ok(0) => return,
            Ok(bytes) => shared.count(bytes),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent(rate: Rate, interval: Option<f64>, is_tcp: bool) -> Agent {
        let agent = Agent {
            name: "cbr0".to_owned(),
            host: "a".to_owned(),
            role: "source",
            is_tcp,
            shared: Arc::default(),
            rate,
            interval,
            thread: Some(thread::spawn(|| {})),
        };
        agent.shared.packet_bytes.store(500, Relaxed);
        agent
    }

    #[test]
    fn the_gap_follows_the_rate_or_the_interval_whichever_was_set_last() {
        let mut traffic = Traffic { agents: vec![agent(Rate::from_bps(400_000), None, false)] };
        let gap = |traffic: &Traffic| traffic.agents[0].shared.gap_nanos.load(Relaxed);
        traffic.perform(0, TrafficAction::PacketBytes(500)).unwrap();
        assert_eq!(gap(&traffic), 10_000_000);
        traffic.perform(0, TrafficAction::Interval(0.5)).unwrap();
        assert_eq!(gap(&traffic), 500_000_000);
        traffic.perform(0, TrafficAction::PacketBytes(1000)).unwrap();
        assert_eq!(gap(&traffic), 500_000_000);
        traffic.perform(0, TrafficAction::Rate(Rate::from_bps(80_000))).unwrap();
        assert_eq!(gap(&traffic), 100_000_000);
    }

    #[test]
    fn udp_without_a_rate_does_not_flood() {
        let mut traffic =
            Traffic { agents: vec![agent(Rate::UNLIMITED, None, false), agent(Rate::UNLIMITED, None, true)] };
        assert!(traffic.perform(0, TrafficAction::Start).unwrap_err().contains("neither rate nor interval"));
        assert!(traffic.perform(1, TrafficAction::Start).is_ok() && traffic.is_any_sending());
    }
}
