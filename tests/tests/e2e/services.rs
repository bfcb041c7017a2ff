//! Every service over every transport, peer to peer and through the server,
//! with the real daemons.

use roost_tests::network::{Daemon, Network, text};
use serde_json::Value;

const TRANSPORTS: [&str; 3] = ["udp", "tcp", "quic"];

#[test]
fn nodes_serve_each_other_through_hub() {
    let network = Network::new();
    let hub = network.supernode("sn1", &[]);
    let endpoint = hub.endpoint("udp");
    let _provider = network.node("p", "27,92", &["--super", &endpoint, "--services", "video,track,image,sensor"]);
    let requester = network.node("r", "3,4", &["--super", &endpoint]);
    for transport in TRANSPORTS {
        every_service(&network, &requester, transport, false);
    }
}

#[test]
fn known_provider_needs_no_hub() {
    let network = Network::new();
    let hub = network.supernode("sn1", &[]);
    let endpoint = hub.endpoint("udp");
    let _provider = network.node("p", "27,92", &["--super", &endpoint, "--services", "sensor,image"]);
    let requester = network.node("r", "3,4", &["--super", &endpoint]);
    let found = requester.json(&["lookup", "sensor", "--any"]);
    let node = found["candidates"][0]["node"].as_str().unwrap().to_owned();
    requester.fails(4, &["request", "image", "--from", &"0".repeat(32)]);
    let said = hub.fails(2, &["request", "image", "--any"]);
    assert!(said.contains("this daemon is a super node") && said.contains("a node's socket"), "{said}");
    drop(hub);
    for (transport, bytes) in [("tcp", 10_000), ("quic", 10_000)] {
        let got = requester.json(&["request", "sensor", "--from", &node, "--transport", transport]);
        let summary = &got["summary"];
        assert_eq!((&summary["provider"], &summary["bytes"]), (&node.clone().into(), &bytes.into()), "{got}");
        assert_eq!((&summary["complete"], &summary["relayed"]), (&true.into(), &false.into()), "{got}");
    }
    let said = requester.roost(&["request", "sensor", "--from", &node]).stdout;
    let said = String::from_utf8_lossy(&said);
    assert!(said.contains(&format!("provider    p ({}) at ", &node[..8])), "{said}");
    requester.fails(4, &["request", "video", "--from", &node]);
    requester.fails(2, &["request", "video", "--from", &node, "--any"]);
}

#[test]
fn the_server_relays_everything() {
    let network = Network::new();
    let server = network.server("cs1");
    let endpoint = TRANSPORTS.map(|transport| server.endpoint(transport)).join(",");
    let _provider = network.node("p", "27,92", &["--server", &endpoint, "--services", "video,track,image,sensor"]);
    let requester = network.node("r", "3,4", &["--server", &endpoint]);
    for transport in TRANSPORTS {
        every_service(&network, &requester, transport, true);
    }
}

fn every_service(network: &Network, requester: &Daemon, transport: &str, relayed: bool) {
    for (service, bytes) in [("video", 700_000 / 8), ("track", 40_000 / 8), ("image", 100_000), ("sensor", 10_000)] {
        let file = network.path(&format!("{transport}-{service}"));
        let arguments = ["request", service, "--at", "27,92", "--for", "1s", "--transport", transport, "-o"];
        let got = requester.json(&[&arguments[..], &[&text(&file)]].concat());
        let summary = &got["summary"];
        assert_eq!(summary["complete"], true, "{got}");
        assert_eq!(summary["transport"], transport, "{got}");
        assert_eq!(summary["relayed"], relayed, "{got}");
        assert_eq!(summary["lost"], 0, "{got}");
        // On a busy machine datagrams of a stream may come out of order: nobody can digest those.
        let is_reordered = summary["reordered"].as_u64() > Some(0);
        assert!(summary["digest_ok"] == true || is_reordered, "{got}");
        assert_eq!(summary["bytes"], bytes, "{got}");
        assert_eq!(std::fs::metadata(&file).unwrap().len(), bytes, "{service} over {transport}");
    }
}

#[test]
fn lookups_answer_by_place() {
    let network = Network::new();
    let hub = network.supernode("sn1", &[]);
    let endpoint = hub.endpoint("udp");
    let with = ["--super", endpoint.as_str(), "--services", "image"];
    let _far = network.node("far", "90,90", &with);
    let near = network.node("near", "10,10", &with);
    let requester = network.node("requester", "0,0", &["--super", &endpoint]);
    let cells = |arguments: &[&str]| -> Vec<Value> {
        let found = requester.json(&[&["lookup", "image"], arguments].concat());
        found["candidates"].as_array().unwrap().iter().map(|candidate| candidate["cell"].clone()).collect()
    };
    assert_eq!(cells(&["--at", "10,10"]), ["10,10"]);
    assert_eq!(cells(&["--near", "0,0"]), ["10,10", "90,90"]);
    assert_eq!(cells(&["--near", "0,0", "-k", "1"]), ["10,10"]);
    assert_eq!(cells(&["--near", "0,0", "--within", "20"]), ["10,10"]);
    assert_eq!(cells(&["--rect", "80,80,99,99"]), ["90,90"]);
    assert_eq!(cells(&["--any"]).len(), 2);

    near.json(&["move", "--at", "30,40"]);
    assert_eq!(cells(&["--at", "30,40"]), ["30,40"]);
    requester.fails(4, &["lookup", "image", "--at", "10,10"]);
    requester.fails(4, &["request", "video", "--any"]);
}
