//! A network: hosts, the links and LANs between them, and what is scheduled.
//!
//! Both formats, our own TOML and Emulab's NS, are read into this one type,
//! and everything else (check, lab, simulation, exports) starts from it.

use std::net::Ipv4Addr;
use std::time::Duration;

use super::emulab::Facts;
use crate::units::Rate;

/// The most hosts that a topology may have.
pub const MAX_HOSTS: usize = 4096;
/// The most links and LANs.
pub const MAX_NETS: usize = 8192;
/// The most interfaces, of all hosts together.
pub const MAX_MEMBERS: usize = 65_536;
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
    pub programs: Vec<Program>,
    /// Traffic generators and sinks of NS files.
    pub traffic: Vec<TrafficAgent>,
    /// What a person should know about how the file was understood.
    pub notes: Notes,
    /// What Emulab's listings show of an NS file and nothing here needs.
    pub emulab: Facts,
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
    pub members: Vec<Member>,
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
pub struct Member {
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

/// One direction of an interface.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Leg {
    /// The rate; [`Rate::UNLIMITED`] takes no time to send.
    pub rate: Rate,
    /// Propagation delay, one way.
    pub delay: Duration,
    /// Random loss of single packets, 0 to 1.
    pub loss: f64,
    /// Loss in bursts, in addition.
    pub burst: Option<Burst>,
    /// Extra delay, drawn evenly from zero to this for each packet; order is kept.
    pub jitter: Duration,
    /// What waits for the rate.
    pub queue: Queue,
}

impl Leg {
    /// Splits a direction, end to end, into the leg from its sender into the
    /// net and the leg from the net to its receiver, as Emulab does: half the
    /// delay each, and a loss of 1 − √(1 − p) each. Jitter and bursts do not
    /// split, so they stay with the sender; the queue is the sender's too.
    pub fn halves(&self) -> (Self, Self) {
        let loss = 1.0 - (1.0 - self.loss).sqrt();
        let half = self.delay / 2;
        let to_net = Self { delay: self.delay - half, loss, ..self.clone() };
        let from_net = Self { rate: self.rate, delay: half, loss, ..Self::default() };
        (to_net, from_net)
    }

    /// What a packet meets that crosses this leg into the net and `from_net`
    /// out of it: the inverse of [`Leg::halves`] but for rounding.
    pub fn joined(&self, from_net: &Self) -> Self {
        Self {
            rate: self.rate.slower(from_net.rate),
            delay: self.delay + from_net.delay,
            loss: 1.0 - (1.0 - self.loss) * (1.0 - from_net.loss),
            burst: self.burst.or(from_net.burst),
            jitter: self.jitter + from_net.jitter,
            queue: self.queue,
        }
    }
}

/// The Gilbert–Elliott model: a good and a bad state, moved between packet by
/// packet (Gilbert 1960, Elliott 1963).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Burst {
    /// Probability to turn bad, at each packet.
    pub enter: f64,
    /// Probability to turn good again, at each packet: bursts last `1 / leave` packets.
    pub leave: f64,
    /// Loss in the bad state.
    pub loss: f64,
}

/// A queue before a rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Queue {
    /// How many packets (or bytes) it holds, the one being sent included.
    pub limit: u32,
    /// Whether `limit` and the thresholds are in bytes.
    pub in_bytes: bool,
    /// Which packet is dropped.
    pub discipline: Discipline,
}

impl Queue {
    /// Emulab's default: the packet that finds 50 before it is dropped.
    pub const DEFAULT: Self = Self { limit: 50, in_bytes: false, discipline: Discipline::DropTail };
}

impl Default for Queue {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Which packet a full or filling queue drops.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Discipline {
    /// The one that finds it full.
    DropTail,
    /// Random early detection (Floyd and Jacobson 1993), gentle if so set.
    Red(Red),
}

/// The parameters of random early detection, as NS names them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Red {
    /// Average queue at which dropping begins: `thresh_`.
    pub min_threshold: u32,
    /// Average queue from which on all are dropped: `maxthresh_`.
    pub max_threshold: u32,
    /// One over the drop probability just below `max_threshold`: `linterm_`.
    pub linterm: u32,
    /// Weight of the newest sample in the average: `q_weight_`.
    pub weight: f64,
    /// Whether the probability climbs on to 1 at twice `max_threshold`: `gentle_`.
    pub gentle: bool,
}

impl Red {
    /// NS's defaults.
    pub const DEFAULT: Self = Self { min_threshold: 5, max_threshold: 15, linterm: 10, weight: 0.002, gentle: false };
}

/// Something that happens at a time.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// When, after all hosts are ready.
    pub at: Duration,
    /// Not before the program that this event (in [`Topology::events`], a
    /// [`ProgramAction::Run`]) started has ended: the next line of a sequence.
    pub after: Option<usize>,
    /// The NS object or net, host or program it is about, as the file calls it.
    pub object: String,
    /// The line of the file it is from; 0 where none can be named.
    pub line: u32,
    /// What.
    pub action: Action,
}

/// What an event does.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Changes a link or LAN, or one host's legs of it.
    Net {
        /// Which.
        net: NetIndex,
        /// Only the direction that leaves this host, and for a LAN its legs both ways; all without it.
        from: Option<HostIndex>,
        /// What becomes of it.
        change: Change,
    },
    /// Starts, stops or signals a program.
    Program {
        /// Which, in [`Topology::programs`].
        program: usize,
        /// What.
        what: ProgramAction,
    },
    /// Works on a traffic agent.
    Traffic {
        /// Which, in [`Topology::traffic`].
        agent: usize,
        /// What.
        what: TrafficAction,
    },
    /// Ends the experiment.
    Halt,
    /// Understood, no effect here: a reboot, a snapshot. Type and event as
    /// Emulab names them, and its arguments.
    Other {
        /// Emulab's object type, such as `NODE`.
        kind: String,
        /// Emulab's event type, such as `REBOOT`.
        event: String,
        /// Its arguments.
        args: String,
    },
}

/// What becomes of a net or of a leg.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Change {
    /// Packets are taken again.
    Up,
    /// Arriving packets vanish; those inside are still delivered.
    Down,
    /// The rate both ways.
    Rate(Rate),
    /// The one-way delay, end to end: for a link of the whole direction, for a LAN of host to host.
    Delay(Duration),
    /// The loss, end to end.
    Loss(f64),
    /// Loss in bursts, or none.
    Burst(Option<Burst>),
    /// The jitter.
    Jitter(Duration),
    /// The queue as a whole.
    Queue(Queue),
}

/// A program of a host.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Program {
    /// Its name.
    pub name: String,
    /// Where it runs.
    pub host: HostIndex,
    /// The shell command; empty until an event sets it.
    pub command: String,
    /// The folder it runs in.
    pub folder: Option<String>,
    /// When it is stopped.
    pub timeout: Option<Duration>,
    /// The exit code that counts as success.
    pub expected_exit: Option<i32>,
    /// Whether it is its host's start command (`tb-set-node-startcmd`), which
    /// Emulab wraps to learn its exit code: [`super::emulab::command`].
    pub start_command: bool,
}

/// What an event does to a program.
#[derive(Clone, Debug, PartialEq)]
pub enum ProgramAction {
    /// Starts it, with another command if one is given.
    Start(Option<String>),
    /// Starts it, and the sequence that holds the event waits for its end.
    Run(Option<String>),
    /// Stops it.
    Stop,
    /// Sends it a signal: `HUP`.
    Kill(String),
    /// Changes its command for later starts.
    Set(String),
}

/// An agent of NS files that sends or takes traffic.
#[derive(Clone, Debug, PartialEq)]
pub struct TrafficAgent {
    /// Its name.
    pub name: String,
    /// Where.
    pub host: HostIndex,
    /// Whether it sends.
    pub is_source: bool,
    /// TCP, or UDP.
    pub tcp: bool,
    /// The port it uses.
    pub port: u16,
    /// The host at the other end.
    pub target: Option<HostIndex>,
    /// Bytes in a packet.
    pub packet_bytes: u32,
    /// Its rate.
    pub rate: Rate,
    /// Seconds between packets: sets the rate if it comes after it.
    pub interval: Option<f64>,
}

/// What an event does to a traffic agent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TrafficAction {
    /// It begins to send.
    Start,
    /// It stops.
    Stop,
    /// Bytes in a packet.
    PacketBytes(u32),
    /// Its rate.
    Rate(Rate),
    /// Seconds between packets.
    Interval(f64),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_halves_of_a_direction_are_the_direction() {
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
    fn a_hosts_interfaces_are_in_the_order_of_the_nets() {
        let member =
            |host| Member { host, address: None, prefix: 24, to_net: Leg::default(), from_net: Leg::default() };
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
