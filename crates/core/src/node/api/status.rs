//! The state of a node, for people and metrics.

use std::net::SocketAddr;
use std::time::Duration;

use roost_wire::RemoteIdentity as Remote;
use roost_wire::messages::{ProtocolVersion, WireError};
use roost_wire::{Address, Cell, ExactPosition, NodeId, Service, ServiceSet, StreamId, Version};

use super::{SessionId, Ticket};

/// A node at one moment, for people and metrics.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NodeStatus {
    /// The node's id.
    pub node: NodeId,
    /// The version of its record.
    pub version: Version,
    pub cell: Cell,
    /// The exact position, as far as it is known.
    pub position: Option<ExactPosition>,
    pub services: ServiceSet,
    /// `None` while it looks for one.
    pub home: Option<HomeStatus>,
    /// The hub that takes over if the home is lost; `None` while there is none.
    pub standby: Option<HomeStatus>,
    /// The state of the registration, in a word: `attached`, `publishing`, `dialling`, `waiting`, `left`.
    pub attachment: &'static str,
    /// The hubs that it knows, configured and learnt.
    pub hubs: Vec<Vec<Address>>,
    pub sessions: Vec<SessionStatus>,
    pub publications: Vec<PublicationStatus>,
    pub requests: Vec<RequestStatus>,
    /// Watches under way.
    pub watches: usize,
    /// Connections that are up.
    pub connections: usize,
    /// Counts since the start.
    pub counters: NodeCounters,
}

/// A node's home hub, or the one that stands by.
#[derive(Clone, Debug)]
pub struct HomeStatus {
    pub hub: Remote,
    /// At what address.
    pub address: Address,
    /// Smoothed round trip.
    pub rtt: Duration,
    /// The time since then.
    pub attached: Duration,
    /// The version of the protocol that it speaks.
    pub protocol: ProtocolVersion,
    /// Seconds by which its wall clock is ahead of this host's, if both are known.
    pub clock_ahead_s: Option<i64>,
    /// The address from which it sends reflected streams, if it is the home and has told it.
    pub media: Option<SocketAddr>,
}

/// A session of a provider.
#[derive(Clone, Debug)]
pub struct SessionStatus {
    pub session: SessionId,
    pub service: Service,
    pub requester: NodeId,
    /// True if a hub carries the data.
    pub relayed: bool,
    /// Payload bytes sent.
    pub bytes: u64,
    pub age: Duration,
}

/// A stream that a node provides to super nodes that reflect it.
#[derive(Clone, Debug)]
pub struct PublicationStatus {
    /// The session of its source.
    pub session: SessionId,
    pub service: Service,
    /// `None` until its source has started.
    pub stream: Option<StreamId>,
    pub members: usize,
    /// Uplink that it takes, kbit/s.
    pub kbps: u32,
}

#[derive(Clone, Debug)]
pub struct RequestStatus {
    pub ticket: Ticket,
    pub service: Service,
    /// `None` until somebody accepts.
    pub provider: Option<NodeId>,
    /// The provider's position then.
    pub cell: Option<Cell>,
    /// Payload bytes received.
    pub bytes: u64,
    /// True if its provider has accepted it as a member of a reflected stream.
    pub subscribed: bool,
    pub age: Duration,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeCounters {
    /// Messages that could not be read.
    pub malformed: u64,
    /// Messages of later versions, which were skipped.
    pub later: u64,
    /// Messages from one who may not send them, or with a wrong nonce.
    pub refused: u64,
    /// Messages of a request or flow that is no longer there.
    pub stale: u64,
    /// Requests sent to a hub again because nothing was heard.
    pub retries: u64,
    /// Requests put to the standby as well because the home was silent.
    pub hedges: u64,
    /// Providers that were dialled because they did not reach this node.
    pub provider_dials: u64,
    /// Times that the home was lost.
    pub failovers: u64,
    /// Times that the home sent the node to another one, and it went.
    pub redirects: u64,
    /// Times that the node went back to a home that it had lost.
    pub returns: u64,
    /// Requests turned away because of a limit on streams or uplink.
    pub declined_busy: u64,
    /// Sessions ended because their places were another requester's share.
    pub displaced: u64,
    /// Requests, files and data turned away because the group's policy does not allow them.
    pub forbidden: u64,
    /// Sessions accepted.
    pub accepted: u64,
    /// Requests for a reflected stream that was published already.
    pub joined: u64,
    /// Times that a reflected stream was asked for again.
    pub resubscribed: u64,
    /// Inquiries sent to the connection, repetitions included.
    pub multicast_requests: u64,
    /// Requests for which a provider was found on the link.
    pub found_by_multicast: u64,
    /// Requests for which nobody on the link answered.
    pub missed_by_multicast: u64,
    /// Inquiries of others that this node answered with a service.
    pub multicast_replies: u64,
    /// Inquiries of others that this node left to another provider.
    pub suppressed: u64,
    /// Inquiries of others beyond [`MAX_MULTICAST_REQUESTS`](crate::node::MAX_MULTICAST_REQUESTS) at once.
    pub multicast_requests_ignored: u64,
}

impl NodeCounters {
    /// Counts a message that could not be read.
    pub(crate) fn unread(&mut self, error: &WireError) {
        match error {
            WireError::LaterVersion(_) => self.later += 1,
            _ => self.malformed += 1,
        }
    }
}
