//! Comparisons of two sides: ratios with confidence intervals.

mod differences;
mod load;
mod pairs;
mod single;
mod warnings;

use std::path::{Path, PathBuf};

use roost_statistics::RatioInterval;
use serde::Serialize;

pub use self::differences::Difference;
use self::load::{LoadedRun, LoadedSide, load};
use self::pairs::{Paired, RunPair};
use super::measure::{Measure, MeasureDirection};
use super::page;
use super::seed_values::SeedValues;
use super::text_format::ratio;
use super::write::{WriteError, put};

/// Compares the run, or the runs, in folder `b` with those in folder `a`.
///
/// Runs of several kinds are compared kind by kind: each with those of the other side that differ only as the
/// sides do. With several seeds on both sides the intervals are over seeds: paired if both sides have the same,
/// Welch's otherwise. With a single run on each side they are from the bootstrap, whose draws are always the
/// same. Runs that are not valid or were stopped early are left out, unless a side has no others.
///
/// # Errors
/// Returns an error if a folder has no run, one cannot be read, or runs cannot be paired.
pub fn compare(a: &Path, b: &Path) -> Result<Comparison, WriteError> {
    compare_sides(&load(a)?, &load(b)?)
}

/// Two sides compared.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// Side A, the base of the ratios.
    pub a: ComparisonSide,
    /// Side B.
    pub b: ComparisonSide,
    /// Settings in which the plans differ.
    pub differences: Vec<Difference>,
    /// Caveats on the ratios, one sentence each.
    pub warnings: Vec<String>,
    /// Reasons not to trust the figures; empty if there are none.
    #[serde(rename = "distrust")]
    pub distrust_reasons: Vec<String>,
    /// Measures of both sides, cell by cell, in the order of reports.
    pub rows: Vec<ComparisonRow>,
}

impl Comparison {
    /// Rows of each compared cell, with the cell's name; a single cell has an empty name.
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
    /// Returns an error if the ending is unknown or the file cannot be written.
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

/// A side of a comparison.
#[derive(Clone, Debug, Serialize)]
pub struct ComparisonSide {
    /// Folder of the runs.
    pub folder: PathBuf,
    /// Name that differs from the other side's: of the run, the architecture, both with the topology, or the folder.
    pub name: String,
    /// Seeds of the compared runs.
    pub seeds: Vec<u64>,
}

/// Comparison of one measure in one cell.
#[derive(Clone, Debug, Serialize)]
pub struct ComparisonRow {
    /// Name of the cell, by the facts that both sides share; empty if there is one cell.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cell: String,
    /// The measure compared.
    #[serde(flatten)]
    pub measure: Measure,
    /// Value of side A: the geometric mean over its runs; arithmetic if a value of a side is not above zero.
    pub a: f64,
    /// Value of side B.
    pub b: f64,
    /// B over A; `None` if A is not above zero, or B is below.
    pub ratio: Option<f64>,
    /// 95 % confidence interval of the ratio, if there are enough runs or requests.
    pub interval: Option<RatioInterval>,
}

impl ComparisonRow {
    /// Formats the ratio and its interval for people: `1.39 (1.31–1.47)`.
    pub fn ratio_text(&self) -> String {
        let interval = self.interval.map(|interval| format!(" ({}–{})", ratio(interval.low), ratio(interval.high)));
        self.over_text() + &interval.unwrap_or_default()
    }

    /// Formats the ratio alone: in brackets when it is a guess.
    pub(crate) fn over_text(&self) -> String {
        match self.ratio.map(ratio) {
            Some(over) if self.measure.few => format!("({over})"),
            over => over.unwrap_or_else(|| "–".to_owned()),
        }
    }

    /// Verdict of the interval: conclusive only if 1 is not in it.
    pub fn finding(&self) -> ComparisonFinding {
        let Some(interval) = self.interval else {
            return if self.measure.few { ComparisonFinding::TooFewRequests } else { ComparisonFinding::Unknown };
        };
        if !interval.excludes_one() {
            return ComparisonFinding::Inconclusive;
        }
        match (self.measure.better, interval.ratio > 1.0) {
            (MeasureDirection::Higher, true) | (MeasureDirection::Lower, false) => ComparisonFinding::Better,
            (MeasureDirection::Higher, false) | (MeasureDirection::Lower, true) => ComparisonFinding::Worse,
            (MeasureDirection::Neither, true) => ComparisonFinding::More,
            (MeasureDirection::Neither, false) => ComparisonFinding::Less,
        }
    }
}

/// Verdict of an interval on a measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ComparisonFinding {
    Better,
    Worse,
    /// B is higher; no direction is better.
    More,
    /// B is lower; no direction is better.
    Less,
    /// The interval contains 1.
    Inconclusive,
    Unknown,
    /// Too few requests lie beyond the quantile.
    TooFewRequests,
}

impl ComparisonFinding {
    /// Word for tables; empty if there is no interval.
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

/// Compares two loaded sides; see [`compare`].
fn compare_sides(a: &LoadedSide, b: &LoadedSide) -> Result<Comparison, WriteError> {
    let ((runs_a, reasons_a), (runs_b, reasons_b)) = (a.usable(), b.usable());
    let paired = pairs::pairs(&runs_a, &runs_b).map_err(|reason| WriteError::Unlike { reason })?;
    let differences = collect_differences(&paired);
    // A side without a usable run is compared all the same.
    let is_untrusted = |side: &LoadedSide| side.runs.iter().all(|run| !run.unusable().is_empty());
    let reasons = [(a, reasons_a), (b, reasons_b)].into_iter().filter(|(side, _)| is_untrusted(side));
    let (name_a, name_b) = name_sides((a, &runs_a), (b, &runs_b));
    let seeds = |runs: &[&LoadedRun]| runs.iter().map(|one| one.run.seed).collect();
    let rows: Vec<ComparisonRow> = paired.pairs.iter().flat_map(compare_pair).collect();
    Ok(Comparison {
        a: ComparisonSide { name: name_a, seeds: seeds(&runs_a), ..a.side() },
        b: ComparisonSide { name: name_b, seeds: seeds(&runs_b), ..b.side() },
        warnings: warnings::warnings(a, b, &paired, &differences, &rows),
        distrust_reasons: reasons.flat_map(|(_, reasons)| reasons).collect(),
        differences,
        rows,
    })
}

/// The differences between the first runs of pairs; each setting is taken from the first pair that has it.
fn collect_differences(paired: &Paired<'_>) -> Vec<Difference> {
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

fn compare_pair(pair: &RunPair<'_>) -> Vec<ComparisonRow> {
    let mut rows: Vec<ComparisonRow> = Vec::new();
    for (measure, _) in pair.a.iter().flat_map(|one| &one.measures) {
        if rows.iter().all(|row| row.measure.kind != measure.kind) {
            rows.extend(compare_measure(measure, pair));
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

fn name_sides(a: (&LoadedSide, &[&LoadedRun]), b: (&LoadedSide, &[&LoadedRun])) -> (String, String) {
    let ways: [fn(&LoadedRun) -> String; 3] = [
        |one| one.run.name.clone(),
        |one| one.run.architecture.clone(),
        |one| format!("{} on {}", one.run.architecture, one.run.topology),
    ];
    let common = ways.iter().find_map(|way| {
        let common_name = |runs: &[&LoadedRun]| {
            let mut names = runs.iter().map(|run| way(run));
            let first = names.next()?;
            names.all(|name| name == first).then_some(first)
        };
        let (a, b) = (common_name(a.1)?, common_name(b.1)?);
        (a != b).then_some((a, b))
    });
    common.unwrap_or_else(|| (a.0.folder.display().to_string(), b.0.folder.display().to_string()))
}

/// The measure on both sides, with the interval over seeds if there are enough.
fn compare_measure(measure: &Measure, pair: &RunPair<'_>) -> Option<ComparisonRow> {
    let values_of = |runs: &[&LoadedRun]| -> SeedValues {
        runs.iter().filter_map(|run| Some((run.run.seed, run.value(measure)?.1))).collect()
    };
    let (base, other) = (values_of(&pair.a), values_of(&pair.b));
    let interval = other.over(&base);
    let means = other.means(&base)?;
    let (a, b) = (means.base, means.over);
    // Nothing over something is 0, without an interval.
    let ratio = means.ratio().or_else(|| (b == 0.0 && a > 0.0).then_some(0.0));
    let few = pair.a.iter().chain(&pair.b).filter_map(|one| one.value(measure)).any(|(measure, _)| measure.few);
    Some(ComparisonRow { cell: pair.name.clone(), measure: Measure { few, ..measure.clone() }, a, b, ratio, interval })
}

#[cfg(test)]
mod tests;
