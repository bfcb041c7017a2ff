//! Networks that move, simulated and listed like by people.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn emulate(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("emulate"));
    command.args(args).current_dir(folder).stdin(Stdio::null()).env("TERM", "dumb").output().unwrap()
}

const NET: &str = r#"
[motion]
cell = "500m"

[[host]]
name = ["ground", "a", "b", "c"]
class = "uav"

[[motion.host]]
name = "ground"
position = [250, 250, 10]
[[motion.host]]
name = ["a", "b", "c"]
file = "three.movements"

[[radio]]
name = "air"
members = ["ground", "a", "b", "c"]
frequency = "2.4GHz"
bandwidth = "20MHz"
power = "20dBm"
rate = "6Mbit"
range = "2km"
"#;

/// `a` leaves after 20 s; the others stay.
const MOVEMENTS: &str = "0 250 250 5 250 250 45 4250 250\n0 800 250\n0 250 800 30 250 1900\n";

const PLAN: &str = "topology = 'net.toml'\narchitecture = 'super-node'\nsuper_nodes = ['ground']\nduration = '40s'\n\
    drain = '20s'\ntimeout = '5s'\nstream = '2s'\n[classes.uav]\nmix = { track = 50, sensor = 50 }\n";

fn folder_with(net: &str, movements: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [("net.toml", net), ("three.movements", movements), ("plan.toml", PLAN)] {
        fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn simulated_links_follow_their_hosts() {
    let folder = folder_with(NET, MOVEMENTS);
    let simulate = |out: &str| {
        let output = emulate(folder.path(), &["simulate", "plan.toml", "-o", out]);
        assert!(output.status.success(), "{}", said(&output));
        fs::read_to_string(folder.path().join(out).join("events.jsonl")).unwrap()
    };
    let events = simulate("one");
    assert_eq!(events, simulate("two"));
    let read = |name: &str| fs::read_to_string(folder.path().join("one").join(name)).unwrap();
    let states = read("link-states.csv");
    // 2 km from the ground after 5 s and 2000 m of 100 m/s.
    let lost: Vec<&str> = states.lines().filter(|line| line.contains(",air,ground,a,0,")).collect();
    assert!(lost.len() == 1 && lost[0].starts_with("25"), "{states}");
    assert!(read("motion.csv").lines().any(|line| line.starts_with("10,a,750,250,")), "{}", read("motion.csv"));
    assert!(read("positions.csv").lines().filter(|line| line.contains(",a,")).count() > 4, "{}", read("positions.csv"));
    // The run repeats from its own folder, without the file of movements.
    let again = emulate(&folder.path().join("one"), &["simulate", "plan.toml", "-o", "../three"]);
    assert!(again.status.success(), "{}", said(&again));
    assert_eq!(fs::read_to_string(folder.path().join("three/events.jsonl")).unwrap(), events);
}

#[test]
fn mistakes_of_files_are_told() {
    let folder = folder_with(NET, "0 1 2\n0 1 x\n0 1 2\n");
    let output = emulate(folder.path(), &["check", "net.toml"]);
    assert_eq!(output.status.code(), Some(2));
    let text = said(&output);
    assert!(text.contains("net.toml:14: three.movements: line 2: `x` is no number of a waypoint"), "{text}");
    let folder = folder_with(&NET.replace("three.mov", "tree.mov"), MOVEMENTS);
    let text = said(&emulate(folder.path(), &["check", "net.toml"]));
    assert!(text.contains("tree.movements: cannot be read"), "{text}");
}

#[test]
fn check_lists_radios_and_places() {
    let folder = folder_with(NET, MOVEMENTS);
    let output = emulate(folder.path(), &["check", "net.toml"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        text.contains("Radios: 1") && text.contains("Hosts with places: 4") && !text.contains("LANs:"),
        "{text}{}",
        said(&output)
    );
}
