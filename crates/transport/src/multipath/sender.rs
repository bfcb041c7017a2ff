//! Chunks under way: chooses the path of each, repeats late ones, and moves those of a silent path.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::action::{Action, CopyId, PathEvent, PathId, PathView};
use super::chunk::{CHUNK_BYTES, HEARTBEAT};
use super::message_queue::{Chunk, MessageQueue, Next};
use super::path::{HEARTBEAT_BYTES, HEARTBEAT_CHUNK, PathMetrics, PathState, SendSnapshot};
use super::{DeliveryClass, Message};

/// The time for which a connection counts as in use after it sent something.
const RECENT: Duration = Duration::from_secs(1);
/// The most of the sent bytes that heartbeats on answering paths may add.
const HEARTBEAT_SHARE: f64 = 0.05;
/// A chunk that was under way on this many paths when they fell silent says nothing about paths any more: the remote
/// itself does not acknowledge it.
const MOST_SILENCES: u32 = 8;
/// The number of heartbeats that may be saved up.
const HEARTBEAT_CREDIT: f64 = 4.0;

#[derive(Debug)]
pub(super) struct ChunkSender {
    outbox: MessageQueue,
    /// Boxed, because a node of the tree has room for eleven and nearly all connections have one path.
    paths: BTreeMap<PathId, Box<PathState>>,
    chunks: BTreeMap<ChunkId, InFlight>,
    copies: BTreeMap<CopyId, ChunkCopy>,
    next_id: u64,
    late: BTreeSet<(Instant, CopyId)>,
    /// The time until which the connection counts as in use, even with nothing under way.
    used_until: Option<Instant>,
    /// Bytes that heartbeats on answering paths may still use.
    credit: f64,
    actions: VecDeque<Action>,
    events: VecDeque<PathEvent>,
}

/// A chunk that is not acknowledged: its unit, and a number of its own.
type ChunkId = (u64, u64);

#[derive(Debug)]
struct InFlight {
    chunk: Chunk,
    /// At most one on each path.
    copies: Vec<CopyId>,
    /// The number of times that a path which carried the chunk fell silent.
    silences: u32,
}

#[derive(Clone, Copy, Debug)]
struct ChunkCopy {
    /// `None` for a heartbeat.
    chunk: Option<ChunkId>,
    path: PathId,
    bytes: usize,
    departure: SendSnapshot,
    late_at: Instant,
}

impl ChunkSender {
    pub(super) fn new(queue_bytes: usize) -> Self {
        Self {
            outbox: MessageQueue::new(queue_bytes),
            paths: BTreeMap::new(),
            chunks: BTreeMap::new(),
            copies: BTreeMap::new(),
            next_id: 0,
            late: BTreeSet::new(),
            used_until: None,
            credit: 0.0,
            actions: VecDeque::new(),
            events: VecDeque::new(),
        }
    }

    pub(super) fn add_path(&mut self, now: Instant, path: PathId, rank: u8, measured: PathMetrics) {
        self.paths.insert(path, Box::new(PathState::new(now, rank, measured)));
        self.rescue_all(now);
        self.dispatch(now);
    }

    pub(super) fn remove_path(&mut self, now: Instant, path: PathId) {
        let Some(gone) = self.paths.remove(&path) else { return };
        for copy in gone.copies {
            self.forget(copy);
        }
        self.rescue_all(now);
        self.dispatch(now);
    }

    pub(super) fn send(&mut self, now: Instant, message: Message) -> bool {
        let is_queued = self.outbox.push(now, message);
        self.dispatch(now);
        is_queued
    }

    pub(super) fn acknowledged(&mut self, now: Instant, id: CopyId, measured: PathMetrics) {
        let Some(copy) = self.forget(id) else { return };
        let Some(path) = self.paths.get_mut(&copy.path) else { return };
        let is_back = path.arrive(now, copy.bytes, copy.departure, measured);
        if let Some(done) = copy.chunk.and_then(|chunk| self.chunks.remove(&chunk)) {
            done.copies.into_iter().filter(|other| *other != id).for_each(|other| self.cancel(other));
            self.outbox.acknowledged(done.chunk.unit);
        }
        if is_back {
            self.events.push_back(PathEvent::Restored(copy.path));
            self.actions.push_back(Action::Probe { path: copy.path, on: false });
            self.rescue_all(now);
        }
        self.dispatch(now);
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        while let Some(told) = self.outbox.expire(now) {
            self.give_up(now, told);
        }
        let silent = self.paths.iter().filter(|(_, path)| path.suspect_at().is_some_and(|at| at <= now));
        for path in silent.map(|(path, _)| *path).collect::<Vec<_>>() {
            self.on_path_silent(now, path);
        }
        while let Some((_, copy)) = self.late.first().copied().filter(|(at, _)| *at <= now) {
            self.repeat(now, copy);
        }
        self.send_heartbeats(now);
        self.dispatch(now);
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        let paths = self.paths.values().flat_map(|path| [path.suspect_at(), self.heartbeat_at(path)]);
        let late = self.late.first().map(|(at, _)| *at);
        paths.chain([late, self.outbox.next_expiry()]).flatten().min()
    }

    /// Puts waiting messages on paths that have room.
    fn dispatch(&mut self, now: Instant) {
        let mut from = 0;
        while let Some(Next { level, class, bytes }) = self.outbox.peek(now, from) {
            let Some(first) = self.choose(class, bytes, level) else {
                if class != DeliveryClass::Backup {
                    return;
                }
                // The message waits for the one path of its class. Less urgent messages may use the others.
                from = level + 1;
                continue;
            };
            let Some(chunk) = self.outbox.cut(level) else { return };
            self.credit =
                (self.credit + HEARTBEAT_SHARE * chunk.bytes() as f64).min(HEARTBEAT_CREDIT * HEARTBEAT_BYTES);
            self.used_until = Some(now + RECENT);
            self.launch(now, chunk, first);
        }
    }

    /// Sends a new chunk over `first`, and over the other paths as well if it is of class `Duplicate`.
    fn launch(&mut self, now: Instant, chunk: Chunk, first: PathId) {
        let (class, bytes) = (chunk.class, chunk.bytes());
        let id = (chunk.unit, self.next_id());
        self.chunks.insert(id, InFlight { chunk, copies: Vec::new(), silences: 0 });
        self.transmit(now, id, first);
        if class == DeliveryClass::Duplicate {
            let others = self.usable().filter(|(path, it)| *path != first && it.has_room_for_copy(bytes));
            for path in others.map(|(path, _)| path).collect::<Vec<_>>() {
                self.transmit(now, id, path);
            }
        }
    }

    /// The path for a new chunk, if one has room. It is the one on which the chunk arrives soonest. If that is full,
    /// another is chosen, unless all waiting messages would arrive sooner by waiting for the first.
    fn choose(&self, class: DeliveryClass, bytes: usize, level: usize) -> Option<PathId> {
        let alone = self.paths.len() == 1 && self.outbox.has_chunk();
        let has_room = |path: &PathState| if alone { path.has_room_alone(bytes) } else { path.has_room(bytes) };
        let (id, soonest) = match class {
            DeliveryClass::Backup => self.usable().min_by_key(|(id, path)| (path.rank, *id)),
            DeliveryClass::Stripe | DeliveryClass::Duplicate => self.usable().min_by_key(|(_, path)| path.eta(bytes)),
        }?;
        if has_room(soonest) || class == DeliveryClass::Backup {
            return has_room(soonest).then_some(id);
        }
        let after_all = soonest.eta(self.outbox.ahead(level));
        let others = self.usable().filter(|(_, path)| has_room(path)).map(|(id, path)| (path.eta(bytes), id));
        others.min().filter(|(eta, _)| *eta <= after_all).map(|(_, id)| id)
    }

    /// The paths that answer, or all paths if none does.
    fn usable(&self) -> impl Iterator<Item = (PathId, &PathState)> {
        let none = self.paths.values().all(|path| path.suspect_since.is_some());
        let usable = self.paths.iter().filter(move |(_, path)| none || path.suspect_since.is_none());
        usable.map(|(path, it)| (*path, &**it))
    }

    fn transmit(&mut self, now: Instant, chunk: ChunkId, on: PathId) {
        let copy = CopyId(self.next_id());
        let (Some(path), Some(flight)) = (self.paths.get_mut(&on), self.chunks.get_mut(&chunk)) else { return };
        let bytes = flight.chunk.bytes();
        path.counts.repeated += u64::from(!flight.copies.is_empty() && flight.chunk.class != DeliveryClass::Duplicate);
        flight.copies.push(copy);
        let departure = path.depart(now, copy, bytes);
        if flight.silences >= MOST_SILENCES {
            path.excuse(copy, bytes);
        }
        let late_at = path.late_at(now);
        self.copies.insert(copy, ChunkCopy { chunk: Some(chunk), path: on, bytes, departure, late_at });
        self.late.insert((late_at, copy));
        let priority = -i32::from(flight.chunk.priority);
        self.actions.push_back(Action::Transmit { path: on, copy, content: flight.chunk.content.clone(), priority });
    }

    /// Sends a late chunk over another path as well, if one answers. A chunk of class `Backup` waits for its path as
    /// long as that answers.
    fn repeat(&mut self, now: Instant, id: CopyId) {
        let Some(copy) = self.copies.get_mut(&id) else { return };
        self.late.remove(&(copy.late_at, id));
        let Some(path) = self.paths.get(&copy.path) else { return };
        copy.late_at = path.late_at(now);
        self.late.insert((copy.late_at, id));
        let (chunk, answers) = (copy.chunk, path.suspect_since.is_none());
        let class = chunk.and_then(|chunk| Some(self.chunks.get(&chunk)?.chunk.class));
        if let Some(chunk) = chunk
            && !(answers && class == Some(DeliveryClass::Backup))
            && let Some(other) = self.other_path(chunk)
        {
            self.transmit(now, chunk, other);
        }
    }

    /// The path that answers, does not carry the chunk and delivers it soonest; for class `Backup` the next in rank.
    fn other_path(&self, chunk: ChunkId) -> Option<PathId> {
        let flight = self.chunks.get(&chunk)?;
        let carries =
            |path: PathId| flight.copies.iter().any(|copy| self.copies.get(copy).is_some_and(|it| it.path == path));
        let answers = self.paths.iter().filter(|(path, it)| it.suspect_since.is_none() && !carries(**path));
        let best = match flight.chunk.class {
            DeliveryClass::Backup => answers.min_by_key(|(id, path)| (path.rank, **id)),
            DeliveryClass::Stripe | DeliveryClass::Duplicate => answers.min_by_key(|(_, path)| path.eta(CHUNK_BYTES)),
        };
        best.map(|(path, _)| *path)
    }

    fn on_path_silent(&mut self, now: Instant, id: PathId) {
        let Some(path) = self.paths.get_mut(&id) else { return };
        path.suspect(now);
        let copies: Vec<_> = path.copies.iter().copied().collect();
        copies.into_iter().for_each(|copy| self.record_silence(copy));
        self.events.push_back(PathEvent::Lost(id));
        self.actions.push_back(Action::Probe { path: id, on: true });
        self.rescue_all(now);
    }

    /// Counts a silence for the chunk of a copy whose path has fallen silent. If other paths that carry the chunk are
    /// silent too, it is the same silence.
    fn record_silence(&mut self, copy: CopyId) {
        let Some(chunk) = self.copies.get(&copy).and_then(|copy| copy.chunk) else { return };
        let Some(flight) = self.chunks.get_mut(&chunk) else { return };
        let is_silent = |other: &CopyId| {
            let path = self.copies.get(other).and_then(|other| self.paths.get(&other.path));
            path.is_some_and(|path| path.suspect_since.is_some())
        };
        if flight.copies.iter().any(|other| *other != copy && is_silent(other)) {
            return;
        }
        flight.silences += 1;
        if flight.silences < MOST_SILENCES {
            return;
        }
        for copy in &flight.copies {
            if let Some(it) = self.copies.get(copy)
                && let Some(path) = self.paths.get_mut(&it.path)
            {
                path.excuse(*copy, it.bytes);
            }
        }
    }

    /// Moves chunks that are only on silent paths, or on none, to a path that answers.
    fn rescue_all(&mut self, now: Instant) {
        if self.paths.values().all(|path| path.suspect_since.is_some()) {
            return;
        }
        let answers = |copy: &ChunkCopy| self.paths.get(&copy.path).is_some_and(|path| path.suspect_since.is_none());
        let is_stuck = |flight: &InFlight| {
            let mut copies = flight.copies.iter().filter_map(|copy| self.copies.get(copy));
            // A chunk without copies was on a path that was removed: nothing else sends it again.
            flight.copies.is_empty() || flight.silences < MOST_SILENCES && !copies.any(answers)
        };
        let stuck: Vec<_> =
            self.chunks.iter().filter(|(_, flight)| is_stuck(flight)).map(|(chunk, _)| *chunk).collect();
        for chunk in stuck {
            let old = self.chunks.get(&chunk).map(|flight| flight.copies.clone()).unwrap_or_default();
            let Some(path) = self.other_path(chunk) else { continue };
            self.transmit(now, chunk, path);
            old.into_iter().for_each(|copy| self.cancel(copy));
        }
    }

    /// Replaces the chunks of a unit whose deadline has passed by `told`.
    fn give_up(&mut self, now: Instant, told: Chunk) {
        let of_unit = self.chunks.range((told.unit, 0)..=(told.unit, u64::MAX));
        for chunk in of_unit.map(|(chunk, _)| *chunk).collect::<Vec<_>>() {
            let copies = self.chunks.remove(&chunk).map(|flight| flight.copies).unwrap_or_default();
            copies.into_iter().for_each(|copy| self.cancel(copy));
        }
        let soonest = self.usable().min_by_key(|(_, path)| path.eta(told.bytes())).map(|(path, _)| path);
        // Without any path, the chunk waits for one as the others do.
        self.launch(now, told, soonest.unwrap_or(PathId(u32::MAX)));
    }

    fn cancel(&mut self, id: CopyId) {
        if let Some(copy) = self.forget(id) {
            self.actions.push_back(Action::Cancel { path: copy.path, copy: id });
        }
    }

    /// Removes a copy that is no longer under way.
    fn forget(&mut self, id: CopyId) -> Option<ChunkCopy> {
        let copy = self.copies.remove(&id)?;
        self.late.remove(&(copy.late_at, id));
        if let Some(path) = self.paths.get_mut(&copy.path) {
            path.forget(id, copy.bytes);
        }
        if let Some(flight) = copy.chunk.and_then(|chunk| self.chunks.get_mut(&chunk)) {
            flight.copies.retain(|other| *other != id);
        }
        Some(copy)
    }

    fn send_heartbeats(&mut self, now: Instant) {
        for id in self.paths.keys().copied().collect::<Vec<_>>() {
            let Some(path) = self.paths.get(&id) else { continue };
            if self.heartbeat_at(path).is_none_or(|at| at > now) {
                continue;
            }
            if path.suspect_since.is_none() {
                self.credit = (self.credit - HEARTBEAT_BYTES).max(0.0);
            }
            if let Some(last) = path.heartbeat {
                self.cancel(last);
            }
            let copy = CopyId(self.next_id());
            let Some(path) = self.paths.get_mut(&id) else { continue };
            path.record_heartbeat(now, copy);
            let bytes = HEARTBEAT_CHUNK;
            let departure = path.depart(now, copy, bytes);
            // A heartbeat is never late: the path's silence is noticed without it.
            self.copies.insert(copy, ChunkCopy { chunk: None, path: id, bytes, departure, late_at: now });
            let content = [Bytes::from_static(&[HEARTBEAT]), Bytes::new()];
            self.actions.push_back(Action::Transmit { path: id, copy, content, priority: i32::MAX });
        }
    }

    /// The only path of a connection is probed only while it is suspect.
    fn heartbeat_at(&self, path: &PathState) -> Option<Instant> {
        let needs_one = self.paths.len() > 1 || path.suspect_since.is_some();
        let in_use = |at| !self.chunks.is_empty() || self.used_until.is_some_and(|until| at <= until);
        needs_one.then(|| path.heartbeat_at(self.credit >= HEARTBEAT_BYTES, in_use))
    }

    fn next_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    pub(super) fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    pub(super) fn poll_event(&mut self) -> Option<PathEvent> {
        self.events.pop_front()
    }

    #[cfg(test)]
    pub(super) fn queued_bytes(&self) -> usize {
        self.outbox.queued_bytes()
    }

    pub(super) const fn given_up(&self) -> u64 {
        self.outbox.given_up
    }

    pub(super) fn is_idle(&self) -> bool {
        self.outbox.is_idle()
    }

    pub(super) fn paths(&self) -> impl Iterator<Item = PathView> {
        self.paths.iter().map(|(path, it)| PathView {
            path: *path,
            answers: it.suspect_since.is_none(),
            measured: it.measured(),
            rate: it.rate().map(|rate| rate as u64),
            outstanding: it.outstanding,
            counts: it.counts,
        })
    }
}
