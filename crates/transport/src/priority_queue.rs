//! The messages that wait in a connection, the most urgent first.

use std::collections::VecDeque;
use std::time::Instant;

use bytes::Bytes;
use roost_wire::{Channel, Delivery};

pub(crate) const LEVELS: usize = 8;
/// The part of a connection's queue that only the most urgent level may use, so that a backlog of the others does not
/// keep it out.
const RESERVED: usize = 16;
/// Bytes that a message counts besides its content, for its entry in the queue.
const COST: usize = 64;

/// The messages that wait in a connection. On one level, datagrams leave before reliable messages.
#[derive(Debug, Default)]
pub(crate) struct PriorityQueue {
    levels: [[VecDeque<QueuedMessage>; 2]; LEVELS],
    /// The bytes of datagrams, and those of reliable messages.
    bytes: [usize; 2],
}

#[derive(Debug)]
pub(crate) struct QueuedMessage {
    pub(crate) channel: Channel,
    pub(crate) level: usize,
    pub(crate) message: Bytes,
    /// The end of its lifetime, after which it is dropped.
    until: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pushed {
    Queued,
    /// A datagram for which there was no room.
    Dropped,
    /// A reliable message for which there was no room. It was not queued.
    Full,
}

/// The part of a queue of `limit` bytes that messages of this level may fill.
pub(crate) const fn room_for(level: usize, limit: usize) -> usize {
    if level == 0 { limit } else { limit - limit / RESERVED }
}

const fn class_of(channel: Channel) -> usize {
    match channel {
        Channel::Datagram => 0,
        Channel::Reliable { .. } => 1,
    }
}

impl PriorityQueue {
    /// Queues a message if there is room for it: `limit` bytes for each class.
    pub(crate) fn push(
        &mut self,
        now: Instant,
        channel: Channel,
        delivery: &Delivery,
        message: Bytes,
        limit: usize,
    ) -> Pushed {
        let class = class_of(channel);
        let cost = message.len() + COST;
        if self.bytes[class] + cost > limit {
            return [Pushed::Dropped, Pushed::Full][class];
        }
        self.bytes[class] += cost;
        let level = usize::from(delivery.priority).min(LEVELS - 1);
        let until = delivery.lifetime.map(|life| now + life);
        self.levels[level][class].push_back(QueuedMessage { channel, level, message, until });
        Pushed::Queued
    }

    /// The level of the next message, if there is one. Messages whose lifetime has ended are dropped first.
    pub(crate) fn level(&mut self, now: Instant) -> Option<usize> {
        loop {
            let level = self.levels.iter().position(|level| level.iter().any(|queue| !queue.is_empty()))?;
            let next = self.levels[level].iter().find_map(VecDeque::front)?;
            if next.until.is_none_or(|until| now < until) {
                return Some(level);
            }
            self.pop_from(level);
        }
    }

    /// The length of the next message whose lifetime has not ended.
    pub(crate) fn next_bytes(&mut self, now: Instant) -> Option<usize> {
        let level = self.level(now)?;
        self.levels[level].iter().find_map(VecDeque::front).map(|next| next.message.len())
    }

    /// The next message whose lifetime has not ended.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<QueuedMessage> {
        let level = self.level(now)?;
        self.pop_from(level)
    }

    fn pop_from(&mut self, level: usize) -> Option<QueuedMessage> {
        let next = self.levels[level].iter_mut().find_map(VecDeque::pop_front)?;
        self.bytes[class_of(next.channel)] -= next.message.len() + COST;
        Some(next)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes == [0, 0]
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use roost_wire::Service;

    use super::*;

    const LIMIT: usize = 1 << 20;
    const RELIABLE: Channel = Channel::Reliable { flow: 1 };

    /// The first bytes of the messages in the order in which they leave.
    fn order(waiting: &mut PriorityQueue, now: Instant) -> Vec<u8> {
        std::iter::from_fn(|| waiting.pop(now)).map(|next| next.message[0]).collect()
    }

    #[test]
    fn urgent_first_then_datagrams_then_reliable() {
        let (mut waiting, now) = (PriorityQueue::default(), Instant::now());
        let of = [
            (5, Delivery::for_service(Service::Image)),
            (2, Delivery::for_service(Service::Track)),
            (0, Delivery::CONTROL),
        ];
        for (mark, delivery) in of {
            waiting.push(now, RELIABLE, &delivery, vec![mark; 100].into(), LIMIT);
            waiting.push(now, Channel::Datagram, &delivery, vec![10 + mark; 100].into(), LIMIT);
        }
        assert_eq!(waiting.level(now), Some(0));
        assert_eq!(order(&mut waiting, now), [10, 0, 12, 2, 15, 5]);
        assert!(waiting.is_empty());
    }

    #[test]
    fn expired_message_is_not_sent() {
        let (mut waiting, now) = (PriorityQueue::default(), Instant::now());
        let short = Delivery { lifetime: Some(Duration::from_millis(250)), ..Delivery::CONTROL };
        waiting.push(now, Channel::Datagram, &short, vec![1; 10].into(), LIMIT);
        waiting.push(now, Channel::Datagram, &Delivery::default(), vec![2; 10].into(), LIMIT);
        let later = now + Duration::from_millis(250);
        assert_eq!(waiting.level(later), Some(3));
        assert_eq!(order(&mut waiting, later), [2]);
    }

    #[test]
    fn each_class_has_its_room() {
        let (mut waiting, now) = (PriorityQueue::default(), Instant::now());
        let message = Bytes::from(vec![0; 60]);
        let mut push = |channel| waiting.push(now, channel, &Delivery::default(), message.clone(), 200);
        assert_eq!([push(RELIABLE), push(RELIABLE)], [Pushed::Queued, Pushed::Full]);
        assert_eq!([push(Channel::Datagram), push(Channel::Datagram)], [Pushed::Queued, Pushed::Dropped]);
    }
}
