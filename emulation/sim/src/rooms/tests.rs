//! Plans with rooms.

use std::path::Path;
use std::time::Duration;

use roost_results::Results;
use roost_results::record::RoomStreamRecord;
use roost_wire::messages::Reason;

use super::*;
use crate::{Detail, simulate, simulate_with_results};

const PLAN: &str = include_str!("../../../plans/room.toml");
const STREAMS: usize = 6 * 5;
/// The time of the fault in the plan.
const FAULT_S: f64 = 30.0;

/// The results of the plan with other faults and rooms, of which no invariant may be violated.
fn results(faults: &str, room: &str) -> Results {
    let (head, _) = PLAN.split_once("[rooms.ops]").unwrap();
    let prepared = Prepared::from_text(&format!("{head}[rooms.ops]\n{room}\n{faults}"), Path::new("p.toml")).unwrap();
    let (outcome, results) = simulate_with_results(&prepared, Detail::Packet).unwrap();
    assert_eq!(outcome.violations, []);
    results
}

fn of_plan() -> Results {
    let prepared = Prepared::from_text(PLAN, Path::new("room.toml")).unwrap();
    simulate_with_results(&prepared, Detail::Packet).unwrap().1
}

fn fault(what: &str) -> String {
    format!("[[faults]]\nat = '30s'\n{what}\n")
}

fn longest_gap(streams: &[RoomStreamRecord]) -> f64 {
    streams.iter().filter_map(|stream| stream.longest_gap_ms).fold(0.0, f64::max)
}

/// Asserts that every stream came soon, and without a loss or a gap.
fn assert_all_see_all(streams: &[RoomStreamRecord]) {
    for stream in streams {
        assert!(stream.first_packet_ms.is_some_and(|first| first < 1_000.0), "{stream:?}");
        assert!(stream.missing == 0 && stream.requests == 1, "{stream:?}");
    }
    assert!(longest_gap(streams) < 500.0);
}

#[test]
fn room_members_see_one_another() {
    let streams = results("", "members = 'all'").room_streams;
    assert_eq!(streams.len(), STREAMS);
    assert_all_see_all(&streams);
}

#[test]
fn room_sends_one_copy_per_member() {
    let results = results("", "members = 'all'");
    for span in results.nodes.values().filter(|span| span.first.role == "node") {
        let bits_per_second = (span.last.sent_bytes - span.first.sent_bytes) * 8 / 60;
        // A single copy, and reports of five.
        assert!((700_000..900_000).contains(&bits_per_second), "{bits_per_second} bit/s");
    }
}

#[test]
fn room_outlives_a_hub() {
    let streams = of_plan().room_streams;
    assert_eq!(streams.len(), STREAMS);
    let gap = longest_gap(&streams);
    // Silence up to the end of the stay would be a gap of 30 s.
    assert!((500.0..15_000.0).contains(&gap), "{gap} ms");
    assert!(streams.iter().all(|stream| stream.until == 60.0));
}

#[test]
fn dead_member_leaves_the_room() {
    let streams = results(&fault("kill = 'node6'"), "members = 'all'\nuntil = '59s'").room_streams;
    assert_eq!(streams.len(), STREAMS);
    let (dead, alive): (Vec<_>, Vec<_>) = streams.into_iter().partition(|stream| stream.provider == "node6");
    assert!(dead.iter().all(|stream| stream.packets > 0 && stream.until > FAULT_S && stream.until < 59.0), "{dead:?}");
    let (of_dead, alive): (Vec<_>, Vec<_>) = alive.into_iter().partition(|stream| stream.node == "node6");
    assert!(of_dead.iter().all(|stream| stream.until == FAULT_S), "{of_dead:?}");
    assert_all_see_all(&alive);
}

#[test]
fn restarted_member_enters_again() {
    let faults = fault("kill = 'node6'") + "[[faults]]\nat = '32s'\nstart = 'node6'\n";
    let streams = results(&faults, "members = ['node1', 'node6']").room_streams;
    let entries: Vec<(&str, f64, bool)> =
        streams.iter().map(|stream| (stream.node.as_str(), stream.t, stream.packets > 0)).collect();
    assert_eq!(entries, [("node6", 0.0, true), ("node1", 0.0, true), ("node6", 32.0, true)]);
    assert_all_see_all(&[&streams[..1], &streams[2..]].concat());
    assert!(streams[1].longest_gap_ms.is_some_and(|gap| gap < 15_000.0), "{:?}", streams[1]);
}

#[test]
fn members_come_and_go_as_planned() {
    let room = "members = ['node1', 'node2', 'node4']\nservices = ['video', 'track']\nfrom = '5s'\nevery = '10s'\n\
                until = '50s'";
    let streams = results("", room).room_streams;
    assert_eq!(streams.len(), 3 * 2 * 2);
    assert_all_see_all(&streams);
    for stream in &streams {
        let entry =
            |node: &str| [("node1", 5.0), ("node2", 15.0), ("node4", 25.0)].iter().find(|one| one.0 == node).unwrap().1;
        assert_eq!((stream.t, stream.until), (entry(&stream.node), 50.0));
        let seconds = 50.0 - entry(&stream.node).max(entry(&stream.provider));
        // 700 kbit/s in packets of 1128 bytes, and 40 kbit/s in packets of 250 bytes.
        let packets = seconds * if stream.service == "video" { 77.6 } else { 20.0 };
        assert!(stream.packets as f64 <= packets * 1.05 + 5.0, "{stream:?}");
    }
}

#[test]
fn room_and_requests_are_independent() {
    let with_requests = PLAN.replace("mix = \"idle\"", "mix = \"star\"");
    let outcome =
        |text: &str| simulate(&Prepared::from_text(text, Path::new("p.toml")).unwrap(), Detail::Packet).unwrap();
    let (first, again) = (outcome(&with_requests), outcome(&with_requests));
    assert_eq!((first.trace_hash, &first.rooms), (again.trace_hash, &again.rooms));
    assert!(first.violations.is_empty() && first.requested > 50 && first.completed > first.requested * 9 / 10);
    assert!(first.rooms.len() == 6 && first.rooms.iter().all(|stay| stay.came == 5));
}

#[test]
fn lost_room_is_entered_again() {
    let prepared = Prepared::from_text(PLAN, Path::new("room.toml")).unwrap();
    let mut world = SimWorld::new(&prepared, Detail::Packet).unwrap();
    let mut rooms = SimRooms::new(&prepared, &world);
    let machine = rooms.members[0].machine;
    let until = world.now + Duration::from_secs(60);
    while !world.runs(machine) {
        assert!(world.step(until));
    }
    let enter = |rooms: &mut SimRooms, world: &mut SimWorld<'_>, seconds| {
        rooms.poll_stay(Time::ZERO + Duration::from_secs(seconds), world, 0);
        rooms.purposes.keys().map(|(_, ticket)| *ticket).collect::<Vec<_>>()
    };
    let lose = |rooms: &mut SimRooms, world: &mut SimWorld<'_>, seconds, ticket| {
        let (reason, detail) = (Reason::NotAllowed, "it is full".to_owned());
        let event = NodeEvent::failed(ticket, reason, detail);
        let progress = rooms.handle_event(Time::ZERO + Duration::from_secs(seconds), world, machine, &event).unwrap();
        (progress.deadline.unwrap().1, progress.incident)
    };
    let tickets = enter(&mut rooms, &mut world, 1);
    assert_eq!(tickets.len(), 1);
    let node = rooms.members[0].stays.planned().node;
    let incident = Some((node, "is not in the room ops: it is full".to_owned()));
    let at = |seconds| Time::ZERO + Duration::from_secs(seconds);
    assert_eq!(lose(&mut rooms, &mut world, 2, tickets[0]), (at(3), incident));
    let again = enter(&mut rooms, &mut world, 3);
    assert!(again.len() == 1 && again != tickets);
    assert_eq!(lose(&mut rooms, &mut world, 4, again[0]), (at(5), None), "the outage goes on");
    assert_eq!(enter(&mut rooms, &mut world, 60), [], "the stay is over");
}

#[test]
fn node_that_leaves_enters_after_restart() {
    let faults = fault("stop = 'node6'") + "[[faults]]\nat = '35s'\nstart = 'node6'\n";
    let results = results(&faults, "members = ['node1', 'node6']");
    let entries: Vec<(&str, f64)> =
        results.room_streams.iter().map(|stream| (stream.node.as_str(), stream.t)).collect();
    assert_eq!(entries, [("node6", 0.0), ("node1", 0.0), ("node6", 35.0)]);
    let told = results.incidents.iter().filter(|incident| incident.what.starts_with("is not in the room ops: "));
    assert_eq!(told.map(|incident| incident.object.as_str()).collect::<Vec<_>>(), ["node6"]);
}
