//! A topology as an NS file, for Emulab.
//!
//! Parts that NS cannot express are in comment lines which only this program reads, so that an import loses
//! nothing.

mod names;
mod words;

use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::path::Path;

use roost_topology::addresses::assign;
use roost_topology::file::{extras, most_common, whole_of};
use roost_topology::model::{
    Action, Discipline, Event, HostIndex, Leg, ManualRoute, Net, NetIndex, NetKind, NetMember, ProgramAction, Queue,
    Red, RouteTarget, Routing, Topology,
};

use self::names::NsNames;
use self::words::{bandwidth, change_words, delay, loss, variable, word};
use crate::load::{LoadError, load_text};

/// The reason why a topology cannot be an NS file.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The reader refuses the written file: a name is a command of Tcl, for instance.
    #[error("NS has no words for this topology: {0}")]
    Refused(LoadError),
    /// Reading the file back gives other hosts or nets.
    #[error("NS cannot describe the hosts and links of this topology")]
    Unlike,
}

/// The parts of a topology that an NS file has neither words nor comments for.
pub fn lost(topology: &Topology) -> Vec<String> {
    let radios =
        (!topology.radios.is_empty()).then(|| format!("{} radios, which are LANs here", topology.radios.len()));
    let places = (!topology.motion.is_empty()).then(|| "the places of hosts and their motion".to_owned());
    radios.into_iter().chain(places).collect()
}

/// Writes an NS file that is read back as this topology, except for its notes and what is [`lost`]. `comment` comes
/// first, if it is not empty.
///
/// # Errors
/// Fails when a part has no form in NS and cannot be added in comments.
pub fn write(topology: &Topology, comment: &str) -> Result<String, ExportError> {
    let read = |text: &str| load_text(Path::new("export.ns"), text);
    let names = NsNames::from_topology(topology, "");
    let text = Writer::new(topology, &names, comment).write();
    let (names, text, read) = match read(&text) {
        Ok(topology) => (names, text, topology),
        // A name may be a command of Tcl; a prefix prevents that.
        Err(error) => {
            let names = NsNames::from_topology(topology, "my-");
            let text = Writer::new(topology, &names, comment).write();
            let read = read(&text).map_err(|_| ExportError::Refused(error))?;
            (names, text, read)
        }
    };
    let text = lost(topology).iter().fold(text, |text, part| format!("{text}\n# Not in this file: {part}\n"));
    let extras = extras::lines(&read, topology, &names.pairs(topology)).ok_or(ExportError::Unlike)?;
    if extras.is_empty() {
        return Ok(text);
    }
    let heading = "# What NS has no words for; a comment to Emulab, and read back by emulate.\n";
    Ok(format!("{text}\n{heading}{extras}"))
}

struct Writer<'a> {
    topology: &'a Topology,
    names: &'a NsNames,
    /// The prefix length of each net, with room for all its members.
    prefixes: Vec<u8>,
    text: String,
    ns: String,
    /// The variable of the current queue.
    queue: String,
}

impl<'a> Writer<'a> {
    fn new(topology: &'a Topology, names: &'a NsNames, comment: &str) -> Self {
        let prefix = |net: &Net| net.members.first().map_or(24, |member| member.prefix);
        let assigned = assign(topology);
        let prefixes = assigned.as_ref().unwrap_or(topology).nets.iter().map(prefix).collect();
        let text = comment.lines().map(|line| format!("# {line}").trim_end().to_owned() + "\n").collect();
        let free = |word: &str| {
            let numbered = (2..).map(|number| format!("{word}{number}"));
            let mut all = std::iter::once(word.to_owned()).chain(numbered);
            all.find(|name| !names.taken.contains(name)).unwrap_or_default()
        };
        Self { topology, names, prefixes, text, ns: free("ns"), queue: free("queue") }
    }

    fn line(&mut self, line: impl AsRef<str>) {
        self.text.push_str(line.as_ref());
        self.text.push('\n');
    }

    fn host(&self, host: HostIndex) -> String {
        variable(&self.names.hosts[host])
    }

    fn net_name(&self, net: NetIndex) -> String {
        variable(&self.names.nets[net])
    }

    fn write(mut self) -> String {
        let ns = self.ns.clone();
        self.line(format!("set {ns} [new Simulator]"));
        self.line("source tb_compat.tcl");
        self.line("");
        self.hosts();
        for (index, net) in self.topology.nets.iter().enumerate() {
            self.line("");
            self.net(net, index);
        }
        self.routing();
        self.programs();
        self.events();
        self.line("");
        self.line(format!("${ns} run"));
        self.text
    }

    fn hosts(&mut self) {
        for (host, name) in self.topology.hosts.iter().zip(&self.names.hosts) {
            let ns = &self.ns;
            let mut lines = format!("set {name} [${ns} node]\n");
            let own = variable(name);
            // Writing to a string cannot fail.
            if let Some(os) = &host.os {
                let _ = writeln!(lines, "tb-set-node-os {own} {}", word(os));
            }
            if let Some(hardware) = &host.hardware {
                let _ = writeln!(lines, "tb-set-hardware {own} {}", word(hardware));
            }
            self.text.push_str(&lines);
        }
        if let Some(host) = self.topology.sync_server {
            self.line(format!("tb-set-sync-server {}", self.host(host)));
        }
    }

    fn net(&mut self, net: &Net, index: NetIndex) {
        match (net.kind, net.members.as_slice()) {
            (NetKind::Link, [a, b]) => self.link(index, a, b),
            _ => self.lan(net, index),
        }
        let own = self.net_name(index);
        for member in &net.members {
            let Some(address) = member.address else { continue };
            let what = if net.kind == NetKind::Link { "link" } else { "lan" };
            self.line(format!("tb-set-ip-{what} {} {own} {address}", self.host(member.host)));
        }
        let prefix = self.prefixes[index];
        if prefix != 24 && (16..=30).contains(&prefix) {
            let mask = Ipv4Addr::from_bits(u32::MAX << (32 - u32::from(prefix)));
            self.line(format!("tb-set-netmask {own} {mask}"));
        }
        if net.cost.to_bits() != 1.0_f64.to_bits() {
            self.line(format!("{own} cost {}", net.cost));
        }
    }

    fn link(&mut self, index: NetIndex, a: &NetMember, b: &NetMember) {
        let (up, down) = (whole_of(&a.to_net, &b.from_net), whole_of(&b.to_net, &a.from_net));
        let (one, other, own) = (self.host(a.host), self.host(b.host), self.net_name(index));
        let kind = if matches!(up.queue.discipline, Discipline::Red(_)) { "RED" } else { "DropTail" };
        let (name, ns) = (&self.names.nets[index], &self.ns);
        let line =
            format!("set {name} [${ns} duplex-link {one} {other} {} {} {kind}]", bandwidth(up.rate), delay(up.delay));
        self.line(line);
        let values = |leg: &Leg| (delay(leg.delay), bandwidth(leg.rate), loss(leg.loss));
        if values(&up) != values(&down) {
            for (source, (delay, rate, loss)) in [(&one, values(&up)), (&other, values(&down))] {
                self.line(format!("tb-set-link-simplex-params {own} {source} {delay} {rate} {loss}"));
            }
        } else if loss(up.loss) != "0" {
            self.line(format!("tb-set-link-loss {own} {}", loss(up.loss)));
        }
        // `$ns link` returns the latest link between the two nodes, which is this one.
        for (from, to, leg) in [(&one, &other, &up), (&other, &one, &down)] {
            self.queue(&format!("[${} link {from} {to}]", self.ns), kind, &leg.queue);
        }
    }

    /// Sets the values that differ from the defaults of the queue's kind.
    fn queue(&mut self, side: &str, kind: &str, queue: &Queue) {
        let name = self.queue.clone();
        let mut settings: Vec<(&str, String)> = Vec::new();
        if queue.limit != Queue::DEFAULT.limit {
            settings.push(("limit_", queue.limit.to_string()));
        }
        if queue.in_bytes {
            settings.push(("queue-in-bytes_", "1".to_owned()));
        }
        if let (Discipline::Red(red), "RED") = (queue.discipline, kind) {
            let defaults = Red::DEFAULT;
            let own = [
                ("thresh_", red.min_threshold.to_string(), defaults.min_threshold.to_string()),
                ("maxthresh_", red.max_threshold.to_string(), defaults.max_threshold.to_string()),
                ("linterm_", red.linterm.to_string(), defaults.linterm.to_string()),
                ("q_weight_", red.weight.to_string(), defaults.weight.to_string()),
                ("gentle_", u8::from(red.gentle).to_string(), "0".to_owned()),
            ];
            settings.extend(own.into_iter().filter(|(_, own, usual)| own != usual).map(|(key, own, _)| (key, own)));
        }
        if !settings.is_empty() {
            self.line(format!("set {name} [{side} queue]"));
        }
        for (key, value) in settings {
            self.line(format!("${name} set {key} {value}"));
        }
    }

    fn lan(&mut self, net: &Net, index: NetIndex) {
        let (own, name, ns) = (self.net_name(index), self.names.nets[index].clone(), self.ns.clone());
        let members: Vec<String> = net.members.iter().map(|member| self.host(member.host)).collect();
        let base = common(net);
        let whole = whole_of(&base.to_net, &base.from_net);
        let (rate, latency) = (bandwidth(base.to_net.rate), delay(whole.delay));
        self.line(format!("set {name} [${ns} make-lan \"{}\" {rate} {latency}]", members.join(" ")));
        if loss(whole.loss) != "0" {
            self.line(format!("tb-set-lan-loss {own} {}", loss(whole.loss)));
        }
        for member in &net.members {
            let host = self.host(member.host);
            let values = |leg: &Leg| (delay(leg.delay), bandwidth(leg.rate), loss(leg.loss));
            let (up, down) = (values(&member.to_net), values(&member.from_net));
            let (usual, usual_down) = (values(&base.to_net), values(&base.from_net));
            if up == down && usual == usual_down {
                let commands = [("delay", up.0, usual.0), ("bandwidth", up.1, usual.1), ("loss", up.2, usual.2)];
                for (what, value, _) in commands.into_iter().filter(|(_, own, usual)| own != usual) {
                    self.line(format!("tb-set-node-lan-{what} {host} {own} {value}"));
                }
            } else if (&up, &down) != (&usual, &usual_down) {
                let (to, from) = (format!("{} {} {}", up.0, up.1, up.2), format!("{} {} {}", down.0, down.1, down.2));
                self.line(format!("tb-set-lan-simplex-params {own} {host} {to} {from}"));
            }
        }
    }

    fn routing(&mut self) {
        let protocol = match self.topology.routing {
            Routing::None => "",
            Routing::Static => "Static",
            Routing::Session => "Session",
            Routing::Manual => "Manual",
        };
        if !protocol.is_empty() {
            self.line("");
            self.line(format!("${} rtproto {protocol}", self.ns));
        }
        let mut said = Vec::new();
        for route in &self.topology.manual_routes {
            if !self.is_route(route) || said.contains(&(route.host, route.to)) {
                continue;
            }
            said.push((route.host, route.to));
            let to = match route.to {
                RouteTarget::Host(host) => self.host(host),
                RouteTarget::Net(net) => self.net_name(net),
            };
            self.line(format!("{} add-route {to} {}", self.host(route.host), self.host(route.via)));
        }
    }

    /// True if NS can express the route: by a gateway on a net of the host, to a net or to a host of one
    /// interface.
    fn is_route(&self, route: &ManualRoute) -> bool {
        let is_on = |net: &Net, host: HostIndex| net.members.iter().any(|member| member.host == host);
        let near = self.topology.nets.iter().any(|net| is_on(net, route.host) && is_on(net, route.via));
        let single = match route.to {
            RouteTarget::Net(_) => true,
            RouteTarget::Host(to) => self.topology.nets.iter().filter(|net| is_on(net, to)).count() == 1,
        };
        near && single && route.host != route.via
    }

    fn programs(&mut self) {
        if !self.topology.programs.is_empty() {
            self.line("");
        }
        for program in &self.topology.programs {
            let host = self.host(program.host);
            if program.start_command && program.name == format!("{}_startcmd", self.names.hosts[program.host]) {
                self.line(format!("tb-set-node-startcmd {host} {}", word(&program.command)));
                continue;
            }
            let mut line = format!("set {} [{host} program-agent -command {}", program.name, word(&program.command));
            if let Some(folder) = &program.folder {
                let _ = write!(line, " -dir {}", word(folder));
            }
            if let Some(timeout) = program.timeout {
                let _ = write!(line, " -timeout {}", timeout.as_secs_f64());
            }
            if let Some(code) = program.expected_exit {
                let _ = write!(line, " -expected-exit-code {code}");
            }
            self.line(line + "]");
        }
    }

    fn events(&mut self) {
        let events: Vec<String> = self.topology.events.iter().filter_map(|event| self.event(event)).collect();
        if !events.is_empty() {
            self.line("");
        }
        events.into_iter().for_each(|event| self.line(event));
    }

    /// The line that schedules an event, if NS can express it.
    fn event(&self, event: &Event) -> Option<String> {
        let what = match &event.action {
            Action::Net { net, from: None, change } => {
                let change = change_words(*change)?;
                format!("{} {change}", self.net_name(*net))
            }
            Action::Program { program, what } => {
                let program = &self.topology.programs[*program];
                // A program that starts by itself must not be started again.
                let word = match what {
                    ProgramAction::Start(None) if !program.start_command => "start".to_owned(),
                    ProgramAction::Stop => "stop".to_owned(),
                    ProgramAction::Kill(signal) => format!("kill {signal}"),
                    _ => return None,
                };
                format!("{} {word}", variable(&program.name))
            }
            Action::Halt => format!("${} halt", self.ns),
            _ => return None,
        };
        Some(format!("${} at {} \"{what}\"", self.ns, event.at.as_secs_f64()))
    }
}

/// The member whose legs are the most common.
fn common(net: &Net) -> NetMember {
    let legs = |member: &NetMember| (member.to_net.clone(), member.from_net.clone());
    let (to_net, from_net) = most_common(net.members.iter().map(legs)).unwrap_or_default();
    NetMember { host: 0, address: None, prefix: 24, to_net, from_net }
}

#[cfg(test)]
mod tests;
