//! The messages that wait to be written to a TCP connection.

use std::time::Instant;

use bytes::Bytes;
use roost_wire::{Channel, Delivery};

use super::frame::Frame;
use crate::priority_queue::{PriorityQueue, Pushed, room_for};

/// Bytes that the writer seals at once, and so the most data that can go before a later, more urgent message.
pub(crate) const WRITE_BATCH: usize = 32 * 1024;

/// Bytes that fit into one segment with a TLS record of their own. The receiver opens a record when all of it has
/// arrived, and the first flight of a connection does not carry a whole long record. So short messages are not sealed
/// together with a long one.
const SHORT: usize = 1400;

/// The messages on their way to the writer.
#[derive(Debug, Default)]
pub(crate) struct WriteQueue {
    waiting: PriorityQueue,
    /// Set when the application or an error has ended the connection; the writer ends after sending it.
    pub(super) farewell: Option<String>,
}

impl WriteQueue {
    /// Queues a message if there is room for it: `limit` bytes for each class, and a little less for all but the most
    /// urgent level.
    pub(crate) fn push(
        &mut self,
        now: Instant,
        channel: Channel,
        delivery: &Delivery,
        message: Bytes,
        limit: usize,
    ) -> Pushed {
        self.waiting.push(now, channel, delivery, message, room_for(delivery.priority.into(), limit))
    }

    /// Moves up to [`WRITE_BATCH`] bytes, or one message, or the short messages before a long one, into `bytes`.
    /// Returns the farewell when nothing is left before it.
    pub(crate) fn take_batch(&mut self, now: Instant, bytes: &mut Vec<u8>) -> Option<String> {
        while bytes.len() < WRITE_BATCH {
            let is_short = (1..=SHORT).contains(&bytes.len());
            if is_short && self.waiting.next_bytes(now).is_some_and(|next| next > SHORT) {
                return None;
            }
            let Some(next) = self.waiting.pop(now) else { return self.farewell.clone() };
            Frame::Message(next.message).write(bytes);
        }
        None
    }

    #[cfg(feature = "simulated")]
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use roost_wire::Service;

    use super::super::frame::HEADER;
    use super::*;

    #[test]
    fn backlog_does_not_block_urgent() {
        let (mut queue, now, limit) = (WriteQueue::default(), Instant::now(), 1 << 20);
        for channel in [Channel::Reliable { flow: 1 }, Channel::Datagram] {
            let mut push = |delivery| queue.push(now, channel, &delivery, vec![0; 16_384].into(), limit);
            while push(Delivery::for_service(Service::Track)) == Pushed::Queued {}
            assert_eq!(push(Delivery::CONTROL), Pushed::Queued);
        }
    }

    #[test]
    fn short_messages_precede_long_ones() {
        let (mut queue, now) = (WriteQueue::default(), Instant::now());
        for length in [50, 1040, 16_384, 16_384, 1200, 1200, 1200, 16_384] {
            let usual = Delivery::default();
            queue.push(now, Channel::Reliable { flow: 1 }, &usual, vec![5; length].into(), 1 << 20);
        }
        let batches = std::iter::from_fn(|| {
            let mut batch = Vec::new();
            queue.take_batch(now, &mut batch);
            (!batch.is_empty()).then_some(batch.len())
        });
        let headers = |messages: usize| messages * HEADER;
        let batches: Vec<_> = batches.collect();
        assert_eq!(batches, [50 + 1040 + headers(2), 2 * 16_384 + headers(2), 3 * 1200 + 16_384 + headers(4)]);
    }

    #[test]
    fn urgent_waits_for_one_batch() {
        let (mut queue, now) = (WriteQueue::default(), Instant::now());
        let reliable = Channel::Reliable { flow: 1 };
        for _ in 0..40 {
            queue.push(now, reliable, &Delivery::for_service(Service::Image), vec![5; 16_384].into(), 1 << 20);
        }
        let mut batch = Vec::new();
        queue.take_batch(now, &mut batch);
        assert!(batch.len() <= WRITE_BATCH + 16_384 + HEADER);
        queue.push(now, reliable, &Delivery::CONTROL, vec![0; 10].into(), 1 << 20);
        batch.clear();
        queue.take_batch(now, &mut batch);
        assert_eq!(batch[HEADER], 0);
    }
}
