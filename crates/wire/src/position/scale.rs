//! Quantities in few bits. Code 0 always means: unknown.

/// Accuracy in a byte: 0.1 m to 100 km in steps of 5.6 %, rounded up, so that nobody claims to know more than is known.
pub(super) mod accuracy {
    const FIRST_M: f64 = 0.1;
    const RATIO: f64 = 1.0559;

    pub(crate) fn encode(meters: Option<f64>) -> u8 {
        // The small part takes back what rounding added to a value that is on the scale.
        let code = |meters: f64| 1.0 + (super::steps(meters / FIRST_M, RATIO) - 1e-6).ceil();
        meters.filter(|meters| meters.is_finite()).map_or(0, |meters| code(meters).clamp(1.0, 255.0) as u8)
    }

    pub(crate) fn decode(code: u8) -> Option<f64> {
        Some(FIRST_M * RATIO.powi(i32::from(code.checked_sub(1)?)))
    }
}

/// Bits of a course, and of a speed.
pub(super) const MOTION_BITS: u32 = 10;
const LAST_MOTION: f64 = 1023.0;

/// Speed in ten bits: standing, or 0.1 m/s to 10 km/s in steps of 1.1 %; off by 0.6 % at most.
pub(super) mod speed {
    const FIRST_MPS: f64 = 0.1;
    const RATIO: f64 = 1.011_35;
    const STANDING: u16 = 1;

    pub(crate) fn encode(mps: Option<f64>) -> u16 {
        match mps.filter(|mps| mps.is_finite()) {
            None => 0,
            Some(mps) if mps < FIRST_MPS / 2.0 => STANDING,
            Some(mps) => (2.0 + super::steps(mps / FIRST_MPS, RATIO).round()).clamp(2.0, super::LAST_MOTION) as u16,
        }
    }

    pub(crate) fn decode(code: u16) -> Option<f64> {
        match code {
            0 => None,
            STANDING => Some(0.0),
            code => Some(FIRST_MPS * RATIO.powi(i32::from(code) - 2)),
        }
    }
}

/// Course in ten bits: 1023 directions, off by 0.18° at most.
pub(super) mod course {
    use super::LAST_MOTION as DIRECTIONS;

    pub(crate) fn encode(degrees: Option<f64>) -> u16 {
        let code = |degrees: f64| 1 + ((degrees.rem_euclid(360.0) / 360.0 * DIRECTIONS).round() % DIRECTIONS) as u16;
        degrees.filter(|degrees| degrees.is_finite()).map_or(0, code)
    }

    pub(crate) fn decode(code: u16) -> Option<f64> {
        Some(f64::from(code.checked_sub(1)?) * 360.0 / DIRECTIONS)
    }
}

/// Altitude in two bytes: steps of half a meter from -1000 m to 20 km, off by 0.25 m at most; above, to 50 000 km,
/// steps of 0.033 %.
pub(super) mod altitude {
    const LOWEST_M: f64 = -1000.0;
    const STEP_M: f64 = 0.5;
    const LINEAR_END_M: f64 = 20_000.0;
    const LINEAR_END: u16 = 42_001;
    const RATIO: f64 = 1.000_332_6;

    pub(crate) fn encode(meters: Option<f64>) -> u16 {
        let code = |meters: f64| match meters {
            meters if meters <= LINEAR_END_M => 1.0 + ((meters - LOWEST_M) / STEP_M).round(),
            meters => f64::from(LINEAR_END) + super::steps(meters / LINEAR_END_M, RATIO).round(),
        };
        meters
            .filter(|meters| meters.is_finite())
            .map_or(0, |meters| code(meters).clamp(1.0, f64::from(u16::MAX)) as u16)
    }

    pub(crate) fn decode(code: u16) -> Option<f64> {
        match code {
            0 => None,
            code if code <= LINEAR_END => Some(LOWEST_M + STEP_M * f64::from(code - 1)),
            code => Some(LINEAR_END_M * RATIO.powi(i32::from(code - LINEAR_END))),
        }
    }
}

/// The steps of `ratio` from 1 to `times`; far below zero for nothing and less.
fn steps(times: f64, ratio: f64) -> f64 {
    times.max(f64::MIN_POSITIVE).ln() / ratio.ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_round_trips() {
        for code in 0..=u8::MAX {
            assert_eq!(accuracy::encode(accuracy::decode(code)), code);
        }
        for code in 0..1 << MOTION_BITS {
            assert_eq!(speed::encode(speed::decode(code)), code);
            assert_eq!(course::encode(course::decode(code)), code);
        }
        for code in 0..=u16::MAX {
            assert_eq!(altitude::encode(altitude::decode(code)), code);
        }
    }

    #[test]
    fn scales_reach_their_stated_ends() {
        let last = |end: Option<f64>| end.unwrap();
        assert!(last(accuracy::decode(255)) >= 100_000.0);
        assert!(last(speed::decode(1023)) >= 10_000.0);
        assert!(last(altitude::decode(u16::MAX)) >= 50_000_000.0);
        assert_eq!(altitude::decode(42_001), Some(20_000.0));
    }
}
