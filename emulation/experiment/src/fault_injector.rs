//! Execution of the schedule beside the workload: daemons are killed and started, programs and traffic run,
//! links change.

use std::time::{Duration, Instant};

use roost_lab::Lab;
use roost_results::record::{ProgramRecord, Record};
use roost_topology::model::ProgramAction;

use super::error::RunError;
use super::final_stats::AHEAD;
use super::fleet::Fleet;
use super::job::RunSpec;
use super::journal::Journal;
use super::programs::{EndedProgram, ProgramWait, Programs};
use super::script::{RunSchedule, ScheduleItem, ScheduledAction};
use super::traffic::TrafficAgents;

pub(super) struct FaultInjector<'a> {
    lab: &'a Lab,
    journal: &'a Journal,
    script: RunSchedule,
    programs: Programs,
    traffic: Option<TrafficAgents>,
    had_work: bool,
    /// True if unexpected ends of programs make the run invalid.
    is_plan: bool,
    /// Daemons that end before this time have been asked for their final counters.
    heard: Duration,
    late: Option<Duration>,
    /// Failed actions on traffic agents, and programs of a plan that did not end as expected, one sentence each.
    undone: Vec<String>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct ScheduleResult {
    /// Lateness of the latest action; `None` if there was none. The lab's own events are exact and do not
    /// count.
    pub(super) late: Option<Duration>,
    pub(super) undone: Vec<String>,
}

impl<'a> FaultInjector<'a> {
    pub(super) fn new(lab: &'a Lab, journal: &'a Journal, job: &RunSpec<'_>) -> Result<Self, RunError> {
        let (programs, traffic) = (Programs::from_topology(lab, job)?, Some(TrafficAgents::start_agents(lab)?));
        let script = job.script.clone();
        let had_work = script.has_work();
        let (heard, late, undone) = (Duration::ZERO, None, Vec::new());
        let is_plan = job.plan.is_some();
        Ok(Self { lab, journal, script, programs, traffic, had_work, is_plan, heard, late, undone })
    }

    /// The time of the next call of [`Self::run_due`], unless a program ends earlier.
    pub(super) fn deadline(&self) -> Option<Duration> {
        let mut endings = self.script.endings().map(|(at, _)| at);
        let asking = endings.find(|at| *at > self.heard).map(|at| at.saturating_sub(AHEAD));
        [self.script.deadline(), self.programs.deadline(), asking].into_iter().flatten().min()
    }

    /// True if all programs and traffic have ended, and no event is left.
    pub(super) fn is_over(&self) -> bool {
        let sends = self.traffic.as_ref().is_some_and(TrafficAgents::is_any_sending);
        self.had_work && !sends && !self.programs.is_any_running() && self.script.deadline().is_none()
    }

    /// The numbers of running programs and of events to come.
    pub(super) fn busy(&self) -> (usize, usize) {
        (self.programs.running(), self.script.left())
    }

    /// Runs all due actions of a run that began at `origin`; true if one of them ends the run.
    pub(super) fn run_due(&mut self, fleet: &mut Fleet, origin: Instant) -> Result<bool, RunError> {
        self.programs.begin(origin);
        let ended = self.programs.collect_ended(origin.elapsed());
        self.record_ended(ended);
        self.record_measurements();
        while let Some((place, item)) = self.script.next(origin.elapsed()) {
            if self.carry_out(fleet, place, item, origin.elapsed())? {
                return Ok(true);
            }
        }
        self.ask_last_words(fleet, origin.elapsed());
        Ok(false)
    }

    /// Asks daemons that will end soon for their final counters, so that they end in time.
    fn ask_last_words(&mut self, fleet: &mut Fleet, now: Duration) {
        self.heard = now + AHEAD;
        for (_, slot) in self.script.endings().take_while(|(at, _)| *at <= self.heard) {
            fleet.poll_final_stats(slot);
        }
    }

    /// Runs and records one action; true if it ends the run.
    fn carry_out(
        &mut self,
        fleet: &mut Fleet,
        place: usize,
        item: ScheduleItem,
        now: Duration,
    ) -> Result<bool, RunError> {
        // The lab runs its own events at their exact times.
        let t = if item.act == ScheduledAction::LabEvent { item.at } else { now }.as_secs_f64();
        if item.act != ScheduledAction::LabEvent && item.after.is_none() {
            self.late = self.late.max(Some(now.saturating_sub(item.at)));
        }
        self.journal.incident(t, item.object.clone(), item.what.clone());
        if item.act == ScheduledAction::Halt {
            return Ok(true);
        }
        if let Err(why) = self.act(fleet, place, &item, now)? {
            if matches!(item.act, ScheduledAction::Traffic(..)) {
                self.undone.push(format!("`{}` was not done: {why}", item.what));
            }
            self.journal.incident(t, item.object, format!("was not done: {why}"));
        }
        if !matches!(item.act, ScheduledAction::Program(_, ProgramAction::Start(_) | ProgramAction::Run(_))) {
            self.script.program_ended(place);
        }
        Ok(false)
    }

    /// Runs one action; the inner error describes an action that is impossible.
    fn act(
        &mut self,
        fleet: &mut Fleet,
        place: usize,
        item: &ScheduleItem,
        now: Duration,
    ) -> Result<Result<(), String>, RunError> {
        match &item.act {
            ScheduledAction::LabEvent | ScheduledAction::Halt => {}
            ScheduledAction::Net(net, from, change) => self.lab.apply(*net, *from, *change)?,
            ScheduledAction::Daemon(slot, action) => fleet.apply_action(self.lab, *slot, *action)?,
            ScheduledAction::Traffic(agent, what) => {
                return Ok(self.traffic.as_mut().map_or(Ok(()), |traffic| traffic.perform(*agent, *what)));
            }
            ScheduledAction::Program(program, what) => {
                let ended = match self.programs.perform(self.lab, (place, *program), what, now) {
                    Ok(ended) => ended,
                    Err(why) => return Ok(Err(why)),
                };
                let why = ended.as_ref().and_then(|ended| ended.record.error.clone());
                self.record_ended(ended.into_iter().collect());
                return Ok(why.map_or(Ok(()), Err));
            }
        }
        Ok(Ok(()))
    }

    /// Records programs that have ended; items that wait for them become due.
    fn record_ended(&mut self, ended: Vec<EndedProgram>) {
        for EndedProgram { item, record } in ended {
            self.script.program_ended(item);
            self.record_program(record);
        }
    }

    fn record_program(&mut self, record: ProgramRecord) {
        if self.is_plan && !record.as_expected {
            let code = record.code.map_or_else(String::new, |code| format!(" with code {code}"));
            let how = record.error.clone().unwrap_or_else(|| format!("{}{code}", record.end.name()));
            self.undone.push(format!("the program {} did not end as expected: {how}", record.program));
        }
        self.journal.write(&Record::Program(record));
    }

    fn record_measurements(&mut self) {
        for measurement in self.programs.measurements() {
            self.journal.write(&Record::Measurement(measurement));
        }
    }

    pub(super) fn program_waits(&mut self) -> Vec<ProgramWait> {
        self.programs.look_at_usage()
    }

    /// Ends everything that still runs, and records its counters.
    pub(super) fn end(mut self, now: Duration) -> ScheduleResult {
        self.programs.look_at_usage();
        for EndedProgram { record, .. } in self.programs.end(now) {
            self.record_program(record);
        }
        let (measurements, losses) = self.programs.end_readers();
        for measurement in measurements {
            self.journal.write(&Record::Measurement(measurement));
        }
        self.undone.extend(losses);
        let Self { late, mut undone, .. } = self;
        for (record, loss) in self.traffic.take().map(TrafficAgents::end).unwrap_or_default() {
            self.journal.write(&Record::Traffic(record));
            undone.extend(loss);
        }
        ScheduleResult { late, undone }
    }
}
