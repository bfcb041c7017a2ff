//! `emulate simulate`: the command, and its agreement with emulation.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use roost_results::Results;
use roost_results::record::{RequestOutcome, RequestRecord};
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

/// No radio reaches the other host, which only a run shows.
#[test]
fn failed_trial_of_sweep_is_named() {
    let folder = folder_with("topology = 'net.toml'\narchitecture = 'super-node'\nduration = '5s'\n");
    let network = "[[host]]\nname = ['a', 'b']\n[[motion.host]]\nname = 'a'\nposition = [0, 0, 10]\n\
        [[motion.host]]\nname = 'b'\nposition = [900_000, 0, 10]\n\
        [[radio]]\nname = 'mesh'\nmembers = ['a', 'b']\nfrequency = '2.4GHz'\nbandwidth = '20MHz'\npower = '20dBm'\n\
        rates = [{ snr = '5dB', rate = '6Mbit' }]\n";
    fs::write(folder.path().join("net.toml"), network).unwrap();
    let args = ["sweep", "trial.toml", "--simulate", "--check", "--seeds", "2"];
    let output = emulate(folder.path(), &args);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("2 of 2 runs to make: 2 at once.\n"), "{}", said(&output));
    assert!(said(&output).contains("was tried and failed: "), "{}", said(&output));
    let checked: Value =
        serde_json::from_slice(&emulate(folder.path(), &[&args[..], &["--json"]].concat()).stdout).unwrap();
    assert!(checked["expected_s"].is_null() && checked["trial_error"]["error"].is_string(), "{checked}");
}

fn json(folder: &Path, args: &[&str]) -> Value {
    let output = emulate(folder, &[&["simulate", "trial.toml", "--json"], args].concat());
    assert!(output.status.success(), "{}", said(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn two_processes_give_equal_hash() {
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
fn many_seeds_run_wrong_plan_fails() {
    let folder = folder_with(PLAN);
    let output = emulate(folder.path(), &["simulate", "trial.toml", "--seeds", "3", "--for", "3s"]);
    assert!(output.status.success() && said(&output).contains("3 of 3 seeds passed."), "{}", said(&output));
    let output = emulate(folder.path(), &["simulate", "nothing.toml"]);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    let output = emulate(folder.path(), &["simulate", "trial.toml", "--duration", "0s"]);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(said(&output).contains("--duration") && !said(&output).contains("trial.toml:"), "{}", said(&output));
}

#[test]
fn quiet_simulation_prints_nothing() {
    let folder = folder_with(PLAN);
    let output = emulate(folder.path(), &["simulate", "trial.toml", "--for", "3s", "-q"]);
    assert!(output.status.success() && said(&output).is_empty(), "{}", said(&output));
}

#[test]
fn foreign_architecture_setting_warns() {
    let warned = |more: &str| {
        let folder = folder_with(&PLAN.replace("duration", &format!("{more}\nduration")));
        said(&emulate(folder.path(), &["simulate", "trial.toml", "--for", "3s"]))
    };
    assert!(warned("caches = 2").contains("warning: trial.toml: `caches`"), "{}", warned("caches = 2"));
    assert!(warned("server = 'node1'").contains("warning: trial.toml: `server`"));
    assert!(!warned("super_nodes = 2").contains("warning"));
}

#[test]
fn check_refuses_what_run_refuses() {
    for key in ["handshake = '5s'", "sealed_keys = false"] {
        let folder = folder_with(&PLAN.replace("duration", &format!("{key}\nduration")));
        let output = emulate(folder.path(), &["run", "--check", "trial.toml"]);
        assert!(!output.status.success() && said(&output).contains("emulate simulate"), "{}", said(&output));
    }
}

#[test]
fn simulated_run_feeds_report_and_compare() {
    let folder = folder_with(PLAN);
    let output = emulate(folder.path(), &["simulate", "trial.toml", "-o", "out", "--for", "5s"]);
    assert!(output.status.success(), "{}", said(&output));
    assert!(folder.path().join("out/index.html").is_file());
    let output = emulate(folder.path(), &["report", "out"]);
    assert!(output.status.success(), "{}", said(&output));
    let page = fs::read_to_string(folder.path().join("out/index.html")).unwrap();
    assert!(page.contains("This run was simulated.") && page.contains("emulate simulate out/plan.toml"), "{page}");
    assert!(!page.contains("kept up") && !page.contains("1970") && !page.contains("Lateness."), "{page}");
}

#[test]
fn seeds_go_on_where_they_stopped() {
    let folder = folder_with(&PLAN.replace("20s", "3s"));
    let seeds = |count: &str, more: &[&str]| {
        let args = ["simulate", "trial.toml", "-o", "out", "--seeds", count];
        emulate(folder.path(), &[&args[..], more].concat())
    };
    let file = |name: &str| folder.path().join("out").join(name);
    let facts = |seed: u32| fs::read_to_string(file(&format!("seed-{seed}/run.json"))).unwrap();
    let objects = |output: Output| -> Vec<Value> {
        assert!(output.status.success(), "{}", said(&output));
        let lines = String::from_utf8(output.stdout).unwrap();
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let mut first = objects(seeds("2", &["--json"]));
    // The real time of its computation is another one with each run.
    let (kept, broken) = (facts(1), facts(2));
    fs::remove_file(file("seed-2/run.json")).unwrap();
    fs::remove_file(file("seed-1/index.html")).unwrap();
    let second = seeds("3", &[]);
    assert!(second.status.success(), "{}", said(&second));
    assert!(said(&second).contains("1 of 3 seeds are complete") && said(&second).contains("3 of 3 seeds passed."));
    assert_eq!(facts(1), kept);
    assert!(file("seed-1/index.html").is_file());
    let hash = |facts: &str| serde_json::from_str::<Value>(facts).unwrap()["lab"]["trace_hash"].clone();
    assert_eq!(hash(&facts(2)), hash(&broken));
    assert!(fs::read_to_string(file("runs.csv")).unwrap().contains("seed-3"));
    let mut told = objects(seeds("3", &["--json"]));
    assert_eq!(told.len(), 3);
    // Times have the digits of the file.
    for name in ["wall_s", "virtual_s"] {
        let time = |object: &mut Value| object.as_object_mut().unwrap().remove(name).unwrap().as_f64().unwrap();
        assert!((time(&mut told[0]) - time(&mut first[0])).abs() < 1e-3, "{name}");
    }
    assert_eq!(told[0], first[0]);
    for (other, why) in [(&["--level", "message"][..], "another level of detail"), (&["--for", "4s"], "another plan")] {
        let refused = seeds("3", other);
        assert!(!refused.status.success() && said(&refused).contains(why), "{}", said(&refused));
    }
}

#[test]
fn seeds_leave_folders_and_one_page() {
    let folder = folder_with(&format!("{PLAN}[movement]\nspeed = 30.0\n"));
    let output = emulate(folder.path(), &["simulate", "trial.toml", "-o", "out", "--seeds", "2", "--for", "5s"]);
    assert!(output.status.success(), "{}", said(&output));
    let read = |name: &str| fs::read_to_string(folder.path().join("out").join(name)).unwrap();
    assert!(read("index.html").contains("All runs were simulated") && read("seed-2/index.html").contains("seed 2"));
    // Each of four nodes has an initial cell and takes steps.
    let positions = read("seed-1/positions.csv");
    let at_first = positions.lines().filter(|line| line.starts_with("0,node")).count();
    assert!(positions.starts_with("t_s,node,x,y\n") && at_first == 4, "{positions}");
    assert!(positions.lines().count() > 9 && read("seed-1/events.jsonl").contains("\"record\":\"position\""));
    // Another seed gives another walk in the same area.
    let compared = emulate(folder.path(), &["compare", "out/seed-1", "out/seed-2"]);
    let said = said(&compared);
    assert!(compared.status.success() && !said.contains("respects") && !said.contains("same ground"), "{said}");
}

#[test]
fn link_sweep_runs_in_virtual_time() {
    let plan = format!("{PLAN}[sweep]\nlinks.net.delay = ['10ms', '200ms']\nseed = [1, 2]\n");
    let folder =
        folder_with(&plan.replace("{ star = { nodes = 5, delay = '40ms', server_delay = '60ms' } }", "'net.toml'"));
    let network = emulate(folder.path(), &["topo", "star", "--nodes", "5"]);
    fs::write(folder.path().join("net.toml"), &network.stdout).unwrap();
    let sweep = ["sweep", "trial.toml", "--simulate", "-o", "out", "--json"];
    let output = emulate(folder.path(), &sweep);
    assert!(output.status.success(), "{}", said(&output));
    let seen: Value = serde_json::from_slice(&output.stdout).unwrap();
    let runs: Vec<&str> = seen["runs"].as_array().unwrap().iter().map(|run| run["run"].as_str().unwrap()).collect();
    assert_eq!(runs, ["10ms_seed-1", "10ms_seed-2", "200ms_seed-1", "200ms_seed-2"]);
    // The delay is an axis and a side of a comparison, and tracks are later by the additional delay.
    let page = fs::read_to_string(folder.path().join("out/index.html")).unwrap();
    assert!(page.contains("delay, ms") && page.contains("All runs were simulated"), "{page}");
    let compared = emulate(folder.path(), &["compare", "out/10ms", "out/200ms"]);
    let told = said(&compared);
    assert!(compared.status.success() && told.contains("links.net.delay: 10ms → 200ms"), "{told}");
    let rows = fs::read_to_string(folder.path().join("out/runs.csv")).unwrap();
    assert!(
        rows.lines().skip(1).all(|row| row.contains(",delay=10ms seed=") || row.contains(",delay=200ms seed=")),
        "{rows}"
    );
    // The sweep resumes with the missing run.
    fs::remove_dir_all(folder.path().join("out/200ms_seed-2")).unwrap();
    let again = emulate(folder.path(), &sweep);
    let is_there = folder.path().join("out/200ms_seed-2/run.json").is_file();
    assert!(again.status.success() && is_there, "{}", said(&again));
}

#[test]
fn sweep_runs_alike_on_all_processors() {
    let topology = "'net.ns'";
    let plan = PLAN.replace("{ star = { nodes = 5, delay = '40ms', server_delay = '60ms' } }", topology);
    let text = "[sweep]\narchitecture = ['client-server', 'super-node']\nfaults = [[], [{ at = '50%', kill = 'hub' }]]\n\
                settings.hub.lease = ['5s']\n";
    let folder = folder_with(&format!("{plan}{text}"));
    let star = emulate(folder.path(), &["topo", "star", "--nodes", "5"]);
    fs::write(folder.path().join("net.toml"), &star.stdout).unwrap();
    let ns = emulate(folder.path(), &["convert", "net.toml", "--to", "ns"]);
    fs::write(folder.path().join("net.ns"), &ns.stdout).unwrap();
    let queue = "topology.lan.net.queue.limit=5,50";
    for (jobs, out) in [("1", "one"), ("3", "three")] {
        let sweep = ["sweep", "trial.toml", "--simulate", "--vary", queue, "--seeds", "2", "-j", jobs, "-o", out];
        let output = emulate(folder.path(), &sweep);
        assert!(output.status.success(), "{}", said(&output));
    }
    let read = |out: &str, file: &str| fs::read_to_string(folder.path().join(out).join(file)).unwrap();
    for file in ["runs.csv", "cells.csv", "effects.csv"] {
        assert_eq!(read("one", file), read("three", file), "{file}");
    }
    let cells = read("three", "cells.csv");
    assert!(cells.contains("faults=kill hub at 50% lease=5s limit=50"), "{cells}");
    assert!(read("three", "index.html").contains("The effect of each factor"));
    // The network in the results is the changed one, and the plan there repeats the run.
    let names: Vec<String> = fs::read_dir(folder.path().join("three"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.contains("limit-5_") || name.ends_with("limit-5"))
        .collect();
    assert_eq!(names.len(), 8, "{names:?}");
    assert!(read("three", &format!("{}/topology.toml", names[0])).contains("limit = 5"));
    let again = emulate(folder.path(), &["simulate", &format!("three/{}/plan.toml", names[0]), "-o", "again"]);
    assert!(again.status.success(), "{}", said(&again));
    assert_eq!(read("again", "events.jsonl"), read("three", &format!("{}/events.jsonl", names[0])));
}

#[test]
fn sweep_mistakes_come_before_any_run() {
    let text = "[sweep]\nlinks.net.dealy = ['1s']\n[[sweep.cases]]\nsettings.hub.media = 'off'\n";
    let folder = folder_with(&format!("{PLAN}{text}"));
    let output =
        emulate(folder.path(), &["sweep", "trial.toml", "--simulate", "--vary", "duration=5s,0s", "-o", "out"]);
    let told = said(&output);
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(told.contains("`dealy` is no key of a link; did you mean `delay`?"), "{told}");
    assert!(told.contains("it must be longer than nothing (in the run "), "{told}");
    assert!(!folder.path().join("out").exists());
}

#[test]
fn quantiles_of_few_requests_are_bracketed() {
    let folder = folder_with(PLAN);
    let output = emulate(folder.path(), &["simulate", "trial.toml", "--for", "5s"]);
    let told = said(&output);
    let track = told.lines().find(|line| line.starts_with("track")).unwrap();
    let cells: Vec<&str> = track.split_whitespace().collect();
    // With fewer than 20 requests a median is a guess, and with fewer than 1000 a 99th percentile.
    let completed: u64 = cells[2].parse().unwrap();
    assert!((1..20).contains(&completed) && cells.len() == 9, "{told}");
    assert!(cells[6..].iter().all(|cell| cell.starts_with('(') && cell.ends_with(')')), "{told}");
}

/// A plan that makes many requests for every service in a short run.
const BUSY: &str = "
topology = { star = { nodes = 5, delay = '40ms', server_delay = '60ms' } }
architecture = 'super-node'
duration = '12s'
stream = '1s'
timeout = '10s'
idle = '200ms'
linktest = false
[classes.star]
mix = { video = 15, track = 25, image = 30, sensor = 25, idle = 5 }
";
/// The most attempts of emulation: a busy machine is late.
const ATTEMPTS: usize = 5;
/// The fewest requests for a service whose median counts.
const ENOUGH: usize = 4;

/// For each service the ratio of each request's time in the first run to that in the second: nodes make the
/// same requests in the same order in both.
fn ratios(first: &Results, second: &Results) -> BTreeMap<String, Vec<f64>> {
    let by_node = |results: &Results| {
        let mut asked: BTreeMap<String, Vec<RequestRecord>> = BTreeMap::new();
        results.requests.iter().for_each(|one| asked.entry(one.node.clone()).or_default().push(one.clone()));
        asked
    };
    let mut ratios: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    let (first, second) = (by_node(first), by_node(second));
    for (node, requests) in first {
        for (ours, theirs) in requests.iter().zip(&second[&node]) {
            assert_eq!((&ours.service, &ours.target), (&theirs.service, &theirs.target), "{node}");
            let both = ours.latency_ms().zip(theirs.latency_ms());
            ratios.entry(ours.service.clone()).or_default().extend(both.map(|(ours, theirs)| ours / theirs));
        }
    }
    ratios
}

/// Differences of two runs beyond the tolerance: completions by 5 %, the latency of a service by 10 %, as the
/// median over its requests.
fn differences(emulated: &Results, simulated: &Results) -> Vec<String> {
    let completed = |results: &Results| {
        results.requests.iter().filter(|request| request.outcome == RequestOutcome::Completed).count() as f64
    };
    let (real, ours) = (completed(emulated), completed(simulated));
    assert!(real > 30.0 && ours > 30.0, "{real} and {ours} completed");
    let mut differences = Vec::new();
    if (real / ours - 1.0).abs() > 0.05 {
        differences.push(format!("{real} completed in emulation, {ours} in simulation"));
    }
    let ratios = ratios(emulated, simulated);
    assert_eq!(ratios.len(), 4, "{ratios:?}");
    for (service, mut ratios) in ratios {
        assert!(ratios.len() >= ENOUGH, "{service}: {ratios:?}");
        ratios.sort_by(f64::total_cmp);
        let median = ratios[ratios.len() / 2];
        if (median - 1.0).abs() > 0.1 {
            differences.push(format!("{service} takes {median:.2} times as long in emulation"));
        }
    }
    differences
}

/// A run in emulation is close to the one in simulation. A run that reports its own lateness may be repeated,
/// but is compared all the same.
#[test]
fn emulation_and_simulation_agree() {
    let _turn = crate::alone();
    for transport in ["udp", "tcp", "quic"] {
        let folder = folder_with(&format!("transport = '{transport}'\n{BUSY}"));
        let output = emulate(folder.path(), &["simulate", "trial.toml", "-o", "virtual"]);
        assert!(output.status.success(), "{}", said(&output));
        let simulated = roost_results::read(&folder.path().join("virtual")).unwrap();
        let mut heard = Vec::new();
        let agrees = (0..ATTEMPTS).any(|attempt| {
            let real = format!("real{attempt}");
            let output = emulate(folder.path(), &["run", "trial.toml", "-o", &real]);
            assert!(matches!(output.status.code(), Some(0 | 4)), "{}", said(&output));
            let emulated = roost_results::read(&folder.path().join(real)).unwrap();
            let (differences, verdict) = (differences(&emulated, &simulated), &emulated.run.verdict);
            let is_near = differences.is_empty();
            heard.push(format!("{differences:?}; emulation says of its run: {:?}", verdict.reasons));
            assert!(is_near || !verdict.valid, "over {transport} a run that can be trusted differs: {heard:#?}");
            is_near
        });
        assert!(agrees, "over {transport} no run came near: {heard:#?}");
    }
}
