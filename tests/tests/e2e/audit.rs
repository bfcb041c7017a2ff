//! Audit records of real daemons: complete and verified, after a crash and with a full disk, too.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use roost_tests::network::{Daemon, Network, PATIENCE, text};
use roost_tests::process::{run, wait_until};
use serde_json::Value;

fn show(log: &Path) -> Vec<Value> {
    let output = run("roost", &["audit", "show", &text(log), "--json"]);
    let lines = output.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| serde_json::from_slice(line).unwrap()).collect()
}

fn has(log: &Path, kind: &str, name: &str) -> bool {
    show(log).iter().any(|record| record["kind"] == kind && record["who"]["name"] == name)
}

fn wait_for_record(log: &Path, kind: &str, name: &str) {
    let found = wait_until(PATIENCE, || has(log, kind, name).then_some(()));
    assert!(found.is_some(), "{kind} {name}: {:#?}", show(log));
}

fn verify(log: &Path) -> Output {
    run("roost", &["audit", "verify", &text(log)])
}

fn assert_sound(log: &Path) {
    let output = verify(log);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

fn stop(daemon: &mut Daemon) {
    daemon.process.signal("TERM");
    assert_eq!(daemon.process.wait(PATIENCE), Some(0), "{}", daemon.process.log());
}

#[test]
fn daemons_record_members_requests_and_revocations() {
    let network = Network::new();
    let [hub_log, node_log]: [PathBuf; 2] = ["hub.log", "node.log"].map(|name| network.path(name));
    let mut hub = network.supernode("sn1", &["--audit", &text(&hub_log)]);
    let at = ["--super", &hub.endpoint("udp")];
    let provides = ["--services", "sensor", "--audit", &text(&node_log)];
    let arguments = [&at[..], &provides].concat();
    let mut provider = network.node("provider", "1,1", &arguments);
    let viewer = network.node("viewer", "2,2", &at);
    let gone = network.node("gone", "3,3", &at);
    assert_eq!(viewer.json(&["request", "sensor", "--at", "1,1"])["summary"]["complete"], true);
    wait_for_record(&node_log, "request-granted", "viewer");
    wait_for_record(&node_log, "member-joined", "sn1");
    for member in ["provider", "viewer", "gone"] {
        wait_for_record(&hub_log, "member-joined", member);
    }
    network.roost_ok(&["group", "revoke", &network.group(), "gone", "--via", &text(&hub.socket)]);
    wait_for_record(&hub_log, "member-left", "gone");
    drop(gone);
    stop(&mut provider);
    stop(&mut hub);
    for (log, name) in [(&hub_log, "sn1"), (&node_log, "provider")] {
        assert!(has(log, "started", name) && has(log, "stopped", name), "{:#?}", show(log));
        assert!(show(log).iter().any(|record| record["kind"] == "document-taken" && record["details"]["number"] == 2));
        assert_sound(log);
    }
    let records = fs::read_to_string(&hub_log).unwrap();
    fs::write(&hub_log, records.replacen("viewer", "viewed", 1)).unwrap();
    assert_eq!(verify(&hub_log).status.code(), Some(7));
}

#[test]
fn chain_goes_on_after_a_crash() {
    let network = Network::new();
    let log = network.path("hub.log");
    let arguments = ["--audit", &text(&log)];
    let mut hub = network.supernode("sn1", &arguments);
    wait_for_record(&log, "started", "sn1");
    hub.process.kill();
    // The last line is cut short, as if the host had failed while it was written.
    let written = fs::read(&log).unwrap();
    fs::write(&log, &written[..written.len() - 10]).unwrap();
    let output = verify(&log);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("was cut short"), "{said}");
    let mut hub = network.start("supernode", "sn1", &network.path("id-sn1"), &arguments).ready();
    wait_for_record(&log, "started", "sn1");
    stop(&mut hub);
    assert_eq!(show(&log)[0]["kind"], "line-torn");
    assert_sound(&log);
}

#[test]
fn full_disk_stops_no_daemon() {
    let network = Network::new();
    let hub = network.supernode("sn1", &["--audit", "/dev/full"]);
    let at = ["--super", &hub.endpoint("udp"), "--audit", "/dev/full"];
    let _provider = network.node("provider", "1,1", &[&at[..], &["--services", "sensor"]].concat());
    let mut viewer = network.node("viewer", "2,2", &at);
    for _ in 0..3 {
        assert_eq!(viewer.json(&["request", "sensor", "--at", "1,1"])["summary"]["complete"], true);
    }
    stop(&mut viewer);
}
