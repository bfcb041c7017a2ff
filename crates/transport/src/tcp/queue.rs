//! What waits to be written to a TCP link.

use std::collections::VecDeque;
use std::time::Instant;

use bytes::Bytes;
use roost_proto::{Channel, Delivery};

use super::frame::{Frame, HEADER};

/// Bytes that the writer seals in one go, and so the most data that can go
/// before what comes later and is more urgent.
pub(crate) const WRITE_BATCH: usize = 32 * 1024;
/// Levels of priority.
const LEVELS: usize = 8;

/// Messages on their way to the writer.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    /// The most urgent first; of one level, datagrams go before what is reliable.
    levels: [[VecDeque<Waiting>; 2]; LEVELS],
    /// Of datagrams, and of what is reliable.
    bytes: [usize; 2],
    /// Set once the link is over for the owner; the writer ends with it.
    pub(super) farewell: Option<String>,
}

#[derive(Debug)]
struct Waiting {
    message: Bytes,
    /// When it has lost its use.
    until: Option<Instant>,
}

/// What has become of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pushed {
    Queued,
    /// A datagram for which there was no room.
    Dropped,
    /// There is no room, and it was not taken.
    Full,
}

impl Queue {
    /// Takes a message, if there is room for it: `limit` bytes of each class.
    pub(crate) fn push(
        &mut self,
        now: Instant,
        (channel, delivery): (Channel, &Delivery),
        message: Bytes,
        limit: usize,
    ) -> Pushed {
        let (class, refusal) = match channel {
            Channel::Datagram => (0, Pushed::Dropped),
            Channel::Reliable { .. } => (1, Pushed::Full),
        };
        let cost = message.len() + HEADER;
        if self.bytes[class] + cost > limit {
            return refusal;
        }
        self.bytes[class] += cost;
        let level = usize::from(delivery.priority).min(LEVELS - 1);
        let until = delivery.life.map(|life| now + life);
        self.levels[level][class].push_back(Waiting { message, until });
        Pushed::Queued
    }

    /// Moves up to [`WRITE_BATCH`] bytes, or one message, into `bytes`; answers
    /// the farewell when nothing is left before it.
    pub(crate) fn take(&mut self, now: Instant, bytes: &mut Vec<u8>) -> Option<String> {
        while bytes.len() < WRITE_BATCH {
            let Some(Waiting { message, until }) = self.pop() else { return self.farewell.clone() };
            if until.is_none_or(|until| now < until) {
                Frame::Message(message).write(bytes);
            }
        }
        None
    }

    fn pop(&mut self) -> Option<Waiting> {
        let queues = self.levels.iter_mut().flat_map(|level| level.iter_mut().enumerate());
        let (class, queue) = queues.into_iter().find(|(_, queue)| !queue.is_empty())?;
        let next = queue.pop_front()?;
        self.bytes[class] -= next.message.len() + HEADER;
        Some(next)
    }

    /// Whether nothing waits.
    #[cfg(feature = "simulated")]
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes == [0, 0]
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use roost_proto::Service;

    use super::*;

    const LIMIT: usize = 1 << 20;
    const RELIABLE: Channel = Channel::Reliable { flow: 1 };

    /// The first bytes of the messages that leave, in their order.
    fn order(queue: &mut Queue, now: Instant) -> Vec<u8> {
        let (mut left, mut bytes) = (Vec::new(), Vec::new());
        while queue.bytes != [0, 0] {
            bytes.clear();
            queue.take(now, &mut bytes);
            let mut rest = &bytes[..];
            while let [_, a, b, c, body @ ..] = rest {
                left.push(body[0]);
                rest = &body[u32::from_be_bytes([0, *a, *b, *c]) as usize..];
            }
        }
        left
    }

    #[test]
    fn the_urgent_goes_first_and_datagrams_before_what_is_reliable() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        let of = [(5, Delivery::of(Service::Image)), (2, Delivery::of(Service::Track)), (0, Delivery::CONTROL)];
        for (mark, delivery) in of {
            queue.push(now, (RELIABLE, &delivery), vec![mark; 100].into(), LIMIT);
            queue.push(now, (Channel::Datagram, &delivery), vec![10 + mark; 100].into(), LIMIT);
        }
        assert_eq!(order(&mut queue, now), [10, 0, 12, 2, 15, 5]);
    }

    #[test]
    fn no_more_than_a_batch_goes_before_what_is_urgent() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        for _ in 0..40 {
            queue.push(now, (RELIABLE, &Delivery::of(Service::Image)), vec![5; 16_384].into(), LIMIT);
        }
        let mut batch = Vec::new();
        queue.take(now, &mut batch);
        assert!(batch.len() <= WRITE_BATCH + 16_384 + HEADER);
        queue.push(now, (RELIABLE, &Delivery::CONTROL), vec![0; 10].into(), LIMIT);
        assert_eq!(order(&mut queue, now)[0], 0);
    }

    #[test]
    fn what_has_outlived_its_use_does_not_leave() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        let short = Delivery { life: Some(Duration::from_millis(250)), ..Delivery::CONTROL };
        queue.push(now, (Channel::Datagram, &short), vec![1; 10].into(), LIMIT);
        queue.push(now, (Channel::Datagram, &Delivery::CONTROL), vec![2; 10].into(), LIMIT);
        assert_eq!(order(&mut queue, now + Duration::from_millis(250)), [2]);
    }
}
