//! Measurements that programs print, as the run records them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MeasurementRecord {
    /// The time of its arrival, unless the program gave another.
    pub t: f64,
    pub program: String,
    pub host: String,
    /// Measurements with the same name belong together.
    pub measure: String,
    #[serde(default, skip_serializing_if = "MeasurementKind::is_value")]
    pub kind: MeasurementKind,
    pub value: f64,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub unit: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub better: Option<Better>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MeasurementKind {
    /// A value among many, which have a distribution.
    #[default]
    Value,
    /// A success or a failure; all of them have a share.
    Ok,
    /// An amount; all of them have a sum.
    Count,
}

impl MeasurementKind {
    const fn is_value(&self) -> bool {
        matches!(self, Self::Value)
    }

    pub const fn name(self) -> &'static str {
        match self {
            Self::Value => "value",
            Self::Ok => "ok",
            Self::Count => "count",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Better {
    Lower,
    Higher,
}
