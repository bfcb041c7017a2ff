//! Candidates of other hubs.

use roost_wire::NodeId;
use roost_wire::messages::Candidate;

/// A candidate, and the hub that named it.
#[derive(Clone, Debug)]
pub(super) struct FoundCandidate {
    pub(super) hub: NodeId,
    pub(super) candidate: Candidate,
}
