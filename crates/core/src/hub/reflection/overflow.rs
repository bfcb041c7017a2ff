//! Another hub that reflects what this one has no room for. A subscriber
//! recognises its copy by the tag, whoever sends it.
//!
//! A home with little room passes the request on as it came, so that the stream
//! comes from the provider's home. If that has little room too, it has a hub with more
//! reflect it ([`RouteDirection::Overflow`]), which asks it for the stream as any hub does.
//! So a stream still crosses two hubs at most. Little is what [feeds](ReflectionState::feed_reserve_kbps) the others.

use std::cmp::Reverse;
use std::net::SocketAddr;

use roost_wire::messages::{CopyTarget, Decline, Message, Reason, Request, RequestMessage, RouteDirection};
use roost_wire::reflection::DownstreamKind;
use roost_wire::{NodeId, Service};

use super::{ReflectionState, StreamCopy};
use crate::hub::ReflectionConfig;
use crate::hub::core::HubCore;
use crate::hub::request_key::RequestKey;
use crate::hub::requests::{RequestTarget, RequestTurn, Requests};
use crate::hub::sender::Sender;

/// How many hubs are tried for one copy.
const MAX_TRIED: usize = 8;

/// A hub that reflects in this one's place what a provider here sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Overflow {
    hub: NodeId,
    provider: NodeId,
    /// Where it wants the stream, in full.
    pub(crate) reflect: CopyTarget,
}

impl ReflectionState {
    /// What room for copies the other hubs are told of, kbit/s.
    pub(crate) fn room(&self, core: &HubCore) -> Option<u32> {
        let reflection = core.config.reflection.filter(|_| core.leaving.is_none());
        reflection.and_then(ReflectionConfig::first_room).map(|_| self.left_kbps())
    }

    /// The room that a hub leaves to subscribers only if no other hub has more: it is for one copy to
    /// each of the others, for a hub that cannot feed them keeps what comes from here to itself.
    fn feed_reserve_kbps(&self, turn: &RequestTurn<'_>, kbps: u32) -> u32 {
        let hubs =
            turn.core.remotes.hubs().filter(|hub| turn.view.members.room_of(*hub).is_some()).take(MAX_TRIED).count();
        // The last of at least two is one for a hub, which makes many of it.
        kbps.saturating_mul(hubs.max(1) as u32 + 1)
    }

    /// Those that have a provider's stream from here already, then those that
    /// would have to get it, if there is room for that; of each the one with the most
    /// room first.
    fn hubs_with_room(
        &self,
        turn: &RequestTurn<'_>,
        requester: NodeId,
        service: Service,
        provider: NodeId,
        kbps: u32,
    ) -> Vec<NodeId> {
        let left = self.left_kbps();
        let can_feed = left >= kbps;
        let mut hubs: Vec<(bool, Reverse<u32>, NodeId)> = Vec::new();
        for hub in turn.core.remotes.hubs().filter(|hub| *hub != requester) {
            let Some(room) = turn.view.members.room_of(hub) else { continue };
            let is_fed = self.is_fed(turn.core, hub, service, provider);
            // A hub that would serve this one only is no gain.
            let least = if is_fed { kbps } else { kbps.saturating_mul(2) };
            if room >= least && (is_fed || can_feed) && (room > left || left < kbps.saturating_mul(2)) {
                hubs.push((!is_fed, Reverse(room), hub));
            }
        }
        hubs.sort_unstable();
        hubs.into_iter().take(MAX_TRIED).map(|(.., hub)| hub).collect()
    }

    /// Whether a hub gets a provider's stream from here, as far as its addresses tell.
    fn is_fed(&self, core: &HubCore, hub: NodeId, service: Service, provider: NodeId) -> bool {
        let connections =
            core.remotes.connections_of(hub).iter().filter_map(|connection| core.remotes.connections.get(connection));
        let hosts: Vec<_> =
            connections.filter_map(|connection| connection.address.primary()).map(|at: SocketAddr| at.ip()).collect();
        let Self { sent, reservations, .. } = self;
        let mut receivers = sent.iter().copied().chain(reservations.receivers());
        receivers.any(|(to, what, of)| (what, of) == (service, provider) && hosts.contains(&to.ip()))
    }
}

impl Requests {
    /// Whether another hub is to reflect the copy instead of this one.
    ///
    /// # Errors
    /// Others are tried before `choice`, with which this hub serves it itself if it can.
    pub(crate) fn try_overflow(
        &mut self,
        turn: &mut RequestTurn<'_>,
        key: RequestKey,
        choice: RequestTarget,
        copy: &StreamCopy,
    ) -> Result<bool, Reason> {
        let Some(asked) = self.table.get(key) else { return Ok(false) };
        let may_spill = copy.kind == DownstreamKind::Subscriber && !asked.elsewhere && !asked.is_overflow_here();
        if !may_spill || self.reflection.room(turn.core).is_none() || self.reflection.is_receiver(copy) {
            return Ok(false);
        }
        let (kbps, left) = (self.reflection.rate(copy.service, copy.provider), self.reflection.left_kbps());
        let kept = self.reflection.feed_reserve_kbps(turn, kbps);
        let provider = match choice {
            RequestTarget::Node(provider) => provider,
            RequestTarget::Hub { hub, .. } => {
                let passes_on =
                    left < kbps || left < kept && turn.view.members.room_of(hub).is_some_and(|room| room > left);
                if passes_on {
                    self.table.send_elsewhere(key, std::iter::empty());
                }
                return Ok(passes_on);
            }
        };
        if left >= kept {
            return Ok(false);
        }
        let cell = turn.view.records.get(provider).map(|entry| entry.cell()).or(asked.target_cell());
        let (requester, reason) = (asked.remote, asked.reason);
        let named = cell.map(|cell| (provider, cell));
        let back = |hub| RequestTarget::Hub { hub, way: RouteDirection::Overflow, named, silences: 0 };
        let hubs = self.reflection.hubs_with_room(turn, requester, copy.service, provider, kbps);
        if hubs.is_empty() || named.is_none() {
            return Ok(false);
        }
        let choices: Vec<RequestTarget> = hubs.into_iter().map(back).chain([choice]).collect();
        self.table.send_elsewhere(key, choices.into_iter());
        Err(reason)
    }

    /// A hub that was to reflect something in this one's place asks for it.
    /// False if this is not about such a thing.
    pub(crate) fn serve_overflow_hub(
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
        if is_awaited.is_some() && !self.is_host_of(turn, from, reflect.to) {
            turn.core.cancel_overflow(key, from.node, Reason::NotAllowed);
            self.try_next(turn, key, Reason::NotAllowed);
            return true;
        }
        let taken = Message::Request(RequestMessage::RequestAck { id, requester, provider: None });
        turn.core.send_answer(from.connection, &taken);
        if let Some((hub, provider)) = is_awaited {
            let reflect = CopyTarget { to: turn.core.seen_from(reflect.to, from.connection), ..reflect };
            self.table.set_overflow(key, Some(Overflow { hub, provider, reflect }));
            if let Err(reason) = self.hand(turn, key, RequestTarget::Node(provider), false) {
                self.drop_overflow(turn.core, key);
                self.try_next(turn, key, reason);
            }
        }
        true
    }

    /// The request is about to go to another provider: what was to be reflected
    /// elsewhere is this hub's again.
    pub(crate) fn forget_overflow(&mut self, core: &mut HubCore, key: RequestKey, choice: RequestTarget) {
        let overflow = self.table.get(key).and_then(|asked| asked.overflow);
        if overflow.is_some_and(|overflow| choice != RequestTarget::Node(overflow.provider)) {
            self.drop_overflow(core, key);
        }
    }

    /// What another hub was to reflect it is not to any more.
    pub(crate) fn drop_overflow(&mut self, core: &mut HubCore, key: RequestKey) {
        if let Some(Overflow { hub, .. }) = self.table.get(key).and_then(|asked| asked.overflow) {
            self.table.set_overflow(key, None);
            core.cancel_overflow(key, hub, Reason::NotFound);
        }
    }

    /// A provider declines what another hub was to reflect: no third one changes that.
    pub(crate) fn on_overflow_declined(&mut self, key: RequestKey, by: RequestTarget) {
        let Some(Overflow { provider, .. }) = self.table.get(key).and_then(|asked| asked.overflow) else { return };
        if by == RequestTarget::Node(provider) {
            self.table.drop_choices(key, provider);
        }
    }

    /// A hub on the way has no room to send this one the stream that it would
    /// reflect: somebody else may send it to the subscriber.
    pub(crate) fn on_overflow_refused(&mut self, core: &mut HubCore, key: RequestKey, to: RequestTarget) {
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
        let decline = Decline { id: key.id, reason, retry_after_ms: None, requester: Some(key.requester) };
        if let Some(connection) = self.connection_to(hub) {
            self.send_answer(connection, &Message::Request(RequestMessage::Decline(decline)));
        }
    }
}
