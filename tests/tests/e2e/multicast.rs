//! Nodes that find one another by multicast, over the loopback interface.

use std::collections::BTreeSet;
use std::process::Command;

use roost_tests::network::{Daemon, Network, PATIENCE};
use roost_tests::process::{Process, binary, wait_until};

/// A group of its own for each test of each run, so that they do not hear one another.
fn settings(test: u16) -> [String; 4] {
    let port = 20_000 + (std::process::id() % 10_000) as u16 + 10_000 * test;
    ["--multicast".into(), format!("239.255.77.5:{port}"), "--multicast-interfaces".into(), "lo".into()]
}

fn node(network: &Network, name: &str, at: &str, multicast: &[String; 4], more: &[&str]) -> Daemon {
    let mut arguments: Vec<&str> = multicast.iter().map(String::as_str).collect();
    arguments.extend_from_slice(more);
    network.node(name, at, &arguments)
}

#[test]
fn multicast_nodes_need_no_hub() {
    let multicast = settings(0);
    let network = Network::new();
    let alone = ["--discovery", "multicast", "--services", "video,track,image,sensor"];
    let requester = node(&network, "requester", "0,0", &multicast, &alone[..2]);
    let near = node(&network, "near", "1,1", &multicast, &alone);
    let _far = node(&network, "far", "9,9", &multicast, &alone);
    let stranger_network = Network::new();
    let stranger = node(&stranger_network, "stranger", "1,1", &multicast, &alone);
    assert_eq!(requester.status().unwrap()["state"], "multicast-only");

    for service in ["video", "track", "image", "sensor"] {
        let mut arguments = vec!["request", service, "--at", "1,1"];
        if matches!(service, "video" | "track") {
            arguments.extend(["--for", "1s"]);
        }
        let got = &requester.json(&arguments)["summary"];
        assert_eq!((&got["complete"], &got["relayed"]), (&true.into(), &false.into()), "{service}: {got}");
        assert_eq!(got["provider"], near.status().unwrap()["node"], "{service}: {got}");
    }
    let found = requester.json(&["lookup", "track", "--any"]);
    assert_eq!(found["candidates"].as_array().unwrap().len(), 2, "{found}");
    let names: BTreeSet<&str> =
        found["candidates"].as_array().unwrap().iter().filter_map(|one| one["name"].as_str()).collect();
    assert_eq!(names, ["far", "near"].into());
    let got = &requester.json(&["request", "sensor", "--from", "far"])["summary"];
    assert_eq!((&got["provider_name"], &got["complete"]), (&"far".into(), &true.into()), "{got}");
    let said = requester.fails(6, &["request", "sensor", "--from", "nobody"]);
    assert!(said.contains("no node nobody"), "{said}");
    assert!(requester.json(&["request", "sensor", "--any", "--scope", "subnet"])["summary"]["complete"] == true);

    let said = requester.fails(4, &["request", "sensor", "--at", "70,70"]);
    assert!(said.contains("nobody in this subnet"), "{said}");
    let said = requester.fails(5, &["request", "sensor", "--any", "--scope", "home"]);
    assert!(said.contains("has no home"), "{said}");

    // A host outside the group hears nothing that it can read.
    assert!(stranger.metric("roost_multicast_packets_total", "forged") > 0.0);
    assert_eq!(stranger.metric("roost_multicast_packets_total", "received"), 0.0);
    assert!(requester.metric("roost_node_multicast_found_total", "") >= 5.0);
}

#[test]
fn multicast_serves_without_hub() {
    let multicast = settings(1);
    let network = Network::new();
    let mut hub = network.supernode("sn1", &[]);
    let endpoint = hub.endpoint("udp");
    let both = ["--super", &endpoint, "--discovery", "both", "--services", "sensor"];
    let requester = node(&network, "requester", "0,0", &multicast, &both[..4]);
    let _provider = node(&network, "provider", "1,1", &multicast, &both);
    let _away = network.node("away", "5,5", &["--super", &endpoint, "--services", "image"]);

    assert_eq!(requester.json(&["request", "sensor", "--at", "1,1"])["summary"]["complete"], true);
    assert_eq!(
        requester.json(&["request", "image", "--at", "5,5"])["summary"]["complete"],
        true,
        "only the hub knows it"
    );
    hub.process.kill();
    wait_until(PATIENCE, || requester.status().filter(|status| status["state"] == "attaching")).expect("it is noticed");
    assert_eq!(requester.json(&["request", "sensor", "--at", "1,1"])["summary"]["complete"], true);
    let said = requester.fails(5, &["request", "sensor", "--any", "--mode", "relay", "--scope", "subnet"]);
    assert!(said.contains("nobody relays"), "{said}");
}

/// Runs `ip` in the network namespace of a daemon that made one.
fn ip(daemon: &Process, arguments: &str) {
    let enter = ["--target", &daemon.id().to_string(), "--user", "--net", "--preserve-credentials", "ip"];
    let status = Command::new("nsenter").args(enter).args(arguments.split(' ')).status().unwrap();
    assert!(status.success(), "ip {arguments}");
}

#[test]
fn late_interface_joins_multicast() {
    let network = Network::new();
    let identity = network.identity("alone", "node");
    let node = network.client("alone");
    // In a network without any interface but the loopback.
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--net"]).arg(binary("overlay-node"));
    command.arg("--identity").arg(&identity).arg("--socket").arg(&node.socket);
    command.args(["--at", "1,1", "--multicast", "on", "--discovery", "multicast", "--multicast-interfaces", "radio"]);
    command.args(["--listen", "udp://0.0.0.0:0"]);
    let process = Process::start(command, network.path("alone.log")).unwrap();
    node.wait_ready();
    assert!(node.log().contains("there is no interface radio that is up"), "{}", node.log());

    let taken = |times: usize| {
        let all = || (node.log().matches("takes part in multicast").count() == times).then_some(());
        assert!(wait_until(PATIENCE, all).is_some(), "{times}: {}", node.log());
    };
    for times in 1..=2 {
        ip(&process, "link add radio type veth peer name air");
        ip(&process, "address add 10.9.0.1/24 dev radio");
        ip(&process, "link set air up");
        ip(&process, "link set radio up");
        taken(times);
        let before = node.metric("roost_multicast_packets_total", "outcome=\"sent\"");
        node.fails(4, &["request", "sensor", "--at", "1,1"]);
        assert!(node.metric("roost_multicast_packets_total", "outcome=\"sent\"") > before, "it asks there");
        ip(&process, "link delete radio");
        let ended = || (node.log().matches("multicast has ended there").count() == times).then_some(());
        assert!(wait_until(PATIENCE, ended).is_some(), "{times}: {}", node.log());
    }
}
