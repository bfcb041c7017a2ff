//! Syntax, messages and exit codes of the command line.

use std::process::{Command, Stdio};

#[test]
fn wrong_command_line_exits_2() {
    for (args, part) in [
        (&["complections"][..], "completions"),
        (&["completions", "cmd.exe"], "bash"),
        (&["-q", "-v", "man", "x"], "-v"),
    ] {
        let output = emulate(args);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert_eq!(said.lines().count(), 1, "{args:?}: {said}");
        assert!(said.starts_with("error: ") && said.contains(part), "{args:?}: {said}");
        assert!(output.stdout.is_empty(), "{args:?}");
    }
}

#[test]
fn placement_prints_text_and_json() {
    let tree = concat!(env!("CARGO_MANIFEST_DIR"), "/../topologies/tree-11.toml");
    let told = emulate(&["place", tree, "-k", "1", "--at", "low1"]);
    let told = String::from_utf8(told.stdout).unwrap();
    assert!(told.contains("\nFor a plan:  super_nodes = [\"x45-1\"]\n"), "{told}");
    assert!(told.contains("Where the plan has it, requests are as long on their way.\n"), "{told}");
    assert!(told.contains("Where you have it, requests are") && told.contains("% longer"), "{told}");
    let printed = emulate(&["place", tree, "--server", "--mix", "sensor=90,idle=10", "--json"]);
    let advice: serde_json::Value = serde_json::from_slice(&printed.stdout).unwrap();
    let [best, .., plans] = advice["choices"].as_array().unwrap().as_slice() else { panic!("{advice}") };
    assert_eq!((&best["name"], &plans["name"], &plans["hosts"][0]), (&"best".into(), &"plan".into(), &"server".into()));
    assert!(best["way_ms"].as_f64() < plans["way_ms"].as_f64());
    assert_eq!(best["services"].as_array().unwrap().len(), 1, "nobody asks for anything but readings");
}

#[test]
fn impossible_placement_exits_2() {
    let folder = tempfile::tempdir().unwrap();
    let apart = folder.path().join("apart.toml");
    let text = "routing = 'static'\n[defaults]\nrate = '1Mbit'\n[[host]]\nname = ['a', 'b', 'c', 'd']\n\
        [[link]]\nbetween = ['a', 'b']\n[[link]]\nbetween = ['c', 'd']\n";
    std::fs::write(&apart, text).unwrap();
    let tree = concat!(env!("CARGO_MANIFEST_DIR"), "/../topologies/tree-11.toml");
    let apart = apart.to_str().unwrap();
    for (args, part) in [
        (&[tree, "--at", "lwo1"][..], "the topology has no host `lwo1`; did you mean `low1`?"),
        (&[tree, "-k", "20"], "20 super nodes do not fit on 11 nodes"),
        (&[tree, "-k", "0"], "choose 1 to 64"),
        (&[apart], "host a cannot reach c: no links lead from one to the other"),
        (&[tree, "--mix", "idle=100"], "asks for nothing"),
        (&[tree, "--mix", "none"], "nobody asks for anything"),
    ] {
        let output = emulate(&[&["place"], args].concat());
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.lines().count() == 1 && said.contains(part), "{args:?}: {said}");
    }
}

#[test]
fn folder_without_run_exits_2() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().to_str().unwrap();
    for (args, part) in [
        (&[folder][..], "is no folder of a run: name one that `emulate run` or `emulate simulate -o` wrote"),
        (&["/nowhere"], "/nowhere is no folder of a run"),
        (&[folder, "--listen", "0.0.0.0:7791"], "0.0.0.0:7791 is open to other machines"),
    ] {
        let output = emulate(&[&["view"], args].concat());
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.lines().count() == 1 && said.contains(part), "{args:?}: {said}");
    }
}

#[test]
fn every_command_has_manual_page() {
    let dir = tempfile::tempdir().unwrap();
    assert!(emulate(&["man", dir.path().to_str().unwrap()]).status.success());
    assert!(dir.path().join("emulate.1").exists());
    assert!(dir.path().join("emulate-completions.1").exists());
}

fn emulate(args: &[&str]) -> std::process::Output {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("emulate"));
    command.args(args).stdin(Stdio::null()).env("TERM", "dumb").output().unwrap()
}
