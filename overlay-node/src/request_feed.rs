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

#[derive(Debug, Default)]
pub(crate) struct RequestFeed(Mutex<FeedState>);

#[derive(Debug)]
struct FeedState {
    lines: Option<broadcast::Sender<RequestLine>>,
    under_way: BTreeMap<Ticket, UnderWay>,
}

impl Default for FeedState {
    fn default() -> Self {
        Self { lines: Some(broadcast::Sender::new(MAX_WAITING)), under_way: BTreeMap::new() }
    }
}

impl FeedState {
    fn send(&self, line: RequestLine) {
        if let Some(lines) = &self.lines {
            // Without a reader nobody receives it.
            let _ = lines.send(line);
        }
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
        let mut state = self.lock();
        state.send(RequestLine::Began(row.clone()));
        state.under_way.insert(ticket, UnderWay { row, began: Instant::now() });
    }

    /// Ends a request with its last reply; other tickets are unknown here.
    pub(crate) fn end(&self, ticket: Ticket, reply: &Reply) {
        match reply {
            Reply::Finished(summary) => {
                let damage = rows::damage(summary).map(|error| error.code);
                let outcome = if damage.is_none() { RequestResult::Completed } else { RequestResult::Failed };
                self.end_request(ticket, outcome, damage, Some(rows::summary(summary, 0)));
            }
            Reply::Failed(failure) => {
                self.end_request(ticket, RequestResult::Failed, Some(Code::from(failure.reason)), None);
            }
            _ => {}
        }
    }

    pub(crate) fn cancel(&self, ticket: Ticket) {
        self.end_request(ticket, RequestResult::Cancelled, None, None);
    }

    pub(crate) fn subscribe(&self) -> RequestLines {
        let state = self.lock();
        let first: Vec<_> = state.under_way.values().map(|one| RequestLine::Began(one.row.clone())).collect();
        let later = state.lines.as_ref().map_or_else(|| broadcast::channel(1).1, broadcast::Sender::subscribe);
        RequestLines { first: first.into_iter(), later }
    }

    /// Ends the lines of all readers, so that they do not hold the daemon back.
    fn close(&self) {
        self.lock().lines = None;
    }

    fn end_request(
        &self,
        ticket: Ticket,
        outcome: RequestResult,
        error: Option<Code>,
        summary: Option<TransferSummary>,
    ) {
        let mut state = self.lock();
        let Some(UnderWay { began, .. }) = state.under_way.remove(&ticket) else { return };
        let elapsed_ms = summary.as_ref().map_or_else(|| millis(began.elapsed()), |summary| summary.elapsed_ms);
        let ended = RequestEnded { schema: SCHEMA, request: ticket.0, outcome, error, elapsed_ms, summary };
        state.send(RequestLine::Ended(ended));
    }

    fn lock(&self) -> MutexGuard<'_, FeedState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Closes the feed when it is dropped.
pub(crate) struct FeedClosing<'a>(pub(crate) &'a RequestFeed);

impl Drop for FeedClosing<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl RequestLines {
    /// The next line; `None` when the daemon has drained.
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

    #[tokio::test]
    async fn closed_feed_ends_its_readers() {
        let feed = RequestFeed::default();
        let mut lines = feed.subscribe();
        feed.begin(Ticket(1), &request());
        feed.close();
        assert!(matches!(lines.next().await, Some(RequestLine::Began(_))));
        assert!(lines.next().await.is_none());
        feed.cancel(Ticket(1));
        assert!(feed.subscribe().next().await.is_none());
    }
}
