//! What has come of each watched stream, for the summary of its request.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use roost_proto::node::{RequestSummary, Ticket};
use roost_proto::wire::Reason;

/// What has come for one request.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ReceptionStats {
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
    /// Whether a super node has offered the stream: packets have a way here.
    pub(crate) is_offered: bool,
}

/// All of them. The relay's thread writes, the machine's owner takes.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReceptionTable(Arc<Mutex<HashMap<Ticket, ReceptionStats>>>);

impl ReceptionTable {
    fn lock(&self) -> MutexGuard<'_, HashMap<Ticket, ReceptionStats>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins with nothing, if the request is not known yet.
    pub(super) fn begin(&self, ticket: Ticket) {
        self.lock().entry(ticket).or_default();
    }

    /// Changes what is noted of a request; does nothing if that is over. Until `change` has
    /// returned the request is not over, so that what is counted and what is handed over agree.
    pub(super) fn update_stats(&self, ticket: Ticket, change: impl FnOnce(&mut ReceptionStats)) {
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
    pub(crate) fn remove_stats(&self, ticket: Ticket) -> Option<ReceptionStats> {
        self.lock().remove(&ticket)
    }
}

impl ReceptionStats {
    /// How many datagrams were not counted since the last one, at the rate at which they came before: where a
    /// stream goes on as another one their numbers do not tell.
    pub(super) fn missed_since(&self, now: Instant) -> u64 {
        let Some((first, last)) = self.span else { return 0 };
        let gap = now.saturating_duration_since(last).as_micros();
        let missed = (u128::from(self.packets) * gap).checked_div((last - first).as_micros()).unwrap_or(0);
        u64::try_from(missed).unwrap_or(u64::MAX)
    }

    /// The same of a stream that goes on in another way from now on.
    pub(super) fn broken_off(self, now: Instant) -> Self {
        Self { lost: self.lost.saturating_add(self.missed_since(now)), ..self }
    }

    /// Adds what had come before to the summary of what came afterwards, whose digest does not cover it.
    pub(super) fn precede(&self, summary: &mut RequestSummary) {
        summary.bytes += self.bytes;
        summary.packets += self.packets;
        summary.lost = summary.lost.saturating_add(self.lost);
        summary.duplicates += self.duplicates;
        summary.digest_ok = summary.digest_ok.filter(|is_ok| !is_ok);
    }

    /// Counts a datagram that is handed over.
    pub(super) fn count(&mut self, bytes: usize) {
        let now = Instant::now();
        self.bytes += bytes as u64;
        self.packets += 1;
        self.span = Some((self.span.map_or(now, |(first, _)| first), now));
    }

    /// Why nothing has come, as a reason and a sentence; `None` if something has. The provider may have `said`.
    pub(crate) fn emptiness(
        &self,
        said: Option<Reason>,
        provider: &str,
        media: Option<SocketAddr>,
    ) -> Option<(Reason, String)> {
        match (self.packets, self.is_offered || said == Some(Reason::SourceFailed)) {
            (1.., _) => None,
            (0, true) => {
                let why = format!("the source of {provider} gives nothing: switch its camera or feed on");
                Some((Reason::SourceFailed, why))
            }
            (0, false) => {
                let port = media.map(|media| format!(", {},", media.port())).unwrap_or_default();
                let why = format!(
                    "{provider} has accepted, but no packet of the stream came: let UDP through between this node's \
                     media port{port} and the media port of super nodes, usually 7702; `roost doctor` tests it"
                );
                Some((Reason::Unreachable, why))
            }
        }
    }

    /// Fills in what the machine cannot know, of a request that began at `began`.
    pub(crate) fn complete(&self, summary: &mut RequestSummary, began: Instant) {
        let Self { bytes, packets, lost, duplicates, jitter, span, .. } = *self;
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
    fn gap_counts_at_the_rate_before() {
        let began = Instant::now();
        let at = |millis| began + Duration::from_millis(millis);
        let tally = ReceptionStats { packets: 100, span: Some((began, at(1000))), ..ReceptionStats::default() };
        assert_eq!([1000, 1500, 4000].map(|millis| tally.missed_since(at(millis))), [0, 50, 300]);
        assert_eq!(ReceptionStats::default().missed_since(began), 0);
    }

    #[test]
    fn silent_source_explains_empty_stream() {
        let media = Some(SocketAddr::from(([127, 0, 0, 1], 44_487)));
        let said = |said, tally: ReceptionStats| tally.emptiness(said, "uav7", media);
        let (reason, why) = said(Some(Reason::SourceFailed), ReceptionStats::default()).unwrap();
        assert_eq!((reason, why.contains("the source of uav7 gives nothing")), (Reason::SourceFailed, true), "{why}");
        let (reason, why) = said(None, ReceptionStats::default()).unwrap();
        assert_eq!(
            (reason, why.contains("media port, 44487, and the media port")),
            (Reason::Unreachable, true),
            "{why}"
        );
        assert_eq!(said(Some(Reason::SourceFailed), ReceptionStats { packets: 1, ..ReceptionStats::default() }), None);
    }

    #[test]
    fn ended_request_counts_nothing() {
        let (tallies, ticket) = (ReceptionTable::default(), Ticket(7));
        tallies.begin(ticket);
        tallies.update_stats(ticket, |tally| tally.count(100));
        assert_eq!(tallies.remove_stats(ticket).map(|tally| (tally.bytes, tally.packets)), Some((100, 1)));
        tallies.update_stats(ticket, |_| panic!("it is over"));
        assert!(tallies.remove_stats(ticket).is_none());
    }
}
