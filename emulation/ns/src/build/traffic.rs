//! Traffic agents of a topology, and the events that set them up.

use roost_topology::emulab::EmulabEvent;
use roost_topology::model::{Topology, TrafficAgent};
use roost_topology::units::Rate;
use roost_topology::validate::TopologyLines;

use super::{NsIndexMap, refuse, variable};
use crate::state::{NsAgent, NsObject, NsObjectId, NsObjectKind, NsState};
use crate::tcl::completion::TclCompletion;
use crate::tcl::number;
use crate::tcl::value::TclValue;
use crate::traffic::{PACKET_BYTES, RATE, is_full_tcp};
use crate::units;

/// Adds every agent on a node; returns the rows by which Emulab sets up the sources at time 0.
pub(super) fn add(
    world: &NsState,
    topology: &mut Topology,
    places: &mut NsIndexMap,
    lines: &mut TopologyLines,
) -> Result<Vec<EmulabEvent>, TclCompletion> {
    let mut rows = Vec::new();
    for (node, object) in world.objects() {
        let NsObjectKind::Node(of) = &object.kind else { continue };
        for id in &of.agents {
            let object = world.object(*id);
            let NsObjectKind::Agent(agent) = &object.kind else { continue };
            if agent.node == Some(node) {
                let agent = Described::new(world, object, agent, *id)?;
                rows.extend(agent.row(world, node));
                agent.add(world, topology, places);
                lines.traffic.push(object.line);
            }
        }
    }
    Ok(rows)
}

/// An agent with its application and its other end.
struct Described<'a> {
    id: NsObjectId,
    agent: &'a NsAgent,
    /// The object that names it: the application of a source, else the agent.
    named: (NsObjectId, &'a NsObject),
    other: &'a NsAgent,
    is_source: bool,
}

impl<'a> Described<'a> {
    fn new(
        world: &'a NsState,
        object: &'a NsObject,
        agent: &'a NsAgent,
        id: NsObjectId,
    ) -> Result<Self, TclCompletion> {
        let name = &object.name;
        let Some(is_source) = agent.source else {
            return refuse(object, &format!("the agent \"{name}\" is connected to nothing: use \"$ns connect\""));
        };
        let Some(NsObjectKind::Agent(other)) = agent.destination.map(|id| &world.object(id).kind) else {
            return refuse(object, &format!("the agent \"{name}\" is connected to nothing: use \"$ns connect\""));
        };
        if other.node.is_none() {
            return refuse(
                object,
                &format!("the other end of the agent \"{name}\" is on no node: use \"$ns attach-agent\""),
            );
        }
        let named = match (is_source, agent.application) {
            (true, None) => {
                return refuse(
                    object,
                    &format!("the agent \"{name}\" has nothing to send: attach an application to it"),
                );
            }
            (true, Some(application)) if !is_full_tcp(&agent.class) => (application, world.object(application)),
            _ => (id, object),
        };
        Ok(Self { id, agent, named, other, is_source })
    }

    fn add(&self, world: &NsState, topology: &mut Topology, places: &mut NsIndexMap) {
        let (Some(host), target) = (self.host(places, self.agent), self.host(places, self.other)) else { return };
        let index = topology.traffic.len();
        places.traffic.insert(self.named.0, index);
        places.traffic.insert(self.id, index);
        let application = self.agent.application.filter(|_| self.is_source);
        places.traffic.extend(application.map(|application| (application, index)));
        let source = application.map(|application| world.object(application));
        let is_cbr = source.is_some_and(|source| source.class() == "Application/Traffic/CBR");
        let text = |name: &str| source.map_or("", |source| variable(source, name));
        let proto = if self.is_source { self.agent.proto } else { self.other.proto };
        let rate = if is_cbr { kbps(source.and_then(|source| source.variables.get("rate_"))).unwrap_or(0) } else { 0 };
        let size = Some(text("packetSize_")).filter(|text| !text.is_empty()).unwrap_or(PACKET_BYTES);
        topology.traffic.push(TrafficAgent {
            name: self.named.1.name.clone(),
            host,
            is_source: self.is_source,
            tcp: proto == "tcp",
            port: self.agent.port,
            target,
            // The syntax was checked when the value was set.
            packet_bytes: number::prefix(size).map_or(0, |(bytes, _)| bytes as u32),
            rate: Rate::from_bps(rate * 1000),
            interval: text("interval_").parse().ok().filter(|seconds| *seconds > 0.0),
        });
    }

    fn host(&self, places: &NsIndexMap, agent: &NsAgent) -> Option<usize> {
        agent.node.and_then(|node| places.hosts.get(&node).copied())
    }

    fn row(&self, world: &NsState, node: NsObjectId) -> Option<EmulabEvent> {
        let source = world.object(self.agent.application?);
        if source.class() != "Application/Traffic/CBR" {
            return None;
        }
        let or = |name: &str, default: &str| match variable(source, name) {
            "" => default.to_owned(),
            text => text.to_owned(),
        };
        let rate = kbps(source.variables.get("rate_")).map_or("-1".to_owned(), |kbps| kbps.to_string());
        let interval = Some(or("interval_", "-1")).filter(|text| text != "0").unwrap_or_else(|| "-1".to_owned());
        let tos = Some(or("iptos_", "-1")).filter(|text| text != "0").unwrap_or_else(|| "-1".to_owned());
        Some(EmulabEvent {
            object: source.name.clone(),
            node: world.name(node).to_owned(),
            kind: "TRAFGEN".to_owned(),
            event: "MODIFY".to_owned(),
            args: format!("PACKETSIZE={} RATE={rate} INTERVAL={interval} IPTOS={tos}", or("packetSize_", PACKET_BYTES)),
            line: source.line,
            ..EmulabEvent::default()
        })
    }
}

/// A source's rate in kbit/s; `None` if its sender decides.
fn kbps(rate: Option<&TclValue>) -> Option<u64> {
    match rate.map_or(RATE, TclValue::as_str) {
        "" | "0" => None,
        // The syntax was checked when the value was set.
        rate => units::bandwidth(rate).map(units::Bandwidth::kbps).ok(),
    }
}
