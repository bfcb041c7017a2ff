//! The machine's tickets and the API calls that wait for them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use roost_core::node::{Node, NodeCommand, RequestSummary, SessionId, Ticket, Trace};
use roost_runtime::driver::{DriverStopped, Mailbox};
use roost_wire::messages::{FlowDescription, LookupResult, PushState, Reason, RequestMode, WatchChange};
use roost_wire::room::RoomMember;
use roost_wire::{Address, Cell, NodeId, Scheme, Service};
use tokio::sync::mpsc;

/// The most API calls that wait at the same time.
const MAX_TICKETS: usize = 1024;

/// The most bytes of a stream that wait for a slow reader of the API, about eleven seconds of video. More are dropped
/// and counted.
///
/// An object is never dropped: its provider waits for the reader. The bytes on their way meanwhile, at most
/// [`roost_core::flow::MAX_WINDOW_BYTES`], are kept, with those of all others no more than [`MAX_OBJECTS_BYTES`].
const MAX_STREAM_QUEUE_BYTES: usize = 1 << 20;

/// The most bytes of all objects together that wait for slow readers of the API. A transfer that would go beyond it
/// ends as busy.
const MAX_OBJECTS_BYTES: usize = 256 << 20;

/// The bytes of an object that are read before its provider hears of it: a quarter of a receiver's report.
const TAKEN_BYTES: u64 = roost_core::flow::REPORT_BYTES / 4;

/// The most changes that wait for a slow reader of a watch. More are dropped, which the reader sees from the numbers.
const MAX_WATCH_QUEUE: usize = 256;

/// A reply to the owner of a ticket.
#[derive(Debug)]
pub(crate) enum Reply {
    Accepted(Accepted),
    Data(Bytes),
    /// The way of a request.
    Traced(Trace),
    Finished(RequestSummary),
    Failed {
        reason: Reason,
        detail: String,
        retry_after: Option<Duration>,
    },
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
        matches!(self, Self::Finished(_) | Self::Failed { .. } | Self::Found(_) | Self::Pong { .. } | Self::Pushed(_))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Request(Service, RequestMode),
    /// A lookup, a watch, a room or a ping.
    Other,
}

/// The replies that wait between the machine and a reader, and those dropped.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    bytes: AtomicUsize,
    changes: AtomicUsize,
    /// The latest list of a room, while one waits to be read.
    roster: Mutex<Option<Vec<RoomMember>>>,
    unread: AtomicU64,
    /// The bytes of objects that wait for any reader.
    objects: Option<Arc<AtomicUsize>>,
}

/// The fate of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Admission {
    /// The reply is counted and goes to the reader.
    Admitted,
    Dropped,
    /// The object ends: its data would go beyond [`MAX_OBJECTS_BYTES`].
    Overflow,
}

impl Backlog {
    /// Counts a reply if there is room for it.
    fn admit(&self, reply: &Reply, purpose: Purpose) -> Admission {
        let fits = match (reply, purpose) {
            (Reply::Data(data), Purpose::Request(service, _)) if service.is_stream() => {
                let fits = self.bytes.load(Ordering::Relaxed) + cost(data) <= MAX_STREAM_QUEUE_BYTES;
                self.bytes.fetch_add(if fits { cost(data) } else { 0 }, Ordering::Relaxed);
                self.unread.fetch_add(u64::from(!fits), Ordering::Relaxed);
                fits
            }
            (Reply::Data(data), _) => {
                if let Some(objects) = &self.objects {
                    if objects.load(Ordering::Relaxed) + cost(data) > MAX_OBJECTS_BYTES {
                        return Admission::Overflow;
                    }
                    objects.fetch_add(cost(data), Ordering::Relaxed);
                }
                self.bytes.fetch_add(cost(data), Ordering::Relaxed);
                true
            }
            (Reply::Changed(_), _) => {
                let fits = self.changes.load(Ordering::Relaxed) < MAX_WATCH_QUEUE;
                self.changes.fetch_add(usize::from(fits), Ordering::Relaxed);
                fits
            }
            (Reply::Roster(members), _) => self.roster().replace(members.clone()).is_none(),
            _ => true,
        };
        if fits { Admission::Admitted } else { Admission::Dropped }
    }

    fn roster(&self) -> MutexGuard<'_, Option<Vec<RoomMember>>> {
        self.roster.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Releases the room of a reply that was read, and replaces a room's list by the latest.
    fn release(&self, reply: &mut Reply) {
        match reply {
            Reply::Data(data) => self.release_bytes(cost(data)),
            Reply::Roster(members) => *members = self.roster().take().unwrap_or_default(),
            Reply::Changed(_) => drop(self.changes.fetch_sub(1, Ordering::Relaxed)),
            _ => {}
        }
    }

    fn release_bytes(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        if let Some(objects) = &self.objects {
            objects.fetch_sub(bytes, Ordering::Relaxed);
        }
    }
}

/// The memory of a payload that waits; an empty one takes some, too.
fn cost(data: &Bytes) -> usize {
    data.len() + 128
}

impl Drop for Backlog {
    /// Unread replies go with their reader.
    fn drop(&mut self) {
        self.release_bytes(self.bytes.load(Ordering::Relaxed));
    }
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
}

impl Tickets {
    /// Hands a reply to the ticket's owner, if there still is one. Returns the purpose of the ticket.
    pub(crate) fn deliver(&self, ticket: Ticket, reply: Reply) -> Option<Purpose> {
        let mut entries = self.lock();
        let entry = entries.get(&ticket)?;
        let (purpose, last) = (entry.purpose, reply.is_last());
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
                let detail = "this node holds too much for readers that are too slow: try again later".to_owned();
                let _ = entry.sender.send(Reply::Failed { reason: Reason::Busy, detail, retry_after: None });
                entries.remove(&ticket);
                Some(purpose)
            }
        }
    }

    fn backlog(&self, purpose: Purpose) -> Arc<Backlog> {
        let of_object = matches!(purpose, Purpose::Request(service, _) if !service.is_stream());
        let mut backlog = Backlog::default();
        backlog.objects = of_object.then(|| Arc::clone(&self.objects));
        Arc::new(backlog)
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
        if self.backlog.objects.is_some() && self.taken >= TAKEN_BYTES {
            let (ticket, bytes) = (self.ticket, std::mem::take(&mut self.taken));
            self.mailbox.post(NodeCommand::Consumed { ticket, bytes });
        }
    }

    /// Cancels the ticket. No more replies come.
    pub(crate) fn give_up(&mut self) {
        if !self.over && self.tickets.lock().remove(&self.ticket).is_some() {
            self.mailbox.post(NodeCommand::Cancel { ticket: self.ticket });
        }
        self.over = true;
    }

    pub(crate) fn ticket(&self) -> Ticket {
        self.ticket
    }

    /// Datagrams that were dropped because nobody read them in time.
    pub(crate) fn unread(&self) -> u64 {
        self.backlog.unread.load(Ordering::Relaxed)
    }
}

impl Drop for Replies {
    fn drop(&mut self) {
        self.give_up();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(purpose: Purpose) -> (Tickets, mpsc::UnboundedReceiver<Reply>, Arc<Backlog>) {
        let tickets = Tickets::default();
        let backlog = tickets.backlog(purpose);
        let (sender, receiver) = mpsc::unbounded_channel();
        tickets.lock().insert(Ticket(1), Entry { purpose, sender, backlog: Arc::clone(&backlog) });
        (tickets, receiver, backlog)
    }

    fn piece() -> Reply {
        Reply::Data(Bytes::from(vec![0; 100_000]))
    }

    #[test]
    fn slow_stream_reader_loses_datagrams() {
        let (tickets, mut receiver, backlog) = taken(Purpose::Request(Service::Video, RequestMode::Forward));
        for _ in 0..100 {
            tickets.deliver(Ticket(1), piece());
        }
        let kept = MAX_STREAM_QUEUE_BYTES / 100_000;
        assert_eq!(backlog.unread.load(Ordering::Relaxed), 100 - kept as u64);
        let mut read = receiver.try_recv().unwrap();
        backlog.release(&mut read);
        tickets.deliver(Ticket(1), piece());
        assert_eq!(receiver.len(), kept);
        for _ in 0..20_000 {
            tickets.deliver(Ticket(1), Reply::Data(Bytes::new()));
        }
        assert!(receiver.len() < 10_000, "what is empty takes memory, too");
    }

    #[test]
    fn object_waits_for_slow_reader() {
        let (tickets, receiver, backlog) = taken(Purpose::Request(Service::Image, RequestMode::Forward));
        for _ in 0..100 {
            tickets.deliver(Ticket(1), piece());
        }
        assert_eq!((receiver.len(), backlog.unread.load(Ordering::Relaxed)), (100, 0));
    }

    #[test]
    fn slow_room_reader_gets_latest_roster() {
        let (tickets, mut receiver, backlog) = taken(Purpose::Other);
        let member = |number: u8| RoomMember {
            node: NodeId::from_bytes([number; 16]),
            cell: Cell::new(1, 1),
            services: roost_wire::ServiceSet::ALL,
        };
        for number in 1..=3 {
            for _ in 0..3 {
                tickets.deliver(Ticket(1), Reply::Roster(vec![member(number - 1)]));
            }
            tickets.deliver(Ticket(1), Reply::Roster(vec![member(number)]));
            let mut read = receiver.try_recv().unwrap();
            backlog.release(&mut read);
            assert!(matches!(&read, Reply::Roster(members) if *members == [member(number)]), "{read:?}");
            assert!(receiver.is_empty());
        }
    }

    #[test]
    fn all_objects_together_have_a_limit() {
        let (tickets, mut receiver, backlog) = taken(Purpose::Request(Service::Image, RequestMode::Forward));
        let big = Bytes::from(vec![0; 31 << 20]);
        let most = MAX_OBJECTS_BYTES / cost(&big);
        for _ in 0..most {
            assert_eq!(tickets.deliver_data(Ticket(1), big.clone()), None);
        }
        let refused = tickets.deliver_data(Ticket(1), big.clone());
        assert_eq!(refused, Some(Purpose::Request(Service::Image, RequestMode::Forward)));
        assert_eq!(tickets.deliver_data(Ticket(1), big.clone()), None, "the ticket is over");
        let mut read = receiver.try_recv().unwrap();
        backlog.release(&mut read);
        assert_eq!(tickets.objects.load(Ordering::Relaxed), (most - 1) * cost(&big));
        drop(backlog);
        assert_eq!(tickets.objects.load(Ordering::Relaxed), 0, "what nobody reads any more counts no more");
        let last = std::iter::from_fn(|| receiver.try_recv().ok()).last();
        assert!(matches!(last, Some(Reply::Failed { reason: Reason::Busy, .. })), "{last:?}");
    }

    #[test]
    fn the_last_reply_ends_the_ticket() {
        let (tickets, _receiver, _) = taken(Purpose::Other);
        let failed = || Reply::Failed { reason: Reason::TimedOut, detail: "late".to_owned(), retry_after: None };
        assert_eq!(tickets.deliver(Ticket(1), failed()), Some(Purpose::Other));
        assert_eq!(tickets.deliver(Ticket(1), failed()), None);
        assert!(tickets.lock().is_empty());
    }
}
