//! Real daemons on hosts that are far from one another: namespaces, which this machine must
//! allow; `emulate doctor` says what is missing.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use roost_tests::lab::{Connection, Lab};
use roost_tests::network::{Client, Network};
use roost_tests::process::{binary, wait_until};

/// The kind of hub that a case starts, and the flag by which its nodes are told of it.
#[derive(Clone, Copy, Debug)]
enum Architecture {
    Overlay,
    ClientServer,
}

/// A hub, a provider of everything at 5,5 and a requester, each pair so far from one another.
fn star<'a>(
    network: &'a Network,
    architecture: Architecture,
    transport: &str,
    round_trip: Duration,
) -> (Lab<'a>, Client) {
    let delay = format!("delay = \"{}ms\"", round_trip.as_millis() / 4);
    let connections: Vec<Connection<'_>> =
        ["hub", "provider", "requester"].map(|host| (host, "router", &*delay)).into();
    let mut lab = Lab::new(network, &connections);
    let (at, listen) = (format!("{transport}://hub:7700"), format!("{transport}://0.0.0.0:7700"));
    let here = ["--listen", &listen];
    let flag = match architecture {
        Architecture::Overlay => {
            lab.supernode("hub", &here);
            "--super"
        }
        Architecture::ClientServer => {
            lab.server("hub", &here);
            "--server"
        }
    };
    let with = [&[flag, &at][..], &here].concat();
    let everything = [&with[..], &["--services", "video,track,image,sensor"]].concat();
    let provider = lab.begin_node("provider", "5,5", &everything);
    let requester = lab.begin_node("requester", "1,1", &with);
    let within = Duration::from_secs(30) + round_trip * 8;
    for node in [&provider, &requester] {
        let attached = wait_until(within, || (node.status()?["state"] == "attached").then_some(()));
        assert!(attached.is_some(), "not attached within {within:?}: {}", node.log());
    }
    (lab, requester)
}

fn ask(requester: &Client, service: &str) -> Child {
    let mut command = Command::new(binary("roost"));
    command.arg("--socket").arg(&requester.socket).args(["request", service, "--at", "5,5", "--json"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// All services at once, with what `roost request` does without more words; what did not end well.
fn complete(architecture: Architecture, transport: &str, round_trip: Duration) -> Vec<String> {
    let network = Network::new();
    let (lab, requester) = star(&network, architecture, transport, round_trip);
    let began = Instant::now();
    let asked = ["video", "track", "image", "sensor"].map(|service| (service, ask(&requester, service)));
    let mut wrong = Vec::new();
    for (service, child) in asked {
        let output = child.wait_with_output().unwrap();
        println!(
            "{architecture:?} {transport} {round_trip:?} {service}: {} after {:?}",
            output.status,
            began.elapsed()
        );
        if output.status.code() != Some(0) {
            let (said, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            wrong.push(format!(
                "{architecture:?} {service} over {transport}, {round_trip:?}: {}\n{said}{errors}",
                output.status
            ));
        }
    }
    drop(lab);
    wrong
}

/// Every way at once: they take their time, and little of the machine's.
fn all_complete(round_trips: &[u64]) {
    let architectures = [Architecture::Overlay, Architecture::ClientServer];
    let ways: Vec<_> = architectures.into_iter().flat_map(|how| ["udp", "tcp", "quic"].map(|by| (how, by))).collect();
    for seconds in round_trips {
        let round_trip = Duration::from_secs(*seconds);
        let wrong = std::thread::scope(|scope| {
            let running: Vec<_> =
                ways.iter().map(|(how, by)| scope.spawn(move || complete(*how, by, round_trip))).collect();
            running.into_iter().flat_map(|way| way.join().unwrap()).collect::<Vec<_>>()
        });
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}

#[test]
fn services_complete_over_two_seconds() {
    all_complete(&[2]);
}

#[test]
#[ignore = "takes five minutes"]
fn services_complete_over_ten_seconds() {
    all_complete(&[4, 10]);
}
