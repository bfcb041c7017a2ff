//! The body of a call at its provider, while it comes.

use crate::flow::BodyReceiver;

/// A body on its way to this node.
#[derive(Debug)]
pub(super) struct BodyReception {
    pub(super) receiver: BodyReceiver,
    /// Tells this run of the call from any other at this node.
    pub(super) run: u64,
    /// The times that it was asked for since something has come.
    pub(super) asks: u32,
}
