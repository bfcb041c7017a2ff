//! Positions in latitude and longitude, with the units in the names.

use roost_wire::ExactPosition;
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Position {
    /// Degrees north.
    pub lat: f64,
    /// Degrees east.
    pub lon: f64,
    /// Meters above the ellipsoid.
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
