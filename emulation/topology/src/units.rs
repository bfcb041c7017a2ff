//! Rates and durations in the notation of topologies.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::de::{self, Deserialize, Deserializer, Visitor};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(u64);

impl Rate {
    /// Unlimited: sending takes no time.
    pub const UNLIMITED: Self = Self(0);

    /// Bits per second; 0 means unlimited.
    pub const fn from_bps(bps: u64) -> Self {
        Self(bps)
    }

    /// Bits per second; 0 means unlimited.
    pub const fn bps(self) -> u64 {
        self.0
    }

    pub const fn is_unlimited(self) -> bool {
        self.0 == 0
    }

    pub const fn slower(self, other: Self) -> Self {
        if self.is_unlimited() || (!other.is_unlimited() && other.0 < self.0) { other } else { self }
    }

    /// The transmission time of `bytes`, rounded up to a nanosecond.
    pub const fn time_for(self, bytes: u64) -> Duration {
        if self.0 == 0 {
            return Duration::ZERO;
        }
        let nanos = (bytes as u128 * 8 * 1_000_000_000).div_ceil(self.0 as u128);
        // A frame of 64 KB at 1 bit/s takes 6 days, far below the 584 years of a u64.
        Duration::from_nanos(if nanos > u64::MAX as u128 { u64::MAX } else { nanos as u64 })
    }
}

/// A number or unit that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UnitError(String);

impl FromStr for Rate {
    type Err = UnitError;

    /// Reads `100Mbit`, `56kbit`, `1.5Gbit`, `2400bit` (also `bit/s`, `bps`) or `unlimited`.
    fn from_str(text: &str) -> Result<Self, UnitError> {
        if text == "unlimited" {
            return Ok(Self::UNLIMITED);
        }
        let wrong = || UnitError(format!("`{text}` is no rate: write 56kbit, 100Mbit, 1.5Gbit or unlimited"));
        let (number, unit) = split(text).ok_or_else(wrong)?;
        let unit = unit.strip_suffix("bit/s").or_else(|| unit.strip_suffix("bps")).or_else(|| unit.strip_suffix("bit"));
        let scale = match unit.ok_or_else(wrong)? {
            "" => 1.0,
            "k" | "K" => 1e3,
            "M" => 1e6,
            "G" => 1e9,
            _ => return Err(wrong()),
        };
        let bps = (number * scale).round();
        if !(1.0..=1e12).contains(&bps) {
            return Err(UnitError(format!("`{text}` is out of range: rates go from 1bit to 1000Gbit")));
        }
        // In range, as checked above.
        Ok(Self(bps as u64))
    }
}

impl<'de> Deserialize<'de> for Rate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        text_with_unit(deserializer, "Mbit")?.parse().map_err(de::Error::custom)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bps = self.0;
        match bps {
            0 => f.write_str("unlimited"),
            _ if bps.is_multiple_of(1_000_000_000) => write!(f, "{}Gbit", bps / 1_000_000_000),
            _ if bps.is_multiple_of(1_000_000) => write!(f, "{}Mbit", bps / 1_000_000),
            _ if bps.is_multiple_of(1_000) => write!(f, "{}kbit", bps / 1_000),
            _ => write!(f, "{bps}bit"),
        }
    }
}

/// Reads `50ms`, `1.5s`, `200us`, `80ns`, `2m` or `1h20m3s`: a unit is required.
///
/// # Errors
/// Fails when it is no duration, or longer than a year.
pub fn parse_duration(text: &str) -> Result<Duration, UnitError> {
    let wrong = || UnitError(format!("`{text}` is no duration: write 50ms, 1.5s, 200us or 1m30s"));
    let mut rest = text;
    let mut nanos = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
        let number: f64 = rest[..digits].parse().map_err(|_| wrong())?;
        let unit_end = rest[digits..].find(|c: char| c.is_ascii_digit() || c == '.').map_or(rest.len(), |n| digits + n);
        nanos += number * nanoseconds(&rest[digits..unit_end]).ok_or_else(wrong)?;
        rest = &rest[unit_end..];
    }
    if text.is_empty() || nanos > 366.0 * 86_400e9 {
        return Err(wrong());
    }
    // Not negative, and a year fits.
    Ok(Duration::from_nanos(nanos.round() as u64))
}

/// Reads the length of a run or of a part of it.
///
/// # Errors
/// As [`parse_duration`], and for a length of zero.
pub fn parse_length(text: &str) -> Result<Duration, UnitError> {
    let length = parse_duration(text)?;
    if length.is_zero() {
        return Err(UnitError("it must be longer than nothing".to_owned()));
    }
    Ok(length)
}

fn nanoseconds(unit: &str) -> Option<f64> {
    Some(match unit {
        "ns" => 1.0,
        "us" | "µs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "m" | "min" => 60e9,
        "h" => 3600e9,
        _ => return None,
    })
}

/// A part in percent, with at most six decimals.
pub fn format_percent(part: f64) -> String {
    let text = format!("{:.6}", part * 100.0);
    format!("{} %", text.trim_end_matches('0').trim_end_matches('.'))
}

/// Writes a duration so that [`parse_duration`] reads the same value: in the
/// largest unit, of ns, us, ms and s, that needs at most three decimals.
pub fn format_duration(duration: Duration) -> String {
    let nanos = duration.as_nanos();
    let (unit, size) = match nanos {
        0 => return "0ms".to_owned(),
        _ if nanos >= 1_000_000_000 && nanos.is_multiple_of(1_000_000) => ("s", 1_000_000_000),
        _ if nanos >= 1_000_000 && nanos.is_multiple_of(1_000) => ("ms", 1_000_000),
        _ if nanos >= 1_000 => ("us", 1_000),
        _ => ("ns", 1),
    };
    let (whole, part) = (nanos / size, nanos % size * 1000 / size);
    match part {
        0 => format!("{whole}{unit}"),
        _ => format!("{whole}.{}{unit}", format!("{part:03}").trim_end_matches('0')),
    }
}

/// Reads a text. For a bare number the message says that the unit is missing, and shows the number with `unit`.
pub fn text_with_unit<'de, D: Deserializer<'de>>(deserializer: D, unit: &'static str) -> Result<String, D::Error> {
    deserializer.deserialize_any(WithUnit { unit })
}

struct WithUnit {
    unit: &'static str,
}

impl WithUnit {
    fn wrong<E: de::Error>(&self, number: impl fmt::Display) -> E {
        E::custom(format!("`{number}` has no unit: write \"{number}{}\"", self.unit))
    }
}

impl Visitor<'_> for WithUnit {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a text with its unit, such as \"10{}\"", self.unit)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<String, E> {
        Ok(text.to_owned())
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<String, E> {
        Err(self.wrong(number))
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<String, E> {
        Err(self.wrong(number))
    }
}

fn split(text: &str) -> Option<(f64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    Some((text[..end].parse().ok()?, text[end..].trim_start()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn rates_round_trip_with_units() {
        for (text, bps) in [("56kbit", 56_000), ("1.5Gbit", 1_500_000_000), ("100Mbit/s", 100_000_000), ("9bit", 9)] {
            let rate: Rate = text.parse().unwrap();
            assert_eq!(rate.bps(), bps);
            assert_eq!(rate.to_string().parse(), Ok(rate));
        }
        for text in ["100", "100MB", "-1Mbit", "0kbit", "", "Mbit", "1e9bit", "9999Gbit", "1.2.3kbit"] {
            assert!(text.parse::<Rate>().is_err(), "{text}");
        }
    }

    #[test]
    fn frame_time_is_bits_over_rate() {
        assert_eq!(Rate::from_bps(100_000_000).time_for(1500), Duration::from_micros(120));
        assert_eq!(Rate::from_bps(3).time_for(1), Duration::from_nanos(2_666_666_667));
        assert_eq!(Rate::UNLIMITED.time_for(1500), Duration::ZERO);
        assert_eq!(Rate::UNLIMITED.slower(Rate::from_bps(5)), Rate::from_bps(5));
        assert_eq!(Rate::from_bps(7).slower(Rate::from_bps(5)), Rate::from_bps(5));
    }

    #[test]
    fn small_parts_keep_their_digits() {
        assert_eq!([0.0, 0.5, 1e-8, 1.0].map(format_percent), ["0 %", "50 %", "0.000001 %", "100 %"]);
    }

    #[test]
    fn durations_need_a_unit() {
        assert_eq!(parse_duration("1h20m3s"), Ok(Duration::from_secs(4803)));
        assert_eq!(parse_duration("0.5ms"), Ok(Duration::from_micros(500)));
        for text in ["", "5", "ms", "5 parsecs", "1.2.3s", "-1s", "1e3s", "400000h"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn durations_round_trip(nanos in 0_u64..400_000_000_000_000) {
            let duration = Duration::from_nanos(nanos);
            prop_assert_eq!(parse_duration(&format_duration(duration)), Ok(duration));
        }
    }
}
