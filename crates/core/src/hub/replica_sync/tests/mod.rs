//! A home and its standby, whatever happens to nodes, words and connections:
//! the standby never believes what no node has said, and in the end has what
//! the home has.

mod pair;

use proptest::prelude::*;

use super::ReplicaChanges;
use super::ReplicaSender;
use crate::directory::Directory;
use crate::hub::testing::*;
use pair::Pair;
use pair::STANDBY;

const SECOND: Duration = Duration::from_secs(1);

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn standby_converges_to_home(seed in any::<u64>()) {
        let mut pair = Pair::new(seed);
        for _ in 0..150 {
            pair.node_acts();
            if pair.below(8) == 0 {
                pair.fate();
            }
            let (pause, all) = (Duration::from_millis(pair.below(1_000)), pair.below(3) > 0);
            pair.wait(pause, all);
            pair.live();
            pair.check();
        }
        pair.fate();
        pair.unstick();
        // A home that has come back says nothing of whom it does not know: a lease.
        for _ in 0..65 {
            if pair.ways.is_empty() {
                pair.connect();
            }
            pair.wait(SECOND, true);
            pair.live();
            pair.check();
        }
        prop_assert_eq!(pair.copies(), pair.originals());
    }

    /// Urgent changes within 100 ms, the rest within 400 ms, and the way.
    #[test]
    fn lossless_standby_matches_home_promptly(seed in any::<u64>()) {
        let mut pair = Pair::new(seed);
        for _ in 0..100 {
            pair.node_acts();
            let pause = Duration::from_millis(400 + pair.below(1_000));
            pair.wait(pause, true);
            pair.check();
            prop_assert_eq!(pair.copies(), pair.originals());
        }
    }
}

#[test]
fn restarted_home_leaves_absent_replicas() {
    let mut pair = Pair::with_nodes(2);
    pair.restart_home();
    pair.publish(1, |last| last);
    pair.name(1, STANDBY);
    pair.wait(SECOND, true);
    let held = |pair: &Pair| pair.standby.hub.find(Service::Track, Area::Exact(HERE), 9).len();
    assert_eq!((held(&pair), pair.copies().len()), (2, 2));
    let connection = pair.standby.up(2, Role::Node);
    let adopt =
        Adopt { held_version: version(2), version: version(3), capacity: record(2).capacity, is_failback: None };
    let sent = pair.standby.say(connection, RegistrationMessage::Adopt(adopt));
    assert!(
        sent.iter().any(|(to, message)| *to == connection
            && matches!(message, Message::Registration(RegistrationMessage::Lease { .. }))),
        "{sent:?}"
    );
    // Whoever stays away is gone with the lease.
    for _ in 0..62 {
        pair.wait(SECOND, true);
        pair.live();
    }
    assert_eq!(pair.copies(), pair.originals());
}

#[test]
fn lost_replicas_return_without_changes() {
    let mut pair = Pair::with_nodes(3);
    pair.jump();
    pair.wait(SECOND, true);
    assert!(pair.copies().is_empty(), "the leases have ended");
    for _ in 0..16 {
        pair.live();
        pair.wait(SECOND, true);
    }
    assert_eq!((pair.copies(), pair.ways.len()), (pair.originals(), 1));
}

#[test]
fn loss_during_resync_restarts_it() {
    for lost in 0..4 {
        let mut pair = Pair::with_nodes(100);
        pair.disconnect(0);
        pair.connect();
        pair.wait(SECOND, false);
        let told = |message: &Message| matches!(message, Message::Replication(ReplicationMessage::ReplicaUpdate(_)));
        let messages: Vec<usize> =
            (0..pair.ways[0].to_standby.len()).filter(|at| told(&pair.ways[0].to_standby[*at])).collect();
        let marks = messages.iter().map(|at| match &pair.ways[0].to_standby[*at] {
            Message::Replication(ReplicationMessage::ReplicaUpdate(ReplicaUpdate {
                starts_resync: first,
                ends_resync: last,
                ..
            })) => (first.is_some(), last.is_some()),
            _ => (false, false),
        });
        let expected = [(true, false), (false, false), (false, false), (false, true)];
        assert_eq!(marks.collect::<Vec<_>>(), expected);
        pair.ways[0].to_standby.remove(messages[lost]);
        pair.publish(7, |last| Record { services: [Service::Track].into_iter().collect(), ..last });
        for _ in 0..5 {
            pair.wait(SECOND, true);
            pair.live();
            pair.check();
        }
        assert_eq!(pair.copies(), pair.originals(), "{lost}");
    }
}

#[test]
fn replaced_standby_drops_replicas_on_return() {
    let mut pair = Pair::with_nodes(2);
    pair.disconnect(0);
    pair.name(1, 202);
    pair.name(2, 202);
    pair.wait(SECOND * 5, true);
    assert_eq!(pair.copies().len(), 2);
    pair.connect();
    pair.wait(SECOND, true);
    assert_eq!(pair.copies().len(), 0);
}

#[test]
fn large_update_splits_into_messages() {
    let shifts = (0..600).map(|node| ReplicaMove { node, versions: 1, x: 0, y: 0, step: None }).collect();
    let gone: Vec<u32> = (1_000..2_100).collect();
    let records = (3_000..3_070).map(|node| ReplicaRecord { node, record: record(1), silent_s: None }).collect();
    let heard = Some(Bytes::from_static(&[1]));
    let changes =
        ReplicaChanges { shifts, gone: gone.clone(), left: Vec::new(), records, heard, ..ReplicaChanges::default() };
    let messages = ReplicaSender { is_whole: true, ..ReplicaSender::default() }.messages(changes, true);
    let sizes = messages.iter().map(|told| (told.moves.len(), told.removed.len(), told.records.len()));
    let expected = [(512, 512, 0), (88, 512, 0), (0, 76, 0), (0, 0, 32), (0, 0, 32), (0, 0, 6)];
    assert_eq!(sizes.collect::<Vec<_>>(), expected);
    assert!(messages.iter().map(|told| told.sequence).eq(1..=6));
    assert_eq!(messages.iter().position(|told| told.alive.is_some()), Some(0));
    assert!(messages.iter().all(|told| told.alive.is_none() || told.sequence == 1));
    assert_eq!(messages.iter().flat_map(|told| told.removed.clone()).collect::<Vec<_>>(), gone);
    assert!(messages.iter().all(|told| told.starts_resync.is_none() && told.ends_resync.is_none()));
}

#[test]
fn unnumbered_node_waits_for_free_number() {
    let mut directory = Directory::new(9, SECOND * 60);
    for number in [1, 2] {
        directory.publish(Time::ZERO, &record(number));
    }
    let mut ledger = ReplicaSender { next: MAX_REPLICA_NODES - 1, ..ReplicaSender::default() };
    let mut changes = ReplicaChanges::default();
    let note = |ledger: &mut ReplicaSender, number, changes: &mut ReplicaChanges| {
        ledger.record_change(Time::ZERO, node(number), directory.get(node(number)).as_ref(), changes, |record| record)
    };
    assert!(note(&mut ledger, 1, &mut changes));
    assert!(!note(&mut ledger, 2, &mut changes));
    assert!(ledger.record_change(Time::ZERO, node(1), None, &mut changes, |record| record));
    assert!(!note(&mut ledger, 2, &mut changes), "the standby does not know yet");
    let told = ledger.messages(changes, true);
    assert_eq!(told.iter().map(|told| told.records.len()).sum::<usize>(), 1);
    let mut changes = ReplicaChanges::default();
    assert!(note(&mut ledger, 2, &mut changes));
    assert_eq!(changes.records[0].node, MAX_REPLICA_NODES - 1);
}
