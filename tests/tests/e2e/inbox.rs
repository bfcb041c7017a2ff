//! An inbox beside members who offer what they do not send.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use roost_tests::adversary::Adversary;
use roost_tests::isolation::{Served, requests};
use roost_tests::network::{Daemon, Network, PATIENCE, text};
use roost_tests::process::wait_until;
use roost_wait::beats;
use roost_wire::RequestId;
use roost_wire::messages::{Message, Push, RequestMessage};

/// A hub, a sender and a receiver with an inbox of this limit.
struct InboxSetup {
    network: Network,
    _hub: Daemon,
    sender: Daemon,
    receiver: Daemon,
    inbox: PathBuf,
}

impl InboxSetup {
    fn new(limit: &str) -> Self {
        let network = Network::new();
        let hub = network.supernode("sn1", &[]);
        let (endpoint, inbox) = (hub.endpoint("udp"), network.path("inbox"));
        let folder = text(&inbox);
        let more = ["--super", &endpoint, "--services", "sensor", "--inbox", &folder, "--inbox-limit", limit];
        let receiver = network.node("r", "5,5", &more);
        let sender = network.node("s", "1,1", &["--super", &endpoint]);
        Self { network, _hub: hub, sender, receiver, inbox }
    }

    fn liar(&self, name: &str) -> Adversary {
        let at: SocketAddr = self.receiver.endpoint("udp").strip_prefix("udp://").unwrap().parse().unwrap();
        Adversary::at(&self.network.identity(name, "node"), at)
    }

    /// Sends a file of so many bytes; whether that was taken.
    fn send(&self, name: &str, bytes: usize) -> Result<(), String> {
        let file = self.network.path(name);
        fs::write(&file, vec![b'x'; bytes]).unwrap();
        let node = self.receiver.status().unwrap()["node"].as_str().unwrap().to_owned();
        let output = self.sender.roost(&["send", &text(&file), &node, "--address", &self.receiver.endpoint("udp")]);
        if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.inbox).unwrap();
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect()
    }
}

fn offer(liar: &Adversary, number: u32, bytes: u64) {
    let digest = std::array::from_fn(|at| number.to_le_bytes()[at % 4]);
    let (id, name) = (RequestId(number), format!("never-{number}"));
    liar.say(&Message::Request(RequestMessage::Push(Push {
        id,
        name,
        bytes,
        digest,
        addresses: Vec::new(),
        delivery: None,
    })));
}

/// Sends files one after the other, and collects what was said of those that were not taken.
fn honest_sends(scene: &InboxSetup, name: &str, told: &str) -> Vec<String> {
    let (mut number, mut failed) = (0, Vec::new());
    let served = Served::count(|| {
        number += 1;
        scene.send(&format!("{name}-{number}"), 2000).map_err(|said| failed.push(said)).is_ok()
    });
    assert_eq!(served.all(told), failed.is_empty());
    failed
}

#[test]
fn unsent_offers_block_no_sender() {
    let scene = InboxSetup::new("1GB");
    assert_eq!(honest_sends(&scene, "alone", "a file of 2 kB, alone"), Vec::<String>::new());
    let liars = ["m1", "m2", "m3", "m4"].map(|name| scene.liar(name));
    let done = AtomicBool::new(false);
    let failed = thread::scope(|scope| {
        for liar in liars {
            let done = &done;
            scope.spawn(move || {
                for number in beats(Duration::from_millis(250)).take_while(|_| !done.load(Ordering::Relaxed)) {
                    (0..16).for_each(|more| offer(&liar, number * 16 + more, 1_000_000_000));
                }
            });
        }
        let failed = honest_sends(&scene, "beside", "a file of 2 kB, beside four members that offer and do not send");
        done.store(true, Ordering::Relaxed);
        failed
    });
    assert_eq!(failed, Vec::<String>::new());
    let hidden = || scene.names().iter().filter(|name| name.starts_with('.')).count();
    assert!(wait_until(PATIENCE, || (hidden() == 0).then_some(())).is_some(), "{:?}", scene.names());
    assert_eq!(scene.names().len(), 2 * requests());
}

#[test]
fn small_files_count_whole_blocks() {
    let scene = InboxSetup::new("40KiB");
    let sent: Vec<Result<(), String>> = (0..12).map(|number| scene.send(&format!("small-{number}"), 1)).collect();
    assert!(sent[..10].iter().all(Result::is_ok), "{sent:?}");
    assert!(sent[10..].iter().all(|sent| sent.as_ref().is_err_and(|said| said.contains("no room"))), "{sent:?}");
    fs::remove_file(scene.inbox.join("small-0")).unwrap();
    let room = || scene.send("small-12", 1).ok();
    assert!(wait_until(PATIENCE, room).is_some(), "whoever takes files out makes room");
}
