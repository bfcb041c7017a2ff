//! The schedule of a topology: Emulab's listing, and the events that happen here.
//!
//! Groups, sequences and timelines are expanded: every event here has one object. An event of a sequence that
//! waits for a program has that in [`Event::after`].

use std::collections::HashMap;
use std::time::Duration;

use roost_topology::emulab::{self, EmulabEvent};
use roost_topology::model::{
    Action, Discipline, Event, HostIndex, MAX_EVENTS, NetIndex, ProgramAction, Queue, Red, Topology, TopologyChange,
};

use super::{NsIndexMap, queue_of};
use crate::events::{Effect, NsEvent, QueueParameter};
use crate::state::{NsObjectId, NsObjectKind, NsState};
use crate::tcl::completion::TclCompletion;

/// The deepest nesting of sequences and timelines that start each other.
const MAX_NESTING: usize = 16;
/// The most bytes that arguments of all events may have: every start of a list expands it again.
const MAX_BYTES: usize = 64 << 20;

/// Adds every event; `first` are the rows that set up traffic at time 0.
pub(super) fn add(
    world: &NsState,
    topology: &mut Topology,
    places: &NsIndexMap,
    first: Vec<EmulabEvent>,
) -> Result<(), TclCompletion> {
    topology.emulab.events = rows(world, first);
    let mut opener = EventExpander { world, topology, places, opened: Vec::new(), bytes: 0 };
    for (at, made) in &world.schedule {
        opener.open(made, Cursor { at: *at, after: None }, 0)?;
    }
    let opened = sorted(opener.opened);
    topology.events = resolve_queues(world, opened)?;
    Ok(())
}

/// Emulab's listing: the schedule by time, then the lines of the lists.
fn rows(world: &NsState, mut rows: Vec<EmulabEvent>) -> Vec<EmulabEvent> {
    for (_, object) in world.objects() {
        if matches!(&object.kind, NsObjectKind::Net(net) if net.cloud) {
            let row = |at, event: &str| EmulabEvent {
                at: Duration::from_secs(at),
                object: object.name.clone(),
                node: "*".to_owned(),
                kind: "LINK".to_owned(),
                event: event.to_owned(),
                line: object.line,
                ..EmulabEvent::default()
            };
            rows.extend([row(0, "CLEAR"), row(1, "CREATE")]);
        }
    }
    rows.extend(world.schedule.iter().map(|(at, made)| EmulabEvent { at: *at, ..made.row.clone() }));
    rows.sort_by_key(|row| row.at);
    for (_, object) in world.objects() {
        let parent = Some(object.name.clone());
        match &object.kind {
            NsObjectKind::Sequence(events) => {
                rows.extend(events.iter().map(|made| EmulabEvent { parent: parent.clone(), ..made.row.clone() }));
            }
            NsObjectKind::Timeline(events) => {
                rows.extend(events.iter().map(|(at, made)| EmulabEvent {
                    at: *at,
                    parent: parent.clone(),
                    ..made.row.clone()
                }));
            }
            _ => {}
        }
    }
    rows
}

/// The time and dependency of the next event.
#[derive(Clone, Copy)]
struct Cursor {
    at: Duration,
    after: Option<usize>,
}

/// An event of one object; `queue` is resolved to a whole queue later.
struct ExpandedEvent {
    event: Event,
    queue: Option<(NetIndex, NsObjectId, HostIndex, QueueParameter)>,
}

struct EventExpander<'a> {
    world: &'a NsState,
    topology: &'a Topology,
    places: &'a NsIndexMap,
    opened: Vec<ExpandedEvent>,
    bytes: usize,
}

impl EventExpander<'_> {
    /// Adds the actions of `made`; returns their end, as far as it is known in advance.
    fn open(&mut self, made: &NsEvent, cursor: Cursor, depth: usize) -> Result<Cursor, TclCompletion> {
        if depth > MAX_NESTING {
            return Err(TclCompletion::refuse(format!(
                "\"{}\" starts itself, or too long a chain of lists",
                made.row.object
            )));
        }
        let waits = made.row.event == "RUN";
        let mut end = cursor;
        for effect in &made.effects {
            match effect {
                Effect::Run(list) => {
                    let ended = self.open_list(*list, cursor, depth + 1)?;
                    end = if waits { ended } else { end };
                }
                Effect::Queue { net, node, set } => self.open_queue(made, cursor, *net, *node, *set)?,
                effect => {
                    let action = self.action(made, effect);
                    if let Some(action) = action {
                        let at = self.push(made, cursor, action)?;
                        end.after = if waits { Some(at) } else { end.after };
                    }
                }
            }
        }
        Ok(end)
    }

    fn open_list(&mut self, list: NsObjectId, start: Cursor, depth: usize) -> Result<Cursor, TclCompletion> {
        let mut end = start;
        match &self.world.object(list).kind {
            NsObjectKind::Sequence(events) => {
                for made in events {
                    end = self.open(made, end, depth)?;
                }
            }
            NsObjectKind::Timeline(events) => {
                for (offset, made) in events {
                    let at = start.at.saturating_add(*offset);
                    self.open(made, Cursor { at, after: start.after }, depth)?;
                    end.at = end.at.max(at);
                }
            }
            _ => {}
        }
        Ok(end)
    }

    fn open_queue(
        &mut self,
        made: &NsEvent,
        cursor: Cursor,
        net: NsObjectId,
        node: Option<NsObjectId>,
        set: QueueParameter,
    ) -> Result<(), TclCompletion> {
        let (Some(&index), Some(of)) = (self.places.nets.get(&net), self.world.net(net)) else { return Ok(()) };
        for member in of.members.iter().filter(|member| node.is_none_or(|node| node == member.node)) {
            let Some(&host) = self.places.hosts.get(&member.node) else { continue };
            let action = Action::Net { net: index, from: Some(host), change: TopologyChange::Queue(Queue::DEFAULT) };
            let at = self.push(made, cursor, action)?;
            self.opened[at].queue = Some((index, member.queue, host, set));
        }
        Ok(())
    }

    fn action(&self, made: &NsEvent, effect: &Effect) -> Option<Action> {
        Some(match effect {
            Effect::Net { net, change } => {
                Action::Net { net: *self.places.nets.get(net)?, from: None, change: *change }
            }
            Effect::Program { program, what } => {
                let program = *self.places.programs.get(program)?;
                let what = self.own_command(program, what.clone());
                Action::Program { program, what }
            }
            Effect::Traffic { source, what } => {
                Action::Traffic { agent: *self.places.traffic.get(source)?, what: *what }
            }
            Effect::Halt => Action::Halt,
            Effect::Other | Effect::Run(_) | Effect::Queue { .. } => Action::Other {
                kind: made.row.kind.clone(),
                event: made.row.event.clone(),
                args: made.row.args.clone(),
            },
        })
    }

    /// Removes a command that equals the program's own.
    fn own_command(&self, program: usize, what: ProgramAction) -> ProgramAction {
        let own = self.topology.programs.get(program).map(emulab::command);
        let other = |command: Option<String>| command.filter(|command| Some(command) != own.as_ref());
        match what {
            ProgramAction::Start(command) => ProgramAction::Start(other(command)),
            ProgramAction::Run(command) => ProgramAction::Run(other(command)),
            what => what,
        }
    }

    fn push(&mut self, made: &NsEvent, cursor: Cursor, action: Action) -> Result<usize, TclCompletion> {
        self.bytes += made.row.args.len();
        if self.opened.len() >= MAX_EVENTS || self.bytes > MAX_BYTES {
            return Err(TclCompletion::refuse(format!(
                "there are more than {MAX_EVENTS} events, with those of groups and lists"
            )));
        }
        let event =
            Event { at: cursor.at, after: cursor.after, object: made.row.object.clone(), line: made.row.line, action };
        self.opened.push(ExpandedEvent { event, queue: None });
        Ok(self.opened.len() - 1)
    }
}

/// Sorts by time and keeps dependencies.
fn sorted(opened: Vec<ExpandedEvent>) -> Vec<ExpandedEvent> {
    let mut order: Vec<usize> = (0..opened.len()).collect();
    order.sort_by_key(|&at| opened[at].event.at);
    let mut places = vec![0; opened.len()];
    for (new, &old) in order.iter().enumerate() {
        places[old] = new;
    }
    let mut sorted: Vec<(usize, ExpandedEvent)> =
        opened.into_iter().enumerate().map(|(at, it)| (places[at], it)).collect();
    sorted.sort_by_key(|(at, _)| *at);
    sorted
        .into_iter()
        .map(|(_, mut it)| {
            it.event.after = it.event.after.map(|old| places[old]);
            it
        })
        .collect()
}

/// Gives every change of a queue the whole state of the queue after it.
fn resolve_queues(world: &NsState, opened: Vec<ExpandedEvent>) -> Result<Vec<Event>, TclCompletion> {
    let mut states: HashMap<NsObjectId, (Queue, Red)> = HashMap::new();
    let mut events = Vec::with_capacity(opened.len());
    for ExpandedEvent { mut event, queue } in opened {
        if let Some((net, id, host, set)) = queue {
            let (queue, red) = match states.get(&id) {
                Some(state) => *state,
                None => {
                    let queue = queue_of(world.object(id))?;
                    let red = if let Discipline::Red(red) = queue.discipline { red } else { Red::DEFAULT };
                    (queue, red)
                }
            };
            let (queue, red) = changed(queue, red, set);
            states.insert(id, (queue, red));
            event.action = Action::Net { net, from: Some(host), change: TopologyChange::Queue(queue) };
        }
        events.push(event);
    }
    Ok(events)
}

fn changed(mut queue: Queue, mut red: Red, set: QueueParameter) -> (Queue, Red) {
    match set {
        QueueParameter::Limit(limit) => queue.limit = limit,
        QueueParameter::InBytes(in_bytes) => queue.in_bytes = in_bytes,
        QueueParameter::MinThreshold(packets) => red.min_threshold = packets,
        QueueParameter::MaxThreshold(packets) => red.max_threshold = packets,
        QueueParameter::Linterm(linterm) => red.linterm = linterm,
        QueueParameter::Weight(weight) => red.weight = weight,
    }
    if matches!(queue.discipline, Discipline::Red(_)) {
        queue.discipline = Discipline::Red(red);
    }
    (queue, red)
}
