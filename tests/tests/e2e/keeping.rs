//! The part of a stream that a command keeps, and its last words, whatever ends it: a signal, a reader that
//! goes, a silent source.

use std::process::{Command, Output, Stdio};
use std::time::Instant;

use roost_tests::network::{Daemon, Network, PATIENCE, text};
use roost_tests::process::{binary, files_under, free_port, wait_until};
use roost_tests::streams::{Watcher, stream};

/// A super node, a provider at 5,5 with these arguments, and a node that asks.
fn network(provider: &[&str]) -> (Network, [Daemon; 3]) {
    let network = Network::new();
    let hub = network.supernode("sn1", &[]);
    let endpoint = hub.endpoint("udp");
    let provider = network.node("p", "5,5", &[&["--super", &endpoint], provider].concat());
    let node = network.node("a", "1,1", &["--super", &endpoint]);
    (network, [hub, provider, node])
}

/// The files in the network's folder that belong to an output of this name.
fn left(network: &Network, name: &str) -> Vec<String> {
    let files = files_under(network.path("x").parent().unwrap());
    let mut names: Vec<_> = files.iter().map(|file| text(file).rsplit('/').next().unwrap().to_owned()).collect();
    names.retain(|file| file.contains(name));
    names
}

const SOME_BYTES: u64 = 10_000;

fn size(network: &Network, file: &str) -> u64 {
    std::fs::metadata(network.path(file)).map_or(0, |file| file.len())
}

#[test]
fn every_signal_keeps_what_came() {
    let (network, [_hub, _provider, node]) = network(&["--services", "video"]);
    for (signal, command) in [("TERM", "subscribe"), ("HUP", "request"), ("INT", "request")] {
        let name = format!("{signal}.ts");
        let watcher = Watcher::start(&network, &node, &name, command, "60s");
        let is_drafted = |file: &String| file.starts_with('.') && size(&network, file) > SOME_BYTES;
        let comes = || left(&network, &name).iter().any(is_drafted).then_some(());
        assert!(wait_until(PATIENCE, comes).is_some(), "{signal}: nothing is kept");
        watcher.signal(signal);
        let (code, said) = watcher.fails();
        assert!(code == Some(130) && said.contains(&format!("{name}.part")), "{signal}: {code:?} {said}");
        assert_eq!(left(&network, &name), [format!("{name}.part")]);
        assert!(size(&network, &format!("{name}.part")) > SOME_BYTES, "{signal}");
    }
    let watcher = Watcher::endless(&network, &node, "endless.ts");
    stream(&node, "it comes", |stream| stream["packets"].as_u64() > Some(50));
    watcher.signal("TERM");
    let (summary, written) = watcher.summary();
    assert_eq!(summary["bytes"].as_u64(), Some(written.len() as u64), "{summary}");
}

#[test]
fn slow_stream_is_readable_while_written() {
    let (network, [_hub, _provider, node]) = network(&["--services", "track"]);
    let file = network.path("t.jsonl");
    let mut request = node.command(&["request", "track", "--at", "5,5", "--for", "60s", "-o", &text(&file)]);
    let mut request = request.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let folder = network.path("x");
    let is_seen = || {
        let drafts = files_under(folder.parent().unwrap()).into_iter().filter(|file| text(file).contains("/.t.jsonl"));
        drafts.filter_map(|file| file.metadata().ok()).any(|found| found.len() > 2000).then_some(())
    };
    let seen = wait_until(PATIENCE, is_seen);
    request.kill().unwrap();
    request.wait().unwrap();
    assert!(seen.is_some(), "nothing is written");
}

/// Runs a line of the shell with `roost` at a node as `$ROOST`.
fn shell(node: &Daemon, line: &str) -> Output {
    let roost = format!("{} --socket {}", text(&binary("roost")), text(&node.socket));
    Command::new("sh").args(["-c", line]).env("ROOST", roost).output().unwrap()
}

#[test]
fn reader_that_goes_is_told() {
    let (_network, [_hub, _provider, node]) = network(&["--services", "video"]);
    for flags in ["", "--json"] {
        let request = "$ROOST request video --at 5,5 --for 60s -o -";
        let output = shell(&node, &format!("({request} {flags}; echo exit $? >&2) | head -c 20000 | wc -c"));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "20000", "{said}");
        let words: &[&str] =
            if flags.is_empty() { &["provider ", "received ", "closed "] } else { &["\"closed\":true"] };
        assert!(words.iter().all(|word| said.contains(word)) && said.contains("exit 0"), "{said}");
    }
}

#[test]
fn closed_reader_ends_object_transfer() {
    let (_network, [_hub, _provider, node]) = network(&["--services", "image", "--sources-image", "command:sleep 25"]);
    let began = Instant::now();
    let output = shell(&node, "($ROOST request image --at 5,5 --timeout 25s -o -; echo exit $? >&2) | true");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("closed ") && said.contains("exit 0"), "{said}");
    assert!(began.elapsed().as_secs() < 20, "{:?}: {said}", began.elapsed());
}

#[test]
fn summary_names_direct_stream() {
    for (media, is_own) in [("auto", false), ("off", true)] {
        let (_network, [_hub, _provider, node]) = network(&["--services", "video", "--media", media]);
        let output = node.roost(&["subscribe", "video", "--at", "5,5", "--for", "1s"]);
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert_eq!((output.status.code(), said.contains("a stream of its own")), (Some(0), is_own), "{media}: {said}");
    }
}

#[test]
fn watch_ends_when_its_reader_goes() {
    let (_network, [_hub, _provider, node]) = network(&["--services", "video"]);
    let began = Instant::now();
    let output = shell(&node, "timeout 30 $ROOST watch --any | head -1");
    assert!(began.elapsed() < PATIENCE, "it waits for the next event: {output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("p ("), "{output:?}");
}

#[test]
fn silent_source_leaves_no_file() {
    // A free port, to which nobody sends.
    let port = free_port();
    let source = format!("udp://127.0.0.1:{port}");
    let (network, [_hub, _provider, node]) = network(&["--services", "video", "--sources-video", &source]);
    for command in ["subscribe", "request"] {
        let name = format!("{command}.ts");
        let watcher = Watcher::start(&network, &node, &name, command, "30s");
        let (code, said) = watcher.fails();
        assert_eq!(code, Some(5), "{command}: {said}");
        assert!(said.contains("gives nothing") || said.contains("gave nothing"), "{command}: {said}");
        assert!(left(&network, &name).is_empty(), "{command}: {:?}", left(&network, &name));
    }
}
