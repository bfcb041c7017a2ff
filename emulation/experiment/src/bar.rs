//! Progress of a run on a terminal, with the remaining time.

use std::cell::Cell;

use roost_terminal::{Output, Steps};

use super::job::RunSpec;
use super::run_loop::{ProgressSnapshot, RunObserver};

/// A bar with one step for each second.
pub(super) struct RunProgressBar {
    steps: Steps,
    name: String,
    /// Length of the run, seconds; `None` if it is unknown.
    length: Option<f64>,
    has_plan: bool,
    shown: Cell<u64>,
}

impl RunProgressBar {
    pub(super) fn start(output: Output, job: &RunSpec<'_>) -> Self {
        let length = job.length.map(|length| length.as_secs_f64());
        let name = job.name.to_owned();
        let steps = Steps::start(output, name.clone(), length.unwrap_or(0.0) as usize);
        Self { steps, name, length, has_plan: job.plan.is_some(), shown: Cell::new(0) }
    }

    fn text(&self, glance: ProgressSnapshot) -> String {
        let ProgressSnapshot { t, active, completed, failed, programs, left } = glance;
        let time = match self.length.map(|length| length - t) {
            Some(left) if left > 0.0 => format!("{left:.0} s left"),
            Some(_) if self.has_plan => "draining".to_owned(),
            _ => format!("{t:.0} s"),
        };
        if self.has_plan {
            format!("{}: {completed} completed, {failed} failed, {active} under way, {time}", self.name)
        } else {
            format!("{}: {programs} programs run, {left} happenings to come, {time}", self.name)
        }
    }
}

impl RunObserver for RunProgressBar {
    fn second(&self, glance: ProgressSnapshot) {
        self.steps.say(self.text(glance));
        while self.shown.get() < glance.t as u64 && self.length.is_some_and(|length| (self.shown.get() as f64) < length)
        {
            self.shown.set(self.shown.get() + 1);
            self.steps.advance();
        }
    }
}
