//! A target of a stream: its place, its budget and its counts.
//!
//! A target has no queue of its own: it is a place in the stream's
//! [ring](crate::ring). How far that is behind the live edge is its queue, and
//! one that falls too far behind goes on at the next key frame.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;
use roost_wire::Time;
use roost_wire::reflection::DownstreamKind;

use crate::budget::RepairBudget;
use crate::control::Nack;
use crate::ring::{Ring, caught_up};
use crate::transmit::{Item, SendOutcome};

/// The most repairs and parameter sets that wait for one target.
const MAX_FRONT: usize = 256;
/// A packet is repaired again after this at the earliest, and so often in all: who asks more
/// often gets no more.
const REPAIR_AGAIN: Duration = Duration::from_millis(10);
const REPAIR_TIMES: u8 = 3;
/// The most repairs of which that is remembered.
const MAX_REPAIRED: usize = 1024;

/// On what terms a target gets a stream.
#[derive(Clone, Copy, Debug)]
pub struct TargetOptions {
    pub kind: DownstreamKind,
    /// The rate that its connection takes, bits per second; nothing is sent faster then. Without it live
    /// packets leave as they come.
    pub bits_per_second: Option<u64>,
}

impl TargetOptions {
    /// Whoever watches, on a link that takes what comes.
    pub const SUBSCRIBER: Self = Self { kind: DownstreamKind::Subscriber, bits_per_second: None };
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartPoint {
    /// With the last key frame. A stream without any begins with its first packet if it has just begun, and otherwise
    /// at its live edge.
    KeyFrame,
    /// With the packet of this counter, because it has those before it; if that is not there any
    /// more, as anybody.
    At(u64),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TargetStats {
    /// Packets sent, repairs among them.
    pub packets: u64,
    pub bytes: u64,
    /// Packets skipped because it was too far behind.
    pub dropped: u64,
    /// Packets that the system did not send, and would not have.
    pub failed: u64,
    /// Packets that it asked for again.
    pub nacked: u64,
    /// Of these, those that it was sent.
    pub repaired: u64,
    /// The rate of the last whole second.
    pub bits_per_second: u64,
}

/// The limits of a target that is behind, and its speed when it catches up.
#[derive(Clone, Copy, Debug)]
pub struct LagLimits {
    /// Bytes behind the live edge; by default 1 MiB.
    pub bytes: u64,
    /// Time behind the live edge; by default 300 ms.
    pub age: Duration,
    /// The greatest age of a packet that is repaired, or of the cached packets that a joiner was sent; by
    /// default 300 ms.
    pub repair: Duration,
    /// The rate at which joiners are sent cached packets, if their [`TargetOptions`] do not say, bits per
    /// second; by default 100 million.
    pub catch_up: u64,
}

impl Default for LagLimits {
    fn default() -> Self {
        let age = Duration::from_millis(300);
        Self { bytes: 1 << 20, age, repair: age, catch_up: 100_000_000 }
    }
}

/// The place of a target in its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Packets from before it came, up to this place, and those that have come meanwhile.
    CatchingUp { until: u64 },
    /// Packets as they come.
    Live,
    /// Nothing until a key frame begins.
    AwaitsKey,
}

#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) address: SocketAddr,
    pub(crate) terms: TargetOptions,
    pub(crate) statistics: TargetStats,
    /// True if the system takes whole runs for it.
    pub(crate) offload: bool,
    /// The turn or the time that it waits for.
    pub(crate) wait: Wait,
    stage: Stage,
    /// The place of the next run, and how many of its packets have gone already.
    next: u64,
    part: u32,
    front: VecDeque<Bytes>,
    repaired: BTreeMap<u64, (Time, u8)>,
    /// The greatest packet that it asked for again.
    asked: u64,
    /// The budget of repairs and parity.
    budget: RepairBudget,
    /// The places of the packets that it was last sent to catch up, and the time at which the last of them
    /// left.
    burst: Option<(Range<u64>, Time)>,
    /// The bytes that it may be sent still, if there is a limit; and true if the next packet does not fit.
    allowance: Option<u64>,
    is_spent: bool,
    /// The time at which its connection is free again.
    free: Time,
    second: (Time, u64),
}

/// The thing that a target waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// The next packet of the stream.
    Packets,
    /// A turn in the line of targets.
    Turn,
    /// The time at which its connection is free.
    Until(Time),
}

impl Target {
    pub(crate) fn new(now: Time, address: SocketAddr, terms: TargetOptions, start: StartPoint, ring: &Ring) -> Self {
        let mut target = Self {
            address,
            terms,
            statistics: TargetStats::default(),
            offload: true,
            wait: Wait::Packets,
            stage: Stage::Live,
            next: ring.head(),
            part: 0,
            front: VecDeque::new(),
            repaired: BTreeMap::new(),
            asked: 0,
            budget: RepairBudget::new(now),
            burst: None,
            allowance: None,
            is_spent: false,
            free: now,
            second: (now, 0),
        };
        target.join(now, start, ring);
        target
    }

    pub(crate) fn join(&mut self, now: Time, start: StartPoint, ring: &Ring) {
        self.front.clear();
        let found = match start {
            StartPoint::At(counter) => ring.place_of(counter),
            StartPoint::KeyFrame => None,
        };
        let until = ring.head();
        let beginning = || ring.beginning(now).filter(|_| !ring.knows_keys);
        (self.next, self.part, self.stage) = match (found, ring.key().or_else(beginning)) {
            (Some((place, part)), _) => (place, part, Stage::CatchingUp { until }),
            (None, Some(place)) => (place, 0, Stage::CatchingUp { until }),
            (None, None) if ring.knows_keys => (until, 0, Stage::AwaitsKey),
            (None, None) => (until, 0, Stage::Live),
        };
        if found.is_none() && ring.key().is_some() {
            self.front.extend(ring.key_parameters().iter().cloned());
        }
    }

    /// True if it gets nothing until a key frame begins.
    pub(crate) fn awaits_key(&self) -> bool {
        self.stage == Stage::AwaitsKey
    }

    /// Limits what it is sent from now on, or does not.
    pub(crate) fn allow(&mut self, bytes: Option<u64>) {
        (self.allowance, self.is_spent) = (bytes, false);
    }

    /// The next item, if anything may be sent now; it stays the next until [`record_sent`](Self::record_sent).
    pub(crate) fn peek(&mut self, now: Time, ring: &Ring, patience: &LagLimits, max_hops: u8) -> Option<Item> {
        let next = self.peek_any(now, ring, patience, max_hops)?;
        self.is_spent = self.allowance.is_some_and(|allowance| next.bytes() > allowance);
        (!self.is_spent).then_some(next)
    }

    fn peek_any(&mut self, now: Time, ring: &Ring, patience: &LagLimits, max_hops: u8) -> Option<Item> {
        self.keep_up(now, ring, patience);
        if now < self.free {
            return None;
        }
        if let Some(packet) = self.front.front() {
            return Some(Item::Front(packet.clone()));
        }
        if self.stage == Stage::AwaitsKey {
            return None;
        }
        loop {
            let run = ring.get(self.next)?;
            let returns = run.from == Some(self.address);
            if !returns && (self.terms.kind == DownstreamKind::Subscriber || run.hops < max_hops) {
                let is_cached = matches!(self.stage, Stage::CatchingUp { .. });
                return Some(Item::Run { run: run.without(self.part), is_cached });
            }
            self.next += 1;
        }
    }

    /// Goes on at a key frame, or at the live edge, if it is too far behind.
    fn keep_up(&mut self, now: Time, ring: &Ring, patience: &LagLimits) {
        let age = ring.get(self.next).map_or(Duration::ZERO, |run| now.since(run.at));
        let bytes = ring.behind(self.next).bytes;
        // Until then it is paced, and may be as far behind as what is kept reaches; afterwards it has room to spare.
        let is_near = bytes <= patience.bytes / 2 && age <= patience.age / 2;
        if matches!(self.stage, Stage::CatchingUp { until } if self.next >= until) && is_near {
            self.stage = Stage::Live;
        }
        let is_gone = self.next < ring.tail();
        let is_late = self.stage == Stage::Live && (bytes > patience.bytes || age > patience.age);
        match ring.key() {
            Some(key) if self.stage == Stage::AwaitsKey && key >= self.next => self.skip(key, ring, Stage::Live),
            Some(key) if (is_late || is_gone) && key > self.next => self.skip(key, ring, Stage::Live),
            _ if (is_late || is_gone) && ring.knows_keys => self.skip(ring.head(), ring, Stage::AwaitsKey),
            _ if is_late || is_gone => self.skip(ring.head(), ring, Stage::Live),
            _ if self.stage == Stage::AwaitsKey => self.skip(ring.head(), ring, Stage::AwaitsKey),
            _ => {}
        }
    }

    fn skip(&mut self, to: u64, ring: &Ring, stage: Stage) {
        self.statistics.dropped += ring.packets_between(self.next, to);
        if stage == Stage::Live && ring.key() == Some(to) {
            self.front.extend(ring.key_parameters().iter().take(MAX_FRONT.saturating_sub(self.front.len())).cloned());
        }
        (self.next, self.part) = (to, 0);
        self.stage = stage;
    }

    /// An item was handed to the system.
    pub(crate) fn record_sent(&mut self, now: Time, item: &Item, outcome: SendOutcome, patience: &LagLimits) {
        let (bytes, segment) = match item {
            Item::Control => return,
            Item::Front(packet) => (packet.len(), packet.len()),
            Item::Run { run, .. } => (run.bytes.len(), run.segment),
        };
        match item {
            _ if outcome.is_full => self.part += outcome.sent + outcome.failed,
            Item::Run { .. } => {
                self.note_burst(now);
                (self.next, self.part) = (self.next + 1, 0);
            }
            _ => drop(self.front.pop_front()),
        }
        let bytes = if outcome.is_full { outcome.sent as usize * segment } else { bytes } as u64;
        if matches!(item, Item::Run { .. }) {
            self.budget.sent(bytes, segment as u64);
        }
        self.statistics.packets += u64::from(outcome.sent);
        self.statistics.failed += u64::from(outcome.failed);
        self.statistics.bytes += bytes;
        self.allowance = self.allowance.map(|allowance| allowance.saturating_sub(bytes));
        self.pace(now, bytes, patience);
        self.note_rate(now, bytes);
    }

    /// Adds the next run to the burst, if the target catches up.
    fn note_burst(&mut self, now: Time) {
        if !matches!(self.stage, Stage::CatchingUp { .. }) {
            return;
        }
        let goes_on = self.burst.take().filter(|(places, _)| places.end == self.next);
        let first = goes_on.map_or(self.next, |(places, _)| places.start);
        self.burst = Some((first..self.next + 1, now));
    }

    /// True if a packet that came at this time, to this place, is of use to it still.
    fn can_use(&self, now: Time, place: u64, at: Time, patience: &LagLimits) -> bool {
        let burst = self.burst.as_ref().filter(|_| self.is_caught_up(place));
        now.since(burst.map_or(at, |(_, sent)| at.max(*sent))) <= patience.repair
    }

    /// True if it was sent what is in this place to catch up.
    fn is_caught_up(&self, place: u64) -> bool {
        self.burst.as_ref().is_some_and(|(places, _)| places.contains(&place))
    }

    fn note_rate(&mut self, now: Time, bytes: u64) {
        let (began, before) = self.second;
        let passed = now.since(began);
        if passed < Duration::from_secs(1) {
            self.second = (began, before + bytes);
        } else {
            self.statistics.bits_per_second = (before as f64 * 8.0 / passed.as_secs_f64()) as u64;
            self.second = (now, bytes);
        }
    }

    fn pace(&mut self, now: Time, bytes: u64, patience: &LagLimits) {
        let catching_up = matches!(self.stage, Stage::CatchingUp { .. }).then_some(patience.catch_up);
        if let Some(rate) = self.terms.bits_per_second.or(catching_up) {
            self.free = self.free.max(now) + Duration::from_nanos(bytes * 8 * 1_000_000_000 / rate.max(1));
        }
    }

    /// Sends packets again that it misses, ahead of the others, if the ring has them, they are not too old, and
    /// the budget allows it.
    pub(crate) fn repair(&mut self, now: Time, nack: &Nack, ring: &Ring, patience: &LagLimits) {
        self.note_missed(now, nack, ring);
        for counter in nack.counters() {
            self.statistics.nacked += 1;
            let (last, times) = self.repaired.get(&counter).copied().unwrap_or((Time::ZERO, 0));
            let is_often = times > 0 && (now.since(last) < REPAIR_AGAIN || times >= REPAIR_TIMES);
            if is_often || self.front.len() >= MAX_FRONT {
                continue;
            }
            let found = ring.packet(counter).filter(|(_, place, at)| self.can_use(now, *place, *at, patience));
            let Some((packet, ..)) = found.filter(|(packet, ..)| self.budget.spend(packet.len())) else { continue };
            self.front.push_back(caught_up(&packet, packet.len()));
            self.repaired.insert(counter, (now, times + 1));
            self.statistics.repaired += 1;
        }
        while self.repaired.len() > MAX_REPAIRED {
            self.repaired.pop_first();
        }
    }

    /// Tells the budget the time from the packet behind a gap to the report of the gap. A packet that is asked
    /// for once more says nothing.
    fn note_missed(&mut self, now: Time, nack: &Nack, ring: &Ring) {
        let Some(last) = nack.counters().last().filter(|last| *last > self.asked) else { return };
        if let Some(sent) = last.checked_add(1).and_then(|behind| self.sent_live(behind, ring)) {
            self.asked = last;
            self.budget.missed(now, now.since(sent));
        }
    }

    /// This is the greatest packet that it has.
    pub(crate) fn note_reported(&mut self, now: Time, highest: u64, ring: &Ring) {
        if let Some(sent) = self.sent_live(highest, ring) {
            self.budget.reported(now, now.since(sent));
        }
    }

    /// The time at which a packet was sent, if it was live: the age of a cached packet says nothing of a queue
    /// on the way.
    fn sent_live(&self, counter: u64, ring: &Ring) -> Option<Time> {
        let is_old = ring.place_of(counter).is_some_and(|(place, _)| self.is_caught_up(place));
        ring.time_of(counter).filter(|_| !is_old)
    }

    /// True if what it misses was lost behind a queue.
    pub(crate) fn is_congested(&self) -> bool {
        self.budget.is_congested()
    }

    /// True if it may be sent so much parity now, which it then is.
    pub(crate) fn affords(&mut self, bytes: usize) -> bool {
        !self.budget.is_congested() && self.budget.spend(bytes)
    }

    /// The time of its next item, if there is one.
    pub(crate) fn due(&self, ring: &Ring) -> Option<Time> {
        let has_next = self.next < ring.head() && self.stage != Stage::AwaitsKey;
        (!self.is_spent && (has_next || !self.front.is_empty())).then_some(self.free)
    }
}

#[cfg(test)]
mod tests;
