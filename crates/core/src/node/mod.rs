//! The machine of a node: it keeps a home, asks for services and provides its own.
//!
//! The same machine serves in the overlay and in the client/server baseline;
//! which it is follows from what the hub is certified as.
//!
//! | part | decides |
//! |---|---|
//! | `dispatch`, `commands`, `reachability` | which part a message, a command, or a connection is for |
//! | `registration`, `republish_limiter`, `hubs` | which hub is home and what it is told |
//! | `change_home`, `redirect`, `failback` | going to another hub, and back |
//! | `liveness`, `standby`, `standby_search`, `lost_home` | when the home is gone, and which hub takes over |
//! | `requests`, `outgoing_request`, `sentences` | what is asked for, and when to give up |
//! | `ask`, `answers` | whom to ask, when to ask again, what hubs say to it |
//! | `multicast_search`, `search_methods`, `discovery_policy`, `multicast_load` | asking the subnet by multicast, and when to |
//! | `multicast` | answering what is asked on the subnet |
//! | `direct` | asking a known provider without a hub |
//! | `provider_dialing` | dialling a provider that does not reach this node |
//! | `receive`, `incoming_flow`, `flow_receiver`, `early_data` | what belongs to a request and how it ends |
//! | `provider_sessions`, `load`, `shares` | what to take on, how much, and who loses a place when there are too few |
//! | `requester_dialing`, `unreachable` | how to reach the requester, whom that failed |
//! | `serve`, `session`, `object_scheduler` | what to send, and how much of objects at once |
//! | `publish`, `publications` | a stream that super nodes reflect: one source, any number of members, what opens it |
//! | `subscribe`, `subscription` | taking such a stream, and finding it another way |
//! | `rooms` | being in rooms, and who else is in |
//! | `outgoing_pushes` | objects that are offered to a node, or by one |
//! | `tunnels` | ways through hubs to nodes that cannot be reached |
//! | `watch`, `ping`, `trace` | what their names say |
//!
//! The parts share a `core`: time, connections, timers, chance, and what waits
//! to leave. A part may read the home; what concerns two parts is told here, in
//! `commands`, `dispatch`, `connections` and `reachability`.

mod answers;
mod api;
mod ask;
mod change_home;
mod commands;
mod connections;
mod core;
mod direct;
mod discovery_policy;
mod dispatch;
mod early_data;
mod failback;
mod flow_receiver;
mod home_dialing;
mod hubs;
mod incoming_flow;
mod incoming_pushes;
mod liveness;
mod load;
mod lost_home;
mod multicast;
mod multicast_load;
mod multicast_search;
mod object_scheduler;
mod outgoing_pushes;
mod outgoing_request;
mod pace;
mod ping;
mod provider_dialing;
mod provider_sessions;
mod provisional;
mod publications;
mod publish;
mod published_addresses;
mod reachability;
mod receive;
mod redirect;
mod registration;
mod republish_limiter;
mod requester_dialing;
mod requests;
mod resume;
mod rooms;
mod sealed_keys;
mod search_methods;
mod sentences;
mod serve;
mod serve_request;
mod session;
mod shares;
mod standby;
mod standby_search;
mod status;
mod subscribe;
mod subscription;
mod timers;
mod trace;
mod tunnels;
mod unreachable;
mod watch;

use std::time::Duration;

use roost_wire::{Record, RequestId, Time, Version};

use self::connections::ConnectionLoss;
use self::core::Core;
use self::incoming_pushes::IncomingPushes;
use self::multicast::{MulticastResponder, ResponderParts};
use self::outgoing_pushes::OutgoingPushes;
use self::ping::Pings;
use self::provider_sessions::ProviderSessions;
use self::published_addresses::PublishedAddresses;
use self::registration::{HomeEvent, HomeRegistration};
use self::requests::OutgoingRequests;
use self::rooms::JoinedRooms;
use self::timers::Timer;
use self::watch::OutgoingWatches;
use crate::machine::{Deadline, Input, Machine, Transmit};
use crate::wall::WallClock;

pub use api::{
    Discovery, HomeStatus, NodeCommand, NodeConfig, NodeCounters, NodeEvent, NodeStatus, Provider, PublicationStatus,
    RequestStatus, RequestSummary, SessionId, SessionStatus, SourceOutput, Ticket, Trace, TracedHop,
};
pub use connections::IDLE;
pub use hubs::MAX_HUBS;
pub use incoming_pushes::{MAX_RECEPTIONS, MAX_RECEPTIONS_FROM_ONE};
pub use multicast::MAX_MULTICAST_REQUESTS;
pub use outgoing_pushes::MAX_PUSHES;
pub use ping::MAX_PINGS;
pub use provider_sessions::{MAX_ANSWERS, MAX_OBJECT_SESSIONS};
pub use publications::{MAX_MEMBERS, MAX_MEMBERS_PER_REQUESTER, MEMBER_SILENCE};
pub use publish::LINGER;
pub use requests::{LOOKUP_DEADLINE, MAX_REQUESTS};
pub use rooms::MAX_ROOMS;
pub use trace::{MAX_REPORTS, MAX_TRACES};
pub use watch::{MAX_WATCHED_NODES, MAX_WATCHES};

/// The most timers handled in one wake; the rest follow in the next.
const MAX_TIMERS_PER_WAKE: usize = 1024;

/// A node. The crate's documentation has the contract by which it is driven.
pub struct Node {
    core: Core,
    attach: HomeRegistration,
    requests: OutgoingRequests,
    provide: ProviderSessions,
    multicast: MulticastResponder,
    watches: OutgoingWatches,
    pings: Pings,
    hosts: PublishedAddresses,
    pushes: OutgoingPushes,
    receptions: IncomingPushes,
    rooms: JoinedRooms,
    left: bool,
}

impl Node {
    /// A node that has not yet turned to any hub: it does so when first driven.
    pub fn new(config: NodeConfig) -> Self {
        let mut core = Core::new(config.node, config.hub_role, config.seed);
        let provide = ProviderSessions::new(&config);
        let requests = OutgoingRequests::new(&config);
        let pushes = OutgoingPushes::new(&config);
        let record = Record {
            node: config.node,
            version: Version { epoch: config.epoch, sequence: 0 },
            cell: config.cell,
            services: config.services,
            capacity: provide.capacity(),
            addresses: config.addresses.into_iter().take(roost_wire::record::MAX_ADDRESSES).collect(),
        };
        let hosts = PublishedAddresses::new(record.addresses.clone());
        let attach = HomeRegistration::new(&mut core, record, config.hubs);
        Self {
            core,
            attach,
            requests,
            provide,
            multicast: MulticastResponder::new(config.name),
            watches: OutgoingWatches::default(),
            pings: Pings::default(),
            hosts,
            pushes,
            receptions: IncomingPushes::default(),
            rooms: JoinedRooms::default(),
            left: false,
        }
    }

    fn on_timeout(&mut self) {
        for _ in 0..MAX_TIMERS_PER_WAKE {
            let Some(timer) = self.core.timers.pop(self.core.now) else { return };
            self.on_timer(timer);
        }
    }

    fn on_timer(&mut self, timer: Timer) {
        let Self { core, attach, requests, provide, multicast, watches, pings, pushes, rooms, .. } = self;
        match timer {
            Timer::Room(ticket) => rooms.on_timer(core, attach, ticket),
            Timer::Attach => attach.on_attach_timer(core),
            Timer::Renew => attach.on_renew_timer(core),
            Timer::HomeReply => attach.on_exchange_timer(core),
            Timer::Standby => attach.on_standby_timer(core),
            Timer::Failback => attach.on_failback_timer(core),
            Timer::Ask(id) => {
                if let Some(since) = requests.on_ask_timer(core, attach, id) {
                    attach.suspect(core, since);
                }
            }
            Timer::Depart(connection) => attach.depart(core, connection),
            Timer::Meet(id) => requests.on_provider_late(core, id),
            Timer::Deadline(id) => requests.on_deadline(core, id),
            Timer::Report(id) => requests.on_report_timer(core, id),
            Timer::Receive(id) => requests.on_receive_timer(core, attach, id),
            Timer::Reach(id) => provide.on_reach_timer(core, id),
            Timer::Accept(id) => provide.on_accept_timer(core, id),
            Timer::Expire(id) => provide.on_expire_timer(core, id),
            Timer::Serve(id) => provide.on_serve_timer(core, id),
            Timer::Linger(id) => provide.on_linger_timer(core, id),
            Timer::Seal(id) => provide.seal(core, id),
            Timer::ExcludeNonmembers(id) => provide.on_strangers_timer(core, id),
            Timer::Resubscribe(id) => requests.on_resubscribe_timer(core, attach, id),
            Timer::Watch(id) => watches.on_timer(core, attach.home(), id),
            Timer::Settle(id) => watches.on_settle_timer(core, id),
            Timer::Ping(token) => pings.on_timer(core, token),
            Timer::Push(id) => pushes.on_timer(core, attach.home(), id),
            Timer::IncomingConnect(node) => pushes.calls.on_timer(core, node),
            Timer::Trace(ticket) => requests.traces.emit_trace(core, ticket),
            Timer::Idle(connection) => self.on_idle_timer(connection),
            Timer::MulticastSearch(id) => requests.on_multicast_search_timer(core, attach, id),
            Timer::MulticastReply(node, id) => multicast.on_timer(ResponderParts { core, attach, provide }, (node, id)),
        }
    }

    /// The host stood still, and the clocks of others did not.
    fn on_slept(&mut self, slept: Duration) {
        self.core.connections.clocks_mut().for_each(|clock| clock.slept(slept));
        self.attach.on_slept(&mut self.core);
    }

    /// Passes on what has become of the home.
    fn drain_home_events(&mut self) {
        while let Some(event) = self.attach.poll() {
            match event {
                HomeEvent::Attached(connection) => {
                    if let Some(entry) = self.core.connections.get(connection) {
                        let (hub, address) = (entry.identity(), entry.address.clone());
                        self.core.emit(NodeEvent::Attached { hub, address });
                    }
                    self.provide.unreached.clear();
                    self.requests.on_attached(&mut self.core, &self.attach);
                    self.watches.on_attached(&mut self.core, self.attach.home());
                    self.rooms.say_all(&mut self.core, &self.attach);
                }
                HomeEvent::StandbyLost(connection) => {
                    self.on_connection_gone(connection, ConnectionLoss::new("the standby is gone"))
                }
                HomeEvent::Displaced => self.core.emit(NodeEvent::IdentityConflict),
                HomeEvent::Lost { connection, reason } => {
                    if let Some(connection) = connection {
                        self.on_connection_gone(connection, ConnectionLoss::new(&reason));
                    }
                    self.core.emit(NodeEvent::Detached { reason });
                }
            }
        }
    }
}

impl Machine for Node {
    type Command = NodeCommand;
    type Event = NodeEvent;

    fn handle(&mut self, now: Time, input: Input<NodeCommand>) {
        self.core.now = self.core.now.max(now);
        if !matches!(input, Input::Message { .. } | Input::Multicast { .. }) {
            // Whatever is published or renewed now says what is left now.
            self.attach.set_capacity(self.provide.capacity());
        }
        match input {
            Input::ConnectionUp { connection, dial, remote, address, rtt } => {
                self.on_connection_up(connection, dial, remote, address, rtt)
            }
            Input::LocalAddress { scheme, at, is_there } => {
                if self.hosts.update_presence(scheme, at, is_there) {
                    self.provide.unreached.clear();
                    self.attach.set_addresses(&mut self.core, self.hosts.present());
                }
            }
            Input::ConnectionMoved { connection, address } => {
                if let Some(entry) = self.core.connections.get_mut(connection) {
                    entry.address = address;
                }
            }
            Input::ConnectionDown { connection, reason, refused } => {
                self.on_connection_down(connection, ConnectionLoss { reason: &reason, refused })
            }
            Input::DialFailed { dial, reason, refused } => {
                self.on_dial_failed(dial, ConnectionLoss { reason: &reason, refused })
            }
            Input::Message { connection, message } => self.on_message(connection, &message),
            Input::Multicast { from, message } => self.on_multicast(from, &message),
            Input::FlowBroken { connection, flow } => {
                self.provide.on_flow_broken(&mut self.core, connection, RequestId(flow))
            }
            Input::HostSuspended(slept) => self.on_slept(slept),
            Input::WallClock(unix_s) => self.core.wall_clock = Some(WallClock::new(self.core.now, unix_s)),
            Input::Timeout => self.on_timeout(),
            Input::Command(command) if !self.left => self.on_command(command),
            Input::Command(command) => self.refuse(&command),
        }
        self.drain_home_events();
    }

    fn poll_transmit(&mut self) -> Option<Transmit> {
        self.core.poll_transmit()
    }

    fn poll_event(&mut self) -> Option<NodeEvent> {
        self.core.poll_event()
    }

    fn poll_deadline(&self) -> Option<Deadline> {
        self.core.timers.next()
    }
}
