//! The conditions under which runs are repetitions of each other, or comparable.

use std::collections::{BTreeMap, BTreeSet};

use roost_results::record::RunRecord;

use super::write::distrust_reasons;

/// Settings that differ between repetitions, or do not affect the run.
const IGNORED: [&str; 4] = ["seed", "seeds", "name", "output"];
/// Facts about machine and network that differ each time, or follow from the topology; for a simulated run its
/// result, its steps and its real time.
const PASSING: [&str; 6] = ["load_before", "set_up", "interfaces", "trace_hash", "wall_s", "steps"];

/// The file of the network, as a fact: a topology's name may stay when it changes.
pub(super) const NETWORK: &str = "network";

pub(super) type FactMap = BTreeMap<String, String>;

/// The settings of a plan, key by key, without the seed and the name. A plan that is not TOML is one setting.
pub(super) fn settings(plan: &str) -> FactMap {
    let mut settings = FactMap::new();
    match plan.parse::<toml::Table>() {
        Ok(table) => flatten("", &toml::Value::Table(table), &mut settings),
        Err(_) => {
            settings.insert("plan".to_owned(), plan.trim().to_owned());
        }
    }
    settings.retain(|key, _| !IGNORED.contains(&key.as_str()));
    settings
}

fn flatten(prefix: &str, value: &toml::Value, settings: &mut FactMap) {
    let key = |name: &str| if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") };
    match value {
        toml::Value::Table(table) => table.iter().for_each(|(name, value)| flatten(&key(name), value, settings)),
        toml::Value::Array(values) if values.iter().any(toml::Value::is_table) => {
            for (index, value) in values.iter().enumerate() {
                flatten(&key(&(index + 1).to_string()), value, settings);
            }
        }
        toml::Value::String(text) => {
            settings.insert(prefix.to_owned(), text.clone());
        }
        other => {
            settings.insert(prefix.to_owned(), other.to_string());
        }
    }
}

/// Choices about a run besides its seed: its plan's settings, or a sweep's values if there is no plan.
pub(super) fn decided(run: &RunRecord, plan: Option<&str>) -> FactMap {
    let varied = || run.varied.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
    let mut decided: FactMap = plan.map_or_else(varied, settings);
    decided.retain(|key, _| !IGNORED.contains(&key.as_str()));
    decided
}

/// All facts that repetitions share: choices, and the runs' own statements.
pub(super) fn kind(run: &RunRecord, plan: Option<&str>, topology: Option<&str>) -> FactMap {
    let own = [
        ("architecture", run.architecture.clone()),
        ("transport", run.transport.clone()),
        ("topology", run.topology.clone()),
        ("nodes", run.nodes.to_string()),
        ("hubs", run.hubs.join(", ")),
        ("duration", format!("{} s", run.duration_s)),
        ("warm_up", format!("{} s", run.warm_up_s)),
        (NETWORK, topology.unwrap_or_default().to_owned()),
    ];
    let mut kind = decided(run, plan);
    kind.extend(own.map(|(name, value)| (name.to_owned(), value)));
    kind
}

/// The platform of a run: its machine, the carrying of its packets, its programs. Ratios between runs on
/// different platforms may be those of the platforms.
pub(super) fn platform_facts(run: &RunRecord) -> FactMap {
    let builds = FactMap::from_iter((!run.build.is_empty()).then(|| ("profile".to_owned(), run.build.clone())));
    // A few digits of a hash tell one file from another.
    let short = |(name, hash): (&String, &String)| (name.clone(), hash.chars().take(12).collect());
    let files: FactMap = run.binaries.iter().map(short).collect();
    let groups = [
        ("machine", &run.machine),
        ("network", &run.lab),
        ("program", &run.versions),
        ("build", &builds),
        ("file of", &files),
    ];
    let facts = groups.into_iter().flat_map(|(group, facts)| facts.iter().map(move |fact| (group, fact)));
    let lasting = facts.filter(|(_, (name, _))| !PASSING.contains(&name.as_str()));
    lasting.map(|(group, (name, value))| (format!("{group}: {}", name.replace('_', " ")), value.clone())).collect()
}

/// The differences between the platforms of these runs, with the values; `None` if there are none. A missing
/// fact is no difference: not every architecture has every program.
pub(super) fn platform_differences<'a>(runs: impl IntoIterator<Item = &'a RunRecord>) -> Option<String> {
    let mut values: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (name, value) in runs.into_iter().flat_map(platform_facts) {
        values.entry(name).or_default().insert(value);
    }
    let differing = values.into_iter().filter(|(_, values)| values.len() > 1);
    let told =
        differing.map(|(name, values)| format!("{name} ({})", values.into_iter().collect::<Vec<_>>().join("; ")));
    let told = told.collect::<Vec<_>>().join(", ");
    (!told.is_empty()).then_some(told)
}

/// The reasons to keep a run out of a mean; empty if there are none.
pub(super) fn unusable(run: &RunRecord) -> Vec<String> {
    let mut reasons = distrust_reasons(run);
    if run.interrupted {
        reasons.push(format!("It was stopped after {} of {} s.", run.ran_s.round(), run.duration_s));
    }
    reasons
}

#[cfg(test)]
mod tests {
    use roost_results::testing::SyntheticShape;

    use super::*;

    #[test]
    fn repetitions_differ_in_their_seed_only() {
        let run = |shape: SyntheticShape| {
            let results = shape.make().results;
            kind(&results.run, results.plan.as_deref(), Some("hosts"))
        };
        let first = run(SyntheticShape::default());
        assert_eq!(first, run(SyntheticShape { seed: 2, ..SyntheticShape::default() }));
        for other in [
            SyntheticShape { topology: "star-26", ..SyntheticShape::default() },
            SyntheticShape { architecture: "client-server", ..SyntheticShape::default() },
            SyntheticShape { seconds: 61, ..SyntheticShape::default() },
        ] {
            assert_ne!(first, run(other));
        }
        let results = SyntheticShape::default().make().results;
        assert_ne!(first, kind(&results.run, results.plan.as_deref(), Some("other hosts")));
    }

    #[test]
    fn what_passes_is_no_ground() {
        let mut runs = [1, 2].map(|seed| SyntheticShape { seed, ..SyntheticShape::default() }.make().results.run);
        runs[1].machine.insert("load_before".into(), "3.1 2.0 1.0".into());
        runs[1].lab.insert("set_up".into(), "31 ms".into());
        for (run, trace) in runs.iter_mut().zip(["0123", "4567"]) {
            run.lab.insert("trace_hash".into(), trace.into());
            run.lab.insert("wall_s".into(), format!("1.{trace}"));
            run.lab.insert("steps".into(), trace.into());
        }
        assert_eq!(platform_differences(&runs), None);
        runs[1].lab.insert("backend".into(), "veth".into());
        runs[1].versions.insert("cs-server".into(), "0.1.0".into());
        assert_eq!(platform_differences(&runs).as_deref(), Some("network: backend (tap; veth)"));
        runs[1].build = "debug".into();
        runs[0].binaries.insert("supernode".into(), "0123456789abcdef".into());
        runs[1].binaries.insert("supernode".into(), "fedcba9876543210".into());
        assert_eq!(
            platform_differences(&runs).as_deref(),
            Some(
                "build: profile (debug; release), file of: supernode (0123456789ab; fedcba987654), network: backend (tap; veth)"
            )
        );
    }

    #[test]
    fn stopped_or_invalid_run_is_unusable() {
        let mut run = SyntheticShape::default().make().results.run;
        assert!(unusable(&run).is_empty());
        run.interrupted = true;
        assert_eq!(unusable(&run).len(), 1);
        assert_eq!(unusable(&SyntheticShape { valid: false, ..SyntheticShape::default() }.make().results.run).len(), 1);
    }
}
