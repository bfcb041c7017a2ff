//! Admission of copies of streams.

use roost_wire::messages::Reason;
use roost_wire::reflection::DownstreamKind;
use roost_wire::{NodeId, Service};

use super::ReflectionState;
use super::reservations::{MAX_RESERVATIONS_EACH, Reservation};
use super::stream_copy::{BEGINNING, CopyReceiver, StreamCopy};
use super::subscriber_copies::{MAX_COPIES_EACH, MAX_GRANTED_EACH};
use crate::hub::OverflowPolicy;
use crate::hub::copy_room::CopyRoom;
use crate::hub::core::HubCore;
use crate::request_key::RequestKey;

impl ReflectionState {
    /// The owner says what is left of its uplink, and how many nodes are sent
    /// something: of what was granted before, what has begun is in it.
    pub(crate) fn note_residual(&mut self, residual_kbps: Option<u32>, subscribers: u32) {
        (self.residual_kbps, self.subscribers) = (residual_kbps, subscribers);
    }

    /// The room of the uplink for copies, less the reserved rest.
    pub(super) fn left(&self) -> CopyRoom {
        let left = |kbps: u32| CopyRoom::Kbps(kbps.saturating_sub(self.reservations.kbps()));
        self.residual_kbps.map_or(CopyRoom::Unlimited, left)
    }

    /// Takes the room of a copy, unless it is there already: one who asks once
    /// more, because it has another home or its way is broken, is sent no more.
    pub(crate) fn admit_copy(
        &mut self,
        core: &mut HubCore,
        key: RequestKey,
        requester: NodeId,
        copy: StreamCopy,
    ) -> Result<(), Reason> {
        let now = core.now;
        self.reservations.release(key);
        let kbps = self.rate(copy.service, copy.provider);
        if !self.is_receiver(&copy) {
            if !self.has_room(core, &copy, requester, kbps) {
                core.counters.saturated += 1;
                return Err(Reason::Saturated);
            }
            core.counters.grants += 1;
        }
        if !self.is_sent(&copy) {
            self.reservations.insert(key, Reservation { copy, requester, kbps, until: now + BEGINNING });
        }
        Ok(())
    }

    /// True if there is room for one more copy. What a node was granted and has
    /// not taken up is half of the room at most, but for the first one: so nobody is shut
    /// out by one who asks for much and takes nothing.
    fn has_room(&self, core: &HubCore, copy: &StreamCopy, requester: NodeId, kbps: u32) -> bool {
        let Self { reservations, subscribers, .. } = self;
        let is_subscriber = copy.kind == DownstreamKind::Subscriber;
        let (reserved, reserved_kbps) = if is_subscriber { reservations.reserved_by(requester) } else { (0, 0) };
        if reserved >= MAX_RESERVATIONS_EACH || is_subscriber && !self.is_modest(core, requester, kbps) {
            return false;
        }
        let is_fair = |mine: u32, one: u32, left: u32| {
            left >= one && (mine == 0 || mine.saturating_add(one) <= left.saturating_add(mine) / 2)
        };
        let policy = core.config.reflection.map(|reflection| reflection.policy).unwrap_or_default();
        let has_room = match (policy, self.left()) {
            (OverflowPolicy::Residual, CopyRoom::Unlimited) => return true,
            (OverflowPolicy::Residual, CopyRoom::Kbps(left)) => is_fair(reserved_kbps, kbps, left),
            (OverflowPolicy::Count(most), _) => {
                let left = most.saturating_sub(subscribers.saturating_add(reservations.subscribers()));
                !is_subscriber || is_fair(reserved as u32, 1, left)
            }
        };
        has_room && !reservations.is_full()
    }

    /// True if a node with these pledges that is sent one more copy leaves others something: who has more
    /// than half of all that there is room for leaves them the last eighth.
    fn is_modest(&self, core: &HubCore, requester: NodeId, kbps: u32) -> bool {
        let (reserved, reserved_kbps) = self.reservations.reserved_by(requester);
        let Self { sent, sent_kbps, subscriber_copies, reservations, .. } = self;
        let begun = subscriber_copies.copies_of(requester).filter(|receiver| sent.contains(receiver));
        let rate = |copy: &CopyReceiver| self.rate(copy.service, Some(copy.provider));
        let (begun, begun_kbps) =
            begun.fold((0, 0_u32), |(count, sum), receiver| (count + 1, sum.saturating_add(rate(receiver))));
        let is_within =
            begun + reserved < MAX_COPIES_EACH && subscriber_copies.copies_of(requester).count() < MAX_GRANTED_EACH;
        let is_by_rate = core.config.reflection.is_some_and(|of| of.policy == OverflowPolicy::Residual);
        let left = match self.left() {
            CopyRoom::Kbps(left) if is_by_rate && begun + reserved > 0 => left,
            CopyRoom::Kbps(_) | CopyRoom::Unlimited => return is_within,
        };
        let all = left.saturating_add(reservations.kbps()).saturating_add(*sent_kbps);
        let has_more_than_half = begun_kbps.saturating_add(reserved_kbps).saturating_add(kbps) > all / 2;
        let leaves_some = left >= kbps.saturating_add(all / 8);
        is_within && (!has_more_than_half || leaves_some)
    }

    /// True if it has the copy already, or is about to.
    pub(crate) fn is_receiver(&self, copy: &StreamCopy) -> bool {
        self.is_sent(copy) || copy.receiver().is_some_and(|receiver| self.reservations.has(receiver))
    }

    /// Rate of a stream: as its relay measures it, or as the service usually does.
    pub(crate) fn rate(&self, service: Service, provider: Option<NodeId>) -> u32 {
        let stream = provider.and_then(|provider| self.find_stream(service, provider));
        // A stream that has just begun is not measured yet.
        let stream = stream.filter(|carried| carried.kbps > 0);
        let usual = u32::try_from(service.reflected_bits_per_second().div_ceil(1000)).unwrap_or(u32::MAX);
        stream.map_or(usual, |stream| stream.kbps)
    }
}
