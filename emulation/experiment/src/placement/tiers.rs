//! Tiers of hubs: their hosts, their parents, and the nodes they serve.

use std::collections::BTreeSet;

use roost_topology::model::HostIndex;

use super::{
    Architecture, HEIGHT, HubSelection, MAX_HUBS, Named, PlacedHub, PlacedNode, Placer, PlanError, Role, SuperNodes,
    class_of,
};

/// The parents of a hub: the first, and a standby.
const PARENTS: usize = 2;

impl Placer<'_> {
    /// The hubs, highest tier first.
    pub(super) fn hubs(&self, nodes: &[PlacedNode]) -> Result<Vec<PlacedHub>, PlanError> {
        let tiers = self.tiers(nodes)?;
        let mut seen = BTreeSet::new();
        if let Some(twice) = tiers.iter().flatten().find(|host| !seen.insert(**host)) {
            let what = if self.plan.architecture.hub_role() == Role::Server { "servers" } else { "super nodes" };
            return Err(self.error(0, format!("host {} has two {what}", self.topology.hosts[*twice].name)));
        }
        let names: BTreeSet<&str> = self.topology.hosts.iter().map(|host| host.name.as_str()).collect();
        let mut hubs: Vec<PlacedHub> = Vec::new();
        let mut above = 0..0;
        for (tier, hosts) in (0..=u8::MAX).zip(&tiers).rev() {
            let parents = self.parents(hosts, &hubs[above.clone()])?;
            let first = hubs.len();
            for (host, parents) in hosts.iter().zip(parents) {
                let parents = parents.into_iter().map(|place| above.start + place).collect();
                let class = class_of(self.topology, *host).to_owned();
                hubs.push(PlacedHub { host: *host, name: self.name(*host, &names), class, tier, parents });
            }
            above = first..hubs.len();
        }
        Ok(hubs)
    }

    /// The hosts of each tier, lowest first.
    fn tiers(&self, nodes: &[PlacedNode]) -> Result<Vec<Vec<HostIndex>>, PlanError> {
        match (self.plan.architecture, &self.plan.super_nodes) {
            (Architecture::ClientServer, _) => Ok(vec![vec![self.server()?]]),
            (Architecture::ClientServerCaching, _) => {
                Ok(vec![self.places(nodes, &self.plan.caches, "caches")?, vec![self.server()?]])
            }
            (Architecture::Multicast | Architecture::Programs, _) => Ok(Vec::new()),
            (_, SuperNodes::Flat(places)) => Ok(vec![self.places(nodes, places, "super nodes")?]),
            (_, SuperNodes::Hosts(tiers)) => tiers.iter().map(|hosts| self.named(hosts)).collect(),
            (_, SuperNodes::Tiers(count)) => self.by_class(*count),
        }
    }

    fn places(&self, nodes: &[PlacedNode], places: &HubSelection, what: &str) -> Result<Vec<HostIndex>, PlanError> {
        let none = |count| self.error(0, format!("{count} {what} do not fit on {} nodes", nodes.len()));
        match places {
            HubSelection::Count(count) => highest(nodes, *count).ok_or_else(|| none(count)),
            HubSelection::Hosts(names) => self.named(names),
        }
    }

    fn named(&self, names: &[Named]) -> Result<Vec<HostIndex>, PlanError> {
        names.iter().map(|name| self.host(name)).collect()
    }

    /// A super node on every host of the `count` highest classes: each class is a tier.
    fn by_class(&self, count: usize) -> Result<Vec<Vec<HostIndex>>, PlanError> {
        let of = |class: &&str| -> Vec<HostIndex> {
            (0..self.topology.hosts.len()).filter(|host| class_of(self.topology, *host) == *class).collect()
        };
        let mut tiers: Vec<Vec<HostIndex>> = HEIGHT.iter().map(of).filter(|hosts| !hosts.is_empty()).collect();
        if tiers.len() < count {
            let message = format!(
                "its topology has hosts of {} classes that tiers are made of ({}), not of {count}: name the hosts, \
                 the lowest tier first, as in tiers = [[\"a\", \"b\"], [\"c\"]]",
                tiers.len(),
                HEIGHT.join(", ")
            );
            return Err(self.error(0, message));
        }
        tiers.truncate(count);
        tiers.reverse();
        Ok(tiers)
    }

    /// A name for a hub that no host has.
    fn name(&self, host: HostIndex, taken: &BTreeSet<&str>) -> String {
        let mut name = format!("{}-hub", self.topology.hosts[host].name);
        while taken.contains(name.as_str()) {
            name.push('x');
        }
        name
    }

    fn parents(&self, hosts: &[HostIndex], above: &[PlacedHub]) -> Result<Vec<Vec<usize>>, PlanError> {
        let above: Vec<HostIndex> = above.iter().map(|hub| hub.host).collect();
        self.check_reach(hosts, &above)?;
        let mut parents = self.nearest_first(hosts, &above);
        parents.iter_mut().for_each(|parents| parents.truncate(PARENTS));
        Ok(parents)
    }

    /// Gives every node the hubs of the lowest tier, nearest first; with caches also the server.
    pub(super) fn choose_hubs(&self, nodes: &mut [PlacedNode], hubs: &[PlacedHub]) -> Result<(), PlanError> {
        // Hosts of this tier are the last.
        let is_asked = |hub: &PlacedHub| hub.tier == 0 || self.plan.architecture.hub_role() == Role::Server;
        let first = hubs.iter().position(is_asked).unwrap_or(0);
        let from: Vec<HostIndex> = nodes.iter().map(|node| node.host).collect();
        let to: Vec<HostIndex> = hubs[first..].iter().map(|hub| hub.host).collect();
        self.check_reach(&from, &to)?;
        for (node, order) in nodes.iter_mut().zip(self.nearest_first(&from, &to)) {
            node.hubs = order.into_iter().take(MAX_HUBS).map(|place| first + place).collect();
        }
        Ok(())
    }

    /// Puts the hub first that the plan chooses for a node.
    pub(super) fn choose_homes(&self, nodes: &mut [PlacedNode], hubs: &[PlacedHub]) -> Result<(), PlanError> {
        for (named, hub) in &self.plan.homes {
            let (host, home) = (self.host(named)?, self.host(hub)?);
            let Some(node) = nodes.iter_mut().find(|node| node.host == host) else {
                return Err(self.error(named.line, format!("no node runs on host {}", named.name)));
            };
            let place = node.hubs.iter().position(|place| hubs[*place].host == home);
            let Some(place) = place else {
                let message =
                    format!("host {} runs no hub that {} could use: choose another one", hub.name, named.name);
                return Err(self.error(hub.line, message));
            };
            node.hubs[..=place].rotate_right(1);
        }
        Ok(())
    }

    fn check_reach(&self, from: &[HostIndex], to: &[HostIndex]) -> Result<(), PlanError> {
        if self.map.all_reach(from.iter().chain(to).copied()) {
            return Ok(());
        }
        let name = |host: HostIndex| &self.topology.hosts[host].name;
        let far = |host: HostIndex| to.iter().find(move |hub| !self.map.reaches(host, **hub));
        let pair = from.iter().find_map(|host| Some((*host, *far(*host)?)));
        pair.map_or(Ok(()), |(host, far)| Err(self.unreachable(name(host), name(far))))
    }

    /// For each host the hubs in `to`, as indices, nearest first. Among equally near ones, the one that is
    /// first for the fewest hosts comes first. Hosts without a choice go first, so that the others balance
    /// them.
    fn nearest_first(&self, from: &[HostIndex], to: &[HostIndex]) -> Vec<Vec<usize>> {
        let near = self.map.nearest(from, to);
        let has_choice = |place: &usize| matches!(near[*place][..], [(first, _), (second, _), ..] if first == second);
        let (choosing, bound): (Vec<usize>, Vec<usize>) = (0..from.len()).partition(has_choice);
        let mut first_of = vec![0_usize; to.len()];
        let mut orders = vec![Vec::new(); from.len()];
        for place in bound.into_iter().chain(choosing) {
            let mut order = near[place].clone();
            order.sort_by_key(|(distance, hub)| (*distance, first_of[*hub], *hub));
            if let Some((_, first)) = order.first() {
                first_of[*first] += 1;
            }
            orders[place] = order.into_iter().map(|(_, hub)| hub).collect();
        }
        orders
    }
}

/// The hosts of `count` nodes, highest in the hierarchy first.
fn highest(nodes: &[PlacedNode], count: usize) -> Option<Vec<HostIndex>> {
    let height = |node: &&PlacedNode| HEIGHT.iter().position(|class| *class == node.class).unwrap_or(HEIGHT.len());
    let mut order: Vec<&PlacedNode> = nodes.iter().collect();
    order.sort_by_key(height);
    (count <= order.len()).then(|| order[..count].iter().map(|node| node.host).collect())
}
