//! A path of a simulated connection: a QUIC connection, with its streams.

use std::time::Instant;

use bytes::Bytes;
use quinn_proto::{Connection, ConnectionHandle};

use super::streams::Streams;
use crate::multipath::PathMetrics;
use crate::quic::allowance::Allowance;
use crate::quic::probing::Probing;

pub(super) struct SimulatedPath {
    pub(super) handle: ConnectionHandle,
    pub(super) quinn_connection: Connection,
    pub(super) streams: Streams,
    pub(super) allowance: Allowance,
    pub(super) probing: Probing,
    /// True once both sides have sent their greeting.
    pub(super) is_joined: bool,
}

impl SimulatedPath {
    pub(super) fn new(now: Instant, handle: ConnectionHandle, quinn_connection: Connection, probing: Probing) -> Self {
        let (streams, allowance) = (Streams::default(), Allowance::new(now));
        Self { handle, quinn_connection, streams, allowance, probing, is_joined: false }
    }

    /// Queues a greeting, which leaves before all chunks.
    pub(super) fn say(&mut self, greeting: Vec<u8>) {
        self.streams.waiting.push_front((None, [greeting.into(), Bytes::new()], 0));
    }

    pub(super) fn write(&mut self) {
        self.streams.write(&mut self.quinn_connection);
    }

    pub(super) fn measured(&self) -> PathMetrics {
        let path = self.quinn_connection.stats().path;
        PathMetrics { rtt: path.rtt, window: path.cwnd.saturating_sub(self.probing.room()) }
    }
}
