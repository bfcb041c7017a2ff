//! The place of each host at any time.

use std::collections::BTreeMap;
use std::time::Duration;

use roost_geo::Orbit;
use roost_topology::model::{HostCourse, HostIndex, HostMotion, Note, Position, Topology, Waypoint};

use super::frame::{Frame, Leg, Spot};

#[derive(Clone, Debug)]
pub struct Courses {
    pub(crate) frame: Frame,
    by_host: BTreeMap<HostIndex, Course>,
}

#[derive(Clone, Debug)]
enum Course {
    Fixed(Position),
    /// Legs with their begins and ends, in order.
    Path(Vec<TimedLeg>),
    Orbit {
        orbit: Box<Orbit>,
        start: Duration,
    },
}

#[derive(Clone, Debug)]
struct TimedLeg {
    begin: Duration,
    end: Duration,
    leg: Leg,
}

/// A place in each of the forms that records have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HostPlace {
    /// East, north and up of the origin.
    pub local_m: Option<[f64; 3]>,
    pub earth: Option<[f64; 3]>,
}

impl Courses {
    /// # Errors
    /// All courses that make no sense, each with the line of its host.
    pub fn new(topology: &Topology) -> Result<Self, Vec<Note>> {
        let motion = &topology.motion;
        let frame = Frame::from_motion(motion).map_err(|text| vec![Note { line: 0, text }])?;
        let (mut by_host, mut wrong) = (BTreeMap::new(), Vec::new());
        for host in &motion.hosts {
            match course(&frame, host, motion.start) {
                Ok(course) => {
                    by_host.insert(host.host, course);
                }
                Err(why) => {
                    let name = topology.hosts.get(host.host).map_or("?", |host| host.name.as_str());
                    wrong.push(Note { line: host.line, text: format!("`{name}` {why}") });
                }
            }
        }
        if wrong.is_empty() { Ok(Self { frame, by_host }) } else { Err(wrong) }
    }

    pub fn has(&self, host: HostIndex) -> bool {
        self.by_host.contains_key(&host)
    }

    pub fn hosts(&self) -> impl Iterator<Item = HostIndex> {
        self.by_host.keys().copied()
    }

    /// The position of a host at a time since the start; `None` without a course, and for a satellite whose elements
    /// say nothing of that time.
    pub fn position(&self, host: HostIndex, at: Duration) -> Option<Position> {
        self.by_host.get(&host)?.position(at)
    }

    pub fn spot(&self, host: HostIndex, at: Duration) -> Option<Spot> {
        self.frame.spot(self.position(host, at)?)
    }

    pub fn place(&self, host: HostIndex, at: Duration) -> Option<HostPlace> {
        let position = self.position(host, at)?;
        let earth = self.frame.on_earth(position);
        let earth = earth.map(|(at, altitude_m)| [at.lat(), at.lon(), altitude_m]);
        Some(HostPlace { local_m: self.frame.local(position), earth })
    }

    /// The time from which on a host stands still; `None` if it never does.
    pub fn rest(&self, host: HostIndex) -> Option<Duration> {
        match self.by_host.get(&host) {
            Some(Course::Orbit { .. }) => None,
            Some(Course::Path(legs)) => legs.last().map(|last| last.end),
            Some(Course::Fixed(_)) | None => Some(Duration::ZERO),
        }
    }
}

fn course(frame: &Frame, motion: &HostMotion, start: Option<Duration>) -> Result<Course, String> {
    match &motion.course {
        HostCourse::Path(path) => path_course(frame, path),
        HostCourse::Tour { speed_mps, points } => path_course(frame, &timed(frame, *speed_mps, points)?),
        HostCourse::Orbit(lines) => {
            let start = start
                .ok_or("is on an orbit: say when the run starts, as start = \"2026-06-01T12:00:00Z\" in [motion]")?;
            let orbit = Orbit::from_tle(&lines.join("\n")).map_err(|error| format!("has no orbit: {error}"))?;
            orbit.position(start).map_err(|error| format!("has no place at the start: {error}"))?;
            Ok(Course::Orbit { orbit: Box::new(orbit), start })
        }
    }
}

const FAR: &str = "is in meters while others are in degrees, or out of the origin's reach: give [motion] an \
     `origin` within 2000 km";

fn path_course(frame: &Frame, path: &[Waypoint]) -> Result<Course, String> {
    let (first, last) = path.first().zip(path.last()).ok_or("has an empty path")?;
    if path.iter().any(|waypoint| frame.spot(waypoint.position).is_none()) {
        return Err(FAR.to_owned());
    }
    if path.windows(2).any(|pair| pair[0].at > pair[1].at) {
        return Err("has a path whose times do not rise".to_owned());
    }
    if path.iter().all(|waypoint| waypoint.position == first.position) {
        return Ok(Course::Fixed(last.position));
    }
    let leg = |pair: &[Waypoint]| {
        let leg = Leg::between(frame, pair[0].position, pair[1].position)?;
        Some(TimedLeg { begin: pair[0].at, end: pair[1].at, leg })
    };
    path.windows(2).map(leg).collect::<Option<Vec<_>>>().map(Course::Path).ok_or_else(|| FAR.to_owned())
}

/// The waypoints of a tour at one speed.
fn timed(frame: &Frame, speed_mps: f64, points: &[Position]) -> Result<Vec<Waypoint>, String> {
    const YEAR_S: f64 = 366.0 * 86_400.0;
    let mut path = Vec::with_capacity(points.len());
    let (mut passed_s, mut last) = (0.0, None);
    for position in points {
        if let Some(last) = last {
            passed_s += Leg::between(frame, last, *position).ok_or(FAR)?.length_m() / speed_mps;
        }
        if !(0.0..=YEAR_S).contains(&passed_s) {
            return Err("takes more than a year: choose a greater speed".to_owned());
        }
        path.push(Waypoint { at: Duration::from_secs_f64(passed_s), position: *position });
        last = Some(*position);
    }
    Ok(path)
}

impl Course {
    fn position(&self, at: Duration) -> Option<Position> {
        match self {
            Self::Fixed(position) => Some(*position),
            Self::Path(legs) => {
                let place = legs.partition_point(|leg| leg.end <= at).min(legs.len().checked_sub(1)?);
                let TimedLeg { begin, end, leg } = legs.get(place)?;
                let (passed, whole) = (at.saturating_sub(*begin).as_secs_f64(), (*end - *begin).as_secs_f64());
                Some(leg.at(if whole > 0.0 { (passed / whole).min(1.0) } else { 1.0 }))
            }
            Self::Orbit { orbit, start } => {
                let place = orbit.position(*start + at).ok()?;
                let (lat, lon, altitude_m) = (place.at.lat(), place.at.lon(), place.altitude_m.unwrap_or(0.0));
                Some(Position::Earth { lat, lon, altitude_m })
            }
        }
    }
}
