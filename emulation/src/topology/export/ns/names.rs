//! Names that NS has.

use std::collections::BTreeSet;

use crate::topology::model::Topology;

/// The longest name in an NS file.
const MAX_NAME: usize = 60;

/// What hosts and nets are called in the file: NS has only letters, digits and hyphens.
pub(super) struct NsNames {
    pub(super) hosts: Vec<String>,
    pub(super) nets: Vec<String>,
    pub(super) taken: BTreeSet<String>,
}

impl NsNames {
    /// Names that are as like the topology's own as may be, with `before` before each.
    pub(super) fn from_topology(topology: &Topology, before: &str) -> Self {
        let others = topology.programs.iter().map(|program| program.name.clone());
        let mut names = Self { hosts: Vec::new(), nets: Vec::new(), taken: others.collect() };
        names.hosts = topology.hosts.iter().map(|host| names.free(before, &host.name)).collect();
        names.nets = topology.nets.iter().map(|net| names.free(before, &net.name)).collect();
        names
    }

    /// A name like this one that nothing else has yet.
    fn free(&mut self, before: &str, name: &str) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
        let own: String = before.chars().chain(name.chars().map(plain)).take(MAX_NAME).collect();
        let numbered = (2..).map(|number| format!("{own}-{number}"));
        let free = std::iter::once(own.clone()).chain(numbered).find(|name| !self.taken.contains(name));
        let free = free.unwrap_or(own);
        self.taken.insert(free.clone());
        free
    }

    /// Those that are not the topology's own, with those that are.
    pub(super) fn pairs<'a>(&'a self, topology: &'a Topology) -> Vec<(&'a str, &'a str)> {
        let hosts = self.hosts.iter().zip(topology.hosts.iter().map(|host| &host.name));
        let nets = self.nets.iter().zip(topology.nets.iter().map(|net| &net.name));
        let differing = hosts.chain(nets).filter(|(here, there)| here != there);
        differing.map(|(here, there)| (here.as_str(), there.as_str())).collect()
    }
}
