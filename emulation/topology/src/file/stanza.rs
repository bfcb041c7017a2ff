//! Parts of TOML text.

use std::fmt;

use super::shape::LegOverrides;
use crate::model::{Burst, Discipline, PacketOrder, Queue, Red};
use crate::trace::Playback;
use crate::units::format_duration;

/// A heading and its keys with their values, as text.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Stanza {
    heading: &'static str,
    keys: Vec<(&'static str, String)>,
}

impl Stanza {
    pub(super) fn new(heading: &'static str) -> Self {
        Self { heading, keys: Vec::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    pub(super) fn keys_alone(self) -> String {
        Self { heading: "", ..self }.to_string()
    }

    /// Adds a key with a value that is TOML already.
    pub(super) fn raw(&mut self, key: &'static str, value: impl Into<String>) {
        self.keys.push((key, value.into()));
    }

    pub(super) fn first(&mut self, key: &'static str, value: String) {
        self.keys.insert(0, (key, value));
    }

    pub(super) fn text(&mut self, key: &'static str, value: &str) {
        self.raw(key, quote(value));
    }

    pub(super) fn optional(&mut self, key: &'static str, value: Option<&str>) {
        if let Some(value) = value {
            self.text(key, value);
        }
    }

    pub(super) fn shape(&mut self, shape: &LegOverrides) {
        self.optional("rate", shape.rate.map(|rate| rate.to_string()).as_deref());
        self.optional("delay", shape.delay.map(format_duration).as_deref());
        if let Some(loss) = shape.loss {
            self.raw("loss", format!("{loss:?}"));
        }
        self.optional("jitter", shape.jitter.map(format_duration).as_deref());
        if let Some(burst) = &shape.burst {
            self.raw("burst", burst_value(*burst));
        }
        if let Some(order) = shape.order {
            self.raw("reorder", (order == PacketOrder::Free).to_string());
        }
        if let Some(queue) = &shape.queue {
            self.raw("queue", queue_value(queue));
        }
        if let Some(trace) = &shape.trace {
            self.raw("trace", trace.as_deref().map_or_else(|| "false".to_owned(), trace_text));
        }
    }

    /// Adds an inline table of a shape's values, unless it is empty.
    pub(super) fn inner(&mut self, key: &'static str, shape: &LegOverrides) {
        let mut inner = Self::new("");
        inner.shape(shape);
        if !inner.is_empty() {
            self.raw(key, table(&inner));
        }
    }
}

impl fmt::Display for Stanza {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.heading.is_empty() {
            writeln!(f, "{}", self.heading)?;
        }
        self.keys.iter().try_for_each(|(key, value)| writeln!(f, "{key} = {value}"))
    }
}

pub(super) fn table(stanza: &Stanza) -> String {
    let keys: Vec<String> = stanza.keys.iter().map(|(key, value)| format!("{key} = {value}")).collect();
    format!("{{ {} }}", keys.join(", "))
}

pub(super) fn list(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(", "))
}

/// A text as a TOML string on one line, which may be a key, too.
pub fn quote(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            c if c.is_control() => quoted.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

pub fn burst_value(burst: Option<Burst>) -> String {
    let Some(Burst { enter, leave, loss }) = burst else { return "false".to_owned() };
    format!("{{ enter = {enter:?}, leave = {leave:?}, loss = {loss:?} }}")
}

fn trace_text(playback: &Playback) -> String {
    if playback.start.is_zero() && !playback.once {
        return quote(&playback.file);
    }
    let mut inner = Stanza::new("");
    inner.text("file", &playback.file);
    if !playback.start.is_zero() {
        inner.text("start", &format_duration(playback.start));
    }
    if playback.once {
        inner.raw("once", "true");
    }
    table(&inner)
}

pub fn queue_value(queue: &Queue) -> String {
    let mut inner = Stanza::new("");
    inner.raw("limit", queue.limit.to_string());
    if queue.in_bytes {
        inner.text("in", "bytes");
    }
    match queue.discipline {
        Discipline::DropTail => {}
        Discipline::Red(red) if red == Red::DEFAULT => inner.raw("red", "true"),
        Discipline::Red(red) => {
            let Red { min_threshold, max_threshold, linterm, weight, gentle } = red;
            let text =
                format!("min = {min_threshold}, max = {max_threshold}, linterm = {linterm}, weight = {weight:?}");
            let gentle = if gentle { ", gentle = true" } else { "" };
            inner.raw("red", format!("{{ {text}{gentle} }}"));
        }
    }
    table(&inner)
}
