//! Our own format: TOML, described in the reference page on topologies.
//!
//! Values of a link or LAN are end to end and are split over its legs as Emulab does; values of a single leg
//! are used unchanged.

pub mod extras;
pub mod fields;
mod hosts;
mod names;
mod nets;
mod schedule;
mod schedule_text;
mod shape;
mod stanza;
mod write;

use std::collections::BTreeMap;

use ::toml::de::DeTable;

use self::fields::{Fields, Located, SourceText};
use self::shape::LegOverrides;
use super::model::{HostIndex, NetIndex, Note, Routing, Topology};
use super::suggest::did_you_mean;
use super::validate::{self, TopologyLines, ValidationPolicy};

pub(super) use self::names::compress;

pub use self::write::{most_common, whole_of, write};

const KEYS: [&str; 12] = [
    "name",
    "routing",
    "lenient",
    "sync_server",
    "defaults",
    "host",
    "link",
    "lan",
    "route",
    "program",
    "traffic",
    "event",
];

/// Reads a topology; `name` is the default name.
///
/// # Errors
/// All mistakes, by line.
pub fn parse(name: &str, text: &str) -> Result<Topology, Vec<Note>> {
    let source = SourceText::new(text);
    let root = match DeTable::parse(text) {
        Ok(root) => root,
        Err(error) => {
            source.refuse(error.span().map_or(0, |span| span.start), error.message().trim_end().replace('\n', ", "));
            return Err(source.into_problems());
        }
    };
    let fields = Fields::new(&source, "a topology", root.get_ref(), 0, &KEYS);
    let mut reader = TopologyReader::new(&source, &fields, name);
    reader.read_hosts(&fields);
    reader.read_nets(&fields);
    reader.topology.sync_server = reader.one_host(&fields, "sync_server");
    reader.read_routes(&fields);
    reader.read_programs(&fields);
    reader.read_traffic(&fields);
    reader.read_events(&fields);
    let (mut topology, lines) = (reader.topology, reader.lines);
    let policy =
        if fields.flag("lenient") == Some(true) { ValidationPolicy::Lenient } else { ValidationPolicy::Strict };
    if source.problems() > 0 {
        return Err(source.into_problems());
    }
    let findings = validate::check(&topology, &lines, policy);
    if !findings.errors.is_empty() {
        return Err(findings.errors);
    }
    topology.notes.warnings.extend(findings.warnings);
    Ok(topology)
}

struct TopologyReader<'t> {
    source: &'t SourceText,
    topology: Topology,
    lines: TopologyLines,
    defaults: LegOverrides,
    /// Index of each name: of hosts, nets, programs, traffic agents.
    hosts: BTreeMap<String, HostIndex>,
    nets: BTreeMap<String, NetIndex>,
    programs: BTreeMap<String, usize>,
    traffic: BTreeMap<String, usize>,
}

impl<'t> TopologyReader<'t> {
    fn new(source: &'t SourceText, fields: &Fields<'t>, name: &str) -> Self {
        let defaults =
            fields.value("defaults").and_then(|value| Fields::from_value(source, "defaults", value, &shape::KEYS));
        let routing = |text: &str| match text {
            "static" => Ok(Routing::Static),
            "session" => Ok(Routing::Session),
            "manual" => Ok(Routing::Manual),
            "none" => Ok(Routing::None),
            other => Err(format!("`{other}` is not one of static, session, manual, none")),
        };
        let mut reader = Self::empty(source);
        reader.topology.name = fields.string("name").unwrap_or_else(|| name.to_owned());
        reader.topology.routing = fields.parsed("routing", routing).unwrap_or(Routing::Static);
        reader.lines.routing = source.line(fields.value("routing").map_or(0, |value| value.span().start));
        reader.defaults = defaults.map(|fields| LegOverrides::read(&fields)).unwrap_or_default();
        reader
    }

    fn empty(source: &'t SourceText) -> Self {
        Self {
            source,
            topology: Topology::default(),
            lines: TopologyLines::default(),
            defaults: LegOverrides::default(),
            hosts: BTreeMap::new(),
            nets: BTreeMap::new(),
            programs: BTreeMap::new(),
            traffic: BTreeMap::new(),
        }
    }

    /// Expands the words of a key into names.
    fn names(&self, words: Vec<Located<&str>>) -> Option<Vec<Located<String>>> {
        let mut names = Vec::new();
        for word in words {
            match names::expand(word.value) {
                Ok(expanded) => names.extend(expanded.into_iter().map(|value| Located { value, at: word.at })),
                Err(error) => {
                    self.source.refuse(word.at, error);
                    return None;
                }
            }
        }
        Some(names)
    }

    /// The host of a name; reports a name that is unknown.
    fn host(&self, name: &Located<String>) -> Option<HostIndex> {
        self.find(&self.hosts, "host", name)
    }

    /// Expands the words of a key into hosts.
    fn host_list(&self, words: Vec<Located<&str>>) -> Option<Vec<Located<HostIndex>>> {
        let names = self.names(words)?;
        names.iter().map(|name| Some(Located { value: self.host(name)?, at: name.at })).collect()
    }

    fn one_host(&self, fields: &Fields<'_>, key: &str) -> Option<HostIndex> {
        let text = fields.text(key)?;
        self.host(&Located { value: text.value.to_owned(), at: text.at })
    }

    fn find(&self, known: &BTreeMap<String, usize>, what: &str, name: &Located<String>) -> Option<usize> {
        let found = known.get(&name.value).copied();
        if found.is_none() {
            let hint = did_you_mean(&name.value, known.keys().map(String::as_str));
            self.source.refuse(name.at, format!("there is no {what} `{}`{hint}", name.value));
        }
        found
    }
}

#[cfg(test)]
mod tests;
