//! Profiles of requests: each gets the delivery that it asks for.

use crate::*;

const WHOLE: [Profile; 2] = [Profile::Surveillance, Profile::Command];

/// Asks for eight seconds of video while the connections between provider and
/// requester break so many times.
fn watched(
    (world, provider, requester): (&mut World, HostId, HostId),
    profile: Option<Profile>,
    breaks: usize,
) -> RequestSummary {
    let ticket = world.request_with(requester, Service::Video, ANYWHERE, |wanted| {
        (wanted.duration, wanted.profile) = (Some(8 * SECOND), profile);
    });
    for _ in 0..breaks {
        world.run(1700 * MS);
        world.break_connections(provider, requester);
        world.break_connections(requester, provider);
    }
    finished(world, requester, ticket)
}

#[track_caller]
fn is_whole(seed: u64, summary: &RequestSummary) {
    assert!(summary.complete && summary.digest_ok == Some(true), "seed {seed}: {summary:?}");
    assert_eq!((summary.lost, summary.late, summary.reordered), (0, 0, 0), "seed {seed}: {summary:?}");
}

#[test]
fn surveillance_profile_survives_loss() {
    for_few_seeds(|seed| {
        for (role, profile) in [(Role::SuperNode, WHOLE[0]), (Role::Server, WHOLE[0]), (Role::SuperNode, WHOLE[1])] {
            let (mut world, _, provider, requester) = single_hub_world(seed, role);
            (world.path.loss, world.path.spread) = (50, 30 * MS);
            is_whole(seed, &watched((&mut world, provider, requester), Some(profile), 0));
            let usual = watched((&mut world, provider, requester), None, 0);
            assert!(usual.lost > 0 && usual.reordered > 0, "seed {seed}: nothing happened: {usual:?}");
            world.run(10 * SECOND);
            assert!(world.status(provider).sessions.is_empty(), "seed {seed}");
        }
    });
}

#[test]
fn surveillance_profile_survives_broken_connections() {
    for_few_seeds(|seed| {
        let (mut world, _, provider, requester) = single_hub_world(seed, Role::SuperNode);
        (world.path.loss, world.path.spread) = (20, 30 * MS);
        let summary = watched((&mut world, provider, requester), Some(Profile::Surveillance), 4);
        is_whole(seed, &summary);
        let usual = watched((&mut world, provider, requester), None, 4);
        assert!(usual.lost > 0, "seed {seed}: nothing happened: {usual:?}");
    });
}

/// The time after which a transport gives a silent remote up.
const TRANSPORT_PATIENCE: Duration = Duration::from_secs(10);

/// Nobody reaches `host` for so long. What was sent reliably comes later, unless the connection breaks.
fn cut_off(world: &mut World, host: HostId, others: &[HostId], span: Duration) {
    for other in others.iter().filter(|other| **other != host) {
        world.cut(host, *other);
    }
    let (waits, rest) = (span.min(TRANSPORT_PATIENCE), span.saturating_sub(TRANSPORT_PATIENCE));
    world.run(waits);
    if !rest.is_zero() {
        others.iter().filter(|other| **other != host).for_each(|other| world.break_connections(host, *other));
        others.iter().filter(|other| **other != host).for_each(|other| world.break_connections(*other, host));
    }
    world.run(rest);
    world.heal();
}

#[test]
fn surveillance_profile_survives_outages() {
    let spans = [1, 3, 4, 5, 7, 12].map(|seconds| seconds * SECOND);
    let cases: Vec<_> = (0..2).flat_map(|host| spans.map(|span| (host, span))).collect();
    for_seeds(4 * cases.len() as u64, |seed| {
        let (last, span) = cases[seed as usize % cases.len()];
        let (mut world, hub, provider, requester) = single_hub_world(seed, Role::SuperNode);
        (world.path.loss, world.path.delay) = (5, MS * (5 + seed as u32 * 7 % 60));
        world.retransmits = true;
        let ticket = world.request_with(requester, Service::Video, ANYWHERE, |wanted| {
            (wanted.duration, wanted.profile) = (Some(40 * SECOND), Some(Profile::Surveillance));
        });
        let all = [hub, provider, requester];
        world.run(4 * SECOND + MS * (seed * 131 % 1000) as u32);
        cut_off(&mut world, requester, &all, 4 * SECOND);
        world.run(4 * SECOND);
        cut_off(&mut world, [provider, requester][last], &all, span);
        is_whole(seed, &finished(&mut world, requester, ticket));
    });
}

#[test]
fn piloting_profile_drops_and_counts_late() {
    for_few_seeds(|seed| {
        let (mut world, _, provider, requester) = single_hub_world(seed, Role::SuperNode);
        let on_time = watched((&mut world, provider, requester), Some(Profile::Piloting), 0);
        is_whole(seed, &on_time);
        // A quarter of a second and as much again: half of it is late. Some never comes.
        (world.path.loss, world.path.spread) = (20, 500 * MS);
        let late = watched((&mut world, provider, requester), Some(Profile::Piloting), 0);
        assert_eq!(late.packets + late.late, on_time.packets, "seed {seed}: {late:?}");
        let part = late.late as f64 / on_time.packets as f64;
        assert!((0.4..0.65).contains(&part) && late.lost == 0, "seed {seed}: {late:?}");
    });
}

#[test]
fn object_is_whole_under_every_profile() {
    for profile in Profile::ALL {
        let (mut world, _, _, requester) = single_hub_world(1, Role::SuperNode);
        world.path.loss = 50;
        let wanted = |wanted: &mut RequestCommand| wanted.profile = Some(profile);
        let ticket = world.request_with(requester, Service::Image, ANYWHERE, wanted);
        is_whole(1, &finished(&mut world, requester, ticket));
    }
}

/// The class in which most of what a host sends for a second of video leaves.
fn class_of_video(
    role: Role,
    of_hub: bool,
    usual: DeliveryClass,
    profile: Option<Profile>,
    class: Option<DeliveryClass>,
) -> &'static str {
    let mut world = World::new(1);
    let hub = world.hub(role);
    let provider = world.node_with(&[hub], |config| {
        (config.services, config.classes) =
            (ServiceSet::ALL, DeliveryClasses { video: usual, ..DeliveryClasses::default() });
    });
    let requester = world.node((0, 0), &[], &[hub]);
    world.run_until_attached();
    let ticket = world.request_with(requester, Service::Video, ANYWHERE, |wanted| {
        (wanted.duration, wanted.profile, wanted.class) = (Some(SECOND), profile, class);
    });
    is_whole(1, &finished(&mut world, requester, ticket));
    let host = if of_hub { hub } else { provider };
    let most = world.classes.iter().filter(|((of, _), _)| *of == host).max_by_key(|(_, bytes)| **bytes);
    most.map_or("nothing", |((_, class), _)| class)
}

#[test]
fn requested_class_overrides_provider_class() {
    let (stripe, duplicate, backup) = (DeliveryClass::Stripe, DeliveryClass::Duplicate, DeliveryClass::Backup);
    let piloting = Some(Profile::Piloting);
    for role in [Role::SuperNode, Role::Server] {
        let of = |usual, profile, class| class_of_video(role, false, usual, profile, class);
        assert_eq!(of(stripe, None, None), "stripe");
        assert_eq!(of(stripe, None, Some(backup)), "backup");
        assert_eq!(of(backup, None, None), "backup");
        assert_eq!(of(backup, piloting, None), "duplicate");
        assert_eq!(of(duplicate, piloting, Some(backup)), "backup");
    }
    // A hub that relays knows what was asked for, and nothing of the provider's choice.
    let relayed = |usual, class| class_of_video(Role::Server, true, usual, None, class);
    assert_eq!((relayed(stripe, Some(backup)), relayed(backup, None)), ("backup", "stripe"));
}
