//! Reflection: a stream's way over super nodes, a single copy for all watchers, who may open it, and what
//! befalls both.

use crate::tiers::HubTree;
use crate::tiers::place;
use crate::*;

pub(crate) const PLACE: Cell = Cell::new(27, 92);
pub(crate) const THERE: Area = Area::Exact(PLACE);

/// Two hubs that know one another; a provider at the first, and subscribers at
/// the second whose standby is the first.
pub(crate) struct TwoHubScene {
    pub(crate) world: World,
    pub(crate) hubs: [HostId; 2],
    pub(crate) provider: HostId,
    pub(crate) watchers: Vec<HostId>,
}

impl TwoHubScene {
    pub(crate) fn new(seed: u64, watchers: usize) -> Self {
        let mut world = World::new(seed);
        let hubs = world.mesh(2);
        world.run(2 * SECOND);
        let provider = world.node((PLACE.x, PLACE.y), &[Service::Video], &[hubs[0], hubs[1]]);
        let watchers = (0..watchers).map(|_| world.node((0, 0), &[], &[hubs[1], hubs[0]])).collect();
        world.run_until_attached();
        // Past the time in which hubs are young and even out their nodes.
        world.run(70 * SECOND);
        Self { world, hubs: [hubs[0], hubs[1]], provider, watchers }
    }

    pub(crate) fn subscribe(&mut self, watcher: usize) -> Ticket {
        let ticket = self.world.subscribe(self.watchers[watcher], Service::Video, THERE);
        self.world.run_relays(SECOND);
        ticket
    }

    pub(crate) fn is_watching(&self, watcher: usize, ticket: Ticket) -> bool {
        self.world.receives_stream(self.watchers[watcher], ticket, self.provider)
    }

    fn way(&self, watcher: usize, ticket: Ticket) -> Option<Vec<HostId>> {
        self.world.stream_route(self.watchers[watcher], ticket)
    }
}

fn sources(world: &World, provider: HostId) -> usize {
    world.hosts[provider.0].media.published.len()
}

#[test]
fn subscribers_share_one_source() {
    let (mut world, hub, provider, first) = single_hub_world(1, Role::SuperNode);
    let second = world.node((1, 1), &[], &[hub]);
    world.run_until_attached();
    let tickets = [first, second].map(|node| (node, world.subscribe(node, Service::Video, THERE)));
    world.run_relays(2 * SECOND);
    for (node, ticket) in tickets {
        assert!(world.receives_stream(node, ticket, provider));
        assert_eq!(world.stream_route(node, ticket), Some(vec![hub]));
    }
    assert_eq!(world.hosts[provider.0].opened.len(), 1);
    let status = world.status(provider);
    assert_eq!((status.publications.len(), status.publications[0].members), (1, 2));
    assert!(world.hosts[first.0].payloads(tickets[0].1).next().is_none(), "nothing comes over the connection");
    for (node, ticket) in tickets {
        world.cancel(node, ticket);
    }
    world.run_relays(10 * SECOND);
    assert_eq!(sources(&world, provider), 0, "nothing flows where nobody watches");
}

#[test]
fn departure_rekeys_remaining_subscribers() {
    let mut two = TwoHubScene::new(1, 3);
    let tickets = [0, 1, 2].map(|watcher| two.subscribe(watcher));
    two.world.cancel(two.watchers[1], tickets[1]);
    two.world.run_relays(2 * SECOND);
    let last = Epoch(2);
    let epochs = |watcher: usize| two.world.hosts[two.watchers[watcher].0].epochs(tickets[watcher]);
    assert!(two.is_watching(0, tickets[0]) && two.is_watching(2, tickets[2]));
    assert_eq!((epochs(0).contains(&last), epochs(2).contains(&last)), (true, true));
    let told = two.world.events(two.watchers[1]).iter();
    let keys = told.filter(|(_, event)| matches!(event, NodeEvent::Key { epoch, .. } if *epoch == last));
    assert_eq!(keys.count(), 0);
    let late = two.subscribe(1);
    assert!(two.is_watching(1, late));
    assert_eq!(two.world.hosts[two.provider.0].opened.len(), 1, "the source goes on");
}

#[test]
fn leaving_requester_is_rekeyed_out() {
    let mut two = TwoHubScene::new(1, 2);
    let [first, other] = [0, 1].map(|watcher| two.subscribe(watcher));
    // The provider cannot reach it over what it asks for.
    two.world.dial_timeout = 10 * SECOND;
    two.world.cut(two.provider, two.watchers[0]);
    two.world.subscribe_with(two.watchers[0], Service::Video, THERE, |wanted| {
        wanted.transports = SchemeSet::only(Scheme::Tcp);
    });
    two.world.run_relays(SECOND);
    two.world.heal();
    two.world.cancel(two.watchers[0], first);
    two.world.run_relays(SECOND);
    assert!(two.world.hosts[two.watchers[1].0].epochs(other).contains(&Epoch(2)));
}

#[test]
fn resubscription_ignores_request_limit() {
    let mut two = TwoHubScene::new(4, 1);
    let subscribe = |_| {
        let ticket = two.world.subscribe(two.watchers[0], Service::Video, THERE);
        two.world.run_relays(20 * MS);
        ticket
    };
    let tickets: Vec<Ticket> = (0..MAX_REQUESTS).map(subscribe).collect();
    two.world.run_relays(SECOND);
    assert!(tickets.iter().all(|ticket| two.is_watching(0, *ticket)));
    two.world.kill(two.hubs[1]);
    two.world.run_relays(20 * SECOND);
    assert!(tickets.iter().all(|ticket| two.is_watching(0, *ticket)));
}

#[test]
fn stream_passes_both_homes() {
    let mut two = TwoHubScene::new(2, 2);
    let first = two.subscribe(0);
    assert!(two.is_watching(0, first));
    assert_eq!(two.way(0, first), Some(two.hubs.to_vec()));
    let known = |two: &TwoHubScene, hub: HostId| {
        two.world.hosts[hub.0].media.grants.iter().all(|grant| grant.provider.is_some())
    };
    assert!(known(&two, two.hubs[0]));
    let second = two.subscribe(1);
    assert!(two.is_watching(1, second));
    assert_eq!(two.way(1, second), Some(two.hubs.to_vec()));
}

#[test]
fn subscription_lasts_its_duration() {
    let mut two = TwoHubScene::new(3, 2);
    let timed = two.world.subscribe_with(two.watchers[0], Service::Video, THERE, |wanted| {
        wanted.duration = Some(5 * SECOND);
    });
    let endless = two.subscribe(1);
    let summary = finished(&mut two.world, two.watchers[0], timed);
    assert!(summary.complete && summary.reason.is_none(), "{summary:?}");
    assert!(summary.elapsed >= 5 * SECOND && summary.elapsed < 6 * SECOND, "{summary:?}");
    two.world.run_relays(300 * SECOND);
    assert!(two.is_watching(1, endless));
    assert_eq!(two.world.status(two.provider).publications[0].members, 1);
    two.world.command(two.provider, NodeCommand::Leave);
    let summary = finished(&mut two.world, two.watchers[1], endless);
    assert_eq!(summary.reason, Some(Reason::Leaving));
}

#[test]
fn ending_subscription_completes_it() {
    let mut two = TwoHubScene::new(3, 2);
    let (one, other) = (two.watchers[0], two.watchers[1]);
    let endless = two.subscribe(0);
    two.world.run_relays(5 * SECOND);
    two.world.command(one, NodeCommand::EndSubscription { ticket: endless });
    let summary = finished(&mut two.world, one, endless);
    assert!(summary.complete && summary.reason.is_none(), "{summary:?}");
    assert!(summary.elapsed >= 6 * SECOND && summary.elapsed < 7 * SECOND, "{summary:?}");
    two.world.run_relays(10 * SECOND);
    assert_eq!(sources(&two.world, two.provider), 0, "nothing flows where nobody watches");
    let own = two.world.request(other, Service::Video, THERE);
    two.world.run(SECOND);
    two.world.command(other, NodeCommand::EndSubscription { ticket: own });
    assert_eq!(failed(&mut two.world, other, own), Reason::Cancelled);
}

#[test]
fn saturated_hub_declines_with_retry_after() {
    let mut two = TwoHubScene::new(4, 2);
    // A hub sends a single copy to the other home, and a single one to the first watcher.
    two.world.copies = Some(1);
    two.world.run_relays(SECOND);
    let first = two.subscribe(0);
    assert!(two.is_watching(0, first));
    let second = two.world.subscribe(two.watchers[1], Service::Video, THERE);
    match two.world.outcome(two.watchers[1], second) {
        NodeEvent::Failed { reason, retry_after, .. } => {
            assert_eq!((reason, retry_after), (Reason::Saturated, Some(5 * SECOND)));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn busy_provider_switches_to_reflection() {
    let mut world = World::new(5);
    let hub = world.hub(Role::SuperNode);
    let provider = world.node_with(&[hub], |config| {
        config.services = [Service::Video].into_iter().collect();
        (config.cell, config.max_streams) = (PLACE, 1);
    });
    let nodes = [0, 1].map(|x| world.node((x, 0), &[], &[hub]));
    world.run_until_attached();
    let tickets = nodes.map(|node| {
        let ticket = world.request_with(node, Service::Video, THERE, |wanted| {
            wanted.reflect = ReflectionPolicy::IfBusy;
            wanted.duration = Some(60 * SECOND);
        });
        world.run_relays(2 * SECOND);
        ticket
    });
    for (node, ticket) in nodes.into_iter().zip(tickets) {
        assert!(world.receives_stream(node, ticket, provider), "{node:?}");
    }
    assert!(world.hosts[nodes[0].0].payloads(tickets[0]).next().is_some(), "it was a stream of its own at first");
    let summary = finished(&mut world, nodes[0], tickets[0]);
    assert!(summary.complete && summary.elapsed < 62 * SECOND, "{summary:?}");
}

/// A fault of a host while its subscription goes on.
type Fault = fn(&mut World, HostId);

/// The stream is there again in time, and its ticket is the same.
fn survives(seed: u64, two: &mut TwoHubScene, ticket: Ticket, fault: Fault, host: HostId, within: Duration) {
    assert!(two.is_watching(0, ticket), "seed {seed}: it never began");
    fault(&mut two.world, host);
    two.world.run_relays(within);
    assert!(two.is_watching(0, ticket), "seed {seed}: {:?}", two.world.status(two.watchers[0]).requests);
    let way = two.way(0, ticket);
    assert!(way.as_ref().is_some_and(|way| !way.contains(&host)), "seed {seed}: {way:?}");
}

#[test]
fn the_home_of_either_dies() {
    for_seeds(4, |seed| {
        for hub in 0..2 {
            let mut two = TwoHubScene::new(seed, 1);
            let ticket = two.subscribe(0);
            let host = two.hubs[hub];
            survives(seed, &mut two, ticket, World::kill, host, 10 * SECOND);
        }
    });
}

/// Remotes notice by and by, so this takes as long as their time-outs.
#[test]
fn the_home_of_either_freezes() {
    for_seeds(4, |seed| {
        for hub in 0..2 {
            let mut two = TwoHubScene::new(seed, 1);
            let ticket = two.subscribe(0);
            let host = two.hubs[hub];
            survives(seed, &mut two, ticket, World::freeze, host, 45 * SECOND);
        }
    });
}

#[test]
fn draining_home_interrupts_no_stream() {
    for_seeds(4, |seed| {
        for hub in 0..2 {
            let mut two = TwoHubScene::new(seed, 1);
            let (ticket, host) = (two.subscribe(0), two.hubs[hub]);
            two.world.leave_hub(host);
            for _ in 0..200 {
                two.world.run_relays(50 * MS);
                let moving = two.way(0, ticket).is_some_and(|way| way.contains(&host));
                if moving {
                    let resubscribe = NodeCommand::Resubscribe { ticket, lost: false };
                    two.world.command(two.watchers[0], resubscribe);
                }
                assert!(two.is_watching(0, ticket), "seed {seed}: broken while hub {hub} drains");
            }
            assert!(two.world.hosts[host.0].media.left, "seed {seed}: hub {hub} has not left");
            assert!(two.way(0, ticket).is_some_and(|way| !way.contains(&host)), "seed {seed}");
        }
    });
}

#[test]
fn failback_interrupts_no_stream() {
    for_seeds(4, |seed| {
        for hub in 0..2 {
            let mut two = TwoHubScene::new(seed, 1);
            let (ticket, host) = (two.subscribe(0), two.hubs[hub]);
            survives(seed, &mut two, ticket, World::freeze, host, 45 * SECOND);
            two.world.thaw(host);
            for _ in 0..5_600 {
                two.world.run_relays(50 * MS);
                assert!(two.is_watching(0, ticket), "seed {seed}: broken while the nodes of hub {hub} go back");
            }
            let homes = [two.provider, two.watchers[0]].map(|node| two.world.home(node));
            assert_eq!(homes, two.hubs.map(Some), "seed {seed}, hub {hub}");
        }
    });
}

#[test]
fn restarted_provider_resumes_stream() {
    for_seeds(4, |seed| {
        let mut two = TwoHubScene::new(seed, 1);
        let ticket = two.subscribe(0);
        let (provider, hubs) = (two.provider, two.hubs);
        let restart = if seed % 2 == 0 { World::restart_node } else { World::restart_silently };
        restart(&mut two.world, provider, &hubs, 5_000);
        let services = [Service::Video].into_iter().collect();
        two.world.command(provider, NodeCommand::Reconfigure { services, max_streams: 8, uplink_kbps: None });
        two.world.command(provider, NodeCommand::Move(PLACE.into()));
        two.world.run_relays(30 * SECOND);
        assert!(two.is_watching(0, ticket), "seed {seed}");
        two.world.kill(provider);
        two.world.run_relays(60 * SECOND);
        let summary = finished(&mut two.world, two.watchers[0], ticket);
        assert!(summary.reason.is_some() && !summary.complete, "seed {seed}: {summary:?}");
    });
}

#[test]
fn dead_subscriber_is_removed() {
    for_seeds(4, |seed| {
        let mut two = TwoHubScene::new(seed, 2);
        let tickets = [0, 1].map(|watcher| two.subscribe(watcher));
        let gone = two.watchers[0];
        if seed % 2 == 0 {
            two.world.kill(gone)
        } else {
            two.world.freeze(gone)
        }
        two.world.run_relays(60 * SECOND);
        assert_eq!(two.world.status(two.provider).publications[0].members, 1, "seed {seed}");
        assert!(two.is_watching(1, tickets[1]), "seed {seed}");
        let epochs = two.world.hosts[two.watchers[1].0].epochs(tickets[1]);
        assert!(epochs.contains(&Epoch(2)), "seed {seed}: {epochs:?}");
    });
}

/// A tenth of all messages is lost, a tenth comes twice, and all overtake one another.
#[test]
fn message_loss_and_duplication_are_repaired() {
    for_seeds(8, |seed| {
        let mut two = TwoHubScene::new(seed, 3);
        two.world.path.loss = 100;
        two.world.path.duplication = 100;
        two.world.path.spread = 10 * MS;
        let tickets = [0, 1, 2].map(|watcher| {
            let watcher = two.watchers[watcher];
            two.world.subscribe_with(watcher, Service::Video, THERE, |wanted| wanted.timeout = Some(30 * SECOND))
        });
        two.world.run_relays(20 * SECOND);
        let stream = |two: &TwoHubScene| -> Vec<_> {
            let published = two.world.hosts[two.provider.0].media.published.iter();
            published.map(|(session, (stream, _))| (*session, *stream)).collect()
        };
        let before = stream(&two);
        two.world.cancel(two.watchers[2], tickets[2]);
        two.world.run_relays(60 * SECOND);
        for (watcher, ticket) in tickets.into_iter().enumerate().take(2) {
            assert!(two.is_watching(watcher, ticket), "seed {seed}: {watcher}");
            let epochs = two.world.hosts[two.watchers[watcher].0].epochs(ticket);
            assert!(epochs.contains(&Epoch(2)), "seed {seed}: {watcher} {epochs:?}");
        }
        assert_eq!(sources(&two.world, two.provider), 1, "seed {seed}");
        assert_eq!(stream(&two), before, "seed {seed}: nobody's loss stops the source");
    });
}

/// Up, across and down goes the request; the stream goes from home to home, or
/// by one hub between them.
#[test]
fn tiers_route_stream_between_homes() {
    for layers in [1, 2] {
        let mut tree = HubTree::with_layers(1, layers);
        let (watcher, provider) = (tree.requesters[0], tree.providers[3]);
        let ticket = tree.world.subscribe(watcher, Service::Video, Area::Exact(place(3)));
        tree.world.run_relays(3 * SECOND);
        assert!(tree.world.receives_stream(watcher, ticket, provider), "{layers} layers");
        let between = (layers > 1).then_some(tree.areas[0]);
        let way: Vec<HostId> = [Some(tree.homes[3]), between, Some(tree.homes[0])].into_iter().flatten().collect();
        assert_eq!(tree.world.stream_route(watcher, ticket), Some(way));
        let whose = |hub: HostId| tree.world.hosts[hub.0].media.grants.last().and_then(|grant| grant.provider);
        assert_eq!(whose(tree.homes[0]), Some(node_id(provider.0)), "it comes back along the way of the request");
        // The next subscriber names the provider, and the hubs on the way do not count it again.
        let next = tree.world.subscribe(tree.requesters[0], Service::Video, Area::Exact(place(3)));
        tree.world.run_relays(3 * SECOND);
        assert!(tree.world.receives_stream(watcher, next, provider));
        assert_eq!(tree.world.hosts[provider.0].opened.len(), 1);
    }
}

#[test]
fn restarted_hub_reflects_again() {
    for_seeds(4, |seed| {
        let (mut world, hub, provider, watcher) = single_hub_world(seed, Role::SuperNode);
        let ticket = world.subscribe(watcher, Service::Video, THERE);
        world.run_relays(2 * SECOND);
        world.kill(hub);
        world.run_relays(SECOND * (1 + seed as u32 % 4));
        world.revive_hub(hub);
        world.run_relays(20 * SECOND);
        assert!(world.receives_stream(watcher, ticket, provider), "seed {seed}");
    });
}

#[test]
fn provider_in_cell_takes_over() {
    let mut two = TwoHubScene::new(6, 1);
    let ticket = two.subscribe(0);
    let other = two.world.node((PLACE.x, PLACE.y), &[Service::Video], &[two.hubs[0], two.hubs[1]]);
    two.world.run_until_attached();
    two.world.run_relays(2 * SECOND);
    two.world.kill(two.provider);
    two.world.run_relays(25 * SECOND);
    assert!(two.world.receives_stream(two.watchers[0], ticket, other));
}

#[test]
fn named_provider_is_not_substituted() {
    let mut two = TwoHubScene::new(7, 1);
    let other = two.world.node((PLACE.x, PLACE.y), &[Service::Video], &[two.hubs[0], two.hubs[1]]);
    two.world.run_until_attached();
    two.world.run_relays(2 * SECOND);
    for provider in [other, two.provider] {
        let ticket = two.world.subscribe_with(two.watchers[0], Service::Video, THERE, |wanted| {
            wanted.provider = Some(Provider { node: node_id(provider.0), addresses: Vec::new() });
        });
        two.world.run_relays(2 * SECOND);
        assert!(two.world.receives_stream(two.watchers[0], ticket, provider));
    }
    let nobody = two.world.subscribe_with(two.watchers[0], Service::Video, THERE, |wanted| {
        wanted.provider = Some(Provider { node: node_id(200), addresses: Vec::new() });
    });
    assert_eq!(failed(&mut two.world, two.watchers[0], nobody), Reason::NotFound);
}

#[test]
fn unreflectable_request_refused_or_direct() {
    let (mut world, _, _, watcher) = single_hub_world(8, Role::Server);
    let always = world.subscribe(watcher, Service::Video, THERE);
    assert_eq!(failed(&mut world, watcher, always), Reason::NotAllowed);
    let (mut world, _, _, watcher) = single_hub_world(9, Role::SuperNode);
    let object = world.subscribe(watcher, Service::Image, THERE);
    assert_eq!(failed(&mut world, watcher, object), Reason::NotAllowed);
    // A provider whose owner has no relay sends a stream of the requester's own.
    let mut world = World::new(10);
    let hub = world.hub(Role::SuperNode);
    world.node_with(&[hub], |config| {
        config.services = [Service::Video].into_iter().collect();
        (config.cell, config.media) = (PLACE, None);
    });
    let watcher = world.node((0, 0), &[], &[hub]);
    world.run_until_attached();
    let ticket = world.subscribe_with(watcher, Service::Video, THERE, |wanted| wanted.duration = Some(SECOND));
    let summary = finished(&mut world, watcher, ticket);
    assert!(summary.complete && summary.bytes > 0, "{summary:?}");
}

/// Whatever befalls hubs and ways, in the end every subscription has a stream
/// that it can open, or has ended once, and nothing goes on for nobody.
#[test]
fn subscriptions_recover_from_random_faults() {
    for_seeds(6, |seed| {
        let mut world = World::new(seed);
        let mut random = SplitMix64::new(seed);
        let hubs = world.mesh(3);
        world.run(2 * SECOND);
        let order = |first: usize| -> Vec<HostId> { (0..3).map(|hub| hubs[(first + hub) % 3]).collect() };
        let providers = [0, 1].map(|n| world.node((PLACE.x, PLACE.y), &[Service::Video], &order(n)));
        let watchers = [0, 1, 2, 3].map(|n| world.node((0, 0), &[], &order(n)));
        world.run_until_attached();
        world.run_relays(70 * SECOND);
        world.path.loss = random.below(100) as u32;
        let mut tickets: Vec<(HostId, Ticket)> = Vec::new();
        for _ in 0..25 {
            let (watcher, hub) = (watchers[random.below(4) as usize], hubs[random.below(3) as usize]);
            match random.below(10) {
                0..=3 => {
                    let ticket = world.subscribe_with(watcher, Service::Video, THERE, |wanted| {
                        wanted.timeout = Some(30 * SECOND);
                    });
                    tickets.push((watcher, ticket));
                }
                4 => tickets.iter().take(1).for_each(|(host, ticket)| world.cancel(*host, *ticket)),
                5 => {
                    world.kill(hub);
                    world.run_relays(MS * random.below(9_000) as u32);
                    world.revive_hub(hub);
                }
                6 => world.break_connections(watcher, providers[random.below(2) as usize]),
                7 => {
                    world.cut(watcher, hub);
                    world.run_relays(MS * random.below(9_000) as u32);
                    world.heal();
                }
                8 => {
                    world.freeze(watcher);
                    world.run_relays(MS * random.below(9_000) as u32);
                    world.thaw(watcher);
                }
                _ => {
                    let lost = random.below(2) == 0;
                    let all = tickets.iter().map(|(host, ticket)| (*host, *ticket)).collect::<Vec<_>>();
                    for (host, ticket) in all {
                        world.command(host, NodeCommand::Resubscribe { ticket, lost });
                    }
                }
            }
            world.run_relays(MS * random.below(4_000) as u32);
        }
        world.path.loss = 0;
        world.run_relays(150 * SECOND);
        let mut members = 0;
        for (host, ticket) in &tickets {
            let endings = world.hosts[host.0].endings(*ticket).count();
            let watching = providers.iter().any(|provider| world.receives_stream(*host, *ticket, *provider));
            assert_eq!(endings, usize::from(!watching), "seed {seed}: {host:?} {ticket:?}");
            members += usize::from(watching);
        }
        let counted = |world: &World, provider: &HostId| -> usize {
            world.status(*provider).publications.iter().map(|publication| publication.members).sum()
        };
        // A node that goes back to a home that it lost has two ways for a moment.
        let counts = (0..20).map(|_| {
            let all = providers.iter().map(|provider| counted(&world, provider)).sum::<usize>();
            world.run_relays(500 * MS);
            all
        });
        assert!(counts.collect::<Vec<_>>().contains(&members), "seed {seed}");
        for (host, ticket) in &tickets {
            world.cancel(*host, *ticket);
        }
        world.run_relays(10 * SECOND);
        assert_eq!(providers.map(|provider| sources(&world, provider)), [0, 0], "seed {seed}");
    });
}

#[test]
fn another_way_is_no_other_acceptance() {
    let mut two = TwoHubScene::new(11, 1);
    let ticket = two.subscribe(0);
    two.world.command(two.watchers[0], NodeCommand::Resubscribe { ticket, lost: false });
    two.world.run_relays(2 * SECOND);
    assert!(two.is_watching(0, ticket));
    let told =
        |which: fn(&NodeEvent) -> bool| two.world.events(two.watchers[0]).iter().filter(|(_, e)| which(e)).count();
    assert_eq!(told(|event| matches!(event, NodeEvent::Accepted { .. })), 1);
    assert_eq!(told(|event| matches!(event, NodeEvent::Reflected { .. })), 2);
    let tags: Vec<StreamTag> = two
        .world
        .events(two.watchers[0])
        .iter()
        .filter_map(|(_, event)| match event {
            NodeEvent::Reflected { tag, .. } => Some(*tag),
            _ => None,
        })
        .collect();
    assert_ne!(tags[0], tags[1]);
    assert_eq!(two.world.status(two.provider).publications[0].members, 1, "the request before has ended");
    assert_eq!(two.world.hosts[two.watchers[0].0].epochs(ticket), [Epoch(1), Epoch(1)], "nobody has left");
}
