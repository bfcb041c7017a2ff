//! The orbit of a satellite in 32 bytes, from which SGP4 tells its position at any time.

use minicbor::decode::Error as DecodeError;
use minicbor::encode::{Error as EncodeError, Write};
use minicbor::{Decode, Decoder, Encode, Encoder};

use crate::refusal::{Refusal, check_bound};

const BYTES: usize = 30;

/// Mean elements as a two-line set has them, in the steps of its digits: nothing is lost but the name.
///
/// In CBOR a string of 30 bytes: the fields in their order, in 6, 4, 3, 3, 3, 3, 3 and 5 bytes. SGP4 makes no use of the
/// derivatives of the mean motion, hence they do not travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrbitElements {
    /// The time of the elements in 1e-8 days (0.864 ms) of the Unix epoch, UTC.
    pub epoch_e8: u64,
    /// Revolutions per day, in steps of 1e-8.
    pub mean_motion_e8: u32,
    pub eccentricity_e7: u32,
    /// Degrees in steps of 1e-4, as are the three other angles.
    pub inclination_e4: u32,
    pub right_ascension_e4: u32,
    pub perigee_e4: u32,
    pub mean_anomaly_e4: u32,
    /// The drag term B*, per radius of the Earth, in steps of 1e-11.
    pub drag_e11: i64,
}

impl OrbitElements {
    const FULL_TURN_E4: u32 = 3_600_000;

    fn check(&self) -> Result<(), Refusal> {
        let angles = [self.inclination_e4, self.right_ascension_e4, self.perigee_e4, self.mean_anomaly_e4];
        check_bound(self.epoch_e8 < 1 << 48, "an orbit of no time")?;
        check_bound((1..=1_800_000_000).contains(&self.mean_motion_e8), "an orbit that is no orbit")?;
        check_bound(self.eccentricity_e7 < 10_000_000, "an orbit that is not closed")?;
        check_bound(angles.iter().all(|angle| *angle <= Self::FULL_TURN_E4), "an angle beyond a full turn")?;
        check_bound(self.drag_e11.unsigned_abs() < 1 << 39, "a drag beyond all satellites")
    }

    pub fn checked(self) -> Option<Self> {
        self.check().is_ok().then_some(self)
    }

    fn to_bytes(self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        bytes[..6].copy_from_slice(&self.epoch_e8.to_be_bytes()[2..]);
        bytes[6..10].copy_from_slice(&self.mean_motion_e8.to_be_bytes());
        let thirds =
            [self.eccentricity_e7, self.inclination_e4, self.right_ascension_e4, self.perigee_e4, self.mean_anomaly_e4];
        for (place, value) in bytes[10..25].chunks_mut(3).zip(thirds) {
            place.copy_from_slice(&value.to_be_bytes()[1..]);
        }
        bytes[25..].copy_from_slice(&self.drag_e11.to_be_bytes()[3..]);
        bytes
    }

    fn from_bytes(bytes: &[u8; BYTES]) -> Self {
        let number =
            |from: usize, to: usize| bytes[from..to].iter().fold(0_u64, |value, byte| value << 8 | u64::from(*byte));
        let third = |index: usize| number(10 + 3 * index, 13 + 3 * index) as u32;
        Self {
            epoch_e8: number(0, 6),
            mean_motion_e8: number(6, 10) as u32,
            eccentricity_e7: third(0),
            inclination_e4: third(1),
            right_ascension_e4: third(2),
            perigee_e4: third(3),
            mean_anomaly_e4: third(4),
            // The shifts bring the sign to the front.
            drag_e11: (number(25, 30) << 24) as i64 >> 24,
        }
    }
}

impl<C> Encode<C> for OrbitElements {
    fn encode<W: Write>(&self, e: &mut Encoder<W>, _: &mut C) -> Result<(), EncodeError<W::Error>> {
        e.bytes(&self.to_bytes())?.ok()
    }
}

impl<'b, C> Decode<'b, C> for OrbitElements {
    /// Bytes after these are of a later version, and skipped.
    fn decode(d: &mut Decoder<'b>, _: &mut C) -> Result<Self, DecodeError> {
        let bytes = d.bytes()?.first_chunk().ok_or(Refusal::OutOfBounds("an orbit that is too short"))?;
        let elements = Self::from_bytes(bytes);
        elements.check()?;
        Ok(elements)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    prop_compose! {
        fn orbits()(
            epoch_e8 in 0_u64..1 << 48, mean_motion_e8 in 1_u32..=1_800_000_000, eccentricity_e7 in 0_u32..10_000_000,
            angles in proptest::array::uniform4(0..=OrbitElements::FULL_TURN_E4), drag_e11 in -(1_i64 << 39) + 1..1 << 39,
        ) -> OrbitElements {
            let [inclination_e4, right_ascension_e4, perigee_e4, mean_anomaly_e4] = angles;
            OrbitElements {
                epoch_e8, mean_motion_e8, eccentricity_e7, inclination_e4, right_ascension_e4, perigee_e4,
                mean_anomaly_e4, drag_e11,
            }
        }
    }

    proptest! {
        #[test]
        fn elements_round_trip(orbit in orbits()) {
            let bytes = minicbor::to_vec(orbit).unwrap();
            prop_assert_eq!(bytes.len(), 32);
            prop_assert_eq!(minicbor::decode::<OrbitElements>(&bytes).unwrap(), orbit);
        }

        #[test]
        fn decoded_elements_are_within_bounds(bytes: [u8; BYTES], longer: Vec<u8>) {
            let encoded = minicbor::to_vec(minicbor::bytes::ByteVec::from([&bytes[..], &longer].concat())).unwrap();
            if let Ok(orbit) = minicbor::decode::<OrbitElements>(&encoded) {
                prop_assert_eq!(orbit.checked(), Some(orbit));
                prop_assert_eq!(orbit.to_bytes(), bytes);
            }
            let _ = minicbor::decode::<OrbitElements>(&longer);
        }
    }
}
