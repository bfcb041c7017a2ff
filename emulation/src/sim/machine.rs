//! A machine with the parts of its daemon, in virtual time.

use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::time::Duration;

use bytes::Bytes;
use roost_proto::hub::{self, Hub};
use roost_proto::machine::{Input, Machine as _};
use roost_proto::node::{self, Node, NodeCommand, NodeEvent, SessionId, SourceOutput};
use roost_proto::service::FlowKind;
use roost_proto::{Deadline, Service, Time, Transmit};

use super::connections::MachineInput;

/// The data of synthetic services. Its content is irrelevant, but it is digested.
static PAYLOAD: LazyLock<Bytes> = LazyLock::new(|| Bytes::from(vec![0x5a; 128 * 1024]));

/// A node or a hub, with the sources of its streams.
pub(super) struct Machine {
    inner: NodeOrHub,
    sources: BTreeMap<SessionId, SimSource>,
}

enum NodeOrHub {
    Node(Box<Node>),
    Hub(Box<Hub>),
}

#[derive(Debug)]
struct SimSource {
    until: Time,
    pause: Duration,
    bytes: usize,
}

/// An output of a machine for its world to carry out.
#[derive(Debug)]
pub(super) enum MachineOutput {
    Transmit(Transmit),
    Event(NodeEvent),
    /// The next datagram of a source is due at this time.
    Tick(SessionId, Time),
    Left,
}

impl Machine {
    pub(super) fn node(config: node::NodeConfig) -> Self {
        Self { inner: NodeOrHub::Node(Box::new(Node::new(config))), sources: BTreeMap::new() }
    }

    pub(super) fn hub(config: hub::HubConfig) -> Self {
        Self { inner: NodeOrHub::Hub(Box::new(Hub::new(config))), sources: BTreeMap::new() }
    }

    pub(super) fn as_node(&self) -> Option<&Node> {
        match &self.inner {
            NodeOrHub::Node(node) => Some(node),
            NodeOrHub::Hub(_) => None,
        }
    }

    pub(super) fn as_hub(&self) -> Option<&Hub> {
        match &self.inner {
            NodeOrHub::Node(_) => None,
            NodeOrHub::Hub(hub) => Some(hub),
        }
    }

    pub(super) fn deadline(&self) -> Option<Deadline> {
        match &self.inner {
            NodeOrHub::Node(node) => node.poll_deadline(),
            NodeOrHub::Hub(hub) => hub.poll_deadline(),
        }
    }

    pub(super) fn handle_input(&mut self, now: Time, news: MachineInput) {
        match &mut self.inner {
            NodeOrHub::Node(node) => node.handle(now, input(news)),
            NodeOrHub::Hub(hub) => hub.handle(now, input(news)),
        }
    }

    pub(super) fn wake(&mut self, now: Time) {
        match &mut self.inner {
            NodeOrHub::Node(node) => node.handle(now, Input::Timeout),
            NodeOrHub::Hub(hub) => hub.handle(now, Input::Timeout),
        }
    }

    pub(super) fn command(&mut self, now: Time, command: NodeCommand) {
        if let NodeOrHub::Node(node) = &mut self.inner {
            node.handle(now, Input::Command(command));
        }
    }

    pub(super) fn leave(&mut self, now: Time) {
        match &mut self.inner {
            NodeOrHub::Node(node) => node.handle(now, Input::Command(NodeCommand::Leave)),
            NodeOrHub::Hub(hub) => hub.handle(now, Input::Command(hub::HubCommand::Leave)),
        }
    }

    /// Returns the machine's next output; those that only concern its sources are handled here.
    pub(super) fn poll(&mut self, now: Time) -> Option<MachineOutput> {
        match &mut self.inner {
            NodeOrHub::Hub(hub) => {
                if let Some(transmit) = hub.poll_transmit() {
                    return Some(MachineOutput::Transmit(transmit));
                }
                // Of a hub's events only its departure matters here.
                std::iter::from_fn(|| hub.poll_event())
                    .find(|event| *event == hub::HubEvent::Left)
                    .map(|_| MachineOutput::Left)
            }
            NodeOrHub::Node(node) => {
                if let Some(transmit) = node.poll_transmit() {
                    return Some(MachineOutput::Transmit(transmit));
                }
                match node.poll_event()? {
                    NodeEvent::Left => Some(MachineOutput::Left),
                    NodeEvent::OpenSource { session, service, duration, .. } => {
                        self.open(now, session, service, duration.unwrap_or_default());
                        // Its consequences come next.
                        Some(MachineOutput::Tick(session, now))
                    }
                    NodeEvent::CloseSource { session, .. } => {
                        self.sources.remove(&session);
                        self.poll(now)
                    }
                    NodeEvent::Data { ticket, payload } => {
                        // The requester reads at once.
                        self.command(now, NodeCommand::Consumed { ticket, bytes: payload.len() as u64 });
                        Some(MachineOutput::Event(NodeEvent::Data { ticket, payload }))
                    }
                    event => Some(MachineOutput::Event(event)),
                }
            }
        }
    }

    /// Starts the source of a session, like the synthetic services of a node.
    fn open(&mut self, now: Time, session: SessionId, service: Service, duration: Duration) {
        let format = service.name().to_owned();
        let opened = match service.flow_kind() {
            FlowKind::Stream { bits_per_second, packet_bytes } => {
                let pause = Duration::from_nanos(u64::from(packet_bytes) * 8_000_000_000 / u64::from(bits_per_second));
                let source = SimSource { until: now + duration, pause, bytes: packet_bytes as usize };
                self.sources.insert(session, source);
                SourceOutput::Stream { bits_per_second, format }
            }
            FlowKind::Object { bytes } => {
                let bytes = PAYLOAD.slice(..bytes as usize);
                SourceOutput::Object { digest: roost_proto::flow::digest(&bytes), bytes, format }
            }
        };
        self.command(now, NodeCommand::SourceOpened { session, opened });
    }

    /// Sends the next datagram of a source, or its end; returns the due time of the following one.
    pub(super) fn tick(&mut self, now: Time, session: SessionId) -> Option<Time> {
        let source = self.sources.get(&session)?;
        if now >= source.until {
            self.sources.remove(&session);
            self.command(now, NodeCommand::SourceEnded { session });
            return None;
        }
        let next = (now + source.pause).min(source.until);
        let payload = PAYLOAD.slice(..source.bytes);
        self.command(now, NodeCommand::Data { session, payload });
        Some(next)
    }
}

fn input<C>(news: MachineInput) -> Input<C> {
    match news {
        MachineInput::Up { connection, dial, remote: peer, address, rtt } => {
            Input::ConnectionUp { connection, dial, remote: peer, address, rtt }
        }
        MachineInput::Down { connection, reason } => Input::ConnectionDown { connection, reason, refused: false },
        MachineInput::Unreachable { dial, reason } => Input::DialFailed { dial, reason, refused: false },
        MachineInput::Message { connection, message } => Input::Message { connection, message },
        MachineInput::Multicast { from, message } => Input::Multicast { from, message },
    }
}
