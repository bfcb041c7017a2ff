//! The hub machine: what `supernode` and `cs-server` share.
//!
//! A hub holds the directory of its nodes, hands requests to providers,
//! relays where it must, and passes on to other hubs what it cannot answer:
//! to its children, its parent, or, at the top, to other tops. The
//! client/server baseline is the same machine with [`HubKind::Server`]: no other
//! hubs but caches, and every request relayed.
//!
//! | file | its part |
//! |---|---|
//! | `remotes` | connections and who is at their other ends |
//! | `dispatch` | who may say what, and which part it is for |
//! | `dialable` | where nodes may be dialled, of all that they name |
//! | `leases` | publishing, renewing, withdrawing, expiring, claims |
//! | `requests` | a request's way from provider to provider, to one final answer |
//! | `lookup` | lookups: the path that has to be fast |
//! | `relay` | flows through the hub |
//! | `members`, `balance` | which other hubs there are, and who has how many nodes |
//! | `mesh`, `tree` | other hubs: dialling, watching over them, who stands above whom |
//! | `summaries` | who has something where, told upward |
//! | `route`, `hub_lookup` | where a question goes on to, and searches at many hubs |
//! | `watches` | who wants to hear of changes |
//! | `replication`, `standby` | what standbys are told of this hub's nodes, and what is kept for those of others |
//! | `replica_sync` | what both know already, so that only changes are told |
//! | `cache` | a cache of the baseline, and what its server does for it |
//! | `standby_connections` | connections with standbys that no other part dials |
//! | `moved` | where nodes went that have another home now, and telling the old one |
//! | `join_limiter` | who waits when many come at once |
//! | `query_quota`, `departed_usage` | how much each remote may ask, also if it comes anew |
//! | `reflection` | streams that the owner's relay sends on: what is granted to whom, and whether there is room |
//! | `rooms` | who is in which room |
//! | `leave` | the way out |

mod api;
mod balance;
mod cache;
mod claims;
mod config;
mod counters;
mod departed_usage;
mod dialable;
mod disclose;
mod dispatch;
mod hub_limit;
mod hub_lookup;
mod join_limiter;
mod leases;
mod leave;
mod lookup;
mod members;
mod mesh;
mod moved;
#[cfg(test)]
mod properties;
mod query_quota;
mod reflection;
mod relay;
mod remotes;
mod replica_sync;
mod replicas;
mod replication;
mod requests;
mod rooms;
mod route;
mod standby_connections;
mod status;
mod summaries;
#[cfg(test)]
mod testing;
mod tree;
mod watches;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::address::Address;
use crate::address_filter::{DialedHosts, HubDialBudget};
use crate::delivery::Delivery;
use crate::directory::{Directory, Hit};
use crate::ids::{ConnectionId, DialId, NodeId};
use crate::machine::{Channel, Deadline, Input, Machine, RemoteIdentity, Traffic, Transmit};
use crate::random::SplitMix64;
use crate::service::Role;
use crate::time::Time;
use crate::wall::WallClock;
use crate::wire::{Hello, Message, ProbeMessage};

pub use api::{HubCommand, HubEvent};
pub use config::{HubConfig, HubKind, Limits};
pub use counters::{HubCounters, RequestOutcome};
pub use hub_limit::HubLimit;
pub use leave::DRAIN;
pub use members::MemberStatus;
pub use reflection::{MAX_RECEIVERS, MAX_REFLECTED_STREAMS, OverflowPolicy, ReflectedStream, ReflectionConfig};
pub use status::{HubStatus, IndexEntry, RemoteHubStatus};
pub use tree::Relation;

use balance::Balance;
use claims::Claims;
use hub_lookup::HubLookups;
use join_limiter::JoinRateLimiter;
use members::Members;
use mesh::Mesh;
use moved::MovedNodes;
use reflection::ReflectionState;
use relay::Relays;
use remotes::{LostConnection, Remotes};
use replicas::Replicas;
use replication::ReplicaSenders;
use requests::RequestTable;
use rooms::RoomDirectory;
use standby_connections::StandbyConnections;
use summaries::Summaries;
use watches::WatchTable;

/// Timers of one kind that one wake serves; the rest wait for the next wake,
/// which is due at once.
const MAX_PER_WAKE: usize = 1_024;

/// A hub. The documentation of the module and of [`Machine`] say how it works
/// and how it is driven.
#[derive(Debug)]
pub struct Hub {
    config: HubConfig,
    random: SplitMix64,
    started: Option<Time>,
    /// Since when it knows its nodes: its start, or the last time that its host stood still.
    knows_since: Option<Time>,
    /// Since when it is leaving.
    leaving: Option<Time>,
    left: bool,
    directory: Directory,
    /// Of a cache: what the server has named.
    cached: Directory,
    /// Names of nodes whose copies are held, of at most twice as many.
    cached_names: BTreeMap<NodeId, String>,
    remotes: Remotes,
    requests: RequestTable,
    relays: Relays,
    reflection: ReflectionState,
    rooms: RoomDirectory,
    hub_lookups: HubLookups,
    mesh: Mesh,
    summaries: Summaries,
    members: Members,
    balance: Balance,
    watches: WatchTable,
    replica_senders: ReplicaSenders,
    replicas: Replicas,
    standby_connections: StandbyConnections,
    claims: Claims,
    moved: MovedNodes,
    targets: DialedHosts,
    advice: HubDialBudget,
    join_limiter: JoinRateLimiter,
    counters: HubCounters,
    /// Where searches put their answer, kept for its memory.
    hits: Vec<Hit>,
    /// Records that searches have looked at for the message in hand.
    examined: usize,
    /// The host's, if the driver has told it.
    wall_clock: Option<WallClock>,
    out: VecDeque<Transmit>,
    events: VecDeque<HubEvent>,
}

/// Who sent a message, and over which connection.
#[derive(Clone, Copy, Debug)]
struct Sender {
    connection: ConnectionId,
    node: NodeId,
    role: Role,
}

impl Hub {
    /// A hub that has not seen anything yet. It wants its first
    /// [`Input::Timeout`] at once if it has peers to dial.
    pub fn new(config: HubConfig) -> Self {
        let mut random = SplitMix64::new(config.seed);
        Self {
            summaries: Summaries::new(random.next_u64() as u32),
            random,
            started: None,
            knows_since: None,
            leaving: None,
            left: false,
            directory: Directory::new(config.limits.nodes, config.lease),
            cached: Directory::new(cache::MAX_CACHED, config.lease),
            cached_names: BTreeMap::new(),
            remotes: Remotes::default(),
            requests: RequestTable::default(),
            relays: Relays::default(),
            reflection: ReflectionState::new(config.secret),
            rooms: RoomDirectory::default(),
            hub_lookups: HubLookups::default(),
            mesh: Mesh::new(&config),
            members: Members::new(&config),
            balance: Balance::default(),
            watches: WatchTable::default(),
            replica_senders: ReplicaSenders::default(),
            replicas: Replicas::default(),
            standby_connections: StandbyConnections::default(),
            claims: Claims::default(),
            moved: MovedNodes::default(),
            targets: DialedHosts::default(),
            advice: HubDialBudget::default(),
            join_limiter: JoinRateLimiter::default(),
            counters: HubCounters::default(),
            hits: Vec::new(),
            examined: 0,
            wall_clock: None,
            out: VecDeque::new(),
            events: VecDeque::new(),
            config,
        }
    }

    /// What the hub has counted since its start.
    pub fn counters(&self) -> &HubCounters {
        &self.counters
    }

    /// Whether the hub started less than a lease ago, so that nodes of an
    /// earlier run may not have found it yet.
    fn is_young(&self, now: Time) -> bool {
        self.knows_since.is_none_or(|since| now.since(since) < self.config.lease)
    }

    /// The host stood still. Who published before may be elsewhere by now, and who was told nothing
    /// meanwhile comes back within a lease: as after a start.
    fn slept(&mut self, now: Time, slept: Duration) {
        self.knows_since = Some(now);
        self.directory.slept(slept);
        self.cached.slept(slept);
        self.remotes
            .connections
            .values_mut()
            .filter_map(|connection| connection.clock.as_mut())
            .for_each(|clock| clock.slept(slept));
    }

    fn send(&mut self, connection: ConnectionId, channel: Channel, traffic: Traffic, message: &Message) {
        let (delivery, message) = (Delivery::CONTROL, message.encode());
        self.out.push_back(Transmit::Message { connection, channel, delivery, traffic, message });
    }

    fn close(&mut self, now: Time, connection: ConnectionId, reason: &str) {
        self.out.push_back(Transmit::Close { connection, reason: reason.to_owned() });
        self.connection_down(now, connection, reason);
    }

    fn refused(&mut self, node: NodeId, what: &'static str) {
        self.counters.refused_by_role += 1;
        self.events.push_back(HubEvent::Refused { node, what });
    }

    fn connection_up(
        &mut self,
        now: Time,
        up: (ConnectionId, Option<DialId>),
        remote: RemoteIdentity,
        address: Address,
        rtt: Duration,
    ) {
        let (connection, dial) = up;
        if let Some(reason) = self.unwelcome(&remote, dial.is_some()) {
            self.out.push_back(Transmit::Close { connection, reason: reason.to_owned() });
            if remote.node == self.config.node {
                self.mesh.on_self_dialed(dial);
                self.events.push_back(HubEvent::SameIdentity { address });
            }
            return self.dial_ended(now, dial, Err(reason));
        }
        let (node, role) = (remote.node, remote.role);
        let first = self.remotes.add_connection(now, connection, remote.clone(), address.clone(), rtt);
        self.directory.mark_heard(now, node);
        let clock_s = self.wall_clock.map(|clock| clock.unix_s(now));
        self.send(
            connection,
            Channel::Reliable { flow: 0 },
            Traffic::Join,
            &Message::Probe(ProbeMessage::Hello(Hello { clock_s, ..Hello::OWN })),
        );
        if let Some(spare) = self.remotes.excess_connection(node, connection) {
            self.close(now, spare, "one connection too many");
        }
        match (role.is_hub(), first) {
            (true, true) => self.events.push_back(HubEvent::HubUp { remote, address }),
            (false, true) => self.events.push_back(HubEvent::Attached { remote, address }),
            (_, false) => {}
        }
        self.dial_ended(now, dial, Ok(node));
        if role.is_hub() && first {
            self.reset_summary_outboxes(now);
            self.forward_watches();
            self.register_all(now);
            self.on_hub_connected(now, node);
        }
        if role.is_hub() {
            self.resync_if_stale(now, node);
        }
    }

    /// Why a connection with `peer`, which this hub has `dialled` or not, is
    /// not wanted.
    fn unwelcome(&mut self, remote: &RemoteIdentity, dialled: bool) -> Option<&'static str> {
        if remote.node == self.config.node {
            return Some("this is the hub itself");
        }
        if remote.role.is_hub() && remote.role != self.config.kind.role() {
            self.refused(remote.node, "its role may not attach here");
            return Some("this hub does not admit the role in your certificate");
        }
        if remote.role == Role::Server && self.is_cache() && !dialled {
            self.refused(remote.node, "it would be the cache of a cache");
            return Some("this is a cache itself: a cache attaches to the central server");
        }
        if self.leaving.is_some() {
            return Some("the hub is leaving");
        }
        if self.remotes.connections.len() >= self.config.limits.connections {
            self.counters.count_over_limit(HubLimit::Connections);
            return Some("the hub has too many connections");
        }
        None
    }

    fn connection_down(&mut self, now: Time, connection: ConnectionId, reason: &str) {
        let Some(LostConnection { node, role, last }) = self.remotes.down(connection) else { return };
        self.replicas.close_receiver(node, connection, last);
        self.relays_lost_connection(now, node, connection);
        if !last {
            self.move_watches(node, connection);
            if role == Role::SuperNode {
                self.resend_state(now, node);
            }
            return;
        }
        let Some(remote) = self.remotes.forget(now, node) else { return };
        for key in remote.requests {
            self.drop_request_of(node, key);
        }
        self.drop_watches_of(node);
        if role.is_hub() {
            self.apply_contested_claims(now, node);
            self.events.push_back(HubEvent::HubDown { node, reason: reason.to_owned() });
            self.on_hub_lost(now, node, now.since(remote.since), reason);
            self.suspend_registered(node);
        } else {
            self.directory.suspend(node);
            self.apply_pending_claim(now, node);
            self.room_member_lost(now, node);
            self.events.push_back(HubEvent::Detached { node, reason: reason.to_owned() });
        }
    }

    fn timeout(&mut self, now: Time) {
        self.expire_leases(now);
        self.expire_cached(now);
        self.expire_requests(now);
        self.expire_relays(now);
        self.expire_hub_lookups(now);
        self.expire_reservations(now);
        self.poll_rooms(now);
        self.expire_summaries(now);
        self.tell_summaries(now);
        self.offer_watches(now);
        self.poll_mesh(now);
        self.poll_replication(now);
        self.poll_standby_connections(now);
        self.poll_claims(now);
        self.poll_members(now);
        self.poll_balance(now);
        self.end_drain(now);
    }
}

impl Machine for Hub {
    type Command = HubCommand;
    type Event = HubEvent;

    fn handle(&mut self, now: Time, input: Input<HubCommand>) {
        self.started.get_or_insert(now);
        self.knows_since.get_or_insert(now);
        self.directory.tick(now);
        match input {
            Input::ConnectionUp { connection, dial, remote, address, rtt } => {
                self.connection_up(now, (connection, dial), remote, address, rtt)
            }
            Input::ConnectionMoved { connection, address } => self.connection_moved(connection, address),
            Input::ConnectionDown { connection, reason, .. } => self.connection_down(now, connection, &reason),
            Input::DialFailed { dial, reason, .. } => self.dial_ended(now, Some(dial), Err(&reason)),
            Input::Message { connection, message } => self.handle_message(now, connection, &message),
            // What a hub tells of itself is what it was told to tell.
            Input::LocalAddress { .. } => {}
            // Multicast is among nodes.
            Input::Multicast { .. } => self.counters.stray += 1,
            Input::FlowBroken { connection, flow } => self.flow_broken(connection, flow),
            Input::HostSuspended(slept) => self.slept(now, slept),
            Input::WallClock(unix_s) => self.wall_clock = Some(WallClock::new(now, unix_s)),
            Input::Timeout => self.timeout(now),
            Input::Command(HubCommand::Leave) => self.leave(now),
            Input::Command(HubCommand::ReflectionCapacity { residual_kbps, subscribers }) => {
                self.note_residual(residual_kbps, subscribers);
            }
            Input::Command(HubCommand::ReflectedStreams { streams }) => self.record_streams(now, streams),
        }
        self.announce_load(now);
        self.end_drain(now);
    }

    fn poll_transmit(&mut self) -> Option<Transmit> {
        self.out.pop_front()
    }

    fn poll_event(&mut self) -> Option<HubEvent> {
        self.events.pop_front()
    }

    fn poll_deadline(&self) -> Option<Deadline> {
        let due = |at: Option<Time>, reason| at.map(|at| Deadline { at, reason });
        [
            due(self.directory.next_expiry(), "a lease ends"),
            due(self.cached.next_expiry(), "what a cache was told is too old"),
            due(self.requests.next_expiry(), "a request's deadline"),
            due(self.relays.next_expiry(), "a relayed flow is idle"),
            due(self.hub_lookups.next_expiry(), "a search at other hubs is late"),
            due(self.reflection.next_due(), "a copy that was granted has not begun"),
            due(self.rooms.next_due(), "a room has to be tended"),
            due(self.summaries_due(), "a summary is due"),
            due(self.watches.next_due(), "a watch is offered again"),
            due(self.mesh.next_due(), "another hub wants tending"),
            due(self.replica_senders.next_due(), "a standby wants to know"),
            due(self.claims.next_due(), "a node is asked if it is here"),
            due(self.standby_connections.next_due(), "a standby is to be reached"),
            due(self.members.next_due(), "a membership message is due"),
            due(self.balance.next_due(), "a super node that has joined gets a node"),
            due(self.drain_due(), "the drain ends"),
        ]
        .into_iter()
        .fold(None, Deadline::earlier)
    }
}
