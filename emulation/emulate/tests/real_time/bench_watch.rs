//! The measurement of a reflected stream at its receivers, run like by a user: the real daemons in a lab. Times
//! depend on this machine; the test checks that a picture arrives, and that a super node leaves without loss.

use std::process::{Command, Stdio};

use serde_json::Value;

#[test]
fn watch_switches_path_without_loss() {
    let _turn = crate::beside();
    let cases = ["join-reflected", "leave-subscribers", "uplink-4"];
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("emulate"));
    command
        .args(["bench", "subscription", "--json", "--case", &cases.join(",")])
        .stdin(Stdio::null())
        .env("TERM", "dumb");
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"));
    // The daemons exist only if the whole workspace was built.
    if report["notes"].to_string().contains("install it there") {
        assert_eq!(output.status.code(), Some(3), "{report}");
        return;
    }
    assert_eq!(output.status.code(), Some(0), "{report}");
    let rows = report["rows"].as_array().unwrap();
    let measured: Vec<&str> = rows.iter().map(|row| row["case"].as_str().unwrap()).collect();
    assert_eq!(measured, cases, "{report}");
    // No picture comes sooner than a request and its answer.
    assert!(rows[0]["picture_ms"].as_f64() >= rows[0]["round_trip_ms"].as_f64(), "{report}");
    assert_eq!((&rows[1]["lost"], &rows[1]["twice"]), (&0.into(), &0.into()), "{report}");
    let copies = rows[2]["copies"].as_f64().unwrap();
    assert!((1.0..2.0).contains(&copies), "{report}");
}
