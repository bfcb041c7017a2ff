//! Admission: each reason for refusal, over each transport, told to the refused and counted by the refuser.

use std::fs;

use roost_tests::network::{Daemon, Network, PATIENCE, text};
use roost_tests::process::{run, wait_until};

const TRANSPORTS: [&str; 3] = ["udp", "tcp", "quic"];

/// Starts a node with `identity` against the hub and waits for the sentence on
/// its side and the count on the hub's.
fn is_refused(network: &Network, hub: &Daemon, identity: &str, transport: &str, reason: &str, sentence: &str) {
    let before = refused(hub, reason);
    let name = format!("{identity}-{transport}");
    let node = network.start(
        "overlay-node",
        &name,
        &network.path(identity),
        &["--at", "1,1", "--super", &hub.endpoint(transport)],
    );
    let told = wait_until(PATIENCE, || node.process.log().contains(sentence).then_some(()));
    assert!(told.is_some(), "{name} was not told {sentence:?}; its log:\n{}", node.process.log());
    let counted = wait_until(PATIENCE, || (refused(hub, reason) > before).then_some(()));
    assert!(counted.is_some(), "the hub did not count {reason}: {}", hub.status().unwrap());
}

fn refused(hub: &Daemon, reason: &str) -> u64 {
    hub.status().unwrap()["refused"][reason].as_u64().unwrap_or(0)
}

#[test]
fn other_groups_certificate_is_refused() {
    let network = Network::new();
    let hub = network.supernode("sn1", &[]);
    let other = text(&network.path("other"));
    network.roost_ok(&["group", "init", &other, "--name", "thicket"]);
    network.roost_ok(&["group", "issue", &other, "x", "--role", "node", "-o", &text(&network.path("id-x"))]);
    // Over TLS and QUIC the stranger sees the hub's certificate first and turns
    // away itself; over DTLS the hub sees the stranger's.
    is_refused(&network, &hub, "id-x", "udp", "wrong_group", "group");
    for transport in ["tcp", "quic"] {
        let arguments = ["--at", "1,1", "--super", &hub.endpoint(transport)];
        let node = network.start("overlay-node", transport, &network.path("id-x"), &arguments);
        let told = wait_until(PATIENCE, || node.process.log().contains("another group").then_some(()));
        assert!(told.is_some(), "{}", node.process.log());
    }
}

#[test]
fn reload_refuses_revoked_certificate() {
    let network = Network::new();
    let hub = network.supernode("sn1", &[]);
    network.identity("gone", "node");
    network.roost_ok(&["group", "revoke", &network.group(), "gone"]);
    let list = network.path("grove").join("revoked.pem");
    fs::copy(&list, network.path("id-sn1").join("revoked.pem")).unwrap();
    hub.process.signal("HUP");
    for transport in TRANSPORTS {
        is_refused(&network, &hub, "id-gone", transport, "revoked", "revoked");
    }
}

#[test]
fn node_cannot_act_as_hub() {
    let network = Network::new();
    let identity = network.identity("n", "node");
    let mut daemon = network.start("supernode", "n", &identity, &[]);
    assert_eq!(daemon.process.wait(PATIENCE), Some(78), "{}", daemon.process.log());
    assert!(daemon.process.log().contains("node"), "{}", daemon.process.log());
}

#[test]
fn node_refuses_node_as_hub() {
    let network = Network::new();
    let hub = network.supernode("sn1", &[]);
    let impostor = network.node("impostor", "1,1", &["--super", &hub.endpoint("udp")]);
    for transport in TRANSPORTS {
        let name = format!("v-{transport}");
        let identity = network.identity(&name, "node");
        let arguments = ["--at", "1,1", "--super", &impostor.endpoint(transport)];
        let victim = network.start("overlay-node", &name, &identity, &arguments);
        let told = wait_until(PATIENCE, || victim.process.log().contains("role").then_some(()));
        assert!(told.is_some(), "{}", victim.process.log());
        assert_ne!(victim.status().unwrap()["state"], "attached");
    }
}

#[test]
fn group_commands_tell_what_is_valid() {
    let network = Network::new();
    let good = network.identity("good", "node");
    network.identity("bad", "node");
    let verify = |identity: &str| run("roost", &["group", "verify", &network.group(), identity]);
    assert_eq!(verify(&text(&good)).status.code(), Some(0));
    network.roost_ok(&["group", "revoke", &network.group(), "bad"]);
    let refused = verify(&text(&network.path("id-bad")));
    assert_eq!(refused.status.code(), Some(5));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("revoked"));
    let listed = network.roost_ok(&["group", "show", &network.group()]);
    assert!(listed.contains("good") && listed.contains("revoked"), "{listed}");
}

#[test]
fn copied_identity_is_reported() {
    let network = Network::new();
    let hub = network.supernode("sn1", &[]);
    let identity = network.identity("n", "node");
    let endpoint = hub.endpoint("udp");
    let with = ["--super", endpoint.as_str()];
    let first = network.start("overlay-node", "first", &identity, &[&with[..], &["--at", "1,1"]].concat()).ready();
    first.await_later_run();
    let _second = network.start("overlay-node", "second", &identity, &[&with[..], &["--at", "9,9"]].concat()).ready();
    first.json(&["move", "--at", "2,2"]);
    let noticed = wait_until(PATIENCE, || {
        let said = first.status()?["last_error"].as_str()?.to_owned();
        said.contains("another daemon uses this node's identity").then_some(())
    });
    assert!(noticed.is_some(), "{}", first.process.log());
    assert!(hub.process.log().contains("another daemon uses this identity"), "{}", hub.process.log());
}

/// The operator of a hub reads who knocks, and from where.
#[test]
fn refused_are_named_in_the_log() {
    let network = Network::new();
    let hub = network.supernode("sn1", &[]);
    let other = text(&network.path("other"));
    network.roost_ok(&["group", "init", &other, "--name", "thicket"]);
    network.roost_ok(&["group", "issue", &other, "wanderer", "--role", "node", "-o", &text(&network.path("id-w"))]);
    let arguments = ["--at", "1,1", "--super", &hub.endpoint("udp")];
    let _node = network.start("overlay-node", "wanderer", &network.path("id-w"), &arguments);
    let told = wait_until(PATIENCE, || {
        hub.log().lines().find(|line| line.contains("remotes were refused")).map(str::to_owned)
    });
    let line = told.unwrap_or_else(|| panic!("{}", hub.log()));
    assert!(line.contains("wanderer") && line.contains("udp://127.0.0.1:") && line.contains("wrong_group "), "{line}");
}

/// Each transport has a parser of its own for certificates.
#[test]
fn member_with_labels_is_admitted_over_each_transport() {
    let network = Network::new();
    let hub = network.supernode("sn1", &[]);
    let bundle = network.path("id-red");
    let (group, out) = (network.group(), text(&bundle));
    let issue = ["group", "issue", &group, "red", "--role", "node", "--label", "team=red", "--label", "role=scout"];
    network.roost_ok(&[&issue[..], &["-o", &out]].concat());
    for transport in TRANSPORTS {
        let at = ["--at", "1,1", "--super", &hub.endpoint(transport)];
        let node = network.start("overlay-node", &format!("red-{transport}"), &bundle, &at);
        node.wait_for("it is not attached", |status| (status["state"] == "attached").then_some(()));
    }
}
