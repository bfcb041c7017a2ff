//! The sending half of reliable delivery: waiting messages, packets under way, and losses.

mod losses;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::{Duration, Instant};

use bytes::Bytes;
use roost_wire::{Channel, Delivery};

use super::packet::{self, Ack, MessagePart};
use super::recovery::{Pacer, Rtt, Window};
pub(crate) use losses::RemoteSilent;

use crate::priority_queue::{LEVELS, PriorityQueue, Pushed, room_for};

/// The most messages, from the oldest unacknowledged one on, of which packets may be under way. The receiver keeps a
/// window of the same size.
pub(super) const MESSAGE_WINDOW: u32 = 4096;
/// The level whose packets may exceed the window, and the number of packets by which they may, so that they do not even
/// wait for the next acknowledgement.
const URGENT: usize = 0;
const URGENT_PACKETS: usize = 2;
/// Flows remembered besides those that have messages waiting.
const IDLE_FLOWS: usize = 64;

/// The outgoing reliable messages of one connection.
#[derive(Debug)]
pub(super) struct ReliableSender {
    packet_bytes: usize,
    queue_bytes: usize,
    /// The messages of which nothing has been sent.
    waiting: PriorityQueue,
    /// The message that each level is sending, and its next part.
    begun: [Option<(u32, u8)>; LEVELS],
    /// The messages from `base` on, in the order in which they were begun. Acknowledged ones stay until all before them
    /// are acknowledged.
    messages: VecDeque<Outgoing>,
    base: u32,
    /// The number of the last message of each flow.
    flows: HashMap<u32, u32>,
    /// Bytes of the unacknowledged messages among `messages`.
    queued: usize,
    /// The lost parts by level, message and part. On one level the lowest goes first: a part for which the receiver has
    /// no room must not go before one that makes room.
    lost: BTreeSet<(usize, u32, u8)>,
    under_way: BTreeMap<u32, Sent>,
    in_flight: usize,
    next_number: u32,
    largest_acked: Option<u32>,
    pub(super) rtt: Rtt,
    pub(super) window: Window,
    /// `None` if packets leave as soon as the window allows.
    pacer: Option<Pacer>,
    /// The time at which the pacer lets the next packet out, if that is what holds it back.
    paced: Option<Instant>,
    /// The time at which the last packet left, or the last acknowledgement of progress arrived.
    timer_from: Option<Instant>,
    /// The time since which no acknowledgement has arrived although packets were under way.
    silent_since: Option<Instant>,
    failures: u32,
    /// Packets that may leave regardless of window and pacer, to get an acknowledgement.
    probes: u8,
    pub(super) retransmissions: u64,
}

#[derive(Debug)]
struct Outgoing {
    bytes: Bytes,
    /// The message before it in the same flow, if that may be undelivered.
    after: Option<u32>,
    level: usize,
    /// A bit for each part that is not acknowledged.
    missing: u64,
}

#[derive(Debug)]
struct Sent {
    at: Instant,
    message: u32,
    part: u8,
    size: usize,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct QueueFull;

impl ReliableSender {
    pub(super) fn new(packet_bytes: usize, queue_bytes: usize, rtt: Duration, is_paced: bool) -> Self {
        Self {
            packet_bytes,
            queue_bytes,
            waiting: PriorityQueue::default(),
            begun: [None; LEVELS],
            messages: VecDeque::new(),
            base: 0,
            flows: HashMap::new(),
            queued: 0,
            lost: BTreeSet::new(),
            under_way: BTreeMap::new(),
            in_flight: 0,
            next_number: 0,
            largest_acked: None,
            rtt: Rtt::new(rtt),
            window: Window::new(packet_bytes),
            pacer: is_paced.then(Pacer::default),
            paced: None,
            timer_from: None,
            silent_since: None,
            failures: 0,
            probes: 0,
            retransmissions: 0,
        }
    }

    pub(super) fn packets_sent(&self) -> u64 {
        self.next_number.into()
    }

    /// Queues a message if there is room for it.
    pub(super) fn push(
        &mut self,
        now: Instant,
        flow: u32,
        delivery: &Delivery,
        message: Bytes,
    ) -> Result<(), QueueFull> {
        let limit = room_for(delivery.priority.into(), self.queue_bytes).saturating_sub(self.queued);
        match self.waiting.push(now, Channel::Reliable { flow }, delivery, message, limit) {
            Pushed::Queued => Ok(()),
            Pushed::Full | Pushed::Dropped => Err(QueueFull),
        }
    }

    /// Writes the next packet, if one may leave.
    pub(super) fn poll_packet(&mut self, now: Instant, into: &mut Vec<u8>) -> bool {
        self.paced = None;
        let probing = self.probes > 0;
        let fresh = self.fresh_level(now);
        if !probing && !self.take_leave(now, fresh) {
            return false;
        }
        let Some((message, part)) = self.next_part(now, probing, fresh) else {
            self.probes = 0;
            return false;
        };
        self.probes = self.probes.saturating_sub(1);
        self.write_part(now, message, part, probing, into);
        true
    }

    /// The most urgent level with a part that has never been sent.
    fn fresh_level(&mut self, now: Instant) -> Option<usize> {
        let waiting = if self.has_window() { self.waiting.level(now) } else { None };
        let begun = self.begun.iter().position(Option::is_some);
        waiting.into_iter().chain(begun).min()
    }

    /// True if another message may be begun.
    fn has_window(&self) -> bool {
        self.messages.len() < MESSAGE_WINDOW as usize
    }

    /// Returns true if window and pacer let the next packet out. Otherwise notes the pacer's time.
    fn take_leave(&mut self, now: Instant, fresh: Option<usize>) -> bool {
        let lost = self.lost.first().map(|(level, ..)| *level);
        let Some(level) = fresh.into_iter().chain(lost).min() else { return false };
        if level == URGENT {
            return self.window.allows(self.in_flight.saturating_sub(URGENT_PACKETS * self.packet_bytes));
        }
        if !self.window.allows(self.in_flight) {
            return false;
        }
        let pacer = self.pacer.as_mut();
        self.paced = pacer.and_then(|pacer| pacer.wait(now, &self.window, self.rtt.smoothed)).map(|wait| now + wait);
        self.paced.is_none()
    }

    /// The most urgent part. On one level, lost parts go before those never sent. A probe repeats the lowest missing
    /// part, if there is one.
    fn next_part(&mut self, now: Instant, probing: bool, fresh: Option<usize>) -> Option<(u32, u8)> {
        if probing && let Some((level, message, part)) = self.lowest_missing() {
            self.lost.remove(&(level, message, part));
            self.retransmissions += 1;
            return Some((message, part));
        }
        while let Some((level, message, part)) = self.lost.first().copied() {
            if fresh.is_some_and(|fresh| fresh < level) {
                break;
            }
            self.lost.pop_first();
            if self.is_missing(message, part) {
                self.retransmissions += 1;
                return Some((message, part));
            }
        }
        self.cut(now, fresh?)
    }

    fn lowest_missing(&self) -> Option<(usize, u32, u8)> {
        let under_way = self.under_way.values().map(|sent| (sent.message, sent.part));
        let lost = self.lost.iter().map(|(_, message, part)| (*message, *part));
        let (message, part) = under_way.chain(lost).filter(|(message, part)| self.is_missing(*message, *part)).min()?;
        Some((self.outgoing(message)?.level, message, part))
    }

    /// The next part of a level's message, or of the next one that waits.
    fn cut(&mut self, now: Instant, level: usize) -> Option<(u32, u8)> {
        let (message, part) = match self.begun[level] {
            Some(begun) => begun,
            None => (self.begin(now)?, 0),
        };
        let is_last = usize::from(part) + 1 >= self.parts(self.outgoing(message)?);
        self.begun[level] = (!is_last).then_some((message, part + 1));
        Some((message, part))
    }

    /// Assigns a number to the most urgent waiting message.
    fn begin(&mut self, now: Instant) -> Option<u32> {
        let next = self.waiting.pop(now)?;
        let Channel::Reliable { flow } = next.channel else { return None };
        let number = self.base + self.messages.len() as u32;
        let after = self.flows.insert(flow, number).filter(|last| *last >= self.base);
        self.queued += next.message.len();
        let mut outgoing = Outgoing { bytes: next.message, after, level: next.level, missing: 0 };
        outgoing.missing = u64::MAX >> (64 - self.parts(&outgoing));
        self.messages.push_back(outgoing);
        Some(number)
    }

    /// The number of parts of a message.
    fn parts(&self, outgoing: &Outgoing) -> usize {
        outgoing.bytes.len().div_ceil(self.part_bytes()).max(1)
    }

    fn part_bytes(&self) -> usize {
        self.packet_bytes - packet::RELIABLE_HEADER
    }

    /// Writes a part. A probe does not postpone the next one: `unknown` answers can cause probes, and silence must be
    /// noticed nevertheless.
    fn write_part(&mut self, now: Instant, message: u32, part: u8, is_probe: bool, into: &mut Vec<u8>) {
        let Some(outgoing) = self.outgoing(message) else { return };
        let count = self.parts(outgoing);
        let start = usize::from(part) * self.part_bytes();
        let end = (start + self.part_bytes()).min(outgoing.bytes.len());
        let follows = outgoing.after.filter(|after| *after >= self.base).map_or(0, |after| message - after);
        let piece = MessagePart { message, index: part, count: count as u8, bytes: &outgoing.bytes[start..end] };
        // The distance fits, because it is less than the window.
        packet::write_reliable(into, self.next_number, follows as u16, &piece);
        let size = into.len();
        self.under_way.insert(self.next_number, Sent { at: now, message, part, size });
        self.next_number += 1;
        self.in_flight += size;
        if let Some(pacer) = &mut self.pacer {
            pacer.spend(size);
        }
        if !is_probe {
            self.timer_from = Some(now);
        }
        self.silent_since.get_or_insert(now);
    }

    pub(super) fn acknowledge(&mut self, now: Instant, ack: &Ack) {
        let full = !self.window.allows(self.in_flight) || self.has_more();
        let largest = ack.ranges.first().map_or(0, |range| range.1);
        if largest >= self.next_number {
            return;
        }
        let mut newest = None;
        for (first, last) in &ack.ranges {
            while let Some((number, sent)) = self.pop_under_way(*first, *last) {
                self.in_flight -= sent.size;
                self.window.acknowledged(sent.at, sent.size, full);
                self.mark_arrived(sent.message, sent.part);
                newest = newest.max(Some((number, sent.at)));
            }
        }
        let Some((number, at)) = newest else { return };
        if number == largest {
            self.rtt.sample(now.saturating_duration_since(at), ack.delay);
        }
        self.largest_acked = self.largest_acked.max(Some(largest));
        self.failures = 0;
        self.probes = 0;
        self.timer_from = Some(now);
        self.silent_since = (!self.under_way.is_empty()).then_some(now);
        self.advance();
        self.detect_losses(now);
    }

    fn pop_under_way(&mut self, first: u32, last: u32) -> Option<(u32, Sent)> {
        let number = *self.under_way.range(first..=last).next()?.0;
        self.under_way.remove(&number).map(|sent| (number, sent))
    }

    fn mark_arrived(&mut self, message: u32, part: u8) {
        let Some(index) = message.checked_sub(self.base) else { return };
        let Some(outgoing) = self.messages.get_mut(index as usize) else { return };
        outgoing.missing &= !(1 << part);
        if outgoing.missing == 0 {
            self.queued -= outgoing.bytes.len();
            outgoing.bytes = Bytes::new();
        }
    }

    /// Removes the messages that have arrived, up to the first that has not.
    fn advance(&mut self) {
        while self.messages.front().is_some_and(|outgoing| outgoing.missing == 0) {
            self.messages.pop_front();
            self.base += 1;
        }
        if self.messages.is_empty() {
            // Repetitions that are still under way prove nothing any more.
            self.under_way.clear();
            self.lost.clear();
            self.in_flight = 0;
            self.timer_from = None;
            self.silent_since = None;
        }
        if self.flows.len() > IDLE_FLOWS + self.messages.len() {
            let base = self.base;
            self.flows.retain(|_, last| *last >= base);
        }
    }

    /// True if every message has been acknowledged.
    pub(super) fn is_idle(&self) -> bool {
        self.messages.is_empty() && self.waiting.is_empty()
    }

    /// True if a message would leave at once.
    #[cfg(feature = "simulated")]
    pub(super) fn has_room(&self) -> bool {
        self.has_window() && !self.has_more() && self.window.allows(self.in_flight)
    }

    fn has_lost(&self) -> bool {
        !self.lost.is_empty()
    }

    fn has_more(&self) -> bool {
        self.has_lost() || self.begun.iter().any(Option::is_some) || !self.waiting.is_empty()
    }

    fn outgoing(&self, message: u32) -> Option<&Outgoing> {
        self.messages.get(message.checked_sub(self.base)? as usize)
    }

    fn is_missing(&self, message: u32, part: u8) -> bool {
        self.outgoing(message).is_some_and(|outgoing| outgoing.missing & 1 << part != 0)
    }

    /// True if the packet numbers are about to run out.
    pub(super) fn is_exhausted(&self) -> bool {
        self.next_number > u32::MAX - 1_000_000
    }
}
