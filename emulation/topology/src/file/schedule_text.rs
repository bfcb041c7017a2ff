//! Writing of programs, traffic and events.

use std::collections::BTreeSet;

use super::schedule::SIMULATOR;
use super::shape::LegOverrides;
use super::stanza::Stanza;
use crate::model::{
    Action, Event, HostProgram, ManualRoute, ProgramAction, RouteTarget, Topology, TopologyChange, TrafficAction,
    TrafficAgent,
};
use crate::units::format_duration;

pub(super) fn programs(topology: &Topology) -> Vec<Stanza> {
    let stanza = |program: &HostProgram| {
        let mut stanza = Stanza::new("[[program]]");
        stanza.text("name", &program.name);
        stanza.text("host", &topology.hosts[program.host].name);
        if !program.command.is_empty() {
            stanza.text("command", &program.command);
        }
        stanza.optional("folder", program.folder.as_deref());
        stanza.optional("timeout", program.timeout.map(format_duration).as_deref());
        if let Some(code) = program.expected_exit {
            stanza.raw("exit", code.to_string());
        }
        if program.start_command {
            stanza.raw("start_command", "true");
        }
        stanza
    };
    topology.programs.iter().map(stanza).collect()
}

pub(super) fn traffic(topology: &Topology) -> Vec<Stanza> {
    let stanza = |agent: &TrafficAgent| {
        let mut stanza = Stanza::new("[[traffic]]");
        stanza.text("name", &agent.name);
        stanza.text("host", &topology.hosts[agent.host].name);
        stanza.text("role", if agent.is_source { "source" } else { "sink" });
        stanza.text("protocol", if agent.tcp { "tcp" } else { "udp" });
        stanza.raw("port", agent.port.to_string());
        stanza.optional("target", agent.target.map(|host| topology.hosts[host].name.as_str()));
        stanza.raw("packet", agent.packet_bytes.to_string());
        stanza.text("rate", &agent.rate.to_string());
        if let Some(interval) = agent.interval {
            stanza.raw("interval", format!("{interval:?}"));
        }
        stanza
    };
    topology.traffic.iter().map(stanza).collect()
}

pub(super) fn routes(topology: &Topology) -> Vec<Stanza> {
    let host = |index: usize| topology.hosts[index].name.as_str();
    let stanza = |route: &ManualRoute| {
        let mut stanza = Stanza::new("[[route]]");
        stanza.text("host", host(route.host));
        stanza.text(
            "to",
            match route.to {
                RouteTarget::Host(index) => host(index),
                RouteTarget::Net(net) => &topology.nets[net].name,
            },
        );
        stanza.text("via", host(route.via));
        stanza
    };
    topology.manual_routes.iter().map(stanza).collect()
}

pub(super) fn events(topology: &Topology) -> Vec<Stanza> {
    let awaited: BTreeSet<usize> = topology.events.iter().filter_map(|event| event.after).collect();
    let stanza = |(index, event): (usize, &Event)| {
        let mut stanza = Stanza::new("[[event]]");
        stanza.text("at", &format_duration(event.at));
        if awaited.contains(&index) {
            stanza.text("id", &id(index));
        }
        stanza.optional("after", event.after.map(id).as_deref());
        let object = action(topology, &event.action, &mut stanza);
        if event.object != object {
            stanza.text("object", &event.object);
        }
        stanza
    };
    topology.events.iter().enumerate().map(stanza).collect()
}

/// The id of an event that other events wait for.
fn id(index: usize) -> String {
    format!("event{}", index + 1)
}

/// Writes an action, and returns the key under which the reader expects its object.
fn action(topology: &Topology, action: &Action, stanza: &mut Stanza) -> String {
    match action {
        Action::Net { net, from, change } => {
            let name = &topology.nets[*net].name;
            let from = from.map(|host| topology.hosts[host].name.as_str());
            stanza.text("net", name);
            stanza.optional("from", from);
            change_keys(change, stanza);
            from.map_or_else(|| name.clone(), |from| format!("{name}-{from}"))
        }
        Action::Program { program, what } => {
            let name = &topology.programs[*program].name;
            stanza.text("program", name);
            program_keys(what, stanza);
            name.clone()
        }
        Action::Traffic { agent, what } => {
            let name = &topology.traffic[*agent].name;
            stanza.text("traffic", name);
            traffic_keys(what, stanza);
            name.clone()
        }
        Action::Halt => {
            stanza.text("do", "halt");
            SIMULATOR.to_owned()
        }
        Action::Other { kind, event, args } => {
            stanza.text("kind", kind);
            stanza.text("event", event);
            stanza.optional("args", Some(args.as_str()).filter(|args| !args.is_empty()));
            String::new()
        }
    }
}

fn change_keys(change: &TopologyChange, stanza: &mut Stanza) {
    let shape = match *change {
        TopologyChange::Up => return stanza.text("do", "up"),
        TopologyChange::Down => return stanza.text("do", "down"),
        TopologyChange::Rate(rate) => LegOverrides { rate: Some(rate), ..LegOverrides::default() },
        TopologyChange::Delay(delay) => LegOverrides { delay: Some(delay), ..LegOverrides::default() },
        TopologyChange::Loss(loss) => LegOverrides { loss: Some(loss), ..LegOverrides::default() },
        TopologyChange::Burst(burst) => LegOverrides { burst: Some(burst), ..LegOverrides::default() },
        TopologyChange::Jitter(jitter) => LegOverrides { jitter: Some(jitter), ..LegOverrides::default() },
        TopologyChange::Order(order) => LegOverrides { order: Some(order), ..LegOverrides::default() },
        TopologyChange::Queue(queue) => LegOverrides { queue: Some(queue), ..LegOverrides::default() },
    };
    stanza.shape(&shape);
}

fn program_keys(what: &ProgramAction, stanza: &mut Stanza) {
    let (word, command) = match what {
        ProgramAction::Start(command) => ("start", command.as_deref()),
        ProgramAction::Run(command) => ("run", command.as_deref()),
        ProgramAction::Stop => ("stop", None),
        ProgramAction::Kill(_) => ("kill", None),
        ProgramAction::Set(command) => ("set", Some(command.as_str())),
    };
    stanza.text("do", word);
    stanza.optional("command", command);
    if let ProgramAction::Kill(signal) = what {
        stanza.text("signal", signal);
    }
}

fn traffic_keys(what: &TrafficAction, stanza: &mut Stanza) {
    match what {
        TrafficAction::Start => stanza.text("do", "start"),
        TrafficAction::Stop => stanza.text("do", "stop"),
        TrafficAction::PacketBytes(bytes) => stanza.raw("packet", bytes.to_string()),
        TrafficAction::Rate(rate) => stanza.text("rate", &rate.to_string()),
        TrafficAction::Interval(seconds) => stanza.raw("interval", format!("{seconds:?}")),
    }
}
