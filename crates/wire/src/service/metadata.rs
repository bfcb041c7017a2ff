//! Keys and values that an offer carries for people and for selection.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use minicbor::decode::Error as DecodeError;
use minicbor::encode::{Error as EncodeError, Write};
use minicbor::{Decode, Decoder, Encode, Encoder};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The most bytes of all keys and values of one offer.
pub const MAX_METADATA_BYTES: usize = 256;

/// Keys with their values, such as `sensor=ir`, each key once. Clones share their text.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Metadata(Option<Arc<BTreeMap<Box<str>, Box<str>>>>);

/// A text is no metadata.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MetadataError {
    #[error(
        "{0:?} is not metadata: expected KEY=VALUE, the key of letters, digits, '.', '_' and '-', the value without control characters"
    )]
    Form(String),
    #[error("the key {0:?} is there twice")]
    Twice(String),
    #[error("keys and values have at most {MAX_METADATA_BYTES} bytes together")]
    TooLong,
}

impl Metadata {
    pub const EMPTY: Self = Self(None);

    /// Makes metadata of keys and values.
    ///
    /// # Errors
    /// Says which text is no key or value, or which limit they exceed.
    pub fn new<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self, MetadataError> {
        let (mut map, mut bytes) = (BTreeMap::new(), 0);
        for (key, value) in pairs {
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
            if key.is_empty() || !key.bytes().all(is_plain) || value.chars().any(char::is_control) {
                return Err(MetadataError::Form(format!("{key}={value}")));
            }
            bytes += key.len() + value.len();
            if map.insert(key.into(), value.into()).is_some() {
                return Err(MetadataError::Twice(key.to_owned()));
            }
            if bytes > MAX_METADATA_BYTES {
                return Err(MetadataError::TooLong);
            }
        }
        Ok(Self((!map.is_empty()).then(|| Arc::new(map))))
    }

    /// Makes metadata of texts `KEY=VALUE`.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn parse_all<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<Self, MetadataError> {
        let pair = |text: &'a str| text.split_once('=').ok_or_else(|| MetadataError::Form(text.to_owned()));
        let pairs: Result<Vec<_>, _> = texts.into_iter().map(pair).collect();
        Self::new(pairs?)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.as_ref()?.get(key).map(Box::as_ref)
    }

    /// Keys and values, in the order of the keys.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().flat_map(|map| map.iter()).map(|(key, value)| (key.as_ref(), value.as_ref()))
    }

    /// True if all keys and values of `other` are here.
    pub fn includes(&self, other: &Self) -> bool {
        other.iter().all(|(key, value)| self.get(key) == Some(value))
    }
}

impl fmt::Display for Metadata {
    /// `range=120,sensor=ir`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, (key, value)) in self.iter().enumerate() {
            write!(f, "{}{key}={value}", if number == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

impl FromStr for Metadata {
    type Err = MetadataError;

    /// Reads `KEY=VALUE,KEY=VALUE`; no text means no metadata.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse_all(text.split(',').filter(|_| !text.is_empty()))
    }
}

/// An object with a field for each key.
impl Serialize for Metadata {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de> Deserialize<'de> for Metadata {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let fields = BTreeMap::<String, String>::deserialize(deserializer)?;
        Self::new(fields.iter().map(|(key, value)| (key.as_str(), value.as_str()))).map_err(D::Error::custom)
    }
}

/// An array of keys and values by turns.
impl<C> Encode<C> for Metadata {
    fn encode<W: Write>(&self, e: &mut Encoder<W>, _: &mut C) -> Result<(), EncodeError<W::Error>> {
        e.array(2 * self.iter().count() as u64)?;
        for (key, value) in self.iter() {
            e.str(key)?.str(value)?;
        }
        Ok(())
    }

    fn is_nil(&self) -> bool {
        self.is_empty()
    }
}

impl<'b, C> Decode<'b, C> for Metadata {
    fn decode(d: &mut Decoder<'b>, _: &mut C) -> Result<Self, DecodeError> {
        let count = d.array()?.filter(|count| *count <= 2 * MAX_METADATA_BYTES as u64 && count % 2 == 0);
        let count = count.ok_or_else(|| DecodeError::message("too much metadata"))?;
        let pairs: Result<Vec<_>, DecodeError> = (0..count / 2).map(|_| Ok((d.str()?, d.str()?))).collect();
        Self::new(pairs?).map_err(|_| DecodeError::message("no metadata"))
    }

    fn nil() -> Option<Self> {
        Some(Self::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_reads_back() {
        let metadata: Metadata = "sensor=ir,note=bow camera, left".replace(", ", " ").parse().unwrap();
        assert_eq!((metadata.get("sensor"), metadata.get("note")), (Some("ir"), Some("bow camera left")));
        assert_eq!(metadata.to_string().parse::<Metadata>().unwrap(), metadata);
        assert_eq!(minicbor::decode::<Metadata>(&minicbor::to_vec(&metadata).unwrap()).unwrap(), metadata);
        let json = serde_json::to_string(&metadata).unwrap();
        assert_eq!(serde_json::from_str::<Metadata>(&json).unwrap(), metadata);
        assert!(metadata.includes(&"sensor=ir".parse().unwrap()) && metadata.includes(&Metadata::default()));
        assert!(!metadata.includes(&"sensor=visible".parse().unwrap()));
    }

    #[test]
    fn other_texts_are_no_metadata() {
        let long = format!("a={}", "b".repeat(MAX_METADATA_BYTES));
        for text in ["a", "=b", "a b=c", "a=\u{1b}[2J", "a=1,a=2", &long] {
            assert!(text.parse::<Metadata>().is_err(), "{text}");
        }
    }
}
