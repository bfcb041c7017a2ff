//! What the hub remembers of a request.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use crate::address::{Address, SchemeSet};
use crate::hub::Sender;
use crate::ids::{LinkId, NodeId, Nonce, RequestId};
use crate::machine::Traffic;
use crate::service::Service;
use crate::time::Time;
use crate::wire::{Forward, Mode, Params, Reason, Request};

/// The longest that a request is remembered, whatever its deadline.
const MAX_DEADLINE: Duration = Duration::from_secs(60);

/// Names a request at this hub: whose number it is, and the number. A request
/// that a peer hands on to be answered directly keeps its requester's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::hub) struct Key {
    pub(in crate::hub) asker: NodeId,
    pub(in crate::hub) id: RequestId,
}

/// The requests that the hub remembers.
#[derive(Debug, Default)]
pub(in crate::hub) struct Requests {
    pub(super) table: BTreeMap<Key, Asked>,
    pub(super) timers: BTreeSet<(Time, Key)>,
}

/// One request.
#[derive(Debug)]
pub(in crate::hub) struct Asked {
    /// The neighbour that asked and over which link: the requester or a peer hub.
    pub(in crate::hub) neighbour: NodeId,
    pub(in crate::hub) link: LinkId,
    /// From a peer hub: the provider that it means.
    pub(super) meant: Option<NodeId>,
    pub(super) requester: NodeId,
    pub(super) nonce: Nonce,
    pub(in crate::hub) service: Service,
    pub(super) mode: Mode,
    pub(super) params: Option<Params>,
    /// From a peer hub: where the provider is to answer. Otherwise the
    /// requester's record says it.
    pub(super) reply_to: Vec<Address>,
    pub(super) until: Time,
    pub(super) choices: VecDeque<Choice>,
    pub(super) stage: Stage,
    /// The gravest reason so far why nobody serves it.
    pub(super) reason: Reason,
    /// When the first of the providers that are busy may be free, as they say.
    pub(super) retry_after_ms: Option<u32>,
}

/// A provider to try, and the peer at which it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::hub) struct Choice {
    pub(in crate::hub) node: NodeId,
    pub(super) via: Option<NodeId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The peers are being asked.
    Seeking,
    /// The provider is being dialled over a transport that the request wants.
    Dialling(Choice),
    /// The provider has it.
    Handed {
        to: Choice,
        /// The relayed flow, if the hub carries the answer.
        relay: Option<RequestId>,
        /// When, or when it was repeated.
        sent: Time,
        /// Whether it was repeated without a word since.
        repeated: bool,
        accepted: bool,
    },
    /// Nobody serves it; said again whenever the requester asks again.
    Refused { retry_after_ms: Option<u32> },
}

impl Requests {
    pub(in crate::hub) fn len(&self) -> usize {
        self.table.len()
    }

    pub(in crate::hub) fn next_expiry(&self) -> Option<Time> {
        self.timers.first().map(|(at, _)| *at)
    }

    pub(in crate::hub) fn get(&self, key: Key) -> Option<&Asked> {
        self.table.get(&key)
    }

    pub(super) fn insert(&mut self, key: Key, asked: Asked) {
        self.timers.insert((asked.until, key));
        if let Some(before) = self.table.insert(key, asked) {
            self.timers.remove(&(before.until, key));
        }
    }

    pub(super) fn remove(&mut self, key: Key) -> Option<Asked> {
        let asked = self.table.remove(&key)?;
        self.timers.remove(&(asked.until, key));
        Some(asked)
    }
}

impl Asked {
    /// What a node asks.
    pub(super) fn by_node(now: Time, from: Sender, request: &Request) -> Self {
        Self {
            neighbour: from.node,
            link: from.link,
            meant: None,
            requester: from.node,
            nonce: request.nonce,
            service: request.service,
            mode: request.mode,
            params: request.params,
            reply_to: Vec::new(),
            until: until(now, request.deadline_ms),
            choices: VecDeque::new(),
            stage: Stage::Seeking,
            reason: Reason::NotFound,
            retry_after_ms: None,
        }
    }

    /// What a peer hub asks of one of this hub's nodes.
    pub(super) fn by_hub(now: Time, from: Sender, forward: Forward, provider: NodeId) -> Self {
        Self {
            neighbour: from.node,
            link: from.link,
            meant: Some(provider),
            requester: forward.requester,
            nonce: forward.nonce,
            service: forward.service,
            mode: if forward.reply_to.is_empty() { Mode::Relay } else { Mode::Forward },
            params: forward.params,
            until: until(now, forward.deadline_ms),
            reply_to: forward.reply_to,
            choices: VecDeque::new(),
            stage: Stage::Seeking,
            reason: Reason::NotFound,
            retry_after_ms: None,
        }
    }

    pub(in crate::hub) fn transports(&self) -> SchemeSet {
        self.params.and_then(|params| params.transports).unwrap_or(SchemeSet::ALL)
    }

    /// Whether a peer hub asked.
    pub(super) fn is_carried(&self) -> bool {
        self.meant.is_some()
    }

    /// The class in which answers to it are counted.
    pub(super) fn traffic(&self) -> Traffic {
        if self.is_carried() { Traffic::Mesh } else { Traffic::Lookup }
    }

    /// Whether the hub carries the answer from the start.
    pub(super) fn is_relay(&self) -> bool {
        self.mode == Mode::Relay
    }

    /// Whether it can be forgotten for the sake of a newer one: what follows
    /// goes on without the hub, or is nothing.
    pub(super) fn is_forgettable(&self) -> bool {
        matches!(
            self.stage,
            Stage::Handed { relay: None, .. } | Stage::Handed { accepted: true, .. } | Stage::Refused { .. }
        )
    }

    pub(super) fn relay(&self) -> Option<RequestId> {
        match self.stage {
            Stage::Handed { relay, .. } => relay,
            _ => None,
        }
    }

    /// What the peer that handed the request on calls it.
    pub(super) fn named_requester(&self) -> Option<NodeId> {
        (self.is_carried() && !self.is_relay()).then_some(self.requester)
    }
}

impl Choice {
    /// The neighbour that gets the request.
    pub(super) fn neighbour(self) -> NodeId {
        self.via.unwrap_or(self.node)
    }
}

/// When an acceptance is of no use any more.
fn until(now: Time, deadline_ms: u32) -> Time {
    now + Duration::from_millis(deadline_ms.into()).min(MAX_DEADLINE)
}
