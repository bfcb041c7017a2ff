//! What has come of each watched stream, for the summary of its request.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use roost_proto::peer::{Summary, Ticket};

/// What has come for one request.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    /// Payload bytes.
    pub(crate) bytes: u64,
    /// Datagrams.
    pub(crate) packets: u64,
    /// Datagrams that were given up.
    pub(crate) lost: u64,
    /// Datagrams that came once more.
    pub(crate) duplicates: u64,
    /// How unevenly frames come, as of the last half second.
    pub(crate) jitter: Duration,
    /// When the first came, and the last.
    pub(crate) span: Option<(Instant, Instant)>,
}

/// All of them. The relay's thread writes, the machine's owner takes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tallies(Arc<Mutex<HashMap<Ticket, Tally>>>);

impl Tallies {
    fn lock(&self) -> MutexGuard<'_, HashMap<Ticket, Tally>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins with nothing, if the request is not known yet.
    pub(super) fn begin(&self, ticket: Ticket) {
        self.lock().entry(ticket).or_default();
    }

    /// Changes what is noted of a request; does nothing if that is over. Until `change` has
    /// returned the request is not over, so that what is counted and what is handed over agree.
    pub(super) fn note(&self, ticket: Ticket, change: impl FnOnce(&mut Tally)) {
        if let Some(tally) = self.lock().get_mut(&ticket) {
            change(tally);
        }
    }

    /// The requests that there are.
    pub(super) fn tickets(&self) -> Vec<Ticket> {
        self.lock().keys().copied().collect()
    }

    /// How much was given up of what comes for a request; `None` if nothing has come.
    pub(crate) fn lost(&self, ticket: Ticket) -> Option<u64> {
        self.lock().get(&ticket).map(|tally| tally.lost)
    }

    /// Forgets a request, and says what came for it.
    pub(crate) fn take(&self, ticket: Ticket) -> Option<Tally> {
        self.lock().remove(&ticket)
    }
}

impl Tally {
    /// Counts a datagram that is handed over.
    pub(super) fn count(&mut self, bytes: usize) {
        let now = Instant::now();
        self.bytes += bytes as u64;
        self.packets += 1;
        self.span = Some((self.span.map_or(now, |(first, _)| first), now));
    }

    /// Fills in what the machine cannot know, of a request that began at `began`.
    pub(crate) fn complete(&self, summary: &mut Summary, began: Instant) {
        let Self { bytes, packets, lost, duplicates, jitter, span } = *self;
        summary.jitter = jitter;
        (summary.bytes, summary.packets, summary.lost, summary.duplicates) = (bytes, packets, lost, duplicates);
        let Some((first, last)) = span else { return };
        summary.first_byte = first.saturating_duration_since(began);
        summary.bits_per_second = rate(bytes, last - first);
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

    #[test]
    fn nothing_is_noted_of_a_request_that_is_over() {
        let (tallies, ticket) = (Tallies::default(), Ticket(7));
        tallies.begin(ticket);
        tallies.note(ticket, |tally| tally.count(100));
        assert_eq!(tallies.take(ticket).map(|tally| (tally.bytes, tally.packets)), Some((100, 1)));
        tallies.note(ticket, |_| panic!("it is over"));
        assert!(tallies.take(ticket).is_none());
    }
}
