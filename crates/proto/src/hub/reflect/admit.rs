//! Whether there is room for one more copy of a stream.

use std::net::SocketAddr;

use super::{BEGINNING, Copy, MAX_RECEIVERS, Policy};
use crate::hub::Hub;
use crate::ids::NodeId;
use crate::reflection::Kind;
use crate::service::Service;
use crate::time::Time;
use crate::wire::Reason;

impl Copy {
    fn receiver(&self) -> Option<(SocketAddr, Service, NodeId)> {
        self.provider.map(|provider| (self.to, self.service, provider))
    }
}

impl Hub {
    /// The owner says what is left of its uplink, and how many nodes are sent
    /// something. What was granted before is in it, but for streams that have not begun.
    pub(in crate::hub) fn note_residual(&mut self, now: Time, residual_kbps: u32, subscribers: u32) {
        let begin = self.reflecting.receivers.iter().filter(|((_, service, provider), granted)| {
            now < **granted + BEGINNING && !self.reflecting.carries(*service, *provider)
        });
        let pledged = begin
            .fold(0, |sum: u32, ((_, service, provider), _)| sum.saturating_add(self.rate(*service, Some(*provider))));
        let has_limit = residual_kbps != u32::MAX;
        let left = if has_limit { residual_kbps.saturating_sub(pledged) } else { residual_kbps };
        (self.reflecting.residual_kbps, self.reflecting.subscribers) = (left, subscribers);
    }

    /// Takes the room of a copy, unless it is there already: one who asks once
    /// more, because it has another home or its way is broken, is sent no more.
    pub(super) fn admit_copy(&mut self, now: Time, copy: &Copy) -> Result<(), Reason> {
        if self.is_receiver(copy) {
            return Ok(());
        }
        let Copy { kind, service, provider, .. } = *copy;
        let kbps = self.rate(service, provider);
        let policy = self.config.reflection.map(|reflection| reflection.policy).unwrap_or_default();
        let reflecting = &mut self.reflecting;
        let is_subscriber = kind == Kind::Subscriber;
        let has_room = match policy {
            Policy::Residual => reflecting.residual_kbps >= kbps,
            Policy::Count(most) => !is_subscriber || reflecting.subscribers < most,
        };
        if !has_room {
            self.counters.saturated += 1;
            return Err(Reason::Saturated);
        }
        if reflecting.residual_kbps != u32::MAX {
            reflecting.residual_kbps = reflecting.residual_kbps.saturating_sub(kbps);
        }
        reflecting.subscribers += u32::from(is_subscriber);
        self.counters.grants += 1;
        if let Some(receiver) = copy.receiver() {
            self.remember_receiver(now, receiver);
        }
        Ok(())
    }

    /// Whether it has the copy already.
    pub(super) fn is_receiver(&self, copy: &Copy) -> bool {
        copy.receiver().is_some_and(|receiver| self.reflecting.receivers.contains_key(&receiver))
    }

    pub(super) fn remember_receiver(&mut self, now: Time, receiver: (SocketAddr, Service, NodeId)) {
        let receivers = &mut self.reflecting.receivers;
        if receivers.len() < MAX_RECEIVERS || receivers.contains_key(&receiver) {
            receivers.insert(receiver, now);
        }
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
