//! The super nodes of the configuration, parents and peers: reaching them, and
//! noticing when they are gone.

use std::collections::BTreeMap;
use std::time::Duration;

use roost_wire::messages::{Message, ProbeMessage};
use roost_wire::{Address, Channel, ConnectionId, DialId, NodeId, Role, RoleSet, SchemeSet, Time};

use super::core::HubCore;
use super::relation::Relation;
use super::remotes::RemoteConnection;
use super::request_key::RequestKey;
use super::{HubConfig, HubEvent, HubKind};
use crate::backoff::Backoff;
use crate::machine::{Traffic, Transmit};

/// The first pause before a peer is dialled again; it doubles up to [`MAX_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// The longest pause before a peer is dialled again.
const MAX_PAUSE: Duration = Duration::from_secs(15);
/// How often peers are asked for a sign of life, if they are few.
const PING_EVERY: Duration = Duration::from_secs(5);
/// So many are few: more are asked less often, so that it costs no more.
const FEW: usize = 10;
/// So many half pauses, and a second, may pass between two words over a live
/// connection: a pause takes up to a quarter longer, and one answer may get lost.
const LIVE_SILENCE: u32 = 5;
/// After so many pauses, and a second, without a word a connection to a peer is given up.
const MAX_SILENCE: u32 = 3;
/// How many requests may wait for the same provider to be dialled.
const MAX_WAITING: usize = 64;
/// How many providers may be dialled at the same time.
const MAX_DIALS: usize = 256;

/// The hubs of the configuration, and every dial under way.
#[derive(Debug)]
pub(super) struct Mesh {
    /// Parents first.
    hubs: Vec<ConfiguredHub>,
    dials: BTreeMap<DialId, DialPurpose>,
    last: u64,
    /// The token of the last round of pings.
    token: u32,
    next_ping: Option<Time>,
}

#[derive(Debug)]
struct ConfiguredHub {
    relation: Relation,
    addresses: Vec<Address>,
    state: HubDialState,
    backoff: Backoff,
    /// Whether it has said that it leaves and has not come back.
    left: bool,
    /// Since when it is down, and why; it is kept until it has been up for a while.
    down: Option<Down>,
}

/// Since when a hub cannot be reached, and why.
#[derive(Debug)]
pub(super) struct Down {
    pub(super) since: Time,
    pub(super) reason: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HubDialState {
    Waiting(Time),
    Dialling,
    Up(NodeId),
    /// This hub itself.
    Own,
}

#[derive(Debug)]
pub(super) enum DialPurpose {
    Hub(usize),
    /// With what it costs, in bytes, if it leads nowhere.
    Member(NodeId, u64),
    /// A standby that is no remote otherwise.
    Standby(NodeId),
    Provider {
        node: NodeId,
        transports: SchemeSet,
        waiting: Vec<RequestKey>,
    },
}

impl Mesh {
    pub(super) fn new(config: &HubConfig) -> Self {
        let own = |addresses: &&Vec<Address>| addresses.iter().any(|address| config.addresses.contains(address));
        let parents = config.parents.iter().map(|addresses| (Relation::Parent, addresses));
        let siblings = config.siblings.iter().map(|addresses| (Relation::Sibling, addresses));
        let state = HubDialState::Waiting(Time::ZERO);
        let hubs = parents
            .chain(siblings)
            .filter(|(relation, _)| config.kind == HubKind::SuperNode || *relation == Relation::Parent)
            .filter(|(_, addresses)| !own(addresses))
            .map(|(relation, addresses)| ConfiguredHub {
                relation,
                addresses: addresses.clone(),
                state,
                backoff: Backoff::new(FIRST_PAUSE, MAX_PAUSE),
                left: false,
                down: None,
            })
            .collect();
        Self { hubs, dials: BTreeMap::new(), last: 0, token: 0, next_ping: None }
    }

    pub(super) fn next_due(&self) -> Option<Time> {
        let redials = self.hubs.iter().filter_map(|hub| match hub.state {
            HubDialState::Waiting(at) => Some(at),
            HubDialState::Dialling | HubDialState::Up(_) | HubDialState::Own => None,
        });
        redials.chain(self.next_ping).min()
    }

    /// Stops dialling for good. Who is up can still be asked.
    pub(super) fn stop(&mut self) {
        self.hubs.retain(|hub| matches!(hub.state, HubDialState::Up(_)));
        self.dials.clear();
        self.next_ping = None;
    }

    /// Whether a member is being dialled.
    pub(super) fn is_dialling(&self, member: NodeId) -> bool {
        self.dials.values().any(|purpose| matches!(purpose, DialPurpose::Member(node, _) if *node == member))
    }

    /// The hubs as configured: how they stand to this one, where, and who was
    /// found there if one is up.
    pub(super) fn configured(&self) -> impl Iterator<Item = (Relation, &[Address], Option<NodeId>)> {
        self.others().map(|hub| match hub.state {
            HubDialState::Up(node) => (hub.relation, &hub.addresses[..], Some(node)),
            HubDialState::Waiting(_) | HubDialState::Dialling | HubDialState::Own => {
                (hub.relation, &hub.addresses[..], None)
            }
        })
    }

    /// Since when each of [`Self::configured`] is down, if it is.
    pub(super) fn downs(&self) -> impl Iterator<Item = Option<&Down>> {
        self.others().map(|hub| hub.down.as_ref().filter(|_| !matches!(hub.state, HubDialState::Up(_))))
    }

    fn others(&self) -> impl Iterator<Item = &ConfiguredHub> {
        self.hubs.iter().filter(|hub| hub.state != HubDialState::Own)
    }

    /// A dial has led to this hub itself, so it is not dialled again.
    pub(super) fn on_self_dialed(&mut self, dial: Option<DialId>) {
        let Some(DialPurpose::Hub(index)) = dial.and_then(|dial| self.dials.remove(&dial)) else { return };
        if let Some(hub) = self.hubs.get_mut(index) {
            (hub.state, hub.down) = (HubDialState::Own, None);
        }
    }

    /// The parents that were found, the primary one first.
    pub(super) fn parents(&self) -> impl Iterator<Item = NodeId> {
        self.configured().filter(|(relation, ..)| *relation == Relation::Parent).filter_map(|(.., node)| node)
    }

    /// Whether there are to be other hubs at all.
    pub(super) fn is_configured(&self) -> bool {
        !self.hubs.is_empty()
    }

    /// How many peers there should be, as far as the configuration says and
    /// they have not said goodbye.
    pub(super) fn sibling_count(&self) -> usize {
        self.hubs.iter().filter(|hub| hub.relation == Relation::Sibling && !hub.left).count()
    }

    /// A hub says that it leaves, and that nobody is to miss it, or that it is back.
    pub(super) fn set_departing(&mut self, node: NodeId, left: bool) {
        for hub in self.hubs.iter_mut().filter(|hub| hub.state == HubDialState::Up(node)) {
            hub.left = left;
        }
    }
}

impl HubCore {
    /// Dials the hubs whose turn it is, and asks those that are up for a sign of life. Gives the connections
    /// that have been silent for too long.
    pub(super) fn poll_mesh(&mut self) -> Vec<ConnectionId> {
        let now = self.now;
        for index in 0..self.mesh.hubs.len() {
            if matches!(self.mesh.hubs[index].state, HubDialState::Waiting(at) if at <= now) {
                self.mesh.hubs[index].state = HubDialState::Dialling;
                let addresses = self.mesh.hubs[index].addresses.clone();
                self.dial(addresses, self.config.kind.role(), None, DialPurpose::Hub(index));
            }
        }
        if self.mesh.next_ping.is_some_and(|at| at <= now) { self.ping_hubs() } else { Vec::new() }
    }

    fn ping_hubs(&mut self) -> Vec<ConnectionId> {
        let now = self.now;
        let hubs: Vec<NodeId> = self.remotes.hubs().collect();
        let pause = self.ping_pause();
        self.mesh.token = self.mesh.token.wrapping_add(1);
        let token = self.mesh.token;
        let silence = pause * MAX_SILENCE + Duration::from_secs(1);
        self.mesh.next_ping = (!hubs.is_empty()).then(|| now + self.random.jitter(pause));
        let is_silent = |connection: &RemoteConnection| {
            now.since(connection.heard) > silence.max(connection.rtt.pto() * MAX_SILENCE)
        };
        let connections = hubs.iter().flat_map(|hub| self.remotes.connections_of(*hub)).copied();
        let (silent, live): (Vec<ConnectionId>, Vec<ConnectionId>) =
            connections.partition(|connection| self.remotes.connections.get(connection).is_some_and(is_silent));
        for connection in live {
            self.remotes.record_ping(now, connection, token);
            self.send(connection, Channel::Datagram, Traffic::Renew, &Message::Probe(ProbeMessage::Ping(token)));
        }
        silent
    }

    /// A dial has led to a remote, or to nothing. Gives what it was for, unless that was a hub of the configuration.
    pub(super) fn end_dial(&mut self, dial: Option<DialId>, outcome: Result<NodeId, &str>) -> Option<DialPurpose> {
        match (dial.and_then(|dial| self.mesh.dials.remove(&dial)), outcome) {
            (Some(DialPurpose::Hub(index)), Ok(node)) => {
                let hub = self.mesh.hubs.get_mut(index)?;
                hub.state = HubDialState::Up(node);
                hub.backoff.record_success(self.now);
                match hub.relation {
                    Relation::Parent => self.register_at_parent(node),
                    _ => self.promote_to_sibling(node),
                }
                None
            }
            (Some(DialPurpose::Hub(index)), Err(reason)) => {
                let event = self.redial_later(index, reason);
                self.events.extend(event);
                None
            }
            (purpose, _) => purpose,
        }
    }

    /// The last connection with a hub is gone; it was there for as long as it `stayed`.
    pub(super) fn lose_hub(&mut self, node: NodeId, stayed: Duration, reason: &str) {
        if self.leaving.is_some() {
            self.mesh.hubs.retain(|hub| hub.state != HubDialState::Up(node));
        }
        for index in 0..self.mesh.hubs.len() {
            let hub = &mut self.mesh.hubs[index];
            if hub.state == HubDialState::Up(node) {
                // One that takes this hub in and closes at once is as good as unreachable.
                if stayed >= MAX_PAUSE {
                    hub.down = None;
                }
                self.redial_later(index, reason);
            }
        }
    }

    /// Sends a message that must not be lost to every peer that is up.
    pub(super) fn send_to_siblings(&mut self, message: &Message) {
        let hubs: Vec<NodeId> = self.siblings_up().collect();
        for hub in hubs {
            self.send_to_hub(hub, message);
        }
    }

    pub(super) fn send_to_hub(&mut self, hub: NodeId, message: &Message) {
        if let Some(connection) = self.remotes.best_connection(hub, SchemeSet::ALL) {
            self.send(connection, Channel::Reliable { flow: 0 }, Traffic::Mesh, message);
        }
    }

    /// How often peers are asked for a sign of life.
    fn ping_pause(&self) -> Duration {
        PING_EVERY * u32::try_from(self.remotes.hub_count().div_ceil(FEW)).unwrap_or(u32::MAX)
    }

    /// For how long a connection to a peer may be silent, when another one is not, and live.
    pub(super) fn longest_silence(&self) -> Duration {
        self.ping_pause() / 2 * LIVE_SILENCE + Duration::from_secs(1)
    }

    pub(super) fn dial(&mut self, addresses: Vec<Address>, role: Role, node: Option<NodeId>, purpose: DialPurpose) {
        self.mesh.last += 1;
        let dial = DialId(self.mesh.last);
        self.mesh.dials.insert(dial, purpose);
        self.counters.dials += 1;
        self.out.push_back(Transmit::Dial { dial, addresses, expect: RoleSet::only(role), node });
    }

    /// Dials a provider for a request, or joins a dial under way. False if too
    /// many wait.
    pub(super) fn dial_provider(
        &mut self,
        provider: NodeId,
        allowed: SchemeSet,
        addresses: Vec<Address>,
        key: RequestKey,
    ) -> bool {
        let full = self.mesh.dials.len() >= MAX_DIALS;
        let under_way = self.mesh.dials.values_mut().find_map(|purpose| match purpose {
            DialPurpose::Provider { node, transports, waiting } if *node == provider && *transports == allowed => {
                Some(waiting)
            }
            _ => None,
        });
        match under_way {
            Some(waiting) if waiting.len() < MAX_WAITING => waiting.push(key),
            Some(_) => return false,
            None if full => return false,
            None => {
                let purpose = DialPurpose::Provider { node: provider, transports: allowed, waiting: vec![key] };
                self.dial(addresses, Role::Node, Some(provider), purpose);
            }
        }
        true
    }

    pub(super) fn start_pinging(&mut self, node: NodeId) {
        let now = self.now;
        let is_hub = self.remotes.get(node).is_some_and(|remote| remote.role.is_hub());
        if is_hub && self.mesh.next_ping.is_none() {
            self.mesh.next_ping = Some(now + self.random.jitter(PING_EVERY));
        }
    }

    /// Notes that a hub is down, and why; the event that goes with a dial in vain.
    fn redial_later(&mut self, index: usize, reason: &str) -> Option<HubEvent> {
        let now = self.now;
        let hub = self.mesh.hubs.get_mut(index)?;
        let retry_in = hub.backoff.record_failure(now, &mut self.random);
        hub.state = HubDialState::Waiting(now + retry_in);
        let since = hub.down.as_ref().map_or(now, |down| down.since);
        hub.down = Some(Down { since, reason: reason.to_owned() });
        Some(HubEvent::HubUnreachable { addresses: hub.addresses.clone(), reason: reason.to_owned(), retry_in })
    }
}

#[cfg(test)]
mod tests;
