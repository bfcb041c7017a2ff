//! Summaries among hubs, case by case.

use super::*;
use crate::hub::testing::*;

const NEXT: Cell = Cell::new(28, 92);
const FAR: Cell = Cell::new(280, 92);

/// A hub of tier 1 below 101, with a child 50.
fn middle() -> (Bench, ConnectionId, ConnectionId) {
    let (mut bench, [parent]) = Bench::below(1, [101]);
    let child = bench.child(50);
    bench.wait(Duration::from_secs(1));
    (bench, parent, child)
}

/// The blocks of a summary, and since when everything has been told.
type ReceivedSummary = (Vec<(BlockService, u32)>, Option<u64>);

fn told(sent: &[(ConnectionId, Message)], to: ConnectionId) -> Vec<ReceivedSummary> {
    let summaries = sent.iter().filter(|(connection, _)| *connection == to).filter_map(|(_, message)| match message {
        Message::Hierarchy(HierarchyMessage::Summary(summary)) => {
            Some((summary.block_services.clone().into_iter().collect(), summary.since))
        }
        _ => None,
    });
    summaries.collect()
}

fn track(cell: Cell) -> BlockService {
    BlockService::from_cell(Service::Track.code(), cell)
}

fn says(run: u32, version: u64, blocks: &[(BlockService, u32)], since: Option<u64>) -> Message {
    let block_services = blocks.iter().copied().collect();
    Message::Hierarchy(HierarchyMessage::Summary(Summary { run, version, block_services, since }))
}

fn only_track(number: u8, sequence: u32, cell: Cell) -> Message {
    let services = [Service::Track].into_iter().collect::<ServiceSet>();
    Message::Registration(RegistrationMessage::Publish(Record {
        cell,
        services,
        version: version(sequence),
        ..record(number)
    }))
}

#[test]
fn parent_notified_only_when_emptiness_changes() {
    let (mut bench, parent, _) = middle();
    let connection = bench.up(1, Role::Node);
    bench.say(connection, only_track(1, 1, HERE));
    assert_eq!(told(&bench.wait(Duration::from_secs(1)), parent), [(vec![(track(HERE), 1)], None)]);
    bench.say(connection, only_track(1, 2, NEXT));
    assert!(told(&bench.wait(Duration::from_secs(1)), parent).is_empty(), "it is the same block");
    bench.say(connection, only_track(1, 3, FAR));
    let sent = bench.wait(Duration::from_secs(1));
    assert_eq!(told(&sent, parent), [(vec![(track(HERE), 0), (track(FAR), 1)], None)]);
}

#[test]
fn child_entries_count_for_parent() {
    let (mut bench, parent, child) = middle();
    bench.say(child, says(1, 1, &[(track(HERE), 3)], None));
    assert_eq!(told(&bench.wait(Duration::from_secs(1)), parent), [(vec![(track(HERE), 3)], None)]);
    let (_, own) = (bench.up(1, Role::Node), bench.up(2, Role::Node));
    bench.say(own, only_track(2, 1, HERE));
    bench.say(child, says(1, 2, &[(track(HERE), 0)], None));
    assert!(told(&bench.wait(Duration::from_secs(1)), parent).is_empty(), "there is still one");
}

#[test]
fn refresh_round_heals_lost_summaries() {
    let (mut bench, parent, child) = middle();
    bench.say(child, says(1, 1, &[(track(HERE), 3), (track(FAR), 1)], Some(1)));
    bench.wait(Duration::from_secs(1));
    let sent: Vec<_> = (0..60)
        .flat_map(|_| {
            bench.say(child, ProbeMessage::Ping(0));
            bench.say(parent, ProbeMessage::Ping(0));
            bench.wait(Duration::from_secs(1))
        })
        .collect();
    let told = told(&sent, parent);
    assert!(matches!(&told[..], [(blocks, Some(_))] if blocks.len() == 2), "{told:?}");
    bench.say(child, says(1, 2, &[(track(HERE), 3)], Some(2)));
    assert_eq!(bench.hub.status(bench.now).block_services, 1, "what was not told again is gone");
}

#[test]
fn old_version_ignored_new_run_resets() {
    let (mut bench, _, child) = middle();
    bench.say(child, says(1, 5, &[(track(HERE), 3)], None));
    bench.say(child, says(1, 4, &[(track(HERE), 0)], None));
    assert_eq!(bench.hub.status(bench.now).block_services, 1);
    bench.say(child, says(2, 1, &[(track(FAR), 1)], None));
    assert_eq!(bench.hub.status(bench.now).block_services, 1);
    assert!(bench.hub.summaries.below(track(HERE)).next().is_none());
}

#[test]
fn lost_hub_summary_kept_for_lease() {
    let (mut bench, _, child) = middle();
    bench.say(child, says(1, 5, &[(track(HERE), 3)], None));
    bench.down(child);
    bench.wait(Duration::from_secs(59));
    assert_eq!(bench.hub.status(bench.now).block_services, 1);
    bench.wait(Duration::from_secs(2));
    assert_eq!(bench.hub.status(bench.now).block_services, 0);
}

#[test]
fn summaries_stay_within_rate() {
    let (mut bench, parent, child) = middle();
    let (mut bytes, mut version) = (0, 0);
    for second in 0..600 {
        let blocks: BTreeMap<BlockService, u32> =
            (0..40).map(|n| (track(Cell::new(8 * n, 8 * (second % 100))), u32::from(second % 2 == 0))).collect();
        version += 1;
        bench.say(child, says(1, version, &blocks.into_iter().collect::<Vec<_>>(), None));
        let sent = bench.wait(Duration::from_secs(1));
        bench.say(parent, ProbeMessage::Ping(0));
        let summaries =
            sent.iter().filter(|(_, message)| matches!(message, Message::Hierarchy(HierarchyMessage::Summary(_))));
        bytes += summaries.map(|(_, message)| message.encode().len() + 80).sum::<usize>();
    }
    // The rate for ten minutes, and what may go ahead of it.
    assert!(bytes * 8 < 1_000 * (600 + 60) && bytes * 8 > 300_000, "{bytes}");
}

#[test]
fn negative_result_expires_or_is_replaced() {
    let mut bench = Bench::configured(|config| config.tier = 1);
    let child = bench.child(50);
    let requester = bench.requester(2);
    let ask = |bench: &mut Bench, id| bench.ask(requester, request(id, RequestMode::Forward)).len();
    ask(&mut bench, 1);
    ask(&mut bench, 2);
    assert_eq!(bench.hub.counters().negatives, 1);
    bench.say(child, says(1, 1, &[(track(HERE), 1)], None));
    let sent = bench.ask(requester, request(3, RequestMode::Forward));
    assert!(matches!(&sent[..], [(connection, message)] if *connection == child && is_carry(message)), "{sent:?}");
    assert_eq!(bench.hub.counters().negatives, 1);
}

#[test]
fn same_tier_child_is_refused() {
    let (mut bench, parent, _) = middle();
    // The summary comes before the parent knows that this hub is its child, and means no harm.
    bench.say(parent, says(1, 1, &[(track(HERE), 1)], None));
    assert_eq!((bench.hub.counters().refused_by_role, bench.hub.counters().stray), (0, 1));
    let twin = bench.up(51, Role::SuperNode);
    bench.say(twin, HierarchyMessage::RegisterChild { tier: 1 });
    assert_eq!((bench.hub.status(bench.now).block_services, bench.closed.last().unwrap().0), (0, twin));
    assert_eq!(bench.hub.counters().refused_by_role, 1);
}

#[test]
fn returning_child_counted_once() {
    let (mut bench, parent, child) = middle();
    bench.say(child, says(1, 1, &[(track(HERE), 1)], Some(1)));
    bench.wait(Duration::from_secs(1));
    bench.down(child);
    let child = bench.child(50);
    let known: Vec<_> = bench.hub.summaries.below(track(HERE)).collect();
    assert_eq!(known, [(node(50), 1)], "it is not forgotten until the child has told everything anew");
    bench.say(child, says(1, 2, &[(track(HERE), 1)], Some(2)));
    bench.say(child, says(1, 3, &[(track(HERE), 0)], None));
    let sent = told(&bench.wait(Duration::from_secs(1)), parent);
    assert!(matches!(&sent[..], [(blocks, _)] if *blocks == [(track(HERE), 0)]), "{sent:?}");
    assert_eq!(bench.hub.status(bench.now).announced, 0);
}

#[test]
fn former_child_becomes_sibling_root() {
    let mut bench = Bench::configured(|config| config.tier = 1);
    let child = bench.child(50);
    bench.say(child, says(1, 1, &[(track(HERE), 1)], None));
    assert_eq!(bench.hub.status(bench.now).announced, 1);
    bench.down(child);
    let root = bench.up(50, Role::SuperNode);
    bench.say(root, says(2, 1, &[(track(HERE), 1)], None));
    assert_eq!(bench.hub.status(bench.now).announced, 0);
    assert_eq!(bench.hub.summaries.beside(track(HERE)).count(), 1);
}

#[test]
fn moving_node_does_not_starve_others() {
    let (mut bench, parent, child) = middle();
    let (rogue, quiet) = (bench.up(1, Role::Node), bench.up(2, Role::Node));
    let block = BlockService::from_cell(Service::Sensor.code(), Cell::new(900_000, 900_000));
    let (mut told_after, mut rounds) = (None, 0);
    for step in 0..4_000 {
        let cell = Cell::new(step, 8 * step);
        bench.say(rogue, RegistrationMessage::Publish(Record { cell, version: version(step as u32 + 1), ..record(1) }));
        if step == 2_000 {
            let services = [Service::Sensor].into_iter().collect();
            bench.say(
                quiet,
                RegistrationMessage::Publish(Record { cell: Cell::new(900_000, 900_000), services, ..record(2) }),
            );
        }
        if step % 100 == 0 {
            [parent, child].iter().for_each(|connection| drop(bench.say(*connection, ProbeMessage::Ping(0))));
        }
        for (blocks, since) in told(&bench.wait(Duration::from_millis(50)), parent) {
            rounds += usize::from(since.is_some());
            if blocks.contains(&(block, 1)) {
                told_after.get_or_insert(step - 2_000);
            }
        }
    }
    assert!(told_after.is_some_and(|steps| steps <= 10 * 20), "after {told_after:?} steps of 50 ms");
    assert!(rounds >= 2, "{rounds} rounds ended in 200 s");
}

#[test]
fn cancelled_changes_are_not_sent() {
    let (mut bench, parent, child) = middle();
    bench.say(child, says(1, 1, &[(track(FAR), 1)], None));
    bench.wait(Duration::from_millis(1));
    bench.say(child, says(1, 2, &[(track(HERE), 1)], None));
    bench.say(child, says(1, 3, &[(track(HERE), 0), (track(FAR), 0)], None));
    bench.say(child, says(1, 4, &[(track(FAR), 1)], None));
    assert!(told(&bench.wait(Duration::from_secs(1)), parent).is_empty());
}

#[test]
fn one_wake_serves_one_hub() {
    let mut bench = Bench::configured(|config| config.tier = 1);
    let child = bench.child(50);
    let blocks: Vec<_> = (0..500).map(|n| (track(Cell::new(8 * n, 0)), 1)).collect();
    bench.say(child, says(1, 1, &blocks, None));
    for root in 100..110 {
        bench.up(root, Role::SuperNode);
    }
    let mut wakes = Vec::new();
    while let Some(deadline) = bench.hub.poll_deadline().filter(|due| due.at <= bench.now + Duration::from_secs(1)) {
        bench.now = bench.now.max(deadline.at);
        let sent = bench.input(Input::Timeout);
        wakes.push(
            sent.iter()
                .filter(|(_, message)| matches!(message, Message::Hierarchy(HierarchyMessage::Summary(_))))
                .count(),
        );
    }
    assert!(wakes.iter().sum::<usize>() >= 10 && wakes.iter().all(|sent| *sent <= 1), "{wakes:?}");
}
