//! Members of the group that speak the next minor version of the protocol: the machines of this build, with
//! messages as later builds may send them.
//!
//! Each message ends in a field that this build does not know, each request has an unknown option, each greeting
//! says a higher minor version with further capabilities, and an unknown message follows it.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use bytes::Bytes;
use minicbor::{Decoder, Encoder};
use roost_core::hub::{Hub, HubCommand, HubConfig, HubKind};
use roost_core::machine::{Deadline, Input, Machine};
use roost_core::node::{Discovery, Node, NodeCommand, NodeConfig, NodeEvent, SourceOutput, Ticket};
use roost_core::{Traffic, Transmit};
use roost_identity::Identity;
use roost_runtime::driver::{Driver, EventHandler, LoopControl, Mailbox, Sockets, driver};
use roost_runtime::resolve::EndpointResolver;
use roost_wire::messages::{Hello, Message, ProbeMessage, ProtocolVersion, ServiceRequest};
use roost_wire::object::digest;
use roost_wire::random::RootSecret;
use roost_wire::{Address, Cell, Channel, Delivery, DeliveryClasses, Labels, Role, Scheme, Service, ServiceSet, Time};
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

use crate::adversary::bind;
use crate::network::PATIENCE;

/// Place of the field that this build does not know: every message has fewer fields.
const LATER_FIELD: u64 = 24;

/// Key of the option that this build does not know.
const LATER_OPTION: u8 = 99;

/// Number of the message that this build does not know.
const LATER_MESSAGE: u16 = 200;

/// Number of a request, whose third part is a map of options.
const REQUEST: u64 = 5;

/// A machine whose messages are those of the next minor version.
struct LaterVersion<M> {
    machine: M,
    /// Sent before all else of the machine.
    unknown: VecDeque<Transmit>,
}

impl<M> LaterVersion<M> {
    fn new(machine: M) -> Self {
        Self { machine, unknown: VecDeque::new() }
    }
}

impl<M: Machine> Machine for LaterVersion<M> {
    type Command = M::Command;
    type Event = M::Event;

    fn handle(&mut self, now: Time, input: Input<M::Command>) {
        self.machine.handle(now, input);
    }

    fn poll_transmit(&mut self) -> Option<Transmit> {
        if let Some(transmit) = self.unknown.pop_front() {
            return Some(transmit);
        }
        let mut transmit = self.machine.poll_transmit()?;
        if let Transmit::Message { connection, message, .. } = &mut transmit {
            if let Ok(Message::Probe(ProbeMessage::Hello(hello))) = Message::decode(message) {
                *message = later_hello(hello);
                self.unknown.push_back(Transmit::Message {
                    connection: *connection,
                    channel: Channel::Datagram,
                    delivery: Delivery::CONTROL,
                    traffic: Traffic::Mesh,
                    message: minicbor::to_vec((LATER_MESSAGE, "later", [1u8; 3])).expect("memory").into(),
                });
            } else {
                *message = later_message(message);
            }
        }
        Some(transmit)
    }

    fn poll_event(&mut self) -> Option<M::Event> {
        self.machine.poll_event()
    }

    fn poll_deadline(&self) -> Option<Deadline> {
        self.machine.poll_deadline()
    }
}

/// The greeting of the next minor version.
fn later_hello(hello: Hello) -> Bytes {
    let version = ProtocolVersion { minor: hello.protocol.minor + 1, ..hello.protocol };
    minicbor::to_vec((57u8, (version, u64::MAX, hello.clock_s, "later"))).expect("memory").into()
}

/// The message with a further field, and a request with a further option as well.
fn later_message(message: &[u8]) -> Bytes {
    let mut decoder = Decoder::new(message);
    let length = decoder.array().expect("a message is an array").expect("it has a length");
    let items: Vec<&[u8]> = (0..length).map(|_| next_item(&mut decoder)).collect();
    let is_request = Decoder::new(items[0]).u64().is_ok_and(|number| number == REQUEST);
    let mut bytes = Vec::new();
    let mut encoder = Encoder::new(&mut bytes);
    encoder.array(LATER_FIELD + 1).expect("memory");
    for (place, item) in items.iter().enumerate() {
        let item = if is_request && place == 1 { later_request(item) } else { item.to_vec() };
        encoder.writer_mut().extend(item);
    }
    for _ in length..LATER_FIELD {
        encoder.null().expect("memory");
    }
    encoder.str("later").expect("memory");
    bytes.into()
}

/// A request with a further option.
fn later_request(request: &[u8]) -> Vec<u8> {
    let mut decoder = Decoder::new(request);
    let length = decoder.array().expect("a request is an array").expect("it has a length");
    let mut bytes = Vec::new();
    Encoder::new(&mut bytes).array(length).expect("memory");
    for place in 0..length {
        if place == 2 {
            let options = decoder.map().expect("options are a map").expect("it has a length");
            Encoder::new(&mut bytes).map(options + 1).expect("memory");
            (0..2 * options).for_each(|_| bytes.extend(next_item(&mut decoder)));
            Encoder::new(&mut bytes).u8(LATER_OPTION).and_then(|e| e.str("later")).expect("memory");
        } else {
            bytes.extend(next_item(&mut decoder));
        }
    }
    bytes
}

/// The bytes of the next item.
fn next_item<'b>(decoder: &mut Decoder<'b>) -> &'b [u8] {
    let start = decoder.position();
    decoder.skip().expect("an item");
    &decoder.input()[start..decoder.position()]
}

/// A super node of the next minor version, until it is dropped.
pub struct LaterHub {
    /// Endpoint over the transport on which it listens.
    pub endpoint: String,
    _stop: tokio_util::sync::DropGuard,
    _runtime: Runtime,
}

impl LaterHub {
    /// Listens on one transport, beside the hubs at `siblings`.
    ///
    /// # Panics
    /// Panics if it cannot listen.
    pub fn start(identity: &Path, scheme: Scheme, siblings: &[Address]) -> Self {
        let identity = Arc::new(Identity::load(identity).expect("an identity"));
        let node = identity.node();
        let listen = format!("{scheme}://127.0.0.1:0").parse().expect("an endpoint");
        let (runtime, transport, events) = bind(identity, vec![listen]);
        let addresses = transport.local_addresses().to_vec();
        let mut config = HubConfig::new(node, HubKind::SuperNode, 7);
        config.addresses.clone_from(&addresses);
        config.siblings = siblings.iter().map(|sibling| vec![sibling.clone()]).collect();
        config.epoch = 1;
        let sockets = Sockets::new(transport, events, EndpointResolver::default());
        let (driver, _) = driver(LaterVersion::new(Hub::new(config)), |_| Ignore, sockets, Arc::default());
        let stop = CancellationToken::new();
        runtime.spawn(driver.run(stop.clone(), HubCommand::Leave));
        Self { endpoint: addresses[0].to_string(), _stop: stop.drop_guard(), _runtime: runtime }
    }
}

/// A node of the next minor version, until it is dropped. It offers images, each of them [`LaterNode::IMAGE`].
pub struct LaterNode {
    mailbox: Mailbox<LaterVersion<Node>>,
    events: Receiver<NodeEvent>,
    _stop: tokio_util::sync::DropGuard,
    runtime: Runtime,
}

impl LaterNode {
    /// The image that it offers.
    pub const IMAGE: &[u8] = b"an image of the next minor version";

    /// Attaches to the hub at this address.
    ///
    /// # Panics
    /// Panics if it is not attached within [`PATIENCE`].
    pub fn start(identity: &Path, cell: Cell, hub: SocketAddr, scheme: Scheme) -> Self {
        let identity = Arc::new(Identity::load(identity).expect("an identity"));
        let node = identity.node();
        let listen = format!("{scheme}://127.0.0.1:0").parse().expect("an endpoint");
        let (runtime, transport, events) = bind(identity, vec![listen]);
        let config = NodeConfig {
            node,
            name: "later".to_owned(),
            labels: Labels::default(),
            epoch: 1,
            cell,
            position: None,
            datum: None,
            services: [Service::Image].into_iter().collect::<ServiceSet>(),
            hubs: vec![vec![Address::single(scheme, hub)]],
            hub_role: Role::SuperNode,
            addresses: transport.local_addresses().to_vec(),
            max_streams: 8,
            uplink_kbps: None,
            stream_duration: Duration::from_secs(1),
            media: None,
            classes: DeliveryClasses::default(),
            multicast: false,
            discovery: Discovery::SuperNode,
            seed: 7,
            secret: RootSecret::of_seed(7),
        };
        let sockets = Sockets::new(transport, events, EndpointResolver::default());
        let (tell, told) = channel();
        let owner = |mailbox: &Mailbox<_>| ImageOwner { mailbox: mailbox.clone(), tell };
        let (driver, mailbox): (Driver<_, _, _>, _) =
            driver(LaterVersion::new(Node::new(config)), owner, sockets, Arc::default());
        let stop = CancellationToken::new();
        runtime.spawn(driver.run(stop.clone(), NodeCommand::Leave));
        let node = Self { mailbox, events: told, _stop: stop.drop_guard(), runtime };
        node.wait_for(|event| matches!(event, NodeEvent::Attached { .. }).then_some(()));
        node
    }

    /// Requests a service and returns the first data that comes.
    ///
    /// # Panics
    /// Panics if the request fails, or nothing comes within [`PATIENCE`].
    pub fn request(&self, request: ServiceRequest) -> Bytes {
        let command = NodeCommand::Request { ticket: Ticket(1), request, provider: None };
        self.runtime.block_on(self.mailbox.command(command)).expect("the machine runs");
        self.wait_for(|event| match event {
            NodeEvent::Data { payload, .. } => Some(payload),
            NodeEvent::Failed { detail, .. } => panic!("{detail}"),
            _ => None,
        })
    }

    fn wait_for<T>(&self, mut find: impl FnMut(NodeEvent) -> Option<T>) -> T {
        let end = Instant::now() + PATIENCE;
        loop {
            let event = self.events.recv_timeout(end.saturating_duration_since(Instant::now())).expect("an event");
            if let Some(found) = find(event) {
                return found;
            }
        }
    }
}

/// The owner of a node that offers one image.
struct ImageOwner {
    mailbox: Mailbox<LaterVersion<Node>>,
    tell: Sender<NodeEvent>,
}

impl EventHandler<LaterVersion<Node>> for ImageOwner {
    fn handle_event(&mut self, event: NodeEvent) -> LoopControl {
        if let NodeEvent::OpenSource { session, .. } = event {
            let bytes = Bytes::from_static(LaterNode::IMAGE);
            let opened =
                SourceOutput::Object { digest: digest(&bytes), bytes, format: "application/octet-stream".to_owned() };
            let mailbox = self.mailbox.clone();
            tokio::spawn(async move { mailbox.command(NodeCommand::SourceOpened { session, opened }).await });
        }
        let control = if matches!(event, NodeEvent::Left) { LoopControl::Stop } else { LoopControl::Continue };
        // The test may be over.
        let _ = self.tell.send(event);
        control
    }
}

/// The owner of a hub of whose events nobody needs to know.
struct Ignore;

impl EventHandler<LaterVersion<Hub>> for Ignore {
    fn handle_event(&mut self, event: roost_core::hub::HubEvent) -> LoopControl {
        if matches!(event, roost_core::hub::HubEvent::Left) { LoopControl::Stop } else { LoopControl::Continue }
    }
}
