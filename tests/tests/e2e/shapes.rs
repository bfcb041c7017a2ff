//! Requests, subscriptions, files and rooms over networks of every shape: what is said to have
//! arrived has arrived. Real daemons in namespaces, which this machine must allow; `emulate
//! doctor` says what is missing. A few shapes in which each two properties meet run always, all of
//! them with `TEST_SHAPES=all`.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Output;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use roost_tests::hosts::{Gate, Star};
use roost_tests::network::{Client, Network, PATIENCE, text};
use roost_tests::pairwise::pairwise;
use roost_tests::process::{Process, files_under, wait_until};
use serde_json::Value;

/// So many networks at once.
const AT_ONCE: usize = 8;

/// The longest visit of a room in which nothing comes.
const VISIT: Duration = Duration::from_secs(6);

/// Of a recording that is there already.
const OLD: &[u8] = b"a good recording";

/// Less than what two seconds of the built-in video have.
const SOME_BYTES: usize = 100_000;

/// Families of the address on which the hub listens, and of those from which its nodes reach it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    V4,
    V6,
    /// Nodes of IPv4 at a hub that listens on `[::]`.
    Dual,
    /// A hub that listens on `[::]` as well, with the requester at IPv6.
    Mixed,
}

const FAMILIES: [Family; 4] = [Family::V4, Family::V6, Family::Dual, Family::Mixed];
const GATES: [Gate; 4] = [Gate::Open, Gate::Firewall, Gate::Translator, Gate::Symmetric];
const SCHEMES: [&str; 3] = ["udp", "tcp", "quic"];

#[derive(Clone, Copy, Debug)]
struct Shape {
    family: Family,
    requester: Gate,
    provider: Gate,
    scheme: &'static str,
    /// Nodes know the hub by the second address of its host.
    is_second: bool,
    /// Nothing leaves the hub's media port.
    is_mute: bool,
}

/// The number of values of each property, in the order of [`Shape::numbered`].
const SIZES: [usize; 6] = [4, 4, 4, 3, 2, 2];

impl Shape {
    fn numbered(case: &[usize]) -> Self {
        Self {
            family: FAMILIES[case[0]],
            requester: GATES[case[1]],
            provider: GATES[case[2]],
            scheme: SCHEMES[case[3]],
            is_second: case[4] == 1,
            is_mute: case[5] == 1,
        }
    }

    fn is_v6(self, host: &str) -> bool {
        self.family == Family::V6 || self.family == Family::Mixed && host == "s"
    }
}

/// The shapes to try: some, or all.
fn shapes() -> Vec<Shape> {
    let all = |sizes: &[usize]| {
        let count = sizes.iter().product();
        let case = |mut number: usize| {
            let digit = |size: &usize| {
                let digit = number % size;
                number /= size;
                digit
            };
            sizes.iter().map(digit).collect::<Vec<_>>()
        };
        (0..count).map(case).collect::<Vec<_>>()
    };
    let cases = match std::env::var("TEST_SHAPES").as_deref() {
        Ok("all") => all(&SIZES),
        Ok(one) => vec![one.split(',').map(|digit| digit.parse().expect("numbers of values")).collect()],
        Err(_) => pairwise(&SIZES),
    };
    cases.iter().map(|case| Shape::numbered(case)).collect()
}

/// A hub, a provider `p` with an inbox, and a requester `s`.
struct ShapeSetup<'a> {
    network: &'a Network,
    hosts: Star<'a>,
    shape: Shape,
    provider: Client,
    requester: Client,
}

impl<'a> ShapeSetup<'a> {
    fn new(network: &'a Network, shape: Shape) -> Self {
        let mut hosts = Star::behind(network, &[("p", shape.provider), ("s", shape.requester)]);
        if shape.is_mute {
            let drop = "table inet t { chain o { type filter hook output priority 0; udp sport 7702 drop; }; }";
            hosts.run("sn", &format!("nft '{drop}'"));
        }
        let any = if shape.family == Family::V4 { "0.0.0.0" } else { "[::]" };
        hosts.start("supernode", "sn", "supernode", &["--listen", &format!("{}://{any}:7700", shape.scheme)]);
        let inbox = text(&network.path("inbox"));
        let provider = Self::node(&mut hosts, shape, "p", &["--at", "5,5", "--services", "video", "--inbox", &inbox]);
        let requester = Self::node(&mut hosts, shape, "s", &["--at", "1,1"]);
        Self { network, hosts, shape, provider, requester }
    }

    fn node(hosts: &mut Star<'a>, shape: Shape, name: &str, more: &[&str]) -> Client {
        let is_v6 = shape.is_v6(name);
        let hub = SocketAddr::new(hosts.hub_for(name, is_v6, shape.is_second), 7700);
        let hub = format!("{}://{hub}", shape.scheme);
        let listen = format!("{}://{}:0", shape.scheme, if is_v6 { "[::]" } else { "0.0.0.0" });
        hosts.start("overlay-node", name, "node", &[&["--super", &hub, "--listen", &listen], more].concat())
    }

    /// A stream into a file that has something already.
    fn stream(&self, command: &str) -> Result<bool, String> {
        let file = self.network.path(&format!("{command}.ts"));
        fs::write(&file, OLD).unwrap();
        let arguments = [command, "video", "--at", "5,5", "--for", "2s", "--json", "-o", &text(&file)];
        // Nothing comes of a stream whose media port is mute.
        let patience: &[&str] = if self.shape.is_mute { &["--patience", "5s"] } else { &[] };
        let output = self.hosts.roost("s", &self.requester, &[&arguments, patience].concat());
        judge_stream(&output, &fs::read(file).unwrap())
    }

    fn send(&self) -> Result<bool, String> {
        let file = self.network.path("survey.tif");
        let content: Vec<u8> = (0..3_000_000_u32).flat_map(|number| (number % 251).to_le_bytes()).collect();
        fs::write(&file, &content).unwrap();
        let to = self.provider.status().unwrap()["node"].as_str().unwrap().to_owned();
        let output = self.hosts.roost("s", &self.requester, &["send", &text(&file), &to, "--json"]);
        let arrived = fs::read(self.network.path("inbox/survey.tif")).unwrap_or_default();
        match (output.status.success(), arrived == content) {
            (true, true) => Ok(true),
            (true, false) => Err(format!("success with {} bytes", arrived.len())),
            (false, true) => Err(format!("it arrived whole: {}", said(&output))),
            (false, false) => Ok(false),
        }
    }

    /// Both in a room, in which the provider sends.
    fn room(&self) -> Result<bool, String> {
        let inside = self.hosts.command("p", &self.provider, &["join-room", "ops", "--json"]);
        let _inside = Process::start(inside, self.network.path("room-p.log")).unwrap();
        let into = self.network.path("streams");
        let arguments = ["join-room", "ops", "--json", "--output-dir", &text(&into)];
        let visit = self.hosts.command("s", &self.requester, &arguments);
        let mut visit = Process::start(visit, self.network.path("room-s.log")).unwrap();
        // Two seconds of the stream, if anything comes.
        let comes = || files_under(&into).iter().any(|file| size(file) >= 2 * SOME_BYTES).then_some(());
        wait_until(VISIT, comes);
        visit.signal("INT");
        visit.wait(PATIENCE);
        let lines = visit.log();
        let events: Vec<Value> = lines.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let report = events.last().filter(|event| event["event"] == "report");
        let members = report.and_then(|report| report["members"].as_array().cloned()).unwrap_or_default();
        let claimed = members.iter().filter_map(|row| row["bytes"].as_u64()).max().unwrap_or(0);
        let written = files_under(&into);
        let bytes: Vec<usize> = written.iter().map(|file| size(file)).collect();
        match (claimed as usize, bytes.as_slice()) {
            (0, []) => Ok(false),
            (claimed, [written]) if claimed >= SOME_BYTES && *written >= SOME_BYTES => Ok(true),
            _ => Err(format!("{claimed} bytes claimed, {bytes:?} written:\n{lines}")),
        }
    }

    /// Outcomes that differ from those which a network of this shape should give, in words.
    fn shortcomings(&self) -> Vec<String> {
        let (direct, reflected) = thread::scope(|scope| {
            let direct = scope.spawn(|| [("request", self.stream("request")), ("send", self.send())]);
            let reflected = [("subscribe", self.stream("subscribe")), ("room", self.room())];
            (direct.join().unwrap(), reflected)
        });
        let wanted = |name, outcome: Result<bool, String>, arrives: &[bool]| {
            eprintln!("{:?} {name}: {outcome:?}", self.shape);
            let is_wanted = outcome.as_ref().is_ok_and(|outcome| arrives.contains(outcome));
            (!is_wanted).then(|| format!("{:?} {name}: {outcome:?}", self.shape))
        };
        let direct = direct.into_iter().filter_map(|(name, outcome)| wanted(name, outcome, &[true]));
        let mut short: Vec<String> = direct.collect();
        // Between two who do not reach each other the hub relays, for which it needs no media port.
        let is_apart = self.shape.requester != Gate::Open && self.shape.provider != Gate::Open;
        let arrives: &[bool] = match (self.shape.is_mute, is_apart) {
            (false, _) => &[true],
            (true, false) => &[false],
            (true, true) => &[false, true],
        };
        short.extend(reflected.into_iter().filter_map(|(name, outcome)| wanted(name, outcome, arrives)));
        if !short.is_empty() && std::env::var_os("TEST_LOGS").is_some() {
            short.push(format!("{}\n---\n{}", self.requester.log(), self.provider.log()));
        }
        short
    }
}

fn size(file: &Path) -> usize {
    fs::metadata(file).map_or(0, |file| file.len() as usize)
}

fn said(output: &Output) -> String {
    let all = [&output.stdout[..], &output.stderr[..]].concat();
    format!("{}: {}", output.status, String::from_utf8_lossy(&all))
}

/// True if a stream has arrived whole, false if the command failed and left the old recording as it was.
fn judge_stream(output: &Output, file: &[u8]) -> Result<bool, String> {
    if output.status.success() {
        let report: Value = serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())?;
        let summary = &report["summary"];
        let is_whole = summary["packets"].as_u64() > Some(100) && summary["lost"] == 0 && file.len() > SOME_BYTES;
        return if is_whole { Ok(true) } else { Err(format!("success with {} bytes: {summary}", file.len())) };
    }
    if file == OLD { Ok(false) } else { Err(format!("{} bytes left: {}", file.len(), said(output))) }
}

#[test]
fn every_shape_delivers_or_says_why() {
    let shapes = shapes();
    let (next, wrong) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..AT_ONCE.min(shapes.len()) {
            scope.spawn(|| {
                while let Some(shape) = shapes.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let network = Network::new();
                    let short = ShapeSetup::new(&network, *shape).shortcomings();
                    wrong.lock().unwrap().extend(short);
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{} of {} shapes:\n{}", wrong.len(), shapes.len(), wrong.join("\n"));
}
