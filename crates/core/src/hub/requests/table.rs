//! The requests that the hub remembers, and until when.

use std::collections::{BTreeMap, BTreeSet};

use roost_wire::messages::{CopyTarget, RequestSpec};
use roost_wire::{NodeId, Scope, StreamTag, Time};

use super::routed_request::{Granted, Overflow, RequestStage, RequestTarget, RoutedRequest};
use crate::boxed_map::BoxedMap;
use crate::directory::DirectoryQuery;
use crate::request_key::RequestKey;

/// Number of requests that are looked at to find one that may be forgotten.
const MAX_LOOKED_AT: usize = 256;

/// The queries of requests that may be held. No more than there are requests.
type HoldableQueries = BTreeMap<RequestKey, (DirectoryQuery, Scope)>;

/// The most requests with long specifications: each takes as much memory as several others.
pub(super) const MAX_LONG_REQUESTS: usize = 8_192;

#[derive(Debug, Default)]
pub(crate) struct RequestTable {
    /// The number of requests with long specifications.
    long: usize,
    pub(super) table: BoxedMap<RequestKey, RoutedRequest>,
    pub(super) timers: BTreeSet<(Time, RequestKey)>,
    /// Times by which a hub should have confirmed a request, or a held one has waited long enough.
    pub(super) hops: BTreeSet<(Time, RequestKey)>,
    /// The queries of requests that came while the hub was young.
    pub(super) early: HoldableQueries,
    /// Requests that wait for a provider to come.
    pub(super) held: BTreeSet<RequestKey>,
}

impl RequestTable {
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    pub(crate) fn next_expiry(&self) -> Option<Time> {
        self.timers.first().into_iter().chain(self.hops.first()).map(|(at, _)| *at).min()
    }

    pub(crate) fn get(&self, key: RequestKey) -> Option<&RoutedRequest> {
        self.table.get(&key)
    }

    pub(crate) fn get_mut(&mut self, key: RequestKey) -> Option<&mut RoutedRequest> {
        self.table.get_mut(&key)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&RequestKey, &RoutedRequest)> {
        self.table.iter()
    }

    pub(super) fn insert(&mut self, key: RequestKey, asked: RoutedRequest) {
        self.timers.insert((asked.until, key));
        self.long += usize::from(asked.spec.is_long());
        if let Some(before) = self.table.insert(key, asked) {
            self.timers.remove(&(before.until, key));
            self.long -= usize::from(before.spec.is_long());
        }
    }

    /// True if there is room for one more request of this length.
    pub(super) fn has_room_for(&self, spec: &RequestSpec) -> bool {
        !spec.is_long() || self.long < MAX_LONG_REQUESTS
    }

    pub(super) fn remove(&mut self, key: RequestKey) -> Option<RoutedRequest> {
        let asked = self.table.remove(&key)?;
        self.long -= usize::from(asked.spec.is_long());
        self.timers.remove(&(asked.until, key));
        self.early.remove(&key);
        self.held.remove(&key);
        if let Some(due) = asked.stage.due() {
            self.hops.remove(&(due, key));
        }
        Some(asked)
    }

    /// A request that may be forgotten, among the ones that end soonest.
    pub(super) fn displaceable(&self) -> Option<RequestKey> {
        self.find_forgettable(|_| true)
    }

    /// A long one that may be forgotten.
    pub(super) fn displaceable_long(&self) -> Option<RequestKey> {
        self.find_forgettable(|asked| asked.spec.is_long())
    }

    fn find_forgettable(&self, which: impl Fn(&RoutedRequest) -> bool) -> Option<RequestKey> {
        let mut first = self.timers.iter().take(MAX_LOOKED_AT).map(|(_, key)| *key);
        first.find(|key| self.get(*key).is_some_and(|asked| asked.is_forgettable() && which(asked)))
    }

    /// Notes what was granted for a request.
    pub(crate) fn set_granted(&mut self, key: RequestKey, granted: Option<Granted>) {
        if let Some(asked) = self.table.get_mut(&key) {
            asked.granted = granted;
        }
    }

    /// Another hub is to reflect what is asked for: it is tried by `choices`
    /// before all others.
    pub(crate) fn send_elsewhere(&mut self, key: RequestKey, choices: impl DoubleEndedIterator<Item = RequestTarget>) {
        let Some(asked) = self.table.get_mut(&key) else { return };
        (asked.elsewhere, asked.granted) = (true, None);
        choices.rev().for_each(|choice| asked.choices.push_front(choice));
    }

    /// Another hub reflects it, or none any more.
    pub(crate) fn set_overflow(&mut self, key: RequestKey, overflow: Option<Overflow>) {
        if let Some(asked) = self.table.get_mut(&key) {
            (asked.overflow, asked.granted) = (overflow, None);
        }
    }

    /// A provider is not tried again, by whatever way.
    pub(crate) fn drop_choices(&mut self, key: RequestKey, provider: NodeId) {
        if let Some(asked) = self.table.get_mut(&key) {
            asked.choices.retain(|choice| choice.provider() != Some(provider));
        }
    }

    /// Changes where a copy is wanted; what is granted for it gets another tag.
    pub(crate) fn set_reflect(&mut self, key: RequestKey, reflect: Option<CopyTarget>, tag: StreamTag) {
        let Some(asked) = self.table.get_mut(&key) else { return };
        asked.copy_target = reflect;
        asked.granted = asked.granted.filter(|_| reflect.is_some()).map(|granted| Granted { tag, ..granted });
    }

    /// Changes how far a request has come.
    pub(super) fn set_stage(&mut self, key: RequestKey, stage: RequestStage) {
        let Some(asked) = self.table.get_mut(&key) else { return };
        let before = std::mem::replace(&mut asked.stage, stage);
        match stage {
            RequestStage::Held { .. } => self.held.insert(key),
            _ => self.held.remove(&key),
        };
        if let Some(due) = before.due() {
            self.hops.remove(&(due, key));
        }
        if let Some(due) = stage.due() {
            self.hops.insert((due, key));
        }
    }
}
