//! Our own format: TOML, described in the reference page on topologies.
//!
//! Values of a link or LAN are end to end and are split over its legs as Emulab does; values of a single leg
//! are used unchanged.

pub mod changes;
pub mod extras;
pub mod fields;
mod hosts;
mod motion;
mod motion_text;
mod names;
mod nets;
mod quantity;
mod radio;
mod radio_changes;
mod radio_stations;
mod radio_text;
mod schedule;
mod schedule_text;
mod shape;
mod stanza;
mod trace;
mod values;
mod write;

use std::collections::BTreeMap;
use std::path::Path;

use ::toml::Spanned;
use serde::Deserialize;

use self::fields::SourceText;
use self::hosts::HostFile;
use self::motion::MotionTable;
use self::nets::{LanFile, LinkFile, RouteFile};
use self::radio::RadioFile;
use self::schedule::{EventFile, ProgramFile, TrafficFile};
use self::shape::{LegOverrides, Shape};
use super::model::{HostIndex, NetIndex, Note, Routing, Topology};
use super::suggest::did_you_mean;
use super::validate::{self, TopologyLines, ValidationPolicy};

pub(super) use self::names::compress;

pub use self::names::expand as expand_names;
pub use self::shape::{BurstFile, QueueFile, burst, order, queue};
pub use self::stanza::{burst_value, queue_value, quote};
pub use self::trace::{TraceFile, TraceKey};
pub use self::values::Switch;
pub use self::write::{most_common, whole_of, write};

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct TopologyFile {
    name: Option<String>,
    routing: Option<Spanned<Routing>>,
    lenient: bool,
    sync_server: Option<Spanned<String>>,
    defaults: Shape,
    host: Vec<Spanned<HostFile>>,
    link: Vec<Spanned<LinkFile>>,
    lan: Vec<Spanned<LanFile>>,
    radio: Vec<Spanned<RadioFile>>,
    motion: MotionTable,
    route: Vec<Spanned<RouteFile>>,
    program: Vec<Spanned<ProgramFile>>,
    traffic: Vec<Spanned<TrafficFile>>,
    event: Vec<Spanned<EventFile>>,
}

/// Reads a topology; `name` is the default name. The paths of its traces are relative to the working folder.
///
/// # Errors
/// All mistakes, by line.
pub fn parse(name: &str, text: &str) -> Result<Topology, Vec<Note>> {
    parse_in(Path::new(""), name, text)
}

/// Reads a topology whose traces are relative to a folder.
///
/// # Errors
/// All mistakes, by line.
pub fn parse_in(folder: &Path, name: &str, text: &str) -> Result<Topology, Vec<Note>> {
    let source = SourceText::new(text).within(folder);
    let Some(file) = source.read::<TopologyFile>("a topology") else { return Err(source.problems()) };
    let policy = if file.lenient { ValidationPolicy::Lenient } else { ValidationPolicy::Strict };
    let mut reader = TopologyReader::new(&source);
    reader.read(file, name);
    let (mut topology, lines) = (reader.topology, reader.lines);
    let problems = source.problems();
    if !problems.is_empty() {
        return Err(problems);
    }
    let findings = validate::check(&topology, &lines, policy);
    if !findings.errors.is_empty() {
        return Err(findings.errors);
    }
    topology.notes.warnings.extend(findings.warnings);
    Ok(topology)
}

struct TopologyReader<'t> {
    source: &'t SourceText<'t>,
    topology: Topology,
    lines: TopologyLines,
    defaults: LegOverrides,
    /// Index of each name: of hosts, nets, programs, traffic agents.
    hosts: BTreeMap<String, HostIndex>,
    nets: BTreeMap<String, NetIndex>,
    programs: BTreeMap<String, usize>,
    traffic: BTreeMap<String, usize>,
    /// The line that gives each host its place.
    moving: BTreeMap<HostIndex, u32>,
}

impl<'t> TopologyReader<'t> {
    fn new(source: &'t SourceText<'t>) -> Self {
        Self {
            source,
            topology: Topology::default(),
            lines: TopologyLines::default(),
            defaults: LegOverrides::default(),
            hosts: BTreeMap::new(),
            nets: BTreeMap::new(),
            programs: BTreeMap::new(),
            traffic: BTreeMap::new(),
            moving: BTreeMap::new(),
        }
    }

    fn read(&mut self, file: TopologyFile, name: &str) {
        self.topology.name = file.name.unwrap_or_else(|| name.to_owned());
        self.topology.routing = file.routing.as_ref().map_or(Routing::Static, |routing| *routing.get_ref());
        self.lines.routing = self.source.line(file.routing.map_or(0, |routing| routing.span().start));
        self.defaults = file.defaults.shape(self.source);
        self.read_hosts(file.host);
        self.read_nets(file.link, file.lan);
        self.read_motion(file.motion);
        self.read_radios(file.radio);
        self.topology.sync_server = file.sync_server.and_then(|name| self.host(&name));
        self.read_routes(file.route);
        self.read_programs(file.program);
        self.read_traffic(file.traffic);
        self.read_events(file.event);
    }

    /// Expands the words of a key into names.
    fn names(&self, words: &[Spanned<String>]) -> Option<Vec<Spanned<String>>> {
        let mut names = Vec::new();
        for word in words {
            match names::expand(word.get_ref()) {
                Ok(expanded) => names.extend(expanded.into_iter().map(|name| Spanned::new(word.span(), name))),
                Err(error) => {
                    self.source.refuse(word.span().start, error);
                    return None;
                }
            }
        }
        Some(names)
    }

    /// The host of a name; reports a name that is unknown.
    fn host(&self, name: &Spanned<String>) -> Option<HostIndex> {
        self.find(&self.hosts, "host", name)
    }

    /// Expands the words of a key into hosts.
    fn host_list(&self, words: &[Spanned<String>]) -> Option<Vec<Spanned<HostIndex>>> {
        let names = self.names(words)?;
        names.iter().map(|name| Some(Spanned::new(name.span(), self.host(name)?))).collect()
    }

    fn find(&self, known: &BTreeMap<String, usize>, what: &str, name: &Spanned<String>) -> Option<usize> {
        let found = known.get(name.get_ref()).copied();
        if found.is_none() {
            let hint = did_you_mean(name.get_ref(), known.keys().map(String::as_str));
            self.source.refuse(name.span().start, format!("there is no {what} `{}`{hint}", name.get_ref()));
        }
        found
    }
}

#[cfg(test)]
mod motion_tests;
#[cfg(test)]
mod tests;
