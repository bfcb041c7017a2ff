//! Streams that the hub reflects: what it lets its relay send on, to whom, and
//! whether there is room for it. The packets are the relay's business, which
//! the hub's owner runs.
//!
//! A requester of a copy says where, and by which tag it is recognised there
//! ([`CopyTarget`](roost_wire::messages::CopyTarget)). A hub that reflects keeps that as a [`ReflectionGrant`] and
//! hands the request on with its own address and a tag of its own in their place: so each on the way knows its two
//! remotes, and the stream finds its way back.

mod admission;
mod overflow;
mod reservations;
mod sealed_keys;
mod stream_copy;
mod subscriber_copies;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::net::SocketAddr;

use roost_wire::random::{RootSecret, SecretRng};
use roost_wire::reflection::DownstreamKind;
use roost_wire::{Area, Cell, NodeId, ReflectionGrant, Service, StreamTag, Time};

pub(super) use overflow::{CopySource, OverflowPlan};
use reservations::Reservations;
pub(super) use sealed_keys::KeyRequest;
use sealed_keys::SealedKeyCache;
use stream_copy::{CopyReceiver, ReflectedStreamId};
pub(super) use stream_copy::{StreamCopy, kind_of};
use subscriber_copies::SubscriberCopies;

use super::core::HubCore;
use super::{HubEvent, MAX_RECEIVERS, MAX_REFLECTED_STREAMS, ReflectedStream};
use crate::request_key::RequestKey;

/// Knowledge of the relay of this hub.
#[derive(Debug)]
pub(super) struct ReflectionState {
    tags: SecretRng,
    /// Room of the uplink for copies, kbit/s, `None` without a limit, and how many nodes are sent something: both as
    /// the owner has said last.
    residual_kbps: Option<u32>,
    subscribers: u32,
    streams: Vec<ReflectedStream>,
    sent: BTreeSet<CopyReceiver>,
    /// Rate of these copies, kbit/s.
    sent_kbps: u32,
    subscriber_copies: SubscriberCopies,
    reservations: Reservations,
    pub(super) sealed_keys: SealedKeyCache,
}

impl ReflectionState {
    pub(super) fn new(secret: RootSecret) -> Self {
        Self {
            tags: SecretRng::new(secret, "grant"),
            residual_kbps: None,
            subscribers: 0,
            streams: Vec::new(),
            sent: BTreeSet::new(),
            sent_kbps: 0,
            subscriber_copies: SubscriberCopies::default(),
            reservations: Reservations::default(),
            sealed_keys: SealedKeyCache::default(),
        }
    }

    pub(super) fn is_busy(&self) -> bool {
        !self.streams.is_empty()
    }

    pub(super) fn next_due(&self) -> Option<Time> {
        self.reservations.next_due()
    }

    /// True if the relay sends a copy, as far as it is known whose it is.
    fn is_sent(&self, copy: &StreamCopy) -> bool {
        copy.receiver().is_some_and(|receiver| self.sent.contains(&receiver))
    }

    /// A request has ended: what was granted for it and has not begun is free.
    pub(super) fn release(&mut self, key: RequestKey) {
        self.reservations.release(key);
    }

    /// True if the relay carries this provider's stream.
    pub(super) fn reflects(&self, service: Service, provider: NodeId) -> bool {
        self.find_stream(service, provider).is_some()
    }

    fn find_stream(&self, service: Service, provider: NodeId) -> Option<&ReflectedStream> {
        self.streams.iter().find(|stream| stream.service == service && stream.provider == Some(provider))
    }

    /// A provider in `area` whose stream is carried, and where it is. Where the
    /// nearest is asked for, none is preferred.
    pub(super) fn find_stream_in(&self, service: Service, area: Area) -> Option<(NodeId, Cell)> {
        let fits = |stream: &&ReflectedStream| stream.service == service && !matches!(area, Area::Nearest(_));
        let named = self.streams.iter().filter(fits).filter_map(|stream| Some((stream.provider?, stream.cell?)));
        named.into_iter().find(|(_, cell)| area.contains(*cell))
    }

    /// A tag that nobody can guess.
    pub(super) fn next_tag(&mut self) -> StreamTag {
        StreamTag(self.tags.next_u64())
    }

    /// Tells the owner of a copy that was granted for a request.
    pub(super) fn tell_grant(
        &mut self,
        core: &mut HubCore,
        key: RequestKey,
        requester: NodeId,
        grant: ReflectionGrant,
    ) {
        let ReflectionGrant { to, kind, service, provider, .. } = grant;
        self.reservations.renew(core.now, key, provider);
        if let Some(provider) = provider.filter(|_| kind == DownstreamKind::Subscriber) {
            self.subscriber_copies.record_copy(core.now, requester, CopyReceiver { to, service, provider });
        }
        core.events.push_back(HubEvent::Reflect(grant));
    }

    /// The owner says what its relay carries.
    pub(super) fn record_streams(&mut self, core: &mut HubCore, mut streams: Vec<ReflectedStream>) {
        let now = core.now;
        streams.truncate(MAX_REFLECTED_STREAMS);
        let receivers = |stream: &ReflectedStream| {
            let (service, provider) = (stream.service, stream.provider);
            let receiver = move |to: &SocketAddr| Some(CopyReceiver { to: *to, service, provider: provider? });
            stream.to.iter().filter_map(receiver).collect::<Vec<_>>()
        };
        let sent: BTreeSet<CopyReceiver> = streams.iter().flat_map(receivers).take(MAX_RECEIVERS).collect();
        self.sent_kbps = streams.iter().fold(0, |sum, stream| sum.saturating_add(stream.all_kbps()));
        self.subscriber_copies.keep(now, |receiver| sent.contains(receiver));
        // Of a copy whose provider is not known the address has to do.
        let to: BTreeSet<_> = sent.iter().map(|receiver| (receiver.to, receiver.service)).collect();
        self.reservations.release_begun(|copy| match copy.receiver() {
            Some(receiver) => sent.contains(&receiver),
            None => to.contains(&(copy.to, copy.service)),
        });
        let id =
            |stream: &ReflectedStream| Some(ReflectedStreamId { service: stream.service, provider: stream.provider? });
        let reflected: BTreeSet<ReflectedStreamId> = streams.iter().filter_map(id).collect();
        self.sealed_keys.keep(now, &mut core.counters.keys_expired, |stream| reflected.contains(stream));
        (self.sent, self.streams) = (sent, streams);
    }

    pub(super) fn expire_reservations(&mut self, now: Time) {
        self.reservations.expire(now);
    }
}
