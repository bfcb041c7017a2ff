//! The reference pages say what the programs say.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use roost_tests::network::{Daemon, Network, PATIENCE};
use roost_tests::process::{binary, wait_until};

#[test]
fn reference_pages_match_programs() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let fresh = tempfile::tempdir().unwrap();
    let binaries = binary("roost").parent().unwrap().to_owned();
    for program in ["overlay-node", "supernode", "cs-server", "emulate"] {
        binary(program);
    }
    let status = Command::new(root.join("scripts/reference")).arg(&binaries).arg(fresh.path()).status().unwrap();
    assert!(status.success());
    for page in ["cli.md", "configuration.md", "emulate.md"] {
        let written = std::fs::read_to_string(root.join("docs/src/reference").join(page)).unwrap();
        let printed = std::fs::read_to_string(fresh.path().join(page)).unwrap();
        assert!(written == printed, "docs/src/reference/{page} is out of date: run scripts/reference");
    }
}

/// The names of the metrics that a daemon serves.
fn served(daemon: &Daemon) -> BTreeSet<String> {
    let curl = ["-sS", "--fail", "--unix-socket"];
    let output = Command::new("curl").args(curl).arg(&daemon.socket).arg("http://roost/metrics").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().filter_map(|line| Some(line.strip_prefix("# TYPE ")?.split(' ').next()?.to_owned())).collect()
}

fn page(name: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name)).unwrap()
}

fn documented_metrics() -> BTreeSet<String> {
    let page = page("docs/src/reference/metrics.md");
    let table = page.split("## What to watch").next().unwrap();
    let is_metric =
        |word: &&str| (word.starts_with("roost_") || word.starts_with("process_")) && !word.contains(['{', '(', ' ']);
    table.split('`').filter(is_metric).map(str::to_owned).collect()
}

/// The names in expressions of Prometheus; a histogram is stored as three series.
fn metrics_in(text: &str) -> BTreeSet<&str> {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    let named = words.filter(|word| word.starts_with("roost_") || word.starts_with("process_"));
    named.map(|word| word.trim_end_matches("_bucket")).collect()
}

/// [`documented_metrics_match_daemons`] compares the same names with those that daemons serve.
#[test]
fn dashboard_and_alerts_name_served_metrics() {
    let served = documented_metrics();
    for name in ["docs/grafana/roost.json", "docs/grafana/alerts.yml", "docs/grafana/alerts-test.yml"] {
        let page = page(name);
        let named = metrics_in(&page);
        assert!(named.len() > 4, "{name}: {named:?}");
        let unknown: Vec<&&str> = named.iter().filter(|metric| !served.contains(**metric)).collect();
        assert!(unknown.is_empty(), "{name} names metrics that no daemon serves: {unknown:?}");
    }
    serde_json::from_str::<serde_json::Value>(&page("docs/grafana/roost.json")).unwrap();
}

#[test]
fn prometheus_accepts_alerts() {
    if Command::new("promtool").arg("--version").output().is_err() {
        eprintln!("there is no promtool here");
        return;
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/grafana");
    for (kind, file) in [("check", "alerts.yml"), ("test", "alerts-test.yml")] {
        let output = Command::new("promtool").current_dir(&folder).args([kind, "rules", file]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&[output.stdout, output.stderr].concat()));
    }
}

#[test]
fn documented_metrics_match_daemons() {
    // A labelled metric appears with its first sample, so everything has to happen once.
    let network = Network::new();
    let (hub, server) = (network.supernode("sn1", &["--lease", "5s"]), network.server("cs1"));
    let group = format!("239.255.77.6:{}", 20_000 + std::process::id() % 10_000);
    let connection = ["--multicast", &group, "--multicast-interfaces", "lo"];
    let endpoint = hub.endpoint("udp");
    let beside = |more: &[&'static str]| [&["--super", endpoint.as_str()], &connection[..], more].concat();
    let node = network.node("n", "1,1", &beside(&["--services", "track,sensor"]));
    let requester = network.node("requester", "2,2", &beside(&[]));
    let based = ["--server", &server.endpoint("udp")];
    let provider = network.node("base", "1,1", &[&based[..], &["--services", "sensor"]].concat());
    let client = network.node("client", "2,2", &based);
    requester.json(&["request", "track", "--at", "1,1", "--for", "1s"]);
    requester.json(&["request", "sensor", "--at", "1,1", "--mode", "relay"]);
    client.json(&["request", "sensor", "--at", "1,1"]);

    let daemons = [&hub, &server, &node, &requester, &provider, &client];
    let documented = documented_metrics();
    // A session's bytes are counted when it ends, a moment after the requester has them.
    let all = || {
        let served: BTreeSet<String> = daemons.iter().flat_map(|daemon| served(daemon)).collect();
        (served == documented).then_some(())
    };
    if wait_until(PATIENCE, all).is_none() {
        let served: BTreeSet<String> = daemons.iter().flat_map(|daemon| served(daemon)).collect();
        let [here, there] = [served.difference(&documented), documented.difference(&served)]
            .map(|names| names.cloned().collect::<Vec<_>>().join(" "));
        panic!("docs/src/reference/metrics.md lacks: {here}; nobody serves: {there}");
    }
}

#[test]
fn daemons_ignore_other_daemons_variables() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let page = std::fs::read_to_string(root.join("docs/src/reference/configuration.md")).unwrap();
    let variables: Vec<&str> = page.split('`').filter(|word| word.starts_with("ROOST_")).collect();
    assert!(variables.len() > 20, "{variables:?}");
    for daemon in ["overlay-node", "supernode", "cs-server"] {
        let mut command = Command::new(binary(daemon));
        command.args(["--print-config", "--origin"]).env("ROOST_BOGUS", "1").env("ROOST_LOG", "info");
        command.envs(variables.iter().map(|variable| (variable, "x")));
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(78), "{said}");
        let unknown: Vec<&str> = said.lines().filter(|line| line.contains("unknown variable")).collect();
        assert!(matches!(unknown[..], [line] if line.contains("ROOST_BOGUS")), "{unknown:?}");
    }
}
