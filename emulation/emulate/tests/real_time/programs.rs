//! Programs of plans: what they learn, print, measure and leave behind.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::RwLockReadGuard;

use roost_results::Results;
use roost_results::record::{MeasurementKind, ProgramEnd, ProgramRecord};

const PLAN: &str = "
topology = { star = { nodes = 4, delay = '5ms', server_delay = '20ms' } }
architecture = 'programs'
duration = '20s'
linktest = false
";

struct ProgramTrial {
    folder: tempfile::TempDir,
    _turn: RwLockReadGuard<'static, ()>,
}

impl ProgramTrial {
    fn new(plan: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("trial.toml"), plan).unwrap();
        Self { folder, _turn: crate::beside() }
    }

    fn emulate(&self, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_emulate"));
        command.args(args).current_dir(self.folder.path()).stdin(Stdio::null()).output().unwrap()
    }

    fn out(&self) -> PathBuf {
        self.folder.path().join("out")
    }

    /// The code of the command, and the results.
    fn run(&self) -> (i32, Results) {
        let (code, results, _) = self.run_and_print();
        (code, results)
    }

    fn run_and_print(&self) -> (i32, Results, String) {
        let output = self.emulate(&["run", "trial.toml", "-o", "out"]);
        let results = roost_results::read(&self.out());
        let results = results.unwrap_or_else(|error| panic!("{error}: {}", said(&output)));
        (output.status.code().unwrap(), results, said(&output))
    }
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn program(name: &str, host: &str, command: &str) -> String {
    format!("[[program]]\nname = '{name}'\nhost = '{host}'\ncommand = '''{command}'''\n")
}

fn ended<'a>(results: &'a Results, name: &str) -> &'a ProgramRecord {
    results.programs.iter().find(|program| program.program == name).unwrap_or_else(|| panic!("{name} has not ended"))
}

fn values(results: &Results, measure: &str) -> Vec<f64> {
    let of = results.measurements.iter().filter(|one| one.measure == measure);
    of.map(|one| one.value).collect()
}

#[test]
fn programs_measure_and_end_the_run() {
    let ping = "ping -c 3 -i 0.2 server | sed -n \"s/.*time=\\([0-9.]*\\) ms/{\\\"measure\\\":\\\"rtt\\\",\\\"value\\\":\\1,\
        \\\"unit\\\":\\\"ms\\\",\\\"better\\\":\\\"lower\\\"}/p\"; echo done";
    let facts = "echo $EMULATE_SEED $EMULATE_PROGRAM $EMULATE_HOST $EMULATE_ADDRESS $SYSTEM $TRIES; \
        echo hello > $EMULATE_FOLDER/own; echo $EMULATE_HOSTS >&2";
    let plan = format!(
        "{PLAN}seed = 7\n[environment]\nSYSTEM = 'x'\n{}exit = 0\n{}environment = {{ TRIES = 3 }}\n",
        program("ask", "node[1-2]", ping),
        program("tell", "node3", facts)
    );
    let trial = ProgramTrial::new(&plan);
    let (code, results, printed) = trial.run_and_print();
    assert!(matches!(code, 0 | 4), "{:?}", results.run.verdict);
    let printed = printed.lines().skip_while(|line| !line.starts_with("MEASUREMENT")).nth(1).unwrap_or_default();
    let printed: Vec<&str> = printed.split_whitespace().collect();
    assert!(printed.len() > 4 && (&printed[..2], printed[3]) == (&["rtt", "6"][..], "ms"), "{printed:?}");
    assert!(results.programs.iter().all(|program| program.as_expected && program.end == ProgramEnd::Exited));
    assert!(results.run.ran_s < 15.0, "the run ends with its programs, not after {} s", results.run.ran_s);
    let rtts = values(&results, "rtt");
    assert!(rtts.len() == 6 && rtts.iter().all(|rtt| (50.0..500.0).contains(rtt)), "{rtts:?}");
    let read = |file: &str| fs::read_to_string(trial.out().join("programs").join(file)).unwrap();
    assert_eq!((read("ask-node1.out").as_str(), read("tell/own").as_str()), ("done\n", "hello\n"));
    let told = read("tell.out");
    let told: Vec<&str> = told.split_whitespace().collect();
    assert_eq!((&told[..3], &told[4..]), (&["7", "tell", "node3"][..], &["x", "3"][..]));
    assert!(read("tell.err").contains(&format!("node3={}", told[3])));
    let csv = fs::read_to_string(trial.out().join("measurements.csv")).unwrap();
    assert_eq!(csv.lines().count(), 7);
    let page = fs::read_to_string(trial.out().join("index.html")).unwrap();
    assert!(page.contains("What programs measured") && page.contains("rtt"));
}

/// The block of code in the manual's page that follows the name of a file.
fn documented(name: &str) -> &'static str {
    const PAGE: &str = include_str!("../../../../docs/src/howto/own-programs.md");
    let (_, after) = PAGE.split_once(&format!("`{name}`")).unwrap_or_else(|| panic!("the page has no {name}"));
    let (_, block) = after.split_once("```").and_then(|(_, block)| block.split_once('\n')).unwrap();
    block.split_once("```").unwrap().0
}

#[test]
fn files_of_the_manual_run() {
    let plan = documented("ping.toml").replace("ROUNDS = 20", "ROUNDS = 3").replace("\"30s\"", "\"12s\"");
    let trial = ProgramTrial::new(&plan);
    for name in ["convoy.toml", "sink.py", "probe.py"] {
        fs::write(trial.folder.path().join(name), documented(name)).unwrap();
    }
    let checked = trial.emulate(&["run", "trial.toml", "--check"]);
    assert!(checked.status.success(), "{}", said(&checked));
    let (_, results) = trial.run();
    assert!(results.programs.iter().all(|program| program.as_expected), "{:?}", results.programs);
    assert_eq!(values(&results, "connected"), [1.0; 9]);
    assert!(values(&results, "connect").iter().all(|took| (80.0..5000.0).contains(took)));
}

#[test]
fn all_programs_learn_one_start() {
    let told = "echo $EMULATE_START $EMULATE_START_MONOTONIC";
    let plan = format!("{PLAN}{}{}start = '1s'\n", program("a", "node[1-3]", told), program("b", "server", told));
    let trial = ProgramTrial::new(&plan);
    trial.run();
    let read = |name| fs::read_to_string(trial.out().join("programs").join(name)).unwrap();
    let starts = ["a-node1.out", "a-node2.out", "a-node3.out", "b.out"].map(read);
    assert!(starts[0].len() > 10 && starts.iter().all(|start| *start == starts[0]), "{starts:?}");
}

#[test]
fn unexpected_ends_make_run_invalid() {
    let plan = format!(
        "{PLAN}{}{}{}exit = 3\n{}exit = 0\nstop = '2s'\n{}stop = '2s'\n{}timeout = '1s'\nexit = 0\n",
        program("fail", "node1", "exit 1"),
        program("die", "node1", "kill -9 $$"),
        program("three", "node2", "exit 3"),
        program("stopped", "node2", "exec sleep 60"),
        program("server", "server", "exec sleep 60"),
        program("late", "node3", "exec sleep 60"),
    );
    let (code, results) = ProgramTrial::new(&plan).run();
    let unexpected: Vec<&str> =
        results.programs.iter().filter(|one| !one.as_expected).map(|one| one.program.as_str()).collect();
    assert_eq!(unexpected.len(), 4, "{unexpected:?}");
    assert!(["fail", "die", "stopped", "late"].iter().all(|name| unexpected.contains(name)), "{unexpected:?}");
    assert_eq!((code, ended(&results, "die").code), (1, Some(137)));
    let verdict = &results.run.verdict;
    assert!(!verdict.valid && verdict.reasons.iter().any(|why| why.contains("the program fail did not end as")));
}

#[test]
fn hostile_output_is_cut_and_told() {
    let flood = "i=0; while [ $i -lt 300 ]; do cat flood; i=$((i+1)); done";
    let endless = "head -c 80000000 /dev/zero";
    let silent = "cat flood; head -c 70000000 /dev/zero; head -c 80000000 /dev/zero >&2";
    let wrong = "echo '{\"measure\":\"x\",\"value\":\"fast\"}'; printf '{\"measure\":\"y\",\"count\":2}'";
    let escape = "setsid yes & echo '{\"measure\":\"z\",\"ok\":true}'";
    let plan = format!(
        "{PLAN}{}{}{}{}{}measure = false\n",
        program("flood", "node1", flood),
        program("endless", "node2", endless),
        program("wrong", "node3", wrong),
        program("escape", "node3", escape),
        program("silent", "node3", silent)
    );
    let trial = ProgramTrial::new(&plan);
    fs::write(trial.folder.path().join("flood"), "{\"measure\":\"n\",\"value\":1}\n".repeat(1000)).unwrap();
    let (code, results) = trial.run();
    assert_eq!(code, 4, "{:?}", results.programs);
    let count = values(&results, "n").len();
    assert!((10_000..300_000).contains(&count), "{count}");
    assert_eq!((values(&results, "y"), values(&results, "z")), (vec![2.0], vec![1.0]));
    let z = results.measurements.iter().find(|one| one.measure == "z").unwrap();
    assert_eq!(z.kind, MeasurementKind::Ok);
    let told = results.run.verdict.reasons.join("\n");
    assert!(told.contains("flood measured too often"), "{told}");
    assert!(told.contains("wrong printed 1 lines that are no measurements; the first is line 1"), "{told}");
    let size = |file: &str| fs::metadata(trial.out().join("programs").join(file)).unwrap().len();
    assert_eq!(["endless.out", "silent.out", "silent.err"].map(size), [64 << 20; 3]);
}

#[test]
fn programs_beside_daemons_reach_them() {
    let ask = "roost status --json > $EMULATE_FOLDER/status && \
        roost request sensor --near 0,0 -o $EMULATE_FOLDER/got; echo \"{\\\"measure\\\":\\\"code\\\",\\\"value\\\":$?}\"";
    let plan = PLAN.replace("'programs'", "'super-node'").replace("20s", "6s")
        + "stream = '1s'\ntimeout = '10s'\n[classes.star]\nmix = { sensor = 50, idle = 50 }\n"
        + &program("ask", "node2", ask)
        + "start = '1s'\n"
        + &program("none", "server", "echo \"${ROOST_SOCKET-none} ${EMULATE_HUB_SOCKET-none}\"")
        + &program("hub", "node1", "roost --socket $EMULATE_HUB_SOCKET status");
    let trial = ProgramTrial::new(&plan);
    let (code, results) = trial.run();
    assert!(matches!(code, 0 | 4), "{:?}", results.run.verdict);
    let read = |file: &str| fs::read_to_string(trial.out().join("programs").join(file)).unwrap_or_default();
    assert!(read("ask/status").contains("node2"), "{}", read("ask.err"));
    assert_eq!(values(&results, "code"), [0.0], "{}", read("ask.err"));
    assert_eq!(read("none.out"), "none none\n");
    assert!(read("hub.out").contains("node1-hub"), "{}", read("hub.err"));
}

#[test]
fn roots_with_links_are_refused() {
    let plan = format!("{PLAN}{}root = 'root'\n", program("inside", "node1", "true"));
    let trial = ProgramTrial::new(&plan);
    let root = trial.folder.path().join("root");
    fs::create_dir(&root).unwrap();
    std::os::unix::fs::symlink("/.emulate-old/etc", root.join("etc")).unwrap();
    let (code, results) = trial.run();
    let told = ended(&results, "inside").error.clone().unwrap_or_default();
    assert!(code != 0 && told.contains("/etc is a link in"), "{code} {told}");
}

/// A root from the static `busybox`, if this machine has one.
#[test]
fn program_with_root_sees_only_that() {
    let busybox = ["/bin/busybox", "/usr/bin/busybox"].into_iter().map(PathBuf::from).find(|path| path.is_file());
    let is_static = |path: &PathBuf| {
        let root = tempfile::tempdir().unwrap();
        fs::copy(path, root.path().join("busybox")).is_ok() && {
            let header = fs::read(path).unwrap();
            // A program with an interpreter needs libraries.
            !header.windows(7).any(|part| part == b"ld-linu")
        }
    };
    let Some(busybox) = busybox.filter(is_static) else {
        eprintln!("skipped: install busybox-static to test roots of programs");
        return;
    };
    let script = "echo '{\"measure\":\"hosts\",\"count\":'$(grep -c server /etc/hosts)'}'; ls / > /results/list; \
        echo x > /etc/written && echo $EMULATE_FOLDER; ping -c 1 -W 2 server > /dev/null && echo reached; test -c /dev/null";
    let plan = format!("{PLAN}{}root = 'root'\n", program("inside", "node1", script));
    let trial = ProgramTrial::new(&plan);
    let root = trial.folder.path().join("root");
    for folder in ["bin", "etc"] {
        fs::create_dir_all(root.join(folder)).unwrap();
    }
    fs::copy(&busybox, root.join("bin/busybox")).unwrap();
    for tool in ["sh", "ls", "grep", "ping", "test"] {
        std::os::unix::fs::symlink("busybox", root.join("bin").join(tool)).unwrap();
    }
    // A link out of the root must not lead anything out of it.
    let outside = trial.folder.path().join("outside");
    fs::write(&outside, "mine").unwrap();
    std::os::unix::fs::symlink(&outside, root.join("etc/hosts")).unwrap();
    let (code, results) = trial.run();
    let read = |file: &str| fs::read_to_string(trial.out().join("programs").join(file)).unwrap_or_default();
    assert!(matches!(code, 0 | 4), "{:?} {}", results.programs, read("inside.err"));
    assert_eq!(read("inside.out"), "/results\nreached\n", "{}", read("inside.err"));
    let list = read("inside/list");
    let names: Vec<&str> = list.split_whitespace().collect();
    assert_eq!(names, ["bin", "dev", "etc", "proc", "results", "tmp"]);
    assert!(values(&results, "hosts")[0] >= 1.0);
    assert!(!root.join("etc/written").exists() && !root.join("results").exists(), "the folder stays as it was");
    assert_eq!(fs::read_to_string(&outside).unwrap(), "mine");
}

/// Marks the four runs as valid, as the other load of this machine may have made some of them late.
fn believe_runs(sweep: &Path) {
    for run in ["a_seed-1", "a_seed-2", "b_seed-1", "b_seed-2"] {
        let record = sweep.join(run).join("run.json");
        let text = fs::read_to_string(&record).unwrap_or_else(|error| panic!("{}: {error}", record.display()));
        fs::write(record, text.replace("\"valid\": false", "\"valid\": true")).unwrap();
    }
}

#[test]
fn sweep_compares_measurements() {
    let print = "echo \"{\\\"measure\\\":\\\"cost\\\",\\\"value\\\":$COST,\\\"unit\\\":\\\"ms\\\",\\\"better\\\":\\\"lower\\\"}\"; \
        ping -c 2 -i 1.2 server";
    let sweep = "[sweep]\nenvironment.SYSTEM = ['a', 'b']\nseed = [1, 2]\n";
    let command = format!("COST=$((EMULATE_SEED * 10)); test $SYSTEM = a || COST=$((COST * 2)); {print}");
    let plan = format!("{PLAN}[environment]\nSYSTEM = 'a'\n{}{sweep}", program("p", "node1", &command));
    let trial = ProgramTrial::new(&plan);
    let output = trial.emulate(&["sweep", "trial.toml", "-o", "all"]);
    assert!(matches!(output.status.code(), Some(0 | 4)), "{}", said(&output));
    let all = trial.folder.path().join("all");
    believe_runs(&all);
    // A sweep of complete runs only writes its pages anew.
    let output = trial.emulate(&["sweep", "trial.toml", "-o", "all"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let cells = fs::read_to_string(all.join("cells.csv")).unwrap();
    assert!(
        cells.contains(",a,SYSTEM,2,\"cost, mean\",15,") && cells.contains(",b,SYSTEM,2,\"cost, mean\",30,"),
        "{cells}"
    );
    assert!(all.join("figures/cost-median.svg").is_file());
    let output = trial.emulate(&["compare", "all/a", "all/b", "--json"]);
    let told: serde_json::Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", said(&output)));
    let rows = told["rows"].as_array().unwrap();
    let cost = rows.iter().find(|row| row["name"] == "cost, mean").unwrap_or_else(|| panic!("{told}"));
    let ratio = cost["ratio"].as_f64().unwrap();
    assert!((ratio - 2.0).abs() < 1e-9 && cost["unit"] == "ms" && cost["better"] == "lower", "{cost}");
}

#[test]
fn simulation_refuses_programs() {
    let plan = PLAN.replace("'programs'", "'super-node'") + &program("p", "node1", "true");
    let trial = ProgramTrial::new(&plan);
    let output = trial.emulate(&["simulate", "trial.toml"]);
    let told = said(&output);
    assert!(output.status.code() == Some(2) && told.contains("the program p needs real time"), "{told}");
    let output = trial.emulate(&["sweep", "trial.toml", "--simulate", "--seeds", "2", "-o", "all"]);
    let told = said(&output);
    assert!(output.status.code() == Some(2) && told.contains("the program p needs real time"), "{told}");
    assert!(!trial.out().with_file_name("all").exists(), "{told}");
}

#[test]
fn simulated_sweep_tells_parts_left_out() {
    let plan = "topology = 'net.toml'\narchitecture = 'super-node'\nduration = '9s'\n".to_owned()
        + "capture = 'all'\n[sweep]\nseed = [1, 2]\n";
    let trial = ProgramTrial::new(&plan);
    let net = String::from_utf8(trial.emulate(&["topo", "star", "--nodes", "4"]).stdout).unwrap();
    fs::write(trial.folder.path().join("net.toml"), net + &program("p", "node1", "true")).unwrap();
    let told = said(&trial.emulate(&["sweep", "trial.toml", "--simulate", "--check"]));
    assert_eq!(told.matches("`capture` has no use here").count(), 1, "{told}");
    assert_eq!(told.matches("leaves out the programs of the topology, 1 in all").count(), 1, "{told}");
}

/// The text of a plan that is kept beside the examples, for another folder.
fn kept_plan(name: &str) -> String {
    let emulation = PathBuf::from(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned();
    let text = fs::read_to_string(emulation.join("plans").join(name)).unwrap();
    text.replace("../examples", &emulation.join("examples").display().to_string())
}

#[test]
fn plan_of_systems_is_sound() {
    let trial = ProgramTrial::new(&kept_plan("systems.toml"));
    let output = trial.emulate(&["sweep", "trial.toml", "--check"]);
    let told = said(&output);
    assert!(output.status.success() && told.contains("zenoh_seed-2_satellite"), "{told}");
    assert_eq!(told.matches("programs").count(), 36, "{told}");
}

#[test]
fn iperf3_is_measured_if_installed() {
    let is_there = |program| Command::new(program).arg("--version").output().is_ok_and(|one| one.status.success());
    if !is_there("iperf3") || !is_there("python3") {
        eprintln!("skipped: install iperf3 and python3 to test the example with them");
        return;
    }
    let plan = kept_plan("iperf3.toml").replace("-t 12", "-t 3").replace("20s", "8s");
    let (code, results) = ProgramTrial::new(&plan).run();
    assert!(matches!(code, 0 | 4), "{:?}", results.programs);
    let rates = values(&results, "throughput");
    assert!(rates.len() >= 3 && rates.iter().all(|rate| (0.5..30.0).contains(rate)), "{rates:?}");
    assert_eq!(values(&results, "retransmits").len(), 1);
}
