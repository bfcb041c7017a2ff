//! Remotes and their connections.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use roost_policy::Policy;
use roost_wire::{
    Address, ConnectionId, Labels, NodeId, NodeSelector, Record, RemoteIdentity, Role, SchemeSet, ServiceSet, Time,
};

use super::HubLimit;
use super::departed_usage::{DepartedUsage, QuotaUsage};
use super::relation::Relation;
use crate::allowance::Allowance;
use crate::connections::{Connection, Rtt, excess};
use crate::request_key::RequestKey;

/// Cost of a publication to its node: it may make a message to every watcher.
pub(super) const PUBLICATION: u32 = 1;

/// Cost of the publication of a record in motion: its way is worked out. An honest node tells one a second at most.
const MOTION: u32 = 4;

/// The cost of the word of a move: hubs pass it on to all that may know the old home.
pub(super) const MOVE: u32 = 8;

/// Cost of a new watch: a snapshot, here and at every hub that hears of it.
pub(super) const WATCH: u32 = 4;

/// Cost of a search at other hubs: a message to each of them.
pub(super) const SEARCH: u32 = 2;

/// Cost of news of a room: one message to each owner, and their lists.
pub(super) const ROOM_UPDATE_COST: u32 = 2;

pub(super) fn publication_cost(record: &Record) -> u32 {
    let is_moving = record.orbit.is_some() || record.position.as_ref().is_some_and(roost_geo::is_moving);
    if is_moving { MOTION } else { PUBLICATION }
}

/// The most of all this that a node may have at once.
const BURST: u32 = 96;

/// Time until it may have one more.
const PAUSE: Duration = Duration::from_millis(50);

/// Time that a remote may take to answer, beyond the way there and back.
const ANSWER_DELAY: Duration = Duration::from_millis(50);

/// All connections and who is at their other ends.
#[derive(Debug, Default)]
pub(super) struct Remotes {
    pub(super) connections: BTreeMap<ConnectionId, RemoteConnection>,
    nodes: BTreeMap<NodeId, Remote>,
    hubs: BTreeSet<NodeId>,
    debts: DepartedUsage,
    /// The group's policy, if it has one.
    policy: Option<Arc<Policy>>,
}

/// A connection of a hub.
pub(super) type RemoteConnection = Connection<RemoteConnectionState>;

/// Facts of a connection that a hub alone needs.
#[derive(Debug, Default)]
pub(super) struct RemoteConnectionState {
    /// True if the remote is to publish anew: it is at another address than when it last did, or may offer something
    /// else.
    pub(super) lacks_record: bool,
}

/// A node or hub with at least one connection up, and what it has under way here.
#[derive(Debug)]
pub(super) struct Remote {
    pub(super) role: Role,
    pub(super) name: String,
    labels: Labels,
    /// The actions that the policy allows the remote.
    pub(super) allowance: Allowance,
    /// The services of its record that it may not offer.
    pub(super) cut: ServiceSet,
    pub(super) since: Time,
    connections: Vec<ConnectionId>,
    /// The connection over which the record that is held has come.
    pub(super) publisher: Option<ConnectionId>,
    /// Requests of the remote in the order of their coming; some may be over.
    pub(super) requests: VecDeque<RequestKey>,
    pub(super) relays: usize,
    pub(super) watches: usize,
    /// Lookups and requests that wait for other hubs.
    pub(super) searches: usize,
    /// Time at which it may publish, if it was told to come later.
    pub(super) turn: Option<Time>,
    /// Up to when its allowance of [`BURST`] is used up, and the like.
    pub(super) debt: QuotaUsage,
    /// Relation to this hub, if it is one itself.
    relation: Relation,
    /// True if it has left a question unanswered and was not heard since.
    doubtful: bool,
    /// The limits that it has met: a bit for each.
    limits_met: u32,
}

/// The consequence of the end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LostConnection {
    pub(super) node: NodeId,
    pub(super) role: Role,
    /// True if it was the remote's last one.
    pub(super) last: bool,
}

impl Remotes {
    /// Adds a connection. True if it is the remote's first.
    pub(super) fn add_connection(
        &mut self,
        now: Time,
        connection: ConnectionId,
        identity: RemoteIdentity,
        address: Address,
        rtt: Duration,
    ) -> bool {
        let entry = Connection::new(now, &identity, address, Rtt::new(rtt), RemoteConnectionState::default());
        let RemoteIdentity { node, role, .. } = identity;
        self.connections.insert(connection, entry);
        if role.is_hub() {
            self.hubs.insert(node);
        }
        let is_first = !self.nodes.contains_key(&node);
        let remote = self
            .nodes
            .entry(node)
            .or_insert_with(|| Remote::new(now, role, identity.name.clone(), self.debts.take_usage(now, node)));
        remote.connections.push(connection);
        // The latest certificate counts.
        remote.allowance = Allowance::new(self.policy.as_ref(), &identity);
        remote.labels = identity.labels;
        is_first
    }

    /// True if the certificate of a remote's other connections has other labels.
    pub(super) fn has_other_labels(&self, identity: &RemoteIdentity) -> bool {
        self.nodes.get(&identity.node).is_some_and(|known| known.labels != identity.labels)
    }

    pub(super) fn policy(&self) -> Option<&Arc<Policy>> {
        self.policy.as_ref()
    }

    /// Another policy, or none, says what remotes may do.
    pub(super) fn set_policy(&mut self, policy: Option<Arc<Policy>>) {
        for (node, remote) in &mut self.nodes {
            let (name, labels) = (remote.name.clone(), remote.labels.clone());
            let identity = RemoteIdentity { node: *node, role: remote.role, name, labels };
            remote.allowance = Allowance::new(policy.as_ref(), &identity);
        }
        self.policy = policy;
    }

    /// The connection of the node that is one too many, now that `new` is up.
    pub(super) fn excess_connection(&self, node: NodeId, new: ConnectionId) -> Option<ConnectionId> {
        let connections = self.connections_of(node).iter();
        excess(connections.filter_map(|id| Some((*id, self.connections.get(id)?))), new)
    }

    /// Notes over which of its connections a remote's record has come.
    pub(super) fn published_over(&mut self, node: NodeId, connection: ConnectionId) {
        if let Some(remote) = self.nodes.get_mut(&node) {
            remote.publisher = Some(connection);
        }
        if let Some(connection) = self.connections.get_mut(&connection) {
            connection.own.lacks_record = false;
        }
    }

    /// Removes a connection. The remote itself stays until [`forget`](Self::forget).
    pub(super) fn down(&mut self, connection: ConnectionId) -> Option<LostConnection> {
        let RemoteConnection { node, role, .. } = self.connections.remove(&connection)?;
        let remote = self.nodes.get_mut(&node)?;
        remote.connections.retain(|other| *other != connection);
        Some(LostConnection { node, role, last: remote.connections.is_empty() })
    }

    pub(super) fn forget(&mut self, now: Time, node: NodeId) -> Option<Remote> {
        self.hubs.remove(&node);
        let remote = self.nodes.remove(&node)?;
        self.debts.keep(now, node, remote.debt);
        Some(remote)
    }

    pub(super) fn get(&self, node: NodeId) -> Option<&Remote> {
        self.nodes.get(&node)
    }

    pub(super) fn get_mut(&mut self, node: NodeId) -> Option<&mut Remote> {
        self.nodes.get_mut(&node)
    }

    /// The nodes and hubs that are connected.
    pub(super) fn count(&self) -> usize {
        self.nodes.len()
    }

    /// The nodes that may be called so.
    pub(super) fn nodes_selected_by(&self, selector: NodeSelector) -> impl Iterator<Item = NodeId> + '_ {
        let nodes = self.nodes.iter().filter(|(_, remote)| remote.role == Role::Node);
        nodes.filter(move |(node, remote)| selector.matches(**node, Some(&remote.name))).map(|(node, _)| *node)
    }

    pub(super) fn is_up(&self, node: NodeId) -> bool {
        self.nodes.get(&node).is_some_and(|remote| !remote.connections.is_empty())
    }

    /// Hubs that are up.
    pub(super) fn hubs(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.hubs.iter().copied()
    }

    /// Relation of a remote to this hub, if it is a hub itself.
    pub(super) fn relation(&self, node: NodeId) -> Option<Relation> {
        self.nodes.get(&node).filter(|remote| remote.role.is_hub()).map(|hub| hub.relation)
    }

    pub(super) fn relate(&mut self, hub: NodeId, relation: Relation) {
        if let Some(hub) = self.nodes.get_mut(&hub) {
            hub.relation = relation;
        }
    }

    /// True if a hub has left a question unanswered and was not heard since.
    pub(super) fn is_unresponsive(&self, hub: NodeId) -> bool {
        self.nodes.get(&hub).is_some_and(|hub| hub.doubtful)
    }

    /// Notes that a hub does not answer: others are asked before it, until it is heard.
    pub(super) fn mark_unresponsive(&mut self, hub: NodeId) {
        if let Some(hub) = self.nodes.get_mut(&hub) {
            hub.doubtful = true;
        }
    }

    /// Another lookup or request of a remote waits for other hubs.
    pub(super) fn count_search(&mut self, node: NodeId) {
        if let Some(remote) = self.nodes.get_mut(&node) {
            remote.searches += 1;
        }
    }

    pub(super) fn end_search(&mut self, node: NodeId) {
        if let Some(remote) = self.nodes.get_mut(&node) {
            remote.searches = remote.searches.saturating_sub(1);
        }
    }

    /// Takes any word from a remote, of so many bytes, as a sign of life.
    pub(super) fn record_heard(&mut self, node: NodeId, bytes: usize) {
        if let Some(remote) = self.nodes.get_mut(&node) {
            remote.doubtful = false;
            remote.debt.allowance.record_received(bytes);
        }
    }

    pub(super) fn hub_count(&self) -> usize {
        self.hubs.len()
    }

    pub(super) fn has_nodes(&self) -> bool {
        self.nodes.len() > self.hubs.len()
    }

    pub(super) fn connections_of(&self, node: NodeId) -> &[ConnectionId] {
        self.nodes.get(&node).map_or(&[], |remote| &remote.connections)
    }

    /// The remote's connection over an allowed transport that was heard last.
    pub(super) fn best_connection(&self, node: NodeId, allowed: SchemeSet) -> Option<ConnectionId> {
        let heard = |connection: &ConnectionId| self.connections.get(connection).map(|connection| connection.heard);
        self.connections_of(node).iter().copied().filter(|connection| self.uses(*connection, allowed)).max_by_key(heard)
    }

    /// Time that an answer over the connection may take before its want is a sign: of
    /// a hub a probe time-out, as the round trip to it is measured all the
    /// time; of a node two round trips and then some.
    pub(super) fn answer_timeout(&self, connection: ConnectionId) -> Duration {
        self.connections.get(&connection).map_or(ANSWER_DELAY, |connection| match connection.role {
            Role::SuperNode | Role::Server => connection.rtt.pto(),
            Role::Node => connection.rtt.smoothed() * 2 + ANSWER_DELAY,
        })
    }

    /// Notes that the remote at `connection` is asked for a sign of life. One that was asked before
    /// and may still answer that is measured by it: a path may be longer than a pause.
    pub(super) fn record_ping(&mut self, now: Time, connection: ConnectionId, token: u32) {
        if let Some(connection) = self.connections.get_mut(&connection)
            && !connection.probe.is_awaited(now, connection.rtt.pto())
        {
            connection.probe.begin(now, token);
        }
    }

    /// Measures the round trip by an answer. False if it was not asked for.
    pub(super) fn record_pong(&mut self, now: Time, connection: ConnectionId, token: u32) -> bool {
        self.connections.get_mut(&connection).is_some_and(|connection| connection.record_pong(now, token))
    }

    /// An exchange over the connection, of which nothing was repeated, took so long.
    pub(super) fn record_rtt(&mut self, connection: ConnectionId, rtt: Duration) {
        if let Some(connection) = self.connections.get_mut(&connection) {
            connection.rtt.sample(rtt);
        }
    }

    /// True if the connection is up and of an allowed transport.
    pub(super) fn uses(&self, connection: ConnectionId, allowed: SchemeSet) -> bool {
        self.connections.get(&connection).is_some_and(|connection| allowed.contains(connection.address.scheme))
    }
}

impl Remote {
    fn new(now: Time, role: Role, name: String, debt: QuotaUsage) -> Self {
        Self {
            role,
            name,
            labels: Labels::default(),
            allowance: Allowance::default(),
            cut: ServiceSet::EMPTY,
            since: now,
            connections: Vec::with_capacity(1),
            publisher: None,
            requests: VecDeque::new(),
            relays: 0,
            watches: 0,
            searches: 0,
            turn: None,
            debt,
            // Servers have caches below them and nobody beside them.
            relation: if role == Role::Server { Relation::Child(0) } else { Relation::Sibling },
            doubtful: false,
            limits_met: 0,
        }
    }

    /// Takes `cost` from what the node may do that makes work for others. False
    /// if not enough is left: what it said is dropped, as if lost, and an
    /// honest node says it again.
    pub(super) fn try_charge(&mut self, now: Time, cost: u32) -> bool {
        let charged = self.debt.charged.max(now) + PAUSE * cost;
        let allowed = self.role != Role::Node || charged.since(now) <= PAUSE * BURST;
        if allowed {
            self.debt.charged = charged;
        }
        allowed
    }

    /// Notes that the remote has met a limit. True if for the first time.
    pub(super) fn meet_limit(&mut self, limit: HubLimit) -> bool {
        let bit = 1 << limit as u32;
        let is_first = self.limits_met & bit == 0;
        self.limits_met |= bit;
        is_first
    }

    /// Number of something that the remote may have, if a node may have `per_node`.
    pub(super) fn allowance(&self, per_node: usize) -> usize {
        if self.role.is_hub() { per_node * 16 } else { per_node }
    }
}
