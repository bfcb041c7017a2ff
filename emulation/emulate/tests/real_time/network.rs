//! The commands that bring a network up, run like by a user. They need user namespaces, or root; without these
//! they fail with the reason.

use std::process::Command;

use crate::common::{Folder, TestTerminal, json, said};

const CHAIN: &str = r#"
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
rate = "2Mbit"
delay = "10ms"
loss = 0.05
"#;

#[test]
fn exit_code_is_programs() {
    let folder = Folder::with("chain.toml", CHAIN);
    for (command, code) in [("true", 0), ("exit 7", 7), ("kill -TERM $$", 143)] {
        let output = folder.emulate(&["exec", "chain.toml", "a", "--", "sh", "-c", command]);
        assert_eq!(output.status.code(), Some(code), "{command}: {}", said(&output));
        assert_eq!(said(&output), "", "{command}");
    }
}

#[test]
fn missing_program_is_reported() {
    let folder = Folder::with("chain.toml", CHAIN);
    let output = folder.emulate(&["exec", "chain.toml", "a", "--", "no-such-program"]);
    assert_eq!(output.status.code(), Some(127));
    assert_eq!(said(&output), "error: cannot run no-such-program: No such file or directory\n");
}

#[test]
fn hosts_reach_one_another_over_others() {
    let folder = Folder::with("chain.toml", CHAIN);
    // From 10.1.2.3 over b to a; one answer of five suffices with 5 % loss.
    let output = folder.emulate(&["exec", "chain.toml", "c", "--", "ping", "-n", "-c5", "-i0.05", "-W2", "10.1.1.2"]);
    assert!(output.status.success(), "{}", said(&output));
}

#[test]
fn background_programs_end_with_command() {
    let folder = Folder::with("chain.toml", CHAIN);
    let began = std::time::Instant::now();
    let output =
        folder.emulate(&["exec", "chain.toml", "a", "--on", "b", "echo beside; sleep 60", "--", "sleep", "0.3"]);
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "beside\n");
    assert!(began.elapsed().as_secs() < 30);
    let output = folder.emulate(&["exec", "chain.toml", "--on", "a", "exit 0", "--on", "b", "exit 4"]);
    assert_eq!(output.status.code(), Some(4), "{}", said(&output));
}

#[test]
fn bad_input_exits_2() {
    let folder = Folder::with("chain.toml", CHAIN);
    folder.write("wrong.toml", "[[host]]\nname = \"a\"\n[[link]]\nrate = \"1Mbit\"\nbetween = [\"a\", \"z\"]\n");
    for (args, part) in [
        (&["exec", "chain.toml", "nobody", "--", "true"][..], "there is no host `nobody`; there are a, b, c"),
        (&["exec", "chain.toml"], "nothing to run"),
        (&["exec", "chain.toml", "a"], "write the command after --"),
        (&["exec", "none.toml", "a", "--", "true"], "cannot read none.toml"),
        (&["exec", "wrong.toml", "a", "--", "true"], "wrong.toml:5: there is no host `z`"),
        (&["exec", "chain.toml", "a", "--backend", "pigeon", "--", "true"], "auto, tap or veth"),
        (&["linktest", "chain.toml", "--net", "cd"], "there is no link or LAN `cd`"),
        (&["linktest", "chain.toml", "--only", "colour"], "routes"),
    ] {
        let output = folder.emulate(args);
        let said = said(&output);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.starts_with("error: ") && said.contains(part), "{args:?}: {said}");
        assert_eq!(said.lines().count(), 1, "{args:?}: {said}");
    }
}

#[test]
fn correct_network_passes_linktest() {
    let _turn = crate::alone();
    let folder = Folder::with("chain.toml", CHAIN);
    let output = folder.emulate(&["linktest", "chain.toml", "--json"]);
    let report = json(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}\n{report:#}", said(&output));
    assert_eq!((&report["schema"], &report["passed"]), (&2.into(), &true.into()));
    let report = &report["linktest"];
    assert_eq!((&report["reach"]["pairs"], &report["reach"]["failed"]), (&6.into(), &0.into()));
    // Both directions of two links, three tests each.
    assert_eq!(report["measurements"].as_array().unwrap().len(), 12);
}

#[test]
fn many_neighbor_pairs_reach_each_other() {
    let star = r#"
routing = "static"
[[host]]
name = "n[1-40]"
[[lan]]
name = "net"
members = ["n[1-40]"]
rate = "100Mbit"
delay = "1ms"
"#;
    let folder = Folder::with("star.toml", star);
    let output = folder.emulate(&["linktest", "star.toml", "--only", "routes"]);
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    assert!(output.status.success(), "{text}{}", said(&output));
    assert!(text.contains("all 1560 pairs of hosts tried, 0 out of reach"), "{text}");
}

#[test]
fn doctor_tries_lab() {
    let folder = Folder::with("chain.toml", CHAIN);
    let output = folder.emulate(&["doctor", "--json"]);
    let report = json(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{report:#}");
    let verdict = |check: &str| {
        let findings = report["findings"].as_array().unwrap();
        findings.iter().find(|finding| finding["check"] == check).unwrap()["verdict"].as_str().unwrap().to_owned()
    };
    assert_eq!((verdict("namespaces"), verdict("veth")), ("ok".to_owned(), "ok".to_owned()), "{report:#}");
}

#[test]
fn doctor_explains_missing_namespaces() {
    // A new user namespace acts as a system with other limits; without capabilities its root is an ordinary
    // user.
    let limit = "echo 0 > /proc/sys/user/max_user_namespaces";
    let line =
        format!("{limit} && exec setpriv --bounding-set=-all --inh-caps=-all {} doctor", TestTerminal::program());
    let output = Command::new("unshare").args(["--user", "--map-root-user", "sh", "-c", &line]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(3), "{text}{}", said(&output));
    assert!(text.contains("FAIL  namespaces") && text.contains("user.max_user_namespaces=10000"), "{text}");
    assert_eq!(said(&output), "error: no lab is possible here; the fix is above\n");
}

const RADIO: &str = r#"
lenient = true

[[host]]
name = ["mast", "near", "far"]

[[motion.host]]
name = "mast"
position = [0, 0, 10]
[[motion.host]]
name = "near"
position = [300, 400]
[[motion.host]]
name = "far"
position = [9000, 0]

[[radio]]
name = "air"
members = ["mast", "near", "far"]
links = "LINKS"
frequency = "2.4GHz"
bandwidth = "20MHz"
power = "20dBm"
rate = "6Mbit"
range = "2km"
"#;

#[test]
fn radio_reaches_who_is_near() {
    for links in ["pairs", "shared", "access\"\naccess = \"mast"] {
        let folder = Folder::with("air.toml", &RADIO.replace("LINKS", links));
        let ping = |to: &str| {
            folder
                .emulate(&["exec", "air.toml", "mast", "--", "ping", "-n", "-c3", "-i0.05", "-W1", to])
                .status
                .success()
        };
        assert!(ping("10.1.1.3") && !ping("10.1.1.4"), "{links}");
    }
}
