//! The single stream of events from all transports.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::task::AtomicWaker;
use roost_identity::Refusal;
use roost_wire::{Address, ConnectionId, DialId, NodeId, RemoteIdentity, Scheme};
use tokio::sync::Notify;
use tokio::time::Sleep;

use crate::fair_queue::FairQueue;
use crate::transport::Shared;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A connection is up: the remote has proved its identity and passed the policy.
    Up {
        /// A number that no other connection has had.
        connection: ConnectionId,
        /// The dial that led to it; `None` if the remote dialed.
        dial: Option<DialId>,
        remote: RemoteIdentity,
        /// The address at which the remote is seen.
        address: Address,
        /// The round trip that the handshake measured.
        rtt: Duration,
    },
    /// The remote of a connection is seen at another address; the connection goes on. Over UDP only.
    Moved {
        connection: ConnectionId,
        address: Address,
    },
    /// An address to listen on has appeared or disappeared. An address that does not exist at the start is reported as
    /// well.
    Presence {
        scheme: Scheme,
        at: SocketAddr,
        /// False if the address has disappeared or never existed.
        is_there: bool,
    },
    /// A connection has ended and its number is void. Follows neither [`crate::Transport::close`] nor
    /// [`crate::Transport::shutdown`].
    Down {
        connection: ConnectionId,
        reason: String,
        /// True if the group's policy has barred one side from the other, so that no other address helps.
        refused: bool,
    },
    /// None of a dial's addresses led to a connection.
    DialFailed {
        dial: DialId,
        /// The addresses tried and the error of each, in a sentence for people.
        reason: String,
        /// True if the group's policy bars one side from the other.
        refused: bool,
    },
    Message {
        connection: ConnectionId,
        message: Bytes,
    },
    /// A message that some member of the group has sent to all nodes of a subnet; see
    /// [`crate::Transport::join_multicast`].
    Multicast {
        /// The address from which it came, which nothing proves.
        from: IpAddr,
        message: Bytes,
    },
}

/// True if a sentence says that the policy bars a member of the group.
pub(crate) fn tells_refusal(reason: &str) -> bool {
    Refusal::in_sentence(reason).is_some_and(|(_, refusal)| refusal.bars_member())
}

impl Event {
    pub(crate) fn down(connection: ConnectionId, reason: String) -> Self {
        Self::Down { connection, refused: tells_refusal(&reason), reason }
    }

    /// The bytes for which the event counts against [`crate::Limits::event_queue_bytes`].
    fn weight(&self) -> usize {
        match self {
            Self::Message { message, .. } | Self::Multicast { message, .. } => message.len() + 64,
            Self::Up { .. }
            | Self::Moved { .. }
            | Self::Presence { .. }
            | Self::Down { .. }
            | Self::DialFailed { .. } => 0,
        }
    }
}

/// The receiving end of a transport. There is one, since it drives UDP.
pub struct Events {
    shared: Arc<Shared>,
    /// Events from the UDP sockets beyond the number that the caller wanted.
    ready: VecDeque<Event>,
    timer: Pin<Box<Sleep>>,
    /// The time at which the timer fires; `None` while it is not in use.
    armed: Option<Instant>,
}

impl Events {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, ready: VecDeque::new(), timer: Box::pin(tokio::time::sleep(Duration::ZERO)), armed: None }
    }

    /// Waits for events and appends up to `max` of them to `into`. Returns their number, at least one unless `max` is
    /// zero.
    ///
    /// The future may be dropped at any time without losing an event. It also runs all of UDP, see the crate's
    /// documentation.
    pub async fn recv_many(&mut self, into: &mut Vec<Event>, max: usize) -> usize {
        if max == 0 {
            return 0;
        }
        poll_fn(|cx| self.poll_recv_many(cx, into, max)).await
    }

    fn poll_recv_many(&mut self, cx: &mut Context<'_>, into: &mut Vec<Event>, max: usize) -> Poll<usize> {
        self.shared.context.queue.waker.register(cx.waker());
        if self.ready.is_empty() {
            self.shared.context.queue.drain_events(&mut self.ready, max);
            self.drive_udp(cx);
        }
        let count = self.ready.len().min(max);
        into.extend(self.ready.drain(..count));
        if count > 0 { Poll::Ready(count) } else { Poll::Pending }
    }

    /// Reads the UDP sockets, runs the due timers and arms the timer for the next deadline.
    fn drive_udp(&mut self, cx: &mut Context<'_>) {
        loop {
            let mut next: Option<Instant> = None;
            for endpoint in self.shared.udp.endpoints().iter() {
                let deadline = endpoint.poll(cx, &mut self.ready);
                next = next.into_iter().chain(deadline).min();
            }
            if !self.ready.is_empty() || !self.sleep_until(cx, next) {
                return;
            }
        }
    }

    /// Arms the timer for `deadline`. Returns true if that is past already.
    fn sleep_until(&mut self, cx: &mut Context<'_>, deadline: Option<Instant>) -> bool {
        let Some(at) = deadline else {
            self.armed = None;
            return false;
        };
        if self.armed != Some(at) {
            self.armed = Some(at);
            self.timer.as_mut().reset(at.into());
        }
        let due = self.timer.as_mut().poll(cx).is_ready();
        if due {
            self.armed = None;
        }
        due
    }
}

/// The source of an event. Only events of the same source wait for one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum EventSource {
    /// All connections with one node: their events stay in order.
    Node(NodeId),
    /// All senders of multicast together, since their addresses prove nothing.
    Multicast,
    Host,
}

/// Events of the transports that have tasks of their own, on their way to [`Events`]. Holds messages of at most
/// [`crate::Limits::event_queue_bytes`]. The number of other events is bounded by those of connections and dials.
pub(crate) struct EventQueue {
    events: Mutex<FairQueue<EventSource, Event>>,
    /// Wakes the task that waits in [`Events::recv_many`].
    pub(crate) waker: AtomicWaker,
    space: Notify,
}

impl EventQueue {
    pub(crate) fn new(max_bytes: usize) -> Self {
        Self { events: Mutex::new(FairQueue::new(max_bytes)), waker: AtomicWaker::new(), space: Notify::new() }
    }

    fn lock(&self) -> MutexGuard<'_, FairQueue<EventSource, Event>> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an event, even if the queue is full.
    pub(crate) fn push(&self, sender: EventSource, event: Event) {
        self.lock().push(sender, event.weight(), event);
        self.waker.wake();
    }

    /// Adds a message if there is room for it.
    pub(crate) fn push_if_room(&self, sender: EventSource, event: Event) -> bool {
        let room = self.lock().has_room(sender, event.weight());
        if room {
            self.push(sender, event);
        }
        room
    }

    /// Adds a message as soon as there is room for it.
    pub(crate) async fn push_when_room(&self, sender: EventSource, event: Event) {
        loop {
            let space = self.space.notified();
            if self.lock().has_room(sender, event.weight()) {
                return self.push(sender, event);
            }
            space.await;
        }
    }

    /// Drops the waiting messages of a connection whose remote the policy has just barred.
    pub(crate) fn discard_messages(&self, sender: EventSource, of: ConnectionId) {
        self.lock().extract(sender, |event| matches!(event, Event::Message { connection, .. } if *connection == of));
        self.space.notify_waiters();
    }

    fn drain_events(&self, into: &mut VecDeque<Event>, max: usize) {
        let mut events = self.lock();
        let before = into.len();
        into.extend(std::iter::from_fn(|| events.pop()).take(max));
        drop(events);
        if into.len() > before {
            self.space.notify_waiters();
        }
    }
}
