//! Two sides compared: ratios with confidence intervals.

mod differences;
mod load;
mod single;
mod warnings;

use std::path::{Path, PathBuf};

use serde::Serialize;

pub use self::differences::Difference;
pub(super) use self::differences::settings;
use self::load::{Loaded, Loading, load};
use super::figure::said;
use super::measure::{Better, Measure};
use super::page;
use super::statistics::{Interval, mean, paired, welch};
use super::write::{WriteError, put};

/// A comparison of two sides.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// The first side, which the ratios are of.
    pub a: Side,
    /// The second.
    pub b: Side,
    /// What the plans differ in.
    pub differences: Vec<Difference>,
    /// What a person should know before believing the ratios, one sentence each.
    pub warnings: Vec<String>,
    /// Why the figures cannot be trusted; empty if they can.
    pub distrust: Vec<String>,
    /// The measures that both sides have, in the order of reports.
    pub rows: Vec<Row>,
}

impl Comparison {
    /// Writes the comparison as a page (`.html`) or as one figure (`.svg`), by
    /// the ending of the file's name.
    ///
    /// # Errors
    /// When the ending is another, or the file cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), WriteError> {
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        let text = match ending {
            "html" | "htm" => page::of_comparison(self),
            "svg" => {
                let figure = page::figure_of_comparison(self);
                figure.sheet.standing(&figure.title)
            }
            _ => return Err(WriteError::Ending { path: path.to_owned() }),
        };
        put(path, &text).map(drop)
    }
}

/// One side.
#[derive(Clone, Debug, Serialize)]
pub struct Side {
    /// Where it was read from.
    pub folder: PathBuf,
    /// What tells it from the other side: its first run's name, or what was run
    /// on what, or its folder.
    pub name: String,
    /// The seeds of its runs.
    pub seeds: Vec<u64>,
}

/// One measure compared.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Which.
    #[serde(flatten)]
    pub measure: Measure,
    /// Its value on side A; of several runs the geometric mean.
    pub a: f64,
    /// Its value on side B.
    pub b: f64,
    /// B over A; `None` when A is zero.
    pub ratio: Option<f64>,
    /// Its 95 % confidence interval, where one can be found.
    pub interval: Option<Interval>,
}

/// What an interval says of a measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Finding {
    /// B is better.
    Better,
    /// B is worse.
    Worse,
    /// B is higher, which is neither.
    More,
    /// B is lower, which is neither.
    Less,
    /// The interval leaves both open.
    Open,
    /// There is no interval.
    Unknown,
}

impl Row {
    /// A value of the measure as people read it.
    pub fn show(&self, value: f64) -> String {
        self.measure.show(value)
    }

    /// The ratio and its interval as people read them: `1.39 (1.31–1.47)`.
    pub fn said(&self) -> String {
        said(self)
    }

    /// What the interval says: a finding only if 1 is not in it.
    pub fn finding(&self) -> Finding {
        let Some(interval) = self.interval else { return Finding::Unknown };
        let up = interval.ratio > 1.0;
        match self.measure.better {
            _ if !interval.excludes_one() => Finding::Open,
            Better::Higher if up => Finding::Better,
            Better::Lower if !up => Finding::Better,
            Better::Neither if up => Finding::More,
            Better::Neither => Finding::Less,
            _ => Finding::Worse,
        }
    }
}

impl Finding {
    /// One word for it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::More => "more",
            Self::Less => "less",
            Self::Open => "open",
            Self::Unknown => "",
        }
    }
}

/// Compares the run, or the runs, in folder `b` with those in folder `a`.
///
/// Over several runs on both sides the intervals are over seeds: paired where
/// both sides have the same seeds, Welch's otherwise. Of one run each they are
/// from the bootstrap, whose draws are always the same.
///
/// # Errors
/// When a folder has no run, or one cannot be read.
pub fn compare(a: &Path, b: &Path) -> Result<Comparison, WriteError> {
    Ok(comparison(&load(a)?, &load(b)?))
}

fn comparison(a: &Loading, b: &Loading) -> Comparison {
    let singles = a.single.as_ref().zip(b.single.as_ref());
    let mut rows: Vec<Row> = Vec::new();
    for (measure, _) in a.runs.iter().flat_map(|one| &one.measures) {
        if rows.iter().all(|row| row.measure.kind != measure.kind) {
            rows.extend(row(measure, a, b));
        }
    }
    if let Some((a, b)) = singles {
        single::intervals(a, b, &mut rows);
    }
    let differences = match (a.runs.first(), b.runs.first()) {
        (Some(a), Some(b)) => differences::differences(a.facts(), b.facts()),
        _ => Vec::new(),
    };
    let (name_a, name_b) = names(a, b);
    Comparison {
        a: Side { name: name_a, ..a.side() },
        b: Side { name: name_b, ..b.side() },
        warnings: warnings::warnings(a, b, &differences),
        distrust: [a.distrust(), b.distrust()].concat(),
        differences,
        rows,
    }
}

/// Names of the sides that differ.
fn names(a: &Loading, b: &Loading) -> (String, String) {
    let ways: [fn(&Loaded) -> String; 2] =
        [|one| one.run.name.clone(), |one| format!("{} on {}", one.run.architecture, one.run.topology)];
    let told = ways.iter().find_map(|way| {
        let (a, b) = (way(a.runs.first()?), way(b.runs.first()?));
        (a != b).then_some((a, b))
    });
    told.unwrap_or_else(|| (a.folder.display().to_string(), b.folder.display().to_string()))
}

/// The measure on both sides, with the interval over seeds if there are enough.
fn row(measure: &Measure, a: &Loading, b: &Loading) -> Option<Row> {
    let (of_a, of_b) = (a.values(measure), b.values(measure));
    let seeds = |values: &[(u64, f64)]| values.iter().map(|(seed, _)| *seed).collect::<Vec<_>>();
    let plain = |values: &[(u64, f64)]| values.iter().map(|(_, value)| *value).collect::<Vec<_>>();
    let same_seeds = seeds(&of_a) == seeds(&of_b) && seeds(&of_a).windows(2).all(|pair| pair[0] != pair[1]);
    let (values_a, values_b) = (plain(&of_a), plain(&of_b));
    let interval = if same_seeds { paired(&values_a, &values_b) } else { welch(&values_a, &values_b) };
    let (a, b) = (middle(&values_a)?, middle(&values_b)?);
    let ratio = (a > 0.0).then(|| b / a);
    Some(Row { measure: measure.clone(), a, b, ratio, interval })
}

/// The geometric mean, which ratios are of; the mean when a value is zero.
fn middle(values: &[f64]) -> Option<f64> {
    if let [one] = values {
        return Some(*one);
    }
    if values.iter().all(|value| *value > 0.0) {
        let logarithms: Vec<f64> = values.iter().map(|value| value.ln()).collect();
        return mean(&logarithms).map(f64::exp);
    }
    mean(values)
}

#[cfg(test)]
mod tests {
    use super::super::measure::Kind;
    use super::super::statistics::Method;
    use super::super::synthetic::Shape;
    use super::*;

    fn side(shapes: impl IntoIterator<Item = Shape>) -> Loading {
        let shapes: Vec<Shape> = shapes.into_iter().collect();
        let mut loading = Loading { folder: "side".into(), runs: Vec::new(), single: None };
        for shape in &shapes {
            loading.add(shape.make().results, shapes.len() == 1);
        }
        loading
    }

    fn shape(seed: u64, slower: f64) -> Shape {
        Shape { seed, slower, seconds: 120, requests: 400, ..Shape::default() }
    }

    fn find<'a>(comparison: &'a Comparison, kind: &Kind) -> &'a Row {
        comparison.rows.iter().find(|row| row.measure.kind == *kind).unwrap()
    }

    #[test]
    fn a_run_compared_with_itself_shows_no_difference() {
        let comparison = comparison(&side([shape(1, 1.0)]), &side([shape(1, 1.0)]));
        assert!(comparison.differences.is_empty() && comparison.distrust.is_empty());
        assert!(comparison.rows.iter().filter(|row| row.interval.is_some()).count() > 15);
        for row in &comparison.rows {
            assert!(row.ratio.is_none_or(|ratio| (ratio - 1.0).abs() < 1e-12), "{row:?}");
            assert!(row.interval.is_none_or(|interval| interval.low <= 1.0 && interval.high >= 1.0), "{row:?}");
        }
    }

    #[test]
    fn slower_latencies_are_found_in_single_runs() {
        let comparison = comparison(&side([shape(1, 1.0)]), &side([shape(2, 2.0)]));
        for service in ["video", "track", "image", "sensor"] {
            let row = find(&comparison, &Kind::Latency(service.into(), 500));
            let interval = row.interval.unwrap();
            assert_eq!((row.finding(), interval.method), (Finding::Worse, Method::Requests), "{row:?}");
            assert!(interval.low < 2.3 && interval.high > 1.7, "{row:?}");
        }
        let completed = find(&comparison, &Kind::Completed);
        assert_eq!(completed.interval.map(|interval| interval.method), Some(Method::TimeBlocks));
        assert_eq!(completed.finding(), Finding::Open);
        assert_eq!(find(&comparison, &Kind::HubCpu).finding(), Finding::Unknown);
    }

    #[test]
    fn the_same_seeds_are_paired_and_others_are_not() {
        let a = side((1..=4).map(|seed| shape(seed, 1.0)));
        let same = comparison(&a, &side((1..=4).map(|seed| shape(seed, 0.5))));
        let row = find(&same, &Kind::Latency("track".into(), 500));
        let interval = row.interval.unwrap();
        assert_eq!((row.finding(), interval.method), (Finding::Better, Method::PairedBySeed));
        // The same requests, each in half the time: nothing is left to chance.
        assert!((interval.ratio - 0.5).abs() < 1e-3 && interval.high - interval.low < 0.01);
        let other = comparison(&a, &side((5..=8).map(|seed| shape(seed, 0.5))));
        let interval = find(&other, &Kind::Latency("track".into(), 500)).interval.unwrap();
        assert_eq!(interval.method, Method::Welch);
        assert!(interval.low < 0.5 && interval.high > 0.5 && interval.excludes_one(), "{interval:?}");
    }

    #[test]
    fn what_should_be_known_first_is_said() {
        let odd = Shape { architecture: "client-server", topology: "star-26", valid: false, ..shape(1, 1.0) };
        let comparison = comparison(&side([shape(1, 1.0)]), &side([odd, shape(2, 1.0)]));
        let said = comparison.warnings.join(" ");
        assert!(said.contains("2 respects (architecture, topology)"), "{said}");
        assert!(said.contains("side B are not of one kind") && said.contains("a single run"), "{said}");
        assert_eq!(comparison.distrust.len(), 1);
        assert!(comparison.rows.iter().all(|row| row.interval.is_none()));
    }

    #[test]
    fn sides_have_names_that_differ() {
        let named = |name: &str, architecture| {
            let mut loading = side([Shape { architecture, ..shape(1, 1.0) }]);
            loading.runs[0].run.name = name.into();
            loading
        };
        let (a, b) = (named("x", "client-server"), named("x", "super-node"));
        assert_eq!(names(&a, &b), ("client-server on star-11".into(), "super-node on star-11".into()));
        assert_eq!(names(&a, &named("y", "super-node")), ("x".into(), "y".into()));
        assert_eq!(names(&a, &a), ("side".into(), "side".into()));
    }

    #[test]
    fn folders_are_read_and_the_answer_is_always_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let (a, b) = (folder.path().join("a"), folder.path().join("b"));
        shape(1, 1.0).make().write(&a);
        shape(2, 1.3).make().write(&b);
        let text = || serde_json::to_string(&compare(&a, &b).unwrap()).unwrap();
        assert_eq!(text(), text());
        assert!(compare(&a, &folder.path().join("c")).is_err());
    }
}
