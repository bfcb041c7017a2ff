//! Why a request is not served, or a flow ends early.

use minicbor::Encode;

use super::route::RouteDirection;
use crate::open::open;

/// Why a request is not served, or a flow ends early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Encode)]
#[cbor(index_only)]
pub enum Reason {
    /// Nobody offers the service in the area.
    #[n(0)]
    NotFound,
    /// The hub started less than a lease ago and may not have heard of everyone.
    #[n(1)]
    NotYetKnown,
    /// Every provider there is at its limit.
    #[n(2)]
    Busy,
    /// No transport that both ends have and the request allows.
    #[n(3)]
    NoTransport,
    /// No connection to the other end comes up.
    #[n(4)]
    Unreachable,
    /// The provider's source gave no data.
    #[n(5)]
    SourceFailed,
    /// The deadline of the request has passed.
    #[n(6)]
    TimedOut,
    /// The one who says it is leaving.
    #[n(7)]
    Leaving,
    /// A limit on requests per remote is reached.
    #[n(8)]
    TooMany,
    /// The sender's role or state does not allow it.
    #[n(9)]
    NotAllowed,
    /// The requester has cancelled the request.
    #[n(10)]
    Cancelled,
    /// A message of the other end broke the protocol's rules.
    #[n(11)]
    Protocol,
    /// Nobody offers it in the part of the network that is left: the way to
    /// the hubs above is cut.
    #[n(12)]
    UnreachableAbove,
    /// A super node has no room to reflect it.
    #[n(13)]
    Saturated,
    /// Super nodes reflect the stream from now on: request that.
    #[n(14)]
    Reflected,
    /// A reason that only later versions know.
    #[n(15)]
    Unspecified,
    /// The request is of a later version than the hub or the provider.
    #[n(16)]
    UnsupportedVersion,
    /// The stream is slower than the requester admits.
    #[n(17)]
    TooSlow,
    /// The group's policy does not allow it.
    #[n(18)]
    Forbidden,
    /// The body of a call is not the one that its request names.
    #[n(19)]
    WrongBody,
}

open!(Reason, [NotFound, NotYetKnown, Busy, NoTransport, Unreachable, SourceFailed, TimedOut, Leaving, TooMany, NotAllowed, Cancelled, Protocol, UnreachableAbove, Saturated, Reflected, Unspecified, UnsupportedVersion, TooSlow, Forbidden, WrongBody], else Unspecified);

impl Reason {
    /// The meaning of a hub's silence about a question in this direction.
    pub fn for_silence(way: RouteDirection) -> Self {
        if way == RouteDirection::Up { Self::UnreachableAbove } else { Self::Unreachable }
    }
}
