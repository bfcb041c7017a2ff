//! The loop of a run: requests, events, a sample each second, the end.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use roost_lab::Interrupt;
use roost_lab::Lab;
use roost_results::record::Record;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at, sleep_until};

use super::error::RunError;
use super::fault_injector::{FaultInjector, ScheduleResult};
use super::fleet::{EndedDaemon, Fleet};
use super::job::RunSpec;
use super::motion_recorder::MotionRecorder;
use super::participants::RequesterTasks;
use super::requester::RequesterContext;
use super::sampler::Sampler;

/// The interval at which daemons are checked.
const LOOK: Duration = Duration::from_millis(200);

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ProgressSnapshot {
    pub(super) t: f64,
    /// Requests in progress, completed and ended otherwise.
    pub(super) active: u32,
    pub(super) completed: u64,
    pub(super) failed: u64,
    /// Running programs, and events to come.
    pub(super) programs: usize,
    pub(super) left: usize,
}

/// An observer of a run's progress, called once a second.
pub(super) trait RunObserver {
    fn second(&self, glance: ProgressSnapshot);
}

/// The times and the incidents of a run.
#[derive(Clone, Debug, Default)]
pub(super) struct RunOutcome {
    /// Time for which nodes sent requests, or the network ran, seconds.
    pub(super) ran_s: f64,
    /// Time until the last requests ended, seconds.
    pub(super) drain_s: f64,
    pub(super) interrupted: bool,
    /// A sentence for each daemon that died without the plan's doing.
    pub(super) losses: Vec<String>,
    pub(super) schedule_result: ScheduleResult,
}

/// The parts of a run that its loop needs.
pub(super) struct RunLoop<'a> {
    pub(super) job: &'a RunSpec<'a>,
    pub(super) lab: &'a Arc<Lab>,
    pub(super) fleet: &'a mut Fleet,
    pub(super) stage: Rc<RequesterContext>,
    pub(super) fault_injector: FaultInjector<'a>,
    pub(super) sampler: &'a mut Sampler,
    pub(super) motion: MotionRecorder,
    pub(super) interrupt: Interrupt,
    pub(super) watcher: &'a dyn RunObserver,
}

struct Ticks {
    seconds: Interval,
    looks: Interval,
    children: Signal,
}

/// The condition that ends a phase of a run.
enum PhaseEnd<'c> {
    At(Instant),
    /// This time, or that no event is left.
    Idle(Option<Instant>),
    /// This time, or that all requesters are done.
    Done(Instant, &'c mut RequesterTasks),
}

impl RunLoop<'_> {
    /// Conducts the run to its end. Call it on a local task set.
    pub(super) async fn run_to_end(mut self, mut cast: RequesterTasks) -> Result<RunOutcome, RunError> {
        let mut course = RunOutcome::default();
        let children = signal(SignalKind::child());
        let children = children.map_err(|error| RunError::Failed(format!("cannot listen to signals: {error}")))?;
        let mut ticks = Ticks { seconds: ticks(Duration::from_secs(1)), looks: ticks(LOOK), children };
        let end = self.job.length.map(|length| Instant::from_std(self.stage.origin) + length);
        let end = match (self.job.plan, end) {
            (Some(prepared), Some(end)) if prepared.plan.architecture.has_daemons() => PhaseEnd::At(end),
            (_, end) => PhaseEnd::Idle(end),
        };
        self.until(end, &mut ticks, &mut course).await?;
        course.ran_s = self.stage.seconds();
        if let Some(prepared) = self.job.plan.filter(|_| !course.interrupted) {
            cast.drain();
            let end = PhaseEnd::Done(Instant::now() + prepared.plan.drain, &mut cast);
            self.until(end, &mut ticks, &mut course).await?;
        }
        cast.leave().await;
        course.drain_s = self.stage.seconds() - course.ran_s;
        self.sample().await?;
        course.schedule_result = self.fault_injector.end(self.stage.origin.elapsed());
        Ok(course)
    }

    /// Runs until the condition holds, or the user stops it.
    async fn until(
        &mut self,
        mut end: PhaseEnd<'_>,
        ticks: &mut Ticks,
        course: &mut RunOutcome,
    ) -> Result<(), RunError> {
        let stage = Rc::clone(&self.stage);
        let mut interrupt = self.interrupt.clone();
        loop {
            if self.fault_injector.run_due(self.fleet, stage.origin)? {
                return Ok(());
            }
            if matches!(end, PhaseEnd::Idle(_)) && self.fault_injector.is_over() {
                return Ok(());
            }
            let next = self.fault_injector.deadline().map(|at| Instant::from_std(stage.origin) + at);
            tokio::select! {
                biased;
                () = interrupt.wait() => {
                    course.interrupted = true;
                    stage.journal.incident(stage.seconds(), "run", "was interrupted");
                    return Ok(());
                }
                () = stage.journal.broken() => return Err(failure(&stage)),
                () = end.reached() => return Ok(()),
                () = at(next) => {}
                _ = ticks.children.recv() => self.look(course)?,
                _ = ticks.looks.tick() => self.look(course)?,
                _ = ticks.seconds.tick() => self.sample().await?,
            }
        }
    }

    fn look(&mut self, course: &mut RunOutcome) -> Result<(), RunError> {
        course.losses.extend(deaths(self.fleet, self.lab, &self.stage)?);
        Ok(())
    }

    async fn sample(&mut self) -> Result<(), RunError> {
        let motion = self.motion.records_until(self.stage.origin.elapsed());
        motion.iter().for_each(|record| self.stage.journal.write(record));
        let (t, active, tally) = (self.stage.seconds(), self.stage.active.get(), self.stage.journal.tally());
        let (sample, load) = self.sampler.sample(self.lab, self.fleet, t, (active, tally)).await?;
        self.sampler.add_program_waits(t, self.fault_injector.program_waits());
        self.stage.journal.write(&Record::Sample(sample));
        load.into_iter().for_each(|load| self.stage.journal.write(&Record::Load(load)));
        let (programs, left) = self.fault_injector.busy();
        let failed = tally.failed + tally.timed_out;
        self.watcher.second(ProgressSnapshot { t, active, completed: tally.completed, failed, programs, left });
        Ok(())
    }
}

/// Records the daemons that have died without the plan's doing; returns a sentence for each.
pub(super) fn deaths(fleet: &mut Fleet, lab: &Lab, stage: &RequesterContext) -> Result<Vec<String>, RunError> {
    let t = stage.seconds();
    let died = fleet.reap_ended(lab)?.into_iter().map(|EndedDaemon { name, how }| {
        let loss = format!("{name} died after {t:.1} s: it {how}");
        stage.journal.incident(t, name, format!("died: it {how}"));
        loss
    });
    Ok(died.collect())
}

impl PhaseEnd<'_> {
    async fn reached(&mut self) {
        match self {
            Self::At(end) => sleep_until(*end).await,
            Self::Idle(end) => at(*end).await,
            Self::Done(end, cast) => tokio::select! {
                () = sleep_until(*end) => {}
                () = cast.done() => {}
            },
        }
    }
}

/// Waits for a time, or for ever.
async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}

fn ticks(period: Duration) -> Interval {
    let mut ticks = interval_at(Instant::now() + period, period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    ticks
}

fn failure(stage: &RequesterContext) -> RunError {
    stage.journal.failure().unwrap_or_else(|| RunError::Failed("the records cannot be written".to_owned()))
}
