//! Dials of a hub, and signs of life of the hubs that are up.

use std::time::Duration;

use roost_wire::messages::ProbeMessage;
use roost_wire::{Address, Channel, ConnectionId, DialId, NodeId, Role, SchemeSet};

use super::core::HubCore;
use super::mesh::{DialAdmission, DialPurpose};
use super::relation::Relation;
use super::remotes::RemoteConnection;
use crate::machine::Traffic;
use crate::request_key::RequestKey;

/// Interval at which hubs are asked for a sign of life, if they are few.
const PING_EVERY: Duration = Duration::from_secs(5);
/// So many are few: more are asked less often, so that it costs no more.
const FEW: usize = 10;
/// So many half pauses, and a second, may pass between two words over a live
/// connection: a pause takes up to a quarter longer, and one answer may get lost.
const LIVE_SILENCE: u32 = 5;
/// After so many pauses, and a second, without a word a connection to a hub is given up.
const MAX_SILENCE: u32 = 3;

impl HubCore {
    /// Dials the hubs whose turn it is, and asks those that are up for a sign of life. Gives the connections
    /// that have been silent for too long.
    pub(super) fn poll_mesh(&mut self) -> Vec<ConnectionId> {
        let now = self.now;
        for (purpose, addresses) in self.mesh.take_due(now) {
            self.dial(addresses, self.config.kind.role(), None, purpose);
        }
        if self.mesh.next_ping().is_some_and(|at| at <= now) { self.ping_hubs() } else { Vec::new() }
    }

    fn ping_hubs(&mut self) -> Vec<ConnectionId> {
        let now = self.now;
        let hubs: Vec<NodeId> = self.remotes.hubs().collect();
        let pause = self.ping_pause();
        let token = self.mesh.next_token();
        let silence = pause * MAX_SILENCE + Duration::from_secs(1);
        let next_ping = (!hubs.is_empty()).then(|| now + self.random.jitter(pause));
        self.mesh.set_next_ping(next_ping);
        let is_silent = |connection: &RemoteConnection| {
            now.since(connection.heard) > silence.max(connection.rtt.pto() * MAX_SILENCE)
        };
        let connections = hubs.iter().flat_map(|hub| self.remotes.connections_of(*hub)).copied();
        let (silent, live): (Vec<ConnectionId>, Vec<ConnectionId>) =
            connections.partition(|connection| self.remotes.connections.get(connection).is_some_and(is_silent));
        for connection in live {
            self.remotes.record_ping(now, connection, token);
            self.send(connection, Channel::Datagram, Traffic::Renew, ProbeMessage::Ping(token));
        }
        silent
    }

    /// No other hub was heard while the host stood still: each is asked now, and has its time to answer.
    pub(super) fn doubt_hubs(&mut self) {
        let now = self.now;
        let hubs = self.remotes.connections.values_mut().filter(|connection| connection.role.is_hub());
        hubs.for_each(|connection| connection.heard = now);
        if self.mesh.next_ping().is_some() {
            self.mesh.set_next_ping(Some(now));
        }
    }

    /// A dial has led to a remote, or to nothing. Gives what it was for, unless that was a hub of the configuration.
    pub(super) fn end_dial(&mut self, dial: Option<DialId>, outcome: Result<NodeId, &str>) -> Option<DialPurpose> {
        let purpose = self.mesh.dials.end(dial?)?;
        let DialPurpose::Hub(index) = purpose else { return Some(purpose) };
        match outcome {
            Ok(node) => match self.mesh.hub_found(self.now, index, node)? {
                Relation::Parent => self.register_at_parent(node),
                _ => self.promote_to_sibling(node),
            },
            Err(reason) => {
                let event = self.mesh.hub_unreachable(self.now, &mut self.random, index, reason);
                self.events.extend(event);
            }
        }
        None
    }

    /// The last connection with a hub is gone; it was there for as long as it `stayed`.
    pub(super) fn lose_hub(&mut self, node: NodeId, stayed: Duration, reason: &str) {
        if self.leaving.is_some() {
            self.mesh.forget_hub(node);
        }
        self.mesh.lose_hub(self.now, &mut self.random, node, stayed, reason);
    }

    /// Interval at which hubs are asked for a sign of life.
    fn ping_pause(&self) -> Duration {
        PING_EVERY * u32::try_from(self.remotes.hub_count().div_ceil(FEW)).unwrap_or(u32::MAX)
    }

    /// For how long a connection to a hub may be silent, when another one is not, and live.
    pub(super) fn longest_silence(&self) -> Duration {
        self.ping_pause() / 2 * LIVE_SILENCE + Duration::from_secs(1)
    }

    pub(super) fn dial(&mut self, addresses: Vec<Address>, role: Role, node: Option<NodeId>, purpose: DialPurpose) {
        self.counters.dials += 1;
        self.out.push_back(self.mesh.dials.begin(purpose, addresses, role, node));
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
        let joined = self.mesh.join_dial(provider, allowed, key);
        if joined == DialAdmission::New {
            let purpose = DialPurpose::Provider { node: provider, transports: allowed, waiting: vec![key] };
            self.dial(addresses, Role::Node, Some(provider), purpose);
        }
        joined != DialAdmission::Full
    }

    pub(super) fn start_pinging(&mut self, node: NodeId) {
        let is_hub = self.remotes.get(node).is_some_and(|remote| remote.role.is_hub());
        if is_hub && self.mesh.next_ping().is_none() {
            let at = self.now + self.random.jitter(PING_EVERY);
            self.mesh.set_next_ping(Some(at));
        }
    }
}
