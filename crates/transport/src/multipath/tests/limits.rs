//! Limits on the memory that a connection uses and the bytes that it puts on its paths.

use std::time::Instant;

use bytes::Bytes;

use super::super::*;
use super::world::{Line, MultipathHarness};
use super::{MS, message, number};

#[test]
fn full_queue_admits_reliable_and_urgent() {
    let mut connection = MultipathConnection::new(1 << 20);
    let now = Instant::now();
    let fill = |connection: &mut MultipathConnection, flow, priority| {
        (0..100).find(|_| !connection.send(now, Message { priority, ..message(0, flow, 60_000) }))
    };
    assert!(fill(&mut connection, None, 3).is_some(), "a limit");
    assert!(connection.send(now, message(1, Some(1), 60_000)));
    assert!(fill(&mut connection, Some(1), 3).is_some(), "a limit");
    assert!(connection.send(now, Message { priority: 0, ..message(2, Some(2), 60_000) }));
}

#[test]
fn in_flight_data_is_bounded() {
    let (now, measured) = (Instant::now(), PathMetrics { rtt: 100 * MS, window: 1 << 40 });
    for bytes in [10, 3000, 60_000] {
        let mut connection = MultipathConnection::new(64 << 20);
        connection.add_path(now, PathId(0), 0, measured);
        (0..200_000).take_while(|number| connection.send(now, message(*number, Some(1), bytes))).count();
        let mut chunks = 0;
        let actions = std::iter::from_fn(|| connection.poll_action());
        let under_way: usize = actions
            .map(|action| match action {
                Action::Transmit { content, .. } => content.iter().map(Bytes::len).sum::<usize>(),
                _ => 0,
            })
            .inspect(|_| chunks += 1)
            .sum();
        assert!(chunks <= MAX_COPIES && under_way < WINDOW_BYTES + (1 << 20), "{chunks}, {under_way}");
    }
}

/// A remote that withholds an acknowledgement blocks only its own later messages. It costs the sender neither memory
/// nor a path, nor many packets.
#[test]
fn unacknowledged_oldest_chunk_limits_sender() {
    for count in [1, 2] {
        let mut world = MultipathHarness::new(vec![Line::new(100.0, 5.0); count]);
        world.withholds = true;
        let mut number = 0;
        for tenth in 1..=200 {
            let at = world.at();
            while world.sender.queued_bytes() < 4 << 20 && world.sender.send(at, message(number, Some(1), 60_000)) {
                number += 1;
            }
            world.run_until(tenth * 100 * MS);
        }
        let sent: usize = world.sent.iter().sum();
        assert!(sent < WINDOW_BYTES + (1 << 20), "{sent}");
        // A path that answers is not reported as lost again and again.
        assert!(world.path_events.len() <= 32, "{} events", world.path_events.len());
        assert!(world.transmissions < 4_000, "{} packets", world.transmissions);
    }
}

/// A chunk that has seen many silences does not count in any more of them, but it must arrive nevertheless.
#[test]
fn silent_chunk_survives_path_removal() {
    let measured = PathMetrics { rtt: 20 * MS, window: 1 << 20 };
    let mut now = Instant::now();
    let mut connection = MultipathConnection::new(1 << 20);
    connection.add_path(now, PathId(0), 0, measured);
    assert!(connection.send(now, message(7, Some(1), 1000)));
    // Each time, heartbeats are answered some time after the path has fallen silent.
    for _ in 0..200 {
        let Some(at) = connection.deadline() else { break };
        now = now.max(at);
        connection.handle_timeout(now);
        let silent = std::iter::from_fn(|| connection.poll_event()).any(|event| matches!(event, PathEvent::Lost(_)));
        if !silent {
            continue;
        }
        now += 1000 * MS;
        connection.handle_timeout(now);
        // The path answers heartbeats but never acknowledges the chunk.
        let heartbeats = std::iter::from_fn(|| connection.poll_action()).filter_map(|action| match action {
            Action::Transmit { copy, content, .. } if content[0].len() == 1 => Some(copy),
            _ => None,
        });
        for copy in heartbeats.collect::<Vec<_>>() {
            connection.handle_acknowledgement(now, copy, measured);
        }
    }
    connection.add_path(now, PathId(1), 1, measured);
    connection.remove_path(now, PathId(0));
    connection.handle_timeout(now);
    let mut sent = std::iter::from_fn(|| connection.poll_action());
    let arrives = sent.any(|action| match action {
        Action::Transmit { path: PathId(1), content, .. } => content[1].len() == 1000,
        _ => false,
    });
    assert!(arrives, "it is lost");
}

/// A backup message that waits for its path does not keep the other paths idle.
#[test]
fn waiting_backup_leaves_other_paths_busy() {
    let mut world = MultipathHarness::new(vec![Line::new(1.0, 10.0), Line::new(100.0, 10.0)]);
    for frame in 0..200 {
        world.run_until(frame * 10 * MS);
        world.send(Message { class: DeliveryClass::Backup, priority: 1, ..message(frame, Some(0), 2500) });
        world.send(Message { priority: 5, ..message(1000 + frame, Some(1), 10_000) });
    }
    let image = world.delivered.iter().filter(|(_, message)| number(message) >= 1000).count();
    assert!(image > 180, "{image} of 200 of what another path has room for");
}

/// The congestion control of the only path decides its sending rate: the connection puts twice the window on it,
/// whatever rate it has measured.
#[test]
fn only_path_gets_twice_the_window() {
    let now = Instant::now();
    let measured = PathMetrics { rtt: 100 * MS, window: 500_000 };
    let put_on_first = |paths: u32| {
        let mut connection = MultipathConnection::new(4 << 20);
        (0..paths).for_each(|path| connection.add_path(now, PathId(path), 0, measured));
        (0..40).for_each(|frame| assert!(connection.send(now, message(frame, Some(1), 60_000))));
        let actions = std::iter::from_fn(|| connection.poll_action());
        let bytes = actions.filter_map(|action| match action {
            Action::Transmit { path: PathId(0), content, .. } => Some(content.iter().map(Bytes::len).sum::<usize>()),
            _ => None,
        });
        bytes.sum::<usize>()
    };
    let (alone, of_two) = (put_on_first(1), put_on_first(2));
    assert!((980_000..1_030_000).contains(&alone) && of_two < 50_000, "{alone}, {of_two}");
}
