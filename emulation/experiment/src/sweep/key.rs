//! Keys of a plan, and the places they lead to.

use std::fmt;

use roost_topology::file::quote;
use toml::{Table, Value};

/// The most names of a key: no value of a plan lies deeper.
const MAX_DEPTH: usize = 12;
/// Keys of which a plan has one; another value replaces both.
const EITHER: [[&str; 2]; 1] = [["super_nodes", "tiers"]];
const TOPOLOGY: &str = "topology";

/// A key of a plan as names from the outermost table inwards: `topology.link."a.b".delay`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PlanKey(pub(super) Vec<String>);

impl PlanKey {
    /// Reads a dotted key as TOML has it.
    ///
    /// # Errors
    /// Fails when it is none.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is no key of a plan: write links.NAME.delay, or \"a.b\" for a name with dots");
        if text.contains(['\n', '\r', '=', '#', '[', '{']) {
            return Err(wrong());
        }
        let mut table: Table = toml::from_str(&format!("{text} = 0")).map_err(|_| wrong())?;
        let mut names = Vec::new();
        while let Some((name, value)) = table.into_iter().next() {
            names.push(name);
            table = match value {
                Value::Table(inner) => inner,
                _ => Table::new(),
            };
        }
        if names.len() > MAX_DEPTH { Err(wrong()) } else { Ok(Self(names)) }
    }

    pub(super) fn with(&self, name: &str) -> Self {
        Self(self.0.iter().cloned().chain([name.to_owned()]).collect())
    }

    /// The last names of the key, as people read it.
    pub(super) fn ending(&self, names: usize) -> String {
        self.0[self.0.len().saturating_sub(names)..].join(".")
    }

    pub(super) fn is(&self, name: &str) -> bool {
        matches!(self.0.as_slice(), [only] if only == name)
    }
}

impl fmt::Display for PlanKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, name) in self.0.iter().enumerate() {
            let is_letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
            let is_plain = !name.is_empty() && name.chars().all(is_letter);
            let dot = if place == 0 { "" } else { "." };
            if is_plain { write!(f, "{dot}{name}")? } else { write!(f, "{dot}{}", quote(name))? }
        }
        Ok(())
    }
}

/// Sets a value of a plan. A number in the key counts the tables of a list from 1. A topology's file makes room for
/// keys of the topology.
pub(super) fn set(plan: &mut Table, key: &PlanKey, value: Value) -> Result<(), String> {
    for names in EITHER {
        if let Some(place) = names.iter().position(|name| key.is(name)) {
            plan.remove(names[1 - place]);
        }
    }
    if let [first, _, ..] = key.0.as_slice()
        && first == TOPOLOGY
        && let Some(file @ Value::String(_)) = plan.get(TOPOLOGY).cloned()
    {
        plan.insert(TOPOLOGY.to_owned(), Table::from_iter([("file".to_owned(), file)]).into());
    }
    set_within(plan, &key.0, value).map_err(|name| format!("`{name}` is no table, so there is no `{key}`"))
}

/// Fails with the name of a value that has no keys.
fn set_within(table: &mut Table, key: &[String], value: Value) -> Result<(), String> {
    match key {
        [] => Ok(()),
        [last] => {
            table.insert(last.clone(), value);
            Ok(())
        }
        [first, rest @ ..] => {
            let inner = table.entry(first).or_insert_with(|| Value::Table(Table::new()));
            match inner {
                Value::Table(inner) => set_within(inner, rest, value),
                Value::Array(items) => {
                    let number = rest[0].parse::<usize>().ok().and_then(|number| number.checked_sub(1));
                    let item = number.and_then(|index| items.get_mut(index)).and_then(Value::as_table_mut);
                    set_within(item.ok_or_else(|| format!("{first}.{}", rest[0]))?, &rest[1..], value)
                }
                _ => Err(first.clone()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_and_shown() {
        for text in ["seed", "links.sat.delay", "topology.host.\"a.b\".cell", "faults.1.at"] {
            assert_eq!(PlanKey::parse(text).unwrap().to_string(), text);
        }
        for text in ["", "a b", "a = 1\nb", "a..b", "[a]", "a.{b = 1}"] {
            assert!(PlanKey::parse(text).is_err(), "{text}");
        }
        for name in ["", "a\u{7f}b", "zero\u{200b}width", "tab\tand\nline", "\"\\"] {
            let key = PlanKey(vec!["links".to_owned(), name.to_owned()]);
            assert_eq!(PlanKey::parse(&key.to_string()), Ok(key));
        }
        assert!(PlanKey::parse("a.".repeat(5000).trim_end_matches('.')).is_err());
    }

    #[test]
    fn lists_and_topology_files_have_keys() {
        let changed = |plan: &str, key: &str| {
            let mut plan: Table = toml::from_str(plan).unwrap();
            set(&mut plan, &PlanKey::parse(key).unwrap(), Value::Integer(7))?;
            Ok::<_, String>(plan)
        };
        let plan = changed("faults = [{ at = 1 }, { at = 2 }]", "faults.2.at").unwrap();
        assert_eq!(plan["faults"][1]["at"].as_integer(), Some(7));
        assert!(changed("faults = [{ at = 1 }]", "faults.2.at").unwrap_err().contains("`faults.2` is no table"));
        let plan = changed("topology = 'x.ns'", "topology.link.sat.queue.limit").unwrap();
        assert_eq!(plan["topology"]["file"].as_str(), Some("x.ns"));
        assert_eq!(plan["topology"]["link"]["sat"]["queue"]["limit"].as_integer(), Some(7));
        let plan = changed("tiers = 2", "super_nodes").unwrap();
        assert!(!plan.contains_key("tiers"));
    }
}
