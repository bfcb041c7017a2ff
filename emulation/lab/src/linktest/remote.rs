//! The link test of a lab on several machines. Each sends and receives for its own hosts; the command puts the traces
//! together, by the clocks that the trunk knows.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::ProbeCarrier;
use super::flow::{LinktestArrival, LinktestFlow, LinktestTrace};
use super::probe::Prober;
use super::wire::open_sockets;
use crate::machines::{AgentCall, Answer, ProbeCall, RemoteMachine, Spread, unexpected};
use crate::{Lab, LabError};

/// The time from a call to the first probe, so that all machines listen before.
const LEAD: Duration = Duration::from_millis(200);
/// The longest time beyond that of the flows.
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct RemoteProbes(Prober);

impl RemoteProbes {
    pub(crate) fn open(lab: &Lab) -> Result<Self, LabError> {
        let prober = Prober::new(open_sockets(lab)?, lab.carrier.origin());
        Ok(Self(prober.map_err(|error| LabError::kernel("send probes", error))?))
    }

    /// By host; 0 for those of other machines.
    pub(crate) fn ports(&self) -> Vec<u16> {
        self.0.ports().to_vec()
    }

    pub(crate) fn carry(&mut self, call: &ProbeCall, stop: &AtomicBool) -> io::Result<Vec<LinktestTrace>> {
        let known = self.0.ports().len();
        let is_odd = |flow: &LinktestFlow| flow.from.max(flow.to) >= known || !is_frame(flow.frame);
        if call.ports.len() != known || call.flows.iter().any(is_odd) {
            return Err(io::Error::other("the probes are of another topology"));
        }
        self.0.set_ports(call.ports.clone());
        self.0.carry_as(call.token, &call.flows, stop, LEAD)
    }
}

fn is_frame(bytes: u32) -> bool {
    (super::flow::SMALLEST_FRAME..=super::flow::LARGEST_FRAME).contains(&bytes)
}

/// The hosts of all machines as a carrier of probes.
pub(super) struct SpreadProbeCarrier<'a> {
    prober: Prober,
    lab: &'a Lab,
    spread: &'a Spread,
    stop: &'a AtomicBool,
}

impl<'a> SpreadProbeCarrier<'a> {
    pub(super) fn open(
        mut prober: Prober,
        lab: &'a Lab,
        spread: &'a Spread,
        stop: &'a AtomicBool,
    ) -> Result<Self, LabError> {
        let mut ports = prober.ports().to_vec();
        for machine in &spread.others {
            let Answer::Ports(theirs) = machine.call(AgentCall::OpenProbes)? else { return Err(unexpected(machine)) };
            ports.iter_mut().zip(theirs).filter(|(_, port)| *port != 0).for_each(|(known, port)| *known = port);
        }
        prober.set_ports(ports);
        Ok(Self { prober, lab, spread, stop })
    }

    fn carry(&mut self, flows: &[LinktestFlow]) -> Result<Vec<LinktestTrace>, LabError> {
        let token = self.prober.new_token();
        let ports = self.prober.ports().to_vec();
        let call = || AgentCall::Probe(ProbeCall { token, ports: ports.clone(), flows: flows.to_vec() });
        let pending = self.spread.send_all(call)?;
        let own = self.prober.carry_as(token, flows, self.stop, LEAD);
        if self.stopped() {
            self.spread.send_all(|| AgentCall::EndProbes)?;
        }
        let length = flows.iter().map(|flow| flow.start + flow.length() + flow.patience).max().unwrap_or_default();
        let mut traces = vec![own.map_err(|error| LabError::kernel("send probes", error))?];
        for (answer, machine) in pending.into_iter().zip(&self.spread.others) {
            traces.push(traces_of(machine, answer.wait(length + PATIENCE)?, flows.len())?);
        }
        let ahead: Vec<i64> = self.lab.carrier.lines()?.iter().map(|line| line.clock_ahead_ns.unwrap_or(0)).collect();
        Ok(join(flows, &traces, &self.spread.shares.hosts, &ahead))
    }
}

fn traces_of(machine: &RemoteMachine, answer: Answer, flows: usize) -> Result<Vec<LinktestTrace>, LabError> {
    match answer {
        Answer::Traces(traces) if traces.len() == flows => Ok(traces),
        _ => Err(unexpected(machine)),
    }
}

/// Takes of each flow the sender's count and the receiver's arrivals, all by this machine's clock. `ahead` is, by machine,
/// how far its clock is ahead.
fn join(flows: &[LinktestFlow], traces: &[Vec<LinktestTrace>], hosts: &[usize], ahead: &[i64]) -> Vec<LinktestTrace> {
    let here = |time: u64, machine: usize| time.saturating_add_signed(-ahead.get(machine).copied().unwrap_or(0));
    let trace = |(index, flow): (usize, &LinktestFlow)| {
        let (from, to) = (hosts[flow.from], hosts[flow.to]);
        let arrivals = traces[to][index]
            .arrivals
            .iter()
            .map(|arrival| LinktestArrival { sent: here(arrival.sent, from), received: here(arrival.received, to) });
        LinktestTrace { sent: traces[from][index].sent, arrivals: arrivals.collect() }
    };
    flows.iter().enumerate().map(trace).collect()
}

impl ProbeCarrier for SpreadProbeCarrier<'_> {
    type Error = io::Error;

    fn send_flows(&mut self, flows: &[LinktestFlow]) -> io::Result<Vec<LinktestTrace>> {
        self.carry(flows).map_err(io::Error::other)
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}
