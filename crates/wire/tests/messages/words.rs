//! The words that messages are made of, with any values.

use std::collections::BTreeMap;
use std::net::IpAddr;

use bytes::Bytes;
use proptest::prelude::*;
use roost_wire::block::BlockService;
use roost_wire::messages::{
    Candidate, Coverage, FlowDescription, Hop, HopAction, ProviderAddress, Reason, RouteDirection, StreamKeys,
};
use roost_wire::position::Move;
use roost_wire::room::RoomMember;
use roost_wire::{
    Address, Area, Capacity, Cell, Epoch, EpochSecret, ExactPosition, LatLon, Metadata, NodeId, NodeSelector, Offer,
    OrbitElements, Record, RequestId, Scheme, Service, ServiceSet, StreamId, Version,
};

pub(crate) fn cell() -> impl Strategy<Value = Cell> {
    (-1_000_000..=1_000_000, -1_000_000..=1_000_000).prop_map(|(x, y)| Cell::new(x, y))
}

pub(crate) fn area() -> impl Strategy<Value = Area> {
    prop_oneof![
        cell().prop_map(Area::Exact),
        cell().prop_map(Area::Nearest),
        (cell(), 0u32..4_000_000).prop_map(|(center, radius)| Area::Radius { center, radius }),
        (cell(), cell()).prop_map(|(a, b)| Area::rectangle(a, b)),
        Just(Area::Anywhere),
    ]
}

pub(crate) fn id() -> impl Strategy<Value = RequestId> {
    any::<u32>().prop_map(RequestId)
}

pub(crate) fn node() -> impl Strategy<Value = NodeId> {
    any::<[u8; 16]>().prop_map(NodeId::from_bytes)
}

pub(crate) fn version() -> impl Strategy<Value = Version> {
    (any::<u32>(), any::<u32>()).prop_map(|(epoch, sequence)| Version { epoch, sequence })
}

pub(crate) fn capacity() -> impl Strategy<Value = Capacity> {
    (any::<u16>(), any::<u32>()).prop_map(|(streams, uplink_kbps)| Capacity { streams, uplink_kbps })
}

pub(crate) fn service() -> impl Strategy<Value = Service> {
    let named =
        ["video#bow", "acme/lidar:stream", "acme/map#a:object", "acme/tiles:call"].map(|text| text.parse().unwrap());
    prop_oneof![4 => prop::sample::select(Service::ALL.to_vec()), 1 => prop::sample::select(named.to_vec())]
}

pub(crate) fn filter() -> impl Strategy<Value = Metadata> {
    prop_oneof![Just(Metadata::EMPTY), Just("sensor=ir,range=120".parse().unwrap())]
}

pub(crate) fn services() -> impl Strategy<Value = ServiceSet> {
    let offer = (service(), prop::option::of(1_u32..100_000), filter());
    let offer = offer.prop_map(|(service, kbps, metadata)| Offer { kbps, metadata, ..Offer::new(service) });
    let offers = prop::collection::vec(offer, 0..4).prop_map(|offers| ServiceSet::from_offers(offers).unwrap());
    prop_oneof![prop::collection::vec(service(), 0..4).prop_map(|list| list.into_iter().collect()), offers]
}

/// Boxed, as is whatever many messages have: all of it together overflows a test's stack.
pub(crate) fn address() -> BoxedStrategy<Address> {
    let scheme = prop::sample::select(Scheme::ALL.to_vec());
    (scheme, any::<u16>(), prop::collection::vec(any::<IpAddr>(), 1..=4))
        .prop_map(|(scheme, port, hosts)| Address { scheme, port, hosts })
        .boxed()
}

pub(crate) fn addresses() -> impl Strategy<Value = Vec<Address>> {
    prop::collection::vec(address(), 0..=8)
}

pub(crate) fn payload() -> impl Strategy<Value = Bytes> {
    prop::collection::vec(any::<u8>(), 0..2000).prop_map(Bytes::from)
}

pub(crate) fn key() -> impl Strategy<Value = (Epoch, EpochSecret)> {
    (any::<u32>(), any::<[u8; 32]>()).prop_map(|(epoch, secret)| (Epoch(epoch), EpochSecret::from_bytes(secret)))
}

pub(crate) fn reflected() -> BoxedStrategy<StreamKeys> {
    (any::<u64>(), key(), prop::option::of(key()))
        .prop_map(|(stream, (epoch, secret), next)| StreamKeys { stream: StreamId(stream), epoch, secret, next })
        .boxed()
}

pub(crate) fn whereabouts() -> BoxedStrategy<ProviderAddress> {
    (node(), addresses()).prop_map(|(node, addresses)| ProviderAddress { node, addresses }).boxed()
}

pub(crate) fn names() -> impl Strategy<Value = Option<NodeSelector>> {
    prop::option::of("[a-z0-9._-]{0,64}".prop_map(|text| text.parse().unwrap()))
}

pub(crate) fn candidate() -> BoxedStrategy<Candidate> {
    (record(), prop::option::of("[a-z0-9][a-z0-9._-]{0,63}"))
        .prop_map(|(Record { node, version, cell, services, capacity, addresses, position, .. }, name)| Candidate {
            node,
            version,
            cell,
            services,
            capacity,
            addresses,
            name,
            position,
        })
        .boxed()
}

pub(crate) fn position() -> impl Strategy<Value = Option<ExactPosition>> {
    let known = (-90.0..=90.0, -180.0..=180.0, prop::option::of(0.0..360.0), prop::option::of(0.0..1e4));
    prop::option::of(known.prop_map(|(lat, lon, course_deg, speed_mps)| {
        let at = LatLon::new(lat, lon).unwrap();
        ExactPosition { course_deg, speed_mps, ..ExactPosition::new(at) }.rounded()
    }))
}

pub(crate) fn step() -> impl Strategy<Value = Option<Move>> {
    let places = (-80.0..80.0, -170.0..170.0, (-0.1..0.1, -0.1..0.1));
    places.prop_map(|(lat, lon, (north, east))| {
        let at = |lat, lon| ExactPosition::new(LatLon::new(lat, lon).unwrap());
        at(lat, lon).move_to(&at(lat + north, lon + east))
    })
}

pub(crate) fn orbit() -> impl Strategy<Value = Option<OrbitElements>> {
    let known = (0_u64..1 << 48, 1_u32..1_800_000_000, 0_u32..3_600_000, -(1_i64 << 38)..1 << 38);
    prop::option::of(known.prop_map(|(epoch_e8, mean_motion_e8, angle, drag_e11)| OrbitElements {
        epoch_e8,
        mean_motion_e8,
        eccentricity_e7: angle,
        inclination_e4: angle,
        right_ascension_e4: angle,
        perigee_e4: angle,
        mean_anomaly_e4: angle,
        drag_e11,
    }))
}

pub(crate) fn reason() -> impl Strategy<Value = Reason> {
    prop::sample::select(vec![
        Reason::NotFound,
        Reason::NotYetKnown,
        Reason::Busy,
        Reason::Leaving,
        Reason::Protocol,
        Reason::Saturated,
        Reason::Reflected,
    ])
}

pub(crate) fn offer() -> BoxedStrategy<FlowDescription> {
    prop_oneof![
        (any::<u32>(), any::<u32>(), ".{0,40}").prop_map(|(duration_ms, bits_per_second, format)| {
            FlowDescription::Stream { duration_ms, bits_per_second, format }
        }),
        (any::<u64>(), any::<[u8; 32]>(), ".{0,40}", prop::option::of(payload()), prop::option::of(any::<u64>()))
            .prop_map(|(bytes, digest, format, inline, offset)| FlowDescription::Object {
                bytes,
                digest,
                format,
                inline,
                offset
            }),
    ]
    .boxed()
}

pub(crate) fn record() -> BoxedStrategy<Record> {
    (node(), version(), cell(), services(), capacity(), addresses(), position(), orbit())
        .prop_map(|(node, version, cell, services, capacity, addresses, position, orbit)| Record {
            node,
            version,
            cell,
            services,
            capacity,
            addresses,
            position,
            orbit,
        })
        .boxed()
}

pub(crate) fn numbers() -> impl Strategy<Value = Vec<u32>> {
    prop::collection::vec(any::<u32>(), 0..4)
}

pub(crate) fn hop() -> impl Strategy<Value = Hop> {
    let steps = prop::sample::select(vec![HopAction::HandedToProvider, HopAction::Declined, HopAction::Dialed]);
    let micros = || prop::option::of(any::<u32>());
    let who =
        (node(), 1..=8u8, prop::option::of(any::<u8>()), prop::option::of(node()), prop::option::of("[a-z]{0,64}"));
    (who, steps, prop::option::of(reason()), any::<u32>(), micros(), micros()).prop_map(
        |((node, number, tier, other, name), step, reason, held_us, round_trip_us, reached_us)| Hop {
            node,
            index: number,
            tier,
            step,
            reason,
            elapsed_us: held_us,
            other,
            name,
            round_trip_us,
            connected_us: reached_us,
        },
    )
}

pub(crate) fn coverage() -> impl Strategy<Value = Coverage> {
    prop::sample::select(vec![
        Coverage::Complete,
        Coverage::FirstMatch,
        Coverage::HubStarting,
        Coverage::Partial,
        Coverage::UnreachableAbove,
    ])
}

pub(crate) fn way() -> impl Strategy<Value = RouteDirection> {
    prop::sample::select(vec![
        RouteDirection::Up,
        RouteDirection::Across,
        RouteDirection::Down,
        RouteDirection::Overflow,
    ])
}

pub(crate) fn block_services() -> impl Strategy<Value = BTreeMap<BlockService, u32>> {
    prop::collection::btree_map((service(), cell()), any::<u32>(), 0..40).prop_map(|told| {
        told.into_iter()
            .map(|((service, cell), count)| (BlockService::from_cell(service.code(), cell), count))
            .collect()
    })
}

pub(crate) fn member() -> impl Strategy<Value = RoomMember> {
    (node(), cell(), services()).prop_map(|(node, cell, services)| RoomMember { node, cell, services })
}
