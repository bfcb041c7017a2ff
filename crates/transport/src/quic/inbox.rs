//! Puts messages that came on streams of their own back in order.
//!
//! Every message has a unidirectional stream. Streams are numbered in the
//! order in which they were opened, and a reliable message says how many
//! numbers back the one of the same flow is that goes before it. It waits for
//! that one if it is still being read; a number that is not being read any
//! more has been delivered. The receiver needs no other memory of flows.

use std::collections::{BTreeSet, HashMap};

use bytes::Bytes;

/// The most bytes of messages that wait for earlier ones. Then no further
/// stream is read until one of the earlier is done.
const MAX_WAITING_BYTES: usize = 4 << 20;

/// The streams of one link that are not delivered yet.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    open: BTreeSet<u64>,
    /// Complete messages, by the number of the one they follow.
    waiting: HashMap<u64, (u64, Bytes)>,
    waiting_bytes: usize,
}

impl Inbox {
    /// A stream has been opened. Must be called in the order of the numbers.
    pub(super) fn opened(&mut self, number: u64) {
        self.open.insert(number);
    }

    /// A stream has been read to its end; `distance` is 0 for a message that
    /// follows none. Hands out the messages that can be delivered now.
    pub(super) fn complete(&mut self, number: u64, distance: u32, message: Bytes, mut deliver: impl FnMut(Bytes)) {
        let before = number.checked_sub(u64::from(distance)).filter(|_| distance > 0);
        if let Some(before) = before.filter(|before| self.open.contains(before)) {
            self.waiting_bytes += message.len();
            self.waiting.insert(before, (number, message));
            return;
        }
        self.open.remove(&number);
        deliver(message);
        let mut last = number;
        while let Some((next, message)) = self.waiting.remove(&last) {
            self.waiting_bytes -= message.len();
            self.open.remove(&next);
            deliver(message);
            last = next;
        }
    }

    /// Whether another stream may be read.
    pub(super) fn has_room(&self) -> bool {
        self.waiting_bytes < MAX_WAITING_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn flows_keep_their_order_however_streams_end(
            flows in prop::collection::vec(0..4usize, 1..100),
            order in prop::collection::vec(any::<prop::sample::Index>(), 100),
        ) {
            let mut inbox = Inbox::default();
            let mut last = [None; 4];
            let mut unread = Vec::new();
            for (number, flow) in (0..).zip(&flows) {
                inbox.opened(number);
                let distance = last[*flow].replace(number).map_or(0, |before| (number - before) as u32);
                unread.push((number, distance));
            }
            let mut delivered = Vec::new();
            for index in &order {
                if !unread.is_empty() {
                    let (number, distance) = unread.remove(index.index(unread.len()));
                    let message = Bytes::copy_from_slice(&number.to_be_bytes());
                    inbox.complete(number, distance, message, |message| delivered.push(message));
                }
            }
            let delivered: Vec<_> = delivered.iter().map(|m| u64::from_be_bytes(m[..].try_into().unwrap())).collect();
            prop_assert_eq!(delivered.len(), flows.len());
            for flow in 0..4 {
                let of_flow: Vec<_> = delivered.iter().filter(|number| flows[**number as usize] == flow).collect();
                prop_assert!(of_flow.is_sorted());
            }
            prop_assert!(inbox.open.is_empty() && inbox.waiting.is_empty() && inbox.waiting_bytes == 0);
        }
    }
}
