//! A machine with the parts of its daemon, in virtual time.

use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::time::Duration;

use bytes::Bytes;
use roost_core::flow::MAX_STREAM_DURATION;
use roost_core::hub::{self, Hub, HubEvent};
use roost_core::machine::{Input, Machine as _};
use roost_core::node::{self, Node, NodeCommand, NodeEvent, SessionId, SourceOutput, Ticket};
use roost_core::{Deadline, Transmit};
use roost_reflection::{HubInput, HubOutput, HubReflection, NodeInput};
use roost_wire::{FlowKind, Service, StreamId, Time};

use super::connections::MachineInput;
use super::media::{MediaDatagram, MediaOutput, MediaPort, NodeMedia};

/// The data of synthetic services. Its content is irrelevant, but it is digested.
static PAYLOAD: LazyLock<Bytes> = LazyLock::new(|| Bytes::from(vec![0x5a; 128 * 1024]));

/// A node or a hub, with the sources of its streams.
pub(super) struct Machine {
    inner: NodeOrHub,
    sources: BTreeMap<SessionId, SimSource>,
}

/// A machine with its part of reflection, if the plan has reflected streams.
enum NodeOrHub {
    Node { node: Box<Node>, media: Option<Box<NodeMedia>> },
    Hub { hub: Box<Hub>, media: Option<Box<MediaPort<HubReflection>>> },
}

#[derive(Debug)]
struct SimSource {
    until: Time,
    pause: Duration,
    bytes: usize,
    /// The reflected stream that it feeds; without one the node's machine takes its datagrams.
    stream: Option<StreamId>,
}

/// An output of a machine for its world to carry out.
#[derive(Debug)]
pub(super) enum MachineOutput {
    Transmit(Transmit),
    /// A datagram of its media port.
    Datagram(MediaDatagram),
    Event(NodeEvent),
    /// The next datagram of a source is due at this time.
    Tick(SessionId, Time),
    Left,
}

impl Machine {
    pub(super) fn node(config: node::NodeConfig, media: Option<NodeMedia>) -> Self {
        let (node, media) = (Box::new(Node::new(config)), media.map(Box::new));
        Self { inner: NodeOrHub::Node { node, media }, sources: BTreeMap::new() }
    }

    pub(super) fn hub(config: hub::HubConfig, media: Option<MediaPort<HubReflection>>) -> Self {
        let (hub, media) = (Box::new(Hub::new(config)), media.map(Box::new));
        Self { inner: NodeOrHub::Hub { hub, media }, sources: BTreeMap::new() }
    }

    pub(super) fn as_node(&self) -> Option<&Node> {
        match &self.inner {
            NodeOrHub::Node { node, .. } => Some(node),
            NodeOrHub::Hub { .. } => None,
        }
    }

    pub(super) fn as_hub(&self) -> Option<&Hub> {
        match &self.inner {
            NodeOrHub::Node { .. } => None,
            NodeOrHub::Hub { hub, .. } => Some(hub),
        }
    }

    /// Packets of a request's reflected stream that never came.
    pub(super) fn missing_packets(&self, ticket: Ticket) -> Option<u64> {
        match &self.inner {
            NodeOrHub::Node { media, .. } => media.as_ref()?.missing_packets(ticket),
            NodeOrHub::Hub { .. } => None,
        }
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        let (machine, media) = match &self.inner {
            NodeOrHub::Node { node, media } => {
                (node.poll_deadline(), media.as_ref().and_then(|media| media.port.deadline()))
            }
            NodeOrHub::Hub { hub, media } => (hub.poll_deadline(), media.as_ref().and_then(|media| media.deadline())),
        };
        [machine.map(|deadline| deadline.at), media].into_iter().flatten().min()
    }

    pub(super) fn handle_input(&mut self, now: Time, news: MachineInput) {
        match (&mut self.inner, news) {
            (NodeOrHub::Node { media, .. }, MachineInput::Datagram { from, content }) => {
                media.iter_mut().for_each(|media| media.port.handle_datagram(now, from, &content));
            }
            (NodeOrHub::Hub { media, .. }, MachineInput::Datagram { from, content }) => {
                media.iter_mut().for_each(|media| media.handle_datagram(now, from, &content));
            }
            (NodeOrHub::Node { node, .. }, news) => input(news).into_iter().for_each(|input| node.handle(now, input)),
            (NodeOrHub::Hub { hub, .. }, news) => input(news).into_iter().for_each(|input| hub.handle(now, input)),
        }
    }

    /// The machine's deadline has come.
    pub(super) fn wake(&mut self, now: Time) {
        let is_due = |deadline: Option<Deadline>| deadline.is_some_and(|deadline| deadline.at <= now);
        match &mut self.inner {
            NodeOrHub::Node { node, media } => {
                if is_due(node.poll_deadline()) {
                    node.handle(now, Input::Timeout);
                }
                media.iter_mut().for_each(|media| media.port.handle_timeout(now));
            }
            NodeOrHub::Hub { hub, media } => {
                if is_due(hub.poll_deadline()) {
                    hub.handle(now, Input::Timeout);
                }
                media.iter_mut().for_each(|media| media.handle_timeout(now));
            }
        }
    }

    pub(super) fn command(&mut self, now: Time, command: NodeCommand) {
        if let NodeOrHub::Node { node, .. } = &mut self.inner {
            node.handle(now, Input::Command(command));
        }
    }

    pub(super) fn leave(&mut self, now: Time) {
        match &mut self.inner {
            NodeOrHub::Node { node, .. } => node.handle(now, Input::Command(NodeCommand::Leave)),
            NodeOrHub::Hub { hub, media } => {
                hub.handle(now, Input::Command(hub::HubCommand::Leave));
                media.iter_mut().for_each(|media| media.handle_input(now, HubInput::Leave));
            }
        }
    }

    /// Returns the machine's next output; those that only concern its sources are handled here.
    pub(super) fn poll(&mut self, now: Time) -> Option<MachineOutput> {
        match &mut self.inner {
            NodeOrHub::Hub { hub, media } => poll_hub(now, hub, media.as_deref_mut()),
            NodeOrHub::Node { .. } => self.poll_node(now),
        }
    }

    fn poll_node(&mut self, now: Time) -> Option<MachineOutput> {
        loop {
            let NodeOrHub::Node { node, media } = &mut self.inner else { return None };
            if let Some(transmit) = node.poll_transmit() {
                return Some(MachineOutput::Transmit(transmit));
            }
            let Some(event) = node.poll_event() else {
                let media = media.as_deref_mut()?;
                match media.poll(now) {
                    Some(MediaOutput::Command(command)) => self.command(now, command),
                    Some(MediaOutput::Event(event)) => return Some(MachineOutput::Event(event)),
                    None => return media.port.poll_datagram(now).map(MachineOutput::Datagram),
                }
                continue;
            };
            let output = match media {
                Some(media) => media.handle_event(now, event),
                None => Some(MediaOutput::Event(event)),
            };
            match output {
                Some(MediaOutput::Command(command)) => self.command(now, command),
                Some(MediaOutput::Event(event)) => {
                    if let Some(output) = self.handle_event(now, event) {
                        return Some(output);
                    }
                }
                None => {}
            }
        }
    }

    /// Acts on an event of the node for its owner; the output that follows, if any.
    fn handle_event(&mut self, now: Time, event: NodeEvent) -> Option<MachineOutput> {
        match event {
            NodeEvent::Left => Some(MachineOutput::Left),
            NodeEvent::OpenSource { session, request, reflected, .. } => {
                match reflected {
                    true => self.publish(now, session, request.service),
                    false => self.open(now, session, request.service, request.duration.unwrap_or_default()),
                }
                // The consequences come next.
                Some(MachineOutput::Tick(session, now))
            }
            NodeEvent::CloseSource { session, .. } => {
                self.sources.remove(&session);
                if let NodeOrHub::Node { media: Some(media), .. } = &mut self.inner {
                    media.port.handle_input(now, NodeInput::Unpublish { session });
                }
                None
            }
            NodeEvent::Data { ticket, payload } => {
                // The requester reads at once.
                self.command(now, NodeCommand::Consumed { ticket, bytes: payload.len() as u64 });
                Some(MachineOutput::Event(NodeEvent::Data { ticket, payload }))
            }
            event => Some(MachineOutput::Event(event)),
        }
    }

    /// Starts the source of a session, like the synthetic services of a node.
    fn open(&mut self, now: Time, session: SessionId, service: Service, duration: Duration) {
        let format = service.name().to_owned();
        let opened = match service.flow_kind() {
            FlowKind::Stream { bits_per_second, packet_bytes } => {
                let pause = pause(packet_bytes, bits_per_second);
                let source = SimSource { until: now + duration, pause, bytes: packet_bytes as usize, stream: None };
                self.sources.insert(session, source);
                SourceOutput::Stream { bits_per_second, format }
            }
            FlowKind::Object { bytes } => {
                let bytes = PAYLOAD.slice(..bytes as usize);
                SourceOutput::Object { digest: roost_wire::object::digest(&bytes), bytes, format }
            }
        };
        self.command(now, NodeCommand::SourceOpened { session, opened });
    }

    /// Starts the source of a session whose stream is reflected, for as long as the session lasts.
    fn publish(&mut self, now: Time, session: SessionId, service: Service) {
        let NodeOrHub::Node { media: Some(media), .. } = &mut self.inner else { return };
        let FlowKind::Stream { bits_per_second, packet_bytes } = service.flow_kind() else { return };
        let stream = media.publish(now, session, (bits_per_second, service.name().to_owned()));
        let (until, pause) = (now + MAX_STREAM_DURATION, pause(packet_bytes, bits_per_second));
        self.sources.insert(session, SimSource { until, pause, bytes: packet_bytes as usize, stream });
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
        match (source.stream, &mut self.inner) {
            (Some(stream), NodeOrHub::Node { media: Some(media), .. }) => {
                media.port.handle_input(now, NodeInput::Payload { stream, payload });
            }
            _ => self.command(now, NodeCommand::Data { session, payload }),
        }
        Some(next)
    }
}

/// The next thing that a hub wants, or its relay.
fn poll_hub(now: Time, hub: &mut Hub, mut media: Option<&mut MediaPort<HubReflection>>) -> Option<MachineOutput> {
    loop {
        if let Some(transmit) = hub.poll_transmit() {
            return Some(MachineOutput::Transmit(transmit));
        }
        match hub.poll_event() {
            Some(HubEvent::Left) => return Some(MachineOutput::Left),
            Some(HubEvent::Reflect(grant)) => {
                media.iter_mut().for_each(|media| media.handle_input(now, HubInput::Grant(grant)));
                continue;
            }
            // All else that a hub tells concerns nobody here.
            Some(_) => continue,
            None => {}
        }
        let media = media.as_deref_mut()?;
        match media.poll_output(now) {
            Some(HubOutput::Command(command)) => hub.handle(now, Input::Command(command)),
            Some(_) => {}
            None => return media.poll_datagram(now).map(MachineOutput::Datagram),
        }
    }
}

/// The time from one datagram to the next.
fn pause(packet_bytes: u32, bits_per_second: u32) -> Duration {
    Duration::from_nanos(u64::from(packet_bytes) * 8_000_000_000 / u64::from(bits_per_second))
}

/// The input of a machine; `None` for a datagram of its media port.
fn input<C>(news: MachineInput) -> Option<Input<C>> {
    Some(match news {
        MachineInput::Up { connection, dial, remote, address, rtt } => {
            Input::ConnectionUp { connection, dial, remote, address, rtt }
        }
        MachineInput::Down { connection, reason } => Input::ConnectionDown { connection, reason, refused: false },
        MachineInput::Unreachable { dial, reason } => Input::DialFailed { dial, reason, refused: false },
        MachineInput::Message { connection, message } => Input::Message { connection, message },
        MachineInput::Multicast { from, message } => Input::Multicast { from, message },
        MachineInput::Datagram { .. } => return None,
    })
}
