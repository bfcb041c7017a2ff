//! Runs that need more than this machine has are refused before they start.

use std::process::Output;
use std::time::Duration;

use roost_wait::wait_until;

use crate::common::{Folder, json, said};

/// More hosts than 300 open files suffice for.
const PLAN: &str = "
topology = { star = { nodes = 401 } }
architecture = 'super-node'
duration = '5s'
";

/// Runs the command where a process may have 300 open files, so that any machine is too small.
fn limited(folder: &Folder, args: &[&str]) -> Output {
    let mut command = std::process::Command::new("prlimit");
    command.arg("--nofile=300").arg(crate::common::TestTerminal::program()).args(args);
    command.current_dir(folder.path()).env("TERM", "dumb").stdin(std::process::Stdio::null()).output().unwrap()
}

#[test]
fn large_plan_is_refused_with_numbers() {
    let folder = Folder::with("plan.toml", PLAN);
    let output = limited(&folder, &["run", "plan.toml", "-o", "out"]);
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    let text = said(&output);
    for part in
        ["401 daemons need some", "this machine has", "300 are left", "use at most", "--force runs it all the same"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(text.lines().count(), 1, "once, and not in the sandbox again: {text}");
    assert!(!folder.path().join("out").exists());
}

#[test]
fn check_tells_the_needs() {
    let folder = Folder::with("plan.toml", PLAN);
    let output = limited(&folder, &["run", "plan.toml", "--check", "--json"]);
    assert!(output.status.success(), "{}", said(&output));
    let needs = json(&output.stdout)["would"]["needs"].as_str().unwrap().to_owned();
    assert!(needs.starts_with("401 daemons need some") && needs.contains("use at most"), "{needs}");
}

#[test]
fn sweep_names_runs_beyond_machine() {
    let folder = Folder::with("plan.toml", &PLAN.replace("401", "5"));
    let args = ["sweep", "plan.toml", "--vary", "topology.star.nodes=5,401", "-o", "out"];
    let output = limited(&folder, &args);
    let text = said(&output);
    assert_eq!(output.status.code(), Some(3), "{text}");
    assert!(text.contains("1 of 2 runs need more") && text.contains("401 daemons need some"), "{text}");
    assert!(!folder.path().join("out").exists());
}

#[test]
fn forced_run_begins() {
    let _turn = crate::beside();
    let folder = Folder::with("plan.toml", &PLAN.replace("401", "1000"));
    let mut child = std::process::Command::new(crate::common::TestTerminal::program())
        .current_dir(folder.path())
        .args(["run", "plan.toml", "-o", "out", "--force", "--quiet"])
        .spawn()
        .unwrap();
    let begins = || folder.path().join("out/topology.toml").exists().then_some(());
    wait_until(Duration::from_secs(60), begins).expect("it does not begin");
    assert!(std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

#[test]
fn machines_are_not_called_in_vain() {
    let folder = Folder::with("plan.toml", &PLAN.replace("401", "4097"));
    let machines = ["--machines", "m2=127.0.0.1", "--via", "touch called"];
    let output = folder.emulate(&[&["run", "plan.toml", "-o", "out"], machines.as_slice()].concat());
    assert!(!output.status.success() && said(&output).contains("at most 4096 hosts"), "{}", said(&output));
    assert!(!folder.path().join("called").exists(), "{}", said(&output));
}

#[test]
fn warning_comes_before_the_call() {
    let folder = Folder::with("plan.toml", PLAN);
    folder.write("agent.sh", "echo the agent begins >&2\n");
    let machines = ["--machines", "m2=127.0.0.1", "--via", "sh agent.sh"];
    let output = limited(&folder, &[&["run", "plan.toml", "-o", "out"], machines.as_slice()].concat());
    let text = said(&output);
    let (warned, called) = (text.find("300 are left").expect(&text), text.find("the agent begins").expect(&text));
    assert!(warned < called && text.matches("300 are left").count() == 1, "{text}");
    assert!(text.contains("this machine's part,") && !text.contains("or --machines"), "{text}");
}

#[test]
fn simulated_sweep_is_not_estimated() {
    let folder = Folder::with("plan.toml", &PLAN.replace("'5s'", "'1s'").replace("401", "120"));
    let args = ["sweep", "plan.toml", "--vary", "seed=1,2", "--simulate", "-o", "out"];
    let output = limited(&folder, &args);
    assert!(output.status.success() && !said(&output).contains("are left"), "{}", said(&output));
}
