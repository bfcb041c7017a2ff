//! Serde for a service with its form, as it reads back: `#[serde(with = "full_text")]`.

use serde::{Deserializer, Serializer};

use super::kind::Service;
use crate::text;

/// Writes the name with the form of an own service.
///
/// # Errors
/// The serializer's.
pub fn serialize<S: Serializer>(service: &Service, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&service.full_text())
}

/// Reads the name as people write it.
///
/// # Errors
/// Fails when the text is no service.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Service, D::Error> {
    text::deserialize(deserializer)
}
