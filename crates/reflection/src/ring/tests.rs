use super::*;
use proptest::prelude::*;

const HERE: ([u8; 4], u16) = ([127, 0, 0, 1], 1);

fn mark(counter: Option<u64>, flags: Flags) -> Mark {
    Mark { from: Some(HERE.into()), hops: 1, first_byte: None, counter, flags }
}

fn at(ms: u64) -> Time {
    Time::ZERO + Duration::from_millis(ms)
}

fn shapes(ring: &Ring) -> Vec<(usize, u32)> {
    ring.runs.iter().map(|run| (run.segment, run.packets)).collect()
}

#[test]
fn run_packets_share_one_size() {
    let mut ring = Ring::new(RetentionLimits::default());
    for size in [10, 10, 4, 4, 4, 10, 11] {
        ring.push(Time::ZERO, &vec![1; size], mark(None, Flags::default()));
    }
    ring.close(Time::ZERO);
    assert_eq!(shapes(&ring), [(10, 3), (4, 2), (10, 1), (11, 1)]);
}

#[test]
fn runs_respect_offload_limits() {
    let mut ring = Ring::new(RetentionLimits::default());
    (0..100).for_each(|_| ring.push(Time::ZERO, &[1; 200], mark(None, Flags::default())));
    (0..50).for_each(|_| ring.push(Time::ZERO, &[1; 1440], mark(None, Flags::default())));
    ring.close(Time::ZERO);
    assert_eq!(shapes(&ring), [(200, 64), (200, 36), (1440, 45), (1440, 5)]);
}

#[test]
fn key_frame_or_gap_begins_run() {
    let mut ring = Ring::new(RetentionLimits::default());
    for (counter, flags) in [(5, Flags::default()), (6, Flags::KEY_FRAME), (7, Flags::default()), (9, Flags::default())]
    {
        ring.push(Time::ZERO, &[1; 100], mark(Some(counter), flags));
    }
    ring.close(Time::ZERO);
    assert_eq!(shapes(&ring), [(100, 1), (100, 2), (100, 1)]);
    assert_eq!(ring.key(), Some(1));
    let found = [4, 5, 6, 7, 8, 9, 10].map(|counter| ring.packet(counter).is_some());
    assert_eq!(found, [false, true, true, true, false, true, false]);
}

#[test]
fn packets_before_key_frame_expire() {
    let mut ring = Ring::new(RetentionLimits::default());
    for (ms, flags) in
        [(0, Flags::KEY_FRAME), (40, Flags::default()), (1000, Flags::KEY_FRAME), (1040, Flags::default())]
    {
        ring.push(at(ms), &[1; 100], mark(Some(ms), flags));
        ring.close(at(ms));
    }
    assert_eq!((ring.tail(), ring.key(), ring.head()), (2, Some(2), 4));
    assert!(ring.packet(40).is_none());
}

#[test]
fn bytes_before_key_frame_are_bounded() {
    let mut ring = Ring::new(RetentionLimits { aged_bytes: 1000, ..RetentionLimits::default() });
    let mut push = |counter, flags| {
        ring.push(Time::ZERO, &[1; 100], mark(Some(counter), flags));
        ring.close(Time::ZERO);
        (ring.head() - ring.tail(), ring.key())
    };
    let kept: Vec<u64> = (0..20).map(|counter| push(counter, Flags::default()).0).collect();
    assert_eq!(kept[8..], [9, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10]);
    push(20, Flags::KEY_FRAME);
    let last = (21..50).map(|counter| push(counter, Flags::default())).last();
    assert_eq!(last, Some((30, Some(20))), "what begins with a key frame is");
}

#[test]
fn oversized_gop_serves_no_joiner() {
    let mut ring = Ring::new(RetentionLimits { packets: 3, ..RetentionLimits::default() });
    for counter in 0..5 {
        let flags = if counter == 0 { Flags::KEY_FRAME } else { Flags::default() };
        ring.push(Time::ZERO, &[1; 100], mark(Some(counter), flags));
        ring.close(Time::ZERO);
    }
    assert_eq!((ring.tail(), ring.key(), ring.knows_keys), (2, None, true));
}

#[test]
fn joiner_gets_key_frame_parameters() {
    let mut ring = Ring::new(RetentionLimits::default());
    let packets = [(1, Flags::PARAMETERS), (2, Flags::PARAMETERS), (3, Flags::KEY_FRAME), (4, Flags::default())];
    for (byte, flags) in packets {
        ring.push(Time::ZERO, &[byte], mark(None, flags));
    }
    ring.push(Time::ZERO, &[5], mark(None, Flags::PARAMETERS));
    assert_eq!(ring.key_parameters(), [&[1_u8][..], &[2]]);
    ring.push(Time::ZERO, &[6], mark(None, Flags::KEY_FRAME));
    assert_eq!(ring.key_parameters(), [&[5_u8][..]]);
}

#[test]
fn memory_is_used_again() {
    let mut ring = Ring::new(RetentionLimits { packets: 1000, ..RetentionLimits::default() });
    let mut pieces = std::collections::BTreeSet::new();
    for number in 0..20_000 {
        ring.push(at(number), &[1; 1000], mark(Some(number), Flags::default()));
        ring.close(at(number));
        let (packet, ..) = ring.packet(number).unwrap();
        pieces.insert(packet.as_ptr() as usize / PIECE_BYTES);
    }
    // Of 77 pieces, as many as hold half a second, each at most across two such places.
    assert!(pieces.len() <= 10, "{}", pieces.len());
}

proptest! {
    /// The bytes come out as they went in, and what is behind adds up.
    #[test]
    fn nothing_is_lost_or_moved(sizes in proptest::collection::vec((1..1500_usize, any::<bool>()), 1..300)) {
        let mut ring = Ring::new(RetentionLimits::default());
        let mut sent = Vec::new();
        for (number, (size, closes)) in sizes.iter().enumerate() {
            let datagram = vec![number as u8; *size];
            ring.push(Time::ZERO, &datagram, mark(Some(number as u64), Flags::default()));
            sent.push(datagram);
            if *closes {
                ring.close(Time::ZERO);
            }
        }
        ring.close(Time::ZERO);
        let mut seen = Vec::new();
        for place in ring.tail()..ring.head() {
            let run = ring.get(place).unwrap();
            let packets: Vec<Vec<u8>> = run.bytes.chunks(run.segment).map(<[u8]>::to_vec).collect();
            prop_assert_eq!(packets.len(), run.packets as usize);
            prop_assert_eq!(ring.behind(place).packets as usize, sent.len() - seen.len());
            seen.extend(packets);
        }
        prop_assert_eq!(&seen, &sent);
        for (number, datagram) in sent.iter().enumerate() {
            let found = ring.packet(number as u64);
            prop_assert_eq!(found.map(|(packet, ..)| packet.to_vec()), Some(datagram.clone()));
        }
    }
}
