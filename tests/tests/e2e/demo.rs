//! `roost demo` and `roost bench` with the real daemons.

use std::process::Command;

use roost_tests::ffmpeg::{ffmpeg, listed};
use roost_tests::network::{Client, Network, PATIENCE};
use roost_tests::process::{Process, binary, run, wait_until};
use serde_json::Value;

/// The fields of a row, in their documented order.
const FIELDS: [&str; 10] = [
    "mode",
    "service",
    "transport",
    "ok",
    "first_byte_ms",
    "total_ms",
    "payload_bytes",
    "overhead_bytes",
    "lost",
    "digest_ok",
];

#[test]
fn demo_serves_all_services_and_transports() {
    let output = run("roost", &["demo", "--for", "500ms", "--json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let report: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(report["schema"], 2);
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 30);
    assert_eq!(rows.iter().filter(|row| row["service"] == "demo/echo").count(), 6);
    for row in rows {
        assert_eq!(row["ok"], true, "{row}");
        assert_eq!(row.as_object().unwrap().len(), FIELDS.len(), "{row}");
        assert!(row["overhead_bytes"].as_u64().unwrap() > 0, "{row}");
        let relayed = row["mode"] == "cs";
        let second_copy = row["overhead_bytes"].as_u64() > row["payload_bytes"].as_u64();
        assert!(!relayed || second_copy, "a relayed payload crosses two legs: {row}");
    }
    let picture = std::path::PathBuf::from(report["picture"].as_str().unwrap());
    let decoded = ffmpeg(&["-i", &picture.display().to_string(), "-f", "framemd5", "-"]);
    assert_eq!(listed(&String::from_utf8_lossy(&decoded.stdout)).len(), 1, "a picture to look at");
    std::fs::remove_file(picture).unwrap();
    let failover = &report["failover"];
    assert_ne!(failover["killed"], failover["next"], "{failover}");
    assert!(failover["answered_ms"].as_f64().unwrap() > 0.0, "{failover}");
    let said = String::from_utf8_lossy(&output.stderr);
    for part in [
        "Getting a picture",
        "Killing the super node",
        "p2p: video over udp came",
        "cs: demo/echo over tcp came",
        "cs: sensor over quic came",
    ] {
        assert!(said.contains(part), "{part}:\n{said}");
    }
    let mut rest = text.split_once("\"rows\":[{").unwrap().1;
    for field in FIELDS {
        rest = rest.split_once(&format!("\"{field}\":")).unwrap_or_else(|| panic!("{field} is out of order")).1;
    }
}

#[test]
fn an_interrupted_demo_leaves_nothing_behind() {
    let network = Network::new();
    let (folder, log) = (network.path("tmp"), network.path("demo.log"));
    std::fs::create_dir(&folder).unwrap();
    let mut command = Command::new(binary("roost"));
    command.args(["demo", "--keep", "--for", "100ms"]).env("TMPDIR", &folder);
    let mut demo = Process::start(command, log).unwrap();
    let kept = wait_until(PATIENCE, || demo.log().contains("Everything is still running").then_some(()));
    assert!(kept.is_some(), "{}", demo.log());
    demo.signal("INT");
    assert_eq!(demo.wait(PATIENCE), Some(0), "{}", demo.log());
    let left: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    let is_picture = |path: &std::path::PathBuf| path.extension().is_some_and(|end| end == "jpg");
    assert!(left.len() == 1 && left.iter().all(is_picture), "of sockets and identities nothing is left: {left:?}");
}

#[test]
fn the_bench_measures_a_running_hub() {
    std::thread::scope(|scope| {
        for scheme in ["udp", "tcp", "quic"] {
            scope.spawn(move || measure_hub(scheme, &[]));
        }
        scope.spawn(|| measure_hub("udp", &["--own-services"]));
    });
}

fn measure_hub(scheme: &str, more: &[&str]) {
    let network = Network::new();
    let hub = network.supernode("sn1", &["--lookups-per-second", "10000000"]);
    let (group, process) = (network.group(), hub.process.id().to_string());
    let endpoint = hub.endpoint(scheme);
    let flags = ["bench", "hub", "--group", &group, "--super", &endpoint, "--pid", &process, "--json"];
    let output = run("roost", &[&flags[..], more, &["--entries", "80", "--seconds", "1"]].concat());
    assert!(output.status.success(), "{scheme}: {}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["nodes"], 20);
    assert_eq!(report["nodes_lost"], 0, "{report}");
    assert_eq!(report["load"]["wrong"], 0, "{report}");
    assert!(report["load"]["answered"].as_u64().unwrap() > 0, "{report}");
    assert!(report["join"]["bytes"].as_f64().unwrap() > 0.0, "{report}");
    assert!(report["warm"]["bytes"].as_f64().unwrap() > 0.0, "{report}");
}

/// Nodes that the hub holds.
fn nodes(hub: &Client) -> u64 {
    hub.status().unwrap()["index"]["nodes"].as_u64().unwrap()
}

/// At another address than the first of the loopback, and nothing stays, also after Ctrl-C.
#[test]
fn bench_leaves_hub_empty() {
    let network = Network::new();
    let listen = ["--listen", "udp://127.0.0.2:0", "--lookups-per-second", "10000000"];
    let hub = network.supernode("sn1", &listen);
    let (group, endpoint) = (network.group(), hub.endpoint("udp"));
    assert!(endpoint.contains("127.0.0.2"), "{endpoint}");
    let flags = ["bench", "hub", "--group", &group, "--super", &endpoint, "--entries", "80", "--json"];
    let output = run("roost", &[&flags[..], &["--seconds", "1"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(report["nodes_lost"] == 0 && report["load"]["answered"].as_u64().unwrap() > 0, "{report}");
    hub.wait_for("nodes stay", |status| (status["index"]["nodes"] == 0).then_some(()));

    let mut command = Command::new(binary("roost"));
    command.args(flags).args(["--seconds", "600"]);
    let mut bench = Process::start(command, network.path("bench.log")).unwrap();
    assert!(wait_until(PATIENCE, || (nodes(&hub) >= 20).then_some(())).is_some(), "{}", bench.log());
    bench.signal("INT");
    assert_eq!(bench.wait(PATIENCE), Some(130), "{}", bench.log());
    assert!(bench.log().contains("its nodes have left the hub"), "{}", bench.log());
    hub.wait_for("nodes stay after Ctrl-C", |status| (status["index"]["nodes"] == 0).then_some(()));
}

/// The limit is told before the nodes have attached.
#[test]
fn bench_checks_hub_limits_first() {
    let network = Network::new();
    let hub = network.supernode("sn1", &["--lookups-per-second", "10"]);
    let (group, endpoint) = (network.group(), hub.endpoint("udp"));
    let output = run("roost", &["bench", "hub", "--group", &group, "--super", &endpoint, "--entries", "4000"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(5) && said.contains("--lookups-per-second"), "{said}");
    let handshakes = hub.metric("roost_transport_handshakes_total", "udp");
    assert!(handshakes < 10.0, "{handshakes} nodes have attached before");
}
