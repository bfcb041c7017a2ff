//! `emulate reproduce`: runs are made, found again, interrupted and resumed.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

/// The smallest study: four runs of three nodes.
const STUDY: [&str; 5] = ["sproull-overhead", "--quick", "--seeds", "1", "-o"];

fn reproduce(folder: &Path, more: &[&str]) -> Output {
    let args = ["reproduce"].into_iter().chain(STUDY).chain(["out"]).chain(more.iter().copied());
    Command::new(env!("CARGO_BIN_EXE_emulate")).args(args).current_dir(folder).output().unwrap()
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn study_runs_once_and_repeats_identically() {
    let folder = tempfile::tempdir().unwrap();
    let first = reproduce(folder.path(), &[]);
    assert!(first.status.success(), "{}", said(&first));
    assert!(said(&first).contains("0 runs are there, 4 are to be made"), "{}", said(&first));
    let page = fs::read_to_string(folder.path().join("out/index.html")).unwrap();
    assert!(page.contains("Table 3") && page.contains("emulate simulate runs/sproull-overhead/"), "{page}");
    assert!(page.contains("Not on this page, or only in part: sproull-fig4,") && page.contains("erum-migration"));
    assert!(folder.path().join("out/figures/sproull-overhead-overhead-each.svg").is_file());

    // A run broke off, and another is missing.
    let runs = folder.path().join("out/runs/sproull-overhead");
    let (cut, gone) = (runs.join("1-super-node_track/seed-1.json"), runs.join("1-super-node_sensor/seed-1.json"));
    let text = fs::read_to_string(&cut).unwrap();
    let before = fs::read_to_string(&gone).unwrap();
    fs::write(&cut, &text[..text.len() / 2]).unwrap();
    fs::remove_file(&gone).unwrap();
    let again = reproduce(folder.path(), &["--json"]);
    assert!(said(&again).contains("2 runs are there, 2 are to be made"), "{}", said(&again));
    assert_eq!(fs::read_to_string(&cut).unwrap(), text, "the same to the last digit");
    assert_eq!(fs::read_to_string(&gone).unwrap(), before);
    assert_eq!(fs::read_to_string(folder.path().join("out/index.html")).unwrap(), page);

    let json: Value = serde_json::from_slice(&again.stdout).unwrap();
    let claims = json["claims"].as_array().unwrap();
    assert_eq!((json["schema"].as_u64(), claims.len()), (Some(2), 4));
    let video = &claims[0];
    assert_eq!((&video["id"], &video["paper"]), (&Value::from("sproull-table3-video"), &Value::from("48 kB")));
    assert_eq!((&json["counts"]["figures"], &json["counts"]["better"]), (&Value::from(4), &Value::from(4)));
    assert_eq!((&json["counts"]["equal"], &json["counts"]["ours"]), (&Value::from(0), &Value::from(0)));
    // A seed in virtual time gives one figure, and so does its result.
    let kept = fs::read_to_string(runs.join("1-super-node_video/seed-1.json")).unwrap();
    let kept: Value = serde_json::from_str(&kept).unwrap();
    let (ours, of_run) = (video["ours"].as_f64().unwrap(), kept["measures"]["overhead.each"].as_f64().unwrap());
    assert!((ours - of_run).abs() <= of_run * 1e-5 && ours > 200.0, "{video} {of_run}");
    for claim in claims {
        assert_eq!((&claim["kind"], &claim["verdict"]), (&Value::from("figure"), &Value::from("holds")), "{claim}");
        assert_eq!(claim["amount"], "better", "{claim}");
    }
    assert!(video["interval"].is_null() && video["claim"].is_string());
}

#[test]
fn plan_of_run_repeats_it() {
    let folder = tempfile::tempdir().unwrap();
    let made = reproduce(folder.path(), &["--keep-records"]);
    assert!(made.status.success(), "{}", said(&made));
    let point = folder.path().join("out/runs/sproull-overhead/1-super-node_sensor");
    let kept: Value = serde_json::from_str(&fs::read_to_string(point.join("seed-1.json")).unwrap()).unwrap();
    assert!(point.join("seed-1/events.jsonl").is_file());

    // Records of a run that is stored without any: remains of a broken run, or of another.
    fs::remove_dir_all(point.join("seed-1")).unwrap();
    fs::remove_file(point.join("seed-1.json")).unwrap();
    assert!(reproduce(folder.path(), &[]).status.success());
    fs::create_dir(point.join("seed-1")).unwrap();
    let again = reproduce(folder.path(), &["--keep-records"]);
    assert!(said(&again).contains("3 runs are there, 1 are to be made"), "{}", said(&again));
    assert!(point.join("seed-1/events.jsonl").is_file() && !point.join("seed-1.part").exists());
    let repeated = Command::new(env!("CARGO_BIN_EXE_emulate"))
        .args(["simulate", "plan.toml", "--seed", "1", "--json"])
        .current_dir(&point)
        .output()
        .unwrap();
    let repeated: Value = serde_json::from_slice(&repeated.stdout).unwrap();
    assert_eq!(repeated["trace_hash"], kept["trace_hash"]);
    assert_eq!(repeated["completed"].as_f64(), kept["measures"]["completed"].as_f64());
}

#[test]
fn unknown_study_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_emulate"))
        .args(["reproduce", "sproul-fig4"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains("there is no study `sproul-fig4`: choose sproull-fig4,"), "{}", said(&output));
}
