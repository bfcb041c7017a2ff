//! What is scheduled: events, programs and traffic.

use std::time::Duration;

use super::{Burst, HostIndex, NetIndex, Queue};
use crate::units::Rate;

/// Something that happens at a time.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// When, after all hosts are ready.
    pub at: Duration,
    /// Not before the program that this event (in [`Topology::events`](super::Topology::events), a
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
        change: TopologyChange,
    },
    /// Starts, stops or signals a program.
    Program {
        /// Which, in [`Topology::programs`](super::Topology::programs).
        program: usize,
        /// What.
        what: ProgramAction,
    },
    /// Works on a traffic agent.
    Traffic {
        /// Which, in [`Topology::traffic`](super::Topology::traffic).
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
pub enum TopologyChange {
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
pub struct HostProgram {
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
    /// Emulab wraps to learn its exit code: [`crate::topology::emulab::command`].
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
