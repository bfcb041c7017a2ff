//! Copies that were granted and have not begun: what the owner says of its
//! uplink does not have them in yet.
//!
//! A pledge belongs to the request for the copy and ends with it, unless the
//! copy has begun before, or has not in [`BEGINNING`].

use std::collections::{BTreeMap, BTreeSet};

use roost_wire::reflection::DownstreamKind;
use roost_wire::{NodeId, Time};

use super::stream_copy::{BEGINNING, CopyReceiver, StreamCopy};
use crate::request_key::RequestKey;

/// The most pledges. Where room is limited nothing is granted beyond.
pub(super) const MAX_RESERVATIONS: usize = 4_096;

/// The most of one requester at once: who enters a room of 64 members with four streams each asks for the other half
/// when these have begun.
pub(super) const MAX_RESERVATIONS_EACH: usize = 128;

#[derive(Debug, Default)]
pub(super) struct Reservations {
    all: BTreeMap<RequestKey, Reservation>,
    timers: BTreeSet<(Time, RequestKey)>,
    /// The copies of which it is known whose they are, with the pledges for each: one copy takes room once,
    /// as long as one of those who asked for it waits.
    shared: BTreeMap<CopyReceiver, BTreeSet<RequestKey>>,
    /// Rate of all copies, kbit/s.
    kbps: u64,
    /// Copies for nodes, of all.
    subscribers: u32,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Reservation {
    pub(super) copy: StreamCopy,
    /// The node that asked for it first of all.
    pub(super) requester: NodeId,
    pub(super) kbps: u32,
    pub(super) until: Time,
}

impl Reservations {
    pub(super) fn next_due(&self) -> Option<Time> {
        self.timers.first().map(|(at, _)| *at)
    }

    pub(super) fn is_full(&self) -> bool {
        self.all.len() >= MAX_RESERVATIONS
    }

    pub(super) fn kbps(&self) -> u32 {
        u32::try_from(self.kbps).unwrap_or(u32::MAX)
    }

    pub(super) fn subscribers(&self) -> u32 {
        self.subscribers
    }

    /// Number of copies that a node is pledged as a subscriber, and what they take, kbit/s.
    pub(super) fn reserved_by(&self, requester: NodeId) -> (usize, u32) {
        let of_it = |reservation: &&Reservation| {
            reservation.requester == requester && reservation.copy.kind == DownstreamKind::Subscriber
        };
        let add =
            |(count, kbps): (usize, u32), reservation: &Reservation| (count + 1, kbps.saturating_add(reservation.kbps));
        self.all.values().filter(of_it).fold((0, 0), add)
    }

    /// Receivers of reserved copies whose provider is known.
    pub(super) fn receivers(&self) -> impl Iterator<Item = CopyReceiver> + '_ {
        self.shared.keys().copied()
    }

    pub(super) fn has(&self, receiver: CopyReceiver) -> bool {
        self.shared.contains_key(&receiver)
    }

    /// Enters a pledge in place of the one before of the same request, and of
    /// another request of the same requester for the same copy.
    pub(super) fn insert(&mut self, key: RequestKey, mut reservation: Reservation) {
        self.release(key);
        let others = reservation.copy.receiver().and_then(|receiver| self.shared.get(&receiver)).into_iter().flatten();
        let is_same =
            |other: &&RequestKey| self.all.get(other).is_some_and(|other| other.requester == reservation.requester);
        if let Some(other) = others.copied().find(|other| is_same(&other)) {
            self.release(other);
        }
        if self.is_full() {
            return;
        }
        self.timers.insert((reservation.until, key));
        let first = reservation.copy.receiver().and_then(|receiver| {
            let all = self.shared.entry(receiver).or_default();
            let first = all.first().copied();
            all.insert(key);
            first
        });
        if let Some(first) = first.and_then(|first| self.all.get(&first)) {
            // The last one takes off the counted rate.
            (reservation.kbps, reservation.copy.kind) = (first.kbps, first.copy.kind);
        } else {
            self.kbps += u64::from(reservation.kbps);
            self.subscribers += u32::from(reservation.copy.kind == DownstreamKind::Subscriber);
        }
        self.all.insert(key, reservation);
    }

    /// The request is handed on, or it is known now whose copy it is.
    pub(super) fn renew(&mut self, now: Time, key: RequestKey, provider: Option<NodeId>) {
        if let Some(mut reservation) = self.all.get(&key).copied() {
            (reservation.copy.provider, reservation.until) = (provider, now + BEGINNING);
            self.insert(key, reservation);
        }
    }

    /// The request has ended. Its copy takes room still if somebody else waits for it.
    pub(super) fn release(&mut self, key: RequestKey) {
        let Some(reservation) = self.all.remove(&key) else { return };
        self.timers.remove(&(reservation.until, key));
        if let Some(receiver) = reservation.copy.receiver()
            && let Some(all) = self.shared.get_mut(&receiver)
        {
            all.remove(&key);
            if !all.is_empty() {
                return;
            }
            self.shared.remove(&receiver);
        }
        self.kbps -= u64::from(reservation.kbps);
        self.subscribers -= u32::from(reservation.copy.kind == DownstreamKind::Subscriber);
    }

    /// Ends those that have become copies.
    pub(super) fn release_begun(&mut self, has_begun: impl Fn(&StreamCopy) -> bool) {
        let begun = self.all.iter().filter(|(_, reservation)| has_begun(&reservation.copy));
        begun.map(|(key, _)| *key).collect::<Vec<_>>().into_iter().for_each(|key| self.release(key));
    }

    pub(super) fn expire(&mut self, now: Time) {
        while let Some((_, key)) = self.timers.first().copied().filter(|(at, _)| *at <= now) {
            self.release(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use roost_wire::ids::RequestId;
    use roost_wire::service::Service;

    fn pledge(requester: u8, to: u8) -> (RequestKey, Reservation) {
        let (requester, provider) = (NodeId::from_bytes([requester; 16]), Some(NodeId::from_bytes([99; 16])));
        let to = ([10, 0, 0, to], 9_000).into();
        let copy = StreamCopy { to, kind: DownstreamKind::Subscriber, service: Service::Video, provider };
        (
            RequestKey { requester, id: RequestId(1) },
            Reservation { copy, requester, kbps: 700, until: Time::ZERO + BEGINNING },
        )
    }

    #[test]
    fn shared_copy_reserved_once_until_released() {
        let mut pledges = Reservations::default();
        let asked = [pledge(1, 7), pledge(2, 7), pledge(3, 8)];
        asked.iter().for_each(|(key, pledge)| pledges.insert(*key, *pledge));
        assert_eq!((pledges.kbps(), pledges.subscribers()), (1_400, 2));
        pledges.release(asked[1].0);
        assert_eq!((pledges.kbps(), pledges.subscribers()), (1_400, 2), "the first one waits for it still");
        pledges.insert(asked[1].0, asked[1].1);
        pledges.release(asked[0].0);
        assert_eq!((pledges.kbps(), pledges.subscribers()), (1_400, 2), "the second one does");
        // Another request of the same node takes the place of the one before.
        pledges.insert(RequestKey { id: RequestId(2), ..asked[1].0 }, asked[1].1);
        assert_eq!((pledges.all.len(), pledges.kbps()), (2, 1_400));
        pledges.expire(Time::ZERO + BEGINNING);
        assert_eq!((pledges.kbps(), pledges.subscribers(), pledges.shared.len()), (0, 0, 0));
    }
}
