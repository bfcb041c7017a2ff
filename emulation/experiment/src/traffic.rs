//! The traffic agents of a topology: senders at a constant rate or at the full speed of TCP, and sinks that
//! count.
//!
//! Each is a thread inside its host, so that its sockets belong to the host. The bytes of a packet are those of
//! its UDP payload, or of one write to TCP.

mod threads;

use std::net::SocketAddrV4;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::JoinHandle;
use std::time::Duration;

use roost_lab::Lab;
use roost_results::record;
use roost_topology::model::{HostIndex, TrafficAction, TrafficAgent};
use roost_topology::units::Rate;

use self::threads::{AgentState, Listening, count_tcp, count_udp, listen, send_tcp, send_udp, spawn};
use super::error::RunError;

/// The fraction of its packets that a source may skip.
const SKIPPED: f64 = 0.01;
/// The most agents of a run: each is a thread.
const MAX_AGENTS: usize = 1024;

#[derive(Debug)]
pub(super) struct TrafficAgents {
    agents: Vec<AgentThread>,
}

#[derive(Debug)]
struct AgentThread {
    name: String,
    host: String,
    role: &'static str,
    is_tcp: bool,
    shared: Arc<AgentState>,
    rate: Rate,
    interval: Option<f64>,
    thread: Option<JoinHandle<()>>,
}

impl TrafficAgents {
    /// Starts the agents of the lab's topology: sinks count from now on, sources wait for their event. A source
    /// without a sink gets one.
    pub(super) fn start_agents(lab: &Lab) -> Result<Self, RunError> {
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
        // In the topology's order first, so that an event's index is the agent's.
        for agent in &topology.traffic {
            agents.push(if agent.is_source {
                AgentThread::source(lab, agent)?
            } else {
                AgentThread::plain(lab, agent)
            });
        }
        for (host, is_tcp, port, name) in sinks {
            let listening = listen(lab, host, is_tcp, port).map_err(|error| {
                RunError::Failed(format!(
                    "{name} cannot listen on port {port} of {}: {error}",
                    topology.hosts[host].name
                ))
            })?;
            let place = topology.traffic.iter().position(|agent| !agent.is_source && agent.name == name);
            let agent = AgentThread::sink(lab, host, is_tcp, name, listening)?;
            match place {
                Some(place) => agents[place] = agent,
                None => agents.push(agent),
            }
        }
        Ok(Self { agents })
    }

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

    pub(super) fn is_any_sending(&self) -> bool {
        self.agents.iter().any(|agent| agent.shared.sends.load(Relaxed))
    }

    /// Ends all agents and returns their counters, with a sentence if they did not send as they should.
    pub(super) fn end(mut self) -> Vec<(record::TrafficRecord, Option<String>)> {
        for agent in &self.agents {
            agent.shared.quits.store(true, Relaxed);
        }
        self.agents.iter_mut().for_each(AgentThread::join);
        self.agents.iter().map(|agent| (agent.record(), agent.loss())).collect()
    }
}

impl Drop for AgentThread {
    /// A run that breaks off leaves no thread behind.
    fn drop(&mut self) {
        self.shared.quits.store(true, Relaxed);
        self.join();
    }
}

impl AgentThread {
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
        let shared = Arc::<AgentState>::default();
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
            // The counters are valid even if the thread panicked.
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

    /// Sets the time between packets from the rate, or from the interval if one is given.
    fn pace(&mut self) {
        let bytes = u64::from(self.shared.packet_bytes.load(Relaxed));
        let gap = match self.interval {
            Some(seconds) => Duration::from_secs_f64(seconds),
            None => self.rate.time_for(bytes),
        };
        self.shared.gap_nanos.store(u64::try_from(gap.as_nanos()).unwrap_or(u64::MAX), Relaxed);
    }

    fn record(&self) -> record::TrafficRecord {
        record::TrafficRecord {
            agent: self.name.clone(),
            host: self.host.clone(),
            role: self.role.to_owned(),
            protocol: if self.is_tcp { "tcp" } else { "udp" }.to_owned(),
            packets: self.shared.packets.load(Relaxed),
            bytes: self.shared.bytes.load(Relaxed),
            skipped: self.shared.skipped.load(Relaxed),
            failed: self.shared.failed.load(Relaxed),
            error: self.shared.error.get().cloned(),
        }
    }

    /// Describes packets that it failed to send, unless the network may have caused that.
    fn loss(&self) -> Option<String> {
        let Self { name, shared, .. } = self;
        let [sent, skipped, failed] =
            [&shared.packets, &shared.skipped, &shared.failed].map(|count| count.load(Relaxed));
        let why = shared.error.get().map(|error| format!(": {error}")).unwrap_or_default();
        if self.is_tcp {
            let is_alone = !shared.connected.load(Relaxed) && shared.error.get().is_some();
            return is_alone.then(|| format!("{name} was never connected{why}"));
        }
        if failed > 0 || shared.error.get().is_some() {
            return Some(format!("{name} did not send all that it was to: {failed} packets failed{why}"));
        }
        let wanted = sent + skipped;
        (skipped as f64 > SKIPPED * wanted as f64)
            .then(|| format!("{name} sent {sent} of {wanted} packets: this machine was too slow for its rate"))
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::thread;

    use super::*;

    fn agent(rate: Rate, interval: Option<f64>, is_tcp: bool) -> AgentThread {
        let agent = AgentThread {
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
    fn gap_follows_last_rate_or_interval() {
        let mut traffic = TrafficAgents { agents: vec![agent(Rate::from_bps(400_000), None, false)] };
        let gap = |traffic: &TrafficAgents| traffic.agents[0].shared.gap_nanos.load(Relaxed);
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
    fn skipped_packets_are_reported() {
        let slow = agent(Rate::from_bps(400_000), None, false);
        assert_eq!(slow.loss(), None);
        slow.shared.gap_nanos.store(10_000_000, Relaxed);
        slow.shared.packets.store(990, Relaxed);
        slow.shared.skip(Duration::from_millis(109));
        assert_eq!((slow.record().skipped, slow.loss()), (10, None), "1 % may be missing");
        slow.shared.skip(Duration::from_millis(10));
        assert_eq!(slow.loss().unwrap(), "cbr0 sent 990 of 1001 packets: this machine was too slow for its rate");
        let alone = agent(Rate::UNLIMITED, None, true);
        alone.shared.record_error("connect", &ErrorKind::ConnectionRefused.into());
        assert_eq!(alone.loss().unwrap(), "cbr0 was never connected: cannot connect: connection refused");
        alone.shared.connected.store(true, Relaxed);
        assert_eq!(alone.loss(), None, "a connection that breaks may be the network's doing");
    }

    #[test]
    fn udp_without_rate_is_refused() {
        let mut traffic =
            TrafficAgents { agents: vec![agent(Rate::UNLIMITED, None, false), agent(Rate::UNLIMITED, None, true)] };
        assert!(traffic.perform(0, TrafficAction::Start).unwrap_err().contains("neither rate nor interval"));
        assert!(traffic.perform(1, TrafficAction::Start).is_ok() && traffic.is_any_sending());
    }
}
