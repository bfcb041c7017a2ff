//! What waits to be written to a TCP link.

use std::collections::VecDeque;

use bytes::Bytes;
use roost_proto::Channel;

use super::frame::{Frame, HEADER};

/// Bytes that the writer seals in one go, and so the most reliable data that
/// can go before a datagram that comes later.
pub(crate) const WRITE_BATCH: usize = 32 * 1024;

/// Messages on their way to the writer.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    /// Datagram class: goes first.
    urgent: VecDeque<Bytes>,
    reliable: VecDeque<Bytes>,
    urgent_bytes: usize,
    reliable_bytes: usize,
    /// Set once the link is over for the owner; the writer ends with it.
    pub(super) farewell: Option<String>,
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
    pub(crate) fn push(&mut self, channel: Channel, message: Bytes, limit: usize) -> Pushed {
        let cost = message.len() + HEADER;
        match channel {
            Channel::Datagram if self.urgent_bytes + cost > limit => return Pushed::Dropped,
            Channel::Datagram => {
                self.urgent_bytes += cost;
                self.urgent.push_back(message);
            }
            Channel::Reliable { .. } if self.reliable_bytes + cost > limit => return Pushed::Full,
            Channel::Reliable { .. } => {
                self.reliable_bytes += cost;
                self.reliable.push_back(message);
            }
        }
        Pushed::Queued
    }

    /// Moves up to [`WRITE_BATCH`] bytes, or one message, into `bytes`; answers
    /// the farewell when nothing is left before it.
    pub(crate) fn take(&mut self, bytes: &mut Vec<u8>) -> Option<String> {
        while bytes.len() < WRITE_BATCH {
            if let Some(message) = self.urgent.pop_front() {
                self.urgent_bytes -= message.len() + HEADER;
                Frame::Message(message).write(bytes);
            } else if let Some(message) = self.reliable.pop_front() {
                self.reliable_bytes -= message.len() + HEADER;
                Frame::Message(message).write(bytes);
            } else {
                return self.farewell.clone();
            }
        }
        None
    }

    /// Whether nothing waits.
    #[cfg(feature = "simulated")]
    pub(crate) fn is_empty(&self) -> bool {
        self.urgent.is_empty() && self.reliable.is_empty()
    }
}
