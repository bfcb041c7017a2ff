use super::*;
use crate::placement::Targets;
use crate::plan::Mix;

const A: NodeId = NodeId::from_bytes([1; 16]);
const B: NodeId = NodeId::from_bytes([2; 16]);
const STREAM: RoomStreamKey = (B, Service::Video);

const fn id(number: u64) -> RoomRequestId {
    RoomRequestId { stream: STREAM, number }
}

const fn at(ms: u64) -> Time {
    Time::from_nanos(ms * 1_000_000)
}

fn node(name: &str) -> PlacedNode {
    let (name, class, targets) = (name.to_owned(), String::new(), Targets::from_iter([]));
    PlacedNode { host: 0, name, class, cell: Cell::new(0, 0), mix: Mix::IDLE, targets, hubs: Vec::new() }
}

/// Node a enters at 1 s, and b is to enter at 2 s.
fn entered() -> RoomRecorder {
    let (room, services) = ("ops".to_owned(), vec![Service::Video]);
    let others = vec![(1, at(2_000))];
    let stay = RoomStay { room, node: 0, services, from: at(1_000), until: at(60_000), others };
    RoomRecorder::new(at(1_000), &stay, &[A, B])
}

fn list(recorder: &mut RoomRecorder, ms: u64, x: i32) {
    recorder.set_members(at(ms), std::iter::once((B, Cell::new(x, 0), Service::ALL.to_vec())));
}

fn requested(step: Option<RoomStep>) -> Option<Area> {
    match step {
        Some(RoomStep::Request(id, request)) if id.stream == STREAM => Some(request.area),
        _ => None,
    }
}

fn left(recorder: RoomRecorder, ms: u64) -> RoomStreamRecord {
    let records = recorder.leave(at(ms), &["a", "b"].map(node));
    let [record] = <[RoomStreamRecord; 1]>::try_from(records).unwrap();
    record
}

#[test]
fn gaps_and_losses_are_recorded() {
    let mut recorder = entered();
    assert_eq!((recorder.poll(at(1_500)), recorder.deadline()), (None, None));
    list(&mut recorder, 2_100, 3);
    assert_eq!(requested(recorder.poll(at(2_100))), Some(Area::Exact(Cell::new(3, 0))));
    for (ms, missing) in [(2_300, None), (2_400, Some(2)), (4_000, Some(1))] {
        recorder.count_packet(at(ms), id(1), missing);
    }
    let record = left(recorder, 5_000);
    assert_eq!((record.node.as_str(), record.provider.as_str(), record.t, record.until), ("a", "b", 1.0, 5.0));
    assert_eq!((record.first_packet_ms, record.longest_gap_ms), (Some(300.0), Some(1_600.0)));
    assert_eq!((record.packets, record.missing, record.requests), (3, 2, 1));
}

#[test]
fn silence_until_the_end_is_a_gap() {
    let mut recorder = entered();
    list(&mut recorder, 2_000, 3);
    recorder.poll(at(2_000));
    recorder.count_packet(at(2_500), id(1), None);
    assert_eq!(left(recorder, 9_500).longest_gap_ms, Some(7_000.0));
    let silent = left(entered(), 9_500);
    assert_eq!((silent.packets, silent.first_packet_ms, silent.longest_gap_ms), (0, None, None));
}

#[test]
fn broken_stream_is_requested_again() {
    let mut recorder = entered();
    list(&mut recorder, 2_000, 3);
    recorder.poll(at(2_000));
    recorder.handle_break(at(2_100), id(1));
    assert_eq!((recorder.poll(at(3_000)), recorder.deadline()), (None, Some(at(3_100))));
    // The member has moved.
    list(&mut recorder, 3_050, 4);
    assert_eq!(requested(recorder.poll(at(3_100))), Some(Area::Exact(Cell::new(4, 0))));
    recorder.handle_break(at(3_100), id(2));
    assert_eq!(recorder.deadline(), Some(at(5_100)), "twice the pause");
    recorder.poll(at(5_100));
    recorder.count_packet(at(5_200), id(3), Some(7));
    recorder.handle_break(at(6_000), id(3));
    assert_eq!(recorder.deadline(), Some(at(7_000)), "the first pause, since a packet came");
    recorder.poll(at(7_000));
    recorder.set_missing(id(4), Some(1));
    let record = left(recorder, 8_000);
    assert_eq!((record.requests, record.missing), (4, 8));
}

#[test]
fn stream_ends_with_its_member() {
    let mut recorder = entered();
    list(&mut recorder, 2_000, 3);
    recorder.poll(at(2_000));
    recorder.count_packet(at(2_500), id(1), None);
    recorder.set_members(at(3_000), std::iter::empty());
    assert_eq!(recorder.poll(at(3_000)), Some(RoomStep::Cancel(id(1))));
    assert_eq!((recorder.poll(at(3_000)), recorder.deadline()), (None, None));
    list(&mut recorder, 20_000, 3);
    assert!(requested(recorder.poll(at(20_000))).is_some());
    recorder.count_packet(at(20_500), id(2), None);
    recorder.set_members(at(21_000), std::iter::empty());
    let record = left(recorder, 60_000);
    assert_eq!((record.until, record.longest_gap_ms), (21.0, Some(500.0)));
}

#[test]
fn earlier_request_changes_nothing() {
    let mut recorder = entered();
    list(&mut recorder, 2_000, 3);
    recorder.poll(at(2_000));
    recorder.set_members(at(3_000), std::iter::empty());
    assert_eq!(recorder.poll(at(3_000)), Some(RoomStep::Cancel(id(1))));
    list(&mut recorder, 4_000, 3);
    assert!(requested(recorder.poll(at(4_000))).is_some());
    recorder.set_missing(id(1), Some(9));
    recorder.count_dropped_by_reader(id(1), 9);
    recorder.handle_break(at(4_100), id(1));
    assert_eq!(recorder.deadline(), None, "the second request goes on");
    recorder.count_dropped_by_reader(id(2), 4);
    recorder.handle_break(at(5_000), id(2));
    // A further word of the same break.
    recorder.handle_break(at(5_001), id(2));
    assert_eq!(recorder.deadline(), Some(at(6_000)));
    recorder.poll(at(6_000));
    recorder.handle_break(at(6_100), id(3));
    assert_eq!(recorder.deadline(), Some(at(8_100)), "twice the pause, not four times");
    let record = left(recorder, 8_000);
    assert_eq!((record.requests, record.missing, record.dropped_by_reader), (3, 0, 4));
}

#[test]
fn late_packet_begins_no_gap() {
    let mut recorder = entered();
    list(&mut recorder, 2_000, 3);
    recorder.poll(at(2_000));
    recorder.count_packet(at(2_500), id(1), None);
    recorder.set_members(at(3_000), std::iter::empty());
    // On its way when the member left.
    recorder.count_packet(at(3_001), id(1), None);
    recorder.poll(at(3_001));
    recorder.count_packet(at(3_002), id(1), None);
    list(&mut recorder, 20_000, 3);
    recorder.poll(at(20_000));
    recorder.count_packet(at(20_100), id(2), None);
    let record = left(recorder, 20_200);
    assert_eq!((record.packets, record.longest_gap_ms), (4, Some(500.0)));
}

#[test]
fn member_of_later_has_no_record() {
    assert_eq!(entered().leave(at(2_000), &["a", "b"].map(node)), []);
}
