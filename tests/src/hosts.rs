//! Hosts of network namespaces, joined by the kernel's own links: for what the
//! lab's carrier does not carry, as IPv6, more addresses of a host, or translators.

use std::net::IpAddr;
use std::process::{Command, Output};
use std::time::Duration;

use crate::network::{Client, Network, text};
use crate::process::{Process, binary, wait_until};

/// How long the system may take to make a namespace.
const MADE: Duration = Duration::from_secs(10);

/// A hub's host `sn`, and others, each on a link of its own to that. The n-th has 10.N.0.2 and fd00:N::2,
/// `sn` has .1 and ::1 there, and in addition .9 and ::9.
pub struct Star<'a> {
    network: &'a Network,
    names: Vec<&'static str>,
    /// Who holds the namespaces: that of `sn`, then the others.
    holders: Vec<Process>,
    daemons: Vec<Process>,
}

impl<'a> Star<'a> {
    /// Joins these hosts to `sn`.
    ///
    /// # Panics
    /// When this machine cannot make namespaces.
    pub fn new(network: &'a Network, others: &[&'static str]) -> Self {
        let mut hub = Command::new("unshare");
        hub.args(["--user", "--map-root-user", "--net", "sleep", "infinity"]);
        let hub = Process::start(hub, network.path("sn.holder")).expect("unshare starts");
        let names = std::iter::once("sn").chain(others.iter().copied()).collect();
        let mut star = Self { network, names, holders: vec![hub], daemons: Vec::new() };
        star.wait_namespace("sn");
        star.run("sn", "ip link set lo up; sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1");
        others.iter().enumerate().for_each(|(index, name)| star.join(name, index + 1));
        star
    }

    fn join(&mut self, name: &'static str, number: usize) {
        let hub = self.holders[0].id().to_string();
        let mut holder = Command::new("nsenter");
        holder.args(["--target", &hub, "--user", "--preserve-credentials", "--net", "unshare", "--net"]);
        holder.args(["sleep", "infinity"]);
        let holder = Process::start(holder, self.network.path(&format!("{name}.holder"))).expect("nsenter starts");
        self.holders.push(holder);
        self.wait_namespace(name);
        let pid = self.holders[number].id();
        let addresses = |host: u8, dev: &str| {
            format!(
                "ip addr add 10.{number}.0.{host}/24 dev {dev}; ip addr add fd00:{number}::{host}/64 dev {dev} nodad"
            )
        };
        let (first, second) = (addresses(1, name), addresses(9, name));
        self.run(
            "sn",
            &format!("ip link add {name} type veth peer name sn netns {pid}; ip link set {name} up; {first}; {second}"),
        );
        self.run("sn", &format!("ip -6 route replace fd00:{number}::/64 dev {name} src fd00:{number}::1"));
        let own = addresses(2, "sn");
        self.run(name, &format!("ip link set lo up; ip link set sn up; {own}; ip route add default via 10.{number}.0.1; ip -6 route add default via fd00:{number}::1"));
    }

    /// Waits until a holder is what it is to be, after all that makes its namespaces.
    fn wait_namespace(&self, name: &str) {
        let holder = self.holder(name);
        let sleeps = || std::fs::read_to_string(format!("/proc/{holder}/comm")).is_ok_and(|name| name == "sleep\n");
        assert!(wait_until(MADE, || sleeps().then_some(())).is_some(), "this machine makes no network namespaces");
    }

    fn holder(&self, name: &str) -> String {
        let at = self.names.iter().position(|known| *known == name).expect("a host of this name");
        self.holders[at].id().to_string()
    }

    fn inside(&self, host: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.holder(host), "--user", "--preserve-credentials", "--net", "--"]);
        command
    }

    /// Has a shell on a host do something.
    ///
    /// # Panics
    /// When it fails.
    pub fn run(&self, host: &str, script: &str) {
        let output = self.inside(host).args(["sh", "-ec", script]).output().expect("nsenter starts");
        assert!(output.status.success(), "{host}: {script}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// The address of `sn` for a host: its first there or its other one.
    pub fn hub_for(&self, host: &str, is_v6: bool, is_second: bool) -> IpAddr {
        let number = self.names.iter().position(|known| *known == host).expect("a host of this name");
        let last = if is_second { 9 } else { 1 };
        let text = if is_v6 { format!("fd00:{number}::{last}") } else { format!("10.{number}.0.{last}") };
        text.parse().expect("an address")
    }

    /// Runs `roost` on a daemon's host.
    ///
    /// # Panics
    /// When it does not start.
    pub fn roost(&self, host: &str, client: &Client, arguments: &[&str]) -> Output {
        let mut command = self.inside(host);
        command.arg(binary("roost")).arg("--socket").arg(&client.socket).args(arguments);
        command.output().expect("nsenter starts")
    }

    /// Starts a daemon on a host and waits until it serves.
    pub fn start(&mut self, program: &str, host: &str, role: &str, arguments: &[&str]) -> Client {
        let identity = self.network.identity(host, role);
        let client = self.network.client(host);
        let mut command = self.inside(host);
        command.arg(binary(program)).args(["--identity", &text(&identity), "--socket", &text(&client.socket)]);
        command.args(arguments);
        let log = self.network.path(&format!("{host}.log"));
        self.daemons.push(Process::start(command, log).expect("nsenter starts"));
        client.wait_ready();
        client
    }
}

impl Drop for Star<'_> {
    fn drop(&mut self) {
        self.daemons.clear();
    }
}
