//! `[[program]]`, `[[traffic]]` and `[[event]]`.

use std::collections::BTreeMap;
use std::time::Duration;

use super::TopologyReader;
use super::fields::{Fields, Located};
use super::shape::{self, LegOverrides};
use crate::model::{
    Action, Event, HostIndex, HostProgram, MAX_EVENTS, MAX_PROGRAMS, ProgramAction, TopologyChange, TrafficAction,
    TrafficAgent,
};
use crate::units::Rate;

const OF_PROGRAM: [&str; 8] = ["name", "host", "command", "folder", "timeout", "exit", "start", "start_command"];
const OF_TRAFFIC: [&str; 9] = ["name", "host", "role", "protocol", "port", "target", "packet", "rate", "interval"];
const OF_EVENT: [&str; 16] = [
    "at", "id", "after", "net", "from", "program", "traffic", "do", "command", "signal", "packet", "interval",
    "object", "kind", "event", "args",
];
/// The latest time of an event after the start: a year.
const MAX_TIME: Duration = Duration::from_secs(366 * 86_400);
/// The name of the experiment as a whole in listings, as in NS files.
pub(super) const SIMULATOR: &str = "ns";
const MAX_PACKET: i64 = 65_507;
const INTERVAL: &str = "seconds between packets, from 0.000001 to 1000000";

#[cfg(test)]
pub(super) fn keys() -> Vec<&'static str> {
    [&OF_PROGRAM[..], &OF_TRAFFIC, &OF_EVENT].concat()
}

/// An event with its id and the id of the event that it waits for.
struct Draft<'t> {
    event: Event,
    id: Option<Located<&'t str>>,
    after: Option<Located<&'t str>>,
}

impl<'t> TopologyReader<'t> {
    pub(super) fn read_programs(&mut self, root: &Fields<'t>) {
        for item in root.tables("program") {
            if let Some(fields) = Fields::from_value(root.source(), "a program", item, &OF_PROGRAM) {
                self.read_program(&fields);
            }
        }
    }

    fn read_program(&mut self, fields: &Fields<'t>) {
        let name = fields.text("name");
        let name = fields.required("name", name, "\"camera\"");
        let hosts = fields.texts("host");
        let hosts = fields.required("host", hosts, "\"a\"").and_then(|words| self.host_list(words));
        let like = HostProgram {
            command: fields.string("command").unwrap_or_default(),
            folder: fields.string("folder"),
            timeout: fields.duration("timeout", MAX_TIME),
            expected_exit: fields.whole("exit", -128, 255).and_then(|code| i32::try_from(code).ok()),
            start_command: fields.flag("start_command").unwrap_or(false),
            ..HostProgram::default()
        };
        let start = fields.duration("start", MAX_TIME);
        let (Some(name), Some(hosts)) = (name, hosts) else { return };
        for host in &hosts {
            let name = match hosts.len() {
                1 => name.value.to_owned(),
                _ => format!("{}-{}", name.value, self.topology.hosts[host.value].name),
            };
            self.add_program(fields, HostProgram { name, host: host.value, ..like.clone() }, start);
        }
    }

    fn add_program(&mut self, fields: &Fields<'_>, program: HostProgram, start: Option<Duration>) {
        let index = self.topology.programs.len();
        if index == MAX_PROGRAMS {
            return fields.refuse(format!("a topology has at most {MAX_PROGRAMS} programs"));
        }
        let line = self.source.line(fields.at());
        if let Some(at) = start {
            let action = Action::Program { program: index, what: ProgramAction::Start(None) };
            self.topology.events.push(Event { at, after: None, object: program.name.clone(), line, action });
        }
        self.programs.insert(program.name.clone(), index);
        self.lines.programs.push(line);
        self.topology.programs.push(program);
    }

    pub(super) fn read_traffic(&mut self, root: &Fields<'t>) {
        for item in root.tables("traffic") {
            let Some(fields) = Fields::from_value(root.source(), "traffic", item, &OF_TRAFFIC) else { continue };
            let index = self.topology.traffic.len();
            if index == MAX_PROGRAMS {
                return fields.refuse(format!("a topology has at most {MAX_PROGRAMS} traffic agents"));
            }
            if let Some(agent) = self.read_agent(&fields) {
                self.traffic.insert(agent.name.clone(), index);
                self.lines.traffic.push(self.source.line(fields.at()));
                self.topology.traffic.push(agent);
            }
        }
    }

    fn read_agent(&self, fields: &Fields<'_>) -> Option<TrafficAgent> {
        let name = fields.required("name", fields.string("name"), "\"cbr0\"");
        let host = fields.required("host", self.one_host(fields, "host"), "\"a\"");
        let role = fields.parsed("role", |text| one_of(text, "sink", "source"));
        let role = fields.required("role", role, "\"source\", or \"sink\"");
        let tcp = fields.parsed("protocol", |text| one_of(text, "udp", "tcp"));
        let port = fields.whole("port", 1, 65_535).and_then(|port| u16::try_from(port).ok());
        let target = self.one_host(fields, "target");
        let packet = fields.whole("packet", 1, MAX_PACKET).and_then(|bytes| u32::try_from(bytes).ok());
        let (rate, interval) = (fields.rate("rate"), fields.number("interval", 1e-6, 1e6, INTERVAL));
        Some(TrafficAgent {
            name: name?,
            host: host?,
            is_source: role?,
            tcp: tcp.unwrap_or(false),
            port: fields.required("port", port, "5001")?,
            target,
            packet_bytes: packet.unwrap_or(500),
            rate: rate.unwrap_or(Rate::UNLIMITED),
            interval,
        })
    }

    /// Reads the events and sorts them by time.
    pub(super) fn read_events(&mut self, root: &Fields<'t>) {
        let starts = std::mem::take(&mut self.topology.events).into_iter();
        let mut drafts: Vec<Draft<'t>> = starts.map(|event| Draft { event, id: None, after: None }).collect();
        for item in root.tables("event") {
            let keys = [OF_EVENT.as_slice(), &shape::KEYS].concat();
            let Some(fields) = Fields::from_value(root.source(), "an event", item, &keys) else { continue };
            drafts.extend(self.read_event(&fields));
            if drafts.len() > MAX_EVENTS {
                return fields.refuse(format!("a topology has at most {MAX_EVENTS} events"));
            }
        }
        drafts.sort_by_key(|draft| draft.event.at);
        self.resolve_dependencies(drafts);
    }

    fn read_event(&self, fields: &Fields<'t>) -> Vec<Draft<'t>> {
        let at = fields.required("at", fields.duration("at", MAX_TIME), "\"10s\"");
        let (object, actions) = self.read_actions(fields).unwrap_or_default();
        let Some(at) = at else { return Vec::new() };
        let object = fields.string("object").unwrap_or(object);
        let line = self.source.line(fields.at());
        let (id, after) = (fields.text("id"), fields.text("after"));
        let event = |action| Event { at, after: None, object: object.clone(), line, action };
        actions.into_iter().map(|action| Draft { event: event(action), id, after }).collect()
    }

    /// Finds the events that other events wait for.
    fn resolve_dependencies(&mut self, drafts: Vec<Draft<'t>>) {
        let mut ids: BTreeMap<String, usize> = BTreeMap::new();
        for (index, id) in drafts.iter().enumerate().filter_map(|(index, draft)| Some((index, draft.id?))) {
            if ids.insert(id.value.to_owned(), index).is_some() {
                self.source.refuse(id.at, format!("another event has the id `{}` too", id.value));
            }
        }
        for draft in drafts {
            let named = draft.after.map(|after| Located { value: after.value.to_owned(), at: after.at });
            let after = named.and_then(|after| self.find(&ids, "event with the id", &after));
            self.topology.events.push(Event { after, ..draft.event });
        }
    }

    /// The object of an event, and all its actions.
    fn read_actions(&self, fields: &Fields<'_>) -> Option<(String, Vec<Action>)> {
        let find = |known, what, key| {
            let text = fields.text(key)?;
            let found = self.find(known, what, &Located { value: text.value.to_owned(), at: text.at })?;
            Some((text.value.to_owned(), found))
        };
        let subjects = ["net", "program", "traffic", "kind"].iter().filter(|key| fields.has(key)).count();
        let halts = fields.text("do").is_some_and(|word| word.value == "halt");
        if subjects != 1 && !(halts && subjects == 0) {
            fields.miss("an event is about one `net`, `program` or `traffic`, or says do = \"halt\"");
            return None;
        }
        if fields.has("net") {
            let (name, net) = find(&self.nets, "link or LAN", "net")?;
            return self.read_net_event(fields, name, net);
        }
        if fields.has("program") {
            let (name, program) = find(&self.programs, "program", "program")?;
            let what = program_action(fields)?;
            return Some((name, vec![Action::Program { program, what }]));
        }
        if fields.has("traffic") {
            let (name, agent) = find(&self.traffic, "traffic agent", "traffic")?;
            let actions = traffic_actions(fields).into_iter().map(|what| Action::Traffic { agent, what });
            return Some((name, actions.collect()));
        }
        if let Some(kind) = fields.string("kind") {
            let event = fields.required("event", fields.string("event"), "\"REBOOT\"")?;
            let args = fields.string("args").unwrap_or_default();
            return Some((String::new(), vec![Action::Other { kind, event, args }]));
        }
        Some((SIMULATOR.to_owned(), vec![Action::Halt]))
    }

    fn read_net_event(&self, fields: &Fields<'_>, name: String, net: usize) -> Option<(String, Vec<Action>)> {
        let from = match fields.has("from") {
            true => Some(self.one_host(fields, "from")?),
            false => None,
        };
        let host = |host: HostIndex| &self.topology.hosts[host].name;
        if let Some(from) = from
            && !self.topology.nets[net].members.iter().any(|member| member.host == from)
        {
            fields.refuse(format!("`{}` is not on `{name}`", host(from)));
            return None;
        }
        let changes = net_changes(fields);
        let object = from.map_or(name.clone(), |from| format!("{name}-{}", host(from)));
        Some((object, changes.into_iter().map(|change| Action::Net { net, from, change }).collect()))
    }
}

/// All changes of a net by one event: the values first, then up or down.
fn net_changes(fields: &Fields<'_>) -> Vec<TopologyChange> {
    let problems = fields.source().problems();
    let shape = LegOverrides::read(fields);
    let values = [
        shape.rate.map(TopologyChange::Rate),
        shape.delay.map(TopologyChange::Delay),
        shape.loss.map(TopologyChange::Loss),
        shape.jitter.map(TopologyChange::Jitter),
        shape.burst.map(TopologyChange::Burst),
        shape.queue.map(TopologyChange::Queue),
    ];
    let word = fields.parsed("do", |text| one_of(text, "up", "down"));
    let state = word.map(|down| if down { TopologyChange::Down } else { TopologyChange::Up });
    let changes: Vec<TopologyChange> = values.into_iter().flatten().chain(state).collect();
    if changes.is_empty() && fields.source().problems() == problems {
        fields.miss("the event changes nothing: write do = \"down\", do = \"up\", or a new rate, delay, loss…");
    }
    changes
}

fn program_action(fields: &Fields<'_>) -> Option<ProgramAction> {
    let word = fields.text("do");
    let word = fields.required("do", word, "\"start\"")?;
    let command = fields.string("command");
    Some(match word.value {
        "start" => ProgramAction::Start(command),
        "run" => ProgramAction::Run(command),
        "stop" => ProgramAction::Stop,
        "kill" => ProgramAction::Kill(fields.string("signal").unwrap_or_else(|| "TERM".to_owned())),
        "set" => ProgramAction::Set(fields.required("command", command, "\"ping b\"")?),
        other => {
            let message = format!("`do` of a program's event is start, run, stop, kill or set, not `{other}`");
            fields.source().refuse(word.at, message);
            return None;
        }
    })
}

/// All actions of one event on a traffic agent: the values first, then start or stop.
fn traffic_actions(fields: &Fields<'_>) -> Vec<TrafficAction> {
    let problems = fields.source().problems();
    let packet = fields.whole("packet", 1, MAX_PACKET).and_then(|bytes| u32::try_from(bytes).ok());
    let interval = fields.number("interval", 1e-6, 1e6, INTERVAL);
    let word = fields.parsed("do", |text| one_of(text, "start", "stop"));
    let state = word.map(|stop| if stop { TrafficAction::Stop } else { TrafficAction::Start });
    let values = [
        packet.map(TrafficAction::PacketBytes),
        fields.rate("rate").map(TrafficAction::Rate),
        interval.map(TrafficAction::Interval),
        state,
    ];
    let actions: Vec<TrafficAction> = values.into_iter().flatten().collect();
    if actions.is_empty() && fields.source().problems() == problems {
        fields.miss("the event changes nothing: write do = \"start\", do = \"stop\", or a packet, rate, interval");
    }
    actions
}

/// True if the word is `second`, false if it is `first`, or an error.
fn one_of(word: &str, first: &str, second: &str) -> Result<bool, String> {
    match word {
        _ if word == first => Ok(false),
        _ if word == second => Ok(true),
        _ => Err(format!("`{word}` is neither {first} nor {second}")),
    }
}
