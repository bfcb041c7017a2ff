//! What a node is told, what it is asked, and what it tells.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use bytes::Bytes;

use crate::address::{Address, Scheme, SchemeSet};
use crate::grid::{Area, Cell};
use crate::ids::NodeId;
use crate::machine::Peer as Neighbour;
use crate::scope::Scope;
use crate::service::{Role, Service, ServiceSet};
use crate::wire::{Change, Found, Hop, Mode, Offer, Reason};

/// Who a node is and what it does.
#[derive(Clone, Debug)]
pub struct Config {
    /// Its id, as its certificate gives it.
    pub node: NodeId,
    /// When it started, in seconds of the Unix epoch. A record of a later
    /// epoch replaces any of an earlier one, so this must not go back.
    pub epoch: u32,
    /// Where it is.
    pub cell: Cell,
    /// What it offers; may be empty.
    pub services: ServiceSet,
    /// The hubs that it may turn to, the preferred one first; each with the
    /// addresses at which it listens, the preferred transport first. At most
    /// [`super::MAX_HUBS`] are used.
    pub hubs: Vec<Vec<Address>>,
    /// What the hubs are certified as: [`Role::SuperNode`] in the overlay,
    /// [`Role::Server`] in the client/server baseline, where every request is relayed.
    pub hub_role: Role,
    /// Where other nodes can dial this one; advertised in its record.
    pub addresses: Vec<Address>,
    /// How many streams it provides at once. Default of the daemons: 8. More
    /// requests are answered "busy" and go to the next provider.
    pub max_streams: u16,
    /// How much uplink its streams may use together, kbit/s. Beyond it: "busy".
    /// `u32::MAX` sets no limit.
    pub uplink_kbps: u32,
    /// How long a stream lasts that was requested without a duration. Usual: 10 s.
    pub stream_duration: Duration,
    /// Whether it takes part in multicast on its link: answers what is asked
    /// there, and asks.
    pub multicast: bool,
    /// How it finds providers. Without `multicast` always through hubs.
    pub discovery: Discovery,
    /// Where its random numbers start. Nonces come from it, so a daemon takes
    /// it from the system's random source.
    pub seed: u64,
}

/// How a node finds providers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Discovery {
    /// Through its home hub.
    #[default]
    SuperNode,
    /// By multicast on its link. Needs no hub.
    Multicast,
    /// Both at once; the first provider that accepts serves.
    Both,
    /// On the link first where the provider probably is there and the link is
    /// quiet, through the hub first otherwise, as experience goes; the other
    /// way when the first has led to nobody.
    Auto,
}

impl Discovery {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::SuperNode, Self::Multicast, Self::Both, Self::Auto];

    /// Its name in settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SuperNode => "supernode",
            Self::Multicast => "multicast",
            Self::Both => "both",
            Self::Auto => "auto",
        }
    }
}

impl fmt::Display for Discovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Why a text names no way of finding providers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown discovery {0:?}: expected supernode, multicast, both or auto")]
pub struct ParseDiscoveryError(String);

impl FromStr for Discovery {
    type Err = ParseDiscoveryError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|way| way.name() == text).ok_or_else(|| ParseDiscoveryError(text.to_owned()))
    }
}

/// The owner's number for something that it asked for. Never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// The machine's number for something that it provides. Never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u64);

/// What is requested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// What.
    pub service: Service,
    /// Where.
    pub area: Area,
    /// How; [`Mode::Locate`] is what [`Command::Lookup`] is for and is declined here.
    pub mode: Mode,
    /// How many providers to consider; 0 leaves it to the hub.
    pub count: u8,
    /// How long a stream shall last; `None` leaves it to the provider (10 s).
    pub duration: Option<Duration>,
    /// The transports that may serve it.
    pub transports: SchemeSet,
    /// How long to wait for a provider to accept.
    pub deadline: Duration,
    /// Whom to ask, without a hub; `None` leaves the choice to the hub. Goes
    /// with [`Mode::Forward`] only, and not in the client/server baseline. The
    /// area then has no meaning.
    pub provider: Option<Provider>,
    /// How far the provider may be.
    pub scope: Scope,
    /// Whether its way is traced: [`Event::Traced`] comes before its last event.
    pub trace: bool,
}

/// A provider that the requester knows, from a lookup or an earlier request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provider {
    /// Who.
    pub node: NodeId,
    /// Where to dial it if there is no association with it; may be empty.
    pub addresses: Vec<Address>,
}

/// What a node's owner asks of it.
///
/// Every [`Ticket`] but a watch's ends with exactly one of [`Event::Finished`],
/// [`Event::Failed`], [`Event::Found`] and [`Event::Pong`]; a watch ends with
/// [`Event::Failed`] when it is cancelled or cannot be kept.
#[derive(Clone, Debug)]
pub enum Command {
    /// Get a service.
    Request {
        /// Its number.
        ticket: Ticket,
        /// What.
        wanted: Wanted,
    },
    /// Tell who offers a service.
    Lookup {
        /// Its number.
        ticket: Ticket,
        /// What.
        service: Service,
        /// Where.
        area: Area,
        /// How many to list at most; 0 leaves it to the hub.
        count: u8,
    },
    /// Tell of every change in an area until cancelled.
    Watch {
        /// Its number.
        ticket: Ticket,
        /// What.
        services: ServiceSet,
        /// Where.
        area: Area,
    },
    /// Measure the round trip to a neighbour.
    Ping {
        /// Its number.
        ticket: Ticket,
        /// A node to which there is an association; `None` is the home hub.
        node: Option<NodeId>,
    },
    /// No longer wanted.
    Cancel {
        /// What.
        ticket: Ticket,
    },
    /// The node is elsewhere now.
    Move {
        /// Where.
        cell: Cell,
    },
    /// A session's source has started.
    Opened {
        /// Which.
        session: SessionId,
        /// What it gives.
        opened: Opened,
    },
    /// A session's source has nothing to give, or broke off in mid-stream.
    OpenFailed {
        /// Which.
        session: SessionId,
        /// Why, for the log.
        reason: String,
    },
    /// One datagram's worth of a stream, at most [`crate::flow::MAX_PACKET_BYTES`]
    /// (what is longer is sent in pieces).
    Data {
        /// Which.
        session: SessionId,
        /// The payload.
        payload: Bytes,
    },
    /// A stream is over.
    Ended {
        /// Which.
        session: SessionId,
    },
    /// The node offers something else from now on.
    Reconfigure {
        /// What.
        services: ServiceSet,
        /// As in [`Config`].
        max_streams: u16,
        /// As in [`Config`].
        uplink_kbps: u32,
    },
    /// Withdraw, end everything, close every association. [`Event::Left`] is
    /// the last event.
    Leave,
}

/// What a source gives.
#[derive(Clone, Debug)]
pub enum Opened {
    /// Datagrams, by [`Command::Data`], until [`Command::Ended`] or [`Event::Close`].
    Stream {
        /// Payload rate to expect.
        bits_per_second: u32,
        /// Media type or format of the payload.
        format: String,
    },
    /// One object, here and whole; at most [`crate::flow::MAX_OBJECT_BYTES`].
    Object {
        /// The object.
        bytes: Bytes,
        /// Its media type.
        format: String,
    },
}

/// What a node tells its owner.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// The node has a home: a hub that holds its record.
    Attached {
        /// Which hub.
        hub: Neighbour,
        /// At what address.
        address: Address,
    },
    /// The node has lost its home, or could not make a hub its home, and goes
    /// on to the next one.
    Detached {
        /// Why, in a sentence.
        reason: String,
    },
    /// The hub holds a record of this node that this daemon has not published:
    /// another daemon uses its identity.
    Displaced,
    /// A service of this node is wanted: start its source and answer with
    /// [`Command::Opened`] or [`Command::OpenFailed`].
    Open {
        /// Its number.
        session: SessionId,
        /// What.
        service: Service,
        /// How long a stream shall last; `None` for an object.
        duration: Option<Duration>,
        /// For whom.
        requester: NodeId,
    },
    /// A session is over: stop its source. Comes exactly once for each `Open`,
    /// whoever ended it.
    Close {
        /// Which.
        session: SessionId,
        /// Payload bytes sent.
        bytes: u64,
        /// Why it ended early; `None` if it served the request.
        reason: Option<Reason>,
    },
    /// A provider has accepted. Comes again if that provider falls silent
    /// before any data and another one accepts.
    Accepted {
        /// Which request.
        ticket: Ticket,
        /// Who provides.
        provider: NodeId,
        /// Where the provider is.
        cell: Cell,
        /// What comes; `inline` is always `None`, the data follows as [`Event::Data`].
        offer: Offer,
        /// Over which transport, as seen from here.
        scheme: Scheme,
        /// Whether a hub carries the data.
        relayed: bool,
    },
    /// A piece of what was requested: of an object in order and without gaps,
    /// of a stream one datagram as it came.
    Data {
        /// Which request.
        ticket: Ticket,
        /// The payload.
        payload: Bytes,
    },
    /// A request was served, in whole or in part: see [`Summary::complete`].
    Finished {
        /// Which request.
        ticket: Ticket,
        /// How it went.
        summary: Summary,
    },
    /// A request, lookup, watch or ping came to nothing.
    Failed {
        /// Which.
        ticket: Ticket,
        /// Why.
        reason: Reason,
        /// The same in a sentence.
        detail: String,
        /// When it may be worth asking again, as those who refused say.
        retry_after: Option<Duration>,
    },
    /// The way of a request that was to be traced. Its last event follows.
    Traced {
        /// Which request.
        ticket: Ticket,
        /// The way.
        trace: Trace,
    },
    /// The answer to a lookup.
    Found {
        /// Which.
        ticket: Ticket,
        /// The answer.
        found: Found,
    },
    /// Something has changed where one watches. The first change lists what is
    /// there already.
    Changed {
        /// Which watch.
        ticket: Ticket,
        /// What.
        change: Change,
    },
    /// A neighbour has answered.
    Pong {
        /// Which ping.
        ticket: Ticket,
        /// Round trip.
        rtt: Duration,
        /// Where the neighbour is seen.
        address: Address,
    },
    /// The node has left. What is asked of it from now on fails at once.
    Left,
}

/// The way that a request took.
///
/// The clocks of hosts differ, so no two times of different hosts are compared:
/// there are times that passed at one host, and round trips measured by the
/// host that asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Trace {
    /// What was reported, in the order of its coming; at most [`super::MAX_REPORTS`].
    pub hops: Vec<TracedHop>,
    /// How often the request was sent, to the home and to the stand-by.
    pub sent: u32,
    /// From the command to the first acceptance.
    pub accepted: Option<Duration>,
}

/// What one hub, or the provider, reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracedHop {
    /// What it said.
    pub hop: Hop,
    /// The name of who said it, if there is an association with it.
    pub name: Option<String>,
    /// From the command to the coming of the report.
    pub heard: Duration,
}

/// How a request went.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Summary {
    /// Who provided.
    pub provider: NodeId,
    /// Where the provider was.
    pub cell: Cell,
    /// Over which transport, as seen from here.
    pub scheme: Scheme,
    /// Whether a hub carried the data.
    pub relayed: bool,
    /// Payload bytes delivered.
    pub bytes: u64,
    /// Datagrams delivered; 0 for an object.
    pub packets: u64,
    /// Datagrams that never came.
    pub lost: u64,
    /// Datagrams that came after one with a greater number; delivered nevertheless.
    pub reordered: u64,
    /// Datagrams that came once more; dropped.
    pub duplicates: u64,
    /// Interarrival jitter (RFC 3550, section 6.4.1).
    pub jitter: Duration,
    /// From the command to the first payload.
    pub first_byte: Duration,
    /// From the command to the end.
    pub elapsed: Duration,
    /// Payload rate between the first payload and the end; 0 if both came at once.
    pub bits_per_second: u64,
    /// Whether the payload has the digest that the provider announced; `None`
    /// if it cannot be said, because datagrams were lost or overtaken or the
    /// end was never heard of.
    pub digest_ok: Option<bool>,
    /// Whether the provider's end was reached: of an object every byte with the
    /// right digest, of a stream the announced end (datagrams may have been lost).
    pub complete: bool,
    /// Why it ended early.
    pub reason: Option<Reason>,
    /// Why the association over which it came had gone, if it had, in a
    /// sentence for people.
    pub broken: Option<String>,
}
