//! Deaths of daemons, and all that goes on in spite of them.

use std::io::{BufRead as _, BufReader};
use std::net::{TcpStream, UdpSocket};
use std::process::{Command, Stdio};

use roost_tests::hostile::await_reader;
use roost_tests::network::{Network, PATIENCE, text};
use roost_tests::process::{binary, wait_until};

#[test]
fn nodes_fail_over_after_hub_death() {
    let network = Network::new();
    let second = network.supernode("sn2", &[]);
    let mut first = network.supernode("sn1", &["--sibling", &second.endpoint("udp")]);
    let (one, two) = (first.endpoint("udp"), second.endpoint("udp"));
    let with = ["--super", &one, "--super", &two];
    let _provider = network.node("p", "5,5", &[&with[..], &["--services", "sensor"]].concat());
    let requester = network.node("r", "1,1", &with);
    first.process.kill();
    let served = wait_until(PATIENCE, || {
        let output = requester.roost(&["request", "sensor", "--at", "5,5", "--timeout", "20s", "-o", "-"]);
        (output.status.code() == Some(0)).then_some(output.stdout.len())
    });
    assert_eq!(served, Some(10_000));
}

#[test]
fn running_stream_survives_hub_death() {
    let network = Network::new();
    let mut hub = network.supernode("sn1", &[]);
    let endpoint = hub.endpoint("udp");
    let _provider = network.node("p", "5,5", &["--super", &endpoint, "--services", "track"]);
    let requester = network.node("r", "1,1", &["--super", &endpoint]);
    let mut request = Command::new(binary("roost"));
    request.arg("--socket").arg(&requester.socket);
    request.args(["request", "track", "--at", "5,5", "--for", "4s", "--json", "-o"]).arg(network.path("track"));
    let child = request.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let began = wait_until(PATIENCE, || {
        let receiving = requester.status()?["receiving"].as_array()?.first()?["bytes"].as_u64()?;
        (receiving > 0).then_some(())
    });
    assert!(began.is_some());
    hub.process.kill();
    let output = child.wait_with_output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{report}");
    assert_eq!(report["summary"]["bytes"], 20_000, "{report}");
}

#[test]
fn dead_provider_is_replaced() {
    let network = Network::new();
    let hub = network.supernode("sn1", &[]);
    let with = ["--super", &hub.endpoint("udp"), "--services", "sensor"];
    let mut near = network.node("near", "1,1", &with);
    let _far = network.node("far", "9,9", &with);
    let requester = network.node("r", "0,0", &["--super", &hub.endpoint("udp")]);
    near.process.kill();
    let got = requester.json(&["request", "sensor", "--near", "0,0", "-o", &text(&network.path("reading"))]);
    assert_eq!(got["summary"]["cell"], "9,9", "{got}");
}

#[test]
fn broken_transfer_leaves_no_complete_file() {
    let network = Network::new();
    let hub = network.supernode("sn1", &[]);
    let endpoint = hub.endpoint("udp");
    let mut provider = network.node("p", "5,5", &["--super", &endpoint, "--services", "video"]);
    let requester = network.node("r", "1,1", &["--super", &endpoint]);
    let file = network.path("clip.ts");
    let mut request = Command::new(binary("roost"));
    request.arg("--socket").arg(&requester.socket);
    request.args(["request", "video", "--at", "5,5", "--for", "20s", "--patience", "2s", "-o"]).arg(&file);
    let mut child = request.stderr(Stdio::null()).spawn().unwrap();
    let began = wait_until(PATIENCE, || {
        let receiving = requester.status()?["receiving"].as_array()?.first()?["bytes"].as_u64()?;
        (receiving > 0).then_some(())
    });
    assert!(began.is_some());
    provider.process.kill();
    assert_eq!(child.wait().unwrap().code(), Some(7));
    assert!(!file.exists());
}

#[test]
fn full_provider_declines_to_next() {
    let network = Network::new();
    let hub = network.supernode("sn1", &[]);
    let endpoint = hub.endpoint("udp");
    let with = ["--super", endpoint.as_str(), "--services", "track", "--max-streams", "1"];
    let _near = network.node("near", "1,1", &with);
    let _far = network.node("far", "9,9", &with);
    let requester = network.node("r", "0,0", &["--super", &endpoint]);
    let ask = |name: &str| {
        let mut request = Command::new(binary("roost"));
        request.arg("--socket").arg(&requester.socket);
        request.args(["request", "track", "--near", "0,0", "--for", "5s", "--json", "-o"]).arg(network.path(name));
        request.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
    };
    let first = ask("one");
    wait_until(PATIENCE, || requester.status()?["receiving"].as_array()?.first().map(|_| ())).unwrap();
    let second = ask("two");
    let cells: Vec<String> = [first, second]
        .into_iter()
        .map(|child| {
            let output = child.wait_with_output().unwrap();
            let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
            report["summary"]["cell"].as_str().unwrap_or_else(|| panic!("{report}")).to_owned()
        })
        .collect();
    assert_eq!(cells, ["1,1", "9,9"]);
}

#[test]
fn a_daemon_leaves_in_order() {
    let network = Network::new();
    let hub = network.supernode("sn1", &[]);
    let mut provider = network.node("p", "5,5", &["--super", &hub.endpoint("udp"), "--services", "image"]);
    let known = |count: u64| wait_until(PATIENCE, || (hub.status()?["index"]["nodes"] == count).then_some(()));
    assert!(known(1).is_some());
    provider.process.signal("TERM");
    assert_eq!(provider.process.wait(PATIENCE), Some(0), "{}", provider.process.log());
    assert!(known(0).is_some(), "the entry outlived its node");
    assert!(!provider.socket.exists());
}

#[test]
fn draining_daemon_ends_unfinished_transfers() {
    let network = Network::new();
    let hub = network.supernode("sn1", &[]);
    let near_hub = hub.endpoint("udp");
    let mut provider = network.node("p", "5,5", &["--super", &near_hub, "--services", "video", "--drain", "1s"]);
    let requester = network.node("r", "0,0", &["--super", &near_hub]);
    let mut request = requester.command(&["request", "video", "--any", "--for", "60s"]);
    let request = request.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until(PATIENCE, || requester.status()?["receiving"].as_array()?.first().map(|_| ())).unwrap();
    let mut watch = provider.command(&["watch", "--any"]);
    let mut watch = watch.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut changes = BufReader::new(watch.stdout.take().unwrap());
    changes.read_line(&mut String::new()).unwrap();
    provider.process.signal("TERM");
    let nothing_new = || (provider.roost(&["request", "video", "--any"]).status.code() == Some(3)).then_some(());
    assert!(wait_until(PATIENCE, nothing_new).is_some(), "a draining daemon takes on nothing more");
    assert_eq!(provider.process.wait(PATIENCE), Some(0), "{}", provider.process.log());
    let nodes = wait_until(PATIENCE, || (hub.status()?["index"]["nodes"] == 1).then_some(()));
    assert!(nodes.is_some(), "the entry outlived its node");
    let requested = request.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&requested.stderr);
    assert!(requested.status.code() == Some(7) && said.contains("the provider left"), "{said}");
    let watched = watch.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&watched.stderr);
    assert!(watched.status.code() == Some(3) && said.contains("leaving"), "{said}");
}

#[test]
fn foreign_bytes_are_counted_and_dropped() {
    let network = Network::new();
    let hub = network.supernode("sn1", &[]);
    let memory_before = hub.process.resident_kib();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut state = 1_u64;
    let mut random = |len: usize| -> Vec<u8> {
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as u8
        };
        (0..len).map(|_| next()).collect()
    };
    for scheme in ["udp", "quic"] {
        let address = socket_address(&hub.endpoint(scheme));
        for round in 0..3_000_usize {
            let _ = udp.send_to(&random(round % 1_400 + 1), &address);
        }
    }
    let tcp = socket_address(&hub.endpoint("tcp"));
    for round in 0..100 {
        let mut stream = TcpStream::connect(&tcp).unwrap();
        let _ = std::io::Write::write_all(&mut stream, &random(round * 37 + 1));
    }
    for scheme in ["udp", "quic"] {
        await_reader(socket_address(&hub.endpoint(scheme)).parse().unwrap());
    }
    let _node = network.node("n", "1,1", &["--super", &hub.endpoint("udp")]);
    let grown = hub.process.resident_kib().saturating_sub(memory_before);
    assert!(grown < 64 * 1024, "{grown} KiB more after garbage");
    assert!(!hub.process.log().contains("panicked"), "{}", hub.process.log());
}

fn socket_address(endpoint: &str) -> String {
    endpoint.split_once("://").unwrap().1.to_owned()
}
