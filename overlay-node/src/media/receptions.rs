//! The latest counts of subscriptions, where other threads than the relay's can read them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use roost_proto::Time;
use roost_proto::node::Ticket;
use roost_reflection::subscription::Reception;

/// The counts of one request, as the relay's thread has reported them last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ReportedReception {
    /// Those of its reflected stream, while it may have one.
    pub(super) reflected: Option<Reception>,
    /// Those of an earlier reflected stream, which goes on as one of its own.
    pub(super) before: Option<Reception>,
}

/// All of them, as many as the machine admits requests.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReceptionTable(Arc<Mutex<HashMap<Ticket, ReportedReception>>>);

impl ReceptionTable {
    fn lock(&self) -> MutexGuard<'_, HashMap<Ticket, ReportedReception>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins with nothing, if the request has no reflected stream yet.
    pub(super) fn begin(&self, ticket: Ticket) {
        self.lock().entry(ticket).or_default().reflected.get_or_insert_default();
    }

    /// Takes the counts of a request, unless that is over. Until `hand_over` has returned it is not over, so that
    /// what is counted and what is handed over agree.
    pub(super) fn update(&self, ticket: Ticket, reception: Reception, hand_over: impl FnOnce()) {
        if let Some(reported) = self.lock().get_mut(&ticket).and_then(|reported| reported.reflected.as_mut()) {
            hand_over();
            *reported = reception;
        }
    }

    /// The requests that have or await a reflected stream.
    pub(super) fn tickets(&self) -> Vec<Ticket> {
        self.lock().iter().filter(|(_, reported)| reported.reflected.is_some()).map(|(ticket, _)| *ticket).collect()
    }

    /// Packets given up of a request's reflected stream; `None` if it has none.
    pub(crate) fn lost(&self, ticket: Ticket) -> Option<u64> {
        self.lock().get(&ticket)?.reflected.map(|reception| reception.lost)
    }

    /// A request has a stream of its own from now on. Returns false if it had no reflected one.
    pub(super) fn turn_direct(&self, ticket: Ticket, now: Time) -> bool {
        let mut table = self.lock();
        let Some(reception) = table.get_mut(&ticket).and_then(|reported| reported.reflected.take()) else {
            return false;
        };
        let had_packets = reception.packets > 0;
        if let Some(reported) = table.get_mut(&ticket).filter(|_| had_packets) {
            reported.before = Some(reception.broken_off(now));
        }
        if table.get(&ticket).is_some_and(|reported| reported.before.is_none()) {
            table.remove(&ticket);
        }
        true
    }

    /// Forgets a request, and returns its counts.
    pub(super) fn remove(&self, ticket: Ticket) -> Option<ReportedReception> {
        self.lock().remove(&ticket)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const TICKET: Ticket = Ticket(7);

    fn at(millis: u64) -> Time {
        Time::ZERO + Duration::from_millis(millis)
    }

    fn reception(packets: u64) -> Reception {
        Reception { packets, span: Some((at(0), at(1000))), ..Reception::default() }
    }

    #[test]
    fn ended_request_counts_nothing() {
        let table = ReceptionTable::default();
        table.begin(TICKET);
        table.update(TICKET, reception(1), || {});
        assert_eq!(table.remove(TICKET).and_then(|reported| reported.reflected), Some(reception(1)));
        table.update(TICKET, reception(2), || panic!("it is over"));
        assert_eq!(table.remove(TICKET), None);
    }

    #[test]
    fn direct_stream_keeps_earlier_counts() {
        let table = ReceptionTable::default();
        assert!(!table.turn_direct(TICKET, at(0)));
        table.begin(TICKET);
        assert!(table.turn_direct(TICKET, at(0)));
        assert_eq!(table.remove(TICKET), None, "nothing has come");
        table.begin(TICKET);
        table.update(TICKET, reception(100), || {});
        assert!(table.turn_direct(TICKET, at(1500)));
        table.update(TICKET, reception(101), || panic!("it is the reflected one's"));
        assert_eq!((table.lost(TICKET), table.tickets()), (None, Vec::new()));
        let before = Some(Reception { lost: 50, ..reception(100) });
        assert_eq!(table.remove(TICKET), Some(ReportedReception { reflected: None, before }));
    }
}
