//! Client/server with a cache: real daemons, two nodes at the server and two at
//! its cache.

use std::process::Command;

use roost_tests::network::{Daemon, Network, PATIENCE};
use roost_tests::process::{Process, binary, wait_until};
use serde_json::Value;

fn metric(daemon: &Daemon, name: &str) -> f64 {
    let output = Command::new("curl")
        .args(["-sS", "--fail", "--unix-socket"])
        .arg(&daemon.socket)
        .arg("http://roost/metrics")
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.unwrap_or_else(|| panic!("no {name} in\n{text}")).parse().unwrap()
}

fn cache(network: &Network, name: &str, of: &str, lease: &str) -> Daemon {
    let identity = network.identity(name, "server");
    network.start("cs-server", name, &identity, &["--cache-of", of, "--lease", lease]).ready()
}

fn found(node: &Daemon, at: &str) -> Vec<Value> {
    node.json(&["lookup", "sensor", "--at", at])["candidates"].as_array().unwrap().clone()
}

/// A request of `node` to the cell `at`: the summary, if it was served.
fn served(node: &Daemon, service: &str, at: &str) -> Option<Value> {
    let mut arguments = vec!["request", service, "--at", at, "--json"];
    if matches!(service, "video" | "track") {
        arguments.extend(["--for", "1s"]);
    }
    let output = node.roost(&arguments);
    let report: Value = serde_json::from_slice(&output.stdout).ok()?;
    output.status.success().then(|| report["summary"].clone())
}

#[test]
fn cache_answers_lookups_server_relays_data() {
    let network = Network::new();
    let mut server = network.server("central");
    // Copies outlast the test.
    let cache = cache(&network, "near", &server.endpoint("tcp"), "1h");
    let has_cache = || (server.json(&["status"])["index"]["children"] == 1).then_some(());
    assert!(wait_until(PATIENCE, has_cache).is_some(), "{}", cache.process.log());
    let (at_cache, at_server) = (cache.endpoint("udp"), server.endpoint("udp"));
    let services = ["--services", "video,track,image,sensor"];
    let node = |name: &str, at: &str, more: &[&str]| network.node(name, at, &[more, &services].concat());
    let _own = node("own", "1,1", &["--server", &at_cache]);
    let requester = node("requester", "2,2", &["--server", &at_cache, "--server", &at_server]);
    let far = node("far", "9,9", &["--server", &at_server]);
    let other = node("other", "8,8", &["--server", &at_server]);

    // A cache answers for its own nodes, and for what it has asked for once.
    assert_eq!(found(&requester, "1,1").len(), 1);
    assert_eq!(metric(&server, "roost_hub_hub_lookups_answered_total"), 0.0, "the server was not asked");
    assert_eq!(found(&requester, "9,9").len(), 1);
    assert!(metric(&server, "roost_hub_hub_lookups_answered_total") > 0.0);
    assert_eq!(metric(&cache, "roost_hub_cached"), 1.0);
    let hits = metric(&cache, "roost_hub_cache_hits_total");
    assert_eq!(found(&requester, "9,9").len(), 1);
    assert!(metric(&cache, "roost_hub_cache_hits_total") > hits);

    // A move that the cache is not told of misleads lookups, not requests.
    assert!(far.roost(&["move", "--at", "7,7"]).status.success());
    let moved = || served(&requester, "sensor", "7,7").map(|_| ());
    assert!(wait_until(PATIENCE, moved).is_some());
    assert_eq!(found(&requester, "9,9").len(), 1);
    requester.fails(4, &["request", "sensor", "--at", "9,9"]);

    // Every service in every direction through the server, also between two nodes of the cache.
    for (from, at) in [(&requester, "1,1"), (&requester, "7,7"), (&far, "1,1"), (&other, "2,2")] {
        for service in ["sensor", "image", "track", "video"] {
            let flows = metric(&server, "roost_hub_relayed_flows_total");
            let got = served(from, service, at).unwrap_or_else(|| panic!("{service} from {at}"));
            assert_eq!((&got["complete"], &got["relayed"]), (&true.into(), &true.into()), "{service} {at}: {got}");
            assert!(metric(&server, "roost_hub_relayed_flows_total") > flows, "{service} from {at}");
        }
    }

    // Without the server the cache answers what it holds, and data has no way.
    server.process.kill();
    let cut_off = || (cache.json(&["status"])["index"]["cut_off"] == true).then_some(());
    assert!(wait_until(PATIENCE, cut_off).is_some(), "{}", cache.process.log());
    assert_eq!(found(&requester, "1,1").len(), 1);
    let said = String::from_utf8_lossy(&requester.roost(&["request", "sensor", "--at", "1,1"]).stderr).into_owned();
    assert!(said.contains("the way to the other hubs is cut"), "{said}");
}

#[test]
fn nodes_fail_over_from_cache() {
    let network = Network::new();
    let server = network.server("central");
    // An idle node notices by its renewals.
    let mut cache = cache(&network, "near", &server.endpoint("udp"), "6s");
    let hubs = ["--server", &cache.endpoint("udp"), "--server", &server.endpoint("udp"), "--services", "sensor"];
    let requester = network.node("requester", "1,1", &hubs);
    let _other = network.node("other", "2,2", &hubs);
    assert!(wait_until(PATIENCE, || served(&requester, "sensor", "2,2")).is_some(), "{}", cache.process.log());
    cache.process.kill();
    assert!(wait_until(PATIENCE, || served(&requester, "sensor", "2,2")).is_some(), "{}", requester.process.log());
    assert_eq!(server.json(&["status"])["index"]["nodes"], 2);
}

#[test]
fn invalid_cache_is_explained() {
    let network = Network::new();
    let identity = network.identity("odd", "server");
    let start = |name: &str, arguments: &[&str]| {
        let mut command = Command::new(binary("cs-server"));
        command.arg("--identity").arg(&identity).arg("--socket").arg(network.path(&format!("{name}.sock")));
        command.args(arguments);
        Process::start(command, network.path(&format!("{name}.log"))).unwrap()
    };
    let ends_with = |name: &str, arguments: &[&str], code: i32, sentence: &str| {
        let mut process = start(name, arguments);
        let (ended, log) = (process.wait(PATIENCE), process.log());
        assert!(ended == Some(code) && log.contains(sentence), "{arguments:?} ended with {ended:?}:\n{log}");
    };
    let port = 20_000 + std::process::id() % 10_000;
    let (own, all) = (format!("udp://127.0.0.1:{port}"), format!("udp://0.0.0.0:{port}"));
    ends_with("itself", &["--listen", &own, "--cache-of", &own], 78, "names this very server");
    ends_with("anywhere", &["--listen", &all, "--cache-of", &own], 78, "names this very server");
    ends_with("two", &["--cache-of", &own, "--cache-of", "udp://127.0.0.1:1"], 64, "at most 1");
    ends_with("parent", &["--parent", &own], 64, "--parent");

    // A cache knows the kind of its server when that answers.
    let (server, super_node) = (network.server("central"), network.supernode("sn", &[]));
    let cache = cache(&network, "near", &server.endpoint("udp"), "1h");
    for (name, of, sentence) in [
        ("of-cache", cache.endpoint("udp"), "a cache attaches to the central server"),
        ("of-super-node", super_node.endpoint("udp"), "role"),
    ] {
        let refused = network.start("cs-server", name, &network.identity(name, "server"), &["--cache-of", &of]);
        let said = || refused.process.log().contains(sentence).then_some(());
        assert!(wait_until(PATIENCE, said).is_some(), "{}", refused.process.log());
    }
}
