//! A policy is handed to one daemon, and all of them do what it says.

use std::fs;
use std::process::Output;

use roost_tests::network::{Daemon, Network, text};
use roost_tests::process::run;
use serde_json::Value;

const NODES: &str = "[[rule]]\nallow = [\"all\"]\nwho = { role = \"node\" }\n";
const HUBS: &str = "[[rule]]\nallow = [\"all\"]\nwho = { role = \"supernode\" }\n";
const NO_GUESTS: &str = "[[rule]]\ntitle = \"guests see no video\"\ndeny = [\"request\"]\nservices = [\"video\"]\nwho = { name = \"guest*\" }\n";

const RELAYED: [&str; 2] = ["--mode", "relay"];

/// `roost policy` with the group and the socket of the daemon that spreads its document.
fn policy(network: &Network, daemon: &Daemon, arguments: &[&str]) -> Output {
    let (group, socket) = (network.group(), text(&daemon.socket));
    run("roost", &[&["policy"], arguments, &["--group", &group, "--via", &socket]].concat())
}

fn publish(network: &Network, daemon: &Daemon, rules: &str, options: &[&str]) -> Output {
    let file = text(&network.path("policy.toml"));
    fs::write(&file, rules).unwrap();
    policy(network, daemon, &[&["publish", file.as_str()], options].concat())
}

fn publishes(network: &Network, daemon: &Daemon, rules: &str, options: &[&str]) {
    let output = publish(network, daemon, rules, options);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn wait_for_policy(daemons: &[&Daemon], number: u64) {
    for daemon in daemons {
        daemon.wait_for("it does not have the policy", |status| (status["policy"]["number"] == number).then_some(()));
    }
}

fn video<'a>(scheme: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["request", "video", "--at", "5,5", "--for", "1s", "--transport", scheme], more].concat()
}

#[test]
fn video_is_for_those_whom_the_policy_allows() {
    let network = Network::new();
    let hub = network.supernode("sn1", &[]);
    let at = hub.endpoint("udp");
    let node = |name: &str, at_cell: &str, more: &[&str]| {
        network.node(name, at_cell, &[&["--super", at.as_str()], more].concat())
    };
    let camera = node("camera", "5,5", &["--services", "video,image"]);
    let (member, mut guest) = (node("uav7", "1,1", &[]), node("guest1", "2,2", &[]));
    let everybody = [&hub, &camera, &member, &guest];
    let without_hubs = format!("{NO_GUESTS}{NODES}");
    let refused = publish(&network, &hub, &without_hubs, &[]);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && said.contains("--force"), "the hub may do nothing: {said}");
    assert_eq!(hub.status().unwrap()["policy"], Value::Null);
    publishes(&network, &hub, &without_hubs, &["--force"]);
    wait_for_policy(&everybody, 1);
    let refusal = "the group's policy does not let guest1 request video at (5,5): rule 1, \"guests see no video\"";
    for scheme in ["udp", "tcp"] {
        let said = guest.fails(5, &video(scheme, &[]));
        assert!(said.contains(refusal), "{said}");
        member.json(&video(scheme, &[]));
        // The hub that relays reads along, and is not allowed to.
        let said = member.fails(5, &video(scheme, &RELAYED));
        assert!(said.contains("policy"), "{said}");
    }
    guest.json(&["request", "image", "--at", "5,5", "-o", "/dev/null"]);
    publishes(&network, &camera, &format!("{NO_GUESTS}{NODES}{HUBS}"), &[]);
    wait_for_policy(&everybody, 2);
    for scheme in ["udp", "tcp"] {
        member.json(&video(scheme, &RELAYED));
        guest.fails(5, &video(scheme, &RELAYED));
    }
    guest.process.kill();
    let away = ["--at", "2,2", "--super", "udp://127.0.0.1:9"];
    let mut again = network.start("overlay-node", "guest1-again", &network.path("id-guest1"), &away);
    wait_for_policy(&[&again], 2);
    let shown = String::from_utf8(again.roost(&["status"]).stdout).unwrap();
    assert!(shown.contains("policy      number 2, 3 rules"), "{shown}");
    again.process.kill();
    // The end of the policy is no policy that allows nothing.
    let withdrawn = policy(&network, &hub, &["withdraw"]);
    assert!(withdrawn.status.success(), "{}", String::from_utf8_lossy(&withdrawn.stderr));
    let has_none =
        |daemon: &Daemon| daemon.wait_for("it has a policy still", |status| status["policy"].is_null().then_some(()));
    [&hub, &camera, &member].into_iter().for_each(has_none);
    let here = ["--at", "2,2", "--super", at.as_str()];
    let free = network.start("overlay-node", "guest1-free", &network.path("id-guest1"), &here).ready();
    has_none(&free);
    free.json(&video("udp", &[]));
}
