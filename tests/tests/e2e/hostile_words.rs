//! The words of a malicious hub reach people as plain text, which commands no terminal.

use roost_tests::adversary::{ClosingListener, FakeHub};
use roost_tests::network::{Client, Network, PATIENCE, text};
use roost_tests::process::wait_until;

/// Clears a screen, renames a window, turns text around, and begins a line of the log.
const WORDS: &str = "\u{1b}[2J\u{1b}]0;OWNED\u{7}\u{9b}31m\u{202e}\r\n2026-01-01T00:00:00Z  INFO forged line";

fn assert_plain(what: &str, said: &[u8]) {
    let said = String::from_utf8(said.to_vec()).unwrap();
    let odd = |letter: char| letter != '\n' && (letter.is_control() || letter == '\u{202e}');
    assert!(!said.contains(odd), "{what}: {said:?}");
    assert!(!said.lines().any(|line| line.starts_with("2026-01-01")), "{what}: {said:?}");
}

fn judge(client: &Client, scheme: &str) {
    client.wait_for(scheme, |status| status["last_error"].as_str()?.contains("OWNED").then_some(()));
    for command in [&["status"][..], &["doctor"], &["connections"], &["lookup", "video", "--any", "--timeout", "100ms"]]
    {
        let output = client.roost(command);
        assert_plain(command[0], &output.stdout);
        assert_plain(command[0], &output.stderr);
        let output = client.roost(&[command, &["--json"]].concat());
        assert_plain(command[0], &output.stdout);
        assert_plain(command[0], &output.stderr);
        let objects = serde_json::Deserializer::from_slice(&output.stdout).into_iter::<serde_json::Value>();
        assert!(objects.fold(0, |count, object| count + usize::from(object.is_ok())) > 0, "{command:?}: {output:?}");
    }
    let shown = client.roost(&["doctor"]);
    assert!(
        String::from_utf8_lossy(&shown.stdout).contains("forged line"),
        "{scheme}: it is told in a form that is plain"
    );
    assert_plain("the log", client.log().as_bytes());
}

#[test]
fn words_of_a_hub_command_nothing() {
    let network = Network::new();
    let hub = ClosingListener::start(&network.identity("sn1", "supernode"), WORDS);
    for endpoint in &hub.endpoints {
        let scheme = endpoint.split_once(':').unwrap().0;
        let identity = network.identity(scheme, "node");
        let node = network.start("overlay-node", scheme, &identity, &["--at", "1,1", "--super", endpoint]);
        judge(&node, scheme);
    }
}

/// JSON for machines is read by people, too.
#[test]
fn hub_text_is_escaped_in_json() {
    let network = Network::new();
    let hub = ClosingListener::start(&network.identity("sn1", "supernode"), WORDS);
    let identity = network.identity("n", "node");
    let arguments = ["--at", "1,1", "--super", &hub.endpoints[0], "--log-format", "json"];
    let node = network.start("overlay-node", "n", &identity, &arguments);
    node.wait_for("it is not told", |status| status["last_error"].as_str()?.contains("OWNED").then_some(()));
    assert_plain("the log", node.log().as_bytes());
    assert!(node.log().contains("forged line"), "{}", node.log());
    for line in node.log().lines() {
        assert!(serde_json::from_str::<serde_json::Value>(line).is_ok(), "{line}");
    }
}

/// A name that no certificate can have is shown to nobody.
#[test]
fn false_name_commands_nothing() {
    let network = Network::new();
    // As long as a name may be.
    let name = "\u{1b}[2J\u{9b}31m\u{202e}\r\n2026-01-01T00:00:00Z INFO forged";
    let hub = FakeHub::start(&network.identity("sn1", "supernode"), 0, name);
    let node = network.node("n", "1,1", &["--super", &hub.endpoint]);
    for command in [
        &["lookup", "video", "--any"][..],
        &["lookup", "video", "--any", "--json"],
        &["request", "sensor", "--from", "09", "--timeout", "1s"],
        &["request", "sensor", "--from", "09", "--timeout", "1s", "--json"],
    ] {
        let output = node.roost(command);
        assert_plain(command[0], &output.stdout);
        assert_plain(command[0], &output.stderr);
        assert!(!String::from_utf8_lossy(&output.stdout).contains("forged"), "{output:?}");
    }
    assert_plain("the log", node.log().as_bytes());
}

/// A file's name is its sender's word, and stands in the receiver's log.
#[test]
fn file_name_is_escaped_in_json() {
    let network = Network::new();
    let hub = network.supernode("sn1", &[]);
    let (endpoint, inbox) = (hub.endpoint("udp"), text(&network.path("inbox")));
    let receiver = network.node(
        "r",
        "1,1",
        &["--super", &endpoint, "--services", "sensor", "--inbox", &inbox, "--log-format", "json"],
    );
    let sender = network.node("s", "2,2", &["--super", &endpoint, "--log-format", "json"]);
    let file = network.path("file");
    std::fs::write(&file, "x").unwrap();
    let output = sender.roost(&["send", &text(&file), "r", "--json", "--name", "OWNED\u{9b}2J\u{202e}gpj\u{2028}"]);
    assert_plain("send", &output.stdout);
    assert_plain("send", &output.stderr);
    let told = wait_until(PATIENCE, || receiver.log().contains("OWNED").then_some(()));
    assert!(told.is_some(), "{}", receiver.log());
    assert_plain("the log", receiver.log().as_bytes());
    assert!(receiver.log().contains(r"OWNED\u009b2J\u202egpj\u2028"), "{}", receiver.log());
}
