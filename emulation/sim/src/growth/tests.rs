use super::*;

/// Three homes of a hundred nodes would have one middle; a forest of two middles is the smallest that has
/// targets across the roots.
#[test]
fn lookups_take_round_trips_of_hops() {
    let settings = GrowthSettings { seed: 1, quiet: Duration::from_secs(60), lookups: 20 };
    let size = measure(600, &settings).unwrap();
    assert_eq!((size.hubs, size.violations, size.overflows), ([6, 2, 2], 0, 0));
    for lookups in size.lookups.iter().flatten() {
        assert_eq!(lookups.found, lookups.asked, "{lookups:?}");
        assert!(lookups.least_ms >= lookups.hops_ms, "{lookups:?}");
    }
    let [Some(home), Some(tier), Some(across)] = &size.lookups else { panic!("{:?}", size.lookups) };
    assert_eq!([home, tier, across].map(|lookups| lookups.hops_ms), [80.0, 240.0, 360.0]);
    let [Some(home_asked), Some(tier_asked), Some(across_asked)] = &size.requests else {
        panic!("{:?}", size.requests)
    };
    let asked = [home_asked, tier_asked, across_asked];
    assert_eq!(asked.map(|requests| requests.hops_ms), [160.0, 320.0, 440.0]);
    for requests in asked {
        assert_eq!((requests.accepted, requests.accepted_again), (20, 20), "{requests:?}");
        // Only queues and transmission times add to it.
        assert!((0.0..10.0).contains(&(requests.p50_ms - requests.hops_ms)), "{requests:?}");
        assert!(requests.first_ms > requests.p50_ms, "{requests:?}");
    }
    assert!(home.messages < tier.messages && tier.messages < across.messages);
    assert_eq!((size.holds[0].nodes, size.holds[0].replicas > 0), (100, true));
    assert!(size.uplinks[0].mean > 0.0 && size.uplinks[0].leg_up > size.uplinks[0].mean, "{:?}", size.uplinks);
}

#[test]
fn root_of_larger_network_knows_more() {
    let [small, large] = [1_000, 6_000].map(|nodes| hub_memory::of_root(nodes).unwrap());
    assert_eq!((small.nodes, small.below), (1_000, 2));
    assert!(large.block_services > small.block_services * 2, "{small:?} {large:?}");
}

#[test]
fn a_home_holds_its_nodes() {
    assert_eq!(hub_memory::of_home().unwrap().below, 100);
}
