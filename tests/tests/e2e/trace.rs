//! The operator's view: the way of a request, and what control costs.

use roost_tests::network::Network;
use serde_json::Value;

fn steps(trace: &Value) -> Vec<(String, String)> {
    let word = |hop: &Value, key: &str| hop[key].as_str().unwrap_or_default().to_owned();
    trace["hops"].as_array().unwrap().iter().map(|hop| (word(hop, "name"), word(hop, "step"))).collect()
}

#[test]
fn trace_shows_hops_and_byte_classes() {
    let network = Network::new();
    let [first, second] = network.pair();
    let provider = network.node("far", "27,92", &["--super", &second.endpoint("udp"), "--services", "sensor,track"]);
    let requester = network.node("near", "1,1", &["--super", &first.endpoint("udp")]);

    let report = requester.json(&["trace", "sensor", "--at", "27,92"]);
    let told = steps(&report["trace"]);
    let told: Vec<(&str, &str)> = told.iter().map(|(name, step)| (name.as_str(), step.as_str())).collect();
    assert_eq!(told.first().map(|(name, _)| *name), Some("sn1"), "{report:#}");
    // The first hub hands it over itself if it stands by for the provider, else through the second.
    assert!(told.iter().any(|(_, step)| *step == "handed"), "{report:#}");
    assert_eq!(told.last(), Some(&("far", "dialed")), "{report:#}");
    for hop in report["trace"]["hops"].as_array().unwrap() {
        assert!(hop["held_ms"].as_f64().unwrap() >= 0.0 && hop["heard_ms"].as_f64().unwrap() > 0.0, "{hop:#}");
        assert!(hop["step"] != "handed" || hop["round_trip_ms"].is_f64(), "{hop:#}");
    }
    assert!(report["trace"]["accepted_ms"].as_f64().unwrap() > 0.0, "{report:#}");
    assert_eq!(report["summary"]["complete"], true, "{report:#}");

    // The second time there is a connection; of a stream one second is enough.
    let output = requester.roost(&["trace", "track", "--at", "27,92"]);
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && table.contains("answered over a connection that was up"), "{table}");
    assert!(table.contains("first byte  after"), "{table}");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("Clocks differ"), "{said}");

    // A stream that does not come is told as well, with the exit code of a request.
    let output = requester.roost(&["trace", "video", "--at", "27,92", "--json"]);
    assert_eq!(output.status.code(), Some(4), "{}", String::from_utf8_lossy(&output.stderr));
    // The report, then the error as with every command.
    let line = output.stdout.split(|byte| *byte == b'\n').next().unwrap();
    let report: Value = serde_json::from_slice(line).unwrap();
    let told = steps(&report["trace"]);
    for step in [("sn1", "passed"), ("sn2", "refused"), ("sn1", "declined"), ("sn1", "refused")] {
        assert!(told.iter().any(|(name, what)| (name.as_str(), what.as_str()) == step), "{step:?} in {report:#}");
    }
    assert!(report["error"]["message"].is_string(), "{report:#}");

    for (daemon, class) in [(&requester, "join"), (&requester, "lookup"), (&provider, "payload"), (&first, "lookup")] {
        let label = format!("class=\"{class}\"");
        let bytes = daemon.metric("roost_traffic_sent_bytes_total", &label);
        assert!(bytes > 0.0, "{class}: {bytes}");
    }
    let classes = first.json(&["status"])["traffic_sent_bytes"].as_object().unwrap().clone();
    let names: Vec<&str> = classes.keys().map(String::as_str).collect();
    assert_eq!(names, ["documents", "gossip", "join", "lookup", "mesh", "payload", "renew", "summary"]);
}
