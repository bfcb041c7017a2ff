//! Differences between two runs' inputs.

use std::collections::{BTreeMap, BTreeSet};

use roost_results::record::RunRecord;
use serde::Serialize;

use crate::comparability::{platform_facts, settings};

const HUBS: [&str; 3] = ["server", "caches", "super_nodes"];
/// Facts of the run itself, for plans that do not state them.
const FACTS: [&str; 4] = ["architecture", "topology", "transport", "duration"];

/// A respect in which the plans of two sides differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The setting, `workload.idle`.
    pub setting: String,
    /// The value on side A; `None` if it is not set.
    pub a: Option<String>,
    pub b: Option<String>,
}

/// The inputs of a run.
#[derive(Clone, Copy)]
pub(super) struct RunFacts<'a> {
    pub(super) run: &'a RunRecord,
    pub(super) plan: Option<&'a str>,
    pub(super) topology: Option<&'a str>,
}

/// The differences between two runs: settings of their plans, the runs' own facts where no setting states them,
/// the topology beyond its name, and their platforms: machines, programs that both used, the carrying of
/// packets. The hosts of hubs are no difference of their own if the architectures differ.
pub(super) fn differences(a: RunFacts<'_>, b: RunFacts<'_>) -> Vec<Difference> {
    let plans = a.plan.zip(b.plan).map(|(a, b)| (settings(a), settings(b))).unwrap_or_default();
    let mut found = between("", &plans.0, &plans.1);
    for fact in FACTS {
        let (a, b) = (fact_of(a.run, fact), fact_of(b.run, fact));
        let is_told = found.iter().any(|one| one.setting.contains(fact));
        if a != b && !is_told {
            found.push(Difference { setting: fact.to_owned(), a: Some(a), b: Some(b) });
        }
    }
    if a.run.architecture != b.run.architecture {
        found.retain(|one| !HUBS.contains(&one.setting.as_str()));
    }
    let is_told = found.iter().any(|one| one.setting.starts_with("topology"));
    if a.topology.zip(b.topology).is_some_and(|(a, b)| a != b) && !is_told {
        let text = |which: &str| Some(format!("{which}'s file"));
        found.push(Difference { setting: "topology".to_owned(), a: text("A"), b: text("B") });
    }
    let grounds = between("", &platform_facts(a.run), &platform_facts(b.run));
    found.extend(grounds.into_iter().filter(|one| one.a.is_some() && one.b.is_some()));
    found
}

/// The respects in which plans differ: all settings of a topology are one.
pub(super) fn respects(differences: &[Difference]) -> BTreeSet<&str> {
    let respect = |one: &'_ Difference| if one.setting.starts_with("topology.") { 8 } else { one.setting.len() };
    differences.iter().map(|one| &one.setting[..respect(one)]).collect()
}

fn fact_of(run: &RunRecord, fact: &str) -> String {
    match fact {
        "architecture" => run.architecture.clone(),
        "topology" => run.topology.clone(),
        "transport" => run.transport.clone(),
        _ => format!("{} s", run.duration_s),
    }
}

fn between(prefix: &str, a: &BTreeMap<String, String>, b: &BTreeMap<String, String>) -> Vec<Difference> {
    let keys: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    let differ = keys.into_iter().filter(|key| a.get(*key) != b.get(*key));
    let one =
        |key: &String| Difference { setting: format!("{prefix}{key}"), a: a.get(key).cloned(), b: b.get(key).cloned() };
    differ.map(one).collect()
}

#[cfg(test)]
mod tests {
    use roost_results::testing::SyntheticShape;

    use super::*;

    fn names(a: &SyntheticShape, plan_a: Option<&str>, b: &SyntheticShape, plan_b: Option<&str>) -> Vec<String> {
        let (a, b) = (a.make().results.run, b.make().results.run);
        let facts = |run, plan| RunFacts { run, plan, topology: None };
        differences(facts(&a, plan_a), facts(&b, plan_b)).into_iter().map(|one| one.setting).collect()
    }

    #[test]
    fn seeds_and_names_are_no_difference() {
        let (a, b) = (SyntheticShape::default(), SyntheticShape { seed: 2, ..SyntheticShape::default() });
        assert!(names(&a, Some("seed = 1\nname = \"x\""), &b, Some("seed = 2\nname = \"y\"")).is_empty());
    }

    #[test]
    fn settings_listed_once_by_path() {
        let (a, b) =
            (SyntheticShape::default(), SyntheticShape { architecture: "client-server", ..SyntheticShape::default() });
        let plan_a = "architecture = \"super-node\"\n[workload]\nidle = \"1s\"\n[[fault]]\nat = \"3s\"";
        let plan_b = "architecture = \"client-server\"\n[workload]\nidle = \"2s\"";
        assert_eq!(names(&a, Some(plan_a), &b, Some(plan_b)), ["architecture", "fault.1.at", "workload.idle"]);
    }

    #[test]
    fn architecture_and_topology_are_one_difference() {
        let (a, b) =
            (SyntheticShape::default(), SyntheticShape { architecture: "client-server", ..SyntheticShape::default() });
        let plan_a = "architecture = \"super-node\"\nsuper_nodes = [\"hub\"]\n[topology.tree]\nnodes = 11\nlow = 6";
        let plan_b = "architecture = \"client-server\"\nserver = \"hub\"\n[topology.tree]\nnodes = 31\nlow = 20";
        let (a, b) = (a.make().results.run, b.make().results.run);
        let facts = |run, plan| RunFacts { run, plan: Some(plan), topology: None };
        let found = differences(facts(&a, plan_a), facts(&b, plan_b));
        assert_eq!(found.len(), 3);
        assert_eq!(respects(&found).into_iter().collect::<Vec<_>>(), ["architecture", "topology"]);
    }

    #[test]
    fn same_named_topologies_can_differ() {
        let run = SyntheticShape::default().make().results.run;
        let facts = |topology| RunFacts { run: &run, plan: None, topology: Some(topology) };
        assert!(differences(facts("x"), facts("x")).is_empty());
        assert_eq!(differences(facts("x"), facts("y"))[0].setting, "topology");
    }

    #[test]
    fn without_plans_the_runs_tell() {
        let (a, b) = (
            SyntheticShape::default(),
            SyntheticShape { topology: "star-26", seconds: 61, ..SyntheticShape::default() },
        );
        assert_eq!(names(&a, None, &b, None), ["topology", "duration"]);
        assert_eq!(names(&a, Some("not toml"), &a, Some("not toml either")), ["plan"]);
    }
}
