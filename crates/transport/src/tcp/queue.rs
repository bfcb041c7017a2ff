//! What waits to be written to a TCP link.

use std::time::Instant;

use bytes::Bytes;
use roost_proto::{Channel, Delivery};

use super::frame::Frame;
use crate::levels::{Levels, Pushed};

/// Bytes that the writer seals in one go, and so the most data that can go
/// before what comes later and is more urgent.
pub(crate) const WRITE_BATCH: usize = 32 * 1024;

/// Messages on their way to the writer.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    waiting: Levels,
    /// Set once the link is over for the owner; the writer ends with it.
    pub(super) farewell: Option<String>,
}

impl Queue {
    /// Takes a message, if there is room for it: `limit` bytes of each class.
    pub(crate) fn push(&mut self, now: Instant, how: (Channel, &Delivery), message: Bytes, limit: usize) -> Pushed {
        self.waiting.push(now, how, message, limit)
    }

    /// Moves up to [`WRITE_BATCH`] bytes, or one message, into `bytes`; answers
    /// the farewell when nothing is left before it.
    pub(crate) fn take(&mut self, now: Instant, bytes: &mut Vec<u8>) -> Option<String> {
        while bytes.len() < WRITE_BATCH {
            let Some(next) = self.waiting.pop(now) else { return self.farewell.clone() };
            Frame::Message(next.message).write(bytes);
        }
        None
    }

    /// Whether nothing waits.
    #[cfg(feature = "simulated")]
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use roost_proto::Service;

    use super::super::frame::HEADER;
    use super::*;

    #[test]
    fn no_more_than_a_batch_goes_before_what_is_urgent() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        let reliable = Channel::Reliable { flow: 1 };
        for _ in 0..40 {
            queue.push(now, (reliable, &Delivery::of(Service::Image)), vec![5; 16_384].into(), 1 << 20);
        }
        let mut batch = Vec::new();
        queue.take(now, &mut batch);
        assert!(batch.len() <= WRITE_BATCH + 16_384 + HEADER);
        queue.push(now, (reliable, &Delivery::CONTROL), vec![0; 10].into(), 1 << 20);
        batch.clear();
        queue.take(now, &mut batch);
        assert_eq!(batch[HEADER], 0);
    }
}
