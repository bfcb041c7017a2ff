//! The flags that name an area.

use std::str::FromStr;

use clap::Args;
use roost_wire::grid::MAX_COORDINATE;
use roost_wire::{Area, Cell};

/// The names of the flags, for a command where at least one must be given.
pub(super) const FLAGS: [&str; 5] = ["at", "near", "within", "rect", "any"];

#[derive(Clone, Debug, Args)]
pub(crate) struct AreaArgs {
    /// Only providers in exactly this cell
    #[arg(long, help_heading = "Where", value_name = "X,Y", allow_hyphen_values = true, conflicts_with_all = ["near", "within", "rect", "any"])]
    at: Option<Cell>,
    /// Nearest to this place first
    #[arg(long, help_heading = "Where", value_name = "X,Y", allow_hyphen_values = true, conflicts_with_all = ["rect", "any"])]
    near: Option<Cell>,
    /// Only providers within this many cells of --near or, without --near, of the node itself
    #[arg(long, help_heading = "Where", value_name = "R", conflicts_with_all = ["rect", "any"],
          value_parser = clap::value_parser!(u32).range(0..=4 * MAX_COORDINATE as i64))]
    within: Option<u32>,
    /// Inside a rectangle, edges included
    #[arg(
        long,
        help_heading = "Where",
        value_name = "X1,Y1,X2,Y2",
        allow_hyphen_values = true,
        conflicts_with = "any"
    )]
    rect: Option<Corners>,
    /// Anywhere
    #[arg(long, help_heading = "Where")]
    any: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AreaChoice {
    Area(Area),
    /// Within a distance of the node's own cell.
    AroundHere {
        /// In cells.
        radius: u32,
    },
}

impl AreaArgs {
    /// Reads the flags; without flags the area is anywhere.
    pub(crate) fn choice(&self) -> AreaChoice {
        let area = match (self.at, self.near, self.within, self.rect) {
            (Some(cell), ..) => Area::Exact(cell),
            (_, Some(centre), Some(radius), _) => Area::Radius { center: centre, radius },
            (_, Some(cell), None, _) => Area::Nearest(cell),
            (_, None, Some(radius), _) => return AreaChoice::AroundHere { radius },
            (.., Some(Corners(a, b))) => Area::rectangle(a, b),
            (None, None, None, None) => Area::Anywhere,
        };
        AreaChoice::Area(area)
    }
}

/// Two opposite corners of a rectangle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Corners(Cell, Cell);

impl FromStr for Corners {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || format!("{text:?} is not a rectangle: expected X1,Y1,X2,Y2 in whole cells, such as 0,0,50,50");
        let second_comma = text.match_indices(',').nth(1).ok_or_else(wrong)?.0;
        let (first, second) = (&text[..second_comma], &text[second_comma + 1..]);
        Ok(Self(first.parse().map_err(|_| wrong())?, second.parse().map_err(|_| wrong())?))
    }
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
        AreaCommand::try_parse_from(line).ok().map(|command| command.area.choice())
    }

    #[test]
    fn area_flags_are_parsed() {
        let centre = Cell::new(-3, 4);
        for (flags, area) in [
            (vec!["--at", "-3,4"], Area::Exact(centre)),
            (vec!["--near", "-3,4"], Area::Nearest(centre)),
            (vec!["--near", "-3,4", "--within", "5"], Area::Radius { center: centre, radius: 5 }),
            (vec!["--rect", "9,9,-3,4"], Area::rectangle(centre, Cell::new(9, 9))),
            (vec!["--any"], Area::Anywhere),
        ] {
            assert_eq!(read(&flags), Some(AreaChoice::Area(area)), "{flags:?}");
        }
        assert_eq!(read(&["--within", "5"]), Some(AreaChoice::AroundHere { radius: 5 }));
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
        ] {
            assert_eq!(read(flags), None, "{flags:?}");
        }
    }
}
