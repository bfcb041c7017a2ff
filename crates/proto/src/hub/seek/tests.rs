//! Searches at other hubs, case by case.

use super::*;
use crate::hub::testing::{Bench, HERE, address, node, refused, request, version};
use crate::hub::{Config, Kind};
use crate::record::Capacity;
use crate::service::{Role, ServiceSet};
use crate::wire::{Mode, Reason, Request};

fn candidate(number: u8, sequence: u32, cell: Cell) -> Candidate {
    let capacity = Capacity { streams: 2, uplink_kbps: 1_000 };
    let (services, addresses) = (ServiceSet::ALL, vec![address(number)]);
    Candidate { node: node(number), version: version(sequence), cell, services, capacity, addresses }
}

fn answer(id: RequestId, candidates: Vec<Candidate>) -> Message {
    Message::Found(Found { id, candidates, coverage: Coverage::Whole })
}

fn seek_of(sent: &[(LinkId, Message)]) -> RequestId {
    match sent {
        [(_, Message::Seek(seek)), ..] => seek.id,
        other => panic!("{other:?}"),
    }
}

fn near(id: u32, mode: Mode) -> Request {
    Request { area: Area::Near(Cell::new(0, 0)), ..request(id, mode) }
}

#[test]
fn what_a_peer_names_is_asked_for_there_by_name() {
    let mut bench = Bench::new();
    let (peer, asker) = (bench.up(100, Role::SuperNode), bench.requester(2));
    let id = seek_of(&bench.ask(asker, near(1, Mode::Forward)));
    match &bench.say(peer, &answer(id, vec![candidate(9, 1, HERE)]))[..] {
        [(link, Message::Carry(carry))] => {
            assert_eq!((*link, carry.provider, carry.id), (peer, Some(node(9)), RequestId(1)));
            assert_eq!((carry.cell, &carry.reply_to[..]), (HERE, &[address(2)][..]));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_here_is_ranked_with_what_the_peers_have_as_far_as_that_could_be_nearer() {
    let mut bench = Bench::new();
    let peer = bench.up(100, Role::SuperNode);
    let (_, asker) = (bench.provider(1), bench.requester(2));
    assert!(matches!(bench.ask(asker, request(1, Mode::Locate))[..], [(_, Message::Found(_))]));
    let id = seek_of(&bench.ask(asker, near(2, Mode::Locate)));
    let there = vec![candidate(9, 1, Cell::new(1, 1)), candidate(1, 7, Cell::new(300, 300))];
    match &bench.say(peer, &answer(id, there))[..] {
        [(link, Message::Found(found))] => {
            let nodes: Vec<NodeId> = found.candidates.iter().map(|candidate| candidate.node).collect();
            assert_eq!((*link, nodes), (asker, vec![node(9), node(1)]));
            assert_eq!(found.candidates[1].version, version(7), "the newer record of the two counts");
            assert_eq!(found.coverage, Coverage::Whole);
        }
        other => panic!("{other:?}"),
    }
    let one = Request { count: 1, ..near(3, Mode::Locate) };
    match &bench.ask(asker, one)[..] {
        [(_, Message::Seek(seek))] => assert_eq!(seek.area, Area::Within { centre: Cell::new(0, 0), radius: 96 }),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_same_question_is_asked_once() {
    let mut bench = Bench::new();
    let peer = bench.up(100, Role::SuperNode);
    let (a, b) = (bench.requester(2), bench.requester(3));
    let id = seek_of(&bench.ask(a, near(1, Mode::Locate)));
    assert!(bench.ask(b, near(1, Mode::Locate)).is_empty());
    assert!(bench.ask(b, near(1, Mode::Locate)).is_empty());
    let told: Vec<LinkId> = bench.say(peer, &answer(id, Vec::new())).iter().map(|(link, _)| *link).collect();
    assert_eq!(told, [a, b]);
    assert_eq!((bench.hub.counters().seeks, bench.hub.counters().merged_seeks), (1, 2));
}

#[test]
fn a_peer_that_does_not_answer_is_asked_thrice_and_leaves_the_answer_partial() {
    let mut bench = Bench::new();
    let (peer, asker) = (bench.up(100, Role::SuperNode), bench.requester(2));
    bench.wait(Duration::from_secs(1));
    let id = seek_of(&bench.ask(asker, near(1, Mode::Locate)));
    for _ in 0..2 {
        assert_eq!(seek_of(&bench.wait(Duration::from_millis(90))), id);
    }
    match &bench.wait(Duration::from_millis(90))[..] {
        [(link, Message::Found(found))] => assert_eq!((*link, found.coverage), (asker, Coverage::Partial)),
        other => panic!("{other:?}"),
    }
    bench.ask(asker, near(2, Mode::Forward));
    assert_eq!(refused(&bench.down(peer)), (asker, Reason::Unreachable));
}

#[test]
fn a_hub_that_is_searching_itself_is_given_the_time() {
    let mut bench = Bench::new();
    let (peer, asker) = (bench.up(100, Role::SuperNode), bench.requester(2));
    bench.wait(Duration::from_secs(1));
    let id = seek_of(&bench.ask(asker, near(1, Mode::Locate)));
    bench.say(peer, &Message::Underway { id, requester: None });
    assert!(bench.wait(Duration::from_millis(1_900)).is_empty());
    assert_eq!(seek_of(&bench.wait(Duration::from_millis(200))), id, "half-way, in case its answer was lost");
    match &bench.say(peer, &answer(id, vec![candidate(9, 1, HERE)]))[..] {
        [(link, Message::Found(found))] => {
            assert_eq!((*link, found.candidates.len(), found.coverage), (asker, 1, Coverage::Whole));
        }
        other => panic!("{other:?}"),
    }
}

/// A hub of tier 0 below 101 and 102, with a requester.
fn child() -> (Bench, [LinkId; 2], LinkId) {
    let mut config = Config::new(node(200), Kind::SuperNode, 1);
    config.parents = vec![vec![address(101)], vec![address(102)]];
    let mut bench = Bench::with(config);
    let dialled = std::mem::take(&mut bench.dialled);
    let first = bench.up_over(101, Role::SuperNode, address(101), Some(dialled[0].0));
    let second = bench.up_over(102, Role::SuperNode, address(102), Some(dialled[1].0));
    let asker = bench.requester(2);
    bench.wait(Duration::from_secs(1));
    (bench, [first, second], asker)
}

#[test]
fn the_second_parent_is_asked_when_the_first_is_silent_and_then_above_is_out_of_reach() {
    let (mut bench, [first, second], asker) = child();
    let asked = |sent: &[(LinkId, Message)]| match sent {
        [(link, Message::Seek(seek))] => (*link, seek.way),
        other => panic!("{other:?}"),
    };
    assert_eq!(asked(&bench.ask(asker, near(1, Mode::Locate))), (first, Some(Way::Up)));
    for _ in 0..3 {
        assert_eq!(asked(&bench.wait(Duration::from_millis(90))), (second, Some(Way::Up)));
    }
    match &bench.wait(Duration::from_millis(90))[..] {
        [(link, Message::Found(found))] => assert_eq!((*link, found.coverage), (asker, Coverage::UnreachableAbove)),
        other => panic!("{other:?}"),
    }
    bench.down(first);
    bench.down(second);
    match &bench.ask(asker, near(2, Mode::Locate))[..] {
        [(_, Message::Found(found))] => assert_eq!(found.coverage, Coverage::UnreachableAbove),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_hub_gets_what_is_held_here() {
    let mut bench = Bench::new();
    let (peer, _) = (bench.up(100, Role::SuperNode), bench.provider(1));
    let (service, area) = (Service::Track, Area::At(HERE));
    let seek = Seek { id: RequestId(5), service, area, count: 4, way: None, patience_ms: None };
    let sent = bench.say(peer, &Message::Seek(seek));
    assert!(matches!(&sent[..], [(_, Message::Found(found))] if found.candidates[0].node == node(1)));
}

#[test]
fn a_node_may_have_only_so_many_searches() {
    let mut bench = Bench::new();
    let (peer, asker, other) = (bench.up(100, Role::SuperNode), bench.requester(2), bench.requester(3));
    let there = |id: u32| Request { area: Area::Near(Cell::new(id as i32, 0)), ..request(id, Mode::Locate) };
    for id in 0..256 {
        seek_of(&bench.ask(asker, there(id)));
    }
    assert_eq!(refused(&bench.ask(asker, there(256))), (asker, Reason::TooMany));
    let id = seek_of(&bench.ask(other, there(257)));
    bench.say(peer, &answer(id, Vec::new()));
    bench.wait(Duration::from_secs(1));
    seek_of(&bench.ask(asker, there(258)));
}
