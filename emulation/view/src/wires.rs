//! The links of a network as they are at a moment of the run.

use roost_dashboard::Rows;
use roost_results::record::LinkLoad;
use roost_topology::model::{HostIndex, Leg, Net, NetIndex, NetKind, TopologyChange};
use roost_topology::units::{Rate, format_duration};
use roost_topology::{Topology, amend};
use serde_json::{Value, json};

/// The network after the faults so far.
pub(crate) struct Wires {
    topology: Topology,
    /// By net and member: true while what the member sends is lost.
    is_down: Vec<Vec<bool>>,
}

/// A change of a link or LAN, or of the part of it that belongs to one host.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct WireChange {
    pub(crate) net: NetIndex,
    pub(crate) from: Option<HostIndex>,
    pub(crate) change: TopologyChange,
}

/// The key of a link, or of the leg of a host on a LAN, without its section.
pub(crate) fn wire_id(topology: &Topology, net: NetIndex, member: usize) -> String {
    let Net { name, kind, members, .. } = &topology.nets[net];
    match kind {
        NetKind::Link => name.clone(),
        NetKind::Lan => format!("{name}/{}", topology.hosts[members[member].host].name),
    }
}

impl Wires {
    pub(crate) fn new(topology: &Topology) -> Self {
        let is_down = topology.nets.iter().map(|net| vec![false; net.members.len()]).collect();
        Self { topology: topology.clone(), is_down }
    }

    pub(crate) fn rows(&self) -> Rows {
        (0..self.topology.nets.len()).flat_map(|net| self.rows_of(net)).collect()
    }

    /// Changes a link, and gives its new rows.
    pub(crate) fn apply(&mut self, WireChange { net, from, change }: WireChange) -> Rows {
        if net >= self.topology.nets.len() {
            return Rows::new();
        }
        amend(&mut self.topology, net, from, change);
        let down = match change {
            TopologyChange::Up => Some(false),
            TopologyChange::Down => Some(true),
            _ => None,
        };
        if let Some(down) = down {
            let members = self.topology.nets[net].members.iter().zip(&mut self.is_down[net]);
            let concerned = members.filter(|(member, _)| from.is_none_or(|from| from == member.host));
            concerned.for_each(|(_, is_down)| *is_down = down);
        }
        self.rows_of(net)
    }

    /// Tells the rate in force of what a host sends, or of what it receives from a LAN.
    pub(crate) fn set_rate(&mut self, load: &LinkLoad) -> Rows {
        let found = self.topology.net_index(&load.link).zip(self.topology.host_index(&load.host));
        let Some(((net, host), bps)) = found.zip(load.rate_bps) else { return Rows::new() };
        let rate = Rate::from_bps(bps.max(1));
        let Net { kind, members, .. } = &mut self.topology.nets[net];
        let Some(place) = members.iter().position(|member| member.host == host) else { return Rows::new() };
        match (*kind, load.direction.as_str()) {
            (NetKind::Link, _) => {
                members[place].to_net.rate = rate;
                let others = members.iter_mut().filter(|member| member.host != host);
                others.for_each(|other| other.from_net.rate = rate);
            }
            (NetKind::Lan, "from-net") => members[place].from_net.rate = rate,
            (NetKind::Lan, _) => members[place].to_net.rate = rate,
        }
        self.rows_of(net)
    }

    fn rows_of(&self, index: NetIndex) -> Rows {
        let net = &self.topology.nets[index];
        let host = |place: usize| format!("host/{}", self.topology.hosts[net.members[place].host].name);
        let is_up = |place: usize| !self.is_down[index][place];
        let mut rows = Rows::new();
        let mut add = |place: usize, to: String, there: Value, back: Value| {
            let id = wire_id(&self.topology, index, place);
            let back = if there == back { Value::Null } else { back };
            let row =
                json!({ "link": id, "net": net.name, "from": host(place), "to": to, "there": there, "back": back });
            rows.insert(format!("link/{id}"), row);
        };
        if let (NetKind::Link, [one, other]) = (net.kind, &net.members[..]) {
            let there = leg(&one.to_net.joined(&other.from_net), is_up(0));
            let back = leg(&other.to_net.joined(&one.from_net), is_up(1));
            add(0, host(1), there, back);
            return rows;
        }
        for (place, member) in net.members.iter().enumerate() {
            let (there, back) = (leg(&member.to_net, is_up(place)), leg(&member.from_net, is_up(place)));
            add(place, format!("lan/{}", net.name), there, back);
        }
        rows
    }
}

fn leg(leg: &Leg, is_up: bool) -> Value {
    let milliseconds = |time: std::time::Duration| time.as_secs_f64() * 1e3;
    let mut row = json!({
        "rate_bps": (!leg.rate.is_unlimited()).then(|| leg.rate.bps()),
        "delay_ms": milliseconds(leg.delay),
        "queue": format!("{} {}", leg.queue.limit, if leg.queue.in_bytes { "bytes" } else { "packets" }),
        "up": is_up,
    });
    let mut add = |name: &str, value: Value| row[name] = value;
    if leg.loss > 0.0 {
        // Halves of a loss come back as the whole but for rounding.
        add("loss", json!((leg.loss * 1e9).round() / 1e9));
    }
    if !leg.jitter.is_zero() {
        add("jitter", json!(format_duration(leg.jitter)));
    }
    if let Some(playback) = leg.trace.as_deref() {
        add("trace", json!(playback.describe()));
    }
    if leg.burst.is_some() {
        add("bursts", json!(true));
    }
    row
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::testing::two_sites;

    #[test]
    fn link_has_both_directions() {
        let topology = two_sites();
        let mut wires = Wires::new(&topology);
        let rows = wires.rows();
        let link = &rows["link/up"];
        assert_eq!((&link["from"], &link["to"], &link["back"]), (&json!("host/r1"), &json!("host/r2"), &Value::Null));
        assert_eq!(link["there"]["delay_ms"], json!(20.0));
        assert_eq!(rows["link/left/a"]["to"], json!("lan/left"));
        let net = topology.net_index("up").unwrap();
        let slow = TopologyChange::Rate(Rate::from_bps(56_000));
        let changed = wires.apply(WireChange { net, from: topology.host_index("r1"), change: slow });
        let link = &changed["link/up"];
        assert_eq!((&link["there"]["rate_bps"], &link["back"]["rate_bps"]), (&json!(56_000), &json!(1_000_000)));
    }

    #[test]
    fn link_goes_down_and_up() {
        let topology = two_sites();
        let mut wires = Wires::new(&topology);
        let left = topology.net_index("left").unwrap();
        let mut apply = |from: Option<&str>, change| {
            let from = from.and_then(|name| topology.host_index(name));
            let rows = wires.apply(WireChange { net: left, from, change });
            ["a", "r1"].map(|host| rows[&format!("link/left/{host}")]["there"]["up"] == json!(true))
        };
        assert_eq!(apply(Some("a"), TopologyChange::Down), [false, true]);
        assert_eq!(apply(None, TopologyChange::Down), [false, false]);
        assert_eq!(apply(None, TopologyChange::Delay(Duration::from_secs(1))), [false, false]);
        assert_eq!(apply(None, TopologyChange::Up), [true, true]);
    }
}
