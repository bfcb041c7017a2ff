//! Several runs side by side: their differences, and their means over seeds.

mod axes;
mod effects;
mod factors;
mod figures;
mod files;
mod find;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use roost_results::metrics::Metrics;
use roost_results::record::RunRecord;
use roost_results::{Results, read};
use roost_statistics::mean_and_half_width;

use self::axes::AxisPlace;
pub(super) use self::effects::FactorEffect;
pub(super) use self::factors::Factor;
use self::factors::{CellPlace, Layout};
pub use self::find::runs;
use super::comparability::{FactMap, NETWORK, decided, kind, platform_differences, unusable};
use super::figure::Figure;
use super::measure::{Measure, measures};
use super::page;
use super::text_format::percent;
use super::write::{WriteError, WrittenReport, put};

/// A run of several: its facts and its measures, without its records.
#[derive(Clone, Debug)]
pub(super) struct RunSummary {
    /// The path below the folder of all runs.
    pub(super) folder: PathBuf,
    pub(super) run: RunRecord,
    /// Choices about it besides the seed.
    pub(super) decided: FactMap,
    /// The facts that it shares with its repetitions.
    kind: FactMap,
    pub(super) measures: Vec<(Measure, f64)>,
}

impl RunSummary {
    fn from_results(folder: PathBuf, results: &Results) -> Self {
        let (run, plan) = (&results.run, results.plan.as_deref());
        Self {
            folder,
            decided: decided(run, plan),
            kind: kind(run, plan, results.topology.as_deref()),
            measures: measures(&Metrics::from_results(results)),
            run: run.clone(),
        }
    }

    /// The reasons to keep it out of a mean; empty if there are none.
    pub(super) fn unusable(&self) -> Vec<String> {
        unusable(&self.run)
    }
}

/// Runs that differ only in their seed.
#[derive(Clone, Debug)]
pub(super) struct SeedGroup<'a> {
    /// The topologies in the same figure, which differ only in size.
    pub(super) family: String,
    pub(super) panel: String,
    pub(super) series: String,
    pub(super) x: AxisPlace,
    /// At least one.
    pub(super) points: Vec<&'a RunSummary>,
}

/// Reads all runs under `folder` and writes one page about them, `index.html`, with figures across their
/// differences, and `runs.csv` and `cells.csv`. Runs with the same plan but for the seed are one cell; figures
/// show means with 95 % confidence intervals over the seeds. Runs that are not valid or were stopped early are
/// shown separately and are in no mean, unless there are no others; runs that cannot be read are named.
///
/// # Errors
/// Fails when there is no run, none can be read, or a file cannot be written.
pub fn combine(folder: &Path) -> Result<WrittenReport, WriteError> {
    let (points, remarks) = read_all(folder)?;
    let overview = Overview::from_points(&points);
    let mut files = vec![
        put(&folder.join("runs.csv"), &files::runs(&points))?,
        put(&folder.join("cells.csv"), &files::cells(&overview))?,
    ];
    if !overview.axes.factors().is_empty() {
        files.push(put(&folder.join("effects.csv"), &files::effects(&overview))?);
    }
    let (figures, effects) = (overview.figures(), overview.effect_figures());
    for figure in figures.iter().flat_map(|(_, figures)| figures).chain(&effects) {
        let path = folder.join("figures").join(format!("{}.svg", figure.name));
        files.push(put(&path, &figure.sheet.standing(&figure.title))?);
    }
    let shown = SweepFigures { families: figures, effects };
    let page = put(&folder.join("index.html"), &page::of_sweep(folder, &points, &overview, &shown, &remarks))?;
    files.push(page.clone());
    let headline = vec![
        ("runs".to_owned(), points.len().to_string()),
        ("left out".to_owned(), overview.left_out.len().to_string()),
        ("cells".to_owned(), overview.cells.len().to_string()),
    ];
    Ok(WrittenReport {
        page,
        headline,
        measures: BTreeMap::new(),
        distrust_reasons: overview.distrust_reasons(),
        files,
        remarks,
    })
}

/// The figures of a page about several runs.
pub(super) struct SweepFigures {
    pub(super) families: Vec<(String, Vec<Figure>)>,
    pub(super) effects: Vec<Figure>,
}

/// The summaries of all runs, and irregularities. A run that cannot be read is named and left out, unless all
/// are such.
fn read_all(folder: &Path) -> Result<(Vec<RunSummary>, Vec<String>), WriteError> {
    let (mut points, mut remarks, mut failure) = (Vec::new(), Vec::new(), None);
    for path in runs(folder)? {
        let below = path.strip_prefix(folder).unwrap_or(&path).to_owned();
        match read(&path) {
            Ok(results) => {
                remarks.extend(results.remarks.iter().map(|remark| format!("{}: {remark}", below.display())));
                points.push(RunSummary::from_results(below, &results));
            }
            Err(error) => {
                remarks.push(format!("{} is left out: {error}", below.display()));
                failure.get_or_insert(error);
            }
        }
    }
    match failure {
        Some(error) if points.is_empty() => Err(error.into()),
        _ => {
            axes::join_faults(&mut points);
            Ok((points, remarks))
        }
    }
}

/// The cells of several runs, and their differences.
pub(super) struct Overview<'a> {
    pub(super) axes: Layout,
    /// By family, series and position.
    pub(super) cells: Vec<SeedGroup<'a>>,
    pub(super) left_out: Vec<&'a RunSummary>,
    /// True if no run was usable, so that all are in the means.
    pub(super) is_untrusted: bool,
    /// Warnings about the means, one sentence each.
    pub(super) warnings: Vec<String>,
}

impl<'a> Overview<'a> {
    pub(super) fn from_points(points: &'a [RunSummary]) -> Self {
        let (usable, rest): (Vec<&RunSummary>, Vec<&RunSummary>) =
            points.iter().partition(|point| point.unusable().is_empty());
        let is_untrusted = usable.is_empty();
        let (shown, left_out) = if is_untrusted { (rest, usable) } else { (usable, rest) };
        let axes = Layout::from_points(&shown);
        let mut cells: Vec<SeedGroup<'a>> = Vec::new();
        let mut groups: BTreeMap<(&FactMap, Vec<usize>), usize> = BTreeMap::new();
        let ground = platform_differences(shown.iter().map(|point| &point.run));
        let ground = ground.map(|ground| format!("The runs do not stand on the same ground: {ground}."));
        let mut warnings: Vec<String> = ground.into_iter().collect();
        for point in shown {
            let key = (&point.kind, axes.order(point));
            match groups.get(&key) {
                Some(index) => cells[*index].points.push(point),
                None => {
                    groups.insert(key, cells.len());
                    let CellPlace { family, panel, series, x } = axes.place(point);
                    cells.push(SeedGroup { family, panel, series, x, points: vec![point] });
                }
            }
        }
        warnings.extend(name_apart(&mut cells));
        cells.sort_by(|a, b| {
            let factors = || axes.order(a.points[0]).cmp(&axes.order(b.points[0]));
            let names = a.family.cmp(&b.family).then_with(factors);
            let names = names.then_with(|| axes::rank(&a.series).cmp(&axes::rank(&b.series)));
            names.then_with(|| a.x.cmp(&b.x))
        });
        Self { axes, cells, left_out, is_untrusted, warnings }
    }

    /// The reasons to distrust the figures, if no run is usable.
    fn distrust_reasons(&self) -> Vec<String> {
        let shown = self.cells.iter().flat_map(|cell| &cell.points).filter(|_| self.is_untrusted);
        let of = |point: &&RunSummary| -> Vec<String> {
            let name = point.folder.display();
            point.unusable().iter().map(|reason| format!("{name}: {reason}")).collect()
        };
        shown.flat_map(of).collect()
    }
}

/// Numbers cells of different kinds that would share a position and a name, and describes their differences.
fn name_apart(cells: &mut [SeedGroup<'_>]) -> Vec<String> {
    let mut warnings = Vec::new();
    for index in 1..cells.len() {
        let (before, rest) = cells.split_at_mut(index);
        let cell = &mut rest[0];
        let first = cell.points[0];
        let mut alike = before.iter().filter(|other| {
            (&other.family, &other.panel, other.x.place.to_bits())
                == (&cell.family, &cell.panel, cell.x.place.to_bits())
                && other.points[0].run.architecture == first.run.architecture
                && (other.series == cell.series || other.series.starts_with(&format!("{} (", cell.series)))
        });
        let Some(other) = alike.next() else { continue };
        let number = alike.count() + 2;
        let kinds = [other.points[0].kind.clone(), first.kind.clone()];
        let differ = |key: &&String| kinds[0].get(*key) != kinds[1].get(*key);
        let keys: Vec<&str> = (kinds[0].keys().chain(kinds[1].keys()).filter(differ))
            .map(|key| if key == NETWORK { "the file of the network" } else { key.as_str() })
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect();
        let name = format!("{} ({number})", cell.series);
        warnings.push(format!(
            "{} and {name} on {} are kept apart: they differ in {}.",
            cell.series,
            first.run.topology,
            keys.join(", ")
        ));
        cell.series = name;
    }
    warnings
}

impl SeedGroup<'_> {
    /// The mean of a measure over the seeds, and the half-width of its interval. If one of the runs has too few
    /// requests, the mean is a guess without an interval.
    pub(super) fn mean(&self, measure: &Measure) -> Option<Mean> {
        let found: Vec<&(Measure, f64)> = self.found(measure).collect();
        let values: Vec<f64> = found.iter().map(|(_, value)| *value).collect();
        let few = found.iter().any(|(measure, _)| measure.few);
        let (mean, half) = mean_and_half_width(&values)?;
        Some(Mean {
            measure: Measure { few, ..measure.clone() },
            runs: values.len(),
            mean,
            half: half.filter(|_| !few),
        })
    }

    /// The values of a measure, one for each run that has it.
    fn values(&self, measure: &Measure) -> Vec<f64> {
        self.found(measure).map(|(_, value)| *value).collect()
    }

    fn found<'s>(&'s self, measure: &'s Measure) -> impl Iterator<Item = &'s (Measure, f64)> {
        self.points.iter().filter_map(|point| point.measures.iter().find(|(one, _)| one.kind == measure.kind))
    }

    /// The measures of all its runs, in the order of reports.
    pub(super) fn measures(&self) -> Vec<Measure> {
        union(self.points.iter().copied())
    }
}

/// The measures that any of the runs has; those of the first run come first.
pub(super) fn union<'a>(points: impl Iterator<Item = &'a RunSummary>) -> Vec<Measure> {
    let mut all: Vec<Measure> = Vec::new();
    for (measure, _) in points.flat_map(|point| &point.measures) {
        if all.iter().all(|one| one.kind != measure.kind) {
            all.push(measure.clone());
        }
    }
    all
}

/// The mean of a measure over the runs of a cell.
pub(super) struct Mean {
    /// The measure, marked if one of the runs has too few requests for it.
    pub(super) measure: Measure,
    /// Number of runs with a value.
    pub(super) runs: usize,
    pub(super) mean: f64,
    pub(super) half: Option<f64>,
}

impl Mean {
    /// The mean and the relative half-width of its interval, `412 ms ±3 %`.
    pub(super) fn mean_text(&self) -> String {
        with_half(&self.measure, self.mean, self.half)
    }
}

/// The mean and the relative half-width of its interval, `412 ms ±3 %`.
pub(super) fn with_half(measure: &Measure, mean: f64, half: Option<f64>) -> String {
    let part = half.filter(|_| mean > 0.0).map(|half| format!(" ±{}", percent((half / mean * 100.0).ceil() / 100.0)));
    measure.show(mean) + &part.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use roost_results::record::{MeasurementRecord, RoomStreamRecord};
    use roost_results::testing::SyntheticShape;

    use super::*;

    /// Two architectures at two sizes, three seeds each.
    fn sweep(folder: &Path) {
        for (nodes, topology) in [(10, "star-11"), (25, "star-26")] {
            for architecture in ["client-server", "super-node"] {
                for seed in 1..=3 {
                    let shape = SyntheticShape {
                        nodes,
                        topology,
                        architecture,
                        seed,
                        requests: 60,
                        ..SyntheticShape::default()
                    };
                    shape.make().write(&folder.join(format!("{architecture}/{nodes}/{seed}")));
                }
            }
        }
    }

    #[test]
    fn runs_differing_in_seed_form_group() {
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
    fn different_networks_never_share_group() {
        let folder = tempfile::tempdir().unwrap();
        for (seed, delay) in [(1, "50ms"), (2, "50ms"), (1, "300ms"), (2, "300ms")] {
            let mut run = SyntheticShape { seed, requests: 60, ..SyntheticShape::default() }.make();
            let network = format!("[topology.star]\nnodes = 11\nserver_delay = \"{delay}\"\n");
            run.results.plan = Some(format!("architecture = \"super-node\"\nseed = {seed}\n{network}"));
            run.write(&folder.path().join(format!("{delay}-{seed}")));
        }
        let written = combine(folder.path()).unwrap();
        assert_eq!(written.headline[2], ("cells".to_owned(), "2".to_owned()));
        let cells = fs::read_to_string(folder.path().join("cells.csv")).unwrap();
        assert!(cells.contains("star,super-node,300,\"server delay, ms\",2,completed services,"), "{cells}");
    }

    #[test]
    fn same_named_networks_kept_apart() {
        let folder = tempfile::tempdir().unwrap();
        for (seed, network) in [(1, "a"), (2, "a"), (1, "b")] {
            let at = folder.path().join(format!("{network}-{seed}"));
            SyntheticShape { seed, requests: 60, ..SyntheticShape::default() }.make().write(&at);
            fs::write(at.join("topology.toml"), network).unwrap();
        }
        let written = combine(folder.path()).unwrap();
        assert_eq!(written.headline[2].1, "2");
        let page = fs::read_to_string(&written.page).unwrap();
        assert!(page.contains("super-node and super-node (2) on star-11 are kept apart: they differ in the file"));
    }

    #[test]
    fn unusable_runs_excluded_from_mean() {
        let folder = tempfile::tempdir().unwrap();
        sweep(folder.path());
        let mean = |folder: &Path| -> String {
            combine(folder).unwrap();
            let cells = fs::read_to_string(folder.join("cells.csv")).unwrap();
            cells
                .lines()
                .find(|line| line.starts_with("star,super-node,10,nodes,3,completed services,"))
                .unwrap()
                .into()
        };
        let before = mean(folder.path());
        let bad = SyntheticShape { seed: 4, valid: false, requests: 600, ..SyntheticShape::default() };
        bad.make().write(&folder.path().join("super-node/10/4"));
        let mut stopped = SyntheticShape { seed: 5, requests: 6, ..SyntheticShape::default() }.make();
        stopped.results.run.interrupted = true;
        stopped.results.run.ran_s = 7.0;
        stopped.write(&folder.path().join("super-node/10/5"));
        assert_eq!(mean(folder.path()), before);
        let written = combine(folder.path()).unwrap();
        assert!(written.distrust_reasons.is_empty());
        assert_eq!(written.headline[1], ("left out".to_owned(), "2".to_owned()));
        let page = fs::read_to_string(&written.page).unwrap();
        assert!(page.contains("Left out of all means") && page.contains("It was stopped after 7 of 60 s."));
    }

    #[test]
    fn group_has_measures_of_all_runs() {
        let folder = tempfile::tempdir().unwrap();
        for seed in 1..=2 {
            let mut run = SyntheticShape { seed, requests: 60, ..SyntheticShape::default() }.make();
            if seed == 1 {
                run.results.requests.retain(|request| request.service != "image");
            }
            run.write(&folder.path().join(seed.to_string()));
        }
        combine(folder.path()).unwrap();
        let cells = fs::read_to_string(folder.path().join("cells.csv")).unwrap();
        let image = cells.lines().find(|line| line.contains(",completed image,")).unwrap();
        assert!(image.starts_with("star,super-node,10,nodes,1,"), "{image}");
    }

    #[test]
    fn rooms_of_runs_are_compared() {
        let folder = tempfile::tempdir().unwrap();
        let stream = |first_packet_ms| RoomStreamRecord { first_packet_ms, ..RoomStreamRecord::default() };
        for seed in 1..=2 {
            let mut run = SyntheticShape { seed, requests: 60, ..SyntheticShape::default() }.make();
            run.results.room_streams = vec![stream(Some(100.0 * seed as f64)), stream(None)];
            run.write(&folder.path().join(seed.to_string()));
        }
        let written = combine(folder.path()).unwrap();
        let read = |file: &str| fs::read_to_string(folder.path().join(file)).unwrap();
        let cells = read("cells.csv");
        assert!(cells.contains(",2,streams of rooms that came,0.5,"), "{cells}");
        assert!(cells.contains(",2,\"first packet in rooms, latest\",150,"), "{cells}");
        assert_eq!(read("runs.csv").matches("longest gap in rooms").count(), 0, "no gap was seen");
        assert_eq!(read("runs.csv").matches("packets missing in rooms").count(), 2);
        let page = fs::read_to_string(&written.page).unwrap();
        assert!(page.contains("streams of rooms that came"));
        assert!(folder.path().join("figures/rooms-came.svg").is_file());
    }

    /// Words for programs name the lines, and what the programs measured is compared.
    #[test]
    fn words_for_programs_name_lines() {
        let folder = tempfile::tempdir().unwrap();
        for (system, seed) in [("a", 1), ("a", 2), ("b", 1), ("b", 2)] {
            let shape = SyntheticShape { architecture: "programs", seed, requests: 0, ..SyntheticShape::default() };
            let mut run = shape.make();
            run.results.plan =
                Some(format!("architecture = \"programs\"\nseed = {seed}\n[environment]\nsystem = \"{system}\"\n"));
            run.results.measurements = (1..=40).map(|n| delay(f64::from(n) * seed as f64)).collect();
            run.write(&folder.path().join(format!("{system}-{seed}")));
        }
        let written = combine(folder.path()).unwrap();
        assert_eq!(written.headline[2].1, "2");
        let cells = fs::read_to_string(folder.path().join("cells.csv")).unwrap();
        assert!(cells.contains("star,system a,10,nodes,2,\"delay, median\",30.75,"), "{cells}");
        assert!(!cells.contains("completed services"), "{cells}");
        assert!(folder.path().join("figures/delay-median.svg").is_file());
        let page = fs::read_to_string(&written.page).unwrap();
        assert!(page.contains("Delay, median: about 30.8 ms for all"), "{page}");
    }

    fn delay(value: f64) -> MeasurementRecord {
        MeasurementRecord { measure: "delay".into(), value, unit: "ms".into(), ..MeasurementRecord::default() }
    }

    #[test]
    fn unreadable_run_reported_and_skipped() {
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
    fn all_untrusted_runs_are_shown() {
        let folder = tempfile::tempdir().unwrap();
        SyntheticShape { valid: false, ..SyntheticShape::default() }.make().write(&folder.path().join("only"));
        let written = combine(folder.path()).unwrap();
        assert_eq!(written.distrust_reasons.len(), 1);
        let page = fs::read_to_string(&written.page).unwrap();
        assert!(page.contains("These figures cannot be trusted") && page.contains("One run each"));
    }

    #[test]
    fn folder_without_runs_is_error() {
        let folder = tempfile::tempdir().unwrap();
        assert!(matches!(combine(folder.path()), Err(WriteError::NoRun { .. })));
    }
}
