//! A member of the group that sends any message: an identity, a connection, and no daemon.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use roost_identity::{Identity, KeyExchange, Policy};
use roost_transport::{Config, Event, Events, Limits, Transport};
use roost_wire::messages::{
    Candidate, Coverage, DirectoryMessage, Hello, LookupResult, Message, ProbeMessage, RegistrationMessage,
    RequestMessage, RequestMode,
};
use roost_wire::{
    Address, Capacity, Cell, Channel, ConnectionId, DialId, Endpoint, NodeId, Record, RoleSet, Scheme, ServiceSet,
    Version,
};
use tokio::runtime::{Builder, Runtime};

use crate::network::PATIENCE;

pub struct Adversary {
    pub node: NodeId,
    hub: ConnectionId,
    transport: Transport,
    heard: Receiver<Event>,
    /// Runs the transport.
    runtime: Runtime,
}

impl Adversary {
    /// Dials a hub over UDP, as the node with this identity.
    ///
    /// # Panics
    /// Panics if the hub does not admit it within [`PATIENCE`].
    pub fn at(identity: &Path, hub: SocketAddr) -> Self {
        let identity = Arc::new(Identity::load(identity).expect("an identity"));
        let node = identity.node();
        let (runtime, transport, mut events) = bind(identity, Vec::new());
        let (tell, heard) = channel();
        runtime.spawn(async move {
            let mut some = Vec::new();
            while events.recv_many(&mut some, 64).await > 0 {
                // The test may be over.
                some.drain(..).for_each(|event| drop(tell.send(event)));
            }
        });
        let mut liar = Self { node, hub: ConnectionId(0), transport, heard, runtime };
        liar.hub = liar.reach(vec![Address::single(Scheme::Udp, hub)]);
        liar
    }

    /// Dials another remote. Messages that come meanwhile are lost.
    ///
    /// # Panics
    /// Panics if the remote does not admit it within [`PATIENCE`].
    pub fn reach(&self, addresses: Vec<Address>) -> ConnectionId {
        self.runtime.block_on(async { self.transport.dial(DialId(1), addresses, RoleSet::ALL, None) });
        loop {
            match self.heard.recv_timeout(PATIENCE).expect("an answer") {
                Event::Up { connection, .. } => return connection,
                Event::DialFailed { reason, .. } => panic!("it is not reached: {reason}"),
                _ => {}
            }
        }
    }

    /// Sends a message to the hub; a datagram may be lost.
    ///
    /// # Panics
    /// Panics if the connection is down.
    pub fn say(&self, message: &Message) {
        self.say_to(self.hub, message);
    }

    /// Sends a message on a connection.
    ///
    /// # Panics
    /// Panics if the connection is down.
    pub fn say_to(&self, connection: ConnectionId, message: &Message) {
        let sent = self.runtime.block_on(async {
            let sent = self.transport.send(connection, Channel::Datagram, message.encode());
            self.transport.flush();
            sent
        });
        sent.expect("the connection is up");
    }

    /// The node's record, with any services and any host.
    ///
    /// # Panics
    /// Panics if the clock is far off.
    pub fn record(&self, cell: Cell, services: ServiceSet, host: SocketAddr) -> Record {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_secs();
        Record {
            node: self.node,
            version: Version { epoch: u32::try_from(now).expect("before 2106"), sequence: 1 },
            cell,
            services,
            capacity: Capacity { streams: 4, uplink_kbps: 10_000 },
            addresses: vec![Address::single(Scheme::Udp, host)],
            position: None,
            orbit: None,
        }
    }

    /// The messages received up to now and for `time`.
    pub fn receive_messages(&self, time: Duration) -> Vec<Message> {
        let (end, mut messages) = (Instant::now() + time, Vec::new());
        loop {
            match self.heard.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(Event::Message { message, .. }) => messages.extend(Message::decode(&message).ok()),
                Ok(_) => {}
                Err(_) => return messages,
            }
        }
    }
}

/// A member that admits every remote, and ends each connection with the given words.
pub struct ClosingListener {
    /// An endpoint for each transport.
    pub endpoints: Vec<String>,
    /// Runs the transport.
    _runtime: Runtime,
}

impl ClosingListener {
    /// Listens on all transports, as the member with this identity.
    ///
    /// # Panics
    /// Panics if it cannot listen.
    pub fn start(identity: &Path, words: &str) -> Self {
        let identity = Arc::new(Identity::load(identity).expect("an identity"));
        let listen =
            ["udp", "tcp", "quic"].map(|scheme| format!("{scheme}://127.0.0.1:0").parse().expect("an endpoint"));
        let (runtime, transport, mut events) = bind(identity, listen.to_vec());
        let endpoints = transport.local_addresses().iter().map(ToString::to_string).collect();
        let words = words.to_owned();
        runtime.spawn(async move {
            let mut some = Vec::new();
            while events.recv_many(&mut some, 64).await > 0 {
                for event in some.drain(..) {
                    if let Event::Up { connection, .. } = event {
                        transport.close(connection, words.clone());
                    }
                }
                transport.flush();
            }
        });
        Self { endpoints, _runtime: runtime }
    }
}

/// A hub that takes every record, whose clock is off, and that knows one provider of everything.
pub struct FakeHub {
    /// The endpoint over UDP.
    pub endpoint: String,
    /// Runs the transport.
    _runtime: Runtime,
}

impl FakeHub {
    /// Listens as the member with this identity. The clock is `ahead_s` seconds ahead, and `name` is the name of the
    /// provider that every lookup finds.
    ///
    /// # Panics
    /// Panics if it cannot listen.
    pub fn start(identity: &Path, ahead_s: i64, name: &str) -> Self {
        let identity = Arc::new(Identity::load(identity).expect("an identity"));
        let listen = vec!["udp://127.0.0.1:0".parse().expect("an endpoint")];
        let (runtime, transport, mut events) = bind(identity, listen);
        let endpoint = transport.local_addresses()[0].to_string();
        let name = name.to_owned();
        runtime.spawn(async move {
            let mut some = Vec::new();
            while events.recv_many(&mut some, 64).await > 0 {
                for event in some.drain(..) {
                    let (connection, channel, answer) = match event {
                        Event::Up { connection, .. } => {
                            (connection, Channel::Reliable { flow: 0 }, Some(greeting(ahead_s)))
                        }
                        Event::Message { connection, message } => {
                            (connection, Channel::Datagram, false_answer(&message, &name))
                        }
                        _ => continue,
                    };
                    // The remote may be gone.
                    let _ = answer.map(|answer| transport.send(connection, channel, answer.encode()));
                }
                transport.flush();
            }
        });
        Self { endpoint, _runtime: runtime }
    }
}

/// The first message of a hub whose clock is so far ahead.
fn greeting(ahead_s: i64) -> Message {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_secs();
    Message::Probe(ProbeMessage::Hello(Hello { clock_s: now.checked_add_signed(ahead_s), ..Hello::OWN }))
}

/// The answer of a hub that takes every record and knows a provider of this name.
fn false_answer(message: &Bytes, name: &str) -> Option<Message> {
    let lease = |version| {
        Message::Registration(RegistrationMessage::Lease {
            version,
            lease_ms: 60_000,
            siblings: None,
            addresses: None,
            media: None,
        })
    };
    match Message::decode(message).ok()? {
        Message::Registration(RegistrationMessage::Publish(record)) => Some(lease(record.version)),
        Message::Registration(RegistrationMessage::Renew(renew)) => Some(lease(renew.version)),
        Message::Probe(ProbeMessage::Ping(token)) => Some(Message::Probe(ProbeMessage::Pong(token))),
        Message::Request(RequestMessage::Request(request)) if request.spec.mode == RequestMode::Lookup => {
            let provider = Candidate {
                node: NodeId::from_bytes([9; 16]),
                version: Version { epoch: 1, sequence: 1 },
                cell: Cell::new(1, 1),
                services: ServiceSet::ALL,
                capacity: Capacity { streams: 4, uplink_kbps: 10_000 },
                addresses: Vec::new(),
                name: Some(name.to_owned()),
                position: None,
            };
            Some(Message::Directory(DirectoryMessage::LookupResult(LookupResult {
                id: request.id,
                candidates: vec![provider],
                coverage: Coverage::Complete,
                has_omissions: None,
                has_losses: None,
            })))
        }
        _ => None,
    }
}

/// Opens the transports of a member.
pub(crate) fn bind(identity: Arc<Identity>, listen: Vec<Endpoint>) -> (Runtime, Transport, Events) {
    let policy = Policy::new(&identity).expect("its group's policy");
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
    let config = Config {
        identity,
        policy,
        key_exchange: KeyExchange::default(),
        listen,
        admit: RoleSet::ALL,
        limits: Limits::default(),
    };
    let (transport, events) = runtime.block_on(roost_transport::bind(config)).expect("a transport");
    (runtime, transport, events)
}
