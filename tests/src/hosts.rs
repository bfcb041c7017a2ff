//! Hosts of network namespaces, joined by the kernel's own links: for features that the lab's carrier lacks, as IPv6,
//! more addresses of a host, or translators.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::process::{Command, Output};
use std::time::Duration;

use crate::network::{Client, Network, text};
use crate::process::{Process, binary, wait_until};

/// The longest time for the system to make a namespace.
const MADE: Duration = Duration::from_secs(10);

/// Makes a host forward packets.
const ROUTES: &str = "sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1";

/// Prefixes of the addresses on a link.
struct Net {
    v4: String,
    v6: String,
}

impl Net {
    fn add(&self, host: u8, dev: &str) -> String {
        let Self { v4, v6 } = self;
        format!("ip addr add {v4}.{host}/24 dev {dev}; ip addr add {v6}::{host}/64 dev {dev} nodad")
    }
}

/// The firewall or translator between a host and all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    Open,
    /// A firewall on the host that lets in only answers.
    Firewall,
    /// A translator of addresses that gives a port of the host the same one towards every remote, and lets in only
    /// answers.
    Translator,
    /// A translator that gives a port of the host another one towards each remote.
    Symmetric,
    /// A translator as the first one, which lets in hosts that were called, from any of their ports.
    AddressFilter,
    /// A translator as the first one, which lets in everybody.
    FullCone,
}

impl Gate {
    /// True if it is a translator, which takes a host of its own.
    fn translates(self) -> bool {
        !matches!(self, Self::Open | Self::Firewall)
    }

    /// The rules on the gate's host, whose way out is the interface `sn`, for the host `inside`.
    fn rules(self, inside: &str) -> Option<String> {
        const CLOSED: &str = "chain i { type filter hook input priority 0; iifname sn ct state new drop; }; \
            chain f { type filter hook forward priority 0; iifname sn ct state new drop; };";
        let translation = match self {
            Self::Open => return None,
            Self::Firewall => String::new(),
            Self::Translator | Self::Symmetric => {
                let ports = if self == Self::Symmetric { " fully-random" } else { "" };
                format!("chain o {{ type nat hook postrouting priority 100; oifname sn masquerade{ports}; }};")
            }
            Self::AddressFilter | Self::FullCone => return Some(self.forwarding(inside)),
        };
        Some(format!("table inet gate {{ {CLOSED} {translation} }}"))
    }

    /// Rules that lead every caller, or only those that were called, to the host inside: with nft alone a translator
    /// lets in answers only.
    fn forwarding(self, inside: &str) -> String {
        let callers = if self == Self::AddressFilter { "ip saddr @called" } else { "" };
        format!(
            "table ip gate {{ set called {{ type ipv4_addr; flags dynamic,timeout; timeout 60s; }}; \
             chain f {{ type filter hook forward priority -1; oifname sn add @called {{ ip daddr }}; }}; \
             chain p {{ type nat hook prerouting priority -100; iifname sn {callers} dnat to {inside}; }}; \
             chain i {{ type filter hook input priority 0; iifname sn ct state new drop; }}; \
             chain o {{ type nat hook postrouting priority 100; oifname sn masquerade; }}; }}"
        )
    }
}

/// A hub's host `sn`, and others, each on a link of its own to that. The n-th has 10.N.0.2 and fd00:N::2, `sn` has .1
/// and ::1 there, and in addition .9 and ::9. A host behind a translator has 192.168.N.2 and fd01:N::2 instead.
pub struct Star<'a> {
    network: &'a Network,
    /// In order of their numbers, `sn` first.
    names: Vec<&'static str>,
    /// The process that keeps each host's namespace alive.
    holders: BTreeMap<String, Process>,
    daemons: Vec<Process>,
}

impl<'a> Star<'a> {
    /// Joins these hosts to `sn`.
    ///
    /// # Panics
    /// Panics if this machine cannot make namespaces.
    pub fn new(network: &'a Network, others: &[&'static str]) -> Self {
        Self::behind(network, &others.iter().map(|name| (*name, Gate::Open)).collect::<Vec<_>>())
    }

    /// As [`Self::new`], with each host behind a gate.
    ///
    /// # Panics
    /// Panics if this machine cannot make namespaces.
    pub fn behind(network: &'a Network, others: &[(&'static str, Gate)]) -> Self {
        let mut hub = Command::new("unshare");
        hub.args(["--user", "--map-root-user", "--net", "sleep", "infinity"]);
        let hub = Process::start(hub, network.path("sn.holder")).expect("unshare starts");
        let names = std::iter::once("sn").chain(others.iter().map(|(name, _)| *name)).collect();
        let holders = BTreeMap::from([("sn".to_owned(), hub)]);
        let mut star = Self { network, names, holders, daemons: Vec::new() };
        star.wait_namespace("sn");
        star.run("sn", &format!("ip link set lo up; {ROUTES}"));
        others.iter().enumerate().for_each(|(index, (name, gate))| star.join(name, *gate, index + 1));
        star
    }

    fn join(&mut self, name: &'static str, gate: Gate, number: usize) {
        let outer = if gate.translates() { format!("{name}-gate") } else { name.to_owned() };
        self.hold(&outer);
        let outside = Net { v4: format!("10.{number}.0"), v6: format!("fd00:{number}") };
        self.connection("sn", name, &outer, &outside);
        self.run(
            "sn",
            &format!(
                "{}; ip -6 route replace fd00:{number}::/64 dev {name} src fd00:{number}::1",
                outside.add(9, name)
            ),
        );
        if let Some(rules) = gate.rules(&format!("192.168.{number}.2")) {
            self.run(&outer, &format!("nft '{rules}'"));
        }
        if gate.translates() {
            self.hold(name);
            self.run(&outer, ROUTES);
            let inside = Net { v4: format!("192.168.{number}"), v6: format!("fd01:{number}") };
            self.connection(&outer, "in", name, &inside);
        }
    }

    fn hold(&mut self, name: &str) {
        let hub = self.holder("sn");
        let mut holder = Command::new("nsenter");
        holder.args(["--target", &hub, "--user", "--preserve-credentials", "--net", "unshare", "--net"]);
        holder.args(["sleep", "infinity"]);
        let holder = Process::start(holder, self.network.path(&format!("{name}.holder"))).expect("nsenter starts");
        self.holders.insert(name.to_owned(), holder);
        self.wait_namespace(name);
    }

    /// Joins two hosts by a link, on which the first one is the second one's way to all others.
    fn connection(&self, one: &str, dev: &str, other: &str, net: &Net) {
        let pid = self.holder(other);
        let up = format!("ip link add {dev} type veth peer name sn netns {pid}; ip link set {dev} up");
        self.run(one, &format!("{up}; {}", net.add(1, dev)));
        let Net { v4, v6 } = net;
        let routes = format!("ip route add default via {v4}.1; ip -6 route add default via {v6}::1");
        self.run(other, &format!("ip link set lo up; ip link set sn up; {}; {routes}", net.add(2, "sn")));
    }

    /// Waits until a holder runs `sleep`, after all that makes its namespaces.
    fn wait_namespace(&self, name: &str) {
        let holder = self.holder(name);
        let sleeps = || std::fs::read_to_string(format!("/proc/{holder}/comm")).is_ok_and(|name| name == "sleep\n");
        assert!(wait_until(MADE, || sleeps().then_some(())).is_some(), "this machine makes no network namespaces");
    }

    fn holder(&self, name: &str) -> String {
        self.holders.get(name).expect("a host of this name").id().to_string()
    }

    /// A command on a host, to which its program and arguments are to be added.
    ///
    /// # Panics
    /// Panics if there is no host of this name.
    pub fn inside(&self, host: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.holder(host), "--user", "--preserve-credentials", "--net", "--"]);
        command
    }

    /// Runs a shell script on a host.
    ///
    /// # Panics
    /// Panics if it fails.
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
    /// Panics if it does not start.
    pub fn roost(&self, host: &str, client: &Client, arguments: &[&str]) -> Output {
        self.command(host, client, arguments).output().expect("nsenter starts")
    }

    /// `roost` on a daemon's host, not yet started.
    pub fn command(&self, host: &str, client: &Client, arguments: &[&str]) -> Command {
        let mut command = self.inside(host);
        command.arg(binary("roost")).arg("--socket").arg(&client.socket).args(arguments);
        command
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
