//! Super nodes learn of one another, and share the nodes between them.

use crate::*;

const MINUTE: Duration = Duration::from_secs(60);

/// Time in which all get to know all: what gossip has missed by chance, an announcement every two minutes
/// brings, which may be lost itself.
const TOGETHER: Duration = Duration::from_secs(500);

/// So near that hubs share their nodes.
const NEAR: Duration = Duration::from_millis(2);

fn members(world: &World, hub: HostId) -> Vec<MemberStatus> {
    world.hub_at(hub).members()
}

fn knows(world: &World, hub: HostId, other: HostId) -> bool {
    members(world, hub).iter().any(|member| member.node == node_id(other.0))
}

/// True if each of the hubs lists all the others, and no one else, and is connected to them.
fn all_know_all(world: &World, hubs: &[HostId]) -> bool {
    hubs.iter().all(|hub| {
        let mut known: Vec<NodeId> =
            members(world, *hub).iter().filter(|member| member.connected).map(|member| member.node).collect();
        known.sort();
        let mut others: Vec<NodeId> = hubs.iter().filter(|other| *other != hub).map(|other| node_id(other.0)).collect();
        others.sort();
        known == others && members(world, *hub).len() == others.len()
    })
}

/// Hubs of which each is told of the one before it only.
fn chain(world: &mut World, count: usize) -> Vec<HostId> {
    let mut hubs = Vec::new();
    for _ in 0..count {
        let last: Vec<HostId> = hubs.last().copied().into_iter().collect();
        hubs.push(world.hub_beside(&last));
    }
    hubs
}

fn leases(world: &World, hub: HostId) -> usize {
    world.hub_at(hub).status(world.now).nodes
}

/// A world of near hubs that are told of the first one only, and know one another.
fn near_hubs(seed: u64, count: usize) -> (World, Vec<HostId>) {
    let mut world = World::new(seed);
    world.path.delay = NEAR;
    let first = world.hub_beside(&[]);
    let mut hubs = vec![first];
    hubs.extend((1..count).map(|_| world.hub_beside(&[first])));
    let all = hubs.clone();
    assert!(world.run_while(TOGETHER, |world| all_know_all(world, &all)), "seed {seed}");
    (world, hubs)
}

/// Nodes that come one after the other within `span` and are told of all hubs,
/// the first one first.
fn nodes(world: &mut World, hubs: &[HostId], count: usize, span: Duration) -> Vec<HostId> {
    let nodes = (0..count)
        .map(|number| {
            let services = if number % 3 == 0 { &Service::ALL[..] } else { &[] };
            let node = world.node((number as i32 % 90, number as i32 / 90), services, hubs);
            world.run(span / count as u32);
            node
        })
        .collect();
    world.run_until_attached();
    nodes
}

#[test]
fn new_hub_learns_all_from_one() {
    for_seeds(3, |seed| {
        let mut world = World::new(seed);
        world.path.loss = 10 * (seed as u32 % 4);
        let mut hubs = chain(&mut world, 12);
        assert!(world.run_while(TOGETHER, |world| all_know_all(world, &hubs)), "seed {seed}");
        let newcomer = world.hub_beside(&hubs[5..6]);
        hubs.push(newcomer);
        assert!(world.run_while(TOGETHER, |world| all_know_all(world, &hubs)), "seed {seed}");
    });
}

#[test]
fn dead_hubs_delay_no_failover() {
    for_seeds(3, |seed| {
        let mut world = World::new(seed);
        let mut hubs = chain(&mut world, 5);
        world.run(MINUTE);
        let node = world.node((0, 0), &Service::ALL, &hubs[..1]);
        world.run_until_attached();
        world.run(MINUTE);
        let dead = hubs.remove(0);
        world.freeze(dead);
        let elsewhere = |world: &World| world.home(node).is_some_and(|home| home != dead);
        assert!(world.run_while(40 * SECOND, elsewhere), "seed {seed}: the node has no other home");
        assert!(hubs.iter().any(|hub| knows(&world, *hub, dead)), "seed {seed}: the list was faster than the node");
        let gone = |world: &World| all_know_all(world, &hubs);
        assert!(world.run_while(TOGETHER, gone), "seed {seed}: the dead one is still listed");
    });
}

#[test]
fn leaving_hub_is_removed_and_returns() {
    let (mut world, mut hubs) = near_hubs(1, 4);
    let leaver = hubs.remove(3);
    world.leave_hub(leaver);
    assert!(world.run_while(20 * SECOND, |world| all_know_all(world, &hubs)));
    world.kill(leaver);
    world.run(SECOND);
    // Nobody tells the returning hub of others this time, but a newcomer is told of it and of another one.
    world.revive_hub(leaver);
    let newcomer = world.hub_beside(&[leaver, hubs[0]]);
    hubs.extend([leaver, newcomer]);
    assert!(world.run_while(TOGETHER, |world| all_know_all(world, &hubs)));
}

#[test]
fn partitioned_hubs_merge_again() {
    for_seeds(2, |seed| {
        let mut world = World::new(seed);
        let hubs = chain(&mut world, 6);
        assert!(world.run_while(TOGETHER, |world| all_know_all(world, &hubs)), "seed {seed}");
        for a in &hubs[..3] {
            for b in &hubs[3..] {
                world.cut(*a, *b);
            }
        }
        let apart = |world: &World| all_know_all(world, &hubs[..3]) && all_know_all(world, &hubs[3..]);
        assert!(world.run_while(TOGETHER, apart), "seed {seed}: the halves do not notice");
        world.heal();
        assert!(world.run_while(TOGETHER, |world| all_know_all(world, &hubs)), "seed {seed}: the halves stay apart");
    });
}

#[test]
fn ninety_nodes_balance_over_three_hubs() {
    for_seeds(3, |seed| {
        for span in [Duration::ZERO, 3 * SECOND, MINUTE] {
            let (mut world, hubs) = near_hubs(seed, 3);
            let nodes = nodes(&mut world, &hubs, 90, span);
            world.run(5 * SECOND);
            let mut counts: Vec<usize> = hubs.iter().map(|hub| leases(&world, *hub)).collect();
            counts.sort_unstable();
            assert_eq!(counts.iter().sum::<usize>(), 90, "seed {seed}");
            assert!(counts[2] - counts[0] <= 1, "seed {seed}, within {span:?}: {counts:?}");
            let homes = nodes.iter().filter(|node| world.home(**node).is_some());
            assert_eq!(homes.count(), 90, "seed {seed}");
        }
    });
}

/// A node that would be farther from its home by more than is allowed stays.
#[test]
fn far_hubs_do_not_share() {
    let mut world = World::new(1);
    let hubs = world.mesh(3);
    world.run(10 * SECOND);
    nodes(&mut world, &hubs, 12, SECOND);
    assert_eq!(leases(&world, hubs[0]), 12);
}

#[test]
fn joining_hub_gains_share_gradually() {
    for_seeds(2, |seed| {
        let (mut world, mut hubs) = near_hubs(seed, 3);
        let nodes = nodes(&mut world, &hubs, 90, SECOND);
        world.run(20 * SECOND);
        let before: Vec<usize> = hubs.iter().map(|hub| leases(&world, *hub)).collect();
        let newcomer = world.hub_beside(&hubs[..1]);
        let (mut checker, mut asked) = (InvariantChecker::new(seed), Vec::new());
        let start = world.now;
        for second in 1..=40u32 {
            for part in 0..5usize {
                let requester = nodes[(second as usize * 5 + part) * 7 % nodes.len()];
                asked.push((requester, world.request(requester, Service::Sensor, NEAREST)));
                world.run(200 * MS);
                checker.check_now(&world);
            }
            for (hub, had) in hubs.iter().zip(&before) {
                let moves = world.hub_at(*hub).counters().rebalanced;
                let most = 1 + *had as u64 * u64::from(second) / 20;
                assert!(moves <= most, "seed {seed}: {moves} of {had} moved within {second} s");
            }
        }
        assert!(world.now.since(start) >= 40 * SECOND);
        let share: usize = before.iter().map(|had| had / 4).sum();
        hubs.push(newcomer);
        let counts: Vec<usize> = hubs.iter().map(|hub| leases(&world, *hub)).collect();
        assert_eq!(counts.iter().sum::<usize>(), 90, "seed {seed}: {counts:?}");
        assert!(counts[3].abs_diff(share) <= 1, "seed {seed}: {counts:?}, share {share}");
        world.run(20 * SECOND);
        checker.check_served(&world, &asked);
    });
}

/// Others send it nodes at once, and its own come back by and by: of these it keeps no more than its share.
#[test]
fn restarted_hub_regains_its_share() {
    let (mut world, hubs) = near_hubs(1, 3);
    let nodes = nodes(&mut world, &hubs, 60, SECOND);
    world.run(20 * SECOND);
    world.kill(hubs[0]);
    world.run(10 * SECOND);
    assert!(nodes.iter().all(|node| world.home(*node) != Some(hubs[0])));
    world.revive_hub(hubs[0]);
    world.run(40 * SECOND);
    let share = leases(&world, hubs[0]);
    assert!((15..=22).contains(&share), "{share} of 60 within 40 s");
    // Nodes come back whom nobody has sent, and others go in their place.
    world.run(5 * MINUTE);
    let counts: Vec<usize> = hubs.iter().map(|hub| leases(&world, *hub)).collect();
    assert!(counts.iter().all(|count| (15..=25).contains(count)), "{counts:?}");
    assert!(world.hub_at(hubs[0]).counters().adoptions > 0);
}

#[test]
fn nothing_moves_when_a_hub_leaves() {
    let (mut world, hubs) = near_hubs(1, 3);
    let nodes = nodes(&mut world, &hubs, 30, SECOND);
    world.run(30 * SECOND);
    let homes = |world: &World| nodes.iter().map(|node| world.home(*node)).collect::<Vec<_>>();
    let before = homes(&world);
    world.leave_hub(hubs[2]);
    world.run(2 * MINUTE);
    for (before, after) in before.into_iter().zip(homes(&world)) {
        assert!(before == Some(hubs[2]) || before == after, "{before:?} → {after:?}");
        assert!(after.is_some_and(|home| home != hubs[2]));
    }
    assert!(hubs[..2].iter().all(|hub| world.hub_at(*hub).counters().rebalanced == 0));
}

#[test]
fn a_run_repeats_by_its_seed() {
    let run = |seed| {
        let (mut world, hubs) = near_hubs(seed, 3);
        let nodes = nodes(&mut world, &hubs, 12, SECOND);
        world.request(nodes[1], Service::Sensor, ANYWHERE);
        let newcomer = world.hub_beside(&hubs[1..2]);
        world.run(2 * MINUTE);
        world.freeze(newcomer);
        world.run(2 * MINUTE);
        world.trace()
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

/// Membership costs little when nothing happens. The figures are in the book; further seeds measure a hundred
/// members.
#[test]
fn a_quiet_group_says_little() {
    for_few_seeds(|seed| {
        let sizes = if seed == 0 { &[10, 30][..] } else { &[100] };
        sizes.iter().for_each(|count| measure_quiet_group(seed, *count));
    });
}

fn measure_quiet_group(seed: u64, count: usize) {
    let mut world = World::new(seed);
    world.path = PathConditions { delay: 20 * MS, spread: 100 * MS, loss: 10, duplication: 0, rate: None };
    let hubs = chain(&mut world, count);
    assert!(world.run_while(10 * MINUTE, |world| all_know_all(world, &hubs)), "{count}: not all know all");
    world.run(2 * MINUTE);
    let sent = |world: &World| hubs.iter().map(|hub| world.hub_at(*hub).counters().gossip_bytes).sum::<u64>();
    let before = sent(&world);
    world.run(4 * MINUTE);
    assert!(all_know_all(&world, &hubs), "{count}: somebody was taken for dead");
    let rate = (sent(&world) - before) as f64 / 240.0 / count as f64;
    assert!((10.0..=50.0).contains(&rate), "{count} members: {rate:.1} B/s each");
}
