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
use roost_wire::messages::{FlowMessage, SealedKeys};
use roost_wire::{Channel, ConnectionId, NodeId, RequestId, Service, Time};

use super::stream_copy::ReflectedStreamId;
use crate::hub::HubLimit;
use crate::hub::core::HubCore;
use crate::hub::remotes::PUBLICATION;
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
pub(crate) struct SealedKeyCache(BTreeMap<SealedKeyId, SealedKeyEntry>);

/// A stream, and who has told what opens it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct SealedKeyId {
    stream: ReflectedStreamId,
    source: NodeId,
}

/// A request for a stream, as far as what opens the stream is concerned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyRequest {
    pub(crate) service: Service,
    pub(crate) provider: NodeId,
    /// The provider or the hub to which the request has gone.
    pub(crate) source: NodeId,
    pub(crate) is_granted: bool,
    /// The hub that has passed the request on to this one.
    pub(crate) hub: Option<NodeId>,
}

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
    /// A request for a stream has gone on: who asked, over `connection` under `id`, gets what opens the stream, if
    /// that is here, or once it comes.
    pub(crate) fn hand_keys(
        &mut self,
        core: &mut HubCore,
        wanted: KeyRequest,
        connection: ConnectionId,
        id: RequestId,
    ) {
        let KeyRequest { service, provider, hub, .. } = wanted;
        let sealed = self.request(core.now, wanted, &mut core.counters.keys_expired);
        let Some(sealed) = sealed else { return };
        // A node has the provider's word instead if this is lost, a hub none.
        let (id, channel) = match hub {
            Some(_) => (None, Channel::Reliable { flow: 0 }),
            None => (Some(id), Channel::Datagram),
        };
        core.tell_keys(connection, channel, SealedKeys { id, service, provider, hops_left: HOPS, sealed });
    }

    /// A provider, or the hub that is nearer to it, says what opens its stream. `granted` names the requests of
    /// this hub's nodes for the stream.
    pub(crate) fn handle_keys(
        &mut self,
        core: &mut HubCore,
        from: Sender,
        keys: SealedKeys,
        granted: impl FnOnce(Service, NodeId) -> Vec<(ConnectionId, RequestId)>,
    ) {
        let now = core.now;
        let SealedKeys { service, provider, hops_left: hops, sealed, .. } = keys;
        let id = SealedKeyId { stream: ReflectedStreamId { service, provider }, source: from.node };
        let (Some(entry), Some(remote)) = (self.0.get_mut(&id), core.remotes.get_mut(from.node)) else {
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
        for (connection, id) in granted(service, provider) {
            let keys = SealedKeys { id: Some(id), service, provider, hops_left: HOPS, sealed: sealed.clone() };
            core.tell_keys(connection, Channel::Datagram, keys);
        }
        let Some(hops) = hops.min(HOPS).checked_sub(1) else { return };
        let keys = SealedKeys { id: None, service, provider, hops_left: hops, sealed };
        for hub in entry.hubs.iter().filter(|hub| **hub != from.node) {
            if let Some(connection) = core.connection_to(*hub) {
                core.tell_keys(connection, Channel::Reliable { flow: 0 }, keys.clone());
            }
        }
    }

    /// Notes a request for a stream, and gives what opens the stream; `expired` counts what is forgotten.
    fn request(&mut self, now: Time, wanted: KeyRequest, expired: &mut u64) -> Option<Bytes> {
        let KeyRequest { service, provider, source, is_granted, hub } = wanted;
        let key = SealedKeyId { stream: ReflectedStreamId { service, provider }, source };
        if !self.0.contains_key(&key) {
            self.retain(expired, |_, entry| now.since(entry.touched) < LIFE);
            if self.0.len() >= MAX_STREAMS {
                *expired += u64::from(self.forget_one()?.sealed.is_some());
            }
        }
        let entry = self.0.entry(key).or_insert_with(|| SealedKeyEntry::new(now));
        entry.touched = now;
        entry.is_granted |= is_granted;
        if entry.hubs.len() < MAX_TOLD {
            entry.hubs.extend(hub);
        }
        entry.sealed.clone()
    }

    /// Forgets the one that was asked for longest ago; none that is granted.
    fn forget_one(&mut self) -> Option<SealedKeyEntry> {
        let passed_on = self.0.iter().filter(|(_, entry)| !entry.is_granted);
        let oldest = *passed_on.min_by_key(|(_, entry)| entry.touched)?.0;
        self.0.remove(&oldest)
    }

    /// Forgets what belongs to streams that are not carried any more.
    pub(super) fn keep(&mut self, now: Time, expired: &mut u64, carries: impl Fn(&ReflectedStreamId) -> bool) {
        self.retain(expired, |id, entry| {
            let idle = now.since(entry.touched);
            let is_of_use = if entry.is_granted { carries(&id.stream) } else { idle < LIFE };
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

impl HubCore {
    fn tell_keys(&mut self, connection: ConnectionId, channel: Channel, keys: SealedKeys) {
        self.counters.keys_handed += 1;
        self.send(connection, channel, Traffic::Lookup, FlowMessage::SealedKeys(keys));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use roost_wire::ids::NodeId;

    fn node(number: u32) -> NodeId {
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&number.to_be_bytes());
        NodeId::from_bytes(bytes)
    }

    fn request(number: u32, source: NodeId, is_granted: bool) -> KeyRequest {
        KeyRequest { service: Service::Video, provider: node(number), source, is_granted, hub: None }
    }

    fn id(number: u32, source: NodeId) -> SealedKeyId {
        SealedKeyId { stream: ReflectedStreamId { service: Service::Video, provider: node(number) }, source }
    }

    #[test]
    fn sealed_keys_bounded_and_expired() {
        let (mut keys, now) = (SealedKeyCache::default(), Time::ZERO);
        let (source, mut expired) = (node(1), 0);
        let mut ask = |keys: &mut SealedKeyCache, number: u32| {
            let now = now + Duration::from_millis(number.into());
            keys.request(now, request(number, source, number < 10), &mut expired);
            let entry = keys.0.get_mut(&id(number, source));
            entry.map(|entry| entry.sealed = Some(Bytes::new())).is_some()
        };
        assert!((0..10_000).all(|number| ask(&mut keys, number)));
        assert_eq!(keys.0.len(), MAX_STREAMS);
        assert!([0, 9_999].iter().all(|number| keys.0.contains_key(&id(*number, source))));
        // What is granted here makes no room for what may not even be there.
        keys.0.values_mut().for_each(|entry| entry.is_granted = true);
        assert!(!ask(&mut keys, 10_000));
        keys.0.values_mut().for_each(|entry| entry.is_granted = false);
        let mut forgotten = 0;
        keys.keep(now + LIFE + Duration::from_secs(10), &mut forgotten, |_| true);
        assert_eq!((keys.0.len(), forgotten, expired), (0, MAX_STREAMS as u64, 10_000 - MAX_STREAMS as u64));
    }

    #[test]
    fn sealed_keys_separate_per_source() {
        let (mut keys, now) = (SealedKeyCache::default(), Time::ZERO);
        let (one, other, sealed) = (node(2), node(3), Some(Bytes::from_static(b"one")));
        keys.request(now, request(1, one, false), &mut 0);
        keys.0.get_mut(&id(1, one)).unwrap().sealed = sealed.clone();
        assert_eq!(keys.request(now, request(1, other, false), &mut 0), None, "it has told nothing yet");
        assert_eq!(keys.request(now, request(1, one, false), &mut 0), sealed);
    }
}
