//! The key `trace` of links, LANs, legs and directions.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ::toml::Spanned;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};

use super::fields::SourceText;
use super::values;
use crate::trace::{Playback, TraceLoadError, TraceStore};

/// The value of the key: a file, a table, or `false` for none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TraceKey {
    Off,
    File(TraceFile),
}

#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TraceFile {
    pub file: String,
    #[serde(default, deserialize_with = "values::time")]
    pub start: Option<Duration>,
    #[serde(default)]
    pub once: bool,
}

impl TraceFile {
    /// Reads the trace.
    ///
    /// # Errors
    /// Fails when the file cannot be read or is no trace.
    pub fn load(&self, store: &TraceStore) -> Result<Arc<Playback>, TraceLoadError> {
        let trace = store.load(&self.file)?;
        let start = self.start.unwrap_or_default();
        Ok(Arc::new(Playback { file: self.file.clone(), start, once: self.once, trace }))
    }
}

impl<'de> Deserialize<'de> for TraceKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TraceKeyVisitor)
    }
}

struct TraceKeyVisitor;

impl<'de> Visitor<'de> for TraceKeyVisitor {
    type Value = TraceKey;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the path of a trace, or a table with `file`")
    }

    fn visit_bool<E: de::Error>(self, flag: bool) -> Result<TraceKey, E> {
        if flag { Err(E::custom("is the path of a trace, or false for none")) } else { Ok(TraceKey::Off) }
    }

    fn visit_str<E>(self, file: &str) -> Result<TraceKey, E> {
        Ok(TraceKey::File(TraceFile { file: file.to_owned(), ..TraceFile::default() }))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<TraceKey, A::Error> {
        TraceFile::deserialize(MapAccessDeserializer::new(map)).map(TraceKey::File)
    }
}

/// The playback that a key gives; `Some(None)` ends one. Reports a trace that cannot be read.
pub(super) fn playback(source: &SourceText<'_>, key: &Spanned<TraceKey>) -> Option<Option<Arc<Playback>>> {
    match key.get_ref() {
        TraceKey::Off => Some(None),
        TraceKey::File(file) => match file.load(source.traces()) {
            Ok(playback) => Some(Some(playback)),
            Err(error) => {
                source.refuse(key.span().start, error.to_string());
                None
            }
        },
    }
}
