//! The star: one switch, with a leg to each host.

use std::time::Duration;

use super::{GenerateError, LegParameters, in_range, lan};
use crate::model::{Host, Routing, Topology};
use crate::units::{Rate, format_duration};

/// Hosts in a row of the grid.
const ROW: usize = 10;

/// A star: `node1`, `node2`… and `server`, each with its own leg to one switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Star {
    /// The number of hosts with the server, as in the published figures.
    pub nodes: usize,
    pub node: LegParameters,
    pub server: LegParameters,
}

impl Star {
    /// The star of the published scaling experiments: 100 Mbit/s, 50 ms for
    /// each leg, 125 ms for the server's.
    pub const fn published(nodes: usize) -> Self {
        Self { nodes, node: LegParameters::new(100, 50), server: LegParameters::new(100, 125) }
    }

    /// Makes the topology.
    ///
    /// # Errors
    /// With fewer than two hosts, or too many.
    pub fn topology(&self) -> Result<Topology, GenerateError> {
        in_range("a star", self.nodes, 2)?;
        let last = self.nodes - 1;
        let host = |index: usize| {
            let (name, class) =
                if index == last { ("server".to_owned(), "server") } else { (format!("node{}", index + 1), "star") };
            // Fits i32: there are not that many hosts.
            let cell = ((index % ROW) as i32, (index / ROW) as i32);
            Host { name, class: Some(class.to_owned()), cell: Some(cell), ..Host::default() }
        };
        let member = |index: usize| if index == last { self.server } else { self.node }.member(index);
        Ok(Topology {
            name: format!("star-{}", self.nodes),
            hosts: (0..self.nodes).map(host).collect(),
            nets: vec![lan("net".to_owned(), (0..self.nodes).map(member).collect())],
            routing: Routing::Static,
            ..Topology::default()
        })
    }

    pub fn comment(&self) -> String {
        let ms = |delay: Duration| format_duration(delay);
        let leg = |leg: LegParameters| format!("{}, {}", rate(leg.rate), ms(leg.delay));
        format!(
            "A star of {} hosts on one switch: a leg of {} to each node, of {} to the server.\n\
             These are one-way delays of single legs: from node to node it is {}, from node to server {}.\n\
             Made by: emulate topo star --nodes {} --delay {} --server-delay {} --rate {}{}",
            self.nodes,
            leg(self.node),
            leg(self.server),
            ms(self.node.delay * 2),
            ms(self.node.delay + self.server.delay),
            self.nodes,
            ms(self.node.delay),
            ms(self.server.delay),
            self.node.rate,
            if self.server.rate == self.node.rate {
                String::new()
            } else {
                format!(" --server-rate {}", self.server.rate)
            },
        )
    }
}

fn rate(rate: Rate) -> String {
    if rate.is_unlimited() { "no limit".to_owned() } else { format!("{rate}/s") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file;
    use crate::validate::{self, TopologyLines, ValidationPolicy};

    #[test]
    fn star_matches_published_delays() {
        let star = Star::published(26);
        let topology = star.topology().unwrap();
        assert_eq!((topology.hosts.len(), topology.nets.len()), (26, 1));
        assert_eq!((topology.hosts[24].name.as_str(), topology.hosts[25].name.as_str()), ("node25", "server"));
        let one_way = |a: usize, b: usize| {
            topology.nets[0].members[a].to_net.joined(&topology.nets[0].members[b].from_net).delay.as_millis()
        };
        assert_eq!((one_way(0, 1), one_way(0, 25), one_way(25, 3)), (100, 175, 175));
        assert_eq!(
            validate::check(&topology, &TopologyLines::default(), ValidationPolicy::Strict),
            validate::Findings::default()
        );
        assert_eq!(file::parse("x", &file::write(&topology, &star.comment())), Ok(topology));
    }

    #[test]
    fn star_needs_node_and_server() {
        let error = Star::published(1).topology().unwrap_err();
        assert_eq!(error.to_string(), "a star of 1 nodes cannot be made: it has 2 to 131071");
    }
}
