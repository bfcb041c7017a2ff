//! Reflection in virtual time: the machines that the daemons give a thread and a socket.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

use bytes::Bytes;
use roost_core::node::{NodeCommand, NodeEvent, SessionId, SourceOutput, Ticket};
use roost_reflection::keys::{AnnouncedKey, KeySealer, draw_stream};
use roost_reflection::publication::{NewPublication, OpaqueMarker};
use roost_reflection::relay::RelayConfig;
use roost_reflection::subscription::{Reception, RequestReception};
use roost_reflection::{
    DatagramPath, HubReflection, NodeInput, NodeOutput, NodeReflection, ReflectionMachine, SendOutcome,
};
use roost_wire::random::SplitMix64;
use roost_wire::{NodeId, StreamId, Time};

/// The layers of super nodes that reflect, as a super node has them by default.
pub(super) const LAYERS: u8 = 1;

/// A datagram of a media port.
#[derive(Debug)]
pub(super) struct MediaDatagram {
    pub(super) to: SocketAddr,
    pub(super) content: Bytes,
}

/// A machine's media port: nothing is in its way.
pub(super) struct MediaPort<M> {
    machine: M,
    /// The datagrams of the last transmit.
    outgoing: VecDeque<MediaDatagram>,
}

impl<M: ReflectionMachine> MediaPort<M> {
    fn new(machine: M) -> Self {
        Self { machine, outgoing: VecDeque::new() }
    }

    pub(super) fn handle_input(&mut self, now: Time, input: M::Input) {
        self.machine.handle_input(now, input);
    }

    pub(super) fn handle_datagram(&mut self, now: Time, from: SocketAddr, content: &[u8]) {
        self.machine.handle_datagram(now, DatagramPath::from(from), content);
    }

    pub(super) fn handle_timeout(&mut self, now: Time) {
        self.machine.handle_timeout(now);
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        self.machine.poll_deadline()
    }

    pub(super) fn poll_output(&mut self, now: Time) -> Option<M::Output> {
        self.machine.poll_output(now)
    }

    /// The next datagram to send, after all outputs.
    pub(super) fn poll_datagram(&mut self, now: Time) -> Option<MediaDatagram> {
        if self.outgoing.is_empty() {
            self.machine.end_batch(now);
            let transmit = self.machine.poll_transmit(now)?;
            let (to, whole) = (transmit.to, Bytes::copy_from_slice(&transmit.contents));
            let starts = (0..whole.len()).step_by(transmit.segment.max(1));
            let parts = starts.map(|start| whole.slice(start..whole.len().min(start + transmit.segment)));
            self.outgoing.extend(parts.map(|content| MediaDatagram { to, content }));
            let sent = u32::try_from(self.outgoing.len()).unwrap_or(u32::MAX);
            self.machine.record_outcome(now, &transmit, SendOutcome { sent, ..SendOutcome::default() });
        }
        self.outgoing.pop_front()
    }
}

/// A hub's part of reflection, as its daemon starts it.
pub(super) fn hub_media(seed: u64) -> MediaPort<HubReflection> {
    MediaPort::new(HubReflection::new(RelayConfig::for_layers(LAYERS), secret_bytes(seed)))
}

/// A consequence for the node's machine, or for its owner.
#[allow(clippy::large_enum_variant, reason = "commands are few, and moved once")]
pub(super) enum MediaOutput {
    Command(NodeCommand),
    Event(NodeEvent),
}

/// A node's part of reflection, as its daemon starts it.
pub(super) struct NodeMedia {
    pub(super) port: MediaPort<NodeReflection>,
    node: NodeId,
    secrets: SplitMix64,
    /// `None` if its stream keys are not left with hubs.
    sealer: Option<KeySealer>,
    requests: BTreeMap<Ticket, RequestReception>,
    /// Sources whose streams are about to begin.
    opening: BTreeMap<SessionId, SourceOutput>,
}

impl NodeMedia {
    /// The part of `node` in the group with this key; without one it seals nothing.
    pub(super) fn new(node: NodeId, seed: u64, group_key: Option<u64>) -> Self {
        let mut epochs = SplitMix64::new(seed ^ 0xe9);
        let secrets = Box::new(move |bytes: &mut [u8]| fill(&mut epochs, bytes));
        Self {
            port: MediaPort::new(NodeReflection::new(RelayConfig::default(), secret_bytes(seed), secrets)),
            node,
            secrets: SplitMix64::new(seed ^ 0x5e),
            sealer: group_key.map(|key| KeySealer::new(node, secret_bytes(key))),
            requests: BTreeMap::new(),
            opening: BTreeMap::new(),
        }
    }

    /// Begins the stream of a source. Returns its number.
    pub(super) fn publish(&mut self, now: Time, session: SessionId, (rate, format): (u32, String)) -> Option<StreamId> {
        let Self { node, secrets, .. } = self;
        let (stream, key) = draw_stream(&mut |bytes: &mut [u8]| fill(secrets, bytes), *node, unix_s(now))?;
        let AnnouncedKey { epoch, secret } = key.clone();
        let opened = SourceOutput::Reflected { bits_per_second: rate, format, stream, epoch, secret };
        self.opening.insert(session, opened);
        let marker = Box::new(OpaqueMarker::default());
        self.port.handle_input(now, NodeInput::Publish(NewPublication { session, stream, key, marker }));
        Some(stream)
    }

    /// Takes an event of the node's machine. Returns the event for the owner, or a command for the machine, if there
    /// is one.
    pub(super) fn handle_event(&mut self, now: Time, event: NodeEvent) -> Option<MediaOutput> {
        if let Some(input) = NodeInput::from_event(&event) {
            if let NodeInput::Expect { ticket, .. } = &input {
                self.requests.entry(*ticket).or_default().begin();
            }
            self.port.handle_input(now, input);
            return None;
        }
        match event {
            NodeEvent::Seal { session, service, opening } => {
                let Self { sealer, secrets, .. } = self;
                let sealer = sealer.as_ref()?;
                let sealed = sealer.seal(unix_s(now), &mut |bytes: &mut [u8]| fill(secrets, bytes), service, &opening);
                sealed.map(|sealed| MediaOutput::Command(NodeCommand::Sealed { session, sealed }))
            }
            NodeEvent::Unseal { ticket, service, provider, sealed } => {
                let opening = self.sealer.as_ref()?.open(unix_s(now), provider, service, &sealed)?;
                Some(MediaOutput::Command(NodeCommand::Unsealed { ticket, provider, opening }))
            }
            event => Some(MediaOutput::Event(self.handle_request_event(now, event))),
        }
    }

    /// Completes the event of a request with the data half of it.
    fn handle_request_event(&mut self, now: Time, event: NodeEvent) -> NodeEvent {
        match event {
            NodeEvent::Accepted { ticket, reflected: false, .. } => {
                if self.requests.get_mut(&ticket).is_some_and(|request| request.turn_direct(now)) {
                    self.port.handle_input(now, NodeInput::Release { ticket });
                }
                event
            }
            NodeEvent::Finished { ticket, mut summary } => {
                let silence = self.remove(now, ticket).and_then(|request| request.finish(&mut summary));
                match silence {
                    Some(cause) => failed(ticket, cause.reason(), "nothing has come of the stream"),
                    None => NodeEvent::Finished { ticket, summary },
                }
            }
            NodeEvent::Failed { ticket, .. } => {
                self.remove(now, ticket);
                event
            }
            event => event,
        }
    }

    fn remove(&mut self, now: Time, ticket: Ticket) -> Option<RequestReception> {
        let request = self.requests.remove(&ticket)?;
        self.port.handle_input(now, NodeInput::Release { ticket });
        Some(request)
    }

    /// The next consequence.
    pub(super) fn poll(&mut self, now: Time) -> Option<MediaOutput> {
        loop {
            let output = match self.port.poll_output(now)? {
                NodeOutput::Command(command) => Some(MediaOutput::Command(command)),
                NodeOutput::Payload { ticket, payload, reception } => {
                    let is_current = self.update(ticket, reception);
                    is_current.then_some(MediaOutput::Event(NodeEvent::Data { ticket, payload }))
                }
                NodeOutput::Received { ticket, reception } => {
                    self.update(ticket, reception);
                    None
                }
                // The machine says that its request has failed.
                NodeOutput::SubscriptionFailed { ticket, .. } => {
                    Some(MediaOutput::Command(NodeCommand::EndSubscription { ticket }))
                }
                NodeOutput::Published { session, result } => {
                    let opened = self.opening.remove(&session);
                    Some(MediaOutput::Command(match (result, opened) {
                        (Ok(()), Some(opened)) => NodeCommand::SourceOpened { session, opened },
                        (Ok(()), None) => continue,
                        (Err(error), _) => NodeCommand::SourceFailed { session, reason: error.to_string() },
                    }))
                }
                _ => None,
            };
            if output.is_some() {
                return output;
            }
        }
    }

    /// Packets of a request's reflected stream that never came.
    pub(super) fn missing_packets(&self, ticket: Ticket) -> Option<u64> {
        Some(self.requests.get(&ticket)?.reflected()?.lost)
    }

    fn update(&mut self, ticket: Ticket, reception: Reception) -> bool {
        self.requests.get_mut(&ticket).is_some_and(|request| request.update(reception))
    }
}

fn failed(ticket: Ticket, reason: roost_wire::messages::Reason, detail: &str) -> NodeEvent {
    NodeEvent::failed(ticket, reason, detail)
}

/// The wall clock of every host.
fn unix_s(now: Time) -> u64 {
    now.as_nanos() / 1_000_000_000
}

fn fill(random: &mut SplitMix64, bytes: &mut [u8]) -> bool {
    bytes.chunks_mut(8).for_each(|part| part.copy_from_slice(&random.next_u64().to_be_bytes()[..part.len()]));
    true
}

fn secret_bytes(seed: u64) -> [u8; 32] {
    let mut bytes = [0; 32];
    fill(&mut SplitMix64::new(seed), &mut bytes);
    bytes
}
