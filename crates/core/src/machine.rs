//! The boundary between decisions and I/O.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use roost_wire::{Address, Channel, ConnectionId, Delivery, DialId, NodeId, RemoteIdentity, RoleSet, Scheme, Time};

/// A state machine of the overlay. The crate's documentation has the contract.
pub trait Machine {
    type Command;
    type Event;

    /// Takes one input at the time `now`.
    fn handle(&mut self, now: Time, input: Input<Self::Command>);

    /// The next thing to carry out, or `None` when there is nothing more to do.
    fn poll_transmit(&mut self) -> Option<Transmit>;

    /// The next thing to tell the owner.
    fn poll_event(&mut self) -> Option<Self::Event>;

    /// The time to hand in [`Input::Timeout`], and the reason.
    fn poll_deadline(&self) -> Option<Deadline>;
}

#[derive(Clone, Debug)]
pub enum Input<C> {
    /// A connection is up: the remote has proved who it is and passed the
    /// group's policy.
    ConnectionUp {
        connection: ConnectionId,
        /// The dial that led to it; `None` if the remote dialled.
        dial: Option<DialId>,
        remote: RemoteIdentity,
        /// The address it is seen at.
        address: Address,
        /// Round trip measured by the handshake.
        rtt: Duration,
    },
    /// The remote of a connection is seen at another address; it goes on.
    ConnectionMoved {
        connection: ConnectionId,
        /// The address it is seen at now.
        address: Address,
    },
    /// An address that is listened on is there, or not any more.
    LocalAddress {
        scheme: Scheme,
        at: SocketAddr,
        /// True if it is there now.
        is_there: bool,
    },
    /// A connection is gone. Nothing more comes from it or goes to it.
    ConnectionDown {
        connection: ConnectionId,
        reason: String,
        /// True if one side does not admit the other any more: no other way
        /// leads there.
        refused: bool,
    },
    /// None of a dial's addresses led to a connection.
    DialFailed {
        dial: DialId,
        reason: String,
        /// True if one side does not admit the other: no other way leads there.
        refused: bool,
    },
    /// A whole message from a remote.
    Message { connection: ConnectionId, message: Bytes },
    /// A whole message that a member of the group has sent to all on the link.
    Multicast {
        /// From where; the message says from whom, which nothing proves.
        from: IpAddr,
        message: Bytes,
    },
    /// A message of a flow was not taken: what waits for the connection is as much as it holds. The connection is
    /// as it was, and the flow has a gap.
    FlowBroken {
        connection: ConnectionId,
        /// The flow, as in [`Channel::Reliable`].
        flow: u32,
    },
    /// The host stood still since the last input, as in suspend: timers are late, and others have not waited.
    HostSuspended,
    /// The host's wall clock shows this time since the Unix epoch. It may be wrong, and jump.
    WallClock(Duration),
    /// The deadline has come.
    Timeout,
    /// The owner wants something.
    Command(C),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transmit {
    Message {
        connection: ConnectionId,
        channel: Channel,
        /// Demands on its way beyond the channel.
        delivery: Delivery,
        /// The class in the byte counters.
        traffic: Traffic,
        /// The encoded message, at most [`roost_wire::messages::MAX_MESSAGE_BYTES`].
        message: Bytes,
    },
    /// Reach a remote: try the addresses in their order, which may overlap, until one leads to
    /// a connection with a remote of an expected role (and id, if given).
    /// Answered by [`Input::ConnectionUp`] or [`Input::DialFailed`].
    Dial {
        /// The machine's number for it.
        dial: DialId,
        /// The preferred one first.
        addresses: Vec<Address>,
        /// As what the remote must have been certified.
        expect: RoleSet,
        /// The only remote that will do; `None` admits any.
        node: Option<NodeId>,
    },
    /// Send a message to all members of the group on the link, at most once.
    /// Without a way to do so it is dropped.
    Multicast {
        /// The class in the byte counters.
        traffic: Traffic,
        message: Bytes,
    },
    /// End a connection after what was sent has left. No
    /// [`Input::ConnectionDown`] follows.
    Close {
        connection: ConnectionId,
        /// Why, in a sentence that the remote gets to read.
        reason: String,
    },
}

/// The classes of the byte counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Traffic {
    /// Attaching, publishing, moving, leaving.
    Join = 0,
    /// Renewals and probes.
    Renew = 1,
    /// Requests, lookups and their answers, also from super node to super node.
    Lookup = 2,
    /// Messages among super nodes of their connections and of who is where.
    Mesh = 3,
    /// Messages among super nodes of their directories: summaries, and the records of which one has a copy.
    Summary = 4,
    /// Gossip of which super nodes there are.
    Gossip = 5,
    /// Streams and objects, their headers, reports and credit.
    Payload = 6,
    /// Documents of the group, and who holds which.
    Documents = 7,
}

impl Traffic {
    pub const ALL: [Self; 8] = [
        Self::Join,
        Self::Renew,
        Self::Lookup,
        Self::Mesh,
        Self::Summary,
        Self::Gossip,
        Self::Payload,
        Self::Documents,
    ];

    /// The class's name in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Join => "join",
            Self::Renew => "renew",
            Self::Lookup => "lookup",
            Self::Mesh => "mesh",
            Self::Summary => "summary",
            Self::Gossip => "gossip",
            Self::Payload => "payload",
            Self::Documents => "documents",
        }
    }
}

/// The time at which a machine wants to be woken, and the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadline {
    pub at: Time,
    pub reason: &'static str,
}

impl Deadline {
    #[must_use]
    pub fn earlier(a: Option<Self>, b: Option<Self>) -> Option<Self> {
        match (a, b) {
            (Some(a), Some(b)) => Some(if b.at < a.at { b } else { a }),
            (a, b) => a.or(b),
        }
    }
}

impl fmt::Display for Deadline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.reason, self.at)
    }
}
