//! A node that follows a receiver, and lookups that follow the node.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use roost_tests::network::{Daemon, Network, PATIENCE};
use roost_tests::process::wait_until;
use serde_json::Value;

/// Meters to the east in a degree at this latitude.
const DEGREE_M: f64 = 75_200.0;
const PAUSE: Duration = Duration::from_millis(200);

/// A gpsd with one receiver, on the way to the east at a speed, or standing.
struct FakeGpsd {
    port: u16,
    says: Sender<Says>,
}

#[derive(Clone, Copy)]
enum Says {
    /// Degrees east and meters per second from now on.
    Way([f64; 2]),
    /// The receiver goes on to report, without a fix.
    NoFix,
    /// The program ends, and its port is closed.
    End,
}

impl FakeGpsd {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (says, words) = channel();
        std::thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            drop(listener);
            report(stream, &words);
        });
        Self { port, says }
    }

    fn say(&self, what: Says) {
        self.says.send(what).unwrap();
    }
}

fn report(mut stream: TcpStream, words: &Receiver<Says>) {
    let mut asked = String::new();
    BufReader::new(stream.try_clone().unwrap()).read_line(&mut asked).unwrap();
    assert!(asked.starts_with("?WATCH="), "{asked}");
    let (mut says, mut since) = (Says::NoFix, Instant::now());
    loop {
        let line = match says {
            Says::End => return,
            Says::NoFix => r#"{"class":"TPV","mode":1}"#.to_owned(),
            Says::Way([lon, speed]) => {
                let lon = lon + speed * since.elapsed().as_secs_f64() / DEGREE_M;
                format!(r#"{{"class":"TPV","mode":3,"lat":47.5,"lon":{lon},"eph":60.0,"track":90.0,"speed":{speed}}}"#)
            }
        };
        if writeln!(stream, "{line}").is_err() {
            return;
        }
        match words.recv_timeout(PAUSE) {
            Ok(next) => (says, since) = (next, Instant::now()),
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

/// The only provider, as a lookup anywhere tells it.
fn provider(requester: &Daemon) -> Option<Value> {
    let found = requester.roost(&["lookup", "sensor", "--near", "0,0", "--json"]);
    let found: Value = serde_json::from_slice(&found.stdout).ok()?;
    found["candidates"].as_array()?.first().cloned()
}

fn until<T>(requester: &Daemon, what: &str, look: impl Fn(&Value) -> Option<T>) -> T {
    let found = wait_until(PATIENCE, || look(&provider(requester)?));
    found.unwrap_or_else(|| panic!("{what}: {:?}", provider(requester)))
}

#[test]
fn lookup_follows_a_receiver() {
    let network = Network::at("47.0,9.0");
    let hub = network.supernode("sn1", &[]);
    let (gpsd, endpoint) = (FakeGpsd::start(), hub.endpoint("udp"));
    let at = format!("gpsd:127.0.0.1:{}", gpsd.port);
    let node = network.node("n", &at, &["--super", &endpoint, "--services", "sensor"]);
    let requester = network.node("r", "0,0", &["--super", &endpoint]);
    let following = |state: &str| {
        let is_so = |status: &Value| (status["following"]["state"] == state).then_some(());
        node.wait_for(state, is_so);
    };
    following("no_fix");
    until(&requester, "nowhere", |found| (found["cell"] == "-1000000,-1000000").then_some(()));
    gpsd.say(Says::Way([9.25, 0.0]));
    following("fix");
    until(&requester, "standing", |found| {
        let is_there = (found["position"]["lon"].as_f64()? - 9.25).abs() < 1e-6;
        (found["cell"] == "18,55" && is_there).then_some(())
    });
    // Eastward from just before a border: over it without a record.
    gpsd.say(Says::Way([9.25, 40.0]));
    let record = until(&requester, "moving", |found| {
        found["position"]["speed_mps"].as_f64().filter(|speed| *speed > 1.0).map(|_| found["record"].clone())
    });
    let cell = until(&requester, "over a border", |found| {
        (found["cell"] != "18,55").then(|| (found["cell"].clone(), found["record"].clone()))
    });
    assert_eq!(cell, ("19,55".into(), record));
    // In a tunnel the receiver goes on to report, and the node stands.
    gpsd.say(Says::NoFix);
    following("no_fix");
    until(&requester, "in a tunnel", |found| found["position"]["speed_mps"].is_null().then_some(()));
    gpsd.say(Says::Way([9.3, 40.0]));
    following("fix");
    until(&requester, "out of the tunnel", |found| {
        found["position"]["speed_mps"].as_f64().filter(|speed| *speed > 1.0)
    });
    // Without its receiver the node stays.
    gpsd.say(Says::End);
    following("unreachable");
    until(&requester, "stopped", |found| found["position"]["speed_mps"].is_null().then_some(()));
    let status = node.roost(&["status"]);
    let status = String::from_utf8(status.stdout).unwrap();
    assert!(status.contains("cannot be reached for"), "{status}");
}

#[test]
fn orbit_needs_a_file_that_ends() {
    let network = Network::at("47.0,9.0");
    let hub = network.supernode("sn1", &[]);
    let (identity, endpoint) = (network.identity("n", "node"), hub.endpoint("udp"));
    let mut node = network.start("overlay-node", "n", &identity, &["--at", "tle:/dev/zero", "--super", &endpoint]);
    assert_eq!(node.process.wait(PATIENCE), Some(64), "{}", node.log());
    assert!(node.log().contains("/dev/zero is no file"), "{}", node.log());
}

#[test]
fn receiver_needs_a_datum() {
    let network = Network::new();
    let hub = network.supernode("sn1", &[]);
    let (identity, endpoint) = (network.identity("n", "node"), hub.endpoint("udp"));
    let mut node = network.start("overlay-node", "n", &identity, &["--at", "gpsd", "--super", &endpoint]);
    assert_eq!(node.process.wait(PATIENCE), Some(78), "{}", node.log());
    assert!(node.log().contains("gpsd has no cell in a group without a datum"), "{}", node.log());
}
