//! Labels of a member: words of the operator's own in a certificate, by which rules of a policy tell members apart.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The most labels of one member.
pub const MAX_LABELS: usize = 8;

/// The longest key, and the longest value, of a label, bytes.
pub const MAX_LABEL_BYTES: usize = 32;

/// Labels of a member, such as `team=red`, each key once. Clones share their text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Labels(Option<Arc<BTreeMap<Box<str>, Box<str>>>>);

/// A text is no list of labels.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LabelError {
    #[error(
        "{0:?} is not a label: expected KEY=VALUE, each of 1 to {MAX_LABEL_BYTES} letters, digits, '.', '_' and '-'"
    )]
    Form(String),
    #[error("the label {0:?} is there twice")]
    Twice(String),
    #[error("a member has at most {MAX_LABELS} labels")]
    TooMany,
}

impl Labels {
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.as_ref()?.get(key).map(Box::as_ref)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Keys and values, in the order of the keys.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().flat_map(|labels| labels.iter()).map(|(key, value)| (key.as_ref(), value.as_ref()))
    }

    /// Makes labels of texts `KEY=VALUE`.
    ///
    /// # Errors
    /// Says which text is no label, or which limit the labels exceed.
    pub fn parse_all<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<Self, LabelError> {
        let mut labels = BTreeMap::new();
        for text in texts {
            let (key, value) = text.split_once('=').ok_or_else(|| LabelError::Form(text.to_owned()))?;
            if !(is_word(key) && is_word(value)) {
                return Err(LabelError::Form(text.to_owned()));
            }
            if labels.insert(key.into(), value.into()).is_some() {
                return Err(LabelError::Twice(key.to_owned()));
            }
            if labels.len() > MAX_LABELS {
                return Err(LabelError::TooMany);
            }
        }
        Ok(Self((!labels.is_empty()).then(|| Arc::new(labels))))
    }
}

fn is_word(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    (1..=MAX_LABEL_BYTES).contains(&text.len()) && text.bytes().all(is_plain)
}

impl fmt::Display for Labels {
    /// `role=scout,team=red`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, (key, value)) in self.iter().enumerate() {
            write!(f, "{}{key}={value}", if number == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

impl FromStr for Labels {
    type Err = LabelError;

    /// Reads the form that [`Labels`] displays; no text means no labels.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse_all(text.split(',').filter(|_| !text.is_empty()))
    }
}

/// An object with a field for each label.
impl Serialize for Labels {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de> Deserialize<'de> for Labels {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let fields = BTreeMap::<String, String>::deserialize(deserializer)?;
        let texts: Vec<String> = fields.iter().map(|(key, value)| format!("{key}={value}")).collect();
        Self::parse_all(texts.iter().map(String::as_str)).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_read_back() {
        for text in ["", "team=red", "role=scout,team=red"] {
            assert_eq!(text.parse::<Labels>().unwrap().to_string(), text);
        }
        let labels = Labels::parse_all(["team=red", "role=scout"]).unwrap();
        assert_eq!((labels.get("team"), labels.get("speed")), (Some("red"), None));
        assert_eq!(labels.iter().collect::<Vec<_>>(), [("role", "scout"), ("team", "red")]);
        let json = serde_json::to_string(&labels).unwrap();
        assert_eq!(json, r#"{"role":"scout","team":"red"}"#);
        assert_eq!(serde_json::from_str::<Labels>(&json).unwrap(), labels);
    }

    #[test]
    fn other_texts_are_no_labels() {
        let long = format!("{}=a", "k".repeat(MAX_LABEL_BYTES + 1));
        let many: Vec<String> = (0..=MAX_LABELS).map(|number| format!("k{number}=v")).collect();
        for text in ["team", "=red", "team=", "a b=c", "a=b=c", ",", "a=b,", "a=ü", &long] {
            assert!(matches!(text.parse::<Labels>(), Err(LabelError::Form(_))), "{text}");
        }
        assert!(serde_json::from_str::<Labels>(r#"{"a=b":"c"}"#).is_err());
        assert_eq!("a=b,a=c".parse::<Labels>(), Err(LabelError::Twice("a".to_owned())));
        assert_eq!(many.join(",").parse::<Labels>(), Err(LabelError::TooMany));
    }
}
