//! `emulate shell`, from a pipe and on a terminal.

use crate::common::{Folder, TestTerminal, json, said};

const CHAIN: &str = r#"
name = "chain"
routing = "static"

[[host]]
name = "a"
[[host]]
name = "b"
[[host]]
name = "c"

[[link]]
name = "ab"
between = ["a", "b"]
rate = "10Mbit"
delay = "5ms"

[[link]]
name = "bc"
between = ["b", "c"]
rate = "10Mbit"
delay = "10ms"

[[event]]
at = "0s"
net = "bc"
delay = "15ms"

[[event]]
at = "1h"
net = "bc"
do = "down"
"#;

/// The output, the messages and the exit code of a script.
fn script(flags: &[&str], text: &str) -> (String, String, Option<i32>) {
    let folder = Folder::with("chain.toml", CHAIN);
    let args = [&["shell", "chain.toml"], flags].concat();
    let output = folder.emulate_with(&args, text);
    let said = said(&output);
    (String::from_utf8(output.stdout).unwrap(), said, output.status.code())
}

#[test]
fn script_runs_each_line_despite_errors() {
    let (out, said, code) = script(&[], "# first\na echo one\n\nbogus\nb echo two; exit 3\nc cat\nnodes\n");
    assert!(out.starts_with("one\ntwo\nHOST"), "the rest of the script is not for cat: {out}");
    assert!(out.contains("10.1.1.3 on ab, 10.1.2.2 on bc"), "{out}");
    assert!(said.starts_with("error: `bogus` is neither a host nor a command"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert_eq!(code, Some(3), "that of the last line that failed");
}

#[test]
fn a_script_can_end_early() {
    assert_eq!(script(&[], "a true\nexit\na false\n").2, Some(0));
    assert_eq!(script(&[], "a false\nexit 9\n").2, Some(9));
    let (out, _, code) = script(&["-e"], "a false\na echo not here\n");
    assert_eq!((out.as_str(), code), ("", Some(1)));
    assert_eq!(script(&[], "link a c down\n").2, Some(2));
}

#[test]
fn link_goes_down_and_up() {
    let ping = "a ping -n -c1 -W1 10.1.1.3 > /dev/null && echo answer || echo silence";
    let text = format!("{ping}\nlink a b down\n{ping}\nlink ab up\n{ping}\nlink b > a down\n{ping}\n");
    let (out, said, code) = script(&[], &text);
    assert_eq!(out, "answer\nsilence\nanswer\nsilence\n", "{said}");
    assert!(said.contains("ab, both directions: down\n") && said.contains("ab, what b sends: down\n"), "{said}");
    assert_eq!(code, Some(0));
}

#[test]
fn links_say_which_direction_is_down() {
    let (out, ..) = script(&[], "link b > a down\nlinks ab\nlink ab up\nlinks ab\n");
    let down: Vec<bool> = out.lines().filter(|line| line.contains(" → ")).map(|line| line.contains(" down ")).collect();
    assert_eq!(down, [false, true, false, false], "{out}");
}

#[test]
fn links_count_what_went_through_them() {
    let (out, ..) = script(&["--json"], "a ping -n -c2 -i0.05 10.1.1.3 > /dev/null\nlinks ab\nlateness\nnodes\n");
    let lines: Vec<_> = out.lines().map(|line| json(line.as_bytes())).collect();
    assert_eq!(lines.len(), 3, "{out}");
    let sent = &lines[0]["links"][0];
    assert_eq!((&sent["host"], &sent["packets_in"], &sent["packets_out"]), (&"a".into(), &2.into(), &2.into()));
    // Two echoes of 84 bytes in frames.
    assert_eq!(sent["bytes_in"], 196);
    assert_eq!(lines[0]["links"].as_array().unwrap().len(), 2);
    assert_eq!(lines[1]["packets"], 4);
    assert_eq!(lines[2]["nodes"].as_array().unwrap().len(), 3);
}

#[test]
fn events_happen_and_are_listed() {
    let (out, ..) = script(&["--json"], "wait 100ms\nevents\n");
    let listed = json(out.as_bytes());
    let state = |index: usize| listed["events"][index]["state"].as_str().map(str::to_owned);
    assert_eq!((state(0).as_deref(), state(1).as_deref()), (Some("done"), Some("to come")));
}

#[test]
fn linktest_follows_changes_and_file() {
    let _turn = crate::alone();
    let text = "link a b delay 40ms\nlinktest --quick --only delay\nlinktest --only delay --only rate --as-written\n";
    let (out, said, code) = script(&["--json"], text);
    let reports: Vec<_> =
        out.lines().filter(|line| line.contains("linktest\":{")).map(|line| json(line.as_bytes())).collect();
    assert_eq!(reports.len(), 2, "{out}{said}");
    assert_eq!(reports[0]["passed"], true, "{:#}", reports[0]);
    // Both directions of ab were changed here, and those of bc by the schedule.
    let failed =
        reports[1]["linktest"]["measurements"].as_array().unwrap().iter().filter(|one| one["outcome"] == "failed");
    let failed: Vec<_> = failed.map(|one| (one["test"].as_str().unwrap(), one["attempts"].as_u64().unwrap())).collect();
    assert_eq!(failed, [("delay", 3); 4], "{:#}", reports[1]);
    assert!(said.contains("4 paths are not as described"), "{said}");
    assert_eq!(code, Some(5));
}

#[test]
fn control_c_ends_program_keeps_shell() {
    let folder = Folder::with("chain.toml", CHAIN);
    let mut terminal = TestTerminal::start(&folder, &["shell", "chain.toml"]);
    terminal.await_text("chain> ");
    terminal.send("a echo be\"\"gun; exec sleep 60\r");
    terminal.await_text("begun");
    terminal.send("\x03");
    terminal.await_text("chain> ");
    terminal.send("a echo still \"\"here\r");
    terminal.await_text("still here");
    terminal.await_text("chain> ");
    terminal.send("\x04");
    assert_eq!(terminal.end(), Some(0));
}

#[test]
fn host_shell_returns_terminal() {
    let folder = Folder::with("chain.toml", CHAIN);
    let mut terminal = TestTerminal::start(&folder, &["shell", "chain.toml"]);
    terminal.await_text("chain> ");
    // Unlike sh it makes itself the terminal's foreground.
    terminal.send("a PS1='there: ' bash --norc --noprofile -i\r");
    terminal.await_text("there: ");
    terminal.send("exit 3\r");
    terminal.await_text("chain> ");
    terminal.send("a echo ba\"\"ck\r");
    terminal.await_text("back");
    terminal.await_text("chain> ");
    terminal.send("exit 4\r");
    assert_eq!(terminal.end(), Some(4));
}

#[test]
fn control_c_ends_surrounding_loop() {
    let folder = Folder::with("chain.toml", CHAIN);
    let mut terminal = TestTerminal::run(
        &folder,
        "for i in 1 2; do EMULATE exec chain.toml a -- sh -c 'echo running; exec sleep 60'; done",
    );
    terminal.await_text("running");
    terminal.send("\x03");
    assert_eq!(terminal.end(), Some(130));
}

#[test]
fn control_z_suspends_until_continued() {
    let folder = Folder::with("chain.toml", CHAIN);
    let mut terminal = TestTerminal::run(&folder, "exec bash --norc --noprofile -i");
    terminal.send("PS1='out''side: '\r");
    terminal.await_text("outside: ");
    terminal.send(&format!("{} shell chain.toml\r", TestTerminal::program()));
    terminal.await_text("chain> ");
    terminal.send("a trap 'echo on\"\"ce more' CONT; echo run\"\"ning; while sleep 0.1; do :; done\r");
    terminal.await_text("running");
    terminal.send("\x1a");
    terminal.await_text("Stopped");
    terminal.await_text("outside: ");
    terminal.send("fg\r");
    // Bash prints the job's name before it hands over the terminal.
    terminal.await_text("once more");
    terminal.send("\x03");
    terminal.await_text("chain> ");
    terminal.send("exit 6\r");
    terminal.await_text("outside: ");
    terminal.send("exit $?\r");
    assert_eq!(terminal.end(), Some(6));
}
