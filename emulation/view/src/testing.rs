//! A network and a run that the tests of this crate share.

use roost_topology::Topology;

const TWO_SITES: &str = r#"
name = "two-sites"
routing = "static"

[[host]]
name = "r1"
class = "router"
[[host]]
name = "r2"
class = "router"
[[host]]
name = "a"
[[host]]
name = "b"
[[host]]
name = "c"

[[lan]]
name = "left"
members = ["r1", "a", "b"]
rate = "10Mbit"
delay = "2ms"

[[link]]
name = "up"
between = ["r1", "r2"]
rate = "1Mbit"
delay = "20ms"

[[link]]
name = "right"
between = ["r2", "c"]
rate = "10Mbit"
delay = "5ms"
"#;

/// Two hosts and a router on a LAN, and a host behind another router.
pub(crate) fn two_sites() -> Topology {
    roost_topology::file::parse("two-sites", TWO_SITES).unwrap_or_else(|problems| panic!("{problems:?}"))
}

/// A plan over the network above, with super nodes on the routers.
pub(crate) const PLAN: &str = r#"
name = "sites"
topology = "topology.toml"
architecture = "super-node"
super_nodes = ["r1", "r2"]
duration = "30s"
seed = 1

[classes.node]
mix = "low"

[[faults]]
at = "10s"
down = "up"

[[faults]]
at = "15s"
up = "up"

[[faults]]
at = "12s"
kill = "a"

[[faults]]
at = "20s"
freeze = "r1"
hub = true
"#;

/// The folder of a run of [`PLAN`] with these records.
pub(crate) fn folder_of_run(events: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let put = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    put("topology.toml", TWO_SITES);
    put("plan.toml", PLAN);
    put("events.jsonl", events);
    folder
}

/// `run.json` of that run, which has ended.
pub(crate) const RUN: &str = r#"{
    "schema": 1, "name": "sites", "architecture": "super-node", "transport": "paper", "topology": "two-sites",
    "nodes": 3, "hubs": ["r1", "r2"], "seed": 1, "duration_s": 30.0, "ran_s": 30.0, "drain_s": 1.5,
    "started_unix_s": 0, "interrupted": false, "versions": {}, "machine": {}, "lab": { "backend": "simulation" },
    "verdict": { "valid": true, "reasons": [], "lateness_us": [], "lateness_p50_us": 0.0, "lateness_p99_us": 0.0,
        "lateness_p999_us": 0.0, "lateness_max_us": 0.0, "overruns": 0, "linktest": [] }
}"#;
