//! Puts messages that came on streams of their own back in order.
//!
//! Every message has a unidirectional stream. Streams are numbered in the
//! order in which they were opened, and a reliable message says how many
//! numbers back the one of the same flow is that goes before it. It waits for
//! that one if it is still being read; a number that is not being read any
//! more has been delivered. The receiver needs no other memory of flows.

use std::collections::{BTreeSet, HashMap};

use bytes::Bytes;

/// The most memory for messages that wait for earlier ones, bytes. Then no
/// further stream is read until one of the earlier is done.
const MAX_WAITING_BYTES: usize = 4 << 20;
/// What a message that waits costs beside its bytes.
const WAITING_COST: usize = 128;

/// The streams of one link that are not delivered yet.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    open: BTreeSet<u64>,
    /// Complete messages, by the number of the one they follow.
    waiting: HashMap<u64, (u64, Bytes)>,
    waiting_bytes: usize,
}

/// Two messages follow the same one.
#[derive(Debug)]
pub(super) struct Fork;

impl Inbox {
    /// A stream has been opened. Must be called in the order of the numbers.
    pub(super) fn opened(&mut self, number: u64) {
        self.open.insert(number);
    }

    /// A stream has been read to its end; `distance` is 0 for a message that
    /// follows none. Hands out the messages that can be delivered now.
    ///
    /// # Errors
    ///
    /// The peer has broken the protocol, and the link must end.
    pub(super) fn complete(
        &mut self,
        number: u64,
        distance: u32,
        message: Bytes,
        mut deliver: impl FnMut(Bytes),
    ) -> Result<(), Fork> {
        let before = number.checked_sub(u64::from(distance)).filter(|_| distance > 0);
        if let Some(before) = before.filter(|before| self.open.contains(before)) {
            self.waiting_bytes += message.len() + WAITING_COST;
            return self.waiting.insert(before, (number, message)).map_or(Ok(()), |_| Err(Fork));
        }
        self.open.remove(&number);
        deliver(message);
        let mut last = number;
        while let Some((next, message)) = self.waiting.remove(&last) {
            self.waiting_bytes -= message.len() + WAITING_COST;
            self.open.remove(&next);
            deliver(message);
            last = next;
        }
        Ok(())
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

    #[test]
    fn empty_messages_that_wait_use_up_the_room_as_well() {
        let mut inbox = Inbox::default();
        inbox.opened(0);
        for number in 1..1 << 20 {
            if inbox.has_room() {
                inbox.opened(number);
                inbox.complete(number, 1, Bytes::new(), |_| panic!("delivered")).unwrap();
            }
        }
        assert!(!inbox.has_room());
        let mut delivered = 0;
        inbox.complete(0, 0, Bytes::new(), |_| delivered += 1).unwrap();
        assert_eq!(delivered, 1 + MAX_WAITING_BYTES / WAITING_COST);
        assert!(inbox.has_room());
    }

    #[test]
    fn two_messages_cannot_follow_the_same_one() {
        let mut inbox = Inbox::default();
        (0..3).for_each(|number| inbox.opened(number));
        assert!(inbox.complete(1, 1, Bytes::new(), drop).is_ok());
        assert!(inbox.complete(2, 2, Bytes::new(), drop).is_err());
    }

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
                    inbox.complete(number, distance, message, |message| delivered.push(message)).unwrap();
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
