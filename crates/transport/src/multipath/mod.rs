//! A connection: messages to one peer over one path or several, as a state
//! machine without sockets, clocks or tasks.
//!
//! A path is a connection of its own that carries short streams reliably; it
//! has its own round trip, congestion control and losses. Messages are cut into
//! chunks, small ones are packed together, and each chunk is a stream on the
//! path where it will be through first. What the stream's acknowledgement does
//! not confirm in time goes over another path as well, and the receiver keeps
//! what comes first:
//!
//! - a **chunk** that is late is copied to another path;
//! - a **path** that answers nothing is *suspect*: all that is under way on it
//!   moves at once, nothing new is put on it, and heartbeats find out when it is
//!   back. Idle paths are given heartbeats too, at most 2 % of their rate;
//! - when all paths are suspect, none is: then they are used as they come.
//!
//! All times follow the round trip and the rate that were measured, so that the
//! same rules hold on a wire and over a satellite.
//!
//! The owner tells what happened ([`MultipathConnection::handle_acknowledgement`],
//! [`MultipathConnection::handle_chunk`], paths that come and go) and then drains
//! [`MultipathConnection::poll_action`], [`MultipathConnection::poll_message`] and
//! [`MultipathConnection::poll_event`]; at [`MultipathConnection::deadline`] it calls
//! [`MultipathConnection::handle_timeout`].

mod action;
mod chunk;
mod measures;
mod message_queue;
mod path;
mod receiver;
mod sender;

use std::time::Instant;

use bytes::Bytes;
use roost_proto::DeliveryClass;

pub(crate) use action::{Action, CopyId, PathEvent, PathId, PathView};
pub(crate) use chunk::MAX_CHUNK_BYTES;
pub(crate) use path::PathMetrics;
use receiver::ChunkReceiver;
pub(crate) use receiver::{ChunkViolation, MAX_HELD_BYTES};
use sender::ChunkSender;

/// The most paths of one connection.
pub(crate) const MAX_PATHS: usize = 8;
/// From the oldest message that is not acknowledged to the newest that has
/// been begun: the most bytes, and the most units of transmission.
pub(crate) const WINDOW_BYTES: usize = 8 << 20;
const WINDOW_UNITS: usize = 8 << 10;
/// The most chunks that are under way on a path at once, heartbeats aside.
pub(crate) const MAX_COPIES: usize = 1536;
/// What a message counts beside its bytes, on either side.
const MESSAGE_COST: usize = 128;

/// A message with all that is asked of its way.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) body: Bytes,
    /// Delivered in order with the others of the same flow; alone if none.
    pub(crate) flow: Option<u32>,
    pub(crate) class: DeliveryClass,
    pub(crate) priority: u8,
    /// When it has lost its use.
    pub(crate) deadline: Option<Instant>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct MultipathConnection {
    sender: ChunkSender,
    receiver: ChunkReceiver,
}

impl MultipathConnection {
    /// Without a path yet. At most `queue_bytes` of messages wait to be sent.
    pub(crate) fn new(queue_bytes: usize) -> Self {
        Self { sender: ChunkSender::new(queue_bytes), receiver: ChunkReceiver::default() }
    }

    /// A path can be used from now on. Of all paths that answer, [`DeliveryClass::Backup`]
    /// takes that of the lowest `rank`.
    pub(crate) fn add_path(&mut self, now: Instant, path: PathId, rank: u8, measured: PathMetrics) {
        self.sender.add_path(now, path, rank, measured);
    }

    /// A path is gone, with all that is under way on it.
    pub(crate) fn remove_path(&mut self, now: Instant, path: PathId) {
        self.sender.remove_path(now, path);
    }

    /// Queues a message; `false` if there is no room for it.
    pub(crate) fn send(&mut self, now: Instant, message: Message) -> bool {
        self.sender.send(now, message)
    }

    /// The peer has all of a copy's stream.
    pub(crate) fn handle_acknowledgement(&mut self, now: Instant, copy: CopyId, measured: PathMetrics) {
        self.sender.acknowledged(now, copy, measured);
    }

    /// Takes what a stream of the peer carried, from any path.
    ///
    /// # Errors
    ///
    /// The peer breaks the protocol; the connection must end.
    pub(crate) fn handle_chunk(&mut self, chunk: &Bytes) -> Result<(), ChunkViolation> {
        self.receiver.receive_chunk(chunk)
    }

    /// Does what is due.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        self.sender.handle_timeout(now);
    }

    /// When to call [`Self::handle_timeout`].
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.sender.deadline()
    }

    /// The next thing to do with a path.
    pub(crate) fn poll_action(&mut self) -> Option<Action> {
        self.sender.poll_action()
    }

    /// The next message of the peer.
    pub(crate) fn poll_message(&mut self) -> Option<Bytes> {
        self.receiver.poll()
    }

    /// The next thing that happened to a path.
    pub(crate) fn poll_event(&mut self) -> Option<PathEvent> {
        self.sender.poll_event()
    }

    /// Bytes of the peer's messages that are not whole, or wait for others.
    pub(crate) const fn held(&self) -> usize {
        self.receiver.held_bytes()
    }

    /// Bytes of messages that wait to be sent.
    #[cfg(test)]
    fn queued_bytes(&self) -> usize {
        self.sender.queued_bytes()
    }

    /// Whether the peer has everything.
    pub(crate) fn is_idle(&self) -> bool {
        self.sender.is_idle()
    }

    /// Whether nothing of the peer's is unfinished.
    #[cfg(test)]
    fn is_settled(&self) -> bool {
        self.receiver.is_settled()
    }

    /// Each path as an operator sees it.
    pub(crate) fn paths(&self) -> impl Iterator<Item = PathView> {
        self.sender.paths()
    }

    /// Messages given up because their time was over, and pieces that came twice.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.sender.given_up(), self.receiver.duplicates)
    }
}

#[cfg(test)]
mod tests;
