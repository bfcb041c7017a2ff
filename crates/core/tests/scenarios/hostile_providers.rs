//! Providers that send more than was asked for.

use roost_core::flow::CHUNK_BYTES;
use roost_core::flow::WINDOW_BYTES;
use roost_wire::object::digest;

use crate::*;

const BYTES: usize = 2_000_000;

/// A hub, a near provider whose machine is not heard, a far one, and a requester.
fn scene(seed: u64) -> (World, [HostId; 4]) {
    let mut world = World::new(seed);
    let hub = world.hub(Role::SuperNode);
    let near = world.node((1, 0), &[Service::Image], &[hub]);
    let far = world.node((9, 0), &[Service::Image], &[hub]);
    let requester = world.node((0, 0), &[], &[hub]);
    for provider in [near, far] {
        world.hosts[provider.0].object_bytes = Some(BYTES);
    }
    world.run_until_attached();
    world.run(SECOND);
    world.mute(near, hub);
    (world, [hub, near, far, requester])
}

/// The request that the hub handed to the near provider.
fn forwarded(world: &mut World) -> Option<Request> {
    world.corpus.take().unwrap_or_default().iter().find_map(|message| match Message::decode(message) {
        Ok(Message::Request(RequestMessage::Request(request))) if request.route.is_some() => Some(request),
        _ => None,
    })
}

#[test]
fn relayed_flood_ends_its_flow_alone() {
    for_few_seeds(|seed| {
        let (mut world, [hub, near, far, requester]) = scene(seed);
        world.corpus = Some(Vec::new());
        let relayed = |world: &mut World| {
            world.request_with(requester, Service::Image, NEAREST, |wanted| wanted.mode = RequestMode::Relay)
        };
        let ticket = relayed(&mut world);
        world.run(50 * MS);
        let forward = forwarded(&mut world).unwrap();
        let (id, nonce, whole) = (forward.id, forward.nonce, object(BYTES));
        let offer = FlowDescription::Object {
            bytes: BYTES as u64,
            digest: digest(&whole),
            format: "synthetic".to_owned(),
            inline: None,
            offset: None,
        };
        let (cell, provider) = (Cell::new(1, 0), Some(node_id(near.0)));
        let accept = Accept { id, nonce, flow: offer, cell, provider, stream_keys: None };
        world.inject(near, hub, Message::Request(RequestMessage::Accept(accept)).encode());
        // The first window is what was asked for, and then it comes again and again.
        let chunk = |number: usize| {
            let from = number * CHUNK_BYTES % WINDOW_BYTES as usize;
            let payload: Bytes = whole.slice(from..from + CHUNK_BYTES);
            Message::Flow(FlowMessage::Chunk(Chunk { id, offset: from as u64, payload })).encode()
        };
        let mut most = 0;
        for number in 0..4_000 {
            world.inject(near, hub, chunk(number));
            most = most.max(world.on_its_way(requester));
            if number % 64 == 0 {
                world.run(MS);
            }
        }
        assert!(most <= 5 * WINDOW_BYTES, "{most} bytes wait for the requester");
        assert_eq!(world.hub_at(hub).counters().overruns, 1);
        // Another provider goes on with the same object, and is asked first from now on.
        let summary = finished(&mut world, requester, ticket);
        assert!(summary.complete, "{summary:?}");
        assert!(world.is_attached(requester) && world.status(requester).counters.failovers == 0);
        for _ in 0..3 {
            let ticket = relayed(&mut world);
            let summary = finished(&mut world, requester, ticket);
            assert_eq!((summary.complete, summary.provider), (true, node_id(far.0)));
        }
    });
}
