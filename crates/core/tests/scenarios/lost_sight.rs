//! Two nodes lose sight of each other while something else happens: one direction fails, hubs die, others lose it too.

use crate::out_of_sight::*;
use crate::tiers::{HubTree, place};
use crate::*;

/// A call is lost only with its provider: it goes on through outages on paths that lose, and runs once.
#[test]
fn given_calls_outlast_outages() {
    for_seeds(60, |seed| {
        let case = PairCase { object_bytes: 200_000, idle: SECOND, ..PairCase::of_seed(seed) };
        let mut pair = ConnectedPair::new(seed, case);
        let mut random = SplitMix64::new(seed);
        pair.world.path.loss = 30;
        pair.lose_sight();
        let ticket = pair.world.request_with(pair.requester, render(), ANYWHERE, |wanted| {
            (wanted.body, wanted.timeout) = (object(3000), Some(60 * SECOND));
        });
        pair.regain_and_lose_twice(&mut random);
        let ending = pair.world.outcome(pair.requester, ticket);
        let is_whole = matches!(&ending, NodeEvent::Finished { summary, .. } if summary.complete);
        assert!(is_whole && pair.runs() == 1, "seed {seed}, {case:?}: {ending:?}, {} runs", pair.runs());
    });
}

/// Only one of the two does not hear the other, before or amid the answer, for a while or for good.
#[test]
fn one_deaf_end_is_served() {
    for_seeds(60, |seed| {
        let sizes = [800, 200_000, 2_000_000];
        let case = PairCase { object_bytes: sizes[seed as usize % 3], idle: SECOND, ..PairCase::of_seed(seed) };
        let service = services()[seed as usize / 3 % 5];
        let mut pair = ConnectedPair::new(seed, case);
        let mut random = SplitMix64::new(seed);
        let (is_amid, heals) = (random.below(2) == 0 && case.object_bytes > sizes[1], random.below(2) == 0);
        let mut ends = [pair.provider, pair.requester];
        ends.rotate_left(random.below(2) as usize);
        let ticket = if is_amid { Some(pair.ask(service)) } else { None };
        ticket.into_iter().for_each(|ticket| pair.run_until_it_comes(ticket));
        pair.world.deafen(ends[0], ends[1]);
        let ticket = ticket.unwrap_or_else(|| pair.ask(service));
        if heals {
            pair.world.run(MS * (1_000 + random.below(8_000) as u32));
            pair.world.heal();
        }
        let ending = pair.world.outcome(pair.requester, ticket);
        let about = format!("seed {seed}, {case:?}, {service}, amid {is_amid}, heals {heals}, {ends:?}: {ending:?}");
        // The end of a stream may be lost with the direction.
        let is_whole =
            |summary: &RequestSummary| (summary.complete || service.is_stream()) && summary.digest_ok != Some(false);
        assert!(matches!(&ending, NodeEvent::Finished { summary, .. } if is_whole(summary)), "{about}");
        assert!(!service.is_call() || pair.runs() == 1, "{about}, {} runs", pair.runs());
    });
}

/// The hub that relays dies at any moment of the move to it; another one is there.
#[test]
fn relaying_hub_dies_amid_move() {
    for_seeds(60, |seed| {
        let sizes = [800, 200_000, 2_000_000];
        let case = PairCase {
            hubs: 2,
            shares_hubs: true,
            settles: 30 * SECOND,
            idle: SECOND,
            object_bytes: sizes[seed as usize % 3],
            ..PairCase::of_seed(seed)
        };
        let service = [Service::Sensor, Service::Image, render()][seed as usize / 3 % 3];
        let mut pair = ConnectedPair::new(seed, case);
        let mut random = SplitMix64::new(seed);
        let home = pair.world.home(pair.requester).unwrap();
        let ticket = pair.ask_out_of_sight(service);
        pair.world.run(MS * random.below(6_000) as u32);
        pair.world.kill(home);
        let ending = pair.world.outcome(pair.requester, ticket);
        let about = format!("seed {seed}, {case:?}, {service}: {ending:?}, {} runs", pair.runs());
        // A call that was given to a provider by way of the dead hub is not given again.
        let is_lost = service.is_call() && matches!(ending, NodeEvent::Failed { .. });
        let is_whole = matches!(&ending, NodeEvent::Finished { summary, .. } if summary.complete);
        assert!((is_whole || is_lost) && (!service.is_call() || pair.runs() <= 1), "{about}");
    });
}

/// Sixty-four lose sight of one provider at once.
#[test]
fn crowd_out_of_sight_is_served() {
    const CROWD: usize = 64;
    for_seeds(4, |seed| {
        let service = [Service::Sensor, Service::Image, Service::Track, render()][seed as usize % 4];
        let mut world = World::new(seed);
        world.retransmits = true;
        let hub = world.mesh(1);
        let provider = world.node((1, 1), &[], &hub);
        let requesters: Vec<HostId> = (0..CROWD).map(|_| world.node((0, 0), &[], &hub)).collect();
        world.hosts[provider.0].object_bytes = Some(20_000);
        world.path.delay = 20 * MS;
        world.run_until_attached();
        let services = [Service::Sensor, service]
            .into_iter()
            .fold(ServiceSet::EMPTY, |all, service| all.with_offer(Offer::new(service)));
        world.command(provider, NodeCommand::Reconfigure { services, max_streams: 64, uplink_kbps: None });
        world.run(5 * SECOND);
        let ask_all = |world: &mut World, service: Service| -> Vec<NodeEvent> {
            let ask = |world: &mut World, requester: HostId| {
                world.request_with(requester, service, ANYWHERE, |wanted| {
                    wanted.duration = service.is_stream().then_some(5 * SECOND);
                    wanted.body = if service.is_call() { object(3000) } else { Bytes::new() };
                })
            };
            let tickets: Vec<Ticket> = requesters.iter().map(|requester| ask(world, *requester)).collect();
            requesters.iter().zip(tickets).map(|(requester, ticket)| world.outcome(*requester, ticket)).collect()
        };
        let is_served = |ending: &NodeEvent| matches!(ending, NodeEvent::Finished { summary, .. } if summary.complete);
        assert!(ask_all(&mut world, Service::Sensor).iter().all(is_served), "seed {seed}");
        requesters.iter().for_each(|requester| world.cut(provider, *requester));
        for round in 0..2 {
            let endings = ask_all(&mut world, service);
            let missed: Vec<_> = endings.iter().filter(|ending| !is_served(ending)).collect();
            assert!(
                missed.is_empty(),
                "seed {seed}, {service}, round {round}: {} of {CROWD}: {missed:?}",
                missed.len()
            );
        }
    });
}

/// Two that lose sight of each other far apart in the hierarchy are relayed.
#[test]
fn far_hubs_relay_out_of_sight() {
    for_seeds(8, |seed| {
        let mut tree = HubTree::new(seed);
        tree.world.retransmits = true;
        let (provider, requester) = (tree.providers[0], tree.requesters[1 + seed as usize % 3]);
        let area = Area::Exact(place(0));
        let first = tree.world.request(requester, Service::Sensor, area);
        assert!(!finished(&mut tree.world, requester, first).relayed, "seed {seed}");
        tree.world.cut(provider, requester);
        for service in [Service::Sensor, Service::Image, Service::Sensor] {
            let ticket = tree.world.request(requester, service, area);
            let summary = finished(&mut tree.world, requester, ticket);
            assert!(summary.complete && summary.relayed, "seed {seed}, {service}: {summary:?}");
        }
    });
}

/// A stream with long pauses goes on directly, though its requester asks in each, and cannot be dialled.
#[test]
fn seldom_stream_stays_direct() {
    for_seeds(12, |seed| {
        let case = PairCase { idle: SECOND, delay: MS * [1, 20, 130][seed as usize % 3], ..PairCase::of_seed(seed) };
        let mut pair = ConnectedPair::new(seed, case);
        let (provider, requester) = (pair.provider, pair.requester);
        pair.world.close(&[provider, requester]);
        pair.world.hosts[provider.0].slow_source = true;
        let ticket = pair.world.request_with(requester, Service::Track, ANYWHERE, |wanted| {
            wanted.duration = Some(60 * SECOND);
        });
        let opened = pair.opened();
        assert!(pair.world.run_while(5 * SECOND, |world| world.hosts[provider.0].opened.len() > opened), "seed {seed}");
        let session = pair.last_opened();
        let opened = SourceOutput::Stream { bits_per_second: 1_000, format: "synthetic".to_owned() };
        pair.world.command(provider, NodeCommand::SourceOpened { session, opened });
        for _ in 0..5 {
            pair.world.command(provider, NodeCommand::Data { session, payload: object(100) });
            pair.world.run(12 * SECOND);
        }
        pair.world.command(provider, NodeCommand::SourceEnded { session });
        let summary = finished(&mut pair.world, requester, ticket);
        let about = format!("seed {seed}, {case:?}: {summary:?}");
        assert!(summary.packets == 5 && !summary.relayed && pair.last_opened() == session, "{about}");
    });
}

/// A hub that repeats a request for a flow that comes directly, with addresses at which nobody is, does not get the flow.
#[test]
fn lying_hub_gets_no_lively_flow() {
    for_seeds(12, |seed| {
        let case = PairCase { hubs: 1, idle: SECOND, ..PairCase::of_seed(seed) };
        let mut pair = ConnectedPair::new(seed, case);
        let (provider, hub) = (pair.provider, pair.world.home(pair.provider).unwrap());
        pair.world.corpus = Some(Vec::new());
        let ticket = pair.ask(Service::Track);
        pair.run_until_it_comes(ticket);
        let said = |world: &mut World| {
            let corpus = world.corpus.replace(Vec::new()).unwrap_or_default();
            corpus.iter().filter_map(|message| Message::decode(message).ok()).collect::<Vec<_>>()
        };
        let routed = said(&mut pair.world).into_iter().find_map(|message| match message {
            Message::Request(RequestMessage::Request(request)) if request.route.is_some() => Some(request),
            _ => None,
        });
        let mut forged = routed.unwrap();
        forged.id = RequestId(forged.id.0 ^ 1);
        if let Some(route) = &mut forged.route {
            route.reply_to = addresses(99);
        }
        let forged = Message::from(RequestMessage::Request(forged)).encode();
        for _ in 0..16 {
            assert!(pair.world.inject(hub, provider, forged.clone()), "seed {seed}");
            pair.world.run(500 * MS);
        }
        let summary = finished(&mut pair.world, pair.requester, ticket);
        let is_left = |message: &Message| {
            matches!(message, Message::Request(RequestMessage::Decline(Decline { reason: Reason::Unreachable, .. })))
        };
        assert!(summary.complete && !summary.relayed, "seed {seed}, {case:?}: {summary:?}");
        assert!(!said(&mut pair.world).iter().any(is_left), "seed {seed}, {case:?}: it was left to the hub");
    });
}
