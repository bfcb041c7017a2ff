//! Lengths as people write them, with their unit.

use std::fmt;
use std::str::FromStr;

use minicbor::{Decode, Encode};

/// A length in whole meters: `250m`, `5km`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
#[cbor(transparent)]
pub struct Length(#[n(0)] u32);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no length: write a number with its unit (m, km, mi, nmi), such as 5km; whole meters from 1m to 40000km"
)]
pub struct ParseLengthError(String);

/// Meters of each unit; a longer name stands before one that it ends with.
const UNITS: [(&str, f64); 4] = [("nmi", 1852.0), ("km", 1000.0), ("mi", 1609.344), ("m", 1.0)];

/// Once around the Earth: no circle and no cell is larger.
const MAX_M: f64 = 4e7;

impl Length {
    pub const fn from_meters(meters: u32) -> Self {
        Self(meters)
    }

    pub fn meters(self) -> f64 {
        f64::from(self.0)
    }
}

impl FromStr for Length {
    type Err = ParseLengthError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || ParseLengthError(text.to_owned());
        let lower = text.trim().to_ascii_lowercase();
        let read = |(unit, meters): &(&str, f64)| Some((lower.strip_suffix(unit)?.trim_end().to_owned(), *meters));
        let (number, unit) = UNITS.iter().find_map(read).ok_or_else(wrong)?;
        let meters = (number.parse::<f64>().map_err(|_| wrong())? * unit).round();
        if (1.0..=MAX_M).contains(&meters) { Ok(Self(meters as u32)) } else { Err(wrong()) }
    }
}

impl fmt::Display for Length {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            meters if meters > 0 && meters.is_multiple_of(1000) => write!(f, "{}km", meters / 1000),
            meters => write!(f, "{meters}m"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn length_needs_a_unit() {
        for (text, meters) in [("1km", 1000), ("250 m", 250), ("2.5KM", 2500), ("1nmi", 1852), ("1mi", 1609)] {
            let length: Length = text.parse().unwrap();
            assert_eq!(length, Length::from_meters(meters));
            assert_eq!(length.to_string().parse(), Ok(length));
        }
        for wrong in ["", "5", "km", "-1km", "nankm", "0m", "0.1m", "99999km", "5 kg"] {
            assert!(wrong.parse::<Length>().is_err(), "{wrong}");
        }
    }
}
