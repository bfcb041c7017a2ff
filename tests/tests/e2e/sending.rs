//! Files that are sent to a node, with the real daemons.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use roost_tests::network::{Client, Daemon, Network, PATIENCE, text};
use roost_tests::process::{files_under, wait_until};
use serde_json::Value;

const MB: u64 = 1_000_000;

fn survey(path: &Path, bytes: u64) {
    let mut file = BufWriter::new(File::create(path).unwrap());
    for number in 0..bytes / 8 {
        file.write_all(&(number ^ bytes).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()).unwrap();
    }
    file.flush().unwrap();
}

/// A sender and a receiver with an inbox of so many megabytes, each at a hub of its own.
struct FileTransferPair {
    network: Network,
    hubs: [Daemon; 2],
    sender: Daemon,
    receiver: Daemon,
    inbox: PathBuf,
    file: PathBuf,
}

impl FileTransferPair {
    fn new(limit: &str, bytes: u64) -> Self {
        let network = Network::new();
        let [first, second] = network.pair();
        let (inbox, file) = (network.path("inbox"), network.path("survey.tif"));
        fs::create_dir(&inbox).unwrap();
        survey(&file, bytes);
        let sender = network.node("s", "1,1", &["--super", &first.endpoint("udp")]);
        let receiver = Self::receiver(&network, &second, &inbox, limit);
        Self { network, hubs: [first, second], sender, receiver, inbox, file }
    }

    fn receiver(network: &Network, hub: &Daemon, inbox: &Path, limit: &str) -> Daemon {
        let inbox = text(inbox);
        let more = ["--super", &hub.endpoint("udp"), "--services", "sensor", "--inbox", &inbox, "--inbox-limit", limit];
        network.node("r", "5,5", &more)
    }

    fn id(of: &Client) -> String {
        of.status().unwrap()["node"].as_str().unwrap().to_owned()
    }

    fn send(&self, more: &[&str]) -> Value {
        let (file, node) = (text(&self.file), Self::id(&self.receiver));
        self.sender.json(&[&["send", &file, &node], more].concat())
    }

    fn refused(&self, code: i32, more: &[&str]) -> String {
        let (file, node) = (text(&self.file), Self::id(&self.receiver));
        self.sender.fails(code, &[&["send", &file, &node], more].concat())
    }

    fn names(&self) -> Vec<String> {
        let names = files_under(&self.inbox);
        names.iter().map(|path| path.file_name().unwrap().to_str().unwrap().to_owned()).collect()
    }

    /// Begins to send, until so much has arrived.
    fn start_until(&self, bytes: u64) -> Child {
        let (file, node) = (text(&self.file), Self::id(&self.receiver));
        let mut command = self.sender.command(&["send", &file, &node, "--json"]);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let there = wait_until(PATIENCE, || {
            let most = files_under(&self.inbox).iter().filter_map(|path| Some(fs::metadata(path).ok()?.len())).max();
            (most? >= bytes).then_some(())
        });
        assert!(there.is_some(), "{:?}\n{}", self.names(), self.receiver.log());
        child
    }
}

#[test]
fn sent_file_never_replaces_another() {
    let pair = FileTransferPair::new("1GB", 30 * MB);
    let report = pair.send(&[]);
    assert_eq!((&report["bytes"], &report["resumed_at"]), (&(30 * MB).into(), &0.into()), "{report}");
    assert!(fs::read(pair.inbox.join("survey.tif")).unwrap() == fs::read(&pair.file).unwrap());
    survey(&pair.file, MB);
    pair.send(&[]);
    assert_eq!(pair.names(), ["survey-2.tif", "survey.tif"]);
    assert_eq!(fs::metadata(pair.inbox.join("survey-2.tif")).unwrap().len(), MB);
    File::create(&pair.file).unwrap();
    pair.send(&["--name", "empty file, ä & ö.txt"]);
    assert_eq!(fs::metadata(pair.inbox.join("empty file, ä & ö.txt")).unwrap().len(), 0);
}

#[test]
fn refused_file_is_explained() {
    let pair = FileTransferPair::new("2MB", MB);
    for name in ["../x", "/etc/x", ".hidden", "a\\b", "x.part"] {
        let said = pair.refused(5, &["--name", name]);
        assert!(said.contains("no file of this name"), "{name}: {said}");
    }
    for name in ["", &"x".repeat(300)] {
        let said = pair.refused(5, &["--name", name]);
        assert!(said.contains("the name is empty or longer than 200 bytes"), "{name}: {said}");
    }
    assert_eq!(pair.names(), [""; 0]);
    pair.send(&[]);
    survey(&pair.file, 1_500_000);
    assert!(pair.refused(5, &[]).contains("no room"));
    survey(&pair.file, 2 * MB + 8);
    assert!(pair.refused(5, &[]).contains("takes no file as large as this"));
    assert_eq!(pair.names(), ["survey.tif"]);
    let (file, hub) = (text(&pair.file), pair.hubs[0].endpoint("udp"));
    let without = pair.network.node("w", "3,3", &["--super", &hub, "--services", "sensor"]);
    let said = pair.sender.fails(5, &["send", &file, &FileTransferPair::id(&without)]);
    assert!(said.contains("it has no inbox"), "{said}");
    let said = pair.sender.fails(5, &["send", &file, &FileTransferPair::id(&pair.sender)]);
    assert!(said.contains("is this node itself"), "{said}");
    let said = pair.sender.fails(4, &["send", &file, &"0".repeat(32)]);
    assert!(said.contains("is not known") && said.contains("--address"), "{said}");
    let said = pair.sender.fails(1, &["send", "/no/such/file", &FileTransferPair::id(&without)]);
    assert!(said.contains("cannot read /no/such/file"), "{said}");
    // A node that no hub knows is sent to where it listens.
    let inbox = text(&pair.inbox);
    let alone = pair.network.supernode("alone", &[]);
    let unlisted = pair.network.node("u", "4,4", &["--super", &alone.endpoint("udp"), "--inbox", &inbox]);
    let id = FileTransferPair::id(&unlisted);
    pair.sender.fails(4, &["send", &file, &id]);
    pair.sender.json(&["send", &file, &id, "--address", &unlisted.endpoint("quic"), "--name", "other.tif"]);
    assert_eq!(pair.names(), ["other.tif", "survey.tif"]);
}

#[test]
fn sent_file_resumes_after_any_kill() {
    let mut pair = FileTransferPair::new("1GB", 80 * MB);
    let mut child = pair.start_until(10 * MB);
    child.kill().unwrap();
    child.wait().unwrap();

    let child = pair.start_until(25 * MB);
    pair.receiver.process.kill();
    let identity = pair.network.path("id-r");
    let (hub, inbox) = (pair.hubs[1].endpoint("udp"), text(&pair.inbox));
    let again = ["--at", "5,5", "--super", &hub, "--services", "sensor", "--inbox", &inbox];
    pair.receiver = pair.network.start("overlay-node", "r", &identity, &again).ready();
    // The receiver listens elsewhere now, and registers with another hub: the sender finds it there and goes on.
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(report["resumed_at"].as_u64().unwrap() >= 10 * MB, "{report}");
    assert!(fs::read(pair.inbox.join("survey.tif")).unwrap() == fs::read(&pair.file).unwrap());
    assert_eq!(pair.names(), ["survey.tif"]);
}

/// The receiver gives the transfer up when it has heard nothing for so long, and
/// takes the same file from then on.
#[test]
fn killed_sender_resumes() {
    let mut pair = FileTransferPair::new("1GB", 80 * MB);
    let child = pair.start_until(25 * MB);
    pair.sender.process.kill();
    assert!(!child.wait_with_output().unwrap().status.success());
    let (identity, hub) = (pair.network.path("id-s"), pair.hubs[0].endpoint("udp"));
    pair.sender = pair.network.start("overlay-node", "s", &identity, &["--at", "1,1", "--super", &hub]).ready();
    let said = || pair.receiver.log().contains("a file was not taken").then_some(());
    assert!(wait_until(PATIENCE, said).is_some(), "{}", pair.receiver.log());
    let report = pair.send(&[]);
    assert!(report["resumed_at"].as_u64().unwrap() >= 25 * MB, "{report}");
    assert!(fs::read(pair.inbox.join("survey.tif")).unwrap() == fs::read(&pair.file).unwrap());
    assert_eq!(pair.names(), ["survey.tif"]);
}

#[test]
fn changed_file_is_not_kept() {
    let pair = FileTransferPair::new("1GB", 80 * MB);
    let child = pair.start_until(10 * MB);
    fs::OpenOptions::new().append(true).open(&pair.file).unwrap().write_all(b"more").unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && said.contains("changed"), "{:?}: {said}", output.status);
    pair.send(&[]);
    assert_eq!(fs::metadata(pair.inbox.join("survey.tif")).unwrap().len(), 80 * MB + 4);
}

#[test]
fn the_baseline_refuses_clearly() {
    let network = Network::new();
    let server = network.server("cs1");
    let endpoint = server.endpoint("udp");
    let sender = network.node("s", "1,1", &["--server", &endpoint]);
    let receiver = network.node("r", "5,5", &["--server", &endpoint, "--services", "sensor"]);
    let file = network.path("a.txt");
    fs::write(&file, "a").unwrap();
    let said = sender.fails(5, &["send", &text(&file), &FileTransferPair::id(&receiver)]);
    assert!(said.contains("with a server all data goes through it"), "{said}");
}

/// A super node has no inbox, and says nothing to who offers it a file.
#[test]
fn super_node_is_sent_nothing() {
    let network = Network::new();
    let hub = network.supernode("sn1", &[]);
    let node = network.node("s", "1,1", &["--super", &hub.endpoint("udp")]);
    let file = network.path("small");
    fs::write(&file, "x").unwrap();
    let said = node.fails(5, &["send", &text(&file), "sn1", "--timeout", "60s"]);
    assert!(said.contains("is a super node, which takes no files"), "{said}");
}

#[test]
fn refusal_log_is_limited() {
    let network = Network::new();
    let hub = network.supernode("sn1", &[]);
    let [sender, receiver] = [("s", "1,1"), ("r", "5,5")]
        .map(|(name, at)| network.node(name, at, &["--super", &hub.endpoint("udp"), "--services", "sensor"]));
    let file = network.path("small");
    fs::write(&file, "x").unwrap();
    for _ in 0..12 {
        let said = sender.fails(5, &["send", &text(&file), "r"]);
        assert!(said.contains("it has no inbox"), "{said}");
    }
    let log = receiver.log();
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("a file was not taken")).collect();
    assert!((1..=8).contains(&lines.len()), "{log}");
    assert!(lines[0].contains("this node has no inbox"), "{log}");
}
