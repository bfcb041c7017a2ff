//! A group, its members, and transports that are kept running.

// Each file of tests uses only some of the helpers.
#![allow(dead_code)]

pub(crate) mod middle;
pub(crate) mod slow;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use roost_identity::group::{Group, Validity};
use roost_identity::{Identity, KeyExchange, Policy};
use roost_transport::{Config, Event, Limits, SendError, Transport, bind};
use roost_wait::eventually;
use roost_wire::{Address, Channel, ConnectionId, DialId, Role, RoleSet, Scheme};
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Longer than anything on the loopback takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let holds = eventually(PATIENCE, || is_so().then_some(())).await;
    assert!(holds.is_some(), "{what} within {PATIENCE:?}");
}

/// Sends a message as soon as there is room for it.
pub(crate) async fn send_patiently(transport: &Transport, connection: ConnectionId, channel: Channel, message: Bytes) {
    let is_sent = || match transport.send(connection, channel, message.clone()) {
        Ok(()) => true,
        Err(SendError::Full(_)) => false,
        Err(error) => panic!("{error}"),
    };
    until("there is room", is_sent).await;
}

/// A group in a directory of its own.
pub(crate) struct TestWorld {
    pub(crate) group: Group,
    dir: TempDir,
}

impl TestWorld {
    pub(crate) fn new() -> Self {
        Self::named("alpha")
    }

    pub(crate) fn named(name: &str) -> Self {
        let dir = TempDir::new().expect("a directory");
        let group = Group::init(&dir.path().join("group"), name).expect("a group");
        Self { group, dir }
    }

    pub(crate) fn member(&self, name: &str, role: Role) -> Arc<Identity> {
        Arc::new(self.group.issue_in_memory(name, role).expect("a certificate"))
    }

    pub(crate) fn expired(&self) -> Arc<Identity> {
        let now = SystemTime::now();
        let hour = Duration::from_secs(3600);
        let validity = Validity::Between { not_before: now - 2 * hour, not_after: now - hour };
        Arc::new(self.group.issue_in_memory_with("late", Role::Node, validity).expect("a certificate"))
    }

    /// A member with a bundle, who can be revoked.
    pub(crate) fn issued(&self, name: &str) -> Arc<Identity> {
        let bundle = self.dir.path().join(name);
        self.group.issue(name, Role::Node, Validity::default(), &bundle).expect("a certificate");
        Arc::new(Identity::load(&bundle).expect("the bundle"))
    }

    /// A member that has been revoked. Identities issued before do not know of it.
    pub(crate) fn revoked(&self) -> Arc<Identity> {
        let identity = self.issued("revoked");
        self.group.revoke("revoked").expect("a list");
        identity
    }

    /// A hub that listens on the loopback.
    pub(crate) async fn hub(&self, scheme: Scheme) -> Node {
        self.hub_with(scheme, Limits::default()).await
    }

    pub(crate) async fn hub_with(&self, scheme: Scheme, limits: Limits) -> Node {
        let identity = self.member("hub", Role::SuperNode);
        Node::start(identity, None, &[&format!("{scheme}://127.0.0.1:0")], limits).await
    }

    pub(crate) async fn node(&self, name: &str) -> Node {
        Node::start(self.member(name, Role::Node), None, &[], Limits::default()).await
    }

    /// A hub, a node, and the numbers of the connection between them on either side.
    pub(crate) async fn pair(&self, scheme: Scheme) -> (Node, ConnectionId, Node, ConnectionId) {
        let mut hub = self.hub(scheme).await;
        let mut node = self.node("uav").await;
        let (ours, theirs) = node.connect(&mut hub).await;
        (hub, theirs, node, ours)
    }
}

/// A transport whose events are consumed all the time, as in a daemon.
pub(crate) struct Node {
    pub(crate) transport: Transport,
    pub(crate) identity: Arc<Identity>,
    pub(crate) policy: Arc<Policy>,
    events: mpsc::UnboundedReceiver<Event>,
    pump: JoinHandle<()>,
    dials: u64,
    /// The addresses to which remotes have moved.
    pub(crate) moves: Vec<(ConnectionId, Address)>,
}

impl Drop for Node {
    fn drop(&mut self) {
        self.pump.abort();
    }
}

impl Node {
    /// `judge` lends its policy to an identity that has none of the group.
    pub(crate) async fn start(
        identity: Arc<Identity>,
        judge: Option<&Identity>,
        listen: &[&str],
        limits: Limits,
    ) -> Self {
        let policy = Policy::new(judge.unwrap_or(&identity)).expect("a policy");
        let listen = listen.iter().map(|text| text.parse().expect("an endpoint")).collect();
        let key_exchange = KeyExchange::default();
        Self::start_with(Config { identity, policy, key_exchange, listen, admit: RoleSet::ALL, limits }).await
    }

    pub(crate) async fn start_with(config: Config) -> Self {
        let (identity, policy) = (Arc::clone(&config.identity), Arc::clone(&config.policy));
        let (transport, mut stream) = bind(config).await.expect("sockets");
        let (inbox, events) = mpsc::unbounded_channel();
        let pump = tokio::spawn(async move {
            let mut batch = Vec::new();
            loop {
                stream.recv_many(&mut batch, 64).await;
                for event in batch.drain(..) {
                    if inbox.send(event).is_err() {
                        return;
                    }
                }
            }
        });
        Self { transport, identity, policy, events, pump, dials: 0, moves: Vec::new() }
    }

    pub(crate) fn address(&self) -> Address {
        self.transport.local_addresses()[0].clone()
    }

    pub(crate) async fn next(&mut self) -> Event {
        timeout(PATIENCE, self.next_relevant_event()).await.expect("an event in time")
    }

    /// The next event. A moved remote is only recorded, and the presence of local addresses is ignored.
    async fn next_relevant_event(&mut self) -> Event {
        loop {
            match self.events.recv().await.expect("the pump runs") {
                Event::Moved { connection, address } => self.moves.push((connection, address)),
                Event::Presence { .. } => {}
                event => return event,
            }
        }
    }

    /// True if no event arrives for a while.
    pub(crate) async fn is_quiet(&mut self) -> bool {
        timeout(Duration::from_millis(300), self.next_relevant_event()).await.is_err()
    }

    pub(crate) fn dial(&mut self, addresses: Vec<Address>, expect: RoleSet) -> DialId {
        self.dials += 1;
        let dial = DialId(self.dials);
        self.transport.dial(dial, addresses, expect, None);
        dial
    }

    /// Dials `other` and returns the numbers of the connection on both sides.
    pub(crate) async fn connect(&mut self, other: &mut Self) -> (ConnectionId, ConnectionId) {
        let dialled = self.dial(vec![other.address()], RoleSet::ALL);
        let Event::Up { connection, dial, remote, .. } = self.next().await else { panic!("the dial failed") };
        assert_eq!((dial, remote.node), (Some(dialled), other.identity.node()));
        let Event::Up { connection: there, dial, remote, .. } = other.next().await else {
            panic!("no connection came up")
        };
        assert_eq!((dial, remote.node), (None, self.identity.node()));
        assert_eq!(remote.name, self.identity.name());
        (connection, there)
    }

    pub(crate) fn send(&self, connection: ConnectionId, channel: Channel, message: impl Into<Bytes>) {
        self.transport.send(connection, channel, message.into()).expect("a link with room");
        self.transport.flush();
    }

    pub(crate) async fn message(&mut self) -> (ConnectionId, Bytes) {
        match self.next().await {
            Event::Message { connection, message } => (connection, message),
            other => panic!("{other:?} instead of a message"),
        }
    }

    pub(crate) async fn down(&mut self) -> (ConnectionId, String) {
        let (connection, reason, _) = self.lost().await;
        (connection, reason)
    }

    /// The reason for which a connection ended, and true if the policy bars one side from the other.
    pub(crate) async fn lost(&mut self) -> (ConnectionId, String, bool) {
        match self.next().await {
            Event::Down { connection, reason, refused } => (connection, reason, refused),
            other => panic!("{other:?} instead of a link going down"),
        }
    }

    pub(crate) async fn dial_failed(&mut self) -> String {
        self.unreached().await.0
    }

    /// The reason for which a dial failed, and true if the policy bars one side from the other.
    pub(crate) async fn unreached(&mut self) -> (String, bool) {
        match self.next().await {
            Event::DialFailed { reason, refused, .. } => (reason, refused),
            other => panic!("{other:?} instead of a failed dial"),
        }
    }

    /// Waits until this side has counted one refusal for `label`. The remote may get the alert before that.
    pub(crate) async fn await_refusal(&self, scheme: Scheme, label: &str) {
        until("the refusal is counted", || self.refused(scheme, label) > 0).await;
        assert_eq!(self.refused(scheme, label), 1, "{label}");
    }

    /// The number of remotes that this side has refused for `label`.
    pub(crate) fn refused(&self, scheme: Scheme, label: &str) -> u64 {
        let counters = self.transport.counters();
        counters.for_scheme(scheme).refused.iter().find(|(known, _)| *known == label).map_or(0, |(_, count)| *count)
    }
}

pub(crate) const RELIABLE: Channel = Channel::Reliable { flow: 7 };
