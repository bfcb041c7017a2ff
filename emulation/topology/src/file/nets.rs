//! `[[link]]` and `[[lan]]`.

use std::net::Ipv4Addr;

use ::toml::Spanned;
use serde::Deserialize;

use super::TopologyReader;
use super::shape::{LegOverrides, Shape, with_shape};
use super::values::{Whole, Words, read_address};
use crate::model::{
    HostIndex, Leg, MAX_MEMBERS, MAX_NETS, MAX_ROUTES, ManualRoute, Net, NetKind, NetMember, RouteTarget,
};

pub(super) type Prefix = Whole<u8, 8, 30>;

with_shape!(LinkFile {
    name: Option<Words>,
    between: Option<Words>,
    up: Shape,
    down: Shape,
    #[serde(deserialize_with = "crate::file::values::cost")]
    cost: Option<f64>,
    prefix: Option<Prefix>,
    addresses: Option<Words>,
    leg: Vec<Spanned<LegFile>>,
});

with_shape!(LanFile {
    name: Option<Spanned<String>>,
    members: Option<Words>,
    #[serde(deserialize_with = "crate::file::values::cost")]
    cost: Option<f64>,
    prefix: Option<Prefix>,
    addresses: Option<Words>,
    leg: Vec<Spanned<LegFile>>,
});

with_shape!(LegFile {
    host: Option<Words>,
    #[serde(deserialize_with = "crate::file::values::address")]
    address: Option<Ipv4Addr>,
    prefix: Option<Prefix>,
    up: Shape,
    down: Shape,
});

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RouteFile {
    host: Option<Spanned<String>>,
    to: Option<Spanned<String>>,
    via: Option<Spanned<String>>,
}

/// The values of a link or LAN as a whole.
pub(super) struct NetValues {
    pub(super) at: usize,
    pub(super) kind: NetKind,
    pub(super) cost: Option<f64>,
    pub(super) prefix: Option<Prefix>,
    pub(super) addresses: Option<Words>,
    pub(super) legs: Vec<Spanned<LegFile>>,
}

impl TopologyReader<'_> {
    /// Reads links and LANs in the order of the file.
    pub(super) fn read_nets(&mut self, links: Vec<Spanned<LinkFile>>, lans: Vec<Spanned<LanFile>>) {
        let mut lans = lans.into_iter().peekable();
        for link in links {
            while let Some(lan) = lans.next_if(|lan| lan.span().start < link.span().start) {
                self.read_lan(lan);
            }
            self.read_links(link);
        }
        lans.for_each(|lan| self.read_lan(lan));
    }

    pub(super) fn read_routes(&mut self, files: Vec<Spanned<RouteFile>>) {
        for file in files {
            let at = file.span().start;
            if self.topology.manual_routes.len() == MAX_ROUTES {
                return self.source.refuse(at, format!("a topology has at most {MAX_ROUTES} routes"));
            }
            let RouteFile { host, to, via } = file.into_inner();
            let required = |key, value, example| self.source.required(at, "a route", key, value, example);
            let host = required("host", host, "\"a\"").and_then(|name| self.host(&name));
            let to = required("to", to, "\"b\", a host or a net").and_then(|name| self.route_target(&name));
            let via = required("via", via, "\"c\"").and_then(|name| self.host(&name));
            if let (Some(host), Some(to), Some(via)) = (host, to, via) {
                self.topology.manual_routes.push(ManualRoute { host, to, via });
                self.lines.routes.push(self.source.line(at));
            }
        }
    }

    fn route_target(&self, name: &Spanned<String>) -> Option<RouteTarget> {
        let net = self.nets.get(name.get_ref()).copied().map(RouteTarget::Net);
        net.or_else(|| self.host(name).map(RouteTarget::Host))
    }

    fn read_lan(&mut self, file: Spanned<LanFile>) {
        let at = file.span().start;
        let whole = self.whole(at, &[file.get_ref().shape(self.source)]);
        let LanFile { name, members, cost, prefix, addresses, leg: legs, .. } = file.into_inner();
        let name = self.source.required(at, "a LAN", "name", name, "\"net\"");
        let members = self.source.required(at, "a LAN", "members", members, "[\"a\", \"low[1-8]\"]");
        let members = members.and_then(|words| self.host_list(&words.0));
        let (Some(name), Some(members), Some(whole)) = (name, members, whole) else { return };
        let (to_net, from_net) = whole.halves();
        // Behind a switch the legs to the receivers queue as well.
        let from_net = Leg { queue: whole.queue, ..from_net };
        let members: Vec<_> =
            members.iter().map(|member| (*member.get_ref(), to_net.clone(), from_net.clone())).collect();
        let values = NetValues { at, kind: NetKind::Lan, cost, prefix, addresses, legs };
        self.add_net(&values, name, members);
    }

    /// Reads one link, or one for each host of a range at its second end.
    fn read_links(&mut self, file: Spanned<LinkFile>) {
        let at = file.span().start;
        let own = file.get_ref().shape(self.source);
        let LinkFile { name, between, up, down, cost, prefix, addresses, leg: legs, .. } = file.into_inner();
        let ends = self.source.required(at, "a link", "between", between, "[\"a\", \"b\"]");
        let whole = |direction: &Shape| self.whole(at, &[own.clone(), direction.shape(self.source)]);
        let (up, down) = (whole(&up), whole(&down));
        let Some(Words(ends)) = ends else { return };
        let [one, other] = ends.as_slice() else {
            let message = format!("a link is between two hosts, not {}; more make a LAN", ends.len());
            return self.source.refuse(at, message);
        };
        let ends = (self.host_list(std::slice::from_ref(one)), self.host_list(std::slice::from_ref(other)));
        let (Some(one), Some(others), Some(up), Some(down)) = (ends.0, ends.1, up, down) else { return };
        let [one] = one.as_slice() else {
            return self.source.refuse(at, "a link has one host at its first end; a range may stand at the other");
        };
        let Some(names) = self.link_names(at, name, *one.get_ref(), &others) else { return };
        let values = NetValues { at, kind: NetKind::Link, cost, prefix, addresses, legs };
        for (name, other) in names.into_iter().zip(&others) {
            let ((up_to, up_from), (down_to, down_from)) = (up.halves(), down.halves());
            let members = vec![(*one.get_ref(), up_to, down_from), (*other.get_ref(), down_to, up_from)];
            self.add_net(&values, name, members);
        }
    }

    /// The names given, one for each link, or else those made from the two ends.
    fn link_names(
        &self,
        at: usize,
        given: Option<Words>,
        one: HostIndex,
        others: &[Spanned<HostIndex>],
    ) -> Option<Vec<Spanned<String>>> {
        let host = |index: HostIndex| &self.topology.hosts[index].name;
        let Some(words) = given else {
            let name =
                |other: &Spanned<HostIndex>| Spanned::new(at..at, format!("{}-{}", host(one), host(*other.get_ref())));
            return Some(others.iter().map(name).collect());
        };
        let names = self.names(&words.0)?;
        if names.len() != others.len() {
            let message = format!("{} links have {} names: give one for each", others.len(), names.len());
            self.source.refuse(at, message);
            return None;
        }
        Some(names)
    }

    /// The end-to-end values of a direction: the defaults, overridden by the net's values, then by the
    /// direction's.
    fn whole(&self, at: usize, shapes: &[LegOverrides]) -> Option<Leg> {
        let mut whole = Leg::default();
        std::iter::once(&self.defaults).chain(shapes).for_each(|shape| shape.lay_over(&mut whole));
        let has_rate = self.defaults.rate.is_some() || shapes.iter().any(|shape| shape.rate.is_some());
        if shapes.iter().any(|shape| shape.is_trace_wrong) {
            return None;
        }
        if !has_rate && whole.rate_trace().is_none() {
            self.source.miss(
                at,
                "rate",
                "no rate is given: write rate = \"100Mbit\", or \"unlimited\" if that is meant",
            );
            return None;
        }
        Some(whole)
    }

    pub(super) fn add_net(&mut self, values: &NetValues, name: Spanned<String>, legs: Vec<(HostIndex, Leg, Leg)>) {
        let at = name.span().start;
        let members: usize = self.topology.nets.iter().map(|net| net.members.len()).sum();
        if self.topology.nets.len() == MAX_NETS || members + legs.len() > MAX_MEMBERS {
            let message = format!("a topology has at most {MAX_NETS} links and LANs with {MAX_MEMBERS} interfaces");
            return self.source.refuse(at, message);
        }
        let prefix = values.prefix.map_or(24, |prefix| prefix.0);
        let member = |(host, to_net, from_net)| NetMember { host, address: None, prefix, to_net, from_net };
        let members = legs.into_iter().map(member).collect();
        let cost = values.cost.unwrap_or(1.0);
        let mut net = Net { name: name.into_inner(), kind: values.kind, members, cost };
        self.read_addresses(values, &mut net);
        self.read_legs(&values.legs, &mut net);
        self.nets.insert(net.name.clone(), self.topology.nets.len());
        self.lines.nets.push(self.source.line(at));
        self.topology.nets.push(net);
    }

    fn read_addresses(&self, values: &NetValues, net: &mut Net) {
        let Some(Words(texts)) = &values.addresses else { return };
        if texts.len() != net.members.len() {
            let (given, members) = (texts.len(), net.members.len());
            let message = format!("{members} members have {given} addresses: give all, or each in a `leg`");
            return self.source.refuse(values.at, message);
        }
        for (text, member) in texts.iter().zip(&mut net.members) {
            let address = read_address(text.get_ref());
            member.address = address.map_err(|error| self.source.refuse(text.span().start, error)).ok();
        }
    }

    /// Overrides the net's values by those of single legs.
    pub(super) fn read_legs(&self, legs: &[Spanned<LegFile>], net: &mut Net) {
        legs.iter().for_each(|leg| self.read_leg(leg.span().start, leg.get_ref(), net));
    }

    /// Overrides the values of the members that a leg's table names.
    fn read_leg(&self, at: usize, leg: &LegFile, net: &mut Net) {
        let both = leg.shape(self.source);
        let (up, down) = (leg.up.shape(self.source), leg.down.shape(self.source));
        let hosts = self.source.required(at, "a leg", "host", leg.host.as_ref(), "\"a\"");
        let hosts = hosts.and_then(|words| self.host_list(&words.0)).unwrap_or_default();
        if leg.address.is_some() && hosts.len() > 1 {
            self.source.refuse(at, "an address belongs to one host");
        }
        for host in hosts {
            let Some(member) = net.members.iter_mut().find(|member| member.host == *host.get_ref()) else {
                let name = &self.topology.hosts[*host.get_ref()].name;
                self.source.refuse(host.span().start, format!("`{name}` is not on `{}`", net.name));
                continue;
            };
            member.address = leg.address.or(member.address);
            member.prefix = leg.prefix.map_or(member.prefix, |prefix| prefix.0);
            for (direction, values) in [(&up, &mut member.to_net), (&down, &mut member.from_net)] {
                both.lay_over(values);
                direction.lay_over(values);
            }
        }
    }
}
