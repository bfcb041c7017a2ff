//! Generators for the two topologies of the published experiments, and for a forest, of any size.

mod forest;
mod star;
mod tree;

use std::time::Duration;

use super::model::{HostIndex, Leg, MAX_HOSTS, Net, NetKind, NetMember};
use crate::units::Rate;

pub use forest::{FOREST_TIERS, Forest};
pub use star::Star;
pub use tree::{Tree, TreeShape};

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GenerateError {
    /// Fewer than needed, or more than a topology may have.
    #[error("{what} of {nodes} nodes cannot be made: it has {least} to {most}")]
    Nodes { what: &'static str, nodes: usize, least: usize, most: usize },
    /// A part that the topology needs would be empty.
    #[error("a forest cannot have 0 for `{0}`: at least 1")]
    None(&'static str),
    /// More nodes than cells: each needs its own.
    #[error("{nodes} nodes of a home do not fit on {area} × {area} cells: give them a larger area")]
    Crowded { nodes: usize, area: usize },
    /// The numbers given for a tree contradict each other.
    #[error("{nodes} nodes are not {x45} X-45s, {tactical} tactical and {low} low-flying ones")]
    Sum { nodes: usize, x45: usize, tactical: usize, low: usize },
    /// A class has fewer hosts than the class above it: each host needs at least one below it.
    #[error("{lower} {lower_class} are too few for {upper} {upper_class}: at least one is behind each")]
    Level { upper_class: &'static str, upper: usize, lower_class: &'static str, lower: usize },
}

/// The rate and the delay of a host's leg, in each direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LegParameters {
    pub rate: Rate,
    pub delay: Duration,
}

impl LegParameters {
    pub const fn new(mbit: u64, ms: u64) -> Self {
        Self { rate: Rate::from_bps(mbit * 1_000_000), delay: Duration::from_millis(ms) }
    }

    fn member(self, host: HostIndex) -> NetMember {
        let leg = Leg { rate: self.rate, delay: self.delay, ..Leg::default() };
        NetMember { host, address: None, prefix: 24, to_net: leg.clone(), from_net: leg }
    }
}

fn lan(name: String, members: Vec<NetMember>) -> Net {
    Net { name, kind: NetKind::Lan, members, cost: 1.0 }
}

fn in_range(what: &'static str, nodes: usize, least: usize) -> Result<(), GenerateError> {
    // A host is left for the server.
    let most = MAX_HOSTS - 1;
    match (least..=most).contains(&nodes) {
        true => Ok(()),
        false => Err(GenerateError::Nodes { what, nodes, least, most }),
    }
}

/// Splits `all` evenly among `among`; the first ones get the remainder.
fn share(all: usize, among: usize, index: usize) -> std::ops::Range<usize> {
    let begin = |index: usize| index * (all / among) + index.min(all % among);
    begin(index)..begin(index + 1)
}

fn shifted(range: std::ops::Range<usize>, by: usize) -> std::ops::Range<usize> {
    range.start + by..range.end + by
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file;

    #[test]
    fn shipped_topologies_match_generators() {
        let star = |nodes| (Star::published(nodes).topology().unwrap(), Star::published(nodes).comment());
        let tree = |nodes| {
            let tree = Tree::published(TreeShape::inferred(nodes));
            (tree.topology().unwrap(), tree.comment())
        };
        for ((topology, comment), ready) in [
            (star(11), include_str!("../../../topologies/star-11.toml")),
            (star(26), include_str!("../../../topologies/star-26.toml")),
            (tree(11), include_str!("../../../topologies/tree-11.toml")),
            (tree(31), include_str!("../../../topologies/tree-31.toml")),
        ] {
            assert_eq!(file::write(&topology, &comment), ready, "write it again with emulate topo");
        }
    }
}
