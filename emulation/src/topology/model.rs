//! A network: hosts, the links and LANs between them, and what is scheduled.
//!
//! Both formats, our own TOML and Emulab's NS, are read into this one type,
//! and everything else (check, lab, simulation, exports) starts from it.

mod leg;
mod schedule;

use std::net::Ipv4Addr;
use std::time::Duration;

use super::emulab::EmulabFacts;

pub use leg::{Burst, Discipline, Leg, Queue, Red};
pub use schedule::{Action, Event, HostProgram, ProgramAction, TopologyChange, TrafficAction, TrafficAgent};

/// The most hosts that a topology may have: what can be simulated on a small
/// machine.
pub const MAX_HOSTS: usize = 131_072;
/// The most hosts of a lab, and of an NS file.
pub const MAX_LAB_HOSTS: usize = 4_096;
/// The most links and LANs.
pub const MAX_NETS: usize = 16_384;
/// The most interfaces, of all hosts together.
pub const MAX_MEMBERS: usize = 262_144;
/// The most scheduled events.
pub const MAX_EVENTS: usize = 65_536;

/// The most programs, and the most traffic agents.
pub const MAX_PROGRAMS: usize = 65_536;
/// The most routes that a file may give one by one.
pub const MAX_ROUTES: usize = 65_536;
/// The longest delay or jitter of a leg.
pub const MAX_DELAY: Duration = Duration::from_secs(3600);

/// Where a host is in [`Topology::hosts`].
pub type HostIndex = usize;
/// Where a link or LAN is in [`Topology::nets`].
pub type NetIndex = usize;

/// A network and its schedule.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Topology {
    /// Its name, for results.
    pub name: String,
    /// The hosts, by unique name.
    pub hosts: Vec<Host>,
    /// The links and LANs, by unique name.
    pub nets: Vec<Net>,
    /// How hosts learn their routes.
    pub routing: Routing,
    /// Routes that the file gives one by one, whatever `routing` says.
    pub manual_routes: Vec<ManualRoute>,
    /// Where `emulab-sync` keeps its barriers, if the file says it.
    pub sync_server: Option<HostIndex>,
    /// What is to happen, by time.
    pub events: Vec<Event>,
    /// Programs that hosts run, started by events or from the start.
    pub programs: Vec<HostProgram>,
    /// Traffic generators and sinks of NS files.
    pub traffic: Vec<TrafficAgent>,
    /// What a person should know about how the file was understood.
    pub notes: Notes,
    /// What Emulab's listings show of an NS file and nothing here needs.
    pub emulab: EmulabFacts,
}

impl Topology {
    /// The host of this name.
    pub fn host_index(&self, name: &str) -> Option<HostIndex> {
        self.hosts.iter().position(|host| host.name == name)
    }

    /// The link or LAN of this name.
    pub fn net_index(&self, name: &str) -> Option<NetIndex> {
        self.nets.iter().position(|net| net.name == name)
    }

    /// Every interface, by host: the net and the place among its members, in
    /// the order of the nets. The first is the host's main one.
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

/// What was read and has no effect here, and what is doubtful.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    /// Understood, no effect here: one line each, with its place.
    pub ignored: Vec<Note>,
    /// Probably not what was meant.
    pub warnings: Vec<Note>,
}

/// One remark.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Note {
    /// The line of the file, from 1; 0 where none can be named.
    pub line: u32,
    /// One sentence.
    pub text: String,
}

/// A machine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Host {
    /// Its name: letters, digits, `-`, `_` and `.`; at most 63 characters.
    pub name: String,
    /// Its class, which workloads and plans refer to: `low`, `tactical`, `x45`, `server`.
    pub class: Option<String>,
    /// Where it stands on the grid.
    pub cell: Option<(i32, i32)>,
    /// The operating system an NS file asks for: kept for exports, no effect here.
    pub os: Option<String>,
    /// The hardware an NS file asks for: kept for exports, no effect here.
    pub hardware: Option<String>,
}

/// How hosts learn their routes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Routing {
    /// Only what is directly attached: NS's default.
    #[default]
    None,
    /// Shortest paths by cost, computed here (`Static`, `Static-ddijk`, `Static-old`).
    Static,
    /// As `Static` here: a routing daemon's converged result (`Session`, `ospf`).
    Session,
    /// None are set: the experimenter does (`Manual`).
    Manual,
}

/// A route that a file gives: `add-route` of NS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ManualRoute {
    /// Whose.
    pub host: HostIndex,
    /// Where it leads.
    pub to: RouteTarget,
    /// The neighbour that is sent the packets.
    pub via: HostIndex,
}

/// Where a route leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteTarget {
    /// To the first interface of a host.
    Host(HostIndex),
    /// To every address of a link or LAN.
    Net(NetIndex),
}

/// A link or a LAN.
#[derive(Clone, Debug, PartialEq)]
pub struct Net {
    /// Its name.
    pub name: String,
    /// Which.
    pub kind: NetKind,
    /// Who is on it: exactly two for a link, one or more for a LAN, in the file's order.
    pub members: Vec<NetMember>,
    /// The cost of crossing it, for routing.
    pub cost: f64,
}

/// Two ends, or any number on a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NetKind {
    /// Two members; each direction is one pipe: the slower rate of the two
    /// legs, the sum of their delays, the losses of both, the sender's queue.
    Link,
    /// A switch; a packet crosses its sender's `to_net` leg, is copied to its
    /// receivers, and crosses each receiver's `from_net` leg.
    Lan,
}

/// A host's place on a link or LAN: an interface.
#[derive(Clone, Debug, PartialEq)]
pub struct NetMember {
    /// Which host.
    pub host: HostIndex,
    /// Its address, if the file gives one; else one is chosen.
    pub address: Option<Ipv4Addr>,
    /// The length of the net's prefix.
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
