//! What happens besides the workload, carried out: daemons are killed and
//! started, programs and traffic run, links change.

use std::path::Path;
use std::time::Duration;

use super::error::RunError;
use super::fleet::Fleet;
use super::journal::Journal;
use super::programs::{Ended, Programs};
use super::script::{Act, Item, Script};
use super::traffic::Traffic;
use crate::lab::Lab;
use crate::report::record::Record;
use crate::scenario::topology::ProgramAction;

/// Those who carry out a schedule.
pub(super) struct Stagehands<'a> {
    lab: &'a Lab,
    journal: &'a Journal,
    script: Script,
    programs: Programs,
    traffic: Option<Traffic>,
    had_work: bool,
}

impl<'a> Stagehands<'a> {
    /// Makes ready for a schedule; `base` is where the folders of programs begin.
    pub(super) fn new(lab: &'a Lab, journal: &'a Journal, script: Script, base: &Path) -> Result<Self, RunError> {
        let (programs, traffic) = (Programs::of(lab, base)?, Some(Traffic::of(lab)?));
        let had_work = script.has_work();
        Ok(Self { lab, journal, script, programs, traffic, had_work })
    }

    /// When to call [`Self::work`] next, if no program ends before.
    pub(super) fn deadline(&self) -> Option<Duration> {
        [self.script.deadline(), self.programs.deadline()].into_iter().flatten().min()
    }

    /// Whether all programs and all traffic that were to be have been, and
    /// nothing is to come.
    pub(super) fn is_over(&self) -> bool {
        let sends = self.traffic.as_ref().is_some_and(Traffic::is_any_sending);
        self.had_work && !sends && !self.programs.is_any_running() && self.script.deadline().is_none()
    }

    /// How many programs run, and how much is to come.
    pub(super) fn busy(&self) -> (usize, usize) {
        (self.programs.running(), self.script.left())
    }

    /// Does all that is due `now` after the beginning; whether that ends the run.
    pub(super) async fn work(&mut self, fleet: &mut Fleet, now: Duration) -> Result<bool, RunError> {
        let ended = self.programs.look(now);
        self.note(ended);
        loop {
            let due: Vec<(usize, Item)> = std::iter::from_fn(|| self.script.next(now)).collect();
            if due.is_empty() {
                return Ok(false);
            }
            // Beforehand, so that what is to happen at one time does.
            let ending = due.iter().filter_map(|(_, item)| item.act.ends_daemon());
            fleet.keep_last_words(&ending.collect::<Vec<_>>()).await;
            for (place, item) in due {
                if self.carry_out(fleet, place, item, now)? {
                    return Ok(true);
                }
            }
        }
    }

    /// Does one thing, and writes it down; whether that ends the run.
    fn carry_out(&mut self, fleet: &mut Fleet, place: usize, item: Item, now: Duration) -> Result<bool, RunError> {
        let t = now.as_secs_f64();
        self.journal.incident(t, item.object.clone(), item.what.clone());
        if item.act == Act::Halt {
            return Ok(true);
        }
        if let Err(why) = self.act(fleet, place, &item, now)? {
            self.journal.incident(t, item.object, format!("was not done: {why}"));
        }
        if !matches!(item.act, Act::Program(_, ProgramAction::Start(_) | ProgramAction::Run(_))) {
            self.script.ended(place);
        }
        Ok(false)
    }

    /// Does one thing; the inner error is what is said if it is not possible.
    fn act(
        &mut self,
        fleet: &mut Fleet,
        place: usize,
        item: &Item,
        now: Duration,
    ) -> Result<Result<(), String>, RunError> {
        match &item.act {
            Act::Told | Act::Halt => {}
            Act::Net(net, from, change) => self.lab.apply(*net, *from, *change)?,
            Act::Kill(host, hub) => fleet.kill(*host, *hub),
            Act::Stop(host, hub) => fleet.stop(*host, *hub),
            Act::Start(host, hub) => fleet.restart(self.lab, *host, *hub)?,
            Act::Traffic(agent, what) => {
                return Ok(self.traffic.as_mut().map_or(Ok(()), |traffic| traffic.perform(*agent, *what)));
            }
            Act::Program(program, what) => {
                let ended = match self.programs.perform(self.lab, (place, *program), what, now) {
                    Ok(ended) => ended,
                    Err(why) => return Ok(Err(why)),
                };
                let why = ended.as_ref().and_then(|ended| ended.record.error.clone());
                self.note(ended.into_iter().collect());
                return Ok(why.map_or(Ok(()), Err));
            }
        }
        Ok(Ok(()))
    }

    /// Writes down what has ended; who waited for it may come now.
    fn note(&mut self, ended: Vec<Ended>) {
        for Ended { item, record } in ended {
            self.journal.write(&Record::Program(record));
            self.script.ended(item);
        }
    }

    /// Ends all that still runs, and writes down what it counted.
    pub(super) fn end(mut self, now: Duration) {
        for Ended { record, .. } in self.programs.end(now) {
            self.journal.write(&Record::Program(record));
        }
        for record in self.traffic.take().map(Traffic::end).unwrap_or_default() {
            self.journal.write(&Record::Traffic(record));
        }
    }
}
