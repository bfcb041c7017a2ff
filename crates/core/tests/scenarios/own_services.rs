//! Services with names of people's own, instances and metadata.

use crate::tiers::{HubTree, place};
use crate::*;

fn service(text: &str) -> Service {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn offer(text: &str, metadata: &str) -> Offer {
    let metadata = metadata.parse().unwrap_or_else(|error| panic!("{metadata}: {error}"));
    Offer { metadata, ..Offer::new(service(text)) }
}

fn publish(world: &mut World, node: HostId, offers: impl IntoIterator<Item = Offer>) {
    let services = offers.into_iter().fold(ServiceSet::EMPTY, ServiceSet::with_offer);
    world.command(node, NodeCommand::Reconfigure { services, max_streams: 8, uplink_kbps: None });
}

/// A tree whose first provider has own services, too; the requester is the farthest.
fn tree(seed: u64) -> (HubTree, HostId, HostId) {
    let mut tree = HubTree::with_layers(seed, 1);
    let (provider, requester) = (tree.providers[0], tree.requesters[3]);
    let offers = [
        offer("video#bow", "sensor=ir"),
        offer("video#mast", ""),
        offer("acme/lidar:stream", "range=120"),
        offer("acme/map:object", ""),
    ];
    publish(&mut tree.world, provider, offers);
    tree.world.run(10 * SECOND);
    (tree, provider, requester)
}

/// The service that the provider opened last.
fn opened(world: &World, provider: HostId) -> Service {
    world.hosts[provider.0].opened[world.hosts[provider.0].opened.len() - 1].1
}

#[test]
fn own_services_cross_the_tree() {
    let (HubTree { mut world, .. }, provider, requester) = tree(1);
    for (wanted, given) in [
        ("acme/lidar:stream", "acme/lidar"),
        ("acme/map:object", "acme/map"),
        ("video#bow", "video#bow"),
        ("video#mast", "video#mast"),
    ] {
        for area in [Area::Exact(place(0)), Area::Nearest(place(0))] {
            let ticket = world.request(requester, service(wanted), area);
            let summary = finished(&mut world, requester, ticket);
            assert!(summary.complete && summary.provider == node_id(provider.0), "{wanted} {area}: {summary:?}");
            assert_eq!(opened(&world, provider).name(), given);
        }
    }
}

#[test]
fn plain_request_gets_an_instance() {
    let (HubTree { mut world, .. }, provider, requester) = tree(2);
    let ticket = world.request(requester, Service::Video, Area::Exact(place(0)));
    assert!(finished(&mut world, requester, ticket).complete);
    assert_eq!(opened(&world, provider).base(), Service::Video);
    let ticket = world.request_with(requester, Service::Video, Area::Exact(place(0)), |wanted| {
        wanted.filter = "sensor=ir".parse().unwrap();
    });
    assert!(finished(&mut world, requester, ticket).complete);
    assert_eq!(opened(&world, provider).name(), "video#bow");
}

#[test]
fn other_instances_and_metadata_are_not_found() {
    let (HubTree { mut world, .. }, provider, requester) = tree(3);
    let cell = place(0);
    for wanted in ["video#stern", "acme/lidar#mast:stream", "acme/lidar:object", "acme/radar:stream", "track"] {
        let ticket = world.request(requester, service(wanted), Area::Exact(cell));
        assert_eq!(failed(&mut world, requester, ticket), Reason::NotFound, "{wanted}");
    }
    let ticket = world.request_with(requester, Service::Video, Area::Exact(cell), |wanted| {
        wanted.filter = "sensor=uv".parse().unwrap();
    });
    assert_eq!(failed(&mut world, requester, ticket), Reason::NotFound);
    // A hub that remembers that there is no such instance finds the others.
    let ticket = world.request(requester, Service::Video, Area::Exact(cell));
    assert!(finished(&mut world, requester, ticket).complete);
    assert!(!world.hosts[provider.0].opened.is_empty());
}

#[test]
fn names_of_one_code_are_told_apart() {
    let mut world = World::new(4);
    let hub = world.hub(Role::SuperNode);
    let [first, second] = [(1, 0), (2, 0)].map(|cell| world.node(cell, &[], &[hub]));
    let requester = world.node((9, 9), &[], &[hub]);
    world.run_until_attached();
    let [one, other] = ["acme/s53378:object", "acme/s77022:object"].map(service);
    assert_eq!(one.code(), other.code());
    publish(&mut world, first, [Offer::new(one)]);
    publish(&mut world, second, [Offer::new(other)]);
    world.run(SECOND);
    for (wanted, provider) in [(one, first), (other, second)] {
        let ticket = world.request(requester, wanted, Area::Nearest(Cell::new(0, 0)));
        assert_eq!(finished(&mut world, requester, ticket).provider, node_id(provider.0), "{wanted}");
    }
}

#[test]
fn lookup_shows_every_form_of_a_name() {
    let (HubTree { mut world, .. }, provider, requester) = tree(5);
    let ticket = world.lookup(requester, service("acme/lidar"), Area::Exact(place(0)));
    let NodeEvent::LookupResult { found, .. } = world.outcome(requester, ticket) else { panic!("nothing found") };
    let [candidate] = &found.candidates[..] else { panic!("{found:?}") };
    assert_eq!(candidate.node, node_id(provider.0));
    let [lidar] = candidate.services.offers() else { panic!("{candidate:?}") };
    assert_eq!((lidar.service.form(), lidar.metadata.get("range")), (Form::Stream, Some("120")));
    assert!(candidate.services.contains(Service::Video), "the known services stay");
}

#[test]
fn watch_of_own_service_sees_it_come_and_go() {
    let (HubTree { mut world, .. }, provider, requester) = tree(6);
    let ticket = world.ticket(requester);
    let services = ServiceSet::EMPTY.with(service("acme/lidar"));
    let area = Area::Radius { center: place(0), radius: 3 };
    world.command(requester, NodeCommand::Watch { ticket, services, area, names: false });
    world.run(5 * SECOND);
    let told = |world: &World| {
        let changes = world.events(requester).iter().filter_map(|(_, event)| match event {
            NodeEvent::Changed { change, .. } => Some(change),
            _ => None,
        });
        changes.fold((0, 0), |(came, went), change| (came + change.updated.len(), went + change.removed.len()))
    };
    assert_eq!(told(&world), (1, 0));
    publish(&mut world, provider, [Offer::new(Service::Video)]);
    world.run(10 * SECOND);
    assert_eq!(told(&world), (1, 1));
}

#[test]
fn own_stream_is_reflected_once() {
    let mut world = World::new(7);
    let hub = world.hub(Role::SuperNode);
    let provider = world.node((3, 9), &[], &[hub]);
    let subscribers = [0, 1, 2].map(|number| world.node((number, 1), &[], &[hub]));
    world.run_until_attached();
    publish(&mut world, provider, [Offer { kbps: Some(300), ..Offer::new(service("acme/lidar#mast:stream")) }]);
    world.run(SECOND);
    for (number, subscriber) in subscribers.into_iter().enumerate() {
        // With and without the instance, the stream is the same.
        let wanted = service(if number == 0 { "acme/lidar:stream" } else { "acme/lidar#mast:stream" });
        let ticket = world.subscribe(subscriber, wanted, Area::Exact(Cell::new(3, 9)));
        world.run(3 * SECOND);
        assert!(world.receives_stream(subscriber, ticket, provider), "{number}");
    }
    assert_eq!(world.hosts[provider.0].opened.len(), 1);
}

#[test]
fn server_finds_own_services() {
    let mut world = World::new(8);
    let server = world.hub(Role::Server);
    let provider = world.node((3, 9), &[], &[server]);
    let requester = world.node((1, 1), &[], &[server]);
    world.run_until_attached();
    publish(&mut world, provider, [offer("acme/map:object", "layer=roads")]);
    world.run(SECOND);
    let ticket = world.request_with(requester, service("acme/map:object"), ANYWHERE, |wanted| {
        wanted.filter = "layer=roads".parse().unwrap();
    });
    assert!(finished(&mut world, requester, ticket).complete);
}
