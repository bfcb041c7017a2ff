//! Tests of what a home tells.

use super::*;
use crate::hub::testing::*;

const LEFT: Capacity = Capacity { streams: 2, uplink_kbps: 500 };

fn mirrored(sent: &[(ConnectionId, Message)]) -> Vec<(ConnectionId, ReplicaUpdate)> {
    let copies = sent.iter().filter_map(|(connection, message)| match message {
        Message::Replication(ReplicationMessage::ReplicaUpdate(copy)) => Some((*connection, copy.clone())),
        _ => None,
    });
    copies.collect()
}

fn name(bench: &mut Bench, connection: ConnectionId, hub: u8) {
    bench.say(connection, RegistrationMessage::SetStandby { hub: node(hub), addresses: None });
}

/// Node 1 at `connection`, for which hub 100 at `standby` stands by and has its record.
fn told() -> (Bench, ConnectionId, ConnectionId) {
    let mut bench = Bench::new();
    let (standby, connection) = (bench.up(100, Role::SuperNode), bench.provider(1));
    name(&mut bench, connection, 100);
    assert_eq!(mirrored(&bench.wait(GATHER)), [(standby, copies(vec![record(1)]))]);
    // Long enough for everything to be told anew at once.
    bench.wait(Duration::from_secs(2));
    (bench, standby, connection)
}

/// The message that the standby hears within `span`, which is one message.
fn heard(bench: &mut Bench, span: Duration) -> ReplicaUpdate {
    let mut told = mirrored(&bench.wait(span));
    assert_eq!(told.len(), 1, "{told:?}");
    told.remove(0).1
}

#[test]
fn changes_and_withdrawal_reach_standby() {
    let (mut bench, _, connection) = told();
    bench.say(connection, RegistrationMessage::Renew(Renew { version: version(1), capacity: Some(LEFT) }));
    let capacities = vec![ReplicaCapacity { node: 0, capacity: LEFT }];
    assert_eq!(heard(&mut bench, GATHER_MOVES), ReplicaUpdate { sequence: 2, capacities, ..Default::default() });
    let there = Record { version: version(3), cell: Cell::new(28, 90), capacity: LEFT, ..record(1) };
    bench.say(connection, RegistrationMessage::Publish(there.clone()));
    assert!(bench.wait(GATHER).is_empty(), "moves are gathered for longer");
    let moves = vec![ReplicaMove { node: 0, versions: 2, x: 1, y: -2, step: None }];
    assert_eq!(heard(&mut bench, GATHER_MOVES), ReplicaUpdate { sequence: 3, moves, ..Default::default() });
    let other = Record { version: version(4), services: ServiceSet::EMPTY, ..there };
    bench.say(connection, RegistrationMessage::Publish(other.clone()));
    let whole = ReplicaUpdate { sequence: 4, starts_resync: None, ends_resync: None, ..copies(vec![other]) };
    assert_eq!(heard(&mut bench, GATHER), whole);
    bench.say(connection, RegistrationMessage::Withdraw(version(4)));
    assert_eq!(heard(&mut bench, GATHER), ReplicaUpdate { sequence: 5, removed: vec![0], ..Default::default() });
}

#[test]
fn moves_batch_with_urgent_updates() {
    let mut bench = Bench::new();
    bench.up(100, Role::SuperNode);
    let connections: Vec<ConnectionId> = (1..=20).map(|number| bench.provider(number)).collect();
    connections.iter().for_each(|connection| name(&mut bench, *connection, 100));
    bench.wait(GATHER);
    for (connection, number) in connections.iter().zip(1..).take(19) {
        let there = Record { version: version(2), cell: Cell::new(28, 92), ..record(number) };
        bench.say(*connection, RegistrationMessage::Publish(there));
    }
    bench.say(connections[19], RegistrationMessage::Withdraw(version(1)));
    let told = heard(&mut bench, GATHER);
    assert_eq!((told.moves.len(), told.removed.len(), told.records.len()), (19, 1, 0));
    assert!(Message::Replication(ReplicationMessage::ReplicaUpdate(told)).encode().len() < 19 * 6 + 20);
}

#[test]
fn liveness_covers_heard_nodes_only() {
    let mut bench = Bench::new();
    let standby = bench.up(100, Role::SuperNode);
    let (first, second) = (bench.provider(1), bench.provider(2));
    for connection in [first, second] {
        name(&mut bench, connection, 100);
    }
    bench.wait(Duration::from_secs(8));
    // With other news who lives goes along when it is due, not before.
    for (sequence, signs) in [(2, None), (3, Some(Bytes::from_static(&[0b01])))] {
        bench.say(first, RegistrationMessage::Publish(Record { version: version(sequence), ..record(1) }));
        assert_eq!(heard(&mut bench, GATHER_MOVES).alive, signs, "{sequence}");
        bench.wait(Duration::from_secs(2));
    }
    bench.say(second, ProbeMessage::Ping(1));
    bench.say(standby, ProbeMessage::Pong(0));
    let signs = heard(&mut bench, Duration::from_secs(15));
    assert_eq!(signs.alive, Some(Bytes::from_static(&[0b10])));
    assert!(matches!(signs.alive_within_s, Some(10..=15)), "{signs:?}");
}

#[test]
fn resync_tells_silence() {
    for is_asked in [false, true] {
        let (mut bench, mut standby, _) = told();
        for _ in 0..4 {
            bench.wait(Duration::from_secs(5));
            bench.say(standby, ProbeMessage::Pong(0));
        }
        if is_asked {
            let request = ResyncRequest { number: 1, nodes: vec![0] };
            bench.say(standby, ReplicationMessage::ResyncRequest(request));
        } else {
            bench.down(standby);
            standby = bench.up(100, Role::SuperNode);
        }
        let told = mirrored(&bench.wait(GATHER));
        let silent: Vec<_> =
            told.iter().flat_map(|(_, update)| &update.records).map(|record| record.silent_s).collect();
        assert_eq!((told[0].0, silent), (standby, vec![Some(22)]), "{told:?}");
    }
}

#[test]
fn resync_request_resends_full_records() {
    let (mut bench, standby, connection) = told();
    let retell = |number, nodes| ReplicationMessage::ResyncRequest(ResyncRequest { number, nodes });
    bench.say(standby, retell(1, vec![0, 7]));
    let mut all = ReplicaUpdate { sequence: 3, ..copies(vec![record(1)]) };
    all.records[0].silent_s = Some(2);
    let whole = ReplicaUpdate { sequence: 2, starts_resync: None, ends_resync: None, ..all.clone() };
    assert_eq!(heard(&mut bench, GATHER), whole);
    bench.say(standby, retell(2, vec![]));
    assert_eq!(heard(&mut bench, GATHER), all);
    // The standby said so before the update came.
    bench.say(standby, retell(2, vec![]));
    assert!(bench.wait(GATHER).is_empty());
    bench.say(connection, retell(2, vec![]));
    assert_eq!(bench.hub.counters().refused_by_role, 1);
}

#[test]
fn replica_omits_loopback_addresses() {
    let config = HubConfig::new(node(200), HubKind::SuperNode, 1);
    let mut bench = Bench::with(config);
    bench.up(100, Role::SuperNode);
    let loopback = Address::single(Scheme::Udp, ([127, 0, 0, 1], 9).into());
    let connection = bench.up(1, Role::Node);
    bench.say(connection, RegistrationMessage::Publish(Record { addresses: vec![loopback, address(1)], ..record(1) }));
    name(&mut bench, connection, 100);
    assert_eq!(heard(&mut bench, GATHER).records[0].record.addresses, [address(1)]);
}

/// Hub 100 stands by for so many nodes.
fn crowded(count: u32) -> Bench {
    let mut bench = Bench::new();
    bench.hub.core.begin_input(bench.now);
    for number in 0..count {
        let mut id = [0; 16];
        id[..4].copy_from_slice(&number.to_be_bytes());
        let own = NodeId::from_bytes(id);
        let from = Sender { connection: ConnectionId(0), node: own, role: Role::Node };
        bench.hub.registry.take_record(&mut bench.hub.core, from, Record { node: own, ..record(1) });
        bench.hub.replication.named.insert(own, node(100));
    }
    bench
}

#[test]
fn full_resync_is_paced_and_marked() {
    let mut bench = crowded(2_500);
    let standby = bench.up(100, Role::SuperNode);
    let mut all = Vec::new();
    for count in [1_024, 1_024, 452] {
        let told: Vec<_> = mirrored(&bench.wait(GATHER)).into_iter().map(|(_, copy)| copy).collect();
        assert_eq!(told.iter().map(|copy| copy.records.len()).sum::<usize>(), count);
        all.extend(told);
    }
    let marked = |mark: fn(&ReplicaUpdate) -> bool| {
        all.iter().filter(|copy| mark(copy)).map(|copy| copy.sequence).collect::<Vec<_>>()
    };
    assert_eq!(marked(|copy| copy.starts_resync.is_some()), [1]);
    assert_eq!(marked(|copy| copy.ends_resync.is_some()), [all.len() as u32]);
    assert!(mirrored(&bench.wait(GATHER)).is_empty());
    // A standby that asks for everything again and again gets it less and less often.
    let mut times = Vec::new();
    for _ in 0..600 {
        bench.say(standby, ReplicationMessage::ResyncRequest(ResyncRequest { number: u32::MAX, nodes: vec![] }));
        let begins = |(_, copy): &(ConnectionId, ReplicaUpdate)| copy.starts_resync.is_some();
        if mirrored(&bench.wait(GATHER)).iter().any(begins) {
            times.push(bench.now);
        }
    }
    assert!(times.len() < 8, "{times:?}");
    assert!(times.windows(2).all(|pair| pair[1].since(pair[0]) >= Duration::from_millis(750)), "{times:?}");
}
