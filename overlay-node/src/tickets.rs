//! Who waits for what: the machine's tickets and the API calls behind them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use roost_daemon::driver::{Gone, Mailbox};
use roost_proto::peer::{Command, Peer, Summary, Ticket};
use roost_proto::wire::{Change, Found, Mode, Offer, Reason};
use roost_proto::{Address, Cell, NodeId, Scheme, Service};
use tokio::sync::mpsc;

/// The most API calls that wait at the same time.
const MAX_TICKETS: usize = 1024;

/// How much of a stream waits for a slow reader of the API, bytes; what comes
/// beyond it is dropped and counted. About eleven seconds of video.
///
/// An object is never dropped: it waits whole, at most
/// [`roost_proto::flow::MAX_OBJECT_BYTES`].
const MAX_STREAM_QUEUE_BYTES: usize = 1 << 20;

/// How many changes wait for a slow reader of a watch; what comes beyond it is
/// dropped, which the reader sees from the numbers.
const MAX_WATCH_QUEUE: usize = 256;

/// What a ticket's owner hears.
#[derive(Debug)]
pub(crate) enum Reply {
    /// A provider serves the request.
    Accepted(Accepted),
    /// A piece of it.
    Data(Bytes),
    /// It is over.
    Finished(Summary),
    /// It came to nothing.
    Failed { reason: Reason, detail: String, retry_after: Option<Duration> },
    /// Who offers it.
    Found(Found),
    /// What has changed.
    Changed(Change),
    /// A neighbour has answered.
    Pong { rtt: Duration, address: Address },
}

/// See [`Reply::Accepted`].
#[derive(Debug)]
pub(crate) struct Accepted {
    pub(crate) provider: NodeId,
    pub(crate) cell: Cell,
    pub(crate) offer: Offer,
    pub(crate) scheme: Scheme,
    pub(crate) relayed: bool,
}

impl Reply {
    /// Whether nothing follows.
    const fn is_last(&self) -> bool {
        matches!(self, Self::Finished(_) | Self::Failed { .. } | Self::Found(_) | Self::Pong { .. })
    }
}

/// What a ticket was taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A request.
    Request(Service, Mode),
    /// A lookup, a watch or a ping.
    Other,
}

/// How much waits between the machine and a reader, and what was dropped.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    bytes: AtomicUsize,
    changes: AtomicUsize,
    unread: AtomicU64,
}

impl Backlog {
    /// Whether there is room for a reply, which is then counted.
    fn admit(&self, reply: &Reply, purpose: Purpose) -> bool {
        match (reply, purpose) {
            (Reply::Data(data), Purpose::Request(service, _)) => {
                let waiting = self.bytes.fetch_add(data.len(), Ordering::Relaxed);
                let fits = !service.is_stream() || waiting + data.len() <= MAX_STREAM_QUEUE_BYTES;
                if !fits {
                    self.bytes.fetch_sub(data.len(), Ordering::Relaxed);
                    self.unread.fetch_add(1, Ordering::Relaxed);
                }
                fits
            }
            (Reply::Changed(_), _) => {
                let fits = self.changes.load(Ordering::Relaxed) < MAX_WATCH_QUEUE;
                self.changes.fetch_add(usize::from(fits), Ordering::Relaxed);
                fits
            }
            _ => true,
        }
    }

    /// Counts a reply that was read.
    fn release(&self, reply: &Reply) {
        match reply {
            Reply::Data(data) => drop(self.bytes.fetch_sub(data.len(), Ordering::Relaxed)),
            Reply::Changed(_) => drop(self.changes.fetch_sub(1, Ordering::Relaxed)),
            _ => {}
        }
    }
}

#[derive(Debug)]
struct Entry {
    purpose: Purpose,
    sender: mpsc::UnboundedSender<Reply>,
    backlog: Arc<Backlog>,
}

/// The tickets that are out.
#[derive(Debug, Default)]
pub(crate) struct Tickets {
    last: AtomicU64,
    entries: Mutex<HashMap<Ticket, Entry>>,
}

impl Tickets {
    /// Gives a reply to the ticket's owner, if there still is one; what the
    /// ticket was for.
    pub(crate) fn deliver(&self, ticket: Ticket, reply: Reply) -> Option<Purpose> {
        let mut entries = self.lock();
        let entry = entries.get(&ticket)?;
        let (purpose, last) = (entry.purpose, reply.is_last());
        if entry.backlog.admit(&reply, purpose) {
            // A reader that has just gone needs no reply.
            let _ = entry.sender.send(reply);
        }
        if last {
            entries.remove(&ticket);
        }
        Some(purpose)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Ticket, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why nothing could be asked of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AskError {
    /// Too many wait already.
    TooMany,
    /// The daemon is on its way out.
    Gone,
}

impl From<Gone> for AskError {
    fn from(_: Gone) -> Self {
        Self::Gone
    }
}

/// Asks the machine for something; `command` makes the command from the ticket.
pub(crate) async fn ask(
    tickets: &Arc<Tickets>,
    mailbox: &Mailbox<Peer>,
    purpose: Purpose,
    command: impl FnOnce(Ticket) -> Command,
) -> Result<Replies, AskError> {
    let ticket = Ticket(tickets.last.fetch_add(1, Ordering::Relaxed) + 1);
    let (sender, receiver) = mpsc::unbounded_channel();
    let backlog = Arc::<Backlog>::default();
    {
        let mut entries = tickets.lock();
        if entries.len() >= MAX_TICKETS {
            return Err(AskError::TooMany);
        }
        entries.insert(ticket, Entry { purpose, sender, backlog: Arc::clone(&backlog) });
    }
    let replies =
        Replies { ticket, receiver, backlog, tickets: Arc::clone(tickets), mailbox: mailbox.clone(), over: false };
    mailbox.command(command(ticket)).await?;
    Ok(replies)
}

/// What comes for one ticket. Dropping it before the last reply cancels it.
pub(crate) struct Replies {
    ticket: Ticket,
    receiver: mpsc::UnboundedReceiver<Reply>,
    backlog: Arc<Backlog>,
    tickets: Arc<Tickets>,
    mailbox: Mailbox<Peer>,
    over: bool,
}

impl Replies {
    /// The next reply; `None` after the last one. Loses nothing when dropped.
    pub(crate) async fn next(&mut self) -> Option<Reply> {
        if self.over {
            return None;
        }
        let reply = self.receiver.recv().await;
        match &reply {
            Some(reply) => {
                self.backlog.release(reply);
                self.over = reply.is_last();
            }
            None => self.over = true,
        }
        reply
    }

    /// Datagrams that were dropped because nobody read them in time.
    pub(crate) fn unread(&self) -> u64 {
        self.backlog.unread.load(Ordering::Relaxed)
    }
}

impl Drop for Replies {
    fn drop(&mut self) {
        if !self.over && self.tickets.lock().remove(&self.ticket).is_some() {
            self.mailbox.post(Command::Cancel { ticket: self.ticket });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(purpose: Purpose) -> (Tickets, mpsc::UnboundedReceiver<Reply>, Arc<Backlog>) {
        let (tickets, backlog) = (Tickets::default(), Arc::<Backlog>::default());
        let (sender, receiver) = mpsc::unbounded_channel();
        tickets.lock().insert(Ticket(1), Entry { purpose, sender, backlog: Arc::clone(&backlog) });
        (tickets, receiver, backlog)
    }

    fn piece() -> Reply {
        Reply::Data(Bytes::from(vec![0; 100_000]))
    }

    #[test]
    fn a_slow_reader_of_a_stream_loses_datagrams_and_no_memory() {
        let (tickets, mut receiver, backlog) = taken(Purpose::Request(Service::Video, Mode::Forward));
        for _ in 0..100 {
            tickets.deliver(Ticket(1), piece());
        }
        let kept = MAX_STREAM_QUEUE_BYTES / 100_000;
        assert_eq!(backlog.unread.load(Ordering::Relaxed), 100 - kept as u64);
        let read = receiver.try_recv().unwrap();
        backlog.release(&read);
        tickets.deliver(Ticket(1), piece());
        assert_eq!(receiver.len(), kept);
    }

    #[test]
    fn an_object_waits_for_a_slow_reader() {
        let (tickets, receiver, backlog) = taken(Purpose::Request(Service::Image, Mode::Forward));
        for _ in 0..100 {
            tickets.deliver(Ticket(1), piece());
        }
        assert_eq!((receiver.len(), backlog.unread.load(Ordering::Relaxed)), (100, 0));
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
