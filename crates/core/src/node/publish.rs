//! Streams that super nodes reflect: one source and one sealed copy for all
//! who want it. The packets are the owner's business; here is who may open
//! them, and that the source runs as long as somebody wants it.
//!
//! A publication is a session of its own, with a source and without a
//! requester; each request for its stream is a session without a source, a
//! member. Of a publication one copy leaves this node for each super node that reflects it, and for
//! each member whose home does not.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use roost_wire::messages::{CopyTarget, FlowMessage, Message, Reason, Rekey, Request, ServiceRequest, StreamKeys};
use roost_wire::{Epoch, EpochSecret, NodeId, Service, StreamId, Time};

use super::api::{NodeEvent, PublicationStatus, SessionId};
use super::connections::NodeConnection;
use super::core::Core;
use super::load::usual_kbps;
use super::provider_sessions::ProviderSessions;
use super::session::{Session, SessionPhase};
use super::timers::Timer;

/// The most requests that one publication serves: each costs a message per epoch.
pub const MAX_MEMBERS: usize = 1_024;

/// The most of these of one requester, once half of the places are taken: nobody who asks again and again
/// shuts out the others.
pub const MAX_MEMBERS_PER_REQUESTER: usize = 16;

/// After so long without a word a member counts as gone: three of its reports,
/// and some time.
pub const MEMBER_SILENCE: Duration = Duration::from_secs(35);

/// How long a source goes on that nobody wants any more: who comes next may
/// come at once.
pub const LINGER: Duration = Duration::from_secs(5);

/// For how long after the next epoch was announced the one before is still
/// told: its packets, and those that are repeated, are there by then.
pub(super) const OVERLAP: Duration = Duration::from_secs(10);

/// What the node publishes: one stream of each service at most.
#[derive(Debug)]
pub(super) struct Publications {
    pub(super) all: BTreeMap<SessionId, Publication>,
    /// Whether the owner can send such streams.
    able: bool,
}

#[derive(Debug)]
pub(super) struct Publication {
    service: Service,
    kbps: u32,
    /// `None` while its source is being started.
    live: Option<LiveStream>,
    /// What opens it, as hubs keep it.
    pub(super) sealed: Option<Bytes>,
    /// Whether somebody to whom a hub may have given that is to be shut out yet.
    pub(super) has_strangers: bool,
}

/// A stream whose source has started.
#[derive(Debug)]
pub(super) struct LiveStream {
    pub(super) bits_per_second: u32,
    pub(super) format: String,
    stream: StreamId,
    present: (Epoch, EpochSecret),
    next: Option<(Epoch, EpochSecret)>,
    /// When that was announced.
    rekeyed: Time,
}

impl LiveStream {
    /// What opens the stream from now on.
    pub(super) fn keys(&self, now: Time) -> StreamKeys {
        let is_past = now.since(self.rekeyed) >= OVERLAP;
        let ((epoch, secret), next) = match &self.next {
            Some(next) if is_past => (next.clone(), None),
            next => (self.present.clone(), next.clone()),
        };
        StreamKeys { stream: self.stream, epoch, secret, next }
    }

    /// Takes over the next epoch; returns false if it is not later than all before.
    fn rekey(&mut self, now: Time, next: (Epoch, EpochSecret)) -> bool {
        let last = self.next.as_ref().unwrap_or(&self.present);
        if next.0 <= last.0 {
            return false;
        }
        (self.present, self.next, self.rekeyed) = (last.clone(), Some(next), now);
        true
    }
}

impl Publications {
    pub(super) fn new(able: bool) -> Self {
        Self { all: BTreeMap::new(), able }
    }

    /// Where a copy is wanted, as seen from here, if it can be had. On an error none may go there.
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
        let is_its_own = from.remote.role.is_hub() || from.address.hosts.iter().any(|seen| seen.to_canonical() == host);
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

    /// What opens a service's publication has been sealed anew. Returns the service.
    pub(super) fn set_sealed_keys(&mut self, id: SessionId, sealed: Bytes) -> Option<Service> {
        let publication = self.all.get_mut(&id)?;
        publication.sealed = Some(sealed);
        Some(publication.service)
    }

    pub(super) fn has(&self, id: SessionId) -> bool {
        self.all.contains_key(&id)
    }

    pub(super) fn ids(&self) -> Vec<SessionId> {
        self.all.keys().copied().collect()
    }

    /// What there is, and what one copy of it takes, kbit/s.
    pub(super) fn rates(&self) -> impl Iterator<Item = (Service, u32)> {
        self.all.values().map(|publication| (publication.service, publication.kbps))
    }

    /// What one copy of a service's publication takes, kbit/s, if there is one.
    pub(super) fn rate(&self, service: Service) -> Option<u32> {
        self.by_service(service).map(|(_, publication)| publication.kbps)
    }
}

impl ProviderSessions {
    /// The sessions that are members of a service's publication, or become one.
    pub(super) fn members(&self, service: Service) -> impl Iterator<Item = (SessionId, &Session)> {
        self.under_way()
            .filter(move |(_, session)| session.request.reflect.is_some() && session.request.spec.service == service)
    }

    fn member_ids(&self, service: Service, which: impl Fn(&SessionPhase) -> bool) -> Vec<SessionId> {
        self.members(service).filter(|(_, session)| which(&session.phase)).map(|(id, _)| id).collect()
    }

    /// There is a way to who wants a reflected stream.
    pub(super) fn join_publication(&mut self, core: &mut Core, id: SessionId) {
        let Some(Session { request, .. }) = self.sessions.get(&id) else { return };
        let (service, requester) = (request.spec.service, request.requester);
        let wish = Box::new(ServiceRequest { duration: None, ..ServiceRequest::clone(&request.spec) });
        let (is_busy, giving_way) = (self.is_busy(request), self.giving_way(request));
        let is_full = is_busy && giving_way.is_empty();
        let displaced = if is_full { self.displaced(core.now, request) } else { Vec::new() };
        if is_full && displaced.is_empty() {
            core.counters.declined_busy += 1;
            return self.refuse(core, id, Reason::Busy);
        }
        self.displace(core, &displaced);
        if let Some(publication) = self.publications.find_publication(service) {
            core.counters.joined += 1;
            core.timers.clear(Timer::Linger(publication));
            return self.start_member(core, id);
        }
        for direct in giving_way {
            self.stop_requester(core, direct, Reason::Reflected);
        }
        let session = self.number();
        let kbps = usual_kbps(service.flow_kind());
        let publication = Publication { service, kbps, live: None, sealed: None, has_strangers: false };
        self.publications.all.insert(session, publication);
        core.emit(NodeEvent::OpenSource { session, request: wish, requester, reflected: true });
    }

    /// The source of a publication has started.
    pub(super) fn published(
        &mut self,
        core: &mut Core,
        id: SessionId,
        (bits_per_second, format): (u32, String),
        stream: StreamId,
        present: (Epoch, EpochSecret),
    ) {
        let Some(publication) = self.publications.all.get_mut(&id).filter(|publication| publication.live.is_none())
        else {
            return;
        };
        publication.kbps = bits_per_second.div_ceil(1000);
        let live = LiveStream { bits_per_second, format, stream, present, next: None, rekeyed: core.now };
        publication.live = Some(live);
        let service = publication.service;
        for member in self.member_ids(service, |phase| matches!(phase, SessionPhase::Opening)) {
            self.start_member(core, member);
        }
        self.seal(core, id);
        self.stop_without_members(core, service);
    }

    /// Gives a member what opens the stream, and has the stream sent its way,
    /// once the source has started.
    fn start_member(&mut self, core: &mut Core, id: SessionId) {
        let cell = self.cell;
        let Some(session) = self.sessions.get(&id) else { return };
        let publication = self.publications.by_service(session.request.spec.service);
        let rate = publication.and_then(|(_, publication)| Some(publication.live.as_ref()?.bits_per_second));
        if rate.is_some_and(|rate| self.declines_rate(core, id, rate)) {
            return;
        }
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let publication = self.publications.by_service(session.request.spec.service);
        let Some(live) = publication.and_then(|(_, publication)| publication.live.as_ref()) else { return };
        core.counters.accepted += 1;
        core.timers.clear(Timer::Expire(id));
        session.start_member(core, id, cell, live);
        self.offer_to(core, id);
    }

    /// Has the owner offer the stream to where a member wants it.
    pub(super) fn offer_to(&mut self, core: &mut Core, id: SessionId) {
        let Some(Session { request, phase: SessionPhase::Member, .. }) = self.sessions.get(&id) else { return };
        let publication = self.publications.by_service(request.spec.service);
        if let (Some((session, Publication { live: Some(live), .. })), Some(reflect)) = (publication, request.reflect) {
            core.emit(NodeEvent::Reflect { session, stream: live.stream, to: reflect.to, tag: reflect.tag });
        }
    }

    /// The owner has drawn the next epoch.
    pub(super) fn rekey(&mut self, core: &mut Core, id: SessionId, next: (Epoch, EpochSecret)) {
        let cell = self.cell;
        let Some(Publication { service, live: Some(live), .. }) = self.publications.all.get_mut(&id) else { return };
        let (stream, (epoch, secret)) = (live.stream, next.clone());
        if !live.rekey(core.now, next) {
            return;
        }
        for member in self.live.iter() {
            let Some(session) = self.sessions.get_mut(member) else { continue };
            if matches!(session.phase, SessionPhase::Member) && session.request.spec.service == *service {
                session.set_stream_keys(core, cell, live);
                let id = session.request.key.1;
                session.send_reliably(
                    core,
                    &Message::Flow(FlowMessage::Rekey(Rekey { id, stream, epoch, secret: secret.clone() })),
                );
            }
        }
        self.seal(core, id);
    }

    /// A member, or who was to become one, is gone.
    pub(super) fn member_gone(&mut self, core: &mut Core, id: SessionId, service: Service, could_open: bool) {
        let Some(request) = self.sessions.get(&id).map(|session| &session.request) else { return };
        let Some(publication) = self.publications.find_publication(service) else { return };
        let to = request.reflect.map(|reflect| reflect.to);
        if !self.members(service).any(|(_, other)| other.request.reflect.map(|reflect| reflect.to) == to) {
            core.stream_freed();
        }
        if !self.is_member(service, request.requester) {
            match could_open {
                true => self.draw_epoch(core, publication),
                false => self.rekey_against_stranger(core, publication),
            }
        }
        self.stop_without_members(core, service);
    }

    /// Whether a node has the stream by some request; one that is still to join may yet come to nothing.
    pub(super) fn is_member(&self, service: Service, requester: NodeId) -> bool {
        let has_joined = |session: &Session| matches!(session.phase, SessionPhase::Member);
        self.members(service).any(|(_, member)| has_joined(member) && member.request.requester == requester)
    }

    /// Has the source stop in a while if nobody wants it any more.
    fn stop_without_members(&self, core: &mut Core, service: Service) {
        if let Some(publication) =
            self.publications.find_publication(service).filter(|_| self.members(service).next().is_none())
        {
            core.set(Timer::Linger(publication), LINGER);
        }
    }

    pub(super) fn on_linger_timer(&mut self, core: &mut Core, id: SessionId) {
        let Some(publication) = self.publications.all.get(&id) else { return };
        if self.members(publication.service).next().is_none() {
            self.unpublish(core, id, None);
        }
    }

    /// Nothing of it has gone anywhere for a while: the members that are left
    /// have gone silently, or ask again. Not while somebody is about to join.
    pub(super) fn on_idle(&mut self, core: &mut Core, id: SessionId) {
        let Some(service) = self.publications.all.get(&id).map(|publication| publication.service) else { return };
        let is_joining = |phase: &SessionPhase| matches!(phase, SessionPhase::Reaching | SessionPhase::Opening);
        if !self.member_ids(service, is_joining).is_empty() {
            return;
        }
        self.close(core, id, None);
        for member in self.member_ids(service, |_| true) {
            self.finish(core, member, Some(Reason::TimedOut));
        }
    }

    /// A publication is over, and its members hear of it.
    pub(super) fn unpublish(&mut self, core: &mut Core, id: SessionId, reason: Option<Reason>) {
        let Some(service) = self.publications.all.get(&id).map(|publication| publication.service) else { return };
        self.close(core, id, reason);
        for member in self.member_ids(service, |phase| matches!(phase, SessionPhase::Member | SessionPhase::Opening)) {
            let Some(session) = self.sessions.get(&member) else { continue };
            match (&session.phase, reason) {
                (SessionPhase::Opening, reason) => self.refuse(core, member, reason.unwrap_or(Reason::SourceFailed)),
                (_, Some(reason)) => self.stop_requester(core, member, reason),
                (_, None) => {
                    let id = session.request.key.1;
                    // Nobody counts what the others have sent on.
                    session.send_reliably(
                        core,
                        &Message::Flow(FlowMessage::End { id, packets: 0, bytes: 0, digest: [0; 32] }),
                    );
                    self.finish(core, member, None);
                }
            }
        }
    }

    fn close(&mut self, core: &mut Core, id: SessionId, reason: Option<Reason>) {
        if self.publications.all.remove(&id).is_some() {
            core.timers.clear(Timer::Linger(id));
            core.timers.clear(Timer::Seal(id));
            core.timers.clear(Timer::ExcludeNonmembers(id));
            core.stream_freed();
            core.emit(NodeEvent::CloseSource { session: id, bytes: 0, reason });
        }
    }

    pub(super) fn publication_status(&self) -> Vec<PublicationStatus> {
        let one = |(id, publication): (&SessionId, &Publication)| PublicationStatus {
            session: *id,
            service: publication.service,
            stream: publication.live.as_ref().map(|live| live.stream),
            members: self.members(publication.service).count(),
            kbps: publication.kbps,
        };
        self.publications.all.iter().map(one).collect()
    }
}
