//! The hub machine: what `supernode` and `cs-server` share.
//!
//! A hub holds the directory of its nodes, hands requests to providers,
//! relays where it must, and passes on to other hubs what it cannot answer:
//! to its children, its parent, or, at the top, to other tops. The
//! client/server baseline is the same machine with [`HubKind::Server`]: no other
//! hubs but caches, and every request relayed.
//!
//! The parts share a core. Each owns its state, and none sees another one: it is given what it reads of others, and
//! says what they are to hear. What concerns two parts is told in this file, in `dispatch` and in `questions`.
//!
//! | file | content |
//! |---|---|
//! | `core`, `remotes`, `mesh`, `dialing`, `tree` | the core: connections, dials, and how other hubs stand to this one |
//! | `disclose`, `dialable` | addresses that a remote gets to see, or at which a node may be dialed |
//! | `hub_limit`, `query_quota`, `departed_usage` | limits of what each remote may ask, also if it comes anew |
//! | `timers` | reasons to be woken |
//! | `dispatch` | the part that a message is for, and registration |
//! | `questions` | requests and lookups, from the message to the answer |
//! | `registry` | records of own nodes, replicas, and copies of a cache: leases, claims, and answers to lookups |
//! | `requests` | a request's way from provider to provider, to one final answer |
//! | `relay`, `reflection` | flows through the hub, and copies of streams that its relay sends on |
//! | `hub_lookup` | lookups at many hubs |
//! | `summaries`, `route` | the services that other hubs have in each block, and where a question goes on to |
//! | `members` | other hubs of the tier, and the nodes that each has |
//! | `watches` | standing lookups, here and at other hubs |
//! | `replication`, `replica_sync`, `standby_connections` | what standbys are told, and connections with them |
//! | `rooms` | members of rooms |
//! | `leave` | the limits of the way out |

mod api;
mod config;
mod core;
mod counters;
mod departed_usage;
mod dialable;
mod dialing;
mod disclose;
mod dispatch;
mod hub_limit;
mod hub_lookup;
mod leave;
mod members;
mod mesh;
#[cfg(test)]
mod properties;
mod query_quota;
mod questions;
mod reflection;
mod registry;
mod relation;
mod relay;
mod remotes;
mod replica_sync;
mod replication;
mod request_key;
mod requests;
mod rooms;
mod route;
mod sender;
mod standby_connections;
mod status;
mod summaries;
#[cfg(test)]
mod testing;
mod timers;
mod tree;
mod watches;

use std::collections::BTreeMap;
use std::time::Duration;

use roost_wire::messages::{Candidate, RegistrationMessage};
use roost_wire::random::SplitMix64;
use roost_wire::{Address, Area, Channel, ConnectionId, DialId, NodeId, RemoteIdentity, Role, Service, Time};

use crate::machine::{Deadline, Input, Machine, Traffic, Transmit};
use crate::wall::WallClock;

pub use api::{HubCommand, HubEvent, MAX_RECEIVERS, MAX_REFLECTED_STREAMS, ReflectedStream};
pub use config::{HubConfig, HubKind, Limits, OverflowPolicy, ReflectionConfig};
pub use counters::{HubCounters, RequestOutcome};
pub use hub_limit::HubLimit;
pub use leave::DRAIN;
pub use members::MemberStatus;
pub use relation::Relation;
pub use status::{HubStatus, IndexEntry, RemoteHubStatus};

use self::core::HubCore;
use hub_lookup::HubLookups;
use leave::{HAND_OVER, REASON};
use members::{Members, OwnLoad};
use mesh::DialPurpose;
use registry::Registry;
use remotes::LostConnection;
use replication::ReplicaSenders;
use requests::Requests;
use rooms::RoomDirectory;
use sender::Sender;
use summaries::Summaries;
use timers::{HubTimer, MAX_PER_WAKE};
use watches::WatchTable;

/// A hub. The documentation of the module and of [`Machine`] say how it works
/// and how it is driven.
#[derive(Debug)]
pub struct Hub {
    core: HubCore,
    left: bool,
    registry: Registry,
    requests: Requests,
    rooms: RoomDirectory,
    hub_lookups: HubLookups,
    summaries: Summaries,
    members: Members,
    watches: WatchTable,
    replication: ReplicaSenders,
}

impl Hub {
    /// A hub that has not seen anything yet. It wants its first
    /// [`Input::Timeout`] at once if it has peers to dial.
    pub fn new(config: HubConfig) -> Self {
        let mut random = SplitMix64::new(config.seed);
        let mut hub = Self {
            summaries: Summaries::new(random.next_u64() as u32),
            left: false,
            registry: Registry::new(&config),
            requests: Requests::new(config.secret),
            rooms: RoomDirectory::default(),
            hub_lookups: HubLookups::default(),
            members: Members::new(&config),
            watches: WatchTable::default(),
            replication: ReplicaSenders::default(),
            core: HubCore::new(config, random),
        };
        hub.note_own_load();
        hub.plan_timers();
        hub
    }

    /// What the hub has counted since its start.
    pub fn counters(&self) -> &HubCounters {
        &self.core.counters
    }

    /// The group's members as this hub knows them, without itself.
    pub fn members(&self) -> Vec<MemberStatus> {
        self.members.member_statuses(&self.core)
    }

    /// The hub at this moment.
    pub fn status(&self, now: Time) -> HubStatus {
        status::status(self, now)
    }

    /// The index in the order of the nodes' ids: at most `limit` entries after
    /// `after`, so that a caller can page through it.
    pub fn index(&self, now: Time, after: Option<NodeId>, limit: usize) -> Vec<IndexEntry> {
        status::index(self, now, after, limit)
    }

    /// Providers of `service` in `area` by this hub's own directory, the best
    /// first; at most [`MAX_CANDIDATES`](roost_wire::messages::MAX_CANDIDATES) and none that are held back.
    pub fn find(&self, service: Service, area: Area, count: usize) -> Vec<Candidate> {
        status::find(self, service, area, count)
    }

    /// Seconds by which the wall clocks of remotes are ahead of this host's, as far as they told them.
    pub fn clocks(&self, now: Time) -> BTreeMap<NodeId, i64> {
        status::clocks(self, now)
    }

    /// Tells the members what this hub has itself.
    fn note_own_load(&mut self) {
        let own = OwnLoad {
            leases: self.registry.records().leases(),
            residual_kbps: self.requests.reflection.room(&self.core),
        };
        self.members.set_own_load(own);
    }

    /// The host stood still. Who published before may be elsewhere by now, and who was told nothing
    /// meanwhile comes back within a lease: as after a start.
    fn slept(&mut self, slept: Duration) {
        let now = self.core.now;
        self.core.knows_since = Some(now);
        self.registry.slept(slept);
        self.core
            .remotes
            .connections
            .values_mut()
            .filter_map(|connection| connection.clock.as_mut())
            .for_each(|clock| clock.slept(slept));
    }

    fn close(&mut self, connection: ConnectionId, reason: &str) {
        self.core.out.push_back(Transmit::Close { connection, reason: reason.to_owned() });
        self.connection_down(connection, reason);
    }

    fn connection_up(
        &mut self,
        up: (ConnectionId, Option<DialId>),
        remote: RemoteIdentity,
        address: Address,
        rtt: Duration,
    ) {
        let now = self.core.now;
        let (connection, dial) = up;
        if let Some(reason) = self.core.refusal_of(&remote, dial.is_some()) {
            self.core.out.push_back(Transmit::Close { connection, reason: reason.to_owned() });
            if remote.node == self.core.config.node {
                self.core.mesh.on_self_dialed(dial);
                self.core.events.push_back(HubEvent::SameIdentity { address });
            }
            return self.dial_ended(dial, Err(reason));
        }
        let (node, role) = (remote.node, remote.role);
        let first = self.core.remotes.add_connection(now, connection, remote.clone(), address.clone(), rtt);
        self.registry.directory.mark_heard(now, node);
        self.core.greet(connection);
        if let Some(spare) = self.core.remotes.excess_connection(node, connection) {
            self.close(spare, "one connection too many");
        }
        match (role.is_hub(), first) {
            (true, true) => self.core.events.push_back(HubEvent::HubUp { remote, address }),
            (false, true) => self.core.events.push_back(HubEvent::Attached { remote, address }),
            (_, false) => {}
        }
        self.dial_ended(dial, Ok(node));
        if role.is_hub() && first {
            self.summaries.reset_summary_outboxes(&mut self.core);
            self.watches.forward_watches(&mut self.core, self.summaries.blocks());
            self.register_all();
            self.members.on_hub_connected(&mut self.core, node);
        }
        if role.is_hub() {
            self.replication.resync_if_stale(&mut self.core, node);
        }
    }

    fn connection_down(&mut self, connection: ConnectionId, reason: &str) {
        let now = self.core.now;
        let Some(LostConnection { node, role, last }) = self.core.remotes.down(connection) else { return };
        self.registry.replicas.close_receiver(node, connection, last);
        self.with_requests(|requests, turn| requests.lose_connection(turn, node, connection));
        if !last {
            self.watches.move_watches(&mut self.core, node, connection);
            if role == Role::SuperNode {
                self.resend_state(node);
            }
            return;
        }
        let Some(remote) = self.core.remotes.forget(now, node) else { return };
        for key in remote.requests {
            self.requests.drop_request_of(node, key);
        }
        self.watches.drop_watches_of(&mut self.core, node);
        if role.is_hub() {
            self.registry.apply_contested_claims(&mut self.core, node);
            self.tell_record_changes();
            self.core.events.push_back(HubEvent::HubDown { node, reason: reason.to_owned() });
            self.on_hub_lost(node, now.since(remote.since), reason);
            self.registry.suspend_registered(&mut self.core, node);
        } else {
            self.registry.directory.suspend(node);
            self.settle_claim(node);
            self.rooms.room_member_lost(&mut self.core, node);
            self.core.events.push_back(HubEvent::Detached { node, reason: reason.to_owned() });
        }
    }

    /// One of the connections with a peer is gone, and with it perhaps some of
    /// what was said reliably: both say again what the other is to know.
    fn resend_state(&mut self, node: NodeId) {
        self.watches.forget_changes_of(&mut self.core, self.summaries.blocks(), node);
        self.replication.resync_if_stale(&mut self.core, node);
        self.summaries.resend_summary(&mut self.core, node);
    }

    /// The last connection with a hub is gone; it was there for as long as it `stayed`.
    fn on_hub_lost(&mut self, node: NodeId, stayed: Duration, reason: &str) {
        self.core.lose_hub(node, stayed, reason);
        self.summaries.summaries_lost_hub(&mut self.core, node);
        self.summaries.reset_summary_outboxes(&mut self.core);
        self.with_requests(|requests, turn| requests.requests_lost_hub(turn, node));
        self.members.on_hub_disconnected(&mut self.core, node);
        self.replication.standby_dial_failed(&mut self.core, node);
        self.hub_lookups.drop_silent_hub(&mut self.core, node);
        self.answer_waiters();
        self.watches.forget_changes_of(&mut self.core, self.summaries.blocks(), node);
    }

    /// A dial has led to a remote, or to nothing.
    fn dial_ended(&mut self, dial: Option<DialId>, outcome: Result<NodeId, &str>) {
        let reached = outcome.ok();
        match self.core.end_dial(dial, outcome) {
            Some(DialPurpose::Member(member, cost)) => match reached {
                Some(node) => {
                    self.core.advice.refund(cost);
                    self.members.member_reached(&mut self.core, node);
                }
                None => self.members.member_unreachable(&mut self.core, member),
            },
            Some(DialPurpose::Standby(hub)) => match reached {
                Some(_) => self.replication.standby_reached(&mut self.core, hub),
                None => self.replication.standby_dial_failed(&mut self.core, hub),
            },
            Some(DialPurpose::Provider { node, waiting, .. }) => {
                for key in waiting {
                    let is_reached = reached.is_some();
                    self.with_requests(|requests, turn| requests.dialled_for(turn, key, node, is_reached));
                }
            }
            Some(DialPurpose::Hub(_)) | None => {}
        }
        if let Some(node) = reached {
            self.core.start_pinging(node);
        }
    }

    /// Sends the nodes to their standbys, which have their records, and stays
    /// for what is under way. Without another hub in sight it closes every
    /// connection that carries no relayed flow.
    fn leave(&mut self) {
        let now = self.core.now;
        if self.core.leaving.is_some() {
            return;
        }
        self.core.leaving = Some(now);
        self.core.mesh.stop();
        self.replication.flush_replicas(&mut self.core, self.registry.records());
        self.note_own_load();
        self.members.leave_group(&mut self.core);
        let alone = self.core.remotes.hub_count() == 0;
        let connections = self.core.remotes.connections.iter();
        let nodes: Vec<ConnectionId> =
            connections.filter(|(_, at)| at.role == Role::Node).map(|(connection, _)| *connection).collect();
        let busy = self.requests.relays.connections();
        for connection in nodes {
            if !alone {
                self.core.send(connection, Channel::Reliable { flow: 0 }, Traffic::Join, RegistrationMessage::Handover);
            } else if !busy.contains(&connection) {
                self.close(connection, REASON);
            }
        }
    }

    /// A node has turned to another hub, or leaves.
    fn close_departed_node(&mut self, from: Sender) {
        if self.core.leaving.is_some() && !self.requests.relays.connections().contains(&from.connection) {
            self.close(from.connection, REASON);
        }
    }

    /// Whether something goes through this hub: relayed, or reflected, whose
    /// receivers find another way meanwhile.
    fn has_traffic(&self) -> bool {
        self.requests.relays.len() > 0 || self.requests.reflection.is_busy()
    }

    /// When the drain ends at the latest; `None` unless it is under way.
    fn drain_due(&self) -> Option<Time> {
        let since = self.core.leaving.filter(|_| !self.left)?;
        Some(since + if self.has_traffic() { DRAIN } else { HAND_OVER })
    }

    /// Says goodbye when every node has gone and nothing is relayed any more,
    /// or the time is up.
    fn end_drain(&mut self) {
        let now = self.core.now;
        let Some(due) = self.drain_due() else { return };
        let nodes_may_go = self.core.remotes.hub_count() > 0 && self.core.remotes.has_nodes();
        let waits = self.has_traffic() || nodes_may_go;
        if waits && now < due {
            return;
        }
        self.left = true;
        let rest: Vec<ConnectionId> = self.core.remotes.connections.keys().copied().collect();
        for connection in rest {
            self.close(connection, REASON);
        }
        self.core.events.push_back(HubEvent::Left);
    }

    fn expire_leases(&mut self) {
        for _ in 0..MAX_PER_WAKE {
            let Some(place) = self.registry.directory.expire(self.core.now) else { return };
            if self.registry.replicas.release(place.node) {
                self.registry.registered(&mut self.core, place.node, Some(place));
                self.tell_record_changes();
                continue;
            }
            self.core.counters.expiries += 1;
            self.on_record_removed(place, "expired");
            // Nothing came over any of its connections for a whole lease.
            for connection in self.core.remotes.connections_of(place.node).to_vec() {
                self.close(connection, "nothing was heard from the node for a lease");
            }
        }
    }

    /// A node's record has come or changed: the server is to hold it, too.
    pub(super) fn register_at_server(&mut self, node: NodeId) {
        self.registry.forget_cached(node);
        if let Some(server) = self.core.central() {
            self.replication.set_standby(&mut self.core, self.registry.records(), node, server);
        }
    }

    /// The server is there: every node is registered.
    pub(super) fn register_all(&mut self) {
        let Some(server) = self.core.central() else { return };
        let nodes: Vec<NodeId> = self.registry.directory.entries_after(None).map(|entry| entry.node()).collect();
        for node in nodes {
            self.replication.set_standby(&mut self.core, self.registry.records(), node, server);
        }
    }

    /// Serves the timers that are due, each once: what remains has the next wake.
    fn on_timeout(&mut self) {
        let now = self.core.now;
        let mut due: Vec<HubTimer> = std::iter::from_fn(|| self.core.timers.pop(now)).collect();
        due.sort_unstable();
        for timer in due {
            self.on_timer(timer);
        }
    }

    fn on_timer(&mut self, timer: HubTimer) {
        let Self { core, registry, requests, rooms, hub_lookups, summaries, members, watches, replication, .. } = self;
        match timer {
            HubTimer::Lease => self.expire_leases(),
            HubTimer::CachedRecord => registry.expire_cached(core.now),
            HubTimer::Request => self.with_requests(|requests, turn| requests.expire_requests(turn)),
            HubTimer::Relay => requests.relays.expire_relays(core),
            HubTimer::HubLookup => {
                hub_lookups.expire_hub_lookups(core);
                self.answer_waiters();
            }
            HubTimer::Reservation => requests.reflection.expire_reservations(core.now),
            HubTimer::Room => rooms.poll_rooms(core),
            HubTimer::Summary => {
                summaries.expire_summaries(core);
                summaries.tell_summaries(core);
            }
            HubTimer::Watch => watches.offer_watches(core, summaries.blocks()),
            HubTimer::Mesh => {
                for connection in core.poll_mesh() {
                    self.close(connection, "nothing was heard from the other hub");
                }
            }
            HubTimer::Replication => replication.poll_replication(core, registry.records()),
            HubTimer::StandbyConnection => replication.poll_standby_connections(core),
            HubTimer::Claim => {
                registry.poll_claims(core);
                self.tell_record_changes();
            }
            HubTimer::Members => members.poll_members(core),
            HubTimer::Balance => {
                self.note_own_load();
                self.members.poll_balance(&mut self.core, self.registry.records());
            }
            HubTimer::Drain => self.end_drain(),
        }
    }

    /// Sets the timer of each part to the first time that the part waits for.
    fn plan_timers(&mut self) {
        let drain = self.drain_due();
        let Self { core, registry, requests, rooms, hub_lookups, summaries, members, watches, replication, .. } = self;
        let mesh = core.mesh.next_due();
        let summary = summaries.summaries_due(core);
        let timers = &mut core.timers;
        timers.plan(HubTimer::Lease, registry.directory.next_expiry());
        timers.plan(HubTimer::CachedRecord, registry.next_cache_expiry());
        timers.plan(HubTimer::Request, requests.table.next_expiry());
        timers.plan(HubTimer::Relay, requests.relays.next_expiry());
        timers.plan(HubTimer::HubLookup, hub_lookups.next_expiry());
        timers.plan(HubTimer::Reservation, requests.reflection.next_due());
        timers.plan(HubTimer::Room, rooms.next_due());
        timers.plan(HubTimer::Summary, summary);
        timers.plan(HubTimer::Watch, watches.next_due());
        timers.plan(HubTimer::Mesh, mesh);
        timers.plan(HubTimer::Replication, replication.next_due());
        timers.plan(HubTimer::StandbyConnection, replication.next_dial());
        timers.plan(HubTimer::Claim, registry.claims.next_due());
        timers.plan(HubTimer::Members, members.next_due());
        timers.plan(HubTimer::Balance, members.next_share());
        timers.plan(HubTimer::Drain, drain);
    }
}

impl Machine for Hub {
    type Command = HubCommand;
    type Event = HubEvent;

    fn handle(&mut self, now: Time, input: Input<HubCommand>) {
        self.core.begin_input(now);
        self.registry.directory.tick(now);
        match input {
            Input::ConnectionUp { connection, dial, remote, address, rtt } => {
                self.connection_up((connection, dial), remote, address, rtt)
            }
            Input::ConnectionMoved { connection, address } => self.core.connection_moved(connection, address),
            Input::ConnectionDown { connection, reason, .. } => self.connection_down(connection, &reason),
            Input::DialFailed { dial, reason, .. } => self.dial_ended(Some(dial), Err(&reason)),
            Input::Message { connection, message } => self.handle_message(connection, &message),
            // What a hub tells of itself is what it was told to tell.
            Input::LocalAddress { .. } => {}
            // Multicast is among nodes.
            Input::Multicast { .. } => self.core.counters.stray += 1,
            Input::FlowBroken { connection, flow } => {
                self.requests.relays.flow_broken(&mut self.core, connection, flow)
            }
            Input::HostSuspended(slept) => self.slept(slept),
            Input::WallClock(unix_s) => self.core.wall_clock = Some(WallClock::new(now, unix_s)),
            Input::Timeout => self.on_timeout(),
            Input::Command(HubCommand::Leave) => self.leave(),
            Input::Command(HubCommand::ReflectionCapacity { residual_kbps, subscribers }) => {
                self.requests.reflection.note_residual(residual_kbps, subscribers);
            }
            Input::Command(HubCommand::ReflectedStreams { streams }) => {
                self.requests.reflection.record_streams(&mut self.core, streams)
            }
        }
        if std::mem::take(&mut self.core.relations_changed) {
            self.summaries.reset_summary_outboxes(&mut self.core);
        }
        self.note_own_load();
        self.members.announce_load(&mut self.core);
        self.end_drain();
        if !self.core.keeps_timers {
            self.plan_timers();
        }
    }

    fn poll_transmit(&mut self) -> Option<Transmit> {
        self.core.out.pop_front()
    }

    fn poll_event(&mut self) -> Option<HubEvent> {
        self.core.events.pop_front()
    }

    fn poll_deadline(&self) -> Option<Deadline> {
        self.core.timers.next()
    }
}
