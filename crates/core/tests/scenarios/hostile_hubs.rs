//! Hubs that send their nodes in circles.

use crate::*;

/// A hub's answer to everything that a node says.
type Answer = fn(hub: HostId, round: u32) -> Message;

/// Two hubs, of which the first answers as it likes, a node there, which had a lease before or comes
/// now, and a provider at the other.
fn with_hostile_home(comes_now: bool) -> (World, [HostId; 2], HostId) {
    let mut world = World::new(8);
    let hubs = [world.hub(Role::SuperNode), world.hub(Role::SuperNode)];
    world.node((27, 92), &[Service::Sensor], &hubs[1..]);
    world.run_until_attached();
    let node = HostId(world.hosts.len());
    if comes_now {
        world.mute(hubs[0], node);
    }
    world.node((0, 0), &[], &hubs);
    if !comes_now {
        world.run_until_attached();
        world.run(30 * SECOND);
        world.mute(hubs[0], node);
    }
    (world, hubs, node)
}

/// Counts how often the node publishes, and how often it dials, in a time in which the hub answers.
fn circles(world: &mut World, (hub, node): (HostId, HostId), answer: Answer, span: Duration) -> (usize, usize) {
    let (mut published, mut dials, mut was_dialling) = (0, 0, false);
    let mut round = 0;
    let end = world.now + span;
    while world.now < end {
        world.corpus = Some(Vec::new());
        world.run(5 * MS);
        for message in world.corpus.take().unwrap_or_default() {
            let said = Message::decode(&message);
            published += usize::from(matches!(
                said,
                Ok(Message::Registration(RegistrationMessage::Publish(_))
                    | Message::Registration(RegistrationMessage::Adopt(_)))
            ));
        }
        if world.home(node).is_none_or(|home| home == hub) {
            round += 1;
            world.inject(hub, node, answer(hub, round).encode());
        }
        let is_dialling = world.is_dialing(node);
        dials += usize::from(is_dialling && !was_dialling);
        was_dialling = is_dialling;
    }
    (published, dials)
}

#[test]
fn hub_sending_in_circles_is_left() {
    let lease = |_: HostId, round: u32| {
        Message::Registration(RegistrationMessage::Lease {
            version: Version { epoch: 2_000_000, sequence: round * 10 },
            lease_ms: 60_000,
            siblings: None,
            addresses: None,
            media: None,
        })
    };
    let answers: [(&str, Answer); 5] = [
        ("anew", |_, _| Message::Registration(RegistrationMessage::UnknownVersion)),
        ("itself", |hub, _| Message::Registration(RegistrationMessage::Redirect(addresses(hub.0)))),
        ("nobody", |_, round| {
            Message::Registration(RegistrationMessage::Redirect(addresses(200 + round as usize % 50)))
        }),
        ("later", |_, _| Message::Registration(RegistrationMessage::RetryAfter(0))),
        ("newer", lease),
    ];
    for comes_now in [false, true] {
        for (name, answer) in answers {
            let (mut world, [hostile, other], node) = with_hostile_home(comes_now);
            let (published, dials) = circles(&mut world, (hostile, node), answer, 60 * SECOND);
            assert!(published <= 40, "{name}, {comes_now}: {published} times in a minute");
            assert!(dials <= 20, "{name}, {comes_now}: {dials} dials in a minute");
            // A node that has a lease loses nothing by being sent elsewhere in vain.
            let stays = !comes_now && matches!(name, "itself" | "nobody" | "later");
            if !stays {
                assert_eq!(world.home(node), Some(other), "{name}, {comes_now}");
                let ticket = world.request(node, Service::Sensor, ANYWHERE);
                assert!(finished(&mut world, node, ticket).complete, "{name}, {comes_now}");
            }
        }
    }
}

/// A node that knows no other hub comes back, but ever more seldom.
#[test]
fn single_hostile_hub_dialed_with_backoff() {
    let mut world = World::new(8);
    let hub = world.hub(Role::SuperNode);
    let node = world.node((0, 0), &[], &[hub]);
    world.run_until_attached();
    world.run(30 * SECOND);
    let anew: Answer = |_, _| Message::Registration(RegistrationMessage::UnknownVersion);
    circles(&mut world, (hub, node), anew, 300 * SECOND);
    let (published, dials) = circles(&mut world, (hub, node), anew, 300 * SECOND);
    assert!(published <= 40 && dials <= 8, "{published} times and {dials} dials in five minutes");
    world.run(90 * SECOND);
    assert!(world.is_attached(node));
}
