//! Files in which other programs keep the courses of hosts.

pub(crate) mod bonnmotion;
pub(crate) mod gpx;
pub(crate) mod table;
pub(crate) mod tle;

use std::time::Duration;

use roost_topology::model::{MAX_WAYPOINTS, Waypoint};

const MAX_SECONDS: f64 = 366.0 * 86_400.0;

/// A mistake in a text, with its line from 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct TextMistake {
    pub line: usize,
    pub what: String,
}

impl TextMistake {
    pub(crate) fn new(line: usize, what: impl Into<String>) -> Self {
        Self { line, what: what.into() }
    }
}

/// A course, with its name if the file has one.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedPath {
    pub name: Option<String>,
    pub path: Vec<Waypoint>,
}

/// Seconds since the start as a time; `None` beyond a year and before the start.
pub(crate) fn seconds(seconds: f64) -> Option<Duration> {
    (0.0..=MAX_SECONDS).contains(&seconds).then(|| Duration::from_secs_f64(seconds))
}

/// Checks that a path goes forward in time and is not too long.
pub(crate) fn check_next(path: &[Waypoint], at: Duration, line: usize) -> Result<(), TextMistake> {
    if path.len() >= MAX_WAYPOINTS {
        return Err(TextMistake::new(line, format!("has more than {MAX_WAYPOINTS} waypoints")));
    }
    match path.last().filter(|last| last.at > at) {
        None => Ok(()),
        Some(last) => {
            let (last, at) = (last.at.as_secs_f64(), at.as_secs_f64());
            Err(TextMistake::new(line, format!("the time {at} comes after {last}: put a host's times in order")))
        }
    }
}
