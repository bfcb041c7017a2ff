//! A connection in virtual time, over paths that are slow, lossy or dead.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use proptest::prelude::*;

use super::*;

mod limits;
mod world;
use world::{Line, MultipathHarness};

const MS: Duration = Duration::from_millis(1);

fn message(number: u32, flow: Option<u32>, bytes: usize) -> Message {
    let mut body = vec![0; bytes.max(8)];
    body[..4].copy_from_slice(&number.to_be_bytes());
    body[4..8].copy_from_slice(&flow.map_or(u32::MAX, |flow| flow).to_be_bytes());
    Message { body: body.into(), flow, class: DeliveryClass::Stripe, priority: 3, deadline: None }
}

fn number(message: &[u8]) -> u32 {
    u32::from_be_bytes(message[..4].try_into().unwrap())
}

/// Sends frames of 64 KB at 100 Hz for some seconds. Returns the delay of the latest.
fn frames(world: &mut MultipathHarness, class: DeliveryClass, seconds: u64) -> Duration {
    let begin = world.now;
    let count = (seconds * 100) as u32;
    for frame in 0..count {
        world.run_until(begin + frame * 10 * MS);
        world.send(Message { class, ..message(frame, None, 65_536) });
    }
    world.run_to_idle();
    assert_eq!(world.delivered.len(), count as usize);
    let late = world.delivered.iter().map(|(at, frame)| *at - (begin + number(frame) * 10 * MS));
    late.max().unwrap()
}

#[test]
fn frame_is_striped_over_equal_paths() {
    // Programs that share processors are less punctual than a cable.
    let mut world = MultipathHarness::new(vec![Line::new(100.0, 0.1).jitter(0.3), Line::new(100.0, 0.1).jitter(0.3)]);
    // At first the path that is not needed carries heartbeats only.
    for number in 0..100 {
        world.run_until(number * 10 * MS);
        world.send(message(number, None, 8_000));
    }
    world.run_to_idle();
    world.delivered.clear();
    world.sent.fill(0);
    let late = frames(&mut world, DeliveryClass::Stripe, 2);
    // On one path it would take 5.3 ms.
    assert!(late < 4 * MS, "{late:?}");
    let (most, least) = (world.sent.iter().max().unwrap(), world.sent.iter().min().unwrap());
    assert!(most - least < most / 3, "{:?}", world.sent);
}

#[test]
fn dead_path_delays_two_periods() {
    let mut world =
        MultipathHarness::new(vec![Line::new(100.0, 0.1).down(1000, 3000), Line::new(100.0, 0.1).down(5000, 7000)]);
    let late = frames(&mut world, DeliveryClass::Stripe, 9);
    assert!(late < 20 * MS, "{late:?}");
    let kinds: Vec<_> = world.path_events.iter().map(|(_, event)| *event).collect();
    let (first, second) = (PathId(0), PathId(1));
    assert_eq!(
        kinds,
        [PathEvent::Lost(first), PathEvent::Restored(first), PathEvent::Lost(second), PathEvent::Restored(second)]
    );
    // Each path is found again soon after it answers.
    assert!(world.path_events[1].0 < 3100 * MS && world.path_events[3].0 < 7100 * MS, "{:?}", world.path_events);
}

#[test]
fn duplicate_class_survives_path_death() {
    let mut world =
        MultipathHarness::new(vec![Line::new(100.0, 0.1).down(1000, 3000), Line::new(100.0, 0.1).lossy(100)]);
    let late = frames(&mut world, DeliveryClass::Duplicate, 4);
    assert!(late < 10 * MS, "{late:?}");
}

#[test]
fn duplicate_class_uses_full_paths() {
    let mut world = MultipathHarness::new(vec![Line::new(100.0, 0.1), Line::new(100.0, 0.1)]);
    (0..50)
        .for_each(|frame| world.send(Message { class: DeliveryClass::Duplicate, ..message(frame, Some(1), 65_536) }));
    world.run_to_idle();
    assert_eq!(world.delivered.len(), 50);
    assert!(world.sent.iter().all(|sent| *sent > 45 * 65_536), "{:?}", world.sent);
}

#[test]
fn lone_message_leaves_dead_path_soon() {
    // Both a request and its answer may meet the dead path.
    for dead in [0, 1] {
        let mut lines = vec![Line::new(100.0, 0.1); 2];
        lines[dead] = lines[dead].clone().down(1000, 3000);
        let mut world = MultipathHarness::new(lines);
        for number in 0..=100 {
            world.run_until(number * 10 * MS);
            world.send(message(number, None, 1000));
        }
        world.run_until(1006 * MS);
        assert!(world.delivered.iter().any(|(_, message)| number(message) == 100), "{dead}");
    }
}

#[test]
fn removed_path_loses_no_messages() {
    let mut world = MultipathHarness::new(vec![Line::new(10.0, 50.0), Line::new(10.0, 50.0)]);
    (0..20).for_each(|frame| world.send(message(frame, Some(1), 65_536)));
    world.run_until(300 * MS);
    world.remove_path(0);
    world.run_to_idle();
    let numbers: Vec<_> = world.delivered.iter().map(|(_, frame)| number(frame)).collect();
    assert_eq!(numbers, (0..20).collect::<Vec<_>>());
}

#[test]
fn paths_carry_what_they_can() {
    for (lines, seconds) in [
        (vec![Line::new(10.0, 10.0), Line::new(100.0, 10.0)], 4),
        (vec![Line::new(20.0, 10.0), Line::new(20.0, 100.0)], 12),
        (vec![Line::new(100.0, 0.1).lossy(10), Line::new(100.0, 0.1)], 2),
    ] {
        let capacity: f64 = lines.iter().map(|line| line.rate).sum();
        let mut world = MultipathHarness::new(lines);
        let count = (capacity * f64::from(seconds) / 65_536.0) as u32;
        (0..count).for_each(|frame| world.send(message(frame, None, 65_536)));
        world.run_to_idle();
        let rate = f64::from(count) * 65_536.0 / world.now.as_secs_f64();
        assert!(rate > 0.9 * capacity, "{:.2} of {capacity}", rate / capacity);
        let repeated: u64 = world.sender.paths().map(|path| path.counts.repeated).sum();
        assert!(repeated < u64::from(count) / 5, "{repeated} of {count}");
    }
}

#[test]
fn longer_paths_keep_their_throughput() {
    let line = || Line::new(20.0, 10.0).then(5000, 50);
    let mut world = MultipathHarness::new(vec![line(), line()]);
    // More than the paths carry in fifteen seconds.
    (0..1200).for_each(|frame| world.send(message(frame, None, 65_536)));
    world.run_until(6000 * MS);
    let before = world.delivered.len();
    world.run_until(15_000 * MS);
    let rate = (world.delivered.len() - before) as f64 * 65_536.0 * 8.0 / 9.0;
    assert!(rate > 0.85 * 40e6, "{:.1} Mbit/s", rate / 1e6);
}

#[test]
fn burst_waits_for_faster_path() {
    let mut world = MultipathHarness::new(vec![Line::new(100.0, 1.0), Line::new(100.0, 200.0)]);
    // Both paths are measured by then.
    (0..300).for_each(|frame| world.send(message(frame, None, 65_536)));
    world.run_to_idle();
    let sent = world.now;
    (0..6).for_each(|frame| world.send(message(1000 + frame, Some(1), 65_536)));
    world.run_to_idle();
    let (last, _) = world.delivered.back().unwrap();
    assert!(*last - sent < 60 * MS, "{:?}", *last - sent);
}

#[test]
fn slow_path_is_not_suspected() {
    for lines in [vec![Line::new(0.1, 20.0), Line::new(0.1, 20.0)], vec![Line::new(1.0, 300.0), Line::new(1.0, 10.0)]] {
        let mut world = MultipathHarness::new(lines);
        for frame in 0..20 {
            world.send(message(frame, None, 10_000));
            world.run_until(world.now + 700 * MS);
        }
        world.run_to_idle();
        assert_eq!(world.path_events, []);
        assert_eq!(world.sender.paths().map(|path| path.counts.repeated).sum::<u64>(), 0);
    }
}

/// Only the handshake's round trip is known of the new path.
#[test]
fn silent_new_path_is_dropped_quickly() {
    for (mbit_s, delay_ms) in [(100.0, 0.1), (10.0, 10.0), (40.0, 50.0), (20.0, 300.0)] {
        let line = || Line::new(mbit_s, delay_ms);
        let mut world = MultipathHarness::new(vec![line().down(0, 60_000), line()]);
        (0..4).for_each(|frame| world.send(message(frame, Some(0), 8_000)));
        world.run_until(10_000 * MS);
        let round_trip = Duration::from_secs_f64(2.0 * delay_ms / 1e3 + 2400.0 / (mbit_s * 125_000.0));
        let bound = 10 * MS + 5 * round_trip;
        let (lost, event) = world.path_events[0];
        assert!(event == PathEvent::Lost(PathId(0)) && lost < bound, "{lost:?}, {bound:?}");
        assert_eq!(world.delivered.len(), 4);
        let (last, _) = world.delivered.back().unwrap();
        assert!(*last < bound + 2 * round_trip, "{last:?}, {bound:?}");
    }
}

#[test]
fn backup_path_idles_until_needed() {
    let mut world = MultipathHarness::new(vec![Line::new(10.0, 10.0).down(2000, 4000), Line::new(10.0, 10.0)]);
    let send = |world: &mut MultipathHarness, from: u64, to: u64| {
        for frame in from..to {
            world.run_until(frame as u32 * 20 * MS);
            world.send(Message { class: DeliveryClass::Backup, ..message(frame as u32, Some(0), 1000) });
        }
    };
    send(&mut world, 0, 95);
    assert!(world.sent[1] < 10_000, "{:?}", world.sent);
    send(&mut world, 95, 195);
    assert!(world.sent[1] > 90_000, "{:?}", world.sent);
    let before = world.sent[1];
    send(&mut world, 210, 300);
    assert!(world.sent[1] - before < 10_000, "{:?}", world.sent);
    world.run_to_idle();
    assert_eq!(world.delivered.len(), 285);
}

#[test]
fn readded_path_regains_preference() {
    let mut world = MultipathHarness::new(vec![Line::new(10.0, 10.0), Line::new(10.0, 10.0)]);
    world.remove_path(0);
    world.add_again(0);
    for frame in 0..100 {
        world.run_until(frame * 20 * MS);
        world.send(Message { class: DeliveryClass::Backup, ..message(frame, Some(0), 1000) });
    }
    world.run_to_idle();
    assert!(world.sent[1] < 10_000 && world.sent[2] > 90_000, "{:?}", world.sent);
}

#[test]
fn nothing_is_lost_without_answering_path() {
    let mut world =
        MultipathHarness::new(vec![Line::new(10.0, 10.0).down(100, 9000), Line::new(10.0, 10.0).down(90, 8000)]);
    for frame in 0..100 {
        world.run_until(frame * 50 * MS);
        world.send(message(frame, Some(frame % 3), 3000));
    }
    world.run_to_idle();
    assert_eq!(world.delivered.len(), 100);
    assert!(world.now < 8500 * MS, "{:?}", world.now);
}

#[test]
fn idle_connection_sends_few_heartbeats() {
    let mut world = MultipathHarness::new(vec![Line::new(10.0, 10.0), Line::new(10.0, 10.0)]);
    world.run_until(600 * 1000 * MS);
    assert!(world.transmissions <= 2 * 20, "{}", world.transmissions);
    // An occasional message does not cause heartbeats.
    let before = world.transmissions;
    for second in 600..660 {
        world.run_until(second * 1000 * MS);
        world.send(message(second, None, 200));
    }
    assert!(world.transmissions - before <= 60 + 10, "{}", world.transmissions - before);
}

#[test]
fn small_waiting_messages_are_packed() {
    let mut world = MultipathHarness::new(vec![Line::new(1.0, 10.0)]);
    (0..2000).for_each(|number| world.send(message(number, Some(7), 100)));
    world.run_to_idle();
    let numbers: Vec<_> = world.delivered.iter().map(|(_, frame)| number(frame)).collect();
    assert_eq!(numbers, (0..2000).collect::<Vec<_>>());
    // The first messages leave at once, one by one, until the path has enough to send.
    assert!(world.transmissions < 400, "{}", world.transmissions);
}

#[test]
fn urgent_message_overtakes_queue() {
    let mut world = MultipathHarness::new(vec![Line::new(1.0, 10.0)]);
    (0..100).for_each(|number| world.send(message(number, Some(1), 65_536)));
    world.run_until(1000 * MS);
    world.delivered.clear();
    let sent = world.now;
    world.send(Message { priority: 0, ..message(1000, Some(2), 100) });
    world.run_until(sent + 1000 * MS);
    let (at, _) = world.delivered.iter().find(|(_, message)| number(message) == 1000).unwrap();
    // The message waits only for the bytes that the path holds already: two chunks and its window.
    assert!(*at - sent < 400 * MS, "{:?}", *at - sent);
}

#[test]
fn urgent_traffic_lets_begun_messages_finish() {
    let mut world = MultipathHarness::new(vec![Line::new(1.0, 10.0)]);
    world.send(Message { priority: 5, ..message(0, Some(1), 60_000) });
    // More than the window holds, so that some always wait.
    let last = 2 * (WINDOW_BYTES / 60_000) as u32;
    (1..=last).for_each(|number| world.send(Message { priority: 1, ..message(number, Some(2), 60_000) }));
    world.run_until(100 * MS);
    world.send(Message { priority: 0, ..message(last + 1, Some(3), 100) });
    world.run_to_idle();
    assert_eq!(world.delivered.len() as u32, last + 2);
}

#[test]
fn expired_messages_do_not_block_flow() {
    let mut world = MultipathHarness::new(vec![Line::new(10.0, 10.0).down(500, 2500)]);
    for frame in 0..100u32 {
        world.run_until(frame * 40 * MS);
        let deadline = Some(world.at() + 200 * MS);
        world.send(Message { deadline, ..message(frame, Some(1), 20_000) });
    }
    world.run_to_idle();
    let numbers: Vec<_> = world.delivered.iter().map(|(_, frame)| number(frame)).collect();
    assert!(numbers.is_sorted());
    let (given_up, _) = world.sender.counts();
    assert_eq!(numbers.len() as u64 + given_up, 100);
    assert!((45..65).contains(&given_up), "{given_up}");
    // Delivered messages are in time, except for those that arrived before the receiver learned that they were given
    // up.
    assert!(world.delivered.iter().all(|(at, frame)| *at < number(frame) * 40 * MS + 400 * MS || *at < 2700 * MS));
}

prop_compose! {
    fn line()(
        mbit_s in 0.05..200.0f64,
        delay_ms in 0.05..300.0f64,
        jitter_ms in 0.0..20.0f64,
        loss in 0..100u64,
        then in prop::option::of((0..3000u64, 1..300u64)),
        down in prop::option::of((0..3000u64, 1..3000u64)),
    ) -> Line {
        let line = Line::new(mbit_s, delay_ms).jitter(jitter_ms).lossy(loss);
        let line = then.map_or(line.clone(), |(from, delay)| line.then(from, delay));
        down.map_or(line.clone(), |(from, long)| line.down(from, from + long))
    }
}

fn class() -> impl Strategy<Value = DeliveryClass> {
    prop_oneof![Just(DeliveryClass::Stripe), Just(DeliveryClass::Duplicate), Just(DeliveryClass::Backup)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn messages_arrive_once_in_flow_order(
        lines in prop::collection::vec(line(), 1..4),
        messages in prop::collection::vec(
            (0..100u64, prop::option::of(0..3u32), 8..70_000usize, class(), prop::option::of(1..500u32), 0..8u8),
            1..80,
        ),
    ) {
        let mut world = MultipathHarness::new(lines);
        let mut kept = HashSet::new();
        let count = messages.len() as u64;
        for (index, (pause, flow, bytes, class, patience, level)) in (0..).zip(messages) {
            world.run_until(world.now + pause as u32 * MS);
            let deadline = patience.map(|patience| world.at() + patience * MS);
            if deadline.is_none() {
                kept.insert(index);
            }
            let message = message(index, flow, bytes.min(65_536));
            // All messages of a flow have the same priority.
            let priority = flow.map_or(level, |flow| flow as u8 * 2);
            world.send(Message { class, deadline, priority, ..message });
        }
        world.run_to_idle();
        let numbers: Vec<_> = world.delivered.iter().map(|(_, message)| number(message)).collect();
        let once: HashSet<_> = numbers.iter().copied().collect();
        prop_assert_eq!(once.len(), numbers.len());
        prop_assert!(kept.is_subset(&once));
        prop_assert!(once.len() as u64 + world.sender.counts().0 >= count);
        let mut last = HashMap::new();
        for (_, message) in &world.delivered {
            let flow = u32::from_be_bytes(message[4..8].try_into().unwrap());
            if flow != u32::MAX {
                let before = last.insert(flow, number(message));
                prop_assert!(before.is_none_or(|before| before < number(message)));
            }
        }
        prop_assert!(world.receiver.is_settled());
        prop_assert_eq!(world.sender.queued_bytes(), 0);
        prop_assert!(world.sender.paths().all(|path| path.outstanding <= 1));
    }
}
