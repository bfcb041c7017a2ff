//! Positions in latitude and longitude, with the units in the names.

use roost_wire::ExactPosition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The receiver or orbit that a node follows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Following {
    pub source: String,
    /// Of a receiver: `fix`, `no_fix`, `out_of_reach` (too far from the origin of the datum) or `unreachable`; it stays at
    /// its last position in all but the first. Of an orbit: `fix`, `unreadable` (a file; its last elements count), or
    /// `expired`, as elements are good for 30 days: the satellite has no place until the file has newer ones.
    pub state: String,
    pub since_s: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Position {
    pub lat: f64,
    pub lon: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alt_m: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accuracy_m: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub course_deg: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed_mps: Option<f64>,
}

impl From<ExactPosition> for Position {
    fn from(position: ExactPosition) -> Self {
        let ExactPosition { at, altitude_m: alt_m, accuracy_m, course_deg, speed_mps } = position;
        Self { lat: at.lat(), lon: at.lon(), alt_m, accuracy_m, course_deg, speed_mps }
    }
}
