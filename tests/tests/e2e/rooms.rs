//! Rooms: everyone sends and everyone receives, with the real daemons.

use std::collections::BTreeSet;
use std::net::UdpSocket;
use std::path::PathBuf;
use std::time::Duration;

use roost_tests::network::{Daemon, Network, PATIENCE, text};
use roost_tests::process::{Process, files_under, wait_until};
use serde_json::Value;

/// A member that dies without a word is in until its super node notices, a minute at most.
const LEASE: Duration = Duration::from_secs(60);

/// A node, and `roost join-room` on it.
struct Guest {
    daemon: Daemon,
    node: String,
    inside: Process,
    streams: PathBuf,
}

impl Guest {
    fn enter(network: &Network, number: usize, hub: &str) -> Self {
        let name = format!("n{number}");
        let daemon = network.node(&name, &format!("{number},7"), &["--super", hub, "--services", "video,sensor"]);
        let node = daemon.status().unwrap()["node"].as_str().unwrap().to_owned();
        let streams = network.path(&format!("streams-{name}"));
        let command = daemon.command(&["join-room", "ops & air", "--json", "--output-dir", &text(&streams)]);
        let inside = Process::start(command, network.path(&format!("room-{name}.log"))).unwrap();
        Self { daemon, node, inside, streams }
    }

    /// The events so far.
    fn events(&self) -> Vec<Value> {
        self.inside.log().lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// The nodes of which there is such an event.
    fn nodes(&self, event: &str) -> BTreeSet<String> {
        let events = self.events();
        let those = events.iter().filter(|one| one["event"] == event);
        those.filter_map(|one| one["node"].as_str()).map(str::to_owned).collect()
    }

    fn wait_for(&self, within: Duration, event: &str, nodes: &BTreeSet<String>) {
        let there = || nodes.is_subset(&self.nodes(event)).then_some(());
        let (inside, daemon) = (self.inside.log(), self.daemon.log());
        wait_until(within, there)
            .unwrap_or_else(|| panic!("{event} of {nodes:?}:\n{}\n{inside}\n{daemon}", self.inside.log()));
    }

    /// To whom copies of its own stream go.
    fn copies(&self) -> Vec<Value> {
        let streams = self.daemon.json(&["streams"]);
        let published = streams["streams"].as_array().unwrap().iter().filter(|stream| stream["published"] == true);
        published.flat_map(|stream| stream["downstreams"].as_array().unwrap().clone()).collect()
    }

    /// Leaves the room, and says what came of each of the others.
    fn leave(&mut self) -> Vec<Value> {
        self.inside.signal("INT");
        assert_eq!(self.inside.wait(PATIENCE), Some(0), "{}", self.inside.log());
        let report = self.events().pop().unwrap();
        assert_eq!(report["event"], "report", "{report}");
        report["members"].as_array().unwrap().clone()
    }
}

fn others(guests: &[Guest], but: usize) -> BTreeSet<String> {
    let others = guests.iter().enumerate().filter(|(number, _)| *number != but);
    others.map(|(_, guest)| guest.node.clone()).collect()
}

#[test]
fn members_receive_all_until_leaving() {
    let network = Network::new();
    let [first, second] = network.pair();
    let hubs = [&first, &first, &second, &second].map(|hub| hub.endpoint("udp"));
    let mut guests: Vec<Guest> =
        hubs.iter().zip(1..).map(|(hub, number)| Guest::enter(&network, number, hub)).collect();
    for (number, guest) in guests.iter().enumerate() {
        guest.wait_for(PATIENCE, "receiving", &others(&guests, number));
    }
    for guest in &guests {
        // While the first of them come together there may be two ways to the same home.
        wait_until(PATIENCE, || (guest.copies().len() == 1).then_some(()))
            .unwrap_or_else(|| panic!("{:#?}", guest.copies()));
    }

    // A guest leaves: the others hear it at once, and have a whole file of it.
    let mut left = guests.pop().unwrap();
    let has_begun = |file: &PathBuf| std::fs::metadata(file).is_ok_and(|file| file.len() > 0);
    let begun = || files_under(&left.streams).iter().filter(|file| has_begun(file)).count();
    wait_until(PATIENCE, || (begun() == 3).then_some(())).unwrap_or_else(|| panic!("{}", left.inside.log()));
    let report = left.leave();
    assert_eq!(report.len(), 3, "{report:?}");
    for row in &report {
        assert!(row["bytes"].as_u64() > Some(0) && row["service"] == "video" && row["present"] == true, "{row}");
        assert!(row["name"].as_str().is_some_and(|name| name.starts_with('n')), "{row}");
    }
    assert_eq!(files_under(&left.streams).len(), 3);
    let node = BTreeSet::from([left.node.clone()]);
    for guest in &guests {
        guest.wait_for(PATIENCE, "left", &node);
        let file = guest.streams.join(format!("{}.ts", left.node));
        wait_until(PATIENCE, || file.exists().then_some(())).unwrap_or_else(|| panic!("{}", file.display()));
    }

    // A guest dies: nobody else's streams break.
    let mut dead = guests.pop().unwrap();
    dead.daemon.process.kill();
    dead.inside.kill();
    let node = BTreeSet::from([dead.node.clone()]);
    for guest in &guests {
        guest.wait_for(LEASE + PATIENCE, "left", &node);
        assert!(guest.nodes("broken").is_subset(&node), "{}", guest.inside.log());
    }
    let report = guests[0].leave();
    let present: Vec<_> = report.iter().filter(|row| row["present"] == true).collect();
    assert_eq!((report.len(), present.len()), (3, 1), "{report:?}");
    assert!(present[0]["node"] == guests[1].node && present[0]["bytes"].as_u64() > Some(1_000_000), "{report:?}");
}

#[test]
fn silent_member_watches_on_separate_ports() {
    let network = Network::new();
    let hub = network.supernode("sn1", &[]);
    let endpoint = hub.endpoint("udp");
    let watcher = network.node("w", "1,1", &["--super", &endpoint]);
    let said = watcher.fails(2, &["join-room", "ops", "--services", "image"]);
    assert!(said.contains("image is no stream"), "{said}");
    let said = watcher.fails(2, &["join-room", "ops", "-o", "clip.ts"]);
    assert!(said.contains("-o udp://HOST:PORT"), "{said}");

    // Whoever mistypes the room is told so.
    let alone = watcher.command(&["join-room", "oops", "--for", "1s"]).output().unwrap();
    let said = String::from_utf8_lossy(&alone.stderr);
    assert!(alone.status.success() && said.contains("Nobody else was in oops."), "{said}");

    let senders = ["a", "b"].map(|name| network.node(name, "2,2", &["--super", &endpoint, "--services", "video"]));
    let mut inside = senders.each_ref().map(|sender| {
        let log = network.path(&format!("room-{}.log", sender.status().unwrap()["name"].as_str().unwrap()));
        Process::start(sender.command(&["join-room", "ops"]), log).unwrap()
    });
    let pair = || {
        let first = UdpSocket::bind("127.0.0.1:0").ok()?;
        let second = UdpSocket::bind(("127.0.0.1", first.local_addr().ok()?.port().checked_add(2)?)).ok()?;
        Some([first, second])
    };
    let players = wait_until(PATIENCE, pair).unwrap();
    let to = format!("udp://{}", players[0].local_addr().unwrap());
    let log = network.path("room-w.log");
    let mut watching = Process::start(watcher.command(&["join-room", "ops", "-o", &to]), log).unwrap();
    for player in &players {
        player.set_read_timeout(Some(PATIENCE)).unwrap();
        assert!(player.recv(&mut [0; 2000]).is_ok(), "{}", watching.log());
    }
    // A node is in a room only once.
    let said = watcher.fails(5, &["join-room", "ops"]);
    assert!(said.contains("in that room already"), "{said}");
    watching.signal("INT");
    assert_eq!(watching.wait(PATIENCE), Some(0));
    let said = watching.log();
    assert!(
        said.contains("NODE") && said.contains(&to) && said.lines().filter(|line| line.starts_with('+')).count() == 2,
        "{said}"
    );
    for sender in &mut inside {
        sender.signal("INT");
        assert_eq!(sender.wait(PATIENCE), Some(0), "{}", sender.log());
        // The watcher offers nothing that could be watched.
        assert!(!sender.log().contains(" comes into "), "{}", sender.log());
    }
}
