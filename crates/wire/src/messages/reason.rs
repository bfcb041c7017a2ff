//! Why a request is not served, or a flow ends early.

use minicbor::Encode;

use super::route::RouteDirection;
use crate::open::open;

/// Why a request is not served, or a flow ends early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Encode)]
#[cbor(index_only)]
pub enum Reason {
    /// Nobody offers it there.
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
    /// The other end could not be reached.
    #[n(4)]
    Unreachable,
    /// The provider's source gave nothing.
    #[n(5)]
    SourceFailed,
    /// The deadline has passed.
    #[n(6)]
    TimedOut,
    /// The one who says it is leaving.
    #[n(7)]
    Leaving,
    /// A limit on requests per remote.
    #[n(8)]
    TooMany,
    /// The sender's role or state does not allow it.
    #[n(9)]
    NotAllowed,
    /// The requester no longer wants it.
    #[n(10)]
    Cancelled,
    /// The other end broke the protocol's rules.
    #[n(11)]
    Protocol,
    /// Nobody offers it in the part of the network that is left: the way to
    /// the hubs above is cut.
    #[n(12)]
    UnreachableAbove,
    /// A super node has no room to reflect it.
    #[n(13)]
    Saturated,
    /// It is reflected from now on: ask for that.
    #[n(14)]
    Reflected,
    /// One that only later versions tell.
    #[n(15)]
    Unspecified,
    /// It is of a later version than who was asked.
    #[n(16)]
    UnsupportedVersion,
    /// The stream is slower than the requester admits.
    #[n(17)]
    TooSlow,
}

open!(Reason, [NotFound, NotYetKnown, Busy, NoTransport, Unreachable, SourceFailed, TimedOut, Leaving, TooMany, NotAllowed, Cancelled, Protocol, UnreachableAbove, Saturated, Reflected, Unspecified, UnsupportedVersion, TooSlow], else Unspecified);

impl Reason {
    /// What the silence of a hub means to which a question went this way.
    pub fn for_silence(way: RouteDirection) -> Self {
        if way == RouteDirection::Up { Self::UnreachableAbove } else { Self::Unreachable }
    }
}
