//! A revocation list is handed to one daemon, and is in force at all of them.

use roost_tests::network::{Daemon, Network, text};
use std::fs;

fn number(daemon: &Daemon) -> u64 {
    daemon.status().map_or(0, |status| status["documents"]["revocations"].as_u64().unwrap_or(0))
}

fn wait_for_list(daemons: &[&Daemon], wanted: u64) {
    for daemon in daemons {
        daemon.wait_for("it does not have the list", |status| {
            (status["documents"]["revocations"] == wanted).then_some(())
        });
    }
}

#[test]
fn revoked_member_is_out() {
    let network = Network::new();
    let root = network.supernode("root", &["--tier", "1"]);
    let below = |name: &str| network.supernode(name, &["--parent", &root.endpoint("udp")]);
    let (left, right) = (below("left"), below("right"));
    let node = |name: &str, at: &str, hub: &Daemon| {
        network.node(name, at, &["--services", "video", "--super", &hub.endpoint("udp")])
    };
    let (camera, viewer, gone) =
        (node("camera", "5,5", &left), node("viewer", "1,1", &left), node("gone", "9,9", &right));
    let stream = ["request", "video", "--at", "5,5", "--for", "20s", "--json"];
    let watched = viewer.command(&stream).stdout(std::process::Stdio::piped()).spawn().unwrap();
    camera.wait_for("no stream runs", |status| (!status["providing"].as_array()?.is_empty()).then_some(()));
    let said = network.roost_ok(&[
        "group",
        "revoke",
        &network.group(),
        "gone",
        "--via",
        &text(&camera.socket),
        "--via",
        &text(&root.socket),
        "--json",
    ]);
    let said: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!((said["number"].as_u64(), said["spread"]["everywhere"].as_bool()), (Some(2), Some(true)), "{said}");
    wait_for_list(&[&root, &left, &right, &camera, &viewer], 2);
    gone.wait_for("it is still attached", |status| status["hub"].is_null().then_some(()));
    assert!(gone.process.log().contains("revoked"), "{}", gone.process.log());
    let output = watched.wait_with_output().unwrap();
    assert!(output.status.success(), "the stream of others was broken off: {output:?}");
    let index = right.json(&["index"]);
    assert!(!index.to_string().contains("\"gone\""), "{index}");
}

#[test]
fn list_from_network_survives_restart_and_reload() {
    let network = Network::new();
    let hub = network.supernode("sn1", &[]);
    let mut node = network.node("uav1", "1,1", &["--super", &hub.endpoint("udp")]);
    network.identity("lost", "node");
    let first = fs::read(network.path("grove").join("revoked.pem")).unwrap();
    network.roost_ok(&["group", "revoke", &network.group(), "lost"]);
    network.roost_ok(&["group", "publish", &network.group(), "--via", &text(&hub.socket)]);
    wait_for_list(&[&hub, &node], 2);
    // The identity still has the first list.
    assert_eq!(fs::read(network.path("id-uav1").join("revoked.pem")).unwrap(), first);
    node.process.signal("HUP");
    node.wait_for("it was not reloaded", |_| node.process.log().contains("was read again").then_some(()));
    assert_eq!(number(&node), 2);
    node.process.kill();
    drop(hub);
    let node = network.start(
        "overlay-node",
        "uav1-again",
        &network.path("id-uav1"),
        &["--at", "1,1", "--super", "udp://127.0.0.1:9"],
    );
    node.wait_for("it has not started", |status| (status["documents"]["revocations"] == 2).then_some(()));
}

#[test]
fn bad_lists_are_not_taken() {
    let network = Network::new();
    let hub = network.supernode("sn1", &[]);
    let other = text(&network.path("other"));
    network.roost_ok(&["group", "init", &other, "--name", "thicket"]);
    network.identity("lost", "node");
    let old = network.path("old");
    fs::create_dir(&old).unwrap();
    fs::copy(network.path("grove").join("revoked.pem"), old.join("revoked.pem")).unwrap();
    network.roost_ok(&["group", "revoke", &network.group(), "lost", "--via", &text(&hub.socket)]);
    let publish = |dir: &str| {
        let output = roost_tests::process::run("roost", &["group", "publish", dir, "--via", &text(&hub.socket)]);
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let said = publish(&other);
    assert!(said.contains("did not sign"), "{said}");
    let said = publish(&text(&old));
    assert!(said.contains("number 1, older than number 2"), "{said}");
    assert_eq!(number(&hub), 2);
}
