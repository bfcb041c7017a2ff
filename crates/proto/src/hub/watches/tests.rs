//! What watchers hear, and when.

use super::*;
use crate::hub::testing::{Bench, HERE, node, record, refused, version};
use crate::record::Record;
use crate::service::Role;

fn watching(id: u32, seen: u64) -> Message {
    let (services, area) = (ServiceSet::ALL, Area::At(HERE));
    Message::Watch(Watch { id: RequestId(id), services, area, seen, way: None })
}

fn changes(sent: &[(LinkId, Message)], to: LinkId) -> Vec<(u64, Vec<NodeId>, Vec<NodeId>)> {
    sent.iter()
        .filter(|(link, _)| *link == to)
        .filter_map(|(_, message)| match message {
            Message::Change(change) => {
                let present = change.present.iter().map(|candidate| candidate.node).collect();
                Some((change.number, present, change.gone.clone()))
            }
            _ => None,
        })
        .collect()
}

#[test]
fn a_watcher_hears_what_is_there_then_what_comes_and_goes() {
    let mut bench = Bench::new();
    let (first, watcher) = (bench.provider(1), bench.requester(2));
    let sent = bench.say(watcher, &watching(5, 0));
    assert_eq!(changes(&sent, watcher), [(1, vec![node(1)], vec![])]);
    let second = bench.up(3, Role::Node);
    let sent = bench.say(second, &Message::Publish(record(3)));
    assert_eq!(changes(&sent, watcher), [(2, vec![node(3)], vec![])]);
    let moved = Record { version: version(2), cell: Cell::new(0, 0), ..record(3) };
    let sent = bench.say(second, &Message::Publish(moved));
    assert_eq!(changes(&sent, watcher), [(3, vec![], vec![node(3)])]);
    let sent = bench.say(first, &Message::Withdraw(version(1)));
    assert_eq!(changes(&sent, watcher), [(4, vec![], vec![node(1)])]);
    assert!(bench.say(watcher, &watching(5, 4)).is_empty());
    bench.say(watcher, &Message::Unwatch(RequestId(5)));
    assert_eq!(bench.hub.status(bench.now).watches, 0);
}

#[test]
fn a_watch_reaches_the_peers_and_their_changes_the_watcher() {
    let mut bench = Bench::new();
    let peer = bench.up(100, Role::SuperNode);
    let watcher = bench.requester(2);
    let sent = bench.say(watcher, &watching(5, 0));
    let carried = sent.iter().find_map(|(link, message)| match message {
        Message::Watch(watch) if *link == peer => Some(watch.id),
        _ => None,
    });
    let id = carried.unwrap();
    let candidate = |sequence| Candidate {
        node: node(9),
        version: version(sequence),
        cell: HERE,
        services: ServiceSet::ALL,
        capacity: record(9).capacity,
        addresses: Vec::new(),
    };
    let change = |number, present, gone| Message::Change(Change { id, number, present, gone });
    let sent = bench.say(peer, &change(1, vec![candidate(3)], vec![]));
    assert_eq!(changes(&sent, watcher), [(2, vec![node(9)], vec![])]);
    let sent = bench.say(peer, &change(2, vec![candidate(2)], vec![node(1)]));
    assert!(sent.is_empty(), "an older record and a stranger's end are no news");
    let sent = bench.down(peer);
    assert_eq!(changes(&sent, watcher), [(3, vec![], vec![node(9)])]);
    bench.up(100, Role::SuperNode);
    bench.down(watcher);
    assert_eq!(bench.hub.status(bench.now).watches, 0);
}

#[test]
fn a_neighbour_has_a_limited_number_of_watches() {
    let mut bench = Bench::new();
    let watcher = bench.requester(2);
    for id in 0..16 {
        bench.say(watcher, &watching(id, 0));
    }
    assert_eq!(refused(&bench.say(watcher, &watching(16, 0))), (watcher, Reason::TooMany));
}

#[test]
fn a_late_copy_of_a_watch_does_not_turn_its_count_back() {
    let mut bench = Bench::new();
    let watcher = bench.requester(2);
    bench.say(watcher, &watching(5, 0));
    for number in [3, 4] {
        let link = bench.up(number, Role::Node);
        bench.say(link, &Message::Publish(record(number)));
    }
    let sent = bench.say(watcher, &watching(5, 0));
    assert_eq!(changes(&sent, watcher), [(4, vec![node(3), node(4)], vec![])]);
}

#[test]
fn what_a_renewal_does_not_know_yet_is_on_its_way_unless_it_is_so_for_long() {
    let mut bench = Bench::new();
    let watcher = bench.requester(2);
    bench.say(watcher, &watching(5, 0));
    let link = bench.up(3, Role::Node);
    bench.say(link, &Message::Publish(record(3)));
    assert!(bench.say(watcher, &watching(5, 1)).is_empty(), "the second change has just left");
    let sent = bench.say(watcher, &watching(5, 1));
    assert_eq!(changes(&sent, watcher), [(3, vec![node(3)], vec![])], "it was lost");
}

#[test]
fn a_node_troubles_the_watchers_only_so_often() {
    let mut bench = Bench::new();
    let (mover, watcher) = (bench.provider(1), bench.requester(2));
    bench.say(watcher, &watching(5, 0));
    let mut told = 0;
    for sequence in 2..1_000 {
        let moved = Record { version: version(sequence), ..record(1) };
        told += bench.say(mover, &Message::Publish(moved)).iter().filter(|(link, _)| *link == watcher).count();
    }
    assert!(told > 10 && told < 100, "{told}");
    bench.wait(std::time::Duration::from_secs(1));
    let moved = Record { version: version(1_000), ..record(1) };
    assert_eq!(bench.say(mover, &Message::Publish(moved)).len(), 2, "a change and a lease");
    let snapshots: usize = (0..1_000).map(|_| bench.say(watcher, &watching(5, 0)).len()).sum();
    assert!(snapshots > 10 && snapshots < 100, "{snapshots}");
}
