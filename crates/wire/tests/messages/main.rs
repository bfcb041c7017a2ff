//! The wire format: every message survives the trip, nothing else gets in, and
//! the messages of a warm request stay small.

#![allow(clippy::unwrap_used, reason = "tests only")]

mod corpus;
mod later;
mod messages;
mod requests;
mod words;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;
use proptest::prelude::*;
use roost_wire::block::BlockService;
use roost_wire::messages::{
    CopyTarget, DirectoryMessage, FlowMessage, HierarchyMessage, HubLookup, MAX_MESSAGE_BYTES, MAX_OBJECT_NAME_BYTES,
    MAX_REPLICA_CHANGES, MAX_REPLICA_NODES, MAX_REPLICA_RECORDS, MAX_SEALED_BYTES, Message, ProvisionalAccept, Push,
    RegistrationMessage, ReplicaCapacity, ReplicaMove, ReplicaRecord, ReplicaUpdate, ReplicationMessage, Request,
    RequestMessage, RoomMessage, Roster, Route, SealedKeys, ServiceRequest, StreamKeys, Summary, WireError,
};
use roost_wire::room::{MAX_MEMBERS, RoomMember};
use roost_wire::{
    Address, Area, Capacity, Cell, Epoch, EpochSecret, ExactPosition, LatLon, Metadata, NodeId, Nonce, Record,
    RequestId, RoomId, Scheme, Service, ServiceSet, StreamId, StreamTag, Version,
};

use messages::any_message;

proptest! {
    #[test]
    fn every_message_survives_the_trip(message in any_message()) {
        prop_assert_eq!(Message::decode(&message.encode()), Ok(message));
    }

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        if let Ok(message) = Message::decode(&bytes) {
            prop_assert_eq!(Message::decode(&message.encode()), Ok(message));
        }
    }

    #[test]
    fn a_damaged_message_never_panics(
        message in any_message(),
        at in any::<prop::sample::Index>(),
        value in any::<u8>(),
    ) {
        let mut bytes = message.encode().to_vec();
        let at = at.index(bytes.len());
        bytes[at] = value;
        let _ = Message::decode(&bytes);
        prop_assert!(Message::decode(&bytes[..at]).is_err(), "a cut message was read");
    }
}

#[test]
fn object_name_length_is_limited() {
    let push = |length| {
        let name = "x".repeat(length);
        Message::Request(RequestMessage::Push(Push {
            id: RequestId(1),
            name,
            bytes: 1,
            digest: [0; 32],
            addresses: Vec::new(),
            delivery: None,
        }))
        .encode()
    };
    assert!(Message::decode(&push(MAX_OBJECT_NAME_BYTES)).is_ok());
    assert!(Message::decode(&push(MAX_OBJECT_NAME_BYTES + 1)).is_err());
}

#[test]
fn roster_size_is_limited() {
    let member = RoomMember { node: NodeId::from_bytes([7; 16]), cell: Cell::new(0, 0), services: ServiceSet::ALL };
    let roster = |count| {
        let members = vec![member.clone(); count];
        Message::Room(RoomMessage::Roster(Roster {
            room: RoomId(1),
            owner: member.node,
            members,
            to: None,
            refused: None,
        }))
        .encode()
    };
    assert!(Message::decode(&roster(MAX_MEMBERS)).is_ok());
    assert!(Message::decode(&roster(MAX_MEMBERS + 1)).is_err());
}

#[test]
fn trailing_or_oversized_bytes_are_refused() {
    let mut bytes = Message::Registration(RegistrationMessage::UnknownVersion).encode().to_vec();
    bytes.push(0);
    assert!(Message::decode(&bytes).is_err());
    assert!(Message::decode(&vec![0; MAX_MESSAGE_BYTES + 1]).is_err());
}

/// A hub declines a request out of bounds, where bytes that are no message get no answer.
#[test]
fn request_out_of_bounds_is_named() {
    let node = NodeId::from_bytes([7; 16]);
    let request = |cell, count| {
        let spec = ServiceRequest::new(Service::Video, Area::Exact(cell));
        let reply_to = vec![Address::single(Scheme::Udp, SocketAddr::from(([10, 0, 0, 1], 7700))); count];
        let route = Some(Route { requester: node, reply_to, hop: None });
        let request = Request { route, ..Request::new(RequestId(1), Nonce::from_u64(1), spec, 1_000) };
        Message::decode(&Message::Request(RequestMessage::Request(request)).encode())
    };
    assert!(request(Cell::new(-1_000_000, 1_000_000), 8).is_ok());
    assert_eq!(request(Cell::new(2_000_000, 0), 8), Err(WireError::OutOfBounds("a cell off the grid")));
    assert_eq!(request(Cell::new(0, i32::MIN), 8), Err(WireError::OutOfBounds("a cell off the grid")));
    assert_eq!(request(Cell::new(0, 0), 9), Err(WireError::OutOfBounds("too many addresses")));
    let lookup = Message::Directory(DirectoryMessage::HubLookup(HubLookup {
        id: RequestId(1),
        service: Service::Video,
        area: Area::Rectangle { min: Cell::new(1, 0), max: Cell::new(0, 0) },
        count: 1,
        direction: None,
        timeout_ms: None,
        selector: None,
        filter: Metadata::EMPTY,
        search: None,
    }));
    assert_eq!(Message::decode(&lookup.encode()), Err(WireError::OutOfBounds("an area off the grid")));
}

/// A hub keeps little of a stream, with room for what is to be sealed.
#[test]
fn what_is_left_sealed_is_bounded() {
    let keys = |length| {
        let (service, provider, sealed) = (Service::Video, NodeId::from_bytes([7; 16]), vec![1; length].into());
        Message::Flow(FlowMessage::SealedKeys(SealedKeys {
            id: Some(RequestId(1)),
            service,
            provider,
            hops_left: 8,
            sealed,
        }))
        .encode()
    };
    assert!(Message::decode(&keys(MAX_SEALED_BYTES)).is_ok());
    assert!(Message::decode(&keys(MAX_SEALED_BYTES + 1)).is_err());
    let secret = |byte| EpochSecret::from_bytes([byte; 32]);
    let (stream, epoch, next) = (StreamId(u64::MAX), Epoch(u32::MAX - 1), Some((Epoch(u32::MAX), secret(2))));
    let reflected = StreamKeys { stream, epoch, secret: secret(1), next };
    let format = "a format with a name that is as long as anybody would make it".to_owned();
    let opening = ProvisionalAccept {
        stream_keys: reflected,
        bits_per_second: u32::MAX,
        format,
        cell: Cell::new(-1_000_000, 1_000_000),
    };
    assert!(opening.encode().len() <= MAX_SEALED_BYTES / 2, "{} bytes", opening.encode().len());
    assert_eq!(ProvisionalAccept::decode(&opening.encode()), Ok(opening));
}

/// The home's longest words to a standby fit into one message, and no more
/// than those are read.
#[test]
fn largest_replica_update_fits() {
    let host = IpAddr::from([7u8; 16]);
    let address = Address { scheme: Scheme::Quic, port: u16::MAX, hosts: vec![host; 4] };
    let record = Record {
        node: NodeId::from_bytes([7; 16]),
        version: Version { epoch: u32::MAX, sequence: u32::MAX },
        cell: Cell::new(-1_000_000, -1_000_000),
        services: ServiceSet::ALL,
        capacity: Capacity { streams: u16::MAX, uplink_kbps: u32::MAX },
        addresses: vec![address; 8],
        position: Some(ExactPosition { course_deg: Some(1.0), ..ExactPosition::new(LatLon::new(1.0, 2.0).unwrap()) }),
        orbit: None,
    };
    let records = |count| {
        let records =
            vec![
                ReplicaRecord { node: MAX_REPLICA_NODES - 1, record: record.clone(), silent_s: Some(u16::MAX) };
                count
            ];
        Message::Replication(ReplicationMessage::ReplicaUpdate(ReplicaUpdate {
            sequence: u32::MAX,
            records,
            starts_resync: Some(true),
            ..ReplicaUpdate::default()
        }))
        .encode()
    };
    assert!(records(MAX_REPLICA_RECORDS).len() <= MAX_MESSAGE_BYTES);
    assert!(Message::decode(&records(MAX_REPLICA_RECORDS)).is_ok());
    assert!(Message::decode(&records(MAX_REPLICA_RECORDS + 1)).is_err());
}

#[test]
fn most_replica_changes_fit() {
    let changes = |count, signs: u32| {
        let capacity = Capacity { streams: u16::MAX, uplink_kbps: u32::MAX };
        let moved = ReplicaMove { node: u32::MAX, versions: u32::MAX, x: i32::MIN, y: i32::MIN, step: None };
        Message::Replication(ReplicationMessage::ReplicaUpdate(ReplicaUpdate {
            sequence: u32::MAX,
            moves: vec![moved; count],
            removed: vec![u32::MAX; count],
            capacities: vec![ReplicaCapacity { node: u32::MAX, capacity }; count],
            alive: Some(Bytes::from(vec![1; signs as usize])),
            alive_within_s: Some(u16::MAX),
            ..ReplicaUpdate::default()
        }))
        .encode()
    };
    assert!(changes(MAX_REPLICA_CHANGES, MAX_REPLICA_NODES / 8).len() <= MAX_MESSAGE_BYTES);
    assert!(Message::decode(&changes(MAX_REPLICA_CHANGES, MAX_REPLICA_NODES / 8)).is_ok());
    assert!(Message::decode(&changes(MAX_REPLICA_CHANGES + 1, 0)).is_err());
    assert!(Message::decode(&changes(0, MAX_REPLICA_NODES / 8 + 1)).is_err());
}

/// A thin uplink carries this update most often.
#[test]
fn move_takes_twenty_bytes() {
    let shifts = vec![ReplicaMove { node: 23, versions: 1, x: -1, y: 0, step: None }];
    let length = Message::Replication(ReplicationMessage::ReplicaUpdate(ReplicaUpdate {
        sequence: 70_000,
        moves: shifts,
        ..ReplicaUpdate::default()
    }))
    .encode()
    .len();
    assert!(length <= 20, "{length} bytes");
}

/// A home's summary must fit into a hundredth of a thin link: one of a hundred neighbouring blocks
/// is a few hundred bytes.
#[test]
fn summary_takes_few_bytes_per_block() {
    let cells = (0..100).map(|n| Cell::new(8 * (n % 10), 8 * (n / 10)));
    let block_services: BTreeMap<BlockService, u32> =
        cells.map(|cell| (BlockService::from_cell(Service::Track.code(), cell), 3)).collect();
    let summary = |block_services| {
        Message::Hierarchy(HierarchyMessage::Summary(Summary {
            run: u32::MAX,
            version: 70_000,
            block_services,
            since: None,
        }))
    };
    let bytes = summary(block_services).encode().len();
    assert!(bytes <= 320, "{bytes} bytes");
}

/// A warm request is three datagrams; what they carry decides whether a thin
/// connection can afford it.
#[test]
fn warm_request_messages_stay_small() {
    let spec = ServiceRequest::new(Service::Sensor, Area::Exact(Cell::new(27, 92)));
    let request = Request::new(RequestId(70_000), Nonce::from_u64(u64::MAX), spec, 10_000);
    let reply_to = vec![Address::single(Scheme::Udp, SocketAddr::from(([10, 0, 0, 1], 40_000)))];
    let route = Route { requester: NodeId::from_bytes([7; 16]), reply_to, hop: None };
    let forward = Message::Request(RequestMessage::Request(Request {
        deadline_ms: 9_900,
        route: Some(route),
        ..request.clone()
    }));
    let request = Message::Request(RequestMessage::Request(request));
    assert!(request.encode().len() <= 32, "request: {} bytes", request.encode().len());
    assert!(forward.encode().len() <= 60, "forward: {} bytes", forward.encode().len());
}

/// Every request for a copy carries its destination over every hop.
#[test]
fn copy_destination_takes_few_bytes() {
    let request = |reflect| {
        let spec = ServiceRequest::new(Service::Video, Area::Exact(Cell::new(27, 92)));
        let request = Request::new(RequestId(70_000), Nonce::from_u64(u64::MAX), spec, 10_000);
        Message::Request(RequestMessage::Request(Request { copy_target: reflect, ..request }))
    };
    let to = |port| CopyTarget {
        to: ([0, 0, 0, 0], port).into(),
        tag: StreamTag(u64::MAX),
        hops: 0,
        provider: None,
        is_resuming: None,
    };
    let bytes = request(Some(to(7_702))).encode();
    assert!(bytes.len() <= 56, "{} bytes", bytes.len());
    assert!(Message::decode(&request(Some(to(0))).encode()).is_err(), "a stream to no port");
}
