//! Copies that were granted and have not begun: what the owner says of its
//! uplink does not have them in yet.
//!
//! A pledge belongs to the request for the copy and ends with it, unless the
//! copy has begun before, or has not in [`BEGINNING`].

use std::collections::{BTreeMap, BTreeSet};

use super::{BEGINNING, Copy, Receiver};
use crate::hub::requests::Key;
use crate::ids::NodeId;
use crate::reflection::Kind;
use crate::time::Time;

/// The most pledges. Where room is limited nothing is granted beyond.
pub(super) const MAX_PLEDGES: usize = 4_096;

/// The most of one requester: a room of 64 members with two streams each.
pub(super) const MAX_PLEDGES_EACH: usize = 128;

#[derive(Debug, Default)]
pub(super) struct Pledges {
    all: BTreeMap<Key, Pledge>,
    timers: BTreeSet<(Time, Key)>,
    /// What all of them take, kbit/s.
    kbps: u64,
    /// How many of them are for nodes.
    subscribers: u32,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Pledge {
    pub(super) copy: Copy,
    /// Who asked for it first of all.
    pub(super) requester: NodeId,
    pub(super) kbps: u32,
    /// When it ends by itself.
    pub(super) until: Time,
}

impl Pledges {
    pub(super) fn next_due(&self) -> Option<Time> {
        self.timers.first().map(|(at, _)| *at)
    }

    pub(super) fn is_full(&self) -> bool {
        self.all.len() >= MAX_PLEDGES
    }

    pub(super) fn kbps(&self) -> u32 {
        u32::try_from(self.kbps).unwrap_or(u32::MAX)
    }

    pub(super) fn subscribers(&self) -> u32 {
        self.subscribers
    }

    /// How many copies a node is pledged as a subscriber, and what they take, kbit/s.
    pub(super) fn of(&self, requester: NodeId) -> (usize, u32) {
        let of_it = |pledge: &&Pledge| pledge.requester == requester && pledge.copy.kind == Kind::Subscriber;
        let add = |(count, kbps): (usize, u32), pledge: &Pledge| (count + 1, kbps.saturating_add(pledge.kbps));
        self.all.values().filter(of_it).fold((0, 0), add)
    }

    /// Who is pledged what, as far as it is known of whom.
    pub(super) fn receivers(&self) -> impl Iterator<Item = Receiver> + '_ {
        self.all.values().filter_map(|pledge| pledge.copy.receiver())
    }

    /// Enters a pledge in place of the one before of the same request, and of
    /// another request for the same copy.
    pub(super) fn insert(&mut self, key: Key, pledge: Pledge) {
        self.release(key);
        let receiver = pledge.copy.receiver();
        let same = |(_, other): &(&Key, &Pledge)| receiver.is_some() && other.copy.receiver() == receiver;
        if let Some(other) = self.all.iter().find(same).map(|(other, _)| *other) {
            self.release(other);
        }
        if self.is_full() {
            return;
        }
        self.kbps += u64::from(pledge.kbps);
        self.subscribers += u32::from(pledge.copy.kind == Kind::Subscriber);
        self.timers.insert((pledge.until, key));
        self.all.insert(key, pledge);
    }

    /// The request is handed on, or it is known now whose copy it is.
    pub(super) fn renew(&mut self, now: Time, key: Key, provider: Option<NodeId>) {
        if let Some(mut pledge) = self.all.get(&key).copied() {
            (pledge.copy.provider, pledge.until) = (provider, now + BEGINNING);
            self.insert(key, pledge);
        }
    }

    /// The request has ended.
    pub(super) fn release(&mut self, key: Key) {
        let Some(pledge) = self.all.remove(&key) else { return };
        self.timers.remove(&(pledge.until, key));
        self.kbps -= u64::from(pledge.kbps);
        self.subscribers -= u32::from(pledge.copy.kind == Kind::Subscriber);
    }

    /// Ends those that have become copies.
    pub(super) fn release_begun(&mut self, has_begun: impl Fn(&Copy) -> bool) {
        let begun = self.all.iter().filter(|(_, pledge)| has_begun(&pledge.copy));
        begun.map(|(key, _)| *key).collect::<Vec<_>>().into_iter().for_each(|key| self.release(key));
    }

    pub(super) fn expire(&mut self, now: Time) {
        while let Some((_, key)) = self.timers.first().copied().filter(|(at, _)| *at <= now) {
            self.release(key);
        }
    }
}
