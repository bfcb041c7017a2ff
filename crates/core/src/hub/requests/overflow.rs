//! Copies that another hub reflects in the place of this one: its request for the stream, and the end of that.

use roost_wire::messages::{CopyTarget, Decline, Reason, Request, RequestMessage};

use super::handoff::AnswerWay;
use super::routed_request::{Overflow, RequestTarget};
use super::{RequestTurn, Requests};
use crate::hub::core::HubCore;
use crate::hub::sender::Sender;
use crate::request_key::RequestKey;
use roost_wire::NodeId;

impl Requests {
    /// A hub that was to reflect something in this one's place asks for it.
    /// False if this is not about such a thing.
    pub(super) fn serve_overflow_hub(
        &mut self,
        turn: &mut RequestTurn<'_>,
        from: Sender,
        key: RequestKey,
        request: &Request,
    ) -> bool {
        let Some(asked) = self.table.get(key).filter(|asked| asked.nonce == request.nonce) else { return false };
        let Some(reflect) = request.copy_target.filter(|reflect| reflect.hops > 0) else { return false };
        let (tried, overflow) = (asked.overflow_hub(), asked.overflow);
        let (id, requester) = (key.id, Some(key.requester));
        let is_awaited = tried.filter(|(hub, _)| *hub == from.node);
        if tried.is_none() && overflow.is_none() {
            return false;
        }
        if is_awaited.is_none() && overflow.is_none_or(|overflow| overflow.hub != from.node) {
            // Another one was asked in the meantime.
            turn.core.cancel_overflow(key, from.node, Reason::NotFound);
            return true;
        }
        if is_awaited.is_some() && !turn.is_host_of(from, reflect.to) {
            turn.core.cancel_overflow(key, from.node, Reason::NotAllowed);
            self.try_next(turn, key, Reason::NotAllowed);
            return true;
        }
        let taken = RequestMessage::RequestAck { id, requester, provider: None };
        turn.core.send_answer(from.connection, taken);
        if let Some((hub, provider)) = is_awaited {
            let reflect = CopyTarget { to: turn.core.seen_from(reflect.to, from.connection), ..reflect };
            self.table.set_overflow(key, Some(Overflow { hub, provider, reflect }));
            if let Err(reason) = self.hand(turn, key, RequestTarget::Node(provider), AnswerWay::Direct) {
                self.drop_overflow(turn.core, key);
                self.try_next(turn, key, reason);
            }
        }
        true
    }

    /// The request is about to go to another provider: what was to be reflected
    /// elsewhere is this hub's again.
    pub(super) fn forget_overflow(&mut self, core: &mut HubCore, key: RequestKey, choice: RequestTarget) {
        let overflow = self.table.get(key).and_then(|asked| asked.overflow);
        if overflow.is_some_and(|overflow| choice != RequestTarget::Node(overflow.provider)) {
            self.drop_overflow(core, key);
        }
    }

    /// Another hub is not to reflect the stream any more.
    pub(super) fn drop_overflow(&mut self, core: &mut HubCore, key: RequestKey) {
        if let Some(Overflow { hub, .. }) = self.table.get(key).and_then(|asked| asked.overflow) {
            self.table.set_overflow(key, None);
            core.cancel_overflow(key, hub, Reason::NotFound);
        }
    }

    /// A provider declines what another hub was to reflect: no third one changes that.
    pub(super) fn on_overflow_declined(&mut self, key: RequestKey, by: RequestTarget) {
        let Some(Overflow { provider, .. }) = self.table.get(key).and_then(|asked| asked.overflow) else { return };
        if by == RequestTarget::Node(provider) {
            self.table.drop_choices(key, provider);
        }
    }

    /// A hub on the way has no room to send this one the stream that it would
    /// reflect: somebody else may send it to the subscriber.
    pub(super) fn on_overflow_refused(&mut self, core: &mut HubCore, key: RequestKey, to: RequestTarget) {
        let can_spill = self.reflection.room(core).is_some();
        let Some(asked) = self.table.get(key) else { return };
        let is_home = !asked.is_from_hub() && asked.granted.is_some() && to.node().is_none();
        if can_spill && is_home && !asked.elsewhere {
            self.table.send_elsewhere(key, std::iter::once(to));
        }
    }
}

impl HubCore {
    /// Tells a hub that was to reflect something in this one's place that it is not to: it keeps no
    /// room for that.
    fn cancel_overflow(&mut self, key: RequestKey, hub: NodeId, reason: Reason) {
        let decline = Decline { requester: Some(key.requester), ..Decline::new(key.id, reason) };
        if let Some(connection) = self.connection_to(hub) {
            self.send_answer(connection, RequestMessage::Decline(decline));
        }
    }
}
