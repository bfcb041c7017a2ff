//! Motion: where a node will be, and when it must tell that it is elsewhere.

use std::time::Duration;

use roost_wire::position::{ExactPosition, Move};
use roost_wire::{Cell, Time};

use crate::datum::{Datum, GridPoint};
use crate::error::PlaceError;
use crate::geodesic::{Way, distance_m, travel};

/// A mover tells its position at most this often.
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);
/// Receivers that know their place to a centimeter would tell each breath of wind.
const LEAST_TOLERANCE_M: f64 = 1.0;
/// Slower than a person strolls, course and speed of a receiver are noise.
const LEAST_SPEED_MPS: f64 = 0.5;
/// The part of a cell by which a mover may be off the place where others take it to be, if its accuracy is no more.
const OFF_COURSE: f64 = 0.02;
/// The part of a cell by which a mover must have left it: a node on the edge of two would change at each fix.
const CELL_MARGIN: f64 = 0.1;
/// A receiver that knows less than this part of a cell cannot tell the cell, and must not stay for ever.
const MAX_CELL_MARGIN: f64 = 0.5;

/// The position after a time on the course and at the speed of `position`, along a geodesic. Without both it stays.
pub fn predict(position: &ExactPosition, after: Duration) -> ExactPosition {
    let (Some(bearing_deg), Some(speed_mps)) = (position.course_deg, position.speed_mps) else {
        return *position;
    };
    if !is_moving(position) {
        return *position;
    }
    let (at, course_deg) = travel(position.at, Way { distance_m: speed_mps * after.as_secs_f64(), bearing_deg });
    ExactPosition { at, course_deg: Some(course_deg), ..*position }
}

/// True of a position that others [predict](predict): it has a course, and a speed of at least half a meter per second.
pub fn is_moving(position: &ExactPosition) -> bool {
    position.course_deg.is_some() && position.speed_mps.is_some_and(|speed_mps| speed_mps >= LEAST_SPEED_MPS)
}

/// True if a position is farther from the expected one than is known of either: than the greater accuracy of the
/// two, or a tenth of a cell if neither has one, and a meter at least. One in motion may be off by a fiftieth of a cell,
/// too: accuracy tells the error of a point, and along the way errors of the speed add up.
pub fn deviates(expected: &ExactPosition, truth: &ExactPosition, datum: &Datum) -> bool {
    let accuracies = [expected.accuracy_m, truth.accuracy_m];
    let known = accuracies.into_iter().flatten().reduce(f64::max);
    let cell_m = datum.cell_size().meters();
    let least_m = if is_moving(expected) { OFF_COURSE * cell_m } else { LEAST_TOLERANCE_M };
    let tolerance_m = known.unwrap_or(CELL_MARGIN * cell_m).max(least_m);
    distance_m(expected.at, truth.at) > tolerance_m
}

/// Decides when a moving node must publish a new record.
///
/// A new record is due when the position [deviates](deviates) from the one that others [predict](predict) from the last
/// record, or when a node that [stood still](is_moving) left its cell by a tenth of it (or by the accuracy, if that is
/// more); at most once a second. One in motion crosses borders without a record: others predict the cell, too. A record that comes too early waits for [`deadline`](Self::deadline).
///
/// ```
/// use roost_geo::{Datum, ExactPosition, Mover};
/// use roost_wire::Time;
///
/// let datum = Datum::new("47.0,8.0".parse()?, "1km".parse()?)?;
/// let mut mover = Mover::new(datum);
/// let fix = ExactPosition { accuracy_m: Some(5.0), ..ExactPosition::new("47.3769,8.5417".parse()?) };
/// assert!(mover.observe(Time::ZERO, fix)?.is_some(), "the first position is news");
/// assert!(mover.observe(Time::from_nanos(2_000_000_000), fix)?.is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Mover {
    datum: Datum,
    told: Option<(Time, Update)>,
    /// The last fix, while the shortest pause holds it back.
    held: Option<ExactPosition>,
}

/// The place that the node's next record has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Update {
    pub cell: Cell,
    /// The position that others have after this update.
    pub position: ExactPosition,
    /// The move from the position of the last update. None if only the whole position will do.
    pub step: Option<Move>,
}

impl Mover {
    pub const fn new(datum: Datum) -> Self {
        Self { datum, told: None, held: None }
    }

    /// Takes a fix. Returns the update that the node must publish now.
    ///
    /// # Errors
    /// Fails for a fix out of the datum's reach; the record stays as it is.
    pub fn observe(&mut self, now: Time, fix: ExactPosition) -> Result<Option<Update>, PlaceError> {
        self.datum.cell(fix.at)?;
        self.held = self.is_news(now, &fix).then_some(fix);
        self.release(now)
    }

    /// The time at which an update that came too early is due.
    pub fn deadline(&self) -> Option<Time> {
        let (told, _) = self.told?;
        self.held.map(|_| told + SHORTEST_PAUSE)
    }

    /// Returns the update whose deadline has come.
    ///
    /// # Errors
    /// None in practice: the fix was in the datum's reach when it came.
    pub fn release(&mut self, now: Time) -> Result<Option<Update>, PlaceError> {
        if self.deadline().is_some_and(|deadline| now < deadline) {
            return Ok(None);
        }
        let Some(fix) = self.held.take() else { return Ok(None) };
        let update = self.update(&fix)?;
        self.told = Some((now, update));
        Ok(Some(update))
    }

    fn is_news(&self, now: Time, fix: &ExactPosition) -> bool {
        let Some((told, update)) = &self.told else { return true };
        let expected = predict(&update.position, now.since(*told));
        let stands = !is_moving(&update.position);
        stands && self.has_left(update.cell, fix) || deviates(&expected, fix, &self.datum)
    }

    /// True of a fix that is outside of a cell by more than its margin.
    fn has_left(&self, cell: Cell, fix: &ExactPosition) -> bool {
        let known = fix.accuracy_m.unwrap_or(0.0) / self.datum.cell_size().meters();
        let margin = known.clamp(CELL_MARGIN, MAX_CELL_MARGIN);
        let is_off = |first: i32, at: f64| at < f64::from(first) - margin || at > f64::from(first) + 1.0 + margin;
        self.datum.grid_point(fix.at).is_ok_and(|GridPoint { x, y }| is_off(cell.x, x) || is_off(cell.y, y))
    }

    fn update(&self, fix: &ExactPosition) -> Result<Update, PlaceError> {
        let last = self.told.map(|(_, update)| update);
        let step = last.and_then(|last| last.position.move_to(fix));
        let moved = last.zip(step).and_then(|(last, step)| last.position.moved(step));
        let stays = last.map(|last| last.cell).filter(|cell| !self.has_left(*cell, fix));
        let cell = stays.map_or_else(|| self.datum.cell(fix.at), Ok)?;
        Ok(Update { cell, position: moved.unwrap_or_else(|| fix.rounded()), step })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use roost_wire::position::LatLon;

    use super::*;
    use crate::length::Length;

    fn datum() -> Datum {
        Datum::new(LatLon::new(47.0, 8.0).unwrap(), Length::from_meters(1000)).unwrap()
    }

    fn fix(at: LatLon) -> ExactPosition {
        ExactPosition { accuracy_m: Some(5.0), ..ExactPosition::new(at) }
    }

    fn on_grid(x: f64, y: f64) -> ExactPosition {
        fix(datum().lat_lon(GridPoint { x, y }).unwrap())
    }

    fn seconds(seconds: f64) -> Time {
        Time::ZERO + Duration::from_secs_f64(seconds)
    }

    #[test]
    fn steady_flight_needs_few_records() {
        let mut mover = Mover::new(datum());
        let start = ExactPosition { course_deg: Some(90.0), speed_mps: Some(50.0), ..on_grid(0.5, 0.5) };
        let told = (0..600).filter(|second| {
            let now = seconds(f64::from(*second));
            let fix = predict(&start, Duration::from_secs(*second as u64));
            mover.observe(now, fix).unwrap().is_some()
        });
        // Thirty cells in ten minutes; the speed is known to 0.6 % only, hence 20 m are reached after a minute or more.
        let told = told.count();
        assert!((2..10).contains(&told), "{told}");
    }

    #[test]
    fn noise_at_an_edge_changes_no_cell() {
        let mut mover = Mover::new(datum());
        let first = mover.observe(seconds(0.0), on_grid(0.999, 0.5)).unwrap().unwrap();
        for second in 1..100 {
            let x = if second % 2 == 0 { 0.95 } else { 1.05 };
            let update = mover.observe(seconds(f64::from(second)), on_grid(x, 0.5)).unwrap();
            assert!(update.is_none_or(|update| update.cell == first.cell));
        }
        let left = mover.observe(seconds(101.0), on_grid(1.11, 0.5)).unwrap().unwrap();
        assert_eq!(left.cell, Cell::new(1, 0));
    }

    #[test]
    fn early_update_waits_for_its_deadline() {
        let mut mover = Mover::new(datum());
        assert!(mover.observe(seconds(0.0), on_grid(0.5, 0.5)).unwrap().is_some());
        assert_eq!(mover.deadline(), None);
        assert_eq!(mover.observe(seconds(0.2), on_grid(3.5, 0.5)), Ok(None));
        assert_eq!(mover.deadline(), Some(seconds(1.0)));
        let update = mover.release(seconds(1.0)).unwrap().unwrap();
        assert_eq!(update.cell, Cell::new(3, 0));
        assert_eq!((mover.deadline(), mover.release(seconds(5.0))), (None, Ok(None)));
    }

    #[test]
    fn node_that_came_back_tells_nothing() {
        let mut mover = Mover::new(datum());
        mover.observe(seconds(0.0), on_grid(0.5, 0.5)).unwrap();
        assert_eq!(mover.observe(seconds(0.2), on_grid(3.5, 0.5)), Ok(None));
        assert_eq!(mover.observe(seconds(0.4), on_grid(0.5, 0.5)), Ok(None));
        assert_eq!((mover.deadline(), mover.release(seconds(2.0))), (None, Ok(None)));
    }

    #[test]
    fn prediction_follows_a_geodesic() {
        let jet = ExactPosition {
            course_deg: Some(309.393_536),
            speed_mps: Some(250.0),
            ..fix("47.3769,8.5417".parse().unwrap())
        };
        let arrived = predict(&jet, Duration::from_secs_f64(777_810.853_516 / 250.0));
        assert!(distance_m(arrived.at, "51.5072,-0.1276".parse().unwrap()) < 1.0);
        assert!((arrived.course_deg.unwrap() - 302.797_434).abs() < 1e-4);
        let parked = fix(jet.at);
        assert_eq!(predict(&parked, Duration::from_secs(3600)), parked);
    }

    proptest! {
        /// A walk with turns: all that others believe stays within the stated limits, except in the second after
        /// an update.
        #[test]
        fn others_know_the_place(
            legs in proptest::collection::vec((0.0..360.0, 0.0..300.0, 1_u32..40), 1..8),
            accuracy_m in proptest::option::of(1.0..3000.0),
            pause_ms in 50_u64..1500,
            noise in proptest::collection::vec(-1.0..1.0_f64, 64),
        ) {
            let datum = datum();
            let mut mover = Mover::new(datum);
            let mut truth = ExactPosition { accuracy_m, ..on_grid(0.5, 0.5) };
            let (mut now, mut last, mut others) = (Time::ZERO, None, None::<(Time, Update)>);
            for (course, speed, fixes) in legs {
                for index in 0..fixes {
                    let pause = Duration::from_millis(pause_ms);
                    truth = ExactPosition { course_deg: Some(course), speed_mps: Some(speed), ..truth };
                    truth = predict(&truth, pause);
                    let noisy = course + noise[index as usize];
                    let fix = ExactPosition { course_deg: Some(noisy), ..truth };
                    now = now + pause;
                    let due = mover.deadline().filter(|deadline| *deadline <= now);
                    let released = due.and_then(|at| Some((at, mover.release(at).unwrap()?)));
                    let observed = mover.observe(now, fix).unwrap().map(|update| (now, update));
                    for (at, update) in released.into_iter().chain(observed) {
                        prop_assert!(last.is_none_or(|last| at.since(last) >= SHORTEST_PAUSE));
                        let from_step = others.zip(update.step).map(|((_, old), step)| old.position.moved(step));
                        let heard = from_step.unwrap_or(Some(update.position.rounded()));
                        prop_assert_eq!(heard, Some(update.position));
                        (last, others) = (Some(at), Some((at, update)));
                    }
                    let (at, update) = others.unwrap();
                    if now.since(at) > SHORTEST_PAUSE {
                        let believed = predict(&update.position, now.since(at));
                        prop_assert!(!deviates(&believed, &fix, &datum));
                        prop_assert!(is_moving(&update.position) || !mover.has_left(update.cell, &fix));
                    }
                }
            }
        }

        #[test]
        fn parked_node_is_quiet(noise in proptest::collection::vec((-3.0..3.0, -3.0..3.0), 1..100)) {
            let mut mover = Mover::new(datum());
            mover.observe(Time::ZERO, on_grid(0.9999, 0.5)).unwrap();
            for (second, (east, north)) in noise.into_iter().enumerate() {
                let fix = on_grid(0.9999 + east / 1000.0, 0.5 + north / 1000.0);
                prop_assert_eq!(mover.observe(seconds(second as f64 + 1.0), fix), Ok(None));
            }
        }
    }
}
