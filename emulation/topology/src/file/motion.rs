//! `[motion]` and `[[motion.host]]`: the places of hosts, read from TOML.

use std::time::Duration;

use ::toml::Spanned;
use serde::Deserialize;
use serde::de::{self, Deserializer, SeqAccess, Visitor};

use super::TopologyReader;
use super::quantity::{Height, Instant, Meters, Speed};
use super::values::{self, Whole, Words};
use crate::model::{HostCourse, HostIndex, HostMotion, MAX_WAYPOINTS, MotionFile, MotionFormat, Position, Waypoint};

/// Within a thousand hours of light from the origin nothing overflows.
const MAX_LOCAL_M: f64 = 1e9;
const SHORTEST_STEP: Duration = Duration::from_millis(1);
const LONGEST_STEP: Duration = Duration::from_secs(3600);

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct MotionTable {
    origin: Option<Spanned<PositionFile>>,
    ground: Option<Height>,
    cell: Option<Meters>,
    start: Option<Instant>,
    #[serde(deserialize_with = "step")]
    step: Option<Duration>,
    host: Vec<Spanned<MotionHostFile>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct MotionHostFile {
    name: Option<Words>,
    position: Option<PositionFile>,
    path: Vec<Spanned<WaypointFile>>,
    tour: Vec<PositionFile>,
    speed: Option<Speed>,
    elements: Option<Words>,
    file: Option<Spanned<String>>,
    format: Option<FormatFile>,
    track: Option<String>,
    dimensions: Option<Whole<u8, 2, 3>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct WaypointFile {
    #[serde(deserialize_with = "values::time")]
    at: Option<Duration>,
    position: Option<PositionFile>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum FormatFile {
    Bonnmotion,
    Gpx,
    Csv,
    Tle,
}

/// A list of meters, or a text with degrees.
#[derive(Clone, Copy)]
struct PositionFile(Position);

impl<'de> Deserialize<'de> for PositionFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PositionVisitor).map(Self)
    }
}

struct PositionVisitor;

const POSITION: &str = "is meters as [120, 40, 30], or latitude, longitude and altitude as \"47.37,8.54,408\"";

impl<'de> Visitor<'de> for PositionVisitor {
    type Value = Position;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a list or a text")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Position, E> {
        let numbers: Option<Vec<f64>> = text.split(',').map(|part| part.trim().parse().ok()).collect();
        let position = match numbers.as_deref() {
            Some(&[lat, lon]) => Some((lat, lon, 0.0)),
            Some(&[lat, lon, altitude_m]) => Some((lat, lon, altitude_m)),
            _ => None,
        };
        let on_earth = |(lat, lon, altitude_m): &(f64, f64, f64)| {
            (-90.0..=90.0).contains(lat) && (-180.0..=180.0).contains(lon) && altitude_m.abs() <= MAX_LOCAL_M
        };
        let (lat, lon, altitude_m) = position.filter(on_earth).ok_or_else(|| E::custom(POSITION))?;
        Ok(Position::Earth { lat, lon, altitude_m })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Position, A::Error> {
        let mut numbers = Vec::new();
        while let Some(number) = items.next_element::<f64>()? {
            numbers.push(number);
        }
        let all_near = numbers.iter().all(|number| number.abs() <= MAX_LOCAL_M);
        match *numbers.as_slice() {
            [east_m, north_m] if all_near => Ok(Position::Local { east_m, north_m, up_m: 0.0 }),
            [east_m, north_m, up_m] if all_near => Ok(Position::Local { east_m, north_m, up_m }),
            _ => Err(de::Error::custom(POSITION)),
        }
    }
}

fn step<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    let step = values::time(from)?;
    let within = step.is_none_or(|step| (SHORTEST_STEP..=LONGEST_STEP).contains(&step));
    within.then_some(step).ok_or_else(|| de::Error::custom("is a time from 1ms to 1h"))
}

impl TopologyReader<'_> {
    pub(super) fn read_motion(&mut self, table: MotionTable) {
        let MotionTable { origin, ground, cell, start, step, host } = table;
        match origin.map(|origin| (origin.span().start, origin.into_inner().0)) {
            None => {}
            Some((_, Position::Earth { lat, lon, .. })) => self.topology.motion.origin = Some((lat, lon)),
            Some((at, _)) => self.source.refuse(at, "`origin` is on the Earth: write \"47.37,8.54\""),
        }
        let motion = &mut self.topology.motion;
        motion.ground_m = ground.map_or(0.0, |ground| ground.0);
        motion.cell_m = cell.map(|cell| cell.0);
        motion.start = start.map(|start| start.0);
        motion.step = step.unwrap_or(motion.step);
        host.into_iter().for_each(|host| self.read_moving_hosts(host));
    }

    fn read_moving_hosts(&mut self, file: Spanned<MotionHostFile>) {
        let at = file.span().start;
        let line = self.source.line(at);
        let mut file = file.into_inner();
        let name = self.source.required(at, "a host in motion", "name", file.name.take(), "\"uav1\"");
        let hosts = name.and_then(|words| self.host_list(&words.0)).unwrap_or_default();
        for host in &hosts {
            if self.moving.insert(*host.get_ref(), line).is_some() {
                let name = &self.topology.hosts[*host.get_ref()].name;
                self.source.refuse(host.span().start, format!("`{name}` has a place already: give each host one"));
            }
        }
        let hosts: Vec<HostIndex> = hosts.into_iter().map(Spanned::into_inner).collect();
        let given = [file.position.is_some(), !file.path.is_empty(), !file.tour.is_empty()];
        let given = given.into_iter().chain([file.elements.is_some(), file.file.is_some()]);
        if given.filter(|given| *given).count() != 1 {
            let message = "a host in motion has one of `position`, `path`, `tour`, `elements` and `file`";
            return self.source.miss(at, "position", message);
        }
        if file.speed.is_some() == file.tour.is_empty() {
            return self.source.miss(at, "speed", "a `tour` needs a `speed`, and nothing else has one");
        }
        match file.file.take() {
            Some(path) => self.read_motion_file(hosts, path, &file),
            None => {
                let Some(course) = self.course(at, file) else { return };
                let like = |host| HostMotion { host, course: course.clone(), line };
                self.topology.motion.hosts.extend(hosts.into_iter().map(like));
            }
        }
    }

    fn read_motion_file(&mut self, hosts: Vec<HostIndex>, path: Spanned<String>, file: &MotionHostFile) {
        let (at, path) = (path.span().start, path.into_inner());
        let ending = path.rsplit_once('.').map_or("", |(_, ending)| ending).to_ascii_lowercase();
        let format = match (file.format, ending.as_str()) {
            (Some(FormatFile::Bonnmotion), _) | (None, "movements") => MotionFormat::BonnMotion,
            (Some(FormatFile::Gpx), _) | (None, "gpx") => MotionFormat::Gpx,
            (Some(FormatFile::Csv), _) | (None, "csv") => MotionFormat::Csv,
            (Some(FormatFile::Tle), _) | (None, "tle") => MotionFormat::Tle,
            (None, _) => {
                let message =
                    format!("`{path}` ends in none of .movements, .gpx, .csv and .tle: add format = \"bonnmotion\"");
                return self.source.refuse(at, message);
            }
        };
        let dimensions = file.dimensions.map(|dimensions| dimensions.0);
        let (track, line) = (file.track.clone(), self.source.line(at));
        self.topology.motion.files.push(MotionFile { hosts, path, format, track, dimensions, line });
    }

    fn course(&self, at: usize, file: MotionHostFile) -> Option<HostCourse> {
        let MotionHostFile { position, path, tour, speed, elements, .. } = file;
        if let Some(position) = position {
            return Some(HostCourse::Path(vec![Waypoint { at: Duration::ZERO, position: position.0 }]));
        }
        if let Some(Words(lines)) = elements {
            let lines: Vec<String> = lines.into_iter().map(Spanned::into_inner).collect();
            let lines = <[String; 2]>::try_from(lines);
            return lines
                .map(HostCourse::Orbit)
                .map_err(|_| self.source.refuse(at, "`elements` are the two lines of a satellite's element set"))
                .ok();
        }
        if path.len() + tour.len() > MAX_WAYPOINTS {
            self.source.refuse(at, format!("a topology has at most {MAX_WAYPOINTS} waypoints"));
            return None;
        }
        if let Some(Speed(speed_mps)) = speed {
            let points = tour.into_iter().map(|position| position.0).collect();
            return Some(HostCourse::Tour { speed_mps, points });
        }
        let path: Vec<Option<Waypoint>> = path.into_iter().map(|waypoint| self.waypoint(waypoint)).collect();
        path.into_iter().collect::<Option<Vec<Waypoint>>>().map(HostCourse::Path)
    }

    fn waypoint(&self, file: Spanned<WaypointFile>) -> Option<Waypoint> {
        let at = file.span().start;
        let WaypointFile { at: time, position } = file.into_inner();
        let time = self.source.required(at, "a waypoint", "at", time, "\"30s\"");
        let position = self.source.required(at, "a waypoint", "position", position, "[120, 40, 30]");
        Some(Waypoint { at: time?, position: position?.0 })
    }
}
