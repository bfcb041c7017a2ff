//! A forest: nodes behind homes, behind middles, behind roots, which share one LAN.

use std::ops::Range;
use std::time::Duration;

use super::{GenerateError, LegParameters, in_range, lan, share, shifted};
use crate::model::{Host, HostIndex, Net, NetMember, Routing, Topology};
use crate::units::format_duration;

/// The tiers of super nodes in a forest: homes, middles, roots.
pub const FOREST_TIERS: usize = 3;

/// A forest: hosts `n1`…, `home1`…, `middle1`… and `root1`…; LANs `edge` behind each home, `district` behind
/// each middle, `region` behind each root, and `core` if there is more than one root. Downward legs have no
/// delay, so that a hop's delay is that of one leg.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forest {
    /// The number of nodes, without homes, middles and roots.
    pub nodes: usize,
    pub per_home: usize,
    pub per_middle: usize,
    /// The number of roots, unless there are fewer middles.
    pub roots: usize,
    /// The side, in cells, of the square in which the nodes of a home stand.
    pub area: usize,
    pub node: LegParameters,
    pub home: LegParameters,
    pub middle: LegParameters,
    pub root: LegParameters,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ForestCounts {
    nodes: usize,
    homes: usize,
    middles: usize,
    roots: usize,
}

impl ForestCounts {
    /// The first index of each kind of hosts: roots, middles, homes, nodes.
    const fn firsts(self) -> [HostIndex; 4] {
        [0, self.roots, self.roots + self.middles, self.roots + self.middles + self.homes]
    }
}

impl Forest {
    /// A hundred nodes behind each home, five homes behind each middle, four roots. Rates and delays are those
    /// of the published tree, without the satellite.
    pub const fn for_nodes(nodes: usize) -> Self {
        Self {
            nodes,
            per_home: 100,
            per_middle: 5,
            roots: 4,
            area: 16,
            node: LegParameters::new(1, 40),
            home: LegParameters::new(10, 40),
            middle: LegParameters::new(100, 20),
            root: LegParameters::new(1_000, 10),
        }
    }

    /// Makes the topology.
    ///
    /// # Errors
    /// Fails when there are too few or too many nodes, or too few cells for them.
    pub fn topology(&self) -> Result<Topology, GenerateError> {
        in_range("a forest", self.nodes, 2)?;
        for (what, number) in [("per_home", self.per_home), ("per_middle", self.per_middle), ("roots", self.roots)] {
            if number == 0 {
                return Err(GenerateError::None(what));
            }
        }
        let counts = self.counts();
        in_range("a forest with its homes, middles and roots", counts.firsts()[3] + self.nodes, 2)?;
        if self.per_home > self.area * self.area {
            return Err(GenerateError::Crowded { nodes: self.per_home, area: self.area });
        }
        Ok(Topology {
            name: format!("forest-{}", self.nodes),
            hosts: self.hosts(counts),
            nets: self.nets(counts),
            routing: Routing::Static,
            ..Topology::default()
        })
    }

    fn counts(&self) -> ForestCounts {
        let homes = self.nodes.div_ceil(self.per_home);
        let middles = homes.div_ceil(self.per_middle);
        ForestCounts { nodes: self.nodes, homes, middles, roots: self.roots.min(middles) }
    }

    fn hosts(&self, counts: ForestCounts) -> Vec<Host> {
        let named = |name: &'static str, class: &'static str, count: usize| {
            let class = Some(class.to_owned());
            (1..=count).map(move |number| Host {
                name: format!("{name}{number}"),
                class: class.clone(),
                ..Host::default()
            })
        };
        let upper = named("root", "root", counts.roots).chain(named("middle", "middle", counts.middles));
        let mut hosts: Vec<Host> = upper.chain(named("home", "home", counts.homes)).collect();
        // Homes stand in a square.
        let row = (1..).find(|row| row * row >= counts.homes).unwrap_or(1);
        let mut nodes = named("n", "node", counts.nodes);
        for home in 0..counts.homes {
            let behind = share(counts.nodes, counts.homes, home).len();
            let corner = (home % row * self.area, home / row * self.area);
            for (place, host) in nodes.by_ref().take(behind).enumerate() {
                let spot = place * self.area * self.area / behind;
                // Fits i32: there are not that many hosts.
                let cell = ((corner.0 + spot % self.area) as i32, (corner.1 + spot / self.area) as i32);
                hosts.push(Host { cell: Some(cell), ..host });
            }
        }
        hosts
    }

    /// Makes the nets branch by branch, so that adjacent subnets merge into few routes.
    fn nets(&self, counts: ForestCounts) -> Vec<Net> {
        let [roots, middles, homes, nodes] = counts.firsts();
        let below = |leg: LegParameters, host: HostIndex| LegParameters { delay: Duration::ZERO, ..leg }.member(host);
        let behind = |gateway: NetMember, hosts: Range<HostIndex>, leg: LegParameters| {
            std::iter::once(gateway).chain(hosts.map(|host| leg.member(host))).collect::<Vec<_>>()
        };
        let core = || lan("core".to_owned(), (0..counts.roots).map(|root| self.root.member(roots + root)).collect());
        let mut nets: Vec<Net> = (counts.roots > 1).then(core).into_iter().collect();
        for root in 0..counts.roots {
            let region = share(counts.middles, counts.roots, root);
            let members = behind(below(self.root, roots + root), shifted(region.clone(), middles), self.middle);
            nets.push(lan(format!("region{}", root + 1), members));
            for middle in region {
                let district = share(counts.homes, counts.middles, middle);
                let members = behind(below(self.middle, middles + middle), shifted(district.clone(), homes), self.home);
                nets.push(lan(format!("district{}", middle + 1), members));
                for home in district {
                    let edge = shifted(share(counts.nodes, counts.homes, home), nodes);
                    nets.push(lan(
                        format!("edge{}", home + 1),
                        behind(below(self.home, homes + home), edge, self.node),
                    ));
                }
            }
        }
        nets
    }

    pub fn comment(&self) -> String {
        let ForestCounts { nodes, homes, middles, roots } = self.counts();
        let leg = |leg: LegParameters| format!("{}/s, {}", leg.rate, format_duration(leg.delay));
        format!(
            "A forest: {nodes} nodes behind {homes} homes behind {middles} middles behind {roots} roots.\n\
             Upward legs: node {}; home {}; middle {}; root {}.\n\
             Made by: emulate topo forest --nodes {nodes} --per-home {} --per-middle {} --roots {} --area {}",
            leg(self.node),
            leg(self.home),
            leg(self.middle),
            leg(self.root),
            self.per_home,
            self.per_middle,
            self.roots,
            self.area,
        )
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::file;
    use crate::validate::{self, TopologyLines, ValidationPolicy};

    #[test]
    fn forest_has_home_per_hundred_nodes() {
        let topology = Forest::for_nodes(1_000).topology().unwrap();
        let count = |class: &str| topology.hosts.iter().filter(|host| host.class.as_deref() == Some(class)).count();
        assert_eq!(["node", "home", "middle", "root"].map(count), [1_000, 10, 2, 2]);
        assert_eq!(topology.nets.len(), 1 + 2 + 2 + 10);
        assert_eq!(
            validate::check(&topology, &TopologyLines::default(), ValidationPolicy::Strict),
            validate::Findings::default()
        );
        assert_eq!(file::parse("x", &file::write(&topology, &Forest::for_nodes(1_000).comment())), Ok(topology));
    }

    #[test]
    fn nobody_stands_where_another_one_does() {
        let topology = Forest::for_nodes(2_345).topology().unwrap();
        let cells: BTreeSet<_> = topology.hosts.iter().filter_map(|host| host.cell).collect();
        assert_eq!(cells.len(), 2_345);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let wrong = |forest: Forest| forest.topology().unwrap_err().to_string();
        assert!(wrong(Forest::for_nodes(131_000)).contains("131071"));
        assert_eq!(
            wrong(Forest { roots: 0, ..Forest::for_nodes(10) }),
            "a forest cannot have 0 for `roots`: at least 1"
        );
        let crowded = wrong(Forest { area: 9, ..Forest::for_nodes(100) });
        assert_eq!(crowded, "100 nodes of a home do not fit on 9 × 9 cells: give them a larger area");
    }
}
