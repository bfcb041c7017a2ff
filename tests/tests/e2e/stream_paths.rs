//! Reflected streams over every kind of listener and address: a stream arrives,
//! or the command fails and says why. Real daemons in namespaces, which this
//! machine must allow; `emulate doctor` says what is missing.

use std::net::{IpAddr, SocketAddr};
use std::process::Output;
use std::thread;

use roost_tests::hosts::Star;
use roost_tests::network::{Client, Network, PATIENCE, text};
use roost_tests::process::{free_port, wait_until};
use serde_json::Value;

/// Of a recording that is there already.
const OLD: &[u8] = b"a good recording";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Listener {
    V4,
    V6,
    /// IPv6 that takes IPv4 as well, which nodes dial.
    Dual,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    None,
    /// Nothing leaves the super node's media port.
    Dropped,
    /// The provider, or the subscriber, is behind a translator of addresses.
    NatOf(&'static str),
}

/// A super node with a provider and a subscriber on connections of their own.
struct Case<'a> {
    hosts: Star<'a>,
    listener: Listener,
    is_second: bool,
}

impl<'a> Case<'a> {
    fn new(network: &'a Network, listener: Listener, is_second: bool) -> Self {
        Self { hosts: Star::new(network, &["p", "s"]), listener, is_second }
    }

    fn trouble(&mut self, trouble: Trouble) {
        const DROPPED: &str = "table inet t { chain o { type filter hook output priority 0; udp sport 7702 drop; }; }";
        // The translator gives other ports than those that are seen, and lets nobody in who was not called.
        const NAT: &str = "table ip t { \
            chain o { type nat hook postrouting priority 100; meta l4proto udp masquerade to :30000-40000 random; }; \
            chain i { type filter hook input priority 0; ct state new meta l4proto udp drop; }; }";
        let (host, rules) = match trouble {
            Trouble::None => return,
            Trouble::Dropped => ("sn", DROPPED),
            Trouble::NatOf(host) => (host, NAT),
        };
        self.hosts.run(host, &format!("nft '{rules}'"));
    }

    fn supernode(&mut self) -> Client {
        let any = if self.listener == Listener::V4 { "0.0.0.0" } else { "[::]" };
        self.hosts.start("supernode", "sn", "supernode", &["--listen", &format!("udp://{any}:7700")])
    }

    fn node(&mut self, name: &str, at: &str, more: &[&str]) -> Client {
        let is_v6 = self.listener == Listener::V6;
        let hub: IpAddr = self.hosts.hub_for(name, is_v6, self.is_second);
        let hub = format!("udp://{}", SocketAddr::new(hub, 7700));
        let listen = if is_v6 { "udp://[::]:0" } else { "udp://0.0.0.0:0" };
        let arguments = [&["--at", at, "--super", &hub, "--listen", listen], more].concat();
        self.hosts.start("overlay-node", name, "node", &arguments)
    }
}

/// Watches for some seconds, into a file that has something already.
fn watch(network: &Network, node: &Client, limits: &[&str]) -> (Output, Vec<u8>) {
    let file = network.path("keep.ts");
    std::fs::write(&file, OLD).unwrap();
    let words = ["subscribe", "video", "--at", "5,5", "--json", "-o", &text(&file), "--for"];
    let output = node.roost(&[&words, limits].concat());
    (output, std::fs::read(file).unwrap())
}

/// True if the stream has arrived whole; else an error has a reason, and the old recording is there.
fn judge(output: &Output, file: &[u8]) -> Result<bool, String> {
    let said = [&output.stdout[..], &output.stderr[..]].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    if output.status.code() == Some(0) {
        let report: Value = serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())?;
        let summary = &report["summary"];
        let is_whole = summary["packets"].as_u64() > Some(100) && summary["lost"] == 0 && file.len() > 100_000;
        return if is_whole { Ok(true) } else { Err(format!("success with {} bytes: {summary}", file.len())) };
    }
    assert!(matches!(output.status.code(), Some(5..=7)), "{:?}: {said}", output.status);
    let has_reason = said.contains("media port") || said.contains("incomplete") || said.contains("gives nothing");
    if has_reason && file == OLD {
        Ok(false)
    } else {
        Err(format!("{} bytes, {:?}: {said}", file.len(), output.status))
    }
}

/// All cases at the same time, each in namespaces of its own.
fn of_listener(listener: Listener, troubles: &[Trouble]) {
    let wrong: Vec<String> = thread::scope(|scope| {
        let cases = [false, true].into_iter().flat_map(|second| troubles.iter().map(move |trouble| (second, *trouble)));
        let start = |(second, trouble)| scope.spawn(move || outcome(listener, second, trouble).err());
        let cases: Vec<_> = cases.map(start).collect();
        cases.into_iter().filter_map(|case| case.join().unwrap()).collect()
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Checks a case; an error says what went wrong.
fn outcome(listener: Listener, is_second: bool, trouble: Trouble) -> Result<(), String> {
    let network = Network::new();
    let mut case = Case::new(&network, listener, is_second);
    let _hub = case.supernode();
    case.trouble(trouble);
    let provider = case.node("p", "5,5", &["--services", "video"]);
    let node = case.node("s", "1,1", &[]);
    let seen = case.hosts.roost("s", &node, &["doctor", "--json"]).stdout;
    let seen: Value = serde_json::from_slice(&seen).unwrap();
    let finding = seen["findings"].as_array().unwrap().iter().find(|finding| finding["check"] == "media port");
    let is_open = finding.is_some_and(|finding| finding["verdict"] == "ok");
    assert_eq!(is_open, trouble != Trouble::Dropped, "{seen:#}");
    // Of who is behind a translator it is enough that it is told.
    let (limits, arrives): (&[&str], _) = match trouble {
        Trouble::None => (&["5s"], Some(true)),
        Trouble::Dropped => (&["5s", "--patience", "5s"], Some(false)),
        Trouble::NatOf(_) => (&["5s", "--patience", "10s"], None),
    };
    let (output, file) = watch(&network, &node, limits);
    let judged = judge(&output, &file);
    let name = format!("{listener:?}, second address: {is_second}, {trouble:?}");
    eprintln!("{name}: {judged:?}");
    if judged.is_err() || arrives.is_some_and(|arrives| judged != Ok(arrives)) {
        return Err(format!("{name}: {judged:?}\n{}\n{}", node.log(), provider.log()));
    }
    Ok(())
}

#[test]
fn ipv4_streams_arrive_or_fail() {
    of_listener(Listener::V4, &[Trouble::None, Trouble::Dropped, Trouble::NatOf("p"), Trouble::NatOf("s")]);
}

#[test]
fn ipv6_streams_arrive_or_fail() {
    of_listener(Listener::V6, &[Trouble::None, Trouble::Dropped]);
}

#[test]
fn dual_stack_streams_arrive_or_fail() {
    of_listener(Listener::Dual, &[Trouble::None, Trouble::Dropped]);
}

#[test]
fn silent_camera_keeps_the_recording() {
    let network = Network::new();
    let hub = network.supernode("sn1", &[]);
    let endpoint = hub.endpoint("udp");
    let port = free_port();
    let source = format!("udp://127.0.0.1:{port}");
    let offer = ["--super", &endpoint, "--services", "video", "--sources-video", &source];
    let _provider = network.node("p", "5,5", &offer);
    let node = network.node("a", "1,1", &["--super", &endpoint]);
    let (output, file) = watch(&network, &node, &["2s"]);
    assert_eq!(judge(&output, &file), Ok(false));
    let said = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(5), "{said}");
    assert!(!said.contains("first_byte") && !network.path("keep.ts.part").exists(), "{said}");
}

/// The doctor's row about the media port of the node's hub, once the hub has told that.
fn media_row(node: &Client) -> Value {
    let look = || {
        let report: Value = serde_json::from_slice(&node.roost(&["doctor", "--json"]).stdout).ok()?;
        report["findings"].as_array()?.iter().find(|finding| finding["check"] == "media port").cloned()
    };
    wait_until(PATIENCE, look).unwrap_or_else(|| panic!("{:#?}", node.status()))
}

/// On ports of the system's choice.
#[test]
fn doctor_probes_media_port() {
    let network = Network::new();
    let hub = network.supernode("sn1", &[]);
    let media = hub.json(&["streams"])["media"].as_str().unwrap().to_owned();
    for scheme in ["udp", "tcp", "quic"] {
        let node = network.node(scheme, "1,1", &["--super", &hub.endpoint(scheme)]);
        let row = media_row(&node);
        let found = row["found"].as_str().unwrap();
        assert!(row["verdict"] == "ok" && found.contains(&media) && found.contains("sn1 ("), "{scheme}: {row}");
    }
    let deaf = network.supernode("sn2", &["--media", "off"]);
    let node = network.node("n", "1,1", &["--super", &deaf.endpoint("quic")]);
    let row = media_row(&node);
    assert!(row["verdict"] == "ok" && row["found"].as_str().unwrap().contains("tells of no media port"), "{row}");
}

/// Nothing comes for half a minute, which is the patience of a stream.
#[test]
fn missing_stream_ends_after_30_seconds() {
    let network = Network::new();
    let mut case = Case::new(&network, Listener::V4, false);
    let _hub = case.supernode();
    case.trouble(Trouble::Dropped);
    let _provider = case.node("p", "5,5", &["--services", "video"]);
    let node = case.node("s", "1,1", &[]);
    let began = std::time::Instant::now();
    let (output, file) = watch(&network, &node, &["90s"]);
    let took = began.elapsed().as_secs();
    assert!(took < 40, "it took {took} s: {output:?}");
    assert_eq!(judge(&output, &file), Ok(false));
    assert_eq!(output.status.code(), Some(6), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("p (") && said.contains("has accepted, but no packet of the stream came"), "{said}");
}
