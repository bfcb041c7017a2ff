//! Many runs side by side: what they differ in, and their means over seeds.

mod axes;
mod figures;
mod files;
mod find;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use self::axes::{Axes, X};
pub use self::find::runs;
use super::compare::settings;
use super::measure::{Measure, measures};
use super::metrics::Metrics;
use super::page;
use super::read::{Results, read};
use super::record::Run;
use super::statistics::mean_and_half_width;
use super::words::percent;
use super::write::{WriteError, Written, distrust, put};

/// One run of several: its facts and its measures, without its records.
#[derive(Clone, Debug)]
pub(super) struct Point {
    /// Where it is, below the folder of all.
    pub(super) folder: PathBuf,
    pub(super) run: Run,
    pub(super) measures: Vec<(Measure, f64)>,
}

impl Point {
    /// A run's point. Of a run that no sweep has made, all settings of its
    /// plan count as varied: which do differ is seen beside the others.
    fn of(folder: PathBuf, results: Results, metrics: &Metrics) -> Self {
        let mut run = results.run;
        if run.varied.is_empty() {
            run.varied = results.plan.as_deref().map(settings).unwrap_or_default();
        }
        Self { folder, measures: measures(metrics), run }
    }
}

/// Runs that differ in their seed only.
#[derive(Clone, Debug)]
pub(super) struct Cell<'a> {
    /// The topologies that it is drawn with: those that differ in size only.
    pub(super) family: String,
    /// The line that it is on.
    pub(super) series: String,
    /// Where on it.
    pub(super) x: X,
    pub(super) points: Vec<&'a Point>,
}

/// Reads all runs under `folder` and writes one page about them, `index.html`,
/// with figures across what they differ in, and `runs.csv` and `cells.csv`.
/// Runs with the same plan but for the seed are one cell; figures show means
/// with 95 % confidence intervals over the seeds. Runs that are not valid are
/// named and left out, unless none is valid; so are runs that cannot be read.
///
/// # Errors
/// When there is no run, none can be read or a file not be written.
pub fn combine(folder: &Path) -> Result<Written, WriteError> {
    let (points, remarks) = read_all(folder)?;
    let overview = Overview::of(&points);
    let mut files = vec![
        put(&folder.join("runs.csv"), &files::runs(&points))?,
        put(&folder.join("cells.csv"), &files::cells(&overview))?,
    ];
    let figures = overview.figures();
    for figure in figures.iter().flat_map(|(_, figures)| figures) {
        let path = folder.join("figures").join(format!("{}.svg", figure.name));
        files.push(put(&path, &figure.sheet.standing(&figure.title))?);
    }
    let page = put(&folder.join("index.html"), &page::of_sweep(folder, &points, &overview, &figures, &remarks))?;
    files.push(page.clone());
    let headline = vec![
        ("runs".to_owned(), points.len().to_string()),
        ("not valid".to_owned(), points.iter().filter(|point| !point.run.verdict.valid).count().to_string()),
        ("cells".to_owned(), overview.cells.len().to_string()),
    ];
    Ok(Written { page, headline, measures: BTreeMap::new(), distrust: overview.distrust(), files, remarks })
}

/// The points of all runs, and what was not as it should be. A run that cannot
/// be read is told and left out, unless none can.
fn read_all(folder: &Path) -> Result<(Vec<Point>, Vec<String>), WriteError> {
    let (mut points, mut remarks, mut failure) = (Vec::new(), Vec::new(), None);
    for path in runs(folder)? {
        let below = path.strip_prefix(folder).unwrap_or(&path).to_owned();
        match read(&path) {
            Ok(results) => {
                remarks.extend(results.remarks.iter().map(|remark| format!("{}: {remark}", below.display())));
                let metrics = Metrics::of(&results);
                points.push(Point::of(below, results, &metrics));
            }
            Err(error) => {
                remarks.push(format!("{} is left out: {error}", below.display()));
                failure.get_or_insert(error);
            }
        }
    }
    match failure {
        Some(error) if points.is_empty() => Err(error.into()),
        _ => Ok((points, remarks)),
    }
}

/// The cells of several runs, and what they differ in.
pub(super) struct Overview<'a> {
    pub(super) axes: Axes,
    /// By family, series and place.
    pub(super) cells: Vec<Cell<'a>>,
    /// Runs that were left out because they are not valid.
    pub(super) left_out: Vec<&'a Point>,
}

impl<'a> Overview<'a> {
    /// Sorts runs into cells.
    pub(super) fn of(points: &'a [Point]) -> Self {
        let any_valid = points.iter().any(|point| point.run.verdict.valid);
        let (shown, left_out): (Vec<&Point>, Vec<&Point>) =
            points.iter().partition(|point| point.run.verdict.valid || !any_valid);
        let axes = Axes::of(&shown.iter().map(|point| &point.run).collect::<Vec<_>>());
        let mut cells: Vec<Cell<'a>> = Vec::new();
        for point in shown {
            let (family, series, x) = axes.place(&point.run);
            let same = |cell: &&mut Cell<'_>| cell.family == family && cell.series == series && cell.x.cmp(&x).is_eq();
            match cells.iter_mut().find(same) {
                Some(cell) => cell.points.push(point),
                None => cells.push(Cell { family, series, x, points: vec![point] }),
            }
        }
        cells.sort_by(|a, b| {
            let names = a.family.cmp(&b.family).then_with(|| axes::rank(&a.series).cmp(&axes::rank(&b.series)));
            names.then_with(|| a.x.cmp(&b.x))
        });
        Self { axes, cells, left_out }
    }

    /// Why the figures cannot be trusted: when no run of all is valid.
    fn distrust(&self) -> Vec<String> {
        let shown = self.cells.iter().flat_map(|cell| &cell.points);
        let of = |point: &Point| -> Vec<String> {
            let name = point.folder.display();
            distrust(&point.run).iter().map(|reason| format!("{name}: {reason}")).collect()
        };
        shown.flat_map(|point| of(point)).collect()
    }
}

impl Cell<'_> {
    /// The mean of a measure over the seeds, and the half-width of its interval.
    pub(super) fn mean(&self, measure: &Measure) -> Option<(f64, Option<f64>)> {
        let of = |point: &&Point| Some(point.measures.iter().find(|(one, _)| one.kind == measure.kind)?.1);
        let values: Vec<f64> = self.points.iter().filter_map(of).collect();
        mean_and_half_width(&values)
    }
}

/// The mean and what its interval is of it, `412 ms ±3 %`.
pub(super) fn with_half(measure: &Measure, mean: f64, half: Option<f64>) -> String {
    let part = half.filter(|_| mean > 0.0).map(|half| format!(" ±{}", percent((half / mean * 100.0).ceil() / 100.0)));
    measure.show(mean) + &part.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::synthetic::Shape;
    use super::*;

    /// Two architectures at two sizes, three seeds each.
    fn sweep(folder: &Path) {
        for (nodes, topology) in [(10, "star-11"), (25, "star-26")] {
            for architecture in ["client-server", "super-node"] {
                for seed in 1..=3 {
                    let shape = Shape { nodes, topology, architecture, seed, requests: 60, ..Shape::default() };
                    shape.make().write(&folder.join(format!("{architecture}/{nodes}/{seed}")));
                }
            }
        }
    }

    #[test]
    fn runs_that_differ_in_their_seed_are_one_cell() {
        let folder = tempfile::tempdir().unwrap();
        sweep(folder.path());
        let written = combine(folder.path()).unwrap();
        assert_eq!(written.headline[0].1, "12");
        assert_eq!(written.headline[2], ("cells".to_owned(), "4".to_owned()));
        let cells = fs::read_to_string(folder.path().join("cells.csv")).unwrap();
        let completed: Vec<&str> = cells.lines().filter(|line| line.contains(",completed services,")).collect();
        let starts: Vec<String> =
            completed.iter().map(|line| line.split(',').take(5).collect::<Vec<_>>().join(",")).collect();
        let expected = [
            "star,client-server,10,nodes,3",
            "star,client-server,25,nodes,3",
            "star,super-node,10,nodes,3",
            "star,super-node,25,nodes,3",
        ];
        assert_eq!(starts, expected);
        assert!(folder.path().join("figures/completed.svg").is_file());
        let page = fs::read_to_string(&written.page).unwrap();
        assert!(page.contains("href=\"./client-server/10/1/index.html\""));
    }

    #[test]
    fn runs_that_cannot_be_trusted_are_named_and_left_out() {
        let folder = tempfile::tempdir().unwrap();
        sweep(folder.path());
        let bad = Shape { seed: 4, valid: false, requests: 60, ..Shape::default() };
        bad.make().write(&folder.path().join("super-node/10/4"));
        let written = combine(folder.path()).unwrap();
        assert!(written.distrust.is_empty());
        let page = fs::read_to_string(&written.page).unwrap();
        assert!(page.contains("1 run is not valid and left out of all figures") && page.contains("super-node/10/4"));
        let cells = fs::read_to_string(folder.path().join("cells.csv")).unwrap();
        assert!(!cells.contains(",nodes,4,"));
    }

    #[test]
    fn a_run_that_cannot_be_read_is_told_and_left_out() {
        let folder = tempfile::tempdir().unwrap();
        sweep(folder.path());
        fs::write(folder.path().join("super-node/10/1/events.jsonl"), "{}\n").unwrap();
        let written = combine(folder.path()).unwrap();
        assert_eq!((written.headline[0].1.as_str(), written.remarks.len()), ("11", 1));
        assert!(written.remarks[0].starts_with("super-node/10/1 is left out:"), "{:?}", written.remarks);
        for entry in runs(folder.path()).unwrap() {
            fs::write(entry.join("run.json"), "{}").unwrap();
        }
        assert!(matches!(combine(folder.path()), Err(WriteError::Read(_))));
    }

    #[test]
    fn when_no_run_can_be_trusted_all_are_shown_and_it_is_said() {
        let folder = tempfile::tempdir().unwrap();
        Shape { valid: false, ..Shape::default() }.make().write(&folder.path().join("only"));
        let written = combine(folder.path()).unwrap();
        assert_eq!(written.distrust.len(), 1);
        let page = fs::read_to_string(&written.page).unwrap();
        assert!(page.contains("These figures cannot be trusted") && page.contains("One run each"));
    }

    #[test]
    fn a_folder_without_runs_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        assert!(matches!(combine(folder.path()), Err(WriteError::NoRun { .. })));
    }
}
