//! The factors of a sweep: keys that are varied, each alone or several together.

use std::collections::BTreeSet;

use roost_topology::file::quote;
use toml::{Table, Value};

use super::key::PlanKey;
use super::label::label;

/// The keys of `[sweep]` that are no keys of plans.
pub(super) const CASES: &str = "cases";
pub(super) const SEEDS: &str = "seeds";
const SEED: &str = "seed";
/// The key of a case that names it.
const NAME: &str = "name";
/// The name of the factor that cases are.
const CASE: &str = "case";
/// The most values of a factor, and hence of a range of seeds.
const MAX_VALUES: u64 = 10_000;

/// A factor: its points exclude one another.
pub(super) struct Axis {
    pub(super) name: String,
    pub(super) points: Vec<AxisPoint>,
    /// The key; `None` for cases, which have several.
    key: Option<PlanKey>,
}

pub(super) struct AxisPoint {
    pub(super) label: String,
    pub(super) folder: String,
    pub(super) values: Vec<PointValue>,
}

pub(super) struct PointValue {
    pub(super) key: PlanKey,
    pub(super) value: Value,
    pub(super) origin: Vec<String>,
}

/// A mistake in `[sweep]` at a key of it.
pub(super) struct AxisMistake {
    pub(super) at: Vec<String>,
    pub(super) text: String,
}

fn mistake(at: &[String], text: impl Into<String>) -> AxisMistake {
    AxisMistake { at: at.to_vec(), text: text.into() }
}

/// The factors of a `[sweep]` table, in the order of their keys; cases are the first.
pub(super) fn axes(sweep: Table, first_seed: u64) -> Result<Vec<Axis>, Vec<AxisMistake>> {
    let (mut axes, mut wrong) = (Vec::new(), Vec::new());
    let has_both = sweep.contains_key(SEED) && sweep.contains_key(SEEDS);
    if has_both {
        wrong.push(mistake(&[SEEDS.to_owned()], "`seed` and `seeds` in [sweep] say the same: leave one out"));
    }
    for (key, value) in sweep {
        let at = [key.clone()];
        let read = match (key.as_str(), &value) {
            (CASES, _) => cases(value).map(|axis| axes.insert(0, axis)),
            (SEEDS, _) => seeds(&value, first_seed).map(|values| push(&mut axes, SEED, &at, values)),
            (SEED, Value::String(range)) => seed_range(range).map(|values| push(&mut axes, SEED, &at, values)),
            _ => PlanKey::parse(&quoted(&key))
                .map_err(|text| vec![mistake(&at, text)])
                .and_then(|key| flatten(&key, &at, value, &mut axes)),
        };
        wrong.extend(read.err().into_iter().flatten());
    }
    wrong.extend(twice(&axes));
    if axes.is_empty() && wrong.is_empty() {
        wrong.push(mistake(&[], "its [sweep] table is empty: name there what is varied, as in seed = [1, 2, 3]"));
    }
    if wrong.is_empty() {
        name_axes(&mut axes);
        Ok(axes)
    } else {
        Err(wrong)
    }
}

/// A key with dots in quotes is a dotted key: `"topology.link.sat.delay"`.
fn quoted(key: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '"');
    if key.chars().all(is_plain) && !key.is_empty() { key.to_owned() } else { quote(key) }
}

fn push(axes: &mut Vec<Axis>, key: &str, at: &[String], values: Vec<Value>) {
    axes.push(axis(PlanKey(vec![key.to_owned()]), at, values));
}

/// Flattens nested tables of keys; a list under a key holds the key's values.
fn flatten(key: &PlanKey, at: &[String], value: Value, axes: &mut Vec<Axis>) -> Result<(), Vec<AxisMistake>> {
    match value {
        Value::Table(table) => {
            let mut wrong = Vec::new();
            for (name, value) in table {
                let at = [at, std::slice::from_ref(&name)].concat();
                wrong.extend(flatten(&key.with(&name), &at, value, axes).err().into_iter().flatten());
            }
            if wrong.is_empty() { Ok(()) } else { Err(wrong) }
        }
        Value::Array(values) if !values.is_empty() => {
            axes.push(axis(key.clone(), at, values));
            Ok(())
        }
        Value::Array(_) => Err(vec![mistake(at, format!("its [sweep] has no values for `{key}`"))]),
        _ => Err(vec![mistake(at, format!("`{key}` in [sweep] is no list: write {key} = [...]"))]),
    }
}

fn axis(key: PlanKey, at: &[String], values: Vec<Value>) -> Axis {
    let labels = distinct(values.iter().map(label));
    let points = values.into_iter().zip(labels).enumerate().map(|(index, (value, label))| {
        let says_itself = matches!(value, Value::String(_) | Value::Table(_));
        let folder = if says_itself { label.clone() } else { format!("{}-{label}", key.ending(1)) };
        let origin = [at, &[(index + 1).to_string()]].concat();
        AxisPoint { folder, label, values: vec![PointValue { key: key.clone(), value, origin }] }
    });
    Axis { name: String::new(), points: points.collect(), key: Some(key) }
}

fn distinct(labels: impl Iterator<Item = String>) -> Vec<String> {
    let mut known = BTreeSet::new();
    let mut number = |(index, label): (usize, String)| {
        if known.insert(label.clone()) {
            return label;
        }
        let mut numbered = (index + 1..).map(|number| format!("{label}-{number}"));
        numbered.find(|one| known.insert(one.clone())).unwrap_or(label)
    };
    labels.enumerate().map(&mut number).collect()
}

fn cases(value: Value) -> Result<Axis, Vec<AxisMistake>> {
    let at = [CASES.to_owned()];
    let tables: Option<Vec<Table>> = match value {
        Value::Array(items) if !items.is_empty() => {
            items.into_iter().map(|item| if let Value::Table(table) = item { Some(table) } else { None }).collect()
        }
        _ => None,
    };
    let tables = tables.ok_or_else(|| vec![mistake(&at, "`cases` are tables: write [[sweep.cases]]")])?;
    let (mut points, mut wrong) = (Vec::new(), Vec::new());
    for (index, mut table) in tables.into_iter().enumerate() {
        let at = [CASES.to_owned(), (index + 1).to_string()];
        let name = table.remove(NAME);
        let mut values = Vec::new();
        for (name, value) in table {
            let within = [&at[..], std::slice::from_ref(&name)].concat();
            match PlanKey::parse(&quoted(&name)) {
                Ok(key) => case_values(&key, &within, value, &mut values),
                Err(text) => wrong.push(mistake(&within, text)),
            }
        }
        match name.as_ref().map(Value::as_str) {
            Some(None) => wrong.push(mistake(&at, "the `name` of a case is a text in quotes")),
            _ if values.is_empty() => wrong.push(mistake(&at, "a case gives values to keys, such as seed = 3")),
            _ => {}
        }
        let texts: Vec<String> = values.iter().map(|one: &PointValue| label(&one.value)).collect();
        let label = name.as_ref().and_then(Value::as_str).map_or_else(|| texts.join(" "), str::to_owned);
        points.push(AxisPoint { folder: label.replace(' ', "_"), label, values });
    }
    let labels = distinct(points.iter().map(|point| point.label.clone()));
    points.iter_mut().zip(labels).for_each(|(point, label)| point.label = label);
    if wrong.is_empty() { Ok(Axis { name: CASE.to_owned(), points, key: None }) } else { Err(wrong) }
}

/// The values of a case: what stands in a nested table is below its key. A generator's table is a value, and so is a
/// mix: they replace what the plan has.
fn case_values(key: &PlanKey, at: &[String], value: Value, all: &mut Vec<PointValue>) {
    match value {
        Value::Table(table) if !key.is("topology") && key.ending(1) != "mix" && !table.is_empty() => {
            for (name, value) in table {
                case_values(&key.with(&name), &[at, std::slice::from_ref(&name)].concat(), value, all);
            }
        }
        Value::Table(table) if key.is("topology") && !has_source(&table) => {
            for (name, value) in table {
                case_values(&key.with(&name), &[at, std::slice::from_ref(&name)].concat(), value, all);
            }
        }
        value => all.push(PointValue { key: key.clone(), value, origin: at.to_vec() }),
    }
}

fn has_source(topology: &Table) -> bool {
    let mut generators = ["star", "tree", "forest"].iter().filter_map(|name| topology.get(*name));
    topology.contains_key("file") || generators.any(|generator| generator.get("nodes").is_some())
}

/// `seeds = 20`: as many from the plan's seed.
fn seeds(value: &Value, first: u64) -> Result<Vec<Value>, Vec<AxisMistake>> {
    let count = value.as_integer().and_then(|count| u64::try_from(count).ok());
    let count = count.filter(|count| (1..=MAX_VALUES).contains(count));
    let wrong = || vec![mistake(&[SEEDS.to_owned()], format!("`seeds` in [sweep] is a number from 1 to {MAX_VALUES}"))];
    let count = count.ok_or_else(wrong)?;
    let last = first.checked_add(count - 1).filter(|last| i64::try_from(*last).is_ok()).ok_or_else(wrong)?;
    Ok((first..=last).map(|seed| Value::Integer(seed as i64)).collect())
}

/// `seed = "1..20"`: both ends belong to it.
fn seed_range(range: &str) -> Result<Vec<Value>, Vec<AxisMistake>> {
    let wrong = || {
        let text = format!("`{range}` is no range of seeds: write \"1..20\", with at most {MAX_VALUES} seeds");
        vec![mistake(&[SEED.to_owned()], text)]
    };
    let (first, last) = range.split_once("..").ok_or_else(wrong)?;
    let number = |text: &str| text.trim().parse::<i64>().ok().filter(|seed| *seed >= 0);
    let (first, last) = number(first).zip(number(last)).ok_or_else(wrong)?;
    if last < first || last.abs_diff(first) >= MAX_VALUES {
        return Err(wrong());
    }
    Ok((first..=last).map(Value::Integer).collect())
}

/// Keys that two factors vary, or that lie in one another.
fn twice(axes: &[Axis]) -> Vec<AxisMistake> {
    let mut wrong = Vec::new();
    for (place, axis) in axes.iter().enumerate() {
        let earlier = || axes[..place].iter().flat_map(|axis| &axis.points).flat_map(|point| &point.values);
        let clash = axis.points.iter().flat_map(|point| &point.values).find(|one| {
            // A topology as a whole comes before changes of it.
            earlier()
                .any(|other| one.key.0.starts_with(&other.key.0) && (one.key == other.key || !other.key.is("topology")))
        });
        wrong.extend(clash.map(|one| mistake(&one.origin, format!("`{}` is varied twice in [sweep]", one.key))));
    }
    wrong
}

/// Names each factor by the fewest last names of its key that no other has.
fn name_axes(axes: &mut [Axis]) {
    let keys: Vec<PlanKey> = axes.iter().filter_map(|axis| axis.key.clone()).collect();
    for axis in axes {
        let Some(key) = &axis.key else { continue };
        let is_own = |names: &usize| keys.iter().filter(|other| other.ending(*names) == key.ending(*names)).count() < 2;
        axis.name = key.ending((1..key.0.len()).find(is_own).unwrap_or(key.0.len()));
    }
}
