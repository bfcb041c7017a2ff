//! A multipath connection: messages to one remote over one path or several, as a state machine without sockets, clocks
//! or tasks.
//!
//! A path is a QUIC connection of its own that carries short streams reliably. It has its own round trip, congestion
//! control and losses. Messages are cut into chunks, small ones are packed together, and each chunk is a stream on the
//! path where it will arrive first. A chunk that is not acknowledged in time goes over another path as well, and the
//! receiver keeps the copy that arrives first:
//!
//! - a **chunk** that is late is copied to another path;
//! - a **path** that answers nothing is *suspect*: all chunks under way on it move at once, no new ones use it, and
//!   heartbeats find out when it answers again. Idle paths get heartbeats too, at most 2 % of their rate;
//! - when all paths are suspect, they are all used as if none were.
//!
//! All times follow the measured round trip and rate, so that the same rules hold on a cable and over a satellite.
//!
//! The driver reports acknowledgements ([`MultipathConnection::handle_acknowledgement`]), chunks
//! ([`MultipathConnection::handle_chunk`]) and paths that come and go. Then it drains
//! [`MultipathConnection::poll_action`], [`MultipathConnection::poll_message`] and [`MultipathConnection::poll_event`].
//! At [`MultipathConnection::deadline`] it calls [`MultipathConnection::handle_timeout`].

mod action;
mod chunk;
mod measures;
mod message_queue;
mod path;
mod receiver;
mod sender;

use std::time::Instant;

use bytes::Bytes;
use roost_wire::DeliveryClass;

pub(crate) use action::{Action, CopyId, PathEvent, PathId, PathView};
pub(crate) use chunk::MAX_CHUNK_BYTES;
pub(crate) use path::PathMetrics;
use receiver::ChunkReceiver;
pub(crate) use receiver::{ChunkViolation, MAX_HELD_BYTES};
use sender::ChunkSender;

pub(crate) const MAX_PATHS: usize = 8;
/// The send window, from the oldest message that is not acknowledged to the newest that is begun: the most bytes, and
/// the most units.
pub(crate) const WINDOW_BYTES: usize = 8 << 20;
const WINDOW_UNITS: usize = 8 << 10;
/// The most chunks under way on a path at once, not counting heartbeats.
pub(crate) const MAX_COPIES: usize = 1536;
/// Bytes that a message counts besides its content, on either side.
const MESSAGE_COST: usize = 128;

/// A message with its flow, delivery class, priority and deadline.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) body: Bytes,
    /// Messages of the same flow are delivered in order. Without a flow a message waits for no other.
    pub(crate) flow: Option<u32>,
    pub(crate) class: DeliveryClass,
    pub(crate) priority: u8,
    /// The end of the message's lifetime, after which it is given up.
    pub(crate) deadline: Option<Instant>,
}

#[derive(Debug)]
pub(crate) struct MultipathConnection {
    sender: ChunkSender,
    receiver: ChunkReceiver,
}

impl MultipathConnection {
    /// A connection without paths. At most `queue_bytes` of messages wait to be sent.
    pub(crate) fn new(queue_bytes: usize) -> Self {
        Self { sender: ChunkSender::new(queue_bytes), receiver: ChunkReceiver::default() }
    }

    /// Adds a path. Of all paths that answer, [`DeliveryClass::Backup`] uses the one with the lowest `rank`.
    pub(crate) fn add_path(&mut self, now: Instant, path: PathId, rank: u8, measured: PathMetrics) {
        self.sender.add_path(now, path, rank, measured);
    }

    /// Removes a path, with all chunks under way on it.
    pub(crate) fn remove_path(&mut self, now: Instant, path: PathId) {
        self.sender.remove_path(now, path);
    }

    /// Queues a message; `false` if there is no room for it.
    pub(crate) fn send(&mut self, now: Instant, message: Message) -> bool {
        self.sender.send(now, message)
    }

    /// The remote has received the whole stream of a copy.
    pub(crate) fn handle_acknowledgement(&mut self, now: Instant, copy: CopyId, measured: PathMetrics) {
        self.sender.acknowledged(now, copy, measured);
    }

    /// Handles the content of a stream from the remote, on any path.
    ///
    /// # Errors
    ///
    /// The remote breaks the protocol; the connection must end.
    pub(crate) fn handle_chunk(&mut self, chunk: &Bytes) -> Result<(), ChunkViolation> {
        self.receiver.receive_chunk(chunk)
    }

    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        self.sender.handle_timeout(now);
    }

    /// The time at which [`Self::handle_timeout`] must be called.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.sender.deadline()
    }

    pub(crate) fn poll_action(&mut self) -> Option<Action> {
        self.sender.poll_action()
    }

    /// The next message from the remote, in order within its flow.
    pub(crate) fn poll_message(&mut self) -> Option<Bytes> {
        self.receiver.poll()
    }

    pub(crate) fn poll_event(&mut self) -> Option<PathEvent> {
        self.sender.poll_event()
    }

    /// Bytes of the remote's messages that are incomplete or wait for others.
    pub(crate) const fn held(&self) -> usize {
        self.receiver.held_bytes()
    }

    #[cfg(test)]
    fn queued_bytes(&self) -> usize {
        self.sender.queued_bytes()
    }

    /// True if the remote has acknowledged everything.
    pub(crate) fn is_idle(&self) -> bool {
        self.sender.is_idle()
    }

    /// True if no message of the remote is incomplete or waits.
    #[cfg(test)]
    fn is_settled(&self) -> bool {
        self.receiver.is_settled()
    }

    pub(crate) fn paths(&self) -> impl Iterator<Item = PathView> {
        self.sender.paths()
    }

    /// Messages given up because their lifetime had ended, and frames that arrived twice.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.sender.given_up(), self.receiver.duplicates)
    }
}

#[cfg(test)]
mod tests;
