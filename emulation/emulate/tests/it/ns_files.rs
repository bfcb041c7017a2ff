//! Our own NS files on the command line, compared with hand-written expectations.

use std::path::{Path, PathBuf};

use assert_cmd::Command;

fn check(arguments: &[&Path]) -> assert_cmd::assert::Assert {
    let arguments = arguments.iter().map(|argument| argument.as_os_str());
    Command::cargo_bin("emulate").unwrap().arg("check").args(arguments).assert()
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ns")
}

/// The files in `folder` with a listing beside them.
fn listed(folder: &Path) -> Vec<PathBuf> {
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = files
        .filter(|file| file.extension().is_some_and(|it| it == "ns") && file.with_extension("json").exists())
        .collect();
    files.sort();
    files
}

#[test]
fn every_file_is_understood_as_expected() {
    let files = listed(&folder());
    assert_eq!(files.len(), 8);
    for file in files {
        check(&[&file, Path::new("--expect"), &file.with_extension("json")]).success().stdout("");
    }
}

#[test]
fn differences_are_printed_and_fail() {
    let (file, listing) = (folder().join("star.ns"), folder().join("schedule.json"));
    let output = check(&[&file, Path::new("--expect"), &listing]).code(1);
    let lines = String::from_utf8(output.get_output().stdout.clone()).unwrap();
    assert!(lines.lines().any(|line| line == "nodes.alpha is missing"), "{lines}");
    assert!(lines.lines().any(|line| line == "counts.links is 3, not 1"), "{lines}");
}

#[test]
fn mistake_prints_only_its_line() {
    let output = check(&[&folder().join("typo.ns")]).code(2).stdout("");
    let told = String::from_utf8(output.get_output().stderr.clone()).unwrap();
    let expected = "typo.ns:6: can't read \"rihgt\": no such variable (in \"join-them\", called on line 9)";
    assert!(told.trim_end().ends_with(expected), "{told}");
}
