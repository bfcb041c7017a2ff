//! The search for a division: groups in the order of a walk through the network, then moves that cut less.

use std::collections::VecDeque;

use super::Groups;
use crate::model::{NetIndex, Topology};

/// Passes over all groups; each one that moves something makes the cut smaller, or the machines more even.
const PASSES: usize = 30;
/// Hosts that a machine may have beyond its even part, as a fraction of that.
const SLACK: f64 = 0.15;

pub(super) struct Limits {
    pub(super) machines: usize,
    /// By group, the machine that is given.
    pub(super) pinned: Vec<Option<usize>>,
}

/// A link or LAN of a group, with the number of members that the group has on it.
#[derive(Clone, Copy)]
struct GroupNet {
    net: NetIndex,
    members: usize,
}

struct Search<'a> {
    topology: &'a Topology,
    near: &'a [Vec<bool>],
    groups: &'a Groups,
    limits: &'a Limits,
    /// By net and machine, its members there.
    counts: Vec<Vec<usize>>,
    /// By net, the price of a member on another machine than its carrier: dearer if the delay is short.
    prices: Vec<f64>,
    nets: Vec<Vec<GroupNet>>,
    machine: Vec<usize>,
    load: Vec<usize>,
}

pub(super) fn search(topology: &Topology, near: &[Vec<bool>], groups: &Groups, limits: &Limits) -> Vec<usize> {
    let mut search = Search::begin(topology, near, groups, limits);
    for _ in 0..PASSES {
        let moved = (0..groups.members.len()).filter(|group| search.improve(*group)).count();
        if moved == 0 {
            break;
        }
    }
    groups.of_host.iter().map(|group| search.machine[*group]).collect()
}

impl<'a> Search<'a> {
    fn begin(topology: &'a Topology, near: &'a [Vec<bool>], groups: &'a Groups, limits: &'a Limits) -> Self {
        let mut nets: Vec<Vec<GroupNet>> = vec![Vec::new(); groups.members.len()];
        for (index, net) in topology.nets.iter().enumerate() {
            for member in &net.members {
                let of_group = &mut nets[groups.of_host[member.host]];
                match of_group.last_mut() {
                    Some(last) if last.net == index => last.members += 1,
                    _ => of_group.push(GroupNet { net: index, members: 1 }),
                }
            }
        }
        let price = |net: &crate::model::Net| {
            let delays = net.members.iter().map(|member| member.to_net.delay + member.from_net.delay);
            let least = delays.min().unwrap_or_default().as_secs_f64();
            1.0 + 0.01 / least.max(0.001)
        };
        let prices = topology.nets.iter().map(price).collect();
        let machine = first_machines(groups, &nets, limits);
        let (mut counts, mut load) = (vec![vec![0; limits.machines]; topology.nets.len()], vec![0; limits.machines]);
        for (group, &machine) in machine.iter().enumerate() {
            load[machine] += groups.members[group].len();
            nets[group].iter().for_each(|one| counts[one.net][machine] += one.members);
        }
        Self { topology, near, groups, limits, counts, prices, nets, machine, load }
    }

    /// Moves a group to the machine where it costs least, if there is a better one.
    fn improve(&mut self, group: usize) -> bool {
        if self.limits.pinned[group].is_some() {
            return false;
        }
        let (here, size) = (self.machine[group], self.groups.members[group].len());
        let even = self.groups.of_host.len() as f64 / self.limits.machines as f64;
        let most = (even * (1.0 + SLACK)).max(even.ceil()) as usize;
        let before = self.cost(group);
        let mut best = (here, before - 1e-9);
        for there in (0..self.limits.machines).filter(|there| *there != here) {
            let evens = self.load[there] + size < self.load[here];
            if self.load[there] + size > most && !evens || self.load[here] == size {
                continue;
            }
            self.place(group, there);
            let cost = self.cost(group) - if evens { 1e-6 } else { 0.0 };
            self.place(group, here);
            if cost < best.1 || (evens && self.load[here] > most) {
                best = (there, cost);
            }
        }
        self.place(group, best.0);
        best.0 != here
    }

    fn place(&mut self, group: usize, machine: usize) {
        let before = std::mem::replace(&mut self.machine[group], machine);
        let size = self.groups.members[group].len();
        self.load[before] -= size;
        self.load[machine] += size;
        for GroupNet { net, members } in &self.nets[group] {
            self.counts[*net][before] -= members;
            self.counts[*net][machine] += members;
        }
    }

    /// The price of all nets of a group.
    fn cost(&self, group: usize) -> f64 {
        self.nets[group].iter().map(|one| self.prices[one.net] * self.away(one.net) as f64).sum()
    }

    /// Members of a net on other machines than its carrier's.
    fn away(&self, net: NetIndex) -> usize {
        let members = &self.topology.nets[net].members;
        let near = self.near[net].iter().position(|near| *near);
        let machine = near.map(|place| self.machine[self.groups.of_host[members[place].host]]);
        let at_carrier = match machine {
            Some(machine) => self.counts[net][machine],
            None => self.counts[net].iter().copied().max().unwrap_or(0),
        };
        members.len() - at_carrier
    }
}

/// Fills the machines one after the other along a walk through the network.
fn first_machines(groups: &Groups, nets: &[Vec<GroupNet>], limits: &Limits) -> Vec<usize> {
    let total: usize = groups.of_host.len();
    let mut load = vec![0; limits.machines];
    let mut machine = vec![0; groups.members.len()];
    for (group, pinned) in limits.pinned.iter().enumerate() {
        if let Some(pinned) = pinned {
            machine[group] = *pinned;
            load[*pinned] += groups.members[group].len();
        }
    }
    let mut left = limits.pinned.iter().filter(|pinned| pinned.is_none()).count();
    for group in walk(groups, nets) {
        if limits.pinned[group].is_some() {
            continue;
        }
        let size = groups.members[group].len();
        // A machine without a host gets one while there are any.
        let empty: Vec<usize> = (0..limits.machines).filter(|machine| load[*machine] == 0).collect();
        let has_room = |machine: &usize| load[*machine] == 0 || (load[*machine] + size) * limits.machines <= total;
        let lightest = || (0..limits.machines).min_by_key(|machine| load[*machine]).unwrap_or(0);
        let chosen = match empty.first() {
            Some(&machine) if empty.len() >= left => machine,
            _ => (0..limits.machines).find(has_room).unwrap_or_else(lightest),
        };
        machine[group] = chosen;
        load[chosen] += size;
        left -= 1;
    }
    machine
}

/// All groups, each after one that it has a link to.
fn walk(groups: &Groups, nets: &[Vec<GroupNet>]) -> Vec<usize> {
    let last = nets.iter().flatten().map(|one| one.net + 1).max().unwrap_or(0);
    let mut of_net: Vec<Vec<usize>> = vec![Vec::new(); last];
    for (group, nets) in nets.iter().enumerate() {
        nets.iter().for_each(|one| of_net[one.net].push(group));
    }
    // The ends of a network first: a group with few links.
    let mut order: Vec<usize> = (0..groups.members.len()).collect();
    order.sort_by_key(|group| (nets[*group].len(), *group));
    let mut seen = vec![false; order.len()];
    let (mut walked, mut next) = (Vec::with_capacity(order.len()), VecDeque::new());
    for start in order {
        if !std::mem::replace(&mut seen[start], true) {
            next.push_back(start);
        }
        while let Some(group) = next.pop_front() {
            walked.push(group);
            for one in &nets[group] {
                for other in std::mem::take(&mut of_net[one.net]) {
                    if !std::mem::replace(&mut seen[other], true) {
                        next.push_back(other);
                    }
                }
            }
        }
    }
    walked
}
