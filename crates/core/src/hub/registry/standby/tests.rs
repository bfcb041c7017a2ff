//! Tests of a standby.

use super::super::homes::LIVELY;
use super::*;
use crate::hub::testing::*;

const LEFT: Capacity = Capacity { streams: 2, uplink_kbps: 500 };

fn copy(records: Vec<Record>) -> Message {
    Message::Replication(ReplicationMessage::ReplicaUpdate(copies(records)))
}

/// The next words of a home, after [`copy`] or `number - 1`.
fn next(number: u32, change: ReplicaUpdate) -> Message {
    Message::Replication(ReplicationMessage::ReplicaUpdate(ReplicaUpdate { sequence: number, ..change }))
}

fn gone(number: u32) -> Message {
    next(number, ReplicaUpdate { removed: vec![0], ..ReplicaUpdate::default() })
}

fn adopt(held: u32, new: u32) -> Message {
    Message::Registration(RegistrationMessage::Adopt(Adopt {
        held_version: version(held),
        version: version(new),
        capacity: LEFT,
        is_failback: None,
    }))
}

/// A hub that stands by for node 1, whose home is hub 100.
fn standing_by() -> (Bench, ConnectionId, ConnectionId) {
    let mut bench = Bench::new();
    let (home, connection) = (bench.up(100, Role::SuperNode), bench.up(1, Role::Node));
    assert!(bench.say(home, copy(vec![record(1)])).is_empty(), "it is nobody else's to know");
    assert_eq!(bench.hub.status(bench.now).replicas, 1);
    (bench, home, connection)
}

#[test]
fn replica_answers_over_own_connection() {
    let (mut bench, home, connection) = standing_by();
    let requester = bench.requester(2);
    assert_eq!(forwarded(&bench.ask(requester, request(1, RequestMode::Forward))).0, connection);
    // Without that connection it goes through the home.
    bench.down(connection);
    bench.say(home, copy(vec![Record { version: version(2), ..record(1) }]));
    match &bench.ask(requester, request(2, RequestMode::Forward))[..] {
        [(to, Message::Request(RequestMessage::Request(carry)))] if carry.hop().is_some() => {
            assert_eq!((*to, carry.hop().unwrap().provider), (home, Some(node(1))))
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn home_scope_uses_replicas_when_orphaned() {
    let (mut bench, home, connection) = standing_by();
    let requester = bench.requester(2);
    let near = |id| request(id, RequestMode::Forward).with(|spec| spec.scope = Scope::Home);
    assert_eq!(refused(&bench.ask(requester, near(1))), (requester, Reason::NotFound));
    bench.wait(LIVELY);
    assert_eq!(forwarded(&bench.ask(requester, near(2))).0, connection);
    bench.say(home, ProbeMessage::Pong(0));
    assert_eq!(refused(&bench.ask(requester, near(3))), (requester, Reason::NotFound));
}

#[test]
fn adopt_makes_standby_the_home() {
    let (mut bench, home, connection) = standing_by();
    let sent = bench.say(connection, adopt(1, 2));
    assert_eq!(sent[0], (home, Message::Hierarchy(HierarchyMessage::Claim { node: node(1), version: version(2) })));
    assert!(
        matches!(&sent[1], (to, Message::Registration(RegistrationMessage::Lease { version: held, .. })) if *to == connection && *held == version(2))
    );
    let status = bench.hub.status(bench.now);
    assert_eq!((status.nodes, status.replicas, bench.hub.counters().adoptions), (1, 0, 1));
    assert_eq!(bench.hub.index(bench.now, None, 1)[0].capacity, LEFT);
    assert!(bench.events.iter().any(|event| matches!(event, HubEvent::Published { .. })));
    // The answer may be lost, and the home may speak late.
    assert!(matches!(
        bench.say(connection, adopt(1, 2))[..],
        [(_, Message::Registration(RegistrationMessage::Lease { .. }))]
    ));
    bench.say(home, copy(vec![record(1)]));
    bench.say(home, gone(2));
    assert_eq!(bench.hub.status(bench.now).nodes, 1);
}

#[test]
fn unknown_version_requests_full_record() {
    let (mut bench, home, connection) = standing_by();
    for wrong in [
        adopt(2, 3),
        adopt(1, 1),
        Message::Registration(RegistrationMessage::Renew(Renew { version: version(1), capacity: None })),
    ] {
        assert_eq!(
            bench.say(connection, wrong.clone()),
            [(connection, Message::Registration(RegistrationMessage::UnknownVersion))],
            "{wrong:?}"
        );
    }
    let sent = bench.say(connection, RegistrationMessage::Publish(Record { version: version(2), ..record(1) }));
    assert_eq!(sent[0], (home, Message::Hierarchy(HierarchyMessage::Claim { node: node(1), version: version(2) })));
    assert_eq!(bench.hub.status(bench.now).replicas, 0);
}

#[test]
fn only_home_removes_replica() {
    let (mut bench, home, _) = standing_by();
    let other = bench.up(101, Role::SuperNode);
    bench.say(other, copy(vec![record(1)]));
    bench.say(home, copy(vec![Record { version: version(2), ..record(1) }]));
    bench.say(other, gone(2));
    assert_eq!(bench.hub.status(bench.now).replicas, 1);
    bench.say(home, gone(2));
    assert_eq!(bench.hub.status(bench.now).replicas, 0);
}

fn shift(number: u32, versions: u32, x: i32) -> Message {
    next(
        number,
        ReplicaUpdate {
            moves: vec![ReplicaMove { node: 0, versions, x, y: -1, step: None }],
            ..ReplicaUpdate::default()
        },
    )
}

fn retell(number: u32, nodes: Vec<u32>) -> Message {
    Message::Replication(ReplicationMessage::ResyncRequest(ResyncRequest { number, nodes }))
}

#[test]
fn what_was_overtaken_is_not_believed() {
    let (mut bench, home, _) = standing_by();
    let other = bench.up(100, Role::SuperNode);
    let newer = Record { version: version(2), ..record(1) };
    bench.say(other, ReplicationMessage::ReplicaUpdate(ReplicaUpdate { sequence: 5, ..copies(vec![newer]) }));
    assert_eq!(bench.say(home, gone(2)), [(home, retell(2, vec![]))]);
    assert_eq!(bench.say(home, copy(vec![])), [(home, retell(1, vec![]))]);
    assert!(bench.say(other, shift(6, 1, 1)).is_empty(), "it goes on over the other connection");
    bench.down(other);
    assert_eq!(bench.say(home, copy(vec![])), [(home, retell(1, vec![]))]);
    assert_eq!(bench.hub.status(bench.now).replicas, 1);
    bench.say(home, ReplicationMessage::ReplicaUpdate(ReplicaUpdate { sequence: 7, ..copies(vec![]) }));
    assert_eq!(bench.hub.status(bench.now).replicas, 0);
}

#[test]
fn replica_requested_once_room_is_free() {
    let mut bench = Bench::configured(|config| config.limits.nodes = 1);
    let home = bench.up(100, Role::SuperNode);
    bench.say(home, copy(vec![record(1), record(2)]));
    let status = bench.hub.status(bench.now);
    let over_limit = bench.hub.counters().over_limit(HubLimit::Replicas);
    assert_eq!((status.replicas, status.numbered, over_limit), (1, 1, 1));
    let (moves, alive) =
        (vec![ReplicaMove { node: 1, versions: 1, x: 1, y: 0, step: None }], Some(Bytes::from_static(&[3])));
    assert!(bench.say(home, next(2, ReplicaUpdate { moves, alive, ..ReplicaUpdate::default() })).is_empty());
    assert!(bench.say(home, gone(3)).is_empty());
    let heard = Some(Bytes::from_static(&[2]));
    let sent = bench.say(home, next(4, ReplicaUpdate { alive: heard, ..ReplicaUpdate::default() }));
    assert_eq!(sent, [(home, retell(4, vec![1]))]);
}

#[test]
fn many_missing_replicas_request_full_resync() {
    let mut bench = Bench::new();
    let home = bench.up(100, Role::SuperNode);
    bench.say(home, copy(vec![]));
    let heard = |count: usize| Some(Bytes::from(vec![255; count / 8]));
    let sent = bench.say(home, next(2, ReplicaUpdate { alive: heard(520), ..ReplicaUpdate::default() }));
    assert_eq!(sent, [(home, retell(2, vec![]))]);
    // Only as many as can be had.
    bench.hub.registry.directory = crate::directory::Directory::new(515, LIVELY);
    let sent = bench.say(home, next(3, ReplicaUpdate { alive: heard(520), ..ReplicaUpdate::default() }));
    assert_eq!(sent, [(home, retell(3, (0..512).collect()))]);
}

/// A node that goes to a third hub as its home dies is there, though the home was heard of late.
#[test]
fn contested_claim_applies_when_home_gone() {
    let (mut bench, home, connection) = standing_by();
    let other = bench.up(101, Role::SuperNode);
    bench.down(connection);
    bench.say(other, HierarchyMessage::Claim { node: node(1), version: version(2) });
    assert_eq!(bench.hub.status(bench.now).replicas, 1, "a home that lives is believed");
    bench.down(home);
    assert_eq!(bench.hub.status(bench.now).replicas, 0);
}

/// True if the only replica ends this long after now, to a second.
fn ends_after(bench: &mut Bench, lease: Duration) -> bool {
    let second = Duration::from_secs(1);
    bench.wait(lease.saturating_sub(second));
    let before = bench.hub.status(bench.now).replicas;
    bench.wait(second * 2);
    (before, bench.hub.status(bench.now).replicas) == (1, 0)
}

/// A home tells of a node that it has not heard for long, or heard a while before it says so.
#[test]
fn lease_counts_from_last_message() {
    for (record_s, sign_s, left_s) in [
        (None, None, 60),
        (Some(20), None, 40),
        (Some(58), None, 2),
        (Some(40), Some(15), 45),
        (Some(10), Some(15), 50),
        (Some(59), Some(u16::MAX), 1),
    ] {
        let mut bench = Bench::new();
        let home = bench.up(100, Role::SuperNode);
        let mut first = copies(vec![record(1)]);
        first.records[0].silent_s = record_s;
        bench.say(home, ReplicationMessage::ReplicaUpdate(first));
        let alive = Some(Bytes::from_static(&[1]));
        if sign_s.is_some() {
            bench.say(home, next(2, ReplicaUpdate { alive, alive_within_s: sign_s, ..ReplicaUpdate::default() }));
        }
        assert!(ends_after(&mut bench, Duration::from_secs(left_s)), "{record_s:?} {sign_s:?}");
    }
}

/// The lease of a replica begins when another hub tells of it, though it becomes valid later.
#[test]
fn contested_replica_lease_runs_on() {
    let (mut bench, home, connection) = standing_by();
    let other = bench.up(101, Role::SuperNode);
    bench.down(connection);
    bench.say(other, copy(vec![Record { version: version(2), ..record(1) }]));
    bench.wait(Duration::from_secs(5));
    bench.say(home, gone(2));
    assert_eq!(bench.hub.registry.directory.get(node(1)).map(|held| held.version()), Some(version(2)));
    assert!(ends_after(&mut bench, Duration::from_secs(55)));
}

#[test]
fn expired_replica_is_refused() {
    let mut bench = Bench::new();
    let home = bench.up(100, Role::SuperNode);
    let mut first = copies(vec![record(1)]);
    first.records[0].silent_s = Some(60);
    assert!(bench.say(home, ReplicationMessage::ReplicaUpdate(first)).is_empty());
    assert_eq!(bench.hub.status(bench.now).replicas, 0);
}

#[test]
fn copies_give_way_to_own_nodes() {
    let mut bench = Bench::configured(|config| config.limits.nodes = 8);
    let (many, few) = (bench.up(100, Role::SuperNode), bench.up(101, Role::SuperNode));
    bench.say(few, copy(vec![record(90)]));
    bench.say(many, copy((10..22).map(record).collect()));
    assert_eq!(bench.hub.status(bench.now).replicas, 8);
    for number in 1..=4 {
        bench.provider(number);
    }
    let status = bench.hub.status(bench.now);
    assert_eq!((status.nodes, status.replicas), (4, 4));
    assert!(bench.closed.is_empty() && bench.hub.registry.directory.get(node(90)).is_some(), "{:?}", bench.closed);
}
