//! A host: a machine, and the owner that it would have.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::LazyLock;
use std::time::Duration;

use bytes::Bytes;
use roost_core::hub::{self, Hub};
use roost_core::machine::{Input, Machine};
use roost_core::node::{Node, NodeCommand, NodeConfig, NodeEvent, NodeStatus, SessionId, SourceOutput, Ticket};
use roost_core::{Denial, DocumentVerdict, ReceivedDocument, Transmit};
use roost_wire::RemoteIdentity as Remote;
use roost_wire::{Address, ConnectionId, DialId, FlowKind, NodeId, Role, SchemeSet, Service, Time};

use super::documents::RevocationList;
use super::reflect::FakeRelay;
use super::remote;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostId(pub usize);

/// Inputs that every machine takes, whatever its commands.
pub enum MachineInput {
    ConnectionUp { connection: ConnectionId, dial: Option<DialId>, remote: Remote, address: Address, rtt: Duration },
    ConnectionDown { connection: ConnectionId, reason: String, refused: bool },
    DialFailed { dial: DialId, reason: String, refused: bool },
    Message { connection: ConnectionId, message: Bytes },
    Multicast { from: IpAddr, message: Bytes },
    Slept,
    WallClock(Duration),
    Timeout,
}

impl MachineInput {
    fn into_input<C>(self) -> Input<C> {
        match self {
            Self::ConnectionUp { connection, dial, remote, address, rtt } => {
                Input::ConnectionUp { connection, dial, remote, address, rtt }
            }
            Self::ConnectionDown { connection, reason, refused } => {
                Input::ConnectionDown { connection, reason, refused }
            }
            Self::DialFailed { dial, reason, refused } => Input::DialFailed { dial, reason, refused },
            Self::Message { connection, message } => Input::Message { connection, message },
            Self::Multicast { from, message } => Input::Multicast { from, message },
            Self::Slept => Input::HostSuspended,
            Self::WallClock(unix) => Input::WallClock(unix),
            Self::Timeout => Input::Timeout,
        }
    }
}

pub struct Host {
    pub remote: Remote,
    pub role: Role,
    pub alive: bool,
    /// The host's clock is ahead of the world's by so much.
    pub ahead: Duration,
    /// The transports over which it can be dialled.
    pub schemes: SchemeSet,
    pub events: Vec<(Time, NodeEvent)>,
    /// Attempts of remotes that the policy of the host does not allow.
    pub denials: Vec<Denial>,
    pub refusals: Vec<String>,
    /// Every `Open` that the machine asked for.
    pub opened: Vec<(SessionId, Service, NodeId)>,
    pub broken_source: bool,
    /// The words with which the host's programs decline, if they do.
    pub declining: Option<roost_wire::messages::Sentence>,
    /// The host's sources do not answer: a test opens them.
    pub slow_source: bool,
    /// The size of its objects, if not the service's.
    pub object_bytes: Option<usize>,
    /// Objects lie elsewhere and are read piece by piece.
    pub reads_objects: bool,
    /// Bytes of objects that wait: the host's reader takes nothing for the moment.
    pub unread: Option<BTreeMap<Ticket, u64>>,
    pub woken_for: Option<Time>,
    /// The revocation list that the owner has in force.
    pub list: RevocationList,
    /// Number of the list whose members it has shut out.
    applied: u64,
    /// Stands for the host's relay.
    pub media: FakeRelay,
    /// The object that was opened last.
    pub stored: Bytes,
    machine: Inner,
    sources: BTreeMap<SessionId, StreamSource>,
    next_ticket: u64,
}

enum Inner {
    Node(Box<Node>),
    Hub(Box<Hub>),
}

/// A stream's source.
pub struct StreamSource {
    until: Time,
    pause: Duration,
    bytes: usize,
    count: u64,
}

impl Host {
    pub fn node(number: usize, config: NodeConfig) -> Self {
        Self::new(number, Role::Node, Inner::Node(Box::new(Node::new(config))))
    }

    pub fn hub(number: usize, role: Role, machine: Hub) -> Self {
        Self::new(number, role, Inner::Hub(Box::new(machine)))
    }

    fn new(number: usize, role: Role, machine: Inner) -> Self {
        Self {
            remote: remote(number, role),
            role,
            alive: true,
            ahead: Duration::ZERO,
            schemes: SchemeSet::ALL,
            events: Vec::new(),
            denials: Vec::new(),
            refusals: Vec::new(),
            opened: Vec::new(),
            broken_source: false,
            declining: None,
            slow_source: false,
            object_bytes: None,
            reads_objects: false,
            unread: None,
            stored: Bytes::new(),
            woken_for: None,
            list: RevocationList::default(),
            applied: 0,
            media: FakeRelay::default(),
            machine,
            sources: BTreeMap::new(),
            next_ticket: 0,
        }
    }

    pub fn ticket(&mut self) -> Ticket {
        self.next_ticket += 1;
        Ticket(self.next_ticket)
    }

    pub fn command(&mut self, now: Time, command: NodeCommand) {
        if let Inner::Node(node) = &mut self.machine {
            node.handle(now + self.ahead, Input::Command(command));
        }
    }

    pub fn command_hub(&mut self, now: Time, command: hub::HubCommand) {
        if let Inner::Hub(hub) = &mut self.machine {
            hub.handle(now + self.ahead, Input::Command(command));
        }
    }

    /// Takes a list from its operator. True if the machine has heard of it.
    pub fn publish_list(&mut self, now: Time, bytes: Bytes) -> bool {
        let received = ReceivedDocument { kind: super::World::list_kind(), bytes, from: self.remote.node };
        let DocumentVerdict::Verified { kind, number, bytes, .. } = self.list.judge(received) else { return false };
        let verdict = DocumentVerdict::Verified { kind, number, bytes, from: None };
        self.command(now, NodeCommand::Document(verdict.clone()));
        self.command_hub(now, hub::HubCommand::Document(verdict));
        true
    }

    /// The members of a list that has come into force.
    pub fn take_newly_revoked(&mut self) -> Vec<HostId> {
        let is_new = std::mem::replace(&mut self.applied, self.list.number) < self.list.number;
        if is_new { self.list.revoked.clone() } else { Vec::new() }
    }

    pub fn handle(&mut self, now: Time, input: MachineInput) {
        let now = now + self.ahead;
        match &mut self.machine {
            Inner::Node(node) => node.handle(now, input.into_input()),
            Inner::Hub(hub) => hub.handle(now, input.into_input()),
        }
    }

    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        match &mut self.machine {
            Inner::Node(node) => node.poll_transmit(),
            Inner::Hub(hub) => hub.poll_transmit(),
        }
    }

    pub fn deadline(&self) -> Option<Time> {
        let at = match &self.machine {
            Inner::Node(node) => node.poll_deadline()?.at,
            Inner::Hub(hub) => hub.poll_deadline()?.at,
        };
        Some(Time::ZERO + at.since(Time::ZERO + self.ahead))
    }

    pub fn status(&self, now: Time) -> Option<NodeStatus> {
        match &self.machine {
            Inner::Node(node) => Some(node.status(now + self.ahead)),
            Inner::Hub(_) => None,
        }
    }

    pub fn as_hub(&self) -> Option<&Hub> {
        match &self.machine {
            Inner::Hub(hub) => Some(hub),
            Inner::Node(_) => None,
        }
    }

    /// Takes the machine's events and does what an owner does. Returns the
    /// streams that were started, with the time to their first datagram; `None`
    /// if there were no events.
    pub fn settle_events(&mut self, now: Time) -> Option<Vec<(SessionId, Duration)>> {
        let node = match &mut self.machine {
            Inner::Node(node) => node,
            Inner::Hub(hub) => {
                let mut has_judged = false;
                while let Some(event) = hub.poll_event() {
                    match event {
                        hub::HubEvent::Document(received) => {
                            let verdict = self.list.judge(received);
                            hub.handle(now + self.ahead, Input::Command(hub::HubCommand::Document(verdict)));
                            has_judged = true;
                        }
                        hub::HubEvent::Reflect(grant) => self.media.grants.push(grant),
                        hub::HubEvent::Left => self.media.left = true,
                        hub::HubEvent::Denied(denial) => self.denials.push(denial),
                        hub::HubEvent::Refused { what, .. } => self.refusals.push(what.into_owned()),
                        _ => {}
                    }
                }
                return has_judged.then(Vec::new);
            }
        };
        let mut fresh = Vec::new();
        while let Some(event) = node.poll_event() {
            fresh.push(event);
        }
        if fresh.is_empty() {
            return None;
        }
        let mut started = Vec::new();
        for event in fresh {
            match &event {
                NodeEvent::Denied(denial) => self.denials.push(denial.clone()),
                NodeEvent::OpenSource { session, request, requester, reflected, .. } => {
                    self.opened.push((*session, request.service, *requester));
                    let gives_none = self.broken_source || self.declining.is_some();
                    if (!*reflected || gives_none) && !self.slow_source {
                        started.extend(self.open(now, *session, request.service, request.duration));
                    }
                }
                NodeEvent::CloseSource { session, .. } => {
                    self.sources.remove(session);
                }
                NodeEvent::ReadObject { session, offset, length, .. } => {
                    let from = *offset as usize;
                    let bytes = self.stored.slice(from..from + *length as usize);
                    self.command(now, NodeCommand::ObjectRead { session: *session, offset: *offset, bytes });
                }
                NodeEvent::Data { ticket, payload } => {
                    let (ticket, bytes) = (*ticket, payload.len() as u64);
                    match &mut self.unread {
                        Some(unread) => *unread.entry(ticket).or_default() += bytes,
                        None => self.command(now, NodeCommand::Consumed { ticket, bytes }),
                    }
                }
                NodeEvent::Document(received) => {
                    let verdict = self.list.judge(received.clone());
                    self.command(now, NodeCommand::Document(verdict));
                }
                _ => {}
            }
            let gives_none = self.broken_source || self.declining.is_some();
            if let Some(command) = self.media.handle_event(now, self.remote.node, &event).filter(|_| !gives_none) {
                self.command(now, command);
            }
            self.events.push((now, event));
        }
        Some(started)
    }

    fn open(
        &mut self,
        now: Time,
        session: SessionId,
        service: Service,
        duration: Option<Duration>,
    ) -> Option<(SessionId, Duration)> {
        if let Some(sentence) = self.declining.clone() {
            self.command(now, NodeCommand::SourceDeclined { session, sentence });
            return None;
        }
        if self.broken_source {
            self.command(now, NodeCommand::SourceFailed { session, reason: "no camera".to_owned() });
            return None;
        }
        match service.flow_kind() {
            FlowKind::Stream { bits_per_second, packet_bytes } => {
                let pause = Duration::from_micros(u64::from(packet_bytes) * 8_000_000 / u64::from(bits_per_second));
                let until = now + duration.unwrap();
                self.sources.insert(session, StreamSource { until, pause, bytes: packet_bytes as usize, count: 0 });
                let opened = SourceOutput::Stream { bits_per_second, format: "synthetic".to_owned() };
                self.command(now, NodeCommand::SourceOpened { session, opened });
                Some((session, Duration::ZERO))
            }
            FlowKind::Object { bytes } => {
                let size = self.object_bytes.unwrap_or(bytes as usize);
                let (bytes, format) = (object(size), "synthetic".to_owned());
                self.stored = bytes.clone();
                let digest = roost_wire::object::digest(&bytes);
                let opened = if self.reads_objects {
                    SourceOutput::Stored { length: size as u64, digest, format }
                } else {
                    SourceOutput::Object { bytes, digest, format }
                };
                self.command(now, NodeCommand::SourceOpened { session, opened });
                None
            }
        }
    }

    /// The next datagram of a stream; returns the time to the one after it.
    pub fn tick(&mut self, now: Time, session: SessionId) -> Option<Duration> {
        let source = self.sources.get_mut(&session)?;
        if now >= source.until {
            self.sources.remove(&session);
            self.command(now, NodeCommand::SourceEnded { session });
            return None;
        }
        let mut payload = vec![source.count as u8; source.bytes];
        payload[..8].copy_from_slice(&source.count.to_be_bytes());
        // A stream may go on as another session, here or at another provider, whose source begins anew.
        payload[8..16].copy_from_slice(&session.0.to_be_bytes());
        payload[16..20].copy_from_slice(&self.remote.node.as_bytes()[..4]);
        source.count += 1;
        let pause = source.pause;
        self.command(now, NodeCommand::Data { session, payload: payload.into() });
        Some(pause)
    }

    /// Takes so many bytes of what waits to be read.
    pub fn read(&mut self, now: Time, ticket: Ticket, bytes: u64) {
        let waiting = self.unread.as_mut().and_then(|unread| unread.get_mut(&ticket));
        let bytes = waiting.map_or(0, |waiting| {
            let taken = bytes.min(*waiting);
            *waiting -= taken;
            taken
        });
        self.command(now, NodeCommand::Consumed { ticket, bytes });
    }

    /// The event that ended a ticket.
    pub fn ending(&self, ticket: Ticket) -> Option<&NodeEvent> {
        self.endings(ticket).next()
    }

    /// All events that end a ticket: there must never be two.
    pub fn endings(&self, ticket: Ticket) -> impl Iterator<Item = &NodeEvent> {
        self.events.iter().map(|(_, event)| event).filter(move |event| match event {
            NodeEvent::Finished { ticket: of, .. }
            | NodeEvent::Failed { ticket: of, .. }
            | NodeEvent::LookupResult { ticket: of, .. }
            | NodeEvent::Pushed { ticket: of, .. }
            | NodeEvent::Pong { ticket: of, .. } => *of == ticket,
            _ => false,
        })
    }

    /// The payloads that a ticket has delivered, one by one.
    pub fn payloads(&self, ticket: Ticket) -> impl Iterator<Item = &Bytes> {
        self.events.iter().filter_map(move |(_, event)| match event {
            NodeEvent::Data { ticket: of, payload } if *of == ticket => Some(payload),
            _ => None,
        })
    }

    pub fn delivered(&self, ticket: Ticket) -> Vec<u8> {
        self.payloads(ticket).map(|payload| &payload[..]).collect::<Vec<_>>().concat()
    }
}

/// An object of `size` bytes, at most 32 MB, that repeats nothing for a while.
pub fn object(size: usize) -> Bytes {
    const PERIOD: usize = 251 * 256;
    static BYTES: LazyLock<Bytes> =
        LazyLock::new(|| (0..PERIOD).map(|n| (n * 31 + n / 251) as u8).collect::<Vec<_>>().repeat(512).into());
    BYTES.slice(..size)
}
