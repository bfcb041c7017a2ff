//! Streams that the hub reflects: what it lets its relay send on, to whom, and
//! whether there is room for it. The packets are the relay's business, which
//! the hub's owner runs.
//!
//! Who wants a copy says where, and by which tag it is recognised there
//! ([`CopyTarget`]). A hub that reflects keeps that as a [`ReflectionGrant`] and hands the
//! request on with its own address and a tag of its own in their place: so
//! each on the way knows its two remotes, and the stream finds its way back.

mod admission;
mod copy_target;
mod overflow;
mod reservations;
mod sealed_keys;
mod subscriber_copies;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

pub(super) use overflow::Overflow;
use reservations::Reservations;
use sealed_keys::SealedKeyCache;
use subscriber_copies::SubscriberCopies;

use super::request_key::RequestKey;
use super::requests::{RequestTarget, RoutedRequest};
use super::{HubEvent, MAX_RECEIVERS, MAX_REFLECTED_STREAMS, ReflectedStream, ReflectionConfig};
use crate::hub::core::HubCore;
use crate::hub::requests::{RequestTurn, Requests};
use roost_wire::messages::{CopyTarget, Reason};
use roost_wire::random::{RootSecret, SecretRng};
use roost_wire::reflection::{DownstreamKind, StartCondition};
use roost_wire::{Area, Cell, ConnectionId, NodeId, ReflectionGrant, Service, StreamTag, Time};

/// The most super nodes that reflect a stream one after the other: the
/// provider's home, the subscriber's, and one between them.
const MAX_REFLECTING: u8 = 3;

/// How long room is kept for a copy that was granted: until then it should have begun, on a
/// satellite path as well, and the owner have said so. If it comes another way meanwhile nobody says
/// so, and others do without that room.
const BEGINNING: Duration = Duration::from_secs(3);

/// What the hub knows of its relay.
#[derive(Debug)]
pub(super) struct ReflectionState {
    tags: SecretRng,
    /// What is left of the uplink for copies, kbit/s, and how many nodes are sent something:
    /// both as the owner has said last.
    residual_kbps: u32,
    subscribers: u32,
    streams: Vec<ReflectedStream>,
    /// Who is sent whose stream.
    sent: BTreeSet<CopyReceiver>,
    /// What that takes, kbit/s.
    sent_kbps: u32,
    subscriber_copies: SubscriberCopies,
    reservations: Reservations,
    /// What opens them, sealed.
    sealed_keys: SealedKeyCache,
}

/// A copy that somebody wants.
#[derive(Clone, Copy, Debug)]
pub(super) struct StreamCopy {
    to: SocketAddr,
    kind: DownstreamKind,
    service: Service,
    /// Whose, if that is known.
    provider: Option<NodeId>,
}

/// Where whose stream goes.
pub(super) type CopyReceiver = (SocketAddr, Service, NodeId);

impl StreamCopy {
    fn receiver(&self) -> Option<CopyReceiver> {
        self.provider.map(|provider| (self.to, self.service, provider))
    }
}

/// What was granted for a request, as it was last handed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Granted {
    pub(super) tag: StreamTag,
    pub(super) provider: Option<NodeId>,
}

impl ReflectionState {
    pub(super) fn new(secret: RootSecret) -> Self {
        Self {
            tags: SecretRng::new(secret, "grant"),
            residual_kbps: u32::MAX,
            subscribers: 0,
            streams: Vec::new(),
            sent: BTreeSet::new(),
            sent_kbps: 0,
            subscriber_copies: SubscriberCopies::default(),
            reservations: Reservations::default(),
            sealed_keys: SealedKeyCache::default(),
        }
    }

    /// Whether anything is carried at present.
    pub(super) fn is_busy(&self) -> bool {
        !self.streams.is_empty()
    }

    pub(super) fn next_due(&self) -> Option<Time> {
        self.reservations.next_due()
    }

    /// Whether the relay sends a copy, as far as it is known whose it is.
    fn is_sent(&self, copy: &StreamCopy) -> bool {
        copy.receiver().is_some_and(|receiver| self.sent.contains(&receiver))
    }

    /// A request has ended: what was granted for it and has not begun is free.
    pub(super) fn release(&mut self, key: RequestKey) {
        self.reservations.release(key);
    }

    /// Whether the relay carries this provider's stream.
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
}

impl ReflectionState {
    /// The owner says what its relay carries.
    pub(super) fn record_streams(&mut self, core: &mut HubCore, mut streams: Vec<ReflectedStream>) {
        let now = core.now;
        streams.truncate(MAX_REFLECTED_STREAMS);
        let reflecting = self;
        let sent = |stream: &ReflectedStream| {
            let (service, provider) = (stream.service, stream.provider);
            stream.to.iter().filter_map(move |to| Some((*to, service, provider?))).collect::<Vec<_>>()
        };
        reflecting.sent = streams.iter().flat_map(sent).take(MAX_RECEIVERS).collect();
        reflecting.sent_kbps = streams.iter().fold(0, |sum, stream| sum.saturating_add(stream.all_kbps()));
        reflecting.subscriber_copies.keep(now, |receiver| reflecting.sent.contains(receiver));
        // Of a copy whose provider is not known the address has to do.
        let to: BTreeSet<_> = reflecting.sent.iter().map(|(to, service, _)| (*to, *service)).collect();
        let sent = &reflecting.sent;
        reflecting.reservations.release_begun(|copy| match copy.receiver() {
            Some(receiver) => sent.contains(&receiver),
            None => to.contains(&(copy.to, copy.service)),
        });
        reflecting.streams = streams;
        let reflected: BTreeSet<_> =
            reflecting.streams.iter().filter_map(|stream| Some((stream.service, stream.provider?))).collect();
        reflecting
            .sealed_keys
            .keep(now, &mut core.counters.keys_expired, |service, provider| reflected.contains(&(service, provider)));
    }

    pub(super) fn expire_reservations(&mut self, core: &mut HubCore) {
        let now = core.now;
        self.reservations.expire(now);
    }
}

impl Requests {
    /// Lets a copy of the stream that a request is for go on to whoever asked,
    /// if this hub is one that reflects it. On an error there is no room.
    pub(super) fn grant_copy(
        &mut self,
        turn: &mut RequestTurn<'_>,
        key: RequestKey,
        choice: RequestTarget,
    ) -> Result<(), Reason> {
        self.forget_overflow(turn.core, key, choice);
        let Some(asked) = self.table.get(key) else { return Ok(()) };
        let Some(reflect) = asked.copy_wanted().filter(|reflect| turn.core.reflects(asked, *reflect, choice)) else {
            self.table.set_granted(key, None);
            self.reflection.release(key);
            return Ok(());
        };
        let (provider, requester) = (choice.provider().or(asked.named_provider()), asked.requester);
        let (to, kind, service) =
            (turn.core.seen_from(reflect.to, asked.connection), kind_of(reflect), asked.spec.service);
        if asked.granted.is_none() {
            let copy = StreamCopy { to, kind, service, provider };
            if self.try_overflow(turn, key, choice, &copy)? {
                self.reflection.release(key);
                return Ok(());
            }
            self.reflection.admit_copy(turn.core, key, requester, copy)?;
        }
        // Another choice must not be taken for the one before.
        let tag = StreamTag(self.reflection.tags.next_u64());
        self.table.set_granted(key, Some(Granted { tag, provider }));
        Ok(())
    }

    /// Another hub passes the same request on, and wants the copy: the one before
    /// may be gone.
    pub(super) fn grant_again(&mut self, key: RequestKey, reflect: Option<CopyTarget>) {
        let tag = StreamTag(self.reflection.tags.next_u64());
        if self.table.get(key).is_some_and(|asked| asked.copy_target != reflect) {
            self.table.set_reflect(key, reflect, tag);
        }
    }

    /// Tells the owner of what was granted for a request.
    pub(super) fn tell_grant(&mut self, turn: &mut RequestTurn<'_>, key: RequestKey) {
        let now = turn.core.now;
        let Some(asked) = self.table.get(key) else { return };
        let (Some(granted), Some(reflect)) = (asked.granted, asked.copy_wanted()) else { return };
        let Granted { tag, provider } = granted;
        let (to, service) = (turn.core.seen_from(reflect.to, asked.connection), asked.spec.service);
        // Without a provider the place could mean another one's stream.
        let held = provider.map(|node| turn.view.records.get(node).map(|entry| entry.cell()).or(asked.target_cell()));
        let cell = held.flatten();
        let (their_tag, kind, begin) = (reflect.tag, kind_of(reflect), turn.core.begin(to, reflect, asked.connection));
        let grant = ReflectionGrant { tag, to, their_tag, kind, service, cell, provider, begin };
        let requester = asked.requester;
        self.reflection.reservations.renew(now, key, provider);
        if let Some(provider) = provider.filter(|_| kind == DownstreamKind::Subscriber) {
            self.reflection.subscriber_copies.record_copy(now, requester, (to, service, provider));
        }
        turn.core.events.push_back(HubEvent::Reflect(grant));
    }

    /// Another hub says which provider has a request.
    pub(super) fn found_provider(&mut self, turn: &mut RequestTurn<'_>, key: RequestKey, provider: NodeId) {
        let Some(granted) = self.table.get(key).and_then(|asked| asked.granted) else { return };
        if granted.provider.is_none() {
            self.table.set_granted(key, Some(Granted { provider: Some(provider), ..granted }));
            self.tell_grant(turn, key);
        }
    }
}

impl HubCore {
    /// The destination of a copy that this hub tells the next one.
    pub(super) fn copy_onward(&self, asked: &RoutedRequest, relayed: bool) -> Option<CopyTarget> {
        let wanted = asked.copy_wanted()?;
        match (asked.granted, self.config.reflection) {
            // Whoever relays an answer would see what opens the stream.
            (_, _) if relayed => None,
            (Some(granted), Some(ReflectionConfig { media, .. })) => Some(CopyTarget {
                to: media,
                tag: granted.tag,
                hops: wanted.hops.saturating_add(1),
                provider: None,
                is_resuming: None,
            }),
            (_, _) => Some(CopyTarget { to: self.seen_from(wanted.to, asked.connection), provider: None, ..wanted }),
        }
    }

    /// Whether this hub reflects what is asked for: as the home of who asks, as
    /// the home of who provides, in that one's place, or as the layer between.
    /// One that leaves does not begin.
    fn reflects(&self, asked: &RoutedRequest, reflect: CopyTarget, choice: RequestTarget) -> bool {
        let Some(ReflectionConfig { layers, .. }) = self.config.reflection.filter(|_| self.leaving.is_none()) else {
            return false;
        };
        let at_an_end = choice.node().is_some() || asked.is_overflow_here() || !asked.is_from_hub() && !asked.elsewhere;
        reflect.hops < MAX_REFLECTING && (at_an_end || layers > 1 && reflect.hops == 1)
    }
}

impl HubCore {
    /// An address with an unspecified host replaced by where the remote is seen.
    pub(super) fn seen_from(&self, mut to: SocketAddr, connection: ConnectionId) -> SocketAddr {
        let seen = self.remotes.connections.get(&connection).and_then(|connection| connection.address.primary());
        if let Some(seen) = seen.filter(|_| to.ip().is_unspecified()) {
            to.set_ip(seen.ip());
        }
        to
    }

    /// When who asks over `connection` is sent a copy. A super node may have the stream from
    /// elsewhere, and says so when it answers.
    fn begin(&self, to: SocketAddr, reflect: CopyTarget, connection: ConnectionId) -> StartCondition {
        let seen = self.remotes.connections.get(&connection).and_then(|connection| connection.address.primary());
        let is_there = seen.is_some_and(|seen| seen.ip().to_canonical() == to.ip().to_canonical());
        match kind_of(reflect) {
            _ if reflect.is_resuming == Some(true) => StartCondition::Resumed,
            DownstreamKind::Subscriber if is_there => StartCondition::Offered,
            DownstreamKind::Subscriber | DownstreamKind::Reflector => StartCondition::Answered,
        }
    }
}

/// Who is sent a copy: a hub says that it reflects.
fn kind_of(reflect: CopyTarget) -> DownstreamKind {
    if reflect.hops > 0 { DownstreamKind::Reflector } else { DownstreamKind::Subscriber }
}
