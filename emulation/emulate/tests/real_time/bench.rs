//! The emulator's measurement of itself, run like by a user. The figures depend on this machine; the test only
//! checks that they are reported correctly.

use std::process::{Command, Output, Stdio};

use serde_json::Value;

const SHORT: [&str; 5] = ["bench", "delay", "--for", "200ms", "--json"];

#[test]
fn measurement_ends_with_verdict() {
    let _turn = crate::beside();
    let output = emulate(&SHORT, None);
    let report = report(&output);
    let rows = report["bench"]["rows"].as_array().unwrap();
    assert_eq!(
        rows.len(),
        10,
        "five links, their drift, the readers, ping, the core's part, and what this machine allows: {rows:?}"
    );
    for row in &rows[..5] {
        assert_eq!(row["case"], "delay");
        assert!(row["what"].as_str().unwrap().starts_with("one-way delay of "), "{row}");
        assert_eq!(row["values"]["packets"], 20.0, "{row}");
        let [p50, p99, max] = ["p50_ms", "p99_ms", "max_ms"].map(|name| row["values"][name].as_f64().unwrap());
        assert!(0.0 < p50 && p50 <= p99 && p99 <= max, "nothing is early: {row}");
        let met = p50 <= 0.1 && p99 <= 0.25 && row["values"]["lost"] == 0.0;
        assert_eq!(row["verdict"], if met { "met" } else { "missed" }, "{row}");
    }
    let has = |verdict: &str| rows.iter().any(|row| row["verdict"] == verdict);
    assert_eq!(report["passed"], !has("missed") && !has("not-measured"));
    let code = if has("missed") {
        4
    } else if has("not-measured") {
        3
    } else {
        0
    };
    assert_eq!(output.status.code(), Some(code), "{}", said(&output));
    assert!(report["bench"]["beside"]["delay"].is_number());
    assert!(report["bench"]["machine"]["backend"].is_string());
}

#[test]
fn missing_programs_leave_row_unmeasured() {
    let _turn = crate::beside();
    // Programs are looked for in the system's folders of programs as well, but ping is not there.
    let output = emulate(&SHORT, Some("/nowhere"));
    let report = report(&output);
    let ping = &report["bench"]["rows"][7];
    assert_eq!((&ping["verdict"], &ping["seen"]), (&"not-measured".into(), &"".into()));
    let note = ping["note"].as_str().unwrap();
    assert_eq!(note, "ping is not installed: `sudo apt install iputils-ping`");
    assert_eq!(report["passed"], false);
    assert!(matches!(output.status.code(), Some(3 | 4)), "{}", said(&output));
}

/// The first printed object: another one follows after a failure.
fn report(output: &Output) -> Value {
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().next().unwrap_or_else(|| panic!("{}", said(output)));
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn emulate(args: &[&str], path: Option<&str>) -> Output {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("emulate"));
    command.args(args).stdin(Stdio::null()).env("TERM", "dumb");
    if let Some(path) = path {
        command.env("PATH", path);
    }
    command.output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
