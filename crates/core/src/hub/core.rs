//! State that all parts of a hub share: time, connections, other hubs, limits, and what waits to leave.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use roost_wire::messages::{Capabilities, Hello, Message, ProbeMessage, StatedDatum};
use roost_wire::random::SplitMix64;
use roost_wire::{Channel, ConnectionId, Delivery, NodeId, RemoteIdentity, Role, SchemeSet, Time};

use super::mesh::Mesh;
use super::remotes::Remotes;
use super::timers::HubTimers;
use super::{HubConfig, HubCounters, HubEvent, HubKind, HubLimit};
use crate::address_filter::{DialedHosts, HubDialBudget};
use crate::allowance::Allowance;
use crate::documents::Documents;
use crate::machine::{Traffic, Transmit};
use crate::wall::WallClock;

/// Wait before a node for which this hub is not the home is told of a document: its home sends it, and it says so.
const LATE_DOCUMENT: Duration = Duration::from_millis(600);

/// Each part gets it by reference when it is called.
#[derive(Debug)]
pub(super) struct HubCore {
    /// Time of the input in hand.
    pub(super) now: Time,
    pub(super) config: HubConfig,
    /// The actions that the group's policy allows this hub.
    pub(super) own: Allowance,
    pub(super) random: SplitMix64,
    pub(super) started: Option<Time>,
    /// Time since which the hub knows its nodes: its start, or the last time that its host stood still.
    pub(super) knows_since: Option<Time>,
    /// Time since which the hub is leaving.
    pub(super) leaving: Option<Time>,
    pub(super) remotes: Remotes,
    /// The hubs of the configuration, and the dials under way.
    pub(super) mesh: Mesh,
    /// Living members of the group.
    pub(super) member_count: usize,
    /// True once another hub stands differently to this one, until the summaries have heard of it.
    pub(super) relations_changed: bool,
    pub(super) targets: DialedHosts,
    /// Dials at addresses of which only other hubs have told.
    pub(super) advice: HubDialBudget,
    pub(super) counters: HubCounters,
    pub(super) timers: HubTimers,
    /// True if the input in hand has made no part wait for something sooner.
    pub(super) keeps_timers: bool,
    /// Records that searches have looked at for the message in hand.
    pub(super) examined: usize,
    /// The host's, if the driver has told it.
    pub(super) wall_clock: Option<WallClock>,
    pub(super) documents: Documents,
    pub(super) out: VecDeque<Transmit>,
    pub(super) events: VecDeque<HubEvent>,
}

impl HubCore {
    /// The reason for which a connection with a remote, which this hub has dialled or not, is not wanted.
    pub(super) fn refusal_of(&mut self, remote: &RemoteIdentity, dialled: bool) -> Option<&'static str> {
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

    pub(super) fn new(config: HubConfig, random: SplitMix64) -> Self {
        Self {
            now: Time::ZERO,
            mesh: Mesh::new(&config),
            config,
            own: Allowance::default(),
            random,
            started: None,
            knows_since: None,
            leaving: None,
            remotes: Remotes::default(),
            member_count: 0,
            relations_changed: false,
            targets: DialedHosts::default(),
            advice: HubDialBudget::default(),
            counters: HubCounters::default(),
            timers: HubTimers::default(),
            keeps_timers: false,
            examined: 0,
            wall_clock: None,
            documents: Documents::new(LATE_DOCUMENT),
            out: VecDeque::new(),
            events: VecDeque::new(),
        }
    }

    pub(super) fn begin_input(&mut self, now: Time) {
        (self.now, self.keeps_timers) = (now, false);
        self.started.get_or_insert(now);
        self.knows_since.get_or_insert(now);
    }

    /// True if the hub started less than a lease ago, so that nodes of an
    /// earlier run may not have found it yet.
    pub(super) fn is_young(&self) -> bool {
        self.is_young_at(self.now)
    }

    pub(super) fn is_young_at(&self, now: Time) -> bool {
        self.knows_since.is_none_or(|since| now.since(since) < self.config.lease)
    }

    pub(super) fn send(
        &mut self,
        connection: ConnectionId,
        channel: Channel,
        traffic: Traffic,
        message: impl Into<Message>,
    ) {
        let (delivery, message) = (Delivery::CONTROL, message.into().encode());
        self.out.push_back(Transmit::Message { connection, channel, delivery, traffic, message });
    }

    /// Sends a datagram about a request or a lookup.
    pub(super) fn send_answer(&mut self, connection: ConnectionId, message: impl Into<Message>) {
        self.send(connection, Channel::Datagram, Traffic::Lookup, message);
    }

    /// Sends the encoded answer to a lookup.
    pub(super) fn send_encoded(&mut self, connection: ConnectionId, message: Bytes) {
        let (channel, delivery, traffic) = (Channel::Datagram, Delivery::CONTROL, Traffic::Lookup);
        self.out.push_back(Transmit::Message { connection, channel, delivery, traffic, message });
    }

    /// Tells a remote which version this hub speaks.
    pub(super) fn greet(&mut self, connection: ConnectionId, node: NodeId) {
        let clock_s = self.wall_clock.map(|clock| clock.unix_s(self.now));
        let holdings = self.documents.greeting(node);
        let capabilities = match self.config.kind {
            HubKind::SuperNode => Capabilities::OWN,
            // All data goes through a server, which keeps none.
            HubKind::Server => Capabilities::OWN.without(Capabilities::MAILBOX),
        };
        let datum = self.stated_datum();
        let hello = ProbeMessage::Hello(Hello { capabilities, clock_s, holdings, datum, ..Hello::OWN });
        self.send(connection, Channel::Reliable { flow: 0 }, Traffic::Join, hello);
    }

    pub(super) fn stated_datum(&self) -> Option<StatedDatum> {
        self.config.datum.map(StatedDatum::from)
    }

    /// Sends a message that must not be lost to every sibling that is up.
    pub(super) fn send_to_siblings(&mut self, message: impl Into<Message>) {
        let message = message.into();
        for hub in self.siblings_up().collect::<Vec<_>>() {
            self.send_to_hub(hub, message.clone());
        }
    }

    pub(super) fn send_to_hub(&mut self, hub: NodeId, message: impl Into<Message>) {
        self.send_to(hub, Traffic::Mesh, message);
    }

    /// Sends a message that must not be lost to a remote.
    pub(super) fn send_to(&mut self, remote: NodeId, traffic: Traffic, message: impl Into<Message>) {
        if let Some(connection) = self.remotes.best_connection(remote, SchemeSet::ALL) {
            self.send(connection, Channel::Reliable { flow: 0 }, traffic, message);
        }
    }

    pub(super) fn refused(&mut self, node: NodeId, what: &'static str) {
        self.counters.refused_by_role += 1;
        self.events.push_back(HubEvent::Refused { node, what: what.into() });
    }

    /// Counts that a remote has met a limit, and tells the owner the first time.
    pub(super) fn over_limit(&mut self, node: NodeId, limit: HubLimit) {
        self.counters.count_over_limit(limit);
        if self.remotes.get_mut(node).is_some_and(|remote| remote.meet_limit(limit)) {
            self.events.push_back(HubEvent::OverLimit { node, limit });
        }
    }
}
