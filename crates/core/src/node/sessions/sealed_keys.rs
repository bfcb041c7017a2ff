//! The keys of this node's reflected streams, sealed for nodes and left with the hubs that hand on requests
//! for them: who joins need not wait for this node's word.
//!
//! The owner seals it, since cryptography takes a key that the machine has not. It is
//! sealed anew with each epoch, and when the one before is past.

use std::time::Duration;

use bytes::Bytes;
use roost_wire::messages::{FlowMessage, MAX_SEALED_BYTES, ProvisionalAccept, SealedKeys};
use roost_wire::{ConnectionId, RequestId, Service};

use super::ProviderSessions;
use super::publications::OVERLAP;
use super::serve_request::ServeRequest;
use crate::node::api::{NodeEvent, SessionId};
use crate::node::core::Core;
use crate::node::timers::Timer;

/// The hubs that it may pass: the longest way of a request.
const HOPS: u8 = 8;

/// The least time between two epochs that are drawn because of those who were never members.
const STRANGERS: Duration = Duration::from_secs(10);

/// In which order with itself it comes, apart from all requests, which count from 1.
const KEYS_FLOW: RequestId = RequestId(0);

impl ProviderSessions {
    /// A publication has other keys: the owner is to seal them.
    pub(crate) fn seal(&mut self, core: &mut Core, id: SessionId) {
        let cell = self.cell;
        let Some((service, live)) = self.publications.live(id) else { return };
        if !self.may_leave_keys(core, service) {
            return;
        }
        let (bits_per_second, format, reflected) = (live.bits_per_second, live.format.clone(), live.keys(core.now));
        if reflected.next.is_some() {
            core.set(Timer::Seal(id), OVERLAP);
        }
        let opening = ProvisionalAccept { stream_keys: reflected, bits_per_second, format, cell };
        core.emit(NodeEvent::Seal { session: id, service, opening });
    }

    /// The owner has sealed it.
    pub(crate) fn on_sealed(&mut self, core: &mut Core, id: SessionId, sealed: Bytes) {
        let service = self.publications.live(id).map(|(service, _)| service);
        let is_for_all = service.is_some_and(|service| self.may_leave_keys(core, service));
        if sealed.len() > MAX_SEALED_BYTES || !is_for_all {
            return;
        }
        let Some(service) = self.publications.set_sealed_keys(id, sealed) else { return };
        let mut hubs: Vec<ConnectionId> =
            self.members(service).filter_map(|(_, member)| member.request.asked_by).collect();
        hubs.sort_unstable();
        hubs.dedup();
        hubs.into_iter().for_each(|hub| self.leave_keys_with(core, hub, service));
    }

    /// There is another policy: hubs keep what opens a stream if every node may have it. What they keep against that is
    /// made useless.
    pub(super) fn withhold_keys(&mut self, core: &mut Core, id: SessionId) {
        let Some(publication) = self.publications.all.get(&id) else { return };
        match (self.may_leave_keys(core, publication.service), publication.sealed.is_some()) {
            (true, false) => self.seal(core, id),
            (false, true) => {
                self.publications.forget_sealed_keys(id);
                self.draw_epoch(core, id);
            }
            _ => {}
        }
    }

    /// A hub has handed over a request for a stream. It may have forgotten what was left with it, so
    /// it comes with each.
    pub(super) fn leave_keys(&self, core: &mut Core, id: SessionId) {
        let request =
            self.sessions.get(&id).map(|session| &session.request).filter(|request| request.reflect.is_some());
        if let Some((hub, service)) = request.and_then(|request| Some((request.asked_by?, request.offer.service))) {
            self.leave_keys_with(core, hub, service);
        }
    }

    fn leave_keys_with(&self, core: &mut Core, hub: ConnectionId, service: Service) {
        let sealed = self.publications.by_service(service).and_then(|(_, publication)| publication.sealed.clone());
        if let Some(sealed) = sealed.filter(|_| core.is_hub(hub)) {
            let keys = SealedKeys { id: None, service, provider: core.node, hops_left: HOPS, sealed };
            core.send_reliably(hub, KEYS_FLOW, FlowMessage::SealedKeys(keys));
        }
    }

    /// A request was refused of whose node a hub may have let it open the stream.
    pub(super) fn on_member_refused(&mut self, core: &mut Core, request: &ServeRequest) {
        let publication =
            self.publications.find_publication(request.offer.service).filter(|_| request.reflect.is_some());
        if let Some(publication) = publication.filter(|_| !self.is_member(request.offer.service, request.requester)) {
            self.rekey_against_stranger(core, publication);
        }
    }

    /// Has the next epoch drawn because of one that was never a member, if a hub may have given it what
    /// opens this one. Anybody can ask and be refused, so not because of each.
    pub(super) fn rekey_against_stranger(&mut self, core: &mut Core, id: SessionId) {
        let publication = self.publications.all.get_mut(&id);
        let Some(publication) = publication.filter(|publication| publication.sealed.is_some()) else { return };
        publication.has_strangers = true;
        if !core.timers.is_set(Timer::ExcludeNonmembers(id)) {
            self.on_strangers_timer(core, id);
        }
    }

    /// All who have come meanwhile are shut out together.
    pub(crate) fn on_strangers_timer(&mut self, core: &mut Core, id: SessionId) {
        if self.publications.all.get(&id).is_some_and(|publication| publication.has_strangers) {
            core.set(Timer::ExcludeNonmembers(id), STRANGERS);
            self.draw_epoch(core, id);
        }
    }

    /// Has the owner draw the next epoch, which nobody gets who is no member now.
    pub(super) fn draw_epoch(&mut self, core: &mut Core, id: SessionId) {
        if let Some(publication) = self.publications.all.get_mut(&id) {
            publication.has_strangers = false;
            core.emit(NodeEvent::MemberLeft { session: id });
        }
    }
}
