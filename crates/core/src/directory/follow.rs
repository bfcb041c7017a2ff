//! Records in motion: listed in the cell where they are now.

use std::time::Duration;

use roost_geo::Datum;
use roost_wire::{Cell, NodeId, Record, Time};

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
    pub(crate) fn viewpoint(&self, node: NodeId, center: Cell) -> Option<Viewpoint> {
        let datum = *self.motions.datum().filter(|_| !self.motions.is_empty())?;
        let own = self.get(node).filter(|entry| entry.cell() == center).and_then(|entry| entry.position());
        let at = own.map(|own| own.at).or_else(|| datum.middle(center).ok())?;
        Some(Viewpoint { at, datum })
    }

    /// The cell in which a record is listed if it is published now; that of a record in motion follows from its position.
    pub(crate) fn cell_of(&self, now: Time, record: &Record) -> Cell {
        self.motions.cell_of(now, self.by_node.get(&record.node).copied(), record)
    }

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

    /// The times at which the way of a record is looked at.
    pub(crate) fn way_steps(&self, span: Duration) -> WaySteps {
        let datum = self.motions.datum();
        let here = self.motions.position(self.now, self.number, Duration::ZERO).zip(datum);
        let Some((here, datum)) = here else { return WaySteps { count: 0, step: span } };
        let cells = here.speed_mps.unwrap_or(0.0) * span.as_secs_f64() / datum.cell_size().meters();
        // Two cells a step, and the steps of the fastest end earlier.
        let count = ((cells / 2.0) as u32).clamp(1, MAX_SAMPLES);
        WaySteps { count: count + 1, step: span.div_f64((cells / 2.0).max(1.0)) }
    }

    /// The cells, every other one at least, in which the record will be from now on; each is worked out when it is
    /// taken. None beyond the datum's reach.
    pub(crate) fn way(&self, steps: WaySteps) -> impl Iterator<Item = Option<Cell>> {
        (0..steps.count).map(move |step| {
            let position = self.motions.position(self.now, self.number, steps.step * step)?;
            self.motions.datum()?.cell(position.at).ok()
        })
    }
}

/// Times from now on, the first of which is now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WaySteps {
    pub(crate) count: u32,
    step: Duration,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use roost_geo::{GridPoint, OrbitElements, predict};
    use roost_wire::{Area, Capacity, ExactPosition, LatLon, Service, ServiceSet, Version};

    use super::*;
    use crate::directory::{DirectoryQuery, NOWHERE, PublishOutcome, SearchPurpose};

    const SECOND: Duration = Duration::from_secs(1);

    fn datum(lat: f64, lon: f64, cell: &str) -> Datum {
        Datum::new(LatLon::new(lat, lon).unwrap(), cell.parse().unwrap()).unwrap()
    }

    fn directory(datum: Datum) -> Directory {
        Directory::new(10_000, 3_600 * SECOND).with_datum(Some(datum))
    }

    fn record(number: u16, position: Option<ExactPosition>) -> Record {
        let mut id = [0; 16];
        id[..2].copy_from_slice(&number.to_be_bytes());
        Record {
            node: NodeId::from_bytes(id),
            version: Version { epoch: 1, sequence: 1 },
            cell: Cell::new(0, 0),
            services: ServiceSet::ALL,
            capacity: Capacity { streams: 1, uplink_kbps: 1_000 },
            addresses: Vec::new(),
            position,
            orbit: None,
        }
    }

    fn moving(datum: &Datum, place: [f64; 2], course: f64, speed: f64) -> ExactPosition {
        let at = datum.lat_lon(GridPoint { x: place[0], y: place[1] }).unwrap();
        ExactPosition { course_deg: Some(course), speed_mps: Some(speed), ..ExactPosition::new(at) }.rounded()
    }

    fn at(time: Duration) -> Time {
        Time::ZERO + time
    }

    fn follow_all(directory: &mut Directory, now: Time) -> usize {
        std::iter::from_fn(|| directory.follow(now)).count()
    }

    fn is_found(directory: &Directory, cell: Cell, node: NodeId) -> bool {
        let (mut hits, area) = (Vec::new(), Area::Exact(cell));
        directory.find(&DirectoryQuery::new(Service::Track, area, SearchPurpose::List, 64), &mut hits);
        hits.iter().any(|hit| hit.rank.node() == node)
    }

    proptest! {
        /// Against the position of each record, worked out anew: at poles, across 180 degrees, at all speeds.
        #[test]
        fn records_are_where_their_ways_lead(
            (lat, lon) in prop_oneof![(-60.0..60.0, -179.0..179.0), (89.5..90.0, 0.0..1.0), (-1.0..1.0, 179.9..180.0)],
            movers in proptest::collection::vec(
                ((-40.0..40.0, -40.0..40.0), 0.0..360.0, prop_oneof![0.0..1.0, 1.0..50.0, 50.0..10_000.0], 0..20_u64),
                1..12,
            ),
            looks in proptest::collection::vec(1_u64..8_000, 1..8),
        ) {
            let datum = datum(lat, lon, "1km");
            let mut directory = directory(datum);
            let mut told = Vec::new();
            for (number, ((x, y), course, speed, delay)) in (1..).zip(movers) {
                let (position, since) = (moving(&datum, [x, y], course, speed), at(SECOND * delay as u32 / 10));
                let record = Record { cell: datum.cell(position.at).unwrap(), ..record(number, Some(position)) };
                prop_assert_eq!(directory.publish(since, &record), PublishOutcome::New);
                told.push((record, since));
            }
            let mut now = at(2 * SECOND);
            for pause in looks {
                now = now + Duration::from_millis(pause);
                follow_all(&mut directory, now);
                for (record, since) in &told {
                    let held = directory.get(record.node).unwrap();
                    let truth = predict(&record.position.unwrap(), now.since(*since));
                    let expected = datum.cell(truth.at).unwrap_or(NOWHERE);
                    // Beside a border, the way of the last hundredth of a second may not be seen yet.
                    let meters = truth.speed_mps.unwrap_or(0.0) * 0.011 + 0.1;
                    let is_near = |cell: Cell| datum.grid_point(truth.at).is_ok_and(|point| {
                        let off = |first: i32, at: f64| (f64::from(first) - at).max(at - f64::from(first) - 1.0);
                        off(cell.x, point.x).max(off(cell.y, point.y)) * 1000.0 <= meters
                    });
                    prop_assert!(held.cell() == expected || is_near(held.cell()), "{:?} {expected:?} {truth:?}", held.cell());
                    prop_assert!(is_found(&directory, held.cell(), record.node));
                    prop_assert!(held.position().unwrap().at.quick_distance_m(truth.at) < 0.1);
                }
            }
            for (record, _) in told {
                directory.remove(record.node);
            }
            prop_assert_eq!((directory.next_move(), directory.entries()), (None, 0));
        }
    }

    #[test]
    fn restless_records_delay_no_others() {
        let datum = datum(47.0, 8.0, "1m");
        let mut directory = directory(datum);
        for number in 0..5_000 {
            let position = moving(&datum, [f64::from(number), 0.0], 10.0, 10_000.0);
            directory.publish(Time::ZERO, &record(number, Some(position)));
        }
        let slow = moving(&datum, [0.5, 0.5], 90.0, 1.0);
        directory.publish(Time::ZERO, &record(9_999, Some(slow)));
        let node = record(9_999, None).node;
        let mut calls = 0;
        for tenth in 1..=50_u32 {
            let now = at(SECOND * tenth / 10);
            calls += follow_all(&mut directory, now);
            let expected = 0.5 + f64::from(tenth) / 10.0;
            let off = f64::from(directory.get(node).unwrap().cell().x) + 0.5 - expected;
            assert!(off.abs() <= 3.5, "{off} m after {tenth} tenths of a second");
        }
        // The allowance of a call, fifty times.
        assert!(calls <= 50 * 256, "{calls}");
    }

    #[test]
    fn one_version_may_be_told_again_later() {
        let datum = datum(47.0, 8.0, "1km");
        let mut directory = directory(datum);
        let position = moving(&datum, [0.5, 0.5], 90.0, 100.0);
        let first = record(1, Some(position));
        directory.publish(Time::ZERO, &first);
        follow_all(&mut directory, at(20 * SECOND));
        assert_eq!(directory.get(first.node).unwrap().cell(), Cell::new(2, 0));
        let later = Record { position: Some(predict(&position, 20 * SECOND)), cell: Cell::new(2, 0), ..first.clone() };
        assert_eq!(directory.publish(at(20 * SECOND), &later), PublishOutcome::Same);
        let parked = Record { position: None, version: Version { epoch: 1, sequence: 2 }, ..later };
        assert!(matches!(directory.publish(at(21 * SECOND), &parked), PublishOutcome::Replaced(_)));
        assert_eq!((directory.next_move(), directory.get(first.node).unwrap().position()), (None, None));
    }

    #[test]
    fn satellite_waits_for_the_time() {
        let orbit = OrbitElements {
            epoch_e8: 0,
            mean_motion_e8: 1_434_000_000,
            eccentricity_e7: 10_000,
            inclination_e4: 864_000,
            right_ascension_e4: 0,
            perigee_e4: 0,
            mean_anomaly_e4: 0,
            drag_e11: 0,
        };
        let datum = datum(0.0, 0.0, "1km");
        let mut directory = directory(datum);
        let satellite = Record { orbit: Some(orbit), cell: Cell::new(7, 7), ..record(1, None) };
        directory.publish(Time::ZERO, &satellite);
        assert_eq!((directory.get(satellite.node).unwrap().cell(), directory.next_move()), (Cell::new(7, 7), None));
        directory.set_clock(at(SECOND), WallClock::new(at(SECOND), 600 * SECOND));
        assert!(directory.next_move().is_some_and(|due| due.since(at(SECOND)) < SECOND / 10));
        let mut cells = std::collections::BTreeSet::new();
        for second in 2..6_000 {
            follow_all(&mut directory, at(SECOND * second));
            let entry = directory.get(satellite.node).unwrap();
            let position = entry.position().unwrap();
            let expected = datum.cell(position.at).unwrap_or(NOWHERE);
            assert!(entry.cell() == expected || entry.cell().distance_squared(expected) <= 2, "{position:?}");
            cells.insert(entry.cell());
        }
        assert!(cells.contains(&NOWHERE));
    }

    #[test]
    fn nearer_position_goes_first_within_a_cell() {
        let datum = datum(47.0, 8.0, "1km");
        let mut directory = directory(datum);
        for (number, place) in [(1, Some([0.9, 0.9])), (2, None), (3, Some([0.2, 0.2]))] {
            let still = |[x, y]: [f64; 2]| ExactPosition::new(datum.lat_lon(GridPoint { x, y }).unwrap());
            directory.publish(Time::ZERO, &record(number, place.map(still)));
        }
        directory.publish(Time::ZERO, &record(9, Some(moving(&datum, [0.1, 0.1], 0.0, 0.0))));
        let viewpoint = directory.viewpoint(record(9, None).node, Cell::new(0, 0));
        let except = Some(record(9, None).node);
        let query = DirectoryQuery::new(Service::Track, Area::Exact(Cell::new(0, 0)), SearchPurpose::List, 8);
        let mut hits = Vec::new();
        directory.find(&DirectoryQuery { viewpoint, except, ..query }, &mut hits);
        let order: Vec<NodeId> = hits.iter().map(|hit| hit.rank.node()).collect();
        assert_eq!(order, [3, 2, 1].map(|number| record(number, None).node), "the middle of the cell is between them");
    }
}
