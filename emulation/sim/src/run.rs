//! A plan from its machines' start to its last request.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use roost_experiment::describe_change;
use roost_experiment::plan::FaultKind;
use roost_experiment::{MotionRecorder, Prepared};
use roost_results::metrics::room_uses;
use roost_topology::model::HostIndex;
use roost_wire::{NodeId, Time};

use super::event_queue::SimEventQueue;
use super::fingerprint::RunFingerprint;
use super::part::{RunPart, StageEnd};
use super::partition::Partition;
use super::record::{Recorder, SimProgress};
use super::world::{BETWEEN_NODES, MachineRole, SimWorld};
use super::{Detail, SimOutcome, SimulateError, TrafficBreakdown, Violation};

/// The longest time until all nodes have a home.
const READY: Duration = Duration::from_secs(120);
/// The time for a cancelled request to end, after the run.
const SETTLE: Duration = Duration::from_secs(1);
/// The pause between a warm-up and the workload, as in emulation.
const WARM_UP_PAUSE: Duration = Duration::from_millis(200);
const SAMPLE: Duration = Duration::from_secs(1);
/// The longest time that passes between two reports of progress.
const WINDOW: Duration = Duration::from_millis(100);
/// As much stack as the main thread has.
const STACK_BYTES: usize = 8 << 20;
const INSTANT: Duration = Duration::from_nanos(1);

struct SimRun<'a, 'r> {
    prepared: &'a Prepared,
    parts: Vec<RunPart<'a>>,
    /// The time for which parts may run without an exchange of packets.
    lookahead: Duration,
    schedule: SimEventQueue<RunTimer>,
    recorder: &'r mut Recorder,
    motion: MotionRecorder,
    begin: Time,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum RunTimer {
    /// A fault, by its index in the plan.
    Fault(usize),
    Sample,
}

pub(super) fn run(prepared: &Prepared, detail: Detail, recorder: &mut Recorder) -> Result<SimOutcome, SimulateError> {
    run_with_hook(prepared, detail, recorder, |_| {})
}

/// Runs a plan; `meddle` may change the world when the workload begins, or that of the first part.
pub(super) fn run_with_hook(
    prepared: &Prepared,
    detail: Detail,
    recorder: &mut Recorder,
    meddle: impl FnOnce(&mut SimWorld<'_>),
) -> Result<SimOutcome, SimulateError> {
    let partition = Partition::of_topology(&prepared.topology, &hosts_of_machines(prepared));
    run_in_parts(prepared, detail, &partition, recorder, meddle)
}

fn hosts_of_machines(prepared: &Prepared) -> Vec<HostIndex> {
    let placement = &prepared.placement;
    placement.hubs.iter().map(|hub| hub.host).chain(placement.nodes.iter().map(|node| node.host)).collect()
}

fn run_in_parts(
    prepared: &Prepared,
    detail: Detail,
    partition: &Partition,
    recorder: &mut Recorder,
    meddle: impl FnOnce(&mut SimWorld<'_>),
) -> Result<SimOutcome, SimulateError> {
    let started = Instant::now();
    let plan = &prepared.plan;
    let worlds = SimWorld::in_parts(prepared, detail, partition)?;
    let participants = worlds[0].participants().iter();
    let places: HashMap<NodeId, usize> =
        participants.filter_map(|cast| cast.part.node().map(|place| (cast.id, place))).collect();
    let mut run = SimRun {
        prepared,
        begin: worlds[0].now,
        parts: worlds.into_iter().map(|world| RunPart::new(prepared, world, &places)).collect(),
        lookahead: partition.lookahead.unwrap_or(WINDOW),
        schedule: SimEventQueue::new(),
        recorder,
        motion: MotionRecorder::new(&prepared.topology, plan.seed),
    };
    run.attach()?;
    run.warm_up();
    run.begin()?;
    meddle(&mut run.parts[0].world);
    run.run_until_drained(plan.duration, plan.duration + plan.drain);
    Ok(run.conclude(started))
}

impl SimRun<'_, '_> {
    /// The time of all parts, between their windows.
    fn clock(&self) -> Time {
        self.parts[0].world.now
    }

    fn set_clock(&mut self, now: Time) {
        self.parts.iter_mut().for_each(|part| part.world.now = now);
    }

    fn now(&self) -> Duration {
        self.clock().since(self.begin)
    }

    fn active(&self) -> u32 {
        self.parts.iter().map(RunPart::active).sum()
    }

    fn is_at(&self, end: StageEnd) -> bool {
        self.parts.iter().all(|part| part.is_at(end))
    }

    /// Runs to just before `until`, or to the end of the stage, if that is earlier; true if it has ended.
    fn run_before(&mut self, until: Time, end: StageEnd) -> bool {
        while self.clock() < until {
            if self.is_at(end) {
                return true;
            }
            self.run_window(until.min(self.clock() + self.lookahead), end);
            self.write_notes();
        }
        self.is_at(end)
    }

    /// Runs all parts to just before `until`, which is at most the lookahead away, each on a thread of its own.
    fn run_window(&mut self, until: Time, end: StageEnd) {
        if let [whole] = self.parts.as_mut_slice() {
            return whole.run_before(until, end);
        }
        self.exchange_packets(until);
        let is_busy = |part: &&mut RunPart<'_>| part.deadline().is_some_and(|at| at < until);
        let busy: Vec<_> = self.parts.iter_mut().filter(is_busy).collect();
        let threads = busy.len();
        let busy = Mutex::new(busy);
        let next = || busy.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let work = || std::iter::from_fn(next).for_each(|part| part.run_before(until, StageEnd::TimeUp));
        thread::scope(|scope| {
            for _ in 1..threads {
                // This thread does the work of those that the system refuses.
                let _ = thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, work);
            }
            work();
        });
        self.set_clock(until);
        self.exchange_deaths();
    }

    /// Gives each part the packets that come to it before `until`.
    fn exchange_packets(&mut self, until: Time) {
        let now = self.clock();
        let crossings: Vec<_> =
            self.parts.iter_mut().flat_map(|part| part.world.connections.crossings(now, until)).collect();
        let mut inboxes: Vec<Vec<_>> = self.parts.iter().map(|_| Vec::new()).collect();
        crossings.into_iter().for_each(|crossing| inboxes[usize::from(crossing.to)].push(crossing));
        for (part, inbox) in self.parts.iter_mut().zip(inboxes) {
            part.world.connections.add_crossings(inbox);
        }
    }

    /// Gives each part the deaths in the others, which its hubs learn of no sooner.
    fn exchange_deaths(&mut self) {
        for index in 0..self.parts.len() {
            let changes = self.parts[index].world.checks.fetch_changes();
            let others = self.parts.iter_mut().enumerate().filter(|(other, _)| *other != index);
            others.for_each(|(_, part)| part.world.checks.add_changes(&changes));
        }
    }

    /// Writes what the parts have recorded, in order of time.
    fn write_notes(&mut self) {
        let mut notes: Vec<_> = self.parts.iter_mut().flat_map(RunPart::fetch_notes).collect();
        notes.sort_by_key(|(at, _)| *at);
        notes.into_iter().for_each(|(at, note)| self.recorder.record(at - Time::ZERO, note));
    }

    /// Starts all machines, and waits until every node that should have a home has one.
    fn attach(&mut self) -> Result<(), SimulateError> {
        let until = self.clock() + READY + BETWEEN_NODES * self.prepared.placement.nodes.len() as u32;
        let without_home = |run: &Self| run.parts.iter().map(|part| part.without_home().len()).sum::<usize>();
        let nodes = without_home(self);
        while !self.run_before(until.min(self.clock() + WINDOW), StageEnd::Attached) {
            if self.clock() >= until {
                let lost = self.parts.iter().filter_map(|part| part.without_home().first().copied()).min();
                return Err(self.parts[0].world.no_home(lost.unwrap_or_default()));
            }
            let joined = nodes - without_home(self);
            self.recorder.report_progress(SimProgress::Joining { joined, of: nodes });
        }
        self.recorder.report_progress(SimProgress::Joining { joined: nodes, of: nodes });
        Ok(())
    }

    /// Runs the warm-up until its last request has ended.
    fn warm_up(&mut self) {
        let plan = &self.prepared.plan;
        if plan.warm_up.is_zero() {
            return;
        }
        self.begin = self.clock();
        self.parts.iter_mut().for_each(RunPart::begin_warm_up);
        self.run_until_drained(plan.warm_up, plan.warm_up + plan.timeout + plan.stream);
        let breath = self.clock() + WARM_UP_PAUSE;
        self.run_to(breath);
        self.parts.iter_mut().for_each(RunPart::end_warm_up);
    }

    fn begin(&mut self) -> Result<(), SimulateError> {
        self.begin = self.clock();
        for part in &mut self.parts {
            part.world.connections.wire().begin(self.begin)?;
        }
        for (place, fault) in self.prepared.plan.faults.iter().enumerate() {
            self.schedule.push(Time::ZERO + fault.at, RunTimer::Fault(place));
        }
        self.schedule.push(Time::ZERO + SAMPLE, RunTimer::Sample);
        self.recorder.begin(&mut self.parts);
        self.record_motion();
        self.parts.iter_mut().for_each(RunPart::begin);
        self.write_notes();
        Ok(())
    }

    /// Runs while requests are made, and then until all have ended or the time is up.
    fn run_until_drained(&mut self, asking: Duration, longest: Duration) {
        let longest = self.begin + longest;
        loop {
            let next = self.schedule.next().map(|at| self.begin + (at - Time::ZERO)).filter(|at| *at <= longest);
            let end = StageEnd::Idle(Time::ZERO + asking);
            let Some(at) = next else {
                if !self.run_before(longest + INSTANT, end) {
                    self.set_clock(longest);
                }
                return;
            };
            // An event that is due at the end of the stage belongs to it.
            if self.run_before(at, end) && self.clock() < at {
                return;
            }
            while let Some(due) = self.schedule.take_due(Time::ZERO + self.now()) {
                self.act(due);
            }
        }
    }

    fn run_to(&mut self, last: Time) {
        self.run_before(last + INSTANT, StageEnd::TimeUp);
        self.set_clock(last);
    }

    fn act(&mut self, due: RunTimer) {
        match due {
            RunTimer::Fault(place) => self.inject_fault(place),
            RunTimer::Sample => {
                self.record_motion();
                let (now, active) = (self.now(), self.active());
                self.recorder.sample(&mut self.parts, now, active);
                self.recorder.report_progress(SimProgress::Running { now, of: self.prepared.plan.duration });
                self.schedule.push(Time::ZERO + now + SAMPLE, RunTimer::Sample);
            }
        }
    }

    fn record_motion(&mut self) {
        let now = self.now();
        self.motion.records_until(now).into_iter().for_each(|record| self.recorder.motion(record));
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
        let fits = |part: MachineRole| matches!(part, MachineRole::Hub(_)) == daemon.hub;
        let mut participants = self.parts[0].world.participants().iter();
        let Some(machine) = participants.position(|cast| Some(cast.host) == host && fits(cast.part)) else { return };
        self.recorder.incident(fault.at, &daemon.host.name, daemon.describe_action(*deed));
        if let Some(part) = self.parts.iter_mut().find(|part| part.world.has(machine)) {
            part.inject(machine, *deed);
        }
        self.exchange_deaths();
    }

    /// Ends requests in progress, checks everything once more, and sums up.
    fn conclude(mut self, started: Instant) -> SimOutcome {
        let (ran, drained) = (self.now(), self.prepared.plan.duration);
        self.parts.iter_mut().for_each(RunPart::stop);
        self.run_to(self.clock() + SETTLE);
        self.parts.iter_mut().for_each(RunPart::look_at_end);
        let Self { recorder, mut parts, begin, prepared, .. } = self;
        recorder.end(&mut parts, ran);
        let by_service = recorder.by_service();
        SimOutcome {
            trace_hash: RunFingerprint::joined(parts.iter().map(|part| part.world.trace)).value(),
            requested: by_service.values().map(|service| service.requested).sum(),
            completed: by_service.values().map(|service| service.completed).sum(),
            virtual_s: ran.as_secs_f64(),
            drain_s: ran.saturating_sub(drained).as_secs_f64(),
            wall_s: started.elapsed().as_secs_f64(),
            nodes: prepared.placement.nodes.len(),
            steps: parts.iter().map(|part| part.world.steps).sum(),
            shares: parts
                .iter()
                .map(|part| part.world.shares())
                .fold(TrafficBreakdown::default(), TrafficBreakdown::plus),
            by_service,
            rooms: room_uses(recorder.room_streams()),
            violations: violations(&parts, begin),
            overflows: parts.iter_mut().map(|part| part.world.connections.wire().overflows()).sum(),
        }
    }
}

fn violations(parts: &[RunPart<'_>], begin: Time) -> Vec<Violation> {
    let mut found: Vec<_> = parts.iter().flat_map(|part| part.world.checks.found()).collect();
    found.sort_by_key(|(at, ..)| *at);
    let violation = |(at, machine, what): &(Time, usize, String)| Violation {
        t: at.since(begin).as_secs_f64(),
        machine: parts[0].world.participants()[*machine].name.clone(),
        what: what.clone(),
    };
    found.into_iter().map(violation).collect()
}

#[cfg(test)]
mod tests;
