//! Bad input: one sentence and the documented exit code.

use std::net::UdpSocket;
use std::process::Stdio;

use roost_tests::network::{Daemon, Network, PATIENCE, text};
use roost_tests::process::{binary, run, wait_until};

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
    says("roost", &["request", "video", "--at", "27;92"], 2, "is no place");
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
    with(&["--at", "here", "--super", "udp://127.0.0.1:1"], 64, "is no place");
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
fn check_ignores_running_daemon() {
    let network = Network::new();
    let video = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let hub = network.supernode("sn1", &["--metrics", "127.0.0.1:0"]);
    let source = format!("udp://{video}");
    let endpoint = hub.endpoint("udp");
    let node = network.node("n1", "1,1", &["--super", &endpoint, "--sources-video", &source]);
    // A request makes the node listen for the video.
    let requester = network.node("r", "0,0", &["--super", &endpoint]);
    let mut request = requester.command(&["request", "video", "--any", "--timeout", "60s"]);
    let mut request = request.stderr(Stdio::null()).spawn().unwrap();
    assert!(wait_until(PATIENCE, || UdpSocket::bind(video).err()).is_some(), "{}", node.process.log());
    let check = |program: &str, name: &str, daemon: &Daemon, more: &[&str]| {
        let (identity, socket) = (text(&network.path(&format!("id-{name}"))), text(&daemon.socket));
        let fixed = ["--check", "--identity", &identity, "--socket", &socket];
        run(program, &[&fixed[..], more].concat())
    };
    let own = check("supernode", "sn1", &hub, &["--listen", &endpoint, "--listen", "tcp://127.0.0.1:0"]);
    let said = String::from_utf8_lossy(&own.stderr);
    assert!(own.status.success() && said.contains(&endpoint) && !said.contains("tcp://"), "{said}");
    let taken = check("supernode", "sn1", &hub, &["--listen", &node.endpoint("tcp")]);
    assert_eq!(taken.status.code(), Some(1), "a port that somebody else has is still a fault");
    let more = ["--listen", &node.endpoint("udp"), "--super", &endpoint, "--at", "1,1", "--sources-video", &source];
    let own = check("overlay-node", "n1", &node, &more);
    assert!(own.status.success(), "{}", String::from_utf8_lossy(&own.stderr));
    assert!(hub.status().is_some() && node.status().is_some(), "their sockets are still there");
    request.kill().unwrap();
    request.wait().unwrap();
}

#[test]
fn reload_is_all_or_nothing() {
    let network = Network::new();
    let hub = network.supernode("sn1", &[]);
    let file = network.path("node.toml");
    let set = |settings: &str| std::fs::write(&file, settings).unwrap();
    set("services = ['image']\n");
    let node = network.node("n1", "1,1", &["--super", &hub.endpoint("udp"), "--config", &text(&file)]);
    set("services = ['image', 'sensor']\n[sources]\nvideo = 'file:/nonexistent.ts'\n");
    node.process.signal("HUP");
    let refused = || node.process.log().contains("/nonexistent.ts").then_some(());
    assert!(wait_until(PATIENCE, refused).is_some(), "{}", node.process.log());
    let status = node.status().unwrap();
    assert_eq!(status["services"], serde_json::json!(["image"]));
    assert!(status["last_error"].as_str().unwrap().contains("no setting was changed"), "{status}");
    assert!(status["last_error_s"].as_f64().is_some_and(|past| past < 60.0), "{status}");
    let screen = String::from_utf8_lossy(&node.roost(&["status"]).stdout).into_owned();
    assert!(screen.contains("last error") && screen.contains(" s ago)"), "{screen}");
    set("services = ['sensor']\n");
    node.process.signal("HUP");
    let taken = || (node.status()?["services"] == serde_json::json!(["sensor"])).then_some(());
    assert!(wait_until(PATIENCE, taken).is_some(), "{}", node.process.log());
}

#[test]
fn data_on_standard_output_stays_pure() {
    let network = Network::new();
    let hub = network.supernode("sn1", &[]);
    let node = network.node("n1", "1,1", &["--super", &hub.endpoint("udp")]);
    let output = node.roost(&["request", "image", "--any", "-o", "-", "--json", "--timeout", "1s"]);
    assert!(output.stdout.is_empty(), "{}", String::from_utf8_lossy(&output.stdout));
    let said: serde_json::Value = serde_json::from_slice(&output.stderr).unwrap();
    assert_eq!((&said["schema"], &said["error"]["exit"]), (&2.into(), &output.status.code().into()));
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
fn unreachable_hub_is_retried() {
    let network = Network::new();
    let identity = network.identity("n", "node");
    let node = network.start("overlay-node", "n", &identity, &["--at", "1,1", "--super", "tcp://127.0.0.1:1"]);
    let told = wait_until(PATIENCE, || node.process.log().contains("tcp://127.0.0.1:1").then_some(()));
    assert!(told.is_some(), "{}", node.process.log());
    assert_eq!(node.status().unwrap()["state"], "attaching");
    let error = node.fails(6, &["request", "video", "--any", "--timeout", "1s", "-o", "-"]);
    assert!(!error.is_empty());
}

#[test]
fn unwritable_version_is_failure() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = std::process::Command::new(binary("roost")).arg("--version").stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot write the output"), "{output:?}");
}

#[test]
fn node_logs_search_for_hub() {
    let network = Network::new();
    let identity = network.identity("n", "node");
    let node = network.start("overlay-node", "n", &identity, &["--at", "1,1", "--super", "udp://127.0.0.1:1"]);
    let said = || node.process.log().contains("looking for a hub").then_some(());
    assert!(wait_until(std::time::Duration::from_secs(10), said).is_some(), "{}", node.process.log());
}
