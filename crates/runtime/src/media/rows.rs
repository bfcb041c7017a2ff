//! A relay's streams in the types of the local API.

use std::net::SocketAddr;

use roost_api::{DownstreamRow, SCHEMA, StreamRow, Streams, UpstreamRow};
use roost_reflection::Relay;
use roost_reflection::relay::{DownstreamStatus, StreamStatus, UpstreamStatus};
use roost_wire::Time;
use roost_wire::reflection::DownstreamKind;

use crate::shared::millis;

pub fn streams(relay: &Relay, now: Time, media: SocketAddr) -> Streams {
    Streams {
        schema: SCHEMA,
        media: Some(media.to_string()),
        residual_bps: relay.residual_capacity(),
        streams: relay.streams(now).map(|status| stream(&status)).collect(),
    }
}

/// The answer of a daemon without a relay.
pub fn none() -> Streams {
    Streams { schema: SCHEMA, media: None, residual_bps: None, streams: Vec::new() }
}

fn stream(status: &StreamStatus) -> StreamRow {
    // The name that says most.
    let name = status.names.iter().max_by_key(|name| (name.provider.is_some(), name.cell.is_some()));
    StreamRow {
        stream: status.stream.to_string(),
        service: name.map(|name| name.service),
        cell: name.and_then(|name| name.cell),
        provider: name.and_then(|name| name.provider),
        provider_name: None,
        published: status.is_published,
        watched: status.is_local,
        bits_per_second: status.bits_per_second,
        packets: status.arrivals.taken,
        duplicates: status.arrivals.duplicate,
        lost: status.given_up,
        upstreams: status.upstreams.iter().map(upstream).collect(),
        downstreams: status.downstreams.iter().map(downstream).collect(),
    }
}

fn upstream(leg: &UpstreamStatus) -> UpstreamRow {
    UpstreamRow {
        address: leg.address.to_string(),
        node: None,
        name: None,
        packets: leg.reported.received,
        lost: leg.reported.lost,
        nacks: leg.nacks,
        jitter_ms: f64::from(leg.reported.jitter_us) / 1e3,
        rtt_ms: millis(leg.round_trip),
        leaving: leg.is_leaving,
    }
}

fn downstream(member: &DownstreamStatus) -> DownstreamRow {
    let kind = match member.kind {
        DownstreamKind::Subscriber => "subscriber",
        DownstreamKind::Reflector => "reflector",
    };
    DownstreamRow {
        address: member.address.to_string(),
        node: None,
        name: None,
        kind: kind.to_owned(),
        answered: member.has_answered,
        bits_per_second: member.statistics.bits_per_second,
        packets: member.statistics.packets,
        dropped: member.statistics.dropped,
        nacked: member.statistics.nacked,
        repaired: member.statistics.repaired,
        received: member.reported.received,
        lost: member.reported.lost,
        jitter_ms: f64::from(member.reported.jitter_us) / 1e3,
    }
}
