//! Exact positions of records, and the records in motion among them, which change cells without a word of their nodes.
//!
//! A record in motion waits in a queue for the time at which it leaves its cell; then the directory lists it in the next
//! one. All of one hub share an allowance, the longest overdue go first, and one that was served goes to the back: a
//! record that crosses a cell all the time delays the others by a turn at most.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use roost_geo::{Datum, Moment, Stay, Track};
use roost_wire::grid::MAX_COORDINATE;
use roost_wire::{Cell, ExactPosition, OrbitElements, Record, Time};

use super::work_allowance::WorkAllowance;
use crate::wall::WallClock;

/// Records that are followed at the same time, about a kilobyte each if all are satellites. Others stay in the cell that
/// they told.
pub(super) const MAX_FOLLOWED: usize = 16 * 1024;
const MAX_ORBITS: usize = 1_024;

/// Changes of cells that wait for one call, at most.
const MOST_AT_ONCE: u32 = 256;
/// A record is looked at again after this time at the soonest: a satellite crosses 75 m meanwhile.
const SHORTEST_STAY: Duration = Duration::from_millis(10);

/// The cell of records that are beyond the datum's reach: a corner of the grid, farther than all others.
pub const NOWHERE: Cell = Cell::new(-MAX_COORDINATE, -MAX_COORDINATE);

/// The positions of a directory's records, by slot. A record without one takes no memory here.
#[derive(Debug)]
pub(super) struct Motions {
    datum: Option<Datum>,
    clock: Option<WallClock>,
    placed: BTreeMap<u32, Placed>,
    /// The times at which records in motion leave their cells.
    due: BTreeSet<(Time, u32)>,
    orbits: usize,
    allowance: WorkAllowance,
}

/// The position of a record, as it was told.
#[derive(Debug)]
pub(super) struct Placed {
    pub(super) cell: Cell,
    pub(super) position: Option<ExactPosition>,
    pub(super) orbit: Option<OrbitElements>,
    at: Time,
    track: Track,
    /// The time under which it stands in the queue.
    due: Option<Time>,
}

impl Placed {
    const fn is_orbit(&self) -> bool {
        matches!(self.track, Track::Orbit(_))
    }
}

impl Default for Motions {
    fn default() -> Self {
        Self {
            datum: None,
            clock: None,
            placed: BTreeMap::new(),
            due: BTreeSet::new(),
            orbits: 0,
            allowance: WorkAllowance::new(MOST_AT_ONCE),
        }
    }
}

impl Motions {
    pub(super) fn set_datum(&mut self, datum: Option<Datum>) {
        self.datum = datum;
    }

    /// Satellites that came before the first word of the time are looked at now.
    pub(super) fn set_clock(&mut self, now: Time, clock: WallClock) {
        if self.clock.replace(clock).is_none() && self.orbits > 0 {
            let waiting = self.placed.iter().filter(|(_, placed)| placed.due.is_none());
            let orbits = waiting.filter(|(_, placed)| placed.is_orbit());
            let orbits: Vec<u32> = orbits.map(|(slot, _)| *slot).collect();
            let at_once = Stay { cell: None, time: Duration::ZERO };
            orbits.into_iter().for_each(|slot| self.wait(now, slot, Some(at_once)));
        }
    }

    pub(super) fn get(&self, slot: u32) -> Option<&Placed> {
        self.placed.get(&slot)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.placed.is_empty()
    }

    /// True if a record tells of its position what is held already: of one version it tells one way, at any time.
    pub(super) fn says(&self, slot: u32, record: &Record) -> bool {
        let held = self.placed.get(&slot).map(|placed| (placed.position.is_some(), placed.orbit));
        held.unwrap_or_default() == (record.position.is_some(), record.orbit)
    }

    pub(super) fn bytes(&self) -> usize {
        let orbit = self.orbits * size_of::<roost_geo::Orbit>();
        self.placed.len() * size_of::<(u32, Placed)>() + self.due.len() * size_of::<(Time, u32)>() + orbit
    }

    pub(super) const fn datum(&self) -> Option<&Datum> {
        self.datum.as_ref()
    }

    /// The cell in which a record is listed if it is told now.
    pub(super) fn cell_of(&self, now: Time, slot: Option<u32>, record: &Record) -> Cell {
        let held = slot.and_then(|slot| self.placed.get(&slot));
        let Some(placed) = self.placed(now, held, record) else { return record.cell };
        self.stay(now, &placed).map_or(record.cell, |stay| stay.cell.unwrap_or(NOWHERE))
    }

    /// Takes note of the position that a record tells. Gives the cell in which the record is now.
    pub(super) fn insert(&mut self, now: Time, slot: u32, record: &Record) -> Cell {
        self.remove(slot);
        let Some(placed) = self.placed(now, None, record) else { return record.cell };
        let stay = self.stay(now, &placed);
        self.orbits += usize::from(placed.is_orbit());
        self.placed.insert(slot, placed);
        self.wait(now, slot, stay);
        stay.map_or(record.cell, |stay| stay.cell.unwrap_or(NOWHERE))
    }

    /// The position that a record tells, in the room of one that is held.
    fn placed(&self, now: Time, held: Option<&Placed>, record: &Record) -> Option<Placed> {
        let has_room = self.orbits < MAX_ORBITS || held.is_some_and(Placed::is_orbit);
        let followed = record.orbit.filter(|_| has_room).and_then(|orbit| Track::orbit(orbit).ok());
        let track = followed.or(record.position.map(Track::Straight))?;
        let Record { cell, position, orbit, .. } = *record;
        Some(Placed { cell, position, orbit, at: now, track, due: held.and_then(|held| held.due) })
    }

    pub(super) fn remove(&mut self, slot: u32) {
        let Some(placed) = self.placed.remove(&slot) else { return };
        self.orbits -= usize::from(placed.is_orbit());
        if let Some(due) = placed.due {
            self.due.remove(&(due, slot));
        }
    }

    pub(super) fn next_due(&self) -> Option<Time> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Takes the record that has left its cell first, with its cell now. None if no record has, or if no more may be
    /// followed at the moment.
    pub(super) fn take_due(&mut self, now: Time) -> Option<Moved> {
        let (_, slot) = self.due.first().copied().filter(|(at, _)| *at <= now)?;
        if self.allowance.refill(now) == 0 {
            return None;
        }
        self.allowance.spend(1);
        let stay = self.placed.get(&slot).and_then(|placed| self.stay(now, placed));
        self.wait(now, slot, stay);
        let told = self.placed.get(&slot).map_or(NOWHERE, |placed| placed.cell);
        Some(Moved { slot, cell: stay.map_or(told, |stay| stay.cell.unwrap_or(NOWHERE)) })
    }

    /// The position of a record after a time from now.
    pub(super) fn position(&self, now: Time, slot: u32, after: Duration) -> Option<ExactPosition> {
        let placed = self.placed.get(&slot)?;
        placed.track.position(self.moment(now, placed).after(after)).map(|position| position.rounded())
    }

    /// True of a record that changes its cell by itself.
    pub(super) fn is_followed(&self, slot: u32) -> bool {
        self.placed.get(&slot).is_some_and(|placed| placed.due.is_some())
    }

    fn moment(&self, now: Time, placed: &Placed) -> Moment {
        Moment { elapsed: now.since(placed.at), unix: self.clock.map(|clock| clock.unix(now)) }
    }

    /// None of a record that stands, or whose way is not known here.
    fn stay(&self, now: Time, placed: &Placed) -> Option<Stay> {
        let knows_time = self.clock.is_some() || !placed.is_orbit();
        let datum = self.datum.as_ref().filter(|_| knows_time && placed.track.is_moving())?;
        let has_room = placed.due.is_some() || self.due.len() < MAX_FOLLOWED;
        has_room.then(|| placed.track.stay(datum, self.moment(now, placed)))
    }

    /// Puts a record into the queue, or out of it.
    fn wait(&mut self, now: Time, slot: u32, stay: Option<Stay>) {
        let Some(placed) = self.placed.get_mut(&slot) else { return };
        if let Some(due) = placed.due.take() {
            self.due.remove(&(due, slot));
        }
        if let Some(stay) = stay {
            let due = now + stay.time.max(SHORTEST_STAY);
            placed.due = Some(due);
            self.due.insert((due, slot));
        }
    }
}

/// A record that may be in another cell.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moved {
    pub(super) slot: u32,
    pub(super) cell: Cell,
}
