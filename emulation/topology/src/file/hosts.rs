//! `[[host]]`: one host, or many alike.

use ::toml::Spanned;
use serde::Deserialize;

use super::TopologyReader;
use super::values::{Pair, Words};
use crate::model::{Host, MAX_HOSTS};

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct HostFile {
    name: Option<Words>,
    class: Option<String>,
    cell: Option<Pair>,
    step: Option<Pair>,
    os: Option<String>,
    hardware: Option<String>,
}

impl TopologyReader<'_> {
    pub(super) fn read_hosts(&mut self, files: Vec<Spanned<HostFile>>) {
        for file in files {
            for (name, host) in self.hosts_of(file) {
                if self.topology.hosts.len() == MAX_HOSTS {
                    return self.source.refuse(name.span().start, format!("a topology has at most {MAX_HOSTS} hosts"));
                }
                self.hosts.insert(host.name.clone(), self.topology.hosts.len());
                self.topology.hosts.push(host);
                self.lines.hosts.push(self.source.line(name.span().start));
            }
        }
    }

    pub(super) fn hosts_of(&self, file: Spanned<HostFile>) -> Vec<(Spanned<String>, Host)> {
        let at = file.span().start;
        let HostFile { name, class, cell, step, os, hardware } = file.into_inner();
        let words = self.source.required(at, "a host", "name", name, "\"a\", or \"low[1-8]\" for eight");
        let names = words.and_then(|words| self.names(&words.0)).unwrap_or_default();
        if step.is_some() && cell.is_none() {
            let message =
                "`step` says how far each host of a range stands from the one before: give the first one's `cell`";
            self.source.miss(at, "cell", message);
        }
        let like = Host { class, os, hardware, ..Host::default() };
        let step = step.unwrap_or(Pair(0, 0));
        let along = |first: i32, step: i32, index: i32| first.saturating_add(step.saturating_mul(index));
        let host = |(name, index): (Spanned<String>, i32)| {
            let cell = cell.map(|first| (along(first.0, step.0, index), along(first.1, step.1, index)));
            let host = Host { name: name.get_ref().clone(), cell, ..like.clone() };
            (name, host)
        };
        names.into_iter().zip(0..).map(host).collect()
    }
}
