//! Names of requests.

use std::ops::RangeInclusive;

use roost_wire::{NodeId, RequestId};

/// Names a request at this hub: whose number it is, and the number. A request
/// that a hub hands on to be answered directly keeps its requester's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RequestKey {
    pub(super) requester: NodeId,
    pub(super) id: RequestId,
}

impl RequestKey {
    /// The keys of all that a remote may ask.
    pub(super) const fn all_of(requester: NodeId) -> RangeInclusive<Self> {
        let (first, last) = (RequestId(0), RequestId(u32::MAX));
        RangeInclusive::new(Self { requester, id: first }, Self { requester, id: last })
    }
}
