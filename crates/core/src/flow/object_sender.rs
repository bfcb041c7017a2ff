//! The provider's end of an object.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use roost_wire::messages::{Chunk, FlowMessage};
use roost_wire::{RequestId, Time};

use super::window::Window;
use super::{CHUNK_BYTES, FIRST_CHUNK_BYTES, READ_BYTES};

/// Cuts an object into chunks, as far as the receiver's reports allow.
#[derive(Clone, Debug)]
pub struct ObjectSender {
    id: RequestId,
    length: u64,
    digest: [u8; 32],
    content: Content,
    window: Window,
    sent: u64,
    reported: u64,
    /// True if a chunk has left on this path.
    has_begun: bool,
    end_sent: bool,
    /// The path broke: nothing leaves until a report says where to go on.
    interrupted: bool,
    /// True if it was another flow before, of which more may have come than is known here.
    was_another: bool,
}

#[derive(Clone, Debug)]
enum Content {
    /// Here, and whole.
    Held(Bytes),
    /// With the owner, who reads what is asked for.
    Read(Ahead),
}

/// The bytes that were read and are not sent.
#[derive(Clone, Debug, Default)]
struct Ahead {
    /// From what was sent on.
    chunks: VecDeque<Bytes>,
    bytes: u64,
    /// The offset of the piece that the owner is reading, and its length.
    reading: Option<(u64, u64)>,
}

/// The part of a sender in what it shares with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendBudget {
    /// The limit up to which it may go beyond the last report, whatever the path is like, bytes.
    pub share: u64,
    /// Bytes that all of them together may still send now.
    pub left: u64,
}

impl SendBudget {
    /// Of one that shares with nobody.
    pub const ALL: Self = Self { share: u64::MAX, left: u64::MAX };
}

impl ObjectSender {
    /// The sender of `object`, whose digest is `digest`, as flow `id`.
    pub fn held(id: RequestId, object: Bytes, digest: [u8; 32]) -> Self {
        let length = object.len() as u64;
        Self::from_content(id, length, digest, Content::Held(object))
    }

    /// The sender of an object of `length` bytes that its owner reads piece by
    /// piece, as [`Self::next_read`] asks for it.
    pub fn read(id: RequestId, length: u64, digest: [u8; 32]) -> Self {
        Self::from_content(id, length, digest, Content::Read(Ahead::default()))
    }

    fn from_content(id: RequestId, length: u64, digest: [u8; 32], content: Content) -> Self {
        let window = Window::default();
        Self {
            id,
            length,
            digest,
            content,
            window,
            sent: 0,
            reported: 0,
            has_begun: false,
            end_sent: false,
            interrupted: false,
            was_another: false,
        }
    }

    /// The sender for a receiver that has the first `offset` bytes already.
    #[must_use]
    pub fn starting_at(self, offset: u64) -> Self {
        let offset = offset.min(self.length);
        Self { sent: offset, reported: offset, ..self }
    }

    /// Goes on as another flow, over another path, for a receiver that has the first `offset` bytes, or more that it
    /// will report.
    pub fn go_on_as(&mut self, id: RequestId, offset: u64) {
        self.interrupt();
        self.id = id;
        self.was_another = true;
        self.reported = 0;
        self.sent = offset.min(self.length);
        self.report(Time::ZERO, Duration::ZERO, self.sent);
    }

    /// SHA-256 over all bytes of the object, sent or not.
    pub const fn digest(&self) -> &[u8; 32] {
        &self.digest
    }

    /// The next message that may leave now: a chunk, the end, or nothing.
    pub fn poll(&mut self, now: Time, room: SendBudget) -> Option<FlowMessage> {
        if self.interrupted || self.end_sent {
            return None;
        }
        if self.sent == self.length {
            self.end_sent = true;
            return Some(FlowMessage::End { id: self.id, packets: 0, bytes: self.length, digest: self.digest });
        }
        let (left, whole) = (self.length - self.sent, CHUNK_BYTES as u64);
        let length = if self.has_begun || left <= whole { left.min(whole) } else { FIRST_CHUNK_BYTES as u64 };
        if self.in_flight() + length > self.window.bytes().min(room.share) || length > room.left {
            return None;
        }
        let payload = self.take_payload(length)?;
        let offset = self.sent;
        self.sent += payload.len() as u64;
        self.has_begun = true;
        self.window.sent(now, self.reported, self.sent);
        Some(FlowMessage::Chunk(Chunk { id: self.id, offset, payload }))
    }

    /// The next bytes, at most `length`; `None` if they are not read yet.
    fn take_payload(&mut self, length: u64) -> Option<Bytes> {
        match &mut self.content {
            // Both ends are at most the object's length, which is a `usize`.
            Content::Held(object) => Some(object.slice(self.sent as usize..(self.sent + length) as usize)),
            Content::Read(ahead) => ahead.take_read_ahead(length as usize),
        }
    }

    /// The piece that the owner is to read now: its offset and length. Asked once, and answered by
    /// [`Self::supply`].
    pub fn next_read(&mut self) -> Option<(u64, u64)> {
        let Content::Read(ahead) = &mut self.content else { return None };
        let offset = self.sent + ahead.bytes;
        let is_due = !self.interrupted && ahead.reading.is_none() && ahead.bytes < READ_BYTES;
        if !is_due || offset >= self.length {
            return None;
        }
        ahead.reading = Some((offset, READ_BYTES.min(self.length - offset)));
        ahead.reading
    }

    /// Takes a piece that the owner has read; it may be less than was asked for, and not more.
    pub fn supply(&mut self, offset: u64, bytes: Bytes) {
        let Content::Read(ahead) = &mut self.content else { return };
        if ahead.reading.is_none_or(|(of, length)| of != offset || bytes.len() as u64 > length) {
            return;
        }
        ahead.reading = None;
        // After an interruption it may be of no use any more.
        if offset == self.sent + ahead.bytes && !bytes.is_empty() {
            ahead.bytes += bytes.len() as u64;
            ahead.chunks.push_back(bytes);
        }
    }

    /// The receiver wants what comes after the first `bytes` bytes, and can be
    /// reached within half of `rtt`.
    pub fn report(&mut self, now: Time, rtt: Duration, bytes: u64) {
        let most = if self.was_another { self.length } else { self.sent };
        self.reported = self.reported.max(bytes.min(most));
        self.window.reported(now, rtt, self.reported);
        if self.interrupted || self.reported > self.sent {
            self.interrupted = false;
            self.end_sent = false;
            self.sent = self.reported;
            if let Content::Read(ahead) = &mut self.content {
                *ahead = Ahead { reading: ahead.reading, ..Ahead::default() };
            }
        }
    }

    /// The path broke, so that what is under way may be lost: wait for a report.
    pub fn interrupt(&mut self) {
        self.interrupted = true;
        self.has_begun = false;
        self.window.restart();
    }

    /// True if the receiver has everything.
    pub fn is_done(&self) -> bool {
        self.end_sent && self.reported == self.length
    }

    /// The object's size, bytes.
    pub const fn length(&self) -> u64 {
        self.length
    }

    /// Bytes sent and not reported.
    pub fn in_flight(&self) -> u64 {
        self.sent - self.reported
    }

    /// Bytes of an object that is held in memory whole.
    pub fn held_bytes(&self) -> usize {
        match &self.content {
            Content::Held(object) => object.len(),
            Content::Read(_) => 0,
        }
    }

    /// Payload bytes that the receiver has, as far as is known.
    pub fn delivered(&self) -> u64 {
        self.reported
    }
}

impl Ahead {
    fn take_read_ahead(&mut self, length: usize) -> Option<Bytes> {
        let front = self.chunks.front_mut()?;
        let taken = front.split_to(front.len().min(length));
        if front.is_empty() {
            self.chunks.pop_front();
        }
        self.bytes -= taken.len() as u64;
        Some(taken)
    }
}

#[cfg(test)]
mod tests;
