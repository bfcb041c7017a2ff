//! Labs of two machines. The second one is an agent on this machine, which the trunk reaches over the loopback.

use std::fs;
use std::process::Output;

use roost_results::read;
use roost_results::record::{RequestOutcome, RequestRecord};

use crate::common::{Folder, TestTerminal, json, said};

const PAIRS: &str = "
[defaults]
rate = '10Mbit'
[[host]]
name = ['a1', 'a2', 'b1', 'b2']
[[link]]
between = ['a1', 'a2']
[[link]]
between = ['b1', 'b2']
[[link]]
name = 'far'
between = ['a2', 'b1']
delay = '40ms'
";

const PLAN: &str = "
topology = { star = { nodes = 5, delay = '40ms', server_delay = '40ms' } }
architecture = 'super-node'
duration = '5s'
stream = '1s'
timeout = '10s'
linktest = false
";

/// Runs the command with an agent as machine `m2`, and a hold for which a busy machine does not matter.
fn spread(folder: &Folder, args: &[&str]) -> Output {
    let program = TestTerminal::program();
    let mut all = args.to_vec();
    all.extend(["--machines", "m2=127.0.0.1", "--via", program.as_str(), "--hold", "15ms"]);
    folder.emulate(&all)
}

#[test]
fn hosts_reach_hosts_of_another_machine() {
    let _turn = crate::beside();
    let folder = Folder::with("pairs.toml", PAIRS);
    let output = spread(&folder, &["linktest", "pairs.toml", "--only", "routes", "--json", "--place", "a1=here"]);
    assert!(output.status.success(), "{}", said(&output));
    assert!(said(&output).contains("hosts by machine: here 2, m2 2"), "{}", said(&output));
    let reach = &json(&output.stdout)["linktest"]["reach"];
    assert_eq!((reach["tried"].as_u64(), reach["failed"].as_u64()), (Some(12), Some(0)), "{reach}");
}

#[test]
fn plan_runs_on_two_machines() {
    let _turn = crate::beside();
    let folder = Folder::with("plan.toml", PLAN);
    let output = spread(&folder, &["run", "plan.toml", "-o", "out"]);
    assert!(matches!(output.status.code(), Some(0 | 4)), "{}", said(&output));
    let results = read(&folder.path().join("out")).unwrap();
    let is_completed = |request: &RequestRecord| request.outcome == RequestOutcome::Completed;
    assert!(results.requests.iter().any(is_completed), "{}", said(&output));
    // All daemons gave their counters, and their messages are here.
    assert!(results.run.lab.contains_key("machine m2"), "{:?}", results.run.lab);
    for node in results.nodes.keys() {
        assert!(fs::exists(folder.path().join(format!("out/logs/{node}.log"))).unwrap(), "{node}");
    }
}

#[test]
fn short_link_between_machines_is_refused() {
    let folder = Folder::with("pairs.toml", PAIRS);
    let output = spread(&folder, &["linktest", "pairs.toml", "--place", "a1=here,a2=m2"]);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(said(&output).contains("needs at least 15ms"), "{}", said(&output));
}

#[test]
fn machine_without_agent_is_named() {
    let folder = Folder::with("pairs.toml", PAIRS);
    let args = ["linktest", "pairs.toml", "--machines", "m2=127.0.0.1", "--via", "true"];
    let output = folder.emulate(&args);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("machine m2: no agent began there"), "{}", said(&output));
    let output = folder.emulate(&["linktest", "pairs.toml", "--place", "a1=m2"]);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
}
