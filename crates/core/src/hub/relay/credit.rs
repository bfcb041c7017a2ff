//! Limits of what is on its way to the two ends of a flow. A provider goes no further beyond the requester's
//! reports than flows do, whatever it was told; a requester reports no more often than data comes.

use std::time::Duration;

use roost_wire::messages::MAX_BODY_BYTES;
use roost_wire::{Service, Time};

use crate::flow::{MAX_BODY_TIMES, MAX_KEPT_BYTES, WINDOW_BYTES};

/// So many times as much as an honest provider sends beyond the reports may wait at the hub: after a
/// silence it sends again what may be lost.
pub(super) const TIMES: u64 = 4;

/// Reports of a flow within [`SPAN`], beside one for each message of its provider.
const MAX_REPORTS: u32 = 64;

/// The most reports that can be saved up: an honest requester reports soon after something comes.
const MAX_SAVED_REPORTS: u32 = 1_024;

/// See [`MAX_REPORTS`].
const SPAN: Duration = Duration::from_secs(1);

/// The most of the body of a call that passes on, however often it is given again: its provider asks for it again after
/// a silence.
const MAX_BODIES: u64 = MAX_BODY_TIMES as u64 * MAX_BODY_BYTES as u64;

/// Counts what was passed on in a flow.
#[derive(Debug)]
pub(super) struct Credit {
    /// Bytes of the body that have come from the requester.
    body: u64,
    /// Bytes towards the requester that it has not reported.
    under_way: u64,
    /// Payload bytes that it has reported.
    reported: u64,
    /// Reports that may still be passed on in the present span, and its beginning.
    reports: u32,
    since: Time,
}

impl Default for Credit {
    fn default() -> Self {
        Self { body: 0, under_way: 0, reported: 0, reports: MAX_REPORTS, since: Time::ZERO }
    }
}

impl Credit {
    /// Takes note of a piece of the body of a call. False if that is more than any provider asks for.
    pub(super) fn gives(&mut self, service: Service, bytes: usize) -> bool {
        self.body = self.body.saturating_add(bytes as u64);
        service.is_call() && self.body <= MAX_BODIES
    }

    /// Takes note of what the provider sends reliably. False if it is beyond all credit.
    pub(super) fn sends(&mut self, service: Service, bytes: usize) -> bool {
        self.under_way = self.under_way.saturating_add(bytes as u64);
        self.reports = (self.reports + 1).min(MAX_SAVED_REPORTS);
        let ahead = if service.is_stream() { MAX_KEPT_BYTES as u64 } else { WINDOW_BYTES };
        self.under_way <= ahead * TIMES
    }

    /// The requester reports so many bytes of payload. False if it reports too often.
    pub(super) fn reports(&mut self, now: Time, bytes: u64) -> bool {
        let fresh = bytes.saturating_sub(self.reported);
        self.reported = self.reported.max(bytes);
        // Twice: what was sent again is reported once.
        self.under_way = self.under_way.saturating_sub(fresh.saturating_mul(2));
        if now.since(self.since) >= SPAN {
            (self.since, self.reports) = (now, self.reports.max(MAX_REPORTS));
        }
        self.reports = self.reports.saturating_sub(1);
        self.reports > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHUNK: usize = 16 * 1024;

    #[test]
    fn honest_flow_passes_whatever_it_repeats() {
        let (mut credit, mut now, mut delivered) = (Credit::default(), Time::ZERO, 0);
        for round in 0..200_u64 {
            // Every third window is sent twice.
            for _ in 0..if round.is_multiple_of(3) { 32 } else { 16 } {
                assert!(credit.sends(Service::Image, CHUNK));
            }
            for _ in 0..16 {
                delivered += CHUNK as u64;
                assert!(credit.reports(now, delivered));
            }
            now = now + Duration::from_millis(100);
        }
    }

    #[test]
    fn flood_ends_however_much_was_read() {
        let mut credit = Credit::default();
        for read in 1..1_000 {
            assert!(credit.sends(Service::Image, CHUNK) && credit.reports(Time::ZERO, read * CHUNK as u64));
        }
        let more = (0..1_000).take_while(|_| credit.sends(Service::Image, CHUNK)).count();
        assert_eq!(more as u64, TIMES * WINDOW_BYTES / CHUNK as u64);
    }

    #[test]
    fn body_passes_a_few_times() {
        let mut credit = Credit::default();
        let calls: Service = "acme/tiles:call".parse().unwrap();
        let pieces = (0..1_000).take_while(|_| credit.gives(calls, CHUNK)).count();
        assert_eq!(pieces, usize::from(MAX_BODY_TIMES) * MAX_BODY_BYTES / CHUNK);
        assert!(!Credit::default().gives(Service::Image, 1));
    }

    #[test]
    fn idle_reports_are_few() {
        let mut credit = Credit::default();
        let passed = (0..10_000_u64).filter(|tick| credit.reports(Time::from_nanos(tick * 1_000_000), 5)).count();
        assert!((600..=650).contains(&passed), "{passed} in ten seconds");
    }
}
