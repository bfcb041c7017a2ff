//! `[[program]]`, `[[traffic]]` and `[[event]]`.

use std::collections::BTreeMap;
use std::time::Duration;

use ::toml::Spanned;
use serde::Deserialize;

use super::TopologyReader;
use super::shape::with_shape;
use super::values::{self, Whole, Words};
use crate::model::{
    Action, Event, HostIndex, HostProgram, MAX_EVENTS, MAX_PROGRAMS, ProgramAction, TopologyChange, TrafficAction,
    TrafficAgent,
};
use crate::units::Rate;

/// The name of the experiment as a whole in listings, as in NS files.
pub(super) const SIMULATOR: &str = "ns";

type PacketBytes = Whole<u32, 1, 65_507>;

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ProgramFile {
    name: Option<String>,
    host: Option<Words>,
    command: String,
    folder: Option<String>,
    #[serde(deserialize_with = "values::time")]
    timeout: Option<Duration>,
    exit: Option<Whole<i32, -128, 255>>,
    #[serde(deserialize_with = "values::time")]
    start: Option<Duration>,
    start_command: bool,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct TrafficFile {
    name: Option<String>,
    host: Option<Spanned<String>>,
    role: Option<Role>,
    protocol: Protocol,
    port: Option<Whole<u16, 1, 65_535>>,
    target: Option<Spanned<String>>,
    packet: Option<PacketBytes>,
    rate: Option<Rate>,
    #[serde(deserialize_with = "values::interval")]
    interval: Option<f64>,
}

#[derive(PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Role {
    Sink,
    Source,
}

#[derive(Default, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Protocol {
    #[default]
    Udp,
    Tcp,
}

with_shape!(EventFile {
    #[serde(deserialize_with = "crate::file::values::time")]
    at: Option<Duration>,
    id: Option<Spanned<String>>,
    after: Option<Spanned<String>>,
    net: Option<Spanned<String>>,
    from: Option<Spanned<String>>,
    program: Option<Spanned<String>>,
    traffic: Option<Spanned<String>>,
    #[serde(rename = "do")]
    verb: Option<Spanned<String>>,
    command: Option<String>,
    signal: Option<String>,
    packet: Option<PacketBytes>,
    #[serde(deserialize_with = "crate::file::values::interval")]
    interval: Option<f64>,
    object: Option<String>,
    kind: Option<String>,
    event: Option<String>,
    args: Option<String>,
});

/// An event with its id and the id of the event that it waits for.
struct Draft {
    event: Event,
    id: Option<Spanned<String>>,
    after: Option<Spanned<String>>,
}

impl TopologyReader<'_> {
    pub(super) fn read_programs(&mut self, files: Vec<Spanned<ProgramFile>>) {
        for file in files {
            let at = file.span().start;
            let ProgramFile { name, host, command, folder, timeout, exit, start, start_command } = file.into_inner();
            let name = self.source.required(at, "a program", "name", name, "\"camera\"");
            let hosts = self.source.required(at, "a program", "host", host, "\"a\"");
            let (Some(name), Some(hosts)) = (name, hosts.and_then(|words| self.host_list(&words.0))) else { continue };
            let expected_exit = exit.map(|code| code.0);
            let like = HostProgram { command, folder, timeout, expected_exit, start_command, ..HostProgram::default() };
            for host in &hosts {
                let host = *host.get_ref();
                let name = match hosts.len() {
                    1 => name.clone(),
                    _ => format!("{name}-{}", self.topology.hosts[host].name),
                };
                self.add_program(at, HostProgram { name, host, ..like.clone() }, start);
            }
        }
    }

    fn add_program(&mut self, at: usize, program: HostProgram, start: Option<Duration>) {
        let index = self.topology.programs.len();
        if index == MAX_PROGRAMS {
            return self.source.refuse(at, format!("a topology has at most {MAX_PROGRAMS} programs"));
        }
        let line = self.source.line(at);
        if let Some(at) = start {
            let action = Action::Program { program: index, what: ProgramAction::Start(None) };
            self.topology.events.push(Event { at, after: None, object: program.name.clone(), line, action });
        }
        self.programs.insert(program.name.clone(), index);
        self.lines.programs.push(line);
        self.topology.programs.push(program);
    }

    pub(super) fn read_traffic(&mut self, files: Vec<Spanned<TrafficFile>>) {
        for file in files {
            let at = file.span().start;
            let index = self.topology.traffic.len();
            if index == MAX_PROGRAMS {
                return self.source.refuse(at, format!("a topology has at most {MAX_PROGRAMS} traffic agents"));
            }
            if let Some(agent) = self.read_agent(at, file.into_inner()) {
                self.traffic.insert(agent.name.clone(), index);
                self.lines.traffic.push(self.source.line(at));
                self.topology.traffic.push(agent);
            }
        }
    }

    fn read_agent(&self, at: usize, file: TrafficFile) -> Option<TrafficAgent> {
        let name = self.source.required(at, "traffic", "name", file.name, "\"cbr0\"");
        let host = self.source.required(at, "traffic", "host", file.host, "\"a\"").and_then(|name| self.host(&name));
        let role = self.source.required(at, "traffic", "role", file.role, "\"source\", or \"sink\"");
        let port = self.source.required(at, "traffic", "port", file.port, "5001");
        let target = file.target.and_then(|name| self.host(&name));
        Some(TrafficAgent {
            name: name?,
            host: host?,
            is_source: role? == Role::Source,
            tcp: file.protocol == Protocol::Tcp,
            port: port?.0,
            target,
            packet_bytes: file.packet.map_or(500, |bytes| bytes.0),
            rate: file.rate.unwrap_or(Rate::UNLIMITED),
            interval: file.interval,
        })
    }

    /// Reads the events and sorts them by time.
    pub(super) fn read_events(&mut self, files: Vec<Spanned<EventFile>>) {
        let starts = std::mem::take(&mut self.topology.events).into_iter();
        let mut drafts: Vec<Draft> = starts.map(|event| Draft { event, id: None, after: None }).collect();
        for file in files {
            let at = file.span().start;
            drafts.extend(self.read_event(at, file.get_ref()));
            if drafts.len() > MAX_EVENTS {
                return self.source.refuse(at, format!("a topology has at most {MAX_EVENTS} events"));
            }
        }
        drafts.sort_by_key(|draft| draft.event.at);
        self.resolve_dependencies(drafts);
    }

    fn read_event(&self, place: usize, file: &EventFile) -> Vec<Draft> {
        let at = self.source.required(place, "an event", "at", file.at, "\"10s\"");
        let (object, actions) = self.read_actions(place, file).unwrap_or_default();
        let Some(at) = at else { return Vec::new() };
        let object = file.object.clone().unwrap_or(object);
        let line = self.source.line(place);
        let event = |action| Event { at, after: None, object: object.clone(), line, action };
        let draft = |action| Draft { event: event(action), id: file.id.clone(), after: file.after.clone() };
        actions.into_iter().map(draft).collect()
    }

    /// Finds the events that other events wait for.
    fn resolve_dependencies(&mut self, drafts: Vec<Draft>) {
        let mut ids: BTreeMap<String, usize> = BTreeMap::new();
        for (index, draft) in drafts.iter().enumerate() {
            let Some(id) = &draft.id else { continue };
            if ids.insert(id.get_ref().clone(), index).is_some() {
                self.source.refuse(id.span().start, format!("another event has the id `{}` too", id.get_ref()));
            }
        }
        for draft in drafts {
            let after = draft.after.and_then(|after| self.find(&ids, "event with the id", &after));
            self.topology.events.push(Event { after, ..draft.event });
        }
    }

    /// The object of an event, and all its actions.
    fn read_actions(&self, at: usize, file: &EventFile) -> Option<(String, Vec<Action>)> {
        let halts = file.verb.as_ref().is_some_and(|word| word.get_ref() == "halt");
        match (&file.net, &file.program, &file.traffic, &file.kind) {
            (Some(net), None, None, None) => self.net_actions(at, net, file),
            (None, Some(name), None, None) => {
                let program = self.find(&self.programs, "program", name)?;
                let what = self.program_action(at, file)?;
                Some((name.get_ref().clone(), vec![Action::Program { program, what }]))
            }
            (None, None, Some(name), None) => {
                let agent = self.find(&self.traffic, "traffic agent", name)?;
                let actions = self.traffic_actions(at, file).into_iter();
                Some((name.get_ref().clone(), actions.map(|what| Action::Traffic { agent, what }).collect()))
            }
            (None, None, None, Some(kind)) => {
                let event = self.source.required(at, "an event", "event", file.event.clone(), "\"REBOOT\"")?;
                let args = file.args.clone().unwrap_or_default();
                Some((String::new(), vec![Action::Other { kind: kind.clone(), event, args }]))
            }
            (None, None, None, None) if halts => Some((SIMULATOR.to_owned(), vec![Action::Halt])),
            _ => {
                let message = "an event is about one `net`, `program` or `traffic`, or says do = \"halt\"";
                self.source.miss(at, "net", message);
                None
            }
        }
    }

    fn net_actions(&self, at: usize, name: &Spanned<String>, file: &EventFile) -> Option<(String, Vec<Action>)> {
        let net = self.find(&self.nets, "link or LAN", name)?;
        let name = name.get_ref();
        let from = match &file.from {
            Some(host) => Some(self.host(host)?),
            None => None,
        };
        let host = |host: HostIndex| &self.topology.hosts[host].name;
        if let Some(from) = from
            && !self.topology.nets[net].members.iter().any(|member| member.host == from)
        {
            self.source.refuse(at, format!("`{}` is not on `{name}`", host(from)));
            return None;
        }
        let changes = self.net_changes(at, file);
        let object = from.map_or(name.clone(), |from| format!("{name}-{}", host(from)));
        Some((object, changes.into_iter().map(|change| Action::Net { net, from, change }).collect()))
    }

    /// All changes of a net by one event: the values first, then up or down.
    fn net_changes(&self, at: usize, file: &EventFile) -> Vec<TopologyChange> {
        let shape = file.shape(self.source);
        if shape.trace.is_some() {
            self.source
                .refuse(at, "an event cannot begin a trace: give it to the link, where it plays from the beginning");
        }
        let values = [
            shape.rate.map(TopologyChange::Rate),
            shape.delay.map(TopologyChange::Delay),
            shape.loss.map(TopologyChange::Loss),
            shape.jitter.map(TopologyChange::Jitter),
            shape.burst.map(TopologyChange::Burst),
            shape.order.map(TopologyChange::Order),
            shape.queue.map(TopologyChange::Queue),
            self.verb(file, ["up", "down"], [TopologyChange::Up, TopologyChange::Down]),
        ];
        let nothing = "the event changes nothing: write do = \"down\", do = \"up\", or a new rate, delay, loss…";
        self.some_of(at, file, values, nothing)
    }

    fn program_action(&self, at: usize, file: &EventFile) -> Option<ProgramAction> {
        let word = self.source.required(at, "an event", "do", file.verb.as_ref(), "\"start\"")?;
        let command = file.command.clone();
        Some(match word.get_ref().as_str() {
            "start" => ProgramAction::Start(command),
            "run" => ProgramAction::Run(command),
            "stop" => ProgramAction::Stop,
            "kill" => ProgramAction::Kill(file.signal.clone().unwrap_or_else(|| "TERM".to_owned())),
            "set" => ProgramAction::Set(self.source.required(at, "an event", "command", command, "\"ping b\"")?),
            other => {
                let message = format!("`do` of a program's event is start, run, stop, kill or set, not `{other}`");
                self.source.refuse(word.span().start, message);
                return None;
            }
        })
    }

    /// All actions of one event on a traffic agent: the values first, then start or stop.
    fn traffic_actions(&self, at: usize, file: &EventFile) -> Vec<TrafficAction> {
        let values = [
            file.packet.map(|bytes| TrafficAction::PacketBytes(bytes.0)),
            file.rate.map(TrafficAction::Rate),
            file.interval.map(TrafficAction::Interval),
            self.verb(file, ["start", "stop"], [TrafficAction::Start, TrafficAction::Stop]),
        ];
        let nothing = "the event changes nothing: write do = \"start\", do = \"stop\", or a packet, rate, interval";
        self.some_of(at, file, values, nothing)
    }

    /// The meaning of `do`, if it is one of two words.
    fn verb<T>(&self, file: &EventFile, words: [&str; 2], meanings: [T; 2]) -> Option<T> {
        let verb = file.verb.as_ref()?;
        let [first, second] = words;
        let found = words.into_iter().zip(meanings).find(|(word, _)| word == verb.get_ref());
        if found.is_none() {
            let message = format!("`do` of an event: `{}` is neither {first} nor {second}", verb.get_ref());
            self.source.refuse(verb.span().start, message);
        }
        found.map(|(_, meaning)| meaning)
    }

    /// The values that an event gives; records the mistake `nothing` if it gives none.
    fn some_of<T, const N: usize>(&self, at: usize, file: &EventFile, values: [Option<T>; N], nothing: &str) -> Vec<T> {
        let values: Vec<T> = values.into_iter().flatten().collect();
        if values.is_empty() && file.verb.is_none() && !self.source.is_partial(at) {
            self.source.refuse(at, nothing);
        }
        values
    }
}
