//! The output of a multipath connection: actions for its driver, path events and statistics.

use bytes::Bytes;

use super::path::{PathCounts, PathMetrics};

/// A path, by the number that the driver gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PathId(pub(crate) u32);

/// A copy of a chunk on one path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct CopyId(pub(crate) u64);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Open a stream, write this content, finish the stream, and report its acknowledgement.
    Transmit {
        path: PathId,
        copy: CopyId,
        content: [Bytes; 2],
        /// Of the streams with something to send, the one with the greatest value goes first.
        priority: i32,
    },
    /// Reset the stream of a copy that has become useless.
    Cancel { path: PathId, copy: CopyId },
    /// Let packets through beyond the congestion window, or stop doing so. Bytes under way on a silent path are not
    /// acknowledged and so never make room in its window.
    Probe { path: PathId, on: bool },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PathEvent {
    Lost(PathId),
    Restored(PathId),
}

/// A path as an operator sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PathView {
    pub(crate) path: PathId,
    pub(crate) answers: bool,
    pub(crate) measured: PathMetrics,
    /// The greatest recent rate, in bytes per second; `None` before the first measurement.
    pub(crate) rate: Option<u64>,
    pub(crate) outstanding: usize,
    pub(crate) counts: PathCounts,
}
