//! Scheduled events, programs and traffic.

use std::time::Duration;

use super::{Burst, HostIndex, NetIndex, PacketOrder, Queue};
use crate::units::Rate;

#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Time after all hosts are ready.
    pub at: Duration,
    /// The event (an index into [`Topology::events`](super::Topology::events), of a [`ProgramAction::Run`])
    /// whose program must have ended first: the previous line of a sequence.
    pub after: Option<usize>,
    /// The NS object, net, host or program of the event, as the file calls it.
    pub object: String,
    /// The line of the file, or 0 if it is unknown.
    pub line: u32,
    pub action: Action,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Changes a link or LAN, or one host's legs of it.
    Net {
        net: NetIndex,
        /// Only the direction that leaves this host, and for a LAN its legs both ways. `None` means all.
        from: Option<HostIndex>,
        change: TopologyChange,
    },
    Program {
        /// An index into [`Topology::programs`](super::Topology::programs).
        program: usize,
        what: ProgramAction,
    },
    Traffic {
        /// An index into [`Topology::traffic`](super::Topology::traffic).
        agent: usize,
        what: TrafficAction,
    },
    Halt,
    /// Understood, and without effect here: a reboot, a snapshot.
    Other {
        /// Emulab's object type, such as `NODE`.
        kind: String,
        /// Emulab's event type, such as `REBOOT`.
        event: String,
        args: String,
    },
}

/// The change of a net or of a leg.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TopologyChange {
    Up,
    /// Arriving packets vanish; packets inside are still delivered.
    Down,
    Rate(Rate),
    /// The one-way delay, end to end: that of a link's direction, or from host to host on a LAN.
    Delay(Duration),
    /// The loss, end to end.
    Loss(f64),
    /// Loss in bursts; `None` ends it.
    Burst(Option<Burst>),
    Jitter(Duration),
    Order(PacketOrder),
    Queue(Queue),
}

impl TopologyChange {
    /// Splits a host-to-host value of a LAN into those of the sender's leg and the receiver's.
    pub fn halves(self) -> [Self; 2] {
        match self {
            Self::Delay(delay) => [Self::Delay(delay - delay / 2), Self::Delay(delay / 2)],
            Self::Jitter(jitter) => [Self::Jitter(jitter), Self::Jitter(Duration::ZERO)],
            Self::Loss(loss) => [Self::Loss(1.0 - (1.0 - loss).max(0.0).sqrt()); 2],
            Self::Burst(burst) => [Self::Burst(burst), Self::Burst(None)],
            Self::Order(order) => [Self::Order(order), Self::Order(PacketOrder::Kept)],
            Self::Up | Self::Down | Self::Rate(_) | Self::Queue(_) => [self; 2],
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostProgram {
    pub name: String,
    pub host: HostIndex,
    /// The command for `sh`; empty until an event sets it.
    pub command: String,
    pub folder: Option<String>,
    pub timeout: Option<Duration>,
    pub expected_exit: Option<i32>,
    /// True for its host's start command (`tb-set-node-startcmd`), which Emulab wraps to learn its exit code:
    /// [`crate::emulab::command`].
    pub start_command: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub enum ProgramAction {
    /// Starts it, with a new command if one is given.
    Start(Option<String>),
    /// Starts it; the event's sequence waits for its end.
    Run(Option<String>),
    Stop,
    Kill(String),
    Set(String),
}

/// An agent of NS files that sends or receives traffic.
#[derive(Clone, Debug, PartialEq)]
pub struct TrafficAgent {
    pub name: String,
    pub host: HostIndex,
    pub is_source: bool,
    /// True for TCP, false for UDP.
    pub tcp: bool,
    pub port: u16,
    pub target: Option<HostIndex>,
    pub packet_bytes: u32,
    pub rate: Rate,
    /// Seconds between packets; it sets the rate if it comes later in the file.
    pub interval: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TrafficAction {
    Start,
    Stop,
    PacketBytes(u32),
    Rate(Rate),
    /// Seconds between packets.
    Interval(f64),
}
