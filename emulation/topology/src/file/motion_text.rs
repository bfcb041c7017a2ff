//! Writing of `[motion]`, with one stanza for hosts of one course.

use std::time::{Duration, UNIX_EPOCH};

use super::names;
use super::stanza::{Stanza, list, quote, table};
use super::write::words_value;
use crate::model::{
    DEFAULT_STEP, HostCourse, HostMotion, Motion, MotionFile, MotionFormat, Position, Topology, Waypoint,
};
use crate::units::format_duration;

pub(super) fn motion(topology: &Topology) -> Vec<Stanza> {
    let motion = &topology.motion;
    if *motion == Motion::default() {
        return Vec::new();
    }
    let mut head = Stanza::new("[motion]");
    head.optional("origin", motion.origin.map(|(lat, lon)| format!("{lat},{lon}")).as_deref());
    if motion.ground_m != 0.0 {
        head.text("ground", &format!("{}m", motion.ground_m));
    }
    head.optional("cell", motion.cell_m.map(|cell| format!("{cell}m")).as_deref());
    head.optional("start", motion.start.map(instant).as_deref());
    if motion.step != DEFAULT_STEP {
        head.text("step", &format_duration(motion.step));
    }
    let mut stanzas = vec![head];
    let mut rest = motion.hosts.as_slice();
    while let Some(first) = rest.first() {
        let alike = rest.iter().take_while(|host| host.course == first.course).count();
        let (group, others) = rest.split_at(alike);
        stanzas.push(hosts(topology, group));
        rest = others;
    }
    stanzas.extend(motion.files.iter().map(|file| file_stanza(topology, file)));
    stanzas
}

fn hosts(topology: &Topology, group: &[HostMotion]) -> Stanza {
    let mut stanza = named(topology, group.iter().map(|motion| motion.host));
    match group.first().map(|motion| &motion.course) {
        Some(HostCourse::Path(path)) => match path.as_slice() {
            [Waypoint { at: Duration::ZERO, position }] => stanza.raw("position", position_text(position)),
            many => stanza.raw("path", format!("[\n    {},\n]", rows(many.iter().map(waypoint)))),
        },
        Some(HostCourse::Tour { speed_mps, points }) => {
            stanza.text("speed", &format!("{speed_mps}m/s"));
            stanza.raw("tour", format!("[\n    {},\n]", rows(points.iter().map(position_text))));
        }
        Some(HostCourse::Orbit(lines)) => stanza.raw("elements", list(lines.iter().map(|line| quote(line)))),
        None => {}
    }
    stanza
}

fn rows(rows: impl Iterator<Item = String>) -> String {
    rows.collect::<Vec<_>>().join(",\n    ")
}

fn named(topology: &Topology, hosts: impl Iterator<Item = usize>) -> Stanza {
    let mut stanza = Stanza::new("[[motion.host]]");
    let words = names::compress(hosts.map(|host| topology.hosts[host].name.as_str()));
    stanza.raw("name", words_value(&words));
    stanza
}

fn file_stanza(topology: &Topology, file: &MotionFile) -> Stanza {
    let mut stanza = named(topology, file.hosts.iter().copied());
    stanza.text("file", &file.path);
    let format = match file.format {
        MotionFormat::BonnMotion => "bonnmotion",
        MotionFormat::Gpx => "gpx",
        MotionFormat::Csv => "csv",
        MotionFormat::Tle => "tle",
    };
    stanza.text("format", format);
    stanza.optional("track", file.track.as_deref());
    if let Some(dimensions) = file.dimensions {
        stanza.raw("dimensions", dimensions.to_string());
    }
    stanza
}

fn waypoint(waypoint: &Waypoint) -> String {
    let mut stanza = Stanza::new("");
    stanza.text("at", &exact_time(waypoint.at));
    stanza.raw("position", position_text(&waypoint.position));
    table(&stanza)
}

/// A time to the nanosecond, in the parts that the reader adds up.
fn exact_time(at: Duration) -> String {
    let (whole, nanos) = (Duration::from_secs(at.as_secs()), Duration::from_nanos(u64::from(at.subsec_nanos())));
    let parts = [whole, nanos].into_iter().filter(|part| !part.is_zero()).map(|part| match part.subsec_nanos() {
        0 => format!("{}s", part.as_secs()),
        nanos => format!("{nanos}ns"),
    });
    let text: String = parts.collect();
    if text.is_empty() { "0s".to_owned() } else { text }
}

fn position_text(position: &Position) -> String {
    match position {
        Position::Local { east_m, north_m, up_m } => format!("[{east_m:?}, {north_m:?}, {up_m:?}]"),
        Position::Earth { lat, lon, altitude_m } => quote(&format!("{lat},{lon},{altitude_m}")),
    }
}

fn instant(since: Duration) -> String {
    // A time that was read is one that can be written.
    UNIX_EPOCH.checked_add(since).map_or_else(String::new, |time| humantime::format_rfc3339(time).to_string())
}
