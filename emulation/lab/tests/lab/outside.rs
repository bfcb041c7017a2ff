//! Tests from outside, and the runner of all tests.

use std::io::{BufRead, BufReader, Read, Write};
use std::panic;
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::Duration;

use roost_lab::{Lab, LabOptions};
use roost_wait::wait_until;

use crate::{processes, topologies};

const PATIENCE: Duration = Duration::from_secs(60);
/// The time over which the use of a processor is measured.
const MEASURED: Duration = Duration::from_secs(1);

/// Options of libtest that have a value; all options are ignored.
const WITH_VALUE: [&str; 5] = ["--test-threads", "--format", "--color", "--logfile", "-Z"];

/// Runs every test whose name contains one of the words among the options, or all.
pub(crate) fn run_all(options: &[&str]) -> ExitCode {
    let before = |place: usize| place.checked_sub(1).map(|before| options[before]);
    let is_value = |place| before(place).is_some_and(|option| WITH_VALUE.contains(&option));
    let words = options.iter().enumerate().filter(|(place, word)| !word.starts_with('-') && !is_value(*place));
    let filters: Vec<&str> = words.map(|(_, word)| *word).collect();
    let wanted = |name: &str| filters.is_empty() || filters.iter().any(|filter| name.contains(filter));
    let mut failed = Vec::new();
    let inside = crate::INSIDE.iter().map(|(name, _)| *name).filter(|name| wanted(name));
    for name in inside {
        report(name, panic::catch_unwind(|| expect_success(itself(&["inside", name]))).is_ok(), &mut failed);
    }
    for (name, test) in crate::OUTSIDE.iter().filter(|(name, _)| wanted(name)) {
        report(name, panic::catch_unwind(test).is_ok(), &mut failed);
    }
    println!("{} failed {failed:?}", failed.len());
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Prints the tests, as libtest does.
pub(crate) fn list() -> ExitCode {
    crate::INSIDE.iter().chain(crate::OUTSIDE).for_each(|(name, _)| println!("{name}: test"));
    ExitCode::SUCCESS
}

fn report<'a>(name: &'a str, passed: bool, failed: &mut Vec<&'a str>) {
    println!("test {name} ... {}", if passed { "ok" } else { "FAILED" });
    if !passed {
        failed.push(name);
    }
}

pub(crate) fn lab_is_refused_outside_sandbox() {
    let error = Lab::start(&topologies::star(2), &LabOptions::default()).unwrap_err();
    assert!(error.to_string().contains("sandbox"), "{error}");
}

pub(crate) fn process_name_alone_is_not_inside() {
    for name in ["emulate-lab", "emulate-init-0"] {
        let mut command = itself(&["inside", "where"]);
        let output = std::os::unix::process::CommandExt::arg0(&mut command, name).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "child of 1\n", "{name}: {output:?}");
    }
}

pub(crate) fn exit_codes_pass_through() {
    for code in ["0", "1", "7", "130"] {
        let status = itself(&["inside", "exit", code]).status().unwrap();
        assert_eq!(status.code().unwrap().to_string(), code);
    }
}

pub(crate) fn signals_reach_the_inside() {
    for (signal, code) in [("TERM", 128 + 15), ("INT", 128 + 2), ("HUP", 128 + 1)] {
        let mut outer = hold();
        send(signal, outer.id());
        assert_eq!(end_of(&mut outer), Some(code), "{signal}");
    }
}

pub(crate) fn terminal_key_reaches_inside_once() {
    let mut terminal = Command::new("script");
    terminal.args(["-qec", &format!("{} inside keys", program().display()), "/dev/null"]);
    let mut terminal = terminal.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(terminal.stdout.take().unwrap()).lines().map(|line| line.unwrap());
    assert_eq!(lines.next().unwrap(), "ready");
    terminal.stdin.as_mut().unwrap().write_all(b"\x03").unwrap();
    let rest: Vec<String> = lines.collect();
    assert_eq!(rest.iter().filter(|line| line.ends_with("got it")).count(), 1, "{rest:?}");
    assert!(rest.iter().any(|line| line == "end"), "{rest:?}");
    assert_eq!(end_of(&mut terminal), Some(0));
}

pub(crate) fn background_job_can_come_to_foreground() {
    // The program reads, and so stops in the background like any job.
    let script = "\"$0\" inside read & for i in $(seq 300); do [ -n \"$(jobs -s)\" ] && break; sleep 0.1; done; \
                  [ -n \"$(jobs -s)\" ] && echo ready && fg";
    let mut terminal = Command::new("script");
    terminal.args(["-qec", &format!("bash -mc '{script}' {}", program().display()), "/dev/null"]);
    let mut terminal = terminal.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(terminal.stdout.take().unwrap()).lines().map(|line| line.unwrap());
    let ready = lines.by_ref().find(|line| line.contains("ready"));
    assert!(ready.is_some(), "it does not stop to wait for the terminal");
    terminal.stdin.as_mut().unwrap().write_all(b"hello\n").unwrap();
    let rest: Vec<String> = lines.collect();
    assert!(rest.iter().any(|line| line.trim() == "told hello"), "{rest:?}");
    assert_eq!(end_of(&mut terminal), Some(0));
}

pub(crate) fn ignored_hangup_keeps_running() {
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' HUP; exec \"$0\" inside listen"]).arg(program());
    expect_success(command);
}

pub(crate) fn waiting_for_init_uses_no_cpu() {
    let mut outer = hold();
    let init = processes::family(outer.id())[1];
    // A namespace ends when its last process is reaped: here the reaping process is stopped.
    let mut command = Command::new("nsenter");
    command.args(["-t", &init.to_string(), "-p"]).args(if is_root() {
        &[][..]
    } else {
        &["-U", "--preserve-credentials"]
    });
    command.args(["sleep", "1000"]);
    let mut guest = command.spawn().unwrap();
    let has_program = || (processes::family(guest.id()).len() >= 2).then_some(());
    assert!(wait_until(PATIENCE, has_program).is_some(), "nsenter starts no program");
    send("STOP", guest.id());
    send("KILL", init);
    let before = processes::processor_ticks(outer.id());
    thread::sleep(MEASURED);
    let spent = processes::processor_ticks(outer.id()) - before;
    let has_waited = outer.try_wait().unwrap().is_none();
    send("CONT", guest.id());
    guest.wait().unwrap();
    assert_eq!(end_of(&mut outer), Some(128 + 9));
    assert!(has_waited && spent < 20, "{spent} hundredths of a second");
}

pub(crate) fn killing_any_process_ends_all() {
    let own = processes::networks(&[std::process::id()]);
    for (place, who) in ["the outer process", "init", "the worker"].iter().enumerate() {
        let mut outer = hold();
        let family = processes::family(outer.id());
        assert!(family.len() >= 3 + 4, "three processes and a program in each host: {family:?}");
        let networks: Vec<_> = processes::networks(&family).difference(&own).cloned().collect();
        assert_eq!(networks.len(), 1 + 4, "the carrier's namespace and each host's");
        send("KILL", family[place]);
        let code = end_of(&mut outer);
        assert_eq!(code, if place == 0 { None } else { Some(128 + 9) }, "{who}");
        let remaining = processes::remaining_in(&networks.into_iter().collect(), PATIENCE);
        assert!(remaining.is_empty(), "after {who} was killed: {remaining:?}");
        // A second sandbox works at once.
        expect_success(itself(&["inside", "ping_takes_twice_link_delay"]));
    }
}

pub(crate) fn unprivileged_user_runs_everything() {
    for test in crate::INSIDE.iter().map(|(name, _)| *name).filter(|name| !name.contains("hundred")) {
        expect_success(unprivileged(&["inside", test]));
    }
    assert_eq!(unprivileged(&["inside", "exit", "7"]).status().unwrap().code(), Some(7));
}

pub(crate) fn too_few_open_files_is_reported() {
    let mut command = Command::new("prlimit");
    command.arg("--nofile=300:300").arg(program()).args(["inside", "star", "100"]);
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && text.contains("needs 556 open files, and this user may have 300"), "{text}");
}

pub(crate) fn missing_user_namespaces_are_reported() {
    // A new user namespace acts as a system with other limits; without capabilities its root is an ordinary
    // user.
    let script =
        "echo 0 > /proc/sys/user/max_user_namespaces && exec setpriv --bounding-set=-all --inh-caps=-all \"$0\" \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "sh", "-c", script]).arg(program()).args(["inside", "exit", "0"]);
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{text}");
    assert!(text.contains("a user namespace") && text.contains("user.max_user_namespaces=10000"), "{text}");
}

/// A lab that runs until it is ended.
fn hold() -> Child {
    let mut outer = itself(&["inside", "hold"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(outer.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    outer
}

/// Waits for its end; returns its exit code, if it was not killed.
fn end_of(outer: &mut Child) -> Option<i32> {
    let status = wait_until(PATIENCE, || outer.try_wait().unwrap()).unwrap_or_else(|| {
        outer.kill().unwrap();
        panic!("it still runs after {PATIENCE:?}");
    });
    status.code()
}

fn send(signal: &str, pid: u32) {
    assert!(Command::new("kill").args(["-s", signal, &pid.to_string()]).status().unwrap().success());
}

fn expect_success(mut command: Command) {
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
    let mut child = child.unwrap();
    let code = end_of(&mut child);
    let mut text = String::new();
    child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    assert!(code == Some(0), "{command:?}: {code:?}: {text}");
}

fn itself(arguments: &[&str]) -> Command {
    let mut command = Command::new(program());
    command.args(arguments);
    command
}

/// This program as an unprivileged user: this user, unless it is root.
fn unprivileged(arguments: &[&str]) -> Command {
    if !is_root() {
        return itself(arguments);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(program()).args(arguments);
    command
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn program() -> std::path::PathBuf {
    std::env::current_exe().unwrap()
}
