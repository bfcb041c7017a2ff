//! The requests that the hub remembers, and until when.

use std::collections::{BTreeMap, BTreeSet};

use super::asked::{Asked, Choice, Stage};
use super::held::Early;
use crate::hub::reflect::{Granted, Spill};
use crate::ids::{NodeId, RequestId};
use crate::reflection::Tag;
use crate::time::Time;
use crate::wire::{Params, Reflect};

/// How many requests are looked at to find one that may be forgotten.
const MAX_LOOKED_AT: usize = 256;

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
    /// Times by which a hub should have confirmed a request, or a held one has waited long enough.
    pub(super) hops: BTreeSet<(Time, Key)>,
    /// The queries of requests that came while the hub was young.
    pub(super) early: Early,
    /// Those that wait for a provider to come.
    pub(super) held: BTreeSet<Key>,
}

impl Requests {
    pub(in crate::hub) fn len(&self) -> usize {
        self.table.len()
    }

    pub(in crate::hub) fn next_expiry(&self) -> Option<Time> {
        self.timers.first().into_iter().chain(self.hops.first()).map(|(at, _)| *at).min()
    }

    pub(in crate::hub) fn get(&self, key: Key) -> Option<&Asked> {
        self.table.get(&key)
    }

    pub(in crate::hub) fn iter(&self) -> impl Iterator<Item = (&Key, &Asked)> {
        self.table.iter()
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
        self.early.remove(&key);
        self.held.remove(&key);
        if let Some(due) = asked.stage.due() {
            self.hops.remove(&(due, key));
        }
        Some(asked)
    }

    /// One of the requests that end soonest that may be forgotten.
    pub(super) fn displaceable(&self) -> Option<Key> {
        let mut first = self.timers.iter().take(MAX_LOOKED_AT).map(|(_, key)| *key);
        first.find(|key| self.get(*key).is_some_and(Asked::is_forgettable))
    }

    /// Notes what was granted for a request.
    pub(in crate::hub) fn set_granted(&mut self, key: Key, granted: Option<Granted>) {
        if let Some(asked) = self.table.get_mut(&key) {
            asked.granted = granted;
        }
    }

    /// Another hub is to reflect what is asked for: it is tried by `choices`
    /// before all others.
    pub(in crate::hub) fn send_elsewhere(&mut self, key: Key, choices: impl DoubleEndedIterator<Item = Choice>) {
        let Some(asked) = self.table.get_mut(&key) else { return };
        (asked.elsewhere, asked.granted) = (true, None);
        choices.rev().for_each(|choice| asked.choices.push_front(choice));
    }

    /// Another hub reflects it, or none any more.
    pub(in crate::hub) fn set_spill(&mut self, key: Key, spill: Option<Spill>) {
        if let Some(asked) = self.table.get_mut(&key) {
            (asked.spill, asked.granted) = (spill, None);
        }
    }

    /// A provider is not tried again, by whatever way.
    pub(in crate::hub) fn drop_choices(&mut self, key: Key, provider: NodeId) {
        if let Some(asked) = self.table.get_mut(&key) {
            asked.choices.retain(|choice| choice.provider() != Some(provider));
        }
    }

    /// Changes where a copy is wanted; what is granted for it gets another tag.
    pub(in crate::hub) fn set_reflect(&mut self, key: Key, reflect: Option<Reflect>, tag: Tag) {
        let Some(asked) = self.table.get_mut(&key) else { return };
        asked.params = asked.params.map(|params| Params { reflect, ..params });
        asked.granted = asked.granted.filter(|_| reflect.is_some()).map(|granted| Granted { tag, ..granted });
    }

    /// Changes how far a request has come.
    pub(super) fn set_stage(&mut self, key: Key, stage: Stage) {
        let Some(asked) = self.table.get_mut(&key) else { return };
        let before = std::mem::replace(&mut asked.stage, stage);
        match stage {
            Stage::Held { .. } => self.held.insert(key),
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
