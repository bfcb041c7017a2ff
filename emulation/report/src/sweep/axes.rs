//! The differences between several runs, and their places in a figure.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use roost_results::record::RunRecord;
use roost_topology::units::{Rate, parse_duration};

use super::{RunSummary, setting_name};
use crate::natural_order::NaturalName;
use crate::text_format::three;

/// Settings that runs usually state themselves: they make lines only if runs that state the same differ in
/// them.
const OWN: [&str; 7] = ["architecture", "transport", "topology", "nodes", "server", "caches", "super_nodes"];
/// The architecture of programs alone, whose lines their settings name.
const PROGRAMS: &str = "programs";
/// The words that a plan gives to its programs.
const ENVIRONMENT: &str = "environment.";
/// The architecture whose hubs are one server and its caches.
const CACHING: &str = "client-server-caching";
/// The position and name of a run without the setting.
const NOT_SET: &str = "not set";

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AxisPlace {
    pub(crate) place: f64,
    pub(crate) name: String,
}

impl AxisPlace {
    pub(super) fn cmp(&self, other: &Self) -> Ordering {
        self.place.total_cmp(&other.place).then_with(|| self.name.cmp(&other.name))
    }
}

/// The assignment of differences to parts of a figure.
#[derive(Clone, Debug, Default)]
pub(crate) struct Axes {
    pub(super) x_title: String,
    /// The text after a value of the axis in a sentence; it comes before a value that is a word.
    x_unit: String,
    /// The setting along the axis; `None` means the number of nodes.
    along: Option<String>,
    /// The settings that distinguish lines, beside the architecture.
    apart: Vec<String>,
    transports: bool,
    /// Architectures whose runs have different numbers of hubs.
    by_hubs: BTreeSet<String>,
    /// Positions of values that are no numbers.
    names: BTreeMap<String, f64>,
    /// Families with two topologies of one size, which size does not tell apart.
    mixed: BTreeSet<String>,
}

impl Axes {
    /// Lays these runs out: along the axis the number of nodes, if it differs, or else the first setting that
    /// does; other differences make lines.
    pub(super) fn from_points(points: &[&RunSummary]) -> Self {
        let runs: Vec<&RunRecord> = points.iter().map(|point| &point.run).collect();
        let differ = |value: &dyn Fn(&RunSummary) -> String| {
            points.iter().map(|point| value(point)).collect::<BTreeSet<_>>().len() > 1
        };
        let keys: BTreeSet<&String> = points.iter().flat_map(|point| point.decided.keys()).collect();
        let tells_apart = |key: &&String| match is_own(key) {
            true => !is_told(points, key),
            false => differ(&|point| setting(point, key).to_owned()),
        };
        let mut settings: Vec<String> = keys.into_iter().filter(tells_apart).cloned().collect();
        let by_size = differ(&|point| point.run.nodes.to_string()) || settings.is_empty();
        // Words for programs name lines: they have no order.
        let is_word = |key: &str| {
            key.starts_with(ENVIRONMENT) && points.iter().any(|point| number(setting(point, key)).is_none())
        };
        let along = settings.iter().position(|key| !by_size && !is_word(key)).map(|at| settings.remove(at));
        let values: BTreeSet<&str> = points.iter().filter_map(|point| Some(setting(point, along.as_ref()?))).collect();
        let units: BTreeSet<&str> = values.iter().filter_map(|value| Some(number(value)?.1)).collect();
        let words = values.iter().any(|value| number(value).is_none());
        let unit = if units.len() == 1 && !words { units.first().copied().unwrap_or_default() } else { "" };
        let mut ordered: Vec<&str> = values.iter().copied().filter(|_| words).collect();
        ordered.sort_by_cached_key(|value| NaturalName::new(value));
        let named = ordered.iter().enumerate().map(|(n, value)| ((*value).to_owned(), n as f64));
        let (x_title, x_unit) = match along.as_ref().map(|key| spoken(key)) {
            Some(name) if unit.is_empty() => (name.clone(), format!(" {name}")),
            Some(name) => (format!("{name}, {unit}"), format!(" {unit} {name}")),
            None => ("nodes".into(), " nodes".into()),
        };
        Self {
            x_title,
            x_unit,
            names: named.collect(),
            transports: differ(&|point| point.run.transport.clone()),
            mixed: mixed(&runs),
            by_hubs: by_hubs(&runs),
            along,
            apart: settings,
        }
    }

    /// A position in a sentence, after the name of the finding there.
    pub(super) fn at(&self, place: &str) -> String {
        if self.names.is_empty() { format!(" at {place}{}", self.x_unit) } else { format!(",{} {place}", self.x_unit) }
    }

    /// The family of its topology, the line and the position of a run.
    pub(super) fn place(&self, point: &RunSummary) -> (String, String, AxisPlace) {
        let run = &point.run;
        let mut series = match run.hubs.len() {
            count if !self.by_hubs.contains(&run.architecture) || count == 0 => run.architecture.clone(),
            2 if run.architecture == CACHING => format!("{CACHING}, 1 cache"),
            count if run.architecture == CACHING => format!("{CACHING}, {} caches", count - 1),
            1 => format!("1 {}", run.architecture),
            count => format!("{count} {}s", run.architecture),
        };
        if self.transports {
            series = format!("{series}, {}", run.transport);
        }
        for key in &self.apart {
            if let Some(value) = point.decided.get(key) {
                let said = format!("{} {}", spoken(key), value.replace(['[', ']', '"'], ""));
                series = if series == PROGRAMS { said } else { format!("{series}, {said}") };
            }
        }
        let family = Some(family(run)).filter(|family| !self.mixed.contains(family));
        (family.unwrap_or_else(|| run.topology.clone()), series, self.x(point))
    }

    fn x(&self, point: &RunSummary) -> AxisPlace {
        let Some(key) = &self.along else {
            return AxisPlace { place: f64::from(point.run.nodes), name: point.run.nodes.to_string() };
        };
        let value = setting(point, key);
        if let Some(place) = self.names.get(value) {
            return AxisPlace { place: *place, name: value.to_owned() };
        }
        let place = number(value).map_or(0.0, |(number, _)| number);
        AxisPlace { place, name: three(place) }
    }
}

/// The setting that combines all faults of a plan, if runs differ in more of them than a value.
const FAULTS: &str = "faults";

/// Combines the faults of runs into one setting, unless they differ only in one value.
pub(super) fn join_faults(points: &mut [RunSummary]) {
    let is_of_faults = |key: &str| key.strip_prefix(FAULTS).is_some_and(|rest| rest.starts_with('.'));
    let keys: BTreeSet<&String> = points.iter().flat_map(|point| point.decided.keys()).collect();
    let values = |key: &str| points.iter().map(|point| setting(point, key)).collect::<BTreeSet<_>>();
    let differ: Vec<BTreeSet<&str>> =
        keys.into_iter().filter(|key| is_of_faults(key)).map(|key| values(key)).filter(|all| all.len() > 1).collect();
    if differ.is_empty() || matches!(differ.as_slice(), [one] if !one.contains(NOT_SET)) {
        return;
    }
    for point in points {
        let said = faults(&point.decided);
        point.decided.retain(|key, _| !is_of_faults(key));
        point.decided.insert(FAULTS.to_owned(), said);
    }
}

/// The faults of a plan in words: `kill hub at 30s, start hub at 40s`.
fn faults(decided: &BTreeMap<String, String>) -> String {
    const VERBS: [&str; 8] = ["kill", "stop", "start", "freeze", "thaw", "down", "up", "change"];
    let value = |fault: usize, key: &str| decided.get(&format!("{FAULTS}.{fault}.{key}"));
    let said = |fault: usize| {
        let verb = VERBS.iter().find_map(|verb| Some((verb, value(fault, verb)?)));
        let (verb, object) = verb.map_or(("", ""), |(verb, object)| (verb, object.as_str()));
        let at = value(fault, "at").map_or("", String::as_str);
        format!("{verb} {object} at {at}")
    };
    let all: Vec<String> = (1..).take_while(|fault| value(*fault, "at").is_some()).map(said).collect();
    if all.is_empty() { "none".to_owned() } else { all.join(", ") }
}

fn is_own(key: &str) -> bool {
    OWN.contains(&key) || key.starts_with("topology.")
}

fn setting<'a>(point: &'a RunSummary, key: &str) -> &'a str {
    point.decided.get(key).map_or(NOT_SET, String::as_str)
}

/// True if a setting follows from the runs' own statements: equal statements imply an equal value. The
/// `server_delay` of a star of 11 does not follow from `star-11`; its number of nodes does.
fn is_told(points: &[&RunSummary], key: &str) -> bool {
    let mut values: BTreeMap<(&str, &str, &str, u32, usize), &str> = BTreeMap::new();
    points.iter().all(|point| {
        let run = &point.run;
        let says =
            (run.architecture.as_str(), run.transport.as_str(), run.topology.as_str(), run.nodes, run.hubs.len());
        let value = setting(point, key);
        *values.entry(says).or_insert(value) == value
    })
}

/// A setting for people: `topology.star.server_delay` is `server delay`, `faults.1.at` is `fault 1 at`.
fn spoken(key: &str) -> String {
    let key = key.strip_prefix(ENVIRONMENT).unwrap_or(key);
    if let Some(fault) = key.strip_prefix("faults.") {
        return format!("fault {}", fault.replace(['.', '_'], " "));
    }
    let of_topology = key.strip_prefix("topology.").and_then(|rest| rest.split_once('.'));
    of_topology.map_or_else(|| setting_name(key), |(_, last)| last.replace('_', " "))
}

/// The paper's order of architectures, so that the baseline comes first and keeps its colour.
pub(super) fn rank(series: &str) -> (usize, NaturalName) {
    const ORDER: [&str; 4] = ["client-server", "client-server-caching", "multicast", "super-node"];
    let architecture = series.split(',').next().unwrap_or_default();
    let architecture = architecture.trim_start_matches(|c: char| c.is_ascii_digit() || c == ' ');
    (
        ORDER.iter().position(|known| *known == architecture.trim_end_matches('s')).unwrap_or(ORDER.len()),
        NaturalName::new(series),
    )
}

/// The topology's name without its size: `star-11` and `star-26` are `star`.
pub(super) fn family(run: &RunRecord) -> String {
    let name = run.topology.trim_end_matches(|c: char| c.is_ascii_digit()).trim_end_matches(['-', '_', '.', ' ']);
    if name.is_empty() { run.topology.clone() } else { name.to_owned() }
}

/// The architectures that have runs with different numbers of hubs.
fn by_hubs(runs: &[&RunRecord]) -> BTreeSet<String> {
    let pairs: BTreeSet<(&String, usize)> = runs.iter().map(|run| (&run.architecture, run.hubs.len())).collect();
    let several = |name: &&String| pairs.iter().filter(|(other, _)| other == name).count() > 1;
    pairs.iter().map(|(name, _)| *name).filter(several).cloned().collect()
}

fn mixed(runs: &[&RunRecord]) -> BTreeSet<String> {
    let mut names: BTreeMap<(String, u32), &str> = BTreeMap::new();
    let mut mixed = BTreeSet::new();
    for run in runs {
        let first = *names.entry((family(run), run.nodes)).or_insert(&run.topology);
        if first != run.topology {
            mixed.insert(family(run));
        }
    }
    mixed
}

/// A setting's number and unit: durations in milliseconds, rates in Mbit/s, parts in percent.
pub(crate) fn number(text: &str) -> Option<(f64, &'static str)> {
    if let Some(percent) = text.strip_suffix('%') {
        return percent.trim().parse::<f64>().ok().filter(|percent| percent.is_finite()).map(|percent| (percent, "%"));
    }
    if let Ok(plain) = text.parse::<f64>() {
        return plain.is_finite().then_some((plain, ""));
    }
    if let Ok(duration) = parse_duration(text) {
        return Some((duration.as_secs_f64() * 1e3, "ms"));
    }
    let rate: Rate = text.parse().ok()?;
    (!rate.is_unlimited()).then(|| (rate.bps() as f64 / 1e6, "Mbit/s"))
}

#[cfg(test)]
mod tests {
    use roost_results::testing::SyntheticShape;

    use super::*;

    fn run(architecture: &'static str, nodes: u32, decided: &[(&str, &str)]) -> RunSummary {
        let mut results = SyntheticShape { architecture, nodes, ..SyntheticShape::default() }.make().results;
        results.plan = None;
        results.run.varied = decided.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        RunSummary::from_results("run".into(), &results)
    }

    fn axes(points: &[RunSummary]) -> Axes {
        Axes::from_points(&points.iter().collect::<Vec<_>>())
    }

    #[test]
    fn sizes_form_axis_settings_form_lines() {
        let runs = [run("client-server", 10, &[("queue", "50")]), run("super-node", 25, &[("queue", "100")])];
        let axes = axes(&runs);
        assert_eq!((axes.x_title.as_str(), axes.x_unit.as_str()), ("nodes", " nodes"));
        let (family, series, x) = axes.place(&runs[1]);
        assert_eq!((family.as_str(), series.as_str(), x.place), ("star", "super-node, queue 100", 25.0));
    }

    #[test]
    fn setting_forms_axis_for_equal_sizes() {
        let runs =
            ["50ms", "0.2s", "1s"].map(|delay| run("client-server", 10, &[("server-delay", delay), ("seed", "1")]));
        let axes_of = axes(&runs);
        assert_eq!((axes_of.x_title.as_str(), axes_of.x_unit.as_str()), ("server-delay, ms", " ms server-delay"));
        assert_eq!(runs.each_ref().map(|run| axes_of.place(run).2.place), [50.0, 200.0, 1000.0]);
        let runs = ["1Mbit", "unlimited"].map(|rate| run("client-server", 10, &[("rate", rate)]));
        let axes_of = axes(&runs);
        assert_eq!(runs.each_ref().map(|run| axes_of.place(run).2.name), ["1Mbit", "unlimited"]);
    }

    #[test]
    fn topology_delay_forms_axis() {
        let key = "topology.star.server_delay";
        let runs =
            ["50ms", "200ms"].map(|delay| run("client-server", 10, &[(key, delay), ("topology.star.nodes", "11")]));
        let axes = axes(&runs);
        assert_eq!(axes.x_title, "server delay, ms");
        assert_eq!(runs.each_ref().map(|run| axes.place(run).2.place), [50.0, 200.0]);
    }

    #[test]
    fn missing_setting_has_own_place() {
        let runs = [run("client-server", 10, &[("rate", "0")]), run("client-server", 10, &[])];
        let axes = axes(&runs);
        assert_eq!(runs.each_ref().map(|run| axes.place(run).2.name), ["0", "not set"]);
        assert_eq!(axes.at("not set"), ", rate not set");
    }

    #[test]
    fn faults_become_one_setting_in_words() {
        let fault = [("faults.1.at", "30s"), ("faults.1.kill", "hub"), ("faults.1.hub", "true")];
        let mut runs = [run("super-node", 10, &fault), run("super-node", 10, &[])];
        join_faults(&mut runs);
        let axes_of = axes(&runs);
        assert_eq!((axes_of.x_title.as_str(), axes_of.at("none").as_str()), ("faults", ", faults none"));
        assert_eq!(runs.each_ref().map(|run| axes_of.place(run).2.name), ["kill hub at 30s", "none"]);
        assert_eq!(axes_of.place(&runs[0]).1, axes_of.place(&runs[1]).1, "one line");
        // A fault at another time is a number along the axis.
        let mut runs = ["30s", "40s"].map(|at| run("super-node", 10, &[("faults.1.at", at), ("faults.1.kill", "hub")]));
        join_faults(&mut runs);
        let axes_of = axes(&runs);
        assert_eq!(
            (axes_of.x_title.as_str(), axes_of.at("30000").as_str()),
            ("fault 1 at, ms", " at 30000 ms fault 1 at")
        );
    }

    #[test]
    fn hub_location_forms_lines() {
        let runs = ["hub", "n1"].map(|host| run("super-node", 10, &[("super_nodes", host), ("queue", host)]));
        let axes = axes(&runs);
        let places = runs.each_ref().map(|run| axes.place(run));
        assert_eq!(
            places.each_ref().map(|place| place.1.as_str()),
            ["super-node, super nodes hub", "super-node, super nodes n1"]
        );
    }

    #[test]
    fn numbers_of_super_nodes_make_lines() {
        let hubs = |count: usize| {
            let mut one = run("super-node", 10, &[("super_nodes", &count.to_string())]);
            one.run.hubs = vec!["h".into(); count];
            one
        };
        let caches = |count: usize| {
            let mut one = run("client-server-caching", 10, &[("caches", &count.to_string())]);
            one.run.hubs = vec!["h".into(); count + 1];
            one
        };
        let runs = [run("client-server", 10, &[]), caches(1), caches(2), hubs(1), hubs(2)];
        let axes = axes(&runs);
        let names = runs.each_ref().map(|run| axes.place(run).1);
        let caching = ["client-server-caching, 1 cache", "client-server-caching, 2 caches"];
        assert_eq!(names, ["client-server", caching[0], caching[1], "1 super-node", "2 super-nodes"]);
        assert_eq!(names.each_ref().map(|name| rank(name).0), [0, 1, 1, 3, 3]);
    }

    #[test]
    fn equal_sized_topologies_form_separate_families() {
        let named = |name: &str| {
            let mut one = run("multicast", 10, &[]);
            one.run.topology = name.into();
            one
        };
        let runs = ["tree-31", "tree-32", "star-11"].map(named);
        let axes = axes(&runs);
        assert_eq!(runs.each_ref().map(|run| axes.place(run).0), ["tree-31", "tree-32", "star"]);
    }

    #[test]
    fn the_baseline_comes_first() {
        let mut series = ["super-node", "client-server, udp", "multicast", "other"];
        series.sort_by_key(|name| rank(name));
        assert_eq!(series, ["client-server, udp", "multicast", "super-node", "other"]);
    }
}
