//! A part of a run: its machines, and the requests of their nodes.

use std::collections::{BTreeSet, HashMap};

use bytes::Bytes;
use roost_core::node::{NodeCommand, NodeEvent, Ticket};
use roost_experiment::mobility::Mobility;
use roost_experiment::plan::DaemonAction;
use roost_experiment::workload::{Workload, WorkloadPhase};
use roost_experiment::{Prepared, RequestEnd, RequestSettings};
use roost_results::record::{PositionRecord, RequestOutcome, RequestRecord, RoomStreamRecord};
use roost_wire::{Cell, NodeId, Scheme, Time};

use super::connections::MachineId;
use super::event_queue::SimEventQueue;
use super::requester::{RequesterAction, RequesterId, SimRequestContext, SimRequester};
use super::rooms::{RoomProgress, SimRooms};
use super::world::{MachineRole, SimWorld};

/// A part of a run. Its times count from the start of the workload.
pub(super) struct RunPart<'a> {
    prepared: &'a Prepared,
    pub(super) world: SimWorld<'a>,
    stage: SimRequestContext<'a>,
    /// By node.
    requesters: Vec<Vec<SimRequester>>,
    rooms: SimRooms,
    calendar: SimEventQueue<PartTimer>,
    /// Records since the last fetch, in order of time.
    notes: Vec<(Time, RunNote)>,
    begin: Time,
    is_warm_up: bool,
    /// Nodes that should have a home and had none so far.
    without_home: BTreeSet<MachineId>,
    active: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum PartTimer {
    Ask(RequesterId),
    TimeOut(RequesterId, Ticket),
    Move,
    /// A member enters or leaves its room, or requests a stream again.
    Room(usize),
}

/// A record of a part for the results.
#[derive(Debug)]
pub(super) enum RunNote {
    Request(RequestRecord),
    RoomStream(RoomStreamRecord),
    Position(PositionRecord),
    Incident { object: String, what: String },
}

/// The end of a stage of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StageEnd {
    Attached,
    /// No request is in progress, at this time or later.
    Idle(Time),
    TimeUp,
}

impl<'a> RunPart<'a> {
    pub(super) fn new(prepared: &'a Prepared, world: SimWorld<'a>, places: &'a HashMap<NodeId, usize>) -> Self {
        let Prepared { plan, placement, .. } = prepared;
        let hubs = placement.hubs.len();
        let has_home = |node: &usize| world.has(hubs + node) && !placement.nodes[*node].hubs.is_empty();
        Self {
            prepared,
            begin: world.now,
            is_warm_up: false,
            without_home: (0..placement.nodes.len()).filter(has_home).map(|node| hubs + node).collect(),
            rooms: SimRooms::new(prepared, &world),
            world,
            stage: SimRequestContext {
                placement,
                settings: RequestSettings::from_plan(plan),
                places,
                walk: Mobility::from_prepared(prepared),
            },
            requesters: placement.nodes.iter().map(|_| Vec::new()).collect(),
            calendar: SimEventQueue::new(),
            notes: Vec::new(),
            active: 0,
        }
    }

    fn now(&self) -> Time {
        Time::ZERO + self.world.now.since(self.begin)
    }

    fn node(&self, machine: MachineId) -> Option<usize> {
        self.world.participants()[machine].part.node()
    }

    pub(super) const fn without_home(&self) -> &BTreeSet<MachineId> {
        &self.without_home
    }

    pub(super) const fn active(&self) -> u32 {
        self.active
    }

    pub(super) fn fetch_notes(&mut self) -> Vec<(Time, RunNote)> {
        std::mem::take(&mut self.notes)
    }

    fn add_note(&mut self, note: RunNote) {
        self.notes.push((self.now(), note));
    }

    /// True if a stage may end here and now.
    pub(super) fn is_at(&self, end: StageEnd) -> bool {
        match end {
            StageEnd::Attached => {
                let last = (0..self.world.participants().len()).rev().find(|machine| self.world.has(*machine));
                self.without_home.is_empty() && last.is_none_or(|last| self.world.runs(last))
            }
            StageEnd::Idle(earliest) => self.active == 0 && self.now() >= earliest,
            StageEnd::TimeUp => false,
        }
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        [self.own_deadline(), self.world.deadline()].into_iter().flatten().min()
    }

    fn own_deadline(&self) -> Option<Time> {
        self.calendar.next().map(|at| self.begin + (at - Time::ZERO))
    }

    /// Runs to just before `until`, or, if the part may stop, to the end of the stage.
    pub(super) fn run_before(&mut self, until: Time, end: StageEnd) {
        let last = Time::from_nanos(until.as_nanos() - 1);
        loop {
            let own = self.own_deadline().filter(|own| *own <= last);
            if !self.world.step(own.unwrap_or(last)) {
                let Some(own) = own else { break };
                self.world.now = self.world.now.max(own);
                if let Some(due) = self.calendar.take_due(self.now()) {
                    self.act(due);
                }
            }
            self.handle_events();
            if self.is_at(end) {
                return;
            }
        }
        self.world.now = until;
    }

    /// Starts the warm-up, of which nothing counts.
    pub(super) fn begin_warm_up(&mut self) {
        (self.begin, self.is_warm_up) = (self.world.now, true);
        self.start_workloads(WorkloadPhase::WarmUp);
    }

    pub(super) fn end_warm_up(&mut self) {
        self.is_warm_up = false;
        self.forget_timers();
    }

    pub(super) fn begin(&mut self) {
        self.begin = self.world.now;
        self.start_workloads(WorkloadPhase::Measured);
        self.rooms.entries().for_each(|(index, at)| self.calendar.push(at, PartTimer::Room(index)));
        if self.stage.walk.deadline().is_some() {
            let nodes = 0..self.prepared.placement.nodes.len();
            nodes.for_each(|node| self.record_position(node, self.stage.walk.cell(node)));
        }
        self.move_nodes();
    }

    fn start_workloads(&mut self, phase: WorkloadPhase) {
        let mut started = vec![0; self.requesters.len()];
        for (node, workload) in Workload::all(self.prepared, phase) {
            if !self.world.has(self.world.machine_of(MachineRole::Node(node))) {
                continue;
            }
            let id = RequesterId { node, lane: started[node] };
            started[node] += 1;
            if self.requesters[node].len() == id.lane {
                self.requesters[node].push(SimRequester::new(id));
            }
            self.requester(id).start_workload(workload);
            self.calendar.push(self.now(), PartTimer::Ask(id));
        }
    }

    fn requester(&mut self, id: RequesterId) -> &mut SimRequester {
        &mut self.requesters[id.node][id.lane]
    }

    fn lanes(&self, node: usize) -> impl Iterator<Item = RequesterId> + use<> {
        (0..self.requesters[node].len()).map(move |lane| RequesterId { node, lane })
    }

    /// The ticket of the requester, if there is one and it has a request under way.
    fn ticket(&self, id: RequesterId) -> Option<Ticket> {
        self.requesters[id.node].get(id.lane).and_then(SimRequester::ticket)
    }

    fn act(&mut self, due: PartTimer) {
        match due {
            PartTimer::Ask(id) => self.ask(id),
            PartTimer::Move => self.move_nodes(),
            PartTimer::Room(index) => self.visit_room(index),
            PartTimer::TimeOut(id, ticket) => {
                if self.ticket(id) == Some(ticket) {
                    self.give_up(id, RequestOutcome::TimedOut);
                }
            }
        }
    }

    fn visit_room(&mut self, index: usize) {
        let progress = self.rooms.poll_stay(self.now(), &mut self.world, index);
        self.apply_room_progress(progress);
    }

    fn apply_room_progress(&mut self, progress: RoomProgress) {
        let RoomProgress { deadline, records, incident } = progress;
        deadline.into_iter().for_each(|(index, at)| self.calendar.push(at, PartTimer::Room(index)));
        records.into_iter().for_each(|record| self.add_note(RunNote::RoomStream(record)));
        if let Some((node, what)) = incident {
            let object = self.prepared.placement.nodes[node].name.clone();
            self.add_note(RunNote::Incident { object, what });
        }
    }

    fn record_position(&mut self, node: usize, cell: Cell) {
        if self.world.has(self.world.machine_of(MachineRole::Node(node))) {
            let (t, node) = ((self.now() - Time::ZERO).as_secs_f64(), self.prepared.placement.nodes[node].name.clone());
            self.add_note(RunNote::Position(PositionRecord { t, node, x: cell.x, y: cell.y }));
        }
    }

    fn move_nodes(&mut self) {
        while let Some((node, cell)) = self.stage.walk.step(self.now() - Time::ZERO) {
            let machine = self.world.machine_of(MachineRole::Node(node));
            self.world.command(machine, NodeCommand::Move(cell.into()));
            self.record_position(node, cell);
        }
        let next = self.stage.walk.deadline();
        next.into_iter().for_each(|at| self.calendar.push(Time::ZERO + at, PartTimer::Move));
    }

    fn ask(&mut self, id: RequesterId) {
        let machine = self.world.machine_of(MachineRole::Node(id.node));
        // A node sends no requests while its daemon is dead; it continues when the daemon starts.
        if !self.world.runs(machine) || self.ticket(id).is_some() {
            return;
        }
        let now = self.now();
        match self.requesters[id.node][id.lane].poll(now, &self.stage) {
            RequesterAction::Ask(ticket, wanted, deadline) => {
                self.active += 1;
                self.calendar.push(deadline, PartTimer::TimeOut(id, ticket));
                self.world.command(
                    machine,
                    NodeCommand::Request { ticket, request: *wanted, provider: None, body: Bytes::new() },
                );
            }
            RequesterAction::Wait(until) => self.calendar.push(until, PartTimer::Ask(id)),
            RequesterAction::Busy | RequesterAction::Done => {}
        }
    }

    fn handle_events(&mut self) {
        while let Some((machine, event)) = self.world.poll() {
            let Some(node) = self.node(machine) else { continue };
            if matches!(event, NodeEvent::Attached { .. }) {
                self.without_home.remove(&machine);
            }
            let now = self.now();
            if let Some(progress) = self.rooms.handle_event(now, &mut self.world, machine, &event) {
                self.apply_room_progress(progress);
                continue;
            }
            let Some((ticket, ends)) = about(&event) else { continue };
            let id = RequesterId::of_ticket(node, ticket);
            let current = self.ticket(id);
            if ends {
                self.world.checks.ended(self.world.now, machine, ticket, current);
            }
            if current != Some(ticket) {
                continue;
            }
            if let NodeEvent::Accepted { provider, scheme, relayed: false, .. } = &event {
                let first = self.is_first_contact(machine, id, *provider, *scheme);
                self.requester(id).record_contact(first);
            }
            if let Some(request) = self.requesters[id.node][id.lane].handle_event(now, event, &self.stage) {
                self.ended(id, request);
            }
        }
    }

    /// True if the connection to the provider came up after the request began.
    fn is_first_contact(&self, machine: MachineId, id: RequesterId, provider: NodeId, scheme: Scheme) -> Option<bool> {
        let provider = self.world.machine_of(MachineRole::Node(*self.stage.places.get(&provider)?));
        let up = self.world.connections.up_since(machine, provider, scheme)?;
        let began = self.begin + (self.requesters[id.node][id.lane].began()? - Time::ZERO);
        Some(up >= began)
    }

    fn give_up(&mut self, id: RequesterId, outcome: RequestOutcome) {
        let machine = self.world.machine_of(MachineRole::Node(id.node));
        let (now, ticket) = (self.now(), self.ticket(id));
        if let Some(request) = self.requesters[id.node][id.lane].end(now, RequestEnd::new(outcome), &self.stage) {
            self.ended(id, request);
        }
        if let Some(ticket) = ticket {
            self.world.cancel(machine, ticket);
        }
    }

    /// Ends a request; the node goes on.
    fn ended(&mut self, id: RequesterId, mut request: RequestRecord) {
        self.active -= 1;
        request.drained = self.now() > Time::ZERO + self.prepared.plan.duration;
        if !self.is_warm_up {
            self.add_note(RunNote::Request(request));
        }
        self.calendar.push(self.now(), PartTimer::Ask(id));
    }

    /// Injects a fault into a machine of this part.
    pub(super) fn inject(&mut self, machine: MachineId, deed: DaemonAction) {
        match deed {
            DaemonAction::Kill => self.world.kill(machine),
            DaemonAction::Stop => self.world.leave(machine),
            DaemonAction::Start => self.world.start(machine),
            DaemonAction::Freeze => self.world.freeze(machine),
            DaemonAction::Thaw => self.world.thaw(machine),
        }
        self.after_fault(machine);
    }

    /// Ends the requests and stays of a machine that is gone, and starts those of one that is back.
    fn after_fault(&mut self, machine: MachineId) {
        self.handle_events();
        let Some(node) = self.node(machine) else { return };
        let now = self.now();
        if self.world.runs(machine) {
            self.lanes(node).for_each(|id| self.calendar.push(now, PartTimer::Ask(id)));
            return self.rooms.of_machine(machine).into_iter().for_each(|index| self.visit_room(index));
        }
        let progress = self.rooms.machine_gone(now, &mut self.world, machine);
        progress.into_iter().for_each(|progress| self.apply_room_progress(progress));
        for id in self.lanes(node) {
            if let Some(request) = self.requesters[id.node][id.lane].end(now, RequestEnd::daemon_gone(), &self.stage) {
                self.ended(id, request);
            }
        }
    }

    fn forget_timers(&mut self) {
        self.calendar = SimEventQueue::new();
    }

    /// Ends all stays and requests in progress.
    pub(super) fn stop(&mut self) {
        let progress = self.rooms.end(self.now(), &mut self.world);
        progress.into_iter().for_each(|progress| self.apply_room_progress(progress));
        for id in (0..self.requesters.len()).flat_map(|node| self.lanes(node)).collect::<Vec<_>>() {
            let now = self.now();
            self.requester(id).stop(now);
            self.give_up(id, RequestOutcome::Cut);
        }
        self.forget_timers();
    }

    /// Checks all machines after the last request.
    pub(super) fn look_at_end(&mut self) {
        (0..self.world.participants().len()).for_each(|machine| self.world.look_at_end(machine));
    }
}

/// The ticket of an event, and true if the event ends it.
const fn about(event: &NodeEvent) -> Option<(Ticket, bool)> {
    match event {
        NodeEvent::Accepted { ticket, .. } | NodeEvent::Data { ticket, .. } => Some((*ticket, false)),
        NodeEvent::Finished { ticket, .. } | NodeEvent::Failed { ticket, .. } => Some((*ticket, true)),
        _ => None,
    }
}
