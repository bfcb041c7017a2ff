//! The flags that name an area.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use clap::Args;
use roost_api::PlaceQuery;
use roost_geo::{Length, MAX_GEOJSON_BYTES, Place, PlaceError};
use roost_wire::grid::MAX_COORDINATE;
use roost_wire::{Area, Cell};

use crate::failure::{Failure, Outcome};

/// The names of the flags, for a command where at least one must be given.
pub(super) const FLAGS: [&str; 6] = ["at", "near", "within", "area", "rect", "any"];

#[derive(Clone, Debug, Args)]
pub(crate) struct AreaArgs {
    /// Only providers in the cell of this place, such as 47.3769,8.5417 or 27,92
    #[arg(long, help_heading = "Where", value_name = "PLACE", allow_hyphen_values = true, value_parser = place, conflicts_with_all = ["near", "within", "area", "rect", "any"])]
    at: Option<String>,
    /// Nearest to this place first
    #[arg(long, help_heading = "Where", value_name = "PLACE", allow_hyphen_values = true, value_parser = place, conflicts_with_all = ["rect", "any"])]
    near: Option<String>,
    /// Only providers within this distance of --near or, without --near, of the node itself: 5km, or a number of cells
    #[arg(long, help_heading = "Where", value_name = "R", value_parser = radius, conflicts_with_all = ["area", "rect", "any"])]
    within: Option<String>,
    /// Between two corners, PLACE..PLACE, or in the polygons of a GeoJSON file, @FILE
    #[arg(
        long,
        help_heading = "Where",
        value_name = "AREA",
        allow_hyphen_values = true,
        value_parser = drawn,
        conflicts_with_all = ["rect", "any"]
    )]
    area: Option<Drawn>,
    /// Inside a rectangle of cells, edges included
    #[arg(
        long,
        help_heading = "Where",
        value_name = "X1,Y1,X2,Y2",
        allow_hyphen_values = true,
        value_parser = corners,
        conflicts_with = "any"
    )]
    rect: Option<Area>,
    /// Anywhere
    #[arg(long, help_heading = "Where")]
    any: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Drawn {
    Corners(String, String),
    Polygons(PathBuf),
}

/// The area of a command line. The daemon turns places into cells with the group's datum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AreaChoice {
    pub(crate) area: Area,
    pub(crate) place: Option<PlaceQuery>,
    /// All flags once more, as a hint tells them to the person who gave them.
    pub(crate) flags: String,
}

impl AreaArgs {
    /// Reads the flags; without flags the area is anywhere.
    pub(crate) fn choice(&self) -> Outcome<AreaChoice> {
        let (near, within) = (self.near.clone(), self.within.clone());
        let place = match (&self.at, &self.area, self.rect) {
            (Some(place), ..) => PlaceQuery::At(place.clone()),
            (_, Some(_), _) if self.near.is_some() && matches!(self.area, Some(Drawn::Corners(..))) => {
                return Err(Failure::usage("--near goes with --area @FILE: leave one out"));
            }
            (_, Some(Drawn::Corners(a, b)), _) => PlaceQuery::Corners(a.clone(), b.clone()),
            (_, Some(Drawn::Polygons(file)), _) => PlaceQuery::Region { geojson: read(file)?, near },
            (.., Some(area)) => return Ok(AreaChoice { area, place: None, flags: self.flags() }),
            _ => match (near, within) {
                (center, Some(radius)) => PlaceQuery::Within { center, radius },
                (Some(place), None) => PlaceQuery::Near(place),
                (None, None) => return Ok(AreaChoice { area: Area::Anywhere, place: None, flags: self.flags() }),
            },
        };
        Ok(match place.in_cells() {
            Some(area) => AreaChoice { area, place: None, flags: self.flags() },
            None => AreaChoice { area: Area::Anywhere, place: Some(place), flags: self.flags() },
        })
    }

    fn flags(&self) -> String {
        let quoted = |text: &str| if text.contains([' ', '"', '(']) { format!("'{text}'") } else { text.to_owned() };
        let flag = |name: &str, value: Option<String>| value.map(|value| format!("--{name} {}", quoted(&value)));
        let area = self.area.as_ref().map(|area| match area {
            Drawn::Corners(a, b) => format!("{a}..{b}"),
            Drawn::Polygons(file) => format!("@{}", file.display()),
        });
        let rect = self.rect.map(|area| match area {
            Area::Rectangle { min, max } => format!("{min},{max}"),
            _ => String::new(),
        });
        let given = [
            flag("at", self.at.clone()),
            flag("near", self.near.clone()),
            flag("within", self.within.clone()),
            flag("area", area),
            flag("rect", rect),
        ];
        let given: Vec<String> = given.into_iter().flatten().collect();
        if given.is_empty() { "--any".to_owned() } else { given.join(" ") }
    }
}

impl AreaChoice {
    pub(crate) fn words(&self) -> String {
        match &self.place {
            None => self.area.to_string(),
            Some(PlaceQuery::At(place)) => format!("at {place}"),
            Some(PlaceQuery::Near(place)) => format!("near {place}"),
            Some(PlaceQuery::Within { center: Some(center), radius }) => format!("within {radius} of {center}"),
            Some(PlaceQuery::Within { center: None, radius }) => format!("within {radius} of here"),
            Some(PlaceQuery::Corners(a, b)) => format!("between {a} and {b}"),
            Some(PlaceQuery::Region { .. }) => "in those polygons".to_owned(),
        }
    }
}

fn read(file: &Path) -> Outcome<String> {
    let failed = |error| Failure::file("read", file, &error);
    let mut text = String::new();
    let most = MAX_GEOJSON_BYTES as u64 + 1;
    File::open(file).map_err(failed)?.take(most).read_to_string(&mut text).map_err(failed)?;
    match text.len() {
        0 => Err(Failure::usage(format!("{} is empty: expected GeoJSON with polygons", file.display()))),
        length if length > MAX_GEOJSON_BYTES => {
            Err(Failure::usage(format!("{} is larger than 256 KiB: simplify its outlines", file.display())))
        }
        _ => Ok(text),
    }
}

/// Checks what can be checked without the group's datum.
pub(super) fn place(text: &str) -> Result<String, String> {
    match Place::parse(text, None) {
        Ok(_) | Err(PlaceError::NoDatum(_)) => Ok(text.to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

fn radius(text: &str) -> Result<String, String> {
    let most = 4 * MAX_COORDINATE as u32;
    match (text.parse::<u32>(), text.parse::<Length>()) {
        (Ok(cells), _) if cells > most => Err(format!("expected at most {most} cells")),
        (Err(_), Err(error)) => Err(format!("expected a whole number of cells or a length; {error}")),
        _ => Ok(text.to_owned()),
    }
}

fn drawn(text: &str) -> Result<Drawn, String> {
    if let Some(file) = text.strip_prefix('@') {
        return Ok(Drawn::Polygons(file.into()));
    }
    let wrong =
        || format!("{text:?} is no area: expected two corners, such as 47.1,8.1..47.4,8.9, or @FILE with GeoJSON");
    let (a, b) = text.split_once("..").ok_or_else(wrong)?;
    Ok(Drawn::Corners(place(a)?, place(b)?))
}

fn corners(text: &str) -> Result<Area, String> {
    let wrong = || format!("{text:?} is not a rectangle: expected X1,Y1,X2,Y2 in whole cells, such as 0,0,50,50");
    let second_comma = text.match_indices(',').nth(1).ok_or_else(wrong)?.0;
    let cell = |text: &str| text.parse::<Cell>().map_err(|_| wrong());
    Ok(Area::rectangle(cell(&text[..second_comma])?, cell(&text[second_comma + 1..])?))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    #[command(group = clap::ArgGroup::new("where").args(FLAGS).required(true).multiple(true))]
    struct AreaCommand {
        #[command(flatten)]
        area: AreaArgs,
    }

    fn read(flags: &[&str]) -> Option<AreaChoice> {
        let line = ["command"].iter().chain(flags);
        AreaCommand::try_parse_from(line).ok().and_then(|command| command.area.choice().ok())
    }

    #[test]
    fn area_flags_are_parsed() {
        let center = Cell::new(-3, 4);
        for (flags, area) in [
            (vec!["--at", "-3,4"], Area::Exact(center)),
            (vec!["--near", "-3,4"], Area::Nearest(center)),
            (vec!["--near", "-3,4", "--within", "5"], Area::Radius { center, radius: 5 }),
            (vec!["--rect", "-3,4,9,9"], Area::rectangle(center, Cell::new(9, 9))),
            (vec!["--area", "-3,4..9,9"], Area::rectangle(center, Cell::new(9, 9))),
            (vec!["--any"], Area::Anywhere),
        ] {
            let choice = read(&flags).unwrap();
            assert_eq!((choice.area, choice.place), (area, None), "{flags:?}");
            assert_eq!(choice.flags, flags.join(" "));
        }
    }

    #[test]
    fn places_are_left_to_the_daemon() {
        let text = |text: &str| text.to_owned();
        for (flags, place, words) in [
            (vec!["--at", "47.3769,8.5417"], PlaceQuery::At(text("47.3769,8.5417")), "at 47.3769,8.5417"),
            (vec!["--near", "32TMT6547"], PlaceQuery::Near(text("32TMT6547")), "near 32TMT6547"),
            (vec!["--within", "5"], PlaceQuery::Within { center: None, radius: text("5") }, "within 5 of here"),
            (
                vec!["--near", "1,2", "--within", "5km"],
                PlaceQuery::Within { center: Some(text("1,2")), radius: text("5km") },
                "within 5km of 1,2",
            ),
            (
                vec!["--area", "47.1,8.1..47.2,8.2"],
                PlaceQuery::Corners(text("47.1,8.1"), text("47.2,8.2")),
                "between 47.1,8.1 and 47.2,8.2",
            ),
        ] {
            let choice = read(&flags).unwrap();
            assert_eq!(choice.words(), words);
            assert_eq!((choice.area, choice.place), (Area::Anywhere, Some(place)), "{flags:?}");
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        let named = format!("@{}", file.path().display());
        assert_eq!(read(&["--area", &named]), None, "an empty file");
        std::fs::write(file.path(), "{}").unwrap();
        let choice = read(&["--area", &named, "--near", "1,2"]).unwrap();
        assert_eq!(choice.place, Some(PlaceQuery::Region { geojson: text("{}"), near: Some(text("1,2")) }));
        std::fs::write(file.path(), " ".repeat(MAX_GEOJSON_BYTES + 1)).unwrap();
        assert_eq!(read(&["--area", &named]), None, "a large file");
    }

    #[test]
    fn missing_or_malformed_area_is_rejected() {
        for flags in [
            &[][..],
            &["--at", "1,2", "--any"],
            &["--at", "1,2", "--within", "3"],
            &["--rect", "1,2,3,4", "--any"],
            &["--at", "here"],
            &["--rect", "1,2,3"],
            &["--near", "1,2", "--within", "-1"],
            &["--near", "1,2", "--within", "5 miles"],
            &["--area", "1,2"],
            &["--area", "1,2..3,4", "--near", "1,2"],
        ] {
            assert_eq!(read(flags), None, "{flags:?}");
        }
    }
}
