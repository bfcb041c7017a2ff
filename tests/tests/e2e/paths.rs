//! A stream between two hosts that are joined by two connections, of which one after
//! the other fails: real daemons in namespaces, which this machine must allow;
//! `emulate doctor` says what is missing.

use std::process::{Child, Stdio};

use roost_tests::lab::Lab;
use roost_tests::network::{Client, Network, PATIENCE, text};
use roost_tests::process::wait_until;
use serde_json::Value;

/// The connections, and the addresses that `ground` and `uav` have on them.
const CONNECTIONS: [&str; 2] = ["ground-uav", "ground-uav-2"];
const GROUND: [&str; 2] = ["10.1.1.2", "10.1.2.2"];
const UAV: [&str; 2] = ["10.1.1.3", "10.1.2.3"];

const CONNECTION: (&str, &str, &str) = ("ground", "uav", "delay = \"2ms\"");

/// A provider on `uav`, joined by two connections to `ground` with a hub and a requester.
struct MultipathPair<'a> {
    lab: Lab<'a>,
    requester: Client,
    provider: Client,
}

fn several(hosts: [&str; 2], port: u16) -> String {
    format!("quic://{}:{port}", hosts.join("+"))
}

impl<'a> MultipathPair<'a> {
    fn new(network: &'a Network) -> Self {
        Self::on(Lab::new(network, &[CONNECTION, CONNECTION]))
    }

    fn on(lab: Lab<'a>) -> Self {
        Self::with(lab, &["--services", "video"])
    }

    /// A pair that offers these services.
    fn with(mut lab: Lab<'a>, services: &[&str]) -> Self {
        lab.supernode_on("ground", "sn1", &["--listen", &several(GROUND, 7700)]);
        let hub = several(GROUND, 7700);
        let requester = lab.node("ground", "1,1", &["--listen", &several(GROUND, 7711), "--super", &hub]);
        let listen = several(UAV, 7711);
        let provider = lab.node("uav", "5,5", &[&["--listen", &listen, "--super", &hub], services].concat());
        Self { lab, requester, provider }
    }

    /// Asks for a stream that lasts so long; it has begun over two paths when this returns.
    fn watch(&mut self, duration: &str, profile: &[&str]) -> Child {
        self.watch_over(duration, profile, 2)
    }

    fn watch_over(&mut self, duration: &str, profile: &[&str], count: usize) -> Child {
        let words = [&["request", "video", "--at", "5,5", "--for", duration, "--json"], profile].concat();
        let mut request = self.requester.command(&words);
        let request = request.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().expect("roost starts");
        self.wait_for("stream over as many paths", |paths| paths.iter().all(answers) && paths.len() >= count);
        request
    }

    /// Waits until the provider's paths to the requester are as wanted.
    fn wait_for(&self, what: &str, wanted: impl Fn(&[Value]) -> bool) {
        let seen = || paths(&self.provider, "ground");
        let there = wait_until(PATIENCE, || wanted(&seen()).then_some(()));
        assert!(there.is_some(), "no {what}: {:#?}\n{}", seen(), self.provider.log());
    }

    /// Waits until the provider's record names these addresses.
    fn publishes(&self, addresses: &[&str]) {
        let wanted = format!("quic://{}:7711", addresses.join("+"));
        let found = || self.requester.json(&["lookup", "video", "--at", "5,5"]).to_string();
        let there = wait_until(PATIENCE, || found().contains(&wanted).then_some(()));
        assert!(there.is_some(), "not {wanted}: {}\n{}", found(), self.provider.log());
    }
}

/// The paths of a daemon to a remote.
fn paths(of: &Client, to: &str) -> Vec<Value> {
    let listed = of.json(&["connections", "--paths"]);
    let row = listed["connections"].as_array().unwrap().iter().find(|row| row["name"] == to);
    row.and_then(|row| row["paths"].as_array().cloned()).unwrap_or_default()
}

fn answers(path: &Value) -> bool {
    path["answers"] == true
}

/// The counts of a stream of which nothing is missing and nothing came twice.
const NOUGHT: [&str; 3] = ["lost", "late", "duplicates"];

/// Waits for the stream's end, at which these counts are nought; its summary.
#[track_caller]
fn came(pair: &MultipathPair<'_>, request: Child, counts: &[&str]) -> Value {
    let output = request.wait_with_output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let summary = report["summary"].clone();
    let logs = || format!("{report}\nprovider:\n{}\nrequester:\n{}", pair.provider.log(), pair.requester.log());
    for count in counts {
        assert_eq!(summary[*count], 0, "{count}: {}", logs());
    }
    assert_eq!((&summary["complete"], &summary["transport"]), (&true.into(), &"quic".into()), "{}", logs());
    summary
}

/// Waits for the end of a stream that came as it was sent.
#[track_caller]
fn came_whole(pair: &MultipathPair<'_>, request: Child) {
    let summary = came(pair, request, &NOUGHT);
    assert_eq!((&summary["reordered"], &summary["digest_ok"]), (&0.into(), &true.into()), "{summary}");
}

#[test]
fn stream_survives_silent_path() {
    let network = Network::new();
    let mut pair = MultipathPair::new(&network);
    let usual = pair.watch("15s", &[]);
    let mut request = pair.watch("15s", &["--profile", "surveillance"]);
    // A path of which nothing is known yet is given longer before it counts as silent.
    pair.wait_for("traffic on both", |paths| paths.iter().all(|path| path["sent_bytes"].as_u64() > Some(10_000)));
    for index in [1, 0] {
        let is_on = |path: &Value| path["local"] == UAV[index];
        pair.lab.run(&format!("link {} down", CONNECTIONS[index]));
        pair.wait_for("path that is lost", |paths| paths.iter().all(|path| answers(path) != is_on(path)));
        pair.lab.run("wait 2s");
        pair.lab.run(&format!("link {} up", CONNECTIONS[index]));
        pair.wait_for("path that is back", |paths| paths.iter().all(answers));
    }
    assert!(request.try_wait().unwrap().is_none(), "the stream was over before both links had failed");
    came(&pair, usual, &NOUGHT);
    came_whole(&pair, request);
    for count in ["lost", "recovered"] {
        let counted = pair.provider.metric(&format!("roost_transport_paths_{count}_total"), "quic");
        assert!(counted >= 2.0, "{count}: {counted}\n{}", pair.provider.log());
    }
}

#[test]
fn reliable_stream_survives_silent_paths() {
    let network = Network::new();
    let mut pair = MultipathPair::new(&network);
    let mut request = pair.watch("12s", &["--profile", "surveillance"]);
    CONNECTIONS.iter().for_each(|connection| drop(pair.lab.run(&format!("link {connection} down"))));
    pair.wait_for("path that is lost", |paths| !paths.iter().any(answers));
    pair.lab.run("wait 2s");
    CONNECTIONS.iter().for_each(|connection| drop(pair.lab.run(&format!("link {connection} up"))));
    pair.wait_for("path that is back", |paths| paths.iter().all(answers));
    assert!(request.try_wait().unwrap().is_none(), "the stream was over before both links were back");
    // The provider may send again what was under way, of which the requester takes nothing twice.
    let summary = came(&pair, request, &["lost", "late", "reordered"]);
    assert_eq!(summary["digest_ok"], true, "{summary}\n{}\n{}", pair.provider.log(), pair.requester.log());
}

#[test]
fn object_survives_silent_path() {
    let network = Network::new();
    let (source, file) = (network.path("survey.tif"), network.path("got.tif"));
    std::fs::write(&source, (0..3_000_000_u32).flat_map(u32::to_le_bytes).collect::<Vec<_>>()).unwrap();
    let image = format!("file:{}", text(&source));
    let mut pair = MultipathPair::with(Lab::new(&network, &[CONNECTION, CONNECTION]), &["--sources-image", &image]);
    let mut request = pair.requester.command(&["request", "image", "--at", "5,5", "--json", "-o", &text(&file)]);
    let mut request = request.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().expect("roost starts");
    let sent = |path: &Value| path["sent_bytes"].as_u64().unwrap();
    let both = |least| move |paths: &[Value]| paths.len() == 2 && paths.iter().all(|path| sent(path) > least);
    pair.wait_for("object on both paths", both(1_000_000));
    pair.lab.run(&format!("link {} down", CONNECTIONS[0]));
    pair.wait_for("path that is lost", |paths| !paths.iter().all(answers));
    pair.lab.run(&format!("link {} up", CONNECTIONS[0]));
    pair.wait_for("path that is back", |paths| paths.iter().all(answers));
    assert!(request.try_wait().unwrap().is_none(), "the object was there before a link had failed");
    let output = request.wait_with_output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&report["summary"]["complete"], &report["resumed_at"]), (&true.into(), &Value::Null), "{report}");
    assert!(std::fs::read(&file).unwrap() == std::fs::read(&source).unwrap());
    // Little of the twelve megabytes went over one path alone.
    assert!(both(3_000_000)(&paths(&pair.provider, "ground")), "{:#?}", paths(&pair.provider, "ground"));
}

/// The interface of a host that has an address.
fn device(lab: &mut Lab<'_>, host: &str, address: &str) -> String {
    let listed = lab.run(&format!("{host} ip -o -4 address show to {address}"));
    listed.split_whitespace().nth(1).expect("the address is there").to_owned()
}

/// Of a host, takes its address on a link away, and gives it back.
fn without(pair: &mut MultipathPair<'_>, host: &str, index: usize, look: impl FnOnce(&mut MultipathPair<'_>)) {
    let address = if host == "uav" { UAV[index] } else { GROUND[index] };
    let device = device(&mut pair.lab, host, address);
    pair.lab.run(&format!("{host} ip address del {address}/24 dev {device}"));
    look(pair);
    pair.lab.run(&format!("{host} ip address add {address}/24 dev {device}"));
}

#[test]
fn removed_address_closes_and_reopens_path() {
    let network = Network::new();
    let mut pair = MultipathPair::new(&network);
    let mut request = pair.watch("30s", &["--profile", "surveillance"]);
    // Of the side that has dialled, and of the other.
    for host in ["uav", "ground"] {
        without(&mut pair, host, 1, |pair| {
            pair.wait_for("path that is given up", |paths| paths.len() == 1 && paths[0]["local"] == UAV[0]);
            let told = || (paths(&pair.requester, "uav").len() == 1).then_some(());
            assert!(wait_until(PATIENCE, told).is_some(), "{}", pair.requester.log());
            pair.publishes(if host == "uav" { &UAV[..1] } else { &UAV });
        });
        pair.publishes(&UAV);
        pair.wait_for("path that is back", |paths| paths.len() == 2 && paths.iter().all(answers));
    }
    // An interface that is down keeps its address.
    let device = device(&mut pair.lab, "uav", UAV[0]);
    pair.lab.run(&format!("uav ip link set {device} down"));
    pair.wait_for("path that is lost", |paths| paths.iter().all(|path| answers(path) != (path["local"] == UAV[0])));
    pair.lab.run(&format!("uav ip link set {device} up"));
    pair.wait_for("path that is back", |paths| paths.len() == 2 && paths.iter().all(answers));
    assert!(request.try_wait().unwrap().is_none(), "the stream was over before all addresses were back");
    came_whole(&pair, request);
    let log = pair.provider.log();
    assert!(log.contains("a local address disappeared") && log.contains("a local address appeared"), "{log}");
}

#[test]
fn late_address_adds_path() {
    let network = Network::new();
    let mut lab = Lab::new(&network, &[CONNECTION, CONNECTION]);
    let device = device(&mut lab, "uav", UAV[1]);
    lab.run(&format!("uav ip address del {}/24 dev {device}", UAV[1]));
    let mut pair = MultipathPair::on(lab);
    let request = pair.watch_over("10s", &[], 1);
    pair.lab.run(&format!("uav ip address add {}/24 dev {device}", UAV[1]));
    pair.wait_for("path over the address that came", |paths| {
        paths.len() == 2 && paths.iter().all(answers) && paths.iter().any(|path| path["local"] == UAV[1])
    });
    came(&pair, request, &NOUGHT);
}
