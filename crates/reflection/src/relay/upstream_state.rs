//! The state of an upstream: the packets that come from it, and its losses.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use roost_wire::Time;

use crate::control::{MAX_NACKED, PathToken, ReceiverReport};
use crate::loss_tracker::{MAX_GAP, StreamStart, first_counter_of};
use crate::packet::{Header, Hop};

/// Silence after which an upstream is gone: it says something each second.
pub(super) const SILENCE: Duration = Duration::from_secs(3);
/// Silence in the midst of a run of packets makes an upstream doubtful: one that lives says within some 50 ms that
/// there is a pause. Four times the longest gap between packets of late, and no less than this, which is longer than
/// most paths delay a packet.
const DOUBT_GAPS: u32 = 4;
const LEAST_DOUBT: Duration = Duration::from_millis(300);
/// Downstreams wait so long for a stream that has no upstream any more: as long as a request takes.
pub(super) const ROOTLESS: Duration = Duration::from_secs(10);
/// An upstream gets a report so often, which keeps the lease.
pub(super) const REPORT: Duration = Duration::from_secs(1);
/// The upstreams that may stand in for others are looked up so often.
pub(super) const LOOK: Duration = Duration::from_millis(50);
/// Packets that did not fit into one message are asked for after this time.
pub(super) const ASK_AGAIN: Duration = Duration::from_millis(1);
/// A new upstream carries live packets for this time before the ones before it are left.
const PROVEN: Duration = Duration::from_millis(200);
/// Unless packets between the two are missing still; then so much longer at most.
const OVERLAP: Duration = Duration::from_secs(2);
/// "Find another way" holds for this time, unless it is said again.
const MOVING: Duration = Duration::from_millis(2500);
/// The round trip before it is known, and the most that is believed.
const ROUND_TRIP: Duration = Duration::from_millis(40);
const MAX_ROUND_TRIP: Duration = Duration::from_millis(700);

#[derive(Debug)]
pub(super) struct Upstream {
    pub(super) address: SocketAddr,
    pub(super) word: PathToken,
    /// The number of the latest request that it is an answer to.
    pub(super) request: u64,
    /// The time of the last answer to it.
    answered: Time,
    /// The time of the last datagram from it.
    pub(super) heard: Time,
    /// True if that was a live packet of a run, and the longest gap between such packets of late.
    runs: bool,
    gap: Duration,
    moving: Option<Time>,
    /// The hops from the publisher to it.
    pub(super) depth: u8,
    first: Option<u64>,
    highest: u64,
    /// The time since which it carries live packets.
    live: Option<Time>,
    beginning: StreamStart,
    received: u64,
    lost: u64,
    /// The last that count as lost: those that were only overtaken do not, when they come.
    missing: BTreeSet<u64>,
    pub(super) nacks: u64,
    /// The present frame, and when it began.
    frame: Option<(u16, Time)>,
    /// Between frames, smoothed, and its mean deviation; microseconds.
    spacing: f64,
    jitter: f64,
    pub(super) round_trip: Duration,
    is_measured: bool,
    /// The first packet that was asked for, and when.
    asked: Option<(u64, Time)>,
    pub(super) report_due: Time,
}

impl Upstream {
    pub(super) fn new(now: Time, address: SocketAddr, word: PathToken) -> Self {
        Self {
            address,
            word,
            request: 0,
            answered: now,
            heard: now,
            runs: false,
            gap: Duration::ZERO,
            moving: None,
            depth: 0,
            first: None,
            highest: 0,
            live: None,
            beginning: StreamStart::default(),
            received: 0,
            lost: 0,
            missing: BTreeSet::new(),
            nacks: 0,
            frame: None,
            spacing: 0.0,
            jitter: 0.0,
            round_trip: ROUND_TRIP,
            is_measured: false,
            asked: None,
            report_due: now + REPORT,
        }
    }

    /// Answers a new offer: earlier words of the upstream hold no more. If the offer is for a later request the
    /// upstream has to prove itself again.
    pub(super) fn answer(&mut self, now: Time, word: PathToken, request: u64) {
        (self.word, self.answered, self.heard, self.moving) = (word, now, now, None);
        if request > self.request {
            (self.request, self.first, self.live) = (request, None, None);
        }
    }

    pub(super) fn record_packet(&mut self, now: Time, hop: Hop, header: &Header) {
        if self.runs {
            self.gap = now.since(self.heard).max(self.gap - self.gap / 64);
        }
        (self.heard, self.runs) = (now, !hop.catch_up);
        self.received += 1;
        self.measure(now, hop, header.counter);
        let first = self.first.get_or_insert(header.counter);
        *first = header.counter.min(*first);
        if !hop.catch_up {
            self.live.get_or_insert(now);
            self.depth = hop.hops;
            self.note_frame(now, header.frame);
        }
        let before = (self.highest > 0).then(|| header.counter.saturating_sub(self.highest));
        if before != Some(0) {
            let begins = self.beginning.record_packet(before, hop.catch_up, header.flags);
            if before.is_none() {
                self.highest = first_counter_of(header.counter).saturating_sub(1);
            }
            if before.is_none() || !begins {
                self.lose(header.counter);
            }
            self.highest = header.counter;
        } else if self.missing.remove(&header.counter) && !hop.catch_up {
            // The packet was only overtaken; a repaired one was lost all the same.
            self.lost -= 1;
        }
    }

    /// A packet was brought back that it has sent: it was lost, unless it comes after all.
    pub(super) fn brought_back(&mut self, now: Time, counter: u64) {
        self.heard = now;
        self.received += 1;
        if self.highest > 0 && counter > self.highest {
            self.lose(counter.saturating_add(1));
            self.highest = counter;
        }
    }

    /// Forgets the counters so far: those that follow have nothing to do with them.
    pub(super) fn reset_sequence(&mut self) {
        (self.highest, self.beginning) = (0, StreamStart::default());
        self.missing.clear();
    }

    /// The upstream is there, at this depth, and has sent all packets before this one.
    pub(super) fn record_heartbeat(&mut self, now: Time, depth: u8, next: u64) {
        (self.heard, self.runs, self.depth) = (now, false, depth);
        if self.highest > 0 && next > self.highest && next - self.highest <= MAX_GAP {
            self.lose(next);
            self.highest = next - 1;
        }
    }

    /// Counts the packets before this one as lost that have not come, unless they were skipped.
    fn lose(&mut self, next: u64) {
        let after = self.highest.saturating_add(1);
        if next.saturating_sub(self.highest) <= MAX_GAP {
            self.lost += next.saturating_sub(after);
            self.missing.extend(after..next);
        }
        while self.missing.len() as u64 > MAX_NACKED {
            self.missing.pop_first();
        }
    }

    fn measure(&mut self, now: Time, hop: Hop, counter: u64) {
        if let Some((_, at)) = self.asked.filter(|(asked, _)| *asked == counter) {
            self.asked = None;
            let sample = now.since(at).min(MAX_ROUND_TRIP);
            // A live packet may have been on its way before the request.
            if hop.catch_up {
                self.round_trip = if self.is_measured { (self.round_trip * 7 + sample) / 8 } else { sample };
                self.is_measured = true;
            }
        } else if !self.is_measured && self.first.is_none() && hop.catch_up {
            // A cached packet leaves when the answer is there, or before it; a live one when there is some.
            self.round_trip = now.since(self.answered).clamp(self.round_trip, MAX_ROUND_TRIP);
        }
    }

    /// The frames' spacing, by their first packets.
    fn note_frame(&mut self, now: Time, frame: u16) {
        let before = self.frame.filter(|(number, _)| *number != frame);
        if self.frame.is_none() || before.is_some_and(|(number, _)| frame.wrapping_sub(number) < 1 << 15) {
            self.frame = Some((frame, now));
        }
        if let Some((_, at)) = before.filter(|(number, _)| frame.wrapping_sub(*number) == 1) {
            let gap = now.since(at).as_micros() as f64;
            let deviation = if self.spacing > 0.0 { (gap - self.spacing).abs() } else { 0.0 };
            self.spacing += if self.spacing > 0.0 { (gap - self.spacing) / 16.0 } else { gap };
            self.jitter += (deviation - self.jitter) / 16.0;
        }
    }

    /// Notes the first of the packets that it is asked for.
    pub(super) fn ask(&mut self, now: Time, counter: u64) {
        self.nacks += 1;
        if self.asked.is_none_or(|(_, at)| now.since(at) > MAX_ROUND_TRIP) {
            self.asked = Some((counter, now));
        }
    }

    /// The report to the upstream, with the number of packets of the stream that have been missed.
    pub(super) fn reported(&self, missed: u64) -> ReceiverReport {
        let Self { received, lost, highest, .. } = *self;
        ReceiverReport { received, lost, missed, highest, jitter_us: self.jitter as u32 }
    }

    pub(super) fn record_leaving(&mut self, now: Time) {
        (self.heard, self.moving) = (now, Some(now));
    }

    pub(super) fn is_leaving(&self, now: Time) -> bool {
        self.is_doubtful(now) || self.moving.is_some_and(|since| now.since(since) < MOVING)
    }

    /// True if its packets have stopped without a word.
    pub(super) fn is_doubtful(&self, now: Time) -> bool {
        self.doubt_at().is_some_and(|at| now >= at)
    }

    /// The time at which it becomes doubtful, if nothing is heard of it until then.
    fn doubt_at(&self) -> Option<Time> {
        let silence = (self.gap * DOUBT_GAPS).clamp(LEAST_DOUBT, SILENCE);
        (self.runs && !self.gap.is_zero()).then(|| self.heard + silence)
    }

    /// True if it can stand in for another, so that nothing is missing without that one.
    pub(super) fn stands_in_for(&self, now: Time, other: &Self) -> bool {
        let Some(live) = self.live.filter(|live| now.since(*live) >= PROVEN) else { return false };
        let meets = self.first.is_some_and(|first| other.highest.saturating_add(1) >= first);
        !self.is_leaving(now) && (meets || other.first.is_none() || now.since(live) >= PROVEN + OVERLAP)
    }

    /// True if it has been there for longer than a change takes.
    pub(super) fn is_old(&self, now: Time) -> bool {
        now.since(self.answered) >= PROVEN + OVERLAP
    }

    /// The time of the next look at it.
    pub(super) fn due(&self, now: Time) -> Time {
        let doubt = self.doubt_at().filter(|at| *at > now);
        doubt.into_iter().fold(self.report_due.min(self.heard + SILENCE), Time::min)
    }
}
