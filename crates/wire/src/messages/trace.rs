//! Reports on the way of a request that is traced.

use minicbor::{Decode, Encode};

use super::reason::Reason;
use crate::ids::{NodeId, RequestId};
use crate::node_selector::MAX_NAME_BYTES;
use crate::open::open;
use crate::refusal::{Refusal, check_bound};

/// The most hubs of whose way a trace tells: a report that has passed more is dropped.
pub const MAX_TRACED_HOPS: u8 = 8;

/// The content of [`RequestMessage::HopReport`](super::RequestMessage::HopReport).
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct HopReport {
    /// The number of the request that is traced.
    #[n(0)]
    pub id: RequestId,
    /// The requester that `id` is a number of; from hub to hub, as in
    /// [`RequestMessage::Pending`](super::RequestMessage::Pending).
    #[n(1)]
    pub requester: Option<NodeId>,
    /// The hop that is reported.
    #[n(2)]
    pub hop: Hop,
}

/// The action of a hub, or of the provider, on a request.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct Hop {
    /// The hub or provider. From a provider that is asked directly the connection's identity counts.
    #[n(0)]
    pub node: NodeId,
    /// The place on the way, from 1; each hub that passes the report on adds one.
    #[n(1)]
    pub index: u8,
    /// The tier of a hub; `None` of a provider.
    #[n(2)]
    pub tier: Option<u8>,
    /// The action of the node on the request.
    #[n(3)]
    pub step: HopAction,
    /// Why it, or the one it is about, refused.
    #[n(4)]
    pub reason: Option<Reason>,
    /// From the coming of the request to this, microseconds on its own clock.
    #[n(5)]
    pub elapsed_us: u32,
    /// Whom it is about: the provider or hub that got the request, or did not take it.
    #[n(6)]
    pub other: Option<NodeId>,
    /// The name of `other`, at most [`MAX_NAME_BYTES`] long.
    #[n(7)]
    pub name: Option<String>,
    /// From when the hub before it on the way passed the request on until that
    /// one got this report, less `held_us`: the round trip between the two,
    /// microseconds on the clock of the one before, which fills it in.
    #[n(8)]
    pub round_trip_us: Option<u32>,
    /// Of a provider: how much of `held_us` passed until there was an
    /// connection with the one it answers.
    #[n(9)]
    pub connected_us: Option<u32>,
}

/// An action on a request on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Encode)]
#[cbor(index_only)]
pub enum HopAction {
    /// A hub handed it to a provider, which is to answer directly.
    #[n(0)]
    HandedToProvider,
    /// A hub handed it to a provider, whose answer the hub relays.
    #[n(1)]
    Relayed,
    /// A hub passed it on to another hub.
    #[n(2)]
    PassedToHub,
    /// A hub asks other hubs what they have.
    #[n(3)]
    LookedUp,
    /// A hub heard from a provider, or another hub, that it does not take it.
    #[n(4)]
    Declined,
    /// A hub heard nothing from a provider, or another hub.
    #[n(5)]
    TimedOut,
    /// A hub has nobody left to try.
    #[n(6)]
    Exhausted,
    /// A provider answers over a connection that was up.
    #[n(7)]
    ReusedConnection,
    /// A provider answers over a connection for which it had to dial.
    #[n(8)]
    Dialed,
    /// An action that only later versions know.
    #[n(9)]
    Unknown,
}

open!(HopAction, [HandedToProvider, Relayed, PassedToHub, LookedUp, Declined, TimedOut, Exhausted, ReusedConnection, Dialed, Unknown], else Unknown);

impl HopAction {
    /// The name of the action in the API.
    pub const fn name(self) -> &'static str {
        match self {
            Self::HandedToProvider => "handed",
            Self::Relayed => "relayed",
            Self::PassedToHub => "passed",
            Self::LookedUp => "looked-up",
            Self::Declined => "declined",
            Self::TimedOut => "silent",
            Self::Exhausted => "refused",
            Self::ReusedConnection => "reused",
            Self::Dialed => "dialed",
            Self::Unknown => "unknown",
        }
    }

    /// True if a provider does it rather than a hub.
    pub const fn is_of_provider(self) -> bool {
        matches!(self, Self::ReusedConnection | Self::Dialed)
    }
}

impl Hop {
    pub(super) fn check_limits(&self) -> Result<(), Refusal> {
        check_bound(self.name.as_ref().map_or(0, String::len) <= MAX_NAME_BYTES, "too long a name")?;
        check_bound((1..=MAX_TRACED_HOPS).contains(&self.index), "too long a way")
    }
}
