//! The command lines of a run's daemons.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use roost_lab::Lab;
use roost_topology::model::{HostIndex, Net};
use roost_wire::address::MAX_HOSTS;
use roost_wire::{Scheme, Service};

use super::binaries::Binaries;
use super::daemon::{Launch, Role};
use super::error::RunError;
use super::fleet::{LEAVE_TIMEOUT, LOG_FOLDER};
use super::placement::{PlacedHub, PlacedNode, Placement};
use super::plan::Plan;
use super::private::RUN_FOLDER;

/// The ports of a hub: one for UDP and TCP, one for QUIC.
const PORT: u16 = 7700;
const QUIC_PORT: u16 = 7701;

pub(super) fn identity(name: &str) -> PathBuf {
    Path::new(RUN_FOLDER).join(format!("{name}.id"))
}

pub(super) struct LaunchBuilder<'a> {
    pub(super) plan: &'a Plan,
    pub(super) placement: &'a Placement,
    pub(super) lab: &'a Lab,
    pub(super) binaries: &'a Binaries,
    pub(super) hub_settings: &'a Path,
    pub(super) node_settings: &'a Path,
}

impl LaunchBuilder<'_> {
    pub(super) fn hub(&self, index: usize) -> Result<Launch, RunError> {
        let hub = &self.placement.hubs[index];
        let program = self.plan.architecture.hub_program();
        let mut args =
            self.common(
                self.hub_settings,
                &hub.name,
                hub.host,
                |scheme| {
                    if scheme == Scheme::Quic { QUIC_PORT } else { PORT }
                },
            )?;
        let caching = self.plan.architecture.hub_role() == roost_wire::Role::Server;
        for parent in &hub.parents {
            let flag = if caching { "--cache-of" } else { "--parent" };
            args.extend([flag.into(), self.endpoints(&self.placement.hubs[*parent])?.into()]);
        }
        if !caching {
            for sibling in self.placement.earlier_siblings(index) {
                args.extend(["--sibling".into(), self.endpoints(&self.placement.hubs[sibling])?.into()]);
            }
            if hub.tier > 0 {
                args.extend(["--tier".into(), hub.tier.to_string().into()]);
            }
        }
        self.launch(Role::Hub(index), &hub.name, hub.host, &hub.class, program, args)
    }

    pub(super) fn node(&self, index: usize) -> Result<Launch, RunError> {
        let node: &PlacedNode = &self.placement.nodes[index];
        let mut args = self.common(self.node_settings, &node.name, node.host, |_| 0)?;
        let flag = match self.plan.architecture.hub_role() {
            roost_wire::Role::Server => "--server",
            _ => "--super",
        };
        if let Some(discovery) = self.plan.architecture.discovery() {
            args.extend(["--multicast", "on", "--discovery", discovery.name()].map(OsString::from));
        }
        for hub in &node.hubs {
            args.extend([flag.into(), self.endpoints(&self.placement.hubs[*hub])?.into()]);
        }
        let services: Vec<&str> = Service::ALL.iter().map(|service| service.name()).collect();
        args.extend(["--at".into(), node.cell.to_string().into(), "--services".into(), services.join(",").into()]);
        if self.plan.settings.node_value("max_streams").is_none() {
            // All others may request from one node at once; the paper has no limit.
            let streams = self.placement.nodes.len().max(8);
            args.extend(["--max-streams".into(), streams.to_string().into()]);
        }
        self.launch(Role::Node(index), &node.name, node.host, &node.class, "overlay-node", args)
    }

    fn common(
        &self,
        settings: &Path,
        name: &str,
        host: HostIndex,
        port: impl Fn(Scheme) -> u16,
    ) -> Result<Vec<OsString>, RunError> {
        let hosts = self.hosts(host)?;
        let mut args: Vec<OsString> = vec!["--config".into(), settings.into()];
        args.extend(["--identity".into(), identity(name).into()]);
        args.extend(["--socket".into(), socket(name).into()]);
        for scheme in Scheme::ALL {
            args.extend(["--listen".into(), format!("{scheme}://{}:{}", hosts(scheme), port(scheme)).into()]);
        }
        args.extend(["--drain".into(), format!("{}s", LEAVE_TIMEOUT.as_secs()).into()]);
        Ok(args)
    }

    /// A hub's endpoints as one entry, the preferred one first.
    fn endpoints(&self, hub: &PlacedHub) -> Result<String, RunError> {
        let hosts = self.hosts(hub.host)?;
        let port = |scheme| if scheme == Scheme::Quic { QUIC_PORT } else { PORT };
        let schemes = self.plan.transport.preference();
        let endpoints = schemes.into_iter().map(|scheme| format!("{scheme}://{}:{}", hosts(scheme), port(scheme)));
        Ok(endpoints.collect::<Vec<_>>().join(","))
    }

    /// The listening addresses of a daemon. For QUIC they cover each net shared with a host with which it
    /// shares several; otherwise only the host's main address.
    fn hosts(&self, host: HostIndex) -> Result<impl Fn(Scheme) -> String, RunError> {
        let main = self.address(host)?;
        let is_on = |net: &Net, host| net.members.iter().any(|member| member.host == host);
        let nets: Vec<&Net> = self.lab.topology().nets.iter().filter(|net| is_on(net, host)).collect();
        let is_doubled = |net: &Net| {
            let mut others = net.members.iter().filter(|member| member.host != host);
            others.any(|other| nets.iter().filter(|net| is_on(net, other.host)).count() > 1)
        };
        let doubled = nets.iter().filter(|net| nets.len() > 1 && is_doubled(net));
        let own = doubled.flat_map(|net| &net.members).filter(|member| member.host == host);
        let more = own.filter_map(|member| member.address).filter(|address| *address != main);
        let all: Vec<String> = [main].into_iter().chain(more).take(MAX_HOSTS).map(|at| at.to_string()).collect();
        Ok(move |scheme| if scheme == Scheme::Quic { all.join("+") } else { main.to_string() })
    }

    fn address(&self, host: HostIndex) -> Result<std::net::Ipv4Addr, RunError> {
        let name = || self.lab.topology().hosts.get(host).map_or("?", |host| host.name.as_str());
        let missing = || RunError::Topology(format!("host {} is on no link or LAN, so nobody reaches it", name()));
        self.lab.address(host).ok_or_else(missing)
    }

    fn launch(
        &self,
        role: Role,
        name: &str,
        host: HostIndex,
        class: &str,
        program: &str,
        args: Vec<OsString>,
    ) -> Result<Launch, RunError> {
        Ok(Launch {
            role,
            name: name.to_owned(),
            host,
            class: class.to_owned(),
            title: match role {
                Role::Node(_) => "node",
                Role::Hub(place) => self.plan.architecture.hub_title(place),
            },
            certified: match role {
                Role::Node(_) => roost_wire::Role::Node,
                Role::Hub(_) => self.plan.architecture.hub_role(),
            },
            program: self.binaries.path(program)?,
            args,
            socket: socket(name),
            log: Path::new(LOG_FOLDER).join(format!("{name}.log")),
        })
    }
}

fn socket(name: &str) -> PathBuf {
    Path::new(RUN_FOLDER).join(format!("{name}.sock"))
}
