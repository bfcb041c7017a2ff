//! Searches at the peers, case by case.

use super::*;
use crate::hub::testing::{Bench, HERE, address, decline, forwarded, node, refused, request, version};
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

#[test]
fn what_is_not_here_is_handed_on_through_the_peer_that_has_it() {
    let mut bench = Bench::new();
    let (peer, asker) = (bench.up(100, Role::SuperNode), bench.requester(2));
    let id = seek_of(&bench.ask(asker, request(1, Mode::Forward)));
    let (link, forward) = forwarded(&bench.say(peer, &answer(id, vec![candidate(9, 1, HERE)])));
    assert_eq!((link, forward.provider, forward.id), (peer, Some(node(9)), RequestId(1)));
    assert_eq!(forward.reply_to, [address(2)]);
    let (link, again) = forwarded(&bench.say(peer, &decline(&forward, Reason::Unreachable)));
    assert!(link == peer && again.reply_to.is_empty() && again.provider == Some(node(9)));
    assert_eq!(refused(&bench.say(peer, &decline(&again, Reason::Busy))), (asker, Reason::Busy));
}

#[test]
fn what_is_here_is_not_sought_at_an_exact_cell_but_is_ranked_with_the_peers_elsewhere() {
    let mut bench = Bench::new();
    let peer = bench.up(100, Role::SuperNode);
    let (_, asker) = (bench.provider(1), bench.requester(2));
    assert!(matches!(bench.ask(asker, request(1, Mode::Locate))[..], [(_, Message::Found(_))]));
    let near = Request { area: Area::Near(Cell::new(0, 0)), ..request(2, Mode::Locate) };
    let id = seek_of(&bench.ask(asker, near));
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
}

#[test]
fn the_same_question_is_asked_once() {
    let mut bench = Bench::new();
    let peer = bench.up(100, Role::SuperNode);
    let (a, b) = (bench.requester(2), bench.requester(3));
    let id = seek_of(&bench.ask(a, request(1, Mode::Locate)));
    assert!(bench.ask(b, request(1, Mode::Locate)).is_empty());
    assert!(bench.ask(b, request(1, Mode::Locate)).is_empty());
    let told: Vec<LinkId> = bench.say(peer, &answer(id, Vec::new())).iter().map(|(link, _)| *link).collect();
    assert_eq!(told, [a, b]);
    assert_eq!((bench.hub.counters().seeks, bench.hub.counters().merged_seeks), (1, 2));
}

#[test]
fn a_peer_that_does_not_answer_leaves_the_answer_partial() {
    let mut bench = Bench::new();
    let (peer, asker) = (bench.up(100, Role::SuperNode), bench.requester(2));
    let id = seek_of(&bench.ask(asker, request(1, Mode::Locate)));
    assert_eq!(seek_of(&bench.wait(Duration::from_millis(100))), id);
    match &bench.wait(Duration::from_millis(100))[..] {
        [(link, Message::Found(found))] => assert_eq!((*link, found.coverage), (asker, Coverage::Partial)),
        other => panic!("{other:?}"),
    }
    bench.ask(asker, request(2, Mode::Forward));
    assert_eq!(refused(&bench.down(peer)), (asker, Reason::Unreachable));
}

#[test]
fn a_peer_gets_what_is_held_here_and_its_requests_go_on_to_the_provider() {
    let mut bench = Bench::new();
    let (peer, provider) = (bench.up(100, Role::SuperNode), bench.provider(1));
    let (service, area) = (Service::Track, Area::At(HERE));
    let seek = Seek { id: RequestId(5), service, area, count: 4 };
    let sent = bench.say(peer, &Message::Seek(seek));
    assert!(matches!(&sent[..], [(_, Message::Found(found))] if found.candidates[0].node == node(1)));
    let from_peer = crate::wire::Forward {
        id: RequestId(8),
        nonce: crate::ids::Nonce::from_u64(3),
        service,
        requester: node(50),
        reply_to: vec![address(50)],
        deadline_ms: 5_000,
        provider: Some(node(1)),
        params: None,
    };
    let (link, forward) = forwarded(&bench.say(peer, &Message::Forward(from_peer.clone())));
    assert_eq!((link, forward.id, forward.provider), (provider, RequestId(8), None));
    assert_eq!((&forward.reply_to, forward.requester), (&from_peer.reply_to, node(50)));
    match bench.say(provider, &decline(&forward, Reason::Unreachable))[..] {
        [(link, Message::Decline(decline))] => {
            assert_eq!((link, decline.requester, decline.reason), (peer, Some(node(50)), Reason::Unreachable));
        }
        ref other => panic!("{other:?}"),
    }
    let unknown = crate::wire::Forward { id: RequestId(9), provider: Some(node(77)), ..from_peer };
    assert_eq!(refused(&bench.say(peer, &Message::Forward(unknown))), (peer, Reason::NotFound));
}

#[test]
fn a_peer_may_try_one_provider_after_the_other() {
    let mut bench = Bench::new();
    let (peer, first, second) = (bench.up(100, Role::SuperNode), bench.provider(1), bench.provider(2));
    let to = |provider| {
        Message::Forward(crate::wire::Forward {
            id: RequestId(8),
            nonce: crate::ids::Nonce::from_u64(3),
            service: Service::Track,
            requester: node(50),
            reply_to: vec![address(50)],
            deadline_ms: 5_000,
            provider: Some(node(provider)),
            params: None,
        })
    };
    let (link, forward) = forwarded(&bench.say(peer, &to(1)));
    assert_eq!(link, first);
    assert_eq!(refused(&bench.say(first, &decline(&forward, Reason::Busy))), (peer, Reason::Busy));
    assert_eq!(forwarded(&bench.say(peer, &to(2))).0, second);
    assert_eq!(forwarded(&bench.say(peer, &to(2))).0, second, "that was a repetition");
}

#[test]
fn a_node_may_have_only_so_many_searches_at_the_peers() {
    let mut bench = Bench::new();
    let (peer, asker, other) = (bench.up(100, Role::SuperNode), bench.requester(2), bench.requester(3));
    let there = |id: u32| Request { area: Area::At(Cell::new(id as i32, 0)), ..request(id, Mode::Locate) };
    for id in 0..256 {
        seek_of(&bench.ask(asker, there(id)));
    }
    assert_eq!(refused(&bench.ask(asker, there(256))), (asker, Reason::TooMany));
    let id = seek_of(&bench.ask(other, there(257)));
    bench.say(peer, &answer(id, Vec::new()));
    bench.wait(Duration::from_secs(1));
    seek_of(&bench.ask(asker, there(258)));
}
