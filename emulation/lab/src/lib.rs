//! Hosts as network namespaces, and the thread that carries their packets.
//!
//! ```text
//! sandbox ┬ worker: the command ── carrier: the thread between all hosts
//!         │                          ║     ║     ║   a wire per interface
//!         ├ programs of host a ─── eth0    ║     ║
//!         ├ programs of host b ───────── eth0  eth1
//!         └ …
//! ```
//!
//! A command first [enters a sandbox](sandbox), so that no process or device outlives it. [`Lab::start`] then
//! gives every host a network namespace with its interfaces, addresses and routes, and hands the other end of
//! each interface to the [carrier]. Code runs in a host only by [`Lab::run_in`].
//!
//! Hosts have their own interfaces, routes, sockets, `/proc/sys/net` and name. They share the machine's
//! processors, memory and files, and the processes of the sandbox. No network leads out of the lab: a host
//! reaches only the other hosts. Files do: a Unix socket with a path can be reached from every host, as from
//! everywhere on the machine. Only the sockets of name services are hidden.
//!
//! In every host, traffic and filters of the system's own are off: IPv6 on its links, reverse path filters,
//! ICMP redirects and the limit on ICMP errors. TCP uses [the same congestion control](TcpCongestion) on all
//! machines that allow it. A host with more than one interface forwards, unless the topology has no routing.
//! Multicast leaves by the first interface.

mod capture;
pub mod carrier;
mod device;
mod error;
mod group_usage;
mod hosts;
mod interrupt;
pub mod kernel;
mod limits;
pub mod linktest;
pub mod machines;
mod names;
pub mod namespace;
pub mod netlink;
mod observe;
pub(crate) mod plan;
mod root;
pub mod sandbox;
mod start;
mod tcp;
mod trunk;
mod usage;

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use roost_topology::model::{HostIndex, NetIndex, Topology, TopologyChange};
use roost_wire::Time;
use rustix::thread::UnshareFlags;

use self::capture::Capture;
pub use self::capture::{CaptureLimits, CaptureSummary, MAX_CAPTURED, parse_size};
use self::carrier::{Carrier, ScheduleStart};
pub use self::device::DeviceBackend;
pub use self::error::LabError;
pub use self::interrupt::Interrupt;
pub use self::limits::needed_files;
use self::machines::Spread;
pub use self::machines::{HostCommand, HostProcess, Machines};
use self::names::LabNames;
use self::namespace::Namespace;
pub use self::plan::LOOPBACK;
pub use self::root::{ProgramRoot, RESULTS as ROOT_RESULTS, SOCKET as ROOT_SOCKET};
pub(crate) use self::start::LabShare;
pub use self::start::check_size;
pub use self::tcp::TcpCongestion;
pub use self::usage::Usage;

#[derive(Clone, Debug, Default)]
pub struct LabOptions {
    /// Determines the losses and the jitter of the network.
    pub seed: u64,
    pub backend: DeviceBackend,
    /// True to request a real-time priority for the carrier, which helps on a machine that does other things, and
    /// processors that stay awake. Most users are refused both.
    pub realtime: bool,
    /// The congestion control of TCP in hosts.
    pub tcp: TcpCongestion,
    /// Other machines that make a part of the hosts.
    pub machines: Option<Machines>,
    /// Ends the start of the lab with [`LabError::Interrupted`].
    pub interrupt: Option<Interrupt>,
}

impl LabOptions {
    /// Fails once the user wants no lab any more.
    fn check(&self) -> Result<(), LabError> {
        if self.interrupt.as_ref().is_some_and(Interrupt::is_set) { Err(LabError::Interrupted) } else { Ok(()) }
    }
}

/// A running network. Dropping it ends it.
///
/// Calls block for some milliseconds at most, for the kernel or the carrier: asynchronous code uses
/// `spawn_blocking`.
#[derive(Debug)]
pub struct Lab {
    // First, so that it stops before the namespaces go.
    carrier: Carrier,
    /// By host; none for hosts of other machines.
    hosts: Vec<Option<Namespace>>,
    spread: Option<Spread>,
    /// The congestion control that hosts were given.
    tcp: Option<String>,
    topology: Topology,
    begun: Mutex<Option<Time>>,
    capture: Mutex<Option<Capture>>,
    /// As `HOST on NET`.
    interfaces: Vec<String>,
    facts: BTreeMap<String, String>,
    warnings: Vec<String>,
    /// Keeps the hosts' names mounted while the lab lives.
    _names: Option<LabNames>,
}

impl Lab {
    /// The topology of the lab, with all addresses filled in.
    pub const fn topology(&self) -> &Topology {
        &self.topology
    }

    /// The address of a host's first interface, in the order of the nets.
    pub fn address(&self, host: HostIndex) -> Option<Ipv4Addr> {
        let members = self.topology.nets.iter().flat_map(|net| &net.members);
        members.filter(|member| member.host == host).find_map(|member| member.address)
    }

    /// Runs `call` on a new thread inside a host: the processes that it starts and the sockets that it opens
    /// belong to the host and stay there. They see the host's name as the system's name.
    ///
    /// # Errors
    /// Fails when there is no such host, or the system refuses another thread.
    ///
    /// # Panics
    /// Panics when `call` panics.
    pub fn run_in<T: Send>(&self, host: HostIndex, call: impl FnOnce() -> T + Send) -> Result<T, LabError> {
        let missing = || LabError::NoSuch(format!("there is no host number {host}"));
        let namespace = self.hosts.get(host).ok_or_else(missing)?;
        let elsewhere = || LabError::NoSuch(format!("{} is on another machine", self.topology.hosts[host].name));
        let namespace = namespace.as_ref().ok_or_else(elsewhere)?;
        let name = &self.topology.hosts[host].name;
        thread::scope(|scope| {
            let body = || {
                namespace.enter()?;
                kernel::unshare(UnshareFlags::NEWUTS)?;
                rustix::system::sethostname(name.as_bytes())?;
                Ok(call())
            };
            let thread = thread::Builder::new().name(name.clone()).spawn_scoped(scope, body);
            let thread = thread.map_err(|error| LabError::kernel("start a thread", error))?;
            let result = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            result.map_err(|error: std::io::Error| LabError::kernel(format!("enter host {name}"), error))
        })
    }

    /// Makes now the time 0 of the topology's schedule: from now on changes of links and LANs happen, each at
    /// its exact time. Returns that time, and the counters of the links at it.
    ///
    /// # Errors
    /// Fails when the schedule is too long, or the carrier has ended.
    pub fn begin(&self) -> Result<ScheduleStart, LabError> {
        let begun = match &self.spread {
            Some(spread) => spread.begin(&self.carrier)?,
            None => self.carrier.begin()?,
        };
        *self.begun.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(begun.time);
        Ok(begun)
    }

    /// The time since [`begin`](Self::begin), or since the start of the lab before it.
    pub fn now(&self) -> Time {
        let begun = *self.begun.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        Time::ZERO + self.carrier.now().since(begun.unwrap_or_default())
    }

    /// Changes a link or LAN now: all of it, or only the direction that leaves `from` on a link, or its legs of
    /// a LAN.
    ///
    /// # Errors
    /// Fails when there is no such net, or the host is not on it, or the carrier has ended.
    pub fn apply(&self, net: NetIndex, from: Option<HostIndex>, change: TopologyChange) -> Result<(), LabError> {
        if self
            .spread
            .as_ref()
            .is_some_and(|spread| spread.shares.carriers.get(net).is_some_and(|carrier| *carrier > 0))
        {
            let name = &self.topology.nets[net].name;
            return Err(LabError::NoSuch(format!(
                "{name} is carried by another machine, and changes by its schedule only"
            )));
        }
        Ok(self.carrier.apply(net, from, change)?)
    }

    /// Starts a program of Roost in a host, on the machine of the host.
    ///
    /// # Errors
    /// Fails when it cannot be started.
    pub fn spawn(&self, host: HostIndex, command: &HostCommand) -> Result<HostProcess, LabError> {
        let log = command.open_log()?;
        if let Some(machine) = self.spread.as_ref().and_then(|spread| spread.machine(host)) {
            return machines::spawn(machine, host, command, log);
        }
        let cannot = |error| LabError::kernel(format!("start {}", command.program.display()), error);
        let started = self.run_in(host, || command.spawn(log))?;
        Ok(HostProcess::Here(started.map_err(cannot)?))
    }

    /// Copies files and folders, given by relative paths, to the machine of a host, unless that is this one.
    ///
    /// # Errors
    /// Fails when one cannot be read or written.
    pub fn copy_to(&self, host: HostIndex, paths: &[PathBuf]) -> Result<(), LabError> {
        self.spread.as_ref().map_or(Ok(()), |spread| spread.copy(host, paths))
    }

    /// True if a host is on this machine.
    pub fn is_here(&self, host: HostIndex) -> bool {
        self.hosts.get(host).is_some_and(Option::is_some)
    }

    /// The names of the interfaces of [`wires`](Self::wires), as `HOST on NET`.
    pub fn interfaces(&self) -> &[String] {
        &self.interfaces
    }

    /// Facts about the carrying of packets, for the record of a run.
    pub const fn facts(&self) -> &BTreeMap<String, String> {
        &self.facts
    }

    /// Rights that this system denies the lab, and the remedy: one sentence each.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Stops the lab: delivers packets in flight for at most `drain`, then removes everything. Programs that
    /// still run in a host keep its namespace, without a link.
    ///
    /// # Errors
    /// The cause, if the carrier had ended before.
    pub fn stop(self, drain: Duration) -> Result<(), LabError> {
        let others = self.spread.as_ref().map_or(Ok(()), |spread| spread.stop(drain));
        self.carrier.stop(drain)?;
        others
    }
}
