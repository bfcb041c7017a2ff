//! Reading TOML tables so that every mistake is reported with its line.

use std::cell::RefCell;
use std::fmt::Display;
use std::time::Duration;

use ::toml::Spanned;
use ::toml::de::{DeTable, DeValue};

use crate::topology::model::Note;
use crate::topology::suggest::did_you_mean;
use crate::units::{Rate, UnitError, parse_duration};

/// The text being read, and what is wrong with it so far.
pub(crate) struct SourceText {
    /// The byte at which each line begins.
    lines: Vec<usize>,
    problems: RefCell<Vec<Note>>,
}

impl SourceText {
    /// A source in which nothing is wrong yet.
    pub(crate) fn new(text: &str) -> Self {
        let begins = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1);
        Self { lines: std::iter::once(0).chain(begins).collect(), problems: RefCell::default() }
    }

    /// The line, from 1, that a byte is on.
    pub(crate) fn line(&self, at: usize) -> u32 {
        u32::try_from(self.lines.partition_point(|begin| *begin <= at)).unwrap_or(u32::MAX)
    }

    /// Notes that something is wrong at a byte.
    pub(crate) fn refuse(&self, at: usize, text: impl Into<String>) {
        self.problems.borrow_mut().push(Note { line: self.line(at), text: text.into() });
    }

    /// All that is wrong, by line.
    pub(crate) fn into_problems(self) -> Vec<Note> {
        let mut problems = self.problems.into_inner();
        problems.sort();
        problems.dedup();
        problems
    }

    /// How many things are wrong so far.
    pub(crate) fn problems(&self) -> usize {
        self.problems.borrow().len()
    }
}

/// A value and where it stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Located<T> {
    /// The value.
    pub(crate) value: T,
    /// Its first byte in the text.
    pub(crate) at: usize,
}

/// One table, of which only certain keys are known.
pub(crate) struct Fields<'t> {
    source: &'t SourceText,
    table: &'t DeTable<'t>,
    what: &'static str,
    at: usize,
    /// Whether every key is known: else one that seems missing may be there under another name.
    whole: bool,
}

impl<'t> Fields<'t> {
    /// The table that a value is; reports another kind of value, and keys that are not in `known`.
    pub(crate) fn from_value(
        source: &'t SourceText,
        what: &'static str,
        value: &'t Spanned<DeValue<'t>>,
        known: &[&str],
    ) -> Option<Self> {
        let at = value.span().start;
        match value.get_ref() {
            DeValue::Table(table) => Some(Self::new(source, what, table, at, known)),
            other => {
                source.refuse(at, format!("{what} is a table with keys, not {}", kind(other)));
                None
            }
        }
    }

    /// The fields of a table that begins `at`; reports keys that are not in `known`.
    pub(crate) fn new(
        source: &'t SourceText,
        what: &'static str,
        table: &'t DeTable<'t>,
        at: usize,
        known: &[&str],
    ) -> Self {
        let mut whole = true;
        for key in table.keys() {
            let name: &str = key.get_ref();
            if !known.contains(&name) {
                let hint = did_you_mean(name, known.iter().copied());
                source.refuse(key.span().start, format!("`{name}` is no key of {what}{hint}"));
                whole = false;
            }
        }
        Self { source, table, what, at, whole }
    }

    /// The source that it is from.
    pub(crate) fn source(&self) -> &'t SourceText {
        self.source
    }

    /// The byte at which it begins.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// Notes that something is wrong with the table as a whole.
    pub(crate) fn refuse(&self, text: impl Into<String>) {
        self.source.refuse(self.at, text);
    }

    /// Notes that something is missing from the table, unless an unknown key
    /// may have been meant to be it.
    pub(crate) fn miss(&self, text: impl Into<String>) {
        if self.whole {
            self.refuse(text);
        }
    }

    /// Whether a key is there.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    /// The value of a key, as it stands.
    pub(crate) fn value(&self, key: &str) -> Option<&'t Spanned<DeValue<'t>>> {
        self.table.get(key)
    }

    /// The value of a key, or a report that it is missing.
    pub(crate) fn required<T>(&self, key: &str, value: Option<T>, example: &str) -> Option<T> {
        if value.is_none() && !self.has(key) {
            self.miss(format!("{} needs `{key}`: write {key} = {example}", self.what));
        }
        value
    }

    /// A text.
    pub(crate) fn text(&self, key: &str) -> Option<Located<&'t str>> {
        let value = self.value(key)?;
        match value.get_ref() {
            DeValue::String(text) => Some(Located { value: text.as_ref(), at: value.span().start }),
            other => self.wrong(key, value, "a text in quotes", other),
        }
    }

    /// A text, without its place.
    pub(crate) fn string(&self, key: &str) -> Option<String> {
        self.text(key).map(|text| text.value.to_owned())
    }

    /// A text that `read` understands.
    pub(crate) fn parsed<T, E: Display>(&self, key: &str, read: impl Fn(&str) -> Result<T, E>) -> Option<T> {
        let text = self.text(key)?;
        match read(text.value) {
            Ok(value) => Some(value),
            Err(error) => {
                self.source.refuse(text.at, format!("`{key}` of {}: {error}", self.what));
                None
            }
        }
    }

    /// A rate with its unit.
    pub(crate) fn rate(&self, key: &str) -> Option<Rate> {
        self.parsed(key, str::parse::<Rate>)
    }

    /// A duration with its unit, no longer than `most`.
    pub(crate) fn duration(&self, key: &str, most: Duration) -> Option<Duration> {
        let within = |text: &str| {
            let duration = parse_duration(text).map_err(|error: UnitError| error.to_string())?;
            if duration > most {
                return Err(format!("`{text}` is longer than {}", crate::units::format_duration(most)));
            }
            Ok(duration)
        };
        self.parsed(key, within)
    }

    /// A text, or a list of texts.
    pub(crate) fn texts(&self, key: &str) -> Option<Vec<Located<&'t str>>> {
        let value = self.value(key)?;
        let items = match value.get_ref() {
            DeValue::Array(items) => items.iter().collect(),
            _ => vec![value],
        };
        let text = |item: &'t Spanned<DeValue<'t>>| match item.get_ref() {
            DeValue::String(text) => Some(Located { value: text.as_ref(), at: item.span().start }),
            other => self.wrong(key, item, "a text or a list of texts", other),
        };
        items.into_iter().map(text).collect()
    }

    /// The items of a list of tables, however it is written.
    pub(crate) fn tables(&self, key: &str) -> &'t [Spanned<DeValue<'t>>] {
        match self.value(key).map(|value| (value, value.get_ref())) {
            None => &[],
            Some((_, DeValue::Array(items))) => items,
            Some((value, other)) => {
                let message = format!("`{key}` is a list of tables: write [[{key}]], not {}", kind(other));
                self.source.refuse(value.span().start, message);
                &[]
            }
        }
    }

    /// A boolean.
    pub(crate) fn flag(&self, key: &str) -> Option<bool> {
        let value = self.value(key)?;
        match value.get_ref() {
            DeValue::Boolean(flag) => Some(*flag),
            other => self.wrong(key, value, "true or false", other),
        }
    }

    /// A whole number within bounds.
    pub(crate) fn whole(&self, key: &str, least: i64, most: i64) -> Option<i64> {
        let value = self.value(key)?;
        let DeValue::Integer(number) = value.get_ref() else {
            return self.wrong(key, value, "a whole number", value.get_ref());
        };
        let number = i64::from_str_radix(number.as_str(), number.radix()).ok();
        let within = number.filter(|number| (least..=most).contains(number));
        if within.is_none() {
            let message = format!("`{key}` of {} is a whole number from {least} to {most}", self.what);
            self.source.refuse(value.span().start, message);
        }
        within
    }

    /// A number within bounds; `meaning` says what it is: "a probability from 0 to 1".
    pub(crate) fn number(&self, key: &str, least: f64, most: f64, meaning: &str) -> Option<f64> {
        let value = self.value(key)?;
        let number: Option<f64> = match value.get_ref() {
            DeValue::Integer(number) => {
                i64::from_str_radix(number.as_str(), number.radix()).ok().map(|number| number as f64)
            }
            DeValue::Float(number) => number.as_str().parse().ok(),
            other => return self.wrong(key, value, "a number", other),
        };
        let within = number.filter(|number| (least..=most).contains(number));
        if within.is_none() {
            self.source.refuse(value.span().start, format!("`{key}` of {} is {meaning}", self.what));
        }
        within
    }

    /// Two whole numbers.
    pub(crate) fn pair(&self, key: &str) -> Option<(i32, i32)> {
        let value = self.value(key)?;
        let whole = |item: &Spanned<DeValue<'_>>| match item.get_ref() {
            DeValue::Integer(number) => i32::from_str_radix(number.as_str(), number.radix()).ok(),
            _ => None,
        };
        if let DeValue::Array(items) = value.get_ref()
            && let [x, y] = items.as_ref()
            && let (Some(x), Some(y)) = (whole(x), whole(y))
        {
            return Some((x, y));
        }
        let message = format!("`{key}` of {} is two whole numbers: write {key} = [27, 92]", self.what);
        self.source.refuse(value.span().start, message);
        None
    }

    fn wrong<T>(&self, key: &str, value: &Spanned<DeValue<'_>>, expected: &str, got: &DeValue<'_>) -> Option<T> {
        let message = format!("`{key}` of {} is {expected}, not {}", self.what, kind(got));
        self.source.refuse(value.span().start, message);
        None
    }
}

fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}
