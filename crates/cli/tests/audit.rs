//! `roost audit` over the records that the operator's commands write.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop where it stands")]

mod common;

use std::fs;

use common::{json, roost};
use roost_audit::{AuditEvent, AuditKind, AuditLog, Limits};

#[test]
fn denials_are_shown_as_sentences() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.log");
    let denied = AuditEvent::new(AuditKind::ActionDenied).about("6f0c", Some("uav7"));
    let denied = denied.with("action", "request").with("service", "video").with("area", "at (27,92)");
    let denied = denied.with("rule", "rule 1, \"no video\"").with("policy", 3);
    let others = AuditEvent::new(AuditKind::ActionDenied).with("more", 7);
    let records = [denied.clone(), denied.with("more", 12), others];
    AuditLog::open(&path, Limits::default()).unwrap().append(&records).unwrap();
    let shown = roost(&["audit", "show", path.to_str().unwrap(), "--kind", "action-denied"]).stdout;
    let shown = String::from_utf8(shown).unwrap();
    let sentence = "request video at (27,92): rule 1, \"no video\", of policy 3";
    for expected in [format!("{sentence}\n"), format!("{sentence}; 12 more times\n"), "  7 more times\n".to_owned()] {
        assert!(shown.contains(&expected), "{shown}");
    }
}

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
