//! Counts of one subscription, for the summary of its request.

use std::time::Duration;

use roost_core::node::RequestSummary;
use roost_wire::Time;
use roost_wire::messages::Reason;

/// All that has come for one request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reception {
    /// The time at which the request was made.
    pub began: Time,
    pub bytes: u64,
    pub packets: u64,
    /// Datagrams that were given up.
    pub lost: u64,
    /// Datagrams that came once more.
    pub duplicates: u64,
    /// Unevenness of frames, as of the last half second.
    pub jitter: Duration,
    /// The times of the first datagram and of the last.
    pub span: Option<(Time, Time)>,
    /// True once a super node has offered the stream: packets have a way here.
    pub is_offered: bool,
}

/// The cause of a stream of which nothing has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SilenceCause {
    Source,
    /// Packets do not find their way here.
    Path,
}

impl SilenceCause {
    /// The reason for which the request ends.
    pub const fn reason(self) -> Reason {
        match self {
            Self::Source => Reason::SourceFailed,
            Self::Path => Reason::Unreachable,
        }
    }
}

impl Reception {
    /// Datagrams that were not counted since the last one, at the rate at which they came before: where a
    /// stream goes on as another one their numbers do not tell.
    pub(super) fn missed_since(&self, now: Time) -> u64 {
        let Some((first, last)) = self.span else { return 0 };
        let gap = now.since(last).as_micros();
        let missed = (u128::from(self.packets) * gap).checked_div(last.since(first).as_micros()).unwrap_or(0);
        u64::try_from(missed).unwrap_or(u64::MAX)
    }

    /// The counts of a stream that goes on in another way from now on.
    fn broken_off(self, now: Time) -> Self {
        Self { lost: self.lost.saturating_add(self.missed_since(now)), ..self }
    }

    /// Adds these counts to the summary of the stream that came afterwards, whose digest does not cover them.
    fn precede(&self, summary: &mut RequestSummary) {
        summary.bytes += self.bytes;
        summary.packets += self.packets;
        summary.lost = summary.lost.saturating_add(self.lost);
        summary.duplicates += self.duplicates;
        summary.digest_ok = summary.digest_ok.filter(|is_ok| !is_ok);
    }

    /// Counts a datagram that is handed over.
    pub(crate) fn record_payload(&mut self, now: Time, bytes: usize) {
        self.bytes += bytes as u64;
        self.packets += 1;
        self.span = Some((self.span.map_or(now, |(first, _)| first), now));
    }

    /// Fills in the part of a summary that the node's machine cannot know.
    fn complete(&self, summary: &mut RequestSummary) {
        let Self { began, bytes, packets, lost, duplicates, jitter, span, .. } = *self;
        summary.jitter = jitter;
        (summary.bytes, summary.packets, summary.lost, summary.duplicates) = (bytes, packets, lost, duplicates);
        let Some((first, last)) = span else { return };
        summary.first_byte = first.since(began);
        summary.bits_per_second = rate(bytes, last.since(first));
    }

    /// The cause of a reflected stream that has ended without a packet, where the node's machine does not
    /// know better.
    fn silence(&self, summary: &RequestSummary) -> Option<SilenceCause> {
        let is_doubtful = summary.reflected && summary.broken.is_none();
        is_doubtful.then(|| self.silence_for(summary.reason)).flatten()
    }

    /// The cause, after the machine's own reason for the end.
    fn silence_for(&self, reason: Option<Reason>) -> Option<SilenceCause> {
        let silent = [Reason::Unreachable, Reason::TimedOut, Reason::SourceFailed];
        if self.packets > 0 || reason.is_some_and(|reason| !silent.contains(&reason)) {
            return None;
        }
        let has_way = self.is_offered || reason == Some(Reason::SourceFailed);
        Some(if has_way { SilenceCause::Source } else { SilenceCause::Path })
    }
}

/// The counts of one request, of its reflected stream and of an earlier one, for the summary at its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestReception {
    /// The counts of its reflected stream, while it has or awaits one.
    reflected: Option<Reception>,
    /// The counts of an earlier reflected stream, which goes on as one of the request's own.
    before: Option<Reception>,
}

impl RequestReception {
    /// The request may have a reflected stream: begins with nothing, unless it has one already.
    pub fn begin(&mut self) {
        self.reflected.get_or_insert_default();
    }

    /// Takes the counts of the reflected stream. Returns false if the request has none any more.
    pub fn update(&mut self, reception: Reception) -> bool {
        let is_current = self.reflected.is_some();
        if is_current {
            self.reflected = Some(reception);
        }
        is_current
    }

    pub fn reflected(&self) -> Option<&Reception> {
        self.reflected.as_ref()
    }

    /// The request has a stream of its own from now on. Returns false if it had no reflected one.
    pub fn turn_direct(&mut self, now: Time) -> bool {
        let Some(reception) = self.reflected.take() else { return false };
        if reception.packets > 0 {
            self.before = Some(reception.broken_off(now));
        }
        true
    }

    /// True if there is nothing to add to a summary.
    pub fn is_empty(&self) -> bool {
        self.reflected.is_none() && self.before.is_none()
    }

    /// Fills in the part of a summary that the node's machine cannot know. Returns the cause of a reflected stream
    /// of which nothing has come, where the machine does not know better.
    pub fn finish(&self, summary: &mut RequestSummary) -> Option<SilenceCause> {
        self.before.iter().for_each(|before| before.precede(summary));
        let reception = self.reflected?;
        reception.complete(summary);
        reception.silence(summary)
    }
}

/// Bits per second of `bytes` within `span`; 0 if there was none.
fn rate(bytes: u64, span: Duration) -> u64 {
    let rate = (u128::from(bytes) * 8_000_000).checked_div(span.as_micros()).unwrap_or(0);
    u64::try_from(rate).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::ZERO + Duration::from_millis(millis)
    }

    #[test]
    fn gap_counts_at_the_rate_before() {
        let reception = Reception { packets: 100, span: Some((at(0), at(1000))), ..Reception::default() };
        assert_eq!([1000, 1500, 4000].map(|millis| reception.missed_since(at(millis))), [0, 50, 300]);
        assert_eq!(Reception::default().missed_since(at(9)), 0);
    }

    #[test]
    fn silent_source_explains_empty_stream() {
        let silence = |reason, reception: Reception| reception.silence_for(reason);
        assert_eq!(silence(Some(Reason::SourceFailed), Reception::default()), Some(SilenceCause::Source));
        assert_eq!(silence(None, Reception { is_offered: true, ..Reception::default() }), Some(SilenceCause::Source));
        assert_eq!(silence(None, Reception::default()), Some(SilenceCause::Path));
        assert_eq!(silence(Some(Reason::SourceFailed), Reception { packets: 1, ..Reception::default() }), None);
        assert_eq!(silence(Some(Reason::Cancelled), Reception::default()), None, "the machine knows better");
    }

    #[test]
    fn payloads_count_with_their_times() {
        let mut reception = Reception::default();
        [300, 1300].into_iter().for_each(|millis| reception.record_payload(at(millis), 500));
        assert_eq!((reception.bytes, reception.packets, reception.span), (1000, 2, Some((at(300), at(1300)))));
        assert_eq!(reception.broken_off(at(2300)).lost, 2);
    }

    #[test]
    fn direct_stream_keeps_earlier_counts() {
        let reception = Reception { packets: 100, span: Some((at(0), at(1000))), ..Reception::default() };
        let mut request = RequestReception::default();
        assert!(!request.turn_direct(at(0)) && !request.update(reception));
        request.begin();
        assert!(request.turn_direct(at(0)) && request.is_empty(), "nothing has come");
        request.begin();
        assert!(request.update(reception) && request.turn_direct(at(1500)));
        assert!(!request.update(Reception::default()), "it has no reflected stream any more");
        assert_eq!((request.reflected(), request.before.map(|before| before.lost)), (None, Some(50)));
    }
}
