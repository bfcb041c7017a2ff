//! The way to the requester of a session: an association that is up, or a dial.

use super::api::{Event, SessionId};
use super::core::Core;
use super::links::{Link, Loss, Way};
use super::provide::{Provide, Wish};
use super::session::{Phase, REDIAL_PAUSE, Session};
use super::timers::Timer;
use crate::address::Address;
use crate::ids::{LinkId, NodeId};
use crate::wire::Reason;

impl Wish {
    /// How the requester is reached.
    fn way(&self) -> Way {
        Way { node: self.requester, schemes: self.schemes }
    }
}

impl Provide {
    /// Finds the way to the requester: an association that is up, or a dial.
    pub(super) fn reach(&mut self, core: &mut Core, id: SessionId) {
        let Some(session) = self.sessions.get(&id) else { return };
        let wish = &session.wish;
        let direct = wish.addresses.is_empty() || wish.relayed;
        let link = if direct {
            let fits = |link: &Link| wish.schemes.contains(link.address.scheme);
            core.links.get(wish.asked_by).filter(|link| fits(link)).map(|_| wish.asked_by)
        } else {
            core.links.between(wish.requester, wish.schemes)
        };
        if let Some(link) = link {
            return self.open(core, id, link);
        }
        if self.dial(core, id) {
            return self.tell_pending(core, id);
        }
        self.refuse(core, id, Reason::NoTransport);
    }

    /// Dials the requester, if there is an address over an allowed transport.
    pub(super) fn dial(&mut self, core: &mut Core, id: SessionId) -> bool {
        let Some(session) = self.sessions.get_mut(&id) else { return false };
        let wish = &session.wish;
        let fits = |address: &&Address| wish.schemes.contains(address.scheme);
        let addresses: Vec<_> = wish.addresses.iter().filter(fits).cloned().collect();
        if addresses.is_empty() {
            return false;
        }
        session.dialling = true;
        core.dial_node(wish.way(), addresses);
        true
    }

    fn open(&mut self, core: &mut Core, id: SessionId, link: LinkId) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        session.link = Some(link);
        session.phase = Phase::Opening;
        let Wish { service, duration, requester, .. } = session.wish;
        core.emit(Event::Open { session: id, service, duration, requester });
    }

    /// A dial has led to a node: the requester of those that wait for it.
    pub(super) fn on_requester_reached(&mut self, core: &mut Core, way: Way, link: LinkId) {
        for id in self.end_dial(way) {
            self.join(core, id, link);
        }
    }

    /// The sessions for which this dial was, which is over.
    fn end_dial(&mut self, way: Way) -> Vec<SessionId> {
        let meant = |session: &Session| session.dialling && session.wish.way() == way;
        let sessions = self.sessions.iter_mut().filter(|(_, session)| meant(session));
        let ended = sessions.map(|(id, session)| {
            session.dialling = false;
            *id
        });
        ended.collect()
    }

    /// A node is there: perhaps one for which a session waits.
    pub(super) fn on_node_up(&mut self, core: &mut Core, node: NodeId, link: LinkId) {
        let Some(scheme) = core.links.get(link).map(|link| link.address.scheme) else { return };
        let waits = |session: &Session| {
            session.waits_for_link() && session.wish.requester == node && session.wish.schemes.contains(scheme)
        };
        for id in self.live_where(waits) {
            if let Some(session) = self.sessions.get_mut(&id) {
                session.dialling = false;
            }
            self.join(core, id, link);
        }
    }

    fn join(&mut self, core: &mut Core, id: SessionId, link: LinkId) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        if matches!(session.phase, Phase::Reaching) {
            return self.open(core, id, link);
        }
        if matches!(session.phase, Phase::Done { .. }) {
            session.answers_over(core, link);
        } else {
            self.resume(core, id, link);
        }
    }

    /// A dial to a requester has failed. Who is not admitted there is not to
    /// serve in another way, through a hub, either.
    pub(super) fn on_requester_unreachable(&mut self, core: &mut Core, way: Way, loss: Loss<'_>) {
        for id in self.end_dial(way) {
            let Some(session) = self.sessions.get(&id) else { continue };
            if matches!(session.phase, Phase::Reaching) {
                self.refuse(core, id, if loss.refused { Reason::NotAllowed } else { Reason::Unreachable });
            } else if loss.refused {
                self.finish(core, id, Some(Reason::NotAllowed));
            } else if session.waits_for_link() {
                core.set(Timer::Accept(id), REDIAL_PAUSE);
            }
        }
    }
}
