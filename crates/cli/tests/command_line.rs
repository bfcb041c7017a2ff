//! The arguments, the output and the exit codes of the command line.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop where it stands")]

mod common;

use common::{json, roost};

#[test]
fn wrong_command_line_exits_with_2() {
    for (args, part) in [
        (&["request", "video"][..], "--at"),
        (&["request", "vidio", "--any"], "expected video, track, image or sensor"),
        (&["request", "video", "--at", "27;92"], "is no place: write a cell (27,92)"),
        (&["request", "video", "--at", "1,2", "--any"], "cannot be used with"),
        (&["request", "video", "--any", "--transport", "sctp"], "expected udp, tcp or quic"),
        (&["request", "video", "--any", "--for", "10"], "such as 30s"),
        (&["request", "video", "--any", "-o", "http://x"], "is no sink"),
        (&["request", "video", "--any", "--format", "json"], "--output"),
        (&["lookup", "image", "--rect", "1,2,3"], "expected X1,Y1,X2,Y2"),
        (&["lookup", "image", "-k", "0"], "-k"),
        (&["move", "--at", "2000000,0"], "from -1000000 to 1000000"),
        (&["request", "image", "--from", ""], "expected a node's name, its id"),
        (&["group", "issue", "d", "n", "--role", "king"], "expected node, supernode or server"),
        (&["config", "init", "supernod"], "supernode"),
        (&["stauts"], "status"),
        (&["status", "--jsno"], "--json"),
        (&["-q", "-v", "status"], "cannot be used with"),
    ] {
        let output = roost(args);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert_eq!(said.lines().count(), 1, "{args:?}: {said}");
        assert!(said.starts_with("error: ") && said.contains(part), "{args:?}: {said}");
        assert!(output.stdout.is_empty(), "{args:?}");
    }
}

#[test]
fn json_flag_prints_error_as_json() {
    let output = roost(&["request", "vidio", "--any", "--json"]);
    assert_eq!(output.status.code(), Some(2));
    let error = json(&output.stdout);
    assert_eq!(error["schema"], 2);
    assert_eq!(error["error"]["code"], "usage");
    assert_eq!(error["error"]["exit"], 2);
    assert!(error["error"]["message"].as_str().unwrap().contains("unknown service \"vidio\""));
}

#[test]
fn missing_daemon_exits_with_3() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("nobody.sock");
    let socket = socket.to_str().unwrap();
    for args in [
        &["request", "video", "--at", "27,92"][..],
        &["lookup", "image"],
        &["watch"],
        &["services"],
        &["status"],
        &["connections"],
        &["index"],
        &["move", "--at", "-3,4"],
        &["ping"],
        &["doctor"],
    ] {
        let output = roost(&[args, &["--socket", socket, "--json"]].concat());
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(3), "{args:?}: {said}");
        assert_eq!(said.lines().count(), 1, "{args:?}: {said}");
        let last = output.stdout.split_inclusive(|byte| *byte == b'\n').next_back().unwrap();
        assert_eq!(json(last)["error"]["code"], "unreachable", "{args:?}");
    }
}

#[test]
fn invalid_output_fails_before_request() {
    let output = roost(&["request", "image", "--any", "-o", "udp://nowhere"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn help_succeeds_on_stdout() {
    for args in [&["--help"][..], &["-h"], &["request", "-h"], &["group", "issue", "--help"], &["--version"]] {
        let output = roost(args);
        assert_eq!(output.status.code(), Some(0), "{args:?}");
        assert!(!output.stdout.is_empty() && output.stderr.is_empty(), "{args:?}");
    }
}

#[test]
fn completions_and_manual_pages_are_generated() {
    for shell in ["bash", "zsh", "fish"] {
        let output = roost(&["completions", shell]);
        assert!(String::from_utf8(output.stdout).unwrap().contains("request"), "{shell}");
    }
    let dir = tempfile::tempdir().unwrap();
    assert!(roost(&["man", dir.path().to_str().unwrap()]).status.success());
    let page = std::fs::read_to_string(dir.path().join("roost-request.1")).unwrap();
    assert!(page.contains("transport"), "{page}");
}

#[test]
fn a_missing_sibling_is_named() {
    // A hard link, so on the same file system: the program finds its folder by its own path.
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let alone = dir.path().join("roost");
    std::fs::hard_link(assert_cmd::cargo::cargo_bin!("roost"), &alone).unwrap();
    for args in [&["config", "check", "supernode"][..], &["demo"]] {
        let output = std::process::Command::new(&alone).args(args).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("supernode is not in"), "{said}");
    }
}
