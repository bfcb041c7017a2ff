//! Several runs side by side: their differences, and their means over seeds.

mod axes;
mod captions;
mod effects;
mod factors;
mod figures;
mod files;
mod find;
mod seed_group;
mod setting;
mod titles;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use roost_results::metrics::Metrics;
use roost_results::record::RunRecord;
use roost_results::{Results, read};

pub(super) use self::axes::number;
pub(super) use self::effects::FactorEffect;
use self::factors::{CellPlace, Layout};
pub(super) use self::factors::{Factor, Level};
pub use self::find::runs;
pub(super) use self::seed_group::{Mean, SeedGroup, union, with_half};
pub(super) use self::setting::setting_name;
use super::comparability::{FactMap, NETWORK, decided, kind, platform_differences, unusable};
use super::figure::{self, Figure};
use super::measure::{Measure, measures};
use super::natural_order::NaturalName;
use super::page;
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

/// Reads all runs under `folder` and writes one page about them, `index.html`, with figures across their
/// differences, and `runs.csv` and `cells.csv`. Runs with the same plan but for the seed are one cell; figures
/// show means with 95 % confidence intervals over the seeds. Runs that are not valid or were stopped early are
/// shown separately and are in no mean, unless there are no others; runs that cannot be read are named.
///
/// # Errors
/// Fails when there is no run, none can be read, or a file cannot be written.
pub fn combine(folder: &Path) -> Result<WrittenReport, WriteError> {
    let (points, origin, remarks) = read_all(folder)?;
    let overview = Overview::from_points(&points);
    let mut files = vec![
        put(&folder.join("runs.csv"), &files::runs(&points))?,
        put(&folder.join("cells.csv"), &files::cells(&overview))?,
    ];
    if !overview.axes.factors().is_empty() {
        files.push(put(&folder.join("effects.csv"), &files::effects(&overview))?);
    }
    let (figures, effects) = (overview.figures(), overview.effect_figures());
    for figure in figures.iter().flat_map(|(_, figures)| figures).chain(&effects).chain(&origin.networks) {
        let path = folder.join("figures").join(format!("{}.svg", figure.name));
        files.push(put(&path, &figure.sheet.standing(&figure.title))?);
    }
    let shown = SweepFigures { families: figures, effects, origin };
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
    pub(super) origin: SweepOrigin,
}

/// The networks that were run, each drawn once, and the plan of the first run.
#[derive(Default)]
pub(super) struct SweepOrigin {
    pub(super) networks: Vec<Figure>,
    /// The plan of the first run, and its folder.
    pub(super) plan: Option<(PathBuf, String)>,
    topologies: BTreeSet<String>,
}

/// The most networks that are drawn.
const MAX_NETWORKS: usize = 4;

impl SweepOrigin {
    fn add(&mut self, folder: &Path, results: &Results) {
        if self.plan.is_none() {
            self.plan = results.plan.clone().map(|plan| (folder.to_owned(), plan));
        }
        if self.networks.len() < MAX_NETWORKS && self.topologies.insert(results.run.topology.clone()) {
            let number = self.networks.len() + 1;
            let drawn = figure::of_network(results).into_iter().next();
            let name = format!("network-{number}");
            let caption = format!(
                "As the first run has it, before any fault. Names and values show in full in figures/{name}.svg."
            );
            self.networks.extend(drawn.map(|network| Figure { name, caption, ..network }));
        }
    }
}

/// The summaries of all runs, their origin, and irregularities. A run that cannot be read is named and left out, unless all
/// are such.
fn read_all(folder: &Path) -> Result<(Vec<RunSummary>, SweepOrigin, Vec<String>), WriteError> {
    let (mut points, mut remarks, mut failure) = (Vec::new(), Vec::new(), None);
    let mut origin = SweepOrigin::default();
    for path in runs(folder)? {
        let below = path.strip_prefix(folder).unwrap_or(&path).to_owned();
        match read(&path) {
            Ok(results) => {
                remarks.extend(results.remarks.iter().map(|remark| format!("{}: {remark}", below.display())));
                origin.add(&below, &results);
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
            Ok((points, origin, remarks))
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
        let families: BTreeMap<String, NaturalName> =
            cells.iter().map(|cell| (cell.family.clone(), NaturalName::new(&cell.family))).collect();
        cells.sort_by(|a, b| {
            let factors = || axes.order(a.points[0]).cmp(&axes.order(b.points[0]));
            let names = families[&a.family].cmp(&families[&b.family]).then_with(factors);
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

#[cfg(test)]
mod tests;
