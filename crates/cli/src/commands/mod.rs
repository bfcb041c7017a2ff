//! One module for each command.

pub(crate) mod config;
pub(crate) mod doctor;
pub(crate) mod generate;
pub(crate) mod group;
pub(crate) mod index;
pub(crate) mod lookup;
pub(crate) mod peers;
pub(crate) mod ping;
pub(crate) mod relocate;
pub(crate) mod request;
pub(crate) mod services;
pub(crate) mod status;
pub(crate) mod trace;
pub(crate) mod watch;

use std::path::Path;
use std::time::SystemTime;

use roost_control::{Candidate, Client};
use roost_proto::{Area, Service};
use roost_terminal::Table;

use crate::args::Wanted;
use crate::failure::{Failure, Outcome};

/// A client of the daemon at `socket`.
async fn connect(socket: &Path) -> Outcome<Client> {
    Ok(Client::connect(socket).await?)
}

/// The area that is meant: around the node, if no other centre was given.
async fn area(wanted: Wanted, client: &Client) -> Outcome<Area> {
    match wanted {
        Wanted::Area(area) => Ok(area),
        Wanted::AroundHere { radius } => {
            let here = client.status().await?.cell;
            let nowhere = || Failure::usage("this daemon has no place of its own: give --near X,Y with --within");
            Ok(Area::Within { centre: here.ok_or_else(nowhere)?, radius })
        }
    }
}

/// The flags that name an area, as a person would write them.
fn area_flags(area: Area) -> String {
    match area {
        Area::At(cell) => format!("--at {cell}"),
        Area::Near(cell) => format!("--near {cell}"),
        Area::Within { centre, radius } => format!("--near {centre} --within {radius}"),
        Area::Rectangle { min, max } => format!("--rect {min},{max}"),
        Area::Anywhere => "--any".to_owned(),
    }
}

/// Providers as a table; with distances if there is a place to measure from.
fn candidates(candidates: &[Candidate], area: Option<Area>) -> Table {
    let centre = area.and_then(|area| area.centre());
    // Only a hub's index has names, and those of connected nodes only.
    let named = candidates.iter().any(|candidate| candidate.name.is_some());
    let mut columns = vec!["NODE", "CELL"];
    if named {
        columns.insert(0, "NAME");
    }
    columns.extend(centre.map(|_| ">DISTANCE"));
    columns.extend(["SERVICES", ">STREAMS LEFT", ">UPLINK LEFT", "ADDRESSES"]);
    let mut table = Table::new(&columns);
    for candidate in candidates {
        let distance = centre.map(|centre| format!("{:.1}", (centre.distance_squared(candidate.cell) as f64).sqrt()));
        let mut row = vec![candidate.node.to_string(), candidate.cell.to_string()];
        if named {
            row.insert(0, candidate.name.clone().unwrap_or_else(|| "-".to_owned()));
        }
        row.extend(distance);
        row.extend([
            names(&candidate.services),
            candidate.streams_left.to_string(),
            uplink(candidate.uplink_left_kbps),
            candidate.addresses.join(" "),
        ]);
        table.row(row);
    }
    table
}

/// An uplink that is left.
fn uplink(kbps: Option<u32>) -> String {
    kbps.map_or_else(|| "unlimited".to_owned(), |kbps| format!("{kbps} kbit/s"))
}

/// The names of services, as in `video,track`.
fn names(services: &[Service]) -> String {
    services.iter().map(|service| service.name()).collect::<Vec<_>>().join(",")
}

/// Bytes as people say them.
fn bytes(count: u64) -> String {
    let scaled = |unit: f64, name: &str| format!("{:.1} {name}", count as f64 / unit);
    match count {
        0..10_000 => format!("{count} B"),
        10_000..1_000_000 => scaled(1e3, "kB"),
        1_000_000..1_000_000_000 => scaled(1e6, "MB"),
        _ => scaled(1e9, "GB"),
    }
}

/// Seconds as people say them.
fn seconds(seconds: f64) -> String {
    let whole = seconds.max(0.0) as u64;
    let (days, hours, minutes) = (whole / 86_400, whole / 3_600 % 24, whole / 60 % 60);
    match whole {
        0..60 => format!("{whole} s"),
        60..3_600 => format!("{minutes} min {} s", whole % 60),
        3_600..86_400 => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    }
}

/// A point in time as people write it, in UTC: `2027-01-31 12:00`.
fn date(time: SystemTime) -> String {
    let text = humantime::format_rfc3339_seconds(time).to_string();
    text.get(..16).unwrap_or(&text).replace('T', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_said_as_people_say_them() {
        assert_eq!(bytes(9_999), "9999 B");
        assert_eq!(bytes(875_000), "875.0 kB");
        assert_eq!(seconds(59.9), "59 s");
        assert_eq!(seconds(3_723.0), "1 h 2 min");
    }
}
