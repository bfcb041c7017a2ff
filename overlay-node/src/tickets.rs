//! The machine's tickets and the API calls that wait for them.

mod backlog;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use roost_core::node::{Node, NodeCommand, RequestSummary, SessionId, Ticket, Trace};
use roost_runtime::driver::{DriverStopped, Mailbox};
use roost_wire::messages::{FlowDescription, LookupResult, PushState, Reason, RequestMode, Sentence, WatchChange};
use roost_wire::room::RoomMember;
use roost_wire::{Address, Cell, NodeId, Scheme, Service};
use tokio::sync::mpsc;

use backlog::{Admission, Backlog};

use crate::request_feed::RequestFeed;

/// The most API calls that wait at the same time.
const MAX_TICKETS: usize = 1024;

/// The bytes of an object that are read before its provider hears of it: a quarter of a receiver's report.
const TAKEN_BYTES: u64 = roost_core::flow::REPORT_BYTES / 4;

/// A reply to the owner of a ticket.
#[derive(Debug)]
pub(crate) enum Reply {
    Accepted(Accepted),
    Data(Bytes),
    /// The way of a request.
    Traced(Trace),
    Finished(RequestSummary),
    Failed(Failure),
    Found(LookupResult),
    Changed(WatchChange),
    /// Other members of the room. A later list replaces one that waits.
    Roster(Vec<RoomMember>),
    Pong {
        rtt: Duration,
        address: Address,
    },
    /// A chunk of a file that is sent is to be read.
    Read {
        session: SessionId,
        offset: u64,
        length: u64,
    },
    /// The receiver's answer on a file.
    Pushed(PushState),
}

/// The end of something that came to nothing: see [`NodeEvent::Failed`](roost_core::node::NodeEvent::Failed).
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) reason: Reason,
    pub(crate) detail: String,
    pub(crate) retry_after: Option<Duration>,
    pub(crate) sentence: Option<Sentence>,
}

impl Failure {
    pub(crate) fn new(reason: Reason, detail: impl Into<String>) -> Self {
        Self { reason, detail: detail.into(), retry_after: None, sentence: None }
    }
}

#[derive(Debug)]
pub(crate) struct Accepted {
    pub(crate) provider: NodeId,
    pub(crate) cell: Cell,
    pub(crate) flow: FlowDescription,
    pub(crate) scheme: Scheme,
    pub(crate) relayed: bool,
    pub(crate) reflected: bool,
}

impl Reply {
    /// True if nothing follows.
    const fn is_last(&self) -> bool {
        matches!(self, Self::Finished(_) | Self::Failed(_) | Self::Found(_) | Self::Pong { .. } | Self::Pushed(_))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Request(Service, RequestMode),
    /// A lookup, a watch, a room or a ping.
    Other,
}

#[derive(Debug)]
struct Entry {
    purpose: Purpose,
    sender: mpsc::UnboundedSender<Reply>,
    backlog: Arc<Backlog>,
}

#[derive(Debug, Default)]
pub(crate) struct Tickets {
    last: AtomicU64,
    entries: Mutex<HashMap<Ticket, Entry>>,
    /// The bytes of objects that wait for slow readers.
    objects: Arc<AtomicUsize>,
    feed: RequestFeed,
}

impl Tickets {
    pub(crate) const fn feed(&self) -> &RequestFeed {
        &self.feed
    }

    /// Hands a reply to the ticket's owner, if there still is one. Returns the purpose of the ticket.
    pub(crate) fn deliver(&self, ticket: Ticket, reply: Reply) -> Option<Purpose> {
        let mut entries = self.lock();
        let entry = entries.get(&ticket)?;
        let (purpose, last) = (entry.purpose, reply.is_last());
        self.feed.end(ticket, &reply);
        if entry.backlog.admit(&reply, purpose) == Admission::Admitted {
            // A reader that has just gone needs no reply.
            let _ = entry.sender.send(reply);
        }
        if last {
            entries.remove(&ticket);
        }
        Some(purpose)
    }

    /// Hands data to the ticket's owner. If there is no room for its object, the owner gets an error and the ticket
    /// ends. Then returns the purpose, so that the transfer can be cancelled.
    pub(crate) fn deliver_data(&self, ticket: Ticket, data: Bytes) -> Option<Purpose> {
        let mut entries = self.lock();
        let entry = entries.get(&ticket)?;
        let (purpose, reply) = (entry.purpose, Reply::Data(data));
        match entry.backlog.admit(&reply, purpose) {
            Admission::Dropped => None,
            Admission::Admitted => {
                // A reader that has just gone needs no reply.
                let _ = entry.sender.send(reply);
                None
            }
            Admission::Overflow => {
                let detail = "this node holds too much for readers that are too slow: try again later";
                let failed = Reply::Failed(Failure::new(Reason::Busy, detail));
                self.feed.end(ticket, &failed);
                // As above.
                let _ = entry.sender.send(failed);
                entries.remove(&ticket);
                Some(purpose)
            }
        }
    }

    fn backlog(&self, purpose: Purpose) -> Arc<Backlog> {
        let is_of_object = matches!(purpose, Purpose::Request(service, _) if !service.is_stream());
        Arc::new(Backlog::new(is_of_object.then(|| Arc::clone(&self.objects))))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Ticket, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TicketError {
    TooMany,
    /// The daemon ends.
    Gone,
}

impl From<DriverStopped> for TicketError {
    fn from(_: DriverStopped) -> Self {
        Self::Gone
    }
}

/// Opens a ticket and gives the machine the command that `command` makes from it.
pub(crate) async fn open_ticket(
    tickets: &Arc<Tickets>,
    mailbox: &Mailbox<Node>,
    purpose: Purpose,
    command: impl FnOnce(Ticket) -> NodeCommand,
) -> Result<Replies, TicketError> {
    let ticket = Ticket(tickets.last.fetch_add(1, Ordering::Relaxed) + 1);
    let (sender, receiver) = mpsc::unbounded_channel();
    let backlog = tickets.backlog(purpose);
    {
        let mut entries = tickets.lock();
        if entries.len() >= MAX_TICKETS {
            return Err(TicketError::TooMany);
        }
        entries.insert(ticket, Entry { purpose, sender, backlog: Arc::clone(&backlog) });
    }
    let replies = Replies {
        ticket,
        receiver,
        backlog,
        tickets: Arc::clone(tickets),
        mailbox: mailbox.clone(),
        over: false,
        taken: 0,
    };
    mailbox.command(command(ticket)).await?;
    Ok(replies)
}

/// The replies of a ticket. Dropping it before the last reply cancels the ticket.
pub(crate) struct Replies {
    ticket: Ticket,
    receiver: mpsc::UnboundedReceiver<Reply>,
    backlog: Arc<Backlog>,
    tickets: Arc<Tickets>,
    mailbox: Mailbox<Node>,
    over: bool,
    /// Bytes of an object that were read and not reported.
    taken: u64,
}

impl Replies {
    /// Returns the next reply; `None` after the last one. Loses nothing when dropped.
    pub(crate) async fn next(&mut self) -> Option<Reply> {
        if self.over {
            return None;
        }
        let mut reply = self.receiver.recv().await;
        match &mut reply {
            Some(reply) => {
                self.backlog.release(reply);
                self.over = reply.is_last();
                self.report_consumed(reply);
            }
            None => self.over = true,
        }
        reply
    }

    /// Reports the bytes of an object that were read: its reader sets the pace of its provider.
    fn report_consumed(&mut self, reply: &Reply) {
        let Reply::Data(data) = reply else { return };
        self.taken += data.len() as u64;
        if self.backlog.is_of_object() && self.taken >= TAKEN_BYTES {
            let (ticket, bytes) = (self.ticket, std::mem::take(&mut self.taken));
            self.mailbox.post(NodeCommand::Consumed { ticket, bytes });
        }
    }

    /// Cancels the ticket. No more replies come.
    pub(crate) fn give_up(&mut self) {
        if !self.over && self.tickets.lock().remove(&self.ticket).is_some() {
            self.tickets.feed.cancel(self.ticket);
            self.mailbox.post(NodeCommand::Cancel { ticket: self.ticket });
        }
        self.over = true;
    }

    pub(crate) fn ticket(&self) -> Ticket {
        self.ticket
    }

    /// Datagrams that were dropped because nobody read them in time.
    pub(crate) fn unread(&self) -> u64 {
        self.backlog.unread()
    }
}

impl Drop for Replies {
    fn drop(&mut self) {
        self.give_up();
    }
}

#[cfg(test)]
mod tests;
