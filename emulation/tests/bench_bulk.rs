//! The measurement of objects over long paths, as a user runs it: real sockets
//! between two hosts. How fast that is is this machine's business; that objects
//! come, by each sender, and that the rows say so is ours.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop where it stands")]

use std::process::{Command, Stdio};

use serde_json::Value;

#[test]
fn an_object_crosses_a_path_by_each_of_our_controls_and_by_the_kernels_tcp() {
    let senders = ["tcp-cubic", "cubic", "rate", "udt", "bbr"];
    let (report, code) = measured(&["--path", "regional", "--seconds", "3", "--sender", &senders.join(",")]);
    let rows = report["rows"].as_array().unwrap();
    let measured: Vec<&str> = rows.iter().map(|row| row["sender"].as_str().unwrap()).collect();
    assert_eq!((measured, code), (senders.to_vec(), Some(0)), "{report}");
    for row in rows {
        assert_eq!((&row["path"], &row["runs"], &row["aborted"]), (&"regional".into(), &1.into(), &0.into()), "{row}");
        // No sender carries more than the link, nor needs fewer packets than its bytes do.
        let goodput = row["goodput_ratio"].as_f64().unwrap();
        assert!(goodput > 0.0 && goodput < 1.0, "{row}");
        assert!(row["waste"].as_f64().unwrap() > -0.05 && row["mean_queue_ms"].as_f64().unwrap() >= 0.0, "{row}");
        assert_eq!(row["jain"], Value::Null, "{row}");
    }
}

#[test]
fn udt4_is_measured_or_it_is_said_what_is_missing() {
    let (report, code) = measured(&["--path", "regional", "--seconds", "3", "--sender", "udt4"]);
    match report["rows"].get(0) {
        Some(row) => assert!(row["sender"] == "udt4" && code == Some(0), "{report}"),
        None => assert!(report["notes"].to_string().contains("libudt-dev") && code == Some(3), "{report}"),
    }
}

fn measured(args: &[&str]) -> (Value, Option<i32>) {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("emulate"));
    let command = command.args(["bench", "bulk", "--json"]).args(args).stdin(Stdio::null()).env("TERM", "dumb");
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let said = String::from_utf8_lossy(&output.stderr);
    let line = text.lines().next().unwrap_or_else(|| panic!("{said}"));
    (serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {text}{said}")), output.status.code())
}
