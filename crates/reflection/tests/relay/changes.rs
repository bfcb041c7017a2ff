//! Changes of way: planned ones lose nothing, others are noticed.

use crate::*;

const SECOND: Duration = Duration::from_secs(1);
const P: u8 = 1;
const HP: u8 = 2;
const HS: u8 = 3;
const OTHER: u8 = 4;
const S: u8 = 10;

/// Nothing is lost on these, but they differ.
fn uneven(world: &mut RelayWorld) {
    for one in [P, HP, HS, OTHER, S] {
        for other in [P, HP, HS, OTHER, S] {
            let (delay, jitter) = (world.below(80), world.below(5));
            if one < other {
                let connection = Connection {
                    delay: Duration::from_millis(delay + 1),
                    jitter: Duration::from_millis(jitter),
                    ..Connection::default()
                };
                world.connection(one, other, connection);
            }
        }
    }
}

fn changes(seed: u64, before: &[u8], after: &[u8]) {
    let mut world = RelayWorld::new(seed);
    uneven(&mut world);
    world.publish(P);
    world.subscribe(before);
    let wait = 1500 + world.below(1500);
    world.passes(Duration::from_millis(wait));
    let tag = world.subscribe(after);
    world.passes(6 * SECOND);
    world.assert_whole(S);
    assert!(world.events_of(S).contains(&RelayEvent::Began { tag, stream: STREAM }), "{:?}", world.events_of(S));
    assert!(!world.events_of(S).contains(&RelayEvent::Lost { stream: STREAM }));
    // In the end there is one way only.
    assert_eq!(world.status(S).unwrap().upstreams.len(), 1);
    world.passes(6 * SECOND);
    world.forget_traffic();
    let from = world.published();
    world.passes(2 * SECOND);
    let published = world.published() - from;
    for pair in after.windows(2) {
        // Some of it is on its way; what was overtaken by much is asked for again.
        let carried = world.carried(pair[0], pair[1]);
        assert!((published * 9 / 10..published * 11 / 10).contains(&carried), "{pair:?}: {carried} of {published}");
    }
    assert_eq!(world.carried.len(), after.len() - 1, "{:?}", world.carried);
}

#[test]
fn the_subscribers_hub_changes() {
    for_seeds(8, |seed| changes(seed, &[P, HP, HS, S], &[P, HP, OTHER, S]));
}

#[test]
fn the_publishers_hub_changes() {
    for_seeds(8, |seed| changes(seed, &[P, HP, HS, S], &[P, OTHER, HS, S]));
}

#[test]
fn the_only_hub_changes() {
    for_seeds(8, |seed| changes(seed, &[P, HP, S], &[P, OTHER, S]));
}

#[test]
fn a_way_becomes_shorter_or_longer() {
    for_seeds(8, |seed| changes(seed, &[P, HP, HS, S], &[P, HS, S]));
    for_seeds(8, |seed| changes(seed, &[P, HS, S], &[P, HP, HS, S]));
}

#[test]
fn latest_request_wins() {
    for_seeds(8, |seed| {
        let mut world = RelayWorld::new(seed);
        uneven(&mut world);
        world.publish(P);
        world.subscribe(&[P, HP, HS, S]);
        world.passes(2 * SECOND);
        world.subscribe(&[P, HP, OTHER, S]);
        let wait = world.below(1000);
        world.passes(Duration::from_millis(wait));
        world.subscribe(&[P, HP, HS, S]);
        world.passes(6 * SECOND);
        world.assert_whole(S);
        let legs: Vec<_> = world.status(S).unwrap().upstreams.iter().map(|leg| leg.address).collect();
        assert_eq!(legs, [at(HS)]);
    });
}

#[test]
fn leaving_hub_moves_stream_without_loss() {
    for_seeds(4, |seed| {
        for leaving in [HP, HS] {
            let mut world = RelayWorld::new(seed);
            uneven(&mut world);
            world.publish(P);
            world.subscribe(&[P, HP, HS, S]);
            world.passes(2 * SECOND);
            let now = world.now;
            world.relay(leaving).leave(now);
            world.passes(SECOND * 9 / 4);
            assert!(world.events_of(S).contains(&RelayEvent::UpstreamLeaving { stream: STREAM }));
            let after = if leaving == HP { [P, OTHER, HS, S] } else { [P, HP, OTHER, S] };
            world.subscribe(&after);
            world.passes(2 * SECOND);
            world.dies(leaving);
            world.passes(8 * SECOND);
            world.assert_whole(S);
            assert!(!world.events_of(S).contains(&RelayEvent::Lost { stream: STREAM }));
        }
    });
}

#[test]
fn dead_hub_is_noticed_and_replaced() {
    for_seeds(4, |seed| {
        for dead in [HP, HS] {
            let mut world = RelayWorld::new(seed);
            uneven(&mut world);
            world.publish(P);
            world.subscribe(&[P, HP, HS, S]);
            world.passes(2 * SECOND);
            world.dies(dead);
            world.passes(4 * SECOND);
            // Another way is sought before it is known that there is none, once each.
            let (moving, lost) = (RelayEvent::UpstreamLeaving { stream: STREAM }, RelayEvent::Lost { stream: STREAM });
            let told: Vec<RelayEvent> = world.events_of(S).into_iter().filter(|e| [moving, lost].contains(e)).collect();
            assert!(told == [moving] || told == [moving, lost], "{told:?}");
            let after = if dead == HP { [P, OTHER, HS, S] } else { [P, HP, OTHER, S] };
            world.subscribe(&after);
            world.passes(3 * SECOND);
            let got = world.once_each(S);
            assert!(got.last().unwrap() + 40 >= world.published());
        }
    });
}

#[test]
fn run_that_stops_is_doubtful_soon() {
    for dead in [HP, HS] {
        let mut world = RelayWorld::new(1);
        world.publish(P);
        world.subscribe(&[P, HP, HS, S]);
        world.passes(2 * SECOND);
        world.dies(dead);
        world.passes(SECOND / 2);
        assert!(
            world.events_of(S).contains(&RelayEvent::UpstreamLeaving { stream: STREAM }),
            "{:?}",
            world.events_of(S)
        );
        world.passes(SECOND);
        let unheard = world.events_of(P).contains(&RelayEvent::DownstreamSilent { stream: STREAM });
        assert_eq!(unheard, dead == HP, "{:?}", world.events_of(P));
    }
}

#[test]
fn subscriber_notices_dead_publisher() {
    let mut world = RelayWorld::new(1);
    world.publish(P);
    world.subscribe(&[P, HP, HS, S]);
    world.passes(2 * SECOND);
    world.dies(P);
    world.passes(4 * SECOND);
    assert!(world.events_of(S).contains(&RelayEvent::UpstreamLeaving { stream: STREAM }));
}

#[test]
fn a_quiet_stream_is_alive() {
    let mut world = RelayWorld::new(2);
    world.publish(P);
    world.subscribe(&[P, HP, HS, S]);
    world.passes(2 * SECOND);
    // The publisher has nothing to send for a while.
    world.publishes.clear();
    world.passes(20 * SECOND);
    assert_eq!(world.events_of(S).len(), 1, "{:?}", world.events_of(S));
    assert!(world.carried(HS, S) > 0);
    world.publish(P);
    world.passes(SECOND);
    world.assert_whole(S);
}

#[test]
fn mutual_upstreams_are_dissolved() {
    let mut world = RelayWorld::new(3);
    world.publish(P);
    world.subscribe(&[P, HP, HS, S]);
    world.subscribe(&[P, HS, HP, S + 1]);
    world.passes(SECOND);
    // HP and HS have the stream from P, and would have it from each other.
    let now = world.now;
    for (one, other, number) in [(HP, HS, 500), (HS, HP, 600)] {
        let grant = world.grant_of(StreamTag(number), S, StreamTag(number + 1), DownstreamKind::Subscriber);
        world.relay(other).grant(now, grant).unwrap();
        world.relay(one).offer(now, STREAM, at(other), grant.tag).unwrap();
    }
    world.passes(SECOND);
    world.assert_whole(S);
    world.dies(P);
    world.passes(20 * SECOND);
    world.forget_traffic();
    world.passes(5 * SECOND);
    assert_eq!(world.carried.len(), 0);
    for host in [HP, HS] {
        assert!(world.status(host).is_none_or(|status| status.upstreams.is_empty()), "{host} has a leg to nowhere");
    }
}

/// The longest that a subscriber's program waited for the next packet in its turn.
fn longest_wait(world: &RelayWorld) -> Duration {
    let mut got: Vec<_> = world.got[&S].iter().map(|got| (got.counter, got.at)).collect();
    got.sort_unstable();
    // A packet is handed over once all before it are there.
    let mut turns: Vec<_> = got.iter().map(|(_, at)| *at).collect();
    (1..turns.len()).for_each(|turn| turns[turn] = turns[turn].max(turns[turn - 1]));
    turns.windows(2).map(|pair| pair[1].since(pair[0])).max().unwrap()
}

/// A round trip is 40 ms, and so is the time from one frame to the next: that is how long one waits
/// for packets in any case. One more hop's delay is seen when the way becomes longer by it.
#[test]
fn leaving_super_node_delays_nothing() {
    let one_way = Duration::from_millis(20);
    for (leaves, after, longer) in [
        (HS, &[P, HP, S][..], Duration::ZERO),
        (HP, &[P, HS, S], Duration::ZERO),
        (HS, &[P, HP, OTHER, S], Duration::ZERO),
        (HP, &[P, OTHER, HS, S], Duration::ZERO),
        (HP, &[P, OTHER, HP, HS, S], one_way),
    ] {
        let config =
            RelayConfig { fanout: FanoutConfig { max_hops: 3, ..Default::default() }, ..RelayConfig::default() };
        let mut world = RelayWorld::with(1, config);
        world.all_connections(Connection { delay: one_way, ..Connection::default() });
        world.publish(P);
        world.subscribe(&[P, HP, HS, S]);
        world.passes(3 * SECOND);
        world.got.clear();
        let now = world.now;
        if longer.is_zero() {
            world.relay(leaves).leave(now);
        }
        // As long as the word takes, and the request for another way.
        world.passes(6 * one_way);
        world.subscribe(after);
        world.passes(12 * SECOND);
        let counters = world.once_each(S);
        let whole = counters.windows(2).all(|pair| pair[1] == pair[0] + 1);
        assert!(whole && counters.len() >= 1200, "{leaves} {after:?}");
        assert!(longest_wait(&world) <= FRAME + longer, "{leaves} {after:?}: {:?}", longest_wait(&world));
        assert!(
            longer > Duration::ZERO || world.status(S).unwrap().upstreams.iter().all(|leg| leg.address != at(leaves))
        );
    }
}

#[test]
fn leaving_notices_are_spread() {
    const MANY: std::ops::Range<u8> = 100..140;
    for_seeds(4, |seed| {
        let mut world = RelayWorld::new(seed);
        world.publish(P);
        for subscriber in MANY {
            world.subscribe(&[P, HP, subscriber]);
            world.passes(SECOND / 20);
        }
        world.passes(2 * SECOND);
        let left = world.now;
        world.relay(HP).leave(left);
        world.passes(SECOND * 5 / 4);
        let moving = world.events.iter().filter(|(.., event)| *event == RelayEvent::UpstreamLeaving { stream: STREAM });
        let told: Vec<Duration> = moving.map(|(at, ..)| at.since(left)).collect();
        assert_eq!(told.len(), MANY.len());
        assert!(told.iter().all(|after| *after < SECOND * 5 / 4), "{told:?}");
        let most =
            told.iter().map(|at| told.iter().filter(|other| **other >= *at && **other < *at + SECOND / 10).count());
        assert!(most.max().is_some_and(|most| most <= MANY.len() / 3), "{told:?}");
    });
}
