//! Records in motion: listed in the cell where they are now.

use std::time::Duration;

use roost_geo::Datum;
use roost_wire::{Cell, NodeId, Time};

use super::motion::Moved;
use super::{Directory, DirectoryEntry, PreviousEntry, Viewpoint};
use crate::wall::WallClock;

/// Places of a way that are looked at, at most.
const MAX_SAMPLES: u32 = 512;

impl Directory {
    /// The datum by which positions have cells; without one, records stay in the cells that they tell.
    #[must_use]
    pub fn with_datum(mut self, datum: Option<Datum>) -> Self {
        self.motions.set_datum(datum);
        self
    }

    pub(crate) fn set_clock(&mut self, now: Time, clock: WallClock) {
        self.motions.set_clock(now, clock);
    }

    /// The point from which a node compares providers that are looked for around a cell: its own, or the middle of that
    /// cell. None if no record tells a position, so that the others cost nothing.
    pub(crate) fn viewpoint(&self, node: NodeId, centre: Cell) -> Option<Viewpoint> {
        let datum = *self.motions.datum().filter(|_| !self.motions.is_empty())?;
        let own = self.get(node).filter(|entry| entry.cell() == centre).and_then(|entry| entry.position());
        let at = own.map(|own| own.at).or_else(|| datum.middle(centre).ok())?;
        Some(Viewpoint { at, datum })
    }

    /// The time of the next [`follow`](Self::follow).
    pub fn next_move(&self) -> Option<Time> {
        self.motions.next_due()
    }

    /// Lists one record that has left its cell in the one where it is now. Gives what it was. Call it until it says
    /// `None`; an allowance bounds the calls.
    pub fn follow(&mut self, now: Time) -> Option<PreviousEntry> {
        self.tick(now);
        while let Some(Moved { slot: number, cell }) = self.motions.take_due(now) {
            let before = self.entry(number).place();
            if before.cell != cell {
                self.unlist(&before, number);
                self.slots[number as usize].cell = cell;
                self.list(&before.services, cell, number);
                return Some(before);
            }
        }
        None
    }
}

impl DirectoryEntry<'_> {
    /// True of a record that changes its cell by itself.
    pub(crate) fn is_followed(&self) -> bool {
        self.motions.is_followed(self.number)
    }

    /// The cells, every other one at least, in which the record will be from now on for a time; fewer if it is so fast
    /// that it crosses more than a thousand.
    pub(crate) fn way(&self, span: Duration) -> Vec<Cell> {
        let at = |after: Duration| self.motions.position(self.now, self.number, after);
        let (Some(datum), Some(here)) = (self.motions.datum(), at(Duration::ZERO)) else { return vec![self.cell()] };
        let cells = here.speed_mps.unwrap_or(0.0) * span.as_secs_f64() / datum.cell_size().metres();
        let samples = ((cells / 2.0) as u32).clamp(1, MAX_SAMPLES);
        // Two cells a step, and the steps of the fastest end earlier.
        let step = span.div_f64((cells / 2.0).max(1.0));
        let cells = (0..=samples).filter_map(|sample| datum.cell(at(step * sample)?.at).ok());
        std::iter::once(self.cell()).chain(cells).collect()
    }
}
