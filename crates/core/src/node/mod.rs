//! The machine of a node: it keeps a home, asks for services and provides its own.
//!
//! The same machine serves in the overlay and in the client/server baseline;
//! which it is follows from what the hub is certified as.
//!
//! | part | decides |
//! |---|---|
//! | `dispatch`, `commands`, `connections`, `reachability` | which part a message, a command, or a connection is for |
//! | `doubt` | which connection may be dead without a word |
//! | `home` | which hub holds the record, what it is told, and which one takes over |
//! | `requests` | what is asked for, of whom, and what belongs to the answer |
//! | `sessions` | what to provide, to whom, and what to send |
//! | `multicast`, `multicast_load` | answering what is asked on the subnet, and what the subnet bears |
//! | `pushes` | objects that are offered to a node, or by one |
//! | `outbox` | objects that wait for their receiver, on the owner's disk |
//! | `mailbox` | objects of the outbox that are left at the home, and those that hubs bring |
//! | `receipts` | the receiver's memory of what it has stored, for the owner |
//! | `rooms` | being in rooms, and who else is in |
//! | `tunnels` | ways through hubs to nodes that cannot be reached |
//! | `policy`, `action` | the group's policy: what this node may do, and others with it |
//! | `published_addresses` | the addresses in the record |
//! | `watch`, `ping` | what their names say |
//! | `api`, `status` | the interface to the owner |
//!
//! The parts share a `core`: time, connections, timers, chance, and what waits
//! to leave. A part may read the home; what concerns two parts is told here, in
//! `commands`, `dispatch`, `policy`, `connections` and `reachability`.

mod action;
mod api;
mod commands;
mod connections;
mod core;
mod dispatch;
mod doubt;
mod home;
mod mailbox;
mod motion;
mod multicast;
mod multicast_load;
mod outbox;
mod ping;
mod policy;
mod published_addresses;
mod pushes;
mod reachability;
mod receipts;
mod requests;
mod rooms;
mod sessions;
mod status;
mod timers;
mod tunnels;
mod watch;

use roost_wire::messages::ProbeMessage;
use roost_wire::{Record, RequestId, Time, Version};

use self::connections::ConnectionLoss;
use self::core::Core;
use self::home::{HomeEvent, HomeRegistration};
use self::mailbox::NodeMailbox;
use self::motion::NodeMotion;
use self::multicast::{MulticastResponder, ResponderParts};
use self::outbox::NodeOutbox;
use self::ping::Pings;
use self::published_addresses::PublishedAddresses;
use self::pushes::incoming::IncomingPushes;
use self::pushes::outgoing::OutgoingPushes;
use self::requests::OutgoingRequests;
use self::rooms::JoinedRooms;
use self::sessions::ProviderSessions;
use self::timers::Timer;
use self::watch::OutgoingWatches;
use crate::machine::{Deadline, Input, Machine, Transmit};
use crate::wall::WallClock;

pub use api::{
    Discovery, HomeStatus, NodeCommand, NodeConfig, NodeCounters, NodeEvent, NodePlace, NodeStatus, Provider,
    PublicationStatus, PushedDelivery, RequestStatus, RequestSummary, SessionId, SessionStatus, SourceOutput, Ticket,
    Trace, TracedHop,
};
pub use connections::IDLE;
pub use home::hubs::MAX_HUBS;
pub use multicast::MAX_MULTICAST_REQUESTS;
pub use outbox::{
    FoundReceiver, LeftAt, MAX_OUTBOX, OfferFault, OutboxCommand, OutboxEnd, OutboxEvent, OutboxItem, OutboxPriority,
    OutboxRow, OutboxState,
};
pub use ping::MAX_PINGS;
pub use pushes::incoming::{MAX_RECEPTIONS, MAX_RECEPTIONS_FROM_ONE};
pub use pushes::outgoing::MAX_PUSHES;
pub use receipts::{Receipt, ReceiptState, Receipts};
pub use requests::trace::{MAX_REPORTS, MAX_TRACES};
pub use requests::{LOOKUP_DEADLINE, MAX_REQUESTS};
pub use rooms::MAX_ROOMS;
pub use sessions::publications::{MAX_MEMBERS, MAX_MEMBERS_PER_REQUESTER, MEMBER_SILENCE};
pub use sessions::publish::LINGER;
pub use sessions::{MAX_ANSWERS, MAX_OBJECT_SESSIONS};
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
    outbox: NodeOutbox,
    mailbox: NodeMailbox,
    rooms: JoinedRooms,
    motion: NodeMotion,
    left: bool,
}

impl Node {
    /// A node that has not yet turned to any hub: it does so when first driven.
    pub fn new(config: NodeConfig) -> Self {
        let mut core = Core::new(&config);
        let provide = ProviderSessions::new(&config);
        let requests = OutgoingRequests::new(&config);
        let pushes = OutgoingPushes::new(&config);
        let record = Record {
            node: config.node,
            version: Version { epoch: config.epoch, sequence: 0 },
            cell: config.cell,
            position: config.position,
            orbit: None,
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
            outbox: NodeOutbox::default(),
            mailbox: NodeMailbox::default(),
            rooms: JoinedRooms::default(),
            motion: NodeMotion::new(config.datum),
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
            Timer::Fix => self.on_fix_timer(),
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
            Timer::Outbox => {
                self.outbox.advance(core.now);
                self.drain_outbox();
            }
            Timer::IncomingConnect(node) => pushes.calls.on_timer(core, node),
            Timer::Trace(ticket) => requests.traces.emit_trace(core, ticket),
            Timer::Idle(connection) => self.on_idle_timer(connection),
            Timer::Documents => core.documents.poll(core.now),
            Timer::MulticastSearch(id) => requests.on_multicast_search_timer(core, attach, id),
            Timer::MulticastReply(key) => multicast.on_timer(ResponderParts { core, attach, provide }, key),
        }
    }

    /// The host stood still: every remote is asked if it is still there.
    fn on_host_suspended(&mut self) {
        self.attach.on_host_suspended(&mut self.core);
        for connection in self.core.connections.with_nodes() {
            self.core.send(connection, ProbeMessage::Ping(0));
        }
        self.outbox.on_attached(self.core.now);
        self.drain_outbox();
    }

    fn drain_outbox(&mut self) {
        let Self { core, attach, outbox, mailbox, .. } = self;
        while let Some(event) = outbox.poll_event() {
            if let OutboxEvent::Ended { id, .. } = event {
                mailbox.recall(core, attach.home(), id);
            }
            core.emit(NodeEvent::Outbox(event));
        }
        mailbox.advance(core, attach.home(), outbox);
        match outbox.next(core.now) {
            Some(at) => core.timers.set(Timer::Outbox, at),
            None => core.timers.clear(Timer::Outbox),
        }
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
                    self.outbox.on_attached(self.core.now);
                    self.mailbox.on_attached();
                    self.drain_outbox();
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

/// True if an input may lead to a record or a renewal. Data comes often, and leads to neither.
fn may_publish(input: &Input<NodeCommand>) -> bool {
    use NodeCommand::{Consumed, Data};
    !matches!(input, Input::Message { .. } | Input::Multicast { .. } | Input::Command(Data { .. } | Consumed { .. }))
}

impl Machine for Node {
    type Command = NodeCommand;
    type Event = NodeEvent;

    fn handle(&mut self, now: Time, input: Input<NodeCommand>) {
        self.core.now = self.core.now.max(now);
        if may_publish(&input) {
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
            Input::HostSuspended => self.on_host_suspended(),
            Input::WallClock(unix) => self.core.wall_clock = Some(WallClock::new(self.core.now, unix)),
            Input::Timeout => self.on_timeout(),
            Input::Command(command) if !self.left => self.on_command(command),
            Input::Command(command) => self.refuse(&command),
        }
        self.drain_home_events();
        if !self.left {
            self.core.drain_documents();
        }
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
