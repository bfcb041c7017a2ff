//! The trunk: it takes frames between the carriers of several machines, in datagrams of UDP.
//!
//! A frame has the time at which it left. The receiver keeps it until exactly the *hold* after that time, by its own
//! clock, so that a trunk that is slower or faster by the moment does not show. The model of the link has a delay that is
//! shorter by the hold. A frame that takes longer than the hold is late, and counts as such.
//!
//! Each side measures the other's clock all the time with pings ([`clock`]). Frames are numbered: one that is missing
//! counts as lost, and the run is not valid.
//!
//! [`Trunk`] makes the decisions and has no socket: the carrier's thread reads and writes for it.

pub(crate) mod clock;
pub(crate) mod datagram;
mod line;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::SocketAddr;
use std::time::Duration;

use roost_netcore::Port;
use roost_wire::Time;
use serde::{Deserialize, Serialize};

use self::datagram::{Datagram, TrunkToken};
pub(crate) use self::line::LineCounts;
use self::line::TrunkLine;
use crate::carrier::CarrierFrame;

/// The time between two pings of a machine.
pub(crate) const PING_INTERVAL: Duration = Duration::from_millis(10);
/// Frames that wait for the end of their hold: a second of small frames at 1 Gbit/s.
const MAX_HELD: usize = 1 << 20;

/// The settings of a trunk, the same on all machines.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct TrunkSettings {
    pub(crate) machine: usize,
    pub(crate) token: TrunkToken,
    /// The time from a frame's departure on one machine to its arrival on the other.
    pub(crate) hold: Duration,
    /// By machine, the address of its trunk. A machine without one is learned from its first datagram.
    pub(crate) addresses: Vec<Option<SocketAddr>>,
}

#[derive(Debug)]
pub(crate) struct TrunkArrival {
    pub(crate) due: Time,
    pub(crate) port: Port,
    pub(crate) frame: CarrierFrame,
}

#[derive(Debug)]
pub(crate) struct Trunk {
    settings: TrunkSettings,
    lines: Vec<TrunkLine>,
    held: BinaryHeap<Reverse<HeldFrame>>,
    next_ping: Time,
}

#[derive(Debug)]
struct HeldFrame {
    due: Time,
    sequence: u64,
    port: Port,
    frame: CarrierFrame,
}

/// The content of a datagram that has been read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum TrunkInput<'a> {
    Nothing,
    Answer(Vec<u8>),
    /// A frame, which the caller stores and gives to [`Trunk::hold`].
    Frame {
        machine: usize,
        sequence: u64,
        left: u64,
        port: Port,
        bytes: &'a [u8],
    },
}

impl Trunk {
    pub(crate) fn new(settings: TrunkSettings) -> Self {
        let lines = settings.addresses.iter().map(|address| TrunkLine::new(*address)).collect();
        Self { settings, lines, held: BinaryHeap::new(), next_ping: Time::ZERO }
    }

    pub(crate) fn machine(&self) -> usize {
        self.settings.machine
    }

    /// Writes a frame's datagram into `buffer`, and returns its receiver's address if it is known.
    pub(crate) fn frame(
        &mut self,
        machine: usize,
        port: Port,
        left: Time,
        bytes: &[u8],
        buffer: &mut Vec<u8>,
    ) -> Option<SocketAddr> {
        let (sender, token) = (self.settings.machine, self.settings.token);
        let line = self.lines.get_mut(machine)?;
        let sequence = line.number_frame();
        let port = port.index() as u32;
        Datagram::Frame { sequence, left: left.as_nanos(), port, bytes }.write(token, sender, buffer);
        line.address
    }

    /// Counts a frame that the socket did not take.
    pub(crate) fn refuse(&mut self, machine: usize) {
        if let Some(line) = self.lines.get_mut(machine) {
            line.counts.refused += 1;
        }
    }

    /// Reads a datagram that has come in. Datagrams of strangers are ignored.
    pub(crate) fn receive<'a>(&mut self, now: Time, from: SocketAddr, bytes: &'a [u8]) -> TrunkInput<'a> {
        let (own, token) = (self.settings.machine, self.settings.token);
        let Some((machine, datagram)) = Datagram::read(token, bytes) else { return TrunkInput::Nothing };
        let Some(line) = self.lines.get_mut(machine).filter(|_| machine != own) else { return TrunkInput::Nothing };
        line.address.get_or_insert(from);
        match datagram {
            Datagram::Frame { sequence, left, port, bytes } => {
                line.receive_frame(now, sequence, left);
                TrunkInput::Frame { machine, sequence, left, port: Port::from_number(port), bytes }
            }
            Datagram::Ping { sent, frames } => {
                line.announce(frames);
                let mut answer = Vec::new();
                let now = now.as_nanos();
                Datagram::Pong { sent, received: now, answered: now }.write(token, own, &mut answer);
                TrunkInput::Answer(answer)
            }
            Datagram::Pong { sent, received, answered } => {
                line.clock.add(clock::Exchange { sent, received, answered, returned: now.as_nanos() });
                TrunkInput::Nothing
            }
        }
    }

    /// Keeps a frame that left `machine` at a time of that machine's clock. Before its clock is known, the frame is
    /// due at once.
    pub(crate) fn hold(&mut self, now: Time, input: HeldInput) {
        let Some(line) = self.lines.get_mut(input.machine) else { return };
        if self.held.len() >= MAX_HELD {
            line.counts.dropped += 1;
            return;
        }
        let left = line.clock.here(input.left);
        let due = left.map_or(now, |left| left + self.settings.hold);
        // A far time would be a fault of the other clock, and must not stop the trunk.
        let due = due.min(now + self.settings.hold * 2);
        let HeldInput { sequence, port, frame, .. } = input;
        let due = line.in_order(port.index(), due);
        self.held.push(Reverse(HeldFrame { due, sequence, port, frame }));
    }

    /// The next frame whose hold has ended by `now`.
    pub(crate) fn poll_arrival(&mut self, now: Time) -> Option<TrunkArrival> {
        if self.held.peek()?.0.due > now {
            return None;
        }
        let HeldFrame { due, port, frame, .. } = self.held.pop()?.0;
        Some(TrunkArrival { due, port, frame })
    }

    /// Pings that are to be sent at `now`.
    pub(crate) fn poll_pings(&mut self, now: Time) -> Vec<(SocketAddr, Vec<u8>)> {
        if now < self.next_ping {
            return Vec::new();
        }
        self.next_ping = now + PING_INTERVAL;
        let (own, token) = (self.settings.machine, self.settings.token);
        let others = self.lines.iter().enumerate().filter(|(machine, _)| *machine != own);
        let ping = |(_, line): (usize, &TrunkLine)| {
            let mut bytes = Vec::new();
            Datagram::Ping { sent: now.as_nanos(), frames: line.counts.sent }.write(token, own, &mut bytes);
            if line.clock.ahead().is_none() {
                // A network that drops fragments is noticed before the first frame.
                bytes.resize(datagram::FULL, 0);
            }
            Some((line.address?, bytes))
        };
        others.filter_map(ping).collect()
    }

    /// The time of the next arrival or ping.
    pub(crate) fn poll_deadline(&self) -> Time {
        self.held.peek().map_or(self.next_ping, |first| first.0.due.min(self.next_ping))
    }

    pub(crate) fn held(&self) -> usize {
        self.held.len()
    }

    /// The counters of each line, by machine.
    pub(crate) fn counts(&self) -> Vec<LineCounts> {
        self.lines.iter().map(TrunkLine::snapshot).collect()
    }
}

#[derive(Debug)]
pub(crate) struct HeldInput {
    pub(crate) machine: usize,
    pub(crate) sequence: u64,
    /// The time of its departure by the sender's clock, nanoseconds.
    pub(crate) left: u64,
    pub(crate) port: Port,
    pub(crate) frame: CarrierFrame,
}

impl PartialEq for HeldFrame {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for HeldFrame {}

impl PartialOrd for HeldFrame {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for HeldFrame {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.due, self.sequence).cmp(&(other.due, other.sequence))
    }
}
