//! Paths that lose, repeat and reorder.

use crate::*;

#[test]
fn services_complete_at_thirty_percent_loss() {
    for seed in 0..20 {
        for (role, mode) in [
            (Role::SuperNode, RequestMode::Forward),
            (Role::SuperNode, RequestMode::Relay),
            (Role::Server, RequestMode::Relay),
        ] {
            let (mut world, _, _, requester) = single_hub_world(seed, role);
            world.path.loss = 300;
            for service in Service::ALL {
                let ticket = world.request_with(requester, service, ANYWHERE, |wanted| {
                    wanted.mode = mode;
                    wanted.timeout = Some(30 * SECOND);
                });
                let summary = finished(&mut world, requester, ticket);
                assert!(summary.complete, "seed {seed}, {service} {mode:?}: {summary:?}");
                if service.is_stream() {
                    let share = summary.lost * 1000 / (summary.lost + summary.packets);
                    assert!((100..800).contains(&share), "seed {seed}, {service}: {summary:?}");
                }
            }
        }
    }
}

#[test]
fn repeated_requests_are_served_once() {
    for seed in 0..20 {
        let (mut world, _, provider, requester) = single_hub_world(seed, Role::SuperNode);
        world.path.duplication = 1000;
        world.path.spread = 10 * MS;
        for (count, service) in Service::ALL.into_iter().enumerate() {
            let ticket = world.request(requester, service, ANYWHERE);
            let summary = finished(&mut world, requester, ticket);
            assert!(summary.complete, "{summary:?}");
            if service.is_stream() {
                let duplicates = summary.duplicates as f64 / summary.packets as f64;
                assert!(duplicates > 0.9, "{summary:?}");
            }
            assert_eq!(world.hosts[provider.0].opened.len(), count + 1, "seed {seed}, {service}");
        }
    }
}

#[test]
fn overtaken_datagrams_are_delivered_and_counted() {
    let (mut world, _, _, requester) = single_hub_world(3, Role::SuperNode);
    world.path.spread = 60 * MS;
    let ticket = world.request(requester, Service::Video, ANYWHERE);
    let summary = finished(&mut world, requester, ticket);
    assert!(summary.complete && summary.lost == 0, "{summary:?}");
    assert!(summary.reordered > 10 && summary.jitter > 5 * MS, "{summary:?}");
    assert_eq!(summary.digest_ok, None);
    let payloads: Vec<_> = world.hosts[requester.0].payloads(ticket).cloned().collect();
    let mut distinct = payloads.clone();
    distinct.sort();
    distinct.dedup();
    assert_eq!(distinct.len(), payloads.len(), "nothing comes twice");
}

#[test]
fn same_seed_gives_same_run() {
    let run = |seed| {
        let (mut world, _, _, requester) = single_hub_world(seed, Role::SuperNode);
        world.path.loss = 100;
        world.path.duplication = 50;
        world.path.spread = 15 * MS;
        for service in Service::ALL {
            let ticket = world.request(requester, service, ANYWHERE);
            world.outcome(requester, ticket);
        }
        world.trace()
    };
    assert_eq!(run(7), run(7));
    assert_ne!(run(7), run(8));
}
