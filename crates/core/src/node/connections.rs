//! The connections that a node has.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use roost_policy::Policy;
use roost_wire::RemoteIdentity as Remote;
use roost_wire::{Address, ConnectionId, LONGEST_ROUND_TRIP, Labels, NodeId, RequestId, Role, Scheme, SchemeSet, Time};

use super::doubt::Doubt;
use crate::allowance::Allowance;
use crate::boxed_map::BoxedMap;
use crate::connections::{Connection, Rtt, excess};

/// The most connections at once. One more is closed as soon as it is up.
pub(super) const MAX_CONNECTIONS: usize = 1024;

/// Longest time for which a direct connection that this node dialled may carry nothing before it is closed.
/// Until then a further request needs no handshake, and nothing is sent for it.
pub const IDLE: Duration = Duration::from_secs(1800);

/// For how long a connection that carries nothing is as good as before: NATs
/// keep it in mind so long at least (RFC 4787, section 4.3). One with a hub, or
/// whose paths are probed (QUIC), is closed then.
pub(super) const FRESH: Duration = Duration::from_secs(120);

/// The shortest pause between two questions for a sign of life over a doubted connection.
pub(super) const SIGN_PAUSE: Duration = Duration::from_millis(200);

/// The most connections with nodes that are kept without being [`FRESH`].
/// Beyond it the one that was not used for longest is closed.
const MAX_QUIET: usize = 256;

/// After so many repetitions, of a request or an acceptance, a connection is
/// doubted and the other node dialled.
pub(super) const DOUBTFUL_TRIES: u32 = 3;

/// Longest dial that the driver leaves unanswered: it gives up every address in time by itself,
/// which takes nine of the longest round trips at most.
pub(super) const DIAL_LIMIT: Duration = LONGEST_ROUND_TRIP.saturating_mul(9);

/// The purpose of a dial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodeDialPurpose {
    /// A home.
    Home,
    /// A hub that stands by.
    Standby,
    /// A hub to which the home has sent this node.
    Redirect,
    /// The home hub over another transport, for requests restricted to it.
    Hub(DialTarget),
    /// A node: the requester of sessions, or the provider that requests name.
    Node(DialTarget),
}

/// The remote to reach, and the transports to use. All that want the same share one dial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DialTarget {
    pub(super) node: NodeId,
    pub(super) schemes: SchemeSet,
}

/// Why a connection is gone, or could not be had.
#[derive(Clone, Copy, Debug)]
pub(super) struct ConnectionLoss<'a> {
    /// In a sentence for people.
    pub(super) reason: &'a str,
    /// True if one side does not admit the other, so that no way leads there.
    pub(super) refused: bool,
}

impl<'a> ConnectionLoss<'a> {
    /// A loss that says nothing of other ways.
    pub(super) fn new(reason: &'a str) -> Self {
        Self { reason, refused: false }
    }
}

/// A connection of a node.
pub(super) type NodeConnection = Connection<NodeConnectionState>;

/// State of a connection that only a node needs.
#[derive(Debug)]
pub(super) struct NodeConnectionState {
    /// The name in the remote's certificate.
    pub(super) name: String,
    labels: Labels,
    /// The actions that the policy allows the remote; of a way through hubs, those of the hub, which reads along.
    pub(super) allowance: Allowance,
    /// Time at which something was last sent or heard.
    pub(super) used: Time,
    /// Time at which something was last heard that shows that this node is heard, too.
    pub(super) answered: Time,
    doubt: Doubt,
    /// True once this end has said its version there.
    pub(super) has_greeted: bool,
    /// Acceptances of a node that did not show the request's nonce.
    pub(super) guesses: u8,
    /// The hub through which it goes, if it is but a way of requests.
    pub(super) tunnel: Option<HubTunnel>,
}

/// The most such acceptances of a connection: more are guesses.
const MAX_GUESSES: u8 = 2;

/// A way through hubs, which stands in for a connection with a node that cannot be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HubTunnel {
    /// The connection with the first hub.
    pub(super) connection: ConnectionId,
    /// The hub, and the request by which it knows the way.
    pub(super) hub: NodeId,
    pub(super) id: RequestId,
}

impl NodeConnection {
    /// A connection that is up now, or a way through a hub that stands in for one.
    pub(super) fn up(now: Time, remote: &Remote, address: Address, rtt: Rtt, tunnel: Option<HubTunnel>) -> Self {
        let own = NodeConnectionState {
            name: remote.name.clone(),
            labels: remote.labels.clone(),
            allowance: Allowance::default(),
            used: now,
            answered: now,
            doubt: Doubt::default(),
            has_greeted: false,
            guesses: 0,
            tunnel,
        };
        Self::new(now, remote, address, rtt, own)
    }

    pub(super) fn identity(&self) -> Remote {
        let (name, labels) = (self.own.name.clone(), self.own.labels.clone());
        Remote { node: self.node, role: self.role, name, labels }
    }

    /// True if a node guesses secrets of requests here. What a hub passes on is the guess of somebody else.
    pub(super) fn has_guessed(&self) -> bool {
        self.own.guesses > MAX_GUESSES && self.own.tunnel.is_none() && self.role == Role::Node
    }

    /// Longest time for which it may carry nothing, if this node dialled it.
    pub(super) fn idle_limit(&self) -> Duration {
        let costs_nothing = self.role == Role::Node && self.address.scheme != Scheme::Quic;
        if costs_nothing { IDLE } else { FRESH }
    }

    /// True if it may be dead without a word.
    fn is_doubted(&self, now: Time) -> bool {
        self.own.doubt.holds(now, self.heard, self.rtt.pto())
    }

    /// Something has come. True if it was doubted.
    pub(super) fn record_heard(&mut self, now: Time) -> bool {
        let was_doubted = self.is_doubted(now);
        (self.heard, self.own.used) = (now, now);
        was_doubted
    }

    /// Doubts it. True if it is time to ask its remote for a sign of life.
    pub(super) fn doubt(&mut self, now: Time) -> bool {
        let pto = self.rtt.pto();
        let may_be_dead = self.role == Role::Node && self.own.tunnel.is_none() && now.since(self.heard) > pto;
        if may_be_dead {
            self.own.doubt.begin(now, self.heard);
        }
        may_be_dead && !self.probe.was_sent_within(now, pto.max(SIGN_PAUSE))
    }

    fn is_quiet(&self, now: Time) -> bool {
        now.since(self.own.used) >= FRESH
    }

    /// True if its remote is where one of `addresses` says, so that no NAT can
    /// have forgotten the connection. Over TCP a remote dials from another port;
    /// NATs keep those for hours.
    fn is_to(&self, addresses: &[Address]) -> bool {
        let Some(there) = self.address.primary() else { return false };
        let any_port = self.address.scheme == Scheme::Tcp;
        let is_there = |at: SocketAddr| at.ip() == there.ip() && (any_port || at.port() == there.port());
        let fits = |address: &&Address| address.scheme == self.address.scheme;
        addresses.iter().filter(fits).filter_map(Address::primary).any(is_there)
    }
}

/// All connections.
#[derive(Debug, Default)]
pub(super) struct Connections {
    connections: BoxedMap<ConnectionId, NodeConnection>,
    /// The group's policy, if it has one.
    policy: Option<Arc<Policy>>,
    next_way: u64,
    /// Remotes of connections that are gone; each may have others.
    departed: Vec<NodeId>,
}

impl Connections {
    pub(super) fn get(&self, connection: ConnectionId) -> Option<&NodeConnection> {
        self.connections.get(&connection)
    }

    /// The connection whose remote is judged: of a way through hubs, that with the hub.
    pub(super) fn judged(&self, connection: ConnectionId) -> Option<&NodeConnection> {
        let entry = self.get(connection)?;
        entry.own.tunnel.map_or(Some(entry), |tunnel| self.get(tunnel.connection))
    }

    /// Every connection, and every way through hubs.
    pub(super) fn iter(&self) -> impl Iterator<Item = &NodeConnection> {
        self.connections.values()
    }

    pub(super) fn get_mut(&mut self, connection: ConnectionId) -> Option<&mut NodeConnection> {
        self.connections.get_mut(&connection)
    }

    pub(super) fn insert(&mut self, connection: ConnectionId, mut entry: NodeConnection) {
        entry.own.allowance = match entry.own.tunnel.and_then(|tunnel| self.get(tunnel.connection)) {
            Some(hub) => hub.own.allowance.clone(),
            None => Allowance::new(self.policy.as_ref(), &entry.identity()),
        };
        self.connections.insert(connection, entry);
    }

    /// The latest certificate of a remote counts for all of its connections. True if its labels are others than before.
    pub(super) fn relabel(&mut self, remote: &Remote) -> bool {
        let is_older = |entry: &&mut NodeConnection| {
            entry.own.tunnel.is_none() && entry.node == remote.node && entry.own.labels != remote.labels
        };
        let older: Vec<_> = self.connections.values_mut().filter(is_older).collect();
        let is_relabelled = !older.is_empty();
        for entry in older {
            entry.own.labels = remote.labels.clone();
        }
        if is_relabelled {
            self.judge_all();
        }
        is_relabelled
    }

    /// Another policy, or none, says what remotes may do.
    pub(super) fn set_policy(&mut self, policy: Option<Arc<Policy>>) {
        self.policy = policy;
        self.judge_all();
    }

    fn judge_all(&mut self) {
        // Ways through hubs have greater numbers, so the connections with their hubs come before them.
        for (connection, entry) in std::mem::take(&mut self.connections) {
            self.insert(connection, entry);
        }
    }

    pub(super) fn policy(&self) -> Option<&Arc<Policy>> {
        self.policy.as_ref()
    }

    pub(super) fn remove(&mut self, connection: ConnectionId) -> Option<NodeConnection> {
        let gone = self.connections.remove(&connection)?;
        if gone.own.tunnel.is_none() {
            self.departed.push(gone.node);
        }
        Some(gone)
    }

    /// Takes the remotes whose last connection is gone.
    pub(super) fn take_departed(&mut self) -> Vec<NodeId> {
        let mut departed = std::mem::take(&mut self.departed);
        departed.retain(|node| !self.is_with(*node));
        departed
    }

    /// The youngest connection with a remote.
    pub(super) fn youngest_with(&self, node: NodeId) -> Option<ConnectionId> {
        let leads = |connection: &NodeConnection| connection.own.tunnel.is_none() && connection.node == node;
        self.connections.iter().rev().find(|(_, connection)| leads(connection)).map(|(id, _)| *id)
    }

    pub(super) fn len(&self) -> usize {
        self.connections.len()
    }

    /// Every connection with a node; ways through hubs do not count.
    pub(super) fn with_nodes(&self) -> Vec<ConnectionId> {
        let is_with_node =
            |connection: &NodeConnection| connection.role == Role::Node && connection.own.tunnel.is_none();
        self.connections.iter().filter(|(_, connection)| is_with_node(connection)).map(|(id, _)| *id).collect()
    }

    pub(super) fn ids(&self) -> Vec<ConnectionId> {
        self.connections.keys().copied().collect()
    }

    /// The youngest connection with `node` over one of `schemes`: an older one may have died without a word, as one
    /// that is doubted. One that has carried nothing for long counts only if it leads to one of the node's `addresses`.
    pub(super) fn between(
        &self,
        now: Time,
        node: NodeId,
        schemes: SchemeSet,
        addresses: &[Address],
    ) -> Option<ConnectionId> {
        let fits = |connection: &NodeConnection| {
            let may_live = !connection.is_quiet(now) || connection.is_to(addresses);
            connection.own.tunnel.is_none()
                && connection.node == node
                && schemes.contains(connection.address.scheme)
                && may_live
                && !connection.is_doubted(now)
        };
        self.connections.iter().rev().find(|(_, connection)| fits(connection)).map(|(id, _)| *id)
    }

    /// True if there is a connection with a node; a way through hubs does not count.
    pub(super) fn is_with(&self, node: NodeId) -> bool {
        self.connections.values().any(|connection| connection.own.tunnel.is_none() && connection.node == node)
    }

    /// The way through hubs to a node.
    pub(super) fn way_to(&self, node: NodeId) -> Option<ConnectionId> {
        let leads = |connection: &NodeConnection| connection.own.tunnel.is_some() && connection.node == node;
        self.connections.iter().rev().find(|(_, connection)| leads(connection)).map(|(id, _)| *id)
    }

    /// The ways through hubs of which `which` holds.
    pub(super) fn ways(&self, which: impl Fn(HubTunnel) -> bool) -> Vec<ConnectionId> {
        let ways = self.connections.iter().filter(|(_, connection)| connection.own.tunnel.is_some_and(&which));
        ways.map(|(id, _)| *id).collect()
    }

    /// A number for a way through hubs; those of connections count from below.
    pub(super) fn number_way(&mut self) -> ConnectionId {
        self.next_way += 1;
        ConnectionId(u64::MAX - self.next_way)
    }

    /// The connection with `node` that is one too many now that `new` is up.
    pub(super) fn spare(&self, node: NodeId, new: ConnectionId) -> Option<ConnectionId> {
        let is_of_node = |connection: &NodeConnection| connection.node == node && connection.own.tunnel.is_none();
        let of_node = self.connections.iter().filter(|(_, connection)| is_of_node(connection));
        excess(of_node.map(|(id, connection)| (*id, connection)), new)
    }

    /// The connection with a node to close because too many are quiet.
    pub(super) fn quietest(&self, now: Time) -> Option<ConnectionId> {
        let is_quiet = |connection: &NodeConnection| {
            connection.role == Role::Node && connection.own.tunnel.is_none() && connection.is_quiet(now)
        };
        let quiet = || self.connections.iter().filter(|(_, connection)| is_quiet(connection));
        let longest = quiet().min_by_key(|(id, connection)| (connection.own.used, **id));
        longest.filter(|_| quiet().count() > MAX_QUIET).map(|(id, _)| *id)
    }

    /// True if a connection is up and not doubted.
    pub(super) fn is_sound(&self, now: Time, connection: ConnectionId) -> bool {
        self.get(connection).is_some_and(|entry| !entry.is_doubted(now))
    }

    /// The doubted connections with a node over these transports.
    pub(super) fn doubted(&self, now: Time, node: NodeId, schemes: SchemeSet) -> Vec<ConnectionId> {
        let leads = |entry: &NodeConnection| entry.node == node && schemes.contains(entry.address.scheme);
        let doubted = self.connections.iter().filter(|(_, entry)| leads(entry) && entry.is_doubted(now));
        doubted.map(|(id, _)| *id).collect()
    }

    /// After how many messages without an answer a connection is doubted:
    /// sooner if nothing has been heard for long.
    pub(super) fn doubtful_tries(&self, now: Time, connection: ConnectionId) -> u32 {
        let is_silent = self.get(connection).is_none_or(|connection| now.since(connection.heard) >= FRESH);
        if is_silent { DOUBTFUL_TRIES - 1 } else { DOUBTFUL_TRIES }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Time = Time::from_nanos(1);
    const UDP: SchemeSet = SchemeSet::only(Scheme::Udp);

    fn node(number: u16) -> NodeId {
        let mut bytes = [0; 16];
        bytes[..2].copy_from_slice(&number.to_be_bytes());
        NodeId::from_bytes(bytes)
    }

    fn at(scheme: Scheme, port: u16) -> Address {
        Address::single(scheme, SocketAddr::from(([10, 0, 0, 1], port)))
    }

    fn connection(number: u16, address: Address, used: Time) -> NodeConnection {
        let remote = Remote { node: node(number), role: Role::Node, name: String::new(), labels: Labels::default() };
        NodeConnection::up(used, &remote, address, Rtt::new(Duration::ZERO), None)
    }

    #[test]
    fn idle_connection_counts_only_without_nat() {
        let mut connections = Connections::default();
        connections.insert(ConnectionId(1), connection(1, at(Scheme::Udp, 7710), START));
        connections.insert(ConnectionId(2), connection(2, at(Scheme::Tcp, 40_000), START));
        let (soon, later) = (START + FRESH / 2, START + 2 * FRESH);
        let tcp = SchemeSet::only(Scheme::Tcp);
        assert_eq!(connections.between(soon, node(1), UDP, &[]), Some(ConnectionId(1)));
        assert_eq!(connections.between(later, node(1), UDP, &[]), None);
        assert_eq!(connections.between(later, node(1), UDP, &[at(Scheme::Udp, 7711), at(Scheme::Tcp, 7710)]), None);
        assert_eq!(connections.between(later, node(1), UDP, &[at(Scheme::Udp, 7710)]), Some(ConnectionId(1)));
        assert_eq!(connections.between(later, node(2), tcp, &[at(Scheme::Tcp, 7710)]), Some(ConnectionId(2)));
        assert_eq!(connections.doubtful_tries(soon, ConnectionId(1)), DOUBTFUL_TRIES);
        assert_eq!(connections.doubtful_tries(later, ConnectionId(1)), DOUBTFUL_TRIES - 1);
    }

    #[test]
    fn longest_idle_connection_is_evicted() {
        let mut connections = Connections::default();
        for number in 0..MAX_QUIET as u16 + 2 {
            let used = START + Duration::from_secs(number.into());
            connections.insert(ConnectionId(1000 - u64::from(number)), connection(number, at(Scheme::Udp, 1), used));
        }
        assert_eq!(connections.quietest(START), None, "all are fresh");
        let later = START + IDLE;
        for number in 0..2 {
            let quietest = connections.quietest(later);
            assert_eq!(quietest, Some(ConnectionId(1000 - number)));
            connections.remove(quietest.unwrap());
        }
        assert_eq!(connections.quietest(later), None);
    }
}
