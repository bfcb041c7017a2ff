//! Comparisons of two sides: ratios with confidence intervals.

mod differences;
mod load;
mod pairs;
mod single;
mod warnings;

use std::path::{Path, PathBuf};

use serde::Serialize;

pub use self::differences::Difference;
use self::load::{LoadedRun, LoadedSide, load};
use self::pairs::{Paired, RunPair};
use super::figure::ratio_label;
use super::measure::{Measure, MeasureDirection};
use super::page;
use super::write::{WriteError, put};
use crate::statistics::{RatioInterval, mean, paired, welch};

#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// The first side, the denominator of the ratios.
    pub a: ComparisonSide,
    pub b: ComparisonSide,
    pub differences: Vec<Difference>,
    /// Warnings about the ratios, one sentence each.
    pub warnings: Vec<String>,
    /// The reasons to distrust the figures; empty if there are none.
    pub distrust: Vec<String>,
    /// The measures that both sides have, in the order of reports, cell by cell.
    pub rows: Vec<ComparisonRow>,
}

impl Comparison {
    /// The compared cells, each with its rows. A single cell has an empty name.
    pub fn cells(&self) -> Vec<(&str, Vec<&ComparisonRow>)> {
        let mut cells: Vec<(&str, Vec<&ComparisonRow>)> = Vec::new();
        for row in &self.rows {
            match cells.last_mut().filter(|(name, _)| *name == row.cell) {
                Some((_, rows)) => rows.push(row),
                None => cells.push((&row.cell, vec![row])),
            }
        }
        cells
    }

    /// Writes the comparison as a page (`.html`) or as one figure (`.svg`), by the extension of the file.
    ///
    /// # Errors
    /// When the extension is another, or the file cannot be written.
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

#[derive(Clone, Debug, Serialize)]
pub struct ComparisonSide {
    pub folder: PathBuf,
    /// The side's distinctive name: its first run's name, or its architecture and topology, or its folder.
    pub name: String,
    pub seeds: Vec<u64>,
}

#[derive(Clone, Debug, Serialize)]
pub struct ComparisonRow {
    /// The facts that are equal on both sides and tell these runs from others; empty if there is only one kind.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cell: String,
    #[serde(flatten)]
    pub measure: Measure,
    /// Its value on side A; the geometric mean of several runs.
    pub a: f64,
    pub b: f64,
    /// B over A; `None` if A is zero.
    pub ratio: Option<f64>,
    /// Its 95 % confidence interval, if there is one.
    pub interval: Option<RatioInterval>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Finding {
    Better,
    Worse,
    /// B is higher, which is neither better nor worse.
    More,
    /// B is lower, which is neither better nor worse.
    Less,
    /// The interval contains 1.
    Inconclusive,
    Unknown,
    /// Too few requests lie beyond the quantile.
    TooFewRequests,
}

impl ComparisonRow {
    /// Formats a value of the measure for people.
    pub fn show(&self, value: f64) -> String {
        self.measure.show(value)
    }

    /// Formats the ratio and its interval for people: `1.39 (1.31–1.47)`.
    pub fn ratio_text(&self) -> String {
        ratio_label(self)
    }

    /// The finding of the interval: conclusive only if 1 is not in it.
    pub fn finding(&self) -> Finding {
        let Some(interval) = self.interval else {
            return if self.measure.few { Finding::TooFewRequests } else { Finding::Unknown };
        };
        let up = interval.ratio > 1.0;
        match self.measure.better {
            _ if !interval.excludes_one() => Finding::Inconclusive,
            MeasureDirection::Higher if up => Finding::Better,
            MeasureDirection::Lower if !up => Finding::Better,
            MeasureDirection::Neither if up => Finding::More,
            MeasureDirection::Neither => Finding::Less,
            _ => Finding::Worse,
        }
    }
}

impl Finding {
    pub const fn word(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::More => "more",
            Self::Less => "less",
            Self::Inconclusive => "open",
            Self::Unknown => "",
            Self::TooFewRequests => "n too small",
        }
    }
}

/// Compares the run, or the runs, in folder `b` with those in folder `a`.
///
/// Runs of several kinds are compared kind by kind: each with those of the other side that differ only as the
/// sides do. With several seeds on both sides the intervals are over seeds: paired if both sides have the same,
/// Welch's otherwise. With a single run on each side they are from the bootstrap, whose draws are always the
/// same. Runs that are not valid or were stopped early are left out, unless a side has no others.
///
/// # Errors
/// When a folder has no run, one cannot be read, or runs cannot be paired.
pub fn compare(a: &Path, b: &Path) -> Result<Comparison, WriteError> {
    comparison(&load(a)?, &load(b)?)
}

fn comparison(a: &LoadedSide, b: &LoadedSide) -> Result<Comparison, WriteError> {
    let ((runs_a, reasons_a), (runs_b, reasons_b)) = (a.usable(), b.usable());
    let paired = pairs::pairs(&runs_a, &runs_b).map_err(|reason| WriteError::Unlike { reason })?;
    let differences = differences_of(&paired);
    // If a side has no usable run, all of it are compared.
    let distrust = [(a, reasons_a), (b, reasons_b)];
    let distrust = distrust.into_iter().filter(|(side, _)| side.runs.iter().all(|one| !one.unusable().is_empty()));
    let (name_a, name_b) = names((a, &runs_a), (b, &runs_b));
    let seeds = |runs: &[&LoadedRun]| runs.iter().map(|one| one.run.seed).collect();
    let rows: Vec<ComparisonRow> = paired.pairs.iter().flat_map(rows).collect();
    Ok(Comparison {
        a: ComparisonSide { name: name_a, seeds: seeds(&runs_a), ..a.side() },
        b: ComparisonSide { name: name_b, seeds: seeds(&runs_b), ..b.side() },
        warnings: warnings::warnings(a, b, &paired, &differences, &rows),
        distrust: distrust.flat_map(|(_, reasons)| reasons).collect(),
        differences,
        rows,
    })
}

/// The differences between the first runs of pairs; each setting is taken from the first pair that has it.
fn differences_of(paired: &Paired<'_>) -> Vec<Difference> {
    let mut all: Vec<Difference> = Vec::new();
    for pair in &paired.pairs {
        let (Some(a), Some(b)) = (pair.a.first(), pair.b.first()) else { continue };
        for one in differences::differences(a.facts(), b.facts()) {
            if all.iter().all(|known| known.setting != one.setting) {
                all.push(one);
            }
        }
    }
    all
}

fn rows(pair: &RunPair<'_>) -> Vec<ComparisonRow> {
    let mut rows: Vec<ComparisonRow> = Vec::new();
    for (measure, _) in pair.a.iter().flat_map(|one| &one.measures) {
        if rows.iter().all(|row| row.measure.kind != measure.kind) {
            rows.extend(row(measure, pair));
        }
    }
    if let ([a], [b]) = (pair.a.as_slice(), pair.b.as_slice())
        && let Some((a, b)) = a.records.as_ref().zip(b.records.as_ref())
    {
        single::intervals(a, b, &mut rows);
    }
    for row in rows.iter_mut().filter(|row| row.measure.few) {
        row.interval = None;
    }
    rows
}

fn names(a: (&LoadedSide, &[&LoadedRun]), b: (&LoadedSide, &[&LoadedRun])) -> (String, String) {
    let ways: [fn(&LoadedRun) -> String; 3] = [
        |one| one.run.name.clone(),
        |one| one.run.architecture.clone(),
        |one| format!("{} on {}", one.run.architecture, one.run.topology),
    ];
    let told = ways.iter().find_map(|way| {
        let one = |runs: &[&LoadedRun]| {
            let mut names = runs.iter().map(|one| way(one));
            let first = names.next()?;
            names.all(|name| name == first).then_some(first)
        };
        let (a, b) = (one(a.1)?, one(b.1)?);
        (a != b).then_some((a, b))
    });
    told.unwrap_or_else(|| (a.0.folder.display().to_string(), b.0.folder.display().to_string()))
}

/// The measure on both sides, with the interval over seeds if there are enough.
fn row(measure: &Measure, pair: &RunPair<'_>) -> Option<ComparisonRow> {
    let of = |runs: &[&LoadedRun]| {
        let mut found: Vec<(u64, f64)> =
            runs.iter().filter_map(|one| Some((one.run.seed, one.value(measure)?.1))).collect();
        found.sort_by_key(|(seed, _)| *seed);
        found.into_iter().unzip::<u64, f64, Vec<u64>, Vec<f64>>()
    };
    let ((seeds_a, of_a), (seeds_b, of_b)) = (of(&pair.a), of(&pair.b));
    let same_seeds = seeds_a == seeds_b && seeds_a.windows(2).all(|pair| pair[0] != pair[1]);
    let interval = if same_seeds { paired(&of_a, &of_b) } else { welch(&of_a, &of_b) };
    let (a, b) = (middle(&of_a)?, middle(&of_b)?);
    let ratio = (a > 0.0).then(|| b / a);
    let few = pair.a.iter().chain(&pair.b).filter_map(|one| one.value(measure)).any(|(measure, _)| measure.few);
    Some(ComparisonRow { cell: pair.name.clone(), measure: Measure { few, ..measure.clone() }, a, b, ratio, interval })
}

/// The geometric mean, which ratios are based on; the mean if a value is zero.
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
    use super::super::measure::MeasureKind;
    use super::super::record::RequestOutcome;
    use super::super::synthetic::SyntheticShape;
    use super::names as names_of;
    use super::*;
    use crate::statistics::Method;

    fn side(shapes: impl IntoIterator<Item = SyntheticShape>) -> LoadedSide {
        let mut loading = LoadedSide { folder: "side".into(), runs: Vec::new() };
        shapes.into_iter().for_each(|shape| loading.add(shape.make().results));
        loading
    }

    fn comparison(a: &LoadedSide, b: &LoadedSide) -> Comparison {
        super::comparison(a, b).unwrap()
    }

    fn shape(seed: u64, slower: f64) -> SyntheticShape {
        SyntheticShape { seed, slower, seconds: 120, requests: 400, ..SyntheticShape::default() }
    }

    fn find<'a>(comparison: &'a Comparison, kind: &MeasureKind) -> &'a ComparisonRow {
        comparison.rows.iter().find(|row| row.measure.kind == *kind).unwrap()
    }

    #[test]
    fn identical_runs_show_no_difference() {
        let comparison = comparison(&side([shape(1, 1.0)]), &side([shape(1, 1.0)]));
        assert!(comparison.differences.is_empty() && comparison.distrust.is_empty());
        assert!(comparison.rows.iter().filter(|row| row.interval.is_some()).count() > 15);
        for row in &comparison.rows {
            assert!(row.ratio.is_none_or(|ratio| (ratio - 1.0).abs() < 1e-12), "{row:?}");
            assert!(row.interval.is_none_or(|interval| interval.low <= 1.0 && interval.high >= 1.0), "{row:?}");
        }
    }

    #[test]
    fn slower_latency_found_in_single_runs() {
        let comparison = comparison(&side([shape(1, 1.0)]), &side([shape(2, 2.0)]));
        for service in ["video", "track", "image", "sensor"] {
            let row = find(&comparison, &MeasureKind::Latency(service.into(), 500));
            let interval = row.interval.unwrap();
            assert_eq!((row.finding(), interval.method), (Finding::Worse, Method::Requests), "{row:?}");
            assert!(interval.low < 2.3 && interval.high > 1.7, "{row:?}");
        }
        let completed = find(&comparison, &MeasureKind::Completed);
        assert_eq!(completed.interval.map(|interval| interval.method), Some(Method::TimeBlocks));
        assert_eq!(completed.finding(), Finding::Inconclusive);
        assert_eq!(find(&comparison, &MeasureKind::HubCpu).finding(), Finding::Unknown);
    }

    #[test]
    fn only_equal_seeds_are_paired() {
        let a = side((1..=4).map(|seed| shape(seed, 1.0)));
        let same = comparison(&a, &side((1..=4).map(|seed| shape(seed, 0.5))));
        let row = find(&same, &MeasureKind::Latency("track".into(), 500));
        let interval = row.interval.unwrap();
        assert_eq!((row.finding(), interval.method), (Finding::Better, Method::PairedBySeed));
        // The same requests in half the time: there is no random difference.
        assert!((interval.ratio - 0.5).abs() < 1e-3 && interval.high - interval.low < 0.01);
        let other = comparison(&a, &side((5..=8).map(|seed| shape(seed, 0.5))));
        let interval = find(&other, &MeasureKind::Latency("track".into(), 500)).interval.unwrap();
        assert_eq!(interval.method, Method::Welch);
        assert!(interval.low < 0.5 && interval.high > 0.5 && interval.excludes_one(), "{interval:?}");
    }

    #[test]
    fn few_requests_give_no_interval() {
        let few =
            |seeds: std::ops::Range<u64>| side(seeds.map(|seed| SyntheticShape { requests: 60, ..shape(seed, 1.0) }));
        for comparison in [comparison(&few(1..2), &few(2..3)), comparison(&few(1..5), &few(1..5))] {
            let row = find(&comparison, &MeasureKind::Latency("track".into(), 990));
            assert_eq!((row.interval, row.finding()), (None, Finding::TooFewRequests), "{row:?}");
            assert!(row.show(row.a).starts_with('('), "{row:?}");
        }
    }

    #[test]
    fn topologies_are_compared_each_with_itself() {
        let both = |architecture: &'static str, slower: f64, topologies: &[&'static str]| {
            let shapes = topologies.iter().flat_map(|topology| (1..=3).map(move |seed| (topology, seed)));
            side(shapes.map(|(topology, seed)| SyntheticShape { architecture, topology, ..shape(seed, slower) }))
        };
        let a = both("client-server", 1.0, &["star-11", "star-26"]);
        let compared = comparison(&a, &both("super-node", 2.0, &["star-11", "star-26", "tree-11"]));
        let names: Vec<&str> = compared.cells().iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["star-11", "star-26"]);
        for (_, rows) in compared.cells() {
            let row = rows.iter().find(|row| row.measure.kind == MeasureKind::MeanLatency("track".into())).unwrap();
            assert_eq!(row.interval.map(|interval| interval.method), Some(Method::PairedBySeed));
            assert!((row.ratio.unwrap() - 2.0).abs() < 0.01, "{row:?}");
        }
        assert_eq!((compared.a.name.as_str(), compared.b.name.as_str()), ("client-server", "super-node"));
        assert!(compared.warnings.iter().any(|said| said.contains("Only side B has runs of tree-11")));
        // The other way round they are of several kinds, and their pairing is ambiguous.
        let mixed = super::comparison(&a, &both("super-node", 1.0, &["tree-11"]));
        let error = mixed.unwrap_err().to_string();
        assert!(error.contains("side A are not of one kind") && error.contains("topology"), "{error}");
    }

    #[test]
    fn warnings_name_differing_settings() {
        let odd = SyntheticShape { architecture: "client-server", topology: "star-26", ..shape(1, 1.0) };
        let comparison = comparison(&side([shape(1, 1.0), shape(2, 1.0)]), &side([odd]));
        let said = comparison.warnings.join(" ");
        assert!(said.contains("2 respects (architecture, topology)"), "{said}");
        assert!(said.contains("a single run"), "{said}");
        assert!(comparison.rows.iter().all(|row| row.interval.is_none()));
    }

    #[test]
    fn unequal_success_warns_about_latency() {
        let failing = |part: usize| {
            let mut results = shape(1, 1.0).make().results;
            results.requests.iter_mut().step_by(part).for_each(|request| request.outcome = RequestOutcome::TimedOut);
            let mut loading = LoadedSide { folder: "side".into(), runs: Vec::new() };
            loading.add(results);
            loading
        };
        let said = |a: &LoadedSide, b: &LoadedSide| comparison(a, b).warnings.join(" ");
        let said_of = said(&failing(400), &failing(5));
        assert!(said_of.contains("latencies are of completed requests only: those of B leave out more"), "{said_of}");
        let said_of = said(&failing(100), &failing(120));
        assert!(!said_of.contains("completed requests only"), "{said_of}");
    }

    #[test]
    fn different_machine_or_build_warns() {
        let (a, mut b) = (side([shape(1, 1.0)]), side([shape(2, 1.0)]));
        b.runs[0].run.machine.insert("processors".into(), "16".into());
        b.runs[0].run.versions.insert("overlay-node".into(), "0.1.0, debug".into());
        let comparison = comparison(&a, &b);
        let said = comparison.warnings.join(" ");
        assert!(
            said.contains("same ground: machine: processors (16; 2), program: overlay-node (0.1.0; 0.1.0, debug)"),
            "{said}"
        );
        assert!(comparison.differences.iter().any(|one| one.setting == "machine: processors"));
    }

    #[test]
    fn unusable_runs_excluded_if_others_exist() {
        let bad = |seed| SyntheticShape { valid: false, ..shape(seed, 9.0) };
        let a = side([shape(1, 1.0), shape(2, 1.0)]);
        let compared = comparison(&a, &side([shape(1, 1.0), bad(2), shape(2, 1.0)]));
        assert!(compared.distrust.is_empty() && compared.b.seeds == [1, 2]);
        assert!(compared.warnings.iter().any(|said| said.contains("Of side B's 3 runs, 1 is left out")));
        assert!(compared.rows.iter().all(|row| row.ratio.is_none_or(|ratio| (ratio - 1.0).abs() < 1e-12)));
        assert_eq!(comparison(&a, &side([bad(1), bad(2)])).distrust.len(), 2);
    }

    #[test]
    fn sides_have_names_that_differ() {
        let named = |name: &str, architecture| {
            let mut loading = side([SyntheticShape { architecture, ..shape(1, 1.0) }]);
            loading.runs[0].run.name = name.into();
            loading
        };
        let names = |a: &LoadedSide, b: &LoadedSide| names_of((a, &a.usable().0), (b, &b.usable().0));
        let (a, b) = (named("x", "client-server"), named("x", "super-node"));
        assert_eq!(names(&a, &b), ("client-server".into(), "super-node".into()));
        assert_eq!(names(&a, &named("y", "super-node")), ("x".into(), "y".into()));
        assert_eq!(names(&a, &a), ("side".into(), "side".into()));
    }

    #[test]
    fn folder_comparison_is_deterministic() {
        let folder = tempfile::tempdir().unwrap();
        let (a, b) = (folder.path().join("a"), folder.path().join("b"));
        shape(1, 1.0).make().write(&a);
        shape(2, 1.3).make().write(&b);
        let text = || serde_json::to_string(&compare(&a, &b).unwrap()).unwrap();
        assert_eq!(text(), text());
        assert!(compare(&a, &folder.path().join("c")).is_err());
    }
}
