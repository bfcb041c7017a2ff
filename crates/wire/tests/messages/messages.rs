//! Messages of every kind, with any values.

use bytes::Bytes;
use proptest::prelude::*;
use roost_wire::messages::{
    Accept, Adopt, BodyRequest, Capabilities, Chunk, Coverage, Datagram, Decline, DeliveryTerms, DirectoryMessage,
    DocumentKind, DocumentMessage, DocumentPart, DocumentRequest, FlowMessage, Hello, HierarchyMessage, Holdings,
    HomeChanged, HopReport, HubLookup, HubProgress, JoinRoom, LeaveRoom, LookupResult, MAX_DELIVERY_S,
    MAX_GOSSIP_BYTES, MAX_REPLICA_NODES, MAX_SEALED_BYTES, MAX_SENTENCE_BYTES, MailboxMessage, MailboxState,
    MailboxStatus, MediaAddress, Message, MulticastCandidate, MulticastMessage, MulticastSuppression, ProbeMessage,
    ProtocolVersion, Push, PushState, RegistrationMessage, Rekey, Renew, ReplicaCapacity, ReplicaMove, ReplicaRecord,
    ReplicaUpdate, ReplicationMessage, Report, RequestMessage, ResyncRequest, RoomMessage, Roster, SealedFile,
    SealedKeys, Sentence, StatedDatum, Summary, Watch, WatchChange,
};
use roost_wire::room::MAX_MEMBERS;
use roost_wire::{DeliveryId, Nonce, RequestId, RoomId, StreamId};

use super::requests::{multicast_request, request, route};
use super::words::{
    address, addresses, area, block_services, candidate, capacity, cell, coverage, filter, hop, id, key, member, names,
    node, numbers, offer, payload, reason, record, reflected, service, services, step, version, way, whereabouts,
};

pub(crate) fn push_message() -> impl Strategy<Value = Message> {
    let reception = prop::sample::select(vec![PushState::InProgress, PushState::Stored, PushState::Expired]);
    let delivery = (any::<[u8; 8]>(), any::<u64>(), 0..=MAX_DELIVERY_S)
        .prop_map(|(id, until_s, left_s)| DeliveryTerms { id: DeliveryId::from_bytes(id), until_s, left_s });
    let delivery = prop::option::of(delivery);
    prop_oneof![
        (any::<u32>(), ".{0,40}", any::<u64>(), any::<[u8; 32]>(), addresses(), delivery).prop_map(
            |(id, name, bytes, digest, addresses, delivery)| Message::Request(RequestMessage::Push(Push {
                id: RequestId(id),
                name,
                bytes,
                digest,
                addresses,
                delivery
            }))
        ),
        (any::<u32>(), reception)
            .prop_map(|(id, state)| Message::Request(RequestMessage::PushStatus { id: RequestId(id), state })),
    ]
}

pub(crate) fn membership_message() -> impl Strategy<Value = Message> {
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..MAX_GOSSIP_BYTES)
            .prop_map(|bytes| Message::Hierarchy(HierarchyMessage::Gossip(bytes.into()))),
        (any::<u32>(), any::<Option<u32>>()).prop_map(|(leases, residual_kbps)| Message::Hierarchy(
            HierarchyMessage::HubLoad { leases, residual_kbps }
        )),
        prop::collection::vec(address(), 1..=8)
            .prop_map(|message| Message::Registration(RegistrationMessage::Redirect(message))),
    ]
}

pub(crate) fn mirror() -> impl Strategy<Value = ReplicaUpdate> {
    let shift = (any::<u32>(), 1..=u32::MAX, any::<i32>(), any::<i32>(), step())
        .prop_map(|(node, versions, x, y, step)| ReplicaMove { node, versions, x, y, step });
    let left = (any::<u32>(), capacity()).prop_map(|(node, capacity)| ReplicaCapacity { node, capacity });
    let numbered = (0..MAX_REPLICA_NODES, record(), any::<Option<u16>>())
        .prop_map(|(node, record, silent_s)| ReplicaRecord { node, record, silent_s });
    let changes = (prop::collection::vec(shift, 0..4), numbers(), prop::collection::vec(left, 0..4), any::<u32>());
    let heard = prop::option::of((0..40usize).prop_map(|bytes| Bytes::from(vec![7; bytes])));
    let ends = any::<(Option<bool>, Option<bool>, Option<u16>)>();
    (changes, prop::collection::vec(numbered, 0..4), heard, ends).prop_map(
        |((shifts, gone, left, number), records, heard, (first, last, within_s))| ReplicaUpdate {
            sequence: number,
            moves: shifts,
            removed: gone,
            capacities: left,
            records,
            alive: heard,
            starts_resync: first,
            ends_resync: last,
            alive_within_s: within_s,
        },
    )
}

pub(crate) fn standby_message() -> impl Strategy<Value = Message> {
    prop_oneof![
        (node(), prop::option::of(addresses()))
            .prop_map(|(hub, addresses)| Message::Registration(RegistrationMessage::SetStandby { hub, addresses })),
        (version(), version(), capacity(), prop::option::of(any::<bool>())).prop_map(
            |(held_version, version, capacity, is_failback)| Message::Registration(RegistrationMessage::Adopt(Adopt {
                held_version,
                version,
                capacity,
                is_failback
            }))
        ),
        mirror().prop_map(|message| Message::Replication(ReplicationMessage::ReplicaUpdate(message))),
        (any::<u32>(), numbers()).prop_map(|(number, nodes)| Message::Replication(ReplicationMessage::ResyncRequest(
            ResyncRequest { number, nodes }
        ))),
        any::<u32>().prop_map(|message| Message::Registration(RegistrationMessage::RetryAfter(message))),
        Just(Message::Registration(RegistrationMessage::Handover)),
    ]
}

pub(crate) fn lease_message() -> impl Strategy<Value = Message> {
    prop_oneof![
        record().prop_map(|message| Message::Registration(RegistrationMessage::Publish(message))),
        (
            version(),
            any::<u32>(),
            prop::option::of(addresses()),
            prop::option::of(addresses()),
            prop::option::of(any::<std::net::SocketAddrV4>())
        )
            .prop_map(|(version, lease_ms, siblings, addresses, media)| {
                let media = media.map(|media| MediaAddress(media.into()));
                Message::Registration(RegistrationMessage::Lease { version, lease_ms, siblings, addresses, media })
            }),
        (version(), prop::option::of(capacity())).prop_map(|(version, capacity)| Message::Registration(
            RegistrationMessage::Renew(Renew { version, capacity })
        )),
        Just(Message::Registration(RegistrationMessage::UnknownVersion)),
        version().prop_map(|message| Message::Registration(RegistrationMessage::Withdraw(message))),
        any::<u32>().prop_map(|message| Message::Probe(ProbeMessage::Ping(message))),
        any::<u32>().prop_map(|message| Message::Probe(ProbeMessage::Pong(message))),
        (any::<[u16; 2]>(), any::<bool>(), any::<Option<u64>>(), prop::option::of(holdings()), any::<Option<u32>>())
            .prop_map(|([major, minor], skips, clock_s, holdings, cell_m)| {
                let capabilities = if skips { Capabilities::OWN } else { Capabilities::NONE };
                Message::Probe(ProbeMessage::Hello(Hello {
                    protocol: ProtocolVersion { major, minor },
                    capabilities,
                    clock_s,
                    holdings,
                    datum: cell_m.map(|cell_m| StatedDatum { origin: "47.37,-8.54".parse().unwrap(), cell_m }),
                }))
            }),
        (node(), version()).prop_map(|(node, version)| Message::Hierarchy(HierarchyMessage::Claim { node, version })),
    ]
}

fn holdings() -> impl Strategy<Value = Holdings> {
    prop::collection::btree_map(0..20u16, any::<u64>(), 0..5).prop_map(|numbers| {
        let mut holdings = Holdings::default();
        numbers.into_iter().for_each(|(kind, number)| holdings.set(DocumentKind(kind), number));
        holdings
    })
}

pub(crate) fn document_message() -> impl Strategy<Value = Message> {
    let kind = || (0..20u16).prop_map(DocumentKind);
    let row = ((node(), "[a-z]{0,20}", any::<u64>()), kind(), any::<u64>(), any::<[u32; 2]>()).prop_map(
        |((hub, name, said_s), kind, number, [nodes, behind])| HubProgress {
            hub,
            name,
            said_s,
            kind,
            number,
            nodes,
            behind,
        },
    );
    let part = (kind(), any::<u64>(), 0..9_000u32, prop::collection::vec(any::<u8>(), 1..300)).prop_map(
        |(kind, number, offset, bytes)| {
            let length = offset + bytes.len() as u32 + offset % 3;
            DocumentPart { kind, number, length, offset, bytes: bytes.into() }
        },
    );
    prop_oneof![
        holdings().prop_map(DocumentMessage::Holdings),
        part.prop_map(DocumentMessage::Document),
        (kind(), any::<u64>(), any::<u32>()).prop_map(|(kind, number, offset)| {
            DocumentMessage::DocumentRequest(DocumentRequest { kind, number, offset })
        }),
        prop::collection::vec(row, 0..4).prop_map(DocumentMessage::Progress),
    ]
    .prop_map(Message::Document)
}

pub(crate) fn request_message() -> impl Strategy<Value = Message> {
    let nonce = any::<u64>().prop_map(Nonce::from_u64);
    prop_oneof![
        request(prop::option::of(route())).prop_map(|message| Message::Request(RequestMessage::Request(message))),
        (id(), nonce, offer(), cell(), prop::option::of(node()), prop::option::of(reflected())).prop_map(
            |(id, nonce, flow, cell, provider, stream_keys)| {
                Message::Request(RequestMessage::Accept(Accept { id, nonce, flow, cell, provider, stream_keys }))
            }
        ),
        decline_message().prop_map(|decline| Message::Request(RequestMessage::Decline(decline))),
        (id(), prop::option::of(node()), prop::option::of(whereabouts())).prop_map(|(id, requester, provider)| {
            Message::Request(RequestMessage::Pending { id, requester, provider })
        }),
        (id(), prop::option::of(node()), hop()).prop_map(|(id, requester, hop)| Message::Request(
            RequestMessage::HopReport(HopReport { id, requester, hop })
        )),
        (id(), prop::collection::vec(any::<u8>(), 0..2_000))
            .prop_map(|(id, message)| Message::Request(RequestMessage::Tunneled { id, message: message.into() })),
        (id(), any::<u64>(), any::<u64>(), any::<u32>(), cell(), prop::option::of(node())).prop_map(
            |(id, nonce, run, offset, cell, provider)| {
                let nonce = Nonce::from_u64(nonce);
                Message::Request(RequestMessage::BodyRequest(BodyRequest { id, nonce, run, offset, cell, provider }))
            }
        ),
    ]
}

pub(crate) fn hub_message() -> BoxedStrategy<Message> {
    prop_oneof![
        any::<u8>().prop_map(|tier| Message::Hierarchy(HierarchyMessage::RegisterChild { tier })),
        any::<bool>().prop_map(|message| Message::Hierarchy(HierarchyMessage::StandbyOnly(message))),
        (node(), version(), node(), node(), service(), cell(), way(), any::<u8>()).prop_map(
            |(node, version, old_home, new, service, cell, direction, hops_left)| {
                Message::Registration(RegistrationMessage::HomeChanged(HomeChanged {
                    node,
                    version,
                    old_home,
                    new,
                    service,
                    cell,
                    direction,
                    hops_left,
                }))
            }
        ),
        (any::<u32>(), any::<u64>(), block_services(), prop::option::of(any::<u64>())).prop_map(
            |(run, version, block_services, since)| Message::Hierarchy(HierarchyMessage::Summary(Summary {
                run,
                version,
                block_services,
                since
            }))
        ),
        (id(), prop::option::of(node()), prop::option::of(node())).prop_map(|(id, requester, provider)| {
            Message::Request(RequestMessage::RequestAck { id, requester, provider })
        }),
    ]
    .boxed()
}

pub(crate) fn mailbox_message() -> BoxedStrategy<Message> {
    let delivery = || any::<[u8; 8]>().prop_map(DeliveryId::from_bytes);
    let state = prop::sample::select(vec![MailboxState::Kept, MailboxState::Ended, MailboxState::Unspecified]);
    let sealed = prop::collection::vec(any::<u8>(), 1..200).prop_map(Bytes::from);
    prop_oneof![
        (node(), node(), delivery(), 0..=MAX_DELIVERY_S, sealed).prop_map(|(from, to, id, left_s, sealed)| {
            MailboxMessage::SealedFile(SealedFile { from, to, id, left_s, sealed })
        }),
        (node(), node(), delivery(), state)
            .prop_map(|(from, to, id, state)| { MailboxMessage::MailboxStatus(MailboxStatus { from, to, id, state }) }),
        node().prop_map(MailboxMessage::FilesWait),
        node().prop_map(MailboxMessage::NodeIsHere),
    ]
    .prop_map(Message::Mailbox)
    .boxed()
}

pub(crate) fn room_message() -> BoxedStrategy<Message> {
    let room = || any::<u64>().prop_map(RoomId);
    let members = prop::collection::vec(member(), 0..=MAX_MEMBERS);
    prop_oneof![
        (room(), member(), prop::option::of(way())).prop_map(|(room, member, direction)| Message::Room(
            RoomMessage::JoinRoom(JoinRoom { room, member, direction })
        )),
        (room(), node(), prop::option::of(way())).prop_map(|(room, node, direction)| Message::Room(
            RoomMessage::LeaveRoom(LeaveRoom { room, node, direction })
        )),
        (room(), node(), members, prop::option::of(node()), prop::option::of(reason())).prop_map(
            |(room, owner, members, to, refused)| Message::Room(RoomMessage::Roster(Roster {
                room,
                owner,
                members,
                to,
                refused
            }))
        ),
    ]
    .boxed()
}

pub(crate) fn directory_message() -> impl Strategy<Value = Message> {
    prop_oneof![
        (id(), prop::collection::vec(candidate(), 0..8)).prop_map(|(id, candidates)| Message::Directory(
            DirectoryMessage::LookupResult(LookupResult {
                id,
                candidates,
                coverage: Coverage::HubStarting,
                has_omissions: None,
                has_losses: None,
            })
        )),
        (
            id(),
            service(),
            area(),
            any::<u8>(),
            prop::option::of(way()),
            prop::option::of(any::<u32>()),
            names(),
            filter(),
            any::<Option<u64>>()
        )
            .prop_map(|(id, service, area, count, direction, timeout_ms, selector, filter, search)| {
                Message::Directory(DirectoryMessage::HubLookup(HubLookup {
                    id,
                    service,
                    area,
                    count,
                    direction,
                    timeout_ms,
                    selector,
                    filter,
                    search,
                }))
            }),
        (id(), services(), area(), any::<u64>(), prop::option::of(way()), prop::option::of(any::<bool>())).prop_map(
            |(id, services, area, last_seen, direction, names)| Message::Directory(DirectoryMessage::Watch(Watch {
                id,
                services,
                area,
                last_seen,
                direction,
                names
            }))
        ),
        (
            id(),
            any::<u64>(),
            prop::collection::vec(candidate(), 0..4),
            prop::collection::vec(node(), 0..4),
            prop::option::of(coverage())
        )
            .prop_map(|(id, sequence, updated, removed, coverage)| Message::Directory(
                DirectoryMessage::WatchChange(WatchChange { id, sequence, updated, removed, coverage })
            )),
        id().prop_map(|message| Message::Directory(DirectoryMessage::Unwatch(message))),
    ]
}

pub(crate) fn flow_message() -> impl Strategy<Value = Message> {
    let sealed = prop::collection::vec(any::<u8>(), 0..=MAX_SEALED_BYTES).prop_map(Bytes::from);
    prop_oneof![
        (id(), any::<u64>(), any::<u64>(), payload()).prop_map(|(id, sequence, sent_us, payload)| Message::Flow(
            FlowMessage::Datagram(Datagram { id, sequence, sent_us, payload })
        )),
        (id(), any::<u64>(), payload()).prop_map(|(id, offset, payload)| Message::Flow(FlowMessage::Chunk(Chunk {
            id,
            offset,
            payload
        }))),
        (id(), any::<u64>(), any::<u64>(), any::<[u8; 32]>())
            .prop_map(|(id, packets, bytes, digest)| Message::Flow(FlowMessage::End { id, packets, bytes, digest })),
        (id(), any::<u64>(), any::<u64>(), any::<u64>(), any::<u32>()).prop_map(
            |(id, bytes, packets, lost, jitter_us)| Message::Flow(FlowMessage::Report(Report {
                id,
                bytes,
                packets,
                lost,
                jitter_us
            }))
        ),
        (id(), any::<u64>(), payload()).prop_map(|(id, offset, payload)| Message::Flow(FlowMessage::Body(Chunk {
            id,
            offset,
            payload
        }))),
        (id(), reason()).prop_map(|(id, reason)| Message::Flow(FlowMessage::Stop { id, reason })),
        (id(), any::<u64>(), key()).prop_map(|(id, stream, (epoch, secret))| {
            Message::Flow(FlowMessage::Rekey(Rekey { id, stream: StreamId(stream), epoch, secret }))
        }),
        (prop::option::of(id()), service(), node(), any::<u8>(), sealed).prop_map(
            |(id, service, provider, hops_left, sealed)| {
                Message::Flow(FlowMessage::SealedKeys(SealedKeys { id, service, provider, hops_left, sealed }))
            }
        ),
    ]
}

/// Messages by multicast.
pub(crate) fn connection_message() -> impl Strategy<Value = Message> {
    prop_oneof![
        multicast_request().prop_map(|message| Message::Multicast(MulticastMessage::MulticastRequest(message))),
        (node(), id(), any::<u8>(), node()).prop_map(|(requester, id, attempt, sender)| Message::Multicast(
            MulticastMessage::MulticastSuppression(MulticastSuppression { requester, id, attempt, sender })
        )),
        (node(), id(), candidate()).prop_map(|(requester, id, candidate)| Message::Multicast(
            MulticastMessage::MulticastCandidate(MulticastCandidate { requester, id, candidate })
        )),
    ]
}

pub(crate) fn any_message() -> impl Strategy<Value = Message> {
    prop_oneof![
        lease_message(),
        standby_message(),
        membership_message(),
        document_message(),
        push_message(),
        request_message(),
        flow_message(),
        directory_message(),
        hub_message(),
        room_message(),
        mailbox_message(),
        connection_message()
    ]
}

// Messages of one kind.

pub(crate) fn decline_message() -> impl Strategy<Value = Decline> {
    (id(), reason(), prop::option::of(any::<u32>()), prop::option::of(node()), prop::option::of(sentence())).prop_map(
        |(id, reason, retry_after_ms, requester, sentence)| Decline { id, reason, retry_after_ms, requester, sentence },
    )
}

fn sentence() -> impl Strategy<Value = Sentence> {
    let longest = prop::collection::vec(prop::char::range(' ', '~'), MAX_SENTENCE_BYTES);
    let any_letters = prop::collection::vec(any::<char>().prop_filter("plain", |letter| !letter.is_control()), 1..=50);
    prop_oneof![any_letters, longest].prop_map(|letters| String::from_iter(letters).parse().unwrap())
}

pub(crate) fn found_message() -> impl Strategy<Value = LookupResult> {
    (id(), prop::collection::vec(candidate(), 0..4), coverage(), any::<(Option<bool>, Option<bool>)>()).prop_map(
        |(id, candidates, coverage, (has_omissions, has_losses))| LookupResult {
            has_omissions,
            has_losses,
            id,
            candidates,
            coverage,
        },
    )
}

pub(crate) fn change_message() -> impl Strategy<Value = WatchChange> {
    (id(), any::<u64>(), prop::collection::vec(candidate(), 0..3), prop::collection::vec(node(), 0..3)).prop_map(
        |(id, number, present, gone)| WatchChange {
            id,
            sequence: number,
            updated: present,
            removed: gone,
            coverage: None,
        },
    )
}

pub(crate) fn watch_message() -> impl Strategy<Value = Watch> {
    (id(), services(), area(), any::<u64>()).prop_map(|(id, services, area, seen)| Watch {
        id,
        services,
        area,
        last_seen: seen,
        direction: None,
        names: None,
    })
}

pub(crate) fn traced_message() -> impl Strategy<Value = HopReport> {
    (id(), prop::option::of(node()), hop()).prop_map(|(id, requester, hop)| HopReport { id, requester, hop })
}

pub(crate) fn pushed_message(id: RequestId) -> Message {
    Message::Request(RequestMessage::PushStatus { id, state: PushState::Stored })
}
