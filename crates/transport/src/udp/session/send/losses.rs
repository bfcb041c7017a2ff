//! Detection of losses, and probes when the remote is silent.

use std::time::{Duration, Instant};

use super::super::PathChange;
use super::super::recovery::{Pacer, REORDERING, Window};
use super::{ReliableSender, Sent};

/// The time for which a remote may leave reliable data unacknowledged before it counts as gone.
const PATIENCE: Duration = Duration::from_secs(10);
/// The least number of probes that it must have ignored as well.
const MIN_PROBES: u32 = 3;

/// The remote has acknowledged nothing for too long.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RemoteSilent;

impl ReliableSender {
    /// Declares packets lost that later ones have overtaken (RFC 9002, section 6.1).
    pub(super) fn detect_losses(&mut self, now: Instant) {
        let Some(largest) = self.largest_acked else { return };
        let delay = self.rtt.loss_delay();
        let overdue = |number: u32, sent: &Sent| number + REORDERING <= largest || sent.at + delay <= now;
        while let Some((number, sent)) = self.under_way.first_key_value() {
            if *number > largest || !overdue(*number, sent) {
                return;
            }
            let Some((_, sent)) = self.under_way.pop_first() else { return };
            self.in_flight -= sent.size;
            self.window.lost(now, sent.at, &self.rtt);
            self.note_lost(&sent);
        }
    }

    fn note_lost(&mut self, sent: &Sent) {
        if let Some(level) = self.outgoing(sent.message).map(|outgoing| outgoing.level) {
            self.lost.insert((level, sent.message, sent.part));
        }
    }

    /// Sends one probe at once, because the packets under way may not have arrived. The times of the next probe and of
    /// giving up stay the same.
    pub(in crate::udp::session) fn probe(&mut self) {
        if self.probe_deadline().is_some() {
            self.probes = self.probes.max(1);
        }
    }

    pub(in crate::udp::session) fn is_probing(&self) -> bool {
        self.probes > 0
    }

    /// Counts all packets under way as lost, since they went to the remote's former address. Measurements of another
    /// host's path do not apply any more (RFC 9000, section 9.4).
    pub(in crate::udp::session) fn change_path(&mut self, now: Instant, change: PathChange) {
        for sent in std::mem::take(&mut self.under_way).into_values() {
            self.note_lost(&sent);
        }
        self.in_flight = 0;
        self.failures = 0;
        self.silent_since = None;
        self.timer_from = self.has_lost().then_some(now);
        if change == PathChange::Host {
            self.window = Window::new(self.packet_bytes);
            self.pacer = self.pacer.take().map(|_| Pacer::default());
            self.rtt.measure_anew();
        }
    }

    /// Runs the due timers: detects losses, and starts probes.
    pub(in crate::udp::session) fn handle_timeout(&mut self, now: Instant) -> Result<(), RemoteSilent> {
        if self.loss_deadline().is_some_and(|at| at <= now) {
            self.detect_losses(now);
        }
        let asks = self.probe_deadline().is_some_and(|at| at <= now);
        let ignored = if asks { self.failures } else { self.failures.saturating_sub(1) };
        if ignored >= MIN_PROBES && self.patience_ends().is_some_and(|at| at <= now) {
            return Err(RemoteSilent);
        }
        if asks {
            self.failures += 1;
            self.probes = 2;
            self.timer_from = Some(now);
        }
        Ok(())
    }

    /// The time at which [`Self::handle_timeout`] must be called.
    pub(in crate::udp::session) fn deadline(&self) -> Option<Instant> {
        let patience = self.patience_ends().filter(|_| self.failures > MIN_PROBES);
        let probing = self.probe_deadline().into_iter().chain(patience);
        self.loss_deadline().into_iter().chain(probing).chain(self.paced).min()
    }

    /// The time at which the remote counts as gone, if it has ignored enough probes. The last probe that has left may
    /// still be answered.
    fn patience_ends(&self) -> Option<Instant> {
        self.silent_since.filter(|_| self.probe_deadline().is_some()).map(|since| since + PATIENCE)
    }

    fn loss_deadline(&self) -> Option<Instant> {
        let (number, sent) = self.under_way.first_key_value()?;
        self.largest_acked.filter(|largest| number < largest).map(|_| sent.at + self.rtt.loss_delay())
    }

    fn probe_deadline(&self) -> Option<Instant> {
        let from = self.timer_from.filter(|_| !self.under_way.is_empty() || self.has_lost())?;
        Some(from + self.rtt.pto(self.failures))
    }
}
