//! The body of a call at its provider, while it comes.

use std::time::Duration;

use crate::flow::BodyReceiver;

/// A body on its way to this node.
#[derive(Debug)]
pub(super) struct BodyReception {
    pub(super) receiver: BodyReceiver,
    /// Tells this run of the call from any other at this node.
    pub(super) run: u64,
    /// The times that it was asked for since something has come: because it is late, and in all.
    pub(super) asks: u32,
    pub(super) questions: u32,
    /// The shortest silence after which it is asked for again.
    pub(super) pause: Duration,
}
