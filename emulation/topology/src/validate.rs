//! Checks of a topology for errors and doubtful parts, for both formats.

mod reach;

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use self::reach::{parts, unrouted};
use super::addresses::{self, Subnet, broadcast, network};
use super::file_name::is_file_name;
use super::model::{
    Action, Discipline, HostIndex, MAX_EVENTS, MAX_HOSTS, MAX_MEMBERS, MAX_NETS, MAX_PROGRAMS, MAX_ROUTES, Net,
    NetKind, Note, ProgramAction, Queue, Red, RouteTarget, Routing, Topology, TopologyChange, no_change_of_radio,
};

const MAX_NAME: usize = 63;

/// The lines of a topology's parts in its file; where a list is too short, the line is unknown.
#[derive(Clone, Debug, Default)]
pub struct TopologyLines {
    pub routing: u32,
    pub hosts: Vec<u32>,
    pub nets: Vec<u32>,
    pub routes: Vec<u32>,
    pub programs: Vec<u32>,
    pub traffic: Vec<u32>,
}

/// The treatment of mistakes that Emulab accepts: hosts that cannot reach each other, addresses that do not fit
/// their net.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValidationPolicy {
    /// Errors.
    Strict,
    /// Warnings.
    Lenient,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    pub errors: Vec<Note>,
    pub warnings: Vec<Note>,
}

pub fn check(topology: &Topology, lines: &TopologyLines, policy: ValidationPolicy) -> Findings {
    let mut check = TopologyCheck { topology, lines, policy, findings: Findings::default() };
    check.limits();
    check.names();
    check.members();
    if check.findings.errors.is_empty() {
        check.addresses();
        check.routes();
        check.traces();
        check.events();
        check.reach();
    }
    check.findings
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct NetSubnet {
    subnet: Subnet,
    net: usize,
}

struct TopologyCheck<'a> {
    topology: &'a Topology,
    lines: &'a TopologyLines,
    policy: ValidationPolicy,
    findings: Findings,
}

impl TopologyCheck<'_> {
    fn error(&mut self, line: u32, text: impl Into<String>) {
        self.findings.errors.push(Note { line, text: text.into() });
    }

    fn warn(&mut self, line: u32, text: impl Into<String>) {
        self.findings.warnings.push(Note { line, text: text.into() });
    }

    /// Reports an error, or a warning where Emulab accepts the topology.
    fn doubt(&mut self, line: u32, text: impl Into<String>) {
        match self.policy {
            ValidationPolicy::Strict => self.error(line, text),
            ValidationPolicy::Lenient => self.warn(line, text),
        }
    }

    fn limits(&mut self) {
        let of = self.topology;
        let members = of.nets.iter().map(|net| net.members.len()).sum();
        let limits = [
            ("hosts", of.hosts.len(), MAX_HOSTS),
            ("links and LANs", of.nets.len(), MAX_NETS),
            ("interfaces", members, MAX_MEMBERS),
            ("routes", of.manual_routes.len(), MAX_ROUTES),
            ("events", of.events.len(), MAX_EVENTS),
            ("programs", of.programs.len(), MAX_PROGRAMS),
            ("traffic agents", of.traffic.len(), MAX_PROGRAMS),
        ];
        for (what, count, most) in limits.into_iter().filter(|(_, count, most)| count > most) {
            self.error(0, format!("{count} {what} are too many: {most} are the most"));
        }
        if of.hosts.is_empty() {
            self.doubt(0, "the topology has no host");
        }
    }

    /// Names must be unique, since events, plans and people refer to them.
    fn names(&mut self) {
        let (of, lines) = (self.topology, self.lines);
        let hosts = of.hosts.iter().map(|host| host.name.as_str()).zip(padded(&lines.hosts));
        let nets = of.nets.iter().map(|net| net.name.as_str()).zip(padded(&lines.nets));
        let programs = of.programs.iter().map(|program| program.name.as_str()).zip(padded(&lines.programs));
        let traffic = of.traffic.iter().map(|agent| agent.name.as_str()).zip(padded(&lines.traffic));
        for (name, line) in hosts.clone() {
            if !is_host_name(name) {
                let rule = format!("1 to {MAX_NAME} letters, digits, `-`, `_` and `.`, the first a letter or digit");
                self.error(line, format!("`{name}` is no name for a host: {rule}"));
            }
        }
        let kinds = hosts.map(|it| ("host", it)).chain(nets.map(|it| ("net", it)));
        let kinds = kinds.chain(programs.map(|it| ("program", it))).chain(traffic.map(|it| ("traffic agent", it)));
        let mut seen: BTreeMap<&str, (&str, u32)> = BTreeMap::new();
        for (kind, (name, line)) in kinds {
            if name.is_empty() || name.chars().any(char::is_control) {
                self.error(line, format!("{kind} `{}` needs a name that can be written", name.escape_default()));
            }
            // Results have files of these names.
            if !is_file_name(name) {
                self.doubt(
                    line,
                    format!("{kind} `{}`: a name has no `/`, and is not `.` or `..`", name.escape_default()),
                );
            } else if kind == "program" && (name.ends_with(".out") || name.ends_with(".err")) {
                self.doubt(
                    line,
                    format!("program `{name}`: choose a name that does not end in .out or .err, as its output's"),
                );
            }
            if let Some((other, first)) = seen.insert(name, (kind, line)) {
                let place = if first == 0 { String::new() } else { format!(" in line {first}") };
                self.error(line, format!("`{name}` is already the name of a {other}{place}"));
            }
        }
    }

    fn members(&mut self) {
        let interfaces = self.topology.interfaces();
        for (host, _) in interfaces.iter().enumerate().filter(|(_, of)| of.is_empty()) {
            let name = &self.topology.hosts[host].name;
            self.warn(line(&self.lines.hosts, host), format!("`{name}` is on no link or LAN"));
        }
        for (index, net) in self.topology.nets.iter().enumerate() {
            let at = line(&self.lines.nets, index);
            self.net(net, at);
        }
    }

    fn net(&mut self, net: &Net, at: u32) {
        let (name, count) = (&net.name, net.members.len());
        let mut seen = BTreeSet::new();
        let twice = net.members.iter().find(|member| !seen.insert(member.host));
        match (net.kind, twice) {
            (NetKind::Link, Some(twice)) if count == 2 => {
                let host = &self.topology.hosts[twice.host].name;
                self.doubt(at, format!("`{name}` links `{host}` with itself"));
            }
            (NetKind::Link, _) if count != 2 => self.error(at, format!("`{name}` is a link of {count} hosts, not 2")),
            (_, Some(twice)) => {
                let host = &self.topology.hosts[twice.host].name;
                self.doubt(at, format!("`{host}` is on `{name}` twice"));
            }
            (NetKind::Lan, _) if count == 0 => self.error(at, format!("`{name}` has no members")),
            (NetKind::Lan, _) if count == 1 => self.warn(at, format!("`{name}` has only one member")),
            _ => {}
        }
    }

    fn addresses(&mut self) {
        let mut owners: BTreeMap<Ipv4Addr, HostIndex> = BTreeMap::new();
        let mut subnets = Vec::new();
        for (index, net) in self.topology.nets.iter().enumerate() {
            let at = line(&self.lines.nets, index);
            for member in &net.members {
                let Some(address) = member.address else { continue };
                if !is_host_address(address, member.prefix) {
                    self.error(at, format!("{address}/{} of `{}` is no host's address", member.prefix, net.name));
                }
                if let Some(host) = owners.insert(address, member.host) {
                    let text = format!(
                        "{address} is the address of both `{}` and `{}`",
                        self.name(host),
                        self.name(member.host)
                    );
                    self.doubt(at, text);
                }
                let first = network(address, member.prefix);
                subnets.push(NetSubnet { subnet: Subnet { address: first, prefix: member.prefix }, net: index });
            }
            self.subnet(net, at);
            self.queues(net, at);
        }
        self.shared_subnets(subnets);
        if let Err(error) = addresses::assign(self.topology) {
            let net = self.topology.nets.iter().position(|net| net.name == error.net());
            self.error(net.map_or(0, |net| line(&self.lines.nets, net)), error.to_string());
        }
    }

    /// All explicit addresses of a net must be in one subnet.
    fn subnet(&mut self, net: &Net, at: u32) {
        let mut given =
            net.members.iter().filter_map(|member| Some(Subnet { address: member.address?, prefix: member.prefix }));
        let Some(first) = given.next() else { return };
        if let Some(other) = given.find(|other| other.prefix != first.prefix || !first.overlaps(*other)) {
            let text = format!("{first} and {other} on `{}` are not in one subnet", net.name);
            self.doubt(at, text);
        }
    }

    /// RED's probability grows from the lower threshold to the upper one, so their order matters.
    fn queues(&mut self, net: &Net, at: u32) {
        let legs = net.members.iter().flat_map(|member| [&member.to_net, &member.from_net]);
        if let Some(wrong) = legs.map(|leg| leg.queue).find_map(crossed) {
            self.doubt(at, format!("RED on `{}`: {wrong}", net.name));
        }
    }

    /// No two nets share a subnet.
    fn shared_subnets(&mut self, mut subnets: Vec<NetSubnet>) {
        subnets.sort_unstable();
        let mut told = BTreeSet::new();
        for pair in subnets.windows(2) {
            let [one, other] = pair else { continue };
            let apart = one.net == other.net || !one.subnet.overlaps(other.subnet);
            let nets = (one.net.min(other.net), one.net.max(other.net));
            if apart || !told.insert(nets) {
                continue;
            }
            let (first, second) = (&self.topology.nets[nets.0].name, &self.topology.nets[nets.1].name);
            let text = format!("`{first}` and `{second}` share the subnet {}", one.subnet);
            self.doubt(line(&self.lines.nets, nets.1), text);
        }
    }

    /// The gateway of a route must share a net with the host.
    fn routes(&mut self) {
        for (index, route) in self.topology.manual_routes.iter().enumerate() {
            let near =
                |net: &Net| [route.host, route.via].iter().all(|host| net.members.iter().any(|it| it.host == *host));
            let (host, via) = (self.name(route.host), self.name(route.via));
            let text = if route.host == route.via {
                format!("a route of `{host}` leads over itself")
            } else if !self.topology.nets.iter().any(near) {
                format!("a route of `{host}` leads over `{via}`, which is not its neighbour")
            } else if route.to == RouteTarget::Host(route.host) {
                format!("a route of `{host}` leads to itself")
            } else {
                continue;
            };
            self.doubt(line(&self.lines.routes, index), text);
        }
    }

    /// A direction of a link is one pipe, in which one trace can play.
    fn traces(&mut self) {
        for (index, net) in self.topology.nets.iter().enumerate() {
            let (NetKind::Link, [a, b]) = (net.kind, net.members.as_slice()) else { continue };
            if [(a, b), (b, a)].iter().any(|(from, to)| from.to_net.trace.is_some() && to.from_net.trace.is_some()) {
                let text =
                    format!("two traces play in one direction of `{}`: write trace = false in one place", net.name);
                self.error(line(&self.lines.nets, index), text);
            }
        }
    }

    /// An event may only wait for an earlier one that runs a program.
    fn events(&mut self) {
        for (index, event) in self.topology.events.iter().enumerate() {
            if let Action::Net { change: TopologyChange::Queue(queue), .. } = event.action
                && let Some(wrong) = crossed(queue)
            {
                self.doubt(event.line, format!("RED after an event of `{}`: {wrong}", event.object));
            }
            if let Action::Net { net, .. } = event.action
                && self.topology.radio(net).is_some()
            {
                self.error(event.line, no_change_of_radio(&self.topology.nets[net].name));
            }
            let Some(after) = event.after else { continue };
            let awaited = self.topology.events.get(after).map(|event| &event.action);
            if after >= index || !matches!(awaited, Some(Action::Program { what: ProgramAction::Run(_), .. })) {
                let text = "the event waits for one that is no program's `run`, or that comes later itself";
                self.error(event.line, text);
            }
        }
    }

    /// Packets must have a route between hosts that are connected.
    fn reach(&mut self) {
        let parts = parts(self.topology);
        let connected = |host: &HostIndex| parts.size[parts.of[*host]] > 1;
        let mut hosts = (0..self.topology.hosts.len()).filter(connected);
        let first = hosts.next();
        if let Some((one, other)) = first.and_then(|one| Some((one, hosts.find(|it| parts.of[*it] != parts.of[one])?)))
        {
            let text =
                format!("nothing joins `{}` and `{}`: the network is in parts", self.name(one), self.name(other));
            self.warn(0, text);
        }
        let word = match self.topology.routing {
            Routing::Static | Routing::Session => return,
            Routing::None => "none",
            // With explicit routes the experimenter is responsible.
            Routing::Manual if !self.topology.manual_routes.is_empty() => return,
            Routing::Manual => "manual",
        };
        let Some((from, to)) = unrouted(self.topology, &parts) else { return };
        let text = format!(
            "with routing {word}, `{}` has no way to `{}`, which is more than one link away: set static routing",
            self.name(from),
            self.name(to)
        );
        let text = match (self.topology.routing, self.policy) {
            (_, ValidationPolicy::Strict) => format!("{text}, or lenient = true if that is meant"),
            (Routing::Manual, ValidationPolicy::Lenient) => format!("{text}, or set the routes yourself"),
            _ => text,
        };
        self.doubt(self.lines.routing, text);
    }

    fn name(&self, host: HostIndex) -> &str {
        &self.topology.hosts[host].name
    }
}

/// Describes thresholds of a queue that are in the wrong order.
fn crossed(queue: Queue) -> Option<String> {
    match queue.discipline {
        Discipline::Red(Red { min_threshold: min, max_threshold: max, .. }) if min >= max => {
            Some(format!("the lower threshold, {min}, is not below the upper one, {max}"))
        }
        _ => None,
    }
}

/// True if a host may have this name.
pub fn is_host_name(name: &str) -> bool {
    let letters = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    name.starts_with(|c: char| c.is_ascii_alphanumeric()) && name.len() <= MAX_NAME && name.chars().all(letters)
}

fn is_host_address(address: Ipv4Addr, prefix: u8) -> bool {
    let special = address.is_unspecified() || address.is_loopback() || address.is_multicast();
    let special = special || address.octets()[0] == 0 || address.octets()[0] >= 240;
    let inside = prefix > 30 || (address != network(address, prefix) && address != broadcast(address, prefix));
    (8..=32).contains(&prefix) && inside && !special
}

fn line(lines: &[u32], index: usize) -> u32 {
    lines.get(index).copied().unwrap_or(0)
}

fn padded(lines: &[u32]) -> impl Iterator<Item = u32> + Clone {
    lines.iter().copied().chain(std::iter::repeat(0))
}

#[cfg(test)]
mod tests;
