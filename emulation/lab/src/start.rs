//! The start of a lab: hosts, their wires, and the carrier.

use std::net::UdpSocket;
use std::sync::Mutex;
use std::time::Instant;

use roost_netcore::Network;
use roost_netcore::wiring::{self, Wiring};
use roost_topology::addresses;
use roost_topology::model::{HostIndex, MAX_LAB_HOSTS, Topology};
use roost_topology::shares::Shares;

use super::carrier::{Carrier, CarrierFrame, CarrierShare, HostWire, PortShare, RemotePort};
use super::hosts::{self, HostSettings, LabHost};
use super::names::LabNames;
use super::namespace::Namespace;
use super::plan::{self, HostPlan};
use super::trunk::TrunkSettings;
use super::{Lab, LabError, LabOptions, device, kernel, limits, machines, sandbox};

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

/// Refuses a topology that no lab takes.
///
/// # Errors
/// Fails when it has too many hosts.
pub fn check_size(topology: &Topology) -> Result<(), LabError> {
    let hosts = topology.hosts.len();
    if hosts <= MAX_LAB_HOSTS {
        return Ok(());
    }
    Err(LabError::Topology(format!(
        "a lab has at most {MAX_LAB_HOSTS} hosts, and this topology has {hosts}: `emulate simulate` takes larger ones"
    )))
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
        check_size(topology)?;
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
        options.check()?;
        let (mut network, wiring) = wiring::build(&topology, options.seed);
        let share = share.map(|share| carrier_share(share, &mut network, &wiring, &topology));
        let hosts = hosts::make(
            &plans,
            &HostSettings { backend, tcp: tcp.given.as_deref(), interrupt: options.interrupt.as_ref() },
        )?;
        let buffer = hosts.iter().flat_map(|host| &host.interfaces).find_map(device::receive_buffer);
        let (namespaces, wires) = split(hosts, &plans, &wiring);
        let mut hosts: Vec<Option<Namespace>> = topology.hosts.iter().map(|_| None).collect();
        here.into_iter().zip(namespaces).for_each(|(host, namespace)| hosts[host] = Some(namespace));
        let interfaces = wires.iter().map(|wire| interface_name(&topology, wire)).collect();
        let carrier = Carrier::start_share(network, wiring, wires, options.realtime, share)?;
        // A system may not allow this; then hosts have no names.
        let names = LabNames::publish(&topology);
        let known = names.as_ref().map_or_else(|error| format!("no: {error}"), |_| "yes".to_owned());
        let made = [
            ("names", known),
            ("backend", backend.to_string()),
            ("tcp", tcp.fact),
            ("interfaces", count.to_string()),
            ("set_up", format!("{} ms", started.elapsed().as_millis())),
        ];
        let buffer = buffer.map(|buffer| ("receive_buffer", buffer));
        let mut facts = carrier.facts();
        facts.extend(made.into_iter().chain(buffer).map(|(fact, is)| (fact.to_owned(), is)));
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
