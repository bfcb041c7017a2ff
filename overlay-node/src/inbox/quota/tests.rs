use super::*;

const MB: u64 = 1 << 20;

fn node(number: u8) -> NodeId {
    NodeId::from_bytes([number; 16])
}

fn at(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
}

/// Leaves a part of an object that broke off.
fn leave(room: &mut InboxQuota, from: u8, object: &str, bytes: u64, seconds: u64) {
    assert!(room.enter(node(from), object));
    room.claim(node(from), object, bytes, bytes).unwrap();
    room.release(node(from), object, Some(bytes), at(seconds));
}

#[test]
fn unsent_offers_reserve_no_space() {
    let mut room = InboxQuota::new(100 * MB);
    for number in 0..16 {
        assert!(room.has_place(node(1), &number.to_string(), 100 * MB));
        assert!(room.enter(node(1), &number.to_string()));
    }
    assert!(room.has_place(node(2), "honest", 100 * MB));
    assert_eq!(room.claim(node(2), "honest", 100 * MB, 1), Some(Vec::new()));
}

#[test]
fn claim_is_bounded_by_received_bytes() {
    let mut room = InboxQuota::new(100 * MB);
    assert!(room.enter(node(1), "slow"));
    room.claim(node(1), "slow", 90 * MB, 1).unwrap();
    assert!(room.has_place(node(2), "honest", 80 * MB), "a byte does not hold 90 MB");
    room.claim(node(1), "slow", 90 * MB, 40 * MB).unwrap();
    assert!(!room.has_place(node(2), "honest", 11 * MB));
    room.release(node(1), "slow", None, at(1));
    assert!(room.has_place(node(2), "honest", 100 * MB));
}

#[test]
fn nothing_grows_beyond_the_limit() {
    let mut room = InboxQuota::new(10 * MB);
    room.store(node(1), "file".to_owned(), 4 * MB);
    for (object, length) in [("a", 5 * MB), ("b", 6 * MB)] {
        assert!(room.enter(node(1), object));
        assert_eq!(room.claim(node(1), object, length, MB), Some(Vec::new()), "{object}");
    }
    assert_eq!(room.claim(node(1), "b", 6 * MB, MB + 1), None);
    room.release(node(1), "a", None, at(1));
    assert_eq!(room.claim(node(1), "b", 6 * MB, 6 * MB), Some(Vec::new()));
}

#[test]
fn parts_give_way_the_oldest_first() {
    let mut room = InboxQuota::new(10 * MB);
    leave(&mut room, 1, "old", 4 * MB, 1);
    leave(&mut room, 2, "new", 4 * MB, 2);
    assert!(room.has_place(node(3), "honest", 10 * MB), "a part blocks nothing for good");
    assert!(room.enter(node(3), "honest"));
    assert_eq!(room.claim(node(3), "honest", 6 * MB, MB), Some(vec!["old".to_owned()]));
    assert_eq!(room.claim(node(3), "honest", 10 * MB, 7 * MB), Some(vec!["new".to_owned()]));
}

#[test]
fn who_leaves_many_parts_loses_them() {
    let mut room = InboxQuota::new(1000 * MB);
    leave(&mut room, 2, "other", MB, 0);
    for number in 0..MAX_PARTS_FROM_ONE {
        leave(&mut room, 1, &number.to_string(), MB, 1 + number as u64);
    }
    assert!(room.enter(node(1), "more"));
    assert_eq!(room.claim(node(1), "more", MB, MB), Some(vec!["0".to_owned()]));
}

#[test]
fn files_are_limited_per_sender() {
    let mut room = InboxQuota::new(u64::MAX);
    for number in 0..MAX_FILES_FROM_ONE {
        assert!(room.has_place(node(1), "object", 1), "{number}");
        room.store(node(1), number.to_string(), 1);
    }
    assert!(!room.has_place(node(1), "object", 1));
    assert!(room.has_place(node(2), "object", 1));
    for number in MAX_FILES_FROM_ONE..MAX_FILES {
        room.store(node(3), number.to_string(), 1);
    }
    assert!(!room.has_place(node(2), "object", 1));
    let file = Listed { name: "0".to_owned(), bytes: BLOCK, modified: at(1), part: None };
    room.begin_reading();
    assert!(room.read(vec![file], at(2)).is_empty());
    assert!(room.has_place(node(1), "object", 1), "whoever takes files out makes room");
}

#[test]
fn file_stored_during_scan_counts_once() {
    let mut room = InboxQuota::new(10 * MB);
    room.begin_reading();
    room.store(node(1), "seen".to_owned(), MB);
    room.store(node(1), "missed".to_owned(), MB);
    leave(&mut room, 2, "part", 8 * MB, 1);
    let seen = Listed { name: "seen".to_owned(), bytes: MB, modified: at(1), part: None };
    let object = Some(("part".to_owned(), node(2)));
    let part = Listed { name: ".part".to_owned(), bytes: 8 * MB, modified: at(1), part: object };
    room.read(vec![seen, part], at(2));
    assert!(room.has_place(node(3), "next", 8 * MB) && !room.has_place(node(3), "next", 8 * MB + 1));
    assert!(room.enter(node(3), "next"));
    assert_eq!(room.claim(node(3), "next", 1, 1), Some(vec!["part".to_owned()]), "a block too many");
}

#[test]
fn same_object_cannot_transfer_twice() {
    let mut room = InboxQuota::new(10 * MB);
    leave(&mut room, 1, "object", MB, 1);
    assert!(room.enter(node(1), "object"));
    assert!(!room.enter(node(1), "object"));
    room.release(node(1), "object", Some(MB), at(2));
    assert!(room.enter(node(1), "object"));
}
