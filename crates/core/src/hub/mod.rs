//! The hub machine: what `supernode` and `cs-server` share.
//!
//! A hub holds the directory of its nodes, hands requests to providers,
//! relays where it must, and passes on to other hubs what it cannot answer:
//! to its children, its parent, or, among roots, to other roots. The
//! client/server baseline is the same machine with [`HubKind::Server`]: no other
//! hubs but caches, and every request relayed.
//!
//! The parts share a core. Each owns its state, and none sees another one: it is given what it reads of others, and
//! says what they are to hear. What concerns two parts is told in this file and in `dispatch`, `questions`,
//! `connections`, `documents`, `policy`, `wakes` and `leave`.
//!
//! | file | content |
//! |---|---|
//! | `api`, `config`, `status`, `counters` | the interface to the owner |
//! | `action`, `sender`, `found_candidate`, `relation`, `copy_room`, `provider_event` | words that the parts share |
//! | `core`, `remotes`, `mesh`, `dialing`, `tree` | connections, dials, and how other hubs stand to this one |
//! | `disclose`, `dialable` | addresses that a remote gets to see, or at which a node may be dialed |
//! | `hub_limit`, `query_quota`, `departed_usage` | limits of what each remote may ask, also if it comes anew |
//! | `timers`, `wakes` | reasons to be woken, and the work at each wake |
//! | `connections`, `dispatch` | connections that come and go, the part that a message is for, and registration |
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
//! | `mailbox` | sealed files that wait for nodes |
//! | `progress` | how many nodes of each hub hold the newest documents of the group |
//! | `documents` | documents of the group |
//! | `policy` | what the group's policy lets nodes publish, ask for and be told |
//! | `leave` | the way out |

mod action;
mod api;
mod config;
mod connections;
mod copy_room;
mod core;
mod counters;
mod departed_usage;
mod dialable;
mod dialing;
mod disclose;
mod dispatch;
mod documents;
mod found_candidate;
mod hub_limit;
mod hub_lookup;
mod leave;
mod mailbox;
mod members;
mod mesh;
mod policy;
mod progress;
#[cfg(test)]
mod properties;
mod provider_event;
mod query_quota;
mod questions;
mod reflection;
mod registry;
mod relation;
mod relay;
mod remotes;
mod replica_sync;
mod replication;
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
mod wakes;
mod watches;

use roost_wire::random::SplitMix64;
use roost_wire::{ConnectionId, Time};

use crate::machine::{Deadline, Input, Machine, Transmit};
use crate::wall::WallClock;

pub use api::{HubCommand, HubEvent, MAX_RECEIVERS, MAX_REFLECTED_STREAMS, ReflectedStream};
pub use config::{HubConfig, HubKind, Limits, OverflowPolicy, ReflectionConfig};
pub use counters::{HubCounters, RequestOutcome};
pub use documents::DocumentStatus;
pub use hub_limit::HubLimit;
pub use leave::DRAIN;
pub use members::MemberStatus;
pub use relation::Relation;
pub use status::{HubStatus, IndexEntry, RemoteHubStatus};

use self::core::HubCore;
use hub_lookup::HubLookups;
use mailbox::HubMailbox;
use members::{Members, OwnLoad};
use progress::ProgressTable;
use registry::Registry;
use replication::ReplicaSenders;
use requests::Requests;
use rooms::RoomDirectory;
use summaries::Summaries;
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
    mailbox: HubMailbox,
    hub_lookups: HubLookups,
    summaries: Summaries,
    members: Members,
    watches: WatchTable,
    replication: ReplicaSenders,
    progress: ProgressTable,
}

impl Hub {
    /// A hub that has not seen anything yet. It wants its first
    /// [`Input::Timeout`] at once if it has hubs to dial.
    pub fn new(config: HubConfig) -> Self {
        let mut random = SplitMix64::new(config.seed);
        let mut hub = Self {
            summaries: Summaries::new(random.next_u64() as u32),
            left: false,
            registry: Registry::new(&config),
            requests: Requests::new(config.secret),
            rooms: RoomDirectory::default(),
            mailbox: HubMailbox::default(),
            hub_lookups: HubLookups::new(config.secret),
            members: Members::new(&config),
            watches: WatchTable::default(),
            replication: ReplicaSenders::default(),
            progress: ProgressTable::default(),
            core: HubCore::new(config, random),
        };
        hub.note_own_load();
        hub.plan_timers();
        hub
    }

    /// Counts since the start of the hub.
    pub fn counters(&self) -> &HubCounters {
        &self.core.counters
    }

    /// Tells the members what this hub has itself.
    fn note_own_load(&mut self) {
        let own = OwnLoad { leases: self.registry.records().leases(), room: self.requests.copy_room(&self.core) };
        self.members.set_own_load(own);
    }

    /// The host stood still. Who published before may be elsewhere by now, and who was told nothing
    /// meanwhile comes back within a lease: as after a start.
    fn on_host_suspended(&mut self) {
        self.core.knows_since = Some(self.core.now);
        self.core.doubt_hubs();
    }

    fn on_wall_clock(&mut self, clock: WallClock) {
        self.core.wall_clock = Some(clock);
        self.registry.set_clock(self.core.now, clock);
    }

    fn close(&mut self, connection: ConnectionId, reason: &str) {
        self.core.out.push_back(Transmit::Close { connection, reason: reason.to_owned() });
        self.connection_down(connection, reason);
    }
}

impl Machine for Hub {
    type Command = HubCommand;
    type Event = HubEvent;

    fn handle(&mut self, now: Time, input: Input<HubCommand>) {
        self.core.begin_input(now);
        self.registry.tick(now);
        match input {
            Input::ConnectionUp { connection, dial, remote, address, rtt } => {
                self.connection_up(connection, dial, remote, address, rtt)
            }
            Input::ConnectionMoved { connection, address } => self.core.connection_moved(connection, address),
            Input::ConnectionDown { connection, reason, refused } => {
                let node = self.core.remotes.connections.get(&connection).map(|gone| gone.node);
                self.connection_down(connection, &reason);
                if let Some(node) = node.filter(|_| refused) {
                    self.forget_refused(node);
                }
            }
            Input::DialFailed { dial, reason, .. } => self.dial_ended(Some(dial), Err(&reason)),
            Input::Message { connection, message } => {
                self.follow_records();
                self.handle_message(connection, &message);
            }
            // A hub tells of itself only what it was told to tell.
            Input::LocalAddress { .. } => {}
            // Multicast is among nodes.
            Input::Multicast { .. } => self.core.counters.stray += 1,
            Input::FlowBroken { connection, flow } => self.requests.flow_broken(&mut self.core, connection, flow),
            Input::HostSuspended => self.on_host_suspended(),
            Input::WallClock(unix) => self.on_wall_clock(WallClock::new(now, unix)),
            Input::Timeout => self.on_timeout(),
            Input::Command(HubCommand::Leave) => self.leave(),
            Input::Command(HubCommand::Document(verdict)) => self.on_document_verdict(verdict),
            Input::Command(HubCommand::Policy(policy)) => self.on_policy(policy),
            Input::Command(HubCommand::Labels(labels)) => self.on_own_labels(labels),
            Input::Command(HubCommand::ReflectionCapacity { residual_kbps, subscribers }) => {
                self.requests.note_residual(residual_kbps, subscribers);
            }
            Input::Command(HubCommand::ReflectedStreams { streams }) => {
                self.requests.record_streams(&mut self.core, streams)
            }
        }
        if std::mem::take(&mut self.core.relations_changed) {
            self.summaries.reset_summary_outboxes(&mut self.core);
        }
        self.note_own_load();
        self.members.announce_load(&mut self.core);
        self.end_drain();
        self.drain_documents();
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
