//! Objects that a node offers to another one, and objects that others offer to it.

pub(super) mod incoming;
pub(super) mod outgoing;
