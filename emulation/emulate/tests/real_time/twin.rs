//! A recording in a lab, its twin, and the twin's run in virtual time.

use std::path::PathBuf;
use std::process::{Command, Output};

use crate::common::{Folder, json, said};

const PLAN: &str = "
architecture = 'super-node'
duration = '25s'
stream = '1s'
timeout = '10s'
linktest = false

[[program]]
name = 'recorder'
host = HOSTS
command = 'roost record -o $EMULATE_FOLDER/record.jsonl'
measure = false
";

/// Runs a plan whose hosts record, makes the twin of it, simulates that, and compares.
struct TwinFixture {
    folder: Folder,
}

impl TwinFixture {
    fn new(topology: &str, hosts: &str) -> Self {
        let _turn = crate::alone();
        let plan = format!("topology = {topology}\n{}", PLAN.replace("HOSTS", hosts));
        let fixture = Self { folder: Folder::with("trial.toml", &plan) };
        fixture.record();
        let made = fixture.twin(&["-o", "twin", "--json"]);
        assert_eq!(made.status.code(), Some(0), "{}", said(&made));
        fixture.write_json("made.json", &made);
        let simulated = fixture.folder.emulate(&["simulate", "twin/plan.toml", "-o", "simulated"]);
        assert_eq!(simulated.status.code(), Some(0), "{}", said(&simulated));
        fixture
    }

    /// Runs the plan; again if the machine was so busy that links were late.
    fn record(&self) {
        for _ in 0..2 {
            let _ = std::fs::remove_dir_all(self.folder.path().join("run"));
            let run = self.folder.emulate(&["run", "trial.toml", "-o", "run"]);
            match run.status.code() {
                Some(0) => return,
                code => assert_eq!(code, Some(4), "{}", said(&run)),
            }
        }
    }

    fn recordings(&self) -> Vec<PathBuf> {
        let programs = std::fs::read_dir(self.folder.path().join("run/programs")).unwrap();
        let files = programs.map(|entry| entry.unwrap().path().join("record.jsonl"));
        let mut files: Vec<_> = files.filter(|file| file.is_file()).collect();
        files.sort();
        files
    }

    fn twin(&self, more: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_emulate"));
        command.current_dir(self.folder.path()).arg("twin").args(self.recordings()).args(more);
        command.output().unwrap()
    }

    fn write_json(&self, name: &str, output: &Output) {
        self.folder.write(name, &String::from_utf8_lossy(&output.stdout));
    }

    /// The value of an object in the twin, without its unit.
    fn value(&self, object: &str, what: &str) -> f64 {
        let made = json(&std::fs::read(self.folder.path().join("made.json")).unwrap());
        let values = made["values"].as_array().unwrap();
        let found = values.iter().find(|value| value["object"] == object && value["what"] == what);
        let text = found.unwrap_or_else(|| panic!("{object} has no {what}: {made}"))["value"].as_str().unwrap();
        text.trim_end_matches(char::is_alphabetic).parse().unwrap()
    }

    fn check_agreement(&self) {
        let compared = self.folder.emulate(&["twin", "twin", "--against", "simulated", "--json"]);
        let told = json(&compared.stdout);
        // A short recording may have too few requests of each service for a median.
        assert_ne!(told["outcome"], "differs", "{told}");
        assert!(told["services"].as_array().unwrap().last().unwrap()["requests"].as_u64().unwrap() > 40, "{told}");
    }
}

#[test]
fn star_is_found_again() {
    let twin = TwinFixture::new("{ star = { nodes = 6, delay = '40ms' } }", "'node[1-5]'");
    for node in 1..=5 {
        let delay = twin.value(&format!("node{node}"), "delay");
        assert!((delay - 40.0).abs() < 2.0, "node{node}: {delay}");
    }
    twin.check_agreement();
}

#[test]
fn tree_is_found_again() {
    let hosts = "['x45-1', 'tactical1', 'low[1-4]']";
    let twin = TwinFixture::new("{ tree = { nodes = 6, x45 = 1, tactical = 1, low = 4 } }", hosts);
    for (path, real, tolerance) in [("path-low1-tactical1", 80.0, 4.0), ("path-low1-x45-1", 140.0, 6.0)] {
        let delay = twin.value(path, "delay");
        assert!((delay - real).abs() < tolerance, "{path}: {delay}");
    }
    twin.check_agreement();
}

#[test]
fn single_host_knows_its_own_paths() {
    let folder = Folder::with("one.jsonl", &single_recording());
    let made = folder.emulate(&["twin", "one.jsonl", "-o", "twin"]);
    assert_eq!(made.status.code(), Some(0), "{}", said(&made));
    assert!(
        said(&made).contains("of hub, uav2 nothing was recorded") || said(&made).contains("of uav2, hub"),
        "{}",
        said(&made)
    );
    let simulated = folder.emulate(&["simulate", "twin/plan.toml", "-o", "simulated"]);
    assert_eq!(simulated.status.code(), Some(0), "{}", said(&simulated));
    let text = std::fs::read_to_string(folder.path().join("twin/requests.csv")).unwrap();
    assert!(text.contains("uav1,image,uav2"), "{text}");
}

#[test]
fn invalid_run_is_told() {
    let folder = Folder::with("one.jsonl", &single_recording());
    folder.emulate(&["twin", "one.jsonl", "-o", "twin"]);
    folder.emulate(&["simulate", "twin/plan.toml", "-o", "simulated"]);
    let path = folder.path().join("simulated/run.json");
    let mut run = json(&std::fs::read(&path).unwrap());
    run["verdict"]["valid"] = false.into();
    run["verdict"]["reasons"] = ["a processor was late"].as_slice().into();
    std::fs::write(&path, run.to_string()).unwrap();
    let compared = folder.emulate(&["twin", "twin", "--against", "simulated"]);
    assert!(said(&compared).contains("the run in simulated is not valid: a processor was late"), "{}", said(&compared));
    let compared = folder.emulate(&["twin", "twin", "--against", "simulated", "--json"]).stdout;
    // The error that it ends with is another object.
    let compared = json(compared.split(|byte| *byte == b'\n').next().unwrap_or_default());
    assert_eq!((&compared["run_valid"], &compared["run_reasons"][0]), (&false.into(), &"a processor was late".into()));
}

#[test]
fn wrong_recordings_are_told() {
    let folder = Folder::with("bad.jsonl", "{}\n");
    folder.write("worse.jsonl", "");
    let made = folder.emulate(&["twin", "bad.jsonl", "worse.jsonl", "none.jsonl", "-o", "twin"]);
    assert_eq!(made.status.code(), Some(2));
    for part in ["bad.jsonl:1: ", "worse.jsonl: is empty", "none.jsonl: cannot be read"] {
        assert!(said(&made).contains(part), "{}", said(&made));
    }
    assert!(!folder.path().join("twin").exists());
}

/// A recording of `uav1`, which requests an image of `uav2` and sees a hub.
fn single_recording() -> String {
    let [own, other, hub] = ['a', 'b', 'c'].map(|digit| digit.to_string().repeat(32));
    let line =
        |t: f64, rest: &str| format!("{{\"t\":{t},\"unix_ms\":{},{rest}}}\n", 1_764_000_000_000_u64 + (t * 1e3) as u64);
    let mut text = line(0.0, r#""record":"begin","version":1,"program":"0.1.0","redacted":false"#);
    text += &line(
        0.1,
        &format!(
            r#""record":"daemon","daemon":0,"node":"{own}","name":"uav1","role":"node","cell":"0,0","services":["image"],"hub":"{hub}","listen":["udp://10.0.0.1:7700"]"#
        ),
    );
    let remotes = [(&other, "uav2", "node", "10.0.0.2"), (&hub, "hub", "supernode", "10.0.0.3")];
    for (node, name, role, address) in remotes {
        text += &line(
            0.2,
            &format!(
                r#""record":"connection","daemon":0,"node":"{node}","name":"{name}","role":"{role}","transport":"udp","address":"udp://{address}:7700","since_s":9.0,"rtt_ms":90.0,"sent_bytes":1,"received_bytes":1,"lost_packets":0"#
            ),
        );
    }
    for (node, ..) in remotes {
        for number in 0..4 {
            let ping = format!(r#""record":"ping","daemon":0,"node":"{node}","rtt_ms":{}"#, 80.0 + f64::from(number));
            text += &line(0.3, &ping);
        }
    }
    text += &line(
        1.0,
        r#""record":"request","daemon":0,"request":{"event":"began","schema":2,"request":1,"began_unix_ms":1764000001000,"service":"image","area":{"at":"3,4"},"transports":["tcp"],"reflect":"never"}"#,
    );
    text + &line(
        2.0,
        &format!(
            r#""record":"request","daemon":0,"request":{{"event":"ended","schema":2,"request":1,"outcome":"completed","elapsed_ms":900.0,"summary":{{"provider":"{other}","cell":"3,4","transport":"tcp","relayed":false,"bytes":100000,"packets":0,"lost":0,"reordered":0,"duplicates":0,"unread":0,"jitter_ms":0.0,"first_byte_ms":300.0,"elapsed_ms":900.0,"digest_ok":true,"complete":true}}}}"#
        ),
    )
}
