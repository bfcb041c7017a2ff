//! The replies that wait for a slow reader, and their limits.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use roost_wire::room::RoomMember;

use super::{Purpose, Reply};

/// The most bytes of a stream that wait for a slow reader of the API, about eleven seconds of video. More are dropped
/// and counted.
///
/// An object is never dropped: its provider waits for the reader. The bytes on their way meanwhile, at most
/// [`roost_core::flow::MAX_WINDOW_BYTES`], are kept, with those of all others no more than [`MAX_OBJECTS_BYTES`].
pub(super) const MAX_STREAM_QUEUE_BYTES: usize = 1 << 20;

/// The most bytes of all objects together that wait for slow readers of the API. A transfer that would go beyond it
/// ends as busy.
pub(super) const MAX_OBJECTS_BYTES: usize = 256 << 20;

/// The most changes that wait for a slow reader of a watch. More are dropped, which the reader sees from the numbers.
const MAX_WATCH_QUEUE: usize = 256;

/// The replies that wait between the machine and a reader, and those dropped.
#[derive(Debug)]
pub(super) struct Backlog {
    bytes: AtomicUsize,
    changes: AtomicUsize,
    /// The latest list of a room, while one waits to be read.
    roster: Mutex<Option<Vec<RoomMember>>>,
    unread: AtomicU64,
    /// The bytes of objects that wait for any reader.
    objects: Option<Arc<AtomicUsize>>,
}

/// The fate of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admission {
    /// The reply is counted and goes to the reader.
    Admitted,
    Dropped,
    /// The object ends: its data would go beyond [`MAX_OBJECTS_BYTES`].
    Overflow,
}

impl Backlog {
    /// Makes the backlog of a ticket; `objects` counts the bytes of all objects, for a ticket that gets one.
    pub(super) fn new(objects: Option<Arc<AtomicUsize>>) -> Self {
        Self {
            bytes: AtomicUsize::new(0),
            changes: AtomicUsize::new(0),
            roster: Mutex::new(None),
            unread: AtomicU64::new(0),
            objects,
        }
    }

    /// True if the ticket gets an object.
    pub(super) fn is_of_object(&self) -> bool {
        self.objects.is_some()
    }

    /// Datagrams that were dropped because nobody read them in time.
    pub(super) fn unread(&self) -> u64 {
        self.unread.load(Ordering::Relaxed)
    }

    /// Counts a reply if there is room for it.
    pub(super) fn admit(&self, reply: &Reply, purpose: Purpose) -> Admission {
        let fits = match (reply, purpose) {
            (Reply::Data(data), Purpose::Request(service, _)) if service.is_stream() => {
                let fits = self.bytes.load(Ordering::Relaxed) + cost(data) <= MAX_STREAM_QUEUE_BYTES;
                self.bytes.fetch_add(if fits { cost(data) } else { 0 }, Ordering::Relaxed);
                self.unread.fetch_add(u64::from(!fits), Ordering::Relaxed);
                fits
            }
            (Reply::Data(data), _) => {
                if let Some(objects) = &self.objects {
                    if objects.load(Ordering::Relaxed) + cost(data) > MAX_OBJECTS_BYTES {
                        return Admission::Overflow;
                    }
                    objects.fetch_add(cost(data), Ordering::Relaxed);
                }
                self.bytes.fetch_add(cost(data), Ordering::Relaxed);
                true
            }
            (Reply::Changed(_), _) => {
                let fits = self.changes.load(Ordering::Relaxed) < MAX_WATCH_QUEUE;
                self.changes.fetch_add(usize::from(fits), Ordering::Relaxed);
                fits
            }
            (Reply::Roster(members), _) => self.roster().replace(members.clone()).is_none(),
            _ => true,
        };
        if fits { Admission::Admitted } else { Admission::Dropped }
    }

    fn roster(&self) -> MutexGuard<'_, Option<Vec<RoomMember>>> {
        self.roster.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Releases the room of a reply that was read, and replaces a room's list by the latest.
    pub(super) fn release(&self, reply: &mut Reply) {
        match reply {
            Reply::Data(data) => self.release_bytes(cost(data)),
            Reply::Roster(members) => *members = self.roster().take().unwrap_or_default(),
            Reply::Changed(_) => drop(self.changes.fetch_sub(1, Ordering::Relaxed)),
            _ => {}
        }
    }

    fn release_bytes(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        if let Some(objects) = &self.objects {
            objects.fetch_sub(bytes, Ordering::Relaxed);
        }
    }
}

/// The memory of a payload that waits; an empty one takes some, too.
pub(super) fn cost(data: &Bytes) -> usize {
    data.len() + 128
}

impl Drop for Backlog {
    /// Unread replies go with their reader.
    fn drop(&mut self) {
        self.release_bytes(self.bytes.load(Ordering::Relaxed));
    }
}
