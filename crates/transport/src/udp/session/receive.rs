//! The receiving half of reliable delivery: each message once, in order within its flow.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::fragments::{Assembly, PART_COST};
use super::packet::{Ack, MAX_RANGES, MessagePart, PacketViolation};
use super::recovery::MAX_ACK_DELAY;
use super::send::MESSAGE_WINDOW;

/// The most memory for incomplete or early messages in one connection, bytes. Packets beyond it are dropped without
/// acknowledgement, except for those of the message that all others wait for.
const MAX_BYTES: usize = 1 << 20;
/// The shortest time after the last packet until the sender is reminded of an incomplete message, also in round trips.
/// It doubles after each reminder, up to this number.
const MISSED: Duration = Duration::from_millis(500);
const MISSED_ROUND_TRIPS: u32 = 4;
const REMINDERS: u32 = 5;
/// Packets that may arrive before an acknowledgement leaves at once.
const ACK_EVERY: u32 = 2;

/// The incoming reliable messages of one connection.
#[derive(Debug, Default)]
pub(super) struct ReliableReceiver {
    arrived: PacketRanges,
    unacked: u32,
    ack_now: bool,
    /// The time at which the largest packet arrived, until it is acknowledged.
    largest_at: Option<Instant>,
    ack_at: Option<Instant>,
    /// The time of the next reminder: an acknowledgement that is repeated because a message is incomplete, and the
    /// sender may not know our address any more.
    remind_at: Option<Instant>,
    reminders: u32,
    /// Every message below it has been delivered.
    base: u32,
    slots: VecDeque<MessageSlot>,
    /// The complete message that waits for each message.
    waiting: HashMap<u32, u32>,
    /// The memory of incomplete and early messages, in bytes.
    held: usize,
}

#[derive(Debug, Default)]
enum MessageSlot {
    #[default]
    Unseen,
    Incomplete(Assembly),
    Complete(Bytes),
    Delivered,
}

impl MessageSlot {
    /// Adds a part. Returns the message if it is complete now, and removes it from the slot.
    fn insert(&mut self, part: &MessagePart<'_>) -> Result<Option<Bytes>, PacketViolation> {
        match self {
            Self::Complete(_) | Self::Delivered => return Ok(None),
            Self::Unseen if part.count == 1 => return Ok(Some(Bytes::copy_from_slice(part.bytes))),
            Self::Unseen => *self = Self::Incomplete(Assembly::new(part.message, part.count)),
            Self::Incomplete(_) => {}
        }
        let Self::Incomplete(assembly) = self else { return Ok(None) };
        if !assembly.insert(part)? {
            return Ok(None);
        }
        match std::mem::take(self) {
            Self::Incomplete(assembly) => Ok(Some(assembly.join())),
            _ => Ok(None),
        }
    }

    /// The memory of the slot's message, in bytes.
    fn held(&self) -> usize {
        match self {
            Self::Unseen | Self::Delivered => 0,
            Self::Incomplete(assembly) => assembly.held(),
            Self::Complete(message) => message.len() + PART_COST,
        }
    }
}

impl ReliableReceiver {
    /// Handles a reliable packet, and delivers the messages that it allows.
    pub(super) fn insert(
        &mut self,
        now: Instant,
        rtt: Duration,
        number: u32,
        follows: u16,
        part: &MessagePart<'_>,
        deliver: &mut impl FnMut(Bytes),
    ) -> Result<(), PacketViolation> {
        let known = part.message < self.base;
        if !known && part.message - self.base >= MESSAGE_WINDOW {
            return Err(PacketViolation("a message beyond the window"));
        }
        if u32::from(follows) > part.message {
            return Err(PacketViolation("a message that follows none"));
        }
        if !known && self.held + part.bytes.len() > MAX_BYTES && self.must_wait(u32::from(follows), part) {
            return Ok(());
        }
        self.note_arrival(now, number);
        if !known {
            self.insert_part(u32::from(follows), part, deliver)?;
        }
        self.expect_more(now, rtt);
        Ok(())
    }

    /// True if a part would have to be held. The message that all others wait for makes room, and a complete message
    /// that follows none takes none.
    fn must_wait(&self, follows: u32, part: &MessagePart<'_>) -> bool {
        let is_next = part.count == 1 && (follows == 0 || self.is_delivered(part.message - follows));
        part.message != self.base && !is_next
    }

    fn note_arrival(&mut self, now: Instant, number: u32) {
        let in_order = self.arrived.largest().is_none_or(|largest| number.checked_sub(1) == Some(largest));
        if self.arrived.largest().is_none_or(|largest| number > largest) {
            self.largest_at = Some(now);
        }
        self.arrived.insert(number);
        self.unacked += 1;
        self.ack_now |= !in_order || self.unacked >= ACK_EVERY;
        self.ack_at.get_or_insert(now + MAX_ACK_DELAY);
    }

    /// Sets the time of the first reminder after a packet.
    fn expect_more(&mut self, now: Instant, rtt: Duration) {
        self.reminders = 0;
        self.remind_at = (self.held > 0).then(|| now + MISSED.max(MISSED_ROUND_TRIPS * rtt));
    }

    /// True if a reminder is due, and schedules the next one.
    fn reminder_is_due(&mut self, now: Instant, rtt: Duration) -> bool {
        let is_due = self.remind_at.is_some_and(|at| at <= now);
        if is_due {
            self.reminders += 1;
            let again = MISSED.max(MISSED_ROUND_TRIPS * rtt) * (1 << self.reminders);
            self.remind_at = (self.reminders < REMINDERS).then_some(now + again);
        }
        is_due
    }

    fn insert_part(
        &mut self,
        follows: u32,
        part: &MessagePart<'_>,
        deliver: &mut impl FnMut(Bytes),
    ) -> Result<(), PacketViolation> {
        let index = (part.message - self.base) as usize;
        if self.slots.len() <= index {
            self.slots.resize_with(index + 1, MessageSlot::default);
        }
        let Some(slot) = self.slots.get_mut(index) else { return Ok(()) };
        let before = slot.held();
        let whole = slot.insert(part)?;
        self.held = self.held - before + slot.held();
        if let Some(whole) = whole {
            self.complete(part.message, follows, whole, deliver);
        }
        Ok(())
    }

    /// Delivers a complete message and those that waited for it, or makes it wait.
    fn complete(&mut self, message: u32, follows: u32, whole: Bytes, deliver: &mut impl FnMut(Bytes)) {
        let index = (message - self.base) as usize;
        let after = message - follows;
        if follows != 0 && !self.is_delivered(after) {
            self.waiting.insert(after, message);
            let slot = MessageSlot::Complete(whole);
            self.held += slot.held();
            self.slots[index] = slot;
            return;
        }
        self.slots[index] = MessageSlot::Delivered;
        deliver(whole);
        let mut last = message;
        while let Some(next) = self.waiting.remove(&last) {
            let slot = &mut self.slots[(next - self.base) as usize];
            self.held -= slot.held();
            if let MessageSlot::Complete(bytes) = std::mem::replace(slot, MessageSlot::Delivered) {
                deliver(bytes);
            }
            last = next;
        }
        while matches!(self.slots.front(), Some(MessageSlot::Delivered)) {
            self.slots.pop_front();
            self.base += 1;
        }
    }

    fn is_delivered(&self, message: u32) -> bool {
        message
            .checked_sub(self.base)
            .is_none_or(|index| matches!(self.slots.get(index as usize), Some(MessageSlot::Delivered)))
    }

    /// The acknowledgement that is due, if one is.
    pub(super) fn poll_ack(&mut self, now: Instant, rtt: Duration) -> Option<Ack> {
        let due = self.unacked > 0 && (self.ack_now || self.ack_at.is_some_and(|at| at <= now));
        if !due && !self.reminder_is_due(now, rtt) {
            return None;
        }
        self.unacked = 0;
        self.ack_now = false;
        self.ack_at = None;
        let delay = self.largest_at.take().map(|at| now.saturating_duration_since(at)).unwrap_or_default();
        Some(Ack { delay, ranges: self.arrived.newest_first() })
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.ack_at.into_iter().chain(self.remind_at).min()
    }

    /// The memory of messages that are not delivered yet, in bytes.
    pub(super) fn held(&self) -> usize {
        self.held
    }
}

/// The numbers of packets that have arrived: the newest [`MAX_RANGES`] ranges of them.
#[derive(Debug, Default)]
struct PacketRanges(VecDeque<(u32, u32)>);

impl PacketRanges {
    fn largest(&self) -> Option<u32> {
        self.0.back().map(|range| range.1)
    }

    fn insert(&mut self, number: u32) {
        let at = self.0.partition_point(|range| range.1 < number);
        if self.0.get(at).is_some_and(|range| range.0 <= number) {
            return;
        }
        let joins_before = at > 0 && self.0[at - 1].1 + 1 == number;
        let joins_after = self.0.get(at).is_some_and(|range| range.0 == number + 1);
        match (joins_before, joins_after) {
            (true, true) => {
                self.0[at - 1].1 = self.0[at].1;
                self.0.remove(at);
            }
            (true, false) => self.0[at - 1].1 = number,
            (false, true) => self.0[at].0 = number,
            (false, false) => self.0.insert(at, (number, number)),
        }
        if self.0.len() > MAX_RANGES {
            self.0.pop_front();
        }
    }

    fn newest_first(&self) -> Vec<(u32, u32)> {
        self.0.iter().rev().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(10);

    #[test]
    fn runs_of_numbers_merge() {
        let mut ranges = PacketRanges::default();
        for number in [5, 1, 3, 2, 9, 4, 4] {
            ranges.insert(number);
        }
        assert_eq!(ranges.newest_first(), [(9, 9), (1, 5)]);
    }

    #[test]
    fn message_waits_for_predecessor() {
        let (mut receiver, now) = (ReliableReceiver::default(), Instant::now());
        let part = |message, bytes| MessagePart { message, index: 0, count: 1, bytes };
        let mut delivered = Vec::new();
        let mut deliver = |message: Bytes| delivered.push(message);
        receiver.insert(now, RTT, 2, 1, &part(2, b"third"), &mut deliver).unwrap();
        receiver.insert(now, RTT, 3, 0, &part(3, b"other flow"), &mut deliver).unwrap();
        receiver.insert(now, RTT, 1, 1, &part(1, b"second"), &mut deliver).unwrap();
        receiver.insert(now, RTT, 0, 0, &part(0, b"first"), &mut deliver).unwrap();
        assert_eq!(delivered, ["other flow", "first", "second", "third"]);
        assert_eq!(receiver.held(), 0);
    }

    #[test]
    fn reminders_back_off_and_end() {
        let (mut receiver, mut now) = (ReliableReceiver::default(), Instant::now());
        let part = |index| MessagePart { message: 0, index, count: 3, bytes: b"part" };
        receiver.insert(now, RTT, 0, 0, &part(0), &mut |_| ()).unwrap();
        let mut pauses = Vec::new();
        while let Some(at) = receiver.deadline() {
            assert_eq!(receiver.poll_ack(at, RTT).unwrap().ranges, [(0, 0)]);
            pauses.push((at - now).as_millis());
            now = at;
        }
        assert_eq!(pauses, [5, 495, 1000, 2000, 4000, 8000]);
        receiver.insert(now, RTT, 1, 0, &part(1), &mut |_| ()).unwrap();
        receiver.poll_ack(now + MAX_ACK_DELAY, RTT).unwrap();
        assert_eq!(receiver.deadline(), Some(now + MISSED));
        receiver.insert(now, RTT, 2, 0, &part(2), &mut |_| ()).unwrap();
        receiver.poll_ack(now + MAX_ACK_DELAY, RTT).unwrap();
        assert_eq!(receiver.deadline(), None);
    }

    #[test]
    fn maximum_packet_number_is_safe() {
        let (mut receiver, now) = (ReliableReceiver::default(), Instant::now());
        for (message, number) in [(0, u32::MAX), (1, 0), (2, u32::MAX)] {
            let part = MessagePart { message, index: 0, count: 1, bytes: b"" };
            receiver.insert(now, RTT, number, 0, &part, &mut |_| ()).unwrap();
        }
        assert_eq!(receiver.poll_ack(now, RTT).unwrap().ranges, [(u32::MAX, u32::MAX), (0, 0)]);
    }

    #[test]
    fn incomplete_messages_are_bounded() {
        let (mut receiver, now) = (ReliableReceiver::default(), Instant::now());
        for message in 1..MESSAGE_WINDOW {
            let part = MessagePart { message, index: 0, count: 64, bytes: b"" };
            receiver.insert(now, RTT, message, 0, &part, &mut |_| ()).unwrap();
        }
        let started = receiver.slots.iter().filter(|slot| matches!(slot, MessageSlot::Incomplete(_))).count();
        assert!(started * 64 * size_of::<Option<Bytes>>() <= MAX_BYTES, "{started}");
    }

    #[test]
    fn oversized_message_is_a_violation() {
        let (mut receiver, now, half) = (ReliableReceiver::default(), Instant::now(), vec![0; 40_000]);
        let part = |index| MessagePart { message: 0, index, count: 2, bytes: &half };
        receiver.insert(now, RTT, 0, 0, &part(0), &mut |_| ()).unwrap();
        assert!(receiver.insert(now, RTT, 1, 0, &part(1), &mut |_| panic!("delivered")).is_err());
    }

    #[test]
    fn message_beyond_window_is_violation() {
        let mut receiver = ReliableReceiver::default();
        let part = MessagePart { message: MESSAGE_WINDOW, index: 0, count: 1, bytes: b"" };
        assert!(receiver.insert(Instant::now(), RTT, 0, 0, &part, &mut |_| ()).is_err());
    }
}
