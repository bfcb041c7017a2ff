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

const PLACES: &str = "node1=here,node2=m2,node3=m2,node4=here,server=here";

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
    let output = spread(&folder, &["run", "plan.toml", "-o", "out", "--place", PLACES]);
    assert!(matches!(output.status.code(), Some(0 | 4)), "{}", said(&output));
    let results = read(&folder.path().join("out")).unwrap();
    let is_far = |host: &str| PLACES.contains(&format!("{host}=m2"));
    let crosses = |request: &RequestRecord| {
        let provider = request.provider.as_deref().filter(|_| request.outcome == RequestOutcome::Completed);
        provider.is_some_and(|provider| is_far(provider) != is_far(&request.node))
    };
    assert!(results.requests.iter().any(crosses), "{}", said(&output));
    for fact in ["machine m2", "way to m2", "backend of m2", "realtime of m2"] {
        assert!(results.run.lab.contains_key(fact), "{fact}: {:?}", results.run.lab);
    }
    for node in ["node2", "node3"] {
        let counted = &results.nodes[node];
        assert!(counted.last.sent_bytes > counted.first.sent_bytes, "{counted:?}");
        assert!(counted.first.memory_bytes > 0 && counted.last.cpu_s >= counted.first.cpu_s, "{counted:?}");
        let log = fs::read(folder.path().join(format!("out/logs/{node}.log"))).unwrap();
        assert!(!log.is_empty(), "{node}");
    }
}

#[test]
fn wrong_names_are_told_at_once() {
    let folder = Folder::with("pairs.toml", PAIRS);
    for args in [&["run", "pairs.toml", "--check", "--for", "5s"][..], &["linktest", "pairs.toml"]] {
        let output = spread(&folder, &[args, &["--place", "x=m2,a1=m3"]].concat());
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        assert!(said(&output).contains("no host `x`") && said(&output).contains("named `m3`"), "{}", said(&output));
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
