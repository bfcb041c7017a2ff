//! Connections that are slow, lossy, cut, or carry one direction only: real daemons in
//! namespaces, which this machine must allow; `emulate doctor` says what is missing.

use std::process::Output;

use roost_tests::lab::{Connection, Lab};
use roost_tests::network::{Client, Network, PATIENCE, text};
use roost_tests::process::wait_until;

const QUICK: &str = "delay = \"2ms\"";

fn ask(requester: &Client, at: &str) -> Output {
    requester.roost(&["request", "sensor", "--at", at, "--timeout", "30s", "-o", "-"])
}

fn served(output: &Output) -> bool {
    output.status.code() == Some(0) && output.stdout.len() == 10_000
}

#[track_caller]
fn is_served(requester: &Client, at: &str) {
    let output = ask(requester, at);
    assert!(served(&output), "{}\n{}", String::from_utf8_lossy(&output.stderr), requester.log());
}

/// Two hubs, a provider at 5,5 and a requester, each with its own connection to a
/// router; the nodes have a home and a standby.
fn star<'a>(network: &'a Network, like: &str) -> (Lab<'a>, Client, Client) {
    star_with(network, like, &[])
}

/// As [`star`], with more arguments for the provider.
pub(crate) fn star_with<'a>(network: &'a Network, like: &str, provides: &[&str]) -> (Lab<'a>, Client, Client) {
    let hosts = ["sn1", "sn2", "provider", "requester"];
    let connections: Vec<Connection<'_>> = hosts.iter().map(|host| (*host, "router", like)).collect();
    let mut lab = Lab::new(network, &connections);
    let first = lab.supernode("sn1", &[]);
    lab.supernode("sn2", &["--sibling", "udp://sn1:7700"]);
    first.wait_for("the hubs have not met", |status| (status["index"]["hubs"] == 1).then_some(()));
    let hubs = ["--super", "udp://sn1:7700", "--super", "udp://sn2:7700"];
    let provider = lab.node("provider", "5,5", &[&hubs[..], &["--services", "sensor"], provides].concat());
    let requester = lab.node("requester", "1,1", &hubs);
    for node in [&provider, &requester] {
        node.wait_for("it has no standby", |status| status["standby"]["name"].as_str().map(|_| ()));
    }
    (lab, provider, requester)
}

#[test]
fn one_way_home_fails_over() {
    let network = Network::new();
    let (mut lab, provider, requester) = star(&network, QUICK);
    is_served(&requester, "5,5");
    let home = requester.status().unwrap()["hub"]["name"].as_str().unwrap().to_owned();
    lab.run(&format!("link {home} > router down"));
    is_served(&requester, "5,5");
    for node in [&requester, &provider] {
        node.wait_for("its home is the same", |status| {
            status["hub"]["name"].as_str().filter(|name| *name != home).map(|_| ())
        });
    }
    is_served(&requester, "5,5");
}

#[test]
fn requests_survive_five_percent_loss() {
    let network = Network::new();
    let (mut lab, _provider, requester) = star(&network, QUICK);
    for host in ["sn1", "sn2", "provider", "requester"] {
        lab.run(&format!("link {host} router loss 5%"));
    }
    for _ in 0..20 {
        is_served(&requester, "5,5");
    }
    assert!(lab.run("links requester-router").contains("loss"), "nothing is lost");
}

#[test]
fn requests_survive_600_ms_connections() {
    let network = Network::new();
    let (_lab, _provider, requester) = star(&network, "delay = \"300ms\"");
    is_served(&requester, "5,5");
    let reading = text(&network.path("reading"));
    let report = requester.json(&["request", "sensor", "--at", "5,5", "--timeout", "30s", "-o", &reading]);
    // From host to host twice 300 ms; to the hub, to the provider, and back.
    assert!(report["summary"]["first_byte_ms"].as_f64().is_some_and(|first| first >= 1_800.0), "{report}");
}

/// Two nodes that were connected lose sight of each other; the hubs still reach both.
#[test]
fn nodes_out_of_sight_are_relayed() {
    let network = Network::new();
    let (mut lab, provider, requester) = star(&network, QUICK);
    is_served(&requester, "5,5");
    lab.deafen("provider", "requester");
    lab.deafen("requester", "provider");
    let relayed = |timeout: &str| {
        let reading = text(&network.path("reading"));
        let report = requester.json(&["request", "sensor", "--at", "5,5", "--timeout", timeout, "-o", &reading]);
        assert_eq!(report["summary"]["relayed"], true, "{report}\n{}", provider.log());
        report["summary"]["first_byte_ms"].as_f64().expect("a time")
    };
    let (first, second) = (relayed("10s"), relayed("10s"));
    assert!(second < first && first > 1000.0, "{first} ms, {second} ms: who looked for another way?");
}

/// Two areas, each with a home, a provider and a requester; the top is beside
/// the router between them.
#[test]
fn isolated_area_serves_itself() {
    let network = Network::new();
    let connections: Vec<Connection<'_>> = vec![
        ("top", "middle", QUICK),
        ("near", "middle", QUICK),
        ("far", "middle", QUICK),
        ("home1", "near", QUICK),
        ("provider1", "near", QUICK),
        ("requester1", "near", QUICK),
        ("home2", "far", QUICK),
        ("provider2", "far", QUICK),
    ];
    let mut lab = Lab::new(&network, &connections);
    lab.supernode("top", &["--tier", "1"]);
    let below = ["--tier", "0", "--parent", "udp://top:7700"];
    let homes = ["home1", "home2"].map(|name| lab.supernode(name, &below));
    for home in &homes {
        home.wait_for("it has no parent", |status| (status["index"]["parents"] == 1).then_some(()));
    }
    let provide = |home: &'static str| ["--super", home, "--services", "sensor"];
    let _near = lab.node("provider1", "5,5", &provide("udp://home1:7700"));
    let _far = lab.node("provider2", "305,5", &provide("udp://home2:7700"));
    let requester = lab.node("requester1", "1,1", &["--super", "udp://home1:7700"]);
    let crosses = || served(&ask(&requester, "305,5")).then_some(());
    assert!(wait_until(PATIENCE, crosses).is_some(), "{}", homes[0].log());
    lab.run("link near middle down");
    let said = wait_until(PATIENCE, || {
        is_served(&requester, "5,5");
        let output = ask(&requester, "305,5");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!served(&output), "who carried it?");
        said.contains("way to the other hubs is cut").then_some(())
    });
    assert!(said.is_some(), "{}", String::from_utf8_lossy(&ask(&requester, "305,5").stderr));
    lab.run("link near middle up");
    assert!(wait_until(PATIENCE, crosses).is_some(), "{}", homes[0].log());
}
