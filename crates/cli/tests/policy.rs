//! `roost policy`: checks, explanations and publication in the group's folder; and the worked policies of the book.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop where it stands")]

mod common;

use common::{json, roost};
use serde_json::Value;

const POLICY: &str = r#"
[[rule]]
title = "hubs relay and reflect"
allow = ["request", "reflect"]
who = { role = "supernode" }

[[rule]]
title = "no video of the south"
deny = ["request"]
services = ["video"]
area = { rect = { min = "0,0", max = "99,49" } }

[[rule]]
title = "the red team"
allow = ["offer", "request", "lookup"]
who = { role = "node", labels = { team = "red" } }
"#;

struct PolicyGrove {
    folder: tempfile::TempDir,
}

impl PolicyGrove {
    fn new() -> Self {
        let grove = Self { folder: tempfile::tempdir().unwrap() };
        let dir = grove.dir();
        grove.ok(&["group", "init", &dir, "--name", "grove"]);
        grove.ok(&["group", "issue", &dir, "sn1", "--role", "supernode"]);
        grove.ok(&["group", "issue", &dir, "uav7", "--role", "node", "--label", "team=red"]);
        grove
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    fn dir(&self) -> String {
        self.path("group")
    }

    fn file(&self, text: &str) -> String {
        let path = self.path("policy.toml");
        std::fs::write(&path, text).unwrap();
        path
    }

    fn ok(&self, args: &[&str]) -> String {
        let output = roost(args);
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn json(&self, args: &[&str]) -> Value {
        json(self.ok(&[args, &["--json"]].concat()).as_bytes())
    }

    fn fails(&self, args: &[&str]) -> (i32, String, String) {
        let output = roost(args);
        let [data, said] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
        (output.status.code().unwrap(), data, said)
    }
}

#[test]
fn every_mistake_has_its_place() {
    let grove = PolicyGrove::new();
    let file = grove.file("[[rule]]\nallow = [\"rekuest\"]\nwho = { role = \"king\" }\n[[rule]]\n");
    let (code, data, said) = grove.fails(&["policy", "check", &file]);
    assert_eq!(code, 1, "{said}");
    let lines: Vec<&str> = data.lines().collect();
    assert!(lines[0].starts_with(&format!("{file}:2:10: ")) && lines[0].contains("did you mean `request`"), "{data}");
    assert!(
        lines[1].starts_with(&format!("{file}:3:16: ")) && lines[2].starts_with(&format!("{file}:4:1: ")),
        "{data}"
    );
    assert!(said.contains("3 mistakes"), "{said}");
}

#[test]
fn warnings_know_the_group() {
    let grove = PolicyGrove::new();
    let file = grove.file(POLICY);
    assert_eq!(grove.json(&["policy", "check", &file])["warnings"], serde_json::json!([]));
    let dir = grove.dir();
    grove.ok(&["group", "issue", &dir, "uav8", "--role", "node", "--label", "team=blue"]);
    let checked = grove.json(&["policy", "check", &file, "--group", &dir]);
    assert_eq!(checked["warnings"][0]["message"], "1 of the group's nodes may do nothing: uav8");
    let typo = grove.file(&POLICY.replace("red\" }", "rde\" }"));
    let text = grove.ok(&["policy", "check", &typo, "--group", &dir]);
    assert!(text.contains("warning: rule 3, \"the red team\" is about no member of the group"), "{text}");
}

#[test]
fn verdicts_are_explained() {
    let grove = PolicyGrove::new();
    let (file, dir) = (grove.file(POLICY), grove.dir());
    let explain =
        |rest: &[&'static str]| [&["policy", "explain"], rest, &["--policy", &file, "--group", &dir]].concat();
    let north = grove.ok(&explain(&["uav7", "request", "video", "--at", "27,92"]));
    let (first, second) = ("rule 1, \"hubs relay and reflect\"", "rule 2, \"no video of the south\"");
    assert!(north.contains(&format!("{first} does not fit: it is about the role supernode")), "{north}");
    assert!(north.contains(&format!("{second} does not fit: its area is from (0,0) to (99,49)")), "{north}");
    assert!(north.ends_with("allowed: rule 3, \"the red team\"\n"), "{north}");
    let (code, _, said) = grove.fails(&explain(&["uav7", "request", "video", "--at", "27,12"]));
    assert!(code == 5 && said.contains(&format!("denied: {second}")), "{said}");
    let (code, data, said) = grove.fails(&explain(&["uav9", "offer", "--role", "node", "--label", "team=blue"]));
    assert!(code == 5 && said.contains("no rule allows it"), "{said}");
    assert!(data.contains("the member has team=blue"), "{data}");
    let (code, _, said) = grove.fails(&explain(&["ghost", "offer"]));
    assert!(code == 4 && said.contains("ghost"), "{said}");
    let none = grove.ok(&["policy", "explain", "uav7", "offer", "--group", &dir]);
    assert_eq!(none, "allowed: the group has no policy\n");
}

#[test]
fn policies_are_signed_shown_and_withdrawn() {
    let grove = PolicyGrove::new();
    let (file, dir) = (grove.file(POLICY), grove.dir());
    let publish = ["policy", "publish", &file, "--group", &dir];
    assert_eq!(grove.json(&publish)["number"], 1);
    assert_eq!(grove.json(&publish)["number"], 2);
    assert_eq!(grove.ok(&["policy", "show", "--group", &dir]), POLICY);
    assert_eq!(grove.json(&["policy", "explain", "uav7", "offer", "--group", &dir])["rule"], 3);
    let withdrawn = grove.json(&["policy", "withdraw", "--group", &dir]);
    assert_eq!((&withdrawn["number"], &withdrawn["withdrawn"]), (&3.into(), &true.into()));
    assert_eq!(grove.json(&["policy", "show", "--group", &dir])["text"], Value::Null);
    let records = grove.ok(&["audit", "show", &format!("{dir}/audit.log"), "--kind", "policy-signed"]);
    assert_eq!(records.matches("policy-signed").count(), 3, "{records}");
}

#[test]
fn policies_that_stop_the_group_need_force() {
    let grove = PolicyGrove::new();
    let dir = grove.dir();
    for (text, part) in [("# none\n", "offer anything"), ("[[rule]]\nallow = [\"offer\"]\n", "request anything")] {
        let file = grove.file(text);
        let publish = ["policy", "publish", &file, "--group", &dir];
        let (code, _, said) = grove.fails(&publish);
        assert!(code == 1 && said.contains(part) && said.contains("--force"), "{said}");
    }
    let (code, _, said) = grove.fails(&["policy", "publish", &grove.file(""), "--group", &dir, "--force"]);
    assert!(code == 1 && said.contains("roost policy withdraw"), "an empty policy ends the policy: {said}");
    let file = grove.file("[[rule]]\nallow = [\"offer\"]\n");
    assert_eq!(grove.json(&["policy", "publish", &file, "--group", &dir, "--force"])["number"], 1);
    let wrong = grove.file("[[rule]]\n");
    let (code, data, _) = grove.fails(&["policy", "publish", &wrong, "--group", &dir, "--force"]);
    assert!(code == 1 && data.contains(":1:1:"), "{data}");
}

/// Each block of TOML of the page is a policy without a warning.
#[test]
fn policies_of_the_book_are_sound() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/src/howto/policy.md");
    let page = std::fs::read_to_string(page).unwrap();
    let blocks: Vec<&str> = page.split("```toml\n").skip(1).map(|rest| rest.split_once("```").unwrap().0).collect();
    assert!(blocks.len() >= 3, "{}", blocks.len());
    let grove = PolicyGrove::new();
    for block in blocks {
        let checked = grove.json(&["policy", "check", &grove.file(block)]);
        assert_eq!(checked["warnings"], serde_json::json!([]), "{block}");
    }
}
