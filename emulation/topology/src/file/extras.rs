//! Extensions in an NS file: comment lines that begin with `# roost:` and hold, one after the other, TOML in
//! our own format. They carry values that NS cannot express (classes, cells, jitter, bursts, legs of any
//! value), so that an export to NS and back loses nothing.

use std::collections::BTreeMap;
use std::path::Path;

use ::toml::Spanned;
use serde::Deserialize;

use super::TopologyReader;
use super::fields::SourceText;
use super::hosts::HostFile;
use super::nets::{LegFile, Prefix, RouteFile};
use super::schedule::{EventFile, ProgramFile, TrafficFile};
use super::schedule_text;
use super::shape::LegOverrides;
use super::stanza::{Stanza, list, quote, table};
use super::{values, write};
use crate::model::{Action, Event, Host, Net, NetMember, Note, Topology};
use crate::validate::{self, TopologyLines, ValidationPolicy};

/// The prefix of an extension line.
const MARK: &str = "# roost:";

/// Sections that are given completely, or not at all.
const SECTIONS: [&str; 4] = ["route", "program", "traffic", "event"];

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ExtraFile {
    name: Option<String>,
    /// Pairs of names: NS's, then the original.
    names: Vec<(String, String)>,
    sync_server: Option<Spanned<String>>,
    replace: Vec<Replaced>,
    host: Vec<Spanned<HostFile>>,
    net: Vec<Spanned<NetFile>>,
    route: Vec<Spanned<RouteFile>>,
    program: Vec<Spanned<ProgramFile>>,
    traffic: Vec<Spanned<TrafficFile>>,
    event: Vec<Spanned<EventFile>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct NetFile {
    name: Option<Spanned<String>>,
    #[serde(deserialize_with = "values::cost")]
    cost: Option<f64>,
    prefix: Option<Prefix>,
    leg: Vec<Spanned<LegFile>>,
}

#[derive(Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Replaced {
    Route,
    Program,
    Traffic,
    Event,
}

/// Applies the extension lines of an NS file to the topology read from it.
///
/// Traces are relative to a folder.
///
/// # Errors
/// All mistakes in those lines.
pub fn apply(folder: &Path, topology: Topology, ns: &str) -> Result<Topology, Vec<Note>> {
    if !ns.lines().any(|line| line.starts_with(MARK)) {
        return Ok(topology);
    }
    // Every line keeps its number, so that a mistake is reported with it.
    let own = |line: &str| line.strip_prefix(MARK).unwrap_or("").trim_start().to_owned() + "\n";
    let text: String = ns.lines().map(own).collect();
    let source = SourceText::new(&text).within(folder);
    let Some(file) = source.read::<ExtraFile>("what is said to roost") else { return Err(source.problems()) };
    let mut topology = topology;
    rename(&mut topology, &file.names.iter().cloned().collect());
    let mut reader = TopologyReader::over(&source, topology);
    reader.lay_over(file);
    let topology = reader.topology;
    let problems = source.problems();
    if !problems.is_empty() {
        return Err(problems);
    }
    // The file itself was checked before, so any error now is from these lines.
    let errors = validate::check(&topology, &TopologyLines::default(), ValidationPolicy::Lenient).errors;
    if errors.is_empty() { Ok(topology) } else { Err(errors) }
}

/// Writes the extension lines that turn `read`, the topology without them, into `wanted`; `None` if the hosts
/// or nets themselves would differ. `names` are the pairs of changed names: NS's, then the original.
pub fn lines(read: &Topology, wanted: &Topology, names: &[(&str, &str)]) -> Option<String> {
    let mut read = read.clone();
    let named = names.iter().map(|(here, there)| ((*here).to_owned(), (*there).to_owned())).collect();
    rename(&mut read, &named);
    let read = &read;
    let mut head = Stanza::new("");
    if !names.is_empty() {
        let pair = |(here, there): &(&str, &str)| format!("[{}, {}]", quote(here), quote(there));
        head.raw("names", list(names.iter().map(pair)));
    }
    if read.name != wanted.name {
        head.text("name", &wanted.name);
    }
    if read.sync_server != wanted.sync_server {
        head.optional("sync_server", wanted.sync_server.map(|host| wanted.hosts[host].name.as_str()));
    }
    let routes = read.manual_routes != wanted.manual_routes;
    let (programs, traffic) = (read.programs != wanted.programs, read.traffic != wanted.traffic);
    // Events refer to programs and agents by index.
    let events = programs || traffic || without_lines(read) != without_lines(wanted);
    let differing = [routes, programs, traffic, events];
    let replaced = SECTIONS.iter().zip(differing).filter(|(_, differs)| *differs).map(|(section, _)| section);
    let replaced: Vec<String> = replaced.map(|section| quote(section)).collect();
    if !replaced.is_empty() {
        head.raw("replace", list(replaced.into_iter()));
    }
    let mut stanzas = vec![head];
    stanzas.extend(host_lines(&read.hosts, &wanted.hosts)?);
    stanzas.extend(net_lines(read, wanted)?);
    if routes {
        stanzas.extend(schedule_text::routes(wanted));
    }
    if programs {
        stanzas.extend(schedule_text::programs(wanted));
    }
    if traffic {
        stanzas.extend(schedule_text::traffic(wanted));
    }
    if events {
        stanzas.extend(schedule_text::events(wanted));
    }
    Some(marked(&stanzas))
}

/// Formats stanzas as lines that other programs take for comments.
fn marked(stanzas: &[Stanza]) -> String {
    let texts = stanzas.iter().filter(|stanza| !stanza.is_empty()).map(Stanza::to_string);
    let text = texts.collect::<Vec<_>>().join("\n");
    text.lines().map(|line| format!("{MARK} {line}").trim_end().to_owned() + "\n").collect()
}

/// Gives hosts and nets their original names.
fn rename(topology: &mut Topology, names: &BTreeMap<String, String>) {
    if names.is_empty() {
        return;
    }
    let object = |topology: &Topology, event: &Event| match &event.action {
        Action::Net { net, from, .. } => {
            let (net, from) = (&topology.nets[*net].name, from.map(|host| &topology.hosts[host].name));
            Some(from.map_or_else(|| net.clone(), |from| format!("{net}-{from}")))
        }
        _ => None,
    };
    let before: Vec<Option<String>> = topology.events.iter().map(|event| object(topology, event)).collect();
    let hosts = topology.hosts.iter_mut().map(|host| &mut host.name);
    for name in hosts.chain(topology.nets.iter_mut().map(|net| &mut net.name)) {
        if let Some(own) = names.get(name) {
            name.clone_from(own);
        }
    }
    let after: Vec<Option<String>> = topology.events.iter().map(|event| object(topology, event)).collect();
    for (event, (before, after)) in topology.events.iter_mut().zip(before.into_iter().zip(after)) {
        if let Some(after) = after.filter(|_| before.as_ref() == Some(&event.object)) {
            event.object = after;
        }
    }
}

fn without_lines(topology: &Topology) -> Vec<Event> {
    topology.events.iter().cloned().map(|event| Event { line: 0, ..event }).collect()
}

fn host_lines(read: &[Host], wanted: &[Host]) -> Option<Vec<Stanza>> {
    let same = |(read, wanted): (&Host, &Host)| {
        (&read.name, &read.os, &read.hardware) == (&wanted.name, &wanted.os, &wanted.hardware)
    };
    if read.len() != wanted.len() || !read.iter().zip(wanted).all(same) {
        return None;
    }
    let differing =
        read.iter().zip(wanted).filter(|(read, wanted)| (&read.class, read.cell) != (&wanted.class, wanted.cell));
    let bare = |host: &Host| Host { os: None, hardware: None, ..host.clone() };
    let differing: Vec<Host> = differing.map(|(_, wanted)| bare(wanted)).collect();
    Some(write::hosts(&differing))
}

fn net_lines(read: &Topology, wanted: &Topology) -> Option<Vec<Stanza>> {
    if read.nets.len() != wanted.nets.len() || read.routing != wanted.routing {
        return None;
    }
    let mut stanzas = Vec::new();
    for (read, net) in read.nets.iter().zip(&wanted.nets) {
        let hosts = |net: &Net| net.members.iter().map(|member| (member.host, member.address)).collect::<Vec<_>>();
        if (&read.name, read.kind, hosts(read)) != (&net.name, net.kind, hosts(net)) {
            return None;
        }
        let mut stanza = Stanza::new("[[net]]");
        if read.cost.to_bits() != net.cost.to_bits() {
            stanza.raw("cost", format!("{:?}", net.cost));
        }
        let prefix = |net: &Net| net.members.first().map(|member| member.prefix);
        let uniform = net.members.iter().all(|member| Some(member.prefix) == prefix(net));
        if let Some(own) = prefix(net).filter(|own| uniform && Some(*own) != prefix(read)) {
            stanza.raw("prefix", own.to_string());
        }
        let legs: Vec<String> = read
            .members
            .iter()
            .zip(&net.members)
            .filter_map(|(read, wanted_leg)| leg(wanted, read, wanted_leg, uniform))
            .collect();
        if !legs.is_empty() {
            stanza.raw("leg", format!("[\n    {},\n]", legs.join(",\n    ")));
        }
        if !stanza.is_empty() {
            stanza.first("name", quote(&net.name));
            stanzas.push(stanza);
        }
    }
    Some(stanzas)
}

fn leg(topology: &Topology, read: &NetMember, wanted: &NetMember, uniform: bool) -> Option<String> {
    let mut stanza = Stanza::new("");
    stanza.inner("up", &LegOverrides::between(&read.to_net, &wanted.to_net));
    stanza.inner("down", &LegOverrides::between(&read.from_net, &wanted.from_net));
    if read.prefix != wanted.prefix && !uniform {
        stanza.raw("prefix", wanted.prefix.to_string());
    }
    if stanza.is_empty() {
        return None;
    }
    stanza.first("host", quote(&topology.hosts[wanted.host].name));
    Some(table(&stanza))
}

impl<'t> TopologyReader<'t> {
    /// A reader that continues with a topology from another format.
    fn over(source: &'t SourceText<'t>, topology: Topology) -> Self {
        let index = |names: Vec<&String>| names.into_iter().cloned().zip(0..).collect();
        let mut reader = Self::new(source);
        reader.hosts = index(topology.hosts.iter().map(|host| &host.name).collect());
        reader.nets = index(topology.nets.iter().map(|net| &net.name).collect());
        reader.programs = index(topology.programs.iter().map(|program| &program.name).collect());
        reader.traffic = index(topology.traffic.iter().map(|agent| &agent.name).collect());
        reader.topology = topology;
        reader
    }

    fn lay_over(&mut self, file: ExtraFile) {
        if let Some(name) = file.name {
            self.topology.name = name;
        }
        let sync_server = file.sync_server.and_then(|name| self.host(&name));
        self.topology.sync_server = sync_server.or(self.topology.sync_server);
        self.clear(&file.replace);
        file.host.into_iter().for_each(|host| self.lay_over_hosts(host));
        file.net.into_iter().for_each(|net| self.lay_over_net(net));
        self.read_routes(file.route);
        self.read_programs(file.program);
        self.read_traffic(file.traffic);
        self.read_events(file.event);
    }

    /// Removes sections that the lines give completely.
    fn clear(&mut self, sections: &[Replaced]) {
        for section in sections {
            match section {
                Replaced::Route => self.topology.manual_routes.clear(),
                Replaced::Program => {
                    self.topology.programs.clear();
                    self.programs.clear();
                }
                Replaced::Traffic => {
                    self.topology.traffic.clear();
                    self.traffic.clear();
                }
                Replaced::Event => {}
            }
        }
        // Events refer to programs and agents by index, and Emulab's listing shows the old events.
        if sections.iter().any(|section| *section != Replaced::Route) {
            self.topology.events.clear();
            self.topology.emulab.events.clear();
        }
    }

    fn lay_over_hosts(&mut self, file: Spanned<HostFile>) {
        for (name, given) in self.hosts_of(file) {
            let Some(index) = self.host(&name) else { continue };
            let host = &mut self.topology.hosts[index];
            host.class = given.class.or_else(|| host.class.clone());
            host.cell = given.cell.or(host.cell);
        }
    }

    fn lay_over_net(&mut self, file: Spanned<NetFile>) {
        let at = file.span().start;
        let NetFile { name, cost, prefix, leg } = file.into_inner();
        let Some(name) = self.source.required(at, "a net", "name", name, "\"link0\"") else { return };
        let Some(index) = self.find(&self.nets, "link or LAN", &name) else { return };
        let Some(mut net) = self.topology.nets.get(index).cloned() else { return };
        if let Some(prefix) = prefix {
            net.members.iter_mut().for_each(|member| member.prefix = prefix.0);
        }
        self.read_legs(&leg, &mut net);
        net.cost = cost.unwrap_or(net.cost);
        self.topology.nets[index] = net;
    }
}
