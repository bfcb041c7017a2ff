//! Events of `$ns at`, sequences and timelines: `object verb argument…`.

mod agents;
mod nets;
mod others;

use roost_topology::emulab::EmulabEvent;
use roost_topology::model::{ProgramAction, TopologyChange, TrafficAction};

use super::state::{NsObjectId, NsObjectKind};
use super::tcl::completion::{TclCompletion, fail};
use super::tcl::interp::TclInterpreter;
use super::tcl::short;
use super::tcl::value::TclValue;

#[derive(Clone, Debug, Default)]
pub(crate) struct NsEvent {
    pub row: EmulabEvent,
    /// The actions: one, or the same for each member of a group.
    pub effects: Vec<Effect>,
}

#[derive(Clone, Debug)]
pub(crate) enum Effect {
    Net {
        net: NsObjectId,
        change: TopologyChange,
    },
    Queue {
        net: NsObjectId,
        node: Option<NsObjectId>,
        set: QueueParameter,
    },
    Program {
        program: NsObjectId,
        what: ProgramAction,
    },
    Traffic {
        source: NsObjectId,
        what: TrafficAction,
    },
    Run(NsObjectId),
    Halt,
    /// No effect here.
    Other,
}

/// A queue parameter that an event sets.
#[derive(Clone, Copy, Debug)]
pub(crate) enum QueueParameter {
    Limit(u32),
    InBytes(bool),
    MinThreshold(u32),
    MaxThreshold(u32),
    Linterm(u32),
    Weight(f64),
}

pub(super) struct NsEventDraft<'a> {
    /// The object or group, as the file names it.
    pub object: &'a str,
    pub verb: &'a str,
    pub arguments: &'a [TclValue],
    /// The objects: the members, if it is a group.
    pub targets: &'a [NsObjectId],
    pub is_group: bool,
}

impl NsEventDraft<'_> {
    fn argument(&self, at: usize) -> &str {
        self.arguments.get(at).map_or("", TclValue::as_str)
    }

    /// Requires at least `least` words after the verb.
    fn need(&self, least: usize, how: &str) -> Result<(), TclCompletion> {
        match self.arguments.len() >= least {
            true => Ok(()),
            false => Err(TclCompletion::refuse(format!(
                "the event \"{} {}\" is too short: write \"{how}\"",
                self.object, self.verb
            ))),
        }
    }

    fn unknown_verb<T>(&self, what: &str, verbs: &str) -> Result<T, TclCompletion> {
        Err(TclCompletion::refuse(format!(
            "\"{}\" is nothing that an event can do to {what} such as \"{}\": it can {verbs}",
            short(self.verb),
            self.object
        )))
    }

    fn row(&self, kind: &str, event: &str, args: impl Into<String>) -> EmulabEvent {
        EmulabEvent {
            object: self.object.to_owned(),
            kind: kind.to_owned(),
            event: event.to_owned(),
            args: args.into(),
            ..EmulabEvent::default()
        }
    }

    /// An event with the same effect on every target.
    fn each(&self, row: EmulabEvent, effect: impl Fn(NsObjectId) -> Effect) -> NsEvent {
        NsEvent { row, effects: self.targets.iter().map(|id| effect(*id)).collect() }
    }

    fn without_effect(row: EmulabEvent) -> NsEvent {
        NsEvent { row, effects: vec![Effect::Other] }
    }
}

/// Variables that Emulab's parser assigns for every event.
const EVERY_EVENT: [&str; 11] =
    ["obj", "cmd", "evargs", "vnode", "vname", "otype", "etype", "args", "atstring", "cl", "rc"];

/// Further variables that it assigns for some kinds.
fn assigned_by(kind: &str, wanted: &NsEventDraft<'_>) -> &'static [&'static str] {
    let is_queue = matches!(wanted.argument(0), name if name.ends_with('_'));
    match (kind, wanted.verb) {
        ("LINK", "set") if is_queue => &["node", "lanlink", "arg"],
        ("LINK", "bandwidth") => &["arg", "bw"],
        ("LINK", "delay") | ("PROGRAM", "kill") | ("SLOTHD", _) => &["arg"],
        ("LINKTRACE", _) => &["action"],
        ("TRAFGEN", "set") if wanted.argument(0) == "rate_" => &["arg", "bw"],
        ("TRAFGEN", "set") => &["arg"],
        ("PROGRAM", "start" | "run" | "set") if wanted.arguments.iter().any(|it| it.as_str() == "-timeout") => {
            &["default_command", "to"]
        }
        ("PROGRAM", "start" | "run" | "set") => &["default_command"],
        ("NODE", "setdest") => &["topo", "x", "y", "speed"],
        ("NODE", "snapshot-to") => &["image"],
        _ => &[],
    }
}

impl TclInterpreter {
    /// Reads the events in `text`, which semicolons separate.
    pub(crate) fn make_events(&mut self, text: &str) -> Result<Vec<NsEvent>, TclCompletion> {
        let mut made = Vec::new();
        for event in text.split(';') {
            made.extend(self.make_event(&TclValue::from(event))?);
        }
        Ok(made)
    }

    /// Reads one event; `None` for a comment.
    pub(crate) fn make_event(&mut self, text: &TclValue) -> Result<Option<NsEvent>, TclCompletion> {
        self.spend(1)?;
        let words = self.list(text)?;
        let object = words.first().map_or("", TclValue::as_str);
        self.assigned(&EVERY_EVENT);
        if object.starts_with('#') {
            return Ok(None);
        }
        let Some(verb) = words.get(1).filter(|verb| !verb.is_empty()) else {
            return Err(TclCompletion::refuse(match object.is_empty() {
                true => "an event is empty: nothing may follow the last \";\"".to_owned(),
                false => format!("the event \"{}\" does not say what is to happen", short(text.as_str())),
            }));
        };
        let Some(id) = self.world.find(object) else {
            return fail(format!(
                "the event \"{}\" is about \"{}\", which is no object",
                short(text.as_str()),
                short(object)
            ));
        };
        let (targets, is_group) = match &self.world.object(id).kind {
            NsObjectKind::Group(members) => (members.clone(), true),
            _ => (vec![id], false),
        };
        let wanted = NsEventDraft { object, verb: verb.as_str(), arguments: &words[2..], targets: &targets, is_group };
        let Some(first) = targets.first() else {
            return Err(TclCompletion::refuse(format!("the group \"{object}\" has no members yet")));
        };
        let mut made = self.dispatch(*first, &wanted)?;
        self.assigned(assigned_by(&made.row.kind, &wanted));
        // The row and every member keep a copy of the command.
        self.spend(made.row.args.len().saturating_mul(1 + made.effects.len()) / 64)?;
        made.row.line = self.line;
        Ok(Some(made))
    }

    fn dispatch(&mut self, first: NsObjectId, wanted: &NsEventDraft<'_>) -> Result<NsEvent, TclCompletion> {
        match &self.world.object(first).kind {
            NsObjectKind::Net(_) => self.net_event(wanted),
            NsObjectKind::Queue(_) => self.queue_event(first, wanted),
            NsObjectKind::Program => self.program_event(first, wanted),
            NsObjectKind::Application(application) => {
                let class = application.class.clone();
                self.application_event(first, &class, wanted)
            }
            NsObjectKind::Agent(agent) if agent.class.starts_with("Agent/TCP/FullTcp") => self.nse_event(first, wanted),
            NsObjectKind::Node(node) if !node.bridge => others::node_event(wanted, node.placed),
            NsObjectKind::Group(_) => Err(TclCompletion::refuse(format!(
                "\"{}\" is a group of groups, and Emulab's parser takes no events of those: say it of each group",
                wanted.object
            ))),
            NsObjectKind::Sequence(_) => others::list_event(wanted, "SEQUENCE"),
            NsObjectKind::Timeline(_) => others::list_event(wanted, "TIMELINE"),
            NsObjectKind::Simulator => others::simulator_event(wanted),
            NsObjectKind::Ineffective(class @ ("Console" | "Disk" | "Custom")) => Ok(others::idle_event(class, wanted)),
            _ => Err(TclCompletion::refuse(format!(
                "nothing can happen to \"{}\": events are about links, LANs, queues, programs, traffic, nodes and groups",
                wanted.object
            ))),
        }
    }
}
