//! The wire format: every message survives the trip, nothing else gets in, and
//! the messages of a warm request stay small.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;
use proptest::prelude::*;
use roost_proto::block::Patch;
use roost_proto::room::{MAX_MEMBERS, Member};
use roost_proto::wire::{
    Accept, Adopt, Candidate, Carry, Change, Chunk, Coverage, Decline, Forward, Found, Hop, Inquiry, Join, Keys, Left,
    MAX_CHANGES, MAX_GOSSIP_BYTES, MAX_MESSAGE_BYTES, MAX_MIRRORED, MAX_NUMBERED, MAX_OBJECT_NAME_BYTES,
    MAX_SEALED_BYTES, Message, Mirror, Mode, Moved, Numbered, Offer, Opening, Packet, Params, Present, Push, Quit,
    Reason, Reception, Reflect, Reflected, Rekey, Renew, Report, Request, Resume, Retell, Roster, Seek, Shift, Step,
    Summary, Taken, Traced, Watch, Way,
};
use roost_proto::{
    Address, Area, Capacity, Cell, Class, Epoch, NodeId, Nonce, Profile, Record, RequestId, Room, Scheme, SchemeSet,
    Scope, Secret, Service, ServiceSet, StreamId, Tag, Version,
};

fn cell() -> impl Strategy<Value = Cell> {
    (-1_000_000..=1_000_000, -1_000_000..=1_000_000).prop_map(|(x, y)| Cell::new(x, y))
}

fn area() -> impl Strategy<Value = Area> {
    prop_oneof![
        cell().prop_map(Area::At),
        cell().prop_map(Area::Near),
        (cell(), 0u32..4_000_000).prop_map(|(centre, radius)| Area::Within { centre, radius }),
        (cell(), cell()).prop_map(|(a, b)| Area::rectangle(a, b)),
        Just(Area::Anywhere),
    ]
}

fn id() -> impl Strategy<Value = RequestId> {
    any::<u32>().prop_map(RequestId)
}

fn node() -> impl Strategy<Value = NodeId> {
    any::<[u8; 16]>().prop_map(NodeId::from_bytes)
}

fn version() -> impl Strategy<Value = Version> {
    (any::<u32>(), any::<u32>()).prop_map(|(epoch, sequence)| Version { epoch, sequence })
}

fn capacity() -> impl Strategy<Value = Capacity> {
    (any::<u16>(), any::<u32>()).prop_map(|(streams, uplink_kbps)| Capacity { streams, uplink_kbps })
}

fn service() -> impl Strategy<Value = Service> {
    prop::sample::select(Service::ALL.to_vec())
}

fn services() -> impl Strategy<Value = ServiceSet> {
    prop::collection::vec(service(), 0..4).prop_map(|list| list.into_iter().collect())
}

/// Boxed, as is whatever many messages have: all of it together overflows a test's stack.
fn address() -> BoxedStrategy<Address> {
    let scheme = prop::sample::select(Scheme::ALL.to_vec());
    (scheme, any::<u16>(), prop::collection::vec(any::<IpAddr>(), 1..=4))
        .prop_map(|(scheme, port, hosts)| Address { scheme, port, hosts })
        .boxed()
}

fn addresses() -> impl Strategy<Value = Vec<Address>> {
    prop::collection::vec(address(), 0..=8)
}

fn payload() -> impl Strategy<Value = Bytes> {
    prop::collection::vec(any::<u8>(), 0..2000).prop_map(Bytes::from)
}

fn params() -> BoxedStrategy<Option<Params>> {
    let transports = prop::option::of(prop::sample::select(Scheme::ALL.to_vec()).prop_map(SchemeSet::only));
    let profile = prop::option::of(prop::sample::select(Profile::ALL.to_vec()));
    let resume = (any::<[u8; 32]>(), any::<u64>()).prop_map(|(digest, offset)| Resume { digest, offset });
    let resume = prop::option::of(resume);
    let (pushed, reflectable) = (prop::option::of(any::<bool>()), prop::option::of(any::<bool>()));
    let (named, resumes) = (prop::option::of(node()), prop::option::of(any::<bool>()));
    let reflect = (any::<IpAddr>(), 1..=u16::MAX, any::<u64>(), any::<u8>(), named, resumes).prop_map(
        |(host, port, tag, hops, provider, resumes)| Reflect {
            to: (host, port).into(),
            tag: Tag(tag),
            hops,
            provider,
            resumes,
        },
    );
    let class = prop::option::of(prop::sample::select(Class::ALL.to_vec()));
    let reflection = (prop::option::of(reflect), reflectable);
    let duration = prop::option::of(any::<u32>());
    prop::option::of(
        (duration, transports, prop::option::of(any::<bool>()), profile, resume, pushed, class, reflection).prop_map(
            |(duration_ms, transports, trace, profile, resume, pushed, class, (reflect, reflectable))| Params {
                duration_ms,
                transports,
                trace,
                profile,
                resume,
                pushed,
                reflect,
                reflectable,
                class,
            },
        ),
    )
    .boxed()
}

fn key() -> impl Strategy<Value = (Epoch, Secret)> {
    (any::<u32>(), any::<[u8; 32]>()).prop_map(|(epoch, secret)| (Epoch(epoch), Secret::from_bytes(secret)))
}

fn reflected() -> BoxedStrategy<Reflected> {
    (any::<u64>(), key(), prop::option::of(key()))
        .prop_map(|(stream, (epoch, secret), next)| Reflected { stream: StreamId(stream), epoch, secret, next })
        .boxed()
}

fn candidate() -> BoxedStrategy<Candidate> {
    (node(), version(), cell(), services(), capacity(), addresses())
        .prop_map(|(node, version, cell, services, capacity, addresses)| Candidate {
            node,
            version,
            cell,
            services,
            capacity,
            addresses,
        })
        .boxed()
}

fn reason() -> impl Strategy<Value = Reason> {
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

fn offer() -> BoxedStrategy<Offer> {
    prop_oneof![
        (any::<u32>(), any::<u32>(), ".{0,40}").prop_map(|(duration_ms, bits_per_second, format)| Offer::Stream {
            duration_ms,
            bits_per_second,
            format
        }),
        (any::<u64>(), any::<[u8; 32]>(), ".{0,40}", prop::option::of(payload()), prop::option::of(any::<u64>()))
            .prop_map(|(bytes, digest, format, inline, offset)| Offer::Object {
                bytes,
                digest,
                format,
                inline,
                offset
            }),
    ]
    .boxed()
}

fn record() -> BoxedStrategy<Record> {
    (node(), version(), cell(), services(), capacity(), addresses())
        .prop_map(|(node, version, cell, services, capacity, addresses)| Record {
            node,
            version,
            cell,
            services,
            capacity,
            addresses,
        })
        .boxed()
}

fn push_message() -> impl Strategy<Value = Message> {
    let reception = prop::sample::select(vec![Reception::Underway, Reception::Stored, Reception::Unwritable]);
    prop_oneof![
        (any::<u32>(), ".{0,40}", any::<u64>(), any::<[u8; 32]>(), addresses()).prop_map(
            |(id, name, bytes, digest, addresses)| Message::Push(Push {
                id: RequestId(id),
                name,
                bytes,
                digest,
                addresses
            })
        ),
        (any::<u32>(), reception).prop_map(|(id, reception)| Message::Pushed { id: RequestId(id), reception }),
    ]
}

#[test]
fn an_offered_object_has_no_endless_name() {
    let push = |length| {
        let name = "x".repeat(length);
        Message::Push(Push { id: RequestId(1), name, bytes: 1, digest: [0; 32], addresses: Vec::new() }).encode()
    };
    assert!(Message::decode(&push(MAX_OBJECT_NAME_BYTES)).is_ok());
    assert!(Message::decode(&push(MAX_OBJECT_NAME_BYTES + 1)).is_err());
}

fn membership_message() -> impl Strategy<Value = Message> {
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..MAX_GOSSIP_BYTES).prop_map(|bytes| Message::Gossip(bytes.into())),
        (any::<u32>(), any::<Option<u32>>())
            .prop_map(|(leases, residual_kbps)| Message::Load { leases, residual_kbps }),
        prop::collection::vec(address(), 1..=8).prop_map(Message::Redirect),
    ]
}

fn numbers() -> impl Strategy<Value = Vec<u32>> {
    prop::collection::vec(any::<u32>(), 0..4)
}

fn mirror() -> impl Strategy<Value = Mirror> {
    let shift = (any::<u32>(), 1..=u32::MAX, any::<i32>(), any::<i32>()).prop_map(|(node, versions, x, y)| Shift {
        node,
        versions,
        x,
        y,
    });
    let left = (any::<u32>(), capacity()).prop_map(|(node, capacity)| Left { node, capacity });
    let numbered = (0..MAX_NUMBERED, record()).prop_map(|(node, record)| Numbered { node, record });
    let changes = (prop::collection::vec(shift, 0..4), numbers(), prop::collection::vec(left, 0..4), any::<u32>());
    let heard = prop::option::of((0..40usize).prop_map(|bytes| Bytes::from(vec![7; bytes])));
    let ends = (prop::option::of(any::<bool>()), prop::option::of(any::<bool>()));
    (changes, prop::collection::vec(numbered, 0..4), heard, ends).prop_map(
        |((shifts, gone, left, number), records, heard, (first, last))| Mirror {
            number,
            shifts,
            gone,
            left,
            records,
            heard,
            first,
            last,
        },
    )
}

fn standby_message() -> impl Strategy<Value = Message> {
    prop_oneof![
        (node(), prop::option::of(addresses())).prop_map(|(hub, addresses)| Message::StandBy { hub, addresses }),
        (version(), version(), capacity(), prop::option::of(any::<bool>()))
            .prop_map(|(held, version, capacity, returns)| Message::Adopt(Adopt { held, version, capacity, returns })),
        mirror().prop_map(Message::Mirror),
        (any::<u32>(), numbers()).prop_map(|(number, nodes)| Message::Retell(Retell { number, nodes })),
        any::<u32>().prop_map(Message::Later),
        Just(Message::HandOver),
    ]
}

fn hop() -> impl Strategy<Value = Hop> {
    let steps = prop::sample::select(vec![Step::Handed, Step::Declined, Step::Dialled]);
    let micros = || prop::option::of(any::<u32>());
    let who =
        (node(), 1..=8u8, prop::option::of(any::<u8>()), prop::option::of(node()), prop::option::of("[a-z]{0,64}"));
    (who, steps, prop::option::of(reason()), any::<u32>(), micros(), micros()).prop_map(
        |((node, number, tier, other, name), step, reason, held_us, round_trip_us, reached_us)| Hop {
            node,
            number,
            tier,
            step,
            reason,
            held_us,
            other,
            name,
            round_trip_us,
            reached_us,
        },
    )
}

fn lease_message() -> impl Strategy<Value = Message> {
    prop_oneof![
        record().prop_map(Message::Publish),
        (version(), any::<u32>(), prop::option::of(addresses()), prop::option::of(addresses())).prop_map(
            |(version, lease_ms, siblings, addresses)| Message::Lease { version, lease_ms, siblings, addresses }
        ),
        (version(), prop::option::of(capacity()))
            .prop_map(|(version, capacity)| Message::Renew(Renew { version, capacity })),
        Just(Message::Anew),
        version().prop_map(Message::Withdraw),
        any::<u32>().prop_map(Message::Ping),
        any::<u32>().prop_map(Message::Pong),
        (node(), version()).prop_map(|(node, version)| Message::Claim { node, version }),
    ]
}

fn request_message() -> impl Strategy<Value = Message> {
    let mode = prop::sample::select(vec![Mode::Forward, Mode::Relay, Mode::Locate]);
    let nonce = any::<u64>().prop_map(Nonce::from_u64).boxed();
    let scope = prop::option::of(prop::sample::select(Scope::ALL.to_vec()));
    prop_oneof![
        (id(), nonce.clone(), service(), area(), mode.clone(), any::<u32>(), any::<u8>(), params(), scope).prop_map(
            |(id, nonce, service, area, mode, deadline_ms, count, params, scope)| Message::Request(Request {
                id,
                nonce,
                service,
                area,
                mode,
                deadline_ms,
                count,
                params,
                scope
            })
        ),
        (id(), nonce.clone(), service(), node(), addresses(), any::<u32>(), params()).prop_map(
            |(id, nonce, service, requester, reply_to, deadline_ms, params)| {
                Message::Forward(Forward { id, nonce, service, requester, reply_to, deadline_ms, params })
            }
        ),
        (id(), nonce, offer(), cell(), prop::option::of(node()), prop::option::of(reflected())).prop_map(
            |(id, nonce, offer, cell, provider, reflected)| {
                Message::Accept(Accept { id, nonce, offer, cell, provider, reflected })
            }
        ),
        (id(), reason(), prop::option::of(any::<u32>()), prop::option::of(node())).prop_map(
            |(id, reason, retry_after_ms, requester)| {
                Message::Decline(Decline { id, reason, retry_after_ms, requester })
            }
        ),
        (id(), prop::option::of(node())).prop_map(|(id, requester)| Message::Pending { id, requester }),
        (id(), prop::option::of(node()), hop()).prop_map(|(id, requester, hop)| Message::Traced(Traced {
            id,
            requester,
            hop
        })),
        (id(), prop::collection::vec(candidate(), 0..8)).prop_map(|(id, candidates)| Message::Found(Found {
            id,
            candidates,
            coverage: Coverage::Young
        })),
        (id(), service(), area(), any::<u8>(), prop::option::of(way()), prop::option::of(any::<u32>())).prop_map(
            |(id, service, area, count, way, patience_ms)| Message::Seek(Seek {
                id,
                service,
                area,
                count,
                way,
                patience_ms
            })
        ),
    ]
}

fn coverage() -> impl Strategy<Value = Coverage> {
    prop::sample::select(vec![
        Coverage::Whole,
        Coverage::First,
        Coverage::Young,
        Coverage::Partial,
        Coverage::UnreachableAbove,
    ])
}

fn way() -> impl Strategy<Value = Way> {
    prop::sample::select(vec![Way::Up, Way::Across, Way::Down, Way::Back])
}

fn patches() -> impl Strategy<Value = Vec<(Patch, u32)>> {
    prop::collection::btree_map((service(), cell()), any::<u32>(), 0..40).prop_map(|told| {
        let told: BTreeMap<Patch, u32> =
            told.into_iter().map(|((service, cell), count)| (Patch::of(service, cell), count)).collect();
        told.into_iter().collect()
    })
}

fn hub_message() -> BoxedStrategy<Message> {
    let nonce = any::<u64>().prop_map(Nonce::from_u64);
    let provider = prop::option::of(node());
    let request = (id(), nonce, service(), cell(), node(), addresses());
    prop_oneof![
        any::<u8>().prop_map(|tier| Message::Enrol { tier }),
        any::<bool>().prop_map(Message::Aside),
        (node(), version(), node(), node(), service(), cell(), way(), any::<u8>()).prop_map(
            |(node, version, old, new, service, cell, way, hops)| {
                Message::Moved(Moved { node, version, old, new, service, cell, way, hops })
            }
        ),
        (any::<u32>(), any::<u64>(), patches(), prop::option::of(any::<u64>()))
            .prop_map(|(run, version, patches, since)| Message::Summary(Summary { run, version, patches, since })),
        (id(), prop::option::of(node()), prop::option::of(node()))
            .prop_map(|(id, requester, provider)| Message::Underway { id, requester, provider }),
        (request, any::<u32>(), way(), any::<u8>(), provider, params()).prop_map(
            |((id, nonce, service, cell, requester, reply_to), deadline_ms, way, hops, provider, params)| {
                Message::Carry(Carry {
                    id,
                    nonce,
                    service,
                    cell,
                    requester,
                    reply_to,
                    deadline_ms,
                    way,
                    hops,
                    provider,
                    params,
                })
            }
        ),
    ]
    .boxed()
}

fn member() -> impl Strategy<Value = Member> {
    (node(), cell(), services()).prop_map(|(node, cell, services)| Member { node, cell, services })
}

fn room_message() -> BoxedStrategy<Message> {
    let room = || any::<u64>().prop_map(Room);
    let members = prop::collection::vec(member(), 0..=MAX_MEMBERS);
    prop_oneof![
        (room(), member(), prop::option::of(way())).prop_map(|(room, member, way)| Message::Join(Join {
            room,
            member,
            way
        })),
        (room(), node(), prop::option::of(way())).prop_map(|(room, node, way)| Message::Quit(Quit { room, node, way })),
        (room(), node(), members, prop::option::of(node()), prop::option::of(reason())).prop_map(
            |(room, owner, members, to, refused)| Message::Roster(Roster { room, owner, members, to, refused })
        ),
    ]
    .boxed()
}

#[test]
fn a_room_has_no_more_members_than_it_may() {
    let member = Member { node: NodeId::from_bytes([7; 16]), cell: Cell::new(0, 0), services: ServiceSet::ALL };
    let roster = |count| {
        let members = vec![member; count];
        Message::Roster(Roster { room: Room(1), owner: member.node, members, to: None, refused: None }).encode()
    };
    assert!(Message::decode(&roster(MAX_MEMBERS)).is_ok());
    assert!(Message::decode(&roster(MAX_MEMBERS + 1)).is_err());
}

fn flow_message() -> impl Strategy<Value = Message> {
    prop_oneof![
        (id(), any::<u64>(), any::<u64>(), payload())
            .prop_map(|(id, sequence, sent_us, payload)| Message::Packet(Packet { id, sequence, sent_us, payload })),
        (id(), any::<u64>(), payload()).prop_map(|(id, offset, payload)| Message::Chunk(Chunk { id, offset, payload })),
        (id(), any::<u64>(), any::<u64>(), any::<[u8; 32]>()).prop_map(|(id, packets, bytes, digest)| Message::End {
            id,
            packets,
            bytes,
            digest
        }),
        (id(), any::<u64>(), any::<u64>(), any::<u64>(), any::<u32>()).prop_map(
            |(id, bytes, packets, lost, jitter_us)| Message::Report(Report { id, bytes, packets, lost, jitter_us })
        ),
        (id(), reason()).prop_map(|(id, reason)| Message::Stop { id, reason }),
        (id(), any::<u64>(), key()).prop_map(|(id, stream, (epoch, secret))| {
            Message::Rekey(Rekey { id, stream: StreamId(stream), epoch, secret })
        }),
        (id(), services(), area(), any::<u64>(), prop::option::of(way()))
            .prop_map(|(id, services, area, seen, way)| Message::Watch(Watch { id, services, area, seen, way })),
        (
            id(),
            any::<u64>(),
            prop::collection::vec(candidate(), 0..4),
            prop::collection::vec(node(), 0..4),
            prop::option::of(coverage())
        )
            .prop_map(|(id, number, present, gone, coverage)| Message::Change(Change {
                id,
                number,
                present,
                gone,
                coverage
            })),
        id().prop_map(Message::Unwatch),
        (
            prop::option::of(id()),
            service(),
            node(),
            any::<u8>(),
            prop::collection::vec(any::<u8>(), 0..=MAX_SEALED_BYTES)
        )
            .prop_map(|(id, service, provider, hops, sealed)| {
                Message::Keys(Keys { id, service, provider, hops, sealed: sealed.into() })
            }),
    ]
}

/// What goes to everybody on a link.
fn link_message() -> impl Strategy<Value = Message> {
    let nonce = any::<u64>().prop_map(Nonce::from_u64);
    let mode = prop::sample::select(vec![Mode::Forward, Mode::Locate]);
    let what = (id(), nonce, service(), area(), mode, node());
    prop_oneof![
        (what, addresses(), any::<u32>(), any::<u8>(), any::<u8>(), params()).prop_map(
            |((id, nonce, service, area, mode, requester), reply_to, deadline_ms, attempt, count, params)| {
                Message::Inquiry(Inquiry {
                    id,
                    nonce,
                    service,
                    area,
                    mode,
                    requester,
                    reply_to,
                    deadline_ms,
                    attempt,
                    count,
                    params,
                })
            }
        ),
        (node(), id(), any::<u8>(), node()).prop_map(|(requester, id, attempt, node)| Message::Taken(Taken {
            requester,
            id,
            attempt,
            node
        })),
        (node(), id(), candidate()).prop_map(|(requester, id, candidate)| Message::Present(Present {
            requester,
            id,
            candidate
        })),
    ]
}

fn any_message() -> impl Strategy<Value = Message> {
    prop_oneof![
        lease_message(),
        standby_message(),
        membership_message(),
        push_message(),
        request_message(),
        flow_message(),
        hub_message(),
        room_message(),
        link_message()
    ]
}

proptest! {
    #[test]
    fn every_message_survives_the_trip(message in any_message()) {
        prop_assert_eq!(Message::decode(&message.encode()), Ok(message));
    }

    #[test]
    fn random_bytes_are_refused_or_read_but_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
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
fn what_follows_a_message_or_is_too_long_is_refused() {
    let mut bytes = Message::Anew.encode().to_vec();
    bytes.push(0);
    assert!(Message::decode(&bytes).is_err());
    assert!(Message::decode(&vec![0; MAX_MESSAGE_BYTES + 1]).is_err());
}

#[test]
fn places_off_the_grid_are_refused() {
    let request = Message::Seek(Seek {
        id: RequestId(1),
        service: Service::Video,
        area: Area::At(Cell::new(2_000_000, 0)),
        count: 1,
        way: None,
        patience_ms: None,
    });
    assert!(Message::decode(&request.encode()).is_err());
}

/// What a hub keeps of a stream is little, and has room for what is to be sealed.
#[test]
fn what_is_left_sealed_is_bounded() {
    let keys = |length| {
        let (service, provider, sealed) = (Service::Video, NodeId::from_bytes([7; 16]), vec![1; length].into());
        Message::Keys(Keys { id: Some(RequestId(1)), service, provider, hops: 8, sealed }).encode()
    };
    assert!(Message::decode(&keys(MAX_SEALED_BYTES)).is_ok());
    assert!(Message::decode(&keys(MAX_SEALED_BYTES + 1)).is_err());
    let secret = |byte| Secret::from_bytes([byte; 32]);
    let (stream, epoch, next) = (StreamId(u64::MAX), Epoch(u32::MAX - 1), Some((Epoch(u32::MAX), secret(2))));
    let reflected = Reflected { stream, epoch, secret: secret(1), next };
    let format = "a format with a name that is as long as anybody would make it".to_owned();
    let opening = Opening { reflected, bits_per_second: u32::MAX, format, cell: Cell::new(-1_000_000, 1_000_000) };
    assert!(opening.encode().len() <= MAX_SEALED_BYTES / 2, "{} bytes", opening.encode().len());
    assert_eq!(Opening::decode(&opening.encode()), Ok(opening));
}

/// The home's longest words to a stand-by fit into one message, and no more
/// than those are read.
#[test]
fn a_full_mirror_fits_and_a_fuller_one_is_refused() {
    let host = IpAddr::from([7u8; 16]);
    let address = Address { scheme: Scheme::Quic, port: u16::MAX, hosts: vec![host; 4] };
    let record = Record {
        node: NodeId::from_bytes([7; 16]),
        version: Version { epoch: u32::MAX, sequence: u32::MAX },
        cell: Cell::new(-1_000_000, -1_000_000),
        services: ServiceSet::ALL,
        capacity: Capacity { streams: u16::MAX, uplink_kbps: u32::MAX },
        addresses: vec![address; 8],
    };
    let records = |count| {
        let records = vec![Numbered { node: MAX_NUMBERED - 1, record: record.clone() }; count];
        Message::Mirror(Mirror { number: u32::MAX, records, first: Some(true), ..Mirror::default() }).encode()
    };
    assert!(records(MAX_MIRRORED).len() <= MAX_MESSAGE_BYTES);
    assert!(Message::decode(&records(MAX_MIRRORED)).is_ok());
    assert!(Message::decode(&records(MAX_MIRRORED + 1)).is_err());
    let changes = |count, signs: u32| {
        let left = Left { node: u32::MAX, capacity: record.capacity };
        let shift = Shift { node: u32::MAX, versions: u32::MAX, x: i32::MIN, y: i32::MIN };
        let (shifts, gone, left) = (vec![shift; count], vec![u32::MAX; count], vec![left; count]);
        let heard = Some(Bytes::from(vec![1; signs as usize]));
        Message::Mirror(Mirror { number: u32::MAX, shifts, gone, left, heard, ..Mirror::default() }).encode()
    };
    assert!(changes(MAX_CHANGES, MAX_NUMBERED / 8).len() <= MAX_MESSAGE_BYTES);
    assert!(Message::decode(&changes(MAX_CHANGES, MAX_NUMBERED / 8)).is_ok());
    assert!(Message::decode(&changes(MAX_CHANGES + 1, 0)).is_err());
    assert!(Message::decode(&changes(0, MAX_NUMBERED / 8 + 1)).is_err());
}

/// What a thin uplink carries most often.
#[test]
fn a_move_is_told_in_twenty_bytes() {
    let shifts = vec![Shift { node: 23, versions: 1, x: -1, y: 0 }];
    let length = Message::Mirror(Mirror { number: 70_000, shifts, ..Mirror::default() }).encode().len();
    assert!(length <= 20, "{length} bytes");
}

/// What a home tells upward must fit into a hundredth of a thin link: a
/// summary of a hundred neighbouring patches is a few hundred bytes.
#[test]
fn a_summary_is_a_few_bytes_for_each_patch() {
    let cells = (0..100).map(|n| Cell::new(8 * (n % 10), 8 * (n / 10)));
    let patches: BTreeMap<Patch, u32> = cells.map(|cell| (Patch::of(Service::Track, cell), 3)).collect();
    let patches: Vec<(Patch, u32)> = patches.into_iter().collect();
    let summary = |patches| Message::Summary(Summary { run: u32::MAX, version: 70_000, patches, since: None });
    let bytes = summary(patches).encode().len();
    assert!(bytes <= 320, "{bytes} bytes");
}

/// A warm request is three datagrams; what they carry decides whether a thin
/// link can afford it.
#[test]
fn the_messages_of_a_warm_request_stay_small() {
    let request = Message::Request(Request {
        id: RequestId(70_000),
        nonce: Nonce::from_u64(u64::MAX),
        service: Service::Sensor,
        area: Area::At(Cell::new(27, 92)),
        mode: Mode::Forward,
        deadline_ms: 10_000,
        count: 0,
        params: None,
        scope: None,
    });
    let forward = Message::Forward(Forward {
        id: RequestId(70_000),
        nonce: Nonce::from_u64(u64::MAX),
        service: Service::Sensor,
        requester: NodeId::from_bytes([7; 16]),
        reply_to: vec![Address::single(Scheme::Udp, SocketAddr::from(([10, 0, 0, 1], 40_000)))],
        deadline_ms: 9_900,
        params: None,
    });
    assert!(request.encode().len() <= 32, "request: {} bytes", request.encode().len());
    assert!(forward.encode().len() <= 56, "forward: {} bytes", forward.encode().len());
}

/// Where a copy is wanted travels with every request for one, over every hop.
#[test]
fn where_a_copy_is_wanted_is_told_in_few_bytes() {
    let request = |reflect| {
        Message::Request(Request {
            id: RequestId(70_000),
            nonce: Nonce::from_u64(u64::MAX),
            service: Service::Video,
            area: Area::At(Cell::new(27, 92)),
            mode: Mode::Forward,
            deadline_ms: 10_000,
            count: 0,
            params: Some(Params { reflect, ..Params::default() }),
            scope: None,
        })
    };
    let to =
        |port| Reflect { to: ([0, 0, 0, 0], port).into(), tag: Tag(u64::MAX), hops: 0, provider: None, resumes: None };
    let bytes = request(Some(to(7_702))).encode();
    assert!(bytes.len() <= 56, "{} bytes", bytes.len());
    assert!(Message::decode(&request(Some(to(0))).encode()).is_err(), "a stream to no port");
}
