//! Loss and slowness: repaired hop by hop, and nobody else's business.

use crate::*;

const SECOND: Duration = Duration::from_secs(1);
const P: u8 = 1;
const HP: u8 = 2;
const HS: u8 = 3;
const S: u8 = 10;

fn missing(world: &RelayWorld, host: u8) -> (usize, usize) {
    let got = world.once_each(host);
    let span = (got.last().unwrap() - got.first().unwrap() + 1) as usize;
    (span - got.len(), span)
}

#[test]
fn loss_per_hop_repaired_in_time() {
    for (loss, most) in [(10, 1), (50, 5)] {
        let (mut missed, mut all) = (0, 0);
        for seed in 0..4 {
            let mut world = RelayWorld::new(seed);
            world.all_connections(Connection { loss, jitter: Duration::from_millis(2), ..Connection::default() });
            world.publish(P);
            world.subscribe(&[P, HP, HS, S]);
            world.passes(20 * SECOND);
            let (missing, span) = missing(&world, S);
            (missed, all) = (missed + missing, all + span);
            // A lost packet comes soon after the one that followed it: three tries at each of three hops at
            // worst.
            let mut newest = (0, world.now);
            for got in &world.got[&S] {
                if got.counter > newest.0 {
                    newest = (got.counter, got.at);
                }
                assert!(got.at.since(newest.1) < Duration::from_millis(400), "late: {got:?}");
            }
        }
        assert!(
            missed * 1000 <= all * most,
            "{missed} of {all} at a loss of {loss} in a thousand on each of three hops"
        );
    }
}

/// A watcher that waits for the stream to begin, so that nothing tells how long a round trip takes.
#[test]
fn late_stream_start_misses_little() {
    let (mut missed, mut all) = (0, 0);
    for seed in 0..100 {
        let mut world = RelayWorld::new(seed);
        world.all_connections(Connection { loss: 10, ..Connection::default() });
        world.publish(P);
        world.publishes.clear();
        world.subscribe(&[P, HP, HS, S]);
        world.passes(3 * SECOND);
        world.publish(P);
        world.passes(7 * SECOND);
        // All that is published has time to arrive.
        world.publishes.clear();
        world.passes(SECOND);
        missed += world.published() - world.in_order(S);
        all += world.published();
    }
    assert!(missed * 50_000 <= all, "{missed} of {all}");
}

/// A joiner gets the group of pictures that has begun: lost packets of it are repaired, though they are old.
#[test]
fn joiner_burst_is_repaired() {
    for_seeds(20, |seed| {
        let mut world = RelayWorld::new(seed);
        world.connection(HP, S, Connection { loss: 50, ..Connection::default() });
        world.publish(P);
        world.subscribe(&[P, HP, S + 1]);
        // Most of a group of ten frames: 24 packets, the first of which is older than packets that are repaired.
        world.passes(SECOND + FRAME * 9 + FRAME / 2);
        world.subscribe(&[P, HP, S]);
        world.passes(SECOND);
        world.publishes.clear();
        world.passes(SECOND);
        let first = world.once_each(S)[0];
        assert!(world.published() - first > 3 * PACKETS, "it had a burst");
        assert_eq!(world.in_order(S), world.published() - first, "{:?}", world.got[&S]);
    });
}

#[test]
fn loss_before_pause_is_repaired() {
    let (mut missed, mut bursts) = (0, 0);
    for seed in 0..10 {
        let mut world = RelayWorld::new(seed);
        world.publish(P);
        world.subscribe(&[P, HP, HS, S]);
        world.passes(SECOND);
        world.all_connections(Connection { loss: 50, ..Connection::default() });
        // A frame each half second.
        for _ in 0..100 {
            world.publishes.clear();
            world.passes(SECOND / 2);
            bursts += 1;
            missed += u64::from(world.once_each(S).last() != Some(&(world.published() - 1)));
            world.publish(P);
            world.passes(FRAME / 2);
        }
    }
    // Three hops lose a seventh of all last packets. What repairs them is lost once in ten times.
    assert!(missed * 40 <= bursts, "{missed} of {bursts}");
}

/// A satellite: who asks again has the answer when it is of no use any more.
#[test]
fn parity_recovers_loss_on_long_paths() {
    for_seeds(3, |seed| {
        let mut world = RelayWorld::new(seed);
        world.connection(HP, HS, Connection { delay: Duration::from_millis(300), loss: 20, ..Connection::default() });
        world.publish(P);
        world.subscribe(&[P, HP, HS, S]);
        world.subscribe(&[P, HP, S + 1]);
        world.passes(20 * SECOND);
        world.forget_traffic();
        world.passes(60 * SECOND);
        let (missing, span) = missing(&world, S);
        // Two of parity for sixteen leave blocks that lose three: a seventh of a hundredth of all.
        assert!(missing * 200 <= span, "{missing} of {span}, and a fiftieth is lost");
        // Parity follows its packets: only what was lost is brought back, and all that was lost is counted.
        let status = world.status(HS).unwrap();
        let reported = status.upstreams[0].reported;
        let lost = reported.lost as f64 / (reported.received + reported.missed) as f64;
        assert!((0.015..0.025).contains(&lost), "{reported:?}");
        assert_eq!(status.arrivals.duplicate, 0);
        // Parity costs what it must, where it must.
        let parity = |from, to| {
            let said = world.said.get(&(from, to)).into_iter().flatten();
            said.filter(|said| matches!(said, ControlPacket::Parity(_))).count() as u64
        };
        let cost = parity(HP, HS) as f64 / world.carried(HP, HS) as f64;
        assert!((0.06..0.3).contains(&cost), "{cost}");
        assert_eq!([parity(P, HP), parity(HP, S + 1), parity(HS, S)], [0; 3]);
        world.assert_whole(S + 1);
    });
}

#[test]
fn timely_repair_gets_no_parity() {
    let mut world = RelayWorld::new(1);
    world.all_connections(Connection { loss: 20, ..Connection::default() });
    world.publish(P);
    world.subscribe(&[P, HP, HS, S]);
    world.passes(60 * SECOND);
    assert!(world.said.values().flatten().all(|said| !matches!(said, ControlPacket::Parity(_))));
}

#[test]
fn a_lossy_subscriber_harms_no_other() {
    for_seeds(5, |seed| {
        let mut world = RelayWorld::new(seed);
        world.connection(HS, S, Connection { loss: 200, ..Connection::default() });
        world.publish(P);
        world.subscribe(&[P, HP, HS, S]);
        world.subscribe(&[P, HP, HS, S + 1]);
        world.passes(10 * SECOND);
        world.assert_whole(S + 1);
        assert!(world.got[&(S + 1)].windows(2).all(|pair| pair[0].counter < pair[1].counter));
        let (_, reported) = {
            let status = world.status(HS).unwrap();
            let member = status.downstreams.iter().find(|member| member.address == at(S)).unwrap();
            (member.statistics, member.reported)
        };
        // A fifth, as the lossy one says itself.
        let share = reported.lost as f64 / (reported.lost + reported.received) as f64;
        assert!((0.1..0.3).contains(&share), "{reported:?}");
    });
}

#[test]
fn stalled_subscriber_resumes_at_key_frame() {
    let mut world = RelayWorld::new(1);
    world.publish(P);
    world.subscribe(&[P, HP, HS, S]);
    world.subscribe(&[P, HP, HS, S + 1]);
    world.passes(2 * SECOND);
    world.stalled.insert(S);
    world.passes(2 * SECOND);
    world.stalled.clear();
    world.passes(2 * SECOND);
    world.assert_whole(S + 1);
    let got = world.once_each(S);
    let gap = got.windows(2).find(|pair| pair[1] > pair[0] + 1).unwrap();
    assert_eq!(gap[1] % 40, 0, "it goes on with a key frame: {gap:?}");
    let delays: Vec<_> = world.got[&(S + 1)].windows(2).map(|pair| pair[1].at.since(pair[0].at)).collect();
    assert!(delays[40..].iter().all(|delay| *delay <= Duration::from_millis(41)));
}

#[test]
fn upstream_changes_under_loss_miss_little() {
    for_seeds(4, |seed| {
        let mut world = RelayWorld::new(seed);
        world.all_connections(Connection {
            loss: 10,
            jitter: Duration::from_millis(3),
            repeats: 10,
            ..Connection::default()
        });
        world.publish(P);
        world.subscribe(&[P, HP, HS, S]);
        world.passes(2 * SECOND);
        for hub in [4, 5, 6] {
            world.subscribe(&[P, HP, hub, S]);
            world.passes(2 * SECOND);
        }
        let (missing, span) = missing(&world, S);
        assert!(missing * 200 <= span, "{missing} of {span}");
    });
}
