//! The run itself: nodes ask, things break, a second passes, it ends.

use std::rc::Rc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at, sleep_until};

use super::error::RunError;
use super::fleet::Fleet;
use super::interrupt::Interrupt;
use super::prepare::{Act, Happening, Prepared};
use super::requester::{Phase, Requester, Stage};
use super::sampler::Sampler;
use super::workload::{Settings, Workload, generator};
use crate::lab::Lab;
use crate::report::record::Record;

/// Time between two looks at whether the daemons are alive.
const LOOK: Duration = Duration::from_millis(200);

/// What a run is told while it goes on.
pub(super) trait Watcher {
    /// A second has passed: seconds since the beginning, requests under way,
    /// completed and failed.
    fn second(&self, t: f64, active: u32, completed: u64, failed: u64);
}

/// How a run went, in time.
#[derive(Clone, Debug, Default)]
pub(super) struct Course {
    /// How long nodes asked, seconds.
    pub(super) ran_s: f64,
    /// How long what was under way took to end, seconds.
    pub(super) drain_s: f64,
    /// Whether somebody stopped it.
    pub(super) interrupted: bool,
    /// One sentence for each daemon that died without the plan's doing.
    pub(super) losses: Vec<String>,
}

/// All that a run needs while it goes on.
pub(super) struct Conductor<'a> {
    pub(super) prepared: &'a Prepared,
    pub(super) lab: &'a Lab,
    pub(super) fleet: &'a mut Fleet,
    pub(super) stage: Rc<Stage>,
    pub(super) sampler: &'a mut Sampler,
    pub(super) interrupt: Interrupt,
    pub(super) watcher: &'a dyn Watcher,
}

impl Conductor<'_> {
    /// Conducts the run to its end. Must be called on a local task set.
    pub(super) async fn conduct(mut self) -> Result<Course, RunError> {
        let phase = watch::Sender::new(Phase::Asking);
        let mut requesters = self.requesters(&phase);
        let mut course = Course::default();
        let mut ticks = Ticks { seconds: ticks(Duration::from_secs(1)), looks: ticks(LOOK) };
        let end = Instant::from_std(self.stage.origin) + self.prepared.plan.duration;
        self.until(end, None, &mut ticks, &mut course).await?;
        course.ran_s = self.stage.seconds();
        if !course.interrupted {
            phase.send_replace(Phase::Draining);
            let end = Instant::now() + self.prepared.plan.drain;
            self.until(end, Some(&mut requesters), &mut ticks, &mut course).await?;
        }
        phase.send_replace(Phase::Over);
        while requesters.join_next().await.is_some() {}
        course.drain_s = self.stage.seconds() - course.ran_s;
        self.sample()?;
        Ok(course)
    }

    fn requesters(&self, phase: &watch::Sender<Phase>) -> JoinSet<()> {
        let plan = &self.prepared.plan;
        let mut requesters = JoinSet::new();
        for (index, (socket, alive)) in self.fleet.nodes().into_iter().enumerate() {
            let node = &self.stage.nodes[index];
            let settings = Settings {
                mix: node.mix,
                targets: node.targets.clone(),
                idle: plan.idle,
                timeout: plan.timeout,
                stream: plan.stream,
                end: roost_proto::Time::ZERO + plan.duration,
            };
            let workload = Workload::new(settings, generator(plan.seed, &node.name));
            let stage = Rc::clone(&self.stage);
            let requester = Requester { stage, node: index, socket, phase: phase.subscribe(), alive };
            requesters.spawn_local(requester.run(workload));
        }
        requesters
    }

    /// Goes on until `end`, or until all of `requesters` are done.
    async fn until(
        &mut self,
        end: Instant,
        mut requesters: Option<&mut JoinSet<()>>,
        ticks: &mut Ticks,
        course: &mut Course,
    ) -> Result<(), RunError> {
        let stage = Rc::clone(&self.stage);
        let mut interrupt = self.interrupt.clone();
        loop {
            let next = self.next_happening();
            tokio::select! {
                biased;
                () = interrupt.wait() => {
                    course.interrupted = true;
                    stage.journal.incident(stage.seconds(), "run", "was interrupted");
                    return Ok(());
                }
                () = stage.journal.broken() => return Err(failure(&stage)),
                () = sleep_until(next.unwrap_or(end)), if next.is_some() => {
                    if self.happen()? {
                        return Ok(());
                    }
                }
                () = sleep_until(end) => return Ok(()),
                _ = ticks.looks.tick() => self.look(course),
                _ = ticks.seconds.tick() => self.sample()?,
                joined = next_done(&mut requesters) => {
                    if joined.is_none() {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// When the next thing on the schedule is due.
    fn next_happening(&self) -> Option<Instant> {
        let at = self.prepared.schedule.get(self.stage.happened.get())?.at;
        Some(Instant::from_std(self.stage.origin) + at)
    }

    /// Does what is due next; whether it ends the run.
    fn happen(&mut self) -> Result<bool, RunError> {
        let place = self.stage.happened.get();
        let Some(Happening { object, what, act, .. }) = self.prepared.schedule.get(place) else { return Ok(false) };
        self.stage.happened.set(place + 1);
        match *act {
            Act::Told | Act::Halt => {}
            Act::Kill(host, hub) => self.fleet.kill(host, hub),
            Act::Stop(host, hub) => self.fleet.stop(host, hub),
            Act::Start(host, hub) => self.fleet.restart(self.lab, host, hub)?,
        }
        self.stage.journal.incident(self.stage.seconds(), object.clone(), what.clone());
        Ok(*act == Act::Halt)
    }

    fn look(&mut self, course: &mut Course) {
        for (name, how) in self.fleet.died() {
            let t = self.stage.seconds();
            course.losses.push(format!("{name} died after {t:.1} s: it {how}"));
            self.stage.journal.incident(t, name, format!("died: it {how}"));
        }
    }

    fn sample(&mut self) -> Result<(), RunError> {
        let (t, active, tally) = (self.stage.seconds(), self.stage.active.get(), self.stage.journal.tally());
        let sample = self.sampler.sample(self.lab, t, active, tally)?;
        self.stage.journal.write(&Record::Sample(sample));
        self.watcher.second(t, active, tally.completed, tally.failed);
        Ok(())
    }
}

/// What comes back again and again.
struct Ticks {
    seconds: Interval,
    looks: Interval,
}

/// Waits for the next requester that is done, `None` if all are; for ever if
/// they are not waited for.
async fn next_done(requesters: &mut Option<&mut JoinSet<()>>) -> Option<()> {
    match requesters {
        Some(requesters) => requesters.join_next().await.map(drop),
        None => std::future::pending().await,
    }
}

fn ticks(period: Duration) -> Interval {
    let mut ticks = interval_at(Instant::now() + period, period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    ticks
}

fn failure(stage: &Stage) -> RunError {
    stage.journal.failure().unwrap_or_else(|| RunError::Failed("the records cannot be written".to_owned()))
}
