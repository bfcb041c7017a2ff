//! CSV: `time,host,x,y[,z]` in meters, or `time,host,lat,lon[,alt]` in degrees, with a heading.

use std::collections::BTreeMap;

use csv::{ReaderBuilder, StringRecord, Trim};
use roost_topology::model::{Position, Waypoint};

use super::{NamedPath, TextMistake, check_next, seconds};

struct Columns {
    time: usize,
    host: usize,
    first: usize,
    second: usize,
    third: Option<usize>,
    is_earth: bool,
}

/// Reads a path for each host, in the order of their first rows.
///
/// # Errors
/// Fails for other headings and rows that are no waypoints, with the line.
pub fn read(text: &str) -> Result<Vec<NamedPath>, TextMistake> {
    let mut reader = ReaderBuilder::new().trim(Trim::All).comment(Some(b'#')).from_reader(text.as_bytes());
    let line_of = |error: &csv::Error| error.position().map_or(1, |position| position.line() as usize);
    let unreadable = |error: csv::Error| TextMistake::new(line_of(&error), format!("is no row: {error}"));
    let columns = columns(reader.headers().map_err(unreadable)?)?;
    let (mut paths, mut by_name): (Vec<NamedPath>, BTreeMap<String, usize>) = (Vec::new(), BTreeMap::new());
    for record in reader.records() {
        let record = record.map_err(unreadable)?;
        let line = record.position().map_or(0, |position| position.line() as usize);
        let waypoint = columns.waypoint(&record, line)?;
        let host = record.get(columns.host).unwrap_or_default();
        let place = *by_name.entry(host.to_owned()).or_insert_with(|| {
            paths.push(NamedPath { name: Some(host.to_owned()), path: Vec::new() });
            paths.len() - 1
        });
        check_next(&paths[place].path, waypoint.at, line)?;
        paths[place].path.push(waypoint);
    }
    Ok(paths)
}

fn columns(heading: &StringRecord) -> Result<Columns, TextMistake> {
    let find = |names: &[&str]| heading.iter().position(|name| names.iter().any(|it| name.eq_ignore_ascii_case(it)));
    let wrong = || TextMistake::new(1, "has no heading `time,host,x,y,z` or `time,host,lat,lon,alt`");
    let (time, host) = find(&["time", "t", "time_s", "t_s"]).zip(find(&["host", "node", "name"])).ok_or_else(wrong)?;
    let local = find(&["x", "x_m"]).zip(find(&["y", "y_m"]));
    let earth = find(&["lat", "latitude"]).zip(find(&["lon", "longitude"]));
    let third = match earth {
        Some(_) => find(&["alt", "altitude", "alt_m", "altitude_m"]),
        None => find(&["z", "z_m"]),
    };
    let (first, second) = earth.or(local).ok_or_else(wrong)?;
    Ok(Columns { time, host, first, second, third, is_earth: earth.is_some() })
}

impl Columns {
    fn waypoint(&self, record: &StringRecord, line: usize) -> Result<Waypoint, TextMistake> {
        let number = |column: usize| {
            let text = record.get(column).unwrap_or_default();
            let number: Option<f64> = text.parse().ok().filter(|number: &f64| number.abs() <= 1e9);
            number.ok_or_else(|| TextMistake::new(line, format!("`{text}` is no number of a waypoint")))
        };
        let time = number(self.time)?;
        let at = seconds(time);
        let at = at.ok_or_else(|| TextMistake::new(line, format!("{time} is no time from 0 to a year")))?;
        let (first, second) = (number(self.first)?, number(self.second)?);
        let third = self.third.map_or(Ok(0.0), number)?;
        let position = if self.is_earth {
            if first.abs() > 90.0 || second.abs() > 180.0 {
                return Err(TextMistake::new(line, format!("{first},{second} is no latitude and longitude")));
            }
            Position::Earth { lat: first, lon: second, altitude_m: third }
        } else {
            Position::Local { east_m: first, north_m: second, up_m: third }
        };
        Ok(Waypoint { at, position })
    }
}
