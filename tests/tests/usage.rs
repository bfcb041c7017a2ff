//! Bad input: one sentence and the documented exit code.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop where it stands")]

use roost_tests::network::{Network, PATIENCE, text};
use roost_tests::process::run;

fn says(program: &str, arguments: &[&str], code: i32, words: &str) {
    let output = run(program, arguments);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{program} {arguments:?}: {error}");
    assert!(error.contains(words), "{program} {arguments:?} should say {words:?}: {error}");
    assert!(!error.contains("panicked"), "{error}");
}

#[test]
fn a_wrong_command_line_is_explained() {
    says("roost", &["request", "radar", "--any"], 2, "unknown service");
    says("roost", &["request", "video", "--at", "27;92"], 2, "is not a location");
    says("roost", &["request", "video"], 2, "--at");
    says("roost", &["request", "video", "--any", "--transport", "sctp"], 2, "unknown transport");
    says("roost", &["frobnicate"], 2, "frobnicate");
    says("roost", &["--socket", "/nonexistent/s", "status"], 3, "/nonexistent/s");
    says("roost", &["group", "show", "/nonexistent/group"], 1, "/nonexistent/group");
}

#[test]
fn a_wrong_configuration_is_explained() {
    let network = Network::new();
    let identity = text(&network.identity("n", "node"));
    let with = |more: &[&str], code: i32, words: &str| {
        let arguments = [&["--identity", identity.as_str(), "--check"][..], more].concat();
        says("overlay-node", &arguments, code, words);
    };
    with(&["--at", "1,1", "--super", "sctp://a:1"], 64, "is not an endpoint");
    with(&["--at", "here", "--super", "udp://127.0.0.1:1"], 64, "is not a location");
    let file = network.path("node.toml");
    std::fs::write(&file, "super = [\"udp://127.0.0.1:1\"]\nat = \"1,1\"\nmax_stream = 3\n").unwrap();
    with(&["--config", &text(&file)], 78, "max_streams");
    says("overlay-node", &["--config", "/nonexistent.toml"], 78, "/nonexistent.toml");
    says(
        "overlay-node",
        &["--identity", "/nonexistent", "--at", "1,1", "--super", "udp://127.0.0.1:1"],
        78,
        "/nonexistent",
    );
    says("overlay-node", &["--no-such-flag"], 64, "--no-such-flag");
}

#[test]
fn a_port_in_use_is_named() {
    let network = Network::new();
    let hub = network.supernode("sn1", &[]);
    let identity = network.identity("sn2", "supernode");
    for scheme in ["udp", "tcp", "quic"] {
        let endpoint = hub.endpoint(scheme);
        let mut second = network.start("supernode", &format!("sn2-{scheme}"), &identity, &["--listen", &endpoint]);
        assert_ne!(second.process.wait(PATIENCE), Some(0));
        assert!(second.process.log().contains(&endpoint), "{}", second.process.log());
    }
}

#[test]
fn an_unreachable_super_node_is_reported_and_waited_for() {
    let network = Network::new();
    let identity = network.identity("n", "node");
    let node = network.start("overlay-node", "n", &identity, &["--at", "1,1", "--super", "tcp://127.0.0.1:1"]);
    let told =
        roost_tests::process::wait_until(PATIENCE, || node.process.log().contains("tcp://127.0.0.1:1").then_some(()));
    assert!(told.is_some(), "{}", node.process.log());
    assert_eq!(node.status().unwrap()["state"], "attaching");
    let error = node.fails(6, &["request", "video", "--any", "--timeout", "1s", "-o", "-"]);
    assert!(!error.is_empty());
}
