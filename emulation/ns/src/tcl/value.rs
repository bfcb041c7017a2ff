//! Tcl's only kind of value: a string, with cached interpretations.

use std::cell::OnceCell;
use std::fmt;
use std::rc::Rc;

use super::completion::TclError;
use super::expr::Expr;
use super::list;
use super::parse::{self, TclScript};

/// The nesting up to which values inside values keep their interpretations. Deeper ones are parsed each time,
/// so that dropping never recurses far.
const MAX_GENERATION: u8 = 12;

/// A string. Clones share it; its interpretation as a list, script or expression is kept.
#[derive(Clone, Default)]
pub(crate) struct TclValue(Rc<Text>);

#[derive(Default)]
struct Text {
    string: String,
    /// The line on which it begins if it was written in braces, else 0.
    line: u32,
    /// The original text, where a backslash before a line's end hides lines.
    raw: Option<String>,
    generation: u8,
    script: OnceCell<Rc<TclScript>>,
    list: OnceCell<Rc<Vec<TclValue>>>,
    expr: OnceCell<Rc<Expr>>,
}

impl TclValue {
    /// A value written in braces from `line` on; `raw` is the original text, if that differs.
    pub(crate) fn written(string: String, raw: Option<String>, line: u32, generation: u8) -> Self {
        Self(Rc::new(Text { string, line, raw, generation, ..Text::default() }))
    }

    /// A part of a value of `generation`.
    pub(crate) fn part(string: String, generation: u8) -> Self {
        Self(Rc::new(Text { string, generation, ..Text::default() }))
    }

    pub(crate) fn from_bool(truth: bool) -> Self {
        Self::from(if truth { "1" } else { "0" })
    }

    pub(crate) fn from_list(items: Vec<Self>) -> Self {
        let string = list::join(items.iter().map(Self::as_str));
        let list = OnceCell::new();
        // Interpretations of deeply nested values are not kept.
        if items.iter().all(|item| item.0.generation < MAX_GENERATION && item.0.list.get().is_none()) {
            let _ = list.set(Rc::new(items));
        }
        Self(Rc::new(Text { string, list, generation: 1, ..Text::default() }))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0.string
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.string.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.string.len()
    }

    /// True if its interpretation as a list is kept.
    pub(crate) fn has_list(&self) -> bool {
        self.0.list.get().is_some()
    }

    /// True if its interpretation as a script is kept.
    pub(crate) fn has_script(&self) -> bool {
        self.0.script.get().is_some()
    }

    /// True if its interpretation as an expression is kept.
    pub(crate) fn has_expr(&self) -> bool {
        self.0.expr.get().is_some()
    }

    /// The line on which it begins, if it was written in braces; else 0.
    pub(crate) fn line(&self) -> u32 {
        self.0.line
    }

    /// The original text, with backslashes before the ends of lines.
    pub(crate) fn raw(&self) -> &str {
        self.0.raw.as_deref().unwrap_or(&self.0.string)
    }

    pub(crate) fn list(&self) -> Result<Rc<Vec<Self>>, TclError> {
        if let Some(list) = self.0.list.get() {
            return Ok(list.clone());
        }
        let inner = self.0.generation.saturating_add(1);
        let items = list::split(self.as_str()).map_err(TclError::new)?;
        let list = Rc::new(items.into_iter().map(|item| Self::part(item, inner)).collect::<Vec<_>>());
        if self.0.generation < MAX_GENERATION {
            let _ = self.0.list.set(list.clone());
        }
        Ok(list)
    }

    pub(crate) fn script(&self) -> Result<Rc<TclScript>, TclError> {
        if let Some(script) = self.0.script.get() {
            return Ok(script.clone());
        }
        let script = Rc::new(parse::script(self.raw(), self.0.line, self.0.generation.saturating_add(1))?);
        if self.0.generation < MAX_GENERATION {
            let _ = self.0.script.set(script.clone());
        }
        Ok(script)
    }

    pub(crate) fn expr(&self) -> Result<Rc<Expr>, TclError> {
        if let Some(expr) = self.0.expr.get() {
            return Ok(expr.clone());
        }
        let expr = Rc::new(super::expr::parse(self.as_str(), self.0.generation.saturating_add(1))?);
        if self.0.generation < MAX_GENERATION {
            let _ = self.0.expr.set(expr.clone());
        }
        Ok(expr)
    }

    /// Appends text, in place if no other value shares the string.
    pub(crate) fn append(&mut self, more: &str) {
        if let Some(text) = self.exclusive() {
            text.list.take();
            text.string.push_str(more);
        } else {
            *self = Self::from([self.as_str(), more].concat());
        }
    }

    /// Appends an element to the list, in place if no other value shares it.
    pub(crate) fn append_element(&mut self, item: &Self) {
        let first = self.is_empty();
        let quoted = list::quote(item.as_str(), first);
        let gap = if first { "" } else { " " };
        let Some(text) = self.exclusive() else {
            *self = Self::from([self.as_str(), gap, &quoted].concat());
            return;
        };
        text.string.push_str(gap);
        text.string.push_str(&quoted);
        let kept = item.0.generation < MAX_GENERATION && item.0.list.get().is_none();
        match text.list.take().map(|list| (Rc::try_unwrap(list), kept)) {
            Some((Ok(mut items), true)) => {
                items.push(item.clone());
                let _ = text.list.set(Rc::new(items));
            }
            _ => {
                text.list.take();
            }
        }
    }

    /// The text alone, if no other value shares it. This discards the original text and the interpretations.
    fn exclusive(&mut self) -> Option<&mut Text> {
        let text = Rc::get_mut(&mut self.0)?;
        text.line = 0;
        text.raw = None;
        text.script.take();
        text.expr.take();
        Some(text)
    }
}

impl From<&str> for TclValue {
    fn from(text: &str) -> Self {
        Self::from(text.to_owned())
    }
}

impl From<String> for TclValue {
    fn from(string: String) -> Self {
        Self(Rc::new(Text { string, ..Text::default() }))
    }
}

impl From<i64> for TclValue {
    fn from(number: i64) -> Self {
        Self::from(number.to_string())
    }
}

impl From<usize> for TclValue {
    fn from(number: usize) -> Self {
        Self::from(number.to_string())
    }
}

impl fmt::Debug for TclValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}
