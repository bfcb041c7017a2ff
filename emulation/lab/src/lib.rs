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
pub(crate) mod plan;
mod root;
pub mod sandbox;
mod tcp;
mod trunk;
mod usage;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use roost_netcore::Network;
use roost_netcore::wiring::{self, Wiring};
use roost_results::record;
use roost_topology::addresses;
use roost_topology::model::{HostIndex, MAX_LAB_HOSTS, NetIndex, Topology, TopologyChange};
use roost_topology::shares::Shares;
use roost_wire::Time;
use rustix::thread::UnshareFlags;

use self::capture::{Capture, CapturedNet};
pub use self::capture::{CaptureLimits, CaptureSummary, MAX_CAPTURED, parse_size};
use self::carrier::{
    Carrier, CarrierFrame, CarrierShare, HostWire, Lateness, PortShare, RemotePort, ScheduleStart, WireCounts,
};
pub use self::device::DeviceBackend;
pub use self::error::LabError;
use self::hosts::LabHost;
pub use self::interrupt::Interrupt;
use self::machines::{AgentCall, Spread};
pub use self::machines::{HostCommand, HostProcess, Machines};
use self::names::LabNames;
use self::namespace::Namespace;
use self::plan::HostPlan;
pub use self::plan::LOOPBACK;
pub use self::root::{ProgramRoot, RESULTS as ROOT_RESULTS, SOCKET as ROOT_SOCKET};
pub use self::tcp::TcpCongestion;
use self::trunk::TrunkSettings;
pub use self::usage::Usage;

#[derive(Clone, Debug, Default)]
pub struct LabOptions {
    /// Determines the losses and the jitter of the network.
    pub seed: u64,
    pub backend: DeviceBackend,
    /// True to request a real-time priority for the carrier. It helps on a machine that does other things; most
    /// users are refused it.
    pub realtime: bool,
    /// The congestion control of TCP in hosts.
    pub tcp: TcpCongestion,
    /// Other machines that make a part of the hosts.
    pub machines: Option<Machines>,
}

/// This machine's share of a lab that several machines make.
#[derive(Debug)]
pub(crate) struct LabShare {
    /// The socket of the trunk, made outside of the sandbox.
    pub(crate) socket: UdpSocket,
    pub(crate) settings: TrunkSettings,
    pub(crate) shares: Shares,
}

impl LabShare {
    fn has(&self, host: HostIndex) -> bool {
        self.shares.hosts.get(host) == Some(&self.settings.machine)
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
    /// Makes every host of a topology and carries their packets.
    ///
    /// Must be called [inside a sandbox](sandbox::enter).
    ///
    /// # Errors
    /// Fails when the topology has too many hosts or no addresses left, or the system refuses. Hosts made before are
    /// removed.
    pub fn start(topology: &Topology, options: &LabOptions) -> Result<Self, LabError> {
        match &options.machines {
            Some(machines) => machines::start(machines, topology, options),
            None => Self::start_share(topology, options, None),
        }
    }

    /// Makes this machine's share of the hosts, or all.
    pub(crate) fn start_share(
        topology: &Topology,
        options: &LabOptions,
        share: Option<LabShare>,
    ) -> Result<Self, LabError> {
        let started = Instant::now();
        sandbox::expect_inside()?;
        if topology.hosts.len() > MAX_LAB_HOSTS {
            return Err(LabError::Topology(format!(
                "a lab has at most {MAX_LAB_HOSTS} hosts, and this topology has {}: `emulate simulate` takes larger ones",
                topology.hosts.len()
            )));
        }
        let topology = addresses::assign(topology).map_err(|error| LabError::Topology(error.to_string()))?;
        let backend = options.backend.choose().map_err(no_tap)?;
        let tcp = options.tcp.choose()?;
        let is_here = |host: HostIndex| share.as_ref().is_none_or(|share| share.has(host));
        let here: Vec<HostIndex> = (0..topology.hosts.len()).filter(|host| is_here(*host)).collect();
        let all = plan::plan(&topology);
        let plans: Vec<HostPlan> = here.iter().map(|host| all[*host].clone()).collect();
        let count = plans.iter().map(|plan| plan.interfaces.len()).sum();
        limits::raise_open_files(plans.len(), count)?;
        let warnings = tcp.warning.into_iter().chain(plan::warning(&topology.nets)).collect();
        let (mut network, wiring) = wiring::build(&topology, options.seed);
        let share = share.map(|share| carrier_share(share, &mut network, &wiring, &topology));
        let hosts = hosts::make(&plans, backend, tcp.given.as_deref())?;
        let buffer = hosts.iter().flat_map(|host| &host.interfaces).find_map(device::receive_buffer);
        let (namespaces, wires) = split(hosts, &plans, &wiring);
        let mut hosts: Vec<Option<Namespace>> = topology.hosts.iter().map(|_| None).collect();
        here.into_iter().zip(namespaces).for_each(|(host, namespace)| hosts[host] = Some(namespace));
        let name = |wire: &HostWire| interface_name(&topology, wire);
        let interfaces = wires.iter().map(name).collect();
        let carrier = Carrier::start_share(network, wiring, wires, options.realtime, share)?;
        let mut facts = carrier.facts();
        // A system may not allow this; then hosts have no names.
        let names = LabNames::publish(&topology);
        let known = names.as_ref().map_or_else(|error| format!("no: {error}"), |_| "yes".to_owned());
        facts.insert("names".to_owned(), known);
        facts.insert("backend".to_owned(), backend.to_string());
        facts.insert("tcp".to_owned(), tcp.fact);
        facts.extend(buffer.map(|buffer| ("receive_buffer".to_owned(), buffer)));
        facts.insert("interfaces".to_owned(), count.to_string());
        facts.insert("set_up".to_owned(), format!("{} ms", started.elapsed().as_millis()));
        Ok(Self {
            carrier,
            hosts,
            spread: None,
            tcp: tcp.given,
            topology,
            begun: Mutex::default(),
            capture: Mutex::default(),
            interfaces,
            facts,
            warnings,
            _names: names.ok(),
        })
    }

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

    /// Captures these links and LANs from now on, each into a file `LINK.pcapng` in a folder. A capture before ends.
    ///
    /// # Errors
    /// Fails when a file cannot be made, or the carrier has ended.
    pub fn capture(&self, nets: &[NetIndex], folder: &Path, limits: CaptureLimits) -> Result<(), LabError> {
        self.end_capture()?;
        let is_elsewhere =
            |net: &&NetIndex| self.spread.as_ref().is_some_and(|spread| spread.shares.carriers[**net] > 0);
        if let Some(net) = nets.iter().find(is_elsewhere) {
            let name = &self.topology.nets[*net].name;
            return Err(LabError::NoSuch(format!("{name} is carried by another machine, where nothing is captured")));
        }
        let name = |net: NetIndex| self.topology.nets.get(net).map(|found| found.name.clone());
        let net = |net: &NetIndex| Some(CapturedNet { name: name(*net)?, pipes: self.carrier.pipes(*net) });
        let nets = nets.iter().filter_map(net).collect();
        let failed = |error| LabError::kernel(format!("capture into {}", folder.display()), error);
        let (capture, sender) = Capture::start(nets, folder, limits, self.carrier.wall_origin()).map_err(failed)?;
        self.carrier.capture(Some(sender))?;
        *self.capture.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(capture);
        Ok(())
    }

    /// Ends the capture, if there is one, and tells what it wrote.
    ///
    /// # Errors
    /// Fails when the carrier has ended; what it handed over before is in the files.
    pub fn end_capture(&self) -> Result<Vec<CaptureSummary>, LabError> {
        let capture = self.capture.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        let Some(capture) = capture else { return Ok(Vec::new()) };
        self.carrier.capture(None)?;
        let begun = *self.begun.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        Ok(capture.finish(begun))
    }

    /// The counters of every direction of every link and LAN until now.
    ///
    /// # Errors
    /// Fails when the carrier has ended.
    pub fn counters(&self) -> Result<Vec<record::LinkRecord>, LabError> {
        let pending = self.spread.as_ref().map(|spread| spread.send_all(|| AgentCall::Counters)).transpose()?;
        let own = self.carrier.counters()?;
        match (&self.spread, pending) {
            (Some(spread), Some(pending)) => Ok(spread.merge(own, spread.links(pending)?)),
            _ => Ok(own),
        }
    }

    /// Reads the state of other machines, from which [`lateness`](Self::lateness), [`unread`](Self::unread),
    /// [`wires`](Self::wires) and the usage of programs there come.
    ///
    /// # Errors
    /// Fails when one of them does not answer.
    pub fn observe(&self) -> Result<(), LabError> {
        self.spread.as_ref().map_or(Ok(()), |spread| spread.observe().map(drop))
    }

    /// The lateness of deliveries on all machines.
    pub fn lateness(&self) -> Lateness {
        let mut sum = self.carrier.lateness();
        self.others().iter().for_each(|other| sum.add(&other.lateness));
        sum
    }

    fn others(&self) -> Vec<machines::Observation> {
        self.spread.as_ref().map(Spread::latest).unwrap_or_default()
    }

    /// The time that packets may have waited in the hosts before the carrier read them, until now: see
    /// [`Carrier::unread`].
    pub fn unread(&self) -> Lateness {
        let mut sum = self.carrier.unread();
        self.others().iter().for_each(|other| sum.add(&other.unread));
        sum
    }

    /// Packets lost until now because this machine was too slow, or because the core's limits were exceeded. If
    /// there are any, the run does not show the network described.
    ///
    /// # Errors
    /// Fails when the carrier has ended.
    pub fn overruns(&self) -> Result<u64, LabError> {
        let others = self.spread.as_ref().map_or_else(|| Ok(Vec::new()), Spread::observe)?;
        Ok(self.own_overruns()? + others.iter().map(|other| other.overruns).sum::<u64>())
    }

    /// Packets lost by this machine, or on their way to it from others.
    fn own_overruns(&self) -> Result<u64, LabError> {
        let on_trunk = self.carrier.lines()?.iter().map(trunk::LineCounts::lost).sum::<u64>();
        Ok(self.carrier.overruns() + self.carrier.overflows()? + on_trunk)
    }

    /// The frame counters of each interface, in the order of hosts and their interfaces.
    pub fn wires(&self) -> Vec<WireCounts> {
        let others = self.others().into_iter().flat_map(|other| other.wires);
        self.carrier.wires().into_iter().chain(others).collect()
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

/// The carrier's share, and the model with delays that are shorter by the hold for hosts on other machines.
fn carrier_share(
    share: LabShare,
    network: &mut Network<CarrierFrame>,
    wiring: &Wiring,
    topology: &Topology,
) -> CarrierShare {
    let LabShare { socket, settings, shares } = share;
    let (mut ports, mut remote) = (Vec::new(), Vec::new());
    for (net, found) in topology.nets.iter().enumerate() {
        for (place, member) in found.members.iter().enumerate() {
            let Some(port) = wiring.port(net, place) else { continue };
            let (host, carrier) = (shares.hosts[member.host], shares.carriers[net]);
            ports.resize(
                ports.len().max(port.index() + 1),
                PortShare { host: settings.machine, carrier: settings.machine },
            );
            ports[port.index()] = PortShare { host, carrier };
            if host != carrier {
                let pipes = [network.to_net(port), network.from_net(port)];
                pipes.into_iter().flatten().for_each(|pipe| network.set_outside(pipe, settings.hold));
            }
            if let Some(address) = member.address.filter(|_| host != settings.machine) {
                remote.push(RemotePort { port, net, address });
            }
        }
    }
    CarrierShare { socket, settings, ports, remote }
}

/// Separates the hosts' namespaces from the carrier's ends of their interfaces.
fn split(hosts: Vec<LabHost>, plans: &[HostPlan], wiring: &Wiring) -> (Vec<Namespace>, Vec<HostWire>) {
    let mut namespaces = Vec::with_capacity(hosts.len());
    let mut wires = Vec::new();
    for (host, plan) in hosts.into_iter().zip(plans) {
        namespaces.push(host.namespace);
        for (end, interface) in host.interfaces.into_iter().zip(&plan.interfaces) {
            let Some(port) = wiring.port(interface.net, interface.member) else { continue };
            let (net, address) = (interface.net, interface.address);
            wires.push(HostWire { fd: end.fd, port, net, address, statistics: Some(end.statistics) });
        }
    }
    (namespaces, wires)
}

/// The name of an interface for people: a host has one interface on a net.
fn interface_name(topology: &Topology, wire: &HostWire) -> String {
    let net = &topology.nets[wire.net];
    let member = net.members.iter().find(|member| member.address == Some(wire.address));
    let host = member.map_or("?", |member| topology.hosts[member.host].name.as_str());
    format!("{host} on {}", net.name)
}

fn no_tap(error: std::io::Error) -> LabError {
    LabError::System(format!(
        "{} does not open ({error}): `sudo modprobe tun`, `sudo chmod 666 {0}`, or use veth pairs",
        kernel::TUN_DEVICE
    ))
}
