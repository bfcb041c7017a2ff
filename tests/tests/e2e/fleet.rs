//! A fleet on four hosts, each a namespace of its own: from empty folders to members by an invitation, a certificate
//! that is renewed under a stream, and a member that is shut out.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use roost_tests::hosts::Star;
use roost_tests::network::{Client, Network, PATIENCE, text};
use roost_tests::process::{Process, binary, wait_until};
use serde_json::Value;

/// The stream is longer than a daemon waits until it asks an absent authority again.
const STREAM: &str = "75s";
const AUTHORITY: &str = "10.1.0.1:7703";

struct Fleet<'a> {
    network: &'a Network,
    hosts: Star<'a>,
}

impl<'a> Fleet<'a> {
    fn new(network: &'a Network, hosts: &[&'static str]) -> Self {
        let fleet = Self { network, hosts: Star::new(network, hosts) };
        for host in hosts.iter().chain(&["sn"]) {
            fs::create_dir_all(fleet.home(host)).unwrap();
        }
        fleet
    }

    fn home(&self, host: &str) -> PathBuf {
        self.network.path(&format!("hosts/{host}"))
    }

    /// A line as the host's operator types it, in the host's own folder.
    fn line(&self, host: &str, line: &str) -> Command {
        let built = binary("roost").parent().unwrap().to_owned();
        let mut command = self.hosts.inside(host);
        command.args(["sh", "-c", &format!("exec {line}")]).current_dir(self.home(host)).stdin(Stdio::null());
        command.env("PATH", format!("{}:{}", text(&built), std::env::var("PATH").unwrap())).env_remove("ROOST_SOCKET");
        command.env("XDG_RUNTIME_DIR", self.home(host));
        command
    }

    fn types(&self, host: &str, line: &str) -> String {
        let Output { status, stdout, stderr } = self.line(host, line).output().unwrap();
        assert!(status.success(), "{host}: {line}: {}", String::from_utf8_lossy(&stderr));
        String::from_utf8(stdout).unwrap().trim().to_owned()
    }

    /// Starts what stays, and waits until its log has these words.
    fn starts(&self, host: &str, line: &str, words: &str) -> Process {
        let process = Process::start(self.line(host, line), self.log(host, line)).unwrap();
        let is_up = || process.log().contains(words).then_some(());
        assert!(wait_until(PATIENCE, is_up).is_some(), "{host}: {line}: {}", process.log());
        process
    }

    fn log(&self, host: &str, line: &str) -> PathBuf {
        self.home(host).join(format!("{}.log", line.split(' ').next().unwrap()))
    }

    fn daemon(&self, host: &str, program: &str) -> Client {
        let socket = self.home(host).join(format!("roost/{program}.sock"));
        Client { socket, log: self.log(host, program) }
    }

    fn serve(&self) -> Process {
        self.starts("sn", "roost group serve grove --listen tls://0.0.0.0:7703", "listens on")
    }

    fn join(&self, host: &str, invitation: &str, options: &str) {
        self.types(host, &format!("roost join '{invitation}' --to identity --config daemon.toml {options}"));
    }
}

fn valid_until(client: &Client) -> u64 {
    client.status().and_then(|status| status["certificate_not_after_unix_s"].as_u64()).unwrap()
}

#[test]
fn four_hosts_join_renew_and_revoke() {
    let network = Network::new();
    let fleet = Fleet::new(&network, &["uav1", "uav2", "base"]);
    fleet.types("sn", "roost group init grove --name grove");
    fleet.types("sn", "roost group hubs grove set udp://10.1.0.1:7700");
    let mut authority = fleet.serve();
    let invite =
        |options: &str| fleet.types("sn", &format!("roost group invite grove --authority {AUTHORITY} {options}"));
    fleet.join("sn", &invite("--role supernode --name sn1"), "");
    // So short a validity that the renewal is due at once.
    fleet.join("uav1", &invite("--role node --name uav1 --certificate 100s"), "");
    let link = invite("--role node --uses 2");
    ["uav2", "base"].iter().for_each(|host| fleet.join(host, &link, &format!("--name {host}")));
    authority.kill();

    let _hub = fleet.starts("sn", "supernode --config daemon.toml --listen udp://0.0.0.0:7700", "");
    let hub = fleet.daemon("sn", "supernode");
    hub.wait_ready();
    let nodes = [("uav1", "5,5", "video"), ("uav2", "6,6", "video"), ("base", "1,1", "sensor")];
    let _nodes = nodes.map(|(host, at, services)| {
        let line = format!("overlay-node --config daemon.toml --at {at} --services {services}");
        let process = fleet.starts(host, &line, "");
        fleet.daemon(host, "overlay-node").wait_ready();
        process
    });

    let uav1 = fleet.daemon("uav1", "overlay-node");
    let first = valid_until(&uav1);
    let watch = format!("roost subscribe video --at 5,5 --for {STREAM} --json -o video.ts");
    let mut watching = Process::start(fleet.line("base", &watch), fleet.log("base", "watch")).unwrap();
    let _authority = fleet.serve();
    let is_renewed = || (valid_until(&uav1) > first).then_some(());
    assert!(wait_until(PATIENCE * 3, is_renewed).is_some(), "{}", uav1.log());
    assert!(watching.is_running(), "the certificate is renewed while the stream runs: {}", watching.log());
    assert_eq!(watching.wait(PATIENCE * 4), Some(0), "{}", watching.log());
    let report: Value = serde_json::from_str(watching.log().lines().last().unwrap()).unwrap();
    assert_eq!((&report["summary"]["lost"], &report["summary"]["complete"]), (&0.into(), &true.into()), "{report:#}");

    fleet.types("sn", "roost group revoke grove uav2 --via roost/supernode.sock");
    let uav2 = fleet.daemon("uav2", "overlay-node");
    uav2.wait_for("it is in still", |status| (status["state"] == "attaching").then_some(()));
    let lookup = fleet.types("base", "roost lookup video --any --json");
    assert!(lookup.contains("uav1") && !lookup.contains("uav2"), "{lookup}");
}
