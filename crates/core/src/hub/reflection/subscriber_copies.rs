//! Copies that were granted to each node, as long as the relay sends them.

use std::collections::BTreeMap;
use std::time::Duration;

use roost_wire::{NodeId, Time};

use super::stream_copy::CopyReceiver;
use crate::hub::MAX_RECEIVERS;

/// The most copies that one node is sent, with those that it was granted: a room of 64 members with
/// four streams each.
pub(super) const MAX_COPIES_EACH: usize = 256;

/// The most that it was granted, with those that it has given up meanwhile: who asks and gives up again and again
/// takes up no more places here.
pub(super) const MAX_GRANTED_EACH: usize = 2 * MAX_COPIES_EACH;

/// Until then a copy that was granted has begun, and the owner has said so: longer than its relay waits for it.
const BEGINNING: Duration = Duration::from_secs(15);

/// The copies that were granted to nodes. One that finds no place here counts for nobody.
#[derive(Debug, Default)]
pub(super) struct SubscriberCopies {
    of: BTreeMap<NodeId, BTreeMap<CopyReceiver, Time>>,
    count: usize,
}

impl SubscriberCopies {
    pub(super) fn record_copy(&mut self, now: Time, node: NodeId, receiver: CopyReceiver) {
        let is_known = self.of.get(&node).is_some_and(|copies| copies.contains_key(&receiver));
        if is_known || self.count < 2 * MAX_RECEIVERS {
            self.count += usize::from(!is_known);
            self.of.entry(node).or_default().insert(receiver, now);
        }
    }

    /// Forgets those that are not sent, unless they may begin yet.
    pub(super) fn keep(&mut self, now: Time, is_sent: impl Fn(&CopyReceiver) -> bool) {
        for copies in self.of.values_mut() {
            copies.retain(|receiver, granted| is_sent(receiver) || now.since(*granted) < BEGINNING);
        }
        self.of.retain(|_, copies| !copies.is_empty());
        self.count = self.of.values().map(BTreeMap::len).sum();
    }

    pub(super) fn copies_of(&self, node: NodeId) -> impl Iterator<Item = &CopyReceiver> {
        self.of.get(&node).into_iter().flat_map(BTreeMap::keys)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use roost_wire::service::Service;

    #[test]
    fn copies_bounded_and_dropped_when_unsent() {
        let (mut takers, now) = (SubscriberCopies::default(), Time::ZERO);
        let node = |number: u8| NodeId::from_bytes([number; 16]);
        let receiver = |port: u16| {
            let to = ([10, 0, 0, 1], port).into();
            CopyReceiver { to, service: Service::Video, provider: node(99) }
        };
        (0..10_000).for_each(|port| takers.record_copy(now, node((port % 50) as u8), receiver(port)));
        assert_eq!(takers.count, 2 * MAX_RECEIVERS);
        takers.keep(now + BEGINNING, |sent| *sent == receiver(7));
        assert_eq!((takers.count, takers.copies_of(node(7)).collect::<Vec<_>>()), (1, vec![&receiver(7)]));
        takers.keep(now + BEGINNING, |_| false);
        assert!(takers.of.is_empty());
    }
}
