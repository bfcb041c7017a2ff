//! The share of parity that a target gets.

use std::time::Duration;

use roost_wire::Time;

use super::{BLOCK_PACKETS, MAX_PARITY};
use crate::control::ReceiverReport;

/// Parity begins when more than this part of a stream is missing for good, as far as this hop is
/// to blame.
const MISSED: f64 = 0.001;
/// Loss below this is none.
const LOST: f64 = 0.002;
/// Parity goes on for this time after the last loss.
const CALM: Duration = Duration::from_secs(30);
/// Over how many packets loss is averaged, so that a single one is no reason; and how much a report
/// of many counts at most.
const AVERAGED: f64 = 2000.0;
const MOST: f64 = 0.25;

/// The loss of one target, as it reports it, and what it gets for it.
#[derive(Debug, Default)]
pub(crate) struct ParityRate {
    before: ReceiverReport,
    own_missed: u64,
    /// Parts of all packets, smoothed over some reports.
    lost: f64,
    missed: f64,
    until: Option<Time>,
}

impl ParityRate {
    /// A report, and how much of the stream has been missed here so far: that was not lost on this hop.
    pub(crate) fn report(&mut self, now: Time, reported: ReceiverReport, own_missed: u64) {
        let grown = |now: u64, before: u64| now as f64 - before as f64;
        let packets = grown(reported.received, self.before.received);
        let own = grown(own_missed, self.own_missed);
        // A late packet counts as missed until it comes, here or there: both counts may fall.
        let lost = grown(reported.lost, self.before.lost) - own;
        let missed = grown(reported.missed, self.before.missed) - own;
        (self.before, self.own_missed) = (reported, own_missed);
        // A receiver that gets nothing has lost its way, not packets.
        let weight = (packets / AVERAGED).clamp(0.0, MOST);
        if weight > 0.0 {
            self.lost += (lost / packets - self.lost) * weight;
            self.missed += (missed / packets - self.missed) * weight;
        }
        let goes_on = self.until.is_some() && self.lost > LOST;
        if self.missed > MISSED || goes_on {
            self.until = Some(now + CALM);
        }
    }

    /// Parity for a full block: what is lost of it on average, and twice its deviation.
    pub(crate) fn parity(&mut self, now: Time) -> u8 {
        self.until = self.until.filter(|until| now < *until);
        if self.until.is_none() {
            return 0;
        }
        let mean = f64::from(BLOCK_PACKETS) * self.lost.max(0.0);
        ((mean + 2.0 * mean.sqrt()).ceil() as u8).clamp(1, MAX_PARITY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(seconds)
    }

    /// Parity after each second of 1000 packets with these losses, of which so many are not repaired.
    fn shares(seconds: &[(u64, u64, u64)]) -> Vec<u8> {
        let (mut share, mut sum, mut own) = (ParityRate::default(), ReceiverReport::default(), 0);
        let mut after = |(second, (lost, missed, own_missed)): (usize, &(u64, u64, u64))| {
            sum.received += 1000 - missed;
            (sum.lost, sum.missed, own) = (sum.lost + lost, sum.missed + missed, own + own_missed);
            share.report(at(second as u64), sum, own);
            share.parity(at(second as u64))
        };
        seconds.iter().enumerate().map(&mut after).collect()
    }

    #[test]
    fn timely_repair_needs_no_parity() {
        assert_eq!(shares(&[(50, 0, 0); 60]), [0; 60]);
    }

    #[test]
    fn parity_lasts_until_loss_ends() {
        let parity = shares(&[vec![(20, 20, 0); 20], vec![(20, 0, 0); 100], vec![(0, 0, 0); 60]].concat());
        assert!(parity[0] > 0 && (2..=3).contains(&parity[19]), "{parity:?}");
        assert!(parity[119] >= 2, "it is parity that makes up for it: {parity:?}");
        assert_eq!(parity[179], 0);
    }

    #[test]
    fn upstream_loss_adds_no_parity() {
        assert_eq!(shares(&[(20, 20, 20); 60]), [0; 60]);
    }

    #[test]
    fn there_is_an_end_to_it() {
        assert!(shares(&[(600, 600, 0); 60]).into_iter().all(|parity| parity <= MAX_PARITY));
    }
}
