//! Connections that are down for a while under transfers: real daemons in namespaces,
//! which this machine must allow; `emulate doctor` says what is missing.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use roost_tests::lab::{Connection, Lab};
use roost_tests::network::{Client, Network, PATIENCE, text};
use roost_tests::process::{binary, wait_until};

/// Bytes of the image: eight seconds at the rate of its connections.
const IMAGE: usize = 10_000_000;

/// A hub, a provider at 5,5 and a requester, each with its own connection to a router.
fn star(network: &Network) -> (Lab<'_>, Client) {
    let hosts = ["sn", "provider", "requester"];
    let connections: Vec<Connection<'_>> = hosts.iter().map(|host| (*host, "router", "delay = \"2ms\"")).collect();
    let mut lab = Lab::new(network, &connections);
    lab.supernode("sn", &[]);
    let image: Vec<u8> = (0..IMAGE).map(|index| (index * 31 % 251) as u8).collect();
    std::fs::write(network.path("image"), image).unwrap();
    let source = format!("file:{}", text(&network.path("image")));
    let with = ["--super", "udp://sn:7700", "--services", "video", "--sources-image", &source];
    lab.node("provider", "5,5", &with);
    let requester = lab.node("requester", "1,1", &["--super", "udp://sn:7700"]);
    (lab, requester)
}

fn ask(requester: &Client, service: &str, rest: &[&str]) -> Child {
    let mut command = Command::new(binary("roost"));
    command.arg("--socket").arg(&requester.socket).args(["request", service, "--at", "5,5", "--json"]).args(rest);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn has_begun(requester: &Client, transfers: usize) {
    let begun = wait_until(PATIENCE, || {
        let receiving = requester.status()?["receiving"].as_array()?.clone();
        let begun = receiving.iter().filter(|one| one["bytes"].as_u64().is_some_and(|bytes| bytes > 0));
        (begun.count() == transfers).then_some(())
    });
    assert!(begun.is_some(), "{}", requester.log());
}

/// A video and an image over each transport, under which a host's connection is down for so long.
fn outlive(host: &str, outage: Duration) {
    let wrong = outage_of(host, outage);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Transfers that did not end well during such an outage.
fn outage_of(host: &str, outage: Duration) -> Vec<String> {
    let network = Network::new();
    let (mut lab, requester) = star(&network);
    let mut transfers = Vec::new();
    for transport in ["udp", "tcp", "quic"] {
        for service in ["video", "image"] {
            let output = text(&network.path(&format!("{service}-{transport}")));
            let lasting: &[&str] = if service == "video" { &["--for", "30s"] } else { &[] };
            let rest = [&["--transport", transport, "-o", &output], lasting].concat();
            transfers.push((format!("{service} over {transport}"), ask(&requester, service, &rest)));
        }
    }
    has_begun(&requester, transfers.len());
    lab.run(&format!("link {host} router down"));
    std::thread::sleep(outage);
    lab.run(&format!("link {host} router up"));
    let back = Instant::now();
    let mut wrong = Vec::new();
    for (name, child) in transfers {
        let output = child.wait_with_output().unwrap();
        println!("{host} down for {outage:?}, {name}: {}", output.status);
        if output.status.code() != Some(0) {
            let (said, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            wrong.push(format!("{name}: {} after {:?}\n{said}{errors}", output.status, back.elapsed()));
        }
    }
    for transport in ["udp", "tcp", "quic"] {
        let got = std::fs::read(network.path(&format!("image-{transport}"))).ok();
        if got != std::fs::read(network.path("image")).ok() {
            wrong.push(format!("the image over {transport} differs"));
        }
    }
    wrong
}

#[test]
fn transfers_outlive_a_requesters_outage() {
    outlive("requester", Duration::from_secs(4));
}

#[test]
fn transfers_outlive_a_providers_outage() {
    outlive("provider", Duration::from_secs(10));
}

/// Every host for as long as the patience of requests allows for.
#[test]
#[ignore = "takes four minutes"]
fn transfers_outlive_every_outage() {
    let mut wrong = Vec::new();
    for outage in [4, 10, 25].map(Duration::from_secs) {
        wrong.extend(std::thread::scope(|scope| {
            let hosts = ["requester", "provider", "sn"].map(|host| scope.spawn(move || outage_of(host, outage)));
            hosts.map(|host| host.join().unwrap()).concat()
        }));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
