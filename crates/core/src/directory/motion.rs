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

use crate::wall::WallClock;

/// Records that are followed at the same time, about a kilobyte each if all are satellites. Others stay in the cell that
/// they told.
pub(super) const MAX_FOLLOWED: usize = 16 * 1024;
const MAX_ORBITS: usize = 1_024;

/// Changes of cells in a second, 5 µs each, and the most that wait for one call.
const MOVES_PER_SECOND: f64 = 20_000.0;
const MOST_AT_ONCE: f64 = 256.0;
/// A record is looked at again after this time at the soonest: a satellite crosses 75 m meanwhile.
const SHORTEST_STAY: Duration = Duration::from_millis(10);

/// The cell of records that are beyond the datum's reach: a corner of the grid, farther than all others.
pub const NOWHERE: Cell = Cell::new(-MAX_COORDINATE, -MAX_COORDINATE);

/// The positions of a directory's records, by slot. A record without one takes no memory here.
#[derive(Debug, Default)]
pub(super) struct Motions {
    datum: Option<Datum>,
    clock: Option<WallClock>,
    placed: BTreeMap<u32, Placed>,
    /// The times at which records in motion leave their cells.
    due: BTreeSet<(Time, u32)>,
    orbits: usize,
    allowance: f64,
    refilled: Time,
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

impl Motions {
    pub(super) fn set_datum(&mut self, datum: Option<Datum>) {
        self.datum = datum;
    }

    /// Satellites that came before the first word of the time are looked at now.
    pub(super) fn set_clock(&mut self, now: Time, clock: WallClock) {
        if self.clock.replace(clock).is_none() && self.orbits > 0 {
            let waiting = self.placed.iter().filter(|(_, placed)| placed.due.is_none());
            let orbits = waiting.filter(|(_, placed)| matches!(placed.track, Track::Orbit(_)));
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

    /// Takes note of the position that a record tells. Gives the cell in which the record is now.
    pub(super) fn insert(&mut self, now: Time, slot: u32, record: &Record) -> Cell {
        self.remove(slot);
        let has_room = self.orbits < MAX_ORBITS;
        let orbit = record.orbit.filter(|_| has_room).and_then(|orbit| Track::orbit(orbit).ok());
        let Some(track) = orbit.or(record.position.map(Track::Straight)) else { return record.cell };
        self.orbits += usize::from(matches!(track, Track::Orbit(_)));
        let Record { cell, position, orbit, .. } = *record;
        self.placed.insert(slot, Placed { cell, position, orbit, at: now, track, due: None });
        let stay = self.stay(now, slot);
        self.wait(now, slot, stay);
        stay.map_or(record.cell, |stay| stay.cell.unwrap_or(NOWHERE))
    }

    pub(super) fn remove(&mut self, slot: u32) {
        let Some(placed) = self.placed.remove(&slot) else { return };
        self.orbits -= usize::from(matches!(placed.track, Track::Orbit(_)));
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
        let earned = now.since(self.refilled).as_secs_f64() * MOVES_PER_SECOND;
        self.allowance = (self.allowance + earned).min(MOST_AT_ONCE);
        self.refilled = now;
        if self.allowance < 1.0 {
            return None;
        }
        self.allowance -= 1.0;
        let stay = self.stay(now, slot);
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
    fn stay(&self, now: Time, slot: u32) -> Option<Stay> {
        let placed = self.placed.get(&slot).filter(|placed| placed.track.is_moving())?;
        let knows_time = self.clock.is_some() || !matches!(placed.track, Track::Orbit(_));
        let datum = self.datum.as_ref().filter(|_| knows_time)?;
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
