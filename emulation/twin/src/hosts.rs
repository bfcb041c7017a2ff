//! The hosts of daemons: daemons with one address share a host, but no two nodes do.

use std::collections::{BTreeMap, BTreeSet};

use roost_recording::RecordingLine;
use roost_wire::{Cell, NodeId, Role};

use crate::align::Aligned;

/// The net of a star, whose name no host may have.
pub(crate) const NET: &str = "net";
/// The time between two looks of a recorder.
const LOOK_S: f64 = 1.0;
pub(crate) const MAX_NAME: usize = 63;

/// A daemon that recorded, or that others were connected with.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) role: Role,
    pub(crate) tier: u8,
    pub(crate) home: Option<NodeId>,
    addresses: BTreeSet<String>,
    pub(crate) has_recorded: bool,
    pub(crate) cells: Vec<(f64, Cell)>,
    started_unix_s: Option<u64>,
    /// The times at which it was gone, and was back.
    pub(crate) absences: Vec<(f64, Option<f64>)>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ObservedHost {
    /// A name for topologies, unlike all others.
    pub(crate) name: String,
    pub(crate) node: Option<NodeId>,
    pub(crate) hub: Option<NodeId>,
}

/// All daemons, with the hosts on which they run.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Hosts {
    pub(crate) members: BTreeMap<NodeId, Member>,
    pub(crate) hosts: Vec<ObservedHost>,
    place: BTreeMap<NodeId, usize>,
    /// The daemons that recorded, by recording and by number in it.
    recorded: BTreeMap<(usize, u32), NodeId>,
}

impl Hosts {
    pub(crate) fn find(aligned: &Aligned<'_>) -> Self {
        let mut members = BTreeMap::new();
        let mut here: BTreeMap<(usize, u32), NodeId> = BTreeMap::new();
        for (recording, t, line) in aligned.lines() {
            match &line.line {
                RecordingLine::Daemon(row) => {
                    let addresses = row.listen.iter().flat_map(|listen| hosts_of(listen)).collect();
                    here.insert((recording, row.daemon), row.node);
                    let member = members.entry(row.node).or_insert_with(|| Member::new(&row.name, row.role));
                    member.has_recorded = true;
                    member.tier = row.tier;
                    member.home = row.hub.or(member.home);
                    member.add(addresses);
                    member.moved(t, row.cell);
                    member.answered(t, row.started_unix_s);
                }
                RecordingLine::Connection(row) => {
                    let member = members.entry(row.node).or_insert_with(|| Member::new(&row.name, row.role));
                    let addresses: BTreeSet<String> = hosts_of(&row.address).collect();
                    let is_own = row.address.contains("127.0.0.1") || row.address.contains("[::1]");
                    member.add(addresses);
                    // A loopback address is that of the recording host.
                    if is_own && let Some(own) = here.get(&(recording, row.daemon)) {
                        let own = members.get(own).map(|own| own.addresses.clone()).unwrap_or_default();
                        members.entry(row.node).and_modify(|member| member.add(own));
                    }
                }
                RecordingLine::Gone { daemon, silent_s } => {
                    let gone = t - silent_s.max(0.0);
                    let member = here.get(&(recording, *daemon)).and_then(|node| members.get_mut(node));
                    member.into_iter().for_each(|member| member.absences.push((gone, None)));
                }
                _ => {}
            }
        }
        members.values_mut().for_each(Member::sort);
        let mut found = Self { members, ..Self::default() };
        found.place_members();
        found.recorded = here;
        found
    }

    pub(crate) fn host_of(&self, node: NodeId) -> Option<usize> {
        self.place.get(&node).copied()
    }

    pub(crate) fn of_daemon(&self, recording: usize, daemon: u32) -> Option<usize> {
        self.recorded.get(&(recording, daemon)).and_then(|node| self.host_of(*node))
    }

    /// The host of a daemon that recorded, unless that is a hub.
    pub(crate) fn of_node_daemon(&self, recording: usize, daemon: u32) -> Option<usize> {
        let node = self.recorded.get(&(recording, daemon))?;
        self.members.get(node).filter(|member| member.role == Role::Node).and_then(|_| self.host_of(*node))
    }

    /// The host of the home that two nodes have in common, as far as it is known; of a single hub that of both.
    pub(crate) fn common_home(&self, one: usize, other: usize) -> Option<usize> {
        let mut hubs = (0..self.hosts.len()).filter(|host| self.hosts[*host].hub.is_some());
        if let (Some(only), None) = (hubs.next(), hubs.next()) {
            return Some(only);
        }
        let home = |host: usize| self.members.get(&self.hosts[host].node?)?.home;
        home(one).filter(|first| home(other) == Some(*first)).and_then(|hub| self.host_of(hub))
    }

    /// The cell of a node that did not record.
    pub(crate) fn learn_cell(&mut self, node: NodeId, cell: Cell) {
        let unknown = self.members.get_mut(&node).filter(|member| member.cells.is_empty());
        unknown.into_iter().for_each(|member| member.cells.push((0.0, cell)));
    }

    /// Puts each node on a host of its own, in the order of names, then each hub on that of the node with its address.
    fn place_members(&mut self) {
        let mut order: Vec<(&NodeId, &Member)> = self.members.iter().collect();
        order.sort_by(|a, b| natural(&a.1.name).cmp(&natural(&b.1.name)).then(a.0.cmp(b.0)));
        let mut names = BTreeSet::from([NET.to_owned()]);
        let (nodes, hubs): (Vec<_>, Vec<_>) = order.into_iter().partition(|(_, member)| member.role == Role::Node);
        for (id, member) in nodes {
            self.place.insert(*id, self.hosts.len());
            let name = unique(&mut names, &member.name);
            self.hosts.push(ObservedHost { name, node: Some(*id), hub: None });
        }
        for (id, hub) in hubs {
            let shares = |host: &ObservedHost| {
                host.hub.is_none()
                    && host.node.is_some_and(|node| !self.members[&node].addresses.is_disjoint(&hub.addresses))
            };
            let with: Vec<usize> = (0..self.hosts.len()).filter(|host| shares(&self.hosts[*host])).collect();
            // Several nodes with its address are behind one translator.
            let place = if let [only] = with[..] { only } else { self.hosts.len() };
            if place == self.hosts.len() {
                self.hosts.push(ObservedHost { name: unique(&mut names, &hub.name), ..ObservedHost::default() });
            }
            self.hosts[place].hub = Some(*id);
            self.place.insert(*id, place);
        }
    }
}

impl Member {
    fn new(name: &str, role: Role) -> Self {
        Self {
            name: name.to_owned(),
            role,
            tier: 0,
            home: None,
            addresses: BTreeSet::new(),
            has_recorded: false,
            cells: Vec::new(),
            started_unix_s: None,
            absences: Vec::new(),
        }
    }

    fn add(&mut self, addresses: BTreeSet<String>) {
        self.addresses.extend(addresses);
    }

    /// A daemon that was not started anew was only slow; one that was, may have been so between two looks.
    fn answered(&mut self, t: f64, started_unix_s: Option<u64>) {
        let started = self.started_unix_s.zip(started_unix_s);
        match (self.absences.last(), started) {
            (Some((_, None)), Some((before, now))) if before == now => drop(self.absences.pop()),
            (Some((_, None)), _) => self.absences.last_mut().into_iter().for_each(|absence| absence.1 = Some(t)),
            (_, Some((before, now))) if before != now => self.absences.push((t - LOOK_S, Some(t))),
            _ => {}
        }
        self.started_unix_s = started_unix_s.or(self.started_unix_s);
    }

    fn moved(&mut self, t: f64, cell: Option<Cell>) {
        let Some(cell) = cell else { return };
        if self.cells.last().is_none_or(|(_, last)| *last != cell) {
            self.cells.push((t, cell));
        }
    }

    /// Recordings that follow each other may overlap by the moves of a clock.
    fn sort(&mut self) {
        self.cells.sort_by(|a, b| a.0.total_cmp(&b.0));
        self.cells.dedup_by(|next, last| next.1 == last.1);
        self.absences.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
}

/// The hosts of an endpoint such as `quic://10.0.0.1+10.0.1.1:7700`, without those that say nothing.
fn hosts_of(endpoint: &str) -> impl Iterator<Item = String> + '_ {
    let rest = endpoint.split_once("://").map_or(endpoint, |(_, rest)| rest);
    let hosts = rest.rsplit_once(':').map_or(rest, |(hosts, _)| hosts);
    let says_nothing = |host: &&str| !["127.0.0.1", "[::1]", "0.0.0.0", "[::]", ""].contains(host);
    hosts.split('+').filter(says_nothing).map(str::to_owned)
}

/// The name with its numbers as numbers, so that `uav10` follows `uav9`.
fn natural(name: &str) -> Vec<(String, Option<u64>)> {
    let mut parts = Vec::new();
    let mut rest = name;
    while !rest.is_empty() {
        let text = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let (word, after) = rest.split_at(text);
        let digits = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
        let (number, after) = after.split_at(digits);
        parts.push((word.to_owned(), number.parse().ok()));
        rest = after;
    }
    parts
}

/// A name that topologies take and that nothing else there has.
pub(crate) fn unique(taken: &mut BTreeSet<String>, name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let plain: String = name.chars().map(|c| if is_plain(c) { c } else { '-' }).collect();
    let plain = plain.trim_start_matches(['-', '_', '.']);
    let plain: String = if plain.is_empty() { "host" } else { plain }.chars().take(MAX_NAME).collect();
    let numbered = (2_u64..).map(|number| {
        let end = format!("-{number}");
        format!("{}{end}", &plain[..plain.len().min(MAX_NAME - end.len())])
    });
    let names = std::iter::once(plain.clone()).chain(numbered);
    let free = names.into_iter().find(|name| !taken.contains(name)).unwrap_or_default();
    taken.insert(free.clone());
    free
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_name_their_hosts() {
        let of = |endpoint| hosts_of(endpoint).collect::<Vec<_>>();
        assert_eq!(of("quic://10.0.0.1+10.0.1.1:7700"), ["10.0.0.1", "10.0.1.1"]);
        assert_eq!(of("udp://[fd00::1]:7700"), ["[fd00::1]"]);
        assert!(of("udp://0.0.0.0:7700").is_empty() && of("127.0.0.1:7").is_empty());
    }

    #[test]
    fn names_fit_topologies() {
        let mut taken = BTreeSet::new();
        assert_eq!(unique(&mut taken, "uav 7!"), "uav-7-");
        assert_eq!(unique(&mut taken, "uav 7!"), "uav-7--2");
        assert_eq!(unique(&mut taken, "…"), "host");
        let [first, second] = [0, 1].map(|_| unique(&mut taken, &"a".repeat(70)));
        assert!(first == "a".repeat(63) && second == format!("{}-2", "a".repeat(61)), "{first} {second}");
        assert!(natural("uav10") > natural("uav9") && natural("a") < natural("a1"));
    }
}
