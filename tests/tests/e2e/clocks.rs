//! Wall clocks that are off: what the operator is told, and daemons that wait for theirs.

use std::time::{Duration, SystemTime};

use roost_identity::group::{Group, Validity};
use roost_tests::adversary::FakeHub;
use roost_tests::network::{Client, Daemon, Network, PATIENCE, text};
use roost_tests::process::wait_until;
use roost_wire::Role;
use serde_json::Value;

const SECOND: Duration = Duration::from_secs(1);

/// The finding of `roost doctor` about the clock.
fn finding(client: &Client, check: &str) -> Value {
    let output = client.roost(&["doctor", "--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let findings = report["findings"].as_array().unwrap();
    findings.iter().find(|finding| finding["check"] == check).cloned().unwrap_or_else(|| panic!("{report:#}"))
}

/// Seconds by which the hub's clock is ahead, as the node knows.
fn ahead(node: &Daemon) -> i64 {
    node.wait_for("the hub's clock is not known", |status| status["hub"]["clock_ahead_s"].as_i64())
}

#[test]
fn hub_with_wrong_clock_is_told() {
    let network = Network::new();
    for (name, off, verdict) in [("late", 3_600, "warn"), ("early", -90_000, "warn"), ("near", 20, "ok")] {
        let hub = FakeHub::start(&network.identity(name, "supernode"), off, "x");
        let node = network.node(&format!("n-{name}"), "1,1", &["--super", &hub.endpoint]);
        assert!((ahead(&node) - off).abs() <= 5, "{name}: {}", ahead(&node));
        let listed = node.json(&["connections"]);
        assert!((listed["connections"][0]["clock_ahead_s"].as_i64().unwrap() - off).abs() <= 5, "{listed:#}");
        let clock = finding(&node, "clock");
        assert_eq!(clock["verdict"], verdict, "{clock}");
        let way = if off > 0 { " s behind that of " } else { " s ahead of that of " };
        let found = clock["found"].as_str().unwrap();
        assert!(found.contains(way) && found.contains(&format!("{name} (")), "{found}");
        assert!(!found.contains("UTC UTC"), "{found}");
        assert_eq!(clock["fix"].as_str().is_some_and(|fix| fix.contains("set whichever is wrong")), verdict == "warn");
    }
}

#[test]
fn clocks_of_one_host_agree() {
    let network = Network::new();
    let hubs = network.pair();
    let node = network.node("n", "1,1", &["--super", &hubs[0].endpoint("udp")]);
    assert!(ahead(&node).abs() <= 5, "{}", ahead(&node));
    assert_eq!(finding(&node, "clock")["verdict"], "ok");
    let found = finding(&hubs[1], "clock");
    assert!(found["found"].as_str().unwrap().contains("that of sn1 ("), "{found}");
    let listed = hubs[0].json(&["connections"]);
    assert!(listed["connections"].as_array().unwrap().iter().all(|row| row["clock_ahead_s"].is_i64()), "{listed:#}");
}

/// A daemon that is stopped for more than a lease is as one whose host was suspended.
#[test]
fn stopped_daemons_come_back() {
    let network = Network::new();
    let hub = network.supernode("sn", &["--lease", "6s"]);
    let node = network.node("n", "1,1", &["--super", &hub.endpoint("udp")]);
    let has = |nodes: u64| move |status: &Value| (status["index"]["nodes"] == nodes).then_some(());
    hub.wait_for("the node did not register", has(1));
    node.process.signal("STOP");
    hub.wait_for("the lease did not end", has(0));
    node.process.signal("CONT");
    hub.wait_for("the node did not come back", has(1));
    let said = wait_until(PATIENCE, || node.log().contains("stood still").then_some(()));
    assert!(said.is_some(), "{}", node.log());
    hub.process.signal("STOP");
    node.wait_for("the node did not miss its hub", |status| (status["state"] != "attached").then_some(()));
    hub.process.signal("CONT");
    node.wait_ready();
    hub.wait_for("the hub lost the node", has(1));
}

/// A certificate for the time between so many seconds from now.
fn issue(network: &Network, name: &str, from: i64, to: i64) -> std::path::PathBuf {
    let (now, bundle) = (SystemTime::now(), network.path(&format!("id-{name}")));
    let at = |seconds: i64| match u32::try_from(seconds) {
        Ok(later) => now + SECOND * later,
        Err(_) => now - SECOND * u32::try_from(-seconds).unwrap(),
    };
    let validity = Validity::Between { not_before: at(from), not_after: at(to) };
    Group::open(&network.path("grove")).unwrap().issue(name, Role::SuperNode, validity, &bundle).unwrap();
    bundle
}

/// The certificate is over by this host's clock, as after a start with a clock that is ahead.
#[test]
fn daemon_waits_with_expired_certificate() {
    let network = Network::new();
    let bundle = issue(&network, "late", -20, -10);
    let hub = network.start("supernode", "late", &bundle, &[]);
    let said = wait_until(PATIENCE, || hub.log().contains("starts once the clock is set").then_some(()));
    assert!(said.is_some(), "{}", hub.log());
    assert!(hub.log().contains("this host's clock shows 20"), "{}", hub.log());
    let output = hub.roost(&["doctor", "--json", "--identity", &text(&bundle)]);
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("it waits until its certificate is valid by this host's clock"), "{said}");
    // The check before a start waits for nothing.
    let check = roost_tests::process::run("supernode", &["--identity", &text(&bundle), "--check"]);
    assert_eq!(check.status.code(), Some(78), "{check:?}");
    network.roost_ok(&["group", "renew", &network.group(), &text(&bundle)]);
    hub.wait_ready();
    assert_eq!(hub.log().matches("starts once the clock is set").count(), 1, "{}", hub.log());
}

#[test]
fn doctor_says_that_a_daemon_waits() {
    let network = Network::new();
    let bundle = issue(&network, "early", 600, 6_000);
    let client = network.client("early");
    let output = client.roost(&["doctor", "--json", "--identity", &text(&bundle)]);
    // An object with the error follows.
    let report: Value = serde_json::Deserializer::from_slice(&output.stdout).into_iter().next().unwrap().unwrap();
    let fix = report["findings"][0]["fix"].as_str().unwrap();
    assert!(fix.contains("it waits until its certificate is valid") && fix.contains("valid only from"), "{fix}");
    assert_eq!(output.status.code(), Some(3));
}
