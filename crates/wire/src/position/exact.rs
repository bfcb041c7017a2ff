//! The exact position of a node: 12 bytes of a record, 15 with course and speed, and 10 bytes for a move.

use minicbor::decode::Error as DecodeError;
use minicbor::encode::{Error as EncodeError, Write};
use minicbor::{Decode, Decoder, Encode, Encoder};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::lat_lon::LatLon;
use super::scale::{MOTION_BITS, accuracy, altitude, course, speed};
use crate::refusal::Refusal;

/// Bytes of a position whose course and speed are unknown; the two add three bytes.
const STILL_BYTES: usize = 11;
const MOVE_BYTES: usize = 9;

/// Steps of 1e-7° in a step of a move, which is 11 cm.
const MOVE_STEP: i64 = 10;
/// A move's difference in steps has 18 bits, with its sign: 0.13°, or 14.6 km to the north.
const STEP_BITS: u32 = 18;
const MOVE_REACH: i64 = 1 << (STEP_BITS - 1);
const FULL_TURN_E7: i64 = 3_600_000_000;

/// An exact position with all that a receiver of satellites knows about it.
///
/// In CBOR a string of bytes: latitude and longitude in 1e-7° (four bytes each), altitude (two) and accuracy (one);
/// of a moving node also course and speed (ten bits each, in three bytes). The point is off by 8 mm at most, the altitude by 0.25 m
/// up to 20 km, the course by 0.18°, the speed by 0.6 %; the accuracy is rounded up by 5.6 % at most. Two positions are
/// equal if their bytes are.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "Json", into = "Json")]
pub struct ExactPosition {
    pub at: LatLon,
    /// Meters above the ellipsoid, as RFC 5870 has it; from -1000 m to 50 000 km.
    pub altitude_m: Option<f64>,
    /// The radius in which the true place is, meters.
    pub accuracy_m: Option<f64>,
    /// Degrees from true north over east, from 0 to 360.
    pub course_deg: Option<f64>,
    /// Meters per second over ground, up to 10 km/s.
    pub speed_mps: Option<f64>,
}

/// The values of the bytes of a position.
#[derive(PartialEq, Eq)]
struct Codes {
    at: LatLon,
    altitude: u16,
    accuracy: u8,
    motion: u32,
}

/// The difference of two positions of one node, which is right only together with the position from which it was made.
///
/// Nine bytes: the differences of latitude and longitude in 1e-6° (18 bits each), altitude (16), course and speed (10 each). The
/// point is off by 8 cm at most. The accuracy stays as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move([u8; MOVE_BYTES]);

impl ExactPosition {
    pub const fn new(at: LatLon) -> Self {
        Self { at, altitude_m: None, accuracy_m: None, course_deg: None, speed_mps: None }
    }

    /// The position as others read it, with the errors of its encoding.
    pub fn rounded(&self) -> Self {
        Self::from_bytes(&self.to_bytes()).unwrap_or(*self)
    }

    /// The move from this position to `next`. None if `next` is farther than a move reaches, or if its accuracy is
    /// less than half or more than twice as great.
    pub fn move_to(&self, next: &Self) -> Option<Move> {
        let keeps_accuracy = match (self.accuracy_m, next.accuracy_m) {
            (Some(old), Some(new)) => (0.5..=2.0).contains(&(new / old)),
            (old, new) => old == new,
        };
        let [north, east] = self.rounded().at.e7().map(i64::from);
        let [to_north, to_east] = next.at.e7().map(i64::from);
        let turn = (to_east - east + FULL_TURN_E7 / 2).rem_euclid(FULL_TURN_E7) - FULL_TURN_E7 / 2;
        let steps = [to_north - north, turn].map(|e7| (e7 + MOVE_STEP / 2).div_euclid(MOVE_STEP));
        let is_near = steps.iter().all(|steps| (-MOVE_REACH..MOVE_REACH).contains(steps));
        // Rounding must not carry a point over a pole.
        let step = Move::pack(steps, next);
        (keeps_accuracy && is_near && self.moved(step).is_some()).then_some(step)
    }

    /// The position after a move; none if the move leads off the Earth.
    pub fn moved(&self, by: Move) -> Option<Self> {
        let from = self.rounded();
        let [north, east] = from.at.e7().map(i64::from);
        let [steps_north, steps_east] = by.steps();
        let lat = i32::try_from(north + steps_north * MOVE_STEP).ok()?;
        let turned = east + steps_east * MOVE_STEP;
        let lon = i32::try_from((turned + FULL_TURN_E7 / 2).rem_euclid(FULL_TURN_E7) - FULL_TURN_E7 / 2).ok()?;
        let packed = by.unpack();
        let still = Self { accuracy_m: from.accuracy_m, ..Self::new(LatLon::from_e7(lat, lon)?) };
        let altitude_m = altitude::decode((packed >> (2 * MOTION_BITS)) as u16);
        Some(Self { altitude_m, ..still.with_motion(packed as u32) })
    }

    fn to_bytes(self) -> Vec<u8> {
        let Codes { at, altitude, accuracy, motion } = self.codes();
        let [lat, lon] = at.e7().map(i32::to_be_bytes);
        let mut bytes = [lat, lon].concat();
        bytes.extend(altitude.to_be_bytes());
        bytes.push(accuracy);
        if motion != 0 {
            bytes.extend(&motion.to_be_bytes()[1..]);
        }
        bytes
    }

    fn codes(&self) -> Codes {
        let (altitude, accuracy) = (altitude::encode(self.altitude_m), accuracy::encode(self.accuracy_m));
        Codes { at: self.at, altitude, accuracy, motion: self.motion() }
    }

    /// The position that bytes hold. Bytes after the motion are of a later version, and skipped.
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (place, motion) = bytes.split_at_checked(STILL_BYTES)?;
        let [a, b, c, d, e, f, g, h, high, low, accuracy_code] = *place else { return None };
        let motion = match *motion {
            [] => 0,
            [i, j, k, ..] => u32::from_be_bytes([0, i, j, k]),
            _ => return None,
        };
        let at = LatLon::from_e7(i32::from_be_bytes([a, b, c, d]), i32::from_be_bytes([e, f, g, h]))?;
        let altitude_m = altitude::decode(u16::from_be_bytes([high, low]));
        let accuracy_m = accuracy::decode(accuracy_code);
        Some(Self { altitude_m, accuracy_m, ..Self::new(at) }.with_motion(motion))
    }

    /// Course and speed in the lower bits; 0 if both are unknown.
    fn motion(&self) -> u32 {
        u32::from(course::encode(self.course_deg)) << MOTION_BITS | u32::from(speed::encode(self.speed_mps))
    }

    fn with_motion(self, motion: u32) -> Self {
        let code = |bits: u32| (bits & ((1 << MOTION_BITS) - 1)) as u16;
        let course_deg = course::decode(code(motion >> MOTION_BITS));
        Self { course_deg, speed_mps: speed::decode(code(motion)), ..self }
    }
}

impl PartialEq for ExactPosition {
    fn eq(&self, other: &Self) -> bool {
        self.codes() == other.codes()
    }
}

impl Eq for ExactPosition {}

impl Move {
    fn pack([north, east]: [i64; 2], next: &ExactPosition) -> Self {
        let bits = |steps: i64| (steps & (2 * MOVE_REACH - 1)) as u128;
        let altitude = u128::from(altitude::encode(next.altitude_m));
        let place = (bits(north) << STEP_BITS | bits(east)) << u16::BITS | altitude;
        let packed = place << (2 * MOTION_BITS) | u128::from(next.motion());
        let mut bytes = [0; MOVE_BYTES];
        bytes.copy_from_slice(&packed.to_be_bytes()[16 - MOVE_BYTES..]);
        Self(bytes)
    }

    fn unpack(self) -> u128 {
        self.0.iter().fold(0, |packed, byte| packed << 8 | u128::from(*byte))
    }

    /// Steps to the north and to the east.
    fn steps(self) -> [i64; 2] {
        let places = self.unpack() >> (u16::BITS + 2 * MOTION_BITS);
        [places >> STEP_BITS, places].map(|bits| {
            let steps = bits as i64 & (2 * MOVE_REACH - 1);
            if steps < MOVE_REACH { steps } else { steps - 2 * MOVE_REACH }
        })
    }
}

impl<C> Encode<C> for ExactPosition {
    fn encode<W: Write>(&self, e: &mut Encoder<W>, _: &mut C) -> Result<(), EncodeError<W::Error>> {
        e.bytes(&self.to_bytes())?.ok()
    }
}

impl<'b, C> Decode<'b, C> for ExactPosition {
    fn decode(d: &mut Decoder<'b>, _: &mut C) -> Result<Self, DecodeError> {
        Ok(Self::from_bytes(d.bytes()?).ok_or(Refusal::OutOfBounds("a position off the Earth"))?)
    }
}

impl<C> Encode<C> for Move {
    fn encode<W: Write>(&self, e: &mut Encoder<W>, _: &mut C) -> Result<(), EncodeError<W::Error>> {
        e.bytes(&self.0)?.ok()
    }
}

impl<'b, C> Decode<'b, C> for Move {
    fn decode(d: &mut Decoder<'b>, _: &mut C) -> Result<Self, DecodeError> {
        Ok(d.bytes()?.try_into().map(Self).map_err(|_| Refusal::OutOfBounds("a move of another length"))?)
    }
}

/// `{"lat": 47.3769, "lon": 8.5417, "altitude_m": 408.0}`, with the fields that are known.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Json {
    lat: f64,
    lon: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    altitude_m: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    accuracy_m: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    course_deg: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    speed_mps: Option<f64>,
}

impl TryFrom<Json> for ExactPosition {
    type Error = String;

    fn try_from(json: Json) -> Result<Self, String> {
        let Json { lat, lon, altitude_m, accuracy_m, course_deg, speed_mps } = json;
        let at = LatLon::new(lat, lon).map_err(|error| error.to_string())?;
        let bounds = [
            ("altitude_m", altitude_m, -1000.0..=5e7),
            ("accuracy_m", accuracy_m, 0.0..=1e5),
            ("course_deg", course_deg, 0.0..=360.0),
            ("speed_mps", speed_mps, 0.0..=1e4),
        ];
        for (name, value, range) in bounds {
            if value.is_some_and(|value| !range.contains(&value)) {
                return Err(format!("{name} must be from {} to {}", range.start(), range.end()));
            }
        }
        Ok(Self { at, altitude_m, accuracy_m, course_deg, speed_mps })
    }
}

impl From<ExactPosition> for Json {
    fn from(position: ExactPosition) -> Self {
        let ExactPosition { at, altitude_m, accuracy_m, course_deg, speed_mps } = position;
        Self { lat: at.lat(), lon: at.lon(), altitude_m, accuracy_m, course_deg, speed_mps }
    }
}

#[cfg(test)]
mod tests {
    use proptest::option::of;
    use proptest::prelude::*;

    use super::*;

    fn positions() -> impl Strategy<Value = ExactPosition> {
        let point = (-90.0..=90.0, -180.0..=180.0).prop_map(|(lat, lon)| LatLon::new(lat, lon).unwrap());
        let known = (of(-1000.0..5e7), of(0.1..1e5), of(0.0..360.0), of(0.0..1e4));
        (point, known).prop_map(|(at, (altitude_m, accuracy_m, course_deg, speed_mps))| ExactPosition {
            at,
            altitude_m,
            accuracy_m,
            course_deg,
            speed_mps,
        })
    }

    fn is_near(a: Option<f64>, b: Option<f64>, error: impl Fn(f64) -> f64) -> bool {
        match (a, b) {
            (Some(a), Some(b)) => (a - b).abs() <= error(a),
            (a, b) => a == b,
        }
    }

    proptest! {
        #[test]
        fn decoded_position_is_within_stated_error(position in positions()) {
            let bytes = minicbor::to_vec(position).unwrap();
            let is_still = position.course_deg.is_none() && position.speed_mps.is_none();
            let most = if is_still { 12 } else { 15 };
            prop_assert!(bytes.len() <= most);
            let read: ExactPosition = minicbor::decode(&bytes).unwrap();
            prop_assert_eq!(read, position.rounded());
            prop_assert_eq!(read.at, position.at);
            let altitude_error = |m: f64| if m <= 20_000.0 { 0.2501 } else { m * 0.000_17 };
            prop_assert!(is_near(position.altitude_m, read.altitude_m, altitude_error));
            prop_assert!(is_near(position.accuracy_m, read.accuracy_m, |m| m * 0.0560));
            prop_assert!(read.accuracy_m >= position.accuracy_m.map(|m| m * 0.999_999));
            prop_assert!(is_near(position.speed_mps, read.speed_mps, |mps| (mps * 0.0057).max(0.0501)));
            let turn = |a: f64, b: f64| (a - b + 180.0).rem_euclid(360.0) - 180.0;
            if let (Some(told), Some(course)) = (read.course_deg, position.course_deg) {
                prop_assert!(turn(told, course).abs() < 0.177);
            }
        }

        #[test]
        fn move_leads_to_next_position(
            from in positions(),
            next in positions(),
            (north, east) in (-140_000_i32..140_000, -140_000_i32..140_000),
        ) {
            let [lat, lon] = from.at.e7();
            let turned = (i64::from(lon) + i64::from(east) * 10 + FULL_TURN_E7 / 2).rem_euclid(FULL_TURN_E7);
            let at = LatLon::from_e7((lat + north * 10).clamp(-900_000_000, 900_000_000), (turned - FULL_TURN_E7 / 2) as i32);
            let next = ExactPosition { at: at.unwrap(), accuracy_m: from.accuracy_m, ..next };
            if let Some(step) = from.move_to(&next) {
                prop_assert!(minicbor::to_vec(step).unwrap().len() <= 10);
                let moved = from.moved(step).unwrap();
                prop_assert!((moved.at.lat() - next.at.lat()).abs() <= 5.1e-7);
                prop_assert!(moved.at.quick_distance_m(next.at) < 0.08);
                prop_assert_eq!(moved.altitude_m, next.rounded().altitude_m);
                prop_assert_eq!(moved.course_deg, next.rounded().course_deg);
            } else {
                // Near a pole a small move turns far.
                prop_assert!(north.abs() >= 131_071 || east.abs() >= 131_071 || next.at.lat().abs() > 89.9999);
            }
        }

        #[test]
        fn decoding_never_panics(bytes: Vec<u8>, from in positions()) {
            let _ = minicbor::decode::<ExactPosition>(&bytes);
            if let Ok(step) = minicbor::decode::<Move>(&bytes) {
                let _ = from.moved(step);
            }
        }

        #[test]
        fn any_move_is_read_without_panic(bytes: [u8; 9], from in positions()) {
            let _ = from.moved(Move(bytes));
        }
    }

    #[test]
    fn json_has_bounds() {
        let position: ExactPosition = serde_json::from_str(r#"{"lat":47.3769,"lon":8.5417,"accuracy_m":20}"#).unwrap();
        assert_eq!(position.accuracy_m, Some(20.0));
        assert_eq!(serde_json::to_string(&position).unwrap(), r#"{"lat":47.3769,"lon":8.5417,"accuracy_m":20.0}"#);
        for wrong in [r#"{"lat":91,"lon":0}"#, r#"{"lat":1,"lon":0,"speed_mps":-1}"#, r#"{"lat":1,"lon":0,"up":1}"#] {
            assert!(serde_json::from_str::<ExactPosition>(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn later_fields_of_position_are_skipped() {
        let position = ExactPosition { course_deg: Some(0.0), ..ExactPosition::new(LatLon::new(1.0, 2.0).unwrap()) };
        let longer = [&position.to_bytes()[..], &[1, 2, 3]].concat();
        assert_eq!(ExactPosition::from_bytes(&longer), Some(position));
        assert_eq!(ExactPosition::from_bytes(&longer[..STILL_BYTES + 1]), None);
        assert_eq!(position.to_bytes().len(), STILL_BYTES + 3);
    }
}
