//! An experiment's events and programs as Emulab lists them, so that its listings and ours can be compared.
//!
//! A topology from an NS file keeps the rows that Emulab's parser would have stored ([`EmulabFacts::events`]);
//! for other topologies they are made from their [`Action`]s.

use std::time::Duration;

use super::model::{
    Action, Discipline, Event, HostProgram, NetIndex, PacketOrder, ProgramAction, Queue, Routing, Topology,
    TopologyChange, TrafficAction, TrafficAgent,
};
use crate::units::{Rate, format_duration};

/// Facts of an NS file that only Emulab's listings show.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EmulabFacts {
    /// Emulab's name of the routing, such as `static-ddijk`, if ours does not imply it.
    pub routing: Option<String>,
    /// Nets of rate `~`, for which nothing is reserved: unlimited here, 10 kbit/s in Emulab's tables.
    pub best_effort: Vec<NetIndex>,
    /// Every event as Emulab stores it, with groups, sequences and timelines unexpanded; empty for topologies
    /// that are not from an NS file.
    pub events: Vec<EmulabEvent>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EmulabEvent {
    /// Time since the start of the run or of the timeline; zero in a sequence.
    pub at: Duration,
    /// The link, queue (`link1-n1`), program, agent, group, sequence or simulator.
    pub object: String,
    /// The host of a program or agent, `*` for all of them, or empty.
    pub node: String,
    pub kind: String,
    pub event: String,
    pub args: String,
    /// The sequence or timeline that this line belongs to.
    pub parent: Option<String>,
    /// The line of the file, or 0 if it is unknown.
    pub line: u32,
}

/// Lists every event of `topology` as Emulab would.
pub fn events(topology: &Topology) -> Vec<EmulabEvent> {
    match topology.emulab.events.is_empty() {
        false => topology.emulab.events.clone(),
        true => {
            let agents = topology.traffic.iter().filter(|agent| agent.is_source);
            let initial = agents.map(|agent| agent_row(topology, agent, "MODIFY", initial_args(agent)));
            initial.chain(topology.events.iter().map(|event| event_row(topology, event))).collect()
        }
    }
}

/// Emulab's name of the routing: `none`, `static`, `ospf`, `manual` or a variant.
pub fn routing(topology: &Topology) -> &str {
    match (&topology.emulab.routing, topology.routing) {
        (Some(name), _) => name,
        (None, Routing::None) => "none",
        (None, Routing::Static) => "static",
        (None, Routing::Session) => "ospf",
        (None, Routing::Manual) => "manual",
    }
}

/// A program's command as Emulab stores it. Emulab wraps a start command so that it reports the exit code.
pub fn command(program: &HostProgram) -> String {
    match program.start_command {
        true => format!("({} ; /usr/local/etc/emulab/startcmddone $?)", program.command),
        false => program.command.clone(),
    }
}

/// Emulab stores rates in whole kbit/s.
pub fn kbps(rate: Rate) -> u64 {
    rate.bps() / 1000
}

pub fn event_row(topology: &Topology, event: &Event) -> EmulabEvent {
    let mut row = match &event.action {
        Action::Net { net, from, change } => {
            let name = topology.nets.get(*net).map_or("", |net| &net.name);
            let object = match from.and_then(|host| topology.hosts.get(host)) {
                Some(host) => format!("{name}-{}", host.name),
                None => name.to_owned(),
            };
            let (what, args) = change_args(change);
            EmulabEvent { object, kind: "LINK".to_owned(), event: what.to_owned(), args, ..EmulabEvent::default() }
        }
        Action::Program { program, what } => program_row(topology, *program, what),
        Action::Traffic { agent, what } => traffic_row(topology, *agent, *what),
        Action::Halt => EmulabEvent {
            object: event.object.clone(),
            node: "*".to_owned(),
            kind: "SIMULATOR".to_owned(),
            event: "HALT".to_owned(),
            ..EmulabEvent::default()
        },
        Action::Other { kind, event: what, args } => EmulabEvent {
            object: event.object.clone(),
            kind: kind.clone(),
            event: what.clone(),
            args: args.clone(),
            ..EmulabEvent::default()
        },
    };
    row.at = event.at;
    row.line = event.line;
    row
}

fn change_args(change: &TopologyChange) -> (&'static str, String) {
    match change {
        TopologyChange::Up => ("UP", String::new()),
        TopologyChange::Down => ("DOWN", String::new()),
        TopologyChange::Rate(rate) => ("MODIFY", format!("BANDWIDTH={}", kbps(*rate))),
        TopologyChange::Delay(delay) => ("MODIFY", format!("DELAY={}", format_duration(*delay))),
        TopologyChange::Loss(loss) => ("MODIFY", format!("PLR={loss}")),
        TopologyChange::Queue(queue) => ("MODIFY", queue_args(queue)),
        // Emulab has no events for the last three.
        TopologyChange::Burst(None) => ("MODIFY", "BURST=none".to_owned()),
        TopologyChange::Burst(Some(burst)) => {
            ("MODIFY", format!("BURST={},{},{}", burst.enter, burst.leave, burst.loss))
        }
        TopologyChange::Order(order) => ("MODIFY", format!("REORDER={}", u8::from(*order == PacketOrder::Free))),
        TopologyChange::Jitter(jitter) => ("MODIFY", format!("JITTER={}", format_duration(*jitter))),
    }
}

fn queue_args(queue: &Queue) -> String {
    let mut args = format!("LIMIT={} QUEUE-IN-BYTES={}", queue.limit, u8::from(queue.in_bytes));
    if let Discipline::Red(red) = queue.discipline {
        args += &format!(
            " THRESH={} MAXTHRESH={} LINTERM={} Q_WEIGHT={}",
            red.min_threshold, red.max_threshold, red.linterm, red.weight
        );
    }
    args
}

fn program_row(topology: &Topology, index: usize, what: &ProgramAction) -> EmulabEvent {
    let Some(program) = topology.programs.get(index) else { return EmulabEvent::default() };
    let command = |given: &Option<String>| {
        let command = given.clone().unwrap_or_else(|| command(program));
        if command.is_empty() { command } else { format!("COMMAND={command}") }
    };
    let (event, args) = match what {
        ProgramAction::Start(given) => ("START", command(given)),
        ProgramAction::Run(given) => ("RUN", command(given)),
        ProgramAction::Stop => ("STOP", String::new()),
        ProgramAction::Kill(signal) => ("KILL", format!("SIGNAL={signal}")),
        ProgramAction::Set(command) => ("MODIFY", format!("COMMAND={command}")),
    };
    EmulabEvent {
        object: program.name.clone(),
        node: topology.hosts.get(program.host).map_or_else(String::new, |host| host.name.clone()),
        kind: "PROGRAM".to_owned(),
        event: event.to_owned(),
        args,
        ..EmulabEvent::default()
    }
}

fn traffic_row(topology: &Topology, index: usize, what: TrafficAction) -> EmulabEvent {
    let Some(agent) = topology.traffic.get(index) else { return EmulabEvent::default() };
    let (event, args) = match what {
        TrafficAction::Start => ("START", String::new()),
        TrafficAction::Stop => ("STOP", String::new()),
        TrafficAction::PacketBytes(bytes) => ("MODIFY", format!("PACKETSIZE={bytes}")),
        TrafficAction::Rate(rate) => ("MODIFY", format!("RATE={}", kbps(rate))),
        TrafficAction::Interval(seconds) => ("MODIFY", format!("INTERVAL={seconds}")),
    };
    agent_row(topology, agent, event, args)
}

fn initial_args(agent: &TrafficAgent) -> String {
    let rate = if agent.rate.is_unlimited() { "-1".to_owned() } else { kbps(agent.rate).to_string() };
    let interval = agent.interval.map_or_else(|| "-1".to_owned(), |seconds| seconds.to_string());
    format!("PACKETSIZE={} RATE={rate} INTERVAL={interval} IPTOS=-1", agent.packet_bytes)
}

fn agent_row(topology: &Topology, agent: &TrafficAgent, event: &str, args: String) -> EmulabEvent {
    EmulabEvent {
        object: agent.name.clone(),
        node: topology.hosts.get(agent.host).map_or_else(String::new, |host| host.name.clone()),
        kind: "TRAFGEN".to_owned(),
        event: event.to_owned(),
        args,
        ..EmulabEvent::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Host, Net, NetKind};

    fn topology() -> Topology {
        Topology {
            hosts: vec![Host { name: "n1".to_owned(), ..Host::default() }],
            nets: vec![Net { name: "link1".to_owned(), kind: NetKind::Lan, members: vec![], cost: 1.0 }],
            programs: vec![HostProgram {
                name: "n1_startcmd".to_owned(),
                command: "date".to_owned(),
                start_command: true,
                ..HostProgram::default()
            }],
            ..Topology::default()
        }
    }

    fn row(action: Action) -> (String, String, String, String) {
        let event = Event { at: Duration::from_secs(2), after: None, object: "x".to_owned(), line: 3, action };
        let EmulabEvent { object, kind, event, args, .. } = event_row(&topology(), &event);
        (object, kind, event, args)
    }

    fn texts(object: &str, kind: &str, event: &str, args: &str) -> (String, String, String, String) {
        (object.to_owned(), kind.to_owned(), event.to_owned(), args.to_owned())
    }

    #[test]
    fn net_changes_are_written_like_emulab() {
        let change = |from, change| row(Action::Net { net: 0, from, change });
        assert_eq!(change(None, TopologyChange::Down), texts("link1", "LINK", "DOWN", ""));
        assert_eq!(
            change(Some(0), TopologyChange::Rate(Rate::from_bps(1_000_000))),
            texts("link1-n1", "LINK", "MODIFY", "BANDWIDTH=1000")
        );
        assert_eq!(
            change(None, TopologyChange::Delay(Duration::from_millis(300))),
            texts("link1", "LINK", "MODIFY", "DELAY=300ms")
        );
        assert_eq!(change(None, TopologyChange::Loss(0.05)), texts("link1", "LINK", "MODIFY", "PLR=0.05"));
    }

    #[test]
    fn start_command_shows_its_wrapper() {
        let wrapped = "COMMAND=(date ; /usr/local/etc/emulab/startcmddone $?)";
        let action = Action::Program { program: 0, what: ProgramAction::Start(None) };
        assert_eq!(row(action), texts("n1_startcmd", "PROGRAM", "START", wrapped));
    }

    #[test]
    fn dangling_index_gives_empty_row() {
        let action = Action::Traffic { agent: 7, what: TrafficAction::Start };
        assert_eq!(row(action), texts("", "", "", ""));
    }
}
