//! The words of programs that decline, on their way to requesters.

use crate::tiers::{HubTree, place};
use crate::*;

const THERE: Area = Area::Exact(Cell::new(27, 92));

fn decline_with(world: &mut World, provider: HostId, words: &str) {
    world.hosts[provider.0].declining = Some(words.parse().unwrap_or_else(|error| panic!("{error}")));
}

/// The words that ended a request, and what is told of them.
fn told(world: &mut World, requester: HostId, ticket: Ticket) -> (Option<String>, String) {
    match world.outcome(requester, ticket) {
        NodeEvent::Failed { reason: Reason::SourceFailed, sentence, detail, .. } => {
            (sentence.map(|sentence| sentence.to_string()), detail)
        }
        other => panic!("{other:?}"),
    }
}

fn named(host: HostId) -> Option<Provider> {
    Some(Provider { node: node_id(host.0), addresses: addresses(host.0) })
}

#[test]
fn words_reach_requester_over_loss() {
    for_seeds(8, |seed| {
        for role in [Role::SuperNode, Role::Server] {
            let (mut world, _, provider, requester) = single_hub_world(seed, role);
            (world.path.loss, world.path.duplication, world.path.spread) = (100, 100, 20 * MS);
            decline_with(&mut world, provider, "no map of \"there\"");
            for (service, mode) in [
                (Service::Image, RequestMode::Forward),
                (Service::Video, RequestMode::Forward),
                (Service::Image, RequestMode::Relay),
            ] {
                let ticket = world.request_with(requester, service, THERE, |wanted| {
                    (wanted.mode, wanted.timeout) = (mode, Some(60 * SECOND));
                });
                let (words, detail) = told(&mut world, requester, ticket);
                assert_eq!(words.as_deref(), Some("no map of \"there\""), "seed {seed}: {detail}");
                assert_eq!(detail, r#"the provider declined: "no map of \"there\"""#, "seed {seed}");
            }
        }
    });
}

#[test]
fn words_cross_hubs_and_relays() {
    for (mode, seed) in [(RequestMode::Forward, 1), (RequestMode::Relay, 2)] {
        let mut world = World::new(seed);
        let hubs = world.mesh(2);
        world.run(2 * SECOND);
        let provider = world.node((3, 0), &Service::ALL, &hubs[1..]);
        let requester = world.node((0, 0), &[], &hubs[..1]);
        world.run_until_attached();
        decline_with(&mut world, provider, "the lens is covered");
        let area = Area::Exact(Cell::new(3, 0));
        let ticket = world.request_with(requester, Service::Image, area, |wanted| wanted.mode = mode);
        assert_eq!(told(&mut world, requester, ticket).0.as_deref(), Some("the lens is covered"), "{mode:?}");
        let HubTree { mut world, providers, requesters, .. } = HubTree::with_layers(seed, 1);
        decline_with(&mut world, providers[0], "the lens is covered");
        let area = Area::Exact(place(0));
        let ticket = world.request_with(requesters[3], Service::Image, area, |wanted| wanted.mode = mode);
        assert_eq!(told(&mut world, requesters[3], ticket).0.as_deref(), Some("the lens is covered"), "{mode:?}");
    }
}

#[test]
fn last_provider_with_words_is_heard() {
    for (seed, mode) in [(1, RequestMode::Forward), (2, RequestMode::Relay)] {
        let (mut world, _, [near, far], requester) = two_provider_world(seed);
        let ask =
            |world: &mut World| world.request_with(requester, Service::Image, NEAREST, |wanted| wanted.mode = mode);
        decline_with(&mut world, near, "ask the far one");
        let ticket = ask(&mut world);
        assert_eq!(finished(&mut world, requester, ticket).provider, node_id(far.0));
        decline_with(&mut world, far, "ask the near one");
        world.hosts[near.0].opened.clear();
        let ticket = ask(&mut world);
        let (words, _) = told(&mut world, requester, ticket);
        let is_near_first = world.hosts[near.0].opened.len() == 1 && world.hosts[far.0].opened.len() == 2;
        assert!(is_near_first && words.is_some(), "{mode:?} {words:?}");
        // The errors of a host stay there.
        for host in [near, far] {
            (world.hosts[host.0].declining, world.hosts[host.0].broken_source) = (None, true);
        }
        let ticket = ask(&mut world);
        let (words, detail) = told(&mut world, requester, ticket);
        assert_eq!((words, detail.as_str()), (None, "the provider's source of image gave nothing"));
    }
}

#[test]
fn known_provider_is_named() {
    let (mut world, hub, provider, requester) = single_hub_world(3, Role::SuperNode);
    world.freeze(hub);
    decline_with(&mut world, provider, "not today");
    let ticket = world.request_with(requester, Service::Sensor, ANYWHERE, |wanted| wanted.provider = named(provider));
    let name = remote(provider.0, Role::Node).name;
    let (words, detail) = told(&mut world, requester, ticket);
    assert_eq!((words.as_deref(), detail), (Some("not today"), format!("the provider {name} declined: \"not today\"")));
}

#[test]
fn subscribers_hear_why_nothing_begins() {
    let (mut world, hub, provider, first) = single_hub_world(4, Role::SuperNode);
    let second = world.node((1, 1), &[], &[hub]);
    world.run_until_attached();
    decline_with(&mut world, provider, "the mast is down");
    world.hosts[provider.0].slow_source = true;
    let tickets = [first, second].map(|node| (node, world.subscribe(node, Service::Video, THERE)));
    assert!(world.run_while(5 * SECOND, |world| !world.hosts[provider.0].opened.is_empty()));
    world.run(SECOND);
    assert_eq!((world.status(provider).sessions.len(), world.hosts[provider.0].opened.len()), (2, 1));
    let session = world.hosts[provider.0].opened[0].0;
    let sentence = "the mast is down".parse().unwrap();
    world.command(provider, NodeCommand::SourceDeclined { session, sentence });
    for (node, ticket) in tickets {
        assert_eq!(told(&mut world, node, ticket).0.as_deref(), Some("the mast is down"));
    }
    assert!(world.status(provider).publications.is_empty() && world.status(provider).sessions.is_empty());
}

/// After an acceptance the words have no message.
#[test]
fn words_after_the_acceptance_stay() {
    let (mut world, _, provider, requester) = single_hub_world(5, Role::SuperNode);
    let ticket = world.request(requester, Service::Track, THERE);
    assert!(world.run_while(5 * SECOND, |world| !world.status(provider).sessions.is_empty()));
    world.run(SECOND);
    let session = world.hosts[provider.0].opened[0].0;
    world.command(provider, NodeCommand::SourceDeclined { session, sentence: "too late".parse().unwrap() });
    let summary = finished(&mut world, requester, ticket);
    assert_eq!((summary.complete, summary.reason), (false, Some(Reason::SourceFailed)));
}

/// The bytes of a decline of a request with this text.
fn wrong_decline(id: RequestId, text: &str) -> Bytes {
    let longest = "x".repeat(MAX_SENTENCE_BYTES);
    let sentence = Some(longest.parse().unwrap_or_else(|error| panic!("{error}")));
    let decline = Decline { sentence, ..Decline::new(id, Reason::SourceFailed) };
    let mut bytes = Message::Request(RequestMessage::Decline(decline)).encode().to_vec();
    bytes.truncate(bytes.len() - longest.len() - 2);
    bytes.push(0x79);
    bytes.extend((text.len() as u16).to_be_bytes());
    bytes.extend(text.as_bytes());
    bytes.into()
}

#[test]
fn other_texts_are_not_read() {
    let (mut world, _, provider, requester) = single_hub_world(6, Role::SuperNode);
    world.hosts[provider.0].slow_source = true;
    world.corpus = Some(Vec::new());
    let ticket = world.request_with(requester, Service::Image, ANYWHERE, |wanted| wanted.provider = named(provider));
    assert!(world.run_while(5 * SECOND, |world| !world.hosts[provider.0].opened.is_empty()));
    let id = world.corpus.take().unwrap().iter().find_map(|message| match Message::decode(message) {
        Ok(Message::Request(RequestMessage::Request(request))) => Some(request.id),
        _ => None,
    });
    let id = id.unwrap();
    for text in [
        "x".repeat(MAX_SENTENCE_BYTES + 1),
        "x".repeat(60_000),
        "\u{1b}[2J".to_owned(),
        "a\nb".to_owned(),
        String::new(),
    ] {
        let before = world.status(requester).counters.malformed;
        assert!(world.inject(provider, requester, wrong_decline(id, &text)));
        assert_eq!(world.status(requester).counters.malformed, before + 1, "{} bytes", text.len());
    }
    assert!(world.hosts[requester.0].ending(ticket).is_none());
    // A decline with a sentence is read, and only once.
    for words in ["the first", "the second"] {
        assert!(world.inject(provider, requester, wrong_decline(id, words)));
    }
    assert_eq!(told(&mut world, requester, ticket).0.as_deref(), Some("the first"));
    assert_eq!(world.hosts[requester.0].endings(ticket).count(), 1);
}
