//! Output of the commands: the words that they print, and those that they leave out.

use std::net::UdpSocket;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use roost_tests::network::{Network, PATIENCE, text};
use roost_tests::process::{Process, free_port, run, wait_until};
use roost_wait::beats;
use serde_json::Value;

#[test]
fn quiet_request_prints_no_summary() {
    let network = Network::new();
    let hub = network.supernode("sn1", &[]);
    let endpoint = hub.endpoint("udp");
    let _provider = network.node("p", "1,1", &["--super", &endpoint, "--services", "sensor"]);
    let node = network.node("n", "2,2", &["--super", &endpoint]);
    let file = text(&network.path("reading.json"));
    let said = |arguments: &[&str]| {
        let output = node.roost(&[&["request", "sensor", "--at", "1,1", "-o", &file], arguments].concat());
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    };
    assert!(said(&[]).contains("provider    p ("), "{}", said(&[]));
    assert_eq!(said(&["-q"]), "");
    let json: Value = serde_json::from_str(&said(&["-q", "--json"])).unwrap();
    assert_eq!(json["summary"]["complete"], true, "JSON is asked for, and comes");
}

#[test]
fn interrupted_ping_prints_its_summary() {
    let network = Network::new();
    let hub = network.supernode("sn1", &[]);
    let node = network.node("n", "2,2", &["--super", &hub.endpoint("udp")]);
    let command = node.command(&["ping", "--count", "100000"]);
    let mut ping = Process::start(command, network.path("ping.log")).unwrap();
    let answered = wait_until(PATIENCE, || (ping.log().matches(" ms\n").count() >= 2).then_some(()));
    assert!(answered.is_some(), "{}", ping.log());
    ping.signal("INT");
    assert_eq!(ping.wait(PATIENCE), Some(0), "{}", ping.log());
    assert!(ping.log().contains("sn1 (") && ping.log().contains("round trip min "), "{}", ping.log());
}

#[test]
fn validity_beyond_the_groups_is_told() {
    let network = Network::new();
    let issue = |name: &str, valid: &str| {
        let folder = text(&network.path(name));
        let arguments = ["group", "issue", &network.group(), name, "--role", "node", "--valid", valid, "-o", &folder];
        let output = run("roost", &arguments);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    };
    let long = issue("long", "20y");
    assert!(long.contains("UTC") && long.contains("the group's own certificate ends"), "{long}");
    let renew = |valid: &str, more: &[&str]| {
        let (group, folder) = (network.group(), text(&network.path("long")));
        let output = run("roost", &[&["group", "renew", &group, &folder, "--valid", valid], more].concat());
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    };
    assert!(renew("20y", &[]).contains("the group's own certificate ends"));
    assert!(!renew("30d", &[]).contains("the group's own certificate ends"));
    for (valid, is_cut) in [("20y", true), ("30d", false)] {
        let renewed: Value = serde_json::from_str(&renew(valid, &["--json"])).unwrap();
        assert_eq!(renewed["cut_to_group"], is_cut, "{renewed}");
    }
    let short = issue("short", "30d");
    assert!(short.contains("UTC") && !short.contains("the group's own certificate ends"), "{short}");
}

#[test]
fn certificates_end_is_a_metric() {
    let network = Network::new();
    let hub = network.supernode("sn1", &[]);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs_f64();
    let left = hub.metric("roost_certificate_not_after_seconds ", "") - now;
    assert!((29.9..30.0).contains(&(left / 86_400.0)), "{left}");
    assert!(hub.metric("process_resident_memory_bytes ", "") > 1e6);
}

#[test]
fn track_has_raw_only_if_wanted() {
    let network = Network::new();
    let hub = network.supernode("sn1", &[]);
    let endpoint = hub.endpoint("udp");
    let port = free_port();
    let source = format!("nmea+udp://127.0.0.1:{port}");
    let _provider = network.node("p", "1,1", &["--super", &endpoint, "--sources-track", &source]);
    let node = network.node("n", "2,2", &["--super", &endpoint]);
    let is_over = AtomicBool::new(false);
    let track = |format: &str| {
        let arguments = ["request", "track", "--at", "1,1", "--for", "2s", "--format", format, "-o", "-"];
        let output = node.roost(&arguments);
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().next().unwrap().to_owned()
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
            let sentence = "$GPRMC,123519,A,4807.038,N,01131.000,E,022.4,084.4,230394,003.1,W*6A\r\n";
            // For a minute at most, so that a failure is told.
            for _ in beats(Duration::from_millis(100)).take(600).take_while(|_| !is_over.load(Ordering::Relaxed)) {
                // Nobody listens as long as nobody asks.
                let _ = receiver.send_to(sentence.as_bytes(), ("127.0.0.1", port));
            }
        });
        let [json, full, raw] = ["json", "full", "raw"].map(track);
        is_over.store(true, Ordering::Relaxed);
        let (json, full): (Value, Value) = (serde_json::from_str(&json).unwrap(), serde_json::from_str(&full).unwrap());
        assert!(json["lat"].is_number() && json.get("raw").is_none(), "{json}");
        assert!(full["lat"].is_number() && full["raw"].as_str().unwrap().starts_with("$GPRMC"), "{full}");
        assert!(raw.starts_with("$GPRMC"), "{raw}");
    });
}

#[test]
fn daemons_listen_on_both_families() {
    let network = Network::new();
    let identity = text(&network.identity("n", "node"));
    let output = Command::new(roost_tests::process::binary("overlay-node"))
        .args(["--identity", &identity, "--print-config"])
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(printed.contains("udp://[::]:0"), "{printed}");
}
