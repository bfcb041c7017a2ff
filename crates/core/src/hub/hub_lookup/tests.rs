//! Searches at other hubs, case by case.

use roost_wire::block::BlockService;

use super::*;
use crate::hub::testing::*;

fn candidate(number: u8, sequence: u32, cell: Cell) -> Candidate {
    let capacity = Capacity { streams: 2, uplink_kbps: 1_000 };
    let (services, addresses) = (ServiceSet::ALL, vec![address(number)]);
    Candidate {
        node: node(number),
        version: version(sequence),
        cell,
        services,
        capacity,
        addresses,
        name: None,
        position: None,
    }
}

fn answer(id: RequestId, candidates: Vec<Candidate>) -> Message {
    Message::Directory(DirectoryMessage::LookupResult(LookupResult {
        id,
        candidates,
        coverage: Coverage::Complete,
        has_omissions: None,
        has_losses: None,
    }))
}

fn seek_of(sent: &[(ConnectionId, Message)]) -> RequestId {
    match sent {
        [(_, Message::Directory(DirectoryMessage::HubLookup(seek))), ..] => seek.id,
        other => panic!("{other:?}"),
    }
}

fn near(id: u32, mode: RequestMode) -> Request {
    request(id, mode).with(|spec| spec.area = Area::Nearest(Cell::new(0, 0)))
}

#[test]
fn provider_found_by_sibling_is_requested() {
    let mut bench = Bench::new();
    let (sibling, requester) = (bench.up(100, Role::SuperNode), bench.requester(2));
    let id = seek_of(&bench.ask(requester, near(1, RequestMode::Forward)));
    match &bench.say(sibling, answer(id, vec![candidate(9, 1, HERE)]))[..] {
        [(connection, Message::Request(RequestMessage::Request(carry)))] if carry.hop().is_some() => {
            assert_eq!((*connection, carry.hop().unwrap().provider, carry.id), (sibling, Some(node(9)), RequestId(1)));
            assert_eq!((carry.hop().unwrap().cell, carry.reply_to()), (HERE, &[address(2)][..]));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn local_and_remote_hits_ranked_together() {
    let mut bench = Bench::new();
    let sibling = bench.up(100, Role::SuperNode);
    let (_, requester) = (bench.provider(1), bench.requester(2));
    looked_up(&bench.ask(requester, request(1, RequestMode::Lookup)));
    let id = seek_of(&bench.ask(requester, near(2, RequestMode::Lookup)));
    let there = vec![candidate(9, 1, Cell::new(1, 1)), candidate(1, 7, Cell::new(300, 300))];
    let (connection, found) = looked_up(&bench.say(sibling, answer(id, there)));
    let nodes: Vec<NodeId> = found.candidates.iter().map(|candidate| candidate.node).collect();
    assert_eq!((connection, nodes), (requester, vec![node(9), node(1)]));
    assert_eq!(found.candidates[1].version, version(7), "the newer record of the two counts");
    assert_eq!(found.coverage, Coverage::Complete);
    let one = near(3, RequestMode::Lookup).with(|spec| spec.count = 1);
    match &bench.ask(requester, one)[..] {
        [(_, Message::Directory(DirectoryMessage::HubLookup(seek)))] => {
            assert_eq!(seek.area, Area::Radius { center: Cell::new(0, 0), radius: 96 })
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_same_question_is_asked_once() {
    let mut bench = Bench::new();
    let sibling = bench.up(100, Role::SuperNode);
    let (a, b) = (bench.requester(2), bench.requester(3));
    let id = seek_of(&bench.ask(a, near(1, RequestMode::Lookup)));
    assert!(bench.ask(b, near(1, RequestMode::Lookup)).is_empty());
    assert!(bench.ask(b, near(1, RequestMode::Lookup)).is_empty());
    let told: Vec<ConnectionId> =
        bench.say(sibling, answer(id, Vec::new())).iter().map(|(connection, _)| *connection).collect();
    assert_eq!(told, [a, b]);
    assert_eq!((bench.hub.counters().hub_lookups_sent, bench.hub.counters().hub_lookups_merged), (1, 2));
}

#[test]
fn silent_sibling_leaves_partial_answer() {
    let mut bench = Bench::new();
    let (sibling, requester) = (bench.up(100, Role::SuperNode), bench.requester(2));
    bench.wait(Duration::from_secs(1));
    let id = seek_of(&bench.ask(requester, near(1, RequestMode::Lookup)));
    for _ in 0..2 {
        assert_eq!(seek_of(&bench.wait(Duration::from_millis(90))), id);
    }
    let (connection, found) = looked_up(&bench.wait(Duration::from_millis(90)));
    assert_eq!((connection, found.coverage), (requester, Coverage::Partial));
    bench.ask(requester, near(2, RequestMode::Forward));
    assert_eq!(refused(&bench.down(sibling)), (requester, Reason::Unreachable));
}

#[test]
fn searching_hub_gets_more_time() {
    let mut bench = Bench::new();
    let (sibling, requester) = (bench.up(100, Role::SuperNode), bench.requester(2));
    bench.wait(Duration::from_secs(1));
    let id = seek_of(&bench.ask(requester, near(1, RequestMode::Lookup)));
    bench.say(sibling, RequestMessage::RequestAck { id, requester: None, provider: None });
    assert!(bench.wait(Duration::from_millis(900)).is_empty());
    assert_eq!(seek_of(&bench.wait(Duration::from_millis(150))), id, "in case its answer was lost");
    let (connection, found) = looked_up(&bench.say(sibling, answer(id, vec![candidate(9, 1, HERE)])));
    assert_eq!((connection, found.candidates.len(), found.coverage), (requester, 1, Coverage::Complete));
}

/// A hub of tier 0 below 101 and 102, with a requester.
fn child() -> (Bench, [ConnectionId; 2], ConnectionId) {
    let (mut bench, parents) = Bench::below(0, [101, 102]);
    let requester = bench.requester(2);
    bench.wait(Duration::from_secs(1));
    (bench, parents, requester)
}

#[test]
fn second_parent_asked_before_unreachable_above() {
    let (mut bench, [first, second], requester) = child();
    let asked = |sent: &[(ConnectionId, Message)]| match sent {
        [(connection, Message::Directory(DirectoryMessage::HubLookup(seek)))] => (*connection, seek.direction),
        other => panic!("{other:?}"),
    };
    assert_eq!(asked(&bench.ask(requester, near(1, RequestMode::Lookup))), (first, Some(RouteDirection::Up)));
    for _ in 0..3 {
        assert_eq!(asked(&bench.wait(Duration::from_millis(90))), (second, Some(RouteDirection::Up)));
    }
    let (connection, found) = looked_up(&bench.wait(Duration::from_millis(90)));
    assert_eq!((connection, found.coverage), (requester, Coverage::UnreachableAbove));
    bench.down(first);
    bench.down(second);
    let (_, found) = looked_up(&bench.ask(requester, near(2, RequestMode::Lookup)));
    assert_eq!(found.coverage, Coverage::UnreachableAbove);
}

#[test]
fn hub_lookup_answered_from_own_directory() {
    let mut bench = Bench::new();
    let (sibling, _) = (bench.up(100, Role::SuperNode), bench.provider(1));
    let (service, area) = (Service::Track, Area::Exact(HERE));
    let seek = HubLookup {
        id: RequestId(5),
        service,
        area,
        count: 4,
        direction: None,
        timeout_ms: None,
        selector: None,
        filter: Metadata::EMPTY,
        search: None,
    };
    let (_, found) = looked_up(&bench.say(sibling, DirectoryMessage::HubLookup(seek)));
    assert_eq!(found.candidates[0].node, node(1));
}

#[test]
fn lookups_per_node_are_limited() {
    let mut bench = Bench::configured(|config| config.limits.requests_per_node = 8);
    let (sibling, requester, other) = (bench.up(100, Role::SuperNode), bench.requester(2), bench.requester(3));
    for id in 0..8 {
        seek_of(&bench.ask(requester, there(id)));
    }
    assert_eq!(refused(&bench.ask(requester, there(8))), (requester, Reason::TooMany));
    let id = seek_of(&bench.ask(other, there(9)));
    bench.say(sibling, answer(id, Vec::new()));
    bench.wait(Duration::from_secs(1));
    seek_of(&bench.ask(requester, there(10)));
}

fn there(id: u32) -> Request {
    request(id, RequestMode::Lookup).with(|spec| spec.area = Area::Nearest(Cell::new(id as i32, 0)))
}

#[test]
fn hub_lookups_are_rate_limited() {
    let mut bench = Bench::new();
    let (sibling, requester) = (bench.up(100, Role::SuperNode), bench.requester(2));
    let ask = |bench: &mut Bench, id| match &bench.ask(requester, there(id))[..] {
        [(_, Message::Directory(DirectoryMessage::HubLookup(seek)))] => {
            bench.say(sibling, answer(seek.id, Vec::new()));
            1
        }
        sent => {
            assert_eq!(refused(sent), (requester, Reason::TooMany));
            0
        }
    };
    let searches: u32 = (0..1_000).map(|id| ask(&mut bench, id)).sum();
    assert!(searches > 10 && searches < 100, "{searches}");
    bench.wait(Duration::from_secs(1));
    assert_eq!(ask(&mut bench, 1_000), 1);
}

/// Asks, and lets the sibling say that it searches as often as it is asked.
fn searching(
    bench: &mut Bench,
    sibling: ConnectionId,
    requester: ConnectionId,
    request: Request,
    span: Duration,
) -> RequestId {
    let id = seek_of(&bench.ask(requester, request));
    let until = bench.now + span;
    bench.say(sibling, RequestMessage::RequestAck { id, requester: None, provider: None });
    while bench.now < until {
        for (to, message) in bench.wait(Duration::from_millis(50)) {
            match message {
                Message::Directory(DirectoryMessage::HubLookup(_)) => {
                    drop(bench.say(sibling, RequestMessage::RequestAck { id, requester: None, provider: None }))
                }
                Message::Directory(DirectoryMessage::LookupResult(_)) => {
                    panic!("{to:?} was answered after {:?}", span - until.since(bench.now))
                }
                _ => {}
            }
        }
    }
    id
}

#[test]
fn lookup_lasts_until_requester_deadline() {
    let mut bench = Bench::new();
    let (sibling, requester) = (bench.up(100, Role::SuperNode), bench.requester(2));
    let patient = Request { deadline_ms: 20_000, ..near(1, RequestMode::Lookup) };
    let id = searching(&mut bench, sibling, requester, patient, Duration::from_secs(15));
    let (connection, found) = looked_up(&bench.say(sibling, answer(id, vec![candidate(9, 1, HERE)])));
    assert_eq!((connection, found.coverage), (requester, Coverage::Complete));
    let request = Request { deadline_ms: 20_000, ..near(2, RequestMode::Forward) };
    let id = searching(&mut bench, sibling, requester, request, Duration::from_secs(10));
    let sent = bench.say(sibling, answer(id, vec![candidate(9, 1, HERE)]));
    assert!(matches!(&sent[..], [(_, message)] if is_carry(message)), "{sent:?}");
}

#[test]
fn dead_hub_leaves_lookup_partial() {
    let mut bench = Bench::new();
    let (sibling, requester) = (bench.up(100, Role::SuperNode), bench.requester(2));
    bench.wait(Duration::from_secs(1));
    let id = seek_of(&bench.ask(requester, Request { deadline_ms: 20_000, ..near(1, RequestMode::Lookup) }));
    bench.say(sibling, RequestMessage::RequestAck { id, requester: None, provider: None });
    let sent = bench.wait(Duration::from_secs(2));
    assert_eq!(looked_up(&sent[sent.len() - 1..]).1.coverage, Coverage::Partial);
}

#[test]
fn patient_requester_gets_own_lookup() {
    let mut bench = Bench::new();
    let (_, hasty, patient) = (bench.up(100, Role::SuperNode), bench.requester(2), bench.requester(3));
    let first = seek_of(&bench.ask(hasty, Request { deadline_ms: 100, ..near(1, RequestMode::Lookup) }));
    let second = seek_of(&bench.ask(patient, Request { deadline_ms: 5_000, ..near(1, RequestMode::Lookup) }));
    assert_ne!(first, second);
}

/// A search of another hub's.
fn seek(id: u32, area: Area, way: RouteDirection) -> Message {
    let (id, service, way) = (RequestId(id), Service::Track, Some(way));
    let seek = HubLookup {
        id,
        service,
        area,
        count: 4,
        direction: way,
        timeout_ms: None,
        selector: None,
        filter: Metadata::EMPTY,
        search: None,
    };
    DirectoryMessage::HubLookup(seek).into()
}

fn has(cell: Cell) -> Message {
    let blocks = [(BlockService::from_cell(Service::Track.code(), cell), 1)].into();
    Message::Hierarchy(HierarchyMessage::Summary(Summary { run: 1, version: 1, block_services: blocks, since: None }))
}

/// To whom a search goes on, and with which number.
fn asked(sent: &[(ConnectionId, Message)]) -> Vec<(ConnectionId, RequestId)> {
    let seeks = sent.iter().filter_map(|(connection, message)| match message {
        Message::Directory(DirectoryMessage::HubLookup(seek)) => Some((*connection, seek.id)),
        _ => None,
    });
    seeks.collect()
}

#[test]
fn leaving_hub_serves_sibling_lookups() {
    let mut bench = Bench::new();
    let (one, other) = (bench.up(100, Role::SuperNode), bench.up(101, Role::SuperNode));
    bench.provider(1);
    bench.say(other, has(Cell::new(500, 500)));
    bench.command(HubCommand::Leave);
    let sent = bench.say(one, seek(5, Area::Exact(Cell::new(500, 500)), RouteDirection::Across));
    let [(to, id)] = asked(&sent)[..] else { panic!("{sent:?}") };
    assert_eq!(to, other);
    let (connection, found) = looked_up(&bench.say(other, answer(id, vec![candidate(9, 1, Cell::new(500, 500))])));
    assert_eq!((connection, found.candidates.len()), (one, 1));
}

#[test]
fn leaving_hub_still_asks_parent() {
    let (mut bench, [parent]) = Bench::below(1, [101]);
    let child = bench.child(50);
    bench.provider(1);
    bench.command(HubCommand::Leave);
    let sent = bench.say(child, seek(5, Area::Exact(Cell::new(500, 500)), RouteDirection::Up));
    assert!(matches!(asked(&sent)[..], [(to, _)] if to == parent), "{sent:?}");
    bench.down(parent);
    bench.wait(Duration::from_secs(3));
    assert!(bench.dialled.is_empty(), "who leaves does not dial");
}

#[test]
fn same_child_lookups_share_one_search() {
    let mut bench = Bench::configured(|config| config.tier = 1);
    let root = bench.up(100, Role::SuperNode);
    let children = [50, 51, 52].map(|number| bench.child(number));
    let area = Area::Nearest(Cell::new(0, 0));
    let first = asked(&bench.say(children[0], seek(1, area, RouteDirection::Up)));
    assert!(matches!(first[..], [(to, _)] if to == root), "{first:?}");
    assert_eq!(asked(&bench.say(children[1], seek(1, area, RouteDirection::Up))), []);
    let sent = bench.say(root, answer(first[0].1, vec![candidate(9, 1, HERE)]));
    let told: Vec<ConnectionId> = sent.iter().map(|(connection, _)| *connection).collect();
    assert_eq!(told, children[..2]);
    // A hub that has something itself asks the others only, who ask it.
    bench.say(children[2], has(HERE));
    assert_eq!(asked(&bench.say(children[2], seek(2, area, RouteDirection::Up))).len(), 1);
    let sent = asked(&bench.say(children[0], seek(2, area, RouteDirection::Up)));
    assert_eq!(sent.iter().map(|(to, _)| *to).collect::<Vec<_>>(), [children[2], root]);
}

/// A hub of tier 1 below 101 and 102, with two children that have tracks around HERE.
fn middle() -> (Bench, [ConnectionId; 2], [ConnectionId; 2]) {
    let (mut bench, parents) = Bench::below(1, [101, 102]);
    let children = [50, 51].map(|child| {
        let connection = bench.child(child);
        bench.say(connection, has(HERE));
        connection
    });
    bench.wait(Duration::from_secs(1));
    (bench, parents, children)
}

#[test]
fn recent_result_answers_second_parent() {
    let (mut bench, [first, second], [has_it, has_not]) = middle();
    let down = |id: u32| seek(id, Area::Exact(HERE), RouteDirection::Down);
    let below = asked(&bench.say(first, down(5)));
    assert_eq!(below.iter().map(|(connection, _)| *connection).collect::<Vec<_>>(), [has_it, has_not]);
    let found = |sent: &[(ConnectionId, Message)]| {
        let (connection, found) = looked_up(&sent[sent.len() - 1..]);
        (connection, found.id, found.candidates.len(), found.coverage)
    };
    let sent = bench.say(has_it, answer(below[0].1, vec![candidate(9, 1, HERE)]));
    assert_eq!(found(&sent), (first, RequestId(5), 1, Coverage::FirstMatch));
    let sent = bench.say(second, down(6));
    assert_eq!(found(&sent), (second, RequestId(6), 1, Coverage::FirstMatch));
    assert!(asked(&sent).is_empty(), "{sent:?}");
    let stray = bench.hub.counters().stray;
    assert!(bench.say(has_not, answer(below[1].1, Vec::new())).is_empty());
    assert_eq!(bench.hub.counters().stray, stray, "it was awaited");
    // A node that was found a while ago may have moved.
    bench.wait(Duration::from_millis(300));
    assert_eq!(asked(&bench.say(second, down(7))).len(), 2);
}

/// A hub's question for a search of this number.
fn part(number: u64, way: RouteDirection) -> DirectoryMessage {
    DirectoryMessage::HubLookup(HubLookup {
        id: RequestId(5),
        service: Service::Track,
        area: Area::Radius { center: HERE, radius: 3 },
        count: 4,
        direction: Some(way),
        timeout_ms: None,
        selector: None,
        filter: Metadata::EMPTY,
        search: Some(number),
    })
}

/// The search of which the question to a hub is a part.
fn search_to(sent: &[(ConnectionId, Message)], hub: ConnectionId) -> Option<(RequestId, u64)> {
    sent.iter().find_map(|(to, message)| match message {
        Message::Directory(DirectoryMessage::HubLookup(seek)) if *to == hub => Some((seek.id, seek.search?)),
        _ => None,
    })
}

#[test]
fn one_hub_gets_the_answer() {
    use RouteDirection::{Across, Down};
    let mut bench = Bench::new();
    let roots = [100, 101, 102].map(|number| bench.up(number, Role::SuperNode));
    bench.provider(1);
    let ask = |bench: &mut Bench, from: usize, number, way| {
        let (to, found) = looked_up(&bench.say(roots[from], part(number, way)));
        assert_eq!((to, found.coverage), (roots[from], Coverage::Complete));
        (found.candidates.len(), found.has_omissions)
    };
    assert_eq!(ask(&mut bench, 0, 7, Down), (1, None));
    assert_eq!(ask(&mut bench, 1, 7, Down), (0, Some(true)), "the first has it");
    assert_eq!(ask(&mut bench, 0, 7, Down), (1, None), "its answer may have been lost");
    assert_eq!(ask(&mut bench, 1, 8, Down), (1, None), "another search");
    assert_eq!(ask(&mut bench, 2, 7, Across), (1, None), "it leads further");
    assert_eq!(ask(&mut bench, 1, 7, Down), (0, Some(true)));
    assert_eq!(bench.hub.counters().hub_lookups_omitted, 2);
    bench.down(roots[2]);
    assert_eq!(ask(&mut bench, 1, 7, Down), (1, None), "the one that had it is gone");
}

#[test]
fn descending_searches_are_not_joined() {
    let (mut bench, [first, second], children) = middle();
    let below = |sent: &[(ConnectionId, Message)]| asked(sent).into_iter().map(|(to, _)| to).collect::<Vec<_>>();
    assert_eq!(below(&bench.say(first, part(1, RouteDirection::Down))), children);
    // A child may have told another hub for the first search, and not for this one.
    assert_eq!(below(&bench.say(second, part(2, RouteDirection::Down))), children);
    let (to, found) = looked_up(&bench.say(second, part(1, RouteDirection::Down)));
    assert_eq!((to, found.has_omissions), (second, Some(true)));
}

/// An answer without what another hub gets.
fn omission(id: RequestId) -> DirectoryMessage {
    let (candidates, coverage) = (Vec::new(), Coverage::Complete);
    DirectoryMessage::LookupResult(LookupResult {
        id,
        candidates,
        coverage,
        has_omissions: Some(true),
        has_losses: None,
    })
}

/// A child that falls silent may have been the hub that gets what another child left out.
#[test]
fn second_round_brings_omissions() {
    let (mut bench, [parent, _], [one, other]) = middle();
    let sent = bench.say(parent, part(1, RouteDirection::Down));
    let (id, search) = search_to(&sent, one).unwrap();
    assert_eq!(search, 1);
    assert!(bench.say(one, omission(id)).is_empty(), "the other one is waited for");
    let (again, search) = search_to(&bench.down(other), one).unwrap();
    assert!(search != 1 && again != id, "nobody else has this search, and late answers are known");
    assert!(bench.say(one, omission(id)).is_empty());
    let (to, found) = looked_up(&bench.say(one, answer(again, vec![candidate(9, 1, HERE)])));
    assert_eq!((to, found.candidates.len(), found.coverage), (parent, 1, Coverage::Partial));
    assert_eq!((found.has_omissions, found.has_losses), (None, Some(true)));
}

/// A parent that has left something out is asked for it as before: above and beside it, too.
#[test]
fn second_round_keeps_directions() {
    let (mut bench, [parent, _], [one, other]) = middle();
    let sent = bench.say(one, part(1, RouteDirection::Up));
    assert!(bench.say(parent, omission(search_to(&sent, parent).unwrap().0)).is_empty());
    let again = bench.down(other).into_iter().find_map(|(to, message)| match message {
        Message::Directory(DirectoryMessage::HubLookup(seek)) if to == parent => seek.direction,
        _ => None,
    });
    assert_eq!(again, Some(RouteDirection::Up));
}

/// Nobody has told anything to a child that was gone before.
#[test]
fn known_gap_needs_no_second_round() {
    let (mut bench, [parent, _], [one, other]) = middle();
    bench.down(other);
    let sent = bench.say(parent, part(1, RouteDirection::Down));
    let (to, found) = looked_up(&bench.say(one, omission(search_to(&sent, one).unwrap().0)));
    assert_eq!((to, found.coverage, found.has_omissions), (parent, Coverage::Partial, Some(true)));
    assert_eq!(found.has_losses, None);
}

#[test]
fn reminder_bears_the_first_number() {
    let (mut bench, [first, second], [asking, child]) = middle();
    let sent = bench.say(asking, part(1, RouteDirection::Up));
    let (id, _) = search_to(&sent, child).unwrap();
    bench.say(child, RequestMessage::RequestAck { id, requester: None, provider: None });
    assert!(search_to(&sent, first).is_some());
    let sent = bench.wait(REMINDER + Duration::from_millis(200));
    assert_ne!(search_to(&sent, second).unwrap().1, 1, "the first parent is silent");
    assert_eq!(search_to(&sent, child), Some((id, 1)));
}

#[test]
fn search_without_number_gets_one() {
    let (mut bench, [parent, _], children) = middle();
    let area = Area::Radius { center: HERE, radius: 3 };
    let numbers = [5, 6].map(|id| {
        let sent = bench.say(parent, seek(id, area, RouteDirection::Down));
        let (asked, number) = search_to(&sent, children[0]).unwrap();
        for child in children {
            bench.say(child, answer(asked, Vec::new()));
        }
        number
    });
    assert_ne!(numbers[0], numbers[1]);
}

/// A parent has no way up, and another one has.
#[test]
fn second_parent_bypasses_cut() {
    let (mut bench, [first, second], requester) = child();
    let id = seek_of(&bench.ask(requester, near(1, RequestMode::Lookup)));
    let below = LookupResult {
        id,
        candidates: vec![candidate(8, 1, HERE)],
        coverage: Coverage::UnreachableAbove,
        has_omissions: None,
        has_losses: None,
    };
    let sent = bench.say(first, DirectoryMessage::LookupResult(below));
    assert_eq!(asked(&sent), [(second, id)]);
    let (to, found) = looked_up(&bench.say(second, answer(id, vec![candidate(9, 1, HERE)])));
    assert_eq!((to, found.candidates.len(), found.coverage), (requester, 2, Coverage::Complete));
}

/// A hub's own search does not bring back to it what it has.
#[test]
fn own_search_comes_back_empty() {
    let mut bench = Bench::new();
    let (sibling, requester) = (bench.up(100, Role::SuperNode), bench.requester(2));
    bench.provider(1);
    let (_, search) = search_to(&bench.ask(requester, near(1, RequestMode::Lookup)), sibling).unwrap();
    let (_, found) = looked_up(&bench.say(sibling, part(search, RouteDirection::Down)));
    assert_eq!((found.candidates.len(), found.has_omissions), (0, Some(true)));
}

fn by_name(id: u32, called: &str) -> Request {
    near(id, RequestMode::Lookup).with(|spec| spec.provider = Some(called.parse().unwrap()))
}

fn names(found: &LookupResult) -> Vec<Option<&str>> {
    found.candidates.iter().map(|candidate| candidate.name.as_deref()).collect()
}

#[test]
fn names_are_told_where_wanted_only() {
    let mut bench = Bench::new();
    let (_, _, requester) = (bench.provider(1), bench.provider(3), bench.requester(2));
    for (request, wanted) in [
        (near(1, RequestMode::Lookup), vec![None, None]),
        (by_name(2, ""), vec![Some("n1"), Some("n3")]),
        (by_name(3, "n3"), vec![Some("n3")]),
        (by_name(4, &node(1).to_string()), vec![Some("n1")]),
        (by_name(5, "03"), vec![Some("n3")]),
        (by_name(6, "n"), vec![]),
    ] {
        let (_, found) = looked_up(&bench.ask(requester, request.clone()));
        assert_eq!(names(&found), wanted, "{request:?}");
    }
}

#[test]
fn other_hubs_are_asked_for_names() {
    let mut bench = Bench::new();
    let (sibling, requester) = (bench.up(100, Role::SuperNode), bench.requester(2));
    let id = seek_of(&bench.ask(requester, near(1, RequestMode::Lookup)));
    let sent = bench.ask(requester, by_name(2, "n9"));
    let [(_, Message::Directory(DirectoryMessage::HubLookup(seek)))] = &sent[..] else { panic!("{sent:?}") };
    assert_ne!(seek.id, id, "a search without names is another one");
    assert_eq!(seek.selector, Some("n9".parse().unwrap()));
    let called = |number, name: &str| Candidate { name: Some(name.to_owned()), ..candidate(number, 1, HERE) };
    // Whoever does not know of names lists everybody.
    let (_, found) =
        looked_up(&bench.say(sibling, answer(seek.id, vec![called(9, "n9"), called(8, "n8"), candidate(7, 1, HERE)])));
    assert_eq!(names(&found), [Some("n9")]);
}

#[test]
fn lookups_by_name_are_limited() {
    let mut bench = Bench::configured(|config| config.limits.lookups_per_second = 100);
    let requester = bench.requester(2);
    let answers: Vec<bool> = (1..2_000)
        .map(|id| matches!(bench.ask(requester, by_name(id, "n9"))[..], [(_, Message::Directory(_))]))
        .collect();
    assert!(answers[0]);
    assert!(!answers[answers.len() - 1], "each reads through all names");
}
