//! The measurement of transports, run like by a user: real sockets between two hosts, with one link failing in
//! mid-stream. The speed depends on this machine; the test checks that no frame is lost, duplicated or
//! reordered.

use std::process::{Command, Stdio};

use serde_json::Value;

/// The first link is down from the first second to the third, the second from the fourth to the sixth.
const FAILURES: [&str; 8] = ["bench", "transport", "--condition", "failures", "--seconds", "5", "--runs", "1"];

#[test]
fn stream_survives_loss_of_either_link() {
    let _turn = crate::beside();
    let report = measured(&["--transport", "quic,tcp,udp", "--workload", "paced", "--frame", "8192"]);
    let rows = report["rows"].as_array().unwrap();
    let transports: Vec<&str> = rows.iter().map(|row| row["transport"].as_str().unwrap()).collect();
    assert_eq!(transports, ["quic-stripe", "quic-duplicate", "udp", "tcp"], "{report}");
    for row in rows {
        assert_eq!((&row["condition"], &row["workload"]), (&"failures".into(), &"paced".into()));
        assert_eq!((&row["sent"], &row["frame_bytes"], &row["hz"]), (&500.into(), &8192.into(), &100.into()), "{row}");
        for count in ["lost", "duplicated", "reordered", "corrupted"] {
            assert_eq!(row[count], 0, "{count}: {row}");
        }
        assert!(row["mbps"].as_f64().unwrap() > 0.0 && row["max_gap_ms"].as_f64().unwrap() >= 10.0, "{row}");
    }
    // A transport with one link waits until it is back: the cut was real.
    for row in &rows[2..] {
        assert!(row["max_gap_ms"].as_f64().unwrap() > 1000.0, "{row}");
    }
}

#[test]
fn kernel_reference_runs_or_explains() {
    let _turn = crate::beside();
    let report = measured(&["--transport", "kernel-tcp,kernel-mptcp", "--workload", "ping-pong"]);
    let rows = report["rows"].as_array().unwrap();
    let notes = report["notes"].to_string();
    assert_eq!(rows[0]["transport"], "kernel-tcp", "{report}");
    match rows.get(1) {
        Some(row) => assert!(row["transport"] == "kernel-mptcp" && row["avg_ms"].as_f64().unwrap() > 0.0, "{row}"),
        None => assert!(notes.contains("kernel has no MPTCP") || notes.contains("kernel-mptcp"), "{notes}"),
    }
    assert!(rows.iter().all(|row| row["lost"] == 0 && row["duplicated"] == 0), "{report}");
}

fn measured(args: &[&str]) -> Value {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("emulate"));
    let output = command.args(FAILURES).args(args).arg("--json").stdin(Stdio::null()).env("TERM", "dumb").output();
    let output = output.unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let said = String::from_utf8_lossy(&output.stderr);
    let line = text.lines().next().unwrap_or_else(|| panic!("{said}"));
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {text}{said}"))
}
