//! Changes of a daemon's identity that it takes over, or refuses, while it runs and across restarts.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use roost_identity::group::{Group, Validity};
use roost_tests::network::{Client, Network, PATIENCE, text};
use roost_tests::process::{free_port, wait_until};
use roost_wire::Role;

const SECOND: Duration = Duration::from_secs(1);
/// Time for which the first certificates are valid: for three nodes to start, one after the other.
const BRIEF: Duration = Duration::from_secs(10);

fn logs(client: &Client, words: &str) {
    let said = || client.log().contains(words).then_some(());
    assert!(wait_until(PATIENCE, said).is_some(), "{words}:\n{}", client.log());
}

/// A certificate that is valid up to this time.
fn brief(network: &Network, name: &str, end: SystemTime) -> PathBuf {
    let bundle = network.path(&format!("id-{name}"));
    let validity = Validity::Between { not_before: SystemTime::now() - SECOND, not_after: end };
    Group::open(&network.path("grove")).unwrap().issue(name, Role::Node, validity, &bundle).unwrap();
    bundle
}

/// Each transport shows the new one: when the old one has ended, a hub that starts anew lets them in.
#[test]
fn renewed_certificate_is_shown_without_restart() {
    let network = Network::new();
    let ports = [free_port(), free_port()];
    let at = [format!("udp://127.0.0.1:{}", ports[0]), format!("tcp://127.0.0.1:{}", ports[0])];
    let at = [at[0].clone(), at[1].clone(), format!("quic://127.0.0.1:{}", ports[1])];
    let listen: Vec<&str> = at.iter().flat_map(|endpoint| ["--listen", endpoint]).collect();
    let mut hub = network.supernode("sn1", &listen);
    let end = SystemTime::now() + BRIEF;
    let nodes = at.each_ref().map(|endpoint| {
        let name = endpoint.split_once(':').unwrap().0;
        let bundle = brief(&network, name, end);
        let node = network.start("overlay-node", name, &bundle, &["--at", "1,1", "--super", endpoint]).ready();
        network.roost_ok(&["group", "renew", &network.group(), &text(&bundle), "--valid", "1d"]);
        node.process.signal("HUP");
        logs(&node, "the renewed certificate is shown in new handshakes");
        node
    });
    // The time of a certificate has whole seconds.
    let has_ended = || (SystemTime::now() > end + SECOND).then_some(());
    assert!(wait_until(BRIEF + PATIENCE, has_ended).is_some(), "the clock stands still");
    hub.process.kill();
    nodes.iter().for_each(|node| node.wait_for("it is gone", |status| (status["state"] == "attaching").then_some(())));
    let _hub = network.start("supernode", "sn1", &network.path("id-sn1"), &listen).ready();
    nodes.iter().for_each(|node| node.wait_for("it is back", |status| (status["state"] == "attached").then_some(())));
}

#[test]
fn another_members_certificate_is_refused() {
    let network = Network::new();
    let hub = network.supernode("sn1", &[]);
    let other = network.identity("other", "supernode");
    let own = network.path("id-sn1");
    for file in ["identity.pem", "identity.key"] {
        fs::copy(other.join(file), own.join(file)).unwrap();
    }
    hub.process.signal("HUP");
    logs(&hub, "the certificate stays as it is");
    logs(&hub, "another key");
    assert!(hub.status().unwrap()["last_error"].as_str().unwrap().contains("restart"));
}

#[test]
fn older_revocations_stop_a_start() {
    let network = Network::new();
    let bundle = network.identity("sn1", "supernode");
    network.identity("lost", "node");
    let (list, before) = (bundle.join("revoked.pem"), fs::read(bundle.join("revoked.pem")).unwrap());
    network.roost_ok(&["group", "revoke", &network.group(), "lost"]);
    fs::copy(network.path("grove").join("revoked.pem"), &list).unwrap();
    drop(network.start("supernode", "sn1", &bundle, &[]).ready());
    fs::write(&list, before).unwrap();
    let mut again = network.start("supernode", "sn1", &bundle, &[]);
    assert_eq!(again.process.wait(PATIENCE), Some(78), "{}", again.log());
    assert!(again.log().contains("older than number 2"), "{}", again.log());
}

#[test]
fn daemon_waits_for_certificate_validity() {
    let network = Network::new();
    let (now, bundle) = (SystemTime::now(), network.path("id-early"));
    let validity = Validity::Between { not_before: now + SECOND * 4, not_after: now + SECOND * 3600 };
    Group::open(&network.path("grove")).unwrap().issue("early", Role::SuperNode, validity, &bundle).unwrap();
    let hub = network.start("supernode", "early", &bundle, &[]);
    logs(&hub, "is valid only from");
    hub.wait_ready();
}
