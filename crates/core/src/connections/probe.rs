//! Pings by which a round trip is measured.

use std::time::Duration;

use roost_wire::Time;

/// The last ping over a connection. Its token tells its answer from that to one before.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Probe {
    sent: Option<Time>,
    awaited: Option<u32>,
}

impl Probe {
    pub(crate) fn begin(&mut self, now: Time, token: u32) {
        (self.sent, self.awaited) = (Some(now), Some(token));
    }

    /// True if a ping went within this time, answered or not.
    pub(crate) fn was_sent_within(&self, now: Time, time: Duration) -> bool {
        self.sent.is_some_and(|sent| now.since(sent) < time)
    }

    /// True if a ping went within this time and is unanswered.
    pub(crate) fn is_awaited(&self, now: Time, time: Duration) -> bool {
        self.awaited.is_some() && self.was_sent_within(now, time)
    }

    /// The round trip that an answer shows; `None` if nothing asked for it, or it came before.
    pub(crate) fn answer(&mut self, now: Time, token: u32) -> Option<Duration> {
        self.awaited.take_if(|awaited| *awaited == token)?;
        self.sent.map(|sent| now.since(sent))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRIP: Duration = Duration::from_millis(40);

    #[test]
    fn answer_counts_once() {
        let mut probe = Probe::default();
        let sent = Time::ZERO + TRIP;
        assert_eq!(probe.answer(sent, 7), None, "nothing was asked");
        probe.begin(sent, 7);
        assert_eq!(probe.answer(sent + TRIP, 8), None, "it answers another ping");
        assert!(probe.is_awaited(sent + TRIP, TRIP * 2) && !probe.is_awaited(sent + TRIP, TRIP));
        assert_eq!(probe.answer(sent + TRIP, 7), Some(TRIP));
        assert_eq!(probe.answer(sent + TRIP, 7), None, "the network has doubled it");
        assert!(probe.was_sent_within(sent + TRIP, TRIP * 2) && !probe.is_awaited(sent + TRIP, TRIP * 2));
    }
}
