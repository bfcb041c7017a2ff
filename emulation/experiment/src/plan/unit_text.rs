//! Values of a plan that are texts with a unit, or numbers within limits, with helpful messages for a wrong
//! type.

use std::fmt;

use serde::de::{self, Deserializer, Visitor};

/// Reads a text. For a bare number the message says that the unit is missing, and shows the number with `unit`.
pub(super) fn text_with_unit<'de, D: Deserializer<'de>>(
    deserializer: D,
    unit: &'static str,
) -> Result<String, D::Error> {
    deserializer.deserialize_any(WithUnit { unit })
}

/// Reads a seed: TOML has no integer beyond `i64`.
pub(super) fn seed<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    deserializer.deserialize_any(Seed)
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

struct Seed;

impl Visitor<'_> for Seed {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a whole number from 0 to {}", i64::MAX)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<u64, E> {
        let wrong = |_| E::custom(format!("a seed is a whole number from 0 to {}, not {number}", i64::MAX));
        u64::try_from(number).map_err(wrong)
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<u64, E> {
        Ok(number)
    }
}
