//! Plans from end to end: `emulate run` with the real daemons in a lab.
//!
//! The validity of a run depends on this machine's other load, so both exit codes of a complete run are
//! correct.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::RwLockReadGuard;
use std::time::Duration;

use roost_results::Results;
use roost_results::record::{ProgramEnd, RequestOutcome, RequestRecord};
use roost_wait::wait_until;

/// The longest wait for an expected event.
const PATIENCE: Duration = Duration::from_secs(90);

const PLAN: &str = "
topology = { star = { nodes = 5, delay = '5ms', server_delay = '20ms' } }
architecture = 'super-node'
duration = '5s'
stream = '1s'
timeout = '10s'
linktest = false
";

/// A folder with a plan, and the exclusive right to run it.
struct RunFixture {
    folder: tempfile::TempDir,
    _turn: RwLockReadGuard<'static, ()>,
}

impl RunFixture {
    fn from_plan(plan: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("trial.toml"), plan).unwrap();
        Self { folder, _turn: crate::beside() }
    }

    fn results(&self) -> PathBuf {
        self.folder.path().join("out")
    }

    fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_emulate"));
        command.args(["run", "trial.toml", "-o", "out"]).current_dir(self.folder.path()).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn run(&self) -> Results {
        let output = self.command().output().unwrap();
        assert!(matches!(output.status.code(), Some(0 | 4)), "{}", said(&output));
        assert!(String::from_utf8_lossy(&output.stdout).contains("services completed by"), "{}", said(&output));
        roost_results::read(&self.results()).unwrap()
    }

    /// Starts it and waits until requests have ended.
    fn start(&self) -> Child {
        let mut child = self.command().spawn().unwrap();
        let events = || fs::read_to_string(self.results().join("events.jsonl")).unwrap_or_default();
        let has_ended = || events().contains("\"record\":\"request\"");
        let ended =
            wait_until(PATIENCE, || if has_ended() { Some(true) } else { child.try_wait().unwrap().map(|_| false) });
        if ended != Some(true) {
            // The process may have ended by itself.
            let _ = child.kill();
            let mut text = String::new();
            child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
            panic!("no request has ended: {text}");
        }
        child
    }
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn completed(results: &Results) -> Vec<&RequestRecord> {
    let completed = results.requests.iter().filter(|request| request.outcome == RequestOutcome::Completed);
    completed.collect()
}

/// Checks that packets in equal packets out, dropped and inside.
fn check_conservation(results: &Results) {
    assert!(!results.links.is_empty());
    for link in &results.links {
        let dropped = link.dropped_queue + link.dropped_loss + link.dropped_down;
        assert_eq!(link.packets_in, link.packets_out + dropped + link.in_flight, "{link:?}");
    }
}

/// The process id, in this process's namespace, of the daemon with the results as its working folder and
/// `argument` in its command line.
fn daemon(results: &Path, argument: &str) -> Option<u32> {
    let of = |entry: fs::DirEntry| {
        let line = fs::read(entry.path().join("cmdline")).ok()?;
        let folder = fs::read_link(entry.path().join("cwd")).ok()?;
        let found = folder == results && line.split(|byte| *byte == 0).any(|word| word == argument.as_bytes());
        found.then(|| entry.file_name().to_str()?.parse().ok()).flatten()
    };
    fs::read_dir("/proc").unwrap().flatten().find_map(of)
}

fn signal(name: &str, process: u32) {
    assert!(Command::new("kill").args([name, &process.to_string()]).status().unwrap().success());
}

#[test]
fn data_flows_and_counters_conserve() {
    let trial = RunFixture::from_plan(PLAN);
    let results = trial.run();
    let run = &results.run;
    assert_eq!((run.nodes, run.hubs.as_slice(), run.interrupted), (4, ["node1".to_owned()].as_slice(), false));
    assert!(run.versions.contains_key("supernode") && run.lab.contains_key("backend") && run.lab.contains_key("tcp"));
    let programs: Vec<&str> = run.binaries.keys().map(String::as_str).collect();
    assert_eq!(programs, ["emulate", "overlay-node", "roost", "supernode"]);
    assert!(run.binaries.values().all(|hash| hash.len() == 64) && !run.build.is_empty());
    assert!(run.verdict.cpu_busy.is_some() && run.verdict.most_starved.is_some() && run.verdict.late_seconds.is_some());
    assert!(run.verdict.not_measured.iter().any(|what| what.contains("linktest was left out")), "{:?}", run.verdict);
    assert!(run.ran_s >= 5.0, "{}", run.ran_s);
    let completed = completed(&results);
    assert!(completed.len() >= 4, "{} completed", completed.len());
    assert!(completed.iter().any(|request| request.first_contact == Some(true)), "{completed:?}");
    for request in completed {
        assert_eq!(request.provider.as_deref(), Some(request.target.as_str()), "{request:?}");
        assert!(request.first_contact.is_some(), "{request:?}");
        assert!(!request.relayed && request.node != request.target, "{request:?}");
        let over = if matches!(request.service.as_str(), "video" | "track") { "udp" } else { "tcp" };
        assert_eq!(request.transport.as_deref(), Some(over));
        // Found over the hub's legs and fetched over the provider's: at least 10 ms each way.
        assert!(request.first_byte_ms.unwrap() > 20.0 || request.node == "node1", "{request:?}");
    }
    assert_eq!(results.nodes["node1-hub"].last.traffic_sent_bytes["payload"], 0);
    let server = results.links.iter().filter(|link| link.host == "server");
    assert!(server.into_iter().all(|link| link.packets_in == 0), "nobody speaks to the idle server");
    check_conservation(&results);
    assert!(results.samples.len() >= 5);
    let folder = trial.results();
    for file in [
        "index.html",
        "summary.csv",
        "requests.csv",
        "plan.toml",
        "topology.toml",
        "logs/node1.log",
        "logs/node1-hub.log",
    ] {
        assert!(folder.join(file).is_file(), "{file}");
    }
    assert!(!folder.join("run").exists(), "keys and sockets are not kept");
}

/// After two seconds every node has moved, so a provider that is found has published its move.
#[test]
fn daemons_follow_planned_mobility() {
    let trial =
        RunFixture::from_plan(&(PLAN.replace("duration = '5s'", "duration = '20s'") + "[movement]\nspeed = 30.0\n"));
    let asked = trial.run().requests;
    let late: Vec<&RequestRecord> = asked.iter().filter(|request| request.t > 3.0).collect();
    let found = late.iter().filter(|request| request.provider.as_ref() == Some(&request.target)).count();
    // A node that steps while a request for its cell is on its way is not found.
    assert!(late.len() >= 15 && found * 100 >= late.len() * 85, "{found} of {}: {late:?}", late.len());
}

#[test]
fn architecture_override_needs_plan() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("trial.toml"), PLAN).unwrap();
    fs::write(folder.path().join("net.toml"), "[[host]]\nname = 'a'\n").unwrap();
    let check = |file: &str, architecture: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_emulate"));
        command.args(["run", file, "--check", "--architecture", architecture]).current_dir(folder.path());
        let output = command.output().unwrap();
        (output.status.code(), said(&output))
    };
    let (code, said) = check("trial.toml", "client-server");
    assert!(code == Some(0) && said.contains("client-server on server"), "{said}");
    let (code, said) = check("trial.toml", "multicast");
    assert!(code == Some(0), "{said}");
    let (code, said) = check("trial.toml", "client-server-caching");
    assert!(code == Some(0) && said.contains("client-server-caching on server, node1"), "{said}");
    let (code, said) = check("net.toml", "client-server");
    assert!(code == Some(2) && said.contains("net.toml is a topology: only a plan has"), "{said}");
}

#[test]
fn nodes_discover_by_multicast_only() {
    let trial = RunFixture::from_plan(&PLAN.replace("'super-node'", "'multicast'"));
    let results = trial.run();
    assert!(results.run.hubs.is_empty(), "{:?}", results.run.hubs);
    let completed = completed(&results);
    assert!(completed.len() >= 4, "{} completed", completed.len());
    for request in completed {
        assert_eq!(request.provider.as_deref(), Some(request.target.as_str()), "{request:?}");
        assert!(!request.relayed, "{request:?}");
    }
    let groups: u64 = results.links.iter().map(|link| link.multicast_bytes_in).sum();
    assert!(groups > 0, "the inquiries went through the emulated switch");
    check_conservation(&results);
}

#[test]
fn multicast_serves_after_hub_death() {
    let fault = "
        [[faults]]
        at = '1s'
        kill = 'node1'
        hub = true
    ";
    let trial = RunFixture::from_plan(&format!("{}{fault}", PLAN.replace("'super-node'", "'super-node-multicast'")));
    let results = trial.run();
    assert_eq!(results.run.hubs, ["node1"]);
    let late = completed(&results).into_iter().filter(|request| request.t > 2.0).count();
    assert!(late >= 2, "{late} requests completed after the hub had died");
    assert!(results.links.iter().map(|link| link.multicast_bytes_in).sum::<u64>() > 0);
    check_conservation(&results);
}

#[test]
fn server_relays_all_and_faults_occur() {
    let faults = "
        [[faults]]
        at = '1500ms'
        kill = 'node4'
        [[faults]]
        at = '2s'
        down = 'net'
        from = 'node3'
        [[faults]]
        at = '4s'
        up = 'net'
        from = 'node3'
        [[faults]]
        at = '2600ms'
        stop = 'node2'
        [[faults]]
        at = '2600ms'
        start = 'node2'
        [[faults]]
        at = '3s'
        start = 'node4'
    ";
    let plan = PLAN.replace("super-node", "client-server").replace("duration", "warm_up = '1s'\nduration");
    let results = RunFixture::from_plan(&format!("{plan}{faults}")).run();
    assert!((results.run.warm_up_s - 1.0).abs() < 1e-9 && results.requests.iter().all(|request| request.t >= 0.0));
    assert_eq!(results.run.hubs, ["server"]);
    let completed = completed(&results);
    assert!(!completed.is_empty() && completed.iter().all(|request| request.relayed), "{completed:?}");
    assert!(results.nodes["server-hub"].last.traffic_sent_bytes["payload"] > 10_000);
    let incidents: Vec<(&str, f64)> =
        results.incidents.iter().map(|incident| (incident.what.as_str(), incident.t)).collect();
    let expected = [
        ("the node on node4 is killed", 1.5),
        ("net, from node3 is down", 2.0),
        ("the node on node2 is asked to leave", 2.6),
        ("the node on node2 is started again", 2.6),
        ("the node on node4 is started again", 3.0),
        ("net, from node3 is up", 4.0),
    ];
    assert_eq!(incidents.iter().map(|(what, _)| *what).collect::<Vec<_>>(), expected.map(|(what, _)| what));
    assert!(incidents.iter().zip(expected).all(|(seen, (_, at))| seen.1 >= at), "{incidents:?}");
    let latest = incidents.iter().zip(expected).filter(|(seen, _)| !seen.0.starts_with("net"));
    let latest = latest.map(|(seen, (_, at))| seen.1 - at).fold(0.0, f64::max);
    let told = results.run.verdict.schedule_late_ms.unwrap();
    assert!((told - latest * 1e3).abs() < 0.001, "{told} ms, and {latest} s");
    assert!(incidents[1].1 == 2.0 && incidents[5].1 == 4.0, "what links do is exact: {incidents:?}");
    assert!(!results.run.verdict.reasons.iter().any(|reason| reason.contains("died")), "the plan killed it");
    let killed = &results.nodes["node4"];
    assert!(killed.last.sent_bytes > killed.first.sent_bytes + 1_000, "both of its processes count: {killed:?}");
    let to_net =
        |host: &str| results.links.iter().find(|link| link.host == host && link.direction == "to-net").unwrap();
    assert!(to_net("node3").dropped_down > 0, "{:?}", to_net("node3"));
    let (left, carried) = (&results.nodes["node2"], to_net("node2").bytes_in);
    let sent = left.last.sent_bytes - left.first.sent_bytes;
    assert!(sent <= carried, "what one that left had counted is counted once: {sent} of {carried} bytes");
    check_conservation(&results);
}

#[test]
fn frozen_daemon_resumes_and_reports() {
    let faults = "[[faults]]\nat = '1s'\nfreeze = 'node2'\n[[faults]]\nat = '3s'\nthaw = 'node2'\n\
        [[faults]]\nat = '4s'\nfreeze = 'node3'\n";
    let trial = RunFixture::from_plan(&format!("{PLAN}{faults}"));
    let results = trial.run();
    let told: Vec<&str> = results.incidents.iter().map(|incident| incident.what.as_str()).collect();
    let expected = ["the node on node2 stands still", "the node on node2 goes on", "the node on node3 stands still"];
    assert_eq!(told, expected);
    let ended = |request: &RequestRecord| request.t + request.elapsed_ms / 1e3;
    let own: Vec<&RequestRecord> = results.requests.iter().filter(|request| request.node == "node2").collect();
    // On a busy machine events are recorded a little late, and the origins of requests and faults are up to a
    // few milliseconds apart.
    assert!(own.iter().all(|request| !(1.5..2.95).contains(&ended(request))), "{own:?}");
    assert!(own.iter().any(|request| ended(request) > 2.95 && request.outcome == RequestOutcome::Completed), "{own:?}");
    let reasons = &results.run.verdict.reasons;
    assert!(!reasons.iter().any(|reason| reason.contains("did not say")), "{reasons:?}");
}

#[test]
fn warm_up_ends_before_run() {
    // Streams of the warm-up last far longer than the run.
    let plan = PLAN.replace("'5s'", "'1s'\nwarm_up = '500ms'").replace("stream = '1s'", "stream = '3s'");
    let video = "[classes.star]\nmix = { video = 100 }\nlocality = 'anywhere'\n";
    let results = RunFixture::from_plan(&format!("{plan}{video}")).run();
    let asked: BTreeSet<&str> = results.requests.iter().map(|request| request.node.as_str()).collect();
    assert_eq!(asked.len(), 4, "every node asks in the first second: {asked:?}");
    let verdict = &results.run.verdict;
    assert!(verdict.start_gap_ms.is_some() && verdict.daemons_before_ms.is_some_and(|ms| ms > 0.0), "{verdict:?}");
    check_conservation(&results);
}

#[test]
fn dead_daemon_is_reported_run_continues() {
    let trial = RunFixture::from_plan(PLAN);
    let child = trial.start();
    let victim = daemon(&fs::canonicalize(trial.results()).unwrap(), "run/node3.sock").expect("node3 runs");
    signal("-KILL", victim);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(4), "{}", said(&output));
    let results = roost_results::read(&trial.results()).unwrap();
    let died: Vec<_> = results.incidents.iter().filter(|incident| incident.object == "node3").collect();
    assert!(died.len() == 1 && died[0].what.starts_with("died: it ended (signal: 9"), "{died:?}");
    assert!(results.run.verdict.reasons.iter().any(|reason| reason.starts_with("node3 died after ")));
    assert!(results.run.ran_s >= 5.0 && !results.run.interrupted);
    assert!(
        results.requests.iter().any(|request| request.t > died[0].t && request.outcome == RequestOutcome::Completed)
    );
}

#[test]
fn interrupted_run_keeps_measurements() {
    let trial = RunFixture::from_plan(&PLAN.replace("5s'\nstream", "10m'\nstream"));
    let child = trial.start();
    let folder = fs::canonicalize(trial.results()).unwrap();
    assert!(daemon(&folder, "run/node1.sock").is_some());
    assert_eq!(fs::read_dir(folder.join("run")).unwrap().count(), 0, "keys are in nobody else's sight");
    signal("-INT", child.id());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", said(&output));
    let results = roost_results::read(&trial.results()).unwrap();
    assert!(results.run.interrupted && results.run.ran_s < results.run.duration_s);
    assert!(
        !completed(&results).is_empty() && !results.links.is_empty() && trial.results().join("index.html").exists()
    );
    assert!(daemon(&folder, "run/node1.sock").is_none(), "everything has been stopped");
}

#[test]
fn a_wrong_plan_starts_nothing() {
    let trial = RunFixture::from_plan(&PLAN.replace("timeout", "tiemout"));
    let output = trial.command().output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(said(&output), "error: trial.toml:6: `tiemout` is no key of a plan; did you mean `timeout`?\n");
    assert!(!trial.results().exists());
}

#[test]
fn foreign_file_is_refused() {
    let trial = RunFixture::from_plan("title = 'notes'\n");
    let output = trial.command().arg("--check").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).starts_with("error: trial.toml is neither a plan nor a topology"), "{}", said(&output));
}

#[test]
fn check_describes_without_running() {
    let trial = RunFixture::from_plan(PLAN);
    let output = trial.command().arg("--check").output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    assert!(String::from_utf8_lossy(&output.stdout).contains("super-node on node1"), "{}", said(&output));
    let output = trial.command().args(["--check", "--json"]).output().unwrap();
    let would: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&would["schema"], &would["would"]["architecture"]), (&2.into(), &"super-node on node1".into()));
    assert!(would["at_most_s"].as_f64().unwrap() > 0.0, "{would}");
    assert!(!trial.results().exists());
}

const NETWORK: &str = "
[defaults]
rate = '1Mbit'
delay = '10ms'
[[host]]
name = ['a', 'b']
[[link]]
name = 'wire'
between = ['a', 'b']

[[program]]
name = 'greet'
host = 'b'
command = 'echo I am $(hostname); pwd >&2; exit 3'
exit = 3
[[program]]
name = 'long'
host = 'a'
command = 'sleep 600'
timeout = '1s'
[[program]]
name = 'second'
host = 'a'
command = 'true'
[[program]]
name = 'stopped'
host = 'a'
command = 'sleep 600'
start = '0s'
[[program]]
name = 'signalled'
host = 'a'
command = 'trap \"exit 9\" HUP; while :; do sleep 0.05; done'
start = '0s'
exit = 9

[[traffic]]
name = 'cbr'
host = 'a'
role = 'source'
target = 'b'
port = 5001
packet = 500
rate = '200kbit'
[[traffic]]
name = 'ftp'
host = 'b'
role = 'source'
protocol = 'tcp'
target = 'a'
port = 5002

[[event]]
at = '100ms'
program = 'greet'
do = 'start'
[[event]]
at = '200ms'
id = 'waits'
program = 'long'
do = 'run'
[[event]]
at = '300ms'
after = 'waits'
program = 'second'
do = 'start'
[[event]]
at = '1s'
program = 'stopped'
do = 'stop'
[[event]]
at = '1s'
program = 'signalled'
do = 'kill'
signal = 'HUP'
[[event]]
at = '500ms'
traffic = 'cbr'
do = 'start'
[[event]]
at = '2500ms'
traffic = 'cbr'
do = 'stop'
[[event]]
at = '500ms'
traffic = 'ftp'
do = 'start'
[[event]]
at = '2500ms'
traffic = 'ftp'
do = 'stop'
[[event]]
at = '2s'
net = 'wire'
from = 'a'
do = 'down'
";

#[test]
fn network_runs_scheduled_programs_and_traffic() {
    let trial = RunFixture::from_plan(NETWORK);
    let output = trial.command().arg("--no-linktest").output().unwrap();
    assert!(matches!(output.status.code(), Some(0 | 4)), "{}", said(&output));
    let results = roost_results::read(&trial.results()).unwrap();
    let ended = |name: &str| results.programs.iter().find(|program| program.program == name).unwrap();
    assert!(results.programs.len() == 5 && results.programs.iter().all(|program| program.as_expected), "{results:?}");
    assert_eq!((ended("greet").code, ended("greet").end), (Some(3), ProgramEnd::Exited));
    assert_eq!((ended("signalled").code, ended("stopped").end), (Some(9), ProgramEnd::Stopped));
    let long = ended("long");
    assert!(long.end == ProgramEnd::TimedOut && long.elapsed_s >= 1.0, "{long:?}");
    assert!(ended("second").t >= long.t + long.elapsed_s - 0.01, "it waits for the other's end");
    let wrote = |file: &str| fs::read_to_string(trial.results().join("programs").join(file)).unwrap();
    assert_eq!(wrote("greet.out"), "I am b\n");
    assert_eq!(Path::new(wrote("greet.err").trim()), fs::canonicalize(trial.folder.path()).unwrap());
    let agent = |name: &str| results.traffic.iter().find(|agent| agent.agent == name).unwrap();
    // 50 packets a second for 2 s; the link was down for the last half second.
    let (sent, came) = (agent("cbr").packets, agent("cbr-sink").packets);
    assert!(sent <= 101 && 0 < came && came < sent, "{sent} sent, {came} came");
    assert!(agent("ftp-sink").bytes > 100_000 && agent("ftp").protocol == "tcp", "{:?}", results.traffic);
    assert!(results.incidents.iter().any(|incident| incident.what == "wire, from a is down"));
    check_conservation(&results);
}

#[test]
fn failed_program_fails_run() {
    let network = "[defaults]\nrate = '1Mbit'\n[[host]]\nname = ['a', 'b']\n[[link]]\nbetween = ['a', 'b']\n
        [[program]]\nname = 'p'\nhost = 'a'\ncommand = 'exit 7'\nstart = '0s'\n
        [[program]]\nname = 'q'\nhost = 'a'\ncommand = 'true'\nfolder = 'nowhere'\nstart = '0s'\n";
    let trial = RunFixture::from_plan(network);
    let output = trial.command().arg("--no-linktest").output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("2 of 2 programs did not end as expected"), "{}", said(&output));
    assert!(said(&output).contains("its folder ") && said(&output).contains("nowhere is not there"));
}

#[test]
fn idle_network_is_refused() {
    let trial = RunFixture::from_plan(
        "[defaults]\nrate = '1Mbit'\n[[host]]\nname = ['a', 'b']\n[[link]]\nbetween = ['a', 'b']\n",
    );
    let output = trial.command().output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains("trial.toml: nothing starts a program or traffic"), "{}", said(&output));
}

#[test]
fn sweep_continues_after_failed_start() {
    let plan = PLAN.replace("'5s'", "'1s'").replace("nodes = 5", "nodes = 3");
    let trial = RunFixture::from_plan(&format!("{plan}\n[sweep]\nseed = [1]\n"));
    // A folder of programs, one of which ends at once.
    let programs = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let built = Path::new(env!("CARGO_BIN_EXE_emulate")).parent().unwrap();
    for name in ["emulate", "roost", "overlay-node"] {
        fs::hard_link(built.join(name), programs.path().join(name)).unwrap();
    }
    let hub = programs.path().join("supernode");
    fs::write(&hub, "#!/bin/sh\necho no room here >&2\nexit 3\n").unwrap();
    fs::set_permissions(&hub, fs::Permissions::from_mode(0o755)).unwrap();
    for _ in 0..2 {
        let mut command = Command::new(programs.path().join("emulate"));
        command.args(["sweep", "trial.toml", "-o", "out"]).current_dir(trial.folder.path()).stdin(Stdio::null());
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", said(&output));
        assert!(said(&output).contains("it last said: no room here; the daemons' logs are in "), "{}", said(&output));
    }
    let folder = trial.results().join("seed-1");
    assert!(folder.join("logs/node1-hub.log").is_file() && !folder.join("run.json").exists());
}

#[test]
fn sweep_resumes_incomplete_runs() {
    let plan = PLAN.replace("'5s'", "'1s'").replace("nodes = 5", "nodes = 3");
    let trial = RunFixture::from_plan(&format!("{plan}\n[sweep]\nseed = [1, 2]\n"));
    let sweep = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_emulate"));
        // The validity of a run depends on this machine's other load.
        command
            .args(["sweep", "trial.toml", "-o", "out", "--keep-invalid"])
            .current_dir(trial.folder.path())
            .stdin(Stdio::null());
        command.output().unwrap()
    };
    let output = sweep();
    assert!(matches!(output.status.code(), Some(0 | 4)), "{}", said(&output));
    assert!(said(&output).contains("2 of 2: seed-2"), "{}", said(&output));
    let run = |seed: &str| trial.results().join(seed).join("run.json");
    let first = fs::read(run("seed-1")).unwrap();
    assert_eq!(roost_results::read(&trial.results().join("seed-2")).unwrap().run.varied["seed"], "2");
    // As after a run that broke off.
    fs::remove_file(run("seed-2")).unwrap();
    let output = sweep();
    assert!(said(&output).contains("1 of 1: seed-2") && run("seed-2").exists(), "{}", said(&output));
    assert_eq!(fs::read(run("seed-1")).unwrap(), first);
    assert!(trial.results().join("index.html").is_file());
    let text = fs::read_to_string(run("seed-1")).unwrap();
    let other = text.replace("\"roost\": \"", "\"roost\": \"0");
    assert_ne!(other, text);
    fs::write(run("seed-1"), other).unwrap();
    let output = sweep();
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains("a run of other programs than those that are here now"), "{}", said(&output));
    fs::write(run("seed-1"), text.replace("\"valid\": true", "\"valid\": false")).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_emulate"));
    command.args(["sweep", "trial.toml", "-o", "out", "--check"]).current_dir(trial.folder.path());
    assert!(said(&command.output().unwrap()).contains("not valid, to be run again"));
    fs::write(trial.folder.path().join("trial.toml"), format!("{plan}idle = '2s'\n[sweep]\nseed = [1, 2]\n")).unwrap();
    let output = sweep();
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains("holds a run of another plan"), "{}", said(&output));
}
