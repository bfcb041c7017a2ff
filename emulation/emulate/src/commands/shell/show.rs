//! Displays of `emulate shell`.

use roost_lab::Lab;
use roost_results::record;
use roost_terminal::{Output, SCHEMA, Table};
use roost_topology::emulab;
use roost_topology::model::{Action, Leg, Net, NetIndex, NetKind, NetMember, PacketOrder, Topology, TopologyChange};
use roost_topology::units::{format_duration, format_percent};
use serde_json::json;

use super::line::NetChange;
use crate::failure::CommandResult;

/// The hosts, with an address for each interface.
pub(super) fn nodes(topology: &Topology, output: Output) -> CommandResult {
    let interfaces = topology.interfaces();
    let rows = topology.hosts.iter().zip(interfaces).map(|(host, own)| {
        let place = |(net, place): (NetIndex, usize)| {
            let net = &topology.nets[net];
            Some((net.name.as_str(), net.members[place].address?))
        };
        (host, own.into_iter().filter_map(place).collect::<Vec<_>>())
    });
    if output.is_json() {
        let nodes: Vec<_> = rows
            .map(|(host, own)| {
                let own: Vec<_> = own.iter().map(|(net, address)| json!({"net": net, "address": address})).collect();
                json!({"name": host.name, "class": host.class, "interfaces": own})
            })
            .collect();
        return Ok(output.json(&json!({"schema": SCHEMA, "nodes": nodes}))?);
    }
    let mut table = Table::new(&["HOST", "CLASS", "INTERFACES"]);
    for (host, own) in rows {
        let own: Vec<String> = own.iter().map(|(net, address)| format!("{address} on {net}")).collect();
        table.row([host.name.clone(), host.class.clone().unwrap_or_else(|| "-".to_owned()), own.join(", ")]);
    }
    Ok(output.table(&table)?)
}

/// Links and LANs in their present state, with the counters of every direction.
pub(super) fn links(lab: &Lab, as_it_is: &Topology, only: Option<NetIndex>, output: Output) -> CommandResult {
    let counters = lab.counters()?;
    let chosen = |net: &Net| only.is_none_or(|only| as_it_is.nets[only].name == net.name);
    if output.is_json() {
        let wanted: Vec<&record::LinkRecord> =
            counters.iter().filter(|one| as_it_is.nets.iter().any(|net| net.name == one.link && chosen(net))).collect();
        return Ok(output.json(&json!({"schema": SCHEMA, "links": wanted}))?);
    }
    let columns = ["NET", "DIRECTION", ">RATE", ">DELAY", ">LOSS", ">IN", ">OUT", ">DROPPED", ">UNDER WAY"];
    let mut table = Table::new(&columns);
    let all = as_it_is.nets.iter().flat_map(|net| directions(as_it_is, net).into_iter().map(move |one| (net, one)));
    // Counters come in the same order.
    for ((net, (from, to, leg)), counted) in all.zip(&counters).filter(|((net, _), _)| chosen(net)) {
        let mut row = vec![net.name.clone(), format!("{from} → {to}")];
        let [rate, delay, loss] = values(&leg);
        row.extend([if counted.is_down { "down".to_owned() } else { rate }, delay, loss]);
        row.extend(counts(counted));
        table.row(row);
    }
    Ok(output.table(&table)?)
}

/// Every direction of a net: its ends and its values.
fn directions<'a>(topology: &'a Topology, net: &'a Net) -> Vec<(&'a str, &'a str, Leg)> {
    let name = |place: usize| topology.hosts[net.members[place].host].name.as_str();
    match (net.kind, net.members.as_slice()) {
        (NetKind::Link, [a, b]) => {
            vec![(name(0), name(1), a.to_net.joined(&b.from_net)), (name(1), name(0), b.to_net.joined(&a.from_net))]
        }
        (_, members) => {
            let legs = |(place, member): (usize, &'a NetMember)| {
                let (host, lan) = (name(place), net.name.as_str());
                [(host, lan, member.to_net.clone()), (lan, host, member.from_net.clone())]
            };
            members.iter().enumerate().flat_map(legs).collect()
        }
    }
}

fn values(leg: &Leg) -> [String; 3] {
    let jitter = if leg.jitter.is_zero() { String::new() } else { format!("+{}", format_duration(leg.jitter)) };
    let burst = if leg.burst.is_some() { " and bursts" } else { "" };
    let loss = if leg.loss == 0.0 { "0".to_owned() } else { format_percent(leg.loss) };
    let trace = leg.trace.as_deref().map(|playback| format!(", {}", playback.describe())).unwrap_or_default();
    let rate = if leg.rate_trace().is_some() { "trace".to_owned() } else { leg.rate.to_string() };
    [rate, format_duration(leg.delay) + &jitter, loss + burst + &trace]
}

fn counts(one: &record::LinkRecord) -> Vec<String> {
    let reasons = [(one.dropped_queue, "queue"), (one.dropped_loss, "loss"), (one.dropped_down, "down")];
    let dropped: Vec<String> =
        reasons.iter().filter(|(count, _)| *count > 0).map(|(count, why)| format!("{count} {why}")).collect();
    let dropped = if dropped.is_empty() { "0".to_owned() } else { dropped.join(", ") };
    vec![one.packets_in.to_string(), one.packets_out.to_string(), dropped, one.in_flight.to_string()]
}

pub(super) fn changed(topology: &Topology, asked: &NetChange) -> String {
    let net = &topology.nets[asked.net];
    let place = match (asked.from, net.kind) {
        (None, NetKind::Link) => format!("{}, both directions", net.name),
        (None, NetKind::Lan) => format!("{}, from host to host", net.name),
        (Some(host), NetKind::Link) => format!("{}, what {} sends", net.name, topology.hosts[host].name),
        (Some(host), NetKind::Lan) => format!("{}, each leg of {}", net.name, topology.hosts[host].name),
    };
    let changes: Vec<String> = asked.changes.iter().map(change).collect();
    format!("{place}: {}", changes.join(", "))
}

fn change(change: &TopologyChange) -> String {
    match change {
        TopologyChange::Up => "up".to_owned(),
        TopologyChange::Down => "down".to_owned(),
        TopologyChange::Rate(rate) => format!("rate {rate}"),
        TopologyChange::Delay(delay) => format!("delay {}", format_duration(*delay)),
        TopologyChange::Loss(loss) => format!("loss {}", format_percent(*loss)),
        TopologyChange::Burst(None) => "no bursts of loss".to_owned(),
        TopologyChange::Burst(Some(burst)) => {
            format!("bursts of {:.1} packets, loss {} in them", 1.0 / burst.leave, format_percent(burst.loss))
        }
        TopologyChange::Order(PacketOrder::Free) => "packets overtake".to_owned(),
        TopologyChange::Order(PacketOrder::Kept) => "packets keep their order".to_owned(),
        TopologyChange::Jitter(jitter) => format!("jitter {}", format_duration(*jitter)),
        TopologyChange::Queue(queue) => {
            format!("queue of {} {}", queue.limit, if queue.in_bytes { "bytes" } else { "packets" })
        }
    }
}

pub(super) fn lateness(lab: &Lab, output: Output) -> CommandResult {
    let overruns = lab.overruns()?;
    let late = lab.lateness();
    let micros = |part: f64| late.quantile(part).as_secs_f64() * 1e6;
    let [p50, p99, p999, max] = [micros(0.5), micros(0.99), micros(0.999), late.max().as_secs_f64() * 1e6];
    if output.is_json() {
        return Ok(output.json(&json!({
            "schema": SCHEMA, "packets": late.packets(), "overruns": overruns,
            "lateness_p50_us": p50, "lateness_p99_us": p99, "lateness_p999_us": p999, "lateness_max_us": max,
        }))?);
    }
    let millis = |micros: f64| format!("{:.3} ms", micros / 1e3);
    let text = format!(
        "{} packets delivered; late by {} (half), {} (99 %), {} (99.9 %), {} at most; {overruns} lost to a slow machine\n",
        late.packets(),
        millis(p50),
        millis(p99),
        millis(p999),
        millis(max)
    );
    Ok(output.data(&text)?)
}

pub(super) fn events(lab: &Lab, output: Output) -> CommandResult {
    let topology = lab.topology();
    let now = lab.now().since(roost_wire::Time::ZERO);
    let state = |at, action: &Action| match action {
        Action::Net { .. } if at <= now => "done",
        Action::Net { .. } => "to come",
        // Programs and traffic belong to experiments.
        _ => "not run by the shell",
    };
    let rows = emulab::events(&Topology { emulab: emulab::EmulabFacts::default(), ..topology.clone() });
    let initial = rows.len().saturating_sub(topology.events.len());
    let rows = rows.into_iter().skip(initial).zip(&topology.events);
    let rows = rows.map(|(row, event)| (row, state(event.at, &event.action)));
    if output.is_json() {
        let rows: Vec<_> = rows
            .map(|(row, state)| {
                json!({"at_s": row.at.as_secs_f64(), "object": row.object, "event": row.event, "args": row.args, "state": state})
            })
            .collect();
        return Ok(output.json(&json!({"schema": SCHEMA, "now_s": now.as_secs_f64(), "events": rows}))?);
    }
    output.data(&format!("now: {:.1} s\n", now.as_secs_f64()))?;
    if topology.events.is_empty() {
        return Ok(output.data("the file schedules nothing\n")?);
    }
    let mut table = Table::new(&[">AT", "OBJECT", "EVENT", "ARGUMENTS", "STATE"]);
    for (row, state) in rows {
        table.row([format_duration(row.at), row.object, row.event, row.args, state.to_owned()]);
    }
    Ok(output.table(&table)?)
}
