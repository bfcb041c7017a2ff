//! Names of hosts and nets that NS accepts.

use std::collections::BTreeSet;

use roost_topology::model::Topology;

/// The longest name in an NS file.
const MAX_NAME: usize = 60;

/// The names of hosts and nets in the file: NS has only letters, digits and hyphens.
pub(super) struct NsNames {
    pub(super) hosts: Vec<String>,
    pub(super) nets: Vec<String>,
    pub(super) taken: BTreeSet<String>,
}

impl NsNames {
    /// Makes names that are as close to the topology's own as possible, with `before` in front of each.
    pub(super) fn from_topology(topology: &Topology, before: &str) -> Self {
        let others = topology.programs.iter().map(|program| program.name.clone());
        let mut names = Self { hosts: Vec::new(), nets: Vec::new(), taken: others.collect() };
        names.hosts = topology.hosts.iter().map(|host| names.free(before, &host.name)).collect();
        names.nets = topology.nets.iter().map(|net| names.free(before, &net.name)).collect();
        names
    }

    /// A similar name that is still free.
    fn free(&mut self, before: &str, name: &str) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
        let own: String = before.chars().chain(name.chars().map(plain)).take(MAX_NAME).collect();
        let numbered = (2..).map(|number| format!("{own}-{number}"));
        let free = std::iter::once(own.clone()).chain(numbered).find(|name| !self.taken.contains(name));
        let free = free.unwrap_or(own);
        self.taken.insert(free.clone());
        free
    }

    /// The names that were changed, each with the original.
    pub(super) fn pairs<'a>(&'a self, topology: &'a Topology) -> Vec<(&'a str, &'a str)> {
        let hosts = self.hosts.iter().zip(topology.hosts.iter().map(|host| &host.name));
        let nets = self.nets.iter().zip(topology.nets.iter().map(|net| &net.name));
        let differing = hosts.chain(nets).filter(|(here, there)| here != there);
        differing.map(|(here, there)| (here.as_str(), there.as_str())).collect()
    }
}
