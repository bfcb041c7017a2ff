//! Names of requests.

use roost_wire::{NodeId, RequestId};

/// Names a request at this hub: whose number it is, and the number. A request
/// that a peer hands on to be answered directly keeps its requester's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RequestKey {
    pub(super) requester: NodeId,
    pub(super) id: RequestId,
}
