//! What opens this node's reflected streams, sealed for nodes and left with the
//! hubs that hand on requests for them: who joins need not wait for this node's word.
//!
//! The owner seals it, since cryptography takes a key that the machine has not. It is
//! sealed anew with each epoch, and when the one before is past.

use bytes::Bytes;

use super::api::{Event, SessionId};
use super::core::Core;
use super::provide::{Provide, Wish};
use super::publish::OVERLAP;
use super::session::Session;
use super::timers::Timer;
use crate::ids::{LinkId, RequestId};
use crate::service::Service;
use crate::wire::{Keys, MAX_SEALED_BYTES, Message, Opening};

/// How many hubs it may pass: the longest way of a request.
const HOPS: u8 = 8;

/// In which order with itself it comes, apart from all requests, which count from 1.
const KEYS_FLOW: RequestId = RequestId(0);

impl Provide {
    /// What opens a publication is another one: the owner is to seal it.
    pub(super) fn seal(&mut self, core: &mut Core, id: SessionId) {
        let cell = self.cell;
        let Some((service, live)) = self.publications.live(id) else { return };
        let (bits_per_second, format, reflected) = (live.bits_per_second, live.format.clone(), live.keys(core.now));
        if reflected.next.is_some() {
            core.set(Timer::Seal(id), OVERLAP);
        }
        let opening = Opening { reflected, bits_per_second, format, cell };
        core.emit(Event::Seal { session: id, service, opening });
    }

    /// The owner has sealed it.
    pub(super) fn on_sealed(&mut self, core: &mut Core, id: SessionId, sealed: Bytes) {
        if sealed.len() > MAX_SEALED_BYTES {
            return;
        }
        let Some(service) = self.publications.deposit(id, sealed) else { return };
        let mut hubs: Vec<LinkId> = self.members(service).filter_map(|(_, member)| member.wish.asked_by).collect();
        hubs.sort_unstable();
        hubs.dedup();
        hubs.into_iter().for_each(|hub| self.leave_keys_with(core, hub, service));
    }

    /// A hub has handed over a request for a stream, perhaps its first.
    pub(super) fn leave_keys(&self, core: &mut Core, id: SessionId) {
        let Some(wish) = self.sessions.get(&id).map(|session| &session.wish).filter(|wish| wish.reflect.is_some())
        else {
            return;
        };
        let is_known = |(other, member): (SessionId, &Session)| other != id && member.wish.asked_by == wish.asked_by;
        if let Some(hub) = wish.asked_by.filter(|_| !self.members(wish.service).any(is_known)) {
            self.leave_keys_with(core, hub, wish.service);
        }
    }

    fn leave_keys_with(&self, core: &mut Core, hub: LinkId, service: Service) {
        let sealed = self.publications.sealed(service).filter(|_| core.is_hub(hub));
        if let Some(sealed) = sealed {
            let keys = Keys { id: None, service, provider: core.node, hops: HOPS, sealed };
            core.send_reliably(hub, KEYS_FLOW, &Message::Keys(keys));
        }
    }

    /// A request was refused of whose node a hub may have let it open the stream.
    pub(super) fn refused_member(&self, core: &mut Core, wish: &Wish) {
        let is_in = |(_, other): (SessionId, &Session)| other.wish.requester == wish.requester;
        let publication = self.publications.of(wish.service).filter(|_| wish.reflect.is_some());
        if let Some(session) = publication.filter(|_| self.publications.sealed(wish.service).is_some())
            && !self.members(wish.service).any(is_in)
        {
            core.emit(Event::MemberLeft { session });
        }
    }
}
