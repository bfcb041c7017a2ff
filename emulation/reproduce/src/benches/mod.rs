//! Studies measured by `emulate bench`: the papers about reflectors, bulk transfer and two links, and
//! reflection beyond them.

mod dre;
mod erum;
mod reflection;
mod wars;

use super::claim::MeasureKey;
use super::study::{Paper, RunMethod, Study, StudyPoint, StudyScale};

/// The line of a study with figures of a single command.
const LINE: &str = "measured";
const PLACE: f64 = 1.0;

pub(super) fn studies(scale: StudyScale) -> Vec<Study> {
    [erum::studies(scale), wars::studies(scale), dre::studies(scale), vec![reflection::study(scale)]].concat()
}

/// Runs of one command. In real time: a quick study has one run.
fn point(series: &str, x: f64, name: &str, args: &str, by: &'static [&'static str], scale: StudyScale) -> StudyPoint {
    let args: Vec<String> = args.split_whitespace().map(str::to_owned).collect();
    let seeds = if scale.is_quick { 1 } else { scale.seeds };
    let (series, name) = (series.to_owned(), name.to_owned());
    // A bench that needs whole processors must not share them; a quick study shares them for the others.
    let is_alone = !scale.is_quick || args.first().is_some_and(|what| what == "reflect");
    StudyPoint { series, x, place: x, name, make: RunMethod::Bench { args, by, is_alone }, seeds }
}

/// A study with these points and no texts yet.
fn empty_study(id: &'static str, paper: Paper, points: Vec<StudyPoint>) -> Study {
    Study {
        id,
        paper,
        title: "",
        about: "",
        inferred: Vec::new(),
        axis: "",
        has_kinds: true,
        points,
        plots: Vec::new(),
        claims: Vec::new(),
    }
}

/// A study whose runs are all of one command.
fn study(id: &'static str, paper: Paper, args: &str, by: &'static [&'static str], scale: StudyScale) -> Study {
    empty_study(id, paper, vec![point(LINE, PLACE, "all", args, by, scale)])
}

/// Points of several lines by size; sizes are evenly spaced and named by their value.
fn by_size(
    lines: &[&str],
    sizes: &[u32],
    args: impl Fn(&str, u32) -> String,
    by: &'static [&'static str],
    scale: StudyScale,
) -> Vec<StudyPoint> {
    let of_line = |line: &&str| {
        let of_size = |(place, size): (u32, &u32)| StudyPoint {
            place: f64::from(place),
            ..point(line, f64::from(*size), &size.to_string(), &args(line, *size), by, scale)
        };
        (0..).zip(sizes).map(of_size).collect::<Vec<_>>()
    };
    lines.iter().flat_map(of_line).collect()
}

fn at(measure: &str) -> MeasureKey {
    MeasureKey::new(LINE, PLACE, measure)
}
