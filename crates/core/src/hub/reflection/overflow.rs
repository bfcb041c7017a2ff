//! Another hub that reflects what this one has no room for. A subscriber
//! recognises its copy by the tag, whoever sends it.
//!
//! A home with little room passes the request on as it came, so that the stream
//! comes from the provider's home. If that has little room too, it has a hub with more
//! reflect it ([`RouteDirection::Overflow`]), which asks it for the stream as any hub does.
//! So a stream still crosses two hubs at most. Little is what [feeds](ReflectionState::feed_reserve_kbps) the others.

use std::cmp::Reverse;
use std::net::SocketAddr;

use roost_wire::NodeId;
use roost_wire::reflection::DownstreamKind;

use super::ReflectionState;
use super::stream_copy::{ReflectedStreamId, StreamCopy};
use crate::hub::ReflectionConfig;
use crate::hub::copy_room::CopyRoom;
use crate::hub::core::HubCore;
use crate::hub::members::MemberView;

/// Number of hubs that are tried for one copy.
const MAX_TRIED: usize = 8;

impl ReflectionState {
    /// The room for copies of which the other hubs are told; `None` if they are told of none.
    pub(crate) fn room(&self, core: &HubCore) -> Option<CopyRoom> {
        let reflection = core.config.reflection.filter(|_| core.leaving.is_none());
        reflection.and_then(ReflectionConfig::first_room).map(|_| self.left())
    }

    /// The room that a hub leaves to subscribers only if no other hub has more: it is for one copy to
    /// each of the others, for a hub that cannot feed them keeps what comes from here to itself.
    fn feed_reserve_kbps(&self, core: &HubCore, members: MemberView<'_>, kbps: u32) -> u32 {
        let hubs = core.remotes.hubs().filter(|hub| members.room_of(*hub).is_some()).take(MAX_TRIED).count();
        // The last of at least two is one for a hub, which makes many of it.
        kbps.saturating_mul(hubs.max(1) as u32 + 1)
    }

    /// Hubs that have a provider's stream from here already, then hubs that would have to get it, if there is
    /// room for that; of each kind the one with the most room first.
    fn hubs_with_room(
        &self,
        core: &HubCore,
        members: MemberView<'_>,
        requester: NodeId,
        stream: ReflectedStreamId,
        kbps: u32,
    ) -> Vec<NodeId> {
        let left = self.left();
        let can_feed = left.has(kbps);
        let mut hubs: Vec<(bool, Reverse<CopyRoom>, NodeId)> = Vec::new();
        for hub in core.remotes.hubs().filter(|hub| *hub != requester) {
            let Some(room) = members.room_of(hub) else { continue };
            let is_fed = self.is_fed(core, hub, stream);
            // A hub that would serve this one only is no gain.
            let least = if is_fed { kbps } else { kbps.saturating_mul(2) };
            if room.has(least) && (is_fed || can_feed) && (room > left || !left.has(kbps.saturating_mul(2))) {
                hubs.push((!is_fed, Reverse(room), hub));
            }
        }
        hubs.sort_unstable();
        hubs.into_iter().take(MAX_TRIED).map(|(.., hub)| hub).collect()
    }

    /// True if a hub gets a provider's stream from here, as far as its addresses tell.
    fn is_fed(&self, core: &HubCore, hub: NodeId, stream: ReflectedStreamId) -> bool {
        let connections =
            core.remotes.connections_of(hub).iter().filter_map(|connection| core.remotes.connections.get(connection));
        let hosts: Vec<_> =
            connections.filter_map(|connection| connection.address.primary()).map(|at: SocketAddr| at.ip()).collect();
        let Self { sent, reservations, .. } = self;
        let mut receivers = sent.iter().copied().chain(reservations.receivers());
        receivers.any(|receiver| receiver.stream() == stream && hosts.contains(&receiver.to.ip()))
    }

    /// The hubs that are to reflect a copy for a request of `requesting`, if there is little room here. `source`
    /// is whom the stream would come from.
    pub(crate) fn plan_overflow(
        &self,
        core: &HubCore,
        members: MemberView<'_>,
        copy: &StreamCopy,
        source: CopySource,
        requesting: NodeId,
    ) -> OverflowPlan {
        if copy.kind != DownstreamKind::Subscriber || self.room(core).is_none() || self.is_receiver(copy) {
            return OverflowPlan::Here;
        }
        let (kbps, left) = (self.rate(copy.service, copy.provider), self.left());
        let kept = self.feed_reserve_kbps(core, members, kbps);
        match source {
            CopySource::Hub(hub) => {
                let has_more = members.room_of(hub).is_some_and(|room| room > left);
                if !left.has(kbps) || !left.has(kept) && has_more { OverflowPlan::PassOn } else { OverflowPlan::Here }
            }
            CopySource::Provider(_) if left.has(kept) => OverflowPlan::Here,
            CopySource::Provider(provider) => {
                let stream = ReflectedStreamId { service: copy.service, provider };
                let hubs = self.hubs_with_room(core, members, requesting, stream, kbps);
                if hubs.is_empty() { OverflowPlan::Here } else { OverflowPlan::At(hubs) }
            }
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum CopySource {
    Provider(NodeId),
    Hub(NodeId),
}

#[derive(Debug)]
pub(crate) enum OverflowPlan {
    Here,
    /// The hub from which the stream comes.
    PassOn,
    /// The first of these that can.
    At(Vec<NodeId>),
}
