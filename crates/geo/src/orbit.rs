//! Orbits: where a satellite is, from its two-line elements.

use std::f64::consts::PI;
use std::time::Duration;

use roost_wire::position::{ExactPosition, LatLon, OrbitElements};
use sgp4::{Constants, Elements, MinutesSinceEpoch, WGS84};

use crate::geodesic::Way;

/// WGS 84: the semi-major axis in meters, and the flattening.
const EQUATOR_M: f64 = 6_378_137.0;
const FLATTENING: f64 = 1.0 / 298.257_223_563;

/// Noon of 1 January 2000 in seconds of the Unix epoch, and the seconds of a Julian year.
const J2000_UNIX_S: f64 = 946_728_000.0;
const JULIAN_YEAR_S: f64 = 365.25 * 86_400.0;

/// SGP4 is about a kilometer off at the epoch of its elements, and one to three more for each day (Vallado and others,
/// "Revisiting Spacetrack Report #3", AIAA 2006-6753).
const ACCURACY_AT_EPOCH_M: f64 = 1000.0;
const ACCURACY_PER_DAY_M: f64 = 3000.0;
const DAY_S: f64 = 86_400.0;
/// Steps of a day, and of the drag term, in [`OrbitElements`].
const DAY_STEPS: f64 = 1e8;
const DRAG_STEPS: f64 = 1e11;
/// Beyond, a position would be more than 91 km off.
const MAX_AGE_DAYS: f64 = 30.0;
/// No satellite goes around the Earth below this altitude.
const LOWEST_ORBIT_M: f64 = 80_000.0;

/// Course and speed are measured over twice this time.
const HALF_SECOND_S: f64 = 0.5;

/// The orbit of a satellite.
///
/// ```
/// use std::time::Duration;
///
/// let elements = "ISS (ZARYA)
/// 1 25544U 98067A   08264.51782528 -.00002182  00000-0 -11606-4 0  2927
/// 2 25544  51.6416 247.4627 0006703 130.5360 325.0288 15.72125391563537";
/// let orbit = roost_geo::Orbit::from_tle(elements)?;
/// let position = orbit.position(Duration::from_secs(1_221_913_500))?;
/// assert_eq!((position.at.lat().round(), position.at.lon().round()), (52.0, 156.0));
/// # Ok::<(), roost_geo::OrbitError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Orbit {
    elements: OrbitElements,
    constants: Constants,
    /// The time of the elements, seconds of the Unix epoch.
    epoch_s: f64,
}

#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum OrbitError {
    #[error("an orbit has two lines, after a line with the name if there is one: copy the whole element set")]
    Lines,
    #[error("the element set cannot be read ({0}): copy it again")]
    Elements(String),
    #[error("the elements are {0} days away from that time, and good for 30: take newer ones")]
    Age(u32),
    #[error("the orbit is in the atmosphere at that time: the satellite has fallen, or newer elements are needed")]
    Fallen,
    #[error("the orbit has no position at that time ({0}): take newer elements")]
    Propagation(String),
}

impl Orbit {
    /// Reads an element set of two lines, or of three with a name.
    ///
    /// # Errors
    /// Fails for other texts, wrong check sums and impossible orbits.
    pub fn from_tle(text: &str) -> Result<Self, OrbitError> {
        let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let ([first, second] | [_, first, second]) = *lines.as_slice() else {
            return Err(OrbitError::Lines);
        };
        let unreadable = |error: String| OrbitError::Elements(error);
        let elements = Elements::from_tle(None, first.as_bytes(), second.as_bytes())
            .map_err(|error| unreadable(error.to_string()))?;
        let packed = packed(&elements).checked();
        Self::new(packed.ok_or_else(|| unreadable("a value is out of its range".to_owned()))?)
    }

    /// # Errors
    /// Fails for orbits that SGP4 does not know.
    pub fn new(elements: OrbitElements) -> Result<Self, OrbitError> {
        let unreadable = |error: String| OrbitError::Elements(error);
        let angle = |e4: u32| (f64::from(e4) / 1e4).to_radians();
        let orbit = sgp4::Orbit::from_kozai_elements(
            &WGS84,
            angle(elements.inclination_e4),
            angle(elements.right_ascension_e4),
            f64::from(elements.eccentricity_e7) / 1e7,
            angle(elements.perigee_e4),
            angle(elements.mean_anomaly_e4),
            // Radians per minute.
            f64::from(elements.mean_motion_e8) / 1e8 * PI / 720.0,
        )
        .map_err(|error| unreadable(error.to_string()))?;
        let epoch_s = elements.epoch_e8 as f64 / DAY_STEPS * DAY_S;
        let years = (epoch_s - J2000_UNIX_S) / JULIAN_YEAR_S;
        let drag = elements.drag_e11 as f64 / DRAG_STEPS;
        let constants = Constants::new(WGS84, sgp4::iau_epoch_to_sidereal_time, years, drag, orbit)
            .map_err(|error| unreadable(error.to_string()))?;
        Ok(Self { elements, constants, epoch_s })
    }

    pub const fn elements(&self) -> OrbitElements {
        self.elements
    }

    /// The point below the satellite with its altitude, and the course and speed of that point, at a time since the
    /// Unix epoch (UTC).
    ///
    /// UTC stands in for UT1: the ground turns 0.9 s at most between them, which is 420 m on the equator.
    ///
    /// # Errors
    /// Fails more than 30 days from the epoch of the elements, and for a satellite that has fallen.
    pub fn position(&self, unix: Duration) -> Result<ExactPosition, OrbitError> {
        let now_s = unix.as_secs_f64();
        let age_days = (now_s - self.epoch_s).abs() / DAY_S;
        if age_days > MAX_AGE_DAYS {
            return Err(OrbitError::Age(age_days as u32));
        }
        let (at, altitude_m) = self.ground_point(now_s)?;
        if altitude_m < LOWEST_ORBIT_M {
            return Err(OrbitError::Fallen);
        }
        let before = self.ground_point(now_s - HALF_SECOND_S)?.0;
        let after = self.ground_point(now_s + HALF_SECOND_S)?.0;
        let way = Way::between(before, after);
        Ok(ExactPosition {
            at,
            altitude_m: Some(altitude_m),
            accuracy_m: Some(ACCURACY_AT_EPOCH_M + ACCURACY_PER_DAY_M * age_days),
            course_deg: Some(way.bearing_deg),
            speed_mps: Some(way.distance_m / (2.0 * HALF_SECOND_S)),
        })
    }

    fn ground_point(&self, now_s: f64) -> Result<(LatLon, f64), OrbitError> {
        let failed = |error: String| OrbitError::Propagation(error);
        let minutes = MinutesSinceEpoch((now_s - self.epoch_s) / 60.0);
        let state = self.constants.propagate(minutes).map_err(|error| failed(error.to_string()))?;
        let (lat, lon, altitude_m) = geodetic(turn_with_earth(state.position.map(|km| km * 1000.0), now_s));
        Ok((LatLon::new(lat, lon).map_err(|error| failed(error.to_string()))?, altitude_m))
    }
}

/// The elements in the steps of their digits.
fn packed(elements: &Elements) -> OrbitElements {
    let epoch = elements.datetime.and_utc();
    let epoch_s = epoch.timestamp() as f64 + f64::from(epoch.timestamp_subsec_nanos()) / 1e9;
    let angle = |degrees: f64| (degrees * 1e4).round() as u32;
    OrbitElements {
        epoch_e8: (epoch_s / DAY_S * DAY_STEPS).round() as u64,
        mean_motion_e8: (elements.mean_motion * 1e8).round() as u32,
        eccentricity_e7: (elements.eccentricity * 1e7).round() as u32,
        inclination_e4: angle(elements.inclination),
        right_ascension_e4: angle(elements.right_ascension),
        perigee_e4: angle(elements.argument_of_perigee),
        mean_anomaly_e4: angle(elements.mean_anomaly),
        drag_e11: (elements.drag_term * DRAG_STEPS).round() as i64,
    }
}

/// Turns a position from the frame of SGP4 (true equator, mean equinox) into that of the Earth, by Greenwich mean
/// sidereal time.
fn turn_with_earth([x, y, z]: [f64; 3], now_s: f64) -> [f64; 3] {
    let (sin, cos) = sgp4::iau_epoch_to_sidereal_time((now_s - J2000_UNIX_S) / JULIAN_YEAR_S).sin_cos();
    [x * cos + y * sin, y * cos - x * sin, z]
}

/// Latitude and longitude in degrees and altitude in meters. The iteration converges to a micrometer in five steps.
fn geodetic([x, y, z]: [f64; 3]) -> (f64, f64, f64) {
    let eccentricity_squared = FLATTENING * (2.0 - FLATTENING);
    let from_axis = x.hypot(y);
    // The height over the equator's plane from where the plumb line meets the axis.
    let mut above_axis = z / (1.0 - eccentricity_squared);
    let mut normal = EQUATOR_M;
    for _ in 0..6 {
        let sin_lat = above_axis / above_axis.hypot(from_axis);
        normal = EQUATOR_M / (1.0 - eccentricity_squared * sin_lat * sin_lat).sqrt();
        above_axis = z + eccentricity_squared * normal * sin_lat;
    }
    let altitude_m = above_axis.hypot(from_axis) - normal;
    (above_axis.atan2(from_axis).to_degrees(), y.atan2(x).to_degrees(), altitude_m)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::geodesic::distance_m;

    const ISS: &str = "1 25544U 98067A   08264.51782528 -.00002182  00000-0 -11606-4 0  2927
2 25544  51.6416 247.4627 0006703 130.5360 325.0288 15.72125391563537";
    const CBERS: &str = "CBERS 2
1 28057U 03049A   06177.78615833  .00000060  00000-0  35940-4 0  1836
2 28057  98.4283 247.6961 0000884  88.1964 271.9322 14.35478080140550";

    /// Figures of Skyfield 1.55 with its own SGP4 and the full model of the Earth's rotation.
    #[test]
    fn ground_points_agree_with_skyfield() {
        for (elements, unix_s, lat, lon, altitude_m) in [
            (ISS, 1_221_913_500, 51.706_541_27, 156.107_011_58, 355_273.4),
            (ISS, 1_221_933_600, -22.939_721_05, -43.173_915_83, 363_474.5),
            (ISS, 1_221_978_600, 30.449_116_04, 173.155_983_88, 354_691.1),
            (CBERS, 1_151_366_400, 24.300_398_40, -30.877_923_14, 776_155.2),
            (CBERS, 1_151_496_000, -31.564_540_65, -32.270_425_02, 785_708.1),
        ] {
            let position = Orbit::from_tle(elements).unwrap().position(Duration::from_secs(unix_s)).unwrap();
            let error_m = distance_m(position.at, LatLon::new(lat, lon).unwrap());
            assert!(error_m < 450.0, "{unix_s}: {error_m}");
            assert!((position.altitude_m.unwrap() - altitude_m).abs() < 20.0, "{position:?}");
            assert!((6_000.0..8_000.0).contains(&position.speed_mps.unwrap()));
        }
    }

    /// The published example of Vallado and others, AIAA 2006-6753: 6 April 2004, 07:51:28.386009 UTC,
    /// with UT1 0.439962 s earlier.
    #[test]
    fn frame_turns_as_in_published_example() {
        let ut1_s = 1_081_237_888.386_009 - 0.439_962;
        let earth = turn_with_earth([5_094_180.162_1, 6_127_644.659_5, 6_380_344.532_7], ut1_s);
        for (axis, expected) in earth.iter().zip([-1_033_475.031_3, 7_901_305.585_6, 6_380_344.532_7]) {
            assert!((axis - expected).abs() < 1.0, "{earth:?}");
        }
    }

    #[test]
    fn packed_elements_lose_nothing() {
        for text in [ISS, CBERS] {
            let orbit = Orbit::from_tle(text).unwrap();
            let lines: Vec<&str> = text.lines().rev().collect();
            let elements = Elements::from_tle(None, lines[1].as_bytes(), lines[0].as_bytes()).unwrap();
            let whole = Constants::from_elements(&elements).unwrap();
            for minutes in [-1440.0, 0.0, 37.5, 1440.0] {
                let [packed, whole] =
                    [&orbit.constants, &whole].map(|one| one.propagate(MinutesSinceEpoch(minutes)).unwrap().position);
                let off_km = packed.iter().zip(whole).map(|(a, b)| (a - b).abs()).sum::<f64>();
                assert!(off_km < 0.001, "{minutes}: {off_km} km");
            }
        }
    }

    #[test]
    fn unusable_elements_say_why() {
        assert_eq!(Orbit::from_tle("").unwrap_err(), OrbitError::Lines);
        assert_eq!(Orbit::from_tle("a\nb\nc\nd").unwrap_err(), OrbitError::Lines);
        let damaged = ISS.replace("51.6416", "51.6417");
        assert!(matches!(Orbit::from_tle(&damaged), Err(OrbitError::Elements(_))));
        assert!(matches!(Orbit::from_tle("é\nè"), Err(OrbitError::Elements(_))));
        let late = Orbit::from_tle(ISS).unwrap().position(Duration::from_secs(1_231_913_500)).unwrap_err();
        assert_eq!(late.to_string(), "the elements are 115 days away from that time, and good for 30: take newer ones");
        // Lost 50 minutes after its epoch, the published case for errors (AIAA 2006-6753).
        let fallen = Orbit::from_tle(
            "1 28872U 05037B   05333.02012661  .25992681  00000-0  24476-3 0  1534
             2 28872  96.4736 157.9986 0303955 244.0492 110.6523 16.46015938 10708",
        );
        let gone = fallen.unwrap().position(Duration::from_secs(1_133_316_000));
        assert_eq!(gone, Err(OrbitError::Fallen));
    }

    proptest! {
        #[test]
        fn geodetic_lies_on_its_normal(lat in -90.0..=90.0_f64, lon in -179.0..179.0_f64, altitude in -1000.0..4e7_f64) {
            let ((sin_lat, cos_lat), (sin_lon, cos_lon)) = (lat.to_radians().sin_cos(), lon.to_radians().sin_cos());
            let squared = FLATTENING * (2.0 - FLATTENING);
            let normal = EQUATOR_M / (1.0 - squared * sin_lat * sin_lat).sqrt();
            let out = (normal + altitude) * cos_lat;
            let read = geodetic([out * cos_lon, out * sin_lon, (normal * (1.0 - squared) + altitude) * sin_lat]);
            prop_assert!((read.0 - lat).abs() < 1e-9);
            prop_assert!((read.2 - altitude).abs() < 1e-3);
            prop_assert!((read.1 - lon).abs() < 1e-9 || lat.abs() > 89.9999);
        }

        #[test]
        fn any_elements_are_followed_without_panic(
            epoch_e8 in 0_u64..1 << 48, mean_motion_e8 in 1_u32..=1_800_000_000, eccentricity_e7 in 0_u32..10_000_000,
            angles in proptest::array::uniform4(0..=3_600_000_u32), drag_e11 in -(1_i64 << 38)..1 << 38, days in 0_u64..60,
        ) {
            let [inclination_e4, right_ascension_e4, perigee_e4, mean_anomaly_e4] = angles;
            let elements = OrbitElements {
                epoch_e8, mean_motion_e8, eccentricity_e7, inclination_e4, right_ascension_e4, perigee_e4,
                mean_anomaly_e4, drag_e11,
            };
            if let Ok(orbit) = Orbit::new(elements) {
                let unix = Duration::from_secs((epoch_e8 / 100_000_000).saturating_sub(30) + days) * 86_400;
                let _ = orbit.position(unix).map(|position| position.rounded());
            }
        }

        #[test]
        fn reading_never_panics(text in any::<String>(), at in 0..68_usize, with in "[ -~]") {
            let _ = Orbit::from_tle(&text);
            let mut damaged = ISS.to_owned();
            damaged.replace_range(at..=at, &with);
            let _ = Orbit::from_tle(&damaged);
        }
    }
}
