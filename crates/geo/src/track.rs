//! The way of a node in motion over the cells of the grid.

use std::time::Duration;

use roost_wire::Cell;
use roost_wire::position::{ExactPosition, OrbitElements};

use crate::datum::{Datum, GridPoint};
use crate::geodesic::distance_m;
use crate::motion::{is_moving, predict};
use crate::orbit::{Orbit, OrbitError};

/// The way on the grid is measured over this part of a cell: shorter ways drown in the rounding of points.
const STEP_CELLS: f64 = 0.05;
const SHORTEST_STEP: Duration = Duration::from_millis(20);
const MOST_STEPS: f64 = 1e6;
/// No node is faster than positions can tell, 10 km/s, so one that is away comes no sooner.
const FASTEST_MPS: f64 = 10_000.0;
/// A cell is never said to be left later, as courses turn.
const LONGEST_STAY: Duration = Duration::from_secs(600);
/// A node beyond the reach is looked at again after this time at the soonest.
const SHORTEST_ABSENCE: Duration = Duration::from_secs(1);

/// The positions of one node at all times.
#[derive(Clone, Debug)]
pub enum Track {
    /// On the course and at the speed of this position, along a geodesic; or standing there.
    Straight(ExactPosition),
    Orbit(Box<Orbit>),
}

/// A time at which a position is wanted.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// The time since the position was told.
    pub elapsed: Duration,
    /// The time since the Unix epoch (UTC), which orbits need.
    pub unix: Option<Duration>,
}

/// The cell of a track at a moment, and the time for which it stays there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stay {
    /// None off the grid, and at times for which an orbit is not known.
    pub cell: Option<Cell>,
    pub time: Duration,
}

impl Track {
    /// # Errors
    /// Fails for orbits that SGP4 does not know.
    pub fn orbit(elements: OrbitElements) -> Result<Self, OrbitError> {
        Ok(Self::Orbit(Box::new(Orbit::new(elements)?)))
    }

    pub fn is_moving(&self) -> bool {
        match self {
            Self::Straight(position) => is_moving(position),
            Self::Orbit(_) => true,
        }
    }

    /// The position at a moment; none if the orbit is not known then.
    pub fn position(&self, moment: Moment) -> Option<ExactPosition> {
        match self {
            Self::Straight(position) => Some(predict(position, moment.elapsed)),
            Self::Orbit(orbit) => orbit.position(moment.unix?).ok(),
        }
    }

    /// The cell at a moment, with the time until its border is reached at the present speed.
    pub fn stay(&self, datum: &Datum, moment: Moment) -> Stay {
        let Some(position) = self.position(moment) else {
            return Stay { cell: None, time: LONGEST_STAY };
        };
        let Ok((cell, here)) = datum.cell(position.at).and_then(|cell| Ok((cell, datum.grid_point(position.at)?)))
        else {
            let beyond_m = distance_m(datum.origin(), position.at) - crate::datum::MAX_REACH_M;
            let away = Duration::from_secs_f64((beyond_m / FASTEST_MPS).max(0.0));
            return Stay { cell: None, time: away.clamp(SHORTEST_ABSENCE, LONGEST_STAY) };
        };
        let seconds = STEP_CELLS * datum.cell_size().meters() / position.speed_mps.unwrap_or(0.0);
        let step = Duration::try_from_secs_f64(seconds).unwrap_or(LONGEST_STAY).clamp(SHORTEST_STEP, LONGEST_STAY);
        let soon = self.position(moment.after(step)).and_then(|soon| datum.grid_point(soon.at).ok());
        let time = soon.map_or(SHORTEST_ABSENCE, |soon| step.mul_f64(steps_in(cell, here, soon)).min(LONGEST_STAY));
        Stay { cell: Some(cell), time }
    }
}

impl Moment {
    pub fn after(self, time: Duration) -> Self {
        Self { elapsed: self.elapsed.saturating_add(time), unix: self.unix.map(|unix| unix.saturating_add(time)) }
    }
}

/// Ways from `here` to `soon` that lead to a border of a cell.
fn steps_in(cell: Cell, here: GridPoint, soon: GridPoint) -> f64 {
    let steps = |first: i32, at: f64, next: f64| {
        let way = next - at;
        let border = if way > 0.0 { f64::from(first) + 1.0 } else { f64::from(first) };
        (border - at) / way
    };
    let steps = [steps(cell.x, here.x, soon.x), steps(cell.y, here.y, soon.y)];
    // A node that stands has no way, and 0/0 of an axis is no number: both mean never.
    steps.into_iter().filter(|steps| steps.is_finite()).fold(MOST_STEPS, f64::min).max(0.0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use roost_wire::position::LatLon;

    use super::*;
    use crate::length::Length;

    const ISS: &str = "1 25544U 98067A   08264.51782528 -.00002182  00000-0 -11606-4 0  2927
2 25544  51.6416 247.4627 0006703 130.5360 325.0288 15.72125391563537";

    fn at(elapsed: Duration) -> Moment {
        Moment { elapsed, unix: Some(Duration::from_secs(1_221_913_500) + elapsed) }
    }

    fn datum(lat: f64, lon: f64) -> Datum {
        Datum::new(LatLon::new(lat, lon).unwrap(), Length::from_meters(1000)).unwrap()
    }

    fn cell(track: &Track, datum: &Datum, moment: Moment) -> Option<Cell> {
        datum.cell(track.position(moment)?.at).ok()
    }

    /// The distance of a track from a cell at a moment, in cells.
    fn off(track: &Track, datum: &Datum, cell: Cell, moment: Moment) -> f64 {
        let Some(point) = track.position(moment).and_then(|there| datum.grid_point(there.at).ok()) else {
            return f64::INFINITY;
        };
        let beyond = |first: i32, at: f64| (f64::from(first) - at).max(at - f64::from(first) - 1.0).max(0.0);
        beyond(cell.x, point.x).max(beyond(cell.y, point.y))
    }

    /// Follows a track by its stays, and looks between two of them as well. Far from the origin a straight course is a
    /// curve on the grid, and cuts a corner.
    fn follow(track: &Track, datum: &Datum, stays: usize) -> Result<(), TestCaseError> {
        let mut elapsed = Duration::ZERO;
        for _ in 0..stays {
            let stay = track.stay(datum, at(elapsed));
            prop_assert_eq!(stay.cell, cell(track, datum, at(elapsed)));
            if let Some(stayed) = stay.cell {
                for part in [0.1, 0.5] {
                    let inside = at(elapsed + stay.time.mul_f64(part));
                    let off = off(track, datum, stayed, inside);
                    prop_assert!(off < 0.02, "{off} cells from {stayed}");
                }
                // The end of a stay is estimated along a straight line.
                let near_end = cell(track, datum, at(elapsed + stay.time.mul_f64(0.95)));
                let step = near_end.zip(stay.cell).map(|(near, cell)| near.distance_squared(cell));
                prop_assert!(step.is_none_or(|step| step <= 2), "{near_end:?} {stay:?}");
            }
            elapsed += stay.time + Duration::from_millis(1);
        }
        Ok(())
    }

    #[test]
    fn satellite_is_followed_and_leaves_reach() {
        let datum = datum(51.7, 156.1);
        let track = Track::orbit(Orbit::from_tle(ISS).unwrap().elements()).unwrap();
        follow(&track, &datum, 500).unwrap();
        let away = track.stay(&datum, at(Duration::from_secs(1_200)));
        assert_eq!(away.cell, None);
        assert!(away.time >= SHORTEST_ABSENCE, "{away:?}");
        let without_clock = Moment { unix: None, ..at(Duration::ZERO) };
        assert_eq!(track.stay(&datum, without_clock), Stay { cell: None, time: LONGEST_STAY });
    }

    #[test]
    fn standing_node_stays() {
        let position = ExactPosition {
            course_deg: Some(3.0),
            speed_mps: Some(0.3),
            ..ExactPosition::new(LatLon::new(1.0, 2.0).unwrap())
        };
        let track = Track::Straight(position);
        assert!(!track.is_moving());
        assert_eq!(track.stay(&datum(1.0, 2.0), at(Duration::from_secs(9))).time, LONGEST_STAY);
    }

    proptest! {
        #[test]
        fn stays_follow_the_track(
            lat in prop_oneof![-80.0..80.0, 89.0..90.0, -90.0..-89.0], lon in prop_oneof![-179.0..179.0, 179.5..180.0],
            course in 0.0..360.0, speed in 0.5..10_000.0, (east, north) in (-90.0..90.0, -90.0..90.0),
        ) {
            let datum = datum(lat, lon);
            let from = datum.lat_lon(GridPoint { x: east, y: north }).unwrap();
            let position = ExactPosition { course_deg: Some(course), speed_mps: Some(speed), ..ExactPosition::new(from) };
            follow(&Track::Straight(position), &datum, 12)?;
        }
    }
}
