//! Changes that watchers hear, case by case.

use crate::hub::testing::*;

const SECOND: Duration = Duration::from_secs(1);

fn watching(id: u32, seen: u64) -> Message {
    let (services, area) = (ServiceSet::ALL, Area::Exact(HERE));
    Message::Directory(DirectoryMessage::Watch(Watch {
        id: RequestId(id),
        services,
        area,
        last_seen: seen,
        direction: None,
        names: None,
    }))
}

fn changes(sent: &[(ConnectionId, Message)], to: ConnectionId) -> Vec<(u64, Vec<NodeId>, Vec<NodeId>)> {
    sent.iter()
        .filter(|(connection, _)| *connection == to)
        .filter_map(|(_, message)| match message {
            Message::Directory(DirectoryMessage::WatchChange(change)) => {
                let present = change.updated.iter().map(|candidate| candidate.node).collect();
                Some((change.sequence, present, change.removed.clone()))
            }
            _ => None,
        })
        .collect()
}

#[test]
fn watcher_gets_snapshot_then_changes() {
    let mut bench = Bench::new();
    let (first, watcher) = (bench.provider(1), bench.requester(2));
    let sent = bench.say(watcher, watching(5, 0));
    assert_eq!(changes(&sent, watcher), [(1, vec![node(1)], vec![])]);
    let second = bench.up(3, Role::Node);
    let sent = bench.say(second, RegistrationMessage::Publish(record(3)));
    assert_eq!(changes(&sent, watcher), [(2, vec![node(3)], vec![])]);
    let moved = Record { version: version(2), cell: Cell::new(0, 0), ..record(3) };
    let sent = bench.say(second, RegistrationMessage::Publish(moved));
    assert_eq!(changes(&sent, watcher), [(3, vec![], vec![node(3)])]);
    let sent = bench.say(first, RegistrationMessage::Withdraw(version(1)));
    assert_eq!(changes(&sent, watcher), [(4, vec![], vec![node(1)])]);
    assert!(bench.say(watcher, watching(5, 4)).is_empty());
    bench.say(watcher, DirectoryMessage::Unwatch(RequestId(5)));
    assert_eq!(bench.hub.status(bench.now).watches, 0);
}

#[test]
fn watch_reaches_siblings_and_changes_return() {
    let mut bench = Bench::new();
    let sibling = bench.up(100, Role::SuperNode);
    let watcher = bench.requester(2);
    let sent = bench.say(watcher, watching(5, 0));
    let [(_, id)] = carried(&sent)[..] else { panic!("{sent:?}") };
    let change = |sequence, updated, removed| {
        DirectoryMessage::WatchChange(WatchChange { id, sequence, updated, removed, coverage: None })
    };
    let sent = bench.say(sibling, change(1, vec![there(9, 3)], vec![]));
    assert_eq!(changes(&sent, watcher), [(2, vec![node(9)], vec![])]);
    let sent = bench.say(sibling, change(2, vec![there(9, 2)], vec![node(1)]));
    assert!(sent.is_empty(), "an older record and a stranger's end are no news");
    let sent = bench.down(sibling);
    assert_eq!(changes(&sent, watcher), [(3, vec![], vec![node(9)])]);
    bench.up(100, Role::SuperNode);
    bench.down(watcher);
    assert_eq!(bench.hub.status(bench.now).watches, 0);
}

#[test]
fn watches_per_remote_are_limited() {
    let mut bench = Bench::new();
    let watcher = bench.requester(2);
    for id in 0..16 {
        bench.say(watcher, watching(id, 0));
    }
    assert_eq!(refused(&bench.say(watcher, watching(16, 0))), (watcher, Reason::TooMany));
}

#[test]
fn late_watch_duplicate_keeps_sequence() {
    let mut bench = Bench::new();
    let watcher = bench.requester(2);
    bench.say(watcher, watching(5, 0));
    for number in [3, 4] {
        let connection = bench.up(number, Role::Node);
        bench.say(connection, RegistrationMessage::Publish(record(number)));
    }
    let sent = bench.say(watcher, watching(5, 0));
    assert_eq!(changes(&sent, watcher), [(4, vec![node(3), node(4)], vec![])]);
}

#[test]
fn unseen_change_resent_after_second_renewal() {
    let mut bench = Bench::new();
    let watcher = bench.requester(2);
    bench.say(watcher, watching(5, 0));
    let connection = bench.up(3, Role::Node);
    bench.say(connection, RegistrationMessage::Publish(record(3)));
    assert!(bench.say(watcher, watching(5, 1)).is_empty(), "the second change has just left");
    let sent = bench.say(watcher, watching(5, 1));
    assert_eq!(changes(&sent, watcher), [(3, vec![node(3)], vec![])], "it was lost");
}

#[test]
fn changes_per_node_are_rate_limited() {
    let mut bench = Bench::new();
    let (mover, watcher) = (bench.provider(1), bench.requester(2));
    bench.say(watcher, watching(5, 0));
    let mut told = 0;
    for sequence in 2..1_000 {
        let moved = Record { version: version(sequence), ..record(1) };
        told += bench
            .say(mover, RegistrationMessage::Publish(moved))
            .iter()
            .filter(|(connection, _)| *connection == watcher)
            .count();
    }
    assert!(told > 10 && told < 100, "{told}");
    bench.wait(SECOND);
    let moved = Record { version: version(1_000), ..record(1) };
    assert_eq!(bench.say(mover, RegistrationMessage::Publish(moved)).len(), 2, "a change and a lease");
    let snapshots: usize = (0..1_000).map(|_| bench.say(watcher, watching(5, 0)).len()).sum();
    assert!(snapshots > 10 && snapshots < 100, "{snapshots}");
}

fn there(number: u8, sequence: u32) -> Candidate {
    let (version, capacity) = (version(sequence), record(number).capacity);
    Candidate {
        node: node(number),
        version,
        cell: HERE,
        services: ServiceSet::ALL,
        capacity,
        addresses: Vec::new(),
        name: None,
        position: None,
    }
}

fn told(id: RequestId, number: u64, present: Vec<Candidate>, coverage: Option<Coverage>) -> Message {
    Message::Directory(DirectoryMessage::WatchChange(WatchChange {
        id,
        sequence: number,
        updated: present,
        removed: Vec::new(),
        coverage,
    }))
}

fn carried(sent: &[(ConnectionId, Message)]) -> Vec<(ConnectionId, RequestId)> {
    let watches = sent.iter().filter_map(|(connection, message)| match message {
        Message::Directory(DirectoryMessage::Watch(watch)) => Some((*connection, watch.id)),
        _ => None,
    });
    watches.collect()
}

#[test]
fn lost_connection_resends_watch_state() {
    let mut bench = Bench::new();
    let both = [bench.up(100, Role::SuperNode), bench.up(100, Role::SuperNode)];
    let (home, watcher) = (bench.provider(1), bench.requester(2));
    bench.say(home, RegistrationMessage::SetStandby { hub: node(100), addresses: None });
    bench.wait(SECOND);
    let watch = carried(&bench.say(watcher, watching(5, 0)));
    let [(used, id)] = watch[..] else { panic!("{watch:?}") };
    bench.say(used, told(id, 1, vec![there(9, 1)], None));
    let mut sent = bench.down(used);
    sent.extend(bench.wait(SECOND));
    let left = both.into_iter().find(|connection| *connection != used).unwrap();
    assert_eq!(carried(&sent), [(left, id)]);
    let mirrored = |(connection, message): &(ConnectionId, Message)| {
        *connection == left && matches!(message, Message::Replication(ReplicationMessage::ReplicaUpdate(_)))
    };
    assert!(sent.iter().any(mirrored), "{sent:?}");
    bench.say(left, told(id, 5, Vec::new(), None));
    let mut sent = bench.down(left);
    sent.extend(bench.wait(SECOND));
    assert_eq!(changes(&sent, watcher), [], "what it had was given up with the first connection");
}

#[test]
fn missing_change_restarts_the_watch() {
    let mut bench = Bench::new();
    let (sibling, watcher) = (bench.up(100, Role::SuperNode), bench.requester(2));
    let watch = carried(&bench.say(watcher, watching(5, 0)));
    let [(_, id)] = watch[..] else { panic!("{watch:?}") };
    bench.say(sibling, told(id, 1, vec![there(9, 1)], None));
    let sent = bench.say(sibling, told(id, 3, vec![there(8, 1)], None));
    assert_eq!(carried(&sent), [(sibling, id)], "the second one may have said that the ninth node is gone");
    assert_eq!(changes(&sent, watcher)[0].2, [node(9)]);
    assert_eq!(carried(&bench.say(sibling, told(id, 2, Vec::new(), None))), [], "it was overtaken");
    assert_eq!(carried(&bench.say(sibling, told(id, 4, vec![there(8, 1)], None))), []);
}

#[test]
fn refused_watch_stays_partial_until_accepted() {
    let mut bench = Bench::new();
    let (sibling, watcher) = (bench.up(100, Role::SuperNode), bench.requester(2));
    let watch = carried(&bench.say(watcher, watching(5, 0)));
    let [(_, id)] = watch[..] else { panic!("{watch:?}") };
    let coverages = |sent: &[(ConnectionId, Message)]| -> Vec<Option<Coverage>> {
        let of = |(connection, message): &(ConnectionId, Message)| match message {
            Message::Directory(DirectoryMessage::WatchChange(change)) if *connection == watcher => {
                Some(change.coverage)
            }
            _ => None,
        };
        sent.iter().filter_map(of).collect()
    };
    let decline = Decline::new(id, Reason::TooMany);
    let sent = bench.say(sibling, RequestMessage::Decline(decline));
    assert_eq!(coverages(&sent), [Some(Coverage::Partial)]);
    let again: Vec<_> = (0..40)
        .flat_map(|_| {
            [sibling, watcher].iter().for_each(|connection| drop(bench.say(*connection, ProbeMessage::Ping(0))));
            carried(&bench.wait(SECOND))
        })
        .collect();
    assert_eq!(again, [(sibling, id)]);
    assert_eq!(coverages(&bench.say(sibling, told(id, 1, Vec::new(), None))), [None]);
    // A partial picture there is partial here.
    assert_eq!(
        coverages(&bench.say(sibling, told(id, 2, Vec::new(), Some(Coverage::Partial)))),
        [Some(Coverage::Partial)]
    );
    assert_eq!(coverages(&bench.say(sibling, told(id, 3, Vec::new(), None))), [None]);
}

#[test]
fn numbers_of_changes_go_round() {
    let mut bench = Bench::new();
    let (_, watcher) = (bench.provider(1), bench.requester(2));
    let sent = bench.say(watcher, watching(5, u64::MAX));
    assert_eq!(changes(&sent, watcher), [(0, vec![node(1)], vec![])]);
}
