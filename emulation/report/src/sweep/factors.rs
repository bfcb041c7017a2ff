//! The factors of a sweep, and their parts in figures: the axis, the lines, the panels.

use std::collections::{BTreeMap, BTreeSet};

use super::RunSummary;
use super::axes::{self, Axes, AxisPlace, family, number};
use super::setting::{path_of, setting_name, unit_of};
use crate::text_format::three;

/// The most lines of a panel that are told apart well.
const MAX_LINES: usize = 7;
/// An axis whose values span more than this factor is logarithmic.
const LOGARITHMIC: f64 = 20.0;
const ARCHITECTURE: &str = "architecture";
const TOPOLOGY: &str = "topology";
const NODES: &str = "nodes";
const SEED: &str = "seed";

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Level {
    value: String,
    pub(crate) name: String,
    number: Option<f64>,
}

#[derive(Clone, Debug)]
pub(crate) struct Factor {
    /// The varied key, which no other factor has; two may have one title.
    pub(crate) key: String,
    pub(crate) title: String,
    unit: &'static str,
    /// In ascending order, or as words are best read.
    pub(crate) levels: Vec<Level>,
}

impl Factor {
    /// A varied key; its path in the plans tells more than the key.
    fn varied(key: &str, values: &BTreeSet<&str>, points: &[&RunSummary]) -> Self {
        let path = path_of(points, key);
        let factor = Self::new(key, values);
        let unit = if factor.unit.is_empty() && factor.is_numeric() { unit_of(points, path) } else { factor.unit };
        Self { title: setting_name(path), unit, ..factor }
    }

    fn new(key: &str, values: &BTreeSet<&str>) -> Self {
        let numbers: Option<Vec<(f64, &'static str)>> = values.iter().map(|value| number(value)).collect();
        let units: BTreeSet<&str> = numbers.iter().flatten().map(|(_, unit)| *unit).collect();
        let numbers = numbers.filter(|_| units.len() == 1);
        let unit = numbers.as_ref().map_or("", |numbers| numbers[0].1);
        let level = |(index, value): (usize, &&str)| {
            let number = numbers.as_ref().map(|numbers| numbers[index].0);
            Level { value: (*value).to_owned(), name: number.map_or_else(|| (*value).to_owned(), three), number }
        };
        let mut levels: Vec<Level> = values.iter().enumerate().map(level).collect();
        levels.sort_by(|a, b| match (a.number, b.number) {
            (Some(a), Some(b)) => a.total_cmp(&b),
            _ => (a.value != "none", axes::rank(&a.value)).cmp(&(b.value != "none", axes::rank(&b.value))),
        });
        Self { key: key.to_owned(), title: setting_name(key), unit, levels }
    }

    fn is_numeric(&self) -> bool {
        self.levels.iter().all(|level| level.number.is_some())
    }

    fn is_logarithmic(&self) -> bool {
        let numbers = || self.levels.iter().filter_map(|level| level.number);
        let (low, high) = (numbers().fold(f64::INFINITY, f64::min), numbers().fold(0.0, f64::max));
        self.is_numeric() && low > 0.0 && high / low > LOGARITHMIC
    }

    /// The name of a level where it stands alone: `delay 5 ms`, `client-server`.
    pub(crate) fn spoken(&self, level: &Level) -> String {
        let speaks_for_itself = self.key == ARCHITECTURE || self.key == TOPOLOGY || level.value.contains(' ');
        match () {
            () if level.value == "none" => format!("no {}", self.title),
            () if speaks_for_itself => level.name.clone(),
            () if self.unit.is_empty() => format!("{} {}", self.title, level.name),
            () => format!("{} {} {}", self.title, level.name, self.unit),
        }
    }

    /// The value of a level, with its unit.
    pub(crate) fn value_text(&self, level: &Level) -> String {
        if self.unit.is_empty() { level.name.clone() } else { format!("{} {}", level.name, self.unit) }
    }

    pub(crate) fn level<'a>(&'a self, point: &RunSummary) -> Option<&'a Level> {
        let value = value_of(point, &self.key)?;
        self.levels.iter().find(|level| level.value == value)
    }

    /// The number of the level that a run has.
    pub(super) fn index(&self, point: &RunSummary) -> Option<usize> {
        let value = value_of(point, &self.key)?;
        self.levels.iter().position(|level| level.value == value)
    }

    fn place(&self, point: &RunSummary) -> AxisPlace {
        let level = self.level(point);
        let index = self.index(point).unwrap_or(0) as f64;
        let number = level.and_then(|level| level.number).filter(|_| self.is_numeric());
        let place = number.map_or(index, |number| if self.is_logarithmic() { number.log10() } else { number });
        AxisPlace { place, name: level.map(|level| level.name.clone()).unwrap_or_default() }
    }
}

/// The value of a factor in a run; the size of a network is its number of nodes.
fn value_of(point: &RunSummary, key: &str) -> Option<String> {
    if key == NODES && !point.run.varied.contains_key(NODES) {
        return Some(point.run.nodes.to_string());
    }
    point.run.varied.get(key).cloned()
}

/// The factors of runs, in the parts of a figure.
#[derive(Clone, Debug)]
pub(crate) struct FactorAxes {
    /// All, in the order of the tables.
    pub(crate) factors: Vec<Factor>,
    x: Option<Factor>,
    line: Option<Factor>,
    panels: Vec<Factor>,
    /// True if networks of several families have sections of their own.
    by_family: bool,
}

impl FactorAxes {
    /// The factors of a sweep's runs; `None` if these are not the runs of one sweep.
    fn from_points(points: &[&RunSummary]) -> Option<Self> {
        let keys: BTreeSet<&String> = points.first()?.run.varied.keys().collect();
        if points.iter().any(|point| point.run.varied.keys().collect::<BTreeSet<_>>() != keys) {
            return None;
        }
        let mut factors = Vec::new();
        let mut by_family = false;
        for key in keys.into_iter().filter(|key| *key != SEED) {
            let values: BTreeSet<&str> =
                points.iter().filter_map(|point| Some(point.run.varied.get(key)?.as_str())).collect();
            let factor = if key == TOPOLOGY && has_sizes(points) {
                by_family = points.iter().map(|point| family(&point.run)).collect::<BTreeSet<_>>().len() > 1;
                let sizes: BTreeSet<String> = points.iter().map(|point| point.run.nodes.to_string()).collect();
                Factor::new(NODES, &sizes.iter().map(String::as_str).collect())
            } else {
                Factor::varied(key, &values, points)
            };
            if factor.levels.len() > 1 {
                factors.push(factor);
            }
        }
        (!factors.is_empty()).then(|| Self::laid_out(factors, by_family))
    }

    /// The numeric factor with the most values is the axis; the architecture, or else the factor with the fewest values,
    /// makes lines; others make panels.
    fn laid_out(factors: Vec<Factor>, by_family: bool) -> Self {
        let mut rest = factors.clone();
        let most = |rest: &[Factor], is_fit: &dyn Fn(&Factor) -> bool| {
            let fit = rest.iter().enumerate().filter(|(_, factor)| is_fit(factor));
            fit.min_by_key(|(_, factor)| usize::MAX - factor.levels.len()).map(|(index, _)| index)
        };
        let numeric = most(&rest, &Factor::is_numeric);
        let words = |factor: &Factor| factor.key != ARCHITECTURE;
        let x = numeric.or_else(|| most(&rest, &words)).map(|index| rest.remove(index));
        rest.sort_by_key(|factor| (factor.key != ARCHITECTURE, factor.levels.len() > MAX_LINES, factor.levels.len()));
        let line = (!rest.is_empty()).then(|| rest.remove(0));
        Self { factors, x, line, panels: rest, by_family }
    }
}

/// True if the size of a network tells it apart from others of its family.
fn has_sizes(points: &[&RunSummary]) -> bool {
    let mut names: BTreeMap<(String, u32), &str> = BTreeMap::new();
    points.iter().all(|point| {
        let name = point.run.varied.get(TOPOLOGY).map_or("", String::as_str);
        *names.entry((family(&point.run), point.run.nodes)).or_insert(name) == name
    })
}

/// The place of a cell on a page.
#[derive(Clone, Debug)]
pub(crate) struct CellPlace {
    pub(crate) family: String,
    pub(crate) panel: String,
    pub(crate) series: String,
    pub(crate) x: AxisPlace,
}

/// The rule by which runs find their places in figures.
#[derive(Clone, Debug)]
pub(crate) enum Layout {
    Factors(FactorAxes),
    Differences(Axes),
}

impl Layout {
    pub(super) fn from_points(points: &[&RunSummary]) -> Self {
        FactorAxes::from_points(points).map_or_else(|| Self::Differences(Axes::from_points(points)), Self::Factors)
    }

    /// The factors of a sweep; of other runs there are none.
    pub(crate) fn factors(&self) -> &[Factor] {
        match self {
            Self::Factors(axes) => &axes.factors,
            Self::Differences(_) => &[],
        }
    }

    pub(crate) fn x_title(&self) -> String {
        match self {
            Self::Differences(axes) => axes.x_title.clone(),
            Self::Factors(FactorAxes { x: Some(x), .. }) => {
                let unit = if x.unit.is_empty() { String::new() } else { format!(", {}", x.unit) };
                let scale = if x.is_logarithmic() { " (logarithmic)" } else { "" };
                format!("{}{unit}{scale}", x.title)
            }
            Self::Factors(_) => String::new(),
        }
    }

    /// True if a line leads from one place of the axis to the next: words have no way between them.
    pub(super) fn is_continuous(&self) -> bool {
        match self {
            Self::Differences(_) => true,
            Self::Factors(axes) => axes.x.as_ref().is_some_and(Factor::is_numeric),
        }
    }

    /// A position in a sentence, after the name of the finding there.
    pub(super) fn at(&self, place: &str) -> String {
        match self {
            Self::Differences(axes) => axes.at(place),
            Self::Factors(FactorAxes { x: Some(x), .. }) => {
                let level = x.levels.iter().find(|level| level.name == place);
                level.map_or_else(String::new, |level| match x.is_numeric() {
                    true => format!(" at {}", x.spoken(level)),
                    false => format!(", {}", x.spoken(level)),
                })
            }
            Self::Factors(_) => String::new(),
        }
    }

    pub(super) fn place(&self, point: &RunSummary) -> CellPlace {
        let axes = match self {
            Self::Differences(axes) => {
                let (family, series, x) = axes.place(point);
                return CellPlace { family, panel: String::new(), series, x };
            }
            Self::Factors(axes) => axes,
        };
        let spoken = |factor: &Factor| factor.level(point).map(|level| factor.spoken(level));
        let panel: Vec<String> = axes.panels.iter().filter_map(spoken).collect();
        let series = axes.line.as_ref().and_then(spoken);
        CellPlace {
            family: if axes.by_family { family(&point.run) } else { String::new() },
            panel: panel.join(", "),
            series: series.unwrap_or_else(|| point.run.architecture.clone()),
            x: axes.x.as_ref().map_or_else(|| AxisPlace { place: 0.0, name: String::new() }, |x| x.place(point)),
        }
    }

    /// The order of panels and of lines: by the levels of their factors.
    pub(super) fn order(&self, point: &RunSummary) -> Vec<usize> {
        let Self::Factors(axes) = self else { return Vec::new() };
        let index = |factor: &Factor| factor.index(point).unwrap_or(0);
        axes.panels.iter().chain(&axes.line).map(index).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use roost_results::testing::SyntheticShape;

    use super::*;

    fn run(varied: &[(&str, &str)]) -> RunSummary {
        let mut results = SyntheticShape { requests: 20, ..SyntheticShape::default() }.make().results;
        results.run.varied = varied.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        RunSummary::from_results(PathBuf::from("run"), &results)
    }

    fn layout(points: &[RunSummary]) -> Layout {
        Layout::from_points(&points.iter().collect::<Vec<_>>())
    }

    #[test]
    fn numeric_factor_forms_axis() {
        let mut runs = Vec::new();
        for delay in ["5ms", "50ms", "0.5s"] {
            for (architecture, faults) in [("super-node", "none"), ("client-server", "kill hub at 50%")] {
                runs.push(run(&[("delay", delay), ("architecture", architecture), ("faults", faults), ("seed", "1")]));
            }
        }
        let layout = layout(&runs);
        assert_eq!(layout.x_title(), "delay, ms (logarithmic)");
        let place = layout.place(&runs[5]);
        assert_eq!((place.series.as_str(), place.panel.as_str()), ("client-server", "kill hub at 50%"));
        assert!((place.x.place - 500_f64.log10()).abs() < 1e-9 && place.x.name == "500");
        assert_eq!(layout.place(&runs[0]).panel, "no faults");
        assert_eq!(layout.at("50"), " at delay 50 ms");
        assert!(layout.is_continuous());
    }

    fn with_queue(limit: &str, queue: &str) -> RunSummary {
        let mut results = SyntheticShape { requests: 20, ..SyntheticShape::default() }.make().results;
        results.run.varied = [("limit".to_owned(), limit.to_owned())].into();
        let other = "[links.camp]\nqueue = { limit = 7 }\n";
        results.plan = Some(format!("[links.backhaul]\nqueue = {{ limit = {limit}{queue} }}\n{other}"));
        RunSummary::from_results(PathBuf::from("run"), &results)
    }

    #[test]
    fn factor_has_name_from_plan() {
        let runs = ["5", "20", "200"].map(|limit| with_queue(limit, ""));
        let named = layout(&runs);
        assert_eq!(named.x_title(), "backhaul queue limit, packets (logarithmic)");
        assert_eq!(named.at("20"), " at backhaul queue limit 20 packets");
        let runs = ["5000", "7000"].map(|limit| with_queue(limit, ", in = 'bytes'"));
        assert_eq!(layout(&runs).x_title(), "backhaul queue limit, bytes");
    }

    #[test]
    fn words_with_numbers_are_ordered() {
        let runs = ["1.5s late", "none", "200ms late", "30ms late"].map(|faults| run(&[("faults", faults)]));
        let names: Vec<String> = layout(&runs).factors()[0].levels.iter().map(|level| level.name.clone()).collect();
        assert_eq!(names, ["none", "30ms late", "200ms late", "1.5s late"]);
    }

    #[test]
    fn words_form_axis_without_line() {
        let runs = [("super-node", "none"), ("client-server", "kill hub at 50%"), ("super-node", "kill hub at 50%")]
            .map(|(architecture, faults)| run(&[("architecture", architecture), ("faults", faults)]));
        let layout = layout(&runs);
        assert!(!layout.is_continuous());
        assert_eq!((layout.x_title().as_str(), layout.at("none").as_str()), ("faults", ", no faults"));
        let places = runs.each_ref().map(|run| layout.place(run));
        assert_eq!(
            places.each_ref().map(|place| (place.series.as_str(), place.x.place)),
            [("super-node", 0.0), ("client-server", 1.0), ("super-node", 1.0)]
        );
    }

    #[test]
    fn other_runs_differ_by_settings() {
        assert!(matches!(layout(&[run(&[("rate", "1")]), run(&[])]), Layout::Differences(_)));
        assert!(matches!(layout(&[run(&[("seed", "1")]), run(&[("seed", "2")])]), Layout::Differences(_)));
    }
}
