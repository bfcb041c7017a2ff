//! Nodes are called by their names, with the real daemons.

use std::fs;
use std::process::Output;

use roost_tests::network::{Client, Daemon, Network, PATIENCE, text};
use roost_tests::process::wait_until;
use serde_json::Value;

/// Two homes: `uav7`, `ground` at the one, `uav8` and another `uav7` at the other.
struct NamedNodes {
    network: Network,
    hubs: [Daemon; 2],
    ground: Daemon,
    uav7: Daemon,
    uav8: Daemon,
}

fn scene() -> NamedNodes {
    let network = Network::new();
    let hubs = network.pair();
    let at = |index: usize| hubs[index].endpoint("udp");
    let inbox = text(&network.path("inbox"));
    let ground = network.node("ground", "3,4", &["--super", &at(0)]);
    let offers = ["--services", "video,image,sensor", "--inbox", &inbox];
    let uav7 = network.node("uav7", "27,92", &[&["--super", &at(0)], &offers[..]].concat());
    let uav8 = network.node("uav8", "28,92", &["--super", &at(1), "--services", "image"]);
    let scene = NamedNodes { network, hubs, ground, uav7, uav8 };
    let all = |found: &Value| found["candidates"].as_array().is_some_and(|all| all.len() == 2);
    lookup(&scene.ground, all);
    scene
}

/// Everybody who offers images, once the answer is as wanted.
fn lookup(node: &Client, wanted: impl Fn(&Value) -> bool) -> Value {
    let look = || {
        let output = node.roost(&["lookup", "image", "--near", "0,0", "--json"]);
        let found: Value = serde_json::from_slice(&output.stdout).ok()?;
        wanted(&found).then_some(found)
    };
    wait_until(PATIENCE, look).unwrap_or_else(|| panic!("{}", node.log()))
}

fn id(daemon: &Daemon) -> String {
    daemon.status().unwrap()["node"].as_str().unwrap().to_owned()
}

fn printed(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A row for people: the name and the short id beside each other.
fn shows(printed: &str, name: &str, daemon: &Daemon) {
    let short = &id(daemon)[..8];
    let shown = printed.lines().any(|line| line.contains(name) && line.contains(short));
    assert!(shown, "no {name} ({short}) in\n{printed}");
    assert!(!printed.contains(&id(daemon)), "the whole id in\n{printed}");
}

#[test]
fn nodes_are_shown_by_name() {
    let scene = scene();
    let NamedNodes { ground, uav7, uav8, .. } = &scene;
    let listed = printed(&ground.roost(&["lookup", "image", "--near", "27,92"]));
    shows(&listed, "uav7", uav7);
    shows(&listed, "uav8", uav8);
    let names: Vec<Value> = lookup(ground, |_| true)["candidates"]
        .as_array()
        .unwrap()
        .iter()
        .map(|candidate| candidate["name"].clone())
        .collect();
    assert_eq!(names, ["uav7", "uav8"]);
    let got = printed(&ground.roost(&["request", "image", "--at", "28,92"]));
    shows(&got, "uav8", uav8);
    shows(&printed(&scene.hubs[1].roost(&["lookup", "image", "--any"])), "uav8", uav8);
    shows(&printed(&ground.roost(&["connections"])), "uav8", uav8);
    let request = ground.json(&["request", "sensor", "--any"]);
    assert_eq!(request["summary"]["provider_name"], "uav7");
}

#[test]
fn nodes_are_meant_by_name() {
    let scene = scene();
    let NamedNodes { network, ground, uav7, uav8, .. } = &scene;
    let provider = |arguments: &[&str]| ground.json(arguments)["summary"]["provider"].as_str().unwrap().to_owned();
    // Nothing connects ground and uav8 but the hubs.
    assert_eq!(provider(&["request", "image", "--from", "uav8"]), id(uav8));
    assert_eq!(provider(&["request", "image", "--from", &id(uav7)[..8]]), id(uav7));
    assert_eq!(provider(&["request", "image", "--from", &id(uav7)]), id(uav7));
    assert_eq!(provider(&["trace", "image", "--from", "uav8"]), id(uav8));
    assert_eq!(provider(&["subscribe", "video", "--from", "uav7", "--for", "1s"]), id(uav7));
    shows(&printed(&ground.roost(&["ping", "uav8", "-c", "1"])), "uav8", uav8);
    let file = network.path("survey.tif");
    fs::write(&file, "north is up").unwrap();
    printed(&uav8.roost(&["send", &text(&file), "uav7"]));
    assert_eq!(fs::read_to_string(network.path("inbox").join("survey.tif")).unwrap(), "north is up");
}

#[test]
fn unclear_names_are_errors_that_help() {
    let scene = scene();
    let NamedNodes { network, hubs, ground, uav7, .. } = &scene;
    let said = ground.fails(4, &["request", "image", "--from", "uav9"]);
    assert!(said.contains("uav9"), "{said}");
    let said = ground.fails(4, &["ping", "uav9"]);
    assert!(said.contains("uav9"), "{said}");
    // Another one of the same name, with a key of its own.
    let identity = network.path("id-other");
    network.roost_ok(&["group", "issue", &network.group(), "uav7", "--role", "node", "-o", &text(&identity)]);
    let endpoint = hubs[1].endpoint("udp");
    let arguments = ["--super", &endpoint, "--at", "40,40", "--services", "image"];
    let other = network.start("overlay-node", "other", &identity, &arguments).ready();
    lookup(ground, |found| found["candidates"].as_array().is_some_and(|all| all.len() == 3));
    let said = ground.fails(2, &["request", "image", "--from", "uav7"]);
    assert!(said.contains(&id(uav7)) && said.contains(&id(&other)), "{said}");
    let short = id(&other)[..8].to_owned();
    assert_eq!(ground.json(&["request", "image", "--from", &short])["summary"]["provider"], id(&other));
}

#[test]
fn watches_and_rooms_tell_names() {
    let scene = scene();
    let NamedNodes { network, ground, uav7, uav8, .. } = &scene;
    let lines = |name: &str| fs::read_to_string(network.path(name)).unwrap_or_default();
    let watch =
        roost_tests::process::Process::start(ground.command(&["watch", "--near", "0,0"]), network.path("watch"));
    let _watch = watch.unwrap();
    let named = |name: &str, daemon: &Daemon| format!("{name} ({})", &id(daemon)[..8]);
    let seen = |file: &str, text: &str| {
        let there = wait_until(PATIENCE, || lines(file).contains(text).then_some(()));
        assert!(there.is_some(), "no {text} in\n{}", lines(file));
    };
    seen("watch", &format!("+ {}", named("uav8", uav8)));
    printed(&uav8.roost(&["move", "--at", "29,92"]));
    seen("watch", &format!("~ {}", named("uav8", uav8)));
    let enter = |node: &Daemon, file: &str| {
        let command = node.command(&["join-room", "ops"]);
        roost_tests::process::Process::start(command, network.path(file)).unwrap()
    };
    let _uav8 = enter(uav8, "room8");
    let _uav7 = enter(uav7, "room7");
    seen("room8", &format!("+ {}", named("uav7", uav7)));
    seen("room7", &format!("+ {}", named("uav8", uav8)));
}

/// A node that offers nothing is known to its home, and is sent to by its name.
#[test]
fn node_without_offers_resolves_by_name() {
    let scene = scene();
    let NamedNodes { network, hubs, ground, uav7, uav8 } = &scene;
    let inbox = text(&network.path("silent-inbox"));
    let silent = network.node("silent", "9,9", &["--super", &hubs[0].endpoint("udp"), "--inbox", &inbox]);
    let file = text(&network.path("notes.txt"));
    fs::write(&file, "all quiet").unwrap();
    let sent = printed(&ground.roost(&["send", &file, "silent"]));
    shows(&sent, "silent", &silent);
    let sent = uav8.json(&["send", &file, &id(&silent)[..6], "--name", "again.txt"]);
    assert_eq!((&sent["node"], &sent["node_name"]), (&id(&silent).into(), &"silent".into()), "{sent}");
    assert!(fs::exists(network.path("silent-inbox").join("again.txt")).unwrap());
    let log = silent.log();
    assert!(log.contains(&format!("ground ({})", &id(ground)[..8])), "{log}");
    // The node is there, and offers nothing.
    let said = uav7.fails(4, &["request", "image", "--from", "silent"]);
    assert!(said.contains("no node silent is among those that offer image"), "{said}");
    let said = uav8.fails(5, &["send", &file, "ground"]);
    assert!(said.contains(&format!("ground ({}) takes no files", &id(ground)[..8])), "{said}");
}

#[test]
fn commands_show_names_beside_ids() {
    let scene = scene();
    let NamedNodes { hubs, ground, uav7, .. } = &scene;
    let [home, other] = hubs;
    printed(&ground.roost(&["request", "image", "--from", "uav8"]));
    let paths = printed(&ground.roost(&["connections", "--paths"]));
    assert!(paths.starts_with("NAME  NODE"), "{paths}");
    let status = printed(&ground.roost(&["status"]));
    let shown = format!("sn1 ({}), supernode, at ", &id(home)[..8]);
    assert!(status.contains(&shown) && status.contains("certificate valid until 20"), "{status}");
    let doctor = String::from_utf8(ground.roost(&["doctor"]).stdout).unwrap();
    assert!(doctor.contains(&format!("attached to sn1 ({}) at", &id(home)[..8])), "{doctor}");
    let status = printed(&home.roost(&["status"]));
    assert!(status.contains(&format!("sn2 ({}) (up", &id(other)[..8])), "{status}");
    let trace = printed(&ground.roost(&["trace", "image", "--from", "uav7"]));
    shows(&trace, "uav7", uav7);
    let by_hub = printed(&ground.roost(&["trace", "image", "--at", "28,92"]));
    shows(&by_hub, "sn2", other);
    // After whom the index goes on.
    let listed = |after: &str| -> Vec<String> {
        let index = home.json(&["index", "--after", after]);
        index["nodes"].as_array().unwrap().iter().map(|node| node["node"].as_str().unwrap().to_owned()).collect()
    };
    let mut nodes = [("ground", id(ground)), ("uav7", id(uav7))];
    nodes.sort_by(|one, other| one.1.cmp(&other.1));
    let [(first, first_id), (last, last_id)] = nodes;
    for after in [first, &first_id[..8], &first_id] {
        let listed = listed(after);
        assert!(listed.contains(&last_id) && !listed.contains(&first_id), "{after}: {listed:?}");
    }
    assert!(!listed(last).contains(&first_id));
    assert!(home.fails(4, &["index", "--after", "nobody"]).contains("nobody"));
}

#[test]
fn hub_loss_is_reported_by_name() {
    let network = Network::new();
    let [first, mut second] = network.pair();
    let short = id(&second)[..8].to_owned();
    let who = format!("sn2 ({short})");
    second.process.kill();
    first.wait_for("it is not told", |status| status["last_error"].as_str()?.contains(&who).then_some(()));
    let log = first.log();
    let line = log.lines().find(|line| line.contains("is no longer connected")).unwrap();
    assert!(line.contains("name=\"sn2\"") && line.contains(&short), "{line}");
}

#[test]
fn watch_reports_names_of_leavers() {
    let scene = scene();
    let NamedNodes { network, ground, uav7, .. } = &scene;
    let start = |node: &Daemon, arguments: &[&str], file: &str| {
        roost_tests::process::Process::start(node.command(arguments), network.path(file)).unwrap()
    };
    let lines = |file: &str| -> Vec<Value> {
        let text = fs::read_to_string(network.path(file)).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    };
    let hears = |file: &str, wanted: &dyn Fn(&Value) -> bool| {
        let heard = wait_until(PATIENCE, || lines(file).iter().any(wanted).then_some(()));
        assert!(heard.is_some(), "{:#?}", lines(file));
    };
    let _watch = start(ground, &["watch", "--near", "0,0", "--json"], "watch");
    let _room = start(uav7, &["join-room", "ops", "--json"], "room");
    let mut leaver = network.node("leaver", "5,5", &["--super", &scene.hubs[0].endpoint("udp"), "--services", "video"]);
    let mut in_room = start(&leaver, &["join-room", "ops"], "leaver-room");
    hears("watch", &|line| line["present"].as_array().is_some_and(|all| all.iter().any(|one| one["name"] == "leaver")));
    hears("room", &|line| line["event"] == "receiving" && line["name"] == "leaver");
    in_room.signal("INT");
    assert!(in_room.wait(PATIENCE).is_some());
    hears("room", &|line| line["event"] == "left" && line["name"] == "leaver");
    let left = id(&leaver);
    leaver.process.signal("TERM");
    assert_eq!(leaver.process.wait(PATIENCE), Some(0), "{}", leaver.log());
    hears("watch", &|line| line["gone_names"][&left] == "leaver");
}

#[test]
fn id_prefix_revokes_member() {
    let network = Network::new();
    for name in ["one", "two"] {
        network.identity(name, "node");
    }
    let members: Value =
        serde_json::from_str(&network.roost_ok(&["group", "show", &network.group(), "--json"])).unwrap();
    let one = members["certificates"].as_array().unwrap().iter().find(|member| member["name"] == "one").unwrap();
    let begin = &one["node"].as_str().unwrap()[..8];
    let short = roost_tests::process::run("roost", &["group", "revoke", &network.group(), &begin[..3]]);
    assert_eq!(short.status.code(), Some(4), "{short:?}");
    let said = network.roost_ok(&["group", "revoke", &network.group(), begin]);
    assert!(said.contains("revoked node one"), "{said}");
}
