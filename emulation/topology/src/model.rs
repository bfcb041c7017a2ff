//! A network: hosts, the links and LANs between them, and the schedule.
//!
//! Both formats, our own TOML and Emulab's NS, are read into this one type; check, lab, simulation and exports
//! start from it.

mod leg;
mod motion;
mod radio;
mod schedule;

use std::net::Ipv4Addr;
use std::time::Duration;

use serde::Deserialize;

use super::emulab::EmulabFacts;

pub use leg::{Burst, Discipline, Leg, PacketOrder, Queue, Red};
pub use motion::{
    DEFAULT_STEP, HostCourse, HostMotion, MAX_WAYPOINTS, Motion, MotionFile, MotionFormat, Position, Waypoint,
};
pub use radio::{
    Access, Contention, MAX_RADIO_MEMBERS, PathLoss, Radio, RadioLinks, RadioLoss, RadioRate, Station,
    no_change_of_radio,
};
pub use schedule::{Action, Event, HostProgram, ProgramAction, TopologyChange, TrafficAction, TrafficAgent};

/// The most hosts of a topology: as many as a small machine can simulate.
pub const MAX_HOSTS: usize = 131_072;
/// The most hosts of a lab, and of an NS file.
pub const MAX_LAB_HOSTS: usize = 4_096;
pub const MAX_NETS: usize = 16_384;
/// The most interfaces, of all hosts together.
pub const MAX_MEMBERS: usize = 262_144;
pub const MAX_EVENTS: usize = 65_536;

/// The most programs, and the most traffic agents.
pub const MAX_PROGRAMS: usize = 65_536;
/// The most routes that a file may give one by one.
pub const MAX_ROUTES: usize = 65_536;
/// The longest delay or jitter of a leg.
pub const MAX_DELAY: Duration = Duration::from_secs(3600);

/// An index into [`Topology::hosts`].
pub type HostIndex = usize;
/// An index into [`Topology::nets`].
pub type NetIndex = usize;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Topology {
    pub name: String,
    pub hosts: Vec<Host>,
    pub nets: Vec<Net>,
    /// Radios; their nets are the last ones, in the same order.
    pub radios: Vec<Radio>,
    pub motion: Motion,
    pub routing: Routing,
    /// Routes that the file gives explicitly, whatever `routing` is.
    pub manual_routes: Vec<ManualRoute>,
    /// The host of `emulab-sync`'s barriers, if the file names one.
    pub sync_server: Option<HostIndex>,
    pub events: Vec<Event>,
    /// Programs of hosts, started by events or at the start.
    pub programs: Vec<HostProgram>,
    /// Traffic generators and sinks of NS files.
    pub traffic: Vec<TrafficAgent>,
    /// Remarks for people on the interpretation of the file.
    pub notes: Notes,
    /// Facts of an NS file that only Emulab's listings show.
    pub emulab: EmulabFacts,
}

impl Topology {
    pub fn host_index(&self, name: &str) -> Option<HostIndex> {
        self.hosts.iter().position(|host| host.name == name)
    }

    /// The link or LAN of this name.
    pub fn net_index(&self, name: &str) -> Option<NetIndex> {
        self.nets.iter().position(|net| net.name == name)
    }

    /// The links and LANs that are not radios.
    pub fn wired_nets(&self) -> &[Net] {
        let first = self.radios.first().map_or(self.nets.len(), |radio| radio.net);
        &self.nets[..first.min(self.nets.len())]
    }

    /// The radio of a net, if it is one.
    pub fn radio(&self, net: NetIndex) -> Option<&Radio> {
        self.radios.iter().find(|radio| radio.net == net)
    }

    /// Lists every interface by host: the net and the index among its members, in the order of the nets. The
    /// first is the host's main interface.
    pub fn interfaces(&self) -> Vec<Vec<(NetIndex, usize)>> {
        let mut interfaces = vec![Vec::new(); self.hosts.len()];
        for (index, net) in self.nets.iter().enumerate() {
            for (place, member) in net.members.iter().enumerate() {
                interfaces[member.host].push((index, place));
            }
        }
        interfaces
    }
}

/// Remarks on parts of a file that have no effect here or are doubtful.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    /// Parts that are understood and have no effect here: one line each.
    pub ignored: Vec<Note>,
    pub warnings: Vec<Note>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Note {
    /// The line of the file, from 1; 0 if it is unknown.
    pub line: u32,
    pub text: String,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Host {
    /// The name: letters, digits, `-`, `_` and `.`; at most 63 characters.
    pub name: String,
    /// The class, which workloads and plans refer to: `low`, `tactical`, `x45`, `server`.
    pub class: Option<String>,
    /// The cell of the grid on which it stands.
    pub cell: Option<(i32, i32)>,
    /// The operating system that an NS file names: kept for exports, no effect here.
    pub os: Option<String>,
    /// The hardware that an NS file names: kept for exports, no effect here.
    pub hardware: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Routing {
    /// Only routes to attached nets: NS's default.
    #[default]
    None,
    /// Shortest paths by cost, computed here (`Static`, `Static-ddijk`, `Static-old`).
    Static,
    /// As `Static` here: a routing daemon's converged result (`Session`, `ospf`).
    Session,
    /// No routes: the experimenter sets them (`Manual`).
    Manual,
}

/// An explicit route: `add-route` of NS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ManualRoute {
    pub host: HostIndex,
    pub to: RouteTarget,
    /// The gateway, on a net of the host.
    pub via: HostIndex,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteTarget {
    /// To the first interface of a host.
    Host(HostIndex),
    /// To every address of a link or LAN.
    Net(NetIndex),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Net {
    pub name: String,
    pub kind: NetKind,
    /// The hosts on it: exactly two for a link, one or more for a LAN, in the file's order.
    pub members: Vec<NetMember>,
    /// The cost of crossing it, for routing.
    pub cost: f64,
}

/// Two ends, or any number on a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NetKind {
    /// Two members; each direction is one pipe with the slower rate of the two legs, the sum of their delays,
    /// the losses of both and the sender's queue.
    Link,
    /// A switch; a packet crosses its sender's `to_net` leg, is copied to its
    /// receivers, and crosses each receiver's `from_net` leg.
    Lan,
}

/// An interface of a host on a link or LAN.
#[derive(Clone, Debug, PartialEq)]
pub struct NetMember {
    pub host: HostIndex,
    /// The address, if the file gives one; else one is chosen.
    pub address: Option<Ipv4Addr>,
    pub prefix: u8,
    /// From the host into the net.
    pub to_net: Leg,
    /// From the net to the host.
    pub from_net: Leg,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leg_halves_sum_to_direction() {
        let whole =
            Leg { delay: Duration::from_nanos(51), loss: 0.01, jitter: Duration::from_millis(3), ..Leg::default() };
        let (to_net, from_net) = whole.halves();
        assert_eq!(to_net.delay + from_net.delay, whole.delay);
        assert!((to_net.loss - 0.005_012_563).abs() < 1e-9 && to_net.loss.to_bits() == from_net.loss.to_bits());
        let joined = to_net.joined(&from_net);
        assert!((joined.loss - 0.01).abs() < 1e-15);
        assert_eq!((joined.delay, joined.jitter), (whole.delay, whole.jitter));
    }

    #[test]
    fn host_interfaces_follow_net_order() {
        let member =
            |host| NetMember { host, address: None, prefix: 24, to_net: Leg::default(), from_net: Leg::default() };
        let net = |name: &str, hosts: [usize; 2]| Net {
            name: name.to_owned(),
            kind: NetKind::Link,
            members: hosts.map(member).to_vec(),
            cost: 1.0,
        };
        let hosts = ["a", "b", "c"].map(|name| Host { name: name.to_owned(), ..Host::default() }).to_vec();
        let topology = Topology { hosts, nets: vec![net("x", [1, 0]), net("y", [2, 1])], ..Topology::default() };
        assert_eq!(topology.interfaces(), [vec![(0, 1)], vec![(0, 0), (1, 1)], vec![(1, 0)]]);
        assert_eq!(
            (topology.host_index("c"), topology.net_index("y"), topology.host_index("x")),
            (Some(2), Some(1), None)
        );
    }
}
