//! Calls, parameters and shared programs, with the real daemons.

use std::time::Duration;

use roost_tests::network::{Daemon, Network, text};
use roost_tests::process::{Process, wait_until};

const TRANSPORTS: [&str; 3] = ["udp", "tcp", "quic"];

/// Answers with its parameters and the body.
const ECHO: &str = "printf '%s:' \"$ROOST_PARAMS\"; cat";

/// Starts `roost offer` at a node, and waits until `others` find the service.
fn offer(network: &Network, node: &Daemon, others: &Daemon, arguments: &[&str]) -> Process {
    let name = arguments[0];
    let log = network.path(&format!("offer-{}.log", name.replace(['/', '#'], "-")));
    let process = Process::start(node.command(&[&["offer"], arguments].concat()), log).unwrap();
    let found = || others.roost(&["lookup", name, "--any"]).status.success().then_some(());
    assert!(wait_until(Duration::from_secs(20), found).is_some(), "{}", process.log());
    process
}

/// A super node, a provider and a requester.
fn scene(network: &Network) -> (Daemon, Daemon, Daemon) {
    let hub = network.supernode("sn1", &[]);
    let endpoint = TRANSPORTS.map(|transport| hub.endpoint(transport)).join(",");
    let provider = network.node("p", "27,92", &["--super", &endpoint]);
    let requester = network.node("r", "3,4", &["--super", &endpoint]);
    (hub, provider, requester)
}

fn call_over(network: &Network, requester: &Daemon, transport: &str, more: &[&str]) -> serde_json::Value {
    let (body, answer) = (network.path("body"), text(&network.path("answer")));
    let bytes: Vec<u8> = (0..65_536_u32).map(|at| (at % 251) as u8).collect();
    std::fs::write(&body, &bytes).unwrap();
    let data = format!("@{}", text(&body));
    let flags = ["call", "acme/echo", "--any", "--data", &data, "--params", "zoom=3", "-o", &answer];
    let got = requester.json(&[&flags[..], &["--transport", transport], more].concat());
    assert_eq!(got["summary"]["digest_ok"], true, "{got}");
    assert_eq!(std::fs::read(&answer).unwrap(), [b"zoom=3:", &bytes[..]].concat(), "{transport}");
    got
}

#[test]
fn calls_go_directly_and_relayed() {
    let network = Network::new();
    let (hub, provider, requester) = scene(&network);
    let _echo = offer(&network, &provider, &requester, &["acme/echo", "--call", "--", "sh", "-c", ECHO]);
    for transport in TRANSPORTS {
        let relayed = hub.metric("roost_hub_relayed_bytes_total", "");
        assert_eq!(call_over(&network, &requester, transport, &[])["summary"]["relayed"], false);
        assert!(hub.metric("roost_hub_relayed_bytes_total", "") - relayed < 1_000.0, "the hub has seen the body");
        let got = call_over(&network, &requester, transport, &["--mode", "relay"]);
        assert_eq!(got["summary"]["relayed"], true, "{got}");
    }
    let said = requester.roost(&["call", "acme/echo", "--from", "p", "--data", "to 30,40"]);
    assert_eq!(String::from_utf8_lossy(&said.stdout), ":to 30,40", "{said:?}");
    let said = requester.roost(&["request", "acme/echo", "--any", "--params", "alone", "-o", "-"]);
    assert_eq!(String::from_utf8_lossy(&said.stdout), "alone:", "a request is a call without a body: {said:?}");
}

#[test]
fn server_carries_calls() {
    let network = Network::new();
    let server = network.server("cs1");
    let endpoint = TRANSPORTS.map(|transport| server.endpoint(transport)).join(",");
    let provider = network.node("p", "27,92", &["--server", &endpoint]);
    let requester = network.node("r", "3,4", &["--server", &endpoint]);
    let _echo = offer(&network, &provider, &requester, &["acme/echo", "--call", "--", "sh", "-c", ECHO]);
    for transport in TRANSPORTS {
        assert_eq!(call_over(&network, &requester, transport, &[])["summary"]["relayed"], true);
    }
}

#[test]
fn failing_program_declines_once() {
    let network = Network::new();
    let (_hub, provider, requester) = scene(&network);
    let runs = network.path("runs");
    let script = format!("echo run >> {}; cat > /dev/null; exit 3", text(&runs));
    let _fails = offer(&network, &provider, &requester, &["acme/fails", "--call", "--", "sh", "-c", &script]);
    let said = requester.fails(5, &["call", "acme/fails", "--any", "--data", "body"]);
    assert!(said.contains("acme/fails gave nothing"), "{said}");
    assert_eq!(std::fs::read_to_string(&runs).unwrap(), "run\n");
    let said = requester.fails(2, &["call", "acme/fails:object", "--any"]);
    assert!(said.contains("is no call"), "{said}");
    let said = requester.fails(2, &["call", "acme/fails", "--any", "--params", &"p".repeat(1025)]);
    assert!(said.contains("at most 1024 bytes"), "{said}");
}

/// A requester hears that a program cannot be started, and no path of its host.
#[test]
fn missing_program_keeps_its_path() {
    let network = Network::new();
    let scenes = [
        (network.supernode("sn1", &[]), "--super", ["p1", "r1"], &["--from", "p1"][..]),
        (network.server("cs1"), "--server", ["p2", "r2"], &["--any", "--mode", "relay"]),
    ];
    for (hub, flag, [provider, requester], way) in scenes {
        let endpoint = hub.endpoint("udp");
        let provider = network.node(provider, "27,92", &[flag, &endpoint]);
        let requester = network.node(requester, "3,4", &[flag, &endpoint]);
        let missing = offer(&network, &provider, &requester, &["acme/none", "--call", "--", "/nowhere/secret-program"]);
        for way in [&["--any"][..], way] {
            let said = requester.fails(5, &[&["call", "acme/none", "--data", "body"], way].concat());
            assert!(said.contains("declined: \"its program cannot be started\""), "{said}");
            assert!(!said.contains("secret-program"), "{said}");
        }
        let output = requester.roost(&["--json", "request", "acme/none", "--any", "-o", "-"]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(r#""provider_reason":"its program cannot be started""#), "{output:?}");
        assert!(missing.log().contains("secret-program"), "{}", missing.log());
    }
}

#[test]
fn late_call_ends_its_program() {
    let network = Network::new();
    let (_hub, provider, requester) = scene(&network);
    let number = network.path("number");
    let script = format!("echo $$ > {}; exec sleep 600", text(&number));
    let _slow = offer(&network, &provider, &requester, &["acme/slow", "--call", "--", "sh", "-c", &script]);
    requester.fails(6, &["call", "acme/slow", "--any", "--data", "body", "--timeout", "1s"]);
    let process = std::fs::read_to_string(&number).unwrap().trim().to_owned();
    let gone = || (!std::path::Path::new("/proc").join(&process).exists()).then_some(());
    assert!(wait_until(Duration::from_secs(20), gone).is_some(), "the program goes on without its requester");
}

#[test]
fn stream_gets_its_parameters() {
    let network = Network::new();
    let (_hub, provider, requester) = scene(&network);
    let script = "while echo \"$ROOST_PARAMS\"; do sleep 0.02; done";
    let offered = ["acme/beams", "--stream", "--lines", "--", "sh", "-c", script];
    let beams = offer(&network, &provider, &requester, &offered);
    for verb in ["request", "subscribe"] {
        let file = text(&network.path(verb));
        let flags = [verb, "acme/beams", "--any", "--for", "1s", "--params", "beams=16", "-o", &file];
        let got = requester.json(&flags);
        assert_eq!(got["summary"]["reflected"], false, "{got}");
        let lines = std::fs::read_to_string(&file).unwrap();
        assert!(lines.lines().count() > 5 && lines.lines().all(|line| line == "beams=16"), "{lines}");
    }
    // The end of a stream's time is no fault of the program.
    let served = || (beams.log().matches("is served").count() == 2).then_some(());
    assert!(wait_until(Duration::from_secs(20), served).is_some(), "{}", beams.log());
}

#[test]
fn shared_program_runs_once() {
    let network = Network::new();
    let (_hub, provider, requester) = scene(&network);
    let runs = network.path("runs");
    let script = format!("echo run >> {}; i=0; while echo $i; do i=$((i+1)); sleep 0.02; done", text(&runs));
    let offered = ["acme/clock", "--stream", "--shared", "--lines", "--", "sh", "-c", &script];
    let _clock = offer(&network, &provider, &requester, &offered);
    let runs = || std::fs::read_to_string(&runs).unwrap_or_default().lines().count();
    let receive = |name: &str, time: &str| {
        let file = text(&network.path(name));
        let flags = ["request", "acme/clock", "--any", "--reflect", "never", "--for", time, "-o", &file];
        let process = Process::start(requester.command(&flags), network.path(&format!("{name}.log"))).unwrap();
        (process, file)
    };
    let (mut long, long_file) = receive("long", "6s");
    assert!(wait_until(Duration::from_secs(20), || (runs() == 1).then_some(())).is_some(), "{}", long.log());
    let (mut short, short_file) = receive("short", "1s");
    for process in [&mut short, &mut long] {
        assert_eq!(process.wait(Duration::from_secs(30)), Some(0), "{}", process.log());
    }
    assert_eq!(runs(), 1);
    let numbers = |file: &str| -> Vec<u32> {
        std::fs::read_to_string(file).unwrap().lines().map(|line| line.parse().unwrap()).collect()
    };
    let (all, some) = (numbers(&long_file), numbers(&short_file));
    assert!(some.len() > 5 && some.iter().all(|number| all.contains(number)), "{some:?} of {all:?}");
    let said = requester.fails(5, &["request", "acme/clock", "--any", "--for", "1s", "--params", "fast"]);
    assert!(said.contains("declined: \"one program serves all requesters"), "{said}");
    // After the last one it is stopped, and the next one starts it again.
    let (mut again, _) = receive("again", "1s");
    assert_eq!(again.wait(Duration::from_secs(30)), Some(0), "{}", again.log());
    assert_eq!(runs(), 2);
}

#[test]
fn wrong_line_needs_no_daemon() {
    let network = Network::new();
    let nobody = network.client("nobody");
    let file = text(&network.path("clip.ts"));
    nobody.fails(2, &["request", "video", "--any", "-o", &file, "--sdp", "clip.sdp"]);
    nobody.fails(3, &["call", "acme/echo", "--any"]);
}
