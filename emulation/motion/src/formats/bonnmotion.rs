//! `.movements` of BonnMotion: a line for each host, with times in seconds and positions in meters.
//!
//! Aschenbruck, Ernst, Gerhards-Padilla, Schwamborn: "BonnMotion: a mobility scenario generation and analysis tool"
//! (SIMUTools 2010). A line is `t x y t x y …`, or `t x y z …` of a scenario in three dimensions.

use roost_topology::model::{Position, Waypoint};

use super::{NamedPath, TextMistake, check_next, seconds};

/// Reads one path a line; empty lines and comments with `#` do not count. Without `dimensions` a file whose lines
/// all make sense with two has two.
///
/// # Errors
/// Fails for numbers that are no waypoints, with the line.
pub fn read(text: &str, dimensions: Option<u8>) -> Result<Vec<NamedPath>, TextMistake> {
    match dimensions {
        Some(3) => read_with(text, 3),
        Some(_) => read_with(text, 2),
        None => read_with(text, 2).or_else(|flat| read_with(text, 3).map_err(|_| flat)),
    }
}

fn read_with(text: &str, dimensions: usize) -> Result<Vec<NamedPath>, TextMistake> {
    let lines = text.lines().zip(1..).map(|(line, number)| (line.trim(), number));
    let of_hosts = lines.filter(|(line, _)| !line.is_empty() && !line.starts_with('#'));
    of_hosts.map(|(line, number)| read_line(line, number, dimensions)).collect()
}

fn read_line(line: &str, number: usize, dimensions: usize) -> Result<NamedPath, TextMistake> {
    let each = dimensions + 1;
    let mut path: Vec<Waypoint> = Vec::new();
    let mut values = Vec::with_capacity(each);
    for word in line.split_ascii_whitespace() {
        let value: Option<f64> = word.parse().ok().filter(|value: &f64| value.abs() <= 1e9);
        values.push(value.ok_or_else(|| TextMistake::new(number, format!("`{word}` is no number of a waypoint")))?);
        if values.len() < each {
            continue;
        }
        let at = seconds(values[0]);
        let at = at.ok_or_else(|| TextMistake::new(number, format!("{} is no time from 0 to a year", values[0])))?;
        check_next(&path, at, number)?;
        let up_m = values.get(3).copied().unwrap_or(0.0);
        path.push(Waypoint { at, position: Position::Local { east_m: values[1], north_m: values[2], up_m } });
        values.clear();
    }
    if !values.is_empty() {
        let what = format!("ends within a waypoint: a time and {dimensions} coordinates make one");
        return Err(TextMistake::new(number, what));
    }
    Ok(NamedPath { name: None, path })
}
