//! Streams that super nodes reflect, with the real daemons.

use std::time::Duration;

use roost_tests::network::{Daemon, Network, PATIENCE};
use roost_tests::process::wait_until;
use roost_tests::streams::{Watcher, is_whole, kinds, nothing_flows, sent_to, stream, streams};
use serde_json::Value;

/// True if some two seconds of a stream have come.
fn is_long(stream: &Value) -> bool {
    stream["packets"].as_u64() > Some(200)
}

#[test]
fn provider_sends_one_copy_per_hub() {
    let network = Network::new();
    let hub = network.supernode("sn1", &[]);
    let endpoint = hub.endpoint("udp");
    let provider = network.node("p", "5,5", &["--super", &endpoint, "--services", "video"]);
    let nodes = ["a", "b"].map(|name| network.node(name, "1,1", &["--super", &endpoint]));
    let watch = |name, at: usize| Watcher::endless(&network, &nodes[at], name);
    let watchers = [watch("one", 0), watch("two", 1)];
    let mut leaver = watch("three", 1);
    let published = sent_to(&provider, 1);
    assert_eq!((&published["published"], kinds(&published)), (&Value::Bool(true), vec!["reflector".to_owned()]));
    assert_eq!(kinds(&sent_to(&hub, 2)), ["subscriber", "subscriber"]);
    leaver.kill();
    nodes.iter().for_each(|node| drop(stream(node, "it goes on", is_long)));
    for (summary, written) in watchers.into_iter().map(Watcher::finish) {
        is_whole(&summary, &written);
    }
    nodes.iter().for_each(|node| nothing_flows(node));
    nothing_flows(&hub);
    nothing_flows(&provider);
    let status = provider.status().unwrap();
    assert!(status["providing"].as_array().is_none_or(Vec::is_empty), "{status}");
}

#[test]
fn each_hub_gets_one_copy() {
    let network = Network::new();
    let [first, second] = network.pair();
    let (one, two) = (first.endpoint("udp"), second.endpoint("udp"));
    let provider = network.node("p", "5,5", &["--super", &one, "--services", "video"]);
    let near = network.node("near", "1,1", &["--super", &one]);
    let far = ["far1", "far2"].map(|name| network.node(name, "9,9", &["--super", &two]));
    let mut watchers = vec![Watcher::endless(&network, &near, "near")];
    watchers.extend(far.iter().zip(["f1", "f2"]).map(|(node, name)| Watcher::endless(&network, node, name)));
    // On a busy machine a node may be served at its standby, and a hub may have its copy of the provider.
    let hubs = || [&first, &second].map(|hub| streams(hub).into_iter().next()).into_iter().flatten();
    let copies = |kind: &str| {
        let all = hubs().chain(streams(&provider)).flat_map(|stream| kinds(&stream));
        all.filter(|one| one == kind).count()
    };
    let is_one_each = || {
        let count = hubs().count();
        (count > 0 && copies("reflector") == count && copies("subscriber") == 3).then_some(())
    };
    wait_until(PATIENCE, is_one_each).expect("each has one copy");
    assert!(streams(&provider).iter().flat_map(kinds).all(|kind| kind == "reflector"));
    // Whoever has it says what it is.
    let status = provider.status().unwrap();
    let name = [&Value::from("video"), &status["cell"], &status["node"]];
    let is_named = |row: &Value| ["service", "cell", "provider"].map(|key| &row[key]) == name;
    for daemon in [&*provider, &*near, &*far[0], &*far[1]] {
        stream(daemon, "it is named", is_named);
    }
    hubs().for_each(|row| assert!(is_named(&row), "{row:#}"));
    [&near, &far[0], &far[1]].into_iter().for_each(|node| drop(stream(node, "it comes", is_long)));
    // A node that moves to its standby has two for a moment.
    wait_until(PATIENCE, is_one_each).expect("each has one copy later, too");
    for (summary, written) in watchers.into_iter().map(Watcher::finish) {
        is_whole(&summary, &written);
    }
    [&*provider, &*first, &*second].into_iter().for_each(nothing_flows);
}

#[test]
fn interrupt_completes_endless_stream() {
    let network = Network::new();
    let hub = network.supernode("sn1", &[]);
    let endpoint = hub.endpoint("udp");
    let _provider = network.node("p", "5,5", &["--super", &endpoint, "--services", "video"]);
    let node = network.node("a", "1,1", &["--super", &endpoint]);
    let watchers = ["one", "two"].map(|name| Watcher::endless(&network, &node, name));
    stream(&node, "two seconds of it", is_long);
    for watcher in watchers {
        let (summary, written) = watcher.finish();
        is_whole(&summary, &written);
    }
    nothing_flows(&node);
    // A subscription with a time of its own is cut short.
    let short = Watcher::start(&network, &node, "short", "subscribe", "60s");
    stream(&node, "it comes", is_long);
    short.signal("INT");
    let (code, said) = short.fails();
    assert_eq!((code, said.contains("the transfer is incomplete")), (Some(130), true), "{said}");
    assert!(network.path("short.part").exists() && !network.path("short").exists());
}

#[test]
fn second_interrupt_skips_hung_daemon() {
    let network = Network::new();
    let hub = network.supernode("sn1", &[]);
    let endpoint = hub.endpoint("udp");
    let _provider = network.node("p", "5,5", &["--super", &endpoint, "--services", "video"]);
    let node = network.node("a", "1,1", &["--super", &endpoint]);
    let mut watcher = Watcher::endless(&network, &node, "one");
    stream(&node, "it comes", |stream| stream["packets"].as_u64() > Some(50));
    node.process.signal("STOP");
    let interrupted = |watcher: &mut Watcher| {
        watcher.signal("INT");
        wait_until(Duration::from_millis(200), || watcher.has_ended().then_some(()))
    };
    assert!(wait_until(PATIENCE, || interrupted(&mut watcher)).is_some());
    assert_eq!(watcher.fails().0, Some(130));
}

#[test]
fn subscribe_by_id_crosses_hubs() {
    let network = Network::new();
    let [first, second] = network.pair();
    let (one, two) = (first.endpoint("udp"), second.endpoint("udp"));
    let provider = network.node("p", "25,25", &["--super", &one, "--services", "video"]);
    let node = network.node("a", "1,1", &["--super", &two]);
    let id = provider.status().unwrap()["node"].as_str().unwrap().to_owned();
    let got = node.json(&["subscribe", "video", "--from", &id, "--for", "3s"]);
    let summary = &got["summary"];
    assert_eq!((&summary["provider"], &summary["reflected"]), (&Value::from(id), &Value::Bool(true)), "{got}");
}

#[test]
fn full_provider_request_is_reflected() {
    let network = Network::new();
    let hub = network.supernode("sn1", &[]);
    let endpoint = hub.endpoint("udp");
    let provider = network.node("p", "5,5", &["--super", &endpoint, "--services", "video", "--max-streams", "1"]);
    let nodes = ["a", "b"].map(|name| network.node(name, "1,1", &["--super", &endpoint]));
    let first = Watcher::start(&network, &nodes[0], "one", "request", "8s");
    nodes[0].wait_for("it receives", |status| (status["receiving"][0]["bytes"].as_u64() > Some(0)).then_some(()));
    nothing_flows(&provider);
    let second = Watcher::start(&network, &nodes[1], "two", "request", "4s");
    sent_to(&provider, 1);
    sent_to(&hub, 2);
    let (summary, written) = second.summary();
    is_whole(&summary, &written);
    let (summary, _) = first.summary();
    assert_eq!(summary["reflected"], true, "the first has turned to the reflected stream too: {summary}");
}

/// A provider with a home of its own, two super nodes beside that, and two nodes
/// that know these and watch, for `length` or without end.
struct Redundant {
    _network: Network,
    /// The provider's home, and the two others.
    hubs: Vec<Daemon>,
    nodes: Vec<Daemon>,
    watchers: Vec<Watcher>,
}

impl Redundant {
    /// `homes` are the super nodes that the provider knows, `others` those of the rest.
    fn start(homes: &[usize], others: &[usize], length: Option<&str>) -> Self {
        let network = Network::new();
        let mut hubs = vec![network.supernode("sn0", &[])];
        for name in ["sn1", "sn2"] {
            let siblings: Vec<String> = hubs.iter().map(|hub| hub.endpoint("udp")).collect();
            let arguments: Vec<&str> = siblings.iter().flat_map(|sibling| ["--sibling", sibling]).collect();
            hubs.push(network.supernode(name, &arguments));
        }
        let endpoints: Vec<String> = hubs.iter().map(|hub| hub.endpoint("udp")).collect();
        let node = |name: &str, at: &str, of: &[usize], more: &[&str]| {
            let known = of.iter().flat_map(|hub| ["--super", endpoints[*hub].as_str()]);
            let node = network.node(name, at, &known.chain(more.iter().copied()).collect::<Vec<_>>());
            if of.len() > 1 {
                node.wait_for("it has a standby", |status| status["standby"].is_object().then_some(()));
            }
            node
        };
        let mut nodes = vec![node("p", "5,5", homes, &["--services", "video"])];
        nodes.extend(["a", "b"].map(|name| node(name, "1,1", others, &[])));
        let start = |(node, name): (&Daemon, &&str)| match length {
            Some(length) => Watcher::start(&network, node, name, "subscribe", length),
            None => Watcher::endless(&network, node, name),
        };
        let watchers = nodes[1..].iter().zip(&["one", "two"]).map(start).collect();
        sent_to(&nodes[0], 1);
        Self { _network: network, hubs, nodes, watchers }
    }

    /// The super node at which a node is at home.
    fn home(&self, node: usize) -> usize {
        let status = self.nodes[node].status().unwrap();
        ["sn0", "sn1", "sn2"].iter().position(|hub| status["hub"]["name"] == *hub).unwrap()
    }

    /// Waits until the home of a node is another one than `left`.
    fn moves(&self, node: usize, left: usize) {
        let elsewhere = |name: &&str| *name != format!("sn{left}");
        self.nodes[node]
            .wait_for("it has another home", |status| status["hub"]["name"].as_str().filter(elsewhere).map(drop));
    }

    /// Waits until something more has come to a node.
    fn goes_on(&self, node: usize) {
        let packets = || self.nodes[node].json(&["streams"])["streams"][0]["packets"].as_u64();
        let before = packets();
        let more = wait_until(PATIENCE, || packets().filter(|now| Some(*now) > before.map(|before| before + 100)));
        assert!(more.is_some(), "nothing comes any more:\n{}", self.nodes[node].log());
    }

    fn summaries(&mut self, end: fn(Watcher) -> (Value, Vec<u8>)) -> Vec<(Value, Vec<u8>)> {
        std::mem::take(&mut self.watchers).into_iter().map(end).collect()
    }
}

#[test]
fn leaving_hub_costs_no_packets() {
    let mut scene = Redundant::start(&[0], &[1, 2], None);
    let left = scene.home(1);
    scene.hubs[left].process.signal("TERM");
    for node in [1, 2] {
        scene.moves(node, left);
        scene.goes_on(node);
    }
    for (summary, written) in scene.summaries(Watcher::finish) {
        is_whole(&summary, &written);
    }
}

#[test]
fn dead_hub_costs_one_gap() {
    let mut scene = Redundant::start(&[0], &[1, 2], Some("20s"));
    let left = scene.home(1);
    scene.hubs[left].process.kill();
    for node in [1, 2] {
        scene.moves(node, left);
        scene.goes_on(node);
    }
    for (summary, _) in scene.summaries(Watcher::summary) {
        assert!(summary["reflected"] == true && summary["duplicates"] == 0, "{summary}");
        // The gap is noticed within three seconds, and does not take the rest of the time to mend.
        assert!(summary["packets"].as_u64() > summary["lost"].as_u64(), "{summary}");
    }
}

#[test]
fn leaving_provider_home_costs_no_packets() {
    let mut scene = Redundant::start(&[0, 2], &[1], None);
    let left = scene.home(0);
    scene.hubs[left].process.signal("TERM");
    scene.moves(0, left);
    scene.goes_on(1);
    for (summary, written) in scene.summaries(Watcher::finish) {
        is_whole(&summary, &written);
    }
}

#[test]
fn full_hub_declines_with_retry_after() {
    let network = Network::new();
    let hub = network.supernode("sn1", &["--media-uplink", "1Mbit/s"]);
    let endpoint = hub.endpoint("udp");
    let provider = network.node("p", "5,5", &["--super", &endpoint, "--services", "video"]);
    let nodes = ["a", "b"].map(|name| network.node(name, "1,1", &["--super", &endpoint]));
    let first = Watcher::endless(&network, &nodes[0], "one");
    sent_to(&hub, 1);
    let said = nodes[1].fails(5, &["subscribe", "video", "--at", "5,5", "--for", "3s"]);
    assert!(said.contains("no super node on the way has room for one more copy of video"), "{said}");
    assert!(said.contains("try again in about 5 s") && said.trim_end().lines().count() == 1, "{said}");
    stream(&nodes[0], "it goes on", is_long);
    let (summary, written) = first.finish();
    is_whole(&summary, &written);
    nothing_flows(&provider);
}

#[test]
fn missing_relay_falls_back_to_direct() {
    let network = Network::new();
    let hub = network.supernode("sn1", &[]);
    let endpoint = hub.endpoint("udp");
    let _provider = network.node("p", "5,5", &["--super", &endpoint, "--services", "video", "--media", "off"]);
    let without = network.node("a", "1,1", &["--super", &endpoint, "--media", "off"]);
    let with = network.node("b", "1,1", &["--super", &endpoint]);
    assert!(without.json(&["streams"])["media"].is_null());
    let said = without.fails(5, &["subscribe", "video", "--at", "5,5"]);
    assert!(said.contains("this node takes no reflected streams"), "{said}");
    let got = with.json(&["subscribe", "video", "--at", "5,5", "--for", "2s"]);
    assert_eq!((&got["summary"]["reflected"], &got["summary"]["lost"]), (&Value::Bool(false), &0.into()), "{got}");
    assert!(got["summary"]["bytes"].as_u64() > Some(100_000), "{got}");

    let bare = network.supernode("sn2", &["--media", "off"]);
    let endpoint = bare.endpoint("udp");
    let _provider = network.node("q", "7,7", &["--super", &endpoint, "--services", "video"]);
    let watcher = network.node("c", "1,1", &["--super", &endpoint]);
    let got = watcher.json(&["subscribe", "video", "--at", "7,7", "--for", "2s"]);
    // A super node that does not reflect lets those who ask have it from the provider itself.
    assert_eq!((&got["summary"]["reflected"], &got["summary"]["lost"]), (&Value::Bool(true), &0.into()), "{got}");
    assert!(bare.json(&["streams"])["streams"].as_array().unwrap().is_empty());
}
