//! The receiver's memory of the deliveries that it has stored, so that it stores none twice.
//!
//! The owner keeps the same on disk, in this order: `storing` is on disk before the file gets its name, the name before
//! `stored`, and `stored` before the sender hears of it. After a crash an object with `storing` alone is stored if its
//! part is gone or has its second name already.

use std::collections::BTreeMap;
use std::time::Duration;

use roost_wire::messages::{DeliveryTerms, PushState};
use roost_wire::{DeliveryId, NodeId};

/// The most receipts, and those of one sender.
const MAX_RECEIPTS: usize = 20_000;
const MAX_RECEIPTS_FROM_ONE: usize = 2_000;

/// A receiver's wall clock may be ahead of the sender's by so much before it takes what comes for expired.
const CLOCK_ALLOWANCE: Duration = Duration::from_secs(300);

/// A receipt is kept after the end of its delivery for so long, as senders ask what has become of it.
const KEPT: Duration = Duration::from_secs(24 * 60 * 60);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiptState {
    /// The object is about to get its name.
    Storing,
    Stored,
    /// The sender was told that it is not stored, so it must not be from then on.
    Expired,
}

#[derive(Clone, Copy, Debug)]
pub struct Receipt {
    pub state: ReceiptState,
    /// The end of the delivery by the wall clock of this host, Unix seconds.
    pub until_s: u64,
}

#[derive(Debug, Default)]
pub struct Receipts {
    held: BTreeMap<(NodeId, DeliveryId), Receipt>,
}

impl Receipts {
    /// Answers an offer, or takes it with `Ok` and the end of the delivery by this host's wall clock.
    ///
    /// # Errors
    /// The answer for the sender.
    pub fn offer(&mut self, from: NodeId, terms: &DeliveryTerms, wall_s: u64) -> Result<u64, PushState> {
        match self.held.get(&(from, terms.id)).map(|receipt| receipt.state) {
            Some(ReceiptState::Stored) => return Err(PushState::Stored),
            Some(ReceiptState::Storing) => return Err(PushState::Busy),
            Some(ReceiptState::Expired) => return Err(PushState::Expired),
            None => {}
        }
        let until_s = wall_s.saturating_add(terms.left_s.into());
        if terms.left_s > 0 && wall_s > terms.until_s.saturating_add(CLOCK_ALLOWANCE.as_secs()) {
            return Err(PushState::Expired);
        }
        if !self.make_room(from, wall_s) {
            return Err(PushState::Busy);
        }
        if terms.left_s == 0 {
            self.held.insert((from, terms.id), Receipt { state: ReceiptState::Expired, until_s });
            return Err(PushState::Expired);
        }
        Ok(until_s)
    }

    /// An object that was taken is about to get its name; to be on disk before it does.
    ///
    /// # Errors
    /// The answer for the sender, if another offer of it has been answered meanwhile.
    pub fn begin(&mut self, from: NodeId, id: DeliveryId, until_s: u64) -> Result<(), PushState> {
        let held = self.held.get(&(from, id)).map(|receipt| receipt.state);
        match held {
            None => drop(self.held.insert((from, id), Receipt { state: ReceiptState::Storing, until_s })),
            Some(ReceiptState::Stored) => return Err(PushState::Stored),
            Some(ReceiptState::Storing) => return Err(PushState::Busy),
            Some(ReceiptState::Expired) => return Err(PushState::Expired),
        }
        Ok(())
    }

    /// True if there is a receipt, of whatever state.
    pub fn holds(&self, from: NodeId, id: DeliveryId) -> bool {
        self.held.contains_key(&(from, id))
    }

    pub fn complete(&mut self, from: NodeId, id: DeliveryId) {
        if let Some(receipt) = self.held.get_mut(&(from, id)) {
            receipt.state = ReceiptState::Stored;
        }
    }

    /// An object could not get its name.
    pub fn withdraw(&mut self, from: NodeId, id: DeliveryId) {
        self.held.remove(&(from, id));
    }

    pub fn restore(&mut self, from: NodeId, id: DeliveryId, receipt: Receipt) {
        self.held.insert((from, id), receipt);
    }

    pub fn iter(&self) -> impl Iterator<Item = (NodeId, DeliveryId, Receipt)> {
        self.held.iter().map(|((from, id), receipt)| (*from, *id, *receipt))
    }

    /// True if a sender may have one more. Receipts whose deliveries are over go first, and only when room is needed, so
    /// that a wall clock that jumps ahead forgets little; then the oldest of the sender that has most.
    fn make_room(&mut self, from: NodeId, wall_s: u64) -> bool {
        let is_full = |held: &BTreeMap<(NodeId, DeliveryId), Receipt>| held.len() >= MAX_RECEIPTS;
        let of = |held: &BTreeMap<(NodeId, DeliveryId), Receipt>, node| held.keys().filter(|key| key.0 == node).count();
        if !is_full(&self.held) && of(&self.held, from) < MAX_RECEIPTS_FROM_ONE {
            return true;
        }
        self.held.retain(|_, receipt| receipt.until_s.saturating_add(KEPT.as_secs()) > wall_s);
        if of(&self.held, from) >= MAX_RECEIPTS_FROM_ONE {
            return false;
        }
        if is_full(&self.held) {
            let mut counts = BTreeMap::<NodeId, usize>::new();
            self.held.keys().for_each(|(node, _)| *counts.entry(*node).or_default() += 1);
            let most = counts.into_iter().max_by_key(|(_, count)| *count).map(|(node, _)| node);
            let of_most = self.held.iter().filter(|((node, _), _)| Some(*node) == most);
            let oldest = of_most.min_by_key(|(_, receipt)| receipt.until_s).map(|(key, _)| *key);
            oldest.map(|key| self.held.remove(&key));
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(number: u64, left_s: u32) -> DeliveryTerms {
        DeliveryTerms { id: DeliveryId::from_bytes(number.to_be_bytes()), until_s: 1_000 + u64::from(left_s), left_s }
    }

    fn node(number: u8) -> NodeId {
        NodeId::from_bytes([number; 16])
    }

    #[test]
    fn stored_delivery_is_stored_once() {
        let (mut receipts, terms) = (Receipts::default(), terms(1, 60));
        let until_s = receipts.offer(node(1), &terms, 1_000).unwrap();
        receipts.begin(node(1), terms.id, until_s).unwrap();
        assert_eq!(receipts.offer(node(1), &terms, 1_000), Err(PushState::Busy));
        assert_eq!(receipts.begin(node(1), terms.id, until_s), Err(PushState::Busy));
        receipts.complete(node(1), terms.id);
        assert_eq!(receipts.offer(node(1), &terms, 9_000), Err(PushState::Stored), "also after its end");
        assert_eq!(receipts.offer(node(2), &terms, 1_000), Ok(1_060), "another sender's number is another one");
    }

    #[test]
    fn denied_delivery_is_never_stored() {
        let mut receipts = Receipts::default();
        let until_s = receipts.offer(node(1), &terms(1, 60), 1_000).unwrap();
        assert_eq!(receipts.offer(node(1), &terms(1, 0), 1_060), Err(PushState::Expired));
        assert_eq!(receipts.begin(node(1), terms(1, 0).id, until_s), Err(PushState::Expired));
    }

    #[test]
    fn clock_that_is_little_ahead_is_allowed() {
        let mut receipts = Receipts::default();
        let allowed = 1_060 + CLOCK_ALLOWANCE.as_secs();
        assert_eq!(receipts.offer(node(1), &terms(1, 60), allowed), Ok(allowed + 60));
        assert_eq!(receipts.offer(node(1), &terms(1, 60), allowed + 1), Err(PushState::Expired));
        assert_eq!(receipts.offer(node(1), &terms(1, 60), 5), Ok(65), "a clock that is behind does no harm");
    }

    #[test]
    fn full_sender_waits_until_others_are_over() {
        let mut receipts = Receipts::default();
        for number in 0..MAX_RECEIPTS_FROM_ONE as u64 {
            receipts.begin(node(1), terms(number, 60).id, 1_060).unwrap();
        }
        assert_eq!(receipts.offer(node(1), &terms(9_999, 60), 1_000), Err(PushState::Busy));
        assert_eq!(receipts.offer(node(2), &terms(9_999, 60), 1_000), Ok(1_060));
        let later = 1_060 + KEPT.as_secs();
        let renewed = DeliveryTerms { until_s: later + 60, ..terms(9_999, 60) };
        assert_eq!(receipts.offer(node(1), &renewed, later), Ok(later + 60));
    }
}
