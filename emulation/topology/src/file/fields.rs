//! Reading of TOML tables, with the line of every mistake.

use std::cell::RefCell;
use std::fmt::Display;
use std::time::Duration;

use ::toml::Spanned;
use ::toml::de::{DeTable, DeValue};

use crate::model::Note;
use crate::suggest::did_you_mean;
use crate::units::{Rate, UnitError, parse_duration};

/// The text being read, and its mistakes so far.
pub struct SourceText {
    lines: Vec<usize>,
    problems: RefCell<Vec<Note>>,
}

impl SourceText {
    pub fn new(text: &str) -> Self {
        let begins = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1);
        Self { lines: std::iter::once(0).chain(begins).collect(), problems: RefCell::default() }
    }

    /// The line, from 1, of a byte offset.
    pub fn line(&self, at: usize) -> u32 {
        u32::try_from(self.lines.partition_point(|begin| *begin <= at)).unwrap_or(u32::MAX)
    }

    /// Records a mistake at a byte offset.
    pub fn refuse(&self, at: usize, text: impl Into<String>) {
        self.problems.borrow_mut().push(Note { line: self.line(at), text: text.into() });
    }

    pub fn into_problems(self) -> Vec<Note> {
        let mut problems = self.problems.into_inner();
        problems.sort();
        problems.dedup();
        problems
    }

    pub fn problems(&self) -> usize {
        self.problems.borrow().len()
    }
}

/// A value and its position in the text.
#[derive(Clone, Copy, Debug)]
pub struct Located<T> {
    pub value: T,
    /// Byte offset in the text.
    pub at: usize,
}

/// A table with a fixed set of known keys.
pub struct Fields<'t> {
    source: &'t SourceText,
    table: &'t DeTable<'t>,
    what: &'static str,
    at: usize,
    /// True if every key is known. Otherwise a missing key may be present under a misspelt name.
    whole: bool,
}

impl<'t> Fields<'t> {
    /// Reads the table in a value; reports another kind of value, and keys that are not in `known`.
    pub fn from_value(
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

    /// Reads a table that begins at the offset `at`; reports keys that are not in `known`.
    pub fn new(source: &'t SourceText, what: &'static str, table: &'t DeTable<'t>, at: usize, known: &[&str]) -> Self {
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

    pub fn source(&self) -> &'t SourceText {
        self.source
    }

    pub fn at(&self) -> usize {
        self.at
    }

    /// Records a mistake about the table as a whole.
    pub fn refuse(&self, text: impl Into<String>) {
        self.source.refuse(self.at, text);
    }

    /// Records a missing key, unless an unknown key may be its misspelling.
    pub fn miss(&self, text: impl Into<String>) {
        if self.whole {
            self.refuse(text);
        }
    }

    pub fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    pub fn value(&self, key: &str) -> Option<&'t Spanned<DeValue<'t>>> {
        self.table.get(key)
    }

    /// The value of a key; reports it if it is missing.
    pub fn required<T>(&self, key: &str, value: Option<T>, example: &str) -> Option<T> {
        if value.is_none() && !self.has(key) {
            self.miss(format!("{} needs `{key}`: write {key} = {example}", self.what));
        }
        value
    }

    pub fn text(&self, key: &str) -> Option<Located<&'t str>> {
        let value = self.value(key)?;
        match value.get_ref() {
            DeValue::String(text) => Some(Located { value: text.as_ref(), at: value.span().start }),
            other => self.wrong(key, value, "a text in quotes", other),
        }
    }

    pub fn string(&self, key: &str) -> Option<String> {
        self.text(key).map(|text| text.value.to_owned())
    }

    pub fn parsed<T, E: Display>(&self, key: &str, read: impl Fn(&str) -> Result<T, E>) -> Option<T> {
        let text = self.text(key)?;
        match read(text.value) {
            Ok(value) => Some(value),
            Err(error) => {
                self.source.refuse(text.at, format!("`{key}` of {}: {error}", self.what));
                None
            }
        }
    }

    pub fn rate(&self, key: &str) -> Option<Rate> {
        self.parsed(key, str::parse::<Rate>)
    }

    /// A duration with its unit, at most `most`.
    pub fn duration(&self, key: &str, most: Duration) -> Option<Duration> {
        let within = |text: &str| {
            let duration = parse_duration(text).map_err(|error: UnitError| error.to_string())?;
            if duration > most {
                return Err(format!("`{text}` is longer than {}", crate::units::format_duration(most)));
            }
            Ok(duration)
        };
        self.parsed(key, within)
    }

    pub fn texts(&self, key: &str) -> Option<Vec<Located<&'t str>>> {
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

    /// The items of a list of tables, in either notation.
    pub fn tables(&self, key: &str) -> &'t [Spanned<DeValue<'t>>] {
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

    pub fn flag(&self, key: &str) -> Option<bool> {
        let value = self.value(key)?;
        match value.get_ref() {
            DeValue::Boolean(flag) => Some(*flag),
            other => self.wrong(key, value, "true or false", other),
        }
    }

    pub fn whole(&self, key: &str, least: i64, most: i64) -> Option<i64> {
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

    /// A number within bounds; `meaning` describes it in messages: "a probability from 0 to 1".
    pub fn number(&self, key: &str, least: f64, most: f64, meaning: &str) -> Option<f64> {
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

    pub fn pair(&self, key: &str) -> Option<(i32, i32)> {
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
