//! `emulate trace`, and links that play traces, used like by people.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

const SHIPPED: [(&str, &str, &str, &str); 4] = [
    ("cellular", "1", "20s", "cellular.down"),
    ("cellular", "2", "20s", "cellular.up"),
    ("starlink", "1", "60s", "starlink.csv"),
    ("satellite", "1", "120s", "satellite.csv"),
];

const TOPOLOGY: &str = "[[host]]\nname = ['node1', 'node2']\n[[link]]\nname = 'x'\nbetween = ['node1', 'node2']\n\
    delay = '5ms'\ntrace = 'made/t.csv'\n";
const PLAN: &str = "topology = 'net.toml'\narchitecture = 'super-node'\nduration = '20s'\nlinktest = false\n\
    [links.x]\nup.trace = { file = 't.down', start = '1s' }\n";

fn emulate(args: &[&str]) -> Output {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("emulate"));
    command.args(args).stdin(Stdio::null()).env("TERM", "dumb").output().unwrap()
}

/// The output of a command that must succeed.
fn stdout(args: &[&str]) -> String {
    let output = emulate(args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// A folder with a topology and a plan that play traces.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::create_dir(path("made")).unwrap();
    fs::write(path("net.toml"), TOPOLOGY).unwrap();
    fs::write(path("plan.toml"), PLAN).unwrap();
    fs::write(path("made/t.csv"), "time_s,rate_mbps,delay_ms\n0,5,10\n4,1,30\n8,,\n").unwrap();
    let trace = stdout(&["trace", "make", "cellular", "--seed", "3", "--for", "5s"]);
    fs::write(path("t.down"), trace).unwrap();
    folder
}

#[test]
fn shipped_traces_are_those_of_models() {
    for (model, seed, length, file) in SHIPPED {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../traces").join(file);
        let made = stdout(&["trace", "make", model, "--seed", seed, "--for", length]);
        assert_eq!(made, fs::read_to_string(path).unwrap(), "make {file} again with emulate trace make");
    }
}

#[test]
fn trace_is_shown_and_drawn() {
    let folder = folder();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let json: Value = serde_json::from_str(&stdout(&["trace", "show", &path("made/t.csv"), "--json"])).unwrap();
    assert_eq!((json["rate_bps"].as_f64(), json["length_s"].as_f64()), (Some(3e6), Some(8.0)));
    assert_eq!(json["delay_ms"]["p100"], 30.0);
    let shown = stdout(&["trace", "show", &path("made/t.csv"), "--svg", &path("t.svg")]);
    assert!(shown.contains("3Mbit") && shown.contains("p50 10ms"), "{shown}");
    assert!(fs::read_to_string(path("t.svg")).unwrap().contains("delay, ms"));
    let wrong = emulate(&["trace", "show", &path("net.toml")]);
    assert_eq!(wrong.status.code(), Some(2));
}

#[test]
fn check_and_exports_tell_traces() {
    let folder = folder();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let shown = stdout(&["check", &path("net.toml")]);
    assert!(shown.contains("made/t.csv") && shown.contains("rate, delay"), "{shown}");
    let json: Value = serde_json::from_str(&stdout(&["check", &path("net.toml"), "--json"])).unwrap();
    assert_eq!(json["lans"][0]["members"][0]["to_net"]["trace"]["file"], "made/t.csv");
    let request = emulate(&["convert", &path("net.toml"), "--to", "rspec"]);
    assert!(String::from_utf8(request.stderr).unwrap().contains("Not in the request: traces"));
    for name in ["made/net.ns", "back.toml"] {
        stdout(&["convert", &path("net.toml"), "-qo", &path(name)]);
        let json: Value = serde_json::from_str(&stdout(&["check", &path(name), "--json"])).unwrap();
        assert_eq!(json["lans"][0]["members"][1]["to_net"]["trace"]["length_s"], 8, "{name}");
    }
}

#[test]
fn results_of_traces_run_elsewhere() {
    let folder = folder();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let simulated = |plan: &str, results: &str| -> Value {
        let text = stdout(&["simulate", &path(plan), "-o", &path(results), "--json"]);
        serde_json::from_str(text.lines().next().unwrap()).unwrap()
    };
    let first = simulated("plan.toml", "first");
    let run: Value = serde_json::from_str(&fs::read_to_string(path("first/run.json")).unwrap()).unwrap();
    assert_eq!(run["traces"].as_object().unwrap().len(), 2, "{run}");
    let links = fs::read_to_string(path("first/links.csv")).unwrap();
    assert!(links.lines().next().unwrap().contains("capacity_bytes"), "{links}");
    // Without the files that they were made of.
    for gone in ["t.down", "made/t.csv", "net.toml", "plan.toml"] {
        fs::remove_file(path(gone)).unwrap();
    }
    fs::rename(path("first"), path("moved")).unwrap();
    let second = simulated("moved/plan.toml", "second");
    assert_eq!(first["trace_hash"], second["trace_hash"]);
}
