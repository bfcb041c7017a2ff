//! What opens a reflected stream, left by its provider with the hubs that send
//! it on, sealed for nodes: so who joins need not wait for the provider's word.
//!
//! It comes back along the way of the requests for it: from the provider to
//! the hub that hands it requests, and from each hub to those that have passed
//! requests on to it. A hub cannot open it, and hands it to whom it has
//! granted a copy.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use roost_wire::messages::{FlowMessage, Message, SealedKeys};
use roost_wire::{Channel, ConnectionId, NodeId, RequestId, Service, Time};

use crate::hub::HubLimit;
use crate::hub::core::HubCore;
use crate::hub::remotes::PUBLICATION;
use crate::hub::request_key::RequestKey;
use crate::hub::requests::{Requests, RoutedRequest};
use crate::hub::route::HOPS;
use crate::hub::sender::Sender;
use crate::machine::Traffic;

/// The most of which something is kept, from each remote one. One more takes the place of one of which no
/// copy is granted here, or is not kept.
const MAX_STREAMS: usize = 256;

/// The most hubs that are told of one stream.
const MAX_TOLD: usize = 64;

/// How long it is kept while nobody asks for it: an epoch lasts ten minutes.
const LIFE: Duration = Duration::from_secs(900);

/// After a request's coming its stream may not have begun yet.
const BEGINNING: Duration = Duration::from_secs(10);

/// What is kept of each provider's stream, from each remote to whom requests for it go: the
/// provider or a hub. What one has told may be of another time than what another one does.
#[derive(Debug, Default)]
pub(super) struct SealedKeyCache(BTreeMap<SealedKeyId, SealedKeyEntry>);

/// What is reflected, whose stream it is, and who has told what opens it.
type SealedKeyId = (Service, NodeId, NodeId);

#[derive(Debug)]
struct SealedKeyEntry {
    /// The latest.
    sealed: Option<Bytes>,
    /// The hubs that have passed requests on to this one.
    hubs: BTreeSet<NodeId>,
    /// Whether this hub has granted copies, and not only passed requests on.
    is_granted: bool,
    touched: Time,
}

impl SealedKeyCache {
    /// What is kept of a stream for which a request goes to `source`; `expired` counts what is forgotten.
    fn asked_of(
        &mut self,
        now: Time,
        (service, provider): (Service, NodeId),
        source: NodeId,
        expired: &mut u64,
    ) -> Option<&mut SealedKeyEntry> {
        let key = (service, provider, source);
        if !self.0.contains_key(&key) {
            self.retain(expired, |_, entry| now.since(entry.touched) < LIFE);
            if self.0.len() >= MAX_STREAMS {
                *expired += u64::from(self.forget_one()?.sealed.is_some());
            }
        }
        let entry = self.0.entry(key).or_insert_with(|| SealedKeyEntry::new(now));
        entry.touched = now;
        Some(entry)
    }

    /// Forgets the one that was asked for longest ago; none that is granted.
    fn forget_one(&mut self) -> Option<SealedKeyEntry> {
        let passed_on = self.0.iter().filter(|(_, entry)| !entry.is_granted);
        let oldest = *passed_on.min_by_key(|(_, entry)| entry.touched)?.0;
        self.0.remove(&oldest)
    }

    /// Forgets what belongs to streams that are not carried any more.
    pub(super) fn keep(&mut self, now: Time, expired: &mut u64, carries: impl Fn(Service, NodeId) -> bool) {
        self.retain(expired, |(service, provider, _), entry| {
            let idle = now.since(entry.touched);
            let is_of_use = if entry.is_granted { carries(*service, *provider) } else { idle < LIFE };
            idle < BEGINNING || is_of_use
        });
    }

    fn retain(&mut self, expired: &mut u64, stays: impl Fn(&SealedKeyId, &SealedKeyEntry) -> bool) {
        self.0.retain(|stream, entry| {
            let stays = stays(stream, entry);
            *expired += u64::from(!stays && entry.sealed.is_some());
            stays
        });
    }
}

impl SealedKeyEntry {
    fn new(now: Time) -> Self {
        Self { sealed: None, hubs: BTreeSet::new(), is_granted: false, touched: now }
    }
}

impl Requests {
    /// A request for a provider's stream has gone on: who asked gets what opens
    /// it, if that is here, or once it comes.
    pub(crate) fn hand_keys(&mut self, core: &mut HubCore, key: RequestKey, provider: NodeId) {
        let now = core.now;
        let Some(asked) = self.table.get(key).filter(|asked| asked.copy_target.is_some()) else {
            return;
        };
        let Some(source) = asked.handed_to() else { return };
        let (service, connection, requester, is_carried) =
            (asked.spec.service, asked.connection, asked.remote, asked.is_from_hub());
        let is_granted = asked.granted.is_some();
        if !is_carried && !is_granted {
            return;
        }
        let (cache, expired) = (&mut self.reflection.sealed_keys, &mut core.counters.keys_expired);
        let Some(entry) = cache.asked_of(now, (service, provider), source, expired) else { return };
        entry.is_granted |= is_granted;
        if is_carried && entry.hubs.len() < MAX_TOLD {
            entry.hubs.insert(requester);
        }
        let Some(sealed) = entry.sealed.clone() else { return };
        // A node has the provider's word instead if this is lost, a hub none.
        let (id, channel) = match is_carried {
            true => (None, Channel::Reliable { flow: 0 }),
            false => (Some(key.id), Channel::Datagram),
        };
        core.tell_keys(connection, channel, SealedKeys { id, service, provider, hops_left: HOPS, sealed });
    }

    /// A provider, or the hub that is nearer to it, says what opens its stream.
    pub(crate) fn handle_keys(&mut self, core: &mut HubCore, from: Sender, keys: SealedKeys) {
        let now = core.now;
        let SealedKeys { service, provider, hops_left: hops, sealed, .. } = keys;
        let cache = &mut self.reflection.sealed_keys.0;
        let told = cache.get_mut(&(service, provider, from.node));
        let remote = core.remotes.get_mut(from.node);
        let (Some(entry), Some(remote)) = (told, remote) else {
            core.counters.stray += 1;
            return;
        };
        if entry.sealed.as_ref() == Some(&sealed) {
            return;
        }
        if !remote.try_charge(now, PUBLICATION) {
            // What was told before is past: who joins waits for the provider's word.
            entry.sealed = None;
            core.over_limit(from.node, HubLimit::WorkRate);
            return;
        }
        (entry.sealed, entry.touched) = (Some(sealed.clone()), now);
        core.counters.keys_stored += 1;
        let hubs = entry.hubs.clone();
        for (connection, id) in self.granted_requests(from.node, service, provider) {
            let keys = SealedKeys { id: Some(id), service, provider, hops_left: HOPS, sealed: sealed.clone() };
            core.tell_keys(connection, Channel::Datagram, keys);
        }
        let Some(hops) = hops.min(HOPS).checked_sub(1) else { return };
        let keys = SealedKeys { id: None, service, provider, hops_left: hops, sealed };
        for hub in hubs.into_iter().filter(|hub| *hub != from.node) {
            if let Some(connection) = core.connection_to(hub) {
                core.tell_keys(connection, Channel::Reliable { flow: 0 }, keys.clone());
            }
        }
    }

    /// The requests of this hub's nodes that `remote` has and that were granted a copy of this stream; one
    /// that has gone on to another provider's is none.
    fn granted_requests(&self, remote: NodeId, service: Service, provider: NodeId) -> Vec<(ConnectionId, RequestId)> {
        let is_of = |asked: &RoutedRequest| {
            let granted = asked.granted.and_then(|granted| granted.provider);
            let is_handed = asked.handed_to() == Some(remote) && !asked.is_from_hub();
            is_handed && asked.spec.service == service && granted == Some(provider)
        };
        let granted = self.table.iter().filter(|(_, asked)| is_of(asked));
        granted.map(|(key, asked)| (asked.connection, key.id)).collect()
    }
}

impl HubCore {
    fn tell_keys(&mut self, connection: ConnectionId, channel: Channel, keys: SealedKeys) {
        self.counters.keys_handed += 1;
        self.send(connection, channel, Traffic::Lookup, &Message::Flow(FlowMessage::SealedKeys(keys)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use roost_wire::ids::NodeId;

    fn stream(number: u32) -> (Service, NodeId) {
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&number.to_be_bytes());
        (Service::Video, NodeId::from_bytes(bytes))
    }

    #[test]
    fn sealed_keys_bounded_and_expired() {
        let (mut deposits, now) = (SealedKeyCache::default(), Time::ZERO);
        let (source, mut expired) = (stream(1).1, 0);
        let mut asked = |deposits: &mut SealedKeyCache, number: u32| {
            let now = now + Duration::from_millis(number.into());
            let deposit = deposits.asked_of(now, stream(number), source, &mut expired);
            deposit.map(|deposit| (deposit.sealed, deposit.is_granted) = (Some(Bytes::new()), number < 10)).is_some()
        };
        assert!((0..10_000).all(|number| asked(&mut deposits, number)));
        let (first, last) = (stream(0), stream(9_999));
        assert_eq!(deposits.0.len(), MAX_STREAMS);
        assert!([first, last].iter().all(|one| deposits.0.contains_key(&(one.0, one.1, source))));
        // What is granted here makes no room for what may not even be there.
        deposits.0.values_mut().for_each(|deposit| deposit.is_granted = true);
        assert!(!asked(&mut deposits, 10_000));
        deposits.0.values_mut().for_each(|deposit| deposit.is_granted = false);
        let mut forgotten = 0;
        deposits.keep(now + LIFE + Duration::from_secs(10), &mut forgotten, |_, _| true);
        assert_eq!((deposits.0.len(), forgotten, expired), (0, MAX_STREAMS as u64, 10_000 - MAX_STREAMS as u64));
    }

    #[test]
    fn sealed_keys_separate_per_source() {
        let (mut deposits, now) = (SealedKeyCache::default(), Time::ZERO);
        let (one, other, sealed) = (stream(2).1, stream(3).1, Some(Bytes::from_static(b"one")));
        deposits.asked_of(now, stream(1), one, &mut 0).unwrap().sealed = sealed.clone();
        let nothing = deposits.asked_of(now, stream(1), other, &mut 0).unwrap();
        assert_eq!(nothing.sealed, None, "it has told nothing yet");
        assert_eq!(deposits.asked_of(now, stream(1), one, &mut 0).unwrap().sealed, sealed);
    }
}
