//! The status of a relay: for people, metrics, and the control plane.

use std::net::SocketAddr;
use std::time::Duration;

use roost_wire::reflection::DownstreamKind;
use roost_wire::{StreamId, Time};

use super::stream::StreamName;
use super::{RejectedCounts, Relay};
use crate::control::ReceiverReport;
use crate::reflector::ArrivalCounts;
use crate::target::TargetStats;

#[derive(Clone, Debug)]
pub struct StreamStatus {
    pub stream: StreamId,
    pub is_published: bool,
    /// True if a subscriber of this host watches it.
    pub is_local: bool,
    /// The names by which it was requested.
    pub names: Vec<StreamName>,
    /// The rate at which the stream comes, bits per second.
    pub bits_per_second: u64,
    pub arrivals: ArrivalCounts,
    /// Packets that were lost on the way here and not repaired in time.
    pub given_up: u64,
    /// The latest upstream is the last.
    pub upstreams: Vec<UpstreamStatus>,
    pub downstreams: Vec<DownstreamStatus>,
}

/// The status of an upstream of a stream.
#[derive(Clone, Copy, Debug)]
pub struct UpstreamStatus {
    pub address: SocketAddr,
    /// True if it has told that it will leave.
    pub is_leaving: bool,
    /// The counts of its packets here.
    pub reported: ReceiverReport,
    /// The number of requests for missing packets.
    pub nacks: u64,
    /// The round trip, as far as is known.
    pub round_trip: Duration,
}

/// The status of a downstream of a stream.
#[derive(Clone, Copy, Debug)]
pub struct DownstreamStatus {
    pub address: SocketAddr,
    pub kind: DownstreamKind,
    pub has_answered: bool,
    /// The counts of its packets here.
    pub statistics: TargetStats,
    /// The counts of its last report.
    pub reported: ReceiverReport,
    /// Packets of parity for each 16 that it gets now, and how many it was sent in all.
    pub parity: (u8, u64),
}

impl Relay {
    pub fn streams(&self, now: Time) -> impl Iterator<Item = StreamStatus> {
        self.streams.iter().map(move |(id, stream)| StreamStatus {
            stream: *id,
            is_published: stream.is_published,
            is_local: stream.is_local,
            names: stream.names.clone(),
            bits_per_second: stream.reflector.bits_per_second(),
            arrivals: stream.reflector.arrivals(),
            given_up: stream.gaps.given_up(),
            upstreams: stream
                .upstreams
                .iter()
                .map(|leg| UpstreamStatus {
                    address: leg.address,
                    is_leaving: leg.is_leaving(now),
                    reported: leg.reported(stream.gaps.given_up()),
                    nacks: leg.nacks,
                    round_trip: leg.round_trip,
                })
                .collect(),
            downstreams: stream
                .downstreams
                .iter()
                .map(|(address, member)| DownstreamStatus {
                    address: *address,
                    kind: member.kind,
                    has_answered: member.has_answered(),
                    statistics: member
                        .target
                        .and_then(|target| stream.reflector.targets().statistics(target))
                        .unwrap_or_default(),
                    reported: member.reported,
                    parity: (member.parity, member.parities),
                })
                .collect(),
        })
    }

    /// The jitter of the frames of a stream, over the upstream that was heard last; `None` without upstreams.
    pub fn jitter(&self, stream: StreamId) -> Option<Duration> {
        let leg = self.streams.get(&stream)?.upstreams.iter().max_by_key(|leg| leg.heard)?;
        Some(Duration::from_micros(leg.reported(0).jitter_us.into()))
    }

    pub fn rejected(&self) -> RejectedCounts {
        self.rejected
    }
}
