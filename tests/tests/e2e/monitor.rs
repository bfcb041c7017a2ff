//! `roost top` without a terminal: one frame of a hub and of a node, with rates between two samples.

use roost_tests::network::{Daemon, Network};
use serde_json::Value;

fn frame(daemon: &Daemon) -> String {
    let output = daemon.roost(&["top", "--once", "--interval", "300ms"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn monitor_shows_remotes_and_flows() {
    let network = Network::new();
    let hub = network.supernode("sn1", &[]);
    let at_hub = ["--super", &hub.endpoint("udp")];
    let provider = network.node("provider", "1,1", &[&at_hub[..], &["--services", "track"]].concat());
    let requester = network.node("requester", "2,2", &at_hub);

    let shown = frame(&hub);
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines[0], "sn1 (supernode) of group grove");
    assert!(lines[1].starts_with("2 nodes, 0 requests, 0 relayed flows, 0 streams; "), "{shown}");
    assert!(lines[2].starts_with("NAME") && !shown.contains("q quit"), "{shown}");
    for name in ["provider", "requester"] {
        assert!(lines.iter().any(|line| line.starts_with(name) && line.contains(" udp ")), "{shown}");
    }

    std::thread::scope(|scope| {
        scope.spawn(|| requester.json(&["request", "track", "--at", "1,1", "--for", "4s"]));
        let flows = || provider.json(&["top", "--interval", "500ms"])["streams"].as_array().cloned().unwrap();
        let running = |flow: &Value| flow["bytes_per_second"].as_f64().is_some_and(|rate| rate > 1000.0);
        let flow = std::iter::repeat_with(flows).take(6).flatten().find(running).expect("a flow with a rate");
        assert_eq!((&flow["service"], &flow["kind"]), (&"track".into(), &"provided".into()), "{flow:#}");
    });
}
