//! What comes in, in one stream.

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
use roost_proto::machine::RemoteIdentity;
use roost_proto::{Address, ConnectionId, DialId, NodeId, Scheme};
use tokio::sync::Notify;
use tokio::time::Sleep;

use crate::fair_queue::FairQueue;
use crate::transport::Shared;

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A connection is up: the peer has proved who it is and passed the policy.
    Up {
        /// Its number, which no other connection has had.
        connection: ConnectionId,
        /// The dial that led to it; `None` if the peer dialled.
        dial: Option<DialId>,
        /// Who is there.
        remote: RemoteIdentity,
        /// The address the peer is seen at.
        address: Address,
        /// Round trip measured by the handshake.
        rtt: Duration,
    },
    /// The peer of a connection is seen at another address; the connection goes on. Over UDP
    /// only.
    Moved {
        /// Which one.
        connection: ConnectionId,
        /// Where it is seen now.
        address: Address,
    },
    /// An address that is to be listened on is there, or not any more. What is not
    /// there at the start is told of as well.
    Presence {
        /// The transport.
        scheme: Scheme,
        /// The address and the port.
        at: SocketAddr,
        /// Whether it is there now.
        is_there: bool,
    },
    /// A connection is gone and its number is void. Follows neither
    /// [`crate::Transport::close`] nor [`crate::Transport::shutdown`].
    Down {
        /// Which one.
        connection: ConnectionId,
        /// Why, in a sentence for people.
        reason: String,
        /// Whether the group's policy has barred one side from the other.
        refused: bool,
    },
    /// None of a dial's addresses led to a connection.
    DialFailed {
        /// Which dial.
        dial: DialId,
        /// What was tried and why it failed, in a sentence for people.
        reason: String,
        /// Whether the group's policy bars one side from the other.
        refused: bool,
    },
    /// A whole message.
    Message {
        /// From where.
        connection: ConnectionId,
        /// The message.
        message: Bytes,
    },
    /// A whole message that some member of the group has sent to all on the
    /// connection; see [`crate::Transport::join_multicast`].
    Multicast {
        /// From where.
        from: IpAddr,
        /// The message.
        message: Bytes,
    },
}

/// Whether a sentence tells that the policy bars a member of the group.
pub(crate) fn tells_refusal(reason: &str) -> bool {
    Refusal::in_sentence(reason).is_some_and(|(_, refusal)| refusal.bars_member())
}

impl Event {
    /// The end of a connection.
    pub(crate) fn down(connection: ConnectionId, reason: String) -> Self {
        Self::Down { connection, refused: tells_refusal(&reason), reason }
    }

    /// What the event counts for against [`crate::Limits::event_queue_bytes`].
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

/// The receiving end of a transport.
pub struct Events {
    shared: Arc<Shared>,
    /// What the UDP sockets have yielded beyond what was asked for.
    ready: VecDeque<Event>,
    timer: Pin<Box<Sleep>>,
    /// When the timer fires; `None` while it is not in use.
    armed: Option<Instant>,
}

impl Events {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, ready: VecDeque::new(), timer: Box::pin(tokio::time::sleep(Duration::ZERO)), armed: None }
    }

    /// Waits until something has happened and appends up to `max` events to
    /// `into`; answers how many, at least one unless `max` is zero.
    ///
    /// Nothing is lost when the future is dropped before it is done. The
    /// crate's documentation says what else goes on in here.
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

    /// Reads the UDP sockets, runs what is due and arms the timer for what is next.
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

    /// Whether `deadline` has come already.
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

/// The cause of an event. The events of one wait for one another only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum EventSource {
    /// All connections with one node: they are in order among themselves.
    Node(NodeId),
    /// All who send to many: an address proves nothing there.
    Multicast,
    /// This host and its own dials.
    Host,
}

/// Events of the transports that have tasks of their own, on their way to
/// [`Events`]. Holds messages of at most [`crate::Limits::event_queue_bytes`];
/// other events are as few as connections and dials.
pub(crate) struct EventQueue {
    events: Mutex<FairQueue<EventSource, Event>>,
    /// Wakes the task in [`Events::recv_many`].
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

    /// Adds an event, whatever the queue holds.
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

    /// Adds a message once there is room for it.
    pub(crate) async fn push_when_room(&self, sender: EventSource, event: Event) {
        loop {
            let space = self.space.notified();
            if self.lock().has_room(sender, event.weight()) {
                return self.push(sender, event);
            }
            space.await;
        }
    }

    /// Drops the messages of a connection that wait: its peer has no say any more.
    pub(crate) fn discard_messages(&self, sender: EventSource, of: ConnectionId) {
        self.lock().extract(sender, |event| matches!(event, Event::Message { connection, .. } if *connection == of));
        self.space.notify_waiters();
    }

    /// Moves up to `max` events to `into`.
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
