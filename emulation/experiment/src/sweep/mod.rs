//! Sweeps: runs of a plan with other values, and their names; and plans with values from the command line.

mod axis;
mod key;
mod label;
mod lines;
mod mistakes;
mod vary;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use toml::{Table, Value};

use self::axis::{Axis, AxisPoint, SEEDS};
use self::key::set;
use self::label::{folder_name, plain};
use self::lines::{key_lines, line_of};
use super::plan::{PlanError, PlanErrors};

pub use self::key::PlanKey;
pub use self::mistakes::SweepMistakes;
pub use self::vary::parse_variation;

/// The most runs of a sweep: a page of more cannot be read, and its folder is slow to list.
const MAX_CELLS: usize = 10_000;
/// The longest name of a run's folder; file systems allow 255 bytes.
const MAX_NAME: usize = 160;
const SWEEP: &str = "sweep";

#[derive(Clone, Debug)]
pub struct Sweep {
    pub runs: Vec<SweepRun>,
    /// The names of the factors, the first varying slowest.
    pub factors: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct SweepRun {
    /// The name of its folder, made from the varied values.
    pub name: String,
    /// The factors, and their values in this run.
    pub varied: BTreeMap<String, String>,
    pub text: String,
    /// The keys that the sweep sets, and the line of each value in the plan; 0 if it has none there.
    pub(super) keys: Vec<(PlanKey, usize)>,
}

/// Values that the command line adds to a plan's `[sweep]`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SweepExtras {
    /// Keys and their values, each in place of the plan's own.
    pub vary: Vec<(PlanKey, Vec<Value>)>,
    /// The number of seeds from the plan's on.
    pub seeds: Option<u32>,
}

/// Replaces some values of a plan. A key may be dotted: `topology.star.nodes`.
///
/// # Errors
/// Fails when the plan is no TOML, or a key leads into something that is no table.
pub fn with_values(text: &str, file: &Path, values: &[(String, Value)]) -> Result<String, PlanError> {
    let mut table = read(text, file)?;
    for (key, value) in values {
        let key = PlanKey::parse(key);
        let changed = key.and_then(|key| set(&mut table, &key, value.clone()));
        changed.map_err(|message| PlanError::new(file, 0, message))?;
    }
    write(&table, file)
}

/// The runs of a sweep: every combination of the values in the plan's `[sweep]` table; the last key varies
/// fastest.
///
/// # Errors
/// All mistakes in the table, each with its line.
pub fn read_sweep(text: &str, file: &Path, extras: &SweepExtras) -> Result<Sweep, PlanError> {
    let mut plan = read(text, file)?;
    let lines = key_lines(text);
    let line = |origin: &[String]| line_of(&lines, &[&[SWEEP.to_owned()], origin].concat()).unwrap_or(0);
    let table = sweep_table(&mut plan, extras).map_err(|text| PlanError::new(file, 0, text))?;
    let first = plan.get("seed").and_then(Value::as_integer).and_then(|seed| u64::try_from(seed).ok()).unwrap_or(1);
    let axes = axis::axes(table, first).map_err(|mistakes| {
        let mut wrong = PlanErrors::default();
        for mistake in mistakes {
            wrong.record_error(Err(PlanError::new(file, line(&mistake.at), mistake.text)));
        }
        wrong.joined().unwrap_or_else(|| PlanError::new(file, 0, "its [sweep] table cannot be read"))
    })?;
    let count = axes.iter().try_fold(1_usize, |product, axis| product.checked_mul(axis.points.len()));
    let count = count.filter(|count| *count <= MAX_CELLS).ok_or_else(|| {
        PlanError::new(file, line(&[]), format!("its [sweep] makes more than {MAX_CELLS} runs: vary fewer values"))
    })?;
    let (mut runs, mut names) = (Vec::with_capacity(count), BTreeSet::new());
    for number in 0..count {
        let mut run = run_of(&plan, &points(&axes, number), file, &line)?;
        run.name = distinct_name(run.name, number + 1, &mut names);
        runs.push(run);
    }
    Ok(Sweep { runs, factors: axes.into_iter().map(|axis| axis.name).collect() })
}

/// The name, shorter or with a number if it is too long or taken.
fn distinct_name(mut name: String, number: usize, names: &mut BTreeSet<String>) -> String {
    if name.len() <= MAX_NAME && names.insert(name.clone()) {
        return name;
    }
    name.truncate(MAX_NAME);
    let mut numbered = (number..).map(|number| format!("{name}_{number}"));
    numbered.find(|one| names.insert(one.clone())).unwrap_or(name)
}

/// Removes the table `[sweep]` from a plan, and adds what the command line varies.
fn sweep_table(plan: &mut Table, extras: &SweepExtras) -> Result<Table, String> {
    let mut table = match plan.remove(SWEEP) {
        Some(Value::Table(table)) => table,
        Some(_) => return Err("`sweep` is a table: write [sweep]".to_owned()),
        None if extras.vary.is_empty() && extras.seeds.is_none() => {
            let remedy = "name there what is varied, as in seed = [1, 2, 3], or with --vary seed=1,2,3";
            return Err(format!("has no [sweep] table: {remedy}"));
        }
        None => Table::new(),
    };
    for (key, values) in &extras.vary {
        if key.is("seed") {
            table.remove(SEEDS);
        }
        set(&mut table, key, Value::Array(values.clone()))?;
    }
    if let Some(seeds) = extras.seeds {
        table.remove("seed");
        table.insert(SEEDS.to_owned(), Value::Integer(seeds.into()));
    }
    Ok(table)
}

struct RunPoint<'a> {
    axis: &'a Axis,
    point: &'a AxisPoint,
}

/// The points of the run of this number: the last factor varies fastest.
fn points(axes: &[Axis], number: usize) -> Vec<RunPoint<'_>> {
    let mut rest = number;
    let mut points = Vec::with_capacity(axes.len());
    for axis in axes.iter().rev() {
        points.push(RunPoint { axis, point: &axis.points[rest % axis.points.len()] });
        rest /= axis.points.len();
    }
    points.reverse();
    points
}

fn run_of(
    plan: &Table,
    points: &[RunPoint<'_>],
    file: &Path,
    line: &impl Fn(&[String]) -> usize,
) -> Result<SweepRun, PlanError> {
    let mut plan = plan.clone();
    let mut values: Vec<_> = points.iter().flat_map(|one| &one.point.values).collect();
    // A table as a whole comes before keys of it.
    values.sort_by_key(|value| value.key.0.len());
    let mut keys = Vec::with_capacity(values.len());
    for value in values {
        let at = line(&value.origin);
        set(&mut plan, &value.key, value.value.clone()).map_err(|message| PlanError::new(file, at, message))?;
        keys.push((value.key.clone(), at));
    }
    let name = folder_name(&points.iter().map(|one| plain(&one.point.folder)).collect::<Vec<_>>().join("_"));
    let varied = points.iter().map(|one| (one.axis.name.clone(), one.point.label.clone())).collect();
    Ok(SweepRun { name, varied, text: write(&plan, file)?, keys })
}

fn read(text: &str, file: &Path) -> Result<Table, PlanError> {
    let wrong = |error: toml::de::Error| {
        let before = error.span().map_or("", |span| &text[..span.start.min(text.len())]);
        PlanError::new(file, 1 + before.matches('\n').count(), error.message())
    };
    toml::from_str(text).map_err(wrong)
}

fn write(table: &Table, file: &Path) -> Result<String, PlanError> {
    toml::to_string(table).map_err(|error| PlanError::new(file, 0, error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Prepared;
    use crate::plan::FaultKind;

    const PLAN: &str = "architecture = 'super-node'\nduration = '60s'\n[topology.star]\nnodes = 11\n";

    fn sweep(text: &str) -> Result<Vec<SweepRun>, String> {
        varied(text, &SweepExtras::default()).map(|sweep| sweep.runs)
    }

    fn varied(text: &str, extras: &SweepExtras) -> Result<Sweep, String> {
        read_sweep(&format!("{PLAN}{text}"), Path::new("p.toml"), extras).map_err(|error| error.to_string())
    }

    fn names(runs: &[SweepRun]) -> Vec<&str> {
        runs.iter().map(|run| run.name.as_str()).collect()
    }

    #[test]
    fn failing_hub_is_one_short_sweep() {
        let text = "[sweep]\narchitecture = ['client-server', 'super-node']\n\
                    faults = [[], [{ at = '50%', kill = 'hub' }]]\nseeds = 2\n";
        let runs = sweep(text).unwrap();
        assert_eq!(runs.len(), 8);
        assert_eq!(runs[2].name, "client-server_faults-kill-hub-at-50-_seed-1");
        assert_eq!((runs[0].varied["faults"].as_str(), runs[3].varied["faults"].as_str()), ("none", "kill hub at 50%"));
        for (index, killed) in [(0, None), (3, Some("server")), (7, Some("node1"))] {
            let prepared = Prepared::from_text(&runs[index].text, Path::new("p.toml")).unwrap();
            let host = prepared.plan.faults.first().map(|fault| match &fault.kind {
                FaultKind::Daemon(daemon, _) => daemon.host.name.clone(),
                FaultKind::Net { .. } => String::new(),
            });
            assert_eq!(host.as_deref(), killed, "{}", runs[index].name);
        }
    }

    #[test]
    fn cases_change_keys_together() {
        let text = "[sweep]\nseed = [1, 2]\n\
                    [[sweep.cases]]\nname = 'near'\narchitecture = 'client-server'\ntopology.star.delay = '5ms'\n\
                    [[sweep.cases]]\nsuper_nodes = ['node1', 'node2']\ntopology.star.delay = '90ms'\n";
        let runs = sweep(text).unwrap();
        assert_eq!(names(&runs)[..2], ["near_seed-1", "near_seed-2"]);
        assert_eq!((runs.len(), runs[2].varied["case"].as_str()), (4, "node1+node2 90ms"));
        let plan: Table = toml::from_str(&runs[2].text).unwrap();
        assert_eq!(plan["topology"]["star"]["nodes"].as_integer(), Some(11));
        assert_eq!(plan["topology"]["star"]["delay"].as_str(), Some("90ms"));
        let told = sweep("[sweep]\narchitecture = ['super-node']\n[[sweep.cases]]\narchitecture = 'multicast'\n");
        assert_eq!(told.unwrap_err(), "p.toml:6: `architecture` is varied twice in [sweep]");
    }

    #[test]
    fn seeds_are_ranges_and_numbers() {
        let seeds =
            |text: &str| -> Vec<String> { sweep(text).unwrap().iter().map(|run| run.varied["seed"].clone()).collect() };
        assert_eq!(seeds("[sweep]\nseed = '3..5'\n"), ["3", "4", "5"]);
        assert_eq!(seeds("[sweep]\nseeds = 2\n"), ["1", "2"]);
        for (text, told) in [
            ("seed = '5..3'", "`5..3` is no range of seeds"),
            ("seed = '0..99999999999'", "with at most 10000 seeds"),
            ("seeds = 0", "`seeds` in [sweep] is a number"),
            ("seeds = 3\nseed = [1]", "say the same"),
        ] {
            let error = sweep(&format!("[sweep]\n{text}\n")).unwrap_err();
            assert!(error.starts_with("p.toml:") && error.contains(told), "{error}");
        }
    }

    #[test]
    fn command_line_needs_no_table() {
        let vary = |text: &str| parse_variation(text).unwrap();
        let extras = SweepExtras {
            vary: vec![vary("topology.star.delay=5ms,90ms"), vary("architecture=client-server,super-node")],
            seeds: Some(2),
        };
        let sweep = varied("", &extras).unwrap();
        assert_eq!(sweep.factors, ["architecture", "seed", "delay"]);
        assert_eq!(names(&sweep.runs)[..2], ["client-server_seed-1_5ms", "client-server_seed-1_90ms"]);
        let over = varied("[sweep]\nseed = [5, 6, 7]\ntopology.star.delay = ['1ms']\n", &extras).unwrap();
        assert_eq!(over.runs.len(), 8, "the command line replaces what the plan varies");
    }

    #[test]
    fn topology_files_have_keys() {
        let plan = "topology = 'net.toml'\narchitecture = 'super-node'\nduration = '9s'\n";
        let text = format!("{plan}[sweep]\ntopology.link.sat.queue.limit = [5, 50]\ntopology.host.a.cell = [[1, 2]]\n");
        let runs = read_sweep(&text, Path::new("p.toml"), &SweepExtras::default()).unwrap().runs;
        assert_eq!(names(&runs), ["cell-1+2_limit-5", "cell-1+2_limit-50"]);
        let plan: Table = toml::from_str(&runs[1].text).unwrap();
        assert_eq!(plan["topology"]["file"].as_str(), Some("net.toml"));
        assert_eq!(plan["topology"]["link"]["sat"]["queue"]["limit"].as_integer(), Some(50));
    }

    #[test]
    fn long_names_are_cut() {
        let hosts: Vec<String> = (1..100).map(|n| format!("'node{n}'")).collect();
        let runs = sweep(&format!("[sweep]\nsuper_nodes = [[{0}], [{0}, 'x']]\n", hosts.join(", "))).unwrap();
        assert!(runs.iter().all(|run| run.name.len() < 200) && runs[0].name != runs[1].name);
    }

    #[test]
    fn all_mistakes_are_told_together() {
        let told = sweep("[sweep]\nseed = 3\nduration = []\n[sweep.links]\nnet = 5\n").unwrap_err();
        let expected = "p.toml:6: `seed` in [sweep] is no list: write seed = [...]\n\
                        p.toml:7: its [sweep] has no values for `duration`\n\
                        p.toml:9: `links.net` in [sweep] is no list: write links.net = [...]";
        assert_eq!(told, expected);
    }

    #[test]
    fn every_combination_is_one_run() {
        let cells = sweep("[sweep]\narchitecture = ['client-server', 'super-node']\nseed = [1, 2, 3]\n").unwrap();
        let names: Vec<&str> = cells.iter().map(|cell| cell.name.as_str()).collect();
        assert_eq!(
            names[..4],
            ["client-server_seed-1", "client-server_seed-2", "client-server_seed-3", "super-node_seed-1"]
        );
        assert_eq!(cells.len(), 6);
        let plan: Table = toml::from_str(&cells[4].text).unwrap();
        assert_eq!((plan["seed"].as_integer(), plan["architecture"].as_str()), (Some(2), Some("super-node")));
        assert!(!plan.contains_key("sweep"));
        assert_eq!(cells[4].varied["seed"], "2");
    }

    #[test]
    fn dotted_keys_accept_table_values() {
        let cells = sweep("[sweep]\ntopology.star.server_delay = ['50ms', '200ms']\n").unwrap();
        assert_eq!(cells.iter().map(|cell| cell.name.as_str()).collect::<Vec<_>>(), ["50ms", "200ms"]);
        assert_eq!(cells[1].varied["server_delay"], "200ms");
        let plan: Table = toml::from_str(&cells[1].text).unwrap();
        assert_eq!(plan["topology"]["star"]["nodes"].as_integer(), Some(11));
        assert_eq!(plan["topology"]["star"]["server_delay"].as_str(), Some("200ms"));
        let cells =
            sweep("[sweep]\ntopology = [{ star = { nodes = 26 } }, { tree = { nodes = 31 } }, 'x/far.ns']\n").unwrap();
        assert_eq!(cells.iter().map(|cell| cell.name.as_str()).collect::<Vec<_>>(), ["star-26", "tree-31", "far"]);
    }

    #[test]
    fn runs_never_share_a_name() {
        let cells = sweep("[sweep]\ntopology = ['a/star.toml', 'b/star.toml', 'a b']\n").unwrap();
        assert_eq!(cells.iter().map(|cell| cell.name.as_str()).collect::<Vec<_>>(), ["star", "star-2", "a-b"]);
    }

    #[test]
    fn names_stay_below_the_folder() {
        let runs = sweep("[sweep]\ntopology = ['', '.', '..', '...']\n").unwrap();
        assert_eq!(names(&runs), ["empty", "dots-1", "dots-2", "dots-3"]);
        let case = |name: &str| format!("[[sweep.cases]]\nname = '{name}'\nseed = 3\n");
        let runs = sweep(&["", ".", ".."].map(case).concat()).unwrap();
        assert_eq!(names(&runs), ["empty", "dots-1", "dots-2"]);
        let runs = sweep("[sweep]\ntopology = ['', '..']\nseed = [1]\n").unwrap();
        assert_eq!(names(&runs), ["seed-1_", "seed-1_.."]);
    }

    #[test]
    fn names_are_none_of_the_page() {
        let taken = ["runs.csv", "Cells.CSV", "index.html", "figures", ".runs.csv.part", "figures-run"];
        let case = |name: &&str| format!("[[sweep.cases]]\nname = '{name}'\nseed = 3\n");
        let runs = sweep(&taken.iter().map(case).collect::<String>()).unwrap();
        let expected =
            ["runs.csv-run", "Cells.CSV-run", "index.html-run", "figures-run", ".runs.csv.part-run", "figures-run_6"];
        assert_eq!(names(&runs), expected);
    }

    #[test]
    fn numbered_names_are_not_taken() {
        let runs = sweep("[sweep]\ntopology = ['a-b_3', 'a b', 'a-b']\n").unwrap();
        assert_eq!(names(&runs), ["a-b_3", "a-b", "a-b_4"]);
        let runs = sweep("[sweep]\ntopology = ['a', 'a-3', 'a']\n").unwrap();
        assert_eq!(runs.iter().map(|run| run.varied["topology"].as_str()).collect::<Vec<_>>(), ["a", "a-3", "a-4"]);
    }

    #[test]
    fn what_is_no_sweep_is_refused() {
        assert!(sweep("").unwrap_err().contains("has no [sweep] table"));
        assert!(sweep("[sweep]\nduration.x = ['1s']\n").unwrap_err().contains("`duration` is no table"));
        let many = (0..101).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
        assert!(sweep(&format!("[sweep]\nseed = [{many}]\na = [{many}]\n")).unwrap_err().contains("more than 10000"));
        assert_eq!(sweep("[sweep\n").unwrap_err().split(':').nth(1), Some("5"));
    }

    #[test]
    fn the_command_line_replaces_values() {
        let text = with_values(PLAN, Path::new("p"), &[("seed".to_owned(), Value::Integer(9))]).unwrap();
        assert_eq!(toml::from_str::<Table>(&text).unwrap()["seed"].as_integer(), Some(9));
    }
}
