//! A connection that is full: what is too much is lost, and hardly more.

use crate::*;

const SECOND: Duration = Duration::from_secs(1);
const P: u8 = 1;
const HP: u8 = 2;
/// The first of those who watch.
const S: u8 = 10;
/// Bits per second of one copy, in packets of 1000 bytes of payload.
const COPY: u64 = (1000 + OVERHEAD_BYTES as u64) * 8 * PACKETS * 1000 / FRAME.as_millis() as u64;

/// So many who watch at a hub whose uplink carries thirty copies and 2 % for what else is said.
fn watched(seed: u64, watchers: u8, queue: Duration) -> RelayWorld {
    let mut world = RelayWorld::new(seed);
    // All copies of a packet leave together, which the shortest queue has room for.
    world.frames = (FRAME / PACKETS as u32, 1);
    world.uplink(HP, COPY * 30 * 102 / 100, queue);
    world.publish(P);
    for watcher in 0..watchers {
        world.subscribe(&[P, HP, S + watcher]);
        world.passes(SECOND / 3);
    }
    world
}

/// For so long: what each has missed of all, as a part of one copy; and how much of its rate the uplink was
/// offered.
fn measured(world: &mut RelayWorld, watchers: u8, time: Duration) -> (Vec<f64>, f64) {
    let first = world.published();
    world.got.clear();
    let uplink = world.network.uplinks.get_mut(&HP).unwrap();
    (uplink.offered, uplink.lost) = (0, 0);
    world.passes(time);
    let (last, uplink) = (world.published(), world.network.uplinks[&HP]);
    let offered = uplink.offered as f64 * 8.0 / uplink.bits_per_second as f64 / time.as_secs_f64();
    // Packets on their way or asked for may still come.
    world.passes(SECOND);
    let missed = |watcher: u8| {
        let came = world.once_each(S + watcher).into_iter().filter(|counter| (first..last).contains(counter)).count();
        1.0 - came as f64 / (last - first) as f64
    };
    ((0..watchers).map(missed).collect(), offered)
}

/// With a queue too short to be seen, and with a long one.
#[test]
fn excess_copies_cost_only_themselves() {
    for (watchers, queue) in [(31, 15), (31, 160), (36, 160)] {
        let mut world = watched(queue, watchers, Duration::from_millis(queue));
        world.passes(10 * SECOND);
        let (missed, offered) = measured(&mut world, watchers, 15 * SECOND);
        let (sum, most) = (missed.iter().sum::<f64>(), missed.iter().copied().fold(0.0, f64::max));
        println!("{watchers}, {queue} ms: {sum:.2} copies missed, {most:.3} by one, {offered:.3} of the rate offered");
        let excess = f64::from(watchers) - 30.6;
        assert!(sum <= 2.0 * excess, "{sum} copies of {watchers} with a queue of {queue} ms: {missed:?}");
        // Of the connection's rate; a copy or six are part of it.
        assert!(offered <= 1.12 + excess / 30.6, "{offered} of what the link carries, with a queue of {queue} ms");
    }
}

#[test]
fn loss_ends_when_room_returns() {
    let mut world = watched(1, 31, Duration::from_millis(160));
    world.passes(10 * SECOND);
    let now = world.now;
    world.relay(S + 30).release_stream(now, STREAM);
    world.passes(5 * SECOND);
    let (missed, offered) = measured(&mut world, 30, 10 * SECOND);
    assert!(missed.iter().all(|missed| *missed == 0.0), "{missed:?}, offered {offered}");
}

/// The burst is too much for the queue for a moment, and makes room again.
#[test]
fn mass_join_recovers_without_loss() {
    let mut world = watched(1, 22, Duration::from_millis(160));
    for watcher in 22..30 {
        world.subscribe(&[P, HP, S + watcher]);
    }
    world.passes(10 * SECOND);
    let (missed, offered) = measured(&mut world, 30, 10 * SECOND);
    assert!(missed.iter().all(|missed| *missed == 0.0), "{missed:?}, offered {offered}");
}

#[test]
fn longest_gap_is_repaired() {
    let mut world = RelayWorld::new(1);
    // 4000 packets a second, as of 35 Mbit/s.
    world.frames = (Duration::from_millis(1), 4);
    world.publish(P);
    world.subscribe(&[P, HP, S]);
    world.passes(SECOND);
    world.connection(HP, S, Connection { loss: 1000, ..Connection::default() });
    world.passes(Duration::from_millis(15));
    world.connection(HP, S, Connection::default());
    world.passes(SECOND);
    let got = world.once_each(S);
    assert!(got.windows(2).all(|pair| pair[1] == pair[0] + 1), "something is missing");
    let repaired = world.status(HP).unwrap().downstreams.iter().map(|member| member.statistics.repaired).sum::<u64>();
    assert!((56..=64).contains(&repaired), "{repaired}");
}

#[test]
fn repairs_and_parity_are_bounded() {
    for loss in [50, 200, 500] {
        let mut world = RelayWorld::new(loss);
        world.publish(P);
        world.subscribe(&[P, HP, S]);
        world.passes(SECOND);
        world.one_way(HP, S, Connection { loss, ..Connection::default() });
        for _ in 0..6 {
            let before = world.status(HP).unwrap().downstreams[0].statistics.repaired;
            world.forget_traffic();
            let published = world.published();
            world.passes(10 * SECOND);
            let repaired = world.status(HP).unwrap().downstreams[0].statistics.repaired - before;
            let words = world.said.remove(&(HP, S)).unwrap_or_default();
            let parity = words.iter().filter(|said| matches!(said, ControlPacket::Parity(_))).count() as u64;
            let most = (world.published() - published) / 10 + 64;
            assert!(repaired + parity <= most, "{repaired} and {parity} at {loss}, may be {most}");
        }
    }
}
