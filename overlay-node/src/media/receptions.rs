//! The latest counts of subscriptions, for other threads than the relay's.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use roost_core::node::Ticket;
use roost_reflection::subscription::{Reception, RequestReception};
use roost_wire::Time;

/// The counts of all requests, by the relay thread's last report: as many as the machine admits.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReceptionTable(Arc<Mutex<HashMap<Ticket, RequestReception>>>);

impl ReceptionTable {
    fn lock(&self) -> MutexGuard<'_, HashMap<Ticket, RequestReception>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters a request that may get a reflected stream.
    pub(super) fn begin(&self, ticket: Ticket) {
        self.lock().entry(ticket).or_default().begin();
    }

    /// Updates the counts of a request, unless it is over. The request cannot end before `hand_over` has returned, so
    /// that the counts and the data agree.
    pub(super) fn update(&self, ticket: Ticket, reception: Reception, hand_over: impl FnOnce()) {
        let mut table = self.lock();
        if table.get_mut(&ticket).is_some_and(|request| request.update(reception)) {
            hand_over();
        }
    }

    /// The requests that have or await a reflected stream.
    pub(super) fn tickets(&self) -> Vec<Ticket> {
        self.lock().iter().filter(|(_, request)| request.reflected().is_some()).map(|(ticket, _)| *ticket).collect()
    }

    /// Packets given up of a request's reflected stream; `None` if it has none.
    pub(crate) fn lost(&self, ticket: Ticket) -> Option<u64> {
        self.lock().get(&ticket)?.reflected().map(|reception| reception.lost)
    }

    /// Marks a request that has its own stream from now on. Returns false if it had no reflected one.
    pub(super) fn turn_direct(&self, ticket: Ticket, now: Time) -> bool {
        let mut table = self.lock();
        let Some(request) = table.get_mut(&ticket) else { return false };
        let had_reflected = request.turn_direct(now);
        if request.is_empty() {
            table.remove(&ticket);
        }
        had_reflected
    }

    /// Forgets a request, and returns its counts.
    pub(super) fn remove(&self, ticket: Ticket) -> Option<RequestReception> {
        self.lock().remove(&ticket)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICKET: Ticket = Ticket(7);

    #[test]
    fn ended_request_counts_nothing() {
        let (table, reception) = (ReceptionTable::default(), Reception { packets: 1, ..Reception::default() });
        table.begin(TICKET);
        table.update(TICKET, reception, || {});
        assert_eq!(table.remove(TICKET).and_then(|request| request.reflected().copied()), Some(reception));
        table.update(TICKET, reception, || panic!("it is over"));
        assert_eq!(table.remove(TICKET), None);
    }

    #[test]
    fn direct_stream_leaves_the_table() {
        let table = ReceptionTable::default();
        table.begin(TICKET);
        assert!(table.turn_direct(TICKET, Time::ZERO));
        assert_eq!(table.remove(TICKET), None, "nothing has come");
        table.begin(TICKET);
        table.update(TICKET, Reception { packets: 1, ..Reception::default() }, || {});
        assert!(table.turn_direct(TICKET, Time::ZERO));
        table.update(TICKET, Reception::default(), || panic!("it is the reflected one's"));
        assert_eq!((table.lost(TICKET), table.tickets()), (None, Vec::new()));
        assert!(table.remove(TICKET).is_some());
    }
}
