//! The hierarchy: LANs of low-flying nodes behind tactical UAVs behind X-45s.

use super::{GenerateError, LegParameters, in_range, lan, share, shifted};
use crate::model::{Host, HostIndex, Net, NetMember, Routing, Topology};
use crate::units::format_duration;

/// The number of hosts of each class, without the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeShape {
    /// High-flying nodes, on one LAN with the server.
    pub x45: usize,
    /// Tactical UAVs, each on the LAN of the X-45 above it.
    pub tactical: usize,
    /// Low-flying nodes, each on the LAN of the tactical UAV above it.
    pub low: usize,
}

/// A tree: hosts `x45-1`…, `tactical1`…, `low1`… and `server`; LANs `high`, a
/// `mid` behind each X-45, an `edge` behind each tactical UAV.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tree {
    pub shape: TreeShape,
    pub low: LegParameters,
    /// Every leg of a tactical UAV: on its X-45's LAN and on its own.
    pub tactical: LegParameters,
    /// Every leg of an X-45: on the LAN of the X-45s and on its own.
    pub x45: LegParameters,
    /// The server's leg on the LAN of the X-45s.
    pub server: LegParameters,
}

impl TreeShape {
    /// The inferred shape for a number of nodes.
    ///
    /// The published text gives the numbers of nodes and of machines. Each machine that was no node shaped two
    /// legs: 15 or 16 legs for 11 nodes, 109 or 110 for 92. A leg for every node and one more for every node
    /// that routes leaves 4 or 5 routers of 11 and 17 or 18 of 92. The text also says that 54, 75 and 92 share
    /// a structure and grow at the edges. So: 2 X-45s and 3 tactical UAVs for 11 (5 routers), 2 and 6 for about
    /// 31, and 3 and 15 from 45 nodes on (18 routers), the rest low-flying.
    pub const fn inferred(nodes: usize) -> Self {
        let (x45, tactical) = match nodes {
            0..=7 => (1, if nodes < 7 { 1 } else { 2 }),
            8..=19 => (2, 3),
            20..=44 => (2, 6),
            _ => (3, 15),
        };
        Self { x45, tactical, low: nodes.saturating_sub(x45 + tactical) }
    }

    /// The shape with some classes given; the rest are low-flying nodes.
    ///
    /// # Errors
    /// Fails when the given classes do not sum up to the number of nodes.
    pub fn from_classes(
        nodes: Option<usize>,
        x45: Option<usize>,
        tactical: Option<usize>,
        low: Option<usize>,
    ) -> Result<Self, GenerateError> {
        let inferred =
            Self::inferred(nodes.unwrap_or_else(|| low.unwrap_or(0) + x45.unwrap_or(0) + tactical.unwrap_or(0)));
        let (x45, tactical) = (x45.unwrap_or(inferred.x45), tactical.unwrap_or(inferred.tactical));
        let upper = x45.saturating_add(tactical);
        let low = low.unwrap_or_else(|| nodes.unwrap_or(0).saturating_sub(upper));
        match nodes {
            Some(nodes) if upper.saturating_add(low) != nodes => Err(GenerateError::Sum { nodes, x45, tactical, low }),
            _ => Ok(Self { x45, tactical, low }),
        }
    }

    pub const fn nodes(self) -> usize {
        self.x45 + self.tactical + self.low
    }

    fn check(self) -> Result<(), GenerateError> {
        in_range("a tree", self.nodes(), 3)?;
        let levels = [("X-45s", self.x45), ("tactical UAVs", self.tactical), ("low-flying nodes", self.low)];
        for pair in levels.windows(2) {
            let [(upper_class, upper), (lower_class, lower)] = *pair else { continue };
            if upper == 0 || lower < upper {
                return Err(GenerateError::Level { upper_class, upper, lower_class, lower });
            }
        }
        Ok(())
    }
}

impl Tree {
    /// The hierarchy of the published experiments: 1 Mbit/s and 40 ms for
    /// low-flying nodes, 10 Mbit/s and 40 ms for tactical UAVs, 100 Mbit/s and
    /// 20 ms for X-45s, 600 ms to the server.
    pub const fn published(shape: TreeShape) -> Self {
        Self {
            shape,
            low: LegParameters::new(1, 40),
            tactical: LegParameters::new(10, 40),
            x45: LegParameters::new(100, 20),
            server: LegParameters::new(100, 600),
        }
    }

    /// Makes the topology.
    ///
    /// # Errors
    /// Fails when a class is empty or larger than the one below it, or there are too many.
    pub fn topology(&self) -> Result<Topology, GenerateError> {
        self.shape.check()?;
        let nodes = self.shape.nodes();
        Ok(Topology {
            name: format!("tree-{nodes}"),
            hosts: self.hosts(),
            nets: self.nets(),
            routing: Routing::Static,
            ..Topology::default()
        })
    }

    /// X-45s stand in the grid's first row, tactical UAVs in the second, and
    /// the nodes of each edge in the column below their tactical UAV.
    fn hosts(&self) -> Vec<Host> {
        let TreeShape { x45, tactical, low } = self.shape;
        let host = |name: String, class: &str, column: usize, row: usize| Host {
            name,
            class: Some(class.to_owned()),
            // Fits i32: there are not that many hosts.
            cell: Some((column as i32, row as i32)),
            ..Host::default()
        };
        let mut hosts = Vec::with_capacity(self.shape.nodes() + 1);
        let columns = (0..x45).map(|index| share(tactical, x45, index).start);
        hosts.extend(columns.zip(1..).map(|(column, number)| host(format!("x45-{number}"), "x45", column, 0)));
        hosts.extend((0..tactical).map(|column| host(format!("tactical{}", column + 1), "tactical", column, 1)));
        for column in 0..tactical {
            let edge = share(low, tactical, column);
            hosts.extend(edge.zip(2..).map(|(index, row)| host(format!("low{}", index + 1), "low", column, row)));
        }
        hosts.push(host("server".to_owned(), "server", tactical, 0));
        hosts
    }

    fn nets(&self) -> Vec<Net> {
        let TreeShape { x45, tactical, low } = self.shape;
        let (first_tactical, first_low, server) = (x45, x45 + tactical, x45 + tactical + low);
        let high = (0..x45).map(|host| self.x45.member(host)).chain([self.server.member(server)]);
        let mut nets = vec![lan("high".to_owned(), high.collect())];
        let behind = |gateway: NetMember, hosts: std::ops::Range<HostIndex>, legs: LegParameters| {
            std::iter::once(gateway).chain(hosts.map(|host| legs.member(host))).collect()
        };
        for index in 0..x45 {
            let group = shifted(share(tactical, x45, index), first_tactical);
            nets.push(lan(format!("mid{}", index + 1), behind(self.x45.member(index), group, self.tactical)));
        }
        for index in 0..tactical {
            let group = shifted(share(low, tactical, index), first_low);
            let gateway = self.tactical.member(first_tactical + index);
            nets.push(lan(format!("edge{}", index + 1), behind(gateway, group, self.low)));
        }
        nets
    }

    pub fn comment(&self) -> String {
        let TreeShape { x45, tactical, low } = self.shape;
        let legs = |legs: LegParameters| format!("{}/s, {}", legs.rate, format_duration(legs.delay));
        format!(
            "A hierarchy of {} nodes and a server: {x45} X-45s ({}), {tactical} tactical UAVs ({})\n\
             and {low} low-flying nodes ({}), each class in LANs behind the one above it; the server\n\
             ({}) is on the LAN of the X-45s. These are the rates and one-way delays of single legs;\n\
             a LAN's own delay, below, is from host to host: twice a leg's.\n\
             \n\
             How many of each class there are, and who is behind whom, is inferred: the published text\n\
             gives only the nodes of all classes and the machines that it took. See the reference page\n\
             on topologies.\n\
             Made by: emulate topo tree --x45 {x45} --tactical {tactical} --low {low}{}",
            self.shape.nodes(),
            legs(self.x45),
            legs(self.tactical),
            legs(self.low),
            legs(self.server),
            self.changed(),
        )
    }

    /// The flags of the values that differ from the published ones.
    fn changed(&self) -> String {
        let published = Self::published(self.shape);
        let classes = [
            ("x45", self.x45, published.x45),
            ("tactical", self.tactical, published.tactical),
            ("low", self.low, published.low),
            ("server", self.server, published.server),
        ];
        let mut flags = String::new();
        for (class, own, usual) in classes {
            if own.rate != usual.rate {
                flags += &format!(" --{class}-rate {}", own.rate);
            }
            if own.delay != usual.delay {
                flags += &format!(" --{class}-delay {}", format_duration(own.delay));
            }
        }
        flags
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::file;
    use crate::model::NetKind;
    use crate::validate::{self, TopologyLines, ValidationPolicy};

    fn tree(nodes: usize) -> Topology {
        Tree::published(TreeShape::inferred(nodes)).topology().unwrap()
    }

    /// The number of legs without the server's.
    fn legs(topology: &Topology) -> usize {
        topology.nets.iter().map(|net| net.members.len()).sum::<usize>() - 1
    }

    fn routers(topology: &Topology) -> usize {
        topology.interfaces().iter().filter(|interfaces| interfaces.len() > 1).count()
    }

    #[test]
    fn leg_count_matches_published_machines() {
        // 19 machines for 11 nodes, 147 for 92; each machine that was no node shaped two legs.
        assert_eq!((legs(&tree(11)).div_ceil(2) + 11, routers(&tree(11))), (19, 5));
        assert_eq!((legs(&tree(92)).div_ceil(2) + 92, routers(&tree(92))), (147, 18));
    }

    #[test]
    fn large_trees_differ_at_edges() {
        let inner = |nodes: usize| {
            let shape = TreeShape::inferred(nodes);
            (shape.x45, shape.tactical)
        };
        assert_eq!((inner(54), inner(75)), (inner(92), inner(92)));
    }

    #[test]
    fn any_node_count_makes_valid_tree() {
        for nodes in (3..100).chain([500, 4095]) {
            let topology = tree(nodes);
            assert_eq!(topology.hosts.len(), nodes + 1);
            let cells: BTreeSet<_> = topology.hosts.iter().map(|host| host.cell.unwrap()).collect();
            assert_eq!(cells.len(), nodes + 1, "every host has its own cell");
            assert!(topology.nets.iter().all(|net| net.kind == NetKind::Lan && net.members.len() > 1));
            let findings = validate::check(&topology, &TopologyLines::default(), ValidationPolicy::Strict);
            assert_eq!(findings, validate::Findings::default(), "{nodes}");
        }
    }

    #[test]
    fn packet_to_server_crosses_every_level() {
        let topology = tree(11);
        let net = |name: &str| &topology.nets[topology.net_index(name).unwrap()];
        let delay = |net: &Net, from: &str, to: &str| {
            let member = |name: &str| net.members.iter().find(|it| topology.hosts[it.host].name == name).unwrap();
            member(from).to_net.joined(&member(to).from_net).delay.as_millis()
        };
        assert_eq!(delay(net("edge1"), "low1", "tactical1"), 80);
        assert_eq!(delay(net("mid1"), "tactical1", "x45-1"), 60);
        assert_eq!(delay(net("high"), "x45-1", "server"), 620);
        assert_eq!(delay(net("edge3"), "low5", "low6"), 80);
    }

    #[test]
    fn tree_reads_back_as_written() {
        let tree = Tree { low: LegParameters::new(2, 35), ..Tree::published(TreeShape::inferred(31)) };
        let topology = tree.topology().unwrap();
        assert!(tree.comment().ends_with("--low 23 --low-rate 2Mbit --low-delay 35ms"), "{}", tree.comment());
        assert_eq!(file::parse("x", &file::write(&topology, &tree.comment())), Ok(topology));
    }

    #[test]
    fn unspecified_classes_default_to_low() {
        let of = |nodes, x45, tactical, low| TreeShape::from_classes(nodes, x45, tactical, low);
        assert_eq!(of(Some(92), None, None, None), Ok(TreeShape::inferred(92)));
        assert_eq!(of(Some(54), Some(4), Some(8), None), Ok(TreeShape { x45: 4, tactical: 8, low: 42 }));
        assert_eq!(of(None, Some(2), Some(3), Some(6)), Ok(TreeShape { x45: 2, tactical: 3, low: 6 }));
        let error = of(Some(11), Some(2), Some(3), Some(7)).unwrap_err();
        assert_eq!(error.to_string(), "11 nodes are not 2 X-45s, 3 tactical and 7 low-flying ones");
    }

    #[test]
    fn an_empty_class_is_refused() {
        let shape = TreeShape { x45: 3, tactical: 2, low: 20 };
        let error = Tree::published(shape).topology().unwrap_err();
        assert!(error.to_string().starts_with("2 tactical UAVs are too few for 3 X-45s"), "{error}");
        assert!(Tree::published(TreeShape::inferred(2)).topology().is_err());
    }
}
