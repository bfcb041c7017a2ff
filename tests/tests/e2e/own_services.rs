//! Services that programs offer, with the real daemons.

use std::time::Duration;

use roost_tests::network::{Daemon, Network, text};
use roost_tests::process::{Process, wait_until};

/// Starts `roost offer` at a node, and waits until `others` find the service.
fn offer(network: &Network, node: &Daemon, others: &Daemon, arguments: &[&str]) -> Process {
    let name = arguments[0];
    let log = network.path(&format!("offer-{}.log", name.replace(['/', '#'], "-")));
    let process = Process::start(node.command(&[&["offer"], arguments].concat()), log).unwrap();
    let found = || others.roost(&["lookup", name, "--any"]).status.success().then_some(());
    assert!(wait_until(Duration::from_secs(20), found).is_some(), "{}", process.log());
    process
}

fn serve_own_services(network: &Network, provider: &Daemon, requester: &Daemon, transports: &[&str]) {
    let map = network.path("map");
    std::fs::write(&map, vec![7; 200_000]).unwrap();
    let _map = offer(network, provider, requester, &["acme/map", "--object", "--", "cat", &text(&map)]);
    let lidar = ["acme/lidar", "--stream", "--rate", "400kbit", "--meta", "sensor=ir", "--", "cat", "/dev/zero"];
    let mut lidar = offer(network, provider, requester, &lidar);
    for transport in transports {
        let file = text(&network.path(&format!("map-{transport}")));
        let got = requester.json(&["request", "acme/map", "--at", "27,92", "--transport", transport, "-o", &file]);
        assert_eq!(got["summary"]["digest_ok"], true, "{got}");
        assert_eq!(std::fs::read(&file).unwrap(), vec![7; 200_000]);
        let got = requester.json(&["request", "acme/lidar", "--any", "--for", "1s", "--transport", transport]);
        // The program writes without end, so that its rate is what it may have.
        let bytes = got["summary"]["bytes"].as_u64().unwrap();
        assert!((45_000..90_000).contains(&bytes), "{got}");
    }
    let found = requester.json(&["lookup", "acme/lidar", "--any", "--where", "sensor=ir"]);
    let offers = &found["candidates"][0]["offers"];
    assert_eq!(offers[0]["service"], "acme/lidar:stream", "{found}");
    assert_eq!((&offers[0]["kbps"], &offers[0]["metadata"]["sensor"]), (&400.into(), &"ir".into()), "{found}");
    requester.fails(4, &["lookup", "acme/lidar", "--any", "--where", "sensor=visible"]);
    lidar.signal("TERM");
    assert_eq!(lidar.wait(Duration::from_secs(10)), Some(0));
    let gone = || (!requester.roost(&["lookup", "acme/lidar", "--any"]).status.success()).then_some(());
    assert!(wait_until(Duration::from_secs(20), gone).is_some());
}

#[test]
fn programs_offer_through_hub() {
    let network = Network::new();
    let hub = network.supernode("sn1", &[]);
    let endpoint = hub.endpoint("udp");
    let provider = network.node("p", "27,92", &["--super", &endpoint]);
    let requester = network.node("r", "3,4", &["--super", &endpoint]);
    serve_own_services(&network, &provider, &requester, &["udp", "tcp", "quic"]);
}

#[test]
fn programs_offer_through_server() {
    let network = Network::new();
    let (server, transports) = (network.server("cs1"), ["udp", "tcp", "quic"]);
    let endpoint = transports.map(|transport| server.endpoint(transport)).join(",");
    let provider = network.node("p", "27,92", &["--server", &endpoint]);
    let requester = network.node("r", "3,4", &["--server", &endpoint]);
    serve_own_services(&network, &provider, &requester, &transports);
}

#[test]
fn reflected_program_runs_once() {
    let network = Network::new();
    let hub = network.supernode("sn1", &[]);
    let endpoint = hub.endpoint("udp");
    let provider = network.node("p", "27,92", &["--super", &endpoint]);
    let requesters = ["r1", "r2"].map(|name| network.node(name, "3,4", &["--super", &endpoint]));
    let runs = network.path("runs");
    let script = format!("echo run >> {}; exec cat /dev/zero", text(&runs));
    let lidar = ["acme/lidar", "--stream", "--rate", "400kbit", "--", "sh", "-c", &script];
    let _lidar = offer(&network, &provider, &requesters[0], &lidar);
    std::thread::scope(|scope| {
        for requester in &requesters {
            scope.spawn(|| {
                let got = requester.json(&["request", "acme/lidar", "--any", "--reflect", "always", "--for", "4s"]);
                let summary = &got["summary"];
                assert_eq!((&summary["reflected"], &summary["lost"]), (&true.into(), &0.into()), "{got}");
                assert!(summary["bytes"].as_u64().unwrap() > 50_000, "{got}");
            });
        }
    });
    assert_eq!(std::fs::read_to_string(&runs).unwrap(), "run\n", "each requester had a program of its own");
}

#[test]
fn program_that_fails_breaks_off() {
    let network = Network::new();
    let hub = network.supernode("sn1", &[]);
    let endpoint = hub.endpoint("udp");
    let provider = network.node("p", "27,92", &["--super", &endpoint]);
    let requester = network.node("r", "3,4", &["--super", &endpoint]);
    let fails = ["acme/map", "--object", "--", "sh", "-c", "echo half; exit 1"];
    let _map = offer(&network, &provider, &requester, &fails);
    let refused = requester.roost(&["request", "acme/map", "--any"]);
    assert!(!refused.status.success());
    let twice = provider.roost(&["offer", "acme/map", "--stream", "--", "true"]);
    assert!(String::from_utf8_lossy(&twice.stderr).contains("is offered here already"), "{twice:?}");
}

#[test]
fn wrong_form_names_right_command() {
    let network = Network::new();
    let hub = network.supernode("sn1", &[]);
    let endpoint = hub.endpoint("udp");
    let provider = network.node("p", "27,92", &["--super", &endpoint]);
    let requester = network.node("r", "3,4", &["--super", &endpoint]);
    let _map = offer(&network, &provider, &requester, &["acme/map", "--object", "--", "echo", "here"]);
    let said = requester.fails(4, &["call", "acme/map", "--at", "27,92"]);
    assert!(said.contains("is an object: ask for it by `roost request acme/map --at 27,92`"), "{said}");
    let said = requester.fails(4, &["request", "acme/map:stream", "--any", "--params", "two words"]);
    assert!(said.contains("`roost request acme/map --any --params 'two words'`"), "{said}");
    let said = requester.fails(4, &["call", "acme/map", "--any", "--where", "sensor=ir"]);
    assert!(said.contains("offer") && !said.contains("is an object"), "{said}");
}

#[test]
fn failing_stream_program_declines_at_once() {
    let network = Network::new();
    let hub = network.supernode("sn1", &[]);
    let endpoint = hub.endpoint("udp");
    let provider = network.node("p", "27,92", &["--super", &endpoint]);
    let requester = network.node("r", "3,4", &["--super", &endpoint]);
    let fails = ["acme/lidar", "--stream", "--", "sh", "-c", "exit 3"];
    let _lidar = offer(&network, &provider, &requester, &fails);
    let said = requester.fails(5, &["request", "acme/lidar", "--any", "--for", "60s"]);
    assert!(said.contains("the provider's source of acme/lidar gave nothing"), "{said}");
}

#[test]
fn instances_are_told_apart() {
    let network = Network::new();
    let hub = network.supernode("sn1", &[]);
    let endpoint = hub.endpoint("udp");
    let provider = network.node("p", "27,92", &["--super", &endpoint]);
    let requester = network.node("r", "3,4", &["--super", &endpoint]);
    let _bow = offer(&network, &provider, &requester, &["acme/map#bow", "--object", "--", "echo", "bow"]);
    let _mast = offer(&network, &provider, &requester, &["acme/map#mast", "--object", "--", "echo", "mast"]);
    for instance in ["bow", "mast"] {
        let file = text(&network.path(instance));
        requester.json(&["request", &format!("acme/map#{instance}"), "--any", "-o", &file]);
        assert_eq!(std::fs::read_to_string(&file).unwrap().trim(), instance);
    }
    requester.json(&["request", "acme/map#mast", "--any", "-o", &text(&network.path("again"))]);
    let served = || {
        let listed = provider.json(&["services"]);
        let row = |name: &str| {
            let rows = listed["services"].as_array().unwrap();
            rows.iter().find(|row| row["service"] == name).unwrap()["served"].clone()
        };
        (row("acme/map#bow") == 1 && row("acme/map#mast") == 2).then_some(())
    };
    assert!(wait_until(Duration::from_secs(20), served).is_some(), "{}", provider.json(&["services"]));
}
