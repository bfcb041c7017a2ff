//! Streams that super nodes reflect: one source and one sealed copy for all
//! who want it. The packets are the owner's business; here is who may open
//! them, and that the source runs as long as somebody wants it.
//!
//! A publication is a session of its own, with a source and without a
//! requester; each request for its stream is a session without a source, a
//! member. Of a publication one copy leaves this node for each super node that reflects it, and for
//! each member whose home does not.

use std::time::Duration;

use bytes::Bytes;
use roost_wire::messages::{FlowMessage, Reason, Rekey, Sentence, ServiceRequest};
use roost_wire::{Epoch, EpochSecret, NodeId, Service};

use super::ProviderSessions;
use super::publications::{LiveStream, Publication};
use super::session::{Session, SessionPhase};
use crate::flow::usual_kbps;
use crate::node::api::{NodeEvent, PublicationStatus, SessionId};
use crate::node::core::Core;
use crate::node::timers::Timer;

/// Time for which a source goes on that nobody wants any more: who comes next may come at once.
pub const LINGER: Duration = Duration::from_secs(5);

impl ProviderSessions {
    /// The sessions that are members of a service's publication, or become one.
    pub(super) fn members(&self, service: Service) -> impl Iterator<Item = (SessionId, &Session)> {
        self.under_way()
            .filter(move |(_, session)| session.request.reflect.is_some() && session.request.offer.service == service)
    }

    fn member_ids(&self, service: Service, which: impl Fn(&SessionPhase) -> bool) -> Vec<SessionId> {
        self.members(service).filter(|(_, session)| which(&session.phase)).map(|(id, _)| id).collect()
    }

    /// There is a way to who wants a reflected stream.
    pub(super) fn join_publication(&mut self, core: &mut Core, id: SessionId) {
        let Some(Session { request, .. }) = self.sessions.get(&id) else { return };
        let (service, requester) = (request.offer.service, request.requester);
        let flow_kind = request.offer.flow_kind();
        let spec = Box::new(ServiceRequest { service, duration: None, ..ServiceRequest::clone(&request.spec) });
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
        let kbps = usual_kbps(flow_kind);
        self.publications.all.insert(session, Publication::new(service, kbps));
        let body = Bytes::new();
        core.emit(NodeEvent::OpenSource { session, request: spec, requester, body, reflected: true });
    }

    /// The source of a publication has started.
    pub(super) fn published(&mut self, core: &mut Core, id: SessionId, live: LiveStream) {
        let Some(publication) = self.publications.all.get_mut(&id).filter(|publication| publication.live.is_none())
        else {
            return;
        };
        publication.kbps = live.bits_per_second.div_ceil(1000);
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
        let publication = self.publications.by_service(session.request.offer.service);
        let rate = publication.and_then(|(_, publication)| Some(publication.live.as_ref()?.bits_per_second));
        if rate.is_some_and(|rate| self.decline_slow_rate(core, id, rate)) {
            return;
        }
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let publication = self.publications.by_service(session.request.offer.service);
        let Some(live) = publication.and_then(|(_, publication)| publication.live.as_ref()) else { return };
        core.counters.accepted += 1;
        core.timers.clear(Timer::Expire(id));
        session.start_member(core, id, cell, live);
        self.offer_to(core, id);
    }

    /// Has the owner offer the stream to where a member wants it.
    pub(super) fn offer_to(&mut self, core: &mut Core, id: SessionId) {
        let Some(Session { request, phase: SessionPhase::Member, .. }) = self.sessions.get(&id) else { return };
        let publication = self.publications.by_service(request.offer.service);
        if let (Some((session, Publication { live: Some(live), .. })), Some(reflect)) = (publication, request.reflect) {
            core.emit(NodeEvent::Reflect { session, stream: live.stream, to: reflect.to, tag: reflect.tag });
        }
    }

    /// The owner has drawn the next epoch.
    pub(crate) fn rekey(&mut self, core: &mut Core, id: SessionId, epoch: Epoch, secret: EpochSecret) {
        let cell = self.cell;
        let Some(Publication { service, live: Some(live), .. }) = self.publications.all.get_mut(&id) else { return };
        let stream = live.stream;
        if !live.rekey(core.now, epoch, secret.clone()) {
            return;
        }
        for member in self.live.iter() {
            let Some(session) = self.sessions.get_mut(member) else { continue };
            if matches!(session.phase, SessionPhase::Member) && session.request.offer.service == *service {
                session.set_stream_keys(core, cell, live);
                let id = session.request.key.1;
                session.send_reliably(core, FlowMessage::Rekey(Rekey { id, stream, epoch, secret: secret.clone() }));
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

    /// True if a node has the stream by some request; one that is still to join may yet come to nothing.
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

    pub(crate) fn on_linger_timer(&mut self, core: &mut Core, id: SessionId) {
        let Some(publication) = self.publications.all.get(&id) else { return };
        if self.members(publication.service).next().is_none() {
            self.unpublish(core, id, None);
        }
    }

    /// Nothing of it has gone anywhere for a while: the members that are left
    /// have gone silently, or ask again. Not while somebody is about to join.
    pub(crate) fn on_idle(&mut self, core: &mut Core, id: SessionId) {
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
        self.unpublish_saying(core, id, reason, None);
    }

    /// Ends a publication with the words of its program.
    pub(super) fn unpublish_saying(
        &mut self,
        core: &mut Core,
        id: SessionId,
        reason: Option<Reason>,
        sentence: Option<Sentence>,
    ) {
        let Some(service) = self.publications.all.get(&id).map(|publication| publication.service) else { return };
        self.close(core, id, reason);
        for member in self.member_ids(service, |phase| matches!(phase, SessionPhase::Member | SessionPhase::Opening)) {
            let Some(session) = self.sessions.get(&member) else { continue };
            match (&session.phase, reason) {
                (SessionPhase::Opening, reason) => {
                    self.refuse_saying(core, member, reason.unwrap_or(Reason::SourceFailed), sentence.clone())
                }
                (_, Some(reason)) => self.stop_requester(core, member, reason),
                (_, None) => {
                    let id = session.request.key.1;
                    // Nobody counts what the others have sent on.
                    session.send_reliably(core, FlowMessage::End { id, packets: 0, bytes: 0, digest: [0; 32] });
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

    pub(crate) fn publication_status(&self) -> Vec<PublicationStatus> {
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
