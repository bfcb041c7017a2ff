//! The shares of a lab on other machines, as the command sees them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use roost_results::record::LinkRecord;
use roost_topology::model::{Action, Event, HostIndex};
use roost_topology::shares::Shares;
use roost_topology::units::format_duration;
use roost_topology::{Topology, addresses, file, trace};

use super::Machines;
use super::give_up::GiveUp;
use super::protocol::{AgentCall, Answer, Observation, StartCall};
use super::remote::{PendingAnswer, RemoteMachine};
use crate::carrier::{Carrier, ScheduleStart};
use crate::trunk::datagram::{TrunkToken, new_token};
use crate::trunk::{LineCounts, TrunkSettings};
use crate::{Lab, LabError, LabOptions, LabShare};

/// The longest time for a machine to make its hosts, or to deliver what is inside at the end.
const MAKE: Duration = Duration::from_secs(300);
/// The longest time until all machines know each other's clocks.
const CLOCKS: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(20);
/// The time from the call to begin until the beginning: each machine must have heard it.
const LEAD: Duration = Duration::from_millis(250);
/// The time after which the first pings, which waited for their machine, are forgotten.
const SETTLE: Duration = Duration::from_millis(800);
/// The longest time for an answer about counters.
const ANSWER: Duration = Duration::from_secs(20);

/// A running lab's machines beside this one, and their shares.
#[derive(Debug)]
pub(crate) struct Spread {
    pub(crate) others: Vec<Arc<RemoteMachine>>,
    pub(crate) shares: Shares,
    /// By link or LAN, the machine that carries it.
    carriers: BTreeMap<String, usize>,
    /// The latest observation of each other machine.
    observed: Mutex<Vec<Observation>>,
}

/// Makes all shares of a lab. An interrupt ends it at once, and the agents with it.
pub(crate) fn start(machines: &Machines, topology: &Topology, options: &LabOptions) -> Result<Lab, LabError> {
    let interrupt = options.interrupt.as_ref();
    let _watch = interrupt.map(|interrupt| GiveUp::on_interrupt(interrupt, &machines.0.others)).transpose()?;
    let made = make_shares(machines, topology, options);
    options.check()?;
    made
}

fn make_shares(machines: &Machines, topology: &Topology, options: &LabOptions) -> Result<Lab, LabError> {
    let assigned = addresses::assign(topology).map_err(|error| LabError::Topology(error.to_string()))?;
    let shares = machines.divide(&assigned)?;
    let token = new_token().map_err(|error| LabError::kernel("draw a secret", error))?;
    let failed = |error| LabError::kernel("use its trunk", error);
    let share = LabShare {
        socket: machines.0.socket.try_clone().map_err(failed)?,
        settings: settings(machines, 0, token),
        shares: shares.clone(),
    };
    let mut lab = Lab::start_share(&assigned, options, Some(share))?;
    let spread = Spread {
        others: machines.0.others.clone(),
        carriers: assigned.nets.iter().map(|net| net.name.clone()).zip(shares.carriers.iter().copied()).collect(),
        observed: Mutex::new(vec![Observation::default(); machines.0.others.len()]),
        shares,
    };
    spread.make(machines, &mut lab, options, token)?;
    for (place, machine) in spread.others.iter().enumerate() {
        let count = spread.shares.hosts.iter().filter(|machine| **machine == place + 1).count();
        lab.facts.insert(format!("machine {}", machine.name), format!("{count} hosts"));
    }
    spread.await_clocks(&mut lab, machines.0.hold)?;
    lab.facts.insert("hold".to_owned(), format_duration(machines.0.hold));
    lab.spread = Some(spread);
    Ok(lab)
}

fn settings(machines: &Machines, machine: usize, token: TrunkToken) -> TrunkSettings {
    // The command's own address is learned from its datagrams.
    let others = machines.0.others.iter().map(|other| Some(other.address));
    TrunkSettings { machine, token, hold: machines.0.hold, addresses: std::iter::once(None).chain(others).collect() }
}

impl Spread {
    /// Makes the shares of the other machines, all at once.
    fn make(
        &self,
        machines: &Machines,
        lab: &mut Lab,
        options: &LabOptions,
        token: TrunkToken,
    ) -> Result<(), LabError> {
        let text = description(&lab.topology);
        let mut pending = Vec::with_capacity(self.others.len());
        for (place, machine) in self.others.iter().enumerate() {
            send_traces(machine, &lab.topology)?;
            let start = StartCall {
                topology: text.clone(),
                seed: options.seed,
                backend: options.backend.to_string(),
                realtime: options.realtime,
                tcp: lab.tcp.clone(),
                hosts: self.shares.hosts.clone(),
                carriers: self.shares.carriers.clone(),
                trunk: settings(machines, place + 1, token),
            };
            pending.push(machine.send(AgentCall::Start(Box::new(start)), &[])?);
        }
        for (answer, machine) in pending.into_iter().zip(&self.others) {
            let Answer::Started { interfaces, facts, warnings } = answer.wait(MAKE)? else {
                return Err(unexpected(machine));
            };
            // The order of the wires in observations.
            lab.interfaces.extend(interfaces);
            lab.facts.extend(facts.into_iter().map(|(fact, is)| (format!("{fact} of {}", machine.name), is)));
            lab.warnings.extend(warnings.into_iter().map(|warning| format!("machine {}: {warning}", machine.name)));
        }
        Ok(())
    }

    /// Waits until each machine knows the clocks of all others, and judges the ways between them.
    fn await_clocks(&self, lab: &mut Lab, hold: Duration) -> Result<(), LabError> {
        let began = Instant::now();
        loop {
            let own = lab.carrier.lines()?;
            let unknown = |lines: &[LineCounts], own: usize| {
                lines.iter().enumerate().position(|(number, line)| number != own && line.clock_ahead_ns.is_none())
            };
            let observed = self.observe()?;
            let all = std::iter::once(own.as_slice()).chain(observed.iter().map(|one| one.lines.as_slice()));
            let missing = all.enumerate().find_map(|(number, lines)| Some((number, unknown(lines, number)?)));
            match missing {
                None => {
                    thread::sleep(SETTLE);
                    return self.judge_ways(lab, hold);
                }
                Some((from, to)) if began.elapsed() > CLOCKS => {
                    let far = self.others[from.max(to) - 1].name.clone();
                    let why = format!(
                        "no UDP datagrams with full frames pass between {} and {}: let them and their fragments through a firewall, \
                         or write NAME=ADDRESS",
                        self.name(from),
                        self.name(to)
                    );
                    return Err(LabError::Machine { machine: far, why });
                }
                Some(_) => thread::sleep(LOOK),
            }
        }
    }

    /// Judges the way between each two machines.
    fn judge_ways(&self, lab: &mut Lab, hold: Duration) -> Result<(), LabError> {
        let own = lab.carrier.lines()?;
        let observed = self.observe()?;
        let all = std::iter::once(own.as_slice()).chain(observed.iter().map(|one| one.lines.as_slice()));
        for (from, lines) in all.enumerate() {
            for (to, line) in lines.iter().enumerate().skip(from + 1) {
                let machine = self.name(to).to_owned();
                let between = match from {
                    0 => format!("way to {machine}"),
                    _ => format!("way from {} to {machine}", self.name(from)),
                };
                let judged = judge_way(&between, line.round_trips, hold);
                let way = judged.map_err(|why| LabError::Machine { machine, why })?;
                lab.facts.insert(between, way.fact);
                lab.warnings.extend(way.warning);
            }
        }
        Ok(())
    }

    fn name(&self, machine: usize) -> &str {
        machine.checked_sub(1).map_or("this machine", |place| self.others[place].name.as_str())
    }

    /// The machine of a host, if it is another one.
    pub(crate) fn machine(&self, host: HostIndex) -> Option<&Arc<RemoteMachine>> {
        let number = *self.shares.hosts.get(host)?;
        self.others.get(number.checked_sub(1)?)
    }

    /// Sends a call to all other machines.
    pub(crate) fn send_all(&self, call: impl Fn() -> AgentCall) -> Result<Vec<PendingAnswer>, LabError> {
        self.others.iter().map(|machine| machine.send(call(), &[])).collect()
    }

    /// Begins the schedule on all machines at one time, which each knows by its own clock.
    pub(crate) fn begin(&self, carrier: &Carrier) -> Result<ScheduleStart, LabError> {
        let lines = carrier.lines()?;
        let at = carrier.now() + LEAD;
        let call = |line: &LineCounts| {
            let ahead = line.clock_ahead_ns.unwrap_or(0);
            AgentCall::Begin { at: at.as_nanos().saturating_add_signed(ahead) }
        };
        let others = self.others.iter().zip(lines.iter().skip(1));
        let pending = others.map(|(machine, line)| machine.send(call(line), &[])).collect::<Result<Vec<_>, _>>()?;
        thread::sleep(at.since(carrier.now()));
        let begun = carrier.begin()?;
        let links = self.merge(begun.links, self.links(pending)?);
        Ok(ScheduleStart { links, ..begun })
    }

    /// The counters of all links, by machine.
    pub(crate) fn links(&self, pending: Vec<PendingAnswer>) -> Result<Vec<Vec<LinkRecord>>, LabError> {
        let answers = pending.into_iter().zip(&self.others).map(|(answer, machine)| match answer.wait(ANSWER)? {
            Answer::Links(links) => Ok(links),
            _ => Err(unexpected(machine)),
        });
        answers.collect()
    }

    /// Takes the counters of each link from the machine that carries it. All machines list the same links in the same
    /// order.
    pub(crate) fn merge(&self, own: Vec<LinkRecord>, others: Vec<Vec<LinkRecord>>) -> Vec<LinkRecord> {
        let merged = own.into_iter().enumerate().map(|(place, own)| {
            let carrier = self.carriers.get(&own.link).copied().unwrap_or(0);
            let theirs = carrier.checked_sub(1).and_then(|other| others.get(other)?.get(place));
            theirs.cloned().unwrap_or(own)
        });
        merged.collect()
    }

    /// The state of the other machines' carriers.
    pub(crate) fn observe(&self) -> Result<Vec<Observation>, LabError> {
        let answers = self.send_all(|| AgentCall::Observe)?;
        let mut observed = Vec::with_capacity(answers.len());
        for (answer, machine) in answers.into_iter().zip(&self.others) {
            match answer.wait(ANSWER)? {
                Answer::Observed(observation) => observed.push(*observation),
                _ => return Err(unexpected(machine)),
            }
        }
        self.others.iter().zip(&observed).for_each(|(machine, one)| machine.keep_usages(&one.usages));
        self.observed.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&observed);
        Ok(observed)
    }

    /// Sentences about connections and messages of programs that did not fit into a queue.
    pub(crate) fn queue_losses(&self) -> Vec<String> {
        let observed = self.latest();
        let unwritten = self.others.iter().filter_map(|machine| {
            let why = machine.unwritten()?;
            Some(format!("messages of programs on machine {} could not be written here: {why}", machine.name))
        });
        let sentence = |(machine, there): (&Arc<RemoteMachine>, &Observation)| {
            let lost = there.overflows + machine.overflows();
            (lost > 0).then(|| {
                format!(
                    "{lost} connections or messages of programs on machine {} did not fit into a queue: \
                     the way there is too slow",
                    machine.name
                )
            })
        };
        self.others.iter().zip(&observed).filter_map(sentence).chain(unwritten).collect()
    }

    pub(crate) fn latest(&self) -> Vec<Observation> {
        self.observed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Copies files and folders, with relative paths, to the machine of a host.
    pub(crate) fn copy(&self, host: HostIndex, paths: &[PathBuf]) -> Result<(), LabError> {
        let Some(machine) = self.machine(host) else { return Ok(()) };
        paths.iter().try_for_each(|path| copy(machine, path))
    }

    pub(crate) fn stop(&self, drain: Duration) -> Result<(), LabError> {
        self.others.iter().for_each(|machine| machine.end_sockets());
        let answers = self.send_all(|| AgentCall::Stop { drain })?;
        answers.into_iter().try_for_each(|answer| answer.wait(MAKE).map(drop))
    }
}

impl Drop for Spread {
    fn drop(&mut self) {
        self.others.iter().for_each(|machine| machine.end_sockets());
        // A machine that does not hear it ends with the conversation.
        let _ = self.send_all(|| AgentCall::Stop { drain: Duration::ZERO });
    }
}

#[derive(Debug)]
struct JudgedWay {
    fact: String,
    warning: Option<String>,
}

/// Judges the shortest, the median and the longest round trip between two machines; the error says what would do.
fn judge_way(between: &str, round_trips: [Duration; 3], hold: Duration) -> Result<JudgedWay, String> {
    let [shortest, median, longest] = round_trips.map(|trip| Duration::from_micros(trip.as_micros() as u64 / 2));
    let (half, most, hold_is) = (format_duration(median), format_duration(longest), format_duration(hold));
    if median > hold / 2 {
        let enough = format_duration(median * 4);
        return Err(format!("the {between} takes {half}: give a --hold of at least {enough}"));
    }
    let bound = format_duration(shortest);
    let fact = format!("{half} one way, the longest {most}; delays over it are {bound} off at most");
    let warning = format!("the {between} sometimes takes {most}, and frames are held for {hold_is}: they come late");
    Ok(JudgedWay { fact, warning: (longest > hold).then_some(warning) })
}

pub(crate) fn unexpected(machine: &RemoteMachine) -> LabError {
    LabError::Machine { machine: machine.name.clone(), why: "it gave an unexpected answer".to_owned() }
}

/// The topology as a file for the other machines: the network with its addresses, and the changes of links.
fn description(topology: &Topology) -> String {
    let is_change = |event: &&Event| matches!(event.action, Action::Net { .. }) && event.after.is_none();
    let events = topology.events.iter().filter(is_change).cloned().collect();
    let network = Topology { events, programs: Vec::new(), traffic: Vec::new(), sync_server: None, ..topology.clone() };
    file::write(&network, "")
}

fn send_traces(machine: &RemoteMachine, topology: &Topology) -> Result<(), LabError> {
    let failed = |error| LabError::kernel("copy the traces", error);
    let traces = trace::digests(topology);
    if traces.is_empty() {
        return Ok(());
    }
    let folder = tempfile::tempdir().map_err(failed)?;
    trace::keep(topology, folder.path()).map_err(failed)?;
    for name in traces.keys() {
        let body = fs::read(folder.path().join(name)).map_err(failed)?;
        machine.send(AgentCall::Put { path: name.into() }, &body)?.wait(MAKE)?;
    }
    Ok(())
}

fn copy(machine: &RemoteMachine, path: &Path) -> Result<(), LabError> {
    let failed = |error| LabError::kernel(format!("read {}", path.display()), error);
    if path.is_dir() {
        for entry in fs::read_dir(path).map_err(failed)? {
            copy(machine, &entry.map_err(failed)?.path())?;
        }
        return Ok(());
    }
    let body = fs::read(path).map_err(failed)?;
    machine.send(AgentCall::Put { path: path.to_owned() }, &body)?.wait(ANSWER).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_way_needs_longer_hold() {
        let trips = [100, 300, 900].map(Duration::from_micros);
        let way = judge_way("way from b to c", trips, Duration::from_millis(2)).unwrap();
        assert!(way.fact.contains("50us off at most") && way.warning.is_none(), "{way:?}");
        let way = judge_way("way to b", trips, Duration::from_micros(400)).unwrap();
        assert!(way.warning.unwrap().contains("sometimes takes 450us"));
        let why = judge_way("way from b to c", trips, Duration::from_micros(200)).unwrap_err();
        assert!(why.contains("way from b to c takes 150us") && why.contains("600us"), "{why}");
    }
}
