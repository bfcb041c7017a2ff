//! Places for the hosts and LANs of a network: each tree of links is a disk, and hangs around its middle.
//!
//! It draws the same network in the same way each time. No two hosts are nearer than two units.

use std::collections::{BTreeMap, VecDeque};
use std::f64::consts::PI;

use roost_topology::Topology;
use roost_topology::model::NetKind;

use crate::disks::{Packing, Sides, Spot, pack};

/// The neighbors of each host, and after the hosts of each net. A link has none: its ends are neighbors.
pub fn neighbors(topology: &Topology) -> Vec<Vec<usize>> {
    let hosts = topology.hosts.len();
    let mut neighbors = vec![Vec::new(); hosts + topology.nets.len()];
    for (index, net) in topology.nets.iter().enumerate() {
        match (net.kind, &net.members[..]) {
            (NetKind::Link, [one, other]) => {
                neighbors[one.host].push(other.host);
                neighbors[other.host].push(one.host);
            }
            _ => {
                for member in &net.members {
                    neighbors[hosts + index].push(member.host);
                    neighbors[member.host].push(hosts + index);
                }
            }
        }
    }
    neighbors
}

/// The spot of each vertex of a graph.
pub fn layout(neighbors: &[Vec<usize>]) -> Vec<Spot> {
    let mut is_reached = vec![false; neighbors.len()];
    let mut trees = Vec::new();
    for vertex in 0..neighbors.len() {
        if !is_reached[vertex] {
            let tree = Tree::around(center(neighbors, vertex), neighbors);
            tree.order.iter().for_each(|vertex| is_reached[*vertex] = true);
            trees.push(tree);
        }
    }
    let mut branches: Vec<Branch> = vec![Branch::default(); neighbors.len()];
    trees.iter().for_each(|tree| tree.grow(&mut branches));
    let radii: Vec<f64> = trees.iter().map(|tree| branches[tree.order[0]].radius()).collect();
    let mut spots = vec![Spot::default(); neighbors.len()];
    for (tree, middle) in trees.iter().zip(pack(0.0, &radii, Sides::All).spots) {
        tree.put(middle, &branches, &mut spots);
    }
    let angle = longest_axis(&spots);
    spots.into_iter().map(|spot| spot.turned(-angle)).collect()
}

/// The angle of the line along which spots are farthest apart: windows are wider than high.
fn longest_axis(spots: &[Spot]) -> f64 {
    let count = spots.len().max(1) as f64;
    let sum = spots.iter().copied().fold(Spot::default(), Spot::plus);
    let mean = Spot { x: sum.x / count, y: sum.y / count };
    let offsets = || spots.iter().map(|spot| spot.minus(mean));
    let (wide, high): (f64, f64) = (offsets().map(|o| o.x * o.x).sum(), offsets().map(|o| o.y * o.y).sum());
    let both: f64 = offsets().map(|o| o.x * o.y).sum();
    // Without a longest axis there is nothing to turn.
    if (wide - high).hypot(2.0 * both) < 0.01 * (wide + high) { 0.0 } else { (2.0 * both).atan2(wide - high) / 2.0 }
}

/// The middle of the longest way through the part of a graph around a vertex.
fn center(neighbors: &[Vec<usize>], vertex: usize) -> usize {
    let far = |from: usize| Tree::around(from, neighbors);
    let first = far(vertex);
    let one = first.order.last().copied().unwrap_or(vertex);
    let tree = far(one);
    let mut way = vec![tree.order.last().copied().unwrap_or(vertex)];
    while let Some(parent) = way.last().and_then(|last| tree.parent(*last)) {
        way.push(parent);
    }
    // Of two in the middle the one with more neighbors.
    let middle = [way.len() / 2, (way.len() - 1) / 2].map(|place| way[place]);
    middle.into_iter().max_by_key(|vertex| neighbors[*vertex].len()).unwrap_or(vertex)
}

/// The shortest ways from a vertex to all that it reaches.
struct Tree {
    order: Vec<usize>,
    parents: BTreeMap<usize, usize>,
}

/// A vertex with all behind it, as a disk around its own middle.
#[derive(Clone, Debug, Default)]
struct Branch {
    children: Vec<usize>,
    /// The disks of the children, with the vertex at the origin.
    packing: Packing,
    /// The angle by which each child's disk is turned, so that nothing is above its link to the vertex.
    turns: Vec<f64>,
}

impl Branch {
    fn radius(&self) -> f64 {
        self.packing.radius
    }

    /// The vertex as seen from the middle of the disk.
    fn vertex(&self) -> Spot {
        Spot::default().minus(self.packing.middle)
    }
}

impl Tree {
    fn around(root: usize, neighbors: &[Vec<usize>]) -> Self {
        let mut tree = Self { order: Vec::new(), parents: BTreeMap::new() };
        let mut waiting = VecDeque::from([root]);
        while let Some(vertex) = waiting.pop_front() {
            tree.order.push(vertex);
            for next in &neighbors[vertex] {
                if *next != root && !tree.parents.contains_key(next) {
                    tree.parents.insert(*next, vertex);
                    waiting.push_back(*next);
                }
            }
        }
        tree
    }

    fn parent(&self, vertex: usize) -> Option<usize> {
        self.parents.get(&vertex).copied()
    }

    /// Makes the branch of each vertex, from the farthest to the root.
    fn grow(&self, branches: &mut [Branch]) {
        for vertex in &self.order {
            if let Some(parent) = self.parent(*vertex) {
                branches[parent].children.push(*vertex);
            }
        }
        for vertex in self.order.iter().rev() {
            let children = std::mem::take(&mut branches[*vertex].children);
            let radii: Vec<f64> = children.iter().map(|child| branches[*child].radius()).collect();
            let sides = if self.parent(*vertex).is_some() { Sides::NotBelow } else { Sides::All };
            let packing = pack(1.0, &radii, sides);
            // The side below of each child is towards the vertex.
            let turns = packing.spots.iter().map(|spot| spot.angle() - PI / 2.0).collect();
            branches[*vertex] = Branch { children, packing, turns };
        }
    }

    /// Puts the disk of the whole tree around `middle`.
    fn put(&self, middle: Spot, branches: &[Branch], spots: &mut [Spot]) {
        let mut waiting = vec![(self.order[0], middle, 0.0)];
        while let Some((vertex, middle, turn)) = waiting.pop() {
            let branch = &branches[vertex];
            spots[vertex] = middle.plus(branch.vertex().turned(turn));
            for ((child, spot), more) in branch.children.iter().zip(&branch.packing.spots).zip(&branch.turns) {
                let offset = spot.minus(branch.packing.middle).turned(turn);
                waiting.push((*child, middle.plus(offset), turn + more));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use roost_topology::generate::{Forest, Tree as PublishedTree, TreeShape};

    use super::*;

    fn graph(vertices: usize, edges: &[(usize, usize)]) -> Vec<Vec<usize>> {
        let mut neighbors = vec![Vec::new(); vertices];
        for (one, other) in edges.iter().filter(|(one, other)| one != other) {
            neighbors[*one].push(*other);
            neighbors[*other].push(*one);
        }
        neighbors
    }

    fn nearest(spots: &[Spot]) -> f64 {
        let pairs = (0..spots.len()).flat_map(|one| (0..one).map(move |other| (one, other)));
        pairs.map(|(one, other)| spots[one].minus(spots[other]).length()).fold(f64::INFINITY, f64::min)
    }

    fn width(spots: &[Spot]) -> f64 {
        let of = |axis: fn(&Spot) -> f64| {
            let values = spots.iter().map(axis);
            values.clone().fold(f64::MIN, f64::max) - values.fold(f64::MAX, f64::min)
        };
        of(|spot| spot.x).max(of(|spot| spot.y))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn no_two_hosts_overlap(edges in prop::collection::vec((0..40_usize, 0..40_usize), 0..80)) {
            let graph = graph(40, &edges);
            let spots = layout(&graph);
            prop_assert!(nearest(&spots) >= 2.0 - 1e-6);
            prop_assert_eq!(layout(&graph), spots);
        }
    }

    #[test]
    fn chains_stay_in_proportion() {
        let chain: Vec<_> = (1..200).map(|vertex| (vertex - 1, vertex)).collect();
        assert!(width(&layout(&graph(200, &chain))) < 450.0);
        // Each host of the chain has a host beside it.
        let comb: Vec<_> = (1..100).flat_map(|vertex| [(vertex - 1, vertex), (vertex, vertex + 100)]).collect();
        assert!(width(&layout(&graph(200, &comb))) < 450.0);
    }

    #[test]
    fn published_networks_fit_a_window() {
        for (topology, most) in [
            (PublishedTree::published(TreeShape::inferred(92)).topology().unwrap(), 70.0),
            (Forest::for_nodes(1000).topology().unwrap(), 180.0),
        ] {
            let spots = layout(&neighbors(&topology));
            assert!(width(&spots) < most, "{}: {}", topology.name, width(&spots));
            assert!(nearest(&spots) >= 2.0 - 1e-6);
        }
    }

    #[test]
    fn unlinked_parts_stand_side_by_side() {
        let spots = layout(&graph(4, &[(0, 1)]));
        assert!(nearest(&spots) >= 2.0 - 1e-6 && width(&spots) < 9.0);
        assert_eq!(layout(&[]), []);
    }
}
