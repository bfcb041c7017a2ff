//! The way of a request through the hubs.

use minicbor::{Decode, Encode};

use crate::address::{self, Address};
use crate::grid::Cell;
use crate::ids::NodeId;
use crate::open::open;

/// The direction of a question in the tree of hubs. A question goes up, then across, then down, and never back,
/// so it cannot go round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Encode)]
#[cbor(index_only)]
pub enum RouteDirection {
    /// From a hub to its parent, which may send it anywhere.
    #[n(0)]
    Up,
    /// From a root to an owner, which may send it to the roots that have something.
    #[n(1)]
    Across,
    /// To a hub that is to look at what is its own or below it, and nowhere else.
    #[n(2)]
    Down,
    /// From a provider's home that has no room to reflect a stream to a hub that
    /// is to do it instead, and that asks the home for it with its own address.
    #[n(3)]
    Overflow,
}

open!(RouteDirection, [Up, Across, Down, Overflow], else Down);

/// The part of a request that hubs add.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct Route {
    /// The node that made the request.
    #[n(0)]
    pub requester: NodeId,
    /// Addresses of the requester, the preferred transport first. If there is none, the answer
    /// goes to the hub, which relays.
    #[cbor(n(1), with = "address::list", has_nil)]
    pub reply_to: Vec<Address>,
    /// The instruction from hub to hub; `None` towards a provider.
    #[n(2)]
    pub hop: Option<HubHop>,
}

/// The part of a route that tells another hub where to search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct HubHop {
    /// The cell of the provider, on the grid.
    #[n(0)]
    pub cell: Cell,
    /// The direction in which it may go on.
    #[n(1)]
    pub direction: RouteDirection,
    /// The most further hubs that it may pass.
    #[n(2)]
    pub hops_left: u8,
    /// The only provider that is meant; `None` means any.
    #[n(3)]
    pub provider: Option<NodeId>,
}
