//! Where a value comes from, and how sure it is.

use std::fmt;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourcedValue {
    pub object: String,
    pub what: &'static str,
    pub value: String,
    pub source: String,
    pub certainty: Certainty,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Certainty {
    Assumed,
    /// Other values tell it, or too few measurements do.
    Estimated,
    Measured,
}

impl fmt::Display for Certainty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Assumed => "assumed",
            Self::Estimated => "estimated",
            Self::Measured => "measured",
        })
    }
}
