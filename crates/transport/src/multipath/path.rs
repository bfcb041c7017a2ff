//! The state of one path: its speed, the bytes under way on it, and if it still answers.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::MAX_COPIES;
use super::action::CopyId;
use super::chunk::CHUNK_BYTES;
use super::measures::{DeliveryRate, TransferTime, WindowedBest};

/// The time beyond the expected one after which a path is suspected. It covers timers, and the 1 ms by which
/// acknowledgements are delayed.
const SLACK: Duration = Duration::from_millis(7);
/// As [`SLACK`] for a chunk, before it is sent on another path as well.
const LATE_SLACK: Duration = Duration::from_millis(4);
/// The queue that a path may fill beyond its round trip.
const QUEUE: Duration = Duration::from_millis(10);
/// Bytes that a path may always have under way.
const FLOOR: usize = 2 * CHUNK_BYTES;
/// The shortest interval of heartbeats while there is traffic.
const HEARTBEAT: Duration = Duration::from_millis(20);
/// The interval of heartbeats while there is too little traffic to pay for more.
const IDLE_HEARTBEAT: Duration = Duration::from_secs(30);
/// A heartbeat and its acknowledgement, with all headers, bytes.
pub(super) const HEARTBEAT_BYTES: f64 = 140.0;
/// A heartbeat without headers, bytes. It measures the round trip but not the rate.
pub(super) const HEARTBEAT_CHUNK: usize = 1;
/// The most of a path's rate that heartbeats may use.
const HEARTBEAT_RATE_SHARE: f64 = 0.02;
/// A path that has been silent for this many times an interval is probed no more often than that interval. So one that
/// answers again is found within 2 % of the time that it was silent.
const SILENCE_PARTS: u32 = 50;
/// The longest such interval with traffic, and without.
const SUSPECT_HEARTBEAT: Duration = Duration::from_secs(1);
const IDLE_SUSPECT_HEARTBEAT: Duration = Duration::from_secs(5);

/// The measurements of a path by its QUIC connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PathMetrics {
    pub(crate) rtt: Duration,
    pub(crate) window: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PathCounts {
    /// Chunks sent on the path, including heartbeats.
    pub(crate) chunks: u64,
    pub(crate) bytes: u64,
    /// Chunks that were under way on another path already.
    pub(crate) repeated: u64,
    /// The number of times that the path fell silent.
    pub(crate) losses: u64,
}

#[derive(Debug)]
pub(super) struct PathState {
    /// The delivery class `Backup` prefers the path with the lowest rank.
    pub(super) rank: u8,
    measured: PathMetrics,
    /// The shortest recent round trip, of packets and of whole chunks.
    shortest: WindowedBest<Duration>,
    /// The time that a byte takes while others wait before it.
    pace: TransferTime,
    /// Bytes per second while the path had enough to send.
    rate: DeliveryRate,
    pub(super) outstanding: usize,
    pub(super) copies: BTreeSet<CopyId>,
    /// Copies under way whose silence says nothing about the path.
    excused: BTreeSet<CopyId>,
    excused_bytes: usize,
    /// The time of the last acknowledgement, or of the first chunk after a pause.
    progress: Instant,
    /// The time since which the path does not answer; `None` if it does.
    pub(super) suspect_since: Option<Instant>,
    /// The heartbeat under way, if there is one.
    pub(super) heartbeat: Option<CopyId>,
    last_heartbeat: Instant,
    pub(super) counts: PathCounts,
}

/// The state of a path at the time at which a chunk left.
#[derive(Clone, Copy, Debug)]
pub(super) struct SendSnapshot {
    at: Instant,
    /// Bytes under way, including the chunk's own.
    ahead: usize,
    pub(super) delivered: u64,
    pub(super) delivered_at: Instant,
    /// True if the path had as much under way as it may have.
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

    /// The greatest recent rate, in bytes per second.
    pub(super) fn rate(&self) -> Option<f64> {
        self.rate.known()
    }

    /// True if another chunk of `bytes` may be put on the path now. Twice the content of the path and a short queue
    /// lets the rate grow as fast as any congestion control does, and limits the bytes that are stuck when the path
    /// dies.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        self.copies.len() < MAX_COPIES && (self.outstanding == 0 || self.outstanding + bytes <= self.room())
    }

    /// As [`Self::has_room`] for the only path, which gets more, since its chunks could go nowhere else: twice the
    /// window, so that the congestion control, whose window may double until the next acknowledgement, never waits for
    /// chunks. Messages that do not fill a chunk still wait as on other paths, so that they are packed with later ones.
    pub(super) fn has_room_alone(&self, bytes: usize) -> bool {
        let room = self.window().saturating_mul(2).saturating_add(FLOOR);
        self.copies.len() < MAX_COPIES && self.outstanding + bytes <= room
    }

    /// As [`Self::has_room`] for a copy of a chunk that another path has room for as well. The copy's wait here delays
    /// nothing, and it leaves the queue when the other copy arrives.
    pub(super) fn has_room_for_copy(&self, bytes: usize) -> bool {
        self.outstanding == 0 || self.outstanding + bytes <= 2 * self.room()
    }

    fn room(&self) -> usize {
        let held = (self.min_rtt() + QUEUE).as_secs_f64();
        // The first bytes must not wait until the rate is known.
        let rate = self.rate.known().unwrap_or_else(|| self.pace.least_rate());
        ((2.0 * rate * held) as usize).clamp(FLOOR, self.window().saturating_add(FLOOR))
    }

    /// The shortest recent round trip. Only recent ones count, because queues of other senders, or another radio cell,
    /// make it longer for good.
    fn min_rtt(&self) -> Duration {
        self.shortest.best(Duration::min).unwrap_or(self.measured.rtt)
    }

    fn window(&self) -> usize {
        usize::try_from(self.measured.window).unwrap_or(usize::MAX)
    }

    /// The time from now until a chunk of `bytes` would arrive.
    pub(super) fn eta(&self, bytes: usize) -> Duration {
        self.pace.optimistic_time(self.outstanding + bytes) + self.measured.rtt / 2
    }

    /// Notes that a chunk leaves, and returns the path's state.
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
            was_full: !self.has_room(CHUNK_BYTES),
        }
    }

    /// Notes that a chunk was acknowledged. Returns true if the path was suspect and answers again.
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

    /// Removes a chunk that is no longer under way, for whatever reason.
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

    /// Excuses a chunk: if it is not acknowledged, the path does not count as silent.
    pub(super) fn excuse(&mut self, copy: CopyId, bytes: usize) {
        if self.copies.contains(&copy) && self.excused.insert(copy) {
            self.excused_bytes += bytes;
        }
    }

    /// The time at which a chunk that leaves now is late.
    pub(super) fn late_at(&self, now: Instant) -> Instant {
        now + LATE_SLACK + 2 * self.measured.rtt + 2 * self.pace.expected_time(self.outstanding)
    }

    /// The time at which the path is suspected unless it answers.
    pub(super) fn suspect_at(&self) -> Option<Instant> {
        if self.outstanding == self.excused_bytes || self.suspect_since.is_some() {
            return None;
        }
        // A slow path needs its time for a single chunk.
        let first = self.pace.pessimistic_time(self.outstanding.min(CHUNK_BYTES));
        let patience = first.max(self.pace.expected_time(self.outstanding) / 2);
        Some(self.progress + SLACK + self.measured.rtt * 5 / 4 + patience)
    }

    /// Marks the path as one that does not answer any more.
    pub(super) fn suspect(&mut self, now: Instant) {
        self.suspect_since = Some(now);
        self.counts.losses += 1;
    }

    /// The time at which the next heartbeat is due, and the one under way is given up. A path that answers gets
    /// frequent heartbeats if there is `credit` for them. A silent path gets frequent ones while the connection is in
    /// use at that time.
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

    pub(super) fn record_heartbeat(&mut self, now: Instant, copy: CopyId) {
        self.last_heartbeat = now;
        self.heartbeat = Some(copy);
    }
}
