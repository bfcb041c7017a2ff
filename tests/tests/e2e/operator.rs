//! The view of a hierarchy's operator, and the work of homes while the world above is away.

use std::process::Command;

use roost_tests::network::{Daemon, Network, PATIENCE, text};
use roost_tests::process::wait_until;
use serde_json::Value;

/// A name that no resolver is asked for: it is longer than a name may be.
fn unknown_hub() -> String {
    format!("udp://{}:7700", "n".repeat(64))
}

fn wait_for<T>(daemon: &Daemon, what: &str, ready: impl FnMut() -> Option<T>) -> T {
    wait_until(PATIENCE, ready).unwrap_or_else(|| panic!("{what}\n{:#?}\n{}", daemon.status(), daemon.process.log()))
}

fn metric(daemon: &Daemon, name: &str) -> Option<f64> {
    let curl = ["-sS", "--fail", "--unix-socket"];
    let output = Command::new("curl").args(curl).arg(&daemon.socket).arg("http://roost/metrics").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
}

/// The objects on standard output, one a line.
fn lines(output: &[u8]) -> Vec<Value> {
    serde_json::Deserializer::from_slice(output).into_iter().map(Result::unwrap).collect()
}

#[test]
fn home_serves_without_parent_address() {
    let network = Network::new();
    let above = unknown_hub();
    let home = network.supernode("home1", &["--parent", &above, "--sibling", &above, "--lease", "1s"]);
    let _provider = network.node("provider", "1,1", &["--super", &home.endpoint("udp"), "--services", "sensor"]);
    // A node does without a hub's address as well.
    let requester = network.node("requester", "2,2", &["--super", &above, "--super", &home.endpoint("udp")]);
    wait_for(&home, "it grows up", || (home.status()?["index"]["warming_up"] == false).then_some(()));
    assert_eq!(requester.json(&["request", "sensor", "--at", "1,1"])["summary"]["complete"], true);

    // A service that is not here may be above: neither the request nor the lookup says that there is none.
    let file = text(&network.path("video.ts"));
    let error = lines(&requester.roost(&["request", "video", "--at", "9,9", "-o", &file, "--json"]).stdout);
    assert!(error.iter().any(|line| line["error"]["code"] == "unreachable-above"), "{error:#?}");
    let output = requester.roost(&["lookup", "video", "--at", "9,9", "--json"]);
    assert_eq!(output.status.code(), Some(6));
    let said = lines(&output.stdout);
    assert_eq!((&said[0]["coverage"], &said[0]["candidates"]), (&"unreachable_above".into(), &Value::Array(vec![])));
    assert_eq!(said[1]["error"]["code"], "unreachable-above", "{said:#?}");

    // A hub's own socket looks into its own directory and says so.
    let output = home.roost(&["lookup", "sensor", "--any", "--json"]);
    assert_eq!(lines(&output.stdout)[0]["coverage"], "own");

    // The operator sees who is missing, since when and why.
    let screen = String::from_utf8(home.roost(&["status"]).stdout).unwrap();
    assert!(screen.contains("cut off from above") && screen.contains(&format!("{above} (down")), "{screen}");
    let down = &home.json(&["connections"])["down"];
    assert_eq!((&down[0]["relation"], &down[1]["relation"]), (&"parent".into(), &"sibling".into()), "{down:#}");
    assert!(down[0]["reason"].as_str().unwrap().contains("cannot resolve"), "{down:#}");
    assert!(home.fails(1, &["doctor"]).contains("check"), "being cut off is a fault");
    for (name, value) in [("roost_hub_cut_off", 1.0), ("roost_hub_parents", 0.0), ("roost_hub_configured_down", 2.0)] {
        assert_eq!(metric(&home, name), Some(value), "{name}");
    }
}

#[test]
fn the_operator_sees_who_stands_where() {
    let network = Network::new();
    let root = network.supernode("top1", &["--tier", "1"]);
    let parent = ["--parent", &root.endpoint("udp")];
    let home = network.supernode("home1", &parent);
    let provider = network.node("provider", "1,1", &["--super", &home.endpoint("udp"), "--services", "sensor"]);
    wait_for(&root, "the home enrols", || (root.status()?["index"]["children"] == 1).then_some(()));
    wait_for(&home, "it is there", || (home.status()?["index"]["nodes"] == 1).then_some(()));

    let relations = |daemon: &Daemon, name: &str| {
        let rows = daemon.json(&["connections"])["connections"].as_array().unwrap().clone();
        let row = rows.into_iter().find(|row| row["name"] == name).unwrap();
        (row["relation"].clone(), row["tier"].clone())
    };
    assert_eq!(relations(&root, "home1"), ("child".into(), 0.into()));
    assert_eq!(relations(&home, "top1"), ("parent".into(), Value::Null));
    assert_eq!(relations(&home, "provider"), (Value::Null, Value::Null));
    let screen = String::from_utf8(home.roost(&["status"]).stdout).unwrap();
    assert!(screen.contains("top1 (") && screen.contains(") (up"), "{screen}");
    let screen = String::from_utf8(root.roost(&["status"]).stdout).unwrap();
    assert!(screen.contains("1, a root, 1 below"), "{screen}");
    assert_eq!((metric(&home, "roost_hub_parents"), metric(&root, "roost_hub_tier")), (Some(1.0), Some(1.0)));

    let screen = String::from_utf8(home.roost(&["index"]).stdout).unwrap();
    assert!(screen.contains("HOME") && screen.contains(" here "), "{screen}");
    let id = provider.status().unwrap()["node"].as_str().unwrap().to_owned();
    let after = home.json(&["index", "--after", &id]);
    assert_eq!(after["nodes"], Value::Array(vec![]), "nobody comes after the only one");
}

#[test]
fn wrong_tier_child_sees_reason() {
    let network = Network::new();
    let above = network.supernode("above", &["--tier", "1"]);
    let same = network.supernode("same", &["--tier", "1", "--parent", &above.endpoint("udp")]);
    let told = || same.json(&["connections"])["down"][0]["reason"].as_str().map(str::to_owned);
    let reason = wait_for(&same, "it is refused", || told().filter(|reason| reason.contains("tier must be below")));
    assert!(reason.contains("parent"), "{reason}");
}

/// Whom each may not know is told to nobody: what is set up right warns of nothing.
#[test]
fn three_correct_tiers_warn_of_nothing() {
    let network = Network::new();
    let root = network.supernode("root", &["--tier", "2"]);
    let above = root.endpoint("udp");
    let middle = ["m1", "m2"].map(|name| network.supernode(name, &["--tier", "1", "--parent", &above]));
    let ends = middle.each_ref().map(|hub| hub.endpoint("udp"));
    let parents = ["--parent", &ends[0], "--parent", &ends[1]];
    let first = network.supernode("h1", &parents);
    let sibling = first.endpoint("udp");
    let second = network.supernode("h2", &[&parents[..], &["--sibling", &sibling]].concat());
    let homes = [first.endpoint("udp"), second.endpoint("udp")];
    let _provider = network.node("p", "1,1", &["--super", &homes[0], "--super", &homes[1], "--services", "sensor"]);
    let node = network.node("n", "90,90", &["--super", &homes[1]]);
    wait_for(&root, "its children are there", || (root.status()?["index"]["children"] == 2).then_some(()));
    for hub in &middle {
        wait_for(hub, "its children are there", || (hub.status()?["index"]["children"] == 2).then_some(()));
    }
    let got = || node.roost(&["request", "sensor", "--at", "1,1"]).status.success().then_some(());
    wait_for(&node, "it is served", got);
    for hub in [&root, &middle[0], &middle[1], &first, &second] {
        let log = hub.process.log();
        let warned: Vec<&str> = log.lines().filter(|line| line.contains(" WARN ") || line.contains("ERROR")).collect();
        assert_eq!(warned, [""; 0], "{log}");
    }
}

#[test]
fn doctor_pings_attached_hub() {
    let network = Network::new();
    let hub = network.supernode("sn1", &[]);
    let node = network.node("n1", "1,1", &["--super", &hub.endpoint("udp")]);
    node.wait_for("it is not attached", |status| status["hub"]["name"].as_str().map(|_| ()));
    hub.process.signal("STOP");
    let output = node.roost(&["doctor", "--json"]);
    hub.process.signal("CONT");
    let report = &lines(&output.stdout)[0];
    let findings = report["findings"].as_array().unwrap();
    let of = |check: &str| findings.iter().find(|finding| finding["check"] == check);
    assert_eq!(of("hub").unwrap()["verdict"], "fail", "{report:#}");
    assert!(of("hub").unwrap()["found"].as_str().unwrap().ends_with("does not answer"), "{report:#}");
    assert!(of("media port").is_none(), "{report:#}");
    assert_eq!(output.status.code(), Some(1));
}
