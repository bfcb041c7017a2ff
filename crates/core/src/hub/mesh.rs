//! The super nodes of the configuration, parents and siblings, and the dials under way.

use std::time::Duration;

use roost_wire::random::SplitMix64;
use roost_wire::{Address, DialId, NodeId, SchemeSet, Time};

use super::relation::Relation;
use super::{HubConfig, HubEvent, HubKind};
use crate::connections::{Backoff, Dials};
use crate::request_key::RequestKey;

/// The first pause before a hub is dialled again; it doubles up to [`MAX_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// The longest pause before a hub is dialled again.
const MAX_PAUSE: Duration = Duration::from_secs(15);
/// Number of requests that may wait for the same provider to be dialled.
const MAX_WAITING: usize = 64;
/// Number of providers that may be dialled at the same time.
const MAX_DIALS: usize = 256;

/// The hubs of the configuration, and every dial under way.
#[derive(Debug)]
pub(super) struct Mesh {
    /// Parents first.
    hubs: Vec<ConfiguredHub>,
    pub(super) dials: Dials<DialPurpose>,
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
    /// True if it has said that it leaves and has not come back.
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

/// The fate of a request for whose provider a dial is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DialAdmission {
    /// The request waits for a dial under way.
    Joined,
    New,
    /// Too many wait, or too many are dialled.
    Full,
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
        Self { hubs, dials: Dials::default(), token: 0, next_ping: None }
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
        self.dials.forget(|_| true);
        self.next_ping = None;
    }

    pub(super) fn is_dialling(&self, member: NodeId) -> bool {
        self.dials.iter().any(|purpose| matches!(purpose, DialPurpose::Member(node, _) if *node == member))
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
        let Some(DialPurpose::Hub(index)) = dial.and_then(|dial| self.dials.end(dial)) else { return };
        if let Some(hub) = self.hubs.get_mut(index) {
            (hub.state, hub.down) = (HubDialState::Own, None);
        }
    }

    /// The parents that were found, the primary one first.
    pub(super) fn parents(&self) -> impl Iterator<Item = NodeId> {
        self.configured().filter(|(relation, ..)| *relation == Relation::Parent).filter_map(|(.., node)| node)
    }

    /// True if there are to be other hubs at all.
    pub(super) fn is_configured(&self) -> bool {
        !self.hubs.is_empty()
    }

    /// Number of siblings that there should be, as far as the configuration says and
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

    /// Takes the hubs whose turn to be dialled has come.
    pub(super) fn take_due(&mut self, now: Time) -> Vec<(DialPurpose, Vec<Address>)> {
        let due = |hub: &ConfiguredHub| matches!(hub.state, HubDialState::Waiting(at) if at <= now);
        let hubs = self.hubs.iter_mut().enumerate().filter(|(_, hub)| due(hub));
        let dial = |(index, hub): (usize, &mut ConfiguredHub)| {
            hub.state = HubDialState::Dialling;
            (DialPurpose::Hub(index), hub.addresses.clone())
        };
        hubs.map(dial).collect()
    }

    /// Lets a request wait for a provider that is being dialled.
    pub(super) fn join_dial(&mut self, provider: NodeId, allowed: SchemeSet, key: RequestKey) -> DialAdmission {
        let is_full = self.dials.len() >= MAX_DIALS;
        let under_way = self.dials.iter_mut().find_map(|purpose| match purpose {
            DialPurpose::Provider { node, transports, waiting } if *node == provider && *transports == allowed => {
                Some(waiting)
            }
            _ => None,
        });
        match under_way {
            Some(waiting) if waiting.len() < MAX_WAITING => {
                waiting.push(key);
                DialAdmission::Joined
            }
            None if !is_full => DialAdmission::New,
            Some(_) | None => DialAdmission::Full,
        }
    }

    /// A hub of the configuration was found. Gives the place in the tree that it is configured with.
    pub(super) fn hub_found(&mut self, now: Time, index: usize, node: NodeId) -> Option<Relation> {
        let hub = self.hubs.get_mut(index)?;
        hub.state = HubDialState::Up(node);
        hub.backoff.record_success(now);
        Some(hub.relation)
    }

    /// A hub of the configuration was not found, and is dialled again later.
    pub(super) fn hub_unreachable(
        &mut self,
        now: Time,
        random: &mut SplitMix64,
        index: usize,
        reason: &str,
    ) -> Option<HubEvent> {
        self.hubs.get_mut(index).map(|hub| hub.redial_later(now, random, reason))
    }

    /// The last connection with a hub is gone; it was there for as long as it `stayed`.
    pub(super) fn lose_hub(
        &mut self,
        now: Time,
        random: &mut SplitMix64,
        node: NodeId,
        stayed: Duration,
        reason: &str,
    ) {
        for hub in self.hubs.iter_mut().filter(|hub| hub.state == HubDialState::Up(node)) {
            // A hub that takes this one in and closes at once is as good as unreachable.
            if stayed >= MAX_PAUSE {
                hub.down = None;
            }
            hub.redial_later(now, random, reason);
        }
    }

    /// A hub of the configuration is not missed any more.
    pub(super) fn forget_hub(&mut self, node: NodeId) {
        self.hubs.retain(|hub| hub.state != HubDialState::Up(node));
    }

    pub(super) fn next_ping(&self) -> Option<Time> {
        self.next_ping
    }

    pub(super) fn set_next_ping(&mut self, at: Option<Time>) {
        self.next_ping = at;
    }

    /// The token of one more round of pings.
    pub(super) fn next_token(&mut self) -> u32 {
        self.token = self.token.wrapping_add(1);
        self.token
    }
}

impl ConfiguredHub {
    /// Notes that the hub is down, and why; the event that goes with a dial in vain.
    fn redial_later(&mut self, now: Time, random: &mut SplitMix64, reason: &str) -> HubEvent {
        let retry_in = self.backoff.record_failure(now, random);
        self.state = HubDialState::Waiting(now + retry_in);
        let since = self.down.as_ref().map_or(now, |down| down.since);
        self.down = Some(Down { since, reason: reason.to_owned() });
        HubEvent::HubUnreachable { addresses: self.addresses.clone(), reason: reason.to_owned(), retry_in }
    }
}

#[cfg(test)]
mod tests;
