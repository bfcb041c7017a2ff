//! The links of a network as they are at a moment of the run.

use std::time::Duration;

use roost_dashboard::Rows;
use roost_results::record::LinkLoad;
use roost_topology::model::{HostIndex, Leg, Net, NetIndex, NetKind, TopologyChange};
use roost_topology::trace::TraceValues;
use roost_topology::units::{Rate, format_duration};
use roost_topology::{Topology, amend};
use serde_json::{Value, json};

/// The network after the faults so far.
pub(crate) struct Wires {
    topology: Topology,
    /// By net and member: true while what the member sends is lost.
    is_down: Vec<Vec<bool>>,
    is_down_in_trace: Vec<Vec<bool>>,
}

/// Smaller changes of a trace's delay or loss are not told: a page keeps all that it was told.
const LEAST_CHANGE: f64 = 0.05;

/// A change of a link or LAN, or of the part of it that belongs to one host.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct WireChange {
    pub(crate) net: NetIndex,
    pub(crate) from: Option<HostIndex>,
    pub(crate) change: TopologyChange,
}

pub(crate) fn is_radio(topology: &Topology, net: NetIndex) -> bool {
    topology.radios.iter().any(|radio| radio.net == net)
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
        let is_down: Vec<Vec<bool>> = topology.nets.iter().map(|net| vec![false; net.members.len()]).collect();
        let mut wires = Self { topology: topology.clone(), is_down_in_trace: is_down.clone(), is_down };
        wires.play(Duration::ZERO);
        wires
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

    /// The rows of links whose traces give another delay or loss, or another state, so long after the run began.
    pub(crate) fn play(&mut self, since: Duration) -> Rows {
        let mut rows = Rows::new();
        for net in 0..self.topology.nets.len() {
            if self.play_net(net, since) {
                rows.extend(self.rows_of(net));
            }
        }
        rows
    }

    /// True if the traces of a net give other values than before.
    fn play_net(&mut self, net: NetIndex, since: Duration) -> bool {
        let is_link = self.topology.nets[net].kind == NetKind::Link;
        let mut has_changed = false;
        for (place, member) in self.topology.nets[net].members.iter_mut().enumerate() {
            // A host of a link receives the packets that the other one sends.
            let other = if is_link { 1 - place.min(1) } else { place };
            for (leg, sender) in [(&mut member.to_net, place), (&mut member.from_net, other)] {
                let Some(values) = leg.trace.as_deref().map(|playback| playback.values(since)) else { continue };
                has_changed |= play_leg(leg, values);
                if let (Some(is_up), Some(is_down)) = (values.is_up, self.is_down_in_trace[net].get_mut(sender)) {
                    has_changed |= *is_down == is_up;
                    *is_down = !is_up;
                }
            }
        }
        has_changed
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

    /// The rows of a link, or of the legs of a LAN; the links of a radio come and go by themselves.
    fn rows_of(&self, index: NetIndex) -> Rows {
        if is_radio(&self.topology, index) {
            return Rows::new();
        }
        let net = &self.topology.nets[index];
        let host = |place: usize| format!("host/{}", self.topology.hosts[net.members[place].host].name);
        let is_up = |place: usize| !self.is_down[index][place] && !self.is_down_in_trace[index][place];
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

/// True if the page is told of a value that takes the place of another one.
pub(crate) fn differs(before: f64, now: f64) -> bool {
    (now - before).abs() > before.abs() * LEAST_CHANGE
}

/// Sets the delay and the loss of a leg; true if one of them is another one.
fn play_leg(leg: &mut Leg, values: TraceValues) -> bool {
    let delay = values.delay.filter(|now| differs(leg.delay.as_secs_f64(), now.as_secs_f64()));
    let loss = values.loss.filter(|now| differs(leg.loss, *now));
    (leg.delay, leg.loss) = (delay.unwrap_or(leg.delay), loss.unwrap_or(leg.loss));
    delay.is_some() || loss.is_some()
}

fn leg(leg: &Leg, is_up: bool) -> Value {
    let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
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
    use std::path::PathBuf;
    use std::sync::Arc;

    use roost_topology::trace::{Playback, Trace, read_trace};

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

    #[test]
    fn delay_follows_its_trace() {
        let mut topology = two_sites();
        let content = read_trace("time_s,delay_ms,up\n0,40,1\n2,41,1\n4,90,1\n6,90,0\n8,40,1\n").unwrap();
        let trace = Arc::new(Trace { path: PathBuf::new(), sha256: String::new(), content });
        let net = topology.net_index("up").unwrap();
        let playback = Playback { file: "sat.csv".to_owned(), start: Duration::ZERO, once: false, trace };
        let leg = &mut topology.nets[net].members[0].to_net;
        (leg.trace, leg.delay) = (Some(Arc::new(playback)), Duration::from_millis(5));
        let mut wires = Wires::new(&topology);
        let far = 10.0;
        assert_eq!(wires.rows()["link/up"]["there"]["delay_ms"], json!(40.0 + far));
        // A millisecond more is no news.
        assert!(wires.play(Duration::from_secs(3)).is_empty());
        let rows = wires.play(Duration::from_secs(5));
        assert_eq!((rows.len(), &rows["link/up"]["there"]["delay_ms"]), (1, &json!(90.0 + far)));
        assert_eq!(wires.play(Duration::from_secs(7))["link/up"]["there"]["up"], json!(false));
        assert_eq!(wires.play(Duration::from_secs(9))["link/up"]["there"]["up"], json!(true));
    }
}
