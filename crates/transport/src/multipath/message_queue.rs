//! The messages that wait to be sent, and the cutting of messages into chunks.
//!
//! A *unit* is acknowledged or given up as a whole: one message, in one chunk or several, or some small messages packed
//! into a chunk.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::Instant;

use bytes::Bytes;

use super::chunk::{CHUNK_BYTES, HEAD_BYTES, MessageOrder, PIECES, write_given_up, write_head};
use super::{DeliveryClass, MESSAGE_COST, Message, WINDOW_BYTES, WINDOW_UNITS};
use crate::priority_queue::room_for;

pub(super) const LEVELS: usize = 8;
/// Flows remembered besides those that may have messages under way.
const IDLE_FLOWS: usize = 1024;

/// A part of a unit, the size of a stream.
#[derive(Clone, Debug)]
pub(super) struct Chunk {
    /// The head, and a slice of the message that needs no copy.
    pub(super) content: [Bytes; 2],
    pub(super) unit: u64,
    pub(super) class: DeliveryClass,
    pub(super) priority: u8,
}

impl Chunk {
    pub(super) fn bytes(&self) -> usize {
        self.content.iter().map(Bytes::len).sum()
    }
}

/// The next chunk, before it is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Next {
    pub(super) level: usize,
    pub(super) class: DeliveryClass,
    /// An estimate of the size, which packing may increase.
    pub(super) bytes: usize,
}

#[derive(Debug)]
pub(super) struct MessageQueue {
    queues: [LevelQueue; LEVELS],
    /// Waiting bytes of messages with a flow, and of those without. The latter may be lost and must not keep out the
    /// former.
    queued: [usize; 2],
    /// The limit for each of the two in `queued`.
    max_bytes: usize,
    next: u64,
    /// The number of the last message of each flow.
    flows: HashMap<u32, u64>,
    /// The units that are not acknowledged, by the number of their first message.
    units: BTreeMap<u64, Unit>,
    expiring: BTreeSet<(Instant, u64)>,
    /// The total cost of all messages begun so far.
    begun_bytes: u64,
    /// Messages given up because their lifetime had ended.
    pub(super) given_up: u64,
}

/// The messages that wait at one level of priority.
#[derive(Debug, Default)]
struct LevelQueue {
    waiting: VecDeque<PendingMessage>,
    bytes: usize,
}

impl LevelQueue {
    fn front(&self) -> Option<&PendingMessage> {
        self.waiting.front()
    }
}

#[derive(Debug)]
struct PendingMessage {
    message: Message,
    /// The message's order and the number of bytes already cut off. `None` until the first cut.
    begun: Option<(MessageOrder, usize)>,
}

#[derive(Debug)]
struct Unit {
    /// The value of [`MessageQueue::begun_bytes`] before this unit.
    begins: u64,
    orders: Vec<MessageOrder>,
    /// The number of chunks that are not acknowledged.
    chunks: usize,
    /// True while more chunks are to be cut from it.
    is_open: bool,
    deadline: Option<Instant>,
    priority: u8,
}

impl MessageQueue {
    pub(super) fn new(max_bytes: usize) -> Self {
        Self {
            queues: Default::default(),
            queued: [0; 2],
            max_bytes,
            next: 0,
            flows: HashMap::new(),
            units: BTreeMap::new(),
            expiring: BTreeSet::new(),
            begun_bytes: 0,
            given_up: 0,
        }
    }

    /// Queues a message; `false` if there is no room for it.
    pub(super) fn push(&mut self, now: Instant, message: Message) -> bool {
        let level = usize::from(message.priority).min(LEVELS - 1);
        let most = room_for(level, self.max_bytes);
        let (kind, cost) = (kind(&message), cost(&message));
        if self.queued[kind] + cost > most {
            self.drop_expired(now);
        }
        let has_room = self.queued[kind] + cost <= most;
        if has_room {
            self.queued[kind] += cost;
            self.queues[level].bytes += cost;
            self.queues[level].waiting.push_back(PendingMessage { message, begun: None });
        }
        has_room
    }

    fn drop_expired(&mut self, now: Instant) {
        for queue in &mut self.queues {
            let before = queue.waiting.len();
            let (bytes, queued) = (&mut queue.bytes, &mut self.queued);
            queue.waiting.retain(|waiting| {
                let message = &waiting.message;
                let stays = waiting.begun.is_some() || message.deadline.is_none_or(|deadline| deadline > now);
                if !stays {
                    *bytes -= cost(message);
                    queued[kind(message)] -= cost(message);
                }
                stays
            });
            self.given_up += (before - queue.waiting.len()) as u64;
        }
    }

    /// The next chunk of this level or of less urgent ones. `None` if nothing waits or too much is under way.
    pub(super) fn peek(&mut self, now: Instant, from: usize) -> Option<Next> {
        loop {
            let level = self.level(from)?;
            let PendingMessage { message, begun } = self.queues[level].front()?;
            if begun.is_none() && message.deadline.is_some_and(|deadline| deadline <= now) {
                self.given_up += 1;
                self.pop(level);
                continue;
            }
            let cut = begun.map_or(0, |(_, offset)| offset);
            let bytes = HEAD_BYTES + (message.body.len() - cut).min(CHUNK_BYTES);
            return Some(Next { level, class: message.class, bytes });
        }
    }

    /// True if the waiting messages fill a chunk, or if the first one is begun. Waiting would not make the next chunk
    /// larger then.
    pub(super) fn has_chunk(&self) -> bool {
        let front = self.level(0).and_then(|level| self.queues[level].front());
        self.queued.iter().sum::<usize>() >= CHUNK_BYTES || front.is_some_and(|waiting| waiting.begun.is_some())
    }

    /// Bytes that wait at this level and at more urgent ones.
    pub(super) fn ahead(&self, level: usize) -> usize {
        self.queues[..=level].iter().map(|queue| queue.bytes).sum()
    }

    /// The most urgent level from `from` on whose first message may go. A message that is begun always may: the window
    /// may be full because its rest is missing.
    fn level(&self, from: usize) -> Option<usize> {
        let has_window = self.has_window();
        let may_go = |queue: &LevelQueue| queue.front().is_some_and(|front| has_window || front.begun.is_some());
        (from..LEVELS).find(|level| may_go(&self.queues[*level]))
    }

    /// True if another message may be begun. The receiver must be able to hold all messages that cannot be delivered
    /// before the oldest.
    fn has_window(&self) -> bool {
        self.units.first_key_value().is_none_or(|(_, oldest)| {
            self.units.len() < WINDOW_UNITS && self.begun_bytes - oldest.begins < WINDOW_BYTES as u64
        })
    }

    /// Cuts the next chunk off the messages that wait at a level.
    pub(super) fn cut(&mut self, level: usize) -> Option<Chunk> {
        let first = self.queues[level].front()?;
        if first.begun.is_some() || first.message.body.len() + HEAD_BYTES > CHUNK_BYTES {
            self.cut_large(level)
        } else {
            self.pack(level)
        }
    }

    /// Cuts a chunk off a message that is too large for one chunk.
    fn cut_large(&mut self, level: usize) -> Option<Chunk> {
        let waiting = self.queues[level].front()?;
        let (place, offset) = match waiting.begun {
            Some(begun) => begun,
            None => (self.begin(level)?, 0),
        };
        let queue = &mut self.queues[level];
        let waiting = queue.waiting.front_mut()?;
        let Message { body, class, priority, .. } = &waiting.message;
        let end = body.len().min(offset + CHUNK_BYTES);
        let mut head = vec![PIECES];
        write_head(&mut head, place, body.len(), offset, end - offset);
        let content = [head.into(), body.slice(offset..end)];
        let chunk = Chunk { content, unit: place.number, class: *class, priority: *priority };
        let is_open = end < body.len();
        waiting.begun = Some((place, end));
        queue.bytes -= end - offset;
        self.queued[kind(&waiting.message)] -= end - offset;
        if let Some(unit) = self.units.get_mut(&place.number) {
            unit.chunks += 1;
            unit.is_open = is_open;
        }
        if !is_open {
            self.pop(level);
        }
        Some(chunk)
    }

    /// Begins a unit with the message in front.
    fn begin(&mut self, level: usize) -> Option<MessageOrder> {
        let message = &self.queues[level].front()?.message;
        let Message { flow, priority, deadline, .. } = *message;
        let cost = cost(message) as u64;
        let place = self.next_order(flow);
        let unit = Unit { begins: self.begun_bytes, orders: vec![place], chunks: 0, is_open: true, deadline, priority };
        self.begun_bytes += cost;
        self.expiring.extend(deadline.map(|at| (at, place.number)));
        self.units.insert(place.number, unit);
        Some(place)
    }

    /// Assigns the next number, and the distance to the last message of the flow.
    fn next_order(&mut self, flow: Option<u32>) -> MessageOrder {
        let number = self.next;
        self.next += 1;
        let before = flow.and_then(|flow| self.flows.insert(flow, number));
        if self.flows.len() > IDLE_FLOWS + 2 * WINDOW_UNITS {
            // An acknowledged message may not be delivered yet, but one this far back is.
            let oldest = self.units.first_key_value().map_or(number, |(oldest, _)| *oldest);
            self.flows.retain(|_, last| *last + WINDOW_UNITS as u64 >= oldest);
        }
        MessageOrder { number, distance: before.map_or(0, |before| number - before) }
    }

    /// Packs as many of the small messages in front as fit into a chunk, if they have the same class. If they have
    /// deadlines, the latest one counts.
    fn pack(&mut self, level: usize) -> Option<Chunk> {
        let first = self.queues[level].front()?.message.clone();
        let place = self.begin(level)?;
        let mut places = vec![place];
        let mut deadline = first.deadline;
        let mut packed = vec![PIECES];
        write_head(&mut packed, place, first.body.len(), 0, first.body.len());
        self.pop(level);
        let mut tail = first.body.clone();
        while let Some(next) = self.queues[level].front().map(|waiting| waiting.message.clone()) {
            let fits = packed.len() + tail.len() + next.body.len() + HEAD_BYTES <= CHUNK_BYTES;
            if !fits || next.class != first.class || next.deadline.is_some() != deadline.is_some() {
                break;
            }
            packed.extend_from_slice(&tail);
            let place = self.next_order(next.flow);
            places.push(place);
            write_head(&mut packed, place, next.body.len(), 0, next.body.len());
            deadline = deadline.max(next.deadline);
            self.begun_bytes += cost(&next) as u64;
            self.pop(level);
            tail = next.body;
        }
        self.close_pack(place.number, places, deadline);
        Some(Chunk { content: [packed.into(), tail], unit: place.number, class: first.class, priority: first.priority })
    }

    /// Removes the first message of a level, or the rest of it.
    fn pop(&mut self, level: usize) {
        let queue = &mut self.queues[level];
        let Some(PendingMessage { message, begun }) = queue.waiting.pop_front() else { return };
        let left = cost(&message) - begun.map_or(0, |(_, cut)| cut);
        queue.bytes -= left;
        self.queued[kind(&message)] -= left;
    }

    fn close_pack(&mut self, number: u64, places: Vec<MessageOrder>, deadline: Option<Instant>) {
        let Some(unit) = self.units.get_mut(&number) else { return };
        if let Some(first) = unit.deadline {
            self.expiring.remove(&(first, number));
        }
        self.expiring.extend(deadline.map(|at| (at, number)));
        *unit = Unit { orders: places, deadline, chunks: 1, is_open: false, ..*unit };
    }

    /// Notes that a chunk of the unit has been acknowledged.
    pub(super) fn acknowledged(&mut self, number: u64) {
        let Some(unit) = self.units.get_mut(&number) else { return };
        unit.chunks -= 1;
        if unit.chunks == 0 && !unit.is_open {
            if let Some(deadline) = unit.deadline {
                self.expiring.remove(&(deadline, number));
            }
            self.units.remove(&number);
        }
    }

    /// Gives up the next unit whose deadline has passed. Returns the chunk that tells the receiver.
    pub(super) fn expire(&mut self, now: Instant) -> Option<Chunk> {
        let (_, number) = self.expiring.first().copied().filter(|(at, _)| *at <= now)?;
        self.expiring.pop_first();
        let unit = self.units.get_mut(&number)?;
        self.given_up += unit.orders.len() as u64;
        (unit.chunks, unit.is_open, unit.deadline) = (1, false, None);
        let mut told = vec![PIECES];
        unit.orders.iter().for_each(|place| write_given_up(&mut told, *place));
        let priority = unit.priority;
        let is_rest = |queue: &LevelQueue| {
            let begun = queue.front().and_then(|front| front.begun);
            begun.is_some_and(|(place, _)| place.number == number)
        };
        if let Some(level) = self.queues.iter().position(is_rest) {
            self.pop(level);
        }
        Some(Chunk { content: [told.into(), Bytes::new()], unit: number, class: DeliveryClass::Duplicate, priority })
    }

    pub(super) fn next_expiry(&self) -> Option<Instant> {
        self.expiring.first().map(|(at, _)| *at)
    }

    #[cfg(test)]
    pub(super) fn queued_bytes(&self) -> usize {
        self.queued.iter().sum()
    }

    /// True if every message has been acknowledged.
    pub(super) fn is_idle(&self) -> bool {
        self.units.is_empty() && self.queues.iter().all(|queue| queue.waiting.is_empty())
    }
}

/// The index of a message in [`MessageQueue::queued`].
const fn kind(message: &Message) -> usize {
    message.flow.is_none() as usize
}

/// The bytes that a message counts in the queue, and in the receiver's memory.
fn cost(message: &Message) -> usize {
    message.body.len() + MESSAGE_COST
}
