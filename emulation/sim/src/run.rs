//! A plan from its machines' start to its last request.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use bytes::Bytes;
use roost_core::node::{NodeCommand, NodeEvent, Ticket};
use roost_experiment::describe_change;
use roost_experiment::mobility::Mobility;
use roost_experiment::plan::{DaemonAction, FaultKind};
use roost_experiment::workload::{Workload, WorkloadPhase};
use roost_experiment::{MotionRecorder, Prepared, RequestEnd, RequestSettings};
use roost_results::metrics::room_uses;
use roost_results::record;
use roost_wire::{Cell, NodeId, Scheme, Time};

use super::connections::MachineId;
use super::event_queue::SimEventQueue;
use super::record::{Recorder, SimProgress};
use super::requester::{RequesterAction, RequesterId, SimRequestContext, SimRequester};
use super::rooms::{RoomProgress, SimRooms};
use super::world::{MachineRole, SimWorld};
use super::{Detail, SimOutcome, SimulateError, Violation};

/// The longest time until all nodes have a home.
const READY: Duration = Duration::from_secs(120);
/// The time for a cancelled request to end, after the run.
const SETTLE: Duration = Duration::from_secs(1);
/// The pause between a warm-up and the workload, as in emulation.
const WARM_UP_PAUSE: Duration = Duration::from_millis(200);
const SAMPLE: Duration = Duration::from_secs(1);

/// A run in progress. Its times count from the start of the workload.
pub(super) struct SimRun<'a, 'r> {
    prepared: &'a Prepared,
    world: SimWorld<'a>,
    stage: SimRequestContext<'a>,
    requesters: Vec<Vec<SimRequester>>,
    rooms: SimRooms,
    calendar: SimEventQueue<SimRunTimer>,
    recorder: &'r mut Recorder,
    motion: MotionRecorder,
    begin: Time,
    is_warm_up: bool,
    /// Nodes without a home, before the workload begins.
    without_home: usize,
    active: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum SimRunTimer {
    /// A fault, by its index in the plan.
    Fault(usize),
    /// A requester acts.
    Ask(RequesterId),
    /// A request times out.
    Late(RequesterId, Ticket),
    Move,
    Sample,
    /// A member enters or leaves its room, or requests a stream again.
    Room(usize),
}

pub(super) fn run(prepared: &Prepared, detail: Detail, recorder: &mut Recorder) -> Result<SimOutcome, SimulateError> {
    run_with_hook(prepared, detail, recorder, |_| {})
}

/// Runs a plan; `meddle` may change the world when the workload begins.
pub(super) fn run_with_hook(
    prepared: &Prepared,
    detail: Detail,
    recorder: &mut Recorder,
    meddle: impl FnOnce(&mut SimWorld<'_>),
) -> Result<SimOutcome, SimulateError> {
    let started = Instant::now();
    let world = SimWorld::new(prepared, detail)?;
    let places: HashMap<NodeId, usize> =
        world.participants().iter().filter_map(|cast| cast.part.node().map(|place| (cast.id, place))).collect();
    let placement = &prepared.placement;
    let plan = &prepared.plan;
    let mut run = SimRun {
        prepared,
        begin: world.now,
        is_warm_up: false,
        rooms: SimRooms::new(prepared, &world),
        without_home: placement.nodes.iter().filter(|node| !node.hubs.is_empty()).count(),
        world,
        stage: SimRequestContext {
            placement,
            settings: RequestSettings::from_plan(plan),
            places: &places,
            walk: Mobility::from_prepared(prepared),
        },
        requesters: placement.nodes.iter().map(|_| Vec::new()).collect(),
        calendar: SimEventQueue::new(),
        recorder,
        motion: MotionRecorder::new(&prepared.topology, plan.seed),
        active: 0,
    };
    run.attach()?;
    run.warm_up();
    run.begin()?;
    meddle(&mut run.world);
    run.run_until_drained(plan.duration, plan.duration + plan.drain);
    Ok(run.conclude(started))
}

impl SimRun<'_, '_> {
    fn now(&self) -> Time {
        Time::ZERO + self.world.now.since(self.begin)
    }

    fn node(&self, machine: MachineId) -> Option<usize> {
        self.world.participants()[machine].part.node()
    }

    /// Starts all machines, and waits until every node that should have a home has one.
    fn attach(&mut self) -> Result<(), SimulateError> {
        let mut attached = vec![false; self.world.participants().len()];
        let until = self.world.now + READY;
        // Nodes start one after the other.
        let last = attached.len() - 1;
        let nodes = self.without_home;
        while self.without_home > 0 || !self.world.runs(last) {
            if !self.world.step(until) {
                let mut casts = attached.iter().zip(self.world.participants());
                let lost = casts.find(|(attached, cast)| !**attached && cast.part.node().is_some());
                return Err(SimulateError::NotReady(lost.map(|(_, cast)| cast.name.clone()).unwrap_or_default()));
            }
            while let Some((machine, event)) = self.world.poll() {
                if matches!(event, NodeEvent::Attached { .. }) && !std::mem::replace(&mut attached[machine], true) {
                    self.without_home -= 1;
                    self.recorder
                        .report_progress(SimProgress::Joining { joined: nodes - self.without_home, of: nodes });
                }
            }
        }
        Ok(())
    }

    /// Runs the warm-up until its last request has ended. Nothing of it counts.
    fn warm_up(&mut self) {
        let plan = &self.prepared.plan;
        if plan.warm_up.is_zero() {
            return;
        }
        (self.begin, self.is_warm_up) = (self.world.now, true);
        self.start_workloads(WorkloadPhase::WarmUp);
        self.run_until_drained(plan.warm_up, plan.warm_up + plan.timeout + plan.stream);
        let breath = self.world.now + WARM_UP_PAUSE;
        while self.world.step(breath) {
            self.handle_events();
        }
        (self.world.now, self.is_warm_up) = (breath, false);
        self.calendar = SimEventQueue::new();
    }

    fn start_workloads(&mut self, phase: WorkloadPhase) {
        let mut started = vec![0; self.requesters.len()];
        for (node, workload) in Workload::all(self.prepared, phase) {
            let id = RequesterId { node, lane: started[node] };
            started[node] += 1;
            if self.requesters[node].len() == id.lane {
                self.requesters[node].push(SimRequester::new(id));
            }
            self.requester(id).start_workload(workload);
            self.calendar.push(self.now(), SimRunTimer::Ask(id));
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

    fn begin(&mut self) -> Result<(), SimulateError> {
        self.begin = self.world.now;
        self.world.connections.wire().begin(self.begin)?;
        for (place, fault) in self.prepared.plan.faults.iter().enumerate() {
            self.calendar.push(Time::ZERO + fault.at, SimRunTimer::Fault(place));
        }
        let placement = &self.prepared.placement;
        self.start_workloads(WorkloadPhase::Measured);
        self.calendar.push(Time::ZERO + SAMPLE, SimRunTimer::Sample);
        self.rooms.entries().for_each(|(index, at)| self.calendar.push(at, SimRunTimer::Room(index)));
        {
            let Self { recorder, world, .. } = self;
            recorder.begin(world);
        }
        self.record_motion();
        if self.stage.walk.deadline().is_some() {
            (0..placement.nodes.len()).for_each(|node| self.record_position(node, self.stage.walk.cell(node)));
        }
        self.move_nodes();
        Ok(())
    }

    /// Runs while requests are made, and then until all have ended or the time is up.
    fn run_until_drained(&mut self, asking: Duration, longest: Duration) {
        let (asking, longest) = (Time::ZERO + asking, self.begin + longest);
        loop {
            let own = self.calendar.next().map(|at| self.begin + (at - Time::ZERO));
            let next = [own, self.world.deadline()].into_iter().flatten().min();
            let Some(next) = next.filter(|at| *at <= longest) else { return self.world.now = longest };
            if own.is_some_and(|own| own <= next) {
                self.world.now = self.world.now.max(next);
                if let Some(due) = self.calendar.take_due(self.now()) {
                    self.act(due);
                }
            } else {
                self.world.step(next);
            }
            self.handle_events();
            if self.active == 0 && self.now() >= asking {
                return;
            }
        }
    }

    fn act(&mut self, due: SimRunTimer) {
        match due {
            SimRunTimer::Fault(place) => self.inject_fault(place),
            SimRunTimer::Ask(id) => self.ask(id),
            SimRunTimer::Move => self.move_nodes(),
            SimRunTimer::Room(index) => self.visit_room(index),
            SimRunTimer::Late(id, ticket) => {
                if self.ticket(id) == Some(ticket) {
                    self.give_up(id, record::RequestOutcome::TimedOut);
                }
            }
            SimRunTimer::Sample => {
                self.record_motion();
                let Self { recorder, world, .. } = self;
                recorder.sample(world, world.now.since(self.begin), self.active);
                recorder.report_progress(SimProgress::Running {
                    now: world.now.since(self.begin),
                    of: self.prepared.plan.duration,
                });
                self.calendar.push(self.now() + SAMPLE, SimRunTimer::Sample);
            }
        }
    }

    fn visit_room(&mut self, index: usize) {
        let progress = self.rooms.poll_stay(self.now(), &mut self.world, index);
        self.apply_room_progress(progress);
    }

    fn apply_room_progress(&mut self, progress: RoomProgress) {
        let RoomProgress { deadline, records, incident } = progress;
        deadline.into_iter().for_each(|(index, at)| self.calendar.push(at, SimRunTimer::Room(index)));
        records.into_iter().for_each(|record| self.recorder.room_stream(record));
        if let Some((node, what)) = incident {
            let name = &self.prepared.placement.nodes[node].name;
            self.recorder.incident(self.now() - Time::ZERO, name, what);
        }
    }

    fn record_motion(&mut self) {
        let now = self.now() - Time::ZERO;
        self.motion.records_until(now).into_iter().for_each(|record| self.recorder.motion(record));
    }

    fn record_position(&mut self, node: usize, cell: Cell) {
        let (t, name) = ((self.now() - Time::ZERO).as_secs_f64(), self.prepared.placement.nodes[node].name.clone());
        self.recorder.position(record::PositionRecord { t, node: name, x: cell.x, y: cell.y });
    }

    fn move_nodes(&mut self) {
        while let Some((node, cell)) = self.stage.walk.step(self.now() - Time::ZERO) {
            let machine = self.world.machine_of(MachineRole::Node(node));
            self.world.command(machine, NodeCommand::Move(cell.into()));
            self.record_position(node, cell);
        }
        let next = self.stage.walk.deadline();
        next.into_iter().for_each(|at| self.calendar.push(Time::ZERO + at, SimRunTimer::Move));
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
                self.calendar.push(deadline, SimRunTimer::Late(id, ticket));
                self.world.command(
                    machine,
                    NodeCommand::Request { ticket, request: *wanted, provider: None, body: Bytes::new() },
                );
            }
            RequesterAction::Wait(until) => self.calendar.push(until, SimRunTimer::Ask(id)),
            RequesterAction::Busy | RequesterAction::Done => {}
        }
    }

    fn handle_events(&mut self) {
        while let Some((machine, event)) = self.world.poll() {
            let Some(node) = self.node(machine) else { continue };
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

    fn give_up(&mut self, id: RequesterId, outcome: record::RequestOutcome) {
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
    fn ended(&mut self, id: RequesterId, mut request: record::RequestRecord) {
        self.active -= 1;
        request.drained = self.now() > Time::ZERO + self.prepared.plan.duration;
        if !self.is_warm_up {
            self.recorder.request(request);
        }
        self.calendar.push(self.now(), SimRunTimer::Ask(id));
    }

    fn record_link_fault(&mut self, place: usize) {
        let (fault, network) = (&self.prepared.plan.faults[place], &self.prepared.network);
        let FaultKind::Net { net, from, changes } = &fault.kind else { return };
        let Some(index) = network.net_index(&net.name) else { return };
        let from = from.as_ref().and_then(|from| network.host_index(&from.name));
        for change in changes {
            self.recorder.incident(fault.at, &net.name, describe_change(network, index, from, *change));
        }
    }

    fn inject_fault(&mut self, place: usize) {
        let fault = &self.prepared.plan.faults[place];
        let FaultKind::Daemon(daemon, deed) = &fault.kind else {
            // Links change by themselves, at the same time.
            return self.record_link_fault(place);
        };
        let network = &self.prepared.network;
        let host = network.host_index(&daemon.host.name);
        let casts = self.world.participants();
        let fits = |part: MachineRole| matches!(part, MachineRole::Hub(_)) == daemon.hub;
        let Some(machine) = casts.iter().position(|cast| Some(cast.host) == host && fits(cast.part)) else { return };
        self.recorder.incident(fault.at, &daemon.host.name, daemon.describe_action(*deed));
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
            self.lanes(node).for_each(|id| self.calendar.push(now, SimRunTimer::Ask(id)));
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

    /// Ends requests in progress, checks everything once more, and sums up.
    fn conclude(mut self, started: Instant) -> SimOutcome {
        let (ran, drained) = (self.world.now.since(self.begin), self.prepared.plan.duration);
        let progress = self.rooms.end(self.now(), &mut self.world);
        progress.into_iter().for_each(|progress| self.apply_room_progress(progress));
        for id in (0..self.requesters.len()).flat_map(|node| self.lanes(node)).collect::<Vec<_>>() {
            let now = self.now();
            self.requester(id).stop(now);
            self.give_up(id, record::RequestOutcome::Cut);
        }
        let end = self.world.now + SETTLE;
        while self.world.step(end) {
            self.handle_events();
        }
        self.handle_events();
        (0..self.world.participants().len()).for_each(|machine| self.world.look_at_end(machine));
        let Self { recorder, mut world, begin, prepared, .. } = self;
        recorder.end(&mut world, ran);
        let overflows = world.connections.wire().overflows();
        let violations = world.checks.found().iter().map(|(at, machine, what)| Violation {
            t: at.since(begin).as_secs_f64(),
            machine: world.participants()[*machine].name.clone(),
            what: what.clone(),
        });
        let by_service = recorder.by_service();
        SimOutcome {
            trace_hash: world.trace.value(),
            requested: by_service.values().map(|service| service.requested).sum(),
            completed: by_service.values().map(|service| service.completed).sum(),
            virtual_s: ran.as_secs_f64(),
            drain_s: ran.saturating_sub(drained).as_secs_f64(),
            wall_s: started.elapsed().as_secs_f64(),
            nodes: prepared.placement.nodes.len(),
            steps: world.steps,
            shares: world.shares(),
            by_service,
            rooms: room_uses(recorder.room_streams()),
            violations: violations.collect(),
            overflows,
        }
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
