//! What the command line accepts, what it says, and how it ends.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop where it stands")]

use std::process::{Command, Stdio};

#[test]
fn a_wrong_command_line_is_one_sentence_and_exit_code_2() {
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
fn a_manual_page_is_made_for_every_command() {
    let dir = tempfile::tempdir().unwrap();
    assert!(emulate(&["man", dir.path().to_str().unwrap()]).status.success());
    assert!(dir.path().join("emulate.1").exists());
    assert!(dir.path().join("emulate-completions.1").exists());
}

fn emulate(args: &[&str]) -> std::process::Output {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("emulate"));
    command.args(args).stdin(Stdio::null()).env("TERM", "dumb").output().unwrap()
}
