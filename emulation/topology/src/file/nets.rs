//! `[[link]]` and `[[lan]]`.

use std::net::Ipv4Addr;

use ::toml::Spanned;
use ::toml::de::DeValue;

use super::TopologyReader;
use super::fields::{Fields, Located};
use super::shape::{self, LegOverrides};
use crate::model::{
    HostIndex, Leg, MAX_MEMBERS, MAX_NETS, MAX_ROUTES, ManualRoute, Net, NetKind, NetMember, RouteTarget,
};

const OF_NET: [&str; 5] = ["name", "cost", "prefix", "addresses", "leg"];
const OF_LINK: [&str; 3] = ["between", "up", "down"];
const OF_LAN: [&str; 1] = ["members"];
const OF_ROUTE: [&str; 3] = ["host", "to", "via"];
const OF_LEG: [&str; 5] = ["host", "address", "prefix", "up", "down"];

/// All keys of links, LANs, legs and routes.
#[cfg(test)]
pub(super) fn keys() -> Vec<&'static str> {
    [&OF_NET[..], &OF_LINK, &OF_LAN, &OF_LEG, &OF_ROUTE].concat()
}

impl<'t> TopologyReader<'t> {
    pub(super) fn read_nets(&mut self, root: &Fields<'t>) {
        let links = root.tables("link").iter().map(|item| (NetKind::Link, item));
        let lans = root.tables("lan").iter().map(|item| (NetKind::Lan, item));
        let mut items: Vec<(NetKind, &'t Spanned<DeValue<'t>>)> = links.chain(lans).collect();
        items.sort_by_key(|(_, item)| item.span().start);
        for (kind, item) in items {
            let (what, own) = match kind {
                NetKind::Link => ("a link", OF_LINK.as_slice()),
                NetKind::Lan => ("a LAN", OF_LAN.as_slice()),
            };
            let keys = [own, &OF_NET, &shape::KEYS].concat();
            let Some(fields) = Fields::from_value(root.source(), what, item, &keys) else { continue };
            match kind {
                NetKind::Link => self.read_links(&fields),
                NetKind::Lan => self.read_lan(&fields),
            }
        }
    }

    pub(super) fn read_routes(&mut self, root: &Fields<'t>) {
        for item in root.tables("route") {
            let Some(fields) = Fields::from_value(root.source(), "a route", item, &OF_ROUTE) else { continue };
            if self.topology.manual_routes.len() == MAX_ROUTES {
                return fields.refuse(format!("a topology has at most {MAX_ROUTES} routes"));
            }
            let host = fields.required("host", self.one_host(&fields, "host"), "\"a\"");
            let to = fields.required("to", self.route_target(&fields), "\"b\", a host or a net");
            let via = fields.required("via", self.one_host(&fields, "via"), "\"c\"");
            if let (Some(host), Some(to), Some(via)) = (host, to, via) {
                self.topology.manual_routes.push(ManualRoute { host, to, via });
                self.lines.routes.push(self.source.line(fields.at()));
            }
        }
    }

    fn route_target(&self, fields: &Fields<'_>) -> Option<RouteTarget> {
        let to = fields.text("to")?;
        if let Some(net) = self.nets.get(to.value) {
            return Some(RouteTarget::Net(*net));
        }
        self.host(&Located { value: to.value.to_owned(), at: to.at }).map(RouteTarget::Host)
    }

    fn read_lan(&mut self, fields: &Fields<'t>) {
        let name = fields.text("name");
        let name = fields.required("name", name, "\"net\"");
        let members = fields.texts("members");
        let members = fields.required("members", members, "[\"a\", \"low[1-8]\"]");
        let whole = self.whole(fields, &[]);
        let (Some(name), Some(members), Some(whole)) = (name, members.and_then(|it| self.host_list(it)), whole) else {
            return;
        };
        let (to_net, from_net) = whole.halves();
        // Behind a switch the legs to the receivers queue as well.
        let from_net = Leg { queue: whole.queue, ..from_net };
        let hosts: Vec<HostIndex> = members.iter().map(|member| member.value).collect();
        let legs = vec![(to_net, from_net); hosts.len()];
        self.add_net(fields, NetKind::Lan, Located { value: name.value.to_owned(), at: name.at }, &hosts, legs);
    }

    /// Reads one link, or one for each host of a range at its second end.
    fn read_links(&mut self, fields: &Fields<'t>) {
        let ends = fields.texts("between");
        let ends = fields.required("between", ends, "[\"a\", \"b\"]");
        let (up, down) = (self.whole(fields, &["up"]), self.whole(fields, &["down"]));
        let (Some(ends), Some(up), Some(down)) = (ends, up, down) else { return };
        let [one, other] = ends.as_slice() else {
            return fields.refuse(format!("a link is between two hosts, not {}; more make a LAN", ends.len()));
        };
        let (Some(one), Some(others)) = (self.host_list(vec![*one]), self.host_list(vec![*other])) else { return };
        let [one] = one.as_slice() else {
            return fields.refuse("a link has one host at its first end; a range may stand at the other");
        };
        let Some(names) = self.link_names(fields, one.value, &others) else { return };
        for (name, other) in names.into_iter().zip(&others) {
            let ((up_to, up_from), (down_to, down_from)) = (up.halves(), down.halves());
            let legs = vec![(up_to, down_from), (down_to, up_from)];
            self.add_net(fields, NetKind::Link, name, &[one.value, other.value], legs);
        }
    }

    /// The names given, one for each link, or else those made from the two ends.
    fn link_names(
        &self,
        fields: &Fields<'_>,
        one: HostIndex,
        others: &[Located<HostIndex>],
    ) -> Option<Vec<Located<String>>> {
        let host = |index: HostIndex| &self.topology.hosts[index].name;
        if !fields.has("name") {
            let name = |other: &Located<HostIndex>| Located {
                value: format!("{}-{}", host(one), host(other.value)),
                at: fields.at(),
            };
            return Some(others.iter().map(name).collect());
        }
        let names = self.names(fields.texts("name")?)?;
        if names.len() != others.len() {
            fields.refuse(format!("{} links have {} names: give one for each", others.len(), names.len()));
            return None;
        }
        Some(names)
    }

    /// The end-to-end values of a direction: the defaults, overridden by the net's values, then by the
    /// direction's.
    fn whole(&self, fields: &Fields<'_>, directions: &[&str]) -> Option<Leg> {
        let problems = fields.source().problems();
        let own = LegOverrides::read(fields);
        let shapes = [self.defaults.clone(), own].into_iter();
        let directed = directions.iter().map(|key| LegOverrides::direction(fields, key));
        let shapes: Vec<LegOverrides> = shapes.chain(directed).collect();
        if shapes.iter().all(|shape| shape.rate.is_none()) && fields.source().problems() == problems {
            fields.miss("no rate is given: write rate = \"100Mbit\", or \"unlimited\" if that is meant");
            return None;
        }
        let mut whole = Leg::default();
        shapes.iter().for_each(|shape| shape.lay_over(&mut whole));
        Some(whole)
    }

    fn add_net(
        &mut self,
        fields: &Fields<'t>,
        kind: NetKind,
        name: Located<String>,
        hosts: &[HostIndex],
        legs: Vec<(Leg, Leg)>,
    ) {
        let members: usize = self.topology.nets.iter().map(|net| net.members.len()).sum();
        if self.topology.nets.len() == MAX_NETS || members + hosts.len() > MAX_MEMBERS {
            let message = format!("a topology has at most {MAX_NETS} links and LANs with {MAX_MEMBERS} interfaces");
            return self.source.refuse(name.at, message);
        }
        let prefix = read_prefix(fields).unwrap_or(24);
        let member = |(host, (to_net, from_net)): (&HostIndex, (Leg, Leg))| NetMember {
            host: *host,
            address: None,
            prefix,
            to_net,
            from_net,
        };
        let cost = self.cost(fields).unwrap_or(1.0);
        let mut net = Net { name: name.value, kind, members: hosts.iter().zip(legs).map(member).collect(), cost };
        self.read_addresses(fields, &mut net);
        self.read_legs(fields, &mut net);
        self.nets.insert(net.name.clone(), self.topology.nets.len());
        self.lines.nets.push(self.source.line(name.at));
        self.topology.nets.push(net);
    }

    pub(super) fn cost(&self, fields: &Fields<'_>) -> Option<f64> {
        fields.number("cost", 0.001, 1e6, "a number from 0.001 to 1000000")
    }

    /// Overrides the net's values by those of single legs.
    pub(super) fn read_legs(&self, fields: &Fields<'_>, net: &mut Net) {
        for item in fields.tables("leg") {
            let keys = [OF_LEG.as_slice(), &shape::KEYS].concat();
            if let Some(leg) = Fields::from_value(fields.source(), "a leg", item, &keys) {
                self.read_leg(&leg, net);
            }
        }
    }

    fn read_addresses(&self, fields: &Fields<'_>, net: &mut Net) {
        let Some(texts) = fields.has("addresses").then(|| fields.texts("addresses")).flatten() else { return };
        if texts.len() != net.members.len() {
            let (given, members) = (texts.len(), net.members.len());
            return fields.refuse(format!("{members} members have {given} addresses: give all, or each in a `leg`"));
        }
        for (text, member) in texts.into_iter().zip(&mut net.members) {
            member.address = read_address(text.value).map_err(|error| self.source.refuse(text.at, error)).ok();
        }
    }

    /// Overrides the values of the members that a leg's table names.
    fn read_leg(&self, fields: &Fields<'_>, net: &mut Net) {
        let both = LegOverrides::read(fields);
        let (up, down) = (LegOverrides::direction(fields, "up"), LegOverrides::direction(fields, "down"));
        let (address, prefix) = (fields.parsed("address", read_address), read_prefix(fields));
        let hosts = fields.texts("host");
        let hosts = fields.required("host", hosts, "\"a\"").and_then(|words| self.host_list(words));
        let hosts = hosts.unwrap_or_default();
        if address.is_some() && hosts.len() > 1 {
            fields.refuse("an address belongs to one host");
        }
        for host in hosts {
            let Some(member) = net.members.iter_mut().find(|member| member.host == host.value) else {
                let name = &self.topology.hosts[host.value].name;
                self.source.refuse(host.at, format!("`{name}` is not on `{}`", net.name));
                continue;
            };
            member.address = address.or(member.address);
            member.prefix = prefix.unwrap_or(member.prefix);
            for (direction, leg) in [(&up, &mut member.to_net), (&down, &mut member.from_net)] {
                both.lay_over(leg);
                direction.lay_over(leg);
            }
        }
    }
}

fn read_address(text: &str) -> Result<Ipv4Addr, String> {
    text.parse().map_err(|_| format!("`{text}` is no IPv4 address: write 10.1.1.2"))
}

pub(super) fn read_prefix(fields: &Fields<'_>) -> Option<u8> {
    fields.whole("prefix", 8, 30).and_then(|prefix| u8::try_from(prefix).ok())
}
