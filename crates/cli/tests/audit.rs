//! `roost audit` over the records that the operator's commands write.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop where it stands")]

mod common;

use std::fs;

use common::{json, roost};

#[test]
fn operators_records_are_shown_and_verified() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("group").to_str().unwrap().to_owned();
    let log = format!("{dir}/audit.log");
    for args in [
        &["group", "init", &dir][..],
        &["group", "issue", &dir, "uav7", "--role", "node"],
        &["group", "label", &dir, "uav7", "team=red"],
        &["group", "invite", &dir, "--role", "node", "--authority", "10.0.0.1:7703"],
        &["group", "revoke", &dir, "uav7"],
    ] {
        let output = roost(args);
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    let shown = roost(&["audit", "show", &log, "--since", "1h", "--json"]).stdout;
    let records: Vec<_> = shown.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(json).collect();
    let kinds: Vec<&str> = records.iter().map(|record| record["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["certificate-issued", "labels-changed", "invitation-made", "certificate-revoked"]);
    assert_eq!((&records[1]["who"]["name"], &records[1]["details"]["labels"]), (&"uav7".into(), &"team=red".into()));

    let verified = json(&roost(&["audit", "verify", &log, "--json"]).stdout);
    assert_eq!((&verified["records"], &verified["faults"]), (&4.into(), &serde_json::json!([])));
    let tip = verified["tip"].as_str().unwrap();
    assert!(roost(&["audit", "verify", &log, "--tip", tip]).status.success());

    let text = fs::read_to_string(&log).unwrap();
    fs::write(&log, text.replace("team=red", "team=rad")).unwrap();
    let output = roost(&["audit", "verify", &log]);
    let found = String::from_utf8(output.stdout).unwrap();
    assert_eq!((output.status.code(), found.starts_with(&format!("{log}:3: "))), (Some(7), true), "{found}");
    let kept: String = text.lines().take(3).map(|line| format!("{line}\n")).collect();
    fs::write(&log, kept).unwrap();
    assert_eq!(roost(&["audit", "verify", &log, "--tip", tip]).status.code(), Some(7));
    assert_eq!(roost(&["audit", "show", &log, "--kind", "nonsense"]).status.code(), Some(2));
}
