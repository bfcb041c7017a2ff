//! Values of a plan's keys, as a plan writes them.

use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

use roost_topology::units;
use serde::Deserialize;
use serde::de::{self, Deserializer};

#[derive(Clone, Copy)]
pub(super) struct DurationText(pub(super) Duration);

impl<'de> Deserialize<'de> for DurationText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = units::text_with_unit(deserializer, "s")?;
        units::parse_duration(&text).map(Self).map_err(de::Error::custom)
    }
}

/// A time in a run, or a part of its duration: `"50%"`.
#[derive(Clone, Copy)]
pub(super) enum Moment {
    At(Duration),
    Part(f64),
}

impl Moment {
    /// The time in a run of this duration.
    pub(super) fn resolve_time(self, duration: Duration) -> Duration {
        match self {
            Self::At(at) => at,
            Self::Part(part) => duration.mul_f64(part),
        }
    }
}

impl<'de> Deserialize<'de> for Moment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = units::text_with_unit(deserializer, "s")?;
        let Some(percent) = text.strip_suffix('%') else {
            return units::parse_duration(&text).map(Self::At).map_err(de::Error::custom);
        };
        let part = percent.trim().parse::<f64>().ok().filter(|percent| (0.0..100.0).contains(percent));
        part.map(|percent| Self::Part(percent / 100.0)).ok_or_else(|| {
            de::Error::custom(format!("`{text}` is no part of the duration: write 0% to 99%, or a time such as 30s"))
        })
    }
}

/// Reads a text in the notation of its type.
pub(super) fn parsed<'de, D: Deserializer<'de>, T: FromStr<Err: Display>>(from: D) -> Result<T, D::Error> {
    String::deserialize(from)?.parse().map_err(de::Error::custom)
}

/// Reads a seed: TOML has no integer beyond `i64`.
pub(super) fn seed<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    let number = i64::deserialize(from)?;
    let wrong = |_| de::Error::custom(format!("a seed is a whole number from 0 to {}, not {number}", i64::MAX));
    u64::try_from(number).map_err(wrong)
}
