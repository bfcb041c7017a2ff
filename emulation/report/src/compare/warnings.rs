//! Warnings about a comparison's ratios.

use super::ComparisonRow;
use super::differences::{Difference, respects};
use super::load::{LoadedRun, LoadedSide};
use super::pairs::Paired;
use crate::comparability;
use crate::measure::MeasureKind;
use crate::text_format::{counted, percent};

/// The largest difference in success rates before latencies are doubtful.
const UNLIKE_SUCCESS: f64 = 0.03;

/// A sentence each.
pub(super) fn warnings(
    a: &LoadedSide,
    b: &LoadedSide,
    paired: &Paired<'_>,
    found: &[Difference],
    rows: &[ComparisonRow],
) -> Vec<String> {
    let mut warnings = Vec::new();
    let names: Vec<&str> = respects(found).into_iter().collect();
    if names.len() > 1 {
        let (count, names) = (names.len(), names.join(", "));
        warnings
            .push(format!("The sides differ in {count} respects ({names}): a ratio cannot be laid to one of them."));
    }
    warnings.extend(other_ground(paired));
    for (name, side) in [("A", a), ("B", b)] {
        warnings.extend(left_out(name, side));
    }
    for (side, name) in &paired.alone {
        warnings.push(format!("Only side {side} has runs of {name}: they are compared with nothing."));
    }
    warnings.extend(unlike_success(rows));
    warnings.extend(few_runs(paired));
    warnings
}

/// Failed requests have no latency: a side that fails where it would be slow looks fast.
fn unlike_success(rows: &[ComparisonRow]) -> Option<String> {
    let apart = |row: &&ComparisonRow| (row.a - row.b).abs();
    let unlike = rows.iter().filter(|row| row.measure.kind == MeasureKind::Success && apart(row) > UNLIKE_SUCCESS);
    let row = unlike.max_by(|one, other| apart(one).total_cmp(&apart(other)))?;
    let (a, b, worse) = (percent(row.a), percent(row.b), if row.a < row.b { "A" } else { "B" });
    let cell = if row.cell.is_empty() { String::new() } else { format!(" of {}", row.cell) };
    Some(format!(
        "Side A completed {a} of the requests{cell} and side B {b}, and latencies are of completed requests only: \
         those of {worse} leave out more of what went badly."
    ))
}

/// Machines, programs and ways of carrying packets that differ between runs.
fn other_ground(paired: &Paired<'_>) -> Option<String> {
    let runs = paired.pairs.iter().flat_map(|pair| pair.a.iter().chain(&pair.b));
    let ground = comparability::platform_differences(runs.map(|one| &one.run))?;
    Some(format!(
        "Not all runs stand on the same ground: {ground}. \
         A ratio may be that of machines or programs, not of what was to be compared."
    ))
}

fn left_out(name: &str, side: &LoadedSide) -> Option<String> {
    let (used, reasons) = side.usable();
    let out = side.runs.len() - used.len();
    (out > 0).then(|| {
        let is = if out == 1 { "is" } else { "are" };
        format!(
            "Of side {name}'s {}, {out} {is} left out: {}",
            counted(side.runs.len() as u64, "run"),
            reasons.join("; ")
        )
    })
}

fn few_runs(paired: &Paired<'_>) -> Option<String> {
    let count = |runs: &[&LoadedRun]| runs.len();
    let sizes = || paired.pairs.iter().map(|pair| (count(&pair.a), count(&pair.b)));
    if sizes().any(|sizes| sizes == (1, 1)) {
        let text = "One run each: the intervals cover chance within these runs, not other seeds. \
                    Several seeds on each side would.";
        return Some(text.to_owned());
    }
    sizes()
        .any(|(a, b)| a.min(b) == 1)
        .then(|| "One side has a single run, so there is no interval: run it with other seeds too.".to_owned())
}
