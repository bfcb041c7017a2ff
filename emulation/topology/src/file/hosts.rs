//! `[[host]]`: one host, or many alike.

use super::TopologyReader;
use super::fields::{Fields, Located};
use crate::model::{Host, MAX_HOSTS};

pub(super) const KEYS: [&str; 6] = ["name", "class", "cell", "step", "os", "hardware"];

impl TopologyReader<'_> {
    pub(super) fn read_hosts(&mut self, root: &Fields<'_>) {
        for item in root.tables("host") {
            if let Some(fields) = Fields::from_value(root.source(), "a host", item, &KEYS) {
                self.read_host(&fields);
            }
        }
    }

    fn read_host(&mut self, fields: &Fields<'_>) {
        for (name, host) in self.hosts_of(fields) {
            if !self.add_host(host, &name) {
                break;
            }
        }
    }

    pub(super) fn hosts_of(&self, fields: &Fields<'_>) -> Vec<(Located<String>, Host)> {
        let words = fields.texts("name");
        let words = fields.required("name", words, "\"a\", or \"low[1-8]\" for eight");
        let names = words.and_then(|words| self.names(words)).unwrap_or_default();
        let (cell, step) = (fields.pair("cell"), fields.pair("step"));
        if step.is_some() && cell.is_none() {
            let message =
                "`step` says how far each host of a range stands from the one before: give the first one's `cell`";
            fields.miss(message);
        }
        let like = Host {
            class: fields.string("class"),
            os: fields.string("os"),
            hardware: fields.string("hardware"),
            ..Host::default()
        };
        let step = step.unwrap_or_default();
        let along = |first: i32, step: i32, index: i32| first.saturating_add(step.saturating_mul(index));
        let stepped = |first: (i32, i32), index| (along(first.0, step.0, index), along(first.1, step.1, index));
        let host = |(name, index): (Located<String>, i32)| {
            let cell = cell.map(|first| stepped(first, index));
            let host = Host { name: name.value.clone(), cell, ..like.clone() };
            (name, host)
        };
        names.into_iter().zip(0..).map(host).collect()
    }

    /// Adds a host; false if there is room for no more.
    fn add_host(&mut self, host: Host, name: &Located<String>) -> bool {
        if self.topology.hosts.len() == MAX_HOSTS {
            self.source.refuse(name.at, format!("a topology has at most {MAX_HOSTS} hosts"));
            return false;
        }
        self.hosts.insert(host.name.clone(), self.topology.hosts.len());
        self.topology.hosts.push(host);
        self.lines.hosts.push(self.source.line(name.at));
        true
    }
}
