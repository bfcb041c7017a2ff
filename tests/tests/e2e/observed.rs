//! The local API's answers about the group, for the page: audit records, rooms, revocations, certificates and standbys.

use std::process::Command;

use roost_tests::network::{Daemon, Network, PATIENCE, text};
use roost_tests::process::{Process, wait_until};
use serde_json::Value;

fn get(daemon: &Daemon, path: &str) -> Value {
    let mut curl = Command::new("curl");
    curl.args(["-sS", "--unix-socket"]).arg(&daemon.socket).arg(format!("http://roost{path}"));
    let answer = curl.output().unwrap();
    serde_json::from_slice(&answer.stdout).unwrap_or_else(|_| panic!("{path}: {answer:?}"))
}

fn wait_for(daemon: &Daemon, path: &str, holds: impl Fn(&Value) -> bool) -> Value {
    wait_until(PATIENCE, || Some(get(daemon, path)).filter(&holds))
        .unwrap_or_else(|| panic!("{path}: {}\n{}", get(daemon, path), daemon.log()))
}

#[test]
fn daemons_tell_audit_and_revocations() {
    let network = Network::new();
    let hub = network.supernode("sn1", &["--audit", &text(&network.path("hub.log"))]);
    let node = network.node("gone", "3,3", &["--super", &hub.endpoint("udp")]);
    let newest = wait_for(&hub, "/v1/audit?limit=1", |audit| audit["records"][0]["kind"] == "member-joined");
    assert_eq!((&newest["is_kept"], &newest["records"][0]["name"]), (&true.into(), &"gone".into()));
    assert_eq!(newest["records"].as_array().map(Vec::len), Some(1));
    assert_eq!(get(&hub, "/v1/audit?limit=9999")["records"].as_array().map(Vec::len), Some(2), "started, too");
    assert_eq!(get(&hub, "/v1/audit?limit=-1")["error"]["code"], "usage");
    assert_eq!(get(&node, "/v1/audit")["is_kept"], false);

    let connections = get(&hub, "/v1/connections");
    let row = &connections["connections"][0];
    assert!(row["sent_packets"].is_u64() && row["certificate_not_after_unix_s"].is_u64(), "{connections}");
    network.roost_ok(&["group", "revoke", &network.group(), "gone", "--via", &text(&hub.socket)]);
    let list = |documents: &Value| {
        let all = documents["documents"].as_array().unwrap();
        all.iter().find(|document| document["kind"] == "revocations").cloned().unwrap_or_default()
    };
    let documents = wait_for(&hub, "/v1/documents", |documents| list(documents)["revoked"] == 1);
    assert_eq!(list(&documents)["nodes_revoked"][0]["name"], "gone");
}

#[test]
fn rooms_and_standbys_are_told() {
    let network = Network::new();
    let [first, second] = network.pair();
    let supers = ["--super", &first.endpoint("udp"), "--super", &second.endpoint("udp")];
    let nodes = ["n1", "n2"].map(|name| network.node(name, "1,1", &[&supers[..], &["--services", "sensor"]].concat()));
    let enter = |node: &Daemon, number: usize| {
        Process::start(node.command(&["join-room", "ops & air"]), network.path(&format!("room{number}.log"))).unwrap()
    };
    let inside: Vec<Process> = nodes.iter().enumerate().map(|(number, node)| enter(node, number)).collect();
    let told = wait_for(&nodes[0], "/v1/rooms", |rooms| rooms["rooms"][0]["members"][0]["name"] == "n2");
    assert_eq!((&told["rooms"][0]["name"], &told["more"]), (&"ops & air".into(), &0.into()));
    let home = if nodes[0].status().unwrap()["hub"]["name"] == "sn1" { &first } else { &second };
    let heard =
        wait_for(home, "/v1/rooms", |rooms| rooms["rooms"][0]["members"].as_array().is_some_and(|all| all.len() == 2));
    assert_eq!((&heard["rooms"][0]["room"], heard["rooms"][0].get("name")), (&told["rooms"][0]["room"], None));
    let id = nodes[0].status().unwrap()["node"].clone();
    let row = |index: &Value| {
        index["nodes"].as_array().unwrap().iter().find(|row| row["node"] == id).cloned().unwrap_or_default()
    };
    let index = wait_for(home, "/v1/index", |index| row(index)["standby"].is_string());
    assert!(row(&index)["standby_name"].as_str().is_some_and(|name| name.starts_with("sn")), "{index}");
    drop(inside);
    wait_for(&nodes[0], "/v1/rooms", |rooms| rooms["rooms"].as_array().is_some_and(Vec::is_empty));
}
