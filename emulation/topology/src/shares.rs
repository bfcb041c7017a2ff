//! Shares of a network that several machines run together: the machine of each host, and the one that carries each
//! link and LAN.
//!
//! A packet between two machines travels for a time that nobody chooses. The network's delay hides it, as long as it is
//! longer: a link or leg with a delay below the *hold* stays on one machine. Among the divisions that remain, the search
//! keeps the machines even and cuts few links, those with short delays last.

mod search;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use super::model::{Action, HostIndex, Leg, Net, NetIndex, NetKind, Topology, TopologyChange};
use super::units::format_duration;

pub const MAX_MACHINES: usize = 16;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shares {
    /// By host, its machine; 0 is the one where the command runs.
    pub hosts: Vec<usize>,
    /// By link or LAN, the machine that carries it, which has one of its members.
    pub carriers: Vec<usize>,
}

#[derive(Clone, Debug, Default)]
pub struct ShareRequest {
    pub machines: usize,
    pub placed: BTreeMap<HostIndex, usize>,
    /// The least delay of a link or leg between machines.
    pub hold: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShareError {
    #[error("a lab has at most {MAX_MACHINES} machines, and {0} are named")]
    TooMany(usize),
    #[error(
        "`{first}` and `{second}` are placed on two machines, but {why}: a link or leg between machines needs at \
         least {hold}"
    )]
    TooNear { first: String, second: String, why: String, hold: String },
    #[error(
        "{machines} machines cannot share this network: hosts of one radio stay on one machine, and so do hosts with less \
         than {hold} between them, which makes groups that cannot be divided, {groups} in all; name fewer machines"
    )]
    TooFewGroups { machines: usize, groups: usize, hold: String },
    #[error("machine number {machine} gets no host, as they are placed on others: place fewer, or name fewer machines")]
    Empty { machine: usize },
}

/// Divides a network among machines.
///
/// # Errors
/// Fails when hosts that have to stay together are placed apart, or there are fewer groups than machines.
pub fn divide(topology: &Topology, request: &ShareRequest) -> Result<Shares, ShareError> {
    if request.machines > MAX_MACHINES {
        return Err(ShareError::TooMany(request.machines));
    }
    let near: Vec<Vec<bool>> = (0..topology.nets.len()).map(|net| near_members(topology, net, request.hold)).collect();
    let groups = Groups::join(topology, &near);
    let pinned = groups.pin(topology, request)?;
    let hosts = search::search(topology, &near, &groups, &search::Limits { machines: request.machines, pinned });
    let (machines, groups) = (request.machines, groups.members.len());
    if groups < machines {
        return Err(ShareError::TooFewGroups { machines, groups, hold: format_duration(request.hold) });
    }
    if let Some(machine) = (0..machines).find(|machine| !hosts.contains(machine)) {
        return Err(ShareError::Empty { machine });
    }
    let carriers = topology.nets.iter().zip(&near).map(|(net, near)| carrier(net, near, &hosts)).collect();
    Ok(Shares { hosts, carriers })
}

/// The machine of a net's near members; without any, that of most members, and of the first among equals.
fn carrier(net: &Net, near: &[bool], hosts: &[usize]) -> usize {
    let machine = |place: usize| hosts[net.members[place].host];
    // The near ones of a link are both or none.
    if let Some(place) = near.iter().position(|near| *near) {
        return machine(place);
    }
    let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
    (0..net.members.len()).for_each(|place| *counts.entry(machine(place)).or_default() += 1);
    let most = counts.values().max().copied().unwrap_or(0);
    counts.into_iter().find(|(_, count)| *count == most).map_or(0, |(machine, _)| machine)
}

/// Members of a net that cannot be on another machine than the one that carries it.
fn near_members(topology: &Topology, net: NetIndex, hold: Duration) -> Vec<bool> {
    let found = &topology.nets[net];
    if topology.radio(net).is_some() {
        return vec![true; found.members.len()];
    }
    let is_link = found.kind == NetKind::Link && found.members.len() == 2;
    let least = |place: usize| -> Duration {
        let member = &found.members[place];
        let scheduled = least_scheduled(topology, net, member.host, is_link);
        let lasting = if is_link {
            let other = &found.members[1 - place];
            [delay(&member.to_net) + delay(&other.from_net), delay(&other.to_net) + delay(&member.from_net)]
        } else {
            [delay(&member.to_net), delay(&member.from_net)]
        };
        lasting.into_iter().chain(scheduled).min().unwrap_or_default()
    };
    let mut near: Vec<bool> = (0..found.members.len()).map(|place| least(place) < hold).collect();
    if is_link && near.contains(&true) {
        near.fill(true);
    }
    near
}

/// The delay that a leg always has: none if a trace may change it.
fn delay(leg: &Leg) -> Duration {
    if leg.trace.is_some() { Duration::ZERO } else { leg.delay }
}

/// The shortest delay that the schedule gives a host's legs of a net.
fn least_scheduled(topology: &Topology, net: NetIndex, host: HostIndex, is_link: bool) -> Option<Duration> {
    let scheduled = topology.events.iter().filter_map(|event| match event.action {
        Action::Net { net: of, from, change: TopologyChange::Delay(delay) } if of == net => match from {
            None if !is_link => Some(delay / 2),
            Some(from) if !is_link && from != host => None,
            _ => Some(delay),
        },
        _ => None,
    });
    scheduled.min()
}

pub(crate) struct Groups {
    of_host: Vec<usize>,
    members: Vec<Vec<HostIndex>>,
    /// By host, a net that joins it to its group.
    joined_by: Vec<Option<NetIndex>>,
}

impl Groups {
    fn join(topology: &Topology, near: &[Vec<bool>]) -> Self {
        let mut parent: Vec<HostIndex> = (0..topology.hosts.len()).collect();
        let mut joined_by = vec![None; topology.hosts.len()];
        for (index, (net, near)) in topology.nets.iter().zip(near).enumerate() {
            let mut hosts = net.members.iter().zip(near).filter(|(_, near)| **near).map(|(member, _)| member.host);
            let Some(first) = hosts.next() else { continue };
            joined_by[first] = Some(index);
            for host in hosts {
                joined_by[host] = Some(index);
                let (a, b) = (root(&mut parent, first), root(&mut parent, host));
                parent[a.max(b)] = a.min(b);
            }
        }
        let mut numbers: BTreeMap<HostIndex, usize> = BTreeMap::new();
        let mut members: Vec<Vec<HostIndex>> = Vec::new();
        let mut of_host = Vec::with_capacity(parent.len());
        for host in 0..topology.hosts.len() {
            let number = *numbers.entry(root(&mut parent, host)).or_insert(members.len());
            if number == members.len() {
                members.push(Vec::new());
            }
            members[number].push(host);
            of_host.push(number);
        }
        Self { of_host, members, joined_by }
    }

    /// By group, the machine on which one of its hosts is placed.
    fn pin(&self, topology: &Topology, request: &ShareRequest) -> Result<Vec<Option<usize>>, ShareError> {
        let mut pinned: Vec<Option<(HostIndex, usize)>> = vec![None; self.members.len()];
        for (&host, &machine) in &request.placed {
            let group = self.of_host[host];
            match pinned[group] {
                Some((first, other)) if other != machine => {
                    let why = self.joined_by[host].map_or_else(String::new, |net| {
                        format!("they belong together, among others by `{}`", topology.nets[net].name)
                    });
                    let name = |host: HostIndex| topology.hosts[host].name.clone();
                    let hold = format_duration(request.hold);
                    return Err(ShareError::TooNear { first: name(first), second: name(host), why, hold });
                }
                _ => pinned[group] = Some((host, machine)),
            }
        }
        Ok(pinned.into_iter().map(|pin| pin.map(|(_, machine)| machine)).collect())
    }
}

fn root(parent: &mut [HostIndex], mut host: HostIndex) -> HostIndex {
    while parent[host] != host {
        parent[host] = parent[parent[host]];
        host = parent[host];
    }
    host
}
