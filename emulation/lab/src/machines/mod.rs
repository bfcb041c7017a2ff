//! Several machines that run one lab together.
//!
//! ```text
//! this machine                              machine b
//! command ── carrier of its links           agent ── carrier of its links
//!    │          ║        ║                    │         ║        ║
//!    │       host 1   host 2                  │      host 3   host 4
//!    │          ╚════════════ trunk (UDP) ════╪═════════╝
//!    └───────────── calls, over ssh ──────────┘
//! ```
//!
//! The command divides the network ([`roost_topology::shares`]). Each machine makes its own hosts, and carries the links
//! that it was given. A frame whose link another machine carries, or whose receiver is there, crosses the
//! [trunk](crate::trunk).
//!
//! The command starts `emulate agent` on each other machine, by ssh or another command, and speaks to it over its
//! standard input and output. Programs of Roost run beside their hosts. Their local API is reached through the same
//! conversation, so that everything is measured and recorded by the command.

mod agent;
mod give_up;
mod listen;
mod process;
mod protocol;
mod queue;
mod remote;
mod spread;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::net::{IpAddr, UdpSocket};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use roost_topology::Topology;
use roost_topology::model::{Action, Event, HostIndex};
use roost_topology::shares::{ShareRequest, Shares};

pub use self::agent::{AgentSetting, TopologyReader, serve};
pub use self::process::{HostCommand, HostProcess};
use self::protocol::SpawnCall;
pub(crate) use self::protocol::{AgentCall, Answer, Observation, ProbeCall};
pub(crate) use self::remote::RemoteMachine;
pub(crate) use self::spread::{Spread, start, unexpected};
use crate::LabError;
use crate::kernel;

/// The time for which frames are kept between machines, unless it is given.
pub const DEFAULT_HOLD: Duration = Duration::from_millis(2);

/// Another machine that was called, before its agent has answered.
#[derive(Debug)]
pub struct CalledMachine {
    pub name: String,
    /// The address of its trunk, if it is given.
    pub address: Option<IpAddr>,
    /// The conversation with its agent: a stream socket that this process inherited.
    pub descriptor: i32,
}

/// Machines beside this one that make a part of a lab's hosts.
#[derive(Clone, Debug)]
pub struct Machines(Arc<MachinesInner>);

#[derive(Debug)]
struct MachinesInner {
    socket: UdpSocket,
    others: Vec<Arc<RemoteMachine>>,
    /// By host's name, the machine's name that is given.
    placed: BTreeMap<String, String>,
    hold: Duration,
    /// Shares of the latest lab, for reports.
    latest: Mutex<Option<Shares>>,
}

impl Machines {
    /// Greets the agents of all machines that were called. `trunk` is the descriptor of a UDP socket.
    ///
    /// # Errors
    /// Fails when a machine does not answer, or has another version of this program.
    pub fn greet(trunk: i32, called: &[CalledMachine], version: &str, hold: Duration) -> Result<Self, LabError> {
        let socket = kernel::inherit_datagram(trunk).map_err(|error| LabError::kernel("use its trunk", error))?;
        // All are taken over before one may fail, so that none is left open.
        let streams: Vec<_> = called.iter().map(|machine| kernel::inherit(machine.descriptor)).collect();
        let mut others = Vec::with_capacity(called.len());
        for (machine, stream) in called.iter().zip(streams) {
            let stream = stream.map_err(|error| LabError::kernel(format!("reach machine {}", machine.name), error))?;
            let stream = UnixStream::from(stream);
            others.push(Arc::new(RemoteMachine::greet(&machine.name, stream, machine.address, version)?));
        }
        let (placed, latest) = (BTreeMap::new(), Mutex::new(None));
        Ok(Self(Arc::new(MachinesInner { socket: socket.into(), others, placed, hold, latest })))
    }

    /// Places hosts by hand: names of hosts with those of machines, of which `here` is this one.
    #[must_use]
    pub fn place(self, placed: BTreeMap<String, String>) -> Self {
        let MachinesInner { socket, others, hold, .. } = &*self.0;
        let Ok(socket) = socket.try_clone() else { return self };
        Self(Arc::new(MachinesInner { socket, others: others.clone(), placed, hold: *hold, latest: Mutex::new(None) }))
    }

    /// The machine of each host in the latest lab: names of machines with their numbers of hosts.
    pub fn summary(&self) -> String {
        let latest = self.0.latest.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let Some(shares) = &*latest else { return String::new() };
        let names = std::iter::once(HERE).chain(self.0.others.iter().map(|machine| machine.name.as_str()));
        let count = |machine: usize| shares.hosts.iter().filter(|of| **of == machine).count();
        let parts: Vec<String> = names.enumerate().map(|(number, name)| format!("{name} {}", count(number))).collect();
        format!("hosts by machine: {}", parts.join(", "))
    }

    /// Shares of a topology. Programs and traffic agents of the topology stay here.
    pub(crate) fn divide(&self, topology: &Topology) -> Result<Shares, LabError> {
        let wrong = |why: String| LabError::Topology(why);
        let machine = |name: &str| {
            let place = self.0.others.iter().position(|machine| machine.name == name).map(|place| place + 1);
            let place = if name == HERE { Some(0) } else { place };
            place.ok_or_else(|| wrong(format!("no machine is named `{name}`: this one is `{HERE}`")))
        };
        let programs = topology.programs.iter().map(|program| program.host);
        let traffic = topology.traffic.iter().map(|agent| agent.host);
        let mut placed: BTreeMap<usize, usize> = programs.chain(traffic).map(|host| (host, 0)).collect();
        for (host, name) in &self.0.placed {
            let index =
                topology.host_index(host).ok_or_else(|| wrong(format!("there is no host `{host}` to place")))?;
            let machine = machine(name)?;
            if placed.get(&index) == Some(&0) && machine != 0 {
                return Err(wrong(format!(
                    "`{host}` has programs or traffic of the topology, which run on this machine only"
                )));
            }
            placed.insert(index, machine);
        }
        let request = ShareRequest { machines: self.0.others.len() + 1, placed, hold: self.0.hold };
        let shares = roost_topology::shares::divide(topology, &request).map_err(|error| wrong(error.to_string()))?;
        let names: Vec<&str> = self.0.others.iter().map(|machine| machine.name.as_str()).collect();
        unchangeable(topology, &shares, &names).map_or(Ok(()), |why| Err(wrong(why)))?;
        *self.0.latest.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(shares.clone());
        Ok(shares)
    }
}

/// Describes the links whose changes wait for a program, which runs here, and which another machine carries.
fn unchangeable(topology: &Topology, shares: &Shares, others: &[&str]) -> Option<String> {
    let sentence = |event: &Event| {
        let Action::Net { net, .. } = event.action else { return None };
        let machine = others.get(shares.carriers.get(net)?.checked_sub(1)?).filter(|_| event.after.is_some())?;
        let name = &topology.nets.get(net)?.name;
        Some(format!("a change of {name} waits for a program, and {machine} carries it: --place its hosts on {HERE}"))
    };
    let all: BTreeSet<String> = topology.events.iter().filter_map(sentence).collect();
    (!all.is_empty()).then(|| all.into_iter().collect::<Vec<_>>().join("\n"))
}

/// Starts a program of Roost on another machine, whose Unix socket can be used here.
pub(crate) fn spawn(
    machine: &Arc<RemoteMachine>,
    host: HostIndex,
    command: &HostCommand,
    log: File,
) -> Result<HostProcess, LabError> {
    let program = command.program.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let args = command.args.iter().map(|arg| arg.to_string_lossy().into_owned()).collect();
    let call = AgentCall::Spawn(SpawnCall { host, program, args, socket: command.socket.clone() });
    let process = machine.spawn(call, log)?;
    machine.forward(&command.socket).map_err(|error| LabError::kernel("offer a socket", error))?;
    Ok(HostProcess::There(process))
}

/// The name of this machine where hosts are placed.
pub const HERE: &str = "here";

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use roost_topology::model::{Net, NetKind, TopologyChange};

    use super::*;

    #[test]
    fn changes_after_programs_stay_here() {
        let net = |name: &str| Net { name: name.to_owned(), kind: NetKind::Link, members: Vec::new(), cost: 1.0 };
        let event = |net: usize, after: Option<usize>| Event {
            at: Duration::ZERO,
            after,
            object: String::new(),
            line: 0,
            action: Action::Net { net, from: None, change: TopologyChange::Down },
        };
        let events = vec![event(0, Some(0)), event(1, None), event(1, Some(0))];
        let topology = Topology { nets: vec![net("near"), net("far")], events, ..Topology::default() };
        let shares = |carriers: [usize; 2]| Shares { hosts: Vec::new(), carriers: carriers.into() };
        assert_eq!(unchangeable(&topology, &shares([0, 0]), &["b"]), None);
        let why = unchangeable(&topology, &shares([0, 1]), &["b"]).unwrap();
        assert!(why.starts_with("a change of far waits for a program, and b carries it"), "{why}");
        assert_eq!(why.lines().count(), 1, "each link once");
    }
}
