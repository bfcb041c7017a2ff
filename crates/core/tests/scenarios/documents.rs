//! Documents of the group spread from member to member: a revocation list, and whom it shuts out.

use std::time::Duration;

use roost_core::node::NodeEvent;
use roost_wire::Service;
use roost_wire::messages::{DocumentKind, DocumentMessage, DocumentPart, Holdings, MAX_DOCUMENT_PART, Message};

use crate::world::documents::{SIGNED, list};
use crate::world::seeds::{for_few_seeds, for_seeds};
use crate::world::{HostId, MS, SECOND, World};

/// Two roots, four homes below both, and nodes at the homes.
struct Group {
    world: World,
    roots: Vec<HostId>,
    homes: Vec<HostId>,
    nodes: Vec<HostId>,
}

impl Group {
    fn new(seed: u64, nodes: usize) -> Self {
        let mut world = World::new(seed);
        let first = [HostId(0), HostId(1)];
        let roots: Vec<HostId> = first.iter().map(|_| world.hub_below(1, &[], &first)).collect();
        let homes: Vec<HostId> = (0..4).map(|_| world.hub_below(0, &roots, &[])).collect();
        world.run(2 * SECOND);
        let offers = [Service::Track];
        let nodes = (0..nodes).map(|n| world.node((n as i32 % 100, n as i32 % 4), &offers, &[homes[n % 4]])).collect();
        let mut group = Self { world, roots, homes, nodes };
        group.world.publish_everywhere();
        for _ in 0..300 {
            if group.nodes.iter().all(|node| group.world.is_attached(*node)) {
                break;
            }
            group.world.run(100 * MS);
        }
        group.world.run(10 * SECOND);
        group.world.document_bytes.clear();
        group
    }

    fn others(&self, host: HostId) -> Vec<HostId> {
        (0..self.world.hosts.len()).map(HostId).filter(|other| *other != host).collect()
    }

    /// Hosts that do not have this list yet.
    fn behind(&self, number: u64, but: HostId) -> Vec<HostId> {
        self.others(but).into_iter().filter(|host| self.world.list_number(*host) < number).collect()
    }

    /// Runs until all but one have the list.
    fn until_all_know(&mut self, seed: u64, number: u64, but: HostId, limit: Duration) {
        let others = self.others(but);
        let end = self.world.now + limit;
        while self.world.now < end && others.iter().any(|host| self.world.list_number(*host) < number) {
            self.world.run(limit / 20);
        }
        assert!(self.behind(number, but).is_empty(), "seed {seed}: {:?} do not know of it", self.behind(number, but));
    }
}

#[test]
fn ten_thousand_shut_out_a_revoked_node() {
    for_few_seeds(|seed| {
        let mut group = Group::new(seed, 10_000);
        let (publisher, revoked) = (group.nodes[17], group.nodes[4_242]);
        // From a node to its home, to a root, to another home, to its node.
        let diameter = 4 * group.world.path.delay;
        group.world.publish_list(publisher, &list(2, SIGNED, &[revoked], 420));
        group.until_all_know(seed, 2, revoked, diameter + 2 * SECOND);
        group.world.run(SECOND);
        assert!(group.world.connections_at(revoked).is_empty(), "seed {seed}");
        let most = group.nodes.iter().filter_map(|node| group.world.document_bytes.get(node)).max().unwrap();
        assert!(*most <= 1_000, "seed {seed}: {most} bytes");
        group.world.run(60 * SECOND);
        assert!(!group.world.is_attached(revoked), "seed {seed}");
        let most = group.nodes.iter().filter_map(|node| group.world.document_bytes.get(node)).max().unwrap();
        assert!(*most <= 1_000, "seed {seed}: {most} bytes later");
        let status = &group.world.hub_at(group.roots[0]).documents(10)[0];
        let behind: Vec<u32> = status.hubs.iter().map(|hub| hub.behind).collect();
        assert_eq!((status.document.number, behind.len()), (2, 5), "seed {seed}: {:?}", status.hubs);
        assert_eq!(behind.iter().sum::<u32>(), 0, "seed {seed}: {:?}", status.hubs);
    });
}

#[test]
fn healed_partition_catches_up() {
    for_seeds(10, |seed| {
        let mut group = Group::new(seed, 12);
        let (home, revoked) = (group.homes[1], group.nodes[1]);
        let inside: Vec<HostId> =
            group.nodes.iter().copied().filter(|node| group.world.home(*node) == Some(home)).collect();
        for a in inside.iter().chain([&home]) {
            for b in group.others(home).into_iter().filter(|b| !inside.contains(b)) {
                group.world.cut(*a, b);
            }
        }
        let publisher = group.roots[(seed % 2) as usize];
        group.world.publish_list(publisher, &list(2, SIGNED, &[revoked], 420));
        group.world.run(MS * (seed * 977 % 90_000) as u32);
        assert_eq!(group.world.list_number(home), 1, "seed {seed}");
        group.world.heal();
        group.until_all_know(seed, 2, revoked, 60 * SECOND);
    });
}

#[test]
fn sleeping_node_hears_of_it_when_it_wakes() {
    for_seeds(10, |seed| {
        let mut group = Group::new(seed, 8);
        let (sleeper, revoked) = (group.nodes[2], group.nodes[5]);
        group.world.freeze(sleeper);
        group.world.publish_list(group.roots[0], &list(2, SIGNED, &[revoked], 420));
        group.world.run(SECOND * (1 + seed as u32 * 40));
        group.world.thaw(sleeper);
        group.until_all_know(seed, 2, revoked, 90 * SECOND);
    });
}

#[test]
fn standby_tells_what_the_home_holds_back() {
    for_seeds(10, |seed| {
        let mut world = World::new(seed);
        let hubs = world.mesh(3);
        world.run(2 * SECOND);
        let nodes: Vec<HostId> = (0..6).map(|x| world.node((x, 0), &[Service::Track], &hubs)).collect();
        world.publish_everywhere();
        world.run_until_attached();
        world.run(10 * SECOND);
        let withholding = world.home(nodes[0]).unwrap();
        assert!(nodes.iter().all(|node| world.standby(*node).is_some()), "seed {seed}");
        world.withholding.push(withholding);
        let publisher = hubs.into_iter().find(|hub| *hub != withholding).unwrap();
        world.publish_list(publisher, &list(2, SIGNED, &[], 420));
        let know = |world: &World| nodes.iter().all(|node| world.list_number(*node) == 2);
        assert!(world.run_while(2 * SECOND, know), "seed {seed}");
    });
}

/// Says something to a hub in the place of a node.
fn say(world: &mut World, from: HostId, to: HostId, message: DocumentMessage) {
    assert!(world.inject(from, to, Message::from(message).encode()));
}

fn holdings(number: u64) -> Holdings {
    let mut holdings = Holdings::default();
    holdings.set(DocumentKind::REVOCATIONS, number);
    holdings
}

#[test]
fn lying_holdings_delay_nothing() {
    for_seeds(10, |seed| {
        let mut group = Group::new(seed, 12);
        let liars: Vec<HostId> = group.nodes[..4].to_vec();
        let homes: Vec<HostId> = liars.iter().map(|liar| group.world.home(*liar).unwrap()).collect();
        group.world.withholding.extend(&liars);
        for _ in 0..600 {
            for (liar, home) in liars.iter().zip(&homes) {
                let number = u64::MAX - seed;
                say(&mut group.world, *liar, *home, DocumentMessage::Holdings(holdings(number)));
            }
            group.world.run(SECOND / 10);
        }
        let most = group.world.document_bytes.values().max().copied().unwrap_or_default();
        assert!(most < 600, "seed {seed}: {most} bytes of asking");
        group.world.publish_list(group.nodes[9], &list(2, SIGNED, &[], 420));
        group.world.run(4 * SECOND);
        assert!(group.behind(2, liars[0]).iter().all(|host| liars.contains(host)), "seed {seed}");
    });
}

#[test]
fn liars_do_not_keep_long_lists_away() {
    for_seeds(5, |seed| {
        let mut group = Group::new(seed, 12);
        let liars: Vec<HostId> = group.nodes[..4].to_vec();
        let homes: Vec<HostId> = liars.iter().map(|liar| group.world.home(*liar).unwrap()).collect();
        group.world.withholding.extend(&liars);
        let part = |number, length, offset, sent| {
            let (kind, bytes) = (DocumentKind::REVOCATIONS, vec![7; sent].into());
            DocumentMessage::Document(DocumentPart { kind, number, length, offset, bytes })
        };
        for step in 0..1_000 {
            if step == 400 {
                group.world.publish_list(group.nodes[9], &list(2, SIGNED, &[], 1 << 18));
            }
            let number = u64::MAX - 10_000 + u64::from(step);
            // The first only claims, the second drips, the third sends junk, and the last half of what it is asked.
            let said = [
                DocumentMessage::Holdings(holdings(number)),
                part(u64::MAX, 4 << 20, step, 1),
                part(number, 40, 0, 40),
                part(number, 2 * MAX_DOCUMENT_PART as u32, 0, MAX_DOCUMENT_PART),
            ];
            for ((liar, home), message) in liars.iter().zip(&homes).zip(said) {
                say(&mut group.world, *liar, *home, DocumentMessage::Holdings(holdings(number)));
                say(&mut group.world, *liar, *home, message);
            }
            group.world.run(SECOND / 10);
        }
        assert!(group.behind(2, liars[0]).iter().all(|host| liars.contains(host)), "seed {seed}");
    });
}

#[test]
fn bad_lists_are_refused_and_their_sender_is_heard_no_more() {
    for_seeds(10, |seed| {
        let mut group = Group::new(seed, 8);
        let forger = group.nodes[3];
        let home = group.world.home(forger).unwrap();
        let part = |number, bytes: bytes::Bytes| {
            let (kind, length) = (DocumentKind::REVOCATIONS, bytes.len() as u32);
            DocumentMessage::Document(DocumentPart { kind, number, length, offset: 0, bytes })
        };
        // Without a signature, of another group, cut off, and an old one under a new number.
        let revoked = [group.nodes[0], group.nodes[1]];
        let (forged, foreign) = (list(9, 0, &revoked, 300), list(9, 2, &revoked, 300));
        let bad =
            [(9, forged), (9, foreign), (9, list(9, SIGNED, &revoked, 0).slice(..9)), (9, list(1, SIGNED, &[], 300))];
        for (number, bytes) in bad.iter().cycle().take(40) {
            say(&mut group.world, forger, home, part(*number, bytes.clone()));
            group.world.run(50 * MS);
        }
        let counters = group.world.hub_at(home).document_counters();
        assert_eq!(counters.refused, 3, "seed {seed}: {counters:?}");
        assert!(counters.dropped >= 36, "seed {seed}: {counters:?}");
        assert!(group.behind(1, forger).is_empty());
        assert!((0..group.world.hosts.len()).all(|host| group.world.list_number(HostId(host)) == 1), "seed {seed}");
        // An older list, whole and signed, changes nothing.
        let other = group.nodes[4];
        let home = group.world.home(other).unwrap();
        say(&mut group.world, other, home, part(0, list(0, SIGNED, &revoked, 300)));
        group.world.publish_list(group.roots[1], &list(2, SIGNED, &[], 300));
        group.until_all_know(seed, 2, forger, 10 * SECOND);
    });
}

#[test]
fn hub_that_starts_again_with_an_old_list_catches_up() {
    for_seeds(10, |seed| {
        let mut world = World::new(seed);
        let hubs = world.mesh(2);
        world.run(2 * SECOND);
        for x in 0..6 {
            world.node((x, 0), &[Service::Track], &hubs);
        }
        world.publish_everywhere();
        world.run_until_attached();
        world.publish_list(hubs[1], &list(2, SIGNED, &[], 400));
        world.run(5 * SECOND);
        world.kill(hubs[0]);
        world.run(SECOND);
        world.revive_hub(hubs[0]);
        world.publish_list(hubs[0], &list(1, SIGNED, &[], 300));
        world.run(30 * SECOND);
        assert!((0..world.hosts.len()).all(|host| world.list_number(HostId(host)) == 2), "seed {seed}");
    });
}

#[test]
fn long_list_crosses_lossy_paths() {
    for_seeds(5, |seed| {
        let mut group = Group::new(seed, 12);
        group.world.path.loss = 100;
        group.world.path.spread = 10 * MS;
        let long = list(2, SIGNED, &[group.nodes[3]], 1 << 20);
        group.world.publish_list(group.nodes[0], &long);
        group.until_all_know(seed, 2, group.nodes[3], 90 * SECOND);
    });
}

#[test]
fn nodes_tell_one_another_without_hubs() {
    for_seeds(10, |seed| {
        let mut world = World::new(seed);
        let nodes: Vec<HostId> = (0..2)
            .map(|_| world.node_with(&[], |config| config.services = [Service::Sensor].into_iter().collect()))
            .collect();
        let first = list(1, SIGNED, &[], 300);
        nodes.iter().for_each(|node| world.publish_list(*node, &first));
        world.publish_list(nodes[1], &list(2, SIGNED, &[], 300));
        let provider = roost_core::node::Provider {
            node: world.hosts[nodes[1].0].remote.node,
            addresses: crate::world::addresses(nodes[1].0),
        };
        let ticket =
            world.request_with(nodes[0], Service::Sensor, crate::NEAREST, |command| command.provider = Some(provider));
        assert!(matches!(world.outcome(nodes[0], ticket), NodeEvent::Finished { .. }), "seed {seed}");
        world.run(5 * SECOND);
        assert_eq!(world.list_number(nodes[0]), 2, "seed {seed}");
    });
}
