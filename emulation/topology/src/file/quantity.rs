//! Numbers with a unit: lengths, levels, frequencies and speeds.

use std::time::Duration;

use serde::de::{self, Deserialize, Deserializer};

use crate::units::text_with_unit;

/// A kind of quantities: its units, the longest name before one that it ends with, and its range.
struct Kind {
    noun: &'static str,
    example: &'static str,
    /// The unit that a bare number most likely misses.
    unit: &'static str,
    units: &'static [(&'static str, f64)],
    range: std::ops::RangeInclusive<f64>,
}

const LENGTH: [(&str, f64); 4] = [("km", 1000.0), ("nmi", 1852.0), ("mi", 1609.344), ("m", 1.0)];
const HERTZ: [(&str, f64); 4] = [("GHz", 1e9), ("MHz", 1e6), ("kHz", 1e3), ("Hz", 1.0)];
const SPEED: [(&str, f64); 4] = [("km/h", 1.0 / 3.6), ("km/s", 1000.0), ("m/s", 1.0), ("kn", 1852.0 / 3600.0)];

impl Kind {
    fn read<'de, D: Deserializer<'de>>(&self, from: D) -> Result<f64, D::Error> {
        let text = text_with_unit(from, self.unit)?;
        let number = |(unit, scale): &(&str, f64)| {
            let number: f64 = text.trim().strip_suffix(unit)?.trim_end().parse().ok()?;
            Some(number * scale)
        };
        let value = self.units.iter().find_map(number);
        let value =
            value.ok_or_else(|| de::Error::custom(format!("`{text}` is no {}: write {}", self.noun, self.example)));
        let value = value?;
        let (least, most) = (self.range.start() / self.units[0].1, self.range.end() / self.units[0].1);
        let unit = self.units[0].0;
        let wrong = || de::Error::custom(format!("`{text}` is out of range: from {least}{unit} to {most}{unit}"));
        self.range.contains(&value).then_some(value).ok_or_else(wrong)
    }
}

macro_rules! quantity {
    ($name:ident, $kind:expr) => {
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub(super) struct $name(pub(super) f64);

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                const KIND: Kind = $kind;
                KIND.read(deserializer).map(Self)
            }
        }
    };
}

quantity!(Meters, Kind { noun: "length", example: "500m or 1.2km", unit: "m", units: &LENGTH, range: 0.001..=1e9 });
quantity!(Height, Kind { noun: "height", example: "10m", unit: "m", units: &LENGTH, range: -500.0..=1e6 });
quantity!(Speed, Kind { noun: "speed", example: "15m/s or 50km/h", unit: "m/s", units: &SPEED, range: 0.001..=1e5 });
quantity!(Frequency, Kind { noun: "frequency", example: "2.4GHz", unit: "MHz", units: &HERTZ, range: 1e3..=1e13 });
quantity!(Power, Kind { noun: "power", example: "20dBm", unit: "dBm", units: &[("dBm", 1.0)], range: -300.0..=200.0 });
quantity!(
    Gain,
    Kind {
        noun: "gain",
        example: "2dBi or 3dB",
        unit: "dB",
        units: &[("dBi", 1.0), ("dB", 1.0)],
        range: -200.0..=200.0
    }
);
quantity!(Spread, Kind { noun: "spread", example: "6dB", unit: "dB", units: &[("dB", 1.0)], range: 0.0..=100.0 });

/// A time since the Unix epoch, as text or as TOML's own date.
pub(super) struct Instant(pub(super) Duration);

impl<'de> Deserialize<'de> for Instant {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        read_instant(&text).map(Self).map_err(de::Error::custom)
    }
}

fn read_instant(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is no time in UTC: write \"2026-06-01T12:00:00Z\"");
    let time = humantime::parse_rfc3339(text).map_err(|_| wrong())?;
    time.duration_since(std::time::UNIX_EPOCH).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(serde::Deserialize)]
    struct One {
        power: Option<Power>,
        range: Option<Meters>,
        speed: Option<Speed>,
    }

    fn read(text: &str) -> Result<One, String> {
        toml::from_str(text).map_err(|error| error.message().to_owned())
    }

    #[test]
    fn quantities_have_units() {
        assert_eq!(read("power = '-92dBm'").unwrap().power, Some(Power(-92.0)));
        assert_eq!(read("range = '1.5km'").unwrap().range, Some(Meters(1500.0)));
        assert_eq!(read("speed = '36 km/h'").unwrap().speed, Some(Speed(10.0)));
        for (text, error) in [
            ("power = 20", "`20` has no unit: write \"20dBm\""),
            ("power = '20W'", "`20W` is no power: write 20dBm"),
            ("range = 'far'", "`far` is no length: write 500m or 1.2km"),
            ("range = '-1m'", "`-1m` is out of range: from 0.000001km to 1000000km"),
            ("range = 'NaNm'", "`NaNm` is out of range: from 0.000001km to 1000000km"),
        ] {
            assert_eq!(read(text).map(|_| ()).unwrap_err(), error);
        }
    }

    #[test]
    fn instants_are_utc() {
        assert_eq!(read_instant("1970-01-02T00:00:00Z"), Ok(Duration::from_secs(86_400)));
        assert!(read_instant("1969-01-02T00:00:00Z").is_err() && read_instant("noon").is_err());
    }
}
