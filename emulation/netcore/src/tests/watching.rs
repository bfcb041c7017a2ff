//! Sightings of packets at watched pipes.

use super::*;
use crate::{SightingKind, Watching};

#[test]
fn pipe_shows_both_ends_and_drops() {
    let mut network = Network::new(1);
    let slow = PipeConfig { queue: packets(2), ..pipe(1, 10) };
    let [a, b] = network.add_link(slow.clone(), slow);
    let watched = up(&network, a);
    network.set_watched(watched, Watching::On);
    assert_eq!(burst(&mut network, Time::ZERO, a, b, 1250, 3), 2);
    network.send(Time::ZERO, b, Destination::Port(a), 1250, 9);
    drain(&mut network, at_ms(100));
    let seen: Vec<_> = std::iter::from_fn(|| network.poll_sighting()).collect();
    let told: Vec<_> = seen.iter().map(|one| (one.at.as_nanos() / 1_000_000, one.packet, one.kind)).collect();
    let (entered, left) = (SightingKind::Entered, SightingKind::Left);
    let dropped = SightingKind::Dropped(DropCause::Queue);
    assert_eq!(told, [(0, 0, entered), (0, 1, entered), (0, 2, dropped), (20, 0, left), (30, 1, left)]);
    assert!(seen.iter().all(|one| one.pipe == watched));
    assert_eq!((seen[0].number, seen[1].number), (seen[3].number, seen[4].number));
    network.set_watched(watched, Watching::Off);
    burst(&mut network, at_ms(200), a, b, 1250, 1);
    drain(&mut network, at_ms(300));
    assert_eq!((network.poll_sighting(), network.drain_missed_sightings().len()), (None, 0));
}

#[test]
fn unfetched_sightings_are_counted() {
    let mut network = Network::new(1);
    let [a, b] = network.add_link(PipeConfig::default(), PipeConfig::default());
    network.set_watched(up(&network, a), Watching::On);
    for number in 0..40_000 {
        network.send(Time::ZERO, a, Destination::Port(b), 100, number);
        drain(&mut network, Time::ZERO);
    }
    assert_eq!(network.drain_missed_sightings().into_values().sum::<u64>(), 80_000 - 65_536);
}
