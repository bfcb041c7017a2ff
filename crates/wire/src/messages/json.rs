//! JSON forms of fields that serde has none for.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// An optional duration as a whole number of milliseconds.
pub(super) mod millis {
    use std::time::Duration;

    use super::*;

    pub(crate) fn serialize<S: Serializer>(value: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
        value.map(|duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<u64>::deserialize(deserializer)?.map(Duration::from_millis))
    }
}

/// A set of transports as a list of names.
pub(super) mod schemes {
    use super::*;
    use crate::address::{Scheme, SchemeSet};

    pub(crate) fn serialize<S: Serializer>(value: &SchemeSet, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(Scheme::ALL.iter().filter(|scheme| value.contains(**scheme)).map(|scheme| scheme.name()))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SchemeSet, D::Error> {
        let names = Vec::<String>::deserialize(deserializer)?;
        let schemes: Result<Vec<Scheme>, _> = names.iter().map(|name| name.parse().map_err(D::Error::custom)).collect();
        let schemes: SchemeSet = schemes?.into_iter().collect();
        if schemes.is_empty() { Err(D::Error::custom("no transport is allowed")) } else { Ok(schemes) }
    }
}

/// A SHA-256 as 64 hexadecimal digits.
pub(super) mod digest {
    use super::*;
    use crate::object::{digest_text, parse_digest};

    pub(crate) fn serialize<S: Serializer>(value: &[u8; 32], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&digest_text(value))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<[u8; 32], D::Error> {
        let text = String::deserialize(deserializer)?;
        parse_digest(&text).ok_or_else(|| D::Error::custom("a SHA-256 has 64 hexadecimal digits"))
    }
}
