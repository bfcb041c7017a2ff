//! `emulate check`, `topo` and `convert`, used like by people.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

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

/// The error message for a wrong topology.
fn refusal(path: &Path) -> String {
    let output = emulate(&["check", path.to_str().unwrap()]);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0));
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn star_is_generated_checked_and_converted() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (star, request) = (path("star.toml"), path("star.xml"));
    stdout(&["topo", "star", "--nodes", "4", "--delay", "20ms", "--server-rate", "5Mbit", "-qo", &star]);
    let shown = stdout(&["check", &star]);
    assert!(shown.contains("node[1-3]") && shown.contains("server") && shown.contains("5Mbit"), "{shown}");
    let json: Value = serde_json::from_str(&stdout(&["check", &star, "--json"])).unwrap();
    assert_eq!(json["counts"]["interfaces"], 4);
    assert_eq!(json["lans"][0]["members"][3]["to_net"]["bw_kbps"], 5000);
    assert_eq!(stdout(&["convert", &star, "--to", "toml"]).lines().skip(2).collect::<Vec<_>>(), {
        let text = std::fs::read_to_string(&star).unwrap();
        text.lines().skip_while(|line| !line.is_empty()).skip(1).map(str::to_owned).collect::<Vec<_>>()
    });
    stdout(&["convert", &star, "-qo", &request]);
    assert!(std::fs::read_to_string(&request).unwrap().contains("<rspec"));
}

#[test]
fn published_trees_pass_check() {
    let folder = tempfile::tempdir().unwrap();
    for (nodes, interfaces) in [("11", 17), ("31", 40), ("54", 73), ("75", 94), ("92", 111)] {
        let path = folder.path().join(format!("tree-{nodes}.toml"));
        stdout(&["topo", "tree", "--nodes", nodes, "-qo", path.to_str().unwrap()]);
        let json: Value = serde_json::from_str(&stdout(&["check", path.to_str().unwrap(), "--json"])).unwrap();
        assert_eq!(json["counts"]["interfaces"], interfaces, "{nodes}: a leg for each node, router and the server");
    }
}

#[test]
fn shipped_topologies_check_without_warning() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../topologies");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let is_topology = |path: &Path| path.extension().is_some_and(|ending| ending == "toml" || ending == "ns");
    let files: Vec<_> = files.filter(|path| is_topology(path)).collect();
    assert!(files.len() >= 6);
    for file in files {
        let json: Value = serde_json::from_str(&stdout(&["check", file.to_str().unwrap(), "--json"])).unwrap();
        assert_eq!((&json["warnings"], &json["ignored"]), (&Value::Array(vec![]), &Value::Array(vec![])), "{file:?}");
    }
}

#[test]
fn ns_file_round_trips_through_toml() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let convoy = concat!(env!("CARGO_MANIFEST_DIR"), "/../topologies/convoy.ns");
    let (toml, ns) = (path("convoy.toml"), path("back.ns"));
    stdout(&["convert", convoy, "-qo", &toml]);
    stdout(&["convert", &toml, "-qo", &ns]);
    let listing = |file: &str| {
        let mut json: Value = serde_json::from_str(&stdout(&["check", file, "--json"])).unwrap();
        json.as_object_mut().unwrap().remove("source");
        json
    };
    let original = listing(convoy);
    assert_eq!(original["counts"]["events"], 11);
    assert_eq!((listing(&toml), listing(&ns)), (original.clone(), original));
}

#[test]
fn mistakes_name_file_and_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("wrong.toml");
    let shown = path.display();
    std::fs::write(&path, "[[host]]\nname = [\"a\", \"b\"]\n[[link]]\nbetween = [\"a\", \"c\"]\nrate = \"5Mbyte\"\n")
        .unwrap();
    let said = refusal(&path);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines[0], format!("error: {shown}:4: there is no host `c`"));
    assert!(lines[1].starts_with(&format!("  {shown}:5: `rate` of a link: `5Mbyte` is no rate")), "{said}");
    let missing = refusal(&folder.path().join("missing.toml"));
    assert!(missing.starts_with("error: cannot read ") && missing.contains("No such file"), "{missing}");
    std::fs::write(folder.path().join("x.json"), "{}").unwrap();
    assert!(refusal(&folder.path().join("x.json")).contains("neither our own format nor an NS file"));
    std::fs::write(&path, "routing = \"none\"\n[[host]]\nname = [\"a\", \"b\", \"c\"]\n[[link]]\nbetween = [\"a\", \"b\"]\nrate = \"1Mbit\"\n\
                           [[link]]\nbetween = [\"b\", \"c\"]\nrate = \"1Mbit\"\n").unwrap();
    assert!(refusal(&path).starts_with(&format!("error: {shown}:1: with routing none, `a` has no way to `c`")));
    std::fs::write(&path, b"name = \"\xff\"").unwrap();
    assert!(refusal(&path).contains("invalid utf-8"));
}

#[test]
fn format_is_detected_from_content() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("topology.txt");
    for text in ["set ns [new Simulator]\nset a [$ns node]\n$ns run\n", "[[host]]\nname = \"a\"\n"] {
        std::fs::write(&path, text).unwrap();
        let json: Value = serde_json::from_str(&stdout(&["check", path.to_str().unwrap(), "--json"])).unwrap();
        assert_eq!(json["nodes"][0]["name"], "a", "{text}");
    }
}

#[test]
fn odd_emulab_input_round_trips_toml() {
    let folder = tempfile::tempdir().unwrap();
    let toml = folder.path().join("odd.toml");
    for name in ["narrow", "groups"] {
        let file = format!("{}/tests/ns/{name}.ns", env!("CARGO_MANIFEST_DIR"));
        stdout(&["convert", &file, "-qo", toml.to_str().unwrap()]);
        let lans = |file: &str| {
            let json: Value = serde_json::from_str(&stdout(&["check", file, "--json"])).unwrap();
            // For a rate `~` a listing of an NS file shows Emulab's reservation; here it is unlimited.
            let best_effort = |lan: &&Value| lan["name"] == "ring";
            json["lans"].as_array().unwrap().iter().filter(|lan| !best_effort(lan)).cloned().collect::<Vec<_>>()
        };
        assert!(!lans(&file).is_empty());
        assert_eq!(lans(toml.to_str().unwrap()), lans(&file), "{name}");
    }
}

#[test]
fn plan_as_topology_suggests_run_check() {
    let plan = format!("{}/../plans/star-11.toml", env!("CARGO_MANIFEST_DIR"));
    let output = emulate(&["check", &plan]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        (output.status.code(), said),
        (Some(2), format!("error: {plan} is a plan: `emulate run {plan} --check` checks it\n"))
    );
}

#[test]
fn impossible_generator_input_is_one_sentence() {
    for (args, part) in [
        (&["topo", "star", "--nodes", "1"][..], "it has 2 to"),
        (&["topo", "star", "--nodes", "5", "--delay", "5"], "is no duration"),
        (&["topo", "tree", "--nodes", "11", "--x45", "5"], "too few"),
        (&["topo", "tree"], "--nodes"),
        (&["convert", "x.toml"], "--to"),
    ] {
        let output = emulate(args);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains(part) && said.lines().count() == 1, "{args:?}: {said}");
    }
}
