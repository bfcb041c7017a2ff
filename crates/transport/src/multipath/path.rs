//! What a connection knows of one of its paths: how fast it is, how much is
//! under way on it, and whether it still answers.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::MAX_COPIES;
use super::action::CopyId;
use super::chunk::CHUNK_BYTES;
use super::measures::{DeliveryRate, TransferTime, WindowedBest};

/// How much later than the round trip says an acknowledgement may come before
/// a path is suspected: timers, and the 1 ms that acknowledgements are held back.
const SLACK: Duration = Duration::from_millis(7);
/// The same for a chunk before it is sent on another path as well.
const LATE_SLACK: Duration = Duration::from_millis(4);
/// The queue that a path may have to itself beyond what its delay holds.
const QUEUE: Duration = Duration::from_millis(10);
/// What a path may always have.
const FLOOR: usize = 2 * CHUNK_BYTES;
/// How often a path is probed while there is traffic, at most.
const HEARTBEAT: Duration = Duration::from_millis(20);
/// The same when too little is sent to warrant it.
const IDLE_HEARTBEAT: Duration = Duration::from_secs(30);
/// A heartbeat and its acknowledgement, with all headers, bytes.
pub(super) const HEARTBEAT_BYTES: f64 = 140.0;
/// The same without headers: it tells the round trip and nothing of the rate.
pub(super) const HEARTBEAT_CHUNK: usize = 1;
/// Heartbeats take at most this part of a path's rate.
const HEARTBEAT_RATE_SHARE: f64 = 0.02;
/// A path that has been silent for this many times an interval is probed no
/// more often than that interval: one that came back is found within 2 % of
/// the time that it was gone.
const SILENCE_PARTS: u32 = 50;
/// The longest such interval with traffic, and without.
const SUSPECT_HEARTBEAT: Duration = Duration::from_secs(1);
const IDLE_SUSPECT_HEARTBEAT: Duration = Duration::from_secs(5);

/// What the connection of a path knows about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PathMetrics {
    /// Smoothed round trip.
    pub(crate) rtt: Duration,
    /// The congestion window, bytes.
    pub(crate) window: u64,
}

/// The counts of a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PathCounts {
    /// Chunks that were sent on it, heartbeats too.
    pub(crate) chunks: u64,
    /// Their bytes.
    pub(crate) bytes: u64,
    /// Chunks among them that were under way on another path already.
    pub(crate) repeated: u64,
    /// How often the path was lost.
    pub(crate) losses: u64,
}

#[derive(Debug)]
pub(super) struct PathState {
    /// The lower, the sooner it is taken where one is the backup of another.
    pub(super) rank: u8,
    measured: PathMetrics,
    /// The shortest round trips, of chunks too.
    shortest: WindowedBest<Duration>,
    /// How much longer a byte takes that others go before.
    pace: TransferTime,
    /// Bytes per second while it had enough to do.
    rate: DeliveryRate,
    /// Bytes that are under way on it.
    pub(super) outstanding: usize,
    pub(super) copies: BTreeSet<CopyId>,
    /// Those among them that do not tell whether it answers, and their bytes.
    excused: BTreeSet<CopyId>,
    excused_bytes: usize,
    /// When it last answered, or had to begin to.
    progress: Instant,
    /// Since when it does not answer.
    pub(super) suspect_since: Option<Instant>,
    /// The heartbeat under way.
    pub(super) heartbeat: Option<CopyId>,
    last_heartbeat: Instant,
    pub(super) counts: PathCounts,
}

/// What a chunk remembers of its path at the time it left.
#[derive(Clone, Copy, Debug)]
pub(super) struct SendSnapshot {
    at: Instant,
    /// Bytes under way, its own too.
    ahead: usize,
    pub(super) delivered: u64,
    pub(super) delivered_at: Instant,
    /// Whether the path had as much to do as it may have.
    pub(super) was_full: bool,
}

impl PathState {
    pub(super) fn new(now: Instant, rank: u8, measured: PathMetrics) -> Self {
        Self {
            rank,
            measured,
            shortest: WindowedBest::new(now),
            pace: TransferTime::new(measured),
            rate: DeliveryRate::new(now),
            outstanding: 0,
            copies: BTreeSet::new(),
            excused: BTreeSet::new(),
            excused_bytes: 0,
            progress: now,
            suspect_since: None,
            heartbeat: None,
            last_heartbeat: now,
            counts: PathCounts::default(),
        }
    }

    pub(super) const fn measured(&self) -> PathMetrics {
        self.measured
    }

    /// What it is known to carry, bytes per second.
    pub(super) fn rate(&self) -> Option<f64> {
        self.rate.known()
    }

    /// Whether another chunk of `bytes` may be put on it now. Twice what the
    /// path and a short queue hold lets the rate grow as fast as any congestion
    /// control does, and bounds what is stuck when it dies.
    ///
    /// What is put on a path that is `alone` could go nowhere else: there is so
    /// much that the congestion control, whose window may double until the next
    /// acknowledgement, never waits for it. But what does not fill a chunk waits
    /// as on other paths, so that it is packed with what comes.
    pub(super) fn has_room(&self, bytes: usize, alone: bool) -> bool {
        if self.copies.len() >= MAX_COPIES {
            return false;
        }
        if alone {
            return self.outstanding + bytes <= self.window().saturating_mul(2).saturating_add(FLOOR);
        }
        self.outstanding == 0 || self.outstanding + bytes <= self.room()
    }

    /// The same for a chunk that another path has room for, too: there it is no
    /// later for that it waits here, and it leaves the queue when it is there.
    pub(super) fn has_room_for_copy(&self, bytes: usize) -> bool {
        self.outstanding == 0 || self.outstanding + bytes <= 2 * self.room()
    }

    fn room(&self) -> usize {
        let held = (self.min_rtt() + QUEUE).as_secs_f64();
        // The first bytes must not wait until the rate is known.
        let rate = self.rate.known().unwrap_or_else(|| self.pace.least_rate());
        ((2.0 * rate * held) as usize).clamp(FLOOR, self.window().saturating_add(FLOOR))
    }

    /// The shortest round trip of late: what others queue, or another cell, makes
    /// it longer for good.
    fn min_rtt(&self) -> Duration {
        self.shortest.best(Duration::min).unwrap_or(self.measured.rtt)
    }

    fn window(&self) -> usize {
        usize::try_from(self.measured.window).unwrap_or(usize::MAX)
    }

    /// When a chunk of `bytes` would be there, from now.
    pub(super) fn eta(&self, bytes: usize) -> Duration {
        self.pace.optimistic_time(self.outstanding + bytes) + self.measured.rtt / 2
    }

    /// A chunk leaves.
    pub(super) fn depart(&mut self, now: Instant, copy: CopyId, bytes: usize) -> SendSnapshot {
        if self.outstanding == self.excused_bytes {
            self.progress = now;
            self.rate.restart(now);
        }
        self.outstanding += bytes;
        self.copies.insert(copy);
        self.counts.chunks += 1;
        self.counts.bytes += bytes as u64;
        SendSnapshot {
            at: now,
            ahead: self.outstanding,
            delivered: self.rate.delivered,
            delivered_at: self.rate.delivered_at,
            was_full: !self.has_room(CHUNK_BYTES, false),
        }
    }

    /// A chunk is there; answers whether the path has come back by that.
    pub(super) fn arrive(
        &mut self,
        now: Instant,
        bytes: usize,
        departure: SendSnapshot,
        measured: PathMetrics,
    ) -> bool {
        let took = now.saturating_duration_since(departure.at);
        let is_back = self.suspect_since.take().is_some();
        self.measured = measured;
        if !is_back {
            self.shortest.age(now, measured.rtt);
            self.shortest.add_sample(measured.rtt.min(took), Duration::min);
            if bytes > HEARTBEAT_CHUNK {
                self.pace.sample(took.saturating_sub(self.min_rtt()), departure.ahead);
            }
            self.rate.sample(now, bytes, departure, measured.rtt);
        }
        self.progress = now;
        is_back
    }

    /// A chunk is under way no more, whatever became of it.
    pub(super) fn forget(&mut self, copy: CopyId, bytes: usize) {
        if self.copies.remove(&copy) {
            self.outstanding -= bytes;
        }
        if self.excused.remove(&copy) {
            self.excused_bytes -= bytes;
        }
        if self.heartbeat == Some(copy) {
            self.heartbeat = None;
        }
    }

    /// A chunk under way that is not acknowledged does not make it silent.
    pub(super) fn excuse(&mut self, copy: CopyId, bytes: usize) {
        if self.copies.contains(&copy) && self.excused.insert(copy) {
            self.excused_bytes += bytes;
        }
    }

    /// When a chunk that leaves now is late.
    pub(super) fn late_at(&self, now: Instant) -> Instant {
        now + LATE_SLACK + 2 * self.measured.rtt + 2 * self.pace.expected_time(self.outstanding)
    }

    /// When the path is to be suspected unless it answers.
    pub(super) fn suspect_at(&self) -> Option<Instant> {
        if self.outstanding == self.excused_bytes || self.suspect_since.is_some() {
            return None;
        }
        // A slow path needs its time for a single chunk.
        let first = self.pace.pessimistic_time(self.outstanding.min(CHUNK_BYTES));
        let patience = first.max(self.pace.expected_time(self.outstanding) / 2);
        Some(self.progress + SLACK + self.measured.rtt * 5 / 4 + patience)
    }

    /// It does not answer any more.
    pub(super) fn suspect(&mut self, now: Instant) {
        self.suspect_since = Some(now);
        self.counts.losses += 1;
    }

    /// When the next heartbeat is due, and the one under way given up. A path
    /// that answers gets them often if there is `credit` for it; a silent one
    /// while the connection is in use at the time that is asked about.
    pub(super) fn heartbeat_at(&self, credit: bool, in_use: impl Fn(Instant) -> bool) -> Instant {
        let share = self.pace.expected_time((HEARTBEAT_BYTES / HEARTBEAT_RATE_SHARE) as usize);
        let often = HEARTBEAT.max(self.measured.rtt).max(share);
        let Some(since) = self.suspect_since else {
            return self.last_heartbeat + if credit { often } else { IDLE_HEARTBEAT.max(often) };
        };
        let silent = self.last_heartbeat.saturating_duration_since(since) / SILENCE_PARTS;
        let soon = self.last_heartbeat + silent.min(SUSPECT_HEARTBEAT).max(often);
        if in_use(soon) { soon } else { self.last_heartbeat + IDLE_SUSPECT_HEARTBEAT.max(often) }
    }

    /// A heartbeat leaves.
    pub(super) fn beat(&mut self, now: Instant, copy: CopyId) {
        self.last_heartbeat = now;
        self.heartbeat = Some(copy);
    }
}
