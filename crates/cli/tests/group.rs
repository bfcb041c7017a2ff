//! The group's commands, and the shape of their JSON.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop where it stands")]

mod common;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use common::{json, roost};
use serde_json::Value;

struct Grove {
    folder: tempfile::TempDir,
}

impl Grove {
    fn new() -> Self {
        let grove = Self { folder: tempfile::tempdir().unwrap() };
        let made = grove.json(&["init", &grove.dir(), "--name", "grove"]);
        assert_eq!(keys(&made), ["datum", "dir", "group", "not_after_unix_s", "schema"]);
        grove
    }

    fn dir(&self) -> String {
        self.path("group")
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    fn json(&self, args: &[&str]) -> Value {
        let output = roost(&[&["group"], args, &["--json"]].concat());
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        let value = json(&output.stdout);
        assert_eq!(value["schema"], 2, "{args:?}");
        value
    }

    fn fails(&self, args: &[&str]) -> (Option<i32>, String) {
        let output = roost(&[&["group"], args].concat());
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(said.lines().count(), 1, "{args:?}: {said}");
        (output.status.code(), said)
    }
}

fn keys(value: &Value) -> Vec<&str> {
    let mut keys: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
    keys.sort_unstable();
    keys
}

#[test]
fn member_is_issued_verified_and_revoked() {
    let grove = Grove::new();
    let (dir, member) = (grove.dir(), grove.path("uav7"));
    let issued = grove.json(&["issue", &dir, "uav7", "--role", "node", "--valid", "30d", "-o", &member]);
    assert_eq!(keys(&issued), ["certificate", "cut_to_group", "dir", "schema"]);
    let certificate = ["labels", "name", "next_labels", "node", "not_after_unix_s", "not_before_unix_s"];
    let certificate = [&certificate[..], &["revoked_unix_s", "role", "serial", "state"]].concat();
    assert_eq!(keys(&issued["certificate"]), certificate);
    assert_eq!(issued["certificate"]["role"], "node");

    let verified = grove.json(&["verify", &dir, &member]);
    assert_eq!(verified["accepted"], true);
    assert_eq!(verified["certificate"]["node"], issued["certificate"]["node"]);

    let revoked = grove.json(&["revoke", &dir, "uav7"]);
    assert_eq!(keys(&revoked), ["list", "number", "revoked", "schema"]);
    let shown = grove.json(&["show", &dir]);
    assert_eq!(keys(&shown), ["certificates", "datum", "group", "not_after_unix_s", "schema"]);
    assert_eq!(shown["certificates"][0]["state"], "revoked");

    let (code, said) = grove.fails(&["verify", &dir, &member]);
    assert_eq!(code, Some(5), "{said}");
    assert!(said.contains("revoked"), "{said}");
}

#[test]
fn labels_are_issued_shown_and_changed() {
    let grove = Grove::new();
    let (dir, member) = (grove.dir(), grove.path("uav7"));
    let labels = ["--label", "team=red", "--label", "kind=scout"];
    let issue = ["issue", &dir, "uav7", "--role", "node", "-o", &member];
    let issued = grove.json(&[&issue[..], &labels].concat());
    assert_eq!(issued["certificate"]["labels"], serde_json::json!({"kind": "scout", "team": "red"}));
    let shown = || json(&roost(&["identity", "show", &member, "--json"]).stdout);
    assert_eq!((&shown()["labels"]["team"], &shown()["name"]), (&"red".into(), &"uav7".into()));
    let changed = grove.json(&["label", &dir, "uav7", "team=blue"]);
    assert_eq!(changed["certificates"][0]["next_labels"], serde_json::json!({"team": "blue"}));
    let table = String::from_utf8(roost(&["group", "show", &dir]).stdout).unwrap();
    assert!(table.contains("kind=scout,team=red, next team=blue"), "{table}");
    grove.json(&["renew", &dir, &member]);
    assert_eq!(shown()["labels"], serde_json::json!({"team": "blue"}));
    grove.json(&["label", &dir, "uav7", "--none"]);
    grove.json(&["renew", &dir, &member]);
    assert_eq!(shown()["labels"], serde_json::json!({}));
    let invited = ["invite", &dir, "--role", "node", "--authority", "10.0.0.1:7703", "--label", "team=red"];
    assert_eq!(grove.json(&invited)["labels"]["team"], "red");
    assert_eq!(grove.json(&["invitations", &dir])["invitations"][0]["labels"]["team"], "red");
    for (args, code, part) in [
        (&["label", &dir, "uav7", "team"][..], 2, "KEY=VALUE"),
        (&["label", &dir, "ghost", "team=red"], 4, "ghost"),
        (&["issue", &dir, "a", "--role", "node", "--label", "a=b", "--label", "a=c"], 2, "twice"),
    ] {
        let (got, said) = grove.fails(args);
        assert!(got == Some(code) && said.contains(part), "{args:?}: {said}");
    }
}

#[test]
fn identity_defaults_to_group_folder() {
    let grove = Grove::new();
    grove.json(&["issue", &grove.dir(), "sn1", "--role", "supernode"]);
    assert!(Path::new(&grove.dir()).join("members/sn1/identity.pem").is_file());
}

#[test]
fn invalid_group_commands_are_rejected() {
    let grove = Grove::new();
    let (dir, nowhere) = (grove.dir(), grove.path("nowhere"));
    for (args, code, part) in [
        (&["init", &dir, "--name", "grove"][..], 1, "exists already"),
        (&["init", ".."][..], 2, "give --name"),
        (&["issue", &nowhere, "a", "--role", "node"], 1, "no group"),
        (&["issue", &dir, "a/b", "--role", "node"], 2, "a/b"),
        (&["show", &nowhere], 1, "no group"),
        (&["verify", &dir, &nowhere], 1, "nowhere"),
        (&["revoke", &dir, "ghost"], 4, "ghost"),
    ] {
        let (got, said) = grove.fails(args);
        assert_eq!(got, Some(code), "{args:?}: {said}");
        assert!(said.contains(part), "{args:?}: {said}");
    }
}

#[test]
fn service_without_group_is_not_restarted() {
    let grove = Grove::new();
    let (code, said) = grove.fails(&["serve", &grove.path("nowhere"), "--listen", "tls://127.0.0.1:0"]);
    assert_eq!(code, Some(78), "{said}");
}

#[test]
fn join_goes_on_after_a_crash() {
    let grove = Grove::new();
    let [to, config, request, bundle] = ["device", "node.toml", "request", "bundle"].map(|name| grove.path(name));
    let asked = roost(&["identity", "request", "--name", "uav7", "--role", "node", "--to", &to]);
    std::fs::write(&request, asked.stdout).unwrap();
    std::fs::write(&bundle, roost(&["group", "sign", &grove.dir(), &request]).stdout).unwrap();
    let join = || roost(&["join", &bundle, "--to", &to, "--config", &config]);
    for crash in [false, true] {
        if crash {
            std::fs::remove_file(&config).unwrap();
        }
        let joined = join();
        assert!(joined.status.success(), "{}", String::from_utf8_lossy(&joined.stderr));
        assert_eq!(std::fs::metadata(&config).unwrap().permissions().mode() & 0o777, 0o644);
        assert!(!Path::new(&grove.path("device.joining")).exists());
    }
    assert!(!join().status.success());
}

#[test]
fn invitation_comes_from_a_file() {
    let grove = Grove::new();
    let file = grove.path("invitation");
    std::fs::write(&file, "roost://nonsense\n").unwrap();
    let output = roost(&["join", &file, "--to", &grove.path("device")]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(2) && !said.contains("group sign"), "{said}");
}

#[test]
fn the_doctor_sees_to_an_identity() {
    let grove = Grove::new();
    let member = grove.path("uav7");
    grove.json(&["issue", &grove.dir(), "uav7", "--role", "node", "-o", &member]);
    let socket = grove.path("nobody.sock");
    let output = roost(&["doctor", "--identity", &member, "--socket", &socket, "--json"]);
    assert_eq!(output.status.code(), Some(3));
    let report = json(output.stdout.split_inclusive(|byte| *byte == b'\n').next().unwrap());
    let verdict = |check: &str| {
        let findings = report["findings"].as_array().unwrap();
        findings.iter().find(|finding| finding["check"] == check).unwrap()["verdict"].clone()
    };
    assert_eq!(verdict("daemon"), "fail");
    assert_eq!(verdict("key"), "ok");
    assert_eq!(verdict("identity"), "ok");
}
