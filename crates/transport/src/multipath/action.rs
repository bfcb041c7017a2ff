//! What the sending side tells its owner.

use bytes::Bytes;

use super::path::{PathCounts, PathMetrics};

/// A path, by the number that its owner gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PathId(pub(crate) u32);

/// A chunk on one path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct CopyId(pub(crate) u64);

/// What the owner has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Open a stream, write this, finish it, and say when it is acknowledged.
    Transmit {
        path: PathId,
        copy: CopyId,
        content: [Bytes; 2],
        /// Of streams with something to send, the greatest goes first.
        priority: i32,
    },
    /// Reset a copy's stream: it is of no use any more.
    Cancel { path: PathId, copy: CopyId },
    /// Let packets through beyond the congestion window, or no more: what is
    /// under way on a silent path will not be acknowledged and make room.
    Probe { path: PathId, on: bool },
}

/// What happened to a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PathEvent {
    /// It does not answer any more.
    Lost(PathId),
    /// It answers again.
    Restored(PathId),
}

/// A path as an operator sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PathView {
    pub(crate) path: PathId,
    pub(crate) answers: bool,
    pub(crate) measured: PathMetrics,
    /// Bytes per second that it is known to carry.
    pub(crate) rate: Option<u64>,
    pub(crate) outstanding: usize,
    pub(crate) counts: PathCounts,
}
