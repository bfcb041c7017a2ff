//! What can be told of a relay: for people, metrics, and the control plane.

use std::net::SocketAddr;
use std::time::Duration;

use roost_wire::reflection::DownstreamKind;
use roost_wire::{StreamId, Time};

use super::stream::StreamName;
use super::{RejectedCounts, Relay};
use crate::control::ReceiverReport;
use crate::reflector::ArrivalCounts;
use crate::target::TargetStats;

/// One stream.
#[derive(Clone, Debug)]
pub struct StreamStatus {
    /// Which.
    pub stream: StreamId,
    /// Whether it begins here.
    pub is_published: bool,
    /// Whether it is watched here.
    pub is_local: bool,
    /// By what it was asked for.
    pub names: Vec<StreamName>,
    /// What comes, bits per second.
    pub bits_per_second: u64,
    /// What has become of its packets here.
    pub arrivals: ArrivalCounts,
    /// Packets that were lost on the way here and not repaired in time.
    pub given_up: u64,
    /// Where it comes from, the latest last.
    pub upstreams: Vec<UpstreamStatus>,
    /// Where it goes.
    pub downstreams: Vec<DownstreamStatus>,
}

/// One upstream of a stream.
#[derive(Clone, Copy, Debug)]
pub struct UpstreamStatus {
    /// Its address.
    pub address: SocketAddr,
    /// Whether it will leave.
    pub is_leaving: bool,
    /// What has come from it.
    pub reported: ReceiverReport,
    /// How often it was asked for missing packets.
    pub nacks: u64,
    /// How long it takes there and back, as far as is known.
    pub round_trip: Duration,
}

/// One downstream of a stream.
#[derive(Clone, Copy, Debug)]
pub struct DownstreamStatus {
    /// Its address.
    pub address: SocketAddr,
    /// What it is.
    pub kind: DownstreamKind,
    /// Whether it has answered.
    pub has_answered: bool,
    /// What it was sent.
    pub statistics: TargetStats,
    /// What it says has come.
    pub reported: ReceiverReport,
    /// Packets of parity for each 16 that it gets now, and how many it was sent in all.
    pub parity: (u8, u64),
}

impl Relay {
    /// All streams.
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

    /// How unevenly the frames of a stream come here, over the leg that was heard last; `None` if none does.
    pub fn jitter(&self, stream: StreamId) -> Option<Duration> {
        let leg = self.streams.get(&stream)?.upstreams.iter().max_by_key(|leg| leg.heard)?;
        Some(Duration::from_micros(leg.reported(0).jitter_us.into()))
    }

    /// What was not taken so far.
    pub fn rejected(&self) -> RejectedCounts {
        self.rejected
    }
}
