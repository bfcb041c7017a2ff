//! Reading of TOML into declared structures, with the line of every mistake.

use std::cell::RefCell;
use std::ops::Range;
use std::path::Path;

use ::toml::Spanned;
use ::toml::de::{DeTable, DeValue, Deserializer};
use serde::de::DeserializeOwned;

use super::radio_changes::FIXED_KEYS;
use crate::model::Note;
use crate::suggest::did_you_mean;
use crate::trace::TraceStore;

/// The most wrong keys and values that are reported together: the file is read again after each.
const MAX_WRONG: usize = 250;

/// A radio that a plan changes, in messages.
const CHANGED_RADIO: &str = "a radio of the topology";

/// The text being read, and its mistakes so far.
pub struct SourceText<'t> {
    text: &'t str,
    lines: Vec<usize>,
    problems: RefCell<Vec<Note>>,
    left_out: RefCell<Vec<LeftOut>>,
    traces: TraceStore,
}

/// A key that was left out because it is unknown, or its value wrong; or an item of a list of tables.
#[derive(Default)]
struct LeftOut {
    table: usize,
    what: String,
    key: String,
    /// The table that is the key's value, or the item, in messages; `what` is the table of the key.
    inner: String,
    is_unknown: bool,
}

impl<'t> SourceText<'t> {
    pub fn new(text: &'t str) -> Self {
        let begins = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1);
        let lines = std::iter::once(0).chain(begins).collect();
        Self { text, lines, problems: RefCell::default(), left_out: RefCell::default(), traces: TraceStore::default() }
    }

    /// Looks for the traces that the text names in a folder.
    pub fn within(self, folder: &Path) -> Self {
        Self { traces: TraceStore::new(folder), ..self }
    }

    pub(super) const fn traces(&self) -> &TraceStore {
        &self.traces
    }

    /// The line, from 1, of a byte offset.
    pub fn line(&self, at: usize) -> u32 {
        u32::try_from(self.lines.partition_point(|begin| *begin <= at)).unwrap_or(u32::MAX)
    }

    /// Records a mistake at a byte offset.
    pub fn refuse(&self, at: usize, text: impl Into<String>) {
        self.problems.borrow_mut().push(Note { line: self.line(at), text: text.into() });
    }

    pub fn problems(&self) -> Vec<Note> {
        let mut problems = self.problems.borrow().clone();
        problems.sort();
        problems.dedup();
        problems
    }

    /// Reads the text; `what` describes it in messages. A key that is unknown or has a wrong value is recorded and
    /// left out, and the rest is read again. `None` if nothing can be read.
    pub fn read<T: DeserializeOwned>(&self, what: &str) -> Option<T> {
        let refuse = |error: &::toml::de::Error| {
            self.refuse(error.span().map_or(0, |span| span.start), error.message().trim_end().replace('\n', ", "));
        };
        let mut root = DeTable::parse(self.text).map_err(|error| refuse(&error)).ok()?;
        for _ in 0..MAX_WRONG {
            let error = match T::deserialize(Deserializer::from(root.clone())) {
                Ok(read) => return Some(read),
                Err(error) => error,
            };
            let place = error.span().unwrap_or_default();
            let missing = error.message().strip_prefix("missing field `").map(|key| key.trim_end_matches('`'));
            let is_explained = missing.is_some_and(|key| self.explains(place.start, key));
            let left_out = leave_out(root.get_mut(), 0, what, &place);
            match &left_out {
                _ if is_explained => {}
                Some(of) => self.refuse(place.start, reworded(error.message(), of)),
                None => refuse(&error),
            }
            self.left_out.borrow_mut().push(left_out?);
        }
        None
    }

    /// True if a table misses a key since it was left out, or since it may be present under a misspelt name.
    fn explains(&self, table: usize, key: &str) -> bool {
        self.left_out.borrow().iter().any(|out| out.table == table && (out.is_unknown || out.key == key))
    }

    /// Records that a table misses a key.
    pub fn miss(&self, at: usize, key: &str, text: impl Into<String>) {
        if !self.explains(at, key) {
            self.refuse(at, text);
        }
    }

    /// The value of a key; records it if it is missing.
    pub fn required<T>(&self, at: usize, what: &str, key: &str, value: Option<T>, example: &str) -> Option<T> {
        if value.is_none() {
            self.miss(at, key, format!("{what} needs `{key}`: write {key} = {example}"));
        }
        value
    }

    /// True if a key of the table was left out.
    pub fn is_partial(&self, at: usize) -> bool {
        self.left_out.borrow().iter().any(|out| out.table == at)
    }
}

/// Removes the key with a place, or whose value has it, from a table and those within.
fn leave_out(table: &mut DeTable<'_>, at: usize, what: &str, place: &Range<usize>) -> Option<LeftOut> {
    let is_here = |value: &Spanned<DeValue<'_>>| value.span() == *place;
    let has = |value: &Spanned<DeValue<'_>>| {
        let mut items = value.get_ref().as_array().into_iter().flatten();
        is_here(value) || items.any(|item| is_here(item) && !item.get_ref().is_table())
    };
    let found = table.iter().find(|(key, value)| key.span() == *place || has(value));
    if let Some((key, is_unknown)) = found.map(|(key, _)| (key.get_ref().to_string(), key.span() == *place)) {
        table.remove(key.as_str());
        return Some(LeftOut { table: at, what: what.to_owned(), inner: described(what, &key), key, is_unknown });
    }
    table.iter_mut().find_map(|(key, value)| leave_out_within(value, described(what, key.get_ref()), place))
}

fn leave_out_within(value: &mut Spanned<DeValue<'_>>, what: String, place: &Range<usize>) -> Option<LeftOut> {
    let at = value.span().start;
    match value.get_mut() {
        DeValue::Table(table) => leave_out(table, at, &what, place),
        DeValue::Array(items) if items.iter().any(|item| item.span() == *place) => {
            *items = items.iter().filter(|item| item.span() != *place).cloned().collect();
            Some(LeftOut { inner: what, ..LeftOut::default() })
        }
        DeValue::Array(items) => items.iter_mut().find_map(|item| leave_out_within(item, what.clone(), place)),
        _ => None,
    }
}

/// The table of a key in another one, in messages.
fn described(within: &str, key: &str) -> String {
    match (within, key) {
        ("classes", _) => "a class".to_owned(),
        ("links", _) => "a link".to_owned(),
        ("rooms", _) => "a room".to_owned(),
        ("topology", "host" | "link" | "lan" | "radio") => format!("{key}s of the topology"),
        ("hosts of the topology", _) => "a host".to_owned(),
        ("links of the topology", _) => "a link".to_owned(),
        ("lans of the topology", _) => "a LAN".to_owned(),
        ("radios of the topology", _) => CHANGED_RADIO.to_owned(),
        (_, "event") => "an event".to_owned(),
        (_, "faults") => "a fault".to_owned(),
        (_, "lan") => "a LAN".to_owned(),
        (_, "up" | "down") => "a direction".to_owned(),
        ("motion", "host") => "a host in motion".to_owned(),
        ("a leg", _) if !matches!(key, "burst" | "queue") => "a leg".to_owned(),
        (
            _,
            "classes" | "contention" | "defaults" | "lab" | "links" | "motion" | "movement" | "red" | "rooms"
            | "topology" | "traffic",
        ) => key.to_owned(),
        _ => format!("a {key}"),
    }
}

fn reworded(text: &str, of: &LeftOut) -> String {
    let LeftOut { key, what, inner, .. } = of;
    let quoted: Vec<&str> = text.split('`').skip(1).step_by(2).collect();
    let is_known = |key: &&str| what != CHANGED_RADIO || !FIXED_KEYS.contains(key);
    let known = quoted.iter().skip(1).copied().filter(is_known);
    if text.starts_with("unknown field") {
        let near = did_you_mean(key, known.clone());
        let all = if near.is_empty() { format!(": choose {}", known.collect::<Vec<_>>().join(", ")) } else { near };
        return format!("`{key}` is no key of {what}{all}");
    }
    if let (Some(word), true) = (quoted.first(), text.starts_with("unknown variant")) {
        let words = quoted[1..].join(", ");
        return format!("`{key}` of {what}: `{word}` is not one of {words}{}", did_you_mean(word, known));
    }
    if let (Some(missing), true) = (quoted.first(), text.starts_with("missing field")) {
        return format!("{inner} needs `{missing}`");
    }
    let wrong = text.strip_prefix("invalid type: ").or_else(|| text.strip_prefix("invalid value: "));
    match wrong.and_then(|text| text.split_once(", expected ")) {
        None if text.starts_with("is ") => format!("`{key}` of {what} {text}"),
        None if text == "wanted string or table" => format!("`{key}` of {what} is a text in quotes"),
        None => format!("`{key}` of {what}: {text}"),
        Some((got, "a sequence")) => format!("`{key}` is a list of tables: write [[{key}]], not {}", noun(got)),
        Some((got, wanted)) if wanted.starts_with("struct") => {
            format!("{inner} is a table with keys, not {}", noun(got))
        }
        Some((got, wanted)) if noun(got) == noun(wanted) => format!("`{key}` of {what} is out of range"),
        Some((got, wanted)) => format!("`{key}` of {what} is {}, not {}", noun(wanted), noun(got)),
    }
}

/// The word that serde uses for a kind of values, as ours.
fn noun(word: &str) -> &str {
    match word.trim_start_matches("a ").split(' ').next() {
        Some("string") => "a text in quotes",
        Some("integer" | "i32" | "i64" | "u64" | "usize") => "a whole number",
        Some("floating" | "f64") => "a number",
        Some("boolean") => "true or false",
        Some("sequence") => "a list",
        Some("map") => "a table",
        _ => word,
    }
}
