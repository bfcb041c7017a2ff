//! Files that wait in an outbox for their receiver, with the real daemons.

use std::fs;
use std::path::PathBuf;

use roost_tests::network::{Daemon, Network, PATIENCE, text};
use roost_tests::process::{Process, binary, files_under, wait_until};
use roost_wait::unchanged;
use serde_json::Value;

const MB: usize = 1_000_000;

/// A hub, a sender with an outbox, and a receiver with an inbox that starts later.
struct OutboxPair {
    network: Network,
    hub: Daemon,
    sender: Daemon,
    inbox: PathBuf,
    file: PathBuf,
}

impl OutboxPair {
    fn new(bytes: usize) -> Self {
        let network = Network::new();
        let hub = network.supernode("sn1", &[]);
        let (inbox, file) = (network.path("inbox"), network.path("site.tif"));
        let content: Vec<u8> = (0..bytes).map(|at| (at * 7 + at / 251) as u8).collect();
        fs::write(&file, content).unwrap();
        network.identity("r", "node");
        let sender = Self::start_sender(&network, &hub, "1GB");
        Self { network, hub, sender, inbox, file }
    }

    fn start_sender(network: &Network, hub: &Daemon, limit: &str) -> Daemon {
        let outbox = text(&network.path("outbox"));
        let more = ["--super", &hub.endpoint("udp"), "--outbox", &outbox, "--outbox-limit", limit];
        start(network, "s", "1,1", &more)
    }

    fn receiver(&self) -> Daemon {
        let more = ["--super", &self.hub.endpoint("udp"), "--inbox", &text(&self.inbox)];
        start(&self.network, "r", "5,5", &more)
    }

    fn leave(&self, more: &[&str]) -> String {
        let file = text(&self.file);
        let report = self.sender.json(&[&["send", &file, "r", "--until", "1h"], more].concat());
        report["id"].as_str().unwrap_or_else(|| panic!("{report}")).to_owned()
    }

    fn row(&self, id: &str) -> Value {
        let outbox = self.sender.json(&["outbox"]);
        let rows = outbox["files"].as_array().unwrap();
        rows.iter().find(|row| row["id"] == id).unwrap_or_else(|| panic!("no {id} in {outbox}")).clone()
    }

    #[track_caller]
    fn await_state(&self, id: &str, state: &str) {
        let there = wait_until(4 * PATIENCE, || (self.row(id)["state"] == state).then_some(()));
        assert!(there.is_some(), "{}\n{}", self.row(id), self.sender.log());
    }

    /// The files of the inbox that have their names.
    fn names(&self) -> Vec<String> {
        let names = files_under(&self.inbox);
        let names = names.iter().map(|path| path.file_name().unwrap().to_str().unwrap().to_owned());
        names.filter(|name| !name.starts_with('.')).collect()
    }

    fn arriving(&self) -> u64 {
        let parts = files_under(&self.inbox);
        let parts = parts.iter().filter(|path| path.extension().is_some_and(|end| end == "part"));
        parts.filter_map(|path| Some(fs::metadata(path).ok()?.len())).max().unwrap_or(0)
    }

    #[track_caller]
    fn has_come_once(&self) {
        assert_eq!(self.names(), ["site.tif"]);
        assert!(fs::read(self.inbox.join("site.tif")).unwrap() == fs::read(&self.file).unwrap());
    }
}

/// Starts a daemon, perhaps again under its identity.
fn start(network: &Network, name: &str, at: &str, more: &[&str]) -> Daemon {
    let folder = network.path(&format!("id-{name}"));
    let identity = if folder.exists() { folder } else { network.identity(name, "node") };
    network.start("overlay-node", name, &identity, &[&["--at", at], more].concat()).ready()
}

#[test]
fn file_waits_for_absent_receiver() {
    let pair = OutboxPair::new(3 * MB);
    let id = pair.leave(&[]);
    let mut unchanged = unchanged(std::time::Duration::from_secs(20));
    let why = || pair.row(&id)["obstacle"].as_str().map(|_| ());
    assert!(wait_until(4 * PATIENCE, || unchanged(why())).is_some(), "{}", pair.row(&id));
    assert_eq!((&pair.row(&id)["state"], &pair.row(&id)["tries"]), (&"waiting".into(), &0.into()));
    assert_eq!(pair.sender.metric("roost_outbox_files", ""), 1.0);
    let _receiver = pair.receiver();
    pair.await_state(&id, "delivered");
    pair.has_come_once();
    let status = pair.sender.status().unwrap();
    assert_eq!((&status["outbox"]["files"], &status["outbox"]["delivered"]), (&0.into(), &1.into()), "{status}");
}

/// A pair that has met: the receiver got a file, and is gone.
fn met_pair() -> OutboxPair {
    let pair = OutboxPair::new(1_000);
    let mut receiver = pair.receiver();
    let id = pair.leave(&[]);
    pair.await_state(&id, "delivered");
    receiver.process.kill();
    fs::remove_file(pair.inbox.join("site.tif")).unwrap();
    pair
}

#[test]
fn small_file_waits_at_home_without_its_sender() {
    let mut pair = met_pair();
    let id = pair.leave(&[]);
    let there = wait_until(8 * PATIENCE, || (pair.row(&id)["left_at"] == "sn1").then_some(()));
    assert!(there.is_some(), "{}\n{}", pair.row(&id), pair.sender.log());
    assert_eq!(pair.hub.metric("roost_hub_mailbox_files", ""), 1.0);
    pair.sender.process.kill();
    let _receiver = pair.receiver();
    let come = wait_until(4 * PATIENCE, || (pair.names() == ["site.tif"]).then_some(()));
    assert!(come.is_some(), "{}", pair.hub.log());
    assert!(wait_until(PATIENCE, || (pair.hub.metric("roost_hub_mailbox_files", "") == 0.0).then_some(())).is_some());
    // The sender offers it again, and hears that the receiver has it.
    pair.sender = OutboxPair::start_sender(&pair.network, &pair.hub, "1GB");
    pair.await_state(&id, "delivered");
    pair.has_come_once();
}

#[test]
fn file_for_unmet_receiver_stays_in_outbox() {
    let pair = OutboxPair::new(1_000);
    let id = pair.leave(&[]);
    let said = || pair.row(&id)["obstacle"].as_str().filter(|why| why.contains("has not met")).map(|_| ());
    assert!(wait_until(8 * PATIENCE, said).is_some(), "{}", pair.row(&id));
    assert!(pair.row(&id)["left_at"].is_null());
    let _receiver = pair.receiver();
    pair.await_state(&id, "delivered");
    pair.has_come_once();
}

#[test]
fn sender_killed_during_transfer_resumes() {
    let mut pair = OutboxPair::new(100 * MB);
    let _receiver = pair.receiver();
    let id = pair.leave(&[]);
    assert!(wait_until(PATIENCE, || (pair.arriving() >= 2 * MB as u64).then_some(())).is_some());
    pair.sender.process.kill();
    pair.sender = OutboxPair::start_sender(&pair.network, &pair.hub, "1GB");
    pair.await_state(&id, "delivered");
    pair.has_come_once();
}

#[test]
fn receiver_killed_at_any_time_stores_once() {
    let pair = OutboxPair::new(10 * MB);
    let mut receiver = pair.receiver();
    let id = pair.leave(&[]);
    // The file has its name, and the sender may not have heard of it.
    assert!(wait_until(4 * PATIENCE, || (!pair.names().is_empty()).then_some(())).is_some());
    receiver.process.kill();
    let _receiver = pair.receiver();
    pair.await_state(&id, "delivered");
    pair.has_come_once();
}

#[test]
fn end_can_be_waited_for() {
    let pair = OutboxPair::new(MB);
    let (file, socket) = (text(&pair.file), &pair.sender);
    let said = socket.fails(6, &["send", &file, "r", "--until", "2s", "--wait"]);
    assert!(said.contains("the time of the delivery is over"), "{said}");
    let _receiver = pair.receiver();
    let output = socket.roost(&["send", &file, "r", "--until", "1h", "--wait"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    pair.has_come_once();
}

#[test]
fn interrupted_wait_leaves_file_in_outbox() {
    let pair = OutboxPair::new(MB);
    let command = pair.sender.command(&["send", &text(&pair.file), "r", "--until", "1h", "--wait"]);
    let mut waiting = Process::start(command, pair.network.path("waiting.log")).unwrap();
    let id = wait_until(PATIENCE, || waiting.log().lines().find(|line| line.len() == 16).map(str::to_owned));
    let id = id.unwrap_or_else(|| panic!("{}", waiting.log()));
    waiting.signal("INT");
    assert_eq!(waiting.wait(PATIENCE), Some(130), "{}", waiting.log());
    let said = waiting.log();
    assert!(said.contains(&format!("`roost outbox cancel {id}` takes it out")), "{said}");
    assert_eq!(pair.row(&id)["state"], "waiting");
}

#[test]
fn bad_deliveries_are_explained() {
    let mut pair = OutboxPair::new(MB);
    let file = text(&pair.file);
    for (code, until, part) in [
        (2, "2001-01-01T00:00:00Z", "in the past"),
        (2, "31d", "more than 30 days"),
        (2, "soon", "expected such as 24h"),
    ] {
        let said = pair.sender.fails(code, &["send", &file, "r", "--until", until]);
        assert!(said.contains(part), "{until}: {said}");
    }
    let unknown = pair.sender.fails(4, &["outbox", "cancel", "0123456789abcdef"]);
    assert!(unknown.contains("no file 0123456789abcdef is in the outbox"), "{unknown}");
    let id = pair.leave(&[]);
    assert!(pair.sender.roost(&["outbox", "cancel", &id]).status.success());
    pair.await_state(&id, "cancelled");
    assert!(pair.sender.fails(5, &["outbox", "cancel", &id]).contains("has ended already"));
    pair.sender.process.kill();
    pair.sender = OutboxPair::start_sender(&pair.network, &pair.hub, "500kB");
    let full = pair.sender.fails(5, &["send", &file, "r", "--until", "1h"]);
    assert!(full.contains("the outbox has no room"), "{full}");
    let without = start(&pair.network, "w", "2,2", &["--super", &pair.hub.endpoint("udp")]);
    assert!(without.fails(5, &["outbox"]).contains("this node has no outbox"));
}

#[test]
fn receiver_without_inbox_refuses_at_last() {
    let pair = OutboxPair::new(MB);
    let id = pair.leave(&[]);
    let _receiver = start(&pair.network, "r", "5,5", &["--super", &pair.hub.endpoint("udp")]);
    pair.await_state(&id, "refused");
    assert!(pair.row(&id)["obstacle"].as_str().is_some_and(|why| why.contains("no inbox")), "{}", pair.row(&id));
}

#[test]
fn baseline_keeps_no_files() {
    let network = Network::new();
    let server = network.server("cs");
    let (outbox, file) = (text(&network.path("outbox")), network.path("site.tif"));
    fs::write(&file, "x").unwrap();
    let sender = network.node("s", "1,1", &["--server", &server.endpoint("udp"), "--outbox", &outbox]);
    let said = sender.fails(5, &["send", &text(&file), "r", "--until", "1h"]);
    assert!(said.contains("with a server all data goes through it"), "{said}");
}

/// In a namespace of its own, which this machine must allow, the daemon has a disk of its own that is too small.
#[test]
fn full_disk_of_outbox_is_explained() {
    let pair = OutboxPair::new(4 * MB);
    let disk = pair.network.path("disk");
    fs::create_dir(&disk).unwrap();
    let identity = pair.network.identity("d", "node");
    let client = pair.network.client("d");
    let script = format!(
        "mount -t tmpfs -o size=2m tmpfs {disk} && \
         {daemon} --identity {identity} --socket {socket} --listen udp://127.0.0.1:0 --at 3,3 --super {hub} \
         --outbox {disk} & daemon=$!; until {roost} --socket {socket} status -q; do :; done; \
         {roost} --socket {socket} send {file} r --until 1h; echo exit $?; ls {disk}; kill $daemon",
        disk = text(&disk),
        daemon = text(&binary("overlay-node")),
        roost = text(&binary("roost")),
        identity = text(&identity),
        socket = text(&client.socket),
        hub = pair.hub.endpoint("udp"),
        file = text(&pair.file),
    );
    let output = std::process::Command::new("unshare").args(["-rm", "sh", "-c", &script]).output().unwrap();
    let (out, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(out.contains("exit 5"), "{out}\n{said}");
    assert!(said.contains("the disk of the outbox is full"), "{out}\n{said}");
    assert!(!out.contains(".data"), "{out}\n{said}");
}
