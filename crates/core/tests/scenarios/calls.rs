//! Calls: a body up, an object down, and no provider that runs a call twice.

use roost_wire::object::digest;

use crate::tiers::{HubTree, place};
use crate::*;

const CELL: Cell = Cell::new(27, 92);

fn tiles() -> Service {
    "acme/tiles:call".parse().unwrap_or_else(|error| panic!("{error}"))
}

fn offer_calls(world: &mut World, node: HostId) {
    let services = ServiceSet::EMPTY.with_offer(Offer::new(tiles()));
    world.command(node, NodeCommand::Reconfigure { services, max_streams: 8, uplink_kbps: None });
}

/// A hub, a provider of calls, and a requester.
fn scene(seed: u64, role: Role) -> (World, HostId, HostId, HostId) {
    let (mut world, hub, provider, requester) = single_hub_world(seed, role);
    offer_calls(&mut world, provider);
    world.run(SECOND);
    (world, hub, provider, requester)
}

fn call(world: &mut World, requester: HostId, body: Bytes, change: impl FnOnce(&mut RequestCommand)) -> Ticket {
    world.request_with(requester, tiles(), ANYWHERE, |wanted| {
        wanted.body = body;
        change(wanted);
    })
}

/// The parameters and bodies of the calls that a provider has run.
fn runs(world: &World, provider: HostId) -> Vec<(String, Bytes)> {
    let run = |event: &NodeEvent| match event {
        NodeEvent::OpenSource { request, body, .. } => Some((request.params.clone(), body.clone())),
        _ => None,
    };
    world.events(provider).iter().filter_map(|(_, event)| run(event)).collect()
}

fn end_of_run(world: &World, provider: HostId) -> Option<Option<Reason>> {
    world.events(provider).iter().rev().find_map(|(_, event)| match event {
        NodeEvent::CloseSource { reason, .. } => Some(*reason),
        _ => None,
    })
}

/// The messages between hosts since the corpus was set, of which `which` gives something.
fn said<T>(world: &mut World, which: impl Fn(Message) -> Option<T>) -> Vec<T> {
    let corpus = world.corpus.replace(Vec::new()).unwrap_or_default();
    corpus.iter().filter_map(|message| Message::decode(message).ok().and_then(&which)).collect()
}

fn asked_bodies(world: &mut World) -> Vec<BodyRequest> {
    said(world, |message| match message {
        Message::Request(RequestMessage::BodyRequest(wanted)) => Some(wanted),
        _ => None,
    })
}

fn body_message(id: RequestId, payload: &[u8]) -> Bytes {
    let payload = Bytes::copy_from_slice(payload);
    Message::Flow(FlowMessage::Body(Chunk { id, offset: 0, payload })).encode()
}

#[test]
fn call_crosses_the_tree_without_its_body() {
    let HubTree { mut world, providers, requesters, homes, areas, .. } = HubTree::with_layers(1, 1);
    let (provider, requester) = (providers[0], requesters[3]);
    offer_calls(&mut world, provider);
    world.run(10 * SECOND);
    for (answer, transport) in [(100, Scheme::Udp), (500_000, Scheme::Tcp), (0, Scheme::Quic)] {
        world.hosts[provider.0].object_bytes = Some(answer);
        let ticket = world.request_with(requester, tiles(), Area::Exact(place(0)), |wanted| {
            (wanted.params, wanted.body) = ("zoom=3".to_owned(), object(MAX_BODY_BYTES));
            wanted.transports = SchemeSet::only(transport);
        });
        let summary = finished(&mut world, requester, ticket);
        assert!(summary.complete && summary.provider == node_id(provider.0), "{transport}: {summary:?}");
        assert_eq!((summary.relayed, world.delivered(requester, ticket)), (false, object(answer).to_vec()));
    }
    assert_eq!(runs(&world, provider), vec![("zoom=3".to_owned(), object(MAX_BODY_BYTES)); 3]);
    for hub in homes.into_iter().chain(areas) {
        assert_eq!(world.hub_at(hub).counters().relayed_bytes, 0, "a hub has seen a body or an answer");
    }
}

#[test]
fn calls_go_through_hubs_that_relay() {
    let HubTree { mut world, providers, requesters, .. } = HubTree::with_layers(2, 1);
    let (provider, requester) = (providers[0], requesters[3]);
    offer_calls(&mut world, provider);
    world.run(10 * SECOND);
    for body in [0, 1, MAX_BODY_BYTES] {
        let ticket = world.request_with(requester, tiles(), Area::Exact(place(0)), |wanted| {
            (wanted.mode, wanted.body) = (RequestMode::Relay, object(body));
        });
        let summary = finished(&mut world, requester, ticket);
        assert!(summary.complete && summary.relayed && summary.provider == node_id(provider.0), "{body}: {summary:?}");
        assert_eq!(runs(&world, provider).last(), Some(&(String::new(), object(body))));
    }
    assert_eq!(runs(&world, provider).len(), 3);
}

#[test]
fn server_carries_calls() {
    let (mut world, _, provider, requester) = scene(3, Role::Server);
    let ticket = call(&mut world, requester, object(MAX_BODY_BYTES), |_| {});
    let summary = finished(&mut world, requester, ticket);
    assert!(summary.complete && summary.relayed, "{summary:?}");
    assert_eq!(runs(&world, provider), [(String::new(), object(MAX_BODY_BYTES))]);
}

#[test]
fn named_provider_and_subnet_are_called() {
    let (mut world, _, provider, requester) = scene(4, Role::SuperNode);
    let ticket = call(&mut world, requester, object(20_000), |wanted| {
        wanted.provider = Some(Provider { node: node_id(provider.0), addresses: addresses(provider.0) });
    });
    assert!(finished(&mut world, requester, ticket).complete);
    // A request without a body is a call, too.
    let ticket = world.request(requester, tiles(), Area::Exact(CELL));
    assert!(finished(&mut world, requester, ticket).complete);
    assert_eq!(runs(&world, provider), [(String::new(), object(20_000)), (String::new(), Bytes::new())]);
}

#[test]
fn lossy_paths_run_a_call_once() {
    for_seeds(12, |seed| {
        let role = if seed % 3 == 0 { Role::Server } else { Role::SuperNode };
        let (mut world, _, provider, requester) = scene(seed, role);
        world.path.loss = 100;
        world.path.duplication = 50;
        world.hosts[provider.0].object_bytes = Some(if seed % 2 == 0 { 300 } else { 300_000 });
        let ticket = call(&mut world, requester, object(MAX_BODY_BYTES), |wanted| {
            wanted.timeout = Some(30 * SECOND);
        });
        if seed % 4 == 1 {
            // The connection breaks while the body is on its way.
            world.run(200 * MS);
            world.break_connections(provider, requester);
        }
        let summary = finished(&mut world, requester, ticket);
        assert!(summary.complete && summary.digest_ok == Some(true), "seed {seed}: {summary:?}");
        world.run(5 * SECOND);
        assert_eq!(runs(&world, provider), [(String::new(), object(MAX_BODY_BYTES))], "seed {seed}");
    });
}

#[test]
fn thin_path_carries_a_body_once() {
    for mode in [RequestMode::Forward, RequestMode::Relay] {
        for rate in [256_000, 64_000, 16_000] {
            let (mut world, _, provider, requester) = scene(5, Role::SuperNode);
            world.path.rate = Some(rate);
            world.corpus = Some(Vec::new());
            let ticket = call(&mut world, requester, object(MAX_BODY_BYTES), |wanted| {
                (wanted.mode, wanted.timeout) = (mode, Some(120 * SECOND));
            });
            let summary = finished(&mut world, requester, ticket);
            assert!(summary.complete && runs(&world, provider).len() == 1, "{mode:?} {rate}: {summary:?}");
            let ways = if mode == RequestMode::Relay { 2 } else { 1 };
            let carried = body_bytes(&mut world);
            assert_eq!(carried, ways * MAX_BODY_BYTES, "{mode:?} {rate}");
        }
    }
}

/// A requester that comes back again and again gets no more questions than a silent one.
#[test]
fn reconnecting_without_body_is_given_up() {
    let (mut world, [_, provider, requester], ..) = silent_requester(16, RequestMode::Forward);
    world.corpus = Some(Vec::new());
    for _ in 0..40 {
        world.break_connections(provider, requester);
        world.run(500 * MS);
    }
    assert!(world.status(provider).sessions.is_empty() && runs(&world, provider).is_empty());
    assert!(asked_bodies(&mut world).len() <= 16);
}

/// Payload bytes of bodies that were delivered since the corpus was set.
fn body_bytes(world: &mut World) -> usize {
    let bodies = said(world, |message| match message {
        Message::Flow(FlowMessage::Body(chunk)) => Some(chunk.payload.len()),
        _ => None,
    });
    bodies.into_iter().sum()
}

#[test]
fn long_call_is_waited_for() {
    let (mut world, _, provider, requester) = scene(5, Role::SuperNode);
    world.hosts[provider.0].slow_source = true;
    let ticket = call(&mut world, requester, object(10), |wanted| wanted.timeout = Some(60 * SECOND));
    world.run(40 * SECOND);
    let session = world.hosts[provider.0].opened[0].0;
    let (bytes, format) = (object(5), String::new());
    let opened = SourceOutput::Object { digest: digest(&bytes), bytes, format };
    world.command(provider, NodeCommand::SourceOpened { session, opened });
    assert!(finished(&mut world, requester, ticket).complete);
    assert_eq!(runs(&world, provider).len(), 1);
}

/// Two providers of calls, of which the near one is asked first.
fn two(seed: u64) -> (World, [HostId; 2], HostId) {
    let (mut world, _, providers, requester) = two_provider_world(seed);
    providers.iter().for_each(|provider| offer_calls(&mut world, *provider));
    world.run(SECOND);
    (world, providers, requester)
}

#[test]
fn next_provider_runs_what_a_dead_one_had() {
    for_seeds(8, |seed| {
        let (mut world, [near, far], requester) = two(seed);
        world.hosts[near.0].slow_source = true;
        world.corpus = Some(Vec::new());
        let ticket = world.request_with(requester, tiles(), NEAREST, |wanted| {
            (wanted.body, wanted.timeout) = (object(50_000), Some(60 * SECOND));
        });
        if seed % 2 == 0 {
            assert!(world.run_while(2 * SECOND, |world| !runs(world, near).is_empty()), "seed {seed}");
        } else {
            // In the middle of the body.
            while asked_bodies(&mut world).is_empty() {
                world.run(MS);
            }
        }
        let stop = if seed % 4 < 2 { World::kill } else { World::freeze };
        stop(&mut world, near);
        let summary = finished(&mut world, requester, ticket);
        assert_eq!((summary.complete, summary.provider), (true, node_id(far.0)), "seed {seed}");
        assert_eq!(runs(&world, far), [(String::new(), object(50_000))], "seed {seed}");
    });
}

#[test]
fn failing_provider_leaves_call_to_the_next() {
    let (mut world, [near, far], requester) = two(6);
    world.hosts[near.0].broken_source = true;
    let ticket = world.request_with(requester, tiles(), NEAREST, |wanted| wanted.body = object(7));
    assert_eq!(finished(&mut world, requester, ticket).provider, node_id(far.0));
    world.hosts[far.0].broken_source = true;
    let ticket = world.request_with(requester, tiles(), NEAREST, |wanted| wanted.body = object(7));
    assert_eq!(failed(&mut world, requester, ticket), Reason::SourceFailed);
}

#[test]
fn cancelled_call_ends_at_its_provider() {
    for mode in [RequestMode::Forward, RequestMode::Relay] {
        for body in [0, 30_000] {
            let (mut world, _, provider, requester) = scene(7, Role::SuperNode);
            world.hosts[provider.0].slow_source = true;
            let ticket = call(&mut world, requester, object(body), |wanted| wanted.mode = mode);
            assert!(world.run_while(2 * SECOND, |world| !runs(world, provider).is_empty()));
            world.cancel(requester, ticket);
            assert_eq!(failed(&mut world, requester, ticket), Reason::Cancelled);
            world.run(SECOND);
            assert_eq!(end_of_run(&world, provider), Some(Some(Reason::Cancelled)), "{mode:?} {body}");
            assert!(world.status(provider).sessions.is_empty());
        }
    }
}

#[test]
fn late_call_ends_at_its_provider() {
    let (mut world, _, provider, requester) = scene(8, Role::SuperNode);
    world.hosts[provider.0].slow_source = true;
    let ticket = call(&mut world, requester, object(10), |wanted| wanted.timeout = Some(3 * SECOND));
    assert_eq!(failed(&mut world, requester, ticket), Reason::TimedOut);
    world.run(SECOND);
    assert!(world.status(provider).sessions.is_empty() && end_of_run(&world, provider).is_some());
}

/// The provider has lost the call, and gets no body for another run.
#[test]
fn restarted_provider_runs_nothing_twice() {
    for seed in 0..4 {
        let (mut world, hub, provider, requester) = scene(seed, Role::SuperNode);
        world.hosts[provider.0].slow_source = true;
        let ticket = call(&mut world, requester, object(10), |wanted| wanted.timeout = Some(60 * SECOND));
        assert!(world.run_while(2 * SECOND, |world| !runs(world, provider).is_empty()));
        let restart = if seed % 2 == 0 { World::restart_node } else { World::restart_silently };
        restart(&mut world, provider, &[hub], 2_000);
        offer_calls(&mut world, provider);
        let reason = failed(&mut world, requester, ticket);
        assert!(matches!(reason, Reason::Unreachable | Reason::NotFound), "seed {seed}: {reason:?}");
        world.run(5 * SECOND);
        assert!(runs(&world, provider).is_empty(), "seed {seed}: its next life has run the call again");
    }
}

#[test]
fn requester_without_body_is_given_up() {
    let (mut world, [_, provider, requester], ticket, _) = silent_requester(9, RequestMode::Forward);
    world.run(5 * SECOND);
    assert_eq!(world.status(provider).sessions.len(), 1, "it waits for the body");
    world.run(20 * SECOND);
    assert!(world.status(provider).sessions.is_empty() && runs(&world, provider).is_empty());
    assert!(matches!(failed(&mut world, requester, ticket), Reason::TimedOut | Reason::Unreachable));
    assert!(runs(&world, provider).is_empty());
}

/// A call whose requester is not heard once it has asked, and the provider's question for the body as it hears it.
fn silent_requester(seed: u64, mode: RequestMode) -> (World, [HostId; 3], Ticket, BodyRequest) {
    let (mut world, hub, provider, requester) = scene(seed, Role::SuperNode);
    // The two have a connection.
    let named = Some(Provider { node: node_id(provider.0), addresses: addresses(provider.0) });
    let ticket = call(&mut world, requester, Bytes::new(), |wanted| wanted.provider = named);
    assert!(finished(&mut world, requester, ticket).complete);
    world.hosts[provider.0].events.clear();
    world.corpus = Some(Vec::new());
    let ticket = call(&mut world, requester, object(50_000), |wanted| {
        (wanted.mode, wanted.timeout) = (mode, Some(60 * SECOND));
    });
    world.run(30 * MS);
    world.mute(requester, if mode == RequestMode::Relay { hub } else { provider });
    world.run(SECOND);
    let asked = asked_bodies(&mut world);
    let Some(asked) = asked.last().copied() else { panic!("nobody asks for the body") };
    (world, [hub, provider, requester], ticket, asked)
}

#[test]
fn other_body_is_declined() {
    let (mut world, [_, provider, requester], ticket, asked) = silent_requester(10, RequestMode::Forward);
    assert!(world.inject(requester, provider, body_message(asked.id, &[0; 50_000])));
    world.run(SECOND);
    assert!(world.status(provider).sessions.is_empty() && runs(&world, provider).is_empty());
    let declined = said(&mut world, |message| match message {
        Message::Request(RequestMessage::Decline(decline)) => Some(decline.reason),
        _ => None,
    });
    assert!(declined.contains(&Reason::WrongBody), "{declined:?}");
    assert_eq!(failed(&mut world, requester, ticket), Reason::WrongBody);
}

#[test]
fn flood_of_bodies_ends_its_flow_alone() {
    let (mut world, [hub, provider, requester], _, BodyRequest { id, .. }) = silent_requester(11, RequestMode::Relay);
    assert!(!id.is_of_hub(), "the hub has told it in its requester's number");
    let mut most = 0;
    for number in 0..1_000 {
        world.inject(requester, hub, body_message(id, &[0; 16_000]));
        most = most.max(world.on_its_way(provider));
        if number % 64 == 0 {
            world.run(MS);
        }
    }
    assert!(most <= 9 * MAX_BODY_BYTES as u64, "{most} bytes wait for the provider");
    assert_eq!(world.hub_at(hub).counters().overruns, 1);
    assert!(world.is_attached(provider) && runs(&world, provider).is_empty());
}

#[test]
fn body_is_for_who_knows_the_secret() {
    let (mut world, hub, provider, requester) = scene(12, Role::SuperNode);
    let rogue = world.node((1, 1), &[], &[hub]);
    world.run_until_attached();
    world.connect_again(rogue, requester);
    world.run(SECOND);
    world.hosts[provider.0].slow_source = true;
    world.corpus = Some(Vec::new());
    call(&mut world, requester, object(50_000), |wanted| wanted.timeout = Some(60 * SECOND));
    world.run(SECOND);
    let [asked] = asked_bodies(&mut world)[..] else { panic!("the provider asks once") };
    let guess = BodyRequest { nonce: Nonce::from_u64(1), run: 2, ..asked };
    world.inject(rogue, requester, Message::Request(RequestMessage::BodyRequest(guess)).encode());
    world.run(SECOND);
    let bodies = said(&mut world, |message| match message {
        Message::Flow(FlowMessage::Body(chunk)) => Some(chunk),
        _ => None,
    });
    assert!(bodies.is_empty(), "a member without the secret has got the body");
}

#[test]
fn bodies_and_parameters_have_limits() {
    let (mut world, _, provider, requester) = scene(13, Role::SuperNode);
    type Change = fn(&mut RequestCommand);
    let refused: [(Service, Change); 5] = [
        (tiles(), |wanted| wanted.body = object(MAX_BODY_BYTES + 1)),
        (Service::Image, |wanted| wanted.body = object(1)),
        (tiles(), |wanted| wanted.resume = Some(ResumePoint { digest: [0; 32], offset: 1 })),
        (tiles(), |wanted| wanted.params = "p".repeat(MAX_PARAMS_BYTES + 1)),
        (Service::Video, |wanted| {
            (wanted.params, wanted.reflect) = ("p".to_owned(), ReflectionPolicy::Always);
        }),
    ];
    for (service, change) in refused {
        let ticket = world.request_with(requester, service, ANYWHERE, change);
        assert_eq!(failed(&mut world, requester, ticket), Reason::NotAllowed);
    }
    let longest = "p".repeat(MAX_PARAMS_BYTES);
    let ticket = call(&mut world, requester, Bytes::new(), |wanted| wanted.params.clone_from(&longest));
    assert!(finished(&mut world, requester, ticket).complete);
    assert_eq!(runs(&world, provider), [(longest, Bytes::new())]);
}

#[test]
fn streams_with_parameters_are_never_shared() {
    let mut world = World::new(14);
    let hub = world.hub(Role::SuperNode);
    let provider = world.node_with(&[hub], |config| {
        (config.services, config.max_streams) = (ServiceSet::EMPTY.with(Service::Video), 1);
    });
    let requesters = [0, 1].map(|number| world.node((number, 1), &[], &[hub]));
    world.run_until_attached();
    let ask = |world: &mut World, requester, params: &str| {
        world.request_with(requester, Service::Video, ANYWHERE, |wanted| {
            wanted.params = params.to_owned();
            wanted.reflect = ReflectionPolicy::IfBusy;
            wanted.duration = Some(20 * SECOND);
        })
    };
    let first = ask(&mut world, requesters[0], "gain=1");
    world.run(2 * SECOND);
    // With the same parameters, too: the second one finds the provider busy.
    let second = ask(&mut world, requesters[1], "gain=1");
    assert_eq!(failed(&mut world, requesters[1], second), Reason::Busy);
    let third = ask(&mut world, requesters[1], "");
    assert_eq!(failed(&mut world, requesters[1], third), Reason::Busy, "its stream does not take the other's place");
    assert!(world.hosts[requesters[0].0].ending(first).is_none(), "the first one goes on");
    assert_eq!(world.hosts[provider.0].opened.len(), 1);
}
