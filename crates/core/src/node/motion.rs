//! Fixes of a receiver, and the records that they are worth.

use roost_geo::{Datum, Mover, Update};
use roost_wire::{Cell, ExactPosition};

use super::api::NodePlace;
use super::core::Core;
use super::timers::Timer;

#[derive(Debug)]
pub(super) struct NodeMotion {
    datum: Option<Datum>,
    mover: Option<Mover>,
}

impl NodeMotion {
    pub(super) fn new(datum: Option<Datum>) -> Self {
        Self { datum, mover: datum.map(Mover::new) }
    }

    /// The cell of a fix; none without a datum, and beyond its reach.
    pub(super) fn cell(&self, fix: &ExactPosition) -> Option<Cell> {
        self.datum.as_ref()?.cell(fix.at).ok()
    }

    /// Takes a fix. Gives the place that others are to hear of, if any.
    pub(super) fn on_fix(&mut self, core: &mut Core, fix: ExactPosition) -> Option<NodePlace> {
        let update = self.mover.as_mut()?.observe(core.now, fix).ok()?;
        self.plan(core);
        update.map(place)
    }

    /// Gives the place that came too soon after the one before.
    pub(super) fn on_timer(&mut self, core: &mut Core) -> Option<NodePlace> {
        let update = self.mover.as_mut()?.release(core.now).ok()?;
        self.plan(core);
        update.map(place)
    }

    /// The node was put elsewhere: the next fix is news.
    pub(super) fn reset(&mut self, core: &mut Core) {
        self.mover = self.datum.map(Mover::new);
        core.timers.clear(Timer::Fix);
    }

    fn plan(&self, core: &mut Core) {
        match self.mover.as_ref().and_then(Mover::deadline) {
            Some(deadline) => core.timers.set(Timer::Fix, deadline),
            None => core.timers.clear(Timer::Fix),
        }
    }
}

fn place(update: Update) -> NodePlace {
    NodePlace { cell: update.cell, position: Some(update.position), orbit: None }
}
