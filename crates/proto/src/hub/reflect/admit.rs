//! Whether there is room for one more copy of a stream.

use super::pledges::{MAX_PLEDGES_EACH, Pledge};
use super::{BEGINNING, Copy, Policy, Reflecting};
use crate::hub::Hub;
use crate::hub::requests::Key;
use crate::ids::NodeId;
use crate::reflection::Kind;
use crate::service::Service;
use crate::time::Time;
use crate::wire::Reason;

impl Hub {
    /// The owner says what is left of its uplink, and how many nodes are sent
    /// something: of what was granted before, what has begun is in it.
    pub(in crate::hub) fn note_residual(&mut self, residual_kbps: u32, subscribers: u32) {
        (self.reflecting.residual_kbps, self.reflecting.subscribers) = (residual_kbps, subscribers);
    }

    /// What is left of the uplink for copies, kbit/s, less what is pledged.
    pub(super) fn left_kbps(&self) -> u32 {
        let Reflecting { residual_kbps, pledges, .. } = &self.reflecting;
        if *residual_kbps == u32::MAX { u32::MAX } else { residual_kbps.saturating_sub(pledges.kbps()) }
    }

    /// Takes the room of a copy, unless it is there already: one who asks once
    /// more, because it has another home or its way is broken, is sent no more.
    pub(super) fn admit_copy(&mut self, now: Time, key: Key, copy: Copy) -> Result<(), Reason> {
        self.reflecting.pledges.release(key);
        let Some(requester) = self.requests.get(key).map(|asked| asked.requester) else { return Ok(()) };
        let kbps = self.rate(copy.service, copy.provider);
        if !self.is_receiver(&copy) {
            if !self.has_room(&copy, requester, kbps) {
                self.counters.saturated += 1;
                return Err(Reason::Saturated);
            }
            self.counters.grants += 1;
        }
        if !self.reflecting.is_sent(&copy) {
            self.reflecting.pledges.insert(key, Pledge { copy, requester, kbps, until: now + BEGINNING });
        }
        Ok(())
    }

    /// Whether there is room for one more copy. What a node was granted and has
    /// not taken up is half of the room at most, but for the first one: so nobody is shut
    /// out by one who asks for much and takes nothing.
    fn has_room(&self, copy: &Copy, requester: NodeId, kbps: u32) -> bool {
        let Reflecting { pledges, subscribers, .. } = &self.reflecting;
        let is_subscriber = copy.kind == Kind::Subscriber;
        let (pledged, pledged_kbps) = if is_subscriber { pledges.of(requester) } else { (0, 0) };
        let is_fair = |mine: u32, one: u32, left: u32| {
            left >= one && (mine == 0 || mine.saturating_add(one) <= left.saturating_add(mine) / 2)
        };
        let policy = self.config.reflection.map(|reflection| reflection.policy).unwrap_or_default();
        let left = self.left_kbps();
        let has_room = match policy {
            Policy::Residual if left == u32::MAX => return pledged < MAX_PLEDGES_EACH,
            Policy::Residual => is_fair(pledged_kbps, kbps, left),
            Policy::Count(most) => {
                let left = most.saturating_sub(subscribers.saturating_add(pledges.subscribers()));
                !is_subscriber || is_fair(pledged as u32, 1, left)
            }
        };
        has_room && pledged < MAX_PLEDGES_EACH && !pledges.is_full()
    }

    /// Whether it has the copy already, or is about to.
    pub(super) fn is_receiver(&self, copy: &Copy) -> bool {
        let pledged = |receiver| self.reflecting.pledges.receivers().any(|other| other == receiver);
        self.reflecting.is_sent(copy) || copy.receiver().is_some_and(pledged)
    }

    /// What a stream takes: as its relay measures it, or as the service usually does.
    pub(super) fn rate(&self, service: Service, provider: Option<NodeId>) -> u32 {
        let carried = provider.and_then(|provider| self.reflecting.carried_of(service, provider));
        // A stream that has just begun is not measured yet.
        let carried = carried.filter(|carried| carried.kbps > 0);
        let usual = u32::try_from(service.reflected_bits_per_second().div_ceil(1000)).unwrap_or(u32::MAX);
        carried.map_or(usual, |carried| carried.kbps)
    }
}
