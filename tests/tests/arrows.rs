//! The architecture's arrows, as `ARCHITECTURE.md` draws them: which crate of
//! ours may depend on which.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop where it stands")]

use std::collections::{BTreeMap, BTreeSet};

/// Crate → the crates of ours that it may import. What is not listed is forbidden.
const ARROWS: [(&str, &[&str]); 43] = [
    ("roost-wire", &[]),
    ("roost-geo", &["roost-wire"]),
    ("roost-audit", &[]),
    ("roost-policy", &["roost-wire"]),
    ("roost-core", &["roost-wire", "roost-geo", "roost-policy"]),
    // The authority signs the group's datum.
    ("roost-identity", &["roost-wire", "roost-geo"]),
    ("roost-api", &["roost-wire"]),
    ("roost-client", &["roost-wire", "roost-api"]),
    // Lines of a recording hold rows of the local API.
    ("roost-recording", &["roost-wire", "roost-api"]),
    // gpsd's reports are read in one place.
    ("roost-services", &["roost-wire", "roost-geo"]),
    // The page plays what players get.
    ("roost-players", &["roost-wire", "roost-api", "roost-services"]),
    ("roost-dashboard", &["roost-wire", "roost-api", "roost-players"]),
    // Sockets of TAK are beside the machine, as those of the dashboard.
    ("roost-tak", &["roost-wire", "roost-geo", "roost-client", "roost-services"]),
    // Prints for all commands; `roost-wire` has the escaping of text from others.
    ("roost-terminal", &["roost-wire"]),
    ("roost-transport", &["roost-wire", "roost-identity"]),
    ("roost-authority", &["roost-wire", "roost-audit", "roost-identity"]),
    // Events of the data half are commands of the machines of the core.
    ("roost-reflection", &["roost-wire", "roost-core"]),
    // The shell of the relay of streams, which super nodes and nodes have alike.
    (
        "roost-runtime",
        &[
            "roost-wire",
            "roost-audit",
            "roost-core",
            "roost-policy",
            "roost-transport",
            "roost-geo",
            "roost-identity",
            "roost-authority",
            "roost-api",
            "roost-reflection",
            "roost-players",
            "roost-dashboard",
        ],
    ),
    // The load generator of `roost bench` speaks the overlay's protocol itself,
    // hence the arrow to the transport. `roost doctor` asks a media port for a sign of life.
    (
        "roost-cli",
        &[
            "roost-wire",
            "roost-geo",
            "roost-audit",
            "roost-identity",
            "roost-policy",
            "roost-authority",
            "roost-api",
            "roost-players",
            "roost-dashboard",
            "roost-recording",
            "roost-services",
            "roost-tak",
            "roost-terminal",
            "roost-transport",
            "roost-reflection",
        ],
    ),
    (
        "roost-overlay-node",
        &[
            "roost-runtime",
            "roost-audit",
            "roost-services",
            "roost-wire",
            "roost-core",
            "roost-geo",
            "roost-policy",
            "roost-api",
            "roost-identity",
            "roost-reflection",
            "roost-transport",
        ],
    ),
    ("roost-supernode", &["roost-runtime", "roost-core"]),
    ("roost-cs-server", &["roost-runtime", "roost-core"]),
    // Emulation. Statistics, records and descriptions are below everything that runs. Its
    // crates start the real binaries and share their words only, or drive the machines over
    // the transport's connections in virtual time.
    ("roost-statistics", &["roost-wire"]),
    ("roost-results", &["roost-wire", "roost-statistics"]),
    ("roost-topology", &["roost-wire", "roost-terminal"]),
    ("roost-motion", &["roost-wire", "roost-geo", "roost-topology"]),
    ("roost-ns", &["roost-topology", "roost-motion"]),
    ("roost-drawing", &["roost-topology"]),
    ("roost-netcore", &["roost-wire", "roost-topology", "roost-motion", "roost-results"]),
    ("roost-dht", &["roost-wire"]),
    ("roost-resources", &[]),
    ("roost-lab", &["roost-wire", "roost-statistics", "roost-results", "roost-topology", "roost-netcore"]),
    (
        "roost-experiment",
        &[
            "roost-wire",
            "roost-core",
            "roost-api",
            "roost-terminal",
            "roost-results",
            "roost-topology",
            "roost-motion",
            "roost-ns",
            "roost-resources",
            "roost-lab",
        ],
    ),
    // Simulates the plans of experiments.
    (
        "roost-sim",
        &[
            "roost-wire",
            "roost-core",
            "roost-api",
            "roost-reflection",
            "roost-transport",
            "roost-results",
            "roost-topology",
            "roost-netcore",
            "roost-dht",
            "roost-experiment",
        ],
    ),
    (
        "roost-placement",
        &["roost-wire", "roost-core", "roost-transport", "roost-topology", "roost-netcore", "roost-experiment"],
    ),
    ("roost-report", &["roost-statistics", "roost-results", "roost-topology", "roost-drawing"]),
    // The page of `roost dashboard` over the records of a run.
    ("roost-view", &["roost-dashboard", "roost-results", "roost-topology", "roost-drawing", "roost-experiment"]),
    // Recordings of a running overlay become a topology and a plan, as texts.
    (
        "roost-twin",
        &["roost-wire", "roost-api", "roost-recording", "roost-statistics", "roost-results", "roost-topology"],
    ),
    // `emulate bench transport` measures the transport itself, whose two ends need identities;
    // `emulate bench reflect` makes the packets that a reflector is measured with, and runs the reflector's data path
    // over the socket of `roost-runtime`.
    (
        "roost-bench",
        &[
            "roost-wire",
            "roost-api",
            "roost-identity",
            "roost-reflection",
            "roost-runtime",
            "roost-transport",
            "roost-statistics",
            "roost-topology",
            "roost-netcore",
            "roost-lab",
            "roost-experiment",
            "roost-report",
        ],
    ),
    (
        "roost-reproduce",
        &[
            "roost-wire",
            "roost-statistics",
            "roost-results",
            "roost-topology",
            "roost-lab",
            "roost-dht",
            "roost-experiment",
            "roost-sim",
            "roost-placement",
            "roost-report",
        ],
    ),
    (
        "roost-emulate",
        &[
            "roost-wire",
            "roost-api",
            "roost-terminal",
            "roost-results",
            "roost-topology",
            "roost-drawing",
            "roost-ns",
            "roost-resources",
            "roost-lab",
            "roost-experiment",
            "roost-sim",
            "roost-placement",
            "roost-report",
            "roost-view",
            "roost-recording",
            "roost-twin",
            "roost-bench",
            "roost-reproduce",
        ],
    ),
    // Tests of all crates wait with it.
    ("roost-wait", &[]),
    // Tests may look everywhere.
    ("roost-tests", &["*"]),
];

/// Libraries that name a protocol stack, and the only crates that may name them.
const OWNED_LIBRARIES: [(&str, &[&str]); 7] = [
    ("quinn", &["roost-transport"]),
    // A type of its congestion control, and connections in virtual time without its runtime.
    ("quinn-proto", &["roost-transport"]),
    // Datagrams in batches, for the one crate that sends to many at once.
    ("quinn-udp", &["roost-runtime"]),
    ("dimpl", &["roost-transport"]),
    // The page is served over TLS with what the identity has configured.
    ("rustls", &["roost-transport", "roost-identity", "roost-dashboard"]),
    ("rcgen", &["roost-identity"]),
    // Each daemon adds its own routes to the shell's local API. The authority serves devices and members.
    ("axum", &["roost-api", "roost-runtime", "roost-authority", "roost-dashboard"]),
];

#[test]
fn crates_import_only_along_the_arrows() {
    let allowed = BTreeMap::from(ARROWS);
    for package in workspace_packages() {
        let name = package.name.as_str();
        let may =
            allowed.get(name).unwrap_or_else(|| panic!("{name} has no place in the architecture: add its arrows"));
        for import in normal_dependencies(&package).into_iter().filter(|import| import.starts_with("roost-")) {
            assert!(
                may.contains(&"*") || may.contains(&import.as_str()),
                "{name} may not import {import}: the arrows go down only (see ARCHITECTURE.md)"
            );
        }
    }
}

#[test]
fn arrows_go_to_rows_above() {
    let mut above = BTreeSet::new();
    for (name, may) in ARROWS {
        for import in may.iter().filter(|import| **import != "*") {
            assert!(above.contains(import), "{import} must stand above {name}");
        }
        above.insert(name);
    }
}

#[test]
fn protocol_libraries_have_one_owner() {
    let owners = BTreeMap::from(OWNED_LIBRARIES);
    for package in workspace_packages() {
        for import in normal_dependencies(&package) {
            if let Some(may) = owners.get(import.as_str()) {
                assert!(may.contains(&package.name.as_str()), "{} may not name {import}", package.name);
            }
        }
    }
}

#[test]
fn core_has_no_runtime_dependency() {
    let pure = [
        ("roost-wire", BTreeSet::from(["bytes", "minicbor", "schemars", "serde", "sha2", "smallvec", "thiserror"])),
        // Parsers get texts, and orbits get the time.
        (
            "roost-geo",
            BTreeSet::from([
                "roost-wire",
                "geoconvert",
                "geographiclib-rs",
                "geojson",
                "minicbor",
                "serde",
                "serde_json",
                "sgp4",
                "thiserror",
            ]),
        ),
        ("roost-policy", BTreeSet::from(["roost-wire", "serde", "strsim", "thiserror", "toml", "wildmatch"])),
        // foca has neither clock nor sockets, and takes its chance through rand_core.
        (
            "roost-core",
            BTreeSet::from([
                "roost-wire",
                "roost-geo",
                "roost-policy",
                "bytes",
                "foca",
                "minicbor",
                "rand_core",
                "sha2",
                "thiserror",
            ]),
        ),
        (
            "roost-netcore",
            BTreeSet::from(["roost-wire", "roost-results", "roost-topology", "roost-motion", "thiserror"]),
        ),
    ];
    for (name, allowed) in pure {
        let package = workspace_packages().into_iter().find(|package| package.name == name).unwrap();
        for import in normal_dependencies(&package) {
            assert!(allowed.contains(import.as_str()), "{name} may not import {import}");
        }
    }
}

fn workspace_packages() -> Vec<cargo_metadata::Package> {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml");
    let metadata = cargo_metadata::MetadataCommand::new().manifest_path(manifest).no_deps().exec().unwrap();
    metadata.packages
}

fn normal_dependencies(package: &cargo_metadata::Package) -> Vec<String> {
    let normal = |dependency: &&cargo_metadata::Dependency| dependency.kind == cargo_metadata::DependencyKind::Normal;
    package.dependencies.iter().filter(normal).map(|dependency| dependency.name.clone()).collect()
}
