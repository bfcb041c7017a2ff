use roost_wire::room::MAX_MEMBERS;
use roost_wire::room::RoomMember;

use super::table::MAX_ROOMS;
use super::table::MAX_ROOMS_EACH;
use super::table::PACE;
use super::table::PACE_EACH;
use super::*;
use crate::hub::testing::*;

const ROOM: RoomId = RoomId(7);

fn member(number: u8) -> RoomMember {
    RoomMember { node: node(number), cell: HERE, services: ServiceSet::ALL }
}

fn join(number: u8, way: Option<RouteDirection>) -> Message {
    Message::Room(RoomMessage::JoinRoom(JoinRoom { room: ROOM, member: member(number), direction: way }))
}

fn rosters(sent: &[(ConnectionId, Message)]) -> Vec<(ConnectionId, Vec<NodeId>)> {
    let roster = |(connection, message): &(ConnectionId, Message)| match message {
        Message::Room(RoomMessage::Roster(roster)) => {
            Some((*connection, roster.members.iter().map(|member| member.node).collect()))
        }
        _ => None,
    };
    sent.iter().filter_map(roster).collect()
}

#[test]
fn who_is_not_heard_is_out() {
    let mut bench = Bench::new();
    let (a, b) = (bench.up(1, Role::Node), bench.up(2, Role::Node));
    bench.say(a, join(1, None));
    bench.say(a, join(1, None));
    bench.wait(LEASE / 2);
    bench.say(b, join(2, None));
    assert_eq!(rosters(&bench.wait(LEASE / 2)), [(b, vec![node(2)])]);
    bench.wait(LEASE);
    assert!(bench.hub.rooms.rooms.is_empty() && bench.hub.rooms.next_due().is_none());
}

#[test]
fn rooms_and_members_are_bounded() {
    let mut bench = Bench::new();
    let sibling = bench.up(100, Role::SuperNode);
    for number in 0..=u8::MAX {
        bench.say(sibling, join(number, Some(RouteDirection::Across)));
    }
    assert_eq!(bench.hub.rooms.rooms[&ROOM].members.len(), MAX_MEMBERS);
    for room in 0..2 * MAX_ROOMS as u64 {
        let member = member((room % 200) as u8);
        bench.say(
            sibling,
            RoomMessage::JoinRoom(JoinRoom { room: RoomId(room), member, direction: Some(RouteDirection::Across) }),
        );
    }
    assert_eq!(bench.hub.rooms.rooms.len(), MAX_ROOMS);
}

fn quit(number: u8, way: Option<RouteDirection>) -> Message {
    Message::Room(RoomMessage::LeaveRoom(LeaveRoom { room: ROOM, node: node(number), direction: way }))
}

#[test]
fn refusal_reaches_the_refused_node() {
    let mut bench = Bench::new();
    let (sibling, a, b) = (bench.up(100, Role::SuperNode), bench.up(1, Role::Node), bench.up(2, Role::Node));
    bench.say(a, join(1, None));
    bench.say(b, join(2, None));
    let (owner, members) = (node(100), Vec::new());
    let no = Roster { room: ROOM, owner, members, to: Some(node(1)), refused: Some(Reason::TooMany) };
    assert_eq!(bench.say(sibling, RoomMessage::Roster(no.clone())), [(a, Message::Room(RoomMessage::Roster(no)))]);
    // The node then says that it has left, and whoever has noted it forgets it.
    assert!(bench.say(a, quit(1, None)).contains(&(sibling, quit(1, Some(RouteDirection::Across)))));
}

#[test]
fn only_notified_hubs_refuse_member() {
    let mut bench = Bench::new();
    let (a, roots) = (bench.up(1, Role::Node), [100, 101, 102].map(|number| bench.up(number, Role::SuperNode)));
    let sent = bench.say(a, join(1, None));
    for (number, root) in (100..).zip(roots) {
        let (owner, members, to) = (node(number), Vec::new(), Some(node(1)));
        let no = RoomMessage::Roster(Roster { room: ROOM, owner, members, to, refused: Some(Reason::TooMany) });
        let was_told = sent.contains(&(root, join(1, Some(RouteDirection::Across))));
        assert_eq!(!bench.say(root, no).is_empty(), was_told, "{number}");
    }
    // Nor does anybody list who is in that has nothing to do with rooms here.
    bench.hub.core.remotes.relate(node(100), Relation::StandbyOnly);
    let list = Roster { room: ROOM, owner: node(100), members: vec![member(9)], to: None, refused: None };
    assert!(bench.say(roots[0], RoomMessage::Roster(list)).is_empty());
}

#[test]
fn quit_reaches_all_notified_parents() {
    let (mut bench, [first, second]) = Bench::below(0, [100, 101]);
    let a = bench.up(1, Role::Node);
    assert_eq!(bench.say(a, join(1, None)), [(first, join(1, Some(RouteDirection::Up)))]);
    // The next word goes to the other one.
    bench.hub.core.remotes.mark_unresponsive(node(100));
    assert_eq!(bench.say(a, join(1, None)), [(second, join(1, Some(RouteDirection::Up)))]);
    let mut sent = bench.say(a, quit(1, None));
    sent.sort_by_key(|(connection, _)| *connection);
    assert_eq!(sent, [first, second].map(|parent| (parent, quit(1, Some(RouteDirection::Up)))));
}

#[test]
fn new_parent_gets_join_before_quit() {
    let (mut bench, [first, second]) = Bench::below(0, [100, 101]);
    let a = bench.up(1, Role::Node);
    bench.say(a, join(1, None));
    bench.down(first);
    let up = Some(RouteDirection::Up);
    assert_eq!(bench.say(a, quit(1, None)), [(second, join(1, up)), (second, quit(1, up))]);
}

#[test]
fn rooms_per_node_are_limited() {
    let mut bench = Bench::new();
    let (a, b) = (bench.up(1, Role::Node), bench.up(2, Role::Node));
    let mut words = 0;
    for room in 0..10 * MAX_ROOMS as u64 {
        words += bench
            .say(a, RoomMessage::JoinRoom(JoinRoom { room: RoomId(room), member: member(1), direction: None }))
            .len();
        bench.wait(Duration::from_millis(1));
    }
    assert_eq!(bench.hub.rooms.of[&node(1)].len(), MAX_ROOMS_EACH);
    assert!(words <= 2 * MAX_ROOMS_EACH, "{words} answers");
    for room in 0..crate::node::MAX_ROOMS as u64 {
        let sent =
            bench.say(b, RoomMessage::JoinRoom(JoinRoom { room: RoomId(room), member: member(2), direction: None }));
        assert!(sent.iter().any(|(connection, _)| *connection == b), "room {room}: {sent:?}");
    }
}

#[test]
fn simultaneous_joins_share_one_roster() {
    let mut bench = Bench::new();
    let connections: Vec<ConnectionId> = (0..64).map(|number| bench.up(number, Role::Node)).collect();
    let mut told = 0;
    for (connection, number) in connections.iter().zip(0..) {
        told += rosters(&bench.say(*connection, join(number, None))).len();
    }
    assert_eq!(told, 64, "each is answered, and others wait");
    let last = rosters(&bench.wait(PACE));
    assert_eq!(last.iter().map(|(connection, _)| *connection).collect::<Vec<_>>(), connections);
    assert!(last.iter().all(|(_, members)| members.len() == 64));
    assert!(rosters(&bench.wait(PACE * 5)).is_empty());
}

/// Lists are as long as there are members, and so are the pauses between them.
#[test]
fn endless_changes_are_rate_limited() {
    let mut bench = Bench::new();
    let sibling = bench.up(100, Role::SuperNode);
    for number in 0..63 {
        bench.say(sibling, join(number, Some(RouteDirection::Across)));
    }
    let restless = bench.up(150, Role::Node);
    let to_all = |sent: Vec<(ConnectionId, Message)>| -> Vec<Roster> {
        let roster = |(connection, message)| match message {
            Message::Room(RoomMessage::Roster(roster)) if connection == restless && roster.to.is_none() => Some(roster),
            _ => None,
        };
        sent.into_iter().filter_map(roster).collect()
    };
    let mut lists = Vec::new();
    for step in 0..100 {
        let cell = Cell::new(step % 2, 0);
        let word =
            RoomMessage::JoinRoom(JoinRoom { room: ROOM, member: RoomMember { cell, ..member(150) }, direction: None });
        lists.extend(to_all([bench.say(restless, word.clone()), bench.wait(PACE)].concat()));
    }
    assert!((9..=12).contains(&lists.len()), "{} lists in ten seconds", lists.len());
    // The last change is told in the end.
    lists.extend(to_all(bench.wait(PACE_EACH * 64)));
    let told = lists.last().and_then(|list| list.members.iter().find(|member| member.node == node(150)));
    assert_eq!(told.map(|member| member.cell), Some(Cell::new(1, 0)));
}

#[test]
fn unregistered_hub_is_no_child() {
    let mut bench = Bench::configured(|config| config.tier = 1);
    let hub = bench.up(100, Role::SuperNode);
    for word in [
        join(1, None),
        join(1, Some(RouteDirection::Up)),
        join(1, Some(RouteDirection::Down)),
        join(1, Some(RouteDirection::Overflow)),
    ] {
        assert!(bench.say(hub, word.clone()).is_empty(), "{word:?}");
        assert!(bench.hub.rooms.rooms.is_empty(), "{word:?}");
    }
    bench.say(hub, join(1, Some(RouteDirection::Across)));
    bench.say(hub, quit(1, Some(RouteDirection::Up)));
    assert_eq!(bench.hub.rooms.list(ROOM), [member(1)]);
    let child = bench.child(101);
    bench.say(child, join(2, Some(RouteDirection::Across)));
    assert_eq!(bench.hub.rooms.list(ROOM), [member(1)], "one below speaks to the owners through this hub only");
    bench.say(child, join(2, None));
    assert_eq!(bench.hub.rooms.list(ROOM), [member(1), member(2)]);
    let list =
        RoomMessage::Roster(Roster { room: ROOM, owner: node(101), members: Vec::new(), to: None, refused: None });
    assert!(bench.say(child, list).is_empty(), "lists come from above");
}

#[test]
fn late_join_does_not_revive_member() {
    let mut bench = Bench::new();
    let (a, b) = (bench.up(1, Role::Node), bench.up(2, Role::Node));
    bench.say(a, join(1, None));
    bench.say(b, join(2, None));
    bench.say(b, quit(2, None));
    assert!(bench.say(b, join(2, None)).is_empty());
    assert_eq!(bench.hub.rooms.list(ROOM), [member(1)]);
    bench.wait(SETTLE);
    bench.say(b, join(2, None));
    assert_eq!(bench.hub.rooms.list(ROOM), [member(1), member(2)]);
}

#[test]
fn disconnected_member_leaves_after_grace() {
    let mut bench = Bench::new();
    let (sibling, a, b) = (bench.up(100, Role::SuperNode), bench.up(1, Role::Node), bench.up(2, Role::Node));
    bench.say(a, join(1, None));
    bench.say(b, join(2, None));
    bench.wait(PACE);
    bench.down(a);
    bench.down(b);
    assert_eq!(bench.hub.rooms.list(ROOM).len(), 2);
    let again = bench.up(1, Role::Node);
    bench.say(again, join(1, None));
    let sent = bench.wait(GRACE);
    assert!(sent.contains(&(sibling, quit(2, Some(RouteDirection::Across)))), "{sent:?}");
    assert!(rosters(&sent).contains(&(again, vec![node(1)])), "{sent:?}");
    // A member that is at home elsewhere by then stays.
    bench.down(again);
    bench.say(sibling, join(1, Some(RouteDirection::Across)));
    bench.wait(GRACE * 2);
    assert_eq!(bench.hub.rooms.list(ROOM), [member(1)]);
}
