//! Names of requests.

use std::ops::RangeInclusive;

use roost_wire::{NodeId, RequestId};

/// Names a request: whose number it is, and the number. A request
/// that a hub hands on to be answered directly keeps its requester's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RequestKey {
    pub(crate) requester: NodeId,
    pub(crate) id: RequestId,
}

impl RequestKey {
    /// The keys of all that a remote may ask.
    pub(crate) const fn all_of(requester: NodeId) -> RangeInclusive<Self> {
        let (first, last) = (RequestId(0), RequestId(u32::MAX));
        RangeInclusive::new(Self { requester, id: first }, Self { requester, id: last })
    }
}
