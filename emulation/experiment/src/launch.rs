//! The command lines of a run's daemons.

use std::ffi::OsString;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use roost_lab::Lab;
use roost_topology::model::HostIndex;
use roost_wire::{Address, Scheme, Service};

use super::binaries::Binaries;
use super::daemon::{Launch, Role};
use super::endpoints::Endpoints;
use super::error::RunError;
use super::fleet::{LEAVE_TIMEOUT, LOG_FOLDER};
use super::placement::{PlacedNode, Placement};
use super::plan::Plan;
use super::private::RUN_FOLDER;

/// The port of a hub for UDP and TCP. QUIC has the next one, media the one after.
const PORT: u16 = 7700;

pub(super) fn identity(name: &str) -> PathBuf {
    Path::new(RUN_FOLDER).join(format!("{name}.id"))
}

pub(super) struct LaunchBuilder<'a> {
    pub(super) plan: &'a Plan,
    pub(super) placement: &'a Placement,
    pub(super) lab: &'a Lab,
    /// The endpoints at which daemons listen.
    pub(super) listened: Endpoints,
    /// The endpoints of hubs, in the order in which daemons dial them.
    pub(super) dialed: Endpoints,
    pub(super) binaries: &'a Binaries,
    pub(super) hub_settings: &'a Path,
    pub(super) node_settings: &'a Path,
}

impl LaunchBuilder<'_> {
    pub(super) fn hub(&self, index: usize) -> Result<Launch, RunError> {
        let hub = &self.placement.hubs[index];
        let program = self.plan.architecture.hub_program();
        let mut args = self.common(self.hub_settings, &hub.name, hub.host, hub_port)?;
        let caching = self.plan.architecture.hub_role() == roost_wire::Role::Server;
        for parent in &hub.parents {
            let flag = if caching { "--cache-of" } else { "--parent" };
            args.extend([flag.into(), self.endpoints(*parent, hub.host).into()]);
        }
        if !caching {
            for sibling in self.placement.earlier_siblings(index) {
                args.extend(["--sibling".into(), self.endpoints(sibling, hub.host).into()]);
            }
            if hub.tier > 0 {
                args.extend(["--tier".into(), hub.tier.to_string().into()]);
            }
            let own = self.plan.settings.for_hubs(self.plan.architecture).any(|setting| setting.key == "media");
            args.extend(self.media(hub.host, PORT + 2).filter(|_| !own).into_iter().flatten());
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
            args.extend([flag.into(), self.endpoints(*hub, node.host).into()]);
        }
        let services: Vec<&str> = Service::ALL.iter().map(|service| service.name()).collect();
        args.extend(["--at".into(), node.cell.to_string().into(), "--services".into(), services.join(",").into()]);
        let own = self.plan.settings.node_value("media").is_some();
        args.extend(self.media(node.host, 0).filter(|_| !own).into_iter().flatten());
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
        let listened = self.listened.all(host, port);
        if listened.is_empty() {
            let host = self.lab.topology().hosts.get(host).map_or("?", |host| host.name.as_str());
            return Err(RunError::Topology(format!("host {host} is on no link or LAN, so nobody reaches it")));
        }
        let mut args: Vec<OsString> = vec!["--config".into(), settings.into()];
        args.extend(["--identity".into(), identity(name).into()]);
        args.extend(["--socket".into(), socket(name).into()]);
        for endpoint in listened {
            args.extend(["--listen".into(), endpoint.to_string().into()]);
        }
        args.extend(["--drain".into(), format!("{}s", LEAVE_TIMEOUT.as_secs()).into()]);
        Ok(args)
    }

    /// The flag of a media port that has several addresses: a daemon chooses its first one otherwise.
    fn media(&self, host: HostIndex, port: u16) -> Option<[OsString; 2]> {
        let media = self.listened.media(host).filter(Ipv4Addr::is_unspecified)?;
        Some(["--media".into(), format!("{media}:{port}").into()])
    }

    /// A hub's endpoints as one entry, in the order in which a daemon on the host `from` dials them.
    fn endpoints(&self, hub: usize, from: HostIndex) -> String {
        let endpoints = self.dialed.toward(self.placement.hubs[hub].host, from, hub_port);
        endpoints.iter().map(Address::to_string).collect::<Vec<_>>().join(",")
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

fn hub_port(scheme: Scheme) -> u16 {
    PORT + u16::from(scheme == Scheme::Quic)
}

fn socket(name: &str) -> PathBuf {
    Path::new(RUN_FOLDER).join(format!("{name}.sock"))
}
