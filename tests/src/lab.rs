//! An emulated network whose links tests cut and slow down: each host in its own namespace, with real daemons on it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::network::{Client, Network, text};
use crate::process::binary;

/// A link: two hosts, and its properties in the words of a topology.
pub type Connection<'a> = (&'a str, &'a str, &'a str);

/// An emulated network that is up until this goes out of scope.
pub struct Lab<'a> {
    network: &'a Network,
    shell: Child,
    lines: Option<ChildStdin>,
    said: BufReader<ChildStdout>,
    /// The host on which the end of a line is announced.
    somewhere: String,
    /// The process of each daemon, as the lab numbers it.
    daemons: BTreeMap<String, u32>,
}

impl<'a> Lab<'a> {
    /// Starts a network of these links, each called after its hosts (`a-b`, a second one between them `a-b-2`).
    ///
    /// # Panics
    /// Panics when this machine cannot make namespaces; it says why.
    pub fn new(network: &'a Network, connections: &[Connection<'_>]) -> Self {
        let topology = network.path("lab.toml");
        std::fs::write(&topology, describe(connections)).expect("the topology is written");
        let said = File::create(network.path("lab.log")).expect("a log");
        let mut command = Command::new(binary("emulate"));
        command.arg("shell").arg(&topology).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(said);
        let mut shell = command.spawn().expect("emulate starts");
        let lines = shell.stdin.take();
        let said = BufReader::new(shell.stdout.take().expect("its output is piped"));
        let mut lab =
            Self { network, shell, lines, said, somewhere: connections[0].0.to_owned(), daemons: BTreeMap::new() };
        lab.run("");
        lab
    }

    /// Runs a line of `emulate shell`: `HOST COMMAND…`, `link A B down`. Returns its output.
    ///
    /// # Panics
    /// Panics if the shell has ended.
    pub fn run(&mut self, line: &str) -> String {
        const END: &str = "that was all";
        let lines = self.lines.as_mut().expect("the shell is up");
        let written = writeln!(lines, "{line}\n{} echo {END}", self.somewhere).and_then(|()| lines.flush());
        let mut printed = String::new();
        while written.is_ok() && self.said.read_line(&mut printed).is_ok_and(|bytes| bytes > 0) {
            if let Some(printed) = printed.strip_suffix(&format!("{END}\n")) {
                return printed.to_owned();
            }
        }
        let log = std::fs::read_to_string(self.network.path("lab.log")).unwrap_or_default();
        panic!("the lab has ended at `{line}`:\n{printed}{log}");
    }

    /// The first IPv4 address of a host.
    ///
    /// # Panics
    /// Panics if there is none.
    pub fn address_of(&mut self, host: &str) -> String {
        let found = self.run(&format!("{host} getent ahostsv4 {host}"));
        found.split_whitespace().next().expect("it has a name").to_owned()
    }

    /// Starts a super node on the host of its name, which others find at `udp://NAME:7700`, and waits until it listens.
    pub fn supernode(&mut self, name: &str, arguments: &[&str]) -> Client {
        self.supernode_on(name, name, arguments)
    }

    /// As [`Self::supernode`], on any host.
    pub fn supernode_on(&mut self, host: &str, name: &str, arguments: &[&str]) -> Client {
        self.start("supernode", host, name, "supernode", arguments)
    }

    /// Starts the baseline's server on the host of its name and waits until it listens.
    pub fn server(&mut self, name: &str, arguments: &[&str]) -> Client {
        self.start("cs-server", name, name, "server", arguments)
    }

    /// Starts a node on the host of its name and waits until it is attached.
    pub fn node(&mut self, name: &str, at: &str, arguments: &[&str]) -> Client {
        self.start("overlay-node", name, name, "node", &[&["--at", at], arguments].concat())
    }

    /// As [`Self::node`], without waiting.
    pub fn begin_node(&mut self, name: &str, at: &str, arguments: &[&str]) -> Client {
        self.begin("overlay-node", name, name, "node", &[&["--at", at], arguments].concat())
    }

    fn start(&mut self, program: &str, host: &str, name: &str, role: &str, arguments: &[&str]) -> Client {
        let client = self.begin(program, host, name, role, arguments);
        client.wait_ready();
        client
    }

    fn begin(&mut self, program: &str, host: &str, name: &str, role: &str, arguments: &[&str]) -> Client {
        let identity = text(&self.network.identity(name, role));
        let client = self.network.client(name);
        let (socket, log) = (text(&client.socket), text(&self.network.path(&format!("{name}.log"))));
        let program = text(&binary(program));
        let arguments = arguments.join(" ");
        let daemon = format!("{program} --identity {identity} --socket {socket} {arguments}");
        let process = self.run(&format!("{host} {daemon} > {log} 2>&1 & echo $!"));
        self.daemons.insert(name.to_owned(), process.trim().parse().expect("the shell prints a process"));
        client
    }

    /// Kills a daemon of this lab.
    ///
    /// # Panics
    /// Panics if no daemon of this name was started.
    pub fn kill(&mut self, name: &str) {
        let process = self.daemons.remove(name).expect("a daemon of the lab");
        // The lab numbers its processes by itself.
        self.run(&format!("{} kill -KILL {process}", self.somewhere));
    }

    /// Loses from now on all that `speaker` sends to `deaf`; the other direction stays.
    pub fn deafen(&mut self, deaf: &str, speaker: &str) {
        let [from, to] = [speaker, deaf].map(|host| self.address_of(host));
        self.run(&format!("router ip rule add from {from} to {to} blackhole"));
    }
}

impl Drop for Lab<'_> {
    fn drop(&mut self) {
        // The shell ends with its input, and with it all processes on its hosts.
        self.lines = None;
        let _ = self.shell.wait();
    }
}

fn describe(connections: &[Connection<'_>]) -> String {
    let hosts: BTreeSet<&str> = connections.iter().flat_map(|(a, b, _)| [*a, *b]).collect();
    let hosts = hosts.into_iter().map(|host| format!("[[host]]\nname = \"{host}\"\n"));
    let connections = connections.iter().enumerate().map(|(index, (a, b, like))| {
        let before = connections[..index].iter().filter(|(x, y, _)| (x, y) == (a, b)).count();
        let number = if before > 0 { format!("-{}", before + 1) } else { String::new() };
        let name = format!("{a}-{b}{number}");
        format!("[[link]]\nname = \"{name}\"\nbetween = [\"{a}\", \"{b}\"]\nrate = \"10Mbit\"\n{like}\n")
    });
    format!("name = \"lab\"\nrouting = \"static\"\n{}{}", hosts.collect::<String>(), connections.collect::<String>())
}
