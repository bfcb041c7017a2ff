//! The streams that the node publishes, and their keys.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use roost_wire::messages::{CopyTarget, Reason, Request, StreamKeys};
use roost_wire::{Epoch, EpochSecret, Service, StreamId, Time};

use crate::node::api::SessionId;
use crate::node::connections::NodeConnection;

/// The most requests that one publication serves: each costs a message per epoch.
pub const MAX_MEMBERS: usize = 1_024;

/// The most of these of one requester, once half of the places are taken: nobody who asks again and again
/// shuts out the others.
pub const MAX_MEMBERS_PER_REQUESTER: usize = 16;

/// After so long without a word a member counts as gone: three of its reports,
/// and some time.
pub const MEMBER_SILENCE: Duration = Duration::from_secs(35);

/// For how long after the next epoch was announced the one before is still
/// told: its packets, and those that are repeated, are there by then.
pub(super) const OVERLAP: Duration = Duration::from_secs(10);

/// The streams that the node publishes: one of each service at most.
#[derive(Debug)]
pub(super) struct Publications {
    pub(super) all: BTreeMap<SessionId, Publication>,
    /// True if the driver can send such streams.
    able: bool,
}

#[derive(Debug)]
pub(super) struct Publication {
    pub(super) service: Service,
    pub(super) kbps: u32,
    /// `None` while its source is being started.
    pub(super) live: Option<LiveStream>,
    /// The keys as hubs keep them.
    pub(super) sealed: Option<Bytes>,
    /// True if somebody to whom a hub may have given that is to be shut out yet.
    pub(super) has_strangers: bool,
}

/// A stream whose source has started.
#[derive(Debug)]
pub(super) struct LiveStream {
    pub(super) bits_per_second: u32,
    pub(super) format: String,
    pub(super) stream: StreamId,
    present: (Epoch, EpochSecret),
    next: Option<(Epoch, EpochSecret)>,
    /// Time at which that was announced.
    rekeyed: Time,
}

impl Publication {
    /// A publication whose source is being started.
    pub(super) fn new(service: Service, kbps: u32) -> Self {
        Self { service, kbps, live: None, sealed: None, has_strangers: false }
    }
}

impl LiveStream {
    pub(super) fn new(
        now: Time,
        bits_per_second: u32,
        format: String,
        stream: StreamId,
        epoch: Epoch,
        secret: EpochSecret,
    ) -> Self {
        Self { bits_per_second, format, stream, present: (epoch, secret), next: None, rekeyed: now }
    }

    /// The keys of the stream from now on.
    pub(super) fn keys(&self, now: Time) -> StreamKeys {
        let is_past = now.since(self.rekeyed) >= OVERLAP;
        let ((epoch, secret), next) = match &self.next {
            Some(next) if is_past => (next.clone(), None),
            next => (self.present.clone(), next.clone()),
        };
        StreamKeys { stream: self.stream, epoch, secret, next }
    }

    /// Takes over the next epoch; returns false if it is not later than all before.
    pub(super) fn rekey(&mut self, now: Time, epoch: Epoch, secret: EpochSecret) -> bool {
        let last = self.next.as_ref().unwrap_or(&self.present);
        if epoch <= last.0 {
            return false;
        }
        (self.present, self.next, self.rekeyed) = (last.clone(), Some((epoch, secret)), now);
        true
    }
}

impl Publications {
    pub(super) fn new(able: bool) -> Self {
        Self { all: BTreeMap::new(), able }
    }

    /// The destination of a copy as seen from here, if it can be had. On an error none may go there.
    pub(super) fn checked_copy_target(
        &self,
        request: &Request,
        from: &NodeConnection,
    ) -> Result<Option<CopyTarget>, Reason> {
        let wanted = request.copy_target.filter(|_| self.able && request.spec.service.is_stream());
        let Some(mut reflect) = wanted else { return Ok(None) };
        let seen = from.address.primary().map(|seen| seen.ip());
        if let Some(seen) = seen.filter(|_| reflect.to.ip().is_unspecified()) {
            reflect.to.set_ip(seen);
        }
        let host = reflect.to.ip().to_canonical();
        // A hub has judged the address of whom it asks for; a node is to name its own.
        let is_its_own = from.role.is_hub() || from.address.hosts.iter().any(|seen| seen.to_canonical() == host);
        let is_here = seen.is_some_and(|seen| seen.to_canonical().is_loopback());
        let may_go = is_its_own && roost_wire::is_destination(host, is_here);
        may_go.then_some(Some(reflect)).ok_or(Reason::NotAllowed)
    }

    /// The publication of a service.
    pub(super) fn find_publication(&self, service: Service) -> Option<SessionId> {
        self.by_service(service).map(|(id, _)| id)
    }

    pub(super) fn by_service(&self, service: Service) -> Option<(SessionId, &Publication)> {
        self.all.iter().find(|(_, publication)| publication.service == service).map(|(id, of)| (*id, of))
    }

    /// A publication whose source has started.
    pub(super) fn live(&self, id: SessionId) -> Option<(Service, &LiveStream)> {
        let publication = self.all.get(&id)?;
        Some((publication.service, publication.live.as_ref()?))
    }

    /// The keys of a service's publication have been sealed anew. Returns the service.
    pub(super) fn set_sealed_keys(&mut self, id: SessionId, sealed: Bytes) -> Option<Service> {
        let publication = self.all.get_mut(&id)?;
        publication.sealed = Some(sealed);
        Some(publication.service)
    }

    pub(super) fn forget_sealed_keys(&mut self, id: SessionId) {
        if let Some(publication) = self.all.get_mut(&id) {
            publication.sealed = None;
        }
    }

    pub(super) fn has(&self, id: SessionId) -> bool {
        self.all.contains_key(&id)
    }

    pub(super) fn ids(&self) -> Vec<SessionId> {
        self.all.keys().copied().collect()
    }

    /// The services, and the rate of one copy of each, kbit/s.
    pub(super) fn rates(&self) -> impl Iterator<Item = (Service, u32)> {
        self.all.values().map(|publication| (publication.service, publication.kbps))
    }

    /// The rate of one copy of a service's publication, kbit/s, if there is one.
    pub(super) fn rate(&self, service: Service) -> Option<u32> {
        self.by_service(service).map(|(_, publication)| publication.kbps)
    }
}
