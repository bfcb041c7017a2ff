//! The lines of keys in a text, to tell mistakes in a run of a sweep by the lines of its plan.

use toml::de::{DeTable, DeValue};

/// A key, by its names and numbers in lists, and its line from 1.
pub(super) type KeyLine = (Vec<String>, usize);

/// The lines of all keys of a text; empty if it is no TOML.
pub(super) fn key_lines(text: &str) -> Vec<KeyLine> {
    let mut all = Vec::new();
    if let Ok(table) = DeTable::parse(text) {
        let begins: Vec<usize> =
            text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at).collect();
        let line = |at: usize| 1 + begins.partition_point(|begin| *begin < at);
        walk(table.get_ref(), &[], &line, &mut all);
    }
    all.sort_by_key(|(_, line)| *line);
    all
}

fn walk(table: &DeTable<'_>, way: &[String], line: &impl Fn(usize) -> usize, all: &mut Vec<KeyLine>) {
    for (key, value) in table {
        let way = [way, &[key.get_ref().to_string()]].concat();
        all.push((way.clone(), line(key.span().start)));
        walk_value(value.get_ref(), &way, line, all);
    }
}

fn walk_value(value: &DeValue<'_>, way: &[String], line: &impl Fn(usize) -> usize, all: &mut Vec<KeyLine>) {
    match value {
        DeValue::Table(table) => walk(table, way, line, all),
        DeValue::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                let way = [way, &[(index + 1).to_string()]].concat();
                all.push((way.clone(), line(item.span().start)));
                walk_value(item.get_ref(), &way, line, all);
            }
        }
        _ => {}
    }
}

/// The line of the key, or of the innermost table around it that has one.
pub(super) fn line_of(lines: &[KeyLine], key: &[String]) -> Option<usize> {
    (1..=key.len()).rev().find_map(|names| lines.iter().find(|(way, _)| way == &key[..names])).map(|(_, line)| *line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_their_lines() {
        let lines = key_lines("a = 1\n[b.c]\nd = [1,\n { e = 2 }]\n[[f]]\ng = 3\n");
        let line = |key: &str| line_of(&lines, &key.split('.').map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(
            ["a", "b.c.d", "b.c.d.2.e", "f.1.g", "b.c.x", "x"].map(line),
            [Some(1), Some(3), Some(4), Some(6), Some(2), None]
        );
        assert!(key_lines("[[[").is_empty());
    }
}
