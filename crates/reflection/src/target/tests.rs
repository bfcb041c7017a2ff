use super::*;
use crate::packet::Flags;
use crate::ring::{Mark, RetentionLimits};

const SOURCE: ([u8; 4], u16) = ([127, 0, 0, 1], 1);
const TARGET: ([u8; 4], u16) = ([127, 0, 0, 1], 2);

fn at(ms: u64) -> Time {
    Time::ZERO + Duration::from_millis(ms)
}

/// A packet every 10 ms, the first of them a key frame.
fn ring(packets: u64) -> Ring {
    ring_of(0..packets, Some(0))
}

fn ring_of(counters: Range<u64>, key: Option<u64>) -> Ring {
    let mut ring = Ring::new(RetentionLimits::default());
    for counter in counters {
        let flags = if Some(counter) == key { Flags::KEY_FRAME } else { Flags::default() };
        let mark = Mark { from: Some(SOURCE.into()), hops: 1, first_byte: None, counter: Some(counter), flags };
        ring.push(at(10 * counter), &[1; 100], mark);
        ring.close(at(10 * counter));
    }
    ring
}

fn missing(counter: u64) -> Nack {
    Nack::from_counters(&[counter].into()).unwrap()
}

/// Tells of gaps, each `after` so long after what shows it.
fn miss(target: &mut Target, ring: &Ring, counters: Range<u64>, after: u64) {
    for counter in counters.step_by(2) {
        let now = at(10 * (counter + 1) + after);
        target.repair(now, &missing(counter), ring, &LagLimits::default());
    }
}

#[test]
fn joiner_begins_with_recent_first_packets() {
    // The first packet may be lost, and be repaired later.
    for (first, age, begins) in
        [(0, 0, true), (1, 0, true), (15, 0, true), (16, 0, false), (0, 300, true), (0, 600, false)]
    {
        let ring = ring_of(first..first + 10, None);
        let now = at(10 * (first + 9) + age);
        let target = Target::new(now, TARGET.into(), TargetOptions::SUBSCRIBER, StartPoint::KeyFrame, &ring);
        assert_eq!(target.next == ring.tail(), begins, "{first} {age}");
    }
    let mut ring = ring_of(0..10, Some(0));
    ring.forget_key();
    let target = Target::new(at(100), TARGET.into(), TargetOptions::SUBSCRIBER, StartPoint::KeyFrame, &ring);
    assert!(target.awaits_key());
}

#[test]
fn bogus_nack_hides_no_congestion() {
    let ring = ring(100);
    let mut target = Target::new(at(0), TARGET.into(), TargetOptions::SUBSCRIBER, StartPoint::At(0), &ring);
    target.note_reported(at(10), 0, &ring);
    target.repair(at(20), &missing(u64::MAX - 1), &ring, &LagLimits::default());
    miss(&mut target, &ring, 10..30, 200);
    assert!(target.is_congested());
}

#[test]
fn catch_up_shows_no_congestion() {
    let ring = ring(100);
    let mut target = Target::new(at(990), TARGET.into(), TargetOptions::SUBSCRIBER, StartPoint::KeyFrame, &ring);
    let patience = LagLimits::default();
    for now in (0..110).map(|step| at(990) + Duration::from_micros(10) * step) {
        let Some(item) = target.peek(now, &ring, &patience, 3) else { break };
        target.record_sent(now, &item, SendOutcome { sent: 1, ..SendOutcome::default() }, &patience);
    }
    target.note_reported(at(1010), 99, &ring);
    miss(&mut target, &ring, 10..60, 900);
    assert!(!target.is_congested());
}
