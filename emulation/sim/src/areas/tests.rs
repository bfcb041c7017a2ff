use super::*;

fn settings(system: AreaSystem, session_s: u64) -> AreaSettings {
    let (session, length) = (Duration::from_secs(session_s), Duration::from_secs(60));
    AreaSettings { system, nodes: 200, radius: 4, session, length, seed: 1 }
}

#[test]
fn quiet_networks_find_everybody() {
    for system in [AreaSystem::Dht(DhtSettings::default()), AreaSystem::SuperNodes] {
        let figures = measure(&settings(system, 1_000_000)).unwrap();
        assert!(figures.searches > 100, "{figures:?}");
        assert!(figures.success > 0.99 && figures.recall > 0.99, "{figures:?}");
        assert_eq!((figures.violations, figures.overflows, figures.stale), (0, 0, 0.0), "{figures:?}");
        assert!(figures.p50_ms >= 80.0, "a round trip to the home or the next node: {figures:?}");
    }
}

#[test]
fn churn_makes_traffic_and_loses_little() {
    for system in [AreaSystem::Dht(DhtSettings::default()), AreaSystem::SuperNodes] {
        let [quiet, churn] = [1_000_000, 120].map(|session| measure(&settings(system, session)).unwrap());
        assert!(churn.recall > 0.8, "{churn:?}");
        assert!(churn.node_bytes_s > quiet.node_bytes_s, "{quiet:?} {churn:?}");
        assert_eq!((churn.violations, churn.overflows), (0, 0), "{churn:?}");
    }
}

#[test]
fn churn_of_super_nodes_costs_searches() {
    let figures = measure(&settings(AreaSystem::ChurningSuperNodes, 60)).unwrap();
    assert!(figures.recall > 0.1 && figures.recall < 0.999, "{figures:?}");
    assert_eq!((figures.violations, figures.overflows), (0, 0), "{figures:?}");
}

/// Each super node that starts again is told of nodes that may be silent for most of a lease.
#[test]
fn the_dead_outlive_no_lease() {
    let settings =
        AreaSettings { nodes: 1000, length: Duration::from_secs(300), ..settings(AreaSystem::ChurningSuperNodes, 60) };
    let figures = measure(&settings).unwrap();
    assert_eq!((figures.violations, figures.overflows), (0, 0), "{figures:?}");
}

#[test]
fn a_seed_repeats_a_run() {
    for system in [AreaSystem::Dht(DhtSettings::default()), AreaSystem::SuperNodes] {
        let [one, other] = [(); 2].map(|()| measure(&settings(system, 300)).unwrap());
        assert_eq!(AreaFigures { wall_s: 0.0, ..one }, AreaFigures { wall_s: 0.0, ..other });
    }
}
