//! `emulate report` and `emulate compare` on folders of runs.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

#[test]
fn a_report_is_written_and_told() {
    let folder = tempfile::tempdir().unwrap();
    run(folder.path(), 1, 1.0, &[]);
    let output = emulate(&["report", path(folder.path())]);
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && told.contains("completed services   27 of 30"), "{told}");
    assert!(folder.path().join("index.html").is_file() && folder.path().join("figures/services.svg").is_file());
    let answer = json(&emulate(&["--json", "report", path(folder.path())]));
    assert_eq!((&answer["schema"], &answer["measures"]["completed services"]), (&json!(2), &json!(27.0)));
}

#[test]
fn untrusted_results_have_own_exit_code() {
    let folder = tempfile::tempdir().unwrap();
    run(folder.path(), 1, 1.0, &["packets were late"]);
    let output = emulate(&["report", path(folder.path())]);
    assert_eq!(output.status.code(), Some(4));
    assert!(String::from_utf8(output.stderr).unwrap().contains("packets were late"));
    let output = emulate(&["--json", "compare", path(folder.path()), path(folder.path())]);
    assert_eq!(output.status.code(), Some(4));
    assert_eq!(json(&output)["distrust"].as_array().unwrap().len(), 2);
}

#[test]
fn several_runs_share_one_page() {
    let folder = tempfile::tempdir().unwrap();
    for seed in 1..=3 {
        run(&folder.path().join(format!("seed-{seed}")), seed, 1.0, &[]);
    }
    let output = emulate(&["report", path(folder.path())]);
    assert!(output.status.success(), "{output:?}");
    for file in ["index.html", "runs.csv", "cells.csv", "seed-2/index.html"] {
        assert!(folder.path().join(file).is_file(), "{file}");
    }
}

#[test]
fn two_sides_compare_by_seed() {
    let folder = tempfile::tempdir().unwrap();
    for seed in 1..=3 {
        run(&folder.path().join(format!("a/{seed}")), seed, 1.0, &[]);
        run(&folder.path().join(format!("b/{seed}")), seed, 2.0, &[]);
    }
    let (a, b, page) = (folder.path().join("a"), folder.path().join("b"), folder.path().join("compare.html"));
    let output = emulate(&["compare", path(&a), path(&b), "-o", path(&page)]);
    let told = String::from_utf8(output.stdout).unwrap();
    let row = told.lines().find(|line| line.starts_with("track latency, median")).unwrap();
    assert!(row.contains("2.00") && row.ends_with("worse"), "{told}");
    assert!(fs::read_to_string(page).unwrap().contains("Track latency, median"));
}

#[test]
fn folders_without_runs_are_bad_input() {
    let folder = tempfile::tempdir().unwrap();
    for args in [&["report", path(folder.path())][..], &["report", "/nowhere"], &["compare", "/nowhere", "/nowhere"]] {
        let output = emulate(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert_eq!(String::from_utf8(output.stderr).unwrap().lines().count(), 1, "{args:?}");
    }
    run(folder.path(), 1, 1.0, &[]);
    fs::write(folder.path().join("events.jsonl"), "{}\n").unwrap();
    let output = emulate(&["report", path(folder.path())]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("events.jsonl, line 1"));
}

/// Makes the folder of a run with thirty requests, as an experiment writes it.
fn run(folder: &Path, seed: u64, slower: f64, reasons: &[&str]) {
    fs::create_dir_all(folder).unwrap();
    let verdict = json!({
        "valid": reasons.is_empty(), "reasons": reasons, "lateness_us": [[32, 900], [64, 100]],
        "lateness_p50_us": 20.0, "lateness_p99_us": 60.0, "lateness_p999_us": 63.0, "lateness_max_us": 64.0,
        "overruns": 0, "cpu_busy": 0.2, "most_starved": null, "linktest": []
    });
    let facts = json!({
        "schema": 1, "name": "test", "architecture": "super-node", "transport": "paper", "topology": "star-11",
        "nodes": 10, "hubs": ["hub"], "seed": seed, "duration_s": 60.0, "ran_s": 60.0, "drain_s": 1.0,
        "started_unix_s": 1_790_000_000, "interrupted": false, "versions": {}, "machine": {}, "lab": {},
        "verdict": verdict
    });
    fs::write(folder.join("run.json"), facts.to_string()).unwrap();
    let mut lines = String::new();
    for n in 0..30 {
        let took = slower * (100.0 + f64::from(n)) + seed as f64;
        let request = json!({
            "record": "request", "t": f64::from(n), "node": format!("n{}", n % 10), "class": "low",
            "service": "track", "target": "n1", "outcome": if n < 27 { "completed" } else { "timed-out" },
            "first_byte_ms": took, "elapsed_ms": took, "bytes": 1000
        });
        writeln!(lines, "{request}").unwrap();
    }
    fs::write(folder.join("events.jsonl"), lines).unwrap();
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

fn emulate(args: &[&str]) -> Output {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("emulate"));
    command.args(args).stdin(Stdio::null()).env("TERM", "dumb").output().unwrap()
}
