//! Messages of every kind, with any values.

use std::collections::BTreeMap;
use std::net::IpAddr;

use bytes::Bytes;
use proptest::prelude::*;
use roost_proto::block::Patch;
use roost_proto::room::{MAX_MEMBERS, Member};
use roost_proto::wire::{
    Accept, Adopt, Candidate, Capabilities, Carry, Change, Chunk, Coverage, Decline, Forward, Found, Hello, Hop,
    Inquiry, Join, Keys, Left, MAX_GOSSIP_BYTES, MAX_NUMBERED, MAX_SEALED_BYTES, MediaAddress, Message, Mirror, Mode,
    Moved, Numbered, Offer, Packet, Params, Present, Protocol, Push, Quit, Reason, Reception, Reflect, Reflected,
    Rekey, Renew, Report, Request, Resume, Retell, Roster, Seek, Shift, Step, Summary, Taken, Traced, Watch, Way,
    Whereabouts,
};
use roost_proto::{
    Address, Area, Called, Capacity, Cell, Class, Epoch, NodeId, Nonce, Profile, Record, RequestId, Room, Scheme,
    SchemeSet, Scope, Secret, Service, ServiceSet, StreamId, Tag, Version,
};

pub(crate) fn cell() -> impl Strategy<Value = Cell> {
    (-1_000_000..=1_000_000, -1_000_000..=1_000_000).prop_map(|(x, y)| Cell::new(x, y))
}

pub(crate) fn area() -> impl Strategy<Value = Area> {
    prop_oneof![
        cell().prop_map(Area::At),
        cell().prop_map(Area::Near),
        (cell(), 0u32..4_000_000).prop_map(|(centre, radius)| Area::Within { centre, radius }),
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
    prop::sample::select(Service::ALL.to_vec())
}

pub(crate) fn services() -> impl Strategy<Value = ServiceSet> {
    prop::collection::vec(service(), 0..4).prop_map(|list| list.into_iter().collect())
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

pub(crate) fn params() -> BoxedStrategy<Option<Params>> {
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
        (
            duration,
            transports,
            prop::option::of(any::<bool>()),
            profile,
            resume,
            pushed,
            (class, prop::option::of(node())),
            reflection,
        )
            .prop_map(
                |(duration_ms, transports, trace, profile, resume, pushed, (class, call), (reflect, reflectable))| {
                    Params {
                        duration_ms,
                        transports,
                        trace,
                        profile,
                        resume,
                        pushed,
                        reflect,
                        reflectable,
                        class,
                        call,
                    }
                },
            ),
    )
    .boxed()
}

pub(crate) fn key() -> impl Strategy<Value = (Epoch, Secret)> {
    (any::<u32>(), any::<[u8; 32]>()).prop_map(|(epoch, secret)| (Epoch(epoch), Secret::from_bytes(secret)))
}

pub(crate) fn reflected() -> BoxedStrategy<Reflected> {
    (any::<u64>(), key(), prop::option::of(key()))
        .prop_map(|(stream, (epoch, secret), next)| Reflected { stream: StreamId(stream), epoch, secret, next })
        .boxed()
}

pub(crate) fn whereabouts() -> BoxedStrategy<Whereabouts> {
    (node(), addresses()).prop_map(|(node, addresses)| Whereabouts { node, addresses }).boxed()
}

fn names() -> impl Strategy<Value = Option<Called>> {
    prop::option::of("[a-z0-9._-]{0,64}".prop_map(|text| text.parse().unwrap()))
}

pub(crate) fn candidate() -> BoxedStrategy<Candidate> {
    (node(), version(), cell(), services(), capacity(), addresses(), prop::option::of("[a-z0-9][a-z0-9._-]{0,63}"))
        .prop_map(|(node, version, cell, services, capacity, addresses, name)| Candidate {
            node,
            version,
            cell,
            services,
            capacity,
            addresses,
            name,
        })
        .boxed()
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

pub(crate) fn offer() -> BoxedStrategy<Offer> {
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

pub(crate) fn record() -> BoxedStrategy<Record> {
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

pub(crate) fn push_message() -> impl Strategy<Value = Message> {
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

pub(crate) fn membership_message() -> impl Strategy<Value = Message> {
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..MAX_GOSSIP_BYTES).prop_map(|bytes| Message::Gossip(bytes.into())),
        (any::<u32>(), any::<Option<u32>>())
            .prop_map(|(leases, residual_kbps)| Message::Load { leases, residual_kbps }),
        prop::collection::vec(address(), 1..=8).prop_map(Message::Redirect),
    ]
}

pub(crate) fn numbers() -> impl Strategy<Value = Vec<u32>> {
    prop::collection::vec(any::<u32>(), 0..4)
}

pub(crate) fn mirror() -> impl Strategy<Value = Mirror> {
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

pub(crate) fn standby_message() -> impl Strategy<Value = Message> {
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

pub(crate) fn hop() -> impl Strategy<Value = Hop> {
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

pub(crate) fn lease_message() -> impl Strategy<Value = Message> {
    prop_oneof![
        record().prop_map(Message::Publish),
        (
            version(),
            any::<u32>(),
            prop::option::of(addresses()),
            prop::option::of(addresses()),
            prop::option::of(any::<std::net::SocketAddrV4>())
        )
            .prop_map(|(version, lease_ms, siblings, addresses, media)| {
                let media = media.map(|media| MediaAddress(media.into()));
                Message::Lease { version, lease_ms, siblings, addresses, media }
            }),
        (version(), prop::option::of(capacity()))
            .prop_map(|(version, capacity)| Message::Renew(Renew { version, capacity })),
        Just(Message::Anew),
        version().prop_map(Message::Withdraw),
        any::<u32>().prop_map(Message::Ping),
        any::<u32>().prop_map(Message::Pong),
        (any::<u16>(), any::<u16>(), any::<bool>(), any::<Option<u64>>()).prop_map(|(major, minor, skips, clock_s)| {
            let capabilities = if skips { Capabilities::OWN } else { Capabilities::NONE };
            Message::Hello(Hello { protocol: Protocol { major, minor }, capabilities, clock_s })
        }),
        (node(), version()).prop_map(|(node, version)| Message::Claim { node, version }),
    ]
}

pub(crate) fn request_message() -> impl Strategy<Value = Message> {
    let mode = prop::sample::select(vec![Mode::Forward, Mode::Relay, Mode::Locate]);
    let nonce = any::<u64>().prop_map(Nonce::from_u64).boxed();
    let scope = prop::option::of(prop::sample::select(Scope::ALL.to_vec()));
    prop_oneof![
        (id(), nonce.clone(), service(), area(), mode.clone(), any::<u32>(), any::<u8>(), params(), (scope, names()))
            .prop_map(|(id, nonce, service, area, mode, deadline_ms, count, params, (scope, names))| Message::Request(
                Request { id, nonce, service, area, mode, deadline_ms, count, params, scope, names }
            )),
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
        (id(), prop::option::of(node()), prop::option::of(whereabouts()))
            .prop_map(|(id, requester, provider)| Message::Pending { id, requester, provider }),
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
        (id(), service(), area(), any::<u8>(), prop::option::of(way()), prop::option::of(any::<u32>()), names())
            .prop_map(|(id, service, area, count, way, patience_ms, names)| Message::Seek(Seek {
                id,
                service,
                area,
                count,
                way,
                patience_ms,
                names
            })),
    ]
}

pub(crate) fn coverage() -> impl Strategy<Value = Coverage> {
    prop::sample::select(vec![
        Coverage::Whole,
        Coverage::First,
        Coverage::Young,
        Coverage::Partial,
        Coverage::UnreachableAbove,
    ])
}

pub(crate) fn way() -> impl Strategy<Value = Way> {
    prop::sample::select(vec![Way::Up, Way::Across, Way::Down, Way::Back])
}

pub(crate) fn patches() -> impl Strategy<Value = Vec<(Patch, u32)>> {
    prop::collection::btree_map((service(), cell()), any::<u32>(), 0..40).prop_map(|told| {
        let told: BTreeMap<Patch, u32> =
            told.into_iter().map(|((service, cell), count)| (Patch::of(service, cell), count)).collect();
        told.into_iter().collect()
    })
}

pub(crate) fn hub_message() -> BoxedStrategy<Message> {
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

pub(crate) fn member() -> impl Strategy<Value = Member> {
    (node(), cell(), services()).prop_map(|(node, cell, services)| Member { node, cell, services })
}

pub(crate) fn room_message() -> BoxedStrategy<Message> {
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

pub(crate) fn flow_message() -> impl Strategy<Value = Message> {
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
        (id(), services(), area(), any::<u64>(), prop::option::of(way()), prop::option::of(any::<bool>())).prop_map(
            |(id, services, area, seen, way, names)| Message::Watch(Watch { id, services, area, seen, way, names })
        ),
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
        (id(), prop::collection::vec(any::<u8>(), 0..2_000))
            .prop_map(|(id, message)| Message::Through { id, message: message.into() }),
    ]
}

/// What goes to everybody on a link.
pub(crate) fn link_message() -> impl Strategy<Value = Message> {
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
                    names: None,
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

pub(crate) fn any_message() -> impl Strategy<Value = Message> {
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

// Messages of one kind.

pub(crate) fn decline_message() -> impl Strategy<Value = Decline> {
    (id(), reason(), prop::option::of(any::<u32>()), prop::option::of(node()))
        .prop_map(|(id, reason, retry_after_ms, requester)| Decline { id, reason, retry_after_ms, requester })
}

pub(crate) fn found_message() -> impl Strategy<Value = Found> {
    (id(), prop::collection::vec(candidate(), 0..4), coverage()).prop_map(|(id, candidates, coverage)| Found {
        id,
        candidates,
        coverage,
    })
}

pub(crate) fn change_message() -> impl Strategy<Value = Change> {
    (id(), any::<u64>(), prop::collection::vec(candidate(), 0..3), prop::collection::vec(node(), 0..3))
        .prop_map(|(id, number, present, gone)| Change { id, number, present, gone, coverage: None })
}

pub(crate) fn watch_message() -> impl Strategy<Value = Watch> {
    (id(), services(), area(), any::<u64>()).prop_map(|(id, services, area, seen)| Watch {
        id,
        services,
        area,
        seen,
        way: None,
        names: None,
    })
}

/// Requests that say all that one can say.
pub(crate) fn request_with_params() -> impl Strategy<Value = Request> {
    let nonce = any::<u64>().prop_map(Nonce::from_u64);
    let all = |params: Option<Params>| Params {
        transports: Some(SchemeSet::ALL),
        profile: Some(Profile::Piloting),
        class: Some(Class::Backup),
        ..params.unwrap_or_default()
    };
    (id(), nonce, service(), area(), any::<u32>(), any::<u8>(), params()).prop_map(
        move |(id, nonce, service, area, deadline_ms, count, params)| Request {
            id,
            nonce,
            service,
            area,
            mode: Mode::Relay,
            deadline_ms,
            count,
            params: Some(all(params)),
            scope: Some(Scope::Anywhere),
            names: None,
        },
    )
}

pub(crate) fn inquiry_message() -> impl Strategy<Value = Inquiry> {
    let nonce = any::<u64>().prop_map(Nonce::from_u64);
    (id(), nonce, service(), area(), node(), addresses(), any::<u8>()).prop_map(
        |(id, nonce, service, area, requester, reply_to, attempt)| Inquiry {
            id,
            nonce,
            service,
            area,
            mode: Mode::Forward,
            requester,
            reply_to,
            deadline_ms: 5_000,
            attempt,
            count: 0,
            params: None,
            names: None,
        },
    )
}

pub(crate) fn traced_message() -> impl Strategy<Value = Traced> {
    (id(), prop::option::of(node()), hop()).prop_map(|(id, requester, hop)| Traced { id, requester, hop })
}

pub(crate) fn pushed_message(id: RequestId) -> Message {
    Message::Pushed { id, reception: Reception::Stored }
}
