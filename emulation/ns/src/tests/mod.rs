//! Whole files and their topologies.

mod events;
mod naming;
mod nets;
mod programs;
mod refusals;
mod storage;

use roost_topology::emulab::EmulabEvent;
use roost_topology::model::{Leg, Net, Topology};

use super::{NsError, NsLimits, parse};

/// Reads a description wrapped in a Simulator and its run.
fn read(description: &str) -> Result<Topology, NsError> {
    let source = format!("set ns [new Simulator]\nsource tb_compat.tcl\n{description}\n$ns run\n");
    parse("x.ns", &source, &NsLimits::default())
}

fn topology(description: &str) -> Topology {
    read(description).unwrap_or_else(|error| panic!("{description}\n{error}"))
}

/// Reads a description after three nodes `a`, `b` and `c`.
fn three(description: &str) -> Topology {
    topology(&format!("set a [$ns node]; set b [$ns node]; set c [$ns node]\n{description}"))
}

fn net<'a>(topology: &'a Topology, name: &str) -> &'a Net {
    let index = topology.net_index(name).unwrap_or_else(|| panic!("no {name} in {:?}", topology.nets));
    &topology.nets[index]
}

fn members(topology: &Topology, name: &str) -> Vec<String> {
    net(topology, name).members.iter().map(|member| topology.hosts[member.host].name.clone()).collect()
}

fn host_names(topology: &Topology) -> Vec<&str> {
    topology.hosts.iter().map(|host| host.name.as_str()).collect()
}

fn net_names(topology: &Topology) -> Vec<&str> {
    topology.nets.iter().map(|net| net.name.as_str()).collect()
}

/// Kilobits per second, microseconds, and loss.
fn shape(leg: &Leg) -> (u64, u128, f64) {
    (leg.rate.bps() / 1000, leg.delay.as_micros(), (leg.loss * 1e6).round() / 1e6)
}

/// Rows as `t object node TYPE EVENT args`, with the parent if there is one.
fn rows(topology: &Topology) -> Vec<String> {
    topology.emulab.events.iter().map(row).collect()
}

fn row(row: &EmulabEvent) -> String {
    let parent = row.parent.as_ref().map_or(String::new(), |parent| format!(" <{parent}"));
    let text =
        format!("{} {} {} {} {} {}{parent}", row.at.as_secs_f64(), row.object, row.node, row.kind, row.event, row.args);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn warned(topology: &Topology, text: &str) -> bool {
    topology.notes.warnings.iter().any(|note| note.text.contains(text))
}

fn ignored(topology: &Topology, text: &str) -> bool {
    topology.notes.ignored.iter().any(|note| note.text.contains(text))
}
