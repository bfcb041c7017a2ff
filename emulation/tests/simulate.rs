//! `emulate simulate`: the command, and whether it says what emulation says.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop where it stands")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use roost_emulation::report::record::Outcome;
use roost_emulation::report::{self, Results};
use serde_json::Value;

const PLAN: &str = "
topology = { star = { nodes = 5, delay = '40ms', server_delay = '60ms' } }
architecture = 'super-node'
duration = '20s'
stream = '2s'
timeout = '10s'
linktest = false
";

fn emulate(folder: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_emulate")).args(args).current_dir(folder).output().unwrap()
}

fn folder_with(plan: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("trial.toml"), plan).unwrap();
    folder
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn json(folder: &Path, args: &[&str]) -> Value {
    let output = emulate(folder, &[&["simulate", "trial.toml", "--json"], args].concat());
    assert!(output.status.success(), "{}", said(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn two_processes_come_to_the_same_hash() {
    let folder = folder_with(PLAN);
    for level in ["packet", "message"] {
        let args = ["--level", level, "--architecture", "super-node", "--for", "8s"];
        let (first, second) = (json(folder.path(), &args), json(folder.path(), &args));
        assert_eq!(first["trace_hash"], second["trace_hash"]);
        assert_eq!(first["trace_hash"].as_str().unwrap().len(), 16);
        assert_eq!((&first["nodes"], &first["completed"]), (&Value::from(4), &first["requested"]));
        assert!(first["virtual_s"].as_f64().unwrap() >= 8.0 && first["by_service"]["track"]["completed"].is_u64());
        assert_ne!(first["trace_hash"], json(folder.path(), &[&args[..], &["--seed", "2"]].concat())["trace_hash"]);
    }
}

#[test]
fn many_seeds_are_counted_and_a_wrong_plan_is_told() {
    let folder = folder_with(PLAN);
    let output = emulate(folder.path(), &["simulate", "trial.toml", "--seeds", "3", "--for", "3s"]);
    assert!(output.status.success() && said(&output).contains("3 of 3 seeds passed."), "{}", said(&output));
    let output = emulate(folder.path(), &["simulate", "nothing.toml"]);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
}

#[test]
fn a_simulated_run_leaves_what_report_and_compare_read() {
    let folder = folder_with(PLAN);
    let output = emulate(folder.path(), &["simulate", "trial.toml", "-o", "out", "--for", "5s"]);
    assert!(output.status.success(), "{}", said(&output));
    assert!(folder.path().join("out/index.html").is_file());
    let output = emulate(folder.path(), &["report", "out"]);
    assert!(output.status.success(), "{}", said(&output));
}

/// Completed requests, and the median latency of each service, milliseconds.
fn figures(results: &Results) -> (usize, BTreeMap<String, f64>) {
    let mut latencies: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for request in &results.requests {
        let latency = request.latency_ms();
        latencies.entry(request.service.clone()).or_default().extend(latency);
    }
    let completed = results.requests.iter().filter(|request| request.outcome == Outcome::Completed).count();
    let median = |mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    // A median of a few says nothing.
    let medians = latencies.into_iter().filter(|(_, values)| values.len() >= 8);
    (completed, medians.map(|(service, values)| (service, median(values))).collect())
}

fn assert_near(what: &str, emulated: f64, simulated: f64, band: f64) {
    let off = (emulated - simulated).abs() / emulated;
    assert!(off <= band, "{what}: {emulated:.1} in emulation, {simulated:.1} in simulation");
}

/// Completions within 5 %, median latencies within 10 %: where processors are
/// not the limit, which the emulator itself says of its run. A machine that is
/// too busy for it cannot say whether the two agree.
#[test]
fn emulation_and_simulation_agree() {
    for transport in ["paper", "udp", "quic"] {
        let folder = folder_with(&format!("{PLAN}transport = '{transport}'\n"));
        let output = emulate(folder.path(), &["run", "trial.toml", "-o", "real"]);
        assert!(matches!(output.status.code(), Some(0 | 4)), "{}", said(&output));
        let emulated = report::read(&folder.path().join("real")).unwrap();
        let output = emulate(folder.path(), &["simulate", "trial.toml", "-o", "virtual"]);
        assert!(output.status.success(), "{}", said(&output));
        let simulated = report::read(&folder.path().join("virtual")).unwrap();
        let ((real, real_medians), (ours, our_medians)) = (figures(&emulated), figures(&simulated));
        assert!(real > 20 && ours > 20, "{real} and {ours} completed");
        if !emulated.run.verdict.valid {
            println!("over {transport} this machine was too busy: {:?}", emulated.run.verdict.reasons);
            continue;
        }
        assert_near(&format!("completed over {transport}"), real as f64, ours as f64, 0.05);
        for (service, median) in real_medians.iter().filter(|(service, _)| our_medians.contains_key(*service)) {
            assert_near(&format!("{service} over {transport}"), *median, our_medians[service], 0.1);
        }
    }
}
