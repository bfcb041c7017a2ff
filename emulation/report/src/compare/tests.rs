//! Comparisons of synthetic runs.

use roost_results::record::RequestOutcome;
use roost_results::testing::SyntheticShape;
use roost_statistics::Method;

use super::*;
use crate::measure::MeasureKind;

fn side(shapes: impl IntoIterator<Item = SyntheticShape>) -> LoadedSide {
    let mut loading = LoadedSide { folder: "side".into(), runs: Vec::new() };
    shapes.into_iter().for_each(|shape| loading.add(shape.make().results));
    loading
}

fn comparison(a: &LoadedSide, b: &LoadedSide) -> Comparison {
    compare_sides(a, b).unwrap()
}

fn shape(seed: u64, slower: f64) -> SyntheticShape {
    SyntheticShape { seed, slower, seconds: 120, requests: 400, ..SyntheticShape::default() }
}

fn find<'a>(comparison: &'a Comparison, kind: &MeasureKind) -> &'a ComparisonRow {
    comparison.rows.iter().find(|row| row.measure.kind == *kind).unwrap()
}

#[test]
fn identical_runs_show_no_difference() {
    let comparison = comparison(&side([shape(1, 1.0)]), &side([shape(1, 1.0)]));
    assert!(comparison.differences.is_empty() && comparison.distrust_reasons.is_empty());
    assert!(comparison.rows.iter().filter(|row| row.interval.is_some()).count() > 15);
    for row in &comparison.rows {
        assert!(row.ratio.is_none_or(|ratio| (ratio - 1.0).abs() < 1e-12), "{row:?}");
        assert!(row.interval.is_none_or(|interval| interval.low <= 1.0 && interval.high >= 1.0), "{row:?}");
    }
}

#[test]
fn slower_latency_found_in_single_runs() {
    let comparison = comparison(&side([shape(1, 1.0)]), &side([shape(2, 2.0)]));
    for service in ["video", "track", "image", "sensor"] {
        let row = find(&comparison, &MeasureKind::Latency(service.into(), 500));
        let interval = row.interval.unwrap();
        assert_eq!((row.finding(), interval.method), (ComparisonFinding::Worse, Method::Requests), "{row:?}");
        assert!(interval.low < 2.3 && interval.high > 1.7, "{row:?}");
    }
    let completed = find(&comparison, &MeasureKind::Completed);
    assert_eq!(completed.interval.map(|interval| interval.method), Some(Method::TimeBlocks));
    assert_eq!(completed.finding(), ComparisonFinding::Inconclusive);
    assert_eq!(find(&comparison, &MeasureKind::HubCpu).finding(), ComparisonFinding::Unknown);
}

#[test]
fn only_equal_seeds_are_paired() {
    let a = side((1..=4).map(|seed| shape(seed, 1.0)));
    let same = comparison(&a, &side((1..=4).map(|seed| shape(seed, 0.5))));
    let row = find(&same, &MeasureKind::Latency("track".into(), 500));
    let interval = row.interval.unwrap();
    assert_eq!((row.finding(), interval.method), (ComparisonFinding::Better, Method::PairedBySeed));
    // All requests take half the time: there is no random difference.
    assert!((interval.ratio - 0.5).abs() < 1e-3 && interval.high - interval.low < 0.01);
    let other = comparison(&a, &side((5..=8).map(|seed| shape(seed, 0.5))));
    let interval = find(&other, &MeasureKind::Latency("track".into(), 500)).interval.unwrap();
    assert_eq!(interval.method, Method::Welch);
    assert!(interval.low < 0.5 && interval.high > 0.5 && interval.excludes_one(), "{interval:?}");
}

#[test]
fn few_requests_give_no_interval() {
    let few = |seeds: std::ops::Range<u64>| side(seeds.map(|seed| SyntheticShape { requests: 60, ..shape(seed, 1.0) }));
    for comparison in [comparison(&few(1..2), &few(2..3)), comparison(&few(1..5), &few(1..5))] {
        let row = find(&comparison, &MeasureKind::Latency("track".into(), 990));
        assert_eq!((row.interval, row.finding()), (None, ComparisonFinding::TooFewRequests), "{row:?}");
        assert!(row.measure.show(row.a).starts_with('('), "{row:?}");
    }
}

#[test]
fn topologies_are_compared_each_with_itself() {
    let both = |architecture: &'static str, slower: f64, topologies: &[&'static str]| {
        let shapes = topologies.iter().flat_map(|topology| (1..=3).map(move |seed| (topology, seed)));
        side(shapes.map(|(topology, seed)| SyntheticShape { architecture, topology, ..shape(seed, slower) }))
    };
    let a = both("client-server", 1.0, &["star-11", "star-26"]);
    let compared = comparison(&a, &both("super-node", 2.0, &["star-11", "star-26", "tree-11"]));
    let names: Vec<&str> = compared.cells().iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["star-11", "star-26"]);
    for (_, rows) in compared.cells() {
        let row = rows.iter().find(|row| row.measure.kind == MeasureKind::MeanLatency("track".into())).unwrap();
        assert_eq!(row.interval.map(|interval| interval.method), Some(Method::PairedBySeed));
        assert!((row.ratio.unwrap() - 2.0).abs() < 0.01, "{row:?}");
    }
    assert_eq!((compared.a.name.as_str(), compared.b.name.as_str()), ("client-server", "super-node"));
    assert!(compared.warnings.iter().any(|said| said.contains("Only side B has runs of tree-11")));
    // In reverse the runs are of several kinds, and their pairing is ambiguous.
    let mixed = compare_sides(&a, &both("super-node", 1.0, &["tree-11"]));
    let error = mixed.unwrap_err().to_string();
    assert!(error.contains("side A are not of one kind") && error.contains("topology"), "{error}");
}

#[test]
fn cells_have_names_and_order() {
    let both = |architecture: &'static str| {
        let mut loading = LoadedSide { folder: "side".into(), runs: Vec::new() };
        for delay in ["100ms", "1ms", "20ms"] {
            let mut results = SyntheticShape { architecture, requests: 20, ..shape(1, 1.0) }.make().results;
            results.plan = Some(format!("[links.camp]\ndelay = '{delay}'\n"));
            loading.add(results);
        }
        loading
    };
    let compared = comparison(&both("client-server"), &both("super-node"));
    let names: Vec<&str> = compared.cells().iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["camp delay 1ms", "camp delay 20ms", "camp delay 100ms"]);
    assert!(page::of_comparison(&compared).contains("<b>Over all ports.</b>"));
}

#[test]
fn warnings_name_differing_settings() {
    let odd = SyntheticShape { architecture: "client-server", topology: "star-26", ..shape(1, 1.0) };
    let comparison = comparison(&side([shape(1, 1.0), shape(2, 1.0)]), &side([odd]));
    let said = comparison.warnings.join(" ");
    assert!(said.contains("2 respects (architecture, topology)"), "{said}");
    assert!(said.contains("a single run"), "{said}");
    assert!(comparison.rows.iter().all(|row| row.interval.is_none()));
}

#[test]
fn unequal_success_warns_about_latency() {
    let failing = |part: usize| {
        let mut results = shape(1, 1.0).make().results;
        results.requests.iter_mut().step_by(part).for_each(|request| request.outcome = RequestOutcome::TimedOut);
        let mut loading = LoadedSide { folder: "side".into(), runs: Vec::new() };
        loading.add(results);
        loading
    };
    let said = |a: &LoadedSide, b: &LoadedSide| comparison(a, b).warnings.join(" ");
    let said_of = said(&failing(400), &failing(5));
    assert!(said_of.contains("latencies are of completed requests only: those of B leave out more"), "{said_of}");
    let said_of = said(&failing(100), &failing(120));
    assert!(!said_of.contains("completed requests only"), "{said_of}");
}

#[test]
fn different_machine_or_build_warns() {
    let (a, mut b) = (side([shape(1, 1.0)]), side([shape(2, 1.0)]));
    b.runs[0].run.machine.insert("processors".into(), "16".into());
    b.runs[0].run.versions.insert("overlay-node".into(), "0.1.0, debug".into());
    let comparison = comparison(&a, &b);
    let said = comparison.warnings.join(" ");
    assert!(
        said.contains("same ground: machine: processors (16; 2), program: overlay-node (0.1.0; 0.1.0, debug)"),
        "{said}"
    );
    assert!(comparison.differences.iter().any(|one| one.setting == "machine: processors"));
}

#[test]
fn unusable_runs_excluded_if_others_exist() {
    let bad = |seed| SyntheticShape { valid: false, ..shape(seed, 9.0) };
    let a = side([shape(1, 1.0), shape(2, 1.0)]);
    let compared = comparison(&a, &side([shape(1, 1.0), bad(2), shape(2, 1.0)]));
    assert!(compared.distrust_reasons.is_empty() && compared.b.seeds == [1, 2]);
    assert!(compared.warnings.iter().any(|said| said.contains("Of side B's 3 runs, 1 is left out")));
    assert!(compared.rows.iter().all(|row| row.ratio.is_none_or(|ratio| (ratio - 1.0).abs() < 1e-12)));
    assert_eq!(comparison(&a, &side([bad(1), bad(2)])).distrust_reasons.len(), 2);
}

#[test]
fn sides_have_names_that_differ() {
    let named = |name: &str, architecture| {
        let mut loading = side([SyntheticShape { architecture, ..shape(1, 1.0) }]);
        loading.runs[0].run.name = name.into();
        loading
    };
    let names = |a: &LoadedSide, b: &LoadedSide| name_sides((a, &a.usable().0), (b, &b.usable().0));
    let (a, b) = (named("x", "client-server"), named("x", "super-node"));
    assert_eq!(names(&a, &b), ("client-server".into(), "super-node".into()));
    assert_eq!(names(&a, &named("y", "super-node")), ("x".into(), "y".into()));
    assert_eq!(names(&a, &a), ("side".into(), "side".into()));
}

#[test]
fn folder_comparison_is_deterministic() {
    let folder = tempfile::tempdir().unwrap();
    let (a, b) = (folder.path().join("a"), folder.path().join("b"));
    shape(1, 1.0).make().write(&a);
    shape(2, 1.3).make().write(&b);
    let text = || serde_json::to_string(&compare(&a, &b).unwrap()).unwrap();
    assert_eq!(text(), text());
    assert!(compare(&a, &folder.path().join("c")).is_err());
}
