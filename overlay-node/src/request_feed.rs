//! The feed of this node's requests, for `roost record`.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use roost_api::types::{RequestBegan, RequestEnded, RequestLine, RequestResult};
use roost_api::{Code, SCHEMA, TransferSummary};
use roost_core::node::Ticket;
use roost_runtime::shared::millis;
use roost_wire::Scheme;
use roost_wire::messages::ServiceRequest;
use tokio::sync::broadcast;

use crate::rows;
use crate::tickets::Reply;

/// Lines that wait for a reader: some seconds of a busy node.
const MAX_WAITING: usize = 1024;

#[derive(Debug)]
struct UnderWay {
    row: RequestBegan,
    began: Instant,
}

#[derive(Debug)]
pub(crate) struct RequestFeed {
    lines: broadcast::Sender<RequestLine>,
    under_way: Mutex<BTreeMap<Ticket, UnderWay>>,
}

impl Default for RequestFeed {
    fn default() -> Self {
        Self { lines: broadcast::Sender::new(MAX_WAITING), under_way: Mutex::default() }
    }
}

/// The lines of one reader: the requests under way first.
#[derive(Debug)]
pub(crate) struct RequestLines {
    first: std::vec::IntoIter<RequestLine>,
    later: broadcast::Receiver<RequestLine>,
}

impl RequestFeed {
    pub(crate) fn begin(&self, ticket: Ticket, request: &ServiceRequest) {
        let row = began_row(ticket, request);
        let mut under_way = self.lock();
        // Without a reader nobody receives it.
        let _ = self.lines.send(RequestLine::Began(row.clone()));
        under_way.insert(ticket, UnderWay { row, began: Instant::now() });
    }

    /// Ends a request with its last reply; other tickets are unknown here.
    pub(crate) fn end(&self, ticket: Ticket, reply: &Reply) {
        match reply {
            Reply::Finished(summary) => {
                let damage = rows::damage(summary).map(|error| error.code);
                let outcome = if damage.is_none() { RequestResult::Completed } else { RequestResult::Failed };
                self.close(ticket, outcome, damage, Some(rows::summary(summary, 0)));
            }
            Reply::Failed(failure) => {
                self.close(ticket, RequestResult::Failed, Some(Code::from(failure.reason)), None);
            }
            _ => {}
        }
    }

    pub(crate) fn cancel(&self, ticket: Ticket) {
        self.close(ticket, RequestResult::Cancelled, None, None);
    }

    pub(crate) fn subscribe(&self) -> RequestLines {
        let under_way = self.lock();
        let first: Vec<_> = under_way.values().map(|one| RequestLine::Began(one.row.clone())).collect();
        RequestLines { first: first.into_iter(), later: self.lines.subscribe() }
    }

    fn close(&self, ticket: Ticket, outcome: RequestResult, error: Option<Code>, summary: Option<TransferSummary>) {
        let mut under_way = self.lock();
        let Some(UnderWay { began, .. }) = under_way.remove(&ticket) else { return };
        let elapsed_ms = summary.as_ref().map_or_else(|| millis(began.elapsed()), |summary| summary.elapsed_ms);
        let ended = RequestEnded { schema: SCHEMA, request: ticket.0, outcome, error, elapsed_ms, summary };
        // As above.
        let _ = self.lines.send(RequestLine::Ended(ended));
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Ticket, UnderWay>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RequestLines {
    /// The next line; `None` when the daemon ends.
    pub(crate) async fn next(&mut self) -> Option<RequestLine> {
        if let Some(line) = self.first.next() {
            return Some(line);
        }
        match self.later.recv().await {
            Ok(line) => Some(line),
            Err(broadcast::error::RecvError::Lagged(count)) => Some(RequestLine::Missed { count }),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }
}

fn began_row(ticket: Ticket, request: &ServiceRequest) -> RequestBegan {
    let whole = |time: std::time::Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    RequestBegan {
        schema: SCHEMA,
        request: ticket.0,
        began_unix_ms: whole(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()),
        service: request.service,
        area: request.area,
        provider: request.provider,
        transports: Scheme::ALL.into_iter().filter(|scheme| request.transports.contains(*scheme)).collect(),
        reflect: request.reflect,
        duration_ms: request.duration.map(whole),
        timeout_ms: request.timeout.map(whole),
    }
}

#[cfg(test)]
mod tests {
    use roost_wire::messages::Reason;
    use roost_wire::{Area, Service};

    use super::*;
    use crate::tickets::Failure;

    fn request() -> ServiceRequest {
        ServiceRequest::new(Service::Video, Area::Anywhere)
    }

    #[tokio::test]
    async fn reader_gets_requests_under_way() {
        let feed = RequestFeed::default();
        feed.begin(Ticket(1), &request());
        feed.begin(Ticket(2), &request());
        feed.cancel(Ticket(1));
        let mut lines = feed.subscribe();
        feed.end(Ticket(2), &Reply::Failed(Failure::new(Reason::Busy, "full")));
        let Some(RequestLine::Began(began)) = lines.next().await else { panic!("it is under way") };
        assert_eq!((began.request, began.service), (2, Service::Video));
        let Some(RequestLine::Ended(ended)) = lines.next().await else { panic!("it has ended") };
        assert_eq!((ended.request, ended.outcome, ended.error), (2, RequestResult::Failed, Some(Code::Busy)));
    }

    #[tokio::test]
    async fn slow_reader_hears_of_gap() {
        let feed = RequestFeed::default();
        let mut lines = feed.subscribe();
        (0..MAX_WAITING as u64 + 10).for_each(|number| feed.begin(Ticket(number), &request()));
        assert!(matches!(lines.next().await, Some(RequestLine::Missed { count: 10 })));
        assert!(matches!(lines.next().await, Some(RequestLine::Began(began)) if began.request == 10));
    }

    #[tokio::test]
    async fn other_tickets_are_no_requests() {
        let feed = RequestFeed::default();
        let mut lines = feed.subscribe();
        feed.end(Ticket(7), &Reply::Failed(Failure::new(Reason::Busy, "full")));
        feed.cancel(Ticket(8));
        drop(feed);
        assert!(lines.next().await.is_none());
    }
}
