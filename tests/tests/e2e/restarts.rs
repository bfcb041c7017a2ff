//! A hub that is killed and started again under its nodes.

use std::time::{Duration, Instant};

use roost_tests::network::{Daemon, Network, PATIENCE, text};
use roost_tests::process::{free_port, wait_until};

/// A hub at a port of its own, and with it what is needed to start it again.
struct Hub<'a> {
    network: &'a Network,
    program: &'a str,
    identity: std::path::PathBuf,
    listen: String,
    daemon: Option<Daemon>,
}

impl<'a> Hub<'a> {
    fn new(network: &'a Network, program: &'a str, transport: &str) -> Self {
        let role = if program == "cs-server" { "server" } else { "supernode" };
        let port = free_port();
        let identity = network.identity("hub", role);
        let listen = format!("{transport}://127.0.0.1:{port}");
        let mut hub = Self { network, program, identity, listen, daemon: None };
        hub.start();
        hub
    }

    fn start(&mut self) {
        let daemon = self.network.start(self.program, "hub", &self.identity, &["--listen", &self.listen]);
        self.daemon = Some(daemon.ready());
    }

    /// SIGKILL, which says nothing to anybody, and started at once.
    fn kill_and_start(&mut self) {
        let mut daemon = self.daemon.take().unwrap();
        daemon.process.kill();
        self.start();
    }
}

/// The silence before a kill, which comes at another moment between two renewals each time.
fn phase(number: usize) -> Duration {
    Duration::from_millis(200 + number as u64 * 379 % 2_000)
}

/// Times from each start of the hub until a request for a sensor value is answered, in ascending order.
fn answered(program: &str, transport: &str, kills: usize) -> Vec<Duration> {
    let network = Network::new();
    let mut hub = Hub::new(&network, program, transport);
    let flag = if program == "cs-server" { "--server" } else { "--super" };
    let provider = network.node("provider", "5,5", &[flag, &hub.listen, "--services", "sensor"]);
    let requester = network.node("requester", "1,1", &[flag, &hub.listen]);
    let value = text(&network.path("value"));
    let request = ["request", "sensor", "--at", "5,5", "--timeout", "30s", "-o", &value];
    let mut took = Vec::new();
    for number in 0..kills {
        for node in [&provider, &requester] {
            let is_attached = || (node.status()?["state"] == "attached").then_some(());
            assert!(wait_until(PATIENCE, is_attached).is_some(), "{}", node.log());
        }
        std::thread::sleep(phase(number));
        hub.kill_and_start();
        let back = Instant::now();
        let output = requester.roost(&request);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        took.push(back.elapsed());
    }
    took.sort();
    took
}

/// Less than a quarter of the time between two renewals, which a provider that is not told waits for.
const SOON: Duration = Duration::from_secs(5);

/// Nobody is refused while the provider has not noticed yet, and it notices soon.
fn requests_outlive(transport: &str) {
    for program in ["supernode", "cs-server"] {
        let took = answered(program, transport, 2);
        println!("{program} {transport}: {took:?}");
        assert!(took.iter().all(|took| *took < SOON), "{program} {transport}: {took:?}");
    }
}

#[test]
fn requests_outlive_a_killed_udp_hub() {
    requests_outlive("udp");
}

#[test]
fn requests_outlive_a_killed_tcp_hub() {
    requests_outlive("tcp");
}

#[test]
fn requests_outlive_a_killed_quic_hub() {
    requests_outlive("quic");
}

#[test]
#[ignore = "measures: a hundred kills of each"]
fn time_until_a_killed_hub_answers() {
    let kills = std::env::var("TEST_KILLS").map_or(100, |kills| kills.parse().unwrap());
    for program in ["supernode", "cs-server"] {
        for transport in ["udp", "tcp", "quic"] {
            let took = answered(program, transport, kills);
            println!(
                "{program} {transport}: p50 {:?}, worst {:?} of {kills}",
                took[took.len() / 2],
                took.last().unwrap()
            );
        }
    }
}
