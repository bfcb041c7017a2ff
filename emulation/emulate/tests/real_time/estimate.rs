//! Runs that need more than this machine has are refused before they start.

use std::time::Duration;

use roost_wait::wait_until;

use crate::common::{Folder, json, said};

/// More nodes than any machine carries in real time.
const PLAN: &str = "
topology = { star = { nodes = 4000 } }
architecture = 'super-node'
duration = '5s'
";

#[test]
fn large_plan_is_refused_with_numbers() {
    let folder = Folder::with("plan.toml", PLAN);
    let output = folder.emulate(&["run", "plan.toml", "-o", "out"]);
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    let text = said(&output);
    for part in ["4000 daemons need some", "this machine has", "use at most", "--force runs it all the same"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(text.lines().count(), 1, "once, and not in the sandbox again: {text}");
    assert!(!folder.path().join("out").exists());
}

#[test]
fn check_tells_the_needs() {
    let folder = Folder::with("plan.toml", PLAN);
    let output = folder.emulate(&["run", "plan.toml", "--check", "--json"]);
    assert!(output.status.success(), "{}", said(&output));
    let needs = json(&output.stdout)["would"]["needs"].as_str().unwrap().to_owned();
    assert!(needs.starts_with("4000 daemons need some") && needs.contains("use at most"), "{needs}");
}

#[test]
fn sweep_names_runs_beyond_machine() {
    let folder = Folder::with("plan.toml", &PLAN.replace("4000", "5"));
    let args = ["sweep", "plan.toml", "--vary", "topology.star.nodes=5,4000", "-o", "out"];
    let output = folder.emulate(&args);
    let text = said(&output);
    assert_eq!(output.status.code(), Some(3), "{text}");
    assert!(text.contains("1 of 2 runs need more") && text.contains("4000 daemons need some"), "{text}");
    assert!(!folder.path().join("out").exists());
}

#[test]
fn forced_run_begins() {
    let _turn = crate::beside();
    let folder = Folder::with("plan.toml", &PLAN.replace("4000", "1000"));
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
