//! The node's place in its record.

use roost_geo::{Moment, Track};
use roost_wire::{Cell, ExactPosition, Record};

use super::HomeRegistration;
use crate::directory::NOWHERE;
use crate::node::api::NodePlace;
use crate::node::core::Core;

impl HomeRegistration {
    pub(in crate::node) fn set_place(&mut self, core: &mut Core, place: NodePlace) {
        let NodePlace { cell, position, orbit } = place;
        (self.record.cell, self.record.position, self.record.orbit) = (cell, position, orbit);
        let orbit = orbit.and_then(|orbit| Track::orbit(orbit).ok());
        (self.told.track, self.told.at) = (orbit.or(position.map(Track::Straight)), core.now);
        self.told.fix = position;
        self.publish_anew(core);
    }

    /// The node is here, of which others need no word. Gives the cell that counts: a node that stands keeps the one that
    /// it told, as one version has one cell at all hubs.
    pub(in crate::node) fn note_fix(&mut self, cell: Cell, fix: ExactPosition) -> Cell {
        if self.told.track.as_ref().is_some_and(Track::is_moving) {
            self.record.cell = cell;
        }
        self.told.fix = Some(fix);
        self.record.cell
    }

    pub(in crate::node) fn position(&self) -> Option<ExactPosition> {
        self.told.fix
    }

    /// The cell in which an orbit has the node now; none if it follows none.
    pub(in crate::node) fn follow_orbit(&mut self, core: &Core) -> Option<Cell> {
        self.record.orbit?;
        self.record.cell = self.record_now(core).cell;
        self.told.fix = self.told.track.as_ref().and_then(|track| track.position(self.moment(core)));
        Some(self.record.cell)
    }

    /// The record as it is sent now, with the position to which the one that was told has led.
    pub(in crate::node) fn record_now(&self, core: &Core) -> Record {
        let mut record = self.record.clone();
        let Some(track) = self.told.track.as_ref().filter(|track| track.is_moving()) else { return record };
        let position = track.position(self.moment(core));
        if record.orbit.is_none() {
            record.position = position;
        } else if let (Some(datum), Some(position)) = (&self.told.datum, position) {
            record.cell = datum.cell(position.at).unwrap_or(NOWHERE);
        }
        record
    }

    fn moment(&self, core: &Core) -> Moment {
        Moment { elapsed: core.now.since(self.told.at), unix: core.wall_clock.map(|clock| clock.unix(core.now)) }
    }
}
