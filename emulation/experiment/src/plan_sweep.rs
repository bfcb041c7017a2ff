//! Variants of a plan's text: for the command line, and for sweeps.

use std::collections::BTreeMap;
use std::path::Path;

use toml::{Table, Value};

use super::plan::PlanError;

const MAX_CELLS: usize = 10_000;

#[derive(Clone, Debug, PartialEq)]
pub struct SweepRun {
    /// The name of its folder, made from the varied values.
    pub name: String,
    /// The varied keys, and their values in this run.
    pub varied: BTreeMap<String, String>,
    pub text: String,
}

/// Replaces some values of a plan. A key may be dotted: `topology.star.nodes`.
///
/// # Errors
/// Fails when the plan is no TOML, or a key leads into something that is no table.
pub fn with_values(text: &str, file: &Path, values: &[(String, Value)]) -> Result<String, PlanError> {
    let mut table = read(text, file)?;
    for (key, value) in values {
        set(&mut table, key, value.clone()).map_err(|message| PlanError::new(file, 0, message))?;
    }
    write(&table, file)
}

/// The runs of a sweep: every combination of the values in the plan's `[sweep]` table; the last key varies
/// fastest.
///
/// # Errors
/// Fails when there is no such table, or it holds something else than lists.
pub fn sweep_runs(text: &str, file: &Path) -> Result<Vec<SweepRun>, PlanError> {
    let wrong = |message: String| PlanError::new(file, 0, message);
    let mut table = read(text, file)?;
    let sweep = table
        .remove("sweep")
        .ok_or_else(|| wrong("has no [sweep] table: name there what is varied, as in seed = [1, 2, 3]".to_owned()))?;
    let mut axes = Vec::new();
    flatten("", sweep, &mut axes).map_err(wrong)?;
    let count = axes.iter().try_fold(1_usize, |product, axis| product.checked_mul(axis.values.len()));
    let count = count
        .filter(|count| *count <= MAX_CELLS)
        .ok_or_else(|| wrong(format!("its [sweep] makes more than {MAX_CELLS} runs")))?;
    let mut cells: Vec<SweepRun> = Vec::with_capacity(count);
    for number in 0..count {
        let mut cell = cell(&table, &axes, number, file)?;
        if cells.iter().any(|other| other.name == cell.name) {
            cell.name = format!("{}_{}", cell.name, number + 1);
        }
        cells.push(cell);
    }
    Ok(cells)
}

struct Axis {
    /// The key in the plan.
    key: String,
    name: String,
    /// Each value, with its text for people.
    values: Vec<(Value, String)>,
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

/// Flattens nested tables of keys; a list under a key holds the key's values.
fn flatten(prefix: &str, value: Value, axes: &mut Vec<Axis>) -> Result<(), String> {
    match value {
        Value::Table(table) => table.into_iter().try_for_each(|(key, value)| {
            let key = if prefix.is_empty() { key } else { format!("{prefix}.{key}") };
            flatten(&key, value, axes)
        }),
        Value::Array(values) if !values.is_empty() => {
            let mut labels: Vec<String> = Vec::new();
            for (index, value) in values.iter().enumerate() {
                let label = label(value);
                let is_taken = labels.contains(&label);
                labels.push(if is_taken { format!("{label}-{}", index + 1) } else { label });
            }
            let last = prefix.rsplit('.').next().unwrap_or(prefix);
            let is_taken = axes.iter().any(|axis| axis.name == last);
            let name = if is_taken { prefix } else { last }.to_owned();
            axes.push(Axis { key: prefix.to_owned(), name, values: values.into_iter().zip(labels).collect() });
            Ok(())
        }
        Value::Array(_) => Err(format!("its [sweep] has no values for `{prefix}`")),
        _ => Err(format!("`{prefix}` in [sweep] is no list: write {prefix} = [...]")),
    }
}

/// The text of a value for people: `star-11` for `{ star = { nodes = 11 } }`, or a file without its folder and
/// extension.
fn label(value: &Value) -> String {
    match value {
        Value::String(text) => {
            let stem = Path::new(text).file_stem().map(|stem| stem.to_string_lossy().into_owned());
            stem.filter(|_| text.ends_with(".toml") || text.ends_with(".ns")).unwrap_or_else(|| text.clone())
        }
        Value::Table(table) => {
            let parts = table.iter().map(|(key, value)| match value {
                Value::Table(_) => format!("{key}-{}", label(value)),
                _ => label(value),
            });
            parts.collect::<Vec<_>>().join("-")
        }
        Value::Array(values) => values.iter().map(label).collect::<Vec<_>>().join("+"),
        other => other.to_string(),
    }
}

/// The run of this number; the last key varies fastest.
fn cell(table: &Table, axes: &[Axis], number: usize, file: &Path) -> Result<SweepRun, PlanError> {
    let (mut table, mut rest) = (table.clone(), number);
    let mut names = Vec::new();
    let mut varied = BTreeMap::new();
    for axis in axes.iter().rev() {
        let (value, label) = &axis.values[rest % axis.values.len()];
        rest /= axis.values.len();
        set(&mut table, &axis.key, value.clone()).map_err(|message| PlanError::new(file, 0, message))?;
        let says_what = matches!(value, Value::String(_) | Value::Table(_));
        names.push(if says_what { label.clone() } else { format!("{}-{label}", axis.name) });
        varied.insert(axis.name.clone(), label.clone());
    }
    names.reverse();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '+' | '_');
    let name = names.join("_").chars().map(|c| if is_plain(c) { c } else { '-' }).collect();
    Ok(SweepRun { name, varied, text: write(&table, file)? })
}

fn set(table: &mut Table, key: &str, value: Value) -> Result<(), String> {
    match key.split_once('.') {
        None => {
            table.insert(key.to_owned(), value);
            Ok(())
        }
        Some((first, rest)) => {
            let inner = table.entry(first).or_insert_with(|| Value::Table(Table::new()));
            let inner = inner.as_table_mut().ok_or_else(|| format!("`{first}` is no table, so there is no `{key}`"))?;
            set(inner, rest, value)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: &str = "architecture = 'super-node'\nduration = '60s'\n[topology.star]\nnodes = 11\n";

    fn sweep(text: &str) -> Result<Vec<SweepRun>, String> {
        sweep_runs(&format!("{PLAN}{text}"), Path::new("p.toml")).map_err(|error| error.to_string())
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
    fn what_is_no_sweep_is_refused() {
        assert!(sweep("").unwrap_err().contains("has no [sweep] table"));
        assert!(sweep("[sweep]\nseed = 3\n").unwrap_err().contains("`seed` in [sweep] is no list"));
        assert!(sweep("[sweep]\nseed = []\n").unwrap_err().contains("no values for `seed`"));
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
