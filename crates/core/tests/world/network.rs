//! Connections, dials, and what becomes of messages.

use std::hash::Hasher;
use std::time::Duration;

use roost_core::{Traffic, Transmit};
use roost_wire::messages::{FlowMessage, Message};
use roost_wire::random::SplitMix64;
use roost_wire::{Address, Channel, ConnectionId, DialId, NodeId, RoleSet, Scheme, Time};

use super::host::{HostId, MachineInput};
use super::{Action, DialOutcome, PendingDial, World, address, node_id};

/// Conditions that datagrams meet on every connection.
#[derive(Clone, Copy, Debug)]
pub struct PathConditions {
    /// Delay of one way.
    pub delay: Duration,
    /// Added at random, up to this; it reorders what is closer together.
    pub spread: Duration,
    /// Lost, per mille.
    pub loss: u32,
    /// Delivered twice, per mille.
    pub duplication: u32,
    /// The rate of what goes reliably, bits per second.
    pub rate: Option<u32>,
}

impl Default for PathConditions {
    fn default() -> Self {
        Self { delay: Duration::from_millis(20), spread: Duration::ZERO, loss: 0, duplication: 0, rate: None }
    }
}

impl PathConditions {
    pub fn draw(&self, random: &mut SplitMix64) -> Duration {
        self.delay + Duration::from_nanos(random.below(self.spread.as_nanos() as u64 + 1))
    }

    fn time_of(&self, bytes: usize) -> Duration {
        self.rate.map_or(Duration::ZERO, |rate| Duration::from_secs(8 * bytes as u64) / rate)
    }
}

/// Time that a NAT lets in a host that was called.
const CALLED: Duration = Duration::from_secs(30);

/// The pause before a handshake's first message is sent again.
const RETRY: Duration = Duration::from_millis(200);

/// A translator of addresses, by RFC 4787. A host without one, or whose translator filters by nothing, has none here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nat {
    /// Gives one port for all remotes, and lets in hosts that were called, from any port.
    AddressFilter,
    /// Gives one port for all remotes, and lets in hosts that were called, from the port that was called.
    PortFilter,
    /// Gives another port for each remote, at which it lets in that one alone.
    Symmetric,
}

impl Nat {
    pub const ALL: [Self; 3] = [Self::AddressFilter, Self::PortFilter, Self::Symmetric];
}

/// An end of a connection, as one host sees it.
#[derive(Clone, Debug)]
pub struct ConnectionEnd {
    pub host: HostId,
    pub far_host: HostId,
    pub far: ConnectionId,
    pub scheme: Scheme,
    pub up: bool,
    /// Nothing sent reliably from this end arrives before.
    pub ordered_until: Time,
    pub start: SlowStart,
}

/// The budget of an end that begins slowly: rounds of a round trip each, every one half as large
/// again as the one before.
#[derive(Clone, Copy, Debug, Default)]
pub struct SlowStart {
    began: Time,
    window: usize,
    left: usize,
}

impl SlowStart {
    /// Time at which the last of so many bytes leaves if the first round has `first`.
    fn leaves(&mut self, now: Time, trip: Duration, first: usize, mut bytes: usize) -> Time {
        if self.window == 0 {
            *self = Self { began: now, window: first, left: first };
        }
        while bytes > self.left {
            bytes -= self.left;
            self.began = self.began + trip;
            self.window += self.window / 2;
            self.left = self.window;
        }
        self.left -= bytes;
        now.max(self.began)
    }
}

impl ConnectionEnd {
    pub fn new(host: HostId, far_host: HostId, far: ConnectionId, scheme: Scheme) -> Self {
        Self { host, far_host, far, scheme, up: true, ordered_until: Time::ZERO, start: SlowStart::default() }
    }
}

/// The last message that hosts of the version before know.
const LAST_OF_OLDER: u64 = 56;

/// The number of an encoded message.
fn number(message: &[u8]) -> u64 {
    let mut decoder = minicbor::Decoder::new(message);
    decoder.array().and_then(|_| decoder.u64()).unwrap_or_default()
}

/// The message with the first payload byte of a chunk changed.
pub fn damaged(message: bytes::Bytes) -> bytes::Bytes {
    match Message::decode(&message) {
        Ok(Message::Flow(FlowMessage::Chunk(mut chunk))) if !chunk.payload.is_empty() => {
            let mut payload = chunk.payload.to_vec();
            payload[0] = payload[0].wrapping_add(1);
            chunk.payload = payload.into();
            Message::Flow(FlowMessage::Chunk(chunk)).encode()
        }
        _ => message,
    }
}

impl World {
    /// The default path's conditions, with the delay that was set for the two hosts.
    pub fn path_between(&self, a: HostId, b: HostId) -> PathConditions {
        let delay = self.delays.get(&(a, b)).or_else(|| self.delays.get(&(b, a)));
        PathConditions { delay: delay.copied().unwrap_or(self.path.delay), ..self.path }
    }

    pub(super) fn transmit(&mut self, from: HostId, transmit: Transmit) {
        match transmit {
            Transmit::Message { connection, channel, delivery, message, traffic } => {
                if traffic == Traffic::Documents && self.withholding.contains(&from) {
                    return;
                }
                self.count_document_bytes(connection, traffic, message.len());
                *self.classes.entry((from, delivery.class.name())).or_default() += message.len();
                self.send(connection, channel, message);
            }
            Transmit::Multicast { message, .. } => self.fan_out(from, &message),
            Transmit::Dial { dial, addresses, expect, node } => {
                self.dial(from, dial, &addresses, expect, node);
                self.dialed.push((from, addresses));
            }
            Transmit::Close { connection, .. } => {
                self.hang_up(connection);
                self.connections.remove(&connection);
            }
        }
    }

    fn count_document_bytes(&mut self, end: ConnectionId, traffic: Traffic, bytes: usize) {
        let Some(end) = self.connections.get(&end).filter(|_| traffic == Traffic::Documents) else { return };
        for host in [end.host, end.far_host] {
            *self.document_bytes.entry(host).or_default() += bytes as u64;
        }
    }

    pub(super) fn send(&mut self, end: ConnectionId, channel: Channel, message: bytes::Bytes) {
        let Some(connection) = self.connections.get(&end) else { return };
        let (from, to, far) = (connection.host, connection.far_host, connection.far);
        self.messages += 1;
        self.bytes += message.len() as u64;
        if !self.reaches(from, to) || self.muted.contains(&(from, to)) {
            if self.retransmits && channel != Channel::Datagram {
                self.delayed.push((end, channel, message));
            }
            return;
        }
        let is_older = self.older.contains(&from) || self.older.contains(&to);
        if is_older && number(&message) > LAST_OF_OLDER {
            return;
        }
        let message = if self.damage_chunks { damaged(message) } else { message };
        let path = self.path_between(from, to);
        match channel {
            _ if self.first_window.is_some() => self.send_slowly(end, far, message),
            Channel::Datagram => {
                if !self.random_chance(path.loss) {
                    let delay = path.draw(&mut self.random);
                    self.schedule(delay, Action::Deliver { connection: far, message: message.clone() });
                }
                if self.random_chance(path.duplication) {
                    let delay = path.draw(&mut self.random);
                    self.schedule(delay, Action::Deliver { connection: far, message });
                }
            }
            Channel::Reliable { .. } => {
                let mut delay = path.draw(&mut self.random);
                while self.random_chance(path.loss) {
                    delay += path.delay * 3;
                }
                let at = (self.now + delay).max(self.connections[&end].ordered_until + path.time_of(message.len()));
                if let Some(connection) = self.connections.get_mut(&end) {
                    connection.ordered_until = at;
                }
                self.schedule_at(at, Action::Deliver { connection: far, message });
            }
        }
    }

    /// Over TCP, which begins slowly; everything comes in order.
    fn send_slowly(&mut self, end: ConnectionId, far: ConnectionId, message: bytes::Bytes) {
        let (Some(first), Some(connection)) = (self.first_window, self.connections.get(&end)) else { return };
        let delay = self.path_between(connection.host, connection.far_host).delay;
        if let Some(connection) = self.connections.get_mut(&end) {
            let at = connection.start.leaves(self.now, delay * 2, first, message.len()) + delay;
            connection.ordered_until = at;
            self.schedule_at(at, Action::Deliver { connection: far, message });
        }
    }

    /// To everybody else on the host's LANs: lost, doubled and delayed for each of them alone.
    fn fan_out(&mut self, from: HostId, message: &bytes::Bytes) {
        self.multicasts += 1;
        self.bytes += message.len() as u64;
        let others = self.lans.iter().filter(|lan| lan.contains(&from)).flatten().filter(|host| **host != from);
        for host in others.copied().collect::<Vec<_>>() {
            let copies =
                u32::from(!self.random_chance(self.path.loss)) + u32::from(self.random_chance(self.path.duplication));
            for _ in 0..copies {
                let (delay, message) = (self.path.draw(&mut self.random), message.clone());
                self.schedule(delay, Action::Hear { host, from, message });
            }
        }
    }

    pub(super) fn deliver_multicast(&mut self, host: HostId, from: HostId, message: bytes::Bytes) {
        if self.hosts[host.0].alive && self.reaches(from, host) {
            self.record_delivery(host, &message);
            let from = address(from.0, Scheme::Udp).hosts[0];
            self.feed(host, MachineInput::Multicast { from, message });
        }
    }

    fn random_chance(&mut self, per_mille: u32) -> bool {
        self.random.below(1000) < u64::from(per_mille)
    }

    pub(super) fn deliver(&mut self, connection: ConnectionId, message: bytes::Bytes) {
        let Some(entry) = self.connections.get(&connection).filter(|connection| connection.up) else { return };
        let (host, far_host) = (entry.host, entry.far_host);
        if !self.hosts[host.0].alive {
            return;
        }
        self.record_delivery(host, &message);
        if let Some(deliveries) = &mut self.deliveries {
            deliveries.push((far_host, host, message.clone()));
        }
        self.feed(host, MachineInput::Message { connection, message });
    }

    /// Adds to the run's fingerprint.
    fn record_delivery(&mut self, host: HostId, message: &[u8]) {
        self.trace.write_u128(self.now.as_nanos().into());
        self.trace.write_usize(host.0);
        self.trace.write(message);
        if let Some(corpus) = &mut self.corpus {
            corpus.push(bytes::Bytes::copy_from_slice(message));
        }
        if self.log {
            let text = Message::decode(message).map(|message| format!("{message:?}"));
            let text: String = text.unwrap_or_default().chars().take(150).collect();
            println!("{} → {} {text}", self.now, host.0);
        }
    }

    /// The fingerprint of all that was delivered so far.
    pub fn trace(&self) -> u64 {
        self.trace.finish()
    }

    fn dial(&mut self, from: HostId, dial: DialId, wanted: &[Address], expect: RoleSet, node: Option<NodeId>) {
        self.calls.extend(wanted.iter().map(|address| ((from, HostId(usize::from(address.port))), self.now)));
        let (addresses, until) = (wanted.to_vec(), self.now + self.dial_timeout);
        self.try_dial(PendingDial { from, dial, addresses, expect, node, until });
    }

    pub(super) fn try_dial(&mut self, pending: PendingDial) {
        let PendingDial { from, dial, ref addresses, expect, node, until } = pending;
        let listeners = || addresses.iter().filter_map(|address| self.listener(from, address, expect, node));
        let outcome = listeners().find(|(host, address)| self.lets_in(*host, from, address.scheme));
        let is_gated = listeners().next().is_some();
        let (delay, outcome) = match outcome {
            Some((host, _)) if self.bars(from, host) => {
                (self.path_between(from, host).delay * self.dial_ways, DialOutcome::Refused)
            }
            Some((host, address)) => {
                (self.path_between(from, host).delay * self.dial_ways, DialOutcome::To { host, address })
            }
            None if is_gated && self.now + RETRY < until => return self.schedule(RETRY, Action::Retry(pending)),
            None => (until.since(self.now), DialOutcome::Failed("nobody answers there")),
        };
        self.schedule(delay, Action::Answer { host: from, dial, outcome });
    }

    /// True if a host waits for what becomes of a dial.
    pub fn is_dialing(&self, host: HostId) -> bool {
        self.queue.values().any(|action| match action {
            Action::Answer { host: from, .. } | Action::Retry(PendingDial { from, .. }) => *from == host,
            _ => false,
        })
    }

    fn bars(&self, a: HostId, b: HostId) -> bool {
        let revokes = |a: HostId, b: HostId| self.hosts[a.0].list.revoked.contains(&b);
        self.barred.iter().any(|pair| *pair == (a, b) || *pair == (b, a)) || revokes(a, b) || revokes(b, a)
    }

    fn listener(
        &self,
        from: HostId,
        address: &Address,
        expect: RoleSet,
        node: Option<NodeId>,
    ) -> Option<(HostId, Address)> {
        let id = HostId(usize::from(address.port));
        let host = self.hosts.get(id.0)?;
        let wanted = node.is_none_or(|node| node == node_id(id.0));
        let reachable = host.alive && self.converses(from, id) && host.schemes.contains(address.scheme);
        (reachable && wanted && expect.contains(host.role)).then(|| (id, address.clone()))
    }

    /// True if a host's translator lets in another that dials it. A closed one has to have dialled as well, over
    /// a transport that begins from either end.
    fn lets_in(&self, host: HostId, from: HostId, scheme: Scheme) -> bool {
        let called = self.calls.get(&(host, from)).filter(|_| scheme != Scheme::Tcp);
        let was_called = called.is_some_and(|at| self.now.since(*at) < CALLED);
        let has_own_port = self.nats.get(&from) == Some(&Nat::Symmetric);
        match self.nats.get(&host) {
            None => true,
            Some(Nat::AddressFilter) => was_called,
            // Whom it called it called at the port that the hub sees.
            Some(Nat::PortFilter) => was_called && !has_own_port,
            // The port at which the hub sees it is for the hub.
            Some(Nat::Symmetric) => false,
        }
    }

    /// True if one host has ever dialled another one.
    pub fn has_dialed(&self, from: HostId, to: HostId) -> bool {
        self.calls.contains_key(&(from, to))
    }

    /// The handshake is over: both ends learn of the connection, the dialler
    /// half a round trip before the other.
    pub(super) fn answer(&mut self, from: HostId, dial: DialId, outcome: DialOutcome) {
        let DialOutcome::To { host, address } = outcome else {
            let (reason, refused) = match outcome {
                DialOutcome::Failed(reason) => (reason, false),
                _ => ("the remote refused our certificate because it was revoked", true),
            };
            return self.feed(from, MachineInput::DialFailed { dial, reason: reason.to_owned(), refused });
        };
        if !self.hosts[host.0].alive || !self.hosts[from.0].alive || !self.converses(from, host) {
            return self.feed(
                from,
                MachineInput::DialFailed { dial, reason: "nobody answers there".to_owned(), refused: false },
            );
        }
        let near = ConnectionId(self.next * 2);
        let far = ConnectionId(self.next * 2 + 1);
        self.next += 1;
        self.connections.insert(near, ConnectionEnd::new(from, host, far, address.scheme));
        self.connections
            .insert(far, ConnectionEnd { up: false, ..ConnectionEnd::new(host, from, near, address.scheme) });
        self.ends.entry(from).or_default().push(near);
        self.ends.entry(host).or_default().push(far);
        let delay = self.path_between(from, host).delay;
        self.schedule(delay / 2, Action::Arrive { connection: far });
        let input = MachineInput::ConnectionUp {
            connection: near,
            dial: Some(dial),
            remote: self.hosts[host.0].remote.clone(),
            address,
            rtt: delay * 2,
        };
        self.feed(from, input);
    }

    /// A host connects once more, with the certificate that it has now, and only the host there hears of it.
    pub fn connect_again(&mut self, from: HostId, to: HostId) {
        let (near, far) = (ConnectionId(self.next * 2), ConnectionId(self.next * 2 + 1));
        self.next += 1;
        self.connections.insert(near, ConnectionEnd::new(from, to, far, Scheme::Udp));
        self.connections.insert(far, ConnectionEnd::new(to, from, near, Scheme::Udp));
        self.arrive(far);
    }

    pub(super) fn arrive(&mut self, connection: ConnectionId) {
        let Some(entry) = self.connections.get_mut(&connection) else { return };
        entry.up = true;
        let (host, far, scheme) = (entry.host, entry.far_host, entry.scheme);
        let input = MachineInput::ConnectionUp {
            connection,
            dial: None,
            remote: self.hosts[far.0].remote.clone(),
            address: address(far.0, scheme),
            rtt: self.path_between(host, far).delay * 2,
        };
        self.feed(host, input);
    }

    /// The far end of `end` learns that it is gone, after all that was sent.
    pub(super) fn hang_up(&mut self, end: ConnectionId) {
        let Some(connection) = self.connections.get(&end) else { return };
        let delay = self.path_between(connection.host, connection.far_host).delay;
        let at = (self.now + delay).max(connection.ordered_until);
        let far = connection.far;
        self.schedule_at(at, Action::Down { connection: far });
    }

    pub(super) fn take_down(&mut self, connection: ConnectionId) {
        if let Some(entry) = self.connections.remove(&connection).filter(|connection| connection.up) {
            let refused = self.bars(entry.host, entry.far_host);
            let reason = if refused { "it was revoked" } else { "the other end has gone" }.to_owned();
            self.feed(entry.host, MachineInput::ConnectionDown { connection, reason, refused });
        }
    }
}
