//! Grants of a hub, and requests that it hands on.

mod admitting;
mod aiming;
mod depositing;
mod spilling;

use std::net::SocketAddr;

use roost_wire::block::BlockService;
use roost_wire::reflection::DownstreamKind;
use roost_wire::reflection::StartCondition;

use super::stream_copy::BEGINNING;
use super::*;
use crate::hub::HubLimit;
use crate::hub::OverflowPolicy;
use crate::hub::ReflectionConfig;
use crate::hub::testing::*;

/// Rate of a copy of a stream that is not measured: 700 kbit/s, sealed.
const VIDEO_KBPS: u32 = 725;

fn media() -> SocketAddr {
    ([0, 0, 0, 0], 7_777).into()
}

fn reflecting(layers: u8, policy: OverflowPolicy) -> Bench {
    Bench::configured(|config| config.reflection = Some(ReflectionConfig { media: media(), layers, policy }))
}

fn bench() -> Bench {
    reflecting(1, OverflowPolicy::Residual)
}

fn wanted(hops: u8) -> Option<CopyTarget> {
    Some(target([0, 0, 0, 0], 7, hops))
}

fn target(host: [u8; 4], tag: u64, hops: u8) -> CopyTarget {
    CopyTarget { to: (host, 9_000).into(), tag: StreamTag(tag), hops, provider: None, is_resuming: None }
}

fn subscribe(id: u32) -> Request {
    Request { copy_target: wanted(0), ..request(id, RequestMode::Forward).with(|spec| spec.service = Service::Video) }
}

fn naming(id: u32, provider: u8) -> Request {
    let mut asked = subscribe(id);
    if let Some(reflect) = &mut asked.copy_target {
        reflect.provider = Some(node(provider));
    }
    asked
}

fn video(id: u32) -> Request {
    carried(id).with(|spec| spec.service = Service::Video)
}

fn reflect_of(request: &Request) -> CopyTarget {
    request.copy_target.unwrap()
}

/// Grants of which the owner was told since it was last asked.
fn grants(bench: &mut Bench) -> Vec<ReflectionGrant> {
    let events = std::mem::take(&mut bench.events);
    let grant = |event| if let HubEvent::Reflect(grant) = event { Some(grant) } else { None };
    events.into_iter().filter_map(grant).collect()
}

fn the_carry(sent: &[(ConnectionId, Message)]) -> (ConnectionId, Request) {
    the_request(sent, is_carry)
}

fn the_forward(sent: &[(ConnectionId, Message)]) -> (ConnectionId, Request) {
    the_request(sent, is_forward)
}

fn the_request(sent: &[(ConnectionId, Message)], is_one: fn(&Message) -> bool) -> (ConnectionId, Request) {
    match sent.iter().find(|(_, message)| is_one(message)) {
        Some((connection, Message::Request(RequestMessage::Request(request)))) => (*connection, request.clone()),
        _ => panic!("no such request in {sent:?}"),
    }
}

fn has_left(bench: &mut Bench, residual_kbps: u32) {
    bench.command(HubCommand::ReflectionCapacity { residual_kbps: Some(residual_kbps), subscribers: 0 });
}

fn carries(bench: &mut Bench, provider: u8) {
    carries_to(bench, provider, &[]);
}

fn carries_to(bench: &mut Bench, provider: u8, receivers: &[u8]) {
    let to = receivers.iter().map(|number| ([10, 0, 0, *number], 9_000).into()).collect();
    let carried =
        ReflectedStream { service: Service::Video, cell: Some(HERE), provider: Some(node(provider)), kbps: 650, to };
    bench.command(HubCommand::ReflectedStreams { streams: vec![carried] });
}

#[test]
fn common_home_reflects_between_both() {
    let mut bench = bench();
    let (_, requester) = (bench.provider(1), bench.requester(2));
    let (_, forward) = forwarded(&bench.ask(requester, subscribe(1)));
    let onward = reflect_of(&forward);
    assert_eq!((onward.to, onward.hops), (media(), 1));
    let grant = ReflectionGrant {
        tag: onward.tag,
        to: ([10, 0, 0, 2], 9_000).into(),
        their_tag: StreamTag(7),
        kind: DownstreamKind::Subscriber,
        service: Service::Video,
        cell: Some(HERE),
        provider: Some(node(1)),
        begin: StartCondition::Offered,
    };
    assert_eq!(grants(&mut bench), [grant]);
    bench.wait(Duration::from_millis(150));
    let (_, again) = forwarded(&bench.ask(requester, subscribe(1)));
    assert_eq!(reflect_of(&again), onward, "a repetition keeps its tag");
    assert_eq!(grants(&mut bench), [grant]);
    let (_, other) = forwarded(&bench.ask(requester, subscribe(2)));
    assert_ne!(reflect_of(&other).tag, onward.tag);
}

#[test]
fn only_requesting_host_starts_with_offer() {
    let cases = [
        ([10, 0, 0, 2], None, StartCondition::Offered),
        ([0, 0, 0, 0], None, StartCondition::Offered),
        ([10, 0, 0, 3], None, StartCondition::Answered),
        ([10, 0, 0, 2], Some(true), StartCondition::Resumed),
    ];
    for (host, resumes, begin) in cases {
        let mut bench = bench();
        let (_, requester) = (bench.provider(1), bench.requester(2));
        // The hub has not seen it at the host that it names.
        let addresses = [2, 3].map(address).to_vec();
        let version = version(2);
        bench.say(requester, RegistrationMessage::Publish(Record { addresses, version, ..record(2) }));
        let mut asked = naming(1, 1);
        if let Some(reflect) = &mut asked.copy_target {
            (reflect.to, reflect.is_resuming) = ((host, 9_000).into(), resumes);
        }
        bench.ask(requester, asked);
        assert_eq!(grants(&mut bench)[0].begin, begin, "{host:?}");
    }
}

#[test]
fn next_provider_gets_new_tag() {
    let mut bench = bench();
    let (first, _, requester) = (bench.provider(1), bench.provider(2), bench.requester(3));
    let (_, forward) = forwarded(&bench.ask(requester, subscribe(1)));
    let (_, second) = forwarded(&bench.say(first, decline(&forward, Reason::SourceFailed)));
    assert_ne!(reflect_of(&forward).tag, reflect_of(&second).tag);
    assert_eq!(
        grants(&mut bench).iter().map(|grant| grant.provider).collect::<Vec<_>>(),
        [1, 2].map(|n| Some(node(n)))
    );
    assert_eq!(bench.hub.counters().grants, 1, "one copy, whoever sends it");
}

#[test]
fn non_reflecting_hub_fills_requester_address() {
    let mut bench = Bench::new();
    let (_, requester) = (bench.provider(1), bench.requester(2));
    let (_, forward) = forwarded(&bench.ask(requester, subscribe(1)));
    assert_eq!(reflect_of(&forward), target([10, 0, 0, 2], 7, 0));
    assert!(grants(&mut bench).is_empty());
}

/// A hub that has a record of node 1 from its home, hub 101, and is asked by hub 100.
fn between(bench: &mut Bench) -> (ConnectionId, ConnectionId) {
    let (below, beyond) = (bench.up(100, Role::SuperNode), bench.up(101, Role::SuperNode));
    bench.say(beyond, ReplicationMessage::ReplicaUpdate(copies(vec![record(1)])));
    (below, beyond)
}

fn passed_on(bench: &mut Bench, from: ConnectionId, hops: u8) -> CopyTarget {
    let carry = Request { copy_target: wanted(hops), ..video(1) };
    reflect_of(&the_carry(&bench.ask(from, carry)).1)
}

#[test]
fn middle_hub_reflects_only_as_layer() {
    let seen = ([10, 0, 0, 100], 9_000).into();
    for (layers, hops, reflects) in [(1, 1, false), (2, 1, true), (2, 2, false)] {
        let mut bench = reflecting(layers, OverflowPolicy::Residual);
        let (below, _) = between(&mut bench);
        let onward = passed_on(&mut bench, below, hops);
        let granted = grants(&mut bench);
        if reflects {
            assert_eq!((onward.to, onward.hops), (media(), hops + 1));
            assert_eq!((granted[0].to, granted[0].kind), (seen, DownstreamKind::Reflector));
        } else {
            assert_eq!((onward.to, onward.tag, onward.hops), (seen, StreamTag(7), hops));
            assert!(granted.is_empty());
        }
    }
}

#[test]
fn provider_home_reflects_and_names_provider() {
    let mut bench = bench();
    let (sibling, provider) = (bench.up(100, Role::SuperNode), bench.provider(1));
    let carry = Request { copy_target: wanted(1), ..video(1).with_hop(|hop| hop.provider = None) };
    let sent = bench.ask(sibling, carry);
    let (to, forward) = the_forward(&sent);
    assert_eq!((to, reflect_of(&forward).hops), (provider, 2));
    let (id, requester) = (RequestId(1), Some(node(50)));
    assert!(
        sent.contains(&(
            sibling,
            Message::Request(RequestMessage::RequestAck { id, requester, provider: Some(node(1)) })
        )),
        "{sent:?}"
    );
    let granted = grants(&mut bench);
    assert_eq!((granted[0].kind, granted[0].provider), (DownstreamKind::Reflector, Some(node(1))));
}

#[test]
fn fourth_hub_does_not_reflect() {
    let mut bench = bench();
    let (sibling, _) = (bench.up(100, Role::SuperNode), bench.provider(1));
    let carry = Request { copy_target: wanted(3), ..video(1) };
    let (_, forward) = the_forward(&bench.ask(sibling, carry));
    assert_eq!(reflect_of(&forward).to, ([10, 0, 0, 100], 9_000).into());
}

#[test]
fn relayed_answer_is_not_reflected() {
    let mut bench = bench();
    let (provider, requester) = (bench.provider(1), bench.requester(2));
    let (_, forward) = forwarded(&bench.ask(requester, subscribe(1)));
    let (_, relayed) = forwarded(&bench.say(provider, decline(&forward, Reason::Unreachable)));
    assert!(relayed.reply_to().is_empty() && relayed.copy_target.is_none(), "{relayed:?}");
}

#[test]
fn already_reflected_stream_is_preferred() {
    let mut bench = bench();
    let (_, second, requester) = (bench.provider(1), bench.provider(2), bench.requester(3));
    carries(&mut bench, 2);
    let left = |bench: &Bench| bench.hub.index(bench.now, None, 9)[1].capacity.streams;
    let before = left(&bench);
    for id in 1..9 {
        assert_eq!(forwarded(&bench.ask(requester, subscribe(id))).0, second);
    }
    assert_eq!(left(&bench), before, "a copy costs the provider nothing");
    let nearest = subscribe(9).with(|spec| spec.area = Area::Nearest(HERE));
    assert_eq!(forwarded(&bench.ask(requester, nearest)).0, ConnectionId(1), "the nearest is what was asked for");
}

#[test]
fn full_provider_preferred_for_copy() {
    let mut bench = bench();
    bench.up(100, Role::SuperNode);
    let (provider, requester) = (bench.up(1, Role::Node), bench.requester(2));
    let capacity = Capacity { streams: 0, uplink_kbps: 0 };
    bench.say(provider, RegistrationMessage::Publish(Record { capacity, ..record(1) }));
    assert_eq!(forwarded(&bench.ask(requester, subscribe(1))).0, provider);
}

/// A hub below that has something at [`HERE`].
fn child(bench: &mut Bench) -> ConnectionId {
    bench.hub.core.config.tier = 1;
    let child = bench.child(100);
    let blocks = [(BlockService::from_cell(Service::Video.code(), HERE), 2)].into();
    bench.say(child, HierarchyMessage::Summary(Summary { run: 1, version: 1, block_services: blocks, since: None }));
    child
}

#[test]
fn provider_known_once_hub_names_it() {
    let mut bench = bench();
    let (child, requester) = (child(&mut bench), bench.requester(2));
    let (to, carry) = the_carry(&bench.ask(requester, subscribe(1)));
    assert_eq!((to, carry.hop().unwrap().provider), (child, None));
    let unknown = grants(&mut bench)[0];
    assert_eq!((unknown.provider, unknown.cell), (None, None));
    let ack = RequestMessage::RequestAck { id: RequestId(1), requester: Some(node(2)), provider: Some(node(77)) };
    bench.say(child, ack);
    let known = grants(&mut bench)[0];
    assert_eq!(known, ReflectionGrant { provider: Some(node(77)), cell: Some(HERE), ..unknown });
    // The next one is meant for the same provider.
    carries(&mut bench, 77);
    let (_, carry) = the_carry(&bench.ask(requester, subscribe(2)));
    assert_eq!((carry.hop().unwrap().provider, carry.hop().unwrap().cell), (Some(node(77)), HERE));
}

#[test]
fn named_provider_or_none() {
    let mut bench = bench();
    let (_, second, requester) = (bench.provider(1), bench.provider(2), bench.requester(3));
    for id in 1..4 {
        let (to, forward) = forwarded(&bench.ask(requester, naming(id, 2)));
        assert_eq!((to, reflect_of(&forward).provider), (second, None));
    }
    let (_, forward) = forwarded(&bench.ask(requester, naming(9, 2)));
    assert_eq!(refused(&bench.say(second, decline(&forward, Reason::Busy))), (requester, Reason::Busy));
    assert_eq!(refused(&bench.ask(requester, naming(10, 77))), (requester, Reason::NotFound));
    let child = child(&mut bench);
    let (to, carry) = the_carry(&bench.ask(requester, naming(11, 77)));
    assert_eq!(
        (to, carry.hop().unwrap().provider, carry.hop().unwrap().direction),
        (child, Some(node(77)), RouteDirection::Down)
    );
}

#[test]
fn connected_provider_requested_through_its_home() {
    let mut bench = bench();
    // A hub is about to stand by for it: its record has not come yet.
    let (provider, requester) = (bench.up(2, Role::Node), bench.requester(3));
    let child = child(&mut bench);
    let (to, carry) = the_carry(&bench.ask(requester, naming(1, 2)));
    assert_eq!((to, carry.hop().unwrap().provider), (child, Some(node(2))));
    let decline = Decline { requester: Some(node(3)), ..Decline::new(carry.id, Reason::NotFound) };
    let (to, _) = forwarded(&bench.say(child, RequestMessage::Decline(decline)));
    assert_eq!(to, provider, "it knows best, if nobody else knows it");
}

#[test]
fn provider_requested_directly_when_home_silent() {
    let mut bench = bench();
    let (provider, requester) = (bench.up(2, Role::Node), bench.requester(3));
    let home = bench.up(100, Role::SuperNode);
    bench.say(home, ReplicationMessage::ReplicaUpdate(copies(vec![record(2)])));
    let (to, carry) = the_carry(&bench.ask(requester, naming(1, 2)));
    assert_eq!((to, carry.hop().unwrap().provider), (home, Some(node(2))));
    let sent = bench.wait(Duration::from_millis(400));
    assert_eq!(the_forward(&sent).0, provider, "{sent:?}");
    // The home is dead until it says something.
    assert_eq!(the_forward(&bench.ask(requester, naming(2, 2))).0, provider);
    bench.say(home, ProbeMessage::Ping(0));
    assert_eq!(the_carry(&bench.ask(requester, naming(3, 2))).0, home);
}

#[test]
fn latest_requesting_hub_gets_copy() {
    let mut bench = bench();
    let (first, second) = (bench.up(100, Role::SuperNode), bench.up(101, Role::SuperNode));
    bench.provider(1);
    let carry = |tag| {
        let copy_target = wanted(1).map(|target| CopyTarget { tag: StreamTag(tag), ..target });
        Message::Request(RequestMessage::Request(Request { copy_target, ..video(1) }))
    };
    let (_, one) = the_forward(&bench.say(first, carry(7)));
    bench.wait(Duration::from_millis(300));
    let (_, other) = the_forward(&bench.say(second, carry(8)));
    let granted = grants(&mut bench);
    let last = granted.last().unwrap();
    assert_eq!((last.to, last.their_tag), (([10, 0, 0, 101], 9_000).into(), StreamTag(8)));
    assert_eq!(last.tag, reflect_of(&other).tag);
    assert_ne!(last.tag, reflect_of(&one).tag);
}

#[test]
fn drain_waits_for_reflected_streams() {
    let mut bench = bench();
    let (sibling, connection) = (bench.up(100, Role::SuperNode), bench.provider(1));
    carries(&mut bench, 1);
    bench.command(HubCommand::Leave);
    bench.say(connection, RegistrationMessage::Withdraw(version(2)));
    assert!(!bench.events.contains(&HubEvent::Left));
    bench.say(sibling, HierarchyMessage::Claim { node: node(1), version: version(2) });
    bench.command(HubCommand::ReflectedStreams { streams: Vec::new() });
    assert_eq!(bench.events.last(), Some(&HubEvent::Left));
}

#[test]
fn reflected_stream_serves_own_area_only() {
    let mut bench = bench();
    let (_, requester) = (bench.provider(1), bench.requester(2));
    carries(&mut bench, 1);
    let away = subscribe(1).with(|spec| spec.area = Area::Exact(Cell::new(1, 1)));
    assert_eq!(refused(&bench.ask(requester, away)), (requester, Reason::NotFound));
}
