//! The files of a description's motion, read into it.

use std::collections::BTreeMap;
use std::time::Duration;

use roost_topology::model::{
    HostCourse, HostIndex, HostMotion, MAX_WAYPOINTS, MotionFile, MotionFormat, Note, Topology,
};

use super::cells::CellCourse;
use super::course::Courses;
use super::formats::{self, NamedPath, TextMistake};

/// Reads the files of a topology's motion with `read`, checks all courses, and gives hosts their first cells.
///
/// # Errors
/// All mistakes, with the line of the topology's file; mistakes within a file name its line, too.
pub fn resolve(topology: &mut Topology, read: impl Fn(&str) -> Result<String, String>) -> Result<(), Vec<Note>> {
    if topology.motion.is_empty() {
        return Ok(());
    }
    let mut wrong = Vec::new();
    for file in std::mem::take(&mut topology.motion.files) {
        let note = |text| Note { line: file.line, text };
        let courses = read(&file.path).and_then(|text| courses_of(topology, &file, &text));
        match courses {
            Ok(FileCourses { courses, start }) => {
                topology.motion.start = topology.motion.start.or(start);
                let line = file.line;
                let motion = |(host, course)| HostMotion { host, course, line };
                topology.motion.hosts.extend(courses.into_iter().map(motion));
            }
            Err(why) => wrong.push(note(format!("{}: {why}", file.path))),
        }
    }
    if waypoints(topology) > MAX_WAYPOINTS {
        wrong.push(Note { line: 0, text: format!("its hosts have more than {MAX_WAYPOINTS} waypoints together") });
    }
    if !wrong.is_empty() {
        return Err(wrong);
    }
    Courses::new(topology)?;
    if let Some(cells) = CellCourse::new(topology) {
        for (index, host) in topology.hosts.iter_mut().enumerate() {
            host.cell = cells.cell(index).map(|cell| (cell.x, cell.y)).or(host.cell);
        }
    }
    Ok(())
}

fn waypoints(topology: &Topology) -> usize {
    let count = |motion: &HostMotion| match &motion.course {
        HostCourse::Path(path) => path.len(),
        HostCourse::Tour { points, .. } => points.len(),
        HostCourse::Orbit(_) => 1,
    };
    topology.motion.hosts.iter().map(count).sum()
}

struct FileCourses {
    courses: Vec<(HostIndex, HostCourse)>,
    /// The time of the start that the file implies.
    start: Option<Duration>,
}

fn courses_of(topology: &Topology, file: &MotionFile, text: &str) -> Result<FileCourses, String> {
    let mistake = |mistake: TextMistake| mistake.to_string();
    let name = |host: HostIndex| topology.hosts[host].name.as_str();
    let mut start = None;
    let named = match file.format {
        MotionFormat::BonnMotion => formats::bonnmotion::read(text, file.dimensions).map_err(mistake)?,
        MotionFormat::Csv => formats::table::read(text).map_err(mistake)?,
        MotionFormat::Gpx => {
            let read = formats::gpx::read(text, topology.motion.start).map_err(mistake)?;
            start = Some(read.start);
            read.tracks
        }
        MotionFormat::Tle => {
            let sets = formats::tle::read(text).map_err(mistake)?;
            let names: Vec<Option<String>> = sets.iter().map(|set| set.name.clone()).collect();
            let chosen = choose(file, &names, name)?;
            let orbit = |(host, place): (HostIndex, usize)| (host, HostCourse::Orbit(sets[place].lines.clone()));
            return Ok(FileCourses { courses: chosen.into_iter().map(orbit).collect(), start });
        }
    };
    let names: Vec<Option<String>> = named.iter().map(|path| path.name.clone()).collect();
    let chosen = choose(file, &names, name)?;
    let course = |(host, place): (HostIndex, usize)| {
        let NamedPath { path, .. } = &named[place];
        if path.is_empty() {
            return Err(format!("the course of `{}` has no point after the start", name(host)));
        }
        Ok((host, HostCourse::Path(path.clone())))
    };
    Ok(FileCourses { courses: chosen.into_iter().map(course).collect::<Result<_, _>>()?, start })
}

/// The course of each host: the one of the name given, or else of the host's own name, or else in order.
fn choose<'t>(
    file: &MotionFile,
    names: &[Option<String>],
    host_name: impl Fn(HostIndex) -> &'t str,
) -> Result<Vec<(HostIndex, usize)>, String> {
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    for (place, name) in names.iter().enumerate() {
        name.iter().for_each(|name| _ = places.entry(name).or_insert(place));
    }
    let find = |name: &str| places.get(name).copied();
    if let Some(track) = &file.track {
        let place = find(track).ok_or_else(|| format!("has no `{track}`{}", listed(names)))?;
        return Ok(file.hosts.iter().map(|host| (*host, place)).collect());
    }
    let own: Option<Vec<usize>> = file.hosts.iter().map(|host| find(host_name(*host))).collect();
    if let Some(own) = own {
        return Ok(file.hosts.iter().copied().zip(own).collect());
    }
    if file.format == MotionFormat::Csv {
        let missing = file.hosts.iter().find(|host| find(host_name(**host)).is_none());
        let missing = missing.map_or("?", |host| host_name(*host));
        return Err(format!("has no row of `{missing}`{}", listed(names)));
    }
    if names.len() < file.hosts.len() {
        return Err(format!("has {} courses for {} hosts", names.len(), file.hosts.len()));
    }
    Ok(file.hosts.iter().copied().zip(0..).collect())
}

/// Some of the names of a file, for people.
fn listed(names: &[Option<String>]) -> String {
    let names: Vec<&str> = names.iter().flatten().map(String::as_str).take(8).collect();
    if names.is_empty() { String::new() } else { format!(": it has {}", names.join(", ")) }
}
