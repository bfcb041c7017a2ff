//! The places of hosts over time, and the files that have them.

use std::time::Duration;

use super::HostIndex;

/// The most waypoints of a topology, with those of its files.
pub const MAX_WAYPOINTS: usize = 1 << 20;

/// Positions are computed this often unless a file says otherwise.
pub const DEFAULT_STEP: Duration = Duration::from_millis(100);

/// A point near the origin in meters, or on the Earth in degrees of WGS 84.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Position {
    Local { east_m: f64, north_m: f64, up_m: f64 },
    Earth { lat: f64, lon: f64, altitude_m: f64 },
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Waypoint {
    pub at: Duration,
    pub position: Position,
}

#[derive(Clone, Debug, PartialEq)]
pub enum HostCourse {
    /// Straight from point to point; before the first and after the last the host stands there.
    Path(Vec<Waypoint>),
    /// Through these points at one speed, from the start on.
    Tour { speed_mps: f64, points: Vec<Position> },
    /// The two lines of a satellite's elements.
    Orbit([String; 2]),
}

#[derive(Clone, Debug, PartialEq)]
pub struct HostMotion {
    pub host: HostIndex,
    pub course: HostCourse,
    /// The line of the file, or 0 if it is unknown.
    pub line: u32,
}

/// A file with the courses of hosts.
#[derive(Clone, Debug, PartialEq)]
pub struct MotionFile {
    pub hosts: Vec<HostIndex>,
    pub path: String,
    pub format: MotionFormat,
    /// The name of a track or satellite in the file.
    pub track: Option<String>,
    /// Numbers of a position in `.movements`; `None` finds out.
    pub dimensions: Option<u8>,
    pub line: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MotionFormat {
    BonnMotion,
    Gpx,
    Csv,
    Tle,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Motion {
    /// Latitude and longitude of the point from which meters count.
    pub origin: Option<(f64, f64)>,
    pub ground_m: f64,
    /// The side of a cell of the overlay's grid; without it nodes keep their cells.
    pub cell_m: Option<f64>,
    /// The time of the start, since the Unix epoch.
    pub start: Option<Duration>,
    pub step: Duration,
    pub hosts: Vec<HostMotion>,
    /// Files that are still to be read into `hosts`.
    pub files: Vec<MotionFile>,
}

impl Default for Motion {
    fn default() -> Self {
        let (hosts, files) = (Vec::new(), Vec::new());
        Self { origin: None, ground_m: 0.0, cell_m: None, start: None, step: DEFAULT_STEP, hosts, files }
    }
}

impl Motion {
    pub fn is_empty(&self) -> bool {
        self.hosts.is_empty() && self.files.is_empty()
    }

    /// True if a place is given in degrees, or the origin is.
    pub fn is_on_earth(&self) -> bool {
        let of_earth = |position: &Position| matches!(position, Position::Earth { .. });
        let course = |motion: &HostMotion| match &motion.course {
            HostCourse::Path(path) => path.iter().any(|waypoint| of_earth(&waypoint.position)),
            HostCourse::Tour { points, .. } => points.iter().any(of_earth),
            HostCourse::Orbit(_) => true,
        };
        let file = |file: &MotionFile| matches!(file.format, MotionFormat::Gpx | MotionFormat::Tle);
        self.origin.is_some() || self.hosts.iter().any(course) || self.files.iter().any(file)
    }
}
